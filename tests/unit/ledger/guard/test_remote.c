/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: remote guards are asked what the page of formats says, their answers and their silence have
 * typed ends, and a service that does not work is left alone until it works again.
 * Method: a stub on real sockets that answers, fails and stalls on request; short times. */
#include "unit/ledger/guard_stub.h"

/* For tests in which a try may stall, and for those that would be wrong if a busy machine made one
 * seem to. */
static const struct led_remote_target quick = {.try_ms = 150, .backoff_max_ms = 5};
static const struct led_remote_target patient = {.try_ms = 1000, .backoff_max_ms = 5};

static void test_remote__yes__every_service_in_its_turn(void **state)
{
    struct rf *f = rf_open(true, (struct led_remote_target){.bearer = "our-secret"});
    struct led_work *w = &f->gf->w;

    (void)state;
    stub_says(f->stub, 200, "{\"ok\":true,\"key_id\":\"k\",\"more\":[1]}");
    gf_token(f->gf, (const char *const[]){"aud = ledger"}, 1);
    (void)gf_batch(f->gf, gf_entry("Transfer", "a", "5", ",\"to\":\"b\",\"memo\":\"m\""), NULL,
                   NULL);
    (void)snprintf(w->corr_id, sizeof w->corr_id, "corr-1");
    assert_int_equal(led_preval_step(&f->preval, w, GF_NOW_MS), LED_NEXT_REMOTE);
    assert_int_equal(w->step, LED_STEP_KMS);
    assert_int_equal(w->batch.count, 0); /* nothing was parsed yet */
    rf_ask(f);
    assert_true(stub_heard(f->stub, "POST /kms HTTP/1.1"));
    assert_true(stub_heard(f->stub, "\"op\":\"kms_verify\""));
    assert_true(stub_heard(f->stub, f->gf->token.s));
    assert_true(stub_heard(f->stub, "Authorization: Bearer our-secret"));
    assert_true(stub_heard(f->stub, "X-Corr-ID: corr-1"));
    assert_true(w->auth->vouched);
    assert_int_equal(led_preval_step(&f->preval, w, GF_NOW_MS), LED_NEXT_REMOTE);
    assert_int_equal(w->step, LED_STEP_POLICY);
    rf_ask(f);
    assert_true(stub_heard(f->stub, "POST /policy HTTP/1.1"));
    assert_true(stub_heard(f->stub, "\"op\":\"policy_guard\""));
    assert_true(stub_heard(f->stub, "\"entries\":[{\"id\":"));
    assert_true(stub_heard(f->stub, "\"memo\":\"m\""));
    assert_false(stub_heard(f->stub, f->gf->token.s)); /* only the KMS sees it */
    assert_int_equal(led_preval_step(&f->preval, w, GF_NOW_MS), LED_NEXT_REMOTE);
    assert_int_equal(w->step, LED_STEP_WALLET);
    rf_ask(f);
    assert_true(stub_heard(f->stub, "POST /wallet HTTP/1.1"));
    assert_true(stub_heard(f->stub, "\"op\":\"double_spend\""));
    assert_int_equal(led_preval_step(&f->preval, w, GF_NOW_MS), LED_NEXT_SEQUENCER);
    assert_int_equal(w->step, LED_STEP_DONE);
    assert_int_equal(fx_gate_count(&f->stub->hits), 3);
    rf_close(f);
}

