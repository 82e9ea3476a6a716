/* SPDX-License-Identifier: Apache-2.0 */
/* guard_stub.h - a remote guard on raw sockets that answers as the test says, and the client side
 * with all three services at it. The stub's thread waits for events only. */
#pragma once

#include "unit/front/fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "ledger/guard/remote.h"
#include "unit/ledger/guard_fixture.h"

enum { STUB_CONNS = 64, STUB_IN = 1 << 17 };

struct stub_conn {
    int fd;
    size_t have;
    char in[STUB_IN];
};

struct stub {
    int listener;
    int stop[2];
    uint16_t port;
    struct ron_thread *thread;
    struct fx_gate hits;        /* requests read; its lock guards the texts */
    struct ron_au32 status;     /* of the answer */
    struct ron_au32 fail_next;  /* so many requests are answered 503 before */
    struct ron_au32 stall_next; /* so many are never answered */
    char body[4096];            /* of the answer */
    char last[STUB_IN];         /* the last request */
    size_t count;
    struct stub_conn *conns[STUB_CONNS];
};

static inline uint32_t stub_take(struct ron_au32 *n)
{
    uint32_t left = ron_au32_load(n);

    ron_au32_store(n, left > 0 ? left - 1 : 0);
    return left;
}

static inline void stub_answer(struct stub *s, int fd)
{
    char text[8192];
    int status = (int)ron_au32_load(&s->status);

    if (stub_take(&s->stall_next) > 0) {
        return;
    }
    if (stub_take(&s->fail_next) > 0) {
        status = 503;
    }
    ron_mutex_lock(&s->hits.mu);
    (void)snprintf(text, sizeof text, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n\r\n%s", status,
                   strlen(s->body), s->body);
    ron_mutex_unlock(&s->hits.mu);
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static inline bool stub_read(struct stub *s, struct stub_conn *c)
{
    ssize_t n = recv(c->fd, c->in + c->have, STUB_IN - 1 - c->have, MSG_DONTWAIT);
    const char *end;
    const char *length;

    if (n <= 0) {
        return n < 0 && errno == EAGAIN;
    }
    c->have += (size_t)n;
    c->in[c->have] = '\0';
    end = strstr(c->in, "\r\n\r\n");
    length = strstr(c->in, "Content-Length: ");
    if (end == NULL || length == NULL ||
        c->have < (size_t)(end - c->in) + 4 + strtoul(length + 16, NULL, 10)) {
        return c->have < STUB_IN - 1;
    }
    ron_mutex_lock(&s->hits.mu);
    memcpy(s->last, c->in, c->have + 1);
    ron_mutex_unlock(&s->hits.mu);
    c->have = 0;
    fx_gate_add(&s->hits, 1); /* first: who has the answer may count at once */
    stub_answer(s, c->fd);
    return true;
}

static inline void stub_drop(struct stub *s, size_t i)
{
    (void)close(s->conns[i]->fd);
    free(s->conns[i]);
    s->conns[i] = s->conns[--s->count];
}

static inline void stub_main(void *arg)
{
    struct stub *s = arg;

    for (;;) {
        struct pollfd fds[STUB_CONNS + 2] = {{.fd = s->stop[0], .events = POLLIN},
                                             {.fd = s->listener, .events = POLLIN}};
        size_t count = s->count;

        for (size_t i = 0; i < count; i++) {
            fds[i + 2] = (struct pollfd){.fd = s->conns[i]->fd, .events = POLLIN};
        }
        (void)poll(fds, count + 2, -1);
        if (fds[0].revents != 0) {
            break;
        }
        for (size_t i = count; i-- > 0;) {
            if (fds[i + 2].revents != 0 && !stub_read(s, s->conns[i])) {
                stub_drop(s, i);
            }
        }
        if (fds[1].revents != 0 && s->count < STUB_CONNS) {
            struct stub_conn *c = calloc(1, sizeof *c);

            RON_ASSERT(c != NULL);
            c->fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
            s->conns[s->count++] = c;
        }
    }
    while (s->count > 0) {
        stub_drop(s, 0);
    }
}

static inline struct stub *stub_open(void)
{
    struct stub *s = calloc(1, sizeof *s);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;

    RON_ASSERT(s != NULL);
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    RON_ASSERT(bind(s->listener, (struct sockaddr *)&addr, sizeof addr) == 0);
    RON_ASSERT(listen(s->listener, 64) == 0);
    RON_ASSERT(getsockname(s->listener, (struct sockaddr *)&addr, &len) == 0);
    RON_ASSERT(pipe2(s->stop, O_CLOEXEC) == 0);
    s->port = ntohs(addr.sin_port);
    fx_gate_init(&s->hits);
    RON_ASSERT(ron_thread_start(&(struct ron_thread_opts){.name = "stub",
                                                          .may_block = true,
                                                          .stack_bytes = 1 << 20,
                                                          .main = stub_main,
                                                          .arg = s},
                                &s->thread, NULL) == RON_OK);
    return s;
}

static inline void stub_close(struct stub *s)
{
    (void)!write(s->stop[1], "x", 1);
    ron_thread_join(s->thread);
    (void)close(s->listener);
    (void)close(s->stop[0]);
    (void)close(s->stop[1]);
    fx_gate_done(&s->hits);
    free(s);
}

/* What it answers from now on. */
static inline void stub_says(struct stub *s, uint32_t status, const char *body)
{
    ron_mutex_lock(&s->hits.mu);
    (void)snprintf(s->body, sizeof s->body, "%s", body);
    ron_mutex_unlock(&s->hits.mu);
    ron_au32_store(&s->status, status);
}

/* Whether the last request had this in it. */
static inline bool stub_heard(struct stub *s, const char *text)
{
    bool found;

    ron_mutex_lock(&s->hits.mu);
    found = strstr(s->last, text) != NULL;
    ron_mutex_unlock(&s->hits.mu);
    return found;
}

/* ---- the ledger's side ----------------------------------------------------------------------- */

struct rf {
    struct gf *gf;
    struct fx *fx;
    struct stub *stub;
    struct led_remote *remote;
    struct ron_tracer *tracer;
    struct led_preval preval;
    struct fx_gate done;
    struct fx_gate exported; /* batches of spans; its lock guards the text */
    char spans[1 << 16];     /* all of them */
};

static inline enum ron_rc rf_export(void *arg, const char *content_type, const void *body,
                                    size_t len, struct ron_deadline deadline)
{
    struct rf *f = arg;
    size_t have;

    (void)content_type;
    (void)deadline;
    ron_mutex_lock(&f->exported.mu);
    have = strlen(f->spans);
    len = RON_MIN(len, sizeof f->spans - 1 - have);
    memcpy(f->spans + have, body, len);
    ron_mutex_unlock(&f->exported.mu);
    fx_gate_add(&f->exported, 1);
    return RON_OK;
}

/* `kms`: the keys are remote too. `o` may hold more for all services. */
static inline struct rf *rf_open(bool kms, struct led_remote_target o)
{
    static char urls[LED_REMOTE_COUNT][64];
    struct rf *f = calloc(1, sizeof *f);
    struct led_remote_opts opts = {0};
    struct ron_err err = {0};

    RON_ASSERT(f != NULL);
    f->stub = stub_open();
    f->gf = gf_open((struct led_guard_opts){.remote_policy = true, .remote_wallet = true}, kms);
    f->fx = fx_open(2);
    fx_gate_init(&f->done);
    fx_gate_init(&f->exported);
    if (ron_tracer_new(&(struct ron_tracer_opts){.env = &f->fx->env,
                                                 .registry = f->fx->reg,
                                                 .service = "test",
                                                 .sample_percent = 100,
                                                 .send = rf_export,
                                                 .send_arg = f,
                                                 .flush_ms = 1},
                       &f->tracer, &err) != RON_OK) {
        fail_msg("tracer: %s", err.msg);
    }
    assert_int_equal(ron_tracer_attach(f->tracer, f->fx->sup, 9, &err), RON_OK);
    f->preval = (struct led_preval){.guard = f->gf->guard, .hash_key = gf_hash_key};
    opts = (struct led_remote_opts){.env = &f->fx->env,
                                    .registry = f->fx->reg,
                                    .guard = f->gf->guard,
                                    .tracer = f->tracer,
                                    .worker = 1};
    for (int i = 0; i < LED_REMOTE_COUNT; i++) {
        (void)snprintf(urls[i], sizeof urls[i], "http://127.0.0.1:%u/%s", f->stub->port,
                       led_remote_name((enum led_remote_service)i));
        opts.targets[i] = o;
        opts.targets[i].url = urls[i];
    }
    if (led_remote_new(&opts, &f->remote, &err) != RON_OK) {
        fail_msg("remote: %s", err.msg);
    }
    assert_int_equal(led_remote_collect(f->remote, f->gf->metrics, &err), RON_OK);
    assert_int_equal(led_remote_attach(f->remote, f->fx->sup, &err), RON_OK);
    fx_start(f->fx);
    return f;
}

static inline void rf_close(struct rf *f)
{
    assert_int_equal(fx_stop(f->fx), RON_EXIT_DRAINED);
    fx_end(f->fx);
    assert_true(led_remote_free(f->remote));
    ron_tracer_free(f->tracer);
    fx_done(f->fx);
    fx_gate_done(&f->done);
    fx_gate_done(&f->exported);
    stub_close(f->stub);
    gf_close(f->gf);
    free(f);
}

static inline void rf_done(struct led_work *w, void *arg)
{
    (void)w;
    fx_gate_add(&((struct rf *)arg)->done, 1);
}

/* Asks the service that the work's step names and waits for the end. */
static inline void rf_ask(struct rf *f)
{
    uint64_t before = fx_gate_count(&f->done);

    assert_int_equal(led_remote_ask(f->remote, &f->gf->w, ron_deadline_never(), rf_done, f),
                     LED_VERDICT_ASK);
    assert_true(fx_gate_reached(&f->done, before + 1));
}

/* A transfer that has passed the local checks, ready to ask the policy guard. */
static inline void rf_checked(struct rf *f)
{
    (void)gf_batch(f->gf, gf_entry("Transfer", "a", "5", ",\"to\":\"b\""),
                   gf_entry("Transfer", "a", "6", ",\"to\":\"c\""), NULL);
    gf_expect_ok(f->gf);
    (void)snprintf(f->gf->w.corr_id, sizeof f->gf->w.corr_id, "corr-1");
    f->gf->w.step = LED_STEP_POLICY;
}

static inline void rf_expect(struct rf *f, enum led_reason reason, uint32_t idx)
{
    const struct led_refusal *r = &f->gf->w.refusals.items[0];

    if (f->gf->w.result != LED_RESULT_REFUSED || f->gf->w.refusals.count == 0 ||
        r->reason != reason || r->idx != idx) {
        fail_msg("result %d: %s for entry %u: %s", f->gf->w.result, led_reason_name(r->reason),
                 r->idx, r->detail);
    }
}
