/* SPDX-License-Identifier: Apache-2.0 */
/* test_supervisor.c - taking tasks in, starting them, and ending one.
 *
 * Goal: a bad definition is refused with a text that says what is wrong; every task belongs to the
 * supervisor and shows in the registry; one failed job or one ended task leaves the rest alone.
 * Method: definitions from a table; lives on real workers. */
#include "chan/chan_priv.h"
#include "task/task_testing.h"
#include "unit/task/fixture.h"

static enum ron_rc ok_start(struct ron_task *t, void *arg)
{
    (void)t;
    (void)arg;
    return RON_OK;
}

static enum ron_rc ok_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)arg;
    (void)items;
    (void)count;
    return RON_OK;
}

static void ok_drain(struct ron_task *t, void *arg)
{
    (void)arg;
    ron_task_intake_stopped(t);
}

static bool ok_may_stop(struct ron_task *t, void *arg)
{
    (void)t;
    (void)arg;
    return true;
}

/* Ends when its stop watch says so. */
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

/* ---- definitions ----------------------------------------------------------------------------- */

#define LONG_NAME "a-name-that-is-one-character-longer-than-allowed"

static void test_supervisor__bad_definition__refused_and_says_why(void **state)
{
    struct fx *fx = fx_open(2);
    struct ron_chan *in = fx_chan(fx, "in", 4, RON_CHAN_REJECT);
    const struct {
        struct ron_task_def def;
        const char *text;
    } bad[] = {
        {{.kind = "k", .handle = ok_handle}, "task: the name '' is not"},
        {{.name = "", .kind = "k", .handle = ok_handle}, "task: the name '' is not"},
        {{.name = "Big", .kind = "k", .handle = ok_handle}, "the name 'Big' is not"},
        {{.name = LONG_NAME, .kind = "k", .handle = ok_handle}, "1-47 characters"},
        {{.name = "t", .handle = ok_handle}, "task 't': no kind is given"},
        {{.name = "t", .kind = "", .handle = ok_handle}, "task 't': no kind is given"},
        {{.name = "t", .kind = "a|b", .handle = ok_handle}, "task 't': 'consumers' must be stated"},
        {{.name = "t", .kind = "k", .run = ok_start}, "a run body is for blocking tasks"},
        {{.name = "t",
          .kind = "k",
          .mode = RON_TASK_BLOCKING,
          .run = ok_start,
          .handle = ok_handle},
         "instead of input and handler"},
        {{.name = "t", .kind = "k", .mode = RON_TASK_BLOCKING, .run = ok_start, .input = in},
         "instead of input and handler"},
        {{.name = "t", .kind = "k"}, "it has neither handler nor run body"},
        {{.name = "t", .kind = "k", .mode = RON_TASK_BLOCKING, .handle = ok_handle},
         "needs an input channel or a run body"},
        {{.name = "t", .kind = "k", .handle = ok_handle, .drain = ok_drain},
         "a drain callback goes with the intake role"},
        {{.name = "t", .kind = "k", .handle = ok_handle, .role = RON_ROLE_INTAKE},
         "a drain callback goes with the intake role"},
        {{.name = "t",
          .kind = "k",
          .mode = RON_TASK_BLOCKING,
          .run = ok_start,
          .may_stop = ok_may_stop},
         "may_stop is for tasks on the executor"},
        {{.name = "t",
          .kind = "k",
          .mode = RON_TASK_BLOCKING,
          .role = RON_ROLE_INTAKE,
          .run = ok_start,
          .drain = ok_drain},
         "an intake task runs on the executor"},
        {{.name = "t", .kind = "k", .handle = ok_handle, .batch_max = 1025},
         "batch_max is above 1024"},
        {{.name = "t", .kind = "k", .handle = ok_handle, .worker = -2}, "there is no such worker"},
        {{.name = "t", .kind = "k", .handle = ok_handle, .worker = 2}, "there is no such worker"},
        {{.name = "t", .kind = "k", .handle = ok_handle, .restart = {.restarts_max = 16}},
         "restarts_max is above 15"},
        {{.name = "t", .kind = "k", .handle = ok_handle, .detached_reason = ""},
         "a detached task states its reason"},
        {{.name = "t", .kind = "k", .handle = ok_handle, .mode = (enum ron_task_mode)2},
         "mode, role or restart rule is unknown"},
        {{.name = "t", .kind = "k", .handle = ok_handle, .role = (enum ron_task_role)2},
         "mode, role or restart rule is unknown"},
        {{.name = "t", .kind = "k", .handle = ok_handle, .restart = {.when = (enum ron_restart)3}},
         "mode, role or restart rule is unknown"},
    };
    size_t entries = ron_registry_count(fx->reg);

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        struct ron_task *t = NULL;
        struct ron_err err = {0};

        assert_int_equal(ron_sup_add(fx->sup, &bad[i].def, &t, &err), RON_INVALID);
        assert_null(t);
        if (strstr(err.msg, bad[i].text) == NULL) {
            fail_msg("definition %zu: \"%s\" lacks \"%s\"", i, err.msg, bad[i].text);
        }
        assert_int_equal(ron_sup_add(fx->sup, &bad[i].def, NULL, NULL), RON_INVALID);
    }
    assert_int_equal(ron_registry_count(fx->reg), entries);
    ron_chan_free(in);
    assert_true(fx_close(fx));
}

