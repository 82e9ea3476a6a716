/* SPDX-License-Identifier: Apache-2.0 */
/* edge/origin/origin.h - an origin that may fill the store, and one exchange with it.
 *
 * A client's own headers never reach an origin: the request is the same for every client.
 *
 * Threads: an origin does not change after the start. edg_exchange_run on a worker that may
 * block. */
#pragma once

#include "edge/origin/ledger.h"
#include "edge/origin/pipe.h"
#include "edge/stored/table.h"
#include "ron/app/auth.h"
#include "ron/cas/cas.h"

enum { EDG_ORIGINS_MAX = 32, EDG_URL_MAX = 8192 };
_Static_assert((int)EDG_ORIGINS_MAX <= (int)RON_HTTP_TARGETS_MAX, "each origin is a target");

struct edg_origin {
    const char *name; /* of its section */
    const char *url;  /* without a slash at its end */
    struct ron_http_target *target;
    struct edg_policy policy;
    bool require_etag;
    bool ledger;  /* its paths and their times are those of ledger.h */
    bool entries; /* of a ledger: bundles of entries may be served */
    uint64_t checkpoint_s;
    const struct ron_app_token *token; /* for those; NULL: none */
};

/* Whether this origin is asked for such a target at all. */
bool edg_origin_serves(const struct edg_origin *origin, struct ron_str target);
/* What every request to an origin says; also what stored answers were chosen by. */
struct edg_fields edg_origin_request(void);

/* ---- one exchange ---------------------------------------------------------------------------- */

/* X(NAME, "meaning") */
#define EDG_OUTCOMES(X)                                                                            \
    X(FILLED, "bytes are in the store")                                                            \
    X(SAME, "304: the cached response is still valid")                                             \
    X(ABSENT, "404, 410 or another response below 500 without a usable body")                      \
    X(FAILED, "no response, or a status of 500 or above")                                          \
    X(NOT_ALLOWED, "host, address or redirect not allowed")                                        \
    X(ETAG_INVALID, "no strong entity tag")                                                        \
    X(TOO_LARGE, "larger than the object limit")                                                   \
    X(TIMEOUT, "not in time")                                                                      \
    X(STORE, "cannot write to the content store")                                                  \
    X(MEMORY, "no memory for the request; nothing was sent")

enum edg_outcome {
#define X(name, doc) EDG_OUTCOME_##name,
    EDG_OUTCOMES(X)
#undef X
};

struct edg_fetched {
    enum edg_outcome outcome;
    int status;                   /* 0: no answer */
    struct edg_exchange exchange; /* its response fields live until edg_exchange_done */
    struct ron_b3 id;             /* FILLED */
    uint64_t size;
    struct ron_http_fetch *fetch; /* NULL: it did not start */
    char control[EDG_LEDGER_CONTROL_SIZE];
    struct ron_http_field fields[EDG_STORED_FIELDS_MAX];
    struct ron_err err;
};

struct edg_exchange_opts {
    const struct ron_env *env;
    const struct edg_origin *origin;
    struct ron_str target;          /* path and query, beginning with a slash */
    const struct edg_stored *stale; /* asked for with its validators; NULL: none */
    struct ron_cas *store;
    bool pin;              /* FILLED: the object is pinned once */
    struct edg_pipe *pipe; /* the worker's */
    struct ron_deadline deadline;
};

/* Blocking. `ret` is written in every case, and edg_exchange_done called once afterwards. */
void edg_exchange_run(const struct edg_exchange_opts *opts, struct edg_fetched *ret);
void edg_exchange_done(struct edg_fetched *f);
