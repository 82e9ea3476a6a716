/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/priv.h - what computing, writing and verifying a run share. */
#pragma once

#include "rewarder/run/run.h"

/* A new phase of so many rows; `p` may be NULL. */
void rew__phase(struct rew_progress *p, enum rew_phase phase, uint64_t rows);
void rew__breach(struct rew_run *run, enum rew_breach breach, const char *text);
/* Takes over the names of the payouts and commits. They are compared with the totals first: a sum
 * that differs is a breach. */
RON_MUST_USE enum ron_rc rew__run_name(struct rew_run *run, const struct rew_payouts_sum *sum,
                                       struct ron_err *err);
