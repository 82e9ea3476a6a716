/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: every limit has its own answer and counter, and what is refused does not harm the others;
 * slow peers are cut; a drain answers what it took and ends with FIN.
 * Method: a plain client against servers with small limits and short timeouts. */
#include "unit/http/fixture.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST(path, len, body)                                                                      \
    "POST " path " HTTP/1.1\r\nHost: a\r\nContent-Length: " len "\r\n\r\n" body

static void test_limits__rate__429_with_retry_after(void **state)
{
    static struct answer a;
    struct web *web = web_open(2, (struct ron_http_opts){.rate_per_s = 1, .burst = 3});
    struct cli c;
    struct cli other;

    (void)state;
    cli_open(&c, web);
    cli_open(&other, web);
    cli_say(&c, GET("/hi") GET("/hi") GET("/hi"));
    for (int i = 0; i < 3; i++) {
        cli_expect(&c, 200, "hi");
    }
    cli_say(&c, GET("/hi"));
    cli_answer(&c, false, &a);
    assert_int_equal(a.status, 429);
    assert_non_null(strstr(a.head, "Retry-After: 1\r\n"));
    assert_non_null(strstr(a.body, "\"code\":\"RATE_LIMIT\""));
    assert_non_null(strstr(a.body, "\"retryable\":true"));
    /* The bucket is the client's, not the connection's; the connection stays; health is exempt. */
    cli_say(&other, POST("/echo", "5", "hello") GET("/healthz"));
    cli_expect(&other, 429, "rate_limit");
    cli_expect(&other, 200, "hi");
    /* A body that has not come is not read. */
    cli_say(&other, POST("/echo", "5", ""));
    cli_expect(&other, 429, "rate_limit");
    cli_expect_end(&other);
    assert_int_equal(web_counters(web).rejected[RON_HTTP_RATE], 3);
    cli_close(&c);
    cli_close(&other);
    web_close(web);
}

static struct ron_str key_of(void *arg, const struct ron_http_head *head)
{
    struct ron_str key = {0};

    (void)arg;
    RON_IGNORE(ron_http_field_get(head, "X-Cap", &key));
    return key;
}

static void test_limits__rate_by_client_key__each_has_its_own(void **state)
{
    struct web *web =
        web_open(1, (struct ron_http_opts){.rate_per_s = 1, .burst = 1, .client_key = key_of});
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, GET("/hi") "GET /hi HTTP/1.1\r\nHost: a\r\nX-Cap: one\r\n\r\n");
    cli_say(&c, "GET /hi HTTP/1.1\r\nHost: a\r\nX-Cap: two\r\n\r\n" GET("/hi"));
    cli_say(&c, "GET /hi HTTP/1.1\r\nHost: a\r\nX-Cap: one\r\n\r\n");
    for (int i = 0; i < 3; i++) {
        cli_expect(&c, 200, "hi");
    }
    cli_expect(&c, 429, "rate_limit");
    cli_expect(&c, 429, "rate_limit");
    cli_close(&c);
    web_close(web);
}

