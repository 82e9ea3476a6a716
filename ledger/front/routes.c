/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/front/routes.c - the routes of the ledger: what is asked, by whom, of which stage.
 *
 * Place: service, on the workers of the HTTP front. A handler reads parameters (ask.h), checks
 * the caller and hands a query on; nobody here touches the book or a file. api/ledger.yaml
 * describes all of it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ledger/front/front.h"
#include "ledger/read/export.h"

/* ---- handing on ------------------------------------------------------------------------------ */

/* Of several ledgers on one log some lag: the answer is at least as new as this says. */
static void say_seq(struct led_front *f, struct ron_http_reply *reply)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRIu64, ron_au64_load(&f->engine->durable_seq));

    RON_IGNORE(ron_http_reply_add_header(reply, "Ron-Seq", (struct ron_str){text, (size_t)len}));
}

/* Takes a reply and sends the query to the sequencer, which answers or passes it on. */
static void ask(struct led_front *f, struct ron_http_call *call, const struct led_query *want)
{
    struct led_query *q = led_query_get(f->pipes->queries);
    enum ron_rc rc;

    if (q == NULL) {
        ron_http_fail(call, RON_HTTP_BUSY);
        return;
    }
    led_query_fill(q, want);
    if (ron_http_defer(call, &q->reply.http) != RON_OK) {
        led_query_put(f->pipes->queries, q);
        ron_http_fail(call, RON_HTTP_BUSY);
        return;
    }
    if (f->lead != NULL) {
        say_seq(f, q->reply.http);
    }
    rc = ron_chan_try_send(f->pipes->asks, q, NULL);
    if (rc != RON_OK) {
        ron_http_undefer(call, q->reply.http);
        led_query_put(f->pipes->queries, q);
        ron_http_fail(call, rc == RON_CLOSED ? RON_HTTP_DRAINING : RON_HTTP_BUSY);
    }
}

/* ---- reads ----------------------------------------------------------------------------------- */

/* Every GET that is served over OAP too. */
static void on_read(struct ron_http_call *call, void *arg)
{
    const struct ron_http_head *head = ron_http_head(call);
    struct led_query q;
    struct ron_http_error error;

    if (!led_ask_parse(head->path, head->query, &q, &error)) {
        ron_http_fail_with(call, &error);
    } else if (led_ask_is_public(&q) ||
               led_front_allowed(led_front_of(arg), call, LED_SCOPE_READ,
                                 (struct ron_str){q.account, q.account_len})) {
        ask(led_front_of(arg), call, &q);
    }
}

/* Asked by wallets many times a second, so it costs the sequencer nothing. */
static void on_head(struct ron_http_call *call, void *arg)
{
    char room[LED_FRONT_HEAD_MAX];
    struct ron_buf out;

    ron_buf_init_over(&out, room, sizeof room);
    led_front_head(led_front_of(arg), &out);
    ron_http_answer(call, 200, "application/json", ron_buf_data(&out), ron_buf_len(&out));
}

/* ---- accounts and keys: what is no GET ------------------------------------------------------- */

/* POST /accounts/{account}/freeze and /unfreeze. */
static void on_account_post(struct ron_http_call *call, void *arg)
{
    struct led_front *f = led_front_of(arg);
    struct ron_str path = ron_http_param(call, 0);
    struct led_query q = {.ask = LED_ASK_FREEZE};
    struct ron_http_error error;

    if (led_ask_ends_with(&path, "/unfreeze")) {
        q.flag = false;
    } else if (led_ask_ends_with(&path, "/freeze")) {
        q.flag = true;
    } else {
        ron_http_fail(call, RON_HTTP_NOT_FOUND);
        return;
    }
    if (!led_ask_account(path, &q, &error)) {
        ron_http_fail_with(call, &error);
    } else if (led_front_allowed(f, call, LED_SCOPE_FREEZE,
                                 (struct ron_str){q.account, q.account_len})) {
        if (led_engine_mode(f->engine) == LED_FOLLOWING) { /* the list is that of who leads */
            led_front_fail_stopped(f, call);
        } else {
            ask(f, call, &q);
        }
    }
}

static void on_outcome_post(struct ron_http_call *call, void *arg)
{
    struct ron_str path = ron_http_param(call, 0);
    struct ron_http_error error;
    char room[LED_ID_MAX + 1];
    uint16_t len = 0;

    if (!led_ask_ends_with(&path, "/cancel")) {
        ron_http_fail(call, RON_HTTP_NOT_FOUND);
    } else if (!led_ask_name(path, room, sizeof room, &len, &error)) {
        ron_http_fail_with(call, &error);
    } else {
        led_front_cancel(led_front_of(arg), call, (struct ron_str){room, len});
    }
}

static void on_export(struct ron_http_call *call, void *arg)
{
    struct led_query q = {.ask = LED_ASK_EXPORT};
    char room[16];
    struct ron_str value = {0};
    enum ron_rc rc =
        ron_http_query_get(ron_http_head(call)->query, "format", room, sizeof room, &value);
    enum led_export_format format = LED_EXPORT_NDJSON;
    struct ron_http_error error;

    if (rc != RON_NOTFOUND && (rc != RON_OK || !led_export_format_parse(value, &format))) {
        led_front_fail(call, LED_REASON_INVALID, "format is ndjson, hledger, ledger or beancount");
        return;
    }
    q.limit = format;
    if (!led_ask_number(ron_http_head(call)->query, "from", 1, &q.a, &error) ||
        !led_ask_number(ron_http_head(call)->query, "to", 0, &q.b, &error)) {
        ron_http_fail_with(call, &error);
    } else if (led_front_allowed(led_front_of(arg), call, LED_SCOPE_READ, (struct ron_str){0})) {
        ask(led_front_of(arg), call, &q);
    }
}

