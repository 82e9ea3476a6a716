/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: tile ids are those of PMTiles, in both directions, and everything outside is refused.
 * Method: known vectors; every tile of the low zooms against a curve drawn another way (each step
 * goes to a neighbour, each tile once); random tiles of all zooms there and back. */
#include "support/support.h"

#include "edge/pack/hilbert.h"

static uint64_t id_of(uint64_t z, uint64_t x, uint64_t y)
{
    uint64_t id = UINT64_MAX;

    assert_true(edg_tile_id(z, x, y, &id));
    return id;
}

static void test_hilbert__known_tiles__known_ids(void **state)
{
    static const struct {
        uint64_t z, x, y, id;
    } known[] = {{0, 0, 0, 0}, {1, 0, 0, 1},  {1, 0, 1, 2},
                 {1, 1, 1, 3}, {1, 1, 0, 4},  {2, 0, 0, 5},
                 {2, 1, 0, 6}, {2, 3, 0, 20}, {12, 3423, 1763, 19078479},
                 {3, 0, 0, 21}};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(known); i++) {
        struct edg_zxy back = {0};

        assert_int_equal(id_of(known[i].z, known[i].x, known[i].y), known[i].id);
        assert_true(edg_tile_zxy(known[i].id, &back));
        assert_true(back.z == known[i].z && back.x == known[i].x && back.y == known[i].y);
    }
    assert_int_equal(id_of(31, (1u << 31) - 1, 0), EDG_TILE_ID_MAX);
    assert_int_equal(edg_zoom_first_id(32), EDG_TILE_ID_MAX + 1);
}

static void test_hilbert__low_zooms__one_walk_through_all_neighbours(void **state)
{
    uint64_t next = 0;

    (void)state;
    for (uint8_t z = 0; z <= 8; z++) {
        struct edg_zxy last = {0};

        assert_int_equal(edg_zoom_first_id(z), next);
        for (uint64_t i = 0; i < (uint64_t)1 << (2 * z); i++, next++) {
            struct edg_zxy t = {0};
            uint32_t steps;

            assert_true(edg_tile_zxy(next, &t));
            assert_int_equal(t.z, z);
            assert_int_equal(id_of(t.z, t.x, t.y), next);
            steps = (t.x > last.x ? t.x - last.x : last.x - t.x) +
                    (t.y > last.y ? t.y - last.y : last.y - t.y);
            assert_int_equal(steps, i == 0 ? 0 : 1);
            last = t;
        }
    }
}

static void test_hilbert__random_tiles__there_and_back(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < 200000; i++) {
        uint64_t z = ron_rand_below(&rand, 32);
        uint64_t x = ron_rand_u64(&rand) & (((uint64_t)1 << z) - 1);
        uint64_t y = ron_rand_u64(&rand) & (((uint64_t)1 << z) - 1);
        struct edg_zxy back = {0};
        uint64_t id = id_of(z, x, y);

        assert_true(id >= edg_zoom_first_id((uint32_t)z));
        assert_true(id < edg_zoom_first_id((uint32_t)z + 1));
        assert_true(edg_tile_zxy(id, &back));
        assert_true(back.z == z && back.x == x && back.y == y);
    }
}

static void test_hilbert__outside_the_map__refused(void **state)
{
    uint64_t id = 7;
    struct edg_zxy zxy = {.z = 7};

    (void)state;
    assert_false(edg_tile_id(32, 0, 0, &id));
    assert_false(edg_tile_id(UINT64_MAX, 0, 0, &id));
    assert_false(edg_tile_id(0, 1, 0, &id));
    assert_false(edg_tile_id(0, 0, 1, &id));
    assert_false(edg_tile_id(5, 32, 0, &id));
    assert_false(edg_tile_id(5, 0, 32, &id));
    assert_false(edg_tile_id(5, (uint64_t)1 << 32, 0, &id));
    assert_false(edg_tile_id(31, 0, (uint64_t)1 << 31, &id));
    assert_false(edg_tile_zxy(EDG_TILE_ID_MAX + 1, &zxy));
    assert_false(edg_tile_zxy(UINT64_MAX, &zxy));
    assert_true(id == 7 && zxy.z == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hilbert__known_tiles__known_ids),
        cmocka_unit_test(test_hilbert__low_zooms__one_walk_through_all_neighbours),
        cmocka_unit_test(test_hilbert__random_tiles__there_and_back),
        cmocka_unit_test(test_hilbert__outside_the_map__refused),
    };

    return cmocka_run_group_tests_name("hilbert", tests, NULL, NULL);
}
