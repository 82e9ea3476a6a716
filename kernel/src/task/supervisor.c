/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor.c - starting, watching and restarting tasks. Ending them is in drain.c.
 *
 * Place: top of task/. It runs on one thread (ron_sup_run); tasks report their end under `mu` and
 * unpark it. The supervisor touches nothing of a task while the task is alive, except the request
 * flags.
 *
 * States: New -> Running -> Draining -> {Aborting ->} Stopped; ron__sup_enter_state asserts the
 * edges. Invariants:
 *   I1 every task that was begun is joined exactly once (life DONE) or counted as leaked.
 *   I2 nothing is begun after Running was left.
 *   I3 readiness has fallen before any task is told to drain. */
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "sup_priv.h"
#include "task/task_testing.h"

enum { WATCH_INTERVAL_MS = 500 }; /* a quarter of the default watchdog */

const char *ron_sup_state_name(enum ron_sup_state s)
{
    static const char *const names[] = {"new", "running", "draining", "aborting", "stopped"};

    RON_ASSERT((unsigned)s < RON_ARRAY_LEN(names));
    return names[s];
}

const char *ron_sup_event_name(enum ron_sup_event_kind kind)
{
    static const char *const names[RON_SUP_EVENT_COUNT] = {
#define X(name, text, doc) text,
        RON_SUP_EVENTS(X)
#undef X
    };

    RON_ASSERT((unsigned)kind < RON_SUP_EVENT_COUNT);
    return names[kind];
}

/* ---- small tools ----------------------------------------------------------------------------- */

void ron__sup_emit(struct ron_sup *sup, enum ron_sup_event_kind kind, struct ron_task *t,
                   enum ron_rc rc, uint64_t delay_ms, const char *message)
{
    ron_event(ron_sup_event_name(kind), (uint64_t)-rc, delay_ms);
    ron_no_lock_point("supervisor event");
    if (sup->on_event != NULL) {
        sup->on_event(
            sup->on_event_arg,
            &(struct ron_sup_event){.kind = kind,
                                    .state = (enum ron_sup_state)ron_au32_load(&sup->state),
                                    .task = t != NULL ? t->def.name : NULL,
                                    .task_kind = t != NULL ? t->def.kind : NULL,
                                    .rc = rc,
                                    .delay_ms = delay_ms,
                                    .message = message});
    }
}

void ron__sup_enter_state(struct ron_sup *sup, enum ron_sup_state to)
{
    static const uint8_t edges[] = {
        [RON_SUP_NEW] = 1u << RON_SUP_RUNNING,
        [RON_SUP_RUNNING] = 1u << RON_SUP_DRAINING,
        [RON_SUP_DRAINING] = 1u << RON_SUP_ABORTING | 1u << RON_SUP_STOPPED,
        [RON_SUP_ABORTING] = 1u << RON_SUP_STOPPED,
        [RON_SUP_STOPPED] = 0,
    };
    uint32_t from = ron_au32_load(&sup->state);

    RON_ASSERT_MSG((edges[from] >> to & 1u) != 0, "no edge from %s to %s",
                   ron_sup_state_name((enum ron_sup_state)from), ron_sup_state_name(to));
    ron_au32_store(&sup->state, to);
    ron_watch_set(sup->shutdown, to);
    ron__sup_emit(sup, RON_SUP_EVENT_STATE, NULL, RON_OK, 0, "");
}

enum ron__life ron__sup_life(struct ron_sup *sup, const struct ron_task *t)
{
    enum ron__life life;

    ron_mutex_lock(&sup->mu);
    life = t->life;
    ron_mutex_unlock(&sup->mu);
    return life;
}

void ron__sup_set_life(struct ron_sup *sup, struct ron_task *t, enum ron__life life)
{
    ron_mutex_lock(&sup->mu);
    t->life = life;
    ron_mutex_unlock(&sup->mu);
}

