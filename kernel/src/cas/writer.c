/* SPDX-License-Identifier: Apache-2.0 */
/* writer.c - from pieces to a published object.
 *
 *      begin -> append* -> commit: hash, compare, claim -> already there and sound: discard
 *                    |                               \-> sync, folders, rename, sync folder, settle
 *                    +-> abort, or any failure: remove the temporary, give the bytes back
 *
 * Invariants:
 *   I1 a file reaches objects/ by rename only, after its whole content was written and synced, and
 *      under the name of what was hashed while it was written.
 *   I2 commit says RON_OK only after the name was synced, by this writer or by the one that
 *      published in this life.
 *   I3 a sync that failed is not tried again: the temporary goes.
 *   I4 every byte of a writer is reserved before it is written, and given back unless published.
 *
 * Replacing an object that is there but unchecked (left by an earlier life, unreadable or BAD) with
 * our own copy heals it, and is harmless otherwise: both have the same bytes.
 *
 * Threads: a writer belongs to one at a time; blocking on disk. */
#include <string.h>

#include "cas/cas_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    FIRST_BLOCK = 4096,            /* of an object in memory whose size is not known */
    FLOOR_STEP = 16 * 1024 * 1024, /* bytes between two looks at the free space */
    TEMP_TRIES = 16,               /* names that strays may have taken */
};

struct ron_cas_writer {
    uint32_t magic;
    struct ron_cas *store;
    enum ron_rc rc; /* first failure */
    bool has_expected;
    bool pin;
    struct ron_b3 expected;
    uint64_t size_hint;
    uint64_t size;
    uint64_t floor_next; /* size at which the free space is looked at again */
    int fd;
    uint64_t temp;    /* number of the temporary; its file exists while fd >= 0 */
    uint8_t **blocks; /* in memory: all but the last are full */
    size_t block_count;
    size_t block_room; /* of the array */
    size_t last_cap;   /* bytes that the last block can hold */
    struct ron_b3_hasher hasher;
};

/* ---- in memory ------------------------------------------------------------------------------- */

static size_t last_len(const struct ron_cas_writer *w)
{
    return w->block_count == 0 ? 0 : (size_t)(w->size - (w->block_count - 1) * RON__CAS_BLOCK);
}

/* Changes the capacity of the last block. Its old memory is wiped. */
static enum ron_rc last_resize(struct ron_cas_writer *w, size_t cap)
{
    uint8_t **last = &w->blocks[w->block_count - 1];
    size_t len = last_len(w);
    uint8_t *fresh = ron_alloc(cap);

    if (fresh == NULL) {
        return RON_NOMEM;
    }
    memcpy(fresh, *last, len);
    ron__cas_wipe_free(w->store, *last, len);
    *last = fresh;
    w->last_cap = cap;
    return RON_OK;
}

static enum ron_rc block_add(struct ron_cas_writer *w)
{
    uint64_t left = w->size_hint > w->size ? w->size_hint - w->size : 0;
    size_t cap = w->block_count == 0 ? FIRST_BLOCK : RON__CAS_BLOCK;
    uint8_t *block;

    if (left > 0) {
        cap = (size_t)RON_MIN(left, (uint64_t)RON__CAS_BLOCK);
    }
    if (w->block_count == w->block_room) {
        size_t room = w->block_room == 0 ? 1 : 2 * w->block_room;
        uint8_t **blocks = ron_realloc_array(w->blocks, room, sizeof *blocks);

        if (blocks == NULL) {
            return RON_NOMEM;
        }
        w->blocks = blocks;
        w->block_room = room;
    }
    block = ron_alloc(cap);
    if (block == NULL) {
        return RON_NOMEM;
    }
    w->blocks[w->block_count++] = block;
    w->last_cap = cap;
    return RON_OK;
}

static enum ron_rc memory_append(struct ron_cas_writer *w, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        size_t have = last_len(w);
        size_t part;

        if (w->block_count == 0 || have == RON__CAS_BLOCK) {
            RON_TRY(block_add(w));
            have = 0;
        } else if (have == w->last_cap) {
            RON_TRY(last_resize(w, RON_MIN(4 * w->last_cap, (size_t)RON__CAS_BLOCK)));
        }
        part = RON_MIN(len, w->last_cap - have);
        memcpy(w->blocks[w->block_count - 1] + have, bytes, part);
        w->size += part;
        bytes += part;
        len -= part;
    }
    return RON_OK;
}

/* The writer's blocks as an object; the writer has none afterwards. */
static struct ron_cas_obj *memory_object(struct ron_cas_writer *w, const struct ron_b3 *id)
{
    struct ron_cas_obj *obj = ron__cas_obj_new(w->store, id, w->size);

