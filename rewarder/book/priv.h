/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/book/priv.h - inside of the book, shared by rwd_book_*.c alone (and its tests).
 *
 * The calls of the book (epochs_posix.c, _outbox_, _policies_) are written once, over a
 * list of statements; an engine carries them out: SQLite (sqlite_posix.c) or PostgreSQL
 * (pg_posix.c), each in its own dialect. A call of the book is
 *
 *     rwd__book_begin  claims the connection, and begins a transaction
 *     rwd__ask, rwd__put_*, rwd__run or rwd__row, rwd__end      as often as it needs
 *     rwd__book_end    commits or takes back, and gives the connection free
 *
 * Invariants:
 *   1. The connection belongs to the call that has claimed it: no lock is held while the disk
 *      works, only the flag `taken` says so.
 *   2. A statement is reset before its call ends, so no transaction is kept open by one.
 *   3. Whoever writes a row writes its checksum in the same transaction (B6): an ADD statement
 *      takes all facts of the row and adds it, after an UPDATE the SUM statement is run. */
#pragma once

#include <sqlite3.h>

#include "rewarder/book/book.h"
#include "ron/base/str.h"
#include "ron/pg/pg_own.h"
#include "ron/sync/sync.h"

/* Everything that a row says; its checksum is over these. */
#define RWD__EPOCH_FACTS                                                                           \
    "epoch,run_key,inputs_cid,policy_id,policy_hash,ledger_root,ledger_seq,carry_epoch,state,"     \
    "breach,reason,commitment,paid,residual,carries,intents,created_ms,changed_ms"
#define RWD__BATCH_FACTS "epoch,no,first,entries,attempt,ts_ms,done,seq_first,seq_last,commit_ms"
#define RWD__CARRY_FACTS "from_epoch,into_epoch"
#define RWD__POLICY_FACTS "hash,id,version,is_signed,document,kept_ms"

#define RWD__EPOCH_SELECT                                                                          \
    "SELECT " RWD__EPOCH_FACTS ",(SELECT into_epoch FROM carries WHERE from_epoch=epochs.epoch),"  \
    "sum IS row_sum(" RWD__EPOCH_FACTS ") FROM epochs "

