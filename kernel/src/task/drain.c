/* SPDX-License-Identifier: Apache-2.0 */
/* drain.c - how a supervisor ends its tasks: in order, to a deadline, counted.
 *
 *   1. intake tasks are told to stop taking work; each confirms (or has ended)
 *   2. stage by stage, in rising order: inputs closed, stop asked, ends awaited
 *   3. intake tasks are asked to end, and awaited; then the detached ones are told deadline passed
 *      at a step: what lives of that group is aborted; the later groups are drained in the grace
 *      time (RON_ABORT_GRACE_MS); at the end aborted tasks have the grace time to unwind, what
 *      stays is leaked
 *
 * Invariants:
 *   I1 a stage's input is closed only after every task of the stages before it has ended: nothing
 *      that was accepted is refused by the next stage.
 *   I2 each task is counted as aborted at most once, and as leaked only if it was aborted. */
#include "ron/base/assert.h"
#include "sup_priv.h"

void ron__sup_ask_stop(struct ron_sup *sup, struct ron_task *t)
{
    (void)sup;
    ron_au32_store(&t->ask_stop, 1);
    if (t->stop_watch != NULL) {
        ron_watch_set(t->stop_watch, RON_TASK_STOP);
    }
    if (t->def.input != NULL) {
        (void)ron_chan_close(t->def.input); /* It may be shared by the tasks of a pool. */
    }
    ron_task_wake(t);
}

static bool alive(struct ron_sup *sup, const struct ron_task *t)
{
    enum ron__life life = ron__sup_life(sup, t);

    return life == RON__LIFE_ALIVE || life == RON__LIFE_ENDED;
}

static bool in_group(const struct ron_task *t, enum ron_task_role role, uint32_t stage)
{
    if (t->def.detached_reason != NULL || t->def.role != role) {
        return false;
    }
    return role == RON_ROLE_INTAKE || t->def.stage == stage;
}

/* `for_intake`: only until its intake has stopped. */
static bool must_wait_for(struct ron_sup *sup, const struct ron_task *t, enum ron_task_role role,
                          uint32_t stage, bool for_intake)
{
    return in_group(t, role, stage) && alive(sup, t) &&
           !(for_intake && ron_au32_load(&t->intake_stopped) != 0);
}

static bool group_busy(struct ron_sup *sup, enum ron_task_role role, uint32_t stage,
                       bool for_intake)
{
    uint32_t count = ron_au32_load(&sup->task_count);

    for (uint32_t i = 0; i < count; i++) {
        if (must_wait_for(sup, sup->tasks[i], role, stage, for_intake)) {
            return true;
        }
    }
    return false;
}

static bool wait_group(struct ron_sup *sup, enum ron_task_role role, uint32_t stage,
                       bool for_intake, struct ron_deadline deadline)
{
    for (;;) {
        ron__sup_reap(sup);
        if (!group_busy(sup, role, stage, for_intake)) {
            return true;
        }
        if (ron_deadline_expired(deadline, ron_env_now_ns(sup->env))) {
            return false;
        }
        (void)ron_park_until(deadline, "drain"); /* Looked at again in any case. */
    }
}

static void ask_group(struct ron_sup *sup, enum ron_task_role role, uint32_t stage, bool drain)
{
    uint32_t count = ron_au32_load(&sup->task_count);

    for (uint32_t i = 0; i < count; i++) {
        struct ron_task *t = sup->tasks[i];
        if (!in_group(t, role, stage)) {
            continue;
        }
        if (drain) {
            ron_au32_store(&t->ask_drain, 1);
            ron_task_wake(t);
        } else {
            ron__sup_ask_stop(sup, t);
        }
    }
}

/* The lowest stage above `after` (or the very lowest), false when there is none. */
static bool next_stage(struct ron_sup *sup, bool first, uint32_t after, uint32_t *ret_stage)
{
    uint32_t count = ron_au32_load(&sup->task_count);
    bool found = false;

    for (uint32_t i = 0; i < count; i++) {
        const struct ron_task_def *d = &sup->tasks[i]->def;
        if (d->role == RON_ROLE_STAGE && (first || d->stage > after) &&
            (!found || d->stage < *ret_stage)) {
            *ret_stage = d->stage;
            found = true;
        }
    }
    return found;
}

/* Tasks that wait for a restart will not get one any more. */
static void forget_restarts(struct ron_sup *sup)
{
    uint32_t count = ron_au32_load(&sup->task_count);

    for (uint32_t i = 0; i < count; i++) {
        struct ron_task *t = sup->tasks[i];
        enum ron__life life = ron__sup_life(sup, t);
        if (life == RON__LIFE_BACKOFF || life == RON__LIFE_NEW) {
            ron__sup_set_life(sup, t, RON__LIFE_DONE);
        }
    }
}

static void abort_task(struct ron_sup *sup, struct ron_task *t)
{
    struct ron_thread *thread;

    ron_au32_store(&t->ask_abort, 1);
    ron__sup_ask_stop(sup, t);
    thread = ron_aptr_load(&t->thread);
    if (thread != NULL) {
        ron_thread_cancel(thread);
    }
}

static uint32_t count_alive(struct ron_sup *sup)
{
    uint32_t count = ron_au32_load(&sup->task_count);
    uint32_t n = 0;

    for (uint32_t i = 0; i < count; i++) {
        n += alive(sup, sup->tasks[i]);
    }
    return n;
}

