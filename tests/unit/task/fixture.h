/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - what the tests of task/ share: a supervisor on a thread of its own, and its events.
 *
 * Place: tests of task/ only. The test thread drives; callbacks run on workers and task threads, so
 * they record what they see and the test thread judges (cmocka must not be called elsewhere).
 *
 * Waiting: every wait is for an event and has a deadline of FX_WAIT_MS, which only a failing test
 * ever reaches. Time: fx_open uses the real clock; fx_open_virtual one that moves only by
 * fx_advance_ms, so that a curve of minutes is tested exactly and at once. */
#pragma once

#include "support/support.h"

#include <errno.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ron/io/linux_env.h"
#include "ron/task/supervisor.h"
#include "sync/sync_testing.h"
#include "task/sup_priv.h"
#include "task/task_testing.h"

enum {
    FX_WAIT_MS = 40000, /* slow machines and sanitizers included, below the limit of a test */
    FX_LOG_MAX = 1024,
    FX_TEXT = 48,
};

static inline struct ron_deadline fx_deadline(void)
{
    return ron_deadline_after_ms(ron_mono_ns(), FX_WAIT_MS);
}

/* ---- a counter that can be waited for -------------------------------------------------------- */

struct fx_gate {
    struct ron_mutex mu;
    struct ron_cond changed;
    uint64_t count; /* guarded by mu */
};

static inline void fx_gate_init(struct fx_gate *g)
{
    ron_mutex_init(&g->mu, RON_RANK_LEAF, "gate");
    ron_cond_init(&g->changed);
    g->count = 0;
}

static inline void fx_gate_done(struct fx_gate *g)
{
    ron_cond_done(&g->changed);
    ron_mutex_done(&g->mu);
}

/* From any thread, workers included: it never waits. */
static inline void fx_gate_add(struct fx_gate *g, uint64_t n)
{
    ron_mutex_lock(&g->mu);
    g->count += n;
    ron_cond_broadcast(&g->changed);
    ron_mutex_unlock(&g->mu);
}

static inline uint64_t fx_gate_count(struct fx_gate *g)
{
    ron_mutex_lock(&g->mu);
    uint64_t count = g->count;
    ron_mutex_unlock(&g->mu);
    return count;
}

/* True when the count is reached in time; from any thread that may block. */
static inline bool fx_gate_reached(struct fx_gate *g, uint64_t at_least)
{
    struct ron_deadline deadline = fx_deadline();
    bool in_time = true;

    ron_mutex_lock(&g->mu);
    while (g->count < at_least && in_time) {
        in_time = ron_cond_wait_until(&g->changed, &g->mu, deadline);
    }
    in_time = g->count >= at_least;
    ron_mutex_unlock(&g->mu);
    return in_time;
}

