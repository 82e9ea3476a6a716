/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the bytes are those of every macaroon library, and nothing else is taken for a token.
 * Method: the published example of libmacaroons (key, identifier, three caveats) with its
 * signatures and texts in both forms; damaged texts made from it; limits at and past the edge. */
#include "support/support.h"

#include <sodium.h>

#include "cap/cap_priv.h"
#include "ron/cap/token.h"

#define KEY "this is our super secret key; only we should know it"
#define STR(text) ((struct ron_str){.ptr = (text), .len = strlen(text)})

static const char *const caveats[] = {"account = 3735928559", "time < 2020-01-01T00:00",
                                      "email = alice@example.org"};
static const char *const signatures[] = {
    "e3d9e02908526c4c0039ae15114115d97fdd68bf2ba379b342aaf0f617d0552f",
    "1efe4763f290dbce0c1d08477367e11f4eee456a64933cf662d79772dbb82128",
    "b5f06c8c8ef92f6c82c6ff282cd1f8bd1849301d09a2db634ba182536a611c49",
    "ddf553e46083e55b8d71ab822be3d8fcf21d6bf19c40d617bb9fb438934474b6",
};
static const char text_v1[] =
    "MDAxY2xvY2F0aW9uIGh0dHA6Ly9teWJhbmsvCjAwMjZpZGVudGlmaWVyIHdlIHVzZWQgb3VyIHNlY3JldCBrZXkKMDAxZG"
    "NpZCBhY2NvdW50ID0gMzczNTkyODU1OQowMDIwY2lkIHRpbWUgPCAyMDIwLTAxLTAxVDAwOjAwCjAwMjJjaWQgZW1haWwg"
    "PSBhbGljZUBleGFtcGxlLm9yZwowMDJmc2lnbmF0dXJlIN31U-Rgg-VbjXGrgivj2PzyHWvxnEDWF7uftDiTRHS2Cg";
static const char text_v2[] =
    "AgEOaHR0cDovL215YmFuay8CFndlIHVzZWQgb3VyIHNlY3JldCBrZXkAAhRhY2NvdW50ID0gMzczNTkyODU1OQACF3RpbW"
    "UgPCAyMDIwLTAxLTAxVDAwOjAwAAIZZW1haWwgPSBhbGljZUBleGFtcGxlLm9yZwAABiDd9VPkYIPlW41xq4Ir49j88h1r"
    "8ZxA1he7n7Q4k0R0tg";

static struct ron_cap_token example(enum ron_cap_form form)
{
    struct ron_cap_token t;
    uint8_t root[RON_CAP_SIG_BYTES];

    ron_cap_root(KEY, strlen(KEY), root);
    assert_int_equal(
        ron_cap_token_make(form, STR("http://mybank/"), STR("we used our secret key"), root, &t),
        RON_CAP_OK);
    return t;
}

static void assert_signature(const struct ron_cap_token *t, const char *hex)
{
    char text[2 * RON_CAP_SIG_BYTES + 1];

    (void)sodium_bin2hex(text, sizeof text, t->signature, sizeof t->signature);
    assert_string_equal(text, hex);
}

static void assert_text(const struct ron_cap_token *t, const char *text)
{
    struct ron_buf out;

    ron_buf_init(&out, RON_CAP_TEXT_MAX + 1);
    assert_int_equal(ron_cap_token_write(t, &out), RON_OK);
    assert_string_equal(ron_buf_text(&out), text);
    ron_buf_done(&out);
}

static void test_token__published_example__gives_its_signatures_and_texts(void **state)
{
    struct ron_cap_token t = example(RON_CAP_V1);

    (void)state;
    assert_signature(&t, signatures[0]);
    for (size_t i = 0; i < RON_ARRAY_LEN(caveats); i++) {
        assert_int_equal(ron_cap_token_add(&t, STR(caveats[i])), RON_CAP_OK);
        assert_signature(&t, signatures[i + 1]);
    }
    assert_text(&t, text_v1);
    t.form = RON_CAP_V2;
    assert_text(&t, text_v2);
}

