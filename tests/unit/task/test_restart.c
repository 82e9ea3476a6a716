/* SPDX-License-Identifier: Apache-2.0 */
/* test_restart.c - failed tasks come back: when, how often, and when no more.
 *
 * Goal: delays lie on the curve (100 ms, doubling, at most 5 s, spread at random), the sixth
 * failure inside 60 s escalates and the fifth does not, an essential task takes the service down
 * with exit code 3, another leaves it degraded; all of it by the supervisor's clock, even when that
 * steps back. Method: virtual time that only the test moves, so each failure happens at a chosen
 * millisecond; one seed, so the random part of each delay is known beforehand. */
#include "base/rand_priv.h"
#include "unit/task/fixture.h"

struct failing {
    struct fx *fx;
    struct ron_chan *in;
    struct ron_task *task;
    size_t failures;
};

static enum ron_rc fail_on_message(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct ron_err err = {0};

    (void)arg;
    (void)items;
    (void)count;
    (void)!ron_err_set(&err, RON_IO, "disk on fire");
    ron_task_set_error(t, &err);
    return RON_IO;
}

static struct failing failing_open(enum ron_task_mode mode, struct ron_restart_policy policy)
{
    struct failing f = {.fx = fx_open_virtual(1)};

    f.in = fx_chan(f.fx, "in", 4, RON_CHAN_REJECT);
    f.task = fx_add(f.fx, &(struct ron_task_def){.name = "failing",
                                                 .kind = "k",
                                                 .mode = mode,
                                                 .worker = RON_WORKER_ANY,
                                                 .input = f.in,
                                                 .watchdog_ms = RON_WATCHDOG_OFF,
                                                 .restart = policy,
                                                 .handle = fail_on_message});
    fx_start(f.fx);
    fx_await(f.fx, RON_SUP_EVENT_STARTED, "failing", 1);
    return f;
}

static void failing_close(struct failing *f)
{
    ron_chan_free(f->in);
    assert_true(fx_close(f->fx));
}

/* The nth event of a kind. */
static struct fx_event nth(struct fx *fx, enum ron_sup_event_kind kind, size_t n)
{
    struct fx_event found = {0};

    ron_mutex_lock(&fx->logged.mu);
    for (size_t i = 0; i < fx->count; i++) {
        if (fx->log[i].kind == kind && n-- == 0) {
            found = fx->log[i];
            break;
        }
    }
    ron_mutex_unlock(&fx->logged.mu);
    return found;
}

/* Makes the task fail now; gives the event that says what becomes of it. */
static struct fx_event fail_once(struct failing *f)
{
    size_t restarts = fx_count(f->fx, RON_SUP_EVENT_RESTARTING, NULL);

    assert_true(fx_send(f->in, 1));
    f->failures++;
    fx_await(f->fx, RON_SUP_EVENT_FAILED, "failing", f->failures);
    fx_until(fx_count(f->fx, RON_SUP_EVENT_RESTARTING, NULL) > restarts ||
             fx_count(f->fx, RON_SUP_EVENT_ESCALATED, NULL) > 0);
    if (fx_count(f->fx, RON_SUP_EVENT_ESCALATED, NULL) > 0) {
        return nth(f->fx, RON_SUP_EVENT_ESCALATED, 0);
    }
    return nth(f->fx, RON_SUP_EVENT_RESTARTING, restarts);
}

/* Lets the delay of the last failure pass, and no more. */
static void come_back(struct failing *f, uint64_t delay_ms)
{
    fx_advance_ms(f->fx, delay_ms);
    fx_await(f->fx, RON_SUP_EVENT_STARTED, "failing", f->failures + 1);
}

static uint64_t curve_ms(const struct ron_restart_policy *p, uint32_t n)
{
    return RON_MIN((uint64_t)p->base_ms << RON_MIN(n, 16u), (uint64_t)p->cap_ms);
}

