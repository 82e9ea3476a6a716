/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what is minted verifies, attenuation never widens, every refusal has its reason, and
 * neither listings nor messages carry a secret.
 * Method: examples, and random sets of caveats against the model of fixture.h. */
#include "cap/cap_priv.h"
#include "unit/cap/fixture.h"

#include <sodium.h>

static struct ron_cap_request plain_request(void)
{
    return (struct ron_cap_request){.audience = STR("wallet"),
                                    .scope = STR("wallet.read"),
                                    .now_ms = (uint64_t)CAP_NOW_S * 1000};
}

static void test_cap__minted_and_narrowed__verifies_and_tells_who(void **state)
{
    struct ron_cap_keys *keys = cap_keys();
    const char *const caveats[] = {"aud = wallet", "exp = 1800000100"};
    struct cap_text token = cap_minted(keys, caveats, 2);
    struct cap_text narrow = cap_narrowed(token.s, "scope = wallet.read");
    struct ron_cap_request q = plain_request();
    struct ron_cap_info info = {0};
    char log_id[RON_CAP_LOG_ID_SIZE];

    (void)state;
    assert_int_equal(ron_cap_verify(keys, STR(narrow.s), &q, &info), RON_CAP_OK);
    assert_string_equal(info.key_id, "memory");
    assert_int_equal(info.exp_s, 1800000100);
    assert_memory_equal(info.id, "ron1.memory.", 12);
    assert_int_equal(strlen(info.id), 12 + 26);
    ron_cap_log_id(narrow.s, strlen(narrow.s), log_id);
    assert_string_equal(info.log_id, log_id);
    q.scope = STR("wallet.transfer");
    assert_int_equal(ron_cap_verify(keys, STR(narrow.s), &q, NULL), RON_CAP_SCOPE);
    assert_int_equal(ron_cap_verify(keys, STR(token.s), &q, NULL), RON_CAP_OK);
    assert_int_equal(ron_cap_verify_signature(keys, STR(narrow.s)), RON_CAP_OK);
    ron_cap_keys_unref(keys);
}

static void test_cap__two_tokens_minted_alike__differ(void **state)
{
    struct ron_cap_keys *keys = cap_keys();
    struct cap_text a = cap_minted(keys, NULL, 0);
    struct cap_text b = cap_minted(keys, NULL, 0);

    (void)state;
    assert_string_not_equal(a.s, b.s);
    ron_cap_keys_unref(keys);
}

static void test_cap__other_keys_or_a_foreign_identifier__are_refused(void **state)
{
    struct ron_cap_keys *keys = cap_keys();
    struct ron_cap_keys *others = cap_keys(); /* the same id, another secret */
    struct cap_text token = cap_minted(keys, NULL, 0);
    struct ron_cap_request q = plain_request();
    static const char *const ids[] = {"we used our secret key", "ron1.",       "ron1.memory",
                                      "ron1.memory.",           "ron1..x",     "ron2.memory.x",
                                      "ron1.memory.x y",        "ron1.other.x"};

    (void)state;
    assert_int_equal(ron_cap_verify(others, STR(token.s), &q, NULL), RON_CAP_SIGNATURE);
    for (size_t i = 0; i < RON_ARRAY_LEN(ids); i++) {
        struct ron_cap_token t;
        struct cap_text text;
        struct ron_buf out;
        uint8_t root[RON_CAP_SIG_BYTES] = {0};

        assert_int_equal(ron_cap_token_make(RON_CAP_V1, STR(""), STR(ids[i]), root, &t),
                         RON_CAP_OK);
        ron_buf_init_over(&out, text.s, sizeof text.s);
        assert_int_equal(ron_cap_token_write(&t, &out), RON_OK);
        assert_int_equal(ron_cap_verify(keys, STR(ron_buf_text(&out)), &q, NULL),
                         RON_CAP_UNKNOWN_KEY);
    }
    ron_cap_keys_unref(keys);
    ron_cap_keys_unref(others);
}

static void test_cap__unknown_or_bad_caveat_added_elsewhere__denies(void **state)
{
    struct ron_cap_keys *keys = cap_keys();
    struct cap_text token = cap_minted(keys, NULL, 0);
    struct ron_cap_request q = plain_request();
    const struct {
        const char *caveat;
        enum ron_cap_why why;
    } rows[] = {{"ip = 10.0.0.1", RON_CAP_UNKNOWN_CAVEAT}, {"max = ten", RON_CAP_BAD_CAVEAT}};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_cap_token t;
        struct cap_text text;
        struct ron_buf out;

        assert_int_equal(ron_cap_token_read(token.s, strlen(token.s), &t), RON_CAP_OK);
        assert_int_equal(ron_cap_token_add(&t, STR(rows[i].caveat)), RON_CAP_OK);
        ron_buf_init_over(&out, text.s, sizeof text.s);
        assert_int_equal(ron_cap_token_write(&t, &out), RON_OK);
        assert_int_equal(ron_cap_verify(keys, STR(ron_buf_text(&out)), &q, NULL), rows[i].why);
    }
    ron_cap_keys_unref(keys);
}

