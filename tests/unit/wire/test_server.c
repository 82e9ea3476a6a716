/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the server answers in any order, in pieces and from any thread; keeps its limits; refuses
 * each wrong for its own reason; and lets go of peers that leave, hang or lag.
 * Method: raw sockets against a running server; replies are sent by the test thread. */
#include "unit/wire/fixture.h"

#include "ron/obs/metrics.h"
#include "support/oap.h"
#include "wire/wire_testing.h"

static void test_server__hello__tells_the_limits(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.flow_max = 7, .frame_max = 65536});
    struct peer p;
    struct ron_oap_frame f;
    char text[256] = "";

    (void)state;
    peer_open(&p, wire);
    peer_ask(&p, 0, RON_OAP_CTL_HELLO, 42, "{\"ua\":\"sdk/0.1\",\"later\":[1]}");
    assert_true(peer_next(&p, &f));
    assert_int_equal(f.head.flags, RON_OAP_RESP);
    assert_int_equal(f.head.corr_id, 42);
    support_assert_u128_equal(f.head.tenant, (ron_u128)5);
    memcpy(text, f.payload, RON_MIN(f.payload_len, sizeof text - 1));
    assert_string_equal(text, "{\"max_frame\":65536,\"max_inflight\":7,\"flags_supported\":159,"
                              "\"versions\":[1],\"transports\":[\"tcp\"],\"trace\":true}");
    peer_ask(&p, WIRE_APP, WIRE_ECHO, 43, "hi");
    peer_expect(&p, 43, 200, WIRE_APP, "hi");
    peer_ask(&p, 0, RON_OAP_CTL_PING, 44, "pong?");
    peer_expect(&p, 44, 200, 0, "pong?");
    peer_ask(&p, 0, RON_OAP_CTL_HELLO, 45, "{\"ua\":\"again\"}"); /* not the first frame */
    peer_expect(&p, 45, 400, 0, "bad_hello");
    peer_expect_end(&p);
    peer_close(&p);
    wire_close(wire);
}

static void test_server__bytes_one_by_one__same_answers(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){0});
    struct peer p;
    struct ron_buf out;
    struct ron_oap_head head = {.flags = RON_OAP_REQ | RON_OAP_START | RON_OAP_END,
                                .app = WIRE_APP,
                                .code = WIRE_ECHO,
                                .cap_len = 3,
                                .corr_id = 9};

    (void)state;
    ron_buf_init(&out, 4096);
    peer_open(&p, wire);
    for (int i = 0; i < 5; i++) {
        head.corr_id++;
        assert_int_equal(ron_oap_encode(&out, &head, "cap", "hello", 5, 4096), RON_OK);
    }
    for (size_t i = 0; i < ron_buf_len(&out); i++) {
        peer_send(&p, ron_buf_data(&out) + i, 1);
    }
    for (uint64_t corr = 10; corr < 15; corr++) {
        peer_expect(&p, corr, 200, WIRE_APP, "hello");
    }
    assert_int_equal(ron_au32_load(&wire->caps_seen), 5);
    peer_close(&p);
    ron_buf_done(&out);
    wire_close(wire);
}

static void test_server__deferred_from_another_thread__answers_in_their_own_order(void **state)
{
    struct wire *wire = wire_open(2, (struct ron_oap_opts){.addr = "unix"});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_ask(&p, WIRE_APP, WIRE_DEFER, 1, "one");
    peer_ask(&p, WIRE_APP, WIRE_DEFER, 2, "two");
    peer_ask(&p, WIRE_APP, WIRE_DEFER, 3, "three");
    peer_ask(&p, WIRE_APP, WIRE_ECHO, 4, "now");
    peer_expect(&p, 4, 200, WIRE_APP, "now");
    (void)wire_reply(wire, 2);
    wire_send_reply(wire, 2); /* The bytes of a deferred request stay valid until it is sent. */
    peer_expect(&p, 3, 200, WIRE_APP, "three");
    wire_send_reply(wire, 0);
    peer_expect(&p, 1, 200, WIRE_APP, "one");
    ron_oap_reply_refuse(wire_reply(wire, 1), RON_OAP_BUSY);
    peer_expect(&p, 2, 429, 0, "\"busy\"");
    assert_int_equal(wire_counters(wire).inflight, 0);
    peer_close(&p);
    wire_close(wire);
}

