/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a target reaches what it may reach and nothing else, whatever the URL, the name service or
 * a redirect says. Method: tables of URLs; a peer on loopback that must not be asked. */
#include "unit/http/client_fixture.h"

#define GET(cl, path) ((struct ron_http_fetch_opts){.url = cl_url((cl), (path))})

/* ---- URLs ------------------------------------------------------------------------------------ */

static const struct url_row {
    const char *url;
    enum ron_rc rc;
} urls[] = {
    {"https://api.example.org", RON_OK},
    {"HTTPS://API.example.ORG:8443/x?y=z", RON_OK},
    {"https://a.cdn.example.org/", RON_OK},
    {"https://a.b.cdn.example.org/", RON_OK},
    {"https://8.8.8.8/", RON_OK},
    {"https://[2606:4700::1111]/", RON_OK},
    {"https://[2606:4700:0:0::1111]:443/", RON_OK},
    {"https://api.example.org/a%2Fb?q=%20", RON_OK},
    {"http://api.example.org/", RON_DENIED},
    {"ftp://api.example.org/", RON_DENIED},
    {"file:///etc/passwd", RON_DENIED},
    {"gopher://api.example.org/", RON_DENIED},
    {"//api.example.org/", RON_DENIED},
    {"api.example.org/", RON_DENIED},
    {"", RON_DENIED},
    {"https://", RON_DENIED},
    {"https:///path", RON_DENIED},
    {"https:/api.example.org/", RON_DENIED},
    {"https://example.org/", RON_DENIED},
    {"https://cdn.example.org/", RON_DENIED},
    {"https://xcdn.example.org/", RON_DENIED},
    {"https://.cdn.example.org/", RON_DENIED},
    {"https://api.example.org.evil.test/", RON_DENIED},
    {"https://api.example.org@evil.test/", RON_DENIED},
    {"https://user:pw@api.example.org/", RON_DENIED},
    {"https://@api.example.org/", RON_DENIED},
    {"https://evil.test#@api.example.org/", RON_DENIED},
    {"https://evil.test\\@api.example.org/", RON_DENIED},
    {"https://evil.test?@api.example.org/", RON_DENIED},
    {"https://api.example.org\\.evil.test/", RON_DENIED},
    {"https://api.example.org%00.evil.test/", RON_DENIED},
    {"https://api%2eexample.org/", RON_DENIED},
    {"https://api.example.org./", RON_DENIED},
    {"https://api.example.org:0/", RON_DENIED},
    {"https://api.example.org:99999/", RON_DENIED},
    {"https://api.example.org:/", RON_DENIED},
    {"https://api.example.org:80:80/", RON_DENIED},
    {"https://127.0.0.1./", RON_DENIED},
    {"https://127.1/", RON_DENIED},
    {"https://127.0.0.01/", RON_DENIED},
    {"https://0x7f.0.0.1/", RON_DENIED},
    {"https://0x7f000001/", RON_DENIED},
    {"https://2130706433/", RON_DENIED},
    {"https://017700000001/", RON_DENIED},
    {"https://8.8.8.9/", RON_DENIED},
    {"https://[::ffff:127.0.0.1]/", RON_DENIED},
    {"https://[::ffff:7f00:1]/", RON_DENIED},
    {"https://[::1]/", RON_DENIED},
    {"https://[::1%25lo]/", RON_DENIED},
    {"https://[2606:4700::1111", RON_DENIED},
    {"https://\xc3\xa4.example.org/", RON_DENIED},
    {"https://api.example.org /", RON_DENIED},
    {"https://api.example.org/a b", RON_INVALID},
    {"https://api.example.org/\r\nX: y", RON_INVALID},
    {"https://api.example.org/%zz", RON_INVALID},
    {"https://api.example.org/#f", RON_INVALID},
    {"https://api.example.org/\\", RON_INVALID},
};

