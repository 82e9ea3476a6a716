/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: numbers, escapes, queries, routes and reasons, each at its edges.
 * Method: tables. */
#include "support/support.h"

#include "http/server/priv.h"
#include "http/syntax/syntax.h"
#include "ron/base/alloc.h"

#define S(text) ((struct ron_str){(text), sizeof(text) - 1})

#define assert_str(slice, text)                                                                    \
    do {                                                                                           \
        struct ron_str s_ = (slice);                                                               \
        assert_int_equal(s_.len, strlen(text));                                                    \
        assert_memory_equal(s_.ptr, text, s_.len);                                                 \
    } while (0)

static void test_text__numbers__digits_only(void **state)
{
    uint64_t n = 7;

    (void)state;
    assert_int_equal(ron_http_parse_u64(S("18446744073709551615"), &n), RON_OK);
    assert_true(n == UINT64_MAX);
    assert_int_equal(ron_http_parse_u64(S("0"), &n), RON_OK);
    assert_int_equal(n, 0);
    n = 7;
    assert_int_equal(ron_http_parse_u64(S("18446744073709551616"), &n), RON_INVALID);
    assert_int_equal(ron_http_parse_u64(S(""), &n), RON_INVALID);
    assert_int_equal(ron_http_parse_u64(S("+1"), &n), RON_INVALID);
    assert_int_equal(ron_http_parse_u64(S("1 "), &n), RON_INVALID);
    assert_int_equal(n, 7);
}

static void test_text__escapes__decoded_or_refused(void **state)
{
    char out[8];
    size_t len = 99;

    (void)state;
    assert_int_equal(ron_http_percent_decode(S("a%2Fb%c3%a9"), false, out, sizeof out, &len),
                     RON_OK);
    assert_str(((struct ron_str){out, len}), "a/b\xc3\xa9");
    assert_int_equal(ron_http_percent_decode(S("a+b"), true, out, sizeof out, &len), RON_OK);
    assert_str(((struct ron_str){out, len}), "a b");
    assert_int_equal(ron_http_percent_decode(S("a+b"), false, out, sizeof out, &len), RON_OK);
    assert_str(((struct ron_str){out, len}), "a+b");
    assert_int_equal(ron_http_percent_decode(S("%00"), false, out, sizeof out, &len), RON_INVALID);
    assert_int_equal(ron_http_percent_decode(S("%0d"), false, out, sizeof out, &len), RON_INVALID);
    assert_int_equal(ron_http_percent_decode(S("%7f"), false, out, sizeof out, &len), RON_INVALID);
    assert_int_equal(ron_http_percent_decode(S("%g0"), false, out, sizeof out, &len), RON_INVALID);
    assert_int_equal(ron_http_percent_decode(S("%2"), false, out, sizeof out, &len), RON_INVALID);
    assert_int_equal(ron_http_percent_decode(S("%"), false, out, sizeof out, &len), RON_INVALID);
    assert_int_equal(ron_http_percent_decode(S("123456789"), false, out, sizeof out, &len),
                     RON_LIMIT);
    assert_int_equal(len, 3);
}

static void test_text__query__one_value_or_none(void **state)
{
    char out[8];
    struct ron_str v;

    (void)state;
    assert_int_equal(ron_http_query_get(S("a=1&&b=x%20y&c&d="), "b", out, sizeof out, &v), RON_OK);
    assert_str(v, "x y");
    assert_int_equal(ron_http_query_get(S("a=1&&b=2&c&d="), "c", out, sizeof out, &v), RON_OK);
    assert_str(v, "");
    assert_int_equal(ron_http_query_get(S("a=1&&b=2&c&d="), "d", out, sizeof out, &v), RON_OK);
    assert_int_equal(ron_http_query_get(S("a=1"), "b", out, sizeof out, &v), RON_NOTFOUND);
    assert_int_equal(ron_http_query_get(S(""), "b", out, sizeof out, &v), RON_NOTFOUND);
    assert_int_equal(ron_http_query_get(S("b=1&b=1"), "b", out, sizeof out, &v), RON_CONFLICT);
    assert_int_equal(ron_http_query_get(S("b=%zz"), "b", out, sizeof out, &v), RON_INVALID);
    assert_int_equal(ron_http_query_get(S("b=123456789"), "b", out, sizeof out, &v), RON_LIMIT);
}