static void test_server__many_deferred_at_once__one_write(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.flow_max = 201});
    struct peer p;
    uint64_t before;

    (void)state;
    peer_open(&p, wire);
    for (uint64_t i = 0; i < 200; i++) {
        peer_ask(&p, WIRE_APP, WIRE_DEFER, i, "x");
    }
    assert_true(fx_gate_reached(&wire->deferred, 200));
    before = wire_counters(wire).writes;
    peer_ask(&p, WIRE_APP, WIRE_RELEASE, 1000, "");
    peer_expect(&p, 1000, 200, WIRE_APP, "released");
    for (uint64_t i = 0; i < 200; i++) {
        peer_expect(&p, i, 200, WIRE_APP, "");
    }
    /* The worker was busy with the request that released them: all leave together. */
    fx_until(wire_counters(wire).writes - before >= 2); /* counted after the call */
    assert_int_equal(wire_counters(wire).writes - before, 2);
    peer_close(&p);
    wire_close(wire);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void test_server__one_too_many_in_flight__429_flow_and_the_rest_unharmed(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.flow_max = 2});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    for (uint64_t i = 1; i <= 3; i++) {
        peer_ask(&p, WIRE_APP, WIRE_DEFER, i, "x");
    }
    peer_ask(&p, WIRE_ALWAYS, WIRE_ECHO, 4, "inline apps are not stopped");
    peer_expect(&p, 3, 429, 0, "\"flow\"");
    peer_expect(&p, 4, 200, WIRE_ALWAYS, "inline");
    wire_send_reply(wire, 0);
    peer_expect(&p, 1, 200, WIRE_APP, "x");
    peer_ask(&p, WIRE_APP, WIRE_DEFER, 5, "x");
    wire_send_reply(wire, 2);
    peer_expect(&p, 5, 200, WIRE_APP, "x");
    wire_send_reply(wire, 1);
    peer_expect(&p, 2, 200, WIRE_APP, "x");
    assert_int_equal(wire_counters(wire).rejected[RON_OAP_FLOW], 1);
    assert_int_equal(wire_counters(wire).busy, 1);
    peer_close(&p);
    wire_close(wire);
}

static void test_server__inflight_of_the_server_full__429_busy(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.inflight_max = 1});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_ask(&p, WIRE_APP, WIRE_DEFER, 1, "x");
    peer_ask(&p, WIRE_APP, WIRE_DEFER, 2, "x");
    peer_expect(&p, 2, 429, 0, "\"busy\"");
    peer_ask(&p, WIRE_APP, WIRE_UNDEFER, 3, "x");
    peer_expect(&p, 3, 429, 0, "\"busy\"");
    wire_send_reply(wire, 0);
    peer_expect(&p, 1, 200, WIRE_APP, "x");
    peer_close(&p);
    wire_close(wire);
}

static void test_server__too_many_connections__told_and_closed(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.connections_max = 1});
    struct peer p;
    struct peer q;

    (void)state;
    peer_open(&p, wire);
    peer_hello(&p);
    peer_open(&q, wire);
    peer_expect(&q, 0, 503, 0, "\"connections\"");
    peer_expect_end(&q);
    peer_close(&q);
    peer_close(&p);
    wire_close(wire);
}

