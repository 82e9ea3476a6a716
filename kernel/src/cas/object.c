/* SPDX-License-Identifier: Apache-2.0 */
/* object.c - objects that are open: fetched from disk, checked, lent out; damaged ones put away.
 *
 * Place: cas. Small objects of a disk store are read into memory and hashed there, so what is
 * served is what was checked; larger ones are served from their file.
 *
 * Invariants:
 *   I1 an object is made from a file only after its size agreed with the index and, unless the
 *      entry is VERIFIED and the object large, its bytes with its id.
 *   I2 bytes that did not agree are never seen by a caller.
 *
 * Threads: ron_cas_slice and the accessors read fixed fields only. The rest blocks on disk.
 * Failure: unreadable is RON_IO and changes nothing; readable but wrong is RON_CORRUPT and ends in
 * quarantine. */
#include <string.h>

#include "cas/cas_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

/* ---- memory ---------------------------------------------------------------------------------- */

struct ron_cas_obj *ron__cas_obj_new(struct ron_cas *s, const struct ron_b3 *id, uint64_t size)
{
    struct ron_cas_obj *obj = ron_alloc_zero(sizeof *obj);

    if (obj != NULL) {
        obj->magic = RON__CAS_OBJ_MAGIC;
        obj->store = s;
        obj->shard = ron__cas_shard_of(s, id);
        obj->id = *id;
        obj->size = size;
        obj->fd = -1;
    }
    return obj;
}

void ron__cas_wipe_free(const struct ron_cas *s, void *bytes, size_t len)
{
    if (bytes != NULL && !s->on_disk) {
        explicit_bzero(bytes, len); /* amnesia: nothing outlives its use */
    }
    ron_free(bytes);
}

void ron__cas_obj_free(struct ron_cas_obj *obj)
{
    uint64_t left = obj->size;

    RON_CHECK_MAGIC(obj, RON__CAS_OBJ_MAGIC);
    RON_ASSERT(obj->refs == 0);
    if (obj->fd >= 0) {
        obj->store->env->disk->close(obj->store->env, obj->fd);
    }
    for (size_t i = 0; obj->blocks != NULL && (i == 0 || left > 0); i++) {
        size_t len = (size_t)RON_MIN(left, (uint64_t)RON__CAS_BLOCK);

        ron__cas_wipe_free(obj->store, obj->blocks[i], len);
        left -= len;
    }
    if (obj->blocks != obj->one) {
        ron_free(obj->blocks);
    }
    obj->magic = 0;
    ron_free(obj);
}

/* ---- lending --------------------------------------------------------------------------------- */

const struct ron_b3 *ron_cas_obj_id(const struct ron_cas_obj *obj)
{
    RON_CHECK_MAGIC(obj, RON__CAS_OBJ_MAGIC);
    return &obj->id;
}

uint64_t ron_cas_obj_size(const struct ron_cas_obj *obj)
{
    RON_CHECK_MAGIC(obj, RON__CAS_OBJ_MAGIC);
    return obj->size;
}

struct ron_cas_slice ron_cas_slice(const struct ron_cas_obj *obj, uint64_t off, uint64_t len)
{
    struct ron_cas_slice slice = {.fd = -1, .off = off};
    uint64_t in_block = off % RON__CAS_BLOCK;

    RON_CHECK_MAGIC(obj, RON__CAS_OBJ_MAGIC);
    if (off >= obj->size) {
        slice.off = obj->size;
        return slice;
    }
    slice.len = RON_MIN(len, obj->size - off);
    if (obj->blocks == NULL) {
        slice.fd = obj->fd;
        return slice;
    }
    slice.bytes = obj->blocks[off / RON__CAS_BLOCK] + in_block;
    slice.len = RON_MIN(slice.len, RON__CAS_BLOCK - in_block);
    return slice;
}

enum ron_rc ron_cas_read(const struct ron_cas_obj *obj, uint64_t off, void *buf, size_t len,
                         size_t *ret_len)
{
    const struct ron_env *env = obj->store->env;
    size_t done = 0;

    while (done < len) {
        struct ron_cas_slice slice = ron_cas_slice(obj, off + done, len - done);
        size_t got = (size_t)slice.len;

        if (slice.len == 0) {
            break;
        }
        if (slice.bytes != NULL) {
            memcpy((uint8_t *)buf + done, slice.bytes, got);
        } else {
            enum ron_rc rc = env->disk->pread(env, slice.fd, (uint8_t *)buf + done,
                                              (size_t)slice.len, slice.off, &got);

            if (rc != RON_OK || got != slice.len) {
                ron_cas_suspect(obj);
                return rc == RON_OK ? RON_IO : rc; /* cut, though it is never changed */
            }
        }
        done += got;
    }
    *ret_len = done;
    return RON_OK;
}

