/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: deadline arithmetic saturates and rounds towards waiting; a backwards clock stands still.
 * Method: edges by hand, identities over random times. */
#include "support/support.h"

#include "ron/base/clock.h"

static uint64_t fake_mono_ns(void *ctx)
{
    return *(uint64_t *)ctx;
}

static uint64_t fake_wall_ms(void *ctx)
{
    return *(uint64_t *)ctx / RON_NS_PER_MS + 5;
}

static void test_clock__interface__asks_the_implementation(void **state)
{
    (void)state;
    uint64_t now_ns = 7 * RON_NS_PER_MS;
    struct ron_clock clock = {.mono_ns = fake_mono_ns, .wall_ms = fake_wall_ms, .ctx = &now_ns};

    assert_int_equal(ron_clock_mono_ns(&clock), 7 * RON_NS_PER_MS);
    assert_int_equal(ron_clock_wall_ms(&clock), 12);
}

static void test_clock__deadline__saturates_to_never(void **state)
{
    (void)state;
    assert_true(ron_deadline_is_never(ron_deadline_never()));
    assert_true(ron_deadline_is_never(ron_deadline_after_ms(0, UINT64_MAX)));
    assert_true(ron_deadline_is_never(ron_deadline_after_ms(1, UINT64_MAX / RON_NS_PER_MS + 1)));
    assert_true(ron_deadline_is_never(ron_deadline_after_ns(UINT64_MAX, 0)));
    assert_true(ron_deadline_is_never(ron_deadline_after_ns(UINT64_MAX - 5, 6)));
    assert_true(ron_deadline_after_ns(UINT64_MAX - 5, 4).at_ns == UINT64_MAX - 1);
    assert_int_equal(ron_deadline_after_ms(1000, 3).at_ns, 1000 + 3 * RON_NS_PER_MS);
    assert_true(ron_sat_add_u64(UINT64_MAX, UINT64_MAX) == UINT64_MAX);
    assert_true(ron_sat_mul_u64(UINT64_MAX, 2) == UINT64_MAX);
    assert_int_equal(ron_sat_mul_u64(6, 7), 42);
    assert_int_equal(ron_sat_add_u64(6, 7), 13);
}

static void test_clock__never__does_not_expire(void **state)
{
    (void)state;
    struct ron_deadline never = ron_deadline_never();

    assert_false(ron_deadline_expired(never, UINT64_MAX));
    assert_true(ron_deadline_left_ns(never, UINT64_MAX) == UINT64_MAX);
    assert_true(ron_deadline_left_ms(never, 0) == UINT64_MAX);
    assert_int_equal(ron_deadline_poll_ms(never, 0), -1);
}

static void test_clock__remaining_time__is_rounded_up(void **state)
{
    (void)state;
    struct ron_deadline at = {.at_ns = 10 * RON_NS_PER_MS};

    assert_int_equal(ron_deadline_left_ms(at, 0), 10);
    assert_int_equal(ron_deadline_left_ms(at, 1), 10);
    assert_int_equal(ron_deadline_left_ms(at, RON_NS_PER_MS), 9);
    assert_int_equal(ron_deadline_left_ms(at, 10 * RON_NS_PER_MS - 1), 1);
    assert_int_equal(ron_deadline_left_ms(at, 10 * RON_NS_PER_MS), 0);
    assert_int_equal(ron_deadline_left_ms(at, 11 * RON_NS_PER_MS), 0);
    assert_true(ron_deadline_expired(at, 10 * RON_NS_PER_MS));
    assert_false(ron_deadline_expired(at, 10 * RON_NS_PER_MS - 1));
    assert_int_equal(ron_deadline_poll_ms(at, 1), 10);
    assert_int_equal(ron_deadline_poll_ms((struct ron_deadline){.at_ns = UINT64_MAX - 1}, 0),
                     INT_MAX);
}

static void test_clock__random_times__waiting_what_is_left_reaches_the_deadline(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();

    for (int i = 0; i < 50000; i++) {
        uint64_t now_ns = support_rand_edgy_u64(&rand);
        struct ron_deadline a = ron_deadline_after_ns(now_ns, support_rand_edgy_u64(&rand));
        struct ron_deadline b = ron_deadline_after_ms(now_ns, support_rand_edgy_u64(&rand));
        struct ron_deadline first = ron_deadline_min(a, b);
        uint64_t left_ms = ron_deadline_left_ms(a, now_ns);

        assert_true(first.at_ns <= a.at_ns && first.at_ns <= b.at_ns);
        assert_true(first.at_ns == a.at_ns || first.at_ns == b.at_ns);
        assert_true(a.at_ns >= now_ns);
        if (!ron_deadline_is_never(a)) {
            /* One millisecond less would not be enough; this much is. */
            ron_u128 reached = (ron_u128)now_ns + (ron_u128)left_ms * RON_NS_PER_MS;

            assert_true(reached >= a.at_ns && reached - a.at_ns < RON_NS_PER_MS);
            assert_int_equal(ron_deadline_expired(a, now_ns), left_ms == 0);
        }
    }
}

static void test_clock__guard__turns_backwards_into_standstill(void **state)
{
    (void)state;
    struct ron_clock_guard guard = {0};

    assert_int_equal(ron_clock_guard_ns(&guard, 100), 100);
    assert_int_equal(ron_clock_guard_ns(&guard, 100), 100); /* a standstill is no step back */
    assert_int_equal(guard.backwards_count, 0);
    assert_int_equal(ron_clock_guard_ns(&guard, 40), 100);
    assert_int_equal(ron_clock_guard_ns(&guard, 90), 100);
    assert_int_equal(guard.backwards_count, 2);
    assert_int_equal(guard.backwards_max_ns, 60);
    assert_int_equal(ron_clock_guard_ns(&guard, 101), 101);
    assert_int_equal(guard.backwards_count, 2);
}

static void test_clock__guard_on_random_readings__is_monotonic_and_counts(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();
    struct ron_clock_guard guard = {0};
    uint64_t highest = 0;
    uint64_t backwards = 0;

    for (int i = 0; i < 50000; i++) {
        uint64_t reading = highest / 2 + ron_rand_below(&rand, 1000000 + (uint64_t)i * 10);

        backwards += reading < highest;
        highest = reading > highest ? reading : highest;
        assert_int_equal(ron_clock_guard_ns(&guard, reading), highest);
    }
    assert_int_equal(guard.backwards_count, backwards);
    assert_true(backwards > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock__interface__asks_the_implementation),
        cmocka_unit_test(test_clock__deadline__saturates_to_never),
        cmocka_unit_test(test_clock__never__does_not_expire),
        cmocka_unit_test(test_clock__remaining_time__is_rounded_up),
        cmocka_unit_test(test_clock__random_times__waiting_what_is_left_reaches_the_deadline),
        cmocka_unit_test(test_clock__guard__turns_backwards_into_standstill),
        cmocka_unit_test(test_clock__guard_on_random_readings__is_monotonic_and_counts),
    };

    return cmocka_run_group_tests_name("base.clock", tests, NULL, NULL);
}
