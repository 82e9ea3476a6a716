/* SPDX-License-Identifier: Apache-2.0 */
/* test_abort.c - what does not end by the drain deadline.
 *
 * Goal: every kind of wait returns RON_CANCELLED when its task is aborted, and nothing is lost by
 * it; aborted and cancelled tasks are counted by kind, once; tasks behind the stuck one still
 * drain; what cannot be joined is counted as leaked, unless it was declared detached. Method:
 * virtual time, so the deadline passes at a chosen millisecond. A task that really cannot be joined
 * lives in a process of its own. */
#include "unit/task/fixture.h"

#include <semaphore.h>

#include "chan/chan_priv.h"
#include "chan/chan_testing.h"
#include "ron/chan/bus.h"
#include "ron/chan/oneshot.h"
#include "sync/sync_testing.h"
#include "task/task_priv.h"

enum { DEADLINE_MS = RON_DRAIN_DEADLINE_DEFAULT_MS };

/* Asks for a stop and lets the deadline pass, having shown that nothing is aborted before it. */
static void pass_deadline(struct fx *fx)
{
    ron_sup_request_stop(fx->sup);
    fx_until(fx_health(fx).state == RON_SUP_DRAINING);
    fx_more_looks(fx);
    fx_advance_ms(fx, DEADLINE_MS - 1);
    fx_more_looks(fx);
    assert_int_equal(fx_count(fx, RON_SUP_EVENT_ABORTED, NULL), 0);
    assert_int_equal(fx_health(fx).state, RON_SUP_DRAINING);
    fx_advance_ms(fx, 1);
}

/* ---- every kind of wait ---------------------------------------------------------------------- */

/* X(NAME, "task name") */
#define WAITS(X)                                                                                   \
    X(RECV, "recv")                                                                                \
    X(RECV_MANY, "recv-many")                                                                      \
    X(RECV_TIMED, "recv-timed")                                                                    \
    X(SEND, "send")                                                                                \
    X(SEND_RETRY, "send-retry")                                                                    \
    X(WATCH, "watch")                                                                              \
    X(ONESHOT, "oneshot")                                                                          \
    X(BUS, "bus")                                                                                  \
    X(RECV_OR_CHANGED, "recv-or-changed")                                                          \
    X(PARK, "park")

enum wait_kind {
#define X(name, text) WAIT_##name,
    WAITS(X)
#undef X
        WAIT_COUNT
};

static const char *const wait_names[WAIT_COUNT] = {
#define X(name, text) text,
    WAITS(X)
#undef X
};

struct waits {
    struct ron_chan *empty;
    struct ron_chan *full;
    struct ron_chan *retry;
    struct ron_watch *watch;
    struct ron_bus *bus;
    struct fx_gate waiting;
};

struct waiter {
    enum wait_kind kind;
    struct waits *w;
};

static void drop_answer(void *value)
{
    (void)value;
}

static enum ron_rc wait_for_answer(void)
{
    struct ron_oneshot *slot = NULL;
    void *value = NULL;
    enum ron_rc rc;

    RON_TRY(ron_oneshot_new(drop_answer, &slot));
    rc = ron_oneshot_wait(slot, ron_deadline_never(), &value);
    ron_oneshot_leave(slot);
    ron_oneshot_drop(slot);
    return rc;
}

static enum ron_rc wait_for_bus(struct ron_bus *bus)
{
    struct ron_bus_reader reader;
    uint64_t message = 0;
    uint64_t missed = 0;
    size_t n = 0;
    enum ron_rc rc;

    RON_TRY(ron_bus_subscribe(bus, &reader, NULL, NULL));
    rc = ron_bus_recv(&reader, &message, 1, ron_deadline_never(), &n, &missed);
    ron_bus_unsubscribe(&reader);
    return rc;
}

