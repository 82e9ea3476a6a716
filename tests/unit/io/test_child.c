/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a child starts as promised, everything it writes is read, its end is told, and none stays.
 *
 * Method: /bin/sh as the child; waiting for it through a poller, as its supervisor does. */
#include "unit/io/fixture.h"

#include <signal.h>

#include "ron/io/child.h"

/* All that it writes until it closes its output. */
static void read_all(const struct fixture *f, const struct ron_child *c, char *text, size_t size)
{
    size_t len = 0;
    size_t n = 0;

    for (;;) {
        enum ron_rc rc = ron_child_read(c, text + len, size - 1 - len, &n);

        if (rc == RON_CLOSED) {
            break;
        }
        if (rc == RON_AGAIN) {
            (void)fixture_await(f, c->out_fd, RON_IO_READ);
            continue;
        }
        assert_int_equal(rc, RON_OK);
        len += n;
        assert_true(len < size - 1);
    }
    text[len] = '\0';
}

static struct ron_child start(const char *script, const char *folder)
{
    struct ron_child c = {0};
    struct ron_err err = {0};

    assert_int_equal(
        ron_child_start((const char *const[]){"/bin/sh", "-c", script, NULL}, folder, &c, &err),
        RON_OK);
    assert_true(c.pid > 0);
    return c;
}

static void test_child__writes_and_exits__text_in_order_and_code(void **state)
{
    const struct fixture *f = *state;
    struct ron_child c = start("echo one; echo two >&2; pwd; read x || echo empty; exit 7", f->dir);
    struct ron_child_end end = {0};
    char text[512];
    char wanted[512];

    read_all(f, &c, text, sizeof text);
    (void)snprintf(wanted, sizeof wanted, "one\ntwo\n%s\nempty\n", f->dir);
    assert_string_equal(text, wanted);
    (void)fixture_await(f, c.pid_fd, RON_IO_READ);
    assert_true(ron_child_reap(&c, false, &end));
    assert_int_equal(end.code, 7);
    assert_int_equal(end.signal, 0);
    assert_int_equal(c.pid, 0);
    ron_child_done(&c);
}

static void test_child__signal__ends_it_and_is_told(void **state)
{
    const struct fixture *f = *state;
    struct ron_child c = start("echo up; while :; do sleep 60; done", NULL);
    struct ron_child_end end = {0};
    char word[8];
    size_t n = 0;

    (void)fixture_await(f, c.out_fd, RON_IO_READ);
    assert_int_equal(ron_child_read(&c, word, sizeof word, &n), RON_OK);
    assert_false(ron_child_reap(&c, false, &end));
    assert_true(ron_process_exists(c.pid));
    /* The shell waits for its own child: the group of both is that of the child. */
    assert_int_equal(getpgid(c.pid), c.pid);
    assert_int_equal(kill(-c.pid, SIGTERM), 0);
    assert_true(ron_child_reap(&c, true, &end));
    assert_int_equal(end.code, -1);
    assert_int_equal(end.signal, SIGTERM);
    ron_child_done(&c);
}

static void test_child__signals_of_parent__are_as_fresh(void **state)
{
    const struct fixture *f = *state;
    struct ron_child c;
    struct ron_child_end end = {0};
    sigset_t set;
    sigset_t old;
    char text[256];

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
    c = start("grep -E 'SigBlk' /proc/self/status", NULL);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
    read_all(f, &c, text, sizeof text);
    assert_string_equal(text, "SigBlk:\t0000000000000000\n");
    assert_true(ron_child_reap(&c, true, &end));
    ron_child_done(&c);
}

static void test_child__cannot_run__no_child_and_a_reason(void **state)
{
    const struct fixture *f = *state;
    const char *const absent[] = {fixture_path(f, "absent"), NULL};
    const char *const shell[] = {"/bin/sh", "-c", "true", NULL};
    struct ron_child c = {.pid = -5};
    struct ron_err err = {0};

    assert_int_equal(ron_child_start(absent, NULL, &c, &err), RON_NOTFOUND);
    assert_non_null(strstr(err.msg, "absent"));
    assert_int_equal(c.pid, -5);
    assert_int_equal(ron_child_start(shell, fixture_path(f, "nowhere"), &c, &err), RON_NOTFOUND);
    assert_non_null(strstr(err.msg, "nowhere"));
}

static void test_child__done_without_reap__leaves_none(void **state)
{
    struct ron_child c = start("while :; do sleep 60; done", NULL);
    int32_t pid = c.pid;

    (void)state;
    ron_child_done(&c);
    assert_false(ron_process_exists(pid));
    assert_int_equal(c.pid_fd, -1);
}

static void test_program_path__is_this_program(void **state)
{
    char path[1024];
    char tiny[3];
    struct ron_err err = {0};

    (void)state;
    assert_int_equal(ron_program_path(path, sizeof path, &err), RON_OK);
    assert_non_null(strstr(path, "child"));
    assert_int_equal(ron_program_path(tiny, sizeof tiny, &err), RON_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_child__writes_and_exits__text_in_order_and_code,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_child__signal__ends_it_and_is_told, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_child__signals_of_parent__are_as_fresh, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_child__cannot_run__no_child_and_a_reason,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_child__done_without_reap__leaves_none, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_program_path__is_this_program, fixture_setup,
                                        fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
