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

/* The value of Content-Range: "bytes 0-1/10", or "bytes * /10" (without the blank) when range is
 * NULL. Returns its length. */
size_t ron_http_content_range(const struct ron_http_range *range, uint64_t size,
                              char ret_text[RON_HTTP_CONTENT_RANGE_SIZE]);
