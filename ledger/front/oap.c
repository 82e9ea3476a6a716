/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/front/oap.c - the binary front: OAP/1 requests into the pipeline, commits out as events.
 *
 * Place: service, on the workers. docs/formats/ledger-oap.md has codes and payloads.
 *
 *     request  LED_OAP_INGEST   a binary batch (docs/formats/ledger-entry.md), capability in the
 *                               frame; answered with LED_OAP_DONE_BYTES, or an error of the app
 *     request  LED_OAP_READ     the target of an HTTP GET; status and body are those of HTTP
 *     request  LED_OAP_CANCEL   an idem_id; like POST /outcome/{idem_id}/cancel
 *     event    LED_OAP_COMMIT   {"seq":n,"root":"hex","ts":ms} for every group
 *     event    LED_OAP_CHANGES  of another app: the accounts that a group changed; made only while
 *                               somebody listens, who needs ledger.read */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ledger/front/front.h"
#include "ledger/front/oap.h"
#include "ledger/publish/changes.h"
#include "ron/base/alloc.h"
#include "ron/base/bytes.h"
#include "ron/base/hex.h"

struct led_oap {
    struct ron_oap_server *server;
    struct ron_oap_app apps[2];
    struct led_changes changes; /* the committer's */
};

/* ---- answers --------------------------------------------------------------------------------- */

static void write_done(const struct led_work *w, struct ron_buf *out)
{
    uint8_t bytes[LED_OAP_DONE_BYTES];

    bytes[0] = w->result == LED_RESULT_DRY_RUN ? LED_OAP_DRY_RUN : LED_OAP_COMMITTED;
    bytes[1] = w->replayed;
    (void)ron_put_be64(bytes + 2, w->seq_first);
    (void)ron_put_be64(bytes + 10, w->seq_last);
    memcpy(bytes + 18, w->root.bytes, RON_TREE_HASH_BYTES);
    (void)ron_put_be64(bytes + 50, w->commit_ms);
    (void)ron_buf_append(out, bytes, sizeof bytes); /* An overflow is answered 500. */
}

static void oap_done(struct led_work *w)
{
    struct led_front *f = led_front_of(w->service);
    struct ron_oap_reply *reply = w->reply;
    struct ron_buf *out = ron_oap_reply_body(reply);
    uint16_t status = 200;

    led_metrics_prevalidated(f->core->metrics, w); /* one that a remote guard refused */
    if (w->result == LED_RESULT_REFUSED) {
        status = (uint16_t)led_front_refusal(f, w, out);
    } else if (w->result == LED_RESULT_CANCELLED) {
        led_front_cancelled(w, out);
    } else {
        write_done(w, out);
        if (w->replayed) {
            led_metrics_replayed(f->core->metrics);
        }
    }
    led_works_put(f->pipes->works, w);
    ron_oap_reply_send(reply, status);
}

static void fail_with(struct ron_oap_call *call, const struct ron_http_error *error)
{
    struct ron_oap_error e = led_oap_error(error);

    ron_oap_fail_with(call, &e);
}

static void fail(struct ron_oap_call *call, enum led_reason reason, const char *detail)
{
    struct ron_http_error e = led_http_error(reason, detail);

    fail_with(call, &e);
}

/* ---- callers --------------------------------------------------------------------------------- */

static void set_caller(struct led_front *f, struct ron_oap_call *call, struct led_caller *ret)
{
    const struct ron_oap_request *r = ron_oap_request(call);
    const struct ron_peer *peer = ron_oap_peer(call);

    *ret = (struct led_caller){.token = {(const char *)r->cap, r->cap_len},
                               .why = r->cap_len == 0 ? RON_CAP_MISSING : RON_CAP_OK,
                               .peer = peer->has_cred ? LED_PEER_UDS : LED_PEER_TCP};
    ret->peer_scopes =
        led_guard_peer_scopes(f->gate->guard, peer->has_cred ? &peer->uid : NULL, NULL);
}

/* Whether the caller may use `scope`; answers the call when not. */
static bool allowed(struct led_front *f, struct ron_oap_call *call, enum led_scope scope,
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
    fail(call, refusal.reason, refusal.detail);
    return false;
}

/* ---- writes ---------------------------------------------------------------------------------- */

/* Not the envelope of the wire: a follower's has a member more, and asking elsewhere may help. */
static void refuse_stopped(struct led_front *f, struct ron_oap_call *call)
{
    char room[LED_FRONT_STOPPED_MAX];
    char corr[24];
    struct ron_buf out;
    uint16_t status;

    (void)snprintf(corr, sizeof corr, "%" PRIu64, ron_oap_request(call)->corr_id);
    ron_buf_init_over(&out, room, sizeof room);
    status = (uint16_t)led_front_stopped(f, corr, &out);
    ron_oap_answer(call, status, ron_buf_data(&out), ron_buf_len(&out));
}

/* A work for this call, with its reply. NULL: the call was answered. */
static struct led_work *new_work(struct led_front *f, struct ron_oap_call *call, size_t arena_bytes)
{
    struct ron_oap_reply *reply = NULL;
    uint8_t corr[8];
    struct led_work *w;

