/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/input/rows.h - the rows of a snapshot in memory: who did how much.
 *
 * Place: rewarder, under snapshot and calculus. Columns in blocks that never move, names in blocks
 * of their own: ten million rows of usual names stay below 500 MiB, and nothing is copied while it
 * grows.
 *
 * Invariants:
 *   R1. After rwd_rows_seal the rows are sorted by account (bytes) and no account stands twice.
 *   R2. Sealed rows never change.
 *
 * Threads: one writer until sealed, then any number of readers. Failure: RON_NOMEM, RON_LIMIT
 * (rows_max, bytes_max) leave the rows as they were; rwd_rows_seal: RON_EXISTS names the account
 * that stands twice. */
#pragma once

#include "rewarder/input/name.h"
#include "ron/base/arena.h"

struct rwd_counters {
    uint64_t bytes_stored;
    uint64_t bytes_served;
    uint64_t uptime_seconds;
};

struct rwd_rows;

/* 0 is no limit but memory and 2^32 - 1 rows. */
struct rwd_rows_opts {
    uint64_t rows_max;
    uint64_t bytes_max; /* of memory */
};

RON_MUST_USE enum ron_rc rwd_rows_new(const struct rwd_rows_opts *opts, struct rwd_rows **ret_rows,
                                      struct ron_err *err);
void rwd_rows_free(struct rwd_rows *rows);

/* Copies; the caller has checked the account (rwd_account_ok). */
RON_MUST_USE enum ron_rc rwd_rows_add(struct rwd_rows *rows, struct ron_str account,
                                      const struct rwd_counters *counters, struct ron_err *err);
/* Sorts (nothing to do for rows that came in order) and looks for doubles: R1. */
RON_MUST_USE enum ron_rc rwd_rows_seal(struct rwd_rows *rows, struct ron_err *err);

uint64_t rwd_rows_count(const struct rwd_rows *rows);
uint64_t rwd_rows_memory(const struct rwd_rows *rows);
/* index < count, in sorted order once sealed. */
struct ron_str rwd_rows_account(const struct rwd_rows *rows, uint64_t index);
const struct rwd_counters *rwd_rows_counters(const struct rwd_rows *rows, uint64_t index);