void ron__sup_notify(struct ron_sup *sup)
{
    struct ron_thread *thread = ron_aptr_load(&sup->thread);

    if (thread != NULL) {
        ron_unpark(thread);
    }
}

void ron__sup_task_ended(struct ron_task *t, enum ron_rc rc)
{
    struct ron_sup *sup = t->sup;
    struct ron_thread *supervisor;

    ron_mutex_lock(&sup->mu);
    RON_ASSERT(t->life == RON__LIFE_ALIVE);
    t->life = RON__LIFE_ENDED;
    t->end_rc = rc;
    supervisor = ron_aptr_load(&sup->thread);
    ron_mutex_unlock(&sup->mu);
    /* From here on task and supervisor may be freed; the thread record is for ever. */
    if (supervisor != NULL) {
        ron_unpark(supervisor);
    }
}

struct ron_registry *ron__sup_registry(const struct ron_sup *sup)
{
    return sup->registry;
}

struct ron_exec *ron__sup_exec(const struct ron_sup *sup)
{
    return sup->exec;
}

/* ---- starting and restarting ----------------------------------------------------------------- */

static void begin(struct ron_sup *sup, struct ron_task *t)
{
    struct ron_err err = {0};
    enum ron_rc rc;

    RON_ASSERT(ron_au32_load(&sup->state) == RON_SUP_RUNNING); /* I2 */
    t->started_at_ms = ron__sup_now_ms(sup);
    t->drain_told = false;
    t->watched_reported = false;
    ron_mutex_lock(&sup->mu);
    t->life = RON__LIFE_ALIVE;
    t->end_err = (struct ron_err){0};
    ron_mutex_unlock(&sup->mu);
    ron_au32_store(&t->down, 0);
    ron_stat_bump(&sup->kinds[t->kind_index].spawned, 1);
    ron__sup_emit(sup, RON_SUP_EVENT_STARTED, t, RON_OK, 0, "");
    rc = ron__task_begin(t, &err);
    if (rc != RON_OK) {
        ron_task_set_error(t, &err);
        ron__sup_task_ended(t, rc);
    }
}

/* Failures inside the window, this one included. */
static uint32_t count_failure(struct ron_task *t, uint64_t now_ms)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < t->failure_count; i++) {
        if (now_ms - t->failures_ms[i] < t->def.restart.window_ms) {
            t->failures_ms[kept++] = t->failures_ms[i];
        }
    }
    RON_ASSERT(kept <
               RON_RESTARTS_KEPT); /* restarts_max is below it, and more than that escalates. */
    t->failures_ms[kept++] = now_ms;
    t->failure_count = kept;
    return kept;
}

static uint64_t backoff_ms(struct ron_sup *sup, struct ron_task *t, uint64_t now_ms)
{
    const struct ron_restart_policy *p = &t->def.restart;
    uint64_t delay;
    uint64_t spread;

    if (now_ms - t->started_at_ms >= p->window_ms) {
        t->backoff_step = 0; /* It ran well for a while: a new trouble, not the old one. */
    }
    delay = (uint64_t)p->base_ms << RON_MIN(t->backoff_step, 16u);
    delay = RON_MIN(delay, (uint64_t)p->cap_ms);
    spread = delay * p->spread_pct / 100;
    delay += spread != 0 ? sup->env->rand_u64(sup->env) % (spread + 1) : 0;
    t->backoff_step++;
    return RON_MIN(delay, (uint64_t)p->cap_ms);
}

/* Nobody takes from this input any more: senders must hear that instead of waiting. */
static void close_orphaned_input(struct ron_sup *sup, const struct ron_task *gone)
{
    uint32_t count = ron_au32_load(&sup->task_count);

    if (gone->def.input == NULL) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct ron_task *t = sup->tasks[i];
        if (t != gone && t->def.input == gone->def.input &&
            ron__sup_life(sup, t) != RON__LIFE_DONE) {
            return;
        }
    }
    (void)ron_chan_close(gone->def.input);
}

