/* SPDX-License-Identifier: Apache-2.0 */
/* test_cache.c - balances that the ledger told.
 *
 * Goal: rules B1 to B3 of wallet/table/cache.h, and its counters.
 * Method: each rule alone, in the smallest table (one set); random steps against a plain reference
 *   that knows what was used when (exact), and with many accounts in many sets (B1 alone); threads
 *   that put what they read while changes come.
 */
#include "support/support.h"

#include "ron/base/assert.h"
#include "ron/sync/sync.h"
#include "wallet/table/cache.h"

enum { SET = 8 };

static struct wlt_cache *table(void)
{
    struct wlt_cache *c = NULL;

    assert_int_equal(wlt_cache_new(1, SET, &c, NULL), RON_OK);
    return c;
}

/* All in the only set; accounts 0 to 7 share nothing else. */
static struct wlt_key account(uint64_t i)
{
    return (struct wlt_key){2 * i + 1, i};
}

static struct wlt_key pair(uint64_t i, uint64_t asset)
{
    return (struct wlt_key){1000 + i, asset};
}

static void put(struct wlt_cache *c, uint64_t i, uint64_t asset, uint64_t seq, uint64_t amount)
{
    const struct wlt_balance b = {.available = {.v = amount},
                                  .held = {.v = amount * 2},
                                  .seq = seq,
                                  .last_seq = seq / 2,
                                  .loaded_ms = seq * 3,
                                  .outdated_ms = 99}; /* ignored */

    wlt_cache_put(c, account(i), pair(i, asset), &b);
}

/* Whether there is a value; it is whole. */
static bool get(struct wlt_cache *c, uint64_t i, uint64_t asset, struct wlt_balance *ret)
{
    ret->seq = 77;
    if (!wlt_cache_get(c, account(i), pair(i, asset), ret)) {
        assert_int_equal(ret->seq, 77);
        return false;
    }
    assert_true(ret->held.v == ret->available.v * 2);
    assert_int_equal(ret->last_seq, ret->seq / 2);
    assert_int_equal(ret->loaded_ms, ret->seq * 3);
    return true;
}

static void expect_since(struct wlt_cache *c, uint64_t i, uint64_t asset, uint64_t seq,
                         uint64_t amount, uint64_t outdated_ms)
{
    struct wlt_balance b;

    assert_true(get(c, i, asset, &b));
    assert_int_equal(b.seq, seq);
    support_assert_u128_equal(b.available.v, amount);
    assert_int_equal(b.outdated_ms, outdated_ms);
}

static void expect(struct wlt_cache *c, uint64_t i, uint64_t asset, uint64_t seq, uint64_t amount)
{
    expect_since(c, i, asset, seq, amount, 0);
}

static void expect_none(struct wlt_cache *c, uint64_t i, uint64_t asset)
{
    struct wlt_balance b;

    assert_false(get(c, i, asset, &b));
}

static void test_wlt_cache__put__gives_it_back(void **state)
{
    struct wlt_cache *c = table();

    (void)state;
    expect_none(c, 1, 0);
    put(c, 1, 0, 10, 5);
    put(c, 1, 1, 10, 6);
    put(c, 2, 0, 10, 7);
    expect(c, 1, 0, 10, 5);
    expect(c, 1, 1, 10, 6);
    expect(c, 2, 0, 10, 7);
    expect_none(c, 2, 1);
    assert_int_equal(wlt_cache_stats(c).values, 3);
    assert_int_equal(wlt_cache_stats(c).hits_total, 3);
    assert_int_equal(wlt_cache_stats(c).misses_total, 2);
    wlt_cache_free(c);
}

/* Largest amounts, both halves. */
static void test_wlt_cache__large_amounts__are_whole(void **state)
{
    const struct wlt_balance b = {RON_MONEY_MAX, {.v = RON_U128_MAX - 1}, UINT64_MAX, 1, 2, 0};
    struct wlt_cache *c = table();
    struct wlt_balance found;

    (void)state;
    wlt_cache_put(c, account(1), pair(1, 0), &b);
    assert_true(wlt_cache_get(c, account(1), pair(1, 0), &found));
    support_assert_u128_equal(found.available.v, RON_U128_MAX);
    support_assert_u128_equal(found.held.v, RON_U128_MAX - 1);
    assert_int_equal(found.seq, UINT64_MAX);
    assert_int_equal(found.last_seq, 1);
    assert_int_equal(found.loaded_ms, 2);
    wlt_cache_free(c);
}