/* Waits until `cond` holds; for states that nobody announces. */
#define fx_until(cond)                                                                             \
    do {                                                                                           \
        struct ron_deadline fx_until_ = fx_deadline();                                             \
        while (!(cond)) {                                                                          \
            if (ron_deadline_expired(fx_until_, ron_mono_ns())) {                                  \
                fail_msg("never came true: %s", #cond);                                            \
            }                                                                                      \
            (void)sched_yield();                                                                   \
        }                                                                                          \
    } while (0)

/* ---- the fixture ----------------------------------------------------------------------------- */

struct fx_event {
    enum ron_sup_event_kind kind;
    enum ron_sup_state state;
    char task[FX_TEXT];
    char task_kind[FX_TEXT];
    enum ron_rc rc;
    uint64_t delay_ms;
    char message[RON_ERR_MSG_SIZE];
    struct ron_health health; /* as a probe saw it at that moment */
};

struct fx {
    struct ron_env env;
    struct ron_registry *reg;
    struct ron_exec *exec;
    struct ron_sup *sup;
    struct ron_thread *runner;
    struct ron_au64 clock_ns;    /* of fx_open_virtual */
    struct ron_aptr supervisor;  /* its thread, once it runs */
    struct ron_stat clock_reads; /* by that thread */
    struct ron_rand rand;        /* of fx_open_virtual; drawn by the supervisor's thread only */
    struct ron_au32 exit_code;
    uint32_t threads_before;
    struct fx_gate ended;
    struct fx_gate logged; /* its lock guards the log too */
    size_t count;
    struct fx_event log[FX_LOG_MAX];
    /* Called on the supervisor's thread after the event was logged. */
    void (*hook)(struct fx *fx, const struct ron_sup_event *event);
    void *arg; /* of the test */
};

static inline void fx_on_event(void *arg, const struct ron_sup_event *event)
{
    struct fx *fx = arg;
    struct ron_health health;

    ron_sup_health(fx->sup, &health);
    ron_mutex_lock(&fx->logged.mu);
    if (fx->count < FX_LOG_MAX) {
        struct fx_event *e = &fx->log[fx->count++];

        e->kind = event->kind;
        e->state = event->state;
        e->rc = event->rc;
        e->delay_ms = event->delay_ms;
        e->health = health;
        (void)snprintf(e->task, sizeof e->task, "%s", event->task != NULL ? event->task : "");
        (void)snprintf(e->task_kind, sizeof e->task_kind, "%s",
                       event->task_kind != NULL ? event->task_kind : "");
        (void)snprintf(e->message, sizeof e->message, "%s", event->message);
    }
    ron_mutex_unlock(&fx->logged.mu);
    fx_gate_add(&fx->logged, 1);
    if (fx->hook != NULL) {
        fx->hook(fx, event);
    }
}

static inline struct fx *fx_open_with(struct fx *fx, uint32_t workers, uint32_t drain_deadline_ms)
{
    struct ron_err err = {0};

    fx->threads_before = ron_threads_live();
    fx_gate_init(&fx->ended);
    fx_gate_init(&fx->logged);
    if (ron_registry_new(&fx->reg, &err) != RON_OK ||
        ron_exec_new(
            &(struct ron_exec_opts){.env = &fx->env, .registry = fx->reg, .workers = workers},
            &fx->exec, &err) != RON_OK ||
        ron_sup_new(&(struct ron_sup_opts){.env = &fx->env,
                                           .registry = fx->reg,
                                           .exec = fx->exec,
                                           .drain_deadline_ms = drain_deadline_ms,
                                           .on_event = fx_on_event,
                                           .on_event_arg = fx},
                    &fx->sup, &err) != RON_OK) {
        (void)fprintf(stderr, "fixture: %s\n", err.msg);
        abort();
    }
    return fx;
}

static inline struct fx *fx_blank(void)
{
    struct fx *fx = calloc(1, sizeof *fx);

    RON_ASSERT(fx != NULL);
    return fx;
}

/* Linux underneath; a drain that takes longer than a second is a failure of the test. */
static inline struct fx *fx_open(uint32_t workers)
{
    struct fx *fx = fx_blank();

    fx->env = *ron_env_linux();
    return fx_open_with(fx, workers, RON_DRAIN_DEADLINE_MAX_MS);
}

static inline struct fx *fx_open_deadline(uint32_t workers, uint32_t drain_deadline_ms)
{
    struct fx *fx = fx_blank();

    fx->env = *ron_env_linux();
    return fx_open_with(fx, workers, drain_deadline_ms);
}

static inline uint64_t fx_virtual_ns(void *ctx)
{
    struct fx *fx = ctx;

    ron_stat_add(&fx->clock_reads, ron_aptr_load(&fx->supervisor) == ron_thread_self());
    return ron_au64_load(&fx->clock_ns);
}

static inline uint64_t fx_seeded_u64(const struct ron_env *env)
{
    return ron_rand_u64(&((struct fx *)env->host)->rand);
}

/* Makes the supervisor look, as at the end of one of its waits. */
static inline void fx_look(struct fx *fx)
{
    ron__sup_notify(fx->sup);
}

static inline void fx_advance_ms(struct fx *fx, uint64_t ms)
{
    (void)ron_au64_add(&fx->clock_ns, ms * RON_NS_PER_MS);
    fx_look(fx);
}

static inline void fx_step_back_ms(struct fx *fx, uint64_t ms)
{
    (void)ron_au64_add(&fx->clock_ns, UINT64_MAX - ms * RON_NS_PER_MS + 1);
    fx_look(fx);
}

/* Where virtual time begins: so far ahead of the real clock, by which threads wait, that no wait of
 * the supervisor ends but by fx_look. */
#define FX_VIRTUAL_EPOCH_NS (10000 * 24 * 3600 * RON_NS_PER_S)

static inline struct fx *fx_open_virtual(uint32_t workers)
{
    struct fx *fx = fx_blank();

    fx->env = *ron_env_linux();
    fx->env.clock = (struct ron_clock){.mono_ns = fx_virtual_ns, .ctx = fx};
    fx->env.rand_u64 = fx_seeded_u64;
    fx->env.poller = &ron_poller_park;
    fx->env.host = fx;
    fx->rand = support_rand();
    ron_au64_store(&fx->clock_ns, FX_VIRTUAL_EPOCH_NS);
    return fx_open_with(fx, workers, 0);
}

static inline struct ron_task *fx_add(struct fx *fx, const struct ron_task_def *def)
{
    struct ron_task *t = NULL;
    struct ron_err err = {0};

    if (ron_sup_add(fx->sup, def, &t, &err) != RON_OK) {
        (void)fprintf(stderr, "fixture: %s\n", err.msg);
        abort();
    }
    return t;
}

static inline void fx_drop_nothing(void *item, void *arg)
{
    (void)item;
    (void)arg;
}

/* Messages are numbers from 1 up. */
static inline struct ron_chan *fx_chan(struct fx *fx, const char *name, uint32_t capacity,
                                       enum ron_chan_policy policy)
{
    struct ron_chan *c = NULL;
    struct ron_err err = {0};

    if (ron_chan_new(&(struct ron_chan_opts){.registry = fx->reg,
                                             .env = ron_env_linux(),
                                             .name = name,
                                             .producers = "test",
                                             .consumers = "test",
                                             .drop_text = "numbers need no care",
                                             .capacity = capacity,
                                             .policy = policy,
                                             .drop = fx_drop_nothing},
                     &c, &err) != RON_OK) {
        (void)fprintf(stderr, "fixture: %s\n", err.msg);
        abort();
    }
    return c;
}

static inline void *fx_item(uint64_t n)
{
    return (void *)(uintptr_t)n;
}

static inline uint64_t fx_number(void *item)
{
    return (uint64_t)(uintptr_t)item;
}

static inline bool fx_send(struct ron_chan *c, uint64_t n)
{
    return ron_chan_try_send(c, fx_item(n), NULL) == RON_OK;
}

static inline void fx_main(void *arg)
{
    struct fx *fx = arg;

    ron_aptr_store(&fx->supervisor, ron_thread_self());
    ron_au32_store(&fx->exit_code, (uint32_t)ron_sup_run(fx->sup));
    fx_gate_add(&fx->ended, 1);
}

/* How often `kind` was logged for `task` (NULL: for any). */
static inline size_t fx_count(struct fx *fx, enum ron_sup_event_kind kind, const char *task)
{
    size_t n = 0;

    ron_mutex_lock(&fx->logged.mu);
    for (size_t i = 0; i < fx->count; i++) {
        const struct fx_event *e = &fx->log[i];
        n += e->kind == kind && (task == NULL || strcmp(e->task, task) == 0);
    }
    ron_mutex_unlock(&fx->logged.mu);
    return n;
}

static inline bool fx_has(struct fx *fx, enum ron_sup_event_kind kind, const char *task, size_t n)
{
    struct ron_deadline deadline = fx_deadline();

    for (;;) {
        uint64_t seen = fx_gate_count(&fx->logged);

        if (fx_count(fx, kind, task) >= n) {
            return true;
        }
        ron_mutex_lock(&fx->logged.mu);
        bool in_time = fx->logged.count != seen ||
                       ron_cond_wait_until(&fx->logged.changed, &fx->logged.mu, deadline);
        ron_mutex_unlock(&fx->logged.mu);
        if (!in_time) {
            return false;
        }
    }
}

static inline void fx_await_at(struct fx *fx, enum ron_sup_event_kind kind, const char *task,
                               size_t n, const char *file, int line)
{
    if (!fx_has(fx, kind, task, n)) {
        print_error("no event '%s' number %zu of %s\n", ron_sup_event_name(kind), n,
                    task != NULL ? task : "any task");
        _fail(file, line);
    }
}

/* Waits for the nth event of a kind for a task (NULL: of any). */
#define fx_await(fx, kind, task, n) fx_await_at((fx), (kind), (task), (n), __FILE__, __LINE__)

/* The first event of a kind for a task, or NULL; only once nothing is logged any more, or for an
 * event that was awaited. */
static inline const struct fx_event *fx_find(struct fx *fx, enum ron_sup_event_kind kind,
                                             const char *task)
{
    const struct fx_event *found = NULL;

    ron_mutex_lock(&fx->logged.mu);
    for (size_t i = 0; i < fx->count && found == NULL; i++) {
        if (fx->log[i].kind == kind && strcmp(fx->log[i].task, task) == 0) {
            found = &fx->log[i];
        }
    }
    ron_mutex_unlock(&fx->logged.mu);
    return found;
}

/* Runs the supervisor on a thread of its own. */
static inline void fx_start(struct fx *fx)
{
    enum ron_rc rc = ron_thread_start(
        &(struct ron_thread_opts){
            .name = "supervisor", .may_block = true, .main = fx_main, .arg = fx},
        &fx->runner, NULL);

    RON_ASSERT(rc == RON_OK);
}

/* Waits for the end and gives the exit code; -1 when it does not come. */
static inline int fx_join(struct fx *fx)
{
    if (!fx_gate_reached(&fx->ended, 1)) {
        return -1;
    }
    ron_thread_join(fx->runner);
    return (int)ron_au32_load(&fx->exit_code);
}

static inline int fx_stop(struct fx *fx)
{
    ron_sup_request_stop(fx->sup);
    return fx_join(fx);
}

/* Frees everything. True when nothing leaked: no task, no thread, no registry entry. */
static inline bool fx_close(struct fx *fx)
{
    bool clean = ron_sup_leaked(fx->sup) == 0;

    ron_sup_free(fx->sup);
    clean = ron_exec_free(fx->exec) && clean;
    clean = clean && ron_registry_count(fx->reg) == 0 && ron_threads_live() == fx->threads_before;
    if (clean) {
        ron_registry_free(fx->reg);
        fx_gate_done(&fx->ended);
        fx_gate_done(&fx->logged);
        free(fx);
    }
    return clean;
}

/* Lets the supervisor look at everything some more times, in virtual time. */
#define fx_more_looks(fx)                                                                          \
    do {                                                                                           \
        uint64_t fx_reads_ = ron_stat_get(&(fx)->clock_reads);                                     \
        fx_until((fx_look(fx), ron_stat_get(&(fx)->clock_reads) > fx_reads_ + 10));                \
    } while (0)

static inline uint32_t fx_sleepers(struct fx *fx)
{
    return ron_au32_load(&fx->exec->sleepers);
}

static inline struct ron_exec_stats fx_stats(struct fx *fx)
{
    struct ron_exec_stats stats;

    ron_exec_get_stats(fx->exec, &stats);
    return stats;
}

static inline struct ron_task_stats fx_task_stats(const struct ron_task *t)
{
    struct ron_task_stats stats;

    ron_task_get_stats(t, &stats);
    return stats;
}

static inline struct ron_health fx_health(struct fx *fx)
{
    struct ron_health health;

    ron_sup_health(fx->sup, &health);
    return health;
}

/* Counters of one kind of task; all zero when there is none. */
static inline struct ron_kind_stats fx_kind(struct fx *fx, const char *kind)
{
    struct ron_kind_stats rows[RON_SUP_KINDS_MAX];
    size_t n = ron_sup_kinds(fx->sup, rows, RON_ARRAY_LEN(rows));

    for (size_t i = 0; i < n; i++) {
        if (strcmp(rows[i].kind, kind) == 0) {
            return rows[i];
        }
    }
    return (struct ron_kind_stats){0};
}

/* ---- what cannot be joined runs in a process of its own -------------------------------------- */

/* Runs body(ret, arg) in a child and brings the `size` bytes at `ret` back. */
static inline void fx_child(void (*body)(void *ret, void *arg), void *arg, void *ret, size_t size)
{
    int fds[2];
    int status = 0;
    size_t got = 0;

    (void)fflush(NULL);
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)alarm(FX_WAIT_MS / 1000);
        body(ret, arg);
        _exit(write(fds[1], ret, size) == (ssize_t)size ? 0 : 1);
    }
    (void)close(fds[1]);
    for (;;) {
        ssize_t n = read(fds[0], (char *)ret + got, size - got);

        if (n <= 0 && !(n < 0 && errno == EINTR)) {
            break;
        }
        got += n > 0 ? (size_t)n : 0;
    }
    (void)close(fds[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (got != size || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail_msg("the child ended with status 0x%x after %zu bytes", (unsigned)status, got);
    }
}
