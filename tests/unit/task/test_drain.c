/* SPDX-License-Identifier: Apache-2.0 */
/* test_drain.c - ending well: who is told when, and that nothing accepted is lost.
 *
 * Goal: readiness falls, then intake is told and confirms, then the stages end in order, then
 * intake ends; both "work" and "shutdown" ready are taken in the decided order; under load the
 * counts add up; every trigger of a stop leads to the same drain. Method: callbacks number
 * themselves in one sequence. What does not end in time is in test_abort.c. */
#include "chan/chan_priv.h"
#include "unit/task/fixture.h"

#include <semaphore.h>

/* ---- the deadline option --------------------------------------------------------------------- */

static void test_drain__deadline_option__one_to_five_seconds_three_by_default(void **state)
{
    static const struct {
        uint32_t option_ms;
        uint32_t deadline_ms; /* 0: refused */
    } cases[] = {{0, 3000},    {1, 0},    {999, 0},       {1000, 1000},
                 {5000, 5000}, {5001, 0}, {UINT32_MAX, 0}};
    struct fx *fx = fx_open(1);

    (void)state;
    ron_sup_free(fx->sup);
    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        struct ron_sup *sup = NULL;
        struct ron_err err = {0};
        enum ron_rc rc =
            ron_sup_new(&(struct ron_sup_opts){.env = &fx->env,
                                               .registry = fx->reg,
                                               .exec = fx->exec,
                                               .drain_deadline_ms = cases[i].option_ms},
                        &sup, &err);

        if (cases[i].deadline_ms == 0) {
            assert_int_equal(rc, RON_INVALID);
            assert_null(sup);
            assert_non_null(strstr(err.msg, "drain_deadline"));
            assert_non_null(strstr(err.msg, "1000..5000 ms"));
        } else {
            assert_int_equal(rc, RON_OK);
            assert_int_equal(sup->drain_deadline_ms, cases[i].deadline_ms);
            ron_sup_free(sup);
        }
    }
    assert_true(ron_exec_free(fx->exec));
    ron_registry_free(fx->reg);
    fx_gate_done(&fx->ended);
    fx_gate_done(&fx->logged);
    free(fx);
}

/* ---- order ----------------------------------------------------------------------------------- */

struct pipeline {
    struct fx *fx;
    struct ron_au32 clock; /* the sequence */
    struct ron_chan *door; /* what the intake task accepts */
    struct ron_chan *in1;
    struct ron_chan *in2;
    struct ron_task *intake;
    struct fx_gate told;
    struct fx_gate served;
    struct ron_au32 may_confirm;
    uint32_t told_at;
    uint32_t confirmed_at;
    uint32_t stage1_at[2];
    uint32_t stage2_at;
    uint32_t intake_at;
    struct ron_health told_health;
    bool in1_open_when_told;
    bool in2_open_in_stage1[2];
    struct ron_stat refused;
};

struct stage1 {
    struct pipeline *p;
    size_t index;
};

static uint32_t tick(struct pipeline *p)
{
    return ron_au32_add(&p->clock, 1) + 1;
}

static enum ron_rc intake_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct pipeline *p = arg;

    for (size_t i = 0; i < count; i++) {
        ron_stat_add(&p->refused, ron_chan_try_send(p->in1, items[i], NULL) != RON_OK);
    }
    if (count == 0 && ron_au32_load(&p->may_confirm) != 0 && p->confirmed_at == 0) {
        p->confirmed_at = tick(p);
        ron_task_intake_stopped(t);
    }
    return RON_OK;
}

static void intake_drain(struct ron_task *t, void *arg)
{
    struct pipeline *p = arg;

    (void)t;
    p->told_at = tick(p);
    ron_sup_health(p->fx->sup, &p->told_health);
    p->in1_open_when_told = !ron_chan_is_closed(p->in1);
    fx_gate_add(&p->told, 1);
}

