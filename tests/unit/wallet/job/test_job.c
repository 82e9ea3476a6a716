/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: every arrow of the picture in wallet/job/job.h, with the tables as they must be afterwards.
 * Method: a job is driven by hand with answers as the ledger gives them; the real tables; a clock
 * that moves only when told. Tries, deadlines and the breaker are in test_job_tries.c. */
#include "unit/wallet/desk.h"

#define TRANSFER "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"40\"}"
#define TRANSFER_N "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"40\",\"nonce\":5}"

static struct order o;
static struct order p;

static int setup(void **state)
{
    (void)state;
    desk_open(7);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    desk_close();
    return 0;
}

static void assert_sends(const struct order *x, uint16_t code, const char *target)
{
    assert_int_equal(x->step, WLT_STEP_SEND);
    assert_int_equal(x->job.code, code);
    if (target != NULL) {
        assert_int_equal(ron_buf_len(&x->job.payload), strlen(target));
        assert_memory_equal(ron_buf_data(&x->job.payload), target, strlen(target));
    }
}

static void assert_answer(const struct order *x, enum wlt_reason reason, const char *part)
{
    assert_int_equal(x->step, WLT_STEP_ANSWER);
    if (x->job.fault.reason != reason || strstr(x->job.fault.detail, part) == NULL) {
        fail_msg("answered %s: %s", wlt_reason_label(x->job.fault.reason), x->job.fault.detail);
    }
}

static void assert_out(struct order *x, const char *part)
{
    assert_int_equal(x->step, WLT_STEP_ANSWER);
    assert_int_equal(x->job.fault.reason, WLT_REASON_NONE);
    if (strstr(ron_buf_text(&x->out), part) == NULL) {
        fail_msg("no %s in %s", part, ron_buf_text(&x->out));
    }
}

/* What the table says about a nonce; a reservation is given back. */
static enum wlt_nonce_verdict nonce_verdict(const char *account, uint64_t nonce)
{
    struct wlt_nonce_ticket ticket;
    uint64_t expected = 0;
    enum wlt_nonce_verdict v =
        wlt_nonce_reserve(desk.core.nonces, desk_account(account), nonce, &ticket, &expected);

    if (v == WLT_NONCE_RESERVED) {
        wlt_nonce_settle(desk.core.nonces, ticket, WLT_REFUSED);
    }
    return v;
}

static struct wlt_key pair(const char *account)
{
    return wlt_key_of(&desk.core.secret, WLT_KEY_ACCOUNT_ASSET, desk_str(account), desk_str("roc"));
}

static void put_balance(const char *account, uint64_t seq, uint64_t available)
{
    struct wlt_balance b = {.available = ron_money_of(available), .seq = seq, .last_seq = seq};

    wlt_cache_put(desk.core.cache, desk_account(account), pair(account), &b);
}

static bool is_fresh(const char *account)
{
    struct wlt_balance b;

    return wlt_cache_get(desk.core.cache, desk_account(account), pair(account), &b) &&
           b.outdated_ms == 0;
}

static void assert_same_out(const struct order *x, const struct order *y)
{
    assert_int_equal(ron_buf_len(&x->out), ron_buf_len(&y->out));
    assert_memory_equal(ron_buf_data(&x->out), ron_buf_data(&y->out), ron_buf_len(&x->out));
}

/* ---- the straight way ------------------------------------------------------------------------ */

static void test_job__plain_transfer__sent_at_once_and_answered(void **state)
{
    (void)state;
    order_init(&o, WLT_TRANSFER, TRANSFER, "k");
    put_balance("a", 3, 100);
    put_balance("b", 3, 0);
    assert_sends((order_begin(&o, 5000), &o), LC_CODE_INGEST, NULL);
    assert_int_equal(o.job.until_ns, desk.now_ns + 1000 * RON_NS_PER_MS);
    (void)order_done_word(&o, 9, 9, false);
    assert_out(&o, "\"ledger_seq_start\":9,\"ledger_seq_end\":9");
    assert_false(o.job.replayed);
    assert_int_equal(o.job.done.seq_first, 9);
    assert_false(is_fresh("a")); /* both accounts have changed */
    assert_false(is_fresh("b"));
    order_done(&o);
}

static void test_job__same_key_again__same_bytes_and_nothing_sent(void **state)
{
    (void)state;
    order_init(&o, WLT_TRANSFER, TRANSFER, "k");
    order_init(&p, WLT_TRANSFER, "{\"to\":\"b\", \"from\":\"a\", \"amount_minor\":\"40\"}", "k");
    (void)order_begin(&o, 5000);
    (void)order_begin(&p, 5000); /* while the first runs */
    assert_answer(&p, WLT_REASON_IN_PROGRESS, "");
    (void)order_done_word(&o, 9, 9, false);
    (void)order_begin(&p, 5000);
    assert_int_equal(p.step, WLT_STEP_ANSWER);
    assert_int_equal(p.job.fault.reason, WLT_REASON_NONE);
    assert_true(p.job.replayed);
    assert_same_out(&o, &p);
    order_done(&o);
    order_done(&p);
}