static void test_supervisor__name_taken__refused(void **state)
{
    struct fx *fx = fx_open(1);
    struct ron_err err = {0};
    struct ron_task_def def = {.name = "twin", .kind = "k", .handle = ok_handle};

    (void)state;
    (void)fx_add(fx, &def);
    assert_int_equal(ron_sup_add(fx->sup, &def, NULL, &err), RON_EXISTS);
    assert_string_equal(err.msg, "task 'twin' exists already");
    /* The stop watch of a run body is named like its task, so it must not be `shutdown`. */
    def = (struct ron_task_def){
        .name = "shutdown", .kind = "k", .mode = RON_TASK_BLOCKING, .run = run_until_stop};
    assert_int_equal(ron_sup_add(fx->sup, &def, NULL, &err), RON_EXISTS);
    assert_true(fx_close(fx));
}

static void test_supervisor__too_many_kinds_or_tasks__refused(void **state)
{
    static char kinds[RON_SUP_KINDS_MAX + 1][8];
    static char names[RON_SUP_TASKS_MAX + 1][8];
    struct fx *fx = fx_open(1);
    struct ron_err err = {0};
    size_t n = 0;

    (void)state;
    for (; n <= RON_SUP_KINDS_MAX; n++) {
        (void)snprintf(kinds[n], sizeof kinds[n], "k%zu", n);
        (void)snprintf(names[n], sizeof names[n], "t%zu", n);
        struct ron_task_def def = {.name = names[n], .kind = kinds[n], .handle = ok_handle};
        assert_int_equal(ron_sup_add(fx->sup, &def, NULL, &err),
                         n < RON_SUP_KINDS_MAX ? RON_OK : RON_LIMIT);
    }
    assert_string_equal(err.msg, "more than 32 kinds of tasks");
    for (n = RON_SUP_KINDS_MAX; n <= RON_SUP_TASKS_MAX; n++) {
        (void)snprintf(names[n], sizeof names[n], "t%zu", n);
        struct ron_task_def def = {.name = names[n], .kind = "k0", .handle = ok_handle};
        assert_int_equal(ron_sup_add(fx->sup, &def, NULL, &err),
                         n < RON_SUP_TASKS_MAX ? RON_OK : RON_LIMIT);
    }
    assert_string_equal(err.msg, "more than 512 tasks");
    fx_start(fx); /* that many also run and end */
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_true(fx_close(fx));
}

/* ---- registry -------------------------------------------------------------------------------- */