    if (led_engine_mode(f->engine) != LED_RUNNING) {
        refuse_stopped(f, call);
        return NULL;
    }
    w = led_works_get(f->pipes->works, arena_bytes);
    if (w == NULL || ron_oap_defer(call, &reply) != RON_OK) {
        if (w != NULL) {
            led_works_put(f->pipes->works, w);
        }
        ron_oap_refuse(call, RON_OAP_BUSY);
        return NULL;
    }
    w->service = f;
    w->reply = reply;
    w->done = oap_done;
    w->received_ns = ron_env_now_ns(f->engine->env);
    w->deadline = ron_oap_deadline(call);
    w->trace = *ron_oap_trace(call);
    (void)ron_put_be64(corr, ron_oap_request(call)->corr_id);
    ron_hex(corr, sizeof corr, w->corr_id);
    set_caller(f, call, &w->caller);
    return w;
}

static void ingest(struct led_front *f, struct ron_oap_call *call, struct ron_str body)
{
    struct led_work *w = new_work(f, call, led_preval_arena_size(LED_FORM_BINARY, body));
    enum ron_rc rc;

    if (w == NULL) {
        return;
    }
    w->kind = LED_WORK_INGEST;
    w->form = LED_FORM_BINARY;
    w->in = body;
    led_trace_stage(f->core->tracer, w, "ingress", "ingress", w->received_ns);
    rc = led_pipes_submit(f->pipes, w);
    if (rc != RON_OK) {
        ron_oap_undefer(call, w->reply);
        led_works_put(f->pipes->works, w);
        ron_oap_refuse(call, rc == RON_CLOSED ? RON_OAP_DRAINING : RON_OAP_BUSY);
    }
}

static void cancel(struct led_front *f, struct ron_oap_call *call, struct ron_str idem_id)
{
    struct led_work *w;

    if (!led_token_valid(idem_id)) {
        fail(call, LED_REASON_INVALID, "an idem_id is 1-128 printable characters");
        return;
    }
    if (!allowed(f, call, LED_SCOPE_TRANSFER, (struct ron_str){0})) {
        return;
    }
    w = new_work(f, call, LED_ID_MAX);
    if (w != NULL) {
        led_pipes_cancel(f->pipes, f->engine, w, idem_id);
    }
}

/* ---- reads ----------------------------------------------------------------------------------- */

/* Takes a reply and sends the query to the sequencer, which answers or passes it on. */
static void ask(struct led_front *f, struct ron_oap_call *call, const struct led_query *want)
{
    struct led_query *q = led_query_get(f->pipes->queries);
    enum ron_rc rc;

    if (q == NULL) {
        ron_oap_refuse(call, RON_OAP_BUSY);
        return;
    }
    led_query_fill(q, want);
    if (ron_oap_defer(call, &q->reply.oap) != RON_OK) {
        led_query_put(f->pipes->queries, q);
        ron_oap_refuse(call, RON_OAP_BUSY);
        return;
    }
    rc = ron_chan_try_send(f->pipes->asks, q, NULL);
    if (rc != RON_OK) {
        ron_oap_undefer(call, q->reply.oap);
        led_query_put(f->pipes->queries, q);
        ron_oap_refuse(call, rc == RON_CLOSED ? RON_OAP_DRAINING : RON_OAP_BUSY);
    }
}

/* What needs neither the book nor the journal. */
static void answer_now(struct led_front *f, struct ron_oap_call *call, enum led_ask what,
                       struct ron_str query)
{
    char room[LED_SIGN_NOTE_SIZE];
    struct ron_http_error error;
    struct ron_err err = {0};
    struct led_head head;
    struct ron_buf out;

    _Static_assert((int)LED_SIGN_NOTE_SIZE >= (int)LED_FRONT_HEAD_MAX,
                   "a head fits where a note does");
    led_engine_head(f->engine, &head);
    ron_buf_init_over(&out, room, sizeof room);
    if (what == LED_ASK_HEAD) {
        led_front_head(f, &out);
    } else if (!led_signer_get(f->publish->signer, query, head.seq, &head.root, &out, &error,
                               &err)) {
        fail_with(call, &error);
        return;
    }
    ron_oap_answer(call, 200, ron_buf_data(&out), ron_buf_len(&out));
}

static void read_target(struct led_front *f, struct ron_oap_call *call, struct ron_str target)
{
    struct ron_http_error error;
    struct ron_str path;
    struct ron_str query;
    struct led_query q;

    if (target.len > RON_HTTP_URI_DEFAULT || !ron_http_split_target(target, &path, &query)) {
        fail(call, LED_REASON_INVALID, "the payload is no target");
    } else if (!led_ask_parse(path, query, &q, &error)) {
        fail_with(call, &error);
    } else if (q.ask == LED_ASK_HEAD || q.ask == LED_ASK_CHECKPOINT) {
        answer_now(f, call, q.ask, query);
    } else if (led_ask_is_public(&q) ||
               allowed(f, call, LED_SCOPE_READ, (struct ron_str){q.account, q.account_len})) {
        ask(f, call, &q);
    }
}

