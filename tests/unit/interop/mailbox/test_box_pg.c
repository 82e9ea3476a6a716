/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a mailbox in PostgreSQL loses nothing that it answered and does nothing twice, when the
 * database goes away and comes back, when its answers are lost, and when another one takes over.
 * Method: a real server that is stopped and started, faults on its answers, and two mailboxes on
 * the same tables. What both kinds of storage share is in test_box.c and test_box_file.c. */
#include "unit/interop/box_fixture.h"

static int answers_to_lose;

static bool lose_answer(enum ron_fault_kind kind, const char *site)
{
    return kind == RON_FAULT_SYSCALL && strcmp(site, "pg_answer") == 0 && answers_to_lose > 0 &&
           answers_to_lose-- > 0;
}

/* 0: all come through. */
static void lose(int count)
{
    answers_to_lose = count;
    ron_fault_hook = count > 0 ? lose_answer : NULL;
}

enum { ALL = 1 << 20 };

static void server(const char *what)
{
    assert_int_equal(pg_server_ctl(&box_server, what), 0);
}

/* Time passes until the mailbox is itself again. */
static void wait_until_well(struct box *b)
{
    for (int i = 0; i < 100; i++) {
        box_pass(b, 300);
        if (ron_stat_get(&b->store.counts.broken) == 0) {
            return;
        }
        (void)usleep(50000);
    }
    fail_msg("the mailbox did not recover");
}

static void test_box_pg__server_away__refused_and_nothing_lost(void **state)
{
    struct box b;
    struct iop_receipt r;
    char body[16];

    (void)state;
    box_init(&b, false);
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_put(&b, "a", "one", 0, NULL), RON_OK);
    assert_int_equal(box_put(&b, "a", "two", 0, NULL), RON_OK);
    assert_int_equal(box_recv(&b, "a", &r, body, sizeof body), 1);
    server("-m immediate stop");
    /* The answer to the first one is nobody's to know; then it is plain. */
    assert_true(box_put(&b, "a", "x", 0, NULL) != RON_OK);
    assert_int_equal(box_put(&b, "a", "y", 0, NULL), RON_AGAIN);
    assert_int_equal(box_answer(&b, IOP_OP_ACK, "a", r, 0), RON_AGAIN);
    box_pass(&b, 300);
    assert_int_equal(ron_stat_get(&b.store.counts.broken), 1);
    assert_int_equal(box_put(&b, "a", "y", 0, NULL), RON_AGAIN);
    server("start");
    wait_until_well(&b);
    assert_int_equal(box_answer(&b, IOP_OP_ACK, "a", r, 0), RON_OK);
    assert_int_equal(box_recv(&b, "a", &r, body, sizeof body), 1);
    assert_string_equal(body, "two");
    assert_int_equal(box_recv(&b, "a", &r, body, sizeof body), 0);
    assert_int_equal(box_put(&b, "a", "three", 0, NULL), RON_OK);
    box_reopen(&b);
    assert_int_equal(b.store.queue.messages, 2);
    box_close(&b);
}

static void test_box_pg__idle_and_server_away__is_noticed(void **state)
{
    struct box b;

    (void)state;
    box_init(&b, false);
    assert_int_equal(box_open(&b), RON_OK);
    server("-m immediate stop");
    box_pass(&b, 2000);
    assert_int_equal(ron_stat_get(&b.store.counts.broken), 1);
    server("start");
    wait_until_well(&b);
    assert_int_equal(ron_stat_get(&b.store.counts.reloads), 0);
    box_close(&b);
}

