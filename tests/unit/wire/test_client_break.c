/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: when a connection breaks, each call says truly whether it may have been acted on; what did
 * not leave whole is sent again; a server that is absent, silent, leaving or out of its mind is
 * dealt with.
 * Method: the client against a server that the test thread plays by hand and breaks off where it
 * matters. */
#include "unit/wire/asks.h"
#include "wire/wire_testing.h"

static const struct ron_retry_curve quick = {
    .tries_max = 1, .first_ms = 1, .factor = 2, .base_max_ms = 10};

/* A running client whose server is `stage`; the fixture's own server stands idle beside it. */
static struct wire *open_against(struct stage *stage, struct ron_oap_client_opts o)
{
    struct wire *wire = wire_build(1, (struct ron_oap_opts){0});

    stage_open(stage);
    o.addr = stage->addr;
    o.backoff = &quick;
    (void)wire_client(wire, o);
    fx_start(wire->fx);
    return wire;
}

static void test_client__connection_breaks_before_the_answer__unknown_then_goes_on(void **state)
{
    struct stage stage;
    struct wire *wire = open_against(&stage, (struct ron_oap_client_opts){0});
    struct ron_oap_head head;
    struct peer peer;
    struct probe p[2];

    (void)state;
    probe_text(&p[0], WIRE_ECHO, "lost");
    probe_text(&p[1], WIRE_ECHO, "found");
    assert_int_equal(ron_oap_ask_send(wire->client, &p[0].ask), RON_OK);
    stage_accept(&stage, &peer);
    stage_hello(&peer, 64);
    (void)stage_request(&peer);
    peer_close(&peer);
    probe_expect(&p[0], RON_OAP_UNKNOWN, RON_CLOSED);
    assert_int_equal(ron_oap_ask_send(wire->client, &p[1].ask), RON_OK);
    stage_accept(&stage, &peer);
    stage_hello(&peer, 64);
    head = stage_request(&peer);
    stage_answer(&peer, &head, WIRE_APP, 200, "found");
    probe_answered(&p[1], "found");
    peer_close(&peer);
    probe_free(&p[0]);
    probe_free(&p[1]);
    wire_close(wire);
    stage_close(&stage);
}

static void test_client__breaks_during_hello__queued_calls_survive_it(void **state)
{
    struct stage stage;
    struct wire *wire = open_against(&stage, (struct ron_oap_client_opts){0});
    struct ron_oap_frame f;
    struct ron_oap_head head;
    struct peer peer;
    struct probe p;

    (void)state;
    probe_text(&p, WIRE_ECHO, "x");
    assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
    stage_accept(&stage, &peer);
    peer_close(&peer);
    stage_accept(&stage, &peer);
    assert_true(peer_next(&peer, &f));
    stage_answer(&peer, &f.head, 0, 503, "{\"reason\":\"connections\"}"); /* refused */
    peer_close(&peer);
    stage_accept(&stage, &peer);
    stage_hello(&peer, 64);
    head = stage_request(&peer);
    stage_answer(&peer, &head, WIRE_APP, 200, "x");
    probe_answered(&p, "x");
    assert_int_equal(wire_client_counters(wire->client).connects, 3);
    assert_int_equal(wire_client_counters(wire->client).retries, 2);
    peer_close(&peer);
    probe_free(&p);
    wire_close(wire);
    stage_close(&stage);
}

