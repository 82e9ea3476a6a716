/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/book/sqlite_posix.c - the book in a file of SQLite: opening, checking, statements,
 * transactions.
 *
 * Place: rewarder. SQLite makes its own system calls, which is why the files of the book end in
 * _posix and why each call says that it may wait for the disk (ron_blocking_point). The layout is
 * in docs/formats/rewarder.md.
 *
 * A commit is in the write-ahead log and synced (synchronous=FULL) before COMMIT returns: B5. A
 * process that dies leaves a log whose last whole commit counts. The file is locked by this process
 * until the book is closed (locking_mode=EXCLUSIVE), so no one else can move an epoch behind its
 * back. SQLite itself has no checksums on pages: integrity_check finds broken structure, row_sum a
 * changed value (B6).
 *
 * Failure: a transaction that fails is taken back; codes are mapped in `failed`. Faults for tests
 * are asked for before each step. */
#include "rewarder/book/priv.h"

#include "ron/base/alloc.h"
#include "ron/base/fault.h"

enum {
    FILE_MODE = 0600,
    APPLICATION_ID = 0x52657762, /* "Rewb" */
    SCHEMA_VERSION = 1,
    /* A predecessor that was killed has let go of the file before we start; one that is closing it
     * needs the time of a checkpoint. */
    BUSY_MS = 250,
};

static const char schema[] =
    "CREATE TABLE epochs("
    "epoch TEXT PRIMARY KEY NOT NULL,run_key BLOB NOT NULL,inputs_cid BLOB NOT NULL,"
    "policy_id TEXT NOT NULL,policy_hash BLOB NOT NULL,ledger_root BLOB,ledger_seq INTEGER,"
    "carry_epoch TEXT NOT NULL,state TEXT NOT NULL,breach TEXT NOT NULL,reason TEXT NOT NULL,"
    "commitment BLOB,paid TEXT NOT NULL,residual TEXT NOT NULL,carries INTEGER NOT NULL,"
    "intents INTEGER NOT NULL,created_ms INTEGER NOT NULL,changed_ms INTEGER NOT NULL,"
    "sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE INDEX epochs_by_state ON epochs(state,epoch);"
    "CREATE TABLE carries("
    "from_epoch TEXT PRIMARY KEY NOT NULL,into_epoch TEXT NOT NULL,sum INTEGER NOT NULL)"
    " STRICT, WITHOUT ROWID;"
    "CREATE UNIQUE INDEX carries_by_into ON carries(into_epoch);"
    "CREATE TABLE batches("
    "epoch TEXT NOT NULL REFERENCES epochs(epoch),no INTEGER NOT NULL,first INTEGER NOT NULL,"
    "entries INTEGER NOT NULL,attempt INTEGER NOT NULL,ts_ms INTEGER NOT NULL,"
    "done INTEGER NOT NULL,seq_first INTEGER NOT NULL,seq_last INTEGER NOT NULL,"
    "commit_ms INTEGER NOT NULL,sum INTEGER NOT NULL,PRIMARY KEY(epoch,no))"
    " STRICT, WITHOUT ROWID;"
    "CREATE INDEX batches_open ON batches(epoch,no) WHERE done=0;"
    "CREATE TABLE policies("
    "hash BLOB PRIMARY KEY NOT NULL,id TEXT NOT NULL,version INTEGER NOT NULL,"
    "is_signed INTEGER NOT NULL,document BLOB NOT NULL,kept_ms INTEGER NOT NULL,"
    "sum INTEGER NOT NULL,UNIQUE(id,version)) STRICT, WITHOUT ROWID;"
    "PRAGMA application_id=1382381410;" /* APPLICATION_ID */
    "PRAGMA user_version=1";

/* Rows that are not what was written. */
static const char damaged[] =
    "SELECT (SELECT count(*) FROM epochs WHERE sum IS NOT row_sum(" RWD__EPOCH_FACTS "))"
    "+(SELECT count(*) FROM carries WHERE sum IS NOT row_sum(" RWD__CARRY_FACTS "))"
    "+(SELECT count(*) FROM batches WHERE sum IS NOT row_sum(" RWD__BATCH_FACTS "))"
    "+(SELECT count(*) FROM policies WHERE sum IS NOT row_sum(" RWD__POLICY_FACTS "))";

