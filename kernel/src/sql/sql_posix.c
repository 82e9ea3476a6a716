/* SPDX-License-Identifier: Apache-2.0 */
/* sql/sql_posix.c - what both engines share: transactions, values, checksums. Contract in
 * ron/sql/sql.h. */
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"
#include "sql/priv.h"

/* ---- transactions ---------------------------------------------------------------------------- */

enum ron_rc ron_sql_begin(struct ron_sql *db, enum ron_sql_mode mode, struct ron_err *err)
{
    enum ron_rc rc;

    ron_blocking_point("ron_sql_begin");
    RON_ASSERT_MSG(!db->within, "one transaction at a time");
    db->mode = mode;
    rc = db->engine->begin(db, err);
    db->within = rc == RON_OK;
    return rc;
}

enum ron_rc ron_sql_end(struct ron_sql *db, enum ron_rc rc, struct ron_err *err)
{
    ron_blocking_point("ron_sql_end");
    RON_ASSERT_MSG(db->within, "an end has its begin");
    if (rc == RON_OK) {
        rc = db->engine->commit(db, err);
    }
    if (rc != RON_OK) {
        db->engine->rollback(db);
    }
    db->within = false;
    return rc;
}

bool ron_sql_within(const struct ron_sql *db)
{
    return db->within;
}

enum ron_rc ron_sql_look(struct ron_sql *db, bool ask, bool *ret_changed, struct ron_err *err)
{
    return db->engine->look(db, ask, ret_changed, err);
}

bool ron_sql_is_far(const struct ron_sql *db)
{
    return db->own != NULL;
}

uint64_t ron_sql_epoch(const struct ron_sql *db)
{
    return db->own != NULL ? ron_pg_own_epoch(db->own) : 0;
}

/* ---- statements ------------------------------------------------------------------------------ */

struct ron_sql_use ron_sql_use(struct ron_sql *db, uint32_t stmt)
{
    RON_ASSERT(stmt < db->opts.stmt_count);
    return (struct ron_sql_use){.db = db,
                                .stmt = &db->opts.stmts[stmt],
                                ._handle = db->prepared != NULL ? db->prepared[stmt] : NULL};
}

static void put(struct ron_sql_use *u, enum ron__sql_kind kind, const void *bytes, size_t len,
                uint64_t number)
{
    RON_ASSERT(u->_next < RON_SQL_PARAMS_MAX - 1); /* the last is for a checksum */
    u->db->engine->put(u, kind, bytes, len, number);
    u->_next++;
}

void ron_sql_put_u64(struct ron_sql_use *u, uint64_t value)
{
    put(u, RON__SQL_INT, NULL, 0, value);
}

void ron_sql_put_text(struct ron_sql_use *u, struct ron_str text)
{
    put(u, RON__SQL_TEXT, text.ptr, text.len, 0);
}

void ron_sql_put_bytes(struct ron_sql_use *u, const void *bytes, size_t len)
{
    put(u, RON__SQL_BYTES, bytes, len, 0);
}

void ron_sql_put_null(struct ron_sql_use *u)
{
    put(u, RON__SQL_NULL, NULL, 0, 0);
}

enum ron_rc ron_sql_put_ids(struct ron_sql_use *u, const uint64_t *ids, uint32_t count)
{
    struct ron_pg_array *array = &u->db->ids;

    RON_ASSERT_MSG(u->db->own != NULL, "arrays are of PostgreSQL");
    ron_pg_array_clear(array, 1 << 16);
    for (uint32_t i = 0; i < count; i++) {
        ron_pg_array_u64(array, ids[i]);
    }
    return ron_pg_array_param(array, &u->_params[u->_next++]);
}

enum ron_rc ron_sql_row(struct ron_sql_use *u, bool *ret_row, struct ron_err *err)
{
    return u->db->engine->row(u, ret_row, err);
}

void ron_sql_done(struct ron_sql_use *u)
{
    u->db->engine->done(u);
}

enum ron_rc ron_sql_run(struct ron_sql_use *u, uint64_t *ret_changes, struct ron_err *err)
{
    bool row = false;
    enum ron_rc rc = ron_sql_row(u, &row, err);

    if (rc == RON_OK && ret_changes != NULL) {
        *ret_changes = u->db->engine->changes(u);
    }
    ron_sql_done(u);
    return rc;
}

uint64_t ron_sql_get_u64(const struct ron_sql_use *u, uint32_t column)
{
    return u->db->engine->get_u64(u, column);
}

