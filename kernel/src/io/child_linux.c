/* SPDX-License-Identifier: Apache-2.0 */
/* child_linux.c - fork, exec and pidfds; the contract is in ron/io/child.h.
 *
 * Between fork and exec only calls are made that are safe there in a program with threads. That
 * exec failed is told through a second pipe, which closes by itself when it works. */
#include "ron/io/child.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/sys_linux.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"

enum { STEP_FOLDER = 1, STEP_EXEC = 2 };

struct failure {
    int step;
    int sys_errno;
};

struct pipes {
    int out[2];
    int told[2]; /* a struct failure */
};

static void close_if(int fd)
{
    if (fd >= 0) {
        ron__sys_close(fd);
    }
}

static void fail_child(int fd, int step)
{
    struct failure f = {.step = step, .sys_errno = errno};

    (void)!write(fd, &f, sizeof f); /* the parent sees an end without words at the worst */
    _exit(127);
}

/* In the child: nothing here allocates, locks or returns. */
static _Noreturn void become(const char *const *argv, const char *folder, const struct pipes *p,
                             int32_t parent)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;
    int zero;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        _exit(127); /* it died before we asked to be told */
    }
    (void)sigaction(SIGPIPE, &standard, NULL);
    sigemptyset(&none);
    /* There is one thread here, and what ron/sync offers is not for a fork. */
    (void)sigprocmask(SIG_SETMASK, &none, NULL); /* NOLINT(concurrency-mt-unsafe) */
    zero = open("/dev/null", O_RDONLY);
    if (zero > STDIN_FILENO) {
        (void)dup2(zero, STDIN_FILENO);
        (void)close(zero);
    }
    (void)dup2(p->out[1], STDOUT_FILENO);
    (void)dup2(p->out[1], STDERR_FILENO);
    if (folder != NULL && chdir(folder) != 0) {
        fail_child(p->told[1], STEP_FOLDER);
    }
    execv(argv[0], (char *const *)(uintptr_t)argv);
    fail_child(p->told[1], STEP_EXEC);
    _exit(127);
}

static enum ron_rc open_pipes(struct pipes *p, struct ron_err *err)
{
    *p = (struct pipes){{-1, -1}, {-1, -1}};
    if (RON_SYS("pipe", EMFILE, pipe2(p->out, O_CLOEXEC)) != 0 ||
        RON_SYS("pipe", EMFILE, pipe2(p->told, O_CLOEXEC)) != 0 ||
        RON_SYS("fcntl", EINVAL, fcntl(p->out[0], F_SETFL, O_NONBLOCK)) != 0) {
        int e = errno;

        close_if(p->out[0]);
        close_if(p->out[1]);
        close_if(p->told[0]);
        close_if(p->told[1]);
        return ron_err_set_sys(err, ron__rc_of_errno(e), e, "pipe for a child");
    }
    return RON_OK;
}

/* What the child said before it became another program; RON_OK when it did. */
static enum ron_rc hear(int fd, const char *const *argv, const char *folder, struct ron_err *err)
{
    struct failure f;
    ssize_t n = RON_SYS("read", EIO, read(fd, &f, sizeof f));

    if (n == 0) {
        return RON_OK;
    }
    if (n != (ssize_t)sizeof f) {
        return ron_err_set(err, RON_IO, "%s did not start", argv[0]);
    }
    return ron_err_set_sys(err, ron__rc_of_errno(f.sys_errno), f.sys_errno, "%s",
                           f.step == STEP_FOLDER ? folder : argv[0]);
}

static int open_pid_fd(int32_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

enum ron_rc ron_child_start(const char *const *argv, const char *folder,
                            struct ron_child *ret_child, struct ron_err *err)
{
    struct ron_child child = {.pid_fd = -1, .out_fd = -1};
    int32_t self = getpid();
    struct pipes p;
    enum ron_rc rc;

    RON_TRY(open_pipes(&p, err));
    child.pid = RON_SYS("fork", EAGAIN, fork());
    if (child.pid == 0) {
        become(argv, folder, &p, self);
    }
    ron__sys_close(p.out[1]);
    ron__sys_close(p.told[1]);
    child.out_fd = p.out[0];
    if (child.pid < 0) {
        int e = errno;

        ron__sys_close(p.told[0]);
        ron__sys_close(p.out[0]);
        return ron_err_set_sys(err, e == EAGAIN ? RON_LIMIT : ron__rc_of_errno(e), e,
                               "a process cannot be started");
    }
    rc = hear(p.told[0], argv, folder, err);
    ron__sys_close(p.told[0]);
    if (rc == RON_OK) {
        child.pid_fd = RON_SYS("pidfd_open", EMFILE, open_pid_fd(child.pid));
        if (child.pid_fd < 0) {
            int e = errno;

            rc = ron_err_set_sys(err, ron__rc_of_errno(e), e, "pidfd of a child");
        }
    }
    if (rc != RON_OK) {
        ron_child_done(&child);
        return rc;
    }
    *ret_child = child;
    return RON_OK;
}

enum ron_rc ron_child_read(const struct ron_child *child, void *bytes, size_t size, size_t *ret_len)
{
    ssize_t n = RON_SYS("read", EIO, read(child->out_fd, bytes, size));

    if (n > 0) {
        *ret_len = (size_t)n;
        return RON_OK;
    }
    return n < 0 && errno == EAGAIN ? RON_AGAIN : RON_CLOSED;
}

void ron_child_signal(const struct ron_child *child, int signo)
{
    if (child->pid > 0) {
        (void)kill(child->pid, signo); /* not reaped, so the number is still that of our child */
    }
}

bool ron_child_reap(struct ron_child *child, bool wait, struct ron_child_end *ret_end)
{
    int status = 0;
    int32_t pid;

    if (wait) {
        ron_blocking_point("waitpid");
    }
    do {
        pid = waitpid(child->pid, &status, wait ? 0 : WNOHANG);
    } while (pid < 0 && errno == EINTR);
    if (pid == 0) {
        return false;
    }
    *ret_end =
        (struct ron_child_end){.code = pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                               .signal = pid > 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0};
    child->pid = 0;
    return true;
}

void ron_child_done(struct ron_child *child)
{
    if (child->pid > 0) {
        int status;

        /* A killed process ends at once but for a disk that hangs, which no wait helps. */
        ron_child_signal(child, SIGKILL);
        while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
        }
        child->pid = 0;
    }
    close_if(child->pid_fd);
    close_if(child->out_fd);
    child->pid_fd = -1;
    child->out_fd = -1;
}

bool ron_process_exists(int32_t pid)
{
    return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

enum ron_rc ron_program_path(char *ret_path, size_t size, struct ron_err *err)
{
    ssize_t n = RON_SYS("readlink", EIO, readlink("/proc/self/exe", ret_path, size - 1));

    RON_ASSERT(size > 1);
    if (n < 0) {
        int e = errno;

        return ron_err_set_sys(err, ron__rc_of_errno(e), e, "/proc/self/exe");
    }
    if ((size_t)n == size - 1) {
        return ron_err_set(err, RON_LIMIT, "the path of the program is too long");
    }
    ret_path[n] = '\0';
    return RON_OK;
}
