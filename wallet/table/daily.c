/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/table/daily.c - shards of sums: records in hash chains, and a list by last use.
 *
 * Place: wallet. A pair gets its record when somebody begins to read its debits.
 *
 * Invariants (per shard, guarded by its lock):
 *   I1. A record is in the list by last use exactly when nothing of it is in flight.
 *   I2. Records beyond `fresh` were never used.
 *   I3. `sum` holds what the ledger told, plus what was let through since then and not refused.
 *   I4. Reservations of an earlier day than the record's are not in `inflight`: when a day begins,
 *       what is still in flight from the day before does not count for it (D4). */
#include "wallet/table/daily.h"

#include "ron/sync/sync.h"
#include "wallet/table/table.h"

enum {
    LEASE_UNIT_MS = 16,
    LEASE_BITS = 20, /* four hours and a half; a lease is of seconds */
    PAGE_BITS = 64 - LEASE_BITS,
};

struct pair {
    struct wlt__node node;
    ron_u128 sum; /* not known: of what the walk has behind it */
    uint32_t day : 30;
    uint32_t known : 1;    /* sum is good for this day */
    uint32_t doubtful : 1; /* sum may hold more than was debited */
    uint32_t inflight;     /* reservations that are not settled */
    /* Not known: where the walk goes on, 0 being at the newest; and until when it is somebody's, in
     * units modulo 2^LEASE_BITS. */
    uint64_t page : PAGE_BITS;
    uint64_t lease : LEASE_BITS;
};

_Static_assert(sizeof(struct pair) == 64, "64 bytes a pair");

struct shard {
    struct ron_mutex mu;
    struct wlt__table table;
    struct pair *pairs;
    uint32_t count;
    uint32_t fresh; /* records that were used so far */
    struct ron_stat untracked;
} RON_ALIGNED_CACHELINE;

struct wlt_daily {
    struct shard *shards;
    uint32_t shard_count;
    void *raw_shards;
    void *raw_pairs;
    uint32_t *chains;
};

/* ---- life ------------------------------------------------------------------------------------ */

static void init_shards(struct wlt_daily *d, struct pair *pairs, uint32_t per_shard,
                        uint32_t chains)
{
    for (uint32_t i = 0; i < d->shard_count; i++) {
        struct shard *s = &d->shards[i];

        ron_mutex_init(&s->mu, RON_RANK_LEAF, "daily");
        s->pairs = pairs + (size_t)i * per_shard;
        s->count = per_shard;
        s->table = (struct wlt__table){.first = (uint8_t *)&s->pairs->node,
                                       .stride = sizeof *s->pairs,
                                       .chains = d->chains + (size_t)i * chains,
                                       .mask = chains - 1};
    }
}

enum ron_rc wlt_daily_new(uint32_t shards, uint32_t pairs, struct wlt_daily **ret,
                          struct ron_err *err)
{
    uint32_t per_shard;
    uint32_t chains;
    struct wlt_daily *d;
    struct pair *records;

    if (shards < 1 || shards > WLT_SHARDS_MAX || pairs < 1 || pairs > WLT_DAILY_PAIRS_MAX) {
        return ron_err_set(err, RON_INVALID, "daily sums: %u pairs in %u shards", (unsigned)pairs,
                           (unsigned)shards);
    }
    per_shard = wlt__per_shard(pairs, shards);
    chains = wlt__power_of_two(per_shard);
    d = ron_alloc_zero(sizeof *d);
    if (d == NULL) {
        return ron_err_set(err, RON_NOMEM, "daily sums: out of memory");
    }
    d->shards = wlt__lines(shards, sizeof *d->shards, &d->raw_shards);
    records = wlt__lines((size_t)shards * per_shard, sizeof *records, &d->raw_pairs);
    d->chains = ron_alloc_array((size_t)shards * chains, sizeof *d->chains);
    if (d->shards == NULL || records == NULL || d->chains == NULL) {
        wlt_daily_free(d); /* has no shards yet */
        return ron_err_set(err, RON_NOMEM, "daily sums: out of memory for %u pairs",
                           (unsigned)pairs);
    }
    d->shard_count = shards;
    init_shards(d, records, per_shard, chains);
    *ret = d;
    return RON_OK;
}

void wlt_daily_free(struct wlt_daily *d)
{
    if (d == NULL) {
        return;
    }
    for (uint32_t i = 0; i < d->shard_count; i++) {
        ron_mutex_done(&d->shards[i].mu);
    }
    ron_free(d->chains);
    ron_free(d->raw_pairs);
    ron_free(d->raw_shards);
    ron_free(d);
}

