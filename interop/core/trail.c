/* SPDX-License-Identifier: Apache-2.0 */
/* interop/core/trail.c - the audit trail of the running service: who tells it what, and GET /audit.
 *
 * Place: service, over audit/audit.h. One record for each decision: a delivery taken or refused, an
 * object stored or refused, a capability that did not suffice, an action carried out or given up, a
 * brownout. Requests that were shed before anybody looked at them are counted
 * (rejected_total, busy_rejections_total) and not recorded. Telling never blocks. */
#include <stdio.h>
#include <string.h>

#include "interop/core/core.h"
#include "ron/base/assert.h"

enum { TAIL_DEFAULT = 100 };

static const char *text_of(struct ron_str s, char *room, size_t size)
{
    size_t len = RON_MIN(s.len, size - 1);

    if (len > 0) {
        memcpy(room, s.ptr, len);
    }
    room[len] = '\0';
    return room;
}

/* ---- telling --------------------------------------------------------------------------------- */

void iop_trail_delivery(struct iop_core *c, const struct iop_outcome *r, const char *verdict,
                        uint64_t took_us)
{
    const struct iop_delivery *d = r->delivery;
    bool allow = r->verdict != IOP_VERDICT_REFUSED;
    char corr[RON_HTTP_CORR_ID_MAX + 1];
    struct iop_audit_event e = {
        .action = "webhook",
        .allow = allow,
        .reason = allow ? verdict : iop_error_code(r->error),
        .provider = r->provider != NULL ? r->provider->name : "",
        .corr_id = text_of(r->corr_id, corr, sizeof corr),
        .b3 = r->b3,
        .verified = r->b3 != NULL || (allow && d != NULL),
        .sig_alg = d != NULL ? d->sig_alg : "",
        .addr = r->addr,
        .took_us = took_us,
    };
    size_t n = 0;

    if (d != NULL && d->id_len > 0) {
        e.delivery = (struct ron_str){d->id, d->id_len};
    }
    if (d != NULL && d->event_len > 0) {
        e.attrs[n].name = "event";
        e.attrs[n++].value = (struct ron_str){d->event, d->event_len};
    }
    if (r->label != NULL && r->label[0] != '\0') {
        e.attrs[n].name = "why";
        e.attrs[n].value = (struct ron_str){r->label, strlen(r->label)};
    }
    iop_audit_emit(c->audit, &e);
}

void iop_trail_put(struct iop_core *c, const struct ron_http_reply *reply, enum iop_error error,
                   const struct ron_b3 *id)
{
    char corr[RON_HTTP_CORR_ID_MAX + 1];

    iop_audit_emit(c->audit,
                   &(struct iop_audit_event){
                       .action = "put",
                       .allow = error == IOP_ERROR_NONE,
                       .reason = iop_error_code(error),
                       .corr_id = text_of(ron_http_reply_corr_id(reply), corr, sizeof corr),
                       .b3 = id,
                   });
}

void iop_trail_denied(struct iop_core *c, struct ron_http_call *call, const char *scope,
                      enum iop_error error, const char *cap_id)
{
    char corr[RON_HTTP_CORR_ID_MAX + 1];
    char peer[IOP_PEER_SIZE];

    ron_http_peer(call, peer, sizeof peer);
    iop_audit_emit(c->audit, &(struct iop_audit_event){
                                 .action = "capability",
                                 .reason = iop_error_code(error),
                                 .corr_id = text_of(ron_http_corr_id(call), corr, sizeof corr),
                                 .cap_id = cap_id,
                                 .addr = peer,
                                 .attrs = {{"scope", {scope, strlen(scope)}}},
                             });
}

