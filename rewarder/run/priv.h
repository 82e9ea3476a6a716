/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/priv.h - what computing, writing and verifying a run share. */
#pragma once

#include "rewarder/run/run.h"

/* A new phase of so many rows; `p` may be NULL. */
void rwd__phase(struct rwd_progress *p, enum rwd_phase phase, uint64_t rows);
void rwd__breach(struct rwd_run *run, enum rwd_breach breach, const char *text);
/* Takes over the names of the payouts and commits. They are compared with the totals first: a sum
 * that differs is a breach. */
RON_MUST_USE enum ron_rc rwd__run_name(struct rwd_run *run, const struct rwd_payouts_sum *sum,
                                       struct ron_err *err);
