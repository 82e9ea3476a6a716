/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a write without memory is told so, holds nothing afterwards, and is neither lost nor paid
 * twice: what was committed before the memory ended gives its receipt when it is asked for again.
 * Method: the fault sweep over the life of a job of a batch (its room, the questions, the batch and
 * the receipt); tables and request are there before. Then the same request with memory. */
#include "unit/wallet/desk.h"

#define BODY                                                                                       \
    "{\"operations\":[{\"op\":\"transfer\",\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"1\","    \
    "\"nonce\":1},{\"op\":\"burn\",\"from\":\"a\",\"amount_minor\":\"1\",\"nonce\":2}]}"

static struct order o;
static bool committed;

static int setup(void **state)
{
    (void)state;
    desk_open(3);
    order_init(&o, WLT_OP_COUNT, BODY, "k");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    order_done(&o);
    desk_close();
    return 0;
}

/* A ledger of one batch. */
static void answer(struct order *x)
{
    const char *target = (const char *)ron_buf_data(&x->job.payload);

    if (x->job.code == LC_CODE_INGEST) {
        bool replayed = committed;

        committed = true;
        (void)order_done_word(x, 4, 5, replayed);
    } else if (strncmp(target, "/outcome/", 9) == 0 && committed) {
        (void)order_committed(x, 4, 5);
    } else if (strncmp(target, "/outcome/", 9) == 0) {
        (void)order_json(x, 200, "{\"idem_id\":\"x\",\"outcome\":\"unknown\"}");
    } else if (strncmp(target, "/entries/", 9) == 0) {
        (void)order_place(x, 4, 4, 5, x->call.idem_id);
    } else {
        (void)order_account(x, 9, committed ? 2 : 0, 100, 0);
    }
}

static enum ron_rc run_job(void)
{
    ron_buf_done(&o.out);
    ron_buf_init(&o.out, DESK_OUT_MAX);
    wlt_job_done(&o.job);
    wlt_job_init(&o.job);
    (void)order_begin(&o, 5000);
    for (int i = 0; i < 20 && o.step != WLT_STEP_ANSWER; i++) {
        answer(&o);
    }
    RON_ASSERT(o.step == WLT_STEP_ANSWER);
    return o.job.fault.reason == WLT_REASON_NONE ? RON_OK : RON_NOMEM;
}

static enum ron_rc life(void *arg)
{
    struct wlt_nonce_ticket ticket;
    uint64_t expected = 0;
    enum wlt_nonce_verdict v;
    enum ron_rc rc;

    (void)arg;
    desk_pass_ms(2 * DESK_DAY_MS); /* the answer of the life before is forgotten */
    committed = false;
    wlt_nonce_forget(desk.core.nonces, desk_account("a"));
    rc = run_job();
    RON_ASSERT(rc == RON_OK || o.job.fault.reason == WLT_REASON_BUSY ||
               (committed && o.job.fault.reason == WLT_REASON_INTERNAL));
    v = wlt_nonce_reserve(desk.core.nonces, desk_account("a"), 3, &ticket, &expected);
    RON_ASSERT(v != WLT_NONCE_PENDING);
    if (v == WLT_NONCE_RESERVED) {
        wlt_nonce_settle(desk.core.nonces, ticket, WLT_REFUSED);
    }
    ron_buf_done(&o.out);
    wlt_job_done(&o.job);
    wlt_job_init(&o.job);
    return rc;
}

static void test_job__each_allocation_fails__told_and_nothing_held(void **state)
{
    (void)state;
    support_sweep_expect_clean(
        &(struct support_sweep){.name = "job", .run = life, .may_succeed = true});
}

/* The n-th allocation of a job fails. */
static size_t left;

static bool fail_one(enum ron_fault_kind kind, const char *site)
{
    (void)site;
    return kind == RON_FAULT_ALLOC && left > 0 && --left == 0;
}

static void test_job__no_memory_then_memory__receipt(void **state)
{
    (void)state;
    for (size_t n = 1; n < 12; n++) {
        desk_pass_ms(2 * DESK_DAY_MS);
        committed = false;
        wlt_nonce_forget(desk.core.nonces, desk_account("a"));
        left = n;
        ron_fault_hook = fail_one;
        RON_IGNORE(run_job());
        ron_fault_hook = NULL;
        assert_int_equal(run_job(), RON_OK);
        assert_true(committed);
        assert_non_null(strstr(ron_buf_text(&o.out), "\"ledger_seq_start\":4"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_job__each_allocation_fails__told_and_nothing_held,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_job__no_memory_then_memory__receipt, setup, teardown),
    };

    return cmocka_run_group_tests_name("fault.wlt_job_faults", tests, NULL, NULL);
}
