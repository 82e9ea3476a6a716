/* SPDX-License-Identifier: Apache-2.0 */
/* test_ops.c - what the HTTP front counts for each answer, and the collectors of guards.
 *
 * Goal: routes, methods, statuses and reasons end up in the series that docs/formats/metrics.md
 *   names, nothing that a client sends becomes a label.
 * Method: answers are told to the hook as the server tells them; the routes themselves are tried
 *   by tests/system/60-obs.py.
 */
#include "support/support.h"

#include "cap/cap_testing.h"
#include "ron/http/ops.h"
#include "ron/io/linux_env.h"
#include "support/cap_keys.h"
#include "support/cas_put.h"

static const struct ron_http_route routes[] = {
    {RON_HTTP_GET, "/v1/tx/{id}", NULL, NULL, 0, 0},
    {RON_HTTP_POST, "/v1/transfer", NULL, NULL, 0, 0},
};

static void expect_lines(struct ron_metrics *m, const char *const *lines)
{
    struct ron_buf out;

    ron_buf_init(&out, RON_METRIC_TEXT_MAX);
    assert_int_equal(ron_metrics_write(m, &out), RON_OK);
    for (; *lines != NULL; lines++) {
        char line[256];

        (void)snprintf(line, sizeof line, "\n%s\n", *lines);
        if (strstr(ron_buf_text(&out), line) == NULL) {
            fail_msg("no line \"%s\" in:\n%s", *lines, ron_buf_text(&out));
        }
    }
    ron_buf_done(&out);
}

static void test_ops__answers__counted_by_route_method_status_and_reason(void **state)
{
    const struct ron_http_done answers[] = {
        {.route = &routes[0], .method = RON_HTTP_GET, .status = 200, .took_ms = 3},
        {.route = &routes[0], .method = RON_HTTP_GET, .status = 200, .took_ms = 30},
        {.route = &routes[0], .method = RON_HTTP_HEAD, .status = 200, .took_ms = 0},
        {.route = &routes[0], .method = RON_HTTP_GET, .status = 451, .took_ms = 0},
        {.route = &routes[1], .method = RON_HTTP_POST, .status = 429, .reason = "busy"},
        {.route = &routes[1], .method = RON_HTTP_POST, .status = 409, .reason = "nonce_conflict"},
        {.route = NULL, .method = RON_HTTP_GET, .status = 404, .reason = "not_found"},
    };
    struct ron_metrics *m = NULL;
    struct ron_http_metrics *h = NULL;

    (void)state;
    assert_int_equal(ron_metrics_new(NULL, &m, NULL), RON_OK);
    assert_int_equal(ron_http_metrics_new(m, routes, 2, &h, NULL), RON_OK);
    for (size_t i = 0; i < RON_ARRAY_LEN(answers); i++) {
        ron_http_metrics_done(h, &answers[i]);
    }
    expect_lines(
        m, (const char *const[]){
               "http_requests_total{route=\"/v1/tx/{id}\",method=\"GET\",status=\"200\"} 2",
               "http_requests_total{route=\"/v1/tx/{id}\",method=\"HEAD\",status=\"200\"} 1",
               "http_requests_total{route=\"/v1/tx/{id}\",method=\"GET\",status=\"451\"} 1",
               "http_requests_total{route=\"/v1/transfer\",method=\"POST\",status=\"429\"} 1",
               "http_requests_total{route=\"unmatched\",method=\"GET\",status=\"404\"} 1",
               "request_latency_seconds_bucket{route=\"/v1/tx/{id}\",method=\"GET\",le=\"0.005\"} "
               "3",
               "request_latency_seconds_sum{route=\"/v1/tx/{id}\",method=\"GET\"} 0.033",
               "request_latency_seconds_count{route=\"/v1/transfer\",method=\"POST\"} 2",
               "busy_rejections_total{endpoint=\"/v1/transfer\",queue=\"\"} 1",
               "busy_rejections_total{endpoint=\"/v1/tx/{id}\",queue=\"\"} 0",
               "rejected_total{reason=\"busy\"} 1",
               "rejected_total{reason=\"nonce_conflict\"} 1",
               "rejected_total{reason=\"draining\"} 0",
               "metrics_samples_dropped_total 0",
               NULL,
           });
    ron_http_metrics_free(h);
    ron_metrics_free(m);
}