static void intake_stop(struct ron_task *t, void *arg)
{
    struct pipeline *p = arg;

    (void)t;
    p->intake_at = tick(p);
}

static enum ron_rc stage1_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct stage1 *s = arg;

    (void)t;
    for (size_t i = 0; i < count; i++) {
        ron_stat_add(&s->p->refused, ron_chan_try_send(s->p->in2, items[i], NULL) != RON_OK);
    }
    return RON_OK;
}

static void stage1_stop(struct ron_task *t, void *arg)
{
    struct stage1 *s = arg;

    (void)t;
    s->p->in2_open_in_stage1[s->index] = !ron_chan_is_closed(s->p->in2);
    s->p->stage1_at[s->index] = tick(s->p);
}

static enum ron_rc stage2_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct pipeline *p = arg;

    (void)t;
    (void)items;
    fx_gate_add(&p->served, count);
    return RON_OK;
}

static void stage2_stop(struct ron_task *t, void *arg)
{
    struct pipeline *p = arg;

    (void)t;
    p->stage2_at = tick(p);
}

static void pipeline_open(struct pipeline *p, struct stage1 pool[2])
{
    static const char *const names[2] = {"first-a", "first-b"};

    *p = (struct pipeline){.fx = fx_open(2)};
    fx_gate_init(&p->told);
    fx_gate_init(&p->served);
    p->door = fx_chan(p->fx, "door", 64, RON_CHAN_REJECT);
    p->in1 = fx_chan(p->fx, "in1", 64, RON_CHAN_REJECT);
    p->in2 = fx_chan(p->fx, "in2", 64, RON_CHAN_REJECT);
    /* Added against the order in which they must end. */
    (void)fx_add(p->fx, &(struct ron_task_def){.name = "second",
                                               .kind = "stage",
                                               .mode = RON_TASK_BLOCKING,
                                               .stage = 20,
                                               .input = p->in2,
                                               .handle = stage2_handle,
                                               .stop = stage2_stop,
                                               .arg = p});
    p->intake = fx_add(p->fx, &(struct ron_task_def){.name = "intake",
                                                     .kind = "listener",
                                                     .role = RON_ROLE_INTAKE,
                                                     .worker = RON_WORKER_ANY,
                                                     .input = p->door,
                                                     .handle = intake_handle,
                                                     .drain = intake_drain,
                                                     .stop = intake_stop,
                                                     .arg = p});
    for (size_t i = 0; i < 2; i++) {
        pool[i] = (struct stage1){.p = p, .index = i};
        (void)fx_add(p->fx, &(struct ron_task_def){.name = names[i],
                                                   .kind = "stage",
                                                   .stage = 10,
                                                   .worker = RON_WORKER_ANY,
                                                   .input = p->in1,
                                                   .handle = stage1_handle,
                                                   .stop = stage1_stop,
                                                   .arg = &pool[i]});
    }
}

static void pipeline_close(struct pipeline *p)
{
    ron_chan_free(p->door);
    ron_chan_free(p->in1);
    ron_chan_free(p->in2);
    fx_gate_done(&p->told);
    fx_gate_done(&p->served);
    assert_true(fx_close(p->fx));
}

