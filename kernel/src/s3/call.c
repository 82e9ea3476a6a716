/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - one request to the bucket: written, signed, waited for, and what its end means.
 *
 * Retries, breaker, deadlines and limits are the HTTP client's. A retry sends the same signature
 * again: it is good for fifteen minutes, and no request lives that long. */
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/str.h"
#include "ron/chan/oneshot.h"
#include "s3_priv.h"

enum { WAIT_TICK_MS = 100, DRAIN_GRACE_MS = 1000 };

/* ---- labels ---------------------------------------------------------------------------------- */

static const struct {
    const char *label;
    enum ron_rc rc;
} outcomes[RON_S3_OUTCOME_COUNT] = {
#define X(name, label_, rc_) [RON_S3_IS_##name] = {label_, rc_},
    RON_S3_OUTCOMES(X)
#undef X
};

static const char *const ops[RON_S3_OP_COUNT] = {
#define X(name, label) label,
    RON_S3_OPS(X)
#undef X
};

const char *ron_s3_outcome_label(enum ron_s3_outcome outcome)
{
    return (size_t)outcome < RON_S3_OUTCOME_COUNT ? outcomes[outcome].label : "?";
}

const char *ron__s3_op_label(enum ron_s3_op op)
{
    return ops[op];
}

/* ---- what an end means ----------------------------------------------------------------------- */

static enum ron_s3_outcome of_status(int status)
{
    switch (status) {
    case 401:
    case 403:
        return RON_S3_IS_DENIED;
    case 404:
    case 410:
        return RON_S3_IS_ABSENT;
    case 412:
        return RON_S3_IS_EXISTS;
    case 409: /* another write of this key is under way: how it ends, nobody knows yet */
    case 429:
    case 503:
        return RON_S3_IS_THROTTLED;
    default:
        return status >= 500   ? RON_S3_IS_FAILED
               : status >= 400 ? RON_S3_IS_REFUSED
               : status >= 300 ? RON_S3_IS_REDIRECT
               : status >= 200 ? RON_S3_IS_OK
                               : RON_S3_IS_MALFORMED;
    }
}

static enum ron_s3_outcome of_result(const struct ron_http_fetch_result *r)
{
    static const enum ron_s3_outcome rows[RON_HTTP_FETCH_REASON_COUNT] = {
        [RON_HTTP_FETCH_DNS] = RON_S3_IS_UNREACHABLE,
        [RON_HTTP_FETCH_CONNECT] = RON_S3_IS_UNREACHABLE,
        [RON_HTTP_FETCH_TLS] = RON_S3_IS_UNREACHABLE,
        [RON_HTTP_FETCH_TIMEOUT_CONNECT] = RON_S3_IS_TIMEOUT,
        [RON_HTTP_FETCH_TIMEOUT_TOTAL] = RON_S3_IS_TIMEOUT,
        [RON_HTTP_FETCH_BROKEN] = RON_S3_IS_UNREACHABLE,
        [RON_HTTP_FETCH_PROTOCOL] = RON_S3_IS_MALFORMED,
        [RON_HTTP_FETCH_TOO_LARGE] = RON_S3_IS_TOO_LARGE,
        [RON_HTTP_FETCH_DENIED_HOST] = RON_S3_IS_UNREACHABLE,
        [RON_HTTP_FETCH_DENIED_ADDRESS] = RON_S3_IS_UNREACHABLE,
        [RON_HTTP_FETCH_REDIRECTS] = RON_S3_IS_REDIRECT,
        [RON_HTTP_FETCH_BREAKER_OPEN] = RON_S3_IS_BREAKER,
        [RON_HTTP_FETCH_FULL] = RON_S3_IS_FULL,
        [RON_HTTP_FETCH_CANCELLED] = RON_S3_IS_CANCELLED,
        [RON_HTTP_FETCH_SINK] = RON_S3_IS_CANCELLED,
        [RON_HTTP_FETCH_MEMORY] = RON_S3_IS_MEMORY,
        [RON_HTTP_FETCH_INTERNAL] = RON_S3_IS_FAILED,
    };

    return r->reason == RON_HTTP_FETCH_ANSWERED || r->reason == RON_HTTP_FETCH_STATUS
               ? of_status(r->status)
               : rows[r->reason];
}

static enum ron_s3_outcome of_refusal(enum ron_rc rc)
{
    return rc == RON_FULL     ? RON_S3_IS_FULL
           : rc == RON_NOMEM  ? RON_S3_IS_MEMORY
           : rc == RON_CLOSED ? RON_S3_IS_CANCELLED
                              : RON_S3_IS_REFUSED;
}