static void test_limits__rate_of_the_instance__shared_and_reloaded(void **state)
{
    struct web *web = web_open(
        1,
        (struct ron_http_opts){.rate_per_s = 1, .burst = 2, .rate_scope = RON_HTTP_SCOPE_INSTANCE});
    struct cli c;
    struct sockaddr_in other = {.sin_family = AF_INET};

    (void)state;
    cli_open(&c, web);
    cli_say(&c, GET("/hi") GET("/hi"));
    cli_expect(&c, 200, "hi");
    cli_expect(&c, 200, "hi");
    cli_close(&c);
    /* Another address: 127.0.0.2 is this machine too. */
    c = (struct cli){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    other.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    assert_int_equal(bind(c.fd, (struct sockaddr *)&other, sizeof other), 0);
    assert_int_equal(connect(c.fd, (struct sockaddr *)&web->addr, sizeof web->addr), 0);
    cli_say(&c, GET("/hi"));
    cli_expect(&c, 429, "rate_limit");
    assert_int_equal(ron_http_server_set_rate(web->server, 2000000000, 1, NULL), RON_INVALID);
    assert_int_equal(ron_http_server_set_rate(web->server, 0, 0, NULL), RON_OK);
    cli_say(&c, GET("/hi") GET("/hi") GET("/hi"));
    for (int i = 0; i < 3; i++) {
        cli_expect(&c, 200, "hi");
    }
    cli_close(&c);
    web_close(web);
}

static void test_limits__inflight__429_and_old_work_goes_on(void **state)
{
    struct web *web = web_open(2, (struct ron_http_opts){.inflight_max = 2});
    struct cli c[3];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        cli_open(&c[i], web);
        cli_say(&c[i], POST("/defer", "1", "x"));
    }
    struct ron_http_reply *r = web_reply(web, 1);
    cli_open(&c[2], web);
    cli_say(&c[2], POST("/defer", "1", "x") GET("/hi"));
    cli_expect(&c[2], 429, "BACKPRESSURE");
    cli_expect(&c[2], 200, "hi"); /* answered at once, so the gate does not concern it */
    web_send_reply(r, "one");
    fx_until(web_counters(web).inflight == 1);
    cli_say(&c[2], GET("/undefer"));
    cli_expect(&c[2], 429, "busy");
    cli_say(&c[2], POST("/defer", "1", "x"));
    web_send_reply(web_reply(web, 2), "two");
    cli_expect(&c[2], 200, "two");
    ron_http_reply_fail(web_reply(web, 0), RON_HTTP_BUSY);
    for (size_t i = 0; i < 2; i++) {
        static struct answer a;
        cli_answer(&c[i], false, &a);
        assert_true(a.status == 200 || a.status == 429);
    }
    fx_until(web_counters(web).inflight == 0);
    assert_int_equal(web_counters(web).rejected[RON_HTTP_BUSY], 3);
    for (size_t i = 0; i < 3; i++) {
        cli_close(&c[i]);
    }
    web_close(web);
}

static void test_limits__connections__503_and_closed(void **state)
{
    struct web *web = web_open(2, (struct ron_http_opts){.connections_max = 4});
    struct cli c[4];
    struct cli late;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        cli_open(&c[i], web);
        cli_say(&c[i], GET("/hi"));
        cli_expect(&c[i], 200, "hi");
    }
    cli_open(&late, web);
    cli_say(&late, GET("/hi"));
    cli_expect(&late, 503, "connections");
    cli_expect_end(&late);
    cli_close(&late);
    cli_close(&c[0]);
    fx_until(web_counters(web).connections == 3);
    cli_open(&late, web);
    cli_say(&late, GET("/hi"));
    cli_expect(&late, 200, "hi");
    cli_close(&late);
    for (size_t i = 1; i < 4; i++) {
        cli_close(&c[i]);
    }
    web_close(web);
}

static int name_refusal_arg;

static void test_limits__body__413_before_it_is_read(void **state)
{
    static char large[200000];
    struct web *web =
        web_open(1, (struct ron_http_opts){.body_max = 100000, .body_memory_max = 50000});
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, POST("/echo", "100001", ""));
    cli_expect(&c, 413, "too_large");
    /* The client goes on sending: the answer must survive that. */
    (void)!send(c.fd, large, sizeof large, MSG_NOSIGNAL);
    cli_close(&c);
    cli_open(&c, web);
    cli_say(&c, "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n186a1\r\n");
    cli_expect(&c, 413, "too_large");
    cli_expect_end(&c);
    cli_close(&c);
    /* Allowed by itself, but more than all bodies together may hold. */
    cli_open(&c, web);
    cli_say(&c, POST("/echo", "90000", ""));
    cli_send(&c, large, 90000);
    cli_expect(&c, 503, "memory");
    cli_close(&c);
    cli_open(&c, web);
    cli_say(&c, POST("/echo", "30000", ""));
    cli_send(&c, large, 30000);
    cli_expect(&c, 200, "");
    cli_close(&c);
    fx_until(ron_au64_load(&web->server->body_memory) == 0);
    assert_int_equal(web_counters(web).rejected[RON_HTTP_BODY_LARGE], 2);
    web_close(web);
}

/* Tells what it was told, as a service would. */
static void name_refusal(void *arg, struct ron_http_call *call, const struct ron_http_head *head,
                         const struct ron_http_error *error)
{
    struct ron_str host = head != NULL ? head->host : (struct ron_str){"none", 4};

    assert_ptr_equal(arg, &name_refusal_arg);
    assert_int_equal(
        ron_http_add_header(call, "X-Why", (struct ron_str){error->reason, strlen(error->reason)}),
        RON_OK);
    assert_int_equal(ron_http_add_header(call, "X-Who", host), RON_OK);
}

