/* SPDX-License-Identifier: Apache-2.0 */
/* bucket.h - a token bucket with continuous refill, in integers that never round.
 *
 * Place: guard. The arithmetic alone, for the owner's lock or thread; limiter.h keeps one per
 * client.
 *
 * Rules:
 *   B1. In any window of length t at most burst + rate * t tokens are taken, and a taker that asks
 *       again later than ron_bucket_wait_ns said is admitted if nobody came before it.
 *   B2. Nothing is lost to rounding: the level is kept in billionths of a token, so one nanosecond
 *       adds exactly `rate_per_s` of them.
 *   B3. A clock that stands still or goes backwards adds nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    /* One token per nanosecond and a second of it: more than any machine serves. With these maxima
     * a full level is 1e18 parts, which fits 64 bits. */
    RON_RATE_MAX = 1000000000,
    RON_BURST_MAX = 1000000000,
    /* What a client may do unless the configuration says otherwise: 500 a second, and half a second
     * of it at once. */
    RON_RATE_DEFAULT = 500,
    RON_BURST_DEFAULT = 250,
};

/* rate_per_s 0 turns the limit off: everything is admitted. burst is at least 1 otherwise. */
struct ron_rate {
    uint32_t rate_per_s;
    uint32_t burst;
};

/* Whether both numbers lie in their ranges. */
bool ron_rate_valid(struct ron_rate rate);

struct ron_bucket {
    uint64_t level_parts; /* billionths of a token, as of at_ns */
    uint64_t at_ns;       /* highest reading of the clock so far */
};
