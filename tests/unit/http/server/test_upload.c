/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a request body that passes in pieces arrives whole and in order at a reader on another
 * thread, never more than two pieces of it are held, every way it can end has its own code, and an
 * answer before its end closes the connection in good order; coded bodies, whole or in pieces, are
 * decoded under their caps.
 * Method: real sockets; the test thread sends, a thread that may wait reads and compares with a
 * pattern. */
#include "unit/http/fixture.h"

#include <zlib.h>
#include <zstd.h>

#include "ron/http/stream.h"

enum { BIG = 3 << 20, ROUTE_MAX = 8 << 20 };

static uint8_t pattern(size_t i)
{
    uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint8_t)((x ^ x >> 27) & 0x3f); /* packs to about three quarters */
}

static char *big;

static int make_big(void **state)
{
    (void)state;
    big = malloc(BIG);
    assert_non_null(big);
    for (size_t i = 0; i < BIG; i++) {
        big[i] = (char)pattern(i);
    }
    return 0;
}

static int free_big(void **state)
{
    (void)state;
    free(big);
    return 0;
}

/* Says no at once when the query is "no". */
static void on_upload(struct ron_http_call *call, void *arg)
{
    if (ron_str_is(ron_http_head(call)->query, "no")) {
        ron_http_fail(call, RON_HTTP_NOT_FOUND);
        return;
    }
    web_defer(call, arg);
}

static const struct ron_http_route routes[] = {
    {RON_HTTP_POST, "/up", on_upload, NULL, RON_HTTP_STREAM, ROUTE_MAX},
    {RON_HTTP_POST, "/raw", web_echo, NULL, RON_HTTP_RAW | RON_HTTP_INLINE, 0},
};

static struct web *open_web(struct ron_http_opts o)
{
    o.routes = routes;
    o.route_count = RON_ARRAY_LEN(routes);
    return web_open(1, o);
}

/* Reads a whole body on a thread of its own and answers with its length. */
struct reader {
    struct ron_http_reply *r;
    struct ron_thread *thread;
    size_t got;
    size_t pieces;
    bool wrong;
    enum ron_rc rc;
};

static void read_all(void *arg)
{
    struct reader *rd = arg;
    struct ron_str piece = {0};

    while ((rd->rc = ron_http_reply_read_wait(rd->r, fx_deadline(), &piece)) == RON_OK) {
        for (size_t i = 0; i < piece.len; i++) {
            rd->wrong = rd->wrong || (uint8_t)piece.ptr[i] != pattern(rd->got + i);
        }
        rd->wrong = rd->wrong || piece.len == 0 || piece.len > RON_HTTP_PIECE_BYTES;
        rd->got += piece.len;
        rd->pieces++;
        ron_http_reply_give_back(rd->r);
    }
    (void)ron_buf_append_fmt(ron_http_reply_body(rd->r), "got %zu", rd->got);
    ron_http_reply_send(rd->r, 200, "text/plain");
}

static void start_reader(struct reader *rd, struct ron_http_reply *r)
{
    *rd = (struct reader){.r = r};
    assert_int_equal(ron_thread_start(
                         &(struct ron_thread_opts){
                             .name = "reader", .may_block = true, .main = read_all, .arg = rd},
                         &rd->thread, NULL),
                     RON_OK);
}

static void end_reader(struct reader *rd, enum ron_rc rc, size_t got)
{
    ron_thread_join(rd->thread);
    assert_int_equal(rd->rc, rc);
    assert_false(rd->wrong);
    assert_int_equal(rd->got, got);
}

static void send_all(struct cli *c, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(c->fd, bytes, len, MSG_NOSIGNAL);

        assert_true(n > 0);
        bytes += n;
        len -= (size_t)n;
    }
}

static void say_head(struct cli *c, const char *path, size_t len, const char *more)
{
    char head[256];
    int n =
        snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n%s\r\n",
                 path, len, more);

    cli_send(c, head, (size_t)n);
}

static void send_chunked(struct cli *c, const char *bytes, size_t len, size_t step)
{
    for (size_t at = 0; at < len; at += step) {
        char line[32];
        size_t n = RON_MIN(step, len - at);

        cli_send(c, line, (size_t)snprintf(line, sizeof line, "%zx\r\n", n));
        send_all(c, bytes + at, n);
        cli_say(c, "\r\n");
    }
    cli_say(c, "0\r\n\r\n");
}

