/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the rules M1-M6 of the mailbox, one after another, in memory and in a file.
 * Method: a store with a clock of the test; operations alone and in groups. */
#include "unit/interop/box_fixture.h"

static void test_box__sent__received_acknowledged_gone(void **state)
{
    struct box b;
    struct iop_receipt r;
    char body[32];

    (void)state;
    box_init(&b, false);
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_put(&b, "orders", "one", 0, NULL), RON_OK);
    assert_int_equal(box_put(&b, "orders", "two", 0, NULL), RON_OK);
    assert_int_equal(box_recv(&b, "orders", &r, body, sizeof body), 1);
    assert_string_equal(body, "one");
    assert_int_equal(r.delivery, 1);
    assert_int_equal(box_answer(&b, IOP_OP_ACK, "other", r, 0), RON_NOTFOUND);
    assert_int_equal(box_answer(&b, IOP_OP_ACK, "orders", r, 0), RON_OK);
    assert_int_equal(box_answer(&b, IOP_OP_ACK, "orders", r, 0), RON_NOTFOUND);
    assert_int_equal(box_recv(&b, "orders", &r, body, sizeof body), 1);
    assert_string_equal(body, "two");
    assert_int_equal(box_recv(&b, "orders", &r, body, sizeof body), 0);
    assert_int_equal(box_stats(&b, "orders").leased, 1);
    box_close(&b);
}

static void test_box__lease_ends__again_and_then_dead(void **state)
{
    struct box b;
    struct iop_receipt first;
    struct iop_receipt r;
    char body[32];

    (void)state;
    box_init(&b, false);
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_put(&b, "t", "x", 0, NULL), RON_OK);
    assert_int_equal(box_recv(&b, "t", &first, body, sizeof body), 1);
    box_pass(&b, 999);
    assert_int_equal(box_recv(&b, "t", &r, body, sizeof body), 0);
    box_pass(&b, 1);
    assert_int_equal(box_recv(&b, "t", &r, body, sizeof body), 1);
    assert_int_equal(r.delivery, 2);
    assert_int_equal(box_answer(&b, IOP_OP_ACK, "t", first, 0), RON_CONFLICT);
    box_pass(&b, 1000);
    assert_int_equal(box_recv(&b, "t", &r, body, sizeof body), 1);
    assert_int_equal(r.delivery, 3);
    box_pass(&b, 1000);
    assert_int_equal(box_recv(&b, "t", &r, body, sizeof body), 0);
    assert_int_equal(box_stats(&b, "t").dead, 1);
    assert_int_equal(ron_stat_get(&b.store.counts.died), 1);
    box_close(&b);
}

static void test_box__late_ack_before_redelivery__accepted(void **state)
{
    struct box b;
    struct iop_receipt r;
    char body[32];

    (void)state;
    box_init(&b, false);
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_put(&b, "t", "x", 0, NULL), RON_OK);
    assert_int_equal(box_recv(&b, "t", &r, body, sizeof body), 1);
    box_pass(&b, 5000);
    assert_int_equal(box_answer(&b, IOP_OP_NACK, "t", r, 0), RON_CONFLICT);
    assert_int_equal(box_answer(&b, IOP_OP_ACK, "t", r, 0), RON_OK);
    assert_int_equal(box_stats(&b, "t").ready, 0);
    box_close(&b);
}

