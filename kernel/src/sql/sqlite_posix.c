/* SPDX-License-Identifier: Apache-2.0 */
/* sql/sqlite_posix.c - a store in a SQLite file: opening, checking, statements, transactions.
 *
 * SQLite makes its own system calls, hence _posix. A commit is in the write-ahead log and synced
 * (synchronous=FULL) before COMMIT returns. A process that dies leaves a log whose last whole
 * commit counts. The file is locked by this process until the store is closed
 * (locking_mode=EXCLUSIVE). SQLite has no checksums on pages: integrity_check finds broken
 * structure, row_sum a changed value.
 *
 * Failure: codes are mapped in `failed`. Faults for tests are asked for before each step. */
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/fault.h"
#include "sql/priv.h"

enum {
    FILE_MODE = 0600,
    /* A predecessor that was killed has released the file before we start; one that is closing it
     * needs the time of a checkpoint. */
    BUSY_MS = 250,
    SQL_MAX = 1024, /* text of a check */
};

static enum ron_rc failed(const struct ron_sql *db, int code, const char *what, struct ron_err *err)
{
    const char *name = db->opts.name;
    const char *text = db->sqlite != NULL ? sqlite3_errmsg(db->sqlite) : sqlite3_errstr(code);

    switch (code & 0xff) {
    case SQLITE_FULL:
        return ron_err_set(err, RON_FULL, "%s: %s: %s", name, what, text);
    case SQLITE_NOMEM:
        return ron_err_set(err, RON_NOMEM, "%s: %s: %s", name, what, text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: /* the schema is not the one we wrote */
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
        return ron_err_set(err, RON_CORRUPT, "%s: %s: %s", name, what, text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ron_err_set(err, RON_CONFLICT, "%s: %s: in use by another process", name, what);
    default:
        return ron_err_set_sys(err, RON_IO,
                               db->sqlite != NULL ? sqlite3_system_errno(db->sqlite) : 0,
                               "%s: %s: %s", name, what, text);
    }
}

/* ---- statements ------------------------------------------------------------------------------ */

static void sq_put(struct ron_sql_use *u, enum ron__sql_kind kind, const void *bytes, size_t len,
                   uint64_t number)
{
    /* A NULL pointer would be bound as NULL. */
    const void *some = len > 0 ? bytes : "";
    int at = (int)u->_next + 1;
    int code = SQLITE_OK;

    if (u->_handle == NULL) {
        return;
    }
    switch (kind) {
    case RON__SQL_INT:
        code = sqlite3_bind_int64(u->_handle, at, (int64_t)number);
        break;
    case RON__SQL_TEXT:
        code = sqlite3_bind_text64(u->_handle, at, some, len, SQLITE_STATIC, SQLITE_UTF8);
        break;
    case RON__SQL_BYTES:
        code = sqlite3_bind_blob64(u->_handle, at, some, len, SQLITE_STATIC);
        break;
    case RON__SQL_NULL:
        code = sqlite3_bind_null(u->_handle, at);
        break;
    }
    u->_code = u->_code != SQLITE_OK ? u->_code : code;
}

static int step(sqlite3_stmt *stmt)
{
    return RON_FAULT(RON_FAULT_SYSCALL, "sqlite3_step") ? SQLITE_IOERR : sqlite3_step(stmt);
}

static enum ron_rc sq_row(struct ron_sql_use *u, bool *ret_row, struct ron_err *err)
{
    int code = u->_code;

    if (u->_handle == NULL) { /* nothing to do in SQLite */
        *ret_row = false;
        return RON_OK;
    }
    if (code == SQLITE_OK) {
        code = step(u->_handle);
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        return failed(u->db, code, "statement", err);
    }
    *ret_row = code == SQLITE_ROW;
    return RON_OK;
}

static void sq_done(struct ron_sql_use *u)
{
    if (u->_handle != NULL) {
        /* The code of a reset repeats that of the step, which was looked at. */
        (void)sqlite3_reset(u->_handle);
        (void)sqlite3_clear_bindings(u->_handle);
    }
    u->_next = 0;
    u->_code = SQLITE_OK;
}

static uint64_t sq_changes(const struct ron_sql_use *u)
{
    return u->_handle != NULL ? (uint64_t)sqlite3_changes64(u->db->sqlite) : 0;
}

static uint64_t sq_get_u64(const struct ron_sql_use *u, uint32_t column)
{
    return (uint64_t)sqlite3_column_int64(u->_handle, (int)column);
}

static struct ron_str sq_get_str(const struct ron_sql_use *u, uint32_t column)
{
    const void *bytes = sqlite3_column_blob(u->_handle, (int)column);
    int len = sqlite3_column_bytes(u->_handle, (int)column);

    return (struct ron_str){bytes, bytes != NULL ? (size_t)len : 0};
}

/* ---- transactions ---------------------------------------------------------------------------- */

static enum ron_rc run_prepared(struct ron_sql *db, sqlite3_stmt *stmt, const char *what,
                                struct ron_err *err)
{
    int code = step(stmt);
    enum ron_rc rc = code == SQLITE_DONE ? RON_OK : failed(db, code, what, err);

    (void)sqlite3_reset(stmt);
    return rc;
}

static enum ron_rc sq_look(struct ron_sql *db, bool ask, bool *ret_changed, struct ron_err *err)
{
    (void)db;
    (void)ask;
    (void)err;
    *ret_changed = false; /* nobody else has the file */
    return RON_OK;
}

static enum ron_rc sq_begin(struct ron_sql *db, struct ron_err *err)
{
    return db->mode == RON_SQL_READ ? RON_OK : run_prepared(db, db->begin, "begin", err);
}

static enum ron_rc sq_commit(struct ron_sql *db, struct ron_err *err)
{
    return db->mode == RON_SQL_READ ? RON_OK : run_prepared(db, db->commit, "commit", err);
}

static void sq_rollback(struct ron_sql *db)
{
    if (sqlite3_get_autocommit(db->sqlite) == 0) {
        /* Nothing of it was committed; a rollback does not depend on the disk. */
        (void)sqlite3_step(db->rollback);
        (void)sqlite3_reset(db->rollback);
    }
}

static void sq_close(struct ron_sql *db)
{
    for (uint32_t i = 0; db->prepared != NULL && i < db->opts.stmt_count; i++) {
        (void)sqlite3_finalize(db->prepared[i]);
    }
    ron_free(db->prepared);
    (void)sqlite3_finalize(db->begin);
    (void)sqlite3_finalize(db->commit);
    (void)sqlite3_finalize(db->rollback);
    /* What is committed is in the log already; a checkpoint that fails here is made at the next
     * opening. */
    (void)sqlite3_close(db->sqlite);
}

static const struct ron__sql_engine engine = {.close = sq_close,
                                              .look = sq_look,
                                              .begin = sq_begin,
                                              .commit = sq_commit,
                                              .rollback = sq_rollback,
                                              .put = sq_put,
                                              .row = sq_row,
                                              .done = sq_done,
                                              .changes = sq_changes,
                                              .get_u64 = sq_get_u64,
                                              .get_str = sq_get_str};

/* ---- opening --------------------------------------------------------------------------------- */

/* row_sum(a, b, ...) in SQL. */
static void row_sum(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct ron_b3_hasher h;

    ron_b3_init(&h);
    for (int i = 0; i < count; i++) {
        enum ron__sql_kind kind = (enum ron__sql_kind)sqlite3_value_type(values[i]);

        if (kind == RON__SQL_INT || kind == RON__SQL_NULL) {
            ron__sql_sum_add(&h, kind, NULL, 0,
                             kind == RON__SQL_INT ? (uint64_t)sqlite3_value_int64(values[i]) : 0);
        } else {
            const void *bytes = sqlite3_value_blob(values[i]);

            ron__sql_sum_add(&h, kind, bytes, (size_t)sqlite3_value_bytes(values[i]), 0);
        }
    }
    sqlite3_result_int64(context, (int64_t)ron__sql_sum_end(&h));
}

static enum ron_rc run_sql(struct ron_sql *db, const char *sql, const char *what,
                           struct ron_err *err)
{
    int code = RON_FAULT(RON_FAULT_SYSCALL, "sqlite3_exec")
                   ? SQLITE_IOERR
                   : sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL);

    return code == SQLITE_OK ? RON_OK : failed(db, code, what, err);
}

/* The first column of the first row as a number, and whether it reads "ok". */
static enum ron_rc ask_sql(struct ron_sql *db, const char *sql, int64_t *ret_number, bool *ret_ok,
                           struct ron_err *err)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(db->sqlite, sql, -1, &stmt, NULL);
    enum ron_rc rc = RON_OK;

