/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/input/row_text.h - the text of one contribution, private to the snapshot's reader.
 *
 * Two ways to read it. The strict one takes every row that the format allows and tells what is
 * wrong with the others. The quick one takes the usual shape alone: members in canonical order, at
 * most one space behind a colon or comma, a plain account, numbers below 10^19; it answers "not
 * that shape" to everything else, good or bad.
 *
 * Invariant:
 *   I1. What the quick one takes, the strict one takes with the same result (fuzz_rwd_snapshot).
 *
 * Pure code; any thread. */
#pragma once

#include "rewarder/input/rows.h"

struct rwd__share {
    struct ron_str account; /* trimmed; in the text */
    struct rwd_counters counters;
};

/* The longest row of the usual shape has 289 bytes; up to as many are looked at. */
enum { RWD__ROW_QUICK_ROOM = 320 };

/* `text` begins with '{' and has RWD__ROW_QUICK_ROOM readable bytes, of which a row may be the
 * first ones. Returns the end of the row, or NULL when it is not of the usual shape; then ret_row
 * is undefined. */
const char *rwd__row_quick(const char *text, struct rwd__share *ret_row);

/* All of the text is one row. Changes the text. RON_INVALID with "field: what is wrong". */
RON_MUST_USE enum ron_rc rwd__row_strict(char *text, size_t len, struct rwd__share *ret_row,
                                         struct ron_err *err);

/* What a scanner said, as "field: reason" or "reason". */
enum ron_rc rwd__json_failed(const struct ron_json_error *json_err, struct ron_err *err);