static void test_box_pg__answer_lost__found_again(void **state)
{
    struct box b;
    struct iop_receipt r;
    char body[16];

    (void)state;
    box_init(&b, false);
    assert_int_equal(box_open(&b), RON_OK);
    for (int i = 0; i < 3; i++) {
        bool duplicate = true;
        char key[8];

        (void)snprintf(key, sizeof key, "k%d", i);
        lose(1);
        assert_int_equal(box_put_key(&b, "a", "one", key, &duplicate), RON_OK);
        assert_false(duplicate);
        lose(0);
        assert_int_equal(box_put_key(&b, "a", "one", key, &duplicate), RON_OK);
        assert_true(duplicate);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(box_recv(&b, "a", &r, body, sizeof body), 1);
        assert_int_equal(box_answer(&b, IOP_OP_ACK, "a", r, 0), RON_OK);
    }
    assert_int_equal(box_recv(&b, "a", &r, body, sizeof body), 0);
    box_close(&b);
}

/* The answer is lost, and so is every one after it: nobody knows, until the database is back. Then
 * what was committed is there, once, and the sender who tries again is told so. */
static void test_box_pg__answers_lost_for_long__loaded_again(void **state)
{
    struct box b;
    struct iop_receipt r;
    char body[16];
    bool duplicate = false;
    unsigned answers = 0;
    struct iop_op poll_op = {.kind = IOP_OP_RECV,
                             .done = box_done,
                             .arg = &answers,
                             .recv = {.topic = box_str("waits"),
                                      .max = 1,
                                      .max_bytes = 1000,
                                      .visibility_ms = 1000,
                                      .wait_ms = 30000}};
    struct iop_op *ops[1] = {&poll_op};

    (void)state;
    box_init(&b, false);
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_put(&b, "a", "one", 0, NULL), RON_OK);
    assert_int_equal(box_recv(&b, "a", &r, body, sizeof body), 1);
    iop_store_apply(&b.store, ops, 1);
    lose(ALL);
    assert_int_equal(box_put_key(&b, "waits", "two", "k", &duplicate), RON_TIMEOUT);
    assert_int_equal(b.store.queue.messages, 1);
    assert_int_equal(box_put_key(&b, "waits", "two", "k", &duplicate), RON_AGAIN);
    assert_int_equal(box_answer(&b, IOP_OP_ACK, "a", r, 0), RON_AGAIN);
    box_pass(&b, 300);
    assert_int_equal(answers, 0);
    lose(0);
    wait_until_well(&b);
    assert_int_equal(ron_stat_get(&b.store.counts.reloads), 1);
    assert_int_equal(answers, 1); /* who waited for it got it */
    assert_int_equal(poll_op.rc, RON_OK);
    assert_int_equal(poll_op.recv.count, 1);
    iop_op_done(&poll_op);
    assert_int_equal(box_put_key(&b, "waits", "two", "k", &duplicate), RON_OK);
    assert_true(duplicate);
    /* The lease was forgotten, and its holder may still answer. */
    assert_int_equal(box_answer(&b, IOP_OP_ACK, "a", r, 0), RON_OK);
    assert_int_equal(b.store.queue.messages, 1);
    box_close(&b);
}

/* The same for an acknowledgement: what is gone in the database is not delivered again. */
static void test_box_pg__answer_of_an_ack_lost__not_delivered_again(void **state)
{
    struct box b;
    struct iop_receipt r;
    char body[16];

    (void)state;
    box_init(&b, false);
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_put(&b, "a", "one", 0, NULL), RON_OK);
    assert_int_equal(box_recv(&b, "a", &r, body, sizeof body), 1);
    lose(ALL);
    assert_int_equal(box_answer(&b, IOP_OP_ACK, "a", r, 0), RON_TIMEOUT);
    lose(0);
    wait_until_well(&b);
    box_pass(&b, 2000); /* the lease would have ended */
    assert_int_equal(box_recv(&b, "a", &r, body, sizeof body), 0);
    assert_int_equal(ron_stat_get(&b.store.counts.damaged), 0);
    box_close(&b);
}

static void end_sessions(void)
{
    box_sql("SELECT pg_terminate_backend(pid,5000) FROM pg_stat_activity "
            "WHERE application_name='ron interop'");
}

