/* SPDX-License-Identifier: Apache-2.0 */
/* app.c - builds, runs, reloads and takes down the frame of a service.
 *
 * Place: app. Everything is made in ron_app_new from top to bottom and released in ron_app_free
 * from bottom to top, so a start that fails half way and an ordinary end take the same way out.
 *
 * Failure: the first one ends the start, with a text that names the setting or the address. */
#include "app/app_priv.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/obs/collect.h"

/* ---- building -------------------------------------------------------------------------------- */

static enum ron_rc build_base(struct ron_app *app, struct ron_err *err)
{
    int64_t workers = ron__app_int(app, "workers");

    RON_TRY(ron_registry_new(&app->registry, err));
    RON_TRY(ron_log_new(
        &(struct ron_log_opts){.env = app->env,
                               .registry = app->registry,
                               .service = app->def->conf->service,
                               .level = (enum ron_log_level)ron__app_choice(app, "log.level"),
                               .format = (enum ron_log_format)ron__app_choice(app, "log.format"),
                               .write = app->opts.log_write,
                               .write_arg = app->opts.log_arg},
        &app->log, err));
    RON_TRY(ron_metrics_new(NULL, &app->ops.metrics, err));
    RON_TRY(ron_exec_new(
        &(struct ron_exec_opts){.env = app->env,
                                .registry = app->registry,
                                .workers = workers == 0 ? app->opts.cpus : (uint32_t)workers},
        &app->exec, err));
    RON_TRY(
        ron_sup_new(&(struct ron_sup_opts){.env = app->env,
                                           .registry = app->registry,
                                           .exec = app->exec,
                                           .drain_deadline_ms = ron__app_ms(app, "drain_deadline"),
                                           .on_event = ron_log_sup_event,
                                           .on_event_arg = app->log},
                    &app->sup, err));
    return ron_needs_new(app->sup, &app->ops.needs, err);
}

/* What the kernel counts about itself. */
static enum ron_rc collect(struct ron_app *app, struct ron_err *err)
{
    struct ron_metrics *m = app->ops.metrics;

    RON_TRY(ron_collect_registry(m, app->registry, err));
    RON_TRY(ron_collect_supervisor(m, app->sup, err));
    RON_TRY(ron_collect_needs(m, app->ops.needs, err));
    RON_TRY(ron_collect_log(m, app->log, err));
    RON_TRY(ron_collect_tracer(m, app->tracer, err));
    ron_collect_build(m, app->def->conf->service);
    return app->opts.collect == NULL ? RON_OK : app->opts.collect(m, err);
}

static enum ron_rc build(struct ron_app *app, struct ron_err *err)
{
    struct ron_conf_snap *snap = NULL;

    RON_TRY(ron_conf_load(app->env, app->def->conf, app->opts.sources, &snap, err));
    app->conf_ref = ron_conf_ref(snap);
    app->conf = app->conf_ref;
    ron_conf_box_init(&app->box, snap);
    app->box_ready = true;
    RON_TRY(build_base(app, err));
    RON_TRY(ron__app_trace(app, err));
    RON_TRY(collect(app, err));
    RON_TRY(app->def->build(app, err));
    return ron__app_serve(app, err);
}

enum ron_rc ron_app_new(const struct ron_app_opts *opts, struct ron_app **ret_app,
                        struct ron_err *err)
{
    struct ron_app *app = ron_alloc_zero(sizeof *app);
    enum ron_rc rc;

