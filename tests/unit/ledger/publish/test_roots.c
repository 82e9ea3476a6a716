/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: who follows the roots gets each of them once and in order, or is told which it missed; a
 * page is complete; waiting ends with a root, with the time or with the service; and no client
 * holds the publisher up.
 * Method: the publisher under a real supervisor and HTTP server, plain sockets as clients, the test
 * as committer. Bytes are compared with what the test itself computes. */
#include "unit/ledger/roots_fixture.h"

enum { PUBLISHED = 120 * LED_ROOTS_RING };

static struct tail a;
static struct tail b;

/* One answer with a length. */
static void expect_page(struct feed *f, const char *target, int status, const char *body)
{
    static struct cli c;
    static struct answer got;
    char request[512];

    cli_open(&c, &f->web);
    (void)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", target);
    cli_say(&c, request);
    cli_answer(&c, false, &got);
    if (got.status != status ||
        (status == 200 ? strcmp(got.body, body) != 0 : strstr(got.body, body) == NULL)) {
        fail_msg("%s: wanted %d '%s', got %d '%s'", target, status, body, got.status, got.body);
    }
    cli_close(&c);
}

/* The page with the roots `from`, from + step, ... */
static const char *page(uint64_t from, uint64_t step, size_t count, uint64_t next)
{
    static char text[1 << 18];
    size_t len = (size_t)snprintf(text, sizeof text, "{\"roots\":[");
    char item[FEED_LINE];

    for (size_t i = 0; i < count; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", i > 0 ? "," : "",
                                feed_json(from + i * step, item));
    }
    (void)snprintf(text + len, sizeof text - len, "],\"next\":%llu}", (unsigned long long)next);
    return text;
}

static void expect_large(struct feed *f, const char *target, const char *body)
{
    char length[64];

    tail_open(&a, f, "GET", target, "");
    (void)snprintf(length, sizeof length, "Content-Length: %zu\n", strlen(body));
    assert_non_null(strstr(a.head, length));
    for (size_t i = 0; body[i] != '\0'; i++) {
        assert_int_equal(tail_byte(&a), body[i]);
    }
    tail_close(&a);
}

/* ---- pages ----------------------------------------------------------------------------------- */

static void test_led_roots__page__complete_as_soon_as_published(void **state)
{
    struct feed *f = feed_open((struct led_roots_opts){0}, (struct ron_http_opts){0});

    (void)state;
    expect_page(f, "/roots", 200, page(0, 0, 0, 0));
    for (uint64_t seq = 10; seq <= 300; seq += 10) {
        char target[64];

        feed_publish(f, seq);
        (void)snprintf(target, sizeof target, "/roots?since=%llu", (unsigned long long)seq - 1);
        expect_page(f, target, 200, page(seq, 10, 1, seq)); /* no waiting for the task (O1) */
    }
    expect_page(f, "/roots", 200, page(10, 10, 30, 300));
    expect_page(f, "/roots?since=9", 200, page(10, 10, 30, 300));
    expect_page(f, "/roots?since=10", 200, page(20, 10, 29, 300));
    expect_page(f, "/roots?since=10&limit=2", 200, page(20, 10, 2, 30));
    expect_page(f, "/roots?since=30&limit=1&wait=9s", 200, page(40, 10, 1, 40));
    expect_page(f, "/roots?since=300", 200, page(0, 0, 0, 300));
    expect_page(f, "/roots?since=18446744073709551615", 200, page(0, 0, 0, UINT64_MAX));
    feed_close(f);
}

