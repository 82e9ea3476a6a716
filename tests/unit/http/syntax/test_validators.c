/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: dates, ranges, entity tags and conditions mean what RFC 9110 says.
 * Method: its own examples, tables of edges, and the C library's calendar as a second opinion. */
#include "support/support.h"

#include <time.h>

#include "http/syntax/syntax.h"
#include "ron/http/date.h"
#include "ron/http/etag.h"
#include "ron/http/range.h"

#define S(text) ((struct ron_str){(text), sizeof(text) - 1})
#define NOW UINT64_C(1700000000) /* 2023-11-14 */

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

/* ---- dates ----------------------------------------------------------------------------------- */

static void test_date__three_forms__one_moment(void **state)
{
    static const char *const forms[] = {"Sun, 06 Nov 1994 08:49:37 GMT",
                                        "Sunday, 06-Nov-94 08:49:37 GMT",
                                        "Sun Nov  6 08:49:37 1994"};
    uint64_t s = 0;
    char text[RON_HTTP_DATE_SIZE];

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(forms); i++) {
        s = 0;
        assert_int_equal(ron_http_date_parse(str(forms[i]), NOW, &s), RON_OK);
        assert_int_equal(s, 784111777);
    }
    ron_http_date_format(784111777, text);
    assert_string_equal(text, forms[0]);
    assert_int_equal(ron_http_date_parse(S("Wed Nov 16 08:49:37 1994"), NOW, &s), RON_OK);
    /* date3 = month SP ( 2DIGIT / ( SP 1DIGIT )): both are to be read. */
    s = 0;
    assert_int_equal(ron_http_date_parse(S("Sun Nov 06 08:49:37 1994"), NOW, &s), RON_OK);
    assert_int_equal(s, 784111777);
}

static void test_date__malformed_or_impossible__refused(void **state)
{
    static const char *const bad[] = {
        "",
        "Sun",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        " Sun, 06 Nov 1994 08:49:37 GMT",
        "sun, 06 nov 1994 08:49:37 gmt",
        "Mon, 06 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun,  6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Thu, 31 Nov 1994 08:49:37 GMT",
        "Wed, 29 Feb 2023 00:00:00 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:60 GMT",
        "Sun, 06 Nov 1994 23:59:61 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun Nov 00 08:49:37 1994",
        "Sun Nov  0 08:49:37 1994",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "784111777",
    };
    uint64_t s = 7;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        if (ron_http_date_parse(str(bad[i]), NOW, &s) != RON_INVALID) {
            fail_msg("accepted: '%s'", bad[i]);
        }
    }
    assert_int_equal(s, 7);
}

static void test_date__edges__of_the_calendar(void **state)
{
    uint64_t s = 7;
    char text[RON_HTTP_DATE_SIZE];

    (void)state;
    assert_int_equal(ron_http_date_parse(S("Thu, 01 Jan 1970 00:00:00 GMT"), NOW, &s), RON_OK);
    assert_int_equal(s, 0);
    assert_int_equal(ron_http_date_parse(S("Wed, 31 Dec 1969 23:59:59 GMT"), NOW, &s), RON_OK);
    assert_int_equal(s, 0);
    assert_int_equal(ron_http_date_parse(S("Sat, 01 Jan 0000 00:00:00 GMT"), NOW, &s), RON_OK);
    assert_int_equal(s, 0);
    assert_int_equal(ron_http_date_parse(S("Tue, 29 Feb 2000 12:00:00 GMT"), NOW, &s), RON_OK);
    assert_int_equal(s, 951825600);
    assert_int_equal(ron_http_date_parse(S("Sat, 31 Dec 2016 23:59:60 GMT"), NOW, &s), RON_OK);
    assert_int_equal(s, 1483228800); /* the leap second counts as the one behind it */
    assert_int_equal(ron_http_date_parse(S("Fri, 31 Dec 9999 23:59:59 GMT"), NOW, &s), RON_OK);
    assert_true(s == RON_HTTP_DATE_MAX_S);
    ron_http_date_format(UINT64_MAX, text);
    assert_string_equal(text, "Fri, 31 Dec 9999 23:59:59 GMT");
}

/* Two digits: 50 years ahead are the future, 51 the past. NOW is 2023-11-14. */
static void test_date__two_digit_year__by_the_fifty_year_rule(void **state)
{
    uint64_t s = 0;

    (void)state;
    assert_int_equal(ron_http_date_parse(S("Monday, 13-Nov-73 00:00:00 GMT"), NOW, &s), RON_OK);
    assert_int_equal(s, 3277756800); /* 2073 */
    assert_int_equal(ron_http_date_parse(S("Thursday, 15-Nov-73 00:00:00 GMT"), NOW, &s), RON_OK);
    assert_int_equal(s, 122169600); /* 1973 */
    assert_int_equal(ron_http_date_parse(S("Friday, 31-Dec-99 00:00:00 GMT"), NOW, &s), RON_OK);
    assert_int_equal(s, 946598400);
}

