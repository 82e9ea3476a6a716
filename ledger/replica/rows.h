/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/replica/rows.h - PostgreSQL as a ledger's log: a row for each frame, the primary key as
 * fence.
 *
 * Place: ledger, over ron/pg. Schema and bytes: docs/formats/ledger-postgres.md.
 *
 *     ron.ledger_log     (ledger, slot) -> epoch, seq_first, entries, prev_root, root, frame
 *     ron.ledger_leader  ledger -> epoch, url, when it was last heard of: a hint, never safety
 *     ron.ledger_frozen  (ledger, account) -> whether it is frozen now; a row stays for good
 *
 * Slot 0 is the genesis: its `frame` is the uuid of the ledger. Slots follow without a gap.
 *
 * Invariants:
 *   G1. A frame gets slot n + 1 only when the row of slot n has its prev_root and an epoch not
 *       above its own: one INSERT ... SELECT. The primary key tells who took the slot.
 *   G2. led_pg_append answers RON_OK only for a frame that is in the log and replicated as the
 *       server's settings ask: after a commit without a warning. An unknown outcome is settled by
 *       sending the same row again: it goes in, or the slot is taken, by us or by another.
 *   G3. Rows are inserted and read, never changed.
 *   G4. No lock, clock or lease takes part in safety: two leaders at once cannot both append.
 *
 * Threads: one at a time, which may block. A committer and a follower have a connection each. */
#pragma once

#include "ledger/log/frame.h"
#include "ron/base/clock.h"
#include "ron/base/env.h"

struct led_pg;

enum {
    LED_PG_NAME_MAX = 64,
    LED_PG_URL_MAX = 200,
    LED_PG_OAP_MAX = 127,
    LED_PG_READ_ROWS = 32, /* of one read: at most so many frames in memory */
};

struct led_pg_opts {
    const struct ron_env *env;
    const char *conninfo;
    const char *ledger;  /* name, 1..LED_PG_NAME_MAX bytes of [a-z0-9_-]; copied */
    uint64_t connect_ms; /* one attempt */
    uint64_t call_ms;    /* one statement, but for appends */
    uint64_t append_ms;  /* an append with all its tries */
};

/* Where the log stands: the row of `slot`. */
struct led_pg_head {
    uint64_t slot;
    uint64_t epoch;
    uint64_t last_seq;
    struct ron_tree_hash root;
};

/* Where a leader is found: empty for what is not known. */
struct led_pg_place {
    char url[LED_PG_URL_MAX + 1]; /* over HTTP */
    char oap[LED_PG_OAP_MAX + 1]; /* over OAP */
};

struct led_pg_lease {
    uint64_t epoch;
    uint64_t age_ms; /* by the database's clock */
    struct led_pg_place place;
};

/* Makes schema, tables and partitions, or brings them up to date; with a role, grants it what a
 * ledger needs and no more. For the owner of the database; again and again does nothing. */
RON_MUST_USE enum ron_rc led_pg_migrate(const struct led_pg_opts *opts, const char *role,
                                        struct ron_err *err);

RON_MUST_USE enum ron_rc led_pg_new(const struct led_pg_opts *opts, struct led_pg **ret_pg,
                                    struct ron_err *err);
void led_pg_free(struct led_pg *pg); /* NULL is fine */

/* Ends the connection; the next call makes another one, perhaps to another server. */
void led_pg_drop(struct led_pg *pg);

/* The uuid of the ledger: that of the genesis, which is written with `fresh` when there is none;
 * with `fresh` NULL that is RON_NOTFOUND. RON_INVALID: the server would cut appends short
 * (statement_timeout). */
RON_MUST_USE enum ron_rc led_pg_genesis(struct led_pg *pg, const uint8_t fresh[LED_UUID_SIZE],
                                        uint8_t ret_uuid[LED_UUID_SIZE], struct ron_err *err);
/* The last row. */
RON_MUST_USE enum ron_rc led_pg_head(struct led_pg *pg, struct led_pg_head *ret_head,
                                     struct ron_err *err);
/* Whether the log holds a row that ends at `last_seq` with this root, and the last such one whose
 * frame has that epoch and time: where a local copy stands. RON_NOTFOUND: the log lacks it. */
RON_MUST_USE enum ron_rc led_pg_find(struct led_pg *pg, uint64_t last_seq,
                                     const struct ron_tree_hash *root, uint64_t epoch,
                                     uint64_t time_ms, struct led_pg_head *ret_head,
                                     struct ron_err *err);
/* The frame behind `at` (G1), which moves on when it is in. RON_CONFLICT: the slot is another's, we
 * are fenced. RON_CORRUPT: the row at `at` is not what we were told. RON_TIMEOUT: not settled in
 * append_ms; it may still go in. RON_DENIED, RON_NOTFOUND, RON_INVALID: the database refuses for
 * good. */
RON_MUST_USE enum ron_rc led_pg_append(struct led_pg *pg, struct led_pg_head *at,
                                       const struct led_frame *frame, const uint8_t *bytes,
                                       size_t len, struct ron_err *err);
/* Calls for each row after *slot, in order, at most LED_PG_READ_ROWS; *slot moves on with each that
 * was seen. Bytes are a whole frame and were read, not verified. */
typedef enum ron_rc led_pg_see(void *arg, uint64_t slot, const uint8_t *bytes, size_t len,
                               struct ron_err *err);
RON_MUST_USE enum ron_rc led_pg_read(struct led_pg *pg, uint64_t *slot, led_pg_see *see, void *arg,
                                     size_t *ret_rows, struct ron_err *err);

/* Whether that row is there, with that root. RON_CORRUPT: the database has lost or changed it. */
RON_MUST_USE enum ron_rc led_pg_holds(struct led_pg *pg, const struct led_pg_head *at,
                                      struct ron_err *err);

/* Says who leads. RON_CONFLICT: a newer epoch is written there, and stays. */
RON_MUST_USE enum ron_rc led_pg_beat(struct led_pg *pg, uint64_t epoch,
                                     const struct led_pg_place *place, struct ron_err *err);
/* Accounts frozen at run time, so that who leads next refuses them too. Noted only while the row of
 * ron.ledger_leader has this epoch, and that row is held meanwhile: who has beaten with a newer one
 * and then reads the list has seen all of it. RON_CONFLICT: another ledger leads. */
RON_MUST_USE enum ron_rc led_pg_freeze(struct led_pg *pg, uint64_t epoch, struct ron_str account,
                                       bool frozen, struct ron_err *err);
/* The accounts that are frozen, a line each, appended in the order of their bytes; *ret_known:
 * whether any was ever noted. */
RON_MUST_USE enum ron_rc led_pg_frozen(struct led_pg *pg, struct ron_buf *lines, bool *ret_known,
                                       struct ron_err *err);
/* Who leads goes: what it last said counts as said long ago. */
RON_MUST_USE enum ron_rc led_pg_resign(struct led_pg *pg, uint64_t epoch, struct ron_err *err);
/* RON_NOTFOUND: nobody ever led. */
RON_MUST_USE enum ron_rc led_pg_lease(struct led_pg *pg, struct led_pg_lease *ret_lease,
                                      struct ron_err *err);
