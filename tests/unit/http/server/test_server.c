/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: requests over real sockets are answered as HTTP/1.1 wants it: one after another, in order,
 * with the right framing; deferred answers come from other threads; whoever goes away cancels.
 * Method: a plain client against a server of two workers. */
#include "http/server/server_testing.h"
#include "http/syntax/syntax.h"
#include "unit/http/fixture.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST(path, len, body)                                                                      \
    "POST " path " HTTP/1.1\r\nHost: a\r\nContent-Length: " len "\r\n\r\n" body

static const struct ron_http_opts plain = {0};

static void test_server__keep_alive__many_on_one_connection(void **state)
{
    struct web *web = web_open(2, plain);
    struct cli c;

    (void)state;
    cli_open(&c, web);
    for (int i = 0; i < 100; i++) {
        cli_say(&c, GET("/hi"));
        cli_expect(&c, 200, "hi");
        cli_say(&c, POST("/echo", "5", "hello"));
        cli_expect(&c, 200, "hello");
    }
    assert_int_equal(web_counters(web).accepted, 1);
    assert_int_equal(web_counters(web).requests, 200);
    assert_true(fx_gate_reached(&web->answered, 200));
    cli_close(&c);
    web_close(web);
}

static void test_server__bytes_one_by_one__same_answer(void **state)
{
    static const char text[] = POST("/echo", "5", "hello") GET("/n/17");
    struct web *web = web_open(1, plain);
    struct cli c;

    (void)state;
    cli_open(&c, web);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        cli_send(&c, text + i, 1);
    }
    cli_expect(&c, 200, "hello");
    cli_expect(&c, 200, "n=17");
    cli_close(&c);
    web_close(web);
}

static void test_server__pipelined__answered_in_order(void **state)
{
    enum { COUNT = 1500 };
    struct web *web = web_open(1, plain);
    struct cli c;
    char text[64];

    (void)state;
    cli_open(&c, web);
    /* More than a connection's buffer holds, so requests are cut at its end and moved. */
    for (int i = 0; i < COUNT; i++) {
        int len = snprintf(text, sizeof text, "GET /n/%d HTTP/1.1\r\nHost: a\r\n\r\n", i);
        cli_send(&c, text, (size_t)len);
    }
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(text, sizeof text, "n=%d", i);
        cli_expect(&c, 200, text);
    }
    cli_close(&c);
    web_close(web);
}

static void test_server__deferred_between_inline__order_kept(void **state)
{
    struct web *web = web_open(2, plain);
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, GET("/n/1") POST("/defer", "3", "abc") GET("/n/2"));
    cli_expect(&c, 200, "n=1");
    struct ron_http_reply *r = web_reply(web, 0);
    assert_memory_equal(web->bodies[0].ptr, "abc", 3);
    assert_false(ron_http_reply_cancelled(r));
    assert_int_equal(web_counters(web).inflight, 1);
    assert_int_equal(ron_http_reply_add_header(r, "X-More", (struct ron_str){"yes", 3}), RON_OK);
    web_send_reply(r, "late");
    cli_expect(&c, 200, "late");
    cli_expect(&c, 200, "n=2");
    fx_until(web_counters(web).inflight == 0);
    cli_close(&c);
    web_close(web);
}

