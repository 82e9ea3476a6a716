/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the events of a commit name every account that it changed, and end with one that says so.
 * Method: random groups of works; the names that the ledger's client reads from the events are
 * compared with those of the entries, as sets. */
#include "unit/ledger/works.h"

#include "base/rand_priv.h"
#include "client/client.h"
#include "ledger/publish/changes.h"

enum { NAMES = 400, NAME_ROOM = LED_ACCOUNT_MAX + 1 };

static char names[NAMES][NAME_ROOM];
static bool wanted[NAMES];
static uint32_t told[NAMES];
static struct led_changes changes;
static uint32_t events;
static uint64_t want_seq;
static bool ended;

static int begin(void **state)
{
    (void)state;
    works_begin();
    memset(wanted, 0, sizeof wanted);
    memset(told, 0, sizeof told);
    events = 0;
    ended = false;
    for (int i = 0; i < NAMES; i++) {
        /* Of very different lengths, the longest among them. */
        (void)snprintf(names[i], NAME_ROOM, "t:%0*d", i % 8 == 0 ? LED_ACCOUNT_MAX - 2 : 3 + i % 40,
                       i);
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    works_drop();
    return 0;
}

static void hear(void *arg, const void *event, size_t len)
{
    struct lc_changes c;
    struct ron_str name;

    assert_ptr_equal(arg, &changes);
    assert_true(len <= LED_CHANGES_EVENT_MAX);
    assert_false(ended);
    assert_int_equal(lc_changes_read(event, len, &c), RON_OK);
    assert_int_equal(c.seq, want_seq);
    ended = c.last;
    events++;
    while (lc_changes_next(&c, &name)) {
        int i = 0;

        while (i < NAMES && !ron_str_is(name, names[i])) {
            i++;
        }
        assert_true(i < NAMES);
        told[i]++;
    }
}

static void tell(struct led_work *const *list, size_t count, uint64_t seq)
{
    want_seq = seq;
    led_changes_tell(&changes, list, count, seq, hear, &changes);
    assert_true(ended);
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(told[i] > 0, wanted[i]);
    }
}

static void test_led_changes__random_groups__every_account_and_no_other(void **state)
{
    struct ron_rand rand = support_rand();

    for (int round = 0; round < 200; round++) {
        struct led_work *list[20];
        size_t count = 1 + (size_t)ron_rand_below(&rand, RON_ARRAY_LEN(list));
        uint64_t span = 2 + ron_rand_below(&rand, NAMES - 1);

        for (size_t n = 0; n < count; n++) {
            struct led_entry entries[30];
            size_t many = 1 + (size_t)ron_rand_below(&rand, RON_ARRAY_LEN(entries));

            for (size_t i = 0; i < many; i++) {
                uint64_t a = ron_rand_below(&rand, span);
                uint64_t b = (a + 1 + ron_rand_below(&rand, span - 1)) % span;
                bool both = ron_rand_below(&rand, 3) > 0;

                entries[i] = works_entry(both ? LED_KIND_TRANSFER : LED_KIND_MINT, names[a],
                                         both ? names[b] : "", 1);
                wanted[a] = true;
                wanted[b] = wanted[b] || both;
            }
            list[n] = works_batch("", entries, many);
        }
        tell(list, count, 1 + ron_rand_u64(&rand) / 2);
        assert_int_equal(end(state), 0);
        assert_int_equal(begin(state), 0);
    }
}

static void test_led_changes__reversal__names_the_counterpart(void **state)
{
    struct led_entry original = works_entry(LED_KIND_TRANSFER, names[1], names[2], 1);
    const struct led_entry *originals[2] = {&original, NULL};
    struct led_entry pair[2];
    struct led_work *w;

    (void)state;
    pair[0] = works_entry(LED_KIND_REVERSE, names[1], "", 1);
    pair[0].ref = works_str("tx");
    pair[1] = works_entry(LED_KIND_REVERSE, names[3], "", 1); /* of a Mint: nobody else */
    pair[1].ref = works_str("tx-2");
    w = works_batch("", pair, 2);
    w->originals = originals;
    wanted[1] = wanted[2] = wanted[3] = true;
    tell(&w, 1, 9);
}

static void test_led_changes__hot_account__told_once(void **state)
{
    struct led_work *list[NAMES - 1];

    (void)state;
    for (int i = 1; i < NAMES; i++) {
        struct led_entry e = works_entry(LED_KIND_TRANSFER, names[0], names[i], 1);

        list[i - 1] = works_batch("", &e, 1);
        wanted[i] = true;
    }
    wanted[0] = true;
    tell(list, NAMES - 1, 500);
    assert_true(told[0] < 5); /* once, unless another name has its place in the table */
    assert_true(events > 2);
}

static void test_led_changes__tombstones_beside_entries__name_nobody(void **state)
{
    struct led_work *list[2];

    (void)state;
    list[0] = works_cancel("dead");
    list[1] = works_mint(names[5], 1);
    wanted[5] = true;
    tell(list, 2, 1);
    assert_int_equal(events, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_led_changes__random_groups__every_account_and_no_other,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_led_changes__reversal__names_the_counterpart, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_led_changes__hot_account__told_once, begin, end),
        cmocka_unit_test_setup_teardown(test_led_changes__tombstones_beside_entries__name_nobody,
                                        begin, end),
    };

    return cmocka_run_group_tests_name("ledger.led_changes", tests, NULL, NULL);
}
