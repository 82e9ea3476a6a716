/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a key file is made private, refused when anything about it is doubtful, and rotation and
 * retirement reach who uses the ring.
 * Method: real files in a directory of the test's own; every cut and every changed byte of a good
 * file. */
#include "unit/io/fixture.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "cap/cap_priv.h"
#include "cap/cap_testing.h"
#include "ron/cap/cap.h"

#define STR(text) ((struct ron_str){.ptr = (text), .len = strlen(text)})

static struct ron_cap_key_info add(const struct fixture *f, const char *id)
{
    struct ron_cap_key_info info = {0};
    struct ron_err err = {0};

    if (ron_cap_keyfile_add(f->env, fixture_path(f, "keys"), STR(id), &info, &err) != RON_OK) {
        fail_msg("add %s: %s", id, err.msg);
    }
    return info;
}

static struct ron_cap_keys *load(const struct fixture *f)
{
    struct ron_cap_keys *keys = NULL;
    struct ron_err err = {0};

    if (ron_cap_keyfile_load(f->env, fixture_path(f, "keys"), &keys, &err) != RON_OK) {
        fail_msg("load: %s", err.msg);
    }
    return keys;
}

static size_t content(const struct fixture *f, char *buf, size_t size)
{
    int fd = open(fixture_path(f, "keys"), O_RDONLY | O_CLOEXEC);
    ssize_t len = read(fd, buf, size);

    assert_true(len > 0);
    (void)close(fd);
    return (size_t)len;
}