static void test_upload__any_framing__arrives_whole_and_the_connection_stays(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    static const size_t sizes[] = {0, 1, 100, 65536, 65537, 200000, BIG};
    struct reader rd;
    size_t next = 0;
    char want[32];
    struct cli c;

    (void)state;
    cli_open(&c, web);
    for (size_t i = 0; i < RON_ARRAY_LEN(sizes); i++) {
        (void)snprintf(want, sizeof want, "got %zu", sizes[i]);
        say_head(&c, "/up", sizes[i], "");
        start_reader(&rd, web_reply(web, next++));
        send_all(&c, big, sizes[i]);
        cli_expect(&c, 200, want);
        end_reader(&rd, RON_CLOSED, sizes[i]);
        cli_say(&c, "POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        start_reader(&rd, web_reply(web, next++));
        send_chunked(&c, big, sizes[i], 7001);
        cli_say(&c, "GET /hi HTTP/1.1\r\nHost: a\r\n\r\n"); /* waits behind it */
        cli_expect(&c, 200, want);
        cli_expect(&c, 200, "hi");
        end_reader(&rd, RON_CLOSED, sizes[i]);
    }
    assert_int_equal(ron_au64_load(&web->server->body_memory), 0);
    cli_close(&c);
    web_close(web);
}

static struct fx_gate woken;

static void on_wake(struct ron_waker *w)
{
    (void)w;
    fx_gate_add(&woken, 1);
}

static void test_upload__slow_reader__two_pieces_held_and_the_sender_stopped(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    struct ron_waker waker = {on_wake};
    struct ron_http_reply *r;
    struct ron_str piece = {0};
    size_t sent = 0;
    size_t got = 0;
    struct cli c;

    (void)state;
    fx_gate_init(&woken);
    cli_open(&c, web);
    say_head(&c, "/up", BIG, "");
    r = web_reply(web, 0);
    while (ron_http_reply_read(r, &waker, &piece) == RON_AGAIN) {
        if (sent == 0) {
            send_all(&c, big, 1000);
            sent = 1000;
        }
        assert_true(fx_gate_reached(&woken, 1));
    }
    assert_true(piece.len > 0);
    got = piece.len;
    /* The piece is kept: at most one more is taken from the socket. */
    while (sent < BIG) {
        ssize_t n = send(c.fd, big + sent, BIG - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0) {
            break;
        }
        sent += (size_t)n;
    }
    fx_until(web_counters(web).bytes_in >= got + RON_HTTP_PIECE_BYTES);
    for (int i = 0; i < 200; i++) {
        (void)sched_yield();
        assert_true(web_counters(web).bytes_in <= 1024 + got + RON_HTTP_PIECE_BYTES);
    }
    assert_int_equal(ron_au64_load(&web->server->body_memory), 2 * RON_HTTP_PIECE_BYTES);
    ron_http_reply_give_back(r);
    while (got < BIG) {
        enum ron_rc rc = ron_http_reply_read(r, &waker, &piece);

        if (rc == RON_AGAIN && sent < BIG) {
            ssize_t n = send(c.fd, big + sent, RON_MIN(BIG - sent, (size_t)100000), MSG_NOSIGNAL);

            assert_true(n > 0);
            sent += (size_t)n;
        } else if (rc == RON_OK) {
            assert_memory_equal(piece.ptr, big + got, piece.len);
            got += piece.len;
            ron_http_reply_give_back(r);
        } else {
            assert_int_equal(rc, RON_AGAIN);
            (void)sched_yield();
        }
    }
    fx_until(ron_http_reply_read(r, &waker, &piece) == RON_CLOSED);
    web_send_reply(r, "all");
    cli_expect(&c, 200, "all");
    cli_close(&c);
    web_close(web);
    fx_gate_done(&woken);
}

static void test_upload__refused_at_once__closed_unless_the_body_is_there(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    struct cli c;

    (void)state;
    cli_open(&c, web);
    cli_say(&c, "POST /up?no HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    cli_expect(&c, 404, "not_found");
    /* A client that waits to be told is told no, and never 100. */
    say_head(&c, "/up?no", 100, "Expect: 100-continue\r\n");
    cli_expect(&c, 404, "not_found");
    cli_expect_end(&c);
    cli_close(&c);
    cli_open(&c, web);
    say_head(&c, "/up", ROUTE_MAX + 1, "");
    cli_expect(&c, 413, "too_large");
    cli_expect_end(&c);
    cli_close(&c);
    web_close(web);
}

static void test_upload__expected__told_to_go_on_when_it_is_wanted(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    struct reader rd;
    struct cli c;

    (void)state;
    cli_open(&c, web);
    say_head(&c, "/up", 5, "Expect: 100-continue\r\n");
    while (strstr(c.in, "\r\n\r\n") == NULL) {
        assert_true(cli_more(&c));
    }
    assert_string_equal(c.in, "HTTP/1.1 100 Continue\r\n\r\n");
    c.have = 0;
    c.in[0] = '\0';
    send_all(&c, big, 5);
    start_reader(&rd, web_reply(web, 0));
    cli_expect(&c, 200, "got 5");
    end_reader(&rd, RON_CLOSED, 5);
    cli_close(&c);
    web_close(web);
}

static void test_upload__early_answer__arrives_and_closes(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    struct cli c;

    (void)state;
    cli_open(&c, web);
    say_head(&c, "/up", BIG, "");
    send_all(&c, big, 300000);
    web_send_reply(web_reply(web, 0), "enough");
    cli_expect(&c, 200, "enough");
    cli_expect_end(&c);
    cli_close(&c);
    /* The same in pieces. */
    struct ron_http_stream_opts o = {.status = 200, .content_type = "text/plain", .length = 3};
    cli_open(&c, web);
    say_head(&c, "/up", BIG, "");
    assert_int_equal(ron_http_reply_begin(web_reply(web, 1), &o), RON_OK);
    assert_int_equal(ron_http_reply_write(web_reply(web, 1), "abc", 3), RON_OK);
    ron_http_reply_end(web_reply(web, 1));
    cli_expect(&c, 200, "abc");
    cli_expect_end(&c);
    cli_close(&c);
    web_close(web);
}

static void test_upload__client_goes__reader_cancelled(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    struct reader rd;
    struct cli c;

    (void)state;
    cli_open(&c, web);
    say_head(&c, "/up", BIG, "");
    send_all(&c, big, 1000);
    start_reader(&rd, web_reply(web, 0));
    cli_close(&c);
    end_reader(&rd, RON_CANCELLED, 1000);
    fx_until(web_counters(web).connections == 0 && web_counters(web).inflight == 0);
    assert_int_equal(web_counters(web).late_replies, 1);
    assert_int_equal(ron_au64_load(&web->server->body_memory), 0);
    web_close(web);
}

static void test_upload__too_slow_or_left_lying__typed(void **state)
{
    struct web *web =
        open_web((struct ron_http_opts){.read_timeout_ms = 60, .request_timeout_ms = 150});
    struct ron_str piece = {0};
    struct ron_http_reply *r;
    struct reader rd;
    struct cli c;

    (void)state;
    cli_open(&c, web);
    say_head(&c, "/up", BIG, "");
    send_all(&c, big, 10);
    start_reader(&rd, web_reply(web, 0));
    cli_expect(&c, 408, "read_timeout");
    cli_expect_end(&c);
    cli_close(&c);
    end_reader(&rd, RON_TIMEOUT, 10);
    /* The reader leaves the body lying: our fault, not the client's. */
    cli_open(&c, web);
    say_head(&c, "/up", 200000, "");
    send_all(&c, big, 200000);
    r = web_reply(web, 1);
    cli_expect(&c, 503, "timeout");
    cli_expect_end(&c);
    cli_close(&c);
    assert_int_equal(ron_http_reply_read(r, NULL, &piece), RON_OK); /* what is there stays */
    ron_http_reply_give_back(r);
    assert_int_equal(ron_http_reply_read(r, NULL, &piece), RON_TIMEOUT);
    web_send_reply(r, "late");
    /* The body is there, the answer is not. */
    cli_open(&c, web);
    say_head(&c, "/up", 1, "");
    send_all(&c, big, 1);
    cli_expect(&c, 503, "timeout");
    web_send_reply(web_reply(web, 2), "late");
    cli_close(&c);
    web_close(web);
}

static void test_upload__bad_chunks__typed(void **state)
{
    struct web *web = open_web((struct ron_http_opts){0});
    static const struct {
        const char *bytes;
        int status;
        const char *reason;
        enum ron_rc rc;
    } rows[] = {{"3\r\nabcX", 400, "chunk_data", RON_INVALID},
                {"g\r\n", 400, "chunk_size", RON_INVALID},
                {"ffffff\r\n", 413, "too_large", RON_LIMIT}};
    struct reader rd;
    struct cli c;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        cli_open(&c, web);
        cli_say(&c, "POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        cli_say(&c, rows[i].bytes);
        start_reader(&rd, web_reply(web, i));
        cli_expect(&c, rows[i].status, rows[i].reason);
        cli_expect_end(&c);
        ron_thread_join(rd.thread);
        assert_int_equal(rd.rc, rows[i].rc);
        cli_close(&c);
    }
    web_close(web);
}

static void test_upload__no_memory_set_aside__429(void **state)
{
    struct web *web = open_web((struct ron_http_opts){.body_memory_max = 200000});
    struct cli c[2];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        cli_open(&c[i], web);
        say_head(&c[i], "/up", 1000, "");
        if (i == 0) {
            (void)web_reply(web, 0);
        }
    }
    cli_expect(&c[1], 429, "busy");
    cli_expect_end(&c[1]);
    web_send_reply(web_reply(web, 0), "x");
    cli_expect(&c[0], 200, "x");
    cli_close(&c[0]);
    cli_close(&c[1]);
    assert_int_equal(ron_au64_load(&web->server->body_memory), 0);
    web_close(web);
}

/* The memory of a decoder is set aside too: heads alone must not fill the machine. */
static void test_upload__decoders__counted_with_the_bodies(void **state)
{
    struct web *web = open_web((struct ron_http_opts){.body_memory_max = 12 << 20});
    struct cli c[2];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        cli_open(&c[i], web);
        say_head(&c[i], "/up", 1000, "Content-Encoding: zstd\r\n");
        if (i == 0) {
            (void)web_reply(web, 0);
            assert_true(ron_au64_load(&web->server->body_memory) > 8 << 20);
        }
    }
    cli_expect(&c[1], 429, "busy");
    web_send_reply(web_reply(web, 0), "x");
    cli_expect(&c[0], 200, "x");
    cli_close(&c[0]);
    cli_close(&c[1]);
    assert_int_equal(ron_au64_load(&web->server->body_memory), 0);
    web_close(web);
}

