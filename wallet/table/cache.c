/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/table/cache.c - sets of eight values, each with its marks in front.
 *
 * Place: wallet. An account belongs to one set, with all its assets; who has more of them than the
 * set has room pushes out its own. What a lookup compares stands in one cache line, the changes
 * that are known in the next, so that a change of an account of which nothing is kept touches two.
 *
 * Invariants (guarded by the lock of the shard):
 *   I1. marks[i] is 0 exactly when values[i] is vacant.
 *   I2. floors[k] is the newest change of all accounts of the set that share k: eight floors for
 *       the eight accounts or so of a full set. What is put and is older than its floor, or than
 *       the newest flush, counts as outdated, unless the value that it replaces proves the
 *       contrary. So a neighbour's change may make a value look outdated that is not, which costs a
 *       question to the ledger; the other way round it never errs: B1.
 *   I3. A value that is not outdated is not older than any change of its account, nor than any
 *       flush.
 *
 * Why not ron_map: a lookup compares eight marks in one cache line, and a value may be overwritten
 * at any time, so it needs no chain and no list. */
#include "wallet/table/cache.h"

#include "ron/sync/sync.h"
#include "wallet/table/table.h"

enum { WAYS = 8 };

struct value {
    struct ron_money available;
    struct ron_money held;
    struct wlt_key key; /* account and asset */
    uint64_t seq;
    uint64_t last_seq;
    uint64_t loaded_ms;
    uint64_t outdated_ms;
};

struct set {
    uint32_t marks[WAYS]; /* of the account; two with one mark share their changes */
    uint32_t used[WAYS];  /* the shard's clock at the last use */
    uint64_t floors[WAYS];
    struct value values[WAYS];
} RON_ALIGNED_CACHELINE;

_Static_assert(sizeof(struct set) == (size_t)WAYS * 96, "96 bytes a value");

struct shard {
    struct ron_mutex mu;
    struct set *sets;
    uint64_t floor; /* the newest flush */
    uint32_t clock; /* counts uses; may wrap */
    struct ron_stat values;
    struct ron_stat hits;
    struct ron_stat misses;
    struct ron_stat outdated;
    struct ron_stat evicted;
} RON_ALIGNED_CACHELINE;

struct wlt_cache {
    struct shard *shards;
    uint32_t shard_count;
    uint32_t shard_sets;
    void *raw_shards;
    void *raw_sets;
};

/* ---- life ------------------------------------------------------------------------------------ */

enum ron_rc wlt_cache_new(uint32_t shards, uint32_t values, struct wlt_cache **ret,
                          struct ron_err *err)
{
    struct wlt_cache *c;
    struct set *sets;

    if (shards < 1 || shards > WLT_SHARDS_MAX || values < 1 || values > WLT_CACHE_VALUES_MAX) {
        return ron_err_set(err, RON_INVALID, "balances: %u values in %u shards", (unsigned)values,
                           (unsigned)shards);
    }
    c = ron_alloc_zero(sizeof *c);
    if (c == NULL) {
        return ron_err_set(err, RON_NOMEM, "balances: out of memory");
    }
    c->shard_sets = (wlt__per_shard(values, shards) + WAYS - 1) / WAYS;
    c->shards = wlt__lines(shards, sizeof *c->shards, &c->raw_shards);
    sets = wlt__lines((size_t)shards * c->shard_sets, sizeof *sets, &c->raw_sets);
    if (c->shards == NULL || sets == NULL) {
        wlt_cache_free(c); /* has no shards yet */
        return ron_err_set(err, RON_NOMEM, "balances: out of memory for %u values",
                           (unsigned)values);
    }
    c->shard_count = shards;
    for (uint32_t i = 0; i < shards; i++) {
        ron_mutex_init(&c->shards[i].mu, RON_RANK_SHARED, "balance_cache");
        c->shards[i].sets = sets + (size_t)i * c->shard_sets;
    }
    *ret = c;
    return RON_OK;
}