static void test_date__random_moments__as_the_c_library(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t s = ron_rand_u64(&rand) % (RON_HTTP_DATE_MAX_S + 1);
        time_t t = (time_t)s;
        struct tm tm;
        char ours[RON_HTTP_DATE_SIZE];
        char theirs[64];
        uint64_t back = 0;

        assert_non_null(gmtime_r(&t, &tm));
        assert_true(strftime(theirs, sizeof theirs, "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0);
        ron_http_date_format(s, ours);
        assert_string_equal(ours, theirs);
        assert_int_equal(ron_http_date_parse(str(ours), NOW, &back), RON_OK);
        assert_true(back == s);
    }
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static void expect_ranges(const char *value, uint64_t size, const char *wanted)
{
    struct ron_http_range r[RON_HTTP_RANGES_MAX];
    size_t count = 0;
    char got[512] = "";
    size_t len = 0;

    if (ron_http_range_parse(str(value), size, r, RON_ARRAY_LEN(r), &count) != RON_OK) {
        fail_msg("refused: %s", value);
    }
    for (size_t i = 0; i < count; i++) {
        len += (size_t)snprintf(got + len, sizeof got - len, "%s%llu-%llu", i > 0 ? " " : "",
                                (unsigned long long)r[i].first, (unsigned long long)r[i].last);
    }
    assert_string_equal(got, wanted);
}

static void test_range__examples_of_the_rfc__resolved(void **state)
{
    (void)state;
    expect_ranges("bytes=0-499", 10000, "0-499");
    expect_ranges("bytes=500-999", 10000, "500-999");
    expect_ranges("bytes=-500", 10000, "9500-9999");
    expect_ranges("bytes=9500-", 10000, "9500-9999");
    expect_ranges("bytes=0-0,-1", 10000, "0-0 9999-9999");
    expect_ranges("bytes= 0-999, 4500-5499, -1000", 10000, "0-999 4500-5499 9000-9999");
    expect_ranges("bytes=500-600,601-999", 10000, "500-600 601-999");
    expect_ranges("bytes=500-700,601-999", 10000, "500-700 601-999");
}

static void test_range__edges__cut_or_dropped(void **state)
{
    (void)state;
    expect_ranges("Bytes=0-", 1, "0-0");
    expect_ranges("bytes=0-99999999999999999999999999", 10, "0-9");
    expect_ranges("bytes=-99999999999999999999999999", 10, "0-9");
    expect_ranges("bytes=,,0-1,\t,", 10, "0-1");
    expect_ranges("bytes=20-30,1-2", 10, "1-2");
    expect_ranges("bytes=0-18446744073709551615", UINT64_MAX, "0-18446744073709551614");
}

static void test_range__other_values__each_with_its_code(void **state)
{
    static const struct {
        const char *value;
        uint64_t size;
        enum ron_rc rc;
    } rows[] = {
        {"", 10, RON_INVALID},
        {"bytes", 10, RON_INVALID},
        {"bytes=", 10, RON_INVALID},
        {"bytes=,", 10, RON_INVALID},
        {"=0-1", 10, RON_INVALID},
        {"bytes =0-1", 10, RON_INVALID},
        {"bytes=a-b", 10, RON_INVALID},
        {"bytes=1", 10, RON_INVALID},
        {"bytes=-", 10, RON_INVALID},
        {"bytes=--1", 10, RON_INVALID},
        {"bytes=2-1", 10, RON_INVALID},
        {"bytes=+1-2", 10, RON_INVALID},
        {"bytes=1 -2", 10, RON_INVALID},
        {"bytes=1- 2", 10, RON_INVALID},
        {"bytes=0-1;2-3", 10, RON_INVALID},
        {"bytes=0-1,x", 10, RON_INVALID},
        {"bytes=99-,x", 10, RON_INVALID},
        {"items=0-1", 10, RON_NOTFOUND},
        {"bytes=10-", 10, RON_CONFLICT},
        {"bytes=10-20,30-", 10, RON_CONFLICT},
        {"bytes=-0", 10, RON_CONFLICT},
        {"bytes=0-", 0, RON_CONFLICT},
        {"bytes=-1", 0, RON_CONFLICT},
        {"bytes=99999999999999999999999-", 10, RON_CONFLICT},
        {"bytes=0-0,1-1,2-2,3-3,4-4,5-5,6-6,7-7,8-8,9-9,0-0,1-1,2-2,3-3,4-4,5-5,6-6", 10,
         RON_LIMIT},
        {"bytes=,,,,,,,,,,,,,,,,,,0-1", 10, RON_LIMIT},
    };
    struct ron_http_range r[RON_HTTP_RANGES_MAX];
    size_t count = 77;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        enum ron_rc rc =
            ron_http_range_parse(str(rows[i].value), rows[i].size, r, RON_ARRAY_LEN(r), &count);

        if (rc != rows[i].rc) {
            fail_msg("'%s': %s", rows[i].value, ron_rc_name(rc));
        }
    }
    assert_int_equal(count, 77);
    assert_int_equal(ron_http_range_parse(S("bytes=0-0,1-1"), 10, r, 1, &count), RON_LIMIT);
}

static void test_range__content_range__is_written(void **state)
{
    struct ron_http_range r = {0, UINT64_MAX - 1};
    char text[RON_HTTP_CONTENT_RANGE_SIZE];

    (void)state;
    assert_int_equal(ron_http_content_range(&r, UINT64_MAX, text), 49);
    assert_string_equal(text, "bytes 0-18446744073709551614/18446744073709551615");
    (void)ron_http_content_range(NULL, 47022, text);
    assert_string_equal(text, "bytes */47022");
}

/* ---- entity tags ----------------------------------------------------------------------------- */

static void test_etag__comparison__table_of_the_rfc(void **state)
{
    static const struct {
        const char *a;
        const char *b;
        bool strong;
        bool weak;
    } rows[] = {{"W/\"1\"", "W/\"1\"", false, true},
                {"W/\"1\"", "W/\"2\"", false, false},
                {"W/\"1\"", "\"1\"", false, true},
                {"\"1\"", "\"1\"", true, true},
                {"\"\"", "\"\"", true, true}};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_http_etag a;
        struct ron_http_etag b;

        assert_int_equal(ron_http_etag_parse(str(rows[i].a), &a), RON_OK);
        assert_int_equal(ron_http_etag_parse(str(rows[i].b), &b), RON_OK);
        assert_int_equal(ron_http_etag_equal(&a, &b, true), rows[i].strong);
        assert_int_equal(ron_http_etag_equal(&a, &b, false), rows[i].weak);
    }
}