static void test_drain__pipeline__told_confirmed_stages_in_order_intake_last(void **state)
{
    struct pipeline p;
    struct stage1 pool[2];

    (void)state;
    pipeline_open(&p, pool);
    fx_start(p.fx);
    for (uint64_t i = 1; i <= 10; i++) {
        assert_true(fx_send(p.door, i));
    }
    assert_true(fx_gate_reached(&p.served, 10));
    assert_true(fx_health(p.fx).ready);
    ron_sup_request_stop(p.fx->sup);
    assert_true(fx_gate_reached(&p.told, 1));
    assert_false(fx_health(p.fx).ready);

    /* Told but not confirmed: what is under way is still served, by all stages. */
    assert_true(fx_send(p.door, 11));
    assert_true(fx_gate_reached(&p.served, 11));
    assert_false(ron_chan_is_closed(p.in1));
    assert_false(ron_chan_is_closed(p.in2));
    assert_int_equal(ron_watch_value(ron_sup_shutdown(p.fx->sup)), RON_SUP_DRAINING);
    ron_au32_store(&p.may_confirm, 1);
    ron_task_wake(p.intake);
    assert_int_equal(fx_join(p.fx), RON_EXIT_DRAINED);

    assert_false(p.told_health.ready); /* a probe knows before the listener does */
    assert_int_equal(p.told_health.state, RON_SUP_DRAINING);
    assert_true(p.told_health.healthy);
    assert_true(p.in1_open_when_told);
    assert_true(p.told_at < p.confirmed_at);
    for (size_t i = 0; i < 2; i++) {
        assert_true(p.confirmed_at < p.stage1_at[i]);
        assert_true(p.stage1_at[i] < p.stage2_at);
        assert_true(p.in2_open_in_stage1[i]);
    }
    assert_true(p.stage2_at < p.intake_at);
    assert_int_equal(ron_stat_get(&p.refused), 0);
    pipeline_close(&p);
}

static void test_drain__messages_queued_everywhere__all_pass_through(void **state)
{
    struct pipeline p;
    struct stage1 pool[2];

    (void)state;
    pipeline_open(&p, pool);
    ron_au32_store(&p.may_confirm, 1);
    for (uint64_t i = 1; i <= 20; i++) {
        assert_true(fx_send(p.in1, i));
        assert_true(fx_send(p.in2, i));
    }
    ron_sup_request_stop(p.fx->sup); /* before it runs: it starts, drains, ends */
    ron_sup_request_stop(p.fx->sup); /* a second request changes nothing */
    fx_start(p.fx);
    assert_int_equal(fx_join(p.fx), RON_EXIT_DRAINED);
    assert_int_equal(fx_gate_count(&p.served), 40);
    assert_int_equal(ron_stat_get(&p.refused), 0);
    assert_int_equal(fx_count(p.fx, RON_SUP_EVENT_STATE, NULL), 3);
    pipeline_close(&p);
}

/* The first stage, held in a handler: what it will send must still be welcome behind it. */
struct holding {
    struct ron_chan *next;
    struct fx_gate held;
    struct fx_gate served;
    sem_t release;
    struct ron_au32 refused;
};

static enum ron_rc hold_and_send(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct holding *h = arg;

    (void)t;
    (void)count;
    fx_gate_add(&h->held, 1);
    (void)sem_wait(&h->release);
    (void)ron_au32_add(&h->refused, ron_chan_try_send(h->next, items[0], NULL) != RON_OK);
    return RON_OK;
}

static enum ron_rc count_served(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct holding *h = arg;

    (void)t;
    (void)items;
    fx_gate_add(&h->served, count);
    return RON_OK;
}

static void test_drain__stage_still_works__the_next_stays_open_until_it_has_ended(void **state)
{
    struct fx *fx = fx_open_virtual(2);
    struct ron_chan *in = fx_chan(fx, "in", 4, RON_CHAN_REJECT);
    struct holding h = {.next = fx_chan(fx, "next", 4, RON_CHAN_REJECT)};

    (void)state;
    fx_gate_init(&h.held);
    fx_gate_init(&h.served);
    assert_int_equal(sem_init(&h.release, 0, 0), 0);
    (void)fx_add(fx, &(struct ron_task_def){.name = "first",
                                            .kind = "k",
                                            .mode = RON_TASK_BLOCKING,
                                            .stage = 1,
                                            .input = in,
                                            .handle = hold_and_send,
                                            .arg = &h});
    (void)fx_add(fx, &(struct ron_task_def){.name = "second",
                                            .kind = "k",
                                            .stage = 2,
                                            .worker = RON_WORKER_ANY,
                                            .input = h.next,
                                            .handle = count_served,
                                            .arg = &h});
    assert_true(fx_send(in, 1));
    fx_start(fx);
    assert_true(fx_gate_reached(&h.held, 1));
    ron_sup_request_stop(fx->sup);
    fx_until(ron_chan_is_closed(in));
    fx_more_looks(fx);
    assert_false(ron_chan_is_closed(h.next));
    (void)sem_post(&h.release);
    assert_int_equal(fx_join(fx), RON_EXIT_DRAINED);
    assert_int_equal(ron_au32_load(&h.refused), 0);
    assert_int_equal(fx_gate_count(&h.served), 1);
    ron_chan_free(in);
    ron_chan_free(h.next);
    fx_gate_done(&h.held);
    fx_gate_done(&h.served);
    (void)sem_destroy(&h.release);
    assert_true(fx_close(fx));
}