static void test_led_roots__bad_parameter__named_in_a_400(void **state)
{
    struct feed *f = feed_open((struct led_roots_opts){0}, (struct ron_http_opts){0});
    static const char *const bad[][2] = {
        {"/roots?since=x", "since is"},
        {"/roots?since=-1", "since is"},
        {"/roots?since=", "since is"},
        {"/roots?since=1&since=2", "since is"},
        {"/roots?since=18446744073709551616", "since is"},
        {"/roots?limit=0", "limit is"},
        {"/roots?limit=1001", "limit is"},
        {"/roots?limit=ten", "limit is"},
        {"/roots?wait=5", "wait is"},
        {"/roots?wait=61s", "wait is"},
        {"/roots?wait=1s&wait=2s", "wait is"},
        {"/roots/stream?since=x", "since is"},
        {"/roots/stream?since=99999999999999999999999999999999", "since is"},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        expect_page(f, bad[i][0], 400, bad[i][1]);
        expect_page(f, bad[i][0], 400, "\"code\":\"MALFORMED\"");
    }
    tail_open(&a, f, "GET", "/roots/stream", "Last-Event-ID: abc\r\n");
    assert_non_null(strstr(a.head, "400 Bad Request"));
    tail_close(&a);
    tail_open(&a, f, "GET", "/roots/stream", "Last-Event-ID: 1\r\nLast-Event-ID: 2\r\n");
    assert_non_null(strstr(a.head, "400 Bad Request"));
    tail_close(&a);
    feed_close(f);
}

static void test_led_roots__page_beyond_the_ring__asked_of_the_journal(void **state)
{
    struct feed *f = feed_open((struct led_roots_opts){.head_seq = 100}, (struct ron_http_opts){0});

    (void)state;
    expect_page(f, "/roots?since=99&limit=7", 200, "older"); /* before the start */
    assert_int_equal(ron_au64_load(&f->older_since), 99);
    assert_int_equal(ron_au32_load(&f->older_limit), 7);
    expect_page(f, "/roots?since=99&wait=60s", 200, "older");
    expect_page(f, "/roots?since=100", 200, page(0, 0, 0, 100));
    for (uint64_t i = 1; i <= LED_ROOTS_RING; i++) {
        feed_publish(f, 100 + 2 * i);
        (void)led__roots_ring_catch_up(&f->roots->ring);
    }
    expect_large(f, "/roots?since=100&limit=1000", page(102, 2, 1000, 2100));
    expect_page(f, "/roots?since=99", 200, "older");
    feed_publish(f, 5000); /* pushes 102 out */
    expect_page(f, "/roots?since=100", 200, "older");
    expect_page(f, "/roots?since=101", 200, "older");
    expect_page(f, "/roots?since=102&limit=2", 200, page(104, 2, 2, 106));
    feed_close(f);
}

/* ---- polls ----------------------------------------------------------------------------------- */

static void expect_poll(struct tail *t, const char *body)
{
    char line[FEED_LINE];

    assert_non_null(strstr(t->head, "HTTP/1.1 200 OK"));
    assert_non_null(strstr(t->head, "Content-Type: application/json\n"));
    assert_false(tail_line(t, line)); /* all of it, without a newline */
    assert_string_equal(line, body);
    tail_close(t);
}

static void test_led_roots__poll__answered_by_the_next_root(void **state)
{
    struct feed *f = feed_open((struct led_roots_opts){0}, (struct ron_http_opts){0});

    (void)state;
    feed_publish(f, 5);
    tail_open(&a, f, "GET", "/roots?since=5&wait=60s", "");
    tail_open(&b, f, "GET", "/roots?since=9&wait=60s", "");
    feed_publish(f, 8);
    expect_poll(&a, page(8, 1, 1, 8));
    feed_publish(f, 9); /* not above what b asked for */
    fx_until(feed_stats(f).polls == 2);
    feed_publish(f, 11);
    expect_poll(&b, page(11, 1, 1, 11));
    fx_until(feed_stats(f).subs == 0);
    feed_close(f);
}

