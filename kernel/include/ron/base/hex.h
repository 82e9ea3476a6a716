/* SPDX-License-Identifier: Apache-2.0 */
/* hex.h - bytes as hexadecimal and as base64.
 *
 * Place: base; needs the C library alone.
 *
 * Contract:
 *   H1. A reader accepts one spelling of a value and refuses every other: no white space, no
 *       missing or extra digit, no bits after the last byte. Writing what was read gives the same
 *       text again, except for RON_HEX_ANY.
 *   H2. A reader writes only to the room it is given. After a refusal the content of that room is
 *       undefined; `ret_len` is written on success only.
 *   H3. Nothing here takes constant time. Key files and tokens use libsodium's codecs, which do.
 *
 * Pure functions; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/buf.h"
#include "ron/base/macros.h"
#include "ron/base/rc.h"
#include "ron/base/str.h"

/* Which letters a reader accepts. */
enum ron_hex_case {
    RON_HEX_LOWER,
    RON_HEX_UPPER,
    RON_HEX_ANY,
};

/* RFC 4648: section 4 with padding, section 4 without, section 5 (URL-safe) without. */
enum ron_base64 {
    RON_BASE64_PADDED,
    RON_BASE64_BARE,
    RON_BASE64_URL,
};

/* Value of a digit in either case; -1: not a hexadecimal digit. */
static inline int ron_hex_digit(char c)
{
    unsigned digit = (unsigned)(unsigned char)c - '0';
    unsigned letter = ((unsigned)(unsigned char)c | 0x20u) - 'a';

    return digit <= 9 ? (int)digit : letter <= 5 ? (int)letter + 10 : -1;
}

/* The same where only the letters of one case are digits. */
static inline int ron_hex_digit_in(char c, enum ron_hex_case allowed)
{
    bool other = allowed == RON_HEX_LOWER   ? c >= 'A' && c <= 'F'
                 : allowed == RON_HEX_UPPER ? c >= 'a' && c <= 'f'
                                            : false;

    return other ? -1 : ron_hex_digit(c);
}

/* 2 * len digits and a NUL. */
void ron_hex(const void *bytes, size_t len, char *ret_text);
void ron_hex_upper(const void *bytes, size_t len, char *ret_text);

/* Exactly 2 * len digits. */
bool ron_unhex(struct ron_str text, enum ron_hex_case allowed, void *ret_bytes,
               size_t len) RON_MUST_USE;

/* Whether the text is digits of the allowed case alone; the empty text is not. */
bool ron_hex_valid(struct ron_str text, enum ron_hex_case allowed);

/* At most `room` bytes. The empty text is refused: no format of ours has an empty value, and a
 * caller that expects bytes would have to check for it. */
bool ron_base64_read(struct ron_str text, enum ron_base64 form, void *ret_bytes, size_t room,
                     size_t *ret_len) RON_MUST_USE;

/* Length of the text for `len` bytes, without a NUL; saturates at SIZE_MAX. */
size_t ron_base64_size(size_t len, enum ron_base64 form);

/* ron_base64_size characters, no NUL. */
void ron_base64(const void *bytes, size_t len, enum ron_base64 form, char *ret_text);

/* Appends the padded form. */
enum ron_rc ron_base64_write(struct ron_buf *out, const void *bytes, size_t len);
