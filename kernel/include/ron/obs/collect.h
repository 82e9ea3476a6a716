/* SPDX-License-Identifier: Apache-2.0 */
/* collect.h - collectors for what the kernel counts itself: registry, supervisor, process, build.
 *
 * Each adds one collector to the registry of metrics; call each at most once per source. The
 * sources must outlive the last scrape. RON_LIMIT, RON_NOMEM as ron_metrics_collector.
 *
 * Threads: at start, from one. */
#pragma once

#include "ron/chan/registry.h"
#include "ron/obs/metrics.h"
#include "ron/task/supervisor.h"

/* Every sample of every row (queues, buses, watches, tasks, workers, servers), and queue_capacity.
 * A sample whose label is not one of its family's is left to the collector of its owner. */
RON_MUST_USE enum ron_rc ron_collect_registry(struct ron_metrics *m, struct ron_registry *registry,
                                              struct ron_err *err);
/* tasks_*_total{kind}, tasks_leaked_total, sync_violations_total{kind}. */
RON_MUST_USE enum ron_rc ron_collect_supervisor(struct ron_metrics *m, const struct ron_sup *sup,
                                                struct ron_err *err);
/* process_*; not in the model build. */
RON_MUST_USE enum ron_rc ron_collect_process(struct ron_metrics *m, struct ron_err *err);
/* build_info{service,version,build}: a series set once. */
void ron_collect_build(struct ron_metrics *m, const char *service);
