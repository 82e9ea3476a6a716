/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: hexadecimal and base64 are written as RFC 4648 says and read in one spelling only.
 * Method: the RFC's vectors; every byte as a digit; random bytes compared with libsodium's codecs;
 * every one-character change of a text. */
#include "support/support.h"

#include <sodium.h>

#include "ron/base/hex.h"
#include "ron/base/macros.h"

enum { ROUNDS = 3000, LEN_MAX = 40 };

static void test_hex__every_byte__is_a_digit_of_its_case_or_none(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        const char *lower = memchr("0123456789abcdef", c, 16);
        const char *upper = memchr("0123456789ABCDEF", c, 16);
        int value = c >= '0' && c <= '9' ? c - '0'
                    : lower != NULL      ? c - 'a' + 10
                    : upper != NULL      ? c - 'A' + 10
                                         : -1;

        assert_int_equal(ron_hex_digit((char)c), value);
        assert_int_equal(ron_hex_digit_in((char)c, RON_HEX_ANY), value);
        assert_int_equal(ron_hex_digit_in((char)c, RON_HEX_LOWER), lower != NULL ? value : -1);
        assert_int_equal(ron_hex_digit_in((char)c, RON_HEX_UPPER), upper != NULL ? value : -1);
    }
}

static void test_hex__random_bytes__round_trip_like_libsodium(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t bytes[LEN_MAX];
        uint8_t back[LEN_MAX + 1];
        char text[2 * LEN_MAX + 1];
        char want[2 * LEN_MAX + 1];
        char upper[2 * LEN_MAX + 1];
        size_t len = (size_t)ron_rand_below(&rand, LEN_MAX + 1);

        ron_rand_bytes(&rand, bytes, sizeof bytes);
        ron_hex(bytes, len, text);
        ron_hex_upper(bytes, len, upper);
        (void)sodium_bin2hex(want, sizeof want, bytes, len);
        assert_string_equal(text, want);
        assert_true(ron_str_is_nocase(ron_str_of(upper), text));
        memset(back, 0x5a, sizeof back);
        assert_true(ron_unhex(ron_str_of(text), RON_HEX_LOWER, back, len));
        assert_memory_equal(back, bytes, len);
        assert_int_equal(back[len], 0x5a);
        assert_true(ron_unhex(ron_str_of(upper), RON_HEX_UPPER, back, len));
        assert_true(ron_unhex(ron_str_of(upper), RON_HEX_ANY, back, len));
        assert_memory_equal(back, bytes, len);
        assert_false(ron_unhex(ron_str_of(text), RON_HEX_ANY, back, len + 1));
        assert_false(len > 0 && ron_unhex(ron_str_of(text), RON_HEX_ANY, back, len - 1));
        assert_false(ron_unhex((struct ron_str){text, 2 * len + 1}, RON_HEX_ANY, back, len));
        assert_int_equal(ron_hex_valid(ron_str_of(text), RON_HEX_LOWER), len > 0);
    }
    assert_false(ron_hex_valid(RON_STR_LIT("abcG"), RON_HEX_ANY));
    assert_false(ron_hex_valid(RON_STR_LIT("abC0"), RON_HEX_LOWER));
}

static void check_base64(const char *plain, const char *padded)
{
    size_t len = strlen(plain);
    size_t got = 99;
    char text[16];
    uint8_t back[16];
    struct ron_str bare = ron_str_of(padded);

    ron_base64(plain, len, RON_BASE64_PADDED, text);
    assert_int_equal(ron_base64_size(len, RON_BASE64_PADDED), strlen(padded));
    assert_memory_equal(text, padded, strlen(padded));
    assert_int_equal(
        ron_base64_read(ron_str_of(padded), RON_BASE64_PADDED, back, sizeof back, &got), len > 0);
    assert_int_equal(got, len > 0 ? len : 99);
    while (bare.len > 0 && bare.ptr[bare.len - 1] == '=') {
        bare.len--;
    }
    assert_int_equal(ron_base64_size(len, RON_BASE64_BARE), bare.len);
    assert_int_equal(ron_base64_read(bare, RON_BASE64_BARE, back, sizeof back, &got), len > 0);
    assert_memory_equal(back, plain, len);
    assert_int_equal(ron_base64_read(bare, RON_BASE64_PADDED, back, sizeof back, &got),
                     len > 0 && bare.len == strlen(padded));
}