static void read_example(const char *text, enum ron_cap_form form)
{
    struct ron_cap_token t;
    uint8_t root[RON_CAP_SIG_BYTES];

    assert_int_equal(ron_cap_token_read(text, strlen(text), &t), RON_CAP_OK);
    assert_int_equal(t.form, form);
    assert_true(ron_str_is(ron_cap_str(&t, t.location), "http://mybank/"));
    assert_true(ron_str_is(ron_cap_str(&t, t.identifier), "we used our secret key"));
    assert_int_equal(t.caveat_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_true(ron_str_is(ron_cap_str(&t, t.caveats[i]), caveats[i]));
    }
    ron_cap_root(KEY, strlen(KEY), root);
    assert_true(ron_cap_token_signed_by(&t, root));
    root[0] ^= 1;
    assert_false(ron_cap_token_signed_by(&t, root));
    assert_text(&t, text[0] == 'M' ? text_v1 : text_v2);
}

static void test_token__texts_of_other_libraries__are_read_with_and_without_padding(void **state)
{
    char padded[sizeof text_v1 + 4];

    (void)state;
    read_example(text_v1, RON_CAP_V1);
    read_example(text_v2, RON_CAP_V2);
    (void)snprintf(padded, sizeof padded, "%s%.*s", text_v1, (int)((4 - strlen(text_v1) % 4) % 4),
                   "===");
    assert_true(strlen(padded) > strlen(text_v1));
    read_example(padded, RON_CAP_V1);
}

static void test_token__any_bit_changed__is_refused_or_has_a_bad_signature(void **state)
{
    const char *const texts[] = {text_v1, text_v2};
    uint8_t root[RON_CAP_SIG_BYTES];
    size_t location_only = 0;

    (void)state;
    ron_cap_root(KEY, strlen(KEY), root);
    for (size_t which = 0; which < 2; which++) {
        uint8_t raw[512];
        size_t len = 0;

        assert_int_equal(sodium_base642bin(raw, sizeof raw, texts[which], strlen(texts[which]),
                                           NULL, &len, NULL,
                                           sodium_base64_VARIANT_URLSAFE_NO_PADDING),
                         0);
        for (size_t bit = 0; bit < len * 8; bit++) {
            char text[1024];
            struct ron_cap_token t;

            raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
            (void)sodium_bin2base64(text, sizeof text, raw, len,
                                    sodium_base64_VARIANT_URLSAFE_NO_PADDING);
            raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
            if (ron_cap_token_read(text, strlen(text), &t) == RON_CAP_OK &&
                ron_cap_token_signed_by(&t, root)) {
                /* The location is a hint that the format does not sign. */
                assert_false(ron_str_is(ron_cap_str(&t, t.location), "http://mybank/"));
                location_only++;
            }
        }
    }
    assert_int_equal(location_only, 2 * 8 * strlen("http://mybank/"));
}

/* Given bytes have one spelling: no character may be put in the place of another. libsodium 1.0.18
 * reads bytes above 0x7f like '_', so the token must have one. */
static void test_token__any_character_replaced__is_no_second_spelling(void **state)
{
    uint8_t root[RON_CAP_SIG_BYTES];
    struct ron_cap_token t = example(RON_CAP_V2);
    const char *signature;
    struct ron_buf out;
    char text[1024];
    size_t len;

    (void)state;
    ron_cap_root(KEY, strlen(KEY), root);
    ron_buf_init(&out, RON_CAP_TEXT_MAX + 1);
    do {
        assert_int_equal(ron_cap_token_add(&t, STR("tenant = x")), RON_CAP_OK);
        ron_buf_clear(&out);
        assert_int_equal(ron_cap_token_write(&t, &out), RON_OK);
        len = ron_buf_len(&out);
        signature = ron_buf_text(&out) + len - 40;
    } while (strchr(signature, '_') == NULL);
    memcpy(text, ron_buf_text(&out), len + 1);
    for (size_t at = len - 40; at < len; at++) {
        char was = text[at];

        for (int c = 1; c < 256; c++) {
            text[at] = (char)c;
            if (text[at] != was) {
                assert_false(ron_cap_token_read(text, len, &t) == RON_CAP_OK &&
                             ron_cap_token_signed_by(&t, root));
            }
        }
        text[at] = was;
    }
    assert_int_equal(ron_cap_token_read(text, len, &t), RON_CAP_OK);
    assert_true(ron_cap_token_signed_by(&t, root));
    ron_buf_done(&out);
}

static enum ron_cap_why read_raw(const void *raw, size_t len)
{
    char text[2 * RON_CAP_TEXT_MAX];
    struct ron_cap_token t;

