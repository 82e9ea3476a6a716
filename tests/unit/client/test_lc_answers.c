/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: every answer of the ledger is understood whole, and whatever is no answer of it is refused.
 * Method: texts as the ledger writes them (with its own writers where they are plain code), then
 * the same with a member left out, doubled, or of another type; names through targets and back. */
#include "support/support.h"

#include "client/client.h"
#include "ledger/entry/entry.h"
#include "ledger/read/reader.h"
#include "ron/http/parse.h"

#define ROOT "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static char text[1 << 16];

static char *copy(const char *from)
{
    (void)snprintf(text, sizeof text, "%s", from);
    return text;
}

static struct ron_str str(const char *s)
{
    return (struct ron_str){s, strlen(s)};
}

/* ---- targets --------------------------------------------------------------------------------- */

static void assert_target(struct ron_buf *out, const char *want)
{
    assert_int_equal(ron_buf_error(out), RON_OK);
    assert_string_equal(ron_buf_text(out), want);
    ron_buf_clear(out);
}

static void test_lc_target__names__are_escaped(void **state)
{
    char room[LC_TARGET_MAX + 1];
    struct ron_buf out;

    (void)state;
    ron_buf_init_over(&out, room, sizeof room);
    lc_target_account(&out, str("t:demo/u_a-1"));
    assert_target(&out, "/accounts/t%3Ademo%2Fu_a-1/balances");
    lc_target_debits(&out, str("t:demo"), str("roc.x"), 1700000000000, 0);
    assert_target(&out, "/accounts/t%3Ademo/debits?asset=roc%2Ex&since=1700000000000");
    lc_target_debits(&out, str("a"), str("roc"), 0, 77);
    assert_target(&out, "/accounts/a/debits?asset=roc&since=0&before=77");
    lc_target_outcome(&out, str("a b?c#d%&+"));
    assert_target(&out, "/outcome/a%20b%3Fc%23d%25%26%2B");
    lc_target_by_id(&out, str("../x"));
    assert_target(&out, "/entries/by-id/%2E%2E%2Fx");
    lc_target_head(&out);
    assert_target(&out, "/head");
}

static void test_lc_target__every_printable_name__comes_back(void **state)
{
    char name[95];
    char back[sizeof name];
    size_t len = 0;
    struct ron_buf out;

    (void)state;
    for (size_t i = 0; i < sizeof name; i++) {
        name[i] = (char)(' ' + i);
    }
    ron_buf_init(&out, LC_TARGET_MAX);
    lc_target_outcome(&out, (struct ron_str){name, sizeof name});
    assert_int_equal(ron_http_percent_decode((struct ron_str){(const char *)ron_buf_data(&out) + 9,
                                                              ron_buf_len(&out) - 9},
                                             false, back, sizeof back, &len),
                     RON_OK);
    assert_int_equal(len, sizeof name);
    assert_memory_equal(back, name, len);
    ron_buf_done(&out);
}

static void test_lc_target__longest_names__fit(void **state)
{
    char account[LC_ACCOUNT_MAX];
    char asset[LED_ASSET_MAX];
    struct ron_buf out;

    (void)state;
    memset(account, '/', sizeof account);
    memset(asset, '.', sizeof asset);
    ron_buf_init(&out, LC_TARGET_MAX);
    lc_target_debits(&out, (struct ron_str){account, sizeof account},
                     (struct ron_str){asset, sizeof asset}, UINT64_MAX, UINT64_MAX);
    assert_int_equal(ron_buf_error(&out), RON_OK);
    ron_buf_done(&out);
}

/* ---- commits --------------------------------------------------------------------------------- */

static void fill_done(uint8_t b[LC_DONE_BYTES], uint8_t state, uint8_t first, uint8_t last)
{
    memset(b, 0, LC_DONE_BYTES);
    b[0] = state;
    b[9] = first;
    b[17] = last;
}

