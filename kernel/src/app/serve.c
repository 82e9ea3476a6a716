/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - the listeners of a service and the routes behind them.
 *
 * Place: app. One server with up to three listeners (bind_addr, uds.path, metrics_addr) that share
 * routes, limits and counters. The ops routes follow the service's own. */
#include "app/app_priv.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"

enum { CLIENT_AUTH_NONE, CLIENT_AUTH_OPTIONAL, CLIENT_AUTH_REQUIRED };

/* ---- TLS ------------------------------------------------------------------------------------- */

static enum ron_rc open_tls(struct ron_app *app, struct ron_err *err)
{
    const char *cert = ron__app_text(app, "tls.cert");
    const char *key = ron__app_text(app, "tls.key");
    const char *ca = ron__app_text(app, "tls.client_ca");
    size_t auth = ron__app_choice(app, "tls.client_auth");

    if (*cert == '\0' && *key == '\0' && *ca == '\0' && auth == CLIENT_AUTH_NONE) {
        return RON_OK;
    }
    if (*cert == '\0' || *key == '\0') {
        return ron_err_set(err, RON_INVALID, "tls.cert and tls.key must both be set");
    }
    if ((auth == CLIENT_AUTH_NONE) != (*ca == '\0')) {
        return ron_err_set(err, RON_INVALID,
                           "tls.client_ca and tls.client_auth belong together: set both or none");
    }
    RON_TRY(ron_tls_ctx_new(&(struct ron_tls_opts){.env = app->env,
                                                   .cert_file = cert,
                                                   .key_file = key,
                                                   .client_ca_file = *ca == '\0' ? NULL : ca,
                                                   .client = auth == CLIENT_AUTH_OPTIONAL
                                                                 ? RON_TLS_CLIENT_OPTIONAL
                                                                 : RON_TLS_CLIENT_DEFAULT},
                            &app->tls, err));
    return ron_tls_ctx_collect(app->tls, app->ops.metrics, err);
}

/* ---- Unix socket ----------------------------------------------------------------------------- */

static bool parse_uid(struct ron_conf_str text, uint32_t *ret_uid)
{
    uint64_t uid = 0;

    if (text.len == 0 || text.len > 10) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.text[i] < '0' || text.text[i] > '9') {
            return false;
        }
        uid = uid * 10 + (uint64_t)(text.text[i] - '0');
    }
    if (uid >= UINT32_MAX) { /* the last one means "nobody" to the system */
        return false;
    }
    *ret_uid = (uint32_t)uid;
    return true;
}

/* Root and ourselves always may; the list adds to them. */
static enum ron_rc read_uids(struct ron_app *app, struct ron_err *err)
{
    struct ron_conf_list list = ron__app_list(app, "uds.allow_uids");

    app->uids[app->uid_count++] = 0;
    app->uids[app->uid_count++] = app->opts.uid;
    for (size_t i = 0; i < list.count; i++) {
        if (!parse_uid(list.items[i], &app->uids[app->uid_count])) {
            return ron_err_set(err, RON_INVALID, "uds.allow_uids: \"%s\" is not a user id",
                               list.items[i].text);
        }
        app->uid_count++;
    }
    return RON_OK;
}

/* ---- routes ---------------------------------------------------------------------------------- */

static enum ron_rc join_routes(struct ron_app *app, struct ron_err *err)
{
    size_t count = app->own_count + RON_OPS_ROUTES;

    app->routes = ron_alloc_array(count, sizeof *app->routes);
    if (app->routes == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the routes");
    }
    if (app->own_count > 0) {
        memcpy(app->routes, app->own_routes, app->own_count * sizeof *app->routes);
    }
    app->ops.registry = app->registry;
    ron_ops_routes(&app->ops, app->routes + app->own_count);
    app->route_count = count;
    return RON_OK;
}

