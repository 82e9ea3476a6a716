/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - a server on real sockets, and a plain client that reads answers.
 *
 * Place: tests of http/ only. Handlers run on workers and record; the test thread judges. Replies
 * that a handler takes are kept in `held` for the test thread to send, which is another thread than
 * the worker, as in production. */
#pragma once

#include "unit/front/fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "http/server/counters.h"
#include "http/server/priv.h"
#include "http/server/server_testing.h"

enum { WEB_HELD_MAX = 128, WEB_ANSWER_MAX = 1 << 16, WEB_BIG = 6 << 20 };

struct web {
    struct fx *fx;
    struct ron_http_server *server;
    struct sockaddr_in addr;
    struct fx_gate deferred; /* its lock guards `held` */
    struct ron_http_reply *held[WEB_HELD_MAX];
    struct ron_str bodies[WEB_HELD_MAX];
    size_t held_count;
    struct fx_gate refused;  /* defers that found the gate closed */
    struct fx_gate answered; /* calls of on_done */
    struct fx_stage stage;
    char *big;
};

/* ---- handlers -------------------------------------------------------------------------------- */

static inline void web_hi(struct ron_http_call *call, void *arg)
{
    (void)arg;
    ron_http_answer(call, 200, "text/plain", "hi", 2);
}

static inline void web_echo(struct ron_http_call *call, void *arg)
{
    struct ron_str body = ron_http_body(call);

    (void)arg;
    ron_http_answer(call, 200, "text/plain", body.ptr, body.len);
}

static inline void web_number(struct ron_http_call *call, void *arg)
{
    char text[32];
    int len =
        snprintf(text, sizeof text, "n=%llu", (unsigned long long)ron_http_param_u64(call, 0));

    (void)arg;
    ron_http_answer(call, 200, "text/plain", text, (size_t)len);
}

static inline void web_defer(struct ron_http_call *call, void *arg)
{
    struct web *web = arg;
    struct ron_http_reply *r = NULL;

    if (ron_http_defer(call, &r) != RON_OK) {
        ron_http_fail(call, RON_HTTP_BUSY);
        fx_gate_add(&web->refused, 1);
        return;
    }
    ron_mutex_lock(&web->deferred.mu);
    web->bodies[web->held_count] = ron_http_body(call);
    web->held[web->held_count++] = r;
    ron_mutex_unlock(&web->deferred.mu);
    fx_gate_add(&web->deferred, 1);
}

static inline void web_undefer(struct ron_http_call *call, void *arg)
{
    struct ron_http_reply *r = NULL;

    (void)arg;
    if (ron_http_defer(call, &r) == RON_OK) {
        ron_http_undefer(call, r);
    }
    ron_http_fail(call, RON_HTTP_BUSY);
}

static inline void web_big(struct ron_http_call *call, void *arg)
{
    struct web *web = arg;
    ron_http_answer(call, 200, "text/plain", web->big, WEB_BIG);
}

static inline void web_stream(struct ron_http_call *call, void *arg)
{
    struct web *web = arg;

    ron_http_begin(call, 200, "text/plain");
    ron_http_chunk(call, "abc", 3);
    ron_http_chunk(call, "", 0);
    ron_http_chunk(call, web->big, 5000);
    ron_http_end(call);
}

static inline void web_bad_header(struct ron_http_call *call, void *arg)
{
    (void)arg;
    (void)ron_http_add_header(call, "X-Split", (struct ron_str){"a\r\nSet-Cookie: b", 16});
    ron_http_answer(call, 200, "text/plain", "hi", 2);
}

static inline void web_nothing(struct ron_http_call *call, void *arg)
{
    (void)call;
    (void)arg;
}

static inline void web_on_done(void *arg, const struct ron_http_done *done)
{
    struct web *web = arg;

    (void)done;
    fx_gate_add(&web->answered, 1);
}

enum { WEB_ROUTES = 10, WEB_ROUTES_MAX = 24 };

