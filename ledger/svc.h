/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/svc.h - the running ledger: tasks and channels around the plain stages. Private to the
 * service's own files (led_svc*.c, led_stage_*.c, led_route*.c).
 *
 *     http, oap --ingress--> prevalidator-N --preval--> sequencer --commit--> committer
 *                                  |                    |       ^                |
 *                                  +-------reads--------+       asks       roots bus, head watch
 *                                            |                  |                |
 *                                         reader-N             http       roots, indexer
 *
 * Who owns what: the sequencer owns led_seq and the book, the committer led_commit, the indexer
 * writes led_index. Readers share log, hashes and index for reading. All of that is one engine
 * (struct led_recovered); leaving safe mode replaces it while nobody holds a lease (core/safe.c).
 *
 * Stages of a drain: prevalidators 1, readers 2, sequencer 3, committer 4, indexer and roots 5. */
#pragma once

#include "ledger/core/core.h"
#include "ledger/core/engine.h"
#include "ledger/core/metrics.h"
#include "ledger/core/news.h"
#include "ledger/core/pipes.h"
#include "ledger/core/trace.h"
#include "ledger/front/ask.h"
#include "ledger/guard/gate.h"
#include "ledger/publish/publish.h"
#include "ledger/read/reader.h"
#include "ledger/replica/lead.h"

enum {
    LED_SVC_TASKS_MAX = 144, /* prevalidators of both kinds, and readers */
    LED_SVC_ROUTES_MAX = 48,
    LED_HEAD_MAX = 512,
    LED_FRONT_STOPPED_MAX = 1024,
};

struct led_lead;
struct led_oap;
struct led_seq_stage;
struct led_reading;

struct led_svc {
    struct led_core core;
    struct led_engine engine;
    struct led_pipes pipes;
    struct led_news news;
    struct led_gate gate;
    struct led_publish publish;
    struct led_lead *lead; /* NULL: the log is ours alone */

    struct ron_au32 expiry_told; /* refused expiries; the first is logged */
    struct ron_au32 admin_busy;
    struct ron_au32 exports; /* readers that are busy with one */
    struct led_oap *oap;
    struct led_seq_stage *seq_stage;
    struct led_reading *readings;
    void *health;
    struct ron_need *need_commit;
    struct ron_need *need_disk;
    struct ron_need *need_index;
    char task_names[LED_SVC_TASKS_MAX][24];
    struct ron_http_route routes[LED_SVC_ROUTES_MAX];
    size_t route_count;
};

/* ---- stages ---------------------------------------------------------------------------------- */

RON_MUST_USE enum ron_rc led_stage_preval_add(struct led_svc *s, struct ron_err *err);
RON_MUST_USE enum ron_rc led_stage_seq_add(struct led_svc *s, struct ron_err *err);
void led_stage_seq_free(struct led_svc *s);
/* After the end: whether works with a seq were neither made durable nor refused. */
bool led_stage_seq_owes(const struct led_svc *s);
RON_MUST_USE enum ron_rc led_stage_commit_add(struct led_svc *s, struct ron_err *err);
RON_MUST_USE enum ron_rc led_stage_read_add(struct led_svc *s, struct ron_err *err);
RON_MUST_USE enum ron_rc led_stage_index_add(struct led_svc *s, struct ron_err *err);

RON_MUST_USE enum ron_rc led_stage_health_add(struct led_svc *s, struct ron_err *err);
/* Whether the settings of remote guards fit together. */
RON_MUST_USE enum ron_rc led_svc_remote_check(const struct ron_conf_snap *conf,
                                              struct ron_err *err);
RON_MUST_USE enum ron_rc led_svc_remote_open(struct led_svc *s, struct ron_err *err);
/* Asks what the step of the work stands at; it comes back to a prevalidator, or is answered. */
void led_svc_remote_ask(struct led_svc *s, struct led_work *w);

/* ---- stage/admin.c: questions of the operator, on a reader's thread
 * ---------------------------- */

bool led_admin_takes(enum led_ask ask);
void led_admin_serve(struct led_svc *s, struct led_query *q);

/* ---- fronts ---------------------------------------------------------------------------------- */

/* Writes what a refused batch is answered: the envelope of every error, and with it all of its
 * reasons and the root of the head, which it left as it was. Counts it, and returns the status. */
int led_front_refusal(struct led_svc *s, const struct led_work *w, struct ron_buf *out);
/* What a write is answered while the mode is not RUNNING; counts it and returns the status. `out`
 * has LED_FRONT_STOPPED_MAX of room. */
int led_front_stopped(struct led_svc *s, const char *corr_id, struct ron_buf *out);
/* The body of GET /head; `out` has LED_HEAD_MAX of room. */
void led_front_head(struct led_svc *s, struct ron_buf *out);
void led_front_fail(struct ron_http_call *call, enum led_reason reason, const char *detail);
/* Writes are stopped: in safe mode, or because another ledger leads, whose address is told. */
void led_front_fail_stopped(struct led_svc *s, struct ron_http_call *call);
/* Who calls. */
void led_front_caller(struct led_svc *s, struct ron_http_call *call, struct led_caller *ret);
/* What a cancelled key is answered. */
void led_front_cancelled(const struct led_work *w, struct ron_buf *out);
bool led_front_reads_open(const struct led_svc *s);
/* Whether the caller may use `scope`; `ret` and a count when not. */
RON_MUST_USE bool led_front_may(struct led_svc *s, const struct led_caller *caller,
                                enum led_scope scope, struct ron_str account,
                                struct led_refusal *ret);
/* The same for a call, which is answered when not. */
RON_MUST_USE bool led_front_allowed(struct led_svc *s, struct ron_http_call *call,
                                    enum led_scope scope, struct ron_str account);
void led_front_ingest(struct ron_http_call *call, void *arg); /* POST /ingest */
void led_front_cancel(struct led_svc *s, struct ron_http_call *call, struct ron_str idem_id);
/* Whether the caller may act as the operator; answers the call when not. */
RON_MUST_USE bool led_front_admin(struct led_svc *s, struct ron_http_call *call);
void led_routes_fill(struct led_svc *s);
/* A page of roots that only the journal has (publish/roots.h). */
void led_routes_older(void *arg, struct ron_http_call *call, uint64_t since, uint32_t limit);
RON_MUST_USE enum ron_rc led_oap_add(struct led_svc *s, struct ron_err *err);
bool led_oap_free(struct led_svc *s);
void led_oap_on_root(void *arg, const struct led_root_event *event); /* publish/roots.h */
/* Tells the accounts of a durable group to those who want to know. On the committer's thread, after
 * the numbers for the sequencer were stored: who hears of a commit and asks reads it. */
void led_oap_on_commit(void *arg, struct led_work *const *works, size_t count, uint64_t seq_last);
