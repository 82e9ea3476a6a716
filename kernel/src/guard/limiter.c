/* SPDX-License-Identifier: Apache-2.0 */
/* limiter.c - shards of client buckets, each a ron_map in order of last use.
 *
 * Place: guard. All memory is taken when the limiter is made; a request neither allocates nor
 * waits.
 *
 * Invariants (per shard, guarded by its lock):
 *   I1 an entry in use is in the map, pinned while somebody refers to it. Entries from `fresh` on
 *      were never used. The hash alone is the key: two clients with the same 64 bits share a
 *      bucket.
 *   I2 the map is ordered by last use or end of the last reference, oldest first. All entries share
 *      one rate, so an entry not used for burst / rate seconds is full, and looking at the oldest
 *      few finds an idle one whenever one has been silent that long.
 *   I3 an entry is given to another client only when its bucket is full (L1 of limiter.h) and
 *      nobody refers to it (L4). The overflow entry is not in the map. */
#include "ron/guard/limiter.h"

#include "guard/bucket.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/map.h"
#include "ron/sync/sync.h"

enum {
    LIMITER_MAGIC = 0x6c696d69,
    /* How many of the oldest entries are looked at when a shard is full: the first one is idle
     * unless the shard is swept by more clients than it holds; then a few more looks do not help
     * and cost every newcomer. */
    EVICT_LOOKS = 4,
};

struct ron_limiter_ref {
    struct ron_map_node node;
    struct ron_bucket bucket;
    uint32_t refs;
    uint16_t shard;
    bool is_overflow;
};

struct shard {
    struct ron_mutex mu;
    struct ron_rate rate;
    struct ron_map map; /* least recently used first; referred to: pinned */
    struct ron_limiter_ref *entries;
    uint32_t entry_count;
    uint32_t fresh;
    struct ron_limiter_ref overflow;
    struct ron_stat offered;
    struct ron_stat admitted;
    struct ron_stat refused;
    struct ron_stat overflowed;
    struct ron_stat evicted;
    struct ron_stat clients;
} RON_ALIGNED_CACHELINE;

struct ron_limiter {
    uint32_t magic;
    const struct ron_env *env;
    struct ron_hash_key key;
    struct ron_limiter_ref *entries;
    struct shard shards[RON_LIMITER_SHARDS];
};

static enum ron_rc init_maps(struct ron_limiter *l, uint32_t per_shard)
{
    struct ron_map_opts opts = {.entries_max = per_shard, .reserve = per_shard};
    enum ron_rc rc = RON_OK;

    for (size_t i = 0; rc == RON_OK && i < RON_LIMITER_SHARDS; i++) {
        rc = ron_map_init(&l->shards[i].map, &opts, NULL);
    }
    return rc;
}

static void init_shards(struct ron_limiter *l, uint32_t per_shard, struct ron_rate rate)
{
    uint64_t now_ns = ron_env_now_ns(l->env);

    for (size_t i = 0; i < RON_LIMITER_SHARDS; i++) {
        struct shard *s = &l->shards[i];

        ron_mutex_init(&s->mu, RON_RANK_LEAF, "limiter");
        s->rate = rate;
        s->entries = l->entries + i * per_shard;
        s->entry_count = per_shard;
        s->overflow.shard = (uint16_t)i;
        s->overflow.is_overflow = true;
        ron_bucket_init(&s->overflow.bucket, rate, now_ns);
    }
}

/* Maps and entries; the locks are done. */
static void free_memory(struct ron_limiter *l)
{
    for (size_t i = 0; i < RON_LIMITER_SHARDS; i++) {
        ron_map_done(&l->shards[i].map);
    }
    ron_free(l->entries);
    ron_free(l);
}

enum ron_rc ron_limiter_new(const struct ron_limiter_opts *opts, struct ron_limiter **ret_limiter,
                            struct ron_err *err)
{
    uint32_t clients = opts->clients_max == 0 ? RON_LIMITER_CLIENTS_DEFAULT : opts->clients_max;
    uint32_t per_shard;
    struct ron_limiter *l;

