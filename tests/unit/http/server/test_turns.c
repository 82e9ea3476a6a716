/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a connection that never pauses, whatever it does, leaves the worker to the others.
 *
 * Method: a network of the test's own in which marked connections always have more to read and take
 * everything at once; a second client on the same, only, worker must still be answered. A worker
 * that stays with the first would never come to it.
 * And replies, which are delivered in portions: none is forgotten behind a full one. */
#include "unit/http/fixture.h"

#include "ron/http/stream.h"

#define STR(literal) ((struct ron_str){(literal), sizeof(literal) - 1})
#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static struct ron_net_ops net;
static struct ron_au32 flood_fd; /* plus one; 0: none */
static struct ron_au32 flood_over;
static struct ron_str flood_text; /* what the marked connection sends, again and again */
static size_t flood_at;           /* the worker's */
static struct ron_au32 talked;    /* pieces that a writer of a stream has put */
static uint32_t flood_pieces;     /* of them, sent; the worker's */
static bool flood_paced;          /* a piece is sent when the next one is there */

static bool is_flood(int fd)
{
    return ron_au32_load(&flood_fd) == (uint32_t)fd + 1;
}

static enum ron_rc flood_read(const struct ron_env *env, int fd, void *buf, size_t len,
                              size_t *ret_len)
{
    enum ron_rc rc;

    if (is_flood(fd)) {
        if (ron_au32_load(&flood_over) != 0) {
            return RON_CLOSED;
        }
        for (size_t i = 0; i < len; i++) {
            ((char *)buf)[i] = flood_text.ptr[flood_at++ % flood_text.len];
        }
        *ret_len = len;
        return RON_OK;
    }
    rc = ron_env_linux()->net->read(env, fd, buf, len, ret_len);
    if (rc == RON_OK && memmem(buf, *ret_len, "X-Flood", 7) != NULL) {
        ron_au32_store(&flood_fd, (uint32_t)fd + 1);
    }
    return rc;
}

static enum ron_rc flood_writev(const struct ron_env *env, int fd, const struct iovec *iov,
                                int count, size_t *ret_len)
{
    if (!is_flood(fd)) {
        return ron_env_linux()->net->writev(env, fd, iov, count, ret_len);
    }
    *ret_len = 0;
    for (int i = 0; i < count; i++) {
        *ret_len += iov[i].iov_len;
    }
    flood_pieces += *ret_len >= RON_HTTP_PIECE_BYTES;
    while (flood_paced && flood_pieces > 0 && ron_au32_load(&talked) <= flood_pieces &&
           ron_au32_load(&flood_over) == 0) {
        (void)sched_yield();
    }
    return ron_au32_load(&flood_over) != 0 ? RON_CLOSED : RON_OK;
}

static enum ron_rc flood_write(const struct ron_env *env, int fd, const void *buf, size_t len,
                               size_t *ret_len)
{
    struct iovec iov = {(void *)(uintptr_t)buf, len};

    return is_flood(fd) ? flood_writev(env, fd, &iov, 1, ret_len)
                        : ron_env_linux()->net->write(env, fd, buf, len, ret_len);
}

static struct web *open_flood(struct ron_str text, const struct ron_http_route *routes,
                              size_t count)
{
    net = *ron_env_linux()->net;
    net.read = flood_read;
    net.write = flood_write;
    net.writev = flood_writev;
    ron_au32_store(&flood_fd, 0);
    ron_au32_store(&flood_over, 0);
    flood_text = text;
    flood_at = 0;
    flood_pieces = 0;
    flood_paced = false;
    ron_au32_store(&talked, 0);
    web_net = &net;
    return web_open(1, (struct ron_http_opts){.routes = routes,
                                              .route_count = count,
                                              .body_memory_max = UINT64_C(1) << 40,
                                              .request_timeout_ms = 60000});
}