static void test_limits__refusals__have_headers_of_the_service(void **state)
{
    struct web *web = web_open(1, (struct ron_http_opts){.body_max = 1000,
                                                         .on_refusal = name_refusal,
                                                         .on_refusal_arg = &name_refusal_arg});
    static const struct {
        const char *text;
        const char *why;
        const char *who;
        int status;
    } rows[] = {
        {POST("/echo", "1001", ""), "X-Why: too_large", "X-Who: a", 413},
        {GET("/none"), "X-Why: not_found", "X-Who: a", 404},
        {"GET /hi HTTP/1.1\r\n\r\n", "X-Why: host_missing", "X-Who: none", 400},
    };
    static struct answer a;
    struct cli c;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        cli_open(&c, web);
        cli_say(&c, rows[i].text);
        cli_answer(&c, false, &a);
        assert_int_equal(a.status, rows[i].status);
        assert_non_null(strstr(a.head, rows[i].why));
        assert_non_null(strstr(a.head, rows[i].who));
        cli_close(&c);
    }
    cli_open(&c, web);
    cli_say(&c, GET("/hi"));
    cli_answer(&c, false, &a);
    assert_null(strstr(a.head, "X-Why"));
    cli_close(&c);
    web_close(web);
}

static void test_limits__head__414_and_431(void **state)
{
    struct web *web =
        web_open(1, (struct ron_http_opts){.uri_max = 64, .head_max = 512, .headers_max = 8});
    struct cli c;
    char text[1024];

    (void)state;
    cli_open(&c, web);
    (void)snprintf(text, sizeof text, "GET /%0100d HTTP/1.1\r\n", 0);
    cli_say(&c, text);
    cli_expect(&c, 414, "uri_long");
    cli_expect_end(&c);
    cli_close(&c);
    cli_open(&c, web);
    (void)snprintf(text, sizeof text, "GET /hi HTTP/1.1\r\nHost: a\r\nX: %0600d\r\n\r\n", 0);
    cli_say(&c, text);
    cli_expect(&c, 431, "head_large");
    cli_expect_end(&c);
    cli_close(&c);
    cli_open(&c, web);
    cli_say(&c, "GET /hi HTTP/1.1\r\nHost: a\r\n"
                "A: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\n\r\n");
    cli_expect(&c, 431, "headers_many");
    cli_expect_end(&c);
    cli_close(&c);
    web_close(web);
}

static void test_limits__slow_head_and_body__408(void **state)
{
    struct web *web = web_open(1, (struct ron_http_opts){.read_timeout_ms = 100});
    struct cli c;
    struct cli drip;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, "GET /hi HTTP/1.1\r\nHost: a\r\nX: ");
    cli_expect(&c, 408, "read_timeout");
    cli_expect_end(&c);
    cli_close(&c);
    cli_open(&c, web);
    cli_say(&c, POST("/echo", "5", "hell"));
    cli_expect(&c, 408, "read_timeout");
    cli_expect_end(&c);
    cli_close(&c);
    /* A byte now and then does not buy time for a head; others are served meanwhile. */
    cli_open(&drip, web);
    cli_open(&c, web);
    cli_say(&drip, "GET /hi HTTP/1.1\r\nHost: a\r\n");
    uint64_t until = ron_mono_ns() + 20 * RON_NS_PER_S;
    while (web_counters(web).read_timeouts < 3 && ron_mono_ns() < until) {
        (void)!send(drip.fd, "X", 1, MSG_NOSIGNAL);
        cli_say(&c, GET("/hi"));
        cli_expect(&c, 200, "hi");
    }
    assert_int_equal(web_counters(web).read_timeouts, 3);
    cli_close(&drip);
    cli_close(&c);
    web_close(web);
}

