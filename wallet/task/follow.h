/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/task/follow.h - the cache invalidator: how fresh the cache is, and whether the ledger
 * answers. Ownership: svc.c. Threads: the two questions from any thread. */
#pragma once

#include "wallet/core/core.h"
#include "wallet/core/ledger.h"
#include "wallet/job/job.h"

struct wlt_follow;

/* Makes the clients ledger->bus, the bus `ledger` and the task. On failure *ret is still to be
 * freed. */
RON_MUST_USE enum ron_rc wlt_follow_add(struct wlt_site *s, struct wlt_core *core,
                                        struct wlt_ledger *ledger, struct wlt_follow **ret,
                                        struct ron_err *err);
/* NULL is fine. Ends the calls that the clients still had. */
void wlt_follow_free(struct wlt_follow *f);
/* Monotonic ms as of which everything in the cache is known to be true; 0: nothing is. */
uint64_t wlt_follow_fresh_ms(const struct wlt_follow *f);
/* Whether the ledger answers; writes are refused otherwise. */
bool wlt_follow_up(const struct wlt_follow *f);
