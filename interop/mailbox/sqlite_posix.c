/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/sqlite_posix.c - the mailbox in a file of SQLite: opening, statements,
 * transactions; contract in file.h, layout in docs/formats/interop-mailbox.md.
 *
 * Place: interop. SQLite makes its own system calls, hence _posix and the blocking points. The
 * connection belongs to the writer's thread alone and locks the file for this process. Messages are
 * appended by rising id and mostly deleted in the same order, so the tree grows at one end, shrinks
 * at the other, and a group of commits touches few pages beside its own.
 *
 * Faults for tests are asked for before each step. */
#include "interop/mailbox/file.h"

#include <sqlite3.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/fault.h"
#include "ron/base/secret.h"

enum {
    FILE_MODE = 0600,
    APPLICATION_ID = 0x496f7042, /* "IopB" */
    SCHEMA_VERSION = 1,
    BUSY_MS = 250, /* a predecessor that is closing the file needs the time of a checkpoint */
};

/* Pages of 16 KiB hold three deliveries of 4 KiB. The log is folded into the file at 16 MiB. */
static const char pragmas[] =
    "PRAGMA page_size=16384;PRAGMA locking_mode=EXCLUSIVE;PRAGMA temp_store=MEMORY;"
    "PRAGMA trusted_schema=OFF;PRAGMA cell_size_check=ON;PRAGMA journal_mode=WAL;"
    "PRAGMA synchronous=FULL;PRAGMA cache_size=-65536;PRAGMA wal_autocheckpoint=1024;"
    "PRAGMA journal_size_limit=67108864;BEGIN EXCLUSIVE;COMMIT";

static const char schema[] =
    "CREATE TABLE meta(one INTEGER PRIMARY KEY CHECK(one=1),secret BLOB NOT NULL,"
    "last_id INTEGER NOT NULL) STRICT;"
    "CREATE TABLE topics(id INTEGER PRIMARY KEY,name TEXT NOT NULL UNIQUE) STRICT;"
    "CREATE TABLE messages(id INTEGER PRIMARY KEY,topic INTEGER NOT NULL,dead INTEGER NOT NULL,"
    "deliveries INTEGER NOT NULL,due_ms INTEGER NOT NULL,sent_ms INTEGER NOT NULL,"
    "sum INTEGER NOT NULL,reason BLOB NOT NULL,head BLOB NOT NULL,body BLOB NOT NULL) STRICT;"
    "CREATE INDEX dead ON messages(topic,id) WHERE dead=1;"
    "CREATE TABLE seen(id INTEGER PRIMARY KEY,at_ms INTEGER NOT NULL,key BLOB NOT NULL) STRICT;"
    "CREATE TABLE targets(name TEXT PRIMARY KEY NOT NULL,off_ms INTEGER NOT NULL,"
    "reason BLOB NOT NULL) STRICT, WITHOUT ROWID;"
    "PRAGMA application_id=1232040002;" /* APPLICATION_ID */
    "PRAGMA user_version=1";

/* X(NAME, "sql") */
#define STATEMENTS(X)                                                                              \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(COMMIT, "COMMIT")                                                                            \
    X(ROLLBACK, "ROLLBACK")                                                                        \
    X(META_ADD, "INSERT INTO meta(one,secret,last_id) VALUES(1,?1,0)")                             \
    X(META_GET, "SELECT secret,last_id FROM meta")                                                 \
    X(META_ID, "UPDATE meta SET last_id=?1 WHERE last_id<?1")                                      \
    X(TOPIC_ADD, "INSERT INTO topics(id,name) VALUES(?1,?2)")                                      \
    X(TOPIC_DROP, "DELETE FROM topics WHERE id=?1")                                                \
    X(TOPIC_LIST, "SELECT id,name FROM topics ORDER BY id")                                        \
    X(MSG_ADD, "INSERT INTO messages(id,topic,dead,deliveries,due_ms,sent_ms,sum,reason,head,"     \
               "body) VALUES(?1,?2,0,0,?3,?4,?5,x'',?6,?7)")                                       \
    X(MSG_DROP, "DELETE FROM messages WHERE id=?1")                                                \
    X(MSG_MOVE, "UPDATE messages SET dead=?2,deliveries=?3,due_ms=?4,reason=?5 WHERE id=?1")       \
    X(MSG_GET, "SELECT topic,sent_ms,sum,reason,head,body FROM messages WHERE id=?1")              \
    X(MSG_LIST, "SELECT id,topic,dead,deliveries,due_ms,sent_ms,length(head)+length(body) "        \
                "FROM messages ORDER BY id")                                                       \
    X(MSG_DEAD,                                                                                    \
      "SELECT id FROM messages WHERE dead=1 AND topic=?1 AND id>?2 ORDER BY id LIMIT ?3")          \
    X(SEEN_ADD, "INSERT INTO seen(at_ms,key) VALUES(?1,?2)")                                       \
    X(SEEN_LIST, "SELECT at_ms,key FROM seen ORDER BY id")                                         \
    X(SEEN_DROP, "DELETE FROM seen WHERE id IN (SELECT id FROM seen ORDER BY id LIMIT ?2) "        \
                 "AND at_ms<?1")                                                                   \
    X(TARGET_OFF, "INSERT INTO targets(name,off_ms,reason) VALUES(?1,?2,?3) "                      \
                  "ON CONFLICT(name) DO UPDATE SET off_ms=?2,reason=?3")                           \
    X(TARGET_ON, "DELETE FROM targets WHERE name=?1")                                              \
    X(TARGET_GET, "SELECT reason FROM targets WHERE name=?1")