/* A network of the test's own for the next web_open; NULL: the system's. */
static const struct ron_net_ops *web_net;
/* What the next web_open adds to the supervisor before it runs; NULL: nothing. */
static void (*web_add)(struct web *web);

/* ---- the server ------------------------------------------------------------------------------ */

/* `o` holds the limits that the test cares about, and routes beyond the usual ones: their argument
 * is the fixture. */
static inline struct web *web_open(uint32_t workers, struct ron_http_opts o)
{
    static struct ron_http_route routes[WEB_ROUTES_MAX];
    struct web *web = calloc(1, sizeof *web);
    struct ron_err err = {0};
    const char *colon;

    RON_ASSERT(web != NULL);
    const struct ron_http_route rows[WEB_ROUTES] = {
        {RON_HTTP_GET, "/hi", web_hi, web, RON_HTTP_INLINE, 0},
        {RON_HTTP_POST, "/echo", web_echo, web, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/n/{n:u64}", web_number, web, RON_HTTP_INLINE, 0},
        {RON_HTTP_POST, "/defer", web_defer, web, 0, 0},
        {RON_HTTP_GET, "/undefer", web_undefer, web, 0, 0},
        {RON_HTTP_GET, "/big", web_big, web, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/stream", web_stream, web, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/bad-header", web_bad_header, web, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/nothing", web_nothing, web, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/healthz", web_hi, web, RON_HTTP_ALWAYS, 0},
    };
    memcpy(routes, rows, sizeof rows);
    RON_ASSERT(WEB_ROUTES + o.route_count <= WEB_ROUTES_MAX);
    for (size_t i = 0; i < o.route_count; i++) {
        routes[WEB_ROUTES + i] = o.routes[i];
        routes[WEB_ROUTES + i].arg = web;
    }
    fx_gate_init(&web->deferred);
    fx_gate_init(&web->refused);
    fx_gate_init(&web->answered);
    web->big = malloc(WEB_BIG);
    RON_ASSERT(web->big != NULL);
    memset(web->big, 'z', WEB_BIG);
    web->fx = fx_open(workers);
    if (web_net != NULL) {
        web->fx->env.net = web_net;
    }
    o.name = "http";
    o.env = &web->fx->env;
    o.registry = web->fx->reg;
    o.workers = workers;
    o.addr = o.listener_count == 0 ? "127.0.0.1:0" : NULL; /* the first listener is TCP */
    o.routes = routes;
    o.route_count += WEB_ROUTES;
    o.on_done = web_on_done;
    o.on_done_arg = web;
    if (ron_http_server_new(&o, &web->server, &err) != RON_OK ||
        ron_http_server_attach(web->server, web->fx->sup, &err) != RON_OK) {
        (void)fprintf(stderr, "fixture: %s\n", err.msg);
        abort();
    }
    colon = strrchr(ron_http_server_addr(web->server), ':');
    web->addr = (struct sockaddr_in){.sin_family = AF_INET,
                                     .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10)),
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    fx_stage_add(web->fx, &web->stage);
    if (web_add != NULL) {
        web_add(web);
    }
    fx_start(web->fx);
    return web;
}

static inline struct ron_http_counters web_counters(const struct web *web)
{
    struct ron_http_counters c;

    ron_http_server_counters(web->server, &c);
    return c;
}

/* Frees everything; the supervisor has stopped. */
static inline void web_free(struct web *web)
{
    fx_end(web->fx);
    assert_true(ron_http_server_free(web->server));
    fx_done(web->fx);
    fx_gate_done(&web->deferred);
    fx_gate_done(&web->refused);
    fx_gate_done(&web->answered);
    fx_gate_done(&web->stage.release);
    free(web->big);
    free(web);
}

static inline void web_close(struct web *web)
{
    assert_int_equal(fx_stop(web->fx), RON_EXIT_DRAINED);
    assert_int_equal(web_counters(web).connections, 0);
    web_free(web);
}

