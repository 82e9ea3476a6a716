/* SPDX-License-Identifier: Apache-2.0 */
/* edge/stored/table.c - targets and their variants, in shards.
 *
 * Invariants, in addition to T1-T3 of the header:
 *   I1 the table has one reference of each record in it.
 *   I2 a target in the table has at least one variant, and variants[0] is the newest.
 *   I3 what leaves under the lock is given back after it: never a free inside. */
#include "edge/stored/table.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/buf.h"
#include "ron/base/map.h"
#include "ron/base/str.h"
#include "ron/sync/sync.h"

enum { SHARDS = 16 };

struct target {
    struct ron_map_node node;
    struct target *next; /* among those to be freed */
    size_t count;
    const struct edg_stored *variants[EDG_VARIANTS_MAX];
};

struct shard {
    struct ron_mutex mu;
    struct ron_map map; /* by origin and target, in order of use */
    struct edg_table_stats stats;
};

/* A target's name in two parts; the map hashes nothing itself. */
struct name {
    uint32_t origin;
    struct ron_str target;
};

struct edg_table {
    struct ron_hash_key key;
    uint32_t records_max; /* of a shard */
    uint64_t bytes_max;   /* of a shard */
    struct shard shards[SHARDS];
};

static struct target *target_of(const struct ron_map_node *node)
{
    return RON_CONTAINER_OF((struct ron_map_node *)(uintptr_t)node, struct target, node);
}

static bool target_equal(const struct ron_map_node *node, const struct ron_map_key *key)
{
    const struct edg_stored *newest = target_of(node)->variants[0];
    const struct name *name = key->bytes;

    return newest->origin == name->origin && ron_str_equal(newest->target, name->target);
}

enum ron_rc edg_table_new(const struct edg_table_opts *opts, struct edg_table **ret_table,
                          struct ron_err *err)
{
    struct edg_table *t = ron_alloc_zero(sizeof *t);
    uint32_t records = opts->records_max != 0 ? opts->records_max : 65536;
    uint64_t bytes = opts->bytes_max != 0 ? opts->bytes_max : UINT64_C(64) << 20;
    enum ron_rc rc = RON_OK;

    RON_ASSERT(opts->env != NULL);
    if (t == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the cache table");
    }
    t->key = (struct ron_hash_key){opts->env->rand_u64(opts->env), opts->env->rand_u64(opts->env)};
    t->records_max = (records + SHARDS - 1) / SHARDS;
    t->bytes_max = bytes / SHARDS;
    for (size_t i = 0; i < SHARDS; i++) {
        /* One more than the limit: the newest comes in before the oldest leaves. */
        struct ron_map_opts map = {.entries_max = t->records_max + 1, .equal = target_equal};

        rc = rc == RON_OK ? ron_map_init(&t->shards[i].map, &map, err) : rc;
        ron_mutex_init(&t->shards[i].mu, RON_RANK_SHARED, "edge.stored");
    }
    if (rc != RON_OK) {
        edg_table_free(t);
        return rc;
    }
    *ret_table = t;
    return RON_OK;
}

/* `name` outlives the key. */
static struct ron_map_key key_of(const struct edg_table *t, const struct name *name)
{
    struct ron_hash_key key = {t->key.k0 ^ name->origin, t->key.k1};

    return (struct ron_map_key){ron_hash(key, name->target.ptr, name->target.len), name,
                                sizeof *name};
}

/* The map takes the low bits of the hash. */
static struct shard *shard_of(struct edg_table *t, const struct ron_map_key *key)
{
    return &t->shards[(key->hash >> 32) % SHARDS];
}

/* With the lock held: NULL when it is not there. */
static struct target *find(struct shard *sh, const struct ron_map_key *key)
{
    struct ron_map_node *node = ron_map_find(&sh->map, key);

    return node != NULL ? target_of(node) : NULL;
}

/* With the lock held: counts a record in or out. */
static void count(struct shard *sh, const struct edg_stored *r, bool in)
{
    uint64_t bytes = edg_stored_bytes(r);

    RON_ASSERT_MSG(in || sh->stats.records > 0, "T3: records are counted in and out");
    RON_ASSERT_MSG(in || sh->stats.bytes >= bytes, "T3: bytes are counted in and out");
    sh->stats.records += in ? 1 : UINT64_MAX; /* minus one */
    sh->stats.bytes = in ? sh->stats.bytes + bytes : sh->stats.bytes - bytes;
}

/* With the lock held: takes a target out, before `*gone`. Its records are still in it. */
static void take_out(struct shard *sh, struct target *x, struct target **gone)
{
    RON_ASSERT(x->count > 0 && x->count <= EDG_VARIANTS_MAX);
    ron_map_remove(&sh->map, &x->node);
    for (size_t i = 0; i < x->count; i++) {
        count(sh, x->variants[i], false);
    }
    x->next = *gone;
    *gone = x;
}

