/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/task/worker.h - the committer workers and their connections to the ledgers.
 *
 * Ownership: svc.c holds the struct; worker.c alone uses its members. */
#pragma once

#include "wallet/core/ledger.h"
#include "wallet/core/pipes.h"

enum { WLT_TASKS_MAX = 64 };

struct wlt_worker;

struct wlt_workers {
    struct wlt_site *site;
    struct wlt_core *core;
    struct wlt_ledger *ledger;
    struct wlt_pipes *pipes;
    struct ron_oap_client *clients[LC_LEDGERS_MAX][WLT_TASKS_MAX]; /* connections to each */
    uint32_t client_count;                                         /* of connections to each */
    struct wlt_worker *at;
    uint32_t count;
    char names[WLT_TASKS_MAX][24];
};

/* `site` to `pipes` are set. */
RON_MUST_USE enum ron_rc wlt_workers_add(struct wlt_workers *o, struct ron_err *err);
/* After all tasks have stopped: ends the calls under way and answers what is left. */
void wlt_workers_free(struct wlt_workers *o);
