/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what a shared cache stores, how long an answer lives, and what a request may have of it are
 * what RFC 9111 and RFC 5861 say, and edge/rules/fresh.h where they leave a choice.
 * Method: tables of headers and moments around T0; the cases of the public suite are in
 * test_fresh_rules.c. */
#include "unit/edge/edge_fields.h"

#include "edge/rules/fresh.h"

static const struct edg_policy strict = {0};
static const struct edg_policy lenient = {.stale_while_revalidate_s = 30,
                                          .stale_if_error_s = 300,
                                          .heuristic_max_s = 3600,
                                          .negative_ttl_s = 7};

static struct edg_exchange got(int status, const struct fields *response)
{
    static const struct fields none;

    return (struct edg_exchange){.method = RON_HTTP_GET,
                                 .request = view(&none),
                                 .status = status,
                                 .response = view(response),
                                 .request_ms = T0_MS,
                                 .response_ms = T0_MS};
}

/* ---- storing --------------------------------------------------------------------------------- */

#define MAX_AGE "Cache-Control: max-age=60"

static void test_store__answers__each_with_its_reason(void **state)
{
    static const struct {
        int status;
        const char *request;
        const char *response;
        enum edg_storing verdict;
    } rows[] = {
        {200, "", MAX_AGE, EDG_STORE_OK},
        {200, "", "", EDG_STORE_USELESS},
        {200, "", "ETag: \"x\"", EDG_STORE_OK},
        {200, "", "ETag: x", EDG_STORE_USELESS},
        {200, "", "Last-Modified: {-100}", EDG_STORE_OK},
        {200, "", "Expires: {60}", EDG_STORE_OK},
        {200, "", "Expires: {0}", EDG_STORE_USELESS},
        {200, "", "Cache-Control: max-age=0", EDG_STORE_USELESS},
        {200, "", "Cache-Control: max-age=0, stale-if-error=60", EDG_STORE_OK},
        {200, "", "Cache-Control: max-age=0, stale-while-revalidate=60", EDG_STORE_OK},
        {200, "", "Cache-Control: max-age=60, no-cache", EDG_STORE_USELESS},
        {200, "", "Cache-Control: no-cache\nETag: \"x\"", EDG_STORE_OK},
        {200, "", "Cache-Control: max-age=60\nAge: 60", EDG_STORE_USELESS},
        {200, "", "Cache-Control: max-age=60\nAge: x", EDG_STORE_USELESS},
        {200, "", "Cache-Control: max-age=60, no-store", EDG_STORE_NO_STORE},
        {200, "Cache-Control: no-store", MAX_AGE, EDG_STORE_NO_STORE},
        {200, "", "Cache-Control: max-age=60, no-store, must-understand", EDG_STORE_OK},
        {200, "Cache-Control: no-store", "Cache-Control: max-age=60, must-understand",
         EDG_STORE_NO_STORE},
        {599, "", "Cache-Control: max-age=60, must-understand", EDG_STORE_STATUS},
        {451, "", "Cache-Control: max-age=60, must-understand", EDG_STORE_OK},
        {200, "", "Cache-Control: max-age=60, private", EDG_STORE_PRIVATE},
        {200, "", "Cache-Control: max-age=60, private=\"a\"", EDG_STORE_OK},
        {200, "Authorization: x", MAX_AGE, EDG_STORE_AUTHORIZATION},
        {200, "Authorization: x", "Cache-Control: max-age=60, public", EDG_STORE_OK},
        {200, "Authorization: x", "Cache-Control: max-age=60, must-revalidate", EDG_STORE_OK},
        {200, "Authorization: x", "Cache-Control: max-age=60, proxy-revalidate",
         EDG_STORE_AUTHORIZATION},
        {200, "Authorization: x", "Cache-Control: s-maxage=60", EDG_STORE_OK},
        {200, "", "Cache-Control: max-age=60\nVary: *", EDG_STORE_VARY},
        {200, "", "Cache-Control: max-age=60\nVary: a", EDG_STORE_OK},
        {200, "", "Cache-Control: max-age=60\nContent-Range: bytes 0-1/2", EDG_STORE_OK},
        {103, "", MAX_AGE, EDG_STORE_STATUS},
        {206, "", "Cache-Control: max-age=60\nContent-Range: bytes 0-1/2", EDG_STORE_STATUS},
        {304, "", MAX_AGE, EDG_STORE_STATUS},
        {412, "", MAX_AGE, EDG_STORE_STATUS},
        {416, "", MAX_AGE, EDG_STORE_STATUS},
        {302, "", MAX_AGE, EDG_STORE_OK},
        {302, "", "ETag: \"x\"", EDG_STORE_STATUS},
        {302, "", "Cache-Control: public\nETag: \"x\"", EDG_STORE_OK},
        {404, "", "ETag: \"x\"", EDG_STORE_OK},
        {503, "", "ETag: \"x\"", EDG_STORE_STATUS},
        {503, "", MAX_AGE, EDG_STORE_OK},
    };
    struct fields request;
    struct fields response;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct edg_exchange ex = got(rows[i].status, &response);
        enum edg_storing verdict;

        set_lines(&request, rows[i].request);
        set_lines(&response, rows[i].response);
        ex.request = view(&request);
        ex.response = view(&response);
        verdict = edg_store_judge(&ex, &strict);
        if (verdict != rows[i].verdict) {
            fail_msg("%d / %s / %s: %s", rows[i].status, rows[i].request, rows[i].response,
                     edg_store_label(verdict));
        }
    }
}