static void test_supervisor__every_task__registered_and_owned_by_it(void **state)
{
    static const struct {
        const char *name;
        const char *policy;
        const char *consumers;
        const char *drop;
    } wanted[] = {
        {"intake", "on failure", "listener, loop", "intake: stops first, ends last"},
        {"stage", "always, essential", "worker, loop", "stage 3"},
        {"writer", "never", "writer, blocking", "detached: owned by the test"},
    };
    struct fx *fx = fx_open(1);
    struct ron_reg_row *rows = calloc(16, sizeof *rows);
    size_t found = 0;

    (void)state;
    (void)fx_add(fx, &(struct ron_task_def){.name = "intake",
                                            .kind = "listener",
                                            .role = RON_ROLE_INTAKE,
                                            .handle = ok_handle,
                                            .drain = ok_drain});
    (void)fx_add(
        fx, &(struct ron_task_def){.name = "stage",
                                   .kind = "worker",
                                   .stage = 3,
                                   .handle = ok_handle,
                                   .restart = {.when = RON_RESTART_ALWAYS, .essential = true}});
    (void)fx_add(fx, &(struct ron_task_def){.name = "writer",
                                            .kind = "writer",
                                            .mode = RON_TASK_BLOCKING,
                                            .run = run_until_stop,
                                            .detached_reason = "owned by the test",
                                            .restart = {.when = RON_RESTART_NEVER}});
    size_t n = ron_registry_rows(fx->reg, 0, rows, 16);
    for (size_t i = 0; i < n; i++) {
        if (rows[i].kind != RON_REG_TASK) {
            continue;
        }
        assert_true(found < RON_ARRAY_LEN(wanted));
        assert_string_equal(rows[i].name, wanted[found].name);
        assert_string_equal(rows[i].producers, "supervisor");
        assert_string_equal(rows[i].policy, wanted[found].policy);
        assert_string_equal(rows[i].consumers, wanted[found].consumers);
        assert_string_equal(rows[i].drop, wanted[found].drop);
        assert_string_equal(rows[i].samples[0].metric, "service_restarts_total");
        found++;
    }
    assert_int_equal(found, RON_ARRAY_LEN(wanted));
    free(rows);
    assert_true(fx_close(fx)); /* a supervisor that never ran can be freed too */
}

/* ---- starting -------------------------------------------------------------------------------- */

static void test_supervisor__start__consumers_before_producers_intake_last(void **state)
{
    static const char *const order[] = {"last", "mid1", "mid2", "second", "first", "door"};
    struct fx *fx = fx_open(1);
    size_t n = 0;

    (void)state;
    (void)fx_add(fx, &(struct ron_task_def){.name = "door",
                                            .kind = "k",
                                            .role = RON_ROLE_INTAKE,
                                            .handle = ok_handle,
                                            .drain = ok_drain});
    (void)fx_add(fx, &(struct ron_task_def){.name = "first", .kind = "k", .handle = ok_handle});
    (void)fx_add(
        fx, &(struct ron_task_def){.name = "mid1", .kind = "k", .stage = 7, .handle = ok_handle});
    (void)fx_add(fx, &(struct ron_task_def){
                         .name = "last", .kind = "k", .stage = UINT32_MAX, .handle = ok_handle});
    (void)fx_add(
        fx, &(struct ron_task_def){.name = "mid2", .kind = "k", .stage = 7, .handle = ok_handle});
    (void)fx_add(
        fx, &(struct ron_task_def){.name = "second", .kind = "k", .stage = 3, .handle = ok_handle});
    fx_start(fx);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    for (size_t i = 0; i < fx->count; i++) {
        if (fx->log[i].kind == RON_SUP_EVENT_STARTED) {
            assert_true(n < RON_ARRAY_LEN(order));
            assert_string_equal(fx->log[i].task, order[n++]);
        }
    }
    assert_int_equal(n, RON_ARRAY_LEN(order));
    assert_int_equal(fx_kind(fx, "k").spawned, RON_ARRAY_LEN(order));
    assert_true(fx_close(fx));
}

