/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/stage/stage.h - the tasks of the rewarder, as svc.c builds them.
 *
 * Each task has a struct of its own, private to its file, with pointers to the shared parts that it
 * uses. `*ret` is set also when the call fails. It is freed with ron_free after all tasks have
 * stopped; the emitter has its own function for that. */
#pragma once

#include "rewarder/core/payers.h"
#include "rewarder/core/pipes.h"

enum {
    RWD_WORKERS_MAX = 64,
    RWD_READERS = 2,
    RWD_UPLOADERS = 2, /* a snapshot of 2 GiB is mostly waiting for its sender */
};

struct rwd_sched;
struct rwd_workers;
struct rwd_writer;
struct rwd_emitter;
struct rwd_readers;
struct rwd_uploads;
struct rwd_health;

RON_MUST_USE enum ron_rc rwd_sched_add(struct rwd_pipes *p, struct rwd_sched **ret,
                                       struct ron_err *err);
RON_MUST_USE enum ron_rc rwd_workers_add(struct rwd_pipes *p, struct rwd_workers **ret,
                                         struct ron_err *err);
RON_MUST_USE enum ron_rc rwd_writer_add(struct rwd_pipes *p, struct rwd_writer **ret,
                                        struct ron_err *err);
/* Connects to the ledger or the wallet, too. */
RON_MUST_USE enum ron_rc rwd_emitter_add(struct rwd_pipes *p, struct rwd_settle *settle,
                                         struct rwd_emitter **ret, struct ron_err *err);
/* After rwd_settle_disconnect. */
void rwd_emitter_free(struct rwd_emitter *m);
RON_MUST_USE enum ron_rc rwd_readers_add(struct rwd_pipes *p, const struct rwd_settle *settle,
                                         struct rwd_readers **ret, struct ron_err *err);
RON_MUST_USE enum ron_rc rwd_uploads_add(struct rwd_pipes *p, struct rwd_uploads **ret,
                                         struct ron_err *err);
/* The health reporter and the keeper. */
RON_MUST_USE enum ron_rc rwd_health_add(struct rwd_pipes *p, struct rwd_settle *settle,
                                        struct rwd_health **ret, struct ron_err *err);

/* Takes up all runs that the book names and nobody computes. Blocking; scheduler and keeper. */
void rwd_resume(struct rwd_pipes *p);
