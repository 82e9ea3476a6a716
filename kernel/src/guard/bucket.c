/* SPDX-License-Identifier: Apache-2.0 */
/* bucket.c - level, refill and the two questions asked of a bucket.
 *
 * Place: guard; pure arithmetic, no state of its own.
 * Invariant: level_parts <= burst * PARTS after every call. With burst <= 1e9 that is at most 1e18,
 * so level plus one refill below the capacity cannot overflow; the refill itself saturates. */
#include "ron/guard/bucket.h"

#include "guard/bucket.h"
#include "ron/base/assert.h"
#include "ron/base/clock.h"

#define PARTS RON_NS_PER_S /* of one token: a nanosecond adds rate_per_s of them */

bool ron_rate_valid(struct ron_rate rate)
{
    if (rate.rate_per_s == 0) {
        return true;
    }
    return rate.rate_per_s <= RON_RATE_MAX && rate.burst >= 1 && rate.burst <= RON_BURST_MAX;
}

static uint64_t capacity_parts(struct ron_rate rate)
{
    return (uint64_t)rate.burst * PARTS;
}

void ron_bucket_init(struct ron_bucket *bucket, struct ron_rate rate, uint64_t now_ns)
{
    RON_ASSERT(ron_rate_valid(rate));
    *bucket = (struct ron_bucket){.level_parts = capacity_parts(rate), .at_ns = now_ns};
}

void ron_bucket_refill(struct ron_bucket *bucket, struct ron_rate rate, uint64_t now_ns)
{
    uint64_t elapsed_ns = now_ns > bucket->at_ns ? now_ns - bucket->at_ns : 0; /* B3 */
    uint64_t gain = ron_sat_mul_u64(elapsed_ns, rate.rate_per_s);

    bucket->at_ns += elapsed_ns;
    bucket->level_parts = RON_MIN(ron_sat_add_u64(bucket->level_parts, gain), capacity_parts(rate));
}

bool ron_bucket_take(struct ron_bucket *bucket, struct ron_rate rate, uint64_t now_ns, uint32_t n)
{
    uint64_t cost = (uint64_t)n * PARTS;

    if (rate.rate_per_s == 0) {
        return true;
    }
    ron_bucket_refill(bucket, rate, now_ns);
    if (bucket->level_parts < cost) {
        return false;
    }
    bucket->level_parts -= cost;
    return true;
}

uint64_t ron_bucket_wait_ns(struct ron_bucket *bucket, struct ron_rate rate, uint64_t now_ns,
                            uint32_t n)
{
    uint64_t cost = (uint64_t)n * PARTS;
    uint64_t missing;

    if (rate.rate_per_s == 0) {
        return 0;
    }
    if (n > rate.burst) {
        return UINT64_MAX;
    }
    ron_bucket_refill(bucket, rate, now_ns);
    if (bucket->level_parts >= cost) {
        return 0;
    }
    missing = cost - bucket->level_parts;
    return missing / rate.rate_per_s + (missing % rate.rate_per_s != 0);
}

bool ron_bucket_full(struct ron_bucket *bucket, struct ron_rate rate, uint64_t now_ns)
{
    if (rate.rate_per_s == 0) {
        return true;
    }
    ron_bucket_refill(bucket, rate, now_ns);
    return bucket->level_parts == capacity_parts(rate);
}
