/* SPDX-License-Identifier: Apache-2.0 */
/* oracle.h - slow arithmetic that is right by looking at it, to compare the fast one with.
 *
 * Works one bit at a time with additions and shifts, and shares no code with the kernel's wide.c.
 * Header only, so that fuzz targets can use it without cmocka.
 */
#pragma once

#include <stdbool.h>

#include "ron/base/wide.h"

/* a + b; the sum must fit. */
static inline struct ron_u256 support_add_256(struct ron_u256 a, ron_u128 b)
{
    struct ron_u256 sum = {.hi = a.hi, .lo = a.lo + b};

    sum.hi += sum.lo < b;
    return sum;
}

static inline struct ron_u256 support_double_256(struct ron_u256 a)
{
    return (struct ron_u256){.hi = a.hi << 1 | a.lo >> 127, .lo = a.lo << 1};
}

/* Product by doubling and adding, one bit of b at a time. */
static inline struct ron_u256 support_slow_mul(ron_u128 a, ron_u128 b)
{
    struct ron_u256 product = {0, 0};

    for (int bit = 127; bit >= 0; bit--) {
        product = support_double_256(product);
        if (b >> bit & 1) {
            product = support_add_256(product, a);
        }
    }
    return product;
}

/* Quotient and remainder by long division, one bit of n at a time. d must not be 0. */
static inline void support_slow_div(struct ron_u256 n, ron_u128 d, struct ron_u256 *ret_q,
                                    ron_u128 *ret_r)
{
    struct ron_u256 q = {0, 0};
    ron_u128 r = 0;

    for (int bit = 255; bit >= 0; bit--) {
        ron_u128 n_bit = (bit >= 128 ? n.hi >> (bit - 128) : n.lo >> bit) & 1;
        bool carry = (r >> 127) != 0;

        r = r << 1 | n_bit;
        q = support_double_256(q);
        if (carry || r >= d) {
            r -= d;
            q.lo |= 1;
        }
    }
    *ret_q = q;
    *ret_r = r;
}