static void test_remote__no__is_that_guards_reason(void **state)
{
    static const struct {
        enum led_step step;
        const char *body;
        enum led_reason reason;
        uint32_t idx;
    } rows[] = {
        {LED_STEP_KMS, "{\"ok\":false}", LED_REASON_UNAUTH, 0},
        {LED_STEP_KMS, "{\"ok\":false,\"reasons\":[{\"reason\":\"conflict\"}]}", LED_REASON_UNAUTH,
         0},
        {LED_STEP_POLICY, "{\"ok\":false,\"reasons\":[{\"idx\":1,\"detail\":\"too much\"}]}",
         LED_REASON_POLICY_DENIED, 1},
        {LED_STEP_POLICY, "{\"ok\":false,\"reasons\":[{\"idx\":7}]}", LED_REASON_POLICY_DENIED, 0},
        {LED_STEP_POLICY, "{\"ok\":false,\"reasons\":[]}", LED_REASON_POLICY_DENIED, 0},
        {LED_STEP_WALLET, "{\"ok\":false,\"reasons\":[{\"idx\":1}]}", LED_REASON_CONFLICT, 1},
        {LED_STEP_WALLET,
         "{\"ok\":false,\"reasons\":[{\"idx\":1,\"reason\":\"insufficient_funds\"}]}",
         LED_REASON_INSUFFICIENT_FUNDS, 1},
        {LED_STEP_WALLET, "{\"ok\":false,\"reasons\":[{\"reason\":\"safe_mode\"}]}",
         LED_REASON_CONFLICT, 0},
        {LED_STEP_POLICY, "", LED_REASON_INTERNAL, 0},
        {LED_STEP_POLICY, "{}", LED_REASON_INTERNAL, 0},
        {LED_STEP_POLICY, "{\"ok\":1}", LED_REASON_INTERNAL, 0},
        {LED_STEP_POLICY, "{\"ok\":true}x", LED_REASON_INTERNAL, 0},
        {LED_STEP_KMS, "yes", LED_REASON_INTERNAL, 0},
    };
    struct rf *f = rf_open(true, patient);

    (void)state;
    gf_token(f->gf, (const char *const[]){"aud = ledger"}, 1);
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct led_work *w = gf_batch(f->gf, gf_entry("Transfer", "a", "5", ",\"to\":\"b\""),
                                      gf_entry("Transfer", "a", "6", ",\"to\":\"c\""), NULL);

        stub_says(f->stub, 200, rows[i].body);
        assert_int_equal(led_guard_admit(f->gf->guard, w, GF_NOW_MS), LED_VERDICT_ASK);
        if (rows[i].step != LED_STEP_KMS) {
            assert_true(led_preval_parse(gf_hash_key, w));
        }
        w->step = (uint8_t)rows[i].step;
        rf_ask(f);
        rf_expect(f, rows[i].reason, rows[i].idx);
        assert_false(w->auth->vouched);
        assert_int_equal(led_preval_step(&f->preval, w, GF_NOW_MS), LED_NEXT_ANSWER);
    }
    assert_int_equal(gf_count(f->gf, "auth_failures_total", "tcp"), 2);
    rf_close(f);
}

static void test_remote__4xx__has_its_meaning_and_is_no_failure_of_the_service(void **state)
{
    static const struct {
        uint32_t status;
        enum led_reason policy;
        enum led_reason wallet;
    } rows[] = {
        {401, LED_REASON_POLICY_DENIED, LED_REASON_CONFLICT},
        {403, LED_REASON_POLICY_DENIED, LED_REASON_CONFLICT},
        {409, LED_REASON_INTERNAL, LED_REASON_CONFLICT},
        {408, LED_REASON_BUSY, LED_REASON_BUSY},
        {429, LED_REASON_BUSY, LED_REASON_BUSY},
        {400, LED_REASON_INTERNAL, LED_REASON_INTERNAL},
        {404, LED_REASON_INTERNAL, LED_REASON_INTERNAL},
        {405, LED_REASON_INTERNAL, LED_REASON_INTERNAL},
    };
    struct rf *f = rf_open(false, patient);
    struct ron_http_target_counters c;

    (void)state;
    gf_token(f->gf, (const char *const[]){"aud = ledger"}, 1);
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        stub_says(f->stub, rows[i].status, "{\"ok\":true}");
        rf_checked(f);
        rf_ask(f);
        rf_expect(f, rows[i].policy, 0);
        rf_checked(f);
        f->gf->w.step = LED_STEP_WALLET;
        rf_ask(f);
        rf_expect(f, rows[i].wallet, 0);
    }
    /* Nobody was asked twice. */
    assert_int_equal(fx_gate_count(&f->stub->hits), 2 * RON_ARRAY_LEN(rows));
    ron_http_target_counters(led_remote_http(f->remote, LED_REMOTE_POLICY), &c);
    assert_int_equal(c.breaker.state, RON_BREAKER_IS_CLOSED);
    assert_int_equal(c.breaker.upstream_fail_total, 0);
    rf_close(f);
}

