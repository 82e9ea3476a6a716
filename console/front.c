/* SPDX-License-Identifier: Apache-2.0 */
/* console/front.c - what the console answers by itself: its files, links and sessions.
 *
 * Place: service, on the workers of the HTTP front; never blocks. The files are public: they are
 * the same for everybody and hold nothing. Everything below /api but POST /api/links needs a
 * session, and a write needs an operator's.
 *
 *   GET    /                    the page
 *   GET    /static/{name}       its parts
 *   GET    /open/{secret}       opens a one-time link: sets the cookie
 *   POST   /api/links           asks for a link; Authorization: Bearer, aud console
 *   GET    /api/session         who is this browser
 *   DELETE /api/session         ends it */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "console/svc.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"
#include "ron/http/etag.h"

enum { COOKIE_NAME_MAX = 24, COOKIE_MAX = 256, BODY_MAX = 1024, SESSION_MAX = 2048 };

/* ---- answers --------------------------------------------------------------------------------- */

void con_fail(struct con_svc *s, struct ron_http_call *call, enum con_error error)
{
    struct ron_http_error e = con_http_error(error);

    con_count_of(s, CON_M_REJECTS, con_error_label(error));
    RON_IGNORE(ron_http_add_header(call, "Cache-Control", RON_STR_LIT("no-store")));
    ron_http_fail_with(call, &e);
}

void con_reply_fail(struct con_svc *s, struct ron_http_reply *take_reply, enum con_error error)
{
    struct ron_http_error e = con_http_error(error);

    con_count_of(s, CON_M_REJECTS, con_error_label(error));
    RON_IGNORE(ron_http_reply_add_header(take_reply, "Cache-Control", RON_STR_LIT("no-store")));
    ron_http_reply_fail_with(take_reply, &e);
}

void con_answer_json(struct ron_http_call *call, int status, const struct ron_buf *body)
{
    RON_IGNORE(ron_http_add_header(call, "Cache-Control", RON_STR_LIT("no-store")));
    RON_IGNORE(ron_http_add_header(call, "X-Content-Type-Options", RON_STR_LIT("nosniff")));
    ron_http_answer(call, status, "application/json", ron_buf_data(body), ron_buf_len(body));
}

/* ---- who may --------------------------------------------------------------------------------- */

/* Cookies know no ports, so consoles side by side on one host have names of their own. */
static struct ron_str cookie_name(const struct ron_http_head *head, char out[COOKIE_NAME_MAX])
{
    struct ron_str host = head->host;
    size_t digits = 0;
    int len;

    while (digits < host.len && digits < 5 && host.ptr[host.len - digits - 1] >= '0' &&
           host.ptr[host.len - digits - 1] <= '9') {
        digits++;
    }
    if (digits == 0 || digits == host.len || host.ptr[host.len - digits - 1] != ':') {
        digits = 0;
    }
    len = snprintf(out, COOKIE_NAME_MAX, "ron_console%s%.*s", digits > 0 ? "_" : "", (int)digits,
                   host.ptr + host.len - digits);
    return (struct ron_str){out, (size_t)len};
}

static struct ron_str session_text(const struct ron_http_head *head)
{
    char room[COOKIE_NAME_MAX];
    struct ron_str cookies = {0};

    RON_IGNORE(ron_http_field_get(head, "cookie", &cookies));
    return con_cookie(cookies, cookie_name(head, room));
}

bool con_session(struct con_svc *s, struct ron_http_call *call, enum con_role *ret_role,
                 uint64_t *ret_until_ms)
{
    if (con_sess_find(&s->sess, session_text(ron_http_head(call)), ron_env_wall_ms(s->env),
                      ret_role, ret_until_ms) == RON_OK) {
        return true;
    }
    con_fail(s, call, CON_ERROR_NO_SESSION);
    return false;
}

bool con_same_origin(const struct ron_http_head *head, bool tls)
{
    const char *scheme = tls ? "https://" : "http://";
    size_t scheme_len = strlen(scheme);
    struct ron_str value = {0};

    if (ron_http_field_get(head, "x-ron-console", &value) != RON_OK || !ron_str_is(value, "1")) {
        return false;
    }
    value = (struct ron_str){0};
    if (ron_http_field_get(head, "sec-fetch-site", &value) != RON_NOTFOUND &&
        !ron_str_is(value, "same-origin")) {
        return false;
    }
    value = (struct ron_str){0};
    if (ron_http_field_get(head, "origin", &value) == RON_NOTFOUND) {
        return true; /* not a browser: the cookie decides */
    }
    return value.len == scheme_len + head->host.len && memcmp(value.ptr, scheme, scheme_len) == 0 &&
           memcmp(value.ptr + scheme_len, head->host.ptr, head->host.len) == 0;
}