static void on_checkpoint(struct ron_http_call *call, void *arg)
{
    struct led_front *f = led_front_of(arg);
    struct led_head head;

    led_engine_head(f->engine, &head);
    led_signer_http_get(f->publish->signer, call, head.seq, &head.root);
}

static void on_cosign(struct ron_http_call *call, void *arg)
{
    struct led_front *f = led_front_of(arg);

    led_signer_http_cosign(f->publish->signer, call);
}

void led_routes_older(void *arg, struct ron_http_call *call, uint64_t since, uint32_t limit)
{
    struct led_query q = {.ask = LED_ASK_ROOTS, .a = since, .limit = limit};

    ask(led_front_of(arg), call, &q);
}

/* ---- the operator: Unix socket only ---------------------------------------------------------- */

static void admin(struct ron_http_call *call, void *arg, enum led_ask what)
{
    struct led_query q = {.ask = what};
    struct ron_str body = ron_http_body(call);

    if (body.len >= sizeof q.text) {
        led_front_fail(call, LED_REASON_TOO_LARGE, "the body is longer than 511 bytes");
        return;
    }
    memcpy(q.text, body.ptr, body.len);
    q.text_len = (uint16_t)body.len;
    if (led_front_admin(led_front_of(arg), call)) {
        ask(led_front_of(arg), call, &q);
    }
}

static void on_status(struct ron_http_call *call, void *arg)
{
    admin(call, arg, LED_ASK_STATUS);
}

static void on_enter_safe(struct ron_http_call *call, void *arg)
{
    admin(call, arg, LED_ASK_SAFE);
}

static void on_resume(struct ron_http_call *call, void *arg)
{
    admin(call, arg, LED_ASK_RESUME);
}

static void on_verify(struct ron_http_call *call, void *arg)
{
    admin(call, arg, LED_ASK_VERIFY);
}

static void on_snapshot(struct ron_http_call *call, void *arg)
{
    admin(call, arg, LED_ASK_SNAPSHOT);
}

static void on_drain(struct ron_http_call *call, void *arg)
{
    struct led_front *f = led_front_of(arg);

    if (led_front_admin(f, call)) {
        ron_http_answer(call, 202, "application/json", "{\"draining\":true}", 17);
        ron_sup_request_stop(ron_app_sup(f->core->app));
    }
}

void led_routes_fill(struct led_front *f)
{
    const struct ron_http_route rows[] = {
        {RON_HTTP_POST, "/ingest", led_front_ingest, f, 0, 0},
        {RON_HTTP_GET, "/accounts/{path*}", on_read, f, 0, 0},
        {RON_HTTP_POST, "/accounts/{path*}", on_account_post, f, 0, 0},
        {RON_HTTP_GET, "/entries/{seq:u64}", on_read, f, 0, 0},
        {RON_HTTP_GET, "/entries/by-id/{id*}", on_read, f, 0, 0},
        {RON_HTTP_GET, "/outcome/{idem_id*}", on_read, f, 0, 0},
        {RON_HTTP_POST, "/outcome/{idem_id*}", on_outcome_post, f, 0, 0},
        {RON_HTTP_GET, "/supply", on_read, f, 0, 0},
        {RON_HTTP_GET, "/export", on_export, f, 0, 0},
        {RON_HTTP_GET, "/roots", led_roots_http_get, f->publish->roots, 0, 0},
        {RON_HTTP_GET, "/roots/stream", led_roots_http_stream, f->publish->roots, 0, 0},
        {RON_HTTP_GET, "/head", on_head, f, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/checkpoint", on_checkpoint, f, RON_HTTP_INLINE, 0},
        {RON_HTTP_POST, "/checkpoint/cosignatures", on_cosign, f, RON_HTTP_INLINE, 0},
        {RON_HTTP_GET, "/proof/inclusion", on_read, f, 0, 0},
        {RON_HTTP_GET, "/proof/consistency", on_read, f, 0, 0},
        {RON_HTTP_GET, "/tile/{path*}", on_read, f, 0, 0},
        {RON_HTTP_GET, "/receipt/{seq:u64}", on_read, f, 0, 0},
        {RON_HTTP_GET, "/admin/status", on_status, f, RON_HTTP_ADMIN, 0},
        {RON_HTTP_POST, "/admin/safe-mode", on_enter_safe, f, RON_HTTP_ADMIN, 0},
        {RON_HTTP_POST, "/admin/resume", on_resume, f, RON_HTTP_ADMIN, 0},
        {RON_HTTP_POST, "/admin/verify", on_verify, f, RON_HTTP_ADMIN, 0},
        {RON_HTTP_POST, "/admin/snapshot", on_snapshot, f, RON_HTTP_ADMIN, 0},
        {RON_HTTP_POST, "/admin/drain", on_drain, f, RON_HTTP_ADMIN | RON_HTTP_INLINE, 0},
    };

    memcpy(f->routes, rows, sizeof rows);
    f->route_count = RON_ARRAY_LEN(rows);
    ron_app_set_routes(f->core->app, f->routes, f->route_count);
}
