/* SPDX-License-Identifier: Apache-2.0 */
/* asks.h - asks that count their ends, and a server played by hand, for tests of the client.
 *
 * A probe is an ask whose end the test thread can wait for and judge. A stage server is a listening
 * socket that the test thread serves itself, so that it can break off wherever it likes. */
#pragma once

#include "unit/wire/fixture.h"

struct probe {
    struct ron_oap_ask ask;
    struct ron_buf answer;
    struct fx_gate done; /* how often it ended: must be once */
};

static inline void probe_done(struct ron_oap_ask *ask)
{
    fx_gate_add(ask->user, 1);
}

static inline void probe_init(struct probe *p, uint16_t code, const void *payload, size_t len)
{
    fx_gate_init(&p->done);
    ron_buf_init(&p->answer, WIRE_BIG_MAX);
    p->ask = (struct ron_oap_ask){.app = WIRE_APP,
                                  .code = code,
                                  .tenant = 3,
                                  .payload = payload,
                                  .payload_len = len,
                                  .done = probe_done,
                                  .answer_to = &p->answer,
                                  .user = &p->done};
}

static inline void probe_text(struct probe *p, uint16_t code, const char *text)
{
    probe_init(p, code, text, strlen(text));
}

static inline void probe_free(struct probe *p)
{
    ron_buf_done(&p->answer);
    fx_gate_done(&p->done);
}

static inline void probe_expect(struct probe *p, enum ron_oap_outcome outcome, enum ron_rc rc)
{
    assert_true(fx_gate_reached(&p->done, 1));
    if (p->ask.outcome != outcome || p->ask.rc != rc) {
        fail_msg("wanted %s %s, got %s %s", ron_oap_outcome_label(outcome), ron_rc_name(rc),
                 ron_oap_outcome_label(p->ask.outcome), ron_rc_name(p->ask.rc));
    }
    assert_int_equal(fx_gate_count(&p->done), 1);
}

static inline void probe_answered(struct probe *p, const char *text)
{
    probe_expect(p, RON_OAP_ANSWERED, RON_OK);
    assert_int_equal(p->ask.status, 200);
    assert_int_equal(p->ask.answer_len, strlen(text));
    assert_memory_equal(p->ask.answer, text, strlen(text));
}

/* ---- a server by hand ------------------------------------------------------------------------ */

struct stage {
    int fd;
    char addr[32];
};

/* A port that is taken but not listened on, so that connecting to it is refused whatever other
 * tests bind. */
static inline void stage_reserve(struct stage *s)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;

    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s->fd >= 0);
    assert_int_equal(bind(s->fd, (const struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&sa, &len), 0);
    (void)snprintf(s->addr, sizeof s->addr, "127.0.0.1:%u", ntohs(sa.sin_port));
}

static inline void stage_open(struct stage *s)
{
    stage_reserve(s);
    assert_int_equal(listen(s->fd, 8), 0);
}

static inline void stage_accept(const struct stage *s, struct peer *p)
{
    struct timeval limit = {.tv_sec = FX_WAIT_MS / 1000};

    *p = (struct peer){.fd = accept(s->fd, NULL, NULL), .in = malloc(PEER_IN_BYTES)};
    assert_true(p->fd >= 0);
    assert_non_null(p->in);
    assert_int_equal(setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
}

static inline void stage_answer(struct peer *p, const struct ron_oap_head *to, uint16_t app,
                                uint16_t code, const char *text)
{
    peer_frame(p,
               (struct ron_oap_head){.flags = RON_OAP_RESP,
                                     .app = app,
                                     .code = code,
                                     .corr_id = to->corr_id,
                                     .tenant = to->tenant},
               "", text, strlen(text));
}

static inline void stage_hello(struct peer *p, unsigned flow)
{
    struct ron_oap_frame f;
    char text[96];

    assert_true(peer_next(p, &f));
    assert_int_equal(f.head.app, 0);
    assert_int_equal(f.head.code, RON_OAP_CTL_HELLO);
    (void)snprintf(text, sizeof text,
                   "{\"max_frame\":1048576,\"max_inflight\":%u,\"versions\":[1]}", flow);
    stage_answer(p, &f.head, 0, 200, text);
}

/* The head of the next request of the app. */
static inline struct ron_oap_head stage_request(struct peer *p)
{
    struct ron_oap_frame f;

    assert_true(peer_next(p, &f));
    assert_int_equal(f.head.app, WIRE_APP);
    return f.head;
}

static inline void stage_close(struct stage *s)
{
    (void)close(s->fd);
}
