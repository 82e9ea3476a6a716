/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/book/priv.h - inside of the book, private to this room and its tests.
 *
 * The calls of the book (epochs_posix.c, outbox_posix.c, policies_posix.c) are written once, over
 * the statements of store_posix.c, which ron/sql/sql.h runs in SQLite or in PostgreSQL. A call is
 *
 *     rwd__book_begin  claims the connection, and begins a transaction
 *     ron_sql_use, ron_sql_put_*, rwd__run or rwd__row, ron_sql_done      as often as it needs
 *     rwd__book_end    commits or rolls back, and releases the connection
 *
 * Invariants:
 *   1. The connection belongs to the call that has claimed it: no lock is held while the disk
 *      works, only the flag `taken` says so.
 *   2. A statement is done before its call ends, so that none keeps a transaction open.
 *   3. A call that writes a row writes its checksum in the same transaction (B6): an ADD statement
 *      takes all facts of the row, after an UPDATE the SUM statement is run. */
#pragma once

#include "rewarder/book/book.h"
#include "ron/base/str.h"
#include "ron/sql/sql.h"
#include "ron/sync/sync.h"

enum rwd__statement {
    RWD__EPOCH_GET,
    RWD__EPOCH_LIST,
    RWD__EPOCH_LIST_STATE,
    RWD__EPOCH_ADD,
    RWD__EPOCH_MOVE,
    RWD__EPOCH_SEAL,
    RWD__EPOCH_DROP,
    RWD__EPOCH_SUM,
    RWD__EPOCH_OLD,
    RWD__CARRY_GET,
    RWD__CARRY_ADD,
    RWD__CARRY_DROP,
    RWD__BATCH_ADD,
    RWD__BATCH_ANY,
    RWD__BATCH_OPEN,
    RWD__BATCH_GET,
    RWD__BATCH_LIST,
    RWD__BATCH_DONE,
    RWD__BATCH_STAMP,
    RWD__BATCH_SUM,
    RWD__BATCH_DROP,
    RWD__SETTLEMENT,
    RWD__POLICY_ADD,
    RWD__POLICY_DROP,
    RWD__POLICY_COUNT,
    RWD__POLICY_VERSION,
    RWD__POLICY_HASH,
    RWD__POLICY_NEWEST,
    RWD__STATEMENT_COUNT
};

struct rwd_book {
    struct ron_sql *sql;
    struct ron_mutex lock; /* guards `taken` alone */
    struct ron_cond free;
    bool taken;
};

/* Claims the connection; with `writes` begins a transaction. On failure nothing is claimed. */
RON_MUST_USE enum ron_rc rwd__book_begin(struct rwd_book *b, bool writes, struct ron_err *err);
/* Ends what rwd__book_begin began: with `rc` RON_OK the transaction is committed, else rolled back.
 * Returns rc, or why the commit failed. */
RON_MUST_USE enum ron_rc rwd__book_end(struct rwd_book *b, enum ron_rc rc, struct ron_err *err);

/* ron_sql_row and ron_sql_run with the codes of book.h: RON_LIMIT, RON_IO, RON_NOMEM,
 * RON_CORRUPT. */
RON_MUST_USE enum ron_rc rwd__row(struct ron_sql_use *u, bool *ret_row, struct ron_err *err);
RON_MUST_USE enum ron_rc rwd__run(struct ron_sql_use *u, uint64_t *ret_changes,
                                  struct ron_err *err);

/* ---- what the calls share -------------------------------------------------------------------- */

/* Of epochs_posix.c; inside of a call. RON_NOTFOUND. */
RON_MUST_USE enum ron_rc rwd__epoch_get(struct rwd_book *b, struct ron_str epoch,
                                        struct rwd_epoch *ret_epoch, struct ron_err *err);
/* Writes the new state; whether the edge exists is asserted. */
RON_MUST_USE enum ron_rc rwd__epoch_move(struct rwd_book *b, const struct rwd_epoch *epoch,
                                         enum rwd_state to, enum rwd_breach breach,
                                         const char *reason, uint64_t now_ms, struct ron_err *err);
/* RON_CONFLICT with a sentence: the epoch is in a state that does not allow it. */
enum ron_rc rwd__epoch_refuse(const struct rwd_epoch *epoch, const char *what, struct ron_err *err);