static void escalate(struct ron_sup *sup, struct ron_task *t, enum ron_rc rc)
{
    ron_au32_store(&t->down, 1);
    ron_au32_store(&sup->escalated_any, 1);
    ron__sup_set_life(sup, t, RON__LIFE_DONE);
    close_orphaned_input(sup, t);
    if (t->def.restart.essential) {
        ron_au32_store(&sup->unhealthy, 1);
        sup->fatal = true;
        ron_au32_store(&sup->stop_requested, 1);
    }
    ron__sup_emit(sup, RON_SUP_EVENT_ESCALATED, t, rc, 0,
                  t->def.restart.essential ? "essential task: the service drains and exits"
                                           : "the service goes on without it, degraded");
}

static void schedule_restart(struct ron_sup *sup, struct ron_task *t, enum ron_rc rc)
{
    uint64_t now_ms = ron__sup_now_ms(sup);
    uint64_t delay;

    if (rc != RON_OK && count_failure(t, now_ms) > t->def.restart.restarts_max) {
        escalate(sup, t, rc);
        return;
    }
    delay = backoff_ms(sup, t, now_ms);
    t->restart_at_ms = now_ms + delay;
    ron_au32_store(&t->down, 1);
    ron__sup_set_life(sup, t, RON__LIFE_BACKOFF);
    ron__sup_emit(sup, RON_SUP_EVENT_RESTARTING, t, rc, delay, "");
}

/* Settles a task that has told its end. */
static void settle(struct ron_sup *sup, struct ron_task *t)
{
    struct ron_thread *thread = ron_aptr_xchg(&t->thread, NULL);
    bool running = ron_au32_load(&sup->state) == RON_SUP_RUNNING;
    struct ron_err err;
    enum ron_rc rc;
    bool for_good;

    if (thread != NULL) {
        ron_thread_join(thread); /* I1; its last act was to tell its end. */
    }
    ron_mutex_lock(&sup->mu);
    rc = t->end_rc;
    err = t->end_err;
    for_good = t->stop_for_good || !running;
    t->life = RON__LIFE_DONE;
    ron_mutex_unlock(&sup->mu);

    if (rc == RON_CANCELLED) {
        ron_stat_bump(&sup->kinds[t->kind_index].canceled, 1);
    }
    ron__sup_emit(sup,
                  rc == RON_OK || rc == RON_CANCELLED ? RON_SUP_EVENT_ENDED : RON_SUP_EVENT_FAILED,
                  t, rc, 0, err.msg);
    if (for_good) {
        return;
    }
    if (t->def.restart.when == RON_RESTART_ALWAYS ||
        (rc != RON_OK && t->def.restart.when == RON_RESTART_ON_FAILURE)) {
        schedule_restart(sup, t, rc);
    } else if (rc != RON_OK && t->def.restart.essential) {
        escalate(sup, t, rc); /* It is never restarted, and the service cannot do without it. */
    } else if (rc != RON_OK) {
        ron_au32_store(&t->down, 1);
        close_orphaned_input(sup, t);
    }
}

void ron__sup_reap(struct ron_sup *sup)
{
    uint32_t count = ron_au32_load(&sup->task_count);

    for (uint32_t i = 0; i < count; i++) {
        if (ron__sup_life(sup, sup->tasks[i]) == RON__LIFE_ENDED) {
            settle(sup, sup->tasks[i]);
        }
    }
}

static void restart_due(struct ron_sup *sup)
{
    uint32_t count = ron_au32_load(&sup->task_count);

    for (uint32_t i = 0; i < count && ron_au32_load(&sup->stop_requested) == 0; i++) {
        struct ron_task *t = sup->tasks[i];
        if (ron__sup_life(sup, t) == RON__LIFE_BACKOFF &&
            t->restart_at_ms <= ron__sup_now_ms(sup)) {
            ron_stat_bump(&t->restarts, 1);
            begin(sup, t);
        }
    }
}