/* Another client is served while the flood goes on; then it ends. */
static void expect_served(struct web *web, struct cli *flood)
{
    struct timeval limit = {.tv_sec = 10};
    struct cli c;

    fx_until(ron_au32_load(&flood_fd) != 0);
    cli_say(flood, "?"); /* the poller's word that there is something to read */
    cli_open(&c, web);
    (void)setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    cli_say(&c, GET("/hi"));
    if (recv(c.fd, c.in, sizeof c.in, 0) <= 0) {
        ron_au32_store(&flood_over, 1);
        fail_msg("the worker stays with one connection");
    }
    cli_close(&c);
    ron_au32_store(&flood_over, 1);
    cli_close(flood);
    fx_until(web_counters(web).connections == 0);
}

static void test_turns__requests_without_pause__others_are_served(void **state)
{
    struct web *web = open_flood(STR(GET("/hi")), NULL, 0);
    struct cli flood;

    (void)state;
    cli_open(&flood, web);
    cli_say(&flood, "GET /hi HTTP/1.1\r\nHost: a\r\nX-Flood: 1\r\n\r\n");
    expect_served(web, &flood);
    web_close(web);
}

static const struct ron_http_route large_routes[] = {
    {RON_HTTP_POST, "/large", web_echo, NULL, RON_HTTP_INLINE, UINT64_C(1) << 40},
    {RON_HTTP_POST, "/up", web_defer, NULL, RON_HTTP_STREAM, UINT64_C(1) << 40},
    {RON_HTTP_GET, "/down", web_defer, NULL, 0, 0},
};

static void test_turns__body_without_pause__others_are_served(void **state)
{
    struct web *web = open_flood(STR("1\r\nx\r\n"), large_routes, RON_ARRAY_LEN(large_routes));
    struct cli flood;

    (void)state;
    cli_open(&flood, web);
    cli_say(&flood, "POST /large HTTP/1.1\r\nHost: a\r\nX-Flood: 1\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n");
    expect_served(web, &flood);
    web_close(web);
}

/* Writes as fast as the worker takes it. */
static void talk(void *arg)
{
    static const char piece[RON_HTTP_PIECE_BYTES];
    struct ron_http_reply *r = arg;

    while (ron_http_reply_write_wait(r, piece, sizeof piece, fx_deadline()) == RON_OK) {
        (void)ron_au32_add(&talked, 1);
    }
    ron_http_reply_abort(r);
}

static void test_turns__stream_without_pause__others_are_served(void **state)
{
    struct web *web = open_flood(STR("?"), large_routes, RON_ARRAY_LEN(large_routes));
    struct ron_http_reply *r;
    struct ron_thread *thread = NULL;
    struct cli flood;

    (void)state;
    flood_paced = true;
    cli_open(&flood, web);
    cli_say(&flood, "GET /down HTTP/1.1\r\nHost: a\r\nX-Flood: 1\r\n\r\n");
    r = web_reply(web, 0);
    assert_int_equal(
        ron_http_reply_begin(
            r, &(struct ron_http_stream_opts){.status = 200, .length = RON_HTTP_UNKNOWN}),
        RON_OK);
    assert_int_equal(
        ron_thread_start(
            &(struct ron_thread_opts){.name = "talker", .may_block = true, .main = talk, .arg = r},
            &thread, NULL),
        RON_OK);
    expect_served(web, &flood);
    ron_thread_join(thread);
    web_close(web);
}

/* Empty gzip members: input without end, and never a byte for the reader. */
static void test_turns__upload_that_brings_nothing__others_are_served(void **state)
{
    static const char nothing[] = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"
                                  "\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    struct web *web = open_flood(STR(nothing), large_routes, RON_ARRAY_LEN(large_routes));
    struct cli flood;

    (void)state;
    cli_open(&flood, web);
    cli_say(&flood, "POST /up HTTP/1.1\r\nHost: a\r\nX-Flood: 1\r\n"
                    "Content-Encoding: gzip\r\nContent-Length: 1000000000000\r\n\r\n");
    expect_served(web, &flood);
    ron_http_reply_fail(web_reply(web, 0), RON_HTTP_INTERNAL);
    web_close(web);
}