static void test_cap__mint_of_what_would_be_denied__is_refused_with_the_caveat(void **state)
{
    struct ron_cap_keys *keys = cap_keys();
    const struct ron_str bad[] = {STR("scop = wallet"), STR("exp = tomorrow")};
    struct ron_buf out;

    (void)state;
    ron_buf_init(&out, RON_CAP_TEXT_MAX);
    for (size_t i = 0; i < 2; i++) {
        struct ron_err err = {0};

        assert_int_equal(
            ron_cap_mint(keys, ron_env_linux(),
                         &(struct ron_cap_mint_opts){.caveats = &bad[i], .caveat_count = 1}, &out,
                         &err),
            RON_INVALID);
        assert_non_null(strstr(err.msg, bad[i].ptr));
    }
    assert_int_equal(ron_buf_len(&out), 0);
    ron_buf_done(&out);
    ron_cap_keys_unref(keys);
}

static void test_cap__required_kinds__must_stand_in_the_token(void **state)
{
    struct ron_cap_keys *keys = cap_keys();
    struct cap_text token = cap_minted(keys, NULL, 0);
    struct cap_text dated = cap_narrowed(token.s, "exp = 1800000001");
    struct ron_cap_request q = plain_request();

    (void)state;
    q.must_carry = RON_CAP_KIND_BIT(RON_CAP_KIND_EXP);
    assert_int_equal(ron_cap_verify(keys, STR(token.s), &q, NULL), RON_CAP_REQUIRED);
    assert_int_equal(ron_cap_verify(keys, STR(dated.s), &q, NULL), RON_CAP_OK);
    ron_cap_keys_unref(keys);
}

static void test_cap__change_of_form__keeps_the_token(void **state)
{
    struct ron_cap_keys *keys = cap_keys();
    const char *const caveats[] = {"aud = wallet"};
    struct cap_text token = cap_minted(keys, caveats, 1);
    struct cap_text v2;
    struct cap_text v1;
    struct ron_buf out;
    struct ron_cap_request q = plain_request();

    (void)state;
    ron_buf_init_over(&out, v2.s, sizeof v2.s);
    assert_int_equal(ron_cap_attenuate(STR(token.s), RON_CAP_V2, NULL, 0, &out, NULL), RON_OK);
    (void)ron_buf_text(&out);
    assert_memory_equal(v2.s, "Ag", 2);
    assert_int_equal(ron_cap_verify(keys, STR(v2.s), &q, NULL), RON_CAP_OK);
    ron_buf_init_over(&out, v1.s, sizeof v1.s);
    assert_int_equal(ron_cap_attenuate(STR(v2.s), RON_CAP_V1, NULL, 0, &out, NULL), RON_OK);
    (void)ron_buf_text(&out);
    assert_string_equal(v1.s, token.s);
    ron_cap_keys_unref(keys);
}

/* The property: a token allows what all its caveats allow by the model, and one more caveat never
 * allows what was denied before. */
static void test_cap__random_caveats__agree_with_the_model_and_never_widen(void **state)
{
    struct ron_cap_keys *keys = cap_keys();
    struct ron_rand r = support_rand();
    uint64_t allowed_total = 0;
    uint64_t denied_total = 0;

    (void)state;
    for (uint32_t round = 0; round < 3000; round++) {
        struct cap_text token = cap_minted(keys, NULL, 0);
        struct ron_str account;
        struct ron_cap_request q = cap_random_request(&r, &account);
        bool expected = true;
        bool before = true;

        for (uint64_t n = ron_rand_below(&r, 6) + 1; n > 0; n--) {
            struct cap_caveat_text c = cap_random_caveat(&r);
            enum ron_cap_why why;

            token = cap_narrowed(token.s, c.s);
            expected = expected && cap_model_holds(c.s, &q);
            why = ron_cap_verify(keys, STR(token.s), &q, NULL);
            if ((why == RON_CAP_OK) != expected) {
                fail_msg("after '%s': %s, the model says %d", c.s, ron_cap_why_label(why),
                         expected);
            }
            assert_true(before || why != RON_CAP_OK);
            before = why == RON_CAP_OK;
            allowed_total += before;
            denied_total += !before;
        }
    }
    print_message("allowed %llu, denied %llu\n", (unsigned long long)allowed_total,
                  (unsigned long long)denied_total);
    assert_true(allowed_total > 500);
    assert_true(denied_total > 500);
    ron_cap_keys_unref(keys);
}