    if (!ron_rate_valid(opts->rate)) {
        return ron_err_set(err, RON_INVALID, "rate %u/s with burst %u is out of range",
                           (unsigned)opts->rate.rate_per_s, (unsigned)opts->rate.burst);
    }
    if (clients > RON_LIMITER_CLIENTS_MAX) {
        return ron_err_set(err, RON_LIMIT, "%u clients; at most %u", (unsigned)clients,
                           (unsigned)RON_LIMITER_CLIENTS_MAX);
    }
    l = ron_alloc_aligned(RON_CACHELINE, sizeof *l);
    if (l == NULL) {
        return ron_err_set(err, RON_NOMEM, "limiter: no memory");
    }
    *l = (struct ron_limiter){.magic = LIMITER_MAGIC, .env = opts->env};
    l->key = (struct ron_hash_key){opts->env->rand_u64(opts->env), opts->env->rand_u64(opts->env)};
    per_shard = (clients + RON_LIMITER_SHARDS - 1) / RON_LIMITER_SHARDS;
    l->entries = ron_alloc_array((size_t)per_shard * RON_LIMITER_SHARDS, sizeof *l->entries);
    if (l->entries == NULL || init_maps(l, per_shard) != RON_OK) {
        free_memory(l);
        return ron_err_set(err, RON_NOMEM, "limiter of %u clients: no memory", (unsigned)clients);
    }
    init_shards(l, per_shard, opts->rate);
    *ret_limiter = l;
    return RON_OK;
}

void ron_limiter_free(struct ron_limiter *l)
{
    if (l == NULL) {
        return;
    }
    RON_ASSERT(l->magic == LIMITER_MAGIC);
    for (size_t i = 0; i < RON_LIMITER_SHARDS; i++) {
        ron_mutex_done(&l->shards[i].mu);
    }
    l->magic = 0;
    free_memory(l);
}

/* The shard takes the top bits of the hash, the map the low ones. */
static struct shard *shard_of(struct ron_limiter *l, const struct ron_map_key *key)
{
    return &l->shards[key->hash >> 60];
}

/* A free entry, or an idle one taken from its client; NULL when there is none. */
static struct ron_limiter_ref *get_entry(struct shard *s, uint64_t now_ns)
{
    uint32_t looks = 0;

    if (s->fresh < s->entry_count) {
        ron_stat_bump(&s->clients, 1);
        return &s->entries[s->fresh++];
    }
    RON_MAP_FOREACH_SAFE(oldest, &s->map)
    {
        struct ron_limiter_ref *e = RON_CONTAINER_OF(oldest, struct ron_limiter_ref, node);

        if (looks++ == EVICT_LOOKS) {
            break;
        }
        if (ron_bucket_full(&e->bucket, s->rate, now_ns)) { /* I3 */
            ron_map_remove(&s->map, &e->node);
            ron_stat_bump(&s->evicted, 1);
            return e;
        }
    }
    return NULL;
}

/* The entry by which this client is judged. */
static struct ron_limiter_ref *entry_of(struct shard *s, const struct ron_map_key *key,
                                        uint64_t now_ns)
{
    struct ron_map_node *node = ron_map_find(&s->map, key);
    struct ron_limiter_ref *e;
    enum ron_rc rc;

    if (node != NULL) {
        ron_map_touch(&s->map, node, 0); /* order is all that matters: entries do not expire */
        return RON_CONTAINER_OF(node, struct ron_limiter_ref, node);
    }
    e = get_entry(s, now_ns);
    if (e == NULL) {
        return &s->overflow;
    }
    ron_bucket_refill(&s->overflow.bucket, s->rate, now_ns);
    e->bucket = s->overflow.bucket; /* L2 */
    e->refs = 0;
    e->shard = s->overflow.shard;
    rc = ron_map_add(&s->map, &e->node, key, 0);
    RON_ASSERT(rc == RON_OK); /* the map has a place for each entry */
    return e;
}

/* With the lock held: one token, and all counting. */
static enum ron_rc take_one(struct shard *s, struct ron_limiter_ref *e, uint64_t now_ns,
                            uint64_t *ret_wait_ns)
{
    ron_stat_bump(&s->offered, 1);
    ron_stat_bump(&s->overflowed, e->is_overflow);
    if (ron_bucket_take(&e->bucket, s->rate, now_ns, 1)) {
        ron_stat_bump(&s->admitted, 1);
        return RON_OK;
    }
    ron_stat_bump(&s->refused, 1);
    *ret_wait_ns = ron_bucket_wait_ns(&e->bucket, s->rate, now_ns, 1);
    return RON_FULL;
}

enum ron_rc ron_limiter_take(struct ron_limiter *l, const void *client, size_t len,
                             uint64_t *ret_wait_ns)
{
    struct ron_map_key key = ron_map_key(l->key, client, len);
    struct shard *s = shard_of(l, &key);
    enum ron_rc rc = RON_OK;
    uint64_t wait_ns = 0;

    RON_ASSERT(l->magic == LIMITER_MAGIC);
    ron_mutex_lock(&s->mu);
    if (s->rate.rate_per_s != 0) {
        uint64_t now_ns = ron_env_now_ns(l->env);

        rc = take_one(s, entry_of(s, &key, now_ns), now_ns, &wait_ns);
    } else {
        ron_stat_bump(&s->offered, 1);
        ron_stat_bump(&s->admitted, 1);
    }
    ron_mutex_unlock(&s->mu);
    if (rc != RON_OK && ret_wait_ns != NULL) {
        *ret_wait_ns = wait_ns;
    }
    return rc;
}

