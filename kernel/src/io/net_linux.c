/* SPDX-License-Identifier: Apache-2.0 */
/* net_linux.c - stream sockets of Linux behind the network ports.
 *
 * Place: io. Nothing here waits: sockets are non-blocking from birth and the caller's poller tells
 * when to come back. (Creating a Unix listener touches the file system; listeners are made at
 * start.)
 *
 * Invariants:
 *   I1 every descriptor is close-on-exec and non-blocking.
 *   I2 no call raises SIGPIPE.
 *   I3 a Unix peer is accepted only together with its credentials from the system.
 *   I4 on failure no descriptor is left open.
 *
 * Ownership: a descriptor belongs to the caller from RON_OK to close. Threads: no state of its
 * own. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/io_priv.h"
#include "ron/base/assert.h"
#include "ron/io/addr.h"
#include "ron/io/linux_env.h"
#include "ron/sync/sync.h"
#include "sys_linux.h"

enum {
    /* Deep enough for a burst while a loop is busy for some milliseconds; the kernel caps it
     * anyway. */
    BACKLOG_DEFAULT = 512,
    /* Connections that died in the queue are skipped by accept; so many at once means something
     * else. */
    ACCEPT_SKIP_MAX = 64,
    UNIX_MODE_DEFAULT = 0600,
};

union sock_addr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un un;
    struct sockaddr_storage room;
};

static enum ron_rc to_sockaddr(const struct ron_addr *addr, union sock_addr *sa, socklen_t *ret_len,
                               struct ron_err *err)
{
    memset(sa, 0, sizeof *sa);
    switch (addr->kind) {
    case RON_ADDR_IPV4:
        sa->v4.sin_family = AF_INET;
        sa->v4.sin_port = htons(addr->port);
        memcpy(&sa->v4.sin_addr, addr->ip, sizeof sa->v4.sin_addr);
        *ret_len = sizeof sa->v4;
        return RON_OK;
    case RON_ADDR_IPV6:
        sa->v6.sin6_family = AF_INET6;
        sa->v6.sin6_port = htons(addr->port);
        memcpy(&sa->v6.sin6_addr, addr->ip, sizeof sa->v6.sin6_addr);
        *ret_len = sizeof sa->v6;
        return RON_OK;
    case RON_ADDR_NAME:
        if (!ron_addr_is_loopback(addr)) {
            return ron_err_set(err, RON_UNSUPPORTED,
                               "'%s' is a name; looking it up blocks, so give its address here",
                               addr->text);
        }
        sa->v4.sin_family = AF_INET;
        sa->v4.sin_port = htons(addr->port);
        sa->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        *ret_len = sizeof sa->v4;
        return RON_OK;
    case RON_ADDR_UNIX:
        sa->un.sun_family = AF_UNIX;
        memcpy(sa->un.sun_path, addr->text, strlen(addr->text) + 1);
        *ret_len = sizeof sa->un;
        return RON_OK;
    }
    RON_UNREACHABLE();
}

/* The text of an address that the kernel gave. A Unix client has no name: it reads "unix:". */
static void from_sockaddr(const union sock_addr *sa, char *buf, size_t size)
{
    struct ron_addr addr = {0};

    RON_ASSERT(size >= RON_ADDR_MAX);
    if (sa->any.sa_family == AF_INET) {
        addr.kind = RON_ADDR_IPV4;
        addr.port = ntohs(sa->v4.sin_port);
        memcpy(addr.ip, &sa->v4.sin_addr, sizeof sa->v4.sin_addr);
    } else if (sa->any.sa_family == AF_INET6) {
        addr.kind = RON_ADDR_IPV6;
        addr.port = ntohs(sa->v6.sin6_port);
        memcpy(addr.ip, &sa->v6.sin6_addr, sizeof sa->v6.sin6_addr);
    } else {
        addr.kind = RON_ADDR_UNIX;
        (void)snprintf(addr.text, sizeof addr.text, "%.*s", (int)sizeof sa->un.sun_path,
                       sa->un.sun_path);
    }
    RON_ASSERT(ron_addr_format(&addr, buf, size) == RON_OK);
}

