/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: bodies of any size pass in pieces, under the receiver's control, and many calls at once
 * each get their own answer. Method: our own server as the other side, in the same process. */
#include "unit/http/client_fixture.h"

#include "http/server/server_testing.h"
#include "ron/http/server.h"

enum { BIG = 3 << 20, MANY = 200, HOLD_EVERY = 256 * 1024 };

/* ---- the other side -------------------------------------------------------------------------- */

static void serve_big(struct ron_http_call *call, void *arg)
{
    ron_http_answer(call, 200, "text/plain", arg, BIG);
}

static void serve_echo(struct ron_http_call *call, void *arg)
{
    struct ron_str body = ron_http_body(call);

    (void)arg;
    ron_http_answer(call, 200, "text/plain", body.ptr, body.len);
}

static void serve_number(struct ron_http_call *call, void *arg)
{
    char text[32];
    int len =
        snprintf(text, sizeof text, "n=%llu", (unsigned long long)ron_http_param_u64(call, 0));

    (void)arg;
    ron_http_answer(call, 200, "text/plain", text, (size_t)len);
}

struct both {
    struct cl *cl;
    struct ron_http_server *server;
    const char *addr;
    char *big;
    char url[128];
};

static struct both both_open(struct ron_http_target_opts o)
{
    static struct ron_http_route routes[3];
    struct both b = {.cl = cl_open(o), .big = malloc(BIG)};

    assert_non_null(b.big);
    for (size_t i = 0; i < BIG; i++) {
        b.big[i] = (char)('a' + i % 23);
    }
    routes[0] = (struct ron_http_route){RON_HTTP_GET, "/big", serve_big, b.big, 0, 0};
    routes[1] = (struct ron_http_route){RON_HTTP_POST, "/echo", serve_echo, NULL, 0, BIG};
    routes[2] = (struct ron_http_route){RON_HTTP_GET, "/n/{n:u64}", serve_number, NULL, 0, 0};
    assert_int_equal(ron_http_server_new(&(struct ron_http_opts){.name = "http",
                                                                 .env = &b.cl->fx->env,
                                                                 .registry = b.cl->fx->reg,
                                                                 .workers = 2,
                                                                 .addr = "127.0.0.1:0",
                                                                 .routes = routes,
                                                                 .route_count = 3},
                                         &b.server, NULL),
                     RON_OK);
    assert_int_equal(ron_http_server_attach(b.server, b.cl->fx->sup, NULL), RON_OK);
    b.addr = ron_http_server_addr(b.server);
    cl_start(b.cl);
    return b;
}

static const char *both_url(struct both *b, const char *path)
{
    (void)snprintf(b->url, sizeof b->url, "http://%s%s", b->addr, path);
    return b->url;
}

static void both_close(struct both *b)
{
    struct fx *fx = b->cl->fx;

    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    ron_sup_free(fx->sup);
    fx->sup = NULL;
    assert_true(ron_exec_free(fx->exec));
    fx->exec = NULL;
    assert_true(ron_http_server_free(b->server));
    assert_true(ron_http_client_free(b->cl->client));
    assert_int_equal(ron_registry_count(fx->reg), 0);
    ron_registry_free(fx->reg);
    peer_close(b->cl->peer);
    fx_gate_done(&fx->ended);
    fx_gate_done(&fx->logged);
    free(fx);
    fx_gate_done(&b->cl->done);
    free(b->cl);
    free(b->big);
}

/* ---- sinks and sources ----------------------------------------------------------------------- */

struct flow {
    struct cl *cl;
    const char *bytes;
    size_t at;
    size_t held_at; /* where it last said "not now" */
    size_t piece_max;
    bool wrong;
    bool refuses;
    struct fx_gate held;
};

static enum ron_rc sink(struct ron_http_fetch *f, void *arg, const void *bytes, size_t len)
{
    struct flow *flow = arg;

