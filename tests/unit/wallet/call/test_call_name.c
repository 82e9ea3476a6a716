/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: names follow from the request alone, as docs/formats/wallet.md has them.
 * Method: the golden vectors of the format; the preimages written out by hand and hashed; every
 * member changed once, which must change the names; other spellings, which must not. */
#include "unit/wallet/call_fixture.h"

#define TRANSFER "{\"from\":\"acct_a\",\"to\":\"acct_b\",\"amount_minor\":\"40\",\"nonce\":1}"

static void hex16(const char *preimage, const char *prefix, char ret[64])
{
    struct ron_b3 hash;
    char digits[RON_B3_HEX_LEN];

    ron_b3_hash(preimage, strlen(preimage), &hash);
    ron_b3_format_hex(&hash, digits);
    (void)snprintf(ret, 64, "%s%.32s", prefix, digits);
}

static void test_wlt_call__golden_transfer__names_of_the_vectors(void **state)
{
    static const uint8_t nonce[] = {0x03, 0x30, 0x45, 0x28, 0x5f, 0xb6, 0x56, 0x5a,
                                    0xec, 0x41, 0x04, 0xde, 0xb6, 0x33, 0x78, 0x02};

    (void)state;
    good(WLT_TRANSFER, TRANSFER, "idem_vector_txid");
    assert_string_equal(call.ops[0].txid, "tx_7277a17837fe26d0a69d1ba2d9db9c5d");
    assert_memory_equal(call.ops[0].entry_nonce, nonce, sizeof nonce);
}

static void test_wlt_call__golden_issue__names_of_the_vectors(void **state)
{
    static const uint8_t nonce[] = {0xab, 0x7a, 0x44, 0xc5, 0xbd, 0xb1, 0x24, 0x24,
                                    0x33, 0xbc, 0xe3, 0xc3, 0xb5, 0x50, 0x21, 0x0b};

    (void)state;
    good(WLT_ISSUE,
         "{\"to\":\"acct_a\",\"asset\":\"roc\",\"amount_minor\":\"100\","
         "\"idempotency_key\":\"idem_http_issue_1\"}",
         "");
    assert_string_equal(call.ops[0].txid, "tx_ddd34d065fc836d05e2cde7304830b29");
    assert_memory_equal(call.ops[0].entry_nonce, nonce, sizeof nonce);
}

/* Preimages of every operation, written out. */
static const struct {
    enum wlt_op op;
    const char *body;
    const char *value;
    const char *parts; /* of the entry nonce; '|' stands for the zero byte */
} rows[] = {
    {WLT_ISSUE, "{\"to\":\"a\",\"amount_minor\":\"7\",\"memo\":\"say \\\"hi\\\" \\\\ \\u00fc\"}",
     "{\"to\":\"a\",\"asset\":\"roc\",\"amount_minor\":\"7\",\"idempotency_key\":null,"
     "\"memo\":\"say \\\"hi\\\" \\\\ \xc3\xbc\"}",
     "issue|k|a|"},
    {WLT_TRANSFER, "{\"from\":\"a\",\"to\":\"b\",\"asset\":\"usd\",\"amount_minor\":\"7\"}",
     "{\"from\":\"a\",\"to\":\"b\",\"asset\":\"usd\",\"amount_minor\":\"7\",\"nonce\":null,"
     "\"idempotency_key\":null,\"memo\":null}",
     "transfer|k|a||debit|"},
    {WLT_BURN, "{\"from\":\"a\",\"amount_minor\":\"7\",\"nonce\":12}",
     "{\"from\":\"a\",\"asset\":\"roc\",\"amount_minor\":\"7\",\"nonce\":12,"
     "\"idempotency_key\":null,\"memo\":null}",
     "burn|k|a|12|"},
    {WLT_HOLD, "{\"from\":\"a\",\"amount_minor\":\"7\",\"expires_at\":1700000000000}",
     "{\"from\":\"a\",\"asset\":\"roc\",\"amount_minor\":\"7\",\"nonce\":null,"
     "\"idempotency_key\":null,\"memo\":null,\"expires_at\":1700000000000}",
     "hold|k|a||debit|"},
    {WLT_CAPTURE, "{\"hold\":\"tx_1\",\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"7\"}",
     "{\"from\":\"a\",\"to\":\"b\",\"asset\":\"roc\",\"amount_minor\":\"7\",\"nonce\":null,"
     "\"idempotency_key\":null,\"memo\":null,\"hold\":\"tx_1\"}",
     "capture|k|a||debit|"},
    {WLT_RELEASE, "{\"hold\":\"tx_1\",\"from\":\"a\",\"amount_minor\":\"7\",\"nonce\":3}",
     "{\"from\":\"a\",\"asset\":\"roc\",\"amount_minor\":\"7\",\"nonce\":3,"
     "\"idempotency_key\":null,\"memo\":null,\"hold\":\"tx_1\"}",
     "release|k|a|3|debit|"},
};

