/* SPDX-License-Identifier: Apache-2.0 */
/* tls_pair.h - a TLS server connection and an OpenSSL client, face to face over a socket pair.
 *
 * Place: tests of http's TLS. Both ends are nonblocking and driven by turns from one thread, so a
 * test decides every step. The environment is Linux's with the network ports counted and, on
 * demand, throttled; its clock moves only when the test says so. */
#pragma once

#include "unit/http/tls_certs.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "http/tls/lane.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/linux_env.h"

enum { PAIR_TURNS_MAX = 100000 };

/* What the ports did and shall do. */
struct port {
    size_t reads;
    size_t writes;        /* write and writev */
    size_t gathered;      /* of them, writev */
    size_t write_room;    /* bytes that may still be written; SIZE_MAX: any */
    enum ron_rc write_rc; /* RON_OK, or what every write returns */
    const uint8_t *feed;  /* bytes that a read brings instead of those of the socket */
    size_t feed_len;
    uint64_t skew_ms;
};

static struct port port;

static enum ron_rc port_read(const struct ron_env *env, int fd, void *buf, size_t len,
                             size_t *ret_len)
{
    port.reads++;
    if (port.feed_len > 0) {
        *ret_len = RON_MIN(len, port.feed_len);
        memcpy(buf, port.feed, *ret_len);
        port.feed += *ret_len;
        port.feed_len -= *ret_len;
        return RON_OK;
    }
    return ron_env_linux()->net->read(env, fd, buf, len, ret_len);
}

static enum ron_rc port_writev(const struct ron_env *env, int fd, const struct iovec *iov,
                               int count, size_t *ret_len)
{
    struct iovec cut[2];
    size_t room = port.write_room;
    int n = 0;

    if (port.write_rc != RON_OK) {
        return port.write_rc;
    }
    for (; n < count && n < 2 && room > 0; n++) {
        cut[n] = (struct iovec){iov[n].iov_base, RON_MIN(iov[n].iov_len, room)};
        room -= cut[n].iov_len;
    }
    if (n == 0) {
        return RON_AGAIN;
    }
    port.writes++;
    port.gathered += n > 1;
    RON_TRY(ron_env_linux()->net->writev(env, fd, cut, n, ret_len));
    port.write_room -= port.write_room == SIZE_MAX ? 0 : *ret_len;
    return RON_OK;
}

static enum ron_rc port_write(const struct ron_env *env, int fd, const void *buf, size_t len,
                              size_t *ret_len)
{
    struct iovec iov = {(void *)(uintptr_t)buf, len};

    return port_writev(env, fd, &iov, 1, ret_len);
}

static uint64_t port_mono_ns(void *ctx)
{
    return ron_env_linux()->clock.mono_ns(ctx) + port.skew_ms * RON_NS_PER_MS;
}

static uint64_t port_wall_ms(void *ctx)
{
    return ron_env_linux()->clock.wall_ms(ctx) + port.skew_ms;
}

static inline const struct ron_env *port_env(void)
{
    static struct ron_env env;
    static struct ron_net_ops net;

    net = *ron_env_linux()->net;
    net.read = port_read;
    net.write = port_write;
    net.writev = port_writev;
    env = *ron_env_linux();
    env.net = &net;
    env.clock.mono_ns = port_mono_ns;
    env.clock.wall_ms = port_wall_ms;
    port = (struct port){.write_room = SIZE_MAX};
    return &env;
}

/* ---- the pair -------------------------------------------------------------------------------- */

struct pair {
    struct tls_lane *lane;
    struct tls_conn *t;
    SSL *client;
    int fds[2];     /* server, client */
    size_t records; /* of application data that the client has received */
    enum ron_rc rc; /* of the server's last read */
};

/* The client's side: who it is and what it asks for. */
struct pair_opts {
    SSL_CTX *ctx;
    SSL_SESSION *session;
};

static inline void pair_count_record(int sent, int version, int type, const void *bytes, size_t len,
                                     SSL *ssl, void *arg)
{
    struct pair *p = arg;

    (void)version;
    (void)ssl;
    p->records += sent == 0 && type == SSL3_RT_HEADER && len > 0 &&
                  ((const uint8_t *)bytes)[0] == SSL3_RT_APPLICATION_DATA;
}

/* p->t is NULL when the lane had none. */
static inline void pair_open(struct pair *p, struct tls_lane *lane, struct ron_tls_ctx *ctx,
                             const struct pair_opts *o)
{
    *p = (struct pair){.lane = lane, .rc = RON_AGAIN};
    RON_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, p->fds) == 0);
    p->t = ron__tls_open(lane, ctx, p->fds[0], p);
    p->client = SSL_new(o->ctx);
    RON_ASSERT(p->client != NULL);
    RON_ASSERT(SSL_set_fd(p->client, p->fds[1]) == 1);
    SSL_set_connect_state(p->client);
    SSL_set_msg_callback(p->client, pair_count_record);
    SSL_set_msg_callback_arg(p->client, p);
    if (o->session != NULL) {
        RON_ASSERT(SSL_set_session(p->client, o->session) == 1);
    }
}

static inline void pair_close(struct pair *p)
{
    /* OpenSSL's client would not use the ticket of a session again that was not shut down. */
    SSL_set_shutdown(p->client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(p->client);
    if (p->t != NULL) {
        ron__tls_close(p->t);
    }
    (void)close(p->fds[0]);
    (void)close(p->fds[1]);
    ERR_clear_error();
}

/* One turn of the server without wanting bytes: handshake and what else there is. */
static inline enum ron_rc pair_server_turn(struct pair *p)
{
    char room[1];
    size_t got = 0;

    RON_IGNORE(ron__tls_ready(p->t, RON_IO_READ | RON_IO_WRITE));
    return ron__tls_read(p->t, room, sizeof room, &got);
}

/* Both in turns until the server is open or has refused, and the client has seen what came. True
 * when both think that they are connected. */
static inline bool pair_shake(struct pair *p)
{
    int done = 0;

    for (int i = 0; i < 20; i++) {
        char room[1];
        size_t got = 0;

        ERR_clear_error();
        done = SSL_do_handshake(p->client);
        if (ron__tls_shaking(p->t)) {
            p->rc = pair_server_turn(p);
        }
        if (done == 1) {
            ERR_clear_error();
            (void)SSL_peek_ex(p->client, room, 1, &got); /* tickets, or an alert */
        }
    }
    return done == 1 && p->t->state == TLS_OPEN;
}

static inline enum ron_rc pair_write(struct pair *p, const void *a, size_t a_len, const void *b,
                                     size_t b_len, size_t *ret_len)
{
    struct iovec iov[2] = {{(void *)(uintptr_t)a, a_len}, {(void *)(uintptr_t)b, b_len}};

    return ron__tls_writev(p->t, iov, b_len > 0 ? 2 : 1, ret_len);
}

/* Reads what the client has, at most `size`. */
static inline size_t pair_client_read(struct pair *p, char *buf, size_t size)
{
    size_t total = 0;
    size_t got = 0;

    while (total < size && SSL_read_ex(p->client, buf + total, size - total, &got) == 1) {
        total += got;
    }
    return total;
}

static inline SSL_CTX *pair_client_ctx(int lowest, int highest)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

    RON_ASSERT(ctx != NULL);
    RON_ASSERT(SSL_CTX_set_min_proto_version(ctx, lowest) == 1);
    RON_ASSERT(SSL_CTX_set_max_proto_version(ctx, highest) == 1);
    return ctx;
}