    if (app == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory to start");
    }
    app->magic = APP_MAGIC;
    app->opts = *opts;
    app->def = opts->def;
    app->env = opts->env;
    app->ops.service = opts->def->conf->service;
    rc = build(app, err);
    if (rc != RON_OK) {
        (void)ron_app_free(app);
        return rc;
    }
    app->ops.registry = app->registry;
    *ret_app = app;
    return RON_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

int ron_app_run(struct ron_app *app)
{
    struct ron_err err = {0};

    RON_CHECK_MAGIC(app, APP_MAGIC);
    if (ron_log_start(app->log, &err) != RON_OK) {
        /* Lines are then written by whoever logs them: slower, and nothing is lost. */
        RON_LOG(app->log, WARN, "no thread for the log", RON_LOG_ERR(&err));
    } else {
        app->log_started = true;
    }
    return ron_sup_run(app->sup);
}

int ron_app_finish(struct ron_app *app, int code)
{
    RON_CHECK_MAGIC(app, APP_MAGIC);
    if (app->def->finish != NULL) {
        code = app->def->finish(app, code);
    }
    if (app->log_started) {
        ron_log_stop(app->log);
        app->log_started = false;
    }
    return code;
}

/* The settings that the frame itself applies anew. */
static void apply(struct ron_app *app, const struct ron_conf_snap *snap)
{
    struct ron_app now = {.def = app->def, .conf = snap};
    struct ron_err err = {0};

    ron_log_set_level(app->log, (enum ron_log_level)ron__app_choice(&now, "log.level"));
    ron_tracer_set_sample(app->tracer, (uint32_t)ron__app_int(&now, "trace.sample_percent"));
    if (ron_http_server_set_rate(app->http, (uint32_t)ron__app_int(&now, "limits.rate_per_second"),
                                 (uint32_t)ron__app_int(&now, "limits.burst"), &err) != RON_OK) {
        RON_LOG(app->log, ERROR, "the rate limit stays as it was", RON_LOG_ERR(&err));
    }
}

/* One line of the log for each line of the differences. */
static void log_lines(struct ron_log *log, struct ron_buf *diff)
{
    struct ron_str rest = {(const char *)ron_buf_data(diff), ron_buf_len(diff)};

    while (rest.len > 0) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        size_t len = end == NULL ? rest.len : (size_t)(end - rest.ptr);

        RON_LOG(log, INFO, "setting changed",
                RON_LOG_SLICE("change", ((struct ron_str){rest.ptr, len})));
        rest.ptr += len + (end != NULL);
        rest.len -= len + (end != NULL);
    }
}

/* Takes over what was read; nothing can fail any more. */
static void take_over(struct ron_app *app, struct ron_conf_snap *take_snap,
                      const struct ron_conf_changes *changes, struct ron_buf *diff)
{
    apply(app, take_snap);
    ron_conf_box_put(&app->box, take_snap);
    log_lines(app->log, diff);
    RON_LOG(app->log, INFO, "reloaded", RON_LOG_U64("changed", changes->changed),
            RON_LOG_U64("needs_restart", changes->needs_restart));
    if (app->def->reloaded != NULL) {
        app->def->reloaded(app);
    }
}

/* The service's address, when it has changed: the last thing of a reload that can fail. */
static enum ron_rc move(struct ron_app *app, const struct ron_conf_snap *old,
                        const struct ron_conf_snap *snap, struct ron_err *err)
{
    size_t key = ron_conf_find_key(app->def->conf, "bind_addr");
    const char *addr = ron_conf_str(snap, key).text;
    enum ron_rc rc;

    if (strcmp(ron_conf_str(old, key).text, addr) == 0) {
        return RON_OK;
    }
    rc = ron_http_server_move(app->http, 0, addr, err);
    if (rc != RON_OK) {
        ron_err_prefix(err, "bind_addr");
        return rc;
    }
    RON_LOG(app->log, INFO, "moved", RON_LOG_STR("addr", ron_http_server_addr(app->http)));
    return RON_OK;
}

enum ron_rc ron_app_reload(struct ron_app *app, struct ron_err *err)
{
    struct ron_conf_snap *old = ron_conf_box_get(&app->box);
    struct ron_conf_changes changes = {0};
    struct ron_conf_snap *snap = NULL;
    struct ron_buf diff;
    enum ron_rc rc;

