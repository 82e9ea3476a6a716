/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/core/metrics.c - what the wallet counts, under the names of the specification. */
#include "wallet/core/metrics.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

static const uint64_t latency_bounds[] = {500000,     1000000,    2000000,   5000000,   10000000,
                                          25000000,   50000000,   100000000, 250000000, 500000000,
                                          1000000000, 2000000000, 5000000000};

/* X(field, TYPE, UNIT, "name", "labels", bounds, count, "help") */
#define WLT_METRICS(X)                                                                             \
    X(requests, COUNTER, ONE, "wallet_requests_total", "op", NULL, 0, "Requests by operation.")    \
    X(rejects, COUNTER, ONE, "wallet_rejects_total", "reason", NULL, 0,                            \
      "Requests refused by the wallet, by reason.")                                                \
    X(replays, COUNTER, ONE, "idempotent_replays_total", "op", NULL, 0,                            \
      "Writes answered with the receipt of an earlier write.")                                     \
    X(nonce_conflicts, COUNTER, ONE, "wallet_nonce_conflicts_total", "", NULL, 0,                  \
      "Writes refused because of their nonce.")                                                    \
    X(conservation, COUNTER, ONE, "wallet_conservation_checks_total", "outcome", NULL, 0,          \
      "Ledger answers checked for one seq per operation; any fail is critical.")                   \
    X(calls, COUNTER, ONE, "upstream_calls_total", "svc,op,outcome", NULL, 0,                      \
      "Calls to the ledger by outcome.")                                                           \
    X(call_latency, HISTOGRAM, NS, "upstream_latency_seconds", "svc,op", latency_bounds,           \
      RON_ARRAY_LEN(latency_bounds), "Time from arrival of a write to the ledger's answer.")       \
    X(not_modified, COUNTER, ONE, "wallet_not_modified_total", "", NULL, 0,                        \
      "Balance requests answered 304.")                                                            \
    X(ticks, COUNTER, ONE, "metrics_ticks_total", "", NULL, 0, "Ticks of the metrics ticker.")     \
    X(cache, GAUGE, ONE, "wallet_cache_values", "", NULL, 0, "Balances in the cache.")             \
    X(cache_reads, COUNTER, ONE, "wallet_cache_reads_total", "result", NULL, 0,                    \
      "Lookups in the balance cache.")                                                             \
    X(idem, GAUGE, ONE, "wallet_idempotency_entries", "", NULL, 0,                                 \
      "Answers kept by idempotency key.")                                                          \
    X(idem_bytes, GAUGE, ONE, "wallet_idempotency_bytes", "", NULL, 0,                             \
      "Bytes of answers kept by idempotency key.")                                                 \
    X(idem_evicted, COUNTER, ONE, "wallet_idempotency_evicted_total", "", NULL, 0,                 \
      "Answers evicted to make room for newer ones.")                                              \
    X(untracked, COUNTER, ONE, "wallet_daily_untracked_total", "", NULL, 0,                        \
      "Debits not counted towards the daily ceiling because the table was full.")                  \
    X(circuit_open, COUNTER, ONE, "circuit_open_total", "svc", NULL, 0,                            \
      "Times that a circuit breaker opened.")                                                      \
    X(moves, COUNTER, ONE, "wallet_ledger_moves_total", "", NULL, 0,                               \
      "Changes of the leading ledger.")

#define METRICS_MAGIC 0x574d4554u /* "WMET" */

struct wlt_metrics {
    uint32_t magic;
    struct wlt_core *tables; /* read by a scrape */
#define X(field, ...) struct ron_metric *field;
    WLT_METRICS(X)
#undef X
    struct ron_series *by_op[WLT_OP_COUNT + 1];
    struct ron_series *replays_by_op[WLT_OP_COUNT + 1];
    struct ron_series *by_reason[WLT_REASON_COUNT];
    struct ron_series *call_of[2][3]; /* commit or read; ok, error, timeout */
    struct ron_series *commit_latency;
    struct ron_series *inflight;
    struct ron_series *ledger_timeouts;
    struct ron_series *conserved;
    struct ron_series *not_conserved;
};

static const char *op_name(size_t op)
{
    return op == WLT_OP_COUNT ? "batch" : wlt_op_info((enum wlt_op)op)->name;
}

