/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a mistyped word finds its neighbour, and a strange one finds nothing. Method: a table. */
#include "ron/base/nearest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ron/base/macros.h"

static const char *const words[] = {"workers", "rate", "seconds", "drain-deadline", "quiet"};

static void test_nearest__mistyped_word__finds_the_one_meant(void **state)
{
    static const struct {
        const char *typed;
        const char *meant;
    } rows[] = {
        {"worker", "workers"},
        {"wrokers", "workers"},
        {"raet", "rate"},
        {"second", "seconds"},
        {"drain", NULL},
        {"drain_deadline", "drain-deadline"},
        {"draindeadline", "drain-deadline"},
        {"quite", "quiet"},
        {"workers", "workers"},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        const char *found = ron_nearest(rows[i].typed, words, RON_ARRAY_LEN(words));

        if (rows[i].meant == NULL) {
            assert_null(found);
        } else {
            assert_non_null(found);
            assert_string_equal(found, rows[i].meant);
        }
    }
}

static void test_nearest__strange_word__finds_nothing(void **state)
{
    char longest[RON_NEAREST_WORD_MAX + 2];

    (void)state;
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_null(ron_nearest("zzzzzzzz", words, RON_ARRAY_LEN(words)));
    assert_null(ron_nearest("", words, RON_ARRAY_LEN(words)));
    assert_null(ron_nearest("x", words, RON_ARRAY_LEN(words)));
    assert_null(ron_nearest(longest, words, RON_ARRAY_LEN(words)));
    assert_null(ron_nearest("rate", words, 0));
}

static void test_nearest__swapped_letters__count_as_one_edit(void **state)
{
    /* Both differ in two letters, but the second is one swap away. */
    static const char *const two[] = {"abxy", "abdc"};

    (void)state;
    assert_string_equal(ron_nearest("abcd", two, 2), "abdc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest__mistyped_word__finds_the_one_meant),
        cmocka_unit_test(test_nearest__strange_word__finds_nothing),
        cmocka_unit_test(test_nearest__swapped_letters__count_as_one_edit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