/* The code of an error document, if it is a plain word (B5). */
static void error_code(const struct ron_http_fetch_result *r, char *ret, size_t size)
{
    ret[0] = '\0';
    if (ron_s3_xml_text(r->body.ptr, r->body.len, "Code", ret, size) != RON_OK) {
        ret[0] = '\0';
        return;
    }
    for (const char *p = ret; *p != '\0'; p++) {
        if (!((*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z'))) {
            ret[0] = '\0';
            return;
        }
    }
}

static void tell(const struct ron__s3_call *call, enum ron_s3_outcome outcome,
                 const struct ron_http_fetch_result *r, struct ron_err *err)
{
    char code[64];

    error_code(r, code, sizeof code);
    if (r->status > 0) {
        (void)ron_err_set(err, outcomes[outcome].rc, "s3 %s: %s (status %d%s%s)", ops[call->op],
                          outcomes[outcome].label, r->status, code[0] != '\0' ? " " : "", code);
    } else {
        (void)ron_err_set(err, outcomes[outcome].rc, "s3 %s: %s (%.120s)", ops[call->op],
                          outcomes[outcome].label, r->message);
    }
}

/* ---- writing the request --------------------------------------------------------------------- */

struct writing {
    char date[RON_S3_DATE_SIZE];
    char hash[RON_S3_HASH_SIZE];
    struct ron_buf path;
    struct ron_buf url;
    struct ron_buf authorization;
    struct ron_s3_signed signed_headers[RON_S3_SIGNED_MAX];
    size_t count;
};

static void put_header(struct writing *w, const char *name, struct ron_str value)
{
    size_t at = w->count++;

    while (at > 0 && strcmp(w->signed_headers[at - 1].name, name) > 0) {
        w->signed_headers[at] = w->signed_headers[at - 1];
        at--;
    }
    w->signed_headers[at] = (struct ron_s3_signed){name, value};
}

static enum ron_rc write_request(struct ron_s3 *s, const struct ron__s3_call *call,
                                 struct writing *w, struct ron_err *err)
{
    (void)ron_buf_append_byte(&w->path, '/');
    (void)ron_s3_encode(&w->path, s->bucket, strlen(s->bucket), false);
    (void)ron_buf_append_byte(&w->path, '/');
    (void)ron_s3_encode(&w->path, s->prefix, strlen(s->prefix), true);
    (void)ron_s3_encode(&w->path, call->key, strlen(call->key), true);
    (void)ron_buf_append_text(&w->url, s->endpoint);
    (void)ron_buf_append_text(&w->url, ron_buf_text(&w->path));
    if (call->query[0] != '\0') {
        (void)ron_buf_append_fmt(&w->url, "?%s", call->query);
    }
    if (ron_buf_error(&w->path) != RON_OK || ron_buf_error(&w->url) != RON_OK ||
        !ron_s3_payload_hash(call->body.ptr, call->body.len, w->hash)) {
        return ron_err_set(err, RON_NOMEM, "s3 %s: no room for the request", ops[call->op]);
    }
    ron_s3_date(ron_env_wall_ms(s->env), w->date);
    put_header(w, "host", ron_str_of(s->host));
    put_header(w, "x-amz-content-sha256", ron_str_of(w->hash));
    put_header(w, "x-amz-date", ron_str_of(w->date));
    for (size_t i = 0; i < call->header_count; i++) {
        put_header(w, call->headers[i].name, call->headers[i].value);
    }
    return ron_s3_sign(&(struct ron_s3_signing){.method = ron_http_method_name(call->method),
                                                .path = ron_buf_text(&w->path),
                                                .query = call->query,
                                                .headers = w->signed_headers,
                                                .header_count = w->count,
                                                .payload_hash = w->hash,
                                                .date = w->date,
                                                .region = s->region,
                                                .access_key = s->access_key,
                                                .secret = &s->secret},
                       &w->authorization, err);
}

/* ---- running it ------------------------------------------------------------------------------ */

static void drop_nothing(void *value)
{
    (void)value; /* the fetch has references of its own */
}

static void on_done(struct ron_http_fetch *f, void *arg)
{
    RON_IGNORE(ron_oneshot_answer(arg, f)); /* refused: the asker has left */
}

static enum ron_rc start(struct ron_s3 *s, const struct ron__s3_call *call, struct writing *w,
                         struct ron_oneshot *slot, struct ron_http_fetch **ret_fetch,
                         struct ron_err *err)
{
    struct ron_http_fetch_header headers[RON_S3_SIGNED_MAX + 2];
    size_t count = 0;

    for (size_t i = 0; i < w->count; i++) {
        if (strcmp(w->signed_headers[i].name, "host") != 0) { /* libcurl's own, the same text */
            headers[count++] = (struct ron_http_fetch_header){w->signed_headers[i].name,
                                                              w->signed_headers[i].value};
        }
    }
    headers[count++] = (struct ron_http_fetch_header){
        "Authorization",
        {(const char *)ron_buf_data(&w->authorization), ron_buf_len(&w->authorization)}};
    if (call->content_type != NULL) {
        headers[count++] =
            (struct ron_http_fetch_header){"Content-Type", ron_str_of(call->content_type)};
    }
    return ron_http_fetch_start(s->target,
                                &(struct ron_http_fetch_opts){.method = call->method,
                                                              .url = ron_buf_text(&w->url),
                                                              .op = (uint32_t)call->op,
                                                              .headers = headers,
                                                              .header_count = count,
                                                              .body = call->body,
                                                              .deadline = call->deadline,
                                                              .patient = true,
                                                              .response_max = call->response_max,
                                                              .done = on_done,
                                                              .arg = slot},
                                ret_fetch, err);
}

/* A service that drains has no time for a slow server: what is under way gets a moment more. */
static bool is_late(const struct ron_s3 *s, uint64_t *drain_ns)
{
    uint64_t now = ron_env_now_ns(s->env);

    if (s->shutdown == NULL || ron_watch_value(s->shutdown) < RON_SUP_DRAINING) {
        return false;
    }
    *drain_ns = *drain_ns != 0 ? *drain_ns : now;
    return now - *drain_ns >= (uint64_t)DRAIN_GRACE_MS * RON_NS_PER_MS;
}

/* Its end (H1), or ours: then it is cancelled, and whatever comes of it is nobody's. */
static bool wait_for(struct ron_s3 *s, struct ron_http_fetch *f, struct ron_oneshot *slot)
{
    enum ron_rc rc = RON_TIMEOUT;
    uint64_t drain_ns = 0;
    void *value = NULL;

    while (rc == RON_TIMEOUT && !is_late(s, &drain_ns)) {
        rc = ron_oneshot_wait(slot, ron_deadline_after_ms(ron_mono_ns(), WAIT_TICK_MS), &value);
    }
    if (rc != RON_OK) {
        ron_http_fetch_cancel(f);
    }
    ron_oneshot_leave(slot);
    return rc == RON_OK;
}

bool ron__s3_stopping(const struct ron_s3 *s)
{
    return s->shutdown != NULL && ron_watch_value(s->shutdown) >= RON_SUP_DRAINING;
}

static enum ron_s3_outcome run(struct ron_s3 *s, const struct ron__s3_call *call, struct writing *w,
                               struct ron_http_fetch **ret_fetch, struct ron_err *err)
{
    struct ron_http_fetch *f = NULL;
    struct ron_oneshot *slot = NULL;
    enum ron_s3_outcome outcome;
    enum ron_rc rc = write_request(s, call, w, err);

    if (rc == RON_OK && ron_oneshot_new(drop_nothing, &slot) != RON_OK) {
        rc = ron_err_set(err, RON_NOMEM, "s3 %s: no memory to wait with", ops[call->op]);
    }
    if (rc == RON_OK) {
        rc = start(s, call, w, slot, &f, err);
        if (rc != RON_OK) {
            ron_oneshot_drop(slot);
            ron_oneshot_leave(slot);
        }
    }
    if (rc != RON_OK) {
        return of_refusal(rc);
    }
    if (!wait_for(s, f, slot)) {
        ron_http_fetch_release(f);
        (void)ron_err_set(err, RON_CANCELLED, "s3 %s: the task is ending", ops[call->op]);
        return RON_S3_IS_CANCELLED;
    }
    outcome = of_result(ron_http_fetch_result(f));
    if (outcome != RON_S3_IS_OK) {
        tell(call, outcome, ron_http_fetch_result(f), err);
    }
    *ret_fetch = f;
    return outcome;
}

enum ron_s3_outcome ron__s3_run(struct ron_s3 *s, struct ron__s3_call *call,
                                struct ron_http_fetch **ret_fetch, struct ron_err *err)
{
    struct writing w = {0};
    enum ron_s3_outcome outcome;

    call->_begun_ns = ron_env_now_ns(s->env);
    *ret_fetch = NULL;
    ron_buf_init(&w.path, RON__S3_PATH_MAX);
    ron_buf_init(&w.url, RON__S3_PATH_MAX + 2048);
    ron_buf_init(&w.authorization, 2048);
    outcome = run(s, call, &w, ret_fetch, err);
    ron_buf_done(&w.path);
    ron_buf_done(&w.url);
    ron_buf_done(&w.authorization);
    return outcome;
}

enum ron_rc ron__s3_end(struct ron_s3 *s, const struct ron__s3_call *call,
                        enum ron_s3_outcome outcome, struct ron_err *err)
{
    if (s->requests != NULL) {
        ron_counter_add(ron_metric_series(s->requests, ops[call->op], outcomes[outcome].label), 1);
        ron_histogram_observe(ron_metric_series(s->seconds, ops[call->op]),
                              ron_env_now_ns(s->env) - call->_begun_ns);
    }
    if (outcome == RON_S3_IS_OK && call->body.len > 0) {
        ron__s3_count_bytes(s, "out", call->body.len);
    }
    if (outcome == RON_S3_IS_MALFORMED && (err == NULL || err->msg[0] == '\0')) {
        (void)ron_err_set(err, RON_CORRUPT, "s3 %s: the answer makes no sense", ops[call->op]);
    }
    if (s->ended != NULL) {
        s->ended(s->ended_arg, outcome);
    }
    return outcomes[outcome].rc;
}