static size_t list_listeners(struct ron_app *app, struct ron_http_listener *ret_list)
{
    const char *path = ron__app_text(app, "uds.path");
    const char *metrics = ron__app_text(app, "metrics_addr");
    size_t count = 0;

    ret_list[count++] =
        (struct ron_http_listener){.addr = ron__app_text(app, "bind_addr"), .tls = app->tls};
    if (*path != '\0') {
        (void)snprintf(app->uds_addr, sizeof app->uds_addr, "unix:%s", path);
        ret_list[count++] = (struct ron_http_listener){.addr = app->uds_addr,
                                                       .flags = RON_HTTP_LISTEN_ADMIN,
                                                       .uids = app->uids,
                                                       .uid_count = app->uid_count};
    }
    if (*metrics != '\0') {
        app->metrics_index = count;
        ret_list[count++] =
            (struct ron_http_listener){.addr = metrics, .flags = RON_HTTP_LISTEN_OPS};
    }
    return count;
}

/* How many workers listen: all, unless the service has a key for it, whose 0 is a quarter of the
 * processors. */
static uint32_t listening_workers(const struct ron_app *app)
{
    static const char key[] = "concurrency.ingress_workers";
    uint32_t all = ron_exec_workers(app->exec);
    uint32_t asked;

    if (ron_conf_find_key(app->def->conf, key) == SIZE_MAX) {
        return all;
    }
    asked = (uint32_t)ron__app_int(app, key);
    asked = asked != 0 ? asked : RON_MAX(app->opts.cpus / 4, 1U);
    return RON_MIN(asked, all);
}

static void on_done(void *arg, const struct ron_http_done *done)
{
    struct ron_app *app = arg;

    ron_http_metrics_done(app->http_metrics, done);
    if (app->on_done != NULL) {
        app->on_done(app->on_done_arg, done);
    }
}

enum ron_rc ron__app_serve(struct ron_app *app, struct ron_err *err)
{
    struct ron_http_listener listeners[APP_LISTENERS_MAX];

    RON_TRY(open_tls(app, err));
    RON_TRY(read_uids(app, err));
    RON_TRY(join_routes(app, err));
    RON_TRY(ron_http_metrics_new(app->ops.metrics, app->routes, app->route_count,
                                 &app->http_metrics, err));
    struct ron_http_opts o = {
        .name = "http",
        .env = app->env,
        .registry = app->registry,
        .workers = listening_workers(app),
        .listeners = listeners,
        .listener_count = list_listeners(app, listeners),
        .routes = app->routes,
        .route_count = app->route_count,
        .connections_max = (uint32_t)ron__app_int(app, "limits.connections"),
        .inflight_max = (uint32_t)ron__app_int(app, "limits.inflight"),
        .rate_per_s = (uint32_t)ron__app_int(app, "limits.rate_per_second"),
        .burst = (uint32_t)ron__app_int(app, "limits.burst"),
        .client_key = app->client_key,
        .client_key_arg = app->client_key_arg,
        .rate_scope = (enum ron_http_scope)ron__app_choice(app, "limits.scope"),
        .body_max = ron__app_bytes(app, "limits.max_body_bytes"),
        .decode_max = ron__app_bytes(app, "limits.max_decoded"),
        .decode_ratio_max = (uint32_t)ron__app_int(app, "limits.decompress_ratio_cap"),
        .uri_max = (uint32_t)ron__app_bytes(app, "limits.max_uri"),
        .head_max = (uint32_t)ron__app_bytes(app, "limits.max_head"),
        .read_timeout_ms = ron__app_ms(app, "timeouts.read"),
        .write_timeout_ms = ron__app_ms(app, "timeouts.write"),
        .idle_timeout_ms = ron__app_ms(app, "timeouts.idle"),
        .request_timeout_ms = ron__app_ms(app, "timeouts.request"),
        .on_done = on_done,
        .on_done_arg = app,
        .on_refusal = app->on_refusal,
        .on_refusal_arg = app->on_refusal_arg,
        .tracer = app->tracer,
    };
    RON_TRY(ron_http_server_new(&o, &app->http, err));
    RON_TRY(ron_collect_http(app->ops.metrics, app->http, err));
    return ron_http_server_attach(app->http, app->sup, err);
}

const char *ron__app_metrics_addr(const struct ron_app *app)
{
    return app->metrics_index == 0 ? NULL
                                   : ron_http_server_listener_addr(app->http, app->metrics_index);
}

bool ron__app_serve_done(struct ron_app *app)
{
    if (app->http != NULL && !ron_http_server_free(app->http)) {
        return false; /* somebody still holds a reply */
    }
    ron_http_metrics_free(app->http_metrics);
    ron_tls_ctx_free(app->tls);
    ron_free(app->routes);
    return true;
}
