/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the right fields are stored, passed on, and replaced by a 304; a write invalidates what it
 * may have changed and nothing of another host; Cache-Status and Via read as their RFCs say.
 * Method: tables; fields written out as text. */
#include "unit/edge/edge_fields.h"

#include "edge/rules/fresh_update.h"
#include "edge/rules/hop.h"
#include "edge/rules/status.h"

/* "A=1 B=2" */
static void told(const struct ron_http_field *at, size_t count, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        len += (size_t)snprintf(out + len, size - len, "%s%.*s=%.*s", i > 0 ? " " : "",
                                (int)at[i].name.len, at[i].name.ptr, (int)at[i].value.len,
                                at[i].value.ptr);
        assert_true(len < size);
    }
}

static void test_hop__fields__of_one_connection_end(void **state)
{
    static const struct {
        enum edg_hop way;
        const char *lines;
        const char *kept;
    } rows[] = {
        {EDG_HOP_ANSWER, "Connection: a, B\na: 1\nb: 2\nc: 3", "c=3"},
        {EDG_HOP_ANSWER, "Connection: close\nConnection: x\nX: 1\nY: 2", "Y=2"},
        {EDG_HOP_ANSWER,
         "Keep-Alive: 1\nProxy-Authenticate: 1\nProxy-Authentication-Info: 1\nProxy-Authorization: "
         "1\nProxy-Connection: 1\nTE: 1\nTrailer: 1\nTransfer-Encoding: 1\nUpgrade: "
         "1\nContent-Length: 1\nX-Corr-ID: 1\nA: 1",
         "A=1"},
        {EDG_HOP_ANSWER, "Via: 1.1 x\nRange: 1\nCache-Control: b\nHost: c",
         "Via=1.1 x Range=1 Cache-Control=b Host=c"},
        {EDG_HOP_PASS,
         "Host: a\nExpect: a\ntraceparent: a\nRequest-Timeout: 1\nDeadline: 1\nVia: 1.1 "
         "x\nIf-Match: b\nRange: c\nCache-Control: d\nForwarded: e\nAuthorization: f",
         "If-Match=b Range=c Cache-Control=d Forwarded=e Authorization=f"},
        {EDG_HOP_FILL,
         "If-Match: b\nIf-None-Match: b\nIf-Modified-Since: b\nIf-Unmodified-Since: b\nIf-Range: "
         "b\nRange: c\nCache-Control: d\nPragma: d\nAccept-Encoding: "
         "gzip\nX-Forwarded-For: e\nAccept: f",
         "Accept-Encoding=gzip X-Forwarded-For=e Accept=f"},
    };
    struct ron_http_field out[FIELDS_MAX];
    struct fields f;
    char text[512];
    size_t count = 0;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        set_lines(&f, rows[i].lines);
        assert_int_equal(edg_hop_filter(rows[i].way, view(&f), out, FIELDS_MAX, &count), RON_OK);
        told(out, count, text, sizeof text);
        assert_string_equal(text, rows[i].kept);
    }
    set_lines(&f, "A: 1\nB: 2");
    count = 9;
    assert_int_equal(edg_hop_filter(EDG_HOP_PASS, view(&f), out, 1, &count), RON_LIMIT);
    assert_int_equal(count, 9);
}

static void test_hop__via__ours_behind_theirs(void **state)
{
    struct fields f;
    struct ron_buf buf;
    char out[48];

    (void)state;
    set_lines(&f, "Via: 1.0 fred, HTTP/1.1 p.example (x, y)\nVia: 1.1 ron-edge-7");
    ron_buf_init_over(&buf, out, sizeof out);
    assert_int_equal(edg_hop_via(view(&f), 1, "me", &buf), RON_LIMIT);
    set_lines(&f, "Via: 1.0 fred\nVia: 1.1 ron-edge-7");
    ron_buf_init_over(&buf, out, sizeof out);
    assert_int_equal(edg_hop_via(view(&f), 1, "me", &buf), RON_OK);
    assert_string_equal(ron_buf_text(&buf), "1.0 fred, 1.1 ron-edge-7, 1.1 me");
    assert_true(edg_hop_looped(view(&f), "ron-edge-7"));
    assert_true(edg_hop_looped(view(&f), "FRED"));
    assert_false(edg_hop_looped(view(&f), "ron-edge"));
    assert_false(edg_hop_looped(view(&f), "1.1"));
    set_lines(&f, "Via: ron-edge");
    assert_false(edg_hop_looped(view(&f), "ron-edge"));
    set_lines(&f, "Via: 1.1 ron-edge (a comment)");
    assert_true(edg_hop_looped(view(&f), "ron-edge"));
}

