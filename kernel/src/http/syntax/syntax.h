/* SPDX-License-Identifier: Apache-2.0 */
/* syntax.h - the parts of the syntax that only this module reads. */
#pragma once

#include "ron/http/etag.h"
#include "ron/http/parse.h"
#include "ron/http/range.h"
#include "ron/http/reason.h"

void ron_http_parser_init(struct ron_http_parser *p, const struct ron_http_limits *limits);

/* `buf` is the same in each call for one head; `len` grows. DONE: head.bytes of buf belong to the
 * head. REFUSED: `reason` says why, and stays. Whether a body is too large is not decided here. */
enum ron_http_step ron_http_parse(struct ron_http_parser *p, const char *buf, size_t len);

/* 1-64 characters of [A-Za-z0-9._-]. */
bool ron_http_is_corr_id(struct ron_str text);

void ron_http_chunked_init(struct ron_http_chunked *d, uint64_t body_max);

/* Reads from `in`; *ret_used bytes are done with. MORE with *ret_len > 0: data at in + *ret_at,
 * call again with the rest. MORE with *ret_len == 0: all of `in` was used, bring more. DONE: the
 * body is complete, what follows is the next request. */
enum ron_http_step ron_http_chunked_feed(struct ron_http_chunked *d, const char *in, size_t len,
                                         size_t *ret_used, size_t *ret_at, size_t *ret_len);

/* Strong: neither is weak and the opaque parts are the same. Weak: these are the same. */
bool ron_http_etag_equal(const struct ron_http_etag *a, const struct ron_http_etag *b, bool strong);

/* "Not Found"; "Unknown" for a status that has no row. */
const char *ron_http_status_text(int status);

/* Whether Range may be honoured: there is no If-Range, or it names this very representation: a
 * strong tag, or the exact date when that is at least a second before now (13.1.5). */
bool ron_http_if_range(const struct ron_http_head *head, const struct ron_http_etag *etag,
                       uint64_t mtime_s, uint64_t now_s);

/* The satisfiable ranges of `value` for `size` bytes; *ret_count is at least 1. A last position
 * beyond the end is cut to it, numbers too large to hold included.
 *   RON_NOTFOUND  another unit than bytes: the header is to be ignored;
 *   RON_INVALID   malformed, first > last included;
 *   RON_LIMIT     more than min(max, RON_HTTP_RANGES_MAX) elements;
 *   RON_CONFLICT  well formed, but no range lies inside: 416 with ron_http_content_range(NULL). */
RON_MUST_USE enum ron_rc ron_http_range_parse(struct ron_str value, uint64_t size,
                                              struct ron_http_range *ranges, size_t max,
                                              size_t *ret_count);

/* "bare_cr"; never NULL. */
const char *ron_http_reason_label(enum ron_http_reason reason);
