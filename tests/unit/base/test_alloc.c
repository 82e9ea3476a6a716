/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the heap's door checks sizes, can be made to fail, and shows every block to the watcher.
 * Method: a counting watch hook and a fault hook that answers as told. */
#include "support/support.h"

#include "ron/base/alloc.h"
#include "ron/base/fault.h"

static long live;
static long births;
static const char *last_site;
static bool answer;

static void watch(int delta, const char *site)
{
    live += delta;
    births += delta > 0;
    last_site = site;
}

static bool hook(enum ron_fault_kind kind, const char *site)
{
    last_site = site;
    return answer && kind == RON_FAULT_ALLOC;
}

static int set_up(void **state)
{
    (void)state;
    live = 0;
    births = 0;
    answer = false;
    ron_alloc_watch = watch;
    ron_fault_hook = hook;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ron_alloc_watch = NULL;
    ron_fault_hook = NULL;
    return live == 0 ? 0 : -1;
}

static bool is_zero(const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static void test_alloc__each_function__gives_a_counted_block(void **state)
{
    (void)state;
    unsigned char *plain = ron_alloc(100);
    unsigned char *zero = ron_alloc_zero(100);
    unsigned char *array = ron_alloc_array(25, 4);
    char *copy = ron_strdup("copy");
    void *aligned = ron_alloc_aligned(64, 100);

    assert_non_null(plain);
    memset(plain, 1, 100);
    assert_true(is_zero(zero, 100));
    assert_true(is_zero(array, 100));
    assert_string_equal(copy, "copy");
    assert_non_null(aligned);
    memset(aligned, 1, 100);
    assert_int_equal(live, 5);
    ron_free(plain);
    ron_free(zero);
    ron_free(array);
    ron_free(copy);
    ron_free(aligned);
    assert_int_equal(live, 0);
    ron_free(NULL);
    assert_int_equal(live, 0);
}

static void test_alloc__zero_bytes__is_a_block_not_a_failure(void **state)
{
    (void)state;
    void *blocks[] = {ron_alloc(0), ron_alloc_zero(0), ron_alloc_array(0, 8),
                      ron_alloc_aligned(32, 0), ron_realloc_array(NULL, 0, 8)};

    for (size_t i = 0; i < RON_ARRAY_LEN(blocks); i++) {
        assert_non_null(blocks[i]);
        for (size_t j = 0; j < i; j++) {
            assert_ptr_not_equal(blocks[i], blocks[j]);
        }
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(blocks); i++) {
        ron_free(blocks[i]);
    }
}

static void test_alloc__absurd_size__is_refused(void **state)
{
    (void)state;
    volatile size_t huge = SIZE_MAX; /* volatile: the compiler would warn about the constant */
    volatile size_t half = SIZE_MAX / 2 + 2;

    assert_null(ron_alloc(huge));
    assert_null(ron_alloc_zero(half));
    assert_null(ron_alloc_array(half, 2));
    assert_null(ron_alloc_array(huge, huge));
    assert_null(ron_alloc_aligned(16, huge));
    assert_null(ron_realloc_array(NULL, half, 2));
    assert_null(ron_realloc_array(NULL, huge, 1));
    assert_int_equal(births, 0);
}

static void test_alloc__aligned__is_aligned(void **state)
{
    (void)state;
    for (size_t align = 1; align <= 4096; align *= 2) {
        for (size_t size = 0; size <= 130; size += 13) {
            void *block = ron_alloc_aligned(align, size);

            assert_non_null(block);
            assert_int_equal((uintptr_t)block % align, 0);
            memset(block, 0xff, size);
            ron_free(block);
        }
    }
}

static void align_badly(void *arg)
{
    size_t *align = arg;

    ron_free(ron_alloc_aligned(*align, 8));
}

static void test_alloc__alignment_no_power_of_two__is_a_bug(void **state)
{
    (void)state;
    size_t align = 24;

    support_death(align_badly, &align, "alignment 24 is not a power of two");
    align = 0;
    support_death(align_badly, &align, "align != 0");
}

static void test_alloc__realloc__keeps_content_and_on_failure_the_block(void **state)
{
    (void)state;
    uint32_t *numbers = ron_realloc_array(NULL, 4, sizeof(*numbers));

    assert_non_null(numbers);
    for (uint32_t i = 0; i < 4; i++) {
        numbers[i] = i * 3;
    }
    uint32_t *grown = ron_realloc_array(numbers, 1000, sizeof(*grown));

    assert_non_null(grown);
    assert_int_equal(live, 1);
    answer = true;
    assert_null(ron_realloc_array(grown, 2000, sizeof(*grown)));
    answer = false;
    assert_int_equal(live, 1);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(grown[i], i * 3);
    }
    ron_free(grown);
}