static void test_lc_done__committed__tells_seqs_root_and_time(void **state)
{
    uint8_t b[LC_DONE_BYTES];
    struct lc_done d;

    (void)state;
    fill_done(b, 1, 5, 7);
    b[1] = 1;
    b[18] = 0xaa;
    b[49] = 0xbb;
    b[50] = 1;
    b[57] = 2;
    assert_int_equal(lc_done_read(b, sizeof b, &d), RON_OK);
    assert_false(d.dry_run);
    assert_true(d.replayed);
    assert_int_equal(d.seq_first, 5);
    assert_int_equal(d.seq_last, 7);
    assert_int_equal(d.root[0], 0xaa);
    assert_int_equal(d.root[31], 0xbb);
    assert_int_equal(d.commit_ms, (UINT64_C(1) << 56) + 2);
}

static void test_lc_done__impossible__is_corrupt(void **state)
{
    uint8_t b[LC_DONE_BYTES + 1] = {0};
    struct lc_done d;

    (void)state;
    fill_done(b, 2, 0, 0);
    assert_int_equal(lc_done_read(b, LC_DONE_BYTES, &d), RON_OK);
    assert_true(d.dry_run);
    assert_int_equal(lc_done_read(b, LC_DONE_BYTES - 1, &d), RON_CORRUPT);
    assert_int_equal(lc_done_read(b, LC_DONE_BYTES + 1, &d), RON_CORRUPT);
    fill_done(b, 2, 1, 1); /* a dry run has no seq */
    assert_int_equal(lc_done_read(b, LC_DONE_BYTES, &d), RON_CORRUPT);
    fill_done(b, 1, 0, 1); /* a commit has one */
    assert_int_equal(lc_done_read(b, LC_DONE_BYTES, &d), RON_CORRUPT);
    fill_done(b, 1, 2, 1);
    assert_int_equal(lc_done_read(b, LC_DONE_BYTES, &d), RON_CORRUPT);
    fill_done(b, 0, 1, 1);
    assert_int_equal(lc_done_read(b, LC_DONE_BYTES, &d), RON_CORRUPT);
    fill_done(b, 3, 1, 1);
    assert_int_equal(lc_done_read(b, LC_DONE_BYTES, &d), RON_CORRUPT);
    fill_done(b, 1, 1, 1);
    b[1] = 2;
    assert_int_equal(lc_done_read(b, LC_DONE_BYTES, &d), RON_CORRUPT);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void test_lc_refusal__every_reason_of_the_ledger__is_known(void **state)
{
    (void)state;
    for (int i = LED_REASON_OK + 1; i < LED_REASON_COUNT; i++) {
        struct led_refusals list = {0};
        struct led_refusal one = {0};
        struct lc_refusal got;
        struct ron_json_writer j;
        struct ron_buf out;

        led_refuse(&one, (enum led_reason)i, "amount", "detail");
        led_refusals_add(&list, &one, 3);
        led_refusals_add(&list, &one, 4);
        ron_buf_init_over(&out, text, sizeof text);
        ron_json_begin(&j, &out);
        ron_json_open(&j, NULL, '{');
        ron_json_text(&j, "code", "CODE");
        ron_json_text(&j, "message", "what \"it\" is");
        ron_json_bool(&j, "retryable", led_reason_retryable((enum led_reason)i));
        ron_json_text(&j, "corr_id", "x");
        ron_json_text(&j, "reason", led_reason_name((enum led_reason)i));
        led_response_members(
            &j, &(struct led_response){.new_root = (const uint8_t *)ROOT, .refusals = &list});
        ron_json_close(&j, '}');
        assert_int_equal(lc_refusal_read(text, ron_buf_len(&out), &got), RON_OK);
        assert_int_equal(got.reason, i); /* both tables stand in the same order */
        assert_int_equal(got.retryable, led_reason_retryable((enum led_reason)i));
        assert_int_equal(got.idx, 3);
        assert_string_equal(got.message, "what \"it\" is");
    }
    assert_int_equal(LC_REASON_COUNT, LED_REASON_COUNT);
}

static void test_lc_refusal__refusals_of_the_wire__are_other(void **state)
{
    struct lc_refusal got;
    char *json = copy("{\"code\":\"FLOW\",\"message\":\"caf\\u00e9\",\"retryable\":true,"
                      "\"corr_id\":\"1\",\"reason\":\"flow_limit\"}");

    (void)state;
    assert_int_equal(lc_refusal_read(json, strlen(json), &got), RON_OK);
    assert_int_equal(got.reason, LC_REASON_OTHER);
    assert_true(got.retryable);
    assert_int_equal(got.idx, 0);
    assert_string_equal(got.message, "caf??");
}

static void test_lc_refusal__not_an_envelope__is_corrupt(void **state)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "null",
        "{\"message\":\"m\",\"retryable\":true}",
        "{\"message\":\"m\",\"reason\":\"busy\"}",
        "{\"retryable\":true,\"reason\":\"busy\"}",
        "{\"message\":\"m\",\"retryable\":1,\"reason\":\"busy\"}",
        "{\"message\":\"m\",\"retryable\":true,\"reason\":\"busy\"}x",
        "{\"message\":\"m\",\"retryable\":true,\"reason\":\"busy\",\"reasons\":{}}",
        "{\"message\":\"m\",\"retryable\":true,\"reason\":\"busy\",\"reasons\":[1]}",
        "{\"message\":\"m\",\"retryable\":true,\"reason\":\"busy\",\"reasons\":[{\"idx\":\"1\"}]}",
    };
    struct lc_refusal got = {.idx = 77};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        char *json = copy(bad[i]);

        assert_int_equal(lc_refusal_read(json, strlen(json), &got), RON_CORRUPT);
        assert_int_equal(got.idx, 77);
    }
}

