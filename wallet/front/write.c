/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/front/write.c - POST /v1/<op> and /v1/batch: from a request to a write in the queue;
 * errors; who may.
 *
 * Place: service, on the workers of the HTTP front. Order of checks: drain, rate and size (kernel),
 * content type, ledger up, capability, body, rules. An unauthenticated caller learns nothing about
 * the body. */
#include <stdio.h>
#include <string.h>

#include "wallet/core/metrics.h"
#include "wallet/front/front.h"

/* ---- errors ---------------------------------------------------------------------------------- */

struct ron_http_error wlt_http_error(const struct wlt_fault *fault)
{
    bool retryable = wlt_reason_retryable(fault->reason);
    uint32_t wait_s = fault->reason == WLT_REASON_UPSTREAM ? 2 : 1;

    return (struct ron_http_error){.status = wlt_reason_status(fault->reason),
                                   .code = wlt_reason_code(fault->reason),
                                   .message = fault->detail,
                                   .reason = wlt_reason_label(fault->reason),
                                   .retryable = retryable,
                                   .retry_after_s = retryable ? wait_s : 0};
}

void wlt_fail(struct wlt_site *s, struct ron_http_call *call, const struct wlt_fault *fault)
{
    struct ron_http_error error = wlt_http_error(fault);

    wlt_metrics_refused(s, fault->reason);
    ron_http_fail_with(call, &error);
}

void wlt_reply_fail(struct wlt_site *s, struct ron_http_reply *take_reply,
                    const struct wlt_fault *fault)
{
    struct ron_http_error error = wlt_http_error(fault);

    wlt_metrics_refused(s, fault->reason);
    ron_http_reply_fail_with(take_reply, &error);
}

/* ---- who may --------------------------------------------------------------------------------- */

static const struct ron_str audience = {"wallet", 6};

static void deny(struct wlt_fault *ret, enum ron_cap_why why)
{
    wlt_fault_set(ret, ron_cap_why_http(why) == 401 ? WLT_REASON_UNAUTH : WLT_REASON_FORBIDDEN,
                  "capability", ron_cap_why_doc(why));
}

enum ron_cap_why wlt_auth_bearer(struct ron_http_call *call, struct ron_str *ret)
{
    struct ron_str value = {0};

    RON_IGNORE(ron_http_field_get(ron_http_head(call), "authorization", &value));
    return ron_cap_bearer(value, ret);
}

bool wlt_auth_token(struct wlt_site *s, struct ron_str token, struct ron_arena *arena,
                    struct ron_cap_grant *ret_grant, struct ron_cap_info *ret_info,
                    struct wlt_fault *ret_fault)
{
    uint64_t now_ms = ron_env_wall_ms(s->env);
    enum ron_cap_why why = ron_cap_verifier_open(ron_app_auth_verifier(s->auth), token, now_ms,
                                                 arena, ret_grant, ret_info);

    if (why == RON_CAP_OK) {
        why =
            ron_cap_grant_allows(ret_grant, RON_CAP_KIND_BIT(RON_CAP_KIND_AUD),
                                 &(struct ron_cap_request){.audience = audience, .now_ms = now_ms});
    }
    if (why != RON_CAP_OK) {
        deny(ret_fault, why);
    }
    return why == RON_CAP_OK;
}

bool wlt_auth_open(struct wlt_site *s, struct ron_http_call *call, struct ron_arena *arena,
                   struct ron_cap_grant *ret_grant, struct ron_cap_info *ret_info,
                   struct wlt_fault *ret_fault)
{
    struct ron_str token = {0};
    enum ron_cap_why why = wlt_auth_bearer(call, &token);

    if (why != RON_CAP_OK) {
        deny(ret_fault, why);
        return false;
    }
    return wlt_auth_token(s, token, arena, ret_grant, ret_info, ret_fault);
}

