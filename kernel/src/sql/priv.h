/* SPDX-License-Identifier: Apache-2.0 */
/* sql/priv.h - the inside of a store, for its two engines and the tests. */
#pragma once

#include <sqlite3.h>

#include "ron/cas/b3.h"
#include "ron/pg/pg_array.h"
#include "ron/pg/pg_own.h"
#include "ron/sql/sql.h"

/* The numbers that go into a checksum: those of SQLite's types. */
enum ron__sql_kind { RON__SQL_INT = 1, RON__SQL_TEXT = 3, RON__SQL_BYTES = 4, RON__SQL_NULL = 5 };

struct ron__sql_engine {
    void (*close)(struct ron_sql *db);
    enum ron_rc (*look)(struct ron_sql *db, bool ask, bool *ret_changed, struct ron_err *err);
    enum ron_rc (*begin)(struct ron_sql *db, struct ron_err *err);
    enum ron_rc (*commit)(struct ron_sql *db, struct ron_err *err);
    void (*rollback)(struct ron_sql *db);
    void (*put)(struct ron_sql_use *u, enum ron__sql_kind kind, const void *bytes, size_t len,
                uint64_t number);
    enum ron_rc (*row)(struct ron_sql_use *u, bool *ret_row, struct ron_err *err);
    void (*done)(struct ron_sql_use *u);
    uint64_t (*changes)(const struct ron_sql_use *u);
    uint64_t (*get_u64)(const struct ron_sql_use *u, uint32_t column);
    struct ron_str (*get_str)(const struct ron_sql_use *u, uint32_t column);
};

struct ron_sql {
    const struct ron__sql_engine *engine;
    struct ron_sql_opts opts; /* without path and dsn */
    enum ron_sql_mode mode;
    bool within; /* a transaction, of `mode` */

    sqlite3 *sqlite; /* NULL in PostgreSQL */
    sqlite3_stmt **prepared;
    sqlite3_stmt *begin;
    sqlite3_stmt *commit;
    sqlite3_stmt *rollback;

    struct ron_pg_own *own;       /* NULL in SQLite */
    struct ron_pg_array *columns; /* of a group */
    uint32_t *first_column;       /* of each statement */
    uint32_t column_count;
    struct ron_pg_array ids; /* of ron_sql_put_ids */
};

/* Fill in their part; on failure the caller closes. */
RON_MUST_USE enum ron_rc ron__sql_open_sqlite(struct ron_sql *db, const char *path,
                                              struct ron_err *err);
RON_MUST_USE enum ron_rc ron__sql_open_pg(struct ron_sql *db, const char *dsn, struct ron_err *err);

/* S4. */
void ron__sql_sum_add(struct ron_b3_hasher *h, enum ron__sql_kind kind, const void *bytes,
                      size_t len, uint64_t number);
uint64_t ron__sql_sum_end(struct ron_b3_hasher *h);