    if (flow->refuses || ron_http_fetch_status(f) != 200) {
        return RON_LIMIT;
    }
    if (flow->at >= flow->held_at + HOLD_EVERY) {
        flow->held_at = flow->at;
        fx_gate_add(&flow->held, 1);
        return RON_AGAIN;
    }
    flow->piece_max = RON_MAX(flow->piece_max, len);
    flow->wrong = flow->wrong || memcmp(bytes, flow->bytes + flow->at, len) != 0;
    flow->at += len;
    return RON_OK;
}

static enum ron_rc source(struct ron_http_fetch *f, void *arg, void *buf, size_t size,
                          size_t *ret_len)
{
    struct flow *flow = arg;
    size_t len = RON_MIN(size, (size_t)100000 - flow->at);

    (void)f;
    if (flow->refuses) {
        return RON_LIMIT;
    }
    if (flow->at == 0 && flow->held_at == 0) {
        flow->held_at = 1;
        fx_gate_add(&flow->held, 1);
        return RON_AGAIN;
    }
    memcpy(buf, flow->bytes + flow->at, len);
    flow->at += len;
    *ret_len = len;
    return RON_OK;
}

static void flow_done(struct ron_http_fetch *f, void *arg)
{
    (void)f;
    fx_gate_add(&((struct flow *)arg)->cl->done, 1);
}

static void test_stream__slow_sink__holds_the_sender_back(void **state)
{
    struct both b = both_open((struct ron_http_target_opts){.response_max = BIG});
    struct flow flow = {.cl = b.cl, .bytes = b.big};
    struct ron_http_fetch *f;

    (void)state;
    fx_gate_init(&flow.held);
    f = cl_begin(b.cl, b.cl->t,
                 (struct ron_http_fetch_opts){
                     .url = both_url(&b, "/big"), .sink = sink, .done = flow_done, .arg = &flow});
    for (uint64_t i = 1; i < BIG / HOLD_EVERY; i++) {
        assert_true(fx_gate_reached(&flow.held, i));
        assert_int_equal(fx_gate_count(&flow.held), i); /* nothing moves before it is told to */
        ron_http_fetch_resume(f);
    }
    assert_true(fx_gate_reached(&b.cl->done, 1));
    assert_int_equal(ron_http_fetch_result(f)->rc, RON_OK);
    assert_int_equal(ron_http_fetch_result(f)->body.len, 0);
    assert_int_equal(flow.at, BIG);
    assert_false(flow.wrong);
    assert_true(flow.piece_max <= RON_HTTP_PIECE_MAX);
    ron_http_fetch_release(f);
    fx_gate_done(&flow.held);
    both_close(&b);
}

static void test_stream__sink_gives_up__ends_without_another_try(void **state)
{
    static const struct ron_retry_curve curve = {
        .tries_max = 3, .first_ms = 1, .factor = 1, .base_max_ms = 1};
    struct both b = both_open((struct ron_http_target_opts){.response_max = BIG, .retry = &curve});
    struct flow flow = {.cl = b.cl, .bytes = b.big, .refuses = true};
    struct ron_http_fetch *f;

    (void)state;
    fx_gate_init(&flow.held);
    f = cl_begin(b.cl, b.cl->t,
                 (struct ron_http_fetch_opts){
                     .url = both_url(&b, "/big"), .sink = sink, .done = flow_done, .arg = &flow});
    assert_true(fx_gate_reached(&b.cl->done, 1));
    assert_int_equal(ron_http_fetch_result(f)->reason, RON_HTTP_FETCH_SINK);
    assert_int_equal(ron_http_fetch_result(f)->tries, 1);
    ron_http_fetch_release(f);
    fx_gate_done(&flow.held);
    both_close(&b);
}

