/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/core.h - the running rewarder: tasks and channels around the plain parts. Private to the
 * files of the service (svc.c, front/routes.c, stage/sched.c, stage/resume.c, stage/worker.c,
 * stage/writer.c, stage/emitter.c, stage/reads.c, stage/upload.c, stage/health.c, core/metrics.c).
 *
 *     http --work_req(512)--> scheduler --work(512)--> worker-N --results(512)--> writer
 *      |                         |                        |                         |
 *      |                      book, inputs                +--intents(512)--> emitter <--+ (sealed)
 *      +--uploads(16)--> upload-N --> inputs                                    |
 *      +--reads(256)---> reader-N --> book, artifacts                        ledger (OAP)
 *      +--events(1024)-- everybody
 *
 * Stages of a drain: uploads and scheduler 1, workers 2, writer 3, emitter 4, readers and streams
 * 5, inputs' store, OAP client, health reporter and keeper 6.
 *
 * Ownership: a message belongs to who took it from its channel. A reply travels with its request
 * and is answered by who ends it. */
#pragma once

#include "client/ledgers.h"
#include "rewarder/book/book.h"
#include "rewarder/conf.h"
#include "rewarder/core/runs.h"
#include "rewarder/settle/machine.h"
#include "ron/app/auth.h"
#include "ron/cas/cas.h"
#include "ron/http/client.h"
#include "ron/http/events.h"
#include "ron/io/file.h"
#include "ron/io/memdisk.h"
#include "ron/wire/client.h"

enum {
    RWD_WORKERS_MAX = 64,
    RWD_ROUTES_MAX = 24,
    RWD_RUNS_MAX = 1024, /* in the registry: a manifest each, some 2 KiB */
    RWD_READERS = 2,
    RWD_UPLOADERS = 2, /* a snapshot of 2 GiB is mostly waiting for its sender */
    RWD_Q_READS = 256,
    RWD_Q_UPLOADS = 16,
    RWD_STREAMS_MAX = 64,       /* of GET /rewarder/events */
    RWD_EVENTS_CAPACITY = 1024, /* of the specification */
    RWD_POLICY_KEYS_MAX = 64,
    RWD_LIST_MAX = 1000, /* epochs in one page */
};

struct rwd_svc;
struct rwd_metrics;

/* ---- messages -------------------------------------------------------------------------------- */

/* work_req: a compute request as it was sent. The slices live until the reply is answered. */
struct rwd_work_req {
    struct ron_http_reply *reply;
    char epoch[RWD_EPOCH_MAX + 1];
    struct ron_str policy_id;
    struct ron_b3 policy_hash;
    struct ron_b3 inputs_cid;
    struct ron_str snapshot; /* JSON; empty: by content id */
    struct ron_str policy;   /* JSON; empty: one that is known */
    struct ron_str carry_epoch;
    bool has_ledger;
    struct ron_tree_hash ledger_root;
    uint64_t ledger_seq;
    bool dry;
    bool wait; /* answer with the end of the run */
    struct ron_deadline deadline;
};

/* work: a run to compute. */
struct rwd_job {
    struct rwd_live *live;
    struct rwd_request request;
    struct rwd_policy_doc *policy;
    struct ron_cas_obj *inputs; /* held, so that they stay */
    bool dry;
    uint32_t tries; /* workers that failed with it */
    struct ron_trace_from from;
    struct ron_deadline deadline;
    struct ron_b3 carry_commitment;
    struct ron_money carry_in;
};

/* results: what came of it; with a fault there is no run. */
struct rwd_outcome {
    struct rwd_job *job;
    struct rwd_snapshot snapshot;
    struct rwd_run run;
    bool has_run;
    struct rwd_fault fault;
};

/* intents: a run to settle, or a reminder to look at those that wait. */
struct rwd_intent {
    char epoch[RWD_EPOCH_MAX + 1]; /* "": a reminder */
};

/* reads: a question that needs book or files. */
enum rwd_read_kind {
    RWD_READ_MANIFEST,
    RWD_READ_SETTLEMENT,
    RWD_READ_PAYOUTS,
    RWD_READ_PROOF,
    RWD_READ_POLICY,
    RWD_READ_LIST,
    RWD_READ_EMIT,    /* POST .../emit */
    RWD_READ_RELEASE, /* POST .../quarantine/release */
};
struct rwd_read {
    struct ron_http_reply *reply;
    enum rwd_read_kind kind;
    char epoch[RWD_EPOCH_MAX + 1]; /* or policy id, or where a list begins */
    char account[RWD_ACCOUNT_MAX + 1];
    bool has_hash;
    struct ron_b3 hash;
    uint32_t limit;
    enum rwd_state state;          /* of a list; RWD_STATE_COUNT: all */
    char who[RON_CAP_LOG_ID_SIZE]; /* of a change, for the log */
};

