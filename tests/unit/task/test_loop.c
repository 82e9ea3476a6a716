/* SPDX-License-Identifier: Apache-2.0 */
/* test_loop.c - what a loop task is called with, and when.
 *
 * Goal: batches keep order and size, wake-ups become empty batches and coalesce, a wake time is
 * never early and pins the task to its worker, a handler's error ends the task whatever its code.
 * Method: one small task per case on real workers; the handler records, the test thread judges. */
#include "chan/chan_priv.h"
#include "task/task_testing.h"
#include "unit/task/fixture.h"

#include <string.h>

#include <semaphore.h>

/* ---- batches --------------------------------------------------------------------------------- */

struct tape {
    struct fx_gate calls;
    uint64_t next; /* number expected next */
    bool in_order;
    size_t sizes[32];
    size_t size_count;
};

static enum ron_rc record_sizes(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct tape *tape = arg;

    (void)t;
    for (size_t i = 0; i < count; i++) {
        tape->in_order = tape->in_order && fx_number(items[i]) == tape->next;
        tape->next++;
    }
    if (tape->size_count < RON_ARRAY_LEN(tape->sizes)) {
        tape->sizes[tape->size_count++] = count;
    }
    fx_gate_add(&tape->calls, 1);
    return RON_OK;
}

/* Queues `messages` before the start, runs to the end and leaves the sizes in `tape`. */
static void play(struct tape *tape, enum ron_task_mode mode, uint32_t batch_max, uint32_t messages)
{
    struct fx *fx = fx_open(1);
    struct ron_chan *in = fx_chan(fx, "in", 256, RON_CHAN_REJECT);

    *tape = (struct tape){.next = 1, .in_order = true};
    fx_gate_init(&tape->calls);
    struct ron_task *t = fx_add(fx, &(struct ron_task_def){.name = "player",
                                                           .kind = "player",
                                                           .mode = mode,
                                                           .worker = RON_WORKER_ANY,
                                                           .input = in,
                                                           .batch_max = batch_max,
                                                           .handle = record_sizes,
                                                           .arg = tape});
    for (uint64_t i = 1; i <= messages; i++) {
        assert_true(fx_send(in, i));
    }
    fx_start(fx);
    fx_until(fx_task_stats(t).handled == messages);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_int_equal(fx_task_stats(t).starts, 1);
    assert_true(tape->in_order);
    assert_int_equal(tape->next, messages + 1);
    ron_chan_free(in);
    fx_gate_done(&tape->calls);
    assert_true(fx_close(fx));
}

static void test_loop__more_than_a_batch_queued__full_batches_in_order(void **state)
{
    static const enum ron_task_mode modes[] = {RON_TASK_LOOP, RON_TASK_BLOCKING};
    struct tape tape;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(modes); i++) {
        play(&tape, modes[i], 10, 95);
        assert_int_equal(tape.size_count, 10);
        assert_int_equal(tape.sizes[0], 10);
        assert_int_equal(tape.sizes[9], 5);

        play(&tape, modes[i], 0, 100);
        assert_int_equal(tape.size_count, 2);
        assert_int_equal(tape.sizes[0], RON_TASK_BATCH_DEFAULT);

        play(&tape, modes[i], RON_TASK_BATCH_MAX, 200);
        assert_int_equal(tape.size_count, 1);
    }
}

static void test_loop__nothing_queued__no_call_at_all(void **state)
{
    struct tape tape;

    (void)state;
    play(&tape, RON_TASK_LOOP, 4, 0);
    assert_int_equal(tape.size_count, 0);
}

/* ---- wake-ups -------------------------------------------------------------------------------- */

struct sleeper {
    struct tape tape;
    struct ron_au32 hold;
    struct fx_gate holding;
    sem_t release;
};

static enum ron_rc record_and_hold(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct sleeper *s = arg;
    enum ron_rc rc = record_sizes(t, &s->tape, items, count);

    if (ron_au32_load(&s->hold) != 0) {
        fx_gate_add(&s->holding, 1);
        (void)sem_wait(&s->release);
    }
    return rc;
}