static void test_wlt_call__every_operation__names_are_hashes_of_the_preimages(void **state)
{
    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        const char *op_name = wlt_op_info(rows[i].op)->name;
        char preimage[1024];
        char expected[64];
        struct ron_b3 hash;
        int n;

        good(rows[i].op, rows[i].body, "k");
        (void)snprintf(preimage, sizeof preimage, "{\"op\":\"%s\",\"idem\":\"k\",\"value\":%s}",
                       op_name, rows[i].value);
        hex16(preimage, "tx_", expected);
        assert_string_equal(call.ops[0].txid, expected);
        ron_b3_hash(preimage, strlen(preimage), &hash);
        assert_memory_equal(call.fingerprint, hash.bytes, sizeof hash.bytes);
        n = snprintf(preimage, sizeof preimage, "%s", rows[i].parts);
        for (int k = 0; k < n; k++) {
            preimage[k] = preimage[k] == '|' ? '\0' : preimage[k];
        }
        ron_b3_hash(preimage, (size_t)n, &hash);
        assert_memory_equal(call.ops[0].entry_nonce, hash.bytes, LC_NONCE_BYTES);
    }
}

static void test_wlt_call__idem_id__scoped_by_operation_and_subject(void **state)
{
    static const char preimage[] = "transfer\0acct_a\0idem_vector_txid";
    char id[WLT_IDEM_ID_MAX + 1];
    char first[WLT_IDEM_ID_MAX + 1];
    char digits[RON_B3_HEX_LEN];
    struct ron_b3 hash;

    (void)state;
    good(WLT_TRANSFER, TRANSFER, "idem_vector_txid");
    memcpy(first, call.idem_id, sizeof first);
    ron_b3_hash(preimage, sizeof preimage, &hash);
    ron_b3_format_hex(&hash, digits);
    assert_memory_equal(first, "w1.", 3);
    assert_memory_equal(first + 3, digits, 32);
    assert_string_equal(first + 3 + 32, ".idem_vector_txid");
    assert_true(ron_str_is(wlt_idem_key_of(str(first)), "idem_vector_txid"));
    assert_int_equal(wlt_idem_key_of(str("w1.00.k")).len, 0);
    assert_int_equal(wlt_idem_key_of(str("somebody's own id, which is as long as one")).len, 0);
    wlt_idem_id("transfer", str("acct_a"), str("idem_vector_txid"), id);
    assert_string_equal(id, first);
    wlt_idem_id("burn", str("acct_a"), str("idem_vector_txid"), id);
    assert_string_not_equal(id, first);
    wlt_idem_id("transfer", str("acct_b"), str("idem_vector_txid"), id);
    assert_string_not_equal(id, first);
    wlt_idem_id("transfer", str("acct_a"), str("idem_vector_txi"), id);
    assert_string_not_equal(id, first);
    /* The amount is no part of it: the same key with another body must meet the first. */
    good(WLT_TRANSFER,
         "{\"from\":\"acct_a\",\"to\":\"acct_b\",\"amount_minor\":\"41\",\"nonce\":1}",
         "idem_vector_txid");
    assert_string_equal(call.idem_id, first);
    /* The subject of an issue is `to`. */
    good(WLT_ISSUE, "{\"to\":\"acct_a\",\"amount_minor\":\"41\"}", "k");
    wlt_idem_id("issue", str("acct_a"), str("k"), id);
    assert_string_equal(call.idem_id, id);
}