/* The i-th reply taken by a handler, once it is there. */
static inline struct ron_http_reply *web_reply(struct web *web, size_t i)
{
    struct ron_http_reply *r;

    assert_true(fx_gate_reached(&web->deferred, i + 1));
    ron_mutex_lock(&web->deferred.mu);
    r = web->held[i];
    ron_mutex_unlock(&web->deferred.mu);
    return r;
}

static inline void web_send_reply(struct ron_http_reply *r, const char *text)
{
    assert_int_equal(ron_buf_append_text(ron_http_reply_body(r), text), RON_OK);
    ron_http_reply_send(r, 200, "text/plain");
}

/* ---- the client ------------------------------------------------------------------------------ */

struct cli {
    int fd;
    size_t have;
    char in[WEB_ANSWER_MAX]; /* bytes read and not yet taken, with a NUL behind them */
};

static inline void cli_open(struct cli *c, const struct web *web)
{
    struct timeval limit = {.tv_sec = FX_WAIT_MS / 1000};

    *c = (struct cli){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_true(c->fd >= 0);
    assert_int_equal(setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(connect(c->fd, (const struct sockaddr *)&web->addr, sizeof web->addr), 0);
}

static inline void cli_close(struct cli *c)
{
    (void)close(c->fd);
    c->fd = -1;
}

static inline void cli_send(struct cli *c, const void *bytes, size_t len)
{
    assert_int_equal(send(c->fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

static inline void cli_say(struct cli *c, const char *text)
{
    cli_send(c, text, strlen(text));
}

/* Reads more; false at the end of the stream. A reset fails the test: the end must be a FIN. */
static inline bool cli_more(struct cli *c)
{
    ssize_t n = recv(c->fd, c->in + c->have, sizeof c->in - 1 - c->have, 0);

    if (n < 0) {
        fail_msg("recv: %s", strerror(errno));
    }
    c->have += (size_t)n;
    c->in[c->have] = '\0';
    return n > 0;
}

struct answer {
    int status;
    char head[2048];
    char body[WEB_ANSWER_MAX];
    size_t body_len;
};

/* The next answer with Content-Length; `no_body` for HEAD. */
static inline void cli_answer(struct cli *c, bool no_body, struct answer *a)
{
    char *end = NULL;
    const char *length;
    size_t head_len;

    while ((end = strstr(c->in, "\r\n\r\n")) == NULL) {
        if (!cli_more(c)) {
            fail_msg("closed before an answer: '%s'", c->in);
        }
    }
    head_len = (size_t)(end - c->in) + 4;
    assert_true(head_len < sizeof a->head);
    memcpy(a->head, c->in, head_len);
    a->head[head_len] = '\0';
    assert_int_equal(strncmp(a->head, "HTTP/1.1 ", 9), 0);
    a->status = (int)strtol(a->head + 9, NULL, 10);
    length = strstr(a->head, "Content-Length: ");
    a->body_len = length == NULL || no_body ? 0 : strtoul(length + 16, NULL, 10);
    assert_true(a->body_len < sizeof a->body);
    while (c->have < head_len + a->body_len) {
        assert_true(cli_more(c));
    }
    memcpy(a->body, c->in + head_len, a->body_len);
    a->body[a->body_len] = '\0';
    c->have -= head_len + a->body_len;
    memmove(c->in, c->in + head_len + a->body_len, c->have + 1);
}

static inline void cli_expect(struct cli *c, int status, const char *body_part)
{
    static struct answer a;

    cli_answer(c, false, &a);
    if (a.status != status || strstr(a.body, body_part) == NULL) {
        fail_msg("wanted %d '%s', got: %s%s", status, body_part, a.head, a.body);
    }
}

/* The server has closed, with FIN, and nothing more came. */
static inline void cli_expect_end(struct cli *c)
{
    bool more = cli_more(c);

    if (more) {
        fail_msg("wanted the end, got '%s'", c->in);
    }
}
