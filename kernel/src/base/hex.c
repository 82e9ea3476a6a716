/* SPDX-License-Identifier: Apache-2.0 */
/* hex.c - hexadecimal and base64; contract in hex.h. */
#include "ron/base/hex.h"

static const char lower_digits[] = "0123456789abcdef";
static const char upper_digits[] = "0123456789ABCDEF";
static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char base64_url_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* ---- hexadecimal ----------------------------------------------------------------------------- */

static void write_hex(const uint8_t *bytes, size_t len, const char *digits, char *ret_text)
{
    for (size_t i = 0; i < len; i++) {
        ret_text[2 * i] = digits[bytes[i] >> 4];
        ret_text[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret_text[2 * len] = '\0';
}

void ron_hex(const void *bytes, size_t len, char *ret_text)
{
    write_hex(bytes, len, lower_digits, ret_text);
}

void ron_hex_upper(const void *bytes, size_t len, char *ret_text)
{
    write_hex(bytes, len, upper_digits, ret_text);
}

bool ron_unhex(struct ron_str text, enum ron_hex_case allowed, void *ret_bytes, size_t len)
{
    uint8_t *out = ret_bytes;

    if (text.len % 2 != 0 || text.len / 2 != len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        int high = ron_hex_digit_in(text.ptr[2 * i], allowed);
        int low = ron_hex_digit_in(text.ptr[2 * i + 1], allowed);

        if (high < 0 || low < 0) {
            return false;
        }
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

bool ron_hex_valid(struct ron_str text, enum ron_hex_case allowed)
{
    for (size_t i = 0; i < text.len; i++) {
        if (ron_hex_digit_in(text.ptr[i], allowed) < 0) {
            return false;
        }
    }
    return text.len > 0;
}

/* ---- base64 ---------------------------------------------------------------------------------- */

static int base64_digit(char c, bool url)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == (url ? '-' : '+') ? 62 : c == (url ? '_' : '/') ? 63 : -1;
}

/* Without padding. The bits after the last byte must be zero, so that each value has one text. */
static bool read_bare(struct ron_str text, bool url, uint8_t *out, size_t room, size_t *ret_len)
{
    uint32_t bits = 0;
    uint32_t count = 0;
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        int digit = base64_digit(text.ptr[i], url);

        if (digit < 0) {
            return false;
        }
        bits = bits << 6 | (uint32_t)digit;
        count += 6;
        if (count >= 8) {
            if (len == room) {
                return false;
            }
            count -= 8;
            out[len++] = (uint8_t)(bits >> count);
        }
    }
    if ((bits & ((1u << count) - 1)) != 0) {
        return false;
    }
    *ret_len = len;
    return true;
}

bool ron_base64_read(struct ron_str text, enum ron_base64 form, void *ret_bytes, size_t room,
                     size_t *ret_len)
{
    if (text.len == 0) {
        return false;
    }
    if (form == RON_BASE64_PADDED) {
        if (text.len % 4 != 0) {
            return false;
        }
        text.len -= text.ptr[text.len - 1] == '=';
        text.len -= text.len % 4 == 3 && text.ptr[text.len - 1] == '=';
    }
    return text.len % 4 != 1 && read_bare(text, form == RON_BASE64_URL, ret_bytes, room, ret_len);
}

size_t ron_base64_size(size_t len, enum ron_base64 form)
{
    size_t size = 0;

    if (__builtin_mul_overflow(len / 3, (size_t)4, &size) || size > SIZE_MAX - 4) {
        return SIZE_MAX;
    }
    if (len % 3 != 0) {
        size += form == RON_BASE64_PADDED ? 4 : len % 3 + 1;
    }
    return size;
}

void ron_base64(const void *bytes, size_t len, enum ron_base64 form, char *ret_text)
{
    const char *digits = form == RON_BASE64_URL ? base64_url_digits : base64_digits;
    const uint8_t *in = bytes;
    char *to = ret_text;

    for (; len >= 3; len -= 3, in += 3) {
        uint32_t bits = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];

        *to++ = digits[bits >> 18];
        *to++ = digits[bits >> 12 & 63];
        *to++ = digits[bits >> 6 & 63];
        *to++ = digits[bits & 63];
    }
    if (len > 0) {
        uint32_t bits = (uint32_t)in[0] << 16 | (len > 1 ? (uint32_t)in[1] << 8 : 0);

        *to++ = digits[bits >> 18];
        *to++ = digits[bits >> 12 & 63];
        if (len > 1) {
            *to++ = digits[bits >> 6 & 63];
        }
        for (; form == RON_BASE64_PADDED && len < 3; len++) {
            *to++ = '=';
        }
    }
}

enum ron_rc ron_base64_write(struct ron_buf *out, const void *bytes, size_t len)
{
    size_t size = ron_base64_size(len, RON_BASE64_PADDED);
    uint8_t *room;

    RON_TRY(ron_buf_reserve(out, size, &room));
    ron_base64(bytes, len, RON_BASE64_PADDED, (char *)room);
    ron_buf_commit(out, size);
    return RON_OK;
}