    if (code == SQLITE_OK) {
        code = step(stmt);
    }
    if (code == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(stmt, 0);

        *ret_number = sqlite3_column_int64(stmt, 0);
        *ret_ok = text != NULL && strcmp((const char *)text, "ok") == 0;
    } else {
        rc = failed(db, code, "check", err);
    }
    (void)sqlite3_finalize(stmt);
    return rc;
}

static enum ron_rc make_schema(struct ron_sql *db, struct ron_err *err)
{
    char mark[96];

    (void)snprintf(mark, sizeof mark, "PRAGMA application_id=%u;PRAGMA user_version=%u;COMMIT",
                   db->opts.application_id, db->opts.layout);
    RON_TRY(run_sql(db, "BEGIN IMMEDIATE", "begin", err));
    RON_TRY(run_sql(db, db->opts.schema, "schema", err));
    return run_sql(db, mark, "commit", err);
}

/* Makes the schema in an empty file, or finds ours. */
static enum ron_rc check_schema(struct ron_sql *db, const char *path, struct ron_err *err)
{
    const struct ron_sql_opts *o = &db->opts;
    int64_t tables = 0;
    int64_t application = 0;
    int64_t version = 0;
    bool ok = false;

    RON_TRY(ask_sql(db, "SELECT count(*) FROM sqlite_schema", &tables, &ok, err));
    RON_TRY(ask_sql(db, "PRAGMA application_id", &application, &ok, err));
    RON_TRY(ask_sql(db, "PRAGMA user_version", &version, &ok, err));
    if (tables == 0 && application == 0 && version == 0) {
        return make_schema(db, err);
    }
    if (application != (int64_t)o->application_id) {
        return ron_err_set(err, RON_CORRUPT, "%s: %s is a database of another program", o->name,
                           path);
    }
    if (version > (int64_t)o->layout) {
        return ron_err_set(err, RON_UNSUPPORTED,
                           "%s: %s has unsupported layout %lld (this program supports %u)", o->name,
                           path, (long long)version, o->layout);
    }
    if (version != (int64_t)o->layout) {
        return ron_err_set(err, RON_CORRUPT, "%s: %s has no layout", o->name, path);
    }
    return RON_OK;
}

