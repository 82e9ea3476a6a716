/* SPDX-License-Identifier: Apache-2.0 */
/* executor.c - the workers: run queues, sleeping, waking, taking over.
 *
 * Place: under the supervisor, above the poller port. Invariants I1-I4 are in task_priv.h.
 *
 * One round of a worker: fire timers, run up to RUNS_PER_ROUND runnable tasks, look for a backlog
 * elsewhere if there were none, then poll for descriptors: without waiting while tasks are
 * runnable, else asleep.
 *
 * Wake-ups cost more than the work they bring, so there are only two reasons to wake a sleeping
 * worker: a task was pushed to it, or another worker has at least BACKLOG tasks that may be taken
 * over. The second is looked at once per round, not once per push. */
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "task/task_testing.h"
#include "task_priv.h"

enum {
    /* Between two looks at the descriptors: a turn of a task takes up to some hundred microseconds,
     * and a request that only has to be refused waits that long. */
    RUNS_PER_ROUND = 4,
    BACKLOG = 2, /* one runnable task is what the worker itself does next */
    STEAL_MAX = 16,
    FIXED_IN_A_ROW = 3, /* then a shared task has its turn */
    /* Between two looks of a worker that stays awake lies a microsecond or two. After a gap like
     * this one the core was taken by others, who are better off without our looking. */
    AWAKE_GAP_NS = 100 * 1000,
    DROWSY_NS = 50 * 1000 * 1000,
};

#if RON_MODEL
/* Fibers share one system thread, so the worker is found by the record of the running fiber. */
static struct {
    struct ron_thread *thread;
    struct ron_worker *worker;
} model_workers[RON_WORKERS_MAX];

static void set_current(struct ron_worker *w)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(model_workers); i++) {
        if (model_workers[i].worker == NULL || model_workers[i].thread == ron_thread_self()) {
            model_workers[i].thread = ron_thread_self();
            model_workers[i].worker = w;
            return;
        }
    }
}

struct ron_worker *ron__worker_current(void)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(model_workers); i++) {
        if (model_workers[i].worker != NULL && model_workers[i].thread == ron_thread_self()) {
            return model_workers[i].worker;
        }
    }
    return NULL;
}
#else
static _Thread_local struct ron_worker *current_worker;

static void set_current(struct ron_worker *w)
{
    current_worker = w;
}

struct ron_worker *ron__worker_current(void)
{
    return current_worker;
}
#endif

/* ---- run queue ------------------------------------------------------------------------------- */

static bool stays(const struct ron_task *t)
{
    return t->def.worker != RON_WORKER_ANY || ron_au32_load(&t->timer_armed) != 0;
}

/* With the lock held. */
static void enqueue(struct ron_worker *w, struct ron_task *t, bool fixed)
{
    if (!fixed) {
        t->home = w; /* I3. One that stays is there, and its descriptors may be reading it. */
    }
    ron_list_push_back(fixed ? &w->fixed : &w->shared, &t->link);
    if (!fixed) {
        w->shared_count++;
        ron_stat_set(&w->shared_hint, w->shared_count);
    }
}

/* With the lock held: NULL when there is none. */
static struct ron_task *dequeue(struct ron_worker *w, bool shared_first)
{
    struct ron_list_node *link = shared_first ? NULL : ron_list_pop_front(&w->fixed);

    if (link == NULL) {
        link = ron_list_pop_front(&w->shared);
        if (link != NULL) {
            w->shared_count--;
            ron_stat_set(&w->shared_hint, w->shared_count);
        } else if (shared_first) {
            link = ron_list_pop_front(&w->fixed);
        }
    }
    return link != NULL ? RON_LIST_ENTRY(link, struct ron_task, link) : NULL;
}

/* With the lock held: true when the caller has to deliver a wake-up after unlocking. */
static bool claim_sleeper(struct ron_worker *w)
{
    if (!w->sleeping) {
        return false;
    }
    w->sleeping = false;
    ron_au32_add(&w->exec->sleepers, UINT32_MAX); /* minus one */
    ron_stat_bump(&w->wakes, 1);
    return true;
}

