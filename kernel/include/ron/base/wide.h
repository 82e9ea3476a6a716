/* SPDX-License-Identifier: Apache-2.0 */
/* wide.h - 128-bit integers by name, and exact multiply-then-divide with a 256-bit middle.
 *
 * Place: base; under money.h and every share, fee and reward computation.
 *
 * Why: a * b / d with 128-bit operands needs 256 bits in between. With them the result is exact and
 * the only possible refusals are a zero divisor and a quotient that does not fit. Both are results,
 * not assertions, because the numbers come from outside.
 *
 * Pure functions; any thread. `ret_` pointers may be NULL and are written only on RON_WIDE_OK.
 */
#pragma once

#include <stdint.h>

#include "ron/base/macros.h"

__extension__ typedef unsigned __int128 ron_u128;

#define RON_U128_MAX (~(ron_u128)0)

/* Value hi * 2^128 + lo. */
struct ron_u256 {
    ron_u128 hi;
    ron_u128 lo;
};

static inline ron_u128 ron_u128_make(uint64_t hi, uint64_t lo)
{
    return ((ron_u128)hi << 64) | lo;
}

static inline uint64_t ron_u128_hi(ron_u128 value)
{
    return (uint64_t)(value >> 64);
}

static inline uint64_t ron_u128_lo(ron_u128 value)
{
    return (uint64_t)value;
}

/* X(name, text). */
#define RON_WIDE_RESULT_TABLE(X)                                                                   \
    X(OK, "ok")                                                                                    \
    X(DIV_ZERO, "division by zero")                                                                \
    X(OVERFLOW, "quotient does not fit in 128 bits")

enum ron_wide_result {
#define X(name, text) RON_WIDE_##name,
    RON_WIDE_RESULT_TABLE(X)
#undef X
};

enum ron_rounding {
    RON_ROUND_FLOOR,
    RON_ROUND_CEIL,
};

/* The exact product. */
struct ron_u256 ron_u256_mul(ron_u128 a, ron_u128 b);

/* -1, 0, 1. */
int ron_u256_cmp(struct ron_u256 a, struct ron_u256 b);

/* a * b / d, rounded as asked. The remainder is always the one of the floor division, so that
 * floor * d + remainder == a * b whatever the rounding. */
enum ron_wide_result ron_muldiv(ron_u128 a, ron_u128 b, ron_u128 d, enum ron_rounding rounding,
                                ron_u128 *ret_quotient, ron_u128 *ret_remainder) RON_MUST_USE;
