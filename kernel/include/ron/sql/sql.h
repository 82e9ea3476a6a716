/* SPDX-License-Identifier: Apache-2.0 */
/* sql.h - one store behind one set of calls: a SQLite file, or PostgreSQL tables with one owner.
 *
 * A service brings its schema and a table of statements, each in both dialects. It uses them by
 * number, and never learns which of the two engines runs them.
 *
 *     ron_sql_begin                                    begins a transaction
 *     ron_sql_use, ron_sql_put_*, ron_sql_row or _run, ron_sql_done      as often as needed
 *     ron_sql_end                                      commits, or rolls back and returns the cause
 *
 * Invariants:
 *   S1. RON_OK of ron_sql_end means durable: in SQLite the write-ahead log is synced, in PostgreSQL
 *       the server confirmed the commit without a warning. A store in memory is never durable.
 *   S2. A failed transaction has changed nothing. RON_TIMEOUT is the exception: the answer of the
 *       database was lost. The outcome is settled before anything else is read or written.
 *   S3. One process owns the store. In PostgreSQL another process may take over after the
 *       connection was lost; the former owner then commits nothing more (ron/pg/pg_own.h).
 *   S4. A row with a checksum carries the first 8 bytes of a BLAKE3 over the kind, length and bytes
 *       of its facts. The checksum is computed and compared in this process, never by the server.
 *   S5. A full disk is RON_FULL in both engines.
 *
 * Codes: RON_FULL; RON_NOMEM; RON_CORRUPT: the store is damaged or belongs to another program;
 * RON_UNSUPPORTED: a newer program wrote it; RON_CONFLICT: another process owns it; RON_IO: the
 * disk failed; and of a database RON_AGAIN: it is away, RON_DENIED, RON_TIMEOUT: S2. Every message
 * begins with the name of the store.
 *
 * Faults for tests: `sqlite3_exec` and `sqlite3_step` before each step of SQLite; those of
 * ron/pg/pg.h.
 *
 * Threads: one at a time, which may block. */
#pragma once

#include "ron/base/str.h"
#include "ron/pg/pg.h"

struct ron_sql;

/* Kinds of values, as letters: i INTEGER and int8, t TEXT, b BLOB and bytea. */

enum ron_sql_form {
    RON_SQL_PLAIN,
    /* Adds a row. In PostgreSQL the checksum over all values is one more parameter; the statement
     * of SQLite computes row_sum(...) itself. */
    RON_SQL_ADD,
    /* Writes the checksum of a changed row. `pg` selects the facts of the row, and `then` writes
     * the checksum, a parameter after those of `pg`. */
    RON_SQL_SUM,
    /* Part of a transaction that PostgreSQL gets as one statement (opts.pg_write). SQLite runs it
     * at once. For PostgreSQL the values are appended to arrays, one for each letter of `kinds`. */
    RON_SQL_GATHER,
};

struct ron_sql_stmt {
    const char *sqlite; /* NULL: SQLite has nothing to do */
    const char *pg;     /* NULL: PostgreSQL has nothing to do, or gathers */
    /* Columns that the caller reads. When there are kinds, a checksum follows them. In SQLite that
     * is the column "sum IS row_sum(FACTS)"; in PostgreSQL FACTS and then sum. */
    uint8_t visible;
    enum ron_sql_form form;
    const char *kinds; /* of the facts, or of the arrays; NULL: the row has no checksum */
    const char *then;
};

/* A table whose rows have checksums: all of them are checked when the store is opened. */
struct ron_sql_table {
    const char *name; /* in PostgreSQL with opts.pg_prefix in front */
    const char *facts;
    const char *kinds;
    const char *order; /* columns of the primary key */
};

/* All texts are constants, except path and dsn, which are copied. */
struct ron_sql_opts {
    const struct ron_env *env;
    const char *name; /* of the store: "book" */
    const char *path; /* SQLite file, made (0600) when it is missing; NULL: in memory */
    const char *dsn;  /* not NULL: PostgreSQL, by this connection string */
    const struct ron_sql_stmt *stmts;
    uint32_t stmt_count;
    const struct ron_sql_table *tables; /* to check; a SQLite file is then checked whole, too */
    uint32_t table_count;
    /* SQLite */
    uint32_t application_id;
    uint32_t layout;
    const char *pragmas; /* more of them, before the journal mode is set; may be NULL */
    const char *schema;
    /* PostgreSQL */
    const char *client;   /* application_name */
    const char *pg_table; /* with the row of the owner */
    const char *pg_prefix;
    const char *const *pg_steps; /* step i leads from layout i to i + 1 */
    uint32_t pg_step_count;
    /* The statement of a gathered transaction, as ron_pg_own_write wants it; $3 and on are the
     * arrays, in the order of the statements and of their kinds. */
    const char *pg_write;
    uint64_t wait_ms;    /* for a database that is away, and for the outcome of a commit; 0: none */
    uint32_t open_tries; /* 100 ms apart; 0: 30 */
};