/* Without the lock: how many records there were. */
static size_t let_go(struct target *gone)
{
    size_t records = 0;

    while (gone != NULL) {
        struct target *next = gone->next;

        for (size_t i = 0; i < gone->count; i++) {
            edg_stored_unref(gone->variants[i]);
        }
        records += gone->count;
        ron_free(gone);
        gone = next;
    }
    return records;
}

void edg_table_free(struct edg_table *t)
{
    if (t == NULL) {
        return;
    }
    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *sh = &t->shards[i];
        struct target *gone = NULL;

        RON_MAP_FOREACH_SAFE(node, &sh->map)
        {
            take_out(sh, target_of(node), &gone);
        }
        RON_ASSERT_MSG(sh->stats.records == 0, "T3: all records are counted out");
        RON_ASSERT_MSG(sh->stats.bytes == 0, "T3: all bytes are counted out");
        (void)let_go(gone);
        ron_map_done(&sh->map);
        ron_mutex_done(&sh->mu);
    }
    ron_free(t);
}

void edg_table_get_stats(struct edg_table *t, struct edg_table_stats *ret_stats)
{
    struct edg_table_stats sum = {0};

    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *sh = &t->shards[i];

        ron_mutex_lock(&sh->mu);
        sum.records += sh->stats.records;
        sum.bytes += sh->stats.bytes;
        sum.evictions += sh->stats.evictions;
        ron_mutex_unlock(&sh->mu);
    }
    *ret_stats = sum;
}

void edg_table_each(struct edg_table *t, void (*see)(void *arg, const struct edg_stored *stored),
                    void *arg)
{
    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *sh = &t->shards[i];

        ron_mutex_lock(&sh->mu);
        RON_MAP_FOREACH_SAFE(node, &sh->map)
        {
            const struct target *x = target_of(node);

            for (size_t j = x->count; j > 0; j--) {
                see(arg, x->variants[j - 1]);
            }
        }
        ron_mutex_unlock(&sh->mu);
    }
}

/* ---- find ------------------------------------------------------------------------------------ */

/* With the lock held. Keys are made only where an answer varies, and into the room of `scratch`. */
static const struct edg_stored *choose(const struct target *x, struct edg_fields request,
                                       struct ron_buf *scratch)
{
    for (size_t i = 0; i < x->count; i++) {
        const struct edg_stored *r = x->variants[i];

        if (r->vary.len == 0) {
            return r;
        }
        ron_buf_clear(scratch);
        if (edg_vary_key(r->vary, request, scratch) == RON_OK &&
            ron_str_equal(
                (struct ron_str){(const char *)ron_buf_data(scratch), ron_buf_len(scratch)},
                r->key)) {
            return r;
        }
    }
    return NULL;
}

enum ron_rc edg_table_find(struct edg_table *t, uint32_t origin, struct ron_str target,
                           struct edg_fields request, const struct edg_stored **ret_stored,
                           bool *ret_others)
{
    struct name name = {origin, target};
    struct ron_map_key key = key_of(t, &name);
    struct shard *sh = shard_of(t, &key);
    const struct edg_stored *found = NULL;
    char memory[EDG_VARY_KEY_MAX];
    struct ron_buf scratch;
    struct target *x;

    ron_buf_init_over(&scratch, memory, sizeof memory);
    ron_mutex_lock(&sh->mu);
    x = find(sh, &key);
    *ret_others = x != NULL;
    if (x != NULL) {
        found = choose(x, request, &scratch);
        if (found != NULL) {
            edg_stored_ref(found);
            ron_map_touch(&sh->map, &x->node, 0); /* order alone matters */
        }
    }
    ron_mutex_unlock(&sh->mu);
    ron_buf_done(&scratch);
    if (found == NULL) {
        return RON_NOTFOUND;
    }
    *ret_stored = found;
    return RON_OK;
}

/* ---- put ------------------------------------------------------------------------------------- */

/* With the lock held: makes place at the front; the record that leaves, or NULL. */
static const struct edg_stored *make_place(struct shard *sh, struct target *x,
                                           const struct edg_stored *r)
{
    const struct edg_stored *leaves = NULL;
    size_t at = 0;

    while (at < x->count && !(ron_str_equal(x->variants[at]->vary, r->vary) &&
                              ron_str_equal(x->variants[at]->key, r->key))) {
        at++;
    }
    RON_ASSERT_MSG(x->count > 0, "T2: a target has a variant");
    RON_ASSERT_MSG(x->count <= EDG_VARIANTS_MAX, "T2: variants are bounded");
    if (at == x->count && x->count < EDG_VARIANTS_MAX) {
        x->count++;
    } else {
        at = at < x->count ? at : x->count - 1;
        leaves = x->variants[at];
        count(sh, leaves, false);
    }
    for (; at > 0; at--) {
        x->variants[at] = x->variants[at - 1];
    }
    return leaves;
}

