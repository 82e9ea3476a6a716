/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: calls of the client end exactly once, with the right answer, in every way of waiting; flow,
 * queue, deadline and cancel hold; events arrive.
 * Method: the client and the server of this kernel on one executor. */
#include "unit/wire/asks.h"
#include "wire/wire_testing.h"

static struct wire *open_both(uint32_t workers, struct ron_oap_opts so,
                              struct ron_oap_client_opts co)
{
    struct wire *wire = wire_build(workers, so);

    (void)wire_client(wire, co);
    fx_start(wire->fx);
    return wire;
}

static void test_client__answers_out_of_order__each_to_its_ask(void **state)
{
    struct wire *wire =
        open_both(1, (struct ron_oap_opts){.addr = "unix"}, (struct ron_oap_client_opts){0});
    struct probe p[3];
    static const char *const texts[3] = {"one", "two", "three"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        probe_text(&p[i], WIRE_DEFER, texts[i]);
        assert_int_equal(ron_oap_ask_send(wire->client, &p[i].ask), RON_OK);
    }
    (void)wire_reply(wire, 2);
    for (size_t i = 3; i-- > 0;) {
        wire_send_reply(wire, i);
        probe_answered(&p[i], texts[i]);
        probe_free(&p[i]);
    }
    wire_close(wire);
}

/* ---- flow ------------------------------------------------------------------------------------ */

enum { CHAIN_ASKS = 32, CHAIN_ROUNDS = 200 };

struct chain {
    struct ron_oap_client *client;
    struct ron_oap_ask asks[CHAIN_ASKS];
    uint32_t left[CHAIN_ASKS]; /* the client's task only */
    struct fx_gate ended;
    struct fx_gate wrong;
};

static void chain_done(struct ron_oap_ask *ask)
{
    struct chain *ch = ask->user;
    size_t i = (size_t)(ask - ch->asks);

    if (ask->outcome != RON_OAP_ANSWERED || ask->answer_len != 5 ||
        memcmp(ask->answer, "chain", 5) != 0) {
        fx_gate_add(&ch->wrong, 1);
    }
    if (--ch->left[i] == 0 || ron_oap_ask_send(ch->client, ask) != RON_OK) {
        fx_gate_add(&ch->ended, 1);
    }
}

static void test_client__more_asks_than_the_server_allows__never_refused(void **state)
{
    struct wire *wire = open_both(2, (struct ron_oap_opts){.addr = "unix", .flow_max = 4},
                                  (struct ron_oap_client_opts){.worker = 1});
    struct chain *ch = calloc(1, sizeof *ch);

    (void)state;
    assert_non_null(ch);
    ch->client = wire->client;
    fx_gate_init(&ch->ended);
    fx_gate_init(&ch->wrong);
    for (size_t i = 0; i < CHAIN_ASKS; i++) {
        ch->left[i] = CHAIN_ROUNDS;
        ch->asks[i] = (struct ron_oap_ask){.app = WIRE_APP,
                                           .code = WIRE_ECHO,
                                           .payload = "chain",
                                           .payload_len = 5,
                                           .done = chain_done,
                                           .user = ch};
        assert_int_equal(ron_oap_ask_send(wire->client, &ch->asks[i]), RON_OK);
    }
    assert_true(fx_gate_reached(&ch->ended, CHAIN_ASKS));
    assert_int_equal(fx_gate_count(&ch->wrong), 0);
    assert_int_equal(wire_counters(wire).rejected[RON_OAP_FLOW], 0);
    assert_int_equal(wire_client_counters(wire->client).answered, CHAIN_ASKS * CHAIN_ROUNDS);
    fx_gate_done(&ch->ended);
    fx_gate_done(&ch->wrong);
    free(ch);
    wire_close(wire);
}

