/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: tries, waits, deadlines, the breaker, and the end of a job at any moment (J2 to J5).
 * Method: as test_job.c; every wait is measured on the clock that the job is given. */
#include "unit/wallet/desk.h"

#define TRANSFER_N "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"40\",\"nonce\":5}"

static struct order o;

static int setup(void **state)
{
    (void)state;
    desk_open(11);
    desk.core.daily_ceiling = ron_money_of(100);
    wlt_nonce_learn(desk.core.nonces, desk_account("a"), 4);
    order_init(&o, WLT_TRANSFER, TRANSFER_N, "k");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    order_done(&o);
    desk_close();
    return 0;
}

/* To the point where the batch is under way. */
static void begin_sent(uint64_t deadline_ms)
{
    (void)order_begin(&o, deadline_ms);
    if (o.step == WLT_STEP_SEND && o.job.code == LC_CODE_READ) {
        (void)order_json(&o, 200, "{\"debited\":\"0\",\"next\":null}");
    }
    assert_int_equal(o.step, WLT_STEP_SEND);
    assert_int_equal(o.job.code, LC_CODE_INGEST);
}

static void silence(void)
{
    desk_pass_ms((o.job.until_ns - desk.now_ns) / RON_NS_PER_MS);
    (void)order_reply(&o, WLT_REPLY_UNKNOWN, 0, NULL, 0);
}

static void assert_answer(enum wlt_reason reason)
{
    assert_int_equal(o.step, WLT_STEP_ANSWER);
    if (o.job.fault.reason != reason) {
        fail_msg("answered %s: %s", wlt_reason_label(o.job.fault.reason), o.job.fault.detail);
    }
}

static enum wlt_nonce_verdict nonce_verdict(uint64_t nonce)
{
    struct wlt_nonce_ticket ticket;
    uint64_t expected = 0;
    enum wlt_nonce_verdict v =
        wlt_nonce_reserve(desk.core.nonces, desk_account("a"), nonce, &ticket, &expected);

    if (v == WLT_NONCE_RESERVED) {
        wlt_nonce_settle(desk.core.nonces, ticket, WLT_REFUSED);
    }
    return v;
}

/* What the table says to so much more; a reservation is given back. */
static enum wlt_daily_verdict day_verdict(uint64_t amount)
{
    struct wlt_key pair =
        wlt_key_of(&desk.core.secret, WLT_KEY_ACCOUNT_ASSET, desk_str("a"), desk_str("roc"));
    uint32_t day = (uint32_t)(desk.wall_ms / DESK_DAY_MS);
    struct ron_money left;
    enum wlt_daily_verdict v = wlt_daily_reserve(desk.core.daily, pair, day, ron_money_of(amount),
                                                 desk.core.daily_ceiling, &left);

    if (v == WLT_DAILY_OK) {
        wlt_daily_settle(desk.core.daily, pair, day, ron_money_of(amount), WLT_REFUSED);
    }
    return v;
}

static bool key_is_free(void)
{
    struct wlt_key key =
        wlt_key_of(&desk.core.secret, WLT_KEY_IDEM, desk_str(o.call.idem_id), desk_str(""));
    enum wlt_idem_verdict v = wlt_idem_begin(desk.core.idem, key, o.call.fingerprint,
                                             desk.now_ns / RON_NS_PER_MS, &o.out);

    if (v == WLT_IDEM_FIRST) {
        wlt_idem_abandon(desk.core.idem, key);
    }
    return v == WLT_IDEM_FIRST;
}

/* J1, after a refusal: all is as before. */
static void assert_given_back(void)
{
    assert_int_equal(nonce_verdict(5), WLT_NONCE_RESERVED);
    assert_int_not_equal(day_verdict(100), WLT_DAILY_EXCEEDED);
    assert_true(key_is_free());
}

/* J1, after an end that nobody knows. */
static void assert_unknown(void)
{
    assert_int_equal(nonce_verdict(5), WLT_NONCE_ASK);
    assert_true(key_is_free());
}

static uint64_t failures(void)
{
    struct ron_breaker_stats stats;

    ron_breaker_get_stats(&desk.ledgers.of[0].breaker, &stats);
    return stats.upstream_fail_total;
}

/* ---- tries ----------------------------------------------------------------------------------- */