static void test_lc_refusal__long_message__is_cut(void **state)
{
    struct lc_refusal got;
    char json[512];
    int len = snprintf(json, sizeof json,
                       "{\"message\":\"%0300d\",\"retryable\":false,\"reason\":\"invalid\","
                       "\"reasons\":[]}",
                       0);

    (void)state;
    assert_int_equal(lc_refusal_read(json, (size_t)len, &got), RON_OK);
    assert_int_equal(strlen(got.message), sizeof got.message - 1);
}

/* ---- accounts -------------------------------------------------------------------------------- */

#define ACCOUNT_HEAD                                                                               \
    "{\"account\":\"t:a\",\"seq\":9,\"last_seq\":7,\"account_nonce\":3,\"frozen\":true,"

static enum ron_rc account(const char *json, const char *asset, struct lc_account *ret)
{
    return lc_account_read(copy(json), strlen(json), str(asset), ret);
}

static void test_lc_account__many_assets__tells_the_one(void **state)
{
    static const char json[] =
        ACCOUNT_HEAD "\"balances\":[{\"asset\":\"ro\",\"available\":\"1\",\"held\":\"0\"}, "
                     "{\"asset\":\"roc\",\"available\":\"340282366920938463463374607431768211455\","
                     "\"held\":\"5\"},{\"asset\":\"roca\",\"available\":\"2\",\"held\":\"3\"}]}";
    struct lc_account a;

    (void)state;
    assert_int_equal(account(json, "roc", &a), RON_OK);
    assert_int_equal(a.seq, 9);
    assert_int_equal(a.last_seq, 7);
    assert_int_equal(a.nonce, 3);
    assert_true(a.frozen);
    support_assert_u128_equal(a.available.v, RON_MONEY_MAX.v);
    support_assert_u128_equal(a.held.v, 5);
    assert_int_equal(account(json, "roca", &a), RON_OK);
    support_assert_u128_equal(a.available.v, 2);
    assert_int_equal(account(json, "other", &a), RON_OK);
    support_assert_u128_equal(a.available.v, 0);
    support_assert_u128_equal(a.held.v, 0);
}