static void test_server__peer_not_on_the_list__denied(void **state)
{
    uint32_t me = (uint32_t)getuid();
    uint32_t other = me + 1;
    struct wire *wire = wire_open(
        2, (struct ron_oap_opts){.addr = "unix", .allow_uids = &other, .allow_uid_count = 1});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_expect(&p, 0, 403, 0, "\"denied\"");
    peer_expect_end(&p);
    peer_close(&p);
    wire_close(wire);
    wire = wire_open(
        2, (struct ron_oap_opts){.addr = "unix", .allow_uids = &me, .allow_uid_count = 1});
    peer_open(&p, wire);
    peer_hello(&p);
    peer_close(&p);
    wire_close(wire);
}

/* ---- wrong frames ---------------------------------------------------------------------------- */

struct wrong {
    struct ron_oap_head head;
    uint16_t code;
    const char *reason;
    bool fatal;
};

static void test_server__wrong_requests__typed_answers(void **state)
{
    static const struct wrong rows[] = {
        {{.flags = RON_OAP_REQ, .app = 7}, 404, "not_found", false},
        {{.flags = RON_OAP_REQ, .code = 99}, 404, "not_found", false},
        {{.flags = RON_OAP_REQ | RON_OAP_COMP, .app = WIRE_APP}, 400, "unsupported", false},
        {{.flags = RON_OAP_REQ | RON_OAP_ACK_REQ, .app = WIRE_APP}, 400, "unsupported", false},
        {{.flags = RON_OAP_REQ, .app = WIRE_APP, .code = WIRE_NOTHING}, 500, "internal", false},
        {{.flags = RON_OAP_REQ, .code = RON_OAP_CTL_SUBSCRIBE}, 400, "bad_control", false},
        {{.flags = RON_OAP_RESP, .app = WIRE_APP}, 400, "bad_order", true},
        {{.flags = RON_OAP_EVENT, .app = WIRE_APP}, 400, "bad_kind", true},
        {{.flags = RON_OAP_REQ | RON_OAP_END, .app = WIRE_APP}, 400, "bad_order", true},
        {{.flags = RON_OAP_REQ | RON_OAP_START}, 400, "bad_order", true},
    };
    struct wire *wire = wire_open(1, (struct ron_oap_opts){0});

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_oap_head head = rows[i].head;
        struct peer p;

        peer_open(&p, wire);
        head.corr_id = 77;
        peer_frame(&p, head, "", "x", 1);
        peer_expect(&p, 77, rows[i].code, 0, rows[i].reason);
        if (rows[i].fatal) {
            peer_expect_end(&p);
        } else {
            peer_ask(&p, WIRE_APP, WIRE_ECHO, 78, "still here");
            peer_expect(&p, 78, 200, WIRE_APP, "still here");
        }
        peer_close(&p);
    }
    wire_close(wire);
}

static void test_server__refusals__counted_by_reason(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){0});
    struct ron_metrics *m = NULL;
    struct ron_buf out;
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    for (uint64_t i = 1; i <= 2; i++) {
        peer_frame(&p, (struct ron_oap_head){.flags = RON_OAP_REQ, .app = 7, .corr_id = i}, "", "x",
                   1);
        peer_expect(&p, i, 404, 0, "not_found");
    }
    assert_int_equal(ron_metrics_new(NULL, &m, NULL), RON_OK);
    assert_int_equal(ron_collect_oap(m, wire->server, NULL), RON_OK);
    ron_buf_init(&out, RON_METRIC_TEXT_MAX);
    assert_int_equal(ron_metrics_write(m, &out), RON_OK);
    assert_non_null(
        strstr(ron_buf_text(&out),
               "\noap_rejects_total{server=\"oap.inflight\",reason=\"not_found\"} 2\n"));
    assert_non_null(
        strstr(ron_buf_text(&out),
               "\noap_rejects_total{server=\"oap.inflight\",reason=\"bad_version\"} 0\n"));
    assert_null(strstr(ron_buf_text(&out), "reason=\"none\""));
    ron_buf_done(&out);
    ron_metrics_free(m);
    peer_close(&p);
    wire_close(wire);
}

