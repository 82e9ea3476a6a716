/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the debits of the day are read by one job for all, and what it has read is not lost.
 * Method: two jobs driven by hand, as in test_job.c. */
#include "unit/wallet/desk.h"

#define TRANSFER "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"40\"}"

static struct order o;
static struct order p;

static int setup(void **state)
{
    (void)state;
    desk_open(7);
    desk.core.daily_ceiling = ron_money_of(100);
    order_init(&o, WLT_TRANSFER, TRANSFER, "k");
    order_init(&p, WLT_TRANSFER, TRANSFER, "k2");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    order_done(&o);
    order_done(&p);
    desk_close();
    return 0;
}

static void assert_sends(const struct order *x, uint16_t code)
{
    assert_int_equal(x->step, WLT_STEP_SEND);
    assert_int_equal(x->job.code, code);
}

static void assert_answer(const struct order *x, enum wlt_reason reason, const char *part)
{
    assert_int_equal(x->step, WLT_STEP_ANSWER);
    if (x->job.fault.reason != reason || strstr(x->job.fault.detail, part) == NULL) {
        fail_msg("answered %s: %s", wlt_reason_label(x->job.fault.reason), x->job.fault.detail);
    }
}

/* One job reads for all, and who runs out of time leaves its pages to the next: an account with
 * more debits than one request can read would else be closed for the rest of the day. */
static void test_job__day_takes_many_pages__one_reads_and_the_next_goes_on(void **state)
{
    (void)state;
    (void)order_begin(&o, 100);
    (void)order_json(&o, 200, "{\"debited\":\"30\",\"next\":77}");
    assert_int_equal(o.step, WLT_STEP_SEND);
    (void)order_begin(&p, 10000);
    for (int i = 0; i < 10; i++) { /* more often than a question may be asked */
        assert_int_equal(p.step, WLT_STEP_WAIT);
        (void)order_wait(&p);
    }
    (void)order_reply(&o, WLT_REPLY_UNKNOWN, 0, NULL, 0);
    assert_answer(&o, WLT_REASON_TIMEOUT, "");
    while (p.step == WLT_STEP_WAIT) { /* until the other one is missed */
        (void)order_wait(&p);
    }
    assert_sends(&p, LC_CODE_READ);
    assert_non_null(strstr(ron_buf_text(&p.job.payload), "&before=77"));
    (void)order_json(&p, 200, "{\"debited\":\"31\",\"next\":null}");
    assert_memory_equal(ron_buf_data(&p.job.payload), "/outcome/", 9); /* 61 and 40 */
    (void)order_json(&p, 200, "{\"idem_id\":\"x\",\"outcome\":\"unknown\"}");
    assert_answer(&p, WLT_REASON_LIMITS,
                  "amount_minor: daily ceiling exceeded; remaining today: 39");
}

static void test_job__another_one_reads_the_day__waits_until_the_deadline(void **state)
{
    uint64_t start;

    (void)state;
    (void)order_begin(&o, 5000);
    start = desk.now_ns;
    (void)order_begin(&p, 35);
    while (p.step == WLT_STEP_WAIT) {
        (void)order_wait(&p);
    }
    assert_answer(&p, WLT_REASON_TIMEOUT, "");
    assert_int_equal(desk.now_ns - start, 35 * RON_NS_PER_MS);
    (void)order_begin(&p, 5000);
    assert_int_equal(p.step, WLT_STEP_WAIT);
    wlt_job_abort(&desk.core, &p.job, WLT_REASON_DRAINING);
    p.step = WLT_STEP_ANSWER;
    (void)order_begin(&p, 5000);
    (void)order_json(&o, 200, "{\"debited\":\"0\",\"next\":null}");
    assert_sends(&o, LC_CODE_INGEST);
    (void)order_wait(&p);
    assert_sends(&p, LC_CODE_INGEST);
    (void)order_done_word(&o, 9, 9, false);
    (void)order_done_word(&p, 10, 10, false);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_job__day_takes_many_pages__one_reads_and_the_next_goes_on),
        CASE(test_job__another_one_reads_the_day__waits_until_the_deadline),
    };

    return cmocka_run_group_tests_name("wallet.wlt_job_day", tests, NULL, NULL);
}