static void test_lc_account__strange_texts__do_not_mislead(void **state)
{
    static const char json[] =
        ACCOUNT_HEAD "\"more\":[\"]}\"],\"balances\":[ {\"asset\":\"a]},{\\\"\",\"x\":[1,{}],"
                     "\"available\":\"1\",\"held\":\"0\"} , "
                     "{\"asset\":\"r\\u006fc\",\"available\":\"4\",\"held\":\"0\"} ] }";
    struct lc_account a;

    (void)state;
    assert_int_equal(account(json, "roc", &a), RON_OK);
    support_assert_u128_equal(a.available.v, 4);
    assert_int_equal(account(ACCOUNT_HEAD "\"balances\":[]}", "roc", &a), RON_OK);
    support_assert_u128_equal(a.available.v, 0);
}

static void test_lc_account__no_balances__is_corrupt(void **state)
{
    static const char *const bad[] = {
        ACCOUNT_HEAD "\"balances\":{}}",
        ACCOUNT_HEAD "\"balances\":[[]]}",
        ACCOUNT_HEAD "\"balances\":[{\"asset\":\"roc\",\"available\":1,\"held\":\"0\"}]}",
        ACCOUNT_HEAD "\"balances\":[{\"asset\":\"roc\",\"available\":\"1\"}]}",
        ACCOUNT_HEAD "\"balances\":[{\"asset\":\"roc\",\"available\":\"1\",\"held\":\"0\"},"
                     "{\"asset\":\"roc\",\"available\":\"1\",\"held\":\"0\"}]}",
        "{\"seq\":9,\"last_seq\":7,\"account_nonce\":3,\"balances\":[]}",
    };
    struct lc_account a = {.seq = 77};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        assert_int_equal(account(bad[i], "roc", &a), RON_CORRUPT);
        assert_int_equal(a.seq, 77);
    }
}

static void test_lc_debits__pages__tell_sum_and_next(void **state)
{
    static const char *const good[] = {
        "{\"account\":\"a\",\"asset\":\"roc\",\"since\":1,\"debited\":\"12\",\"next\":5}",
        "{\"account\":\"a\",\"asset\":\"roc\",\"since\":1,\"debited\":\"0\",\"next\":null}"};
    static const char big[] = "{\"debited\":\"1\",\"next\":18446744073709551616}";
    struct lc_debits d;

    (void)state;
    assert_int_equal(lc_debits_read(copy(good[0]), strlen(good[0]), &d), RON_OK);
    support_assert_u128_equal(d.debited.v, 12);
    assert_int_equal(d.next, 5);
    assert_int_equal(lc_debits_read(copy(good[1]), strlen(good[1]), &d), RON_OK);
    assert_int_equal(d.next, 0);
    assert_int_equal(lc_debits_read(copy("{\"debited\":\"1\",\"next\":0}"), 24, &d), RON_CORRUPT);
    assert_int_equal(lc_debits_read(copy("{\"debited\":\"1\"}"), 15, &d), RON_CORRUPT);
    assert_int_equal(lc_debits_read(copy("{\"debited\":12,\"next\":5}"), 23, &d), RON_CORRUPT);
    assert_int_equal(lc_debits_read(copy("{\"debited\":\"1\",\"next\":1.5}"), 26, &d), RON_CORRUPT);
    assert_int_equal(lc_debits_read(copy(big), strlen(big), &d), RON_CORRUPT);
}

/* ---- keys and places ------------------------------------------------------------------------- */

static enum ron_rc outcome(const char *json, struct lc_outcome_of_key *ret)
{
    return lc_outcome_read(copy(json), strlen(json), ret);
}

