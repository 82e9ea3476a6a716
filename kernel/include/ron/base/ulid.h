/* SPDX-License-Identifier: Apache-2.0 */
/* ulid.h - ULID: 128-bit identifiers that sort by time (github.com/ulid/spec).
 *
 * Bytes, big endian: 48 bits of Unix milliseconds, then 80 bits of randomness. Text: 26 characters
 * of Crockford's base 32. The text, the bytes and the 128-bit number sort the same way.
 *
 * Rules:
 *   U1. Output is upper case. Input is taken in either case, as the specification says; the letters
 *       I, L, O, U are not in the alphabet and are refused, so a value has one text up to case.
 *   U2. Text above 7ZZZZZZZZZZZZZZZZZZZZZZZZZ does not fit 128 bits and is refused.
 *   U3. A generator's values strictly increase: within a millisecond, or while the clock stands or
 *       goes backwards, the random part grows by one; should it overflow, the time part moves one
 *       millisecond ahead of the clock and the random part is drawn anew. It never waits.
 *
 * Threads: pure functions, except that a generator belongs to one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/macros.h"
#include "ron/base/rc.h"

#define RON_ULID_BYTES 16
#define RON_ULID_RANDOM_BYTES 10
#define RON_ULID_TEXT_LEN 26
#define RON_ULID_TEXT_SIZE (RON_ULID_TEXT_LEN + 1)

/* The last millisecond that 48 bits can name, in the year 10889. */
#define RON_ULID_TIME_MAX_MS ((UINT64_C(1) << 48) - 1)

struct ron_ulid {
    uint8_t bytes[RON_ULID_BYTES];
};

/* Puts the parts together. A time past RON_ULID_TIME_MAX_MS is taken as that maximum. */
struct ron_ulid ron_ulid_make(uint64_t time_ms, const uint8_t random[RON_ULID_RANDOM_BYTES]);

/* Writes 26 characters and a NUL. */
void ron_ulid_format(const struct ron_ulid *ulid, char ret_text[RON_ULID_TEXT_SIZE]);

/* Fills len bytes with randomness of the quality that the identifiers need. Must not fail. */
typedef void ron_ulid_random_fn(void *ctx, void *ret_bytes, size_t len);

struct ron_ulid_gen {
    ron_ulid_random_fn *random;
    void *random_ctx; /* borrowed */
    bool started;
    uint64_t last_ms;
    uint8_t last_random[RON_ULID_RANDOM_BYTES];
    uint64_t ahead_count; /* times the time part moved ahead of the clock because of U3 */
};

void ron_ulid_gen_init(struct ron_ulid_gen *gen, ron_ulid_random_fn *random, void *random_ctx);

/* The next identifier for the given wall clock reading. */
struct ron_ulid ron_ulid_gen_next(struct ron_ulid_gen *gen, uint64_t wall_ms);
