/* SPDX-License-Identifier: Apache-2.0 */
/* test_bucket.c - the arithmetic of one token bucket.
 *
 * Goal: never above burst + rate * t in any window, never below what continuous refill promises,
 *   exact at every nanosecond, and safe at the ends of the number range.
 * Method: a model that keeps the level as an exact 128-bit fraction, random histories, and a check
 *   of every window of the recorded admissions.
 */
#include "unit/guard/fixture.h"

#include "guard/bucket.h"
#include "ron/base/clock.h"
#include "ron/guard/bucket.h"

static void test_bucket__new__gives_the_burst_and_no_more(void **state)
{
    struct ron_rate rate = {RON_RATE_DEFAULT, RON_BURST_DEFAULT};
    struct ron_bucket b;

    (void)state;
    ron_bucket_init(&b, rate, 7);
    assert_true(ron_bucket_full(&b, rate, 7));
    for (int i = 0; i < RON_BURST_DEFAULT; i++) {
        assert_true(ron_bucket_take(&b, rate, 7, 1));
    }
    assert_false(ron_bucket_take(&b, rate, 7, 1));
    /* 500 a second: the next one is there after exactly 2 ms, not a nanosecond before. */
    assert_int_equal(ron_bucket_wait_ns(&b, rate, 7, 1), 2 * RON_NS_PER_MS);
    assert_false(ron_bucket_take(&b, rate, 7 + 2 * RON_NS_PER_MS - 1, 1));
    assert_true(ron_bucket_take(&b, rate, 7 + 2 * RON_NS_PER_MS, 1));
}

static void test_bucket__rate_that_does_not_divide_a_second__loses_nothing(void **state)
{
    struct ron_rate rate = {3, 1};
    struct ron_bucket b;
    uint32_t taken = 0;

    (void)state;
    ron_bucket_init(&b, rate, 0);
    /* A thousand seconds in steps of 7 ns less than a millisecond. */
    for (uint64_t now_ns = 0; now_ns <= 1000 * RON_NS_PER_S; now_ns += 999993) {
        taken += ron_bucket_take(&b, rate, now_ns, 1);
    }
    assert_in_range(taken, 2990, 3001); /* Steps land up to a millisecond late, three a second. */
    assert_false(ron_bucket_full(&b, rate, b.at_ns));
    assert_true(ron_bucket_full(&b, rate, b.at_ns + RON_NS_PER_S));
}

static void test_bucket__many_at_once__all_or_none(void **state)
{
    struct ron_rate rate = {10, 5};
    struct ron_bucket b;

    (void)state;
    ron_bucket_init(&b, rate, 0);
    assert_false(ron_bucket_take(&b, rate, 0, 6));
    assert_int_equal(ron_bucket_wait_ns(&b, rate, 0, 6), UINT64_MAX);
    assert_true(ron_bucket_take(&b, rate, 0, 3));
    assert_false(ron_bucket_take(&b, rate, 0, 3));
    assert_int_equal(ron_bucket_wait_ns(&b, rate, 0, 3), RON_NS_PER_S / 10);
    assert_true(ron_bucket_take(&b, rate, 0, 2));
}

static void test_bucket__rate_zero__admits_everything(void **state)
{
    struct ron_bucket b;

    (void)state;
    ron_bucket_init(&b, (struct ron_rate){0}, 0);
    for (int i = 0; i < 1000; i++) {
        assert_true(ron_bucket_take(&b, (struct ron_rate){0}, 0, 1000));
    }
    assert_int_equal(ron_bucket_wait_ns(&b, (struct ron_rate){0}, 0, 1000), 0);
}

static void test_bucket__clock_backwards__adds_nothing(void **state)
{
    struct ron_rate rate = {1000, 1};
    struct ron_bucket b;

    (void)state;
    ron_bucket_init(&b, rate, 5 * RON_NS_PER_S);
    assert_true(ron_bucket_take(&b, rate, 5 * RON_NS_PER_S, 1));
    assert_false(ron_bucket_take(&b, rate, 0, 1));
    assert_false(ron_bucket_take(&b, rate, 5 * RON_NS_PER_S, 1)); /* the way back is no gain */
    assert_true(ron_bucket_take(&b, rate, 5 * RON_NS_PER_S + RON_NS_PER_MS, 1));
}