static const char *const statement_sql[] = {
#define X(name, sql) [RWD__##name] = (sql),
    RWD__STATEMENTS(X)
#undef X
};

static enum ron_rc failed(struct rwd_book *b, int code, const char *what, struct ron_err *err)
{
    const char *text = b->db != NULL ? sqlite3_errmsg(b->db) : sqlite3_errstr(code);

    switch (code & 0xff) {
    case SQLITE_FULL:
        return ron_err_set(err, RON_LIMIT, "book: %s: %s", what, text);
    case SQLITE_NOMEM:
        return ron_err_set(err, RON_NOMEM, "book: %s: %s", what, text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: /* the schema is not the one we wrote */
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
        return ron_err_set(err, RON_CORRUPT, "book: %s: %s", what, text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ron_err_set(err, RON_CONFLICT, "book: %s: another process has it open", what);
    default:
        return ron_err_set_sys(err, RON_IO, b->db != NULL ? sqlite3_system_errno(b->db) : 0,
                               "book: %s: %s", what, text);
    }
}

/* ---- statements ------------------------------------------------------------------------------ */

static void sq_ask(struct rwd__use *u)
{
    u->stmt = u->book->statements[u->statement];
}

static void sq_put(struct rwd__use *u, enum rwd__kind kind, const void *bytes, size_t len,
                   uint64_t number)
{
    /* A NULL pointer would be bound as NULL. */
    const void *some = len > 0 ? bytes : "";
    int code = SQLITE_OK;

    switch (kind) {
    case RWD__INT:
        code = sqlite3_bind_int64(u->stmt, u->next, (int64_t)number);
        break;
    case RWD__TEXT:
        code = sqlite3_bind_text64(u->stmt, u->next, some, len, SQLITE_STATIC, SQLITE_UTF8);
        break;
    case RWD__BYTES:
        code = sqlite3_bind_blob64(u->stmt, u->next, some, len, SQLITE_STATIC);
        break;
    case RWD__NULL:
        code = sqlite3_bind_null(u->stmt, u->next);
        break;
    }
    u->next++;
    u->code = u->code != SQLITE_OK ? u->code : code;
}

static enum ron_rc sq_row(struct rwd__use *u, bool *ret_row, struct ron_err *err)
{
    int code = u->code;

    if (code == SQLITE_OK) {
        code = RON_FAULT(RON_FAULT_SYSCALL, "sqlite3_step") ? SQLITE_IOERR : sqlite3_step(u->stmt);
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        return failed(u->book, code, "statement", err);
    }
    *ret_row = code == SQLITE_ROW;
    return RON_OK;
}

static void sq_end(struct rwd__use *u)
{
    /* The code of a reset repeats that of the step, which was looked at. */
    (void)sqlite3_reset(u->stmt);
    (void)sqlite3_clear_bindings(u->stmt);
}

static uint64_t sq_changes(const struct rwd__use *u)
{
    return (uint64_t)sqlite3_changes64(u->book->db);
}

static uint64_t sq_get_u64(const struct rwd__use *u, int column)
{
    return (uint64_t)sqlite3_column_int64(u->stmt, column);
}

static struct ron_str sq_get_str(const struct rwd__use *u, int column)
{
    const void *bytes = sqlite3_column_blob(u->stmt, column);

    return (struct ron_str){bytes,
                            bytes != NULL ? (size_t)sqlite3_column_bytes(u->stmt, column) : 0};
}

/* ---- transactions ---------------------------------------------------------------------------- */

static enum ron_rc sq_begin(struct rwd_book *b, bool writes, struct ron_err *err)
{
    struct rwd__use u = rwd__ask(b, RWD__BEGIN);

    return writes ? rwd__run(&u, NULL, err) : RON_OK;
}

static bool sq_within(struct rwd_book *b)
{
    return sqlite3_get_autocommit(b->db) == 0;
}

static enum ron_rc sq_commit(struct rwd_book *b, struct ron_err *err)
{
    struct rwd__use u = rwd__ask(b, RWD__COMMIT);

    return rwd__run(&u, NULL, err);
}

static void sq_rollback(struct rwd_book *b)
{
    /* Nothing of it was committed; a rollback needs no disk to say so. */
    (void)sqlite3_step(b->statements[RWD__ROLLBACK]);
    (void)sqlite3_reset(b->statements[RWD__ROLLBACK]);
}

static void sq_close(struct rwd_book *b)
{
    for (unsigned i = 0; i < RWD__STATEMENT_COUNT; i++) {
        (void)sqlite3_finalize(b->statements[i]);
    }
    /* What is committed is in the log already; a checkpoint that fails here is made at the next
     * opening. */
    (void)sqlite3_close(b->db);
}

static const struct rwd__engine engine = {.close = sq_close,
                                          .begin = sq_begin,
                                          .within = sq_within,
                                          .commit = sq_commit,
                                          .rollback = sq_rollback,
                                          .ask = sq_ask,
                                          .put = sq_put,
                                          .row = sq_row,
                                          .end = sq_end,
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
        enum rwd__kind kind = (enum rwd__kind)sqlite3_value_type(values[i]);

        if (kind == RWD__INT || kind == RWD__NULL) {
            rwd__sum_add(&h, kind, NULL, 0,
                         kind == RWD__INT ? (uint64_t)sqlite3_value_int64(values[i]) : 0);
        } else {
            const void *bytes = sqlite3_value_blob(values[i]);

            rwd__sum_add(&h, kind, bytes, (size_t)sqlite3_value_bytes(values[i]), 0);
        }
    }
    sqlite3_result_int64(context, (int64_t)rwd__sum_end(&h));
}

static enum ron_rc run_sql(struct rwd_book *b, const char *sql, const char *what,
                           struct ron_err *err)
{
    int code = RON_FAULT(RON_FAULT_SYSCALL, "sqlite3_exec")
                   ? SQLITE_IOERR
                   : sqlite3_exec(b->db, sql, NULL, NULL, NULL);

