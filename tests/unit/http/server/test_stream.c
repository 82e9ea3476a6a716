/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: an answer that passes in pieces arrives whole and in order from any thread, holds no more
 * than its two pieces, tells its writer of room and of a client that went, and ends as the head
 * said; a lent body is sent without a copy and released exactly once.
 * Method: real sockets; the test thread, or a thread that may wait, writes; every byte is compared
 * with a pattern. */
#include "unit/http/fixture.h"

#include <fcntl.h>

#include "ron/http/stream.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

enum { BIG = 3 << 20 };

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16));
}

static char *big;
static int big_fd;

static int make_big(void **state)
{
    FILE *f = tmpfile();

    (void)state;
    big = malloc(BIG);
    assert_non_null(big);
    assert_non_null(f);
    for (size_t i = 0; i < BIG; i++) {
        big[i] = (char)pattern(i);
    }
    assert_int_equal(fwrite(big, 1, BIG, f), BIG);
    assert_int_equal(fflush(f), 0);
    big_fd = fcntl(fileno(f), F_DUPFD_CLOEXEC, 3);
    assert_true(big_fd >= 0);
    assert_int_equal(fclose(f), 0);
    return 0;
}

static int free_big(void **state)
{
    (void)state;
    free(big);
    (void)close(big_fd);
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The head of an answer, taken from what was read. */
static void take_head(struct cli *c, char *head, size_t size)
{
    const char *end = NULL;
    size_t len;

    while ((end = strstr(c->in, "\r\n\r\n")) == NULL) {
        if (!cli_more(c)) {
            fail_msg("closed before a head: '%s'", c->in);
        }
    }
    len = (size_t)(end - c->in) + 4;
    assert_true(len < size);
    memcpy(head, c->in, len);
    head[len] = '\0';
    c->have -= len;
    memmove(c->in, c->in + len, c->have + 1);
}

static size_t taken_of_in; /* bytes at the front of c->in that were taken, inside a helper below */

static char next_byte(struct cli *c)
{
    if (taken_of_in == c->have) {
        taken_of_in = 0;
        c->have = 0;
        assert_true(cli_more(c));
    }
    return c->in[taken_of_in++];
}

/* Leaves what was not taken at the front. */
static void end_taking(struct cli *c)
{
    c->have -= taken_of_in;
    memmove(c->in, c->in + taken_of_in, c->have);
    c->in[c->have] = '\0';
    taken_of_in = 0;
}

static void take_text(struct cli *c, const char *text)
{
    for (; *text != '\0'; text++) {
        assert_int_equal(next_byte(c), *text);
    }
    end_taking(c);
}

/* The next bytes are those of the pattern from `from` on. */
static void expect_pattern(struct cli *c, size_t from, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        uint8_t got = (uint8_t)next_byte(c);

        if (got != pattern(from + i)) {
            fail_msg("byte %zu is %02x", from + i, got);
        }
    }
    end_taking(c);
}

/* The size line of the next chunk. */
static size_t chunk_size(struct cli *c)
{
    size_t n = 0;
    char b;

    while ((b = next_byte(c)) != '\r') {
        assert_non_null(strchr("0123456789abcdef", b));
        n = n * 16 + (size_t)(strchr("0123456789abcdef", b) - "0123456789abcdef");
    }
    assert_int_equal(next_byte(c), '\n');
    end_taking(c);
    return n;
}

/* A chunked body of so many bytes of the pattern, to its end. */
static void expect_chunked(struct cli *c, size_t total)
{
    size_t at = 0;
    size_t n;

    while ((n = chunk_size(c)) > 0) {
        assert_true(n <= RON_HTTP_PIECE_BYTES);
        expect_pattern(c, at, n);
        take_text(c, "\r\n");
        at += n;
    }
    take_text(c, "\r\n");
    assert_int_equal(at, total);
}

/* The peer has ended or broken the connection. */
static void expect_cut(struct cli *c)
{
    ssize_t n;

    while ((n = recv(c->fd, c->in, sizeof c->in, 0)) > 0) {
    }
    c->have = 0;
    assert_true(n == 0 || errno == ECONNRESET);
}

