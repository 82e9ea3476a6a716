/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the string functions compare, cut and read as str.h says, also on empty and NULL slices.
 * Method: tables, and properties over random texts of a small alphabet against plain loops. */
#include "support/support.h"

#include "ron/base/macros.h"
#include "ron/base/str.h"

enum { ROUNDS = 20000, TEXT_MAX = 6 };

static const struct ron_str none = {NULL, 0};

/* A slice without NUL after it, of letters that collide often. */
static struct ron_str random_text(struct ron_rand *rand, char memory[TEXT_MAX])
{
    size_t len = (size_t)ron_rand_below(rand, TEXT_MAX + 1);

    for (size_t i = 0; i < len; i++) {
        memory[i] = "aAbB \t\n0\xc1"[ron_rand_below(rand, 9)];
    }
    return (struct ron_str){len == 0 && ron_rand_chance(rand, 1, 2) ? NULL : memory, len};
}

static void test_str__literals_and_null__have_their_length(void **state)
{
    static const struct ron_str table[] = {RON_STR_INIT("one"), RON_STR_INIT("")};

    (void)state;
    assert_int_equal(table[0].len, 3);
    assert_int_equal(table[1].len, 0);
    assert_int_equal(RON_STR_LIT("a\0b").len, 3);
    assert_int_equal(ron_str_of("four").len, 4);
    assert_int_equal(ron_str_of(NULL).len, 0);
    assert_true(ron_str_is(ron_str_of(NULL), ""));
    assert_true(ron_str_equal(none, ron_str_of("")));
    assert_false(ron_str_is(none, "x"));
    assert_true(ron_str_equal_nocase(none, none));
    assert_int_equal(ron_str_compare(none, none), 0);
    assert_true(ron_str_compare(none, ron_str_of("a")) < 0);
    assert_true(ron_str_starts(none, none) && ron_str_ends(none, none));
    assert_false(ron_str_starts(none, RON_STR_LIT("a")) || ron_str_ends(none, RON_STR_LIT("a")));
    assert_int_equal(ron_str_trim(none).len, 0);
}

static void test_str__random_pairs__compare_like_plain_loops(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        char x[TEXT_MAX];
        char y[TEXT_MAX];
        struct ron_str a = random_text(&rand, x);
        struct ron_str b = random_text(&rand, y);
        size_t same = 0;
        size_t folded = 0;
        size_t tail = 0;

        while (same < a.len && same < b.len && x[same] == y[same]) {
            same++;
        }
        while (folded < a.len && folded < b.len && ron_lower(x[folded]) == ron_lower(y[folded])) {
            folded++;
        }
        while (tail < a.len && tail < b.len && x[a.len - 1 - tail] == y[b.len - 1 - tail]) {
            tail++;
        }
        assert_int_equal(ron_str_equal(a, b), a.len == b.len && same == a.len);
        assert_int_equal(ron_str_equal_nocase(a, b), a.len == b.len && folded == a.len);
        assert_int_equal(ron_str_starts(a, b), same == b.len);
        assert_int_equal(ron_str_ends(a, b), tail == b.len);
        int order = same < a.len && same < b.len ? (unsigned char)x[same] - (unsigned char)y[same]
                                                 : (a.len > b.len) - (a.len < b.len);

        assert_int_equal((ron_str_compare(a, b) > 0) - (ron_str_compare(a, b) < 0),
                         (order > 0) - (order < 0));
    }
}

static void test_str__case__folds_ascii_letters_alone(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        for (int d = 0; d < 256; d++) {
            char x = (char)c;
            char y = (char)d;
            bool letters =
                (c >= 'A' && c <= 'Z' && d == c + 32) || (d >= 'A' && d <= 'Z' && c == d + 32);

            assert_int_equal(ron_str_equal_nocase((struct ron_str){&x, 1}, (struct ron_str){&y, 1}),
                             c == d || letters);
        }
    }
    assert_true(ron_str_is_nocase(RON_STR_LIT("Content-Length"), "content-LENGTH"));
    assert_false(ron_str_is_nocase(RON_STR_LIT("Content-Length"), "content-lengt"));
}