    (void)sodium_bin2base64(text, sizeof text, raw, len, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    return ron_cap_token_read(text, strlen(text), &t);
}

#define RAW(text) read_raw((text), sizeof(text) - 1)
#define SIG32 "12345678901234567890123456789012"

static void test_token__shapes_beside_the_format__are_refused_by_kind(void **state)
{
    (void)state;
    assert_int_equal(RAW("000flocation x\n0010identifier y\n002fsignature " SIG32 "\n"),
                     RON_CAP_MALFORMED); /* lengths that do not fit */
    assert_int_equal(RAW("000flocation x\n0011identifier y\n002fsignature " SIG32 "\n"),
                     RON_CAP_OK);
    assert_int_equal(RAW("000flocation x\n0011identifier y\n002fsignature " SIG32 "\n0"),
                     RON_CAP_MALFORMED);
    assert_int_equal(RAW("000Flocation x\n0011identifier y\n002Fsignature " SIG32 "\n"),
                     RON_CAP_MALFORMED);
    assert_int_equal(RAW("000elocation \n0011identifier y\n002fsignature " SIG32 "\n"), RON_CAP_OK);
    assert_int_equal(RAW("000flocation x\n0010identifier \n002fsignature " SIG32 "\n"),
                     RON_CAP_MALFORMED);
    assert_int_equal(RAW("0011identifier y\n000flocation x\n002fsignature " SIG32 "\n"),
                     RON_CAP_MALFORMED);
    assert_int_equal(RAW("000flocation x\n0011identifier y\n"), RON_CAP_MALFORMED);
    assert_int_equal(RAW("000flocation x\n0011identifier y\n0009cid \n002fsignature " SIG32 "\n"),
                     RON_CAP_MALFORMED);
    assert_int_equal(RAW("000flocation x\n0011identifier y\n000acid c\n002esignature "
                         "1234567890123456789012345678901\n"),
                     RON_CAP_MALFORMED);
    assert_int_equal(RAW("000flocation x\n0011identifier y\n000acid c\n000avid v\n0009cl l\n"
                         "002fsignature " SIG32 "\n"),
                     RON_CAP_THIRD_PARTY);
    assert_int_equal(RAW("\2\1\1x\2\1y\0\2\1c\0\0\6\40" SIG32), RON_CAP_OK);
    assert_int_equal(RAW("\2\2\1y\0\0\6\40" SIG32), RON_CAP_OK);
    assert_int_equal(RAW("\2\2\1y\0\0\6\40" SIG32 "x"), RON_CAP_MALFORMED);
    assert_int_equal(RAW("\2\2\0\0\0\6\40" SIG32), RON_CAP_MALFORMED);
    assert_int_equal(RAW("\2\2\201\0y\0\0\6\40" SIG32), RON_CAP_MALFORMED); /* long varint */
    assert_int_equal(RAW("\2\2\1y\0\1\1l\2\1c\4\1v\0\0\6\40" SIG32), RON_CAP_THIRD_PARTY);
    assert_int_equal(RAW("\2\2\1y\0\2\1c\4\1v\0\0\6\40" SIG32), RON_CAP_THIRD_PARTY);
    assert_int_equal(RAW("\2"), RON_CAP_MALFORMED);
    assert_int_equal(RAW("\3\2\1y\0\0\6\40" SIG32), RON_CAP_MALFORMED);
    assert_int_equal(RAW("{\"v\":2,\"i\":\"y\"}"), RON_CAP_VERSION);
}

static void test_token__every_prefix_of_a_token__is_malformed(void **state)
{
    struct ron_cap_token t;

    (void)state;
    for (size_t len = 1; len < strlen(text_v1); len++) {
        assert_int_equal(ron_cap_token_read(text_v1, len, &t), RON_CAP_MALFORMED);
    }
    for (size_t len = 1; len < strlen(text_v2); len++) {
        assert_int_equal(ron_cap_token_read(text_v2, len, &t), RON_CAP_MALFORMED);
    }
}

static void test_token__texts_that_are_not_base64url__are_malformed(void **state)
{
    const char *const texts[] = {
        "M",    "MDAx+",    "MDAx/", "MDAx\n", " MDAx",
        "MDA=", "MDAxY2x=", "=",     "====",   "MDAxY2xvY2F0aW9uIGh0dHA6Ly9teWJhbmsvCj=="};
    struct ron_cap_token t;
    char text[sizeof text_v1];

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(texts); i++) {
        assert_int_equal(ron_cap_token_read(texts[i], strlen(texts[i]), &t), RON_CAP_MALFORMED);
    }
    assert_int_equal(ron_cap_token_read("", 0, &t), RON_CAP_MISSING);
    assert_int_equal(ron_cap_token_read("{\"v\":2}", 7, &t), RON_CAP_VERSION);
    /* Bits behind the last byte must be zero: one text for one token. */
    memcpy(text, text_v1, sizeof text);
    assert_int_equal(text[strlen(text) - 1], 'g');
    text[strlen(text) - 1] = 'h';
    assert_int_equal(ron_cap_token_read(text, strlen(text), &t), RON_CAP_MALFORMED);
}

