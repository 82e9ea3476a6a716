/* SPDX-License-Identifier: Apache-2.0 */
/* http_obs.h - what `ron http` shows of itself, as a service would: metrics, health, log, traces.
 *
 * Traces go to a file, one OTLP batch a line, instead of to a collector: a test reads it.
 *
 * Order: set the options, http_obs_begin before the supervisor is made, http_obs_build after it,
 * http_obs_done when supervisor and server are gone and before the registry is. */
#pragma once

#include "ron/http/ops.h"
#include "ron/obs/log.h"
#include "ron/obs/trace.h"

struct http_obs {
    /* Options. */
    const char *log_format; /* "off", "text" or "json" */
    const char *trace_path; /* "": no traces */
    uint64_t hold_ms;       /* how long a drain is held open, so that a test can look at it */
    /* Made by http_obs_begin and http_obs_build. */
    const struct ron_env *env;
    struct ron_log *log; /* NULL: off */
    struct ron_tracer *tracer;
    struct ron_ops ops;
    struct ron_http_metrics *http_metrics;
    /* Exporter task only. */
    int trace_fd;
    uint64_t trace_at;
};

RON_MUST_USE enum ron_rc http_obs_begin(struct http_obs *o, const struct ron_env *env,
                                        struct ron_registry *registry, struct ron_err *err);
RON_MUST_USE enum ron_rc http_obs_build(struct http_obs *o, struct ron_sup *sup,
                                        struct ron_http_opts *opts, struct ron_err *err);
void http_obs_done(struct http_obs *o);

/* Begins a span of this request, continuing the trace of its header traceparent. */
void http_obs_span(struct http_obs *o, struct ron_http_call *call, struct ron_span *span,
                   const char *name);
