/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: calls bring their answers; whatever the other side does ends in its own error, within the
 * deadline; nothing is repeated that must not be. Method: our own server and a raw peer that
 * misbehaves by path, both in this process. */
#include "unit/http/client_fixture.h"

#include "ron/http/server.h"

#define S(text) ((struct ron_str){(text), sizeof(text) - 1})
#define GET(cl, path) ((struct ron_http_fetch_opts){.url = cl_url((cl), (path))})
#define POST(cl, path, text)                                                                       \
    ((struct ron_http_fetch_opts){                                                                 \
        .method = RON_HTTP_POST, .url = cl_url((cl), (path)), .body = S(text)})

static const struct ron_retry_curve quick = {
    .tries_max = 3, .first_ms = 5, .factor = 2, .base_max_ms = 20, .any_5xx = true};

/* ---- answers --------------------------------------------------------------------------------- */

static void test_client__answers__with_status_header_and_body(void **state)
{
    struct cl *cl = cl_run((struct ron_http_target_opts){0});
    struct ron_http_fetch *f = cl_call(cl, cl->t, GET(cl, "/status/200"));
    const struct ron_http_fetch_result *r = ron_http_fetch_result(f);
    struct ron_http_field fields[16];
    struct ron_str value;
    size_t count = 0;
    size_t twice = 0;
    size_t tags = 0;

    (void)state;
    assert_int_equal(r->rc, RON_OK);
    assert_int_equal(r->reason, RON_HTTP_FETCH_ANSWERED);
    assert_int_equal(r->status, 200);
    assert_int_equal(r->tries, 1);
    assert_int_equal(r->retry, RON_VERDICT_DONE);
    assert_true(ron_str_is(r->body, "said"));
    assert_string_equal(r->message, "");
    assert_int_equal(ron_http_fetch_header_get(f, "etag", &value), RON_OK);
    assert_true(ron_str_is(value, "\"e\""));
    assert_int_equal(ron_http_fetch_header_get(f, "X-Twice", &value), RON_CONFLICT);
    assert_int_equal(ron_http_fetch_header_get(f, "X-None", &value), RON_NOTFOUND);
    assert_int_equal(ron_http_fetch_fields(f, fields, RON_ARRAY_LEN(fields), &count), RON_OK);
    for (size_t i = 0; i < count; i++) {
        twice += ron_str_is(fields[i].name, "X-Twice");
        tags += ron_str_is(fields[i].name, "ETag") && ron_str_is(fields[i].value, "\"e\"");
        assert_true(fields[i].name.len > 0);
    }
    assert_int_equal(twice, 2);
    assert_int_equal(tags, 1);
    assert_int_equal(ron_http_fetch_fields(f, fields, count - 1, &count), RON_LIMIT);
    ron_http_fetch_release(f);
    cl_close(cl);
}

static void test_client__error_statuses__have_codes(void **state)
{
    static const struct {
        int status;
        enum ron_rc rc;
    } rows[] = {{204, RON_OK},     {304, RON_OK},       {400, RON_INVALID}, {401, RON_DENIED},
                {403, RON_DENIED}, {404, RON_NOTFOUND}, {408, RON_TIMEOUT}, {409, RON_CONFLICT},
                {413, RON_LIMIT},  {429, RON_FULL},     {500, RON_IO},      {501, RON_UNSUPPORTED},
                {502, RON_AGAIN},  {503, RON_AGAIN},    {504, RON_TIMEOUT}};
    struct cl *cl = cl_run((struct ron_http_target_opts){0});

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        char path[32];
        struct ron_http_fetch *f;

        (void)snprintf(path, sizeof path, "/status/%d", rows[i].status);
        f = cl_call(cl, cl->t, GET(cl, path));
        assert_int_equal(ron_http_fetch_result(f)->status, rows[i].status);
        assert_int_equal(ron_http_fetch_result(f)->rc, rows[i].rc);
        assert_int_equal(ron_http_fetch_result(f)->reason,
                         rows[i].status < 400 ? RON_HTTP_FETCH_ANSWERED : RON_HTTP_FETCH_STATUS);
        assert_int_equal(ron_http_fetch_result(f)->message[0] == '\0', rows[i].status < 400);
        ron_http_fetch_release(f);
    }
    cl_close(cl);
}

