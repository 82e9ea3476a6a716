/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/runs.h - the run registry: which runs are under way, how far they are, and the
 * manifests of those that ended lately. In memory; what must survive stands in the book.
 *
 * Rules:
 *   U1. An epoch has at most one live run and one dry run under way.
 *   U2. Whoever asks gets a copy; no pointer into the registry outlives its lock, but a counted
 *       reference to a run under way (struct rwd_live), whose members are atomics and constants.
 *   U3. Bounded: `max` runs; one that ended makes room for a new one, oldest first. When all are
 *       under way, a new one is RON_FULL.
 *   U4. A waiting reply is answered by whoever ends the run, exactly once.
 *
 * Threads: any; one short lock (rank shared), under which nothing is called but memory. */
#pragma once

#include "rewarder/core/error.h"
#include "rewarder/run/run.h"
#include "ron/http/server.h"

enum { RWD_WAITERS_MAX = 64 }; /* replies that wait for one run */

struct rwd_runs;

/* A run under way. Constant but for the progress. */
struct rwd_live {
    char epoch[RWD_EPOCH_MAX + 1];
    struct ron_b3 run_key;
    bool dry;
    uint64_t began_ms;
    struct rwd_progress progress;
    struct ron_au32 _refs;
    uint32_t _waiter_count;
    struct ron_http_reply *_waiters[RWD_WAITERS_MAX];
    /* Set when it ended, under the lock. */
    bool _ended;
    struct rwd_fault _fault;
    char *_manifest;
    size_t _manifest_len;
    struct rwd_live *_next;
};

/* A copy. */
struct rwd_view {
    char epoch[RWD_EPOCH_MAX + 1];
    struct ron_b3 run_key;
    bool ended;
    enum rwd_phase phase;
    uint64_t rows_done;
    uint64_t rows;
    uint64_t began_ms;
    struct rwd_fault fault; /* NONE: it ended well, see the manifest */
};

RON_MUST_USE enum ron_rc rwd_runs_new(uint32_t max, struct rwd_runs **ret_runs,
                                      struct ron_err *err);
void rwd_runs_free(struct rwd_runs *r);

/* A new run under way, with a reference for the caller. RON_EXISTS: the same is under way;
 * RON_CONFLICT: another run of the epoch is; RON_FULL; RON_NOMEM. */
RON_MUST_USE enum ron_rc rwd_runs_begin(struct rwd_runs *r, struct ron_str epoch,
                                        const struct ron_b3 *run_key, bool dry, uint64_t now_ms,
                                        struct rwd_live **ret_live);
/* The end: with its manifest (copied), or with a fault. Returns how many replies waited; they are
 * the caller's to answer. Takes the caller's reference. */
size_t rwd_runs_end(struct rwd_runs *r, struct rwd_live *take_live, const struct rwd_fault *fault,
                    struct ron_str manifest, struct ron_http_reply *ret_waiters[RWD_WAITERS_MAX]);
/* Takes back what was begun: nothing happened. */
void rwd_runs_undo(struct rwd_runs *r, struct rwd_live *take_live);

/* A copy of the run; its manifest is appended to `manifest` (may be NULL) when it ended well.
 * RON_NOTFOUND. */
RON_MUST_USE enum ron_rc rwd_runs_get(struct rwd_runs *r, struct ron_str epoch, bool dry,
                                      struct rwd_view *ret_view, struct ron_buf *manifest);
/* Lets the reply wait for the end of the run under way with this key. RON_NOTFOUND: there is none;
 * RON_FULL: too many wait. */
RON_MUST_USE enum ron_rc rwd_runs_wait(struct rwd_runs *r, struct ron_str epoch,
                                       const struct ron_b3 *run_key, bool dry,
                                       struct ron_http_reply *reply);
/* Forgets what is known of an epoch that is not under way: it was released or retired. */
void rwd_runs_forget(struct rwd_runs *r, struct ron_str epoch);
/* Copies of the runs under way, for events; returns how many of at most `max`. */
size_t rwd_runs_under_way(struct rwd_runs *r, struct rwd_view *ret_views, size_t max);
/* Tells all runs under way to stop: the drain's deadline. */
void rwd_runs_cancel(struct rwd_runs *r);