bool con_session_write(struct con_svc *s, struct ron_http_call *call)
{
    enum con_role role;
    uint64_t until_ms;

    if (!con_session(s, call, &role, &until_ms)) {
        return false;
    }
    if (!con_same_origin(ron_http_head(call), s->tls)) {
        con_fail(s, call, CON_ERROR_CROSS_SITE);
        return false;
    }
    if (role != CON_ROLE_OPERATE) {
        con_fail(s, call, CON_ERROR_READ_ONLY);
        return false;
    }
    return true;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void add_page_headers(struct ron_http_call *call)
{
    static const struct {
        const char *name;
        const char *value;
    } rows[] = {
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
         "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
         "require-trusted-types-for 'script'; trusted-types 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Permissions-Policy", "camera=(), geolocation=(), microphone=()"},
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        RON_IGNORE(ron_http_add_header(call, rows[i].name,
                                       (struct ron_str){rows[i].value, strlen(rows[i].value)}));
    }
}

/* Whether the coding gzip is named and not weighed with 0. */
static bool takes_gzip(const struct ron_http_head *head)
{
    struct ron_str value = {0};
    size_t at = 0;

    if (ron_http_field_get(head, "accept-encoding", &value) != RON_OK) {
        return false;
    }
    while (at < value.len) {
        const char *comma = memchr(value.ptr + at, ',', value.len - at);
        size_t stop = comma != NULL ? (size_t)(comma - value.ptr) : value.len;

        while (at < stop && value.ptr[at] == ' ') {
            at++;
        }
        if (stop - at >= 4 && memcmp(value.ptr + at, "gzip", 4) == 0) {
            return stop - at == 4; /* a weight is for who knows better: plain */
        }
        at = stop + 1;
    }
    return false;
}

static void answer_file(struct con_svc *s, struct ron_http_call *call, const struct con_asset *f)
{
    const struct ron_http_head *head = ron_http_head(call);
    bool packed = f->packed.len > 0 && takes_gzip(head);
    const char *tag = packed ? f->packed_tag : f->tag;
    struct ron_str quoted = {tag, strlen(tag)};
    struct ron_http_etag etag = {.opaque = {tag + 1, quoted.len - 2}};
    struct ron_str bytes = packed ? f->packed : f->plain;

    add_page_headers(call);
    RON_IGNORE(ron_http_add_header(call, "ETag", quoted));
    RON_IGNORE(ron_http_add_header(call, "Vary", RON_STR_LIT("Accept-Encoding")));
    RON_IGNORE(ron_http_add_header(call, "Cache-Control", RON_STR_LIT("no-cache")));
    if (ron_http_precondition(head, &etag, RON_HTTP_NO_MTIME, ron_env_wall_ms(s->env) / 1000) ==
        RON_HTTP_NOT_MODIFIED) {
        ron_http_answer(call, 304, NULL, NULL, 0);
        return;
    }
    if (packed) {
        RON_IGNORE(ron_http_add_header(call, "Content-Encoding", RON_STR_LIT("gzip")));
    }
    ron_http_answer_blob(call, 200, f->type,
                         &(struct ron_http_blob){.bytes = bytes.ptr, .length = bytes.len});
}

static void on_page(struct ron_http_call *call, void *arg)
{
    struct con_svc *s = arg;

    answer_file(s, call, &s->assets.at[CON_ASSET_index_html]);
}

static void on_static(struct ron_http_call *call, void *arg)
{
    struct con_svc *s = arg;
    const struct con_asset *f = con_assets_find(&s->assets, ron_http_param(call, 0));

    if (f == NULL) {
        con_fail(s, call, CON_ERROR_NOT_FOUND);
        return;
    }
    answer_file(s, call, f);
}

/* ---- links ----------------------------------------------------------------------------------- */

struct link_request {
    struct ron_str role;
    uint64_t present;
};

static const struct ron_json_field link_fields[] = {
    RON_JSON_FIELD(struct link_request, role, STRING, .max = 16),
};
static const struct ron_json_shape link_shape =
    RON_JSON_SHAPE(struct link_request, link_fields, present);

