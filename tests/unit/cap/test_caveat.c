/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: each kind of caveat takes its grammar alone, and holds exactly when its words say so.
 * Method: tables of good and bad texts; one request changed in one respect at a time. */
#include "cap/cap_testing.h"
#include "unit/cap/fixture.h"

static void expect_parse(const char *const *texts, size_t count, enum ron_cap_why why)
{
    for (size_t i = 0; i < count; i++) {
        struct ron_cap_caveat c;
        enum ron_cap_why got = ron_cap_caveat_parse(texts[i], strlen(texts[i]), &c);

        if (got != why) {
            fail_msg("'%s': %s, not %s", texts[i], ron_cap_why_label(got), ron_cap_why_label(why));
        }
    }
}

static void test_caveat__well_formed__is_taken(void **state)
{
    static const char *const good[] = {
        "aud = wallet",
        "aud = svc-edge_2",
        "scope = wallet",
        "scope = wallet.transfer,wallet.issue",
        "scope = ledger.intent.write",
        "account = t:demo/u:alice/w",
        "account = acct_123",
        "account = a*",
        "account = a@b.c",
        "asset = roc",
        "asset = USD.v2",
        "max = 0",
        "max = 340282366920938463463374607431768211455",
        "exp = 0",
        "exp = 1800000000",
        "tenant = acme",
        "amnesia = true",
    };

    (void)state;
    expect_parse(good, RON_ARRAY_LEN(good), RON_CAP_OK);
}

static void test_caveat__badly_formed__denies(void **state)
{
    static const char *const bad[] = {
        "aud",
        "aud ",
        "aud =",
        "aud = ",
        "aud  = wallet",
        "aud =  wallet",
        "aud =wallet",
        "aud = wallet ",
        "aud = Wallet",
        "aud = wallet.x",
        "aud = ledger|wallet",
        "aud = 2edge",
        "scope = ",
        "scope = wallet,",
        "scope = ,wallet",
        "scope = wallet,,ledger",
        "scope = wallet, ledger",
        "scope = wallet,wallet",
        "scope = wallet..x",
        "scope = .wallet",
        "scope = wallet.",
        "scope = wallet.*",
        "scope = *",
        "scope = a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q",
        "account = *",
        "account = a*b",
        "account = a**",
        "account = a b",
        "account = a\n",
        "asset = -roc",
        "asset = r oc",
        "max = ",
        "max = 01",
        "max = -1",
        "max = +1",
        "max = 1.0",
        "max = 340282366920938463463374607431768211456",
        "exp = -1",
        "exp = 01",
        "exp = 99999999999999999999",
        "exp = 1e9",
        "tenant = _x",
        "amnesia = false",
        "amnesia = True",
        "amnesia = 1",
    };
    static const char *const unknown[] = {
        "",       " ",   "foo = bar",   "AUD = wallet", "audience = wallet",
        "exp= 1", "= x", "time < 2020", "max= 3"};
    struct ron_cap_caveat c;

    (void)state;
    expect_parse(bad, RON_ARRAY_LEN(bad), RON_CAP_BAD_CAVEAT);
    expect_parse(unknown, RON_ARRAY_LEN(unknown), RON_CAP_UNKNOWN_CAVEAT);
    assert_int_equal(ron_cap_caveat_parse("aud = a\0b", 9, &c), RON_CAP_BAD_CAVEAT);
}

static void test_caveat__names_at_their_longest__are_taken_and_one_more_is_not(void **state)
{
    char text[RON_CAP_CAVEAT_MAX + 64];
    struct ron_cap_caveat c;

    (void)state;
    (void)snprintf(text, sizeof text, "aud = %0*d", RON_CAP_NAME_MAX, 0);
    memset(text + 6, 'a', RON_CAP_NAME_MAX);
    assert_int_equal(ron_cap_caveat_parse(text, 6 + RON_CAP_NAME_MAX, &c), RON_CAP_OK);
    text[6 + RON_CAP_NAME_MAX] = 'a';
    assert_int_equal(ron_cap_caveat_parse(text, 7 + RON_CAP_NAME_MAX, &c), RON_CAP_BAD_CAVEAT);
    memcpy(text, "account = ", 10);
    memset(text + 10, 'a', sizeof text - 10);
    assert_int_equal(ron_cap_caveat_parse(text, 10 + RON_CAP_ACCOUNT_MAX, &c), RON_CAP_OK);
    assert_int_equal(ron_cap_caveat_parse(text, 11 + RON_CAP_ACCOUNT_MAX, &c), RON_CAP_BAD_CAVEAT);
    assert_int_equal(ron_cap_caveat_parse(text, sizeof text, &c), RON_CAP_BAD_CAVEAT);
    text[10 + RON_CAP_ACCOUNT_MAX] = '*'; /* comes on top, as the grammar says */
    assert_int_equal(ron_cap_caveat_parse(text, 11 + RON_CAP_ACCOUNT_MAX, &c), RON_CAP_OK);
    text[11 + RON_CAP_ACCOUNT_MAX] = '*';
    assert_int_equal(ron_cap_caveat_parse(text, 12 + RON_CAP_ACCOUNT_MAX, &c), RON_CAP_BAD_CAVEAT);
    assert_int_equal(ron_cap_caveat_parse(NULL, 0, &c), RON_CAP_UNKNOWN_CAVEAT);
}