static void test_server__app_error__envelope_with_its_own_app(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){0});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_ask(&p, WIRE_APP, WIRE_FAIL, 3, "");
    peer_expect(&p, 3, 409, WIRE_APP, "\"reason\":\"conflict\"");
    peer_close(&p);
    wire_close(wire);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static void send_piece(struct peer *p, unsigned flags, uint64_t corr, const char *cap,
                       const char *text)
{
    peer_frame(p,
               (struct ron_oap_head){.flags = (uint16_t)(RON_OAP_REQ | flags),
                                     .app = WIRE_APP,
                                     .code = WIRE_DEFER,
                                     .corr_id = corr},
               cap, text, strlen(text));
}

static void test_server__messages_in_pieces_interleaved__whole_when_they_end(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){0});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    send_piece(&p, RON_OAP_START, 1, "cap", "a");
    send_piece(&p, RON_OAP_START, 2, "", "x");
    send_piece(&p, 0, 1, "", "b");
    peer_ask(&p, WIRE_APP, WIRE_ECHO, 3, "between");
    send_piece(&p, RON_OAP_END, 2, "", "y");
    send_piece(&p, RON_OAP_END, 1, "", "c");
    peer_expect(&p, 3, 200, WIRE_APP, "between");
    (void)wire_reply(wire, 1);
    assert_int_equal(wire->payload_lens[0], 2);
    assert_int_equal(wire->payload_lens[1], 3);
    wire_send_reply(wire, 1);
    peer_expect(&p, 1, 200, WIRE_APP, "abc");
    wire_send_reply(wire, 0);
    peer_expect(&p, 2, 200, WIRE_APP, "xy");
    assert_int_equal(ron_au32_load(&wire->caps_seen), 1);
    send_piece(&p, RON_OAP_START, 4, "", "a");
    send_piece(&p, RON_OAP_START, 4, "", "a"); /* a second beginning */
    peer_expect(&p, 4, 400, 0, "bad_order");
    peer_expect_end(&p);
    peer_close(&p);
    wire_close(wire);
}

static void test_server__message_longer_than_the_limit__413_and_its_pieces_forgotten(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.message_max = 5});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    send_piece(&p, RON_OAP_START, 1, "", "abc");
    send_piece(&p, 0, 1, "", "def");
    peer_expect(&p, 1, 413, 0, "body_limit");
    send_piece(&p, 0, 1, "", "ghi"); /* No request of its own: it belongs to the refused one. */
    send_piece(&p, RON_OAP_END, 1, "", "jkl");
    peer_ask(&p, WIRE_APP, WIRE_ECHO, 2, "in step");
    peer_expect(&p, 2, 200, WIRE_APP, "in step");
    for (uint64_t corr = 10; corr < 15; corr++) {
        send_piece(&p, RON_OAP_START, corr, "", "a");
    }
    peer_expect(&p, 14, 429, 0, "pieces");
    peer_expect_end(&p);
    peer_close(&p);
    wire_close(wire);
}

static void test_server__later_piece_with_a_flag_not_offered__refused_and_forgotten(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){0});
    struct ron_oap_head h = {
        .flags = RON_OAP_REQ | RON_OAP_START, .app = WIRE_APP, .code = WIRE_ECHO, .corr_id = 1};
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_frame(&p, h, "", "plain", 5);
    h.flags = RON_OAP_REQ | RON_OAP_COMP;
    peer_frame(&p, h, "", "packed", 6);
    h.flags = RON_OAP_REQ | RON_OAP_END;
    peer_frame(&p, h, "", "plain", 5);
    peer_expect(&p, 1, 400, 0, "unsupported");
    peer_ask(&p, WIRE_APP, WIRE_ECHO, 2, "alive");
    peer_expect(&p, 2, 200, WIRE_APP, "alive");
    assert_int_equal(fx_gate_count(&wire->echoed), 1);
    peer_close(&p);
    wire_close(wire);
}

/* Each request comes alone and is held: what they occupy must go by their own size, or the flow
 * limit could never be reached within the memory that the server may use. */
