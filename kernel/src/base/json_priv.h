/* SPDX-License-Identifier: Apache-2.0 */
/* json_priv.h - what reading and writing JSON share: where the plain part of a string ends. */
#pragma once

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How many of the eight bytes come before the first quote, backslash, control character or byte
 * that is not ASCII. The subtractions borrow from bytes behind a special one alone, so the first
 * mark is never wrong. */
static inline size_t ron__json_plain_bytes(uint64_t v)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t highs = UINT64_C(0x8080808080808080);
    uint64_t quote = v ^ (ones * '"');
    uint64_t slash = v ^ (ones * '\\');
    uint64_t hit = (v - ones * 0x20) | (quote - ones) | (slash - ones) | v;

    hit &= highs;
    return hit == 0 ? 8 : (size_t)__builtin_ctzll(hit) / 8;
}

/* The first byte from p on that is a quote, a backslash, a control character or not ASCII; `end`
 * when there is none. */
static inline const char *ron__json_plain_end(const char *p, const char *end)
{
    while (end - p >= 8) {
        uint64_t v;
        size_t plain;

        memcpy(&v, p, sizeof v);
        plain = ron__json_plain_bytes(le64toh(v));
        p += plain;
        if (plain < sizeof v) {
            return p;
        }
    }
    while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
           *p != '\\') {
        p++;
    }
    return p;
}