/* ---- watchdog -------------------------------------------------------------------------------- */

/* A callback that began before the last look and has not ended since is long; no clock is read per
 * call. */
static void watch_task(struct ron_sup *sup, struct ron_task *t, uint64_t now_ms)
{
    uint64_t seq = ron_stat_get(&t->busy);

    if (seq != t->watched_seq || (seq & 1) == 0) {
        t->watched_seq = seq;
        t->watched_since_ms = now_ms;
        t->watched_reported = false;
    } else if (!t->watched_reported && now_ms - t->watched_since_ms >= t->def.watchdog_ms) {
        t->watched_reported = true;
        ron_stat_bump(&t->stuck, 1);
        ron__sup_emit(sup, RON_SUP_EVENT_STUCK, t, RON_TIMEOUT, now_ms - t->watched_since_ms, "");
    }
}

/* Looks at all tasks; returns when to look again. */
static uint64_t next_look_ms(struct ron_sup *sup)
{
    uint64_t now_ms = ron__sup_now_ms(sup);
    uint64_t next_ms = UINT64_MAX;
    uint32_t count = ron_au32_load(&sup->task_count);

    for (uint32_t i = 0; i < count; i++) {
        struct ron_task *t = sup->tasks[i];
        enum ron__life life = ron__sup_life(sup, t);

        if (life == RON__LIFE_ALIVE && t->def.watchdog_ms != RON_WATCHDOG_OFF) {
            watch_task(sup, t, now_ms);
            next_ms = RON_MIN(next_ms, now_ms + WATCH_INTERVAL_MS);
        } else if (life == RON__LIFE_BACKOFF) {
            next_ms = RON_MIN(next_ms, t->restart_at_ms);
        }
    }
    return next_ms;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Consumers before producers, intake last: nobody sends to a task that was never started. */
static void start_all(struct ron_sup *sup)
{
    uint32_t count = ron_au32_load(&sup->task_count);
    uint32_t stage = UINT32_MAX;

    for (;;) {
        uint32_t next = 0;
        bool found = false;
        for (uint32_t i = 0; i < count; i++) {
            struct ron_task *t = sup->tasks[i];
            if (t->def.role != RON_ROLE_STAGE || ron__sup_life(sup, t) != RON__LIFE_NEW) {
                continue;
            }
            if (t->def.stage == stage) {
                begin(sup, t);
            } else if (t->def.stage < stage && t->def.stage >= next) {
                next = t->def.stage;
                found = true;
            }
        }
        if (!found) {
            break;
        }
        stage = next;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (sup->tasks[i]->def.role == RON_ROLE_INTAKE) {
            begin(sup, sup->tasks[i]);
        }
    }
}

static void obey_single_stops(struct ron_sup *sup)
{
    uint32_t count = ron_au32_load(&sup->task_count);

    for (uint32_t i = 0; i < count; i++) {
        struct ron_task *t = sup->tasks[i];
        bool ask;

        ron_mutex_lock(&sup->mu);
        /* Dead or alive: its producers must hear that nobody will take what they send. */
        ask = t->stop_for_good && ron_au32_load(&t->ask_stop) == 0;
        if (t->stop_for_good && t->life == RON__LIFE_BACKOFF) {
            t->life = RON__LIFE_DONE;
            ron_au32_store(&t->down, 0);
        }
        ron_mutex_unlock(&sup->mu);
        if (ask) {
            ron__sup_ask_stop(sup, t);
        }
    }
}

int ron_sup_run(struct ron_sup *sup)
{
    ron_aptr_store(&sup->thread, ron_thread_self());
    ron__sup_enter_state(sup, RON_SUP_RUNNING);
    start_all(sup);
    for (;;) {
        uint64_t next_ms;

        ron__sup_reap(sup);
        if (ron_au32_load(&sup->stop_requested) != 0) {
            break;
        }
        obey_single_stops(sup);
        restart_due(sup);
        next_ms = next_look_ms(sup);
        /* Why the park ended does not matter: everything is looked at. */
        (void)ron_park_until(next_ms == UINT64_MAX ? ron_deadline_never()
                                                   : ron_deadline_after_ms(0, next_ms),
                             "supervisor");
    }
    ron__sup_drain(sup);
    ron_aptr_store(&sup->thread, NULL);
    if (sup->fatal) {
        return RON_EXIT_FATAL;
    }
    return sup->aborted || sup->messages_left ? RON_EXIT_ABORTED : RON_EXIT_DRAINED;
}

void ron_sup_request_stop(struct ron_sup *sup)
{
    ron_au32_store(&sup->stop_requested, 1);
    ron__sup_notify(sup);
}

void ron_sup_request_stop_task(struct ron_sup *sup, struct ron_task *t)
{
    ron_mutex_lock(&sup->mu);
    t->stop_for_good = true;
    ron_mutex_unlock(&sup->mu);
    ron__sup_notify(sup);
}

struct ron_watch *ron_sup_shutdown(struct ron_sup *sup)
{
    return sup->shutdown;
}

/* ---- life ------------------------------------------------------------------------------------ */

enum ron_rc ron_sup_new(const struct ron_sup_opts *opts, struct ron_sup **ret_sup,
                        struct ron_err *err)
{
    struct ron_sup *sup;
    uint32_t deadline =
        opts->drain_deadline_ms != 0 ? opts->drain_deadline_ms : RON_DRAIN_DEADLINE_DEFAULT_MS;
    enum ron_rc rc;

    RON_ASSERT(opts->env != NULL && opts->registry != NULL && opts->exec != NULL);
    if (deadline < RON_DRAIN_DEADLINE_MIN_MS || deadline > RON_DRAIN_DEADLINE_MAX_MS) {
        return ron_err_set(err, RON_INVALID, "drain_deadline %u ms is outside %d..%d ms", deadline,
                           (int)RON_DRAIN_DEADLINE_MIN_MS, (int)RON_DRAIN_DEADLINE_MAX_MS);
    }
    sup = ron_alloc_zero(sizeof *sup);
    if (sup == NULL) {
        return ron_err_set(err, RON_NOMEM, "supervisor: no memory");
    }
    sup->env = opts->env;
    sup->registry = opts->registry;
    sup->exec = opts->exec;
    sup->drain_deadline_ms = deadline;
    sup->on_event = opts->on_event;
    sup->on_event_arg = opts->on_event_arg;
    ron_mutex_init(&sup->mu, RON_RANK_SUPERVISOR, "supervisor");
    rc = ron_watch_new(&(struct ron_watch_opts){.registry = opts->registry,
                                                .name = "shutdown",
                                                .producers = "supervisor",
                                                .consumers = "all tasks",
                                                .value = RON_SUP_NEW},
                       &sup->shutdown, err);
    if (rc != RON_OK) {
        ron_mutex_done(&sup->mu);
        ron_free(sup);
        return rc;
    }
    *ret_sup = sup;
    return RON_OK;
}

void ron_sup_free(struct ron_sup *sup)
{
    uint32_t state;

    if (sup == NULL) {
        return;
    }
    state = ron_au32_load(&sup->state);
    RON_ASSERT(state == RON_SUP_NEW || state == RON_SUP_STOPPED);
    if (sup->left_behind) {
        return; /* A task that could not be joined still uses its memory, and this. */
    }
    for (uint32_t i = 0; i < ron_au32_load(&sup->task_count); i++) {
        ron__task_free(sup->tasks[i]);
    }
    ron_watch_free(sup->shutdown);
    ron_mutex_done(&sup->mu);
    ron_free(sup);
}

static enum ron_rc find_kind(struct ron_sup *sup, const char *name, uint32_t *ret_index,
                             struct ron_err *err)
{
    uint32_t count = ron_au32_load(&sup->kind_count);

    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(sup->kinds[i].name, name) == 0) {
            *ret_index = i;
            return RON_OK;
        }
    }
    if (count == RON_SUP_KINDS_MAX) {
        return ron_err_set(err, RON_LIMIT, "more than %d kinds of tasks", (int)RON_SUP_KINDS_MAX);
    }
    sup->kinds[count].name = name;
    ron_au32_store(&sup->kind_count, count + 1);
    *ret_index = count;
    return RON_OK;
}