static void sleeper_init(struct sleeper *s)
{
    *s = (struct sleeper){.tape = {.next = 1, .in_order = true}};
    fx_gate_init(&s->tape.calls);
    fx_gate_init(&s->holding);
    assert_int_equal(sem_init(&s->release, 0, 0), 0);
}

static void sleeper_done(struct sleeper *s)
{
    fx_gate_done(&s->tape.calls);
    fx_gate_done(&s->holding);
    (void)sem_destroy(&s->release);
}

static void test_loop__many_wake_ups_while_it_runs__one_empty_batch(void **state)
{
    struct fx *fx = fx_open(1);
    struct sleeper s;

    (void)state;
    sleeper_init(&s);
    struct ron_task *t = fx_add(fx, &(struct ron_task_def){.name = "sleeper",
                                                           .kind = "sleeper",
                                                           .worker = RON_WORKER_ANY,
                                                           .handle = record_and_hold,
                                                           .arg = &s});
    ron_au32_store(&s.hold, 1);
    fx_start(fx);
    assert_true(fx_gate_reached(&s.holding, 1)); /* a task without input is called once at first */
    ron_au32_store(&s.hold, 0);
    for (int i = 0; i < 100; i++) {
        ron_task_wake(t);
    }
    (void)sem_post(&s.release);
    assert_true(fx_gate_reached(&s.tape.calls, 2));
    fx_until(fx_sleepers(fx) == 1);
    assert_int_equal(fx_gate_count(&s.tape.calls), 2);
    assert_int_equal(s.tape.sizes[0], 0);
    assert_int_equal(s.tape.sizes[1], 0);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    sleeper_done(&s);
    assert_true(fx_close(fx));
}

static void test_loop__message_and_wake_up_together__batch_then_empty_batch(void **state)
{
    struct fx *fx = fx_open(1);
    struct ron_chan *in = fx_chan(fx, "in", 8, RON_CHAN_REJECT);
    struct sleeper s;

    (void)state;
    sleeper_init(&s);
    struct ron_task *t = fx_add(fx, &(struct ron_task_def){.name = "sleeper",
                                                           .kind = "sleeper",
                                                           .worker = RON_WORKER_ANY,
                                                           .input = in,
                                                           .handle = record_and_hold,
                                                           .arg = &s});
    ron_au32_store(&s.hold, 1);
    assert_true(fx_send(in, 1));
    fx_start(fx);
    assert_true(fx_gate_reached(&s.holding, 1));
    ron_au32_store(&s.hold, 0);
    assert_true(fx_send(in, 2));
    assert_true(fx_send(in, 3));
    ron_task_wake(t);
    (void)sem_post(&s.release);
    assert_true(fx_gate_reached(&s.tape.calls, 3));
    assert_int_equal(s.tape.sizes[0], 1);
    assert_int_equal(s.tape.sizes[1], 2);
    assert_int_equal(s.tape.sizes[2], 0);
    assert_true(s.tape.in_order);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    ron_chan_free(in);
    sleeper_done(&s);
    assert_true(fx_close(fx));
}

static void test_loop__woken_before_its_first_turn__empty_batch_not_lost(void **state)
{
    struct fx *fx = fx_open(1);
    struct ron_chan *in = fx_chan(fx, "in", 8, RON_CHAN_REJECT);
    struct sleeper first;
    struct sleeper s;

    (void)state;
    sleeper_init(&first);
    sleeper_init(&s);
    ron_au32_store(&first.hold, 1);
    /* The first task holds the only worker, so the second is queued but not yet started. */
    (void)fx_add(fx, &(struct ron_task_def){
                         .name = "first", .kind = "k", .handle = record_and_hold, .arg = &first});
    struct ron_task *t = fx_add(
        fx, &(struct ron_task_def){
                .name = "second", .kind = "k", .input = in, .handle = record_and_hold, .arg = &s});
    fx_start(fx);
    assert_true(fx_gate_reached(&first.holding, 1));
    fx_await(fx, RON_SUP_EVENT_STARTED, "second", 1);
    fx_until(ron_au32_load(&t->run) == RON__QUEUED);
    ron_task_wake(t);
    (void)sem_post(&first.release);
    assert_true(fx_gate_reached(&s.tape.calls, 1));
    assert_int_equal(s.tape.sizes[0], 0);
    ron_au32_store(&first.hold, 0);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    ron_chan_free(in);
    sleeper_done(&first);
    sleeper_done(&s);
    assert_true(fx_close(fx));
}