/* A bridge that lost its connection is overtaken; it must neither write nor hand out. When the
 * other one has gone it goes on with what that one left. */
static void test_box_pg__overtaken__silent_until_alone(void **state)
{
    struct box b;
    struct box other;
    struct iop_receipt r;
    char body[16];
    struct iop_op recv = {
        .kind = IOP_OP_RECV,
        .recv = {.topic = box_str("a"), .max = 1, .max_bytes = 1000, .visibility_ms = 1000}};

    (void)state;
    box_init(&b, false);
    assert_int_equal(box_open(&b), RON_OK);
    assert_int_equal(box_put(&b, "a", "one", 0, NULL), RON_OK);
    assert_int_equal(box_put(&b, "a", "two", 0, NULL), RON_OK);
    end_sessions();
    other = b;
    other.env.clock.ctx = &other.clock;
    other.opts.env = &other.env;
    assert_int_equal(box_open(&other), RON_OK);
    assert_int_equal(box_recv(&other, "a", &r, body, sizeof body), 1);
    assert_int_equal(box_answer(&other, IOP_OP_ACK, "a", r, 0), RON_OK);
    assert_int_equal(box_put(&other, "other", "three", 0, NULL), RON_OK);
    assert_true(box_put(&b, "a", "x", 0, NULL) != RON_OK);
    assert_int_equal(box_apply(&b, &recv), RON_AGAIN);
    iop_op_done(&recv);
    box_pass(&b, 300);
    assert_int_equal(ron_stat_get(&b.store.counts.broken), 1);
    assert_int_equal(box_put(&b, "a", "x", 0, NULL), RON_AGAIN);
    iop_store_stop(&other.store);
    iop_store_close(&other.store);
    wait_until_well(&b);
    assert_int_equal(b.store.queue.messages, 2);
    assert_int_equal(box_recv(&b, "a", &r, body, sizeof body), 1);
    assert_string_equal(body, "two");
    assert_int_equal(box_recv(&b, "other", &r, body, sizeof body), 1);
    assert_int_equal(box_put(&b, "b", "four", 0, NULL), RON_OK);
    box_reopen(&b);
    assert_int_equal(b.store.queue.messages, 3);
    box_close(&b);
}

/* More than a page of everything. */
static void test_box_pg__many_rows__all_loaded(void **state)
{
    struct box b;
    struct iop_msg msgs[IOP_PUT_MAX];
    struct iop_op op = {.kind = IOP_OP_PUT, .put = {.msgs = msgs, .count = IOP_PUT_MAX}};

    (void)state;
    box_init(&b, false);
    assert_int_equal(box_open(&b), RON_OK);
    for (size_t i = 0; i < IOP_PUT_MAX; i++) {
        msgs[i] = (struct iop_msg){.topic = box_str(i % 2 == 0 ? "a" : "b"), .body = box_str("x")};
    }
    for (int i = 0; i < 80; i++) {
        assert_int_equal(box_apply(&b, &op), RON_OK);
    }
    box_reopen(&b);
    assert_int_equal(b.store.queue.messages, 80 * IOP_PUT_MAX);
    assert_int_equal(box_stats(&b, "b").ready, 40 * IOP_PUT_MAX);
    box_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOX_CASE(test_box_pg__server_away__refused_and_nothing_lost),
        BOX_CASE(test_box_pg__idle_and_server_away__is_noticed),
        BOX_CASE(test_box_pg__answer_lost__found_again),
        BOX_CASE(test_box_pg__answers_lost_for_long__loaded_again),
        BOX_CASE(test_box_pg__answer_of_an_ack_lost__not_delivered_again),
        BOX_CASE(test_box_pg__overtaken__silent_until_alone),
        BOX_CASE(test_box_pg__many_rows__all_loaded),
    };

    return cmocka_run_group_tests(tests, box_pg_up, box_pg_down);
}
