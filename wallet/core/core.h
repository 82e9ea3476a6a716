/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/core/core.h - what every task and route of the wallet shares: the site, answers,
 * authorisation and the audit stream.
 *
 * Ownership: svc.c builds the site before any task starts and takes it down after all have stopped.
 * Its members do not change in between. Threads: any. */
#pragma once

#include "ron/app/auth.h"
#include "ron/http/events.h"
#include "wallet/call/call.h"
#include "wallet/conf.h"

#define WLT_SITE_MAGIC 0x57534954u /* "WSIT" */

enum { WLT_STREAMS_MAX = 64 }; /* of GET /v1/events */

struct wlt_metrics;

struct wlt_site {
    uint32_t magic;
    uint32_t cpus;
    struct ron_app *app;
    const struct ron_env *env;
    const struct ron_conf_snap *conf;
    struct ron_log *log;
    bool amnesia;
    struct ron_app_auth *auth;
    struct ron_http_events *events;
    struct wlt_metrics *metrics;
};

/* ---- answers --------------------------------------------------------------------------------- */

void wlt_fail(struct wlt_site *s, struct ron_http_call *call, const struct wlt_fault *fault);
void wlt_reply_fail(struct wlt_site *s, struct ron_http_reply *take_reply,
                    const struct wlt_fault *fault);

/* ---- authorisation --------------------------------------------------------------------------- */

/* Whether the token of the call allows the operation; `ret_info` may be NULL. */
RON_MUST_USE bool wlt_auth_open(struct wlt_site *s, struct ron_http_call *call,
                                struct ron_arena *arena, struct ron_cap_grant *ret_grant,
                                struct ron_cap_info *ret_info, struct wlt_fault *ret_fault);
/* The same for a token that was taken from a request before. */
RON_MUST_USE bool wlt_auth_token(struct wlt_site *s, struct ron_str token, struct ron_arena *arena,
                                 struct ron_cap_grant *ret_grant, struct ron_cap_info *ret_info,
                                 struct wlt_fault *ret_fault);
RON_MUST_USE enum ron_cap_why wlt_auth_bearer(struct ron_http_call *call, struct ron_str *ret);
RON_MUST_USE bool wlt_auth_read(struct wlt_site *s, const struct ron_cap_grant *grant,
                                struct ron_str account, struct ron_str asset,
                                struct wlt_fault *ret_fault);
/* Whether it may ask for the outcome of an idempotency key of the account. The answer says nothing
 * about assets, and the wallet does not know which asset the write was about. */
RON_MUST_USE bool wlt_auth_outcome(struct wlt_site *s, const struct ron_cap_grant *grant,
                                   struct ron_str account, struct wlt_fault *ret_fault);
RON_MUST_USE bool wlt_auth_write(struct wlt_site *s, const struct ron_cap_grant *grant,
                                 const struct wlt_call *call, struct wlt_fault *ret_fault);

/* ---- the audit stream ------------------------------------------------------------------------ */

/* One line for GET /v1/events. */
struct wlt_event {
    uint64_t ts_ms;
    uint64_t seq;
    uint8_t op; /* enum wlt_op; WLT_OP_COUNT: a batch */
    uint8_t reason;
    bool replayed;
    uint32_t count;
    char txid[WLT_TXID_LEN + 1];
    uint8_t account_hash[8];
};

RON_MUST_USE enum ron_rc wlt_events_add(struct wlt_site *s, struct ron_err *err);
void wlt_events_free(struct wlt_site *s);
/* Never waits. */
void wlt_events_tell(struct wlt_site *s, const struct wlt_event *event);
/* Whether a stream is open that would show it. */
bool wlt_events_watched(const struct wlt_site *s);
void wlt_events_http(struct ron_http_call *call, void *arg); /* a site */
