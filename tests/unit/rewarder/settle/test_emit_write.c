/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what a settlement sends is what the ledger reads, the same bytes each time, with one id and
 * one nonce per payee; and answers mean what they say.
 * Method: batches of a real run decoded by the ledger's own code; answers as the ledger writes
 * them, and all that is no answer. */
#include "unit/rewarder/art_fixture.h"

#include "ledger/entry/entry.h"
#include "rewarder/settle/machine.h"
#include "ron/base/assert.h"

enum { PAYEES = 25 };

static struct rwd_snapshot snapshot;
static struct rwd_run run;
static struct rwd_payouts *payouts;
static struct rwd_emit_source src;
static struct ron_buf out;
static char led_memory[1 << 20];

static int set_up(void **state)
{
    static char asset[] = "roc";
    struct art *a;

    assert_int_equal(art_setup(state), 0);
    a = *state;
    snapshot = art_snapshot(PAYEES);
    art_publish(a, &snapshot, "2026-11", NULL, &run);
    assert_int_equal(rwd_payouts_open(a->env, "runs/2026-11", &payouts, NULL), RON_OK);
    assert_int_equal(run.manifest.payouts.count, PAYEES);
    src = (struct rwd_emit_source){.manifest = &run.manifest,
                                   .payouts = payouts,
                                   .asset = {asset, 3},
                                   .kid = art_str("rewarder-1"),
                                   .capability_ref = art_str("0a1b2c3d")};
    ron_buf_init(&out, RWD_EMIT_BYTES_MAX);
    return 0;
}

static int tear_down(void **state)
{
    ron_buf_done(&out);
    rwd_payouts_close(payouts);
    rwd_run_done(&run);
    rwd_snapshot_done(&snapshot);
    return art_teardown(state);
}

static struct rwd_emit_batch slot_of(enum rwd_emit_step step, uint64_t first, uint32_t count)
{
    return (struct rwd_emit_batch){.row = {.first = first, .count = count, .ts_ms = 1700000000000},
                                   .step = step,
                                   .used = true};
}

static void request(const struct rwd_emit_batch *slot, uint16_t code)
{
    struct ron_err err = {0};
    uint16_t got = 0;

    ron_buf_clear(&out);
    if (rwd_emit_request(&src, slot, &got, &out, &err) != RON_OK) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(got, code);
}

static struct led_batch sent(const struct rwd_emit_batch *slot)
{
    struct led_refusals refusals;
    struct led_batch batch;
    struct ron_arena arena;

    request(slot, LC_CODE_INGEST);
    ron_arena_init_over(&arena, led_memory, sizeof led_memory);
    if (!led_batch_decode(ron_buf_data(&out), ron_buf_len(&out), LED_ORIGIN_CALLER, &arena, &batch,
                          NULL, &refusals)) {
        fail_msg("the ledger refuses %s: %s", refusals.items[0].member, refusals.items[0].detail);
    }
    assert_int_equal(batch.count, slot->row.count);
    assert_false(batch.dry_run);
    return batch;
}

/* ---- batches --------------------------------------------------------------------------------- */

static void test_emit_write__batch__pays_each_payee_its_amount(void **state)
{
    struct rwd_emit_batch slot = slot_of(RWD_EMIT_SEND, 10, 15);
    struct led_batch b = sent(&slot);
    char key[RWD_BATCH_KEY_SIZE];

    (void)state;
    rwd_batch_key(&run.manifest.run_key, 10, 15, 0, key);
    assert_true(ron_str_is(b.idem_id, key));
    for (uint32_t i = 0; i < 15; i++) {
        const struct led_entry *e = &b.entries[i];
        struct rwd_payout p;
        char id[RWD_INTENT_KEY_SIZE];

        rwd_result_payout(run.result, 10 + i, &p);
        rwd_intent_key(&run.manifest.run_key, p.account, p.amount, id);
        assert_int_equal(e->kind, LED_KIND_MINT);
        assert_true(ron_str_is(e->id, id));
        assert_int_equal(e->account.len, p.account.len);
        assert_memory_equal(e->account.ptr, p.account.ptr, p.account.len);
        assert_int_equal(e->to.len, 0);
        support_assert_u128_equal(e->amount.v, p.amount.v);
        assert_int_equal(e->ts_ms, 1700000000000);
        assert_true(ron_str_is(e->asset, "roc"));
        assert_true(ron_str_is(e->memo, "svc-rewarder:2026-11"));
        assert_true(ron_str_is(e->kid, "rewarder-1"));
        assert_true(ron_str_is(e->capability_ref, "0a1b2c3d"));
    }
}