/* ---- fetching -------------------------------------------------------------------------------- */

/* Hashes a file of known size. Shorter is RON_CORRUPT. */
static enum ron_rc hash_file(const struct ron_env *env, int fd, uint64_t size,
                             struct ron_b3 *ret_hash, struct ron_err *err)
{
    struct ron_b3_hasher h;
    uint8_t *block = ron_alloc(RON__CAS_BLOCK);
    enum ron_rc rc =
        block == NULL ? ron_err_set(err, RON_NOMEM, "no memory to check with") : RON_OK;
    uint64_t at = 0;

    ron_b3_init(&h);
    while (rc == RON_OK && at < size) {
        size_t want = (size_t)RON_MIN(size - at, (uint64_t)RON__CAS_BLOCK);
        size_t got = 0;

        rc = env->disk->pread(env, fd, block, want, at, &got);
        if (rc != RON_OK) {
            (void)ron_err_set(err, rc, "cannot read an object at %llu", (unsigned long long)at);
        } else if (got != want) {
            rc = ron_err_set(err, RON_CORRUPT, "an object is shorter than it was");
        } else {
            ron_b3_update(&h, block, got);
            at += got;
        }
    }
    ron_free(block);
    if (rc == RON_OK) {
        ron_b3_final(&h, ret_hash);
    }
    return rc;
}

static enum ron_rc fetch_small(struct ron_cas_obj *obj, int fd, struct ron_err *err)
{
    const struct ron_env *env = obj->store->env;
    size_t got = 0;
    struct ron_b3 hash;

    obj->one[0] = ron_alloc((size_t)obj->size);
    obj->blocks = obj->one;
    if (obj->one[0] == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for an object");
    }
    if (obj->size > 0) {
        enum ron_rc rc = env->disk->pread(env, fd, obj->one[0], (size_t)obj->size, 0, &got);

        if (rc != RON_OK) {
            return ron_err_set(err, rc, "cannot read an object");
        }
    }
    ron_b3_hash(obj->one[0], got, &hash);
    if (got != obj->size || !ron_b3_equal(&hash, &obj->id)) {
        return ron_err_set(err, RON_CORRUPT, "an object's bytes are not those of its id");
    }
    return RON_OK;
}

static enum ron_rc check_large(const struct ron_cas *s, const struct ron_b3 *id, int fd,
                               uint64_t size, struct ron_err *err)
{
    struct ron_b3 hash;

    RON_TRY(hash_file(s->env, fd, size, &hash, err));
    return ron_b3_equal(&hash, id)
               ? RON_OK
               : ron_err_set(err, RON_CORRUPT, "an object's bytes are not those of its id");
}

enum ron_rc ron__cas_fetch(struct ron_cas *s, const struct ron__cas_claim *c, bool check,
                           struct ron_cas_obj **ret_obj, struct ron_err *err)
{
    const struct ron_b3 *id = &c->entry->id;
    struct ron_cas_obj *obj = NULL;
    uint64_t size = 0;
    int fd = -1;
    enum ron_rc rc;

    rc = s->env->disk->open(s->env, ron__cas_path_of(s, id, RON__CAS_FILE).s,
                            RON_OPEN_READ | RON_OPEN_PLAIN, 0, &fd, err);
    if (rc != RON_OK) {
        return rc == RON_INVALID ? ron_err_set(err, RON_CORRUPT, "an object is no file") : rc;
    }
    rc = s->env->disk->size(s->env, fd, &size);
    if (rc != RON_OK) {
        (void)ron_err_set(err, rc, "cannot learn the size of an object");
    } else if (!c->fresh && size != c->entry->size) {
        rc = ron_err_set(err, RON_CORRUPT, "an object has another size than it had"); /* I1 */
    } else if (ret_obj == NULL) {
        rc = check_large(s, id, fd, size, err);
    } else if ((obj = ron__cas_obj_new(s, id, size)) == NULL) {
        rc = ron_err_set(err, RON_NOMEM, "no memory for an object");
    } else if (size <= RON_CAS_SMALL_MAX) {
        rc = fetch_small(obj, fd, err);
    } else {
        rc = check ? check_large(s, id, fd, size, err) : RON_OK;
        obj->fd = rc == RON_OK ? fd : -1;
    }
    if (obj == NULL || obj->fd < 0) {
        s->env->disk->close(s->env, fd);
    }
    if (rc != RON_OK && obj != NULL) {
        ron__cas_obj_free(obj); /* keeps I2 */
    } else if (rc == RON_OK && ret_obj != NULL) {
        *ret_obj = obj;
    }
    return rc;
}

