/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/calc/div.h - division by a number that stays the same for many rows, through its
 * reciprocal.
 *
 * Place: rewarder, under the calculus alone; all inline, because it is the inner loop. A division
 * of 256 by 128 bits costs eight multiplications and no division instruction; the reciprocal is
 * made once for each divisor.
 *
 * Method: N. Moeller and T. Granlund, "Improved division by invariant integers" (IEEE Transactions
 * on Computers, 2011): algorithm 4 divides two words by one, algorithm 5 three words by two,
 * algorithm 6 makes the reciprocal for the latter. Divisors are shifted until their highest bit is
 * set.
 *
 * The check of a result (check.c) does not use this file. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ron/base/wide.h"

/* ---- a divisor of 64 bits -------------------------------------------------------------------- */

struct rwd_div64 {
    uint64_t d; /* shifted */
    uint64_t reciprocal;
    uint32_t shift;
};

/* floor((2^128 - 1) / d) - 2^64 for a d whose highest bit is set. */
static inline uint64_t rwd__reciprocal(uint64_t d)
{
    return (uint64_t)(ron_u128_make(~d, UINT64_MAX) / d);
}

static inline struct rwd_div64 rwd_div64_of(uint64_t d)
{
    uint32_t shift = (uint32_t)__builtin_clzll(d);

    return (struct rwd_div64){d << shift, rwd__reciprocal(d << shift), shift};
}

/* (u1, u0) / d with u1 < d. */
static inline uint64_t rwd__div_2by1(uint64_t u1, uint64_t u0, const struct rwd_div64 *by,
                                     uint64_t *ret_rest)
{
    ron_u128 q = (ron_u128)by->reciprocal * u1 + ron_u128_make(u1, u0);
    uint64_t q1 = ron_u128_hi(q) + 1;
    uint64_t rest = u0 - q1 * by->d;

    if (rest > ron_u128_lo(q)) {
        q1--;
        rest += by->d;
    }
    if (RON_UNLIKELY(rest >= by->d)) {
        q1++;
        rest -= by->d;
    }
    *ret_rest = rest;
    return q1;
}

/* floor(n / d), of 128 bits. */
static inline ron_u128 rwd_div64(ron_u128 n, const struct rwd_div64 *by)
{
    /* Three words; the highest one is below 2^shift and so below d. A shift by 64 - 0 would be none
     * that C knows, hence in two steps. */
    uint64_t u2 = ron_u128_hi(n) >> 1 >> (63 - by->shift);
    ron_u128 u10 = n << by->shift;
    uint64_t rest;
    uint64_t q1 = rwd__div_2by1(u2, ron_u128_hi(u10), by, &rest);
    uint64_t q0 = rwd__div_2by1(rest, ron_u128_lo(u10), by, &rest);

    return ron_u128_make(q1, q0);
}

/* ---- shares: a * b / d for one a, one d and many b <= d -------------------------------------- */

struct rwd_share {
    ron_u128 a;
    ron_u128 d; /* shifted */
    uint64_t reciprocal;
    uint32_t shift;
};

/* d is not 0. */
static inline struct rwd_share rwd_share_of(ron_u128 a, ron_u128 d)
{
    uint32_t shift = ron_u128_hi(d) != 0 ? (uint32_t)__builtin_clzll(ron_u128_hi(d))
                                         : 64 + (uint32_t)__builtin_clzll(ron_u128_lo(d));
    uint64_t d1 = ron_u128_hi(d << shift);
    uint64_t d0 = ron_u128_lo(d << shift);
    uint64_t v = rwd__reciprocal(d1);
    uint64_t p = d1 * v + d0;
    ron_u128 t;

    if (p < d0) {
        v--;
        if (p >= d1) {
            v--;
            p -= d1;
        }
        p -= d1;
    }
    t = (ron_u128)v * d0;
    p += ron_u128_hi(t);
    if (p < ron_u128_hi(t)) {
        v--;
        if (ron_u128_make(p, ron_u128_lo(t)) >= d << shift) {
            v--;
        }
    }
    return (struct rwd_share){a, d << shift, v, shift};
}

/* (u21, u0) / d with u21 < d. */
static inline uint64_t rwd__div_3by2(ron_u128 u21, uint64_t u0, const struct rwd_share *s,
                                     ron_u128 *ret_rest)
{
    ron_u128 q = (ron_u128)s->reciprocal * ron_u128_hi(u21) + u21;
    uint64_t q1 = ron_u128_hi(q);
    uint64_t r1 = ron_u128_lo(u21) - q1 * ron_u128_hi(s->d);
    ron_u128 rest = ron_u128_make(r1, u0) - (ron_u128)q1 * ron_u128_lo(s->d) - s->d;

    q1++;
    if (ron_u128_hi(rest) >= ron_u128_lo(q)) {
        q1--;
        rest += s->d;
    }
    if (RON_UNLIKELY(rest >= s->d)) {
        q1++;
        rest -= s->d;
    }
    *ret_rest = rest;
    return q1;
}

/* floor(a * b / d) and what is left of the division. b <= d, so b shifted as d was fits, and the
 * words that are divided first are below d: a * b is below 2^128 * d, or 2^64 * d for a small a. */
static inline ron_u128 rwd_share(const struct rwd_share *s, ron_u128 b, ron_u128 *ret_rest)
{
    ron_u128 c = b << s->shift;
    ron_u128 a0c0 = (ron_u128)ron_u128_lo(s->a) * ron_u128_lo(c);
    ron_u128 a0c1 = (ron_u128)ron_u128_lo(s->a) * ron_u128_hi(c);
    ron_u128 middle = a0c1 + ron_u128_hi(a0c0); /* at most 2^128 - 2^64 */
    ron_u128 rest;
    uint64_t q1;
    uint64_t q0;

    if (RON_LIKELY(ron_u128_hi(s->a) == 0)) {
        q0 = rwd__div_3by2(middle, ron_u128_lo(a0c0), s, &rest);
        *ret_rest = rest >> s->shift;
        return q0;
    }
    /* (high, word1, word0) of 256 bits: a1 * c added one word up. */
    ron_u128 a1c0 = (ron_u128)ron_u128_hi(s->a) * ron_u128_lo(c);
    ron_u128 a1c1 = (ron_u128)ron_u128_hi(s->a) * ron_u128_hi(c);
    ron_u128 low = (ron_u128)ron_u128_lo(middle) + ron_u128_lo(a1c0);
    ron_u128 high = a1c1 + ron_u128_hi(a1c0) + ron_u128_hi(middle) + ron_u128_hi(low);

    q1 = rwd__div_3by2(high, ron_u128_lo(low), s, &rest);
    q0 = rwd__div_3by2(rest, ron_u128_lo(a0c0), s, &rest);
    *ret_rest = rest >> s->shift;
    return ron_u128_make(q1, q0);
}
