/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the trace of a caller reaches the handler of its request and of no other; whoever does not
 * know TRACE is not sent one.
 * Method: raw frames against the server; the client against the server, and against one played by
 * hand that says nothing of traces. */
#include "unit/wire/asks.h"
#include "wire/frame.h"

static const char one[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
static const char two[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

static struct ron_trace_ctx ctx_of(const char *text)
{
    struct ron_trace_ctx ctx;

    assert_int_equal(ron_traceparent_parse((struct ron_str){text, strlen(text)}, &ctx), RON_OK);
    return ctx;
}

static void tell_bytes(struct peer *p, uint64_t corr, uint64_t tenant, const void *bytes,
                       size_t len)
{
    peer_frame(
        p,
        (struct ron_oap_head){
            .flags = RON_OAP_EVENT, .code = RON_OAP_CTL_TRACE, .corr_id = corr, .tenant = tenant},
        "", bytes, len);
}

static void tell(struct peer *p, uint64_t corr, const char *text)
{
    struct ron_trace_ctx ctx = ctx_of(text);
    uint8_t bytes[RON_OAP_TRACE_BYTES];

    ron_oap_trace_write(&ctx, bytes);
    tell_bytes(p, corr, 5, bytes, sizeof bytes); /* the tenant of peer_ask */
}

static void test_trace__told_before_its_request__reaches_the_handler_once(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){0});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    tell(&p, 7, one); /* also as the first frame, without a HELLO */
    peer_ask(&p, WIRE_APP, WIRE_TRACE, 7, "");
    peer_expect(&p, 7, 200, WIRE_APP, one);
    peer_ask(&p, WIRE_APP, WIRE_TRACE, 7, "");
    peer_expect(&p, 7, 200, WIRE_APP, "none");
    tell(&p, 8, one);
    tell(&p, 8, two); /* the last word counts */
    peer_ask(&p, WIRE_APP, WIRE_TRACE, 8, "");
    peer_expect(&p, 8, 200, WIRE_APP, two);
    peer_close(&p);
    wire_close(wire);
}

static void test_trace__told_for_another__is_for_nobody(void **state)
{
    static const uint8_t zeros[RON_OAP_TRACE_BYTES];
    struct wire *wire = wire_open(1, (struct ron_oap_opts){0});
    struct ron_trace_ctx ctx = ctx_of(one);
    uint8_t bytes[RON_OAP_TRACE_BYTES];
    struct peer p;

    (void)state;
    ron_oap_trace_write(&ctx, bytes);
    peer_open(&p, wire);
    tell(&p, 1, one);
    peer_ask(&p, WIRE_APP, WIRE_TRACE, 2, "");
    peer_expect(&p, 2, 200, WIRE_APP, "none");
    peer_ask(&p, WIRE_APP, WIRE_TRACE, 1, ""); /* a request stood between them */
    peer_expect(&p, 1, 200, WIRE_APP, "none");
    tell_bytes(&p, 3, 6, bytes, sizeof bytes); /* another tenant */
    peer_ask(&p, WIRE_APP, WIRE_TRACE, 3, "");
    peer_expect(&p, 3, 200, WIRE_APP, "none");
    tell_bytes(&p, 4, 5, bytes, sizeof bytes - 1);
    peer_ask(&p, WIRE_APP, WIRE_TRACE, 4, "");
    peer_expect(&p, 4, 200, WIRE_APP, "none");
    tell_bytes(&p, 5, 5, zeros, sizeof zeros);
    peer_ask(&p, WIRE_APP, WIRE_TRACE, 5, "");
    peer_expect(&p, 5, 200, WIRE_APP, "none");
    peer_close(&p);
    wire_close(wire);
}

static void send_piece(struct peer *p, unsigned flags, uint64_t corr)
{
    peer_frame(p,
               (struct ron_oap_head){.flags = (uint16_t)(RON_OAP_REQ | flags),
                                     .app = WIRE_APP,
                                     .code = WIRE_TRACE,
                                     .corr_id = corr,
                                     .tenant = 5},
               "", "x", 1);
}

static void test_trace__of_messages_in_pieces__each_keeps_its_own(void **state)
{
    struct wire *wire = wire_open(1, (struct ron_oap_opts){0});
    struct peer p;

    (void)state;
    peer_open(&p, wire);
    tell(&p, 1, one);
    send_piece(&p, RON_OAP_START, 1);
    tell(&p, 2, two);
    send_piece(&p, RON_OAP_START, 2);
    send_piece(&p, RON_OAP_START, 3);
    send_piece(&p, RON_OAP_END, 1);
    peer_expect(&p, 1, 200, WIRE_APP, one);
    send_piece(&p, RON_OAP_END, 3);
    peer_expect(&p, 3, 200, WIRE_APP, "none");
    send_piece(&p, RON_OAP_END, 2);
    peer_expect(&p, 2, 200, WIRE_APP, two);
    peer_close(&p);
    wire_close(wire);
}

static void test_trace__of_an_ask__reaches_the_handler(void **state)
{
    static const size_t sizes[] = {0, 5000, 2 << 20}; /* copied, gathered, in pieces */
    struct wire *wire =
        wire_build(1, (struct ron_oap_opts){.addr = "unix", .message_max = 4 << 20});

    (void)state;
    (void)wire_client(wire, (struct ron_oap_client_opts){0});
    fx_start(wire->fx);
    for (size_t i = 0; i < RON_ARRAY_LEN(sizes); i++) {
        struct probe p[3];

        for (int k = 0; k < 3; k++) {
            probe_init(&p[k], WIRE_TRACE, wire->big, sizes[i]);
        }
        p[0].ask.trace = ctx_of(one);
        p[2].ask.trace = ctx_of(two);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(ron_oap_ask_send(wire->client, &p[k].ask), RON_OK);
        }
        probe_answered(&p[0], one);
        probe_answered(&p[1], "none");
        probe_answered(&p[2], two);
        for (int k = 0; k < 3; k++) {
            probe_free(&p[k]);
        }
    }
    wire_close(wire);
}

static void test_trace__server_that_does_not_know_it__gets_requests_alone(void **state)
{
    struct stage stage;
    struct wire *wire = wire_build(1, (struct ron_oap_opts){0});
    struct ron_oap_head head;
    struct peer peer;
    struct probe p;

    (void)state;
    stage_open(&stage);
    (void)wire_client(wire, (struct ron_oap_client_opts){.addr = stage.addr});
    fx_start(wire->fx);
    probe_text(&p, WIRE_ECHO, "hello");
    p.ask.trace = ctx_of(one);
    assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
    stage_accept(&stage, &peer);
    stage_hello(&peer, 64);
    head = stage_request(&peer); /* and no event before it */
    stage_answer(&peer, &head, WIRE_APP, 200, "hello");
    probe_answered(&p, "hello");
    peer_close(&peer);
    probe_free(&p);
    wire_close(wire);
    stage_close(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trace__told_before_its_request__reaches_the_handler_once),
        cmocka_unit_test(test_trace__told_for_another__is_for_nobody),
        cmocka_unit_test(test_trace__of_messages_in_pieces__each_keeps_its_own),
        cmocka_unit_test(test_trace__of_an_ask__reaches_the_handler),
        cmocka_unit_test(test_trace__server_that_does_not_know_it__gets_requests_alone),
    };

    return cmocka_run_group_tests_name("wire.trace", tests, NULL, NULL);
}