static void test_box__nack__delay_by_hand_and_by_curve(void **state)
{
    struct box b;
    struct iop_receipt r;
    char body[32];

    (void)state;
    box_init(&b, false);
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_put(&b, "t", "x", 0, NULL), RON_OK);
    assert_int_equal(box_recv(&b, "t", &r, body, sizeof body), 1);
    assert_int_equal(box_answer(&b, IOP_OP_NACK, "t", r, 5000), RON_OK);
    box_pass(&b, 4999);
    assert_int_equal(box_recv(&b, "t", &r, body, sizeof body), 0);
    box_pass(&b, 1);
    assert_int_equal(box_recv(&b, "t", &r, body, sizeof body), 1);
    assert_int_equal(box_answer(&b, IOP_OP_NACK, "t", r, IOP_DELAY_AUTO), RON_OK);
    box_pass(&b, 1599); /* the second wait: 1600 to 3200 ms */
    assert_int_equal(box_recv(&b, "t", &r, body, sizeof body), 0);
    box_pass(&b, 1601);
    assert_int_equal(box_recv(&b, "t", &r, body, sizeof body), 1);
    assert_int_equal(box_answer(&b, IOP_OP_NACK, "t", r, 0), RON_OK);
    assert_int_equal(box_stats(&b, "t").dead, 1);
    box_close(&b);
}

static void test_box__delayed__not_before_its_time(void **state)
{
    struct box b;
    struct iop_receipt r;
    char body[32];

    (void)state;
    box_init(&b, true);
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_put(&b, "t", "x", 10000, NULL), RON_OK);
    assert_int_equal(box_stats(&b, "t").delayed, 1);
    box_pass(&b, 4000);
    box_reopen(&b); /* the time goes on while nobody runs */
    assert_int_equal(box_recv(&b, "t", &r, body, sizeof body), 0);
    box_pass(&b, 5999);
    assert_int_equal(box_recv(&b, "t", &r, body, sizeof body), 0);
    box_pass(&b, 1);
    assert_int_equal(box_recv(&b, "t", &r, body, sizeof body), 1);
    box_close(&b);
}

static void test_box__reopened__everything_is_there(void **state)
{
    struct box b;
    struct iop_receipt r;
    char body[32];
    uint64_t id = 0;
    uint64_t again = 0;

    (void)state;
    box_init(&b, true);
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_put(&b, "a", "one", 0, NULL), RON_OK);
    assert_int_equal(box_put(&b, ".forward", "two", 0, NULL), RON_OK);
    assert_int_equal(box_put(&b, "a", "three", 0, &id), RON_OK);
    assert_int_equal(box_recv(&b, "a", &r, body, sizeof body), 1);
    box_reopen(&b);
    assert_int_equal(box_stats(&b, "a").ready, 2); /* M2: the lease is forgotten */
    /* Who was at work when it died may still say that it is done. */
    assert_int_equal(box_answer(&b, IOP_OP_ACK, "a", r, 0), RON_OK);
    assert_int_equal(box_recv(&b, "a", &r, body, sizeof body), 1);
    assert_string_equal(body, "three");
    assert_int_equal(r.id, id);
    assert_int_equal(box_answer(&b, IOP_OP_ACK, "a", r, 0), RON_OK);
    assert_int_equal(box_recv(&b, ".forward", &r, body, sizeof body), 1);
    assert_int_equal(box_answer(&b, IOP_OP_ACK, ".forward", r, 0), RON_OK);
    box_reopen(&b);
    assert_int_equal(b.store.queue.messages, 0);
    assert_int_equal(box_put(&b, "a", "four", 0, &again), RON_OK);
    assert_true(again > id); /* F4: not even when the file is empty */
    box_close(&b);
}

static void test_box__same_key__one_effect_also_after_restart(void **state)
{
    struct box b;
    bool duplicate = true;

    (void)state;
    box_init(&b, true);
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_put_key(&b, "t", "x", "d-1", &duplicate), RON_OK);
    assert_false(duplicate);
    assert_int_equal(box_put_key(&b, "t", "x", "d-1", &duplicate), RON_OK);
    assert_true(duplicate);
    box_reopen(&b);
    assert_int_equal(box_put_key(&b, "t", "x", "d-1", &duplicate), RON_OK);
    assert_true(duplicate);
    assert_int_equal(box_put_key(&b, "t", "x", "d-2", &duplicate), RON_OK);
    assert_false(duplicate);
    assert_int_equal(box_stats(&b, "t").ready, 2);
    box_pass(&b, 60001); /* past its time */
    assert_int_equal(box_put_key(&b, "t", "x", "d-1", &duplicate), RON_OK);
    assert_false(duplicate);
    box_close(&b);
}