static void test_server__small_requests_held__occupy_little(void **state)
{
    struct wire *wire =
        wire_open(1, (struct ron_oap_opts){.addr = "unix", .in_memory_max = 256 << 10});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    for (uint64_t i = 0; i < 32; i++) {
        peer_ask(&p, WIRE_APP, WIRE_DEFER, i + 1, "small");
        (void)wire_reply(wire, i);
    }
    for (uint64_t i = 0; i < 32; i++) {
        wire_send_reply(wire, i);
        peer_expect(&p, i + 1, 200, WIRE_APP, "small");
    }
    assert_true(ron_au64_load(&wire->server->in_memory) <= 4 * 33000);
    peer_close(&p);
    wire_close(wire);
}

/* A large request leaves no mark on the small ones that follow it. */
static void test_server__small_requests_after_a_large_one__occupy_little(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.addr = "unix"});
    size_t len = 600000;
    uint8_t *large = calloc(1, len);
    struct ron_oap_frame f;
    struct peer p;

    (void)state;
    assert_non_null(large);
    peer_open(&p, wire);
    peer_frame(&p, (struct ron_oap_head){.flags = RON_OAP_REQ, .app = WIRE_APP, .code = WIRE_ECHO},
               "", large, len);
    assert_true(peer_next(&p, &f));
    for (uint64_t i = 0; i < 8; i++) {
        peer_ask(&p, WIRE_APP, WIRE_ECHO, 100, "between");
        peer_expect(&p, 100, 200, WIRE_APP, "between");
        peer_ask(&p, WIRE_APP, WIRE_DEFER, i + 1, "small");
        (void)wire_reply(wire, i);
    }
    assert_true(ron_au64_load(&wire->server->in_memory) < 2 << 20);
    for (uint64_t i = 0; i < 8; i++) {
        wire_send_reply(wire, i);
        peer_expect(&p, i + 1, 200, WIRE_APP, "small");
    }
    peer_close(&p);
    wire_close(wire);
    free(large);
}

/* The limit of answers is for what the app says; the connection's own words have room beside. */
static void test_server__small_answer_limit__a_large_ping_still_comes_back(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.addr = "unix", .answer_max = 4096});
    struct ron_oap_frame f;
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    peer_frame(&p, (struct ron_oap_head){.flags = RON_OAP_REQ, .code = RON_OAP_CTL_PING}, "",
               wire->big, 1000000);
    fx_until(wire_counters(wire).requests == 1);
    assert_true(peer_next(&p, &f));
    assert_int_equal(f.payload_len, 1000000);
    assert_memory_equal(f.payload, wire->big, 1000000);
    peer_close(&p);
    wire_close(wire);
}

static void test_server__answer_larger_than_a_frame__comes_in_pieces(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){0});
    struct peer p;
    struct ron_oap_frame f;
    const size_t total = 3000000;
    size_t got = 0;
    bool first = true;

    (void)state;
    peer_open(&p, wire);
    peer_ask(&p, WIRE_APP, WIRE_BIG, 1, "3000000");
    do {
        assert_true(peer_next(&p, &f));
        assert_int_equal((f.head.flags & RON_OAP_START) != 0, first);
        assert_int_equal(f.head.corr_id, 1);
        assert_true(f.payload_len <= RON_OAP_CHUNK_BYTES);
        assert_memory_equal(f.payload, wire->big + got, f.payload_len);
        got += f.payload_len;
        first = false;
    } while ((f.head.flags & RON_OAP_END) == 0);
    assert_int_equal(got, total);
    peer_ask(&p, WIRE_APP, WIRE_BIG, 2, "1000000"); /* fits one */
    assert_true(peer_next(&p, &f));
    assert_int_equal(f.head.flags, RON_OAP_RESP);
    assert_int_equal(f.payload_len, 1000000);
    peer_close(&p);
    wire_close(wire);
}