/* The role that is asked for, operator's by default. */
static bool read_role(struct ron_http_call *call, enum con_role *ret_role)
{
    struct ron_str body = ron_http_body(call);
    struct link_request r = {0};
    struct ron_json_error err;
    char text[BODY_MAX];

    *ret_role = CON_ROLE_OPERATE;
    if (body.len == 0) {
        return true;
    }
    if (body.len > sizeof text) {
        return false;
    }
    memcpy(text, body.ptr, body.len);
    if (ron_json_scan(text, body.len, &link_shape, NULL, &r, &err) != RON_OK) {
        return false;
    }
    if (r.present == 0 || ron_str_is(r.role, "operate")) {
        return true;
    }
    *ret_role = CON_ROLE_READ;
    return ron_str_is(r.role, "read");
}

static void answer_link(struct con_svc *s, struct ron_http_call *call, enum con_role role,
                        const char *secret)
{
    const struct ron_http_head *head = ron_http_head(call);
    struct ron_json_writer j;
    struct ron_buf body;
    char url[512];

    (void)snprintf(url, sizeof url, "%s://%.*s/open/%s", s->tls ? "https" : "http",
                   (int)head->host.len, head->host.ptr, secret);
    ron_buf_init(&body, BODY_MAX);
    ron_json_begin(&j, &body);
    ron_json_open(&j, NULL, '{');
    ron_json_text(&j, "url", url);
    ron_json_text(&j, "role", role == CON_ROLE_OPERATE ? "operate" : "read");
    ron_json_u64(&j, "expires_in_s", s->sess.link_ttl_ms / 1000);
    ron_json_close(&j, '}');
    con_answer_json(call, 201, &body);
    ron_buf_done(&body);
}

static void on_link(struct ron_http_call *call, void *arg)
{
    struct con_svc *s = arg;
    char secret[CON_SECRET_SIZE];
    uint64_t until_ms = 0;
    enum con_role role;
    enum ron_cap_why why;

    /* Who has no capability at all learns nothing about the body. */
    why = ron_app_auth_check(s->auth, call, "console.read", (struct ron_str){0}, NULL, &until_ms);
    if (why == RON_CAP_SCOPE) {
        why = ron_app_auth_check(s->auth, call, "console.operate", (struct ron_str){0}, NULL,
                                 &until_ms);
    }
    if (why == RON_CAP_OK && !read_role(call, &role)) {
        con_fail(s, call, CON_ERROR_BAD_BODY);
        return;
    }
    if (why == RON_CAP_OK && role == CON_ROLE_OPERATE) {
        why = ron_app_auth_check(s->auth, call, "console.operate", (struct ron_str){0}, NULL,
                                 &until_ms);
    }
    if (why != RON_CAP_OK) {
        int status = ron_cap_why_http(why);

        con_count_of(s, CON_M_LINKS, "refused");
        ron_http_fail_with(
            call, &(struct ron_http_error){.status = status,
                                           .code = status == 401 ? "UNAUTHENTICATED" : "FORBIDDEN",
                                           .message = ron_cap_why_doc(why),
                                           .reason = ron_cap_why_label(why)});
        return;
    }
    con_link_new(&s->sess, role, until_ms, ron_env_wall_ms(s->env), secret);
    con_count_of(s, CON_M_LINKS, "made");
    answer_link(s, call, role, secret);
}

/* A page that goes on to the console, not a redirect: a browser that came from another site would
 * not send a SameSite=Strict cookie with the request that follows a redirect. */
