/* SPDX-License-Identifier: Apache-2.0 */
/* sim_net.c - the network ports over simulated sockets.
 *
 * Place: above sim_link.c. Result codes are those of the Linux binding: a refused connect is
 * RON_IO, an absent Unix socket RON_NOTFOUND, a reset RON_CLOSED.
 *
 * Short reads and writes: what a caller was kept from moving is followed by a new edge, as if the
 * rest had come or the room had opened a moment later. So code may rely on "fewer bytes than asked:
 * wait for the poller", which the manual of epoll allows. */
#include <string.h>
#include <sys/uio.h>

#include "io/io_priv.h"
#include "ron/base/assert.h"
#include "sim_fs.h"
#include "sim_sock.h"

enum { BACKLOG_DEFAULT = 512, EPHEMERAL_FIRST = 40000, SENDFILE_PIECE = 16384 };

/* After a short transfer the poller speaks again within this time. */
static const uint64_t short_edge_max_ns = 1000000;

/* ---- addresses ---- */

static bool is_zero(const uint8_t *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (at[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Which machine and port an address means to `here`. Listeners may also name "all addresses". */
static enum ron_rc find_place(struct sim_host *here, const struct ron_addr *addr, bool listens,
                              struct sim_place *ret_place)
{
    struct sim_place place = {.host = here, .port = addr->port};
    struct sim *sim = here->sim;

    if (addr->kind == RON_ADDR_UNIX) {
        place.is_unix = true;
        memcpy(place.path, addr->text, sizeof place.path);
    } else if (ron_addr_is_loopback(addr)) {
        place.any_address = false;
    } else if (addr->kind == RON_ADDR_NAME) {
        return RON_UNSUPPORTED;
    } else if (listens && is_zero(addr->ip, addr->kind == RON_ADDR_IPV4 ? 4 : 16)) {
        place.any_address = true;
    } else if (addr->kind == RON_ADDR_IPV4 && memcmp(addr->ip, (uint8_t[]){10, 0, 0}, 3) == 0 &&
               addr->ip[3] >= 1 && addr->ip[3] <= sim->host_count) {
        place.host = sim->host[addr->ip[3] - 1];
        place.any_address = true;
        if (listens && place.host != here) {
            return RON_INVALID;
        }
    } else {
        return RON_IO; /* no route */
    }
    *ret_place = place;
    return RON_OK;
}

static uint16_t ephemeral(struct sim_host *host)
{
    uint16_t port = host->port_next++;

    if (host->port_next == 0) {
        host->port_next = EPHEMERAL_FIRST;
    }
    return port;
}

/* ---- opening ---- */

static enum ron_rc net_listen(const struct ron_env *env, const char *text,
                              const struct ron_listen_opts *opts, int *ret_fd, struct ron_err *err)
{
    struct sim_env *se = sim__env(env);
    struct sim *sim = se->host->sim;
    struct ron_addr addr;
    struct sim_place place;
    struct sim_sock *sock;
    const struct sim_sock *other;
    int backlog = opts == NULL || opts->backlog == 0 ? (int)BACKLOG_DEFAULT : opts->backlog;
    bool reuse_port = opts != NULL && opts->reuse_port;
    enum ron_rc rc;
    int fd;

    RON_TRY(ron_addr_parse(text, &addr, err));
    sim__enter(sim);
    rc = se->dead ? RON_IO : find_place(se->host, &addr, true, &place);
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "cannot listen on %s", text);
    }
    if (!place.is_unix && place.port == 0) {
        place.port = ephemeral(se->host);
        addr.port = place.port;
    }
    other = sim__find_listener(sim, &place, true);
    if (other != NULL && !(reuse_port && other->reuse_port)) {
        return ron_err_set(err, RON_EXISTS, "somebody already listens on %s", text);
    }
    fd = sim__fd_take(se);
    if (fd < 0) {
        return ron_err_set(err, RON_LIMIT, "no descriptor for %s", text);
    }
    sock = sim__sock_new(se, SIM_SOCK_LISTENING);
    sock->place = place;
    sock->local = addr;
    sock->reuse_port = reuse_port;
    sock->backlog_max = (size_t)backlog;
    sock->backlog = sim__alloc(sock->backlog_max * sizeof(struct sim_sock *));
    se->fd[fd] = (struct sim_fd){.kind = SIM_FD_SOCK, .sock = sock};
    sim__event(sim, SIM_EV_LISTEN, se->host, sock->id, place.port);
    *ret_fd = fd;
    return RON_OK;
}

static void fill_peer(const struct sim_sock *sock, struct ron_peer *ret_peer)
{
    struct ron_peer peer = {0};

    if (sock->place.is_unix) {
        memcpy(peer.addr, "unix:", sizeof "unix:");
        peer.has_cred = true;
        peer.uid = 1000;
        peer.same_user = true;
        peer.gid = 1000;
        peer.pid = 100 + (int32_t)sock->env->life;
    } else {
        RON_ASSERT(ron_addr_format(&sock->remote, peer.addr, sizeof peer.addr) == RON_OK);
    }
    *ret_peer = peer;
}

static enum ron_rc net_accept(const struct ron_env *env, int fd, int *ret_fd,
                              struct ron_peer *ret_peer)
{
    struct sim_env *se = sim__env(env);
    struct sim *sim = se->host->sim;
    struct sim_sock *listener;
    struct sim_sock *sock;
    int conn;

    sim__enter(sim);
    if (se->dead) {
        return RON_CLOSED;
    }
    listener = sim__fd(se, fd, SIM_FD_SOCK)->sock;
    RON_ASSERT_MSG(listener->state == SIM_SOCK_LISTENING,
                   "accept on a socket that does not listen");
    if (listener->backlog_count == 0) {
        return RON_AGAIN;
    }
    conn = sim__fd_take(se);
    if (conn < 0) {
        return RON_LIMIT;
    }
    sock = listener->backlog[0];
    listener->backlog_count--;
    memmove(listener->backlog, listener->backlog + 1,
            listener->backlog_count * sizeof(struct sim_sock *));
    se->fd[conn] = (struct sim_fd){.kind = SIM_FD_SOCK, .sock = sock};
    sim__event(sim, SIM_EV_ACCEPT, se->host, sock->id, (uint64_t)conn);
    if (ret_peer != NULL) {
        fill_peer(sock, ret_peer);
    }
    *ret_fd = conn;
    return RON_OK;
}

/* A Unix connect is decided at once by the system: nobody there, or no room. */
static enum ron_rc check_unix(struct sim *sim, const struct sim_place *place)
{
    const struct sim_sock *listener;

    if (!place->is_unix) {
        return RON_OK;
    }
    listener = sim__find_listener(sim, place, true);
    if (listener == NULL) {
        return RON_NOTFOUND;
    }
    return listener->backlog_count == listener->backlog_max ? RON_AGAIN : RON_OK;
}

static enum ron_rc net_connect(const struct ron_env *env, const char *text, int *ret_fd,
                               struct ron_err *err)
{
    struct sim_env *se = sim__env(env);
    struct sim *sim = se->host->sim;
    struct ron_addr addr;
    struct sim_place place;
    struct sim_sock *sock;
    enum ron_rc rc;
    int fd;

    RON_TRY(ron_addr_parse(text, &addr, err));
    sim__enter(sim);
    rc = se->dead ? RON_IO : find_place(se->host, &addr, false, &place);
    if (rc == RON_OK) {
        rc = check_unix(sim, &place);
    }
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "connect %s", text);
    }
    fd = sim__fd_take(se);
    if (fd < 0) {
        return ron_err_set(err, RON_LIMIT, "no descriptor for %s", text);
    }
    sock = sim__sock_new(se, SIM_SOCK_CONNECTING);
    sock->place = place;
    sock->remote = addr;
    sock->local = (struct ron_addr){
        .kind = RON_ADDR_IPV4,
        .port = place.is_unix ? (uint16_t)0 : ephemeral(se->host),
        .ip = {10, 0, 0, (uint8_t)(se->host->id + 1)},
    };
    se->fd[fd] = (struct sim_fd){.kind = SIM_FD_SOCK, .sock = sock};
    sim__event(sim, SIM_EV_CONNECT, se->host, sock->id, place.port);
    sim__send(sim, sock, SIM_SEG_CONNECT, NULL, 0);
    sim__arm_connect_timeout(sim, sock);
    sim__leave(sim);
    *ret_fd = fd;
    return RON_OK;
}