static void test_server__frames_up_to_the_limit__echoed_whole(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.addr = "unix"});
    static const size_t sizes[] = {0, 1, 32730, 32768, 200000, 300000, (1 << 20) - 38, 5};
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    for (size_t i = 0; i < RON_ARRAY_LEN(sizes); i++) {
        struct ron_oap_frame f;

        peer_frame(&p,
                   (struct ron_oap_head){
                       .flags = RON_OAP_REQ, .app = WIRE_APP, .code = WIRE_ECHO, .corr_id = i},
                   "", wire->big, sizes[i]);
        assert_true(peer_next(&p, &f));
        assert_int_equal(f.head.corr_id, i);
        assert_int_equal(f.payload_len, sizes[i]);
        assert_memory_equal(f.payload, wire->big, sizes[i]);
    }
    peer_close(&p);
    wire_close(wire);
}

/* A Unix socket tells of room whenever its peer reads: an event for every answer, if one asked. */
static void test_server__answers_taken_and_not_taken__room_is_watched_for_while_one_waits(void **s)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){.addr = "unix"});
    struct ron_oap_frame f;
    struct peer p;

    (void)s;
    peer_open(&p, wire);
    for (uint64_t i = 1; i <= 8; i++) {
        peer_ask(&p, WIRE_APP, WIRE_ECHO, i, "small");
        peer_expect(&p, i, 200, WIRE_APP, "small");
    }
    assert_int_equal(ron_au32_load(&wire_watched_room), 0);
    assert_int_equal(ron_au32_load(&wire_watched_bytes), 1);
    peer_ask(&p, WIRE_APP, WIRE_BIG, 9, "1000000"); /* more than the socket takes */
    fx_until(ron_au32_load(&wire_watched_room) == 1);
    assert_true(peer_next(&p, &f));
    assert_int_equal(f.payload_len, 1000000);
    fx_until(ron_au32_load(&wire_watched_bytes) == 2);
    peer_ask(&p, WIRE_APP, WIRE_ECHO, 10, "after");
    peer_expect(&p, 10, 200, WIRE_APP, "after");
    assert_int_equal(ron_au32_load(&wire_watched_room), 1);
    peer_close(&p);
    wire_close(wire);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_server__hello__tells_the_limits),
        cmocka_unit_test(test_server__bytes_one_by_one__same_answers),
        cmocka_unit_test(test_server__deferred_from_another_thread__answers_in_their_own_order),
        cmocka_unit_test(test_server__many_deferred_at_once__one_write),
        cmocka_unit_test(test_server__one_too_many_in_flight__429_flow_and_the_rest_unharmed),
        cmocka_unit_test(test_server__inflight_of_the_server_full__429_busy),
        cmocka_unit_test(test_server__too_many_connections__told_and_closed),
        cmocka_unit_test(test_server__peer_not_on_the_list__denied),
        cmocka_unit_test(test_server__wrong_requests__typed_answers),
        cmocka_unit_test(test_server__refusals__counted_by_reason),
        cmocka_unit_test(test_server__app_error__envelope_with_its_own_app),
        cmocka_unit_test(test_server__messages_in_pieces_interleaved__whole_when_they_end),
        cmocka_unit_test(test_server__message_longer_than_the_limit__413_and_its_pieces_forgotten),
        cmocka_unit_test(test_server__later_piece_with_a_flag_not_offered__refused_and_forgotten),
        cmocka_unit_test(test_server__small_requests_held__occupy_little),
        cmocka_unit_test(test_server__small_requests_after_a_large_one__occupy_little),
        cmocka_unit_test(test_server__small_answer_limit__a_large_ping_still_comes_back),
        cmocka_unit_test(test_server__answer_larger_than_a_frame__comes_in_pieces),
        cmocka_unit_test(test_server__frames_up_to_the_limit__echoed_whole),
        cmocka_unit_test(
            test_server__answers_taken_and_not_taken__room_is_watched_for_while_one_waits),
    };
    return cmocka_run_group_tests_name("unit.wire.server", tests, NULL, NULL);
}
