/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: Cache-Control is read as edge/rules/cc.h says, the doubtful in the strictest way; lists,
 * weights, Age and dates as well.
 * Method: tables of headers and what is read of them. */
#include "unit/edge/edge_fields.h"

#include "edge/rules/cc.h"

#define NONE EDG_SECONDS_NONE
#define MOST EDG_SECONDS_MAX

/* ---- lists ----------------------------------------------------------------------------------- */

static void test_fields__list__elements_of_all_lines(void **state)
{
    static const struct {
        const char *lines;
        const char *elements; /* with '|' behind each */
    } rows[] = {
        {"", ""},
        {"A: ", ""},
        {"A: ,, ,", ""},
        {"A: x", "x|"},
        {"A: x,y", "x|y|"},
        {"A:  x ,\t y ", "x|y|"},
        {"A: x\nB: no\na: y, z", "x|y|z|"},
        {"A: \"x,y\", z", "\"x,y\"|z|"},
        {"A: \"x\\\",y\", z", "\"x\\\",y\"|z|"},
        {"A: \"x, y\nA: z", "\"x, y|z|"},
        {"A: \"x\\", "\"x\\|"},
    };
    struct fields f;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        char got[256] = "";
        struct edg_list list;
        struct ron_str item;

        set_lines(&f, rows[i].lines);
        list = edg_list_of(view(&f), "A");
        while (edg_list_next(&list, &item)) {
            size_t len = strlen(got);

            RON_IGNORE(snprintf(got + len, sizeof got - len, "%.*s|", (int)item.len, item.ptr));
        }
        assert_string_equal(got, rows[i].elements);
    }
    set_lines(&f, "Connection: close\nConnection: X-One , tWo");
    assert_true(edg_list_has(view(&f), "connection", ron_str_of("TWO")));
    assert_false(edg_list_has(view(&f), "connection", ron_str_of("tw")));
}

static void test_fields__weights__by_the_grammar(void **state)
{
    static const struct {
        const char *item;
        int weight; /* -1: malformed */
    } rows[] = {
        {"gzip", 1000},
        {"gzip;q=1", 1000},
        {"gzip;q=1.000", 1000},
        {"gzip;q=0", 0},
        {"gzip;q=0.5", 500},
        {"gzip ; q=0.05", 50},
        {"gzip;Q=0.123", 123},
        {"*;q=0.", 0},
        {"gzip;q=1.", 1000},
        {"gzip;q=1.001", -1},
        {"gzip;q=2", -1},
        {"gzip;q=0.1234", -1},
        {"gzip;q=-1", -1},
        {"gzip;q=", -1},
        {"gzip;q", -1},
        {"gzip;", -1},
        {"gzip;level=1", -1},
        {"gzip;q=0.5;x=1", -1},
        {"", -1},
        {";q=1", -1},
        {"g zip", -1},
        {"gzip;q=0x1", -1},
        {"gzip;q = 0.5", -1},
        {"gzip;q=01", -1},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_str name;
        uint32_t weight = 7777;
        enum ron_rc rc = edg_weighted(ron_str_of(rows[i].item), &name, &weight);

        if (rows[i].weight < 0) {
            assert_int_equal(rc, RON_INVALID);
            assert_int_equal(weight, 7777);
        } else {
            assert_int_equal(rc, RON_OK);
            assert_int_equal(weight, rows[i].weight);
        }
    }
}

/* ---- directives ------------------------------------------------------------------------------ */

struct row {
    const char *lines;
    uint32_t flags;
    uint64_t max_age_s;
    uint64_t s_maxage_s;
};