/* ---- writing --------------------------------------------------------------------------------- */

static struct fx_gate woken;

static void on_wake(struct ron_waker *w)
{
    (void)w;
    fx_gate_add(&woken, 1);
}

static struct ron_waker waker = {on_wake};

static const struct ron_http_route get_defer = {RON_HTTP_GET, "/get", web_defer, NULL, 0, 0};

static struct web *open_web(struct ron_http_opts o)
{
    o.routes = &get_defer;
    o.route_count = 1;
    fx_gate_init(&woken);
    return web_open(1, o);
}

static void close_web(struct web *web)
{
    web_close(web);
    fx_gate_done(&woken);
}

static struct ron_http_stream_opts text(uint64_t length)
{
    return (struct ron_http_stream_opts){
        .status = 200, .content_type = "text/plain", .length = length, .waker = &waker};
}

static void test_stream__small_pieces__chunked_and_the_connection_stays(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    struct ron_http_stream_opts o = text(RON_HTTP_UNKNOWN);
    struct ron_http_reply *r;
    char head[1024];
    struct cli c;

    (void)state;
    cli_open(&c, web);
    for (size_t round = 0; round < 3; round++) {
        cli_say(&c, GET("/get"));
        r = web_reply(web, round);
        assert_int_equal(ron_http_reply_begin(r, &o), RON_OK);
        assert_int_equal(ron_http_reply_write(r, big, 5), RON_OK);
        take_head(&c, head, sizeof head);
        assert_non_null(strstr(head, "200 OK"));
        assert_non_null(strstr(head, "Transfer-Encoding: chunked\r\n"));
        /* What was written comes although the stream is open. */
        assert_int_equal(chunk_size(&c), 5);
        expect_pattern(&c, 0, 5);
        assert_int_equal(ron_http_reply_write(r, big, 0), RON_OK);
        assert_int_equal(ron_http_reply_write(r, big, 700), RON_OK);
        take_text(&c, "\r\n");
        assert_int_equal(web_counters(web).streams, 1);
        assert_int_equal(web_counters(web).inflight, 0);
        ron_http_reply_end(r);
        expect_chunked(&c, 700);
    }
    cli_say(&c, GET("/hi"));
    cli_expect(&c, 200, "hi");
    assert_int_equal(web_counters(web).streams, 0);
    cli_close(&c);
    close_web(web);
}

struct job {
    struct ron_http_reply *r;
    size_t step;
    enum ron_rc rc;
};

static void write_all(void *arg)
{
    struct job *job = arg;

    for (size_t at = 0; at < BIG && job->rc == RON_OK; at += job->step) {
        job->rc = ron_http_reply_write_wait(job->r, big + at, RON_MIN(job->step, BIG - at),
                                            fx_deadline());
    }
    ron_http_reply_end(job->r);
}

static void test_stream__large__arrives_whole_from_a_thread_that_waits(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    /* 246 with the head of its chunk is 256 bytes, the memory that a buffer begins with. */
    static const size_t steps[] = {RON_HTTP_PIECE_BYTES, 10000, 777, 246};
    char head[1024];
    struct cli c;

    (void)state;
    cli_open(&c, web);
    for (size_t i = 0; i < 2 * RON_ARRAY_LEN(steps); i++) {
        struct job job = {.step = steps[i / 2]};
        struct ron_http_stream_opts o = text(i % 2 == 0 ? RON_HTTP_UNKNOWN : BIG);
        struct ron_thread *thread = NULL;

        cli_say(&c, GET("/get"));
        job.r = web_reply(web, i);
        assert_int_equal(ron_http_reply_begin(job.r, &o), RON_OK);
        assert_int_equal(ron_thread_start(&(struct ron_thread_opts){.name = "writer",
                                                                    .may_block = true,
                                                                    .main = write_all,
                                                                    .arg = &job},
                                          &thread, NULL),
                         RON_OK);
        take_head(&c, head, sizeof head);
        if (i % 2 == 0) {
            expect_chunked(&c, BIG);
        } else {
            assert_non_null(strstr(head, "Content-Length: 3145728\r\n"));
            expect_pattern(&c, 0, BIG);
        }
        ron_thread_join(thread);
        assert_int_equal(job.rc, RON_OK);
    }
    cli_close(&c);
    close_web(web);
}