static void test_server__head_and_options__no_body(void **state)
{
    static struct answer a;
    struct web *web = web_open(1, plain);
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, "HEAD /hi HTTP/1.1\r\nHost: a\r\n\r\n");
    cli_answer(&c, true, &a);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.head, "Content-Length: 2\r\n"));
    cli_say(&c, "HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    cli_answer(&c, true, &a);
    assert_non_null(strstr(a.head, "Transfer-Encoding: chunked\r\n"));
    cli_say(&c, "OPTIONS /hi HTTP/1.1\r\nHost: a\r\n\r\n");
    cli_answer(&c, true, &a);
    assert_int_equal(a.status, 204);
    assert_non_null(strstr(a.head, "Allow: GET, HEAD, OPTIONS\r\n"));
    assert_null(strstr(a.head, "Content-Length"));
    cli_say(&c, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    cli_answer(&c, true, &a);
    assert_int_equal(a.status, 204);
    cli_say(&c, "DELETE /hi HTTP/1.1\r\nHost: a\r\n\r\n");
    cli_answer(&c, false, &a);
    assert_int_equal(a.status, 405);
    assert_non_null(strstr(a.head, "Allow: GET, HEAD, OPTIONS\r\n"));
    cli_say(&c, POST("/nowhere", "3", "abc") GET("/hi"));
    cli_expect(&c, 404, "NOT_FOUND");
    cli_expect(&c, 200, "hi");
    cli_close(&c);
    web_close(web);
}

static void test_server__answer__carries_the_fixed_headers(void **state)
{
    static struct answer a;
    struct web *web = web_open(1, plain);
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, "GET /hi HTTP/1.1\r\nHost: a\r\nX-Corr-ID: my.id-1\r\n\r\n");
    cli_answer(&c, false, &a);
    assert_non_null(strstr(a.head, "X-Corr-ID: my.id-1\r\n"));
    assert_non_null(strstr(a.head, "Date: "));
    assert_non_null(strstr(a.head, " GMT\r\n"));
    cli_say(&c, "GET /none HTTP/1.1\r\nHost: a\r\nX-Corr-ID: bad id\r\n\r\n");
    cli_answer(&c, false, &a);
    const char *id = strstr(a.head, "X-Corr-ID: ");
    assert_non_null(id);
    assert_int_equal(strcspn(id + 11, "\r"), RON_ULID_TEXT_LEN);
    char expected[64];
    (void)snprintf(expected, sizeof expected, "\"corr_id\":\"%.26s\"", id + 11);
    assert_non_null(strstr(a.body, expected));
    assert_non_null(strstr(a.body, "\"retryable\":false"));
    assert_non_null(strstr(a.body, "\"reason\":\"not_found\""));
    cli_close(&c);
    web_close(web);
}

static void test_server__http10_and_close__connection_closed(void **state)
{
    struct web *web = web_open(1, plain);
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, "GET /hi HTTP/1.0\r\n\r\n");
    cli_expect(&c, 200, "hi");
    cli_expect_end(&c);
    cli_close(&c);
    cli_open(&c, web);
    cli_say(&c, "GET /hi HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" GET("/hi"));
    cli_expect(&c, 200, "hi");
    cli_expect_end(&c);
    cli_close(&c);
    cli_open(&c, web);
    cli_say(&c, "GET /stream HTTP/1.0\r\n\r\n");
    while (cli_more(&c)) {
    }
    assert_null(strstr(c.in, "chunked"));
    assert_int_equal(c.have - (size_t)(strstr(c.in, "\r\n\r\n") + 4 - c.in), 5003);
    cli_close(&c);
    web_close(web);
}

static void test_server__half_closed_client__still_answered(void **state)
{
    struct web *web = web_open(1, plain);
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, GET("/n/1") GET("/n/2"));
    assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
    cli_expect(&c, 200, "n=1");
    cli_expect(&c, 200, "n=2");
    cli_expect_end(&c);
    cli_close(&c);
    cli_open(&c, web);
    cli_say(&c, POST("/defer", "1", "x"));
    struct ron_http_reply *r = web_reply(web, 0);
    assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
    fx_until(ron_http_reply_cancelled(r)); /* It may be gone, nobody can know. */
    web_send_reply(r, "all the same");
    cli_expect(&c, 200, "all the same");
    cli_expect_end(&c);
    cli_close(&c);
    web_close(web);
}

