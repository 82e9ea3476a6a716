/* SPDX-License-Identifier: Apache-2.0 */
/* edge/answer/error.h - the refusals of the edge: one table for statuses, codes, reasons and
 * metrics.
 *
 * Place: edge. Reasons of the specification carry its names; each is counted as
 * edge_rejects_total{reason}, and so are the refusals of the listener (edg_reject_label). */
#pragma once

#include "ron/http/parse.h"

/* X(NAME, "reason", "CODE", status, retryable, "meaning") */
#define EDG_ERRORS(X)                                                                              \
    X(NONE, "", "", 0, false, "")                                                                  \
    X(NOT_FOUND, "not_found", "NOT_FOUND", 404, false, "there is nothing under this path")         \
    X(BAD_PATH, "bad_path", "BAD_REQUEST", 400, false, "the path is not well encoded")             \
    X(NOT_ALLOWED, "not_allowed", "FORBIDDEN", 403, false, "this path is not served")              \
    X(INVALID_RANGE, "invalid_range", "RANGE", 416, false,                                         \
      "the range is malformed or lies outside the object")                                         \
    X(PRECONDITION, "precondition", "PRECONDITION", 412, false,                                    \
      "the object is not the one that the request names")                                          \
    X(DECOMPRESS_CAP, "decompress_cap", "DECOMP_LIMIT", 406, false,                                \
      "the object is stored packed and too large to unpack for a client that does not take that")  \
    X(AMNESIA, "amnesia", "AMNESIA", 503, false,                                                   \
      "the edge keeps nothing, and has no memory set aside for what origins send")                 \
    X(PACK_DAMAGED, "pack_damaged", "PACK_DAMAGED", 503, false,                                    \
      "this pack is damaged and not served; /readyz tells why")                                    \
    X(BAD_ID, "bad_content_id", "BAD_REQUEST", 400, false, "a content id is b3: and 64 digits")    \
    X(BAD_PURGE, "bad_purge", "BAD_REQUEST", 400, false,                                           \
      "a purge names one of path, prefix and id")                                                  \
    X(UNAUTH, "unauth", "UNAUTH", 401, false, "no capability, or one that is not valid")           \
    X(FORBIDDEN, "forbidden", "FORBIDDEN", 403, false, "the capability does not cover edge.purge") \
    X(UPSTREAM, "upstream", "UPSTREAM", 502, true, "the origin failed")                            \
    X(UPSTREAM_SLOW, "upstream_slow", "UPSTREAM_SLOW", 504, true,                                  \
      "the origin did not answer in time")                                                         \
    X(ETAG_INVALID, "etag_invalid", "UPSTREAM", 502, false,                                        \
      "the origin gives no strong entity tag")                                                     \
    X(BODY_CAP, "body_cap", "UPSTREAM", 502, false,                                                \
      "the origin's object is larger than the edge takes")                                         \
    X(LOOP, "loop", "LOOP", 508, false, "the request has been here before")                        \
    X(NOT_CACHED, "not_cached", "NOT_CACHED", 504, false,                                          \
      "only-if-cached, and nothing is stored that may be used")                                    \
    X(CORRUPT, "corrupt", "UPSTREAM", 502, true,                                                   \
      "the stored bytes are damaged and were set aside; ask again")                                \
    X(STORAGE, "storage", "STORAGE", 503, true, "the disk could not be read")                      \
    X(BUSY, "rate_limit", "BACKPRESSURE", 429, true, "too many requests wait for the disk")        \
    X(FILLING, "filling", "FILLING", 202, true,                                                    \
      "the origin has not answered in the time of this request and is still being asked")          \
    X(TIMEOUT, "timeout", "TIMEOUT", 503, true, "the deadline of the request passed")              \
    X(DRAINING, "draining", "DRAINING", 503, true, "the edge is shutting down")                    \
    X(NOT_READY, "not_ready", "NOT_READY", 503, true, "the packs are still being verified")        \
    X(INTERNAL, "internal", "INTERNAL", 500, false, "a fault of the edge")

enum edg_error {
#define X(name, label, code, status, retry, doc) EDG_ERROR_##name,
    EDG_ERRORS(X)
#undef X
        EDG_ERROR_COUNT,
};

/* X("reason of the listener", "label"): those that the specification has a name for. */
#define EDG_LISTENER_REASONS(X)                                                                    \
    X("too_large", "body_cap")                                                                     \
    X("busy", "rate_limit")                                                                        \
    X("read_timeout", "timeout")                                                                   \
    X("memory", "rate_limit")

/* The label under which a refusal is counted, by the reason of its envelope. */
const char *edg_reject_label(const char *reason, int status);
const char *edg_error_label(enum edg_error error);
struct ron_http_error edg_http_error(enum edg_error error);
/* What a failure of pack, file or store means for a request. */
enum edg_error edg_error_of(enum ron_rc rc);
