/* SPDX-License-Identifier: Apache-2.0 */
/* edge/fill/fills.h - fills: content of origins that is wanted, under way, or served from the
 * store.
 *
 *     request --stored--> edg_serve_stored
 *        +----miss----> edg_fill_wait --work--> worker-N: ops->run, then all who wait are answered
 *
 * Ownership: a fill belongs to its queue, then to the worker that took it; its waiters belong to
 * it until edg_fill_end.
 * Threads: requests on loops, fills on workers; `mu` guards what both use. Drain stage: 1. */
#pragma once

#include "edge/answer/site.h"
#include "edge/fill/origins.h"
#include "edge/stored/store.h"
#include "ron/obs/health.h"

enum {
    EDG_FILLERS_MAX = 64,
    EDG_LATE_MS = 50,              /* before its deadline a request hears that its fill goes on */
    EDG_WAITERS_MAX = 4096,        /* of one fill; inflight bounds them before */
    EDG_FILLS_MAGIC = 0x65466c73,  /* "eFls" */
    EDG_FILL_MAGIC = 0x6546696c,   /* "eFil" */
    EDG_FILLER_MAGIC = 0x6557726b, /* "eWrk" */
};

struct edg_fills;
struct edg_filler;
struct edg_shared;

/* ---- a fill ---------------------------------------------------------------------------------- */

/* One who waits for a fill. */
struct edg_waiter {
    struct edg_waiter *next;
    struct ron_http_reply *reply;
    const struct ron_http_head *head; /* lives with the reply */
};

/* What is to be filled. */
struct edg_want {
    uint32_t origin;
    struct ron_str target;
    const struct edg_stored *stale; /* to be revalidated; may be NULL */
    struct edg_fields request;      /* of a gateway's client, all of it */
    enum edg_fwd fwd;               /* why, for Cache-Status */
    bool alone;                     /* conditions or a range of one client: it cannot be joined */
    bool shared;                    /* a record of another edge in the bucket is good enough */
};

/* A fill that is wanted, queued or under way: of those that may be joined at most one for a target
 * of an origin. */
struct edg_fill {
    uint32_t magic;
    struct ron_list_node link;  /* linked until its waiters are taken */
    struct edg_want want;       /* a copy, in the same block; with a reference to `stale` */
    bool spoiled;               /* purged or written to meanwhile: not joined, not kept */
    uint8_t tries;              /* workers that failed with it */
    struct ron_trace_from from; /* the request that began it */
    uint32_t waiter_count;
    struct edg_waiter *waiters;
    struct ron_deadline deadline;
    struct ron_http_field fields[]; /* of the request, then its texts and the target */
};

/* ---- what origins register ------------------------------------------------------------------- */

/* How the fills and stored answers of an origin are handled. Live origins (worker.c) and the
 * gateway register theirs; a fill knows neither. */
struct edg_origin_ops {
    /* On a worker; takes the fill. RON_NOMEM: it did not begin, and the fill was handed on. */
    enum ron_rc (*run)(void *arg, struct edg_filler *k, struct edg_fill *take_fill);
    /* Answers from what is stored; takes the object, which is NULL where no bytes are needed. */
    void (*serve)(struct edg_out *out, struct ron_cas_obj *take_obj, const struct edg_extra *extra);
    /* The record was dropped because its bytes are gone: the origin is asked. */
    void (*refill)(void *arg, struct edg_out *out, const struct edg_stored *stored);
    bool verbatim; /* answers of every status are served with their bytes; else only 200 */
    bool late;     /* a request whose time is over before that of its fill is told 202 */
};

enum { EDG_OPS_MAX = EDG_ORIGINS_MAX + 1 }; /* each origin, and one in front of which we are */

/* ---- all of them ----------------------------------------------------------------------------- */

