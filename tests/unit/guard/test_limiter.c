/* SPDX-License-Identifier: Apache-2.0 */
/* test_limiter.c - a bucket per client in a table that cannot grow.
 *
 * Goal: clients do not disturb each other, the table stays bounded, eviction and the shared
 *   overflow bucket never give a client more than burst + rate * t, and every offer is counted
 *   once as admitted or refused.
 * Method: virtual time; many more clients than entries; every window of every client is checked.
 */
#include "unit/guard/fixture.h"

#include "ron/base/clock.h"
#include "ron/guard/limiter.h"

static struct ron_limiter *limiter_make(struct virtual_time *v, struct ron_rate rate, uint32_t max)
{
    struct ron_limiter *l = NULL;

    virtual_init(v);
    assert_int_equal(
        ron_limiter_new(
            &(struct ron_limiter_opts){.env = &v->env, .rate = rate, .clients_max = max}, &l, NULL),
        RON_OK);
    return l;
}

static enum ron_rc take(struct ron_limiter *l, uint32_t client)
{
    uint64_t wait_ns = 0;

    return ron_limiter_take(l, &client, sizeof client, &wait_ns);
}

static uint32_t take_all(struct ron_limiter *l, uint32_t client)
{
    uint32_t taken = 0;

    while (take(l, client) == RON_OK) {
        taken++;
    }
    return taken;
}

static struct ron_limiter_stats stats_of(const struct ron_limiter *l)
{
    struct ron_limiter_stats stats;

    ron_limiter_get_stats(l, &stats);
    assert_int_equal(stats.offered, stats.admitted + stats.busy_rejections_total);
    return stats;
}

static void test_limiter__two_clients__each_has_its_own_burst(void **state)
{
    struct virtual_time v;
    struct ron_limiter *l = limiter_make(&v, (struct ron_rate){500, 250}, 64);
    uint64_t wait_ns = 99;

    (void)state;
    assert_int_equal(take_all(l, 1), 250);
    assert_int_equal(take_all(l, 2), 250);
    assert_int_equal(ron_limiter_take(l, &(uint32_t){1}, 4, &wait_ns), RON_FULL);
    assert_int_equal(wait_ns, 2 * RON_NS_PER_MS);
    assert_int_equal(ron_limiter_take(l, &(uint32_t){1}, 4, NULL), RON_FULL);
    v.now_ns += 2 * RON_NS_PER_MS;
    assert_int_equal(take_all(l, 1), 1);
    assert_int_equal(take_all(l, 2), 1);
    assert_int_equal(stats_of(l).clients, 2);
    ron_limiter_free(l);
}

static void test_limiter__no_client__is_one_bucket_for_the_instance(void **state)
{
    struct virtual_time v;
    struct ron_limiter *l = limiter_make(&v, (struct ron_rate){10, 3}, 16);

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ron_limiter_take(l, "", 0, NULL), RON_OK);
    }
    assert_int_equal(ron_limiter_take(l, "", 0, NULL), RON_FULL);
    ron_limiter_free(l);
}

static void test_limiter__rate_zero__is_off(void **state)
{
    struct virtual_time v;
    struct ron_limiter *l = limiter_make(&v, (struct ron_rate){0}, 16);

    (void)state;
    for (uint32_t i = 0; i < 10000; i++) {
        assert_int_equal(take(l, 1), RON_OK);
    }
    assert_int_equal(stats_of(l).clients, 0);
    assert_int_equal(stats_of(l).admitted, 10000);
    ron_limiter_free(l);
}

static void test_limiter__full_of_idle_clients__evicts_them(void **state)
{
    struct virtual_time v;
    struct ron_limiter *l = limiter_make(&v, (struct ron_rate){10, 10}, 16);

    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(take_all(l, i), 10);
        v.now_ns += 2 * RON_NS_PER_S; /* Everybody before is idle again. */
    }
    assert_int_equal(stats_of(l).overflow, 0);
    assert_true(stats_of(l).clients <= 16);
    assert_true(stats_of(l).evicted >= 1000 - 16);
    ron_limiter_free(l);
}

static void test_limiter__full_of_busy_clients__newcomers_share_one_bucket(void **state)
{
    struct virtual_time v;
    struct ron_limiter *l = limiter_make(&v, (struct ron_rate){10, 10}, 16);
    uint64_t admitted = 0;

    (void)state;
    for (uint32_t i = 0; i < 5000; i++) {
        admitted += take_all(l, i);
    }
    /* Sixteen entries and sixteen shared buckets of ten, however many clients ask. */
    assert_int_equal(admitted, (16 + RON_LIMITER_SHARDS) * 10);
    assert_int_equal(stats_of(l).evicted, 0);
    assert_int_equal(take(l, 0), RON_FULL); /* The first client was not forgotten. */
    v.now_ns += RON_NS_PER_S;
    assert_int_equal(take_all(l, 77777), 10); /* All idle again. */
    ron_limiter_free(l);
}

