/* SPDX-License-Identifier: Apache-2.0 */
/* death.c - tests that something dies, and with which report.
 *
 * Place: tests only. The dying part runs in a child with its standard error in a pipe; the parent
 * reads it to the end, waits, and judges.
 * Threads: fork copies the calling thread only, so call it while no other thread runs.
 */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

/* Far above what any death test needs, also under valgrind; far below the timeout of a test. */
#define CHILD_SECONDS_MAX 60

__attribute__((noreturn)) static void be_child(support_death_fn *fn, void *arg, int stderr_fd)
{
    struct rlimit no_core = {0, 0};

    /* cmocka catches these to go on with the next test, here in the wrong process. */
    static const int caught[] = {SIGILL, SIGTRAP, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGSYS};

    for (size_t i = 0; i < RON_ARRAY_LEN(caught); i++) {
        (void)signal(caught[i], SIG_DFL);
    }
    (void)dup2(stderr_fd, STDERR_FILENO);
    (void)setrlimit(RLIMIT_CORE, &no_core); /* the death is wanted; its core is litter */
    (void)alarm(CHILD_SECONDS_MAX);
    fn(arg);
    _exit(0);
}

/* Reads until the child's end is closed; keeps what fits, drops the rest so that the child never
 * waits for a full pipe. */
static void read_text(int fd, char text[SUPPORT_DEATH_TEXT_SIZE])
{
    char chunk[1024];
    size_t len = 0;

    for (;;) {
        ssize_t got = read(fd, chunk, sizeof(chunk));

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        size_t room = SUPPORT_DEATH_TEXT_SIZE - 1 - len;
        size_t kept = (size_t)got < room ? (size_t)got : room;

        memcpy(text + len, chunk, kept);
        len += kept;
    }
    text[len] = '\0';
}

static bool is_wanted_death(int status, const char *text)
{
    if (WIFSIGNALED(status)) {
        int sig = WTERMSIG(status);

        return sig == SIGILL || sig == SIGTRAP || sig == SIGABRT;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) != 0 &&
           (strstr(text, "Sanitizer") != NULL || strstr(text, "runtime error") != NULL);
}

void support_death_run(support_death_fn *fn, void *arg, struct support_death *ret_death)
{
    int fds[2];

    (void)fflush(NULL); /* or the child would write the parent's buffered text once more */
    if (pipe(fds) != 0) {
        fail_msg("pipe: %s", strerror(errno));
    }
    pid_t pid = fork();

    if (pid < 0) {
        fail_msg("fork: %s", strerror(errno));
    }
    if (pid == 0) {
        (void)close(fds[0]);
        be_child(fn, arg, fds[1]);
    }
    (void)close(fds[1]);
    read_text(fds[0], ret_death->text);
    (void)close(fds[0]);
    while (waitpid(pid, &ret_death->wait_status, 0) < 0) {
        if (errno != EINTR) {
            fail_msg("waitpid: %s", strerror(errno));
        }
    }
    ret_death->died = is_wanted_death(ret_death->wait_status, ret_death->text);
}

void support_death_expect(support_death_fn *fn, void *arg, const char *const *expected,
                          const char *file, int line)
{
    static struct support_death death; /* large; tests run one at a time */
    const char *missing = NULL;

    support_death_run(fn, arg, &death);
    for (size_t i = 0; expected[i] != NULL && missing == NULL; i++) {
        missing = strstr(death.text, expected[i]) == NULL ? expected[i] : NULL;
    }
    if (!death.died) {
        print_error("did not die of an assertion (wait status 0x%x); it wrote:\n%s\n",
                    (unsigned)death.wait_status, death.text);
        _fail(file, line);
    } else if (missing != NULL) {
        print_error("the report lacks \"%s\"; it is:\n%s\n", missing, death.text);
        _fail(file, line);
    }
}
