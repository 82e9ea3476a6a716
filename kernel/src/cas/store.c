/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - making and ending a store, its figures, pins and removal.
 *
 * Place: cas, the top: everything else is put together here. Contract in ron/cas/cas.h.
 *
 * Invariant: a store whose making failed leaves no memory and no open file; folders that were made
 * stay, they are as good as new.
 *
 * Threads: new and free belong to one; the rest may be called from all that may block. */
#include <string.h>

#include "cas/cas_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

/* ---- life ------------------------------------------------------------------------------------ */

static uint64_t or_default(uint64_t value, uint64_t standard)
{
    return value == 0 ? standard : value;
}

static struct ron_cas_opts fill_in(const struct ron_cas_opts *given)
{
    struct ron_cas_opts o = *given;

    o.bytes_max = or_default(o.bytes_max,
                             o.dir == NULL ? RON_CAS_MEMORY_BYTES_DEFAULT : RON_CAS_BYTES_DEFAULT);
    o.object_bytes_max =
        RON_MIN(or_default(o.object_bytes_max, RON_CAS_OBJECT_BYTES_DEFAULT), o.bytes_max);
    o.objects_max = (uint32_t)or_default(o.objects_max, RON_CAS_OBJECTS_DEFAULT);
    o.cache_bytes_max = or_default(o.cache_bytes_max, RON_CAS_CACHE_BYTES_DEFAULT);
    o.open_max = (uint32_t)or_default(o.open_max, RON_CAS_OPEN_DEFAULT);
    o.writers_max = (uint32_t)or_default(o.writers_max, RON_CAS_WRITERS_DEFAULT);
    o.free_floor_bytes = or_default(o.free_floor_bytes, RON_CAS_FLOOR_DEFAULT);
    return o;
}

static enum ron_rc check_opts(const struct ron_cas_opts *opts, struct ron_err *err)
{
    if (opts->objects_max > RON_CAS_OBJECTS_MAX) {
        return ron_err_set(err, RON_LIMIT, "%u objects; at most %u", (unsigned)opts->objects_max,
                           (unsigned)RON_CAS_OBJECTS_MAX);
    }
    if (opts->dir != NULL &&
        (opts->dir[0] == '\0' || strlen(opts->dir) >= RON_FILE_PATH_SIZE - RON__CAS_SUFFIX_SIZE)) {
        return ron_err_set(err, RON_INVALID, "folder of the content store: empty or too long");
    }
    return RON_OK;
}

static uint32_t shards_for(uint32_t objects_max)
{
    uint32_t count = RON__CAS_SHARDS_MAX;

    while (count > 1 && objects_max / count < RON__CAS_SHARD_MIN) {
        count /= 2;
    }
    return count;
}

enum ron_rc ron_cas_new(const struct ron_cas_opts *opts, struct ron_cas **ret_store,
                        struct ron_err *err)
{
    struct ron_cas *s;
    enum ron_rc rc;

    RON_TRY(check_opts(opts, err));
    s = ron_alloc_aligned(RON_CACHELINE, sizeof *s);
    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a content store");
    }
    memset(s, 0, sizeof *s);
    s->magic = RON__CAS_MAGIC;
    s->lock_fd = -1;
    s->env = opts->env;
    s->on_disk = opts->dir != NULL;
    s->opts = fill_in(opts);
    s->opts.dir = NULL; /* borrowed only here */
    s->shard_count = shards_for(s->opts.objects_max);
    s->open_max = s->opts.open_max / s->shard_count;
    s->cache_bytes_max = s->opts.cache_bytes_max / s->shard_count;
    s->hash_key[0] = s->env->rand_u64(s->env);
    s->hash_key[1] = s->env->rand_u64(s->env);
    (void)ron__cas_now_s(s);
    rc = ron__cas_index_init(s);
    if (rc != RON_OK) {
        (void)ron_err_set(err, rc, "no memory for an index of %u objects",
                          (unsigned)s->opts.objects_max);
    } else if (s->on_disk) {
        memcpy(s->dir, opts->dir, strlen(opts->dir) + 1);
        rc = ron__cas_dirs_open(s, err);
    } else {
        ron_au32_store(&s->loaded, 1);
    }
    if (rc != RON_OK) {
        ron_cas_free(s);
        return rc;
    }
    *ret_store = s;
    return RON_OK;
}

void ron_cas_free(struct ron_cas *s)
{
    if (s == NULL) {
        return;
    }
    RON_CHECK_MAGIC(s, RON__CAS_MAGIC);
    RON_ASSERT_MSG(ron_au32_load(&s->writers) == 0, "a writer was neither committed nor aborted");
    for (uint32_t i = 0; i < s->shard_count; i++) {
        RON_ASSERT_MSG(s->shards[i].held == 0, "a handle was not released");
    }
    ron__cas_bury(s);
    ron__cas_index_done(s);
    if (s->lock_fd >= 0) {
        s->env->disk->close(s->env, s->lock_fd); /* the last thing: now another may come */
    }
    s->magic = 0;
    ron_free(s);
}

