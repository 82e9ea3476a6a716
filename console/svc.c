/* SPDX-License-Identifier: Apache-2.0 */
/* console/svc.c - `ron console`: from settings to running tasks, and back.
 *
 * Place: service. Build order: metrics, files, keys, sessions, services, live, routes. Taken down
 * in reverse after everything has stopped. */
#include "console/svc.h"

#include "console/console.h"
#include "ron/base/alloc.h"

static const struct ron_conf_key keys[] = {CON_CONF(RON_CONF_ROW)};

static enum ron_rc check_settings(const struct ron_conf_snap *conf, struct ron_err *err)
{
    if (ron_conf_str(conf, CON_KEY_FILE).len == 0) {
        return ron_err_set(err, RON_INVALID, "auth.key_file must be set");
    }
    return con_upstreams_check(conf, err);
}

const struct ron_conf_table con_conf_table = {
    .service = "console", .keys = keys, .key_count = CON_CONF_COUNT, .check = check_settings};

const char *con_state_name(enum con_state state)
{
    static const char *const texts[CON_STATE_COUNT] = {
#define X(name, text, doc) text,
        CON_STATES(X)
#undef X
    };

    return texts[state];
}

static enum ron_rc build(struct ron_app *app, struct ron_err *err)
{
    struct con_svc *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the console");
    }
    ron_app_set_state(app, s);
    s->app = app;
    s->env = ron_app_env(app);
    s->conf = ron_app_conf(app);
    s->log = ron_app_log(app);
    s->tls = ron_conf_str(s->conf, RON_APP_TLS_CERT).len > 0;
    s->poll_ms = (uint64_t)ron_conf_ms(s->conf, CON_POLL);
    ron_mutex_init(&s->mu, RON_RANK_SHARED, "console.views");
    con_sess_init(&s->sess, s->env, (uint64_t)ron_conf_ms(s->conf, CON_LINK_TTL),
                  (uint64_t)ron_conf_ms(s->conf, CON_SESSION_TTL));
    RON_TRY(con_metrics_new(s, err));
    RON_TRY(con_assets_open(&s->assets, err));
    RON_TRY(
        ron_app_auth_new(app, ron_conf_str(s->conf, CON_KEY_FILE).text, "console", &s->auth, err));
    RON_TRY(con_upstreams_open(s, err));
    RON_TRY(con_live_add(s, err));
    RON_TRY(con_upstreams_attach(s, err));
    con_routes_fill(s);
    return RON_OK;
}

/* Keys and tokens. A mistake leaves the old in force. */
static void reloaded(struct ron_app *app)
{
    struct con_svc *s = ron_app_state(app);
    struct ron_conf_snap *conf = ron_conf_box_get(ron_app_conf_box(app));

    ron_app_auth_reload(s->auth, ron_conf_str(conf, CON_KEY_FILE).text);
    con_upstreams_reload(s, conf);
    ron_conf_unref(conf);
}

static void take_down(struct ron_app *app)
{
    struct con_svc *s = ron_app_state(app);

    if (s == NULL) {
        return;
    }
    con_live_free(s);
    con_upstreams_close(s);
    ron_app_auth_free(s->auth);
    con_assets_close(&s->assets);
    con_metrics_free(s);
    con_sess_done(&s->sess);
    ron_mutex_done(&s->mu);
    ron_free(s);
}

const struct ron_app_def con_app = {
    .conf = &con_conf_table,
    .summary =
        "The web console: what every service, queue, task and breaker is doing, live, and a\n"
        "form to move value. A browser comes in by a one-time link (POST /api/links).",
    .build = build,
    .reloaded = reloaded,
    .take_down = take_down,
};