static void test_emit_write__claim__first_batch_has_the_key_of_the_epoch(void **state)
{
    struct rwd_emit_batch first = slot_of(RWD_EMIT_SEND, 0, 10);
    struct rwd_emit_batch next = slot_of(RWD_EMIT_SEND, 10, 5);
    char key[RWD_BATCH_KEY_SIZE];

    (void)state;
    src.claim_salt = art_str("salt");
    rwd_claim_key(art_str("salt"), run.manifest.epoch, 0, key);
    assert_true(ron_str_is(sent(&first).idem_id, key));
    first.step = RWD_EMIT_CANCEL;
    request(&first, LC_CODE_CANCEL);
    assert_string_equal(ron_buf_text(&out), key);
    rwd_batch_key(&run.manifest.run_key, 10, 5, 0, key);
    assert_true(ron_str_is(sent(&next).idem_id, key));
}

static void test_emit_write__funded__moves_from_the_account(void **state)
{
    struct rwd_emit_batch slot = slot_of(RWD_EMIT_SEND, 0, 2);
    struct led_batch b;
    struct rwd_payout p;

    (void)state;
    src.funding_account = art_str("pool");
    b = sent(&slot);
    rwd_result_payout(run.result, 1, &p);
    assert_int_equal(b.entries[1].kind, LED_KIND_TRANSFER);
    assert_true(ron_str_is(b.entries[1].account, "pool"));
    assert_memory_equal(b.entries[1].to.ptr, p.account.ptr, p.account.len);
}

static void test_emit_write__again__the_same_bytes(void **state)
{
    struct rwd_emit_batch slot = slot_of(RWD_EMIT_SEND, 0, PAYEES);
    static uint8_t before[1 << 16];
    size_t len;

    (void)state;
    request(&slot, LC_CODE_INGEST);
    len = ron_buf_len(&out);
    assert_true(len <= sizeof before);
    memcpy(before, ron_buf_data(&out), len);
    request(&slot, LC_CODE_INGEST);
    assert_int_equal(ron_buf_len(&out), len);
    assert_memory_equal(ron_buf_data(&out), before, len);
}

/* Another attempt or another cut of the payouts changes the key of the batch and no id or nonce. */
static void test_emit_write__ids_and_nonces__follow_from_the_payout_alone(void **state)
{
    struct rwd_emit_batch slot = slot_of(RWD_EMIT_SEND, 0, 5);
    struct led_batch b = sent(&slot);
    char id[RWD_INTENT_KEY_SIZE] = "";
    char key[128] = "";
    uint8_t nonce[LC_NONCE_BYTES];

    (void)state;
    memcpy(id, b.entries[3].id.ptr, RWD_INTENT_KEY_LEN);
    memcpy(key, b.idem_id.ptr, b.idem_id.len);
    memcpy(nonce, b.entries[3].nonce, sizeof nonce);
    slot.row.attempt = 1;
    slot.row.ts_ms++;
    b = sent(&slot);
    assert_false(ron_str_is(b.idem_id, key));
    assert_true(ron_str_is(b.entries[3].id, id));
    assert_memory_equal(b.entries[3].nonce, nonce, sizeof nonce);
    assert_memory_not_equal(b.entries[4].nonce, nonce, sizeof nonce);
    slot = slot_of(RWD_EMIT_SEND, 3, 9);
    b = sent(&slot);
    assert_false(ron_str_is(b.idem_id, key));
    assert_true(ron_str_is(b.entries[0].id, id));
    assert_memory_equal(b.entries[0].nonce, nonce, sizeof nonce);
}