    return code == SQLITE_OK ? RON_OK : failed(b, code, what, err);
}

/* The first column of the first row as a number, and whether it reads "ok". */
static enum ron_rc ask_sql(struct rwd_book *b, const char *sql, int64_t *ret_number, bool *ret_ok,
                           struct ron_err *err)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(b->db, sql, -1, &stmt, NULL);
    enum ron_rc rc = RON_OK;

    if (code == SQLITE_OK) {
        code = RON_FAULT(RON_FAULT_SYSCALL, "sqlite3_step") ? SQLITE_IOERR : sqlite3_step(stmt);
    }
    if (code == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(stmt, 0);

        *ret_number = sqlite3_column_int64(stmt, 0);
        *ret_ok = text != NULL && strcmp((const char *)text, "ok") == 0;
    } else {
        rc = failed(b, code, "look", err);
    }
    (void)sqlite3_finalize(stmt);
    return rc;
}

/* Makes the schema in an empty file, or finds ours. */
static enum ron_rc check_schema(struct rwd_book *b, const char *path, struct ron_err *err)
{
    int64_t tables = 0;
    int64_t application = 0;
    int64_t version = 0;
    bool ok = false;

    RON_TRY(ask_sql(b, "SELECT count(*) FROM sqlite_schema", &tables, &ok, err));
    RON_TRY(ask_sql(b, "PRAGMA application_id", &application, &ok, err));
    RON_TRY(ask_sql(b, "PRAGMA user_version", &version, &ok, err));
    if (tables == 0 && application == 0 && version == 0) {
        RON_TRY(run_sql(b, "BEGIN IMMEDIATE", "begin", err));
        RON_TRY(run_sql(b, schema, "schema", err));
        return run_sql(b, "COMMIT", "commit", err);
    }
    if (application != APPLICATION_ID) {
        return ron_err_set(err, RON_CORRUPT, "%s is no book of a rewarder", path);
    }
    if (version > SCHEMA_VERSION) {
        return ron_err_set(err, RON_UNSUPPORTED, "%s has layout %lld; this program knows %d", path,
                           (long long)version, SCHEMA_VERSION);
    }
    if (version != SCHEMA_VERSION) {
        return ron_err_set(err, RON_CORRUPT, "%s has no layout", path);
    }
    return RON_OK;
}

