/* SPDX-License-Identifier: Apache-2.0 */
/* money.h - amounts: unsigned 128-bit minor units, checked arithmetic, canonical decimal text.
 *
 * Place: base; the only type for amounts in the whole program. No floats, no signs, no wrap-around.
 *
 * Rules:
 *   M1. Arithmetic returns a result that must be looked at. On anything but RON_MONEY_OK the output
 *       keeps its old value. The output may be one of the inputs.
 *   M2. Every amount has exactly one text, `0|[1-9][0-9]*`, and parsing accepts nothing else: no
 *       sign, no space, no leading zero, no exponent, no separator.
 *   M3. Format and parse are inverse to each other.
 *
 * Pure functions; any thread; no allocation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/macros.h"
#include "ron/base/rc.h"
#include "ron/base/wide.h"

struct ron_money {
    ron_u128 v;
};

#define RON_MONEY_ZERO ((struct ron_money){.v = 0})
#define RON_MONEY_MAX ((struct ron_money){.v = RON_U128_MAX})

/* 2^128 - 1 has 39 digits. */
#define RON_MONEY_DIGITS_MAX 39
#define RON_MONEY_TEXT_SIZE (RON_MONEY_DIGITS_MAX + 1)

/* X(name, text). */
#define RON_MONEY_RESULT_TABLE(X)                                                                  \
    X(OK, "ok")                                                                                    \
    X(OVERFLOW, "above the largest amount")                                                        \
    X(UNDERFLOW, "below zero")

enum ron_money_result {
#define X(name, text) RON_MONEY_##name,
    RON_MONEY_RESULT_TABLE(X)
#undef X
};

static inline struct ron_money ron_money_of(uint64_t units)
{
    return (struct ron_money){.v = units};
}

/* OK or OVERFLOW. */
enum ron_money_result ron_money_add(struct ron_money a, struct ron_money b,
                                    struct ron_money *ret_sum) RON_MUST_USE;

/* OK or OVERFLOW. */
enum ron_money_result ron_money_mul_u64(struct ron_money a, uint64_t factor,
                                        struct ron_money *ret_product) RON_MUST_USE;

/* -1 when a < b, 0 when equal, 1 when a > b. */
static inline int ron_money_cmp(struct ron_money a, struct ron_money b)
{
    return (a.v > b.v) - (a.v < b.v);
}

static inline bool ron_money_is_zero(struct ron_money a)
{
    return a.v == 0;
}

/* Reads exactly len bytes of text, which need no NUL. RON_INVALID for anything but the canonical
 * form, RON_LIMIT for a number above 2^128 - 1; err says what and where. */
enum ron_rc ron_money_parse(const char *text, size_t len, struct ron_money *ret_money,
                            struct ron_err *err) RON_MUST_USE;

/* Writes the canonical text with its NUL and returns its length without it (1..39). */
size_t ron_money_format(struct ron_money money, char ret_text[RON_MONEY_TEXT_SIZE]);
