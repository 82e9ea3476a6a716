/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a store gives the same answers in a SQLite file and in PostgreSQL tables: rows, checksums,
 * transactions, groups, codes.
 * Method: each case runs in memory, in a file and in a schema of a PostgreSQL of its own, over one
 * table of statements. Corrupt values are written past the store. A full disk is a file that may
 * not grow, and a server whose statement fails with disk_full. */
#include "unit/sql/fixture.h"

#include "ron/base/fault.h"

static void test_sql__rows__come_back_as_they_were_put(void **state)
{
    struct ron_sql *db = sql_open();
    struct ron_sql_use u;
    bool row = false;
    char text[8];
    uint8_t bytes[3];

    (void)state;
    ok(ron_sql_begin(db, RON_SQL_WRITE, &sql_err));
    ok(sql_add(db, 1, "one", "\x00\x01\xff", 3));
    ok(sql_add(db, INT64_MAX, "", NULL, 0));
    ok(ron_sql_end(db, RON_OK, &sql_err));

    ok(ron_sql_begin(db, RON_SQL_READ, &sql_err));
    u = ron_sql_use(db, ITEM_LIST);
    ron_sql_put_u64(&u, 0);
    ok(ron_sql_row(&u, &row, &sql_err));
    assert_true(row);
    assert_int_equal(ron_sql_get_u64(&u, 0), 1);
    ok(ron_sql_get_text(&u, 1, text, sizeof text, &sql_err));
    assert_string_equal(text, "one");
    ok(ron_sql_get_bytes(&u, 2, bytes, sizeof bytes, &sql_err));
    assert_memory_equal(bytes, "\x00\x01\xff", 3);
    ok(ron_sql_get_whole(&u, &sql_err));
    /* What does not fit is corrupt, never cut. */
    gives(CORRUPT, ron_sql_get_text(&u, 1, text, 3, &sql_err));
    gives(CORRUPT, ron_sql_get_text(&u, 2, text, sizeof text, &sql_err));
    gives(CORRUPT, ron_sql_get_bytes(&u, 2, bytes, 2, &sql_err));
    ok(ron_sql_row(&u, &row, &sql_err));
    assert_true(row);
    assert_int_equal(ron_sql_get_u64(&u, 0), INT64_MAX);
    assert_int_equal(ron_sql_get_str(&u, 1).len, 0);
    assert_non_null(ron_sql_get_str(&u, 2).ptr);
    ok(ron_sql_row(&u, &row, &sql_err));
    assert_false(row);
    ron_sql_done(&u);
    ron_sql_done(&u);
    ok(ron_sql_end(db, RON_OK, &sql_err));
    ron_sql_close(db);
}

static void test_sql__null__is_zero_and_empty_and_part_of_the_checksum(void **state)
{
    struct ron_sql *db = sql_open();
    struct ron_sql_use u;
    bool row = false;

    (void)state;
    ok(ron_sql_begin(db, RON_SQL_WRITE, &sql_err));
    u = ron_sql_use(db, ITEM_ADD);
    ron_sql_put_u64(&u, 7);
    ron_sql_put_text(&u, sql_text("x"));
    ron_sql_put_null(&u);
    ok(ron_sql_run(&u, NULL, &sql_err));
    u = ron_sql_use(db, ITEM_GET);
    ron_sql_put_u64(&u, 7);
    ok(ron_sql_row(&u, &row, &sql_err));
    assert_true(row);
    assert_int_equal(ron_sql_get_str(&u, 2).len, 0);
    ok(ron_sql_get_whole(&u, &sql_err));
    ron_sql_done(&u);
    ok(ron_sql_end(db, RON_OK, &sql_err));
    ron_sql_close(db);
}

static void test_sql__rollback__leaves_nothing(void **state)
{
    struct ron_sql *db = sql_open();

    (void)state;
    ok(ron_sql_begin(db, RON_SQL_WRITE, &sql_err));
    assert_true(ron_sql_within(db));
    ok(sql_add(db, 1, "one", "", 0));
    gives(CONFLICT, ron_sql_end(db, RON_CONFLICT, &sql_err));
    assert_false(ron_sql_within(db));
    assert_int_equal(sql_count(db), 0);
    /* A key twice fails the statement and the transaction, and the store goes on. */
    ok(ron_sql_begin(db, RON_SQL_WRITE, &sql_err));
    ok(sql_add(db, 1, "one", "", 0));
    enum ron_rc rc = sql_add(db, 1, "again", "", 0);

    assert_int_not_equal(rc, RON_OK);
    assert_int_equal(ron_sql_end(db, rc, &sql_err), rc);
    assert_int_equal(sql_count(db), 0);
    ok(ron_sql_begin(db, RON_SQL_WRITE, &sql_err));
    ok(sql_add(db, 1, "one", "", 0));
    ok(ron_sql_end(db, RON_OK, &sql_err));
    assert_int_equal(sql_count(db), 1);
    ron_sql_close(db);
}

