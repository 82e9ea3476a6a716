/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/core/metrics.h - the wallet's counters, under the names of the specification.
 *
 * Threads: any; counting never blocks. */
#pragma once

#include "wallet/core/core.h"
#include "wallet/core/pipes.h"

/* Sets s->metrics. A scrape reads `tables`, which outlive the metrics. */
RON_MUST_USE enum ron_rc wlt_metrics_new(struct wlt_site *s, struct wlt_core *tables,
                                         struct ron_err *err);
void wlt_metrics_free(struct wlt_site *s);
void wlt_metrics_refused(struct wlt_site *s, enum wlt_reason reason);
void wlt_metrics_write(struct wlt_site *s, const struct wlt_write *w);
void wlt_metrics_read(struct wlt_site *s, const char *what);
void wlt_metrics_not_modified(struct wlt_site *s);
void wlt_metrics_call(struct wlt_site *s, bool commit, const struct wlt_reply *reply);
/* One tick of the ticker. */
void wlt_metrics_tick(struct wlt_site *s, uint32_t inflight);
