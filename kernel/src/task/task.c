/* SPDX-License-Identifier: Apache-2.0 */
/* task.c - the life of one task: what is called when, in both modes.
 *
 * Place: between the executor, which decides where a task runs, and the supervisor, which decides
 * whether. Invariants I1-I4 are in task_priv.h. Besides:
 *   I5 `stop` is called exactly once for each `start` that was called, on the same thread or
 *      worker.
 *   I6 no lock is held when a callback returns; checked after each. */
#include <stdio.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "task/task_testing.h"
#include "task_priv.h"

/* ---- waking ---------------------------------------------------------------------------------- */

static void make_runnable(struct ron_task *t)
{
    uint32_t seen = ron_au32_load(&t->run);

    for (;;) {
        switch ((enum ron__run)seen) {
        case RON__IDLE:
            if (ron_au32_cas(&t->run, &seen, RON__QUEUED)) {
                ron__exec_push(t);
                return;
            }
            break;
        case RON__RUNNING:
            if (ron_au32_cas(&t->run, &seen, RON__DIRTY)) {
                return;
            }
            break;
        case RON__QUEUED:
        case RON__DIRTY:
        case RON__ENDED:
            return; /* It will look, or need not look any more. */
        }
    }
}

/* The input channel has something. */
static void on_input(struct ron_waker *w)
{
    make_runnable(RON_CONTAINER_OF(w, struct ron_task, rx_waker));
}

/* Something else that the task waits for has happened. */
static void on_wake(struct ron_waker *w)
{
    ron_task_wake(RON_CONTAINER_OF(w, struct ron_task, waker));
}

void ron_task_wake(struct ron_task *t)
{
    RON_ASSERT(t->magic == RON_TASK_MAGIC);
    if (t->def.mode == RON_TASK_BLOCKING) {
        struct ron_thread *thread = ron_aptr_load(&t->thread);
        if (thread != NULL) {
            ron_unpark(thread);
        }
        return;
    }
    (void)ron_au32_xchg(&t->ask_tick, 1);
    make_runnable(t);
}

struct ron_waker *ron_task_waker(struct ron_task *t)
{
    return &t->waker;
}

static void on_timer(struct ron_timer *timer)
{
    struct ron_task *t = RON_CONTAINER_OF(timer, struct ron_task, timer);

    ron_au32_store(&t->timer_armed, 0);
    ron_task_wake(t);
}

void ron_task_wake_at(struct ron_task *t, uint64_t at_ms)
{
    RON_ASSERT(t->def.mode == RON_TASK_LOOP);
    RON_ASSERT(ron__worker_current() == t->home);
    if (at_ms == UINT64_MAX) {
        (void)ron_wheel_cancel(&t->home->wheel, &t->timer);
        ron_au32_store(&t->timer_armed, 0);
    } else {
        ron_au32_store(&t->timer_armed, 1);
        ron_wheel_arm(&t->home->wheel, &t->timer, at_ms);
    }
}

/* ---- small things for the callbacks ---------------------------------------------------------- */

const char *ron_task_name(const struct ron_task *t)
{
    return t->def.name;
}

struct ron_watch *ron_task_stop_watch(struct ron_task *t)
{
    return t->stop_watch;
}

const struct ron_env *ron_task_env(const struct ron_task *t)
{
    return t->env;
}

bool ron_task_stopping(const struct ron_task *t)
{
    return ron_au32_load(&t->ask_stop) != 0 || ron_au32_load(&t->ask_abort) != 0;
}

void ron_task_intake_stopped(struct ron_task *t)
{
    RON_ASSERT(t->def.role == RON_ROLE_INTAKE);
    ron_au32_store(&t->intake_stopped, 1);
    ron__sup_notify(t->sup);
}

void ron_task_job_failed(struct ron_task *t, const struct ron_err *err)
{
    ron_stat_add(&t->jobs_failed, 1);
    ron_event("task.job_failed", err != NULL ? (uint64_t)-err->rc : 0, 0);
}

