/* SPDX-License-Identifier: Apache-2.0 */
/* sql/pg_posix.c - a store in PostgreSQL tables, over ron/pg/pg_own.h, which decides who owns the
 * tables and settles commits whose answer was lost.
 *
 * A transaction of mode WRITE takes the number of its commit first, so that it meets any other
 * writer at that row. One of mode GROUP is gathered here in arrays, one for each column, and goes
 * out as one statement: one round trip, and no transaction of the database is open meanwhile.
 *
 * Checksums are computed and compared here, never by the server: a SELECT returns the facts of a
 * row after the columns that were asked for, and the checksum last. */
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "sql/priv.h"

enum {
    CHECK_ROWS = 1000,    /* of one page */
    KEEP_BYTES = 1 << 20, /* of memory that an array holds on to */
    PAUSES = 25,          /* between tries to connect, in wait_ms */
    SQL_MAX = 1024,
};

static enum ron_rc failed(const struct ron_sql *db, enum ron_rc rc, const struct ron_err *why,
                          struct ron_err *err)
{
    return ron_err_set(err, rc, "%s: %s", db->opts.name, why->msg);
}

static enum ron_rc ask_pg(struct ron_sql *db, const char *sql, const struct ron_pg_param *params,
                          size_t count, struct ron_pg_result *ret, struct ron_err *err)
{
    struct ron_err why = {0};
    enum ron_rc rc = ron_pg_own_ask(db->own, sql, params, count, ret, &why);

    return rc == RON_OK ? RON_OK : failed(db, rc, &why, err);
}

/* ---- values ---------------------------------------------------------------------------------- */

static enum ron__sql_kind kind_of(char letter)
{
    return letter == 'i' ? RON__SQL_INT : letter == 't' ? RON__SQL_TEXT : RON__SQL_BYTES;
}

static uint64_t number_of(const uint8_t *bytes, size_t len)
{
    uint64_t number = 0;

    for (size_t i = 0; i < len && i < 8; i++) {
        number = number << 8 | bytes[i];
    }
    return number;
}

/* Over the facts that begin with a column. */
static uint64_t sum_of(const struct ron_pg_result *r, size_t row, size_t column, const char *kinds)
{
    struct ron_b3_hasher h;

    ron_b3_init(&h);
    for (size_t i = 0; kinds[i] != '\0'; i++) {
        enum ron__sql_kind kind = kind_of(kinds[i]);
        const uint8_t *bytes = NULL;
        size_t len = 0;

        if (ron_pg_is_null(r, row, column + i)) {
            ron__sql_sum_add(&h, RON__SQL_NULL, NULL, 0, 0);
            continue;
        }
        ron_pg_value(r, row, column + i, &bytes, &len);
        if (kind == RON__SQL_INT) {
            ron__sql_sum_add(&h, kind, NULL, 0, number_of(bytes, len));
        } else {
            ron__sql_sum_add(&h, kind, bytes, len, 0);
        }
    }
    return ron__sql_sum_end(&h);
}

static bool whole(const struct ron_pg_result *r, size_t row, size_t column, const char *kinds)
{
    const uint8_t *bytes = NULL;
    size_t len = 0;

    ron_pg_value(r, row, column + strlen(kinds), &bytes, &len);
    return len == RON_SQL_SUM_BYTES && number_of(bytes, len) == sum_of(r, row, column, kinds);
}

static void put_sum(struct ron_sql_use *u, uint64_t sum)
{
    for (int i = 0; i < RON_SQL_SUM_BYTES; i++) {
        u->_sum[i] = (uint8_t)(sum >> (56 - 8 * i));
    }
    ron_pg_bytes(&u->_params[u->_next++], u->_sum, sizeof u->_sum);
}

static void gather(struct ron_sql_use *u, enum ron__sql_kind kind, const void *bytes, size_t len,
                   uint64_t number)
{
    struct ron_sql *db = u->db;
    struct ron_pg_array *column =
        &db->columns[db->first_column[u->stmt - db->opts.stmts] + u->_next];

    RON_ASSERT_MSG((u->stmt->kinds[u->_next] == 'i') == (kind == RON__SQL_INT) &&
                       kind != RON__SQL_NULL,
                   "values are of the declared kinds");
    if (kind == RON__SQL_INT) {
        ron_pg_array_u64(column, number);
    } else {
        ron_pg_array_bytes(column, bytes, len);
    }
}