static const struct row answers[] = {
    {"", 0, NONE, NONE},
    {"Cache-Control: max-age=3600", 0, 3600, NONE},
    {"Cache-Control: MaX-aGe=3600", 0, 3600, NONE},
    {"Cache-Control: max-age=\"3600\"", 0, 3600, NONE},
    {"Cache-Control: max-age=003600", 0, 3600, NONE},
    {"Cache-Control: max-age=2147483648", 0, MOST, NONE},
    {"Cache-Control: max-age=99999999999999999999999", 0, MOST, NONE},
    {"Cache-Control: max-age='3600'", 0, 0, NONE},
    {"Cache-Control: max-age=-3600", 0, 0, NONE},
    {"Cache-Control: max-age=3600.0", 0, 0, NONE},
    {"Cache-Control: max-age=3600a", 0, 0, NONE},
    {"Cache-Control: max-age=a3600", 0, 0, NONE},
    {"Cache-Control: max-age", 0, 0, NONE},
    {"Cache-Control: max-age=", 0, 0, NONE},
    {"Cache-Control: max-age=\"\"", 0, 0, NONE},
    {"Cache-Control: max-age =3600", 0, 0, NONE},
    {"Cache-Control: max-age= 3600", 0, 0, NONE},
    {"Cache-Control: max-age=3600 60", 0, 0, NONE},
    {"Cache-Control: max-age=3600, max-age=1800", 0, 1800, NONE},
    {"Cache-Control: max-age=1, max-age=1800", 0, 1, NONE},
    {"Cache-Control: max-age=3600\nCache-Control: max-age=x", 0, 0, NONE},
    {"Cache-Control: max-age=3600\nCache-Control: s-maxage=1", 0, 3600, 1},
    {"Cache-Control: s-maxage=5,max-age=6", 0, 6, 5},
    {"Cache-Control: extension=\"max-age=3600\", max-age=1", 0, 1, NONE},
    {"Cache-Control: max-age=1, extension=\"max-age=3600, no-store\"", 0, 1, NONE},
    {"Cache-Control: e=\"\\\", max-age=9\", max-age=1", 0, 1, NONE},
    {"Cache-Control: foobar, max-age=3600", 0, 3600, NONE},
    {"Cache-Control: xmax-age=1, max-agex=2", 0, NONE, NONE},
    {"Cache-Control: No-StOrE", EDG_CC_NO_STORE, NONE, NONE},
    {"Cache-Control: no-store=1", EDG_CC_NO_STORE, NONE, NONE},
    {"Cache-Control: no-store yes", EDG_CC_NO_STORE, NONE, NONE},
    {"Cache-Control: xno-store, no-storex, no_store", 0, NONE, NONE},
    {"Cache-Control: max-age=1, foo=\"bar", EDG_CC_NO_STORE, 1, NONE},
    {"Cache-Control: foo=\"bar, no-cache", EDG_CC_NO_STORE, NONE, NONE},
    {"Cache-Control: public, must-revalidate", EDG_CC_PUBLIC | EDG_CC_MUST_REVALIDATE, NONE, NONE},
    {"Cache-Control: public=1, must-understand=2, immutable=\"\"", 0, NONE, NONE},
    {"Cache-Control: public x", 0, NONE, NONE},
    {"Cache-Control: must-understand, immutable", EDG_CC_MUST_UNDERSTAND | EDG_CC_IMMUTABLE, NONE,
     NONE},
    {"Cache-Control: proxy-revalidate, no-transform", EDG_CC_PROXY_REVALIDATE | EDG_CC_NO_TRANSFORM,
     NONE, NONE},
    {"Cache-Control: private", EDG_CC_PRIVATE, NONE, NONE},
    {"Cache-Control: private=\"set-cookie\"", 0, NONE, NONE},
    {"Cache-Control: no-cache=\"a, b\"", 0, NONE, NONE},
    {"Cache-Control: no-cache=\"a\", no-cache", EDG_CC_NO_CACHE, NONE, NONE},
    {"Cache-Control: no-cache=a", EDG_CC_NO_CACHE, NONE, NONE},
    {"Cache-Control: no-cache=\"\"", EDG_CC_NO_CACHE, NONE, NONE},
    {"Cache-Control: no-cache=\" , \"", EDG_CC_NO_CACHE, NONE, NONE},
    {"Cache-Control: private=\"a b\"", EDG_CC_PRIVATE, NONE, NONE},
    {"Cache-Control: private=\"a\"b\"\"", EDG_CC_PRIVATE, NONE, NONE},
    {"Cache-Control: private=\"Content-Encoding\"", EDG_CC_PRIVATE, NONE, NONE},
    {"Cache-Control: no-cache=\"x, vary\"", EDG_CC_NO_CACHE, NONE, NONE},
    {"Pragma: no-cache", 0, NONE, NONE},
};

static void test_cc__answers__strictest_reading(void **state)
{
    struct fields f;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(answers); i++) {
        struct edg_cc cc;

        set_lines(&f, answers[i].lines);
        edg_cc_response(view(&f), &cc);
        if (cc.flags != answers[i].flags || cc.max_age_s != answers[i].max_age_s ||
            cc.s_maxage_s != answers[i].s_maxage_s) {
            fail_msg("%s: flags %x, max-age %llu, s-maxage %llu", answers[i].lines, cc.flags,
                     (unsigned long long)cc.max_age_s, (unsigned long long)cc.s_maxage_s);
        }
    }
}

