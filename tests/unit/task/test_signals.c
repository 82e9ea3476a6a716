/* SPDX-License-Identifier: Apache-2.0 */
/* test_signals.c - the signals of a service process.
 *
 * Goal: SIGINT and SIGTERM start the same drain as a request from inside; a second one exits at
 * once, whatever is stuck; SIGHUP reloads; SIGPIPE is no death; a signal that came early is not
 * lost. Method: a small service in a process of its own, which tells the test by a pipe what it has
 * reached, and ends with a report of its counts. */
#include "unit/task/fixture.h"

#include <semaphore.h>
#include <signal.h>

#include "ron/task/signals.h"
#include "sync/sync_testing.h"

enum plot {
    UNDER_LOAD,  /* accepts and handles messages until it is stopped */
    STUCK,       /* a task never ends */
    RELOAD,      /* tells each SIGHUP */
    NO_RELOAD,   /* has no SIGHUP callback */
    EARLY,       /* gets SIGTERM before it listens */
    FROM_INSIDE, /* a task asks for the stop */
};

struct report {
    int exit_code;
    uint64_t accepted;
    uint64_t handled;
    uint64_t left;
    uint64_t leaked;
    uint32_t threads_left;
    bool closed_clean;
};

struct service {
    enum plot plot;
    int tell_fd;
    struct fx *fx;
    struct ron_chan *in;
    struct ron_au64 accepted;
    struct fx_gate handled;
    struct fx_gate sender_done;
    sem_t never;
};

/* 'r' running, 'd' draining, 'h' hang-up, 'p' write to a dead pipe survived, 'x' report follows. */
static void tell(struct service *s, char what)
{
    (void)!write(s->tell_fd, &what, 1);
}

static void on_state(struct fx *fx, const struct ron_sup_event *event)
{
    struct service *s = fx->arg;

    if (event->kind == RON_SUP_EVENT_STATE && event->state == RON_SUP_DRAINING) {
        tell(s, 'd');
    }
}

static enum ron_rc serve(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct service *s = arg;

    (void)t;
    (void)items;
    fx_gate_add(&s->handled, count);
    return RON_OK;
}

static enum ron_rc ask_stop(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct service *s = arg;

    (void)t;
    (void)items;
    (void)count;
    ron_sup_request_stop(s->fx->sup);
    return RON_OK;
}

static enum ron_rc never_end(struct ron_task *t, void *arg)
{
    struct service *s = arg;

    (void)t;
    (void)sem_wait(&s->never);
    return RON_OK;
}

static void sender(void *arg)
{
    struct service *s = arg;
    enum ron_rc rc = RON_OK;

    while (rc != RON_CLOSED) {
        rc = ron_chan_try_send(s->in, fx_item(1), NULL);
        (void)ron_au64_add(&s->accepted, rc == RON_OK);
    }
    fx_gate_add(&s->sender_done, 1);
}

static void on_hangup(void *arg)
{
    tell(arg, 'h');
}

/* A write to a pipe that nobody reads. */
static void write_to_nobody(struct service *s)
{
    int fds[2];

    if (pipe(fds) == 0) {
        (void)close(fds[0]);
        if (write(fds[1], "x", 1) == -1 && errno == EPIPE) {
            tell(s, 'p');
        }
        (void)close(fds[1]);
    }
}

static void add_tasks(struct service *s)
{
    s->in = fx_chan(s->fx, "in", 64, RON_CHAN_REJECT);
    (void)fx_add(s->fx, &(struct ron_task_def){.name = "worker",
                                               .kind = "worker",
                                               .worker = RON_WORKER_ANY,
                                               .input = s->in,
                                               .handle = serve,
                                               .arg = s});
    if (s->plot == STUCK) {
        (void)fx_add(s->fx, &(struct ron_task_def){.name = "stuck",
                                                   .kind = "stuck",
                                                   .mode = RON_TASK_BLOCKING,
                                                   .run = never_end,
                                                   .arg = s});
    }
    if (s->plot == FROM_INSIDE) {
        (void)fx_add(s->fx, &(struct ron_task_def){
                                .name = "tired", .kind = "k", .handle = ask_stop, .arg = s});
    }
}

static struct ron_thread *start_client(struct service *s)
{
    struct ron_thread *client = NULL;
    enum ron_rc rc = ron_thread_start(
        &(struct ron_thread_opts){.name = "sender", .may_block = true, .main = sender, .arg = s},
        &client, NULL);

    RON_ASSERT(rc == RON_OK);
    return client;
}

__attribute__((noreturn)) static void service_main(enum plot plot, int tell_fd)
{
    struct service s = {.plot = plot, .tell_fd = tell_fd};
    struct ron_signals *signals = NULL;
    struct ron_thread *client = NULL;
    struct ron_chan_stats stats;
    struct report r = {0};

    (void)alarm(FX_WAIT_MS / 1000);
    ron_signals_block();
    if (plot == EARLY) {
        (void)kill(getpid(), SIGTERM); /* to the process, not to this thread */
    }
    s.fx = fx_open(2);
    s.fx->arg = &s;
    s.fx->hook = on_state;
    fx_gate_init(&s.handled);
    fx_gate_init(&s.sender_done);
    (void)sem_init(&s.never, 0, 0);
    add_tasks(&s);
    RON_ASSERT(ron_signals_start(s.fx->sup, plot == NO_RELOAD ? NULL : on_hangup, &s, &signals,
                                 NULL) == RON_OK);
    fx_start(s.fx);
    if (plot == STUCK) {
        (void)fx_has(s.fx, RON_SUP_EVENT_STARTED, "stuck", 1);
    } else {
        client = start_client(&s);
    }
    if (plot == UNDER_LOAD || plot == RELOAD) {
        (void)fx_gate_reached(&s.handled, 1000);
    }
    write_to_nobody(&s);
    tell(&s, 'r');
    r.exit_code = fx_join(s.fx);
    if (client != NULL) {
        (void)fx_gate_reached(&s.sender_done, 1);
        ron_thread_join(client);
    }
    ron_signals_stop(signals);
    ron_chan_get_stats(s.in, &stats);
    r.accepted = ron_au64_load(&s.accepted);
    r.handled = fx_gate_count(&s.handled);
    r.left = stats.depth;
    r.leaked = ron_sup_leaked(s.fx->sup);
    ron_chan_free(s.in);
    r.closed_clean = fx_close(s.fx);
    r.threads_left = ron_threads_live();
    tell(&s, 'x');
    (void)!write(tell_fd, &r, sizeof r);
    _exit(r.exit_code);
}

