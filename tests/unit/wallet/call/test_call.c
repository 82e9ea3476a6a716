/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a body becomes exactly what it says, or is refused with the member that is at fault.
 * Method: a good body of every operation; each member left out, added where it does not belong, and
 * given every kind of wrong value; the key in header and body; batches at their edges; every byte
 * as part of each grammar. */
#include "unit/wallet/call_fixture.h"

#define T "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"5\""

static void bad_request(enum wlt_op op, const char *body, const char *member)
{
    bad(op, body, "k", WLT_REASON_BAD_REQUEST, member);
}

/* ---- operations ------------------------------------------------------------------------------ */

static void test_wlt_op__table__reads_back_and_names_the_subject(void **state)
{
    const struct wlt_operation o = {.op = WLT_ISSUE, .from = str("f"), .to = str("t")};
    const struct wlt_operation m = {.op = WLT_CAPTURE, .from = str("f"), .to = str("t")};

    (void)state;
    for (unsigned op = 0; op < WLT_OP_COUNT; op++) {
        assert_int_equal(wlt_op_parse(str(wlt_op_info((enum wlt_op)op)->name)), op);
    }
    assert_int_equal(wlt_op_parse(str("batch")), WLT_OP_COUNT);
    assert_int_equal(wlt_op_parse(str("Issue")), WLT_OP_COUNT);
    assert_int_equal(wlt_op_parse(str("")), WLT_OP_COUNT);
    assert_true(ron_str_is(wlt_operation_subject(&o), "t"));
    assert_true(ron_str_is(wlt_operation_subject(&m), "f"));
}

static void test_wlt_call__whole_bodies__every_member_arrives(void **state)
{
    const struct wlt_operation *o;

    (void)state;
    good(WLT_CAPTURE,
         "{\"from\":\"t:demo/u:alice/w\",\"to\":\"shop_1\",\"asset\":\"usd.c-1\","
         "\"amount_minor\":\"340282366920938463463374607431768211455\","
         "\"nonce\":4611686018427387903,\"memo\":\"Gr\\u00fc\\u00dfe \\\"x\\\"\","
         "\"hold\":\"tx_7277a17837fe26d0a69d1ba2d9db9c5d\",\"idempotency_key\":\"A.z:0_-\"}",
         "");
    o = &call.ops[0];
    assert_int_equal(call.count, 1);
    assert_false(call.batch);
    assert_false(call.dry_run);
    assert_true(ron_str_is(call.key, "A.z:0_-"));
    assert_int_equal(o->op, WLT_CAPTURE);
    assert_true(ron_str_is(o->from, "t:demo/u:alice/w"));
    assert_true(ron_str_is(o->to, "shop_1"));
    assert_true(ron_str_is(o->asset, "usd.c-1"));
    support_assert_u128_equal(o->amount.v, RON_U128_MAX);
    assert_int_equal(o->nonce, WLT_NONCE_MAX);
    assert_true(ron_str_is(o->memo, "Gr\xc3\xbc\xc3\x9f"
                                    "e \"x\""));
    assert_true(ron_str_is(o->hold, "tx_7277a17837fe26d0a69d1ba2d9db9c5d"));
    assert_int_equal(o->expires_ms, 0);
    good(WLT_HOLD, "{\"from\":\"a\",\"amount_minor\":\"1\",\"expires_at\":9007199254740991}", "k");
    assert_int_equal(call.ops[0].expires_ms, WLT_TIME_MAX_MS);
    assert_true(ron_str_is(call.ops[0].asset, "roc"));
    assert_int_equal(call.ops[0].nonce, 0);
    assert_int_equal(call.ops[0].to.len, 0);
    good(WLT_ISSUE, "{\"to\":\"a\",\"amount_minor\":\"1\"}", "k");
    good(WLT_BURN, "{\"from\":\"a\",\"amount_minor\":\"1\"}", "k");
    good(WLT_RELEASE, "{\"from\":\"a\",\"amount_minor\":\"1\",\"hold\":\"h\"}", "k");
}