void ron__cas_quarantine(struct ron_cas *s, struct ron__cas_claim *c)
{
    const struct ron_disk_ops *disk = s->env->disk;
    struct ron__cas_path from = ron__cas_path_of(s, &c->entry->id, RON__CAS_FILE);
    struct ron__cas_path to = ron__cas_path_quarantine(s, &c->entry->id);
    bool counted = !c->fresh;
    enum ron_rc rc = RON_FULL;

    ron_stat_add(&s->counts.quarantined, 1);
    if (ron_au32_load(&s->quarantine_files) >= RON_CAS_QUARANTINE_MAX) {
        RON_IGNORE(ron__cas_quarantine_count(s, NULL)); /* too low a count only keeps one more */
    }
    if (ron_au32_load(&s->quarantine_files) < RON_CAS_QUARANTINE_MAX) {
        rc = disk->rename(s->env, from.s, to.s, NULL);
    }
    if (rc == RON_OK) {
        (void)ron_au32_add(&s->quarantine_files, 1);
    } else {
        rc = disk->remove(s->env, from.s, NULL);
    }
    if (rc == RON_OK || rc == RON_NOTFOUND) {
        /* Not synced: should the name come back after a crash, it is checked anew. */
        ron__cas_drop(s, c, counted);
    } else if (c->fresh) {
        ron__cas_drop(s, c, false);
    } else {
        /* It stays where it is and known as bad; a writer may still replace it. */
        ron__cas_unclaim(c, RON__CAS_BAD, RON__CAS_READY | RON__CAS_VERIFIED | RON__CAS_DURABLE);
    }
}

/* Ends the claim after a fetch that failed. */
static void fetch_failed(struct ron_cas *s, struct ron__cas_claim *c, enum ron_rc rc)
{
    if (rc == RON_CORRUPT) {
        ron__cas_quarantine(s, c);
    } else if (rc == RON_NOTFOUND) {
        ron_stat_add(&s->counts.misses, 1);
        ron__cas_drop(s, c, !c->fresh);
    } else {
        ron_stat_add(&s->counts.read_errors, 1);
        if (c->fresh) {
            ron__cas_drop(s, c, false);
        } else {
            ron__cas_unclaim(c, 0, rc == RON_IO ? RON__CAS_VERIFIED : 0);
        }
    }
}

enum ron_rc ron_cas_open(struct ron_cas *s, const struct ron_b3 *id, struct ron_cas_obj **ret_obj,
                         struct ron_err *err)
{
    struct ron__cas_claim c;
    struct ron_cas_obj *obj = NULL;
    enum ron_rc rc = ron_cas_get(s, id, ret_obj);
    bool check;

    if (rc != RON_AGAIN) {
        return rc == RON_OK ? rc : ron_err_set(err, rc, "no such object");
    }
    ron__cas_bury(s);
    rc = ron_cas_loaded(s) ? ron__cas_claim(s, id, false, &c, err)
                           : ron__cas_claim_make(s, id, &c, err);
    if (rc != RON_OK) {
        ron_stat_add(rc == RON_NOTFOUND ? &s->counts.misses : &s->counts.read_errors, 1);
        return rc;
    }
    obj = ron__cas_hold_open(&c);
    if (obj != NULL) { /* somebody was faster */
        ron__cas_unclaim(&c, 0, 0);
        *ret_obj = obj;
        return RON_OK;
    }
    check = s->opts.verify_always || (c.flags & RON__CAS_VERIFIED) == 0;
    rc = (c.flags & RON__CAS_BAD) != 0 ? ron_err_set(err, RON_CORRUPT, "a damaged object")
                                       : ron__cas_fetch(s, &c, check, &obj, err);
    if (rc != RON_OK) {
        fetch_failed(s, &c, rc);
        return rc;
    }
    RON_ASSERT(obj != NULL);
    if (c.fresh) {
        (void)ron_au64_add(&s->used, obj->size);
    }
    ron_stat_add(&s->counts.loads, 1);
    ron__cas_settle(s, &c, obj,
                    &(struct ron__cas_news){.size = obj->size,
                                            .stamp_s = ron__cas_now_s(s),
                                            .flags = RON__CAS_VERIFIED | RON__CAS_WARM});
    *ret_obj = obj;
    return RON_OK;
}