/* ---- content codings ------------------------------------------------------------------------- */

static size_t gzip(const char *in, size_t len, char *out, size_t size)
{
    z_stream z = {0};

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)in;
    z.avail_in = (uInt)len;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)size;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size = z.total_out;
    (void)deflateEnd(&z);
    return size;
}

static void test_upload__coded__decoded_whole_and_in_pieces(void **state)
{
    static char packed[1 << 20];
    struct web *web = open_web((struct ron_http_opts){0});
    struct reader rd;
    struct cli c;
    size_t n;

    (void)state;
    cli_open(&c, web);
    for (size_t i = 0; i < 2; i++) {
        const char *coding = i == 0 ? "Content-Encoding: gzip\r\n" : "Content-Encoding: ZSTD\r\n";

        /* Small, whole; one that grows beyond the connection's buffer; the same in pieces. */
        for (size_t len = 5; len <= 50000; len += 49995) {
            static struct answer a;

            n = i == 0 ? gzip(big, len, packed, sizeof packed)
                       : ZSTD_compress(packed, sizeof packed, big, len, 3);
            say_head(&c, "/echo", n, coding);
            send_all(&c, packed, n);
            cli_answer(&c, false, &a);
            assert_int_equal(a.status, 200);
            assert_int_equal(a.body_len, len);
            assert_memory_equal(a.body, big, len);
        }
        n = i == 0 ? gzip(big, 300000, packed, sizeof packed)
                   : ZSTD_compress(packed, sizeof packed, big, 300000, 3);
        say_head(&c, "/up", n, coding);
        send_all(&c, packed, n);
        start_reader(&rd, web_reply(web, 2 * i));
        cli_expect(&c, 200, "got 300000");
        end_reader(&rd, RON_CLOSED, 300000);
        cli_say(&c, "POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n");
        cli_say(&c, coding);
        cli_say(&c, "\r\n");
        send_chunked(&c, packed, n, 333);
        start_reader(&rd, web_reply(web, 2 * i + 1));
        cli_expect(&c, 200, "got 300000");
        end_reader(&rd, RON_CLOSED, 300000);
    }
    assert_int_equal(ron_au64_load(&web->server->body_memory), 0);
    cli_close(&c);
    web_close(web);
}