void ron_task_set_error(struct ron_task *t, const struct ron_err *err)
{
    t->end_err = *err; /* Handed to the supervisor under its lock when the task ends. */
}

uint64_t ron_task_now_ms(const struct ron_task *t)
{
    return t->home->now_ms;
}

void ron_task_get_stats(const struct ron_task *t, struct ron_task_stats *ret_stats)
{
    *ret_stats = (struct ron_task_stats){.starts = ron_stat_get(&t->starts),
                                         .restarts = ron_stat_get(&t->restarts),
                                         .handled = ron_stat_get(&t->handled),
                                         .jobs_failed = ron_stat_get(&t->jobs_failed),
                                         .stuck = ron_stat_get(&t->stuck)};
}

/* ---- calling the callbacks ------------------------------------------------------------------- */

struct ron__caller ron__task_enter(struct ron_task *t)
{
    struct ron__caller old = {ron_identity_swap(t), ron_ctx_set_task(t->def.name)};

    ron_stat_bump(&t->busy, 1);
    return old;
}

void ron__task_leave(struct ron_task *t, struct ron__caller old, const char *what)
{
    ron_no_lock_point(what); /* I6 */
    ron_stat_bump(&t->busy, 1);
    (void)ron_ctx_set_task(old.name);
    (void)ron_identity_swap(old.identity);
}

static enum ron_rc call_start(struct ron_task *t)
{
    struct ron__caller old = ron__task_enter(t);
    enum ron_rc rc = t->def.start != NULL ? t->def.start(t, t->def.arg) : RON_OK;

    ron__task_leave(t, old, "return of start");
    return rc;
}

static void call_stop(struct ron_task *t)
{
    struct ron__caller old = ron__task_enter(t);

    if (t->def.stop != NULL) {
        t->def.stop(t, t->def.arg);
    }
    ron__task_leave(t, old, "return of stop");
}

static enum ron_rc call_handle(struct ron_task *t, size_t count)
{
    struct ron__caller old = ron__task_enter(t);
    enum ron_rc rc = t->def.handle(t, t->def.arg, t->batch, count);

    ron_stat_bump(&t->handled, count);
    ron__task_leave(t, old, "return of handle");
    return rc;
}

static void call_drain(struct ron_task *t)
{
    struct ron__caller old = ron__task_enter(t);

    t->def.drain(t, t->def.arg);
    ron__task_leave(t, old, "return of drain");
}

/* Whether nothing of its own speaks against the end. */
static bool call_may_stop(struct ron_task *t)
{
    struct ron__caller old;
    bool may;

    if (t->def.may_stop == NULL) {
        return true;
    }
    old = ron__task_enter(t);
    may = t->def.may_stop(t, t->def.arg);
    ron__task_leave(t, old, "return of may_stop");
    return may;
}

/* ---- loop mode ------------------------------------------------------------------------------- */

static enum ron__step end_loop(struct ron_task *t, enum ron_rc rc, enum ron_rc *ret_rc)
{
    if (t->started) {
        call_stop(t); /* I5 */
        t->started = false;
    }
    (void)ron_wheel_cancel(&t->home->wheel, &t->timer);
    ron_au32_store(&t->timer_armed, 0);
    if (t->def.input != NULL) {
        ron_chan_recv_forget(t->def.input, &t->rx);
    }
    *ret_rc = rc;
    return RON__STEP_ENDED;
}

/* Takes a batch, if there is one, and handles it. False when the task is over: *ret_rc says how. */
static bool serve_input(struct ron_task *t, bool *ret_more, enum ron_rc *ret_rc)
{
    size_t count = 0;
    enum ron_rc rc =
        ron_chan_recv_poll(t->def.input, &t->rx, t->batch, t->def.batch_max, &count, ret_more);

    if (rc == RON_AGAIN) {
        return true;
    }
    /* Drained is a good end, unless the task has something under way. What the handler returns is
     * its own, RON_CLOSED of some other channel too. */
    if (rc != RON_OK) {
        *ret_rc = RON_OK;
        return !call_may_stop(t);
    }
    *ret_rc = call_handle(t, count);
    return *ret_rc == RON_OK;
}

