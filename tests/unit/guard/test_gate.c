/* SPDX-License-Identifier: Apache-2.0 */
/* test_gate.c - at most so many inside at once.
 *
 * Goal: the limit is exact, 0 turns it off, offers add up, and one leave too many is caught.
 * Method: random entering and leaving against a plain count; threads do the same in
 *   tests/scenario/scn_guard_gate.c.
 */
#include "unit/guard/fixture.h"

#include "ron/guard/gate.h"

static void test_gate__random_traffic__as_a_plain_count(void **state)
{
    struct ron_rand rand = support_rand();
    struct ron_gate g;
    struct ron_gate_stats stats;
    uint64_t offered = 0;
    uint64_t peak = 0;
    uint32_t inside = 0;

    uint32_t limit = (uint32_t)ron_rand_below(&rand, 8);

    (void)state;
    ron_gate_init(&g, limit);
    for (int i = 0; i < 20000; i++) {
        if (ron_rand_chance(&rand, 1, 2)) {
            bool expected = limit == 0 || inside < limit;

            offered++;
            assert_int_equal(ron_gate_enter(&g), expected ? RON_OK : RON_FULL);
            inside += expected;
            peak = inside > peak ? inside : peak;
        } else if (inside > 0) {
            ron_gate_leave(&g);
            inside--;
        }
        ron_gate_get_stats(&g, &stats);
        assert_int_equal(stats.inflight, inside);
        assert_int_equal(stats.peak, peak);
        assert_int_equal(stats.admitted + stats.busy_rejections_total, offered);
    }
    while (inside-- > 0) {
        ron_gate_leave(&g);
    }
    ron_gate_done(&g);
}

static void leave_twice(void *arg)
{
    struct ron_gate *g = arg;

    RON_IGNORE(ron_gate_enter(g)); /* admitted: the gate is new */
    ron_gate_leave(g);
    ron_gate_leave(g);
}

static void close_with_one_inside(void *arg)
{
    RON_IGNORE(ron_gate_enter(arg)); /* admitted: the gate is new */
    ron_gate_done(arg);
}

static void test_gate__wrong_use__dies(void **state)
{
    struct ron_gate g;

    (void)state;
    ron_gate_init(&g, RON_GATE_LIMIT_DEFAULT);
    support_death(leave_twice, &g, "G2");
    support_death(close_with_one_inside, &g, "somebody inside");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gate__random_traffic__as_a_plain_count),
        cmocka_unit_test(test_gate__wrong_use__dies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