/* Whether the worker still takes pieces: it has none to send, or its socket took some. */
static bool is_writable_soon(struct web *web, uint64_t *seen)
{
    uint64_t sent = web_counters(web).bytes_out;

    for (int i = 0; i < 1000; i++) {
        (void)sched_yield();
        if (fx_gate_count(&woken) > *seen || web_counters(web).bytes_out > sent) {
            *seen = fx_gate_count(&woken);
            return true;
        }
    }
    return false;
}

static void test_stream__reader_stops__two_pieces_held_and_the_writer_woken(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    struct ron_http_stream_opts o = text(RON_HTTP_UNKNOWN);
    struct ron_http_reply *r;
    enum ron_rc rc = RON_OK;
    uint64_t seen = 0;
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, GET("/get"));
    r = web_reply(web, 0);
    assert_int_equal(ron_http_reply_begin(r, &o), RON_OK);
    /* The socket takes megabytes; so write until nobody takes any more. */
    while (rc == RON_OK) {
        rc = ron_http_reply_write(r, big, 65536);
        while (rc == RON_AGAIN && fx_gate_count(&woken) > seen) {
            seen = fx_gate_count(&woken);
            rc = ron_http_reply_write(r, big, 65536);
        }
        assert_true(ron_au64_load(&web->server->answer_memory.used) <= 4 * RON_HTTP_PIECE_BYTES);
        if (rc == RON_AGAIN && !is_writable_soon(web, &seen)) {
            break;
        }
        rc = RON_OK;
    }
    seen = fx_gate_count(&woken);
    assert_int_equal(ron_http_reply_write(r, big, 65536), RON_AGAIN);
    while (fx_gate_count(&woken) == seen) { /* Reading makes room. */
        c.have = 0;
        assert_true(cli_more(&c));
    }
    assert_int_equal(ron_http_reply_write(r, big, 65536), RON_OK);
    ron_http_reply_abort(r);
    expect_cut(&c);
    fx_until(web_counters(web).streams == 0);
    assert_int_equal(ron_au64_load(&web->server->answer_memory.used), 0);
    cli_close(&c);
    close_web(web);
}

static void test_stream__client_goes__writer_told_and_cancelled(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    struct ron_http_stream_opts o = text(RON_HTTP_UNKNOWN);
    struct ron_http_reply *r;
    char head[1024];
    struct cli c;

    (void)state;
    o.quiet = true;
    cli_open(&c, web);
    cli_say(&c, GET("/get"));
    r = web_reply(web, 0);
    assert_int_equal(ron_http_reply_begin(r, &o), RON_OK);
    take_head(&c, head, sizeof head);
    assert_false(ron_http_reply_cancelled(r));
    cli_close(&c);
    assert_true(fx_gate_reached(&woken, 1));
    assert_true(ron_http_reply_cancelled(r));
    fx_until(ron_http_reply_write(r, "x", 1) == RON_CANCELLED);
    fx_until(web_counters(web).connections == 0);
    assert_int_equal(web_counters(web).streams, 1);
    ron_http_reply_end(r);
    fx_until(web_counters(web).streams == 0);
    close_web(web);
}

static void test_stream__head_asked__no_body_and_the_connection_stays(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    struct ron_http_stream_opts o = text(100);
    struct ron_http_reply *r;
    char head[1024];
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, "HEAD /get HTTP/1.1\r\nHost: a\r\n\r\n" GET("/hi"));
    r = web_reply(web, 0);
    assert_int_equal(ron_http_reply_begin(r, &o), RON_OK);
    take_head(&c, head, sizeof head);
    assert_non_null(strstr(head, "Content-Length: 100\r\n"));
    assert_int_equal(ron_http_reply_write(r, big, 100), RON_CANCELLED);
    ron_http_reply_end(r);
    cli_expect(&c, 200, "hi");
    cli_close(&c);
    close_web(web);
}