static void test_emit_write__a_residual_for_the_sink__is_the_last_entry(void **state)
{
    struct rwd_emit_batch slot = slot_of(RWD_EMIT_SEND, PAYEES - 1, 2);
    struct led_batch b;
    struct rwd_payout last;

    (void)state;
    /* The sink is a payee too, and gets the same amount: two entries all the same. */
    rwd_result_payout(run.result, PAYEES - 1, &last);
    run.manifest.residual = RWD_RESIDUAL_SINK;
    run.manifest.sink = last.account;
    run.manifest.totals.residual = last.amount;
    assert_int_equal(rwd_intent_count(&run.manifest), PAYEES + 1);
    b = sent(&slot);
    assert_memory_equal(b.entries[1].account.ptr, last.account.ptr, last.account.len);
    support_assert_u128_equal(b.entries[1].amount.v, last.amount.v);
    assert_int_equal(b.entries[0].id.len, b.entries[1].id.len);
    assert_memory_not_equal(b.entries[0].id.ptr, b.entries[1].id.ptr, b.entries[0].id.len);
    assert_memory_not_equal(b.entries[0].nonce, b.entries[1].nonce, LC_NONCE_BYTES);
    slot = slot_of(RWD_EMIT_SEND, PAYEES, 1); /* alone in its batch */
    b = sent(&slot);
    assert_int_equal(b.count, 1);
    /* And it can be asked for. */
    slot.step = RWD_EMIT_LOOKUP;
    request(&slot, LC_CODE_READ);
}

static void test_emit_write__no_room__is_an_error(void **state)
{
    struct rwd_emit_batch slot = slot_of(RWD_EMIT_SEND, 0, PAYEES);
    struct ron_buf small;
    uint16_t code = 99;

    (void)state;
    for (size_t size = 1; size < 2000; size += 100) {
        ron_buf_init(&small, size);
        assert_int_equal(rwd_emit_request(&src, &slot, &code, &small, NULL), RON_LIMIT);
        ron_buf_done(&small);
    }
    slot.step = RWD_EMIT_OUTCOME;
    ron_buf_init(&small, 10);
    assert_int_equal(rwd_emit_request(&src, &slot, &code, &small, NULL), RON_LIMIT);
    ron_buf_done(&small);
}

/* Names as long as they may be: a whole batch still fits a frame. */
static void test_emit_write__largest_batch__fits_a_frame(void **state)
{
    char name[256];
    struct lc_entry e = {.kind = LC_TRANSFER, .amount = RON_MONEY_MAX, .ts_ms = 1};

    (void)state;
    memset(name, 'a', sizeof name);
    e.id = (struct ron_str){name, RWD_INTENT_KEY_LEN};
    e.account = (struct ron_str){name, RWD_ACCOUNT_MAX};
    e.to = (struct ron_str){name, RWD_ACCOUNT_MAX};
    e.asset = (struct ron_str){name, 32};
    e.kid = (struct ron_str){name, 128};
    e.capability_ref = (struct ron_str){name, 128};
    e.memo = (struct ron_str){name, sizeof "svc-rewarder:" - 1 + RWD_EPOCH_MAX};
    ron_buf_clear(&out);
    lc_batch_head(&out, e.id, false, RWD_EMIT_BATCH_MAX);
    for (int i = 0; i < RWD_EMIT_BATCH_MAX; i++) {
        lc_batch_entry(&out, &e);
    }
    assert_int_equal(ron_buf_error(&out), RON_OK);
    assert_true(ron_buf_len(&out) + 512 <= RWD_EMIT_BYTES_MAX); /* head and token of the frame */
}

/* ---- questions and answers ------------------------------------------------------------------- */

static enum rwd_emit_word answer(const struct rwd_emit_batch *slot, uint32_t status,
                                 const void *bytes, size_t len, struct lc_done *done)
{
    static char copy[4096];
    char message[RWD_EMIT_MESSAGE_SIZE];

    RON_ASSERT(len <= sizeof copy);
    memcpy(copy, bytes, len);
    return rwd_emit_answer(&src, slot, status, copy, len, done, message);
}

static enum rwd_emit_word answer_text(const struct rwd_emit_batch *slot, uint32_t status,
                                      const char *text)
{
    struct lc_done done;

    return answer(slot, status, text, strlen(text), &done);
}