static enum ron_rc wait_run(struct ron_task *t, void *arg)
{
    struct waiter *me = arg;
    struct waits *w = me->w;
    struct ron_deadline never = ron_deadline_never();
    uint64_t seen = 0;
    uint64_t value = ron_watch_get(w->watch, &seen);
    void *items[4];
    size_t n = 0;
    enum ron_rc rc = RON_OK;

    (void)t;
    fx_gate_add(&w->waiting, 1);
    switch (me->kind) {
    case WAIT_RECV:
        return ron_chan_recv(w->empty, never, items);
    case WAIT_RECV_MANY:
        return ron_chan_recv_many(w->empty, items, RON_ARRAY_LEN(items), never, &n);
    case WAIT_RECV_TIMED:
        do { /* a wait with deadlines, as in a body that also has other things to do */
            rc = ron_chan_recv(w->empty, ron_deadline_after_ms(ron_mono_ns(), 5), items);
        } while (rc == RON_TIMEOUT);
        return rc;
    case WAIT_SEND:
        return ron_chan_send(w->full, fx_item(2), never, NULL);
    case WAIT_SEND_RETRY:
        do {
            rc = ron_chan_send(w->retry, fx_item(2), never, NULL);
        } while (rc == RON_FULL);
        return rc;
    case WAIT_WATCH:
        return ron_watch_wait(w->watch, seen, never, &value, &seen);
    case WAIT_ONESHOT:
        return wait_for_answer();
    case WAIT_BUS:
        return wait_for_bus(w->bus);
    case WAIT_RECV_OR_CHANGED:
        return ron_chan_recv_or_changed(w->empty, w->watch, seen, true, items, RON_ARRAY_LEN(items),
                                        never, &n);
    case WAIT_PARK:
        do {
            rc = ron_park_until(never, "test");
        } while (rc == RON_OK);
        return rc;
    case WAIT_COUNT:
        break;
    }
    return RON_INTERNAL;
}

static void waits_open(struct waits *w, struct fx *fx)
{
    fx_gate_init(&w->waiting);
    w->empty = fx_chan(fx, "empty", 4, RON_CHAN_REJECT);
    w->full = fx_chan(fx, "full", 1, RON_CHAN_WAIT);
    w->retry = fx_chan(fx, "retry", 1, RON_CHAN_RETRY_ONCE);
    assert_true(fx_send(w->full, 1));
    assert_true(fx_send(w->retry, 1));
    assert_int_equal(ron_watch_new(&(struct ron_watch_opts){.registry = fx->reg,
                                                            .name = "level",
                                                            .producers = "test",
                                                            .consumers = "test",
                                                            .value = 1},
                                   &w->watch, NULL),
                     RON_OK);
    assert_int_equal(ron_bus_new(&(struct ron_bus_opts){.registry = fx->reg,
                                                        .name = "news",
                                                        .producers = "test",
                                                        .consumers = "test",
                                                        .capacity = 4,
                                                        .message_bytes = sizeof(uint64_t),
                                                        .readers_max = 2},
                                 &w->bus, NULL),
                     RON_OK);
}

static void waits_close(struct waits *w)
{
    ron_chan_free(w->empty);
    ron_chan_free(w->full);
    ron_chan_free(w->retry);
    ron_watch_free(w->watch);
    ron_bus_free(w->bus);
    fx_gate_done(&w->waiting);
}

