/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/front/front.h - what both fronts share: the parts of the ledger they use, callers,
 * refusals, routes.
 *
 * Place: service, on the workers. svc.c fills in the pointers before a route is served. */
#pragma once

#include "ledger/core/core.h"
#include "ledger/core/engine.h"
#include "ledger/core/pipes.h"
#include "ledger/core/trace.h"
#include "ledger/front/ask.h"
#include "ledger/guard/gate.h"
#include "ledger/publish/publish.h"
#include "ledger/replica/lead.h"
#include "ron/base/assert.h"

enum {
    LED_FRONT_ROUTES_MAX = 48,
    LED_FRONT_HEAD_MAX = 512,
    LED_FRONT_STOPPED_MAX = 1024,
};

struct led_oap;

#define LED_FRONT_MAGIC UINT32_C(0x52464c52) /* "RLFR" */

struct led_front {
    uint32_t magic;
    const struct led_core *core;
    struct led_engine *engine;
    struct led_pipes *pipes;
    struct led_gate *gate;
    struct led_publish *publish;
    struct led_lead *lead; /* NULL: the log is ours alone */
    bool reads_open;       /* auth.reads = "open": reads need no capability */
    struct led_oap *oap;   /* NULL: there is no binary front */
    struct ron_http_route routes[LED_FRONT_ROUTES_MAX];
    size_t route_count;
};

/* From the argument of a route or callback. */
static inline struct led_front *led_front_of(void *arg)
{
    return RON_OBJ(arg, struct led_front, LED_FRONT_MAGIC);
}

/* Writes what a refused batch is answered: the envelope of every error, and with it all of its
 * reasons and the root of the head, which it left as it was. Counts it, and returns the status. */
int led_front_refusal(struct led_front *f, const struct led_work *w, struct ron_buf *out);
/* What a write is answered while the mode is not RUNNING; counts it and returns the status. `out`
 * has LED_FRONT_STOPPED_MAX of room. */
int led_front_stopped(struct led_front *f, const char *corr_id, struct ron_buf *out);
/* The body of GET /head; `out` has LED_HEAD_MAX of room. */
void led_front_head(struct led_front *f, struct ron_buf *out);
void led_front_fail(struct ron_http_call *call, enum led_reason reason, const char *detail);
/* Writes are stopped: in safe mode, or because another ledger leads, whose address is told. */
void led_front_fail_stopped(struct led_front *f, struct ron_http_call *call);
/* What a cancelled key is answered. */
void led_front_cancelled(const struct led_work *w, struct ron_buf *out);
/* Whether the caller may use `scope`; `ret` and a count when not. */
RON_MUST_USE bool led_front_may(struct led_front *f, const struct led_caller *caller,
                                enum led_scope scope, struct ron_str account,
                                struct led_refusal *ret);
/* The same for a call, which is answered when not. */
RON_MUST_USE bool led_front_allowed(struct led_front *f, struct ron_http_call *call,
                                    enum led_scope scope, struct ron_str account);
void led_front_ingest(struct ron_http_call *call, void *arg); /* POST /ingest */
void led_front_cancel(struct led_front *f, struct ron_http_call *call, struct ron_str idem_id);
/* Whether the caller may act as the operator; answers the call when not. */
RON_MUST_USE bool led_front_admin(struct led_front *f, struct ron_http_call *call);
void led_routes_fill(struct led_front *f);
/* A page of roots that only the journal has (publish/roots.h). */
void led_routes_older(void *arg, struct ron_http_call *call, uint64_t since, uint32_t limit);
RON_MUST_USE enum ron_rc led_oap_add(struct led_front *f, struct ron_err *err);
bool led_oap_free(struct led_front *f);
void led_oap_on_root(void *arg, const struct led_root_event *event); /* publish/roots.h */
/* Tells the accounts of a durable group to those who want to know. On the committer's thread, after
 * the numbers for the sequencer were stored: who hears of a commit and asks reads it. */
void led_oap_on_commit(void *arg, struct led_work *const *works, size_t count, uint64_t seq_last);
