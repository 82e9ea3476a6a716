/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: division through reciprocals is division.
 *
 * Method: numbers at the edges of words against each other, then random ones with runs of ones and
 * zeros, all compared with long division bit by bit (support/oracle.h). */
#include "support/support.h"

#include "rewarder/calc/div.h"
#include "support/oracle.h"

static void compare_share(ron_u128 a, ron_u128 b, ron_u128 d)
{
    struct rwd_share share = rwd_share_of(a, d);
    struct ron_u256 quotient;
    ron_u128 rest;
    ron_u128 got_rest = 0;
    ron_u128 got = rwd_share(&share, b, &got_rest);

    support_slow_div(support_slow_mul(a, b), d, &quotient, &rest);
    assert_true(quotient.hi == 0);
    support_assert_u128_equal(got, quotient.lo);
    support_assert_u128_equal(got_rest, rest);
}

static void compare_div64(ron_u128 n, uint64_t d)
{
    struct rwd_div64 by = rwd_div64_of(d);

    support_assert_u128_equal(rwd_div64(n, &by), n / d);
}

static size_t edges(ron_u128 ret[16 * 3])
{
    static const uint32_t bits[] = {0, 1, 2, 31, 32, 33, 62, 63, 64, 65, 95, 96, 126, 127};
    size_t count = 0;

    for (size_t i = 0; i < RON_ARRAY_LEN(bits); i++) {
        ron_u128 power = (ron_u128)1 << bits[i];

        ret[count++] = power - 1;
        ret[count++] = power;
        ret[count++] = power + 1;
    }
    ret[count++] = RON_U128_MAX;
    ret[count++] = RON_U128_MAX - 1;
    return count;
}

static void test_div__edges_of_words__are_exact(void **state)
{
    ron_u128 n[16 * 3];
    size_t count = edges(n);

    (void)state;
    for (size_t a = 0; a < count; a++) {
        for (size_t d = 0; d < count; d++) {
            if (n[d] == 0) {
                continue;
            }
            if (n[d] <= UINT64_MAX) {
                compare_div64(n[a], (uint64_t)n[d]);
            }
            for (size_t b = 0; b < count; b++) {
                if (n[b] <= n[d]) {
                    compare_share(n[a], n[b], n[d]);
                }
            }
        }
    }
}

static void test_div__random_numbers__are_exact(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < 20000; i++) {
        ron_u128 a = support_rand_edgy_u128(&rand);
        ron_u128 d = support_rand_edgy_u128(&rand);
        ron_u128 b = support_rand_edgy_u128(&rand);
        uint64_t d64 = support_rand_edgy_u64(&rand);

        d += d == 0;
        compare_share(a, b <= d ? b : b % d, d);
        compare_share(a, d - (d > 1), d);
        compare_div64(a, d64 + (d64 == 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_div__edges_of_words__are_exact),
        cmocka_unit_test(test_div__random_numbers__are_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
