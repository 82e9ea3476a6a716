/* SPDX-License-Identifier: Apache-2.0 */
/* hist.h - histogram of 64-bit values with a relative error below 1 percent and fixed memory.
 *
 * Place: base; benchmarks and metrics. Values up to 255 have a bucket each; above, every power of
 * two is divided into 128 buckets (log-linear, as in HDR histograms with two significant digits).
 * No value is out of range, and recording costs a few instructions.
 *
 * Invariants:
 *   H1. count is the sum of all buckets; min and max are exact.
 *   H2. A quantile is at or above the exact one, by less than 1/128 of it, and within [min, max].
 *
 * Threads: one writer. To combine threads, give each its own and merge.
 * Size: about 58 KiB; meant to be a member of something long-lived, not to be on a small stack.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ron/base/wide.h"

#define RON_HIST_SUB_BITS 7 /* 128 buckets per power of two: error < 1/128 */
#define RON_HIST_BUCKETS (2 * 128 + (64 - 8) * 128)

struct ron_hist {
    uint64_t count;
    uint64_t min; /* UINT64_MAX while empty */
    uint64_t max;
    ron_u128 sum; /* cannot overflow: 2^64 values of 64 bits */
    uint64_t buckets[RON_HIST_BUCKETS];
};

void ron_hist_init(struct ron_hist *hist);

void ron_hist_record(struct ron_hist *hist, uint64_t value);

/* The same value n times. */
void ron_hist_record_n(struct ron_hist *hist, uint64_t value, uint64_t n);

/* Adds all values of `from`. */
void ron_hist_merge(struct ron_hist *hist, const struct ron_hist *from);

/* The value below or at which num/den of the recorded values lie (99/100 is the 99th percentile);
 * 0 while empty. num <= den, den not 0. num = 0 gives the minimum. */
uint64_t ron_hist_quantile(const struct ron_hist *hist, uint64_t num, uint64_t den);

/* Sum divided by count, rounded down; 0 while empty. */
uint64_t ron_hist_mean(const struct ron_hist *hist);

/* Bucket of a value, and the largest value of a bucket. */
size_t ron_hist_bucket_of(uint64_t value);
uint64_t ron_hist_bucket_last(size_t bucket);