static void test_lc_outcome__as_the_ledger_writes_it__is_understood(void **state)
{
    struct led_key_outcome k = {
        .state = LED_KEY_COMMITTED, .seq_first = 5, .seq_last = 6, .time_ms = 1700000000001};
    struct lc_outcome_of_key got;
    struct ron_buf out;

    (void)state;
    k.root.bytes[0] = 0xfe;
    k.root.bytes[31] = 0x01;
    ron_buf_init_over(&out, text, sizeof text);
    led_key_outcome_to_json(&out, str("order-7"), &k);
    assert_int_equal(lc_outcome_read(text, ron_buf_len(&out), &got), RON_OK);
    assert_int_equal(got.outcome, LC_COMMITTED);
    assert_true(got.done.replayed);
    assert_int_equal(got.done.seq_first, 5);
    assert_int_equal(got.done.seq_last, 6);
    assert_int_equal(got.done.commit_ms, 1700000000001);
    assert_memory_equal(got.done.root, k.root.bytes, LC_HASH_BYTES);

    k.state = LED_KEY_CANCELLED;
    ron_buf_clear(&out);
    led_key_outcome_to_json(&out, str("order-7"), &k);
    assert_int_equal(lc_outcome_read(text, ron_buf_len(&out), &got), RON_OK);
    assert_int_equal(got.outcome, LC_CANCELLED);

    k.state = LED_KEY_UNKNOWN;
    ron_buf_clear(&out);
    led_key_outcome_to_json(&out, str("order-7"), &k);
    assert_int_equal(lc_outcome_read(text, ron_buf_len(&out), &got), RON_OK);
    assert_int_equal(got.outcome, LC_NEVER_SEEN);
    assert_int_equal(outcome("{\"idem_id\":\"k\",\"outcome\":\"in_flight\"}", &got), RON_OK);
    assert_int_equal(got.outcome, LC_IN_FLIGHT);
}

static void test_lc_outcome__half_told__is_corrupt(void **state)
{
    static const char *const bad[] = {
        "{\"outcome\":\"maybe\"}",
        "{\"outcome\":\"committed\"}",
        "{\"outcome\":\"committed\",\"seq_start\":1,\"seq_end\":1,\"new_root\":\"" ROOT "\"}",
        "{\"outcome\":\"committed\",\"seq_start\":2,\"seq_end\":1,\"new_root\":\"" ROOT
        "\",\"ts\":1}",
        "{\"outcome\":\"committed\",\"seq_start\":0,\"seq_end\":1,\"new_root\":\"" ROOT
        "\",\"ts\":1}",
        "{\"outcome\":\"committed\",\"seq_start\":1,\"seq_end\":1,\"new_root\":\"00\",\"ts\":1}",
        "{\"outcome\":\"committed\",\"seq_start\":1,\"seq_end\":1,\"new_root\":\"G" ROOT
        "\",\"ts\":1}",
    };
    struct lc_outcome_of_key got;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        assert_int_equal(outcome(bad[i], &got), RON_CORRUPT);
    }
}

static enum ron_rc place(const char *json, struct lc_place *ret)
{
    return lc_place_read(copy(json), strlen(json), ret);
}

static void test_lc_place__entry_and_batch__are_found(void **state)
{
    struct lc_place p;

    (void)state;
    assert_int_equal(
        place("{\"entry\":{\"seq\":5,\"id\":\"tx-1\",\"memo\":\"x\"},"
              "\"links\":{\"account\":{\"prev_seq\":3,\"available\":\"95\",\"held\":\"0\"}},"
              "\"batch\":{\"seq_start\":5,\"seq_end\":6,\"ts\":1,\"idem_id\":\"order-7\","
              "\"imported\":false},\"commit\":{\"seq_start\":1,\"seq_end\":9}}",
              &p),
        RON_OK);
    assert_int_equal(p.seq, 5);
    assert_int_equal(p.batch_first, 5);
    assert_int_equal(p.batch_last, 6);
    assert_true(ron_str_is(p.idem_id, "order-7"));
    assert_int_equal(place("{\"entry\":{\"seq\":5},\"batch\":{\"seq_start\":4,\"seq_end\":5}}", &p),
                     RON_OK);
    assert_int_equal(p.idem_id.len, 0);
    assert_int_equal(place("{\"entry\":{\"seq\":7},\"batch\":{\"seq_start\":4,\"seq_end\":5}}", &p),
                     RON_CORRUPT);
    assert_int_equal(place("{\"entry\":{\"seq\":3},\"batch\":{\"seq_start\":4,\"seq_end\":5}}", &p),
                     RON_CORRUPT);
    assert_int_equal(place("{\"entry\":{\"seq\":3}}", &p), RON_CORRUPT);
    assert_int_equal(place("{\"batch\":{\"seq_start\":4,\"seq_end\":5}}", &p), RON_CORRUPT);
}

