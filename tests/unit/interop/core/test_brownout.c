/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: each bound of the sentinel is exact, a brownout ends by itself, and nothing that we shed
 * can begin or keep it.
 * Method: virtual time around each bound, then a long random run against rules that must hold. */
#include "interop/core/brownout.h"
#include "support/support.h"

static struct iop_brownout fresh(void)
{
    struct iop_brownout b;
    struct iop_brownout_opts opts = iop_brownout_defaults();

    iop_brownout_init(&b, &opts);
    return b;
}

static void calls(struct iop_brownout *b, uint64_t now_ms, unsigned count, bool failed,
                  uint64_t took_ms)
{
    for (unsigned i = 0; i < count; i++) {
        iop_brownout_call(b, now_ms, failed, took_ms);
    }
}

static void test_brownout__failure_rate__above_one_percent_of_a_hundred(void **state)
{
    struct iop_brownout b = fresh();

    (void)state;
    calls(&b, 1000, 97, false, 1);
    calls(&b, 1000, 2, true, 1);
    assert_false(iop_brownout_tick(&b, 1000, 0, 512)); /* 99 calls are too few */
    b = fresh();
    calls(&b, 1000, 99, false, 1);
    calls(&b, 1000, 1, true, 1);
    assert_false(iop_brownout_tick(&b, 1000, 0, 512)); /* 1 % is not more than 1 % */
    calls(&b, 1000, 1, true, 1);
    assert_true(iop_brownout_tick(&b, 1000, 0, 512));
    assert_int_equal(b.cause, IOP_CAUSE_ERRORS);
    assert_false(iop_brownout_tick(&b, 1001, 0, 512)); /* told once */
}

static void test_brownout__window__forgets_after_five_minutes(void **state)
{
    struct iop_brownout b = fresh();

    (void)state;
    calls(&b, 1000, 200, true, 1);
    assert_false(iop_brownout_tick(&b, 301000, 0, 512));
    b = fresh();
    calls(&b, 5000, 200, true, 1);
    assert_true(iop_brownout_tick(&b, 299999, 0, 512));
}

static void test_brownout__p95__499_no_500_yes(void **state)
{
    struct iop_brownout b = fresh();

    (void)state;
    calls(&b, 0, 1000, false, 499);
    assert_false(iop_brownout_tick(&b, 0, 0, 512));
    b = fresh();
    calls(&b, 0, 190, false, 10);
    calls(&b, 0, 10, false, 500); /* 5 of 100: the 95th is still fast */
    assert_false(iop_brownout_tick(&b, 0, 0, 512));
    calls(&b, 0, 1, false, 500);
    assert_true(iop_brownout_tick(&b, 0, 0, 512));
    assert_int_equal(b.cause, IOP_CAUSE_LATENCY);
}

static void test_brownout__queue__over_80_percent_for_a_minute(void **state)
{
    struct iop_brownout b = fresh();

    (void)state;
    assert_false(iop_brownout_tick(&b, 0, 410, 512));
    assert_false(iop_brownout_tick(&b, 30000, 409, 512)); /* 409 of 512 is below: begins anew */
    assert_false(iop_brownout_tick(&b, 31000, 410, 512));
    assert_false(iop_brownout_tick(&b, 90999, 410, 512));
    assert_true(iop_brownout_tick(&b, 91000, 410, 512));
    assert_int_equal(b.cause, IOP_CAUSE_QUEUE);
    assert_false(iop_brownout_tick(&b, 121000, 205, 512)); /* half of the bound is 204.8 */
    assert_false(iop_brownout_tick(&b, 120999, 204, 512)); /* held for 30 s at least */
    assert_true(iop_brownout_tick(&b, 121000, 204, 512));
}