struct ron_str ron_sql_get_str(const struct ron_sql_use *u, uint32_t column)
{
    struct ron_str s = u->db->engine->get_str(u, column);

    return s.ptr != NULL ? s : (struct ron_str){"", 0};
}

enum ron_rc ron_sql_get_text(const struct ron_sql_use *u, uint32_t column, char *ret_text,
                             size_t size, struct ron_err *err)
{
    struct ron_str text = ron_sql_get_str(u, column);

    if (text.len >= size || memchr(text.ptr, '\0', text.len) != NULL) {
        return ron_err_set(err, RON_CORRUPT, "%s: a text of %zu bytes where %zu fit",
                           u->db->opts.name, text.len, size - 1);
    }
    memcpy(ret_text, text.ptr, text.len);
    ret_text[text.len] = '\0';
    return RON_OK;
}

enum ron_rc ron_sql_get_bytes(const struct ron_sql_use *u, uint32_t column, void *ret_bytes,
                              size_t len, struct ron_err *err)
{
    struct ron_str bytes = ron_sql_get_str(u, column);

    if (bytes.len != len) {
        return ron_err_set(err, RON_CORRUPT, "%s: %zu bytes where %zu belong", u->db->opts.name,
                           bytes.len, len);
    }
    memcpy(ret_bytes, bytes.ptr, len);
    return RON_OK;
}

enum ron_rc ron_sql_get_whole(const struct ron_sql_use *u, struct ron_err *err)
{
    RON_ASSERT_MSG(u->stmt->kinds != NULL, "the statement reads a checksum");
    if (u->db->engine->get_u64(u, u->stmt->visible) != 1) {
        return ron_err_set(err, RON_CORRUPT, "%s: row is corrupt", u->db->opts.name);
    }
    return RON_OK;
}

size_t ron_sql_rows(const struct ron_sql_use *u)
{
    return ron_pg_rows(&u->_rows);
}

void ron_sql_seek(struct ron_sql_use *u, size_t row)
{
    RON_ASSERT(row < ron_pg_rows(&u->_rows));
    u->_row = row + 1;
}

/* ---- checksums ------------------------------------------------------------------------------- */

void ron__sql_sum_add(struct ron_b3_hasher *h, enum ron__sql_kind kind, const void *bytes,
                      size_t len, uint64_t number)
{
    uint8_t head[9] = {(uint8_t)kind};

    number = kind == RON__SQL_TEXT || kind == RON__SQL_BYTES ? len : number;
    for (int byte = 0; byte < 8; byte++) {
        head[1 + byte] = (uint8_t)(number >> (56 - 8 * byte));
    }
    ron_b3_update(h, head, sizeof head);
    ron_b3_update(h, len > 0 ? bytes : "", len);
}

uint64_t ron__sql_sum_end(struct ron_b3_hasher *h)
{
    struct ron_b3 hash;
    uint64_t sum = 0;

    ron_b3_final(h, &hash);
    for (int byte = 0; byte < RON_SQL_SUM_BYTES; byte++) {
        sum = sum << 8 | hash.bytes[byte];
    }
    return sum;
}

/* ---- life ------------------------------------------------------------------------------------ */

enum ron_rc ron_sql_open(const struct ron_sql_opts *opts, struct ron_sql **ret_db,
                         struct ron_err *err)
{
    struct ron_sql *db = ron_alloc_zero(sizeof *db);
    enum ron_rc rc;

    ron_blocking_point("ron_sql_open");
    if (db == NULL) {
        return ron_err_set(err, RON_NOMEM, "%s: out of memory", opts->name);
    }
    db->opts = *opts;
    db->opts.path = db->opts.dsn = NULL; /* not ours to keep */
    rc = opts->dsn != NULL ? ron__sql_open_pg(db, opts->dsn, err)
                           : ron__sql_open_sqlite(db, opts->path, err);
    if (rc != RON_OK) {
        ron_sql_close(db);
        return rc;
    }
    *ret_db = db;
    return RON_OK;
}

void ron_sql_close(struct ron_sql *db)
{
    if (db == NULL) {
        return;
    }
    ron_blocking_point("ron_sql_close");
    RON_ASSERT_MSG(!db->within, "no transaction is left open");
    if (db->engine != NULL) { /* it may have failed before it had one */
        db->engine->close(db);
    }
    ron_free(db);
}