void wlt_cache_free(struct wlt_cache *c)
{
    if (c == NULL) {
        return;
    }
    for (uint32_t i = 0; i < c->shard_count; i++) {
        ron_mutex_done(&c->shards[i].mu);
    }
    ron_free(c->raw_sets);
    ron_free(c->raw_shards);
    ron_free(c);
}

/* ---- values ---------------------------------------------------------------------------------- */

static struct shard *lock_shard(struct wlt_cache *c, struct wlt_key account)
{
    struct shard *s = &c->shards[wlt__shard_of(account, c->shard_count)];

    ron_mutex_lock(&s->mu);
    return s;
}

static struct set *set_of(const struct wlt_cache *c, const struct shard *s, struct wlt_key account)
{
    return &s->sets[wlt__pick(account.b, c->shard_sets)];
}

/* Lower bits than those that chose shard and set; never 0. */
static uint32_t mark_of(struct wlt_key account)
{
    return (uint32_t)account.a | 1;
}

static uint64_t *floor_of(struct set *set, struct wlt_key account)
{
    return &set->floors[account.b % WAYS];
}

/* WAYS when it is not there. */
static uint32_t find(const struct set *set, struct wlt_key account, struct wlt_key account_asset)
{
    uint32_t i = 0;

    while (i < WAYS &&
           (set->marks[i] != mark_of(account) || !wlt_key_eq(set->values[i].key, account_asset))) {
        i++;
    }
    return i;
}

/* A value that is older than a change is outdated; never 0. */
static void outdate(struct shard *s, struct value *v, uint64_t seq, uint64_t true_ms)
{
    if (v->seq < seq && v->outdated_ms == 0) {
        v->outdated_ms = RON_MAX(RON_MAX(true_ms, v->loaded_ms), (uint64_t)1);
        ron_stat_bump(&s->outdated, 1);
    }
}

/* A vacant place, else that of the value that was not used for longest. */
static uint32_t make_room(struct shard *s, struct set *set)
{
    uint32_t oldest = 0;

    for (uint32_t i = 0; i < WAYS; i++) {
        if (set->marks[i] == 0) {
            ron_stat_bump(&s->values, 1);
            return i;
        }
        if (s->clock - set->used[i] > s->clock - set->used[oldest]) {
            oldest = i;
        }
    }
    ron_stat_bump(&s->evicted, 1);
    return oldest;
}

bool wlt_cache_get(struct wlt_cache *c, struct wlt_key account, struct wlt_key account_asset,
                   struct wlt_balance *ret)
{
    struct shard *s = lock_shard(c, account);
    struct set *set = set_of(c, s, account);
    uint32_t i = find(set, account, account_asset);

    if (i < WAYS) {
        const struct value *v = &set->values[i];

        *ret = (struct wlt_balance){v->available, v->held,      v->seq,
                                    v->last_seq,  v->loaded_ms, v->outdated_ms};
        set->used[i] = ++s->clock;
    }
    ron_stat_bump(i < WAYS ? &s->hits : &s->misses, 1);
    ron_mutex_unlock(&s->mu);
    return i < WAYS;
}

/* Puts the value into place i, or into another one when i is WAYS. */
static void place(struct shard *s, struct set *set, uint32_t i, uint32_t mark,
                  const struct value *value, uint64_t floor)
{
    /* What it replaces was not outdated, so the account has not changed since then: I3. */
    bool proven = i < WAYS && set->values[i].outdated_ms == 0;

    if (i == WAYS) {
        i = make_room(s, set);
    }
    RON_ASSERT_MSG(mark != 0, "I1: a mark is 0 exactly where a place is vacant");
    RON_ASSERT(i < WAYS);
    set->marks[i] = mark;
    set->used[i] = ++s->clock;
    set->values[i] = *value;
    if (!proven) {
        outdate(s, &set->values[i], floor, value->loaded_ms);
    }
}

