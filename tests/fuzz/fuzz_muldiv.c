/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_muldiv.c - any three 128-bit numbers through multiply-divide and division.
 *
 * Input: up to 48 bytes a, b, d, each little endian; missing bytes are zero.
 * Oracle: product and quotient bit by bit (tests/support/oracle.h), and quotient * d + remainder.
 */
#include <stdint.h>
#include <string.h>

#include "base/wide_priv.h"
#include "ron/base/assert.h"
#include "ron/base/wide.h"
#include "support/oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Operand number `index` of the input. */
static ron_u128 operand(const uint8_t *data, size_t size, size_t index)
{
    ron_u128 value = 0;

    for (size_t i = 16; i-- > 0;) {
        size_t at = index * 16 + i;

        value = value << 8 | (at < size ? data[at] : 0);
    }
    return value;
}

static void check_muldiv(ron_u128 a, ron_u128 b, ron_u128 d, struct ron_u256 slow_q,
                         ron_u128 slow_r)
{
    ron_u128 q = 77;
    ron_u128 r = 77;
    enum ron_wide_result result = ron_muldiv(a, b, d, RON_ROUND_FLOOR, &q, &r);

    if (slow_q.hi != 0) {
        RON_ASSERT(result == RON_WIDE_OVERFLOW);
        RON_ASSERT(q == 77);
        RON_ASSERT(r == 77);
        return;
    }
    RON_ASSERT(result == RON_WIDE_OK);
    RON_ASSERT(q == slow_q.lo);
    RON_ASSERT(r == slow_r);
    result = ron_muldiv(a, b, d, RON_ROUND_CEIL, &q, NULL);
    if (slow_r != 0 && slow_q.lo == RON_U128_MAX) {
        RON_ASSERT(result == RON_WIDE_OVERFLOW);
    } else {
        RON_ASSERT(result == RON_WIDE_OK);
        RON_ASSERT(q == slow_q.lo + (slow_r != 0));
    }
}

static void check_div(struct ron_u256 n, ron_u128 d)
{
    struct ron_u256 q;
    struct ron_u256 slow_q;
    ron_u128 r;
    ron_u128 slow_r;

    RON_ASSERT(ron_u256_div(n, d, &q, &r) == RON_WIDE_OK);
    support_slow_div(n, d, &slow_q, &slow_r);
    RON_ASSERT(ron_u256_cmp(q, slow_q) == 0);
    RON_ASSERT(r == slow_r);
    RON_ASSERT(r < d);
    if (q.hi == 0) {
        RON_ASSERT(ron_u256_cmp(support_add_256(ron_u256_mul(q.lo, d), r), n) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ron_u128 a = operand(data, size, 0);
    ron_u128 b = operand(data, size, 1);
    ron_u128 d = operand(data, size, 2);
    struct ron_u256 product = support_slow_mul(a, b);
    struct ron_u256 slow_q;
    ron_u128 slow_r;

    RON_ASSERT(ron_u256_cmp(ron_u256_mul(a, b), product) == 0);
    if (d == 0) {
        RON_ASSERT(ron_muldiv(a, b, d, RON_ROUND_FLOOR, NULL, NULL) == RON_WIDE_DIV_ZERO);
        RON_ASSERT(ron_u256_div(product, d, NULL, NULL) == RON_WIDE_DIV_ZERO);
        return 0;
    }
    support_slow_div(product, d, &slow_q, &slow_r);
    check_muldiv(a, b, d, slow_q, slow_r);
    check_div((struct ron_u256){.hi = a, .lo = b}, d);
    return 0;
}