enum ron_rc ron_sup_add(struct ron_sup *sup, const struct ron_task_def *def,
                        struct ron_task **ret_task, struct ron_err *err)
{
    uint32_t count = ron_au32_load(&sup->task_count);
    struct ron_task *t = NULL;
    uint32_t kind = 0;
    enum ron_rc rc;

    RON_ASSERT(ron_au32_load(&sup->state) == RON_SUP_NEW);
    if (count == RON_SUP_TASKS_MAX) {
        return ron_err_set(err, RON_LIMIT, "more than %d tasks", (int)RON_SUP_TASKS_MAX);
    }
    RON_TRY(ron__task_new(sup, def, &t, err));
    rc = find_kind(sup, def->kind, &kind, err);
    if (rc != RON_OK) {
        ron__task_free(t);
        return rc;
    }
    t->kind_index = kind;
    for (uint32_t i = 0; t->def.input != NULL && i < count; i++) {
        if (sup->tasks[i]->def.input == t->def.input) {
            /* Members of a pool must not wait for the next message while they handle the last. */
            sup->tasks[i]->rx._pooled = true;
            t->rx._pooled = true;
        }
    }
    sup->tasks[count] = t;
    ron_au32_store(&sup->task_count, count + 1);
    if (ret_task != NULL) {
        *ret_task = t;
    }
    return RON_OK;
}