static void test_wlt_call__members_that_do_not_belong__refused_by_name(void **state)
{
    /* Which of from, to, hold, nonce, expires_at: '!' required, '?' optional, '-' not taken. */
    static const char *const rules_of[WLT_OP_COUNT] = {
        [WLT_ISSUE] = "-!---", [WLT_TRANSFER] = "!!-?-", [WLT_BURN] = "!--?-",
        [WLT_HOLD] = "!--??",  [WLT_CAPTURE] = "!!!?-",  [WLT_RELEASE] = "!-!?-",
    };
    static const struct {
        const char *name;
        const char *value;
    } members[] = {
        {"from", "\"a\""}, {"to", "\"b\""}, {"hold", "\"h\""}, {"nonce", "1"}, {"expires_at", "1"}};

    (void)state;
    for (unsigned op = 0; op < WLT_OP_COUNT; op++) {
        /* Every subset of the five members. */
        for (unsigned set = 0; set < 32; set++) {
            const char *at_fault = NULL;
            char body[256];
            size_t len = (size_t)snprintf(body, sizeof body, "{\"amount_minor\":\"1\"");

            for (unsigned m = 0; m < 5; m++) {
                char rule = rules_of[op][m];
                bool there = (set >> m & 1) != 0;

                if (there) {
                    len += (size_t)snprintf(body + len, sizeof body - len, ",\"%s\":%s",
                                            members[m].name, members[m].value);
                }
                if (at_fault == NULL && ((rule == '!' && !there) || (rule == '-' && there))) {
                    at_fault = members[m].name;
                }
            }
            (void)snprintf(body + len, sizeof body - len, "}");
            if (at_fault == NULL) {
                good((enum wlt_op)op, body, "k");
            } else {
                bad_request((enum wlt_op)op, body, at_fault);
            }
        }
    }
}

static void test_wlt_call__wrong_values__refused_by_name(void **state)
{
    (void)state;
    bad_request(WLT_TRANSFER, "{\"from\":\"a\",\"to\":\"b\"}", "amount_minor");
    bad_request(WLT_TRANSFER, "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":null}",
                "amount_minor");
    bad_request(WLT_TRANSFER, "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":5}", "amount_minor");
    bad_request(WLT_TRANSFER, "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"0\"}",
                "amount_minor");
    bad_request(WLT_TRANSFER, "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"05\"}",
                "amount_minor");
    bad_request(WLT_TRANSFER, "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"+5\"}",
                "amount_minor");
    bad_request(WLT_TRANSFER, "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"-5\"}",
                "amount_minor");
    bad_request(WLT_TRANSFER, "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"1.0\"}",
                "amount_minor");
    bad_request(WLT_TRANSFER,
                "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":"
                "\"340282366920938463463374607431768211456\"}",
                "amount_minor");
    bad_request(WLT_TRANSFER, "{\"from\":\"\",\"to\":\"b\",\"amount_minor\":\"5\"}", "from");
    bad_request(WLT_TRANSFER, "{\"from\":\"a b\",\"to\":\"b\",\"amount_minor\":\"5\"}", "from");
    bad_request(WLT_TRANSFER, "{\"from\":7,\"to\":\"b\",\"amount_minor\":\"5\"}", "from");
    bad_request(WLT_TRANSFER, "{\"from\":\"a\",\"to\":\"\",\"amount_minor\":\"5\"}", "to");
    bad_request(WLT_TRANSFER, "{\"from\":\"a\",\"to\":\"b.c\",\"amount_minor\":\"5\"}", "to");
    bad_request(WLT_TRANSFER, "{\"from\":\"a\",\"to\":\"a\",\"amount_minor\":\"5\"}", "to");
    bad_request(WLT_CAPTURE, "{\"from\":\"a\",\"to\":\"a\",\"hold\":\"h\",\"amount_minor\":\"5\"}",
                "to");
    bad_request(WLT_TRANSFER, T ",\"asset\":\"\"}", "asset");
    bad_request(WLT_TRANSFER, T ",\"asset\":\"ROC\"}", "asset");
    bad_request(WLT_TRANSFER, T ",\"asset\":\"1roc\"}", "asset");
    bad_request(WLT_TRANSFER, T ",\"nonce\":0}", "nonce");
    bad_request(WLT_TRANSFER, T ",\"nonce\":-1}", "nonce");
    bad_request(WLT_TRANSFER, T ",\"nonce\":1.5}", "nonce");
    bad_request(WLT_TRANSFER, T ",\"nonce\":\"1\"}", "nonce");
    bad_request(WLT_TRANSFER, T ",\"nonce\":4611686018427387904}", "nonce");
    bad_request(WLT_TRANSFER, T ",\"memo\":\"a\\nb\"}", "memo");
    bad_request(WLT_TRANSFER, T ",\"memo\":\"a\x7f\"}", "memo");
    bad_request(WLT_TRANSFER, T ",\"memo\":\"\\u0000\"}", "memo");
    bad_request(WLT_TRANSFER, T ",\"memo\":\"\xff\"}", "memo");
    bad_request(WLT_HOLD, "{\"from\":\"a\",\"amount_minor\":\"5\",\"expires_at\":0}", "expires_at");
    bad_request(WLT_HOLD, "{\"from\":\"a\",\"amount_minor\":\"5\",\"expires_at\":9007199254740992}",
                "expires_at");
    bad_request(WLT_RELEASE, "{\"from\":\"a\",\"amount_minor\":\"5\",\"hold\":\"\"}", "hold");
    bad_request(WLT_RELEASE, "{\"from\":\"a\",\"amount_minor\":\"5\",\"hold\":\"\\u00fc\"}",
                "hold");
}

