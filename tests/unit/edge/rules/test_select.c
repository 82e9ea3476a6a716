/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a GET or HEAD gets the status, fields and ranges of RFC 9110 13 and 14, and the stored
 * coding that it asks for.
 * Method: tables of request headers against one representation of 100 bytes, modified at T0. */
#include "unit/edge/edge_fields.h"

#include "edge/rules/accept.h"
#include "ron/http/select.h"

enum { SIZE = 100 };

static const struct ron_http_etag tag = {.opaque = {"t", 1}};
static const struct ron_http_etag weak_tag = {.opaque = {"t", 1}, .weak = true};

static const struct ron_http_repr plain = {.size = SIZE, .etag = &tag, .mtime_s = T0_S};
static const struct ron_http_repr parts = {
    .size = SIZE, .etag = &tag, .mtime_s = T0_S, .multipart = true};

static struct ron_http_selection select_of(enum ron_http_method method, const char *lines,
                                           const struct ron_http_repr *repr)
{
    static struct ron_http_head head;
    struct fields f;
    struct ron_http_selection a;

    memset(&a, 0xa5, sizeof a);
    set_lines(&f, lines);
    ron_http_select(head_of(&head, method, &f), repr, T0_S + 1000, &a);
    return a;
}

static void test_select__conditions__in_the_order_of_the_rfc(void **state)
{
    static const struct {
        const char *lines;
        int get;
        int put;
    } rows[] = {
        {"", 200, 200},
        {"If-Match: \"t\"", 200, 200},
        {"If-Match: \"x\", \"t\"", 200, 200},
        {"If-Match: *", 200, 200},
        {"If-Match: \"x\"", 412, 412},
        {"If-Match: W/\"t\"", 412, 412},
        {"If-Match: \"t\"\nIf-Unmodified-Since: {-1}", 200, 200},
        {"If-Unmodified-Since: {0}", 200, 200},
        {"If-Unmodified-Since: {-1}", 412, 412},
        {"If-Unmodified-Since: yesterday", 200, 200},
        {"If-None-Match: \"t\"", 304, 412},
        {"If-None-Match: W/\"t\"", 304, 412},
        {"If-None-Match: \"x\", W/\"t\" ,\"y\"", 304, 412},
        {"If-None-Match: \"x\"\nIf-None-Match: \"t\"", 304, 412},
        {"If-None-Match: *", 304, 412},
        {"If-None-Match: \"x\"", 200, 200},
        {"If-None-Match: \"x\"\nIf-Modified-Since: {0}", 200, 200},
        {"If-None-Match: \"t\"\nIf-Modified-Since: {-1}", 304, 412},
        {"If-Modified-Since: {0}", 304, 200},
        {"If-Modified-Since: {rfc850 0}", 304, 200},
        {"If-Modified-Since: {500}", 304, 200},
        {"If-Modified-Since: {-1}", 200, 200},
        {"If-Match: \"x\"\nIf-None-Match: \"t\"", 412, 412},
        {"If-Unmodified-Since: {-1}\nIf-None-Match: \"t\"", 412, 412},
        {"If-None-Match: \"t\"\nRange: bytes=0-1", 304, 412},
        {"If-Match: \"x\"\nRange: bytes=0-1", 412, 412},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        int get = select_of(RON_HTTP_GET, rows[i].lines, &plain).status;
        int head = select_of(RON_HTTP_HEAD, rows[i].lines, &plain).status;
        int put = select_of(RON_HTTP_PUT, rows[i].lines, &plain).status;

        if (get != rows[i].get || head != rows[i].get || put != rows[i].put) {
            fail_msg("%s: GET %d, HEAD %d, PUT %d", rows[i].lines, get, head, put);
        }
    }
}

/* "206 0-9,20-29": what was selected, in one text. */
static void told(const struct ron_http_selection *a, char *out, size_t size)
{
    size_t len = (size_t)snprintf(out, size, "%d", a->status);

    for (size_t i = 0; i < a->range_count; i++) {
        len += (size_t)snprintf(out + len, size - len, "%c%llu-%llu", i == 0 ? ' ' : ',',
                                (unsigned long long)a->ranges[i].first,
                                (unsigned long long)a->ranges[i].last);
        assert_true(len < size);
    }
}

