/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/ops/metrics.c - what each answer counts, and collectors for capabilities and
 * content stores.
 *
 * The series of a route are found by its place in the table and by its status, without a lookup:
 * usual statuses have a slot each, the rest are looked up by their labels. Label values come from
 * tables of ours (patterns, methods, statuses, reasons), never from a client. */
#include <stdio.h>

#include "http/syntax/syntax.h"
#include "ron/base/alloc.h"
#include "ron/http/ops.h"

enum {
    SLOTS = 80, /* 200-215, 300-315, 400-431, 500-515 */
    NO_SLOT = -1,
};

struct route_series {
    struct ron_series *latency;
    struct ron_series *busy;
    struct ron_aptr by_status[SLOTS]; /* struct ron_series; NULL until the first */
};

struct ron_http_metrics {
    struct ron_metrics *metrics;
    const struct ron_http_route *routes;
    size_t count;
    struct route_series series[]; /* of each route; the last is for requests that matched none */
};

static int slot_of(int status)
{
    int within = status % 100;

    switch (status / 100) {
    case 2:
        return within < 16 ? within : NO_SLOT;
    case 3:
        return within < 16 ? 16 + within : NO_SLOT;
    case 4:
        return within < 32 ? 32 + within : NO_SLOT;
    case 5:
        return within < 16 ? 64 + within : NO_SLOT;
    default:
        return NO_SLOT;
    }
}

static const char *pattern_of(const struct ron_http_route *route)
{
    return route == NULL ? "unmatched" : route->pattern;
}

/* A pattern up to its rest: /edge/assets of /edge/assets/{path*}. */
static const char *endpoint_of(const struct ron_http_route *route, char *room, size_t size)
{
    const char *pattern = pattern_of(route);
    const char *rest = strrchr(pattern, '{');
    size_t len = strlen(pattern);

    if (rest == NULL || rest - pattern < 2 || len < 2 || strcmp(pattern + len - 2, "*}") != 0) {
        return pattern;
    }
    (void)snprintf(room, size, "%.*s", (int)(rest - pattern - 1), pattern);
    return room;
}

static struct ron_series *look_up(struct ron_http_metrics *h, const struct ron_http_done *done)
{
    char status[12];

    (void)snprintf(status, sizeof status, "%d", done->status);
    return ron_metric_series(ron_metrics_name(h->metrics, RON_M_HTTP_REQUESTS),
                             pattern_of(done->route), ron_http_method_name(done->method), status);
}

void ron_http_metrics_done(void *arg, const struct ron_http_done *done)
{
    struct ron_http_metrics *h = arg;
    size_t index = done->route == NULL ? h->count : (size_t)(done->route - h->routes);
    struct route_series *r = &h->series[index];
    int slot = done->route != NULL && done->method == done->route->method ? slot_of(done->status)
                                                                          : NO_SLOT;
    struct ron_series *requests = slot == NO_SLOT ? NULL : ron_aptr_load(&r->by_status[slot]);

    if (RON_UNLIKELY(requests == NULL)) {
        requests = look_up(h, done);
        if (slot != NO_SLOT) {
            ron_aptr_store(&r->by_status[slot], requests); /* the same, whoever stores it */
        }
    }
    ron_counter_add(requests, 1);
    ron_histogram_observe(r->latency, done->took_ms * RON_NS_PER_MS);
    if (done->status == 429) {
        ron_counter_add(r->busy, 1);
    }
    if (done->reason != NULL) {
        ron_counter_add(
            ron_metric_series(ron_metrics_name(h->metrics, RON_M_REJECTED), done->reason), 1);
    }
}

enum ron_rc ron_http_metrics_new(struct ron_metrics *m, const struct ron_http_route *routes,
                                 size_t count, struct ron_http_metrics **ret_metrics,
                                 struct ron_err *err)
{
    struct ron_http_metrics *h;
    char endpoint[1024];