static void test_server__chunked_stream__framed(void **state)
{
    struct web *web = web_open(1, plain);
    struct ron_http_chunked d;
    struct cli c;
    size_t at;
    size_t total = 0;
    enum ron_http_step step = RON_HTTP_MORE;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, "GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    while (cli_more(&c)) {
    }
    at = (size_t)(strstr(c.in, "\r\n\r\n") + 4 - c.in);
    ron_http_chunked_init(&d, 1 << 20);
    while (at < c.have && step == RON_HTTP_MORE) {
        size_t used = 0;
        size_t from = 0;
        size_t len = 0;
        step = ron_http_chunked_feed(&d, c.in + at, c.have - at, &used, &from, &len);
        at += used;
        total += len;
    }
    assert_int_equal(step, RON_HTTP_DONE);
    assert_int_equal(at, c.have);
    assert_int_equal(total, 5003);
    cli_close(&c);
    web_close(web);
}

static void on_no_content(struct ron_http_call *call, void *arg)
{
    (void)arg;
    ron_http_begin(call, ron_str_is(ron_http_head(call)->query, "304") ? 304 : 204, NULL);
    ron_http_chunk(call, "abc", 3);
    ron_http_end(call);
}

/* These have no body by definition: a byte behind the head would be taken for the next answer. */
static void test_server__chunked_stream_without_content__nothing_behind_the_head(void **state)
{
    static const struct ron_http_route route[] = {
        {RON_HTTP_GET, "/none", on_no_content, NULL, RON_HTTP_INLINE, 0}};
    struct web *web = web_open(1, (struct ron_http_opts){.routes = route, .route_count = 1});
    struct answer a;
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, GET("/none") GET("/none?304") GET("/hi"));
    for (int i = 0; i < 2; i++) {
        cli_answer(&c, true, &a);
        assert_int_equal(a.status, i == 0 ? 204 : 304);
        assert_null(strstr(a.head, "Transfer-Encoding"));
    }
    cli_expect(&c, 200, "hi");
    cli_close(&c);
    web_close(web);
}

/* A lane may have given it up in the same round in which its socket becomes ready. */
static void test_server__given_up_then_ready__stays_given_up(void **state)
{
    struct http_conn c = {.dead = true};

    (void)state;
    ron__http_ready(&c, RON_IO_READ);
    assert_true(c.dead);
}

