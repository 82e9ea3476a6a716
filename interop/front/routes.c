/* SPDX-License-Identifier: Apache-2.0 */
/* interop/front/routes.c - the route table.
 *
 * Handlers run on the loop and never block. Order of checks: drain, rate, in-flight limit and size
 * (kernel), then whether the provider is enabled, its headers and window, or the capability; then
 * the body. */
#include <string.h>

#include "interop/front/front.h"

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