/* ---- routes ---------------------------------------------------------------------------------- */

static void handler(struct ron_http_call *call, void *arg)
{
    (void)call;
    (void)arg;
}

static const struct ron_http_route defs[] = {
    {RON_HTTP_GET, "/", handler, NULL, 0, 0},
    {RON_HTTP_GET, "/acc/{id}", handler, NULL, 0, 0},
    {RON_HTTP_GET, "/acc/me", handler, NULL, 0, 0},
    {RON_HTTP_POST, "/acc/{id}", handler, NULL, 0, 0},
    {RON_HTTP_GET, "/acc/{id}/e/{seq:u64}", handler, NULL, 0, 0},
    {RON_HTTP_GET, "/n/{n:u64}", handler, NULL, 0, 0},
    {RON_HTTP_GET, "/n/{n}", handler, NULL, 0, 0},
    {RON_HTTP_GET, "/files/{path*}", handler, NULL, 0, 0},
};
static struct http_route routes[RON_ARRAY_LEN(defs)];
static char room[RON_HTTP_PARAM_BYTES];

static struct http_match find(enum ron_http_method method, const char *path)
{
    static struct ron_http_head head;
    struct http_match m;

    assert_int_equal(ron__http_routes_compile(defs, RON_ARRAY_LEN(defs), routes, NULL), RON_OK);
    head.method = method;
    head.path = (struct ron_str){path, strlen(path)};
    ron__http_route_find(routes, RON_ARRAY_LEN(defs), HTTP_PLACE_MAIN, &head, room, &m);
    return m;
}

static void expect_route(enum ron_http_method method, const char *path, const char *pattern)
{
    struct http_match m = find(method, path);

    if (m.route == NULL) {
        fail_msg("%s: no route, reason %s", path, ron_http_reason_label(m.reason));
        return;
    }
    assert_string_equal(m.route->def->pattern, pattern);
}

static void expect_none(enum ron_http_method method, const char *path, enum ron_http_reason reason)
{
    struct http_match m = find(method, path);

    assert_null(m.route);
    assert_int_equal(m.reason, reason);
}

static void test_text__routes__literal_before_parameter(void **state)
{
    struct http_match m;

    (void)state;
    expect_route(RON_HTTP_GET, "/", "/");
    expect_route(RON_HTTP_HEAD, "/", "/");
    expect_route(RON_HTTP_GET, "/acc/me", "/acc/me");
    expect_route(RON_HTTP_GET, "/acc/you", "/acc/{id}");
    expect_route(RON_HTTP_POST, "/acc/me", "/acc/{id}");
    expect_route(RON_HTTP_GET, "/n/12", "/n/{n:u64}");
    expect_route(RON_HTTP_GET, "/n/x12", "/n/{n}");
    expect_route(RON_HTTP_GET, "/files/a/b.txt", "/files/{path*}");
    m = find(RON_HTTP_GET, "/acc/a%20b/e/17");
    assert_non_null(m.route);
    assert_int_equal(m.count, 2);
    assert_str(m.params[0].text, "a b");
    assert_int_equal(m.params[1].number, 17);
    m = find(RON_HTTP_GET, "/files/a/b%20c");
    assert_str(m.params[0].text, "a/b%20c");
}

