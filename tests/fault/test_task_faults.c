/* SPDX-License-Identifier: Apache-2.0 */
/* test_task_faults.c - task/ when memory and system calls fail.
 *
 * Goal: each allocation and each system call of making an executor, a supervisor, tasks and the
 * signal thread may fail, alone or with all later ones; the caller gets a clean code, nothing
 * leaks, no thread stays. A thread that cannot be started while running is a failed task: it is
 * restarted, or escalates when it never can be. Method: the fault sweep of support/. Workers poll
 * while a case runs, so the faults are confined to the thread of the case; what the workers meet is
 * failed by a test of its own. */
#include "unit/task/fixture.h"

#include "ron/task/signals.h"
#include "sync/sync_testing.h"

/* ---- faults on the thread of the case only --------------------------------------------------- */

static _Thread_local bool sweeping;
static bool (*sweep_hook)(enum ron_fault_kind kind, const char *site);

static bool here_only(enum ron_fault_kind kind, const char *site)
{
    return sweeping && sweep_hook(kind, site);
}

/* Before the first thread of a case, and after its last. */
static void confine(void)
{
    sweeping = true;
    sweep_hook = ron_fault_hook;
    ron_fault_hook = sweep_hook != NULL ? here_only : NULL;
}

static void release(void)
{
    ron_fault_hook = sweep_hook;
    sweeping = false;
}

/* ---- the case: one service, taken as far as it comes ----------------------------------------- */

enum how_far { TO_EXEC, TO_SUP, TO_TASKS, TO_SIGNALS, TO_THE_END };

struct service {
    struct ron_env env;
    struct ron_registry *reg;
    struct ron_exec *exec;
    struct ron_sup *sup;
    struct ron_chan *in;
    struct ron_signals *signals;
    struct ron_task *writer;
    struct ron_au32 written;
    struct ron_au32 failed_starts;
    enum ron_rc last_failure;
};

enum { MESSAGES = 10 };

static uint64_t plain_u64(const struct ron_env *env)
{
    (void)env;
    return 4; /* getrandom is swept with io */
}

static enum ron_rc tick_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)arg;
    (void)items;
    (void)count;
    return RON_OK;
}

static void tick_drain(struct ron_task *t, void *arg)
{
    (void)arg;
    ron_task_intake_stopped(t);
}

static enum ron_rc run_until_stop(struct ron_task *t, void *arg)
{
    uint64_t seen = 0;
    uint64_t value = ron_watch_get(ron_task_stop_watch(t), &seen);

    (void)arg;
    while (value != RON_TASK_STOP) {
        RON_TRY(ron_watch_wait(ron_task_stop_watch(t), seen, ron_deadline_never(), &value, &seen));
    }
    return RON_OK;
}

static enum ron_rc write_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct service *s = arg;

    (void)t;
    (void)items;
    if (ron_au32_add(&s->written, (uint32_t)count) + count == MESSAGES) {
        ron_sup_request_stop(s->sup);
    }
    return RON_OK;
}

static void on_event(void *arg, const struct ron_sup_event *event)
{
    struct service *s = arg;

    if (event->kind == RON_SUP_EVENT_FAILED) {
        (void)ron_au32_add(&s->failed_starts, 1);
        s->last_failure = event->rc;
        RON_ASSERT(strstr(event->message, "could not be started") != NULL);
    }
}

static enum ron_rc add_tasks(struct service *s, struct ron_err *err)
{
    const struct ron_restart_policy quick = {.base_ms = 1, .cap_ms = 1, .essential = true};

    RON_TRY(ron_chan_new(&(struct ron_chan_opts){.registry = s->reg,
                                                 .name = "in",
                                                 .producers = "test",
                                                 .consumers = "writer",
                                                 .drop_text = "numbers need no care",
                                                 .capacity = MESSAGES,
                                                 .policy = RON_CHAN_REJECT,
                                                 .drop = fx_drop_nothing},
                         &s->in, err));
    RON_TRY(ron_sup_add(s->sup,
                        &(struct ron_task_def){.name = "intake",
                                               .kind = "listener",
                                               .role = RON_ROLE_INTAKE,
                                               .handle = tick_handle,
                                               .drain = tick_drain},
                        NULL, err));
    RON_TRY(ron_sup_add(s->sup,
                        &(struct ron_task_def){.name = "body",
                                               .kind = "body",
                                               .mode = RON_TASK_BLOCKING,
                                               .restart = quick,
                                               .run = run_until_stop},
                        NULL, err));
    return ron_sup_add(s->sup,
                       &(struct ron_task_def){.name = "writer",
                                              .kind = "writer",
                                              .mode = RON_TASK_BLOCKING,
                                              .input = s->in,
                                              .restart = quick,
                                              .handle = write_handle,
                                              .arg = s},
                       &s->writer, err);
}

static enum ron_rc run_to_the_end(struct service *s)
{
    int code;

    for (uint64_t i = 1; i <= MESSAGES; i++) {
        enum ron_rc rc = ron_chan_try_send(s->in, fx_item(i), NULL);
        RON_ASSERT(rc == RON_OK);
    }
    code = ron_sup_run(s->sup);
    RON_ASSERT(ron_sup_leaked(s->sup) == 0);
    if (code == RON_EXIT_FATAL) {
        RON_ASSERT(ron_au32_load(&s->failed_starts) > 5);
        return s->last_failure;
    }
    RON_ASSERT(code == RON_EXIT_DRAINED);
    RON_ASSERT(ron_au32_load(&s->written) == MESSAGES); /* in spite of a failed start */
    return RON_OK;
}