static void test_client__queue_full__refused_at_once(void **state)
{
    static const bool no_queue[] = {false, true};

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct wire *wire =
            open_both(1, (struct ron_oap_opts){.addr = "unix"},
                      (struct ron_oap_client_opts){
                          .inflight_max = 2, .queue_max = 1, .no_queue = no_queue[k]});
        size_t room = no_queue[k] ? 2 : 3;
        struct probe p[4];

        for (size_t i = 0; i < 4; i++) {
            probe_text(&p[i], WIRE_DEFER, "x");
            assert_int_equal(ron_oap_ask_send(wire->client, &p[i].ask),
                             i < room ? RON_OK : RON_FULL);
        }
        for (size_t i = 0; i < room; i++) {
            wire_send_reply(wire, i);
            probe_answered(&p[i], "x");
        }
        assert_int_equal(wire_client_counters(wire->client).busy, 4 - room);
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(fx_gate_count(&p[i].done), i < room);
            probe_free(&p[i]);
        }
        wire_close(wire);
    }
}

/* ---- time and cancel ------------------------------------------------------------------------- */

static void test_client__deadline_passes__unknown_and_the_slot_stays_taken(void **state)
{
    struct wire *wire = open_both(1, (struct ron_oap_opts){.addr = "unix", .flow_max = 1},
                                  (struct ron_oap_client_opts){0});
    struct probe late;
    struct probe queued;
    struct probe next;

    (void)state;
    probe_text(&late, WIRE_DEFER, "late");
    probe_text(&queued, WIRE_ECHO, "queued");
    probe_text(&next, WIRE_ECHO, "next");
    late.ask.deadline = ron_deadline_after_ms(ron_mono_ns(), 30);
    assert_int_equal(ron_oap_ask_send(wire->client, &late.ask), RON_OK);
    (void)wire_reply(wire, 0);
    queued.ask.deadline = ron_deadline_after_ms(ron_mono_ns(), 50);
    assert_int_equal(ron_oap_ask_send(wire->client, &queued.ask), RON_OK);
    assert_int_equal(ron_oap_ask_send(wire->client, &next.ask), RON_OK);
    probe_expect(&late, RON_OAP_UNKNOWN, RON_TIMEOUT);
    probe_expect(&queued, RON_OAP_NOT_SENT, RON_TIMEOUT);
    fx_until(ron_oap_reply_cancelled(wire_reply(wire, 0))); /* the server was told */
    assert_int_equal(fx_gate_count(&next.done), 0);
    assert_int_equal(fx_gate_count(&wire->echoed), 0);
    wire_send_reply(wire, 0);
    probe_answered(&next, "next");
    probe_expect(&late, RON_OAP_UNKNOWN, RON_TIMEOUT); /* ended once */
    assert_int_equal(wire_client_counters(wire->client).call_timeouts, 2);
    probe_free(&late);
    probe_free(&queued);
    probe_free(&next);
    wire_close(wire);
}

static void test_client__deadline_has_passed__not_sent(void **state)
{
    struct wire *wire =
        open_both(1, (struct ron_oap_opts){.addr = "unix"}, (struct ron_oap_client_opts){0});
    struct probe p;

    (void)state;
    probe_text(&p, WIRE_ECHO, "x");
    p.ask.deadline = (struct ron_deadline){.at_ns = 1};
    assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
    probe_expect(&p, RON_OAP_NOT_SENT, RON_TIMEOUT);
    assert_int_equal(fx_gate_count(&wire->echoed), 0);
    probe_free(&p);
    wire_close(wire);
}

