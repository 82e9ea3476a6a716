/* SPDX-License-Identifier: Apache-2.0 */
/* roots_fixture.h - a roots publisher behind a real HTTP server, and a client that reads chunked
 * bodies line by line.
 *
 * Place: tests of led_roots only. The clock of the program can be moved forward by the test. */
#pragma once

#include "unit/http/fixture.h"

#include "ledger/publish/roots_priv.h"

enum { FEED_LINE = 512 };

struct feed {
    struct web web; /* its fx, server and addr, for cli_open */
    struct led_roots *roots;
    struct led_signer *signer;
    struct fx_stage stage;       /* holds a drain before the publisher's stage */
    struct ron_au64 shift_ns;    /* of the clock */
    struct ron_au64 older_since; /* what the journal was asked for */
    struct ron_au32 older_limit;
    struct fx_gate told; /* calls of on_root; its lock guards the two below */
    uint64_t told_last;
    bool told_wrong;
    struct ron_http_route routes[3];
};

static inline uint64_t feed_clock(void *ctx)
{
    struct feed *f = ctx;

    return ron_mono_ns() + ron_au64_load(&f->shift_ns);
}

static inline uint64_t feed_wall(void *ctx)
{
    (void)ctx;
    return ron_env_wall_ms(ron_env_linux());
}

static inline void feed_older(void *arg, struct ron_http_call *call, uint64_t since, uint32_t limit)
{
    struct feed *f = arg;

    ron_au64_store(&f->older_since, since);
    ron_au32_store(&f->older_limit, limit);
    ron_http_answer(call, 200, "text/plain", "older", 5);
}

static inline void feed_on_root(void *arg, const struct led_root_event *e)
{
    struct feed *f = arg;

    ron_mutex_lock(&f->told.mu);
    f->told_wrong = f->told_wrong || e->seq <= f->told_last;
    f->told_last = e->seq;
    ron_mutex_unlock(&f->told.mu);
    fx_gate_add(&f->told, 1);
}

static inline struct feed *feed_open(struct led_roots_opts ro, struct ron_http_opts o)
{
    struct feed *f = calloc(1, sizeof *f);
    struct ron_err err = {0};
    struct fx *fx = fx_blank();
    const char *colon;

    RON_ASSERT(f != NULL);
    fx_gate_init(&f->told);
    fx->env = *ron_env_linux();
    fx->env.clock = (struct ron_clock){.mono_ns = feed_clock, .wall_ms = feed_wall, .ctx = f};
    f->web.fx = fx_open_with(fx, 2, RON_DRAIN_DEADLINE_MAX_MS);
    ro.env = &fx->env;
    ro.registry = fx->reg;
    ro.older = feed_older;
    ro.on_root = feed_on_root;
    ro.arg = f;
    f->signer = ro.signer;
    if (led_roots_new(&ro, &f->roots, &err) != RON_OK) {
        fail_msg("roots: %s", err.msg);
    }
    f->routes[0] =
        (struct ron_http_route){RON_HTTP_GET, "/roots", led_roots_http_get, f->roots, 0, 0};
    f->routes[1] = (struct ron_http_route){
        RON_HTTP_GET, "/roots/stream", led_roots_http_stream, f->roots, 0, 0};
    f->routes[2] = (struct ron_http_route){RON_HTTP_GET, "/hi", web_hi, NULL, RON_HTTP_INLINE, 0};
    o.name = "http";
    o.env = &fx->env;
    o.registry = fx->reg;
    o.workers = 2;
    o.addr = "127.0.0.1:0";
    o.routes = f->routes;
    o.route_count = RON_ARRAY_LEN(f->routes);
    if (ron_http_server_new(&o, &f->web.server, &err) != RON_OK ||
        ron_http_server_attach(f->web.server, fx->sup, &err) != RON_OK ||
        led_roots_attach(f->roots, fx->sup, &err) != RON_OK) {
        fail_msg("feed: %s", err.msg);
    }
    colon = strrchr(ron_http_server_addr(f->web.server), ':');
    f->web.addr = (struct sockaddr_in){.sin_family = AF_INET,
                                       .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10)),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    fx_stage_add(fx, &f->stage);
    fx_start(fx);
    return f;
}

static inline struct led_roots_stats feed_stats(const struct feed *f)
{
    struct led_roots_stats st;

    led_roots_get_stats(f->roots, &st);
    return st;
}

/* After the supervisor has stopped. */
static inline void feed_free(struct feed *f)
{
    assert_int_equal(feed_stats(f).subs, 0);
    assert_false(f->told_wrong);
    fx_end(f->web.fx);
    led_roots_free(f->roots);
    assert_true(ron_http_server_free(f->web.server));
    fx_done(f->web.fx);
    fx_gate_done(&f->told);
    fx_gate_done(&f->stage.release);
    free(f);
}

static inline void feed_close(struct feed *f)
{
    assert_int_equal(fx_stop(f->web.fx), RON_EXIT_DRAINED);
    assert_int_equal(web_counters(&f->web).connections, 0);
    feed_free(f);
}

static inline struct led_root_event feed_event(uint64_t seq)
{
    struct led_root_event e = {.seq = seq, .ts_ms = 1700000000000 + seq};

    ron_tree_hash_leaf(&seq, sizeof seq, &e.root);
    return e;
}

static inline void feed_publish(struct feed *f, uint64_t seq)
{
    struct led_root_event e = feed_event(seq);

    led_roots_publish(f->roots, &e);
}

