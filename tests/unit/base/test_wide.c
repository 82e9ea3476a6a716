/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: 256-bit product, division and multiply-divide are exact for every operand.
 * Method: oracles that work bit by bit and share no code with the implementation, operands that sit
 * on the edges of limbs, and the identity n = q * d + r. */
#include "support/oracle.h"
#include "support/support.h"

#include "base/wide_priv.h"
#include "ron/base/wide.h"

#define CASES 40000

static void assert_u256_equal(struct ron_u256 a, struct ron_u256 b)
{
    support_assert_u128_equal(a.hi, b.hi);
    support_assert_u128_equal(a.lo, b.lo);
}

static void test_wide__product__matches_doubling_and_adding(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();

    for (int i = 0; i < CASES; i++) {
        ron_u128 a = support_rand_edgy_u128(&rand);
        ron_u128 b = support_rand_edgy_u128(&rand);

        assert_u256_equal(ron_u256_mul(a, b), support_slow_mul(a, b));
        assert_u256_equal(ron_u256_mul(a, b), ron_u256_mul(b, a));
    }
    struct ron_u256 most = ron_u256_mul(RON_U128_MAX, RON_U128_MAX);

    support_assert_u128_equal(most.hi, RON_U128_MAX - 1);
    support_assert_u128_equal(most.lo, 1);
}

static void test_wide__division__matches_long_division(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();

    for (int i = 0; i < CASES; i++) {
        struct ron_u256 n = {support_rand_edgy_u128(&rand), support_rand_edgy_u128(&rand)};
        ron_u128 d = support_rand_edgy_u128(&rand);
        struct ron_u256 q = {7, 7};
        ron_u128 r = 7;
        struct ron_u256 slow_q;
        ron_u128 slow_r;

        if (d == 0) {
            assert_int_equal(ron_u256_div(n, d, &q, &r), RON_WIDE_DIV_ZERO);
            assert_u256_equal(q, (struct ron_u256){7, 7});
            support_assert_u128_equal(r, 7);
            continue;
        }
        support_slow_div(n, d, &slow_q, &slow_r);
        assert_int_equal(ron_u256_div(n, d, &q, &r), RON_WIDE_OK);
        assert_u256_equal(q, slow_q);
        support_assert_u128_equal(r, slow_r);
        assert_int_equal(ron_u256_div(n, d, NULL, NULL), RON_WIDE_OK);
    }
}

/* Divisors and dividends around each other's multiples make the guess of a limb wrong. */
static void test_wide__division_near_multiples__is_exact(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();

    for (int i = 0; i < CASES; i++) {
        ron_u128 d = support_rand_edgy_u128(&rand) | 1;
        ron_u128 q = support_rand_edgy_u128(&rand);
        ron_u128 r = support_rand_edgy_u128(&rand) % d;
        struct ron_u256 n = support_add_256(ron_u256_mul(q, d), r);
        struct ron_u256 got_q;
        ron_u128 got_r;

        assert_int_equal(ron_u256_div(n, d, &got_q, &got_r), RON_WIDE_OK);
        assert_u256_equal(got_q, (struct ron_u256){0, q});
        support_assert_u128_equal(got_r, r);
    }
}

static void test_wide__muldiv__rounds_as_asked(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();
    int overflows = 0;

    for (int i = 0; i < CASES; i++) {
        ron_u128 a = support_rand_edgy_u128(&rand);
        ron_u128 b = support_rand_edgy_u128(&rand);
        ron_u128 d = support_rand_edgy_u128(&rand) | (ron_u128)(i % 8 != 0);
        ron_u128 floor_q = 7;
        ron_u128 ceil_q = 7;
        ron_u128 floor_r = 7;
        ron_u128 ceil_r = 7;
        enum ron_wide_result floor = ron_muldiv(a, b, d, RON_ROUND_FLOOR, &floor_q, &floor_r);
        enum ron_wide_result ceil = ron_muldiv(a, b, d, RON_ROUND_CEIL, &ceil_q, &ceil_r);
        struct ron_u256 slow_q = {0, 0};
        ron_u128 slow_r = 0;

        if (d == 0) {
            assert_int_equal(floor, RON_WIDE_DIV_ZERO);
            assert_int_equal(ceil, RON_WIDE_DIV_ZERO);
            support_assert_u128_equal(floor_q, 7);
            continue;
        }
        support_slow_div(support_slow_mul(a, b), d, &slow_q, &slow_r);
        if (slow_q.hi != 0) {
            overflows++;
            assert_int_equal(floor, RON_WIDE_OVERFLOW);
            assert_int_equal(ceil, RON_WIDE_OVERFLOW);
            support_assert_u128_equal(floor_q, 7);
            support_assert_u128_equal(floor_r, 7);
            continue;
        }
        assert_int_equal(floor, RON_WIDE_OK);
        support_assert_u128_equal(floor_q, slow_q.lo);
        support_assert_u128_equal(floor_r, slow_r);
        bool up_overflows = slow_r != 0 && slow_q.lo == RON_U128_MAX;

        assert_int_equal(ceil, up_overflows ? RON_WIDE_OVERFLOW : RON_WIDE_OK);
        if (!up_overflows) {
            support_assert_u128_equal(ceil_q, slow_q.lo + (slow_r != 0));
            support_assert_u128_equal(ceil_r, slow_r);
        }
    }
    assert_true(overflows > 100 && overflows < CASES - 100); /* both sides were visited */
}

