/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whichever allocation, step of SQLite or port fails, the book gives a code, leaks nothing,
 * and the call that failed has changed nothing.
 * Method: the fault sweep over a whole life of a book, in memory and in a file. After a failed call
 * the state of the epoch is compared with the one before. In PostgreSQL an answer can be lost on
 * its way: the book looks for it, and after a failure that it could not settle either state is
 * right. */
#include "unit/rewarder/book_fixture.h"

static char dir[BOOK_PATH_SIZE];
static char path[BOOK_PATH_SIZE];

/* The state of the epoch, or RWD_STATE_COUNT when it is not there; asked without faults. */
static enum rwd_state look(struct rwd_book *b)
{
    bool (*hook)(enum ron_fault_kind, const char *) = ron_fault_hook;
    struct rwd_epoch e;
    enum ron_rc rc;

    ron_fault_hook = NULL;
    rc = rwd_book_get(b, str("e"), &e, NULL);
    ron_fault_hook = hook;
    RON_ASSERT(rc == RON_OK || rc == RON_NOTFOUND);
    return rc == RON_OK ? e.state : RWD_STATE_COUNT;
}

static enum ron_rc step(struct rwd_book *b, int n)
{
    struct rwd_request r = request_of("e", 1);
    struct rwd_manifest m = manifest_of("e", 1, 25);
    struct rwd_batch rows[3];
    struct rwd_epoch e;
    size_t count = 0;
    bool flag = false;

    switch (n) {
    case 0:
        return rwd_book_reserve(b, &r, 1, &e, NULL);
    case 1:
        return rwd_book_move(b, str("e"), RWD_RESERVED, RWD_COMPUTING, NULL, 2, NULL);
    case 2:
        return rwd_book_seal(b, &m, 3, NULL);
    case 3:
        return rwd_book_emit(b, str("e"), 10, 4, &flag, NULL);
    case 4:
        return rwd_book_quarantine(b, str("e"), RWD_BREACH_HANDOVER, "", 5, NULL);
    case 5:
        return rwd_book_release(b, str("e"), 6, &flag, NULL);
    case 6:
        RON_TRY(rwd_book_batches(b, str("e"), 0, rows, 3, &count, NULL));
        return rwd_book_done(b, str("e"), rows, count, 7, &flag, NULL);
    default:
        RON_UNREACHABLE();
    }
}

/* Where the epoch is before step n, and after the last. */
static const enum rwd_state states[] = {RWD_STATE_COUNT, RWD_RESERVED, RWD_COMPUTING,
                                        RWD_SEALED,      RWD_EMITTING, RWD_QUARANTINED,
                                        RWD_WITHHELD,    RWD_EMITTED};

static enum ron_rc live(void *arg)
{
    const char *file = arg;
    struct rwd_book *b = NULL;
    enum ron_rc rc =
        book_on_pg ? book_open(file, 3, &b) : rwd_book_open(ron_env_linux(), file, &b, NULL);

    for (int n = 0; rc == RON_OK && n < 7; n++) {
        enum rwd_state found;

        rc = step(b, n);
        found = look(b);
        RON_ASSERT(found == states[rc == RON_OK ? n + 1 : n] ||
                   (book_on_pg && rc == RON_IO && found == states[n + 1]));
    }
    rwd_book_close(b);
    if (book_on_pg) {
        bool (*hook)(enum ron_fault_kind, const char *) = ron_fault_hook;

        ron_fault_hook = NULL;
        book_schema(dir);
        ron_fault_hook = hook;
    } else if (file != NULL) {
        book_remove(dir);
        RON_ASSERT(mkdir(dir, 0700) == 0);
    }
    return rc;
}

static void test_rwd_book_faults__every_fault__a_code_and_nothing_changed(void **state)
{
    (void)state;
    book_folder(dir);
    book_path(dir, path);
    support_sweep_expect_clean(&(struct support_sweep){.name = "memory", .run = live});
    support_sweep_expect_clean(&(struct support_sweep){.name = "file", .run = live, .arg = path});
    book_remove(dir);
}

static void test_rwd_book_faults__every_fault_of_a_database__a_code_and_nothing_halfway(
    void **state)
{
    (void)state;
    if (!book_has_pg) {
        skip();
    }
    book_place(dir, path);
    book_wait_ms = 50; /* a database that never answers is not waited for */
    support_sweep_expect_clean(
        &(struct support_sweep){.name = "postgres", .run = live, .arg = path, .may_succeed = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rwd_book_faults__every_fault__a_code_and_nothing_changed),
    };
    const struct CMUnitTest on_pg[] = {
        cmocka_unit_test(
            test_rwd_book_faults__every_fault_of_a_database__a_code_and_nothing_halfway),
    };

    return cmocka_run_group_tests_name("sqlite", tests, NULL, NULL) +
           cmocka_run_group_tests_name("postgres", on_pg, book_pg_up, book_pg_down);
}