static void test_wlt_call__not_a_request__refused(void **state)
{
    static const char *const claims[] = {"settlement_status",
                                         "finality",
                                         "checkpoint",
                                         "state_root",
                                         "receipt_root",
                                         "validator_signature",
                                         "anchor",
                                         "bridge_txid",
                                         "amount",
                                         "op",
                                         "kid",
                                         "v"};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(claims); i++) {
        char body[256];

        (void)snprintf(body, sizeof body, T ",\"%s\":\"x\"}", claims[i]);
        bad_request(WLT_TRANSFER, body, claims[i]);
    }
    bad_request(WLT_TRANSFER, T ",\"from\":\"c\"}", "from");
    bad_request(WLT_TRANSFER, T ",\"memo\":null,\"memo\":\"m\"}", "memo");
    bad_request(WLT_TRANSFER, "", "body");
    bad_request(WLT_TRANSFER, "[]", "body");
    bad_request(WLT_TRANSFER, "null", "body");
    bad_request(WLT_TRANSFER, T, "body");
    bad_request(WLT_TRANSFER, T "}}", "body");
    bad_request(WLT_TRANSFER, T ",}", "body");
}

static void test_wlt_call__long_texts__one_byte_too_many_is_refused(void **state)
{
    static const struct {
        const char *name;
        const char *others;
        enum wlt_op op;
        int max;
    } members[] = {
        {"from", "\"to\":\"b\"", WLT_TRANSFER, WLT_ACCOUNT_MAX},
        {"to", "\"from\":\"b\"", WLT_TRANSFER, WLT_ACCOUNT_MAX},
        {"asset", "\"from\":\"b\"", WLT_BURN, WLT_ASSET_MAX},
        {"memo", "\"from\":\"b\"", WLT_BURN, WLT_MEMO_MAX},
        {"hold", "\"from\":\"b\"", WLT_RELEASE, WLT_HOLD_MAX},
        {"idempotency_key", "\"from\":\"b\"", WLT_BURN, WLT_KEY_MAX},
    };
    char filler[512];

    (void)state;
    memset(filler, 'a', sizeof filler);
    for (size_t i = 0; i < RON_ARRAY_LEN(members); i++) {
        const char *header = i == RON_ARRAY_LEN(members) - 1 ? "" : "k";
        char body[1024];

        for (int extra = 0; extra < 2; extra++) {
            (void)snprintf(body, sizeof body, "{\"amount_minor\":\"1\",%s,\"%s\":\"%.*s\"}",
                           members[i].others, members[i].name, members[i].max + extra, filler);
            if (extra == 0) {
                good(members[i].op, body, header);
            } else {
                bad(members[i].op, body, header, WLT_REASON_BAD_REQUEST, members[i].name);
            }
        }
    }
}