static void test_client__request_not_taken_whole__sent_again_in_order(void **state)
{
    struct stage stage;
    struct wire *wire = open_against(&stage, (struct ron_oap_client_opts){.message_max = 64 << 20});
    size_t huge = 32 << 20; /* more than any socket buffer takes */
    uint8_t *bytes = malloc(huge);
    struct ron_oap_frame f;
    struct peer peer;
    struct probe whole;
    struct probe half;
    struct probe after;
    size_t got = 0;
    uint64_t last;

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 'h', huge);
    probe_text(&whole, WIRE_ECHO, "whole");
    probe_init(&half, WIRE_ECHO, bytes, huge);
    probe_text(&after, WIRE_ECHO, "after");
    assert_int_equal(ron_oap_ask_send(wire->client, &whole.ask), RON_OK);
    stage_accept(&stage, &peer);
    stage_hello(&peer, 64);
    (void)stage_request(&peer);
    assert_int_equal(ron_oap_ask_send(wire->client, &half.ask), RON_OK);
    assert_true(peer_next(&peer, &f)); /* The first piece is here, so the rest is under way. */
    assert_int_equal(ron_oap_ask_send(wire->client, &after.ask), RON_OK);
    peer_close(&peer);
    probe_expect(&whole, RON_OAP_UNKNOWN, RON_CLOSED);
    stage_accept(&stage, &peer);
    stage_hello(&peer, 64);
    do {
        assert_true(peer_next(&peer, &f));
        got += f.payload_len;
        last = f.head.corr_id;
    } while ((f.head.flags & RON_OAP_END) == 0);
    assert_int_equal(got, huge);
    f.head.corr_id = last;
    stage_answer(&peer, &f.head, WIRE_APP, 200, "half");
    probe_answered(&half, "half");
    f.head = stage_request(&peer);
    stage_answer(&peer, &f.head, WIRE_APP, 200, "after");
    probe_answered(&after, "after");
    assert_true(wire_client_counters(wire->client).resent >= 1);
    peer_close(&peer);
    probe_free(&whole);
    probe_free(&half);
    probe_free(&after);
    wire_close(wire);
    stage_close(&stage);
    free(bytes);
}

/* A client that fails fast does so while a connection is being tried again, not for ever after. */
static void test_client__fail_fast__goes_on_when_somebody_is_there_again(void **state)
{
    struct stage stage;
    struct wire *wire = open_against(&stage, (struct ron_oap_client_opts){.fail_fast = true});
    struct ron_deadline end = ron_deadline_after_ms(ron_mono_ns(), FX_WAIT_MS);
    struct ron_oap_head head;
    struct peer peer;
    struct probe p;

    (void)state;
    probe_text(&p, WIRE_ECHO, "lost");
    assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
    stage_accept(&stage, &peer);
    peer_close(&peer); /* before its HELLO: a failure */
    probe_expect(&p, RON_OAP_NOT_SENT, RON_CLOSED);
    probe_free(&p);
    /* Until one of them is the next try; those before end at once. */
    for (bool tried = false; !tried;) {
        assert_false(ron_deadline_expired(end, ron_mono_ns()));
        probe_text(&p, WIRE_ECHO, "found");
        assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
        while (!tried && fx_gate_count(&p.done) == 0) {
            tried = wire_client_counters(wire->client).connects >= 2;
        }
        if (!tried) {
            probe_expect(&p, RON_OAP_NOT_SENT, RON_CLOSED);
            probe_free(&p);
        }
    }
    stage_accept(&stage, &peer);
    stage_hello(&peer, 64);
    head = stage_request(&peer);
    stage_answer(&peer, &head, WIRE_APP, 200, "found");
    probe_answered(&p, "found");
    peer_close(&peer);
    probe_free(&p);
    wire_close(wire);
    stage_close(&stage);
}

static void test_client__nobody_there__not_sent(void **state)
{
    static const bool fast[] = {false, true};

    (void)state;
    for (int i = 0; i < 2; i++) {
        uint64_t limit_ms = fast[i] ? FX_WAIT_MS : 50;
        struct stage stage;
        struct wire *wire;

        stage_reserve(&stage);
        wire = wire_build(1, (struct ron_oap_opts){0});
        (void)wire_client(wire, (struct ron_oap_client_opts){
                                    .addr = stage.addr, .backoff = &quick, .fail_fast = fast[i]});
        fx_start(wire->fx);
        /* On a busy machine a short time is over before the first try; a longer one follows. */
        do {
            struct probe p;

            probe_text(&p, WIRE_ECHO, "x");
            p.ask.deadline = ron_deadline_after_ms(ron_mono_ns(), limit_ms);
            assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
            probe_expect(&p, RON_OAP_NOT_SENT, fast[i] ? RON_CLOSED : RON_TIMEOUT);
            probe_free(&p);
            limit_ms *= 4;
        } while (wire_client_counters(wire->client).retries == 0 && limit_ms <= FX_WAIT_MS);
        assert_true(wire_client_counters(wire->client).retries >= 1);
        assert_int_equal(wire_client_counters(wire->client).connected, 0);
        wire_close(wire);
        stage_close(&stage);
    }
}