static void test_led_roots__poll_in_vain__empty_page_after_its_time(void **state)
{
    /* Longer than a request may otherwise take. */
    struct feed *f =
        feed_open((struct led_roots_opts){0}, (struct ron_http_opts){.request_timeout_ms = 100});
    uint64_t begun_ns = ron_mono_ns();

    (void)state;
    feed_publish(f, 5);
    tail_open(&a, f, "GET", "/roots?since=5&wait=300ms", "");
    expect_poll(&a, page(0, 0, 0, 5));
    assert_true(ron_mono_ns() - begun_ns >= 300 * RON_NS_PER_MS);
    /* A client that waits for less gets its answer in time. */
    tail_open(&a, f, "GET", "/roots?since=7&wait=60s", "Request-Timeout: 1\r\n");
    expect_poll(&a, page(0, 0, 0, 7));
    expect_page(f, "/roots?since=5&wait=0s", 200, page(0, 0, 0, 5));
    feed_close(f);
}

static void test_led_roots__poll_overtaken__empty_page_not_a_gap(void **state)
{
    struct feed *f = feed_open((struct led_roots_opts){0}, (struct ron_http_opts){0});

    (void)state;
    feed_publish(f, 1);
    tail_open(&a, f, "GET", "/roots?since=1&wait=60s", "");
    ron_mutex_lock(&f->roots->ring.mu); /* the publisher cannot look */
    for (uint64_t seq = 2; seq <= 2 + 2 * LED_ROOTS_RING; seq++) {
        feed_publish(f, seq);
    }
    ron_mutex_unlock(&f->roots->ring.mu);
    expect_poll(&a, page(0, 0, 0, 1));
    expect_page(f, "/roots?since=1", 200, "older");
    feed_close(f);
}

/* ---- streams --------------------------------------------------------------------------------- */

static void test_led_roots__stream__each_root_with_its_id(void **state)
{
    struct feed *f = feed_open((struct led_roots_opts){0}, (struct ron_http_opts){0});
    uint64_t begun_ns;

    (void)state;
    feed_publish(f, 3);
    tail_stream(&a, f, "", ""); /* from now on */
    tail_stream(&b, f, "?since=0", "");
    tail_expect_root(&b, 3);
    for (uint64_t seq = 4; seq < 700; seq++) {
        feed_publish(f, seq);
        if (seq % 100 == 0) {
            tail_expect_root(&a, seq == 100 ? 4 : seq / 100 + 3);
        }
    }
    for (uint64_t seq = 10; seq < 700; seq++) {
        tail_expect_root(&a, seq);
    }
    for (uint64_t seq = 4; seq < 700; seq++) {
        tail_expect_root(&b, seq);
    }
    tail_close(&b);
    /* Back again: the header counts, not the address. */
    tail_stream(&b, f, "?since=1", "Last-Event-ID: 698\r\n");
    tail_expect_root(&b, 699);
    feed_publish(f, 1000);
    tail_expect_root(&a, 1000);
    tail_expect_root(&b, 1000);
    assert_int_equal(feed_stats(f).lagged, 0);
    assert_int_equal(feed_stats(f).streams, 3);
    assert_int_equal(feed_stats(f).published, 698);
    tail_close(&b);
    tail_stream(&b, f, "", "Last-Event-ID: 699\r\n");
    tail_expect_root(&b, 1000);
    tail_close(&a);
    tail_close(&b);
    begun_ns = ron_mono_ns();
    fx_until(feed_stats(f).subs == 0); /* nobody has to publish for that, and no beat to come */
    assert_true(ron_mono_ns() - begun_ns < LED_ROOTS_BEAT_MS / 2 * RON_NS_PER_MS);
    feed_close(f);
}

static void test_led_roots__stream_from_long_ago__told_what_it_missed(void **state)
{
    struct feed *f = feed_open((struct led_roots_opts){.head_seq = 100}, (struct ron_http_opts){0});

    (void)state;
    tail_stream(&a, f, "?since=7", "");
    tail_expect_lagged(&a, 7, 100); /* at once: nobody has to publish */
    tail_stream(&b, f, "?since=100", "");
    feed_publish(f, 103);
    tail_expect_root(&a, 103);
    tail_expect_root(&b, 103);
    ron_mutex_lock(&f->roots->ring.mu); /* the publisher cannot look */
    for (uint64_t seq = 104; seq <= 104 + LED_ROOTS_RING; seq++) {
        feed_publish(f, seq);
    }
    ron_mutex_unlock(&f->roots->ring.mu);
    tail_expect_lagged(&a, 103, 105); /* 104 is lost for sure; 105 was the first that is known */
    for (uint64_t seq = 105; seq <= 104 + LED_ROOTS_RING; seq++) {
        tail_expect_root(&a, seq);
    }
    tail_expect_lagged(&b, 103, 105);
    tail_expect_root(&b, 105);
    assert_int_equal(feed_stats(f).lagged, 3);
    tail_close(&a);
    tail_close(&b);
    feed_close(f);
}