/* X(NAME, "sql") */
#define RWD__STATEMENTS(X)                                                                         \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(COMMIT, "COMMIT")                                                                            \
    X(ROLLBACK, "ROLLBACK")                                                                        \
    X(EPOCH_GET, RWD__EPOCH_SELECT "WHERE epoch=?1")                                               \
    X(EPOCH_LIST, RWD__EPOCH_SELECT "WHERE epoch>?1 ORDER BY epoch LIMIT ?2")                      \
    X(EPOCH_LIST_STATE, RWD__EPOCH_SELECT "WHERE state=?3 AND epoch>?1 ORDER BY epoch LIMIT ?2")   \
    X(EPOCH_ADD, "INSERT INTO epochs(" RWD__EPOCH_FACTS ",sum) VALUES"                             \
                 "(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,"                \
                 "row_sum(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18))")       \
    X(EPOCH_MOVE, "UPDATE epochs SET state=?2,breach=?3,reason=?4,changed_ms=?5 WHERE epoch=?1")   \
    X(EPOCH_SEAL, "UPDATE epochs SET state='sealed',commitment=?2,paid=?3,residual=?4,carries=?5," \
                  "intents=?6,changed_ms=?7 WHERE epoch=?1")                                       \
    X(EPOCH_DROP, "DELETE FROM epochs WHERE epoch=?1")                                             \
    X(EPOCH_SUM, "UPDATE epochs SET sum=row_sum(" RWD__EPOCH_FACTS ") WHERE epoch=?1")             \
    X(EPOCH_OLD, "SELECT epoch FROM epochs WHERE state='emitted' AND epoch>?1 AND changed_ms<?2 "  \
                 "AND NOT (carries AND residual<>'0' AND NOT EXISTS"                               \
                 "(SELECT 1 FROM carries WHERE from_epoch=epochs.epoch)) ORDER BY epoch LIMIT ?3") \
    X(CARRY_GET, "SELECT into_epoch,sum IS row_sum(" RWD__CARRY_FACTS ") FROM carries "            \
                 "WHERE from_epoch=?1")                                                            \
    X(CARRY_ADD, "INSERT INTO carries(" RWD__CARRY_FACTS ",sum) VALUES(?1,?2,row_sum(?1,?2))")     \
    X(CARRY_DROP, "DELETE FROM carries WHERE into_epoch=?1")                                       \
    X(BATCH_ADD, "INSERT INTO batches(" RWD__BATCH_FACTS ",sum) VALUES"                            \
                 "(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,row_sum(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10))")       \
    X(BATCH_ANY, "SELECT 1 FROM batches WHERE epoch=?1 LIMIT 1")                                   \
    X(BATCH_OPEN, "SELECT 1 FROM batches WHERE epoch=?1 AND done=0 LIMIT 1")                       \
    X(BATCH_GET, "SELECT done,attempt,sum IS row_sum(" RWD__BATCH_FACTS ") FROM batches "          \
                 "WHERE epoch=?1 AND no=?2")                                                       \
    X(BATCH_LIST, "SELECT no,first,entries,attempt,ts_ms,sum IS row_sum(" RWD__BATCH_FACTS ") "    \
                  "FROM batches WHERE epoch=?1 AND no>=?2 AND done=0 ORDER BY no LIMIT ?3")        \
    X(BATCH_DONE, "UPDATE batches SET done=1,seq_first=?3,seq_last=?4,commit_ms=?5 "               \
                  "WHERE epoch=?1 AND no=?2")                                                      \
    X(BATCH_STAMP, "UPDATE batches SET attempt=attempt+1,ts_ms=?3 WHERE epoch=?1 AND no=?2")       \
    X(BATCH_SUM, "UPDATE batches SET sum=row_sum(" RWD__BATCH_FACTS ") WHERE epoch=?1 AND no=?2")  \
    X(BATCH_DROP, "DELETE FROM batches WHERE epoch=?1")                                            \
    X(SETTLEMENT, "SELECT count(*),coalesce(sum(done),0),coalesce(sum(entries),0),"                \
                  "coalesce(sum(entries*done),0),"                                                 \
                  "coalesce(min(CASE WHEN seq_first>0 THEN seq_first END),0),"                     \
                  "coalesce(max(seq_last),0),"                                                     \
                  "coalesce(min(sum IS row_sum(" RWD__BATCH_FACTS ")),1) "                         \
                  "FROM batches WHERE epoch=?1")                                                   \
    X(POLICY_ADD, "INSERT INTO policies(" RWD__POLICY_FACTS ",sum) VALUES"                         \
                  "(?1,?2,?3,?4,?5,?6,row_sum(?1,?2,?3,?4,?5,?6))")                                \
    X(POLICY_DROP, "DELETE FROM policies WHERE hash=?1")                                           \
    X(POLICY_COUNT, "SELECT count(*) FROM policies")                                               \
    X(POLICY_VERSION, "SELECT hash,is_signed FROM policies WHERE id=?1 AND version=?2")            \
    X(POLICY_HASH, "SELECT document,sum IS row_sum(" RWD__POLICY_FACTS ") FROM policies "          \
                   "WHERE id=?1 AND hash=?2")                                                      \
    X(POLICY_NEWEST, "SELECT document,sum IS row_sum(" RWD__POLICY_FACTS ") FROM policies "        \
                     "WHERE id=?1 ORDER BY version DESC LIMIT 1")

enum rwd__statement {
#define X(name, sql) RWD__##name,
    RWD__STATEMENTS(X)
#undef X
        RWD__STATEMENT_COUNT
};

enum {
    RWD__FACTS_MAX = 18,                  /* of a row */
    RWD__PARAMS_MAX = RWD__FACTS_MAX + 1, /* and its checksum */
    RWD__SUM_BYTES = 8,
};

struct rwd__engine;

struct rwd_book {
    const struct rwd__engine *engine;
    sqlite3 *db; /* of SQLite; NULL in PostgreSQL */
    sqlite3_stmt *statements[RWD__STATEMENT_COUNT];
    const struct ron_env *env; /* what follows is of PostgreSQL */
    struct ron_pg_own *own;
    uint64_t wait_ms;
    struct ron_mutex lock; /* guards `taken` alone */
    struct ron_cond free;
    bool taken;
};

/* Claims the connection; with `writes` begins a transaction. On failure nothing is claimed. */
RON_MUST_USE enum ron_rc rwd__book_begin(struct rwd_book *b, bool writes, struct ron_err *err);
/* Ends what rwd__book_begin began: with `rc` RON_OK the transaction is committed, else taken back.
 * Returns rc, or why the commit failed. */
