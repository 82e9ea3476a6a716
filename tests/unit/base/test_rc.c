/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the table of result codes is consistent, and an error's text survives every length.
 * Method: walk the table; build messages around the size of the array. */
#include <errno.h>

#include "support/support.h"

#include "ron/base/rc.h"

static const enum ron_rc all_codes[] = {
#define X(name, value, class, http, doc) RON_##name,
    RON_RC_TABLE(X)
#undef X
};

static void test_rc__every_code__is_distinct_and_named(void **state)
{
    (void)state;
    assert_int_equal(RON_OK, 0);
    assert_int_equal(RON_ARRAY_LEN(all_codes), 18);
    for (size_t i = 0; i < RON_ARRAY_LEN(all_codes); i++) {
        enum ron_rc rc = all_codes[i];

        assert_true(rc == RON_OK || rc < 0);
        assert_true(strncmp(ron_rc_name(rc), "RON_", 4) == 0);
        assert_string_not_equal(ron_rc_name(rc), "RON_?");
        assert_true(strlen(ron_rc_doc(rc)) > 10);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(rc, all_codes[j]);
            assert_string_not_equal(ron_rc_name(rc), ron_rc_name(all_codes[j]));
        }
    }
    assert_string_equal(ron_rc_name(RON_FULL), "RON_FULL");
    assert_string_equal(ron_rc_name(RON_INTERNAL), "RON_INTERNAL");
}

static void test_rc__unknown_number__is_answered(void **state)
{
    (void)state;
    static const int numbers[] = {1, 99, -18, -1000, INT32_MAX, INT32_MIN};

    for (size_t i = 0; i < RON_ARRAY_LEN(numbers); i++) {
        enum ron_rc rc = (enum ron_rc)numbers[i];

        assert_string_equal(ron_rc_name(rc), "RON_?");
        assert_int_equal(ron_rc_class(rc), RON_RC_CLASS_PERMANENT);
        assert_non_null(ron_rc_doc(rc));
    }
}

static enum ron_rc failing_origin(struct ron_err *err)
{
    return ron_err_set(err, RON_INVALID, "field %s has %d", "depth", 7);
}

static void test_rc__set__fills_everything_and_returns_the_code(void **state)
{
    (void)state;
    struct ron_err err = {0};

    assert_int_equal(failing_origin(&err), RON_INVALID);
    assert_int_equal(err.rc, RON_INVALID);
    assert_int_equal(err.sys_errno, 0);
    assert_string_equal(err.where, "failing_origin");
    assert_string_equal(err.msg, "field depth has 7");
}

static void test_rc__null_error__is_accepted(void **state)
{
    (void)state;
    assert_int_equal(failing_origin(NULL), RON_INVALID);
    assert_int_equal(ron_err_set_sys(NULL, RON_IO, EIO, "read"), RON_IO);
    ron_err_prefix(NULL, "opening %s", "x");
}

static void test_rc__set_sys__appends_the_meaning_of_errno(void **state)
{
    (void)state;
    struct ron_err err = {0};

    assert_int_equal(ron_err_set_sys(&err, RON_IO, ENOSPC, "write %d", 3), RON_IO);
    assert_int_equal(err.sys_errno, ENOSPC);
    assert_string_equal(err.msg, "write 3: No space left on device");
    assert_int_equal(ron_err_set_sys(&err, RON_IO, 99999, "write"), RON_IO);
    assert_string_equal(err.msg, "write: unknown errno");
}

static void test_rc__prefix__keeps_code_and_origin(void **state)
{
    (void)state;
    struct ron_err err = {0};

    (void)failing_origin(&err);
    ron_err_prefix(&err, "config %s", "a.toml");
    ron_err_prefix(&err, "start");
    assert_int_equal(err.rc, RON_INVALID);
    assert_string_equal(err.where, "failing_origin");
    assert_string_equal(err.msg, "start: config a.toml: field depth has 7");
}

/* Around the size of the array every length must give the expected text, cut at its end. */
static void test_rc__any_length__is_cut_and_terminated(void **state)
{
    (void)state;
    char text[2 * RON_ERR_MSG_SIZE];
    char expected[8 * RON_ERR_MSG_SIZE];

    for (size_t len = 0; len < RON_ERR_MSG_SIZE + 8; len++) {
        struct {
            struct ron_err err;
            char canary[8];
        } guarded = {.canary = "canary!"};

        memset(text, 'x', len);
        text[len] = '\0';
        (void)ron_err_set_sys(&guarded.err, RON_IO, EIO, "%s", text);
        (void)snprintf(expected, sizeof(expected), "%s: Input/output error", text);
        expected[RON_ERR_MSG_SIZE - 1] = '\0';
        assert_string_equal(guarded.err.msg, expected);

        (void)ron_err_set(&guarded.err, RON_INVALID, "%s", "cause");
        ron_err_prefix(&guarded.err, "%s", text);
        (void)snprintf(expected, sizeof(expected), "%s: cause", text);
        expected[RON_ERR_MSG_SIZE - 1] = '\0';
        assert_string_equal(guarded.err.msg, expected);
        assert_string_equal(guarded.canary, "canary!");
    }
}

static int evaluations;

static enum ron_rc give(enum ron_rc rc)
{
    evaluations++;
    return rc;
}

static enum ron_rc try_two(enum ron_rc first, enum ron_rc second)
{
    RON_TRY(give(first));
    RON_TRY(give(second));
    return RON_OK;
}

static enum ron_rc goto_cleanup(enum ron_rc first, bool *ret_cleaned)
{
    enum ron_rc rc = RON_OK;

    RON_GOTO(give(first), out);
    rc = RON_CONFLICT;
out:
    *ret_cleaned = true;
    return rc;
}

static void test_rc__try_and_goto__leave_at_the_first_failure(void **state)
{
    (void)state;
    bool cleaned = false;

    evaluations = 0;
    assert_int_equal(try_two(RON_OK, RON_OK), RON_OK);
    assert_int_equal(evaluations, 2);
    assert_int_equal(try_two(RON_FULL, RON_IO), RON_FULL);
    assert_int_equal(evaluations, 3);
    assert_int_equal(try_two(RON_OK, RON_IO), RON_IO);
    assert_int_equal(goto_cleanup(RON_NOMEM, &cleaned), RON_NOMEM);
    assert_true(cleaned);
    assert_int_equal(goto_cleanup(RON_OK, &cleaned), RON_CONFLICT);
}

static void set_ok(void *arg)
{
    struct ron_err err = {0};

    (void)arg;
    (void)ron_err_set(&err, RON_OK, "nothing wrong");
}

static void test_rc__error_without_failure__is_a_bug(void **state)
{
    (void)state;
    support_death(set_ok, NULL, "rc < RON_OK", "an error needs a failing code");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rc__every_code__is_distinct_and_named),
        cmocka_unit_test(test_rc__unknown_number__is_answered),
        cmocka_unit_test(test_rc__set__fills_everything_and_returns_the_code),
        cmocka_unit_test(test_rc__null_error__is_accepted),
        cmocka_unit_test(test_rc__set_sys__appends_the_meaning_of_errno),
        cmocka_unit_test(test_rc__prefix__keeps_code_and_origin),
        cmocka_unit_test(test_rc__any_length__is_cut_and_terminated),
        cmocka_unit_test(test_rc__try_and_goto__leave_at_the_first_failure),
        cmocka_unit_test(test_rc__error_without_failure__is_a_bug),
    };

    return cmocka_run_group_tests_name("base.rc", tests, NULL, NULL);
}