/* Reads on to `last`; a gap must have been announced. Returns how often. */
static size_t follow(struct tail *t, uint64_t seen, uint64_t last)
{
    unsigned long long since = 0;
    unsigned long long until = 0;
    size_t lags = 0;
    char line[FEED_LINE];

    while (seen < last) {
        assert_true(tail_line(t, line));
        if (strcmp(line, "event: lagged") == 0) {
            assert_true(tail_line(t, line));
            /* NOLINTNEXTLINE(cert-err34-c): two numbers are compared below */
            assert_int_equal(sscanf(line, "data: {\"since\":%llu,\"until\":%llu}", &since, &until),
                             2);
            assert_int_equal(since, seen);
            assert_true(until > since);
            seen = until;
            lags++;
            tail_expect(t, "");
        } else if (line[0] == 'i') {
            uint64_t seq = strtoul(line + 4, NULL, 10);

            assert_int_equal(seq, seen + 1);
            seen = seq;
            tail_expect(t, "event: root");
            assert_true(tail_line(t, line));
            tail_expect(t, "");
        } else {
            assert_true(line[0] == ':' || line[0] == '\0');
        }
    }
    return lags;
}

static void test_led_roots__client_that_does_not_read__lags_alone_and_goes_on(void **state)
{
    struct feed *f =
        feed_open((struct led_roots_opts){0},
                  (struct ron_http_opts){.write_timeout_ms = 60000, .rate_min_bytes_per_s = 1});
    uint64_t seq = 0;

    (void)state;
    tail_stream(&a, f, "?since=0", "");
    tail_stream(&b, f, "?since=0", "");
    /* About 18 MB: more than the sockets take. */
    while (seq < PUBLISHED) {
        uint64_t end = seq + LED_ROOTS_RING / 2;

        for (; seq < end; seq++) {
            feed_publish(f, seq + 1);
        }
        assert_int_equal(follow(&b, end - LED_ROOTS_RING / 2, end), 0);
    }
    feed_publish(f, ++seq);
    assert_true(follow(&a, 0, seq) >= 1);
    feed_publish(f, seq + 1); /* and now it keeps up */
    assert_int_equal(follow(&a, seq, seq + 1), 0);
    assert_int_equal(follow(&b, seq - 1, seq + 1), 0);
    tail_close(&a);
    tail_close(&b);
    feed_close(f);
}

static void test_led_roots__quiet_stream__beats(void **state)
{
    struct feed *f = feed_open((struct led_roots_opts){0}, (struct ron_http_opts){0});
    char line[FEED_LINE];

    (void)state;
    tail_stream(&a, f, "", "");
    (void)ron_au64_add(&f->shift_ns, (LED_ROOTS_BEAT_MS + 1) * RON_NS_PER_MS);
    tail_stream(&b, f, "", ""); /* makes the task look at the time */
    tail_expect(&a, ": beat");
    tail_expect(&a, "");
    feed_publish(f, 1);
    tail_expect_root(&a, 1);
    /* If b came in a turn that had looked at the clock before the shift, it has had a beat too. */
    assert_true(tail_line(&b, line));
    if (strcmp(line, ": beat") == 0) {
        tail_expect(&b, "");
        tail_expect_root(&b, 1);
    } else {
        assert_string_equal(line, "id: 1");
    }
    tail_close(&a);
    tail_close(&b);
    feed_close(f);
}

