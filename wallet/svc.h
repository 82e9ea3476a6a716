/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/svc.h - the running wallet: tasks and channels around the plain parts. Private to the
 * files of the service (svc.c, front/write.c, task/worker.c, task/read.c, front/routes.c,
 * task/follow.c, core/events.c, core/metrics.c).
 *
 *     http --work(512)--> worker-N --ledger-N (OAP)--> ledger
 *      |                     |                           |
 *      |                  events(1024)              changes, heads
 *      |                     |                           |
 *      |                  audit --> streams      ledger-bus (OAP) --ledger(1024)--> invalidator
 *      +---- reads: cache, else ledger-bus (OAP) ----------------------------------------+
 *
 * Of several ledgers on one log (s->ledgers) each has clients of its own; ledger-N goes to the one
 * that leads, ledger-bus to all.
 *
 * Stages of a drain: workers 1, audit and invalidator 2, ticker 2, OAP clients 3. */
#pragma once

#include "ron/app/auth.h"
#include "ron/base/list.h"
#include "ron/chan/bus.h"
#include "ron/http/events.h"
#include "ron/http/stream.h"
#include "ron/wire/client.h"
#include "wallet/conf.h"
#include "wallet/job/job.h"

enum {
    WLT_TASKS_MAX = 64,
    WLT_ROUTES_MAX = 24,
    WLT_ANSWER_MAX = 1 << 20, /* of the ledger: a page of a history */
    WLT_STREAMS_MAX = 64,     /* of GET /v1/events */
};

struct wlt_svc;
struct wlt_metrics;
struct wlt_follow;
struct wlt_worker;

/* ---- a write under way ----------------------------------------------------------------------- */

struct wlt_write {
    struct wlt_svc *svc;
    struct wlt_worker *worker; /* who drives it; NULL in the queue */
    struct ron_http_reply *reply;
    struct wlt_call call;
    struct wlt_job job;
    struct ron_oap_ask ask;
    struct ron_buf answer;  /* of the ledger */
    struct ron_arena arena; /* body and call, over `room` */
    void *room;
    size_t room_bytes;
    enum wlt_op op; /* WLT_OP_COUNT: a batch */
    bool asked;     /* the ledger owes an answer */
    bool waiting;   /* for job.until_ns */
    bool answered;  /* the client has its answer; only the ledger's is missing */
    uint64_t received_ns;
    char capability_ref[RON_CAP_LOG_ID_SIZE + 16];
    struct ron_list_node link; /* among those of its worker */
    struct wlt_write *next;    /* in the pool */
};

/* ---- a read of the ledger, in one or more steps ---------------------------------------------- */

struct wlt_read;
/* The ledger's word on the question before: looks at it and asks again (wlt_read_ask) or ends the
 * read (wlt_read_*). On the client's task; must not block. */
typedef void wlt_read_fn(struct wlt_read *r, const struct wlt_reply *reply);

struct wlt_read {
    struct wlt_svc *svc;
    struct ron_http_reply *reply;
    wlt_read_fn *then;
    struct ron_oap_ask ask;
    struct ron_buf payload;
    struct ron_buf answer;
    uint64_t sent_ms;
    enum wlt_op op;
    uint32_t which; /* of s->ledgers, that was asked */
    struct ron_breaker_ticket breaker;
    /* What was asked for. */
    uint16_t account_len;
    uint16_t asset_len;
    uint16_t text_len;
    char account[WLT_ACCOUNT_MAX];
    char asset[WLT_ASSET_MAX];
    char text[LC_IDEM_ID_MAX + 1]; /* txid or key */
    char idem_id[LC_IDEM_ID_MAX + 1];
    struct wlt_key account_key;
    struct wlt_key pair_key;
    struct wlt_balance stale; /* what the cache had */
    uint64_t stale_true_ms;   /* as of when that was known to be true */
    bool has_stale;
    bool proof; /* the offline proof, not the receipt */
    char if_none_match[96];
    uint64_t first_seq;
    struct ron_buf kept;  /* an earlier answer that a later step needs */
    struct ron_str token; /* of the caller; a slice of the request, which stays until the answer */
    struct wlt_read *next;
};

struct wlt_svc {
    struct ron_app *app;
    const struct ron_env *env;
    const struct ron_conf_snap *conf;
    struct ron_log *log;
    uint32_t cpus;

    struct wlt_core core;
    struct lc_ledgers ledgers;
    struct wlt_call_rules rules;
    struct ron_str assets[64];
    bool amnesia;

    struct ron_app_auth *auth;
    struct ron_app_tokens token; /* its own, for the ledger */

    struct ron_chan *work;
    struct ron_oap_client *ledger[LC_LEDGERS_MAX][WLT_TASKS_MAX]; /* connections to each */
    uint32_t ledger_count;                                        /* of connections to each */
    struct ron_oap_client *bus_client[LC_LEDGERS_MAX];
    struct wlt_worker *workers;
    uint32_t worker_count;
    struct ron_au32 inflight; /* writes that workers hold */
    struct wlt_follow *follow;
    struct ron_http_events *events;
    struct wlt_metrics *metrics;

    struct ron_mutex pool_lock;
    struct wlt_write *writes_idle;
    struct wlt_read *reads_idle;
    uint32_t writes_out;
    uint32_t reads_out;

    struct ron_need *need_ledger;
    struct ron_need *need_queue;
    uint64_t staleness_ms;
    uint64_t stall_ms;
    uint64_t next_tick_ms; /* of the ticker */
    char task_names[WLT_TASKS_MAX][24];
    struct ron_http_route routes[WLT_ROUTES_MAX];
    size_t route_count;
};