static void test_wlt_call__other_spellings__same_names(void **state)
{
    static const char *const same[] = {
        TRANSFER,
        " { \"nonce\" : 1 ,\n\"amount_minor\":\"40\",\"asset\":\"roc\",\"to\":\"acct_b\","
        "\"from\":\"acct_\\u0061\" } ",
        "{\"from\":\"acct_a\",\"to\":\"acct_b\",\"asset\":null,\"amount_minor\":\"40\",\"nonce\":1,"
        "\"idempotency_key\":\"k1\",\"memo\":null,\"hold\":null,\"expires_at\":null}",
        "{\"from\":\"acct_a\",\"to\":\"acct_b\",\"amount_minor\":\"40\",\"nonce\":1,\"memo\":\"\"}",
    };
    struct wlt_call first;
    struct wlt_operation op;

    (void)state;
    good(WLT_TRANSFER, same[0], "k1");
    first = call;
    op = call.ops[0];
    for (size_t i = 1; i < RON_ARRAY_LEN(same); i++) {
        good(WLT_TRANSFER, same[i], i % 2 == 0 ? "" : "\"k1\"");
        assert_memory_equal(call.fingerprint, first.fingerprint, sizeof first.fingerprint);
        assert_string_equal(call.idem_id, first.idem_id);
        assert_string_equal(call.ops[0].txid, op.txid);
        assert_memory_equal(call.ops[0].entry_nonce, op.entry_nonce, sizeof op.entry_nonce);
    }
}

static void test_wlt_call__any_member_changed__other_txid_and_fingerprint(void **state)
{
    static const char *const others[] = {
        "{\"from\":\"acct_c\",\"to\":\"acct_b\",\"amount_minor\":\"40\",\"nonce\":1}",
        "{\"from\":\"acct_a\",\"to\":\"acct_c\",\"amount_minor\":\"40\",\"nonce\":1}",
        "{\"from\":\"acct_a\",\"to\":\"acct_b\",\"amount_minor\":\"41\",\"nonce\":1}",
        "{\"from\":\"acct_a\",\"to\":\"acct_b\",\"amount_minor\":\"40\",\"nonce\":2}",
        "{\"from\":\"acct_a\",\"to\":\"acct_b\",\"amount_minor\":\"40\"}",
        "{\"from\":\"acct_a\",\"to\":\"acct_b\",\"amount_minor\":\"40\",\"nonce\":1,\"asset\":"
        "\"r\"}",
        "{\"from\":\"acct_a\",\"to\":\"acct_b\",\"amount_minor\":\"40\",\"nonce\":1,\"memo\":"
        "\"m\"}",
    };
    uint8_t fingerprints[RON_ARRAY_LEN(others) + 1][WLT_HASH_BYTES];
    char txids[RON_ARRAY_LEN(others) + 1][WLT_TXID_LEN + 1];

    (void)state;
    for (size_t i = 0; i <= RON_ARRAY_LEN(others); i++) {
        good(WLT_TRANSFER, i == 0 ? TRANSFER : others[i - 1], "k");
        memcpy(fingerprints[i], call.fingerprint, WLT_HASH_BYTES);
        memcpy(txids[i], call.ops[0].txid, sizeof txids[i]);
        for (size_t k = 0; k < i; k++) {
            assert_memory_not_equal(fingerprints[i], fingerprints[k], WLT_HASH_BYTES);
            assert_string_not_equal(txids[i], txids[k]);
        }
    }
    /* Another key: the same request body, another transaction. */
    good(WLT_TRANSFER, TRANSFER, "k2");
    assert_memory_not_equal(call.fingerprint, fingerprints[0], WLT_HASH_BYTES);
    assert_string_not_equal(call.ops[0].txid, txids[0]);
}

#define BATCH                                                                                      \
    "{\"operations\":[{\"op\":\"issue\",\"to\":\"acct_a\",\"amount_minor\":\"100\"},"              \
    "{\"op\":\"transfer\",\"from\":\"acct_a\",\"to\":\"acct_b\",\"amount_minor\":\"40\","          \
    "\"nonce\":1}],\"idempotency_key\":\"payday-1\"}"