static void test_job__table_of_keys_is_full__busy(void **state)
{
    struct order many[65];

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(many); i++) {
        char key[16];

        (void)snprintf(key, sizeof key, "k%zu", i);
        order_init(&many[i], WLT_TRANSFER, TRANSFER, key);
        (void)order_begin(&many[i], 5000);
    }
    assert_answer(&many[64], WLT_REASON_BUSY, "");
    for (size_t i = 0; i < RON_ARRAY_LEN(many); i++) {
        wlt_job_abort(&desk.core, &many[i].job, WLT_REASON_DRAINING);
        order_done(&many[i]);
    }
}

static void test_job__dry_run__holds_and_remembers_nothing(void **state)
{
    (void)state;
    order_init(&o, WLT_TRANSFER, TRANSFER_N, "k");
    o.call.dry_run = true;
    (void)order_begin(&o, 5000);
    assert_sends(&o, LC_CODE_READ, "/accounts/a/balances");
    (void)order_account(&o, 4, 4, 100, 0);
    assert_sends(&o, LC_CODE_INGEST, NULL);
    assert_int_equal(nonce_verdict("a", 5), WLT_NONCE_RESERVED); /* nobody holds it */
    (void)order_done_word(&o, 9, 9, false);
    assert_out(&o, "dry_run");
    (void)order_begin(&o, 5000);
    assert_sends(&o, LC_CODE_INGEST, NULL); /* not remembered */
    wlt_job_abort(&desk.core, &o.job, WLT_REASON_DRAINING);
    order_done(&o);
}

/* ---- nonces ---------------------------------------------------------------------------------- */

static void test_job__nonce_not_known__read_then_reserved_then_committed(void **state)
{
    (void)state;
    order_init(&o, WLT_TRANSFER, TRANSFER_N, "k");
    (void)order_begin(&o, 5000);
    assert_sends(&o, LC_CODE_READ, "/accounts/a/balances");
    (void)order_account(&o, 4, 4, 100, 0);
    assert_sends(&o, LC_CODE_INGEST, NULL);
    assert_int_equal(nonce_verdict("a", 5), WLT_NONCE_PENDING);
    assert_true(is_fresh("a")); /* the balance came along */
    (void)order_done_word(&o, 9, 9, false);
    assert_out(&o, "\"nonce\":5");
    assert_int_equal(nonce_verdict("a", 6), WLT_NONCE_RESERVED);
    order_done(&o);
}

static void test_job__account_never_named__its_first_nonce_is_one(void **state)
{
    (void)state;
    order_init(&o, WLT_BURN, "{\"from\":\"new\",\"amount_minor\":\"1\",\"nonce\":1}", "k");
    (void)order_begin(&o, 5000);
    (void)order_refusal(&o, 404, "not_found", "no entry names this account", 0);
    assert_sends(&o, LC_CODE_INGEST, NULL);
    (void)order_refusal(&o, 409, "insufficient_funds", "more than is available", 0);
    assert_answer(&o, WLT_REASON_FUNDS, "more than is available");
    assert_int_equal(nonce_verdict("new", 1), WLT_NONCE_RESERVED); /* given back */
    order_done(&o);
}

static void test_job__another_one_of_the_account_under_way__pending(void **state)
{
    (void)state;
    order_init(&o, WLT_TRANSFER, TRANSFER_N, "k");
    order_init(&p, WLT_TRANSFER, TRANSFER_N, "other");
    (void)order_begin(&o, 5000);
    (void)order_account(&o, 4, 4, 100, 0);
    (void)order_begin(&p, 5000);
    assert_answer(&p, WLT_REASON_NONCE_PENDING, "nonce");
    (void)order_done_word(&o, 9, 9, false);
    (void)order_begin(&p, 5000); /* the key was freed: it may be tried again */
    assert_sends(&p, LC_CODE_READ, NULL);
    wlt_job_abort(&desk.core, &p.job, WLT_REASON_DRAINING);
    order_done(&o);
    order_done(&p);
}

static void test_job__nonce_used__refused_only_after_a_look(void **state)
{
    (void)state;
    order_init(&o, WLT_TRANSFER, TRANSFER_N, "k");
    (void)order_begin(&o, 5000);
    (void)order_account(&o, 9, 7, 100, 0);
    assert_int_equal(o.step, WLT_STEP_SEND);
    assert_memory_equal(ron_buf_data(&o.job.payload), "/outcome/", 9);
    (void)order_json(&o, 200, "{\"idem_id\":\"x\",\"outcome\":\"unknown\"}");
    assert_answer(&o, WLT_REASON_NONCE, "nonce: expected 8, got 5");
    order_done(&o);
}

