/* SPDX-License-Identifier: Apache-2.0 */
/* app.h - the frame of a service: everything that all of them need around their own tasks.
 *
 *     command line, file, environment --> settings (ron/conf), reloaded by SIGHUP
 *     registry, executor, supervisor, signals --> run, drain, exit code
 *     listeners (TCP or TLS, Unix socket, metrics_addr) --> the service's routes and the ops routes
 *     logs, metrics, readiness, traces
 *
 * A service is a `struct ron_app_def`. Its `build` makes channels and tasks and names its routes;
 * the frame does the rest, in this order:
 *
 *     arguments, settings -> registry, logs, metrics, executor, supervisor, needs -> build ->
 *     listeners -> signals -> run until a stop -> drain -> finish -> taken down in reverse
 *
 * Exit codes: 0 drained; 1 it could not start, or `finish` found a fault; 2 used wrongly or not
 * fully drained; 3 an essential task kept failing.
 *
 * Reload (SIGHUP): all sources are read anew. A mistake changes nothing and is logged with its
 * place; otherwise the reloadable keys take effect, certificate files are read again, each
 * difference is logged without secrets, and `reloaded` is called.
 *
 * Threads: build, finish and take_down run on the main thread, reloaded on the one named "signals",
 * which may block. Accessors may be used from anywhere while the app lives. */
#pragma once

#include "ron/app/keys.h"
#include "ron/http/ops.h"
#include "ron/http/server.h"
#include "ron/obs/log.h"
#include "ron/obs/trace.h"

struct ron_app;

struct ron_app_def {
    const struct ron_conf_table *conf; /* with all groups of ron/app/keys.h */
    const char *summary;               /* for --help: a sentence or two */
    enum ron_rc (*build)(struct ron_app *app, struct ron_err *err);
    void (*reloaded)(struct ron_app *app);        /* NULL: nothing to do */
    int (*finish)(struct ron_app *app, int code); /* NULL: the code of the supervisor stands */
    /* Frees what build made, also after a build that failed half way. NULL: nothing to free. */
    void (*take_down)(struct ron_app *app);
};

/* The whole program, for the main function of a service. argv[0] is the name of the service. */
int ron_app_main(const struct ron_app_def *def, int argc, char **argv);

/* ---- the same in steps, for a program that runs several in one process ----------------------- */

struct ron_app_opts {
    const struct ron_app_def *def;
    const struct ron_env *env;
    const struct ron_conf_sources *sources; /* read again by a reload; kept */
    uint32_t cpus;                          /* workers when the setting is 0 */
    uint32_t uid;                           /* who we are: may use the Unix socket */
    ron_log_write_fn *log_write;
    void *log_arg;
    enum ron_rc (*collect)(struct ron_metrics *m, struct ron_err *err); /* NULL: no more metrics */
};

/* ---- for the service ------------------------------------------------------------------------- */

const struct ron_env *ron_app_env(const struct ron_app *app);
struct ron_registry *ron_app_registry(const struct ron_app *app);
struct ron_exec *ron_app_exec(const struct ron_app *app);
struct ron_sup *ron_app_sup(const struct ron_app *app);
struct ron_metrics *ron_app_metrics(const struct ron_app *app);
struct ron_needs *ron_app_needs(const struct ron_app *app);
struct ron_log *ron_app_log(const struct ron_app *app);
struct ron_tracer *ron_app_tracer(const struct ron_app *app);
/* The settings of the start, for build. */
const struct ron_conf_snap *ron_app_conf(const struct ron_app *app);
/* The present ones, for tasks. */
struct ron_conf_box *ron_app_conf_box(struct ron_app *app);

/* The environment that settings are read from, ended by NULL; NULL: none. For secrets whose names
 * are settings. */
const char *const *ron_app_environ(const struct ron_app *app);

/* In build: the routes of the service, kept, not copied. */
void ron_app_set_routes(struct ron_app *app, const struct ron_http_route *routes, size_t count);
/* In build: told of every answer (ron/http/server.h, on_done) behind the frame's metrics, on the
 * worker's thread: for a service that counts refusals under names of its own. */
void ron_app_set_on_done(struct ron_app *app,
                         void (*on_done)(void *arg, const struct ron_http_done *done), void *arg);
/* In build: headers of the service for what the server refuses (ron/http/server.h, on_refusal). */
void ron_app_set_on_refusal(struct ron_app *app, ron_http_refusal *on_refusal, void *arg);
void ron_app_set_state(struct ron_app *app, void *state);
void *ron_app_state(const struct ron_app *app);
