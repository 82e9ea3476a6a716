/* SPDX-License-Identifier: Apache-2.0 */
/* bucket.h - the token bucket under the limiter. */
#pragma once

#include "ron/guard/bucket.h"

/* A full bucket. */
void ron_bucket_init(struct ron_bucket *bucket, struct ron_rate rate, uint64_t now_ns);

/* Brings the level up to now. Called by the others; useful by itself before the rate changes. */
void ron_bucket_refill(struct ron_bucket *bucket, struct ron_rate rate, uint64_t now_ns);

/* Takes n tokens, all or none. */
bool ron_bucket_take(struct ron_bucket *bucket, struct ron_rate rate, uint64_t now_ns, uint32_t n);

/* How long until n tokens are there if nobody takes any, rounded up; UINT64_MAX when n is above the
 * burst, so never. 0 when they are there. */
uint64_t ron_bucket_wait_ns(struct ron_bucket *bucket, struct ron_rate rate, uint64_t now_ns,
                            uint32_t n);

/* Full: no different from a new one, so it may be forgotten without giving anything away. */
bool ron_bucket_full(struct ron_bucket *bucket, struct ron_rate rate, uint64_t now_ns);
