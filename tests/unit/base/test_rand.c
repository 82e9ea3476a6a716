/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the sequences are the published ones, and bounded draws are uniform.
 * Method: published vectors; counts against their expectation, with bounds so wide that a sound
 * generator fails once in more than 10^9 runs. */
#include "support/support.h"

#include "ron/base/rand.h"

static void test_rand__splitmix64__matches_published_values(void **state)
{
    (void)state;
    /* Seed 1234567, as published with the algorithm on Rosetta Code. */
    static const uint64_t expected[] = {
        UINT64_C(6457827717110365317),  UINT64_C(3203168211198807973),
        UINT64_C(9817491932198370423),  UINT64_C(4593380528125082431),
        UINT64_C(16408922859458223821),
    };
    uint64_t seed = 1234567;

    for (size_t i = 0; i < RON_ARRAY_LEN(expected); i++) {
        assert_true(ron_splitmix64(&seed) == expected[i]);
    }
}

static void test_rand__xoshiro__matches_published_values(void **state)
{
    (void)state;
    /* State 1, 2, 3, 4, as in the reference vectors of the Rust crate rand_xoshiro. */
    static const uint64_t expected[] = {
        UINT64_C(11520),
        UINT64_C(0),
        UINT64_C(1509978240),
        UINT64_C(1215971899390074240),
        UINT64_C(1216172134540287360),
        UINT64_C(607988272756665600),
        UINT64_C(16172922978634559625),
        UINT64_C(8476171486693032832),
        UINT64_C(10595114339597558777),
        UINT64_C(2904607092377533576),
    };
    struct ron_rand rand = {.s = {1, 2, 3, 4}};

    for (size_t i = 0; i < RON_ARRAY_LEN(expected); i++) {
        assert_true(ron_rand_u64(&rand) == expected[i]);
    }
}

static void test_rand__same_seed__gives_the_same_sequence(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct ron_rand a;
        struct ron_rand b;
        struct ron_rand other;
        int same = 0;

        ron_rand_seed(&a, seed);
        ron_rand_seed(&b, seed);
        ron_rand_seed(&other, seed + 1);
        for (int i = 0; i < 100; i++) {
            uint64_t value = ron_rand_u64(&a);

            assert_true(value == ron_rand_u64(&b));
            same += value == ron_rand_u64(&other);
        }
        assert_int_equal(same, 0);
    }
}

/* |hits - n * num / den| must stay within 7 standard deviations. */
static void assert_share(uint64_t hits, uint64_t n, uint64_t num, uint64_t den)
{
    int64_t off = (int64_t)(hits * den) - (int64_t)(n * num);
    ron_u128 variance = (ron_u128)n * num * (den - num); /* scaled by den^2 */

    assert_true((ron_u128)(off * off) <= 49 * variance);
}

static void test_rand__below__is_uniform_and_in_range(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();
    static const uint64_t bounds[] = {1, 2, 3, 7, 10, 16};

    for (size_t b = 0; b < RON_ARRAY_LEN(bounds); b++) {
        uint64_t hits[16] = {0};
        uint64_t n = 40000;

        for (uint64_t i = 0; i < n; i++) {
            uint64_t value = ron_rand_below(&rand, bounds[b]);

            assert_true(value < bounds[b]);
            hits[value]++;
        }
        for (uint64_t v = 0; v < bounds[b]; v++) {
            assert_share(hits[v], n, 1, bounds[b]);
        }
    }
}

/* With three quarters of 2^64 as the bound, a draw without rejection would hit every third number
 * twice as often as the others. */
static void test_rand__below_of_a_huge_bound__has_no_bias(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();
    uint64_t bound = UINT64_C(3) << 62;
    uint64_t thirds[3] = {0};
    uint64_t n = 40000;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t value = ron_rand_below(&rand, bound);

        assert_true(value < bound);
        thirds[value % 3]++;
    }
    for (size_t i = 0; i < 3; i++) {
        assert_share(thirds[i], n, 1, 3);
    }
}

