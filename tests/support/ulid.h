/* SPDX-License-Identifier: Apache-2.0 */
/* ulid.h - reads a ULID, so that tests can compare what the generator made. */
#pragma once

#include <string.h>

#include "ron/base/ulid.h"
#include "ron/base/wide.h"

static inline uint64_t ron_ulid_time_ms(const struct ron_ulid *ulid)
{
    uint64_t time_ms = 0;

    for (size_t i = 0; i < 6; i++) {
        time_ms = time_ms << 8 | ulid->bytes[i];
    }
    return time_ms;
}

/* -1, 0, 1 in the order of time, then of the random part. */
static inline int ron_ulid_cmp(const struct ron_ulid *a, const struct ron_ulid *b)
{
    int order = memcmp(a->bytes, b->bytes, sizeof(a->bytes));

    return (order > 0) - (order < 0);
}

/* Reads 26 characters in either case. RON_INVALID unless they are a ULID. */
static inline enum ron_rc ron_ulid_parse(const char *text, size_t len, struct ron_ulid *ret_ulid)
{
    static const char alphabet[] =
        "0123456789ABCDEFGHJKMNPQRSTVWXYZ0123456789abcdefghjkmnpqrstvwxyz";
    ron_u128 value = 0;

    if (len != RON_ULID_TEXT_LEN || text[0] > '7') {
        return RON_INVALID;
    }
    for (size_t i = 0; i < len; i++) {
        const char *at = text[i] != '\0' ? strchr(alphabet, text[i]) : NULL;

        if (at == NULL) {
            return RON_INVALID;
        }
        value = value << 5 | ((size_t)(at - alphabet) & 31);
    }
    for (size_t i = RON_ULID_BYTES; i-- > 0;) {
        ret_ulid->bytes[i] = (uint8_t)value;
        value >>= 8;
    }
    return RON_OK;
}
