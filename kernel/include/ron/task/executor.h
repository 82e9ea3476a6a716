/* SPDX-License-Identifier: Apache-2.0 */
/* executor.h - workers, one thread per core, each with a poller, a timer wheel and a run queue.
 *
 * A task that becomes runnable because of something done on a worker runs next on that same worker,
 * so a chain of stages costs no wake-up. From another thread it goes to the worker it ran on last.
 * A sleeping worker is woken only for a task of its own, or to take over a backlog of at least two
 * from a busy one.
 *
 * The executor knows nothing of restarts; the supervisor starts and ends tasks on it. */
#pragma once

#include "ron/base/env.h"
#include "ron/chan/registry.h"

enum { RON_WORKERS_MAX = 64 };

struct ron_exec;

struct ron_exec_opts {
    const struct ron_env *env;
    struct ron_registry *registry;
    uint32_t workers; /* 1..RON_WORKERS_MAX; ron_cpu_count() of io gives one per core */
};

/* Threads run when it returns. RON_INVALID for too many workers, RON_LIMIT, RON_NOMEM, RON_IO. */
RON_MUST_USE enum ron_rc ron_exec_new(const struct ron_exec_opts *opts, struct ron_exec **ret_exec,
                                      struct ron_err *err);
/* All tasks must have ended, or been given up as leaked. Joins the workers; false when one is stuck
 * in a handler and had to be left behind with its memory. Blocking point. */
bool ron_exec_free(struct ron_exec *exec);
uint32_t ron_exec_workers(const struct ron_exec *exec);

/* The worker that runs the caller looks for work until this time (monotonic ns) before it sleeps.
 * For who knows that something comes soon and that one sleep and wake-up cost more than the wait:
 * the worker is busy meanwhile. A worker that finds that others need its core gives it up and does
 * not do so for a while; on a machine with one core, and outside of workers, this does nothing. */
void ron_worker_stay_awake(uint64_t until_ns);

/* A poller without descriptors, on ron_park alone: for the model, and for programs that only
 * compute. */
extern const struct ron_poller_ops ron_poller_park;
