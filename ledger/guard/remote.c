/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/remote.c - calls to remote guards; the contract is in remote.h.
 *
 * A question in flight (struct ask) lies in the arena of its work, so that asking allocates only
 * what the HTTP client copies. Timeouts, retries, breaker and their metrics are the client's; here
 * a question becomes a request and its end a verdict. */
#include "ledger/guard/remote.h"

#include <stdio.h>
#include <string.h>

#include "ledger/guard/remote_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/secret.h"

enum {
    REMOTE_MAGIC = 0x6c656452,
    ASK_MAGIC = 0x6c656441,
    URL_MAX = 1024,
    BEARER_MAX = RON_CAP_TEXT_MAX + 16,
    HOST_MAX = 256,
    TELL_MS = 60000, /* between two lines of the log about the same service */
};

struct service_row {
    const char *name;
    const char *op;
    uint32_t try_ms;
    enum ron_retry_curve_id curve;
    const char *span;
};

static const struct service_row rows[LED_REMOTE_COUNT] = {
#define X(name, svc, op, ms, curve)                                                                \
    [LED_REMOTE_##name] = {svc, op, ms, RON_RETRY_##curve, "guard." svc},
    LED_REMOTE_TABLE(X)
#undef X
};

static enum led_reason refusal_of(enum led_remote_service service)
{
    return service == LED_REMOTE_KMS      ? LED_REASON_UNAUTH
           : service == LED_REMOTE_POLICY ? LED_REASON_POLICY_DENIED
                                          : LED_REASON_CONFLICT;
}

struct service {
    struct ron_http_target *target; /* NULL: not asked */
    char url[URL_MAX];
    char *authorization; /* NULL: none */
    uint64_t told_ns;    /* when it was last logged that it does not take our questions; 0: never */
};

struct led_remote {
    uint32_t magic;
    const struct ron_env *env;
    struct led_guard *guard;
    struct ron_tracer *tracer;
    struct ron_log *log;
    struct ron_http_client *client;
    struct service services[LED_REMOTE_COUNT];
};

/* One question in flight. */
struct ask {
    uint32_t magic;
    enum led_remote_service service;
    struct led_remote *r;
    struct led_work *w; /* NULL: a route's token */
    const struct led_caller *caller;
    struct led_auth *auth;
    size_t entry_count;
    led_remote_done *done;
    led_remote_vouched *vouched;
    void *arg;
    struct ron_span span;
};

_Static_assert(sizeof(struct ask) + _Alignof(max_align_t) <= LED_REMOTE_BYTES, "room is stated");

const char *led_remote_name(enum led_remote_service service)
{
    RON_ASSERT((unsigned)service < LED_REMOTE_COUNT);
    return rows[service].name;
}

/* ---- making ---------------------------------------------------------------------------------- */

static bool is_this_machine(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           strncmp(host, "127.", 4) == 0;
}

/* R4: a token or a batch never crosses a network in the clear. */
static enum ron_rc check_url(const struct led_remote_target *t, char host[HOST_MAX],
                             struct ron_err *err)
{
    bool plain = false;

    if (strlen(t->url) >= URL_MAX) {
        return ron_err_set(err, RON_INVALID, "no URL of a service: '%.64s'", t->url);
    }
    RON_TRY(ron_http_url_host(t->url, host, HOST_MAX, &plain, err));
    if (plain && t->unix_path == NULL && !is_this_machine(host)) {
        return ron_err_set(err, RON_INVALID, "another machine is asked over https: '%.64s'",
                           t->url);
    }
    return RON_OK;
}

static struct ron_retry_curve curve_of(const struct led_remote_target *t,
                                       enum led_remote_service service)
{
    struct ron_retry_curve curve = *ron_retry_curve(rows[service].curve);

    if (t->tries_max != 0) {
        curve.tries_max = t->tries_max;
    }
    if (t->backoff_max_ms != 0) {
        curve.first_ms = RON_MIN(curve.first_ms, t->backoff_max_ms);
        curve.base_max_ms = t->backoff_max_ms;
        curve.wait_max_ms = t->backoff_max_ms;
    }
    return curve;
}

static enum ron_rc copy_bearer(struct service *s, const char *bearer, struct ron_err *err)
{
    size_t size = strlen("Bearer ") + strlen(bearer) + 1;

    if (size > BEARER_MAX) {
        return ron_err_set(err, RON_INVALID, "a bearer token of more than %d bytes",
                           (int)RON_CAP_TEXT_MAX);
    }
    s->authorization = ron_alloc(size);
    if (s->authorization == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a bearer token");
    }
    (void)snprintf(s->authorization, size, "Bearer %s", bearer);
    return RON_OK;
}

static enum ron_rc add_service(struct led_remote *r, const struct led_remote_target *t,
                               enum led_remote_service service, struct ron_err *err)
{
    struct ron_retry_curve curve = curve_of(t, service);
    uint32_t try_ms = t->try_ms == 0 ? rows[service].try_ms : t->try_ms;
    struct service *s = &r->services[service];
    char host[HOST_MAX];
    const char *hosts[] = {host};

    RON_TRY(check_url(t, host, err));
    (void)snprintf(s->url, sizeof s->url, "%s", t->url);
    if (t->bearer != NULL) {
        RON_TRY(copy_bearer(s, t->bearer, err));
    }
    return ron_http_client_add(
        r->client,
        &(struct ron_http_target_opts){
            .name = rows[service].name,
            .hosts = hosts,
            .host_count = 1,
            .ops = &rows[service].op,
            .op_count = 1,
            /* The operator named this one host; such services live inside. */
            .flags = RON_HTTP_TARGET_LOOPBACK | RON_HTTP_TARGET_PRIVATE |
                     RON_HTTP_TARGET_SEND_DEADLINE |
                     (strncmp(t->url, "http://", 7) == 0 ? (uint32_t)RON_HTTP_TARGET_PLAIN : 0u),
            .unix_path = t->unix_path,
            .retry = &curve,
            .breaker = t->breaker == NULL ? ron_breaker_preset(RON_BREAKER_LEDGER) : t->breaker,
            .inflight_max = t->inflight_max == 0 ? LED_REMOTE_INFLIGHT : t->inflight_max,
            .connect_timeout_ms = try_ms,
            .try_timeout_ms = try_ms,
            .total_timeout_ms =
                curve.tries_max * try_ms + (curve.tries_max - 1) * curve.wait_max_ms,
            .response_max = LED_REMOTE_ANSWER_MAX,
            .ca_file = t->ca_file,
            .cert_file = t->cert_file,
            .key_file = t->key_file},
        &s->target, err);
}

enum ron_rc led_remote_new(const struct led_remote_opts *opts, struct led_remote **ret_remote,
                           struct ron_err *err)
{
    struct led_remote *r = ron_alloc_zero(sizeof *r);
    enum ron_rc rc;

    if (r == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for remote guards");
    }
    r->magic = REMOTE_MAGIC;
    r->env = opts->env;
    r->guard = opts->guard;
    r->tracer = opts->tracer;
    r->log = opts->log;
    RON_GOTO(ron_http_client_new(
                 &(struct ron_http_client_opts){.name = opts->name == NULL ? "guards" : opts->name,
                                                .env = opts->env,
                                                .registry = opts->registry,
                                                .worker = opts->worker,
                                                .stage = opts->stage},
                 &r->client, err),
             failed);
    for (int i = 0; i < LED_REMOTE_COUNT; i++) {
        if (opts->targets[i].url != NULL) {
            rc = add_service(r, &opts->targets[i], (enum led_remote_service)i, err);
            if (rc != RON_OK) {
                ron_err_prefix(err, "%s", rows[i].name);
                goto failed;
            }
        }
    }
    *ret_remote = r;
    return RON_OK;
failed:
    (void)led_remote_free(r);
    return rc;
}

bool led_remote_free(struct led_remote *r)
{
    bool clean = true;

    if (r == NULL) {
        return true;
    }
    RON_CHECK_MAGIC(r, REMOTE_MAGIC);
    if (r->client != NULL) {
        clean = ron_http_client_free(r->client);
    }
    for (int i = 0; i < LED_REMOTE_COUNT; i++) {
        if (r->services[i].authorization != NULL) {
            ron_wipe(r->services[i].authorization, strlen(r->services[i].authorization));
        }
        ron_free(r->services[i].authorization);
    }
    ron_free(r);
    return clean;
}

enum ron_rc led_remote_attach(struct led_remote *r, struct ron_sup *sup, struct ron_err *err)
{
    return ron_http_client_attach(r->client, sup, err);
}

enum ron_rc led_remote_collect(struct led_remote *r, struct ron_metrics *m, struct ron_err *err)
{
    return ron_collect_http_client(m, r->client, err);
}

bool led_remote_asks(const struct led_remote *r, enum led_remote_service service)
{
    return r->services[service].target != NULL;
}

const struct ron_http_target *led_remote_http(const struct led_remote *r,
                                              enum led_remote_service service)
{
    RON_ASSERT(led_remote_asks(r, service));
    return r->services[service].target;
}

bool led_remote_ready(const struct led_remote *r, enum led_remote_service service)
{
    struct ron_http_target_counters c;

    if (!led_remote_asks(r, service)) {
        return true;
    }
    ron_http_target_counters(r->services[service].target, &c);
    return c.breaker.state != RON_BREAKER_IS_OPEN;
}

/* ---- the end of a call ----------------------------------------------------------------------- */

static void refuse_one(struct led_refusals *ret, enum led_reason reason, const char *service,
                       const char *what)
{
    struct led_refusal refusal;
    char detail[sizeof refusal.detail];

    (void)snprintf(detail, sizeof detail, "%s: %s", service, what);
    led_refuse(&refusal, reason, "", detail);
    ret->count = 0;
    led_refusals_add(ret, &refusal, 0);
}

/* A URL or a service that is wrong: nothing that a caller could mend. On the client's task. */
static void tell_operator(struct led_remote *r, enum led_remote_service service, int status)
{
    struct service *s = &r->services[service];
    uint64_t now_ns = ron_env_now_ns(r->env);

    if (r->log != NULL && (s->told_ns == 0 || now_ns - s->told_ns >= TELL_MS * RON_NS_PER_MS)) {
        s->told_ns = now_ns;
        RON_LOG(r->log, ERROR, "a remote guard does not take our questions: is its URL right?",
                RON_LOG_STR("svc", rows[service].name), RON_LOG_I64("status", status));
    }
}

/* A 4xx (R1). */
static void refuse_4xx(struct led_remote *r, enum led_remote_service service, int status,
                       struct led_refusals *ret)
{
    const char *name = rows[service].name;

    if (status == 401 || status == 403 || (status == 409 && service == LED_REMOTE_WALLET)) {
        refuse_one(ret, refusal_of(service), name, "refused by the remote guard");
    } else if (status == 408 || status == 429) {
        refuse_one(ret, LED_REASON_BUSY, name, "has no time for the question now");
    } else {
        refuse_one(ret, LED_REASON_INTERNAL, name, "does not take the question");
        tell_operator(r, service, status);
    }
}

/* What an end without a readable answer means (R1). */
static void refuse_failure(struct led_remote *r, enum led_remote_service service,
                           const struct ron_http_fetch_result *result, struct led_refusals *ret)
{
    const char *name = rows[service].name;

    if (result->reason == RON_HTTP_FETCH_STATUS && result->status < 500) {
        refuse_4xx(r, service, result->status, ret);
    } else if (result->reason == RON_HTTP_FETCH_BREAKER_OPEN) {
        refuse_one(ret, LED_REASON_TIMEOUT, name, "is known not to work and was not asked");
    } else if (result->reason == RON_HTTP_FETCH_FULL) {
        refuse_one(ret, LED_REASON_BUSY, name, "too many questions are under way");
    } else if (result->rc == RON_TIMEOUT) {
        refuse_one(ret, LED_REASON_TIMEOUT, name, "no answer in time");
    } else {
        refuse_one(ret, LED_REASON_TIMEOUT, name, "cannot be reached or fails");
    }
}

static void judge(const struct ask *a, const struct ron_http_fetch_result *result,
                  struct led_refusals *ret)
{
    char text[LED_REMOTE_ANSWER_MAX];

    if (result->rc != RON_OK) {
        refuse_failure(a->r, a->service, result, ret);
        return;
    }
    RON_ASSERT(result->body.len <= sizeof text);
    if (result->body.len > 0) {
        memcpy(text, result->body.ptr, result->body.len);
    }
    if (!led__remote_read(text, result->body.len, refusal_of(a->service), a->entry_count, ret)) {
        refuse_one(ret, LED_REASON_INTERNAL, rows[a->service].name, "its answer cannot be read");
    }
}

static void end_span(struct ask *a, const struct ron_http_fetch_result *result, bool refused)
{
    ron_span_u64(&a->span, "http.status", (uint64_t)result->status);
    ron_span_u64(&a->span, "tries", result->tries);
    if (refused) {
        ron_span_fail(&a->span, ron_http_fetch_reason_label(result->reason));
    }
    ron_span_end(&a->span);
}

/* On the client's task. */
static void on_done(struct ron_http_fetch *f, void *arg)
{
    struct ask *a = arg;
    const struct ron_http_fetch_result *result = ron_http_fetch_result(f);
    struct led_refusals refusals = {0};

    RON_CHECK_MAGIC(a, ASK_MAGIC);
    judge(a, result, &refusals);
    end_span(a, result, refusals.count > 0);
    ron_http_fetch_release(f);
    a->magic = 0;
    if (refusals.count == 0 && a->service == LED_REMOTE_KMS) {
        led_guard_vouch(a->r->guard, a->caller, a->auth, ron_env_wall_ms(a->r->env));
    } else if (refusals.count > 0 && refusals.items[0].reason == LED_REASON_UNAUTH) {
        led_guard_count_auth(a->r->guard, a->caller);
    }
    if (a->w == NULL) {
        a->vouched(a->arg, refusals.count == 0 ? NULL : &refusals.items[0]);
        return;
    }
    if (refusals.count > 0) {
        a->w->refusals = refusals;
        a->w->result = LED_RESULT_REFUSED;
    }
    a->done(a->w, a->arg);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void start_span(struct ask *a, const struct ron_trace_ctx *trace, struct ron_str corr_id)
{
    ron_span_start(a->r->tracer, &a->span, rows[a->service].span, RON_SPAN_CLIENT, trace);
    ron_span_text(&a->span, "corr_id", corr_id);
    ron_span_text(&a->span, "capability_ref",
                  (struct ron_str){a->auth->info.log_id, strlen(a->auth->info.log_id)});
    ron_span_text(&a->span, "kid",
                  (struct ron_str){a->auth->info.key_id, strlen(a->auth->info.key_id)});
    ron_span_u64(&a->span, "batch_size", a->entry_count);
}

static enum ron_rc start_fetch(struct ask *a, const struct led__question *q,
                               struct ron_deadline deadline, struct ron_err *err)
{
    const struct service *s = &a->r->services[a->service];
    struct ron_http_fetch_header headers[] = {
        {"Content-Type", {"application/json", strlen("application/json")}},
        {"Authorization",
         {s->authorization, s->authorization == NULL ? 0 : strlen(s->authorization)}}};
    struct ron_http_fetch *f = NULL;
    struct ron_buf body;
    enum ron_rc rc;

    ron_buf_init(&body, LED_REMOTE_BODY_MAX);
    led__remote_write(q, &body);
    rc = ron_buf_error(&body);
    if (rc == RON_OK) {
        rc = ron_http_fetch_start(
            s->target,
            &(struct ron_http_fetch_opts){
                .method = RON_HTTP_POST,
                .url = s->url,
                .headers = headers,
                .header_count = s->authorization == NULL ? 1 : 2,
                .corr_id = q->corr_id,
                .trace = a->span.ctx,
                .body = {(const char *)ron_buf_data(&body), ron_buf_len(&body)},
                .deadline = deadline,
                .idempotent = true, /* a question changes nothing */
                .done = on_done,
                .arg = a},
            &f, err);
    }
    ron_buf_done(&body);
    return rc;
}

/* After RON_OK the question, its work and its arena belong to the client. */
static enum led_verdict start(struct ask *a, const struct led__question *q,
                              const struct ron_trace_ctx *trace, struct ron_deadline deadline,
                              struct led_refusals *ret)
{
    const char *name = rows[a->service].name;
    enum ron_rc rc;

    start_span(a, trace, q->corr_id);
    rc = start_fetch(a, q, deadline, NULL);
    if (rc == RON_OK) {
        return LED_VERDICT_ASK;
    }
    ron_span_fail(&a->span, ron_rc_name(rc));
    ron_span_end(&a->span);
    if (rc == RON_LIMIT) {
        refuse_one(ret, LED_REASON_TOO_LARGE, name, "too many entries for a remote guard");
    } else if (rc == RON_CLOSED || rc == RON_CANCELLED) {
        refuse_one(ret, LED_REASON_DRAINING, name, "the ledger is shutting down");
    } else if (rc == RON_FULL || rc == RON_NOMEM) {
        refuse_one(ret, LED_REASON_BUSY, name, "too many questions are under way");
    } else {
        refuse_one(ret, LED_REASON_INTERNAL, name, "cannot be asked");
    }
    return LED_VERDICT_REFUSED;
}

/* Room in the arena for a question; NULL when it is full. */
static struct ask *new_ask(struct led_remote *r, enum led_remote_service service,
                           struct ron_arena *arena)
{
    struct ask *a = RON_ARENA_NEW(arena, struct ask);

    RON_CHECK_MAGIC(r, REMOTE_MAGIC);
    RON_ASSERT(led_remote_asks(r, service));
    if (a == NULL) { /* not when the caller left LED_REMOTE_BYTES for each service */
        return NULL;
    }
    memset(a, 0, sizeof *a);
    a->magic = ASK_MAGIC;
    a->service = service;
    a->r = r;
    return a;
}

enum led_verdict led_remote_ask(struct led_remote *r, struct led_work *w,
                                struct ron_deadline deadline, led_remote_done *done, void *arg)
{
    enum led_remote_service service = w->step == LED_STEP_KMS      ? LED_REMOTE_KMS
                                      : w->step == LED_STEP_POLICY ? LED_REMOTE_POLICY
                                                                   : LED_REMOTE_WALLET;
    struct ask *a = new_ask(r, service, &w->arena);
    struct led__question q = {.op = rows[service].op,
                              .corr_id = {w->corr_id, strnlen(w->corr_id, sizeof w->corr_id)},
                              .now_ms = ron_env_wall_ms(r->env),
                              .auth = w->auth,
                              .batch = &w->batch,
                              .dry_run = (w->flags & LED_APPLY_DRY_RUN) != 0};
    struct led_refusals refusals = {0};
    enum led_verdict verdict;

    RON_ASSERT(w->step == LED_STEP_KMS || w->step == LED_STEP_POLICY || w->step == LED_STEP_WALLET);
    if (a == NULL) {
        led_work_refuse(w, LED_REASON_BUSY, "", "no memory to ask a remote guard");
        return LED_VERDICT_REFUSED;
    }
    a->w = w;
    a->caller = &w->caller;
    a->auth = w->auth;
    a->entry_count = w->batch.count;
    a->done = done;
    a->arg = arg;
    if (service == LED_REMOTE_KMS) {
        q.token = w->caller.token;
    }
    verdict = start(a, &q, &w->trace, deadline, &refusals);
    if (verdict == LED_VERDICT_REFUSED) { /* still ours */
        w->refusals = refusals;
        w->result = LED_RESULT_REFUSED;
    }
    return verdict;
}

enum led_verdict led_remote_vouch(struct led_remote *r, const struct led_remote_vouch *in,
                                  struct led_refusal *ret_refusal)
{
    struct ask *a = new_ask(r, LED_REMOTE_KMS, in->arena);
    struct led__question q = {.op = rows[LED_REMOTE_KMS].op,
                              .corr_id = in->corr_id,
                              .now_ms = ron_env_wall_ms(r->env),
                              .token = in->caller->token,
                              .auth = in->auth};
    struct led_refusals refusals = {0};
    enum led_verdict verdict;

    if (a == NULL) {
        led_refuse(ret_refusal, LED_REASON_BUSY, "", "no memory to ask a remote guard");
        return LED_VERDICT_REFUSED;
    }
    a->caller = in->caller;
    a->auth = in->auth;
    a->vouched = in->done;
    a->arg = in->arg;
    verdict = start(a, &q, &in->trace, in->deadline, &refusals);
    if (verdict == LED_VERDICT_REFUSED) {
        *ret_refusal = refusals.items[0];
    }
    return verdict;
}