static void on_request(struct ron_oap_call *call, void *arg)
{
    struct led_front *f = led_front_of(arg);
    const struct ron_oap_request *r = ron_oap_request(call);
    struct ron_str payload = {(const char *)r->payload, r->payload_len};

    switch (r->code) {
    case LED_OAP_INGEST:
        ingest(f, call, payload);
        break;
    case LED_OAP_READ:
        read_target(f, call, payload);
        break;
    case LED_OAP_CANCEL:
        cancel(f, call, payload);
        break;
    default:
        ron_oap_refuse(call, RON_OAP_NOT_FOUND);
    }
}

static const char *span_name(uint16_t code)
{
    return code == LED_OAP_INGEST   ? "oap.ingest"
           : code == LED_OAP_READ   ? "oap.read"
           : code == LED_OAP_CANCEL ? "oap.cancel"
                                    : "oap";
}

/* The names of accounts are no less than what reads tell: who may not read everybody's may not hear
 * them. Roots, the other app's events, are public. */
static enum ron_oap_reason may_hear_changes(struct ron_oap_call *call, void *arg)
{
    struct led_front *f = led_front_of(arg);
    struct led_caller caller;
    struct led_refusal refusal;

    if (f->reads_open) {
        return RON_OAP_NONE;
    }
    set_caller(f, call, &caller);
    if (led_front_may(f, &caller, LED_SCOPE_READ, (struct ron_str){0}, &refusal)) {
        return RON_OAP_NONE;
    }
    return refusal.reason == LED_REASON_BUSY ? RON_OAP_BUSY : RON_OAP_FORBIDDEN;
}

/* The other app has events alone. */
static void no_request(struct ron_oap_call *call, void *arg)
{
    (void)arg;
    ron_oap_refuse(call, RON_OAP_NOT_FOUND);
}

/* ---- events ---------------------------------------------------------------------------------- */

void led_oap_on_root(void *arg, const struct led_root_event *event)
{
    struct led_front *f = led_front_of(arg);
    char hex[2 * RON_TREE_HASH_BYTES + 1];
    char text[160];
    int len;

    if (f->oap == NULL) {
        return;
    }
    ron_hex(event->root.bytes, RON_TREE_HASH_BYTES, hex);
    len = snprintf(text, sizeof text, "{\"seq\":%" PRIu64 ",\"root\":\"%s\",\"ts\":%" PRIu64 "}",
                   event->seq, hex, event->ts_ms);
    /* Closed only at the very end; a subscriber that lags is told so by the wire. */
    RON_IGNORE(ron_oap_publish(f->oap->server, LED_OAP_APP, LED_OAP_COMMIT, text, (size_t)len));
}

static void publish_changes(void *arg, const void *event, size_t len)
{
    struct led_oap *o = arg;

    RON_IGNORE(ron_oap_publish(o->server, LED_OAP_CHANGES_APP, LED_OAP_CHANGES, event, len));
}

void led_oap_on_commit(void *arg, struct led_work *const *works, size_t count, uint64_t seq_last)
{
    struct led_front *f = led_front_of(arg);
    struct led_oap *o = f->oap;

    if (o != NULL && ron_oap_has_subscribers(o->server, LED_OAP_CHANGES_APP)) {
        led_changes_tell(&o->changes, works, count, seq_last, publish_changes, o);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

enum ron_rc led_oap_add(struct led_front *f, struct ron_err *err)
{
    const char *addr = ron_conf_str(f->core->conf, LED_OAP_ADDR).text;
    struct led_oap *o;

    if (*addr == '\0') {
        return RON_OK;
    }
    o = ron_alloc_zero(sizeof *o);
    if (o == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the binary front");
    }
    f->oap = o;
    o->apps[0] =
        (struct ron_oap_app){.app = LED_OAP_APP, .handle = on_request, .arg = f, .span = span_name};
    o->apps[1] = (struct ron_oap_app){.app = LED_OAP_CHANGES_APP,
                                      .handle = no_request,
                                      .arg = f,
                                      .may_subscribe = may_hear_changes};
    RON_TRY(ron_oap_server_new(
        &(struct ron_oap_opts){.name = "oap",
                               .env = ron_app_env(f->core->app),
                               .registry = ron_app_registry(f->core->app),
                               .workers = ron_exec_workers(ron_app_exec(f->core->app)),
                               .addr = addr,
                               .apps = o->apps,
                               .app_count = RON_ARRAY_LEN(o->apps),
                               .event_bytes = LED_CHANGES_EVENT_MAX,
                               .tracer = f->core->tracer,
                               .flow_max = (uint32_t)ron_conf_int(f->core->conf, LED_OAP_FLOW)},
        &o->server, err));
    RON_TRY(ron_collect_oap(ron_app_metrics(f->core->app), o->server, err));
    return ron_oap_server_attach(o->server, ron_app_sup(f->core->app), err);
}

bool led_oap_free(struct led_front *f)
{
    bool ok = f->oap == NULL || f->oap->server == NULL || ron_oap_server_free(f->oap->server);

    ron_free(f->oap);
    f->oap = NULL;
    return ok;
}
