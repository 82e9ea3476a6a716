/* SPDX-License-Identifier: Apache-2.0 */
/* money.c - checked amounts and their text. The rules M1 to M3 are in the header.
 *
 * Place: base. Pure functions. Refusals are results, because amounts come from outside.
 */
#include "ron/base/money.h"

#include <string.h>

#include "ron/base/assert.h"

/* The largest power of ten in 64 bits; one 128-bit division then yields 19 digits. */
#define CHUNK UINT64_C(10000000000000000000)
#define CHUNK_DIGITS 19

enum ron_money_result ron_money_add(struct ron_money a, struct ron_money b,
                                    struct ron_money *ret_sum)
{
    if (b.v > RON_U128_MAX - a.v) {
        return RON_MONEY_OVERFLOW;
    }
    ret_sum->v = a.v + b.v;
    return RON_MONEY_OK;
}

enum ron_money_result ron_money_mul_u64(struct ron_money a, uint64_t factor,
                                        struct ron_money *ret_product)
{
    ron_u128 low = (ron_u128)ron_u128_lo(a.v) * factor;
    ron_u128 high = (ron_u128)ron_u128_hi(a.v) * factor + ron_u128_hi(low);

    if (ron_u128_hi(high) != 0) {
        return RON_MONEY_OVERFLOW;
    }
    ret_product->v = ron_u128_make(ron_u128_lo(high), ron_u128_lo(low));
    return RON_MONEY_OK;
}

/* Says where a byte is wrong, without echoing bytes that a log could not hold. */
static enum ron_rc refuse_byte(const char *text, size_t at, struct ron_err *err)
{
    unsigned char byte = (unsigned char)text[at];

    if (byte > ' ' && byte < 0x7f) {
        return ron_err_set(err, RON_INVALID, "amount has '%c' at offset %zu; only digits may stand",
                           byte, at);
    }
    return ron_err_set(err, RON_INVALID,
                       "amount has byte 0x%02x at offset %zu; only digits may stand", byte, at);
}

enum ron_rc ron_money_parse(const char *text, size_t len, struct ron_money *ret_money,
                            struct ron_err *err)
{
    ron_u128 value = 0;

    if (len == 0) {
        return ron_err_set(err, RON_INVALID, "amount is empty");
    }
    /* Forty bytes settle it: more are too many, whatever they are. */
    for (size_t i = 0; i < len && i <= RON_MONEY_DIGITS_MAX; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return refuse_byte(text, i, err);
        }
    }
    if (text[0] == '0' && len > 1) {
        return ron_err_set(err, RON_INVALID, "amount has a leading zero");
    }
    if (len > RON_MONEY_DIGITS_MAX) {
        return ron_err_set(err, RON_LIMIT, "amount has more than %d digits", RON_MONEY_DIGITS_MAX);
    }
    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)(text[i] - '0');

        if (value > RON_U128_MAX / 10 || value * 10 > RON_U128_MAX - digit) {
            return ron_err_set(err, RON_LIMIT, "amount is above 2^128 - 1");
        }
        value = value * 10 + digit;
    }
    ret_money->v = value;
    return RON_OK;
}

size_t ron_money_format(struct ron_money money, char ret_text[RON_MONEY_TEXT_SIZE])
{
    char digits[RON_MONEY_TEXT_SIZE];
    size_t at = sizeof(digits);
    ron_u128 value = money.v;

    digits[--at] = '\0';
    while (value != 0) {
        uint64_t chunk = (uint64_t)(value % CHUNK);

        value /= CHUNK;
        /* A chunk below others keeps its leading zeros; the highest one has none. */
        for (int i = 0; i < CHUNK_DIGITS && (chunk != 0 || value != 0); i++) {
            digits[--at] = (char)('0' + chunk % 10);
            chunk /= 10;
        }
    }
    if (digits[at] == '\0') {
        digits[--at] = '0';
    }
    RON_ASSERT_SLOW(digits[at] != '0' || digits[at + 1] == '\0');
    memcpy(ret_text, &digits[at], sizeof(digits) - at);
    return sizeof(digits) - at - 1;
}