static void test_remote__fails_once__is_asked_again(void **state)
{
    struct rf *f = rf_open(false, patient);

    (void)state;
    gf_token(f->gf, (const char *const[]){"aud = ledger"}, 1);
    stub_says(f->stub, 200, "{\"ok\":true}");
    rf_checked(f);
    ron_au32_store(&f->stub->fail_next, 1);
    rf_ask(f);
    assert_int_equal(f->gf->w.result, LED_RESULT_NONE);
    assert_int_equal(fx_gate_count(&f->stub->hits), 2);
    rf_checked(f);
    ron_au32_store(&f->stub->stall_next, 1); /* a timeout is worth another try too */
    rf_ask(f);
    assert_int_equal(f->gf->w.result, LED_RESULT_NONE);
    rf_checked(f);
    ron_au32_store(&f->stub->fail_next, 9); /* the policy guard has one more try */
    rf_ask(f);
    rf_expect(f, LED_REASON_TIMEOUT, 0);
    assert_int_equal(fx_gate_count(&f->stub->hits), 6);
    rf_checked(f); /* the KMS two */
    ron_au32_store(&f->stub->fail_next, 2);
    f->gf->w.step = LED_STEP_WALLET;
    rf_ask(f);
    rf_expect(f, LED_REASON_TIMEOUT, 0);
    assert_int_equal(fx_gate_count(&f->stub->hits), 8);
    rf_close(f);
}

static void test_remote__kms_fails_twice__the_third_try_counts(void **state)
{
    struct rf *f = rf_open(true, patient);
    struct led_work *w;

    (void)state;
    gf_token(f->gf, (const char *const[]){"aud = ledger"}, 1);
    stub_says(f->stub, 200, "{\"ok\":true}");
    w = gf_batch(f->gf, gf_entry("Mint", "a", "5", ""), NULL, NULL);
    assert_int_equal(led_preval_step(&f->preval, w, GF_NOW_MS), LED_NEXT_REMOTE);
    ron_au32_store(&f->stub->fail_next, 2);
    rf_ask(f);
    assert_true(w->auth->vouched);
    assert_int_equal(fx_gate_count(&f->stub->hits), 3);
    rf_close(f);
}

static void test_remote__stalled__ends_in_time_and_is_counted(void **state)
{
    struct rf *f = rf_open(false, (struct led_remote_target){.try_ms = 60, .backoff_max_ms = 5});
    struct ron_buf text;
    struct ron_http_op_counters c;

    (void)state;
    gf_token(f->gf, (const char *const[]){"aud = ledger"}, 1);
    stub_says(f->stub, 200, "{\"ok\":true}");
    ron_au32_store(&f->stub->stall_next, 2);
    rf_checked(f);
    rf_ask(f);
    rf_expect(f, LED_REASON_TIMEOUT, 0);
    ron_http_op_counters(led_remote_http(f->remote, LED_REMOTE_POLICY), 0, &c);
    assert_int_equal(c.io_timeouts, 2);
    ron_buf_init(&text, 1 << 20);
    assert_int_equal(ron_metrics_write(f->gf->metrics, &text), RON_OK);
    assert_non_null(
        strstr(ron_buf_text(&text), "io_timeouts_total{op=\"policy_guard\",peer=\"policy\"} 2"));
    assert_non_null(strstr(ron_buf_text(&text), "breaker_state{svc=\"kms\"} 0"));
    ron_buf_done(&text);
    rf_close(f);
}