static void pg_put(struct ron_sql_use *u, enum ron__sql_kind kind, const void *bytes, size_t len,
                   uint64_t number)
{
    struct ron_pg_param *p = &u->_params[u->_next];

    if (u->stmt->form == RON_SQL_GATHER) {
        gather(u, kind, bytes, len, number);
        return;
    }
    *p = (struct ron_pg_param){0};
    u->_kinds[u->_next] = (char)kind;
    switch (kind) {
    case RON__SQL_INT:
        ron_pg_i64(p, (int64_t)number);
        break;
    case RON__SQL_TEXT: /* the column decides whether it is text; a sentence need not be */
        p->data = len > 0 ? bytes : "";
        p->len = len;
        break;
    case RON__SQL_BYTES:
        ron_pg_bytes(p, bytes, len);
        break;
    case RON__SQL_NULL:
        break;
    }
}

static void sum_params(struct ron_sql_use *u)
{
    struct ron_b3_hasher h;

    ron_b3_init(&h);
    for (uint32_t i = 0; i < u->_next; i++) {
        const struct ron_pg_param *p = &u->_params[i];
        enum ron__sql_kind kind = (enum ron__sql_kind)u->_kinds[i];

        if (kind == RON__SQL_INT) {
            ron__sql_sum_add(&h, kind, NULL, 0, number_of(p->number, sizeof p->number));
        } else {
            ron__sql_sum_add(&h, kind, p->data, p->len, 0);
        }
    }
    put_sum(u, ron__sql_sum_end(&h));
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The new checksum of the row that was read. */
static enum ron_rc write_sum(struct ron_sql_use *u, struct ron_err *err)
{
    if (ron_pg_rows(&u->_rows) != 1) {
        return ron_err_set(err, RON_CORRUPT, "%s: row is missing", u->db->opts.name);
    }
    put_sum(u, sum_of(&u->_rows, 0, 0, u->stmt->kinds));
    ron_pg_result_done(&u->_rows);
    return ask_pg(u->db, u->stmt->then, u->_params, u->_next, &u->_rows, err);
}

static enum ron_rc run_once(struct ron_sql_use *u, struct ron_err *err)
{
    if (u->stmt->form == RON_SQL_GATHER || u->stmt->pg == NULL) {
        return RON_OK;
    }
    if (u->stmt->form == RON_SQL_ADD) {
        sum_params(u);
    }
    RON_TRY(ask_pg(u->db, u->stmt->pg, u->_params, u->_next, &u->_rows, err));
    return u->stmt->form == RON_SQL_SUM ? write_sum(u, err) : RON_OK;
}

static enum ron_rc pg_row(struct ron_sql_use *u, bool *ret_row, struct ron_err *err)
{
    if (u->_row == 0) {
        RON_TRY(run_once(u, err));
    }
    u->_row++;
    *ret_row = u->_row <= ron_pg_rows(&u->_rows);
    return RON_OK;
}

static void pg_done(struct ron_sql_use *u)
{
    ron_pg_result_done(&u->_rows);
    u->_row = 0;
    u->_next = 0;
}

static uint64_t pg_changes(const struct ron_sql_use *u)
{
    return u->_rows.affected;
}

static uint64_t pg_get_u64(const struct ron_sql_use *u, uint32_t column)
{
    const uint8_t *bytes = NULL;
    size_t len = 0;

    if (u->stmt->kinds != NULL && column == u->stmt->visible) {
        return whole(&u->_rows, u->_row - 1, column, u->stmt->kinds);
    }
    ron_pg_value(&u->_rows, u->_row - 1, column, &bytes, &len);
    return number_of(bytes, len);
}

static struct ron_str pg_get_str(const struct ron_sql_use *u, uint32_t column)
{
    const uint8_t *bytes = NULL;
    size_t len = 0;

    ron_pg_value(&u->_rows, u->_row - 1, column, &bytes, &len);
    return (struct ron_str){(const char *)bytes, len};
}

/* ---- transactions ---------------------------------------------------------------------------- */

static void forget(struct ron_sql *db)
{
    for (uint32_t i = 0; i < db->column_count; i++) {
        ron_pg_array_clear(&db->columns[i], KEEP_BYTES);
    }
}

static enum ron_rc pg_begin(struct ron_sql *db, struct ron_err *err)
{
    const struct ron_env *env = db->opts.env;
    struct ron_deadline until = ron_deadline_after_ms(ron_env_now_ns(env), db->opts.wait_ms);
    struct ron_err why = {0};
    enum ron_rc rc;

    if (db->mode == RON_SQL_GROUP) {
        forget(db);
        return RON_OK;
    }
    for (;;) {
        rc = db->mode == RON_SQL_WRITE ? ron_pg_own_begin(db->own, &why)
                                       : ron_pg_own_ready(db->own, &why);
        if (rc == RON_OK) {
            return RON_OK;
        }
        if (rc != RON_AGAIN || ron_deadline_expired(until, ron_env_now_ns(env))) {
            return failed(db, rc, &why, err);
        }
        ron_pg_own_pause(db->own);
    }
}

static enum ron_rc write_group(struct ron_sql *db, struct ron_err *err)
{
    enum { FIXED = 2 }; /* of ron_pg_own_write: epoch and commits */
    struct ron_pg_param params[RON_PG_PARAMS_MAX];
    enum ron_rc rc = RON_OK;

    for (uint32_t i = 0; i < db->column_count && rc == RON_OK; i++) {
        rc = ron_pg_array_param(&db->columns[i], &params[FIXED + i]);
    }
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "%s: out of memory for a transaction", db->opts.name);
    }
    return ron_pg_own_write(db->own, db->opts.pg_write, params, FIXED + db->column_count, err);
}