static void test_access__urls__allowed_or_refused(void **state)
{
    static const char *const hosts[] = {"api.example.org", "*.cdn.example.org", "8.8.8.8",
                                        "[2606:4700::1111]", "127.0.0.1"};
    struct cl *cl = cl_open((struct ron_http_target_opts){
        .name = "strict", .hosts = hosts, .host_count = RON_ARRAY_LEN(hosts)});
    struct http_url url;
    struct ron_http_target_counters c;
    struct ron_http_fetch *f = NULL;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(urls); i++) {
        struct ron_str text = {urls[i].url, strlen(urls[i].url)};
        enum ron_rc rc = ron__http_url_check(cl->t, text, &url, NULL);

        if (rc != urls[i].rc) {
            fail_msg("'%s': %s", urls[i].url, ron_rc_name(rc));
        }
        if (rc != RON_OK) {
            assert_int_equal(ron_http_fetch_start(
                                 cl->t,
                                 &(struct ron_http_fetch_opts){.url = urls[i].url, .done = cl_done},
                                 &f, NULL),
                             rc);
        }
    }
    assert_null(f);
    ron_http_target_counters(cl->t, &c);
    assert_true(c.denied > 30);
    cl_free(cl);
}

static void test_access__list_with_ports__that_port_only(void **state)
{
    static const char *const hosts[] = {"api.example.org:8443", "8.8.8.8:443", "*.b.org:443",
                                        "[2606:4700::1111]:444"};
    static const struct url_row rows[] = {
        {"https://api.example.org:8443/", RON_OK},    {"https://api.example.org/", RON_DENIED},
        {"https://api.example.org:443/", RON_DENIED}, {"https://8.8.8.8/", RON_OK},
        {"https://8.8.8.8:444/", RON_DENIED},         {"https://a.b.org/", RON_OK},
        {"https://a.b.org:22/", RON_DENIED},          {"https://[2606:4700::1111]:444/", RON_OK},
        {"https://[2606:4700::1111]/", RON_DENIED}};
    struct cl *cl = cl_open((struct ron_http_target_opts){
        .name = "ports", .hosts = hosts, .host_count = RON_ARRAY_LEN(hosts)});
    struct http_url url;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_str text = {rows[i].url, strlen(rows[i].url)};
        enum ron_rc rc = ron__http_url_check(cl->t, text, &url, NULL);

        if (rc != rows[i].rc) {
            fail_msg("'%s': %s", rows[i].url, ron_rc_name(rc));
        }
    }
    cl_free(cl);
}

static void test_url__authority__has_a_port(void **state)
{
    static const struct {
        const char *url;
        const char *authority;
    } rows[] = {{"http://a.org", "a.org:80"},           {"https://a.org/x:y", "a.org:443"},
                {"https://a.org:8443/x", "a.org:8443"}, {"http://[::1]/", "[::1]:80"},
                {"http://[::1]:81", "[::1]:81"},        {"https://10.0.0.1?x:1", "10.0.0.1:443"}};
    char text[64];
    bool plain = false;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        assert_int_equal(ron_http_url_authority(rows[i].url, text, sizeof text, &plain, NULL),
                         RON_OK);
        assert_string_equal(text, rows[i].authority);
        assert_int_equal(plain, rows[i].url[4] == ':');
    }
    assert_int_equal(ron_http_url_authority("http://a.org", text, 8, &plain, NULL), RON_INVALID);
    assert_int_equal(ron_http_url_authority("ftp://a.org", text, 64, &plain, NULL), RON_INVALID);
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* The hosts are on the list; what they stand for is not allowed. */
static void test_access__forbidden_addresses__never_connected(void **state)
{
    static const char *const hosts[] = {"127.0.0.1",         "localhost",       "[::1]",
                                        "[::ffff:7f00:1]",   "10.0.0.1",        "192.168.1.1",
                                        "169.254.169.254",   "0.0.0.0",         "[fd00:ec2::254]",
                                        "[64:ff9b::7f00:1]", "255.255.255.255", "[fe80::1]"};
    struct cl *cl = cl_run((struct ron_http_target_opts){.name = "public",
                                                         .flags = RON_HTTP_TARGET_PLAIN,
                                                         .hosts = hosts,
                                                         .host_count = RON_ARRAY_LEN(hosts)});
    struct ron_http_target_counters c;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(hosts); i++) {
        char url[128];

        (void)snprintf(url, sizeof url, "http://%s:%u/ok", hosts[i], cl->peer->port);
        cl_expect(cl, cl->t, (struct ron_http_fetch_opts){.url = url},
                  RON_HTTP_FETCH_DENIED_ADDRESS, 0);
    }
    assert_int_equal(fx_gate_count(&cl->peer->accepts), 0);
    ron_http_target_counters(cl->t, &c);
    assert_int_equal(c.connections, 0);
    cl_close(cl);
}

