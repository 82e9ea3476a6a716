/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/core.c - the shared part that every task and route has, and small helpers. */
#include "rewarder/core/core.h"

#include <stdio.h>

enum ron_rc rwd_core_open(struct rwd_core *c, struct ron_app *app, struct ron_err *err)
{
    c->app = app;
    c->env = ron_app_env(app);
    c->conf = ron_app_conf(app);
    c->log = ron_app_log(app);
    c->amnesia = ron_conf_bool(c->conf, RON_APP_AMNESIA);
    RON_TRY(
        ron_app_auth_new(app, ron_conf_str(c->conf, RWD_KEY_FILE).text, "rewarder", &c->auth, err));
    return rwd_metrics_new(c, err);
}

void rwd_core_close(struct rwd_core *c)
{
    ron_http_events_free(c->events);
    ron_app_auth_free(c->auth);
    rwd_metrics_free(c);
}

enum ron_rc rwd_join(char *ret, size_t size, const char *dir, const char *name, struct ron_err *err)
{
    int len = snprintf(ret, size, "%s/%s", dir, name);

    return len > 0 && (size_t)len < size
               ? RON_OK
               : ron_err_set(err, RON_LIMIT, "the path %s/%s is too long", dir, name);
}

void rwd_pause(struct rwd_core *c, uint64_t ms)
{
    struct ron_watch *shutdown = ron_sup_shutdown(ron_app_sup(c->app));
    uint64_t seen = 0;
    uint64_t value = ron_watch_get(shutdown, &seen);

    if (value < RON_SUP_DRAINING) {
        RON_IGNORE(ron_watch_wait(shutdown, seen, ron_deadline_after_ms(ron_env_now_ns(c->env), ms),
                                  &value, &seen));
    }
}