static void test_led_roots__head_request__answered_without_waiting(void **state)
{
    struct feed *f = feed_open((struct led_roots_opts){0}, (struct ron_http_opts){0});

    (void)state;
    tail_open(&a, f, "HEAD", "/roots?wait=60s", "");
    assert_non_null(strstr(a.head, "200 OK"));
    tail_open(&b, f, "HEAD", "/roots/stream", "");
    assert_non_null(strstr(b.head, "text/event-stream"));
    fx_until(feed_stats(f).subs == 0);
    tail_close(&a);
    tail_close(&b);
    feed_close(f);
}

/* ---- limits and the end ---------------------------------------------------------------------- */

static void test_led_roots__too_many_subscribers__429_until_one_leaves(void **state)
{
    struct feed *f = feed_open((struct led_roots_opts){.subs_max = 2}, (struct ron_http_opts){0});

    (void)state;
    tail_stream(&a, f, "", "");
    tail_open(&b, f, "GET", "/roots?wait=60s", "");
    expect_page(f, "/roots/stream", 429, "\"reason\":\"busy\"");
    expect_page(f, "/roots?wait=60s", 429, "\"code\":\"BACKPRESSURE\"");
    expect_page(f, "/roots", 200, page(0, 0, 0, 0)); /* who does not wait needs no place */
    assert_int_equal(feed_stats(f).refused, 2);
    tail_close(&b);
    fx_until(feed_stats(f).subs == 1);
    tail_stream(&b, f, "", "");
    feed_publish(f, 1);
    tail_expect_root(&b, 1);
    tail_close(&a);
    tail_close(&b);
    feed_close(f);
    assert_int_equal(led_roots_new(&(struct led_roots_opts){.subs_max = LED_ROOTS_SUBS_MAX + 1},
                                   &f->roots, NULL),
                     RON_LIMIT);
}

static void test_led_roots__no_place_for_streams_in_http__429(void **state)
{
    struct feed *f =
        feed_open((struct led_roots_opts){0}, (struct ron_http_opts){.streams_max = 1});

    (void)state;
    tail_stream(&a, f, "", "");
    expect_page(f, "/roots/stream", 429, "\"reason\":\"busy\"");
    fx_until(feed_stats(f).subs == 1);
    tail_close(&a);
    feed_close(f);
}

static void test_led_roots__drain__last_root_delivered_then_the_end(void **state)
{
    struct feed *f = feed_open((struct led_roots_opts){0}, (struct ron_http_opts){0});
    static struct tail poll;

    (void)state;
    tail_stream(&a, f, "", "");
    tail_stream(&b, f, "", "");
    tail_open(&poll, f, "GET", "/roots?since=1&wait=60s", "");
    feed_publish(f, 1);
    tail_expect_root(&a, 1);
    ron_au32_store(&f->stage.hold, 1); /* a stage before the publisher is still at work */
    ron_sup_request_stop(f->web.fx->sup);
    fx_await(f->web.fx, RON_SUP_EVENT_STATE, NULL, 2); /* running, draining */
    feed_publish(f, 2);
    tail_expect_root(&a, 2); /* while draining */
    expect_poll(&poll, page(2, 1, 1, 2));
    feed_publish(f, 3);
    fx_gate_add(&f->stage.release, 1);
    tail_expect_root(&a, 3);
    tail_expect_end(&a);
    tail_expect_root(&b, 1);
    tail_expect_root(&b, 2);
    tail_expect_root(&b, 3);
    tail_expect_end(&b);
    tail_close(&a);
    tail_close(&b);
    assert_int_equal(fx_join(f->web.fx), RON_EXIT_DRAINED);
    assert_int_equal(f->told_last, 3);
    feed_free(f);
}

static void test_led_roots__drain_with_nothing_new__poll_gets_an_empty_page(void **state)
{
    struct feed *f = feed_open((struct led_roots_opts){.head_seq = 4}, (struct ron_http_opts){0});

    (void)state;
    tail_open(&a, f, "GET", "/roots?since=4&wait=60s", "");
    fx_until(feed_stats(f).polls == 1);
    ron_sup_request_stop(f->web.fx->sup);
    expect_poll(&a, page(0, 0, 0, 4));
    assert_int_equal(fx_join(f->web.fx), RON_EXIT_DRAINED);
    feed_free(f);
}