static bool exported(struct rf *f, const char *text)
{
    bool found;

    ron_mutex_lock(&f->exported.mu);
    found = strstr(f->spans, text) != NULL;
    ron_mutex_unlock(&f->exported.mu);
    return found;
}

static void test_remote__spans__tell_the_call_and_no_secret(void **state)
{
    /* Longer than any time or id of a span, so that it cannot stand in one of them by chance. */
    static const char amount[] = "777000000000000000000000000000000777";
    struct rf *f = rf_open(true, quick);
    struct led_work *w;

    (void)state;
    gf_token(f->gf, (const char *const[]){"aud = ledger"}, 1);
    stub_says(f->stub, 200, "{\"ok\":true}");
    ron_au32_store(&f->stub->stall_next, 3);
    w = gf_batch(f->gf, gf_entry("Transfer", "t:secret", amount, ",\"to\":\"b\""), NULL, NULL);
    (void)snprintf(w->corr_id, sizeof w->corr_id, "corr-9");
    assert_int_equal(led_preval_step(&f->preval, w, GF_NOW_MS), LED_NEXT_REMOTE);
    rf_ask(f);
    rf_expect(f, LED_REASON_TIMEOUT, 0);
    fx_until(exported(f, "guard.kms"));
    assert_true(exported(f, "corr-9"));
    assert_true(exported(f, w->auth->info.log_id));
    assert_true(exported(f, "timeout_total"));
    assert_false(exported(f, f->gf->token.s));
    assert_false(exported(f, "t:secret"));
    assert_false(exported(f, amount));
    assert_true(stub_heard(f->stub, "traceparent: 00-"));
    rf_close(f);
}

static void test_remote__deadline_of_the_request__comes_first(void **state)
{
    struct rf *f = rf_open(false, (struct led_remote_target){0});
    uint64_t before;

    (void)state;
    gf_token(f->gf, (const char *const[]){"aud = ledger"}, 1);
    stub_says(f->stub, 200, "{\"ok\":true}");
    ron_au32_store(&f->stub->stall_next, 9);
    rf_checked(f);
    before = ron_mono_ns();
    assert_int_equal(
        led_remote_ask(f->remote, &f->gf->w, ron_deadline_after_ms(ron_mono_ns(), 50), rf_done, f),
        LED_VERDICT_ASK);
    assert_true(fx_gate_reached(&f->done, 1));
    assert_true(ron_mono_ns() - before < 700 * RON_NS_PER_MS); /* a try alone has 800 ms */
    rf_expect(f, LED_REASON_TIMEOUT, 0);
    rf_close(f);
}

static void test_remote__failing_service__breaker_opens_and_one_success_closes_it(void **state)
{
    static const struct ron_breaker_rules rules = {
        .row_max = 5, .window_ms = 10000, .open_ms = 300, .probes = 1};
    struct rf *f = rf_open(
        false, (struct led_remote_target){.try_ms = 2000, .tries_max = 1, .breaker = &rules});
    uint64_t hits;

    (void)state;
    gf_token(f->gf, (const char *const[]){"aud = ledger"}, 1);
    stub_says(f->stub, 500, "");
    for (int i = 0; i < 5; i++) {
        rf_checked(f);
        assert_true(led_remote_ready(f->remote, LED_REMOTE_POLICY));
        rf_ask(f);
        rf_expect(f, LED_REASON_TIMEOUT, 0);
    }
    hits = fx_gate_count(&f->stub->hits);
    assert_int_equal(hits, 5);
    assert_false(led_remote_ready(f->remote, LED_REMOTE_POLICY));
    assert_true(led_remote_ready(f->remote, LED_REMOTE_WALLET)); /* another service */
    rf_checked(f);
    rf_ask(f);
    rf_expect(f, LED_REASON_TIMEOUT, 0);
    assert_non_null(strstr(f->gf->w.refusals.items[0].detail, "not asked"));
    assert_int_equal(fx_gate_count(&f->stub->hits), hits);
    stub_says(f->stub, 200, "{\"ok\":true}");
    do { /* until it is half-open */
        rf_checked(f);
        rf_ask(f);
    } while (f->gf->w.result == LED_RESULT_REFUSED);
    assert_int_equal(fx_gate_count(&f->stub->hits), hits + 1);
    assert_true(led_remote_ready(f->remote, LED_REMOTE_POLICY));
    rf_close(f);
}