/* The sets spelled out again, as docs/formats/wallet.md has them. */
static void test_wlt_grammar__every_byte__in_its_sets_only(void **state)
{
    static const char account[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  ":/_-";
    static const char asset[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    static const char key[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";

    (void)state;
    for (int c = 0; c < 256; c++) {
        char text[3] = {'x', (char)c, 'x'};
        struct ron_str s = {text, sizeof text};

        assert_int_equal(wlt_account_valid(s), c != 0 && strchr(account, c) != NULL);
        assert_int_equal(wlt_asset_valid(s), c != 0 && strchr(asset, c) != NULL);
        assert_int_equal(wlt_key_valid(s), c != 0 && strchr(key, c) != NULL);
    }
    assert_false(wlt_account_valid(str("")));
    assert_false(wlt_asset_valid(str("")));
    assert_false(wlt_key_valid(str("")));
}

/* ---- rules of the operator ------------------------------------------------------------------- */

static void test_wlt_call__ceiling_and_assets__limits_and_policy(void **state)
{
    const struct ron_str assets[] = {str("usd"), str("ro")};
    const struct wlt_call_rules before = rules;

    (void)state;
    rules = (struct wlt_call_rules){.amount_max = ron_money_of(5)};
    good(WLT_TRANSFER, T "}", "k");
    bad(WLT_TRANSFER, "{\"from\":\"a\",\"to\":\"b\",\"amount_minor\":\"6\"}", "k",
        WLT_REASON_LIMITS, "amount_minor");
    rules.assets = assets;
    rules.asset_count = 2;
    bad(WLT_TRANSFER, T "}", "k", WLT_REASON_POLICY, "asset");
    good(WLT_TRANSFER, T ",\"asset\":\"usd\"}", "k");
    good(WLT_TRANSFER, T ",\"asset\":\"ro\"}", "k");
    /* In a batch each operation counts for itself. */
    bad(WLT_OP_COUNT,
        "{\"operations\":[{\"op\":\"burn\",\"from\":\"a\",\"amount_minor\":\"5\",\"asset\":\"usd\"}"
        ","
        "{\"op\":\"burn\",\"from\":\"a\",\"amount_minor\":\"6\",\"asset\":\"usd\"}]}",
        "k", WLT_REASON_LIMITS, "operations[1].amount_minor");
    rules = before;
}

/* ---- the key --------------------------------------------------------------------------------- */

static void test_wlt_call__key__header_bare_or_quoted_or_body(void **state)
{
    (void)state;
    good(WLT_TRANSFER, T "}", "abc");
    assert_true(ron_str_is(call.key, "abc"));
    good(WLT_TRANSFER, T "}", "\"abc\"");
    assert_true(ron_str_is(call.key, "abc"));
    good(WLT_TRANSFER, T ",\"idempotency_key\":\"abc\"}", "");
    assert_true(ron_str_is(call.key, "abc"));
    good(WLT_TRANSFER, T ",\"idempotency_key\":\"abc\"}", "abc");
    good(WLT_TRANSFER, T ",\"idempotency_key\":\"abc\"}", "\"abc\"");
    good(WLT_TRANSFER, T ",\"idempotency_key\":null}", "abc");
}

static void test_wlt_call__key_missing_malformed_or_two__refused(void **state)
{
    static const char *const malformed[] = {
        "a b",      "\"abc",
        "abc\"",    "\"",
        "\"\"",     "\"\"a\"\"",
        "a,b",      "\"a\\\"b\"",
        "\xc3\xbc", "01234567890123456789012345678901234567890123456789012345678901234"};

    (void)state;
    bad(WLT_TRANSFER, T "}", "", WLT_REASON_BAD_REQUEST, "Idempotency-Key");
    bad(WLT_TRANSFER, T ",\"idempotency_key\":null}", "", WLT_REASON_BAD_REQUEST,
        "Idempotency-Key");
    for (size_t i = 0; i < RON_ARRAY_LEN(malformed); i++) {
        bad(WLT_TRANSFER, T "}", malformed[i], WLT_REASON_BAD_REQUEST, "Idempotency-Key");
        /* A good key in the body does not mend it. */
        bad(WLT_TRANSFER, T ",\"idempotency_key\":\"k\"}", malformed[i], WLT_REASON_BAD_REQUEST,
            "Idempotency-Key");
    }
    bad(WLT_TRANSFER, T ",\"idempotency_key\":\"\"}", "", WLT_REASON_BAD_REQUEST,
        "idempotency_key");
    bad(WLT_TRANSFER, T ",\"idempotency_key\":\"\\\"k\\\"\"}", "", WLT_REASON_BAD_REQUEST,
        "idempotency_key");
    bad(WLT_TRANSFER, T ",\"idempotency_key\":\"abd\"}", "abc", WLT_REASON_BAD_REQUEST,
        "idempotency_key");
    bad(WLT_TRANSFER, T ",\"idempotency_key\":\"ab\"}", "abc", WLT_REASON_BAD_REQUEST,
        "idempotency_key");
    bad(WLT_OP_COUNT, "{\"operations\":[{\"op\":\"issue\",\"to\":\"a\",\"amount_minor\":\"1\"}]}",
        "", WLT_REASON_BAD_REQUEST, "Idempotency-Key");
}

static void test_wlt_call__key_of_the_header__outlives_the_header(void **state)
{
    char body[] = T "}";
    char header[] = "abc";

    (void)state;
    ron_arena_init_over(&call_arena, call_memory, sizeof call_memory);
    assert_true(wlt_call_parse(body, strlen(body), WLT_TRANSFER, str(header), &rules, &call_arena,
                               &call, &fault));
    memset(header, 'z', 3);
    assert_true(ron_str_is(call.key, "abc"));
}

/* ---- batches --------------------------------------------------------------------------------- */

/* `count` issues with a memo of `filler` bytes each. */
static const char *issues(unsigned count, int filler)
{
    static char text[3 << 20];
    static char memo[WLT_MEMO_MAX];
    size_t len = (size_t)snprintf(text, sizeof text, "{\"operations\":[");

    memset(memo, 'm', sizeof memo);
    for (unsigned i = 0; i < count; i++) {
        len += (size_t)snprintf(
            text + len, sizeof text - len,
            "%s{\"op\":\"issue\",\"to\":\"u:%u\",\"amount_minor\":\"%u\",\"memo\":\"%.*s\"}",
            i > 0 ? "," : "", i, i + 1, filler, memo);
    }
    (void)snprintf(text + len, sizeof text - len, "]}");
    return text;
}

static void test_wlt_call__batches_of_1_to_1024__in_order(void **state)
{
    (void)state;
    good(WLT_OP_COUNT, issues(1, 0), "k");
    assert_true(call.batch);
    assert_int_equal(call.count, 1);
    good(WLT_OP_COUNT, issues(WLT_BATCH_MAX, 3), "k");
    assert_int_equal(call.count, WLT_BATCH_MAX);
    for (unsigned i = 0; i < WLT_BATCH_MAX; i++) {
        char to[16];

        (void)snprintf(to, sizeof to, "u:%u", i);
        assert_int_equal(call.ops[i].op, WLT_ISSUE);
        assert_true(ron_str_is(call.ops[i].to, to));
        support_assert_u128_equal(call.ops[i].amount.v, i + 1);
        assert_true(ron_str_is(call.ops[i].memo, "mmm"));
    }
    bad_request(WLT_OP_COUNT, issues(WLT_BATCH_MAX + 1, 0), "operations");
    bad_request(WLT_OP_COUNT, issues(0, 0), "operations");
    bad_request(WLT_OP_COUNT, "{}", "operations");
    bad_request(WLT_OP_COUNT, "{\"operations\":null}", "operations");
    bad_request(WLT_OP_COUNT, "{\"operations\":{}}", "operations");
}

static void test_wlt_call__operation_of_a_batch_at_fault__named_with_its_index(void **state)
{
    static const struct {
        const char *operation;
        const char *member;
    } cases[] = {
        {"{\"op\":\"mint\",\"to\":\"a\",\"amount_minor\":\"1\"}", "op"},
        {"{\"to\":\"a\",\"amount_minor\":\"1\"}", "op"},
        {"{\"op\":null,\"to\":\"a\",\"amount_minor\":\"1\"}", "op"},
        {"{\"op\":\"batch\",\"to\":\"a\",\"amount_minor\":\"1\"}", "op"},
        {"{\"op\":\"issue\",\"to\":\"a\",\"amount_minor\":\"1\",\"idempotency_key\":\"k\"}",
         "idempotency_key"},
        {"{\"op\":\"issue\",\"to\":\"a\",\"amount_minor\":\"1\",\"finality\":true}", "finality"},
        {"{\"op\":\"issue\",\"to\":\"a\"}", "amount_minor"},
        {"{\"op\":\"issue\",\"to\":\"a\",\"amount_minor\":\"0\"}", "amount_minor"},
        {"{\"op\":\"burn\",\"to\":\"a\",\"amount_minor\":\"1\"}", "from"},
        {"{\"op\":\"hold\",\"from\":\"a\",\"amount_minor\":\"1\",\"expires_at\":0}", "expires_at"},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        char body[512];
        char path[64];

        (void)snprintf(body, sizeof body,
                       "{\"operations\":[{\"op\":\"issue\",\"to\":\"a\",\"amount_minor\":\"1\"},%s,"
                       "{\"op\":\"nonsense\",\"amount_minor\":\"1\"}]}",
                       cases[i].operation);
        (void)snprintf(path, sizeof path, "operations[1].%s", cases[i].member);
        bad_request(WLT_OP_COUNT, body, path);
    }
    bad_request(WLT_OP_COUNT, "{\"operations\":[],\"dry_run\":true}", "dry_run");
    bad_request(WLT_OP_COUNT, "{\"operations\":[7]}", "operations[0]");
}

/* Captures with the longest texts, 1163 bytes each when encoded: 894 of them fit a frame. */
static const char *captures(unsigned count)
{
    static char text[3 << 20];
    static char name[WLT_ACCOUNT_MAX];
    size_t len = (size_t)snprintf(text, sizeof text, "{\"operations\":[");

    memset(name, 'n', sizeof name);
    for (unsigned i = 0; i < count; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "%s{\"op\":\"capture\",\"from\":\"a%.255s\",\"to\":\"b%.255s\","
                                "\"asset\":\"%.31s\",\"amount_minor\":\"1\",\"memo\":\"%.256s\","
                                "\"hold\":\"%.128s\"}",
                                i > 0 ? "," : "", name, name, name, name, name);
    }
    (void)snprintf(text + len, sizeof text - len, "]}");
    return text;
}

static void test_wlt_call__batch_too_long_for_a_frame__refused(void **state)
{
    (void)state;
    good(WLT_OP_COUNT, issues(WLT_BATCH_MAX, WLT_MEMO_MAX), "k");
    good(WLT_OP_COUNT, captures(894), "k");
    assert_true(wlt_call_encoded_max(&call) <= WLT_ENCODED_MAX);
    bad_request(WLT_OP_COUNT, captures(895), "operations");
}

static void test_wlt_call__arena_too_small__internal_not_a_crash(void **state)
{
    char text[4096];
    char memory[64];
    struct ron_arena small;

    (void)state;
    for (int batch = 0; batch < 2; batch++) {
        (void)snprintf(text, sizeof text, "%s", batch == 1 ? issues(3, 0) : T "}");
        ron_arena_init_over(&small, memory, sizeof memory);
        assert_false(wlt_call_parse(text, strlen(text), batch == 1 ? WLT_OP_COUNT : WLT_TRANSFER,
                                    str("k"), &rules, &small, &call, &fault));
        assert_int_equal(fault.reason, WLT_REASON_INTERNAL);
    }
    /* No room for the copy of the key. */
    (void)snprintf(text, sizeof text, "%s", T "}");
    ron_arena_init_over(&small, memory, 1);
    assert_false(
        wlt_call_parse(text, strlen(text), WLT_TRANSFER, str("k"), &rules, &small, &call, &fault));
    assert_int_equal(fault.reason, WLT_REASON_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wlt_op__table__reads_back_and_names_the_subject),
        cmocka_unit_test(test_wlt_call__whole_bodies__every_member_arrives),
        cmocka_unit_test(test_wlt_call__members_that_do_not_belong__refused_by_name),
        cmocka_unit_test(test_wlt_call__wrong_values__refused_by_name),
        cmocka_unit_test(test_wlt_call__not_a_request__refused),
        cmocka_unit_test(test_wlt_call__long_texts__one_byte_too_many_is_refused),
        cmocka_unit_test(test_wlt_grammar__every_byte__in_its_sets_only),
        cmocka_unit_test(test_wlt_call__ceiling_and_assets__limits_and_policy),
        cmocka_unit_test(test_wlt_call__key__header_bare_or_quoted_or_body),
        cmocka_unit_test(test_wlt_call__key_missing_malformed_or_two__refused),
        cmocka_unit_test(test_wlt_call__key_of_the_header__outlives_the_header),
        cmocka_unit_test(test_wlt_call__batches_of_1_to_1024__in_order),
        cmocka_unit_test(test_wlt_call__operation_of_a_batch_at_fault__named_with_its_index),
        cmocka_unit_test(test_wlt_call__batch_too_long_for_a_frame__refused),
        cmocka_unit_test(test_wlt_call__arena_too_small__internal_not_a_crash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
