/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a failed assertion dies with a report that says what, where, who and what came before.
 * Method: death tests; a datagram socket as standard error shows that the report is one write. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

#include "ron/base/assert.h"
#include "ron/base/build.h"
#include "ron/base/ctx.h"

#define THING_MAGIC 0x7468696eu

struct thing {
    uint32_t magic;
};

static void fail_plain(void *arg)
{
    int *count = arg;

    RON_ASSERT(*count == 0);
}

static void fail_in_task(void *arg)
{
    static struct ron_ctx ctx;

    ron_ctx_init(&ctx, "worker-3", NULL);
    (void)ron_ctx_swap(&ctx);
    (void)ron_ctx_set_task("committer");
    for (uint64_t i = 0; i < 40; i++) {
        ron_event("chan.send", i, 1000 + i);
    }
    ron_event("disk.sync", UINT64_MAX, 0);
    fail_plain(arg);
}

static void fail_with_message(void *arg)
{
    int *count = arg;

    RON_ASSERT_MSG(*count < 0, "I3: count is %d, limit %s", *count, "none");
}

static void fail_unreachable(void *arg)
{
    (void)arg;
    RON_UNREACHABLE();
}

static void fail_magic(void *arg)
{
    struct thing *thing = arg;

    RON_CHECK_MAGIC(thing, THING_MAGIC);
}

static void fail_obj(void *arg)
{
    const struct thing *thing = RON_OBJ(arg, const struct thing, THING_MAGIC);

    RON_IGNORE(thing);
}

static void fail_slow(void *arg)
{
    int *count = arg;

    RON_ASSERT_SLOW(*count == 0);
}

static void fail_always(void *arg)
{
    int *count = arg;

    if (!RON_ALWAYS(*count == 0)) {
        _exit(7);
    }
}

static void fail_never(void *arg)
{
    int *count = arg;

    if (RON_NEVER(*count == 1)) {
        _exit(7);
    }
}

static void test_assert__failure__reports_what_and_where(void **state)
{
    (void)state;
    int count = 1;

    support_death(fail_plain, &count, "ron: assertion failed: *count == 0\n",
                  "test_assert.c:", " in fail_plain\n", "thread -, task -", ron_build_id(),
                  ron_version(), "newest last (0 of 0)");
}

static void test_assert__failure__reports_who_and_the_last_events(void **state)
{
    (void)state;
    static struct support_death death;
    int count = 1;

    support_death_run(fail_in_task, &count, &death);
    assert_true(death.died);
    assert_true(WIFSIGNALED(death.wait_status));
    assert_non_null(strstr(death.text, "thread worker-3, task committer, version"));
    assert_non_null(strstr(death.text, "newest last (32 of 41):\n    chan.send a=9 b=1009\n"));
    assert_null(strstr(death.text, "a=8 b=1008"));
    const char *last = strstr(death.text, "    chan.send a=39 b=1039\n");

    assert_non_null(last);
    assert_non_null(strstr(last, "    disk.sync a=18446744073709551615 b=0\n"));
}

static void test_assert__message__is_part_of_the_report(void **state)
{
    (void)state;
    int count = 5;

    support_death(fail_with_message, &count, "*count < 0", "why: I3: count is 5, limit none\n");
    support_death(fail_unreachable, NULL, "assertion failed: unreachable", "in fail_unreachable");
}

static void test_assert__magic__catches_null_and_strangers(void **state)
{
    (void)state;
    struct thing good = {.magic = THING_MAGIC};
    struct thing bad = {.magic = 0};

    RON_CHECK_MAGIC(&good, THING_MAGIC);
    support_death(fail_magic, NULL, "thing != NULL");
    support_death(fail_magic, &bad, "thing->magic == THING_MAGIC");

    void *passed = &good;
    assert_ptr_equal(RON_OBJ(passed, struct thing, THING_MAGIC), &good);
    support_death(fail_obj, NULL, "arg != NULL");
    support_death(fail_obj, &bad, "arg->magic == THING_MAGIC", "in fail_obj");
}