static void test_limits__slow_body_rate__408_although_bytes_come(void **state)
{
    struct web *web = web_open(1, (struct ron_http_opts){.read_timeout_ms = 200,
                                                         .rate_min_bytes_per_s = 1000000000,
                                                         .request_timeout_ms = 60000});
    struct cli c;
    uint64_t until = ron_mono_ns() + 20 * RON_NS_PER_S;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, POST("/echo", "1000000", ""));
    while (web_counters(web).read_timeouts == 0 && ron_mono_ns() < until) {
        (void)!send(c.fd, "x", 1, MSG_NOSIGNAL);
        (void)sched_yield();
    }
    cli_expect(&c, 408, "read_timeout");
    cli_close(&c);
    web_close(web);
}

static void test_limits__slow_reader__cut(void **state)
{
    struct web *web = web_open(1, (struct ron_http_opts){.write_timeout_ms = 100});
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, GET("/big"));
    fx_until(web_counters(web).write_timeouts == 1);
    fx_until(web_counters(web).connections == 0);
    cli_close(&c);
    web_close(web);
}

static void test_limits__answers_nobody_reads__memory_bounded(void **state)
{
    struct web *web = web_open(1, (struct ron_http_opts){.answer_memory_max = 16 << 20});
    struct cli c[8];
    struct cli other;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(c); i++) {
        cli_open(&c[i], web);
        cli_say(&c[i], GET("/big"));
    }
    fx_until(web_counters(web).requests == RON_ARRAY_LEN(c));
    fx_until(web_counters(web).rejected[RON_HTTP_MEMORY] > 0);
    fx_until(web_counters(web).answers_dropped > 0);
    fx_until(ron_au64_load(&web->server->answer_memory.used) <= 16 << 20);
    cli_open(&other, web);
    cli_say(&other, GET("/hi"));
    cli_expect(&other, 200, "hi");
    cli_close(&other);
    for (size_t i = 0; i < RON_ARRAY_LEN(c); i++) {
        cli_close(&c[i]);
    }
    fx_until(ron_au64_load(&web->server->answer_memory.used) == 0);
    web_close(web);
}

static void test_limits__slow_but_steady_reader__next_request_not_blamed(void **state)
{
    struct web *web = web_open(1, (struct ron_http_opts){.read_timeout_ms = 50});
    struct cli c;
    size_t total = 0;
    uint64_t until;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, GET("/big") GET("/n/7")); /* The second waits in the buffer for the first. */
    until = ron_mono_ns() + 300 * RON_NS_PER_MS;
    while (ron_mono_ns() < until) {
        ssize_t n = recv(c.fd, c.in, 1, 0);
        assert_int_equal(n, 1);
        total++;
    }
    while (strstr(c.in, "n=7") == NULL) {
        c.have = 0;
        assert_true(cli_more(&c));
        total += c.have;
    }
    assert_true(total > WEB_BIG);
    assert_int_equal(web_counters(web).read_timeouts + web_counters(web).write_timeouts, 0);
    cli_close(&c);
    web_close(web);
}

static void test_limits__idle__closed_with_fin(void **state)
{
    struct web *web = web_open(1, (struct ron_http_opts){.idle_timeout_ms = 100});
    struct cli c;
    struct cli silent;

    (void)state;
    cli_open(&silent, web);
    cli_open(&c, web);
    cli_say(&c, GET("/hi"));
    cli_expect(&c, 200, "hi");
    cli_expect_end(&c);
    cli_expect_end(&silent);
    assert_int_equal(web_counters(web).idle_timeouts, 2);
    cli_close(&c);
    cli_close(&silent);
    web_close(web);
}

static void test_limits__deadline__503_and_the_late_answer_dropped(void **state)
{
    struct web *web = web_open(1, (struct ron_http_opts){.request_timeout_ms = 100});
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, POST("/defer", "3", "abc"));
    struct ron_http_reply *r = web_reply(web, 0);
    cli_expect(&c, 503, "\"code\":\"TIMEOUT\"");
    cli_expect_end(&c);
    assert_true(ron_http_reply_cancelled(r));
    assert_memory_equal(web->bodies[0].ptr, "abc", 3);
    web_send_reply(r, "too late");
    fx_until(web_counters(web).late_replies == 1);
    cli_close(&c);
    web_close(web);
    /* The client's own deadline counts when it is nearer. */
    web = web_open(1, (struct ron_http_opts){.request_timeout_ms = 3600000});
    cli_open(&c, web);
    cli_say(&c, "GET /hi HTTP/1.1\r\nHost: a\r\nDeadline: 1000\r\n\r\n");
    cli_expect(&c, 503, "timeout");
    cli_say(&c, "POST /defer HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n"
                "Request-Timeout: 1\r\n\r\nx");
    r = web_reply(web, 0);
    assert_true(ron_deadline_left_ms(ron_http_reply_deadline(r), ron_mono_ns()) <= 1000);
    cli_expect(&c, 503, "timeout");
    web_send_reply(r, "too late");
    cli_close(&c);
    web_close(web);
}