static void test_job__nonce_used_by_itself__receipt_is_rebuilt(void **state)
{
    (void)state;
    order_init(&o, WLT_TRANSFER, TRANSFER_N, "k");
    order_init(&p, WLT_TRANSFER, TRANSFER_N, "k");
    (void)order_begin(&o, 5000);
    (void)order_account(&o, 4, 4, 100, 0);
    (void)order_done_word(&o, 9, 9, false);
    desk_close_tables(); /* the wallet starts anew */
    desk_open_tables();
    (void)order_begin(&p, 5000);
    (void)order_account(&p, 9, 5, 60, 0);
    (void)order_committed(&p, 9, 9);
    assert_sends(&p, LC_CODE_READ, NULL);
    (void)order_place(&p, 9, 9, 9, p.call.idem_id);
    assert_out(&p, "\"ledger_seq_start\":9");
    assert_true(p.job.replayed);
    assert_same_out(&o, &p);
    (void)order_begin(&o, 5000); /* and is remembered again */
    assert_true(o.step == WLT_STEP_ANSWER && o.job.replayed);
    order_done(&o);
    order_done(&p);
}

static void test_job__nonce_above__ledger_is_asked_again_first(void **state)
{
    (void)state;
    wlt_nonce_learn(desk.core.nonces, desk_account("a"), 2);
    order_init(&o, WLT_TRANSFER, TRANSFER_N, "k");
    (void)order_begin(&o, 5000); /* 3 is expected here, but others may have written */
    assert_sends(&o, LC_CODE_READ, "/accounts/a/balances");
    (void)order_account(&o, 8, 4, 100, 0);
    assert_sends(&o, LC_CODE_INGEST, NULL);
    (void)order_done_word(&o, 9, 9, false);
    assert_out(&o, "\"nonce\":5");
    order_done(&o);
}

static void test_job__nonce_still_above__expected_one_is_told(void **state)
{
    (void)state;
    order_init(&o, WLT_TRANSFER, TRANSFER_N, "k");
    (void)order_begin(&o, 5000);
    (void)order_account(&o, 8, 1, 100, 0);
    assert_sends(&o, LC_CODE_READ, "/accounts/a/balances"); /* once more, for it is above */
    (void)order_account(&o, 8, 1, 100, 0);
    (void)order_json(&o, 200, "{\"idem_id\":\"x\",\"outcome\":\"unknown\"}");
    assert_answer(&o, WLT_REASON_NONCE, "expected 2, got 5");
    order_done(&o);
}

static void test_job__ledger_says_nonce_conflict__forgotten_and_number_told(void **state)
{
    (void)state;
    wlt_nonce_learn(desk.core.nonces, desk_account("a"), 4);
    order_init(&o, WLT_TRANSFER, TRANSFER_N, "k");
    (void)order_begin(&o, 5000);
    (void)order_refusal(&o, 409, "nonce_conflict", "not the next one", 0);
    assert_sends(&o, LC_CODE_READ, "/accounts/a/balances");
    assert_int_equal(nonce_verdict("a", 5), WLT_NONCE_ASK);
    (void)order_account(&o, 8, 6, 100, 0);
    assert_answer(&o, WLT_REASON_NONCE, "expected 7, got 5");
    order_done(&o);
}

static void test_job__nonce_conflict_and_no_word_on_the_number__still_a_conflict(void **state)
{
    (void)state;
    wlt_nonce_learn(desk.core.nonces, desk_account("a"), 4);
    order_init(&o, WLT_TRANSFER, TRANSFER_N, "k");
    (void)order_begin(&o, 5000);
    (void)order_refusal(&o, 409, "nonce_conflict", "not the next one", 0);
    (void)order_refusal(&o, 403, "cap_invalid", "no", 0);
    assert_answer(&o, WLT_REASON_NONCE, "not the next one");
    order_done(&o);
}

/* ---- batches --------------------------------------------------------------------------------- */

#define BATCH_RUN                                                                                  \
    "{\"operations\":[{\"op\":\"transfer\",\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"1\","    \
    "\"nonce\":5},{\"op\":\"issue\",\"to\":\"c\",\"amount_minor\":\"2\"},{\"op\":\"burn\","        \
    "\"from\":\"a\",\"amount_minor\":\"3\",\"nonce\":%d},{\"op\":\"transfer\",\"from\":\"d\","     \
    "\"to\":\"a\",\"amount_minor\":\"1\",\"nonce\":1}]}"