static void test_stream__length__neither_more_nor_less(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    struct ron_http_stream_opts o = text(10);
    struct ron_http_reply *r;
    char head[1024];
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, GET("/get"));
    r = web_reply(web, 0);
    assert_int_equal(ron_http_reply_begin(r, &o), RON_OK);
    assert_int_equal(ron_http_reply_write(r, big, 11), RON_LIMIT);
    assert_int_equal(ron_http_reply_write(r, big, 10), RON_OK);
    assert_int_equal(ron_http_reply_write(r, big, 1), RON_LIMIT);
    ron_http_reply_end(r);
    take_head(&c, head, sizeof head);
    expect_pattern(&c, 0, 10);
    cli_say(&c, GET("/get"));
    r = web_reply(web, 1);
    assert_int_equal(ron_http_reply_begin(r, &o), RON_OK);
    assert_int_equal(ron_http_reply_write(r, big, 4), RON_OK);
    ron_http_reply_end(r); /* six are missing: the client must see it */
    take_head(&c, head, sizeof head);
    expect_pattern(&c, 0, 4);
    expect_cut(&c);
    cli_close(&c);
    close_web(web);
}

static void test_stream__http_1_0__ended_by_the_close(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    struct ron_http_stream_opts o = text(RON_HTTP_UNKNOWN);
    struct ron_http_reply *r;
    char head[1024];
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, "GET /get HTTP/1.0\r\n\r\n");
    r = web_reply(web, 0);
    assert_int_equal(ron_http_reply_begin(r, &o), RON_OK);
    assert_int_equal(ron_http_reply_write(r, big, 1000), RON_OK);
    ron_http_reply_end(r);
    take_head(&c, head, sizeof head);
    assert_null(strstr(head, "chunked"));
    assert_non_null(strstr(head, "Connection: close\r\n"));
    expect_pattern(&c, 0, 1000);
    cli_expect_end(&c);
    cli_close(&c);
    close_web(web);
}

static void test_stream__quiet__outlives_one_that_must_speak(void **state)
{
    struct web *web = open_web((struct ron_http_opts){.request_timeout_ms = 60});
    struct ron_http_stream_opts o = text(RON_HTTP_UNKNOWN);
    struct ron_http_reply *r[2];
    char head[1024];
    struct cli c[2];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        o.quiet = i == 0;
        cli_open(&c[i], web);
        cli_say(&c[i], GET("/get"));
        r[i] = web_reply(web, i);
        assert_int_equal(ron_http_reply_begin(r[i], &o), RON_OK);
        take_head(&c[i], head, sizeof head);
    }
    expect_cut(&c[1]);
    assert_true(ron_http_reply_cancelled(r[1]));
    ron_http_reply_end(r[1]);
    assert_int_equal(ron_http_reply_write(r[0], big, 20), RON_OK);
    ron_http_reply_end(r[0]);
    expect_chunked(&c[0], 20);
    cli_close(&c[0]);
    cli_close(&c[1]);
    close_web(web);
}

static void test_stream__drain__quiet_ones_are_asked_to_end(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    struct ron_http_stream_opts o = text(RON_HTTP_UNKNOWN);
    struct ron_http_reply *r;
    char head[1024];
    struct cli c;

    (void)state;
    o.quiet = true;
    ron_au32_store(&web->stage.hold, 1);
    cli_open(&c, web);
    cli_say(&c, GET("/get"));
    r = web_reply(web, 0);
    assert_int_equal(ron_http_reply_begin(r, &o), RON_OK);
    take_head(&c, head, sizeof head);
    ron_sup_request_stop(web->fx->sup);
    assert_true(fx_gate_reached(&woken, 1));
    assert_true(ron_http_reply_cancelled(r));
    assert_int_equal(ron_http_reply_write(r, big, 3), RON_OK); /* a last word is still possible */
    ron_http_reply_end(r);
    expect_chunked(&c, 3);
    fx_gate_add(&web->stage.release, 1);
    cli_close(&c);
    close_web(web);
}