static void test_etag__malformed__refused(void **state)
{
    static const char *const bad[] = {"",        "xyzzy",   "\"xyzzy",  "xyzzy\"", "w/\"x\"", "W/x",
                                      "W \"x\"", "\"a b\"", "\"a\"b\"", "W/",      "\"\x7f\""};
    struct ron_http_etag e;
    bool in = false;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        assert_int_equal(ron_http_etag_parse(str(bad[i]), &e), RON_INVALID);
        assert_int_equal(ron_http_etag_in(str(bad[i]), NULL, true, &in), RON_INVALID);
    }
    assert_int_equal(ron_http_etag_in(S("\"a\" \"b\""), NULL, true, &in), RON_INVALID);
    assert_int_equal(ron_http_etag_in(S("*, \"b\""), NULL, true, &in), RON_INVALID);
    assert_int_equal(ron_http_etag_in(S(","), NULL, true, &in), RON_INVALID);
}

static void test_etag__lists__searched_whole(void **state)
{
    struct ron_http_etag c = {.opaque = S("c,3piozzzz")};
    bool in = false;

    (void)state;
    assert_int_equal(ron_http_etag_in(S("\"xyzzy\", \"r2d2xxxx\", \"c,3piozzzz\""), &c, true, &in),
                     RON_OK);
    assert_true(in);
    assert_int_equal(ron_http_etag_in(S("W/\"c,3piozzzz\" ,,"), &c, true, &in), RON_OK);
    assert_false(in);
    assert_int_equal(ron_http_etag_in(S("W/\"c,3piozzzz\" ,,"), &c, false, &in), RON_OK);
    assert_true(in);
    assert_int_equal(ron_http_etag_in(S("\"c\", \"3piozzzz\""), &c, false, &in), RON_OK);
    assert_false(in);
    assert_int_equal(ron_http_etag_in(S("*"), &c, false, &in), RON_OK);
    assert_true(in);
    assert_int_equal(ron_http_etag_in(S("*"), NULL, false, &in), RON_OK);
    assert_false(in);
    assert_int_equal(ron_http_etag_in(S("\"c,3piozzzz\", bad"), &c, false, &in), RON_INVALID);
}

