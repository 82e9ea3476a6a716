/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/hop.h - what a gateway passes on: fields of one connection end with it (RFC 9110 7.6).
 *
 * Place: edge, at both sides of the call to an origin. Pure.
 *
 * Dropped on both ways: Connection and every field that it names, Keep-Alive, Proxy-Authenticate,
 * Proxy-Authentication-Info, Proxy-Authorization, Proxy-Connection, TE, Trailer, Transfer-Encoding,
 * Upgrade; and Content-Length, because each side frames its bodies itself.
 * Of a request also: Host, Expect, X-Corr-ID, Traceparent, Request-Timeout and Deadline, which the
 * HTTP client writes itself; Via, to which ours is added; and, for a call that fills the store, the
 * conditions and ranges of this one client (If-Match, If-None-Match, If-Modified-Since,
 * If-Unmodified-Since, If-Range, Range), and Cache-Control and Pragma, which were obeyed here.
 * Of an answer also: X-Corr-ID, which the server writes.
 * Kept is everything else. Forwarded and its kin are neither added nor removed.
 *
 * Threads: any. Ownership: the result borrows its input. */
#pragma once

#include "edge/rules/fields.h"

enum edg_hop {
    EDG_HOP_ANSWER, /* of an origin, to a client or the store */
    EDG_HOP_PASS,   /* a request that goes through as it is */
    EDG_HOP_FILL,   /* a request whose answer may be stored for others */
};

/* Whether this field goes on. */
bool edg_hop_keeps(enum edg_hop way, struct edg_fields fields, struct ron_str name);

/* The fields that go on, in their order. RON_LIMIT: more than `max`. */
RON_MUST_USE enum ron_rc edg_hop_filter(enum edg_hop way, struct edg_fields fields,
                                        struct ron_http_field *out, size_t max, size_t *ret_count);

/* The value of Via for the next hop: what came, then ours. RON_LIMIT. */
RON_MUST_USE enum ron_rc edg_hop_via(struct edg_fields fields, uint32_t minor,
                                     const char *pseudonym, struct ron_buf *out);
/* Whether Via shows that this message has passed `pseudonym` already: a loop. */
bool edg_hop_looped(struct edg_fields fields, const char *pseudonym);
