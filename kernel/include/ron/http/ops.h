/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h - the routes that every service has, and the metrics of its HTTP front.
 *
 *   GET /healthz          200, or 503 when an essential task kept failing
 *   GET /readyz           200, or 503 with the missing keys; ?class=read asks for reads alone
 *   GET /metrics          Prometheus text
 *   GET /version          {"name","service","version","build"}
 *   GET /debug/topology   every channel, bus, watch, task and worker with its counters
 *
 * They are marked RON_HTTP_ALWAYS: they pass every gate and answer while the service drains. A
 * service appends them to its own routes; a second server on `metrics_addr` may have these alone.
 *
 * Metrics of the front: ron_http_metrics_done is the server's on_done; it counts
 * http_requests_total{route,method,status}, request_latency_seconds{route,method},
 * busy_rejections_total{endpoint} (answers 429) and rejected_total{reason} (whatever carried an
 * error envelope). What the server counts itself (connections, bytes, timeouts) comes through its
 * registry row; connections that were cut without an answer are in http_disconnects_total.
 *
 * Threads: handlers run on workers and do not block; a scrape of a thousand samples costs a worker
 * well below a millisecond. Ownership: everything pointed to outlives the server. */
#pragma once

#include "ron/cap/verifier.h"
#include "ron/cas/cas.h"
#include "ron/http/server.h"
#include "ron/obs/health.h"
#include "ron/obs/metrics.h"

struct ron_ops {
    const char *service; /* "wallet" */
    struct ron_registry *registry;
    struct ron_metrics *metrics;
    struct ron_needs *needs;
};

enum { RON_OPS_ROUTES = 5 };

/* Writes RON_OPS_ROUTES rows. `ops` is kept. */
void ron_ops_routes(struct ron_ops *ops, struct ron_http_route *ret_routes);

struct ron_http_metrics;

/* `routes` are those of the server, kept. RON_NOMEM. */
RON_MUST_USE enum ron_rc ron_http_metrics_new(struct ron_metrics *m,
                                              const struct ron_http_route *routes, size_t count,
                                              struct ron_http_metrics **ret_metrics,
                                              struct ron_err *err);
void ron_http_metrics_free(struct ron_http_metrics *h);
/* opts.on_done, with the ron_http_metrics as opts.on_done_arg. */
void ron_http_metrics_done(void *arg, const struct ron_http_done *done);
/* inflight_requests of this server; limiter_clients and limiter_overflow_total of its rate limiter
 * {limiter}, with the name of the server. RON_LIMIT. */
RON_MUST_USE enum ron_rc ron_collect_http(struct ron_metrics *m, const struct ron_http_server *s,
                                          struct ron_err *err);

/* ---- capabilities and content stores: kept by the caller, one collector each ----------------- */

/* cap_checks_total, cap_cache_*, cap_keys*, cap_key_reloads_total of a verifier, one for a service.
 * Why tokens were refused is counted where they are: rejected_total{reason}. */
RON_MUST_USE enum ron_rc ron_collect_cap(struct ron_metrics *m, const struct ron_cap_verifier *v,
                                         struct ron_err *err);
/* cas_* of a content store, with its name as label. */
struct ron_ops_cas {
    const char *name;
    struct ron_cas *store;
};
RON_MUST_USE enum ron_rc ron_collect_cas(struct ron_metrics *m, const struct ron_ops_cas *c,
                                         struct ron_err *err);
