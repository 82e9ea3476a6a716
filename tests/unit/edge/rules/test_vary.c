/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: Vary has one canonical text, and requests get the same key if and only if they choose the
 * same variant.
 * Method: tables of pairs; limits at their edges. */
#include "unit/edge/edge_fields.h"

#include "edge/rules/vary.h"

static void test_vary__names__canonical_or_any(void **state)
{
    static const struct {
        const char *lines;
        const char *text; /* NULL: any */
    } rows[] = {
        {"", ""},
        {"Vary: ", ""},
        {"Vary: ,", ""},
        {"Vary: Foo", "foo"},
        {"Vary: Foo, bar", "bar,foo"},
        {"Vary: bar,Foo", "bar,foo"},
        {"Vary: b\nVary: a", "a,b"},
        {"Vary: a, A, a", "a"},
        {"Vary: accept-encoding, accept", "accept,accept-encoding"},
        {"Vary: *", NULL},
        {"Vary: *, *", NULL},
        {"Vary: *\nVary: *", NULL},
        {"Vary: , *", NULL},
        {"Vary: \nVary: *", NULL},
        {"Vary: *, Foo", NULL},
        {"Vary: Foo, *", NULL},
        {"Vary: a b", NULL},
        {"Vary: \"a\"", NULL},
        {"Vary: a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p"},
        {"Vary: a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, A",
         "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p"},
        {"Vary: a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q", NULL},
    };
    struct fields f;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct edg_vary vary;

        set_lines(&f, rows[i].lines);
        edg_vary_parse(view(&f), &vary);
        if (vary.any != (rows[i].text == NULL)) {
            fail_msg("%s: any %d", rows[i].lines, vary.any);
        }
        if (!vary.any) {
            assert_string_equal(vary.text, rows[i].text);
            assert_int_equal(vary.len, strlen(rows[i].text));
        }
    }
}

static void test_vary__text_at_its_limit__any_beyond(void **state)
{
    char line[EDG_VARY_TEXT_MAX + 16] = "Vary: ";
    struct edg_vary vary;
    struct fields f;

    (void)state;
    memset(line + 6, 'X', EDG_VARY_TEXT_MAX);
    line[6 + EDG_VARY_TEXT_MAX] = '\0';
    set_lines(&f, line);
    edg_vary_parse(view(&f), &vary);
    assert_false(vary.any);
    assert_int_equal(vary.len, EDG_VARY_TEXT_MAX);
    assert_int_equal(vary.text[0], 'x');
    line[6 + EDG_VARY_TEXT_MAX] = 'X';
    set_lines(&f, line);
    edg_vary_parse(view(&f), &vary);
    assert_true(vary.any);
}

static void key_of(const char *vary, const char *lines, char *out, size_t size)
{
    struct ron_buf buf;
    struct fields f;

    set_lines(&f, lines);
    ron_buf_init_over(&buf, out, size);
    assert_int_equal(edg_vary_key(ron_str_of(vary), view(&f), &buf), RON_OK);
    RON_IGNORE(ron_buf_text(&buf));
}

static void test_vary__key__one_line_a_name(void **state)
{
    char key[256];

    (void)state;
    key_of("", "Foo: 1", key, sizeof key);
    assert_string_equal(key, "");
    key_of("foo", "Foo: 1", key, sizeof key);
    assert_string_equal(key, "foo:1\n");
    key_of("bar,foo", "Foo: 1\nOther: 2", key, sizeof key);
    assert_string_equal(key, "bar\nfoo:1\n");
    key_of("accept-language", "Accept-Language: fr;q=0.50, eN, de;q=1.0", key, sizeof key);
    assert_string_equal(key, "accept-language:de,en,fr;q=500\n");
}