static void test_token__limits__hold_at_the_edge(void **state)
{
    struct ron_cap_token t = example(RON_CAP_V1);
    struct ron_cap_token before;
    struct ron_buf out;
    char *big = malloc(RON_CAP_TEXT_MAX + 1);
    enum ron_rc rc = RON_OK;
    size_t len = 0;

    (void)state;
    assert_non_null(big);
    for (size_t i = 0; i < RON_CAP_CAVEATS_MAX; i++) {
        assert_int_equal(ron_cap_token_add(&t, STR("max = 1")), RON_CAP_OK);
    }
    before = t;
    assert_int_equal(ron_cap_token_add(&t, STR("max = 1")), RON_CAP_TOO_MANY);
    assert_memory_equal(&before, &t, offsetof(struct ron_cap_token, raw));
    ron_buf_init(&out, 2 * RON_CAP_TEXT_MAX);
    assert_int_equal(ron_cap_token_write(&t, &out), RON_OK);
    assert_int_equal(
        ron_cap_token_read((const char *)ron_buf_data(&out), ron_buf_len(&out), &before),
        RON_CAP_OK);
    /* The longest caveat that still fits the text limit fills it to the last group of four. */
    memset(big, 'c', RON_CAP_TEXT_MAX + 1);
    for (len = RON_CAP_RAW_MAX; len > 0; len--) {
        t = example(RON_CAP_V1);
        ron_buf_clear(&out);
        rc = ron_cap_token_add(&t, (struct ron_str){.ptr = big, .len = len}) == RON_CAP_OK
                 ? ron_cap_token_write(&t, &out)
                 : RON_LIMIT;
        if (rc == RON_OK) {
            break;
        }
        assert_int_equal(rc, RON_LIMIT);
    }
    assert_int_equal(ron_buf_len(&out), RON_CAP_TEXT_MAX);
    assert_int_equal(ron_cap_token_read((const char *)ron_buf_data(&out), RON_CAP_TEXT_MAX, &t),
                     RON_CAP_OK);
    assert_int_equal(ron_cap_token_read(big, RON_CAP_TEXT_MAX + 1, &t), RON_CAP_TOO_LARGE);
    ron_buf_done(&out);
    free(big);
}

static void test_token__65_caveats_from_elsewhere__are_too_many(void **state)
{
    char raw[2048] = "\2\2\1y";
    size_t len = 5;

    (void)state;
    for (size_t i = 0; i < RON_CAP_CAVEATS_MAX + 1; i++) {
        memcpy(raw + len, "\2\1c", 4);
        len += 4;
    }
    memcpy(raw + len, "\0\6\40" SIG32, 35);
    assert_int_equal(read_raw(raw, len + 35), RON_CAP_TOO_MANY);
}

static void test_token__log_id__is_the_start_of_blake3(void **state)
{
    char id[RON_CAP_LOG_ID_SIZE];

    (void)state;
    ron_cap_log_id("", 0, id);
    assert_string_equal(id, "af1349b9"); /* BLAKE3 of nothing, from its paper */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token__published_example__gives_its_signatures_and_texts),
        cmocka_unit_test(test_token__texts_of_other_libraries__are_read_with_and_without_padding),
        cmocka_unit_test(test_token__any_bit_changed__is_refused_or_has_a_bad_signature),
        cmocka_unit_test(test_token__any_character_replaced__is_no_second_spelling),
        cmocka_unit_test(test_token__shapes_beside_the_format__are_refused_by_kind),
        cmocka_unit_test(test_token__every_prefix_of_a_token__is_malformed),
        cmocka_unit_test(test_token__texts_that_are_not_base64url__are_malformed),
        cmocka_unit_test(test_token__limits__hold_at_the_edge),
        cmocka_unit_test(test_token__65_caveats_from_elsewhere__are_too_many),
        cmocka_unit_test(test_token__log_id__is_the_start_of_blake3),
    };

    return cmocka_run_group_tests_name("cap.token", tests, NULL, NULL);
}
