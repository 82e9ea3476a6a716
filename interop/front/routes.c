/* SPDX-License-Identifier: Apache-2.0 */
/* interop/front/routes.c - the routes, on the loop: gates and cheap checks first, then a job for a
 * worker.
 *
 * Place: service; never blocks. Order of checks: drain, rate, inflight and size (kernel), then
 * whether the provider is enabled, its headers and window, or the capability; then the body. */
#include <string.h>

#include "interop/front/front.h"

/* ---- errors ---------------------------------------------------------------------------------- */

void iop_fail(struct ron_http_call *call, enum iop_error error, const char *detail)
{
    struct ron_http_error e = iop_http_error(error, detail);

    ron_http_fail_with(call, &e);
}

void iop_reply_fail(struct ron_http_reply *take_reply, enum iop_error error, const char *detail)
{
    struct ron_http_error e = iop_http_error(error, detail);

    ron_http_reply_fail_with(take_reply, &e);
}

/* ---- who may --------------------------------------------------------------------------------- */

bool iop_allowed(struct iop_core *c, struct ron_http_call *call, const char *scope,
                 uint64_t *ret_until_ms)
{
    struct ron_cap_info info = {0};
    enum ron_cap_why why =
        ron_app_auth_check(c->auth, call, scope, (struct ron_str){0}, &info, ret_until_ms);

    if (why != RON_CAP_OK) {
        enum iop_error error = why == RON_CAP_EXPIRED         ? IOP_ERROR_EXPIRED_TOKEN
                               : ron_cap_why_http(why) == 401 ? IOP_ERROR_UNAUTH
                                                              : IOP_ERROR_SCOPE_MISMATCH;

        iop_trail_denied(c, call, scope, error, info.log_id);
        iop_fail(call, error, ron_cap_why_doc(why));
    }
    return why == RON_CAP_OK;
}

/* ---- routes ---------------------------------------------------------------------------------- */

void iop_routes_fill(struct iop_front *f)
{
    const struct ron_http_route rows[] = {
        {RON_HTTP_POST, "/webhooks/{provider}", iop_hook_http, f->hooks, RON_HTTP_RAW, 0},
        {RON_HTTP_GET, "/webhooks/{provider}", iop_hook_get_http, f->hooks, 0, 0},
        {RON_HTTP_POST, "/put", iop_put_http, f->objects, RON_HTTP_STREAM,
         (uint64_t)ron_conf_bytes(f->core->conf, IOP_OBJECT_MAX)},
        {RON_HTTP_GET, "/o/{addr}", iop_object_http, f->objects, 0, 0},
        {RON_HTTP_GET, "/audit", iop_audit_http, f->core, 0, 0},
        {RON_HTTP_GET, "/deliveries", iop_deliveries_http, f->hooks, 0, 0},
        {RON_HTTP_POST, "/forwards/{rule}/enable", iop_forward_enable_http, f->acts, 0, 0},
        {RON_HTTP_GET, "/v1/events", iop_events_http, f->core, 0, 0},
        {RON_HTTP_GET, "/mailbox", iop_box_topics_http, f, 0, 0},
        {RON_HTTP_POST, "/mailbox", iop_box_batch_http, f, 0, IOP_BATCH_BODY_MAX},
        {RON_HTTP_POST, "/switches", iop_box_switch_http, f, 0, 0},
        {RON_HTTP_GET, "/mailbox/{topic}", iop_box_stats_http, f, 0, 0},
        {RON_HTTP_POST, "/mailbox/{topic}/send", iop_box_send_http, f, 0, 0},
        {RON_HTTP_POST, "/mailbox/{topic}/recv", iop_box_recv_http, f, 0, 0},
        {RON_HTTP_POST, "/mailbox/{topic}/ack", iop_box_ack_http, f, 0, 0},
        {RON_HTTP_POST, "/mailbox/{topic}/nack", iop_box_nack_http, f, 0, 0},
        {RON_HTTP_GET, "/mailbox/{topic}/dead", iop_box_dead_http, f, 0, 0},
        {RON_HTTP_POST, "/mailbox/{topic}/replay", iop_box_replay_http, f, 0, 0},
        {RON_HTTP_POST, "/mailbox/{topic}/purge", iop_box_purge_http, f, 0, 0},
    };

    memcpy(f->routes, rows, sizeof rows);
    f->route_count = RON_ARRAY_LEN(rows);
    ron_app_set_routes(f->core->app, f->routes, f->route_count);
}
