/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/front/ingest.c - POST /ingest and its answers: a request becomes a work, a work becomes an
 * answer.
 *
 * Place: service, on the workers of the HTTP front; the answer comes from whichever stage ended the
 * work. Checks here cost nothing and tell nothing: mode, content type, memory. Who the caller is is
 * looked at before the body (pipeline/preval.h). */
#include <string.h>

#include "ledger/front/front.h"
#include "ron/base/assert.h"
#include "ron/http/tls.h"

/* ---- answers --------------------------------------------------------------------------------- */

void led_front_fail(struct ron_http_call *call, enum led_reason reason, const char *detail)
{
    struct ron_http_error error = led_http_error(reason, detail);

    ron_http_fail_with(call, &error);
}

/* Where the other ledger is that leads, for whoever can only read the body. */
static void put_leader(struct led_front *f, struct ron_json_writer *j, enum led_reason reason)
{
    struct led_pg_place leader;

    if (reason == LED_REASON_NOT_LEADER && led_lead_hint(f->lead, &leader) &&
        leader.oap[0] != '\0') {
        ron_json_text(j, "leader", leader.oap);
    }
}

int led_front_stopped(struct led_front *f, const char *corr_id, struct ron_buf *out)
{
    enum led_reason reason = led_engine_stopped_reason(f->engine);
    struct ron_http_error e = led_http_error(reason, NULL);
    struct ron_json_writer j;

    led_guard_count_refusal(f->gate->guard, reason);
    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    ron_json_text(&j, "code", e.code);
    ron_json_text(&j, "message", e.message);
    ron_json_bool(&j, "retryable", e.retryable);
    ron_json_text(&j, "corr_id", corr_id);
    ron_json_text(&j, "reason", e.reason);
    put_leader(f, &j, reason);
    ron_json_close(&j, '}');
    RON_ASSERT(ron_buf_error(out) == RON_OK);
    return e.status;
}

void led_front_head(struct led_front *f, struct ron_buf *out)
{
    struct led_head head;
    struct ron_json_writer j;

    led_engine_head(f->engine, &head);
    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    led_ask_write_head(&j, head.seq, &head.root, head.ts_ms);
    led_lead_tell(f->lead, &j);
    ron_json_close(&j, '}');
    RON_ASSERT(ron_buf_error(out) == RON_OK);
}

int led_front_refusal(struct led_front *f, const struct led_work *w, struct ron_buf *out)
{
    const struct led_refusal *first = &w->refusals.items[0];
    struct ron_http_error e = led_http_error(first->reason, first->detail);
    struct led_head head;
    struct ron_json_writer j;

    led_engine_head(f->engine, &head);
    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    ron_json_text(&j, "code", e.code);
    ron_json_text(&j, "message", e.message[0] != '\0' ? e.message : led_reason_doc(first->reason));
    ron_json_bool(&j, "retryable", e.retryable);
    ron_json_text(&j, "corr_id", w->corr_id);
    ron_json_text(&j, "reason", e.reason);
    put_leader(f, &j, first->reason);
    led_response_members(&j, &(struct led_response){.accepted = false,
                                                    .new_root = head.root.bytes,
                                                    .refusals = &w->refusals});
    ron_json_close(&j, '}');
    led_guard_count_refusal(f->gate->guard, first->reason);
    return w->no_room ? 503 : e.status;
}

void led_front_cancelled(const struct led_work *w, struct ron_buf *out)
{
    struct ron_json_writer j;

    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    ron_json_str(&j, "idem_id", w->batch.idem_id);
    ron_json_text(&j, "outcome", "cancelled");
    ron_json_close(&j, '}');
}