static void test_upload__coding_unknown_damaged_or_a_bomb__typed(void **state)
{
    static char packed[1 << 20];
    static char zeros[2000000];
    static struct answer a;
    struct web *web = open_web((struct ron_http_opts){.body_max = 60000});
    struct reader rd;
    struct cli c;
    size_t n;

    (void)state;
    cli_open(&c, web);
    cli_say(&c,
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx");
    cli_answer(&c, false, &a);
    assert_int_equal(a.status, 415);
    assert_non_null(strstr(a.head, "Accept-Encoding: gzip, zstd\r\n"));
    cli_say(&c,
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Encoding: identity\r\nContent-Length: 1\r\n"
            "\r\nx");
    cli_expect(&c, 200, "x");
    cli_say(&c,
            "POST /raw HTTP/1.1\r\nHost: a\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx");
    cli_expect(&c, 200, "x");
    cli_say(&c,
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n"
            "abcd");
    cli_expect(&c, 400, "content_damaged");
    n = gzip(big, 1000, packed, sizeof packed);
    say_head(&c, "/echo", n - 1, "Content-Encoding: gzip\r\n");
    send_all(&c, packed, n - 1);
    cli_expect(&c, 400, "content_damaged"); /* cut short */
    /* More than body_max once decoded; and more than the ratio allows. */
    n = gzip(big, 60001, packed, sizeof packed);
    say_head(&c, "/echo", n, "Content-Encoding: gzip\r\n");
    send_all(&c, packed, n);
    cli_expect(&c, 413, "too_large");
    n = gzip(big, 60000, packed, sizeof packed);
    say_head(&c, "/echo", n, "Content-Encoding: gzip\r\n");
    send_all(&c, packed, n);
    cli_answer(&c, false, &a);
    assert_int_equal(a.status, 200);
    n = gzip(zeros, sizeof zeros, packed, sizeof packed);
    say_head(&c, "/up", n, "Content-Encoding: gzip\r\n");
    send_all(&c, packed, n);
    start_reader(&rd, web_reply(web, 0));
    cli_expect(&c, 413, "decompress_cap");
    cli_expect_end(&c);
    ron_thread_join(rd.thread);
    assert_int_equal(rd.rc, RON_LIMIT);
    assert_true(rd.got <= RON_INFLATE_FLOOR_DEFAULT);
    assert_int_equal(web_counters(web).rejected[RON_HTTP_DECOMPRESS_CAP], 1);
    assert_int_equal(web_counters(web).rejected[RON_HTTP_CONTENT_DAMAGED], 2);
    cli_close(&c);
    web_close(web);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_upload__any_framing__arrives_whole_and_the_connection_stays),
        cmocka_unit_test(test_upload__slow_reader__two_pieces_held_and_the_sender_stopped),
        cmocka_unit_test(test_upload__refused_at_once__closed_unless_the_body_is_there),
        cmocka_unit_test(test_upload__expected__told_to_go_on_when_it_is_wanted),
        cmocka_unit_test(test_upload__early_answer__arrives_and_closes),
        cmocka_unit_test(test_upload__client_goes__reader_cancelled),
        cmocka_unit_test(test_upload__too_slow_or_left_lying__typed),
        cmocka_unit_test(test_upload__bad_chunks__typed),
        cmocka_unit_test(test_upload__no_memory_set_aside__429),
        cmocka_unit_test(test_upload__decoders__counted_with_the_bodies),
        cmocka_unit_test(test_upload__coded__decoded_whole_and_in_pieces),
        cmocka_unit_test(test_upload__coding_unknown_damaged_or_a_bomb__typed),
    };
    return cmocka_run_group_tests(tests, make_big, free_big);
}