static enum ron_rc open_socket(int family, int *ret_fd, struct ron_err *err)
{
    int fd =
        RON_SYS("socket", EMFILE, socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

    if (fd < 0) {
        return ron_err_set_sys(err, ron__rc_of_errno(errno), errno, "socket");
    }
    *ret_fd = fd;
    return RON_OK;
}

enum ron_rc ron_linux_stream_socket(int family, int *ret_fd, struct ron_err *err)
{
    return open_socket(family, ret_fd, err);
}

static int set_flag(int fd, int level, int option)
{
    const int on = 1;

    return RON_SYS("setsockopt", ENOBUFS, setsockopt(fd, level, option, &on, sizeof on));
}

/* Of one connection, unsent in the system's buffer: 0.1 ms at 10 Gbit/s, more than lies between two
 * turns of a worker, and small beside what ten thousand slow readers could hold else. */
static int set_unsent_max(int fd)
{
    const int bytes = 128 << 10;

    return RON_SYS("setsockopt", ENOBUFS,
                   setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes));
}

static void set_nodelay(int fd)
{
    /* Answers are written whole, so waiting for more bytes only adds delay. A socket without the
     * option still works; therefore a failure is not one. */
    (void)set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
}

static enum ron_rc fail_and_close(int fd, const char *what, const char *addr, struct ron_err *err)
{
    int e = errno;

    ron__sys_close(fd);
    return ron_err_set_sys(err, ron__rc_of_errno(e), e, "%s %s", what, addr);
}

static enum ron_rc net_listen(const struct ron_env *env, const char *text,
                              const struct ron_listen_opts *opts, int *ret_fd, struct ron_err *err)
{
    static const struct ron_listen_opts defaults = {0};
    const struct ron_listen_opts *o = opts == NULL ? &defaults : opts;
    struct ron_addr addr;
    union sock_addr sa;
    socklen_t len = 0;
    int fd = -1;
    bool is_unix = false;

    (void)env;
    RON_TRY(ron_addr_parse(text, &addr, err));
    RON_TRY(to_sockaddr(&addr, &sa, &len, err));
    is_unix = addr.kind == RON_ADDR_UNIX;
    if (is_unix) {
        RON_TRY(ron__unix_prepare(addr.text, err));
    }
    RON_TRY(open_socket(sa.any.sa_family, &fd, err));
    if (!is_unix && set_flag(fd, SOL_SOCKET, SO_REUSEADDR) < 0) {
        return fail_and_close(fd, "SO_REUSEADDR for", text, err);
    }
    if (!is_unix && o->reuse_port && set_flag(fd, SOL_SOCKET, SO_REUSEPORT) < 0) {
        return fail_and_close(fd, "SO_REUSEPORT for", text, err);
    }
    /* Connections inherit it from their listener: what the peer does not take in time stays with
     * us, where limits and timeouts see it, and not in the system's buffer of some megabytes. */
    if (!is_unix && set_unsent_max(fd) < 0) {
        return fail_and_close(fd, "TCP_NOTSENT_LOWAT for", text, err);
    }
    /* An IPv6 listener serves IPv6 alone, whatever the system's default, so that both can share a
     * port. */
    if (addr.kind == RON_ADDR_IPV6 && set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY) < 0) {
        return fail_and_close(fd, "IPV6_V6ONLY for", text, err);
    }
    if (RON_SYS("bind", EADDRINUSE, bind(fd, &sa.any, len)) < 0) {
        return fail_and_close(fd, "bind", text, err);
    }
    if (is_unix) {
        mode_t mode = o->unix_mode == 0 ? UNIX_MODE_DEFAULT : (mode_t)o->unix_mode;
        if (RON_SYS("chmod", EPERM, chmod(addr.text, mode)) < 0) {
            return fail_and_close(fd, "chmod", text, err);
        }
    }
    if (RON_SYS("listen", EADDRINUSE,
                listen(fd, o->backlog == 0 ? (int)BACKLOG_DEFAULT : o->backlog)) < 0) {
        return fail_and_close(fd, "listen", text, err);
    }
    *ret_fd = fd;
    return RON_OK;
}

/* accept(2): errors that belong to the connection which is lost, not to the listener. */
static bool accept_error_is_the_peers(int e)
{
    switch (e) {
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return true;
    default:
        return false;
    }
}