static void test_brownout__upstream_recovers__probes_end_it_after_the_hold(void **state)
{
    struct iop_brownout b = fresh();
    bool probe = false;
    unsigned probes = 0;
    uint64_t now = 1000;

    (void)state;
    assert_true(iop_brownout_admit(&b, now, &probe));
    assert_false(probe);
    calls(&b, now, 200, true, 1);
    assert_true(iop_brownout_tick(&b, now, 0, 512));
    for (; b.active && now < 200000; now += 100) {
        if (iop_brownout_admit(&b, now, &probe)) {
            assert_true(probe);
            probes++;
            iop_brownout_call(&b, now, false, 5); /* the upstream is well again */
        }
        (void)iop_brownout_tick(&b, now, 0, 512);
    }
    assert_false(b.active);
    assert_true(now - 1000 >= 30000);
    assert_true(now - 1000 <= 40000);
    assert_true(probes >= 30 && probes <= 41);        /* one a second */
    assert_false(iop_brownout_tick(&b, now, 0, 512)); /* W4: old failures do not start the next */
}

static void test_brownout__upstream_stays_bad__it_lasts(void **state)
{
    struct iop_brownout b = fresh();
    bool probe = false;

    (void)state;
    calls(&b, 0, 200, true, 1);
    assert_true(iop_brownout_tick(&b, 0, 0, 512));
    for (uint64_t now = 0; now < 900000; now += 500) {
        if (iop_brownout_admit(&b, now, &probe)) {
            iop_brownout_call(&b, now, true, 5);
        }
        assert_false(iop_brownout_tick(&b, now, 0, 512));
    }
    assert_int_equal(b.onsets, 1);
}

/* Few calls come: five of them, all good, are enough however long they take; four are not. */
static void test_brownout__sparse_calls__five_good_ones_end_it(void **state)
{
    struct iop_brownout b = fresh();

    (void)state;
    calls(&b, 0, 200, true, 1);
    assert_true(iop_brownout_tick(&b, 0, 0, 512));
    for (uint64_t now = 20000; now <= 80000; now += 20000) {
        calls(&b, now, 1, false, 249);
        assert_false(iop_brownout_tick(&b, now, 0, 512));
    }
    calls(&b, 100000, 1, false, 250); /* half of the bound: the count begins anew */
    assert_false(iop_brownout_tick(&b, 100000, 0, 512));
    for (uint64_t now = 120000; now <= 180000; now += 20000) {
        calls(&b, now, 1, false, 1);
        assert_false(iop_brownout_tick(&b, now, 0, 512));
    }
    calls(&b, 200000, 1, false, 1);
    assert_true(iop_brownout_tick(&b, 200000, 0, 512));
    assert_false(b.trial);
}

/* W5: nobody is sent here while it is not ready, so no call can say that all is well. */
static void test_brownout__no_calls__ends_on_trial_after_the_hold(void **state)
{
    struct iop_brownout b = fresh();
    bool probe = true;

    (void)state;
    calls(&b, 0, 200, true, 1);
    assert_true(iop_brownout_tick(&b, 0, 0, 512));
    calls(&b, 10000, 1, true, 1);
    assert_false(iop_brownout_tick(&b, 39999, 0, 512));   /* silent for less than 30 s */
    assert_false(iop_brownout_tick(&b, 40000, 205, 512)); /* the queue has something to say, too */
    assert_true(iop_brownout_tick(&b, 40000, 0, 512));
    assert_false(b.active);
    assert_true(b.trial);
    assert_true(iop_brownout_admit(&b, 40000, &probe));
    assert_false(probe);
    calls(&b, 50000, 4, false, 1);
    assert_false(iop_brownout_tick(&b, 50000, 0, 512));
    assert_true(b.trial); /* four calls are too few */
    calls(&b, 50000, 1, false, 1);
    assert_false(iop_brownout_tick(&b, 50000, 0, 512));
    assert_false(b.trial);
    calls(&b, 50000, 5, true, 1); /* from here on it takes a hundred calls again */
    assert_false(iop_brownout_tick(&b, 50000, 0, 512));
}

