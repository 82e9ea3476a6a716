/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what follows from an attempt: every status, the whole of both schedules, Retry-After.
 * Method: all statuses by a table of the contract; schedules walked to their end. */
#include "interop/mailbox/outbox.h"
#include "support/support.h"

static struct iop_next next_of(enum iop_schedule schedule, uint32_t delivery, int status,
                               uint64_t retry_after_ms)
{
    struct ron_rand rand = support_rand();

    return iop_outbox_next(
        schedule, delivery,
        &(struct iop_attempt){.rc = RON_OK, .status = status, .retry_after_ms = retry_after_ms},
        &rand);
}

static void test_outbox__every_status__its_verdict(void **state)
{
    (void)state;
    for (int status = 100; status < 600; status++) {
        enum iop_next_kind kind = next_of(IOP_SCHEDULE_FORWARD, 1, status, 0).kind;
        enum iop_next_kind right = IOP_NEXT_DEAD;

        if (status >= 200 && status < 300) {
            right = IOP_NEXT_DONE;
        } else if (status == 410) {
            right = IOP_NEXT_DISABLE;
        } else if (status == 408 || status == 425 || status == 429 || status >= 500) {
            right = IOP_NEXT_RETRY;
        }
        assert_int_equal(kind, right);
    }
}

static void test_outbox__no_answer__tried_again(void **state)
{
    struct ron_rand rand = support_rand();
    struct iop_attempt a = {.rc = RON_TIMEOUT};

    (void)state;
    assert_int_equal(iop_outbox_next(IOP_SCHEDULE_FORWARD, 1, &a, &rand).kind, IOP_NEXT_RETRY);
    assert_int_equal(iop_outbox_next(IOP_SCHEDULE_FORWARD, 10, &a, &rand).kind, IOP_NEXT_DEAD);
}

static void test_outbox__forward_schedule__the_recommended_times(void **state)
{
    static const uint64_t at_s[] = {5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400};
    struct ron_rand rand = support_rand();
    struct iop_attempt a = {.rc = RON_OK, .status = 503};

    (void)state;
    assert_int_equal(iop_outbox_attempts(IOP_SCHEDULE_FORWARD), 10);
    for (uint32_t n = 1; n <= 9; n++) {
        uint64_t base = (at_s[n - 1] - (n > 1 ? at_s[n - 2] : 0)) * 1000;

        for (int k = 0; k < 200; k++) {
            uint64_t delay = iop_outbox_next(IOP_SCHEDULE_FORWARD, n, &a, &rand).delay_ms;

            assert_in_range(delay, base, base + base / 5);
        }
    }
}

static void test_outbox__wallet_schedule__a_day_at_least(void **state)
{
    struct ron_rand rand = support_rand();
    struct iop_attempt a = {.rc = RON_TIMEOUT};
    uint64_t sum = 0;

    (void)state;
    for (uint32_t n = 1;; n++) {
        struct iop_next next = iop_outbox_next(IOP_SCHEDULE_WALLET, n, &a, &rand);

        if (next.kind == IOP_NEXT_DEAD) {
            assert_int_equal(n, iop_outbox_attempts(IOP_SCHEDULE_WALLET));
            break;
        }
        assert_in_range(next.delay_ms, 1000, 450000);
        sum += next.delay_ms;
    }
    assert_true(sum >= UINT64_C(24) * 3600 * 1000);
}

static void test_outbox__retry_after__honoured_to_a_day(void **state)
{
    (void)state;
    assert_int_equal(next_of(IOP_SCHEDULE_FORWARD, 1, 429, 3600000).delay_ms, 3600000);
    assert_in_range(next_of(IOP_SCHEDULE_FORWARD, 1, 429, 1000).delay_ms, 5000, 6000);
    assert_int_equal(next_of(IOP_SCHEDULE_FORWARD, 1, 503, UINT64_MAX).delay_ms,
                     IOP_RETRY_AFTER_MAX_MS);
}

static void test_outbox__answer__the_operation_that_says_so(void **state)
{
    struct iop_receipt r = {7, 1};
    struct iop_op op = {0};
    struct iop_next next = next_of(IOP_SCHEDULE_FORWARD, 1, 200, 0);

    (void)state;
    iop_outbox_answer(&op, (struct ron_str){".forward", 8}, &r, &next);
    assert_int_equal(op.kind, IOP_OP_ACK);
    next = next_of(IOP_SCHEDULE_FORWARD, 1, 410, 0);
    iop_outbox_answer(&op, (struct ron_str){".forward", 8}, &r, &next);
    assert_int_equal(op.kind, IOP_OP_NACK);
    assert_true(op.ack.dead);
    next = next_of(IOP_SCHEDULE_FORWARD, 1, 503, 9000);
    iop_outbox_answer(&op, (struct ron_str){".forward", 8}, &r, &next);
    assert_false(op.ack.dead);
    assert_int_equal(op.ack.delay_ms, 9000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outbox__every_status__its_verdict),
        cmocka_unit_test(test_outbox__no_answer__tried_again),
        cmocka_unit_test(test_outbox__forward_schedule__the_recommended_times),
        cmocka_unit_test(test_outbox__wallet_schedule__a_day_at_least),
        cmocka_unit_test(test_outbox__retry_after__honoured_to_a_day),
        cmocka_unit_test(test_outbox__answer__the_operation_that_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