static void test_store__methods__get_and_a_post_that_says_so(void **state)
{
    struct fields f;
    struct edg_exchange ex;

    (void)state;
    set_lines(&f, MAX_AGE);
    ex = got(200, &f);
    ex.method = RON_HTTP_HEAD;
    assert_int_equal(edg_store_judge(&ex, &strict), EDG_STORE_METHOD);
    ex.method = RON_HTTP_POST;
    assert_int_equal(edg_store_judge(&ex, &strict), EDG_STORE_METHOD);
    ex.self_located = true;
    assert_int_equal(edg_store_judge(&ex, &strict), EDG_STORE_OK);
    ex.status = 201;
    assert_int_equal(edg_store_judge(&ex, &strict), EDG_STORE_METHOD);
    ex.status = 200;
    ex.method = RON_HTTP_PUT;
    assert_int_equal(edg_store_judge(&ex, &strict), EDG_STORE_METHOD);
    ex.method = RON_HTTP_POST;
    set_lines(&f, "ETag: \"x\"");
    ex.response = view(&f);
    assert_int_equal(edg_store_judge(&ex, &strict), EDG_STORE_METHOD);
}

static void test_store__by_policy__kept_for_its_windows(void **state)
{
    struct fields f;
    struct edg_exchange ex;

    (void)state;
    set_lines(&f, "Cache-Control: max-age=0");
    ex = got(200, &f);
    assert_int_equal(edg_store_judge(&ex, &lenient), EDG_STORE_OK);
    set_lines(&f, "");
    ex = got(404, &f);
    assert_int_equal(edg_store_judge(&ex, &strict), EDG_STORE_USELESS);
    assert_int_equal(edg_store_judge(&ex, &lenient), EDG_STORE_OK);
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

struct life_row {
    int status;
    const char *response;
    uint64_t lifetime_s; /* by the lenient policy */
    uint64_t age_s;
    uint64_t swr_s;
    uint64_t sie_s;
    uint64_t max_stale_s;
    bool no_cache;
};

#define ANY EDG_SECONDS_MAX

static const struct life_row lives[] = {
    {200, "", 0, 0, 30, 300, ANY, false},
    {200, "Cache-Control: max-age=60", 60, 0, 30, 300, ANY, false},
    {200, "Cache-Control: max-age=60, s-maxage=9", 9, 0, 0, 0, 0, false},
    {200, "Cache-Control: s-maxage=9, stale-while-revalidate=5, stale-if-error=6", 9, 0, 5, 6, 0,
     false},
    {200, "Cache-Control: max-age=9, stale-while-revalidate=5, stale-if-error=0", 9, 0, 5, 0, ANY,
     false},
    {200, "Cache-Control: max-age=9, must-revalidate, stale-if-error=6", 9, 0, 0, 0, 0, false},
    {200, "Cache-Control: max-age=9, proxy-revalidate, stale-while-revalidate=6", 9, 0, 0, 0, 0,
     false},
    {200, "Cache-Control: max-age=9, no-cache, stale-if-error=6", 9, 0, 0, 0, 0, true},
    {200, "Cache-Control: max-age=9\nAge: 0, 0", 9, 0, 0, 0, 0, true},
    {200, "Expires: {60}", 60, 0, 30, 300, ANY, false},
    {200, "Expires: {60}\nDate: {-40}", 100, 40, 30, 300, ANY, false},
    {200, "Expires: {60}\nDate: {40}", 20, 0, 30, 300, ANY, false},
    {200, "Expires: {60}\nDate: {100}", 0, 0, 30, 300, ANY, false},
    {200, "Expires: {60}\nDate: foo", 60, 0, 30, 300, ANY, false},
    {200, "Expires: 0\nLast-Modified: {-1000}", 0, 0, 30, 300, ANY, false},
    {200, "Expires: {60}\nExpires: {60}", 0, 0, 30, 300, ANY, false},
    {200, "Expires: {60}\nCache-Control: max-age=x", 0, 0, 30, 300, ANY, false},
    {200, "Cache-Control: max-age=60\nAge: 20", 60, 20, 30, 300, ANY, false},
    {200, "Cache-Control: max-age=60\nAge: 20\nDate: {-30}", 60, 30, 30, 300, ANY, false},
    {200, "Last-Modified: {-1000}", 100, 0, 30, 300, ANY, false},
    {200, "Last-Modified: {-1000}\nDate: {-500}", 50, 500, 30, 300, ANY, false},
    {200, "Last-Modified: {-100000}", 3600, 0, 30, 300, ANY, false},
    {200, "Last-Modified: {10}", 0, 0, 30, 300, ANY, false},
    {201, "Last-Modified: {-1000}", 0, 0, 30, 300, ANY, false},
    {201, "Last-Modified: {-1000}\nCache-Control: public", 100, 0, 30, 300, ANY, false},
    {404, "", 7, 0, 30, 300, ANY, false},
    {404, "Last-Modified: {-1000}", 100, 0, 30, 300, ANY, false},
    {404, "Cache-Control: max-age=1", 1, 0, 30, 300, ANY, false},
    {503, "", 0, 0, 30, 300, ANY, false},
};

static void test_life__answers__as_the_headers_say(void **state)
{
    struct fields f;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(lives); i++) {
        const struct life_row *r = &lives[i];
        struct edg_exchange ex;
        struct edg_life life;

        set_lines(&f, r->response);
        ex = got(r->status, &f);
        edg_life_read(&ex, &lenient, &life);
        if (life.lifetime_s != r->lifetime_s || life.initial_age_s != r->age_s ||
            life.stale_while_revalidate_s != r->swr_s || life.stale_if_error_s != r->sie_s ||
            life.max_stale_s != r->max_stale_s || life.no_cache != r->no_cache) {
            fail_msg("%d %s: lifetime %llu, age %llu, windows %llu %llu %llu, no_cache %d",
                     r->status, r->response, (unsigned long long)life.lifetime_s,
                     (unsigned long long)life.initial_age_s,
                     (unsigned long long)life.stale_while_revalidate_s,
                     (unsigned long long)life.stale_if_error_s,
                     (unsigned long long)life.max_stale_s, life.no_cache);
        }
    }
}

