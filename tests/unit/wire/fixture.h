/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - an OAP server on real sockets, a plain client that reads frames, and asks of ours.
 *
 * Place: tests of wire/ only. Handlers run on workers and record; the test thread judges. Replies
 * that a handler takes are kept in `held` for the test thread to send, which is another thread than
 * the worker, as in production. */
#pragma once

#include "unit/front/fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include "ron/base/alloc.h"
#include "ron/wire/client.h"
#include "support/oap.h"
#include "wire/frame.h"
#include "wire/wire_priv.h"
#include "wire/wire_testing.h"

enum {
    WIRE_HELD_MAX = 256,
    WIRE_APP = 100,
    WIRE_ALWAYS = 101,
    WIRE_ECHO = 1,
    WIRE_DEFER = 2,
    WIRE_BIG = 3, /* as many bytes as the payload says in decimal */
    WIRE_NOTHING = 4,
    WIRE_FAIL = 5,
    WIRE_UNDEFER = 6,
    WIRE_RELEASE = 7, /* sends all held replies, on the worker */
    WIRE_TRACE = 8,   /* the caller's traceparent, or "none" */
    WIRE_BIG_MAX = 4 << 20,
};

struct wire {
    struct fx *fx;
    struct ron_oap_server *server;
    char dir[64];            /* of the Unix socket; empty: TCP */
    struct fx_gate deferred; /* its lock guards `held` */
    struct ron_oap_reply *held[WIRE_HELD_MAX];
    const uint8_t *payloads[WIRE_HELD_MAX];
    size_t payload_lens[WIRE_HELD_MAX];
    size_t held_count;
    struct fx_gate echoed;
    struct ron_au32 caps_seen;
    struct ron_au32 subscribe_no; /* enum ron_oap_reason for who does not show "cap" */
    struct ron_au32 subscribe_asked;
    struct fx_stage stage;
    uint8_t *big;
    struct ron_oap_client *client; /* of wire_client */
};

/* ---- handlers -------------------------------------------------------------------------------- */

static inline void wire_defer(struct ron_oap_call *call, struct wire *wire)
{
    const struct ron_oap_request *q = ron_oap_request(call);
    struct ron_oap_reply *r = NULL;

    if (ron_oap_defer(call, &r) != RON_OK) {
        ron_oap_refuse(call, RON_OAP_BUSY);
        return;
    }
    ron_mutex_lock(&wire->deferred.mu);
    RON_ASSERT(wire->held_count < WIRE_HELD_MAX);
    wire->payloads[wire->held_count] = q->payload;
    wire->payload_lens[wire->held_count] = q->payload_len;
    wire->held[wire->held_count++] = r;
    ron_mutex_unlock(&wire->deferred.mu);
    fx_gate_add(&wire->deferred, 1);
}

static inline void wire_release(struct wire *wire)
{
    struct ron_oap_reply *held[WIRE_HELD_MAX];
    size_t count;

    ron_mutex_lock(&wire->deferred.mu);
    count = wire->held_count;
    memcpy(held, wire->held, count * sizeof held[0]);
    wire->held_count = 0;
    ron_mutex_unlock(&wire->deferred.mu);
    for (size_t i = 0; i < count; i++) {
        ron_oap_reply_send(held[i], 200);
    }
}

static inline void wire_tell_trace(struct ron_oap_call *call)
{
    const struct ron_oap_request *q = ron_oap_request(call);
    char text[RON_TRACEPARENT_LEN + 1] = "none";

    if (ron_trace_ctx_valid(&q->trace)) {
        ron_traceparent_format(&q->trace, text);
    }
    ron_oap_answer(call, 200, text, strlen(text));
}

