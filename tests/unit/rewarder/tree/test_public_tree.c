/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a run that is asked for it brings the OpenZeppelin tree of its payouts in its folder.
 * Method: runs on a disk in memory; the tree is read back, which checks all of its hashes, and its
 *   leaves are those of the payees that are addresses. */
#include "unit/rewarder/art_fixture.h"

#include "rewarder/tree/claims.h"

#define ADDRESS "0x00000000000000000000000000000000000000aa"
#define ROW(account, stored)                                                                       \
    "{\"account\":\"" account "\",\"bytes_stored\":" stored                                        \
    ",\"bytes_served\":0,\"uptime_seconds\":0}"

static enum ron_rc write_with_tree(const struct art *a, const char *rows, const char *epoch)
{
    struct ron_buf text;
    struct rwd_snapshot snapshot;
    struct rwd_run run;
    enum ron_rc rc;

    ron_buf_init(&text, 1 << 16);
    ron_buf_append_fmt(&text,
                       "{\"produced_at_millis\":7,\"pool_minor_units\":\"1000\","
                       "\"contributions\":[%s]}",
                       rows);
    snapshot = art_read((const char *)ron_buf_data(&text), ron_buf_len(&text));
    run = art_compute(a, &snapshot, epoch);
    rc = rwd_run_write(&run,
                       &(struct rwd_write_opts){.env = a->env,
                                                .dir = "runs",
                                                .more = rwd_public_tree_more,
                                                .more_arg = (void *)(uintptr_t)a->env},
                       NULL);
    rwd_run_done(&run);
    rwd_snapshot_done(&snapshot);
    ron_buf_done(&text);
    return rc;
}

static void test_public_tree__payees_with_addresses__a_tree_in_the_folder(void **state)
{
    static const char want[] = "[\"" ADDRESS "\",\"750\"]";
    struct art *a = *state;
    struct rwd_oz *oz = NULL;
    struct ron_buf text;

    assert_int_equal(
        write_with_tree(a, ROW("eth:" ADDRESS, "50") "," ROW("acct_b", "25") "," ROW(ADDRESS, "25"),
                        "e"),
        RON_OK);
    art_file(a, "runs/e/" RWD_FILE_OPENZEPPELIN, &text);
    assert_int_equal(rwd_oz_read((char *)text.memory + text.head, ron_buf_len(&text), &oz, NULL),
                     RON_OK);
    assert_int_equal(rwd_oz_count(oz), 1);
    assert_int_equal(rwd_oz_value(oz, 0).len, sizeof want - 1);
    assert_memory_equal(rwd_oz_value(oz, 0).ptr, want, sizeof want - 1);
    rwd_oz_free(oz);
    ron_buf_done(&text);
}

static void test_public_tree__no_payee_with_an_address__no_file(void **state)
{
    struct art *a = *state;
    struct ron_file_stat st;

    assert_int_equal(write_with_tree(a, ROW("acct_b", "25"), "e"), RON_OK);
    assert_int_equal(a->env->disk->stat(a->env, "runs/e/run.json", &st), RON_OK);
    assert_int_equal(a->env->disk->stat(a->env, "runs/e/" RWD_FILE_OPENZEPPELIN, &st),
                     RON_NOTFOUND);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, art_setup, art_teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_public_tree__payees_with_addresses__a_tree_in_the_folder),
        CASE(test_public_tree__no_payee_with_an_address__no_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