static void test_life__strict_policy__no_heuristics(void **state)
{
    struct fields f;
    struct edg_exchange ex;
    struct edg_life life;

    (void)state;
    set_lines(&f, "Last-Modified: {-1000}");
    ex = got(200, &f);
    edg_life_read(&ex, &strict, &life);
    assert_int_equal(life.lifetime_s, 0);
    assert_true(life.validator);
}

static void test_life__time_passes__age_and_ttl(void **state)
{
    struct fields f;
    struct edg_exchange ex;
    struct edg_life life;

    (void)state;
    set_lines(&f, "Cache-Control: max-age=60\nAge: 5");
    ex = got(200, &f);
    ex.request_ms = T0_MS - 2500;
    edg_life_read(&ex, &strict, &life);
    assert_int_equal(edg_life_age_s(&life, T0_MS), 7);
    assert_int_equal(edg_life_age_s(&life, T0_MS + 999), 7);
    assert_int_equal(edg_life_age_s(&life, T0_MS + 1000), 8);
    assert_int_equal(edg_life_age_s(&life, T0_MS - 5000), 7);
    assert_int_equal(edg_life_ttl_s(&life, T0_MS + 53000), 0);
    assert_int_equal(edg_life_ttl_s(&life, T0_MS + 55000), -2);
    assert_int_equal(edg_life_age_s(&life, UINT64_MAX), EDG_SECONDS_MAX);
}

