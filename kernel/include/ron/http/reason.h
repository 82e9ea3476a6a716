/* SPDX-License-Identifier: Apache-2.0 */
/* reason.h - every "no" that the HTTP front itself can answer, in one table.
 *
 * A reason is the metric label (rejected_total{reason}), the member "reason" of the error envelope,
 * and decides status and code. Services add errors of their own with struct ron_http_error.
 *
 * Pure lookups; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* X(NAME, status, "CODE", "label", retryable, "message"). The rows from BARE_CR to EXPECT are
 * refusals of the parser: they are answered and the connection is closed, because nobody can know
 * where the next request would begin. */
#define RON_HTTP_REASONS(X)                                                                        \
    X(NONE, 200, "OK", "none", false, "")                                                          \
    X(BARE_CR, 400, "MALFORMED", "bare_cr", false, "a CR without LF")                              \
    X(BARE_LF, 400, "MALFORMED", "bare_lf", false, "a LF without CR")                              \
    X(NUL, 400, "MALFORMED", "nul", false, "a NUL byte")                                           \
    X(FOLDED, 400, "MALFORMED", "folded", false, "a folded header line")                           \
    X(REQUEST_LINE, 400, "MALFORMED", "request_line", false, "the request line is malformed")      \
    X(TARGET, 400, "MALFORMED", "target", false, "the request target is malformed")                \
    X(METHOD, 501, "NOT_IMPLEMENTED", "method", false, "this method is not known")                 \
    X(VERSION, 505, "VERSION_UNSUPPORTED", "version", false, "only HTTP/1.1 and HTTP/1.0")         \
    X(HEADER_NAME, 400, "MALFORMED", "header_name", false, "a header name is malformed")           \
    X(HEADER_SPACE, 400, "MALFORMED", "header_space", false, "a space before a header's colon")    \
    X(HEADER_VALUE, 400, "MALFORMED", "header_value", false, "a header value is malformed")        \
    X(HOST_MISSING, 400, "MALFORMED", "host_missing", false, "the header Host is missing")         \
    X(HOST_TWICE, 400, "MALFORMED", "host_twice", false, "the header Host stands twice")           \
    X(HOST_BAD, 400, "MALFORMED", "host_bad", false, "the header Host is no host and port")        \
    X(LENGTH_BAD, 400, "MALFORMED", "length_bad", false, "Content-Length is no number")            \
    X(LENGTH_TWICE, 400, "MALFORMED", "length_twice", false, "Content-Length stands twice")        \
    X(LENGTH_CODING, 400, "MALFORMED", "length_coding", false,                                     \
      "both Content-Length and Transfer-Encoding")                                                 \
    X(CODING_UNKNOWN, 400, "MALFORMED", "coding_unknown", false,                                   \
      "a transfer coding other than chunked")                                                      \
    X(CODING_TWICE, 400, "MALFORMED", "coding_twice", false, "Transfer-Encoding stands twice")     \
    X(CODING_VERSION, 400, "MALFORMED", "coding_version", false, "Transfer-Encoding in HTTP/1.0")  \
    X(CHUNK_SIZE, 400, "MALFORMED", "chunk_size", false, "a chunk size is malformed")              \
    X(CHUNK_EXT, 400, "MALFORMED", "chunk_ext", false, "chunk extensions are malformed or long")   \
    X(CHUNK_DATA, 400, "MALFORMED", "chunk_data", false, "a chunk does not end where it said")     \
    X(TRAILER, 400, "MALFORMED", "trailer", false, "the trailer is malformed or long")             \
    X(CONNECTION, 400, "MALFORMED", "connection", false, "the header Connection is malformed")     \
    X(BAD_DEADLINE, 400, "MALFORMED", "bad_deadline", false,                                       \
      "Request-Timeout or Deadline is no number")                                                  \
    X(URI_LONG, 414, "URI_LIMIT", "uri_long", false, "the request target is too long")             \
    X(HEADERS_MANY, 431, "HEADER_LIMIT", "headers_many", false, "too many header lines")           \
    X(HEAD_LARGE, 431, "HEADER_LIMIT", "head_large", false, "the request head is too large")       \
    X(EXPECT, 417, "EXPECTATION_FAILED", "expect", false, "only 100-continue can be expected")     \
    X(BODY_LARGE, 413, "BODY_LIMIT", "too_large", false, "the body is larger than allowed")        \
    X(DECOMPRESS_CAP, 413, "DECOMP_LIMIT", "decompress_cap", false,                                \
      "the body is larger than allowed once decoded")                                              \
    X(CONTENT_CODING, 415, "UNSUPPORTED_CODING", "content_coding", false,                          \
      "only the content codings gzip and zstd are known")                                          \
    X(CONTENT_DAMAGED, 400, "MALFORMED", "content_damaged", false,                                 \
      "the body is not what its content coding says")                                              \
    X(NOT_FOUND, 404, "NOT_FOUND", "not_found", false, "there is nothing at this path")            \
    X(NOT_ALLOWED, 405, "METHOD_NOT_ALLOWED", "not_allowed", false,                                \
      "this path does not take this method")                                                       \
    X(PARAM, 400, "MALFORMED", "param", false, "a parameter in the path is malformed")             \
    X(RATE, 429, "RATE_LIMIT", "rate_limit", true, "this client sends too many requests")          \
    X(BUSY, 429, "BACKPRESSURE", "busy", true, "too many requests are under way")                  \
    X(CONNECTIONS, 503, "BACKPRESSURE", "connections", true, "too many connections are open")      \
    X(PEER, 403, "FORBIDDEN", "peer_denied", false, "this user may not connect here")              \
    X(MEMORY, 503, "BACKPRESSURE", "memory", true, "requests and answers hold all memory")         \
    X(READ_SLOW, 408, "TIMEOUT", "read_timeout", true, "the request came too slowly")              \
    X(DEADLINE, 503, "TIMEOUT", "timeout", true, "the deadline of the request passed")             \
    X(DRAINING, 503, "DRAINING", "draining", true, "the service is shutting down")                 \
    X(INTERNAL, 500, "INTERNAL", "internal", false, "a defect was contained")

enum ron_http_reason {
#define X(name, status, code, label, retryable, message) RON_HTTP_##name,
    RON_HTTP_REASONS(X)
#undef X
        RON_HTTP_REASON_COUNT
};

/* What the envelope {"code","message","retryable","corr_id","reason"} says. Texts are kept, not
 * copied: `reason` is a string constant, the others live until the call that takes them returns. */
struct ron_http_error {
    int status;
    const char *code;    /* UPPER_SNAKE, stable */
    const char *message; /* for people */
    const char *reason;  /* metric label */
    bool retryable;
    uint32_t retry_after_s; /* 0: one second where the status (429, 503) asks for the header */
};

struct ron_http_error ron_http_error_of(enum ron_http_reason reason);