static enum ron_rc fill_peer(int fd, const union sock_addr *sa, struct ron_peer *peer)
{
    struct ucred cred;
    socklen_t cred_len = sizeof cred;

    from_sockaddr(sa, peer->addr, sizeof peer->addr);
    if (sa->any.sa_family != AF_UNIX) {
        set_nodelay(fd);
        return RON_OK;
    }
    if (RON_SYS("getsockopt", ENOBUFS, getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len)) <
        0) {
        return ron__rc_of_errno(errno); /* keeps I3 */
    }
    peer->has_cred = true;
    peer->uid = cred.uid;
    peer->gid = cred.gid;
    peer->pid = cred.pid;
    peer->same_user = cred.uid == geteuid();
    return RON_OK;
}

static enum ron_rc net_accept(const struct ron_env *env, int fd, int *ret_fd,
                              struct ron_peer *ret_peer)
{
    union sock_addr sa;
    struct ron_peer peer = {0};
    socklen_t len = 0;
    int conn = -1;
    enum ron_rc rc = RON_OK;

    (void)env;
    for (int skipped = 0; skipped < ACCEPT_SKIP_MAX; skipped++) {
        memset(&sa, 0, sizeof sa);
        len = sizeof sa;
        conn = RON_SYS("accept4", EMFILE, accept4(fd, &sa.any, &len, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (conn >= 0 || !accept_error_is_the_peers(errno)) {
            break;
        }
    }
    if (conn < 0) {
        return ron__rc_of_errno(errno);
    }
    rc = fill_peer(conn, &sa, &peer);
    if (rc != RON_OK) {
        ron__sys_close(conn);
        return rc;
    }
    *ret_fd = conn;
    if (ret_peer != NULL) {
        *ret_peer = peer;
    }
    return RON_OK;
}

static enum ron_rc net_connect(const struct ron_env *env, const char *text, int *ret_fd,
                               struct ron_err *err)
{
    struct ron_addr addr;
    union sock_addr sa;
    socklen_t len = 0;
    int fd = -1;

    (void)env;
    RON_TRY(ron_addr_parse(text, &addr, err));
    RON_TRY(to_sockaddr(&addr, &sa, &len, err));
    RON_TRY(open_socket(sa.any.sa_family, &fd, err));
    if (addr.kind != RON_ADDR_UNIX) {
        set_nodelay(fd);
    }
    if (RON_SYS("connect", ENETUNREACH, connect(fd, &sa.any, len)) < 0 && errno != EINPROGRESS &&
        errno != EALREADY) {
        return fail_and_close(fd, "connect", text, err);
    }
    *ret_fd = fd;
    return RON_OK;
}

static enum ron_rc net_connect_result(const struct ron_env *env, int fd)
{
    union sock_addr sa;
    socklen_t sa_len = sizeof sa;
    int e = 0;
    socklen_t e_len = sizeof e;

    (void)env;
    if (RON_SYS("getsockopt", ENOBUFS, getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &e_len)) < 0) {
        return ron__rc_of_errno(errno);
    }
    if (e != 0) {
        return ron__rc_of_errno(e);
    }
    /* No error is also what a connection in progress has; only a connected one has a peer. */
    if (RON_SYS("getpeername", ENOBUFS, getpeername(fd, &sa.any, &sa_len)) < 0) {
        return errno == ENOTCONN ? RON_AGAIN : ron__rc_of_errno(errno);
    }
    return RON_OK;
}

static enum ron_rc net_read(const struct ron_env *env, int fd, void *buf, size_t len,
                            size_t *ret_len)
{
    ssize_t got;

    (void)env;
    RON_ASSERT(len > 0);
    got = RON_SYS("recv", ECONNRESET, recv(fd, buf, len, 0));
    if (got < 0) {
        return ron__rc_of_errno(errno);
    }
    if (got == 0) {
        return RON_CLOSED;
    }
    *ret_len = (size_t)got;
    return RON_OK;
}

static enum ron_rc send_flagged(int fd, const void *buf, size_t len, int flags, size_t *ret_len)
{
    ssize_t sent = RON_SYS("send", EPIPE, send(fd, buf, len, flags | MSG_NOSIGNAL)); /* keeps I2 */

