/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whatever a peer does not do in time ends in a typed way; who leaves is noticed; a drain
 * finishes what is under way; subscribers get events, and laggards are told or dropped.
 * Method: raw sockets against a running server with short limits. Waits are for answers and
 * counters, never for a time. */
#include "unit/wire/fixture.h"
#include "wire/frame.h"
#include "wire/wire_testing.h"

static void test_server__half_a_frame__read_timeout(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.read_timeout_ms = 30});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_send(&p, "\0\0\0\x36\0\1", 6);
    peer_expect(&p, 0, 408, 0, "read_timeout");
    peer_expect_end(&p);
    peer_close(&p);
    assert_int_equal(wire_counters(wire).read_timeouts, 1);
    wire_close(wire);
}

static void test_server__half_a_message__read_timeout(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.read_timeout_ms = 30});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_frame(&p, (struct ron_oap_head){.flags = RON_OAP_REQ | RON_OAP_START, .app = WIRE_APP}, "",
               "x", 1);
    peer_expect(&p, 0, 408, 0, "read_timeout");
    peer_expect_end(&p);
    peer_close(&p);
    assert_int_equal(fx_gate_count(&wire->echoed), 0); /* no half effect */
    wire_close(wire);
}

/* The answer that is still owed keeps the connection, and nothing is said twice meanwhile. */
static void test_server__half_a_frame_behind_a_held_request__told_once(void **state)
{
    struct wire *wire =
        wire_open(1, (struct ron_oap_opts){.read_timeout_ms = 20, .request_timeout_ms = 200});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_ask(&p, WIRE_APP, WIRE_DEFER, 7, "held");
    peer_send(&p, "\0\0\0\x36\0\1", 6);
    peer_expect(&p, 0, 408, 0, "read_timeout");
    peer_expect(&p, 7, 503, 0, "\"timeout\"");
    peer_expect_end(&p);
    assert_int_equal(wire_counters(wire).read_timeouts, 1);
    wire_send_reply(wire, 0);
    peer_close(&p);
    wire_close(wire);
}

/* As above for a connection that is closing for another reason. */
static void test_server__refused_for_good_with_a_held_request__no_read_timeout(void **state)
{
    struct wire *wire =
        wire_open(1, (struct ron_oap_opts){.read_timeout_ms = 20, .request_timeout_ms = 200});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_ask(&p, WIRE_APP, WIRE_DEFER, 7, "held");
    peer_send(&p, "\0\0\0\x01rest", 8);
    peer_expect(&p, 0, 400, 0, "bad_length");
    peer_expect(&p, 7, 503, 0, "\"timeout\"");
    peer_expect_end(&p);
    assert_int_equal(wire_counters(wire).read_timeouts, 0);
    wire_send_reply(wire, 0);
    peer_close(&p);
    wire_close(wire);
}

static void test_server__bytes_too_slow_on_average__cut_although_they_come(void **state)
{
    struct wire *wire =
        wire_open(1, (struct ron_oap_opts){.read_timeout_ms = 50, .rate_min_bytes_per_s = 1 << 20});
    struct peer p;
    struct ron_oap_frame f;
    uint8_t head[RON_OAP_HEADER_BYTES];
    struct timeval shortly = {.tv_usec = 5000};
    ssize_t got = -1;

    (void)state;
    peer_open(&p, wire);
    ron_oap_write_head(&(struct ron_oap_head){.flags = RON_OAP_REQ, .app = WIRE_APP}, 1000000,
                       head);
    peer_send(&p, head, sizeof head);
    assert_int_equal(setsockopt(p.fd, SOL_SOCKET, SO_RCVTIMEO, &shortly, sizeof shortly), 0);
    /* A byte each few milliseconds: never silent, always too slow. */
    while (got < 0) {
        (void)send(p.fd, "x", 1, MSG_NOSIGNAL);
        got = recv(p.fd, p.in, PEER_IN_BYTES, 0);
    }
    p.have = (size_t)got;
    assert_true(peer_next(&p, &f));
    assert_int_equal(f.head.code, 408);
    peer_close(&p);
    wire_close(wire);
}

static void test_server__nothing_said__idle_timeout_ends_with_fin(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.idle_timeout_ms = 20});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_hello(&p);
    peer_expect_end(&p);
    peer_close(&p);
    assert_int_equal(wire_counters(wire).idle_timeouts, 1);
    wire_close(wire);
}

