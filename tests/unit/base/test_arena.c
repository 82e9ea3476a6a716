/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: blocks never overlap or pass the maximum, an overflow sticks, and a reset takes back
 * exactly what came after the mark.
 * Method: a random driver that fills every block with its own pattern and checks all of them. */
#include "support/support.h"

#include "base/poison.h"
#include "ron/base/arena.h"
#include "ron/base/assert.h"

#define SIZE 4096
#define BLOCKS_MAX 4096

struct block {
    uint8_t *bytes;
    size_t size;
};

static void test_arena__zero_or_absurd_maximum__is_refused(void **state)
{
    (void)state;
    struct ron_arena arena = {0};

    assert_int_equal(ron_arena_init(&arena, 0), RON_INVALID);
    assert_int_equal(ron_arena_init(&arena, SIZE_MAX), RON_NOMEM);
    ron_arena_done(&arena); /* fine on zeros, and twice */
    ron_arena_done(&arena);
}

static void test_arena__exact_fit__works_and_one_more_byte_does_not(void **state)
{
    (void)state;
    struct ron_arena arena;

    assert_int_equal(ron_arena_init(&arena, 64), RON_OK);
    assert_non_null(ron_arena_alloc(&arena, 64, 1));
    assert_non_null(ron_arena_alloc(&arena, 0, 1)); /* nothing always fits */
    assert_false(ron_arena_overflowed(&arena));
    assert_null(ron_arena_alloc(&arena, 1, 1));
    assert_true(ron_arena_overflowed(&arena));
    ron_arena_done(&arena);
}

static void test_arena__overflow__sticks_until_a_mark_from_before(void **state)
{
    (void)state;
    struct ron_arena arena;

    assert_int_equal(ron_arena_init(&arena, 100), RON_OK);
    struct ron_arena_mark start = ron_arena_mark(&arena);

    assert_null(ron_arena_alloc(&arena, 101, 1));
    struct ron_arena_mark late = ron_arena_mark(&arena);

    assert_null(ron_arena_alloc(&arena, 1, 1)); /* it would fit, but R2 */
    ron_arena_reset(&arena, late);
    assert_true(ron_arena_overflowed(&arena));
    ron_arena_reset(&arena, start);
    assert_false(ron_arena_overflowed(&arena));
    assert_non_null(ron_arena_alloc(&arena, 1, 1));
    assert_null(ron_arena_alloc_array(&arena, SIZE_MAX / 2, 3, 1));
    assert_true(ron_arena_overflowed(&arena));
    ron_arena_clear(&arena);
    assert_null(ron_arena_dup(&arena, "x", SIZE_MAX));
    assert_true(ron_arena_overflowed(&arena));
    ron_arena_clear(&arena);
    assert_null(ron_arena_alloc(&arena, SIZE_MAX, 64)); /* no wrap-around with the gap */
    ron_arena_done(&arena);
}

static void test_arena__array_and_dup__have_their_content(void **state)
{
    (void)state;
    struct ron_arena arena;

    assert_int_equal(ron_arena_init(&arena, SIZE), RON_OK);
    char *copy = ron_arena_dup(&arena, "abcdef", 3);
    uint32_t *numbers = ron_arena_alloc_array(&arena, 10, sizeof(*numbers), _Alignof(uint32_t));
    uint64_t *one = RON_ARENA_NEW(&arena, uint64_t);

    assert_string_equal(copy, "abc");
    assert_string_equal(ron_arena_dup(&arena, NULL, 0), "");
    assert_int_equal((uintptr_t)one % _Alignof(uint64_t), 0);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(numbers[i], 0);
    }
    ron_arena_done(&arena);
}

/* Every block holds a pattern of its own; any overlap destroys one. */
static void check_patterns(const struct block *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < blocks[i].size; j++) {
            assert_int_equal(blocks[i].bytes[j], (uint8_t)(i * 37 + j));
        }
    }
}