/* A task that waits for a watch beside its input, with its own waker. */
struct watcher {
    struct ron_watch *watch;
    struct ron_wait_node node;
    uint64_t seen;
    struct fx_gate changes;
    struct ron_au64 value;
};

static enum ron_rc watcher_start(struct ron_task *t, void *arg)
{
    struct watcher *w = arg;

    ron_wait_node_init(&w->node, ron_task_waker(t));
    return RON_OK;
}

static enum ron_rc watcher_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct watcher *w = arg;
    uint64_t value = 0;

    (void)t;
    (void)items;
    (void)count;
    while (ron_watch_poll(w->watch, w->seen, &w->node, &value, &w->seen) == RON_OK) {
        ron_au64_store(&w->value, value);
        fx_gate_add(&w->changes, 1);
    }
    return RON_OK;
}

static void watcher_stop(struct ron_task *t, void *arg)
{
    struct watcher *w = arg;

    (void)t;
    ron_watch_forget(w->watch, &w->node);
}

static void test_loop__own_waker_on_a_watch__called_for_each_change(void **state)
{
    struct fx *fx = fx_open(1);
    struct watcher w = {0};

    (void)state;
    fx_gate_init(&w.changes);
    assert_int_equal(ron_watch_new(&(struct ron_watch_opts){.registry = fx->reg,
                                                            .name = "level",
                                                            .producers = "test",
                                                            .consumers = "watcher",
                                                            .value = 7},
                                   &w.watch, NULL),
                     RON_OK);
    (void)fx_add(fx, &(struct ron_task_def){.name = "watcher",
                                            .kind = "watcher",
                                            .worker = RON_WORKER_ANY,
                                            .start = watcher_start,
                                            .handle = watcher_handle,
                                            .stop = watcher_stop,
                                            .arg = &w});
    fx_start(fx);
    assert_true(fx_gate_reached(&w.changes, 1)); /* late as it is, it sees the present value */
    assert_int_equal(ron_au64_load(&w.value), 7);
    for (uint64_t i = 1; i <= 50; i++) {
        ron_watch_set(w.watch, 100 + i);
        assert_true(fx_gate_reached(&w.changes, 1 + i));
        assert_int_equal(ron_au64_load(&w.value), 100 + i);
    }
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    ron_watch_free(w.watch);
    fx_gate_done(&w.changes);
    assert_true(fx_close(fx));
}

/* ---- wake times ------------------------------------------------------------------------------ */

enum order { NOTHING, ARM, FORGET };

struct alarm_task {
    struct ron_task *task;
    struct fx_gate ticks;
    struct ron_au32 order; /* obeyed by the next call */
    struct ron_au32 far;   /* ARM: an hour instead of DELAY_MS */
    struct ron_aptr ran_on;
    struct ron_stat early;
    uint64_t due_ms; /* 0: none */
    struct ron_single_writer writer;
};

enum { DELAY_MS = 20 };