static void test_alloc__fault__fails_each_function_and_names_the_caller(void **state)
{
    (void)state;
    answer = true;
    last_site = NULL;
    assert_null(ron_alloc(1));
    assert_string_equal(last_site, __func__);
    assert_null(ron_alloc_zero(1));
    assert_null(ron_alloc_array(1, 1));
    assert_null(ron_alloc_aligned(8, 8));
    assert_null(ron_strdup("x"));
    assert_null(ron_realloc_array(NULL, 1, 1));
    assert_int_equal(births, 0);
}

static void test_alloc__auto_free__releases_at_the_end_of_the_scope(void **state)
{
    (void)state;
    char *kept = NULL;

    {
        RON_AUTO_FREE char *dropped = ron_strdup("dropped");
        RON_AUTO_FREE char *given = ron_strdup("given");
        RON_AUTO_FREE char *none = NULL;

        (void)none;
        assert_non_null(dropped);
        assert_int_equal(live, 2);
        kept = RON_TAKE(given);
    }
    assert_int_equal(live, 1);
    assert_string_equal(kept, "given");
    ron_free(kept);
}

static void test_alloc__no_hook__is_no_fault(void **state)
{
    (void)state;
    ron_fault_hook = NULL;
    assert_false(RON_FAULT(RON_FAULT_SYSCALL, "here"));
    ron_fault_hook = hook;
    answer = true;
    assert_true(RON_FAULT(RON_FAULT_ALLOC, "here"));
    assert_false(RON_FAULT(RON_FAULT_SYSCALL, "there"));
    assert_string_equal(last_site, "there");
}

static void test_alloc__advised_huge__keeps_its_content(void **state)
{
    enum { SIZE = 5 << 20 };
    uint8_t *block = ron_alloc(SIZE);
    size_t same = 0;

    (void)state;
    assert_non_null(block);
    memset(block, 0x5a, SIZE);
    ron_alloc_advise_huge(block, SIZE);
    ron_alloc_advise_huge(block + 1, 10); /* no whole page in it */
    ron_alloc_advise_huge(block, 0);
    for (size_t i = 0; i < SIZE; i++) {
        same += block[i] == 0x5a;
    }
    assert_int_equal(same, SIZE);
    ron_free(block);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_alloc__each_function__gives_a_counted_block),
        TEST(test_alloc__zero_bytes__is_a_block_not_a_failure),
        TEST(test_alloc__absurd_size__is_refused),
        TEST(test_alloc__aligned__is_aligned),
        TEST(test_alloc__alignment_no_power_of_two__is_a_bug),
        TEST(test_alloc__realloc__keeps_content_and_on_failure_the_block),
        TEST(test_alloc__fault__fails_each_function_and_names_the_caller),
        TEST(test_alloc__auto_free__releases_at_the_end_of_the_scope),
        TEST(test_alloc__no_hook__is_no_fault),
        TEST(test_alloc__advised_huge__keeps_its_content),
    };

    return cmocka_run_group_tests_name("base.alloc", tests, NULL, NULL);
}