static void test_client__server_says_nothing__given_up_in_time(void **state)
{
    struct stage stage;
    struct wire *wire = open_against(
        &stage, (struct ron_oap_client_opts){.stall_ms = 50, .connect_timeout_ms = 50});
    struct peer peer;
    struct peer again;
    struct probe p;

    (void)state;
    probe_text(&p, WIRE_ECHO, "x");
    assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
    stage_accept(&stage, &peer); /* no HELLO answer at all */
    stage_accept(&stage, &again);
    assert_int_equal(wire_client_counters(wire->client).connect_timeouts, 1);
    stage_hello(&again, 64);
    (void)stage_request(&again); /* and no answer to the call */
    probe_expect(&p, RON_OAP_UNKNOWN, RON_TIMEOUT);
    assert_int_equal(wire_client_counters(wire->client).stalls, 1);
    peer_close(&peer);
    peer_close(&again);
    probe_free(&p);
    wire_close(wire);
    stage_close(&stage);
}

static void test_client__idle__kept_alive_with_ping(void **state)
{
    struct stage stage;
    struct wire *wire = open_against(&stage, (struct ron_oap_client_opts){.keepalive_ms = 20});
    struct ron_oap_head head;
    struct ron_oap_frame f;
    struct peer peer;
    struct probe p;

    (void)state;
    probe_text(&p, WIRE_ECHO, "x");
    assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
    stage_accept(&stage, &peer);
    stage_hello(&peer, 64);
    head = stage_request(&peer);
    stage_answer(&peer, &head, WIRE_APP, 200, "x");
    for (int i = 0; i < 3; i++) {
        assert_true(peer_next(&peer, &f));
        assert_int_equal(f.head.app, 0);
        assert_int_equal(f.head.code, RON_OAP_CTL_PING);
        stage_answer(&peer, &f.head, 0, 200, "");
    }
    probe_answered(&p, "x");
    peer_close(&peer);
    probe_free(&p);
    wire_close(wire);
    stage_close(&stage);
}

static void test_client__server_drains__left_when_the_answers_are_there(void **state)
{
    struct stage stage;
    struct wire *wire = open_against(&stage, (struct ron_oap_client_opts){0});
    struct ron_oap_head head;
    struct peer old;
    struct peer new;
    struct probe p[2];

    (void)state;
    probe_text(&p[0], WIRE_ECHO, "old");
    probe_text(&p[1], WIRE_ECHO, "new");
    assert_int_equal(ron_oap_ask_send(wire->client, &p[0].ask), RON_OK);
    stage_accept(&stage, &old);
    stage_hello(&old, 64);
    head = stage_request(&old);
    peer_frame(&old, (struct ron_oap_head){.flags = RON_OAP_EVENT, .code = RON_OAP_CTL_DRAINING},
               "", "", 0);
    stage_answer(&old, &head, WIRE_APP, 200, "old");
    probe_answered(&p[0], "old");
    peer_expect_end(&old); /* Nothing more was sent there, and it was the client who left. */
    assert_int_equal(ron_oap_ask_send(wire->client, &p[1].ask), RON_OK);
    stage_accept(&stage, &new);
    stage_hello(&new, 64);
    head = stage_request(&new);
    stage_answer(&new, &head, WIRE_APP, 200, "new");
    probe_answered(&p[1], "new");
    assert_int_equal(wire_client_counters(wire->client).unknown, 0);
    peer_close(&old);
    peer_close(&new);
    probe_free(&p[0]);
    probe_free(&p[1]);
    wire_close(wire);
    stage_close(&stage);
}

