/* SPDX-License-Identifier: Apache-2.0 */
/* transport.c - the only place where bytes of a connection meet its socket.
 *
 * Place: http, under conn.c, request.c and answer.c, on the worker that owns the connection. What
 * lies between the socket and HTTP (TLS) is put in here and nowhere else.
 *
 * Invariants:
 *   T1 ron__http_read leaves `readable` true whenever more bytes may be there without a new event:
 *      the poller speaks of changes only.
 *   T2 a transport that fails makes the connection dead; one that ends makes it eof. Both are told
 *      once, and nobody reads or writes afterwards. */
#include <sys/uio.h>

#include "http_priv.h"

bool ron__http_read(struct http_conn *c, void *room, size_t len, size_t *ret_len)
{
    const struct ron_env *env = c->w->env;
    size_t got = 0;
    enum ron_rc rc;

    if (!c->readable) {
        return false;
    }
    rc = env->net->read(env, c->io.fd, room, len, &got);
    if (rc != RON_OK) {
        c->readable = false;
        c->eof = rc == RON_CLOSED;
        c->dead = rc != RON_CLOSED && rc != RON_AGAIN;
        return false;
    }
    /* Fewer bytes than asked for means that the socket is empty: one system call less. Not when the
     * peer has closed, because then the end is still to be read. */
    c->readable = got == len || c->hup;
    c->progress_ms = c->w->now_ms;
    ron_stat_bump(&c->w->bytes_in, got);
    *ret_len = got;
    return true;
}

size_t ron__http_writev(struct http_conn *c, const struct iovec *iov, int count)
{
    const struct ron_env *env = c->w->env;
    size_t sent = 0;
    enum ron_rc rc = count == 1
                         ? env->net->write(env, c->io.fd, iov[0].iov_base, iov[0].iov_len, &sent)
                         : env->net->writev(env, c->io.fd, iov, count, &sent);

    if (rc != RON_OK) {
        c->dead = c->dead || rc != RON_AGAIN;
        return 0;
    }
    ron_stat_bump(&c->w->bytes_out, sent);
    return sent;
}

size_t ron__http_sendfile(struct http_conn *c, int file_fd, uint64_t off, size_t len)
{
    const struct ron_env *env = c->w->env;
    size_t sent = 0;
    enum ron_rc rc = env->net->sendfile(env, c->io.fd, file_fd, off, len, &sent);

    if (rc != RON_OK) {
        c->dead = c->dead || rc != RON_AGAIN; /* A file that ends early cannot be made good. */
        return 0;
    }
    ron_stat_bump(&c->w->bytes_out, sent);
    return sent;
}

bool ron__http_discard(struct http_conn *c, void *room, size_t len, size_t *ret_len)
{
    const struct ron_env *env = c->w->env;
    enum ron_rc rc = env->net->read(env, c->io.fd, room, len, ret_len);

    c->eof = c->eof || (rc != RON_OK && rc != RON_AGAIN);
    return rc == RON_OK;
}

bool ron__http_fin(struct http_conn *c)
{
    return c->w->env->net->shutdown_write(c->w->env, c->io.fd) == RON_OK;
}

void ron__http_hang_up(struct http_conn *c)
{
    ron_io_forget(&c->io);
    c->w->env->net->close(c->w->env, c->io.fd);
}