void iop_trail_action(struct iop_core *c, const char *action, const char *result, const char *rule,
                      const char *corr_id, const char *provider, uint32_t attempt, int status)
{
    char attempt_text[16];
    char status_text[16];
    int a = snprintf(attempt_text, sizeof attempt_text, "%u", attempt);
    int b = snprintf(status_text, sizeof status_text, "%d", status);

    iop_audit_emit(c->audit, &(struct iop_audit_event){
                                 .action = action,
                                 .allow = strcmp(result, "done") == 0,
                                 .reason = result,
                                 .provider = provider,
                                 .corr_id = corr_id,
                                 .attrs = {{"rule", {rule, strlen(rule)}},
                                           {"attempt", {attempt_text, (size_t)a}},
                                           {"status", {status_text, (size_t)b}}},
                             });
}

void iop_trail_brownout(struct iop_core *c, bool active, const char *cause)
{
    iop_audit_emit(c->audit,
                   &(struct iop_audit_event){.action = active ? "brownout" : "brownout_over",
                                             .allow = !active,
                                             .reason = cause});
}

void iop_trail_policy(struct iop_core *c, bool good)
{
    iop_audit_emit(c->audit, &(struct iop_audit_event){.action = "policy",
                                                       .allow = good,
                                                       .reason = good ? "loaded" : "kept"});
}

/* ---- GET /audit ------------------------------------------------------------------------------ */

void iop_audit_http(struct ron_http_call *call, void *arg)
{
    struct iop_core *c = RON_OBJ(arg, struct iop_core, IOP_CORE_MAGIC);
    struct ron_str value;
    uint64_t limit = TAIL_DEFAULT;
    struct ron_buf body;
    char room[24];
    enum ron_rc rc;

    if (!iop_allowed(c, call, "interop.audit", NULL)) {
        return;
    }
    rc = ron_http_query_get(ron_http_head(call)->query, "limit", room, sizeof room, &value);
    if (rc != RON_NOTFOUND && (rc != RON_OK || ron_http_parse_u64(value, &limit) != RON_OK ||
                               limit < 1 || limit > IOP_AUDIT_RING)) {
        iop_fail(call, IOP_ERROR_MALFORMED, "limit: expected a number from 1 to 1024");
        return;
    }
    ron_buf_init(&body, (size_t)IOP_AUDIT_RING * IOP_AUDIT_LINE_MAX);
    rc = iop_audit_tail(c->audit, (uint32_t)limit, &body);
    if (rc == RON_OK) {
        ron_http_answer(call, 200, "application/x-ndjson", ron_buf_data(&body), ron_buf_len(&body));
    } else {
        iop_fail(call, IOP_ERROR_BUSY, "out of memory for the answer");
    }
    ron_buf_done(&body);
}

/* ---- life ------------------------------------------------------------------------------------ */

enum ron_rc iop_trail_check(const struct ron_conf_snap *conf, struct ron_err *err)
{
    if (ron_conf_choice(conf, IOP_AUDIT_SINK) == IOP_AUDIT_FILE &&
        ron_conf_bool(conf, RON_APP_AMNESIA)) {
        return ron_err_set(err, RON_INVALID,
                           "audit.sink: cannot be file in amnesia mode; use memory or stdout");
    }
    return RON_OK;
}

enum ron_rc iop_trail_open(struct iop_core *c, struct ron_err *err)
{
    struct ron_conf_list words = ron_conf_list(c->conf, IOP_AUDIT_WORDS);
    struct ron_conf_str file = ron_conf_str(c->conf, IOP_AUDIT_PATH);
    struct iop_audit_opts opts = {
        .env = c->env,
        .registry = ron_app_registry(c->app),
        .sink = (enum iop_audit_sink)ron_conf_choice(c->conf, IOP_AUDIT_SINK),
        .path = file.text,
        .amnesia = c->amnesia,
    };
    char path[1024];

    if (file.len == 0) {
        /* 900 bytes at most, as its key says; the folder is there, the stores are in it */
        (void)snprintf(path, sizeof path, "%s/audit.jsonl", ron_conf_str(c->conf, IOP_DIR).text);
        opts.path = path;
    }
    for (size_t i = 0; i < words.count; i++) {
        opts.redact[i] = words.items[i].text;
    }
    RON_TRY(iop_audit_new(&opts, &c->audit, err));
    return iop_audit_add(c->audit, ron_app_sup(c->app), 5, err);
}