/* ---- looking --------------------------------------------------------------------------------- */

size_t ron_sup_causes(const struct ron_sup *sup, const char **names, size_t max)
{
    uint32_t count = ron_au32_load(&sup->task_count);
    size_t n = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (ron_au32_load(&sup->tasks[i]->down) != 0) {
            if (n < max) {
                names[n] = sup->tasks[i]->def.name;
            }
            n++;
        }
    }
    return n;
}

void ron_sup_health(const struct ron_sup *sup, struct ron_health *ret_health)
{
    enum ron_sup_state state = (enum ron_sup_state)ron_au32_load(&sup->state);
    uint32_t down = (uint32_t)ron_sup_causes(sup, NULL, 0);
    bool escalated = ron_au32_load(&sup->escalated_any) != 0;

    if (state == RON_SUP_RUNNING && ron_au32_load(&sup->stop_requested) != 0) {
        state = RON_SUP_DRAINING; /* about to be: who is told "not ready" is told why */
    }
    *ret_health = (struct ron_health){
        .state = state,
        .ready = state == RON_SUP_RUNNING && !escalated,
        .degraded = down > 0,
        .healthy = ron_au32_load(&sup->unhealthy) == 0,
        .tasks_down = down,
    };
}

size_t ron_sup_kinds(const struct ron_sup *sup, struct ron_kind_stats *rows, size_t max)
{
    uint32_t count = ron_au32_load(&sup->kind_count);

    for (uint32_t i = 0; i < count && i < max; i++) {
        rows[i] = (struct ron_kind_stats){.kind = sup->kinds[i].name,
                                          .spawned = ron_stat_get(&sup->kinds[i].spawned),
                                          .aborted = ron_stat_get(&sup->kinds[i].aborted),
                                          .canceled = ron_stat_get(&sup->kinds[i].canceled)};
    }
    return count;
}

uint64_t ron_sup_leaked(const struct ron_sup *sup)
{
    return ron_stat_get(&sup->leaked);
}