static enum ron_rc pg_commit(struct ron_sql *db, struct ron_err *err)
{
    struct ron_err why = {0};
    enum ron_rc rc = RON_OK;

    if (db->mode == RON_SQL_WRITE) {
        rc = ron_pg_own_commit(db->own, db->opts.wait_ms, &why);
    } else if (db->mode == RON_SQL_GROUP) {
        rc = write_group(db, &why);
        forget(db);
    }
    return rc == RON_OK ? RON_OK : failed(db, rc, &why, err);
}

static void pg_rollback(struct ron_sql *db)
{
    if (db->mode == RON_SQL_GROUP) {
        forget(db); /* nothing of it was sent */
    } else {
        ron_pg_own_rollback(db->own);
    }
}

static enum ron_rc pg_look(struct ron_sql *db, bool ask, bool *ret_changed, struct ron_err *err)
{
    struct ron_err why = {0};
    struct ron_pg_result r = {0};
    struct ron_pg_param p;
    char sql[SQL_MAX];
    enum ron_rc rc = ron_pg_own_ready(db->own, &why);

    *ret_changed = false;
    if (rc != RON_OK) {
        return failed(db, rc, &why, err);
    }
    *ret_changed = ron_pg_own_changed(db->own);
    if (!ask) {
        return RON_OK;
    }
    (void)snprintf(sql, sizeof sql, "SELECT 1 FROM %s WHERE one=1 AND epoch=$1", db->opts.pg_table);
    ron_pg_u64(&p, ron_pg_own_epoch(db->own));
    RON_TRY(ask_pg(db, sql, &p, 1, &r, err));
    rc = ron_pg_rows(&r) == 1
             ? RON_OK
             : ron_err_set(err, RON_CONFLICT, "%s: in use by another process", db->opts.name);
    ron_pg_result_done(&r);
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* S4, page by page. */
static enum ron_rc check_table(struct ron_sql *db, const struct ron_sql_table *t,
                               struct ron_err *err)
{
    size_t rows = CHECK_ROWS;
    uint64_t seen = 0;
    char sql[SQL_MAX];

