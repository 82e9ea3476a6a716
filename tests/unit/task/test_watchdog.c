/* SPDX-License-Identifier: Apache-2.0 */
/* test_watchdog.c - a callback that does not return is reported.
 *
 * Goal: one report per stuck call, at the stated time and not before; none for many short calls,
 * for a task without watchdog, or because the clock stepped back. Method: virtual time; the handler
 * is held in a semaphore behind the back of sync. */
#include "unit/task/fixture.h"

#include <semaphore.h>

struct stuck {
    struct fx *fx;
    struct ron_chan *in;
    struct ron_task *task;
    struct fx_gate holding;
    struct fx_gate done;
    sem_t release;
};

static enum ron_rc hold(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct stuck *s = arg;

    (void)t;
    (void)items;
    fx_gate_add(&s->holding, count);
    (void)sem_wait(&s->release);
    fx_gate_add(&s->done, count);
    return RON_OK;
}

static void stuck_open(struct stuck *s, enum ron_task_mode mode, uint32_t watchdog_ms)
{
    *s = (struct stuck){.fx = fx_open_virtual(1)};
    fx_gate_init(&s->holding);
    fx_gate_init(&s->done);
    assert_int_equal(sem_init(&s->release, 0, 0), 0);
    s->in = fx_chan(s->fx, "in", 4, RON_CHAN_REJECT);
    s->task = fx_add(s->fx, &(struct ron_task_def){.name = "stuck",
                                                   .kind = "k",
                                                   .mode = mode,
                                                   .worker = RON_WORKER_ANY,
                                                   .input = s->in,
                                                   .watchdog_ms = watchdog_ms,
                                                   .handle = hold,
                                                   .arg = s});
    fx_start(s->fx);
}

static void stuck_close(struct stuck *s)
{
    assert_int_equal(fx_stop(s->fx), RON_EXIT_DRAINED);
    ron_chan_free(s->in);
    fx_gate_done(&s->holding);
    fx_gate_done(&s->done);
    (void)sem_destroy(&s->release);
    assert_true(fx_close(s->fx));
}

/* Sends one message and waits until the supervisor has seen that its handler runs. */
static void get_stuck(struct stuck *s)
{
    uint64_t before = fx_gate_count(&s->holding);

    assert_true(fx_send(s->in, 1));
    assert_true(fx_gate_reached(&s->holding, before + 1));
    fx_more_looks(s->fx);
}

static void let_go(struct stuck *s)
{
    uint64_t before = fx_gate_count(&s->done);

    (void)sem_post(&s->release);
    assert_true(fx_gate_reached(&s->done, before + 1));
}

static void test_watchdog__handler_stuck__reported_once_and_on_time(void **state)
{
    static const struct {
        enum ron_task_mode mode;
        uint32_t option_ms;
        uint32_t watchdog_ms;
    } cases[] = {
        {RON_TASK_LOOP, 0, 2000}, {RON_TASK_LOOP, 700, 700}, {RON_TASK_BLOCKING, 1500, 1500}};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        struct stuck s;

        stuck_open(&s, cases[i].mode, cases[i].option_ms);
        get_stuck(&s);
        fx_advance_ms(s.fx, cases[i].watchdog_ms - 1);
        fx_more_looks(s.fx);
        assert_int_equal(fx_count(s.fx, RON_SUP_EVENT_STUCK, NULL), 0);
        fx_advance_ms(s.fx, 1);
        fx_await(s.fx, RON_SUP_EVENT_STUCK, "stuck", 1);
        const struct fx_event *e = fx_find(s.fx, RON_SUP_EVENT_STUCK, "stuck");
        assert_int_equal(e->delay_ms, cases[i].watchdog_ms);
        assert_int_equal(e->rc, RON_TIMEOUT);
        assert_true(e->health.ready); /* a report, not a verdict */
        fx_advance_ms(s.fx, 60000);
        fx_more_looks(s.fx);
        assert_int_equal(fx_count(s.fx, RON_SUP_EVENT_STUCK, NULL), 1);
        let_go(&s);

        get_stuck(&s); /* another call is another report */
        fx_advance_ms(s.fx, cases[i].watchdog_ms);
        fx_await(s.fx, RON_SUP_EVENT_STUCK, "stuck", 2);
        fx_more_looks(s.fx);
        let_go(&s);
        assert_int_equal(fx_task_stats(s.task).stuck, 2);
        stuck_close(&s);
    }
}

static void test_watchdog__switched_off__silent(void **state)
{
    static const struct {
        enum ron_task_mode mode;
        uint32_t watchdog_ms;
    } cases[] = {{RON_TASK_LOOP, RON_WATCHDOG_OFF}, {RON_TASK_BLOCKING, 0}};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        struct stuck s;

        stuck_open(&s, cases[i].mode, cases[i].watchdog_ms);
        get_stuck(&s);
        for (int k = 0; k < 10; k++) {
            fx_advance_ms(s.fx, 3600000);
            fx_more_looks(s.fx);
        }
        let_go(&s);
        assert_int_equal(fx_task_stats(s.task).stuck, 0);
        stuck_close(&s);
    }
}

static void test_watchdog__clock_steps_back__no_false_report(void **state)
{
    struct stuck s;

    (void)state;
    stuck_open(&s, RON_TASK_LOOP, 0);
    get_stuck(&s);
    fx_step_back_ms(s.fx, 3600000);
    fx_more_looks(s.fx);
    assert_int_equal(fx_task_stats(s.task).stuck, 0);
    let_go(&s);
    stuck_close(&s);
}

static enum ron_rc spin_on(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct ron_stat *calls = arg;

    (void)items;
    (void)count;
    ron_stat_add(calls, 1);
    ron_task_wake(t);
    return RON_OK;
}

static void test_watchdog__busy_with_short_calls__not_stuck(void **state)
{
    struct fx *fx = fx_open_virtual(1);
    struct ron_stat calls = {0};
    struct ron_task *t = fx_add(fx, &(struct ron_task_def){.name = "busy",
                                                           .kind = "k",
                                                           .worker = RON_WORKER_ANY,
                                                           .handle = spin_on,
                                                           .arg = &calls});

    (void)state;
    fx_start(fx);
    for (int i = 0; i < 60; i++) { /* three times the watchdog; no call takes 100 ms of it */
        uint64_t before = ron_stat_get(&calls);

        fx_more_looks(fx);
        fx_until(ron_stat_get(&calls) > before + 2);
        fx_advance_ms(fx, 100);
    }
    fx_more_looks(fx);
    assert_int_equal(fx_task_stats(t).stuck, 0);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_true(fx_close(fx));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watchdog__handler_stuck__reported_once_and_on_time),
        cmocka_unit_test(test_watchdog__switched_off__silent),
        cmocka_unit_test(test_watchdog__clock_steps_back__no_false_report),
        cmocka_unit_test(test_watchdog__busy_with_short_calls__not_stuck),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
