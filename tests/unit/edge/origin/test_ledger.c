/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: of a log exactly its checkpoint, tiles and bundles are served, each for the right time.
 * Method: a table of paths, good ones and those that differ from them in one place. */
#include "support/support.h"

#include "edge/origin/ledger.h"

static enum edg_ledger_kind kind_of(const char *path)
{
    return edg_ledger_kind((struct ron_str){path, strlen(path)});
}

static void test_ledger__paths_of_a_log__are_known(void **state)
{
    (void)state;
    static const char *const tiles[] = {"/tile/0/000", "/tile/0/255", "/tile/63/x001/x234/067",
                                        "/tile/1/x999/999.p/255", "/tile/0/000.p/1"};

    assert_int_equal(kind_of("/checkpoint"), EDG_LEDGER_CHECKPOINT);
    assert_int_equal(kind_of("/checkpoint?witnesses=2"), EDG_LEDGER_CHECKPOINT);
    for (size_t i = 0; i < RON_ARRAY_LEN(tiles); i++) {
        assert_int_equal(kind_of(tiles[i]), EDG_LEDGER_TILE);
    }
    assert_int_equal(kind_of("/tile/entries/000"), EDG_LEDGER_ENTRIES);
    assert_int_equal(kind_of("/tile/entries/x001/000.p/9"), EDG_LEDGER_ENTRIES);
}

static void test_ledger__anything_else__is_not_served(void **state)
{
    (void)state;
    static const char *const others[] = {
        "",
        "/",
        "/accounts/a/balances",
        "/entries/1",
        "/export",
        "/admin/verify",
        "/tile",
        "/tile/",
        "/tile/0",
        "/tile/0/",
        "/tile/0/0",
        "/tile/0/0000",
        "/tile/00/000",
        "/tile/64/000",
        "/tile/999/000",
        "/tile/-1/000",
        "/tile/0/x000/000",
        "/tile/0/x001",
        "/tile/0/x001/",
        "/tile/0/x001/x002",
        "/tile/0/000/",
        "/tile/0/000?x=1",
        "/tile/0/000.p",
        "/tile/0/000.p/",
        "/tile/0/000.p/0",
        "/tile/0/000.p/256",
        "/tile/0/000.p/01",
        "/tile/0/000.p/1/",
        "/tile/0/%30%30%30",
        "/tile/entries",
        "/tile/entries/00",
        "/tile/data/000",
        "/tile/0/x001/x001/x001/x001/x001/x001/x001/001",
        "/tile//000",
        "//tile/0/000",
        "/checkpoint/",
        "/checkpoint/cosignatures",
        "/checkpoint?",
        "/checkpoint?x=1",
        "/checkpoint?witnesses=",
        "/checkpoint?witnesses=1&a=b",
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(others); i++) {
        if (kind_of(others[i]) != EDG_LEDGER_OTHER) {
            fail_msg("%s is served", others[i]);
        }
    }
    /* A slice ends where it says, not at a byte behind it. */
    assert_int_equal(edg_ledger_kind((struct ron_str){"/tile/0/0001", 11}), EDG_LEDGER_TILE);
    assert_int_equal(edg_ledger_kind((struct ron_str){"/tile/0/000", 10}), EDG_LEDGER_OTHER);
}

static void test_ledger__time__by_kind(void **state)
{
    (void)state;
    char room[EDG_LEDGER_CONTROL_SIZE];

    assert_true(ron_str_is(edg_ledger_control(EDG_LEDGER_TILE, 2, room),
                           "public, max-age=31536000, immutable"));
    assert_true(ron_str_is(edg_ledger_control(EDG_LEDGER_ENTRIES, 2, room),
                           "public, max-age=31536000, immutable"));
    assert_true(
        ron_str_is(edg_ledger_control(EDG_LEDGER_CHECKPOINT, 2, room), "public, max-age=2"));
    assert_int_equal(edg_ledger_control(EDG_LEDGER_OTHER, 2, room).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ledger__paths_of_a_log__are_known),
        cmocka_unit_test(test_ledger__anything_else__is_not_served),
        cmocka_unit_test(test_ledger__time__by_kind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