static void test_server__peer_does_not_read__write_timeout(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.addr = "unix", .write_timeout_ms = 30});
    struct peer p;
    struct peer q;

    (void)state;
    peer_open(&p, wire);
    peer_open(&q, wire);
    peer_ask(&p, WIRE_APP, WIRE_BIG, 1, "4000000");
    peer_ask(&q, WIRE_APP, WIRE_ECHO, 1, "others are served"); /* meanwhile */
    peer_expect(&q, 1, 200, WIRE_APP, "others");
    fx_until(wire_counters(wire).write_timeouts == 1);
    fx_until(wire_counters(wire).connections == 1);
    peer_close(&p);
    peer_close(&q);
    wire_close(wire);
}

static void test_server__holder_too_slow__503_timeout_and_the_connection_lives(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.request_timeout_ms = 30});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_ask(&p, WIRE_APP, WIRE_DEFER, 1, "slow");
    peer_expect(&p, 1, 503, 0, "\"timeout\"");
    assert_true(ron_oap_reply_cancelled(wire_reply(wire, 0)));
    peer_ask(&p, WIRE_APP, WIRE_ECHO, 2, "alive");
    peer_expect(&p, 2, 200, WIRE_APP, "alive");
    wire_send_reply(wire, 0);
    fx_until(wire_counters(wire).late_replies == 1);
    peer_ask(&p, WIRE_APP, WIRE_ECHO, 3, "alive");
    peer_expect(&p, 3, 200, WIRE_APP, "alive"); /* and not the late answer */
    peer_close(&p);
    wire_close(wire);
}

static void test_server__peer_leaves_in_mid_request__holder_learns_it(void **state)
{
    struct wire *wire = wire_open(2, (struct ron_oap_opts){.addr = "unix"});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_ask(&p, WIRE_APP, WIRE_DEFER, 1, "x");
    peer_ask(&p, WIRE_APP, WIRE_DEFER, 2, "y");
    (void)wire_reply(wire, 1);
    assert_false(ron_oap_reply_cancelled(wire_reply(wire, 0)));
    peer_close(&p);
    fx_until(ron_oap_reply_cancelled(wire_reply(wire, 0)));
    fx_until(ron_oap_reply_cancelled(wire_reply(wire, 1)));
    wire_send_reply(wire, 1); /* The request's bytes are still there. */
    wire_send_reply(wire, 0);
    fx_until(wire_counters(wire).inflight == 0);
    fx_until(wire_counters(wire).connections == 0);
    wire_close(wire);
}

static void test_server__peer_cancels__that_holder_learns_it(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){0});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_ask(&p, WIRE_APP, WIRE_DEFER, 1, "x");
    peer_ask(&p, WIRE_APP, WIRE_DEFER, 2, "y");
    (void)wire_reply(wire, 1);
    peer_frame(&p,
               (struct ron_oap_head){
                   .flags = RON_OAP_EVENT, .code = RON_OAP_CTL_CANCEL, .corr_id = 2, .tenant = 5},
               "", "", 0);
    fx_until(ron_oap_reply_cancelled(wire_reply(wire, 1)));
    assert_false(ron_oap_reply_cancelled(wire_reply(wire, 0)));
    wire_send_reply(wire, 1);
    peer_expect(&p, 2, 200, WIRE_APP, "y"); /* still answered: the slot is the peer's to free */
    wire_send_reply(wire, 0);
    peer_expect(&p, 1, 200, WIRE_APP, "x");
    peer_close(&p);
    wire_close(wire);
}

/* ---- drain ----------------------------------------------------------------------------------- */

