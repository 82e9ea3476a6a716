/* SPDX-License-Identifier: Apache-2.0 */
/* test_rules.c - what a callback must not do, and what happens when it does.
 *
 * Goal: a lock held when a callback returns, or a blocking call on a worker, aborts with the names
 * of task and lock in every build but release, where it is counted and the service goes on.
 * Misuse of the task functions asserts in every build.
 * Method: each breach in a process of its own. */
#include "unit/task/fixture.h"

#include "ron/base/env.h"
#include "task/task_testing.h"

/* What the task does wrong, and where. */
enum place { IN_START, IN_HANDLE, IN_DRAIN, IN_STOP, IN_RUN, IN_READY, PLACES };
enum breach { KEEP_LOCK, PARK, RECEIVE, OPEN_FILE, BREACHES };

struct sinner {
    enum place place;
    enum breach breach;
    struct ron_mutex mu;
    struct ron_chan *empty;
    struct ron_io io;
    struct fx_gate done;
    bool did;
};

static void sin_once(struct sinner *s, struct ron_task *t)
{
    void *item = NULL;
    int fd = -1;

    if (s->did) {
        return;
    }
    s->did = true;
    switch (s->breach) {
    case KEEP_LOCK:
        ron_mutex_lock(&s->mu);
        break;
    case PARK:
        (void)ron_park_until(ron_deadline_after_ms(ron_mono_ns(), 1), "a nap");
        break;
    case RECEIVE:
        (void)!ron_chan_recv(s->empty, ron_deadline_after_ms(ron_mono_ns(), 1), &item);
        break;
    case OPEN_FILE:
        (void)!ron_task_env(t)->disk->open(ron_task_env(t), "/proc/self/stat", RON_OPEN_READ, 0,
                                           &fd, NULL);
        break;
    case BREACHES:
        break;
    }
}

static void on_ready(struct ron_io *io, uint32_t events)
{
    struct sinner *s = RON_CONTAINER_OF(io, struct sinner, io);

    (void)events;
    ron_io_forget(io);
    sin_once(s, NULL);
}

static enum ron_rc sinner_start(struct ron_task *t, void *arg)
{
    struct sinner *s = arg;

    if (s->place == IN_START) {
        sin_once(s, t);
    } else if (s->place == IN_READY) {
        RON_TRY(ron_io_watch(t, &s->io, RON_IO_READ));
    }
    return RON_OK;
}

static enum ron_rc sinner_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct sinner *s = arg;

    (void)items;
    (void)count;
    if (ron_mutex_held(&s->mu)) { /* release builds come back */
        ron_mutex_unlock(&s->mu);
    }
    if (s->place == IN_HANDLE && !s->did) {
        sin_once(s, t);
        ron_task_wake(t);
    } else if (s->place != IN_READY) { /* the descriptor has its turn after this one */
        fx_gate_add(&s->done, 1);
    }
    return RON_OK;
}

static void sinner_drain(struct ron_task *t, void *arg)
{
    struct sinner *s = arg;

    if (s->place == IN_DRAIN) {
        sin_once(s, t);
    }
    ron_task_intake_stopped(t);
}

static void sinner_stop(struct ron_task *t, void *arg)
{
    struct sinner *s = arg;

    if (s->place == IN_STOP) {
        sin_once(s, t);
    }
}

static enum ron_rc sinner_run(struct ron_task *t, void *arg)
{
    sin_once(arg, t);
    return RON_OK;
}

/* Runs the whole life of a sinner; in a checked build it does not come back. */
static uint64_t sin_and_count(struct sinner *s, enum ron_sync_breach kind)
{
    struct fx *fx = fx_open(1);
    int fds[2];

    fx_gate_init(&s->done);
    ron_mutex_init(&s->mu, RON_RANK_SHARED, "precious");
    s->empty = fx_chan(fx, "empty", 1, RON_CHAN_WAIT);
    RON_ASSERT(pipe(fds) == 0);
    RON_ASSERT(write(fds[1], "x", 1) == 1);
    s->io = (struct ron_io){.fd = fds[0], .ready = on_ready};
    struct ron_task_def def = {.name = "sinner",
                               .kind = "sinner",
                               .role = RON_ROLE_INTAKE,
                               .start = sinner_start,
                               .handle = sinner_handle,
                               .drain = sinner_drain,
                               .stop = sinner_stop,
                               .arg = s};
    if (s->place == IN_RUN) {
        def = (struct ron_task_def){.name = "sinner",
                                    .kind = "sinner",
                                    .mode = RON_TASK_BLOCKING,
                                    .run = sinner_run,
                                    .arg = s};
    }
    (void)fx_add(fx, &def);
    fx_start(fx);
    if (s->place == IN_RUN) {
        (void)fx_has(fx, RON_SUP_EVENT_ENDED, "sinner", 1);
    } else {
        (void)fx_gate_reached(&s->done, 1);
    }
    (void)fx_stop(fx);
    return ron_sync_violations(kind);
}

