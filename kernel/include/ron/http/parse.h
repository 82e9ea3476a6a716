/* SPDX-License-Identifier: Apache-2.0 */
/* parse.h - strict HTTP/1.1 request syntax (RFC 9112) over a buffer that grows.
 *
 * Place: http, below the server; pure code without I/O, fuzzed by itself.
 *
 * The head is parsed line by line as bytes arrive, so a malformed line is refused when its end has
 * come and not when the head is complete. Nothing is copied: names and values are slices of the
 * caller's buffer, which must neither move nor change while a head is being parsed and used. When
 * it has to move, start the parser again.
 *
 * Accepted is what the grammar allows and nothing else. Refused, each with its reason: a bare CR or
 * LF, NUL and other controls, folding, space before the colon, an empty or malformed name, a target
 * that is not in origin form ("*" for OPTIONS only) or holds characters outside RFC 3986, a missing
 * (HTTP/1.1), repeated or malformed Host, Content-Length that is repeated, signed or a list, any
 * transfer coding but one "chunked", Content-Length together with Transfer-Encoding, and everything
 * longer than the limits. One empty line before the request line is skipped (RFC 9112 2.2).
 *
 * Threads: a parser belongs to one thread. Ownership: slices borrow the buffer. */
#pragma once

#include "ron/base/json.h"
#include "ron/http/reason.h"

enum {
    RON_HTTP_HEADERS_MAX = 100, /* browsers send about 20; nginx and Apache stop near here too */
    RON_HTTP_URI_DEFAULT = 4096,
    RON_HTTP_HEAD_DEFAULT = 16384,
    RON_HTTP_CHUNK_EXT_MAX = 1024, /* of a whole body; nobody uses extensions */
    RON_HTTP_TRAILER_MAX = 4096,
    RON_HTTP_CORR_ID_MAX = 64,
};

struct ron_http_limits {
    uint32_t uri_max;     /* bytes of the target */
    uint32_t head_max;    /* bytes up to and including the empty line */
    uint32_t headers_max; /* lines; at most RON_HTTP_HEADERS_MAX */
};

#define RON_HTTP_METHODS(X) X(GET) X(HEAD) X(POST) X(PUT) X(DELETE) X(PATCH) X(OPTIONS)

enum ron_http_method {
#define X(name) RON_HTTP_##name,
    RON_HTTP_METHODS(X)
#undef X
        RON_HTTP_METHOD_COUNT
};
const char *ron_http_method_name(enum ron_http_method method);

struct ron_http_field {
    struct ron_str name;
    struct ron_str value; /* without blanks around it */
};

struct ron_http_head {
    enum ron_http_method method;
    uint32_t minor;        /* of the version: HTTP/1.minor */
    struct ron_str target; /* as sent */
    struct ron_str path;   /* target up to '?', still percent-encoded */
    struct ron_str query;  /* behind '?'; ptr NULL without one */
    struct ron_str host;
    struct ron_str corr_id;     /* a well-formed X-Corr-ID, else empty */
    struct ron_str traceparent; /* as sent, not looked at; empty when it stands more than once */
    uint64_t content_length;
    bool has_length;
    bool chunked;
    bool keep_alive; /* what the client wants, its version considered */
    bool expects_continue;
    bool has_traceparent;
    uint64_t timeout_ms;       /* Request-Timeout; UINT64_MAX without one */
    uint64_t deadline_unix_ms; /* Deadline; UINT64_MAX without one */
    uint32_t bytes;            /* of the whole head, skipped empty line included */
    uint32_t field_count;
    struct ron_http_field fields[RON_HTTP_HEADERS_MAX];
};

enum ron_http_step { RON_HTTP_MORE, RON_HTTP_DONE, RON_HTTP_REFUSED };

struct ron_http_parser {
    struct ron_http_limits limits;
    uint32_t at;      /* start of the line being waited for */
    uint32_t scanned; /* bytes already searched for its end */
    bool in_fields;
    bool skipped_line;
    enum ron_http_reason reason; /* of REFUSED */
    struct ron_http_head head;   /* complete with DONE */
};

/* Whether Content-Type is application/json, in any case and with any parameters. */
bool ron_http_is_json(const struct ron_http_head *head);
/* The value of a header, by its name in any case. RON_NOTFOUND; RON_CONFLICT when it stands more
 * than once. */
RON_MUST_USE enum ron_rc ron_http_field_get(const struct ron_http_head *head, const char *name,
                                            struct ron_str *ret_value);
/* Whether text is a token of RFC 9110 (not empty), and whether it can be sent as a field value. */
bool ron_http_is_token(struct ron_str text);
bool ron_http_is_value(struct ron_str text);

/* ---- chunked bodies -------------------------------------------------------------------------- */

/* Incremental, byte by byte where syntax is, by slices where data is. Extensions are checked and
 * ignored, trailer lines are checked by the rules of header lines and ignored; both are capped. */
struct ron_http_chunked {
    uint32_t state;
    uint32_t digits;    /* of the size being read */
    uint64_t left;      /* bytes of data that this chunk still has */
    uint64_t total;     /* data delivered and announced so far */
    uint64_t body_max;  /* more is BODY_LARGE, decided by the announced size */
    uint32_t ext_bytes; /* of all chunks */
    uint32_t trailer_bytes;
    enum ron_http_reason reason;
};

/* ---- targets --------------------------------------------------------------------------------- */

/* Whether `target` is one in origin form ("/path?query"): characters of RFC 3986, whole escapes.
 * Splits it at the first '?'; both parts stay encoded, and the query has ptr NULL without one. */
bool ron_http_split_target(struct ron_str target, struct ron_str *ret_path,
                           struct ron_str *ret_query);

/* Decodes %XX into out; never longer than the input. plus_is_space for query values. RON_INVALID
 * for a broken escape or a decoded control character (NUL included); RON_LIMIT when it does not fit
 * `size`. */
RON_MUST_USE enum ron_rc ron_http_percent_decode(struct ron_str in, bool plus_is_space, char *out,
                                                 size_t size, size_t *ret_len);

/* Walks name=value pairs of a query; both still encoded. False at the end. Empty pairs ("a&&b") are
 * skipped. */
bool ron_http_query_next(struct ron_str *rest, struct ron_str *ret_name, struct ron_str *ret_value);

/* The decoded value of one query parameter in `out`. RON_NOTFOUND; RON_CONFLICT when it stands
 * twice; RON_INVALID, RON_LIMIT as above. Names are compared as sent: ours need no escape. */
RON_MUST_USE enum ron_rc ron_http_query_get(struct ron_str query, const char *name, char *out,
                                            size_t size, struct ron_str *ret_value);

/* Decimal digits only, no sign, no overflow. */
RON_MUST_USE enum ron_rc ron_http_parse_u64(struct ron_str text, uint64_t *ret_value);