static enum ron_rc go_as_far_as(struct service *s, enum how_far how_far)
{
    struct ron_err err = {0};

    s->env = *ron_env_linux();
    s->env.rand_u64 = plain_u64;
    RON_TRY(ron_registry_new(&s->reg, &err));
    RON_TRY(ron_exec_new(&(struct ron_exec_opts){.env = &s->env, .registry = s->reg, .workers = 2},
                         &s->exec, &err));
    if (how_far == TO_EXEC) {
        return RON_OK;
    }
    RON_TRY(ron_sup_new(&(struct ron_sup_opts){.env = &s->env,
                                               .registry = s->reg,
                                               .exec = s->exec,
                                               .on_event = on_event,
                                               .on_event_arg = s},
                        &s->sup, &err));
    if (how_far == TO_SUP) {
        return RON_OK;
    }
    RON_TRY(add_tasks(s, &err));
    if (how_far == TO_TASKS) {
        return RON_OK;
    }
    RON_TRY(ron_signals_start(s->sup, NULL, NULL, &s->signals, &err));
    return how_far == TO_SIGNALS ? RON_OK : run_to_the_end(s);
}

static enum ron_rc live(enum how_far how_far)
{
    struct service s = {0};
    enum ron_rc rc;

    confine();
    rc = go_as_far_as(&s, how_far);
    ron_signals_stop(s.signals);
    ron_sup_free(s.sup);
    ron_chan_free(s.in);
    RON_ASSERT(ron_exec_free(s.exec));
    ron_registry_free(s.reg); /* asserts that nothing stayed registered */
    RON_ASSERT(ron_threads_live() == 0);
    release();
    return rc;
}

static enum ron_rc live_to_exec(void *arg)
{
    (void)arg;
    return live(TO_EXEC);
}

static enum ron_rc live_to_sup(void *arg)
{
    (void)arg;
    return live(TO_SUP);
}

static enum ron_rc live_to_tasks(void *arg)
{
    (void)arg;
    return live(TO_TASKS);
}

static enum ron_rc live_to_signals(void *arg)
{
    (void)arg;
    return live(TO_SIGNALS);
}

static enum ron_rc live_to_the_end(void *arg)
{
    (void)arg;
    return live(TO_THE_END);
}

SUPPORT_FAULT_SWEEP(test_task__faults_in_executor_creation__clean, live_to_exec)
SUPPORT_FAULT_SWEEP(test_task__faults_in_supervisor_creation__clean, live_to_sup)
SUPPORT_FAULT_SWEEP(test_task__faults_in_adding_tasks__clean, live_to_tasks)
SUPPORT_FAULT_SWEEP(test_task__faults_in_signals_start__clean, live_to_signals)
/* A failed start heals by a restart, so the case may succeed. */
SUPPORT_FAULT_SWEEP_TOLERANT(test_task__faults_in_a_whole_run__healed_or_clean, live_to_the_end)

/* ---- what the workers meet ------------------------------------------------------------------- */

static struct ron_stat polls_failed;

/* Every second wait of a worker returns for no reason. */
static bool fail_polls(enum ron_fault_kind kind, const char *site)
{
    static struct ron_au32 count;

    if (kind != RON_FAULT_SYSCALL || strcmp(site, "epoll_wait") != 0 ||
        ron_au32_add(&count, 1) % 2 == 0) {
        return false;
    }
    ron_stat_add(&polls_failed, 1);
    return true;
}

static enum ron_rc count_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)items;
    fx_gate_add(arg, count);
    return RON_OK;
}

static void test_task__waits_of_workers_fail__work_goes_on(void **state)
{
    struct fx_gate served;

    (void)state;
    ron_fault_hook = fail_polls;
    struct fx *fx = fx_open(2);
    struct ron_chan *in = fx_chan(fx, "in", 4, RON_CHAN_REJECT);

    fx_gate_init(&served);
    (void)fx_add(fx, &(struct ron_task_def){.name = "server",
                                            .kind = "k",
                                            .worker = RON_WORKER_ANY,
                                            .input = in,
                                            .handle = count_handle,
                                            .arg = &served});
    fx_start(fx);
    for (uint64_t i = 1; i <= 200; i++) {
        assert_true(fx_send(in, i));
        assert_true(fx_gate_reached(&served, i));
    }
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    ron_chan_free(in);
    fx_gate_done(&served);
    assert_true(fx_close(fx));
    ron_fault_hook = NULL;
    assert_true(ron_stat_get(&polls_failed) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_task__faults_in_executor_creation__clean),
        cmocka_unit_test(test_task__faults_in_supervisor_creation__clean),
        cmocka_unit_test(test_task__faults_in_adding_tasks__clean),
        cmocka_unit_test(test_task__faults_in_signals_start__clean),
        cmocka_unit_test(test_task__faults_in_a_whole_run__healed_or_clean),
        cmocka_unit_test(test_task__waits_of_workers_fail__work_goes_on),
    };

    ron_signals_block(); /* the signal thread of the cases must be the only one to take any */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