/* B1 */
static void test_wlt_cache__changed__older_values_are_outdated(void **state)
{
    struct wlt_cache *c = table();

    (void)state;
    put(c, 1, 0, 10, 5);
    put(c, 1, 1, 12, 6);
    put(c, 2, 0, 10, 7);
    wlt_cache_changed(c, account(1), 10, 500); /* the value holds that one */
    expect(c, 1, 0, 10, 5);
    wlt_cache_changed(c, account(1), 11, 500);
    expect_since(c, 1, 0, 10, 5, 500);
    expect(c, 1, 1, 12, 6);
    expect(c, 2, 0, 10, 7);
    assert_int_equal(wlt_cache_stats(c).outdated_total, 1);
    wlt_cache_changed(c, account(1), 12, 600); /* untrue since the first one */
    expect_since(c, 1, 0, 10, 5, 500);
    put(c, 1, 0, 11, 8); /* newer, but came late */
    expect_since(c, 1, 0, 11, 8, 33);
    put(c, 1, 0, 12, 9);
    expect(c, 1, 0, 12, 9);
    wlt_cache_changed(c, account(1), 5, 700); /* old news */
    expect(c, 1, 0, 12, 9);
    put(c, 1, 2, 11, 8); /* an asset of which nothing was kept */
    expect_since(c, 1, 2, 11, 8, 33);
    assert_int_equal(wlt_cache_stats(c).outdated_total, 3);
    assert_int_equal(wlt_cache_stats(c).values, 4);
    wlt_cache_free(c);
}

/* The change came first, and nothing was kept of the account then. */
static void test_wlt_cache__changed_before_put__outdated_from_the_start(void **state)
{
    struct wlt_cache *c = table();
    struct wlt_balance b = {.seq = 3};

    (void)state;
    wlt_cache_changed(c, account(1), 11, 500);
    put(c, 1, 0, 10, 5);
    expect_since(c, 1, 0, 10, 5, 30);
    put(c, 2, 0, 10, 5);
    expect(c, 2, 0, 10, 5);
    wlt_cache_put(c, account(1), pair(1, 1), &b); /* at time 0, which is not "never" */
    assert_true(wlt_cache_get(c, account(1), pair(1, 1), &b));
    assert_int_equal(b.outdated_ms, 1);
    wlt_cache_free(c);
}

/* A neighbour's change may make a late value look outdated, but not one that is there. */
static void test_wlt_cache__neighbours_change__errs_on_the_safe_side(void **state)
{
    const struct wlt_key one = {1, 1};
    const struct wlt_key two = {3, 1}; /* the same floor */
    struct wlt_cache *c = table();
    struct wlt_balance b;

    (void)state;
    wlt_cache_put(c, one, pair(1, 0), &(struct wlt_balance){.seq = 10, .loaded_ms = 7});
    wlt_cache_changed(c, two, 20, 500);
    assert_true(wlt_cache_get(c, one, pair(1, 0), &b));
    assert_int_equal(b.outdated_ms, 0);
    /* The value that is replaced shows that its own account has not changed. */
    wlt_cache_put(c, one, pair(1, 0), &(struct wlt_balance){.seq = 19, .loaded_ms = 8});
    assert_true(wlt_cache_get(c, one, pair(1, 0), &b));
    assert_int_equal(b.outdated_ms, 0);
    assert_int_equal(b.seq, 19);
    wlt_cache_put(c, one, pair(1, 1), &(struct wlt_balance){.seq = 19, .loaded_ms = 8});
    assert_true(wlt_cache_get(c, one, pair(1, 1), &b));
    assert_int_equal(b.outdated_ms, 8);
    wlt_cache_free(c);
}