static void test_stream__too_many__the_reply_can_still_answer(void **state)
{
    struct web *web = open_web((struct ron_http_opts){.streams_max = 1});
    struct ron_http_stream_opts o = text(RON_HTTP_UNKNOWN);
    struct cli c[2];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        cli_open(&c[i], web);
        cli_say(&c[i], GET("/get"));
    }
    assert_int_equal(ron_http_reply_begin(web_reply(web, 0), &o), RON_OK);
    assert_int_equal(ron_http_reply_begin(web_reply(web, 1), &o), RON_FULL);
    ron_http_reply_fail(web_reply(web, 1), RON_HTTP_BUSY);
    ron_http_reply_end(web_reply(web, 0));
    fx_until(web_counters(web).streams == 0 && web_counters(web).inflight == 0);
    assert_int_equal(web_counters(web).statuses[4], 1);
    cli_close(&c[0]);
    cli_close(&c[1]);
    close_web(web);
}

static void test_stream__bad_header__500_and_the_writer_cancelled(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    struct ron_http_stream_opts o = text(RON_HTTP_UNKNOWN);
    struct ron_http_reply *r;
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, GET("/get") GET("/hi"));
    r = web_reply(web, 0);
    assert_int_equal(ron_http_reply_add_header(r, "X", (struct ron_str){"a\nb", 3}), RON_INVALID);
    assert_int_equal(ron_http_reply_begin(r, &o), RON_OK);
    cli_expect(&c, 500, "internal");
    assert_int_equal(ron_http_reply_write(r, big, 1), RON_CANCELLED);
    ron_http_reply_end(r);
    cli_expect(&c, 200, "hi");
    cli_close(&c);
    close_web(web);
}

/* ---- lent bodies ----------------------------------------------------------------------------- */

static struct fx_gate released;

static void on_release(void *arg)
{
    (void)arg;
    fx_gate_add(&released, 1);
}

static const struct ron_http_blob from_memory = {.offset = 0, .length = BIG, .release = on_release};

static void answer_blob(struct ron_http_call *call, bool file)
{
    struct ron_http_blob blob = from_memory;
    struct ron_str query = ron_http_head(call)->query;
    char room[32];
    struct ron_str from = {0};

    blob.bytes = file ? NULL : big;
    blob.fd = big_fd;
    if (ron_http_query_get(query, "from", room, sizeof room, &from) == RON_OK) {
        RON_ASSERT(ron_http_parse_u64(from, &blob.offset) == RON_OK);
        blob.length = BIG - blob.offset;
    }
    ron_http_answer_blob(call, 200, "application/octet-stream", &blob);
}

static void on_memory(struct ron_http_call *call, void *arg)
{
    (void)arg;
    answer_blob(call, false);
}

static void on_file(struct ron_http_call *call, void *arg)
{
    (void)arg;
    answer_blob(call, true);
}

static void on_short_file(struct ron_http_call *call, void *arg)
{
    struct ron_http_blob blob = {.fd = big_fd, .offset = BIG - 10, .length = 20};

    (void)arg;
    blob.release = on_release;
    ron_http_answer_blob(call, 200, "application/octet-stream", &blob);
}

static const struct ron_http_route blob_routes[] = {
    {RON_HTTP_GET, "/memory", on_memory, NULL, RON_HTTP_INLINE, 0},
    {RON_HTTP_GET, "/file", on_file, NULL, RON_HTTP_INLINE, 0},
    {RON_HTTP_GET, "/short", on_short_file, NULL, RON_HTTP_INLINE, 0},
    {RON_HTTP_GET, "/get", web_defer, NULL, 0, 0},
};