    if (obj == NULL || (w->block_count == 0 && block_add(w) != RON_OK)) { /* the empty object */
        ron_free(obj);
        return NULL;
    }
    if (w->last_cap > last_len(w) && last_len(w) > 0) {
        RON_IGNORE(last_resize(w, last_len(w))); /* without memory for it the slack stays */
    }
    if (w->block_count == 1) {
        obj->one[0] = w->blocks[0];
        obj->blocks = obj->one;
        ron_free(w->blocks);
    } else {
        obj->blocks = w->blocks;
    }
    w->blocks = NULL;
    w->block_count = 0;
    return obj;
}

static enum ron_rc memory_publish(struct ron_cas_writer *w, const struct ron_b3 *id,
                                  bool *ret_published, struct ron_err *err)
{
    struct ron_cas *s = w->store;
    struct ron_cas_obj *obj = memory_object(w, id);
    struct ron__cas_news news = {.size = w->size,
                                 .stamp_s = ron__cas_now_s(s),
                                 .flags = RON__CAS_VERIFIED | RON__CAS_DURABLE,
                                 .pin = w->pin};
    enum ron_rc rc = obj == NULL ? RON_NOMEM : RON_FULL;

    for (int i = 0; i < RON__CAS_FULL_TRIES && rc == RON_FULL; i++) {
        rc = ron__cas_memory_add(s, obj, &news);
        if (rc == RON_FULL) {
            enum ron_rc one = ron__cas_evict_for(s, id);

            rc = one == RON_OK ? rc : one;
        }
    }
    if (rc == RON_OK) {
        ron_stat_add(&s->counts.commits, 1);
        *ret_published = true;
        return RON_OK;
    }
    if (obj != NULL) {
        ron__cas_obj_free(obj);
    }
    if (rc == RON_EXISTS) {
        ron_stat_add(&s->counts.duplicates, 1);
        return RON_OK;
    }
    return ron_err_set(err, rc, "content store: no place for an object");
}

/* ---- on disk --------------------------------------------------------------------------------- */

static enum ron_rc disk_begin(struct ron_cas_writer *w, struct ron_err *err)
{
    struct ron_cas *s = w->store;
    uint32_t flags = RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_EXCL;
    enum ron_rc rc = RON_EXISTS;

    RON_TRY(ron__cas_check_floor(s, w->size_hint, err));
    w->floor_next = RON_MAX(w->size_hint, (uint64_t)FLOOR_STEP);
    for (int i = 0; i < TEMP_TRIES && rc == RON_EXISTS; i++) {
        w->temp = ron_au64_add(&s->temp_number, 1);
        rc = s->env->disk->open(s->env, ron__cas_path_temp(s, w->temp).s, flags, 0600, &w->fd, err);
    }
    return rc;
}

static enum ron_rc disk_append(struct ron_cas_writer *w, const void *bytes, size_t len,
                               struct ron_err *err)
{
    struct ron_cas *s = w->store;

    if (w->size >= w->floor_next) {
        RON_TRY(ron__cas_check_floor(s, FLOOR_STEP, err));
        w->floor_next = w->size + FLOOR_STEP;
    }
    RON_TRY(s->env->disk->pwrite(s->env, w->fd, bytes, len, w->size, err));
    w->size += len;
    return RON_OK;
}

/* Sync, rename, sync (I1, I2). `ret_renamed` tells how far it came. */
static enum ron_rc disk_move(struct ron_cas_writer *w, const struct ron_b3 *id, bool *ret_renamed,
                             struct ron_err *err)
{
    struct ron_cas *s = w->store;
    const struct ron_disk_ops *disk = s->env->disk;
    struct ron__cas_path temp = ron__cas_path_temp(s, w->temp);

    RON_TRY(disk->sync(s->env, w->fd, false, err)); /* I3: the caller gives up */
    RON_TRY(ron__cas_dirs_make(s, id, err));
    RON_TRY(disk->rename(s->env, temp.s, ron__cas_path_of(s, id, RON__CAS_FILE).s, err));
    *ret_renamed = true;
    disk->close(s->env, w->fd);
    w->fd = -1; /* the temporary is gone, too */
    return disk->sync_dir(s->env, ron__cas_path_of(s, id, RON__CAS_LEAF).s, err);
}

static bool file_exists(const struct ron_cas *s, const struct ron_b3 *id)
{
    struct ron_file_stat st;

    return s->env->disk->stat_link(s->env, ron__cas_path_of(s, id, RON__CAS_FILE).s, &st) !=
           RON_NOTFOUND;
}

/* The name is ours, but not known to be durable, and the commit has failed. An object that was
 * there before stays one; and so does ours when it cannot be taken back: it is whole. */