static void test_remote__defaults__are_the_table_of_the_specification(void **state)
{
    static const struct {
        enum ron_retry_curve_id id;
        uint32_t tries;
        uint32_t wait_max_ms;
    } rows[] = {{RON_RETRY_LEDGER_KMS, 3, 250},
                {RON_RETRY_LEDGER_POLICY, 2, 150},
                {RON_RETRY_LEDGER_WALLET, 2, 150}};
    static const uint32_t try_ms[] = {
#define X(name, svc, op, ms, curve) ms,
        LED_REMOTE_TABLE(X)
#undef X
    };
    const struct ron_breaker_rules *b = ron_breaker_preset(RON_BREAKER_LEDGER);

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        const struct ron_retry_curve *c = ron_retry_curve(rows[i].id);

        assert_int_equal(c->tries_max, rows[i].tries);
        assert_int_equal(c->first_ms, 50);
        assert_int_equal(c->factor, 2);
        assert_int_equal(c->wait_max_ms, rows[i].wait_max_ms);
        assert_true(c->jitter_pct > 0 && c->any_5xx);
    }
    assert_int_equal(try_ms[LED_REMOTE_KMS], 1000);
    assert_int_equal(try_ms[LED_REMOTE_POLICY], 800);
    assert_int_equal(try_ms[LED_REMOTE_WALLET], 1000);
    assert_int_equal(b->open_ms, 5000);
    assert_int_equal(b->probes, 1);
}

struct vouched {
    struct fx_gate done;
    bool refused;
    enum led_reason reason;
};

static void on_vouched(void *arg, const struct led_refusal *refusal)
{
    struct vouched *v = arg;

    v->refused = refusal != NULL;
    v->reason = refusal != NULL ? refusal->reason : LED_REASON_OK;
    fx_gate_add(&v->done, 1);
}

static void test_remote__token_of_a_route__vouched_once_for_its_time(void **state)
{
    struct rf *f = rf_open(true, patient);
    struct vouched v = {0};
    struct led_refusal refusal;
    struct led_work *w;

    (void)state;
    fx_gate_init(&v.done);
    gf_token(f->gf, (const char *const[]){"aud = ledger"}, 1);
    for (uint64_t i = 0; i < 2; i++) {
        w = gf_json(f->gf, "");
        stub_says(f->stub, 200, i == 0 ? "{\"ok\":false}" : "{\"ok\":true}");
        assert_int_equal(led_guard_open(f->gf->guard, &w->caller, ron_env_wall_ms(&f->fx->env),
                                        &w->arena, &w->auth, &refusal),
                         LED_VERDICT_ASK);
        assert_int_equal(led_remote_vouch(f->remote,
                                          &(struct led_remote_vouch){.caller = &w->caller,
                                                                     .auth = w->auth,
                                                                     .arena = &w->arena,
                                                                     .corr_id = STR("c"),
                                                                     .done = on_vouched,
                                                                     .arg = &v},
                                          &refusal),
                         LED_VERDICT_ASK);
        assert_true(fx_gate_reached(&v.done, i + 1));
        assert_int_equal(v.refused, i == 0);
        assert_int_equal(v.reason, i == 0 ? LED_REASON_UNAUTH : LED_REASON_OK);
        assert_int_equal(w->auth->vouched, i == 1);
    }
    w = gf_json(f->gf, "");
    assert_int_equal(led_guard_open(f->gf->guard, &w->caller, ron_env_wall_ms(&f->fx->env),
                                    &w->arena, &w->auth, &refusal),
                     LED_VERDICT_OK); /* remembered */
    fx_gate_done(&v.done);
    rf_close(f);
}