static void test_sql__a_changed_row__has_a_new_checksum_or_is_corrupt(void **state)
{
    struct ron_sql *db = sql_open();
    struct ron_sql_use u;
    uint64_t changes = 0;

    (void)state;
    ok(ron_sql_begin(db, RON_SQL_WRITE, &sql_err));
    ok(sql_add(db, 1, "one", "a", 1));
    for (int sum = 0; sum < 2; sum++) { /* without a SUM statement the row does not verify */
        u = ron_sql_use(db, ITEM_NAME);
        ron_sql_put_u64(&u, 1);
        ron_sql_put_text(&u, sql_text("two"));
        ok(ron_sql_run(&u, &changes, &sql_err));
        assert_int_equal(changes, 1);
        if (sum == 1) {
            u = ron_sql_use(db, ITEM_SUM);
            ron_sql_put_u64(&u, 1);
            ok(ron_sql_run(&u, NULL, &sql_err));
        }
        assert_string_equal(ron_rc_name(sql_verify(db, 1)),
                            ron_rc_name(sum == 1 ? RON_OK : RON_CORRUPT));
    }
    ok(ron_sql_end(db, RON_OK, &sql_err));
    ron_sql_close(db);
}

static void test_sql__a_row_changed_past_the_store__is_not_opened(void **state)
{
    struct ron_sql *db = sql_open();

    (void)state;
    ok(ron_sql_begin(db, RON_SQL_WRITE, &sql_err));
    ok(sql_add(db, 1, "one", "a", 1));
    ok(ron_sql_end(db, RON_OK, &sql_err));
    if (sql_kind == SQL_MEMORY) {
        sql_change(db, "UPDATE %sitem SET name='two'");
        ok(ron_sql_begin(db, RON_SQL_READ, &sql_err));
        gives(CORRUPT, sql_verify(db, 1));
        ok(ron_sql_end(db, RON_OK, &sql_err));
        ron_sql_close(db);
        return;
    }
    sql_change(db, "UPDATE %sitem SET name='two'");
    ron_sql_close(db);
    db = NULL;
    gives(CORRUPT, sql_open_again(&db));
    assert_null(db);
}

static void test_sql__a_group__is_one_transaction_in_order(void **state)
{
    struct ron_sql *db = sql_open();
    bool changed = true;

    (void)state;
    ok(ron_sql_look(db, true, &changed, &sql_err));
    assert_false(changed);
    ok(ron_sql_begin(db, RON_SQL_GROUP, &sql_err));
    for (uint64_t id = 1; id <= 100; id++) {
        ok(sql_gather(db, NOTE_ADD, id, "text"));
    }
    ok(ron_sql_end(db, RON_OK, &sql_err));
    assert_int_equal(sql_notes(db), 100);
    ok(ron_sql_begin(db, RON_SQL_GROUP, &sql_err));
    for (uint64_t id = 1; id <= 99; id++) {
        ok(sql_gather(db, NOTE_DROP, id, NULL));
    }
    ok(sql_gather(db, NOTE_ADD, 101, "text"));
    ok(ron_sql_end(db, RON_OK, &sql_err));
    assert_int_equal(sql_notes(db), 2);
    /* Taken back, and empty. */
    ok(ron_sql_begin(db, RON_SQL_GROUP, &sql_err));
    ok(sql_gather(db, NOTE_DROP, 100, NULL));
    gives(AGAIN, ron_sql_end(db, RON_AGAIN, &sql_err));
    ok(ron_sql_begin(db, RON_SQL_GROUP, &sql_err));
    ok(ron_sql_end(db, RON_OK, &sql_err));
    assert_int_equal(sql_notes(db), 2);
    ron_sql_close(db);
}