/* uploads: PUT /rewarder/inputs, its body in pieces. */
struct rwd_upload {
    struct ron_http_reply *reply;
    enum rwd_form form;
};

/* What happened, for GET /rewarder/events. */
enum rwd_event_kind {
    RWD_EVENT_STARTED,
    RWD_EVENT_PROGRESS,
    RWD_EVENT_SEALED,
    RWD_EVENT_FAILED,
    RWD_EVENT_QUARANTINED,
    RWD_EVENT_EMITTING,
    RWD_EVENT_EMITTED,
    RWD_EVENT_WITHHELD,
    RWD_EVENT_RELEASED,
};
struct rwd_event {
    uint64_t ts_ms;
    uint64_t done; /* rows, or intents */
    uint64_t all;
    uint8_t kind;
    uint8_t phase;
    bool dry;
    char epoch[RWD_EPOCH_MAX + 1];
    char run_key[17]; /* the first 8 bytes */
    char reason[64];
};

/* ---- the service ----------------------------------------------------------------------------- */

struct rwd_emitter;

struct rwd_svc {
    struct ron_app *app;
    const struct ron_env *env;
    const struct ron_env *disk_env; /* of artifacts: env, or that of the disk in memory */
    struct ron_memdisk *memdisk;
    const struct ron_conf_snap *conf;
    struct ron_log *log;
    bool amnesia;
    char artifact_dir[1024];

    struct ron_app_auth *auth;
    struct ron_app_tokens token;
    struct rwd_policy_key policy_keys[RWD_POLICY_KEYS_MAX];
    uint32_t policy_key_count;
    struct rwd_attester attester;

    struct rwd_book *book;
    struct ron_cas *inputs;
    struct rwd_runs *runs;

    struct ron_chan *work_req;
    struct ron_chan *work;
    struct ron_chan *results;
    struct ron_chan *intents;
    struct ron_chan *reads;
    struct ron_chan *uploads;
    struct ron_http_events *events;
    struct ron_oap_client *ledger[LC_LEDGERS_MAX]; /* one of the two: settlement.target */
    struct ron_http_client *http;
    struct ron_http_target *wallet;
    struct lc_ledgers payers; /* the ledgers, or the wallet alone; count 0: not made */
    struct rwd_emitter *emitter;
    struct ron_task *emitter_task;
    struct rwd_metrics *metrics;

    struct ron_need *need_ledger;
    struct ron_need *need_queue;
    struct ron_need *need_artifacts;
    struct ron_need *need_quarantine;
    uint64_t next_tick_ms;      /* of the health reporter */
    struct ron_au32 resumed;    /* the scheduler has taken up what an earlier life left */
    struct ron_au32 left;       /* the book may name runs that nobody computes */
    struct ron_au32 withheld;   /* settlements that wait */
    struct ron_au32 dropped;    /* results, by a shutdown */
    struct ron_au32 overlooked; /* the emitter was not told of a sealed run: it looks at all */
    char worker_names[RWD_WORKERS_MAX][24];
    char reader_names[RWD_READERS][24];
    char upload_names[RWD_UPLOADERS][24];
    struct ron_http_route routes[RWD_ROUTES_MAX];
    size_t route_count;
};

/* ---- answers --------------------------------------------------------------------------------- */

void rwd_fail(struct rwd_svc *s, struct ron_http_call *call, const struct rwd_fault *fault);
void rwd_reply_fail(struct rwd_svc *s, struct ron_http_reply *take_reply,
                    const struct rwd_fault *fault);
/* {"epoch_id","run_key","status",...} of a run under way, with `code` (200 or 202). */
void rwd_reply_view(struct ron_http_reply *take_reply, int code, const struct rwd_view *view);
void rwd_view_write(struct ron_buf *out, const struct rwd_view *view);

/* ---- tasks ----------------------------------------------------------------------------------- */

/* The body of POST .../compute into a request; `text` is changed and stays with it. False: the
 * fault names the member. Pure. */
RON_MUST_USE bool rwd_request_read(char *text, size_t len, struct rwd_work_req *w,
                                   struct rwd_fault *ret_fault);
