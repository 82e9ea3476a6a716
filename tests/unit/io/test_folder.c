/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: nothing outside the folder is ever opened, whatever path and links say.
 *
 * Method: a folder with a secret beside it, and every way to it that a path or a link can take. */
#include "unit/io/fixture.h"

#include "ron/io/folder.h"

static void put(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");

    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static enum ron_rc try_open(const struct fixture *f, int folder, const char *path)
{
    struct ron_file_identity id;
    struct ron_err err = {0};
    int fd = -1;
    enum ron_rc rc = ron_folder_file(folder, path, &fd, &id, &err);

    if (rc == RON_OK) {
        f->env->disk->close(f->env, fd);
    } else {
        assert_int_equal(fd, -1);
        assert_true(err.msg[0] != '\0');
    }
    return rc;
}

static void test_folder__every_way_out__is_refused(void **state)
{
    const struct fixture *f = *state;
    static const struct {
        const char *path;
        enum ron_rc rc;
    } rows[] = {
        {"in", RON_OK},
        {"sub/deep", RON_OK},
        {"sub/../in", RON_OK}, /* stays inside */
        {"link-in", RON_OK},
        {"../secret", RON_DENIED},
        {"sub/../../secret", RON_DENIED},
        {"link-out", RON_DENIED},
        {"link-absolute", RON_DENIED},
        {"link-folder/secret", RON_DENIED},
        {"loop", RON_DENIED},
        {"nothing", RON_NOTFOUND},
        {"in/below", RON_NOTFOUND},
        {"sub", RON_INVALID},
        {"pipe", RON_INVALID},
    };
    struct ron_err err = {0};
    size_t fds;
    int folder = -1;

    assert_int_equal(mkdir(fixture_path(f, "root"), 0700), 0);
    assert_int_equal(mkdir(fixture_path(f, "root/sub"), 0700), 0);
    put(fixture_path(f, "secret"), "secret");
    put(fixture_path(f, "root/in"), "in");
    put(fixture_path(f, "root/sub/deep"), "deep");
    assert_int_equal(symlink("in", fixture_path(f, "root/link-in")), 0);
    assert_int_equal(symlink("../secret", fixture_path(f, "root/link-out")), 0);
    assert_int_equal(symlink("/etc/passwd", fixture_path(f, "root/link-absolute")), 0);
    assert_int_equal(symlink("..", fixture_path(f, "root/link-folder")), 0);
    assert_int_equal(symlink("loop", fixture_path(f, "root/loop")), 0);
    assert_int_equal(mkfifo(fixture_path(f, "root/pipe"), 0600), 0);
    assert_int_equal(ron_folder_open(fixture_path(f, "root"), &folder, &err), RON_OK);
    fds = fixture_open_fds();
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        enum ron_rc rc = try_open(f, folder, rows[i].path);

        if (rc != rows[i].rc) {
            fail_msg("%s: %s", rows[i].path, ron_rc_name(rc));
        }
    }
    assert_int_equal(try_open(f, folder, "/etc/passwd"), RON_DENIED);
    assert_int_equal(fixture_open_fds(), fds);
    f->env->disk->close(f->env, folder);
}

static void test_folder__what_is_no_folder__is_told(void **state)
{
    const struct fixture *f = *state;
    struct ron_err err = {0};
    int folder = -1;

    put(fixture_path(f, "file"), "x");
    assert_int_equal(ron_folder_open(fixture_path(f, "none"), &folder, &err), RON_NOTFOUND);
    assert_int_equal(ron_folder_open(fixture_path(f, "file"), &folder, &err), RON_INVALID);
    assert_int_equal(folder, -1);
}

static void test_folder__a_changed_file__has_another_identity(void **state)
{
    const struct fixture *f = *state;
    struct ron_file_identity a;
    struct ron_file_identity b;
    struct ron_err err = {0};
    int folder = -1;
    int fd = -1;

    put(fixture_path(f, "file"), "one");
    assert_int_equal(ron_folder_open(f->dir, &folder, &err), RON_OK);
    assert_int_equal(ron_folder_file(folder, "file", &fd, &a, &err), RON_OK);
    assert_int_equal(a.size_bytes, 3);
    assert_int_equal(ron_file_identity(fd, &b, &err), RON_OK);
    assert_true(ron_file_identity_equal(&a, &b));
    f->env->disk->close(f->env, fd);
    put(fixture_path(f, "other"), "two");
    assert_int_equal(rename(fixture_path(f, "other"), fixture_path(f, "file")), 0);
    assert_int_equal(ron_folder_file(folder, "file", &fd, &b, &err), RON_OK);
    assert_false(ron_file_identity_equal(&a, &b));
    f->env->disk->close(f->env, fd);
    f->env->disk->close(f->env, folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_folder__every_way_out__is_refused, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_folder__what_is_no_folder__is_told, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_folder__a_changed_file__has_another_identity,
                                        fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
