/* SPDX-License-Identifier: Apache-2.0 */
/* app_priv.h - the record of an app; shared by the files of app/.
 *
 * Members stand in the order in which they are made. One that is NULL was not reached. */
#pragma once

#include "app/args.h"
#include "ron/app/app.h"
#include "ron/http/client.h"
#include "ron/http/tls.h"
#include "ron/obs/trace.h"

enum {
    APP_MAGIC = 0x61707021,
    APP_LISTENERS_MAX = 3, /* bind_addr, uds.path, metrics_addr */
    APP_URL_MAX = 1100,    /* trace.endpoint and the path behind it */
    APP_UIDS_MAX = 64 + 2, /* of uds.allow_uids, and root and ourselves */
    /* Drain order: the exporter after every stage of a service, its client after it. */
    APP_STAGE_TRACE = 1000,
    APP_STAGE_CLIENT = 1001,
};

struct ron_app {
    uint32_t magic;
    const struct ron_app_def *def;
    struct ron_app_opts opts;
    const struct ron_env *env;
    const struct ron_conf_snap *conf; /* of the start */
    struct ron_conf_snap *conf_ref;
    struct ron_conf_box box;
    bool box_ready;

    struct ron_registry *registry;
    struct ron_log *log;
    bool log_started;
    struct ron_ops ops; /* metrics and needs */
    struct ron_exec *exec;
    struct ron_sup *sup;

    struct ron_tracer *tracer;
    struct ron_http_client *client; /* of the exporter */
    struct ron_http_target *collector;
    char collector_url[APP_URL_MAX];

    void *state;
    const struct ron_http_route *own_routes;
    size_t own_count;
    ron_http_client_key *client_key;
    void *client_key_arg;
    void (*on_done)(void *arg, const struct ron_http_done *done); /* NULL: nobody else counts */
    void *on_done_arg;
    ron_http_refusal *on_refusal; /* NULL: the server's refusals are as they are */
    void *on_refusal_arg;

    struct ron_tls_ctx *tls;
    uint32_t uids[APP_UIDS_MAX];
    size_t uid_count;
    char uds_addr[RON_ADDR_MAX];
    struct ron_http_route *routes; /* own and ops */
    size_t route_count;
    struct ron_http_metrics *http_metrics;
    struct ron_http_server *http;
    size_t metrics_index; /* of its listener; 0: none */
};

/* ---- settings.c: the frame's own keys, by name ----------------------------------------------- */

int64_t ron__app_int(const struct ron_app *app, const char *name);
uint32_t ron__app_ms(const struct ron_app *app, const char *name);
uint64_t ron__app_bytes(const struct ron_app *app, const char *name);
size_t ron__app_choice(const struct ron_app *app, const char *name);
const char *ron__app_text(const struct ron_app *app, const char *name);
struct ron_conf_list ron__app_list(const struct ron_app *app, const char *name);

/* ---- serve.c: listeners and routes ----------------------------------------------------------- */

enum ron_rc ron__app_serve(struct ron_app *app, struct ron_err *err);
/* Where the ops routes are served besides, or NULL. */
const char *ron__app_metrics_addr(const struct ron_app *app);
/* False when somebody still holds a reply. */
bool ron__app_serve_done(struct ron_app *app);

/* ---- export.c: traces to a collector --------------------------------------------------------- */

enum ron_rc ron__app_trace(struct ron_app *app, struct ron_err *err);
/* False when a call of the exporter is still held. */
bool ron__app_trace_done(struct ron_app *app);

/* Loads the settings and builds everything; nothing runs yet but the executor. RON_INVALID names
 * the setting. */
RON_MUST_USE enum ron_rc ron_app_new(const struct ron_app_opts *opts, struct ron_app **ret_app,
                                     struct ron_err *err);

/* Runs until a stop is requested (ron_sup_request_stop); returns the exit code so far. */
int ron_app_run(struct ron_app *app);

/* Afterwards, when nobody reloads any more: lets the service have its last word on the code, and
 * writes out the log. */
int ron_app_finish(struct ron_app *app, int code);

/* What SIGHUP does. One caller at a time; blocks on files. */
RON_MUST_USE enum ron_rc ron_app_reload(struct ron_app *app, struct ron_err *err);

/* False when a task hangs: then its memory is left behind, and the process should end. */
bool ron_app_free(struct ron_app *app);

/* In build: whose requests the rate counts (ron/http/server.h); without it, the address's. */
void ron_app_set_client_key(struct ron_app *app, ron_http_client_key *key, void *arg);