static void test_update__answer__kept_without_what_is_withheld(void **state)
{
    struct ron_http_field out[FIELDS_MAX];
    struct fields f;
    char text[512];
    size_t count = 0;

    (void)state;
    set_lines(&f, "Date: d\nAge: 5\nConnection: x\nX: 1\nSet-Cookie: s\nA: 1\nContent-Length: "
                  "5\nCache-Control: private=\"set-cookie\", no-cache=\"a\"\nB: 2");
    assert_int_equal(edg_update_keep(view(&f), out, FIELDS_MAX, &count), RON_OK);
    told(out, count, text, sizeof text);
    assert_string_equal(text,
                        "Date=d Age=5 Cache-Control=private=\"set-cookie\", no-cache=\"a\" B=2");
    count = 9;
    assert_int_equal(edg_update_keep(view(&f), out, 3, &count), RON_LIMIT);
    assert_int_equal(count, 9);
}

static void test_update__not_modified__replaces_and_keeps(void **state)
{
    static const struct {
        const char *stored;
        const char *fresh;
        const char *merged;
    } rows[] = {
        {"A: 1\nB: 2", "", "A=1 B=2"},
        {"A: 1\nB: 2", "a: 3", "B=2 a=3"},
        {"A: 1\nB: 2\nA: 3", "A: 4\nA: 5", "B=2 A=4 A=5"},
        {"A: 1", "C: 2", "A=1 C=2"},
        {"Date: x\nAge: 9\nA: 1", "", "A=1"},
        {"Date: x\nAge: 9", "Date: y", "Date=y"},
        {"Date: x", "Age: 3", "Age=3"},
        {"Content-Encoding: a\nContent-Range: b\nContent-MD5: c\nETag: \"d\"\nDigest: e\n"
         "Content-Digest: f\nRepr-Digest: g\nContent-Type: h",
         "Content-Encoding: z\nContent-Range: z\nContent-MD5: z\nETag: \"z\"\nDigest: z\n"
         "Content-Digest: z\nRepr-Digest: z\nContent-Type: z\nContent-Length: 9",
         "Content-Encoding=a Content-Range=b Content-MD5=c ETag=\"d\" Digest=e Content-Digest=f "
         "Repr-Digest=g Content-Type=z"},
        {"A: 1", "Connection: A\nA: 2", "A=1"},
        {"Cache-Control: max-age=1", "Cache-Control: max-age=9, no-cache=\"x\"\nX: 1",
         "Cache-Control=max-age=9, no-cache=\"x\""},
    };
    struct ron_http_field out[FIELDS_MAX];
    struct fields stored;
    struct fields fresh;
    char text[512];
    size_t count = 0;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        set_lines(&stored, rows[i].stored);
        set_lines(&fresh, rows[i].fresh);
        assert_int_equal(edg_update_merge(view(&stored), view(&fresh), out, FIELDS_MAX, &count),
                         RON_OK);
        told(out, count, text, sizeof text);
        assert_string_equal(text, rows[i].merged);
    }
    set_lines(&stored, "A: 1");
    set_lines(&fresh, "B: 1");
    count = 9;
    assert_int_equal(edg_update_merge(view(&stored), view(&fresh), out, 1, &count), RON_LIMIT);
    assert_int_equal(count, 9);
}

static void test_invalidates__unsafe_and_successful__only(void **state)
{
    (void)state;
    assert_true(edg_invalidates(RON_HTTP_POST, 200));
    assert_true(edg_invalidates(RON_HTTP_PUT, 204));
    assert_true(edg_invalidates(RON_HTTP_DELETE, 303));
    assert_true(edg_invalidates(RON_HTTP_PATCH, 399));
    assert_false(edg_invalidates(RON_HTTP_POST, 400));
    assert_false(edg_invalidates(RON_HTTP_POST, 500));
    assert_false(edg_invalidates(RON_HTTP_POST, 0));
    assert_false(edg_invalidates(RON_HTTP_GET, 200));
    assert_false(edg_invalidates(RON_HTTP_HEAD, 200));
    assert_false(edg_invalidates(RON_HTTP_OPTIONS, 200));
}

