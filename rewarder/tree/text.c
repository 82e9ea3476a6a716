/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/text.c - hashes, addresses and 256-bit numbers as text, and a walk through JSON. */
#include <string.h>

#include "rewarder/tree/core.h"
#include "ron/base/hex.h"
#include "ron/base/str.h"
#include "ron/base/wide.h"

static const char digits16[] = "0123456789abcdef";

void rwd_hex_put(const uint8_t *bytes, size_t len, char *ret_text)
{
    *ret_text++ = '0';
    *ret_text++ = 'x';
    for (size_t i = 0; i < len; i++) {
        *ret_text++ = digits16[bytes[i] >> 4];
        *ret_text++ = digits16[bytes[i] & 15];
    }
}

bool rwd_hex_get(struct ron_str text, uint8_t *ret_bytes, size_t len)
{
    if (!ron_str_skip(&text, RON_STR_LIT("0x")) || text.len != 2 * len ||
        (len > 0 && !ron_hex_valid(text, RON_HEX_ANY))) {
        return false;
    }
    return ron_unhex(text, RON_HEX_ANY, ret_bytes, len);
}

bool rwd_hash_get(struct ron_str text, struct rwd_keccak *ret_hash)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] >= 'A' && text.ptr[i] <= 'F') {
            return false;
        }
    }
    return rwd_hex_get(text, ret_hash->bytes, RWD_KECCAK_BYTES);
}

/* ---- 256-bit numbers ------------------------------------------------------------------------- */

enum { LIMBS = 4, CHUNK = 19 /* decimal digits that fit 64 bits */ };

static void limbs_put(const uint64_t limbs[LIMBS], uint8_t *number)
{
    for (size_t i = 0; i < RWD_U256_BYTES; i++) {
        number[i] = (uint8_t)(limbs[LIMBS - 1 - i / 8] >> (56 - 8 * (i % 8)));
    }
}

static void limbs_get(const uint8_t *number, uint64_t limbs[LIMBS])
{
    memset(limbs, 0, LIMBS * sizeof limbs[0]);
    for (size_t i = 0; i < RWD_U256_BYTES; i++) {
        limbs[LIMBS - 1 - i / 8] |= (uint64_t)number[i] << (56 - 8 * (i % 8));
    }
}

/* limbs = limbs * factor + more; false when it does not fit. */
static bool limbs_muladd(uint64_t limbs[LIMBS], uint64_t factor, uint64_t more)
{
    ron_u128 carry = more;

    for (size_t i = 0; i < LIMBS; i++) {
        carry += (ron_u128)limbs[i] * factor;
        limbs[i] = ron_u128_lo(carry);
        carry >>= 64;
    }
    return carry == 0;
}

bool rwd_u256_get(struct ron_str digits, uint8_t ret_number[RWD_U256_BYTES])
{
    uint64_t limbs[LIMBS] = {0};

    if (digits.len == 0 || digits.len > RWD_U256_TEXT || (digits.ptr[0] == '0' && digits.len > 1)) {
        return false;
    }
    for (size_t at = 0; at < digits.len;) {
        uint64_t factor = 1;
        uint64_t chunk = 0;

        for (size_t end = RON_MIN(at + CHUNK, digits.len); at < end; at++) {
            if (digits.ptr[at] < '0' || digits.ptr[at] > '9') {
                return false;
            }
            chunk = chunk * 10 + (uint64_t)(digits.ptr[at] - '0');
            factor *= 10;
        }
        if (!limbs_muladd(limbs, factor, chunk)) {
            return false;
        }
    }
    limbs_put(limbs, ret_number);
    return true;
}

size_t rwd_u256_put(const uint8_t number[RWD_U256_BYTES], char ret_digits[RWD_U256_TEXT])
{
    uint64_t limbs[LIMBS];
    char backwards[RWD_U256_TEXT];
    size_t len = 0;
    uint64_t any;

    limbs_get(number, limbs);
    do {
        ron_u128 rest = 0;

        any = 0;
        for (size_t i = LIMBS; i-- > 0;) {
            rest = rest << 64 | limbs[i];
            limbs[i] = (uint64_t)(rest / 10);
            rest %= 10;
            any |= limbs[i];
        }
        backwards[len++] = (char)('0' + (char)rest);
    } while (any != 0);
    for (size_t i = 0; i < len; i++) {
        ret_digits[i] = backwards[len - 1 - i];
    }
    return len;
}

bool rwd_u256_add(const uint8_t a[RWD_U256_BYTES], const uint8_t b[RWD_U256_BYTES],
                  uint8_t ret_sum[RWD_U256_BYTES])
{
    uint8_t sum[RWD_U256_BYTES];
    unsigned carry = 0;

    for (size_t i = RWD_U256_BYTES; i-- > 0;) {
        carry += (unsigned)a[i] + b[i];
        sum[i] = (uint8_t)carry;
        carry >>= 8;
    }
    if (carry != 0) {
        return false;
    }
    memcpy(ret_sum, sum, sizeof sum);
    return true;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static size_t skip_space(struct ron_str json, size_t at)
{
    while (at < json.len && is_space(json.ptr[at])) {
        at++;
    }
    return at;
}

/* Behind the string whose opening quote is at `at`. */
static size_t skip_string(struct ron_str json, size_t at)
{
    for (at++; at < json.len && json.ptr[at] != '"'; at++) {
        at += json.ptr[at] == '\\' ? 1 : 0;
    }
    return at + 1;
}

/* Behind the value at `at`. */
static size_t skip_value(struct ron_str json, size_t at)
{
    size_t depth = 0;

    while (at < json.len) {
        char c = json.ptr[at];

        if (c == '"') {
            at = skip_string(json, at);
        } else if (depth == 0 && (c == ',' || c == ']' || c == '}' || is_space(c))) {
            return at;
        } else {
            depth += c == '[' || c == '{' ? 1 : 0;
            depth -= c == ']' || c == '}' ? 1 : 0;
            at++;
            if (depth == 0 && (c == ']' || c == '}')) {
                return at;
            }
            continue;
        }
        if (depth == 0) {
            return at;
        }
    }
    return at;
}

bool rwd_json_next(struct ron_str json, size_t *at, struct ron_str *ret_name,
                   struct ron_str *ret_value)
{
    size_t p = skip_space(json, *at);
    size_t begin;

    if (p < json.len && json.ptr[p] == ',') {
        p = skip_space(json, p + 1);
    }
    if (p >= json.len || json.ptr[p] == ']' || json.ptr[p] == '}') {
        return false;
    }
    if (ret_name != NULL) {
        begin = p;
        p = skip_string(json, p);
        *ret_name = (struct ron_str){json.ptr + begin + 1, p - begin - 2};
        p = skip_space(json, p) + 1; /* the colon */
        p = skip_space(json, p);
    }
    begin = p;
    p = skip_value(json, p);
    *ret_value = (struct ron_str){json.ptr + begin, p - begin};
    *at = p;
    return true;
}
