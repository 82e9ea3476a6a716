/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the table keeps exactly what was put in, through splits and removals; the store keeps its
 * records in place.
 * Method: random adds and removals against a plain array of flags; hashes squeezed into few bits,
 * so that pages crowd and split deep. */
#include "support/support.h"

#include "ledger/book/table.h"

enum { KEYS = 20000 };

static struct led_blocks blocks;
static struct led_pool pool;
static uint32_t squeeze; /* hash = key * odd, upper bits kept by this mask */

static uint32_t hash_of(uint32_t key)
{
    return key * UINT32_C(2654435761) & squeeze;
}

static int setup(void **state)
{
    (void)state;
    blocks = (struct led_blocks){0};
    led_pool_init(&pool, &blocks);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    led_pool_done(&pool);
    led_blocks_done(&blocks);
    return 0;
}

static bool match(const void *owner, uint32_t index, const void *key)
{
    const uint32_t *wanted = key;

    (void)owner;
    return index == *wanted;
}

static void run_map(struct ron_rand *rand)
{
    static bool there[KEYS];
    struct led_table t;
    uint64_t count = 0;

    memset(there, 0, sizeof there);
    assert_int_equal(led_table_init(&t, &pool), RON_OK);
    for (int i = 0; i < 100000; i++) {
        uint32_t key = (uint32_t)ron_rand_below(rand, KEYS);
        uint32_t found = led_table_find(&t, hash_of(key), match, NULL, &key);

        assert_int_equal(found, there[key] ? key : LED_TABLE_NONE);
        if (!there[key]) {
            assert_int_equal(led_table_add(&t, hash_of(key), key), RON_OK);
            count++;
            there[key] = true;
        } else if (ron_rand_chance(rand, 2, 3)) {
            led_table_remove(&t, hash_of(key), key);
            count--;
            there[key] = false;
        }
        assert_int_equal(t.count, count);
    }
    for (uint32_t key = 0; key < KEYS; key++) {
        assert_int_equal(led_table_find(&t, hash_of(key), match, NULL, &key),
                         there[key] ? key : LED_TABLE_NONE);
    }
    led_table_done(&t);
}

static void test_led_table__random_map__agrees_with_flags(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    squeeze = UINT32_MAX;
    run_map(&rand);
    squeeze = UINT32_C(0xfff0003f); /* few slots, many pages */
    run_map(&rand);
}

static void test_led_table__equal_hashes__end_in_a_limit(void **state)
{
    struct led_table t;
    uint32_t i = 0;

    (void)state;
    assert_int_equal(led_table_init(&t, &pool), RON_OK);
    while (i < LED_PAGE_FILL_MAX) {
        assert_int_equal(led_table_add(&t, 7, i++), RON_OK);
    }
    assert_int_equal(led_table_add(&t, 7, i), RON_LIMIT);
    for (uint32_t k = 0; k < LED_PAGE_FILL_MAX; k++) {
        assert_int_equal(led_table_find(&t, 7, match, NULL, &k), k);
    }
    led_table_done(&t);
}

static void add_to_set(struct led_table *t, uint64_t value, bool expect_new)
{
    bool is_new = !expect_new;

    assert_int_equal(led_set_add(t, value, &is_new), RON_OK);
    assert_int_equal(is_new, expect_new);
}

static void test_led_table__set__keeps_zero_and_drops_in_steps(void **state)
{
    struct ron_rand rand = support_rand();
    struct led_table t;
    size_t cursor = 0;
    int steps = 0;

    (void)state;
    assert_int_equal(led_table_init(&t, &pool), RON_OK);
    assert_false(led_set_has(&t, 0));
    add_to_set(&t, 0, true);
    add_to_set(&t, 0, false);
    add_to_set(&t, 1, false);
    assert_true(led_set_has(&t, 0));
    assert_true(led_set_remove(&t, 0));
    assert_false(led_set_remove(&t, 0));
    for (int i = 0; i < 50000; i++) {
        uint64_t value = ron_rand_u64(&rand);

        add_to_set(&t, value, true);
        assert_true(led_set_has(&t, value));
    }
    assert_int_equal(t.count, 50000);
    while (!led_table_done_some(&t, &cursor, 8)) {
        steps++;
    }
    assert_true(steps > 10);
    assert_null(t.pages);
}

