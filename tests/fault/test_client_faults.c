/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: an HTTP client or fetch that cannot be made leaves nothing behind; when memory, sockets and
 * the poller fail under a running client, every fetch still ends, once, and it works afterwards.
 * Method: a sweep over making; and a run in which one call in eight fails on the workers. */
#include "unit/http/client_fixture.h"

enum { CALLS = 200 };

static void never(struct ron_http_fetch *f, void *arg)
{
    (void)f;
    ++*(int *)arg;
}

static enum ron_rc make_all(struct ron_http_client *c, int *ends)
{
    static const char *const hosts[] = {"127.0.0.1", "*.example.org"};
    struct ron_http_target *t = NULL;
    struct ron_http_fetch *f = NULL;
    enum ron_rc rc;

    RON_TRY(ron_http_client_add(
        c,
        &(struct ron_http_target_opts){.name = "svc",
                                       .hosts = hosts,
                                       .host_count = 2,
                                       .unix_path = "/run/x.sock",
                                       .breaker = ron_breaker_preset(RON_BREAKER_DEFAULT)},
        &t, NULL));
    rc = ron_http_fetch_start(t,
                              &(struct ron_http_fetch_opts){.method = RON_HTTP_POST,
                                                            .url = "https://127.0.0.1/x",
                                                            .body = {"body", 4},
                                                            .corr_id = {"c", 1},
                                                            .done = never,
                                                            .arg = ends},
                              &f, NULL);
    RON_ASSERT((rc == RON_OK) == (f != NULL));
    ron_http_fetch_release(f);
    return rc;
}

static enum ron_rc make_and_free(void *arg)
{
    struct ron_registry *reg = NULL;
    struct ron_http_client *c = NULL;
    int ends = 0;
    enum ron_rc rc;

    (void)arg;
    RON_TRY(ron_registry_new(&reg, NULL));
    rc = ron_http_client_new(
        &(struct ron_http_client_opts){.name = "client", .env = ron_env_linux(), .registry = reg},
        &c, NULL);
    if (rc == RON_OK) {
        rc = make_all(c, &ends);
    }
    RON_ASSERT(ron_http_client_free(c));
    RON_ASSERT(ends == (rc == RON_OK)); /* what was started has ended with its client */
    RON_ASSERT(ron_registry_count(reg) == 0);
    ron_registry_free(reg);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_client__each_step_of_making_it_fails__nothing_left, make_and_free)

static bool fail_some(enum ron_fault_kind kind, const char *site)
{
    (void)kind;
    return fx_fails_here(site, 8);
}

static void test_client__calls_fail_at_random__each_fetch_ends(void **state)
{
    static const char *const paths[] = {"/ok", "/truncate", "/reset", "/flaky", "/once"};
    static const struct ron_retry_curve curve = {
        .tries_max = 3, .first_ms = 1, .factor = 1, .base_max_ms = 1, .any_5xx = true};
    struct cl *cl = cl_run((struct ron_http_target_opts){
        .retry = &curve, .inflight_max = CALLS, .try_timeout_ms = 500, .total_timeout_ms = 1000});
    static struct ron_http_fetch *f[CALLS];
    size_t good = 0;

    (void)state;
    ron_fault_hook = fail_some;
    for (size_t i = 0; i < CALLS; i++) {
        f[i] = cl_begin(
            cl, cl->t,
            (struct ron_http_fetch_opts){.url = cl_url(cl, paths[i % RON_ARRAY_LEN(paths)])});
    }
    assert_true(fx_gate_reached(&cl->done, CALLS));
    ron_fault_hook = NULL;
    for (size_t i = 0; i < CALLS; i++) {
        good += ron_http_fetch_result(f[i])->rc == RON_OK;
        assert_true(ron_http_fetch_result(f[i])->took_ms <= 1000 + 500);
        ron_http_fetch_release(f[i]);
    }
    assert_true(good > 0);
    assert_int_equal(fx_gate_count(&cl->done), CALLS);
    cl_expect(cl, cl->t, (struct ron_http_fetch_opts){.url = cl_url(cl, "/ok")},
              RON_HTTP_FETCH_ANSWERED, 200);
    cl_close(cl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client__each_step_of_making_it_fails__nothing_left),
        cmocka_unit_test(test_client__calls_fail_at_random__each_fetch_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