/* ---- scrapes --------------------------------------------------------------------------------- */

static void collect_guards(struct ron_scrape *scrape, const struct wlt_metrics *m)
{
    struct ron_metrics *all = ron_scrape_metrics(scrape);
    struct ron_breaker_stats b;

    lc_ledgers_stats(m->tables->ledgers, &b);
    ron_scrape_add(scrape, ron_metrics_name(all, RON_M_BREAKER_STATE), (uint64_t)b.state, "ledger");
    ron_scrape_add(scrape, ron_metrics_name(all, RON_M_BREAKER_REFUSED), b.refused, "ledger");
    ron_scrape_add(scrape, ron_metrics_name(all, RON_M_UPSTREAM_FAIL), b.upstream_fail_total,
                   "ledger");
    ron_scrape_sample(scrape, m->moves, lc_ledgers_moves(m->tables->ledgers), NULL, 0);
    ron_scrape_add(scrape, m->circuit_open, b.entered[RON_BREAKER_IS_OPEN], "ledger");
    for (size_t i = 0; i < RON_BREAKER_STATE_COUNT; i++) {
        ron_scrape_add(scrape, ron_metrics_name(all, RON_M_BREAKER_CHANGES), b.entered[i], "ledger",
                       ron_breaker_state_label((enum ron_breaker_state)i));
    }
    for (size_t i = 0; i < RON_VERDICT_COUNT; i++) {
        ron_scrape_add(scrape, ron_metrics_name(all, RON_M_BACKOFF_RETRIES),
                       ron_stat_get(&m->tables->retries.backoff_retries_total[i]), "ledger",
                       "commit", ron_retry_verdict_label((enum ron_retry_verdict)i));
    }
}

static void collect(struct ron_scrape *scrape, void *arg)
{
    struct wlt_metrics *m = RON_OBJ(arg, struct wlt_metrics, METRICS_MAGIC);
    struct wlt_cache_stats cache = wlt_cache_stats(m->tables->cache);
    struct wlt_idem_stats idem = wlt_idem_stats(m->tables->idem);

    collect_guards(scrape, m);
    ron_scrape_sample(scrape, m->cache, cache.values, NULL, 0);
    ron_scrape_add(scrape, m->cache_reads, cache.hits_total, "hit");
    ron_scrape_add(scrape, m->cache_reads, cache.misses_total, "miss");
    ron_scrape_sample(scrape, m->idem, idem.entries, NULL, 0);
    ron_scrape_sample(scrape, m->idem_bytes, idem.bytes, NULL, 0);
    ron_scrape_sample(scrape, m->idem_evicted, idem.evicted_total, NULL, 0);
    ron_scrape_sample(scrape, m->untracked, wlt_daily_untracked_total(m->tables->daily), NULL, 0);
}

/* A rate needs the zero before the first event, so all series are made at the start. */
static void make_series(struct wlt_site *s)
{
    static const char *const outcomes[] = {"ok", "error", "timeout"};
    struct ron_metrics *all = ron_app_metrics(s->app);
    struct wlt_metrics *m = s->metrics;

    for (size_t i = 0; i <= WLT_OP_COUNT; i++) {
        m->by_op[i] = ron_metric_series(m->requests, op_name(i));
        m->replays_by_op[i] = ron_metric_series(m->replays, op_name(i));
    }
    for (size_t i = 1; i < WLT_REASON_COUNT; i++) {
        const char *label = wlt_reason_label((enum wlt_reason)i);

        m->by_reason[i] = ron_metric_series(m->rejects, label);
        (void)ron_metric_series(ron_metrics_name(all, RON_M_REJECTED), label); /* there from 0 */
    }
    for (size_t i = 0; i < 3; i++) {
        m->call_of[0][i] = ron_metric_series(m->calls, "ledger", "commit", outcomes[i]);
        m->call_of[1][i] = ron_metric_series(m->calls, "ledger", "read", outcomes[i]);
    }
    m->commit_latency = ron_metric_series(m->call_latency, "ledger", "commit");
    m->inflight = ron_metric_only(ron_metrics_name(all, RON_M_WORKER_INFLIGHT));
    m->ledger_timeouts =
        ron_metric_series(ron_metrics_name(all, RON_M_IO_TIMEOUTS), "ledger_rpc", "ledger");
    m->conserved = ron_metric_series(m->conservation, "pass");
    m->not_conserved = ron_metric_series(m->conservation, "fail");
    (void)ron_metric_only(m->nonce_conflicts);
    (void)ron_metric_only(m->not_modified);
    (void)ron_metric_only(m->ticks);
}