static void test_client__cancelled__not_sent_while_queued_unknown_once_sent(void **state)
{
    struct wire *wire = open_both(1, (struct ron_oap_opts){.addr = "unix", .flow_max = 1},
                                  (struct ron_oap_client_opts){0});
    struct probe sent;
    struct probe queued;

    (void)state;
    probe_text(&sent, WIRE_DEFER, "sent");
    probe_text(&queued, WIRE_ECHO, "queued");
    assert_int_equal(ron_oap_ask_send(wire->client, &sent.ask), RON_OK);
    (void)wire_reply(wire, 0);
    assert_int_equal(ron_oap_ask_send(wire->client, &queued.ask), RON_OK);
    ron_oap_ask_cancel(&queued.ask);
    probe_expect(&queued, RON_OAP_NOT_SENT, RON_CANCELLED);
    ron_oap_ask_cancel(&sent.ask);
    probe_expect(&sent, RON_OAP_UNKNOWN, RON_CANCELLED);
    fx_until(ron_oap_reply_cancelled(wire_reply(wire, 0)));
    wire_send_reply(wire, 0);
    fx_until(wire_client_counters(wire->client).in_flight == 0);
    assert_int_equal(fx_gate_count(&wire->echoed), 0);
    probe_free(&sent);
    probe_free(&queued);
    wire_close(wire);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static void test_client__large_both_ways__in_pieces_and_whole(void **state)
{
    static const size_t sizes[] = {0, 4096, 4097, 200000, (1 << 20) - 38, (1 << 20) - 37, 3000000};
    struct wire *wire = open_both(1, (struct ron_oap_opts){.addr = "unix", .message_max = 4 << 20},
                                  (struct ron_oap_client_opts){0});

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(sizes); i++) {
        struct probe p;

        probe_init(&p, WIRE_ECHO, wire->big, sizes[i]);
        p.ask.cap = "cap";
        p.ask.cap_len = i % 2 == 0 ? 3 : 0;
        assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
        probe_expect(&p, RON_OAP_ANSWERED, RON_OK);
        assert_int_equal(p.ask.answer_len, sizes[i]);
        assert_memory_equal(p.ask.answer, wire->big, sizes[i]);
        probe_free(&p);
    }
    assert_int_equal(ron_au32_load(&wire->caps_seen), 4);
    wire_close(wire);
}

static void test_client__answer_longer_than_its_limit__answered_but_not_whole(void **state)
{
    struct wire *wire =
        open_both(1, (struct ron_oap_opts){.addr = "unix"},
                  (struct ron_oap_client_opts){.answer_max = 100000, .message_max = 10});
    struct probe p;
    struct probe q;

    (void)state;
    probe_text(&p, WIRE_BIG, "2000000");
    assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
    probe_expect(&p, RON_OAP_ANSWERED, RON_LIMIT);
    assert_int_equal(p.ask.status, 200);
    probe_text(&q, WIRE_ECHO, "12345678901");
    assert_int_equal(ron_oap_ask_send(wire->client, &q.ask), RON_LIMIT);
    q.ask.payload_len = 10;
    q.ask.app = 0;
    assert_int_equal(ron_oap_ask_send(wire->client, &q.ask), RON_INVALID);
    q.ask.app = WIRE_APP;
    assert_int_equal(ron_oap_ask_send(wire->client, &q.ask), RON_OK);
    probe_answered(&q, "1234567890");
    probe_free(&p);
    probe_free(&q);
    wire_close(wire);
}

/* ---- refusals, inbox, events ----------------------------------------------------------------- */

static void test_client__refused_by_the_server__says_whether_it_may_have_acted(void **state)
{
    struct wire *wire =
        open_both(1, (struct ron_oap_opts){.addr = "unix", .request_timeout_ms = 30},
                  (struct ron_oap_client_opts){0});
    struct probe p;

    (void)state;
    probe_text(&p, WIRE_UNDEFER, "x");
    assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
    probe_expect(&p, RON_OAP_REFUSED, RON_FULL);
    assert_int_equal(p.ask.refusal, RON_OAP_BUSY);
    assert_int_equal(p.ask.status, 429);
    probe_free(&p);
    probe_text(&p, WIRE_DEFER, "x"); /* The server itself gives up waiting for the app. */
    assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
    probe_expect(&p, RON_OAP_UNKNOWN, RON_TIMEOUT);
    assert_int_equal(p.ask.refusal, RON_OAP_TIMEOUT);
    wire_send_reply(wire, 0);
    probe_free(&p);
    probe_text(&p, WIRE_FAIL, "x"); /* An error of the app is an answer. */
    assert_int_equal(ron_oap_ask_send(wire->client, &p.ask), RON_OK);
    probe_expect(&p, RON_OAP_ANSWERED, RON_OK);
    assert_int_equal(p.ask.status, 409);
    probe_free(&p);
    wire_close(wire);
}

