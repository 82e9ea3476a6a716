/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/fresh_update.h - what changes in the store after an answer: the fields that are kept
 * of it, a 304 merged into them, and what an unsafe request invalidates (RFC 9111 3.1, 3.2, 4.3.4,
 * 4.4).
 *
 * Complements edg_fresh. Pure.
 *
 * Rules:
 *   U1. Kept are fields that go beyond one hop (hop.h) and are not withheld by private="..." or
 *       no-cache="...". Age is kept because edg_life_read needs it; the sender of the answer
 *       replaces it by edg_life_age_s and keeps its Date.
 *   U2. A 304 replaces every field that it has, all lines of it, but for those that describe the
 *       stored bytes: Content-Length, Content-Encoding, Content-Range, Content-MD5, Digest,
 *       Content-Digest, Repr-Digest, and ETag. We ask with exactly one tag, so a 304 speaks of what
 *       is stored; if it names another tag, that one is of bytes that we do not have.
 *       Age and Date are never left from before: a 304 without Date is as old as its arrival.
 *   U3. Only an answer of 200 to 399 to an unsafe method invalidates; the target, and Location and
 *       Content-Location where they are on the same host.
 *
 * Threads: any. Ownership: results borrow their input. */
#pragma once

#include "edge/rules/fields.h"

/* The fields of an answer that are stored. RON_LIMIT: more than `max`. */
RON_MUST_USE enum ron_rc edg_update_keep(struct edg_fields response, struct ron_http_field *out,
                                         size_t max, size_t *ret_count);
/* The stored fields after a 304. */
RON_MUST_USE enum ron_rc edg_update_merge(struct edg_fields stored, struct edg_fields fresh,
                                          struct ron_http_field *out, size_t max,
                                          size_t *ret_count);

/* Whether an answer of this status to this method makes stored ones of its URI unusable. */
bool edg_invalidates(enum ron_http_method method, int status);

enum { EDG_LOCATION_MAX = 4096 }; /* the longest target that is served */

/* Where a reference in Location or Content-Location points. */
struct edg_base {
    struct ron_str host;   /* of the request, as sent */
    struct ron_str origin; /* authority of the origin's URL; may be empty */
    struct ron_str target; /* of the request: path and query */
};

/* The path and query that a reference means, resolved by RFC 3986 5.2 and without a fragment.
 * RON_DENIED: on another host or by another scheme than http and https. RON_INVALID: no URI.
 * RON_LIMIT: longer than `size`. */
RON_MUST_USE enum ron_rc edg_location(const struct edg_base *base, struct ron_str reference,
                                      char *out, size_t size, struct ron_str *ret_target);
