/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a start from an image knows the nonces of before it, of the horizon and no others, and
 * finds damage of the log among them.
 * Method: journals with an image in the middle, opened again on one thread and on two. */
#include "unit/ledger/core.h"

#include <stdlib.h>

/* The same nonce again, under another id. */
static enum led_reason reuse_nonce(const struct led_work *of)
{
    struct led_entry e = works_entry(LED_KIND_MINT, "a", "", 1);
    struct led_work *w;

    memcpy(e.nonce, of->batch.entries[0].nonce, sizeof e.nonce);
    w = core_run(works_batch(NULL, &e, 1));
    return w->result == LED_RESULT_REFUSED ? w->refusals.items[0].reason : LED_REASON_OK;
}

static void test_led_recall__nonces_before_the_image__known_within_the_horizon(void **state)
{
    enum { COUNT = 60 };
    struct led_entry entries[COUNT];
    struct led_book_stats stats;
    struct led_work *old;
    struct led_work *young[2];

    (void)state;
    core.opts.book.horizon_ms = 60 * 60 * 1000;
    core_close();
    core_open();
    old = core_commit(works_mint("a", 1));
    for (int n = 0; n < 100; n++) { /* so many that the beginning is found by halving */
        for (int i = 0; i < COUNT; i++) {
            entries[i] = works_entry(LED_KIND_MINT, "b", "", 1);
        }
        core_commit(works_batch(NULL, entries, COUNT));
    }
    works.now_ms += core.opts.book.horizon_ms + LED_FUTURE_MS + 1;
    young[0] = core_commit(works_mint("a", 1));
    core_index(true);
    young[1] = core_commit(works_mint("a", 1));
    for (int parallel = 0; parallel < 2; parallel++) {
        core.opts.parallel = parallel == 1;
        core_close();
        core_open();
        assert_int_equal(core.r.replayed, 1);
        led_book_stats(led_seq_book(core.r.seq), &stats);
        assert_int_equal(stats.fingerprints, 2);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(reuse_nonce(young[i]), LED_REASON_IDEM_MISMATCH);
    }
    assert_int_equal(reuse_nonce(old), LED_REASON_OK); /* forgotten with the horizon */
}

/* Accepted under a horizon of a minute, opened under one of a day: what is in the log was right. */
static void test_led_recall__nonce_reused_under_a_shorter_horizon__no_damage(void **state)
{
    struct core_state good;
    struct led_work *first;

    (void)state;
    core.opts.book.horizon_ms = 60 * 1000;
    core_close();
    core_open();
    first = core_commit(works_mint("a", 1));
    works.now_ms += 2 * 60 * 1000;
    assert_int_equal(reuse_nonce(first), LED_REASON_OK);
    core_index(true);
    works.now_ms += 2 * 60 * 1000;
    assert_int_equal(reuse_nonce(first), LED_REASON_OK);
    core_state(&good);
    core.opts.book.horizon_ms = 0;
    for (int way = 0; way < 5; way++) {
        core_close();
        core.opts.parallel = way % 2 == 1;
        core.opts.rebuild = way == 2;
        core.opts.read_only = core.opts.verify_all = way >= 3;
        core_open();
        assert_int_equal(core.r.report.damage, LED_DAMAGE_NONE);
        core_expect(&good);
    }
    core.opts.read_only = core.opts.verify_all = false;
    core_close();
    core_open();
    assert_int_equal(reuse_nonce(first), LED_REASON_IDEM_MISMATCH);
}

/* A start from an image reads the nonces of the horizon, and so finds damage there. */
static void test_led_recall__damage_before_the_image__found(void **state)
{
    char command[2 * FIXTURE_PATH_SIZE];
    struct core_state good;

    for (int parallel = 0; parallel < 2; parallel++) {
        assert_int_equal(core_teardown(state), 0);
        assert_int_equal(core_setup(state), 0);
        core_commit(works_mint("a", 10));
        core_state(&good);
        core_commit(works_one("flip-this-entry", LED_KIND_TRANSFER, "a", "b", 1));
        core_index(true);
        core_commit(works_transfer("a", "b", 1));
        core_close();
        (void)snprintf(command, sizeof command,
                       "sed -i s/flip-this-entry/flip-that-entry/ %s/log/*.seg", core.dir);
        assert_int_equal(system(command), 0);
        core.opts.parallel = parallel == 1;
        core_open();
        assert_int_equal(core.r.report.damage, LED_DAMAGE_FRAME);
        core_expect(&good);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, core_setup, core_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_led_recall__nonces_before_the_image__known_within_the_horizon),
        CASE(test_led_recall__nonce_reused_under_a_shorter_horizon__no_damage),
        CASE(test_led_recall__damage_before_the_image__found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