/* ---- using ----------------------------------------------------------------------------------- */

struct use_row {
    const char *response; /* came at T0 */
    const char *request;
    uint64_t after_s;
    enum edg_verdict verdict;
    bool refresh;
    enum edg_fwd fwd;
};

#define M60 "Cache-Control: max-age=60"
#define SWR "Cache-Control: max-age=60, stale-while-revalidate=10"

static const struct use_row uses[] = {
    {M60, "", 0, EDG_FRESH, false, EDG_FWD_NONE},
    {M60, "", 59, EDG_FRESH, false, EDG_FWD_NONE},
    {M60, "", 60, EDG_REVALIDATE, false, EDG_FWD_STALE},
    {NULL, "", 0, EDG_MISS, false, EDG_FWD_URI_MISS},
    {NULL, "Cache-Control: only-if-cached", 0, EDG_TIMEOUT_504, false, EDG_FWD_URI_MISS},
    {M60, "Cache-Control: only-if-cached", 59, EDG_FRESH, false, EDG_FWD_NONE},
    {M60, "Cache-Control: only-if-cached", 60, EDG_TIMEOUT_504, false, EDG_FWD_STALE},
    {M60, "Cache-Control: no-cache", 1, EDG_REVALIDATE, false, EDG_FWD_REQUEST},
    {M60, "Pragma: no-cache", 1, EDG_REVALIDATE, false, EDG_FWD_REQUEST},
    {M60, "Cache-Control: no-store", 1, EDG_FRESH, false, EDG_FWD_NONE},
    {M60, "Cache-Control: max-age=0", 0, EDG_REVALIDATE, false, EDG_FWD_REQUEST},
    {M60, "Cache-Control: max-age=10", 10, EDG_FRESH, false, EDG_FWD_NONE},
    {M60, "Cache-Control: max-age=10", 11, EDG_REVALIDATE, false, EDG_FWD_REQUEST},
    {M60, "Cache-Control: min-fresh=20", 40, EDG_FRESH, false, EDG_FWD_NONE},
    {M60, "Cache-Control: min-fresh=20", 41, EDG_REVALIDATE, false, EDG_FWD_REQUEST},
    {M60, "Cache-Control: max-stale=5", 65, EDG_STALE_OK, false, EDG_FWD_NONE},
    {M60, "Cache-Control: max-stale=5", 66, EDG_REVALIDATE, false, EDG_FWD_STALE},
    {M60, "Cache-Control: max-stale", 100000, EDG_STALE_OK, false, EDG_FWD_NONE},
    {M60, "Cache-Control: max-stale=0", 60, EDG_REVALIDATE, false, EDG_FWD_STALE},
    {M60, "Cache-Control: max-stale, no-cache", 61, EDG_REVALIDATE, false, EDG_FWD_REQUEST},
    {"Cache-Control: max-age=60, must-revalidate", "Cache-Control: max-stale", 61, EDG_REVALIDATE,
     false, EDG_FWD_STALE},
    {"Cache-Control: s-maxage=60", "Cache-Control: max-stale", 61, EDG_REVALIDATE, false,
     EDG_FWD_STALE},
    {"Cache-Control: max-age=60, no-cache", "", 0, EDG_REVALIDATE, false, EDG_FWD_STALE},
    {SWR, "", 59, EDG_FRESH, false, EDG_FWD_NONE},
    {SWR, "", 60, EDG_STALE_OK, true, EDG_FWD_NONE},
    {SWR, "", 70, EDG_STALE_OK, true, EDG_FWD_NONE},
    {SWR, "", 71, EDG_REVALIDATE, false, EDG_FWD_STALE},
    {SWR, "Cache-Control: max-age=30", 65, EDG_REVALIDATE, false, EDG_FWD_STALE},
    {SWR, "Cache-Control: min-fresh=1", 65, EDG_REVALIDATE, false, EDG_FWD_STALE},
    {SWR, "Cache-Control: no-cache", 65, EDG_REVALIDATE, false, EDG_FWD_REQUEST},
    {SWR, "Cache-Control: only-if-cached", 65, EDG_STALE_OK, true, EDG_FWD_NONE},
};

