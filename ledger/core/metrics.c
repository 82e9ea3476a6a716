/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/core/metrics.c - what the ledger counts, under the names of the specification. */
#include "ledger/core/metrics.h"

#include "ron/base/alloc.h"

/* 5 ms to 600 ms, as the specification gives them, and finer steps below for local disks. */
static const uint64_t commit_bounds[] = {250000,   500000,    1000000,   2000000,
                                         5000000,  10000000,  20000000,  40000000,
                                         80000000, 150000000, 300000000, 600000000};
static const uint64_t preval_bounds[] = {2000,   5000,    10000,   25000,     50000,     100000,
                                         250000, 1000000, 5000000, 100000000, 1000000000};
static const uint64_t size_bounds[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

/* X(field, TYPE, UNIT, "name", "labels", bounds, "help") */
#define LED_METRICS(X)                                                                             \
    X(commits, COUNTER, ONE, "ledger_commits_total", "", NULL, 0, "Groups made durable.")          \
    X(entries, COUNTER, ONE, "ledger_entries_total", "", NULL, 0, "Entries made durable.")         \
    X(latency, HISTOGRAM, NS, "ledger_commit_latency_seconds", "", commit_bounds,                  \
      RON_ARRAY_LEN(commit_bounds), "From the request's arrival to its commit.")                   \
    X(batch_latency, HISTOGRAM, NS, "committer_batch_latency_seconds", "", commit_bounds,          \
      RON_ARRAY_LEN(commit_bounds), "Write and sync of a group.")                                  \
    X(preval, HISTOGRAM, NS, "prevalidator_duration_seconds", "", preval_bounds,                   \
      RON_ARRAY_LEN(preval_bounds),                                                                \
      "Prevalidation of a request, waiting for remote guards included.")                           \
    X(window, HISTOGRAM, ONE, "sequencer_batch_size", "", size_bounds, RON_ARRAY_LEN(size_bounds), \
      "Entries that a window of the sequencer decided on.")                                        \
    X(gaps, COUNTER, ONE, "seq_gap_detected_total", "", NULL, 0,                                   \
      "Breaks of the journal's chain that were found.")                                            \
    X(sync_fails, COUNTER, ONE, "wal_fsync_fail_total", "", NULL, 0,                               \
      "Groups that could not be made durable.")                                                    \
    X(safe_mode, GAUGE, ONE, "ledger_safe_mode", "", NULL, 0, "1 while writes are stopped.")       \
    X(leads, GAUGE, ONE, "ledger_leads", "", NULL, 0,                                              \
      "1 while it is sure to lead; of several that share a log one at a time.")                    \
    X(epoch, GAUGE, ONE, "ledger_epoch", "", NULL, 0,                                              \
      "The newest epoch in the log; grows with every leader.")                                     \
    X(head_seq, GAUGE, ONE, "ledger_head_seq", "", NULL, 0, "Last durable seq.")                   \
    X(index_lag, GAUGE, ONE, "ledger_index_lag_entries", "", NULL, 0,                              \
      "Entries that the index does not know yet.")                                                 \
    X(log_bytes, GAUGE, ONE, "ledger_log_bytes", "", NULL, 0, "Bytes of all segments.")            \
    X(late, COUNTER, ONE, "ledger_segments_late_total", "", NULL, 0,                               \
      "Segments that were not ready when the committer needed them.")                              \
    X(replays, COUNTER, ONE, "ledger_replays_total", "", NULL, 0,                                  \
      "Requests answered with the outcome of an earlier one.")                                     \
    X(unexpired, COUNTER, ONE, "ledger_expiries_refused_total", "", NULL, 0,                       \
      "Expiries of holds that the book refused; each is tried again after a minute.")

struct led_metrics {
    const struct ron_env *env;
#define X(field, ...) struct ron_metric *field;
    LED_METRICS(X)
#undef X
    struct ron_metric *drops;
    struct ron_series *drops_preval;
};

void led_metrics_scrape(const struct led_metrics *m, struct ron_scrape *scrape,
                        const struct led_gauges *now)
{
    ron_scrape_sample(scrape, m->safe_mode, now->safe_mode, NULL, 0);
    ron_scrape_sample(scrape, m->leads, now->leads, NULL, 0);
    ron_scrape_sample(scrape, m->epoch, now->epoch, NULL, 0);
    ron_scrape_sample(scrape, m->head_seq, now->head_seq, NULL, 0);
    ron_scrape_sample(scrape, m->index_lag,
                      now->head_seq > now->indexed_seq ? now->head_seq - now->indexed_seq : 0, NULL,
                      0);
    ron_scrape_sample(scrape, m->log_bytes, now->log_bytes, NULL, 0);
    ron_scrape_sample(scrape, m->late, now->segments_late, NULL, 0);
}

/* A rate needs the zero before the first event, most of all of failures. Gauges are collected. */
static void show_from_the_start(const struct led_metrics *m)
{
    struct ron_metric *const all[] = {m->commits, m->entries,  m->latency, m->batch_latency,
                                      m->preval,  m->window,   m->gaps,    m->sync_fails,
                                      m->replays, m->unexpired};

    for (size_t i = 0; i < RON_ARRAY_LEN(all); i++) {
        (void)ron_metric_only(all[i]);
    }
}

enum ron_rc led_metrics_new(const struct ron_env *env, struct ron_metrics *metrics,
                            struct led_metrics **ret_metrics, struct ron_err *err)
{
    struct led_metrics *m = ron_alloc_zero(sizeof *m);

    if (m == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the metrics");
    }
    m->env = env;
    *ret_metrics = m;
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
    LED_METRICS(X)
#undef X
    RON_TRY(ron_metrics_declare(
        metrics,
        &(struct ron_metric_def){.name = "drops_total",
                                 .help = "Validated requests that newer ones displaced.",
                                 .type = RON_METRIC_COUNTER,
                                 .labels = "queue"},
        &m->drops, err));
    m->drops_preval = ron_metric_series(m->drops, "preval");
    show_from_the_start(m);
    return RON_OK;
}

void led_metrics_free(struct led_metrics *m)
{
    ron_free(m);
}

void led_metrics_prevalidated(struct led_metrics *m, struct led_work *w)
{
    if (w->preval_ns != 0) {
        ron_histogram_observe(ron_metric_only(m->preval), ron_env_now_ns(m->env) - w->preval_ns);
        w->preval_ns = 0;
    }
}

void led_metrics_window(struct led_metrics *m, uint64_t entries)
{
    ron_histogram_observe(ron_metric_only(m->window), entries);
}

void led_metrics_committed(struct led_metrics *m, const struct led_commit_done *done,
                           struct led_work *const *works, size_t count)
{
    uint64_t now_ns = ron_env_now_ns(m->env);

    ron_counter_add(ron_metric_only(m->commits), 1);
    ron_counter_add(ron_metric_only(m->entries), done->entries);
    ron_histogram_observe(ron_metric_only(m->batch_latency), done->sync_ns);
    for (size_t i = 0; i < count; i++) {
        if (works[i]->received_ns != 0) {
            ron_histogram_observe(ron_metric_only(m->latency), now_ns - works[i]->received_ns);
        }
    }
}

void led_metrics_replayed(struct led_metrics *m)
{
    ron_counter_add(ron_metric_only(m->replays), 1);
}

void led_metrics_dropped(struct led_metrics *m)
{
    ron_counter_add(m->drops_preval, 1);
}

void led_metrics_gap(struct led_metrics *m)
{
    ron_counter_add(ron_metric_only(m->gaps), 1);
}

void led_metrics_sync_failed(struct led_metrics *m)
{
    ron_counter_add(ron_metric_only(m->sync_fails), 1);
}

void led_metrics_expiry_refused(struct led_metrics *m)
{
    ron_counter_add(ron_metric_only(m->unexpired), 1);
}
