/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a replay that keeps no index finds what a Reverse undoes, however long ago that was.
 * Method: journals with more keys than the table of recent keys holds, which is made small; each
 * kind of entry that can be undone is undone at the end; opened for reading alone, with damage
 * behind, and beside a ledger that writes. */
#include "unit/ledger/core.h"

#include <stdlib.h>

enum {
    KEYS = 16,                /* of a generation; the table has 32 of them */
    FILLING = 33 * KEYS + 10, /* entries: the first ones are forgotten */
};

static struct led_work *undo(const struct led_work *what)
{
    const struct led_entry *of = &what->batch.entries[0];
    struct led_entry e = works_entry(LED_KIND_REVERSE, "", "", 1);
    const struct led_entry **originals;
    struct led_work *w;

    e.account = of->account;
    e.ref = of->id;
    w = works_batch(NULL, &e, 1);
    originals = ron_arena_alloc_array(&w->arena, 1, sizeof *originals, 8);
    originals[0] = of;
    w->originals = originals;
    return core_commit(w);
}

/* Entries of both accounts, some of them many to a frame. */
static void fill(void)
{
    struct led_entry entries[30];

    for (size_t n = 0; n < FILLING; n += RON_ARRAY_LEN(entries) + 1) {
        for (size_t i = 0; i < RON_ARRAY_LEN(entries); i++) {
            entries[i] = works_entry(LED_KIND_TRANSFER, i % 3 == 0 ? "c" : "a", "b", 1);
        }
        core_commit(works_batch(NULL, entries, RON_ARRAY_LEN(entries)));
        core_commit(works_transfer("b", "a", 1));
        core_index(false); /* the ledger that writes has them in its index */
    }
}

/* A journal whose last entries undo its first ones, and one of their own batch. */
static void make_journal(void)
{
    struct led_work *mint = core_commit(works_mint("a", 100000));
    struct led_work *move;
    struct led_work *back;
    struct led_entry pair[2];

    core_commit(works_mint("c", 100000));
    move = core_commit(works_transfer("a", "b", 7));
    back = core_commit(works_transfer("b", "c", 2));
    fill();
    (void)undo(move); /* touches b, though its bytes do not name b */
    (void)undo(back);
    (void)undo(mint);
    pair[0] = works_entry(LED_KIND_TRANSFER, "a", "b", 3);
    pair[0].id = works_str("the-pair");
    pair[1] = works_entry(LED_KIND_REVERSE, "a", "", 3);
    pair[1].ref = pair[0].id;
    core_commit(works_batch(NULL, pair, 2));
}

static void test_led_far__verified_without_index__good(void **state)
{
    struct core_state good;

    (void)state;
    make_journal();
    core_state(&good);
    core.opts.seq.recent_keys = KEYS;
    core.opts.read_only = core.opts.verify_all = core.opts.index_in_memory = true;
    for (int parallel = 0; parallel < 2; parallel++) {
        core_close();
        core.opts.parallel = parallel == 1;
        core_open();
        if (core.r.report.damage != LED_DAMAGE_NONE) {
            fail_msg("%s: %s", core.r.report.where, core.r.report.what);
        }
        core_expect(&good);
    }
}

/* Where the log ends in damage nothing is written to the index. */
static void test_led_far__damage_at_the_end__all_before_it_is_good(void **state)
{
    char command[3 * FIXTURE_PATH_SIZE];
    struct core_state good;

    (void)state;
    make_journal();
    core_state(&good);
    core_commit(works_one("flip-this-entry", LED_KIND_TRANSFER, "b", "c", 1));
    core_close();
    (void)snprintf(command, sizeof command,
                   "sed -i s/flip-this-entry/flip-that-entry/ %s/log/*.seg && rm -r %s/index",
                   core.dir, core.dir);
    assert_int_equal(system(command), 0);
    core.opts.seq.recent_keys = KEYS;
    core_open();
    assert_int_equal(core.r.report.damage, LED_DAMAGE_FRAME);
    core_expect(&good);
}

/* ---- beside a ledger that writes ------------------------------------------------------------- */

/* Whenever the verification opens a segment, an entry is committed and undone. */
static enum ron_rc busy_open(const struct ron_env *env, const char *path, uint32_t flags,
                             uint32_t mode, int *ret_fd, struct ron_err *err)
{
    if (strstr(path, ".seg") != NULL) {
        (void)undo(core_commit(works_transfer("a", "b", 1)));
    }
    return ron_env_linux()->disk->open(env, path, flags, mode, ret_fd, err);
}

static void test_led_far__verified_beside_a_writer__good(void **state)
{
    struct ron_disk_ops disk = *ron_env_linux()->disk;
    struct ron_env env = *ron_env_linux();
    struct led_recover_opts o = core.opts;
    struct led_recovered r = {0};
    struct ron_err err = {0};

    (void)state;
    core_commit(works_mint("a", 1000));
    disk.open = busy_open;
    env.disk = &disk;
    o.env = &env;
    o.read_only = o.verify_all = o.index_in_memory = true;
    assert_int_equal(led_recover(&o, &r, &err), RON_OK);
    if (r.report.damage != LED_DAMAGE_NONE) {
        fail_msg("%s: %s", r.report.where, r.report.what);
    }
    assert_true(r.replayed > 0);
    led_recovered_done(&r);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, core_setup, core_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_led_far__verified_without_index__good),
        CASE(test_led_far__damage_at_the_end__all_before_it_is_good),
        CASE(test_led_far__verified_beside_a_writer__good),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