struct range_row {
    const char *lines;
    const char *single; /* multipart not allowed */
    const char *multi;
};

static const struct range_row range_rows[] = {
    {"Range: bytes=0-9", "206 0-9", "206 0-9"},
    {"Range: bytes=0-0", "206 0-0", "206 0-0"},
    {"Range: BYTES=0-9", "206 0-9", "206 0-9"},
    {"Range: bytes=90-", "206 90-99", "206 90-99"},
    {"Range: bytes=90-1000", "206 90-99", "206 90-99"},
    {"Range: bytes=-10", "206 90-99", "206 90-99"},
    {"Range: bytes=-1000", "206 0-99", "206 0-99"},
    {"Range: bytes=0-99", "206 0-99", "206 0-99"},
    {"Range: bytes=0-9,20-29", "200", "206 0-9,20-29"},
    {"Range: bytes=20-29,0-9", "200", "206 20-29,0-9"},
    {"Range: bytes=0-9,200-", "206 0-9", "206 0-9"},
    {"Range: bytes=0-9,10-19", "206 0-19", "206 0-19"},
    {"Range: bytes=10-19,0-9", "206 0-19", "206 0-19"},
    {"Range: bytes=0-,0-,0-,0-", "206 0-99", "206 0-99"},
    {"Range: bytes=0-20,10-30,25-40", "206 0-40", "206 0-40"},
    {"Range: bytes=0-1,50-60,0-70", "206 0-70", "206 0-70"},
    {"Range: bytes=30-40,0-9,8-31", "206 0-40", "206 0-40"},
    {"Range: bytes=50-59,0-9,5-12,-1", "200", "206 50-59,0-12,99-99"},
    {"Range: items=0-9", "200", "200"},
    {"Range: bytes=100-", "416", "416"},
    {"Range: bytes=-0", "416", "416"},
    {"Range: bytes=", "416", "416"},
    {"Range: bytes=9-0", "416", "416"},
    {"Range: bytes=a-b", "416", "416"},
    {"Range: bytes 0-9", "416", "416"},
    {"Range: 0-9", "416", "416"},
    {"Range: bytes=0-9\nRange: bytes=0-9", "416", "416"},
    {"Range: bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16,18-18,20-20,22-22,24-24,26-26,28-28,"
     "30-30",
     "200",
     "206 0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16,18-18,20-20,22-22,24-24,26-26,28-28,30-30"},
    {"Range: bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16,18-18,20-20,22-22,24-24,26-26,28-28,"
     "30-30,32-32",
     "416", "416"},
    {"Range: bytes=0-9\nIf-Range: \"t\"", "206 0-9", "206 0-9"},
    {"Range: bytes=0-9\nIf-Range: \"x\"", "200", "200"},
    {"Range: bytes=0-9\nIf-Range: W/\"t\"", "200", "200"},
    {"Range: bytes=0-9\nIf-Range: {0}", "206 0-9", "206 0-9"},
    {"Range: bytes=0-9\nIf-Range: {1}", "200", "200"},
    {"Range: bytes=0-9\nIf-Range: {-1}", "200", "200"},
    {"Range: bytes=0-9\nIf-Range: soon", "200", "200"},
    {"Range: bytes=100-\nIf-Range: \"x\"", "200", "200"},
    {"If-Range: \"t\"", "200", "200"},
    {"If-Match: \"t\"\nRange: bytes=0-9", "206 0-9", "206 0-9"},
};

static void test_select__ranges__exact_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(range_rows); i++) {
        struct ron_http_selection one = select_of(RON_HTTP_GET, range_rows[i].lines, &plain);
        struct ron_http_selection many = select_of(RON_HTTP_GET, range_rows[i].lines, &parts);
        char a[512];
        char b[512];

        told(&one, a, sizeof a);
        told(&many, b, sizeof b);
        if (strcmp(a, range_rows[i].single) != 0 || strcmp(b, range_rows[i].multi) != 0) {
            fail_msg("%s: \"%s\", with parts \"%s\"", range_rows[i].lines, a, b);
        }
        assert_int_equal(select_of(RON_HTTP_HEAD, range_rows[i].lines, &parts).status, 200);
        assert_int_equal(select_of(RON_HTTP_POST, range_rows[i].lines, &parts).status, 200);
    }
}