static struct web *open_blobs(void)
{
    fx_gate_init(&released);
    fx_gate_init(&woken);
    return web_open(1, (struct ron_http_opts){.routes = blob_routes,
                                              .route_count = RON_ARRAY_LEN(blob_routes)});
}

static void close_blobs(struct web *web)
{
    close_web(web);
    fx_gate_done(&released);
}

static void test_blob__memory_and_file__whole_and_released_once(void **state)
{
    struct web *web = open_blobs();
    static const char *const asks[] = {GET("/memory"), GET("/file"), GET("/memory?from=3145720"),
                                       GET("/file?from=3145720")};
    char head[1024];
    struct cli c;

    (void)state;
    cli_open(&c, web);
    for (size_t i = 0; i < RON_ARRAY_LEN(asks); i++) {
        size_t from = i < 2 ? 0 : 3145720;

        /* A request behind it waits its turn. */
        cli_say(&c, asks[i]);
        cli_say(&c, GET("/hi"));
        take_head(&c, head, sizeof head);
        expect_pattern(&c, from, BIG - from);
        cli_expect(&c, 200, "hi");
        assert_int_equal(fx_gate_count(&released), i + 1);
        assert_int_equal(ron_au64_load(&web->server->answer_memory.used),
                         0); /* nothing was copied */
    }
    cli_say(&c, "HEAD /file HTTP/1.1\r\nHost: a\r\n\r\n" GET("/hi"));
    take_head(&c, head, sizeof head);
    assert_non_null(strstr(head, "Content-Length: 3145728\r\n"));
    cli_expect(&c, 200, "hi");
    assert_int_equal(fx_gate_count(&released), 5);
    cli_close(&c);
    close_blobs(web);
}

static struct ron_au32 heads_held_back;

static enum ron_rc count_write_more(const struct ron_env *env, int fd, const void *buf, size_t len,
                                    size_t *ret_len)
{
    (void)ron_au32_add(&heads_held_back, 1);
    return ron_env_linux()->net->write_more(env, fd, buf, len, ret_len);
}

/* O4; and nothing else is held back, or it would wait for the system's patience. */
static void test_blob__head_of_a_file__leaves_with_its_beginning(void **state)
{
    struct ron_net_ops net = *ron_env_linux()->net;
    struct web *web;
    char head[1024];
    struct cli c;

    (void)state;
    net.write_more = count_write_more;
    web_net = &net;
    web = open_blobs();
    cli_open(&c, web);
    cli_say(&c, GET("/memory") GET("/hi") GET("/file?from=3145720"));
    take_head(&c, head, sizeof head);
    expect_pattern(&c, 0, BIG);
    cli_expect(&c, 200, "hi");
    take_head(&c, head, sizeof head);
    expect_pattern(&c, 3145720, BIG - 3145720);
    assert_int_equal(ron_au32_load(&heads_held_back), 0);
    cli_say(&c, GET("/file"));
    take_head(&c, head, sizeof head);
    expect_pattern(&c, 0, BIG);
    assert_int_equal(ron_au32_load(&heads_held_back), 1);
    cli_close(&c);
    close_blobs(web);
    web_net = NULL;
}

static void test_blob__short_files_to_a_client_that_waits__whole_and_in_order(void **state)
{
    enum { COUNT = 400, SHORT = 32768 }; /* more than the buffers of the sockets take */
    struct web *web = open_blobs();
    char head[1024];
    struct cli c;

    (void)state;
    cli_open(&c, web);
    for (int i = 0; i < COUNT; i++) {
        cli_say(&c, GET("/file?from=3112960"));
    }
    fx_until(fx_gate_count(&released) > 0);
    for (int i = 0; i < COUNT; i++) {
        take_head(&c, head, sizeof head);
        assert_non_null(strstr(head, "Content-Length: 32768\r\n"));
        expect_pattern(&c, BIG - SHORT, SHORT);
    }
    fx_until(fx_gate_count(&released) >= COUNT); /* the last one behind its bytes */
    assert_int_equal(fx_gate_count(&released), COUNT);
    cli_close(&c);
    close_blobs(web);
}