enum { INBOX_ASKS = 40, INBOX_TURN = 3 };

struct caller {
    struct ron_oap_inbox inbox;
    struct fx_gate got;
    struct ron_au32 out_of_task;
};

static enum ron_rc caller_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct caller *caller = arg;

    (void)items;
    (void)count;
    if (caller->inbox.task != t) {
        ron_au32_store(&caller->out_of_task, 1);
    }
    for (struct ron_oap_ask *a = ron_oap_inbox_take(&caller->inbox, INBOX_TURN); a != NULL;
         a = a->next) {
        fx_gate_add(a->user, 1);
        fx_gate_add(&caller->got, 1);
    }
    return RON_OK;
}

static void test_client__inbox__answers_reach_the_task_that_asked(void **state)
{
    struct wire *wire = wire_build(2, (struct ron_oap_opts){.addr = "unix"});
    struct caller caller = {0};
    struct probe p[INBOX_ASKS];

    (void)state;
    fx_gate_init(&caller.got);
    (void)wire_client(wire, (struct ron_oap_client_opts){0});
    caller.inbox.task = fx_add(wire->fx, &(struct ron_task_def){.name = "caller",
                                                                .kind = "worker",
                                                                .worker = 1,
                                                                .handle = caller_handle,
                                                                .arg = &caller});
    fx_start(wire->fx);
    for (size_t i = 0; i < INBOX_ASKS; i++) {
        probe_text(&p[i], WIRE_ECHO, "x");
        p[i].ask.done = NULL;
        p[i].ask.inbox = &caller.inbox;
        assert_int_equal(ron_oap_ask_send(wire->client, &p[i].ask), RON_OK);
    }
    assert_true(fx_gate_reached(&caller.got, INBOX_ASKS));
    for (size_t i = 0; i < INBOX_ASKS; i++) {
        probe_answered(&p[i], "x");
        probe_free(&p[i]);
    }
    assert_int_equal(ron_au32_load(&caller.out_of_task), 0);
    wire_close(wire);
    fx_gate_done(&caller.got);
}

struct listener {
    struct fx_gate events;
    struct fx_gate gaps;
    struct ron_au32 sum;
    struct fx_gate refused;
    struct ron_au32 reason; /* of the last refusal */
    struct ron_au32 has_cap;
};

static void on_event(void *arg, uint16_t app, uint16_t code, const void *payload, size_t len)
{
    struct listener *l = arg;

    if (app == WIRE_APP && len == 2 && memcmp(payload, "ev", 2) == 0) {
        (void)ron_au32_add(&l->sum, code);
    }
    fx_gate_add(&l->events, 1);
}

static void on_gap(void *arg, uint16_t app, uint64_t missed)
{
    struct listener *l = arg;

    (void)app;
    (void)missed;
    fx_gate_add(&l->gaps, 1);
}

static void test_client__subscribed__hears_events(void **state)
{
    static const uint16_t apps[] = {WIRE_APP};
    struct listener l = {0};
    struct wire *wire;

    (void)state;
    fx_gate_init(&l.events);
    fx_gate_init(&l.gaps);
    wire = open_both(2, (struct ron_oap_opts){.addr = "unix"},
                     (struct ron_oap_client_opts){.subscribe = apps,
                                                  .subscribe_count = 1,
                                                  .on_event = on_event,
                                                  .on_gap = on_gap,
                                                  .arg = &l});
    fx_until(wire_counters(wire).subscribers == 1);
    for (uint16_t i = 1; i <= 100; i++) {
        assert_int_equal(ron_oap_publish(wire->server, WIRE_APP, i, "ev", 2), RON_OK);
    }
    assert_true(fx_gate_reached(&l.events, 100));
    assert_int_equal(ron_au32_load(&l.sum), 5050);
    assert_int_equal(fx_gate_count(&l.gaps), 0);
    wire_close(wire);
    assert_true(fx_gate_count(&l.gaps) >= 1); /* The end of the connection is a gap too. */
    fx_gate_done(&l.events);
    fx_gate_done(&l.gaps);
}