    RON_CHECK_MAGIC(app, APP_MAGIC);
    ron_buf_init(&diff, RON_CONF_PRINT_MAX);
    rc = ron_conf_reload(app->env, app->opts.sources, old, &snap, &changes, &diff, err);
    if (rc == RON_OK) {
        rc = app->tls != NULL ? ron_tls_ctx_reload(app->tls, err) : RON_OK;
        if (rc == RON_OK) {
            rc = move(app, old, snap, err);
        }
        if (rc != RON_OK) {
            ron_conf_unref(snap);
        }
    }
    if (rc == RON_OK) {
        take_over(app, snap, &changes, &diff);
    }
    ron_buf_done(&diff);
    ron_conf_unref(old);
    return rc;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* What remains when no task runs any more. */
static void free_quiet(struct ron_app *app)
{
    ron_needs_free(app->ops.needs);
    ron_metrics_free(app->ops.metrics);
    if (app->log != NULL) {
        ron_log_free(app->log);
    }
    if (app->registry != NULL) {
        ron_registry_free(app->registry);
    }
    if (app->box_ready) {
        ron_conf_box_done(&app->box);
        ron_conf_unref(app->conf_ref);
    }
    ron_free(app);
}

bool ron_app_free(struct ron_app *app)
{
    bool whole = true;

    RON_CHECK_MAGIC(app, APP_MAGIC);
    if (app->log_started) {
        ron_log_stop(app->log);
    }
    if (app->sup != NULL) {
        if (ron_sup_leaked(app->sup) != 0) {
            return false; /* a thread still uses all of this */
        }
        ron_sup_free(app->sup);
    }
    if (app->exec != NULL && !ron_exec_free(app->exec)) {
        return false;
    }
    if (app->def->take_down != NULL && app->registry != NULL) {
        app->def->take_down(app);
    }
    whole = ron__app_serve_done(app);
    whole = ron__app_trace_done(app) && whole;
    if (whole) {
        free_quiet(app);
    }
    return whole;
}

/* ---- accessors ------------------------------------------------------------------------------- */

const struct ron_env *ron_app_env(const struct ron_app *app)
{
    return app->env;
}

struct ron_registry *ron_app_registry(const struct ron_app *app)
{
    return app->registry;
}

struct ron_exec *ron_app_exec(const struct ron_app *app)
{
    return app->exec;
}

struct ron_sup *ron_app_sup(const struct ron_app *app)
{
    return app->sup;
}

struct ron_metrics *ron_app_metrics(const struct ron_app *app)
{
    return app->ops.metrics;
}

struct ron_needs *ron_app_needs(const struct ron_app *app)
{
    return app->ops.needs;
}

struct ron_log *ron_app_log(const struct ron_app *app)
{
    return app->log;
}

struct ron_tracer *ron_app_tracer(const struct ron_app *app)
{
    return app->tracer;
}

const struct ron_conf_snap *ron_app_conf(const struct ron_app *app)
{
    return app->conf;
}

struct ron_conf_box *ron_app_conf_box(struct ron_app *app)
{
    return &app->box;
}

const char *const *ron_app_environ(const struct ron_app *app)
{
    return app->opts.sources->environ;
}

void ron_app_set_routes(struct ron_app *app, const struct ron_http_route *routes, size_t count)
{
    app->own_routes = routes;
    app->own_count = count;
}

void ron_app_set_on_done(struct ron_app *app,
                         void (*on_done)(void *arg, const struct ron_http_done *done), void *arg)
{
    app->on_done = on_done;
    app->on_done_arg = arg;
}

void ron_app_set_on_refusal(struct ron_app *app, ron_http_refusal *on_refusal, void *arg)
{
    app->on_refusal = on_refusal;
    app->on_refusal_arg = arg;
}

void ron_app_set_client_key(struct ron_app *app, ron_http_client_key *key, void *arg)
{
    app->client_key = key;
    app->client_key_arg = arg;
}

void ron_app_set_state(struct ron_app *app, void *state)
{
    app->state = state;
}

void *ron_app_state(const struct ron_app *app)
{
    return app->state;
}