/* ---- shutdown and work at once --------------------------------------------------------------- */

struct both {
    struct ron_chan *in;
    struct fx_gate holding;
    sem_t release;
    bool held;
    char order[16]; /* 'w' work, 's' shutdown */
    size_t count;
    bool prefer_work;
    struct fx_gate go;
    struct fx_gate waiting;
};

static void note(struct both *b, char c)
{
    if (b->count + 1 < sizeof b->order) {
        b->order[b->count++] = c;
    }
}

static enum ron_rc hold_worker(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct both *b = arg;

    (void)t;
    (void)items;
    (void)count;
    if (!b->held) {
        b->held = true;
        fx_gate_add(&b->holding, 1);
        (void)sem_wait(&b->release);
    }
    return RON_OK;
}

static enum ron_rc note_work(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)items;
    for (size_t i = 0; i < count; i++) {
        note(arg, 'w');
    }
    return RON_OK;
}

static void note_drain(struct ron_task *t, void *arg)
{
    note(arg, 's');
    ron_task_intake_stopped(t);
}

static void test_drain__work_and_shutdown_ready_at_intake__shutdown_first(void **state)
{
    struct both b = {.held = false};
    struct fx *fx = fx_open(1);

    (void)state;
    fx_gate_init(&b.holding);
    assert_int_equal(sem_init(&b.release, 0, 0), 0);
    b.in = fx_chan(fx, "in", 8, RON_CHAN_REJECT);
    /* Holds the only worker, so that the intake task finds both when its turn comes. */
    (void)fx_add(fx, &(struct ron_task_def){
                         .name = "blocker", .kind = "k", .handle = hold_worker, .arg = &b});
    struct ron_task *t = fx_add(fx, &(struct ron_task_def){.name = "intake",
                                                           .kind = "k",
                                                           .role = RON_ROLE_INTAKE,
                                                           .input = b.in,
                                                           .handle = note_work,
                                                           .drain = note_drain,
                                                           .arg = &b});
    fx_start(fx);
    assert_true(fx_gate_reached(&b.holding, 1));
    assert_true(fx_send(b.in, 1));
    assert_true(fx_send(b.in, 2));
    ron_sup_request_stop(fx->sup);
    fx_until(ron_au32_load(&t->ask_drain) != 0);
    (void)sem_post(&b.release);
    assert_int_equal(fx_join(fx), RON_EXIT_DRAINED);
    assert_string_equal(b.order, "sww");
    ron_chan_free(b.in);
    fx_gate_done(&b.holding);
    (void)sem_destroy(&b.release);
    assert_true(fx_close(fx));
}

static enum ron_rc both_run(struct ron_task *t, void *arg)
{
    struct both *b = arg;
    struct ron_watch *stop = ron_task_stop_watch(t);
    uint64_t seen = 0;

    (void)ron_watch_get(stop, &seen);
    fx_gate_add(&b->waiting, 1);
    if (!fx_gate_reached(&b->go, 1)) {
        return RON_TIMEOUT;
    }
    for (;;) {
        void *item = NULL;
        size_t n = 0;

        RON_TRY(ron_chan_recv_or_changed(b->in, stop, seen, b->prefer_work, &item, 1,
                                         ron_deadline_never(), &n));
        note(b, n > 0 ? 'w' : 's');
        if (n == 0) {
            return RON_OK;
        }
    }
}