/* A flag opens its own class and no other. */
static void test_access__flags__open_one_class(void **state)
{
    struct cl *cl = cl_open((struct ron_http_target_opts){0});

    (void)state;
    for (uint32_t flag = 1; flag <= RON_HTTP_TARGET_LINK_LOCAL; flag <<= 1) {
        cl->t->opts.flags = flag;
        assert_true(ron__http_class_allowed(cl->t, RON_IP_PUBLIC));
        assert_false(ron__http_class_allowed(cl->t, RON_IP_SPECIAL));
        assert_int_equal(ron__http_class_allowed(cl->t, RON_IP_LOOPBACK),
                         flag == RON_HTTP_TARGET_LOOPBACK);
        assert_int_equal(ron__http_class_allowed(cl->t, RON_IP_PRIVATE),
                         flag == RON_HTTP_TARGET_PRIVATE);
        assert_int_equal(ron__http_class_allowed(cl->t, RON_IP_LINK_LOCAL),
                         flag == RON_HTTP_TARGET_LINK_LOCAL);
    }
    cl_free(cl);
}

/* The connection that one target was allowed to open lies idle; another may not use it. */
static void test_access__connection_of_another_target__not_reused(void **state)
{
    struct cl *cl = cl_open((struct ron_http_target_opts){0});
    struct ron_http_target *strict = cl_target(
        cl, (struct ron_http_target_opts){.name = "strict", .flags = RON_HTTP_TARGET_PLAIN});

    (void)state;
    cl_start(cl);
    cl_expect(cl, cl->t, GET(cl, "/ok"), RON_HTTP_FETCH_ANSWERED, 200);
    cl_expect(cl, strict, GET(cl, "/ok"), RON_HTTP_FETCH_DENIED_ADDRESS, 0);
    assert_int_equal(fx_gate_count(&cl->peer->hits), 1);
    cl_close(cl);
}

static void test_access__proxy_of_the_environment__ignored(void **state)
{
    struct cl *cl;

    (void)state;
    assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    assert_int_equal(setenv("ALL_PROXY", "http://127.0.0.1:1", 1), 0);
    cl = cl_run((struct ron_http_target_opts){0});
    cl_expect(cl, cl->t, GET(cl, "/ok"), RON_HTTP_FETCH_ANSWERED, 200);
    cl_close(cl);
    assert_int_equal(unsetenv("http_proxy"), 0);
    assert_int_equal(unsetenv("ALL_PROXY"), 0);
}

/* ---- redirects ------------------------------------------------------------------------------- */

/* Where /extra leads: the port of the peer stands between the two texts. */
static struct cl *redirecting(uint32_t redirects_max, const char *before, const char *after)
{
    struct cl *cl = cl_open((struct ron_http_target_opts){.redirects_max = redirects_max});

    (void)snprintf(cl->peer->extra, sizeof cl->peer->extra, "Location: %s%u%s\r\n", before,
                   cl->peer->port, after);
    cl_start(cl);
    return cl;
}

static void test_redirect__off__is_the_answer(void **state)
{
    struct cl *cl = redirecting(0, "http://127.0.0.1:", "/ok");
    struct ron_http_fetch *f = cl_call(cl, cl->t, GET(cl, "/extra"));
    struct ron_str location;

    (void)state;
    assert_int_equal(ron_http_fetch_result(f)->status, 302);
    assert_int_equal(ron_http_fetch_result(f)->rc, RON_OK);
    assert_int_equal(ron_http_fetch_header_get(f, "Location", &location), RON_OK);
    ron_http_fetch_release(f);
    assert_int_equal(fx_gate_count(&cl->peer->hits), 1);
    cl_close(cl);
}

