/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: durations, sizes, numbers and booleans are read strictly and written back exactly.
 * Method: tables of texts with what must come out, and random numbers through writing and
 * reading. */
#include "support/support.h"

#include "conf/conf_priv.h"
#include "ron/conf/value.h"

typedef enum ron_rc parse_fn(const char *text, size_t len, int64_t *ret, struct ron_err *err);

static void accept(parse_fn *parse, const char *text, int64_t wanted)
{
    int64_t number = -42;
    struct ron_err err = {0};

    if (parse(text, strlen(text), &number, &err) != RON_OK) {
        fail_msg("\"%s\" refused: %s", text, err.msg);
    }
    assert_int_equal(number, wanted);
}

static void refuse(parse_fn *parse, const char *text, const char *reason)
{
    int64_t number = -42;
    struct ron_err err = {0};

    assert_int_equal(parse(text, strlen(text), &number, &err), RON_INVALID);
    assert_int_equal(number, -42);
    if (strstr(err.msg, reason) == NULL) {
        fail_msg("\"%s\": \"%s\" lacks \"%s\"", text, err.msg, reason);
    }
}

static void test_value__durations__in_ms(void **state)
{
    (void)state;
    accept(ron_conf_parse_duration, "250ms", 250);
    accept(ron_conf_parse_duration, "0s", 0);
    accept(ron_conf_parse_duration, "3s", 3000);
    accept(ron_conf_parse_duration, "1.5s", 1500);
    accept(ron_conf_parse_duration, "0.250 s", 250);
    accept(ron_conf_parse_duration, "2m", 120000);
    accept(ron_conf_parse_duration, "24h", 86400000);
    refuse(ron_conf_parse_duration, "5", "a unit is missing; known units: ms s m h");
    refuse(ron_conf_parse_duration, "", "needs a number");
    refuse(ron_conf_parse_duration, "s", "needs a number");
    refuse(ron_conf_parse_duration, "-1s", "needs a number");
    refuse(ron_conf_parse_duration, "+1s", "needs a number");
    refuse(ron_conf_parse_duration, ".5s", "needs a number");
    refuse(ron_conf_parse_duration, "1.s", "needs a number");
    refuse(ron_conf_parse_duration, "1.2.3s", "unknown unit");
    refuse(ron_conf_parse_duration, "1d", "unknown unit");
    refuse(ron_conf_parse_duration, "1S", "unknown unit");
    refuse(ron_conf_parse_duration, "1s ", "unknown unit");
    refuse(ron_conf_parse_duration, "1  s", "unknown unit");
    refuse(ron_conf_parse_duration, " 1s", "needs a number");
    refuse(ron_conf_parse_duration, "1m30s", "unknown unit");
    refuse(ron_conf_parse_duration, "0.5ms", "no whole number of ms");
    refuse(ron_conf_parse_duration, "9223372036854775807s", "too large");
    refuse(ron_conf_parse_duration, "9223372036854775808ms", "needs a number");
    refuse(ron_conf_parse_duration, "1.0000000000s", "needs a number");
}

static void test_value__sizes__in_bytes(void **state)
{
    (void)state;
    accept(ron_conf_parse_size, "0B", 0);
    accept(ron_conf_parse_size, "17B", 17);
    accept(ron_conf_parse_size, "64KiB", 65536);
    accept(ron_conf_parse_size, "64 KiB", 65536);
    accept(ron_conf_parse_size, "1MiB", 1048576);
    accept(ron_conf_parse_size, "1.5GiB", 1610612736);
    accept(ron_conf_parse_size, "2KB", 2000);
    accept(ron_conf_parse_size, "2MB", 2000000);
    refuse(ron_conf_parse_size, "64", "a unit is missing");
    refuse(ron_conf_parse_size, "64kb", "unknown unit; known units: B KiB MiB GiB KB MB");
    refuse(ron_conf_parse_size, "0.3B", "no whole number of B");
    refuse(ron_conf_parse_size, "9000000000000GiB", "too large");
}

static void test_value__integers_and_booleans__nothing_else(void **state)
{
    (void)state;
    bool value = false;

    accept(ron_conf_parse_int, "0", 0);
    accept(ron_conf_parse_int, "-5", -5);
    accept(ron_conf_parse_int, "9223372036854775807", INT64_MAX);
    accept(ron_conf_parse_int, "-9223372036854775808", INT64_MIN);
    refuse(ron_conf_parse_int, "9223372036854775808", "too large");
    refuse(ron_conf_parse_int, "", "whole number");
    refuse(ron_conf_parse_int, "-", "whole number");
    refuse(ron_conf_parse_int, "1_000", "whole number");
    refuse(ron_conf_parse_int, "0x10", "whole number");
    assert_int_equal(ron_conf_parse_bool("true", 4, &value, NULL), RON_OK);
    assert_true(value);
    assert_int_equal(ron_conf_parse_bool("false", 5, &value, NULL), RON_OK);
    assert_false(value);
    assert_int_equal(ron_conf_parse_bool("1", 1, &value, NULL), RON_INVALID);
    assert_int_equal(ron_conf_parse_bool("True", 4, &value, NULL), RON_INVALID);
    assert_int_equal(ron_conf_parse_bool("", 0, &value, NULL), RON_INVALID);
}

static void test_value__written__in_the_largest_exact_unit(void **state)
{
    (void)state;
    char out[RON_CONF_NUMBER_SIZE];

    assert_string_equal(ron_conf_format_duration(0, out), "0s");
    assert_string_equal(ron_conf_format_duration(250, out), "250ms");
    assert_string_equal(ron_conf_format_duration(90000, out), "90s");
    assert_string_equal(ron_conf_format_duration(5400000, out), "90m");
    assert_string_equal(ron_conf_format_duration(86400000, out), "24h");
    assert_string_equal(ron_conf_format_size(0, out), "0B");
    assert_string_equal(ron_conf_format_size(1048576, out), "1MiB");
    assert_string_equal(ron_conf_format_size(2000, out), "2KB");
    assert_string_equal(ron_conf_format_size(1025, out), "1025B");
}

static void test_value__any_number__survives_writing_and_reading(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();

    for (int i = 0; i < 100000; i++) {
        int64_t number = (int64_t)(support_rand_edgy_u64(&rand) >> 1);
        char out[RON_CONF_NUMBER_SIZE];

        accept(ron_conf_parse_duration, ron_conf_format_duration(number, out), number);
        accept(ron_conf_parse_size, ron_conf_format_size(number, out), number);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_value__durations__in_ms),
        cmocka_unit_test(test_value__sizes__in_bytes),
        cmocka_unit_test(test_value__integers_and_booleans__nothing_else),
        cmocka_unit_test(test_value__written__in_the_largest_exact_unit),
        cmocka_unit_test(test_value__any_number__survives_writing_and_reading),
    };

    return cmocka_run_group_tests_name("conf.value", tests, NULL, NULL);
}