static void test_text__routes__what_does_not_fit(void **state)
{
    (void)state;
    expect_none(RON_HTTP_GET, "/acc", RON_HTTP_NOT_FOUND);
    expect_none(RON_HTTP_GET, "/acc/a/", RON_HTTP_NOT_FOUND);
    expect_none(RON_HTTP_GET, "//", RON_HTTP_NOT_FOUND);
    expect_none(RON_HTTP_OPTIONS, "*", RON_HTTP_NOT_FOUND);
    expect_none(RON_HTTP_PUT, "/acc/a", RON_HTTP_NOT_ALLOWED);
    expect_none(RON_HTTP_GET, "/acc/", RON_HTTP_PARAM);
    expect_none(RON_HTTP_GET, "/acc/..", RON_HTTP_PARAM);
    expect_none(RON_HTTP_GET, "/acc/%2e%2E", RON_HTTP_PARAM);
    expect_none(RON_HTTP_GET, "/acc/a%2fb", RON_HTTP_PARAM);
    expect_none(RON_HTTP_GET, "/acc/a%00b", RON_HTTP_PARAM);
    expect_none(RON_HTTP_GET, "/acc/a/e/1x", RON_HTTP_PARAM);
    expect_none(RON_HTTP_GET, "/acc/a/e/18446744073709551616", RON_HTTP_PARAM);
    expect_none(RON_HTTP_GET, "/files/", RON_HTTP_PARAM);
    expect_none(RON_HTTP_GET, "/files/a/../b", RON_HTTP_PARAM);
    expect_none(RON_HTTP_GET, "/files/a/%2e%2e", RON_HTTP_PARAM);
    expect_none(RON_HTTP_GET, "/files/./b", RON_HTTP_PARAM);
    assert_int_equal(find(RON_HTTP_PUT, "/acc/a").allow, 1u << RON_HTTP_GET | 1u << RON_HTTP_POST);
}

static void expect_bad(const struct ron_http_route *bad, size_t count, enum ron_rc rc)
{
    struct http_route out[4];
    struct ron_err err = {0};

    assert_int_equal(ron__http_routes_compile(bad, count, out, &err), rc);
    assert_true(err.msg[0] != '\0');
}

static void test_text__bad_patterns__refused_by_name(void **state)
{
    static const struct ron_http_route twice[] = {
        {RON_HTTP_GET, "/a/{x}", handler, NULL, 0, 0},
        {RON_HTTP_GET, "/a/{y}", handler, NULL, 0, 0},
    };
    static const char *const patterns[] = {"a",       "",     "/{}",    "/{a b}",
                                           "/{x*}/y", "/a?b", "/a%20b", "/a/{x:u32}"};

    (void)state;
    expect_bad(twice, 2, RON_EXISTS);
    for (size_t i = 0; i < RON_ARRAY_LEN(patterns); i++) {
        struct ron_http_route one = {RON_HTTP_GET, patterns[i], handler, NULL, 0, 0};
        expect_bad(&one, 1, RON_INVALID);
    }
    expect_bad(&(struct ron_http_route){RON_HTTP_GET, "/a", NULL, NULL, 0, 0}, 1, RON_INVALID);
}

static void test_text__reasons__labels_unique_and_statuses_known(void **state)
{
    (void)state;
    for (int i = 0; i < RON_HTTP_REASON_COUNT; i++) {
        struct ron_http_error e = ron_http_error_of((enum ron_http_reason)i);

        assert_string_not_equal(ron_http_status_text(e.status), "Unknown");
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(e.reason, ron_http_reason_label((enum ron_http_reason)j));
        }
    }
    assert_string_equal(ron_http_status_text(299), "Unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text__numbers__digits_only),
        cmocka_unit_test(test_text__escapes__decoded_or_refused),
        cmocka_unit_test(test_text__query__one_value_or_none),
        cmocka_unit_test(test_text__routes__literal_before_parameter),
        cmocka_unit_test(test_text__routes__what_does_not_fit),
        cmocka_unit_test(test_text__bad_patterns__refused_by_name),
        cmocka_unit_test(test_text__reasons__labels_unique_and_statuses_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