static void test_restart__keeps_failing__delays_lie_on_the_curve(void **state)
{
    static const enum ron_task_mode modes[] = {RON_TASK_LOOP, RON_TASK_BLOCKING};
    enum { FAILURES = 12 };

    (void)state;
    for (size_t m = 0; m < RON_ARRAY_LEN(modes); m++) {
        const struct ron_restart_policy defaults = {.base_ms = 100, .cap_ms = 5000};
        struct failing f =
            failing_open(modes[m], (struct ron_restart_policy){.restarts_max = FAILURES});
        struct ron_rand rand = support_rand();

        for (uint32_t n = 0; n < FAILURES; n++) {
            struct fx_event e = fail_once(&f);
            uint64_t low = curve_ms(&defaults, n);
            uint64_t high = RON_MIN(2 * low, (uint64_t)5000);
            uint64_t exact = RON_MIN(low + ron_rand_u64(&rand) % (low + 1), (uint64_t)5000);

            assert_int_equal(e.kind, RON_SUP_EVENT_RESTARTING);
            assert_int_equal(e.rc, RON_IO);
            assert_in_range(e.delay_ms, low, high);
            assert_int_equal(e.delay_ms, exact);
            come_back(&f, e.delay_ms);
        }
        assert_int_equal(curve_ms(&defaults, 5), 3200);
        assert_int_equal(curve_ms(&defaults, 6), 5000);
        assert_int_equal(fx_stop(f.fx), RON_EXIT_DRAINED);
        assert_string_equal(fx_find(f.fx, RON_SUP_EVENT_FAILED, "failing")->message,
                            "disk on fire");
        assert_int_equal(fx_task_stats(f.task).restarts, FAILURES);
        assert_int_equal(fx_task_stats(f.task).starts, FAILURES + 1);
        assert_int_equal(fx_kind(f.fx, "k").spawned, FAILURES + 1);
        failing_close(&f);
    }
}

static void test_restart__many_tasks_fail_together__they_do_not_return_together(void **state)
{
    enum { TASKS = 16 };
    static char names[TASKS][8];
    struct fx *fx = fx_open_virtual(1);
    struct ron_chan *in[TASKS];
    uint64_t lowest = UINT64_MAX;
    uint64_t highest = 0;

    (void)state;
    for (size_t i = 0; i < TASKS; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%zu", i);
        in[i] = fx_chan(fx, names[i], 4, RON_CHAN_REJECT);
        (void)fx_add(fx, &(struct ron_task_def){.name = names[i],
                                                .kind = "k",
                                                .worker = RON_WORKER_ANY,
                                                .input = in[i],
                                                .watchdog_ms = RON_WATCHDOG_OFF,
                                                .handle = fail_on_message});
        assert_true(fx_send(in[i], 1));
    }
    fx_start(fx);
    fx_await(fx, RON_SUP_EVENT_RESTARTING, NULL, TASKS);
    for (size_t i = 0; i < TASKS; i++) {
        uint64_t delay_ms = nth(fx, RON_SUP_EVENT_RESTARTING, i).delay_ms;

        assert_in_range(delay_ms, 100, 200);
        lowest = RON_MIN(lowest, delay_ms);
        highest = RON_MAX(highest, delay_ms);
    }
    assert_true(highest - lowest >= 10); /* less has a chance below 10^-12 */
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    for (size_t i = 0; i < TASKS; i++) {
        ron_chan_free(in[i]);
    }
    assert_true(fx_close(fx));
}

static void test_restart__delay_not_over__not_yet_back(void **state)
{
    struct failing f = failing_open(RON_TASK_LOOP, (struct ron_restart_policy){0});
    uint64_t delay_ms = fail_once(&f).delay_ms;

    (void)state;
    assert_true(fx_health(f.fx).degraded);
    fx_advance_ms(f.fx, delay_ms - 1);
    fx_more_looks(f.fx);
    assert_int_equal(fx_count(f.fx, RON_SUP_EVENT_STARTED, "failing"), 1);
    come_back(&f, 1);
    assert_int_equal(fx_stop(f.fx), RON_EXIT_DRAINED);
    failing_close(&f);
}

static void test_restart__sixth_failure_in_the_window__escalates_fifth_does_not(void **state)
{
    struct failing f = failing_open(RON_TASK_LOOP, (struct ron_restart_policy){0});
    const char *cause = NULL;
    struct fx_event e;

    (void)state;
    for (int i = 1; i <= 5; i++) {
        e = fail_once(&f);
        assert_int_equal(e.kind, RON_SUP_EVENT_RESTARTING);
        assert_true(e.health.ready);
        assert_true(e.health.degraded);
        assert_true(e.health.healthy);
        come_back(&f, e.delay_ms);
        fx_until(!fx_health(f.fx).degraded);
    }
    e = fail_once(&f);
    assert_int_equal(e.kind, RON_SUP_EVENT_ESCALATED);
    assert_int_equal(e.rc, RON_IO);
    assert_false(e.health.ready);
    assert_true(e.health.degraded);
    assert_true(e.health.healthy); /* it was not essential */
    assert_int_equal(e.health.state, RON_SUP_RUNNING);
    assert_int_equal(ron_sup_causes(f.fx->sup, &cause, 1), 1);
    assert_string_equal(cause, "failing");
    fx_advance_ms(f.fx, 600000); /* it stays down however long one waits */
    assert_int_equal(fx_stop(f.fx), RON_EXIT_DRAINED);
    assert_int_equal(fx_task_stats(f.task).starts, 6);
    assert_int_equal(fx_task_stats(f.task).restarts, 5);
    failing_close(&f);
}

