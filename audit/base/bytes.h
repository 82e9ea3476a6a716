/* SPDX-License-Identifier: Apache-2.0 */
/* audit/base/bytes.h - reading numbers and slices out of bytes that nobody trusts.
 *
 * Place: audit; bottom. Everything in the journal is big-endian. A read beyond the end sticks: `ok`
 * turns false and every later value is zero or empty, so a parser checks once at its end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ron/base/json.h"
#include "ron/base/wide.h"

struct aud_reader {
    const uint8_t *at;
    const uint8_t *end;
    bool ok;
};

static inline uint16_t aud_u16(const uint8_t *p)
{
    return (uint16_t)((unsigned)p[0] << 8 | p[1]);
}

static inline uint32_t aud_u32(const uint8_t *p)
{
    return (uint32_t)aud_u16(p) << 16 | aud_u16(p + 2);
}

static inline uint64_t aud_u64(const uint8_t *p)
{
    return (uint64_t)aud_u32(p) << 32 | aud_u32(p + 4);
}

/* `len` bytes, or NULL. */
static inline const uint8_t *aud_take(struct aud_reader *r, size_t len)
{
    const uint8_t *p = r->at;

    if (!r->ok || (size_t)(r->end - r->at) < len) {
        r->ok = false;
        return NULL;
    }
    r->at += len;
    return p;
}

static inline uint8_t aud_take_u8(struct aud_reader *r)
{
    const uint8_t *p = aud_take(r, 1);

    return p != NULL ? *p : 0;
}

static inline uint16_t aud_take_u16(struct aud_reader *r)
{
    const uint8_t *p = aud_take(r, 2);

    return p != NULL ? aud_u16(p) : 0;
}

static inline uint64_t aud_take_u64(struct aud_reader *r)
{
    const uint8_t *p = aud_take(r, 8);

    return p != NULL ? aud_u64(p) : 0;
}

static inline struct ron_str aud_take_text(struct aud_reader *r, size_t len)
{
    const uint8_t *p = aud_take(r, len);

    return p != NULL ? (struct ron_str){(const char *)p, len} : (struct ron_str){0};
}

static inline bool aud_str_equal(struct ron_str a, struct ron_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool aud_all_zero(const uint8_t *bytes, size_t len)
{
    return len == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0);
}
