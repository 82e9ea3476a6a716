/* SPDX-License-Identifier: Apache-2.0 */
/* client/bytes.h - big-endian numbers; shared by client/ alone. */
#pragma once

#include <stddef.h>
#include <stdint.h>

static inline uint64_t lc__get(const uint8_t *p, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes; i++) {
        value = value << 8 | p[i];
    }
    return value;
}