static void test_select__fields__those_of_the_status(void **state)
{
    const uint32_t described =
        RON_HTTP_WITH_CACHE | RON_HTTP_WITH_ETAG | RON_HTTP_WITH_LAST_MODIFIED;
    const uint32_t content = RON_HTTP_WITH_CONTENT | RON_HTTP_WITH_ACCEPT_RANGES;
    const struct ron_http_repr dated = {.size = SIZE, .mtime_s = T0_S};
    const struct ron_http_repr bare = {.size = SIZE, .mtime_s = RON_HTTP_NO_MTIME};
    struct ron_http_selection a;

    (void)state;
    a = select_of(RON_HTTP_GET, "", &plain);
    assert_int_equal(a.with, described | content);
    assert_int_equal(a.length, SIZE);
    assert_int_equal(a.range_count, 0);
    a = select_of(RON_HTTP_HEAD, "Range: bytes=0-9", &plain);
    assert_int_equal(a.with, described | content);
    assert_int_equal(a.length, SIZE);
    a = select_of(RON_HTTP_GET, "Range: bytes=10-19", &plain);
    assert_int_equal(a.with, described | content | RON_HTTP_WITH_CONTENT_RANGE);
    assert_int_equal(a.length, 10);
    assert_int_equal(a.content_range_len, 15);
    assert_string_equal(a.content_range, "bytes 10-19/100");
    a = select_of(RON_HTTP_GET, "Range: bytes=0-1,5-6", &parts);
    assert_int_equal(a.with, described | content);
    assert_int_equal(a.length, 0);
    a = select_of(RON_HTTP_GET, "Range: bytes=100-", &plain);
    assert_int_equal(a.with, RON_HTTP_WITH_ACCEPT_RANGES | RON_HTTP_WITH_CONTENT_RANGE);
    assert_string_equal(a.content_range, "bytes */100");
    assert_int_equal(a.length, 0);
    a = select_of(RON_HTTP_GET, "If-None-Match: *", &plain);
    assert_int_equal(a.with, RON_HTTP_WITH_CACHE | RON_HTTP_WITH_ETAG);
    assert_int_equal(a.length, 0);
    a = select_of(RON_HTTP_GET, "If-Modified-Since: {0}", &dated);
    assert_int_equal(a.status, 304);
    assert_int_equal(a.with, RON_HTTP_WITH_CACHE | RON_HTTP_WITH_LAST_MODIFIED);
    a = select_of(RON_HTTP_GET, "If-Match: \"x\"", &plain);
    assert_int_equal(a.with, 0);
    assert_int_equal(select_of(RON_HTTP_GET, "", &bare).with, RON_HTTP_WITH_CACHE | content);
}

static void test_select__other_representations__by_what_they_have(void **state)
{
    const struct ron_http_repr weak = {
        .size = SIZE, .etag = &weak_tag, .mtime_s = RON_HTTP_NO_MTIME};
    const struct ron_http_repr empty = {.size = 0, .etag = &tag, .mtime_s = RON_HTTP_NO_MTIME};
    const struct ron_http_repr huge = {
        .size = UINT64_MAX, .etag = &tag, .mtime_s = RON_HTTP_NO_MTIME};
    struct ron_http_selection a;

    (void)state;
    assert_int_equal(select_of(RON_HTTP_GET, "If-None-Match: \"t\"", &weak).status, 304);
    assert_int_equal(select_of(RON_HTTP_GET, "If-Match: \"t\"", &weak).status, 412);
    assert_int_equal(select_of(RON_HTTP_GET, "Range: bytes=0-1\nIf-Range: W/\"t\"", &weak).status,
                     200);
    assert_int_equal(select_of(RON_HTTP_GET, "If-Modified-Since: {0}", &weak).status, 200);
    assert_int_equal(select_of(RON_HTTP_GET, "", &empty).status, 200);
    assert_int_equal(select_of(RON_HTTP_GET, "Range: bytes=0-", &empty).status, 416);
    a = select_of(RON_HTTP_GET, "Range: bytes=0-1,18446744073709551613-", &huge);
    assert_int_equal(a.status, 200);
    a = select_of(RON_HTTP_GET, "Range: bytes=-1,0-", &huge);
    assert_int_equal(a.status, 206);
    assert_int_equal(a.length, UINT64_MAX);
}