/* ---- conditions ------------------------------------------------------------------------------ */

static const char *const OLD = "Sun, 06 Nov 1994 08:49:36 GMT";
static const char *const SAME = "Sun, 06 Nov 1994 08:49:37 GMT";
static const char *const LATER = "Sun, 06 Nov 1994 08:49:38 GMT";

/* A head with up to three fields; then what is decided for tag "t" changed at SAME. */
static struct ron_http_head *head_of(enum ron_http_method method, const char *const *fields)
{
    static struct ron_http_head head;

    memset(&head, 0, sizeof head);
    head.method = method;
    for (; fields[0] != NULL; fields += 2) {
        head.fields[head.field_count++] =
            (struct ron_http_field){.name = str(fields[0]), .value = str(fields[1])};
    }
    return &head;
}

#define decide(method, ...)                                                                        \
    ron_http_precondition(head_of((method), (const char *const[]){__VA_ARGS__, NULL}), &tag,       \
                          784111777, NOW)

static void test_precondition__each_header__in_order(void **state)
{
    const struct ron_http_etag tag = {.opaque = S("t")};

    (void)state;
    assert_int_equal(decide(RON_HTTP_GET, "x", "y"), RON_HTTP_PROCEED);
    assert_int_equal(decide(RON_HTTP_GET, "If-None-Match", "\"t\""), RON_HTTP_NOT_MODIFIED);
    assert_int_equal(decide(RON_HTTP_HEAD, "if-none-match", "W/\"t\""), RON_HTTP_NOT_MODIFIED);
    assert_int_equal(decide(RON_HTTP_PUT, "If-None-Match", "*"), RON_HTTP_PRECONDITION_FAILED);
    assert_int_equal(decide(RON_HTTP_GET, "If-None-Match", "\"u\""), RON_HTTP_PROCEED);
    assert_int_equal(decide(RON_HTTP_GET, "If-None-Match", "\"u\"", "If-None-Match", "\"t\""),
                     RON_HTTP_NOT_MODIFIED);
    assert_int_equal(decide(RON_HTTP_GET, "If-None-Match", "t"), RON_HTTP_PROCEED);
    /* The date counts only without the list, and only for reading. */
    assert_int_equal(decide(RON_HTTP_GET, "If-None-Match", "\"u\"", "If-Modified-Since", LATER),
                     RON_HTTP_PROCEED);
    assert_int_equal(decide(RON_HTTP_GET, "If-Modified-Since", SAME), RON_HTTP_NOT_MODIFIED);
    assert_int_equal(decide(RON_HTTP_GET, "If-Modified-Since", OLD), RON_HTTP_PROCEED);
    assert_int_equal(decide(RON_HTTP_POST, "If-Modified-Since", SAME), RON_HTTP_PROCEED);
    assert_int_equal(decide(RON_HTTP_GET, "If-Modified-Since", "yesterday"), RON_HTTP_PROCEED);
    assert_int_equal(decide(RON_HTTP_PUT, "If-Match", "\"t\""), RON_HTTP_PROCEED);
    assert_int_equal(decide(RON_HTTP_PUT, "If-Match", "W/\"t\""), RON_HTTP_PRECONDITION_FAILED);
    assert_int_equal(decide(RON_HTTP_PUT, "If-Match", "t"), RON_HTTP_PRECONDITION_FAILED);
    assert_int_equal(decide(RON_HTTP_PUT, "If-Unmodified-Since", OLD),
                     RON_HTTP_PRECONDITION_FAILED);
    assert_int_equal(decide(RON_HTTP_PUT, "If-Unmodified-Since", SAME), RON_HTTP_PROCEED);
    assert_int_equal(decide(RON_HTTP_PUT, "If-Match", "\"t\"", "If-Unmodified-Since", OLD),
                     RON_HTTP_PROCEED);
}

#define decide_for(tag, mtime, method, ...)                                                        \
    ron_http_precondition(head_of((method), (const char *const[]){__VA_ARGS__, NULL}), (tag),      \
                          (mtime), NOW)

