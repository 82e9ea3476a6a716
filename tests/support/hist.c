/* SPDX-License-Identifier: Apache-2.0 */
/* hist.c - log-linear histogram. The invariants H1 and H2 are in the header.
 *
 * Place: base. A value v >= 256 with highest bit e falls into one of the 128 buckets of its power
 * of two: bucket 256 + (e - 8) * 128 + (the 7 bits below the highest), which is 2^(e-7) wide.
 */
#include "support/hist.h"

#include <string.h>

#include "ron/base/assert.h"

#define SUB_COUNT ((size_t)1 << RON_HIST_SUB_BITS)
#define LINEAR_COUNT (2 * SUB_COUNT) /* values with a bucket of their own */
#define LINEAR_BITS (RON_HIST_SUB_BITS + 1)

_Static_assert(RON_HIST_BUCKETS == LINEAR_COUNT + (64 - LINEAR_BITS) * SUB_COUNT,
               "the public size follows from the number of bits");

size_t ron_hist_bucket_of(uint64_t value)
{
    if (value < LINEAR_COUNT) {
        return (size_t)value;
    }
    unsigned highest_bit = 63u - (unsigned)__builtin_clzll(value);
    size_t sub = (size_t)(value >> (highest_bit - RON_HIST_SUB_BITS)) - SUB_COUNT;

    return LINEAR_COUNT + (size_t)(highest_bit - LINEAR_BITS) * SUB_COUNT + sub;
}

uint64_t ron_hist_bucket_last(size_t bucket)
{
    RON_ASSERT(bucket < RON_HIST_BUCKETS);
    if (bucket < LINEAR_COUNT) {
        return bucket;
    }
    size_t power = (bucket - LINEAR_COUNT) / SUB_COUNT;
    uint64_t sub = SUB_COUNT + (bucket - LINEAR_COUNT) % SUB_COUNT;

    /* For the very last bucket the shift yields 2^64, that is 0, and the result is the largest. */
    return ((sub + 1) << (power + 1)) - 1;
}

void ron_hist_init(struct ron_hist *hist)
{
    memset(hist, 0, sizeof(*hist));
    hist->min = UINT64_MAX;
}

void ron_hist_record_n(struct ron_hist *hist, uint64_t value, uint64_t n)
{
    if (n == 0) {
        return;
    }
    hist->count += n;
    hist->sum += (ron_u128)value * n;
    hist->min = RON_MIN(hist->min, value);
    hist->max = RON_MAX(hist->max, value);
    hist->buckets[ron_hist_bucket_of(value)] += n;
}

void ron_hist_record(struct ron_hist *hist, uint64_t value)
{
    ron_hist_record_n(hist, value, 1);
}

void ron_hist_merge(struct ron_hist *hist, const struct ron_hist *from)
{
    hist->count += from->count;
    hist->sum += from->sum;
    hist->min = RON_MIN(hist->min, from->min);
    hist->max = RON_MAX(hist->max, from->max);
    for (size_t i = 0; i < RON_HIST_BUCKETS; i++) {
        hist->buckets[i] += from->buckets[i];
    }
}

uint64_t ron_hist_quantile(const struct ron_hist *hist, uint64_t num, uint64_t den)
{
    RON_ASSERT(den != 0);
    RON_ASSERT(num <= den);
    if (hist->count == 0) {
        return 0;
    }
    if (num == 0) {
        return hist->min;
    }
    /* Rank of the wanted value, counted from 1 and rounded up. */
    uint64_t rank = (uint64_t)(((ron_u128)hist->count * num + den - 1) / den);
    uint64_t seen = 0;

    for (size_t i = 0; i < RON_HIST_BUCKETS; i++) {
        seen += hist->buckets[i];
        if (seen >= rank) {
            return RON_MIN(ron_hist_bucket_last(i), hist->max); /* H2 */
        }
    }
    RON_UNREACHABLE(); /* H1 */
}

uint64_t ron_hist_mean(const struct ron_hist *hist)
{
    return hist->count == 0 ? 0 : (uint64_t)(hist->sum / hist->count);
}
