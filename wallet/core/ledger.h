/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/core/ledger.h - the way to the ledgers: their addresses and breakers, the wallet's own
 * token, and one client per ledger for heads, changes and reads.
 *
 * Several ledgers on one log have clients of their own; lc_ledgers_now names the one that leads.
 * Ownership: svc.c makes addresses and token, task/follow.c the clients. Threads: any. */
#pragma once

#include "client/ledgers.h"
#include "ron/app/auth.h"
#include "ron/obs/health.h"
#include "ron/wire/client.h"

enum { WLT_ANSWER_MAX = 1 << 20 }; /* bytes of a ledger answer: a page of a history */

struct wlt_ledger {
    struct lc_ledgers all;
    struct ron_app_tokens token;
    struct ron_oap_client *bus[LC_LEDGERS_MAX];
    struct ron_need *need; /* readiness; set by task/follow.c */
};