void rwd_routes_fill(struct rwd_svc *s);
RON_MUST_USE enum ron_rc rwd_sched_add(struct rwd_svc *s, struct ron_err *err);
RON_MUST_USE enum ron_rc rwd_workers_add(struct rwd_svc *s, struct ron_err *err);
RON_MUST_USE enum ron_rc rwd_writer_add(struct rwd_svc *s, struct ron_err *err);
RON_MUST_USE enum ron_rc rwd_emitter_add(struct rwd_svc *s, struct ron_err *err);
void rwd_emitter_free(struct rwd_svc *s);
RON_MUST_USE enum ron_rc rwd_readers_add(struct rwd_svc *s, struct ron_err *err);
RON_MUST_USE enum ron_rc rwd_uploads_add(struct rwd_svc *s, struct ron_err *err);
RON_MUST_USE enum ron_rc rwd_health_add(struct rwd_svc *s, struct ron_err *err);

/* Stores the canonical bytes of a snapshot under its id. Blocking. */
RON_MUST_USE enum ron_rc rwd_inputs_seal(struct rwd_svc *s, const struct rwd_snapshot *snapshot,
                                         struct ron_err *err);

/* Why a run failed: rwd_fault_of, but a run that was told to stop is DRAINING, not late. */
void rwd_job_fault(struct rwd_fault *ret, const struct rwd_job *job, enum ron_rc rc,
                   enum rwd_error bad, const struct ron_err *err);
/* Ends a run that has no result: registry, waiting replies, metrics, event. Takes the job. */
void rwd_job_failed(struct rwd_svc *s, struct rwd_job *take_job, const struct rwd_fault *fault);
void rwd_job_free(struct rwd_job *job);
/* Takes policy and inputs also when there is no memory (NULL). */
RON_MUST_USE struct rwd_job *rwd_job_new(struct rwd_policy_doc *take_policy,
                                         struct ron_cas_obj *take_inputs,
                                         const struct rwd_request *request);
/* What is carried in; the book has vouched for it, except for a dry run. Blocking. */
RON_MUST_USE enum ron_rc rwd_job_find_carry(struct rwd_svc *s, struct rwd_job *job,
                                            struct ron_err *err);
/* B1: the run of this epoch has no verdict and will have none. When the book cannot be told, the
 * keeper sees to it. False: the book has a verdict already, of a seal whose answer was lost.
 * Blocking. */
RON_MUST_USE bool rwd_epoch_give_back(struct rwd_svc *s, struct ron_str epoch);
/* Takes up all runs that the book names and nobody computes. Blocking; scheduler and keeper. */
void rwd_resume(struct rwd_svc *s);
/* The same, and the epoch is given back unless we are shutting down: then the next life takes the
 * run up again. Blocking. */
void rwd_job_given_up(struct rwd_svc *s, struct rwd_job *take_job, const struct rwd_fault *fault);
/* The end of a result that a shutdown leaves unwritten, counted. */
void rwd_outcome_drop(struct rwd_svc *s, struct rwd_outcome *take_o);
/* With a fault the job is given up, without one it has ended. */
void rwd_outcome_free(struct rwd_svc *s, struct rwd_outcome *take_o, const struct rwd_fault *fault);
/* Reads policies of rewarder.policy_dir into the book; mistakes are logged. Blocking. */
void rwd_policies_load(struct rwd_svc *s);
/* settlement.target. */
bool rwd_to_wallet(const struct ron_conf_snap *conf);
/* Intents of one batch: of the wallet one. */
uint32_t rwd_batch_max(const struct rwd_svc *s);
/* Readiness says whether any epoch is in quarantine. Blocking. */
void rwd_look_at_quarantine(struct rwd_svc *s);
/* Wakes the emitter for an epoch that was sealed, or with "" to look at all that waits; never
 * blocks. */
void rwd_emitter_remind(struct rwd_svc *s, const char *epoch);
/* A policy that is known, as a document; RON_NOTFOUND. Blocking. */
RON_MUST_USE enum ron_rc rwd_policy_known(struct rwd_svc *s, struct ron_str id,
                                          const struct ron_b3 *hash,
                                          struct rwd_policy_doc **ret_doc, struct ron_err *err);
/* run.json of an epoch, or what stands for it when there was no result, as it was written, appended
 * to `out`. Blocking. */
RON_MUST_USE enum ron_rc rwd_manifest_text(const struct rwd_svc *s, struct ron_str epoch,
                                           bool quarantined, struct ron_buf *out,
                                           struct ron_err *err);