/* A server ends who says nothing, however much it has to say itself: so a subscriber that hears
 * events all the time must speak up too. */
static void test_client__events_all_the_time__kept_alive_with_ping(void **state)
{
    static const uint16_t apps[] = {WIRE_APP};
    struct stage stage;
    struct wire *wire = open_against(
        &stage,
        (struct ron_oap_client_opts){.keepalive_ms = 300, .subscribe = apps, .subscribe_count = 1});
    struct timeval shortly = {.tv_usec = 4000};
    struct ron_oap_frame f;
    struct peer peer;
    bool pinged = false;

    (void)state;
    stage_accept(&stage, &peer);
    stage_hello(&peer, 64);
    assert_true(peer_next(&peer, &f));
    assert_int_equal(f.head.code, RON_OAP_CTL_SUBSCRIBE);
    stage_answer(&peer, &f.head, 0, 200, "{}");
    assert_int_equal(setsockopt(peer.fd, SOL_SOCKET, SO_RCVTIMEO, &shortly, sizeof shortly), 0);
    for (int i = 0; i < 500 && !pinged; i++) {
        struct ron_oap_head event = {.flags = RON_OAP_EVENT, .app = WIRE_APP, .code = 1};

        peer_frame(&peer, event, "", "news", 4);
        pinged = recv(peer.fd, peer.in, PEER_IN_BYTES, 0) > 0;
    }
    assert_true(pinged);
    peer_close(&peer);
    wire_close(wire);
    stage_close(&stage);
}

/* ---- what the client itself must not do ------------------------------------------------------ */

/* Small frames and a long capability: cut so that the whole stays near its own size. */
static void test_client__long_capability_and_small_frames__sent_all_the_same(void **state)
{
    struct stage stage;
    struct wire *wire = open_against(&stage, (struct ron_oap_client_opts){.message_max = 1 << 20});
    size_t len = 1 << 20;
    uint8_t *bytes = calloc(1, len);
    char cap[4000];
    struct ron_oap_frame f;
    struct peer peer;
    struct probe p;
    size_t got = 0;

    (void)state;
    assert_non_null(bytes);
    memset(cap, 'c', sizeof cap);
    probe_init(&p, WIRE_ECHO, bytes, len);
    p.ask.cap = cap;
    p.ask.cap_len = sizeof cap;
    assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
    stage_accept(&stage, &peer);
    assert_true(peer_next(&peer, &f));
    stage_answer(&peer, &f.head, 0, 200, "{\"max_frame\":4096,\"max_inflight\":64}");
    do {
        assert_true(peer_next(&peer, &f));
        assert_true(f.frame_len <= 4096);
        got += f.payload_len;
    } while ((f.head.flags & RON_OAP_END) == 0);
    assert_int_equal(got, len);
    stage_answer(&peer, &f.head, WIRE_APP, 200, "got it");
    probe_answered(&p, "got it");
    assert_int_equal(wire_client_counters(wire->client).connects, 1);
    peer_close(&peer);
    probe_free(&p);
    wire_close(wire);
    stage_close(&stage);
    free(bytes);
}

struct spark {
    struct probe late; /* ends when it is taken up, because its time is over */
    struct probe next; /* sent and cancelled there and then */
    struct ron_oap_client *client;
    enum ron_rc rc;
};

static void send_and_cancel(struct ron_oap_ask *ask)
{
    struct spark *s = RON_CONTAINER_OF(ask, struct spark, late.ask);

    s->rc = ron_oap_ask_send(s->client, &s->next.ask);
    ron_oap_ask_cancel(&s->next.ask);
    probe_done(ask);
}

/* The moment between taking what was submitted and looking for cancels: an ask that is sent and
 * cancelled just then is in neither place. */