static void test_box__same_key_in_one_group__one_effect(void **state)
{
    struct box b;
    struct iop_msg msg = {.topic = box_str("t"), .body = box_str("x")};
    struct iop_op ops[2] = {
        {.kind = IOP_OP_PUT, .put = {.msgs = &msg, .count = 1, .has_key = true}},
        {.kind = IOP_OP_PUT, .put = {.msgs = &msg, .count = 1, .has_key = true}}};
    struct iop_op *all[2] = {&ops[0], &ops[1]};
    unsigned answers = 0;

    (void)state;
    box_init(&b, false);
    assert_int_equal(box_open(&b), RON_OK);
    for (int i = 0; i < 2; i++) {
        ops[i].done = box_done;
        ops[i].arg = &answers;
    }
    iop_store_apply(&b.store, all, 2);
    assert_int_equal(answers, 2);
    assert_int_equal(ops[0].rc, RON_OK);
    assert_int_equal(ops[1].rc, RON_OK);
    assert_false(ops[0].put.duplicate);
    assert_true(ops[1].put.duplicate);
    assert_int_equal(box_stats(&b, "t").ready, 1);
    assert_int_equal(ron_stat_get(&b.store.counts.groups), 1);
    box_close(&b);
}

static void test_box__limits__each_refused_with_its_code(void **state)
{
    struct box b;
    char big[65] = {0};

    (void)state;
    memset(big, 'x', 64);
    box_init(&b, false);
    b.opts.limits.message_max_bytes = 63;
    b.opts.limits.topic_max_messages = 2;
    b.opts.limits.total_max_messages = 3;
    b.opts.limits.total_max_bytes = 100;
    b.opts.limits.topics_max = 3;
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_put(&b, "t", big, 0, NULL), RON_LIMIT);
    assert_int_equal(box_put(&b, "Bad", "x", 0, NULL), RON_INVALID);
    assert_int_equal(box_put(&b, "", "x", 0, NULL), RON_INVALID);
    assert_int_equal(box_put(&b, "t", "x", IOP_DELAY_MAX_MS + 1, NULL), RON_INVALID);
    assert_int_equal(box_put(&b, "t", "x", 0, NULL), RON_OK);
    assert_int_equal(box_put(&b, "t", "x", 0, NULL), RON_OK);
    assert_int_equal(box_put(&b, "t", "x", 0, NULL), RON_FULL); /* of the topic */
    assert_int_equal(box_put(&b, "u", big + 1, 0, NULL), RON_OK);
    assert_int_equal(box_put(&b, "v", "x", 0, NULL), RON_FULL); /* of all */
    assert_null(iop_queue_topic(&b.store.queue, box_str("v"))); /* and left no topic behind */
    box_close(&b);
}

static enum ron_rc put_and_ack(struct box *b, const char *topic)
{
    struct iop_receipt receipt;
    char body[8];

    RON_TRY(box_put(b, topic, "x", 0, NULL));
    assert_int_equal(box_recv(b, topic, &receipt, body, sizeof body), 1);
    return box_answer(b, IOP_OP_ACK, topic, receipt, 0);
}

