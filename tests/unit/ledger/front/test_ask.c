/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a target is read in one way, whichever front it came through.
 * Method: a table of targets with the question each one is, and one of those that are none with the
 * status they are answered. Names of the ledger's client go in and come out again. */
#include "support/support.h"

#include "client/client.h"
#include "ledger/front/ask.h"

static struct led_query q;
static struct ron_http_error error;

static bool parse(const char *target)
{
    struct ron_str path;
    struct ron_str query;

    if (!ron_http_split_target((struct ron_str){target, strlen(target)}, &path, &query)) {
        error = (struct ron_http_error){.status = 400, .reason = "target"};
        return false;
    }
    return led_ask_parse(path, query, &q, &error);
}

static void test_led_ask__targets__are_their_questions(void **state)
{
    static const struct {
        const char *target;
        enum led_ask ask;
        const char *account;
        const char *text;
        uint64_t a, b;
        bool is_public;
    } rows[] = {
        {"/accounts/t%3Ademo%2Fw/balances", LED_ASK_BALANCES, "t:demo/w", "", 0, 0, false},
        {"/accounts/t:demo/w/balances?at_seq=5", LED_ASK_BALANCES, "t:demo/w", "", 5, 0, false},
        {"/accounts/a/entries?before=9&limit=3", LED_ASK_HISTORY, "a", "", 9, 0, false},
        {"/accounts/a/holds", LED_ASK_HOLDS, "a", "", 0, 0, false},
        {"/accounts/a/debits", LED_ASK_DEBITS, "a", "roc", 0, 0, false},
        {"/accounts/a/debits?asset=usd.x&since=7&before=8", LED_ASK_DEBITS, "a", "usd.x", 8, 7,
         false},
        {"/accounts/a/debits/balances", LED_ASK_BALANCES, "a/debits", "", 0, 0, false},
        {"/entries/12", LED_ASK_ENTRY, "", "", 12, 0, false},
        {"/entries/by-id/a%2Fb", LED_ASK_BY_ID, "", "a/b", 0, 0, false},
        {"/entries/by-id/a/b", LED_ASK_BY_ID, "", "a/b", 0, 0, false},
        {"/outcome/order%207", LED_ASK_OUTCOME, "", "order 7", 0, 0, false},
        {"/receipt/3", LED_ASK_RECEIPT, "", "", 3, 0, false},
        {"/supply", LED_ASK_SUPPLY, "", "", 0, 0, false},
        {"/supply?x=1", LED_ASK_SUPPLY, "", "", 0, 0, false},
        {"/proof/inclusion?seq=2&size=9", LED_ASK_INCLUSION, "", "", 2, 9, true},
        {"/proof/consistency?from=2", LED_ASK_CONSISTENCY, "", "", 2, 0, true},
        {"/tile/0/000", LED_ASK_TILE, "", "tile/0/000", 0, 0, true},
        {"/tile/entries/000", LED_ASK_TILE, "", "tile/entries/000", 0, 0, false},
        {"/head", LED_ASK_HEAD, "", "", 0, 0, true},
        {"/checkpoint?witnesses=1", LED_ASK_CHECKPOINT, "", "", 0, 0, true},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        if (!parse(rows[i].target)) {
            fail_msg("%s: %d %s", rows[i].target, error.status, error.message);
        }
        assert_int_equal(q.ask, rows[i].ask);
        assert_true(ron_str_is((struct ron_str){q.account, q.account_len}, rows[i].account));
        assert_true(ron_str_is((struct ron_str){q.text, q.text_len}, rows[i].text));
        assert_int_equal(q.a, rows[i].a);
        assert_int_equal(q.b, rows[i].b);
        assert_int_equal(led_ask_is_public(&q), rows[i].is_public);
    }
}

