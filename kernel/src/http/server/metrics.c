/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/metrics.c - collector of an HTTP server: requests under way and the table
 * of its rate limiter. What the server counts itself is in its registry row. */
#include "http/server/counters.h"
#include "http/server/priv.h"
#include "ron/http/ops.h"

static void collect_http(struct ron_scrape *sc, void *arg)
{
    struct ron_metrics *m = ron_scrape_metrics(sc);
    const struct ron_http_server *s = arg;
    struct ron_http_counters c;
    struct ron_limiter_stats limiter;

    ron_http_server_counters(s, &c);
    ron_scrape_sample(sc, ron_metrics_name(m, RON_M_INFLIGHT), c.inflight, NULL, 0);
    ron_limiter_get_stats(s->limiter, &limiter);
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_LIMITER_CLIENTS), limiter.clients, s->opts.name);
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_LIMITER_OVERFLOW), limiter.overflow, s->opts.name);
}

enum ron_rc ron_collect_http(struct ron_metrics *m, const struct ron_http_server *s,
                             struct ron_err *err)
{
    return ron_metrics_collector(m, collect_http, (void *)(uintptr_t)s, err);
}