static enum ron_rc check_table(struct ron_sql *db, const struct ron_sql_table *t, const char *path,
                               struct ron_err *err)
{
    char sql[SQL_MAX];
    int64_t number = 0;
    bool ok = false;

    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE sum IS NOT row_sum(%s)", t->name,
                   t->facts);
    RON_TRY(ask_sql(db, sql, &number, &ok, err));
    if (number != 0) {
        return ron_err_set(err, RON_CORRUPT, "%s: %s: %lld corrupt rows", db->opts.name, path,
                           (long long)number);
    }
    return RON_OK;
}

static enum ron_rc check_rows(struct ron_sql *db, const char *path, struct ron_err *err)
{
    int64_t number = 0;
    bool ok = false;

    RON_TRY(ask_sql(db, "PRAGMA integrity_check(1)", &number, &ok, err));
    if (!ok) {
        return ron_err_set(err, RON_CORRUPT, "%s: %s is corrupt", db->opts.name, path);
    }
    for (uint32_t i = 0; i < db->opts.table_count; i++) {
        RON_TRY(check_table(db, &db->opts.tables[i], path, err));
    }
    return RON_OK;
}

static enum ron_rc prepare_one(struct ron_sql *db, const char *sql, sqlite3_stmt **ret,
                               struct ron_err *err)
{
    int code = sqlite3_prepare_v3(db->sqlite, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL);