/* Tasks that end while others are still being started: the supervisor's view must stay its own. */
static enum ron_rc end_at_once(struct ron_task *t, void *arg)
{
    (void)t;
    (void)arg;
    return RON_OK;
}

static void test_supervisor__tasks_end_during_start__each_joined_once(void **state)
{
    enum { TASKS = 24 };
    static char names[TASKS][8];
    struct fx *fx = fx_open(2);

    (void)state;
    for (uint32_t i = 0; i < TASKS; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%u", i);
        (void)fx_add(fx, &(struct ron_task_def){.name = names[i],
                                                .kind = "brief",
                                                .mode = RON_TASK_BLOCKING,
                                                .stage = i,
                                                .run = end_at_once});
    }
    fx_start(fx);
    fx_await(fx, RON_SUP_EVENT_ENDED, NULL, TASKS);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_int_equal(fx_count(fx, RON_SUP_EVENT_ENDED, NULL), TASKS);
    assert_int_equal(fx_kind(fx, "brief").spawned, TASKS);
    assert_true(fx_close(fx));
}

/* ---- life of one task ------------------------------------------------------------------------ */

struct life {
    struct ron_stat starts;
    struct ron_stat stops;
    struct fx_gate handled;
    struct fx_gate running;
    bool start_fails;
};

static enum ron_rc life_start(struct ron_task *t, void *arg)
{
    struct life *l = arg;

    (void)t;
    ron_stat_add(&l->starts, 1);
    fx_gate_add(&l->running, 1);
    return l->start_fails ? RON_IO : RON_OK;
}

static enum ron_rc life_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct life *l = arg;

    (void)t;
    (void)items;
    fx_gate_add(&l->handled, count);
    return RON_OK;
}

static enum ron_rc life_run(struct ron_task *t, void *arg)
{
    return run_until_stop(t, arg);
}

static void life_stop(struct ron_task *t, void *arg)
{
    struct life *l = arg;

    (void)t;
    ron_stat_add(&l->stops, 1);
}

enum { LIVES = 4 };

/* One task of each shape: loop and blocking, with and without input. */
struct lives {
    struct life life[LIVES];
    struct ron_chan *in[LIVES];
    struct ron_task *task[LIVES];
};

static struct fx *lives_open(struct lives *ls, bool start_fails)
{
    static const char *const names[LIVES] = {"loop-in", "loop-bare", "block-in", "block-run"};
    struct fx *fx = fx_open(2);

    *ls = (struct lives){0};
    for (size_t i = 0; i < LIVES; i++) {
        struct life *l = &ls->life[i];
        bool loop = i < 2;
        bool input = i % 2 == 0;

        l->start_fails = start_fails;
        fx_gate_init(&l->handled);
        fx_gate_init(&l->running);
        ls->in[i] = input ? fx_chan(fx, names[i], 8, RON_CHAN_REJECT) : NULL;
        ls->task[i] =
            fx_add(fx, &(struct ron_task_def){.name = names[i],
                                              .kind = "life",
                                              .mode = loop ? RON_TASK_LOOP : RON_TASK_BLOCKING,
                                              .worker = RON_WORKER_ANY,
                                              .input = ls->in[i],
                                              .restart = {.when = start_fails ? RON_RESTART_NEVER
                                                                              : RON_RESTART_ALWAYS},
                                              .start = life_start,
                                              .handle = loop || input ? life_handle : NULL,
                                              .run = loop || input ? NULL : life_run,
                                              .stop = life_stop,
                                              .arg = l});
    }
    return fx;
}

static void lives_close(struct lives *ls, struct fx *fx)
{
    for (size_t i = 0; i < LIVES; i++) {
        ron_chan_free(ls->in[i]);
        fx_gate_done(&ls->life[i].handled);
        fx_gate_done(&ls->life[i].running);
    }
    assert_true(fx_close(fx));
}