enum ron__step ron__task_step(struct ron_task *t, enum ron_rc *ret_rc)
{
    bool tick = ron_au32_xchg(&t->ask_tick, 0) != 0;
    bool more = false;
    enum ron_rc rc;

    if (ron_au32_load(&t->ask_abort) != 0) {
        return end_loop(t, RON_CANCELLED, ret_rc);
    }
    if (!t->started) {
        t->started = true;
        rc = call_start(t);
        if (rc != RON_OK) {
            return end_loop(t, rc, ret_rc);
        }
        tick = tick || t->def.input == NULL;
    }
    if (!t->drain_told && t->def.drain != NULL && ron_au32_load(&t->ask_drain) != 0) {
        t->drain_told = true;
        call_drain(t);
    }
    if (t->def.input != NULL) {
        rc = RON_OK;
        if (!serve_input(t, &more, &rc)) {
            return end_loop(t, rc, ret_rc);
        }
    } else if (ron_au32_load(&t->ask_stop) != 0 && call_may_stop(t)) {
        return end_loop(t, RON_OK, ret_rc);
    }
    if (tick) {
        rc = call_handle(t, 0);
        if (rc != RON_OK) {
            return end_loop(t, rc, ret_rc);
        }
    }
    return more ? RON__STEP_MORE : RON__STEP_IDLE;
}

/* ---- blocking mode --------------------------------------------------------------------------- */

static enum ron_rc blocking_loop(struct ron_task *t)
{
    for (;;) {
        size_t count = 0;
        enum ron_rc rc;

        if (ron_au32_load(&t->ask_abort) != 0) {
            return RON_CANCELLED; /* With a backlog it would never reach a wait that says so. */
        }
        rc = ron_chan_recv_many(t->def.input, t->batch, t->def.batch_max, ron_deadline_never(),
                                &count);

        if (rc == RON_CLOSED) {
            return RON_OK;
        }
        if (rc == RON_OK) {
            rc = call_handle(t, count);
        }
        if (rc != RON_OK) {
            return rc;
        }
    }
}

static enum ron_rc blocking_run(struct ron_task *t)
{
    void *identity = ron_identity_swap(t);
    const char *task = ron_ctx_set_task(t->def.name);
    enum ron_rc rc = t->def.run(t, t->def.arg); /* A body of its own waits often: no watchdog. */

    ron_no_lock_point("return of run");
    (void)ron_ctx_set_task(task);
    (void)ron_identity_swap(identity);
    return rc;
}

void ron__task_blocking_main(void *arg)
{
    struct ron_task *t = arg;
    enum ron_rc rc;

    /* The supervisor stores the same, perhaps later: a waker must find the thread from the
     * start. */
    ron_aptr_store(&t->thread, ron_thread_self());
    rc = call_start(t);

    if (rc == RON_OK) {
        rc = t->def.run != NULL ? blocking_run(t) : blocking_loop(t);
    }
    call_stop(t);
    ron__sup_task_ended(t, rc);
}

/* ---- birth and death ------------------------------------------------------------------------- */

static void fill_row(struct ron_reg_entry *e, struct ron_reg_row *row)
{
    struct ron_task *t = RON_CONTAINER_OF(e, struct ron_task, entry);

    row->state = ron_au32_load(&t->down) != 0 ? "down" : "up";
    ron_reg_row_sample(row, "service_restarts_total", "task", false, ron_stat_get(&t->restarts));
    ron_reg_row_sample(row, "task_starts_total", "task", false, ron_stat_get(&t->starts));
    ron_reg_row_sample(row, "task_handled_total", "task", false, ron_stat_get(&t->handled));
    ron_reg_row_sample(row, "task_jobs_failed_total", "task", false, ron_stat_get(&t->jobs_failed));
    ron_reg_row_sample(row, "task_stuck_total", "task", false, ron_stat_get(&t->stuck));
}

