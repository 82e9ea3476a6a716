/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/multipart.h - the plan of a multipart/byteranges body (RFC 9110 14.6), sent without a
 * copy.
 *
 * Used after ron_http_select. A plan is a row of pieces, in turn text of the plan and a range of
 * the representation; the sender lends both without a copy.
 * Pure; random bytes come from the caller.
 *
 * Invariants:
 *   M1. `length` is the sum of the pieces, to the byte: it is the Content-Length.
 *   M2. The boundary is 128 random bits in hex. It is drawn for each answer after its data exists,
 *       so data cannot hold it but by a chance of 2^-128 a byte.
 *   M3. Pieces alternate: text, range, text, range, ..., text.
 *
 * Ownership: pieces of text borrow the plan, which must not be moved while they are used.
 * Threads: any. */
#pragma once

#include "ron/http/range.h"

enum {
    EDG_BOUNDARY_BYTES = 16,
    EDG_BOUNDARY_LEN = 2 * EDG_BOUNDARY_BYTES,
    EDG_CONTENT_TYPE_MAX = 128, /* the longest registered types have about 90 characters */
    EDG_PART_HEAD_MAX = 48 + EDG_BOUNDARY_LEN + EDG_CONTENT_TYPE_MAX + RON_HTTP_CONTENT_RANGE_SIZE,
    EDG_PIECES_MAX = 2 * RON_HTTP_RANGES_MAX + 1,
};

struct edg_piece {
    const char *text;            /* NULL: the range */
    uint64_t length;             /* of either */
    struct ron_http_range range; /* of the representation */
};

struct edg_multipart {
    uint64_t length;
    size_t piece_count;
    struct edg_piece pieces[EDG_PIECES_MAX];
    char content_type[32 + EDG_BOUNDARY_LEN]; /* of the answer, with NUL */
    size_t text_len;
    char text[(RON_HTTP_RANGES_MAX + 1) * EDG_PART_HEAD_MAX];
};

/* The plan for 1 to RON_HTTP_RANGES_MAX ranges of `size` bytes; an empty content_type leaves the
 * line out of the parts. RON_LIMIT: content_type is longer than EDG_CONTENT_TYPE_MAX. RON_INVALID:
 * it is not a valid header value. */
RON_MUST_USE enum ron_rc edg_multipart_plan(const struct ron_http_range *ranges, size_t count,
                                            uint64_t size, struct ron_str content_type,
                                            const uint8_t random[EDG_BOUNDARY_BYTES],
                                            struct edg_multipart *ret_plan);