static void on_open(struct ron_http_call *call, void *arg)
{
    static const char page[] = "<!doctype html><meta charset=utf-8><title>ron console</title>"
                               "<meta http-equiv=refresh content=\"0;url=/\">"
                               "<a href=\"/\">Open the console</a>\n";
    struct con_svc *s = arg;
    const struct ron_http_head *head = ron_http_head(call);
    uint64_t now_ms = ron_env_wall_ms(s->env);
    char session[CON_SECRET_SIZE];
    char room[COOKIE_NAME_MAX];
    char cookie[COOKIE_MAX];
    uint64_t until_ms = 0;
    struct ron_str name = cookie_name(head, room);
    int len;

    /* A link must not be used up by something that only looks whether it is there. */
    if (head->method != RON_HTTP_GET ||
        con_link_use(&s->sess, ron_http_param(call, 0), now_ms, session, &until_ms) != RON_OK) {
        con_count_of(s, CON_M_LINKS, "refused");
        con_count_of(s, CON_M_REJECTS, con_error_label(CON_ERROR_LINK));
        add_page_headers(call);
        RON_IGNORE(ron_http_add_header(call, "Cache-Control", RON_STR_LIT("no-store")));
        ron_http_answer(call, 410, "text/html; charset=utf-8",
                        s->assets.at[CON_ASSET_gone_html].plain.ptr,
                        s->assets.at[CON_ASSET_gone_html].plain.len);
        return;
    }
    con_count_of(s, CON_M_LINKS, "opened");
    len = snprintf(
        cookie, sizeof cookie, "%.*s=%s; Path=/; Max-Age=%" PRIu64 "; HttpOnly; SameSite=Strict%s",
        (int)name.len, name.ptr, session, (until_ms - now_ms) / 1000, s->tls ? "; Secure" : "");
    add_page_headers(call);
    RON_IGNORE(ron_http_add_header(call, "Set-Cookie", (struct ron_str){cookie, (size_t)len}));
    RON_IGNORE(ron_http_add_header(call, "Cache-Control", RON_STR_LIT("no-store")));
    ron_http_answer(call, 200, "text/html; charset=utf-8", page, sizeof page - 1);
}

/* ---- sessions -------------------------------------------------------------------------------- */

static void on_session(struct ron_http_call *call, void *arg)
{
    struct con_svc *s = arg;
    struct ron_json_writer j;
    struct ron_buf body;
    enum con_role role;
    uint64_t until_ms = 0;

    if (!con_session(s, call, &role, &until_ms)) {
        return;
    }
    ron_buf_init(&body, SESSION_MAX);
    ron_json_begin(&j, &body);
    ron_json_open(&j, NULL, '{');
    ron_json_text(&j, "role", role == CON_ROLE_OPERATE ? "operate" : "read");
    ron_json_u64(&j, "until_ms", until_ms);
    ron_json_u64(&j, "poll_ms", s->poll_ms);
    ron_json_bool(&j, "may_write", role == CON_ROLE_OPERATE && s->up[CON_WALLET].has_write_token);
    ron_json_text(&j, "ledger_key", ron_conf_str(s->conf, CON_LEDGER_VKEY).text);
    ron_json_open(&j, "services", '[');
    for (int i = 0; i < CON_SERVICE_COUNT; i++) {
        if (s->up[i].url != NULL) {
            ron_json_text(&j, NULL, con_service_name((enum con_service)i));
        }
    }
    ron_json_close(&j, ']');
    ron_json_close(&j, '}');
    con_answer_json(call, 200, &body);
    ron_buf_done(&body);
}

static void on_leave(struct ron_http_call *call, void *arg)
{
    struct con_svc *s = arg;
    const struct ron_http_head *head = ron_http_head(call);
    enum con_role role;
    uint64_t until_ms;

    if (!con_session(s, call, &role, &until_ms)) {
        return;
    }
    if (!con_same_origin(head, s->tls)) {
        con_fail(s, call, CON_ERROR_CROSS_SITE);
        return;
    }
    con_sess_end(&s->sess, session_text(head));
    ron_http_answer(call, 204, NULL, NULL, 0);
}

/* ---- routes ---------------------------------------------------------------------------------- */

void con_route_add(struct con_svc *s, struct ron_http_route route)
{
    RON_ASSERT(s->route_count < CON_ROUTES_MAX);
    s->routes[s->route_count++] = route;
}

void con_routes_fill(struct con_svc *s)
{
    const struct ron_http_route rows[] = {
        {RON_HTTP_GET, "/", on_page, s, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/static/{name}", on_static, s, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/open/{secret}", on_open, s, RON_HTTP_INLINE, 0},
        {RON_HTTP_POST, "/api/links", on_link, s, RON_HTTP_INLINE, BODY_MAX},
        {RON_HTTP_GET, "/api/session", on_session, s, RON_HTTP_INLINE, 0},
        {RON_HTTP_DELETE, "/api/session", on_leave, s, RON_HTTP_INLINE, BODY_MAX},
        {RON_HTTP_GET, "/api/overview", con_overview_http, s, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/api/live", con_live_http, s, 0, 0},
        {RON_HTTP_GET, "/api/topology/{service}", con_topology, s, 0, 0},
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        con_route_add(s, rows[i]);
    }
    con_pass_routes(s);
    ron_app_set_routes(s->app, s->routes, s->route_count);
}
