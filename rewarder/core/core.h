/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/core.h - what every task and route of the rewarder shares: process, settings, log,
 * metrics and events.
 *
 * Threads: any; the members do not change after the build. Nothing blocks, except rwd_pause. */
#pragma once

#include "rewarder/conf.h"
#include "rewarder/core/error.h"
#include "rewarder/core/runs.h"
#include "ron/app/auth.h"
#include "ron/http/events.h"

enum {
    RWD_STREAMS_MAX = 64,       /* of GET /rewarder/events */
    RWD_EVENTS_CAPACITY = 1024, /* of the specification */
};

struct rwd_metrics;

struct rwd_core {
    struct ron_app *app;
    const struct ron_env *env;
    const struct ron_conf_snap *conf;
    struct ron_log *log;
    bool amnesia;
    struct ron_app_auth *auth;
    struct rwd_metrics *metrics;
    struct ron_http_events *events;
};

/* Metrics and the keys of clients. */
RON_MUST_USE enum ron_rc rwd_core_open(struct rwd_core *c, struct ron_app *app,
                                       struct ron_err *err);
void rwd_core_close(struct rwd_core *c);

/* dir/name; RON_LIMIT when it does not fit. */
RON_MUST_USE enum ron_rc rwd_join(char *ret, size_t size, const char *dir, const char *name,
                                  struct ron_err *err);
/* Waits, but not longer than until a shutdown begins. Blocking. */
void rwd_pause(struct rwd_core *c, uint64_t ms);

/* ---- answers --------------------------------------------------------------------------------- */

void rwd_fail(struct ron_http_call *call, const struct rwd_fault *fault);
void rwd_reply_fail(struct ron_http_reply *take_reply, const struct rwd_fault *fault);
/* {"epoch_id","run_key","status",...} of a run under way, with `code` (200 or 202). */
void rwd_reply_view(struct ron_http_reply *take_reply, int code, const struct rwd_view *view);
void rwd_view_write(struct ron_buf *out, const struct rwd_view *view);

/* ---- events ---------------------------------------------------------------------------------- */

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

RON_MUST_USE enum ron_rc rwd_events_new(struct rwd_core *c, struct ron_err *err);
void rwd_tell(struct rwd_core *c, enum rwd_event_kind kind, const char *epoch,
              const struct ron_b3 *run_key, bool dry, uint64_t done, uint64_t all,
              const char *reason);
/* An event for each run under way, when anybody watches. */
void rwd_tell_progress(struct rwd_core *c, struct rwd_runs *runs);

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

RON_MUST_USE enum ron_rc rwd_metrics_new(struct rwd_core *c, struct ron_err *err);
void rwd_metrics_free(struct rwd_core *c);
/* The one series of a metric without labels, or that of one label. */
void rwd_count(struct rwd_core *c, int metric, uint64_t n);
void rwd_count_of(struct rwd_core *c, int metric, const char *label, uint64_t n);
void rwd_observe(struct rwd_core *c, int metric, uint64_t ns);
void rwd_set(struct rwd_core *c, int metric, struct ron_money value);
void rwd_timed_out(struct rwd_core *c, const char *op, const char *peer); /* io_timeouts_total */