static void test_led_ask__no_target__typed_error(void **state)
{
    static const struct {
        const char *target;
        int status;
        const char *reason;
    } rows[] = {
        {"", 400, "target"},
        {"head", 400, "target"},
        {"/he ad", 400, "target"},
        {"/outcome/a%2", 400, "target"},
        {"/", 404, "not_found"},
        {"/nothing", 404, "not_found"},
        {"/headx", 404, "not_found"},
        {"/head/", 404, "not_found"},
        {"/roots", 404, "not_found"},
        {"/roots/stream", 404, "not_found"},
        {"/export", 404, "not_found"},
        {"/admin/status", 404, "not_found"},
        {"/accounts/a", 404, "not_found"},
        {"/accounts/balances", 404, "not_found"},
        {"/accounts//balances", 404, "not_found"},
        {"/accounts/a%20b/balances", 400, "invalid"},
        {"/accounts/a%00/balances", 400, "invalid"},
        {"/accounts/a/balances?at_seq=x", 400, "invalid"},
        {"/accounts/a/balances?at_seq=1&at_seq=2", 400, "invalid"},
        {"/accounts/a/entries?limit=0", 400, "invalid"},
        {"/accounts/a/entries?limit=1001", 400, "invalid"},
        {"/accounts/a/debits?since=-1", 400, "invalid"},
        {"/accounts/a/debits?before=99999999999999999999", 400, "invalid"},
        {"/accounts/a/debits?asset=ROC", 400, "invalid"},
        {"/accounts/a/debits?asset=", 400, "invalid"},
        {"/accounts/a/debits?asset=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 400, "invalid"},
        {"/entries/5/x", 404, "not_found"},
        {"/proof/inclusion?seq=", 400, "invalid"},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        if (parse(rows[i].target)) {
            fail_msg("%s is a target", rows[i].target);
        }
        if (error.status != rows[i].status || strcmp(error.reason, rows[i].reason) != 0) {
            fail_msg("%s: %d %s", rows[i].target, error.status, error.reason);
        }
    }
    assert_false(parse("/entries/x"));
    assert_int_equal(error.status, ron_http_error_of(RON_HTTP_PARAM).status);
    assert_false(parse("/outcome/"));
    assert_int_equal(error.status, ron_http_error_of(RON_HTTP_PARAM).status);
}

static void test_led_ask__long_names__refused_or_whole(void **state)
{
    char target[2048];

    (void)state;
    for (int len = LED_ACCOUNT_MAX; len <= LED_ACCOUNT_MAX + 1; len++) {
        (void)snprintf(target, sizeof target, "/accounts/%0*d/balances", len, 0);
        assert_int_equal(parse(target), len == LED_ACCOUNT_MAX);
    }
    (void)snprintf(target, sizeof target, "/tile/%0*d", LED_ASK_TEXT_MAX, 0);
    assert_false(parse(target));
    assert_int_equal(error.status, 404);
}

static void test_led_ask__targets_of_the_client__come_back(void **state)
{
    static const char account[] = "t:demo/u:a-b_c";
    static const char name[] = "order #7/%&?+=.";
    struct ron_str text = {name, sizeof name - 1};
    struct ron_buf out;

    (void)state;
    ron_buf_init(&out, LC_TARGET_MAX);
    lc_target_account(&out, (struct ron_str){account, sizeof account - 1});
    assert_true(parse(ron_buf_text(&out)));
    assert_int_equal(q.ask, LED_ASK_BALANCES);
    assert_true(ron_str_is((struct ron_str){q.account, q.account_len}, account));
    ron_buf_clear(&out);
    lc_target_debits(&out, (struct ron_str){account, sizeof account - 1},
                     (struct ron_str){"usd.x", 5}, 12, 34);
    assert_true(parse(ron_buf_text(&out)));
    assert_int_equal(q.ask, LED_ASK_DEBITS);
    assert_true(ron_str_is((struct ron_str){q.account, q.account_len}, account));
    assert_true(ron_str_is((struct ron_str){q.text, q.text_len}, "usd.x"));
    assert_int_equal(q.a, 34);
    assert_int_equal(q.b, 12);
    ron_buf_clear(&out);
    lc_target_outcome(&out, text);
    assert_true(parse(ron_buf_text(&out)));
    assert_int_equal(q.ask, LED_ASK_OUTCOME);
    assert_true(ron_str_is((struct ron_str){q.text, q.text_len}, name));
    ron_buf_clear(&out);
    lc_target_by_id(&out, text);
    assert_true(parse(ron_buf_text(&out)));
    assert_int_equal(q.ask, LED_ASK_BY_ID);
    assert_true(ron_str_is((struct ron_str){q.text, q.text_len}, name));
    ron_buf_clear(&out);
    lc_target_receipt(&out, 77);
    assert_true(parse(ron_buf_text(&out)));
    assert_int_equal(q.ask, LED_ASK_RECEIPT);
    assert_int_equal(q.a, 77);
    ron_buf_clear(&out);
    lc_target_head(&out);
    assert_true(parse(ron_buf_text(&out)));
    assert_int_equal(q.ask, LED_ASK_HEAD);
    ron_buf_done(&out);
}

static void test_led_ask__head__is_read_by_the_client(void **state)
{
    struct ron_tree_hash root = {.bytes = {0xab}};
    char room[160];
    struct lc_head head;
    struct ron_json_writer j;
    struct ron_buf out;

    (void)state;
    ron_buf_init_over(&out, room, sizeof room);
    ron_json_begin(&j, &out);
    ron_json_open(&j, NULL, '{');
    led_ask_write_head(&j, UINT64_MAX, &root, UINT64_MAX - 1);
    ron_json_close(&j, '}');
    assert_int_equal(ron_buf_error(&out), RON_OK);
    assert_int_equal(lc_head_read(room, ron_buf_len(&out), &head), RON_OK);
    assert_true(head.seq == UINT64_MAX && head.commit_ms == UINT64_MAX - 1);
    assert_true(head.leads && head.epoch == 0); /* whose log is its own */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_ask__targets__are_their_questions),
        cmocka_unit_test(test_led_ask__no_target__typed_error),
        cmocka_unit_test(test_led_ask__long_names__refused_or_whole),
        cmocka_unit_test(test_led_ask__targets_of_the_client__come_back),
        cmocka_unit_test(test_led_ask__head__is_read_by_the_client),
    };

    return cmocka_run_group_tests_name("ledger.led_ask", tests, NULL, NULL);
}