static void test_wlt_cache__older_value__does_not_replace(void **state)
{
    struct wlt_cache *c = table();

    (void)state;
    put(c, 1, 0, 10, 5);
    put(c, 1, 0, 9, 4);
    expect(c, 1, 0, 10, 5);
    put(c, 1, 0, 10, 6); /* as new, but asked for later */
    expect(c, 1, 0, 10, 6);
    put(c, 1, 0, 11, 7);
    expect(c, 1, 0, 11, 7);
    wlt_cache_changed(c, account(1), 12, 500);
    put(c, 1, 0, 10, 5); /* nor an outdated one */
    expect_since(c, 1, 0, 11, 7, 500);
    assert_int_equal(wlt_cache_stats(c).values, 1);
    wlt_cache_free(c);
}

/* B3 */
static void test_wlt_cache__flush__is_a_change_of_everybody(void **state)
{
    struct wlt_cache *c = NULL;

    (void)state;
    assert_int_equal(wlt_cache_new(3, 3000, &c, NULL), RON_OK);
    for (uint64_t i = 0; i < 60; i++) {
        const struct wlt_key who = {i << 58, i << 57}; /* all shards, many sets */

        wlt_cache_put(c, who, pair(i, 0), &(struct wlt_balance){.seq = 100 + i});
    }
    wlt_cache_flush(c, 130, 500);
    assert_int_equal(wlt_cache_stats(c).values, 60);
    assert_int_equal(wlt_cache_stats(c).outdated_total, 30);
    for (uint64_t i = 0; i < 60; i++) {
        const struct wlt_key who = {i << 58, i << 57};
        struct wlt_balance b;

        assert_true(wlt_cache_get(c, who, pair(i, 0), &b));
        assert_int_equal(b.outdated_ms, i < 30 ? 500 : 0);
        wlt_cache_put(c, who, pair(i, 1), &(struct wlt_balance){.seq = 129, .loaded_ms = 400});
        assert_true(wlt_cache_get(c, who, pair(i, 1), &b));
        assert_int_equal(b.outdated_ms, 400);
        wlt_cache_put(c, who, pair(i, 1), &(struct wlt_balance){.seq = 130});
        assert_true(wlt_cache_get(c, who, pair(i, 1), &b));
        assert_int_equal(b.outdated_ms, 0);
    }
    wlt_cache_flush(c, 50, 600); /* old news */
    put(c, 1, 7, 129, 1);
    expect_since(c, 1, 7, 129, 1, 387);
    wlt_cache_free(c);
}

/* B2 */
static void test_wlt_cache__no_room__longest_unused_goes(void **state)
{
    struct wlt_cache *c = table();

    (void)state;
    for (uint64_t i = 0; i < SET; i++) {
        put(c, i, 0, 10, i);
    }
    expect(c, 0, 0, 10, 0); /* a look is a use */
    put(c, 1, 0, 10, 11);   /* and so is a new value */
    put(c, 8, 0, 10, 8);
    expect_none(c, 2, 0);
    put(c, 9, 0, 10, 9);
    expect_none(c, 3, 0);
    expect(c, 0, 0, 10, 0);
    expect(c, 1, 0, 10, 11);
    assert_int_equal(wlt_cache_stats(c).evicted_total, 2);
    assert_int_equal(wlt_cache_stats(c).values, SET);
    wlt_cache_free(c);
}

static void test_wlt_cache__bad_sizes__are_refused(void **state)
{
    struct wlt_cache *c = NULL;
    struct ron_err err = {0};

    (void)state;
    assert_int_equal(wlt_cache_new(0, 8, &c, &err), RON_INVALID);
    assert_non_null(strstr(err.msg, "0 shards"));
    assert_int_equal(wlt_cache_new(WLT_SHARDS_MAX + 1, 8, &c, NULL), RON_INVALID);
    assert_int_equal(wlt_cache_new(1, 0, &c, NULL), RON_INVALID);
    assert_int_equal(wlt_cache_new(1, WLT_CACHE_VALUES_MAX + 1, &c, NULL), RON_INVALID);
    assert_null(c);
    assert_int_equal(wlt_cache_new(WLT_SHARDS_MAX, 1, &c, NULL), RON_OK);
    wlt_cache_free(c);
    wlt_cache_free(NULL);
}