static void test_cc__requests__their_own_directives(void **state)
{
    static const struct {
        const char *lines;
        uint32_t flags;
        uint64_t max_stale_s;
        uint64_t min_fresh_s;
    } rows[] = {
        {"Cache-Control: max-stale", 0, MOST, NONE},
        {"Cache-Control: max-stale=10", 0, 10, NONE},
        {"Cache-Control: max-stale, max-stale=10", 0, 10, NONE},
        {"Cache-Control: max-stale=10, max-stale", 0, 10, NONE},
        {"Cache-Control: max-stale=", 0, 0, NONE},
        {"Cache-Control: min-fresh=10", 0, NONE, 10},
        {"Cache-Control: min-fresh=10, min-fresh=20", 0, NONE, 20},
        {"Cache-Control: min-fresh=x", 0, NONE, MOST},
        {"Cache-Control: only-if-cached, no-cache", EDG_CC_ONLY_IF_CACHED | EDG_CC_NO_CACHE, NONE,
         NONE},
        {"Pragma: no-cache", EDG_CC_NO_CACHE, NONE, NONE},
        {"Pragma: x, No-Cache", EDG_CC_NO_CACHE, NONE, NONE},
        {"Pragma: no-cache\nCache-Control: max-age=1", 0, NONE, NONE},
        {"Pragma: no-cache\nCache-Control: ", 0, NONE, NONE},
        {"Pragma: unknown", 0, NONE, NONE},
    };
    struct fields f;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct edg_cc cc;

        set_lines(&f, rows[i].lines);
        edg_cc_request(view(&f), &cc);
        assert_int_equal(cc.flags, rows[i].flags);
        assert_int_equal(cc.max_stale_s, rows[i].max_stale_s);
        assert_int_equal(cc.min_fresh_s, rows[i].min_fresh_s);
    }
    set_lines(&f,
              "Cache-Control: stale-while-revalidate=5, stale-if-error=6, stale-if-error=\"4\"");
    {
        struct edg_cc cc;

        edg_cc_response(view(&f), &cc);
        assert_int_equal(cc.stale_while_revalidate_s, 5);
        assert_int_equal(cc.stale_if_error_s, 4);
    }
}

static void test_cc__named_fields__withheld(void **state)
{
    struct fields f;

    (void)state;
    set_lines(&f,
              "Cache-Control: no-cache=\"a, B\", max-age=1\nCache-Control: private=\"Set-Cookie\"");
    assert_true(edg_cc_withheld(view(&f), ron_str_of("A")));
    assert_true(edg_cc_withheld(view(&f), ron_str_of("b")));
    assert_true(edg_cc_withheld(view(&f), ron_str_of("set-cookie")));
    assert_false(edg_cc_withheld(view(&f), ron_str_of("c")));
    assert_false(edg_cc_withheld(view(&f), ron_str_of("max-age")));
    set_lines(&f, "Cache-Control: no-cache=a, private=\"b, content-type\", other=\"c\"");
    assert_false(edg_cc_withheld(view(&f), ron_str_of("a")));
    assert_false(edg_cc_withheld(view(&f), ron_str_of("b")));
    assert_false(edg_cc_withheld(view(&f), ron_str_of("c")));
}

/* ---- age and dates --------------------------------------------------------------------------- */

static void test_cc__age__one_whole_number_or_unknown(void **state)
{
    static const char *const bad[] = {
        "Age: abc",    "Age: -7200", "Age: 7200.0",       "Age: 7200,0",    "Age: 0,7200",
        "Age: 0, 0",   "Age: ",      "Age: 7200\nAge: 0", "Age: 0\nAge: 0", "Age: 1;foo=bar",
        "Age: 1;q=11", "Age: \"1\"", "Age: +1",           "Age: 0x1",       "Age: 1 2",
    };
    struct fields f;
    uint64_t age_s = 1;

    (void)state;
    set_lines(&f, "");
    assert_int_equal(edg_age(view(&f), &age_s), RON_OK);
    assert_int_equal(age_s, 0);
    set_lines(&f, "Age: 30");
    assert_int_equal(edg_age(view(&f), &age_s), RON_OK);
    assert_int_equal(age_s, 30);
    set_lines(&f, "Age: 99999999999");
    assert_int_equal(edg_age(view(&f), &age_s), RON_OK);
    assert_int_equal(age_s, MOST);
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        age_s = 5;
        set_lines(&f, bad[i]);
        assert_int_equal(edg_age(view(&f), &age_s), RON_INVALID);
        assert_int_equal(age_s, 5);
    }
}

static void test_cc__date__once_and_a_date(void **state)
{
    struct fields f;
    uint64_t s = 0;

    (void)state;
    set_lines(&f, "Expires: {100}");
    assert_int_equal(edg_date(view(&f), "expires", T0_S, &s), RON_OK);
    assert_int_equal(s, T0_S + 100);
    set_lines(&f, "Expires: {rfc850 -100}");
    assert_int_equal(edg_date(view(&f), "expires", T0_S, &s), RON_OK);
    assert_int_equal(s, T0_S - 100);
    assert_int_equal(edg_date(view(&f), "Date", T0_S, &s), RON_NOTFOUND);
    set_lines(&f, "Expires: 0");
    assert_int_equal(edg_date(view(&f), "Expires", T0_S, &s), RON_INVALID);
    set_lines(&f, "Expires: {100}\nExpires: {100}");
    assert_int_equal(edg_date(view(&f), "Expires", T0_S, &s), RON_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields__list__elements_of_all_lines),
        cmocka_unit_test(test_fields__weights__by_the_grammar),
        cmocka_unit_test(test_cc__answers__strictest_reading),
        cmocka_unit_test(test_cc__requests__their_own_directives),
        cmocka_unit_test(test_cc__named_fields__withheld),
        cmocka_unit_test(test_cc__age__one_whole_number_or_unknown),
        cmocka_unit_test(test_cc__date__once_and_a_date),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