static void test_redirect__allowed_place__followed(void **state)
{
    static const struct ron_http_fetch_header secret = {"Authorization", {"Bearer s", 8}};
    struct cl *cl = redirecting(1, "/ok\r\nX-Port: ", "");
    struct ron_http_fetch_opts o = GET(cl, "/extra");

    (void)state;
    o.headers = &secret;
    o.header_count = 1;
    cl_expect(cl, cl->t, o, RON_HTTP_FETCH_ANSWERED, 200);
    ron_mutex_lock(&cl->peer->hits.mu);
    assert_non_null(strstr(cl->peer->last, "GET /ok "));
    assert_non_null(strstr(cl->peer->last, "Authorization: Bearer s"));
    ron_mutex_unlock(&cl->peer->hits.mu);
    cl_close(cl);
}

static void test_redirect__other_origin__without_credentials(void **state)
{
    static const struct ron_http_fetch_header secret = {"authorization", {"Bearer s", 8}};
    struct cl *cl = redirecting(1, "http://localhost:", "/ok");
    struct ron_http_fetch_opts o = GET(cl, "/extra");

    (void)state;
    o.headers = &secret;
    o.header_count = 1;
    cl_expect(cl, cl->t, o, RON_HTTP_FETCH_ANSWERED, 200);
    ron_mutex_lock(&cl->peer->hits.mu);
    assert_non_null(strstr(cl->peer->last, "GET /ok "));
    assert_null(strstr(cl->peer->last, "Bearer"));
    ron_mutex_unlock(&cl->peer->hits.mu);
    cl_close(cl);
}

static void test_redirect__elsewhere__refused(void **state)
{
    static const struct {
        const char *before;
        const char *after;
    } places[] = {{"http://evil.test:", "/"},
                  {"//evil.test:", "/"},
                  {"ftp://127.0.0.1:", "/"},
                  {"http://u@127.0.0.1:", "/"},
                  {"http://169.254.169.254:", "/latest/"}};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(places); i++) {
        struct cl *cl = redirecting(3, places[i].before, places[i].after);

        cl_expect(cl, cl->t, GET(cl, "/extra"), RON_HTTP_FETCH_DENIED_HOST, 302);
        assert_int_equal(fx_gate_count(&cl->peer->hits), 1);
        cl_close(cl);
    }
}

static void test_redirect__circle__ends(void **state)
{
    struct cl *cl = redirecting(3, "http://127.0.0.1:", "/extra");

    (void)state;
    cl_expect(cl, cl->t, GET(cl, "/extra"), RON_HTTP_FETCH_REDIRECTS, 302);
    assert_int_equal(fx_gate_count(&cl->peer->hits), 4);
    cl_close(cl);
}

static void test_redirect__of_a_post__is_the_answer(void **state)
{
    struct cl *cl = redirecting(3, "http://127.0.0.1:", "/ok");
    struct ron_http_fetch_opts o = GET(cl, "/extra");

    (void)state;
    o.method = RON_HTTP_POST;
    cl_expect(cl, cl->t, o, RON_HTTP_FETCH_ANSWERED, 302);
    assert_int_equal(fx_gate_count(&cl->peer->hits), 1);
    cl_close(cl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_access__urls__allowed_or_refused),
        cmocka_unit_test(test_access__list_with_ports__that_port_only),
        cmocka_unit_test(test_url__authority__has_a_port),
        cmocka_unit_test(test_access__forbidden_addresses__never_connected),
        cmocka_unit_test(test_access__flags__open_one_class),
        cmocka_unit_test(test_access__connection_of_another_target__not_reused),
        cmocka_unit_test(test_access__proxy_of_the_environment__ignored),
        cmocka_unit_test(test_redirect__off__is_the_answer),
        cmocka_unit_test(test_redirect__allowed_place__followed),
        cmocka_unit_test(test_redirect__other_origin__without_credentials),
        cmocka_unit_test(test_redirect__elsewhere__refused),
        cmocka_unit_test(test_redirect__circle__ends),
        cmocka_unit_test(test_redirect__of_a_post__is_the_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