static enum ron_rc alarm_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct alarm_task *a = arg;
    uint64_t now_ms = ron_mono_ns() / RON_NS_PER_MS;

    (void)items;
    (void)count;
    ron_single_writer_check(&a->writer, "alarm"); /* the writer is the task, not its thread */
    ron_aptr_store(&a->ran_on, ron_thread_self());
    if (a->due_ms != 0 && ron_au32_load(&a->order) == NOTHING) {
        ron_stat_add(&a->early, now_ms < a->due_ms || ron_task_now_ms(t) < a->due_ms);
        a->due_ms = 0;
    }
    switch ((enum order)ron_au32_xchg(&a->order, NOTHING)) {
    case ARM:
        /* The second replaces the first, which would come at once. */
        ron_task_wake_at(t, ron_task_now_ms(t));
        a->due_ms = now_ms + (ron_au32_load(&a->far) != 0 ? 3600000 : DELAY_MS);
        ron_task_wake_at(t, a->due_ms);
        break;
    case FORGET:
        ron_task_wake_at(t, ron_task_now_ms(t));
        ron_task_wake_at(t, UINT64_MAX);
        a->due_ms = 0;
        break;
    case NOTHING:
        break;
    }
    fx_gate_add(&a->ticks, 1);
    return RON_OK;
}

static void alarm_add(struct fx *fx, struct alarm_task *a, const char *name)
{
    *a = (struct alarm_task){.order = {NOTHING}};
    fx_gate_init(&a->ticks);
    a->task = fx_add(fx, &(struct ron_task_def){.name = name,
                                                .kind = "alarm",
                                                .worker = RON_WORKER_ANY,
                                                .handle = alarm_handle,
                                                .arg = a});
}

static void test_loop__wake_time__comes_once_and_not_early(void **state)
{
    enum { ROUNDS = 10 };
    struct fx *fx = fx_open(2);
    struct alarm_task a;

    (void)state;
    alarm_add(fx, &a, "alarm");
    fx_start(fx);
    assert_true(fx_gate_reached(&a.ticks, 1));
    for (uint64_t i = 0; i < ROUNDS; i++) {
        ron_au32_store(&a.order, ARM);
        ron_task_wake(a.task);
        assert_true(fx_gate_reached(&a.ticks, 3 + 2 * i)); /* the wake-up and the wake time */
    }
    fx_until(fx_sleepers(fx) == 2);
    assert_int_equal(fx_gate_count(&a.ticks), 1 + 2 * ROUNDS);
    assert_int_equal(ron_stat_get(&a.early), 0);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    fx_gate_done(&a.ticks);
    assert_true(fx_close(fx));
}

static void test_loop__wake_time_forgotten__does_not_come(void **state)
{
    struct fx *fx = fx_open(1);
    struct alarm_task a;
    struct alarm_task later;

    (void)state;
    alarm_add(fx, &a, "alarm");
    alarm_add(fx, &later, "later");
    ron_au32_store(&a.order, FORGET);
    ron_au32_store(&later.order, ARM);
    fx_start(fx);
    /* On one worker everything due before it has been called when the later one comes. */
    assert_true(fx_gate_reached(&later.ticks, 2));
    assert_int_equal(fx_gate_count(&a.ticks), 1);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    fx_gate_done(&a.ticks);
    fx_gate_done(&later.ticks);
    assert_true(fx_close(fx));
}

static enum ron_rc poke(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct alarm_task *a = arg;

    (void)t;
    (void)items;
    for (size_t i = 0; i < count; i++) {
        ron_task_wake(a->task);
    }
    return RON_OK;
}

/* Wakes the alarm from a task on that worker and tells on which thread it then ran. */
static void *poke_from(struct alarm_task *a, struct ron_chan *poker)
{
    uint64_t before = fx_gate_count(&a->ticks);

    assert_true(fx_send(poker, 1));
    assert_true(fx_gate_reached(&a->ticks, before + 1));
    fx_until(ron_au32_load(&a->task->run) == RON__IDLE); /* else the next wake finds it running */
    return ron_aptr_load(&a->ran_on);
}