static void test_stream__source__known_and_unknown_length(void **state)
{
    static const int64_t lengths[] = {100000, -1};
    struct both b = both_open((struct ron_http_target_opts){0});

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(lengths); i++) {
        struct flow flow = {.cl = b.cl, .bytes = b.big};
        struct ron_http_fetch *f;

        fx_gate_init(&flow.held);
        f = cl_begin(b.cl, b.cl->t,
                     (struct ron_http_fetch_opts){.method = RON_HTTP_POST,
                                                  .url = both_url(&b, "/echo"),
                                                  .source = source,
                                                  .source_len = lengths[i],
                                                  .done = flow_done,
                                                  .arg = &flow});
        assert_true(fx_gate_reached(&flow.held, 1));
        ron_http_fetch_resume(f);
        assert_true(fx_gate_reached(&b.cl->done, i + 1));
        assert_int_equal(ron_http_fetch_result(f)->rc, RON_OK);
        assert_int_equal(ron_http_fetch_result(f)->body.len, 100000);
        assert_memory_equal(ron_http_fetch_result(f)->body.ptr, b.big, 100000);
        ron_http_fetch_release(f);
        fx_gate_done(&flow.held);
    }
    both_close(&b);
}

static void test_stream__source_gives_up__ends(void **state)
{
    struct both b = both_open((struct ron_http_target_opts){0});
    struct flow flow = {.cl = b.cl, .bytes = b.big, .refuses = true};
    struct ron_http_fetch *f;

    (void)state;
    fx_gate_init(&flow.held);
    f = cl_begin(b.cl, b.cl->t,
                 (struct ron_http_fetch_opts){.method = RON_HTTP_PUT,
                                              .url = both_url(&b, "/echo"),
                                              .source = source,
                                              .source_len = -1,
                                              .done = flow_done,
                                              .arg = &flow});
    assert_true(fx_gate_reached(&b.cl->done, 1));
    assert_int_equal(ron_http_fetch_result(f)->reason, RON_HTTP_FETCH_SINK);
    ron_http_fetch_release(f);
    fx_gate_done(&flow.held);
    both_close(&b);
}

static enum ron_rc take_any(struct ron_http_fetch *f, void *arg, const void *bytes, size_t len)
{
    (void)f;
    (void)bytes;
    ((struct flow *)arg)->at += len;
    return RON_OK;
}

static enum ron_rc give_three(struct ron_http_fetch *f, void *arg, void *buf, size_t size,
                              size_t *ret_len)
{
    struct flow *flow = arg;

    (void)f;
    *ret_len = flow->at == 0 && size >= 3 ? 3 : 0;
    memcpy(buf, "abc", *ret_len);
    flow->at += *ret_len;
    return RON_OK;
}

/* A body that has gone one way cannot go it again. */
static void test_stream__failed_after_bytes_moved__no_second_try(void **state)
{
    static const struct ron_retry_curve curve = {
        .tries_max = 3, .first_ms = 1, .factor = 1, .base_max_ms = 1, .any_5xx = true};
    struct cl *cl = cl_run((struct ron_http_target_opts){.retry = &curve});
    struct flow flow = {.cl = cl};
    struct ron_http_fetch *f = cl_begin(
        cl, cl->t,
        (struct ron_http_fetch_opts){
            .url = cl_url(cl, "/truncate"), .sink = take_any, .done = flow_done, .arg = &flow});

    (void)state;
    assert_true(fx_gate_reached(&cl->done, 1));
    assert_int_equal(flow.at, 3);
    assert_int_equal(ron_http_fetch_result(f)->reason, RON_HTTP_FETCH_BROKEN);
    assert_int_equal(ron_http_fetch_result(f)->tries, 1);
    assert_int_equal(ron_http_fetch_result(f)->retry, RON_VERDICT_UNSAFE);
    ron_http_fetch_release(f);
    flow.at = 0;
    f = cl_begin(cl, cl->t,
                 (struct ron_http_fetch_opts){.method = RON_HTTP_PUT,
                                              .url = cl_url(cl, "/status/503"),
                                              .source = give_three,
                                              .source_len = 3,
                                              .done = flow_done,
                                              .arg = &flow});
    assert_true(fx_gate_reached(&cl->done, 2));
    assert_int_equal(ron_http_fetch_result(f)->status, 503);
    assert_int_equal(ron_http_fetch_result(f)->tries, 1);
    assert_int_equal(ron_http_fetch_result(f)->retry, RON_VERDICT_UNSAFE);
    ron_http_fetch_release(f);
    cl_close(cl);
}