static void test_emit_write__questions__name_the_key_and_the_id(void **state)
{
    struct rwd_emit_batch slot = slot_of(RWD_EMIT_OUTCOME, 5, 5);
    char key[RWD_BATCH_KEY_SIZE];
    char text[256];
    struct rwd_payout p;

    (void)state;
    rwd_batch_key(&run.manifest.run_key, 5, 5, 0, key);
    slot.step = RWD_EMIT_CANCEL;
    request(&slot, LC_CODE_CANCEL);
    assert_string_equal(ron_buf_text(&out), key);
    slot.step = RWD_EMIT_OUTCOME;
    request(&slot, LC_CODE_READ);
    (void)snprintf(text, sizeof text, "/outcome/rew%%3A%s", key + 4);
    assert_string_equal(ron_buf_text(&out), text);
    slot.step = RWD_EMIT_LOOKUP;
    slot.lookup = 2;
    request(&slot, LC_CODE_READ);
    rwd_result_payout(run.result, 7, &p);
    rwd_intent_key(&run.manifest.run_key, p.account, p.amount, key);
    (void)snprintf(text, sizeof text, "/entries/by-id/b3%%3A%s", key + 3);
    assert_string_equal(ron_buf_text(&out), text);
}

static void test_emit_write__done__only_for_these_entries(void **state)
{
    struct rwd_emit_batch slot = slot_of(RWD_EMIT_SEND, 0, 5);
    uint8_t bytes[LC_DONE_BYTES] = {1, 0};
    struct lc_done done = {0};

    (void)state;
    bytes[9] = 11;  /* seq_first */
    bytes[17] = 15; /* seq_last */
    bytes[57] = 9;
    assert_int_equal(answer(&slot, 200, bytes, sizeof bytes, &done), RWD_WORD_DONE);
    assert_int_equal(done.seq_first, 11);
    assert_int_equal(done.seq_last, 15);
    bytes[17] = 16; /* of six entries */
    assert_int_equal(answer(&slot, 200, bytes, sizeof bytes, &done), RWD_WORD_LATER);
    bytes[17] = 15;
    assert_int_equal(answer(&slot, 200, bytes, sizeof bytes - 1, &done), RWD_WORD_LATER);
    bytes[0] = 2; /* a dry run */
    bytes[9] = bytes[17] = 0;
    assert_int_equal(answer(&slot, 200, bytes, sizeof bytes, &done), RWD_WORD_LATER);
}

static void test_emit_write__outcomes__as_the_ledger_tells_them(void **state)
{
    struct rwd_emit_batch slot = slot_of(RWD_EMIT_OUTCOME, 0, 5);
    char text[256];

    (void)state;
    (void)snprintf(text, sizeof text,
                   "{\"idem_id\":\"k\",\"outcome\":\"committed\",\"seq_start\":5,\"seq_end\":9,"
                   "\"new_root\":\"%064d\",\"ts\":7}",
                   0);
    assert_int_equal(answer_text(&slot, 200, text), RWD_WORD_DONE);
    slot.step = RWD_EMIT_CANCEL; /* which cannot end so */
    assert_int_equal(answer_text(&slot, 200, text), RWD_WORD_LATER);
    slot.step = RWD_EMIT_OUTCOME;
    assert_int_equal(
        answer_text(&slot, 200, "{\"idem_id\":\"k\",\"outcome\":\"cancelled\",\"ts\":7}"),
        RWD_WORD_CANCELLED);
    assert_int_equal(answer_text(&slot, 200, "{\"idem_id\":\"k\",\"outcome\":\"unknown\"}"),
                     RWD_WORD_NEVER);
    assert_int_equal(answer_text(&slot, 200, "{\"idem_id\":\"k\",\"outcome\":\"in_flight\"}"),
                     RWD_WORD_LATER);
    slot.step = RWD_EMIT_CANCEL;
    assert_int_equal(answer_text(&slot, 200, "{\"idem_id\":\"k\",\"outcome\":\"cancelled\"}"),
                     RWD_WORD_CANCELLED);
}

