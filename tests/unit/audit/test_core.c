/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what the ledger's sequencer, committer and log wrote, over restarts and several segments,
 * is found good by the auditor, down to the last balance, open hold and the root.
 * Method: random works through the whole core of the ledger in a folder; the auditor reads it while
 * the ledger is open and after it is closed. */
#include "unit/ledger/core.h"

#include "audit/run.h"

static void same_as_ledger(void *arg, struct ron_str account, struct ron_str asset,
                           const struct aud_line *line)
{
    size_t *seen = arg;
    struct led_balance balance;

    assert_true(
        led_book_balance(led_seq_book(core.r.seq), account, asset, LED_COMMITTED, &balance));
    support_assert_u128_equal(balance.available.v, line->available);
    support_assert_u128_equal(balance.held.v, line->held);
    (*seen)++;
}

/* While the ledger is open. */
static void expect_good(void)
{
    struct aud_options opts = {.env = ron_env_linux(), .dir = core.dir, .horizon_ms = 86400000};
    struct aud_result *r = ron_alloc_zero(sizeof *r);
    struct led_book_stats stats;
    struct core_state now;
    struct ron_err err = {0};
    size_t seen = 0;

    assert_non_null(r);
    core_state(&now);
    if (aud_run(&opts, r, &err) != RON_OK) {
        fail_msg("%s", err.msg);
    }
    if (r->findings.total > 0) {
        fail_msg("%s at seq %llu: expected %s, found %s", aud_rule_name(r->findings.items[0].rule),
                 (unsigned long long)r->findings.items[0].seq, r->findings.items[0].expected,
                 r->findings.items[0].found);
    }
    assert_int_equal(r->last_seq, now.last_seq);
    assert_memory_equal(r->root.bytes, now.root.bytes, sizeof now.root.bytes);
    assert_int_equal(aud_book_each(&r->book, same_as_ledger, &seen), RON_OK);
    assert_true(seen > 0);
    led_book_stats(led_seq_book(core.r.seq), &stats);
    assert_int_equal(r->open_holds, stats.holds);
    assert_int_equal(r->book.accounts.live, stats.accounts);
    aud_result_done(r);
    ron_free(r);
}

static void test_audit_core__journal_of_the_ledger__is_good(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < 6; i++) {
        core_random(&rand, 60);
        expect_good();
        core_close();
        core_open();
        expect_good();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_audit_core__journal_of_the_ledger__is_good, core_setup,
                                        core_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