/* ---- records --------------------------------------------------------------------------------- */

static struct shard *lock_shard(struct wlt_daily *d, struct wlt_key pair)
{
    struct shard *s = &d->shards[wlt__shard_of(pair, d->shard_count)];

    ron_mutex_lock(&s->mu);
    return s;
}

static struct pair *pair_at(struct shard *s, uint32_t number)
{
    RON_ASSERT_MSG(number >= 1 && number <= s->fresh, "I2: a record beyond `fresh` was never used");
    return &s->pairs[number - 1];
}

static uint32_t number_of(const struct shard *s, const struct pair *p)
{
    return (uint32_t)(p - s->pairs) + 1;
}

/* The pair, used just now; NULL: it is not there. */
static struct pair *use(struct shard *s, struct wlt_key key)
{
    uint32_t number = wlt__find(&s->table, key);

    if (number == 0) {
        return NULL;
    }
    if (pair_at(s, number)->inflight == 0) {
        wlt__list_remove(&s->table, number);
        wlt__list_push(&s->table, number);
    }
    return pair_at(s, number);
}

static bool has_room(const struct shard *s)
{
    return s->fresh < s->count || s->table.oldest != 0;
}

/* A record for a new pair, in the list; NULL: everything is in flight (D3). */
static struct pair *add(struct shard *s, struct wlt_key key)
{
    uint32_t number;

    if (s->fresh < s->count) {
        number = ++s->fresh;
    } else if (s->table.oldest != 0) {
        number = s->table.oldest;
        wlt__list_remove(&s->table, number);
        wlt__remove(&s->table, number);
    } else {
        return NULL;
    }
    *pair_at(s, number) = (struct pair){0};
    wlt__add(&s->table, number, key);
    wlt__list_push(&s->table, number);
    return pair_at(s, number);
}

/* ---- reservations ---------------------------------------------------------------------------- */

/* What may still be debited. A sum above the ceiling is possible: it was learned, or the ceiling
 * has been lowered. */
static struct ron_money left_of(const struct pair *p, struct ron_money ceiling)
{
    return (struct ron_money){.v = p->sum < ceiling.v ? ceiling.v - p->sum : 0};
}

static enum wlt_daily_verdict count(struct shard *s, struct pair *p, uint32_t day,
                                    struct ron_money amount, struct ron_money ceiling,
                                    struct ron_money *ret_left)
{
    struct ron_money left = left_of(p, ceiling);

    if (amount.v > left.v) {
        if (p->doubtful && p->inflight == 0 && day == p->day) {
            p->known = 0;
            p->page = 0;
            return WLT_DAILY_ASK;
        }
        *ret_left = left;
        return WLT_DAILY_EXCEEDED;
    }
    p->sum += amount.v; /* at most the ceiling: D1 */
    if (day < p->day) {
        p->doubtful = 1; /* I4: its end will not be heard */
        return WLT_DAILY_OK;
    }
    if (p->inflight++ == 0) {
        wlt__list_remove(&s->table, number_of(s, p));
    }
    return WLT_DAILY_OK;
}

enum wlt_daily_verdict wlt_daily_reserve(struct wlt_daily *d, struct wlt_key pair, uint32_t day,
                                         struct ron_money amount, struct ron_money ceiling,
                                         struct ron_money *ret_left)
{
    struct shard *s = lock_shard(d, pair);
    struct pair *p = use(s, pair);
    enum wlt_daily_verdict verdict = WLT_DAILY_ASK;

    if (p == NULL) {
        verdict = has_room(s) ? WLT_DAILY_ASK : WLT_DAILY_UNTRACKED;
    } else if (p->known && day <= p->day) {
        verdict = count(s, p, day, amount, ceiling, ret_left);
    } else if (day < p->day) {
        verdict = WLT_DAILY_UNTRACKED; /* it could not learn: D4 */
    }
    if (verdict == WLT_DAILY_UNTRACKED) {
        ron_stat_bump(&s->untracked, 1);
    }
    ron_mutex_unlock(&s->mu);
    return verdict;
}

/* A day begins for the pair, or begins again: nothing is known of it. */
static void begin_day(struct shard *s, struct pair *p, uint32_t day)
{
    if (p->inflight != 0) { /* from the day before: I4 */
        p->inflight = 0;
        wlt__list_push(&s->table, number_of(s, p));
    }
    p->day = day & ((1u << 30) - 1);
    p->known = 0;
    p->doubtful = 0;
    p->sum = 0;
    p->page = 0;
}