/* ---- inside the process ---------------------------------------------------------------------- */

static void test_led_roots__every_root__told_in_order_and_to_the_signer(void **state)
{
    struct led_signer *signer = NULL;
    struct led_checkpoint c = {0};
    struct led_note note = {0};
    struct led_root_event last = feed_event(5000);
    struct ron_metrics *metrics = NULL;
    struct ron_buf out;
    struct feed *f;

    (void)state;
    assert_int_equal(led_signer_new(&(struct led_signer_opts){.env = ron_env_linux(),
                                                              .origin = RON_STR_LIT("l")},
                                    &signer, NULL),
                     RON_OK);
    f = feed_open((struct led_roots_opts){.signer = signer}, (struct ron_http_opts){0});
    for (uint64_t seq = 1; seq <= 5000; seq++) {
        feed_publish(f, seq);
        if (seq % 500 == 0) {
            assert_true(fx_gate_reached(&f->told, seq));
        }
    }
    fx_until(ron_au32_load(&f->roots->sub_count) == 0);
    assert_int_equal(ron_metrics_new(NULL, &metrics, NULL), RON_OK);
    assert_int_equal(led_roots_metrics(f->roots, metrics, NULL), RON_OK);
    assert_int_equal(led_roots_metrics(f->roots, metrics, NULL), RON_EXISTS);
    ron_buf_init(&out, RON_METRIC_TEXT_MAX);
    assert_int_equal(ron_metrics_write(metrics, &out), RON_OK);
    assert_non_null(strstr(ron_buf_text(&out), "\nroots_published_total 5000\n"));
    ron_metrics_free(metrics);
    feed_close(f);
    ron_buf_clear(&out);
    assert_int_equal(led_signer_save(signer, NULL), RON_OK);
    assert_int_equal(led_signer_published(signer, 0, &out, NULL), RON_OK);
    assert_int_equal(
        led_note_read((struct ron_str){ron_buf_text(&out), ron_buf_len(&out)}, &note, NULL),
        RON_OK);
    assert_int_equal(led_checkpoint_read(note.text, &c, NULL), RON_OK);
    assert_int_equal(c.size, 5000);
    assert_true(ron_tree_hash_equal(&c.root, &last.root));
    ron_buf_done(&out);
    led_signer_free(signer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_roots__page__complete_as_soon_as_published),
        cmocka_unit_test(test_led_roots__bad_parameter__named_in_a_400),
        cmocka_unit_test(test_led_roots__page_beyond_the_ring__asked_of_the_journal),
        cmocka_unit_test(test_led_roots__poll__answered_by_the_next_root),
        cmocka_unit_test(test_led_roots__poll_in_vain__empty_page_after_its_time),
        cmocka_unit_test(test_led_roots__poll_overtaken__empty_page_not_a_gap),
        cmocka_unit_test(test_led_roots__stream__each_root_with_its_id),
        cmocka_unit_test(test_led_roots__stream_from_long_ago__told_what_it_missed),
        cmocka_unit_test(test_led_roots__client_that_does_not_read__lags_alone_and_goes_on),
        cmocka_unit_test(test_led_roots__quiet_stream__beats),
        cmocka_unit_test(test_led_roots__head_request__answered_without_waiting),
        cmocka_unit_test(test_led_roots__too_many_subscribers__429_until_one_leaves),
        cmocka_unit_test(test_led_roots__no_place_for_streams_in_http__429),
        cmocka_unit_test(test_led_roots__drain__last_root_delivered_then_the_end),
        cmocka_unit_test(test_led_roots__drain_with_nothing_new__poll_gets_an_empty_page),
        cmocka_unit_test(test_led_roots__every_root__told_in_order_and_to_the_signer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
