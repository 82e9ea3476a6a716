/* SPDX-License-Identifier: Apache-2.0 */
/* task.h - a named, supervised unit of state whose handler is called with batches of messages.
 *
 * Two modes:
 *   loop      runs on an executor worker. Its handler never blocks; it is called with up to
 *             batch_max messages of its input channel, or with none when it was woken by
 *             ron_task_wake or its timer. Two calls never overlap, whichever worker makes them.
 *   blocking  has a thread of its own and may block: files, SQL, sync. Either it has an input and a
 *             handler like the above, or a `run` body that ends when its stop watch says so.
 *
 * Life, driven by the supervisor alone: start -> handle* -> stop. `start` builds the state, `stop`
 * tears it down on every way out; neither blocks in a loop task. A task ends well when its input is
 * closed and drained, or, without input, when it is asked to stop; it fails when start, handle or
 * run return an error. A failed task is restarted by its policy. One bad message is not a failed
 * task: dispose of it and return RON_OK.
 *
 * Messages given to `handle` belong to it, whatever it returns.
 *
 * Roles in a drain: an *intake* task is told first (`drain`), stops taking new work, confirms with
 * ron_task_intake_stopped, goes on answering what is under way, and ends last: when it is asked to.
 * A *stage* task has a number; stages are drained in rising order, each only when the ones before
 * it have ended. A loop task with a `may_stop` decides when it has nothing under way any more. */
#pragma once

#include "ron/base/env.h"
#include "ron/base/wheel.h"
#include "ron/chan/chan.h"
#include "ron/chan/watch.h"

struct ron_task;

enum ron_task_mode { RON_TASK_LOOP, RON_TASK_BLOCKING };
enum ron_task_role { RON_ROLE_STAGE, RON_ROLE_INTAKE };

/* When a task that ended is started again. */
enum ron_restart {
    RON_RESTART_ON_FAILURE, /* an error restarts, a good end is final */
    RON_RESTART_ALWAYS,     /* a good end outside a drain restarts too */
    RON_RESTART_NEVER,      /* any end is final; an error leaves the service degraded */
};

/* Delay before restart n (n = 0, 1, ...): base * 2^n, plus up to spread_pct percent of it at
 * random, never more than cap. A task that ran for window_ms without failing starts again at n = 0.
 * More than restarts_max failures inside window_ms escalate. Zero means the default. */
struct ron_restart_policy {
    enum ron_restart when;
    uint32_t base_ms;      /* 100 */
    uint32_t spread_pct;   /* 100 */
    uint32_t cap_ms;       /* 5000 */
    uint32_t restarts_max; /* 5; below RON_RESTARTS_KEPT */
    uint32_t window_ms;    /* 60000 */
    bool essential;        /* escalation is fatal: the service drains and exits with 3 */
};

enum {
    RON_RESTARTS_KEPT = 16,
    RON_TASK_BATCH_MAX = 1024,
    RON_TASK_BATCH_DEFAULT = 64,
    RON_WORKER_ANY = -1
};
#define RON_WATCHDOG_OFF UINT32_MAX

struct ron_task_def {
    const char *name; /* unique; [a-z0-9_.-] */
    const char *kind; /* label of the task metrics: "worker", "listener", ... */
    enum ron_task_mode mode;
    enum ron_task_role role;
    uint32_t stage;         /* drain order of stage tasks */
    int32_t worker;         /* loop: a fixed worker, or RON_WORKER_ANY */
    struct ron_chan *input; /* closed by the supervisor when the stage is drained */
    uint32_t batch_max;     /* 0 = default */
    uint32_t watchdog_ms;   /* a longer callback is reported; 0 = 2000 for loop, off for blocking */
    struct ron_restart_policy restart;
    const char *detached_reason; /* set: not waited for in a drain, and this is why */
    enum ron_rc (*start)(struct ron_task *t, void *arg);
    enum ron_rc (*handle)(struct ron_task *t, void *arg, void **items, size_t count);
    enum ron_rc (*run)(struct ron_task *t, void *arg); /* blocking mode only, instead of handle */
    void (*drain)(struct ron_task *t, void *arg);      /* intake role only */
    /* Loop mode: asked at each wake once it should end (asked to stop, or its input closed and
     * drained). False: it has something under way and goes on until the drain's deadline. */
    bool (*may_stop)(struct ron_task *t, void *arg);
    void (*stop)(struct ron_task *t, void *arg);
    void *arg;
};

/* ---- from anywhere --------------------------------------------------------------------------- */

/* Makes a loop task run soon, with an empty batch if its input has nothing; unparks a blocking
 * task. */
void ron_task_wake(struct ron_task *t);
/* The same as a waker, for a bus, watch, reply slot or second channel that the task polls. */
struct ron_waker *ron_task_waker(struct ron_task *t);
/* Value RON_TASK_GO, then RON_TASK_STOP: what a `run` body waits on beside its work. NULL for
 * others. */
enum { RON_TASK_GO = 0, RON_TASK_STOP = 1 };
struct ron_watch *ron_task_stop_watch(struct ron_task *t);

/* ---- from the task's own callbacks ----------------------------------------------------------- */

bool ron_task_stopping(const struct ron_task *t);
void ron_task_intake_stopped(struct ron_task *t);
/* Text kept for the operator when the callback is about to return an error. */
void ron_task_set_error(struct ron_task *t, const struct ron_err *err);
/* Loop tasks: an empty batch no later than about this time (monotonic ms), replacing the one
 * before. A task with a pending wake time stays on its worker. UINT64_MAX forgets it. */
void ron_task_wake_at(struct ron_task *t, uint64_t at_ms);
/* Loop tasks: time at the start of this round of the worker; cheap. */
uint64_t ron_task_now_ms(const struct ron_task *t);

/* ---- descriptors and timers of a loop task fixed to a worker --------------------------------- */

/* Callbacks run on the task's worker, between its handler calls. */
struct ron_io {
    int fd;
    void (*ready)(struct ron_io *io, uint32_t events);
    struct ron_task *_task;
};
RON_MUST_USE enum ron_rc ron_io_watch(struct ron_task *t, struct ron_io *io, uint32_t events);
/* After it `ready` is not called any more, not even for events already fetched. Before closing the
 * fd. */
void ron_io_forget(struct ron_io *io);
void ron_task_timer_arm(struct ron_task *t, struct ron_timer *timer, uint64_t at_ms);
void ron_task_timer_cancel(struct ron_task *t, struct ron_timer *timer);