/* How old a value is told to be: nobody knows when a change happened that was heard of late. */
static void test_wlt_cache__heard_of_late__true_until_it_was_last_known(void **state)
{
    struct wlt_cache *c = table();

    (void)state;
    put(c, 1, 0, 10, 5); /* asked for at 30 */
    put(c, 2, 0, 10, 6);
    wlt_cache_changed(c, account(1), 11, 25); /* all was known at 25, this one at 30 */
    expect_since(c, 1, 0, 10, 5, 30);
    wlt_cache_flush(c, 12, 40);
    expect_since(c, 1, 0, 10, 5, 30);
    expect_since(c, 2, 0, 10, 6, 40);
    wlt_cache_free(c);
}

/* Seqs begin anew with another journal. */
static void test_wlt_cache__clear__neither_values_nor_changes_are_left(void **state)
{
    struct wlt_cache *c = table();
    struct wlt_balance b;

    (void)state;
    put(c, 1, 0, 1000, 5);
    wlt_cache_changed(c, account(2), 1001, 500);
    wlt_cache_flush(c, 900, 500);
    wlt_cache_clear(c);
    assert_false(get(c, 1, 0, &b));
    assert_int_equal(wlt_cache_stats(c).values, 0);
    put(c, 1, 0, 3, 7);
    expect(c, 1, 0, 3, 7);
    put(c, 2, 0, 3, 8);
    expect(c, 2, 0, 3, 8);
    assert_int_equal(wlt_cache_stats(c).values, 2);
    wlt_cache_free(c);
}

/* ---- against a reference --------------------------------------------------------------------- */

enum { ACCOUNTS = 8, ASSETS = 2 };

struct ref {
    bool there;
    uint64_t seq, amount, used, outdated_ms;
};

struct world {
    struct wlt_cache *c;
    struct ron_rand rand;
    struct ref refs[ACCOUNTS][ASSETS];
    uint64_t floors[ACCOUNTS];
    uint64_t seq; /* of the ledger */
    uint64_t clock;
    uint64_t hits, misses, outdated, evicted, refused;
};

static uint64_t ref_values(struct world *w, struct ref **ret_oldest)
{
    uint64_t count = 0;

    *ret_oldest = NULL;
    for (int i = 0; i < ACCOUNTS * ASSETS; i++) {
        struct ref *r = &w->refs[i / ASSETS][i % ASSETS];

        if (r->there) {
            count++;
            if (*ret_oldest == NULL || r->used < (*ret_oldest)->used) {
                *ret_oldest = r;
            }
        }
    }
    return count;
}

static void put_some(struct world *w, uint64_t i, uint64_t asset)
{
    struct ref *r = &w->refs[i][asset];
    uint64_t seq = w->seq - ron_rand_below(&w->rand, 20);
    uint64_t amount = ron_rand_below(&w->rand, 1000);
    struct ref *oldest;

    put(w->c, i, asset, seq, amount);
    if (r->there && seq < r->seq) {
        w->refused++;
        return;
    }
    if (!r->there && ref_values(w, &oldest) == SET) {
        oldest->there = false;
        w->evicted++;
    }
    *r = (struct ref){true, seq, amount, ++w->clock, seq < w->floors[i] ? 3 * seq : 0};
    w->outdated += r->outdated_ms != 0;
}

static void change(struct world *w, uint64_t i, uint64_t seq, uint64_t true_ms)
{
    w->floors[i] = RON_MAX(w->floors[i], seq);
    for (int asset = 0; asset < ASSETS; asset++) {
        struct ref *r = &w->refs[i][asset];

        if (r->there && r->seq < seq && r->outdated_ms == 0) {
            r->outdated_ms = RON_MAX(true_ms, 3 * r->seq);
            w->outdated++;
        }
    }
}

static void get_some(struct world *w, uint64_t i, uint64_t asset)
{
    struct ref *r = &w->refs[i][asset];

    if (r->there) {
        expect_since(w->c, i, asset, r->seq, r->amount, r->outdated_ms);
        r->used = ++w->clock;
        w->hits++;
    } else {
        expect_none(w->c, i, asset);
        w->misses++;
    }
}