static void test_job__run_of_nonces_in_a_batch__one_reservation_ends_at_the_last(void **state)
{
    char body[1024];

    (void)state;
    (void)snprintf(body, sizeof body, BATCH_RUN, 6);
    order_init(&o, WLT_OP_COUNT, body, "k");
    (void)order_begin(&o, 5000);
    assert_sends(&o, LC_CODE_READ, "/accounts/a/balances");
    (void)order_account(&o, 4, 4, 100, 0);
    assert_sends(&o, LC_CODE_READ, "/accounts/d/balances");
    (void)order_account(&o, 4, 0, 100, 0);
    assert_sends(&o, LC_CODE_INGEST, NULL);
    assert_int_equal(nonce_verdict("a", 6), WLT_NONCE_PENDING);
    (void)order_done_word(&o, 10, 13, false);
    assert_out(&o, "\"ledger_seq_start\":10,\"ledger_seq_end\":13");
    assert_int_equal(nonce_verdict("a", 7), WLT_NONCE_RESERVED);
    assert_int_equal(nonce_verdict("d", 2), WLT_NONCE_RESERVED);
    order_done(&o);
}

static void test_job__gap_inside_a_batch__refused_and_all_given_back(void **state)
{
    char body[1024];

    (void)state;
    (void)snprintf(body, sizeof body, BATCH_RUN, 7);
    order_init(&o, WLT_OP_COUNT, body, "k");
    (void)order_begin(&o, 5000);
    (void)order_account(&o, 4, 4, 100, 0);
    (void)order_json(&o, 200, "{\"idem_id\":\"x\",\"outcome\":\"unknown\"}");
    assert_answer(&o, WLT_REASON_NONCE, "operations[2].nonce: expected 6, got 7");
    assert_int_equal(nonce_verdict("a", 5), WLT_NONCE_RESERVED);
    order_done(&o);
}

static void test_job__largest_batch_on_one_account__all_nonces_follow(void **state)
{
    char *body = ron_alloc(1 << 17);
    size_t len = 0;

    (void)state;
    len += (size_t)sprintf(body, "{\"operations\":[");
    for (int i = 0; i < WLT_BATCH_MAX; i++) {
        len += (size_t)sprintf(body + len,
                               "%s{\"op\":\"burn\",\"from\":\"a\",\"amount_minor\":\"1\","
                               "\"nonce\":%d}",
                               i > 0 ? "," : "", i + 1);
    }
    (void)sprintf(body + len, "]}");
    order_init(&o, WLT_OP_COUNT, body, "k");
    ron_buf_done(&o.out);
    ron_buf_init(&o.out, (WLT_BATCH_MAX + 1) * WLT_RECEIPT_MAX);
    (void)order_begin(&o, 5000);
    (void)order_account(&o, 4, 0, 5000, 0);
    assert_sends(&o, LC_CODE_INGEST, NULL);
    (void)order_done_word(&o, 100, 100 + WLT_BATCH_MAX - 1, false);
    assert_out(&o, "\"count\":1024");
    assert_int_equal(nonce_verdict("a", WLT_BATCH_MAX + 1), WLT_NONCE_RESERVED);
    order_done(&o);
    ron_free(body);
}

/* ---- sums, totals, balances ------------------------------------------------------------------ */

static void test_job__day_not_known__pages_are_read_and_summed(void **state)
{
    char target[96];

    (void)state;
    desk.core.daily_ceiling = ron_money_of(100);
    (void)snprintf(target, sizeof target, "/accounts/a/debits?asset=roc&since=%llu",
                   (unsigned long long)(desk.wall_ms / DESK_DAY_MS * DESK_DAY_MS));
    order_init(&o, WLT_TRANSFER, TRANSFER, "k");
    (void)order_begin(&o, 5000);
    assert_sends(&o, LC_CODE_READ, target);
    (void)order_json(&o, 200, "{\"debited\":\"30\",\"next\":77}");
    (void)strcat(target, "&before=77");
    assert_sends(&o, LC_CODE_READ, target);
    (void)order_json(&o, 200, "{\"debited\":\"20\",\"next\":null}");
    assert_sends(&o, LC_CODE_INGEST, NULL); /* 50 and 40 */
    (void)order_done_word(&o, 9, 9, false);
    order_init(&p, WLT_TRANSFER, TRANSFER, "k2");
    (void)order_begin(&p, 5000);
    assert_memory_equal(ron_buf_data(&p.job.payload), "/outcome/", 9);
    (void)order_json(&p, 200, "{\"idem_id\":\"x\",\"outcome\":\"unknown\"}");
    assert_answer(&p, WLT_REASON_LIMITS,
                  "amount_minor: daily ceiling exceeded; remaining today: 10");
    order_done(&o);
    order_done(&p);
}

