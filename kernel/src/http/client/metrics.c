/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/client/metrics.c - collector of an HTTP client: breaker, retries and timeouts of
 * each target, under the names of ron/obs/names.h. */
#include "http/client/priv.h"

static void collect_breaker(struct ron_scrape *sc, const char *svc, const struct ron_breaker *b)
{
    struct ron_metrics *m = ron_scrape_metrics(sc);
    struct ron_breaker_stats stats;

    ron_breaker_get_stats(b, &stats);
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_BREAKER_STATE), (uint64_t)stats.state, svc);
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_BREAKER_REFUSED), stats.refused, svc);
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_UPSTREAM_FAIL), stats.upstream_fail_total, svc);
    for (int s = 0; s < RON_BREAKER_STATE_COUNT; s++) {
        ron_scrape_add(sc, ron_metrics_name(m, RON_M_BREAKER_CHANGES), stats.entered[s], svc,
                       ron_breaker_state_label((enum ron_breaker_state)s));
    }
}

static void collect_retries(struct ron_scrape *sc, const char *svc, const char *op,
                            const struct ron_retry_stats *stats)
{
    struct ron_metrics *m = ron_scrape_metrics(sc);

    for (int v = 0; v < RON_VERDICT_COUNT; v++) {
        ron_scrape_add(sc, ron_metrics_name(m, RON_M_BACKOFF_RETRIES),
                       ron_stat_get(&stats->backoff_retries_total[v]), svc, op,
                       ron_retry_verdict_label((enum ron_retry_verdict)v));
    }
}

static void collect_target(struct ron_scrape *sc, const struct ron_http_target *t)
{
    struct ron_metrics *m = ron_scrape_metrics(sc);

    if (t->has_breaker) {
        collect_breaker(sc, t->opts.name, &t->breaker);
    }
    for (size_t i = 0; i < t->opts.op_count; i++) {
        collect_retries(sc, t->opts.name, t->opts.retry_ops[i], &t->ops[i].retry);
        ron_scrape_add(sc, ron_metrics_name(m, RON_M_IO_TIMEOUTS),
                       ron_stat_get(&t->ops[i].io_timeouts), t->opts.ops[i], t->opts.name);
    }
}

static void collect_client(struct ron_scrape *sc, void *arg)
{
    struct ron_http_client *c = arg;

    for (size_t i = 0; i < c->target_count; i++) {
        collect_target(sc, c->targets[i]);
    }
}

enum ron_rc ron_collect_http_client(struct ron_metrics *m, struct ron_http_client *c,
                                    struct ron_err *err)
{
    return ron_metrics_collector(m, collect_client, c, err);
}