static void test_restart__essential_task_escalates__unhealthy_drain_exit_3(void **state)
{
    struct failing f = failing_open(RON_TASK_LOOP, (struct ron_restart_policy){.essential = true});
    struct fx_event e;

    (void)state;
    for (int i = 1; i <= 5; i++) {
        come_back(&f, fail_once(&f).delay_ms);
    }
    assert_true(fx_health(f.fx).healthy);
    e = fail_once(&f);
    assert_int_equal(e.kind, RON_SUP_EVENT_ESCALATED);
    assert_false(e.health.ready);
    assert_false(e.health.healthy);
    assert_int_equal(fx_join(f.fx), RON_EXIT_FATAL); /* nobody asked it to stop */
    assert_int_equal(fx_health(f.fx).state, RON_SUP_STOPPED);
    assert_false(fx_health(f.fx).healthy);
    failing_close(&f);
}

/* ---- the window ------------------------------------------------------------------------------ */

/* Delays of exactly 1 ms, so that the test owns the calendar. */
static const struct ron_restart_policy plain = {.base_ms = 1, .cap_ms = 1};

static enum ron_sup_event_kind fail_five_then_at(struct failing *f, uint64_t sixth_ms)
{
    uint64_t now_ms = 0; /* since the first failure */

    for (int i = 1; i <= 5; i++) {
        struct fx_event e = fail_once(f);

        assert_int_equal(e.kind, RON_SUP_EVENT_RESTARTING);
        assert_int_equal(e.delay_ms, 1);
        come_back(f, e.delay_ms);
        now_ms++;
    }
    fx_advance_ms(f->fx, sixth_ms - now_ms);
    return fail_once(f).kind;
}

static void test_restart__sixth_failure_at_the_edge_of_the_window__counts_only_inside(void **state)
{
    struct failing f = failing_open(RON_TASK_LOOP, plain);

    (void)state;
    assert_int_equal(fail_five_then_at(&f, 59999), RON_SUP_EVENT_ESCALATED);
    assert_int_equal(fx_stop(f.fx), RON_EXIT_DRAINED);
    failing_close(&f);

    f = failing_open(RON_TASK_LOOP, plain);
    assert_int_equal(fail_five_then_at(&f, 60000), RON_SUP_EVENT_RESTARTING);
    assert_true(fx_health(f.fx).ready);
    assert_int_equal(fx_stop(f.fx), RON_EXIT_DRAINED);
    failing_close(&f);
}

static void test_restart__rare_failures__never_escalate_and_delay_starts_over(void **state)
{
    struct failing f = failing_open(RON_TASK_LOOP, (struct ron_restart_policy){0});

    (void)state;
    for (int i = 0; i < 20; i++) {
        struct fx_event e;

        fx_advance_ms(f.fx, 60000); /* it ran well for the whole window */
        e = fail_once(&f);
        assert_int_equal(e.kind, RON_SUP_EVENT_RESTARTING);
        assert_in_range(e.delay_ms, 100, 200);
        come_back(&f, e.delay_ms);
    }
    assert_true(fx_health(f.fx).ready);
    assert_int_equal(fx_stop(f.fx), RON_EXIT_DRAINED);
    failing_close(&f);
}

static void test_restart__clock_steps_back__failures_are_not_forgotten(void **state)
{
    struct failing f = failing_open(RON_TASK_LOOP, plain);

    (void)state;
    fx_advance_ms(f.fx, 7200000);
    for (int i = 1; i <= 5; i++) {
        come_back(&f, fail_once(&f).delay_ms);
    }
    fx_step_back_ms(f.fx, 3600000);
    assert_int_equal(fail_once(&f).kind, RON_SUP_EVENT_ESCALATED);
    assert_int_equal(fx_stop(f.fx), RON_EXIT_DRAINED);
    failing_close(&f);
}

/* ---- policies -------------------------------------------------------------------------------- */

static void test_restart__policy_never__one_failure_is_final_and_degrades(void **state)
{
    struct failing f =
        failing_open(RON_TASK_LOOP, (struct ron_restart_policy){.when = RON_RESTART_NEVER});

    (void)state;
    assert_true(fx_send(f.in, 1));
    fx_await(f.fx, RON_SUP_EVENT_FAILED, "failing", 1);
    fx_until(fx_health(f.fx).degraded);
    fx_advance_ms(f.fx, 600000);
    assert_true(fx_health(f.fx).ready);
    assert_int_equal(fx_stop(f.fx), RON_EXIT_DRAINED);
    assert_int_equal(fx_task_stats(f.task).starts, 1);
    assert_int_equal(fx_count(f.fx, RON_SUP_EVENT_RESTARTING, NULL), 0);
    failing_close(&f);
}

