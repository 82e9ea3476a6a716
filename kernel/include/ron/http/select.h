/* SPDX-License-Identifier: Apache-2.0 */
/* select.h - what a GET or HEAD gets of a representation: conditions and ranges (RFC 9110 13
 * and 14).
 *
 * Place: http, between routes and what they serve: the same rules for a tile, a file, an object
 * and a stored answer of an origin. Pure: no I/O, no allocation, no clock.
 *
 * Rules:
 *   S1. The order is that of RFC 9110 13.2.2: If-Match, else If-Unmodified-Since; If-None-Match,
 *       else If-Modified-Since; then Range, if If-Range allows it.
 *   S2. Range counts for GET alone (14.2), in the unit bytes alone; another unit is ignored. Ours
 *       is the strict reading of the rest: malformed, in two lines, or of more than
 *       RON_HTTP_RANGES_MAX elements is 416, as is a set of which nothing lies inside.
 *   S3. Ranges that overlap or touch are one range, at the place of the first of them. What is sent
 *       is therefore never more than the representation and one part head a range.
 *   S4. Several ranges that remain are a multipart answer where the caller allows it, and the whole
 *       representation (200) where not.
 *
 * Threads: any. Ownership: the answer borrows nothing. */
#pragma once

#include "ron/http/etag.h"
#include "ron/http/range.h"

struct ron_http_repr {
    uint64_t size;                    /* bytes as they would be sent */
    const struct ron_http_etag *etag; /* NULL: none */
    uint64_t mtime_s;                 /* RON_HTTP_NO_MTIME: none */
    bool multipart;                   /* several ranges may be answered as parts */
};

/* Fields that belong into an answer of this status, besides those of every answer. */
enum ron_http_selection_fields {
    RON_HTTP_WITH_ETAG = 1u << 0,
    RON_HTTP_WITH_LAST_MODIFIED = 1u << 1,
    RON_HTTP_WITH_CACHE =
        1u << 2, /* Cache-Control, Expires, Vary, Content-Location, Age, Cache-Status */
    RON_HTTP_WITH_ACCEPT_RANGES = 1u << 3,
    RON_HTTP_WITH_CONTENT_RANGE = 1u << 4, /* its value is in the answer */
    RON_HTTP_WITH_CONTENT = 1u << 5,       /* Content-Type, Content-Encoding and the like */
};

struct ron_http_selection {
    int status;         /* 200, 206, 304, 412, 416 */
    uint32_t with;      /* enum ron_http_selection_fields; only of what the representation has */
    uint64_t length;    /* of the body, one range or all: 0 with 304, 412, 416 and multipart */
    size_t range_count; /* 206: 1, or more and then a multipart answer (edge/rules/multipart.h) */
    struct ron_http_range ranges[RON_HTTP_RANGES_MAX];
    size_t content_range_len;
    char content_range[RON_HTTP_CONTENT_RANGE_SIZE];
};

/* Of a HEAD, status, fields and length are those of the GET without Range; whoever sends it leaves
 * the body out. A method that is neither gets conditions only: 200, 412. */
void ron_http_select(const struct ron_http_head *head, const struct ron_http_repr *repr,
                     uint64_t now_s, struct ron_http_selection *ret_answer);
