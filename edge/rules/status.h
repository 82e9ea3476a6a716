/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/status.h - Cache-Status (RFC 9211): one member, ours, that says how a request was
 * answered.
 *
 * Place: edge, where an answer is written. An origin's own members stay in their lines before ours.
 *
 * `ron-edge; hit; ttl=30`, `ron-edge; fwd=uri-miss; fwd-status=200; stored`,
 * `ron-edge; fwd=stale; fwd-status=304; collapsed; ttl=60`. Threads: any. */
#pragma once

#include "ron/base/json.h"

/* X(NAME, "token"): why a request went on to the origin (RFC 9211 2.2). */
#define EDG_FWD_REASONS(X)                                                                         \
    X(NONE, "")                                                                                    \
    X(BYPASS, "bypass")                                                                            \
    X(METHOD, "method")                                                                            \
    X(URI_MISS, "uri-miss")                                                                        \
    X(VARY_MISS, "vary-miss")                                                                      \
    X(MISS, "miss")                                                                                \
    X(REQUEST, "request")                                                                          \
    X(STALE, "stale")                                                                              \
    X(PARTIAL, "partial")

enum edg_fwd {
#define X(name, token) EDG_FWD_##name,
    EDG_FWD_REASONS(X)
#undef X
        EDG_FWD_COUNT
};
const char *edg_fwd_token(enum edg_fwd fwd);

enum { EDG_STATUS_MAX = 320 }; /* the longest member, its key and detail included */

struct edg_status {
    enum edg_fwd fwd; /* NONE: answered from the store, which is a hit */
    int fwd_status;   /* 0: no answer of the origin */
    bool has_ttl;
    bool stored;
    bool collapsed;     /* shared the request of another */
    int64_t ttl_s;      /* negative: stale for so long */
    struct ron_str key; /* empty: not told; cut to 128 characters */
    const char *detail; /* NULL: none; a token of ours, such as stale-if-error */
};

/* Appends the member. Characters that no quoted string may hold are written as '?'. RON_LIMIT. */
RON_MUST_USE enum ron_rc edg_status_write(const struct edg_status *status, struct ron_buf *out);
