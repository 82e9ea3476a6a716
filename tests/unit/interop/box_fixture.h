/* SPDX-License-Identifier: Apache-2.0 */
/* box_fixture.h - a store of the mailbox with a clock of the test, and short ways to ask it.
 *
 * The same tests run on both kinds of storage: BOX_MAIN runs a list of them on SQLite, and again on
 * a PostgreSQL of the test's own, each mailbox in a schema of its own. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "interop/mailbox/store.h"
#include "ron/io/linux_env.h"
#include "ron/pg/pg.h"
#include "support/pg_server.h"

static struct pg_server box_server;
static bool box_on_pg; /* the tests at hand */
static bool box_has_pg;

struct box_clock {
    uint64_t ns;
    uint64_t wall_ms;
};

struct box {
    struct iop_store store;
    struct ron_env env;
    struct box_clock clock;
    char dir[64];
    char path[96];
    char schema[32];
    char dsn[192];
    struct iop_store_opts opts;
};

/* As the owner of the database, outside of any mailbox. */
static inline void box_sql(const char *sql)
{
    struct ron_pg *pg = NULL;
    struct ron_err err = {0};

    if (ron_pg_new(&(struct ron_pg_opts){.env = ron_env_linux(),
                                         .conninfo = box_server.conninfo,
                                         .name = "test",
                                         .connect_ms = 5000},
                   &pg, &err) != RON_OK ||
        ron_pg_script(pg, sql, ron_deadline_after_ms(ron_mono_ns(), 10000), &err) != RON_OK) {
        fail_msg("%s: %s", sql, err.msg);
    }
    ron_pg_free(pg);
}

static inline void box_make_schema(struct box *b)
{
    static int count;
    char sql[64];

    (void)snprintf(b->schema, sizeof b->schema, "box%d_%d", (int)getpid(), ++count);
    (void)snprintf(b->dsn, sizeof b->dsn, "%s options=-csearch_path=%s", box_server.conninfo,
                   b->schema);
    (void)snprintf(sql, sizeof sql, "CREATE SCHEMA %s", b->schema);
    box_sql(sql);
}

/* Changes rows behind the back of a closed mailbox in PostgreSQL. */
static inline void box_change(const struct box *b, const char *sql)
{
    char text[512];

    (void)snprintf(text, sizeof text, "SET search_path=%s;%s", b->schema, sql);
    box_sql(text);
}

static inline uint64_t box_mono(void *ctx)
{
    return ((struct box_clock *)ctx)->ns;
}

static inline uint64_t box_wall(void *ctx)
{
    return ((struct box_clock *)ctx)->wall_ms;
}

/* The system's would be asked for more now and then, at which a sweep must not fail. */
static inline uint64_t box_rand(const struct ron_env *env)
{
    static uint64_t n;

    (void)env;
    n += UINT64_C(0x9e3779b97f4a7c15);
    return n ^ n >> 29;
}

static inline struct ron_str box_str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

/* Before box_open; with `file` in a fresh folder. */
static inline void box_init(struct box *b, bool file)
{
    *b = (struct box){.clock = {.ns = RON_NS_PER_S, .wall_ms = UINT64_C(1700000000000)}};
    b->env = *ron_env_linux();
    b->env.clock = (struct ron_clock){box_mono, box_wall, &b->clock};
    b->env.rand_u64 = box_rand;
    if (box_on_pg) {
        box_make_schema(b);
    } else if (file) {
        (void)snprintf(b->dir, sizeof b->dir, "/tmp/ron-box-XXXXXX");
        assert_non_null(mkdtemp(b->dir));
        (void)snprintf(b->path, sizeof b->path, "%s/mailbox.db", b->dir);
    }
    b->opts = (struct iop_store_opts){.env = &b->env,
                                      .path = file ? b->path : NULL,
                                      .dsn = box_on_pg ? b->dsn : NULL,
                                      .limits = iop_box_limits_default(),
                                      .seen_max = 1000,
                                      .seen_ttl_ms = 60000,
                                      .seen_keep_ms = 10000};
    b->opts.limits.deliveries_max = 3;
}

static inline enum ron_rc box_open(struct box *b)
{
    return iop_store_open(&b->store, &b->opts, NULL);
}

static inline void box_remove(struct box *b)
{
    static const char *const ends[] = {"", "-wal", "-journal", "-shm"};
    char name[128];

    for (size_t i = 0; b->dir[0] != '\0' && i < RON_ARRAY_LEN(ends); i++) {
        (void)snprintf(name, sizeof name, "%s%s", b->path, ends[i]);
        (void)unlink(name);
    }
    if (b->dir[0] != '\0') {
        (void)rmdir(b->dir);
    }
    if (b->schema[0] != '\0') {
        (void)snprintf(name, sizeof name, "DROP SCHEMA %s CASCADE", b->schema);
        box_sql(name);
    }
}

static inline void box_reopen(struct box *b)
{
    iop_store_stop(&b->store);
    iop_store_close(&b->store);
    assert_int_equal(box_open(b), RON_OK);
}