static void half_published(struct ron_cas_writer *w, struct ron__cas_claim *c, bool was_there)
{
    struct ron_cas *s = w->store;

    if (c->fresh && !was_there) {
        enum ron_rc rc =
            s->env->disk->remove(s->env, ron__cas_path_of(s, &c->entry->id, RON__CAS_FILE).s, NULL);

        if (rc == RON_OK || rc == RON_NOTFOUND) {
            return;
        }
    }
    if (!c->fresh) {
        ron__cas_unreserve(s, c->entry->size);
    }
    (void)ron_au64_add(&s->used, w->size); /* the writer gives its own share back */
    ron__cas_settle(s, c, NULL,
                    &(struct ron__cas_news){.size = w->size,
                                            .stamp_s = ron__cas_now_s(s),
                                            .clear = RON__CAS_VERIFIED | RON__CAS_DURABLE,
                                            .replaced = true});
}

static enum ron_rc disk_publish(struct ron_cas_writer *w, struct ron__cas_claim *c,
                                struct ron_err *err)
{
    struct ron_cas *s = w->store;
    const struct ron_b3 id = c->entry->id;
    /* While the index is not complete only the disk knows. */
    bool was_there = c->fresh && !ron_cas_loaded(s) && file_exists(s, &id);
    bool renamed = false;
    enum ron_rc rc = disk_move(w, &id, &renamed, err);

    if (rc != RON_OK) {
        if (renamed) {
            half_published(w, c, was_there);
        }
        return rc;
    }
    if (!c->fresh) {
        ron__cas_unreserve(s, c->entry->size); /* the copy that was replaced */
    }
    ron__cas_settle(s, c, NULL,
                    &(struct ron__cas_news){.size = w->size,
                                            .stamp_s = ron__cas_now_s(s),
                                            .flags = RON__CAS_VERIFIED | RON__CAS_DURABLE,
                                            .pin = w->pin,
                                            .replaced = true});
    return RON_OK;
}

/* ---- the life of a writer -------------------------------------------------------------------- */

/* Frees the writer and what it has not published. */
static void writer_end(struct ron_cas_writer *w, bool published)
{
    struct ron_cas *s = w->store;

    if (w->fd >= 0) {
        s->env->disk->close(s->env, w->fd);
        /* Should it stay, the next start clears it. */
        RON_IGNORE(s->env->disk->remove(s->env, ron__cas_path_temp(s, w->temp).s, NULL));
    }
    for (size_t i = 0; i < w->block_count; i++) {
        ron__cas_wipe_free(s, w->blocks[i],
                           i + 1 < w->block_count ? (size_t)RON__CAS_BLOCK : last_len(w));
    }
    ron_free(w->blocks);
    if (!published) {
        ron__cas_unreserve(s, w->size); /* keeps I4 */
    }
    (void)ron_au32_add(&s->writers, UINT32_MAX); /* one less */
    w->magic = 0;
    ron__cas_wipe_free(s, w, sizeof *w);
}

/* One of writers_max places. */
static bool writer_place(struct ron_cas *s)
{
    if (ron_au32_add(&s->writers, 1) < s->opts.writers_max) {
        return true;
    }
    (void)ron_au32_add(&s->writers, UINT32_MAX);
    return false;
}

enum ron_rc ron_cas_begin(struct ron_cas *s, const struct ron_cas_write_opts *opts,
                          struct ron_cas_writer **ret_writer, struct ron_err *err)
{
    const struct ron_cas_write_opts none = {0};
    struct ron_cas_writer *w;
    enum ron_rc rc = RON_OK;

    RON_CHECK_MAGIC(s, RON__CAS_MAGIC);
    opts = opts == NULL ? &none : opts;
    if (opts->size_hint > s->opts.object_bytes_max) {
        ron_stat_add(&s->counts.write_failures, 1);
        return ron_err_set(err, RON_LIMIT, "an object of %llu bytes; at most %llu",
                           (unsigned long long)opts->size_hint,
                           (unsigned long long)s->opts.object_bytes_max);
    }
    if (!writer_place(s)) {
        ron_stat_add(&s->counts.write_failures, 1);
        return ron_err_set(err, RON_FULL, "content store: %u writers already",
                           (unsigned)s->opts.writers_max);
    }
    w = ron_alloc_zero(sizeof *w);
    if (w == NULL) {
        (void)ron_au32_add(&s->writers, UINT32_MAX);
        ron_stat_add(&s->counts.write_failures, 1);
        return ron_err_set(err, RON_NOMEM, "no memory for a writer");
    }
    w->magic = RON__CAS_WRITER_MAGIC;
    w->store = s;
    w->fd = -1;
    w->pin = opts->pin;
    w->size_hint = opts->size_hint;
    w->has_expected = opts->expected != NULL;
    w->expected = opts->expected != NULL ? *opts->expected : w->expected;
    ron_b3_init(&w->hasher);
    ron__cas_bury(s);
    if (s->on_disk) {
        rc = disk_begin(w, err);
    }
    if (rc != RON_OK) {
        ron_stat_add(&s->counts.write_failures, 1);
        writer_end(w, false);
        return rc;
    }
    *ret_writer = w;
    return RON_OK;
}

