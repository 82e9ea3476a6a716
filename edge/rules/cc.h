/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/cc.h - Cache-Control of requests and answers (RFC 9111 5.2, RFC 5861, RFC 8246), and
 * Age, Expires and Pragma.
 *
 * Place: edge, below edg_fresh. Pure.
 *
 * Rules, where the grammar leaves a choice. A doubtful directive is read in the strictest
 * way, so that the cache is never more lenient than the header:
 *   C1. Of a repeated number the stricter one counts: the smaller, of min-fresh the larger.
 *   C2. A number that is none (missing, signed, a fraction, letters) is 0, of min-fresh the most
 *       there is. It may be quoted, though it should not be.
 *   C3. A directive that forbids counts whatever argument it has. One that permits (public,
 *       must-understand, immutable) counts only bare.
 *   C4. no-cache="a, b" and private="a, b" concern these fields alone, which are then never stored
 *       (edg_cc_withheld). Where the list is malformed, or names a field without which the stored
 *       bytes would mean something else, the directive is meant as a whole.
 *   C5. A quoted string that does not end makes the rest unreadable: no-store.
 *   C6. Unknown directives are ignored.
 *   C7. Pragma: no-cache of a request counts when it has no Cache-Control; of an answer never.
 *
 * Threads: any. Ownership: nothing is borrowed. */
#pragma once

#include "edge/rules/fields.h"

/* X(NAME, "directive"). */
#define EDG_CC_FLAGS(X)                                                                            \
    X(NO_STORE, "no-store")                                                                        \
    X(NO_CACHE, "no-cache")                                                                        \
    X(PRIVATE, "private")                                                                          \
    X(PUBLIC, "public")                                                                            \
    X(MUST_REVALIDATE, "must-revalidate")                                                          \
    X(PROXY_REVALIDATE, "proxy-revalidate")                                                        \
    X(MUST_UNDERSTAND, "must-understand")                                                          \
    X(NO_TRANSFORM, "no-transform")                                                                \
    X(IMMUTABLE, "immutable")                                                                      \
    X(ONLY_IF_CACHED, "only-if-cached")

enum edg_cc_flag_index {
#define X(name, text) EDG_CC_##name##_AT,
    EDG_CC_FLAGS(X)
#undef X
        EDG_CC_FLAG_COUNT
};
enum edg_cc_flag {
#define X(name, text) EDG_CC_##name = 1u << EDG_CC_##name##_AT,
    EDG_CC_FLAGS(X)
#undef X
};

/* X(member, "directive"): whole seconds. */
#define EDG_CC_NUMBERS(X)                                                                          \
    X(max_age_s, "max-age")                                                                        \
    X(s_maxage_s, "s-maxage")                                                                      \
    X(stale_while_revalidate_s, "stale-while-revalidate")                                          \
    X(stale_if_error_s, "stale-if-error")                                                          \
    X(max_stale_s, "max-stale")                                                                    \
    X(min_fresh_s, "min-fresh")

struct edg_cc {
    uint32_t flags;                      /* enum edg_cc_flag */
#define X(member, text) uint64_t member; /* EDG_SECONDS_NONE: not there */
    EDG_CC_NUMBERS(X)
#undef X
};

/* max-stale without a number is EDG_SECONDS_MAX: any staleness. */
void edg_cc_request(struct edg_fields request, struct edg_cc *ret_cc);
void edg_cc_response(struct edg_fields response, struct edg_cc *ret_cc);

/* Whether a field of an answer may not be stored: private="..." or no-cache="..." name it. */
bool edg_cc_withheld(struct edg_fields response, struct ron_str name);

/* Age of an answer: 0 without one. RON_INVALID when it is not one whole number in one line: then
 * the age of the answer is unknown. */
RON_MUST_USE enum ron_rc edg_age(struct edg_fields response, uint64_t *ret_age_s);

/* A date field that occurs once and is a valid date. RON_NOTFOUND; RON_INVALID. */
RON_MUST_USE enum ron_rc edg_date(struct edg_fields fields, const char *name, uint64_t now_s,
                                  uint64_t *ret_unix_s);
