/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what the public corpus does not say: places, order, limits, and that values stay out of
 * messages. The corpus itself is test_toml_corpus.c.
 * Method: small texts, each with the tree or the whole message that must come out. */
#include "support/support.h"

#include "ron/conf/toml.h"

static struct ron_toml *parse(const char *text)
{
    struct ron_toml *doc = NULL;
    struct ron_err err = {0};

    if (ron_toml_parse("t", text, strlen(text), &doc, &err) != RON_OK) {
        fail_msg("refused: %s", err.msg);
    }
    return doc;
}

static void refuse(const char *text, const char *message)
{
    struct ron_toml *doc = NULL;
    struct ron_err err = {0};

    assert_int_equal(ron_toml_parse("t", text, strlen(text), &doc, &err), RON_INVALID);
    assert_null(doc);
    assert_string_equal(err.msg, message);
}

static void test_toml__every_type__has_value_and_place(void **state)
{
    (void)state;
    static const char text[] = "a = \"x\\u00e9\"\n"
                               "[t]\n"
                               "b = [1, 0xff, -7]\n"
                               "c = { d.e = 1.5 }\n"
                               "d = 2020-02-29 23:59:60.5-01:30\n"
                               "e = true\n";
    struct ron_toml *doc = parse(text);
    const struct ron_toml_value *root = ron_toml_root(doc);
    const struct ron_toml_value *a = ron_toml_find(root, "a");
    const struct ron_toml_value *t = ron_toml_find(root, "t");
    const struct ron_toml_value *b = ron_toml_find(t, "b");
    const struct ron_toml_value *d = ron_toml_find(t, "d");
    uint32_t line = 0;
    uint32_t column = 0;

    assert_int_equal(a->type, RON_TOML_STRING);
    assert_string_equal(a->string.text, "x\xc3\xa9");
    assert_int_equal(b->count, 3);
    assert_int_equal(b->first->next->integer, 255);
    assert_int_equal(b->last->integer, -7);
    ron_toml_position(text, strlen(text), b->last->offset, &line, &column);
    assert_int_equal(line, 3);
    assert_int_equal(column, 15);
    assert_true(ron_toml_find(ron_toml_find(ron_toml_find(t, "c"), "d"), "e")->real == 1.5);
    assert_int_equal(d->type, RON_TOML_DATETIME);
    assert_int_equal(d->time.nanos, 500000000);
    assert_int_equal(d->time.offset_min, -90);
    assert_true(ron_toml_find(t, "e")->boolean);
    assert_null(ron_toml_find(root, "b"));
    /* T5: order of the text. */
    assert_string_equal(t->first->key, "b");
    assert_string_equal(t->last->key, "e");
    ron_toml_free(doc);
}

static void test_toml__mistake__gives_line_and_column_in_characters(void **state)
{
    (void)state;
    refuse("a = 1\n\"\xc3\xa9\xc3\xa9\" = ]", "t:2:8: ']' where a value should stand");
    refuse("a = 1\r\nb = 2 c", "t:2:7: 'c' after the end of the entry; each has a line of its own");
    refuse("a = 1\na = 2", "t:2:1: \"a\" is already defined in line 1");
    refuse("a.b = 1\n[a]", "t:2:2: \"a\" is already defined in line 1");
    refuse("x = \"abc\ny = 1", "t:1:5: the string has no end on its line");
    refuse("x = '''abc\ny", "t:1:5: the string has no end");
    refuse("x = 9223372036854775808", "t:1:5: the integer does not fit 64 bits");
    refuse("x = 01", "t:1:5: a decimal number has no leading zeros");
    refuse("x = \"\\q\"", "t:1:6: unknown escape; known are \\b \\t \\n \\f \\r \\\" \\\\ \\uXXXX "
                          "\\UXXXXXXXX");
    refuse("x = { a = 1, }", "t:1:14: no comma may stand before the end of an inline table");
    refuse("x = \"\xff\"", "t:1:6: the byte 0xff is not valid UTF-8 here");
}

static void test_toml__unquoted_secret__is_not_in_the_message(void **state)
{
    (void)state;
    static const char *const texts[] = {"token = hunter2secret",       "token = 1hunter2secret",
                                        "token = \"hunter2secret",     "token = 2020-hunter2secret",
                                        "token = \"hunter2secret\" x", "token = [hunter2secret]"};

    for (size_t i = 0; i < RON_ARRAY_LEN(texts); i++) {
        struct ron_toml *doc = NULL;
        struct ron_err err = {0};

        assert_int_equal(ron_toml_parse("t", texts[i], strlen(texts[i]), &doc, &err), RON_INVALID);
        assert_null(strstr(err.msg, "hunter"));
    }
}

