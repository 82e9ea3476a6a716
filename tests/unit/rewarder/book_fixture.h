/* SPDX-License-Identifier: Apache-2.0 */
/* book_fixture.h - books in a folder of their own, and epochs brought into any state.
 *
 * The same tests run on both engines: on SQLite, and again (book_on_pg) on a PostgreSQL of the
 * test's own, where each book has a schema of its own and a path is a connection string. */
#pragma once

#include "support/pg_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include "rewarder/book/priv.h"
#include "ron/base/assert.h"
#include "ron/io/linux_env.h"
#include "ron/pg/pg.h"
#include "sql/priv.h"

enum { BOOK_PATH_SIZE = 256 };
static struct ron_err book_err;
static struct pg_server book_server;
static bool book_on_pg;
static bool book_has_pg;
static uint64_t book_wait_ms; /* 0: as always */

#define ok(call)                                                                                   \
    do {                                                                                           \
        enum ron_rc ok_rc_ = (call);                                                               \
        if (ok_rc_ != RON_OK) {                                                                    \
            fail_msg("%s: %s: %s", #call, ron_rc_name(ok_rc_), book_err.msg);                      \
        }                                                                                          \
    } while (0)

#define gives(expected, call) assert_string_equal(ron_rc_name(call), ron_rc_name(RON_##expected))

static inline struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

/* In memory when the system has such a folder: these tests end processes, not machines, and a sync
 * for each of thousands of steps would only wait. */
static inline void book_folder(char ret_dir[BOOK_PATH_SIZE])
{
    const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");

    RON_ASSERT((size_t)snprintf(ret_dir, BOOK_PATH_SIZE, "%s/ron-book.XXXXXX",
                                tmp != NULL ? tmp : "/tmp") < BOOK_PATH_SIZE);
    RON_ASSERT(mkdtemp(ret_dir) != NULL);
}

static inline void book_path(const char *dir, char ret_path[BOOK_PATH_SIZE])
{
    RON_ASSERT((size_t)snprintf(ret_path, BOOK_PATH_SIZE, "%.200s/book.db", dir) < BOOK_PATH_SIZE);
}

static inline void book_remove(const char *dir)
{
    static const char *const names[] = {"book.db",         "book.db-wal", "book.db-shm",
                                        "book.db-journal", "copy.db",     "copy.db-wal"};
    char path[BOOK_PATH_SIZE];

    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        (void)snprintf(path, sizeof path, "%.200s/%s", dir, names[i]);
        (void)unlink(path);
    }
    RON_ASSERT(rmdir(dir) == 0);
}

/* ---- PostgreSQL ------------------------------------------------------------------------------ */

/* As the owner of the database; `dir`: the name of a schema, or NULL. */
static inline void book_sql(const char *dir, const char *sql)
{
    struct ron_pg *pg = NULL;
    struct ron_err err = {0};
    char text[1024];

    RON_ASSERT((size_t)snprintf(text, sizeof text, "SET search_path=%s;%s",
                                dir != NULL ? dir : "public", sql) < sizeof text);
    if (ron_pg_new(&(struct ron_pg_opts){.env = ron_env_linux(),
                                         .conninfo = book_server.conninfo,
                                         .name = "test",
                                         .connect_ms = 5000},
                   &pg, &err) != RON_OK ||
        ron_pg_script(pg, text, ron_deadline_after_ms(ron_mono_ns(), 10000), &err) != RON_OK) {
        fail_msg("%s: %s", sql, err.msg);
    }
    ron_pg_free(pg);
}

static inline void book_schema(const char *dir)
{
    char sql[192];

    RON_ASSERT((size_t)snprintf(sql, sizeof sql,
                                "DROP SCHEMA IF EXISTS %.40s CASCADE;CREATE SCHEMA %.40s", dir,
                                dir) < sizeof sql);
    book_sql(NULL, sql);
}

/* A new schema and its connection string. */
static inline void book_place(char ret_dir[BOOK_PATH_SIZE], char ret_path[BOOK_PATH_SIZE])
{
    static int count;

    (void)snprintf(ret_dir, BOOK_PATH_SIZE, "book%d_%d", (int)getpid(), ++count);
    book_schema(ret_dir);
    RON_ASSERT((size_t)snprintf(ret_path, BOOK_PATH_SIZE, "%s options=-csearch_path=%.40s",
                                book_server.conninfo, ret_dir) < BOOK_PATH_SIZE);
}