/* ---- pools ----------------------------------------------------------------------------------- */

/* With at least `room` bytes of arena; NULL: none left, or no memory. */
struct wlt_write *wlt_write_get(struct wlt_svc *s, size_t room);
void wlt_write_put(struct wlt_svc *s, struct wlt_write *w);
struct wlt_read *wlt_read_get(struct wlt_svc *s);
void wlt_read_put(struct wlt_svc *s, struct wlt_read *r);
void wlt_pools_free(struct wlt_svc *s);

/* ---- answers --------------------------------------------------------------------------------- */

struct ron_http_error wlt_http_error(const struct wlt_fault *fault);
void wlt_fail(struct wlt_svc *s, struct ron_http_call *call, const struct wlt_fault *fault);
void wlt_reply_fail(struct wlt_svc *s, struct ron_http_reply *take_reply,
                    const struct wlt_fault *fault);

/* ---- who may --------------------------------------------------------------------------------- */

/* Whether the token of the call allows the operation; `ret_info` may be NULL. */
RON_MUST_USE bool wlt_auth_open(struct wlt_svc *s, struct ron_http_call *call,
                                struct ron_arena *arena, struct ron_cap_grant *ret_grant,
                                struct ron_cap_info *ret_info, struct wlt_fault *ret_fault);
/* The same for a token that was taken from a request before. */
RON_MUST_USE bool wlt_auth_token(struct wlt_svc *s, struct ron_str token, struct ron_arena *arena,
                                 struct ron_cap_grant *ret_grant, struct ron_cap_info *ret_info,
                                 struct wlt_fault *ret_fault);
RON_MUST_USE enum ron_cap_why wlt_auth_bearer(struct ron_http_call *call, struct ron_str *ret);
RON_MUST_USE bool wlt_auth_read(struct wlt_svc *s, const struct ron_cap_grant *grant,
                                struct ron_str account, struct ron_str asset,
                                struct wlt_fault *ret_fault);
/* Whether it may ask what became of a key of the account. The key was the client's, and the answer
 * says nothing about assets: which one it was about nobody knows here. */
RON_MUST_USE bool wlt_auth_outcome(struct wlt_svc *s, const struct ron_cap_grant *grant,
                                   struct ron_str account, struct wlt_fault *ret_fault);
RON_MUST_USE bool wlt_auth_write(struct wlt_svc *s, const struct ron_cap_grant *grant,
                                 const struct wlt_call *call, struct wlt_fault *ret_fault);

/* ---- parts ----------------------------------------------------------------------------------- */

void wlt_front_write(struct ron_http_call *call, void *arg); /* POST /v1/<op>, /v1/batch */
void wlt_routes_fill(struct wlt_svc *s);

RON_MUST_USE enum ron_rc wlt_workers_add(struct wlt_svc *s, struct ron_err *err);
void wlt_workers_free(struct wlt_svc *s);

/* Sends r->payload as `code`; `then` is called with the outcome, perhaps at once. */
void wlt_read_ask(struct wlt_read *r, uint16_t code, wlt_read_fn *then);
/* Each of these ends the read. */
void wlt_read_answer(struct wlt_read *r, int status, const char *content_type);
void wlt_read_fail(struct wlt_read *r, const struct wlt_fault *fault);
/* What a call that brought no usable answer means. */
void wlt_read_failed(struct wlt_read *r, const struct wlt_reply *reply);
void wlt_read_clean(struct wlt_read *r);

/* Steps of GET /v1/tx and /v1/receipts: the entry of a txid is there. */
void wlt_tx_got_entry(struct wlt_read *r, const struct wlt_reply *reply);
/* Passes an answer of the ledger on as it is. */
void wlt_read_pass_on(struct wlt_read *r, const struct wlt_reply *reply);

RON_MUST_USE enum ron_rc wlt_follow_add(struct wlt_svc *s, struct ron_err *err);
void wlt_follow_free(struct wlt_svc *s);
/* Monotonic ms as of which everything in the cache is known to be true; 0: nothing is. */
uint64_t wlt_follow_fresh_ms(const struct wlt_svc *s);
/* Whether the ledger answers; writes are refused otherwise. */
bool wlt_follow_up(const struct wlt_svc *s);

/* One line for GET /v1/events; never waits. */
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
RON_MUST_USE enum ron_rc wlt_events_add(struct wlt_svc *s, struct ron_err *err);
void wlt_events_free(struct wlt_svc *s);
void wlt_events_tell(struct wlt_svc *s, const struct wlt_event *event);
/* Whether anybody would see it. */
bool wlt_events_watched(const struct wlt_svc *s);
void wlt_events_http(struct ron_http_call *call, void *arg);

RON_MUST_USE enum ron_rc wlt_metrics_new(struct wlt_svc *s, struct ron_err *err);
RON_MUST_USE enum ron_rc wlt_ticker_add(struct wlt_svc *s, struct ron_err *err);
void wlt_metrics_free(struct wlt_svc *s);
void wlt_metrics_refused(struct wlt_svc *s, enum wlt_reason reason);
void wlt_metrics_write(struct wlt_svc *s, const struct wlt_write *w);
void wlt_metrics_read(struct wlt_svc *s, const char *what);
void wlt_metrics_not_modified(struct wlt_svc *s);
void wlt_metrics_call(struct wlt_svc *s, bool commit, const struct wlt_reply *reply);