static void test_vary__pairs__same_variant_same_key(void **state)
{
    static const struct {
        const char *vary;
        const char *a;
        const char *b;
        bool same;
    } rows[] = {
        {"foo", "Foo: 1", "Foo: 1", true},
        {"foo", "Foo: 1", "Foo: 2", false},
        {"foo", "Foo: 1", "", false},
        {"foo", "", "", true},
        {"foo", "Foo: ", "", false},
        {"foo", "Foo: 1\nOther: 2", "Foo: 1\nOther: 3", true},
        {"foo", "Foo: 1, 2", "Foo: 1\nFoo: 2", true},
        {"foo", "Foo: 1,2", "Foo:  1, 2 ", true},
        {"foo", "Foo: 1, 2", "Foo: 2, 1", false},
        {"foo", "Foo: a", "Foo: A", false},
        {"foo", "Foo: a b", "Foo: a  b", false},
        {"foo", "Foo: \"1, 2\"", "Foo: \"1,2\"", false},
        {"foo", "Foo: 1 2", "Foo: 1,2", false},
        {"bar,foo", "Foo: 1\nBar: abc", "Bar: abc\nFoo: 1", true},
        {"bar,foo", "Foo: 1\nBar: abc", "Foo: abc\nBar: 1", false},
        {"bar,foo", "Foo: 1", "Bar: 1", false},
        {"accept-language", "Accept-Language: en, de", "Accept-Language: de, en", true},
        {"accept-language", "Accept-Language: en, de", "Accept-Language: eN, De", true},
        {"accept-language", "Accept-Language: en, de", "Accept-Language:  en ,   de", true},
        {"accept-language", "Accept-Language: en, de", "Accept-Language: en, de;q=0.9", false},
        {"accept-language", "Accept-Language: de;q=1.0", "Accept-Language: de", true},
        {"accept-language", "Accept-Language: de;q=1.0, de-at", "Accept-Language: de-at, de", true},
        {"accept-language", "Accept-Language: de;q=0.5", "Accept-Language: de; q=0.500", true},
        {"accept-language", "Accept-Language: de;q=0.5", "Accept-Language: de;q=0.05", false},
        {"accept-language", "Accept-Language: de;q=x", "Accept-Language: de", false},
        {"accept-encoding", "Accept-Encoding: gzip, br",
         "Accept-Encoding: br\nAccept-Encoding: GZIP", true},
        {"accept-encoding", "Accept-Encoding: gzip", "Accept-Encoding: x-gzip", false},
        {"accept", "Accept: text/html, text/*;q=0.5", "Accept: text/*;q=0.5,text/html", true},
        {"accept", "Accept: a/b;p=\"X\"", "Accept: a/b;p=\"x\"", false},
        {"user-agent", "User-Agent: b, a", "User-Agent: a, b", false},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        char a[512];
        char b[512];

        key_of(rows[i].vary, rows[i].a, a, sizeof a);
        key_of(rows[i].vary, rows[i].b, b, sizeof b);
        if ((strcmp(a, b) == 0) != rows[i].same) {
            fail_msg("%s / %s: \"%s\" and \"%s\"", rows[i].a, rows[i].b, a, b);
        }
    }
}

/* "Accept-Language: z0, z1, ..." from high to low, so that sorting would change it. */
static void many(struct fields *f, size_t count)
{
    char line[1024] = "Accept-Language: ";
    size_t len = strlen(line);

    for (size_t i = 0; i < count; i++) {
        len += (size_t)snprintf(line + len, sizeof line - len, "%sz%02zu", i > 0 ? "," : "",
                                count - i);
        assert_true(len < sizeof line);
    }
    set_lines(f, line);
}

static void test_vary__many_elements__sorted_to_the_limit_only(void **state)
{
    struct fields f;
    struct ron_buf buf;
    char key[1024];

    (void)state;
    many(&f, EDG_VARY_ITEMS_MAX);
    ron_buf_init_over(&buf, key, sizeof key);
    assert_int_equal(edg_vary_key(ron_str_of("accept-language"), view(&f), &buf), RON_OK);
    assert_memory_equal(key, "accept-language:z01,z02,", 24);
    many(&f, EDG_VARY_ITEMS_MAX + 1);
    ron_buf_init_over(&buf, key, sizeof key);
    assert_int_equal(edg_vary_key(ron_str_of("accept-language"), view(&f), &buf), RON_OK);
    assert_memory_equal(key, "accept-language:z65,z64,", 24);
}

static void test_vary__long_key__refused(void **state)
{
    static char value[EDG_VARY_KEY_MAX + 1];
    static char memory[2 * EDG_VARY_KEY_MAX];
    const struct ron_http_field field = {ron_str_of("Foo"), {value, EDG_VARY_KEY_MAX - 5}};
    struct ron_http_field longer = {ron_str_of("Foo"), {value, EDG_VARY_KEY_MAX - 4}};
    struct ron_buf buf;

    (void)state;
    memset(value, 'v', sizeof value);
    ron_buf_init_over(&buf, memory, sizeof memory);
    assert_int_equal(edg_vary_key(ron_str_of("foo"), (struct edg_fields){&field, 1}, &buf), RON_OK);
    assert_int_equal(ron_buf_len(&buf), EDG_VARY_KEY_MAX);
    ron_buf_clear(&buf);
    assert_int_equal(edg_vary_key(ron_str_of("foo"), (struct edg_fields){&longer, 1}, &buf),
                     RON_LIMIT);
    ron_buf_init_over(&buf, memory, 8);
    longer.value.len = 10;
    assert_int_equal(edg_vary_key(ron_str_of("foo"), (struct edg_fields){&longer, 1}, &buf),
                     RON_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vary__names__canonical_or_any),
        cmocka_unit_test(test_vary__text_at_its_limit__any_beyond),
        cmocka_unit_test(test_vary__key__one_line_a_name),
        cmocka_unit_test(test_vary__pairs__same_variant_same_key),
        cmocka_unit_test(test_vary__many_elements__sorted_to_the_limit_only),
        cmocka_unit_test(test_vary__long_key__refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
