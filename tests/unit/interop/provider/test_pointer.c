/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: pointers find what RFC 6901 says, over the bytes of a document, and decimals are exact.
 * Method: the document of the RFC; a table of hard cases; random decimals against integers. */
#include "support/support.h"

#include "interop/provider/pointer.h"

static enum iop_found find(const char *text, const char *pointer, struct iop_value *value)
{
    struct iop_doc doc;

    assert_true(iop_doc_init(&doc, text, strlen(text)));
    assert_int_equal(iop_pointer_check(pointer, NULL), RON_OK);
    return iop_pointer_find(&doc, pointer, value);
}

static void test_pointer__document_of_the_rfc__each_pointer(void **state)
{
    static const char text[] = "{\"foo\": [\"bar\", \"baz\"], \"\": 0, \"a/b\": 1, \"c%d\": 2,"
                               "\"e^f\": 3, \"g|h\": 4, \"i\\\\j\": 5, \"k\\\"l\": 6, \" \": 7,"
                               "\"m~n\": 8}";
    static const struct {
        const char *pointer;
        const char *raw;
    } rows[] = {{"", text},        {"/foo", "[\"bar\", \"baz\"]"},
                {"/foo/0", "bar"}, {"/", "0"},
                {"/a~1b", "1"},    {"/c%d", "2"},
                {"/e^f", "3"},     {"/g|h", "4"},
                {"/i\\j", "5"},    {"/k\"l", "6"},
                {"/ ", "7"},       {"/m~0n", "8"}};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct iop_value v;

        assert_int_equal(find(text, rows[i].pointer, &v), IOP_FOUND);
        assert_true(ron_str_is(v.raw, rows[i].raw));
    }
}

static void test_pointer__hard_cases__as_the_contract_says(void **state)
{
    static const struct {
        const char *text;
        const char *pointer;
        enum iop_found found;
        const char *value; /* escapes resolved */
    } rows[] = {
        {"[]", "/0", IOP_MISSING, ""},
        {"[1,2]", "/-", IOP_MISSING, ""},
        {"[1,2]", "/01", IOP_MISSING, ""},
        {"[1,2]", "/2", IOP_MISSING, ""},
        {"[1,2]", "/1", IOP_FOUND, "2"},
        {"[1,2]", "/9999999999", IOP_MISSING, ""},
        {" [ [ ] , { } , \"]\" , 3 ] ", "/3", IOP_FOUND, "3"},
        {"{\"a\":{\"b\":\"}\\\"{\"},\"c\":1}", "/c", IOP_FOUND, "1"},
        {"{\"a\":\"\\u00e4\\ud83d\\ude00\\n\\/\"}", "/a", IOP_FOUND, "\xc3\xa4\xf0\x9f\x98\x80\n/"},
        {"{\"\\u0061\\u00e4\":1}", "/a\xc3\xa4", IOP_FOUND, "1"},
        {"{\"a\":1,\"a\":2}", "/a", IOP_TWICE, ""},
        {"{\"a\":1,\"\\u0061\":2}", "/a", IOP_TWICE, ""},
        {"{\"a\":{\"x\":1},\"a\":{\"y\":2}}", "/a/y", IOP_TWICE, ""},
        {"{\"b\":1,\"b\":2,\"a\":3}", "/a", IOP_FOUND, "3"},
        {"{\"a\":null}", "/a", IOP_FOUND, "null"},
        {"{\"a\":null}", "/a/b", IOP_MISSING, ""},
        {"\"text\"", "", IOP_FOUND, "text"},
        {"\"text\"", "/0", IOP_MISSING, ""},
        {"-12.5e3", "", IOP_FOUND, "-12.5e3"},
        {"{\"ab\":1}", "/a", IOP_MISSING, ""},
        {"{\"a\":1}", "/ab", IOP_MISSING, ""},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct iop_value v;
        char text[64];
        size_t len = 0;

        assert_int_equal(find(rows[i].text, rows[i].pointer, &v), rows[i].found);
        if (rows[i].found == IOP_FOUND) {
            struct ron_str want = {rows[i].value, strlen(rows[i].value)};

            assert_int_equal(iop_value_text(&v, text, sizeof text, &len), RON_OK);
            assert_int_equal(len, want.len);
            assert_memory_equal(text, want.ptr, len);
            assert_true(iop_value_is(&v, want));
            assert_true(iop_value_begins(&v, (struct ron_str){want.ptr, want.len - 1}));
            assert_false(iop_value_is(&v, (struct ron_str){want.ptr, want.len - 1}));
            assert_int_equal(iop_value_text(&v, text, want.len - 1, &len), RON_LIMIT);
        }
    }
}