static void test_limiter__rate_changed__counts_the_past_by_the_old_one(void **state)
{
    struct virtual_time v;
    struct ron_limiter *l = limiter_make(&v, (struct ron_rate){10, 100}, 16);
    struct ron_err err = {0};

    (void)state;
    assert_int_equal(take_all(l, 1), 100);
    v.now_ns += RON_NS_PER_S;
    assert_int_equal(ron_limiter_set_rate(l, (struct ron_rate){1000, 50}, &err), RON_OK);
    assert_int_equal(take_all(l, 1), 10);
    assert_int_equal(take_all(l, 2), 50);
    v.now_ns += RON_NS_PER_S;
    assert_int_equal(ron_limiter_set_rate(l, (struct ron_rate){1000, 5}, NULL), RON_OK);
    assert_int_equal(take_all(l, 1), 5); /* cut to the new burst */
    assert_int_equal(ron_limiter_set_rate(l, (struct ron_rate){1, 0}, &err), RON_INVALID);
    assert_int_equal(ron_limiter_set_rate(l, (struct ron_rate){0}, NULL), RON_OK);
    assert_int_equal(take(l, 1), RON_OK);
    assert_int_equal(ron_limiter_set_rate(l, (struct ron_rate){7, 7}, NULL), RON_OK);
    assert_int_equal(take_all(l, 1), 7);
    ron_limiter_free(l);
}

static void test_limiter__bad_options__are_refused(void **state)
{
    struct virtual_time v;
    struct ron_limiter *l = NULL;
    struct ron_limiter_opts opts = {.env = &v.env, .rate = {1, 0}};
    struct ron_err err = {0};

    (void)state;
    virtual_init(&v);
    assert_int_equal(ron_limiter_new(&opts, &l, &err), RON_INVALID);
    opts.rate.burst = 1;
    opts.clients_max = RON_LIMITER_CLIENTS_MAX + 1;
    assert_int_equal(ron_limiter_new(&opts, &l, &err), RON_LIMIT);
    assert_null(l);
    ron_limiter_free(NULL);
}

static void test_retry_after__any_wait__whole_seconds_rounded_up(void **state)
{
    (void)state;
    assert_int_equal(ron_retry_after_s(0), 1);
    assert_int_equal(ron_retry_after_s(1), 1);
    assert_int_equal(ron_retry_after_s(RON_NS_PER_S), 1);
    assert_int_equal(ron_retry_after_s(RON_NS_PER_S + 1), 2);
}

static void test_limiter__references__share_the_client_and_keep_its_entry(void **state)
{
    struct virtual_time v;
    struct ron_limiter *l = limiter_make(&v, (struct ron_rate){10, 3}, 16);
    struct ron_limiter_ref *a = ron_limiter_ref(l, &(uint32_t){1}, 4);
    struct ron_limiter_ref *b = ron_limiter_ref(l, &(uint32_t){1}, 4);
    uint64_t wait_ns = 99;

    (void)state;
    assert_ptr_equal(a, b);
    assert_int_equal(ron_limiter_take_ref(l, a, v.now_ns, &wait_ns), RON_OK);
    assert_int_equal(wait_ns, 99);
    assert_int_equal(take(l, 1), RON_OK); /* one bucket, whichever way it is asked */
    assert_int_equal(ron_limiter_take_ref(l, b, v.now_ns, NULL), RON_OK);
    assert_int_equal(ron_limiter_take_ref(l, b, v.now_ns, &wait_ns), RON_FULL);
    assert_int_equal(wait_ns, RON_NS_PER_S / 10);
    ron_limiter_unref(l, b);
    ron_limiter_unref(l, NULL);
    /* A crowd that evicts everybody idle leaves the held entry alone. */
    for (uint32_t i = 100; i < 400; i++) {
        v.now_ns += RON_NS_PER_S;
        RON_IGNORE(take(l, i));
    }
    v.now_ns += RON_NS_PER_S;
    assert_true(stats_of(l).evicted > 200);
    assert_int_equal(take_all(l, 1), 3);
    assert_int_equal(ron_limiter_take_ref(l, a, v.now_ns, NULL), RON_FULL);
    assert_int_equal(ron_limiter_set_rate(l, (struct ron_rate){10, 2}, NULL), RON_OK);
    v.now_ns += RON_NS_PER_S;
    assert_int_equal(ron_limiter_take_ref(l, a, v.now_ns, NULL), RON_OK);
    assert_int_equal(ron_limiter_take_ref(l, a, v.now_ns, NULL), RON_OK);
    assert_int_equal(ron_limiter_take_ref(l, a, v.now_ns, NULL), RON_FULL);
    ron_limiter_unref(l, a);
    ron_limiter_free(l);
}