static enum ron_cap_why allows(const struct wlt_site *s, const struct ron_cap_grant *grant,
                               uint32_t kinds, const char *scope, struct ron_str account,
                               struct ron_str asset, struct ron_money amount)
{
    return ron_cap_grant_allows(grant, kinds,
                                &(struct ron_cap_request){.audience = audience,
                                                          .scope = {scope, strlen(scope)},
                                                          .accounts = &account,
                                                          .account_count = account.len > 0,
                                                          .asset = asset,
                                                          .amount = amount,
                                                          .now_ms = ron_env_wall_ms(s->env),
                                                          .amnesia = s->amnesia});
}

static bool may_read(struct wlt_site *s, const struct ron_cap_grant *grant, uint32_t kinds,
                     struct ron_str account, struct ron_str asset, struct wlt_fault *ret_fault)
{
    enum ron_cap_why why = allows(s, grant, kinds, "wallet.read", account, asset, RON_MONEY_ZERO);

    if (why != RON_CAP_OK) {
        deny(ret_fault, why);
    }
    return why == RON_CAP_OK;
}

bool wlt_auth_read(struct wlt_site *s, const struct ron_cap_grant *grant, struct ron_str account,
                   struct ron_str asset, struct wlt_fault *ret_fault)
{
    return may_read(s, grant, RON_CAP_KINDS_ALL, account, asset, ret_fault);
}

bool wlt_auth_outcome(struct wlt_site *s, const struct ron_cap_grant *grant, struct ron_str account,
                      struct wlt_fault *ret_fault)
{
    return may_read(s, grant, RON_CAP_KINDS_ALL & ~RON_CAP_KIND_BIT(RON_CAP_KIND_ASSET), account,
                    (struct ron_str){0}, ret_fault);
}

bool wlt_auth_write(struct wlt_site *s, const struct ron_cap_grant *grant,
                    const struct wlt_call *call, struct wlt_fault *ret_fault)
{
    for (uint32_t i = 0; i < call->count; i++) {
        const struct wlt_operation *o = &call->ops[i];
        struct ron_str subject = wlt_operation_subject(o);
        enum ron_cap_why why = allows(s, grant, RON_CAP_KINDS_ALL, wlt_op_info(o->op)->scope,
                                      subject, o->asset, o->amount);

        /* Who may transfer may also set aside, which takes away less. */
        if (why == RON_CAP_SCOPE &&
            (o->op == WLT_HOLD || o->op == WLT_CAPTURE || o->op == WLT_RELEASE)) {
            why = allows(s, grant, RON_CAP_KINDS_ALL, "wallet.transfer", subject, o->asset,
                         o->amount);
        }
        if (why != RON_CAP_OK) {
            deny(ret_fault, why);
            return false;
        }
    }
    return true;
}

/* ---- writes ---------------------------------------------------------------------------------- */

/* The query of a write: nothing, or dry_run. */
static bool read_query(const struct ron_http_call *call, bool *ret_dry_run)
{
    struct ron_str rest = ron_http_head(call)->query;
    struct ron_str name;
    struct ron_str value;
    bool seen = false;

    *ret_dry_run = false;
    while (ron_http_query_next(&rest, &name, &value)) {
        if (seen || !ron_str_eq(name, "dry_run") ||
            (!ron_str_eq(value, "true") && !ron_str_eq(value, "false"))) {
            return false;
        }
        seen = true;
        *ret_dry_run = value.len == 4;
    }
    return true;
}

/* Key of the header, empty when there is none; false when it stands twice. */
static bool header_key(const struct ron_http_call *call, struct ron_str *ret)
{
    enum ron_rc rc = ron_http_field_get(ron_http_head(call), "idempotency-key", ret);

    if (rc == RON_NOTFOUND) {
        *ret = (struct ron_str){0};
    }
    return rc == RON_OK || rc == RON_NOTFOUND;
}

