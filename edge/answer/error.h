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
    X(NOT_FOUND, "not_found", "NOT_FOUND", 404, false, "not found")                                \
    X(BAD_PATH, "bad_path", "BAD_REQUEST", 400, false, "invalid path encoding")                    \
    X(NOT_ALLOWED, "not_allowed", "FORBIDDEN", 403, false, "path not allowed")                     \
    X(INVALID_RANGE, "invalid_range", "RANGE", 416, false,                                         \
      "range is invalid or outside the object")                                                    \
    X(PRECONDITION, "precondition", "PRECONDITION", 412, false, "precondition failed")             \
    X(DECOMPRESS_CAP, "decompress_cap", "DECOMP_LIMIT", 406, false,                                \
      "object is stored compressed and too large to decompress for this client")                   \
    X(AMNESIA, "amnesia", "AMNESIA", 503, false,                                                   \
      "amnesia mode without memory for content of origins")                                        \
    X(PACK_DAMAGED, "pack_damaged", "PACK_DAMAGED", 503, false,                                    \
      "pack is corrupt and not served; see /readyz")                                               \
    X(BAD_ID, "bad_content_id", "BAD_REQUEST", 400, false,                                         \
      "invalid content id, expected 'b3:' and 64 hex digits")                                      \
    X(BAD_PURGE, "bad_purge", "BAD_REQUEST", 400, false,                                           \
      "invalid purge, expected one of path, prefix and id")                                        \
    X(UNAUTH, "unauth", "UNAUTH", 401, false, "missing or invalid capability")                     \
    X(FORBIDDEN, "forbidden", "FORBIDDEN", 403, false, "capability lacks the scope edge.purge")    \
    X(UPSTREAM, "upstream", "UPSTREAM", 502, true, "origin failed")                                \
    X(UPSTREAM_SLOW, "upstream_slow", "UPSTREAM_SLOW", 504, true, "origin timed out")              \
    X(ETAG_INVALID, "etag_invalid", "UPSTREAM", 502, false, "origin sent no strong entity tag")    \
    X(BODY_CAP, "body_cap", "UPSTREAM", 502, false, "object of the origin is too large")           \
    X(LOOP, "loop", "LOOP", 508, false, "request loop detected")                                   \
    X(NOT_CACHED, "not_cached", "NOT_CACHED", 504, false,                                          \
      "only-if-cached, but no usable response is cached")                                          \
    X(CORRUPT, "corrupt", "UPSTREAM", 502, true,                                                   \
      "cached object is corrupt and was quarantined; retry")                                       \
    X(STORAGE, "storage", "STORAGE", 503, true, "disk read failed")                                \
    X(BUSY, "rate_limit", "BACKPRESSURE", 429, true, "too many queued requests")                   \
    X(FILLING, "filling", "FILLING", 202, true,                                                    \
      "origin has not responded yet; the fill continues in the background")                        \
    X(TIMEOUT, "timeout", "TIMEOUT", 503, true, "request deadline exceeded")                       \
    X(DRAINING, "draining", "DRAINING", 503, true, "service is shutting down")                     \
    X(NOT_READY, "not_ready", "NOT_READY", 503, true, "pack verification in progress")             \
    X(INTERNAL, "internal", "INTERNAL", 500, false, "internal error")

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