static void test_job__refused_by_the_ledger__sum_is_given_back(void **state)
{
    (void)state;
    desk.core.daily_ceiling = ron_money_of(60);
    order_init(&o, WLT_TRANSFER, TRANSFER, "k");
    (void)order_begin(&o, 5000);
    (void)order_refusal(&o, 404, "not_found", "never named", 0); /* no debits then */
    (void)order_refusal(&o, 403, "policy_denied", "the account is frozen", 0);
    assert_answer(&o, WLT_REASON_POLICY, "the account is frozen");
    (void)order_begin(&o, 5000);
    assert_sends(&o, LC_CODE_INGEST, NULL); /* fits again */
    wlt_job_abort(&desk.core, &o.job, WLT_REASON_DRAINING);
    order_done(&o);
}

static void test_job__account_would_have_too_much__refused_after_a_read(void **state)
{
    (void)state;
    desk.core.total_max = ron_money_of(100);
    put_balance("b", 3, 70); /* would be too much, but may be old */
    order_init(&o, WLT_TRANSFER, TRANSFER, "k");
    (void)order_begin(&o, 5000);
    assert_sends(&o, LC_CODE_READ, "/accounts/b/balances");
    (void)order_account(&o, 8, 0, 60, 0);
    assert_sends(&o, LC_CODE_INGEST, NULL); /* 100 are just right */
    (void)order_done_word(&o, 9, 9, false);
    order_init(&p, WLT_ISSUE, "{\"to\":\"b\",\"amount_minor\":\"1\"}", "k2");
    (void)order_begin(&p, 5000);
    assert_sends(&p, LC_CODE_READ, "/accounts/b/balances"); /* it has changed: nothing is known */
    (void)order_account(&p, 9, 0, 90, 10);
    (void)order_json(&p, 200, "{\"idem_id\":\"x\",\"outcome\":\"unknown\"}");
    assert_answer(&p, WLT_REASON_LIMITS, "account total would exceed the limit of 100");
    order_done(&o);
    order_done(&p);
}

static void test_job__account_far_from_full__old_balance_is_enough_for_a_minute(void **state)
{
    (void)state;
    desk.core.total_max = ron_money_of(100000);
    desk.core.total_far = ron_money_of(100);
    wlt_cache_put(desk.core.cache, desk_account("b"), pair("b"),
                  &(struct wlt_balance){
                      .available = ron_money_of(99), .seq = 3, .loaded_ms = 1000 * RON_MS_PER_S});
    wlt_cache_changed(desk.core.cache, desk_account("b"), 5, 1);
    order_init(&o, WLT_TRANSFER, TRANSFER, "k");
    (void)order_begin(&o, 5000);
    assert_sends(&o, LC_CODE_INGEST, NULL);
    (void)order_done_word(&o, 9, 9, false);
    desk_pass_ms(60001);
    order_init(&p, WLT_TRANSFER, TRANSFER, "k2");
    (void)order_begin(&p, 5000);
    assert_sends(&p, LC_CODE_READ, "/accounts/b/balances"); /* too long ago */
    (void)order_account(&p, 10, 0, 60, 40);                 /* held counts: not far any more */
    assert_sends(&p, LC_CODE_INGEST, NULL);
    (void)order_done_word(&p, 11, 11, false);
    order_done(&p);
    order_init(&p, WLT_TRANSFER, TRANSFER, "k3");
    (void)order_begin(&p, 5000);
    assert_sends(&p, LC_CODE_READ, "/accounts/b/balances");
    wlt_job_abort(&desk.core, &p.job, WLT_REASON_DRAINING);
    order_done(&o);
    order_done(&p);
}

static void test_job__batch_gives_too_much_together__refused(void **state)
{
    (void)state;
    desk.core.total_max = ron_money_of(100);
    put_balance("b", 3, 10);
    order_init(&o, WLT_OP_COUNT,
               "{\"operations\":[{\"op\":\"issue\",\"to\":\"b\",\"amount_minor\":\"50\"},"
               "{\"op\":\"issue\",\"to\":\"b\",\"amount_minor\":\"41\"}]}",
               "k");
    (void)order_begin(&o, 5000);
    assert_sends(&o, LC_CODE_READ, "/accounts/b/balances");
    (void)order_account(&o, 8, 0, 10, 0);
    (void)order_json(&o, 200, "{\"idem_id\":\"x\",\"outcome\":\"unknown\"}");
    assert_answer(&o, WLT_REASON_LIMITS, "operations[1].amount_minor");
    order_done(&o);
}

static void test_job__known_balance_too_small__read_once_more(void **state)
{
    (void)state;
    put_balance("a", 3, 39);
    order_init(&o, WLT_TRANSFER, TRANSFER, "k");
    (void)order_begin(&o, 5000);
    assert_sends(&o, LC_CODE_READ, "/accounts/a/balances");
    (void)order_account(&o, 8, 0, 40, 0);
    assert_sends(&o, LC_CODE_INGEST, NULL);
    (void)order_done_word(&o, 9, 9, false);
    assert_out(&o, "accepted");
    order_init(&p, WLT_TRANSFER, TRANSFER, "k2");
    put_balance("a", 10, 0);
    (void)order_begin(&p, 5000);
    (void)order_account(&p, 11, 0, 39, 0);
    (void)order_json(&p, 200, "{\"idem_id\":\"x\",\"outcome\":\"unknown\"}");
    assert_answer(&p, WLT_REASON_FUNDS, "insufficient funds: available 39, requested");
    order_done(&o);
    order_done(&p);
}

