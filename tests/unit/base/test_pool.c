/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a pool hands out each object to one owner at a time, never more than its maximum, and
 * notices wrong returns.
 * Method: a random driver that writes its own pattern into every live object. */
#include "support/support.h"

#include "base/poison.h"
#include "ron/base/assert.h"
#include "ron/base/pool.h"

#define COUNT 50

static void test_pool__zero_or_absurd_capacity__is_refused(void **state)
{
    (void)state;
    struct ron_pool pool = {0};

    assert_int_equal(ron_pool_init(&pool, "p", 8, 8, 0), RON_INVALID);
    assert_int_equal(ron_pool_init(&pool, "p", 0, 8, 8), RON_INVALID);
    assert_int_equal(ron_pool_init(&pool, "p", SIZE_MAX, 8, 1), RON_INVALID);
    assert_int_equal(ron_pool_init(&pool, "p", 8, 8, SIZE_MAX), RON_INVALID);
    assert_int_equal(ron_pool_init(&pool, "p", 1 << 20, 8, (size_t)1 << 44), RON_INVALID);
    ron_pool_done(&pool); /* fine on zeros */
}

static void test_pool__all_live__refuses_until_one_is_back(void **state)
{
    (void)state;
    struct ron_pool pool;
    void *objects[3];

    assert_int_equal(ron_pool_init(&pool, "three", 24, 8, 3), RON_OK);
    for (size_t i = 0; i < 3; i++) {
        objects[i] = ron_pool_get(&pool);
        assert_non_null(objects[i]);
    }
    assert_int_equal(ron_pool_live(&pool), 3);
    assert_null(ron_pool_get(&pool));
    assert_null(ron_pool_get(&pool));
    assert_int_equal(pool.refused_count, 2);
    ron_pool_put(&pool, objects[1]);
    assert_ptr_equal(ron_pool_get(&pool), objects[1]);
    for (size_t i = 0; i < 3; i++) {
        ron_pool_put(&pool, objects[i]);
    }
    ron_pool_put(&pool, NULL);
    assert_int_equal(ron_pool_live(&pool), 0);
    assert_int_equal(pool.live_peak, 3);
    ron_pool_done(&pool);
}

static void fill(uint8_t *object, size_t size, uint8_t mark)
{
    memset(object, mark, size);
}

static void drive(struct ron_pool *pool, size_t size, size_t align, struct ron_rand *rand)
{
    uint8_t *live[COUNT] = {0};
    size_t count = 0;

    for (int step = 0; step < 4000; step++) {
        size_t slot = (size_t)ron_rand_below(rand, COUNT);

        if (live[slot] == NULL) {
            live[slot] = ron_pool_get(pool);
            assert_non_null(live[slot]);
            assert_int_equal((uintptr_t)live[slot] % align, 0);
            fill(live[slot], size, (uint8_t)(slot + 1));
            count++;
        } else {
            for (size_t i = 0; i < size; i++) { /* nobody else wrote here */
                assert_int_equal(live[slot][i], slot + 1);
            }
            ron_pool_put(pool, live[slot]);
            live[slot] = NULL;
            count--;
        }
        assert_int_equal(ron_pool_live(pool), count);
        assert_int_equal(pool->fresh, pool->live + pool->returned); /* P1 */
    }
    for (size_t i = 0; i < COUNT; i++) {
        ron_pool_put(pool, live[i]);
    }
}

static void test_pool__random_use__gives_each_object_one_owner(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();
    static const size_t sizes[] = {1, 7, 8, 9, 63, 64, 65, 200};

    for (size_t i = 0; i < RON_ARRAY_LEN(sizes); i++) {
        for (size_t align = 1; align <= 128; align *= 4) {
            struct ron_pool pool;

            assert_int_equal(ron_pool_init(&pool, "random", sizes[i], align, COUNT), RON_OK);
            drive(&pool, sizes[i], align, &rand);
            ron_pool_done(&pool);
        }
    }
}

static void put_twice(void *arg)
{
    struct ron_pool *pool = arg;
    void *object = ron_pool_get(pool);
    void *other = ron_pool_get(pool);

    (void)other;
    ron_pool_put(pool, object);
    ron_pool_put(pool, object);
}

static void put_inside(void *arg)
{
    struct ron_pool *pool = arg;
    uint8_t *object = ron_pool_get(pool);

    ron_pool_put(pool, object + 8);
}

static void put_stranger(void *arg)
{
    struct ron_pool *pool = arg;
    static uint64_t stranger[8];

    RON_IGNORE(ron_pool_get(pool)); /* one live object, so that the count is not what fails */
    ron_pool_put(pool, stranger);
}

static void put_never_given(void *arg)
{
    struct ron_pool *pool = arg;
    uint8_t *object = ron_pool_get(pool);

    ron_pool_put(pool, object + pool->stride);
}

static void done_with_live(void *arg)
{
    struct ron_pool *pool = arg;

    RON_IGNORE(ron_pool_get(pool)); /* kept on purpose */
    ron_pool_done(pool);
}

static void use_after_put(void *arg)
{
    struct ron_pool *pool = arg;
    volatile uint8_t *object = ron_pool_get(pool);

    object[0] = 1;
    ron_pool_put(pool, (void *)(uintptr_t)object);
    /* AddressSanitizer reports this read; without it, the byte was overwritten. */
    RON_ASSERT_MSG(object[0] == 1, "stale byte was overwritten");
}

static void test_pool__wrong_return__is_caught(void **state)
{
    (void)state;
    struct ron_pool pool;

    assert_int_equal(ron_pool_init(&pool, "guarded", 32, 16, 4), RON_OK);
    support_death(put_stranger, &pool, "P3: not an object of pool guarded");
    support_death(put_never_given, &pool, "P3: not an object of pool guarded");
    if (RON_CHECKED) {
        support_death(put_twice, &pool, "P3: put twice in pool guarded");
        support_death(put_inside, &pool, "P3: pointer into an object of pool guarded");
        support_death(done_with_live, &pool, "pool->live == 0");
        support_death(use_after_put, &pool,
                      RON_ASAN ? "use-after-poison" : "stale byte was overwritten");
    }
    ron_pool_done(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool__zero_or_absurd_capacity__is_refused),
        cmocka_unit_test(test_pool__all_live__refuses_until_one_is_back),
        cmocka_unit_test(test_pool__random_use__gives_each_object_one_owner),
        cmocka_unit_test(test_pool__wrong_return__is_caught),
    };

    return cmocka_run_group_tests_name("base.pool", tests, NULL, NULL);
}