static inline void wire_handle(struct ron_oap_call *call, void *arg)
{
    struct wire *wire = arg;
    const struct ron_oap_request *q = ron_oap_request(call);
    struct ron_oap_reply *r = NULL;
    char text[16] = "";

    if (q->cap_len == 3 && memcmp(q->cap, "cap", 3) == 0) {
        (void)ron_au32_add(&wire->caps_seen, 1);
    }
    switch (q->code) {
    case WIRE_DEFER:
        wire_defer(call, wire);
        break;
    case WIRE_BIG:
        memcpy(text, q->payload, RON_MIN(q->payload_len, sizeof text - 1));
        ron_oap_answer(call, 200, wire->big, (size_t)strtoul(text, NULL, 10));
        break;
    case WIRE_NOTHING:
        break;
    case WIRE_TRACE:
        wire_tell_trace(call);
        break;
    case WIRE_RELEASE:
        wire_release(wire);
        ron_oap_answer(call, 200, "released", 8);
        break;
    case WIRE_FAIL:
        ron_oap_fail_with(call, &(struct ron_oap_error){.status = 409,
                                                        .code = "CONFLICT",
                                                        .message = "on purpose",
                                                        .reason = "conflict"});
        break;
    case WIRE_UNDEFER:
        if (ron_oap_defer(call, &r) == RON_OK) {
            ron_oap_undefer(call, r);
        }
        ron_oap_refuse(call, RON_OAP_BUSY);
        break;
    default:
        fx_gate_add(&wire->echoed, 1); /* first: who has the answer may count at once */
        ron_oap_answer(call, 200, q->payload, q->payload_len);
        break;
    }
}

/* Whoever shows "cap" may hear the events. */
static inline enum ron_oap_reason wire_may_subscribe(struct ron_oap_call *call, void *arg)
{
    struct wire *wire = arg;
    const struct ron_oap_request *q = ron_oap_request(call);
    enum ron_oap_reason no = (enum ron_oap_reason)ron_au32_load(&wire->subscribe_no);
    bool shown = q->cap_len == 3 && memcmp(q->cap, "cap", 3) == 0;

    (void)ron_au32_add(&wire->subscribe_asked, 1);
    RON_ASSERT(ron_oap_peer(call) != NULL);
    return shown ? RON_OAP_NONE : no;
}

/* ---- who is watched for what ----------------------------------------------------------------- */

/* Interests that were asked for, of connections: both ends that live on the executor. */
static struct ron_au32 wire_watched_room;
static struct ron_au32 wire_watched_bytes; /* alone */

static inline enum ron_rc wire_set(struct ron_poller *p, int fd, uint32_t events, void *user)
{
    if ((events & RON_IO_EDGE) != 0) {
        (void)ron_au32_add((events & RON_IO_WRITE) != 0 ? &wire_watched_room : &wire_watched_bytes,
                           1);
    }
    return ron_env_linux()->poller->set(p, fd, events, user);
}

static inline struct fx *wire_fx(uint32_t workers)
{
    static struct ron_poller_ops counted;
    struct fx *fx = fx_blank();

    counted = *ron_env_linux()->poller;
    counted.set = wire_set;
    ron_au32_store(&wire_watched_room, 0);
    ron_au32_store(&wire_watched_bytes, 0);
    fx->env = *ron_env_linux();
    fx->env.poller = &counted;
    return fx_open_with(fx, workers, RON_DRAIN_DEADLINE_MAX_MS);
}

/* ---- the server ------------------------------------------------------------------------------ */

/* Everything but the threads; `o` holds what the test cares about. addr NULL: TCP, "unix": a Unix
 * socket in a folder of its own. */
static inline struct wire *wire_build(uint32_t workers, struct ron_oap_opts o)
{
    static struct ron_oap_app apps[2];
    static char addr[96];
    struct wire *wire = calloc(1, sizeof *wire);
    struct ron_err err = {0};

    RON_ASSERT(wire != NULL);
    apps[0] = (struct ron_oap_app){
        .app = WIRE_APP, .handle = wire_handle, .arg = wire, .may_subscribe = wire_may_subscribe};
    apps[1] = (struct ron_oap_app){.app = WIRE_ALWAYS,
                                   .handle = wire_handle,
                                   .arg = wire,
                                   .flags = RON_OAP_ALWAYS | RON_OAP_INLINE};
    fx_gate_init(&wire->deferred);
    fx_gate_init(&wire->echoed);
    wire->big = malloc(WIRE_BIG_MAX);
    RON_ASSERT(wire->big != NULL);
    for (size_t i = 0; i < WIRE_BIG_MAX; i++) {
        wire->big[i] = (uint8_t)(i * 131 + (i >> 8) * 7);
    }
    wire->fx = wire_fx(workers);
    if (o.addr != NULL && strcmp(o.addr, "unix") == 0) {
        (void)snprintf(wire->dir, sizeof wire->dir, "/tmp/ron-wire-XXXXXX");
        RON_ASSERT(mkdtemp(wire->dir) != NULL);
        (void)snprintf(addr, sizeof addr, "unix:%s/s", wire->dir);
        o.addr = addr;
    } else {
        o.addr = "127.0.0.1:0";
    }
    o.name = "oap";
    o.env = &wire->fx->env;
    o.registry = wire->fx->reg;
    o.workers = workers;
    o.apps = apps;
    o.app_count = 2;
    if (ron_oap_server_new(&o, &wire->server, &err) != RON_OK ||
        ron_oap_server_attach(wire->server, wire->fx->sup, &err) != RON_OK) {
        (void)fprintf(stderr, "fixture: %s\n", err.msg);
        abort();
    }
    fx_stage_add(wire->fx, &wire->stage);
    return wire;
}