static void test_job__money_gone_because_it_was_paid__receipt(void **state)
{
    (void)state;
    put_balance("a", 9, 0);
    order_init(&o, WLT_TRANSFER, TRANSFER, "k");
    (void)order_begin(&o, 5000);
    (void)order_account(&o, 9, 0, 0, 0);
    (void)order_committed(&o, 9, 9);
    (void)order_place(&o, 9, 9, 9, o.call.idem_id);
    assert_out(&o, "\"ledger_seq_start\":9");
    assert_true(o.job.replayed);
    order_done(&o);
}

/* ---- the key belongs to somebody ------------------------------------------------------------- */

static void begin_mismatch(void)
{
    order_init(&o, WLT_TRANSFER, TRANSFER, "k");
    (void)order_begin(&o, 5000);
    (void)order_refusal(&o, 409, "idem_mismatch", "the key was used with another body", 0);
    assert_int_equal(o.step, WLT_STEP_SEND);
    assert_memory_equal(ron_buf_data(&o.job.payload), "/outcome/", 9);
}

static void test_job__mismatch_of_the_same_request__rebuilt_receipt(void **state)
{
    (void)state;
    begin_mismatch();
    (void)order_committed(&o, 5, 5);
    assert_memory_equal(ron_buf_data(&o.job.payload), "/entries/by-id/", 15);
    (void)order_place(&o, 5, 5, 5, o.call.idem_id);
    assert_out(&o, "\"ledger_seq_start\":5");
    assert_true(o.job.replayed);
    order_done(&o);
}

static void test_job__mismatch_of_another_request__conflict(void **state)
{
    (void)state;
    begin_mismatch();
    (void)order_committed(&o, 5, 5);
    (void)order_refusal(&o, 404, "not_found", "no such entry", 0);
    assert_answer(&o, WLT_REASON_IDEM, "");
    assert_int_equal(wlt_reason_status(o.job.fault.reason), 422);
    order_done(&o);
}

static void test_job__txid_stands_elsewhere__conflict(void **state)
{
    char other[WLT_IDEM_ID_MAX + 1];

    (void)state;
    begin_mismatch();
    (void)order_committed(&o, 5, 5);
    (void)order_place(&o, 4, 4, 4, o.call.idem_id); /* not where the key was committed */
    assert_answer(&o, WLT_REASON_IDEM, "");
    order_done(&o);
    desk_close_tables();
    desk_open_tables();
    begin_mismatch();
    (void)order_committed(&o, 5, 5);
    (void)snprintf(other, sizeof other, "%s", o.call.idem_id);
    other[5] = 'x';
    (void)order_place(&o, 5, 5, 5, other); /* under another key */
    assert_answer(&o, WLT_REASON_IDEM, "");
    (void)order_begin(&o, 5000);
    (void)order_refusal(&o, 409, "idem_mismatch", "another body", 0);
    (void)order_committed(&o, 5, 5);
    other[5] = '\0';
    (void)order_place(&o, 5, 5, 5, other);
    assert_answer(&o, WLT_REASON_IDEM, "");
    order_done(&o);
}

static void test_job__mismatch_and_key_unknown__conflict(void **state)
{
    (void)state;
    begin_mismatch();
    (void)order_json(&o, 200, "{\"idem_id\":\"x\",\"outcome\":\"unknown\"}");
    assert_answer(&o, WLT_REASON_IDEM, "");
    order_done(&o);
}

static void test_job__mismatch_and_no_look_possible__nobody_knows(void **state)
{
    (void)state;
    begin_mismatch();
    (void)order_refusal(&o, 403, "cap_invalid", "no", 0);
    assert_answer(&o, WLT_REASON_UPSTREAM, "");
    order_done(&o);
}

/* What is reserved when the key turns out to be taken. */
static void begin_mismatch_reserved(void)
{
    desk.core.daily_ceiling = ron_money_of(40);
    wlt_nonce_learn(desk.core.nonces, desk_account("a"), 4);
    wlt_daily_learn(desk.core.daily, pair("a"), (uint32_t)(desk.wall_ms / DESK_DAY_MS),
                    RON_MONEY_ZERO);
    order_init(&o, WLT_TRANSFER, TRANSFER_N, "k");
    (void)order_begin(&o, 5000);
    assert_sends(&o, LC_CODE_INGEST, NULL);
    (void)order_refusal(&o, 409, "idem_mismatch", "another body", 0);
}