static void say_later(struct ron_http_call *call, void *arg)
{
    ron_http_fail_with(
        call,
        &(struct ron_http_error){
            .status = 202, .code = "LATER", .message = arg, .reason = "later", .retry_after_s = 7});
}

static void test_limits__deadline_with_a_late_answer__said_instead_of_503(void **state)
{
    const struct ron_http_late late = {.handle = say_later, .arg = "it goes on", .early_ms = 20};
    struct web *web = web_open(1, (struct ron_http_opts){.request_timeout_ms = 300});
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, POST("/defer", "3", "abc"));
    struct ron_http_reply *r = web_reply(web, 0);
    ron_http_reply_set_late(r, &late);
    cli_expect(&c, 202, "it goes on");
    cli_expect_end(&c);
    assert_true(ron_http_reply_cancelled(r));
    web_send_reply(r, "too late");
    fx_until(web_counters(web).late_replies == 1);
    cli_close(&c);
    web_close(web);
}

static void test_limits__drain__answers_what_it_took_and_refuses_the_rest(void **state)
{
    struct web *web = web_open(1, (struct ron_http_opts){.request_timeout_ms = 60000});
    struct cli idle;
    struct cli half;
    struct cli waits;
    struct cli fresh;

    (void)state;
    cli_open(&idle, web);
    cli_say(&idle, GET("/hi"));
    cli_expect(&idle, 200, "hi");
    cli_open(&half, web);
    cli_say(&half, "GET /hi HTTP/1.1\r\nHost: a\r\n");
    cli_open(&waits, web);
    cli_say(&waits, POST("/defer", "1", "x"));
    struct ron_http_reply *r = web_reply(web, 0);
    ron_au32_store(&web->stage.hold, 1);
    ron_sup_request_stop(web->fx->sup);
    cli_expect_end(&idle);
    cli_say(&half, "\r\n");
    cli_expect(&half, 503, "DRAINING");
    cli_expect_end(&half);
    cli_open(&fresh, web); /* New connections are told as well; health goes on. */
    cli_say(&fresh, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    cli_expect(&fresh, 200, "hi");
    cli_close(&fresh);
    cli_open(&fresh, web);
    cli_say(&fresh, POST("/defer", "1", "x"));
    cli_expect(&fresh, 503, "DRAINING");
    cli_expect_end(&fresh);
    cli_close(&fresh);
    web_send_reply(r, "taken before");
    cli_expect(&waits, 200, "taken before");
    cli_expect_end(&waits);
    fx_gate_add(&web->stage.release, 1);
    assert_int_equal(fx_join(web->fx), RON_EXIT_DRAINED);
    assert_int_equal(web_counters(web).connections, 0);
    cli_close(&idle);
    cli_close(&half);
    cli_close(&waits);
    web_free(web);
}

/* A drain that has nothing to wait for leaves answers the time to be taken. */
static void test_limits__drain_under_a_large_answer__arrives_whole_with_fin(void **state)
{
    struct web *web = web_open(1, (struct ron_http_opts){0});
    struct cli c;
    size_t have = 0;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, GET("/big"));
    assert_true(cli_more(&c)); /* under way: most of it waits in the server */
    ron_sup_request_stop(web->fx->sup);
    fx_await(web->fx, RON_SUP_EVENT_ENDED, "stage", 1); /* the server's tasks are the last */
    have = c.have;
    for (ssize_t n = 1; n > 0; have += (size_t)n) {
        n = recv(c.fd, c.in, sizeof c.in, 0);
        assert_true(n >= 0); /* never a reset */
    }
    assert_true(have > WEB_BIG);
    assert_int_equal(fx_join(web->fx), RON_EXIT_DRAINED);
    cli_close(&c);
    web_free(web);
}