static void step(struct world *w)
{
    uint64_t i = ron_rand_below(&w->rand, ACCOUNTS);
    uint64_t asset = ron_rand_below(&w->rand, ASSETS);
    uint64_t dice = ron_rand_below(&w->rand, 1000);
    uint64_t seq = w->seq - ron_rand_below(&w->rand, 10);
    uint64_t now_ms = 1 + w->clock;

    w->seq += ron_rand_below(&w->rand, 2);
    if (dice == 0) {
        wlt_cache_flush(w->c, seq, now_ms);
        for (uint64_t k = 0; k < ACCOUNTS; k++) {
            change(w, k, seq, now_ms);
        }
    } else if (dice < 200) {
        wlt_cache_changed(w->c, account(i), seq, now_ms);
        change(w, i, seq, now_ms);
    } else if (dice < 600) {
        put_some(w, i, asset);
    } else {
        get_some(w, i, asset);
    }
}

static void test_wlt_cache__random_steps__as_the_reference(void **state)
{
    struct world w = {.c = table(), .rand = support_rand(), .seq = 100};
    struct wlt_cache_stats stats;
    struct ref *oldest;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        step(&w);
    }
    stats = wlt_cache_stats(w.c);
    assert_int_equal(stats.values, ref_values(&w, &oldest));
    assert_int_equal(stats.hits_total, w.hits);
    assert_int_equal(stats.misses_total, w.misses);
    assert_int_equal(stats.outdated_total, w.outdated);
    assert_int_equal(stats.evicted_total, w.evicted);
    assert_in_range(w.refused, 1000, UINT64_MAX);
    assert_in_range(w.hits, 1000, UINT64_MAX);
    assert_in_range(w.evicted, 1000, UINT64_MAX);
    wlt_cache_free(w.c);
}

/* Many sets, random keys: B1 alone, and nearly everything that fits is found. */
static void test_wlt_cache__many_accounts__never_an_old_value(void **state)
{
    enum { MANY = 2000 };
    static struct wlt_key names[MANY];
    static uint64_t newest[MANY];
    struct ron_rand rand = support_rand();
    struct wlt_cache *c = NULL;
    uint64_t found = 0;
    uint64_t seq = 1000;

    (void)state;
    assert_int_equal(wlt_cache_new(5, 4000, &c, NULL), RON_OK);
    ron_rand_bytes(&rand, names, sizeof names);
    memset(newest, 0, sizeof newest);
    for (int i = 0; i < 200000; i++) {
        uint64_t k = ron_rand_below(&rand, MANY);
        struct wlt_balance b = {0};
        bool there = wlt_cache_get(c, names[k], names[k], &b);

        seq++;
        assert_true(!there || b.last_seq == k);
        if (ron_rand_chance(&rand, 1, 10)) {
            newest[k] = seq;
            wlt_cache_changed(c, names[k], seq, seq);
        } else if (there && b.outdated_ms == 0) {
            assert_in_range(b.seq, newest[k], seq);
            found++;
        } else {
            b = (struct wlt_balance){.seq = seq - ron_rand_below(&rand, 500), .last_seq = k};
            wlt_cache_put(c, names[k], names[k], &b);
        }
    }
    assert_in_range(found, 120000, 200000);
    wlt_cache_free(c);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 6, STEPS = 30000, HOT = 4 };

struct shared {
    struct wlt_cache *c;
    struct ron_au64 seq;            /* of the ledger */
    struct ron_au64 announced[HOT]; /* changes for which wlt_cache_changed has returned */
};

struct actor {
    struct shared *s;
    struct ron_rand rand;
    bool writes;
};

