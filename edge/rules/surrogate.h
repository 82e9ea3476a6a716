/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/surrogate.h - Surrogate-Control: directives of an origin for the caches in front of
 * it, instead of those for all clients (the Edge Architecture Specification of the W3C note; CDNs
 * read it).
 *
 * Place: edge, between an answer and the rules of edg_fresh. Pure.
 *
 * Rules:
 *   O1. With Surrogate-Control, Cache-Control and Expires do not count here; what counts is a
 *       Cache-Control made of its directives. Clients never see the field.
 *   O2. A directive with a parameter is meant for the surrogate of that name; one for us wins over
 *       the same without a name, and those for others are not read.
 *   O3. "max-age=600+60": what is behind the plus allows stale answers, which we do not use.
 *
 * Threads: any. Ownership: the result borrows its input and `room`. */
#pragma once

#include "edge/rules/fields.h"

#define EDG_SURROGATE "Surrogate-Control"

enum { EDG_SURROGATE_MAX = 512 }; /* of the directives that are ours; longer is no-store */

/* The fields by which an answer is judged: as they are, or by O1. RON_LIMIT: more than `max`. */
RON_MUST_USE enum ron_rc edg_surrogate(struct edg_fields response, const char *device,
                                       struct ron_http_field *out, size_t max,
                                       char room[EDG_SURROGATE_MAX], struct edg_fields *ret_fields);