enum ron_rc edg_table_put(struct edg_table *t, const struct edg_stored *take_stored)
{
    const struct edg_stored *r = take_stored;
    struct name name = {r->origin, r->target};
    struct ron_map_key key = key_of(t, &name);
    struct shard *sh = shard_of(t, &key);
    struct target *fresh = ron_alloc_zero(sizeof *fresh); /* not under the lock */
    const struct edg_stored *leaves = NULL;
    struct target *gone = NULL;
    struct target *x;
    enum ron_rc rc;

    if (fresh == NULL) {
        edg_stored_unref(r);
        return RON_NOMEM;
    }
    ron_mutex_lock(&sh->mu);
    x = find(sh, &key);
    if (x == NULL) {
        x = fresh;
        fresh = NULL;
        x->count = 1;
        x->variants[0] = r;
        rc = ron_map_add(&sh->map, &x->node, &key, 0);
        RON_ASSERT(rc == RON_OK); /* at most records_max targets were left */
    } else {
        leaves = make_place(sh, x, r);
        x->variants[0] = r;
        ron_map_touch(&sh->map, &x->node, 0);
    }
    count(sh, r, true);
    RON_MAP_FOREACH_SAFE(node, &sh->map)
    {
        struct target *oldest = target_of(node);

        if ((sh->stats.records <= t->records_max && sh->stats.bytes <= t->bytes_max) ||
            oldest == x) { /* the newest stays */
            break;
        }
        sh->stats.evictions += oldest->count;
        take_out(sh, oldest, &gone);
    }
    ron_mutex_unlock(&sh->mu);
    RON_ASSERT_MSG(leaves != r, "T2: a record is put once");
    edg_stored_unref(leaves);
    (void)let_go(gone);
    ron_free(fresh);
    return RON_OK;
}

/* ---- drop ------------------------------------------------------------------------------------ */

size_t edg_table_drop(struct edg_table *t, uint32_t origin, struct ron_str target)
{
    struct name name = {origin, target};
    struct ron_map_key key = key_of(t, &name);
    struct shard *sh = shard_of(t, &key);
    struct target *gone = NULL;
    struct target *x;

    ron_mutex_lock(&sh->mu);
    x = find(sh, &key);
    if (x != NULL) {
        take_out(sh, x, &gone);
    }
    ron_mutex_unlock(&sh->mu);
    return let_go(gone);
}

bool edg_table_drop_one(struct edg_table *t, const struct edg_stored *stored)
{
    struct name name = {stored->origin, stored->target};
    struct ron_map_key key = key_of(t, &name);
    struct shard *sh = shard_of(t, &key);
    struct target *gone = NULL;
    bool found = false;
    struct target *x;

    ron_mutex_lock(&sh->mu);
    x = find(sh, &key);
    for (size_t i = 0; x != NULL && i < x->count; i++) {
        if (x->variants[i] == stored) {
            found = true;
            if (x->count == 1) {
                take_out(sh, x, &gone);
            } else {
                count(sh, stored, false);
                x->count--;
                for (size_t j = i; j < x->count; j++) {
                    x->variants[j] = x->variants[j + 1];
                }
            }
            break;
        }
    }
    ron_mutex_unlock(&sh->mu);
    if (found && let_go(gone) == 0) {
        edg_stored_unref(stored); /* the table's reference */
    }
    return found;
}

struct ron_str edg_target_path(struct ron_str target)
{
    while (target.len > 0 && target.ptr[0] != '/') {
        target.ptr++;
        target.len--;
    }
    return target;
}

bool edg_target_is(struct ron_str target, struct ron_str path, bool prefix)
{
    struct ron_str has = edg_target_path(target);

    if (prefix) {
        has.len = RON_MIN(has.len, path.len);
    }
    return ron_str_equal(has, path);
}

size_t edg_table_drop_path(struct edg_table *t, uint32_t origin, struct ron_str path, bool prefix)
{
    size_t records = 0;

    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *sh = &t->shards[i];
        struct target *gone = NULL;

        ron_mutex_lock(&sh->mu);
        RON_MAP_FOREACH_SAFE(node, &sh->map)
        {
            struct target *x = target_of(node);

            if (x->variants[0]->origin == origin &&
                edg_target_is(x->variants[0]->target, path, prefix)) {
                take_out(sh, x, &gone);
            }
        }
        ron_mutex_unlock(&sh->mu);
        records += let_go(gone);
    }
    return records;
}