static enum ron_rc check_rows(struct rwd_book *b, const char *path, struct ron_err *err)
{
    int64_t number = 0;
    bool ok = false;

    RON_TRY(ask_sql(b, "PRAGMA integrity_check(1)", &number, &ok, err));
    if (!ok) {
        return ron_err_set(err, RON_CORRUPT, "%s is damaged", path);
    }
    RON_TRY(ask_sql(b, damaged, &number, &ok, err));
    if (number != 0) {
        return ron_err_set(err, RON_CORRUPT, "%s: %lld rows are not what was written", path,
                           (long long)number);
    }
    return RON_OK;
}

static enum ron_rc prepare(struct rwd_book *b, struct ron_err *err)
{
    for (unsigned i = 0; i < RWD__STATEMENT_COUNT; i++) {
        int code = sqlite3_prepare_v3(b->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                                      &b->statements[i], NULL);

        if (code != SQLITE_OK) {
            return failed(b, code, "prepare", err);
        }
    }
    return RON_OK;
}

/* The name itself must survive too. */
static enum ron_rc sync_folder(const struct ron_env *env, const char *path, struct ron_err *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = NULL;
    enum ron_rc rc;

    if (slash == NULL) {
        return env->disk->sync_dir(env, ".", err);
    }
    folder = ron_strdup(path);
    if (folder == NULL) {
        return ron_err_set(err, RON_NOMEM, "book: no memory");
    }
    folder[slash == path ? 1 : slash - path] = '\0';
    rc = env->disk->sync_dir(env, folder, err);
    ron_free(folder);
    return rc;
}

/* SQLite would make it readable for all; its log takes the permissions of the file. */
static enum ron_rc make_file(const struct ron_env *env, const char *path, struct ron_err *err)
{
    struct ron_err why = {0};
    int fd = -1;
    enum ron_rc rc = env->disk->open(env, path, RON_OPEN_CREATE | RON_OPEN_EXCL | RON_OPEN_WRITE,
                                     FILE_MODE, &fd, &why);

    if (rc == RON_EXISTS) {
        return RON_OK;
    }
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "book: %s", why.msg);
    }
    env->disk->close(env, fd);
    return sync_folder(env, path, err);
}

static enum ron_rc start(struct rwd_book *b, const char *path, struct ron_err *err)
{
    int code = sqlite3_open_v2(
        path, &b->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);

    if (code == SQLITE_OK) {
        code = sqlite3_busy_timeout(b->db, BUSY_MS);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_create_function_v2(b->db, "row_sum", -1,
                                          SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
                                          NULL, row_sum, NULL, NULL, NULL);
    }
    if (code != SQLITE_OK) {
        return failed(b, code, "open", err);
    }
    /* temp_store: amnesia must leave no temporary file either. */
    RON_TRY(run_sql(b,
                    "PRAGMA locking_mode=EXCLUSIVE;PRAGMA temp_store=MEMORY;"
                    "PRAGMA trusted_schema=OFF;PRAGMA cell_size_check=ON;"
                    "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;PRAGMA foreign_keys=ON;"
                    "PRAGMA journal_size_limit=4194304;BEGIN EXCLUSIVE;COMMIT",
                    "open", err));
    RON_TRY(check_schema(b, path, err));
    RON_TRY(check_rows(b, path, err));
    return prepare(b, err);
}

enum ron_rc rwd__open_sqlite(struct rwd_book *b, const struct ron_env *env, const char *path,
                             struct ron_err *err)
{
    if (path != NULL) {
        RON_TRY(make_file(env, path, err));
    }
    b->engine = &engine;
    return start(b, path != NULL ? path : ":memory:", err);
}