    if (sent < 0) {
        return ron__rc_of_errno(errno);
    }
    *ret_len = (size_t)sent;
    return RON_OK;
}

static enum ron_rc net_write(const struct ron_env *env, int fd, const void *buf, size_t len,
                             size_t *ret_len)
{
    (void)env;
    return send_flagged(fd, buf, len, 0, ret_len);
}

static enum ron_rc net_write_more(const struct ron_env *env, int fd, const void *buf, size_t len,
                                  size_t *ret_len)
{
    (void)env;
    return send_flagged(fd, buf, len, MSG_MORE, ret_len);
}

static enum ron_rc net_writev(const struct ron_env *env, int fd, const struct iovec *iov,
                              int iov_count, size_t *ret_len)
{
    struct msghdr msg = {0};
    ssize_t sent;

    (void)env;
    RON_ASSERT(iov_count >= 0);
    /* sendmsg only reads the vector; its type merely serves recvmsg too. */
    msg.msg_iov = (struct iovec *)(uintptr_t)iov;
    msg.msg_iovlen = (size_t)iov_count;
    sent = RON_SYS("sendmsg", EPIPE, sendmsg(fd, &msg, MSG_NOSIGNAL)); /* keeps I2 */
    if (sent < 0) {
        return ron__rc_of_errno(errno);
    }
    *ret_len = (size_t)sent;
    return RON_OK;
}

static enum ron_rc net_sendfile(const struct ron_env *env, int fd, int file_fd, uint64_t off,
                                size_t len, size_t *ret_len)
{
    static _Thread_local bool no_sigpipe;
    off_t at = (off_t)off;
    ssize_t sent;

    (void)env;
    RON_ASSERT(len > 0);
    if (!no_sigpipe) {
        /* There is no MSG_NOSIGNAL for it, and the signal goes to the caller's thread: keeps I2. */
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGPIPE);
        RON_ASSERT(ron_thread_block_signals(&set) == 0);
        no_sigpipe = true;
    }
    sent = RON_SYS("sendfile", EPIPE, sendfile(fd, file_fd, &at, len));
    if (sent < 0) {
        return ron__rc_of_errno(errno);
    }
    if (sent == 0) {
        return RON_IO; /* shorter than it was said to be */
    }
    *ret_len = (size_t)sent;
    return RON_OK;
}

static enum ron_rc net_shutdown_write(const struct ron_env *env, int fd)
{
    (void)env;
    if (RON_SYS("shutdown", ENOBUFS, shutdown(fd, SHUT_WR)) < 0) {
        /* A peer that is gone already needs no telling. */
        return errno == ENOTCONN ? RON_CLOSED : ron__rc_of_errno(errno);
    }
    return RON_OK;
}

static enum ron_rc net_local_addr(const struct ron_env *env, int fd, char *buf, size_t len)
{
    union sock_addr sa;
    socklen_t sa_len = sizeof sa;

    (void)env;
    if (len < RON_ADDR_MAX) {
        return RON_LIMIT;
    }
    memset(&sa, 0, sizeof sa);
    if (RON_SYS("getsockname", ENOBUFS, getsockname(fd, &sa.any, &sa_len)) < 0) {
        return ron__rc_of_errno(errno);
    }
    from_sockaddr(&sa, buf, len);
    return RON_OK;
}

static void net_close(const struct ron_env *env, int fd)
{
    (void)env;
    ron__sys_close(fd);
}

static void net_reset(const struct ron_env *env, int fd)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    (void)env;
    /* Should it fail, the close below is a plain one. */
    (void)RON_SYS("setsockopt", ENOBUFS,
                  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
    ron__sys_close(fd);
}

const struct ron_net_ops ron__net_linux = {
    .listen = net_listen,
    .accept = net_accept,
    .connect = net_connect,
    .connect_result = net_connect_result,
    .read = net_read,
    .write = net_write,
    .write_more = net_write_more,
    .writev = net_writev,
    .sendfile = net_sendfile,
    .shutdown_write = net_shutdown_write,
    .local_addr = net_local_addr,
    .close = net_close,
    .reset = net_reset,
};