static void test_location__references__resolved_on_the_same_host(void **state)
{
    /* The first ones are the examples of RFC 3986 5.4 with the base http://a/b/c/d;p?q */
    static const struct {
        const char *reference;
        const char *target; /* NULL: refused */
        enum ron_rc rc;
    } rows[] = {
        {"g:h", NULL, RON_DENIED},
        {"g", "/b/c/g", RON_OK},
        {"./g", "/b/c/g", RON_OK},
        {"g/", "/b/c/g/", RON_OK},
        {"/g", "/g", RON_OK},
        {"//g", NULL, RON_DENIED},
        {"?y", "/b/c/d;p?y", RON_OK},
        {"g?y", "/b/c/g?y", RON_OK},
        {"#s", "/b/c/d;p?q", RON_OK},
        {"g#s", "/b/c/g", RON_OK},
        {"g?y#s", "/b/c/g?y", RON_OK},
        {";x", "/b/c/;x", RON_OK},
        {"g;x?y#s", "/b/c/g;x?y", RON_OK},
        {"", "/b/c/d;p?q", RON_OK},
        {".", "/b/c/", RON_OK},
        {"./", "/b/c/", RON_OK},
        {"..", "/b/", RON_OK},
        {"../", "/b/", RON_OK},
        {"../g", "/b/g", RON_OK},
        {"../..", "/", RON_OK},
        {"../../", "/", RON_OK},
        {"../../g", "/g", RON_OK},
        {"../../../g", "/g", RON_OK},
        {"../../../../g", "/g", RON_OK},
        {"/./g", "/g", RON_OK},
        {"/../g", "/g", RON_OK},
        {"g.", "/b/c/g.", RON_OK},
        {".g", "/b/c/.g", RON_OK},
        {"g..", "/b/c/g..", RON_OK},
        {"..g", "/b/c/..g", RON_OK},
        {"./../g", "/b/g", RON_OK},
        {"./g/.", "/b/c/g/", RON_OK},
        {"g/./h", "/b/c/g/h", RON_OK},
        {"g/../h", "/b/c/h", RON_OK},
        {"g;x=1/./y", "/b/c/g;x=1/y", RON_OK},
        {"g;x=1/../y", "/b/c/y", RON_OK},
        {"g?y/./x", "/b/c/g?y/./x", RON_OK},
        {"http:g", NULL, RON_INVALID},
        {"http://a/x?y", "/x?y", RON_OK},
        {"HTTPS://A/x", "/x", RON_OK},
        {"http://a:80/x", "/x", RON_OK},
        {"https://a:443/x", "/x", RON_OK},
        {"http://a:81/x", NULL, RON_DENIED},
        {"http://origin.example:8080/x", "/x", RON_OK},
        {"http://origin.example/x", NULL, RON_DENIED},
        {"http://u@a/x", NULL, RON_DENIED},
        {"http://ab/x", NULL, RON_DENIED},
        {"http:///x", NULL, RON_DENIED},
        {"http://a", "/", RON_OK},
        {"http://a?x", "/?x", RON_OK},
        {"http://a#f", "/", RON_OK},
        {"//a/x/../y", "/y", RON_OK},
        {"/a//b", "/a//b", RON_OK},
        {"/a b", NULL, RON_INVALID},
        {"/%zz", NULL, RON_INVALID},
        {"/a\\b", NULL, RON_INVALID},
        {"javascript:x", NULL, RON_DENIED},
        {"/1234567890123456789012345678901", "/1234567890123456789012345678901", RON_OK},
        {"/12345678901234567890123456789012", NULL, RON_LIMIT},
        {"/?234567890123456789012345678901234", NULL, RON_LIMIT},
    };
    const struct edg_base base = {.host = ron_str_of("a"),
                                  .origin = ron_str_of("origin.example:8080"),
                                  .target = ron_str_of("/b/c/d;p?q")};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_str target = {NULL, 0};
        char out[32];
        enum ron_rc rc =
            edg_location(&base, ron_str_of(rows[i].reference), out, sizeof out, &target);

        if (rc != rows[i].rc || (rc == RON_OK && !ron_str_is(target, rows[i].target)) ||
            (rc != RON_OK && target.ptr != NULL)) {
            fail_msg("%s: %s, \"%.*s\"", rows[i].reference, ron_rc_name(rc), (int)target.len,
                     target.ptr);
        }
    }
}

