/* SPDX-License-Identifier: Apache-2.0 */
/* test_io.c - descriptors of a loop task.
 *
 * Goal: `ready` is called on the task's worker for what happens on a descriptor, never after
 * ron_io_forget, not even for an event that was already fetched with others.
 * Method: socket pairs on the Linux poller. To have two events in one round the worker is held in a
 * handler while both descriptors become readable. */
#include "unit/task/fixture.h"

#include <fcntl.h>
#include <semaphore.h>
#include <sys/socket.h>

enum { PEERS = 2 };

struct listener;

struct conn {
    struct ron_io io;
    struct listener *owner;
    int peer_fd; /* the test's end */
    uint64_t bytes;
    struct ron_stat calls;
    struct ron_au32 events; /* all ever reported */
};

struct listener {
    struct ron_task *task;
    struct conn conns[PEERS];
    struct fx_gate ready; /* calls of ready */
    struct fx_gate started;
    struct fx_gate ticks;
    struct ron_aptr thread;
    struct ron_stat wrong; /* calls on another thread, or inside a handler */
    bool inside;
    bool forget_other; /* the first to be called forgets the other */
    bool forget_self;
    struct ron_au32 hold;
    struct fx_gate holding;
    sem_t release;
};

static void on_ready(struct ron_io *io, uint32_t events)
{
    struct conn *c = RON_CONTAINER_OF(io, struct conn, io);
    struct listener *l = c->owner;
    char buf[64];
    ssize_t n = read(io->fd, buf, sizeof buf);

    ron_stat_add(&l->wrong, l->inside || ron_aptr_load(&l->thread) != ron_thread_self());
    ron_stat_add(&c->calls, 1);
    ron_au32_store(&c->events, ron_au32_load(&c->events) | events);
    c->bytes += n > 0 ? (uint64_t)n : 0;
    if (l->forget_other) {
        ron_io_forget(&l->conns[c == &l->conns[0]].io);
    }
    if (l->forget_self || (events & RON_IO_HUP) != 0) {
        ron_io_forget(io);
        ron_io_forget(io); /* a second time changes nothing */
    }
    fx_gate_add(&l->ready, 1);
}

static enum ron_rc listener_start(struct ron_task *t, void *arg)
{
    struct listener *l = arg;

    ron_aptr_store(&l->thread, ron_thread_self());
    for (size_t i = 0; i < PEERS; i++) {
        RON_TRY(ron_io_watch(t, &l->conns[i].io, RON_IO_READ));
    }
    fx_gate_add(&l->started, 1);
    return RON_OK;
}

static enum ron_rc listener_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct listener *l = arg;

    (void)t;
    (void)items;
    (void)count;
    l->inside = true;
    if (ron_au32_load(&l->hold) != 0) {
        fx_gate_add(&l->holding, 1);
        (void)sem_wait(&l->release);
    }
    l->inside = false;
    fx_gate_add(&l->ticks, 1);
    return RON_OK;
}

static void listener_stop(struct ron_task *t, void *arg)
{
    struct listener *l = arg;

    (void)t;
    for (size_t i = 0; i < PEERS; i++) {
        ron_io_forget(&l->conns[i].io);
    }
}

static struct fx *listener_open(struct listener *l)
{
    struct fx *fx = fx_open(2);

    *l = (struct listener){0};
    fx_gate_init(&l->ready);
    fx_gate_init(&l->started);
    fx_gate_init(&l->ticks);
    fx_gate_init(&l->holding);
    assert_int_equal(sem_init(&l->release, 0, 0), 0);
    for (size_t i = 0; i < PEERS; i++) {
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
                         0);
        l->conns[i] =
            (struct conn){.io = {.fd = fds[0], .ready = on_ready}, .owner = l, .peer_fd = fds[1]};
    }
    l->task = fx_add(fx, &(struct ron_task_def){.name = "listener",
                                                .kind = "listener",
                                                .worker = 1,
                                                .start = listener_start,
                                                .handle = listener_handle,
                                                .stop = listener_stop,
                                                .arg = l});
    return fx;
}

static void listener_close(struct listener *l, struct fx *fx)
{
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_int_equal(ron_stat_get(&l->wrong), 0);
    for (size_t i = 0; i < PEERS; i++) {
        (void)close(l->conns[i].io.fd);
        if (l->conns[i].peer_fd >= 0) {
            (void)close(l->conns[i].peer_fd);
        }
    }
    fx_gate_done(&l->ready);
    fx_gate_done(&l->started);
    fx_gate_done(&l->ticks);
    fx_gate_done(&l->holding);
    (void)sem_destroy(&l->release);
    assert_true(fx_close(fx));
}

static void say(struct listener *l, size_t i)
{
    assert_int_equal(write(l->conns[i].peer_fd, "x", 1), 1);
}

/* Holds the worker, lets both peers speak, and lets it go: both events come in one round. */
static void both_at_once(struct listener *l)
{
    ron_au32_store(&l->hold, 1);
    ron_task_wake(l->task);
    assert_true(fx_gate_reached(&l->holding, 1));
    say(l, 0);
    say(l, 1);
    ron_au32_store(&l->hold, 0);
    (void)sem_post(&l->release);
}