static bool day_is_free(void)
{
    struct ron_money left;
    uint32_t day = (uint32_t)(desk.wall_ms / DESK_DAY_MS);

    return wlt_daily_reserve(desk.core.daily, pair("a"), day, ron_money_of(40),
                             desk.core.daily_ceiling, &left) == WLT_DAILY_OK;
}

static void test_job__replayed_with_reservations__nonce_asked_again_and_sum_given_back(void **state)
{
    (void)state;
    begin_mismatch_reserved();
    (void)order_committed(&o, 5, 5);
    (void)order_place(&o, 5, 5, 5, o.call.idem_id);
    assert_out(&o, "\"ledger_seq_start\":5");
    assert_int_equal(nonce_verdict("a", 5), WLT_NONCE_ASK);
    assert_true(day_is_free());
    order_done(&o);
}

static void test_job__mismatch_never_looked_at__nonce_asked_again_and_sum_given_back(void **state)
{
    (void)state;
    begin_mismatch_reserved();
    (void)order_refusal(&o, 403, "cap_invalid", "no", 0);
    assert_answer(&o, WLT_REASON_UPSTREAM, "");
    assert_int_equal(nonce_verdict("a", 5), WLT_NONCE_ASK);
    assert_true(day_is_free());
    order_done(&o);
}

static void test_job__key_cancelled__never_commits(void **state)
{
    (void)state;
    order_init(&o, WLT_TRANSFER, TRANSFER, "k");
    (void)order_begin(&o, 5000);
    (void)order_refusal(&o, 409, "conflict", "the key was cancelled", 0);
    (void)order_json(&o, 200, "{\"idem_id\":\"x\",\"outcome\":\"cancelled\",\"ts\":5}");
    assert_answer(&o, WLT_REASON_CANCELLED, "");
    order_done(&o);
}

static void test_job__conflict_with_the_state__told_as_it_is(void **state)
{
    (void)state;
    order_init(&o, WLT_RELEASE, "{\"from\":\"a\",\"hold\":\"tx_1\",\"amount_minor\":\"40\"}", "k");
    (void)order_begin(&o, 5000);
    (void)order_refusal(&o, 409, "conflict", "the hold has expired", 0);
    (void)order_json(&o, 200, "{\"idem_id\":\"x\",\"outcome\":\"unknown\"}");
    assert_answer(&o, WLT_REASON_CONFLICT, "the hold has expired");
    (void)order_begin(&o, 5000);
    (void)order_refusal(&o, 409, "conflict", "the hold has expired", 0);
    (void)order_refusal(&o, 403, "cap_invalid", "no", 0); /* no look: the word stands */
    assert_answer(&o, WLT_REASON_CONFLICT, "the hold has expired");
    order_done(&o);
}

static void test_job__another_body_under_the_key__looked_at_then_refused(void **state)
{
    (void)state;
    order_init(&o, WLT_TRANSFER, TRANSFER, "k");
    order_init(&p, WLT_TRANSFER, "{\"from\":\"a\",\"to\":\"c\",\"amount_minor\":\"40\"}", "k");
    (void)order_begin(&o, 5000);
    (void)order_begin(&p, 5000); /* while the first runs */
    assert_memory_equal(ron_buf_data(&p.job.payload), "/outcome/", 9);
    (void)order_json(&p, 200, "{\"idem_id\":\"x\",\"outcome\":\"unknown\"}");
    assert_answer(&p, WLT_REASON_IDEM, "");
    (void)order_done_word(&o, 9, 9, false);
    (void)order_begin(&p, 5000);
    (void)order_committed(&p, 9, 9);
    (void)order_refusal(&p, 404, "not_found", "no such entry", 0);
    assert_answer(&p, WLT_REASON_IDEM, "");
    order_done(&o);
    order_done(&p);
}

static void test_job__table_gives_the_key_to_a_rival__committed_one_gets_its_receipt(void **state)
{
    (void)state;
    order_init(&o, WLT_TRANSFER, TRANSFER, "k");
    order_init(&p, WLT_TRANSFER, "{\"from\":\"a\",\"to\":\"c\",\"amount_minor\":\"40\"}", "k");
    (void)order_begin(&p, 5000); /* after a restart, the rival comes first */
    (void)order_begin(&o, 5000); /* but this one was committed before */
    (void)order_committed(&o, 9, 9);
    (void)order_place(&o, 9, 9, 9, o.call.idem_id);
    assert_out(&o, "\"ledger_seq_start\":9");
    (void)order_refusal(&p, 409, "idem_mismatch", "another body", 0);
    (void)order_committed(&p, 9, 9);
    (void)order_refusal(&p, 404, "not_found", "no such entry", 0);
    assert_answer(&p, WLT_REASON_IDEM, "");
    order_done(&o);
    order_done(&p);
}