/* ---- references ------------------------------------------------------------------------------ */

struct ron_limiter_ref *ron_limiter_ref(struct ron_limiter *l, const void *client, size_t len)
{
    struct ron_map_key key = ron_map_key(l->key, client, len);
    struct shard *s = shard_of(l, &key);
    struct ron_limiter_ref *e;

    RON_ASSERT(l->magic == LIMITER_MAGIC);
    ron_mutex_lock(&s->mu);
    e = entry_of(s, &key, ron_env_now_ns(l->env));
    if (!e->is_overflow && e->refs == 0) {
        ron_map_pin(&s->map, &e->node);
    }
    e->refs++;
    ron_mutex_unlock(&s->mu);
    return e;
}

enum ron_rc ron_limiter_take_ref(struct ron_limiter *l, struct ron_limiter_ref *ref,
                                 uint64_t now_ns, uint64_t *ret_wait_ns)
{
    struct shard *s = &l->shards[ref->shard];
    uint64_t wait_ns = 0;
    enum ron_rc rc;

    ron_mutex_lock(&s->mu);
    rc = take_one(s, ref, now_ns, &wait_ns);
    ron_mutex_unlock(&s->mu);
    if (rc != RON_OK && ret_wait_ns != NULL) {
        *ret_wait_ns = wait_ns;
    }
    return rc;
}

void ron_limiter_unref(struct ron_limiter *l, struct ron_limiter_ref *take_ref)
{
    struct shard *s;

    if (take_ref == NULL) {
        return;
    }
    s = &l->shards[take_ref->shard];
    ron_mutex_lock(&s->mu);
    RON_ASSERT(take_ref->refs > 0);
    take_ref->refs--;
    if (take_ref->refs == 0 && !take_ref->is_overflow) {
        ron_map_unpin(&s->map, &take_ref->node, 0);
    }
    ron_mutex_unlock(&s->mu);
}

/* ---- changing and counting ------------------------------------------------------------------- */

/* A limit that was off starts with full buckets: nothing was counted meanwhile. */
static void change_bucket(struct ron_bucket *b, struct ron_rate from, struct ron_rate to,
                          uint64_t now_ns)
{
    if (from.rate_per_s == 0) {
        ron_bucket_init(b, to, now_ns);
    } else {
        ron_bucket_refill(b, from, now_ns);
        b->level_parts = RON_MIN(b->level_parts, (uint64_t)to.burst * RON_NS_PER_S);
    }
}

enum ron_rc ron_limiter_set_rate(struct ron_limiter *l, struct ron_rate rate, struct ron_err *err)
{
    if (!ron_rate_valid(rate)) {
        return ron_err_set(err, RON_INVALID, "rate %u/s with burst %u is out of range",
                           (unsigned)rate.rate_per_s, (unsigned)rate.burst);
    }
    for (size_t i = 0; i < RON_LIMITER_SHARDS; i++) {
        struct shard *s = &l->shards[i];
        uint64_t now_ns;

        ron_mutex_lock(&s->mu);
        now_ns = ron_env_now_ns(l->env);
        for (uint32_t e = 0; e < s->fresh; e++) {
            change_bucket(&s->entries[e].bucket, s->rate, rate, now_ns);
        }
        change_bucket(&s->overflow.bucket, s->rate, rate, now_ns);
        s->rate = rate;
        ron_mutex_unlock(&s->mu);
    }
    return RON_OK;
}

void ron_limiter_get_stats(const struct ron_limiter *l, struct ron_limiter_stats *ret_stats)
{
    struct ron_limiter_stats sum = {0};

    for (size_t i = 0; i < RON_LIMITER_SHARDS; i++) {
        const struct shard *s = &l->shards[i];

        sum.offered += ron_stat_get(&s->offered);
        sum.admitted += ron_stat_get(&s->admitted);
        sum.busy_rejections_total += ron_stat_get(&s->refused);
        sum.overflow += ron_stat_get(&s->overflowed);
        sum.evicted += ron_stat_get(&s->evicted);
        sum.clients += ron_stat_get(&s->clients);
    }
    *ret_stats = sum;
}

uint64_t ron_retry_after_s(uint64_t wait_ns)
{
    uint64_t whole_s = wait_ns / RON_NS_PER_S + (wait_ns % RON_NS_PER_S != 0);

    return whole_s == 0 ? 1 : whole_s;
}
