/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: server-sent events reach who watches, in order; who is slow is told what it missed; places
 * are bounded and given back; a stream ends with its permission and with a drain.
 * Method: a server on real sockets with a bus of four messages, plain clients. */
#include "unit/http/fixture.h"

#include "ron/http/events.h"

enum { CAPACITY = 4, STREAMS = 2 };

static struct ron_http_events *events;
static struct fx_gate refused;
static enum ron_rc refused_rc;
static uint64_t until_ms;

struct message {
    char topic[8];
    uint32_t n;
};

static bool format(struct ron_buf *out, const void *message, const char *topic)
{
    const struct message *m = message;

    if (topic[0] != '\0' && strcmp(topic, m->topic) != 0) {
        return false;
    }
    RON_IGNORE(ron_buf_append_fmt(out, "event: %s\ndata: %u\n\n", m->topic, m->n));
    return true;
}

static void watch(struct ron_http_call *call, void *arg)
{
    enum ron_rc rc = ron_http_events_join(events, call, ron_http_param(call, 0), until_ms);

    (void)arg;
    if (rc != RON_OK) {
        refused_rc = rc;
        ron_http_fail(call, RON_HTTP_BUSY);
        fx_gate_add(&refused, 1);
    }
}

static void add_events(struct web *web)
{
    struct ron_err err = {0};

    assert_int_equal(
        ron_http_events_new(&(struct ron_http_events_opts){.registry = web->fx->reg,
                                                           .env = &web->fx->env,
                                                           .sup = web->fx->sup,
                                                           .bus_name = "events",
                                                           .chan_name = "streams",
                                                           .task_name = "audit",
                                                           .producers = "test",
                                                           .capacity = CAPACITY,
                                                           .message_bytes = sizeof(struct message),
                                                           .streams_max = STREAMS,
                                                           .stage = 2,
                                                           .greeting = "things",
                                                           .format = format},
                            &events, &err),
        RON_OK);
}

static struct web *open_web(void)
{
    static const struct ron_http_route routes[] = {
        {RON_HTTP_GET, "/watch/{topic}", watch, NULL, 0, 0}};
    struct web *web;

    until_ms = UINT64_MAX;
    fx_gate_init(&refused);
    web_add = add_events;
    web = web_open(2, (struct ron_http_opts){.routes = routes, .route_count = 1});
    web_add = NULL;
    return web;
}

static void close_web(struct web *web)
{
    assert_int_equal(fx_stop(web->fx), RON_EXIT_DRAINED);
    fx_end(web->fx);
    ron_http_events_free(events);
    assert_true(ron_http_server_free(web->server));
    fx_done(web->fx);
    fx_gate_done(&refused);
    fx_gate_done(&web->deferred);
    fx_gate_done(&web->refused);
    fx_gate_done(&web->answered);
    fx_gate_done(&web->stage.release);
    free(web->big);
    free(web);
}

static void tell(const char *topic, uint32_t n)
{
    struct message m = {.n = n};

    memcpy(m.topic, topic, strlen(topic));
    ron_http_events_publish(events, &m);
}

static void expect(struct cli *c, const char *text)
{
    while (strstr(c->in, text) == NULL) {
        if (!cli_more(c)) {
            fail_msg("ended without '%s': %s", text, c->in);
        }
    }
}

static void expect_over(struct cli *c)
{
    while (cli_more(c)) {
    }
}

static void join(struct cli *c, struct web *web, const char *request)
{
    cli_open(c, web);
    cli_say(c, request);
    expect(c, ": things\nretry: 1000\n\n");
}

#define WATCH(topic) "GET /watch/" topic " HTTP/1.1\r\nHost: a\r\n\r\n"