static void test_server__drain__told_finished_refused_and_closed(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){0});
    struct peer busy;
    struct peer idle;
    struct ron_oap_frame f;

    (void)state;
    peer_open(&busy, wire);
    peer_open(&idle, wire);
    peer_hello(&busy);
    peer_ask(&idle, WIRE_APP, WIRE_ECHO, 1, "no hello");
    peer_expect(&idle, 1, 200, WIRE_APP, "no hello");
    peer_ask(&busy, WIRE_APP, WIRE_DEFER, 2, "under way");
    (void)wire_reply(wire, 0);
    ron_au32_store(&wire->stage.hold, 1);
    ron_sup_request_stop(wire->fx->sup);
    peer_expect_end(&idle);
    assert_true(peer_next(&busy, &f));
    assert_int_equal(f.head.flags, RON_OAP_EVENT);
    assert_int_equal(f.head.code, RON_OAP_CTL_DRAINING);
    peer_ask(&busy, WIRE_APP, WIRE_ECHO, 3, "too late");
    peer_expect(&busy, 3, 503, 0, "\"draining\"");
    peer_ask(&busy, WIRE_ALWAYS, WIRE_ECHO, 4, "health");
    peer_expect(&busy, 4, 200, WIRE_ALWAYS, "health");
    wire_send_reply(wire, 0);
    peer_expect(&busy, 2, 200, WIRE_APP, "under way");
    fx_gate_add(&wire->stage.release, 1);
    peer_expect_end(&busy);
    peer_close(&busy);
    peer_close(&idle);
    wire_close(wire);
}

static void test_server__stopped_while_a_reply_is_held__unknown_is_told(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){0});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_ask(&p, WIRE_APP, WIRE_DEFER, 1, "x");
    (void)wire_reply(wire, 0);
    assert_int_equal(fx_stop(wire->fx), RON_EXIT_DRAINED);
    peer_expect(&p, 1, 503, 0, "\"timeout\"");
    peer_expect_end(&p);
    peer_close(&p);
    ron_oap_reply_refuse(wire_reply(wire, 0), RON_OAP_DRAINING);
    wire_free(wire);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void subscribe(struct peer *p, const char *what)
{
    peer_ask(p, 0, RON_OAP_CTL_SUBSCRIBE, 50, what);
    peer_expect(p, 50, 200, 0, "{}");
}

static void test_server__published__subscribers_of_that_app_get_it(void **state)
{
    struct wire *wire = wire_open(2, (struct ron_oap_opts){.addr = "unix"});
    struct peer p[3];
    struct ron_oap_frame f;

    (void)state;
    for (int i = 0; i < 3; i++) {
        peer_open(&p[i], wire);
        peer_hello(&p[i]);
    }
    assert_false(ron_oap_has_subscribers(wire->server, WIRE_APP));
    subscribe(&p[0], "{\"app\":100}");
    assert_true(ron_oap_has_subscribers(wire->server, WIRE_APP));
    assert_false(ron_oap_has_subscribers(wire->server, WIRE_ALWAYS));
    assert_false(ron_oap_has_subscribers(wire->server, 7));
    subscribe(&p[1], "{\"app\":100}");
    subscribe(&p[1], "{\"app\":100}"); /* again is nothing */
    subscribe(&p[1], "{\"app\":101}");
    assert_true(ron_oap_has_subscribers(wire->server, WIRE_ALWAYS));
    peer_ask(&p[2], 0, RON_OAP_CTL_SUBSCRIBE, 51, "{\"app\":7}");
    peer_expect(&p[2], 51, 404, 0, "not_found");
    assert_int_equal(wire_counters(wire).subscribers, 2);
    assert_int_equal(ron_oap_publish(wire->server, WIRE_APP, 9, "root", 4), RON_OK);
    assert_int_equal(ron_oap_publish(wire->server, WIRE_ALWAYS, 8, "", 0), RON_OK);
    assert_int_equal(ron_oap_publish(wire->server, WIRE_APP, 1, wire->big, 1025), RON_LIMIT);
    for (int i = 0; i < 2; i++) {
        assert_true(peer_next(&p[i], &f));
        assert_int_equal(f.head.flags, RON_OAP_EVENT);
        assert_int_equal(f.head.app, WIRE_APP);
        assert_int_equal(f.head.code, 9);
        assert_int_equal(f.payload_len, 4);
        assert_memory_equal(f.payload, "root", 4);
    }
    assert_true(peer_next(&p[1], &f));
    assert_int_equal(f.head.app, WIRE_ALWAYS);
    peer_ask(&p[0], 0, RON_OAP_CTL_UNSUBSCRIBE, 52, "{\"app\":100}");
    peer_expect(&p[0], 52, 200, 0, "{}");
    peer_ask(&p[0], 0, RON_OAP_CTL_UNSUBSCRIBE, 53, "{\"app\":100}");
    peer_expect(&p[0], 53, 404, 0, "not_found");
    assert_int_equal(ron_oap_publish(wire->server, WIRE_APP, 9, "more", 4), RON_OK);
    assert_true(peer_next(&p[1], &f));
    assert_memory_equal(f.payload, "more", 4);
    peer_ask(&p[0], 0, RON_OAP_CTL_PING, 54, "");
    peer_expect(&p[0], 54, 200, 0, ""); /* nothing in between */
    assert_true(ron_oap_has_subscribers(wire->server, WIRE_APP));
    peer_ask(&p[1], 0, RON_OAP_CTL_UNSUBSCRIBE, 55, "{\"app\":101}");
    peer_expect(&p[1], 55, 200, 0, "{}");
    assert_false(ron_oap_has_subscribers(wire->server, WIRE_ALWAYS));
    peer_close(&p[1]);
    fx_until(!ron_oap_has_subscribers(wire->server, WIRE_APP));
    peer_open(&p[1], wire);
    for (int i = 0; i < 3; i++) {
        peer_close(&p[i]);
    }
    wire_close(wire);
}

