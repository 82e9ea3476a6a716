/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the ledger reads from a call's bytes exactly what the request said, and a receipt is the
 * bytes of docs/formats/wallet.md.
 * Method: the ledger's own decoder on the encoded batch of every operation; the golden receipt;
 * receipts written out by hand, of single operations, batches and dry runs. */
#include "unit/wallet/call_fixture.h"

#include "ledger/entry/entry.h"

static struct ron_buf out;

static int setup(void **state)
{
    (void)state;
    ron_buf_init(&out, (size_t)4 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ron_buf_done(&out);
    return 0;
}

/* ---- the ledger's batch ---------------------------------------------------------------------- */

static char led_memory[1 << 20];

static struct led_batch encoded(bool dry_run)
{
    const struct wlt_seal seal = {
        .ts_ms = 1700000000000, .kid = str("wallet-1"), .capability_ref = str("0a1b2c3d")};
    struct led_refusals refusals;
    struct led_batch batch;
    struct ron_arena arena;

    call.dry_run = dry_run;
    ron_buf_clear(&out);
    wlt_call_encode(&call, &seal, &out);
    assert_int_equal(ron_buf_error(&out), RON_OK);
    assert_true(ron_buf_len(&out) <= wlt_call_encoded_max(&call));
    ron_arena_init_over(&arena, led_memory, sizeof led_memory);
    if (!led_batch_decode(ron_buf_data(&out), ron_buf_len(&out), LED_ORIGIN_CALLER, &arena, &batch,
                          NULL, &refusals)) {
        fail_msg("the ledger refuses %s: %s", refusals.items[0].member, refusals.items[0].detail);
    }
    assert_int_equal(batch.count, call.count);
    assert_int_equal(batch.dry_run, dry_run);
    assert_true(ron_str_is(batch.idem_id, call.idem_id));
    return batch;
}

static void expect(const struct led_entry *e, uint8_t kind, const char *account, const char *to,
                   const char *ref)
{
    const struct wlt_operation *o = &call.ops[0];

    assert_int_equal(e->kind, kind);
    assert_true(ron_str_is(e->id, o->txid));
    assert_true(ron_str_is(e->account, account));
    assert_true(ron_str_is(e->to, to));
    assert_true(ron_str_is(e->ref, ref));
    assert_true(ron_str_is(e->kid, "wallet-1"));
    assert_true(ron_str_is(e->capability_ref, "0a1b2c3d"));
    assert_int_equal(e->ts_ms, 1700000000000);
    assert_memory_equal(e->nonce, o->entry_nonce, LC_NONCE_BYTES);
    support_assert_u128_equal(e->amount.v, 7);
}

static void test_wlt_call__encoded__the_ledger_reads_the_same(void **state)
{
    struct led_batch b;

    (void)state;
    good(WLT_ISSUE, "{\"to\":\"a\",\"amount_minor\":\"7\",\"asset\":\"usd\"}", "k");
    b = encoded(false);
    expect(&b.entries[0], LED_KIND_MINT, "a", "", "");
    assert_true(ron_str_is(b.entries[0].asset, "usd"));
    assert_int_equal(b.entries[0].account_nonce, 0);
    good(WLT_TRANSFER,
         "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"7\",\"nonce\":9,\"memo\":\"m\"}", "k");
    b = encoded(true);
    expect(&b.entries[0], LED_KIND_TRANSFER, "a", "b", "");
    assert_int_equal(b.entries[0].account_nonce, 9);
    assert_true(ron_str_is(b.entries[0].memo, "m"));
    assert_true(ron_str_is(b.entries[0].asset, "roc"));
    good(WLT_BURN, "{\"from\":\"a\",\"amount_minor\":\"7\"}", "k");
    b = encoded(false);
    expect(&b.entries[0], LED_KIND_BURN, "a", "", "");
    good(WLT_HOLD, "{\"from\":\"a\",\"amount_minor\":\"7\",\"expires_at\":1700000000001}", "k");
    b = encoded(false);
    expect(&b.entries[0], LED_KIND_HOLD, "a", "", "");
    assert_int_equal(b.entries[0].expires_ms, 1700000000001);
    good(WLT_CAPTURE, "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"7\",\"hold\":\"tx_h\"}",
         "k");
    b = encoded(false);
    expect(&b.entries[0], LED_KIND_CAPTURE, "a", "b", "tx_h");
    good(WLT_RELEASE, "{\"from\":\"a\",\"amount_minor\":\"7\",\"hold\":\"tx_h\"}", "k");
    b = encoded(false);
    expect(&b.entries[0], LED_KIND_RELEASE, "a", "", "tx_h");
}

static void test_wlt_call__encoded_batch__entries_in_order(void **state)
{
    struct led_batch b;

    (void)state;
    good(WLT_OP_COUNT,
         "{\"operations\":[{\"op\":\"issue\",\"to\":\"a\",\"amount_minor\":\"1\"},"
         "{\"op\":\"transfer\",\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"2\"},"
         "{\"op\":\"burn\",\"from\":\"b\",\"amount_minor\":\"3\"}]}",
         "k");
    b = encoded(false);
    for (unsigned i = 0; i < 3; i++) {
        static const uint8_t kinds[] = {LED_KIND_MINT, LED_KIND_TRANSFER, LED_KIND_BURN};

        assert_int_equal(b.entries[i].kind, kinds[i]);
        assert_true(ron_str_is(b.entries[i].id, call.ops[i].txid));
        assert_memory_equal(b.entries[i].nonce, call.ops[i].entry_nonce, LC_NONCE_BYTES);
        support_assert_u128_equal(b.entries[i].amount.v, i + 1);
    }
}

/* ---- receipts -------------------------------------------------------------------------------- */

static struct lc_done done_of(uint64_t first, uint64_t last, uint8_t root_byte)
{
    struct lc_done done = {.seq_first = first, .seq_last = last, .commit_ms = 1777309851000};

    memset(done.root, root_byte, sizeof done.root);
    return done;
}

static const char *answer(const struct lc_done *done)
{
    ron_buf_clear(&out);
    wlt_call_answer(&call, done, &out);
    assert_int_equal(ron_buf_error(&out), RON_OK);
    assert_int_equal(ron_json_check(ron_buf_text(&out), ron_buf_len(&out), NULL), RON_OK);
    return ron_buf_text(&out);
}

/* `text` ends with the hash of what stands before it, closed. */
static void check_hash(const char *text, size_t len)
{
    static const char member[] = ",\"receipt_hash\":\"";
    size_t tail = sizeof member - 1 + RON_B3_ID_LEN + 2;
    char copy[WLT_RECEIPT_MAX];
    char id[RON_B3_ID_SIZE];
    struct ron_b3 hash;

    assert_true(len > tail && len < sizeof copy);
    memcpy(copy, text, len - tail);
    copy[len - tail] = '}';
    ron_b3_hash(copy, len - tail + 1, &hash);
    ron_b3_format(&hash, id);
    assert_memory_equal(text + len - tail, member, sizeof member - 1);
    assert_memory_equal(text + len - 2 - RON_B3_ID_LEN, id, RON_B3_ID_LEN);
}

#define ROOT_00 "0000000000000000000000000000000000000000000000000000000000000000"
#define ROOT_AB "abababababababababababababababababababababababababababababababab"

/* The vector has a txid and a range of two entries that no call of ours gives; txid and key are put
 * in by hand, and the hash is that of the vector with one entry. */
static void test_wlt_call__golden_receipt__bytes_and_hash(void **state)
{
    static const char vector[] =
        "{\"txid\":\"tx_vector\",\"op\":\"transfer\",\"from\":\"acct_a\",\"to\":\"acct_b\","
        "\"asset\":\"roc\",\"amount_minor\":\"1\",\"nonce\":1,\"idem\":\"idem_vector\","
        "\"ts\":1777309851000,\"ledger_seq_start\":1,\"ledger_seq_end\":2,"
        "\"ledger_root\":\"" ROOT_00 "\",\"settlement_status\":\"accepted\"}";
    struct lc_done done = done_of(1, 1, 0);
    char id[RON_B3_ID_SIZE];
    struct ron_b3 hash;
    const char *text;

    (void)state;
    ron_b3_hash(vector, sizeof vector - 1, &hash);
    ron_b3_format(&hash, id);
    assert_string_equal(id, "b3:3dc076d9dd8b2ef603748018fee55689bb5ecb34ec71b3e10c5fdabfe73475f8");
    good(WLT_TRANSFER, "{\"from\":\"acct_a\",\"to\":\"acct_b\",\"amount_minor\":\"1\",\"nonce\":1}",
         "idem_vector");
    text = answer(&done);
    /* Member by member the vector, but for txid and the end of the range. */
    assert_memory_equal(text, "{\"txid\":\"tx_", 12);
    assert_memory_equal(text + 9 + WLT_TXID_LEN, vector + 18, strlen(vector + 18) - 128);
    assert_non_null(strstr(text, "\"ledger_seq_end\":1,\"ledger_root\":\"" ROOT_00
                                 "\",\"settlement_status\":\"accepted\",\"receipt_hash\":\"b3:"));
    check_hash(text, strlen(text));
}

static void test_wlt_call__answer__written_out(void **state)
{
    struct lc_done done = done_of(7, 7, 0xab);
    const char *text;

    (void)state;
    good(WLT_TRANSFER,
         "{\"from\":\"acct_a\",\"to\":\"acct_b\",\"amount_minor\":\"40\",\"nonce\":1}",
         "idem_vector_txid");
    text = answer(&done);
    assert_string_equal(
        text, "{\"txid\":\"tx_7277a17837fe26d0a69d1ba2d9db9c5d\",\"op\":\"transfer\","
              "\"from\":\"acct_a\",\"to\":\"acct_b\",\"asset\":\"roc\",\"amount_minor\":\"40\","
              "\"nonce\":1,\"idem\":\"idem_vector_txid\",\"ts\":1777309851000,"
              "\"ledger_seq_start\":7,\"ledger_seq_end\":7,\"ledger_root\":\"" ROOT_AB "\","
              "\"settlement_status\":\"accepted\",\"receipt_hash\":\"b3:"
              "0d983414e2684974436be237c2040744dca41090f737bbf3124c55039e4b32f1\"}");
    check_hash(text, strlen(text));
    /* Whether it is the first answer or a later one does not show. */
    {
        static char first[WLT_RECEIPT_MAX];

        (void)snprintf(first, sizeof first, "%s", text);
        done.replayed = true;
        assert_string_equal(answer(&done), first);
    }
    good(WLT_ISSUE, "{\"to\":\"a\",\"amount_minor\":\"5\",\"memo\":\"m\"}", "k");
    text = answer(&done);
    assert_non_null(strstr(text, "\"op\":\"issue\",\"from\":null,\"to\":\"a\",\"asset\":\"roc\","
                                 "\"amount_minor\":\"5\",\"nonce\":null,\"idem\":\"k\","));
    check_hash(text, strlen(text));
    good(WLT_HOLD, "{\"from\":\"a\",\"amount_minor\":\"5\",\"expires_at\":9}", "k");
    text = answer(&done);
    assert_non_null(strstr(text, "\"op\":\"hold\",\"from\":\"a\",\"to\":null,"));
    check_hash(text, strlen(text));
}

static void test_wlt_call__dry_run__claims_nothing(void **state)
{
    struct lc_done done = {.dry_run = true};

    (void)state;
    for (int who = 0; who < 3; who++) {
        good(WLT_BURN, "{\"from\":\"a\",\"amount_minor\":\"5\"}", "k");
        /* Either side alone is enough: nothing that was not written is called accepted. */
        call.dry_run = who != 1;
        done.dry_run = who != 2;
        (void)answer(&done);
        assert_non_null(strstr(ron_buf_text(&out),
                               "\"idem\":\"k\",\"ts\":null,\"ledger_seq_start\":null,"
                               "\"ledger_seq_end\":null,\"ledger_root\":null,"
                               "\"settlement_status\":\"dry_run\",\"receipt_hash\":null}"));
    }
    good(WLT_OP_COUNT, "{\"operations\":[{\"op\":\"issue\",\"to\":\"a\",\"amount_minor\":\"1\"}]}",
         "k");
    call.dry_run = true;
    (void)answer(&done);
    assert_non_null(strstr(ron_buf_text(&out),
                           "{\"count\":1,\"ledger_seq_start\":null,\"ledger_seq_end\":null,"
                           "\"ledger_root\":null,\"ts\":null,\"receipts\":[{\"txid\":\"tx_"));
}

static void test_wlt_call__answer_of_a_batch__a_receipt_for_each(void **state)
{
    struct lc_done done = done_of(41, 43, 0xab);
    const char *text;
    const char *at;

    (void)state;
    good(WLT_OP_COUNT,
         "{\"operations\":[{\"op\":\"issue\",\"to\":\"a\",\"amount_minor\":\"1\"},"
         "{\"op\":\"transfer\",\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"2\",\"nonce\":5},"
         "{\"op\":\"burn\",\"from\":\"b\",\"amount_minor\":\"3\"}]}",
         "k");
    text = answer(&done);
    at = strstr(text, "\"receipts\":[");
    assert_non_null(at);
    assert_memory_equal(text,
                        "{\"count\":3,\"ledger_seq_start\":41,\"ledger_seq_end\":43,"
                        "\"ledger_root\":\"" ROOT_AB "\",\"ts\":1777309851000,",
                        (size_t)(at - text));
    at += strlen("\"receipts\":[");
    for (unsigned i = 0; i < 3; i++) {
        const char *end = strchr(at, '}') + 1;
        char seq[64];

        assert_memory_equal(at + 9, call.ops[i].txid, WLT_TXID_LEN);
        (void)snprintf(seq, sizeof seq, "\"ledger_seq_start\":%u,\"ledger_seq_end\":%u,", 41 + i,
                       41 + i);
        assert_true(strstr(at, seq) != NULL && strstr(at, seq) < end);
        check_hash(at, (size_t)(end - at));
        assert_int_equal(*end, i < 2 ? ',' : ']');
        at = end + 1;
    }
    assert_string_equal(at, "}");
}

/* Receipts are hashed side by side where their lengths agree: more than are taken at once, of many
 * lengths. */
static void test_wlt_call__answer_of_a_long_batch__every_hash_is_that_of_its_receipt(void **state)
{
    enum { OPERATIONS = 100 };
    static char body[OPERATIONS * 512];
    struct lc_done done = done_of(95, 95 + OPERATIONS - 1, 0xab); /* numbers get a digit more */
    size_t len = (size_t)snprintf(body, sizeof body, "{\"operations\":[");
    const char *at;

    (void)state;
    for (int i = 0; i < OPERATIONS; i++) {
        len += (size_t)snprintf(body + len, sizeof body - len,
                                "%s{\"op\":\"transfer\",\"from\":\"a%0*d\",\"to\":\"b\","
                                "\"amount_minor\":\"1\"}",
                                i == 0 ? "" : ",", i % 40 < 20 ? 1 : i * 2, i);
    }
    (void)snprintf(body + len, sizeof body - len, "]}");
    good(WLT_OP_COUNT, body, "k");
    at = strstr(answer(&done), "\"receipts\":[") + strlen("\"receipts\":[");
    for (int i = 0; i < OPERATIONS; i++) {
        const char *end = strchr(at, '}') + 1;

        assert_memory_equal(at + 9, call.ops[i].txid, WLT_TXID_LEN);
        check_hash(at, (size_t)(end - at));
        at = end + 1;
    }
    assert_string_equal(at, "}");
}

/* The longest receipt there can be keeps to WLT_RECEIPT_MAX. */
static void test_wlt_call__longest_receipt__fits(void **state)
{
    struct lc_done done = done_of(UINT64_MAX, UINT64_MAX, 0xff);
    char body[1024];
    char name[WLT_ACCOUNT_MAX];
    const char *text;

    (void)state;
    done.commit_ms = UINT64_MAX;
    memset(name, 'n', sizeof name);
    (void)snprintf(body, sizeof body,
                   "{\"from\":\"a%.255s\",\"to\":\"b%.255s\",\"asset\":\"%.32s\",\"amount_minor\":"
                   "\"340282366920938463463374607431768211455\",\"nonce\":4611686018427387903}",
                   name, name, name);
    good(WLT_TRANSFER, body, "0123456789012345678901234567890123456789012345678901234567890123");
    text = answer(&done);
    assert_true(strlen(text) > 1000 && strlen(text) < WLT_RECEIPT_MAX);
    check_hash(text, strlen(text));
}

static void test_wlt_call__no_room_for_the_answer__the_buffer_says_so(void **state)
{
    struct lc_done done = done_of(1, 1, 0);
    char room[64];
    struct ron_buf small;

    (void)state;
    good(WLT_BURN, "{\"from\":\"a\",\"amount_minor\":\"5\"}", "k");
    ron_buf_init_over(&small, room, sizeof room);
    wlt_call_answer(&call, &done, &small);
    assert_int_equal(ron_buf_error(&small), RON_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wlt_call__encoded__the_ledger_reads_the_same),
        cmocka_unit_test(test_wlt_call__encoded_batch__entries_in_order),
        cmocka_unit_test(test_wlt_call__golden_receipt__bytes_and_hash),
        cmocka_unit_test(test_wlt_call__answer__written_out),
        cmocka_unit_test(test_wlt_call__dry_run__claims_nothing),
        cmocka_unit_test(test_wlt_call__answer_of_a_batch__a_receipt_for_each),
        cmocka_unit_test(test_wlt_call__answer_of_a_long_batch__every_hash_is_that_of_its_receipt),
        cmocka_unit_test(test_wlt_call__longest_receipt__fits),
        cmocka_unit_test(test_wlt_call__no_room_for_the_answer__the_buffer_says_so),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
