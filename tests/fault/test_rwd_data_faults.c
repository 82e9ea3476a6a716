/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a snapshot without memory is RON_NOMEM with a sentence, and nothing is left behind.
 * Method: the fault sweep over the life of a snapshot of several blocks that has to be sorted: read
 *   in pieces, written, freed; and over rows that go on after a failed addition. */
#include "support/support.h"

#include "rewarder/input/snapshot.h"
#include "ron/base/assert.h"
#include "ron/base/buf.h"

enum { ROWS = 5000 }; /* three blocks of rows, two of names */

static struct ron_buf text;

static int make_text(void **state)
{
    (void)state;
    ron_buf_init(&text, 1000000);
    (void)ron_buf_append_text(&text, "{\"produced_at_millis\":1,\"pool_minor_units\":\"7\"}\n");
    for (int i = 0; i < ROWS; i++) {
        (void)ron_buf_append_fmt(&text,
                                 "{\"account\":\"acct_%015d\",\"bytes_stored\":%d,"
                                 "\"bytes_served\":2,\"uptime_seconds\":3}\n",
                                 ROWS - i, i);
    }
    return ron_buf_error(&text) == RON_OK ? 0 : -1;
}

static int drop_text(void **state)
{
    (void)state;
    ron_buf_done(&text);
    return 0;
}

static enum ron_rc swallow(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    (void)arg;
    (void)bytes;
    (void)len;
    (void)err;
    return RON_OK;
}

static enum ron_rc checked(enum ron_rc rc, const struct ron_err *err)
{
    RON_ASSERT(rc == RON_OK || rc == RON_NOMEM);
    RON_ASSERT(rc == RON_OK || (err->rc == rc && err->msg[0] != '\0'));
    return rc;
}

static enum ron_rc life(void *arg)
{
    struct rwd_snapshot_reader *r = NULL;
    struct rwd_snapshot s;
    struct ron_err err = {0};
    enum ron_rc rc;

    (void)arg;
    RON_TRY(checked(rwd_snapshot_reader_new(RWD_FORM_ANY, NULL, &r, &err), &err));
    for (size_t at = 0; at < ron_buf_len(&text); at += 65536) {
        size_t n = RON_MIN((size_t)65536, ron_buf_len(&text) - at);

        RON_IGNORE(rwd_snapshot_feed(r, ron_buf_data(&text) + at, n, NULL)); /* sticks */
    }
    RON_TRY(checked(rwd_snapshot_end(r, &s, &err), &err));
    RON_ASSERT(rwd_rows_count(s.rows) == ROWS);
    RON_ASSERT(rwd_rows_counters(s.rows, 0)->bytes_stored == ROWS - 1);
    rc = checked(rwd_snapshot_write(&s, swallow, NULL, &err), &err);
    rwd_snapshot_done(&s);
    return rc;
}

/* Each row is tried until it is taken; then sorting is. */
static enum ron_rc insist(void *arg)
{
    struct rwd_rows *rows = NULL;
    struct ron_err err = {0};
    char name[] = "z";

    (void)arg;
    RON_TRY(checked(rwd_rows_new(NULL, &rows, &err), &err));
    for (; name[0] >= 'a'; name[0]--) {
        uint64_t before = rwd_rows_count(rows);
        int tries = 0;

        while (rwd_rows_add(rows, (struct ron_str){name, 1}, &(struct rwd_counters){0}, NULL) !=
               RON_OK) {
            RON_ASSERT(rwd_rows_count(rows) == before);
            if (++tries == 3) { /* all later ones fail too */
                rwd_rows_free(rows);
                return RON_NOMEM;
            }
        }
    }
    if (rwd_rows_seal(rows, NULL) != RON_OK && rwd_rows_seal(rows, NULL) != RON_OK) {
        rwd_rows_free(rows);
        return RON_NOMEM;
    }
    RON_ASSERT(rwd_rows_count(rows) == 26);
    for (uint64_t i = 0; i < 26; i++) {
        RON_ASSERT(rwd_rows_account(rows, i).ptr[0] == (char)('a' + i));
    }
    rwd_rows_free(rows);
    return RON_OK;
}

static void test_snapshot__each_allocation_fails__told_and_nothing_left(void **state)
{
    (void)state;
    support_sweep_expect_clean(&(struct support_sweep){.name = "snapshot", .run = life});
}

SUPPORT_FAULT_SWEEP_TOLERANT(test_rows__add_failed_and_tried_again__all_there, insist)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_snapshot__each_allocation_fails__told_and_nothing_left,
                                        make_text, drop_text),
        cmocka_unit_test(test_rows__add_failed_and_tried_again__all_there),
    };

    return cmocka_run_group_tests_name("fault.rwd_data_faults", tests, NULL, NULL);
}