struct edg_fills {
    uint32_t magic;
    struct edg_site *site;
    struct edg_store *store;
    struct edg_origins origins;
    const struct edg_origin_ops *ops[EDG_OPS_MAX];
    void *ops_arg[EDG_OPS_MAX];
    struct edg_shared *shared; /* NULL: there is no bucket */
    struct ron_http_late late; /* the 202 for requests that end before their fill */
    struct ron_chan *work;
    struct edg_filler *fillers;
    char filler_names[EDG_FILLERS_MAX][24];
    struct ron_need *need; /* degraded from a full queue until half of it is free */
    struct ron_mutex mu;   /* guards the list and every fill that is in it */
    struct ron_list list;
};

/* In this order; each returns what the settings or memory do not allow. */
void edg_fills_init(struct edg_fills *fills, struct edg_site *site, struct edg_store *store);
RON_MUST_USE enum ron_rc edg_fills_open(struct edg_fills *fills, struct ron_err *err);
void edg_fills_register(struct edg_fills *fills, uint32_t origin, const struct edg_origin_ops *ops,
                        void *arg);
RON_MUST_USE enum ron_rc edg_fills_add(struct edg_fills *fills, struct ron_err *err);
/* Answers all waiters that are left; then, when nothing uses the origins any more, the rest. */
void edg_fills_stop(struct edg_fills *fills);
void edg_fills_free(struct edg_fills *fills);

/* ---- on loops -------------------------------------------------------------------------------- */

/* GET /edge/assets/o/ORIGIN/PATH. */
void edg_live(struct edg_fills *fills, struct edg_out *out, struct ron_str origin,
              struct ron_str path);
/* The request waits for the fill, which it joins or begins, or is refused. */
void edg_fill_wait(struct edg_fills *fills, struct edg_out *out, const struct edg_want *want);
/* A fill without waiters. Full: the next request tries again. */
void edg_fill_behind(struct edg_fills *fills, const struct edg_want *want);
/* Fills under way of a target are neither joined nor kept from now on. */
void edg_fills_spoil(struct edg_fills *fills, uint32_t origin, struct ron_str target);
/* The same of a path, whatever the host, or with `prefix` of all that begin so. */
void edg_fills_spoil_path(struct edg_fills *fills, uint32_t origin, struct ron_str path,
                          bool prefix);
/* Serves a stored answer, from the loop or by a reader; takes the reference. False: its bytes are
 * gone, and nothing was answered. */
bool edg_serve_stored(struct edg_fills *fills, struct edg_out *out,
                      const struct edg_stored *take_stored, const struct edg_status *status);
/* Asks again for an answer whose bytes are gone; takes the reference. */
void edg_refill(struct edg_fills *fills, struct edg_out *out, const struct edg_stored *take_stored);
/* serve and refill of live origins. */
void edg_live_serve(struct edg_out *out, struct ron_cas_obj *take_obj,
                    const struct edg_extra *extra);
void edg_live_refill(void *arg, struct edg_out *out, const struct edg_stored *stored);

/* ---- on workers ------------------------------------------------------------------------------ */

/* The worker's own. */
struct edg_filler {
    uint32_t magic;
    struct edg_fills *fills;
    struct edg_pipe pipe;
    struct edg_fetched fetched;
    int status; /* of the answer, noted by the sink of a gateway's call; 0: not yet */
};

/* Clears the state of a full queue once half of it is free. */
void edg_fills_calm(struct edg_fills *fills);
bool edg_fill_spoiled(struct edg_fills *fills, const struct edg_fill *f);
/* The fill leaves the list, and its waiters, the first first, are the caller's. */
struct edg_waiter *edg_fill_end(struct edg_fills *fills, struct edg_fill *f);
void edg_fill_free(struct edg_fill *f);
/* The record of an answer, with a reference, or NULL; `like` has what is not of the fields.
 * *ret_keep: whether it has a key by which it can be found again. */
const struct edg_stored *edg_record_make(struct edg_site *site, struct edg_stored like,
                                         struct edg_fields request, struct edg_fields fields,
                                         bool *ret_keep);