static void test_loop__wake_time_pending__stays_on_its_worker(void **state)
{
    static const char *const names[] = {"poke0", "poke1"};
    struct fx *fx = fx_open(2);
    struct ron_chan *pokers[2];
    struct alarm_task a;
    void *home;

    (void)state;
    alarm_add(fx, &a, "alarm");
    for (int32_t i = 0; i < 2; i++) {
        pokers[i] = fx_chan(fx, names[i], 4, RON_CHAN_REJECT);
        (void)fx_add(fx, &(struct ron_task_def){.name = names[i],
                                                .kind = "poker",
                                                .worker = i,
                                                .input = pokers[i],
                                                .handle = poke,
                                                .arg = &a});
    }
    fx_start(fx);
    assert_true(fx_gate_reached(&a.ticks, 1));
    fx_until(ron_au32_load(&a.task->run) == RON__IDLE);
    /* Free, it runs where it is woken. */
    void *first = poke_from(&a, pokers[0]);
    void *second = poke_from(&a, pokers[1]);
    assert_ptr_not_equal(first, second);
    /* With a wake time it stays where it armed it. */
    ron_au32_store(&a.far, 1);
    ron_au32_store(&a.order, ARM);
    home = poke_from(&a, pokers[0]);
    assert_ptr_equal(home, first);
    for (int i = 0; i < 20; i++) {
        assert_ptr_equal(poke_from(&a, pokers[i % 2]), home);
    }
    ron_au32_store(&a.order, FORGET);
    assert_ptr_equal(poke_from(&a, pokers[1]), home);
    assert_ptr_equal(poke_from(&a, pokers[1]), second);
    /* Once the time has come it is free again. */
    ron_au32_store(&a.far, 0);
    ron_au32_store(&a.order, ARM);
    uint64_t before = fx_gate_count(&a.ticks);
    assert_ptr_equal(poke_from(&a, pokers[0]), first);
    assert_true(fx_gate_reached(&a.ticks, before + 2));
    fx_until(ron_au32_load(&a.task->run) == RON__IDLE);
    assert_ptr_equal(poke_from(&a, pokers[1]), second);
    /* It ends with a wake time pending: the wheel must be clean afterwards. */
    ron_au32_store(&a.far, 1);
    ron_au32_store(&a.order, ARM);
    (void)poke_from(&a, pokers[0]);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    ron_chan_free(pokers[0]);
    ron_chan_free(pokers[1]);
    fx_gate_done(&a.ticks);
    assert_true(fx_close(fx));
}

/* ---- timers of a fixed task ------------------------------------------------------------------ */

struct timers {
    struct ron_timer wanted;
    struct ron_timer unwanted;
    uint64_t due_ms;
    struct ron_single_writer writer;
    const char *task;
};

static struct fx_gate timers_fired;
static struct ron_stat timers_wrong;

static void on_wanted(struct ron_timer *timer)
{
    struct timers *ts = RON_CONTAINER_OF(timer, struct timers, wanted);

    ron_stat_add(&timers_wrong, ron_mono_ns() / RON_NS_PER_MS < ts->due_ms);
    /* It runs as its task: the same writer, under the same name. */
    ron_single_writer_check(&ts->writer, "state of the task");
    ron_stat_add(&timers_wrong,
                 ron_ctx_current()->task == NULL || strcmp(ron_ctx_current()->task, ts->task) != 0);
    fx_gate_add(&timers_fired, 1);
}

static void on_unwanted(struct ron_timer *timer)
{
    (void)timer;
    ron_stat_add(&timers_wrong, 1);
}

static enum ron_rc timers_start(struct ron_task *t, void *arg)
{
    struct timers *ts = arg;

    ts->task = ron_task_name(t);
    ron_single_writer_check(&ts->writer, "state of the task");
    ron_timer_init(&ts->wanted, on_wanted);
    ron_timer_init(&ts->unwanted, on_unwanted);
    ts->due_ms = ron_task_now_ms(t) + DELAY_MS;
    ron_task_timer_arm(t, &ts->unwanted, ts->due_ms - 1);
    ron_task_timer_arm(t, &ts->wanted, ts->due_ms);
    ron_task_timer_cancel(t, &ts->unwanted);
    return RON_OK;
}

