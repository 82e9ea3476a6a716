/* SPDX-License-Identifier: Apache-2.0 */
/* console/pass.c - calls that the console passes on to a service for a browser.
 *
 * Place: service. The allow-list is the table of routes below: what has no row does not exist. A
 * call carries the console's own capability of that service, never anything of the browser but the
 * target, and of a write its JSON body and Idempotency-Key. The answer comes back as it is: status,
 * body, and the few headers that the pages read. A 401 of the service is the console's fault, not
 * the browser's, and becomes 502.
 *
 * Threads: handlers on the workers of the front, `done` on the task of the HTTP client. */
#include <stdio.h>
#include <string.h>

#include "console/svc.h"
#include "ron/base/alloc.h"
#include "ron/base/clock.h"
#include "ron/base/secret.h"
#include "ron/base/str.h"

/* X(SERVICE, "name", METHOD, "path") */
#define CON_PASSES(X)                                                                              \
    X(LEDGER, "ledger", GET, "/head")                                                              \
    X(LEDGER, "ledger", GET, "/supply")                                                            \
    X(LEDGER, "ledger", GET, "/roots")                                                             \
    X(LEDGER, "ledger", GET, "/checkpoint")                                                        \
    X(LEDGER, "ledger", GET, "/entries/{seq:u64}")                                                 \
    X(LEDGER, "ledger", GET, "/entries/by-id/{id*}")                                               \
    X(LEDGER, "ledger", GET, "/accounts/{account*}")                                               \
    X(LEDGER, "ledger", GET, "/receipt/{seq:u64}")                                                 \
    X(LEDGER, "ledger", GET, "/proof/consistency")                                                 \
    X(WALLET, "wallet", GET, "/v1/balance")                                                        \
    X(WALLET, "wallet", GET, "/v1/tx/{txid}")                                                      \
    X(WALLET, "wallet", POST, "/v1/issue")                                                         \
    X(WALLET, "wallet", POST, "/v1/transfer")                                                      \
    X(WALLET, "wallet", POST, "/v1/burn")                                                          \
    X(REWARDER, "rewarder", GET, "/rewarder/epochs")                                               \
    X(REWARDER, "rewarder", GET, "/rewarder/epochs/{epoch}")                                       \
    X(REWARDER, "rewarder", GET, "/rewarder/epochs/{epoch}/settlement")                            \
    X(REWARDER, "rewarder", GET, "/rewarder/epochs/{epoch}/payouts")                               \
    X(REWARDER, "rewarder", GET, "/rewarder/epochs/{epoch}/payouts/{account*}")                    \
    X(REWARDER, "rewarder", GET, "/rewarder/policy/{id}")                                          \
    X(EDGE, "edge", GET, "/edge/packs")                                                            \
    X(EDGE, "edge", GET, "/edge/assets/{pack}")                                                    \
    X(EDGE, "edge", GET, "/edge/assets/{pack}/{z:u64}/{x:u64}/{tile}")                             \
    X(INTEROP, "interop", GET, "/deliveries")                                                      \
    X(INTEROP, "interop", GET, "/mailbox")

struct pass {
    enum con_service svc;
    enum ron_http_method method;
    const char *pattern;
};

static const struct pass passes[] = {
#define X(svc_, name_, method_, path_) {CON_##svc_, RON_HTTP_##method_, "/api/" name_ path_},
    CON_PASSES(X)
#undef X
};

/* One call under way. */
struct con_call {
    struct con_svc *s;
    struct ron_http_reply *reply;
    enum con_service svc;
    bool share; /* a topology: kept for the others */
};

/* ---- paths ----------------------------------------------------------------------------------- */

/* Characters of a segment that stand for a dot: ".", "%2e" or "%2E"; 0 when they do not. */
static size_t dot_len(struct ron_str s)
{
    if (s.len >= 1 && s.ptr[0] == '.') {
        return 1;
    }
    return s.len >= 3 && s.ptr[0] == '%' && s.ptr[1] == '2' && (s.ptr[2] | 0x20) == 'e' ? 3 : 0;
}