/* ---- replies in portions --------------------------------------------------------------------- */

enum { PORTION = 16, MANY = 2 * PORTION }; /* of server.c: two full turns and no more */

static struct ron_au32 held;      /* the worker is in /hold */
static struct ron_au32 let_go;    /* and may leave it */
static struct ron_au32 in_turn;   /* the worker is in the first turn */
static struct ron_au32 last_sent; /* and may go on */

static void on_hold(struct ron_http_call *call, void *arg)
{
    (void)arg;
    ron_au32_store(&held, 1);
    while (ron_au32_load(&let_go) == 0) {
        (void)sched_yield();
    }
    ron_http_answer(call, 200, "text/plain", "held", 4);
}

/* Stays in the write of one of the first portion until the last reply has been sent. */
static enum ron_rc stop_writev(const struct ron_env *env, int fd, const struct iovec *iov,
                               int count, size_t *ret_len)
{
    if (count > 0 && memmem(iov[0].iov_base, iov[0].iov_len, "Content-Length: 5\r\n", 19) != NULL) {
        ron_au32_store(&in_turn, 1);
        while (ron_au32_load(&last_sent) == 0) {
            (void)sched_yield();
        }
    }
    return ron_env_linux()->net->writev(env, fd, iov, count, ret_len);
}

static enum ron_rc stop_write(const struct ron_env *env, int fd, const void *buf, size_t len,
                              size_t *ret_len)
{
    struct iovec iov = {(void *)(uintptr_t)buf, len};

    return stop_writev(env, fd, &iov, 1, ret_len);
}

/* Two portions lie ready, and one more reply comes during the first: the wake-up for it is the one
 * that begins the second turn, which is full without it. */
static void test_turns__a_reply_behind_full_portions__is_delivered(void **state)
{
    static const struct ron_http_route hold = {RON_HTTP_GET, "/hold",         on_hold,
                                               NULL,         RON_HTTP_INLINE, 0};
    struct cli *clients = calloc(MANY + 2, sizeof *clients);
    struct web *web;

    (void)state;
    assert_non_null(clients);
    net = *ron_env_linux()->net;
    net.write = stop_write;
    net.writev = stop_writev;
    web_net = &net;
    web = web_open(
        1, (struct ron_http_opts){.routes = &hold, .route_count = 1, .request_timeout_ms = 60000});
    for (size_t i = 0; i < MANY + 1; i++) {
        cli_open(&clients[i], web);
        cli_say(&clients[i], "POST /defer HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        (void)web_reply(web, i);
    }
    cli_open(&clients[MANY + 1], web);
    cli_say(&clients[MANY + 1], GET("/hold"));
    fx_until(ron_au32_load(&held) != 0);
    for (size_t i = 0; i < MANY; i++) {
        web_send_reply(web_reply(web, i), "first"); /* 5 bytes, which the hook looks for */
    }
    ron_au32_store(&let_go, 1);
    fx_until(ron_au32_load(&in_turn) != 0);
    web_send_reply(web_reply(web, MANY), "the last");
    ron_au32_store(&last_sent, 1);
    for (size_t i = 0; i < MANY + 2; i++) {
        cli_expect(&clients[i], 200, i < MANY ? "first" : i == MANY ? "the last" : "held");
        cli_close(&clients[i]);
    }
    free(clients);
    fx_until(web_counters(web).connections == 0);
    web_close(web);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns__requests_without_pause__others_are_served),
        cmocka_unit_test(test_turns__body_without_pause__others_are_served),
        cmocka_unit_test(test_turns__stream_without_pause__others_are_served),
        cmocka_unit_test(test_turns__upload_that_brings_nothing__others_are_served),
        cmocka_unit_test(test_turns__a_reply_behind_full_portions__is_delivered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
