/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/accept.h - which stored content coding answers a request (RFC 9110 12.5.3).
 *
 * Complements ron_http_select. Pure.
 *
 * Rules: the coding with the highest weight among those that exist; of equals the one that is named
 * first in the table below. A request without Accept-Encoding gets identity, because a client that
 * says nothing may not decode anything. Nothing acceptable is identity too, never 406: bytes that a
 * client can always read serve it better than an error. An element that is malformed, its weight
 * included, is passed over.
 *
 * Threads: any. */
#pragma once

#include "edge/rules/fields.h"

/* X(NAME, "token"), best first: smaller bytes, then cheaper to decode. */
#define EDG_ACCEPTS(X)                                                                             \
    X(BR, "br")                                                                                    \
    X(ZSTD, "zstd")                                                                                \
    X(GZIP, "gzip")                                                                                \
    X(IDENTITY, "identity")

enum edg_accept {
#define X(name, token) EDG_ACCEPT_##name,
    EDG_ACCEPTS(X)
#undef X
        EDG_ACCEPT_COUNT
};

static inline uint32_t edg_accept_bit(enum edg_accept coding)
{
    return 1u << (uint32_t)coding;
}

/* "gzip"; of identity "identity", which is never sent. */
const char *edg_accept_token(enum edg_accept coding);
/* A value of Content-Encoding: one known coding, "x-gzip" for gzip. RON_NOTFOUND otherwise. */
RON_MUST_USE enum ron_rc edg_accept_parse(struct ron_str token, enum edg_accept *ret_coding);

/* `available` has the bits of the stored variants. Identity may be the answer though its bit is not
 * set: then the caller decodes one. */
enum edg_accept edg_accept_pick(struct edg_fields request, uint32_t available);