static void test_supervisor__each_shape_of_task__started_and_stopped_once(void **state)
{
    struct lives ls;
    struct fx *fx = lives_open(&ls, false);

    (void)state;
    fx_start(fx);
    for (size_t i = 0; i < LIVES; i++) {
        assert_true(fx_gate_reached(&ls.life[i].running, 1));
        if (ls.in[i] != NULL) {
            assert_true(fx_send(ls.in[i], 1));
            assert_true(fx_gate_reached(&ls.life[i].handled, 1));
        }
        assert_ptr_equal(ron_task_env(ls.task[i]), &fx->env);
        assert_int_equal(ron_task_stop_watch(ls.task[i]) != NULL, i == LIVES - 1);
    }
    assert_string_equal(ron_task_name(ls.task[0]), "loop-in");
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    for (size_t i = 0; i < LIVES; i++) {
        assert_int_equal(ron_stat_get(&ls.life[i].starts), 1);
        assert_int_equal(ron_stat_get(&ls.life[i].stops), 1);
        assert_int_equal(fx_task_stats(ls.task[i]).restarts, 0);
    }
    assert_int_equal(fx_kind(fx, "life").aborted, 0);
    assert_int_equal(fx_kind(fx, "life").canceled, 0);
    lives_close(&ls, fx);
}

static void test_supervisor__start_fails__stop_still_tears_down(void **state)
{
    struct lives ls;
    struct fx *fx = lives_open(&ls, true);

    (void)state;
    fx_start(fx);
    fx_await(fx, RON_SUP_EVENT_FAILED, NULL, LIVES);
    fx_until(fx_health(fx).tasks_down == LIVES);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    for (size_t i = 0; i < LIVES; i++) {
        assert_int_equal(ron_stat_get(&ls.life[i].starts), 1);
        assert_int_equal(ron_stat_get(&ls.life[i].stops), 1);
        assert_int_equal(fx_gate_count(&ls.life[i].handled), 0);
    }
    lives_close(&ls, fx);
}

/* ---- ending one alone ------------------------------------------------------------------------ */

static void test_supervisor__one_task_stopped__ends_for_good_and_alone(void **state)
{
    (void)state;
    for (size_t one = 0; one < LIVES; one++) {
        struct lives ls;
        struct fx *fx = lives_open(&ls, false);

        fx_start(fx);
        for (size_t i = 0; i < LIVES; i++) {
            assert_true(fx_gate_reached(&ls.life[i].running, 1));
        }
        ron_sup_request_stop_task(fx->sup, ls.task[one]);
        fx_await(fx, RON_SUP_EVENT_ENDED, ron_task_name(ls.task[one]), 1);
        assert_int_equal(ron_stat_get(&ls.life[one].stops), 1);
        if (ls.in[one] != NULL) {
            assert_true(ron_chan_is_closed(ls.in[one]));
        }
        /* It would be restarted by its policy, were it not for the request. */
        assert_true(fx_health(fx).ready);
        assert_false(fx_health(fx).degraded);
        for (size_t i = 0; i < LIVES; i++) {
            if (i != one && ls.in[i] != NULL) {
                assert_true(fx_send(ls.in[i], 1));
                assert_true(fx_gate_reached(&ls.life[i].handled, 1));
            }
        }
        assert_int_equal(fx_count(fx, RON_SUP_EVENT_ENDED, NULL), 1);
        assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
        assert_int_equal(fx_count(fx, RON_SUP_EVENT_RESTARTING, NULL), 0);
        assert_int_equal(fx_task_stats(ls.task[one]).starts, 1);
        lives_close(&ls, fx);
    }
}

static enum ron_rc fail_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)arg;
    (void)items;
    (void)count;
    return RON_IO;
}

