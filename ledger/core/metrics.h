/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/core/metrics.h - counters of a running ledger, under the names of the specification.
 *
 * Place: service. Counting is for any thread and takes no lock. Gauges are read when somebody
 * scrapes: svc.c, which sees all rooms, fills in struct led_gauges. */
#pragma once

#include "ledger/pipeline/commit.h"
#include "ron/obs/metrics.h"

struct led_metrics;

struct led_gauges {
    bool safe_mode;
    bool leads;
    uint64_t epoch;
    uint64_t head_seq;
    uint64_t indexed_seq;
    uint64_t log_bytes;
    uint64_t segments_late;
};

RON_MUST_USE enum ron_rc led_metrics_new(const struct ron_env *env, struct ron_metrics *metrics,
                                         struct led_metrics **ret_metrics, struct ron_err *err);
void led_metrics_free(struct led_metrics *m); /* NULL is fine */
void led_metrics_scrape(const struct led_metrics *m, struct ron_scrape *scrape,
                        const struct led_gauges *now);
void led_metrics_replayed(struct led_metrics *m);
/* Prevalidation of the work is over; counts it once. */
void led_metrics_prevalidated(struct led_metrics *m, struct led_work *w);
void led_metrics_window(struct led_metrics *m, uint64_t entries); /* that it decided on */
void led_metrics_committed(struct led_metrics *m, const struct led_commit_done *done,
                           struct led_work *const *works, size_t count);
void led_metrics_dropped(struct led_metrics *m);
void led_metrics_gap(struct led_metrics *m);
void led_metrics_expiry_refused(struct led_metrics *m);
void led_metrics_sync_failed(struct led_metrics *m);