/* Waits until nothing lives, at most until `deadline`. */
static void wait_all(struct ron_sup *sup, struct ron_deadline deadline)
{
    for (;;) {
        ron__sup_reap(sup);
        if (count_alive(sup) == 0 || ron_deadline_expired(deadline, ron_env_now_ns(sup->env))) {
            return;
        }
        (void)ron_park_until(deadline, "abort"); /* Looked at again in any case. */
    }
}

/* The deadline has passed: whoever of the group still lives is aborted and counted. The groups
 * after it are still drained in order, in the grace time, so that a stuck task costs its neighbours
 * as little as possible. */
static void abort_group(struct ron_sup *sup, enum ron_task_role role, uint32_t stage,
                        bool for_intake, struct ron_deadline *deadline)
{
    uint32_t count = ron_au32_load(&sup->task_count);

    if (!sup->aborted) {
        sup->aborted = true;
        ron__sup_enter_state(sup, RON_SUP_ABORTING);
        *deadline = ron_deadline_after_ms(ron_env_now_ns(sup->env), RON_ABORT_GRACE_MS);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct ron_task *t = sup->tasks[i];
        if (must_wait_for(sup, t, role, stage, for_intake) && ron_au32_load(&t->ask_abort) == 0) {
            ron_stat_bump(&sup->kinds[t->kind_index].aborted, 1); /* I2 */
            ron__sup_emit(sup, RON_SUP_EVENT_ABORTED, t, RON_TIMEOUT, 0, "");
            abort_task(sup, t);
        }
    }
}

/* Ends one group: asks, waits, aborts what is left. */
static void end_group(struct ron_sup *sup, enum ron_task_role role, uint32_t stage,
                      struct ron_deadline *deadline)
{
    ask_group(sup, role, stage, false);
    if (!wait_group(sup, role, stage, false, *deadline)) {
        abort_group(sup, role, stage, false, deadline);
    }
}

static void drain_in_order(struct ron_sup *sup, struct ron_deadline deadline)
{
    uint32_t stage = 0;
    bool first = true;

    ask_group(sup, RON_ROLE_INTAKE, 0, true);
    if (!wait_group(sup, RON_ROLE_INTAKE, 0, true, deadline)) {
        abort_group(sup, RON_ROLE_INTAKE, 0, true, &deadline);
    }
    while (next_stage(sup, first, stage, &stage)) {
        first = false;
        end_group(sup, RON_ROLE_STAGE, stage, &deadline); /* I1 */
    }
    end_group(sup, RON_ROLE_INTAKE, 0, &deadline);
}

/* Detached tasks are told. They and the aborted ones have the grace time to unwind, and are then
 * left. */
static void end_leftovers(struct ron_sup *sup)
{
    uint32_t count = ron_au32_load(&sup->task_count);

    for (uint32_t i = 0; i < count; i++) {
        if (sup->tasks[i]->def.detached_reason != NULL && alive(sup, sup->tasks[i])) {
            abort_task(sup, sup->tasks[i]);
        }
    }
    wait_all(sup, ron_deadline_after_ms(ron_env_now_ns(sup->env), RON_ABORT_GRACE_MS));
}

/* What still lives cannot be joined. A detached task was allowed to stay; anything else is a
 * leak. */
static void count_leaks(struct ron_sup *sup)
{
    uint32_t count = ron_au32_load(&sup->task_count);

    ron__sup_reap(sup); /* One may have ended at the last moment. */
    for (uint32_t i = 0; i < count; i++) {
        struct ron_task *t = sup->tasks[i];
        if (!alive(sup, t)) {
            continue;
        }
        sup->left_behind = true;
        if (t->def.detached_reason == NULL) {
            ron_stat_bump(&sup->leaked, 1);
            ron__sup_emit(sup, RON_SUP_EVENT_LEAKED, t, RON_TIMEOUT, 0, "");
        }
    }
}

/* A task that failed, or waited for its restart, may have left accepted messages behind. They are
 * disposed of with their channel; that is no clean drain, and it is said so. */
static void tell_left_messages(struct ron_sup *sup)
{
    uint32_t count = ron_au32_load(&sup->task_count);

    for (uint32_t i = 0; i < count; i++) {
        struct ron_task *t = sup->tasks[i];
        struct ron_chan_stats stats = {0};

        if (t->def.input == NULL || t->left_told) {
            continue;
        }
        ron_chan_get_stats(t->def.input, &stats);
        if (stats.depth == 0) {
            continue;
        }
        sup->messages_left = true;
        ron__sup_emit(sup, RON_SUP_EVENT_LEFT, t, RON_CANCELLED, stats.depth,
                      ron_chan_name(t->def.input));
        for (uint32_t k = i; k < count; k++) { /* Once per channel, not per member of a pool. */
            sup->tasks[k]->left_told |= sup->tasks[k]->def.input == t->def.input;
        }
    }
}

void ron__sup_drain(struct ron_sup *sup)
{
    struct ron_deadline deadline =
        ron_deadline_after_ms(ron_env_now_ns(sup->env), sup->drain_deadline_ms);

    ron__sup_enter_state(sup, RON_SUP_DRAINING);
    forget_restarts(sup);
    drain_in_order(sup, deadline);
    if (count_alive(sup) > 0) {
        end_leftovers(sup);
    }
    count_leaks(sup);
    tell_left_messages(sup);
    ron__sup_enter_state(sup, RON_SUP_STOPPED);
}