/* Wakes one sleeping worker to take over from a busy one. */
static void wake_a_sleeper(struct ron_exec *exec)
{
    for (uint32_t i = 0; i < exec->worker_count && ron_au32_load(&exec->sleepers) != 0; i++) {
        struct ron_worker *w = &exec->workers[i];
        bool wake;

        ron_mutex_lock(&w->mu);
        wake = claim_sleeper(w);
        ron_mutex_unlock(&w->mu);
        if (wake) {
            exec->env->poller->wake(w->poller);
            return;
        }
    }
}

void ron__exec_push(struct ron_task *t)
{
    struct ron_worker *me = ron__worker_current();
    bool fixed = stays(t);
    struct ron_worker *w = !fixed && me != NULL && me->exec == t->exec ? me : t->home;
    bool wake;
    bool backlog;

    ron_mutex_lock(&w->mu);
    enqueue(w, t, fixed);
    wake = claim_sleeper(w); /* I4 */
    backlog = w != me && w->shared_count >= BACKLOG;
    ron_mutex_unlock(&w->mu);
    if (wake) {
        w->exec->env->poller->wake(w->poller);
    } else if (backlog && ron_au32_load(&w->exec->sleepers) != 0) {
        wake_a_sleeper(w->exec);
    }
}

/* Takes up to half of the runnable tasks of another worker. */
static bool steal_from(struct ron_worker *w, struct ron_worker *victim)
{
    struct ron_task *got[STEAL_MAX];
    uint32_t n = 0;
    uint32_t want;

    if (victim == w || ron_stat_get(&victim->shared_hint) < BACKLOG) {
        return false;
    }
    ron_mutex_lock(&victim->mu);
    want = RON_MIN((victim->shared_count + 1) / 2, (uint32_t)STEAL_MAX);
    while (n < want) {
        struct ron_list_node *link = ron_list_pop_front(&victim->shared);

        RON_ASSERT(link != NULL); /* shared_count counts the list. */
        got[n] = RON_LIST_ENTRY(link, struct ron_task, link);
        got[n]->home = w; /* I3 */
        n++;
    }
    victim->shared_count -= n;
    ron_stat_set(&victim->shared_hint, victim->shared_count);
    ron_mutex_unlock(&victim->mu);

    ron_mutex_lock(&w->mu);
    for (uint32_t i = 0; i < n; i++) {
        enqueue(w, got[i], false);
    }
    ron_mutex_unlock(&w->mu);
    ron_stat_bump(&w->steals, n);
    return n > 0;
}

static bool steal(struct ron_worker *w)
{
    for (uint32_t i = 1; i < w->exec->worker_count; i++) {
        if (steal_from(w, &w->exec->workers[(w->index + i) % w->exec->worker_count])) {
            return true;
        }
    }
    return false;
}

/* ---- the worker ------------------------------------------------------------------------------ */

static void run_task(struct ron_worker *w, struct ron_task *t)
{
    enum ron_rc rc = RON_OK;
    uint32_t seen = ron_au32_xchg(&t->run, RON__RUNNING);

    RON_ASSERT_MSG(seen == RON__QUEUED, "task '%s' taken in state %u", t->def.name, seen); /* I1 */
    RON_ASSERT(t->home == w);
    ron_stat_bump(&w->runs, 1);
    switch (ron__task_step(t, &rc)) {
    case RON__STEP_ENDED:
        ron_au32_store(&t->run, RON__ENDED);
        ron__sup_task_ended(t, rc);
        return;
    case RON__STEP_MORE:
        (void)ron_au32_xchg(&t->run, RON__QUEUED);
        break;
    case RON__STEP_IDLE:
        seen = RON__RUNNING;
        if (ron_au32_cas(&t->run, &seen, RON__IDLE)) {
            return; /* From here on anybody may have it. */
        }
        RON_ASSERT(seen == RON__DIRTY);
        (void)ron_au32_xchg(&t->run, RON__QUEUED);
        break;
    }
    ron__exec_push(t);
}

static uint32_t run_some(struct ron_worker *w)
{
    uint32_t n = 0;

    while (n < RUNS_PER_ROUND) {
        struct ron_task *t;

        ron_mutex_lock(&w->mu);
        /* Fixed tasks carry the descriptors, so they go first; but one that always has more to do
         * must not starve the others. */
        t = dequeue(w, w->turn++ % (FIXED_IN_A_ROW + 1) == FIXED_IN_A_ROW);
        ron_mutex_unlock(&w->mu);
        if (t == NULL) {
            break;
        }
        run_task(w, t);
        n++;
    }
    return n;
}