static void test_emit_write__lookup__knows_the_entry_or_says_that_it_differs(void **state)
{
    static const char *const forms[] = {
        /* kind, account, amount +, asset: only the first is ours */
        "{\"entry\":{\"seq\":5,\"id\":\"%s\",\"ts\":1,\"kind\":\"Mint\",\"account\":\"%.*s\","
        "\"amount\":\"%llu\",\"asset\":\"roc\"},\"batch\":{}}",
        "{\"entry\":{\"seq\":5,\"id\":\"%s\",\"ts\":1,\"kind\":\"Burn\",\"account\":\"%.*s\","
        "\"amount\":\"%llu\",\"asset\":\"roc\"},\"batch\":{}}",
        "{\"entry\":{\"seq\":5,\"id\":\"%s\",\"ts\":1,\"kind\":\"Mint\",\"account\":\"x%.*s\","
        "\"amount\":\"%llu\",\"asset\":\"roc\"},\"batch\":{}}",
        "{\"entry\":{\"seq\":5,\"id\":\"%s\",\"ts\":1,\"kind\":\"Mint\",\"account\":\"%.*s\","
        "\"amount\":\"1%llu\",\"asset\":\"roc\"},\"batch\":{}}",
        "{\"entry\":{\"seq\":5,\"id\":\"%s\",\"ts\":1,\"kind\":\"Mint\",\"account\":\"%.*s\","
        "\"amount\":\"%llu\",\"asset\":\"gem\"},\"batch\":{}}",
        "{\"entry\":{\"seq\":5,\"id\":\"x%s\",\"ts\":1,\"kind\":\"Mint\",\"account\":\"%.*s\","
        "\"amount\":\"%llu\",\"asset\":\"roc\"},\"batch\":{}}",
    };
    struct rwd_emit_batch slot = slot_of(RWD_EMIT_LOOKUP, 5, 5);
    char id[RWD_INTENT_KEY_SIZE];
    char text[1024];
    struct rwd_payout p;

    (void)state;
    slot.lookup = 2;
    rwd_result_payout(run.result, 7, &p);
    rwd_intent_key(&run.manifest.run_key, p.account, p.amount, id);
    for (size_t i = 0; i < RON_ARRAY_LEN(forms); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(text, sizeof text, forms[i], id, (int)p.account.len, p.account.ptr,
                       (unsigned long long)p.amount.v);
#pragma GCC diagnostic pop
        assert_int_equal(answer_text(&slot, 200, text),
                         i == 0 ? RWD_WORD_KNOWN : RWD_WORD_OTHER_BODY);
    }
    assert_int_equal(answer_text(&slot, 200, "{}"), RWD_WORD_LATER);
    assert_int_equal(answer_text(&slot, 404,
                                 "{\"code\":\"NOT_FOUND\",\"message\":\"m\",\"retryable\":false,"
                                 "\"corr_id\":\"c\",\"reason\":\"not_found\"}"),
                     RWD_WORD_UNKNOWN_ID);
}

static void test_emit_write__what_is_no_answer__is_later(void **state)
{
    static const char *const texts[] = {"", "{", "null", "[]", "{\"code\":1}", "\xff\xfe", "ok"};

    (void)state;
    for (unsigned step = RWD_EMIT_SEND; step <= RWD_EMIT_LOOKUP; step++) {
        struct rwd_emit_batch slot = slot_of((enum rwd_emit_step)step, 0, 5);

        for (size_t i = 0; i < RON_ARRAY_LEN(texts); i++) {
            assert_int_equal(answer_text(&slot, 200, texts[i]), RWD_WORD_LATER);
            assert_int_equal(answer_text(&slot, 503, texts[i]), RWD_WORD_LATER);
        }
        assert_int_equal(answer_text(&slot, 403,
                                     "{\"code\":\"POLICY\",\"message\":\"no\",\"retryable\":false,"
                                     "\"corr_id\":\"c\",\"reason\":\"policy_denied\"}"),
                         RWD_WORD_REFUSED);
    }
}

int main(void)
{
#define WRITE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WRITE_TEST(test_emit_write__batch__pays_each_payee_its_amount),
        WRITE_TEST(test_emit_write__claim__first_batch_has_the_key_of_the_epoch),
        WRITE_TEST(test_emit_write__funded__moves_from_the_account),
        WRITE_TEST(test_emit_write__again__the_same_bytes),
        WRITE_TEST(test_emit_write__ids_and_nonces__follow_from_the_payout_alone),
        WRITE_TEST(test_emit_write__a_residual_for_the_sink__is_the_last_entry),
        WRITE_TEST(test_emit_write__no_room__is_an_error),
        WRITE_TEST(test_emit_write__largest_batch__fits_a_frame),
        WRITE_TEST(test_emit_write__questions__name_the_key_and_the_id),
        WRITE_TEST(test_emit_write__done__only_for_these_entries),
        WRITE_TEST(test_emit_write__outcomes__as_the_ledger_tells_them),
        WRITE_TEST(test_emit_write__lookup__knows_the_entry_or_says_that_it_differs),
        WRITE_TEST(test_emit_write__what_is_no_answer__is_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
