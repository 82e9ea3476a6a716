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
    WAL_TASKS_MAX = 64,
    WAL_ROUTES_MAX = 24,
    WAL_ANSWER_MAX = 1 << 20, /* of the ledger: a page of a history */
    WAL_STREAMS_MAX = 64,     /* of GET /v1/events */
};

struct wal_svc;
struct wal_metrics;
struct wal_follow;
struct wal_worker;

/* ---- a write under way ----------------------------------------------------------------------- */

struct wal_write {
    struct wal_svc *svc;
    struct wal_worker *worker; /* who drives it; NULL in the queue */
    struct ron_http_reply *reply;
    struct wal_call call;
    struct wal_job job;
    struct ron_oap_ask ask;
    struct ron_buf answer;  /* of the ledger */
    struct ron_arena arena; /* body and call, over `room` */
    void *room;
    size_t room_bytes;
    enum wal_op op; /* WAL_OP_COUNT: a batch */
    bool asked;     /* the ledger owes an answer */
    bool waiting;   /* for job.until_ns */
    bool answered;  /* the client has its answer; only the ledger's is missing */
    uint64_t received_ns;
    char capability_ref[RON_CAP_LOG_ID_SIZE + 16];
    struct ron_list_node link; /* among those of its worker */
    struct wal_write *next;    /* in the pool */
};

/* ---- a read of the ledger, in one or more steps ---------------------------------------------- */

struct wal_read;
/* The ledger's word on the question before: looks at it and asks again (wal_read_ask) or ends the
 * read (wal_read_*). On the client's task; must not block. */
typedef void wal_read_fn(struct wal_read *r, const struct wal_reply *reply);

struct wal_read {
    struct wal_svc *svc;
    struct ron_http_reply *reply;
    wal_read_fn *then;
    struct ron_oap_ask ask;
    struct ron_buf payload;
    struct ron_buf answer;
    uint64_t sent_ms;
    enum wal_op op;
    uint32_t which; /* of s->ledgers, that was asked */
    struct ron_breaker_ticket breaker;
    /* What was asked for. */
    uint16_t account_len;
    uint16_t asset_len;
    uint16_t text_len;
    char account[WAL_ACCOUNT_MAX];
    char asset[WAL_ASSET_MAX];
    char text[LC_IDEM_ID_MAX + 1]; /* txid or key */
    char idem_id[LC_IDEM_ID_MAX + 1];
    struct wal_key account_key;
    struct wal_key pair_key;
    struct wal_balance stale; /* what the cache had */
    uint64_t stale_true_ms;   /* as of when that was known to be true */
    bool has_stale;
    bool proof; /* the offline proof, not the receipt */
    char if_none_match[96];
    uint64_t first_seq;
    struct ron_buf kept;  /* an earlier answer that a later step needs */
    struct ron_str token; /* of the caller; a slice of the request, which stays until the answer */
    struct wal_read *next;
};

struct wal_svc {
    struct ron_app *app;
    const struct ron_env *env;
    const struct ron_conf_snap *conf;
    struct ron_log *log;
    uint32_t cpus;

    struct wal_core core;
    struct lc_ledgers ledgers;
    struct wal_call_rules rules;
    struct ron_str assets[64];
    bool amnesia;

    struct ron_app_auth *auth;
    struct ron_app_tokens token; /* its own, for the ledger */

    struct ron_chan *work;
    struct ron_oap_client *ledger[LC_LEDGERS_MAX][WAL_TASKS_MAX]; /* connections to each */
    uint32_t ledger_count;                                        /* of connections to each */
    struct ron_oap_client *bus_client[LC_LEDGERS_MAX];
    struct wal_worker *workers;
    uint32_t worker_count;
    struct ron_au32 inflight; /* writes that workers hold */
    struct wal_follow *follow;
    struct ron_http_events *events;
    struct wal_metrics *metrics;

    struct ron_mutex pool_lock;
    struct wal_write *writes_idle;
    struct wal_read *reads_idle;
    uint32_t writes_out;
    uint32_t reads_out;

    struct ron_need *need_ledger;
    struct ron_need *need_queue;
    uint64_t staleness_ms;
    uint64_t stall_ms;
    uint64_t next_tick_ms; /* of the ticker */
    char task_names[WAL_TASKS_MAX][24];
    struct ron_http_route routes[WAL_ROUTES_MAX];
    size_t route_count;
};

/* ---- pools ----------------------------------------------------------------------------------- */

/* With at least `room` bytes of arena; NULL: none left, or no memory. */
struct wal_write *wal_write_get(struct wal_svc *s, size_t room);
void wal_write_put(struct wal_svc *s, struct wal_write *w);
struct wal_read *wal_read_get(struct wal_svc *s);
void wal_read_put(struct wal_svc *s, struct wal_read *r);
void wal_pools_free(struct wal_svc *s);

/* ---- answers --------------------------------------------------------------------------------- */