/* dir/name; RON_LIMIT when it does not fit. */
RON_MUST_USE enum ron_rc rwd_join(char *ret, size_t size, const char *dir, const char *name,
                                  struct ron_err *err);
/* Waits, but not longer than until a shutdown begins. Blocking. */
void rwd_pause(struct rwd_svc *s, uint64_t ms);

void rwd_tell(struct rwd_svc *s, enum rwd_event_kind kind, const char *epoch,
              const struct ron_b3 *run_key, bool dry, uint64_t done, uint64_t all,
              const char *reason);

RON_MUST_USE enum ron_rc rwd_events_new(struct rwd_svc *s, struct ron_err *err);
/* An event for each run under way, when anybody watches. */
void rwd_tell_progress(struct rwd_svc *s);

/* ---- metrics --------------------------------------------------------------------------------- */

/* X(ID, TYPE, UNIT, "name", "labels", "help") */
#define RWD_METRICS(X)                                                                             \
    X(RUNS, COUNTER, ONE, "reward_runs_total", "status", "Runs by how they ended.")                \
    X(LATENCY, HISTOGRAM, NS, "reward_compute_latency_seconds", "",                                \
      "Time of a run from its acceptance to its seal.")                                            \
    X(PREPARE, HISTOGRAM, NS, "reward_prepare_seconds", "", "Time to read and seal inputs.")       \
    X(INVARIANT, COUNTER, ONE, "reward_invariant_fail_total", "kind",                              \
      "Invariants that a result broke.")                                                           \
    X(QUARANTINE, COUNTER, ONE, "quarantine_total", "", "Epochs put into quarantine.")             \
    X(IDEMPOTENT, COUNTER, ONE, "reward_runs_idempotent_total", "",                                \
      "Requests for a run that was there already.")                                                \
    X(CONFLICTS, COUNTER, ONE, "reward_runs_conflict_total", "",                                   \
      "Requests for an epoch that belongs to another run.")                                        \
    X(DUST, COUNTER, ONE, "reward_dust_residual_minor_units_total", "",                            \
      "Residuals of sealed runs, as far as they fit 64 bits.")                                     \
    X(INTENTS, COUNTER, ONE, "ledger_intents_total", "result", "Intents by the ledger's word.")    \
    X(EMIT_LATENCY, HISTOGRAM, NS, "ledger_emit_latency_seconds", "", "Time of one batch.")        \
    X(RETRIES, COUNTER, ONE, "ledger_retry_total", "reason", "Batches that were tried again.")     \
    X(DROPPED_RESULTS, COUNTER, ONE, "dropped_results_total", "",                                  \
      "Results that a shutdown left unwritten; their runs are computed again.")                    \
    X(POOL, GAUGE, ONE, "reward_pool_total_minor", "", "Pool of the last sealed run, 63 bits.")    \
    X(PAYOUT, GAUGE, ONE, "reward_payout_total_minor", "", "Payouts of it, 63 bits.")              \
    X(DELTA, GAUGE, ONE, "reward_conservation_delta_minor", "",                                    \
      "Pool minus payouts of it, 63 bits; never negative.")                                        \
    X(ROWS, COUNTER, ONE, "reward_rows_total", "", "Rows of computed runs.")                       \
    X(INPUT_BYTES, COUNTER, ONE, "reward_input_bytes_total", "", "Canonical bytes sealed.")        \
    X(WITHHELD, GAUGE, ONE, "reward_withheld_epochs", "", "Settlements that wait for the ledger.") \
    X(TICKS, COUNTER, ONE, "metrics_ticks_total", "", "Ticks of the health reporter.")

enum {
#define X(id, ...) RWD_M_##id,
    RWD_METRICS(X)
#undef X
        RWD_M_COUNT
};

RON_MUST_USE enum ron_rc rwd_metrics_new(struct rwd_svc *s, struct ron_err *err);
void rwd_metrics_free(struct rwd_svc *s);
/* The one series of a metric without labels, or that of one label. */
void rwd_count(struct rwd_svc *s, int metric, uint64_t n);
void rwd_count_of(struct rwd_svc *s, int metric, const char *label, uint64_t n);
void rwd_observe(struct rwd_svc *s, int metric, uint64_t ns);
void rwd_set(struct rwd_svc *s, int metric, struct ron_money value);
void rwd_timed_out(struct rwd_svc *s, const char *op, const char *peer); /* io_timeouts_total */