static void subscribe_with(struct peer *p, const char *cap, unsigned status, const char *text)
{
    static const char what[] = "{\"app\":100}";
    struct ron_oap_head head = {.flags = RON_OAP_REQ | RON_OAP_START | RON_OAP_END,
                                .code = RON_OAP_CTL_SUBSCRIBE,
                                .cap_len = (uint16_t)strlen(cap),
                                .corr_id = 60};

    peer_frame(p, head, cap, what, sizeof what - 1);
    peer_expect(p, 60, (uint16_t)status, 0, text);
}

static void test_server__app_that_asks_who_subscribes__only_the_allowed_hear(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.addr = "unix"});
    struct ron_oap_frame f;
    struct peer p;

    (void)state;
    ron_au32_store(&wire->subscribe_no, RON_OAP_FORBIDDEN);
    peer_open(&p, wire);
    peer_hello(&p);
    peer_ask(&p, 0, RON_OAP_CTL_SUBSCRIBE, 51, "{\"app\":100}");
    peer_expect(&p, 51, 403, 0, "forbidden");
    subscribe_with(&p, "cup", 403, "forbidden");
    assert_int_equal(wire_counters(wire).subscribers, 0);
    assert_false(ron_oap_has_subscribers(wire->server, WIRE_APP));
    peer_ask(&p, 0, RON_OAP_CTL_UNSUBSCRIBE, 52, "{\"app\":100}"); /* leaving is not asked about */
    peer_expect(&p, 52, 404, 0, "not_found");
    assert_int_equal(ron_au32_load(&wire->subscribe_asked), 2);
    subscribe_with(&p, "cap", 200, "{}"); /* the connection is still there */
    assert_int_equal(ron_oap_publish(wire->server, WIRE_APP, 9, "told", 4), RON_OK);
    assert_true(peer_next(&p, &f));
    assert_int_equal(f.payload_len, 4);
    assert_memory_equal(f.payload, "told", 4);
    peer_close(&p);
    wire_close(wire);
}

/* Publishes until the subscriber that does not read has lost some. */
static uint64_t publish_until_lost(struct wire *wire)
{
    uint64_t sent = 0;

    while (wire_counters(wire).lagged == 0) {
        assert_int_equal(ron_oap_publish(wire->server, WIRE_APP, 1, wire->big, 1000), RON_OK);
        sent++;
        /* Not faster than the worker takes them, or the bus itself would lag. */
        fx_until(wire_counters(wire).events + wire_counters(wire).lagged >= sent);
    }
    return sent;
}

static void test_server__subscriber_does_not_read__loses_some_and_is_told_how_many(void **state)
{
    struct wire *wire =
        wire_open(1, (struct ron_oap_opts){.addr = "unix", .subscriber_bytes = 8192});
    struct peer p;
    struct ron_oap_frame f;
    uint64_t sent;
    uint64_t seen = 0;

    (void)state;
    peer_open(&p, wire);
    peer_hello(&p);
    subscribe(&p, "{\"app\":100}");
    sent = publish_until_lost(wire);
    do {
        assert_true(peer_next(&p, &f));
        assert_int_equal(f.head.flags, RON_OAP_EVENT);
        seen += f.head.app == WIRE_APP;
    } while (f.head.app == WIRE_APP);
    assert_int_equal(f.head.code, RON_OAP_CTL_LAGGED);
    assert_int_equal(f.payload_len, strlen("{\"app\":100,\"missed\":1}"));
    assert_memory_equal(f.payload, "{\"app\":100,\"missed\":1}", f.payload_len);
    assert_int_equal(seen + 1, sent);
    assert_int_equal(ron_oap_publish(wire->server, WIRE_APP, 2, "on", 2), RON_OK);
    assert_true(peer_next(&p, &f));
    assert_int_equal(f.head.code, 2);
    peer_close(&p);
    wire_close(wire);
}

