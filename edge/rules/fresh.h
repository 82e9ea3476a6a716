/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/fresh.h - whether an answer may be stored, and whether a stored one may be used (RFC
 * 9111 3 and 4, RFC 5861); the rules of a shared cache.
 *
 * Place: edge, above edg_cc; the store and the fill ask it and do what it says. Pure: no I/O, no
 * allocation; every moment is a parameter. A stored answer is judged by a struct edg_life that was
 * made when it was stored, so that a hit reads no header of it.
 *
 *      answer --edg_store_judge--> store? --edg_life_read--> life
 *     request --edg_ask_read--> ask;  life + ask + now --edg_use--> verdict
 *   REVALIDATE: conditions of edg_conditions; 304: edg_update_merge, then edg_store_judge and
 *               edg_life_read with the merged fields, the stored status and the new moments;
 *               5xx or no answer: edg_use_on_error; anything else replaces what is stored.
 *
 * Rules, where the RFC leaves a choice:
 *   L1. An invalid or repeated Age makes an answer stale: its age is unknown.
 *   L2. An invalid or repeated Expires is in the past. A missing or invalid Date is the time at
 *       which the answer arrived.
 *   L3. Heuristics (a tenth of the time since Last-Modified, at most `heuristic_max_s`) only for
 *       the statuses of RFC 9110 15.1 or with `public`, and only without explicit freshness.
 *   L4. must-revalidate, proxy-revalidate and no-cache forbid stale answers, whatever else allows
 *       them. s-maxage forbids those that only the configuration or max-stale of a request would
 *       allow; stale-while-revalidate and stale-if-error of the origin itself still apply.
 *   L5. 206, 304, 412 and 416 depend on headers of one request and are never stored.
 *
 * Threads: any. */
#pragma once

#include "edge/rules/cc.h"
#include "edge/rules/status.h"

/* What the configuration of an origin says. Zeros are the strict reading. */
struct edg_policy {
    uint64_t stale_while_revalidate_s; /* for answers that do not say */
    uint64_t stale_if_error_s;         /* likewise */
    uint64_t heuristic_max_s;          /* 0: no heuristics */
    uint64_t negative_ttl_s;           /* 404, 405, 410, 414, 501 without freshness of their own */
};

/* ---- storing --------------------------------------------------------------------------------- */

/* X(NAME, "label"): why an answer is not stored. */
#define EDG_STORE_VERDICTS(X)                                                                      \
    X(OK, "ok")                                                                                    \
    X(METHOD, "method")                                                                            \
    X(STATUS, "status")                                                                            \
    X(NO_STORE, "no_store")                                                                        \
    X(PRIVATE, "private")                                                                          \
    X(AUTHORIZATION, "authorization")                                                              \
    X(VARY, "vary")                                                                                \
    X(USELESS, "useless") /* neither fresh for any time nor able to be validated */

enum edg_storing {
#define X(name, label) EDG_STORE_##name,
    EDG_STORE_VERDICTS(X)
#undef X
        EDG_STORE_COUNT
};
const char *edg_store_label(enum edg_storing verdict);

/* An exchange with an origin. */
struct edg_exchange {
    enum ron_http_method method;
    struct edg_fields request; /* as the client sent it */
    int status;
    struct edg_fields response;
    uint64_t request_ms;  /* unix, when the call began */
    uint64_t response_ms; /* and when the head of its answer was there */
    bool self_located;    /* POST: Content-Location is the target itself (fresh_update.h) */
};

/* GET, and POST whose answer says that it is what a GET would get, and for how long. */
enum edg_storing edg_store_judge(const struct edg_exchange *exchange,
                                 const struct edg_policy *policy);

/* ---- a stored answer ------------------------------------------------------------------------- */

struct edg_life {
    uint64_t response_ms;
    uint64_t initial_age_s; /* corrected, when it came */
    uint64_t lifetime_s;
    uint64_t stale_while_revalidate_s; /* how long past its lifetime; the policy considered */
    uint64_t stale_if_error_s;
    uint64_t max_stale_s; /* what a request may allow at most: 0 where L4 forbids it */
    bool no_cache;        /* never without validation */
    bool heuristic;
    bool validator; /* it has an entity tag or a date to ask with */
};

void edg_life_read(const struct edg_exchange *exchange, const struct edg_policy *policy,
                   struct edg_life *ret_life);

/* Seconds for Age, and what is left of its lifetime (negative: how stale it is). */
uint64_t edg_life_age_s(const struct edg_life *life, uint64_t now_ms);
int64_t edg_life_ttl_s(const struct edg_life *life, uint64_t now_ms);

/* ---- using ----------------------------------------------------------------------------------- */

/* What of a request decides. */
struct edg_ask {
    enum ron_http_method method;
    bool no_cache; /* also by Pragma */
    bool only_if_cached;
    uint64_t max_age_s;   /* EDG_SECONDS_NONE: any */
    uint64_t min_fresh_s; /* 0: none asked for */
    uint64_t max_stale_s; /* 0: none accepted */
    uint64_t stale_if_error_s;
};
void edg_ask_read(enum ron_http_method method, struct edg_fields request, struct edg_ask *ret_ask);

enum edg_verdict {
    EDG_FRESH,      /* from the store */
    EDG_STALE_OK,   /* from the store, though stale; `refresh`: revalidate behind it */
    EDG_REVALIDATE, /* ask the origin, with conditions if there is a validator */
    EDG_MISS,       /* nothing stored, or not for this method */
    EDG_TIMEOUT_504 /* only-if-cached, and nothing that may be used */
};

struct edg_use {
    enum edg_verdict verdict;
    bool refresh;
    enum edg_fwd fwd; /* for Cache-Status; NONE with FRESH and STALE_OK */
    uint64_t age_s;   /* of the stored answer */
    int64_t ttl_s;
};

/* `life` is NULL when nothing is stored. */
void edg_use(const struct edg_life *life, const struct edg_ask *ask, uint64_t now_ms,
             struct edg_use *ret_use);

/* After a revalidation that failed: `status` 500, 502, 503, 504 of the origin, or 0 for no answer.
 * Whether the stored answer may be given instead. */
bool edg_use_on_error(const struct edg_life *life, const struct edg_ask *ask, int status,
                      uint64_t now_ms);

/* ---- validating ------------------------------------------------------------------------------ */

/* The conditions to send, from the fields of the stored answer: its entity tag as it is, else its
 * Last-Modified; both when it has both. Empty slices where there is none. */
struct edg_conditions {
    struct ron_str if_none_match;
    struct ron_str if_modified_since;
};
void edg_conditions(struct edg_fields stored, struct edg_conditions *ret_conditions);
