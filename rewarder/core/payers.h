/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/payers.h - the clients of the ledger or the wallet that settlements are sent to.
 *
 * One of the two is used, as settlement.target says. Several ledgers on one log have a client each.
 *
 * Threads: the emitter calls; statistics may be read from any thread. */
#pragma once

#include "client/ledgers.h"
#include "rewarder/core/core.h"
#include "ron/http/client.h"
#include "ron/wire/client.h"

struct rwd_settle {
    struct rwd_core *core;
    struct ron_app_tokens token; /* our own, for the ledger or the wallet */
    struct ron_oap_client *ledger[LC_LEDGERS_MAX];
    struct ron_http_client *http;
    struct ron_http_target *wallet; /* NULL: the ledger pays */
    struct lc_ledgers payers;       /* the ledgers, or the wallet alone; count 0: not made */
};

/* settlement.target. */
bool rwd_to_wallet(const struct ron_conf_snap *conf);
/* The token alone; rwd_settle_connect makes the clients and their tasks. */
RON_MUST_USE enum ron_rc rwd_settle_open(struct rwd_settle *x, struct rwd_core *core,
                                         struct ron_err *err);
RON_MUST_USE enum ron_rc rwd_settle_connect(struct rwd_settle *x, uint32_t inflight_max,
                                            struct ron_err *err);
/* Frees the clients; no answer comes after it. */
void rwd_settle_disconnect(struct rwd_settle *x);
void rwd_settle_close(struct rwd_settle *x);
/* Loads the token again; after a failure the old one stays in force. */
void rwd_settle_reload(struct rwd_settle *x, const struct ron_conf_snap *conf);

/* Intents of one batch: one for the wallet. */
uint32_t rwd_batch_max(const struct rwd_settle *x);