static void test_client__cancelled_before_it_was_taken_up__ends_at_once(void **state)
{
    struct stage stage;
    struct wire *wire = open_against(&stage, (struct ron_oap_client_opts){0});
    struct spark s = {.client = wire->client};

    (void)state;
    probe_text(&s.late, WIRE_ECHO, "late");
    probe_text(&s.next, WIRE_ECHO, "next");
    s.late.ask.done = send_and_cancel;
    s.late.ask.deadline.at_ns = 1;
    assert_int_equal(ron_oap_ask_send(wire->client, &s.late.ask), RON_OK);
    probe_expect(&s.late, RON_OAP_NOT_SENT, RON_TIMEOUT);
    assert_int_equal(s.rc, RON_OK);
    probe_expect(&s.next, RON_OAP_NOT_SENT, RON_CANCELLED);
    probe_free(&s.late);
    probe_free(&s.next);
    wire_close(wire);
    stage_close(&stage);
}

/* ---- a server out of its mind ---------------------------------------------------------------- */

static void insane(const char *bytes, size_t len, unsigned flags, enum ron_rc rc)
{
    struct stage stage;
    struct wire *wire = open_against(&stage, (struct ron_oap_client_opts){0});
    struct ron_oap_head head;
    struct peer peer;
    struct probe p;

    probe_text(&p, WIRE_ECHO, "x");
    assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
    stage_accept(&stage, &peer);
    stage_hello(&peer, 64);
    head = stage_request(&peer);
    if (flags != 0) {
        head.flags = (uint16_t)flags;
        peer_frame(&peer, head, "", "x", 1);
    } else {
        peer_send(&peer, bytes, len);
    }
    probe_expect(&p, RON_OAP_UNKNOWN, rc);
    peer_close(&peer);
    probe_free(&p);
    wire_close(wire);
    stage_close(&stage);
}

static void test_client__server_breaks_the_protocol__unknown(void **state)
{
    (void)state;
    insane("HTTP/1.1 400 Bad Request\r\n", 26, 0, RON_CORRUPT);
    insane("\0\0\0\x05", 4, 0, RON_CORRUPT);
    insane("", 0, RON_OAP_RESP | RON_OAP_END, RON_CORRUPT);
    insane("", 0, RON_OAP_REQ, RON_CORRUPT);
    insane("", 0, RON_OAP_RESP | RON_OAP_COMP, RON_CORRUPT); /* which nobody offered */
}

static void test_client__answer_changes_its_mind__unknown(void **state)
{
    static const struct {
        uint16_t app;
        uint16_t code;
    } second[] = {{WIRE_APP, 409}, {WIRE_ALWAYS, 200}, {0, 200}};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(second); i++) {
        struct stage stage;
        struct wire *wire = open_against(&stage, (struct ron_oap_client_opts){0});
        struct ron_oap_head head;
        struct peer peer;
        struct probe p;

        probe_text(&p, WIRE_ECHO, "x");
        assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
        stage_accept(&stage, &peer);
        stage_hello(&peer, 64);
        head = stage_request(&peer);
        head.code = 200;
        head.flags = RON_OAP_RESP | RON_OAP_START;
        peer_frame(&peer, head, "", "x", 1);
        head.app = second[i].app;
        head.code = second[i].code;
        head.flags = RON_OAP_RESP | RON_OAP_END;
        peer_frame(&peer, head, "", "y", 1);
        probe_expect(&p, RON_OAP_UNKNOWN, RON_CORRUPT);
        peer_close(&peer);
        probe_free(&p);
        wire_close(wire);
        stage_close(&stage);
    }
}

static void test_client__answer_of_another_app__unknown(void **state)
{
    struct stage stage;
    struct wire *wire = open_against(&stage, (struct ron_oap_client_opts){0});
    struct ron_oap_head head;
    struct peer peer;
    struct probe p;

    (void)state;
    probe_text(&p, WIRE_ECHO, "x");
    assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
    stage_accept(&stage, &peer);
    stage_hello(&peer, 64);
    head = stage_request(&peer);
    stage_answer(&peer, &head, WIRE_ALWAYS, 200, "not mine");
    probe_expect(&p, RON_OAP_UNKNOWN, RON_CORRUPT);
    peer_close(&peer);
    probe_free(&p);
    wire_close(wire);
    stage_close(&stage);
}