static void test_abort__task_in_any_kind_of_wait__cancelled_and_nothing_lost(void **state)
{
    struct fx *fx = fx_open_virtual(1);
    struct waiter waiters[WAIT_COUNT];
    struct ron_chan_stats full;
    struct waits w;

    (void)state;
    waits_open(&w, fx);
    for (int i = 0; i < WAIT_COUNT; i++) {
        waiters[i] = (struct waiter){.kind = (enum wait_kind)i, .w = &w};
        (void)fx_add(fx, &(struct ron_task_def){.name = wait_names[i],
                                                .kind = wait_names[i],
                                                .mode = RON_TASK_BLOCKING,
                                                .run = wait_run,
                                                .arg = &waiters[i]});
    }
    fx_start(fx);
    assert_true(fx_gate_reached(&w.waiting, WAIT_COUNT));
    pass_deadline(fx);
    assert_int_equal(fx_join(fx), RON_EXIT_ABORTED);
    for (int i = 0; i < WAIT_COUNT; i++) {
        const struct fx_event *e = fx_find(fx, RON_SUP_EVENT_ENDED, wait_names[i]);

        assert_non_null(e);
        assert_int_equal(e->rc, RON_CANCELLED);
        assert_int_equal(fx_kind(fx, wait_names[i]).spawned, 1);
        assert_int_equal(fx_kind(fx, wait_names[i]).aborted, 1);
        assert_int_equal(fx_kind(fx, wait_names[i]).canceled, 1);
    }
    ron_chan_get_stats(w.full, &full);
    assert_int_equal(full.sent, 1); /* the sender that was cancelled kept its message */
    assert_int_equal(full.depth, 1);
    assert_int_equal(fx_count(fx, RON_SUP_EVENT_LEAKED, NULL), 0);
    waits_close(&w);
    assert_true(fx_close(fx));
}

/* ---- one stuck among others ------------------------------------------------------------------ */

struct stuck {
    struct fx_gate stuck_at_ten;
    struct fx_gate served;
};

/* Handles nine messages and waits for ever in the tenth, cancellably. */
static enum ron_rc handle_ten(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct stuck *s = arg;
    enum ron_rc rc = RON_OK;

    (void)t;
    for (size_t i = 0; i < count; i++) {
        if (fx_number(items[i]) == 10) {
            fx_gate_add(&s->stuck_at_ten, 1);
            while (rc == RON_OK) {
                rc = ron_park_until(ron_deadline_never(), "for ever");
            }
        }
    }
    return rc;
}

static enum ron_rc serve(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct stuck *s = arg;

    (void)t;
    (void)items;
    fx_gate_add(&s->served, count);
    return RON_OK;
}

struct slow {
    struct fx_gate begun;
    struct ron_stat handled;
};

/* Busy until it is aborted, with more messages behind: it never reaches a wait that says so. */
static enum ron_rc handle_until_aborted(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct slow *s = arg;

    (void)items;
    ron_stat_add(&s->handled, count);
    fx_gate_add(&s->begun, 1);
    while (ron_au32_load(&t->ask_abort) == 0) {
        ron_spin_pause();
    }
    return RON_OK;
}

static void test_abort__worker_with_a_backlog__gives_it_up_and_is_joined(void **state)
{
    struct fx *fx = fx_open_virtual(1);
    struct ron_chan *in = fx_chan(fx, "in", 64, RON_CHAN_REJECT);
    struct slow s = {0};

    (void)state;
    fx_gate_init(&s.begun);
    (void)fx_add(fx, &(struct ron_task_def){.name = "slow",
                                            .kind = "worker",
                                            .mode = RON_TASK_BLOCKING,
                                            .stage = 1,
                                            .input = in,
                                            .batch_max = 1,
                                            .handle = handle_until_aborted,
                                            .arg = &s});
    for (uint64_t i = 1; i <= 50; i++) {
        assert_true(fx_send(in, i));
    }
    fx_start(fx);
    assert_true(fx_gate_reached(&s.begun, 1));
    ron_sup_request_stop(fx->sup);
    fx_until(fx_health(fx).state == RON_SUP_DRAINING);
    pass_deadline(fx);
    assert_int_equal(fx_join(fx), RON_EXIT_ABORTED);
    assert_int_equal(ron_sup_leaked(fx->sup), 0);
    assert_int_equal(fx_kind(fx, "worker").canceled, 1);
    assert_int_equal(ron_stat_get(&s.handled), 1);
    assert_int_equal(fx_find(fx, RON_SUP_EVENT_LEFT, "slow")->delay_ms, 49);
    ron_chan_free(in);
    fx_gate_done(&s.begun);
    assert_true(fx_close(fx));
}