static void test_cap__bearer__takes_one_form_alone(void **state)
{
    const struct {
        const char *value;
        enum ron_cap_why why;
    } rows[] = {
        {"Bearer MDAx", RON_CAP_OK},
        {"bearer MDAx-_9", RON_CAP_OK},
        {"BEARER MDAx=", RON_CAP_OK},
        {"", RON_CAP_MISSING},
        {"Bearer ", RON_CAP_MISSING},
        {"Bearer", RON_CAP_SCHEME},
        {"Bearer\tMDAx", RON_CAP_SCHEME},
        {"Basic MDAx", RON_CAP_SCHEME},
        {"MDAx", RON_CAP_SCHEME},
        {" Bearer MDAx", RON_CAP_SCHEME},
        {"Bearer  MDAx", RON_CAP_MALFORMED},
        {"Bearer MDAx ", RON_CAP_MALFORMED},
        {"Bearer MDAx,MDAx", RON_CAP_MALFORMED},
        {"Bearer MD=Ax", RON_CAP_MALFORMED},
        {"Bearer MD+x", RON_CAP_MALFORMED},
        {"Bearer M\"x", RON_CAP_MALFORMED},
    };
    static char big[RON_CAP_TEXT_MAX + 9] = "Bearer ";
    struct ron_str token = {0};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        enum ron_cap_why why = ron_cap_bearer(STR(rows[i].value), &token);

        if (why != rows[i].why) {
            fail_msg("'%s': %s", rows[i].value, ron_cap_why_label(why));
        }
    }
    assert_int_equal(ron_cap_bearer((struct ron_str){.ptr = "Bearer\0MDAx", .len = 11}, &token),
                     RON_CAP_SCHEME);
    memset(big + 7, 'A', RON_CAP_TEXT_MAX + 1);
    assert_int_equal(ron_cap_bearer(STR(big), &token), RON_CAP_TOO_LARGE);
    big[7 + RON_CAP_TEXT_MAX] = '\0';
    assert_int_equal(ron_cap_bearer(STR(big), &token), RON_CAP_OK);
    assert_int_equal(token.len, RON_CAP_TEXT_MAX);
}

static void test_cap__inspection__shows_all_but_the_signature(void **state)
{
    struct ron_cap_token t;
    struct ron_buf out;
    uint8_t root[RON_CAP_SIG_BYTES] = {7};
    char hex[2 * RON_CAP_SIG_BYTES + 1];
    struct ron_json_error err;

    (void)state;
    assert_int_equal(
        ron_cap_token_make(RON_CAP_V1, STR("http://x/\x1b[2J"), STR("ron1.k.n"), root, &t),
        RON_CAP_OK);
    assert_int_equal(ron_cap_token_add(&t, STR("aud = wallet")), RON_CAP_OK);
    assert_int_equal(ron_cap_token_add(&t, STR("ip = \"\\\n\xff")), RON_CAP_OK);
    ron_buf_init(&out, 1 << 20);
    assert_int_equal(ron_cap_inspect_text(&t, &out), RON_OK);
    assert_string_equal(ron_buf_text(&out),
                        "form        v1\n"
                        "location    http://x/\\x1b[2J\n"
                        "identifier  ron1.k.n\n"
                        "key         k\n"
                        "caveat      aud = wallet\n"
                        "caveat      ip = \"\\x5c\\x0a\\xff   (unknown: denies)\n");
    ron_buf_clear(&out);
    assert_int_equal(ron_cap_inspect_json(&t, &out), RON_OK);
    assert_int_equal(ron_json_check(ron_buf_text(&out), ron_buf_len(&out), &err), RON_OK);
    assert_non_null(strstr(ron_buf_text(&out), "{\"text\":\"aud = wallet\",\"is\":\"known\"}"));
    assert_non_null(strstr(ron_buf_text(&out), "\"is\":\"unknown\"}"));
    (void)sodium_bin2hex(hex, sizeof hex, t.signature, sizeof t.signature);
    hex[16] = '\0';
    assert_null(strstr(ron_buf_text(&out), hex));
    ron_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cap__minted_and_narrowed__verifies_and_tells_who),
        cmocka_unit_test(test_cap__two_tokens_minted_alike__differ),
        cmocka_unit_test(test_cap__other_keys_or_a_foreign_identifier__are_refused),
        cmocka_unit_test(test_cap__unknown_or_bad_caveat_added_elsewhere__denies),
        cmocka_unit_test(test_cap__mint_of_what_would_be_denied__is_refused_with_the_caveat),
        cmocka_unit_test(test_cap__required_kinds__must_stand_in_the_token),
        cmocka_unit_test(test_cap__change_of_form__keeps_the_token),
        cmocka_unit_test(test_cap__random_caveats__agree_with_the_model_and_never_widen),
        cmocka_unit_test(test_cap__bearer__takes_one_form_alone),
        cmocka_unit_test(test_cap__inspection__shows_all_but_the_signature),
    };

    return cmocka_run_group_tests_name("cap.cap", tests, NULL, NULL);
}