static void test_job__no_answers__three_tries_of_the_same_bytes(void **state)
{
    char first[4096];
    size_t len;
    uint64_t start = desk.now_ns;

    (void)state;
    begin_sent(5000);
    len = ron_buf_len(&o.job.payload);
    memcpy(first, ron_buf_data(&o.job.payload), len);
    for (int i = 0; i < 2; i++) {
        uint64_t base_ms = i == 0 ? 50 : 100;
        uint64_t wait_ns;

        assert_int_equal(o.job.until_ns, desk.now_ns + 1000 * RON_NS_PER_MS);
        silence();
        assert_int_equal(o.step, WLT_STEP_WAIT);
        wait_ns = o.job.until_ns - desk.now_ns;
        assert_in_range(wait_ns, base_ms * RON_NS_PER_MS, (base_ms + 20) * RON_NS_PER_MS);
        (void)order_wait(&o);
        assert_int_equal(o.step, WLT_STEP_SEND);
        assert_int_equal(ron_buf_len(&o.job.payload), len);
        assert_memory_equal(ron_buf_data(&o.job.payload), first, len); /* J3 */
    }
    silence();
    assert_answer(WLT_REASON_TIMEOUT);
    assert_in_range(desk.now_ns - start, 3150 * RON_NS_PER_MS, 3190 * RON_NS_PER_MS);
    assert_unknown();
    assert_int_equal(day_verdict(60), WLT_DAILY_OK);  /* 40 stay counted, */
    assert_int_equal(day_verdict(61), WLT_DAILY_ASK); /* until it matters */
    assert_int_equal(failures(), 3);
    assert_int_equal(ron_stat_get(&desk.core.retries.backoff_retries_total[RON_VERDICT_AGAIN]), 2);
}

static void test_job__answer_to_the_second_try__committed_as_its_first_answer(void **state)
{
    (void)state;
    begin_sent(5000);
    silence();
    (void)order_wait(&o);
    (void)order_done_word(&o, 9, 9, true); /* the first one had arrived */
    assert_answer(WLT_REASON_NONE);
    assert_false(o.job.replayed);
    assert_int_equal(nonce_verdict(6), WLT_NONCE_RESERVED);
    assert_int_equal(day_verdict(61), WLT_DAILY_EXCEEDED);
    assert_int_equal(day_verdict(60), WLT_DAILY_OK);
}

static void test_job__refused_after_a_silence__nobody_knows(void **state)
{
    (void)state;
    begin_sent(5000);
    silence();
    (void)order_wait(&o);
    (void)order_refusal(&o, 409, "insufficient_funds", "more than is available", 0);
    assert_answer(WLT_REASON_TIMEOUT); /* the first one may still arrive */
    assert_unknown();
}

static void test_job__busy_then_refused__definite(void **state)
{
    (void)state;
    begin_sent(5000);
    (void)order_refusal(&o, 429, "busy", "full", 0);
    assert_int_equal(o.step, WLT_STEP_WAIT);
    (void)order_wait(&o);
    (void)order_reply(&o, WLT_REPLY_NOT_SENT, 0, NULL, 0);
    (void)order_wait(&o);
    (void)order_refusal(&o, 409, "insufficient_funds", "more than is available", 0);
    assert_answer(WLT_REASON_FUNDS);
    assert_given_back();
}

/* What remains when all tries end so. */
static void test_job__every_transient_end__tried_three_times(void **state)
{
    static const struct {
        const char *reason; /* NULL: not sent; "": an answer that is none */
        uint16_t status;
        enum wlt_reason want;
        bool unknown;
        uint64_t failures; /* that the breaker counts */
    } rows[] = {
        {NULL, 0, WLT_REASON_UPSTREAM, false, 3},
        {"busy", 429, WLT_REASON_UPSTREAM, false, 0},
        {"busy", 503, WLT_REASON_UPSTREAM, false, 0},
        {"not_leader", 421, WLT_REASON_UPSTREAM, false, 0},
        {"safe_mode", 503, WLT_REASON_UPSTREAM, true, 3},
        {"draining", 503, WLT_REASON_UPSTREAM, true, 3},
        {"timeout", 503, WLT_REASON_TIMEOUT, true, 3},
        {"internal", 500, WLT_REASON_UPSTREAM, true, 3},
        {"", 200, WLT_REASON_UPSTREAM, true, 3},
        {"", 502, WLT_REASON_UPSTREAM, true, 3},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        uint64_t before = failures();
        int tries = 0;

        desk_pass_ms(20000); /* the breaker forgets */
        wlt_nonce_learn(desk.core.nonces, desk_account("a"), 4);
        desk.core.daily_ceiling = RON_MONEY_MAX;
        begin_sent(5000);
        while (o.step != WLT_STEP_ANSWER) {
            if (o.step == WLT_STEP_WAIT) {
                (void)order_wait(&o);
                continue;
            }
            tries++;
            if (rows[i].reason == NULL) {
                (void)order_reply(&o, WLT_REPLY_NOT_SENT, 0, NULL, 0);
            } else if (*rows[i].reason == '\0') {
                (void)order_json(&o, rows[i].status, "<html>");
            } else {
                (void)order_refusal(&o, rows[i].status, rows[i].reason, "later", 0);
            }
        }
        assert_int_equal(tries, 3);
        assert_answer(rows[i].want);
        assert_int_equal(nonce_verdict(5), rows[i].unknown ? WLT_NONCE_ASK : WLT_NONCE_RESERVED);
        assert_true(key_is_free());
        assert_int_equal(failures() - before, rows[i].failures);
    }
}