static void test_str__skip_and_cut__leave_the_input_on_failure(void **state)
{
    struct ron_str s = RON_STR_LIT("key=a=b");
    struct ron_str before = RON_STR_LIT("untouched");
    struct ron_str after = before;

    (void)state;
    assert_false(ron_str_skip(&s, RON_STR_LIT("keys")));
    assert_true(ron_str_is(s, "key=a=b"));
    assert_false(ron_str_cut(s, ':', &before, &after));
    assert_false(ron_str_cut(none, ':', &before, &after));
    assert_true(ron_str_is(before, "untouched") && ron_str_is(after, "untouched"));
    assert_true(ron_str_cut(s, '=', &before, &s)); /* S5: a result may be the input */
    assert_true(ron_str_is(before, "key") && ron_str_is(s, "a=b"));
    assert_true(ron_str_cut(s, '=', &s, &after));
    assert_true(ron_str_is(s, "a") && ron_str_is(after, "b"));
    assert_true(ron_str_skip(&s, RON_STR_LIT("a")) && s.len == 0);
    assert_true(ron_str_skip(&s, none));
    s = none;
    assert_true(ron_str_skip(&s, RON_STR_LIT("")) && s.ptr == NULL);
    assert_false(ron_str_skip(&s, RON_STR_LIT("x")));
}

static void test_str__lines__end_with_their_newline(void **state)
{
    struct ron_str rest = RON_STR_LIT("one\n\nthree");
    struct ron_str line = none;

    (void)state;
    assert_true(ron_str_line(&rest, &line) && ron_str_is(line, "one"));
    assert_true(ron_str_line(&rest, &line) && ron_str_is(line, ""));
    assert_false(ron_str_line(&rest, &line));
    assert_true(ron_str_is(rest, "three"));
    rest = none;
    assert_false(ron_str_line(&rest, &line));
}

static void test_str__trim__takes_blanks_and_tabs_alone(void **state)
{
    (void)state;
    assert_true(ron_str_is(ron_str_trim(RON_STR_LIT(" \t a b\t ")), "a b"));
    assert_true(ron_str_is(ron_str_trim(RON_STR_LIT("\na\r")), "\na\r"));
    assert_int_equal(ron_str_trim(RON_STR_LIT(" \t ")).len, 0);
}

static void test_str__decimals__have_one_spelling(void **state)
{
    static const char *const refused[] = {"",   "00", "01", "-1",  "+1", " 1",
                                          "1 ", "1a", "٣",  "1.0", "0x1"};
    struct ron_rand rand = support_rand();
    uint64_t value = 77;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(refused); i++) {
        assert_false(ron_str_u64(ron_str_of(refused[i]), UINT64_MAX, &value));
    }
    assert_false(ron_str_u64(none, UINT64_MAX, &value));
    assert_false(ron_str_u64(RON_STR_LIT("18446744073709551616"), UINT64_MAX, &value));
    assert_false(ron_str_u64(RON_STR_LIT("99999999999999999999999"), UINT64_MAX, &value));
    assert_int_equal(value, 77); /* S5 */
    assert_true(ron_str_u64(RON_STR_LIT("18446744073709551615"), UINT64_MAX, &value));
    assert_true(value == UINT64_MAX);
    assert_true(ron_str_u64(RON_STR_LIT("0"), 0, &value) && value == 0);
    assert_false(ron_str_u64(RON_STR_LIT("1"), 0, &value));
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t n = support_rand_edgy_u64(&rand);
        uint64_t max = support_rand_edgy_u64(&rand);
        char text[32];

        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)n);
        value = 0;
        assert_int_equal(ron_str_u64(ron_str_of(text), max, &value), n <= max);
        assert_true(value == (n <= max ? n : 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_str__literals_and_null__have_their_length),
        cmocka_unit_test(test_str__random_pairs__compare_like_plain_loops),
        cmocka_unit_test(test_str__case__folds_ascii_letters_alone),
        cmocka_unit_test(test_str__skip_and_cut__leave_the_input_on_failure),
        cmocka_unit_test(test_str__lines__end_with_their_newline),
        cmocka_unit_test(test_str__trim__takes_blanks_and_tabs_alone),
        cmocka_unit_test(test_str__decimals__have_one_spelling),
    };

    return cmocka_run_group_tests_name("unit.base.str", tests, NULL, NULL);
}