enum ron_rc wlt_metrics_new(struct wlt_site *s, struct wlt_core *tables, struct ron_err *err)
{
    struct ron_metrics *metrics = ron_app_metrics(s->app);
    struct wlt_metrics *m = ron_alloc_zero(sizeof *m);

    if (m == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the metrics");
    }
    m->magic = METRICS_MAGIC;
    m->tables = tables;
    s->metrics = m;
#define X(field, type_, unit_, name_, labels_, bounds_, count_, help_)                             \
    RON_TRY(ron_metrics_declare(metrics,                                                           \
                                &(struct ron_metric_def){.name = name_,                            \
                                                         .help = help_,                            \
                                                         .type = RON_METRIC_##type_,               \
                                                         .unit = RON_METRIC_##unit_,               \
                                                         .labels = labels_,                        \
                                                         .bounds = bounds_,                        \
                                                         .bound_count = count_},                   \
                                &m->field, err));
    WLT_METRICS(X)
#undef X
    make_series(s);
    return ron_metrics_collector(metrics, collect, m, err);
}

void wlt_metrics_free(struct wlt_site *s)
{
    ron_free(s->metrics);
    s->metrics = NULL;
}

/* ---- counting -------------------------------------------------------------------------------- */

/* rejected_total and busy_rejections_total are the HTTP front's, which sees the answer. */
void wlt_metrics_refused(struct wlt_site *s, enum wlt_reason reason)
{
    RON_ASSERT_MSG(reason > WLT_REASON_NONE && reason < WLT_REASON_COUNT, "a refusal has a reason");
    ron_counter_add(s->metrics->by_reason[reason], 1);
}

void wlt_metrics_write(struct wlt_site *s, const struct wlt_write *w)
{
    struct wlt_metrics *m = s->metrics;
    enum wlt_reason reason = w->job.fault.reason;

    RON_ASSERT(w->op <= WLT_OP_COUNT);
    ron_counter_add(m->by_op[w->op], 1);
    if (reason == WLT_REASON_NONE) {
        const struct lc_done *d = &w->job.done;

        ron_histogram_observe(m->commit_latency, ron_env_now_ns(s->env) - w->received_ns);
        if (w->job.replayed) {
            ron_counter_add(m->replays_by_op[w->op], 1);
        } else if (!w->call.dry_run) {
            ron_counter_add(d->seq_last - d->seq_first + 1 == w->call.count ? m->conserved
                                                                            : m->not_conserved,
                            1);
        }
    } else if (reason == WLT_REASON_NONCE || reason == WLT_REASON_NONCE_PENDING) {
        ron_counter_add(ron_metric_only(m->nonce_conflicts), 1);
    }
}

void wlt_metrics_read(struct wlt_site *s, const char *what)
{
    ron_counter_add(ron_metric_series(s->metrics->requests, what), 1);
}

void wlt_metrics_not_modified(struct wlt_site *s)
{
    ron_counter_add(ron_metric_only(s->metrics->not_modified), 1);
}

void wlt_metrics_call(struct wlt_site *s, bool commit, const struct wlt_reply *reply)
{
    struct wlt_metrics *m = s->metrics;
    size_t outcome = reply->kind == WLT_REPLY_UNKNOWN                            ? 2
                     : reply->kind == WLT_REPLY_NOT_SENT || reply->status >= 500 ? 1
                                                                                 : 0;

    ron_counter_add(m->call_of[!commit][outcome], 1);
    if (outcome == 2) {
        ron_counter_add(m->ledger_timeouts, 1);
    }
}

void wlt_metrics_tick(struct wlt_site *s, uint32_t inflight)
{
    ron_gauge_set(s->metrics->inflight, (int64_t)inflight);
    ron_counter_add(ron_metric_only(s->metrics->ticks), 1);
}