#define FOUND                                                                                      \
    "\"seq\":5,\"id\":\"tx-1\",\"ts\":1,\"kind\":\"Transfer\",\"account\":\"a\","                  \
    "\"asset\":\"roc\",\"amount\":\"7\""

static enum ron_rc found(const char *json, struct lc_found *ret)
{
    return lc_found_read(copy(json), strlen(json), ret);
}

static void test_lc_found__an_entry__is_told_with_its_key(void **state)
{
    static const char *const bad[] = {
        "{\"entry\":{" FOUND "}}",
        "{\"batch\":{}}",
        "{\"entry\":{\"seq\":5,\"id\":\"x\",\"kind\":\"Mint\",\"account\":\"a\",\"asset\":\"roc\"},"
        "\"batch\":{}}",
        "{\"entry\":{" FOUND ",\"to\":1},\"batch\":{}}",
    };
    struct lc_found f;

    (void)state;
    assert_int_equal(found("{\"entry\":{" FOUND ",\"to\":\"b\",\"account_nonce\":3},"
                           "\"batch\":{\"seq_start\":5,\"seq_end\":6,\"idem_id\":\"order-7\"}}",
                           &f),
                     RON_OK);
    assert_int_equal(f.seq, 5);
    assert_true(ron_str_is(f.id, "tx-1"));
    assert_true(ron_str_is(f.kind, "Transfer"));
    assert_true(ron_str_is(f.account, "a"));
    assert_true(ron_str_is(f.to, "b"));
    assert_true(ron_str_is(f.asset, "roc"));
    assert_int_equal(f.amount.v, 7);
    assert_int_equal(f.account_nonce, 3);
    assert_true(ron_str_is(f.idem_id, "order-7"));
    assert_int_equal(found("{\"entry\":{" FOUND "},\"batch\":{}}", &f), RON_OK);
    assert_int_equal(f.to.len + f.account_nonce + f.idem_id.len, 0);
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        assert_int_equal(found(bad[i], &f), RON_CORRUPT);
    }
}

static void test_lc_head__seq_and_time__are_told(void **state)
{
    static const char good[] = "{\"seq\":9,\"root\":\"" ROOT "\",\"ts\":12}";
    struct lc_head h;

    (void)state;
    assert_int_equal(lc_head_read(copy(good), sizeof good - 1, &h), RON_OK);
    assert_int_equal(h.seq, 9);
    assert_int_equal(h.commit_ms, 12);
    assert_int_equal(lc_head_read(copy("{\"seq\":9}"), 9, &h), RON_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lc_target__names__are_escaped),
        cmocka_unit_test(test_lc_target__every_printable_name__comes_back),
        cmocka_unit_test(test_lc_target__longest_names__fit),
        cmocka_unit_test(test_lc_done__committed__tells_seqs_root_and_time),
        cmocka_unit_test(test_lc_done__impossible__is_corrupt),
        cmocka_unit_test(test_lc_refusal__every_reason_of_the_ledger__is_known),
        cmocka_unit_test(test_lc_refusal__refusals_of_the_wire__are_other),
        cmocka_unit_test(test_lc_refusal__not_an_envelope__is_corrupt),
        cmocka_unit_test(test_lc_refusal__long_message__is_cut),
        cmocka_unit_test(test_lc_account__many_assets__tells_the_one),
        cmocka_unit_test(test_lc_account__strange_texts__do_not_mislead),
        cmocka_unit_test(test_lc_account__no_balances__is_corrupt),
        cmocka_unit_test(test_lc_debits__pages__tell_sum_and_next),
        cmocka_unit_test(test_lc_outcome__as_the_ledger_writes_it__is_understood),
        cmocka_unit_test(test_lc_outcome__half_told__is_corrupt),
        cmocka_unit_test(test_lc_place__entry_and_batch__are_found),
        cmocka_unit_test(test_lc_found__an_entry__is_told_with_its_key),
        cmocka_unit_test(test_lc_head__seq_and_time__are_told),
    };

    return cmocka_run_group_tests_name("client.lc_answers", tests, NULL, NULL);
}