static void drive(struct ron_arena *arena, struct ron_rand *rand)
{
    static struct block blocks[BLOCKS_MAX];
    struct ron_arena_mark marks[64];
    size_t counts[64];
    size_t mark_count = 0;
    size_t count = 0;

    for (int step = 0; step < 3000; step++) {
        uint64_t choice = ron_rand_below(rand, 100);

        if (choice < 5 && mark_count < RON_ARRAY_LEN(marks)) {
            marks[mark_count] = ron_arena_mark(arena);
            counts[mark_count++] = count;
        } else if (choice < 10 && mark_count > 0) {
            ron_arena_reset(arena, marks[--mark_count]);
            count = counts[mark_count];
            check_patterns(blocks, count);
        } else if (choice < 12) {
            ron_arena_clear(arena);
            mark_count = 0;
            count = 0;
        } else if (count < BLOCKS_MAX) {
            size_t size = (size_t)ron_rand_below(rand, 200);
            size_t align = (size_t)1 << ron_rand_below(rand, 8);
            bool was_full = ron_arena_overflowed(arena);
            uint8_t *bytes = ron_arena_alloc(arena, size, align);

            assert_int_equal(bytes == NULL, ron_arena_overflowed(arena));
            assert_true(!was_full || bytes == NULL);
            if (bytes != NULL) {
                assert_int_equal((uintptr_t)bytes % align, 0);
                assert_true(bytes >= arena->base && bytes + size <= arena->base + arena->size);
                for (size_t j = 0; j < size; j++) {
                    bytes[j] = (uint8_t)(count * 37 + j);
                }
                blocks[count++] = (struct block){.bytes = bytes, .size = size};
            }
        }
        assert_true(arena->used <= arena->size && arena->used <= arena->used_peak);
    }
    check_patterns(blocks, count);
}

static void test_arena__random_use__keeps_blocks_apart_and_bounded(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();
    struct ron_arena arena;
    uint8_t memory[SIZE + 1];

    for (int round = 0; round < 10; round++) {
        assert_int_equal(ron_arena_init(&arena, SIZE), RON_OK);
        drive(&arena, &rand);
        ron_arena_done(&arena);
        ron_arena_init_over(&arena, memory + 1, SIZE); /* a start of no alignment at all */
        drive(&arena, &rand);
        ron_arena_done(&arena);
    }
}

static void use_after_reset(void *arg)
{
    struct ron_arena *arena = arg;
    volatile uint8_t *bytes = ron_arena_alloc(arena, 16, 8);

    bytes[0] = 1;
    ron_arena_clear(arena);
    /* AddressSanitizer reports this read; without it, the byte was overwritten. */
    RON_ASSERT_MSG(bytes[0] == 1, "stale byte was overwritten");
}

static void test_arena__use_after_reset__is_noticed(void **state)
{
    (void)state;
    struct ron_arena arena;

    if (!RON_CHECKED) {
        skip();
    }
    assert_int_equal(ron_arena_init(&arena, 64), RON_OK);
    support_death(use_after_reset, &arena,
                  RON_ASAN ? "use-after-poison" : "stale byte was overwritten");
    ron_arena_done(&arena);
}

static void reset_in_wrong_order(void *arg)
{
    struct ron_arena *arena = arg;
    struct ron_arena_mark early = ron_arena_mark(arena);

    if (ron_arena_alloc(arena, 8, 1) != NULL) {
        struct ron_arena_mark late = ron_arena_mark(arena);

        ron_arena_reset(arena, early);
        ron_arena_reset(arena, late);
    }
}

static void align_badly(void *arg)
{
    RON_IGNORE(ron_arena_alloc(arg, 8, 3)); /* does not return */
}

static void test_arena__wrong_use__is_caught(void **state)
{
    (void)state;
    struct ron_arena arena;
    struct ron_arena stranger = {.magic = 7};

    assert_int_equal(ron_arena_init(&arena, 64), RON_OK);
    support_death(reset_in_wrong_order, &arena, "last-in first-out");
    support_death(align_badly, &arena, "(align & (align - 1)) == 0");
    support_death(align_badly, &stranger, "arena->magic == ARENA_MAGIC");
    ron_arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena__zero_or_absurd_maximum__is_refused),
        cmocka_unit_test(test_arena__exact_fit__works_and_one_more_byte_does_not),
        cmocka_unit_test(test_arena__overflow__sticks_until_a_mark_from_before),
        cmocka_unit_test(test_arena__array_and_dup__have_their_content),
        cmocka_unit_test(test_arena__random_use__keeps_blocks_apart_and_bounded),
        cmocka_unit_test(test_arena__use_after_reset__is_noticed),
        cmocka_unit_test(test_arena__wrong_use__is_caught),
    };

    return cmocka_run_group_tests_name("base.arena", tests, NULL, NULL);
}
