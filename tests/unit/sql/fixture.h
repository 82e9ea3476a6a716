/* SPDX-License-Identifier: Apache-2.0 */
/* unit/sql/fixture.h - a small store for the tests of ron/sql, in memory, in a file and in a schema
 * of a PostgreSQL of its own. */
#pragma once

#include "ron/io/linux_env.h"
#include "ron/sql/sql.h"
#include "ron/sync/sync.h"
#include "sql/priv.h"
#include "support/pg_server.h"

#define FACTS "id,name,body"
#define KINDS "itb"

enum {
    ITEM_ADD,
    ITEM_GET,
    ITEM_LIST,
    ITEM_MANY,
    ITEM_NAME,
    ITEM_SUM,
    ITEM_COUNT,
    NOTE_ADD,
    NOTE_DROP,
    NOTE_COUNT,
    NO_ROOM,
    SQL_STMTS
};

static const struct ron_sql_stmt sql_stmts[SQL_STMTS] = {
    [ITEM_ADD] = {.sqlite = "INSERT INTO item(" FACTS ",sum) VALUES(?1,?2,?3,row_sum(?1,?2,?3))",
                  .pg = "INSERT INTO t_item(" FACTS ",sum) VALUES($1,$2,$3,$4)",
                  .form = RON_SQL_ADD},
    [ITEM_GET] = {.sqlite = "SELECT " FACTS ",sum IS row_sum(" FACTS ") FROM item WHERE id=?1",
                  .pg = "SELECT " FACTS "," FACTS ",sum FROM t_item WHERE id=$1",
                  .visible = 3,
                  .kinds = KINDS},
    [ITEM_LIST] = {.sqlite = "SELECT " FACTS ",sum IS row_sum(" FACTS
                             ") FROM item WHERE id>?1 ORDER BY id",
                   .pg = "SELECT " FACTS "," FACTS ",sum FROM t_item WHERE id>$1 ORDER BY id",
                   .visible = 3,
                   .kinds = KINDS},
    [ITEM_MANY] = {.pg = "SELECT id FROM t_item WHERE id=ANY($1::int8[]) ORDER BY id",
                   .visible = 1},
    [ITEM_NAME] = {.sqlite = "UPDATE item SET name=?2 WHERE id=?1",
                   .pg = "UPDATE t_item SET name=$2 WHERE id=$1"},
    [ITEM_SUM] = {.sqlite = "UPDATE item SET sum=row_sum(" FACTS ") WHERE id=?1",
                  .pg = "SELECT " FACTS " FROM t_item WHERE id=$1",
                  .form = RON_SQL_SUM,
                  .kinds = KINDS,
                  .then = "UPDATE t_item SET sum=$2 WHERE id=$1"},
    [ITEM_COUNT] = {.sqlite = "SELECT count(*) FROM item",
                    .pg = "SELECT count(*) FROM t_item",
                    .visible = 1},
    [NOTE_ADD] = {.sqlite = "INSERT INTO note(id,text) VALUES(?1,?2)",
                  .form = RON_SQL_GATHER,
                  .kinds = "it"},
    [NOTE_DROP] = {.sqlite = "DELETE FROM note WHERE id=?1", .form = RON_SQL_GATHER, .kinds = "i"},
    [NOTE_COUNT] = {.sqlite = "SELECT count(*) FROM note",
                    .pg = "SELECT count(*) FROM t_note",
                    .visible = 1},
    [NO_ROOM] = {.pg = "SELECT t_no_room()"},
};

static const char sql_schema[] =
    "CREATE TABLE item(id INTEGER PRIMARY KEY,name TEXT NOT NULL,body BLOB,sum INTEGER NOT NULL)"
    " STRICT;"
    "CREATE TABLE note(id INTEGER PRIMARY KEY,text TEXT NOT NULL) STRICT;";

static const char sql_step[] =
    "CREATE TABLE t_box(one int4 PRIMARY KEY,layout int4 NOT NULL,epoch int8 NOT NULL,"
    "commits int8 NOT NULL);"
    "CREATE TABLE t_item(id int8 PRIMARY KEY,name text NOT NULL,body bytea,sum bytea NOT NULL);"
    "CREATE TABLE t_note(id int8 PRIMARY KEY,text text NOT NULL);"
    "CREATE FUNCTION t_no_room() RETURNS int4 LANGUAGE plpgsql AS "
    "'BEGIN RAISE EXCEPTION ''no room'' USING ERRCODE=''53100''; END';"
    "INSERT INTO t_box VALUES(1,1,0,0)";