static void test_restart__policy_never_and_essential__one_failure_is_fatal(void **state)
{
    struct failing f = failing_open(
        RON_TASK_LOOP, (struct ron_restart_policy){.when = RON_RESTART_NEVER, .essential = true});

    (void)state;
    assert_true(fx_send(f.in, 1));
    fx_await(f.fx, RON_SUP_EVENT_ESCALATED, "failing", 1);
    assert_int_equal(fx_join(f.fx), RON_EXIT_FATAL);
    assert_false(fx_health(f.fx).healthy);
    failing_close(&f);
}

static enum ron_rc end_well(struct ron_task *t, void *arg)
{
    (void)t;
    (void)arg;
    return RON_OK;
}

static void test_restart__good_end__final_unless_policy_is_always(void **state)
{
    struct fx *fx = fx_open_virtual(1);
    struct ron_task_def def = {
        .name = "once", .kind = "k", .mode = RON_TASK_BLOCKING, .run = end_well};
    struct ron_task *once = fx_add(fx, &def);

    (void)state;
    def.name = "again";
    def.restart.when = RON_RESTART_ALWAYS;
    struct ron_task *again = fx_add(fx, &def);
    fx_start(fx);
    fx_await(fx, RON_SUP_EVENT_ENDED, "once", 1);
    /* Ending well is no failure: it never escalates, however often. */
    for (size_t n = 1; n <= 10; n++) {
        fx_await(fx, RON_SUP_EVENT_RESTARTING, "again", n);
        assert_in_range(nth(fx, RON_SUP_EVENT_RESTARTING, n - 1).delay_ms, 100, 5000);
        fx_advance_ms(fx, 5000);
        fx_await(fx, RON_SUP_EVENT_STARTED, "again", n + 1);
    }
    fx_await(fx, RON_SUP_EVENT_ENDED, "again", 11);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_int_equal(fx_count(fx, RON_SUP_EVENT_ESCALATED, NULL), 0);
    assert_int_equal(fx_task_stats(once).starts, 1);
    assert_true(fx_task_stats(again).restarts >= 10);
    assert_true(fx_close(fx));
}

/* ---- metric ---------------------------------------------------------------------------------- */

static uint64_t metric(struct fx *fx, const char *task, const char *name)
{
    struct ron_reg_row *rows = calloc(16, sizeof *rows);
    size_t n = ron_registry_rows(fx->reg, 0, rows, 16);
    uint64_t value = UINT64_MAX;

    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < rows[i].sample_count; k++) {
            if (rows[i].kind == RON_REG_TASK && strcmp(rows[i].name, task) == 0 &&
                strcmp(rows[i].samples[k].metric, name) == 0) {
                value = rows[i].samples[k].value;
            }
        }
    }
    free(rows);
    return value;
}

static void test_restart__restarts__equal_the_metric(void **state)
{
    struct failing f = failing_open(RON_TASK_LOOP, plain);

    (void)state;
    assert_int_equal(metric(f.fx, "failing", "service_restarts_total"), 0);
    for (uint64_t i = 1; i <= 4; i++) {
        come_back(&f, fail_once(&f).delay_ms);
        fx_until(metric(f.fx, "failing", "task_starts_total") == i + 1);
        assert_int_equal(metric(f.fx, "failing", "service_restarts_total"), i);
    }
    assert_int_equal(fx_stop(f.fx), RON_EXIT_DRAINED);
    failing_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_restart__keeps_failing__delays_lie_on_the_curve),
        cmocka_unit_test(test_restart__many_tasks_fail_together__they_do_not_return_together),
        cmocka_unit_test(test_restart__delay_not_over__not_yet_back),
        cmocka_unit_test(test_restart__sixth_failure_in_the_window__escalates_fifth_does_not),
        cmocka_unit_test(test_restart__essential_task_escalates__unhealthy_drain_exit_3),
        cmocka_unit_test(test_restart__sixth_failure_at_the_edge_of_the_window__counts_only_inside),
        cmocka_unit_test(test_restart__rare_failures__never_escalate_and_delay_starts_over),
        cmocka_unit_test(test_restart__clock_steps_back__failures_are_not_forgotten),
        cmocka_unit_test(test_restart__policy_never__one_failure_is_final_and_degrades),
        cmocka_unit_test(test_restart__policy_never_and_essential__one_failure_is_fatal),
        cmocka_unit_test(test_restart__good_end__final_unless_policy_is_always),
        cmocka_unit_test(test_restart__restarts__equal_the_metric),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