static void test_job__reads_have_tries_of_their_own__nothing_left(void **state)
{
    (void)state;
    (void)order_begin(&o, 5000);
    assert_int_equal(o.job.code, LC_CODE_READ);
    for (int i = 0; i < 2; i++) {
        (void)order_refusal(&o, 503, "safe_mode", "later", 0);
        (void)order_wait(&o);
    }
    (void)order_json(&o, 200, "{\"debited\":\"0\",\"next\":null}");
    assert_int_equal(o.job.code, LC_CODE_INGEST);
    for (int i = 0; i < 2; i++) {
        (void)order_reply(&o, WLT_REPLY_NOT_SENT, 0, NULL, 0);
        assert_int_equal(o.step, WLT_STEP_WAIT);
        (void)order_wait(&o);
    }
    (void)order_done_word(&o, 9, 9, false);
    assert_answer(WLT_REASON_NONE);
}

static void test_job__read_without_answer__timeout_and_all_given_back(void **state)
{
    (void)state;
    (void)order_begin(&o, 5000);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(o.job.code, LC_CODE_READ);
        silence();
        if (i < 2) {
            (void)order_wait(&o);
        }
    }
    assert_answer(WLT_REASON_TIMEOUT);
    desk.core.daily_ceiling = ron_money_of(100);
    assert_given_back(); /* the batch never left */
}

/* ---- several ledgers ------------------------------------------------------------------------- */

#define ELSEWHERE                                                                                  \
    "{\"code\":\"NOT_LEADER\",\"message\":\"m\",\"retryable\":true,\"reason\":\"not_leader\","     \
    "\"leader\":\"unix:/b\"}"

static void test_job__another_ledger_leads__the_same_bytes_go_there(void **state)
{
    char first[4096];
    size_t len;

    (void)state;
    begin_sent(5000);
    assert_int_equal(o.job.which, 0);
    len = ron_buf_len(&o.job.payload);
    assert_true(len < sizeof first);
    memcpy(first, ron_buf_data(&o.job.payload), len);
    (void)order_json(&o, 421, ELSEWHERE);
    (void)order_wait(&o);
    assert_int_equal(o.step, WLT_STEP_SEND);
    assert_int_equal(o.job.which, 1);
    assert_int_equal(ron_buf_len(&o.job.payload), len); /* J3 */
    assert_memory_equal(ron_buf_data(&o.job.payload), first, len);
    (void)order_done_word(&o, 9, 9, false);
    assert_answer(WLT_REASON_NONE);
    assert_int_equal(failures(), 0);
}

/* The first try may be in the log of which the second ledger has not read the end: its refusal is
 * no definite word (J2). */
static void test_job__lost_at_one_and_refused_by_the_other__nobody_knows(void **state)
{
    (void)state;
    begin_sent(5000);
    silence();
    assert_true(lc_ledgers_leads(&desk.ledgers, 1));
    (void)order_wait(&o);
    assert_int_equal(o.job.which, 1);
    (void)order_refusal(&o, 409, "insufficient_funds", "none left", 0);
    assert_answer(WLT_REASON_TIMEOUT);
    assert_unknown();
}