static void test_location__base_without_origin__no_empty_host(void **state)
{
    const struct edg_base base = {.host = ron_str_of("a"), .target = ron_str_of("/")};
    struct ron_str target = {NULL, 0};
    char out[32];

    (void)state;
    assert_int_equal(edg_location(&base, ron_str_of("http:///x"), out, sizeof out, &target),
                     RON_DENIED);
    assert_int_equal(edg_location(&base, ron_str_of("//a/x"), out, sizeof out, &target), RON_OK);
    assert_true(ron_str_is(target, "/x"));
}

static void test_status__members__as_the_rfc_writes_them(void **state)
{
    static const struct {
        struct edg_status status;
        const char *text;
    } rows[] = {
        {{.fwd = EDG_FWD_NONE}, "ron-edge; hit"},
        {{.fwd = EDG_FWD_NONE, .has_ttl = true, .ttl_s = 30, .fwd_status = 200, .stored = true},
         "ron-edge; hit; ttl=30"},
        {{.fwd = EDG_FWD_NONE, .has_ttl = true, .ttl_s = -5}, "ron-edge; hit; ttl=-5"},
        {{.fwd = EDG_FWD_URI_MISS, .fwd_status = 200, .stored = true},
         "ron-edge; fwd=uri-miss; fwd-status=200; stored"},
        {{.fwd = EDG_FWD_STALE, .collapsed = true}, "ron-edge; fwd=stale; collapsed"},
        {{.fwd = EDG_FWD_STALE, .fwd_status = 503, .detail = "stale-if-error"},
         "ron-edge; fwd=stale; fwd-status=503; detail=stale-if-error"},
        {{.fwd = EDG_FWD_NONE, .key = {"/a\"\\\x01\xc3z", 7}},
         "ron-edge; hit; key=\"/a\\\"\\\\??z\""},
        {{.fwd = EDG_FWD_VARY_MISS}, "ron-edge; fwd=vary-miss"},
    };
    char key[256];
    char out[512];
    struct edg_status longest = {.fwd = EDG_FWD_URI_MISS,
                                 .fwd_status = 200,
                                 .has_ttl = true,
                                 .stored = true,
                                 .collapsed = true,
                                 .ttl_s = INT64_MIN,
                                 .key = {key, sizeof key}};
    struct ron_buf buf;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        ron_buf_init_over(&buf, out, sizeof out);
        assert_int_equal(edg_status_write(&rows[i].status, &buf), RON_OK);
        assert_string_equal(ron_buf_text(&buf), rows[i].text);
    }
    memset(key, '"', sizeof key);
    ron_buf_init_over(&buf, out, sizeof out);
    assert_int_equal(edg_status_write(&longest, &buf), RON_LIMIT);
    assert_int_equal(ron_buf_len(&buf), 0);
    memset(key, 'k', sizeof key);
    ron_buf_init_over(&buf, out, sizeof out);
    assert_int_equal(edg_status_write(&longest, &buf), RON_OK);
    ron_buf_init_over(&buf, out, 16);
    assert_int_equal(edg_status_write(&longest, &buf), RON_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hop__fields__of_one_connection_end),
        cmocka_unit_test(test_hop__via__ours_behind_theirs),
        cmocka_unit_test(test_update__answer__kept_without_what_is_withheld),
        cmocka_unit_test(test_update__not_modified__replaces_and_keeps),
        cmocka_unit_test(test_invalidates__unsafe_and_successful__only),
        cmocka_unit_test(test_location__references__resolved_on_the_same_host),
        cmocka_unit_test(test_location__base_without_origin__no_empty_host),
        cmocka_unit_test(test_status__members__as_the_rfc_writes_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