/* ---- codings --------------------------------------------------------------------------------- */

#define BIT(name) edg_accept_bit(EDG_ACCEPT_##name)

static void test_accept__weights__best_that_exists(void **state)
{
    const uint32_t all = BIT(BR) | BIT(ZSTD) | BIT(GZIP) | BIT(IDENTITY);
    const struct {
        const char *lines;
        uint32_t available;
        const char *picked;
    } rows[] = {
        {"", all, "identity"},
        {"Accept-Encoding: ", all, "identity"},
        {"Accept-Encoding: gzip", all, "gzip"},
        {"Accept-Encoding: x-gzip", all, "gzip"},
        {"Accept-Encoding: GZIP", all, "gzip"},
        {"Accept-Encoding: gzip, deflate, br, zstd", all, "br"},
        {"Accept-Encoding: gzip, deflate, br, zstd", BIT(GZIP) | BIT(ZSTD), "zstd"},
        {"Accept-Encoding: gzip\nAccept-Encoding: zstd", all, "zstd"},
        {"Accept-Encoding: br;q=0.5, gzip;q=0.8", all, "gzip"},
        {"Accept-Encoding: br;q=0.5, gzip;q=0.8", BIT(BR) | BIT(IDENTITY), "br"},
        {"Accept-Encoding: br;q=0, *", all, "zstd"},
        {"Accept-Encoding: *", BIT(GZIP) | BIT(IDENTITY), "gzip"},
        {"Accept-Encoding: *;q=0", all, "identity"},
        {"Accept-Encoding: gzip;q=0", all, "identity"},
        {"Accept-Encoding: identity;q=0", all, "identity"},
        {"Accept-Encoding: identity;q=0, gzip;q=0.1", all, "gzip"},
        {"Accept-Encoding: identity;q=0, br", BIT(GZIP), "identity"},
        {"Accept-Encoding: identity, gzip;q=0.5", all, "identity"},
        {"Accept-Encoding: identity;q=0.5, gzip;q=0.5", all, "gzip"},
        {"Accept-Encoding: gzip;q=0.5, *;q=0.9", all, "br"},
        {"Accept-Encoding: gzip;q=2, br;q=x", all, "identity"},
        {"Accept-Encoding: deflate, compress", all, "identity"},
        {"Accept-Encoding: gzip", BIT(BR) | BIT(IDENTITY), "identity"},
        {"Accept-Encoding: gzip", 0, "identity"},
    };
    struct fields f;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        const char *picked;

        set_lines(&f, rows[i].lines);
        picked = edg_accept_token(edg_accept_pick(view(&f), rows[i].available));
        if (strcmp(picked, rows[i].picked) != 0) {
            fail_msg("%s: %s", rows[i].lines, picked);
        }
    }
}

static void test_accept__token__known_or_not(void **state)
{
    enum edg_accept coding = EDG_ACCEPT_IDENTITY;

    (void)state;
    assert_int_equal(edg_accept_parse(ron_str_of("X-GZip"), &coding), RON_OK);
    assert_int_equal(coding, EDG_ACCEPT_GZIP);
    assert_int_equal(edg_accept_parse(ron_str_of("zstd"), &coding), RON_OK);
    assert_int_equal(coding, EDG_ACCEPT_ZSTD);
    assert_int_equal(edg_accept_parse(ron_str_of("deflate"), &coding), RON_NOTFOUND);
    assert_int_equal(edg_accept_parse(ron_str_of("gzip, br"), &coding), RON_NOTFOUND);
    assert_int_equal(edg_accept_parse(ron_str_of(""), &coding), RON_NOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_select__conditions__in_the_order_of_the_rfc),
        cmocka_unit_test(test_select__ranges__exact_or_refused),
        cmocka_unit_test(test_select__fields__those_of_the_status),
        cmocka_unit_test(test_select__other_representations__by_what_they_have),
        cmocka_unit_test(test_accept__weights__best_that_exists),
        cmocka_unit_test(test_accept__token__known_or_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
