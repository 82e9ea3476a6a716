/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/ops/ops.c - handlers of the operator's routes.
 *
 * Each builds its body in a buffer of its own with a stated maximum and answers at once. A body
 * that could not be built is an error answer, never half a body. */
#include "ron/http/ops.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/build.h"
#include "ron/base/json.h"

enum {
    TOPOLOGY_MAX = 4 << 20, /* 1024 entries of at most 4 KiB */
    VERSION_MAX = 1024,
};

static void answer(struct ron_http_call *call, int status, const char *type, struct ron_buf *body,
                   enum ron_rc rc)
{
    if (rc == RON_OK) {
        (void)ron_http_add_header(call, "Cache-Control", (struct ron_str){"no-store", 8});
        ron_http_answer(call, status, type, ron_buf_data(body), ron_buf_len(body));
    } else {
        ron_http_fail(call, rc == RON_NOMEM ? RON_HTTP_MEMORY : RON_HTTP_INTERNAL);
    }
    ron_buf_done(body);
}

static void on_healthz(struct ron_http_call *call, void *arg)
{
    const struct ron_ops *ops = arg;
    struct ron_buf body;
    bool healthy;

    ron_buf_init(&body, RON_READY_BODY_MAX);
    healthy = ron_needs_write_health(ops->needs, &body);
    answer(call, healthy ? 200 : 503, "application/json", &body, ron_buf_error(&body));
}

static void on_readyz(struct ron_http_call *call, void *arg)
{
    const struct ron_ops *ops = arg;
    struct ron_readiness readiness;
    char room[16];
    struct ron_str class_name = {0};
    struct ron_buf body;
    bool reads;

    reads = ron_http_query_get(ron_http_head(call)->query, "class", room, sizeof room,
                               &class_name) == RON_OK &&
            ron_str_is(class_name, "read");
    ron_buf_init(&body, RON_READY_BODY_MAX);
    ron_needs_write_ready(ops->needs, reads, &body, &readiness);
    if (!readiness.ready) {
        char seconds[16];
        int n = snprintf(seconds, sizeof seconds, "%u", readiness.retry_after_s);

        (void)ron_http_add_header(call, "Retry-After", (struct ron_str){seconds, (size_t)n});
    }
    answer(call, readiness.ready ? 200 : 503, "application/json", &body, ron_buf_error(&body));
}

static void on_metrics(struct ron_http_call *call, void *arg)
{
    const struct ron_ops *ops = arg;
    struct ron_buf body;
    enum ron_rc rc;

    ron_buf_init(&body, RON_METRIC_TEXT_MAX);
    rc = ron_metrics_write(ops->metrics, &body);
    answer(call, 200, RON_METRICS_CONTENT_TYPE, &body, rc);
}

static void on_version(struct ron_http_call *call, void *arg)
{
    const struct ron_ops *ops = arg;
    struct ron_json_writer w;
    struct ron_buf body;

    ron_buf_init(&body, VERSION_MAX);
    ron_json_begin(&w, &body);
    ron_json_open(&w, NULL, '{');
    ron_json_text(&w, "name", "ron");
    ron_json_text(&w, "service", ops->service);
    ron_json_text(&w, "version", ron_version());
    ron_json_text(&w, "build", ron_build_id());
    ron_json_close(&w, '}');
    answer(call, 200, "application/json", &body, ron_buf_error(&body));
}

static void on_topology(struct ron_http_call *call, void *arg)
{
    const struct ron_ops *ops = arg;
    struct ron_buf body;

    ron_buf_init(&body, TOPOLOGY_MAX);
    RON_IGNORE(ron_registry_write_json(ops->registry, &body)); /* the buffer keeps the failure */
    answer(call, 200, "application/json", &body, ron_buf_error(&body));
}

void ron_ops_routes(struct ron_ops *ops, struct ron_http_route *ret_routes)
{
    const struct ron_http_route routes[RON_OPS_ROUTES] = {
        {RON_HTTP_GET, "/healthz", on_healthz, ops, RON_HTTP_ALWAYS, 0},
        {RON_HTTP_GET, "/readyz", on_readyz, ops, RON_HTTP_ALWAYS, 0},
        {RON_HTTP_GET, "/metrics", on_metrics, ops, RON_HTTP_ALWAYS, 0},
        {RON_HTTP_GET, "/version", on_version, ops, RON_HTTP_ALWAYS, 0},
        {RON_HTTP_GET, "/debug/topology", on_topology, ops, RON_HTTP_ALWAYS, 0},
    };

    memcpy(ret_routes, routes, sizeof routes);
}
