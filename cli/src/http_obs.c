/* SPDX-License-Identifier: Apache-2.0 */
/* http_obs.c - puts together log, tracer, metrics and needs of `ron http`. */
#include "http_obs.h"

#include <string.h>

#include "ron/chan/watch.h"
#include "ron/obs/collect.h"

enum { TRACE_STAGE = 100 }; /* after all who end spans */

/* ---- traces into a file ---------------------------------------------------------------------- */

static enum ron_rc send_to_file(void *arg, const char *content_type, const void *body, size_t len,
                                struct ron_deadline deadline)
{
    struct http_obs *o = arg;
    const struct ron_disk_ops *disk = o->env->disk;

    (void)content_type;
    (void)deadline;
    RON_TRY(disk->pwrite(o->env, o->trace_fd, body, len, o->trace_at, NULL));
    RON_TRY(disk->pwrite(o->env, o->trace_fd, "\n", 1, o->trace_at + len, NULL));
    o->trace_at += len + 1;
    return RON_OK;
}

void http_obs_span(struct http_obs *o, struct ron_http_call *call, struct ron_span *span,
                   const char *name)
{
    struct ron_trace_ctx parent = {0};
    struct ron_str header = {0};

    if (ron_http_field_get(ron_http_head(call), "traceparent", &header) == RON_OK) {
        RON_IGNORE(ron_traceparent_parse(header, &parent)); /* a bad one begins a new trace */
    }
    ron_span_start(o->tracer, span, name, RON_SPAN_SERVER, &parent);
    ron_span_text(span, "corr_id", ron_http_corr_id(call));
}

/* ---- a drain that takes its time ------------------------------------------------------------- */

static enum ron_rc hold_run(struct ron_task *t, void *arg)
{
    const struct http_obs *o = arg;
    struct ron_watch *stop = ron_task_stop_watch(t);
    uint64_t seen = 0;
    uint64_t value = ron_watch_get(stop, &seen);
    enum ron_rc rc = RON_OK;

    while (rc == RON_OK && value != RON_TASK_STOP) {
        rc = ron_watch_wait(stop, seen, ron_deadline_never(), &value, &seen);
    }
    RON_IGNORE(ron_watch_wait(stop, seen, ron_deadline_after_ms(ron_mono_ns(), o->hold_ms), &value,
                              &seen)); /* it times out, or the drain was given up */
    return RON_OK;
}

static enum ron_rc add_hold(struct http_obs *o, struct ron_sup *sup, struct ron_err *err)
{
    struct ron_task *task = NULL;

    if (o->hold_ms == 0) {
        return RON_OK;
    }
    return ron_sup_add(
        sup,
        &(struct ron_task_def){
            .name = "hold", .kind = "worker", .mode = RON_TASK_BLOCKING, .run = hold_run, .arg = o},
        &task, err);
}

/* ---- life ------------------------------------------------------------------------------------ */

static enum ron_rc open_log(struct http_obs *o, struct ron_registry *registry, struct ron_err *err)
{
    if (strcmp(o->log_format, "off") == 0) {
        return RON_OK;
    }
    RON_TRY(ron_log_new(&(struct ron_log_opts){.env = o->env,
                                               .registry = registry,
                                               .service = "http",
                                               .format = strcmp(o->log_format, "json") == 0
                                                             ? RON_LOG_AS_JSON
                                                             : RON_LOG_AS_TEXT,
                                               .level = RON_LOG_DEBUG,
                                               .write = ron_log_stderr},
                        &o->log, err));
    return ron_log_start(o->log, err);
}

enum ron_rc http_obs_begin(struct http_obs *o, const struct ron_env *env,
                           struct ron_registry *registry, struct ron_err *err)
{
    bool traced = o->trace_path[0] != '\0';

    o->env = env;
    o->trace_fd = -1;
    o->ops.service = "http";
    o->ops.registry = registry;
    if (traced) {
        RON_TRY(env->disk->open(env, o->trace_path,
                                RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_TRUNC, 0600,
                                &o->trace_fd, err));
    }
    RON_TRY(open_log(o, registry, err));
    return ron_tracer_new(&(struct ron_tracer_opts){.env = env,
                                                    .registry = registry,
                                                    .service = "http",
                                                    .sample_percent = 1,
                                                    .follow_parent = true,
                                                    .send = traced ? send_to_file : NULL,
                                                    .send_arg = o},
                          &o->tracer, err);
}

enum ron_rc http_obs_build(struct http_obs *o, struct ron_sup *sup, struct ron_http_opts *opts,
                           struct ron_err *err)
{
    struct ron_metrics *m = NULL;

    RON_TRY(ron_metrics_new(NULL, &o->ops.metrics, err));
    m = o->ops.metrics;
    RON_TRY(ron_needs_new(sup, &o->ops.needs, err));
    RON_TRY(ron_collect_registry(m, o->ops.registry, err));
    RON_TRY(ron_collect_supervisor(m, sup, err));
    RON_TRY(ron_collect_process(m, err));
    RON_TRY(ron_collect_needs(m, o->ops.needs, err));
    RON_TRY(ron_collect_tracer(m, o->tracer, err));
    if (o->log != NULL) {
        RON_TRY(ron_collect_log(m, o->log, err));
    }
    ron_collect_build(m, o->ops.service);
    RON_TRY(ron_http_metrics_new(m, opts->routes, opts->route_count, &o->http_metrics, err));
    opts->on_done = ron_http_metrics_done;
    opts->on_done_arg = o->http_metrics;
    RON_TRY(add_hold(o, sup, err));
    return ron_tracer_attach(o->tracer, sup, TRACE_STAGE, err);
}

void http_obs_done(struct http_obs *o)
{
    ron_http_metrics_free(o->http_metrics);
    ron_needs_free(o->ops.needs);
    ron_metrics_free(o->ops.metrics);
    ron_tracer_free(o->tracer);
    if (o->trace_fd >= 0 && o->env != NULL) {
        o->env->disk->close(o->env, o->trace_fd);
    }
    if (o->log != NULL) {
        ron_log_stop(o->log);
        ron_log_free(o->log);
    }
}
