/* SPDX-License-Identifier: Apache-2.0 */
/* listen.c - the sockets a server listens on, who may connect, and what is served where.
 *
 * Place: http, between server.c, which owns the tasks, and conn.c. Each worker has a socket of its
 * own on every address (the system spreads connections over them); of a Unix socket there is one,
 * because the file is the address, and the workers take turns in owning those.
 *
 * Invariants:
 *   L1 a Unix peer is let in only by what the system says of it, never by what it says itself.
 *   L2 a listener that cannot accept now (descriptors have run out) is left alone for a while:
 *      asking at once again would spin. */
#include <stdio.h>
#include <string.h>

#include "http_priv.h"
#include "ron/base/assert.h"

enum { ACCEPT_PAUSE_MS = 100 };

/* ---- accepting ------------------------------------------------------------------------------- */

void ron__http_listen_again(struct http_worker *w)
{
    for (size_t i = 0; i < w->server->listener_count; i++) {
        struct http_listener *l = &w->listeners[i];

        if (l->fd < 0 || l->listening) {
            continue;
        }
        l->listening = ron_io_watch(w->task, &l->io, RON_IO_READ) == RON_OK;
        if (!l->listening) {
            l->io._task = NULL;
            ron_task_timer_arm(w->task, &w->accept_timer, w->now_ms + ACCEPT_PAUSE_MS);
        }
    }
}

static void on_accept_pause_over(struct ron_timer *timer)
{
    struct http_worker *w = RON_CONTAINER_OF(timer, struct http_worker, accept_timer);

    ron__http_tick(w);
    ron__http_listen_again(w);
}

static void on_listener(struct ron_io *io, uint32_t events)
{
    struct http_listener *l = RON_CONTAINER_OF(io, struct http_listener, io);
    struct http_worker *w = l->w;

    (void)events;
    ron__http_tick(w);
    for (int i = 0; i < HTTP_ACCEPTS_PER_TURN; i++) {
        struct ron_peer peer = {0};
        int fd = -1;
        enum ron_rc rc = w->env->net->accept(w->env, l->fd, &fd, &peer);

        if (rc == RON_AGAIN) {
            return;
        }
        if (rc != RON_OK) {
            ron_io_forget(io); /* L2 */
            l->listening = false;
            ron_task_timer_arm(w->task, &w->accept_timer, w->now_ms + ACCEPT_PAUSE_MS);
            return;
        }
        ron__http_conn_open(l, fd, &peer);
    }
}

void ron__http_listen_stop(struct http_worker *w)
{
    for (size_t i = 0; i < w->server->listener_count; i++) {
        struct http_listener *l = &w->listeners[i];

        if (l->listening) {
            on_listener(&l->io, RON_IO_READ); /* Who came last is told too. */
        }
        if (l->listening) {
            ron_io_forget(&l->io);
            l->listening = false;
        }
    }
    ron_task_timer_cancel(w->task, &w->accept_timer);
}

/* ---- who may connect ------------------------------------------------------------------------- */

static bool has(const uint32_t *list, size_t count, uint32_t id)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == id) {
            return true;
        }
    }
    return false;
}

bool ron__http_peer_allowed(const struct ron_http_listener *def, const struct ron_peer *peer)
{
    if (!peer->has_cred) {
        return true; /* An address: L1 speaks of Unix sockets, which have one always. */
    }
    if (def->uid_count == 0 && def->gid_count == 0) {
        return peer->uid == 0 || peer->same_user;
    }
    return has(def->uids, def->uid_count, peer->uid) || has(def->gids, def->gid_count, peer->gid);
}

/* ---- opening --------------------------------------------------------------------------------- */

void ron__http_listen_init(struct http_worker *w)
{
    ron_timer_init(&w->accept_timer, on_accept_pause_over);
    for (size_t i = 0; i < RON_HTTP_LISTENERS_MAX; i++) {
        struct http_listener *l = &w->listeners[i];
        const struct ron_http_listener *def = &w->server->listeners[i];

        *l = (struct http_listener){.w = w, .def = def, .fd = -1};
        l->io = (struct ron_io){.fd = -1, .ready = on_listener};
        l->places = (def->flags & RON_HTTP_LISTEN_OPS) != 0 ? HTTP_PLACE_OPS : HTTP_PLACE_MAIN;
        l->places |= (def->flags & RON_HTTP_LISTEN_ADMIN) != 0 ? HTTP_PLACE_ADMIN : 0;
    }
}

void ron__http_listen_done(struct http_worker *w)
{
    for (size_t i = 0; i < RON_HTTP_LISTENERS_MAX; i++) {
        if (w->listeners[i].fd >= 0) {
            w->env->net->close(w->env, w->listeners[i].fd);
            w->listeners[i].fd = -1;
        }
    }
}

/* The first worker may ask for any port; the others take the one it got. */
static enum ron_rc open_one(struct ron_http_server *s, size_t at, struct ron_err *err)
{
    const struct ron_env *env = s->opts.env;
    bool is_unix = strncmp(s->listeners[at].addr, "unix:", 5) == 0;
    struct ron_listen_opts lo = {.reuse_port = !is_unix && s->worker_count > 1};
    uint32_t first = is_unix ? (uint32_t)(at % s->worker_count) : 0;
    uint32_t end = is_unix ? first + 1 : s->worker_count;
    char *addr = s->addrs[at];

    if (snprintf(addr, RON_ADDR_MAX, "%s", s->listeners[at].addr) >= RON_ADDR_MAX) {
        return ron_err_set(err, RON_INVALID, "http: the address %s is too long",
                           s->listeners[at].addr);
    }
    for (uint32_t i = first; i < end; i++) {
        struct http_listener *l = &s->workers[i].listeners[at];
        enum ron_rc rc;

        RON_TRY(env->net->listen(env, addr, &lo, &l->fd, err));
        l->io.fd = l->fd;
        if (i == 0 && !is_unix) {
            rc = env->net->local_addr(env, l->fd, addr, RON_ADDR_MAX);
            if (rc != RON_OK) {
                return ron_err_set(err, rc, "http: address of the listener");
            }
        }
    }
    return RON_OK;
}

enum ron_rc ron__http_listen_open(struct ron_http_server *s, struct ron_err *err)
{
    for (size_t i = 0; i < s->listener_count; i++) {
        RON_TRY(open_one(s, i, err));
    }
    return RON_OK;
}

const char *ron_http_server_addr(const struct ron_http_server *s)
{
    return s->addrs[0];
}

const char *ron_http_server_listener_addr(const struct ron_http_server *s, size_t index)
{
    RON_ASSERT(index < s->listener_count);
    return s->addrs[index];
}