static void test_wide__muldiv_edges__are_results(void **state)
{
    (void)state;
    ron_u128 q = 0;
    ron_u128 r = 0;
    ron_u128 max = RON_U128_MAX;

    assert_int_equal(ron_muldiv(max, max, max, RON_ROUND_CEIL, &q, &r), RON_WIDE_OK);
    support_assert_u128_equal(q, max);
    support_assert_u128_equal(r, 0);
    assert_int_equal(ron_muldiv(max, max, max - 1, RON_ROUND_FLOOR, &q, &r), RON_WIDE_OVERFLOW);
    assert_int_equal(ron_muldiv(max, max - 1, max, RON_ROUND_CEIL, &q, &r), RON_WIDE_OK);
    support_assert_u128_equal(q, max - 1);
    assert_int_equal(ron_muldiv(0, max, 1, RON_ROUND_CEIL, &q, &r), RON_WIDE_OK);
    support_assert_u128_equal(q, 0);
    assert_int_equal(ron_muldiv(1, 1, 3, RON_ROUND_CEIL, &q, &r), RON_WIDE_OK);
    support_assert_u128_equal(q, 1);
    support_assert_u128_equal(r, 1);
    assert_int_equal(ron_muldiv(5, 5, 0, RON_ROUND_FLOOR, &q, &r), RON_WIDE_DIV_ZERO);
    assert_int_equal(ron_muldiv(5, 5, 4, RON_ROUND_FLOOR, NULL, NULL), RON_WIDE_OK);
    /* 0x4924..49 * 7 is 2^129 - 1: halved, the floor is the largest number and the ceiling is not
     * one any more. */
    ron_u128 sevenfold = ron_u128_make(UINT64_C(0x4924924924924924), UINT64_C(0x9249249249249249));

    assert_int_equal(ron_muldiv(sevenfold, 7, 2, RON_ROUND_FLOOR, &q, &r), RON_WIDE_OK);
    support_assert_u128_equal(q, max);
    support_assert_u128_equal(r, 1);
    assert_int_equal(ron_muldiv(sevenfold, 7, 2, RON_ROUND_CEIL, &q, &r), RON_WIDE_OVERFLOW);
    support_assert_u128_equal(q, max);
}

static void test_wide__compare__is_consistent(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();

    for (int i = 0; i < 1000; i++) {
        struct ron_u256 a = {support_rand_edgy_u128(&rand) % 3, support_rand_edgy_u128(&rand)};
        struct ron_u256 b = {support_rand_edgy_u128(&rand) % 3, support_rand_edgy_u128(&rand)};

        assert_int_equal(ron_u256_cmp(a, a), 0);
        assert_int_equal(ron_u256_cmp(a, b), -ron_u256_cmp(b, a));
        if (a.hi == b.hi) {
            assert_int_equal(ron_u256_cmp(a, b), (a.lo > b.lo) - (a.lo < b.lo));
        } else {
            assert_int_equal(ron_u256_cmp(a, b), a.hi > b.hi ? 1 : -1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wide__product__matches_doubling_and_adding),
        cmocka_unit_test(test_wide__division__matches_long_division),
        cmocka_unit_test(test_wide__division_near_multiples__is_exact),
        cmocka_unit_test(test_wide__muldiv__rounds_as_asked),
        cmocka_unit_test(test_wide__muldiv_edges__are_results),
        cmocka_unit_test(test_wide__compare__is_consistent),
    };

    return cmocka_run_group_tests_name("base.wide", tests, NULL, NULL);
}
