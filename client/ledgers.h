/* SPDX-License-Identifier: Apache-2.0 */
/* client/ledgers.h - which of several ledgers on one log is asked: a list from the settings, a
 * breaker for each, and the one that is believed to lead.
 *
 * Place: client, beside client.h. Connections are the service's: it keeps as many OAP
 * clients as there are ledgers and takes the one that lc_ledgers_now names. A list of one is a
 * ledger with a log of its own; nothing here then ever changes.
 *
 * What moves the choice, from the surest word down:
 *   lc_ledgers_leads       the ledger itself said so (GET /head)
 *   lc_ledgers_refused     who was asked follows another (421) and says whom. Only addresses of the
 *                          list are believed: a capability goes nowhere else
 *   lc_ledgers_silent      who was asked did not answer, or does not know who leads: the next one
 * The last two do nothing when the choice has moved meanwhile: answers come late, and many at a
 * time. A wrong choice costs a refusal, never more: safety is the log's own
 * (ledger/replica/rows.h).
 *
 * Threads: any. */
#pragma once

#include "client/client.h"
#include "ron/base/json.h"
#include "ron/guard/breaker.h"
#include "ron/sync/sync.h"

enum { LC_LEDGERS_MAX = 8, LC_LEDGERS_TEXT_MAX = LC_LEDGERS_MAX * (LC_ADDR_MAX + 1) - 1 };

struct lc_ledger {
    char addr[LC_ADDR_MAX + 1];
    struct ron_breaker breaker;
};

struct lc_ledgers {
    uint32_t count;
    struct lc_ledger of[LC_LEDGERS_MAX];
    struct ron_au32 _now;
    struct ron_au64 _moves;
};

/* `list`: addresses with a comma between them, 1 to LC_LEDGERS_MAX, none twice. RON_INVALID says
 * what is wrong with it. `clock` is borrowed. */
RON_MUST_USE enum ron_rc lc_ledgers_init(struct lc_ledgers *l, const char *list,
                                         const struct ron_breaker_rules *rules,
                                         const struct ron_clock *clock, struct ron_err *err);
void lc_ledgers_done(struct lc_ledgers *l); /* zeroed is fine */

/* Whom to ask, 0..count-1. */
uint32_t lc_ledgers_now(const struct lc_ledgers *l);
/* How often the choice has moved. */
uint64_t lc_ledgers_moves(const struct lc_ledgers *l);
/* Whether the choice moved. */
bool lc_ledgers_leads(struct lc_ledgers *l, uint32_t which);
bool lc_ledgers_refused(struct lc_ledgers *l, uint32_t which, const char *leader);
bool lc_ledgers_silent(struct lc_ledgers *l, uint32_t which);
/* What all breakers counted, with the state of the one that is asked. */
void lc_ledgers_stats(const struct lc_ledgers *l, struct ron_breaker_stats *ret);
