/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whichever allocation, step of SQLite, port or answer of PostgreSQL fails, the store gives a
 * code, leaks nothing, and a transaction that failed has changed nothing.
 * Method: the fault sweep over the life of a store: opened, a transaction, a group, a read, closed.
 * After each transaction the rows are counted without faults. In PostgreSQL an answer can be lost:
 * after a failure that could not be settled either count is right. */
#include "unit/sql/fixture.h"

#include "ron/base/assert.h"
#include "ron/base/fault.h"

static uint64_t counted(struct ron_sql *db, uint32_t stmt)
{
    bool (*hook)(enum ron_fault_kind, const char *) = ron_fault_hook;
    uint64_t n = UINT64_MAX;
    enum ron_rc rc = RON_AGAIN;

    ron_fault_hook = NULL;
    for (int i = 0; i < 100 && rc == RON_AGAIN; i++) { /* it connects again first */
        rc = sql_number(db, stmt, &n);
    }
    ron_fault_hook = hook;
    RON_ASSERT(rc == RON_OK);
    return n;
}

static enum ron_rc check(struct ron_sql *db, uint32_t stmt, enum ron_rc rc, uint64_t before,
                         uint64_t after)
{
    uint64_t n = counted(db, stmt);

    RON_ASSERT(n == (rc == RON_OK ? after : before) ||
               (sql_kind == SQL_PG && rc != RON_OK && n == after));
    return rc;
}

static enum ron_rc write_items(struct ron_sql *db)
{
    enum ron_rc rc = ron_sql_begin(db, RON_SQL_WRITE, NULL);

    if (rc == RON_OK) {
        for (uint64_t id = 1; id <= 2 && rc == RON_OK; id++) {
            rc = sql_add(db, id, "name", "body", 4);
        }
        if (rc == RON_OK) {
            struct ron_sql_use u = ron_sql_use(db, ITEM_SUM);

            ron_sql_put_u64(&u, 1);
            rc = ron_sql_run(&u, NULL, NULL);
        }
        rc = ron_sql_end(db, rc, NULL);
    }
    return check(db, ITEM_COUNT, rc, 0, 2);
}

static enum ron_rc write_group(struct ron_sql *db)
{
    bool changed = false;
    enum ron_rc rc = ron_sql_look(db, true, &changed, NULL);

    if (rc == RON_OK) {
        rc = ron_sql_begin(db, RON_SQL_GROUP, NULL);
    }
    if (rc == RON_OK) {
        for (uint64_t id = 1; id <= 3 && rc == RON_OK; id++) {
            rc = sql_gather(db, NOTE_ADD, id, "text");
        }
        rc = ron_sql_end(db, rc, NULL);
    }
    return check(db, NOTE_COUNT, rc, 0, 3);
}

static enum ron_rc read_item(struct ron_sql *db)
{
    enum ron_rc rc = ron_sql_begin(db, RON_SQL_READ, NULL);

    return rc == RON_OK ? ron_sql_end(db, sql_verify(db, 2), NULL) : rc;
}

static enum ron_rc live(void *arg)
{
    struct ron_sql *db = NULL;
    enum ron_rc rc = sql_open_with(50, &db, NULL);

    (void)arg;
    rc = rc == RON_OK ? write_items(db) : rc;
    rc = rc == RON_OK ? write_group(db) : rc;
    rc = rc == RON_OK ? read_item(db) : rc;
    ron_sql_close(db);
    if (sql_kind == SQL_PG) {
        bool (*hook)(enum ron_fault_kind, const char *) = ron_fault_hook;

        ron_fault_hook = NULL;
        sql_clear_schema();
        ron_fault_hook = hook;
    } else if (sql_kind == SQL_FILE) {
        sql_remove();
    }
    return rc;
}

static void sweep(int kind, const char *name)
{
    sql_kind = kind;
    RON_ASSERT(sql_setup(NULL) == 0);
    support_sweep_expect_clean(
        &(struct support_sweep){.name = name, .run = live, .may_succeed = kind == SQL_PG});
    RON_ASSERT(sql_teardown(NULL) == 0);
}

static void test_sql_faults__every_fault__a_code_and_nothing_changed(void **state)
{
    (void)state;
    sweep(SQL_MEMORY, "memory");
    sweep(SQL_FILE, "file");
}

static void test_sql_faults__every_fault_of_a_database__a_code_and_nothing_halfway(void **state)
{
    (void)state;
    if (!pg_server_start(&sql_server)) {
        pg_server_stop(&sql_server);
        skip();
    }
    sweep(SQL_PG, "postgres");
    pg_server_stop(&sql_server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sql_faults__every_fault__a_code_and_nothing_changed),
        cmocka_unit_test(test_sql_faults__every_fault_of_a_database__a_code_and_nothing_halfway),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