static void held_body(void *ret, void *arg)
{
    *(uint64_t *)ret = sin_and_count(arg, RON_BREACH_HELD);
}

static void loop_body(void *ret, void *arg)
{
    *(uint64_t *)ret = sin_and_count(arg, RON_BREACH_LOOP);
}

static void held_dies(void *arg)
{
    uint64_t count;

    held_body(&count, arg);
}

static void loop_dies(void *arg)
{
    uint64_t count;

    loop_body(&count, arg);
}

static const char *const returns[PLACES] = {"return of start", "return of handle",
                                            "return of drain", "return of stop",
                                            "return of run",   "return of ready"};

static void test_rules__lock_held_when_a_callback_returns__caught(void **state)
{
    (void)state;
    for (int place = 0; place < PLACES; place++) {
        struct sinner s = {.place = (enum place)place, .breach = KEEP_LOCK};

#if RON_CHECKED
        (void)held_body;
        support_death(held_dies, &s, "sync breach held", returns[place], "precious(20)",
                      "task sinner");
#else
        uint64_t count = 0;

        (void)held_dies;
        (void)returns;
        if (place == IN_HANDLE) { /* only here somebody gives the lock back */
            fx_child(held_body, &s, &count, sizeof count);
            assert_in_range(count, 1, 8);
        }
#endif
    }
}

static void test_rules__blocking_call_on_a_worker__caught(void **state)
{
    static const char *const names[BREACHES] = {"", "a nap", "empty", "open"};

    (void)state;
    for (int breach = PARK; breach < BREACHES; breach++) {
        struct sinner s = {.place = IN_HANDLE, .breach = (enum breach)breach};

#if RON_CHECKED
        (void)loop_body;
        support_death(loop_dies, &s, "sync breach loop", names[breach], "task sinner", "loop-0");
#else
        uint64_t count = 0;

        (void)loop_dies;
        (void)names;
        fx_child(loop_body, &s, &count, sizeof count);
        assert_in_range(count, 1, 4);
#endif
    }
}

static void test_rules__blocking_call_in_a_blocking_task__allowed(void **state)
{
    (void)state;
    for (int breach = PARK; breach < BREACHES; breach++) {
        struct sinner s = {.place = IN_RUN, .breach = (enum breach)breach};
        uint64_t count = 1;

        fx_child(loop_body, &s, &count, sizeof count);
        assert_int_equal(count, 0);
    }
}

/* ---- misuse of the task functions ------------------------------------------------------------ */

enum misuse { WATCH_UNFIXED, TIMER_UNFIXED, WAKE_AT_BLOCKING, INTAKE_WORD_OF_A_STAGE, MISUSES };

static void no_timer(struct ron_timer *timer)
{
    (void)timer;
}

static enum ron_rc misuse(struct ron_task *t, void *arg)
{
    struct ron_io io = {.fd = 0, .ready = on_ready};
    struct ron_timer timer;

    ron_timer_init(&timer, no_timer);
    switch (*(enum misuse *)arg) {
    case WATCH_UNFIXED:
        return ron_io_watch(t, &io, RON_IO_READ);
    case TIMER_UNFIXED:
        ron_task_timer_arm(t, &timer, 0);
        break;
    case WAKE_AT_BLOCKING:
        ron_task_wake_at(t, 0);
        break;
    case INTAKE_WORD_OF_A_STAGE:
        ron_task_intake_stopped(t);
        break;
    case MISUSES:
        break;
    }
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

static void run_misuse(void *arg)
{
    struct fx *fx = fx_open(1);
    struct ron_task_def def = {.name = "misuser",
                               .kind = "misuser",
                               .worker = RON_WORKER_ANY,
                               .start = misuse,
                               .handle = do_nothing,
                               .arg = arg};

    if (*(enum misuse *)arg == WAKE_AT_BLOCKING) {
        def = (struct ron_task_def){.name = "misuser",
                                    .kind = "misuser",
                                    .mode = RON_TASK_BLOCKING,
                                    .run = misuse,
                                    .arg = arg};
    }
    (void)fx_add(fx, &def);
    fx_start(fx);
    (void)fx_join(fx);
}

static void test_rules__task_function_misused__asserts(void **state)
{
    static const char *const texts[MISUSES] = {"RON_WORKER_ANY", "RON_WORKER_ANY", "RON_TASK_LOOP",
                                               "RON_ROLE_INTAKE"};

    (void)state;
    for (int i = 0; i < MISUSES; i++) {
        enum misuse m = (enum misuse)i;

        support_death(run_misuse, &m, texts[i], "task misuser");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules__lock_held_when_a_callback_returns__caught),
        cmocka_unit_test(test_rules__blocking_call_on_a_worker__caught),
        cmocka_unit_test(test_rules__blocking_call_in_a_blocking_task__allowed),
        cmocka_unit_test(test_rules__task_function_misused__asserts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
