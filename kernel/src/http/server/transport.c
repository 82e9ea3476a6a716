/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/transport.c - the only place where bytes of a connection meet its socket.
 *
 * Place: http, under conn.c, request.c and answer.c, on the worker that owns the connection. What
 * lies between the socket and HTTP (TLS) is put in here and nowhere else.
 *
 * Invariants:
 *   S1 ron__http_read leaves `readable` true whenever more bytes may be there without a new event:
 *      the poller speaks of changes only.
 *   S2 a transport that fails makes the connection dead; one that ends makes it eof. Both are told
 *      once, and nobody reads or writes afterwards. */
#include <sys/uio.h>

#include "http/server/priv.h"

bool ron__http_secure(struct http_conn *c, struct ron_tls_ctx *ctx)
{
    c->tls = ron__tls_open(&c->w->tls, ctx, c->io.fd, c);
    return c->tls != NULL;
}

void ron__http_ready(struct http_conn *c, uint32_t events)
{
    c->hup = c->hup || (events & RON_IO_HUP) != 0;
    c->readable = c->readable || (events & (RON_IO_READ | RON_IO_HUP)) != 0;
    c->dead = c->dead || (events & RON_IO_ERR) != 0; /* it may have been evicted before */
    if (c->tls != NULL && c->state != HTTP_LINGER && ron__tls_ready(c->tls, events) != RON_OK) {
        c->dead = true;
    }
}

static bool read_tls(struct http_conn *c, void *room, size_t len, size_t *ret_len)
{
    bool shaking = ron__tls_shaking(c->tls);
    enum ron_rc rc = ron__tls_read(c->tls, room, len, ret_len);

    if (shaking && c->tls->state == TLS_OPEN) {
        c->progress_ms = c->w->now_ms; /* From here on it is idle. */
    }
    if (rc == RON_AGAIN && c->state == HTTP_IDLE && ron__tls_partial(c->tls)) {
        c->state = HTTP_HEAD; /* A record has begun, and with it the time of a head. */
        c->start_ms = c->w->now_ms;
    }
    c->readable = rc == RON_OK && ron__tls_more(c->tls);
    c->eof = rc == RON_CLOSED;
    c->dead = c->dead || rc == RON_IO;
    /* Refused: it has been told by an alert, which the peer can still read before the end. */
    c->closing = c->closing || rc == RON_DENIED;
    return rc == RON_OK;
}

bool ron__http_read(struct http_conn *c, void *room, size_t len, size_t *ret_len)
{
    const struct ron_env *env = c->w->env;
    size_t got = 0;
    enum ron_rc rc;

    if (!c->readable) {
        return false;
    }
    if (c->tls != NULL) {
        if (!read_tls(c, room, len, &got)) {
            return false;
        }
    } else {
        rc = env->net->read(env, c->io.fd, room, len, &got);
        if (rc != RON_OK) {
            c->readable = false;
            c->eof = rc == RON_CLOSED;
            c->dead = rc != RON_CLOSED && rc != RON_AGAIN;
            return false;
        }
        /* Fewer bytes than asked for means that the socket is empty: one system call less. Not when
         * the peer has closed, because then the end is still to be read. */
        c->readable = got == len || c->hup;
    }
    c->progress_ms = c->w->now_ms;
    ron_stat_bump(&c->w->bytes_in, got);
    *ret_len = got;
    return true;
}

static size_t wrote(struct http_conn *c, enum ron_rc rc, size_t sent)
{
    if (rc != RON_OK) {
        c->dead = c->dead || rc != RON_AGAIN;
        return 0;
    }
    ron_stat_bump(&c->w->bytes_out, sent);
    return sent;
}

size_t ron__http_writev(struct http_conn *c, const struct iovec *iov, int count)
{
    const struct ron_env *env = c->w->env;
    size_t sent = 0;
    enum ron_rc rc = c->tls != NULL ? ron__tls_writev(c->tls, iov, count, &sent)
                     : count == 1
                         ? env->net->write(env, c->io.fd, iov[0].iov_base, iov[0].iov_len, &sent)
                         : env->net->writev(env, c->io.fd, iov, count, &sent);

    return wrote(c, rc, sent);
}

size_t ron__http_write_more(struct http_conn *c, const void *bytes, size_t len)
{
    const struct ron_env *env = c->w->env;
    struct iovec iov = {(void *)(uintptr_t)bytes, len};
    size_t sent = 0;
    enum ron_rc rc;

    if (c->tls != NULL) { /* whose records are pieces of their own anyway */
        return ron__http_writev(c, &iov, 1);
    }
    rc = env->net->write_more(env, c->io.fd, bytes, len, &sent);
    return wrote(c, rc, sent);
}

/* A piece of the file as one record. The bytes are most likely in memory; if not, the worker waits
 * for the disk, as it does in sendfile. */
static enum ron_rc sendfile_tls(struct http_conn *c, int file_fd, uint64_t off, size_t len,
                                size_t *ret_sent)
{
    const struct ron_env *env = c->w->env;
    struct iovec iov = {c->w->tls.first, RON_MIN(len, (size_t)TLS_FIRST_BYTES)};
    bool may_block = ron_thread_set_may_block(true);
    size_t got = 0;
    enum ron_rc rc = env->disk->pread(env, file_fd, iov.iov_base, iov.iov_len, off, &got);

    (void)ron_thread_set_may_block(may_block);
    RON_TRY(rc);
    return got < iov.iov_len ? RON_IO : ron__tls_writev(c->tls, &iov, 1, ret_sent);
}

size_t ron__http_sendfile(struct http_conn *c, int file_fd, uint64_t off, size_t len)
{
    const struct ron_env *env = c->w->env;
    size_t sent = 0;
    enum ron_rc rc = c->tls != NULL ? sendfile_tls(c, file_fd, off, len, &sent)
                                    : env->net->sendfile(env, c->io.fd, file_fd, off, len, &sent);

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
    if (c->tls != NULL) {
        ron__tls_bye(c->tls);
    }
    return c->w->env->net->shutdown_write(c->w->env, c->io.fd) == RON_OK;
}

void ron__http_hang_up(struct http_conn *c)
{
    bool unsent = ron__http_sending(c);

    ron_io_forget(&c->io);
    if (c->tls != NULL) {
        ron__tls_close(c->tls);
        c->tls = NULL;
    }
    if (unsent) {
        c->w->env->net->reset(c->w->env, c->io.fd); /* it does not read, or is gone */
    } else {
        c->w->env->net->close(c->w->env, c->io.fd);
    }
}

bool ron_http_tls_peer(const struct ron_http_call *call, struct ron_tls_peer *ret_peer)
{
    return call->c->tls != NULL && ron__tls_peer(call->c->tls, ret_peer);
}
