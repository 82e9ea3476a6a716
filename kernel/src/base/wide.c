/* SPDX-License-Identifier: Apache-2.0 */
/* wide.c - 256-bit product and division.
 *
 * Place: base, under money and shares. Pure arithmetic on 64-bit limbs.
 * Method: schoolbook multiplication; division after Knuth (The Art of Computer Programming vol. 2,
 *   4.3.1, algorithm D) in base 2^64 with a divisor of at most two limbs, one quotient limb a step.
 * Invariant: before each step the running remainder is below the divisor, so a step's quotient fits
 *   one limb.
 */
#include "ron/base/wide.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/wide_priv.h"
#include "ron/base/assert.h"

struct ron_u256 ron_u256_mul(ron_u128 a, ron_u128 b)
{
    ron_u128 a1 = ron_u128_hi(a);
    ron_u128 a0 = ron_u128_lo(a);
    ron_u128 b1 = ron_u128_hi(b);
    ron_u128 b0 = ron_u128_lo(b);
    ron_u128 low = a0 * b0;
    ron_u128 cross = a1 * b0;
    /* Three numbers below 2^64 each: no overflow. */
    ron_u128 middle = (low >> 64) + ron_u128_lo(cross) + ron_u128_lo(a0 * b1);

    return (struct ron_u256){
        .hi = a1 * b1 + (cross >> 64) + ((a0 * b1) >> 64) + (middle >> 64),
        .lo = ron_u128_make(ron_u128_lo(middle), ron_u128_lo(low)),
    };
}

int ron_u256_cmp(struct ron_u256 a, struct ron_u256 b)
{
    if (a.hi != b.hi) {
        return a.hi < b.hi ? -1 : 1;
    }
    return (a.lo > b.lo) - (a.lo < b.lo);
}

/* n / d for a divisor of one limb. */
static void div_by_limb(struct ron_u256 n, uint64_t d, struct ron_u256 *ret_quotient,
                        ron_u128 *ret_remainder)
{
    uint64_t limbs[4] = {ron_u128_hi(n.hi), ron_u128_lo(n.hi), ron_u128_hi(n.lo),
                         ron_u128_lo(n.lo)};
    uint64_t remainder = 0;

    for (size_t i = 0; i < 4; i++) {
        ron_u128 part = ron_u128_make(remainder, limbs[i]);

        limbs[i] = (uint64_t)(part / d); /* remainder < d, so it fits */
        remainder = (uint64_t)(part - (ron_u128)limbs[i] * d);
    }
    ret_quotient->hi = ron_u128_make(limbs[0], limbs[1]);
    ret_quotient->lo = ron_u128_make(limbs[2], limbs[3]);
    *ret_remainder = remainder;
}

/* One step of algorithm D: divides top * 2^64 + next by d, where top < d and the highest bit of d
 * is set. Returns the quotient limb. */
static uint64_t div_step(ron_u128 top, uint64_t next, ron_u128 d, ron_u128 *ret_remainder)
{
    uint64_t d1 = ron_u128_hi(d);
    uint64_t d0 = ron_u128_lo(d);
    uint64_t top1 = ron_u128_hi(top);
    /* The guess from the highest limbs is right or too large by one or two, because d is
     * normalised. */
    uint64_t guess = top1 >= d1 ? UINT64_MAX : (uint64_t)(top / d1);

    /* product = guess * d over three limbs: `high` holds two of them, `low` its lowest. */
    ron_u128 low = (ron_u128)guess * d0;
    ron_u128 high = (ron_u128)guess * d1 + ron_u128_hi(low);

    /* remainder = (top, next) - product, modulo 2^192: r2 above r10. */
    ron_u128 r0 = (ron_u128)next - ron_u128_lo(low);
    ron_u128 borrow = ron_u128_hi(r0) != 0;
    ron_u128 r21 = top - high - borrow;
    bool negative = top < high || (top == high && borrow != 0);
    uint64_t r2 = ron_u128_hi(r21);
    ron_u128 r10 = ron_u128_make(ron_u128_lo(r21), ron_u128_lo(r0));

    /* A negative remainder is within two divisors of zero; adding them back brings r2 to 0. */
    for (int i = 0; negative; i++) {
        RON_ASSERT_MSG(i < 2, "the guess was too large by more than two");
        guess--;
        r10 += d;
        r2 += r10 < d;
        negative = r2 != 0;
    }
    RON_ASSERT_MSG(r10 < d, "the remainder is below the divisor");
    *ret_remainder = r10;
    return guess;
}

/* n / d for a divisor of two limbs. */
static void div_by_two_limbs(struct ron_u256 n, ron_u128 d, struct ron_u256 *ret_quotient,
                             ron_u128 *ret_remainder)
{
    int shift = __builtin_clzll(ron_u128_hi(d));
    /* Shifting dividend and divisor alike keeps the quotient; five limbs hold the dividend. */
    ron_u128 over = shift == 0 ? 0 : n.hi >> (128 - shift);
    ron_u128 hi = n.hi << shift | (shift == 0 ? 0 : n.lo >> (128 - shift));
    ron_u128 lo = n.lo << shift;
    ron_u128 remainder = ron_u128_make((uint64_t)over, ron_u128_hi(hi));

    d <<= shift; /* now its highest bit is set, and `over` is below 2^63: remainder < d */
    uint64_t q2 = div_step(remainder, ron_u128_lo(hi), d, &remainder);
    uint64_t q1 = div_step(remainder, ron_u128_hi(lo), d, &remainder);
    uint64_t q0 = div_step(remainder, ron_u128_lo(lo), d, &remainder);
    ret_quotient->hi = q2;
    ret_quotient->lo = ron_u128_make(q1, q0);
    *ret_remainder = remainder >> shift;
}

enum ron_wide_result ron_u256_div(struct ron_u256 n, ron_u128 d, struct ron_u256 *ret_quotient,
                                  ron_u128 *ret_remainder)
{
    struct ron_u256 quotient = {.hi = 0, .lo = 0};
    ron_u128 remainder = 0;

    if (d == 0) {
        return RON_WIDE_DIV_ZERO;
    }
    if (n.hi == 0) {
        quotient.lo = n.lo / d;
        remainder = n.lo - quotient.lo * d;
    } else if (ron_u128_hi(d) == 0) {
        div_by_limb(n, ron_u128_lo(d), &quotient, &remainder);
    } else {
        div_by_two_limbs(n, d, &quotient, &remainder);
    }
    if (ret_quotient != NULL) {
        *ret_quotient = quotient;
    }
    if (ret_remainder != NULL) {
        *ret_remainder = remainder;
    }
    return RON_WIDE_OK;
}

enum ron_wide_result ron_muldiv(ron_u128 a, ron_u128 b, ron_u128 d, enum ron_rounding rounding,
                                ron_u128 *ret_quotient, ron_u128 *ret_remainder)
{
    struct ron_u256 quotient = {.hi = 0, .lo = 0};
    ron_u128 remainder = 0;
    enum ron_wide_result result = ron_u256_div(ron_u256_mul(a, b), d, &quotient, &remainder);

    if (result != RON_WIDE_OK) {
        return result;
    }
    ron_u128 up = rounding == RON_ROUND_CEIL && remainder != 0;

    if (quotient.hi != 0 || quotient.lo > RON_U128_MAX - up) {
        return RON_WIDE_OVERFLOW;
    }
    if (ret_quotient != NULL) {
        *ret_quotient = quotient.lo + up;
    }
    if (ret_remainder != NULL) {
        *ret_remainder = remainder;
    }
    return RON_WIDE_OK;
}