static enum ron_rc net_connect_result(const struct ron_env *env, int fd)
{
    struct sim_env *se = sim__env(env);
    const struct sim_sock *sock;

    sim__enter(se->host->sim);
    if (se->dead) {
        return RON_CLOSED;
    }
    sock = sim__fd(se, fd, SIM_FD_SOCK)->sock;
    if (sock->state == SIM_SOCK_CONNECTING) {
        return RON_AGAIN;
    }
    return sock->state == SIM_SOCK_FAILED ? sock->err : RON_OK;
}

/* ---- moving bytes ---- */

static void short_edge(struct sim *sim, void *obj, uint64_t arg)
{
    struct sim_sock *sock = obj;

    (void)sim;
    (void)arg;
    sock->edge++;
}

/* How many of `len` bytes a call may move: now and then fewer. */
static size_t maybe_short(struct sim *sim, struct sim_sock *sock, size_t len)
{
    size_t moved;

    if (!sim__chance(&sim->rand_net, sim->opts.net_short_ppm) || len < 2) {
        return len;
    }
    moved = (size_t)ron_rand_range(&sim->rand_net, 1, len - 1);
    sim__event(sim, SIM_EV_SHORT, sock->host, len, moved);
    sim__timer(sim, sim_now_ns(sim) + ron_rand_range(&sim->rand_net, 1, short_edge_max_ns),
               short_edge, sock, 0);
    return moved;
}

