/* SPDX-License-Identifier: Apache-2.0 */
/* client_fixture.h - a client with targets, and a peer on raw sockets that misbehaves on request.
 *
 * Place: tests of the HTTP client only. The path of a request says how the peer answers it; each
 * request is counted. The peer waits for events only; "slow" means one byte a PEER_DRIP_MS. */
#pragma once

#include "unit/front/fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "http/client/priv.h"

enum { PEER_CONNS = 256, PEER_IN = 16384, PEER_DRIP_MS = 20 };

struct peer_conn {
    int fd;
    size_t have;
    bool drips;
    bool served; /* has answered at least once */
    char in[PEER_IN];
};

struct peer {
    int listener;
    int stop[2];
    uint16_t port;
    struct ron_thread *thread;
    struct fx_gate hits;    /* requests read; its lock guards `last` */
    struct fx_gate accepts; /* connections */
    struct ron_au32 flaky;  /* so many requests for /flaky are still to fail */
    char last[PEER_IN];     /* the last request */
    char extra[512];        /* header of /extra; set before use */
    size_t count;
    struct peer_conn *conns[PEER_CONNS];
};

static inline void peer_write(int fd, const char *text)
{
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

/* Writes the same for ever; ends when the other side has had enough. */
static inline void peer_flood(int fd, const char *head, const char *piece)
{
    struct timeval limit = {.tv_sec = 20};

    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    peer_write(fd, head);
    while (send(fd, piece, strlen(piece), MSG_NOSIGNAL) > 0) {
    }
}

static inline void peer_answer(int fd, int status, const char *extra, const char *body)
{
    char text[1024];

    (void)snprintf(text, sizeof text, "HTTP/1.1 %d X\r\n%sContent-Length: %zu\r\n\r\n%s", status,
                   extra, strlen(body), body);
    peer_write(fd, text);
}

/* False: close the connection. */
static inline bool peer_serve(struct peer *p, struct peer_conn *c, const char *path)
{
    struct linger reset = {.l_onoff = 1};
    int status = 0;

    if (strcmp(path, "/ok") == 0) {
        peer_answer(c->fd, 200, "", "ok");
    } else if (strcmp(path, "/stall") == 0) {
        return true;
    } else if (strcmp(path, "/drip") == 0) {
        peer_write(c->fd, "HTTP/1.1 200 X\r\nContent-Length: 100000\r\n\r\n");
        c->drips = true;
    } else if (strcmp(path, "/truncate") == 0) {
        peer_write(c->fd, "HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\nabc");
        return false;
    } else if (strcmp(path, "/truncate-head") == 0) {
        peer_write(c->fd, "HTTP/1.1 200 X\r\nContent-Le");
        return false;
    } else if (strcmp(path, "/reset") == 0) {
        (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        return false;
    } else if (strcmp(path, "/close") == 0) {
        return false;
    } else if (strcmp(path, "/once") ==
               0) { /* answers one request of a connection, drops the next */
        if (c->served) {
            return false;
        }
        peer_answer(c->fd, 200, "", "ok");
    } else if (strcmp(path, "/garbage") == 0) {
        peer_write(c->fd, "220 mail.example ESMTP\r\n");
        return false;
    } else if (strcmp(path, "/bad-chunk") == 0) {
        peer_write(c->fd, "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
        return false;
    } else if (strcmp(path, "/headers") == 0) {
        peer_flood(c->fd, "HTTP/1.1 200 X\r\n", "X-Filler: 0123456789012345678901234567890\r\n");
        return false;
    } else if (strcmp(path, "/longline") == 0) {
        peer_flood(c->fd,
                   "HTTP/1.1 200 X\r\nX-Filler: ", "0123456789012345678901234567890123456789");
        return false;
    } else if (strcmp(path, "/interim") == 0) {
        peer_flood(c->fd, "", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n");
        return false;
    } else if (strcmp(path, "/endless") == 0) {
        peer_flood(c->fd, "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\nabcd\r\n");
        return false;
    } else if (strcmp(path, "/announced") == 0) {
        peer_write(c->fd, "HTTP/1.1 200 X\r\nContent-Length: 99999999999\r\n\r\nabc");
        return true;
    } else if (strcmp(path, "/extra") == 0) {
        peer_answer(c->fd, 302, p->extra, "moved");
    } else if (strcmp(path, "/flaky") == 0) {
        uint32_t left = ron_au32_load(&p->flaky);

        ron_au32_store(&p->flaky, left > 0 ? left - 1 : 0);
        peer_answer(c->fd, left > 0 ? 503 : 200, p->extra, "flaky");
    } else if (sscanf(path, "/status/%d", &status) == 1) {
        peer_answer(c->fd, status, "X-Twice: a\r\nX-Twice: b\r\nETag: \"e\"\r\n", "said");
    } else {
        peer_answer(c->fd, 404, "", "");
    }
    c->served = true;
    return true;
}

/* One whole request, if it has come. False: close. */
static inline bool peer_request(struct peer *p, struct peer_conn *c)
{
    char path[256] = "";
    char *end = strstr(c->in, "\r\n\r\n");
    const char *length = strstr(c->in, "Content-Length: ");
    size_t need;

    if (end == NULL) {
        return c->have < PEER_IN - 1;
    }
    need = (size_t)(end - c->in) + 4 +
           (length != NULL && length < end ? strtoul(length + 16, NULL, 10) : 0);
    if (c->have < need) {
        return true;
    }
    (void)sscanf(c->in, "%*s %255s", path);
    ron_mutex_lock(&p->hits.mu);
    memcpy(p->last, c->in, c->have + 1);
    ron_mutex_unlock(&p->hits.mu);
    c->have = 0;
    fx_gate_add(&p->hits, 1);
    return peer_serve(p, c, path);
}

static inline bool peer_read(struct peer *p, struct peer_conn *c)
{
    ssize_t n = recv(c->fd, c->in + c->have, PEER_IN - 1 - c->have, MSG_DONTWAIT);

    if (n <= 0) {
        return n < 0 && errno == EAGAIN;
    }
    c->have += (size_t)n;
    c->in[c->have] = '\0';
    return peer_request(p, c);
}

static inline void peer_drop(struct peer *p, size_t i)
{
    (void)close(p->conns[i]->fd);
    free(p->conns[i]);
    p->conns[i] = p->conns[--p->count];
}

static inline void peer_accept(struct peer *p)
{
    int fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd >= 0 && p->count < PEER_CONNS) {
        p->conns[p->count] = calloc(1, sizeof(struct peer_conn));
        RON_ASSERT(p->conns[p->count] != NULL);
        p->conns[p->count++]->fd = fd;
        fx_gate_add(&p->accepts, 1);
    }
}

static inline void peer_main(void *arg)
{
    struct peer *p = arg;

    for (;;) {
        struct pollfd fds[PEER_CONNS + 2] = {{.fd = p->stop[0], .events = POLLIN},
                                             {.fd = p->listener, .events = POLLIN}};
        size_t count = p->count;

        for (size_t i = 0; i < count; i++) {
            fds[i + 2] = (struct pollfd){.fd = p->conns[i]->fd, .events = POLLIN};
        }
        (void)poll(fds, count + 2, PEER_DRIP_MS);
        if (fds[0].revents != 0) {
            break;
        }
        for (size_t i = count; i-- > 0;) {
            if (p->conns[i]->drips) {
                peer_write(p->conns[i]->fd, "d");
            }
            if (fds[i + 2].revents != 0 && !peer_read(p, p->conns[i])) {
                peer_drop(p, i);
            }
        }
        if (fds[1].revents != 0) {
            peer_accept(p);
        }
    }
    while (p->count > 0) {
        peer_drop(p, 0);
    }
}

static inline struct peer *peer_open(void)
{
    struct peer *p = calloc(1, sizeof *p);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;

    RON_ASSERT(p != NULL);
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    RON_ASSERT(bind(p->listener, (struct sockaddr *)&addr, sizeof addr) == 0);
    RON_ASSERT(listen(p->listener, 256) == 0);
    RON_ASSERT(getsockname(p->listener, (struct sockaddr *)&addr, &len) == 0);
    RON_ASSERT(pipe2(p->stop, O_CLOEXEC) == 0);
    p->port = ntohs(addr.sin_port);
    fx_gate_init(&p->hits);
    fx_gate_init(&p->accepts);
    RON_ASSERT(ron_thread_start(&(struct ron_thread_opts){.name = "peer",
                                                          .may_block = true,
                                                          .stack_bytes = 1 << 20,
                                                          .main = peer_main,
                                                          .arg = p},
                                &p->thread, NULL) == RON_OK);
    return p;
}

static inline void peer_close(struct peer *p)
{
    (void)!write(p->stop[1], "x", 1);
    ron_thread_join(p->thread);
    (void)close(p->listener);
    (void)close(p->stop[0]);
    (void)close(p->stop[1]);
    fx_gate_done(&p->hits);
    fx_gate_done(&p->accepts);
    free(p);
}

/* ---- the client ------------------------------------------------------------------------------ */

struct cl {
    struct fx *fx;
    struct peer *peer;
    struct ron_http_client *client;
    struct ron_http_target *t; /* the first target */
    struct fx_gate done;       /* calls of cl_done */
    char url[256];
};

static inline void cl_done(struct ron_http_fetch *f, void *arg)
{
    (void)f;
    fx_gate_add(&((struct cl *)arg)->done, 1);
}

static const char *const cl_hosts[] = {"127.0.0.1", "localhost", "[::1]"};
static const char *const cl_ops[] = {"get", "put"};

#define CL_LOCAL (RON_HTTP_TARGET_LOOPBACK | RON_HTTP_TARGET_PLAIN)

/* Adds a target with the usual hosts where `o` has none. */
static inline struct ron_http_target *cl_target(struct cl *cl, struct ron_http_target_opts o)
{
    struct ron_http_target *t = NULL;
    struct ron_err err = {0};

    if (o.hosts == NULL) {
        o.hosts = cl_hosts;
        o.host_count = RON_ARRAY_LEN(cl_hosts);
    }
    o.ops = cl_ops;
    o.op_count = RON_ARRAY_LEN(cl_ops);
    if (ron_http_client_add(cl->client, &o, &t, &err) != RON_OK) {
        (void)fprintf(stderr, "fixture: %s\n", err.msg);
        abort();
    }
    return t;
}

/* Not yet running: targets may be added until cl_start. */
static inline struct cl *cl_open(struct ron_http_target_opts o)
{
    struct cl *cl = calloc(1, sizeof *cl);
    struct ron_err err = {0};

    RON_ASSERT(cl != NULL);
    cl->fx = fx_open(2);
    cl->peer = peer_open();
    fx_gate_init(&cl->done);
    if (ron_http_client_new(
            &(struct ron_http_client_opts){
                .name = "client", .env = &cl->fx->env, .registry = cl->fx->reg, .worker = 1},
            &cl->client, &err) != RON_OK) {
        (void)fprintf(stderr, "fixture: %s\n", err.msg);
        abort();
    }
    if (o.name == NULL) {
        o.name = "svc";
        o.flags |= CL_LOCAL;
    }
    cl->t = cl_target(cl, o);
    return cl;
}

static inline void cl_start(struct cl *cl)
{
    RON_ASSERT(ron_http_client_attach(cl->client, cl->fx->sup, NULL) == RON_OK);
    fx_start(cl->fx);
}

static inline struct cl *cl_run(struct ron_http_target_opts o)
{
    struct cl *cl = cl_open(o);

    cl_start(cl);
    return cl;
}

static inline void cl_free(struct cl *cl)
{
    fx_end(cl->fx);
    assert_true(ron_http_client_free(cl->client));
    peer_close(cl->peer);
    fx_done(cl->fx);
    fx_gate_done(&cl->done);
    free(cl);
}

static inline void cl_close(struct cl *cl)
{
    assert_int_equal(fx_stop(cl->fx), RON_EXIT_DRAINED);
    cl_free(cl);
}

/* The URL of a path at the peer. */
static inline const char *cl_url(struct cl *cl, const char *path)
{
    (void)snprintf(cl->url, sizeof cl->url, "http://127.0.0.1:%u%s", cl->peer->port, path);
    return cl->url;
}

static inline struct ron_http_fetch *cl_begin(struct cl *cl, struct ron_http_target *t,
                                              struct ron_http_fetch_opts o)
{
    struct ron_http_fetch *f = NULL;
    struct ron_err err = {0};

    if (o.done == NULL && o.done_chan == NULL) {
        o.done = cl_done;
        o.arg = cl;
    }
    if (ron_http_fetch_start(t, &o, &f, &err) != RON_OK) {
        fail_msg("start: %s", err.msg);
    }
    return f;
}

/* Starts one and waits for its end. Not for a second one at the same time. */
static inline struct ron_http_fetch *cl_call(struct cl *cl, struct ron_http_target *t,
                                             struct ron_http_fetch_opts o)
{
    uint64_t before = fx_gate_count(&cl->done);
    struct ron_http_fetch *f = cl_begin(cl, t, o);

    assert_true(fx_gate_reached(&cl->done, before + 1));
    return f;
}

static inline void cl_expect(struct cl *cl, struct ron_http_target *t, struct ron_http_fetch_opts o,
                             enum ron_http_fetch_reason reason, int status)
{
    struct ron_http_fetch *f = cl_call(cl, t, o);
    const struct ron_http_fetch_result *r = ron_http_fetch_result(f);

    if (r->reason != reason || r->status != status) {
        fail_msg("%s: %s %d: %s", o.url, ron_http_fetch_reason_label(r->reason), r->status,
                 r->message);
    }
    ron_http_fetch_release(f);
}