#define BATCH_VALUE                                                                                \
    "[{\"op\":\"issue\",\"value\":{\"to\":\"acct_a\",\"asset\":\"roc\",\"amount_minor\":\"100\","  \
    "\"idempotency_key\":null,\"memo\":null}},"                                                    \
    "{\"op\":\"transfer\",\"value\":{\"from\":\"acct_a\",\"to\":\"acct_b\",\"asset\":\"roc\","     \
    "\"amount_minor\":\"40\",\"nonce\":1,\"idempotency_key\":null,\"memo\":null}}]"

static void test_wlt_call__batch__names_are_hashes_of_the_preimages(void **state)
{
    static const char preimage[] = "{\"op\":\"batch\",\"value\":" BATCH_VALUE "}";
    char fingerprint[RON_B3_ID_SIZE];
    char id[WLT_IDEM_ID_MAX + 1];
    char text[256];
    struct ron_b3 hash;

    (void)state;
    good(WLT_OP_COUNT, BATCH, "");
    assert_true(call.batch);
    assert_int_equal(call.count, 2);
    ron_b3_hash(preimage, sizeof preimage - 1, &hash);
    assert_memory_equal(call.fingerprint, hash.bytes, sizeof hash.bytes);
    fingerprint_of(&call, fingerprint);
    assert_string_equal(fingerprint,
                        "b3:2836dde7293e8a0c5bb71863d2d6ec42b16f466524c0bd44ec7a9130dc2ce6f1");
    assert_string_equal(call.ops[0].txid, "tx_b44824d4b5d9b5f4c4a74d0f06edb9b0");
    assert_string_equal(call.ops[1].txid, "tx_6744d6da5d0e50072ffcd50eafcb41c6");
    for (unsigned i = 0; i < 2; i++) {
        char expected[64];

        (void)snprintf(text, sizeof text,
                       "{\"op\":\"batch\",\"idem\":\"payday-1\",\"value\":\"%s\",\"index\":%u}",
                       fingerprint, i);
        hex16(text, "tx_", expected);
        assert_string_equal(call.ops[i].txid, expected);
        ron_b3_hash(text, strlen(text), &hash);
        assert_memory_equal(call.ops[i].entry_nonce, hash.bytes + 16, LC_NONCE_BYTES);
    }
    wlt_idem_id("batch", str("acct_a"), str("payday-1"), id);
    assert_string_equal(call.idem_id, id);
    assert_string_equal(id, "w1.e258b6b70c0fc0dbd3229d6dfa87c01b.payday-1");
}

/* A batch of burns whose first memo has `first` characters; its preimage is written out too. */
static size_t burns(int count, int first, char *body, char *preimage, size_t size)
{
    static const char memo[] =
        "0123456789012345678901234567890123456789012345678901234567890123456789"
        "0123456789012345678901234567890123456789012345678901234567890123456789"
        "0123456789012345678901234567890123456789012345678901234567890123456789";
    size_t len = (size_t)snprintf(body, size, "{\"operations\":[");
    size_t pre = (size_t)snprintf(preimage, size, "{\"op\":\"batch\",\"value\":[");

    for (int i = 0; i < count; i++) {
        int memo_len = i == 0 ? first : 2;

        len += (size_t)snprintf(body + len, size - len,
                                "%s{\"op\":\"burn\",\"from\":\"a%d\",\"amount_minor\":\"%d\","
                                "\"memo\":\"%.*s\"}",
                                i == 0 ? "" : ",", i, i + 1, memo_len, memo);
        pre += (size_t)snprintf(preimage + pre, size - pre,
                                "%s{\"op\":\"burn\",\"value\":{\"from\":\"a%d\",\"asset\":\"roc\","
                                "\"amount_minor\":\"%d\",\"nonce\":null,\"idempotency_key\":null,"
                                "\"memo\":\"%.*s\"}}",
                                i == 0 ? "" : ",", i, i + 1, memo_len, memo);
    }
    (void)snprintf(body + len, size - len, "]}");
    return pre + (size_t)snprintf(preimage + pre, size - pre, "]}");
}

/* Long ones are hashed in pieces of 8192 bytes: every place at which a piece may end within an
 * operation, between two, and at the very end. */