static void test_assert__slow_and_defensive__follow_the_build(void **state)
{
    (void)state;
    static struct support_death death;
    int count = 1;

    if (RON_CHECKED) {
        support_death(fail_slow, &count, "*count == 0", "in fail_slow");
        support_death(fail_always, &count, "RON_ALWAYS(*count == 0)");
        support_death(fail_never, &count, "RON_NEVER(*count == 1)");
        return;
    }
    /* In release they are not fatal, and the defensive branch is taken. */
    fail_slow(&count);
    support_death_run(fail_always, &count, &death);
    assert_true(WIFEXITED(death.wait_status) && WEXITSTATUS(death.wait_status) == 7);
    support_death_run(fail_never, &count, &death);
    assert_true(WIFEXITED(death.wait_status) && WEXITSTATUS(death.wait_status) == 7);
}

static void test_assert__true_condition__evaluates_once_and_goes_on(void **state)
{
    (void)state;
    int evaluations = 0;

    RON_ASSERT(++evaluations == 1);
    RON_ASSERT_MSG(++evaluations == 2, "not shown");
    assert_true(RON_ALWAYS(++evaluations == 3));
    assert_false(RON_NEVER(++evaluations == 0));
    assert_int_equal(evaluations, 4);
    RON_ASSERT_SLOW(++evaluations == 5);
    assert_int_equal(evaluations, RON_CHECKED ? 5 : 4);
    assert_true(RON_IMPLIES(false, false));
    assert_true(RON_IMPLIES(true, true));
    assert_false(RON_IMPLIES(true, false));
}

static void fail_with_giants(void)
{
    static char giant[20000];
    static struct ron_ctx ctx;

    memset(giant, 'g', sizeof(giant) - 1);
    ron_ctx_init(&ctx, giant, NULL);
    (void)ron_ctx_swap(&ctx);
    (void)ron_ctx_set_task(giant);
    for (int i = 0; i < RON_CTX_EVENTS; i++) {
        ron_event(giant, UINT64_MAX, UINT64_MAX);
    }
    ron_event("the last event", 1, 2);
    ron_assert_fail_msg(giant, giant, INT32_MAX, giant, "%s", giant);
}

/* On a datagram socket every write is one message. Texts of absurd length must neither split the
 * report nor push its last line out. */
static void test_assert__giant_texts__are_cut_into_one_write(void **state)
{
    (void)state;
    char report[65536];
    int fds[2];
    int status = 0;

    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
    (void)fflush(NULL);
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit no_core = {0, 0};

        (void)signal(SIGILL, SIG_DFL); /* cmocka would go on with the next test in the child */
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)dup2(fds[1], STDERR_FILENO);
        fail_with_giants();
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGILL);
    ssize_t len = recv(fds[0], report, sizeof(report) - 1, MSG_DONTWAIT);

    assert_true(len > 0);
    report[len] = '\0';
    assert_non_null(strstr(report, "ron: assertion failed: ggg"));
    assert_non_null(strstr(report, "\n  why: ggg"));
    assert_non_null(strstr(report, "    the last event a=1 b=2\n"));
    assert_true(recv(fds[0], report, sizeof(report), MSG_DONTWAIT) < 0);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_assert__failure__reports_what_and_where),
        cmocka_unit_test(test_assert__failure__reports_who_and_the_last_events),
        cmocka_unit_test(test_assert__message__is_part_of_the_report),
        cmocka_unit_test(test_assert__magic__catches_null_and_strangers),
        cmocka_unit_test(test_assert__slow_and_defensive__follow_the_build),
        cmocka_unit_test(test_assert__true_condition__evaluates_once_and_goes_on),
        cmocka_unit_test(test_assert__giant_texts__are_cut_into_one_write),
    };

    return cmocka_run_group_tests_name("base.assert", tests, NULL, NULL);
}