/* Whoever may send cannot use up the names of topics for good. */
static void test_box__topics_full__those_without_messages_make_room(void **state)
{
    struct box b;
    char name[8];

    (void)state;
    box_init(&b, true);
    b.opts.limits.topics_max = 8;
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_put(&b, "kept", "x", 0, NULL), RON_OK);
    for (int i = 0; i < 5; i++) {
        (void)snprintf(name, sizeof name, "a%d", i);
        assert_int_equal(put_and_ack(&b, name), RON_OK);
    }
    box_pass(&b, 200);
    assert_int_equal(b.store.queue.topic_count, 6); /* there is room: all stay */
    assert_string_equal(box_stats(&b, "a0").name, "a0");
    assert_int_equal(put_and_ack(&b, "b0"), RON_OK);
    assert_int_equal(put_and_ack(&b, "b1"), RON_OK);
    assert_int_equal(box_put(&b, "b2", "x", 0, NULL), RON_FULL);
    box_pass(&b, 200);
    assert_int_equal(b.store.queue.topic_count, 1);
    assert_int_equal(ron_stat_get(&b.store.counts.topics_gone), 7);
    box_reopen(&b); /* and the file knows it */
    assert_int_equal(b.store.queue.topic_count, 1);
    assert_int_equal(box_stats(&b, "kept").ready, 1);
    for (int i = 0; i < 7; i++) { /* a name that has gone is as good as a new one */
        (void)snprintf(name, sizeof name, "a%d", i);
        assert_int_equal(box_put(&b, name, "x", 0, NULL), RON_OK);
    }
    box_pass(&b, 200);
    assert_int_equal(b.store.queue.topic_count, 8); /* none is without messages */
    assert_int_equal(box_put(&b, "b2", "x", 0, NULL), RON_FULL);
    b.opts.limits.topics_max = 4; /* a smaller limit leaves what is there */
    box_reopen(&b);
    assert_int_equal(b.store.queue.topic_count, 8);
    assert_int_equal(box_stats(&b, "a6").ready, 1);
    box_close(&b);
}

/* A topic with dead letters alone, or that somebody waits at, is in use. */
static void test_box__topics_full__dead_letters_and_waiters_keep_theirs(void **state)
{
    struct box b;
    unsigned answers = 0;
    struct iop_op wait = {.kind = IOP_OP_RECV,
                          .done = box_done,
                          .arg = &answers,
                          .recv = {.topic = box_str("awaited"),
                                   .max = 1,
                                   .max_bytes = 100,
                                   .visibility_ms = 1000,
                                   .wait_ms = 20000}};
    struct iop_op *ops[] = {&wait};

    (void)state;
    box_init(&b, true);
    b.opts.limits.topics_max = 3;
    b.opts.limits.deliveries_max = 1;
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_put(&b, "dead", "x", 0, NULL), RON_OK);
    {
        struct iop_receipt receipt;
        char body[8];

        assert_int_equal(box_recv(&b, "dead", &receipt, body, sizeof body), 1);
        assert_int_equal(box_answer(&b, IOP_OP_NACK, "dead", receipt, 0), RON_OK);
    }
    assert_int_equal(put_and_ack(&b, "awaited"), RON_OK);
    iop_store_apply(&b.store, ops, 1);
    assert_int_equal(put_and_ack(&b, "idle"), RON_OK);
    box_pass(&b, 200);
    assert_int_equal(box_stats(&b, "dead").dead, 1);
    assert_int_equal(b.store.queue.topic_count, 2);
    assert_int_equal(box_put(&b, "awaited", "here", 0, NULL), RON_OK);
    assert_int_equal(answers, 1);
    assert_int_equal(wait.recv.count, 1);
    iop_op_done(&wait);
    box_close(&b);
}

static void test_box__put_of_many__all_or_none(void **state)
{
    struct box b;
    struct iop_msg msgs[3] = {{.topic = box_str("a"), .body = box_str("1")},
                              {.topic = box_str("b"), .body = box_str("2")},
                              {.topic = box_str("a"), .body = box_str("3")}};
    struct iop_op op = {.kind = IOP_OP_PUT, .put = {.msgs = msgs, .count = 3}};

    (void)state;
    box_init(&b, true);
    b.opts.limits.topic_max_messages = 1;
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_apply(&b, &op), RON_FULL);
    assert_int_equal(b.store.queue.messages, 0);
    assert_int_equal(b.store.queue.topic_count, 0);
    op.put.count = 2;
    assert_int_equal(box_apply(&b, &op), RON_OK);
    box_reopen(&b);
    assert_int_equal(box_stats(&b, "a").ready, 1);
    assert_int_equal(box_stats(&b, "b").ready, 1);
    box_close(&b);
}