    (void)snprintf(sql, sizeof sql, "SELECT %s,sum FROM %s%s ORDER BY %s LIMIT $1 OFFSET $2",
                   t->facts, db->opts.pg_prefix, t->name, t->order);
    while (rows == CHECK_ROWS) {
        struct ron_pg_result r = {0};
        struct ron_pg_param p[2];
        uint64_t bad = 0;

        ron_pg_u64(&p[0], CHECK_ROWS);
        ron_pg_u64(&p[1], seen);
        RON_TRY(ask_pg(db, sql, p, 2, &r, err));
        rows = ron_pg_rows(&r);
        seen += rows;
        for (size_t i = 0; i < rows; i++) {
            bad += !whole(&r, i, 0, t->kinds);
        }
        ron_pg_result_done(&r);
        if (bad != 0) {
            return ron_err_set(err, RON_CORRUPT, "%s: %llu corrupt rows", db->opts.name,
                               (unsigned long long)bad);
        }
    }
    return RON_OK;
}

static void pg_close(struct ron_sql *db)
{
    ron_pg_own_close(db->own);
    for (uint32_t i = 0; db->columns != NULL && i < db->column_count; i++) {
        ron_pg_array_done(&db->columns[i]);
    }
    ron_free(db->columns);
    ron_free(db->first_column);
    ron_pg_array_done(&db->ids);
}

static const struct ron__sql_engine engine = {.close = pg_close,
                                              .look = pg_look,
                                              .begin = pg_begin,
                                              .commit = pg_commit,
                                              .rollback = pg_rollback,
                                              .put = pg_put,
                                              .row = pg_row,
                                              .done = pg_done,
                                              .changes = pg_changes,
                                              .get_u64 = pg_get_u64,
                                              .get_str = pg_get_str};

/* One array for each value of the statements that are gathered. */
static enum ron_rc make_columns(struct ron_sql *db, struct ron_err *err)
{
    const struct ron_sql_opts *o = &db->opts;
    uint32_t next = 0;

    db->first_column = ron_alloc_zero(o->stmt_count * sizeof *db->first_column);
    db->columns = ron_alloc_zero(RON_PG_PARAMS_MAX * sizeof *db->columns);
    if (db->first_column == NULL || db->columns == NULL) {
        return ron_err_set(err, RON_NOMEM, "%s: out of memory", o->name);
    }
    ron_pg_array_init(&db->ids, RON_PG_INT8);
    for (uint32_t i = 0; i < o->stmt_count; i++) {
        db->first_column[i] = next;
        for (const char *k = o->stmts[i].kinds; o->stmts[i].form == RON_SQL_GATHER && *k != '\0';
             k++) {
            RON_ASSERT_MSG(next < RON_PG_PARAMS_MAX - 2, "a statement takes so many arrays");
            ron_pg_array_init(&db->columns[next++], *k == 'i'   ? RON_PG_INT8
                                                    : *k == 't' ? RON_PG_TEXT
                                                                : RON_PG_BYTEA);
        }
    }
    db->column_count = next;
    return RON_OK;
}

enum ron_rc ron__sql_open_pg(struct ron_sql *db, const char *dsn, struct ron_err *err)
{
    const struct ron_sql_opts *o = &db->opts;
    struct ron_err why = {0};
    enum ron_rc rc;

    db->engine = &engine;
    RON_TRY(make_columns(db, err));
    rc = ron_pg_own_open(&(struct ron_pg_own_opts){.env = o->env,
                                                   .conninfo = dsn,
                                                   .name = o->client,
                                                   .table = o->pg_table,
                                                   .steps = o->pg_steps,
                                                   .step_count = o->pg_step_count,
                                                   .pause_ms = o->wait_ms / PAUSES,
                                                   .open_tries = o->open_tries},
                         &db->own, &why);
    if (rc != RON_OK) {
        return failed(db, rc, &why, err);
    }
    for (uint32_t i = 0; i < o->table_count; i++) {
        RON_TRY(check_table(db, &o->tables[i], err));
    }
    return RON_OK;
}
