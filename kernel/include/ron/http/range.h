/* SPDX-License-Identifier: Apache-2.0 */
/* range.h - byte ranges of RFC 9110 14: the header Range against a known size.
 *
 * Several ranges are returned as they were asked, in that order; whether they are merged, refused
 * or answered as multipart is the caller's decision. Malformed and unsatisfiable are told apart,
 * because the first may be ignored and the second never is.
 *
 * Threads: pure. */
#pragma once

#include "ron/base/json.h"

enum {
    /* Of one header, empty list elements counted: more is only ever asked to do harm. */
    RON_HTTP_RANGES_MAX = 16,
    RON_HTTP_CONTENT_RANGE_SIZE = 72, /* "bytes " and three numbers of 20 digits */
};

struct ron_http_range {
    uint64_t first;
    uint64_t last; /* included; first <= last < size */
};

/* The satisfiable ranges of `value` for `size` bytes; *ret_count is at least 1. A last position
 * beyond the end is cut to it, numbers too large to hold included.
 *   RON_NOTFOUND  another unit than bytes: the header is to be ignored;
 *   RON_INVALID   malformed, first > last included;
 *   RON_LIMIT     more than min(max, RON_HTTP_RANGES_MAX) elements;
 *   RON_CONFLICT  well formed, but no range lies inside: 416 with ron_http_content_range(NULL). */
RON_MUST_USE enum ron_rc ron_http_range_parse(struct ron_str value, uint64_t size,
                                              struct ron_http_range *ranges, size_t max,
                                              size_t *ret_count);

/* The value of Content-Range: "bytes 0-1/10", or "bytes * /10" (without the blank) when range is
 * NULL. Returns its length. */
size_t ron_http_content_range(const struct ron_http_range *range, uint64_t size,
                              char ret_text[RON_HTTP_CONTENT_RANGE_SIZE]);

/* The range and the whole size of such a value, as an origin answers it. RON_INVALID also for
 * "bytes * /10" and an unknown size: they are no part of anything. */
RON_MUST_USE enum ron_rc ron_http_content_range_parse(struct ron_str value,
                                                      struct ron_http_range *ret_range,
                                                      uint64_t *ret_size);