static void test_use__requests__each_with_its_verdict(void **state)
{
    struct fields response;
    struct fields request;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(uses); i++) {
        const struct use_row *r = &uses[i];
        struct edg_exchange ex;
        struct edg_life life;
        struct edg_ask ask;
        struct edg_use use;

        set_lines(&response, r->response);
        set_lines(&request, r->request);
        ex = got(200, &response);
        edg_life_read(&ex, &strict, &life);
        edg_ask_read(RON_HTTP_GET, view(&request), &ask);
        edg_use(r->response == NULL ? NULL : &life, &ask, T0_MS + r->after_s * 1000, &use);
        if (use.verdict != r->verdict || use.refresh != r->refresh || use.fwd != r->fwd) {
            fail_msg("%s / %s / %llu: verdict %d, refresh %d, fwd %s", r->response, r->request,
                     (unsigned long long)r->after_s, use.verdict, use.refresh,
                     edg_fwd_token(use.fwd));
        }
    }
}

static void test_use__methods__head_as_get_others_pass(void **state)
{
    struct fields f;
    struct fields none;
    struct edg_exchange ex;
    struct edg_life life;
    struct edg_ask ask;
    struct edg_use use;

    (void)state;
    set_lines(&f, M60);
    set_lines(&none, "Cache-Control: only-if-cached");
    ex = got(200, &f);
    edg_life_read(&ex, &strict, &life);
    edg_ask_read(RON_HTTP_HEAD, view(&none), &ask);
    edg_use(&life, &ask, T0_MS + 2000, &use);
    assert_int_equal(use.verdict, EDG_FRESH);
    assert_int_equal(use.age_s, 2);
    assert_int_equal(use.ttl_s, 58);
    edg_ask_read(RON_HTTP_PUT, view(&none), &ask);
    edg_use(&life, &ask, T0_MS, &use);
    assert_int_equal(use.verdict, EDG_MISS);
    assert_int_equal(use.fwd, EDG_FWD_METHOD);
}