void ron_worker_stay_awake(uint64_t until_ns)
{
    struct ron_worker *w = ron__worker_current();

    if (w != NULL && ron_spin_budget() != 0 && until_ns > w->awake_until_ns) {
        w->awake_until_ns = until_ns;
    }
}

/* Whether to look once more instead of sleeping, with nothing to do. */
static bool stays_awake(struct ron_worker *w)
{
    uint64_t now_ns;

    if (w->awake_until_ns == 0) {
        return false;
    }
    now_ns = ron_env_now_ns(w->exec->env);
    if (w->looked_ns != 0 && now_ns - w->looked_ns > AWAKE_GAP_NS) {
        w->drowsy_until_ns = now_ns + DROWSY_NS;
    }
    w->looked_ns = now_ns;
    if (now_ns >= w->awake_until_ns || now_ns < w->drowsy_until_ns) {
        w->awake_until_ns = 0;
        w->looked_ns = 0;
        return false;
    }
    return true;
}

/* Decides under the lock whether to sleep (I4), then polls. */
static void poll_once(struct ron_worker *w)
{
    struct ron_deadline until = {.at_ns = 0};
    const struct ron_poller_ops *ops = w->exec->env->poller;
    bool awake = stays_awake(w);
    uint64_t next_ms;
    bool idle;
    bool sleeping;

    ron_mutex_lock(&w->mu);
    idle = ron_list_empty(&w->fixed) && ron_list_empty(&w->shared);
    sleeping = idle && !awake && ron_au32_load(&w->exec->stopping) == 0;
    if (sleeping) {
        w->sleeping = true;
        ron_au32_add(&w->exec->sleepers, 1);
    }
    ron_mutex_unlock(&w->mu);
    if (sleeping) {
        until = ron_wheel_next_ms(&w->wheel, &next_ms) ? ron_deadline_after_ms(0, next_ms)
                                                       : ron_deadline_never();
        ron_stat_bump(&w->sleeps, 1);
    }
    ron_no_lock_point("poll");
    ron_stat_bump(&w->polls, 1);
    w->ready_count = ops->wait(w->poller, w->ready, RON_ARRAY_LEN(w->ready), until);
    w->now_ms = ron_env_now_ns(w->exec->env) / RON_NS_PER_MS; /* It may have slept for long. */
    if (!idle || w->ready_count > 0) {
        w->looked_ns = 0;
    }
    if (sleeping) {
        ron_mutex_lock(&w->mu);
        if (w->sleeping) {
            w->sleeping = false;
            ron_au32_add(&w->exec->sleepers, UINT32_MAX); /* minus one */
        }
        ron_mutex_unlock(&w->mu);
    }
}

/* The wheel's way to fire: a timer armed by a task runs as that task. */
static void fire_timer(struct ron_timer *timer)
{
    struct ron_task *t = timer->owner;
    struct ron__caller old;

    if (t == NULL) {
        timer->fire(timer);
        return;
    }
    old = ron__task_enter(t);
    timer->fire(timer); /* May free the timer. */
    ron__task_leave(t, old, "return of a timer");
}

static void dispatch(struct ron_worker *w)
{
    for (w->ready_at = 0; w->ready_at < w->ready_count; w->ready_at++) {
        struct ron_io *io = w->ready[w->ready_at].user;

        if (io != NULL) {
            struct ron_task *t = io->_task;
            struct ron__caller old = ron__task_enter(t);

            io->ready(io, w->ready[w->ready_at].events);
            ron__task_leave(t, old, "return of ready");
        }
    }
    w->ready_count = 0;
}

static void worker_main(void *arg)
{
    struct ron_worker *w = arg;
    struct ron_exec *exec = w->exec;

    set_current(w);
    while (ron_au32_load(&exec->stopping) == 0) {
        w->now_ms = ron_env_now_ns(exec->env) / RON_NS_PER_MS;
        (void)ron_wheel_advance(&w->wheel, w->now_ms);
        if (run_some(w) == 0 && steal(w)) {
            continue;
        }
        if (ron_stat_get(&w->shared_hint) >= BACKLOG && ron_au32_load(&exec->sleepers) != 0) {
            wake_a_sleeper(exec);
        }
        poll_once(w);
        dispatch(w);
    }
    set_current(NULL);
}