static void test_wlt_call__long_batch__one_hash_over_all_of_it(void **state)
{
    static char body[64 * 1024];
    static char preimage[sizeof body];
    static const int counts[] = {68, 69, 150};
    bool ended_there = false;

    (void)state;
    for (size_t c = 0; c < RON_ARRAY_LEN(counts); c++) {
        for (int first = 1; first <= 200; first++) {
            size_t len = burns(counts[c], first, body, preimage, sizeof body);
            struct ron_b3 hash;

            good(WLT_OP_COUNT, body, "k");
            ron_b3_hash(preimage, len, &hash);
            assert_memory_equal(call.fingerprint, hash.bytes, sizeof hash.bytes);
            ended_there = ended_there || len == 8192 + 1; /* where the last comma would be */
        }
    }
    assert_true(ended_there);
}

/* Two batches with one key and different first subjects are two calls; where both debit the same
 * account at the same place, the ledger must not take the second entry for the first. */
static void test_wlt_call__same_key_in_two_batches__entries_differ(void **state)
{
    static const char form[] =
        "{\"operations\":[{\"op\":\"issue\",\"to\":\"%s\",\"amount_minor\":\"1\"},"
        "{\"op\":\"transfer\",\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"1\"}]}";
    char text[512];
    uint8_t nonce[LC_NONCE_BYTES];
    char idem_id[WLT_IDEM_ID_MAX + 1];

    (void)state;
    (void)snprintf(text, sizeof text, form, "x");
    good(WLT_OP_COUNT, text, "k");
    memcpy(nonce, call.ops[1].entry_nonce, sizeof nonce);
    memcpy(idem_id, call.idem_id, sizeof idem_id);
    assert_memory_not_equal(call.ops[0].entry_nonce, nonce, sizeof nonce);
    (void)snprintf(text, sizeof text, form, "y");
    good(WLT_OP_COUNT, text, "k");
    assert_string_not_equal(call.idem_id, idem_id);
    assert_memory_not_equal(call.ops[1].entry_nonce, nonce, sizeof nonce);
}

/* Every text of its longest form, and a memo and a hold that double when they are written. */
static void test_wlt_call__longest_members__are_named(void **state)
{
    static char text[8192];
    char account[WLT_ACCOUNT_MAX + 1];
    char quotes[2 * WLT_MEMO_MAX + 1];
    char asset[WLT_ASSET_MAX + 1];

    (void)state;
    memset(account, 'a', sizeof account - 1);
    account[sizeof account - 1] = '\0';
    memset(asset, 'a', sizeof asset - 1);
    asset[sizeof asset - 1] = '\0';
    for (size_t i = 0; i < sizeof quotes - 1; i += 2) {
        memcpy(quotes + i, "\\\"", 2);
    }
    quotes[sizeof quotes - 1] = '\0';
    (void)snprintf(text, sizeof text,
                   "{\"from\":\"%s\",\"to\":\"b%s\",\"asset\":\"%s\",\"amount_minor\":"
                   "\"340282366920938463463374607431768211455\",\"nonce\":4611686018427387903,"
                   "\"memo\":\"%s\",\"hold\":\"%.256s\"}",
                   account, account + 1, asset, quotes, quotes);
    good(WLT_CAPTURE, text, "0123456789012345678901234567890123456789012345678901234567890123");
    assert_int_equal(call.ops[0].memo.len, WLT_MEMO_MAX);
    assert_int_equal(call.ops[0].hold.len, WLT_HOLD_MAX);
    assert_int_equal(call.key.len, WLT_KEY_MAX);
    assert_int_equal(strlen(call.ops[0].txid), WLT_TXID_LEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wlt_call__golden_transfer__names_of_the_vectors),
        cmocka_unit_test(test_wlt_call__golden_issue__names_of_the_vectors),
        cmocka_unit_test(test_wlt_call__every_operation__names_are_hashes_of_the_preimages),
        cmocka_unit_test(test_wlt_call__idem_id__scoped_by_operation_and_subject),
        cmocka_unit_test(test_wlt_call__other_spellings__same_names),
        cmocka_unit_test(test_wlt_call__any_member_changed__other_txid_and_fingerprint),
        cmocka_unit_test(test_wlt_call__batch__names_are_hashes_of_the_preimages),
        cmocka_unit_test(test_wlt_call__long_batch__one_hash_over_all_of_it),
        cmocka_unit_test(test_wlt_call__same_key_in_two_batches__entries_differ),
        cmocka_unit_test(test_wlt_call__longest_members__are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