static void test_client__answers_to_nothing__ignored(void **state)
{
    struct stage stage;
    struct wire *wire = open_against(&stage, (struct ron_oap_client_opts){0});
    struct ron_oap_head head;
    struct ron_oap_head other;
    struct peer peer;
    struct probe p;

    (void)state;
    probe_text(&p, WIRE_ECHO, "x");
    assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
    stage_accept(&stage, &peer);
    stage_hello(&peer, 64);
    head = stage_request(&peer);
    other = head;
    other.corr_id += 1;
    stage_answer(&peer, &other, WIRE_APP, 200, "wrong number");
    other = head;
    other.tenant += 1;
    stage_answer(&peer, &other, WIRE_APP, 200, "wrong tenant");
    stage_answer(&peer, &head, WIRE_APP, 200, "right");
    stage_answer(&peer, &head, WIRE_APP, 200, "twice");
    probe_answered(&p, "right");
    fx_until(wire_client_counters(wire->client).strays == 3);
    probe_answered(&p, "right");
    peer_close(&peer);
    probe_free(&p);
    wire_close(wire);
    stage_close(&stage);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void test_client__stopped__everything_ends_and_nothing_more_is_taken(void **state)
{
    struct stage stage;
    struct wire *wire = open_against(&stage, (struct ron_oap_client_opts){0});
    struct peer peer;
    struct probe sent;
    struct probe queued;
    struct probe late;

    (void)state;
    probe_text(&sent, WIRE_ECHO, "sent");
    probe_text(&queued, WIRE_ECHO, "queued");
    probe_text(&late, WIRE_ECHO, "late");
    assert_int_equal(ron_oap_ask_send(wire->client, &sent.ask), RON_OK);
    stage_accept(&stage, &peer);
    stage_hello(&peer, 1);
    (void)stage_request(&peer);
    assert_int_equal(ron_oap_ask_send(wire->client, &queued.ask), RON_OK);
    assert_int_equal(fx_stop(wire->fx), RON_EXIT_DRAINED);
    probe_expect(&sent, RON_OAP_UNKNOWN, RON_CANCELLED);
    probe_expect(&queued, RON_OAP_NOT_SENT, RON_CANCELLED);
    assert_int_equal(ron_oap_ask_send(wire->client, &late.ask), RON_CLOSED);
    assert_int_equal(fx_gate_count(&late.done), 0);
    peer_close(&peer);
    probe_free(&sent);
    probe_free(&queued);
    probe_free(&late);
    wire_free(wire);
    stage_close(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client__connection_breaks_before_the_answer__unknown_then_goes_on),
        cmocka_unit_test(test_client__breaks_during_hello__queued_calls_survive_it),
        cmocka_unit_test(test_client__request_not_taken_whole__sent_again_in_order),
        cmocka_unit_test(test_client__fail_fast__goes_on_when_somebody_is_there_again),
        cmocka_unit_test(test_client__nobody_there__not_sent),
        cmocka_unit_test(test_client__server_says_nothing__given_up_in_time),
        cmocka_unit_test(test_client__idle__kept_alive_with_ping),
        cmocka_unit_test(test_client__server_drains__left_when_the_answers_are_there),
        cmocka_unit_test(test_client__server_breaks_the_protocol__unknown),
        cmocka_unit_test(test_client__answer_changes_its_mind__unknown),
        cmocka_unit_test(test_client__answer_of_another_app__unknown),
        cmocka_unit_test(test_client__answers_to_nothing__ignored),
        cmocka_unit_test(test_client__events_all_the_time__kept_alive_with_ping),
        cmocka_unit_test(test_client__long_capability_and_small_frames__sent_all_the_same),
        cmocka_unit_test(test_client__cancelled_before_it_was_taken_up__ends_at_once),
        cmocka_unit_test(test_client__stopped__everything_ends_and_nothing_more_is_taken),
    };
    return cmocka_run_group_tests_name("unit.wire.client_break", tests, NULL, NULL);
}