/* ---- descriptors and timers ------------------------------------------------------------------ */

enum ron_rc ron_io_watch(struct ron_task *t, struct ron_io *io, uint32_t events)
{
    struct ron_worker *w = ron__worker_current();

    RON_ASSERT(t->def.worker != RON_WORKER_ANY);
    RON_ASSERT(w == t->home);
    RON_ASSERT(events != 0);
    io->_task = t;
    return t->env->poller->set(w->poller, io->fd, events, io);
}

void ron_io_forget(struct ron_io *io)
{
    struct ron_worker *w = ron__worker_current();

    if (io->_task == NULL) {
        return;
    }
    RON_ASSERT(w == io->_task->home);
    /* Removal can fail only when the descriptor is already gone; then nothing is reported for it
     * anyway. */
    (void)io->_task->env->poller->set(w->poller, io->fd, 0, NULL);
    for (size_t i = w->ready_at; i < w->ready_count; i++) {
        if (w->ready[i].user == io) {
            w->ready[i].user = NULL;
        }
    }
    io->_task = NULL;
}

void ron_task_timer_arm(struct ron_task *t, struct ron_timer *timer, uint64_t at_ms)
{
    RON_ASSERT(t->def.worker != RON_WORKER_ANY);
    RON_ASSERT(ron__worker_current() == t->home);
    timer->owner = t;
    ron_wheel_arm(&t->home->wheel, timer, at_ms);
}