static void test_supervisor__stopped_while_it_waits_for_restart__stays_down_and_closed(void **state)
{
    struct fx *fx = fx_open_virtual(1);
    struct ron_chan *in = fx_chan(fx, "in", 4, RON_CHAN_REJECT);
    struct ron_task *t = fx_add(fx, &(struct ron_task_def){.name = "failing",
                                                           .kind = "k",
                                                           .input = in,
                                                           .watchdog_ms = RON_WATCHDOG_OFF,
                                                           .handle = fail_handle});

    (void)state;
    fx_start(fx);
    assert_true(fx_send(in, 1));
    fx_await(fx, RON_SUP_EVENT_RESTARTING, "failing", 1);
    ron_sup_request_stop_task(fx->sup, t);
    fx_until(ron_chan_is_closed(in)); /* producers are told */
    fx_advance_ms(fx, 10000);         /* far past its restart */
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_int_equal(fx_task_stats(t).starts, 1);
    ron_chan_free(in);
    assert_true(fx_close(fx));
}

/* ---- failed jobs ----------------------------------------------------------------------------- */

struct poison {
    struct fx_gate served;
    struct ron_aptr threads[2]; /* where the poison and the job after it ran */
};

static enum ron_rc handle_poison(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct poison *p = arg;

    for (size_t i = 0; i < count; i++) {
        bool bad = fx_number(items[i]) == 666;

        ron_aptr_store(&p->threads[bad ? 0 : 1], ron_thread_self());
        if (bad) {
            struct ron_err err = {0};
            (void)!ron_err_set(&err, RON_INVALID, "poison");
            ron_task_job_failed(t, &err);
        } else {
            fx_gate_add(&p->served, 1);
        }
    }
    return RON_OK;
}

static void test_supervisor__poisoned_job__counted_and_next_served_by_same_worker(void **state)
{
    static const enum ron_task_mode modes[] = {RON_TASK_LOOP, RON_TASK_BLOCKING};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(modes); i++) {
        struct fx *fx = fx_open(1);
        struct ron_chan *in = fx_chan(fx, "in", 8, RON_CHAN_REJECT);
        struct poison p = {0};

        fx_gate_init(&p.served);
        struct ron_task *t = fx_add(fx, &(struct ron_task_def){.name = "worker",
                                                               .kind = "worker",
                                                               .mode = modes[i],
                                                               .worker = RON_WORKER_ANY,
                                                               .input = in,
                                                               .handle = handle_poison,
                                                               .arg = &p});
        fx_start(fx);
        assert_true(fx_send(in, 666));
        assert_true(fx_send(in, 1));
        assert_true(fx_gate_reached(&p.served, 1));
        assert_true(fx_send(in, 666));
        assert_true(fx_send(in, 2));
        assert_true(fx_gate_reached(&p.served, 2));
        assert_ptr_equal(ron_aptr_load(&p.threads[0]), ron_aptr_load(&p.threads[1]));
        assert_true(fx_health(fx).ready);
        assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
        assert_int_equal(fx_task_stats(t).jobs_failed, 2);
        assert_int_equal(fx_task_stats(t).handled, 4);
        assert_int_equal(fx_task_stats(t).starts, 1);
        assert_int_equal(fx_count(fx, RON_SUP_EVENT_FAILED, NULL), 0);
        ron_chan_free(in);
        fx_gate_done(&p.served);
        assert_true(fx_close(fx));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_supervisor__bad_definition__refused_and_says_why),
        cmocka_unit_test(test_supervisor__name_taken__refused),
        cmocka_unit_test(test_supervisor__too_many_kinds_or_tasks__refused),
        cmocka_unit_test(test_supervisor__every_task__registered_and_owned_by_it),
        cmocka_unit_test(test_supervisor__start__consumers_before_producers_intake_last),
        cmocka_unit_test(test_supervisor__tasks_end_during_start__each_joined_once),
        cmocka_unit_test(test_supervisor__each_shape_of_task__started_and_stopped_once),
        cmocka_unit_test(test_supervisor__start_fails__stop_still_tears_down),
        cmocka_unit_test(test_supervisor__one_task_stopped__ends_for_good_and_alone),
        cmocka_unit_test(
            test_supervisor__stopped_while_it_waits_for_restart__stays_down_and_closed),
        cmocka_unit_test(test_supervisor__poisoned_job__counted_and_next_served_by_same_worker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