    return code == SQLITE_OK ? RON_OK : failed(db, code, "prepare", err);
}

static enum ron_rc prepare(struct ron_sql *db, struct ron_err *err)
{
    const struct ron_sql_opts *o = &db->opts;

    db->prepared = ron_alloc_zero(o->stmt_count * sizeof(sqlite3_stmt *));
    if (db->prepared == NULL) {
        return ron_err_set(err, RON_NOMEM, "%s: out of memory", o->name);
    }
    RON_TRY(prepare_one(db, "BEGIN IMMEDIATE", &db->begin, err));
    RON_TRY(prepare_one(db, "COMMIT", &db->commit, err));
    RON_TRY(prepare_one(db, "ROLLBACK", &db->rollback, err));
    for (uint32_t i = 0; i < o->stmt_count; i++) {
        if (o->stmts[i].sqlite != NULL) {
            RON_TRY(prepare_one(db, o->stmts[i].sqlite, &db->prepared[i], err));
        }
    }
    return RON_OK;
}

/* The name itself must survive too. */
static enum ron_rc sync_folder(struct ron_sql *db, const char *path, struct ron_err *err)
{
    const struct ron_env *env = db->opts.env;
    const char *slash = strrchr(path, '/');
    char *folder = NULL;
    enum ron_rc rc;

    if (slash == NULL) {
        return env->disk->sync_dir(env, ".", err);
    }
    folder = ron_strdup(path);
    if (folder == NULL) {
        return ron_err_set(err, RON_NOMEM, "%s: out of memory", db->opts.name);
    }
    folder[slash == path ? 1 : slash - path] = '\0';
    rc = env->disk->sync_dir(env, folder, err);
    ron_free(folder);
    return rc;
}

/* SQLite would make it readable for all; its log takes the permissions of the file. */
static enum ron_rc make_file(struct ron_sql *db, const char *path, struct ron_err *err)
{
    const struct ron_env *env = db->opts.env;
    struct ron_err why = {0};
    int fd = -1;
    enum ron_rc rc = env->disk->open(env, path, RON_OPEN_CREATE | RON_OPEN_EXCL | RON_OPEN_WRITE,
                                     FILE_MODE, &fd, &why);

    if (rc == RON_EXISTS) {
        return RON_OK;
    }
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "%s: %s", db->opts.name, why.msg);
    }
    env->disk->close(env, fd);
    return sync_folder(db, path, err);
}

static enum ron_rc start(struct ron_sql *db, const char *path, struct ron_err *err)
{
    int code =
        sqlite3_open_v2(path, &db->sqlite,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);

    if (code == SQLITE_OK) {
        code = sqlite3_busy_timeout(db->sqlite, BUSY_MS);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_create_function_v2(db->sqlite, "row_sum", -1,
                                          SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
                                          NULL, row_sum, NULL, NULL, NULL);
    }
    if (code != SQLITE_OK) {
        return failed(db, code, "open", err);
    }
    if (db->opts.pragmas != NULL) {
        RON_TRY(run_sql(db, db->opts.pragmas, "open", err));
    }
    /* temp_store: a store in memory must leave no temporary file either. */
    return run_sql(db,
                   "PRAGMA locking_mode=EXCLUSIVE;PRAGMA temp_store=MEMORY;"
                   "PRAGMA trusted_schema=OFF;PRAGMA cell_size_check=ON;"
                   "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;BEGIN EXCLUSIVE;COMMIT",
                   "open", err);
}

enum ron_rc ron__sql_open_sqlite(struct ron_sql *db, const char *path, struct ron_err *err)
{
    const char *name = path != NULL ? path : ":memory:";

    if (path != NULL) {
        RON_TRY(make_file(db, path, err));
    }
    db->engine = &engine;
    RON_TRY(start(db, name, err));
    RON_TRY(check_schema(db, name, err));
    if (db->opts.table_count > 0) {
        RON_TRY(check_rows(db, name, err));
    }
    return prepare(db, err);
}