/* Publishes events of an app until the subscriber has lost one of them. */
static void publish_until_lost_of(struct wire *wire, uint16_t app)
{
    uint64_t lost = wire_counters(wire).lagged;
    uint64_t base = wire_counters(wire).events + lost;

    for (uint64_t sent = 1; wire_counters(wire).lagged == lost; sent++) {
        assert_int_equal(ron_oap_publish(wire->server, app, 1, wire->big, 1000), RON_OK);
        fx_until(wire_counters(wire).events + wire_counters(wire).lagged >= base + sent);
    }
}

static void test_server__lost_events_of_two_apps__told_of_each(void **state)
{
    struct wire *wire =
        wire_open(1, (struct ron_oap_opts){.addr = "unix", .subscriber_bytes = 8192});
    struct peer p;
    struct ron_oap_frame f;

    (void)state;
    peer_open(&p, wire);
    peer_hello(&p);
    subscribe(&p, "{\"app\":100}");
    subscribe(&p, "{\"app\":101}");
    publish_until_lost_of(wire, WIRE_APP);
    publish_until_lost_of(wire, WIRE_ALWAYS);
    publish_until_lost_of(wire, WIRE_ALWAYS);
    do {
        assert_true(peer_next(&p, &f));
    } while (f.head.app != 0);
    assert_int_equal(f.head.code, RON_OAP_CTL_LAGGED);
    assert_int_equal(f.payload_len, strlen("{\"app\":100,\"missed\":1}"));
    assert_memory_equal(f.payload, "{\"app\":100,\"missed\":1}", f.payload_len);
    assert_true(peer_next(&p, &f));
    assert_int_equal(f.head.app, 0);
    assert_int_equal(f.head.code, RON_OAP_CTL_LAGGED);
    assert_memory_equal(f.payload, "{\"app\":101,\"missed\":2}", f.payload_len);
    peer_close(&p);
    wire_close(wire);
}

static void test_server__subscriber_does_not_read__dropped_if_so_decided(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.addr = "unix",
                                                           .subscriber_bytes = 8192,
                                                           .lag_policy = RON_OAP_LAG_DISCONNECT});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_hello(&p);
    subscribe(&p, "{\"app\":100}");
    (void)publish_until_lost(wire);
    fx_until(wire_counters(wire).connections == 0);
    peer_close(&p);
    wire_close(wire);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_server__half_a_frame__read_timeout),
        cmocka_unit_test(test_server__half_a_message__read_timeout),
        cmocka_unit_test(test_server__half_a_frame_behind_a_held_request__told_once),
        cmocka_unit_test(test_server__refused_for_good_with_a_held_request__no_read_timeout),
        cmocka_unit_test(test_server__bytes_too_slow_on_average__cut_although_they_come),
        cmocka_unit_test(test_server__nothing_said__idle_timeout_ends_with_fin),
        cmocka_unit_test(test_server__peer_does_not_read__write_timeout),
        cmocka_unit_test(test_server__holder_too_slow__503_timeout_and_the_connection_lives),
        cmocka_unit_test(test_server__peer_leaves_in_mid_request__holder_learns_it),
        cmocka_unit_test(test_server__peer_cancels__that_holder_learns_it),
        cmocka_unit_test(test_server__drain__told_finished_refused_and_closed),
        cmocka_unit_test(test_server__stopped_while_a_reply_is_held__unknown_is_told),
        cmocka_unit_test(test_server__published__subscribers_of_that_app_get_it),
        cmocka_unit_test(test_server__app_that_asks_who_subscribes__only_the_allowed_hear),
        cmocka_unit_test(test_server__subscriber_does_not_read__loses_some_and_is_told_how_many),
        cmocka_unit_test(test_server__lost_events_of_two_apps__told_of_each),
        cmocka_unit_test(test_server__subscriber_does_not_read__dropped_if_so_decided),
    };
    return cmocka_run_group_tests_name("unit.wire.server_time", tests, NULL, NULL);
}
