/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.h - integers and short texts in byte layouts, big-endian or little-endian.
 *
 * Place: base; under every binary format: journal frames, index pages, OAP/1, PMTiles, PostgreSQL's
 * binary arrays.
 *
 *   ron_get_be32(at)            reads four bytes; the caller knows that they exist
 *   ron_put_be32(to, value)     writes four bytes and returns the end, so that calls chain
 *   ron_read_be32(&reader)      reads through a cursor that checks its bounds
 * and the same for 16, 32, 64 and 128 bits, and for `le`.
 *
 * Contract:
 *   B1. No address needs to be aligned.
 *   B2. `get` and `put` check nothing; the caller has compared the length before.
 *   B3. A reader never reads past `end`. The first field that does not fit sets `failed`; from then
 *       on every field reads as zero or empty and `at` stays, so a caller checks once, at the end.
 *   B4. A text that was read points into the reader's bytes and lives as long as they do.
 *
 * Everything is inline: each function becomes one load or store and at most one byte swap. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ron/base/str.h"
#include "ron/base/wide.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define RON_BYTES_BE_(bits, value) __builtin_bswap##bits(value)
#define RON_BYTES_LE_(bits, value) (value)
#else
#define RON_BYTES_BE_(bits, value) (value)
#define RON_BYTES_LE_(bits, value) __builtin_bswap##bits(value)
#endif

struct ron_reader {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
};

static inline struct ron_reader ron_reader_of(const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    return (struct ron_reader){.at = at, .end = len > 0 ? at + len : at};
}

/* How many bytes are left; after a failure the number that was left then. */
static inline size_t ron_reader_left(const struct ron_reader *r)
{
    return (size_t)(r->end - r->at);
}

/* The next `len` bytes, or NULL. */
static inline const uint8_t *ron_read_bytes(struct ron_reader *r, size_t len)
{
    const uint8_t *at = r->at;

    if (r->failed || ron_reader_left(r) < len) {
        r->failed = true;
        return NULL;
    }
    r->at = len > 0 ? at + len : at;
    return at;
}

#define RON_BYTES_DEFINE_(order, ORDER, bits)                                                      \
    static inline uint##bits##_t ron_get_##order##bits(const void *at)                             \
    {                                                                                              \
        uint##bits##_t raw;                                                                        \
                                                                                                   \
        memcpy(&raw, at, sizeof raw);                                                              \
        return RON_BYTES_##ORDER##_(bits, raw);                                                    \
    }                                                                                              \
    static inline uint8_t *ron_put_##order##bits(uint8_t *to, uint##bits##_t value)                \
    {                                                                                              \
        uint##bits##_t raw = RON_BYTES_##ORDER##_(bits, value);                                    \
                                                                                                   \
        memcpy(to, &raw, sizeof raw);                                                              \
        return to + sizeof raw;                                                                    \
    }                                                                                              \
    static inline uint##bits##_t ron_read_##order##bits(struct ron_reader *r)                      \
    {                                                                                              \
        const uint8_t *at = ron_read_bytes(r, bits / 8);                                           \
                                                                                                   \
        return at != NULL ? ron_get_##order##bits(at) : 0;                                         \
    }

RON_BYTES_DEFINE_(be, BE, 16)
RON_BYTES_DEFINE_(be, BE, 32)
RON_BYTES_DEFINE_(be, BE, 64)
RON_BYTES_DEFINE_(le, LE, 16)
RON_BYTES_DEFINE_(le, LE, 32)
RON_BYTES_DEFINE_(le, LE, 64)

/* ---- 128 bits -------------------------------------------------------------------------------- */

static inline ron_u128 ron_get_be128(const void *at)
{
    const uint8_t *bytes = at;

    return ron_u128_make(ron_get_be64(bytes), ron_get_be64(bytes + 8));
}

static inline ron_u128 ron_get_le128(const void *at)
{
    const uint8_t *bytes = at;

    return ron_u128_make(ron_get_le64(bytes + 8), ron_get_le64(bytes));
}

static inline uint8_t *ron_put_be128(uint8_t *to, ron_u128 value)
{
    return ron_put_be64(ron_put_be64(to, ron_u128_hi(value)), ron_u128_lo(value));
}

static inline uint8_t *ron_put_le128(uint8_t *to, ron_u128 value)
{
    return ron_put_le64(ron_put_le64(to, ron_u128_lo(value)), ron_u128_hi(value));
}

static inline ron_u128 ron_read_be128(struct ron_reader *r)
{
    const uint8_t *at = ron_read_bytes(r, 16);

    return at != NULL ? ron_get_be128(at) : 0;
}

static inline ron_u128 ron_read_le128(struct ron_reader *r)
{
    const uint8_t *at = ron_read_bytes(r, 16);

    return at != NULL ? ron_get_le128(at) : 0;
}

/* ---- bytes and texts ------------------------------------------------------------------------- */

static inline uint8_t ron_read_u8(struct ron_reader *r)
{
    const uint8_t *at = ron_read_bytes(r, 1);

    return at != NULL ? *at : 0;
}

static inline struct ron_str ron_read_text(struct ron_reader *r, size_t len)
{
    const uint8_t *at = ron_read_bytes(r, len);

    return at != NULL ? (struct ron_str){(const char *)at, len} : (struct ron_str){"", 0};
}

/* A length in one byte, or in two big-endian bytes, then the text. */
static inline struct ron_str ron_read_text8(struct ron_reader *r)
{
    return ron_read_text(r, ron_read_u8(r));
}

static inline struct ron_str ron_read_text16(struct ron_reader *r)
{
    return ron_read_text(r, ron_read_be16(r));
}

static inline uint8_t *ron_put_bytes(uint8_t *to, const void *bytes, size_t len)
{
    if (len > 0) {
        memcpy(to, bytes, len);
    }
    return to + len;
}

/* The text is at most 255, or 65535, bytes long; the format's own limit is checked before. */
static inline uint8_t *ron_put_text8(uint8_t *to, struct ron_str s)
{
    *to = (uint8_t)s.len;
    return ron_put_bytes(to + 1, s.ptr, s.len);
}

static inline uint8_t *ron_put_text16(uint8_t *to, struct ron_str s)
{
    return ron_put_bytes(ron_put_be16(to, (uint16_t)s.len), s.ptr, s.len);
}