enum statement {
#define X(name, sql) SQL_##name,
    STATEMENTS(X)
#undef X
        STATEMENT_COUNT
};

static const char *const statement_sql[] = {
#define X(name, sql) [SQL_##name] = (sql),
    STATEMENTS(X)
#undef X
};

struct sq_file {
    struct iop_file base;
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENT_COUNT];
    bool held; /* MSG_GET has a row that its caller looks at */
};

static struct sq_file *of(struct iop_file *file)
{
    return RON_CONTAINER_OF(file, struct sq_file, base);
}

static enum ron_rc failed(const struct sq_file *f, int code, const char *what, struct ron_err *err)
{
    const char *text = f->db != NULL ? sqlite3_errmsg(f->db) : sqlite3_errstr(code);

    switch (code & 0xff) {
    case SQLITE_FULL:
        return ron_err_set(err, RON_FULL, "mailbox: %s: %s", what, text);
    case SQLITE_NOMEM:
        return ron_err_set(err, RON_NOMEM, "mailbox: %s: %s", what, text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: /* the schema is not the one we wrote */
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
        return ron_err_set(err, RON_CORRUPT, "mailbox: %s: %s", what, text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ron_err_set(err, RON_CONFLICT, "mailbox: %s is in use by another process", what);
    default:
        return ron_err_set_sys(err, RON_IO, f->db != NULL ? sqlite3_system_errno(f->db) : 0,
                               "mailbox: %s: %s", what, text);
    }
}

/* ---- statements ------------------------------------------------------------------------------ */

/* A use of a statement: values are bound in order, the first failure is kept. */
struct use {
    struct sq_file *file;
    sqlite3_stmt *stmt;
    int next;
    int code;
};

static struct use ask(struct sq_file *f, enum statement statement)
{
    return (struct use){.file = f, .stmt = f->statements[statement], .next = 1};
}

static void bound(struct use *u, int code)
{
    u->next++;
    u->code = u->code != SQLITE_OK ? u->code : code;
}

static void put_u64(struct use *u, uint64_t value)
{
    bound(u, sqlite3_bind_int64(u->stmt, u->next, (int64_t)value));
}

static void put_text(struct use *u, struct ron_str text)
{
    bound(u, sqlite3_bind_text64(u->stmt, u->next, text.len > 0 ? text.ptr : "", text.len,
                                 SQLITE_STATIC, SQLITE_UTF8));
}

static void put_blob(struct use *u, const void *bytes, size_t len)
{
    bound(u, sqlite3_bind_blob64(u->stmt, u->next, len > 0 ? bytes : "", len, SQLITE_STATIC));
}

static enum ron_rc step(struct use *u, bool *ret_row, struct ron_err *err)
{
    int code = u->code;

    if (code == SQLITE_OK) {
        code = RON_FAULT(RON_FAULT_SYSCALL, "sqlite3_step") ? SQLITE_IOERR : sqlite3_step(u->stmt);
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        return failed(u->file, code, "statement", err);
    }
    *ret_row = code == SQLITE_ROW;
    return RON_OK;
}

static void end(struct use *u)
{
    /* The code of a reset repeats that of the step, which was looked at. */
    (void)sqlite3_reset(u->stmt);
    (void)sqlite3_clear_bindings(u->stmt);
}

static enum ron_rc run(struct use *u, struct ron_err *err)
{
    bool row = false;
    enum ron_rc rc = step(u, &row, err);

    end(u);
    return rc;
}

static uint64_t get_u64(const struct use *u, int column)
{
    return (uint64_t)sqlite3_column_int64(u->stmt, column);
}

static struct ron_str get_str(const struct use *u, int column)
{
    const void *bytes = sqlite3_column_blob(u->stmt, column);

    return (struct ron_str){bytes != NULL ? bytes : "",
                            bytes != NULL ? (size_t)sqlite3_column_bytes(u->stmt, column) : 0};
}

/* ---- transactions ---------------------------------------------------------------------------- */

static void let_go(struct sq_file *f)
{
    if (f->held) {
        struct use u = ask(f, SQL_MSG_GET);

        end(&u);
        f->held = false;
    }
}

static enum ron_rc sq_begin(struct iop_file *file, struct ron_err *err)
{
    struct sq_file *f = of(file);
    struct use u = ask(f, SQL_BEGIN);

    ron_blocking_point("iop_file");
    let_go(f);
    return run(&u, err);
}

static void sq_rollback(struct iop_file *file)
{
    struct sq_file *f = of(file);
    let_go(f);
    if (sqlite3_get_autocommit(f->db) == 0) {
        /* Nothing of it was committed; a rollback needs no disk to say so. */
        (void)sqlite3_step(f->statements[SQL_ROLLBACK]);
        (void)sqlite3_reset(f->statements[SQL_ROLLBACK]);
    }
}

static enum ron_rc sq_commit(struct iop_file *file, uint64_t last_id, struct ron_err *err)
{
    struct sq_file *f = of(file);
    struct use u = ask(f, SQL_COMMIT);
    enum ron_rc rc = RON_OK;

    ron_blocking_point("iop_file_commit");
    let_go(f);
    if (last_id > f->base.last_id) {
        struct use id = ask(f, SQL_META_ID);

        put_u64(&id, last_id);
        rc = run(&id, err);
    }
    if (rc == RON_OK) {
        rc = run(&u, err);
    }
    if (rc != RON_OK) {
        sq_rollback(file);
        return rc;
    }
    f->base.last_id = RON_MAX(f->base.last_id, last_id);
    return RON_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static enum ron_rc sq_add_topic(struct iop_file *file, uint32_t row, struct ron_str name,
                                struct ron_err *err)
{
    struct sq_file *f = of(file);
    struct use u = ask(f, SQL_TOPIC_ADD);

    put_u64(&u, row);
    put_text(&u, name);
    return run(&u, err);
}

static enum ron_rc sq_drop_topic(struct iop_file *file, uint32_t row, struct ron_err *err)
{
    struct use u = ask(of(file), SQL_TOPIC_DROP);

    put_u64(&u, row);
    return run(&u, err);
}

static enum ron_rc sq_add(struct iop_file *file, uint64_t id, uint32_t topic, uint64_t due_ms,
                          uint64_t sent_ms, const struct iop_msg *msg, struct ron_err *err)
{
    struct sq_file *f = of(file);
    struct use u = ask(f, SQL_MSG_ADD);

    put_u64(&u, id);
    put_u64(&u, topic);
    put_u64(&u, due_ms);
    put_u64(&u, sent_ms);
    put_u64(&u, iop_row_sum(id, topic, sent_ms, msg->head, msg->body));
    put_blob(&u, msg->head.ptr, msg->head.len);
    put_blob(&u, msg->body.ptr, msg->body.len);
    return run(&u, err);
}

static enum ron_rc sq_drop(struct iop_file *file, uint64_t id, struct ron_err *err)
{
    struct sq_file *f = of(file);
    struct use u = ask(f, SQL_MSG_DROP);

    put_u64(&u, id);
    return run(&u, err);
}

static enum ron_rc sq_move(struct iop_file *file, uint64_t id, bool dead, uint32_t deliveries,
                           uint64_t due_ms, struct ron_str reason, struct ron_err *err)
{
    struct sq_file *f = of(file);
    struct use u = ask(f, SQL_MSG_MOVE);

    put_u64(&u, id);
    put_u64(&u, dead);
    put_u64(&u, deliveries);
    put_u64(&u, due_ms);
    put_blob(&u, reason.ptr, reason.len);
    return run(&u, err);
}

static enum ron_rc sq_add_seen(struct iop_file *file, const struct iop_key *key, uint64_t at_ms,
                               struct ron_err *err)
{
    struct sq_file *f = of(file);
    struct use u = ask(f, SQL_SEEN_ADD);

    put_u64(&u, at_ms);
    put_blob(&u, key->bytes, sizeof key->bytes);
    return run(&u, err);
}

static enum ron_rc sq_drop_seen(struct iop_file *file, uint64_t before_ms, uint32_t max,
                                struct ron_err *err)
{
    struct sq_file *f = of(file);
    struct use u = ask(f, SQL_SEEN_DROP);

    put_u64(&u, before_ms);
    put_u64(&u, max);
    RON_TRY(run(&u, err));
    f->base.swept = (uint64_t)sqlite3_changes64(f->db);
    return RON_OK;
}

static enum ron_rc sq_target(struct iop_file *file, struct ron_str name, bool off, uint64_t at_ms,
                             struct ron_str reason, struct ron_err *err)
{
    struct sq_file *f = of(file);
    struct use u = ask(f, off ? SQL_TARGET_OFF : SQL_TARGET_ON);

    put_text(&u, name);
    if (off) {
        put_u64(&u, at_ms);
        put_blob(&u, reason.ptr, reason.len);
    }
    return run(&u, err);
}

static enum ron_rc sq_target_off(struct iop_file *file, struct ron_str name, bool *ret_off,
                                 struct ron_buf *reason, struct ron_err *err)
{
    struct sq_file *f = of(file);
    struct use u = ask(f, SQL_TARGET_GET);
    bool row = false;
    enum ron_rc rc;

    put_text(&u, name);
    rc = step(&u, &row, err);
    if (rc == RON_OK && row && reason != NULL) {
        struct ron_str text = get_str(&u, 0);

        rc = ron_buf_append(reason, text.ptr, text.len);
    }
    end(&u);
    if (rc == RON_OK) {
        *ret_off = row;
    }
    return rc;
}

static enum ron_rc sq_dead(struct iop_file *file, uint32_t topic, uint64_t after_id,
                           uint64_t *ret_ids, uint32_t max, uint32_t *ret_count,
                           struct ron_err *err)
{
    struct sq_file *f = of(file);
    struct use u = ask(f, SQL_MSG_DEAD);
    uint32_t count = 0;
    bool row = true;
    enum ron_rc rc = RON_OK;

    put_u64(&u, topic);
    put_u64(&u, RON_MIN(after_id, (uint64_t)INT64_MAX));
    put_u64(&u, max);
    while (rc == RON_OK && row && count < max) {
        rc = step(&u, &row, err);
        if (rc == RON_OK && row) {
            ret_ids[count++] = get_u64(&u, 0);
        }
    }
    end(&u);
    *ret_count = count;
    return rc;
}

static enum ron_rc sq_get(struct iop_file *file, uint64_t id, uint32_t topic,
                          struct iop_row *ret_row, struct ron_err *err)
{
    struct sq_file *f = of(file);
    struct use u = ask(f, SQL_MSG_GET);
    struct iop_row r;
    bool row = false;
    enum ron_rc rc;

    ron_blocking_point("iop_file_get");
    let_go(f);
    put_u64(&u, id);
    rc = step(&u, &row, err);
    if (rc != RON_OK || !row) {
        end(&u);
        return rc != RON_OK ? rc : ron_err_set(err, RON_CORRUPT, "mailbox: message row is missing");
    }
    r = (struct iop_row){.sent_ms = get_u64(&u, 1),
                         .reason = get_str(&u, 3),
                         .head = get_str(&u, 4),
                         .body = get_str(&u, 5)};
    if (get_u64(&u, 0) != topic ||
        get_u64(&u, 2) != iop_row_sum(id, topic, r.sent_ms, r.head, r.body)) {
        end(&u);
        return ron_err_set(err, RON_CORRUPT, "mailbox: message row is corrupt");
    }
    f->held = true;
    *ret_row = r;
    return RON_OK;
}

/* ---- loading --------------------------------------------------------------------------------- */

static enum ron_rc load_topic(const struct use *u, const struct iop_file_load *load)
{
    return iop_load_topic(load, get_u64(u, 0), get_str(u, 1));
}

static enum ron_rc load_message(const struct use *u, const struct iop_file_load *load)
{
    uint64_t facts[IOP_LOAD_FACTS];

    for (int i = 0; i < IOP_LOAD_FACTS; i++) {
        facts[i] = get_u64(u, i);
    }
    return iop_load_message(load, facts);
}

static enum ron_rc load_seen(const struct use *u, const struct iop_file_load *load)
{
    return iop_load_seen(load, get_u64(u, 0), get_str(u, 1));
}

static enum ron_rc sq_load(struct iop_file *file, const struct iop_file_load *load,
                           struct ron_err *err)
{
    struct sq_file *f = of(file);
    static const struct {
        enum statement statement;
        enum ron_rc (*each)(const struct use *u, const struct iop_file_load *load);
        const char *what;
    } tables[] = {{SQL_TOPIC_LIST, load_topic, "topics"},
                  {SQL_MSG_LIST, load_message, "messages"},
                  {SQL_SEEN_LIST, load_seen, "keys"}};

    ron_blocking_point("iop_file_load");
    for (size_t i = 0; i < RON_ARRAY_LEN(tables); i++) {
        struct use u = ask(f, tables[i].statement);
        bool row = true;
        enum ron_rc rc = RON_OK;

        while (rc == RON_OK && row) {
            rc = step(&u, &row, err);
            if (rc == RON_OK && row) {
                rc = tables[i].each(&u, load);
                if (rc != RON_OK) {
                    rc = ron_err_set(err, rc, "mailbox: too many %s in the file", tables[i].what);
                }
            }
        }
        end(&u);
        RON_TRY(rc);
    }
    return RON_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum ron_rc run_sql(struct sq_file *f, const char *sql, const char *what,
                           struct ron_err *err)
{
    int code = RON_FAULT(RON_FAULT_SYSCALL, "sqlite3_exec")
                   ? SQLITE_IOERR
                   : sqlite3_exec(f->db, sql, NULL, NULL, NULL);

    return code == SQLITE_OK ? RON_OK : failed(f, code, what, err);
}

static enum ron_rc ask_number(struct sq_file *f, const char *sql, int64_t *ret, struct ron_err *err)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(f->db, sql, -1, &stmt, NULL);
    enum ron_rc rc = RON_OK;

    if (code == SQLITE_OK) {
        code = RON_FAULT(RON_FAULT_SYSCALL, "sqlite3_step") ? SQLITE_IOERR : sqlite3_step(stmt);
    }
    if (code == SQLITE_ROW) {
        *ret = sqlite3_column_int64(stmt, 0);
    } else {
        rc = failed(f, code, "look", err);
    }
    (void)sqlite3_finalize(stmt);
    return rc;
}

static enum ron_rc prepare(struct sq_file *f, struct ron_err *err)
{
    for (unsigned i = 0; i < STATEMENT_COUNT; i++) {
        int code = sqlite3_prepare_v3(f->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                                      &f->statements[i], NULL);

        if (code != SQLITE_OK) {
            return failed(f, code, "prepare", err);
        }
    }
    return RON_OK;
}

/* Schema and secret of a fresh file, in one transaction. */
static enum ron_rc create(struct sq_file *f, const struct ron_env *env, struct ron_err *err)
{
    uint8_t secret[RON_B3_BYTES];
    struct use u;
    enum ron_rc rc;

    iop_file_new_secret(env, secret);
    RON_TRY(run_sql(f, "BEGIN IMMEDIATE", "begin", err));
    RON_TRY(run_sql(f, schema, "schema", err));
    RON_TRY(prepare(f, err));
    u = ask(f, SQL_META_ADD);
    put_blob(&u, secret, sizeof secret);
    rc = run(&u, err);
    ron_wipe(secret, sizeof secret);
    RON_TRY(rc);
    return run_sql(f, "COMMIT", "commit", err);
}

static enum ron_rc read_meta(struct sq_file *f, const char *path, struct ron_err *err)
{
    struct use u = ask(f, SQL_META_GET);
    bool row = false;
    enum ron_rc rc = step(&u, &row, err);

    if (rc == RON_OK) {
        struct ron_str secret = row ? get_str(&u, 0) : (struct ron_str){"", 0};

        if (secret.len == sizeof f->base.secret) {
            memcpy(f->base.secret, secret.ptr, sizeof f->base.secret);
            f->base.last_id = get_u64(&u, 1);
        } else {
            rc = ron_err_set(err, RON_CORRUPT, "%s has no deduplication secret", path);
        }
    }
    end(&u);
    return rc;
}

static enum ron_rc check_schema(struct sq_file *f, const struct ron_env *env, const char *path,
                                struct ron_err *err)
{
    int64_t tables = 0;
    int64_t application = 0;
    int64_t version = 0;

    RON_TRY(ask_number(f, "SELECT count(*) FROM sqlite_schema", &tables, err));
    RON_TRY(ask_number(f, "PRAGMA application_id", &application, err));
    RON_TRY(ask_number(f, "PRAGMA user_version", &version, err));
    if (tables == 0 && application == 0 && version == 0) {
        RON_TRY(create(f, env, err));
    } else if (application != APPLICATION_ID) {
        return ron_err_set(err, RON_CORRUPT, "%s is not a mailbox", path);
    } else if (version > SCHEMA_VERSION) {
        return ron_err_set(err, RON_UNSUPPORTED,
                           "%s: unsupported layout %lld (this program supports %d)", path,
                           (long long)version, SCHEMA_VERSION);
    } else {
        RON_TRY(prepare(f, err));
    }
    return read_meta(f, path, err);
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
        return ron_err_set(err, RON_NOMEM, "mailbox: out of memory");
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
        return ron_err_set(err, rc, "mailbox: %s", why.msg);
    }
    env->disk->close(env, fd);
    return sync_folder(env, path, err);
}

static void sq_close(struct iop_file *file)
{
    struct sq_file *f = of(file);

    ron_blocking_point("iop_file_close");
    for (unsigned i = 0; i < STATEMENT_COUNT; i++) {
        (void)sqlite3_finalize(f->statements[i]);
    }
    /* What is committed is in the log already; a checkpoint that fails here is made at the next
     * opening. */
    (void)sqlite3_close(f->db);
    ron_wipe(f->base.secret, sizeof f->base.secret);
    ron_free(f);
}

static enum ron_rc sq_look(struct iop_file *file, bool *ret_stale, struct ron_err *err)
{
    (void)file;
    (void)err;
    *ret_stale = false; /* nobody else has it */
    return RON_OK;
}

static enum ron_rc sq_fetch(struct iop_file *file, const uint64_t *ids, uint32_t count,
                            struct ron_err *err)
{
    (void)file;
    (void)ids;
    (void)count;
    (void)err;
    return RON_OK; /* a row is a read of memory away */
}

static const struct iop_file_ops ops = {.name = "sqlite",
                                        .close = sq_close,
                                        .look = sq_look,
                                        .load = sq_load,
                                        .begin = sq_begin,
                                        .commit = sq_commit,
                                        .rollback = sq_rollback,
                                        .add_topic = sq_add_topic,
                                        .drop_topic = sq_drop_topic,
                                        .add = sq_add,
                                        .drop = sq_drop,
                                        .move = sq_move,
                                        .add_seen = sq_add_seen,
                                        .drop_seen = sq_drop_seen,
                                        .target = sq_target,
                                        .dead = sq_dead,
                                        .target_off = sq_target_off,
                                        .fetch = sq_fetch,
                                        .get = sq_get};

enum ron_rc iop_file_open_sqlite(const struct ron_env *env, const char *path,
                                 struct iop_file **ret_file, struct ron_err *err)
{
    const char *name = path != NULL ? path : ":memory:";
    struct sq_file *f;
    enum ron_rc rc = RON_OK;
    int code;

    ron_blocking_point("iop_file_open");
    if (path != NULL) {
        RON_TRY(make_file(env, path, err));
    }
    f = ron_alloc_zero(sizeof *f);
    if (f == NULL) {
        return ron_err_set(err, RON_NOMEM, "mailbox: out of memory");
    }
    f->base.ops = &ops;
    code = sqlite3_open_v2(
        name, &f->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_busy_timeout(f->db, BUSY_MS);
    }
    rc = code == SQLITE_OK ? run_sql(f, pragmas, "open", err) : failed(f, code, "open", err);
    if (rc == RON_OK) {
        rc = check_schema(f, env, name, err);
    }
    if (rc != RON_OK) {
        sq_close(&f->base);
        return rc;
    }
    *ret_file = &f->base;
    return RON_OK;
}
