/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/entry/bytes.h - big-endian numbers and short texts in byte layouts of the ledger.
 *
 * Place: ledger; pure. `put` functions write at `to`, where the caller has made room, and return
 * the end. A reader is a cursor: the first field that does not fit sets `failed`, and from then on
 * every field reads as zero or empty, so a caller checks once, at the end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ron/base/buf.h"
#include "ron/base/wide.h"

static inline uint8_t *led_put_u16(uint8_t *to, uint16_t v)
{
    uint16_t be = __builtin_bswap16(v);

    memcpy(to, &be, sizeof be);
    return to + sizeof be;
}

static inline uint8_t *led_put_u32(uint8_t *to, uint32_t v)
{
    uint32_t be = __builtin_bswap32(v);

    memcpy(to, &be, sizeof be);
    return to + sizeof be;
}

static inline uint8_t *led_put_u64(uint8_t *to, uint64_t v)
{
    uint64_t be = __builtin_bswap64(v);

    memcpy(to, &be, sizeof be);
    return to + sizeof be;
}

static inline uint8_t *led_put_u128(uint8_t *to, ron_u128 v)
{
    return led_put_u64(led_put_u64(to, ron_u128_hi(v)), ron_u128_lo(v));
}

static inline uint8_t *led_put_bytes(uint8_t *to, const void *bytes, size_t len)
{
    memcpy(to, bytes, len);
    return to + len;
}

/* A length in one byte, then the text. */
static inline uint8_t *led_put_text8(uint8_t *to, struct ron_str s)
{
    *to = (uint8_t)s.len;
    return led_put_bytes(to + 1, s.ptr, s.len);
}

/* A length in two bytes, then the text. */
static inline uint8_t *led_put_text16(uint8_t *to, struct ron_str s)
{
    return led_put_bytes(led_put_u16(to, (uint16_t)s.len), s.ptr, s.len);
}

struct led_reader {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
};

/* The next `len` bytes, or NULL. */
static inline const uint8_t *led_get_bytes(struct led_reader *r, size_t len)
{
    const uint8_t *at = r->at;

    if (r->failed || (size_t)(r->end - at) < len) {
        r->failed = true;
        return NULL;
    }
    r->at += len;
    return at;
}

static inline uint8_t led_get_u8(struct led_reader *r)
{
    const uint8_t *p = led_get_bytes(r, 1);

    return p != NULL ? *p : 0;
}

static inline uint16_t led_get_u16(struct led_reader *r)
{
    const uint8_t *p = led_get_bytes(r, 2);
    uint16_t be = 0;

    if (p != NULL) {
        memcpy(&be, p, sizeof be);
    }
    return __builtin_bswap16(be);
}

static inline uint32_t led_get_u32(struct led_reader *r)
{
    const uint8_t *p = led_get_bytes(r, 4);
    uint32_t be = 0;

    if (p != NULL) {
        memcpy(&be, p, sizeof be);
    }
    return __builtin_bswap32(be);
}

static inline uint64_t led_get_u64(struct led_reader *r)
{
    const uint8_t *p = led_get_bytes(r, 8);
    uint64_t be = 0;

    if (p != NULL) {
        memcpy(&be, p, sizeof be);
    }
    return __builtin_bswap64(be);
}

static inline ron_u128 led_get_u128(struct led_reader *r)
{
    uint64_t hi = led_get_u64(r);

    return ron_u128_make(hi, led_get_u64(r));
}

static inline struct ron_str led_get_text(struct led_reader *r, size_t len)
{
    const uint8_t *p = led_get_bytes(r, len);

    return p != NULL ? (struct ron_str){(const char *)p, len} : (struct ron_str){"", 0};
}

static inline struct ron_str led_get_text8(struct led_reader *r)
{
    return led_get_text(r, led_get_u8(r));
}

static inline struct ron_str led_get_text16(struct led_reader *r)
{
    return led_get_text(r, led_get_u16(r));
}