static void test_stream__answer_beyond_the_limit__cut(void **state)
{
    struct both b = both_open((struct ron_http_target_opts){.response_max = BIG - 1});
    struct ron_http_fetch_opts o = {.url = both_url(&b, "/big")};

    (void)state;
    cl_expect(b.cl, b.cl->t, o, RON_HTTP_FETCH_TOO_LARGE, 200);
    o.method = RON_HTTP_HEAD; /* announces as much, and has none */
    cl_expect(b.cl, b.cl->t, o, RON_HTTP_FETCH_ANSWERED, 200);
    both_close(&b);
}

/* ---- many at once ---------------------------------------------------------------------------- */

static void test_stream__many_at_once__each_its_own_answer(void **state)
{
    struct both b = both_open((struct ron_http_target_opts){
        .inflight_max = MANY, .try_timeout_ms = 30000, .total_timeout_ms = 30000});
    struct ron_http_fetch *f[MANY];
    struct ron_http_target_counters c;

    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        char path[32];

        (void)snprintf(path, sizeof path, "/n/%zu", i);
        f[i] = cl_begin(b.cl, b.cl->t, (struct ron_http_fetch_opts){.url = both_url(&b, path)});
    }
    assert_true(fx_gate_reached(&b.cl->done, MANY));
    for (size_t i = 0; i < MANY; i++) {
        char text[32];

        (void)snprintf(text, sizeof text, "n=%zu", i);
        assert_int_equal(ron_http_fetch_result(f[i])->rc, RON_OK);
        assert_true(ron_str_is(ron_http_fetch_result(f[i])->body, text));
        ron_http_fetch_release(f[i]);
    }
    ron_http_target_counters(b.cl->t, &c);
    assert_true(c.connections <= 16);
    assert_int_equal(c.inflight, 0);
    both_close(&b);
}

/* Calls that wait for a connection end at their deadline too. */
static void test_stream__waiting_for_a_connection__deadline_holds(void **state)
{
    struct cl *cl =
        cl_run((struct ron_http_target_opts){.inflight_max = 40, .try_timeout_ms = 300});
    struct ron_http_fetch *f[40];

    (void)state;
    for (size_t i = 0; i < 40; i++) {
        f[i] = cl_begin(cl, cl->t, (struct ron_http_fetch_opts){.url = cl_url(cl, "/stall")});
    }
    assert_true(fx_gate_reached(&cl->done, 40));
    for (size_t i = 0; i < 40; i++) {
        const struct ron_http_fetch_result *r = ron_http_fetch_result(f[i]);

        assert_int_equal(r->rc, RON_TIMEOUT);
        assert_true(r->took_ms >= 300);
        assert_true(r->took_ms <= 300 + 30 + 100);
        ron_http_fetch_release(f[i]);
    }
    cl_close(cl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream__slow_sink__holds_the_sender_back),
        cmocka_unit_test(test_stream__sink_gives_up__ends_without_another_try),
        cmocka_unit_test(test_stream__source__known_and_unknown_length),
        cmocka_unit_test(test_stream__source_gives_up__ends),
        cmocka_unit_test(test_stream__failed_after_bytes_moved__no_second_try),
        cmocka_unit_test(test_stream__answer_beyond_the_limit__cut),
        cmocka_unit_test(test_stream__many_at_once__each_its_own_answer),
        cmocka_unit_test(test_stream__waiting_for_a_connection__deadline_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