static void act(void *arg)
{
    struct actor *a = arg;
    struct shared *s = a->s;

    for (int step = 0; step < STEPS; step++) {
        uint64_t i = ron_rand_below(&a->rand, HOT);
        uint64_t floor = ron_au64_load(&s->announced[i]);
        struct wlt_balance b;

        if (a->writes) { /* one writer, so that announcements grow */
            uint64_t seq = ron_au64_add(&s->seq, 1) + 1;

            wlt_cache_changed(s->c, account(i), seq, seq);
            ron_au64_store(&s->announced[i], seq);
        } else if (wlt_cache_get(s->c, account(i), pair(i, 0), &b) && b.outdated_ms == 0) {
            RON_ASSERT_MSG(b.seq >= floor, "B1");
        } else {
            b = (struct wlt_balance){.seq = ron_au64_load(&s->seq)};
            if (ron_rand_chance(&a->rand, 1, 2)) {
                b.seq -= RON_MIN(b.seq, (uint64_t)2); /* slow on its way */
            }
            wlt_cache_put(s->c, account(i), pair(i, 0), &b);
        }
    }
}

static void test_wlt_cache__many_threads__never_an_old_value(void **state)
{
    struct shared s = {.c = table()};
    struct ron_rand rand = support_rand();
    struct ron_thread *threads[THREADS];
    struct actor actors[THREADS];

    (void)state;
    for (int t = 0; t < THREADS; t++) {
        actors[t] = (struct actor){&s, ron_rand_fork(&rand), t == 0};
        assert_int_equal(ron_thread_start(&(struct ron_thread_opts){.name = "actor",
                                                                    .may_block = true,
                                                                    .main = act,
                                                                    .arg = &actors[t]},
                                          &threads[t], NULL),
                         RON_OK);
    }
    for (int t = 0; t < THREADS; t++) {
        ron_thread_join(threads[t]);
    }
    assert_in_range(wlt_cache_stats(s.c).hits_total, 1, UINT64_MAX);
    wlt_cache_free(s.c);
}

/* ---- the order of locks ---------------------------------------------------------------------- */

/* Settings and metrics are leaves: nothing is asked while one of them is held. */
static void get_under_a_leaf(void *arg)
{
    struct wlt_balance b;
    struct ron_mutex metrics;

    ron_mutex_init(&metrics, RON_RANK_LEAF, "metrics_state");
    ron_mutex_lock(&metrics);
    (void)wlt_cache_get(arg, account(1), pair(1, 1), &b);
    ron_mutex_unlock(&metrics);
    ron_mutex_done(&metrics);
}

static void test_wlt_cache__asked_under_metrics_state__aborts(void **state)
{
    struct wlt_cache *c = table();
    struct wlt_balance b;
    struct ron_mutex cfg;

    (void)state;
#if RON_CHECKED
    support_death(get_under_a_leaf, c, "balance_cache");
#else
    get_under_a_leaf(c);
    assert_in_range(ron_sync_violations(RON_BREACH_RANK), 1, UINT64_MAX);
#endif
    /* The specified order: what is above the cache, then the cache. */
    ron_mutex_init(&cfg, RON_RANK_SUPERVISOR, "cfg_snapshot");
    ron_mutex_lock(&cfg);
    assert_false(get(c, 1, 1, &b));
    ron_mutex_unlock(&cfg);
    ron_mutex_done(&cfg);
    wlt_cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wlt_cache__put__gives_it_back),
        cmocka_unit_test(test_wlt_cache__large_amounts__are_whole),
        cmocka_unit_test(test_wlt_cache__changed__older_values_are_outdated),
        cmocka_unit_test(test_wlt_cache__changed_before_put__outdated_from_the_start),
        cmocka_unit_test(test_wlt_cache__neighbours_change__errs_on_the_safe_side),
        cmocka_unit_test(test_wlt_cache__older_value__does_not_replace),
        cmocka_unit_test(test_wlt_cache__flush__is_a_change_of_everybody),
        cmocka_unit_test(test_wlt_cache__heard_of_late__true_until_it_was_last_known),
        cmocka_unit_test(test_wlt_cache__clear__neither_values_nor_changes_are_left),
        cmocka_unit_test(test_wlt_cache__no_room__longest_unused_goes),
        cmocka_unit_test(test_wlt_cache__bad_sizes__are_refused),
        cmocka_unit_test(test_wlt_cache__random_steps__as_the_reference),
        cmocka_unit_test(test_wlt_cache__many_accounts__never_an_old_value),
        cmocka_unit_test(test_wlt_cache__many_threads__never_an_old_value),
        cmocka_unit_test(test_wlt_cache__asked_under_metrics_state__aborts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