static void test_job__key_still_in_flight_at_the_ledger__in_progress(void **state)
{
    (void)state;
    order_init(&o, WLT_TRANSFER, TRANSFER_N, "k");
    (void)order_begin(&o, 5000);
    (void)order_account(&o, 9, 7, 100, 0);
    (void)order_json(&o, 200, "{\"idem_id\":\"x\",\"outcome\":\"in_flight\"}");
    assert_answer(&o, WLT_REASON_IN_PROGRESS, "");
    order_done(&o);
}

/* ---- every reason ---------------------------------------------------------------------------- */

static void test_job__every_definite_reason__mapped_and_settled(void **state)
{
    static const struct {
        const char *reason;
        uint16_t status;
        enum wlt_reason want;
    } rows[] = {
        {"unauth", 401, WLT_REASON_UPSTREAM},          {"cap_invalid", 403, WLT_REASON_POLICY},
        {"unknown_kind", 400, WLT_REASON_BAD_REQUEST}, {"policy_denied", 403, WLT_REASON_POLICY},
        {"too_large", 413, WLT_REASON_LIMITS},         {"invalid", 400, WLT_REASON_BAD_REQUEST},
        {"insufficient_funds", 409, WLT_REASON_FUNDS}, {"not_found", 404, WLT_REASON_NOT_FOUND},
    };

    (void)state;
    wlt_nonce_learn(desk.core.nonces, desk_account("a"), 4);
    order_init(&o, WLT_TRANSFER, TRANSFER_N, "k");
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        (void)order_begin(&o, 5000);
        assert_sends(&o, LC_CODE_INGEST, NULL);
        (void)order_refusal(&o, rows[i].status, rows[i].reason, "words of the ledger", 0);
        assert_answer(&o, rows[i].want, "words of the ledger");
        assert_int_equal(nonce_verdict("a", 5), WLT_NONCE_RESERVED);
    }
    order_done(&o);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_job__plain_transfer__sent_at_once_and_answered),
        CASE(test_job__same_key_again__same_bytes_and_nothing_sent),
        CASE(test_job__table_of_keys_is_full__busy),
        CASE(test_job__dry_run__holds_and_remembers_nothing),
        CASE(test_job__nonce_not_known__read_then_reserved_then_committed),
        CASE(test_job__account_never_named__its_first_nonce_is_one),
        CASE(test_job__another_one_of_the_account_under_way__pending),
        CASE(test_job__nonce_used__refused_only_after_a_look),
        CASE(test_job__nonce_used_by_itself__receipt_is_rebuilt),
        CASE(test_job__nonce_above__ledger_is_asked_again_first),
        CASE(test_job__nonce_still_above__expected_one_is_told),
        CASE(test_job__ledger_says_nonce_conflict__forgotten_and_number_told),
        CASE(test_job__nonce_conflict_and_no_word_on_the_number__still_a_conflict),
        CASE(test_job__run_of_nonces_in_a_batch__one_reservation_ends_at_the_last),
        CASE(test_job__gap_inside_a_batch__refused_and_all_given_back),
        CASE(test_job__largest_batch_on_one_account__all_nonces_follow),
        CASE(test_job__day_not_known__pages_are_read_and_summed),
        CASE(test_job__refused_by_the_ledger__sum_is_given_back),
        CASE(test_job__account_would_have_too_much__refused_after_a_read),
        CASE(test_job__account_far_from_full__old_balance_is_enough_for_a_minute),
        CASE(test_job__batch_gives_too_much_together__refused),
        CASE(test_job__known_balance_too_small__read_once_more),
        CASE(test_job__money_gone_because_it_was_paid__receipt),
        CASE(test_job__mismatch_of_the_same_request__rebuilt_receipt),
        CASE(test_job__mismatch_of_another_request__conflict),
        CASE(test_job__txid_stands_elsewhere__conflict),
        CASE(test_job__mismatch_and_key_unknown__conflict),
        CASE(test_job__mismatch_and_no_look_possible__nobody_knows),
        CASE(test_job__replayed_with_reservations__nonce_asked_again_and_sum_given_back),
        CASE(test_job__mismatch_never_looked_at__nonce_asked_again_and_sum_given_back),
        CASE(test_job__key_cancelled__never_commits),
        CASE(test_job__conflict_with_the_state__told_as_it_is),
        CASE(test_job__another_body_under_the_key__looked_at_then_refused),
        CASE(test_job__table_gives_the_key_to_a_rival__committed_one_gets_its_receipt),
        CASE(test_job__key_still_in_flight_at_the_ledger__in_progress),
        CASE(test_job__every_definite_reason__mapped_and_settled),
    };

    return cmocka_run_group_tests_name("wallet.wlt_job", tests, NULL, NULL);
}