struct ron_http_error wal_http_error(const struct wal_fault *fault);
void wal_fail(struct wal_svc *s, struct ron_http_call *call, const struct wal_fault *fault);
void wal_reply_fail(struct wal_svc *s, struct ron_http_reply *take_reply,
                    const struct wal_fault *fault);

/* ---- who may --------------------------------------------------------------------------------- */

/* Whether the token of the call allows the operation; `ret_info` may be NULL. */
RON_MUST_USE bool wal_auth_open(struct wal_svc *s, struct ron_http_call *call,
                                struct ron_arena *arena, struct ron_cap_grant *ret_grant,
                                struct ron_cap_info *ret_info, struct wal_fault *ret_fault);
/* The same for a token that was taken from a request before. */
RON_MUST_USE bool wal_auth_token(struct wal_svc *s, struct ron_str token, struct ron_arena *arena,
                                 struct ron_cap_grant *ret_grant, struct ron_cap_info *ret_info,
                                 struct wal_fault *ret_fault);
RON_MUST_USE enum ron_cap_why wal_auth_bearer(struct ron_http_call *call, struct ron_str *ret);
RON_MUST_USE bool wal_auth_read(struct wal_svc *s, const struct ron_cap_grant *grant,
                                struct ron_str account, struct ron_str asset,
                                struct wal_fault *ret_fault);
/* Whether it may ask what became of a key of the account. The key was the client's, and the answer
 * says nothing about assets: which one it was about nobody knows here. */
RON_MUST_USE bool wal_auth_outcome(struct wal_svc *s, const struct ron_cap_grant *grant,
                                   struct ron_str account, struct wal_fault *ret_fault);
RON_MUST_USE bool wal_auth_write(struct wal_svc *s, const struct ron_cap_grant *grant,
                                 const struct wal_call *call, struct wal_fault *ret_fault);

/* ---- parts ----------------------------------------------------------------------------------- */

void wal_front_write(struct ron_http_call *call, void *arg); /* POST /v1/<op>, /v1/batch */
void wal_routes_fill(struct wal_svc *s);

RON_MUST_USE enum ron_rc wal_workers_add(struct wal_svc *s, struct ron_err *err);
void wal_workers_free(struct wal_svc *s);

/* Sends r->payload as `code`; `then` is called with the outcome, perhaps at once. */
void wal_read_ask(struct wal_read *r, uint16_t code, wal_read_fn *then);
/* Each of these ends the read. */
void wal_read_answer(struct wal_read *r, int status, const char *content_type);
void wal_read_fail(struct wal_read *r, const struct wal_fault *fault);
/* What a call that brought no usable answer means. */
void wal_read_failed(struct wal_read *r, const struct wal_reply *reply);
void wal_read_clean(struct wal_read *r);

/* Steps of GET /v1/tx and /v1/receipts: the entry of a txid is there. */
void wal_tx_got_entry(struct wal_read *r, const struct wal_reply *reply);
/* Passes an answer of the ledger on as it is. */
void wal_read_pass_on(struct wal_read *r, const struct wal_reply *reply);

RON_MUST_USE enum ron_rc wal_follow_add(struct wal_svc *s, struct ron_err *err);
void wal_follow_free(struct wal_svc *s);
/* Monotonic ms as of which everything in the cache is known to be true; 0: nothing is. */
uint64_t wal_follow_fresh_ms(const struct wal_svc *s);
/* Whether the ledger answers; writes are refused otherwise. */
bool wal_follow_up(const struct wal_svc *s);

/* One line for GET /v1/events; never waits. */
struct wal_event {
    uint64_t ts_ms;
    uint64_t seq;
    uint8_t op; /* enum wal_op; WAL_OP_COUNT: a batch */
    uint8_t reason;
    bool replayed;
    uint32_t count;
    char txid[WAL_TXID_LEN + 1];
    uint8_t account_hash[8];
};
RON_MUST_USE enum ron_rc wal_events_add(struct wal_svc *s, struct ron_err *err);
void wal_events_free(struct wal_svc *s);
void wal_events_tell(struct wal_svc *s, const struct wal_event *event);
/* Whether anybody would see it. */
bool wal_events_watched(const struct wal_svc *s);
void wal_events_http(struct ron_http_call *call, void *arg);

RON_MUST_USE enum ron_rc wal_metrics_new(struct wal_svc *s, struct ron_err *err);
RON_MUST_USE enum ron_rc wal_ticker_add(struct wal_svc *s, struct ron_err *err);
void wal_metrics_free(struct wal_svc *s);
void wal_metrics_refused(struct wal_svc *s, enum wal_reason reason);
void wal_metrics_write(struct wal_svc *s, const struct wal_write *w);
void wal_metrics_read(struct wal_svc *s, const char *what);
void wal_metrics_not_modified(struct wal_svc *s);
void wal_metrics_call(struct wal_svc *s, bool commit, const struct wal_reply *reply);