static void test_keys__new_file__is_private_and_holds_the_key(void **state)
{
    const struct fixture *f = *state;
    struct ron_cap_key_info first = add(f, "");
    struct ron_cap_keys *keys;
    struct stat st;
    char text[1024];
    size_t len;

    assert_int_equal(stat(fixture_path(f, "keys"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(first.id[0], 'k');
    assert_int_equal(strlen(first.id), 17);
    assert_true(first.created_s > 1700000000);
    keys = load(f);
    assert_int_equal(ron_cap_keys_count(keys), 1);
    assert_string_equal(ron_cap_keys_info(keys, 0).id, first.id);
    ron_cap_keys_unref(keys);
    len = content(f, text, sizeof text);
    assert_memory_equal(text, "ron-cap-keys 1\nkey ", 19);
    assert_int_equal(text[len - 1], '\n');
    assert_int_not_equal(access(fixture_path(f, "keys.tmp"), F_OK), 0);
}

static enum ron_cap_why verify(const struct ron_cap_keys *keys, const char *token)
{
    return ron_cap_verify_signature(keys, STR(token));
}

static const char *mint(const struct fixture *f, const struct ron_cap_keys *keys,
                        struct ron_buf *out)
{
    ron_buf_init(out, RON_CAP_TEXT_MAX);
    assert_int_equal(ron_cap_mint(keys, f->env, &(struct ron_cap_mint_opts){0}, out, NULL), RON_OK);
    return ron_buf_text(out);
}

static void test_keys__rotation_and_retirement__newest_mints_all_verify(void **state)
{
    const struct fixture *f = *state;
    struct ron_cap_ring ring;
    struct ron_cap_keys *keys;
    struct ron_buf a;
    struct ron_buf b;
    uint64_t before = 0;
    uint64_t after = 0;
    bool changed = true;
    const char *by_old;
    const char *by_new;

    add(f, "old");
    ron_cap_ring_init(&ring, load(f));
    keys = ron_cap_ring_get(&ring, &before);
    by_old = mint(f, keys, &a);
    ron_cap_keys_unref(keys);
    /* The same file again is no change. */
    assert_int_equal(ron_cap_ring_reload(&ring, f->env, fixture_path(f, "keys"), &changed, NULL),
                     RON_OK);
    assert_false(changed);
    keys = ron_cap_ring_get(&ring, &after);
    assert_int_equal(before, after);
    ron_cap_keys_unref(keys);

    add(f, "new");
    assert_int_equal(ron_cap_ring_reload(&ring, f->env, fixture_path(f, "keys"), &changed, NULL),
                     RON_OK);
    assert_true(changed);
    keys = ron_cap_ring_get(&ring, &after);
    assert_int_not_equal(before, after);
    by_new = mint(f, keys, &b);
    assert_int_equal(verify(keys, by_old), RON_CAP_OK);
    assert_int_equal(verify(keys, by_new), RON_CAP_OK);
    ron_cap_keys_unref(keys);

    assert_int_equal(ron_cap_keyfile_retire(f->env, fixture_path(f, "keys"), STR("old"), NULL),
                     RON_OK);
    assert_int_equal(ron_cap_ring_reload(&ring, f->env, fixture_path(f, "keys"), &changed, NULL),
                     RON_OK);
    assert_true(changed);
    keys = ron_cap_ring_get(&ring, NULL);
    assert_int_equal(verify(keys, by_old), RON_CAP_UNKNOWN_KEY);
    assert_int_equal(verify(keys, by_new), RON_CAP_OK);
    ron_cap_keys_unref(keys);
    ron_cap_ring_done(&ring);
    ron_buf_done(&a);
    ron_buf_done(&b);
}

static void test_keys__changes_that_make_no_sense__are_refused(void **state)
{
    const struct fixture *f = *state;
    const char *path = fixture_path(f, "keys");
    struct ron_cap_key_info info;
    struct ron_cap_keys *keys = NULL;
    struct ron_err err = {0};
    char id[16];

    assert_int_equal(ron_cap_keyfile_load(f->env, path, &keys, &err), RON_NOTFOUND);
    assert_int_equal(ron_cap_keyfile_retire(f->env, path, STR("a"), &err), RON_NOTFOUND);
    assert_int_equal(ron_cap_keyfile_add(f->env, path, STR("Not an id"), &info, &err), RON_INVALID);
    add(f, "a");
    assert_int_equal(ron_cap_keyfile_add(f->env, path, STR("a"), &info, &err), RON_EXISTS);
    assert_int_equal(ron_cap_keyfile_retire(f->env, path, STR("b"), &err), RON_NOTFOUND);
    assert_int_equal(ron_cap_keyfile_retire(f->env, path, STR("a"), &err), RON_CONFLICT);
    for (int i = 1; i < RON_CAP_KEYS_MAX; i++) {
        (void)snprintf(id, sizeof id, "k%d", i);
        add(f, id);
    }
    path = fixture_path(f, "keys");
    assert_int_equal(ron_cap_keyfile_add(f->env, path, STR("one-more"), &info, &err), RON_LIMIT);
    assert_int_equal(ron_cap_keyfile_retire(f->env, path, STR("k7"), &err), RON_OK);
    assert_int_equal(ron_cap_keyfile_add(f->env, path, STR("one-more"), &info, &err), RON_OK);
    keys = load(f);
    assert_int_equal(ron_cap_keys_count(keys), RON_CAP_KEYS_MAX);
    assert_string_equal(ron_cap_keys_info(keys, 7).id, "k8");
    assert_string_equal(ron_cap_keys_info(keys, RON_CAP_KEYS_MAX - 1).id, "one-more");
    ron_cap_keys_unref(keys);
}

static void expect_denied(const struct fixture *f, const char *part)
{
    struct ron_cap_keys *keys = NULL;
    struct ron_cap_key_info info;
    struct ron_err err = {0};
    const char *path = fixture_path(f, "keys");

    assert_int_equal(ron_cap_keyfile_load(f->env, path, &keys, &err), RON_DENIED);
    assert_non_null(strstr(err.msg, part));
    assert_int_equal(ron_cap_keyfile_add(f->env, path, STR("b"), &info, &err), RON_DENIED);
    assert_int_equal(ron_cap_keyfile_retire(f->env, path, STR("a"), &err), RON_DENIED);
}

static void test_keys__file_open_to_others_or_of_another_user__is_refused(void **state)
{
    const struct fixture *f = *state;
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0601, 0660, 0644, 0777};

    add(f, "a");
    for (size_t i = 0; i < RON_ARRAY_LEN(modes); i++) {
        assert_int_equal(chmod(fixture_path(f, "keys"), modes[i]), 0);
        expect_denied(f, "chmod 600");
    }
    assert_int_equal(chmod(fixture_path(f, "keys"), 0400), 0);
    ron_cap_keys_unref(load(f));
    if (geteuid() == 0) { /* only root may give a file away */
        assert_int_equal(chown(fixture_path(f, "keys"), 1, 1), 0);
        expect_denied(f, "another user");
    }
}

static void test_keys__cut_or_changed_anywhere__is_corrupt(void **state)
{
    const struct fixture *f = *state;
    char text[2048];
    char bad[2048];
    struct ron_cap_keys *keys = NULL;
    size_t len;

    add(f, "first");
    add(f, "second");
    len = content(f, text, sizeof text);
    assert_int_equal(ron_cap_keys_parse(text, len, &keys, NULL), RON_OK);
    ron_cap_keys_unref(keys);
    for (size_t cut = 0; cut < len; cut++) {
        assert_int_equal(ron_cap_keys_parse(text, cut, &keys, NULL), RON_CORRUPT);
    }
    for (size_t at = 0; at < len; at++) {
        struct ron_err err = {0};

        memcpy(bad, text, len);
        bad[at] = bad[at] == '0' ? '1' : '0';
        assert_int_equal(ron_cap_keys_parse(bad, len, &keys, &err), RON_CORRUPT);
        assert_memory_equal(err.msg, "line ", 5);
    }
    memcpy(bad, text, len);
    bad[len] = '\n';
    assert_int_equal(ron_cap_keys_parse(bad, len + 1, &keys, NULL), RON_CORRUPT);
}

static void test_keys__messages__carry_no_secret(void **state)
{
    const struct fixture *f = *state;
    char text[2048];
    struct ron_cap_keys *keys = NULL;
    struct ron_err err = {0};
    size_t len;
    char *hex;

    add(f, "a");
    len = content(f, text, sizeof text - 1);
    text[len] = '\0';
    hex = strstr(text, "key a ") + 6;
    hex = strchr(hex, ' ') + 1;
    hex[3] = 'x';
    assert_int_equal(ron_cap_keys_parse(text, len, &keys, &err), RON_CORRUPT);
    hex[16] = '\0';
    assert_null(strstr(err.msg, hex + 4));
}

/* However long another one takes; and what a dead one left behind stops nobody for a moment. */
static void test_keys__lock_of_another_process__holds_as_long_as_it_lives(void **state)
{
    const struct fixture *f = *state;
    struct timeval old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    struct ron_cap_key_info info;
    struct ron_err err = {0};
    char lock[FIXTURE_PATH_SIZE];
    int fd;

    (void)snprintf(lock, sizeof lock, "%s", fixture_path(f, "keys.lock"));
    add(f, "a");
    add(f, "b");
    fd = open(lock, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(utimes(lock, old), 0);
    assert_int_equal(ron_cap_keyfile_add(f->env, fixture_path(f, "keys"), STR("c"), &info, &err),
                     RON_AGAIN);
    assert_non_null(strstr(err.msg, "another process"));
    assert_int_equal(ron_cap_keyfile_retire(f->env, fixture_path(f, "keys"), STR("a"), &err),
                     RON_AGAIN);
    (void)close(fd);
    add(f, "c");
}

/* Writers that all want to be first: nothing that one of them was told is lost. */
static void test_keys__many_writers__lose_no_key(void **state)
{
    enum { WRITERS = 4, KEYS = 6 };
    const struct fixture *f = *state;
    struct ron_cap_keys *keys;
    pid_t pids[WRITERS];

    for (int w = 0; w < WRITERS; w++) {
        pids[w] = fork();
        assert_true(pids[w] >= 0);
        if (pids[w] == 0) {
            for (int k = 0; k < KEYS;) {
                struct ron_cap_key_info info;
                char id[RON_CAP_KEY_ID_SIZE];
                enum ron_rc rc;

                (void)snprintf(id, sizeof id, "w%d-%d", w, k);
                rc = ron_cap_keyfile_add(f->env, fixture_path(f, "keys"), STR(id), &info, NULL);
                if (rc != RON_OK && rc != RON_AGAIN) {
                    _exit(1);
                }
                k += rc == RON_OK;
            }
            _exit(0);
        }
    }
    for (int w = 0; w < WRITERS; w++) {
        int status = 0;

        assert_int_equal(waitpid(pids[w], &status, 0), pids[w]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    keys = load(f);
    assert_int_equal(ron_cap_keys_count(keys), WRITERS * KEYS);
    ron_cap_keys_unref(keys);
}

static void test_keys__pipe_or_device__is_refused_without_waiting(void **state)
{
    const struct fixture *f = *state;
    struct ron_cap_keys *keys = NULL;
    struct ron_err err = {0};

    assert_int_equal(mkfifo(fixture_path(f, "keys"), 0600), 0);
    assert_int_equal(ron_cap_keyfile_load(f->env, fixture_path(f, "keys"), &keys, &err),
                     RON_INVALID);
    assert_non_null(strstr(err.msg, "not a regular file"));
    assert_int_equal(ron_cap_keyfile_load(f->env, "/dev/null", &keys, &err), RON_INVALID);
}

static void test_keys__reload_of_a_bad_file__keeps_the_old_keys(void **state)
{
    const struct fixture *f = *state;
    struct ron_cap_ring ring;
    struct ron_cap_keys *keys;
    bool changed = true;

    add(f, "a");
    ron_cap_ring_init(&ring, load(f));
    assert_int_equal(truncate(fixture_path(f, "keys"), 40), 0);
    assert_int_equal(ron_cap_ring_reload(&ring, f->env, fixture_path(f, "keys"), &changed, NULL),
                     RON_CORRUPT);
    keys = ron_cap_ring_get(&ring, NULL);
    assert_string_equal(ron_cap_keys_info(keys, 0).id, "a");
    ron_cap_keys_unref(keys);
    ron_cap_ring_done(&ring);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_keys__new_file__is_private_and_holds_the_key),
        CASE(test_keys__rotation_and_retirement__newest_mints_all_verify),
        CASE(test_keys__changes_that_make_no_sense__are_refused),
        CASE(test_keys__file_open_to_others_or_of_another_user__is_refused),
        CASE(test_keys__cut_or_changed_anywhere__is_corrupt),
        CASE(test_keys__messages__carry_no_secret),
        CASE(test_keys__lock_of_another_process__holds_as_long_as_it_lives),
        CASE(test_keys__many_writers__lose_no_key),
        CASE(test_keys__pipe_or_device__is_refused_without_waiting),
        CASE(test_keys__reload_of_a_bad_file__keeps_the_old_keys),
    };

    return cmocka_run_group_tests_name("cap.keys", tests, NULL, NULL);
}