static enum ron_rc check_def(const struct ron_task_def *d, const struct ron_exec *exec,
                             struct ron_err *err)
{
    const char *wrong = NULL;

    if (d->kind == NULL || d->kind[0] == '\0') {
        wrong = "no kind is given";
    } else if ((unsigned)d->mode > RON_TASK_BLOCKING || (unsigned)d->role > RON_ROLE_INTAKE ||
               (unsigned)d->restart.when > RON_RESTART_NEVER) {
        wrong = "mode, role or restart rule is unknown";
    } else if (d->run != NULL &&
               (d->mode != RON_TASK_BLOCKING || d->handle != NULL || d->input != NULL)) {
        wrong = "a run body is for blocking tasks, instead of input and handler";
    } else if (d->run == NULL && d->handle == NULL) {
        wrong = "it has neither handler nor run body";
    } else if (d->mode == RON_TASK_BLOCKING && d->run == NULL && d->input == NULL) {
        wrong = "a blocking task needs an input channel or a run body";
    } else if ((d->role == RON_ROLE_INTAKE) != (d->drain != NULL)) {
        wrong = "a drain callback goes with the intake role, and only with it";
    } else if (d->mode != RON_TASK_LOOP && d->may_stop != NULL) {
        wrong = "may_stop is for tasks on the executor";
    } else if (d->role == RON_ROLE_INTAKE && d->mode != RON_TASK_LOOP) {
        wrong = "an intake task runs on the executor";
    } else if (d->batch_max > RON_TASK_BATCH_MAX) {
        wrong = "batch_max is above 1024";
    } else if (d->mode == RON_TASK_LOOP &&
               (d->worker < RON_WORKER_ANY || d->worker >= (int32_t)ron_exec_workers(exec))) {
        wrong = "there is no such worker";
    } else if (d->restart.restarts_max >= RON_RESTARTS_KEPT) {
        wrong = "restarts_max is above 15";
    } else if (d->detached_reason != NULL && d->detached_reason[0] == '\0') {
        wrong = "a detached task states its reason";
    }
    if (wrong != NULL) {
        return ron_err_set(err, RON_INVALID, "task '%s': %s",
                           d->name != NULL ? d->name : "(unnamed)", wrong);
    }
    return RON_OK;
}

static void set_defaults(struct ron_task_def *d)
{
    struct ron_restart_policy *r = &d->restart;

    d->batch_max = d->batch_max != 0 ? d->batch_max : RON_TASK_BATCH_DEFAULT;
    if (d->watchdog_ms == 0) {
        d->watchdog_ms = d->mode == RON_TASK_LOOP ? 2000 : RON_WATCHDOG_OFF;
    }
    r->base_ms = r->base_ms != 0 ? r->base_ms : 100;
    r->spread_pct = r->spread_pct != 0 ? r->spread_pct : 100;
    r->cap_ms = r->cap_ms != 0 ? r->cap_ms : 5000;
    r->restarts_max = r->restarts_max != 0 ? r->restarts_max : 5;
    r->window_ms = r->window_ms != 0 ? r->window_ms : 60000;
}

static enum ron_rc register_task(struct ron_task *t, struct ron_registry *reg, struct ron_err *err)
{
    static const char *const when[] = {"on failure", "always", "never"};
    static const char *const whens_essential[] = {"on failure, essential", "always, essential",
                                                  "never, essential"};
    const struct ron_task_def *d = &t->def;