static void test_job__the_choice_moves_under_way__its_breaker_hears_of_it(void **state)
{
    struct ron_breaker_stats stats;

    (void)state;
    begin_sent(5000);
    assert_true(lc_ledgers_leads(&desk.ledgers, 1));
    silence(); /* of the first, which was asked */
    ron_breaker_get_stats(&desk.ledgers.of[0].breaker, &stats);
    assert_int_equal(stats.upstream_fail_total, 1);
    ron_breaker_get_stats(&desk.ledgers.of[1].breaker, &stats);
    assert_int_equal(stats.upstream_fail_total, 0);
    (void)order_wait(&o);
    (void)order_done_word(&o, 9, 9, true);
    assert_answer(WLT_REASON_NONE);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static void test_job__deadline__no_try_and_no_wait_goes_beyond(void **state)
{
    uint64_t start;

    (void)state;
    desk.core.daily_ceiling = RON_MONEY_MAX;
    for (uint64_t deadline_ms = 0; deadline_ms < 3400; deadline_ms += 50) {
        desk_pass_ms(20000);
        wlt_nonce_learn(desk.core.nonces, desk_account("a"), 4);
        start = desk.now_ns;
        (void)order_begin(&o, deadline_ms);
        while (o.step != WLT_STEP_ANSWER) {
            assert_true(o.job.until_ns <= start + deadline_ms * RON_NS_PER_MS); /* J4 */
            assert_true(o.job.until_ns <= desk.now_ns + 1000 * RON_NS_PER_MS);
            if (o.step == WLT_STEP_WAIT) {
                (void)order_wait(&o);
            } else {
                silence();
            }
        }
        assert_answer(WLT_REASON_TIMEOUT);
        assert_true(desk.now_ns <= start + deadline_ms * RON_NS_PER_MS);
        assert_int_equal(nonce_verdict(5), deadline_ms == 0 ? WLT_NONCE_RESERVED : WLT_NONCE_ASK);
    }
}

/* ---- the breaker ----------------------------------------------------------------------------- */

static void one_failure(void)
{
    (void)order_begin(&o, 5000);
    assert_int_equal(o.step, WLT_STEP_SEND);
    (void)order_reply(&o, WLT_REPLY_NOT_SENT, 0, NULL, 0);
    wlt_job_abort(&desk.core, &o.job, WLT_REASON_DRAINING);
    o.step = WLT_STEP_ANSWER;
}

static void test_job__twenty_failures__refused_at_once_for_five_seconds(void **state)
{
    (void)state;
    desk.core.daily_ceiling = RON_MONEY_MAX;
    for (int i = 0; i < 20; i++) {
        one_failure();
    }
    (void)order_begin(&o, 5000);
    assert_answer(WLT_REASON_UPSTREAM);
    assert_int_equal(nonce_verdict(5), WLT_NONCE_RESERVED);
    assert_true(key_is_free());
    desk_pass_ms(4999);
    (void)order_begin(&o, 5000);
    assert_answer(WLT_REASON_UPSTREAM);
    desk_pass_ms(1);
    for (int i = 0; i < 10; i++) { /* probes; a refusal shows that the ledger works */
        (void)order_begin(&o, 5000);
        assert_int_equal(o.step, WLT_STEP_SEND);
        (void)order_refusal(&o, 409, "insufficient_funds", "more than is available", 0);
    }
    for (int i = 0; i < 19; i++) { /* closed, with clean counts */
        one_failure();
    }
    (void)order_begin(&o, 5000);
    assert_int_equal(o.step, WLT_STEP_SEND);
    (void)order_done_word(&o, 9, 9, false);
    assert_answer(WLT_REASON_NONE);
}

/* Otherwise a client with short deadlines would close the ledger for everybody. */
static void test_job__silence_until_the_clients_deadline__breaker_does_not_count(void **state)
{
    uint64_t before = failures();

    (void)state;
    desk.core.daily_ceiling = RON_MONEY_MAX;
    for (int i = 0; i < 30; i++) {
        wlt_nonce_learn(desk.core.nonces, desk_account("a"), 4);
        begin_sent(1 + (uint64_t)i);
        silence();
        assert_answer(WLT_REASON_TIMEOUT);
    }
    assert_int_equal(failures(), before);
    wlt_nonce_learn(desk.core.nonces, desk_account("a"), 4);
    begin_sent(1500);
    silence(); /* a whole second: that is the ledger's */
    assert_int_equal(failures(), before + 1);
    wlt_job_abort(&desk.core, &o.job, WLT_REASON_DRAINING);
    o.step = WLT_STEP_ANSWER;
}

static void test_job__queue_full_on_the_way__breaker_does_not_count(void **state)
{
    static const struct wlt_reply full = {.kind = WLT_REPLY_NOT_SENT, .busy = true};
    uint64_t before = failures();

    (void)state;
    desk.core.daily_ceiling = RON_MONEY_MAX;
    begin_sent(5000);
    o.step = wlt_job_answered(&desk.core, &o.job, &full, desk.now_ns);
    assert_int_equal(o.step, WLT_STEP_WAIT);
    assert_int_equal(failures(), before);
    (void)order_wait(&o);
    (void)order_done_word(&o, 9, 9, false);
    assert_answer(WLT_REASON_NONE);
}

static void test_job__breaker_opens_between_tries__nobody_knows(void **state)
{
    struct ron_breaker_ticket ticket;

    (void)state;
    begin_sent(5000);
    silence();
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ron_breaker_admit(&desk.ledgers.of[0].breaker, &ticket, NULL), RON_OK);
        ron_breaker_report(&desk.ledgers.of[0].breaker, ticket, RON_CALL_FAILURE);
        if (ron_breaker_admit(&desk.ledgers.of[0].breaker, &ticket, NULL) != RON_OK) {
            break;
        }
        ron_breaker_report(&desk.ledgers.of[0].breaker, ticket, RON_CALL_VOID);
    }
    (void)order_wait(&o);
    assert_answer(WLT_REASON_TIMEOUT);
    assert_unknown();
}