static void test_base64__vectors_of_the_rfc__match(void **state)
{
    (void)state;
    check_base64("", "");
    check_base64("f", "Zg==");
    check_base64("fo", "Zm8=");
    check_base64("foo", "Zm9v");
    check_base64("foob", "Zm9vYg==");
    check_base64("fooba", "Zm9vYmE=");
    check_base64("foobar", "Zm9vYmFy");
    assert_true(ron_base64_size(SIZE_MAX, RON_BASE64_PADDED) == SIZE_MAX);
}

static int variant_of(enum ron_base64 form)
{
    return form == RON_BASE64_PADDED ? sodium_base64_VARIANT_ORIGINAL
           : form == RON_BASE64_BARE ? sodium_base64_VARIANT_ORIGINAL_NO_PADDING
                                     : sodium_base64_VARIANT_URLSAFE_NO_PADDING;
}

/* Whether libsodium, whose reader is as strict, accepts the text; it errs on bytes above 0x7f. */
static bool sodium_reads(struct ron_str text, enum ron_base64 form, uint8_t *ret, size_t room,
                         size_t *ret_len)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.ptr[i] > 0x7f) {
            return false;
        }
    }
    return text.len > 0 && sodium_base642bin(ret, room, text.ptr, text.len, NULL, ret_len, NULL,
                                             variant_of(form)) == 0;
}

static void test_base64__texts_with_one_change__read_like_libsodium(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        enum ron_base64 form = (enum ron_base64)ron_rand_below(&rand, 3);
        uint8_t bytes[LEN_MAX];
        uint8_t back[LEN_MAX];
        uint8_t want[LEN_MAX];
        char text[64];
        char theirs[64];
        size_t len = (size_t)ron_rand_below(&rand, LEN_MAX + 1);
        size_t room = (size_t)ron_rand_below(&rand, LEN_MAX + 1);
        size_t size = ron_base64_size(len, form);
        size_t got = 0;
        size_t expected = 0;
        bool reads;

        ron_rand_bytes(&rand, bytes, sizeof bytes);
        ron_base64(bytes, len, form, text);
        (void)sodium_bin2base64(theirs, sizeof theirs, bytes, len, variant_of(form));
        assert_int_equal(strlen(theirs), size);
        assert_memory_equal(text, theirs, size);
        assert_int_equal(
            ron_base64_read((struct ron_str){text, size}, form, back, sizeof back, &got), len > 0);
        assert_memory_equal(back, bytes, len > 0 ? got : 0);
        if (size > 0) {
            text[ron_rand_below(&rand, size)] = ron_rand_chance(&rand, 1, 2)
                                                    ? (char)ron_rand_below(&rand, 256)
                                                    : "=+/-_AZ \n"[ron_rand_below(&rand, 9)];
            size -= ron_rand_chance(&rand, 1, 4);
        }
        reads = sodium_reads((struct ron_str){text, size}, form, want, room, &expected);
        assert_int_equal(ron_base64_read((struct ron_str){text, size}, form, back, room, &got),
                         reads);
        if (reads) {
            assert_int_equal(got, expected);
            assert_memory_equal(back, want, got);
        }
    }
}

static void test_base64__buffer__takes_all_or_nothing(void **state)
{
    char memory[9];
    struct ron_buf out;

    (void)state;
    ron_buf_init_over(&out, memory, sizeof memory);
    assert_int_equal(ron_base64_write(&out, "foo", 3), RON_OK);
    assert_int_equal(ron_base64_write(&out, "foob", 4), RON_LIMIT);
    assert_string_equal(ron_buf_text(&out), "Zm9v");
    ron_buf_clear(&out);
    assert_int_equal(ron_base64_write(&out, "fooba", 5), RON_OK);
    assert_string_equal(ron_buf_text(&out), "Zm9vYmE=");
    ron_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hex__every_byte__is_a_digit_of_its_case_or_none),
        cmocka_unit_test(test_hex__random_bytes__round_trip_like_libsodium),
        cmocka_unit_test(test_base64__vectors_of_the_rfc__match),
        cmocka_unit_test(test_base64__texts_with_one_change__read_like_libsodium),
        cmocka_unit_test(test_base64__buffer__takes_all_or_nothing),
    };

    return cmocka_run_group_tests_name("unit.base.hex", tests, NULL, NULL);
}