struct child {
    pid_t pid;
    int fd;
    int err_fd;
};

static struct child spawn(enum plot plot)
{
    struct child c;
    int fds[2];
    int errs[2];

    (void)fflush(NULL);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(pipe(errs), 0);
    c.pid = fork();
    assert_true(c.pid >= 0);
    if (c.pid == 0) {
        (void)dup2(errs[1], STDERR_FILENO);
        (void)close(fds[0]);
        (void)close(errs[0]);
        (void)close(errs[1]);
        service_main(plot, fds[1]);
    }
    (void)close(fds[1]);
    (void)close(errs[1]);
    c.fd = fds[0];
    c.err_fd = errs[0];
    return c;
}

/* Reads what the child tells until `what`; the end of the pipe is a failure. */
static void hear(struct child *c, char what)
{
    char got = 0;

    while (got != what) {
        ssize_t n = read(c->fd, &got, 1);

        if (n == 0 || (n < 0 && errno != EINTR)) {
            fail_msg("the service ended before it told '%c'", what);
        }
    }
}

/* Waits for the end; gives the exit code, or -1 when it was killed. */
static int reap(struct child *c, char *text, size_t size)
{
    size_t len = 0;
    int status = 0;

    for (;;) {
        char buf[256];
        ssize_t n = read(c->err_fd, buf, sizeof buf);

        if (n == 0 || (n < 0 && errno != EINTR)) {
            break;
        }
        for (ssize_t i = 0; i < n && len + 1 < size; i++) {
            text[len++] = buf[i];
        }
    }
    text[len] = '\0';
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
    }
    (void)close(c->fd);
    (void)close(c->err_fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The report and the end of a service that was stopped well. */
static void expect_good_end(struct child *c)
{
    struct report r = {.exit_code = -1};
    char text[4096];

    hear(c, 'x');
    assert_int_equal(read(c->fd, &r, sizeof r), (ssize_t)sizeof r);
    assert_int_equal(reap(c, text, sizeof text), RON_EXIT_DRAINED);
    assert_string_equal(text, "");
    assert_int_equal(r.exit_code, RON_EXIT_DRAINED);
    assert_int_equal(r.accepted, r.handled + r.left);
    assert_int_equal(r.left, 0);
    assert_int_equal(r.leaked, 0);
    assert_int_equal(r.threads_left, 0);
    assert_true(r.closed_clean);
}

static void test_signals__int_or_term_under_load__drains_and_counts_add_up(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(signals); i++) {
        struct child c = spawn(UNDER_LOAD);

        hear(&c, 'r');
        assert_int_equal(kill(c.pid, signals[i]), 0);
        hear(&c, 'd');
        expect_good_end(&c);
    }
}

static void test_signals__request_from_inside__same_drain(void **state)
{
    struct child c = spawn(FROM_INSIDE);

    (void)state;
    hear(&c, 'd');
    expect_good_end(&c);
}

static void test_signals__came_before_anybody_listened__not_lost(void **state)
{
    struct child c = spawn(EARLY);

    (void)state;
    hear(&c, 'd');
    expect_good_end(&c);
}

static void test_signals__second_signal_while_stuck__exits_at_once(void **state)
{
    static const int signals[][2] = {{SIGTERM, SIGTERM}, {SIGINT, SIGTERM}, {SIGTERM, SIGINT}};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(signals); i++) {
        struct child c = spawn(STUCK);
        char text[4096];

        hear(&c, 'r');
        assert_int_equal(kill(c.pid, signals[i][0]), 0);
        hear(&c, 'd');
        assert_int_equal(kill(c.pid, signals[i][1]), 0);
        /* Left alone it would end with 2, after its deadline. */
        int code = reap(&c, text, sizeof text);
        if (code != 128 + signals[i][1] || strstr(text, "second signal") == NULL) {
            fail_msg("exit code %d after the text: %s", code, text);
        }
    }
}

static void test_signals__hang_up__reloads_and_goes_on(void **state)
{
    struct child c = spawn(RELOAD);

    (void)state;
    hear(&c, 'p'); /* and a write to a pipe without reader was no death */
    hear(&c, 'r');
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kill(c.pid, SIGHUP), 0);
        hear(&c, 'h');
    }
    assert_int_equal(kill(c.pid, SIGTERM), 0);
    expect_good_end(&c);

    c = spawn(NO_RELOAD);
    hear(&c, 'r');
    assert_int_equal(kill(c.pid, SIGHUP), 0);
    assert_int_equal(kill(c.pid, SIGTERM), 0);
    expect_good_end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals__int_or_term_under_load__drains_and_counts_add_up),
        cmocka_unit_test(test_signals__request_from_inside__same_drain),
        cmocka_unit_test(test_signals__came_before_anybody_listened__not_lost),
        cmocka_unit_test(test_signals__second_signal_while_stuck__exits_at_once),
        cmocka_unit_test(test_signals__hang_up__reloads_and_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