static uint64_t units(uint64_t ms)
{
    return ms / LEASE_UNIT_MS & ((UINT64_C(1) << LEASE_BITS) - 1);
}

/* What is left of it; more than any lease has, or 0: it is over. */
static bool is_leased(const struct pair *p, uint64_t now_ms, uint32_t lease_ms)
{
    uint64_t left = (p->lease - units(now_ms)) & ((UINT64_C(1) << LEASE_BITS) - 1);

    return left > 0 && left <= lease_ms / LEASE_UNIT_MS + 1;
}

static void lease(struct pair *p, uint64_t until_ms)
{
    p->lease = units(until_ms) & ((UINT64_C(1) << LEASE_BITS) - 1);
}

bool wlt_daily_walk(struct wlt_daily *d, struct wlt_key pair, uint32_t day, uint64_t now_ms,
                    uint32_t lease_ms, struct ron_money *ret_sum, uint64_t *ret_page)
{
    struct shard *s = lock_shard(d, pair);
    struct pair *p = use(s, pair);
    bool ours = true;

    *ret_sum = RON_MONEY_ZERO;
    *ret_page = 0;
    if (p == NULL) {
        p = add(s, pair);
    }
    /* Without a record, or on an earlier day, what is read cannot be kept anyway. */
    if (p != NULL && (day > p->day || (day == p->day && !p->known))) {
        if (day > p->day) {
            lease(p, now_ms);
        }
        if (day > p->day || p->page == 0) {
            begin_day(s, p, day);
        }
        ours = !is_leased(p, now_ms, lease_ms);
        if (ours) {
            lease(p, now_ms + lease_ms);
            ret_sum->v = p->sum;
            *ret_page = p->page;
        }
    }
    ron_mutex_unlock(&s->mu);
    return ours;
}

void wlt_daily_walked(struct wlt_daily *d, struct wlt_key pair, uint32_t day, struct ron_money sum,
                      uint64_t page, uint64_t now_ms, uint32_t lease_ms)
{
    struct shard *s = lock_shard(d, pair);
    struct pair *p = use(s, pair);

    if (p != NULL && p->day == day && !p->known && page < UINT64_C(1) << PAGE_BITS &&
        (p->page == 0 || page < p->page)) {
        p->sum = sum.v;
        p->page = page & ((UINT64_C(1) << PAGE_BITS) - 1);
        lease(p, now_ms + lease_ms);
    }
    ron_mutex_unlock(&s->mu);
}

void wlt_daily_learn(struct wlt_daily *d, struct wlt_key pair, uint32_t day,
                     struct ron_money debited)
{
    struct shard *s = lock_shard(d, pair);
    struct pair *p = use(s, pair);

    if (p == NULL) {
        p = add(s, pair);
    }
    if (p != NULL && (day > p->day || (day == p->day && !p->known))) {
        begin_day(s, p, day);
        p->known = 1;
        p->sum = debited.v;
    }
    ron_mutex_unlock(&s->mu);
}

void wlt_daily_settle(struct wlt_daily *d, struct wlt_key pair, uint32_t day,
                      struct ron_money amount, enum wlt_settle how)
{
    struct shard *s = lock_shard(d, pair);
    struct pair *p = use(s, pair);

    if (p != NULL && p->day == day && p->inflight != 0) {
        if (how == WLT_REFUSED) {
            p->sum -= RON_MIN(p->sum, amount.v); /* less is there only if the clock went back */
        } else if (how == WLT_UNKNOWN) {
            p->doubtful = 1;
        }
        RON_ASSERT_MSG(!ron_money_is_zero(amount), "a reservation has an amount");
        if (--p->inflight == 0) {
            wlt__list_push(&s->table, number_of(s, p));
        }
    }
    ron_mutex_unlock(&s->mu);
}

void wlt_daily_expect(const struct wlt_daily *d, struct wlt_key pair)
{
    __builtin_prefetch(wlt__chain_of(&d->shards[wlt__shard_of(pair, d->shard_count)].table, pair));
}

void wlt_daily_forget_all(struct wlt_daily *d)
{
    for (uint32_t i = 0; i < d->shard_count; i++) {
        struct shard *s = &d->shards[i];

        ron_mutex_lock(&s->mu);
        for (uint32_t k = 0; k < s->fresh; k++) {
            s->pairs[k].known = 0;
            s->pairs[k].page = 0;
        }
        ron_mutex_unlock(&s->mu);
    }
}

uint64_t wlt_daily_untracked_total(const struct wlt_daily *d)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < d->shard_count; i++) {
        total += ron_stat_get(&d->shards[i].untracked);
    }
    return total;
}