static void test_use__error_of_the_origin__stale_where_allowed(void **state)
{
    static const struct {
        const char *response;
        const char *request;
        int status;
        uint64_t after_s;
        bool ok; /* by the strict policy */
        bool lenient_ok;
    } rows[] = {
        {M60, "", 0, 61, false, true},
        {M60, "", 503, 360, false, true},
        {M60, "", 503, 361, false, false},
        {M60, "", 404, 61, false, false},
        {M60, "", 501, 61, false, false},
        {M60, "", 500, 61, false, true},
        {M60, "", 504, 61, false, true},
        {M60, "", 505, 61, false, false},
        {M60, "Cache-Control: no-cache", 503, 61, false, false},
        {M60, "Cache-Control: stale-if-error=10", 503, 70, true, true},
        {M60, "Cache-Control: stale-if-error=10", 503, 71, false, true},
        {"Cache-Control: max-age=60, stale-if-error=5", "", 0, 65, true, true},
        {"Cache-Control: max-age=60, stale-if-error=5", "", 0, 66, false, false},
        {"Cache-Control: s-maxage=60, stale-if-error=5", "", 0, 65, true, true},
        {"Cache-Control: s-maxage=60", "Cache-Control: stale-if-error=10", 0, 61, false, false},
        {"Cache-Control: max-age=60, must-revalidate, stale-if-error=5", "", 0, 61, false, false},
        {"Cache-Control: max-age=60, proxy-revalidate", "", 0, 61, false, false},
        {"Cache-Control: max-age=60, no-cache", "", 0, 1, false, false},
    };
    struct fields response;
    struct fields request;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct edg_exchange ex;
        struct edg_life a;
        struct edg_life b;
        struct edg_ask ask;
        uint64_t now_ms = T0_MS + rows[i].after_s * 1000;

        set_lines(&response, rows[i].response);
        set_lines(&request, rows[i].request);
        ex = got(200, &response);
        edg_life_read(&ex, &strict, &a);
        edg_life_read(&ex, &lenient, &b);
        edg_ask_read(RON_HTTP_GET, view(&request), &ask);
        if (edg_use_on_error(&a, &ask, rows[i].status, now_ms) != rows[i].ok ||
            edg_use_on_error(&b, &ask, rows[i].status, now_ms) != rows[i].lenient_ok) {
            fail_msg("row %zu: %s / %s", i, rows[i].response, rows[i].request);
        }
    }
}

static void test_conditions__validators__as_they_came(void **state)
{
    static const struct {
        const char *stored;
        const char *tag;
        bool date;
    } rows[] = {
        {"", "", false},
        {"ETag: \"x\"", "\"x\"", false},
        {"ETag: W/\"x\"", "W/\"x\"", false},
        {"ETag: x", "", false},
        {"ETag: \"x\"\nETag: \"y\"", "", false},
        {"Last-Modified: {-5}", "", true},
        {"Last-Modified: yesterday", "", false},
        {"ETag: \"x\"\nLast-Modified: {-5}", "\"x\"", true},
    };
    struct fields f;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct edg_conditions c;

        set_lines(&f, rows[i].stored);
        edg_conditions(view(&f), &c);
        assert_int_equal(c.if_none_match.len, strlen(rows[i].tag));
        assert_true(c.if_none_match.len == 0 || ron_str_is(c.if_none_match, rows[i].tag));
        assert_int_equal(c.if_modified_since.len, rows[i].date ? RON_HTTP_DATE_LEN : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store__answers__each_with_its_reason),
        cmocka_unit_test(test_store__methods__get_and_a_post_that_says_so),
        cmocka_unit_test(test_store__by_policy__kept_for_its_windows),
        cmocka_unit_test(test_life__answers__as_the_headers_say),
        cmocka_unit_test(test_life__strict_policy__no_heuristics),
        cmocka_unit_test(test_life__time_passes__age_and_ttl),
        cmocka_unit_test(test_use__requests__each_with_its_verdict),
        cmocka_unit_test(test_use__methods__head_as_get_others_pass),
        cmocka_unit_test(test_use__error_of_the_origin__stale_where_allowed),
        cmocka_unit_test(test_conditions__validators__as_they_came),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