RON_MUST_USE enum ron_rc rwd__book_end(struct rwd_book *b, enum ron_rc rc, struct ron_err *err);

/* Kinds of values, with the numbers that go into a checksum: those of SQLite. */
enum rwd__kind { RWD__INT = 1, RWD__TEXT = 3, RWD__BYTES = 4, RWD__NULL = 5 };

/* A use of a statement. Values are bound in order; what they point to lives until rwd__end. */
struct rwd__use {
    struct rwd_book *book;
    enum rwd__statement statement;
    int next;
    sqlite3_stmt *stmt;
    int code; /* the first failure of a bind */
    struct ron_pg_param params[RWD__PARAMS_MAX];
    enum rwd__kind kinds[RWD__PARAMS_MAX];
    uint8_t sum[RWD__SUM_BYTES];
    struct ron_pg_result rows;
    size_t row; /* the present one, counted from 1; 0: it was not run yet */
    uint64_t totals[7];
};
struct rwd__use rwd__ask(struct rwd_book *b, enum rwd__statement statement);
void rwd__put_text(struct rwd__use *u, struct ron_str text);
void rwd__put_bytes(struct rwd__use *u, const void *bytes, size_t len);
void rwd__put_u64(struct rwd__use *u, uint64_t value);
void rwd__put_null(struct rwd__use *u);
/* The next row, if there is one. */
RON_MUST_USE enum ron_rc rwd__row(struct rwd__use *u, bool *ret_row, struct ron_err *err);
void rwd__end(struct rwd__use *u);
/* Runs a statement that gives no rows, and ends it. `ret_changes` may be NULL. */
RON_MUST_USE enum ron_rc rwd__run(struct rwd__use *u, uint64_t *ret_changes, struct ron_err *err);

/* Columns of the present row. A text or blob that has no such form is RON_CORRUPT. */
uint64_t rwd__get_u64(const struct rwd__use *u, int column);
struct ron_str rwd__get_str(const struct rwd__use *u, int column);
RON_MUST_USE enum ron_rc rwd__get_text(const struct rwd__use *u, int column, char *ret_text,
                                       size_t size, struct ron_err *err);
RON_MUST_USE enum ron_rc rwd__get_bytes(const struct rwd__use *u, int column, void *ret_bytes,
                                        size_t len, struct ron_err *err);
/* The column that says whether the row's checksum is right. */
RON_MUST_USE enum ron_rc rwd__get_whole(const struct rwd__use *u, int column, struct ron_err *err);

/* ---- engines --------------------------------------------------------------------------------- */

struct rwd__engine {
    void (*close)(struct rwd_book *b);
    enum ron_rc (*begin)(struct rwd_book *b, bool writes, struct ron_err *err);
    bool (*within)(struct rwd_book *b); /* a transaction */
    enum ron_rc (*commit)(struct rwd_book *b, struct ron_err *err);
    void (*rollback)(struct rwd_book *b);
    void (*ask)(struct rwd__use *u);
    void (*put)(struct rwd__use *u, enum rwd__kind kind, const void *bytes, size_t len,
                uint64_t number);
    enum ron_rc (*row)(struct rwd__use *u, bool *ret_row, struct ron_err *err);
    void (*end)(struct rwd__use *u);
    uint64_t (*changes)(const struct rwd__use *u); /* before its end */
    uint64_t (*get_u64)(const struct rwd__use *u, int column);
    struct ron_str (*get_str)(const struct rwd__use *u, int column);
};
/* Fill in what is theirs; on failure the caller closes. */
RON_MUST_USE enum ron_rc rwd__open_sqlite(struct rwd_book *b, const struct ron_env *env,
                                          const char *path, struct ron_err *err);
RON_MUST_USE enum ron_rc rwd__open_pg(struct rwd_book *b, const struct rwd_book_opts *opts,
                                      struct ron_err *err);

/* The checksum of a row: first 8 bytes of a BLAKE3 over kind, length and bytes of each value. */
void rwd__sum_add(struct ron_b3_hasher *h, enum rwd__kind kind, const void *bytes, size_t len,
                  uint64_t number);
uint64_t rwd__sum_end(struct ron_b3_hasher *h);

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