static void test_server__chunked_request__body_whole(void **state)
{
    struct web *web = web_open(1, plain);
    struct cli c;
    static char piece[3 + 2 + 0xfff + 2];

    (void)state;
    cli_open(&c, web);
    /* Pipelined behind another, so that the head has to move to the front first. */
    cli_say(&c, GET("/hi") "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    cli_say(&c, "3\r\nabc\r\n");
    cli_say(&c, "4;x=y\r\ndefg\r\n0\r\nT: 1\r\n\r\n" GET("/n/5"));
    cli_expect(&c, 200, "hi");
    cli_expect(&c, 200, "abcdefg");
    cli_expect(&c, 200, "n=5");
    cli_say(&c, "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    memset(piece, 'q', sizeof piece);
    memcpy(piece, "fff\r\n", 5);
    memcpy(piece + sizeof piece - 2, "\r\n", 2);
    for (int i = 0; i < 10; i++) {
        cli_send(&c, piece, sizeof piece);
    }
    cli_say(&c, "0\r\n\r\n");
    static struct answer a;
    cli_answer(&c, false, &a);
    assert_int_equal(a.body_len, 10 * 0xfff);
    cli_close(&c);
    web_close(web);
    web = web_open(1, plain);
    cli_open(&c, web);
    cli_say(&c, "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX");
    cli_expect(&c, 400, "chunk_data");
    cli_expect_end(&c);
    cli_close(&c);
    web_close(web);
}

static void test_server__large_body_and_answer__whole(void **state)
{
    enum { LEN = 60000 };
    static char body[LEN];
    static struct answer a;
    struct web *web = web_open(1, plain);
    struct cli c;
    size_t total = 0;

    (void)state;
    memset(body, 'b', sizeof body);
    cli_open(&c, web);
    cli_say(&c, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n");
    cli_send(&c, body, sizeof body);
    cli_say(&c, GET("/hi"));
    cli_answer(&c, false, &a);
    assert_int_equal(a.body_len, LEN);
    assert_memory_equal(a.body, body, LEN);
    cli_expect(&c, 200, "hi");
    /* Larger than any socket buffer: it waits in the connection while we do not read. */
    cli_say(&c, GET("/big") GET("/n/9"));
    fx_until(web_counters(web).requests >= 3);
    while (strstr(c.in, "\r\n\r\n") == NULL) {
        assert_true(cli_more(&c));
    }
    total = c.have - (size_t)(strstr(c.in, "\r\n\r\n") + 4 - c.in);
    while (total < WEB_BIG) {
        c.have = 0;
        assert_true(cli_more(&c));
        total += c.have;
    }
    /* What came beyond the body belongs to the next answer. */
    memmove(c.in, c.in + c.have - (total - WEB_BIG), total - WEB_BIG);
    c.have = total - WEB_BIG;
    c.in[c.have] = '\0';
    cli_expect(&c, 200, "n=9");
    cli_close(&c);
    web_close(web);
}

static void test_server__expect_continue__asked_before_the_body(void **state)
{
    static struct answer a;
    struct web *web = web_open(1, (struct ron_http_opts){.body_max = 100});
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                "Content-Length: 5\r\n\r\n");
    cli_answer(&c, true, &a);
    assert_int_equal(a.status, 100);
    cli_say(&c, "hello");
    cli_expect(&c, 200, "hello");
    cli_say(&c, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                "Content-Length: 101\r\n\r\n");
    cli_expect(&c, 413, "BODY_LIMIT");
    cli_expect_end(&c);
    cli_close(&c);
    web_close(web);
}

static void test_server__handler_mistakes__500_and_nothing_split(void **state)
{
    static struct answer a;
    struct web *web = web_open(1, plain);
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, GET("/bad-header"));
    cli_answer(&c, false, &a);
    assert_int_equal(a.status, 500);
    assert_null(strstr(a.head, "Set-Cookie"));
    cli_say(&c, GET("/nothing"));
    cli_expect(&c, 500, "INTERNAL");
    cli_say(&c, POST("/defer", "1", "x"));
    struct ron_http_reply *r = web_reply(web, 0);
    assert_int_equal(ron_http_reply_add_header(r, "A b", (struct ron_str){"c", 1}), RON_INVALID);
    web_send_reply(r, "unsaid");
    cli_expect(&c, 500, "INTERNAL");
    cli_say(&c, GET("/hi"));
    cli_expect(&c, 200, "hi");
    assert_int_equal(web_counters(web).rejected[RON_HTTP_INTERNAL], 3);
    cli_close(&c);
    web_close(web);
}

static void test_server__client_gone__cancels_and_drops_the_answer(void **state)
{
    struct web *web = web_open(2, plain);
    struct cli c;

    (void)state;
    for (size_t i = 0; i < 20; i++) {
        struct linger hard = {.l_onoff = 1, .l_linger = 0};

        cli_open(&c, web);
        cli_say(&c, POST("/defer", "3", "abc"));
        struct ron_http_reply *r = web_reply(web, i);
        if (i % 2 == 0) { /* reset instead of FIN */
            assert_int_equal(setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard), 0);
        }
        cli_close(&c);
        fx_until(ron_http_reply_cancelled(r));
        assert_memory_equal(web->bodies[i].ptr, "abc", 3); /* lives as long as the reply */
        web_send_reply(r, "to nobody");
    }
    fx_until(web_counters(web).inflight == 0);
    fx_until(web_counters(web).connections == 0);
    web_close(web);
}