/* `path` NULL: one that nobody else has. */
static inline enum ron_rc book_open(const char *path, uint32_t tries, struct rwd_book **ret_book)
{
    char dir[BOOK_PATH_SIZE];
    char own[BOOK_PATH_SIZE];

    if (!book_on_pg) {
        return rwd_book_open(path != NULL ? ron_env_linux() : NULL, path, ret_book, &book_err);
    }
    if (path == NULL) {
        book_place(dir, own);
    }
    return rwd_book_open_with(&(struct rwd_book_opts){.env = ron_env_linux(),
                                                      .dsn = path != NULL ? path : own,
                                                      .tries = tries,
                                                      .wait_ms = book_wait_ms},
                              ret_book, &book_err);
}

static inline int book_pg_up(void **state)
{
    (void)state;
    book_on_pg = true;
    book_has_pg = pg_server_start(&book_server);
    if (!book_has_pg) {
        print_message("no PostgreSQL 15: the tests on it are skipped\n");
    }
    return 0;
}

static inline int book_pg_down(void **state)
{
    (void)state;
    if (book_has_pg) {
        pg_server_stop(&book_server);
    }
    return 0;
}

static inline int book_ready(void **state)
{
    (void)state;
    if (book_on_pg && !book_has_pg) {
        skip();
    }
    return 0;
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static inline struct rwd_request request_of(const char *epoch, uint8_t run)
{
    struct rwd_request r = {.policy_id = "policy:v1"};

    (void)snprintf(r.epoch, sizeof r.epoch, "%s", epoch);
    memset(r.run_key.bytes, run, sizeof r.run_key.bytes);
    memset(r.inputs_cid.bytes, 2, sizeof r.inputs_cid.bytes);
    memset(r.policy_hash.bytes, 3, sizeof r.policy_hash.bytes);
    return r;
}

static inline struct rwd_manifest manifest_of(const char *epoch, uint8_t run, uint64_t payouts)
{
    struct rwd_manifest m = {.epoch = str(epoch), .residual = RWD_RESIDUAL_CARRY};

    memset(m.run_key.bytes, run, sizeof m.run_key.bytes);
    memset(m.commitment.bytes, 7, sizeof m.commitment.bytes);
    m.totals.paid = RON_MONEY_MAX;
    m.totals.residual = ron_money_of(5);
    m.payouts.count = payouts;
    return m;
}

/* A new epoch in that state; `payouts` in batches of 10. Returns the first failure. */
static inline void book_ignore(void *arg, const char *epoch)
{
    (void)arg;
    (void)epoch;
}

static inline enum ron_rc book_bring(struct rwd_book *b, const char *epoch, enum rwd_state state,
                                     uint64_t payouts, struct ron_err *err)
{
    struct rwd_request r = request_of(epoch, 1);
    struct rwd_manifest m = manifest_of(epoch, 1, payouts);
    struct rwd_batch all[64];
    struct rwd_epoch e;
    size_t count = 0;
    bool whole = false;

    RON_TRY(rwd_book_reserve(b, &r, 100, &e, err));
    if (state == RWD_RESERVED) {
        return RON_OK;
    }
    if (state == RWD_QUARANTINED) {
        return rwd_book_quarantine(b, str(epoch), RWD_BREACH_CAP, "too much", 101, err);
    }
    RON_TRY(rwd_book_move(b, str(epoch), RWD_RESERVED, RWD_COMPUTING, NULL, 102, err));
    if (state == RWD_COMPUTING) {
        return RON_OK;
    }
    RON_TRY(rwd_book_seal(b, &m, 103, err));
    if (state == RWD_SEALED) {
        return RON_OK;
    }
    RON_TRY(rwd_book_emit(b, str(epoch), 10, 104, &whole, err));
    if (state == RWD_WITHHELD) {
        return rwd_book_move(b, str(epoch), RWD_EMITTING, RWD_WITHHELD, "no answer", 105, err);
    }
    if (state == RWD_EMITTED || state == RWD_RETIRED) {
        RON_TRY(rwd_book_batches(b, str(epoch), 0, all, RON_ARRAY_LEN(all), &count, err));
        RON_TRY(rwd_book_done(b, str(epoch), all, count, 106, &whole, err));
    }
    if (state == RWD_RETIRED) { /* its residual has to go somewhere first */
        char into[RWD_EPOCH_MAX + 1];

        (void)snprintf(into, sizeof into, "%.100s-next", epoch);
        r = request_of(into, 1);
        (void)snprintf(r.carry_epoch, sizeof r.carry_epoch, "%s", epoch);
        RON_TRY(rwd_book_reserve(b, &r, 107, &e, err));
        return rwd_book_retire(b, INT64_MAX, book_ignore, NULL, err);
    }
    return RON_OK;
}

static inline enum rwd_state state_of(struct rwd_book *b, const char *epoch)
{
    struct rwd_epoch e;

    ok(rwd_book_get(b, str(epoch), &e, &book_err));
    return e.state;
}