static void test_sql__a_group_that_fails__has_changed_nothing(void **state)
{
    struct ron_sql *db = sql_open();
    enum ron_rc rc;

    (void)state;
    ok(ron_sql_begin(db, RON_SQL_GROUP, &sql_err));
    ok(sql_gather(db, NOTE_ADD, 1, "one"));
    ok(ron_sql_end(db, RON_OK, &sql_err));
    ok(ron_sql_begin(db, RON_SQL_GROUP, &sql_err));
    ok(sql_gather(db, NOTE_ADD, 2, "two"));
    rc = sql_gather(db, NOTE_ADD, 1, "a key twice"); /* PostgreSQL finds it at the end */
    assert_int_not_equal(ron_sql_end(db, rc, &sql_err), RON_OK);
    assert_int_equal(sql_notes(db), 1);
    ron_sql_close(db);
}

static void test_sql__opened_again__has_what_was_committed(void **state)
{
    struct ron_sql *db = sql_open();

    (void)state;
    if (sql_kind == SQL_MEMORY) {
        ron_sql_close(db);
        return;
    }
    ok(ron_sql_begin(db, RON_SQL_WRITE, &sql_err));
    ok(sql_add(db, 1, "one", "a", 1));
    ok(ron_sql_end(db, RON_OK, &sql_err));
    ron_sql_close(db);
    db = NULL;
    ok(sql_open_again(&db));
    assert_int_equal(sql_count(db), 1);
    assert_int_equal(ron_sql_is_far(db), sql_kind == SQL_PG);
    assert_int_equal(ron_sql_epoch(db), sql_kind == SQL_PG ? 2 : 0);
    ron_sql_close(db);
}

static void test_sql__open_twice__is_a_conflict(void **state)
{
    struct ron_sql *db = sql_open();
    struct ron_sql *other = NULL;

    (void)state;
    if (sql_kind != SQL_MEMORY) {
        gives(CONFLICT, sql_open_again(&other));
        assert_null(other);
    }
    ron_sql_close(db);
}

static void test_sql__another_layout__is_refused(void **state)
{
    struct ron_sql *db = sql_open();

    (void)state;
    if (sql_kind == SQL_FILE) {
        assert_int_equal(sqlite3_exec(db->sqlite, "PRAGMA user_version=9", NULL, NULL, NULL),
                         SQLITE_OK);
        ron_sql_close(db);
        db = NULL;
        gives(UNSUPPORTED, sql_open_again(&db));
        return;
    }
    if (sql_kind == SQL_PG) {
        sql_change(db, "UPDATE %sbox SET layout=9");
        ron_sql_close(db);
        db = NULL;
        gives(UNSUPPORTED, sql_open_again(&db));
        return;
    }
    ron_sql_close(db);
}

static void test_sql__a_file_of_another_program__is_corrupt(void **state)
{
    struct ron_sql *db = sql_open();

    (void)state;
    if (sql_kind == SQL_FILE) {
        assert_int_equal(sqlite3_exec(db->sqlite, "PRAGMA application_id=5", NULL, NULL, NULL),
                         SQLITE_OK);
        ron_sql_close(db);
        db = NULL;
        gives(CORRUPT, sql_open_again(&db));
        assert_non_null(strstr(sql_err.msg, "test: "));
        return;
    }
    ron_sql_close(db);
}

static void test_sql__a_full_disk__is_full_in_both(void **state)
{
    struct ron_sql *db = sql_open();
    static char big[1 << 17];
    enum ron_rc rc = RON_OK;

    (void)state;
    memset(big, 'x', sizeof big);
    ok(ron_sql_begin(db, RON_SQL_WRITE, &sql_err));
    if (sql_kind == SQL_PG) {
        struct ron_sql_use u = ron_sql_use(db, NO_ROOM);

        rc = ron_sql_run(&u, NULL, &sql_err);
    } else {
        assert_int_equal(sqlite3_exec(db->sqlite, "PRAGMA max_page_count=1", NULL, NULL, NULL),
                         SQLITE_OK);
        rc = sql_add(db, 1, "one", big, sizeof big);
    }
    gives(FULL, rc);
    gives(FULL, ron_sql_end(db, rc, &sql_err));
    ron_sql_close(db);
}