static enum ron_rc read_some(struct sim *sim, struct sim_sock *sock, void *buf, size_t len,
                             size_t *ret_len)
{
    size_t have = sim__rx_len(sock);
    size_t got;

    RON_ASSERT_MSG(sock->state != SIM_SOCK_LISTENING, "read from a listener");
    if (have == 0) {
        if (sock->state == SIM_SOCK_FAILED) {
            return sock->err;
        }
        return sock->rx_end ? RON_CLOSED : RON_AGAIN;
    }
    got = maybe_short(sim, sock, RON_MIN(len, have));
    memcpy(buf, sock->rx.at + sock->rx_head, got);
    sock->rx_head += got;
    if (sock->rx_head == sock->rx.len) {
        sock->rx_head = 0;
        sock->rx.len = 0;
    }
    sim__event(sim, SIM_EV_READ, sock->host, sock->id, got);
    if (sock->peer != NULL && sock->state == SIM_SOCK_OPEN) {
        sim__send(sim, sock, SIM_SEG_ROOM, NULL, got);
    }
    *ret_len = got;
    return RON_OK;
}

static enum ron_rc net_read(const struct ron_env *env, int fd, void *buf, size_t len,
                            size_t *ret_len)
{
    struct sim_env *se = sim__env(env);
    struct sim *sim = se->host->sim;
    enum ron_rc rc;

    RON_ASSERT(len > 0);
    sim__enter(sim);
    if (se->dead) {
        return RON_CLOSED;
    }
    rc = read_some(sim, sim__fd(se, fd, SIM_FD_SOCK)->sock, buf, len, ret_len);
    sim__leave(sim);
    return rc;
}

static size_t room_of(const struct sim *sim, const struct sim_sock *sock)
{
    size_t max = (size_t)sim->opts.net_buf_bytes;

    return sock->unread >= max ? 0 : max - sock->unread;
}

