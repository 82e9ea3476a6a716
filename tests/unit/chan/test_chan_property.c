/* SPDX-License-Identifier: Apache-2.0 */
/* test_chan_property.c - long random histories equal a plain model.
 *
 * Goal: filling a queue gives the refusal of its policy exactly when it is full, exact depth and
 *   counters, and never a wait (K-22, K-42, K-55); any mix of operations does what the model does.
 * Method: the fill is written out here, on a thread that may not block; the mix runs through the
 *   interpreter that the fuzz target uses. The seed is printed, and RON_SEED repeats a run.
 */
#include "unit/chan/fixture.h"

#include "support/chan_ops.h"

static void test_chan_property__random_fill__busy_exactly_when_full(void **state)
{
    enum { ROUNDS = 200, STEPS = 200 };
    struct ron_rand rand = support_rand();
    uint64_t full_answers = 0;

    (void)ron_thread_set_may_block(false); /* A wait would be a breach. */
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t capacity = (uint32_t)ron_rand_range(&rand, 1, 20);
        struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, capacity);
        uint64_t in = 0;
        uint64_t out = 0;
        uint64_t busy = 0;
        uint64_t deepest = 0;

        for (int step = 0; step < STEPS; step++) {
            if (ron_rand_chance(&rand, 2, 3)) {
                bool full = in - out == capacity;

                assert_int_equal(ron_chan_try_send(c, msg(in % MSGS_MAX), NULL),
                                 full ? RON_FULL : RON_OK);
                in += !full;
                busy += full;
            } else {
                void *item = NULL;
                size_t n = 0;
                enum ron_rc rc = ron_chan_try_recv_many(c, &item, 1, &n);

                assert_int_equal(rc, in == out ? RON_AGAIN : RON_OK);
                if (rc == RON_OK) {
                    assert_int_equal(msg_number(item), out++);
                }
            }
            deepest = RON_MAX(deepest, in - out);
            assert_int_equal(chan_stats(c).depth, in - out);
            assert_int_equal(chan_stats(c).rejected, busy);
        }
        assert_int_equal(chan_stats(c).sent, in);
        assert_int_equal(chan_stats(c).received, out);
        assert_int_equal(chan_stats(c).depth_max, deepest);
        assert_int_equal(chan_stats(c).dropped, 0);
        full_answers += busy;
        ron_chan_free(c);
    }
    (void)ron_thread_set_may_block(true);
    assert_int_equal(ron_sync_violations(RON_BREACH_LOOP), 0);
    assert_true(full_answers > ROUNDS);
}

static void expect_met(const struct chan_ops_seen *seen, enum chan_op op, enum ron_rc rc)
{
    if ((seen->results[op] >> -(int)rc & 1) == 0) {
        fail_msg("no history met %s with %s: the test proves less than it says", chan_op_name(op),
                 ron_rc_name(rc));
    }
}

static void test_chan_property__random_operations__equal_the_model(void **state)
{
    enum { HISTORIES = 4000, OPS = 150 };
    struct ron_rand rand = support_rand();
    struct chan_ops_seen seen = {.steps = 0};

    (void)state;
    for (int i = 0; i < HISTORIES; i++) {
        uint8_t bytes[3 + 2 * OPS];

        ron_rand_bytes(&rand, bytes, sizeof(bytes));
        chan_ops_run(bytes, sizeof(bytes), &seen);
    }
    assert_int_equal(seen.steps, HISTORIES * OPS);
    expect_met(&seen, CHAN_OP_TRY_SEND, RON_OK);
    expect_met(&seen, CHAN_OP_TRY_SEND, RON_FULL);
    expect_met(&seen, CHAN_OP_TRY_SEND, RON_CLOSED);
    expect_met(&seen, CHAN_OP_SEND, RON_TIMEOUT);
    expect_met(&seen, CHAN_OP_SEND, RON_FULL);
    expect_met(&seen, CHAN_OP_TRY_SEND_MANY, RON_FULL);
    expect_met(&seen, CHAN_OP_SEND_POLL, RON_AGAIN);
    expect_met(&seen, CHAN_OP_SEND_RETRY, RON_AGAIN);
    expect_met(&seen, CHAN_OP_SEND_RETRY, RON_FULL);
    expect_met(&seen, CHAN_OP_RESERVE, RON_OK);
    expect_met(&seen, CHAN_OP_RESERVE, RON_FULL);
    expect_met(&seen, CHAN_OP_RECV_MANY, RON_OK);
    expect_met(&seen, CHAN_OP_RECV_MANY, RON_TIMEOUT);
    expect_met(&seen, CHAN_OP_RECV_MANY, RON_CLOSED);
    expect_met(&seen, CHAN_OP_RECV_POLL, RON_OK);
    expect_met(&seen, CHAN_OP_RECV_POLL, RON_AGAIN);
    expect_met(&seen, CHAN_OP_RECV_POLL, RON_CLOSED);
    expect_met(&seen, CHAN_OP_RECV_OR_CHANGED, RON_TIMEOUT);
    expect_met(&seen, CHAN_OP_CLOSE, RON_CLOSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_chan_property__random_fill__busy_exactly_when_full),
        CASE(test_chan_property__random_operations__equal_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