static void test_blob__client_goes_in_the_middle__released(void **state)
{
    struct web *web = open_blobs();
    struct ron_http_reply *r;
    struct ron_http_blob blob = from_memory;
    char head[1024];
    struct cli c;

    (void)state;
    blob.bytes = big;
    for (int i = 0; i < 3; i++) {
        cli_open(&c, web);
        cli_say(&c, i == 0 ? GET("/memory") : i == 1 ? GET("/file") : GET("/get"));
        if (i == 2) {
            ron_http_reply_send_blob(web_reply(web, 0), 200, "text/plain", &blob);
        }
        take_head(&c, head, sizeof head);
        cli_close(&c);
        assert_true(fx_gate_reached(&released, (uint64_t)i + 1));
    }
    /* One whose client is gone before it is sent. */
    cli_open(&c, web);
    cli_say(&c, GET("/get"));
    r = web_reply(web, 1);
    cli_close(&c);
    fx_until(web_counters(web).connections == 0 || ron_http_reply_cancelled(r));
    ron_http_reply_send_blob(r, 200, "text/plain", &blob);
    assert_true(fx_gate_reached(&released, 4));
    fx_until(web_counters(web).connections == 0);
    close_blobs(web);
}

static void test_blob__file_shorter_than_said__connection_broken_others_served(void **state)
{
    struct web *web = open_blobs();
    char head[1024];
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, GET("/short"));
    take_head(&c, head, sizeof head);
    expect_pattern(&c, BIG - 10, 10);
    expect_cut(&c);
    assert_true(fx_gate_reached(&released, 1));
    cli_close(&c);
    cli_open(&c, web);
    cli_say(&c, GET("/hi"));
    cli_expect(&c, 200, "hi");
    cli_close(&c);
    close_blobs(web);
}

static void test_blob__large_download__others_are_served_meanwhile(void **state)
{
    struct web *web = open_blobs();
    char head[1024];
    struct cli slow;
    struct cli c;

    (void)state;
    cli_open(&slow, web);
    cli_open(&c, web);
    cli_say(&slow, GET("/file"));
    take_head(&slow, head, sizeof head);
    cli_say(&c, GET("/hi"));
    cli_expect(&c, 200, "hi"); /* one worker */
    expect_pattern(&slow, 0, BIG);
    cli_close(&slow);
    cli_close(&c);
    close_blobs(web);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream__small_pieces__chunked_and_the_connection_stays),
        cmocka_unit_test(test_stream__large__arrives_whole_from_a_thread_that_waits),
        cmocka_unit_test(test_stream__reader_stops__two_pieces_held_and_the_writer_woken),
        cmocka_unit_test(test_stream__client_goes__writer_told_and_cancelled),
        cmocka_unit_test(test_stream__head_asked__no_body_and_the_connection_stays),
        cmocka_unit_test(test_stream__length__neither_more_nor_less),
        cmocka_unit_test(test_stream__http_1_0__ended_by_the_close),
        cmocka_unit_test(test_stream__quiet__outlives_one_that_must_speak),
        cmocka_unit_test(test_stream__drain__quiet_ones_are_asked_to_end),
        cmocka_unit_test(test_stream__too_many__the_reply_can_still_answer),
        cmocka_unit_test(test_stream__bad_header__500_and_the_writer_cancelled),
        cmocka_unit_test(test_blob__memory_and_file__whole_and_released_once),
        cmocka_unit_test(test_blob__head_of_a_file__leaves_with_its_beginning),
        cmocka_unit_test(test_blob__short_files_to_a_client_that_waits__whole_and_in_order),
        cmocka_unit_test(test_blob__client_goes_in_the_middle__released),
        cmocka_unit_test(test_blob__file_shorter_than_said__connection_broken_others_served),
        cmocka_unit_test(test_blob__large_download__others_are_served_meanwhile),
    };
    return cmocka_run_group_tests(tests, make_big, free_big);
}
