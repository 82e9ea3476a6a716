/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: rows of the mailbox's file that are not what was written. The first byte chooses a
 * table, the second a column, the third a type; the rest is the value that every row gets there.
 *
 * Property: a mailbox that opens all the same delivers what was sent, as it was sent, or buries it;
 * it never delivers anything else. */
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interop/mailbox/store.h"
#include "ron/base/assert.h"
#include "ron/io/linux_env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const bodies[] = {"one", "two", "three"};
static char path[64];

static void on_done(struct iop_op *op)
{
    (void)op;
}

static enum ron_rc open_store(struct iop_store *s)
{
    return iop_store_open(s,
                          &(struct iop_store_opts){.env = ron_env_linux(),
                                                   .path = path,
                                                   .limits = iop_box_limits_default(),
                                                   .seen_max = 100,
                                                   .seen_ttl_ms = 60000,
                                                   .seen_keep_ms = 10000},
                          NULL);
}

static void remove_file(void)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char name[80];

    for (size_t i = 0; i < RON_ARRAY_LEN(ends); i++) {
        (void)snprintf(name, sizeof name, "%s%s", path, ends[i]);
        (void)unlink(name);
    }
}

/* Three messages and a key. */
static void make_file(void)
{
    struct iop_store s;

    remove_file();
    RON_ASSERT(open_store(&s) == RON_OK);
    for (size_t i = 0; i < RON_ARRAY_LEN(bodies); i++) {
        struct iop_msg m = {
            .topic = {"t", 1}, .head = {"{\"n\":1}", 7}, .body = {bodies[i], strlen(bodies[i])}};
        struct iop_op op = {.kind = IOP_OP_PUT, .done = on_done};
        struct iop_op *all = &op;

        op.put.msgs = &m;
        op.put.count = 1;
        op.put.has_key = true;
        op.put.key.bytes[0] = (uint8_t)i;
        iop_store_apply(&s, &all, 1);
        RON_ASSERT(op.rc == RON_OK);
    }
    iop_store_stop(&s);
    iop_store_close(&s);
}

/* The name of table or column number `n` of what a query lists. */
static bool name_of(sqlite3 *db, const char *sql, unsigned column, unsigned n, char *ret,
                    size_t size)
{
    sqlite3_stmt *q = NULL;
    unsigned count = 0;

    ret[0] = '\0';
    RON_ASSERT(sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK);
    while (sqlite3_step(q) == SQLITE_ROW) {
        count++;
    }
    (void)sqlite3_reset(q);
    for (unsigned i = 0; count > 0 && i <= n % count; i++) {
        RON_ASSERT(sqlite3_step(q) == SQLITE_ROW);
        (void)snprintf(ret, size, "%s", (const char *)sqlite3_column_text(q, (int)column));
    }
    (void)sqlite3_finalize(q);
    return ret[0] != '\0';
}

static void spoil(const uint8_t *data, size_t size)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *q = NULL;
    char table[64];
    char column[64];
    char sql[256];
    int64_t number = 0;

    RON_ASSERT(sqlite3_open(path, &db) == SQLITE_OK);
    RON_ASSERT(name_of(db, "SELECT name FROM sqlite_master WHERE type='table' ORDER BY name", 0,
                       data[0], table, sizeof table));
    (void)snprintf(sql, sizeof sql, "PRAGMA table_info(%s)", table);
    RON_ASSERT(name_of(db, sql, 1, data[1], column, sizeof column));
    (void)snprintf(sql, sizeof sql, "UPDATE OR REPLACE %s SET %s=?", table, column);
    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK) {
        memcpy(&number, data + 3, size - 3 < sizeof number ? size - 3 : sizeof number);
        switch (data[2] % 4) {
        case 0:
            (void)sqlite3_bind_blob(q, 1, data + 3, (int)(size - 3), SQLITE_STATIC);
            break;
        case 1:
            (void)sqlite3_bind_int64(q, 1, number);
            break;
        case 2:
            (void)sqlite3_bind_text(q, 1, (const char *)data + 3, (int)(size - 3), SQLITE_STATIC);
            break;
        default:
            break; /* NULL */
        }
        (void)sqlite3_step(q); /* a constraint may refuse it */
    }
    (void)sqlite3_finalize(q);
    (void)sqlite3_close(db);
}

static void check_got(const struct iop_op *op)
{
    for (uint32_t i = 0; i < op->recv.count; i++) {
        const struct iop_got *got = &op->recv.got[i];
        bool known = false;

        for (size_t k = 0; k < RON_ARRAY_LEN(bodies); k++) {
            known = known || ron_str_is(got->body, bodies[k]);
        }
        RON_ASSERT(known && ron_str_is(got->head, "{\"n\":1}"));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct iop_op op = {.kind = IOP_OP_RECV, .done = on_done};
    struct iop_op *all = &op;
    struct iop_store s;

    if (size < 3 || size > 4096) {
        return 0;
    }
    (void)snprintf(path, sizeof path, "/dev/shm/ron-rows-%d", (int)getpid());
    make_file();
    spoil(data, size);
    if (open_store(&s) == RON_OK) {
        op.recv.topic = (struct ron_str){"t", 1};
        op.recv.max = 10;
        op.recv.max_bytes = 1 << 20;
        op.recv.visibility_ms = 1000;
        iop_store_apply(&s, &all, 1);
        if (op.rc == RON_OK) {
            check_got(&op);
        }
        iop_op_done(&op);
        iop_store_stop(&s);
        iop_store_close(&s);
    }
    remove_file();
    return 0;
}