/* What can be said without looking at the caller or the body. */
static bool may_begin(struct wlt_front *f, const struct ron_http_call *call, bool *ret_dry_run,
                      struct ron_str *ret_key, struct wlt_fault *ret)
{
    if (!ron_http_is_json(ron_http_head(call))) {
        wlt_fault_set(ret, WLT_REASON_CONTENT_TYPE, "", NULL);
    } else if (!read_query(call, ret_dry_run)) {
        wlt_fault_set(ret, WLT_REASON_BAD_REQUEST, "query", "only dry_run=true or false");
    } else if (!header_key(call, ret_key)) {
        wlt_fault_set(ret, WLT_REASON_BAD_REQUEST, "Idempotency-Key", "stands more than once");
    } else if (!wlt_follow_up(f->follow)) {
        wlt_fault_set(ret, WLT_REASON_UPSTREAM, "", "the ledger does not answer");
    } else {
        return true;
    }
    return false;
}

/* Reads and checks the body into a write; false: `ret` says why. */
static bool read_body(struct wlt_front *f, struct ron_http_call *call, struct wlt_write *w,
                      struct ron_str key, const struct ron_cap_grant *grant, struct wlt_fault *ret)
{
    struct ron_str body = ron_http_body(call);
    char *text = ron_arena_dup(&w->arena, body.ptr, body.len);

    if (text == NULL) {
        wlt_fault_set(ret, WLT_REASON_BUSY, "", "no memory for the request");
        return false;
    }
    return wlt_call_parse(text, body.len, w->op, key, &f->rules, &w->arena, &w->call, ret) &&
           wlt_auth_write(f->site, grant, &w->call, ret);
}

static void submit(struct wlt_front *f, struct ron_http_call *call, struct wlt_write *w)
{
    enum ron_rc rc = ron_http_defer(call, &w->reply);

    if (rc == RON_OK) {
        rc = ron_chan_try_send(f->pipes->work, w, NULL);
        if (rc != RON_OK) {
            ron_http_undefer(call, w->reply);
        }
    }
    if (rc != RON_OK) {
        struct wlt_fault fault;

        wlt_fault_set(&fault, rc == RON_CLOSED ? WLT_REASON_DRAINING : WLT_REASON_BUSY, "", NULL);
        wlt_write_put(f->pipes, w);
        wlt_fail(f->site, call, &fault);
    }
}

/* The operation that the path names; WLT_OP_COUNT for the batch. */
static enum wlt_op op_of(const struct ron_http_call *call)
{
    struct ron_str path = ron_http_head(call)->path;

    return wlt_op_parse((struct ron_str){path.ptr + 4, path.len - 4}); /* behind "/v1/" */
}

void wlt_front_write(struct ron_http_call *call, void *arg)
{
    struct wlt_front *f = RON_OBJ(arg, struct wlt_front, WLT_FRONT_MAGIC);
    struct wlt_site *s = f->site;
    uint8_t room[RON_CAP_GRANT_BYTES];
    struct ron_arena arena;
    struct ron_cap_grant grant;
    struct ron_cap_info info;
    struct wlt_fault fault = {0};
    struct ron_str key = {0};
    size_t body_len = ron_http_body(call).len;
    enum wlt_op op = op_of(call);
    struct wlt_write *w;
    bool dry_run = false;

    ron_arena_init_over(&arena, room, sizeof room);
    if (!may_begin(f, call, &dry_run, &key, &fault) ||
        !wlt_auth_open(s, call, &arena, &grant, &info, &fault)) {
        wlt_fail(s, call, &fault);
        return;
    }
    w = wlt_write_get(f->pipes, body_len + 64 + wlt_call_arena_size(body_len, op == WLT_OP_COUNT));
    if (w == NULL) {
        wlt_fault_set(&fault, WLT_REASON_BUSY, "", "too many requests are under way");
        wlt_fail(s, call, &fault);
        return;
    }
    w->op = op;
    w->received_ns = ron_env_now_ns(s->env);
    (void)snprintf(w->capability_ref, sizeof w->capability_ref, "wallet:%s", info.log_id);
    if (!read_body(f, call, w, key, &grant, &fault)) {
        wlt_write_put(f->pipes, w);
        wlt_fail(s, call, &fault);
        return;
    }
    w->call.dry_run = dry_run;
    submit(f, call, w);
}