static inline struct wire *wire_open(uint32_t workers, struct ron_oap_opts o)
{
    struct wire *wire = wire_build(workers, o);

    fx_start(wire->fx);
    return wire;
}

/* A client of ours on the same executor; before fx_start. */
static inline struct ron_oap_client *wire_client(struct wire *wire, struct ron_oap_client_opts o)
{
    struct ron_err err = {0};
    struct ron_oap_client *c = NULL;

    o.name = o.name == NULL ? "client" : o.name;
    o.env = &wire->fx->env;
    o.registry = wire->fx->reg;
    o.addr = o.addr == NULL ? ron_oap_server_addr(wire->server) : o.addr;
    o.stage = 1;
    if (ron_oap_client_new(&o, &c, &err) != RON_OK ||
        ron_oap_client_attach(c, wire->fx->sup, &err) != RON_OK) {
        (void)fprintf(stderr, "fixture: %s\n", err.msg);
        abort();
    }
    wire->client = c;
    return c;
}

static inline struct ron_oap_counters wire_counters(const struct wire *wire)
{
    struct ron_oap_counters c;

    ron_oap_server_counters(wire->server, &c);
    return c;
}

static inline struct ron_oap_client_counters wire_client_counters(const struct ron_oap_client *c)
{
    struct ron_oap_client_counters n;

    ron_oap_client_counters(c, &n);
    return n;
}

/* Frees everything; the supervisor has stopped. */
static inline void wire_free(struct wire *wire)
{
    fx_end(wire->fx);
    ron_oap_client_free(wire->client);
    assert_true(ron_oap_server_free(wire->server));
    fx_done(wire->fx);
    fx_gate_done(&wire->deferred);
    fx_gate_done(&wire->echoed);
    fx_gate_done(&wire->stage.release);
    if (wire->dir[0] != '\0') {
        char path[80];

        (void)snprintf(path, sizeof path, "%s/s", wire->dir);
        (void)unlink(path);
        (void)rmdir(wire->dir);
    }
    free(wire->big);
    free(wire);
}

static inline void wire_close(struct wire *wire)
{
    assert_int_equal(fx_stop(wire->fx), RON_EXIT_DRAINED);
    assert_int_equal(wire_counters(wire).connections, 0);
    assert_int_equal(wire_counters(wire).inflight, 0);
    wire_free(wire);
}

/* The i-th reply taken by a handler, once it is there. */
static inline struct ron_oap_reply *wire_reply(struct wire *wire, size_t i)
{
    struct ron_oap_reply *r;

    assert_true(fx_gate_reached(&wire->deferred, i + 1));
    ron_mutex_lock(&wire->deferred.mu);
    r = wire->held[i];
    ron_mutex_unlock(&wire->deferred.mu);
    return r;
}

/* Answers the i-th deferred request with its own payload. */
static inline void wire_send_reply(struct wire *wire, size_t i)
{
    struct ron_oap_reply *r = wire_reply(wire, i);

    assert_int_equal(
        ron_buf_append(ron_oap_reply_body(r), wire->payloads[i], wire->payload_lens[i]), RON_OK);
    ron_oap_reply_send(r, 200);
}

/* ---- a plain peer ---------------------------------------------------------------------------- */

struct peer {
    int fd;
    uint8_t *in; /* bytes read and not yet taken */
    size_t at;
    size_t have;
};

enum { PEER_IN_BYTES = 3 << 20 };