static void test_io__peer_writes__ready_on_the_task_worker(void **state)
{
    struct listener l;
    struct fx *fx = listener_open(&l);

    (void)state;
    fx_start(fx);
    assert_true(fx_gate_reached(&l.started, 1));
    for (uint64_t i = 1; i <= 100; i++) {
        say(&l, i % PEERS);
        assert_true(fx_gate_reached(&l.ready, i));
    }
    both_at_once(&l);
    assert_true(fx_gate_reached(&l.ready, 102));
    /* Read at once each time, so no level was reported twice. */
    assert_int_equal(fx_gate_count(&l.ready), 102);
    assert_int_equal(ron_stat_get(&l.conns[0].calls), 51);
    assert_int_equal(ron_au32_load(&l.conns[0].events), RON_IO_READ);
    listener_close(&l, fx);
    assert_int_equal(l.conns[0].bytes, 51);
    assert_int_equal(l.conns[1].bytes, 51);
}

static void test_io__forgotten_by_another_in_the_same_round__never_called(void **state)
{
    enum { ROUNDS = 20 };

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct listener l;
        struct fx *fx = listener_open(&l);

        l.forget_other = true;
        fx_start(fx);
        assert_true(fx_gate_reached(&l.started, 1));
        both_at_once(&l);
        assert_true(fx_gate_reached(&l.ready, 1));
        /* Two more rounds of the worker, with the other's byte unread: level-triggered, it would be
         * reported again if it were still watched. */
        for (uint64_t k = 0; k < 2; k++) {
            uint64_t ticks = fx_gate_count(&l.ticks);
            ron_task_wake(l.task);
            assert_true(fx_gate_reached(&l.ticks, ticks + 1));
        }
        assert_int_equal(fx_gate_count(&l.ready), 1);
        listener_close(&l, fx);
    }
}

static void test_io__forgets_itself__not_called_again(void **state)
{
    struct listener l;
    struct fx *fx = listener_open(&l);

    (void)state;
    l.forget_self = true;
    fx_start(fx);
    assert_true(fx_gate_reached(&l.started, 1));
    say(&l, 0);
    assert_true(fx_gate_reached(&l.ready, 1));
    say(&l, 0);
    say(&l, 1); /* comes after it */
    assert_true(fx_gate_reached(&l.ready, 2));
    assert_int_equal(ron_stat_get(&l.conns[0].calls), 1);
    assert_int_equal(ron_stat_get(&l.conns[1].calls), 1);
    listener_close(&l, fx);
}

static void test_io__peer_closes__hang_up_reported(void **state)
{
    struct listener l;
    struct fx *fx = listener_open(&l);

    (void)state;
    fx_start(fx);
    assert_true(fx_gate_reached(&l.started, 1));
    (void)close(l.conns[0].peer_fd);
    l.conns[0].peer_fd = -1;
    fx_until((ron_au32_load(&l.conns[0].events) & RON_IO_HUP) != 0);
    listener_close(&l, fx);
}

/* ---- watching what cannot be watched --------------------------------------------------------- */

static void never_ready(struct ron_io *io, uint32_t events)
{
    (void)io;
    (void)events;
}

static enum ron_rc watch_a_file(struct ron_task *t, void *arg)
{
    struct ron_io *io = arg;
    enum ron_rc rc = ron_io_watch(t, io, RON_IO_READ);

    ron_io_forget(io);
    return rc;
}

static enum ron_rc do_nothing(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)arg;
    (void)items;
    (void)count;
    return RON_OK;
}

static void test_io__descriptor_that_cannot_be_watched__error_not_abort(void **state)
{
    struct fx *fx = fx_open(1);
    struct ron_io io = {.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), .ready = never_ready};

    (void)state;
    assert_true(io.fd >= 0);
    (void)fx_add(fx, &(struct ron_task_def){.name = "file",
                                            .kind = "file",
                                            .restart = {.when = RON_RESTART_NEVER},
                                            .start = watch_a_file,
                                            .handle = do_nothing,
                                            .arg = &io});
    fx_start(fx);
    fx_await(fx, RON_SUP_EVENT_FAILED, "file", 1); /* epoll refuses plain files */
    assert_int_equal(fx_find(fx, RON_SUP_EVENT_FAILED, "file")->rc, RON_DENIED);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    (void)close(io.fd);
    assert_true(fx_close(fx));
}

static void test_io__poller_without_descriptors__unsupported(void **state)
{
    struct fx *fx = fx_open_virtual(1);
    struct ron_io io = {.fd = 0, .ready = never_ready};

    (void)state;
    (void)fx_add(fx, &(struct ron_task_def){.name = "file",
                                            .kind = "file",
                                            .restart = {.when = RON_RESTART_NEVER},
                                            .watchdog_ms = RON_WATCHDOG_OFF,
                                            .start = watch_a_file,
                                            .handle = do_nothing,
                                            .arg = &io});
    fx_start(fx);
    fx_await(fx, RON_SUP_EVENT_FAILED, "file", 1);
    assert_int_equal(fx_find(fx, RON_SUP_EVENT_FAILED, "file")->rc, RON_UNSUPPORTED);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_true(fx_close(fx));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_io__peer_writes__ready_on_the_task_worker),
        cmocka_unit_test(test_io__forgotten_by_another_in_the_same_round__never_called),
        cmocka_unit_test(test_io__forgets_itself__not_called_again),
        cmocka_unit_test(test_io__peer_closes__hang_up_reported),
        cmocka_unit_test(test_io__descriptor_that_cannot_be_watched__error_not_abort),
        cmocka_unit_test(test_io__poller_without_descriptors__unsupported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