static enum ron_cap_why judge(const char *text, const struct ron_cap_request *q)
{
    struct ron_cap_caveat c;

    assert_int_equal(ron_cap_caveat_parse(text, strlen(text), &c), RON_CAP_OK);
    return ron_cap_caveat_holds(&c, q);
}

static void test_caveat__against_a_request__holds_or_names_its_reason(void **state)
{
    const struct ron_str accounts[] = {STR("t:demo/u:alice"), STR("t:demo/u:alice/w")};
    struct ron_cap_request q = {.audience = STR("wallet"),
                                .scope = STR("wallet.transfer"),
                                .accounts = accounts,
                                .account_count = 2,
                                .asset = STR("roc"),
                                .amount = ron_money_of(100),
                                .tenant = STR("acme"),
                                .now_ms = 1000 * 1000};
    const struct ron_cap_request bare = {.audience = STR("wallet")};

    (void)state;
    assert_int_equal(judge("aud = wallet", &q), RON_CAP_OK);
    assert_int_equal(judge("aud = wall", &q), RON_CAP_AUDIENCE);
    assert_int_equal(judge("aud = wallets", &q), RON_CAP_AUDIENCE);
    assert_int_equal(judge("scope = ledger,wallet.transfer", &q), RON_CAP_OK);
    assert_int_equal(judge("scope = wallet", &q), RON_CAP_OK);
    assert_int_equal(judge("scope = wallet.trans", &q), RON_CAP_SCOPE);
    assert_int_equal(judge("scope = wallet.transfer.x", &q), RON_CAP_SCOPE);
    assert_int_equal(judge("account = t:demo", &q), RON_CAP_OK);
    assert_int_equal(judge("account = t:demo/u:alice", &q), RON_CAP_OK);
    assert_int_equal(judge("account = t:demo/u:", &q), RON_CAP_OK);
    assert_int_equal(judge("account = t:demo/u:ali", &q), RON_CAP_ACCOUNT);
    assert_int_equal(judge("account = t:demo/u:ali*", &q), RON_CAP_OK);
    assert_int_equal(judge("account = t:demo/u:alice/w", &q), RON_CAP_ACCOUNT); /* not the first */
    assert_int_equal(judge("asset = roc", &q), RON_CAP_OK);
    assert_int_equal(judge("asset = ro", &q), RON_CAP_ASSET);
    assert_int_equal(judge("max = 100", &q), RON_CAP_OK);
    assert_int_equal(judge("max = 99", &q), RON_CAP_AMOUNT);
    assert_int_equal(judge("tenant = acme", &q), RON_CAP_OK);
    assert_int_equal(judge("tenant = acm", &q), RON_CAP_TENANT);
    assert_int_equal(judge("amnesia = true", &q), RON_CAP_AMNESIA);
    q.amnesia = true;
    assert_int_equal(judge("amnesia = true", &q), RON_CAP_OK);
    /* 1000 s: five seconds of grace, to the millisecond. */
    assert_int_equal(judge("exp = 996", &q), RON_CAP_OK);
    assert_int_equal(judge("exp = 995", &q), RON_CAP_EXPIRED);
    q.now_ms--;
    assert_int_equal(judge("exp = 995", &q), RON_CAP_OK);
    q.now_ms = UINT64_MAX;
    assert_int_equal(judge("exp = 9999999999999999999", &q), RON_CAP_OK);
    /* C3: what the request does not have cannot be covered; it moves nothing. */
    assert_int_equal(judge("scope = wallet", &bare), RON_CAP_SCOPE);
    assert_int_equal(judge("account = t:demo", &bare), RON_CAP_ACCOUNT);
    assert_int_equal(judge("asset = roc", &bare), RON_CAP_ASSET);
    assert_int_equal(judge("tenant = acme", &bare), RON_CAP_TENANT);
    assert_int_equal(judge("max = 0", &bare), RON_CAP_OK);
}

static void test_caveat__tables__have_a_text_for_every_row(void **state)
{
    (void)state;
    for (int i = 0; i < RON_CAP_WHY_COUNT; i++) {
        enum ron_cap_why why = (enum ron_cap_why)i;

        assert_true(strlen(ron_cap_why_label(why)) > 1);
        assert_true(strlen(ron_cap_why_doc(why)) > 10);
        assert_true(ron_cap_why_http(why) == (i == 0 ? 200 : 401) || ron_cap_why_http(why) == 403);
    }
    assert_string_equal(ron_cap_why_label((enum ron_cap_why)RON_CAP_WHY_COUNT), "?");
    assert_string_equal(ron_cap_kind_name(RON_CAP_KIND_MAX), "max");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_caveat__well_formed__is_taken),
        cmocka_unit_test(test_caveat__badly_formed__denies),
        cmocka_unit_test(test_caveat__names_at_their_longest__are_taken_and_one_more_is_not),
        cmocka_unit_test(test_caveat__against_a_request__holds_or_names_its_reason),
        cmocka_unit_test(test_caveat__tables__have_a_text_for_every_row),
    };

    return cmocka_run_group_tests_name("cap.caveat", tests, NULL, NULL);
}