static void test_server__replies_from_many_threads__each_to_its_own(void **state)
{
    enum { COUNT = 64 };
    static struct cli c[COUNT];
    struct web *web = web_open(2, plain);
    char text[80];

    (void)state;
    for (int round = 0; round < 3; round++) {
        ron_mutex_lock(&web->deferred.mu);
        web->held_count = 0;
        web->deferred.count = 0;
        ron_mutex_unlock(&web->deferred.mu);
        for (int i = 0; i < COUNT; i++) {
            if (round == 0) {
                cli_open(&c[i], web);
            }
            (void)snprintf(text, sizeof text,
                           "POST /defer HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n%04d", i);
            cli_say(&c[i], text);
        }
        assert_true(fx_gate_reached(&web->deferred, COUNT));
        for (size_t i = COUNT; i-- > 0;) {
            (void)ron_buf_append(ron_http_reply_body(web->held[i]), web->bodies[i].ptr, 4);
            ron_http_reply_send(web->held[i], 200, "text/plain");
        }
        for (int i = 0; i < COUNT; i++) {
            (void)snprintf(text, sizeof text, "%04d", i);
            cli_expect(&c[i], 200, text);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        cli_close(&c[i]);
    }
    web_close(web);
}

static void test_server__smuggling_shapes__refused_and_closed(void **state)
{
    static const struct {
        const char *text;
        const char *reason;
    } shapes[] = {
        {"GET / HTTP/1.1\nHost: a\n\n", "bare_lf"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nX:\rxContent-Length: 5\r\n\r\nhello", "bare_cr"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
         "0\r\n\r\nGET /hi HTTP/1.1\r\nHost: a\r\n\r\n",
         "length_coding"},
        {"GET /hi HTTP/1.1\r\nHost : a\r\n\r\n", "header_space"},
        {"GET /hi HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", "folded"},
        {"GET /hi HTTP/1.1\r\n\r\n", "host_missing"},
        {"GET /hi HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "host_twice"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello", "length_bad"},
    };
    struct web *web = web_open(1, plain);
    struct cli c;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(shapes); i++) {
        cli_open(&c, web);
        cli_say(&c, shapes[i].text);
        cli_expect(&c, 400, shapes[i].reason);
        cli_expect_end(&c);
        cli_close(&c);
    }
    web_close(web);
}

/* An answer for which there was no memory is no defect, and it may be there the next time. */
static void test_server__no_memory_for_an_answer__503_and_the_connection_goes_on(void **state)
{
    struct web *web = web_open(1, plain);
    struct ron_http_reply *r;
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, POST("/defer", "1", "x"));
    r = web_reply(web, 0);
    ron_http_reply_body(r)->rc = RON_NOMEM;
    ron_http_reply_send(r, 200, "text/plain");
    cli_expect(&c, 503, "\"retryable\":true");
    cli_say(&c, GET("/hi"));
    cli_expect(&c, 200, "hi");
    assert_int_equal(web_counters(web).rejected[RON_HTTP_MEMORY], 1);
    assert_int_equal(web_counters(web).rejected[RON_HTTP_INTERNAL], 0);
    cli_close(&c);
    web_close(web);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_server__keep_alive__many_on_one_connection),
        cmocka_unit_test(test_server__bytes_one_by_one__same_answer),
        cmocka_unit_test(test_server__pipelined__answered_in_order),
        cmocka_unit_test(test_server__deferred_between_inline__order_kept),
        cmocka_unit_test(test_server__head_and_options__no_body),
        cmocka_unit_test(test_server__answer__carries_the_fixed_headers),
        cmocka_unit_test(test_server__http10_and_close__connection_closed),
        cmocka_unit_test(test_server__half_closed_client__still_answered),
        cmocka_unit_test(test_server__chunked_stream__framed),
        cmocka_unit_test(test_server__chunked_stream_without_content__nothing_behind_the_head),
        cmocka_unit_test(test_server__given_up_then_ready__stays_given_up),
        cmocka_unit_test(test_server__chunked_request__body_whole),
        cmocka_unit_test(test_server__large_body_and_answer__whole),
        cmocka_unit_test(test_server__expect_continue__asked_before_the_body),
        cmocka_unit_test(test_server__handler_mistakes__500_and_nothing_split),
        cmocka_unit_test(test_server__no_memory_for_an_answer__503_and_the_connection_goes_on),
        cmocka_unit_test(test_server__client_gone__cancels_and_drops_the_answer),
        cmocka_unit_test(test_server__replies_from_many_threads__each_to_its_own),
        cmocka_unit_test(test_server__smuggling_shapes__refused_and_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