static enum ron_rc write_some(struct sim *sim, struct sim_sock *sock, const void *buf, size_t len,
                              size_t *ret_len)
{
    size_t room = room_of(sim, sock);
    size_t put;

    RON_ASSERT_MSG(sock->state != SIM_SOCK_LISTENING, "write to a listener");
    if (sock->state == SIM_SOCK_FAILED) {
        return sock->err == RON_TIMEOUT ? RON_TIMEOUT : RON_CLOSED;
    }
    if (sock->tx_end) {
        return RON_CLOSED;
    }
    if (sock->state == SIM_SOCK_CONNECTING) {
        return RON_AGAIN;
    }
    if (len == 0) {
        *ret_len = 0;
        return RON_OK;
    }
    if (room < len) {
        sock->wants_room = true;
        sim__event(sim, SIM_EV_BACKPRESSURE, sock->host, sock->id, room);
    }
    if (room == 0) {
        return RON_AGAIN;
    }
    put = maybe_short(sim, sock, RON_MIN(len, room));
    *ret_len = put;
    if (sock->peer == NULL) {
        sock->unread += put; /* a doubled connect: nobody is at the other end */
        return RON_OK;
    }
    if (sock->host != sock->peer->host && sim__chance(&sim->rand_net, sim->opts.net_reset_ppm)) {
        /* The bytes were taken and are lost, which is the hard case for the caller. */
        sim__event(sim, SIM_EV_RESET, sock->host, sock->id, 1);
        sim__break(sim, sock, RON_CLOSED);
        sim__send(sim, sock, SIM_SEG_RESET, NULL, 0);
        return RON_OK;
    }
    sock->unread += put;
    sim__send(sim, sock, SIM_SEG_DATA, buf, put);
    return RON_OK;
}

static enum ron_rc net_write(const struct ron_env *env, int fd, const void *buf, size_t len,
                             size_t *ret_len)
{
    struct sim_env *se = sim__env(env);
    struct sim *sim = se->host->sim;
    enum ron_rc rc;

    sim__enter(sim);
    if (se->dead) {
        return RON_CLOSED;
    }
    rc = write_some(sim, sim__fd(se, fd, SIM_FD_SOCK)->sock, buf, len, ret_len);
    sim__leave(sim);
    return rc;
}

static enum ron_rc net_writev(const struct ron_env *env, int fd, const struct iovec *iov,
                              int iov_count, size_t *ret_len)
{
    struct sim_bytes all = {0};
    enum ron_rc rc;

    for (int i = 0; i < iov_count; i++) {
        sim__bytes_put(&all, all.len, iov[i].iov_base, iov[i].iov_len);
    }
    rc = net_write(env, fd, all.at, all.len, ret_len);
    sim__bytes_done(&all);
    return rc;
}

/* A copy: there is no other way to the simulated wire. */
static enum ron_rc net_sendfile(const struct ron_env *env, int fd, int file_fd, uint64_t off,
                                size_t len, size_t *ret_len)
{
    struct sim_env *se = sim__env(env);
    struct sim *sim = se->host->sim;
    char piece[SENDFILE_PIECE];
    size_t got = 0;
    enum ron_rc rc;

    sim__enter(sim);
    if (se->dead) {
        return RON_CLOSED;
    }
    rc = sim__file_read(se->host->disk, sim__fd(se, file_fd, SIM_FD_FILE)->inode, piece,
                        RON_MIN(len, sizeof piece), off, &got);
    if (rc == RON_OK && got == 0) {
        rc = RON_IO; /* shorter than it was said to be */
    }
    if (rc == RON_OK) {
        rc = write_some(sim, sim__fd(se, fd, SIM_FD_SOCK)->sock, piece, got, ret_len);
    }
    sim__leave(sim);
    return rc;
}

static enum ron_rc net_shutdown_write(const struct ron_env *env, int fd)
{
    struct sim_env *se = sim__env(env);
    struct sim *sim = se->host->sim;
    struct sim_sock *sock;

    sim__enter(sim);
    if (se->dead) {
        return RON_CLOSED;
    }
    sock = sim__fd(se, fd, SIM_FD_SOCK)->sock;
    if (sock->state != SIM_SOCK_OPEN) {
        return RON_CLOSED;
    }
    if (!sock->tx_end) {
        sock->tx_end = true;
        if (sock->peer != NULL) {
            sim__send(sim, sock, SIM_SEG_END, NULL, 0);
        }
    }
    sim__leave(sim);
    return RON_OK;
}

static enum ron_rc net_local_addr(const struct ron_env *env, int fd, char *buf, size_t len)
{
    struct sim_env *se = sim__env(env);

    if (se->dead) {
        return RON_CLOSED;
    }
    return ron_addr_format(&sim__fd(se, fd, SIM_FD_SOCK)->sock->local, buf, len);
}