    if (count > RON_HTTP_ROUTES_MAX) {
        return ron_err_set(err, RON_LIMIT, "metrics of %zu routes, at most %d", count,
                           RON_HTTP_ROUTES_MAX);
    }
    h = ron_alloc_zero(sizeof *h + (count + 1) * sizeof h->series[0]);
    if (h == NULL) {
        return ron_err_set(err, RON_NOMEM, "metrics of the HTTP front: no memory");
    }
    h->metrics = m;
    h->routes = routes;
    h->count = count;
    for (size_t i = 0; i <= count; i++) {
        const struct ron_http_route *route = i < count ? &routes[i] : NULL;

        h->series[i].latency =
            ron_metric_series(ron_metrics_name(m, RON_M_REQUEST_LATENCY), pattern_of(route),
                              route == NULL ? "" : ron_http_method_name(route->method));
        h->series[i].busy = ron_metric_series(ron_metrics_name(m, RON_M_BUSY),
                                              endpoint_of(route, endpoint, sizeof endpoint), "");
    }
    /* All reasons of the front are there from the start: an alert can tell 0 from absent. */
    for (int r = RON_HTTP_NONE + 1; r < RON_HTTP_REASON_COUNT; r++) {
        (void)ron_metric_series(ron_metrics_name(m, RON_M_REJECTED),
                                ron_http_reason_label((enum ron_http_reason)r));
    }
    *ret_metrics = h;
    return RON_OK;
}

void ron_http_metrics_free(struct ron_http_metrics *h)
{
    ron_free(h);
}

/* ---- collectors ------------------------------------------------------------------------------ */

static void collect_cap(struct ron_scrape *sc, void *arg)
{
    struct ron_metrics *m = ron_scrape_metrics(sc);
    struct ron_cap_verifier_stats st = ron_cap_verifier_stats(arg);

    ron_scrape_add(sc, ron_metrics_name(m, RON_M_CAP_CHECKS), st.hits_total, "hit");
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_CAP_CHECKS), st.misses_total, "miss");
    ron_scrape_sample(sc, ron_metrics_name(m, RON_M_CAP_CACHE_ENTRIES), st.entries, NULL, 0);
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_CAP_CACHE_REMOVED), st.evicted_total, "evicted");
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_CAP_CACHE_REMOVED), st.dropped_total, "stale");
    ron_scrape_sample(sc, ron_metrics_name(m, RON_M_CAP_CACHE_BYPASSED), st.bypassed_total, NULL,
                      0);
    ron_scrape_sample(sc, ron_metrics_name(m, RON_M_CAP_KEYS), st.keys, NULL, 0);
    ron_scrape_sample(sc, ron_metrics_name(m, RON_M_CAP_KEYS_GENERATION), st.generation, NULL, 0);
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_CAP_KEY_RELOADS), st.reloads_total, "ok");
    ron_scrape_add(sc, ron_metrics_name(m, RON_M_CAP_KEY_RELOADS), st.reload_fails_total, "failed");
}

enum ron_rc ron_collect_cap(struct ron_metrics *m, const struct ron_cap_verifier *v,
                            struct ron_err *err)
{
    return ron_metrics_collector(m, collect_cap, (void *)(uintptr_t)v, err);
}

static void collect_cas(struct ron_scrape *sc, void *arg)
{
    struct ron_metrics *m = ron_scrape_metrics(sc);
    const struct ron_ops_cas *c = arg;
    struct ron_cas_stats stats;

    ron_cas_get_stats(c->store, &stats);
#define X(field, metric, doc) ron_scrape_add(sc, ron_metrics_find(m, metric), stats.field, c->name);
    RON_CAS_COUNTERS(X)
    RON_CAS_GAUGES(X)
#undef X
}

enum ron_rc ron_collect_cas(struct ron_metrics *m, const struct ron_ops_cas *c, struct ron_err *err)
{
    return ron_metrics_collector(m, collect_cas, (void *)(uintptr_t)c, err);
}
