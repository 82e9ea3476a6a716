/* SPDX-License-Identifier: Apache-2.0 */
/* interop/core/core.h - what every task and route of the bridge shares: settings and clocks,
 * refusals, authorisation, events and the audit trail.
 *
 * Ownership: svc.c builds the core before any task starts and takes it down after all have stopped.
 * Its members do not change in between. Threads: any; no function here blocks. */
#pragma once

#include "interop/audit/audit.h"
#include "interop/conf.h"
#include "interop/core/error.h"
#include "interop/rule/policy.h"
#include "ron/app/auth.h"
#include "ron/http/events.h"

#define IOP_CORE_MAGIC 0x49434f52u /* "ICOR" */

enum {
    IOP_STREAMS_MAX = 256,        /* of GET /v1/events */
    IOP_PEER_SIZE = RON_ADDR_MAX, /* address of a sender, for the audit trail */
};

struct iop_metrics;

struct iop_core {
    uint32_t magic;
    bool amnesia;
    struct ron_app *app;
    const struct ron_env *env;
    const struct ron_conf_snap *conf;
    struct ron_log *log;
    struct ron_app_auth *auth;
    struct iop_metrics *metrics;
    struct ron_http_events *events;
    struct iop_audit *audit;
};

/* ---- answers --------------------------------------------------------------------------------- */

void iop_fail(struct ron_http_call *call, enum iop_error error, const char *detail);
void iop_reply_fail(struct ron_http_reply *take_reply, enum iop_error error, const char *detail);
/* Whether the call's capability covers `scope`; false: it has been answered. `ret_until_ms` may be
 * NULL. */
bool iop_allowed(struct iop_core *c, struct ron_http_call *call, const char *scope,
                 uint64_t *ret_until_ms);

/* ---- outcome of a delivery ------------------------------------------------------------------- */

/* X(NAME, "text") */
#define IOP_VERDICTS(X)                                                                            \
    X(ACCEPTED, "accepted")                                                                        \
    X(DUPLICATE, "duplicate")                                                                      \
    X(CHALLENGE, "challenge")                                                                      \
    X(REFUSED, "refused")
enum iop_verdict {
#define X(name, text) IOP_VERDICT_##name,
    IOP_VERDICTS(X)
#undef X
        IOP_VERDICT_COUNT
};

struct iop_outcome {
    enum iop_verdict verdict;
    struct iop_policy *policy;           /* borrowed */
    const struct iop_provider *provider; /* NULL: none of that name */
    const struct iop_delivery *delivery; /* NULL: its headers were not read */
    const struct ron_b3 *b3;             /* of the body; NULL: not verified */
    enum iop_error error;
    const char *label; /* why; a constant */
    struct ron_str corr_id;
    const char *addr; /* of the sender */
    uint64_t began_ns;
};

/* ---- the audit trail ------------------------------------------------------------------------- */

/* Each records one decision. */
void iop_trail_delivery(struct iop_core *c, const struct iop_outcome *o, const char *verdict,
                        uint64_t took_us);
/* Before the reply is given away. `id` is NULL for what was refused. */
void iop_trail_put(struct iop_core *c, const struct ron_http_reply *reply, enum iop_error error,
                   const struct ron_b3 *id);
void iop_trail_denied(struct iop_core *c, struct ron_http_call *call, const char *scope,
                      enum iop_error error, const char *cap_id);
void iop_trail_action(struct iop_core *c, const char *action, const char *result, const char *rule,
                      const char *corr_id, const char *provider, uint32_t attempt, int status);
void iop_trail_brownout(struct iop_core *c, bool active, const char *cause);
void iop_trail_policy(struct iop_core *c, bool good);
void iop_audit_http(struct ron_http_call *call, void *arg); /* a core */
RON_MUST_USE enum ron_rc iop_trail_check(const struct ron_conf_snap *conf, struct ron_err *err);
RON_MUST_USE enum ron_rc iop_trail_open(struct iop_core *c, struct ron_err *err);

/* ---- events ---------------------------------------------------------------------------------- */

/* X(NAME, "topic"), as the specification has them. */
#define IOP_NOTICES(X)                                                                             \
    X(WEBHOOK, "interop.webhook.accepted.v1")                                                      \
    X(PUT, "interop.put.accepted.v1")                                                              \
    X(DEDUP, "interop.dedup.v1")                                                                   \
    X(BROWNOUT, "interop.bridge.brownout.v1")

enum iop_notice_kind {
#define X(name, topic) IOP_NOTICE_##name,
    IOP_NOTICES(X)
#undef X
        IOP_NOTICE_COUNT
};

struct iop_notice {
    uint8_t kind;
    bool active; /* of a brownout */
    uint64_t ts_ms;
    char provider[64];
    char b3[68];
    char corr_id[65];
    char reason[32];
};

/* Never waits. */
void iop_tell(struct iop_core *c, const struct iop_notice *notice);
void iop_events_http(struct ron_http_call *call, void *arg); /* a core */
RON_MUST_USE enum ron_rc iop_events_add(struct iop_core *c, struct ron_err *err);