    (void)snprintf(t->kind_text, sizeof t->kind_text, "%.30s, %s", d->kind,
                   d->mode == RON_TASK_LOOP ? "loop" : "blocking");
    if (d->detached_reason != NULL) {
        (void)snprintf(t->drain_text, sizeof t->drain_text, "detached: %.36s", d->detached_reason);
    } else if (d->role == RON_ROLE_INTAKE) {
        (void)snprintf(t->drain_text, sizeof t->drain_text, "intake: stops first, ends last");
    } else {
        (void)snprintf(t->drain_text, sizeof t->drain_text, "stage %u", d->stage);
    }
    return ron_registry_add(
        reg, &t->entry, RON_REG_TASK,
        &(struct ron_reg_desc){.name = d->name,
                               .policy = d->restart.essential ? whens_essential[d->restart.when]
                                                              : when[d->restart.when],
                               .producers = "supervisor",
                               .consumers = t->kind_text,
                               .drop = t->drain_text,
                               .capacity = d->batch_max != 0 ? d->batch_max : 1},
        fill_row, err);
}

enum ron_rc ron__task_new(struct ron_sup *sup, const struct ron_task_def *def,
                          struct ron_task **ret_task, struct ron_err *err)
{
    struct ron_task *t = NULL;
    struct ron_registry *reg = ron__sup_registry(sup);
    struct ron_exec *exec = ron__sup_exec(sup);
    enum ron_rc rc;

    RON_TRY(check_def(def, exec, err));
    t = ron_alloc_zero(sizeof *t);
    if (t == NULL) {
        return ron_err_set(err, RON_NOMEM, "task '%s': no memory", def->name);
    }
    t->magic = RON_TASK_MAGIC;
    t->def = *def;
    set_defaults(&t->def);
    t->exec = exec;
    t->sup = sup;
    t->env = exec->env;
    t->waker.wake = on_wake;
    t->rx_waker.wake = on_input;
    ron_wait_node_init(&t->rx, &t->rx_waker);
    ron_timer_init(&t->timer, on_timer);
    ron_au32_store(&t->run, RON__ENDED);
    t->batch = ron_alloc_array(t->def.batch_max, sizeof *t->batch);
    rc = t->batch == NULL ? ron_err_set(err, RON_NOMEM, "task '%s': no memory", def->name) : RON_OK;
    if (rc == RON_OK && def->run != NULL) {
        rc = ron_watch_new(&(struct ron_watch_opts){.registry = reg,
                                                    .name = def->name,
                                                    .producers = "supervisor",
                                                    .consumers = def->name,
                                                    .value = RON_TASK_GO},
                           &t->stop_watch, err);
    }
    if (rc == RON_OK) {
        rc = register_task(t, reg, err);
    }
    if (rc != RON_OK) {
        ron_watch_free(t->stop_watch);
        ron_free(t->batch);
        ron_free(t);
        return rc;
    }
    *ret_task = t;
    return RON_OK;
}

void ron__task_free(struct ron_task *t)
{
    RON_ASSERT(t->magic == RON_TASK_MAGIC);
    ron_registry_remove(ron__sup_registry(t->sup), &t->entry);
    ron_watch_free(t->stop_watch);
    t->magic = 0;
    ron_free(t->batch);
    ron_free(t);
}

enum ron_rc ron__task_begin(struct ron_task *t, struct ron_err *err)
{
    ron_stat_bump(&t->starts, 1);
    if (t->def.mode == RON_TASK_LOOP) {
        uint32_t at = t->def.worker != RON_WORKER_ANY
                          ? (uint32_t)t->def.worker
                          : ron_au32_add(&t->exec->next_home, 1) % t->exec->worker_count;
        t->home = &t->exec->workers[at];
        ron_au32_store(&t->run, RON__QUEUED);
        ron__exec_push(t);
        return RON_OK;
    }
    struct ron_thread *thread = NULL;
    RON_TRY(ron_thread_start(
        &(struct ron_thread_opts){
            .name = t->def.name, .may_block = true, .main = ron__task_blocking_main, .arg = t},
        &thread, err));
    ron_aptr_store(&t->thread, thread);
    return RON_OK;
}