static void test_abort__stuck_worker__counted_by_kind_and_exit_2(void **state)
{
    static const enum ron_sup_state states[] = {RON_SUP_RUNNING, RON_SUP_DRAINING, RON_SUP_ABORTING,
                                                RON_SUP_STOPPED};
    struct fx *fx = fx_open_virtual(1);
    struct ron_chan *in1 = fx_chan(fx, "in1", 64, RON_CHAN_REJECT);
    struct ron_chan *in2 = fx_chan(fx, "in2", 64, RON_CHAN_REJECT);
    struct stuck s;
    struct ron_chan_stats in;
    size_t n = 0;

    (void)state;
    fx_gate_init(&s.stuck_at_ten);
    fx_gate_init(&s.served);
    struct ron_task *t = fx_add(fx, &(struct ron_task_def){.name = "stuck",
                                                           .kind = "worker",
                                                           .mode = RON_TASK_BLOCKING,
                                                           .stage = 1,
                                                           .input = in1,
                                                           .batch_max = 1,
                                                           .handle = handle_ten,
                                                           .arg = &s});
    (void)fx_add(fx, &(struct ron_task_def){.name = "next",
                                            .kind = "writer",
                                            .stage = 2,
                                            .worker = RON_WORKER_ANY,
                                            .input = in2,
                                            .handle = serve,
                                            .arg = &s});
    for (uint64_t i = 1; i <= 50; i++) {
        assert_true(fx_send(in1, i));
    }
    fx_start(fx);
    assert_true(fx_gate_reached(&s.stuck_at_ten, 1));
    ron_sup_request_stop(fx->sup);
    fx_until(fx_health(fx).state == RON_SUP_DRAINING);
    assert_true(fx_send(in2, 1)); /* the stage behind goes on while the one before it lives */
    assert_true(fx_gate_reached(&s.served, 1));
    pass_deadline(fx);
    assert_int_equal(fx_join(fx), RON_EXIT_ABORTED);

    assert_int_equal(fx_kind(fx, "worker").aborted, 1);
    assert_int_equal(fx_kind(fx, "worker").canceled, 1);
    assert_int_equal(fx_kind(fx, "writer").aborted, 0);
    assert_int_equal(fx_kind(fx, "writer").canceled, 0);
    assert_int_equal(fx_find(fx, RON_SUP_EVENT_ENDED, "next")->rc, RON_OK);
    assert_int_equal(fx_find(fx, RON_SUP_EVENT_ABORTED, "stuck")->state, RON_SUP_ABORTING);
    ron_chan_get_stats(in1, &in);
    assert_int_equal(fx_task_stats(t).handled, 10);
    assert_int_equal(in.sent, fx_task_stats(t).handled + in.depth); /* handled or left, all of it */
    for (size_t i = 0; i < fx->count; i++) {
        if (fx->log[i].kind == RON_SUP_EVENT_STATE) {
            assert_true(n < RON_ARRAY_LEN(states));
            assert_int_equal(fx->log[i].state, states[n++]);
        }
    }
    assert_int_equal(n, RON_ARRAY_LEN(states));
    ron_chan_free(in1);
    ron_chan_free(in2);
    fx_gate_done(&s.stuck_at_ten);
    fx_gate_done(&s.served);
    assert_true(fx_close(fx)); /* aborted is not leaked */
}

static void deaf_drain(struct ron_task *t, void *arg)
{
    (void)t;
    fx_gate_add(arg, 1); /* told, but never confirms */
}

static enum ron_rc do_nothing(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)arg;
    (void)items;
    (void)count;
    return RON_OK;
}