static void test_brownout__trial_fails__begins_again_and_waits_longer(void **state)
{
    static const uint64_t silences[] = {30000, 60000, 120000, 240000, 240000};
    struct iop_brownout b = fresh();
    uint64_t now = 0;

    (void)state;
    calls(&b, now, 200, true, 1);
    assert_true(iop_brownout_tick(&b, now, 0, 512));
    for (size_t i = 0; i < RON_ARRAY_LEN(silences); i++) {
        assert_false(iop_brownout_tick(&b, now + silences[i] - 1, 0, 512));
        now += silences[i];
        assert_true(iop_brownout_tick(&b, now, 0, 512));
        calls(&b, now, 4, false, 1);
        assert_false(iop_brownout_tick(&b, now, 0, 512));
        calls(&b, now, 1, i == 0, 500); /* one of five is slow or has failed */
        assert_true(iop_brownout_tick(&b, now, 0, 512));
        assert_true(b.active);
        assert_int_equal(b.cause, i == 0 ? IOP_CAUSE_ERRORS : IOP_CAUSE_LATENCY);
    }
    assert_true(iop_brownout_tick(&b, now + 240000, 0, 512));
    calls(&b, now + 240000, 5, false, 1);
    assert_false(iop_brownout_tick(&b, now + 240000, 0, 512));
    assert_int_equal(b.trials_failed, 0); /* forgotten with a trial that was passed */
}

/* W1: a client that hammers is shed, and shedding is no call; so whatever the load, a brownout over
 * a healthy upstream ends. */
static void test_brownout__random_load__never_latches(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int run = 0; run < 50; run++) {
        struct iop_brownout b = fresh();
        uint64_t bad_until = ron_rand_range(&rand, 1000, 200000);
        uint64_t now = 0;
        uint64_t calm_since = 0;

        for (; now < 600000; now += 1 + ron_rand_below(&rand, 200)) {
            bool probe = false;

            if (iop_brownout_admit(&b, now, &probe)) {
                iop_brownout_call(&b, now, now < bad_until && ron_rand_chance(&rand, 1, 3),
                                  ron_rand_below(&rand, 200));
            }
            (void)iop_brownout_tick(&b, now, ron_rand_below(&rand, 100), 512);
            if (now >= bad_until && calm_since == 0) {
                calm_since = now;
            }
        }
        assert_false(b.active); /* at the latest some minutes after the cause has gone */
        assert_true(calm_since > 0);
    }
}

static void test_brownout__clock_goes_back__no_harm(void **state)
{
    struct iop_brownout b = fresh();
    bool probe = false;

    (void)state;
    calls(&b, 1000000, 200, true, 1);
    assert_true(iop_brownout_tick(&b, 1000000, 0, 512));
    assert_false(iop_brownout_tick(&b, 1000, 0, 512));
    assert_true(iop_brownout_admit(&b, 1000, &probe));
    calls(&b, 31000, 10, false, 1);
    assert_true(iop_brownout_tick(&b, 31000, 0, 512));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brownout__failure_rate__above_one_percent_of_a_hundred),
        cmocka_unit_test(test_brownout__window__forgets_after_five_minutes),
        cmocka_unit_test(test_brownout__p95__499_no_500_yes),
        cmocka_unit_test(test_brownout__queue__over_80_percent_for_a_minute),
        cmocka_unit_test(test_brownout__upstream_recovers__probes_end_it_after_the_hold),
        cmocka_unit_test(test_brownout__upstream_stays_bad__it_lasts),
        cmocka_unit_test(test_brownout__sparse_calls__five_good_ones_end_it),
        cmocka_unit_test(test_brownout__no_calls__ends_on_trial_after_the_hold),
        cmocka_unit_test(test_brownout__trial_fails__begins_again_and_waits_longer),
        cmocka_unit_test(test_brownout__random_load__never_latches),
        cmocka_unit_test(test_brownout__clock_goes_back__no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