static enum ron_rc do_nothing(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)arg;
    (void)items;
    (void)count;
    return RON_OK;
}

static void timers_stop(struct ron_task *t, void *arg)
{
    struct timers *ts = arg;

    ron_task_timer_cancel(t, &ts->wanted); /* harmless when it has fired */
}

static void test_loop__own_timers__armed_fires_cancelled_does_not(void **state)
{
    struct fx *fx = fx_open(2);
    struct timers ts = {.due_ms = 0};

    (void)state;
    fx_gate_init(&timers_fired);
    (void)fx_add(fx, &(struct ron_task_def){.name = "timers",
                                            .kind = "timers",
                                            .worker = 1,
                                            .start = timers_start,
                                            .handle = do_nothing,
                                            .stop = timers_stop,
                                            .arg = &ts});
    fx_start(fx);
    assert_true(fx_gate_reached(&timers_fired, 1));
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_int_equal(ron_stat_get(&timers_wrong), 0);
    fx_gate_done(&timers_fired);
    assert_true(fx_close(fx));
}

/* ---- results --------------------------------------------------------------------------------- */

static enum ron_rc fail_with(struct ron_task *t, void *arg, void **items, size_t count)
{
    enum ron_rc rc = *(enum ron_rc *)arg;

    (void)items;
    (void)count;
    ron_task_set_error(t, &(struct ron_err){.rc = rc, .msg = "as told"});
    return rc;
}

static void test_loop__handler_returns_any_error__task_failed_not_process(void **state)
{
    static enum ron_rc codes[] = {RON_AGAIN, RON_CLOSED, RON_FULL, RON_IO, RON_INTERNAL};
    static const enum ron_task_mode modes[] = {RON_TASK_LOOP, RON_TASK_BLOCKING};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(codes) * RON_ARRAY_LEN(modes); i++) {
        struct fx *fx = fx_open(1);
        struct ron_chan *in = fx_chan(fx, "in", 4, RON_CHAN_REJECT);

        (void)fx_add(fx, &(struct ron_task_def){.name = "failing",
                                                .kind = "failing",
                                                .mode = modes[i % RON_ARRAY_LEN(modes)],
                                                .worker = RON_WORKER_ANY,
                                                .input = in,
                                                .restart = {.when = RON_RESTART_NEVER},
                                                .handle = fail_with,
                                                .arg = &codes[i / RON_ARRAY_LEN(modes)]});
        fx_start(fx);
        assert_true(fx_send(in, 1));
        fx_await(fx, RON_SUP_EVENT_FAILED, "failing", 1);
        const struct fx_event *e = fx_find(fx, RON_SUP_EVENT_FAILED, "failing");
        assert_int_equal(e->rc, codes[i / RON_ARRAY_LEN(modes)]);
        assert_string_equal(e->message, "as told");
        fx_until(fx_health(fx).degraded);
        assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
        ron_chan_free(in);
        assert_true(fx_close(fx));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop__more_than_a_batch_queued__full_batches_in_order),
        cmocka_unit_test(test_loop__nothing_queued__no_call_at_all),
        cmocka_unit_test(test_loop__many_wake_ups_while_it_runs__one_empty_batch),
        cmocka_unit_test(test_loop__message_and_wake_up_together__batch_then_empty_batch),
        cmocka_unit_test(test_loop__woken_before_its_first_turn__empty_batch_not_lost),
        cmocka_unit_test(test_loop__own_waker_on_a_watch__called_for_each_change),
        cmocka_unit_test(test_loop__wake_time__comes_once_and_not_early),
        cmocka_unit_test(test_loop__wake_time_forgotten__does_not_come),
        cmocka_unit_test(test_loop__wake_time_pending__stays_on_its_worker),
        cmocka_unit_test(test_loop__own_timers__armed_fires_cancelled_does_not),
        cmocka_unit_test(test_loop__handler_returns_any_error__task_failed_not_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
