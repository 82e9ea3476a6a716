/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/front/front.h - the routes and what they use.
 *
 * Ownership: svc.c holds the struct; `site` to `staleness_ms` are set before the routes are filled
 * and do not change. Threads: handlers run on the workers of the HTTP server. */
#pragma once

#include "wallet/core/pipes.h"
#include "wallet/task/follow.h"
#include "wallet/task/read.h"

#define WLT_FRONT_MAGIC 0x5746524eu /* "WFRN" */

enum { WLT_ROUTES_MAX = 24, WLT_ASSETS_MAX = 64 };

struct wlt_front {
    uint32_t magic;
    struct wlt_site *site;
    struct wlt_core *core;
    struct wlt_pipes *pipes;
    struct wlt_reads *reads;
    struct wlt_follow *follow;
    struct wlt_call_rules rules;
    struct ron_str assets[WLT_ASSETS_MAX]; /* of `rules` */
    uint64_t staleness_ms;
    struct ron_http_route routes[WLT_ROUTES_MAX];
    size_t route_count;
};

void wlt_routes_fill(struct wlt_front *f);

void wlt_front_write(struct ron_http_call *call, void *arg); /* POST /v1/<op>, /v1/batch */

/* Steps of GET /v1/tx and /v1/receipts: the entry of a txid is there. */
void wlt_tx_got_entry(struct wlt_read *r, const struct wlt_reply *reply);
/* Passes an answer of the ledger on as it is. */
void wlt_read_pass_on(struct wlt_read *r, const struct wlt_reply *reply);
