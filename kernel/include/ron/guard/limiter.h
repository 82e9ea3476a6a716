/* SPDX-License-Identifier: Apache-2.0 */
/* limiter.h - a token bucket per client, in a table that cannot grow.
 *
 * A client is any bytes: the id of a capability, an address, or nothing at all for one bucket for
 * the whole instance. The table keeps a keyed 64-bit hash of them, under a secret of this process,
 * so nobody can aim at another client's bucket.
 *
 * Rules:
 *   L1. Each client is held to burst + rate * t in every window, also when entries come and go: an
 *       entry is forgotten only when its bucket is full again, which is when it says nothing.
 *   L2. When all entries of a shard are in use by clients that are not idle, newcomers share one
 *       overflow bucket per shard until one becomes idle. A newcomer's own bucket starts at the
 *       level of that shared one, so moving from one to the other gains nothing.
 *   L3. offered = admitted + busy_rejections_total.
 *   L4. An entry that somebody refers to is not given to another client.
 *
 * Threads: any; a shard's lock (rank leaf) is held for some tens of nanoseconds, time is read
 * inside it so that a bucket sees its own order. */
#pragma once

#include <stddef.h>

#include "ron/base/env.h"
#include "ron/base/rc.h"
#include "ron/guard/bucket.h"

enum {
    /* 64 bytes an entry, touched when first used: the default table takes up to half a megabyte and
     * holds eight thousand clients that spoke within the last burst / rate seconds. */
    RON_LIMITER_CLIENTS_DEFAULT = 8192,
    RON_LIMITER_CLIENTS_MAX = 1 << 24,
    RON_LIMITER_SHARDS = 16, /* a few per core of what we run on, so that workers rarely meet */
};

struct ron_limiter_opts {
    const struct ron_env *env; /* borrowed: clock, and randomness for the hash key */
    struct ron_rate rate;      /* {0} = off */
    uint32_t clients_max;      /* 0 = the default; rounded up to a multiple of the shards */
};

/* Sums over all shards, a moment apart from each other. */
struct ron_limiter_stats {
    uint64_t offered;
    uint64_t admitted;
    uint64_t busy_rejections_total; /* refused with 429 */
    uint64_t overflow;              /* of the offered, those judged by a shared bucket (L2) */
    uint64_t evicted;               /* idle entries given to another client */
    uint64_t clients;               /* entries in use */
};

struct ron_limiter;
struct ron_limiter_ref; /* a client's entry, held by a connection */

/* RON_INVALID for a rate out of range, RON_LIMIT for too many clients, RON_NOMEM. */
RON_MUST_USE enum ron_rc ron_limiter_new(const struct ron_limiter_opts *opts,
                                         struct ron_limiter **ret_limiter, struct ron_err *err);
void ron_limiter_free(struct ron_limiter *l);

/* Takes one token of the client. RON_FULL: refused, and *ret_wait_ns says after which time the next
 * one may be there (for Retry-After, which ron_retry_after_s rounds up). */
RON_MUST_USE enum ron_rc ron_limiter_take(struct ron_limiter *l, const void *client, size_t len,
                                          uint64_t *ret_wait_ns);

/* For connections: the table is searched once, and each request then costs the shard's lock and the
 * arithmetic. Never fails: when the shard is full of others, the reference is to the bucket that
 * newcomers share (L2). */
struct ron_limiter_ref *ron_limiter_ref(struct ron_limiter *l, const void *client, size_t len);
/* Like ron_limiter_take; the caller has read the clock, at most some milliseconds ago. */
RON_MUST_USE enum ron_rc ron_limiter_take_ref(struct ron_limiter *l, struct ron_limiter_ref *ref,
                                              uint64_t now_ns, uint64_t *ret_wait_ns);
/* NULL does nothing. */
void ron_limiter_unref(struct ron_limiter *l, struct ron_limiter_ref *take_ref);

/* For a reload. What was refilled so far counts by the old rate; a bucket above the new burst is
 * cut to it. RON_INVALID leaves everything as it was. */
RON_MUST_USE enum ron_rc ron_limiter_set_rate(struct ron_limiter *l, struct ron_rate rate,
                                              struct ron_err *err);
void ron_limiter_get_stats(const struct ron_limiter *l, struct ron_limiter_stats *ret_stats);

/* Whole seconds for a Retry-After header: rounded up, at least 1. */
uint64_t ron_retry_after_s(uint64_t wait_ns);
