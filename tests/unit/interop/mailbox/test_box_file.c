/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what the mailbox has answered survives the death of the process at any moment, and a
 * changed byte is never delivered.
 * Method: a script of steps with the whole durable state after each. Children that run it are
 * killed before each step of SQLite, and before and after each statement of PostgreSQL; the mailbox
 * that is then opened is in one of the two states around the last answered step. Damage: bytes of a
 * body are changed in the file, or in the table. */
#include <signal.h>
#include <sqlite3.h>

#include "unit/interop/box_script.h"

static char golden[BOX_STEPS + 1][BOX_TEXT];
static int kill_at;
static int asked;

static bool kill_hook(enum ron_fault_kind kind, const char *site)
{
    (void)site;
    if (kind == RON_FAULT_SYSCALL && asked++ == kill_at) {
        (void)kill(getpid(), SIGKILL);
    }
    return false;
}

/* A child that runs the script and writes a byte after each step; how many it wrote. */
static int run_child(struct box *b, int at, bool *ret_killed)
{
    int pipes[2];
    int status = 0;
    int steps = 0;
    char byte = 0;
    pid_t child;

    assert_int_equal(pipe(pipes), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        kill_at = at;
        asked = 0;
        ron_fault_hook = kill_hook;
        if (box_open(b) != RON_OK) {
            _exit(1);
        }
        for (int n = 0; n < BOX_STEPS; n++) {
            if (box_script(b, n) != RON_OK || write(pipes[1], "x", 1) != 1) {
                _exit(1);
            }
        }
        iop_store_close(&b->store);
        _exit(0);
    }
    (void)close(pipes[1]);
    while (read(pipes[0], &byte, 1) == 1) {
        steps++;
    }
    (void)close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    *ret_killed = WIFSIGNALED(status);
    assert_true(*ret_killed || WEXITSTATUS(status) == 0);
    return steps;
}

static void test_box_file__killed_before_each_step__one_of_two_states(void **state)
{
    bool killed = true;
    int at = 0;

    (void)state;
    box_golden(golden);
    for (; killed; at++) {
        struct box b;
        char text[BOX_TEXT];
        int steps;

        box_init(&b, true);
        steps = run_child(&b, at, &killed);
        assert_int_equal(box_open(&b), RON_OK);
        box_text(&b, text);
        if (strcmp(text, golden[steps]) != 0) {
            assert_true(steps < BOX_STEPS);
            assert_string_equal(text, golden[steps + 1]);
        }
        box_close(&b);
    }
    assert_true(at > 4 * BOX_STEPS); /* the hook is asked inside of every step */
}

static void change(const struct box *b, const char *sql)
{
    sqlite3 *db = NULL;

    if (box_on_pg) {
        box_change(b, sql);
        return;
    }

    assert_int_equal(sqlite3_open_v2(b->path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_box_file__changed_row__dead_and_not_delivered(void **state)
{
    static const char *const damages[2][4] = {
        {"UPDATE messages SET body=x'6f6e66' WHERE id=1",
         "UPDATE messages SET head=x'7b20' WHERE id=1", "UPDATE messages SET topic=2 WHERE id=1",
         "UPDATE messages SET sent_ms=sent_ms+1 WHERE id=1"},
        {"UPDATE interop_messages SET body='\\x6f6e66' WHERE id=1",
         "UPDATE interop_messages SET head='\\x7b20' WHERE id=1",
         "UPDATE interop_messages SET topic=2 WHERE id=1",
         "UPDATE interop_messages SET sent_ms=sent_ms+1 WHERE id=1"}};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(damages[0]); i++) {
        struct box b;
        struct iop_receipt r;
        char body[16];

        box_init(&b, true);
        assert_int_equal(box_open(&b), RON_OK);
        assert_int_equal(box_put(&b, "a", "one", 0, NULL), RON_OK);
        assert_int_equal(box_put(&b, "b", "two", 0, NULL), RON_OK);
        iop_store_close(&b.store);
        change(&b, damages[box_on_pg][i]);
        assert_int_equal(box_open(&b), RON_OK);
        assert_int_equal(box_recv(&b, "a", &r, body, sizeof body), 0);
        assert_int_equal(box_recv(&b, "b", &r, body, sizeof body), 1);
        assert_int_equal(box_recv(&b, "b", &r, body, sizeof body), 0);
        assert_int_equal(ron_stat_get(&b.store.counts.damaged), 1);
        box_reopen(&b);
        assert_int_equal(b.store.queue.dead, 1);
        box_close(&b);
    }
}

static void test_box_file__foreign_or_newer_file__refused(void **state)
{
    struct box b;

    (void)state;
    box_init(&b, true);
    assert_int_equal(box_open(&b), RON_OK);
    iop_store_close(&b.store);
    if (box_on_pg) {
        change(&b, "UPDATE interop_box SET layout=2");
        assert_int_equal(box_open(&b), RON_UNSUPPORTED);
        change(&b, "UPDATE interop_box SET layout=1;ALTER TABLE interop_seen DROP COLUMN at_ms");
        assert_int_equal(box_open(&b), RON_CORRUPT);
        change(&b, "DELETE FROM interop_box");
        assert_int_equal(box_open(&b), RON_CORRUPT);
        change(&b, "DROP TABLE interop_box; CREATE TABLE interop_box(somebody int)");
        assert_int_equal(box_open(&b), RON_CORRUPT);
        box_remove(&b);
        return;
    }
    change(&b, "PRAGMA user_version=2");
    assert_int_equal(box_open(&b), RON_UNSUPPORTED);
    change(&b, "PRAGMA application_id=7");
    assert_int_equal(box_open(&b), RON_CORRUPT);
    change(&b, "PRAGMA application_id=1232040002;PRAGMA user_version=1;DELETE FROM meta");
    assert_int_equal(box_open(&b), RON_CORRUPT);
    box_remove(&b);
}

static void test_box_file__smaller_limits__what_is_there_stays(void **state)
{
    struct box b;

    (void)state;
    box_init(&b, true);
    assert_int_equal(box_open(&b), RON_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(box_put(&b, "a", "one", 0, NULL), RON_OK);
    }
    b.opts.limits.topic_max_messages = 2;
    b.opts.limits.total_max_bytes = 3;
    box_reopen(&b);
    assert_int_equal(box_stats(&b, "a").ready, 5);
    assert_int_equal(box_put(&b, "a", "one", 0, NULL), RON_FULL);
    box_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOX_CASE(test_box_file__killed_before_each_step__one_of_two_states),
        BOX_CASE(test_box_file__changed_row__dead_and_not_delivered),
        BOX_CASE(test_box_file__foreign_or_newer_file__refused),
        BOX_CASE(test_box_file__smaller_limits__what_is_there_stays),
    };

    return BOX_MAIN(tests);
}