static void test_drain__work_and_shutdown_ready_in_a_body__as_it_prefers(void **state)
{
    (void)state;
    for (int prefer_work = 0; prefer_work < 2; prefer_work++) {
        struct both b = {.prefer_work = prefer_work != 0};
        struct fx *fx = fx_open(1);

        fx_gate_init(&b.go);
        fx_gate_init(&b.waiting);
        b.in = fx_chan(fx, "in", 8, RON_CHAN_REJECT);
        struct ron_task *t = fx_add(fx, &(struct ron_task_def){.name = "worker",
                                                               .kind = "k",
                                                               .mode = RON_TASK_BLOCKING,
                                                               .run = both_run,
                                                               .arg = &b});
        fx_start(fx);
        assert_true(fx_gate_reached(&b.waiting, 1));
        for (uint64_t i = 1; i <= 3; i++) {
            assert_true(fx_send(b.in, i));
        }
        ron_sup_request_stop(fx->sup);
        fx_until(ron_watch_value(ron_task_stop_watch(t)) == RON_TASK_STOP);
        fx_gate_add(&b.go, 1);
        assert_int_equal(fx_join(fx), RON_EXIT_DRAINED);
        assert_string_equal(b.order, prefer_work ? "wwws" : "s");
        ron_chan_free(b.in);
        fx_gate_done(&b.go);
        fx_gate_done(&b.waiting);
        assert_true(fx_close(fx));
    }
}

/* ---- other beginnings ------------------------------------------------------------------------ */

static enum ron_rc stop_everything(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct fx *fx = arg;

    (void)t;
    (void)items;
    (void)count;
    ron_sup_request_stop(fx->sup);
    return RON_OK;
}

static void test_drain__asked_from_inside_a_task__same_drain(void **state)
{
    struct fx *fx = fx_open(1);

    (void)state;
    (void)fx_add(fx, &(struct ron_task_def){
                         .name = "tired", .kind = "k", .handle = stop_everything, .arg = fx});
    fx_start(fx);
    assert_int_equal(fx_join(fx), RON_EXIT_DRAINED);
    assert_int_equal(fx_count(fx, RON_SUP_EVENT_ENDED, "tired"), 1);
    assert_true(fx_close(fx));
}

static enum ron_rc do_nothing(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)arg;
    (void)items;
    (void)count;
    return RON_OK;
}

static enum ron_rc fail_start(struct ron_task *t, void *arg)
{
    (void)t;
    (void)arg;
    return RON_IO;
}

static void test_drain__task_waits_for_its_restart__not_restarted_not_waited_for(void **state)
{
    struct fx *fx = fx_open(1);
    struct ron_task *t =
        fx_add(fx, &(struct ron_task_def){.name = "failing",
                                          .kind = "k",
                                          .restart = {.base_ms = 3600000, .cap_ms = 3600000},
                                          .start = fail_start,
                                          .handle = do_nothing});

    (void)state;
    fx_start(fx);
    fx_await(fx, RON_SUP_EVENT_RESTARTING, "failing", 1);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_int_equal(fx_task_stats(t).starts, 1);
    assert_true(fx_close(fx));
}

static enum ron_rc fail_when_stopped(struct ron_task *t, void *arg)
{
    uint64_t seen = 0;
    uint64_t value = ron_watch_get(ron_task_stop_watch(t), &seen);

    (void)arg;
    while (value != RON_TASK_STOP) {
        RON_TRY(ron_watch_wait(ron_task_stop_watch(t), seen, ron_deadline_never(), &value, &seen));
    }
    return ron_task_stopping(t) ? RON_IO : RON_OK;
}

