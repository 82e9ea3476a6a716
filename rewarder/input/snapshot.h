/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/input/snapshot.h - the sealed input of an epoch: read in pieces, written in its one
 * canonical form.
 *
 * Two forms are read (docs/formats/rewarder.md):
 *   JSON    {"produced_at_millis":1,"pool_minor_units":"1000","contributions":[{"account":"a",
 *           "bytes_stored":1,"bytes_served":2,"uptime_seconds":3},...]}, members in any order, but
 *           contributions may come last or before the others;
 *   NDJSON  a line {"produced_at_millis":1,"pool_minor_units":"1000"} and then a line for each
 *           contribution.
 * The form is told by the caller (Content-Type, file name) or, RWD_FORM_ANY, by the first object: a
 * first object with a member "contributions" is JSON.
 *
 * Canonical form: compact JSON as above, members in that order, accounts trimmed of blanks, rows
 * sorted by account. The content id of a snapshot (`inputs_cid`) is the BLAKE3 of those bytes, so
 * rows may be sent in any order.
 *
 * Rules:
 *   S1. A snapshot is read whole or refused with the line or row and the field that is wrong.
 *       Unknown, missing and double members, JSON numbers for money, floats, negative numbers,
 *       numbers above 2^64 - 1, bad accounts, an account twice, bytes behind the end are refused.
 *   S2. However the bytes are cut into pieces, the result is the same.
 *   S3. Memory is that of the rows and of one row's text (RWD_ROW_TEXT_MAX).
 *
 * Threads: a reader belongs to one thread at a time. */
#pragma once

#include "rewarder/input/rows.h"

enum rwd_form { RWD_FORM_ANY, RWD_FORM_JSON, RWD_FORM_NDJSON };
enum { RWD_ROW_TEXT_MAX = 4096 };

struct rwd_snapshot {
    uint64_t produced_at_ms;
    struct ron_money pool;
    struct rwd_rows *rows; /* sealed */
    struct ron_b3 cid;
};
void rwd_snapshot_done(struct rwd_snapshot *snapshot);

struct rwd_snapshot_reader;

RON_MUST_USE enum ron_rc rwd_snapshot_reader_new(enum rwd_form form,
                                                 const struct rwd_rows_opts *opts,
                                                 struct rwd_snapshot_reader **ret_reader,
                                                 struct ron_err *err);
/* RON_INVALID with a sentence for the caller ("row 17: bytes_stored: ..."); RON_LIMIT; RON_NOMEM.
 * The first failure sticks. */
RON_MUST_USE enum ron_rc rwd_snapshot_feed(struct rwd_snapshot_reader *r, const void *bytes,
                                           size_t len, struct ron_err *err);
/* All bytes came: sorts, checks, names. Ends the reader in every case. */
RON_MUST_USE enum ron_rc rwd_snapshot_end(struct rwd_snapshot_reader *take_r,
                                          struct rwd_snapshot *ret_snapshot, struct ron_err *err);
void rwd_snapshot_reader_free(struct rwd_snapshot_reader *r); /* unfinished; NULL is fine */
/* Rows so far, for progress; from any thread. */
uint64_t rwd_snapshot_rows_read(const struct rwd_snapshot_reader *r);

/* A whole text at once. */
RON_MUST_USE enum ron_rc rwd_snapshot_read(const void *bytes, size_t len, enum rwd_form form,
                                           const struct rwd_rows_opts *opts,
                                           struct rwd_snapshot *ret_snapshot, struct ron_err *err);

/* Writes the canonical bytes in pieces of at most 64 KiB. What `write` returns ends it. */
typedef enum ron_rc rwd_write_fn(void *arg, const void *bytes, size_t len, struct ron_err *err);
RON_MUST_USE enum ron_rc rwd_snapshot_write(const struct rwd_snapshot *snapshot,
                                            rwd_write_fn *write, void *arg, struct ron_err *err);