void ron_cas_get_stats(struct ron_cas *s, struct ron_cas_stats *ret_stats)
{
    struct ron_cas_stats stats = {0};

    RON_CHECK_MAGIC(s, RON__CAS_MAGIC);
#define X(name, metric, doc) stats.name = ron_stat_get(&s->counts.name);
    RON_CAS_COUNTERS(X)
#undef X
    for (uint32_t i = 0; i < s->shard_count; i++) {
        struct ron__cas_shard *sh = &s->shards[i];

        ron_mutex_lock(&sh->mu);
        stats.hits += ron_stat_get(&sh->hits);
        stats.objects += sh->objects;
        stats.held += sh->held;
        stats.open_files += sh->open_files;
        stats.cache_bytes += sh->cache_bytes;
        ron_mutex_unlock(&sh->mu);
    }
    stats.bytes = ron_au64_load(&s->used);
    stats.writers = ron_au32_load(&s->writers);
    stats.loaded = ron_cas_loaded(s);
    *ret_stats = stats;
}

/* ---- pins and removal ------------------------------------------------------------------------ */

/* Changes the pins of an object that is READY. */
static enum ron_rc pin_by(struct ron_cas *s, const struct ron_b3 *id, int by)
{
    struct ron__cas_shard *sh = ron__cas_shard_of(s, id);
    struct ron__cas_entry *e;
    enum ron_rc rc = RON_NOTFOUND;

    ron_mutex_lock(&sh->mu);
    e = ron__cas_find(s, sh, id);
    if (e != NULL && (e->flags & RON__CAS_READY) != 0 && (by > 0 || e->pins > 0)) {
        rc = by > 0 && e->pins == RON_CAS_PINS_MAX ? RON_FULL : RON_OK;
        e->pins = (uint16_t)(rc == RON_OK ? e->pins + by : e->pins);
    }
    ron_mutex_unlock(&sh->mu);
    return rc;
}

enum ron_rc ron_cas_pin(struct ron_cas *s, const struct ron_b3 *id)
{
    enum ron_rc rc = pin_by(s, id, 1);

    RON_CHECK_MAGIC(s, RON__CAS_MAGIC);
    if (rc == RON_NOTFOUND && !ron_cas_loaded(s)) {
        struct ron__cas_claim c;

        RON_TRY(ron__cas_claim_make(s, id, &c, NULL));
        if (c.fresh) {
            RON_TRY(ron__cas_adopt(s, &c));
        } else {
            ron__cas_unclaim(&c, 0, 0);
        }
        rc = pin_by(s, id, 1);
    }
    return rc;
}

enum ron_rc ron_cas_unpin(struct ron_cas *s, const struct ron_b3 *id)
{
    RON_CHECK_MAGIC(s, RON__CAS_MAGIC);
    return pin_by(s, id, -1);
}

static enum ron_rc memory_remove(struct ron_cas *s, const struct ron_b3 *id, struct ron_err *err)
{
    struct ron__cas_claim c = {.shard = ron__cas_shard_of(s, id)};

    ron_mutex_lock(&c.shard->mu);
    c.entry = ron__cas_find(s, c.shard, id);
    if (c.entry == NULL) {
        ron_mutex_unlock(&c.shard->mu);
        return ron_err_set(err, RON_NOTFOUND, "no such object");
    }
    ron__cas_drop_unlock(s, &c, true);
    ron_stat_add(&s->counts.removals, 1);
    return RON_OK;
}

enum ron_rc ron_cas_remove(struct ron_cas *s, const struct ron_b3 *id, struct ron_err *err)
{
    struct ron__cas_claim c;
    enum ron_rc rc;
    bool counted;

    RON_CHECK_MAGIC(s, RON__CAS_MAGIC);
    if (!s->on_disk) {
        return memory_remove(s, id, err);
    }
    RON_TRY(ron_cas_loaded(s) ? ron__cas_claim(s, id, false, &c, err)
                              : ron__cas_claim_make(s, id, &c, err));
    counted = !c.fresh;
    rc = s->env->disk->remove(s->env, ron__cas_path_of(s, id, RON__CAS_FILE).s, NULL);
    if (rc != RON_OK && rc != RON_NOTFOUND) {
        if (c.fresh) {
            ron__cas_drop(s, &c, false);
        } else {
            ron__cas_unclaim(&c, 0, 0);
        }
        return ron_err_set(err, rc, "content store: an object cannot be removed");
    }
    ron__cas_drop(s, &c, counted);
    if (rc == RON_NOTFOUND && !counted) {
        return ron_err_set(err, rc, "no such object");
    }
    ron_stat_add(&s->counts.removals, 1);
    return s->env->disk->sync_dir(s->env, ron__cas_path_of(s, id, RON__CAS_LEAF).s, err);
}