static void test_led_table__released_pages__are_used_again(void **state)
{
    struct ron_rand rand = support_rand();
    struct led_table t;

    (void)state;
    for (int round = 0; round < 4; round++) {
        assert_int_equal(led_table_init(&t, &pool), RON_OK);
        for (int i = 0; i < 100000; i++) {
            add_to_set(&t, ron_rand_u64(&rand), true);
        }
        led_table_done(&t);
    }
    assert_int_equal(pool.slab_count, 1); /* 512 pages, of which 100,000 values need at most 512 */
}

static void test_led_table__store__records_stay_in_place(void **state)
{
    struct led_store s;
    uint32_t index;
    void *first;

    (void)state;
    led_store_init(&s, &blocks, sizeof(uint64_t), 3, 1000);
    assert_int_equal(led_store_push(&s, &index), RON_OK);
    first = led_store_at(&s, index);
    for (uint32_t i = 1; i < 1000; i++) {
        assert_int_equal(led_store_push(&s, &index), RON_OK);
        assert_int_equal(index, i);
        *(uint64_t *)led_store_at(&s, index) = i;
    }
    assert_int_equal(led_store_push(&s, &index), RON_FULL);
    assert_ptr_equal(led_store_at(&s, 0), first);
    assert_int_equal(*(uint64_t *)led_store_at(&s, 617), 617);
    led_store_pop(&s);
    assert_int_equal(led_store_push(&s, &index), RON_OK);
    assert_int_equal(*(uint64_t *)led_store_at(&s, index), 0);
    led_store_done(&s);
}

static void test_led_table__spare_blocks__are_used_first(void **state)
{
    struct ron_rand rand = support_rand();
    struct led_table t;

    (void)state;
    assert_int_equal(led_table_init(&t, &pool), RON_OK);
    assert_false(blocks.is_growing);
    for (int i = 0; i < LED_SPARES_MAX + 1; i++) {
        void *block = led_block_make();

        assert_non_null(block);
        led_blocks_add_spare(&blocks, block); /* The last is one too many. */
    }
    assert_int_equal(blocks.spare_count, LED_SPARES_MAX);
    while (pool.slab_count < 2 + LED_SPARES_MAX) {
        add_to_set(&t, ron_rand_u64(&rand), true);
    }
    assert_true(blocks.is_growing);
    assert_int_equal(blocks.given, LED_SPARES_MAX);
    assert_int_equal(blocks.spare_count, 0);
    blocks.may_stall = true;
    while (pool.slab_count < 3 + LED_SPARES_MAX) {
        add_to_set(&t, ron_rand_u64(&rand), true);
    }
    led_table_done(&t);
}

static void test_led_table__rest__spares_go_and_come_back(void **state)
{
    struct ron_rand rand = support_rand();
    struct led_table t;

    (void)state;
    assert_int_equal(led_table_init(&t, &pool), RON_OK);
    while (pool.slab_count < 2) {
        add_to_set(&t, ron_rand_u64(&rand), true);
    }
    assert_true(blocks.is_growing);
    led_blocks_add_spare(&blocks, led_block_make());
    led_blocks_rest(&blocks);
    assert_int_equal(blocks.spare_count, 0);
    assert_false(blocks.is_growing);
    while (pool.slab_count < 3) {
        add_to_set(&t, ron_rand_u64(&rand), true);
    }
    assert_true(blocks.is_growing);
    led_table_done(&t);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_led_table__random_map__agrees_with_flags),
        CASE(test_led_table__equal_hashes__end_in_a_limit),
        CASE(test_led_table__set__keeps_zero_and_drops_in_steps),
        CASE(test_led_table__released_pages__are_used_again),
        CASE(test_led_table__spare_blocks__are_used_first),
        CASE(test_led_table__rest__spares_go_and_come_back),
        CASE(test_led_table__store__records_stay_in_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