static enum ron_rc append(struct ron_cas_writer *w, const void *bytes, size_t len,
                          struct ron_err *err)
{
    struct ron_cas *s = w->store;
    uint64_t before = w->size;
    enum ron_rc rc;

    if (len > s->opts.object_bytes_max - w->size) {
        return ron_err_set(err, RON_LIMIT, "an object of more than %llu bytes",
                           (unsigned long long)s->opts.object_bytes_max);
    }
    RON_TRY(ron__cas_reserve(s, len, err));
    if (s->on_disk) {
        rc = disk_append(w, bytes, len, err);
    } else {
        rc = memory_append(w, bytes, len);
        if (rc != RON_OK) {
            (void)ron_err_set(err, rc, "no memory for an object");
        }
    }
    if (rc != RON_OK) {
        ron__cas_unreserve(s, len - (w->size - before)); /* the rest goes with the writer */
        return rc;
    }
    ron_b3_update(&w->hasher, bytes, len);
    return RON_OK;
}

enum ron_rc ron_cas_append(struct ron_cas_writer *w, const void *bytes, size_t len,
                           struct ron_err *err)
{
    RON_CHECK_MAGIC(w, RON__CAS_WRITER_MAGIC);
    if (w->rc != RON_OK) {
        return ron_err_set(err, w->rc, "this writer has failed before");
    }
    if (len > 0) {
        w->rc = append(w, bytes, len, err);
    }
    return w->rc;
}

static enum ron_rc publish(struct ron_cas_writer *w, const struct ron_b3 *id, bool *ret_published,
                           struct ron_err *err)
{
    const uint16_t sound = RON__CAS_READY | RON__CAS_VERIFIED | RON__CAS_DURABLE;
    struct ron_cas *s = w->store;
    struct ron__cas_claim c;
    enum ron_rc rc;

    if (!s->on_disk) {
        return memory_publish(w, id, ret_published, err);
    }
    RON_TRY(ron__cas_claim_make(s, id, &c, err));
    if ((c.flags & sound) == sound && ron__cas_is_there(s, &c)) {
        ron_stat_add(&s->counts.duplicates, 1);
        ron__cas_settle(s, &c, NULL,
                        &(struct ron__cas_news){.size = c.entry->size,
                                                .stamp_s = ron__cas_now_s(s),
                                                .flags = RON__CAS_WARM,
                                                .pin = w->pin});
        return RON_OK;
    }
    rc = disk_publish(w, &c, err);
    if (rc == RON_OK) {
        ron_stat_add(&s->counts.commits, 1);
        *ret_published = true;
    } else if (c.entry == NULL) {
        /* half_published has ended the claim */
    } else if (c.fresh) {
        ron__cas_drop(s, &c, false);
    } else {
        ron__cas_unclaim(&c, 0, 0);
    }
    return rc;
}

enum ron_rc ron_cas_commit(struct ron_cas_writer *take_writer, struct ron_b3 *ret_id,
                           struct ron_err *err)
{
    struct ron_cas_writer *w = take_writer;
    struct ron_cas *s;
    struct ron_b3 id;
    bool published = false;
    enum ron_rc rc;

    RON_CHECK_MAGIC(w, RON__CAS_WRITER_MAGIC);
    s = w->store;
    ron_b3_final(&w->hasher, &id);
    if (w->rc != RON_OK) {
        rc = ron_err_set(err, w->rc, "this writer has failed before");
    } else if (w->has_expected && !ron_b3_equal(&id, &w->expected)) {
        ron_stat_add(&s->counts.mismatches, 1);
        rc = ron_err_set(err, RON_CONFLICT, "the bytes are not those of the id that was promised");
    } else {
        rc = publish(w, &id, &published, err);
    }
    if (rc != RON_OK) {
        ron_stat_add(&s->counts.write_failures, 1);
    } else {
        *ret_id = id;
    }
    writer_end(w, published);
    return rc;
}

void ron_cas_abort(struct ron_cas_writer *take_writer)
{
    if (take_writer != NULL) {
        RON_CHECK_MAGIC(take_writer, RON__CAS_WRITER_MAGIC);
        if (take_writer->rc != RON_OK) {
            ron_stat_add(&take_writer->store->counts.write_failures, 1);
        }
        writer_end(take_writer, false);
    }
}