static void test_box__dead_letters__listed_replayed_purged(void **state)
{
    struct box b;
    struct iop_receipt r;
    struct iop_op op = {.kind = IOP_OP_DEAD,
                        .dead = {.topic = box_str("t"), .max = 10, .max_bytes = 1 << 20}};
    char body[32];

    (void)state;
    box_init(&b, true);
    b.opts.limits.deliveries_max = 1;
    assert_int_equal(box_open(&b), RON_OK);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(body, sizeof body, "m%d", i);
        assert_int_equal(box_put(&b, "t", body, 0, NULL), RON_OK);
        assert_int_equal(box_recv(&b, "t", &r, body, sizeof body), 1);
        assert_int_equal(box_answer(&b, IOP_OP_NACK, "t", r, 0), RON_OK);
    }
    box_reopen(&b);
    assert_int_equal(box_apply(&b, &op), RON_OK);
    assert_int_equal(op.dead.count, 3);
    assert_memory_equal(op.dead.got[0].body.ptr, "m0", 2);
    assert_memory_equal(op.dead.got[2].reason.ptr, "because", 7);
    op.dead.id = op.dead.got[1].receipt.id;
    iop_op_done(&op);
    op.kind = IOP_OP_REPLAY;
    assert_int_equal(box_apply(&b, &op), RON_OK);
    assert_int_equal(op.dead.count, 1);
    assert_int_equal(box_apply(&b, &op), RON_NOTFOUND);
    assert_int_equal(box_recv(&b, "t", &r, body, sizeof body), 1);
    assert_string_equal(body, "m1");
    op.kind = IOP_OP_PURGE;
    op.dead.id = 0;
    assert_int_equal(box_apply(&b, &op), RON_OK);
    assert_int_equal(op.dead.count, 2);
    assert_int_equal(box_stats(&b, "t").dead, 0);
    box_reopen(&b);
    assert_int_equal(b.store.queue.messages, 1);
    box_close(&b);
}

static void test_box__long_poll__answered_by_a_put_or_by_time(void **state)
{
    struct box b;
    unsigned answers = 0;
    struct iop_op ops[2];
    struct iop_op *all[2] = {&ops[0], &ops[1]};

    (void)state;
    box_init(&b, false);
    assert_int_equal(box_open(&b), RON_OK);
    for (int i = 0; i < 2; i++) {
        ops[i] = (struct iop_op){.kind = IOP_OP_RECV,
                                 .done = box_done,
                                 .arg = &answers,
                                 .recv = {.topic = box_str("t"),
                                          .max = 10,
                                          .max_bytes = 1000,
                                          .visibility_ms = 1000,
                                          .wait_ms = 500}};
    }
    iop_store_apply(&b.store, all, 2);
    assert_int_equal(answers, 0);
    assert_int_equal(iop_store_next_ns(&b.store), b.clock.ns + 500 * RON_NS_PER_MS);
    assert_int_equal(box_put(&b, "t", "x", 0, NULL), RON_OK);
    assert_int_equal(answers, 1);
    assert_int_equal(ops[0].recv.count, 1);
    box_pass(&b, 499);
    assert_int_equal(answers, 1);
    box_pass(&b, 1);
    assert_int_equal(answers, 2);
    assert_int_equal(ops[1].recv.count, 0);
    iop_op_done(&ops[0]);
    iop_op_done(&ops[1]);
    box_close(&b);
}

static void test_box__answer_bounded__by_count_and_by_bytes(void **state)
{
    struct box b;
    struct iop_op op = {
        .kind = IOP_OP_RECV,
        .recv = {.topic = box_str("t"), .max = 2, .max_bytes = 1000, .visibility_ms = 1000}};

    (void)state;
    box_init(&b, false);
    assert_int_equal(box_open(&b), RON_OK);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(box_put(&b, "t", "0123456789", 0, NULL), RON_OK);
    }
    assert_int_equal(box_apply(&b, &op), RON_OK);
    assert_int_equal(op.recv.count, 2);
    iop_op_done(&op);
    op.recv.max = 10;
    op.recv.max_bytes = 1; /* one is given even so */
    assert_int_equal(box_apply(&b, &op), RON_OK);
    assert_int_equal(op.recv.count, 1);
    iop_op_done(&op);
    op.recv.visibility_ms = IOP_VISIBILITY_MIN_MS - 1;
    assert_int_equal(box_apply(&b, &op), RON_INVALID);
    box_close(&b);
}