static void test_events__told__reach_who_wants_them_in_order(void **state)
{
    struct web *web = open_web();
    struct cli c;

    (void)state;
    assert_false(ron_http_events_watched(events));
    join(&c, web, WATCH("a"));
    assert_true(ron_http_events_watched(events));
    expect(&c, "text/event-stream");
    expect(&c, "no-store");
    tell("a", 1);
    tell("b", 2);
    tell("a", 3);
    expect(&c, "event: a\ndata: 1\n\n");
    expect(&c, "event: a\ndata: 3\n\n");
    assert_null(strstr(c.in, "event: b"));
    assert_true(strstr(c.in, "data: 1") < strstr(c.in, "data: 3"));
    cli_close(&c);
    close_web(web);
}

static void test_events__places__bounded_and_given_back(void **state)
{
    struct web *web = open_web();
    struct cli c[STREAMS + 1];

    (void)state;
    for (size_t i = 0; i < STREAMS; i++) {
        join(&c[i], web, WATCH("a"));
    }
    cli_open(&c[STREAMS], web);
    cli_say(&c[STREAMS], WATCH("a"));
    cli_expect(&c[STREAMS], 429, "busy");
    assert_true(fx_gate_reached(&refused, 1));
    assert_int_equal(refused_rc, RON_FULL);
    cli_close(&c[0]);
    fx_until(web_counters(web).streams == STREAMS - 1);
    cli_close(&c[STREAMS]);
    join(&c[0], web, WATCH("a"));
    for (size_t i = 0; i < STREAMS; i++) {
        cli_close(&c[i]);
    }
    close_web(web);
}

static void test_events__permission_ends__the_stream_says_so_and_ends(void **state)
{
    struct web *web = open_web();
    struct cli c;

    (void)state;
    until_ms = ron_env_wall_ms(&web->fx->env) + 30;
    join(&c, web, WATCH("a"));
    expect(&c, "event: expired\ndata: {}\n\n");
    expect(&c, "\r\n0\r\n\r\n"); /* the last chunk; the connection stays */
    fx_until(!ron_http_events_watched(events));
    cli_close(&c);
    close_web(web);
}

/* The bus keeps four: a hundred told at once while the task cannot run are mostly missed. */
static void test_events__too_many_at_once__the_number_missed_is_told(void **state)
{
    struct web *web = open_web();
    struct cli c;

    (void)state;
    join(&c, web, WATCH("a"));
    do {
        for (uint32_t i = 0; i < 100; i++) {
            tell("a", i);
        }
        assert_true(cli_more(&c));
        c.have = c.have > WEB_ANSWER_MAX / 2 ? 0 : c.have;
    } while (strstr(c.in, "event: lagged\ndata: {\"missed\":") == NULL);
    cli_close(&c);
    close_web(web);
}

static void test_events__drain__ends_the_streams(void **state)
{
    struct web *web = open_web();
    struct cli c;

    (void)state;
    join(&c, web, WATCH("a"));
    ron_sup_request_stop(web->fx->sup);
    expect_over(&c);
    cli_close(&c);
    close_web(web);
}

static void test_events__topic_too_long__refused(void **state)
{
    struct web *web = open_web();
    char request[RON_HTTP_EVENTS_TOPIC_MAX + 64];
    struct cli c;
    int len;

    (void)state;
    len = snprintf(request, sizeof request, "GET /watch/%0*d HTTP/1.1\r\nHost: a\r\n\r\n",
                   RON_HTTP_EVENTS_TOPIC_MAX + 1, 0);
    assert_true(len > 0 && (size_t)len < sizeof request);
    cli_open(&c, web);
    cli_say(&c, request);
    cli_expect(&c, 429, "busy");
    assert_true(fx_gate_reached(&refused, 1));
    assert_int_equal(refused_rc, RON_LIMIT);
    cli_close(&c);
    close_web(web);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events__told__reach_who_wants_them_in_order),
        cmocka_unit_test(test_events__places__bounded_and_given_back),
        cmocka_unit_test(test_events__permission_ends__the_stream_says_so_and_ends),
        cmocka_unit_test(test_events__too_many_at_once__the_number_missed_is_told),
        cmocka_unit_test(test_events__drain__ends_the_streams),
        cmocka_unit_test(test_events__topic_too_long__refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
