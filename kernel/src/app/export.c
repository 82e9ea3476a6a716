/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - sends batches of spans to an OTLP collector through the HTTP client.
 *
 * Place: app, because obs stands below http. The exporter task may block: it starts a call, waits
 * for its end on a reply slot, and gives up at its deadline. The client's task answers the slot.
 *
 * The collector is the operator's own word, so private and loopback addresses are allowed, but only
 * its host. Spans hold no bodies and no tokens. */
#include "app/app_priv.h"

#include <stdio.h>
#include <string.h>

#include "ron/chan/oneshot.h"

/* The host of a base URL, for the client's allow-list. */
static enum ron_rc host_of(const char *url, char *host, size_t size, struct ron_err *err)
{
    bool plain = false;
    enum ron_rc rc = ron_http_url_host(url, host, size, &plain, err);

    if (rc == RON_OK && (strchr(url, '@') != NULL || strpbrk(url, "?#") != NULL)) {
        rc = ron_err_set(err, RON_INVALID, "more than a base URL");
    }
    if (rc != RON_OK) {
        ron_err_prefix(err, "trace.endpoint");
    }
    return rc;
}

/* On the client's task: passes the fetch to whoever waits; nobody does after a deadline. */
static void on_done(struct ron_http_fetch *fetch, void *arg)
{
    if (ron_oneshot_answer(arg, fetch) != RON_OK) {
        ron_http_fetch_release(fetch);
    }
}

static void drop_fetch(void *fetch)
{
    ron_http_fetch_release(fetch);
}

static enum ron_rc wait_end(struct ron_http_fetch *fetch, struct ron_oneshot *slot,
                            struct ron_deadline deadline)
{
    void *ended = NULL;
    enum ron_rc rc = ron_oneshot_wait(slot, deadline, &ended);

    if (rc == RON_OK) {
        rc = ron_http_fetch_result(fetch)->rc;
        ron_http_fetch_release(fetch);
    } else {
        ron_http_fetch_cancel(fetch); /* its end releases it, in on_done or drop_fetch */
    }
    ron_oneshot_leave(slot);
    return rc;
}

static enum ron_rc send_batch(void *arg, const char *content_type, const void *body, size_t len,
                              struct ron_deadline deadline)
{
    struct ron_app *app = arg;
    struct ron_http_fetch_header header = {"Content-Type", {content_type, strlen(content_type)}};
    struct ron_http_fetch *fetch = NULL;
    struct ron_oneshot *slot = NULL;
    enum ron_rc rc;

    RON_TRY(ron_oneshot_new(drop_fetch, &slot));
    rc = ron_http_fetch_start(app->collector,
                              &(struct ron_http_fetch_opts){.method = RON_HTTP_POST,
                                                            .url = app->collector_url,
                                                            .headers = &header,
                                                            .header_count = 1,
                                                            .body = {body, len},
                                                            .deadline = deadline,
                                                            .done = on_done,
                                                            .arg = slot},
                              &fetch, NULL);
    if (rc != RON_OK) {
        ron_oneshot_drop(slot);
        ron_oneshot_leave(slot);
        return rc;
    }
    return wait_end(fetch, slot, deadline);
}

static enum ron_rc open_client(struct ron_app *app, const char *endpoint, struct ron_err *err)
{
    char host[256];
    const char *hosts[] = {host};
    static const char *const ops[] = {"export"};
    size_t len = strlen(endpoint);

    RON_TRY(host_of(endpoint, host, sizeof host, err));
    /* A base URL names a collector; signals have their path below it. */
    (void)snprintf(app->collector_url, sizeof app->collector_url, "%s%sv1/traces", endpoint,
                   endpoint[len - 1] == '/' ? "" : "/");
    RON_TRY(ron_http_client_new(&(struct ron_http_client_opts){.name = "trace-http",
                                                               .env = app->env,
                                                               .registry = app->registry,
                                                               .stage = APP_STAGE_CLIENT},
                                &app->client, err));
    RON_TRY(ron_http_client_add(app->client,
                                &(struct ron_http_target_opts){.name = "collector",
                                                               .hosts = hosts,
                                                               .host_count = 1,
                                                               .ops = ops,
                                                               .op_count = 1,
                                                               .flags = RON_HTTP_TARGET_LOOPBACK |
                                                                        RON_HTTP_TARGET_PRIVATE |
                                                                        RON_HTTP_TARGET_PLAIN},
                                &app->collector, err));
    return ron_http_client_attach(app->client, app->sup, err);
}

enum ron_rc ron__app_trace(struct ron_app *app, struct ron_err *err)
{
    const char *endpoint = ron__app_text(app, "trace.endpoint");
    bool on = *endpoint != '\0';

    if (on) {
        RON_TRY(open_client(app, endpoint, err));
    }
    RON_TRY(ron_tracer_new(&(struct ron_tracer_opts){.env = app->env,
                                                     .registry = app->registry,
                                                     .service = app->def->conf->service,
                                                     .sample_percent = (uint32_t)ron__app_int(
                                                         app, "trace.sample_percent"),
                                                     .send = on ? send_batch : NULL,
                                                     .send_arg = app},
                           &app->tracer, err));
    return ron_tracer_attach(app->tracer, app->sup, APP_STAGE_TRACE, err);
}

bool ron__app_trace_done(struct ron_app *app)
{
    if (app->tracer != NULL) {
        ron_tracer_free(app->tracer);
    }
    return app->client == NULL || ron_http_client_free(app->client);
}