static void test_remote__too_many_or_too_large__refused_at_once(void **state)
{
    struct rf *f = rf_open(false, (struct led_remote_target){.inflight_max = 1, .try_ms = 2000});
    static struct led_entry many[LED_BATCH_BIN_MAX];
    struct led_work first;

    (void)state;
    gf_token(f->gf, (const char *const[]){"aud = ledger"}, 1);
    stub_says(f->stub, 200, "{\"ok\":true}");
    ron_au32_store(&f->stub->stall_next, 1);
    rf_checked(f);
    first = f->gf->w; /* in flight; its arena moves with it */
    assert_int_equal(led_remote_ask(f->remote, &first, ron_deadline_never(), rf_done, f),
                     LED_VERDICT_ASK);
    f->gf->w = (struct led_work){0};
    f->gf->w.arena = (struct ron_arena){0};
    rf_checked(f);
    if (led_remote_ask(f->remote, &f->gf->w, ron_deadline_never(), rf_done, f) == LED_VERDICT_ASK) {
        assert_true(fx_gate_reached(&f->done, 1));
    }
    rf_expect(f, LED_REASON_BUSY, 0);
    fx_until(fx_gate_count(&f->done) >= 1); /* the first ends with its second try */
    ron_arena_done(&first.arena);
    rf_checked(f);
    for (size_t i = 0; i < LED_BATCH_BIN_MAX; i++) {
        many[i] = f->gf->w.batch.entries[0];
    }
    f->gf->w.batch.entries = many;
    f->gf->w.batch.count = LED_BATCH_BIN_MAX;
    assert_int_equal(led_remote_ask(f->remote, &f->gf->w, ron_deadline_never(), rf_done, f),
                     LED_VERDICT_REFUSED);
    rf_expect(f, LED_REASON_TOO_LARGE, 0);
    rf_close(f);
}

static void test_remote__bad_urls__say_what_is_wrong(void **state)
{
    static const char *const bad[] = {"ftp://x/", "http://example.org/", "https://", "kms",
                                      "http://10.0.0.1/"};
    struct ron_registry *reg = NULL;
    struct ron_err err;

    (void)state;
    assert_int_equal(ron_registry_new(&reg, NULL), RON_OK);
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        struct led_remote_opts o = {.env = ron_env_linux(), .registry = reg};
        struct led_remote *r = NULL;

        err = (struct ron_err){0};
        o.targets[LED_REMOTE_KMS].url = bad[i];
        assert_int_equal(led_remote_new(&o, &r, &err), RON_INVALID);
        assert_int_equal(strncmp(err.msg, "kms: ", 5), 0);
        assert_null(r);
    }
    ron_registry_free(reg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_remote__yes__every_service_in_its_turn),
        cmocka_unit_test(test_remote__no__is_that_guards_reason),
        cmocka_unit_test(test_remote__4xx__has_its_meaning_and_is_no_failure_of_the_service),
        cmocka_unit_test(test_remote__fails_once__is_asked_again),
        cmocka_unit_test(test_remote__kms_fails_twice__the_third_try_counts),
        cmocka_unit_test(test_remote__stalled__ends_in_time_and_is_counted),
        cmocka_unit_test(test_remote__spans__tell_the_call_and_no_secret),
        cmocka_unit_test(test_remote__deadline_of_the_request__comes_first),
        cmocka_unit_test(test_remote__failing_service__breaker_opens_and_one_success_closes_it),
        cmocka_unit_test(test_remote__defaults__are_the_table_of_the_specification),
        cmocka_unit_test(test_remote__token_of_a_route__vouched_once_for_its_time),
        cmocka_unit_test(test_remote__too_many_or_too_large__refused_at_once),
        cmocka_unit_test(test_remote__bad_urls__say_what_is_wrong),
    };

    return cmocka_run_group_tests_name("ledger.remote", tests, NULL, NULL);
}