static void test_precondition__star__asks_for_any_representation(void **state)
{
    (void)state;
    /* There is one, known by its date alone. */
    assert_int_equal(decide_for(NULL, 784111777, RON_HTTP_PUT, "If-None-Match", "*"),
                     RON_HTTP_PRECONDITION_FAILED);
    assert_int_equal(decide_for(NULL, 784111777, RON_HTTP_GET, "If-None-Match", "*"),
                     RON_HTTP_NOT_MODIFIED);
    assert_int_equal(decide_for(NULL, 784111777, RON_HTTP_PUT, "If-Match", "*"), RON_HTTP_PROCEED);
    assert_int_equal(decide_for(NULL, 784111777, RON_HTTP_PUT, "If-Match", "\"t\""),
                     RON_HTTP_PRECONDITION_FAILED);
    /* There is none. */
    assert_int_equal(decide_for(NULL, RON_HTTP_NO_MTIME, RON_HTTP_PUT, "If-None-Match", "*"),
                     RON_HTTP_PROCEED);
    assert_int_equal(decide_for(NULL, RON_HTTP_NO_MTIME, RON_HTTP_PUT, "If-Match", "*"),
                     RON_HTTP_PRECONDITION_FAILED);
}

static void test_precondition__broken_list_of_a_write__fails(void **state)
{
    const struct ron_http_etag tag = {.opaque = S("t")};

    (void)state;
    assert_int_equal(decide(RON_HTTP_PUT, "If-None-Match", "t"), RON_HTTP_PRECONDITION_FAILED);
    assert_int_equal(decide(RON_HTTP_DELETE, "If-None-Match", "\"u\", *"),
                     RON_HTTP_PRECONDITION_FAILED);
    assert_int_equal(decide(RON_HTTP_PUT, "If-Match", "*", "If-Match", "\"t\""),
                     RON_HTTP_PRECONDITION_FAILED); /* one list in two lines, and no such list */
    assert_int_equal(decide(RON_HTTP_GET, "If-None-Match", "t"), RON_HTTP_PROCEED);
}

static void test_precondition__method_without_representation__ignores_all(void **state)
{
    const struct ron_http_etag tag = {.opaque = S("t")};

    (void)state;
    assert_int_equal(decide(RON_HTTP_OPTIONS, "If-Match", "\"u\""), RON_HTTP_PROCEED);
    assert_int_equal(decide(RON_HTTP_OPTIONS, "If-None-Match", "*"), RON_HTTP_PROCEED);
    assert_int_equal(decide(RON_HTTP_OPTIONS, "If-Unmodified-Since", OLD), RON_HTTP_PROCEED);
}

#define applies(tag, mtime, ...)                                                                   \
    ron_http_if_range(head_of(RON_HTTP_GET, (const char *const[]){__VA_ARGS__, NULL}), (tag),      \
                      (mtime), NOW)

static void test_if_range__same_representation__range_applies(void **state)
{
    const struct ron_http_etag tag = {.opaque = S("t")};
    const struct ron_http_etag weak = {.opaque = S("t"), .weak = true};

    (void)state;
    assert_true(applies(&tag, 784111777, "x", "y"));
    assert_true(applies(&tag, 784111777, "If-Range", "\"t\""));
    assert_false(applies(&tag, 784111777, "If-Range", "\"u\""));
    assert_false(applies(&weak, 784111777, "If-Range", "W/\"t\""));
    assert_true(applies(&tag, 784111777, "If-Range", SAME));
    assert_false(applies(&tag, 784111777, "If-Range", LATER));
    assert_false(applies(&tag, RON_HTTP_NO_MTIME, "If-Range", SAME));
    assert_false(applies(NULL, 784111777, "If-Range", "\"t\""));
    assert_false(applies(&tag, 784111777, "If-Range", "\"t\"", "If-Range", "\"t\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_date__three_forms__one_moment),
        cmocka_unit_test(test_date__malformed_or_impossible__refused),
        cmocka_unit_test(test_date__edges__of_the_calendar),
        cmocka_unit_test(test_date__two_digit_year__by_the_fifty_year_rule),
        cmocka_unit_test(test_date__random_moments__as_the_c_library),
        cmocka_unit_test(test_range__examples_of_the_rfc__resolved),
        cmocka_unit_test(test_range__edges__cut_or_dropped),
        cmocka_unit_test(test_range__other_values__each_with_its_code),
        cmocka_unit_test(test_range__content_range__is_written),
        cmocka_unit_test(test_etag__comparison__table_of_the_rfc),
        cmocka_unit_test(test_etag__malformed__refused),
        cmocka_unit_test(test_etag__lists__searched_whole),
        cmocka_unit_test(test_precondition__each_header__in_order),
        cmocka_unit_test(test_precondition__star__asks_for_any_representation),
        cmocka_unit_test(test_precondition__broken_list_of_a_write__fails),
        cmocka_unit_test(test_precondition__method_without_representation__ignores_all),
        cmocka_unit_test(test_if_range__same_representation__range_applies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
