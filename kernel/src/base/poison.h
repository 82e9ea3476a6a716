/* SPDX-License-Identifier: Apache-2.0 */
/* poison.h - makes memory that nobody may touch noticeable. Private to base.
 *
 * In checked builds dead bytes are overwritten with RON_POISON_BYTE, so that a stale read yields an
 * absurd value. Under AddressSanitizer they are also marked, so that the first touch is reported
 * with its place. In release both do nothing.
 */
#pragma once

#include <stddef.h>
#include <string.h>

#include "ron/base/macros.h"

/* Odd, large, and not a plausible pointer, length or ASCII text. */
#define RON_POISON_BYTE 0xdb

#if defined(__SANITIZE_ADDRESS__)
#define RON_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RON_ASAN 1
#endif
#endif
#ifndef RON_ASAN
#define RON_ASAN 0
#endif

#if RON_ASAN
#include <sanitizer/asan_interface.h>
#endif

/* Overwrites bytes; they stay accessible. */
static inline void ron_poison_fill(void *bytes, size_t len)
{
    if (RON_CHECKED && len > 0) {
        memset(bytes, RON_POISON_BYTE, len);
    }
}

/* Makes any access to the bytes a report, until ron_poison_open. */
static inline void ron_poison_close(void *bytes, size_t len)
{
#if RON_ASAN
    __asan_poison_memory_region(bytes, len);
#else
    (void)bytes;
    (void)len;
#endif
}

static inline void ron_poison_open(void *bytes, size_t len)
{
#if RON_ASAN
    __asan_unpoison_memory_region(bytes, len);
#else
    (void)bytes;
    (void)len;
#endif
}