/* One that is not taken does not hold up the end, nor does it make it a bad one. */
static void test_limits__drain_under_an_answer_nobody_takes__ends_in_time(void **state)
{
    struct web *web = web_open(1, (struct ron_http_opts){0});
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, GET("/big"));
    assert_true(cli_more(&c));
    assert_int_equal(fx_stop(web->fx), RON_EXIT_DRAINED);
    cli_close(&c);
    web_free(web);
}

static void test_limits__stop_with_replies_out__freed_when_they_come(void **state)
{
    struct web *web = web_open(2, (struct ron_http_opts){0});
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, POST("/defer", "1", "x"));
    struct ron_http_reply *r = web_reply(web, 0);
    assert_int_equal(fx_stop(web->fx), RON_EXIT_DRAINED);
    cli_expect(&c, 503, "draining");
    cli_expect_end(&c);
    assert_true(ron_http_reply_cancelled(r));
    web_send_reply(r, "after the end"); /* as a channel does that is freed last */
    cli_close(&c);
    web_free(web);
}

static void test_limits__bad_options__refused_by_name(void **state)
{
    struct fx *fx = fx_open(1);
    static const struct ron_http_route route = {RON_HTTP_GET, "/", web_hi, NULL, 0, 0};
    const struct ron_http_opts good = {.name = "http",
                                       .env = &fx->env,
                                       .registry = fx->reg,
                                       .workers = 1,
                                       .addr = "127.0.0.1:0",
                                       .routes = &route,
                                       .route_count = 1};
    struct ron_http_opts bad[8];
    struct ron_http_server *s = NULL;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        bad[i] = good;
    }
    bad[0].name = "a-name-that-is-too-long";
    bad[1].workers = 0;
    bad[2].route_count = 0;
    bad[3].headers_max = RON_HTTP_HEADERS_MAX + 1;
    bad[4].head_max = RON_HTTP_IN_BYTES + 1;
    bad[5].addr = "127.0.0.1";
    bad[6].uri_max = RON_HTTP_IN_BYTES + 1;
    bad[7].name = "No Name";
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        struct ron_err err = {0};
        assert_int_equal(ron_http_server_new(&bad[i], &s, &err), RON_INVALID);
        assert_true(err.msg[0] != '\0');
        assert_null(s);
    }
    assert_int_equal(ron_http_server_new(&good, &s, NULL), RON_OK);
    assert_true(ron_http_server_free(s));
    fx_start(fx);
    assert_int_equal(fx_stop(fx), RON_EXIT_DRAINED);
    assert_true(fx_close(fx));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits__rate__429_with_retry_after),
        cmocka_unit_test(test_limits__rate_by_client_key__each_has_its_own),
        cmocka_unit_test(test_limits__rate_of_the_instance__shared_and_reloaded),
        cmocka_unit_test(test_limits__inflight__429_and_old_work_goes_on),
        cmocka_unit_test(test_limits__connections__503_and_closed),
        cmocka_unit_test(test_limits__body__413_before_it_is_read),
        cmocka_unit_test(test_limits__refusals__have_headers_of_the_service),
        cmocka_unit_test(test_limits__head__414_and_431),
        cmocka_unit_test(test_limits__slow_head_and_body__408),
        cmocka_unit_test(test_limits__slow_body_rate__408_although_bytes_come),
        cmocka_unit_test(test_limits__slow_reader__cut),
        cmocka_unit_test(test_limits__answers_nobody_reads__memory_bounded),
        cmocka_unit_test(test_limits__slow_but_steady_reader__next_request_not_blamed),
        cmocka_unit_test(test_limits__idle__closed_with_fin),
        cmocka_unit_test(test_limits__deadline__503_and_the_late_answer_dropped),
        cmocka_unit_test(test_limits__deadline_with_a_late_answer__said_instead_of_503),
        cmocka_unit_test(test_limits__drain__answers_what_it_took_and_refuses_the_rest),
        cmocka_unit_test(test_limits__drain_under_a_large_answer__arrives_whole_with_fin),
        cmocka_unit_test(test_limits__drain_under_an_answer_nobody_takes__ends_in_time),
        cmocka_unit_test(test_limits__stop_with_replies_out__freed_when_they_come),
        cmocka_unit_test(test_limits__bad_options__refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