static void test_abort__intake_never_confirms__aborted_and_stages_still_drain(void **state)
{
    struct fx *fx = fx_open_virtual(1);
    struct ron_chan *in = fx_chan(fx, "in", 64, RON_CHAN_REJECT);
    struct fx_gate told;
    struct stuck s;

    (void)state;
    fx_gate_init(&told);
    fx_gate_init(&s.served);
    (void)fx_add(fx, &(struct ron_task_def){.name = "deaf",
                                            .kind = "listener",
                                            .role = RON_ROLE_INTAKE,
                                            .worker = RON_WORKER_ANY,
                                            .handle = do_nothing,
                                            .drain = deaf_drain,
                                            .arg = &told});
    (void)fx_add(fx, &(struct ron_task_def){.name = "stage",
                                            .kind = "worker",
                                            .worker = RON_WORKER_ANY,
                                            .input = in,
                                            .handle = serve,
                                            .arg = &s});
    fx_start(fx);
    ron_sup_request_stop(fx->sup);
    assert_true(fx_gate_reached(&told, 1));
    assert_false(ron_chan_is_closed(in)); /* stages wait for the confirmation */
    assert_true(fx_send(in, 1));
    pass_deadline(fx);
    assert_int_equal(fx_join(fx), RON_EXIT_ABORTED);
    assert_int_equal(fx_gate_count(&told), 1);
    assert_int_equal(fx_gate_count(&s.served), 1);
    assert_int_equal(fx_kind(fx, "listener").aborted, 1);
    assert_int_equal(fx_kind(fx, "listener").canceled, 1);
    assert_int_equal(fx_kind(fx, "worker").aborted, 0);
    assert_int_equal(fx_find(fx, RON_SUP_EVENT_ENDED, "deaf")->rc, RON_CANCELLED);
    ron_chan_free(in);
    fx_gate_done(&told);
    fx_gate_done(&s.served);
    assert_true(fx_close(fx));
}

/* ---- detached and leaked --------------------------------------------------------------------- */

static enum ron_rc park_for_ever(struct ron_task *t, void *arg)
{
    enum ron_rc rc = RON_OK;

    (void)t;
    fx_gate_add(arg, 1);
    while (rc == RON_OK) {
        rc = ron_park_until(ron_deadline_never(), "for ever");
    }
    return rc;
}

static void test_abort__detached_task__told_at_the_end_without_using_up_the_deadline(void **state)
{
    struct fx *fx = fx_open_virtual(1);
    struct fx_gate waiting;

    (void)state;
    fx_gate_init(&waiting);
    (void)fx_add(fx, &(struct ron_task_def){.name = "free",
                                            .kind = "reporter",
                                            .mode = RON_TASK_BLOCKING,
                                            .run = park_for_ever,
                                            .arg = &waiting,
                                            .detached_reason = "its report may be lost"});
    fx_start(fx);
    assert_true(fx_gate_reached(&waiting, 1));
    /* Virtual time stands still: nothing waits for the deadline. */
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_int_equal(fx_kind(fx, "reporter").aborted, 0);
    assert_int_equal(fx_kind(fx, "reporter").canceled, 1);
    fx_gate_done(&waiting);
    assert_true(fx_close(fx));
}

struct report {
    int exit_code;
    uint64_t leaked;
    uint64_t aborted;
    uint64_t leak_events;
    bool exec_freed;
    uint32_t threads_live;
    bool ended_later; /* once let go, it found all its memory still there */
};

struct unjoinable {
    struct fx_gate inside;
    sem_t never;
};

static enum ron_rc stuck_run(struct ron_task *t, void *arg)
{
    struct unjoinable *u = arg;

    (void)t;
    fx_gate_add(&u->inside, 1);
    (void)sem_wait(&u->never);
    return RON_OK;
}

static enum ron_rc stuck_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)items;
    (void)count;
    return stuck_run(t, arg);
}

static void never_called(struct ron_task *t, void *arg)
{
    (void)t;
    (void)arg;
}