/* ---- the end at any moment ------------------------------------------------------------------- */

static void abort_now(void)
{
    wlt_job_abort(&desk.core, &o.job, WLT_REASON_DRAINING);
    o.step = WLT_STEP_ANSWER;
    assert_answer(WLT_REASON_DRAINING);
    wlt_job_abort(&desk.core, &o.job, WLT_REASON_INTERNAL); /* over is over */
    assert_answer(WLT_REASON_DRAINING);
}

static void test_job__aborted_while_reading__given_back(void **state)
{
    (void)state;
    (void)order_begin(&o, 5000);
    assert_int_equal(o.job.code, LC_CODE_READ);
    abort_now();
    assert_given_back();
    assert_int_equal(failures(), 0);
}

static void test_job__aborted_while_the_batch_is_under_way__nobody_knows(void **state)
{
    (void)state;
    begin_sent(5000);
    abort_now();
    assert_unknown();
    assert_int_equal(day_verdict(61), WLT_DAILY_ASK);
}

static void test_job__aborted_between_tries__as_the_tries_ended(void **state)
{
    (void)state;
    begin_sent(5000);
    (void)order_reply(&o, WLT_REPLY_NOT_SENT, 0, NULL, 0);
    abort_now(); /* nothing has left */
    assert_given_back();
    begin_sent(5000);
    silence();
    abort_now();
    assert_unknown();
}

static void test_job__aborted_while_looking__as_far_as_is_known(void **state)
{
    (void)state;
    begin_sent(5000);
    (void)order_refusal(&o, 409, "conflict", "the hold has expired", 0);
    abort_now(); /* refused for good */
    assert_given_back();
    begin_sent(5000);
    (void)order_refusal(&o, 409, "idem_mismatch", "another body", 0);
    abort_now(); /* it may be this very request that stands there */
    assert_unknown();
    assert_int_equal(day_verdict(100), WLT_DAILY_OK); /* the sum was counted with the first one */
    wlt_nonce_learn(desk.core.nonces, desk_account("a"), 4);
    begin_sent(5000);
    (void)order_refusal(&o, 409, "nonce_conflict", "not the next one", 0);
    abort_now();
    assert_int_equal(nonce_verdict(5), WLT_NONCE_ASK); /* forgotten */
    assert_int_equal(day_verdict(100), WLT_DAILY_OK);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_job__no_answers__three_tries_of_the_same_bytes),
        CASE(test_job__answer_to_the_second_try__committed_as_its_first_answer),
        CASE(test_job__refused_after_a_silence__nobody_knows),
        CASE(test_job__busy_then_refused__definite),
        CASE(test_job__every_transient_end__tried_three_times),
        CASE(test_job__reads_have_tries_of_their_own__nothing_left),
        CASE(test_job__read_without_answer__timeout_and_all_given_back),
        CASE(test_job__deadline__no_try_and_no_wait_goes_beyond),
        CASE(test_job__twenty_failures__refused_at_once_for_five_seconds),
        CASE(test_job__another_ledger_leads__the_same_bytes_go_there),
        CASE(test_job__lost_at_one_and_refused_by_the_other__nobody_knows),
        CASE(test_job__the_choice_moves_under_way__its_breaker_hears_of_it),
        CASE(test_job__silence_until_the_clients_deadline__breaker_does_not_count),
        CASE(test_job__queue_full_on_the_way__breaker_does_not_count),
        CASE(test_job__breaker_opens_between_tries__nobody_knows),
        CASE(test_job__aborted_while_reading__given_back),
        CASE(test_job__aborted_while_the_batch_is_under_way__nobody_knows),
        CASE(test_job__aborted_between_tries__as_the_tries_ended),
        CASE(test_job__aborted_while_looking__as_far_as_is_known),
    };

    return cmocka_run_group_tests_name("wallet.wlt_job_tries", tests, NULL, NULL);
}
