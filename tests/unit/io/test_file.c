/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whole-file helpers on the Linux binding. Their behaviour under faults is in
 * tests/fault/test_io_faults.c, under power loss in tests/sim. */
#include "fixture.h"

#include "ron/io/file.h"

static void check_content(const struct fixture *f, const char *name, const char *expected)
{
    struct ron_buf buf;

    ron_buf_init(&buf, 4096);
    assert_int_equal(ron_file_read_all(f->env, fixture_path(f, name), &buf, NULL), RON_OK);
    assert_string_equal(ron_buf_text(&buf), expected);
    ron_buf_done(&buf);
}

static void test_file__replace__creates_then_swaps(void **state)
{
    const struct fixture *f = *state;
    struct stat st;

    (void)umask(022);
    assert_int_equal(ron_file_replace(f->env, fixture_path(f, "x"), "one", 3, 0640, NULL), RON_OK);
    check_content(f, "x", "one");
    assert_int_equal(stat(fixture_path(f, "x"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(ron_file_replace(f->env, fixture_path(f, "x"), "second", 6, 0640, NULL),
                     RON_OK);
    check_content(f, "x", "second");
    assert_int_equal(ron_file_replace(f->env, fixture_path(f, "x"), NULL, 0, 0640, NULL), RON_OK);
    check_content(f, "x", "");
    assert_int_equal(access(fixture_path(f, "x.tmp"), F_OK), -1);
}

static void test_file__replace_over_a_stray_temporary__clears_it(void **state)
{
    const struct fixture *f = *state;
    struct stat st;

    assert_int_equal(
        ron_file_replace(f->env, fixture_path(f, "x.tmp"), "stray and longer", 16, 0666, NULL),
        RON_OK);
    assert_int_equal(chmod(fixture_path(f, "x.tmp"), 0666), 0);
    assert_int_equal(ron_file_replace(f->env, fixture_path(f, "x"), "new", 3, 0600, NULL), RON_OK);
    check_content(f, "x", "new");
    assert_int_equal(stat(fixture_path(f, "x"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600); /* what was asked, not what lay there */
    assert_int_equal(access(fixture_path(f, "x.tmp"), F_OK), -1);
}

static void test_file__replace_fails__keeps_the_old_and_no_temporary(void **state)
{
    const struct fixture *f = *state;
    struct ron_err err = {0};
    char longer[2000];

    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(ron_file_replace(f->env, longer, "x", 1, 0600, &err), RON_LIMIT);
    assert_int_equal(ron_file_replace(f->env, fixture_path(f, "no/dir"), "x", 1, 0600, &err),
                     RON_NOTFOUND);
    /* The rename is what fails when a directory is in the way. */
    assert_int_equal(mkdir(fixture_path(f, "d"), 0700), 0);
    assert_int_equal(ron_file_replace(f->env, fixture_path(f, "d"), "x", 1, 0600, &err),
                     RON_INVALID);
    assert_int_equal(access(fixture_path(f, "d.tmp"), F_OK), -1);
}

static void test_file__read_all_beyond_the_maximum__is_a_limit(void **state)
{
    const struct fixture *f = *state;
    struct ron_err err = {0};
    struct ron_buf buf;

    assert_int_equal(ron_file_replace(f->env, fixture_path(f, "x"), "12345", 5, 0600, NULL),
                     RON_OK);
    ron_buf_init(&buf, 7);
    assert_int_equal(ron_buf_append_text(&buf, "ab"), RON_OK);
    assert_int_equal(ron_file_read_all(f->env, fixture_path(f, "x"), &buf, &err), RON_OK);
    assert_string_equal(ron_buf_text(&buf), "ab12345");
    ron_buf_consume(&buf, 1);
    assert_int_equal(ron_file_read_all(f->env, fixture_path(f, "x"), &buf, &err), RON_LIMIT);
    assert_string_equal(ron_buf_text(&buf), "b12345");
    assert_int_equal(ron_file_read_all(f->env, fixture_path(f, "none"), &buf, &err), RON_NOTFOUND);
    ron_buf_done(&buf);
}

static void test_file__mkdirs__makes_what_is_missing(void **state)
{
    const struct fixture *f = *state;
    struct ron_err err = {0};
    struct stat st;

    assert_int_equal(ron_mkdirs(f->env, fixture_path(f, "a/b//c/"), 0700, NULL), RON_OK);
    assert_int_equal(stat(fixture_path(f, "a/b/c"), &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(ron_mkdirs(f->env, fixture_path(f, "a/b/c"), 0700, NULL), RON_OK);
    assert_int_equal(ron_mkdirs(f->env, "", 0700, &err), RON_INVALID);
    assert_int_equal(ron_mkdirs(f->env, "/", 0700, &err), RON_OK);
    assert_int_equal(ron_file_replace(f->env, fixture_path(f, "a/file"), "x", 1, 0600, NULL),
                     RON_OK);
    assert_int_equal(ron_mkdirs(f->env, fixture_path(f, "a/file/d"), 0700, &err), RON_EXISTS);
    assert_non_null(strstr(err.msg, "not a directory"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_file__replace__creates_then_swaps),
        CASE(test_file__replace_over_a_stray_temporary__clears_it),
        CASE(test_file__replace_fails__keeps_the_old_and_no_temporary),
        CASE(test_file__read_all_beyond_the_maximum__is_a_limit),
        CASE(test_file__mkdirs__makes_what_is_missing),
    };

    return cmocka_run_group_tests_name("io.file", tests, NULL, NULL);
}