static void test_drain__task_fails_while_draining__told_and_not_restarted(void **state)
{
    struct fx *fx = fx_open(1);
    struct ron_task *t = fx_add(fx, &(struct ron_task_def){.name = "failing",
                                                           .kind = "k",
                                                           .mode = RON_TASK_BLOCKING,
                                                           .restart = {.base_ms = 1},
                                                           .run = fail_when_stopped});

    (void)state;
    fx_start(fx);
    fx_await(fx, RON_SUP_EVENT_STARTED, "failing", 1);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_int_equal(fx_count(fx, RON_SUP_EVENT_FAILED, "failing"), 1);
    assert_int_equal(fx_count(fx, RON_SUP_EVENT_RESTARTING, "failing"), 0);
    assert_int_equal(fx_task_stats(t).starts, 1);
    assert_true(fx_close(fx));
}

/* ---- something under way --------------------------------------------------------------------- */

struct busy {
    struct ron_au32 under_way; /* answers that it waits for */
    struct ron_au32 asked;     /* whether it may stop */
    struct ron_au32 ended;
};

static enum ron_rc busy_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct busy *b = arg;

    (void)t;
    (void)items;
    (void)ron_au32_add(&b->under_way, (uint32_t)count);
    return RON_OK;
}

static bool busy_may_stop(struct ron_task *t, void *arg)
{
    struct busy *b = arg;

    (void)t;
    (void)ron_au32_add(&b->asked, 1);
    return ron_au32_load(&b->under_way) == 0;
}

static void busy_stop(struct ron_task *t, void *arg)
{
    struct busy *b = arg;

    (void)t;
    ron_au32_store(&b->ended, 1);
}

static void test_drain__stage_waits_for_an_answer__goes_on_until_it_is_there(void **state)
{
    struct fx *fx = fx_open(1);
    struct ron_chan *in = fx_chan(fx, "in", 4, RON_CHAN_REJECT);
    struct busy busy = {0};
    struct ron_task *t = fx_add(fx, &(struct ron_task_def){.name = "busy",
                                                           .kind = "k",
                                                           .worker = RON_WORKER_ANY,
                                                           .input = in,
                                                           .handle = busy_handle,
                                                           .may_stop = busy_may_stop,
                                                           .stop = busy_stop,
                                                           .arg = &busy});

    (void)state;
    fx_start(fx);
    assert_true(fx_send(in, 1));
    fx_until(ron_au32_load(&busy.under_way) == 1);
    ron_sup_request_stop(fx->sup);
    fx_until(ron_au32_load(&busy.asked) > 0);
    assert_true(ron_chan_is_closed(in));
    ron_task_wake(t); /* something came, but not the last answer */
    fx_until(ron_au32_load(&busy.asked) > 1);
    assert_int_equal(ron_au32_load(&busy.ended), 0);
    ron_au32_store(&busy.under_way, 0);
    ron_task_wake(t);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_int_equal(ron_au32_load(&busy.ended), 1);
    ron_chan_free(in);
    assert_true(fx_close(fx));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drain__stage_waits_for_an_answer__goes_on_until_it_is_there),
        cmocka_unit_test(test_drain__deadline_option__one_to_five_seconds_three_by_default),
        cmocka_unit_test(test_drain__pipeline__told_confirmed_stages_in_order_intake_last),
        cmocka_unit_test(test_drain__messages_queued_everywhere__all_pass_through),
        cmocka_unit_test(test_drain__stage_still_works__the_next_stays_open_until_it_has_ended),
        cmocka_unit_test(test_drain__work_and_shutdown_ready_at_intake__shutdown_first),
        cmocka_unit_test(test_drain__work_and_shutdown_ready_in_a_body__as_it_prefers),
        cmocka_unit_test(test_drain__asked_from_inside_a_task__same_drain),
        cmocka_unit_test(test_drain__task_waits_for_its_restart__not_restarted_not_waited_for),
        cmocka_unit_test(test_drain__task_fails_while_draining__told_and_not_restarted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