static inline void peer_open(struct peer *p, const struct wire *wire)
{
    const char *addr = ron_oap_server_addr(wire->server);
    struct timeval limit = {.tv_sec = FX_WAIT_MS / 1000};

    *p = (struct peer){.in = malloc(PEER_IN_BYTES)};
    assert_non_null(p->in);
    if (wire->dir[0] != '\0') {
        struct sockaddr_un sa = {.sun_family = AF_UNIX};

        (void)snprintf(sa.sun_path, sizeof sa.sun_path, "%s", addr + 5);
        p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(p->fd >= 0);
        assert_int_equal(connect(p->fd, (const struct sockaddr *)&sa, sizeof sa), 0);
    } else {
        struct sockaddr_in sa = {.sin_family = AF_INET,
                                 .sin_port =
                                     htons((uint16_t)strtoul(strrchr(addr, ':') + 1, NULL, 10)),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

        p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(p->fd >= 0);
        assert_int_equal(connect(p->fd, (const struct sockaddr *)&sa, sizeof sa), 0);
    }
    assert_int_equal(setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
}

static inline void peer_close(struct peer *p)
{
    (void)close(p->fd);
    free(p->in);
    *p = (struct peer){.fd = -1};
}

static inline void peer_send(struct peer *p, const void *bytes, size_t len)
{
    size_t at = 0;

    while (at < len) {
        ssize_t n = send(p->fd, (const uint8_t *)bytes + at, len - at, MSG_NOSIGNAL);
        assert_true(n > 0);
        at += (size_t)n;
    }
}

static inline void peer_frame(struct peer *p, struct ron_oap_head head, const char *cap,
                              const void *payload, size_t len)
{
    struct ron_buf out;

    ron_buf_init(&out, RON_OAP_FRAME_MAX);
    head.cap_len = (uint16_t)strlen(cap);
    assert_int_equal(ron_oap_encode(&out, &head, cap, payload, len, RON_OAP_FRAME_MAX), RON_OK);
    peer_send(p, ron_buf_data(&out), ron_buf_len(&out));
    ron_buf_done(&out);
}

static inline void peer_ask(struct peer *p, uint16_t app, uint16_t code, uint64_t corr,
                            const char *text)
{
    peer_frame(p,
               (struct ron_oap_head){
                   .flags = RON_OAP_REQ, .app = app, .code = code, .corr_id = corr, .tenant = 5},
               "", text, strlen(text));
}

/* Reads more; false at the end of the stream. A reset fails the test: the end must be a FIN. */
static inline bool peer_more(struct peer *p)
{
    ssize_t n;

    if (p->at > 0) {
        memmove(p->in, p->in + p->at, p->have - p->at);
        p->have -= p->at;
        p->at = 0;
    }
    n = recv(p->fd, p->in + p->have, PEER_IN_BYTES - p->have, 0);
    if (n < 0) {
        fail_msg("recv: %s", strerror(errno));
    }
    p->have += (size_t)n;
    return n > 0;
}

/* The next frame; its slices are valid until the next read. False at the end. */
static inline bool peer_next(struct peer *p, struct ron_oap_frame *f)
{
    size_t need = 0;
    enum ron_oap_reason reason = RON_OAP_NONE;

    for (;;) {
        switch (
            ron_oap_decode(p->in + p->at, p->have - p->at, RON_OAP_FRAME_MAX, f, &need, &reason)) {
        case RON_OAP_STEP_FRAME:
            p->at += f->frame_len;
            return true;
        case RON_OAP_STEP_MORE:
            if (!peer_more(p)) {
                return false;
            }
            break;
        case RON_OAP_STEP_REFUSED:
            fail_msg("the server sent a bad frame: %s", ron_oap_reason_label(reason));
        }
    }
}

static inline void peer_expect(struct peer *p, uint64_t corr, uint16_t code, uint16_t app,
                               const char *part)
{
    struct ron_oap_frame f;
    char text[512] = "";

    if (!peer_next(p, &f)) {
        fail_msg("closed before the answer to %llu", (unsigned long long)corr);
    }
    memcpy(text, f.payload, RON_MIN(f.payload_len, sizeof text - 1));
    if (f.head.corr_id != corr || f.head.code != code || f.head.app != app ||
        strstr(text, part) == NULL) {
        fail_msg("wanted %llu %u app %u '%s', got %llu %u app %u '%s'", (unsigned long long)corr,
                 code, app, part, (unsigned long long)f.head.corr_id, f.head.code, f.head.app,
                 text);
    }
}

static inline void peer_hello(struct peer *p)
{
    peer_ask(p, 0, RON_OAP_CTL_HELLO, 1, "{\"ua\":\"test\"}");
    peer_expect(p, 1, 200, 0, "\"max_inflight\":");
}

static inline void peer_expect_end(struct peer *p)
{
    struct ron_oap_frame f;

    if (peer_next(p, &f)) {
        fail_msg("wanted the end, got code %u", f.head.code);
    }
}