/* {"seq":..,"root":"..","ts":..} as it must be, written by other code. */
static inline const char *feed_json(uint64_t seq, char out[FEED_LINE])
{
    struct led_root_event e = feed_event(seq);
    char hex[2 * RON_TREE_HASH_BYTES + 1];

    for (size_t i = 0; i < RON_TREE_HASH_BYTES; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", e.root.bytes[i]);
    }
    (void)snprintf(out, FEED_LINE, "{\"seq\":%llu,\"root\":\"%s\",\"ts\":%llu}",
                   (unsigned long long)seq, hex, (unsigned long long)e.ts_ms);
    return out;
}

/* ---- the client ------------------------------------------------------------------------------ */

/* A chunked answer being read. */
struct tail {
    struct cli cli;
    size_t at;       /* of cli.in: read and taken */
    size_t in_chunk; /* bytes that the chunk still has */
    bool ended;
    char head[2048];
};

static inline char tail_byte(struct tail *t)
{
    if (t->at == t->cli.have) {
        t->at = 0;
        t->cli.have = 0;
        if (!cli_more(&t->cli)) {
            fail_msg("closed inside an answer");
        }
    }
    return t->cli.in[t->at++];
}

static inline void tail_raw_line(struct tail *t, char *line, size_t size)
{
    size_t len = 0;
    char b;

    while ((b = tail_byte(t)) != '\n') {
        assert_true(len + 1 < size);
        line[len++] = b;
    }
    assert_true(len > 0 && line[len - 1] == '\r');
    line[len - 1] = '\0';
}

/* A byte of the body; false at its end. */
static inline bool tail_body(struct tail *t, char *ret)
{
    char line[64];

    if (t->ended) {
        return false;
    }
    if (t->in_chunk == 0) {
        tail_raw_line(t, line, sizeof line);
        t->in_chunk = strtoul(line, NULL, 16);
        if (t->in_chunk == 0) {
            tail_raw_line(t, line, sizeof line);
            assert_string_equal(line, "");
            t->ended = true;
            return false;
        }
    }
    *ret = tail_byte(t);
    if (--t->in_chunk == 0) {
        tail_raw_line(t, line, sizeof line);
        assert_string_equal(line, "");
    }
    return true;
}

/* Sends a request and reads the head of its answer; extra headers end in CRLF. */
static inline void tail_open(struct tail *t, struct feed *f, const char *method, const char *target,
                             const char *headers)
{
    char request[1024];
    size_t len = 0;
    char line[512];

    memset(t, 0, sizeof *t);
    cli_open(&t->cli, &f->web);
    (void)snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: a\r\n%s\r\n", method, target,
                   headers);
    cli_say(&t->cli, request);
    do {
        tail_raw_line(t, line, sizeof line);
        len += (size_t)snprintf(t->head + len, sizeof t->head - len, "%s\n", line);
        assert_true(len < sizeof t->head);
    } while (line[0] != '\0');
}

/* A line of the body without its newline; false at the end. */
static inline bool tail_line(struct tail *t, char line[FEED_LINE])
{
    size_t len = 0;
    char b = 0;

    while (tail_body(t, &b) && b != '\n') {
        assert_true(len + 1 < FEED_LINE);
        line[len++] = b;
    }
    line[len] = '\0';
    return b == '\n';
}

static inline void tail_expect(struct tail *t, const char *want)
{
    char line[FEED_LINE];

    if (!tail_line(t, line) || strcmp(line, want) != 0) {
        fail_msg("wanted '%s', got '%s'", want, t->ended ? "the end" : line);
    }
}

static inline void tail_expect_root(struct tail *t, uint64_t seq)
{
    char want[FEED_LINE];
    char data[FEED_LINE + 8];

    (void)snprintf(want, sizeof want, "id: %llu", (unsigned long long)seq);
    tail_expect(t, want);
    tail_expect(t, "event: root");
    (void)snprintf(data, sizeof data, "data: %s", feed_json(seq, want));
    tail_expect(t, data);
    tail_expect(t, "");
}

static inline void tail_expect_lagged(struct tail *t, uint64_t since, uint64_t until)
{
    char want[FEED_LINE];

    tail_expect(t, "event: lagged");
    (void)snprintf(want, sizeof want, "data: {\"since\":%llu,\"until\":%llu}",
                   (unsigned long long)since, (unsigned long long)until);
    tail_expect(t, want);
    tail_expect(t, "");
}

static inline void tail_expect_end(struct tail *t)
{
    char line[FEED_LINE];

    if (tail_line(t, line)) {
        fail_msg("wanted the end, got '%s'", line);
    }
}

static inline void tail_close(struct tail *t)
{
    cli_close(&t->cli);
}

/* A stream that has begun. */
static inline void tail_stream(struct tail *t, struct feed *f, const char *query,
                               const char *headers)
{
    char target[128];

    (void)snprintf(target, sizeof target, "/roots/stream%s", query);
    tail_open(t, f, "GET", target, headers);
    assert_non_null(strstr(t->head, "HTTP/1.1 200 OK"));
    assert_non_null(strstr(t->head, "Content-Type: text/event-stream\n"));
    assert_non_null(strstr(t->head, "Cache-Control: no-cache\n"));
    tail_expect(t, ": roots");
    tail_expect(t, "retry: 1000");
    tail_expect(t, "");
}