/* No room at the committer is 503, like safe mode and draining; the full queues before it 429. */
static void http_done(struct led_work *w)
{
    struct led_front *f = led_front_of(w->service);
    struct ron_http_reply *reply = w->reply;
    struct ron_buf *out = ron_http_reply_body(reply);
    int status = 200;

    led_metrics_prevalidated(f->core->metrics, w); /* one that a remote guard refused */
    if (w->result == LED_RESULT_REFUSED) {
        status = led_front_refusal(f, w, out);
        if (status == 429 || status == 503) {
            RON_IGNORE(ron_http_reply_add_header(reply, "Retry-After",
                                                 w->refusals.items[0].reason == LED_REASON_SAFE_MODE
                                                     ? (struct ron_str){"30", 2}
                                                     : (struct ron_str){"1", 1}));
        }
    } else if (w->result == LED_RESULT_CANCELLED) {
        led_front_cancelled(w, out);
    } else {
        led_response_to_json(out, &(struct led_response){.accepted = true,
                                                         .seq_start = w->seq_first,
                                                         .seq_end = w->seq_last,
                                                         .new_root = w->root.bytes});
        if (w->replayed) {
            led_metrics_replayed(f->core->metrics);
            RON_IGNORE(ron_http_reply_add_header(reply, "Idempotent-Replayed",
                                                 (struct ron_str){"true", 4}));
        }
    }
    led_works_put(f->pipes->works, w);
    ron_http_reply_send(reply, status, "application/json");
}

/* ---- callers --------------------------------------------------------------------------------- */

static void set_caller(struct led_front *f, struct ron_http_call *call, struct led_caller *ret)
{
    struct ron_tls_peer tls;
    bool has_tls = led_guard_wants_tls_peer(f->gate->guard) && ron_http_tls_peer(call, &tls);
    struct ron_str value = {0};
    uint32_t uid = 0;
    bool unix_peer = ron_http_peer_uid(call, &uid);

    *ret = (struct led_caller){0};
    RON_IGNORE(ron_http_field_get(ron_http_head(call), "authorization", &value));
    ret->why = ron_cap_bearer(value, &ret->token);
    ret->peer = unix_peer ? LED_PEER_UDS : has_tls ? LED_PEER_MTLS : LED_PEER_TCP;
    ret->peer_scopes =
        led_guard_peer_scopes(f->gate->guard, unix_peer ? &uid : NULL, has_tls ? &tls : NULL);
}

bool led_front_may(struct led_front *f, const struct led_caller *caller, enum led_scope scope,
                   struct ron_str account, struct led_refusal *ret)
{
    uint8_t room[LED_AUTH_BYTES];
    struct ron_arena arena;
    struct led_auth *auth = NULL;
    struct led_refusal refusal = {0};
    uint64_t now_ms = ron_env_wall_ms(f->engine->env);
    enum led_verdict verdict;

    ron_arena_init_over(&arena, room, sizeof room);
    verdict = led_guard_open(f->gate->guard, caller, now_ms, &arena, &auth, &refusal);
    if (verdict == LED_VERDICT_OK && led_guard_allows(f->gate->guard, caller, auth, scope, account,
                                                      (struct ron_str){0}, now_ms, &refusal)) {
        return true;
    }
    if (verdict == LED_VERDICT_ASK) {
        led_gate_vouch(f->gate, caller, &refusal);
    }
    led_guard_count_refusal(f->gate->guard, refusal.reason);
    *ret = refusal;
    return false;
}

bool led_front_allowed(struct led_front *f, struct ron_http_call *call, enum led_scope scope,
                       struct ron_str account)
{
    struct led_caller caller;
    struct led_refusal refusal;

    if (scope == LED_SCOPE_READ && f->reads_open) {
        return true;
    }
    set_caller(f, call, &caller);
    if (led_front_may(f, &caller, scope, account, &refusal)) {
        return true;
    }
    led_front_fail(call, refusal.reason, refusal.detail);
    return false;
}

/* The Unix socket lets only listed users in (uds.allow_uids); they show a capability of an operator
 * too, whoever verifies it. */
bool led_front_admin(struct led_front *f, struct ron_http_call *call)
{
    return led_front_allowed(f, call, LED_SCOPE_ADMIN, (struct ron_str){0});
}

/* ---- ingest ---------------------------------------------------------------------------------- */

/* A switch in the query: absent, "true" or "false". */
static bool read_switch(const struct ron_http_call *call, const char *name, bool *ret)
{
    char room[8];
    struct ron_str value = {0};
    enum ron_rc rc =
        ron_http_query_get(ron_http_head(call)->query, name, room, sizeof room, &value);

    *ret = false;
    if (rc == RON_NOTFOUND) {
        return true;
    }
    if (rc != RON_OK) {
        return false;
    }
    *ret = value.len == 4 && memcmp(value.ptr, "true", 4) == 0;
    return *ret || (value.len == 5 && memcmp(value.ptr, "false", 5) == 0);
}

