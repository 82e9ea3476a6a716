/* SPDX-License-Identifier: Apache-2.0 */
/* task_priv.h - records of task, worker, executor; shared by the files of task/.
 *
 * Run state of a loop task (`run`), changed only by compare-and-set or exchange:
 *
 *     IDLE --ron_task_wake--> QUEUED --worker takes it--> RUNNING
 *     RUNNING --handler done, nothing new--> IDLE
 *     RUNNING --handler done, more to do--> QUEUED
 *     RUNNING --ron_task_wake--> DIRTY --handler done--> QUEUED
 *     RUNNING or DIRTY --task has ended--> ENDED --supervisor restarts it--> QUEUED
 *
 * Invariants:
 *   I1 a task is linked in a run queue exactly while it is QUEUED (or on its way there).
 *   I2 only the worker that took it touches a RUNNING or DIRTY task; so handler calls never
 *      overlap.
 *   I3 `home` is written only by whoever moved the task to QUEUED, before it is linked, or by a
 *      thief under the victim's lock.
 *   I4 a worker sleeps only if, under its lock, its run queue was empty; a push under the same lock
 *      sees the flag. So no wake-up is lost between check and sleep. */
#pragma once

#include "ron/base/ctx.h"
#include "ron/task/supervisor.h"

enum { RON_TASK_MAGIC = 0x7461736b, RON_WORKER_MAGIC = 0x776f726b };

enum ron__run { RON__IDLE, RON__QUEUED, RON__RUNNING, RON__DIRTY, RON__ENDED };

/* What the supervisor knows of a child. Guarded by the supervisor's lock. */
enum ron__life {
    RON__LIFE_NEW,     /* never started */
    RON__LIFE_ALIVE,   /* started, not yet ended */
    RON__LIFE_ENDED,   /* told its end, not yet looked at by the supervisor */
    RON__LIFE_BACKOFF, /* waits to be restarted */
    RON__LIFE_DONE,    /* final: joined */
};

struct ron_worker;

struct ron_task {
    uint32_t magic;
    struct ron_task_def def; /* immutable */
    struct ron_exec *exec;
    struct ron_sup *sup;
    const struct ron_env *env;
    struct ron_reg_entry entry;
    char kind_text[48]; /* "worker, loop" for the tables */
    char drain_text[48];
    struct ron_waker waker;    /* for the task's own use: an empty batch follows */
    struct ron_waker rx_waker; /* of the input channel: the batch is there */
    void **batch;

    /* Loop mode; rules I1-I4. */
    struct ron_au32 run;
    struct ron_list_node link;
    struct ron_worker *home;
    struct ron_au32 timer_armed; /* set: stays on its worker */
    struct ron_timer timer;      /* on home's wheel */
    struct ron_wait_node rx;
    bool started;
    bool drain_told;

    /* Blocking mode. */
    struct ron_aptr thread; /* written by the supervisor, read by wakers */
    struct ron_watch *stop_watch;

    /* Requests of the supervisor. */
    struct ron_au32 ask_drain;
    struct ron_au32 ask_stop;
    struct ron_au32 ask_abort;
    struct ron_au32 ask_tick;
    struct ron_au32 intake_stopped;

    /* Guarded by the supervisor's lock. */
    enum ron__life life;
    enum ron_rc end_rc;
    struct ron_err end_err;
    bool stop_for_good; /* no restart */
    bool left_told;     /* supervisor's thread only: its input's left-overs are reported */

    /* Supervisor's thread only. */
    uint32_t kind_index;
    uint32_t backoff_step;
    uint64_t started_at_ms;
    uint64_t restart_at_ms;
    uint64_t failures_ms[RON_RESTARTS_KEPT];
    uint32_t failure_count;
    uint64_t watched_seq;
    uint64_t watched_since_ms;
    bool watched_reported;

    struct ron_au32 down; /* for lock-free health: waits for restart, or escalated */
    struct ron_stat busy; /* odd while a callback runs, +1 at its start and end */
    struct ron_stat starts, restarts, handled, jobs_failed, stuck;
};

struct ron_worker {
    uint32_t magic;
    uint32_t index;
    char name[24];
    struct ron_exec *exec;
    struct ron_thread *thread;
    struct ron_poller *poller;
    struct ron_reg_entry entry;

    struct ron_mutex mu;
    struct ron_list fixed;  /* runnable tasks that stay here; guarded by mu */
    struct ron_list shared; /* runnable tasks that may be taken over; guarded by mu */
    uint32_t shared_count;  /* guarded by mu */
    bool sleeping;          /* guarded by mu */

    /* The worker's thread only. */
    struct ron_wheel wheel;
    uint64_t now_ms;
    struct ron_ready ready[128];
    size_t ready_at;
    size_t ready_count;
    uint64_t awake_until_ns;  /* looks instead of sleeping */
    uint64_t drowsy_until_ns; /* but not before this time */
    uint64_t looked_ns;       /* the last look that found nothing; 0: there was work since */
    uint32_t turn;            /* of the run queue, counted on across rounds */

    struct ron_stat shared_hint; /* shared_count for thieves */
    struct ron_stat runs, polls, sleeps, wakes, steals;
};

struct ron_exec {
    const struct ron_env *env;
    struct ron_registry *registry;
    uint32_t worker_count;
    struct ron_au32 stopping;
    struct ron_au32 sleepers; /* hint: workers that sleep */
    struct ron_au32 next_home;
    struct ron_worker *workers;
};

/* ---- task.c ---------------------------------------------------------------------------------- */

/* Around every callback of a task: makes it the one who acts, and runs the watchdog's count.
 * Leaving checks that no lock is held. */
struct ron__caller {
    void *identity;
    const char *name;
};
struct ron__caller ron__task_enter(struct ron_task *t);
void ron__task_leave(struct ron_task *t, struct ron__caller old, const char *what);

enum ron__step { RON__STEP_IDLE, RON__STEP_MORE, RON__STEP_ENDED };
/* One turn of a loop task on its worker. On ENDED `rc` is its result and its stop callback has
 * run. */
enum ron__step ron__task_step(struct ron_task *t, enum ron_rc *ret_rc);
/* Body of a blocking task's thread. */
void ron__task_blocking_main(void *arg);
enum ron_rc ron__task_new(struct ron_sup *sup, const struct ron_task_def *def,
                          struct ron_task **ret_task, struct ron_err *err);
void ron__task_free(struct ron_task *t);
/* Supervisor only: makes the task begin (again). */
enum ron_rc ron__task_begin(struct ron_task *t, struct ron_err *err);

/* ---- executor.c ------------------------------------------------------------------------------ */

/* `t` was just moved to QUEUED by the caller. */
void ron__exec_push(struct ron_task *t);
struct ron_worker *ron__worker_current(void);

/* ---- supervisor.c ---------------------------------------------------------------------------- */

/* Last act of a task's life: after it the caller must not touch the task. */
void ron__sup_task_ended(struct ron_task *t, enum ron_rc rc);
void ron__sup_notify(struct ron_sup *sup);
struct ron_registry *ron__sup_registry(const struct ron_sup *sup);
struct ron_exec *ron__sup_exec(const struct ron_sup *sup);