RON_MUST_USE enum ron_rc ron_sql_open(const struct ron_sql_opts *opts, struct ron_sql **ret_db,
                                      struct ron_err *err);
void ron_sql_close(struct ron_sql *db); /* NULL is fine */

/* Whether a statement is a round trip to a server: worth asking for many rows at once. */
bool ron_sql_is_far(const struct ron_sql *db);
/* The number of the present owner; 0 in SQLite. */
uint64_t ron_sql_epoch(const struct ron_sql *db);
/* Whether the store can be used now: connected, owner, nothing unsettled. `ask`: the database is
 * asked whether this process still owns it. *ret_changed: the store may hold what the last answers
 * did not report; a caller with a copy in memory loads it again. Reported once. */
RON_MUST_USE enum ron_rc ron_sql_look(struct ron_sql *db, bool ask, bool *ret_changed,
                                      struct ron_err *err);

/* ---- transactions ---------------------------------------------------------------------------- */

enum ron_sql_mode {
    RON_SQL_READ,  /* statements that read, each on its own */
    RON_SQL_WRITE, /* statements of any form but GATHER */
    RON_SQL_GROUP, /* GATHER statements, which PostgreSQL gets at the end, in one round trip */
};

/* On failure there is no transaction. A group does not look first: ron_sql_look does. */
RON_MUST_USE enum ron_rc ron_sql_begin(struct ron_sql *db, enum ron_sql_mode mode,
                                       struct ron_err *err);
/* With RON_OK the transaction is committed, otherwise rolled back. Returns rc, or why the commit
 * failed. */
RON_MUST_USE enum ron_rc ron_sql_end(struct ron_sql *db, enum ron_rc rc, struct ron_err *err);
bool ron_sql_within(const struct ron_sql *db);

/* ---- statements ------------------------------------------------------------------------------ */

enum { RON_SQL_PARAMS_MAX = 24, RON_SQL_SUM_BYTES = 8 };

/* One use of a statement. Values are bound in order; the bytes live until ron_sql_done. */
struct ron_sql_use {
    struct ron_sql *db;
    const struct ron_sql_stmt *stmt;
    void *_handle;  /* of SQLite */
    uint32_t _next; /* values bound so far */
    int _code;      /* of SQLite: the first bind that failed */
    char _kinds[RON_SQL_PARAMS_MAX];
    struct ron_pg_param _params[RON_SQL_PARAMS_MAX];
    uint8_t _sum[RON_SQL_SUM_BYTES];
    struct ron_pg_result _rows;
    size_t _row; /* of _rows, counted from 1; 0: not run yet */
};

struct ron_sql_use ron_sql_use(struct ron_sql *db, uint32_t stmt);
void ron_sql_put_u64(struct ron_sql_use *u, uint64_t value);
void ron_sql_put_text(struct ron_sql_use *u, struct ron_str text);
void ron_sql_put_bytes(struct ron_sql_use *u, const void *bytes, size_t len);
void ron_sql_put_null(struct ron_sql_use *u);
/* An array of int8. Only where ron_sql_is_far, and once in a use. RON_NOMEM. */
RON_MUST_USE enum ron_rc ron_sql_put_ids(struct ron_sql_use *u, const uint64_t *ids,
                                         uint32_t count);
/* The next row, if there is one. */
RON_MUST_USE enum ron_rc ron_sql_row(struct ron_sql_use *u, bool *ret_row, struct ron_err *err);
/* Before the transaction ends; twice is fine. */
void ron_sql_done(struct ron_sql_use *u);
/* Runs a statement without rows, and ends its use. `ret_changes` (may be NULL) is 0 for a gathered
 * one. */
RON_MUST_USE enum ron_rc ron_sql_run(struct ron_sql_use *u, uint64_t *ret_changes,
                                     struct ron_err *err);

/* Columns of the present row; null is 0 and empty. */
uint64_t ron_sql_get_u64(const struct ron_sql_use *u, uint32_t column);
struct ron_str ron_sql_get_str(const struct ron_sql_use *u, uint32_t column);
/* With a NUL. RON_CORRUPT: it does not fit, or contains one. */
RON_MUST_USE enum ron_rc ron_sql_get_text(const struct ron_sql_use *u, uint32_t column,
                                          char *ret_text, size_t size, struct ron_err *err);
/* RON_CORRUPT: it has another length. */
RON_MUST_USE enum ron_rc ron_sql_get_bytes(const struct ron_sql_use *u, uint32_t column,
                                           void *ret_bytes, size_t len, struct ron_err *err);
/* Whether the checksum of the row is right: RON_CORRUPT. */
RON_MUST_USE enum ron_rc ron_sql_get_whole(const struct ron_sql_use *u, struct ron_err *err);
/* Rows of a far statement that has run, and the choice of one of them: for a caller that asked for
 * many and takes them in another order. */
size_t ron_sql_rows(const struct ron_sql_use *u);
void ron_sql_seek(struct ron_sql_use *u, size_t row);