static struct ron_str subscribe_cap(void *arg, uint16_t app)
{
    struct listener *l = arg;

    assert_int_equal(app, WIRE_APP);
    return (struct ron_str){"cap", ron_au32_load(&l->has_cap) != 0 ? 3 : 0};
}

static void on_refused(void *arg, uint16_t app, enum ron_oap_reason reason)
{
    struct listener *l = arg;

    assert_int_equal(app, WIRE_APP);
    ron_au32_store(&l->reason, reason);
    fx_gate_add(&l->refused, 1);
}

/* The capability of the moment is shown, and who is let in late is told that he missed something.
 */
static void test_client__subscription_refused__asked_again_with_the_newest_capability(void **state)
{
    static const uint16_t apps[] = {WIRE_APP};
    struct wire *wire = wire_build(2, (struct ron_oap_opts){.addr = "unix"});
    struct listener l = {0};

    (void)state;
    fx_gate_init(&l.events);
    fx_gate_init(&l.gaps);
    fx_gate_init(&l.refused);
    ron_au32_store(&wire->subscribe_no, RON_OAP_FORBIDDEN);
    (void)wire_client(wire, (struct ron_oap_client_opts){.subscribe = apps,
                                                         .subscribe_count = 1,
                                                         .resubscribe_ms = 20,
                                                         .subscribe_cap = subscribe_cap,
                                                         .on_refused = on_refused,
                                                         .on_event = on_event,
                                                         .on_gap = on_gap,
                                                         .arg = &l});
    fx_start(wire->fx);
    assert_true(fx_gate_reached(&l.refused, 3));
    assert_int_equal(ron_au32_load(&l.reason), RON_OAP_FORBIDDEN);
    assert_int_equal(wire_counters(wire).subscribers, 0);
    assert_int_equal(fx_gate_count(&l.gaps), 0);
    ron_au32_store(&l.has_cap, 1);
    assert_true(fx_gate_reached(&l.gaps, 1));
    assert_int_equal(wire_counters(wire).subscribers, 1);
    assert_int_equal(ron_oap_publish(wire->server, WIRE_APP, 7, "ev", 2), RON_OK);
    assert_true(fx_gate_reached(&l.events, 1));
    assert_int_equal(ron_au32_load(&l.sum), 7);
    assert_int_equal(fx_gate_count(&l.gaps), 1);
    assert_int_equal(wire_client_counters(wire->client).connects, 1);
    wire_close(wire);
    fx_gate_done(&l.events);
    fx_gate_done(&l.gaps);
    fx_gate_done(&l.refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client__answers_out_of_order__each_to_its_ask),
        cmocka_unit_test(test_client__more_asks_than_the_server_allows__never_refused),
        cmocka_unit_test(test_client__queue_full__refused_at_once),
        cmocka_unit_test(test_client__deadline_passes__unknown_and_the_slot_stays_taken),
        cmocka_unit_test(test_client__deadline_has_passed__not_sent),
        cmocka_unit_test(test_client__cancelled__not_sent_while_queued_unknown_once_sent),
        cmocka_unit_test(test_client__large_both_ways__in_pieces_and_whole),
        cmocka_unit_test(test_client__answer_longer_than_its_limit__answered_but_not_whole),
        cmocka_unit_test(test_client__refused_by_the_server__says_whether_it_may_have_acted),
        cmocka_unit_test(test_client__inbox__answers_reach_the_task_that_asked),
        cmocka_unit_test(test_client__subscribed__hears_events),
        cmocka_unit_test(test_client__subscription_refused__asked_again_with_the_newest_capability),
    };
    return cmocka_run_group_tests_name("unit.wire.client", tests, NULL, NULL);
}