static void test_sql__a_far_statement__takes_many_ids_in_one_trip(void **state)
{
    struct ron_sql *db = sql_open();
    const uint64_t ids[] = {3, 1};
    struct ron_sql_use u;
    bool row = false;

    (void)state;
    if (!ron_sql_is_far(db)) {
        ron_sql_close(db);
        return;
    }
    ok(ron_sql_begin(db, RON_SQL_WRITE, &sql_err));
    for (uint64_t id = 1; id <= 3; id++) {
        ok(sql_add(db, id, "x", "", 0));
    }
    ok(ron_sql_end(db, RON_OK, &sql_err));
    ok(ron_sql_begin(db, RON_SQL_READ, &sql_err));
    u = ron_sql_use(db, ITEM_MANY);
    ok(ron_sql_put_ids(&u, ids, 2));
    ok(ron_sql_row(&u, &row, &sql_err));
    assert_true(row);
    assert_int_equal(ron_sql_rows(&u), 2);
    ron_sql_seek(&u, 1);
    assert_int_equal(ron_sql_get_u64(&u, 0), 3);
    ron_sql_seek(&u, 0);
    assert_int_equal(ron_sql_get_u64(&u, 0), 1);
    ron_sql_done(&u);
    ok(ron_sql_end(db, RON_OK, &sql_err));
    ron_sql_close(db);
}

/* The answer to a commit is lost on its way: it is looked for, and counts once. */
static int answers_left;

static bool lose_answer(enum ron_fault_kind kind, const char *site)
{
    return kind == RON_FAULT_SYSCALL && strcmp(site, "pg_answer") == 0 && answers_left-- == 0;
}

static void test_sql__a_lost_answer__is_found_out(void **state)
{
    struct ron_sql *db = sql_open();

    (void)state;
    if (sql_kind == SQL_PG) {
        ok(ron_sql_begin(db, RON_SQL_WRITE, &sql_err));
        ok(sql_add(db, 1, "one", "", 0));
        answers_left = 0;
        ron_fault_hook = lose_answer;
        ok(ron_sql_end(db, RON_OK, &sql_err));
        ron_fault_hook = NULL;
        assert_int_equal(sql_count(db), 1);
        ok(ron_sql_begin(db, RON_SQL_GROUP, &sql_err));
        ok(sql_gather(db, NOTE_ADD, 1, "one"));
        answers_left = 0;
        ron_fault_hook = lose_answer;
        ok(ron_sql_end(db, RON_OK, &sql_err));
        ron_fault_hook = NULL;
        assert_int_equal(sql_notes(db), 1);
    }
    ron_sql_close(db);
}

static int every_case(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sql__rows__come_back_as_they_were_put, sql_setup,
                                        sql_teardown),
        cmocka_unit_test_setup_teardown(test_sql__null__is_zero_and_empty_and_part_of_the_checksum,
                                        sql_setup, sql_teardown),
        cmocka_unit_test_setup_teardown(test_sql__rollback__leaves_nothing, sql_setup,
                                        sql_teardown),
        cmocka_unit_test_setup_teardown(test_sql__a_changed_row__has_a_new_checksum_or_is_corrupt,
                                        sql_setup, sql_teardown),
        cmocka_unit_test_setup_teardown(test_sql__a_row_changed_past_the_store__is_not_opened,
                                        sql_setup, sql_teardown),
        cmocka_unit_test_setup_teardown(test_sql__a_group__is_one_transaction_in_order, sql_setup,
                                        sql_teardown),
        cmocka_unit_test_setup_teardown(test_sql__a_group_that_fails__has_changed_nothing,
                                        sql_setup, sql_teardown),
        cmocka_unit_test_setup_teardown(test_sql__opened_again__has_what_was_committed, sql_setup,
                                        sql_teardown),
        cmocka_unit_test_setup_teardown(test_sql__open_twice__is_a_conflict, sql_setup,
                                        sql_teardown),
        cmocka_unit_test_setup_teardown(test_sql__another_layout__is_refused, sql_setup,
                                        sql_teardown),
        cmocka_unit_test_setup_teardown(test_sql__a_file_of_another_program__is_corrupt, sql_setup,
                                        sql_teardown),
        cmocka_unit_test_setup_teardown(test_sql__a_full_disk__is_full_in_both, sql_setup,
                                        sql_teardown),
        cmocka_unit_test_setup_teardown(test_sql__a_far_statement__takes_many_ids_in_one_trip,
                                        sql_setup, sql_teardown),
        cmocka_unit_test_setup_teardown(test_sql__a_lost_answer__is_found_out, sql_setup,
                                        sql_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    int failed = 0;

    for (sql_kind = SQL_MEMORY; sql_kind <= SQL_FILE; sql_kind++) {
        failed += every_case();
    }
    if (pg_server_start(&sql_server)) {
        failed += every_case();
    } else {
        (void)printf("no PostgreSQL here: its half was left out\n");
    }
    pg_server_stop(&sql_server);
    return failed;
}