static void test_limiter__all_entries_referred_to__newcomers_share(void **state)
{
    struct virtual_time v;
    struct ron_limiter *l = limiter_make(&v, (struct ron_rate){10, 10}, 16);
    struct ron_limiter_ref *refs[400];
    uint64_t admitted = 0;

    (void)state;
    for (uint32_t i = 0; i < 400; i++) {
        refs[i] = ron_limiter_ref(l, &i, sizeof i);
    }
    assert_int_equal(stats_of(l).clients, 16);
    for (uint32_t i = 0; i < 400; i++) {
        while (ron_limiter_take_ref(l, refs[i], v.now_ns, NULL) == RON_OK) {
            admitted++;
        }
    }
    assert_int_equal(admitted, (16 + RON_LIMITER_SHARDS) * 10);
    v.now_ns += RON_NS_PER_S;
    assert_int_equal(stats_of(l).evicted, 0);
    for (uint32_t i = 0; i < 400; i++) {
        ron_limiter_unref(l, refs[i]);
    }
    assert_int_equal(take_all(l, 77777), 10); /* now one of them is given away */
    assert_int_equal(stats_of(l).evicted, 1);
    ron_limiter_free(l);
}

enum { CLIENTS = 60, TAKES = 2000 };

/* Every client's admissions in every window, with entries coming and going all the time. */
static void test_limiter__random_crowd__holds_every_client_to_its_rate(void **state)
{
    static uint64_t times[CLIENTS][TAKES];
    struct ron_rand rand = support_rand();

    (void)state;
    for (int run = 0; run < 20; run++) {
        struct ron_rate rate = {(uint32_t)ron_rand_range(&rand, 1, 200),
                                (uint32_t)ron_rand_range(&rand, 1, 8)};
        struct virtual_time v;
        struct ron_limiter *l = limiter_make(&v, rate, 16);
        size_t count[CLIENTS] = {0};
        uint64_t admitted = 0;

        for (int i = 0; i < TAKES; i++) {
            uint32_t client = (uint32_t)ron_rand_below(&rand, CLIENTS);

            v.now_ns += ron_rand_below(&rand, RON_NS_PER_S / 2 / rate.rate_per_s);
            for (uint32_t tries = 0; tries < 3; tries++) {
                if (take(l, client) == RON_OK && count[client] < TAKES) {
                    times[client][count[client]++] = v.now_ns;
                    admitted++;
                }
            }
        }
        for (int c = 0; c < CLIENTS; c++) {
            for (size_t a = 0; a < count[c]; a++) {
                for (size_t b = a; b < count[c]; b++) {
                    uint64_t window = (times[c][b] - times[c][a]) * rate.rate_per_s;

                    assert_true((b - a + 1) * RON_NS_PER_S <= rate.burst * RON_NS_PER_S + window);
                }
            }
        }
        assert_int_equal(stats_of(l).admitted, admitted);
        assert_int_equal(stats_of(l).offered, 3 * TAKES);
        assert_true(stats_of(l).overflow > 0); /* The run has seen what it is about. */
        assert_true(stats_of(l).evicted > 0);
        ron_limiter_free(l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limiter__two_clients__each_has_its_own_burst),
        cmocka_unit_test(test_limiter__no_client__is_one_bucket_for_the_instance),
        cmocka_unit_test(test_limiter__rate_zero__is_off),
        cmocka_unit_test(test_limiter__full_of_idle_clients__evicts_them),
        cmocka_unit_test(test_limiter__full_of_busy_clients__newcomers_share_one_bucket),
        cmocka_unit_test(test_limiter__rate_changed__counts_the_past_by_the_old_one),
        cmocka_unit_test(test_limiter__bad_options__are_refused),
        cmocka_unit_test(test_retry_after__any_wait__whole_seconds_rounded_up),
        cmocka_unit_test(test_limiter__references__share_the_client_and_keep_its_entry),
        cmocka_unit_test(test_limiter__all_entries_referred_to__newcomers_share),
        cmocka_unit_test(test_limiter__random_crowd__holds_every_client_to_its_rate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
