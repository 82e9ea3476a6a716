/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: arithmetic never wraps, and every amount has exactly one text.
 * Method: 256-bit sums and products as the oracle for overflow, decimal doubling as the oracle for
 * the text, a list of texts that must be refused, and one changed byte in good ones. */
#include "support/support.h"

#include "ron/base/money.h"

#define CASES 20000
#define MAX_TEXT "340282366920938463463374607431768211455"

static const struct ron_money untouched = {.v = 77};

/* Decimal text by doubling a decimal number once per bit: shares no division with the code. */
static void slow_format(ron_u128 value, char ret_text[RON_MONEY_TEXT_SIZE])
{
    int digits[RON_MONEY_DIGITS_MAX] = {0}; /* lowest first */
    int len = 1;

    for (int bit = 127; bit >= 0; bit--) {
        int carry = (int)(value >> bit & 1);

        for (int i = 0; i < RON_MONEY_DIGITS_MAX; i++) {
            int doubled = digits[i] * 2 + carry;

            digits[i] = doubled % 10;
            carry = doubled / 10;
        }
        assert_int_equal(carry, 0);
    }
    for (int i = 0; i < RON_MONEY_DIGITS_MAX; i++) {
        len = digits[i] != 0 ? i + 1 : len;
    }
    for (int i = 0; i < len; i++) {
        ret_text[i] = (char)('0' + digits[len - 1 - i]);
    }
    ret_text[len] = '\0';
}

static void test_money__add__refuses_what_does_not_fit(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();
    int refused = 0;

    for (int i = 0; i < CASES; i++) {
        struct ron_money a = {support_rand_edgy_u128(&rand)};
        struct ron_money b = {support_rand_edgy_u128(&rand)};
        struct ron_money sum = untouched;
        /* Halves cannot overflow: (a + b) / 2 compared with the largest half. */
        ron_u128 half = a.v / 2 + b.v / 2 + (a.v & b.v & 1);
        bool fits = half <= RON_U128_MAX / 2;

        assert_int_equal(ron_money_add(a, b, &sum), fits ? RON_MONEY_OK : RON_MONEY_OVERFLOW);
        support_assert_u128_equal(sum.v, fits ? a.v + b.v : untouched.v);
        refused += !fits;
    }
    assert_true(refused > 10 && refused < CASES - 10);
}

static void test_money__mul__refuses_what_does_not_fit(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();
    int refused = 0;

    for (int i = 0; i < CASES; i++) {
        struct ron_money a = {support_rand_edgy_u128(&rand)};
        uint64_t factor = support_rand_edgy_u64(&rand);
        struct ron_money product = untouched;
        struct ron_u256 exact = ron_u256_mul(a.v, factor);
        bool fits = exact.hi == 0;

        assert_int_equal(ron_money_mul_u64(a, factor, &product),
                         fits ? RON_MONEY_OK : RON_MONEY_OVERFLOW);
        support_assert_u128_equal(product.v, fits ? exact.lo : untouched.v);
        refused += !fits;
    }
    assert_true(refused > 10 && refused < CASES - 10);
}

static void test_money__edges__are_exact(void **state)
{
    (void)state;
    struct ron_money value = RON_MONEY_MAX;

    assert_int_equal(ron_money_add(value, RON_MONEY_ZERO, &value), RON_MONEY_OK);
    assert_int_equal(ron_money_add(value, ron_money_of(1), &value), RON_MONEY_OVERFLOW);
    assert_int_equal(ron_money_cmp(value, RON_MONEY_MAX), 0);
    assert_int_equal(ron_money_mul_u64(value, 1, &value), RON_MONEY_OK);
    assert_int_equal(ron_money_mul_u64(value, 2, &value), RON_MONEY_OVERFLOW);
    assert_int_equal(ron_money_cmp(ron_money_of(1), ron_money_of(2)), -1);
    assert_int_equal(ron_money_cmp(RON_MONEY_MAX, ron_money_of(2)), 1);
}

static void test_money__text__matches_doubling_and_reads_back(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();

    for (int i = 0; i < CASES; i++) {
        struct ron_money money = {support_rand_edgy_u128(&rand)};
        struct ron_money back = untouched;
        char text[RON_MONEY_TEXT_SIZE];
        char slow[RON_MONEY_TEXT_SIZE];
        size_t len = ron_money_format(money, text);

        slow_format(money.v, slow);
        assert_string_equal(text, slow);
        assert_int_equal(len, strlen(slow));
        assert_int_equal(ron_money_parse(text, len, &back, NULL), RON_OK);
        support_assert_u128_equal(back.v, money.v);
    }
}