static void test_client__request__carries_what_was_given(void **state)
{
    static const struct ron_http_fetch_header headers[] = {{"Idempotency-Key", {"k1", 2}},
                                                           {"X-Empty", {"", 0}}};
    struct cl *cl = cl_run((struct ron_http_target_opts){
        .name = "svc", .flags = CL_LOCAL | RON_HTTP_TARGET_SEND_DEADLINE});
    struct ron_http_fetch_opts o = POST(cl, "/ok?a=%20b", "{\"x\":1}");

    (void)state;
    o.headers = headers;
    o.header_count = RON_ARRAY_LEN(headers);
    o.corr_id = S("corr-7");
    assert_int_equal(ron_traceparent_parse(
                         S("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), &o.trace),
                     RON_OK);
    cl_expect(cl, cl->t, o, RON_HTTP_FETCH_STATUS, 404); /* the peer knows no query */
    ron_mutex_lock(&cl->peer->hits.mu);
    assert_non_null(strstr(cl->peer->last, "POST /ok?a=%20b HTTP/1.1\r\n"));
    assert_non_null(strstr(cl->peer->last, "\r\nIdempotency-Key: k1\r\n"));
    assert_non_null(strstr(cl->peer->last, "\r\nX-Empty:\r\n"));
    assert_non_null(strstr(cl->peer->last, "\r\nX-Corr-ID: corr-7\r\n"));
    assert_non_null(
        strstr(cl->peer->last, "\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-"));
    assert_non_null(strstr(cl->peer->last, "\r\nRequest-Timeout: 9."));
    assert_non_null(strstr(cl->peer->last, "\r\nContent-Length: 7\r\n"));
    assert_non_null(strstr(cl->peer->last, "\r\nAccept-Encoding: identity\r\n"));
    assert_non_null(strstr(cl->peer->last, "\r\n\r\n{\"x\":1}"));
    assert_null(strstr(cl->peer->last, "Expect"));
    ron_mutex_unlock(&cl->peer->hits.mu);
    cl_close(cl);
}

static void test_client__every_method__as_itself(void **state)
{
    struct cl *cl = cl_run((struct ron_http_target_opts){0});

    (void)state;
    for (int m = 0; m < RON_HTTP_METHOD_COUNT; m++) {
        char line[64];
        struct ron_http_fetch_opts o = GET(cl, "/status/204");

        o.method = (enum ron_http_method)m;
        cl_expect(cl, cl->t, o, RON_HTTP_FETCH_ANSWERED, 204);
        (void)snprintf(line, sizeof line, "%s /status/204 HTTP/1.1\r\n",
                       ron_http_method_name(o.method));
        ron_mutex_lock(&cl->peer->hits.mu);
        assert_int_equal(strncmp(cl->peer->last, line, strlen(line)), 0);
        ron_mutex_unlock(&cl->peer->hits.mu);
    }
    cl_close(cl);
}

static void test_client__many_calls__one_connection(void **state)
{
    struct cl *cl = cl_run((struct ron_http_target_opts){0});
    struct ron_http_target_counters c;

    (void)state;
    for (int i = 0; i < 20; i++) {
        cl_expect(cl, cl->t, GET(cl, "/ok"), RON_HTTP_FETCH_ANSWERED, 200);
    }
    ron_http_target_counters(cl->t, &c);
    assert_int_equal(c.connections, 1);
    assert_int_equal(c.bytes_in, 40);
    assert_int_equal(c.inflight, 0);
    assert_int_equal(fx_gate_count(&cl->peer->accepts), 1);
    cl_close(cl);
}

static void test_client__message_instead_of_call__arrives(void **state)
{
    struct cl *cl = cl_open((struct ron_http_target_opts){0});
    struct ron_chan *answers = fx_chan(cl->fx, "answers", 1, RON_CHAN_REJECT);
    struct ron_http_fetch_opts o = GET(cl, "/ok");
    struct ron_http_fetch *f;
    struct ron_http_fetch *second = NULL;
    void *got = NULL;

    (void)state;
    cl_start(cl);
    o.done_chan = answers;
    f = cl_begin(cl, cl->t, o);
    assert_int_equal(ron_http_fetch_start(cl->t, &o, &second, NULL), RON_FULL);
    assert_null(second);
    assert_int_equal(ron_chan_recv(answers, fx_deadline(), &got), RON_OK);
    assert_ptr_equal(got, f);
    assert_int_equal(ron_http_fetch_result(f)->rc, RON_OK);
    ron_http_fetch_release(f);
    assert_int_equal(fx_stop(cl->fx), RON_EXIT_DRAINED);
    (void)ron_chan_close(answers);
    ron_chan_free(answers);
    cl_free(cl);
}

/* ---- faults of the other side ---------------------------------------------------------------- */

static void test_client__misbehaving_peers__each_its_reason(void **state)
{
    static const struct {
        const char *path;
        enum ron_http_fetch_reason reason;
        enum ron_rc rc;
    } rows[] = {
        {"/truncate", RON_HTTP_FETCH_BROKEN, RON_CLOSED},
        {"/truncate-head", RON_HTTP_FETCH_BROKEN, RON_CLOSED},
        {"/reset", RON_HTTP_FETCH_BROKEN, RON_CLOSED},
        {"/close", RON_HTTP_FETCH_BROKEN, RON_CLOSED},
        {"/garbage", RON_HTTP_FETCH_PROTOCOL, RON_CORRUPT},
        {"/bad-chunk", RON_HTTP_FETCH_BROKEN, RON_CLOSED},
        {"/headers", RON_HTTP_FETCH_TOO_LARGE, RON_LIMIT},
        {"/longline", RON_HTTP_FETCH_TOO_LARGE, RON_LIMIT},
        {"/interim", RON_HTTP_FETCH_TOO_LARGE, RON_LIMIT},
        {"/endless", RON_HTTP_FETCH_TOO_LARGE, RON_LIMIT},
        {"/announced", RON_HTTP_FETCH_TOO_LARGE, RON_LIMIT},
        {"/ok", RON_HTTP_FETCH_ANSWERED, RON_OK},
    };
    struct cl *cl = cl_run((struct ron_http_target_opts){.response_max = 100000});

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_http_fetch *f = cl_call(cl, cl->t, GET(cl, rows[i].path));
        const struct ron_http_fetch_result *r = ron_http_fetch_result(f);
        struct ron_http_op_counters c;

        if (r->reason != rows[i].reason || r->rc != rows[i].rc) {
            fail_msg("%s: %s %s: %s", rows[i].path, ron_http_fetch_reason_label(r->reason),
                     ron_rc_name(r->rc), r->message);
        }
        assert_true(r->body.len <= 100000);
        ron_http_fetch_release(f);
        ron_http_op_counters(cl->t, 0, &c);
        assert_true(c.ended[rows[i].reason] > 0);
        assert_int_equal(c.calls, i + 1);
    }
    cl_close(cl);
}

static void test_client__nobody_listens__connect(void **state)
{
    struct cl *cl = cl_run((struct ron_http_target_opts){0});

    (void)state;
    cl_expect(cl, cl->t, (struct ron_http_fetch_opts){.url = "http://127.0.0.1:1/"},
              RON_HTTP_FETCH_CONNECT, 0);
    cl_close(cl);
}

static void test_client__unknown_name__dns(void **state)
{
    static const char *const hosts[] = {"no-such-host.invalid"};
    struct cl *cl = cl_run((struct ron_http_target_opts){.name = "svc",
                                                         .flags = CL_LOCAL,
                                                         .hosts = hosts,
                                                         .host_count = 1,
                                                         .connect_timeout_ms = 30000,
                                                         .try_timeout_ms = 30000,
                                                         .total_timeout_ms = 30000});

    (void)state;
    cl_expect(cl, cl->t, (struct ron_http_fetch_opts){.url = "http://no-such-host.invalid/"},
              RON_HTTP_FETCH_DNS, 0);
    cl_close(cl);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Ten percent, and what a loaded machine with a sanitizer needs to wake a thread. */
static void assert_took(const struct ron_http_fetch *f, uint64_t wanted_ms)
{
    uint64_t took = ron_http_fetch_result(f)->took_ms;

    if (took < wanted_ms || took > wanted_ms + wanted_ms / 10 + 50) {
        fail_msg("wanted %llu ms, took %llu", (unsigned long long)wanted_ms,
                 (unsigned long long)took);
    }
}

static void test_client__slow_peers__end_at_the_deadline(void **state)
{
    static const char *const paths[] = {"/stall", "/drip"};
    struct cl *cl = cl_run((struct ron_http_target_opts){.try_timeout_ms = 400});
    struct ron_http_op_counters c;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(paths); i++) {
        struct ron_http_fetch_opts o = GET(cl, paths[i]);
        struct ron_http_fetch *f = cl_call(cl, cl->t, o);

        assert_int_equal(ron_http_fetch_result(f)->reason, RON_HTTP_FETCH_TIMEOUT_TOTAL);
        assert_int_equal(ron_http_fetch_result(f)->rc, RON_TIMEOUT);
        assert_took(f, 400); /* the target's */
        ron_http_fetch_release(f);
        o.deadline = ron_deadline_after_ms(ron_mono_ns(), 200);
        f = cl_call(cl, cl->t, o);
        assert_int_equal(ron_http_fetch_result(f)->reason, RON_HTTP_FETCH_TIMEOUT_TOTAL);
        assert_took(f, 200); /* the caller's */
        ron_http_fetch_release(f);
    }
    ron_http_op_counters(cl->t, 0, &c);
    assert_int_equal(c.io_timeouts, 4);
    cl_close(cl);
}

static void test_client__deadline_in_the_past__nothing_sent(void **state)
{
    struct cl *cl = cl_run((struct ron_http_target_opts){0});
    struct ron_http_fetch_opts o = GET(cl, "/ok");

    (void)state;
    o.deadline = ron_deadline_after_ms(1, 0);
    cl_expect(cl, cl->t, o, RON_HTTP_FETCH_TIMEOUT_TOTAL, 0);
    assert_int_equal(fx_gate_count(&cl->peer->hits), 0);
    cl_close(cl);
}

/* A listener whose queue is full leaves further connections unanswered. */
static void test_client__no_connection_in_time__timeout_connect(void **state)
{
    struct cl *cl = cl_run((struct ron_http_target_opts){.connect_timeout_ms = 200});
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fill[8];
    char url[64];
    struct ron_http_fetch *f;

    (void)state;
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(listen(listener, 0), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    for (size_t i = 0; i < RON_ARRAY_LEN(fill); i++) {
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fill[i], (struct sockaddr *)&addr, sizeof addr);
    }
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/", ntohs(addr.sin_port));
    f = cl_call(cl, cl->t, (struct ron_http_fetch_opts){.url = url});
    assert_int_equal(ron_http_fetch_result(f)->reason, RON_HTTP_FETCH_TIMEOUT_CONNECT);
    assert_took(f, 200);
    ron_http_fetch_release(f);
    for (size_t i = 0; i < RON_ARRAY_LEN(fill); i++) {
        (void)close(fill[i]);
    }
    (void)close(listener);
    cl_close(cl);
}

/* ---- retries --------------------------------------------------------------------------------- */

static void test_client__transient_failures__tried_again(void **state)
{
    struct cl *cl = cl_run((struct ron_http_target_opts){.retry = &quick});
    struct ron_http_fetch *f;
    struct ron_http_op_counters c;
    struct ron_http_fetch_opts o;

    (void)state;
    ron_au32_store(&cl->peer->flaky, 2);
    f = cl_call(cl, cl->t, GET(cl, "/flaky"));
    assert_int_equal(ron_http_fetch_result(f)->status, 200);
    assert_int_equal(ron_http_fetch_result(f)->tries, 3);
    ron_http_fetch_release(f);
    assert_int_equal(fx_gate_count(&cl->peer->hits), 3);

    ron_au32_store(&cl->peer->flaky, 9);
    f = cl_call(cl, cl->t, GET(cl, "/flaky"));
    assert_int_equal(ron_http_fetch_result(f)->status, 503);
    assert_int_equal(ron_http_fetch_result(f)->tries, 3);
    assert_int_equal(ron_http_fetch_result(f)->retry, RON_VERDICT_SPENT);
    assert_true(ron_str_is(ron_http_fetch_result(f)->body, "flaky"));
    ron_http_fetch_release(f);
    assert_int_equal(fx_gate_count(&cl->peer->hits), 6);

    o = POST(cl, "/flaky", "x"); /* not safe to repeat, unless it says so */
    o.op = 1;
    f = cl_call(cl, cl->t, o);
    assert_int_equal(ron_http_fetch_result(f)->tries, 1);
    assert_int_equal(ron_http_fetch_result(f)->retry, RON_VERDICT_UNSAFE);
    ron_http_fetch_release(f);
    o.idempotent = true;
    f = cl_call(cl, cl->t, o);
    assert_int_equal(ron_http_fetch_result(f)->tries, 3);
    ron_http_fetch_release(f);

    f = cl_call(cl, cl->t, GET(cl, "/status/429")); /* "too many" is not answered with more */
    assert_int_equal(ron_http_fetch_result(f)->tries, 1);
    assert_int_equal(ron_http_fetch_result(f)->retry, RON_VERDICT_FINAL);
    ron_http_fetch_release(f);

    ron_http_op_counters(cl->t, 0, &c);
    assert_int_equal(c.tries, 7);
    assert_int_equal(c.backoff_retries[RON_VERDICT_AGAIN], 4);
    assert_int_equal(c.backoff_retries[RON_VERDICT_DONE], 1);
    assert_int_equal(c.backoff_retries[RON_VERDICT_SPENT], 1);
    assert_int_equal(c.backoff_retries[RON_VERDICT_FINAL], 1);
    ron_http_op_counters(cl->t, 1, &c);
    assert_int_equal(c.backoff_retries[RON_VERDICT_UNSAFE], 1);
    assert_int_equal(c.backoff_retries[RON_VERDICT_AGAIN], 2);
    cl_close(cl);
}

static void test_client__retry_after__waited_for_or_refused(void **state)
{
    struct cl *cl = cl_open((struct ron_http_target_opts){.retry = &quick});
    struct ron_http_fetch_opts o = GET(cl, "/flaky");
    struct ron_http_fetch *f;

    (void)state;
    (void)snprintf(cl->peer->extra, sizeof cl->peer->extra, "Retry-After: 1\r\n");
    cl_start(cl);
    ron_au32_store(&cl->peer->flaky, 1);
    f = cl_call(cl, cl->t, o);
    assert_int_equal(ron_http_fetch_result(f)->status, 200);
    assert_true(ron_http_fetch_result(f)->took_ms >= 1000);
    ron_http_fetch_release(f);

    ron_au32_store(&cl->peer->flaky, 1);
    o.deadline = ron_deadline_after_ms(ron_mono_ns(), 900);
    f = cl_call(cl, cl->t, o);
    assert_int_equal(ron_http_fetch_result(f)->status, 503);
    assert_int_equal(ron_http_fetch_result(f)->retry, RON_VERDICT_LATE);
    assert_true(ron_http_fetch_result(f)->took_ms < 900); /* told at once */
    ron_http_fetch_release(f);
    cl_close(cl);
}

/* libcurl repeats by itself on a connection that dies when reused; but never an unsafe call. */
static void test_client__reused_connection_dies__unsafe_call_sent_once(void **state)
{
    struct cl *cl = cl_run((struct ron_http_target_opts){0});
    struct ron_http_fetch_opts o = POST(cl, "/once", "pay");

    (void)state;
    cl_expect(cl, cl->t, GET(cl, "/once"), RON_HTTP_FETCH_ANSWERED, 200);
    cl_expect(cl, cl->t, o, RON_HTTP_FETCH_BROKEN, 0);
    assert_int_equal(fx_gate_count(&cl->peer->hits), 2);
    cl_expect(cl, cl->t, GET(cl, "/once"), RON_HTTP_FETCH_ANSWERED, 200);
    o.body = (struct ron_str){0}; /* nothing to rewind: a connection of its own */
    cl_expect(cl, cl->t, o, RON_HTTP_FETCH_ANSWERED, 200);
    assert_int_equal(fx_gate_count(&cl->peer->hits), 4);
    cl_close(cl);
}

/* ---- breaker and limits ---------------------------------------------------------------------- */

static void test_client__failing_target__breaker_opens_and_heals(void **state)
{
    static const struct ron_breaker_rules rules = {
        .row_max = 3, .window_ms = 1000, .open_ms = 300, .probes = 1};
    struct cl *cl = cl_run((struct ron_http_target_opts){.breaker = &rules});
    struct ron_http_target_counters c;
    struct ron_http_fetch *f;
    int status = 0;

    (void)state;
    for (int i = 0; i < 3; i++) {
        cl_expect(cl, cl->t, GET(cl, "/status/500"), RON_HTTP_FETCH_STATUS, 500);
    }
    f = cl_call(cl, cl->t, GET(cl, "/ok"));
    assert_int_equal(ron_http_fetch_result(f)->reason, RON_HTTP_FETCH_BREAKER_OPEN);
    assert_int_equal(ron_http_fetch_result(f)->rc, RON_AGAIN);
    assert_int_equal(ron_http_fetch_result(f)->tries, 0);
    ron_http_fetch_release(f);
    assert_int_equal(fx_gate_count(&cl->peer->hits), 3);
    ron_http_target_counters(cl->t, &c);
    assert_int_equal(c.breaker.state, RON_BREAKER_IS_OPEN);
    while (status == 0) { /* until the probe is let through */
        f = cl_call(cl, cl->t, GET(cl, "/ok"));
        status = ron_http_fetch_result(f)->status;
        ron_http_fetch_release(f);
    }
    assert_int_equal(status, 200);
    ron_http_target_counters(cl->t, &c);
    assert_int_equal(c.breaker.state, RON_BREAKER_IS_CLOSED);
    assert_int_equal(c.breaker.entered[RON_BREAKER_IS_HALF_OPEN], 1);
    assert_int_equal(c.breaker.upstream_fail_total, 3);
    cl_close(cl);
}

static void test_client__too_many_calls__full_at_once(void **state)
{
    struct cl *cl = cl_run((struct ron_http_target_opts){.inflight_max = 2});
    struct ron_http_fetch_opts o = GET(cl, "/stall");
    struct ron_http_fetch *a = cl_begin(cl, cl->t, o);
    struct ron_http_fetch *b = cl_begin(cl, cl->t, o);
    struct ron_http_fetch *third = NULL;
    struct ron_http_target_counters c;

    (void)state;
    o.done = cl_done;
    o.arg = cl;
    assert_int_equal(ron_http_fetch_start(cl->t, &o, &third, NULL), RON_FULL);
    assert_null(third);
    ron_http_target_counters(cl->t, &c);
    assert_int_equal(c.inflight, 2);
    assert_int_equal(c.busy, 1);
    assert_true(fx_gate_reached(&cl->peer->hits, 2));
    ron_http_fetch_cancel(a);
    ron_http_fetch_cancel(a);
    ron_http_fetch_cancel(b);
    assert_true(fx_gate_reached(&cl->done, 2));
    assert_int_equal(ron_http_fetch_result(a)->reason, RON_HTTP_FETCH_CANCELLED);
    assert_int_equal(ron_http_fetch_result(b)->rc, RON_CANCELLED);
    ron_http_fetch_cancel(a); /* too late, and harmless */
    ron_http_fetch_release(a);
    ron_http_fetch_release(b);
    cl_expect(cl, cl->t, GET(cl, "/ok"), RON_HTTP_FETCH_ANSWERED, 200);
    cl_close(cl);
}

static void test_client__cancel_while_waiting__ends_now(void **state)
{
    static const struct ron_retry_curve slow = {
        .tries_max = 2, .first_ms = 60000, .factor = 1, .base_max_ms = 60000, .any_5xx = true};
    struct cl *cl =
        cl_run((struct ron_http_target_opts){.retry = &slow, .total_timeout_ms = 600000});
    struct ron_http_fetch *f = cl_begin(cl, cl->t, GET(cl, "/status/503"));
    struct ron_http_op_counters c;

    (void)state;
    do {
        ron_http_op_counters(cl->t, 0, &c);
        (void)sched_yield();
    } while (c.backoff_retries[RON_VERDICT_AGAIN] == 0);
    ron_http_fetch_cancel(f);
    assert_true(fx_gate_reached(&cl->done, 1));
    assert_int_equal(ron_http_fetch_result(f)->reason, RON_HTTP_FETCH_CANCELLED);
    assert_int_equal(ron_http_fetch_result(f)->tries, 1);
    ron_http_fetch_release(f);
    cl_close(cl);
}

static void test_client__shutdown__ends_what_is_under_way(void **state)
{
    struct cl *cl = cl_run((struct ron_http_target_opts){0});
    struct ron_http_fetch_opts o = GET(cl, "/stall");
    struct ron_http_fetch *f = cl_begin(cl, cl->t, o);
    struct ron_http_fetch *late = NULL;

    (void)state;
    assert_true(fx_gate_reached(&cl->peer->hits, 1));
    assert_int_equal(fx_stop(cl->fx), RON_EXIT_DRAINED);
    assert_int_equal(fx_gate_count(&cl->done), 1);
    assert_int_equal(ron_http_fetch_result(f)->rc, RON_CANCELLED);
    o.done = cl_done;
    o.arg = cl;
    assert_int_equal(ron_http_fetch_start(cl->t, &o, &late, NULL), RON_CLOSED);
    assert_null(late);
    ron_http_fetch_release(f);
    cl_free(cl);
}

static void test_client__never_started__fetches_end_with_it(void **state)
{
    struct cl *cl = cl_open((struct ron_http_target_opts){0});
    struct ron_http_fetch *f = cl_begin(cl, cl->t, GET(cl, "/ok"));

    (void)state;
    ron_http_fetch_release(f);
    assert_int_equal(fx_gate_count(&cl->done), 0);
    cl_free(cl);
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void test_client__metrics__under_the_names_of_the_seeds(void **state)
{
    static const char *const lines[] = {
        "backoff_retries_total{svc=\"svc\",op=\"get\",result=\"retry\"} 2",
        "backoff_retries_total{svc=\"svc\",op=\"get\",result=\"exhausted\"} 1",
        "backoff_retries_total{svc=\"svc\",op=\"put\",result=\"retry\"} 0",
        "io_timeouts_total{op=\"get\",peer=\"svc\"} 0",
        "io_timeouts_total{op=\"put\",peer=\"svc\"} 1",
        "breaker_state{svc=\"svc\"} 0",
        "upstream_fail_total{svc=\"svc\"} 4",
    };
    struct cl *cl = cl_run((struct ron_http_target_opts){
        .retry = &quick, .breaker = ron_breaker_preset(RON_BREAKER_WALLET), .try_timeout_ms = 100});
    struct ron_http_fetch_opts o = POST(cl, "/stall", "x");
    struct ron_metrics *m = NULL;
    struct ron_buf out;

    (void)state;
    assert_int_equal(ron_metrics_new(NULL, &m, NULL), RON_OK);
    assert_int_equal(ron_collect_http_client(m, cl->client, NULL), RON_OK);
    o.op = 1;
    cl_expect(cl, cl->t, o, RON_HTTP_FETCH_TIMEOUT_TOTAL, 0);
    cl_expect(cl, cl->t, GET(cl, "/status/500"), RON_HTTP_FETCH_STATUS, 500);
    ron_buf_init(&out, RON_METRIC_TEXT_MAX);
    assert_int_equal(ron_metrics_write(m, &out), RON_OK);
    for (size_t i = 0; i < RON_ARRAY_LEN(lines); i++) {
        if (strstr(ron_buf_text(&out), lines[i]) == NULL) {
            fail_msg("no %s in:\n%s", lines[i], ron_buf_text(&out));
        }
    }
    ron_buf_done(&out);
    cl_close(cl);
    ron_metrics_free(m);
}

/* ---- bad arguments --------------------------------------------------------------------------- */

static void test_client__bad_requests__refused(void **state)
{
    static const struct ron_http_fetch_header bad[] = {{"Host", {"x", 1}},
                                                       {"Content-Length", {"1", 1}},
                                                       {"transfer-encoding", {"chunked", 7}},
                                                       {"Bad Name", {"x", 1}},
                                                       {"", {"x", 1}},
                                                       {"X-Split", {"a\r\nB: c", 7}}};
    struct cl *cl = cl_run((struct ron_http_target_opts){0});
    struct ron_http_fetch_opts good = GET(cl, "/ok");
    struct ron_http_fetch_opts o;
    struct ron_http_fetch *f = NULL;

    (void)state;
    good.done = cl_done;
    good.arg = cl;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        o = good;
        o.headers = &bad[i];
        o.header_count = 1;
        assert_int_equal(ron_http_fetch_start(cl->t, &o, &f, NULL), RON_INVALID);
    }
    o = good;
    o.op = 2;
    assert_int_equal(ron_http_fetch_start(cl->t, &o, &f, NULL), RON_INVALID);
    o = good;
    o.done = NULL;
    assert_int_equal(ron_http_fetch_start(cl->t, &o, &f, NULL), RON_INVALID);
    o = good;
    o.body = S("GET has none");
    assert_int_equal(ron_http_fetch_start(cl->t, &o, &f, NULL), RON_INVALID);
    o = good;
    o.corr_id = S("bad id");
    assert_int_equal(ron_http_fetch_start(cl->t, &o, &f, NULL), RON_INVALID);
    assert_null(f);
    cl_close(cl);
}

static void test_client__bad_targets__refused(void **state)
{
    static const char *const bad_hosts[] = {
        "*", "*.", "*.1.2.3.4", "a b", "host:0", "host:x", "host:99999", "", "1.2.3", "http://x"};
    static const struct ron_retry_curve bad_curve = {0};
    static const struct ron_breaker_rules bad_rules = {0};
    struct cl *cl = cl_open((struct ron_http_target_opts){0});
    struct ron_http_target_opts o = {.name = "other", .hosts = cl_hosts, .host_count = 1};
    struct ron_http_target *t = NULL;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad_hosts); i++) {
        struct ron_http_target_opts b = o;

        b.hosts = &bad_hosts[i];
        assert_int_equal(ron_http_client_add(cl->client, &b, &t, NULL), RON_INVALID);
    }
    o.host_count = 0;
    assert_int_equal(ron_http_client_add(cl->client, &o, &t, NULL), RON_INVALID);
    o.host_count = 1;
    o.retry = &bad_curve;
    assert_int_equal(ron_http_client_add(cl->client, &o, &t, NULL), RON_INVALID);
    o.retry = NULL;
    o.breaker = &bad_rules;
    assert_int_equal(ron_http_client_add(cl->client, &o, &t, NULL), RON_INVALID);
    o.breaker = NULL;
    o.cert_file = "cert.pem";
    assert_int_equal(ron_http_client_add(cl->client, &o, &t, NULL), RON_INVALID);
    o.cert_file = NULL;
    o.ca_file = "/nonexistent/ca.pem";
    assert_int_equal(ron_http_client_add(cl->client, &o, &t, NULL), RON_NOTFOUND);
    o.ca_file = NULL;
    o.name = "svc"; /* taken */
    assert_int_equal(ron_http_client_add(cl->client, &o, &t, NULL), RON_EXISTS);
    assert_null(t);
    cl_free(cl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client__answers__with_status_header_and_body),
        cmocka_unit_test(test_client__error_statuses__have_codes),
        cmocka_unit_test(test_client__request__carries_what_was_given),
        cmocka_unit_test(test_client__every_method__as_itself),
        cmocka_unit_test(test_client__many_calls__one_connection),
        cmocka_unit_test(test_client__message_instead_of_call__arrives),
        cmocka_unit_test(test_client__misbehaving_peers__each_its_reason),
        cmocka_unit_test(test_client__nobody_listens__connect),
        cmocka_unit_test(test_client__unknown_name__dns),
        cmocka_unit_test(test_client__slow_peers__end_at_the_deadline),
        cmocka_unit_test(test_client__deadline_in_the_past__nothing_sent),
        cmocka_unit_test(test_client__no_connection_in_time__timeout_connect),
        cmocka_unit_test(test_client__transient_failures__tried_again),
        cmocka_unit_test(test_client__retry_after__waited_for_or_refused),
        cmocka_unit_test(test_client__reused_connection_dies__unsafe_call_sent_once),
        cmocka_unit_test(test_client__failing_target__breaker_opens_and_heals),
        cmocka_unit_test(test_client__too_many_calls__full_at_once),
        cmocka_unit_test(test_client__cancel_while_waiting__ends_now),
        cmocka_unit_test(test_client__shutdown__ends_what_is_under_way),
        cmocka_unit_test(test_client__never_started__fetches_end_with_it),
        cmocka_unit_test(test_client__metrics__under_the_names_of_the_seeds),
        cmocka_unit_test(test_client__bad_requests__refused),
        cmocka_unit_test(test_client__bad_targets__refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