static const char *const sql_steps[] = {sql_step};

static const char sql_write[] =
    "WITH own AS (UPDATE t_box SET commits=$2+1 WHERE one=1 AND epoch=$1 AND commits=$2 "
    "RETURNING 1),"
    "a AS (INSERT INTO t_note(id,text) SELECT v.* FROM own,unnest($3::int8[],$4::text[]) AS "
    "v(id,text)),"
    "d AS (DELETE FROM t_note USING own WHERE id=ANY($5::int8[])) SELECT count(*) FROM own";

static const struct ron_sql_table sql_tables[] = {{"item", FACTS, KINDS, "id"}};

enum { SQL_MEMORY, SQL_FILE, SQL_PG };

static int sql_kind;
static struct pg_server sql_server;
static struct ron_err sql_err;
static char sql_dir[64];
static char sql_place[256]; /* path, or connection string */

#define ok(call)                                                                                   \
    do {                                                                                           \
        enum ron_rc ok_rc_ = (call);                                                               \
        if (ok_rc_ != RON_OK) {                                                                    \
            fail_msg("%s: %s: %s", #call, ron_rc_name(ok_rc_), sql_err.msg);                       \
        }                                                                                          \
    } while (0)
#define gives(expected, call) assert_string_equal(ron_rc_name(call), ron_rc_name(RON_##expected))

static inline struct ron_str sql_text(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

/* Past the store. */
static inline void sql_script(const char *text)
{
    struct ron_pg *pg = NULL;
    struct ron_err err = {0};

    if (ron_pg_new(&(struct ron_pg_opts){.env = ron_env_linux(),
                                         .conninfo = sql_server.conninfo,
                                         .name = "test",
                                         .connect_ms = 5000},
                   &pg, &err) != RON_OK ||
        ron_pg_script(pg, text, ron_deadline_after_ms(ron_mono_ns(), 20000), &err) != RON_OK) {
        fail_msg("%s: %s", text, err.msg);
    }
    ron_pg_free(pg);
}

/* `sql` has a %s where PostgreSQL has a prefix. */
static inline void sql_change(struct ron_sql *db, const char *sql)
{
    const char *mark = strstr(sql, "%s");
    char text[512];

    (void)snprintf(text, sizeof text, "%s%s%s%.*s%s%s",
                   sql_kind == SQL_PG ? "SET search_path=" : "", sql_kind == SQL_PG ? sql_dir : "",
                   sql_kind == SQL_PG ? ";" : "", (int)(mark - sql), sql,
                   sql_kind == SQL_PG ? "t_" : "", mark + 2);
    if (sql_kind == SQL_PG) {
        sql_script(text);
    } else {
        assert_int_equal(sqlite3_exec(db->sqlite, text, NULL, NULL, NULL), SQLITE_OK);
    }
}

static inline void sql_clear_schema(void)
{
    char text[192];

    (void)snprintf(text, sizeof text, "DROP SCHEMA IF EXISTS %s CASCADE;CREATE SCHEMA %s", sql_dir,
                   sql_dir);
    sql_script(text);
}

static inline void sql_remove(void)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[300];

    for (size_t i = 0; i < RON_ARRAY_LEN(ends); i++) {
        (void)snprintf(path, sizeof path, "%s%s", sql_place, ends[i]);
        (void)unlink(path);
    }
}

static inline int sql_setup(void **state)
{
    static int count;

    (void)state;
    if (sql_kind == SQL_FILE) {
        (void)snprintf(sql_dir, sizeof sql_dir, "/tmp/ron-sql-XXXXXX");
        if (mkdtemp(sql_dir) == NULL) {
            return -1;
        }
        (void)snprintf(sql_place, sizeof sql_place, "%s/store", sql_dir);
    } else if (sql_kind == SQL_PG) {
        (void)snprintf(sql_dir, sizeof sql_dir, "s%d_%d", (int)getpid(), ++count);
        sql_clear_schema();
        (void)snprintf(sql_place, sizeof sql_place, "%s options=-csearch_path=%s",
                       sql_server.conninfo, sql_dir);
    }
    return 0;
}

static inline int sql_teardown(void **state)
{
    (void)state;
    ron_fault_hook = NULL;
    if (sql_kind == SQL_FILE) {
        sql_remove();
        (void)rmdir(sql_dir);
    }
    return 0;
}

static inline enum ron_rc sql_open_with(uint64_t wait_ms, struct ron_sql **ret, struct ron_err *err)
{
    return ron_sql_open(&(struct ron_sql_opts){.env = ron_env_linux(),
                                               .name = "test",
                                               .path = sql_kind == SQL_FILE ? sql_place : NULL,
                                               .dsn = sql_kind == SQL_PG ? sql_place : NULL,
                                               .stmts = sql_stmts,
                                               .stmt_count = SQL_STMTS,
                                               .tables = sql_tables,
                                               .table_count = RON_ARRAY_LEN(sql_tables),
                                               .application_id = 0x54657374,
                                               .layout = 1,
                                               .schema = sql_schema,
                                               .client = "ron test",
                                               .pg_table = "t_box",
                                               .pg_prefix = "t_",
                                               .pg_steps = sql_steps,
                                               .pg_step_count = RON_ARRAY_LEN(sql_steps),
                                               .pg_write = sql_write,
                                               .wait_ms = wait_ms,
                                               .open_tries = 3},
                        ret, err);
}

static inline enum ron_rc sql_open_again(struct ron_sql **ret)
{
    return sql_open_with(5000, ret, &sql_err);
}

static inline struct ron_sql *sql_open(void)
{
    struct ron_sql *db = NULL;

    ok(sql_open_again(&db));
    return db;
}

static inline enum ron_rc sql_add(struct ron_sql *db, uint64_t id, const char *name,
                                  const void *body, size_t len)
{
    struct ron_sql_use u = ron_sql_use(db, ITEM_ADD);

    ron_sql_put_u64(&u, id);
    ron_sql_put_text(&u, sql_text(name));
    ron_sql_put_bytes(&u, body, len);
    return ron_sql_run(&u, NULL, &sql_err);
}

static inline enum ron_rc sql_verify(struct ron_sql *db, uint64_t id)
{
    struct ron_sql_use u = ron_sql_use(db, ITEM_GET);
    bool row = false;
    enum ron_rc rc;

    ron_sql_put_u64(&u, id);
    rc = ron_sql_row(&u, &row, &sql_err);
    rc = rc == RON_OK && !row ? RON_NOTFOUND : rc;
    rc = rc == RON_OK ? ron_sql_get_whole(&u, &sql_err) : rc;
    ron_sql_done(&u);
    return rc;
}

static inline enum ron_rc sql_gather(struct ron_sql *db, uint32_t stmt, uint64_t id,
                                     const char *text)
{
    struct ron_sql_use u = ron_sql_use(db, stmt);

    ron_sql_put_u64(&u, id);
    if (text != NULL) {
        ron_sql_put_text(&u, sql_text(text));
    }
    return ron_sql_run(&u, NULL, &sql_err);
}

static inline enum ron_rc sql_number(struct ron_sql *db, uint32_t stmt, uint64_t *ret)
{
    struct ron_sql_use u = ron_sql_use(db, stmt);
    bool row = false;
    enum ron_rc rc = ron_sql_begin(db, RON_SQL_READ, &sql_err);

    if (rc == RON_OK) {
        rc = ron_sql_row(&u, &row, &sql_err);
        *ret = row ? ron_sql_get_u64(&u, 0) : 0;
        ron_sql_done(&u);
        rc = ron_sql_end(db, rc, &sql_err);
    }
    return rc;
}

static inline uint64_t sql_count(struct ron_sql *db)
{
    uint64_t n = UINT64_MAX;

    ok(sql_number(db, ITEM_COUNT, &n));
    return n;
}

static inline uint64_t sql_notes(struct ron_sql *db)
{
    uint64_t n = UINT64_MAX;

    ok(sql_number(db, NOTE_COUNT, &n));
    return n;
}