void ron_task_timer_cancel(struct ron_task *t, struct ron_timer *timer)
{
    RON_ASSERT(ron__worker_current() == t->home);
    (void)ron_wheel_cancel(&t->home->wheel, timer);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void fill_row(struct ron_reg_entry *e, struct ron_reg_row *row)
{
    struct ron_worker *w = RON_CONTAINER_OF(e, struct ron_worker, entry);

    row->state = "up";
    row->depth = ron_stat_get(&w->shared_hint);
    ron_reg_row_sample(row, "worker_runs_total", "worker", false, ron_stat_get(&w->runs));
    ron_reg_row_sample(row, "worker_polls_total", "worker", false, ron_stat_get(&w->polls));
    ron_reg_row_sample(row, "worker_sleeps_total", "worker", false, ron_stat_get(&w->sleeps));
    ron_reg_row_sample(row, "worker_wakeups_total", "worker", false, ron_stat_get(&w->wakes));
    ron_reg_row_sample(row, "worker_steals_total", "worker", false, ron_stat_get(&w->steals));
}

static enum ron_rc worker_open(struct ron_exec *exec, uint32_t index, struct ron_err *err)
{
    struct ron_worker *w = &exec->workers[index];
    enum ron_rc rc;

    w->magic = RON_WORKER_MAGIC;
    w->index = index;
    w->exec = exec;
    (void)snprintf(w->name, sizeof w->name, "loop-%u", index);
    RON_TRY(exec->env->poller->open(exec->env, &w->poller, err));
    ron_mutex_init(&w->mu, RON_RANK_RUNQ, w->name);
    ron_list_init(&w->fixed);
    ron_list_init(&w->shared);
    w->now_ms = ron_env_now_ns(exec->env) / RON_NS_PER_MS;
    ron_wheel_init(&w->wheel, w->now_ms);
    w->wheel.call = fire_timer;
    rc = ron_registry_add(exec->registry, &w->entry, RON_REG_WORKER,
                          &(struct ron_reg_desc){.name = w->name,
                                                 .policy = "runs tasks, never blocks",
                                                 .producers = "executor",
                                                 .consumers = "tasks",
                                                 .drop = "nothing",
                                                 .capacity = RON_SUP_TASKS_MAX},
                          fill_row, err);
    if (rc != RON_OK) {
        ron_mutex_done(&w->mu);
        exec->env->poller->close(w->poller);
        w->magic = 0;
    }
    return rc;
}

static void worker_close(struct ron_worker *w)
{
    ron_registry_remove(w->exec->registry, &w->entry);
    RON_ASSERT(ron_list_empty(&w->fixed));
    RON_ASSERT(ron_list_empty(&w->shared));
    ron_wheel_done(&w->wheel);
    ron_mutex_done(&w->mu);
    w->exec->env->poller->close(w->poller);
    w->magic = 0;
}

/* Tells every started worker to end and joins those that can be joined within the grace time. */
static bool stop_workers(struct ron_exec *exec, struct ron_deadline grace)
{
    bool all = true;

    ron_au32_store(&exec->stopping, 1);
    for (uint32_t i = 0; i < exec->worker_count; i++) {
        if (exec->workers[i].thread != NULL) {
            exec->env->poller->wake(exec->workers[i].poller);
        }
    }
    for (uint32_t i = 0; i < exec->worker_count; i++) {
        struct ron_worker *w = &exec->workers[i];

        while (w->thread != NULL && !ron_thread_try_join(w->thread)) {
            if (ron_deadline_expired(grace, ron_mono_ns())) {
                all = false;
                break;
            }
            /* A look every millisecond: this happens once in the life of a process. */
            (void)ron_park_until(ron_deadline_after_ms(ron_mono_ns(), 1), "worker join");
        }
    }
    return all;
}

enum ron_rc ron_exec_new(const struct ron_exec_opts *opts, struct ron_exec **ret_exec,
                         struct ron_err *err)
{
    struct ron_exec *exec;
    enum ron_rc rc = RON_OK;
    uint32_t opened = 0;

    if (opts->workers == 0 || opts->workers > RON_WORKERS_MAX) {
        return ron_err_set(err, RON_INVALID, "executor: %u workers is outside 1..%d", opts->workers,
                           (int)RON_WORKERS_MAX);
    }
    exec = ron_alloc_zero(sizeof *exec);
    if (exec == NULL) {
        return ron_err_set(err, RON_NOMEM, "executor: no memory");
    }
    exec->env = opts->env;
    exec->registry = opts->registry;
    exec->worker_count = opts->workers;
    exec->workers = ron_alloc_array(opts->workers, sizeof *exec->workers);
    if (exec->workers == NULL) {
        ron_free(exec);
        return ron_err_set(err, RON_NOMEM, "executor: no memory for %u workers", opts->workers);
    }
    while (rc == RON_OK && opened < exec->worker_count) {
        rc = worker_open(exec, opened, err);
        opened += rc == RON_OK;
    }
    for (uint32_t i = 0; rc == RON_OK && i < exec->worker_count; i++) {
        struct ron_worker *w = &exec->workers[i];
        rc = ron_thread_start(
            &(struct ron_thread_opts){
                .name = w->name, .may_block = false, .main = worker_main, .arg = w},
            &w->thread, err);
    }
    if (rc != RON_OK) {
        (void)stop_workers(exec, ron_deadline_never()); /* They have nothing to do yet. */
        for (uint32_t i = 0; i < opened; i++) {
            worker_close(&exec->workers[i]);
        }
        ron_free(exec->workers);
        ron_free(exec);
        return rc;
    }
    *ret_exec = exec;
    return RON_OK;
}

bool ron_exec_free(struct ron_exec *exec)
{
    if (exec == NULL) {
        return true;
    }
    ron_blocking_point("executor free");
    if (!stop_workers(exec, ron_deadline_after_ms(ron_mono_ns(), RON_ABORT_GRACE_MS))) {
        ron_event("exec.leaked", 0, 0);
        return false; /* A stuck worker still uses this memory. */
    }
    for (uint32_t i = 0; i < exec->worker_count; i++) {
        worker_close(&exec->workers[i]);
    }
    ron_free(exec->workers);
    ron_free(exec);
    return true;
}

uint32_t ron_exec_workers(const struct ron_exec *exec)
{
    return exec->worker_count;
}

void ron_exec_get_stats(const struct ron_exec *exec, struct ron_exec_stats *ret_stats)
{
    *ret_stats = (struct ron_exec_stats){0};
    for (uint32_t i = 0; i < exec->worker_count; i++) {
        const struct ron_worker *w = &exec->workers[i];
        ret_stats->runs += ron_stat_get(&w->runs);
        ret_stats->polls += ron_stat_get(&w->polls);
        ret_stats->sleeps += ron_stat_get(&w->sleeps);
        ret_stats->wakes += ron_stat_get(&w->wakes);
        ret_stats->steals += ron_stat_get(&w->steals);
    }
}
