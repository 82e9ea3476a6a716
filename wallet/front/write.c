/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/front/write.c - POST /v1/<op> and /v1/batch: from a request to a write in the queue.
 *
 * Place: service, on the workers of the HTTP front. Order of checks: drain, rate and size (kernel),
 * content type, ledger up, capability, body, rules. An unauthenticated caller learns nothing about
 * the body. */
#include <stdio.h>
#include <string.h>

#include "wallet/core/metrics.h"
#include "wallet/front/front.h"

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
        if (seen || !ron_str_is(name, "dry_run") ||
            (!ron_str_is(value, "true") && !ron_str_is(value, "false"))) {
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
        wlt_fault_set(ret, WLT_REASON_BAD_REQUEST, "query",
                      "expected only dry_run=true or dry_run=false");
    } else if (!header_key(call, ret_key)) {
        wlt_fault_set(ret, WLT_REASON_BAD_REQUEST, "Idempotency-Key", "duplicate header");
    } else if (!wlt_follow_up(f->follow)) {
        wlt_fault_set(ret, WLT_REASON_UPSTREAM, "", "ledger is not responding");
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
        wlt_fault_set(ret, WLT_REASON_BUSY, "", "out of memory for the request");
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
        wlt_fault_set(&fault, WLT_REASON_BUSY, "", "too many requests in progress");
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