static void test_box__target__off_survives(void **state)
{
    struct box b;
    struct iop_op op = {.kind = IOP_OP_TARGET,
                        .target = {.name = box_str("https://x.example/hook"),
                                   .set = true,
                                   .off = true,
                                   .reason = box_str("410")}};

    (void)state;
    box_init(&b, true);
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_apply(&b, &op), RON_OK);
    box_reopen(&b);
    op.target.set = false;
    op.target.off = false;
    assert_int_equal(box_apply(&b, &op), RON_OK);
    assert_true(op.target.off);
    assert_memory_equal(op.target.reason.ptr, "410", 3);
    iop_op_done(&op);
    op.target.set = true;
    op.target.off = false;
    assert_int_equal(box_apply(&b, &op), RON_OK);
    op.target.set = false;
    assert_int_equal(box_apply(&b, &op), RON_OK);
    assert_false(op.target.off);
    iop_op_done(&op);
    box_close(&b);
}

static void test_box__second_process__refused(void **state)
{
    struct box b;
    struct iop_store other;

    (void)state;
    box_init(&b, true);
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(iop_store_open(&other, &b.opts, NULL), RON_CONFLICT);
    box_close(&b);
}

static void test_box__receipts_and_topics__one_spelling(void **state)
{
    static const char *const bad[] = {"",
                                      "1",
                                      "1-",
                                      "-1",
                                      "0-1",
                                      "01-1",
                                      "1-0",
                                      "1-01",
                                      "1-1 ",
                                      "1-4294967296",
                                      "9223372036854775808-1",
                                      "a-1"};
    struct iop_receipt r;
    char text[IOP_RECEIPT_SIZE];

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        assert_false(iop_receipt_parse(box_str(bad[i]), &r));
    }
    assert_true(iop_receipt_parse(box_str("9223372036854775807-4294967295"), &r));
    iop_receipt_format(r, text);
    assert_string_equal(text, "9223372036854775807-4294967295");
    assert_true(iop_topic_valid(box_str("a.b_c-9")));
    assert_false(iop_topic_valid(box_str(".a")));
    assert_true(iop_topic_internal(box_str(".a")));
    assert_false(iop_topic_internal(box_str("a")));
    assert_false(iop_topic_valid(box_str("a/b")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOX_CASE(test_box__sent__received_acknowledged_gone),
        BOX_CASE(test_box__lease_ends__again_and_then_dead),
        BOX_CASE(test_box__late_ack_before_redelivery__accepted),
        BOX_CASE(test_box__nack__delay_by_hand_and_by_curve),
        BOX_CASE(test_box__delayed__not_before_its_time),
        BOX_CASE(test_box__reopened__everything_is_there),
        BOX_CASE(test_box__same_key__one_effect_also_after_restart),
        BOX_CASE(test_box__same_key_in_one_group__one_effect),
        BOX_CASE(test_box__limits__each_refused_with_its_code),
        BOX_CASE(test_box__topics_full__those_without_messages_make_room),
        BOX_CASE(test_box__topics_full__dead_letters_and_waiters_keep_theirs),
        BOX_CASE(test_box__put_of_many__all_or_none),
        BOX_CASE(test_box__dead_letters__listed_replayed_purged),
        BOX_CASE(test_box__long_poll__answered_by_a_put_or_by_time),
        BOX_CASE(test_box__answer_bounded__by_count_and_by_bytes),
        BOX_CASE(test_box__target__off_survives),
        BOX_CASE(test_box__second_process__refused),
        BOX_CASE(test_box__receipts_and_topics__one_spelling),
    };

    return BOX_MAIN(tests);
}
