/* SPDX-License-Identifier: Apache-2.0 */
/* interop/front/front.h - the route table, and the mailbox over HTTP.
 *
 * Ownership: svc.c; `core` to `acts` are set before the routes are filled. Threads: handlers run on
 * the loop. */
#pragma once

#include "interop/act/act.h"
#include "interop/hook/hook.h"
#include "interop/object/objects.h"

#define IOP_FRONT_MAGIC 0x4946524eu /* "IFRN" */

enum { IOP_ROUTES_MAX = 32, IOP_BATCH_BODY_MAX = 16 << 20 };

struct iop_front {
    uint32_t magic;
    struct iop_core *core;
    struct iop_mail *mail;
    struct iop_objects *objects;
    struct iop_hooks *hooks;
    struct iop_acts *acts;
    struct ron_http_route routes[IOP_ROUTES_MAX];
    size_t route_count;
};

void iop_routes_fill(struct iop_front *f);

/* The mailbox; `arg` is the front. */
void iop_box_batch_http(struct ron_http_call *call, void *arg);
void iop_box_switch_http(struct ron_http_call *call, void *arg);
void iop_box_topics_http(struct ron_http_call *call, void *arg);
void iop_box_stats_http(struct ron_http_call *call, void *arg);
void iop_box_send_http(struct ron_http_call *call, void *arg);
void iop_box_recv_http(struct ron_http_call *call, void *arg);
void iop_box_ack_http(struct ron_http_call *call, void *arg);
void iop_box_nack_http(struct ron_http_call *call, void *arg);
void iop_box_dead_http(struct ron_http_call *call, void *arg);
void iop_box_replay_http(struct ron_http_call *call, void *arg);
void iop_box_purge_http(struct ron_http_call *call, void *arg);