static bool is_dots(struct ron_str segment)
{
    size_t dots = 0;
    size_t len;

    while (segment.len > 0 && (len = dot_len(segment)) > 0) {
        segment.ptr += len;
        segment.len -= len;
        dots++;
    }
    return segment.len == 0 && (dots == 1 || dots == 2);
}

bool con_path_plain(struct ron_str path)
{
    size_t at = 0;

    while (at <= path.len) {
        size_t stop = at;

        /* An encoded slash or backslash parts segments for whoever decodes first. */
        while (stop < path.len && path.ptr[stop] != '/' && path.ptr[stop] != '\\' &&
               !(stop + 2 < path.len && path.ptr[stop] == '%' &&
                 ((path.ptr[stop + 1] == '2' && (path.ptr[stop + 2] | 0x20) == 'f') ||
                  (path.ptr[stop + 1] == '5' && (path.ptr[stop + 2] | 0x20) == 'c')))) {
            stop++;
        }
        if (is_dots((struct ron_str){path.ptr + at, stop - at})) {
            return false;
        }
        at = stop + (stop < path.len && path.ptr[stop] == '%' ? 3 : 1);
    }
    return true;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* The media type as a constant, which the front wants. Nothing that a browser would run. */
static const char *type_of(const struct ron_http_fetch *f)
{
    static const char *const types[] = {"application/json",
                                        "application/x-ndjson",
                                        "text/plain",
                                        "application/vnd.mapbox-vector-tile",
                                        "application/x-protobuf",
                                        "image/png",
                                        "image/jpeg",
                                        "image/webp"};
    struct ron_str value = {0};

    if (ron_http_fetch_header_get(f, "content-type", &value) == RON_OK) {
        for (size_t i = 0; i < RON_ARRAY_LEN(types); i++) {
            size_t len = strlen(types[i]);

            if (value.len >= len && memcmp(value.ptr, types[i], len) == 0 &&
                (value.len == len || value.ptr[len] == ';')) {
                return types[i];
            }
        }
    }
    return "application/octet-stream";
}

/* Why a call that began has no answer, as a browser is told. */
static enum con_error error_of(enum ron_rc rc)
{
    return rc == RON_TIMEOUT                   ? CON_ERROR_TIMEOUT
           : rc == RON_LIMIT                   ? CON_ERROR_TOO_LARGE
           : rc == RON_FULL || rc == RON_NOMEM ? CON_ERROR_BUSY
           : rc == RON_CANCELLED               ? CON_ERROR_DRAINING
                                               : CON_ERROR_UNREACHABLE;
}

static void keep_topology(struct con_call *c, struct ron_str body)
{
    struct con_svc *s = c->s;
    struct con_shared *t = &s->up[c->svc].topology;

    ron_mutex_lock(&s->mu);
    ron_buf_clear(&t->body);
    t->at_ms = 0;
    if (ron_buf_append(&t->body, body.ptr, body.len) == RON_OK) {
        t->at_ms = ron_env_now_ns(s->env) / RON_NS_PER_MS;
    }
    ron_mutex_unlock(&s->mu);
}

static void answer(struct con_call *c, const struct ron_http_fetch *f,
                   const struct ron_http_fetch_result *r)
{
    /* A tile may be stored packed; whoever draws it is a browser and unpacks it. */
    static const char *const passed[] = {"Content-Encoding", "Idempotent-Replayed", "Retry-After"};

    RON_IGNORE(ron_http_reply_add_header(c->reply, "Cache-Control", RON_STR_LIT("no-store")));
    RON_IGNORE(
        ron_http_reply_add_header(c->reply, "X-Content-Type-Options", RON_STR_LIT("nosniff")));
    for (size_t i = 0; i < RON_ARRAY_LEN(passed); i++) {
        struct ron_str value = {0};

        if (ron_http_fetch_header_get(f, passed[i], &value) == RON_OK) {
            RON_IGNORE(ron_http_reply_add_header(c->reply, passed[i], value));
        }
    }
    RON_IGNORE(ron_buf_append(ron_http_reply_body(c->reply), r->body.ptr, r->body.len));
    ron_http_reply_send(c->reply, r->status, type_of(f));
}

static void done(struct ron_http_fetch *f, void *arg)
{
    struct con_call *c = arg;
    const struct ron_http_fetch_result *r = ron_http_fetch_result(f);
    bool whole = r->reason == RON_HTTP_FETCH_ANSWERED || r->reason == RON_HTTP_FETCH_STATUS;

    if (!whole) {
        con_reply_fail(c->s, c->reply, error_of(r->rc));
    } else if (r->status == 401) {
        con_reply_fail(c->s, c->reply, CON_ERROR_TOKEN);
    } else {
        if (c->share && r->rc == RON_OK) {
            keep_topology(c, r->body);
        }
        answer(c, f, r);
    }
    ron_http_fetch_release(f);
    ron_free(c);
}

/* ---- the call -------------------------------------------------------------------------------- */

struct send {
    enum con_service svc;
    struct ron_str target;
    bool write;
    bool share;
};

static enum ron_rc start(struct con_svc *s, struct ron_http_call *call, const struct send *o,
                         struct con_call *c)
{
    struct con_upstream *u = &s->up[o->svc];
    const struct ron_app_token *token = ron_app_tokens_get(o->write ? &u->write_token : &u->token);
    struct ron_http_fetch_header headers[4];
    struct ron_http_fetch *f = NULL;
    struct ron_str key = {0};
    struct ron_err err = {0};
    size_t count = 0;
    char bearer[RON_CAP_TEXT_MAX + 8];
    char url[CON_URL_MAX];
    int len = snprintf(url, sizeof url, "%s%.*s", u->url, (int)o->target.len, o->target.ptr);
    enum ron_rc rc;

    if (len <= 0 || (size_t)len >= sizeof url) {
        return RON_LIMIT;
    }
    if (token != NULL) {
        len = snprintf(bearer, sizeof bearer, "Bearer %.*s", (int)token->text.len, token->text.ptr);
        headers[count++] = (struct ron_http_fetch_header){"Authorization", {bearer, (size_t)len}};
    }
    if (o->write) {
        headers[count++] =
            (struct ron_http_fetch_header){"Content-Type", RON_STR_LIT("application/json")};
        if (ron_http_field_get(ron_http_head(call), "idempotency-key", &key) == RON_OK) {
            headers[count++] = (struct ron_http_fetch_header){"Idempotency-Key", key};
        }
    }
    rc = ron_http_fetch_start(
        u->target,
        &(struct ron_http_fetch_opts){.method = o->write ? RON_HTTP_POST : RON_HTTP_GET,
                                      .url = url,
                                      .op = 1,
                                      .headers = headers,
                                      .header_count = count,
                                      .corr_id = ron_http_corr_id(call),
                                      .body = o->write ? ron_http_body(call) : (struct ron_str){0},
                                      .done = done,
                                      .arg = c},
        &f, &err);
    ron_wipe(bearer, sizeof bearer);
    return rc;
}

/* Passes it on, or answers why not. */
static void pass_on(struct con_svc *s, struct ron_http_call *call, const struct send *o)
{
    struct con_call *c = ron_alloc_zero(sizeof *c);
    enum ron_rc rc;

    if (c == NULL) {
        con_fail(s, call, CON_ERROR_BUSY);
        return;
    }
    *c = (struct con_call){.s = s, .svc = o->svc, .share = o->share};
    rc = ron_http_defer(call, &c->reply);
    if (rc == RON_OK) {
        con_count_two(s, CON_M_CALLS, con_service_name(o->svc), o->write ? "write" : "read");
        rc = start(s, call, o, c);
        if (rc == RON_OK) {
            return;
        }
        ron_http_undefer(call, c->reply);
    }
    ron_free(c);
    con_fail(s, call,
             rc == RON_CLOSED                       ? CON_ERROR_DRAINING
             : rc == RON_FULL || rc == RON_NOMEM    ? CON_ERROR_BUSY
             : rc == RON_INVALID || rc == RON_LIMIT ? CON_ERROR_BAD_PATH
                                                    : CON_ERROR_UNREACHABLE);
}

static void on_pass(struct ron_http_call *call, void *arg)
{
    struct con_svc *s = arg;
    const struct ron_http_head *head = ron_http_head(call);
    enum con_role role;
    uint64_t until_ms;
    struct send o = {.write = head->method == RON_HTTP_POST};
    size_t prefix;

    if (o.write ? !con_session_write(s, call) : !con_session(s, call, &role, &until_ms)) {
        return;
    }
    /* "/api/NAME": the router has seen to it that the name is one of ours. */
    for (size_t i = 0; i < CON_SERVICE_COUNT; i++) {
        const char *name = con_service_name((enum con_service)i);

        prefix = 5 + strlen(name);
        if (head->path.len > prefix && memcmp(head->path.ptr + 5, name, prefix - 5) == 0 &&
            head->path.ptr[prefix] == '/') {
            o.svc = (enum con_service)i;
            o.target = (struct ron_str){head->target.ptr + prefix, head->target.len - prefix};
        }
    }
    if (o.target.len == 0 || !con_path_plain(head->path)) {
        con_fail(s, call, CON_ERROR_BAD_PATH);
    } else if (s->up[o.svc].url == NULL) {
        con_fail(s, call, CON_ERROR_ABSENT);
    } else if (o.write && !s->up[o.svc].has_write_token) {
        con_fail(s, call, CON_ERROR_NO_TOKEN);
    } else if (o.write && !ron_http_is_json(head)) {
        con_fail(s, call, CON_ERROR_BAD_BODY);
    } else {
        pass_on(s, call, &o);
    }
}

/* ---- topology -------------------------------------------------------------------------------- */

/* The one that somebody asked for a moment ago; false: there is none. */
static bool answer_kept(struct con_svc *s, struct ron_http_call *call, enum con_service svc)
{
    struct con_shared *t = &s->up[svc].topology;
    uint64_t now_ms = ron_env_now_ns(s->env) / RON_NS_PER_MS;
    struct ron_buf copy;
    bool fresh;

    ron_buf_init(&copy, CON_TOPOLOGY_MAX);
    ron_mutex_lock(&s->mu);
    fresh = t->at_ms != 0 && now_ms - t->at_ms < s->poll_ms * 9 / 10;
    if (fresh) {
        RON_IGNORE(ron_buf_append(&copy, ron_buf_data(&t->body), ron_buf_len(&t->body)));
    }
    ron_mutex_unlock(&s->mu);
    fresh = fresh && ron_buf_error(&copy) == RON_OK;
    if (fresh) {
        con_count_two(s, CON_M_CALLS, con_service_name(svc), "shared");
        con_answer_json(call, 200, &copy);
    }
    ron_buf_done(&copy);
    return fresh;
}

void con_topology(struct ron_http_call *call, void *arg)
{
    struct con_svc *s = arg;
    struct ron_str name = ron_http_param(call, 0);
    enum con_role role;
    uint64_t until_ms;

    if (!con_session(s, call, &role, &until_ms)) {
        return;
    }
    for (int i = 0; i < CON_SERVICE_COUNT; i++) {
        enum con_service svc = (enum con_service)i;

        if (ron_str_is(name, con_service_name(svc)) && s->up[i].url != NULL) {
            if (!answer_kept(s, call, svc)) {
                pass_on(s, call,
                        &(struct send){
                            .svc = svc, .target = RON_STR_LIT("/debug/topology"), .share = true});
            }
            return;
        }
    }
    con_fail(s, call, CON_ERROR_ABSENT);
}

void con_pass_routes(struct con_svc *s)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(passes); i++) {
        con_route_add(
            s, (struct ron_http_route){passes[i].method, passes[i].pattern, on_pass, s, 0, 0});
    }
}
