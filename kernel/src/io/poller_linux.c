/* SPDX-License-Identifier: Apache-2.0 */
/* poller_linux.c - the poller as epoll with an eventfd as its bell.
 *
 * Place: io; one poller belongs to one executor worker, which alone calls set and wait. wake comes
 * from anywhere.
 *
 * Invariants:
 *   I1 wake_pending == 1 means: the bell was rung, or the thread that set it is about to ring it,
 *      and no wait has reported it yet. So the bell is rung at most once per wait, however many
 *      wakes come.
 *   I2 a wake whose ring was left out because of I1 is seen by the wait that clears wake_pending:
 *      that clearing is a read-modify-write, so it follows the waker's and makes the waker's
 *      earlier writes visible to the code that runs after the wait.
 *   I3 the bell is registered edge-triggered and never read: each ring is a new edge, which saves a
 *      system call per wake. The counter of the eventfd would overflow after 2^64 rings.
 *
 * Guards: descriptors are immutable after open; wake_pending is atomic; nothing else is shared.
 * Failure: epoll_wait fails for no reason but EINTR on a sound descriptor, and then reports
 * nothing; the caller loops anyway. */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"
#include "sys_linux.h"

enum {
    POLLER_MAGIC = 0x706f6c31,
    /* Events taken from the kernel at once: 1.5 KiB of stack, and more is asked for at the next
     * wait. */
    BATCH_MAX = 128,
};

struct ron_poller {
    uint32_t magic;
    int epoll_fd;
    int bell_fd;
    struct ron_au32 wake_pending;
};

static void poller_close(struct ron_poller *p)
{
    RON_CHECK_MAGIC(p, POLLER_MAGIC);
    p->magic = 0;
    if (p->bell_fd >= 0) {
        ron__sys_close(p->bell_fd);
    }
    if (p->epoll_fd >= 0) {
        ron__sys_close(p->epoll_fd);
    }
    ron_free(p);
}

static enum ron_rc poller_open(const struct ron_env *env, struct ron_poller **ret_poller,
                               struct ron_err *err)
{
    struct ron_poller *p = ron_alloc_zero(sizeof *p);
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
    const char *what = "epoll_create1";
    int e = 0;

    (void)env;
    if (p == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a poller");
    }
    p->magic = POLLER_MAGIC;
    p->bell_fd = -1;
    p->epoll_fd = RON_SYS("epoll_create1", EMFILE, epoll_create1(EPOLL_CLOEXEC));
    if (p->epoll_fd < 0) {
        goto fail;
    }
    what = "eventfd";
    p->bell_fd = RON_SYS("eventfd", EMFILE, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (p->bell_fd < 0) {
        goto fail;
    }
    what = "epoll_ctl";
    ev.data.ptr = p; /* no caller can hold this pointer as its user value but by malice */
    if (RON_SYS("epoll_ctl", ENOMEM, epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, p->bell_fd, &ev)) < 0) {
        goto fail;
    }
    *ret_poller = p;
    return RON_OK;

fail:
    e = errno;
    poller_close(p);
    return ron_err_set_sys(err, ron__rc_of_errno(e), e, "%s", what);
}

static enum ron_rc poller_set(struct ron_poller *p, int fd, uint32_t events, void *user)
{
    struct epoll_event ev = {0};
    int ret;

    RON_CHECK_MAGIC(p, POLLER_MAGIC);
    RON_ASSERT(fd >= 0);
    RON_ASSERT((events & ~(uint32_t)(RON_IO_READ | RON_IO_WRITE | RON_IO_EDGE)) == 0);
    RON_ASSERT(user != p);
    if (events == 0) {
        /* No fault point: removal takes no memory and fails only for a descriptor that is not
         * watched or not open. Callers rely on it: they free what `user` points to. */
        ret = epoll_ctl(p->epoll_fd, EPOLL_CTL_DEL, fd, &ev);
        return ret == 0 || errno == ENOENT ? RON_OK : ron__rc_of_errno(errno);
    }
    ev.events = (events & RON_IO_READ ? (uint32_t)(EPOLLIN | EPOLLRDHUP) : 0) |
                (events & RON_IO_WRITE ? (uint32_t)EPOLLOUT : 0) |
                (events & RON_IO_EDGE ? (uint32_t)EPOLLET : 0);
    ev.data.ptr = user;
    /* Adding is the common case: a socket is registered once, edge-triggered, for its whole life.
     * No table of known descriptors is kept, because close() would make it stale. */
    ret = RON_SYS("epoll_ctl", ENOMEM, epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, fd, &ev));
    if (ret < 0 && errno == EEXIST) {
        ret = RON_SYS("epoll_ctl", ENOMEM, epoll_ctl(p->epoll_fd, EPOLL_CTL_MOD, fd, &ev));
    }
    return ret == 0 ? RON_OK : ron__rc_of_errno(errno);
}

static uint32_t events_of(uint32_t epoll_events)
{
    return (epoll_events & EPOLLIN ? (uint32_t)RON_IO_READ : 0) |
           (epoll_events & EPOLLOUT ? (uint32_t)RON_IO_WRITE : 0) |
           (epoll_events & (EPOLLRDHUP | EPOLLHUP) ? (uint32_t)RON_IO_HUP : 0) |
           (epoll_events & EPOLLERR ? (uint32_t)RON_IO_ERR : 0);
}

static size_t poller_wait(struct ron_poller *p, struct ron_ready *ready, size_t max,
                          struct ron_deadline deadline)
{
    struct epoll_event batch[BATCH_MAX];
    int batch_max = (int)(max < BATCH_MAX ? max : BATCH_MAX);
    int got = -1;
    size_t count = 0;

    RON_CHECK_MAGIC(p, POLLER_MAGIC);
    RON_ASSERT(max > 0);
    ron_no_lock_point("poll");
    if (RON_FAULT(RON_FAULT_SYSCALL, "epoll_wait")) {
        return 0; /* as if a signal had come */
    }
    got = epoll_wait(p->epoll_fd, batch, batch_max, ron_deadline_poll_ms(deadline, ron_mono_ns()));
    RON_ASSERT(got >= 0 || errno == EINTR);
    for (int i = 0; i < got; i++) {
        if (batch[i].data.ptr == p) {
            (void)ron_au32_xchg(&p->wake_pending, 0); /* keeps I2 */
            continue;
        }
        ready[count++] = (struct ron_ready){
            .user = batch[i].data.ptr,
            .events = events_of(batch[i].events),
        };
    }
    return count;
}

static void poller_wake(struct ron_poller *p)
{
    const uint64_t one = 1;

    RON_CHECK_MAGIC(p, POLLER_MAGIC);
    if (ron_au32_xchg(&p->wake_pending, 1) != 0) {
        return; /* I1: somebody has rung or is about to */
    }
    /* No fault point: a ring fails only when the counter is full, and then the bell is loud already
     * (I3). */
    ssize_t ret = write(p->bell_fd, &one, sizeof one);
    (void)ret;
}

const struct ron_poller_ops ron__poller_linux = {
    .open = poller_open,
    .close = poller_close,
    .set = poller_set,
    .wait = poller_wait,
    .wake = poller_wake,
};