static void test_bucket__ends_of_the_range__saturate(void **state)
{
    struct ron_rate rate = {RON_RATE_MAX, RON_BURST_MAX};
    struct ron_bucket b;

    (void)state;
    assert_true(ron_rate_valid(rate));
    assert_false(ron_rate_valid((struct ron_rate){RON_RATE_MAX + 1, 1}));
    assert_false(ron_rate_valid((struct ron_rate){1, RON_BURST_MAX + 1u}));
    assert_false(ron_rate_valid((struct ron_rate){1, 0}));
    assert_true(ron_rate_valid((struct ron_rate){0, 0}));
    ron_bucket_init(&b, rate, 0);
    assert_true(ron_bucket_take(&b, rate, 0, RON_BURST_MAX));
    assert_true(ron_bucket_take(&b, rate, UINT64_MAX, RON_BURST_MAX));
    assert_false(ron_bucket_take(&b, rate, UINT64_MAX, 1));
}

/* The model: level in billionths as a 128-bit number, nothing clever. */
struct model {
    ron_u128 level;
    uint64_t at_ns;
};

static void model_refill(struct model *m, struct ron_rate rate, uint64_t now_ns)
{
    ron_u128 cap = (ron_u128)rate.burst * RON_NS_PER_S;

    m->level += (ron_u128)(now_ns - m->at_ns) * rate.rate_per_s;
    m->at_ns = now_ns;
    if (m->level > cap) {
        m->level = cap;
    }
}

enum { HISTORY = 400 };

static void check_windows(const uint64_t *times, size_t count, struct ron_rate rate)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i; j < count; j++) {
            ron_u128 bound = (ron_u128)rate.burst * RON_NS_PER_S +
                             (ron_u128)(times[j] - times[i]) * rate.rate_per_s;

            assert_true((ron_u128)(j - i + 1) * RON_NS_PER_S <= bound);
        }
    }
}

static void test_bucket__random_histories__as_the_model_and_within_every_window(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int run = 0; run < 200; run++) {
        struct ron_rate rate = {(uint32_t)ron_rand_range(&rand, 1, run % 2 ? 5000 : RON_RATE_MAX),
                                (uint32_t)ron_rand_range(&rand, 1, 50)};
        uint64_t step_ns = 4 * RON_NS_PER_S / rate.rate_per_s + 2;
        uint64_t now_ns = support_rand_edgy_u64(&rand) >> 2;
        struct ron_bucket b;
        struct model m = {(ron_u128)rate.burst * RON_NS_PER_S, now_ns};
        uint64_t admitted[HISTORY];
        size_t count = 0;

        ron_bucket_init(&b, rate, now_ns);
        for (int i = 0; i < HISTORY; i++) {
            bool expected;
            uint64_t wait_ns;

            now_ns += ron_rand_chance(&rand, 1, 3) ? 0 : ron_rand_below(&rand, step_ns);
            model_refill(&m, rate, now_ns);
            expected = m.level >= RON_NS_PER_S;
            wait_ns = ron_bucket_wait_ns(&b, rate, now_ns, 1);
            assert_int_equal(wait_ns == 0, expected);
            if (!expected) {
                ron_u128 missing = RON_NS_PER_S - m.level;

                assert_true((ron_u128)wait_ns * rate.rate_per_s >= missing);
                assert_true((ron_u128)(wait_ns - 1) * rate.rate_per_s < missing);
            }
            assert_int_equal(ron_bucket_take(&b, rate, now_ns, 1), expected);
            if (expected) {
                m.level -= RON_NS_PER_S;
                admitted[count++] = now_ns;
            }
            assert_true(b.level_parts == m.level);
        }
        check_windows(admitted, count, rate);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bucket__new__gives_the_burst_and_no_more),
        cmocka_unit_test(test_bucket__rate_that_does_not_divide_a_second__loses_nothing),
        cmocka_unit_test(test_bucket__many_at_once__all_or_none),
        cmocka_unit_test(test_bucket__rate_zero__admits_everything),
        cmocka_unit_test(test_bucket__clock_backwards__adds_nothing),
        cmocka_unit_test(test_bucket__ends_of_the_range__saturate),
        cmocka_unit_test(test_bucket__random_histories__as_the_model_and_within_every_window),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
