/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the macros compute what they say and evaluate their arguments once.
 * Method: side effects in the arguments, and nesting of a macro in itself. */
#include "support/support.h"

#include "ron/base/macros.h"

static int freed_count;

static void count_free(int **slot)
{
    if (*slot != NULL) {
        freed_count++;
    }
}

static void test_macros__array__has_its_length(void **state)
{
    (void)state;
    static const int numbers[7] = {0};
    struct {
        char text[13];
    } s;

    (void)numbers;
    (void)s;
    assert_int_equal(RON_ARRAY_LEN(numbers), 7);
    assert_int_equal(RON_ARRAY_LEN(s.text), 13);
}

static void test_macros__member_pointer__gives_its_container(void **state)
{
    (void)state;
    struct outer {
        int before;
        long member;
    } outer = {0};
    long *member = &outer.member;

    assert_ptr_equal(RON_CONTAINER_OF(member, struct outer, member), &outer);
}

static void test_macros__min_max__evaluate_once_and_nest(void **state)
{
    (void)state;
    int calls = 0;

    assert_int_equal(RON_MIN((calls++, 3), 5), 3);
    assert_int_equal(RON_MAX(3, (calls++, 5)), 5);
    assert_int_equal(calls, 2);
    assert_int_equal(RON_MIN(RON_MIN(4, 2), RON_MIN(9, 3)), 2);
    assert_int_equal(RON_MAX(RON_MAX(4, 2), RON_MAX(9, 3)), 9);
    assert_int_equal(RON_MAX(-1, RON_MIN(7, 8)), 7);
    assert_true(RON_MAX(UINT64_MAX, UINT64_C(1)) == UINT64_MAX);
}

static void test_macros__cleanup__runs_unless_taken(void **state)
{
    (void)state;
    int value = 0;

    freed_count = 0;
    {
        RON_CLEANUP(count_free) int *kept = &value;

        (void)kept;
    }
    assert_int_equal(freed_count, 1);
    {
        RON_CLEANUP(count_free) int *given = &value;
        int *taken = RON_TAKE(given);

        assert_ptr_equal(taken, &value);
        assert_null(given);
    }
    assert_int_equal(freed_count, 1);
}

static void test_macros__cacheline__aligns_types_and_fields(void **state)
{
    (void)state;
    struct two_writers {
        RON_ALIGNED_CACHELINE uint64_t mine;
        RON_ALIGNED_CACHELINE uint64_t yours;
    };

    assert_int_equal(offsetof(struct two_writers, yours), RON_CACHELINE);
    assert_int_equal(_Alignof(struct two_writers), RON_CACHELINE);
    assert_int_equal(sizeof(struct two_writers), 2 * RON_CACHELINE);
}

RON_MUST_USE static int must_use(void)
{
    return freed_count++;
}

static void test_macros__ignore__evaluates_once(void **state)
{
    (void)state;
    freed_count = 0;
    RON_IGNORE(must_use()); /* the test is that it compiles and runs once */
    assert_int_equal(freed_count, 1);
}

static void test_macros__str_and_paste__expand_first(void **state)
{
    (void)state;
#define NUMBER 42
    int RON_PASTE(name_, NUMBER) = 7;

    assert_string_equal(RON_STR(NUMBER), "42");
    assert_int_equal(name_42, 7);
#undef NUMBER
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_macros__array__has_its_length),
        cmocka_unit_test(test_macros__member_pointer__gives_its_container),
        cmocka_unit_test(test_macros__min_max__evaluate_once_and_nest),
        cmocka_unit_test(test_macros__cleanup__runs_unless_taken),
        cmocka_unit_test(test_macros__cacheline__aligns_types_and_fields),
        cmocka_unit_test(test_macros__ignore__evaluates_once),
        cmocka_unit_test(test_macros__str_and_paste__expand_first),
    };

    return cmocka_run_group_tests_name("base.macros", tests, NULL, NULL);
}
