/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor.h - spawns, watches, restarts, drains and joins every task.
 *
 * States, and no other edge:
 *
 *     Running --stop request, signal, fatal escalation--> Draining --all ended--> Stopped Draining
 *     --deadline--> Aborting --> Stopped
 *
 * Drain: readiness falls first; intake tasks are told and confirm; then the stages in rising order
 * have their inputs closed and are waited for; last the intake tasks end. What has not ended at the
 * deadline is aborted: its waits return RON_CANCELLED and it is counted in tasks_aborted_total; the
 * stages after it are still drained, in the grace time. What does not end even then cannot be
 * joined: tasks_leaked_total.
 *
 * Exit codes of ron_sup_run: 0 drained, 2 something was aborted or messages were left, 3 an
 * essential task kept failing.
 *
 * Threads: ron_sup_run runs on the calling thread, which becomes the supervisor. Requests and the
 * health snapshot may be used from any thread; the snapshot takes no lock. */
#pragma once

#include "ron/task/executor.h"
#include "ron/task/task.h"

enum ron_sup_state {
    RON_SUP_NEW,
    RON_SUP_RUNNING,
    RON_SUP_DRAINING,
    RON_SUP_ABORTING,
    RON_SUP_STOPPED
};
const char *ron_sup_state_name(enum ron_sup_state s);

enum {
    RON_SUP_TASKS_MAX = 512, /* five services need less than a hundred */
    RON_SUP_KINDS_MAX = 32,
    RON_DRAIN_DEADLINE_MIN_MS = 1000,
    RON_DRAIN_DEADLINE_MAX_MS = 5000,
    RON_DRAIN_DEADLINE_DEFAULT_MS = 3000,
    RON_ABORT_GRACE_MS = 500, /* for cancelled waits to unwind */
    RON_EXIT_DRAINED = 0,
    RON_EXIT_ABORTED = 2,
    RON_EXIT_FATAL = 3,
};

/* X(NAME, "text", "what happened") */
#define RON_SUP_EVENTS(X)                                                                          \
    X(STATE, "state", "the supervisor entered a state")                                            \
    X(STARTED, "started", "a task was started")                                                    \
    X(ENDED, "ended", "a task ended well")                                                         \
    X(FAILED, "failed", "a task failed")                                                           \
    X(RESTARTING, "restarting", "a failed task will be started again after delay_ms")              \
    X(ESCALATED, "escalated", "a task failed too often and stays down")                            \
    X(STUCK, "stuck", "a handler has run longer than its watchdog allows")                         \
    X(ABORTED, "aborted", "a task still lived at the drain deadline")                              \
    X(LEAKED, "leaked", "an aborted task did not end and could not be joined")                     \
    X(LEFT, "left", "delay_ms messages stayed in the input of a task that was not there")

enum ron_sup_event_kind {
#define X(name, text, doc) RON_SUP_EVENT_##name,
    RON_SUP_EVENTS(X)
#undef X
        RON_SUP_EVENT_COUNT
};
const char *ron_sup_event_name(enum ron_sup_event_kind kind);

struct ron_sup_event {
    enum ron_sup_event_kind kind;
    enum ron_sup_state state;
    const char *task; /* NULL for STATE */
    const char *task_kind;
    enum ron_rc rc;
    uint64_t delay_ms;
    const char *message; /* text left by the task, or "" */
};

struct ron_sup_opts {
    const struct ron_env *env;
    struct ron_registry *registry;
    struct ron_exec *exec;
    uint32_t drain_deadline_ms; /* 0 = 3000; otherwise 1000..5000 */
    /* Called on the supervisor's thread with no lock held; for logs. May be NULL. */
    void (*on_event)(void *arg, const struct ron_sup_event *event);
    void *on_event_arg;
};

struct ron_sup;

RON_MUST_USE enum ron_rc ron_sup_new(const struct ron_sup_opts *opts, struct ron_sup **ret_sup,
                                     struct ron_err *err);
void ron_sup_free(struct ron_sup *sup); /* after ron_sup_run, or without having run */

/* Before ron_sup_run. The task is owned by the supervisor; the definition is copied, its texts are
 * not. RON_INVALID names what is wrong, RON_EXISTS, RON_LIMIT. */
RON_MUST_USE enum ron_rc ron_sup_add(struct ron_sup *sup, const struct ron_task_def *def,
                                     struct ron_task **ret_task, struct ron_err *err);

/* Starts everything, supervises, drains, joins. Returns the exit code. */
int ron_sup_run(struct ron_sup *sup);

/* From any thread; a second request changes nothing. */
void ron_sup_request_stop(struct ron_sup *sup);

/* The `shutdown` watch: a value of enum ron_sup_state. */
struct ron_watch *ron_sup_shutdown(struct ron_sup *sup);

/* ---- looking: no locks ----------------------------------------------------------------------- */

struct ron_health {
    enum ron_sup_state state;
    bool ready;    /* running and nothing escalated */
    bool degraded; /* a task is down or waiting to be restarted */
    bool healthy;  /* false only when an essential task escalated */
    uint32_t tasks_down;
};
void ron_sup_health(const struct ron_sup *sup, struct ron_health *ret_health);
/* Names of tasks that are down, at most `max`; returns how many there are. */
size_t ron_sup_causes(const struct ron_sup *sup, const char **names, size_t max);

struct ron_kind_stats {
    const char *kind;
    uint64_t spawned; /* starts, restarts included */
    uint64_t aborted;
    uint64_t canceled; /* waits ended by a cancel */
};
size_t ron_sup_kinds(const struct ron_sup *sup, struct ron_kind_stats *rows, size_t max);
uint64_t ron_sup_leaked(const struct ron_sup *sup);