/* Powers of ten and their neighbours: the borders of digits and of 19-digit chunks. */
static void test_money__powers_of_ten__have_all_their_zeros(void **state)
{
    (void)state;
    ron_u128 power = 1;

    for (size_t digits = 1; digits <= RON_MONEY_DIGITS_MAX; digits++) {
        char text[RON_MONEY_TEXT_SIZE];
        char expected[RON_MONEY_TEXT_SIZE] = "1";

        memset(expected + 1, '0', digits - 1);
        assert_int_equal(ron_money_format((struct ron_money){power}, text), digits);
        assert_string_equal(text, expected);
        if (digits > 1) {
            memset(expected, '9', digits - 1);
            expected[digits - 1] = '\0';
            assert_int_equal(ron_money_format((struct ron_money){power - 1}, text), digits - 1);
            assert_string_equal(text, expected);
        }
        power *= 10;
    }
}

static void test_money__good_text__is_read(void **state)
{
    (void)state;
    struct ron_money money = untouched;

    assert_int_equal(ron_money_parse("0", 1, &money, NULL), RON_OK);
    assert_true(ron_money_is_zero(money));
    assert_int_equal(ron_money_parse(MAX_TEXT, 39, &money, NULL), RON_OK);
    support_assert_u128_equal(money.v, RON_U128_MAX);
    assert_int_equal(ron_money_parse("12345", 3, &money, NULL), RON_OK); /* exactly len bytes */
    support_assert_u128_equal(money.v, 123);
}

static void test_money__bad_text__is_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum ron_rc rc;
        const char *reason;
    } cases[] = {
        {"", RON_INVALID, "amount is empty"},
        {"00", RON_INVALID, "leading zero"},
        {"01", RON_INVALID, "leading zero"},
        {"-1", RON_INVALID, "'-' at offset 0"},
        {"+1", RON_INVALID, "'+' at offset 0"},
        {" 1", RON_INVALID, "0x20 at offset 0"},
        {"1 ", RON_INVALID, "0x20 at offset 1"},
        {"1.0", RON_INVALID, "'.' at offset 1"},
        {"1e3", RON_INVALID, "'e' at offset 1"},
        {"1_000", RON_INVALID, "'_' at offset 1"},
        {"0x10", RON_INVALID, "'x' at offset 1"},
        {"12\n", RON_INVALID, "0x0a at offset 2"},
        {"\xd9\xa1", RON_INVALID, "0xd9 at offset 0"}, /* an Arabic one in UTF-8 */
        {"340282366920938463463374607431768211456", RON_LIMIT, "above 2^128 - 1"},
        {"340282366920938463463374607431768211460", RON_LIMIT, "above 2^128 - 1"},
        {"999999999999999999999999999999999999999", RON_LIMIT, "above 2^128 - 1"},
        {"1000000000000000000000000000000000000000", RON_LIMIT, "more than 39 digits"},
        {"0000000000000000000000000000000000000001", RON_INVALID, "leading zero"},
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        struct ron_money money = untouched;
        struct ron_err err = {0};

        assert_int_equal(ron_money_parse(cases[i].text, strlen(cases[i].text), &money, &err),
                         cases[i].rc);
        assert_non_null(strstr(err.msg, cases[i].reason));
        support_assert_u128_equal(money.v, untouched.v);
    }
    struct ron_money money = untouched;

    assert_int_equal(ron_money_parse("1\0002", 3, &money, NULL), RON_INVALID); /* a NUL inside */
}

/* Any byte other than a digit, at any place of a good text, must be refused. */
static void test_money__any_foreign_byte__is_refused(void **state)
{
    (void)state;
    for (size_t at = 0; at < 39; at++) {
        for (int byte = 0; byte < 256; byte++) {
            char text[] = "140282366920938463463374607431768211455";
            struct ron_money money = untouched;
            bool digit = byte >= '0' && byte <= '9';

            text[at] = (char)byte;
            enum ron_rc rc = ron_money_parse(text, 39, &money, NULL);

            if (!digit || (at == 0 && byte == '0')) {
                assert_int_equal(rc, RON_INVALID);
            } else if (at == 0 && byte > '3') {
                assert_int_equal(rc, RON_LIMIT);
            } else {
                assert_int_equal(rc, RON_OK);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_money__add__refuses_what_does_not_fit),
        cmocka_unit_test(test_money__mul__refuses_what_does_not_fit),
        cmocka_unit_test(test_money__edges__are_exact),
        cmocka_unit_test(test_money__text__matches_doubling_and_reads_back),
        cmocka_unit_test(test_money__powers_of_ten__have_all_their_zeros),
        cmocka_unit_test(test_money__good_text__is_read),
        cmocka_unit_test(test_money__bad_text__is_refused_with_the_reason),
        cmocka_unit_test(test_money__any_foreign_byte__is_refused),
    };

    return cmocka_run_group_tests_name("base.money", tests, NULL, NULL);
}
