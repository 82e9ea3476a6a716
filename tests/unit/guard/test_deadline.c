/* SPDX-License-Identifier: Apache-2.0 */
/* test_deadline.c - the Request-Timeout header.
 *
 * Goal: exactly the grammar is read, nothing overflows, and what is passed on to the next hop is
 *   never longer than what is left.
 * Method: tables of good and bad texts; random numbers through text and back.
 */
#include "unit/guard/fixture.h"

#include "ron/guard/deadline.h"

static void test_timeout__good_texts__are_read(void **state)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {
        {"0", 0},
        {"1", RON_NS_PER_S},
        {"0.5", RON_NS_PER_S / 2},
        {"0.000000001", 1},
        {"2.25", 2250 * RON_NS_PER_MS},
        {"30.000", 30 * RON_NS_PER_S},
        {"18446744073.709551615", UINT64_MAX},
        {"18446744073.709551616", UINT64_MAX},
        {"99999999999999999999999999999999", UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(good); i++) {
        uint64_t ns = 77;

        assert_int_equal(ron_request_timeout_parse(good[i].text, strlen(good[i].text), &ns, NULL),
                         RON_OK);
        assert_int_equal(ns, good[i].ns);
    }
}

static void test_timeout__bad_texts__are_refused_and_write_nothing(void **state)
{
    static const char *const bad[] = {
        "",    " ",    "1 ",  " 1",           "+1",   "-1",   "00",
        "01",  "0x10", "1e3", "1s",           "1ms",  "1,5",  "1..5",
        ".5",  "1.",   ".",   "1.2.3",        "1.5s", "NaN",  "inf",
        "1\t", "1;",   "''",  "1.0123456789", "00.5", "1. 5", "9999999999999999999999999999999999",
    };
    struct ron_err err = {0};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        uint64_t out = 77;

        assert_int_equal(ron_request_timeout_parse(bad[i], strlen(bad[i]), &out, &err),
                         RON_INVALID);
        assert_int_equal(out, 77);
    }
    assert_int_equal(ron_request_timeout_parse("1\0", 2, &(uint64_t){0}, NULL), RON_INVALID);
}

static void test_timeout__random_time_left__written_and_read_never_longer(void **state)
{
    struct ron_rand rand = support_rand();
    char text[RON_TIMEOUT_FORMAT_SIZE];

    (void)state;
    assert_int_equal(ron_request_timeout_format(ron_deadline_never(), 5, text), 0);
    assert_string_equal(text, "");
    assert_int_equal(ron_request_timeout_format((struct ron_deadline){5}, 9, text), 5);
    assert_string_equal(text, "0.000");
    for (int i = 0; i < 20000; i++) {
        uint64_t now_ns = support_rand_edgy_u64(&rand) >> 1;
        uint64_t left_ns = support_rand_edgy_u64(&rand) >> 1;
        struct ron_deadline d = ron_deadline_after_ns(now_ns, left_ns);
        uint64_t back_ns = 0;
        size_t len = ron_request_timeout_format(d, now_ns, text);

        if (ron_deadline_is_never(d)) {
            continue;
        }
        assert_int_equal(len, strlen(text));
        assert_int_equal(ron_request_timeout_parse(text, len, &back_ns, NULL), RON_OK);
        assert_true(back_ns <= left_ns);
        assert_true(left_ns - back_ns < RON_NS_PER_MS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timeout__good_texts__are_read),
        cmocka_unit_test(test_timeout__bad_texts__are_refused_and_write_nothing),
        cmocka_unit_test(test_timeout__random_time_left__written_and_read_never_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
