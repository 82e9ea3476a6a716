/* SPDX-License-Identifier: Apache-2.0 */
/* sup_priv.h - the supervisor's record, shared by supervisor.c (running) and drain.c (ending).
 *
 * Guards: `mu` guards the life, result and error text of every task; the rest is written by the
 * supervisor's thread alone, and read elsewhere only where it is atomic or a counter. The lock is
 * held for a few copies at a time, never while a task, channel or callback is called. */
#pragma once

#include "task_priv.h"

struct ron__kind {
    const char *name;
    struct ron_stat spawned, aborted, canceled;
};

struct ron_sup {
    const struct ron_env *env;
    struct ron_registry *registry;
    struct ron_exec *exec;
    uint32_t drain_deadline_ms;
    void (*on_event)(void *arg, const struct ron_sup_event *event);
    void *on_event_arg;

    struct ron_mutex mu;
    struct ron_aptr thread; /* who to unpark */
    struct ron_au32 state;
    struct ron_au32 stop_requested;
    struct ron_au32 unhealthy;     /* an essential task escalated */
    struct ron_au32 escalated_any; /* some task escalated */
    struct ron_watch *shutdown;

    /* Append-only: entries below the count never change. */
    struct ron_task *tasks[RON_SUP_TASKS_MAX];
    struct ron_au32 task_count;
    struct ron__kind kinds[RON_SUP_KINDS_MAX];
    struct ron_au32 kind_count;
    struct ron_stat leaked;
    struct ron_clock_guard clock;
    bool fatal;
    bool aborted;
    bool messages_left; /* accepted, but nobody was there to handle them */
    bool left_behind;   /* a task still lives and uses this memory */
};

/* Supervisor's thread only. A clock that steps back stands still here, so ages never underflow. */
static inline uint64_t ron__sup_now_ms(struct ron_sup *sup)
{
    return ron_clock_guard_ns(&sup->clock, ron_env_now_ns(sup->env)) / RON_NS_PER_MS;
}

void ron__sup_enter_state(struct ron_sup *sup, enum ron_sup_state to);
void ron__sup_emit(struct ron_sup *sup, enum ron_sup_event_kind kind, struct ron_task *t,
                   enum ron_rc rc, uint64_t delay_ms, const char *message);
enum ron__life ron__sup_life(struct ron_sup *sup, const struct ron_task *t);
void ron__sup_set_life(struct ron_sup *sup, struct ron_task *t, enum ron__life life);
/* Looks at what has ended since the last time and settles it; restarts only while Running. */
void ron__sup_reap(struct ron_sup *sup);
/* Asks one task to end: closes its input, or raises its stop flag. */
void ron__sup_ask_stop(struct ron_sup *sup, struct ron_task *t);

/* drain.c: Draining, perhaps Aborting, then Stopped. */
void ron__sup_drain(struct ron_sup *sup);