/* Runs one task that cannot be ended, lets all deadlines pass and reports. In the child. */
static void leak_body(void *ret, void *arg)
{
    struct report *r = ret;
    struct ron_task_def def = *(const struct ron_task_def *)arg;
    struct fx *fx = fx_open_virtual(1);
    struct unjoinable u;

    fx_gate_init(&u.inside);
    (void)sem_init(&u.never, 0, 0);
    def.arg = &u;
    struct ron_task *t = fx_add(fx, &def);
    fx_start(fx);
    (void)fx_gate_reached(&u.inside, 1);
    ron_sup_request_stop(fx->sup);
    while (fx_gate_count(&fx->ended) == 0) {
        fx_advance_ms(fx, 100);
        (void)sched_yield();
    }
    r->exit_code = fx_join(fx);
    r->leaked = ron_sup_leaked(fx->sup);
    r->aborted = fx_kind(fx, "stuck").aborted;
    r->leak_events = fx_count(fx, RON_SUP_EVENT_LEAKED, "stuck");
    ron_sup_free(fx->sup); /* leaves alone what the task still uses */
    r->exec_freed = ron_exec_free(fx->exec);
    r->threads_live = ron_threads_live();
    (void)sem_post(&u.never);
    while (ron__sup_life(fx->sup, t) != RON__LIFE_ENDED) {
        (void)sched_yield(); /* the alarm of the child bounds this */
    }
    r->ended_later = true;
    /* Only for the thread sanitizer, which wants every thread joined in the end. */
    struct ron_thread *left = ron_aptr_load(&t->thread);
    ron_thread_join(left != NULL ? left : fx->exec->workers[0].thread);
}

static void test_abort__task_cannot_be_joined__leak_counted_and_run_fails(void **state)
{
    static const struct {
        struct ron_task_def def;
        struct report wanted;
    } cases[] = {
        {{.name = "stuck", .kind = "stuck", .mode = RON_TASK_BLOCKING, .run = stuck_run},
         {RON_EXIT_ABORTED, 1, 1, 1, true, 1, true}},
        {{.name = "stuck", .kind = "stuck", .handle = stuck_handle},
         {RON_EXIT_ABORTED, 1, 1, 1, false, 1, true}},
        /* Told twice, as one that does not confirm and as one that does not end: counted once. */
        {{.name = "stuck",
          .kind = "stuck",
          .role = RON_ROLE_INTAKE,
          .handle = stuck_handle,
          .drain = never_called},
         {RON_EXIT_ABORTED, 1, 1, 1, false, 1, true}},
        /* Declared: no leak, no failure. */
        {{.name = "stuck",
          .kind = "stuck",
          .mode = RON_TASK_BLOCKING,
          .run = stuck_run,
          .detached_reason = "a library call that cannot be interrupted"},
         {RON_EXIT_DRAINED, 0, 0, 0, true, 1, true}},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        struct ron_task_def def = cases[i].def;
        struct report r = {.exit_code = -1};

        fx_child(leak_body, &def, &r, sizeof r);
        assert_int_equal(r.exit_code, cases[i].wanted.exit_code);
        assert_int_equal(r.leaked, cases[i].wanted.leaked);
        assert_int_equal(r.aborted, cases[i].wanted.aborted);
        assert_int_equal(r.leak_events, cases[i].wanted.leak_events);
        assert_int_equal(r.exec_freed, cases[i].wanted.exec_freed);
        assert_int_equal(r.threads_live, cases[i].wanted.threads_live);
        assert_true(r.ended_later);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_abort__task_in_any_kind_of_wait__cancelled_and_nothing_lost),
        cmocka_unit_test(test_abort__worker_with_a_backlog__gives_it_up_and_is_joined),
        cmocka_unit_test(test_abort__stuck_worker__counted_by_kind_and_exit_2),
        cmocka_unit_test(test_abort__intake_never_confirms__aborted_and_stages_still_drain),
        cmocka_unit_test(test_abort__detached_task__told_at_the_end_without_using_up_the_deadline),
        cmocka_unit_test(test_abort__task_cannot_be_joined__leak_counted_and_run_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