static inline void box_close(struct box *b)
{
    iop_store_stop(&b->store);
    iop_store_close(&b->store);
    box_remove(b);
}

static inline void box_pass(struct box *b, uint64_t ms)
{
    b->clock.ns += ms * RON_NS_PER_MS;
    b->clock.wall_ms += ms;
    iop_store_tick(&b->store);
}

/* ---- operations ------------------------------------------------------------------------------ */

static inline void box_done(struct iop_op *op)
{
    (*(unsigned *)op->arg)++;
}

/* Applies one and expects its answer now. */
static inline enum ron_rc box_apply(struct box *b, struct iop_op *op)
{
    unsigned answers = 0;
    struct iop_op *ops[1] = {op};

    op->done = box_done;
    op->arg = &answers;
    iop_store_apply(&b->store, ops, 1);
    RON_ASSERT(answers == 1);
    return op->rc;
}

static inline enum ron_rc box_put(struct box *b, const char *topic, const char *body,
                                  uint64_t delay_ms, uint64_t *ret_id)
{
    struct iop_msg msg = {.topic = box_str(topic),
                          .head = box_str("{}"),
                          .body = box_str(body),
                          .delay_ms = delay_ms};
    struct iop_op op = {.kind = IOP_OP_PUT, .put = {.msgs = &msg, .count = 1}};
    enum ron_rc rc = box_apply(b, &op);

    if (ret_id != NULL) {
        *ret_id = op.put.first_id;
    }
    return rc;
}

static inline enum ron_rc box_put_key(struct box *b, const char *topic, const char *body,
                                      const char *id, bool *ret_duplicate)
{
    struct iop_msg msg = {.topic = box_str(topic), .body = box_str(body)};
    struct iop_op op = {.kind = IOP_OP_PUT, .put = {.msgs = &msg, .count = 1, .has_key = true}};
    enum ron_rc rc;

    iop_seen_key(b->store.seen, box_str("github"), box_str(id), NULL, &op.put.key);
    rc = box_apply(b, &op);
    *ret_duplicate = op.put.duplicate;
    return rc;
}

/* At most one message; count 0: none. The body is copied as text. */
static inline uint32_t box_recv(struct box *b, const char *topic, struct iop_receipt *ret_receipt,
                                char *ret_body, size_t size)
{
    struct iop_op op = {
        .kind = IOP_OP_RECV,
        .recv = {.topic = box_str(topic), .max = 1, .max_bytes = 1 << 20, .visibility_ms = 1000}};
    uint32_t count;

    assert_int_equal(box_apply(b, &op), RON_OK);
    count = op.recv.count;
    if (count > 0) {
        *ret_receipt = op.recv.got[0].receipt;
        (void)snprintf(ret_body, size, "%.*s", (int)op.recv.got[0].body.len,
                       op.recv.got[0].body.ptr);
    }
    iop_op_done(&op);
    return count;
}

/* ACK, or NACK with its delay; the code of the one receipt. */
static inline enum ron_rc box_answer(struct box *b, enum iop_op_kind kind, const char *topic,
                                     struct iop_receipt receipt, uint64_t delay_ms)
{
    enum ron_rc one = RON_INTERNAL;
    struct iop_op op = {.kind = kind,
                        .ack = {.topic = box_str(topic),
                                .receipts = &receipt,
                                .count = 1,
                                .rcs = &one,
                                .delay_ms = delay_ms,
                                .reason = box_str("because")}};
    enum ron_rc rc = box_apply(b, &op);

    return rc != RON_OK ? rc : one;
}

static inline struct iop_topic_stats box_stats(struct box *b, const char *topic)
{
    struct iop_op op = {.kind = IOP_OP_STATS, .stats = {.topic = box_str(topic)}};
    struct iop_topic_stats row = {0};

    if (box_apply(b, &op) == RON_OK) {
        row = op.stats.rows[0];
    }
    iop_op_done(&op);
    return row;
}

/* ---- both kinds ------------------------------------------------------------------------------ */

static inline int box_pg_up(void **state)
{
    (void)state;
    box_on_pg = true;
    box_has_pg = pg_server_start(&box_server);
    if (!box_has_pg) {
        print_message("no PostgreSQL 15: the tests on it are skipped\n");
    }
    return 0;
}

static inline int box_pg_down(void **state)
{
    (void)state;
    if (box_has_pg) {
        pg_server_stop(&box_server);
    }
    return 0;
}

static inline int box_ready(void **state)
{
    (void)state;
    if (box_on_pg && !box_has_pg) {
        skip();
    }
    return 0;
}

#define BOX_CASE(fn) cmocka_unit_test_setup(fn, box_ready)
#define BOX_MAIN(tests)                                                                            \
    (cmocka_run_group_tests_name("sqlite", tests, NULL, NULL) +                                    \
     cmocka_run_group_tests_name("postgres", tests, box_pg_up, box_pg_down))