static void test_pointer__not_json__nothing_is_found(void **state)
{
    static const char *const texts[] = {"",           "{",    "{\"a\":1}x", "{'a':1}",
                                        "{\"a\":01}", "\xff", "a=b&c=d"};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(texts); i++) {
        struct iop_doc doc;
        struct iop_value v;

        assert_false(iop_doc_init(&doc, texts[i], strlen(texts[i])));
        assert_int_equal(iop_pointer_find(&doc, "/a", &v), IOP_MISSING);
        assert_int_equal(iop_pointer_find(&doc, "", &v), IOP_MISSING);
    }
}

static void test_pointer__its_text__checked(void **state)
{
    char deep[64] = "";

    (void)state;
    assert_int_equal(iop_pointer_check("", NULL), RON_OK);
    assert_int_equal(iop_pointer_check("/a~0~1", NULL), RON_OK);
    assert_int_equal(iop_pointer_check("a", NULL), RON_INVALID);
    assert_int_equal(iop_pointer_check("/a~", NULL), RON_INVALID);
    assert_int_equal(iop_pointer_check("/a~2", NULL), RON_INVALID);
    for (size_t i = 0; i < IOP_POINTER_DEPTH; i++) {
        deep[2 * i] = '/';
        deep[2 * i + 1] = 'a';
    }
    assert_int_equal(iop_pointer_check(deep, NULL), RON_OK);
    deep[2 * IOP_POINTER_DEPTH] = '/';
    assert_int_equal(iop_pointer_check(deep, NULL), RON_INVALID);
}

/* ---- decimals -------------------------------------------------------------------------------- */

static bool decimal(const char *text, struct iop_decimal *d)
{
    return iop_decimal_parse((struct ron_str){text, strlen(text)}, d);
}

static void test_decimal__money__exact_or_refused(void **state)
{
    static const struct {
        const char *text;
        uint32_t scale;
        enum ron_rc rc;
        const char *money;
    } rows[] = {
        {"2000", 0, RON_OK, "2000"},
        {"12.34", 2, RON_OK, "1234"},
        {"12.3", 2, RON_OK, "1230"},
        {"12", 2, RON_OK, "1200"},
        {"12.340", 2, RON_OK, "1234"},
        {"12.345", 2, RON_INVALID, ""},
        {"0.1", 0, RON_INVALID, ""},
        {"0.10", 1, RON_OK, "1"},
        {"0", 2, RON_OK, "0"},
        {"-0.00", 2, RON_OK, "0"},
        {"-1", 0, RON_INVALID, ""},
        {"340282366920938463463374607431768211455", 0, RON_OK,
         "340282366920938463463374607431768211455"},
        {"340282366920938463463374607431768211456", 0, RON_LIMIT, ""},
        {"340282366920938463463374607431768211455", 1, RON_LIMIT, ""},
    };
    static const char *const bad[] = {"",   "-",  ".5", "5.",  "1e3", "1E3", "+1",  "01",
                                      "00", " 1", "1 ", "0x1", "1,5", "NaN", "--1", "1.2.3"};
    struct iop_decimal d;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_money m = RON_MONEY_ZERO;
        char text[RON_MONEY_TEXT_SIZE];

        assert_true(decimal(rows[i].text, &d));
        assert_int_equal(iop_decimal_money(&d, rows[i].scale, &m), rows[i].rc);
        if (rows[i].rc == RON_OK) {
            (void)ron_money_format(m, text);
            assert_string_equal(text, rows[i].money);
        }
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        assert_false(decimal(bad[i], &d));
    }
}

/* Numbers with three places, as integers on the other side. */
static void test_decimal__compare__as_integers_do(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (size_t round = 0; round < 20000; round++) {
        int64_t v[2];
        char text[2][32];
        struct iop_decimal d[2];

        for (size_t i = 0; i < 2; i++) {
            int64_t size = (int64_t)ron_rand_below(&rand, ron_rand_chance(&rand, 1, 2) ? 3000 : 9);
            int places = (int)ron_rand_below(&rand, 4);

            v[i] = ron_rand_chance(&rand, 1, 3) ? -size : size;
            if (places < 3) {
                v[i] -= v[i] % (places == 0 ? 1000 : places == 1 ? 100 : 10);
            }
            RON_IGNORE(snprintf(text[i], sizeof text[i], "%s%lld.%03lld", v[i] < 0 ? "-" : "",
                                (long long)llabs(v[i]) / 1000, (long long)llabs(v[i]) % 1000));
            text[i][strlen(text[i]) - (size_t)(places == 0 ? 4 : 3 - places)] = '\0';
            assert_true(decimal(text[i], &d[i]));
        }
        assert_int_equal(iop_decimal_compare(&d[0], &d[1]), (v[0] > v[1]) - (v[0] < v[1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pointer__document_of_the_rfc__each_pointer),
        cmocka_unit_test(test_pointer__hard_cases__as_the_contract_says),
        cmocka_unit_test(test_pointer__not_json__nothing_is_found),
        cmocka_unit_test(test_pointer__its_text__checked),
        cmocka_unit_test(test_decimal__money__exact_or_refused),
        cmocka_unit_test(test_decimal__compare__as_integers_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