static void test_toml__long_name__keeps_its_end_and_the_reason(void **state)
{
    (void)state;
    char name[300];
    struct ron_toml *doc = NULL;
    struct ron_err err = {0};

    memset(name, 'd', sizeof(name));
    memcpy(name + sizeof(name) - 10, "/ron.toml", 10);
    assert_int_equal(ron_toml_parse(name, "x", 1, &doc, &err), RON_INVALID);
    assert_non_null(strstr(err.msg, "/ron.toml:1:2: end of file where = should follow the key"));
}

/* `count` times a text, and an end. */
static char *repeat(const char *text, size_t count, const char *end)
{
    size_t len = strlen(text);
    char *all = malloc(len * count + strlen(end) + 1);

    assert_non_null(all);
    for (size_t i = 0; i < count; i++) {
        memcpy(all + i * len, text, len);
    }
    memcpy(all + len * count, end, strlen(end) + 1);
    return all;
}

static enum ron_rc parse_rc(const char *text, size_t len, struct ron_err *err)
{
    struct ron_toml *doc = NULL;
    enum ron_rc rc = ron_toml_parse("t", text, len, &doc, err);

    ron_toml_free(doc);
    return rc;
}

static void test_toml__limits__are_reached_and_not_passed(void **state)
{
    (void)state;
    struct ron_err err = {0};
    /* The root's member is at depth 1, so the array may nest to DEPTH_MAX. */
    char *deep = repeat("[", RON_TOML_DEPTH_MAX - 1, "1");
    char *text = malloc(RON_TOML_BYTES_MAX + 1);
    size_t len = 0;

    assert_non_null(text);
    len = (size_t)snprintf(text, 1000, "a=%s", deep);
    memset(text + len, ']', RON_TOML_DEPTH_MAX - 1);
    assert_int_equal(parse_rc(text, len + RON_TOML_DEPTH_MAX - 1, &err), RON_OK);
    free(deep);

    deep = repeat("a.", RON_TOML_DEPTH_MAX, "b=1");
    assert_int_equal(parse_rc(deep, strlen(deep), &err), RON_LIMIT);
    assert_non_null(strstr(err.msg, "32 deep"));
    assert_int_equal(parse_rc(deep + 2, strlen(deep) - 2, &err), RON_OK);
    free(deep);

    /* One array and its elements. */
    char *many = repeat("1,", RON_TOML_VALUES_MAX - 1, "]");

    len = (size_t)snprintf(text, RON_TOML_BYTES_MAX, "a=[%s", many);
    assert_int_equal(parse_rc(text, len, &err), RON_OK);
    len = (size_t)snprintf(text, RON_TOML_BYTES_MAX, "a=[1,%s", many);
    assert_int_equal(parse_rc(text, len, &err), RON_LIMIT);
    free(many);

    memset(text, '#', RON_TOML_BYTES_MAX + 1);
    assert_int_equal(parse_rc(text, RON_TOML_BYTES_MAX, &err), RON_OK);
    assert_int_equal(parse_rc(text, RON_TOML_BYTES_MAX + 1, &err), RON_LIMIT);
    free(text);
}

/* The block is sized from the text; the densest texts must fit it. */
static void test_toml__dense_texts__fit_their_memory(void **state)
{
    (void)state;
    static const char *const pieces[] = {"a.a.", "[[a]]\n", "''.", "[a.b.c]\n",
                                         "[],",  "{},",     "'',"};

    for (size_t i = 0; i < RON_ARRAY_LEN(pieces); i++) {
        for (size_t count = 1; count < 40; count++) {
            char *body = repeat(pieces[i], count, "");
            char text[400];
            struct ron_err err = {0};
            const char *form = strchr(pieces[i], ',') != NULL ? "a=[%s]" : "%s";

            (void)snprintf(text, sizeof(text), "%s%s", form[0] == 'a' ? "a=[" : "", body);
            (void)snprintf(text + strlen(text), 8, "%s", form[0] == 'a' ? "]" : "");
            enum ron_rc rc = parse_rc(text, strlen(text), &err);

            assert_int_not_equal(rc, RON_NOMEM);
            free(body);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_toml__every_type__has_value_and_place),
        cmocka_unit_test(test_toml__mistake__gives_line_and_column_in_characters),
        cmocka_unit_test(test_toml__unquoted_secret__is_not_in_the_message),
        cmocka_unit_test(test_toml__long_name__keeps_its_end_and_the_reason),
        cmocka_unit_test(test_toml__limits__are_reached_and_not_passed),
        cmocka_unit_test(test_toml__dense_texts__fit_their_memory),
    };

    return cmocka_run_group_tests_name("conf.toml", tests, NULL, NULL);
}