static void test_rand__range__includes_both_ends(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();
    bool seen[6] = {false};

    for (int i = 0; i < 2000; i++) {
        uint64_t value = ron_rand_range(&rand, 5, 10);

        assert_true(value >= 5 && value <= 10);
        seen[value - 5] = true;
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(seen); i++) {
        assert_true(seen[i]);
    }
    assert_true(ron_rand_range(&rand, 9, 9) == 9);
    assert_true(ron_rand_range(&rand, UINT64_MAX, UINT64_MAX) == UINT64_MAX);
    uint64_t high_bits = 0;

    for (int i = 0; i < 100; i++) {
        high_bits |= ron_rand_range(&rand, 0, UINT64_MAX);
    }
    assert_true(high_bits == UINT64_MAX);
}

static void test_rand__chance__has_its_share(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();
    uint64_t hits = 0;
    uint64_t n = 40000;

    for (uint64_t i = 0; i < n; i++) {
        hits += ron_rand_chance(&rand, 3, 10);
        assert_false(ron_rand_chance(&rand, 0, 10));
        assert_true(ron_rand_chance(&rand, 10, 10));
    }
    assert_share(hits, n, 3, 10);
}

static void test_rand__fork__is_independent_of_later_draws(void **state)
{
    (void)state;
    struct ron_rand parent = support_rand();
    struct ron_rand same = parent;
    struct ron_rand child = ron_rand_fork(&parent);

    for (int i = 0; i < 50; i++) {
        (void)ron_rand_u64(&parent);
    }
    struct ron_rand again = ron_rand_fork(&same);
    struct ron_rand sibling = ron_rand_fork(&same);

    assert_memory_equal(&child, &again, sizeof(child));
    assert_memory_not_equal(&child, &sibling, sizeof(child));
    assert_true(ron_rand_u64(&child) != ron_rand_u64(&parent));
}

static void test_rand__bytes__are_the_draws_little_end_first(void **state)
{
    (void)state;
    for (size_t len = 0; len < 40; len++) {
        struct ron_rand a = support_rand();
        struct ron_rand b = a;
        uint8_t bytes[48];

        memset(bytes, 0xee, sizeof(bytes));
        ron_rand_bytes(&a, bytes, len);
        for (size_t i = 0; i < len; i++) {
            static uint64_t word;

            word = i % 8 == 0 ? ron_rand_u64(&b) : word;
            assert_int_equal(bytes[i], (uint8_t)(word >> (8 * (i % 8))));
        }
        assert_int_equal(bytes[len], 0xee);
        assert_memory_equal(&a, &b, sizeof(a));
    }
}

static void below_zero(void *arg)
{
    (void)ron_rand_below(arg, 0);
}

static void range_reversed(void *arg)
{
    (void)ron_rand_range(arg, 2, 1);
}

static void chance_above_one(void *arg)
{
    (void)ron_rand_chance(arg, 3, 2);
}

static void test_rand__wrong_use__is_caught(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();

    support_death(below_zero, &rand, "bound != 0");
    support_death(range_reversed, &rand, "first <= last");
    support_death(chance_above_one, &rand, "num <= den");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rand__splitmix64__matches_published_values),
        cmocka_unit_test(test_rand__xoshiro__matches_published_values),
        cmocka_unit_test(test_rand__same_seed__gives_the_same_sequence),
        cmocka_unit_test(test_rand__below__is_uniform_and_in_range),
        cmocka_unit_test(test_rand__below_of_a_huge_bound__has_no_bias),
        cmocka_unit_test(test_rand__range__includes_both_ends),
        cmocka_unit_test(test_rand__chance__has_its_share),
        cmocka_unit_test(test_rand__fork__is_independent_of_later_draws),
        cmocka_unit_test(test_rand__bytes__are_the_draws_little_end_first),
        cmocka_unit_test(test_rand__wrong_use__is_caught),
    };

    return cmocka_run_group_tests_name("base.rand", tests, NULL, NULL);
}