static void end(const struct ron_env *env, int fd, bool at_once)
{
    struct sim_env *se = sim__env(env);
    struct sim *sim = se->host->sim;
    struct sim_sock *sock;

    sim__enter(sim);
    if (se->dead) {
        return; /* its descriptors were closed with it */
    }
    sock = sim__fd(se, fd, SIM_FD_SOCK)->sock;
    sim__fd_free(se, fd);
    sim__pollers_forget(sim, sock);
    sim__sock_close(sim, sock, at_once);
    sim__leave(sim);
}

static void net_close(const struct ron_env *env, int fd)
{
    end(env, fd, false);
}

static void net_reset(const struct ron_env *env, int fd)
{
    end(env, fd, true);
}

const struct ron_net_ops sim__net_ops = {
    .listen = net_listen,
    .accept = net_accept,
    .connect = net_connect,
    .connect_result = net_connect_result,
    .read = net_read,
    .write = net_write,
    .write_more = net_write,
    .writev = net_writev,
    .sendfile = net_sendfile,
    .shutdown_write = net_shutdown_write,
    .local_addr = net_local_addr,
    .close = net_close,
    .reset = net_reset,
};

/* ---- for the poller and the core ---- */

uint32_t sim__sock_ready(const struct sim *sim, const struct sim_sock *sock)
{
    uint32_t ready = 0;

    switch (sock->state) {
    case SIM_SOCK_LISTENING:
        return sock->backlog_count > 0 ? RON_IO_READ : 0;
    case SIM_SOCK_CONNECTING:
    case SIM_SOCK_CLOSED:
        return 0;
    case SIM_SOCK_FAILED:
        return RON_IO_READ | RON_IO_WRITE | RON_IO_HUP | RON_IO_ERR;
    case SIM_SOCK_OPEN:
        break;
    }
    if (sim__rx_len(sock) > 0 || sock->rx_end) {
        ready |= RON_IO_READ;
    }
    if (room_of(sim, sock) > 0 || sock->tx_end) {
        ready |= RON_IO_WRITE;
    }
    return sock->rx_end ? ready | RON_IO_HUP : ready;
}

uint64_t sim__sock_edge(const struct sim_sock *sock)
{
    return sock->edge;
}

void sim__socks_end(struct sim_env *se, bool silent)
{
    struct sim *sim = se->host->sim;

    for (int fd = SIM_FD_FIRST; fd < SIM_FDS_MAX; fd++) {
        if (se->fd[fd].kind == SIM_FD_SOCK) {
            struct sim_sock *sock = se->fd[fd].sock;
            sock->silent = silent;
            sim__pollers_forget(sim, sock);
            sim__sock_close(sim, sock, false);
        }
    }
}

uint64_t sim__socks_digest(const struct sim *sim)
{
    uint64_t hash = sim->sock_seq;

    RON_LIST_FOREACH(node, &sim->socks)
    {
        const struct sim_sock *sock = RON_LIST_ENTRY(node, struct sim_sock, node);
        hash = sim__mix(hash, ((uint64_t)sock->id << 8) | sock->state);
        if (sim__rx_len(sock) > 0) {
            hash = sim__mix(hash, sim__hash_bytes(sock->rx.at + sock->rx_head, sim__rx_len(sock)));
        }
        hash = sim__mix(hash, sock->unread);
        hash = sim__mix(hash, sock->tx_first == NULL ? 0 : sock->tx_first->at_ns);
    }
    return hash;
}

static void free_list(struct ron_list *list)
{
    struct ron_list_node *node;

    while ((node = ron_list_pop_front(list)) != NULL) {
        struct sim_sock *sock = RON_LIST_ENTRY(node, struct sim_sock, node);
        while (sock->tx_first != NULL) {
            struct sim_seg *seg = sock->tx_first;
            sock->tx_first = seg->next;
            sim__free(seg);
        }
        sim__bytes_done(&sock->rx);
        sim__free(sock->backlog);
        sim__free(sock);
    }
}

void sim__socks_free(struct sim *sim)
{
    free_list(&sim->socks);
    free_list(&sim->graves);
}