static void test_ops__capabilities__collected_without_a_token(void **state)
{
    const struct ron_env *env = ron_env_linux();
    const struct ron_cap_request request = {.audience = {"wallet", 6}};
    struct ron_metrics *m = NULL;
    struct ron_cap_verifier *v = NULL;
    struct ron_cap_keys *keys = NULL;
    struct ron_cap_ring ring;
    char text[512];
    struct ron_buf token;
    struct ron_str t;

    (void)state;
    assert_int_equal(ron_metrics_new(NULL, &m, NULL), RON_OK);
    assert_int_equal(ron_cap_keys_ephemeral(env, &keys, NULL), RON_OK);
    ron_cap_ring_init(&ring, keys);
    assert_int_equal(
        ron_cap_verifier_new(&(struct ron_cap_verifier_opts){.env = env, .ring = &ring}, &v, NULL),
        RON_OK);
    ron_buf_init_over(&token, text, sizeof text);
    assert_int_equal(ron_cap_mint(keys, env, &(struct ron_cap_mint_opts){0}, &token, NULL), RON_OK);
    t = (struct ron_str){(const char *)ron_buf_data(&token), ron_buf_len(&token)};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ron_cap_verifier_check(v, t, &request, NULL), RON_CAP_OK);
    }
    assert_int_equal(ron_cap_verifier_reload(v, env, "/nowhere/keys", NULL, NULL), RON_NOTFOUND);
    assert_int_equal(ron_collect_cap(m, v, NULL), RON_OK);
    expect_lines(m, (const char *const[]){
                        "cap_checks_total{result=\"hit\"} 3",
                        "cap_checks_total{result=\"miss\"} 1",
                        "cap_cache_entries 1",
                        "cap_cache_removed_total{cause=\"evicted\"} 0",
                        "cap_cache_removed_total{cause=\"stale\"} 0",
                        "cap_cache_bypassed_total 0",
                        "cap_keys 1",
                        "cap_keys_generation 1",
                        "cap_key_reloads_total{result=\"ok\"} 0",
                        "cap_key_reloads_total{result=\"failed\"} 1",
                        NULL,
                    });
    ron_cap_verifier_free(v);
    ron_cap_ring_done(&ring);
    ron_metrics_free(m);
}

static void test_ops__content_store__every_counter_collected(void **state)
{
    static const char *const all[] = {
#define X(field, metric, doc) metric "{store=\"tiles\"} ",
        RON_CAS_COUNTERS(X) RON_CAS_GAUGES(X)
#undef X
    };
    struct ron_metrics *m = NULL;
    struct ron_cas *store = NULL;
    struct ron_ops_cas c = {.name = "tiles"};
    struct ron_cas_opts opts = {.env = ron_env_linux()};
    struct ron_cas_obj *obj = NULL;
    struct ron_buf text;
    struct ron_b3 id;

    (void)state;
    assert_int_equal(ron_metrics_new(NULL, &m, NULL), RON_OK);
    assert_int_equal(ron_cas_new(&opts, &store, NULL), RON_OK);
    c.store = store;
    assert_int_equal(ron_collect_cas(m, &c, NULL), RON_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ron_cas_put(store, "abc", 3, &id, NULL), RON_OK);
    }
    assert_int_equal(ron_cas_get(store, &id, &obj), RON_OK);
    expect_lines(m, (const char *const[]){
                        "cas_commits_total{store=\"tiles\"} 1",
                        "cas_duplicates_total{store=\"tiles\"} 1",
                        "cas_hits_total{store=\"tiles\"} 1",
                        "cas_bytes{store=\"tiles\"} 3",
                        "cas_held_objects{store=\"tiles\"} 1",
                        "cas_loaded{store=\"tiles\"} 1",
                        NULL,
                    });
    ron_buf_init(&text, RON_METRIC_TEXT_MAX);
    assert_int_equal(ron_metrics_write(m, &text), RON_OK);
    for (size_t i = 0; i < RON_ARRAY_LEN(all); i++) {
        assert_non_null(strstr(ron_buf_text(&text), all[i]));
    }
    ron_buf_done(&text);
    ron_cas_release(obj);
    ron_cas_free(store);
    ron_metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops__answers__counted_by_route_method_status_and_reason),
        cmocka_unit_test(test_ops__capabilities__collected_without_a_token),
        cmocka_unit_test(test_ops__content_store__every_counter_collected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