void wlt_cache_put(struct wlt_cache *c, struct wlt_key account, struct wlt_key account_asset,
                   const struct wlt_balance *balance)
{
    const struct value value = {.available = balance->available,
                                .held = balance->held,
                                .key = account_asset,
                                .seq = balance->seq,
                                .last_seq = balance->last_seq,
                                .loaded_ms = balance->loaded_ms};
    struct shard *s = lock_shard(c, account);
    struct set *set = set_of(c, s, account);
    uint32_t i = find(set, account, account_asset);

    if (i == WAYS || value.seq >= set->values[i].seq) {
        place(s, set, i, mark_of(account), &value, RON_MAX(s->floor, *floor_of(set, account)));
    }
    ron_mutex_unlock(&s->mu);
}

/* ---- changes --------------------------------------------------------------------------------- */

void wlt_cache_changed(struct wlt_cache *c, struct wlt_key account, uint64_t seq, uint64_t true_ms)
{
    struct shard *s = lock_shard(c, account);
    struct set *set = set_of(c, s, account);
    uint64_t *floor = floor_of(set, account);

    for (uint32_t i = 0; i < WAYS; i++) {
        if (set->marks[i] == mark_of(account)) {
            outdate(s, &set->values[i], seq, true_ms);
        }
    }
    *floor = RON_MAX(*floor, seq);
    ron_mutex_unlock(&s->mu);
}

void wlt_cache_expect(const struct wlt_cache *c, struct wlt_key account)
{
    const struct shard *s = &c->shards[wlt__shard_of(account, c->shard_count)];
    const struct set *set = set_of(c, s, account);

    __builtin_prefetch(set->marks, 1);
    __builtin_prefetch(set->floors, 1);
}

/* Some ten microseconds a shard; only after news were lost. */
static void flush_shard(const struct wlt_cache *c, struct shard *s, uint64_t seq, uint64_t true_ms)
{
    for (uint32_t k = 0; k < c->shard_sets; k++) {
        struct set *set = &s->sets[k];

        for (uint32_t i = 0; i < WAYS; i++) {
            if (set->marks[i] != 0) {
                outdate(s, &set->values[i], seq, true_ms);
            }
        }
    }
    s->floor = RON_MAX(s->floor, seq);
}

void wlt_cache_flush(struct wlt_cache *c, uint64_t seq, uint64_t true_ms)
{
    for (uint32_t i = 0; i < c->shard_count; i++) {
        ron_mutex_lock(&c->shards[i].mu);
        flush_shard(c, &c->shards[i], seq, true_ms);
        ron_mutex_unlock(&c->shards[i].mu);
    }
}

void wlt_cache_clear(struct wlt_cache *c)
{
    for (uint32_t i = 0; i < c->shard_count; i++) {
        struct shard *s = &c->shards[i];

        ron_mutex_lock(&s->mu);
        for (uint32_t k = 0; k < c->shard_sets; k++) {
            for (uint32_t w = 0; w < WAYS; w++) { /* memory that nobody has used stays so */
                if (s->sets[k].marks[w] != 0) {
                    s->sets[k].marks[w] = 0;
                }
                if (s->sets[k].floors[w] != 0) {
                    s->sets[k].floors[w] = 0;
                }
            }
        }
        s->floor = 0;
        ron_stat_set(&s->values, 0);
        ron_mutex_unlock(&s->mu);
    }
}

struct wlt_cache_stats wlt_cache_stats(const struct wlt_cache *c)
{
    struct wlt_cache_stats sum = {0};

    for (uint32_t i = 0; i < c->shard_count; i++) {
        const struct shard *s = &c->shards[i];

        sum.values += ron_stat_get(&s->values);
        sum.hits_total += ron_stat_get(&s->hits);
        sum.misses_total += ron_stat_get(&s->misses);
        sum.outdated_total += ron_stat_get(&s->outdated);
        sum.evicted_total += ron_stat_get(&s->evicted);
    }
    return sum;
}