static void copy_text(char *to, size_t size, struct ron_str from)
{
    size_t len = RON_MIN(from.len, size - 1);

    memcpy(to, from.ptr, len);
    to[len] = '\0';
}

void led_front_fail_stopped(struct led_front *f, struct ron_http_call *call)
{
    enum led_reason reason = led_engine_stopped_reason(f->engine);
    struct led_pg_place leader;

    led_guard_count_refusal(f->gate->guard, reason);
    if (reason == LED_REASON_NOT_LEADER && led_lead_hint(f->lead, &leader)) {
        RON_IGNORE(ron_http_add_header(call, "Ron-Leader",
                                       (struct ron_str){leader.url, strlen(leader.url)}));
    }
    led_front_fail(call, reason, NULL);
}

/* A work for this call, with its reply. NULL: the call was answered. */
static struct led_work *new_work(struct led_front *f, struct ron_http_call *call,
                                 size_t arena_bytes)
{
    struct ron_http_reply *reply = NULL;
    struct led_work *w;

    if (led_engine_mode(f->engine) != LED_RUNNING) {
        led_front_fail_stopped(f, call);
        return NULL;
    }
    w = led_works_get(f->pipes->works, arena_bytes);
    if (w == NULL) {
        ron_http_fail(call, RON_HTTP_BUSY);
        return NULL;
    }
    if (ron_http_defer(call, &reply) != RON_OK) {
        led_works_put(f->pipes->works, w);
        ron_http_fail(call, RON_HTTP_BUSY);
        return NULL;
    }
    w->service = f;
    w->reply = reply;
    w->done = http_done;
    w->received_ns = ron_env_now_ns(f->engine->env);
    w->deadline = ron_http_deadline(call);
    w->trace = *ron_http_trace(call);
    copy_text(w->corr_id, sizeof w->corr_id, ron_http_corr_id(call));
    set_caller(f, call, &w->caller);
    return w;
}

/* Gives the work back and answers at once after all. */
static void take_back(struct led_front *f, struct ron_http_call *call, struct led_work *w,
                      enum ron_http_reason reason)
{
    ron_http_undefer(call, w->reply);
    led_works_put(f->pipes->works, w);
    ron_http_fail(call, reason);
}

void led_front_ingest(struct ron_http_call *call, void *arg)
{
    struct led_front *f = led_front_of(arg);
    struct ron_str body = ron_http_body(call);
    struct led_work *w;
    bool dry_run = false;
    bool import = false;
    enum ron_rc rc;

    if (!ron_http_is_json(ron_http_head(call))) {
        struct ron_http_error e = {.status = 415,
                                   .code = "UNSUPPORTED_MEDIA_TYPE",
                                   .message = "send the batch as application/json",
                                   .reason = "content_type"};

        ron_http_fail_with(call, &e);
        return;
    }
    if (!read_switch(call, "dry_run", &dry_run) || !read_switch(call, "import", &import)) {
        led_front_fail(call, LED_REASON_INVALID, "dry_run and import are true or false");
        return;
    }
    w = new_work(f, call, led_preval_arena_size(LED_FORM_JSON, body));
    if (w == NULL) {
        return;
    }
    w->kind = LED_WORK_INGEST;
    w->form = LED_FORM_JSON;
    w->in = body;
    w->flags = (dry_run ? LED_APPLY_DRY_RUN : 0U) | (import ? LED_APPLY_IMPORT : 0U);
    led_trace_stage(f->core->tracer, w, "ingress", "ingress", w->received_ns);
    rc = led_pipes_submit(f->pipes, w);
    if (rc != RON_OK) {
        take_back(f, call, w, rc == RON_CLOSED ? RON_HTTP_DRAINING : RON_HTTP_BUSY);
    }
}

/* POST /outcome/{idem_id}/cancel: from now on the key can never commit. */
void led_front_cancel(struct led_front *f, struct ron_http_call *call, struct ron_str idem_id)
{
    struct led_work *w;

    if (!led_token_valid(idem_id)) {
        led_front_fail(call, LED_REASON_INVALID, "an idem_id is 1-128 printable characters");
        return;
    }
    if (!led_front_allowed(f, call, LED_SCOPE_TRANSFER, (struct ron_str){0})) {
        return;
    }
    w = new_work(f, call, LED_ID_MAX);
    if (w != NULL) {
        led_pipes_cancel(f->pipes, f->engine, w, idem_id);
    }
}
