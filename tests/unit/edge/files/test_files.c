/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a file is served with the tag of its bytes, a replaced one soon with its new tag, nothing
 * outside the folder, and the table stays within its bounds.
 *
 * Method: files in a folder of the test's own and a clock that the test passes in; tags are
 * compared with hashes that are computed here. */
#include "unit/io/fixture.h"

#include "edge/files/files.h"

static void put(const struct fixture *f, const char *name, const void *bytes, size_t len)
{
    FILE *out = fopen(fixture_path(f, "new"), "w");

    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(rename(fixture_path(f, "new"), fixture_path(f, name)), 0);
}

static void put_text(const struct fixture *f, const char *name, const char *text)
{
    put(f, name, text, strlen(text));
}

static struct edg_files *open_files(const struct fixture *f, struct edg_files_opts o)
{
    struct edg_files *files = NULL;
    struct ron_err err = {0};

    o.env = f->env;
    o.dir = f->dir;
    assert_int_equal(edg_files_new(&o, &files, &err), RON_OK);
    return files;
}

static const struct edg_file *load(struct edg_files *files, const char *path, uint64_t now_ms)
{
    const struct edg_file *file = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = edg_files_load(files, path, now_ms, &file, &err);

    if (rc != RON_OK) {
        fail_msg("%s: %s", path, err.msg);
    }
    return file;
}

static void expect_tag(const struct edg_file *file, const void *bytes, size_t len)
{
    struct ron_b3 hash;
    char hex[RON_B3_HEX_LEN + 1] = {0};

    ron_b3_hash(bytes, len, &hash);
    ron_b3_format_hex(&hash, hex);
    assert_memory_equal(file->tag, "b3:", 3);
    assert_string_equal(file->tag + 3, hex);
}

static void test_files__a_small_file__is_served_from_memory_with_its_tag(void **state)
{
    const struct fixture *f = *state;
    struct edg_files *files = open_files(f, (struct edg_files_opts){0});
    const struct edg_file *file;
    const struct edg_file *again = NULL;
    bool check = true;

    put_text(f, "a.json", "{}");
    assert_int_equal(edg_files_get(files, "a.json", 0, &again, &check), RON_AGAIN);
    file = load(files, "a.json", 0);
    expect_tag(file, "{}", 2);
    assert_int_equal(file->size, 2);
    assert_memory_equal(file->bytes, "{}", 2);
    assert_string_equal(file->type, "application/json");
    assert_int_equal(edg_files_get(files, "a.json", 1000, &again, &check), RON_OK);
    assert_ptr_equal(again, file);
    assert_false(check);
    edg_file_release(again);
    edg_file_release(file);
    edg_files_free(files);
}

static void test_files__a_large_file__is_served_from_its_descriptor(void **state)
{
    const struct fixture *f = *state;
    struct edg_files *files = open_files(f, (struct edg_files_opts){0});
    size_t len = 700001;
    char *bytes = malloc(len);
    const struct edg_file *file;
    char back[16];

    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (char)(i * 31 + i / 1000);
    }
    put(f, "large", bytes, len);
    file = load(files, "large", 0);
    assert_null(file->bytes);
    assert_int_equal(file->size, len);
    expect_tag(file, bytes, len);
    assert_int_equal(pread(file->fd, back, sizeof back, 600000), sizeof back);
    assert_memory_equal(back, bytes + 600000, sizeof back);
    assert_string_equal(file->type, "application/octet-stream");
    edg_file_release(file);
    edg_files_free(files);
    free(bytes);
}

static void test_files__an_empty_file__has_the_tag_of_nothing(void **state)
{
    const struct fixture *f = *state;
    struct edg_files *files = open_files(f, (struct edg_files_opts){0});
    const struct edg_file *file;

    put_text(f, "empty", "");
    file = load(files, "empty", 0);
    expect_tag(file, "", 0);
    assert_int_equal(file->size, 0);
    edg_file_release(file);
    edg_files_free(files);
}

static void test_files__a_replaced_file__is_seen_at_the_next_look(void **state)
{
    const struct fixture *f = *state;
    struct edg_files *files = open_files(f, (struct edg_files_opts){.check_ms = 100});
    const struct edg_file *old;
    const struct edg_file *known = NULL;
    const struct edg_file *fresh;
    bool check = false;

    put_text(f, "a", "one");
    old = load(files, "a", 0);
    put_text(f, "a", "another");
    /* Within the time the old one is served, without a look. */
    assert_int_equal(edg_files_get(files, "a", 100, &known, &check), RON_OK);
    assert_false(check);
    edg_file_release(known);
    /* After it one caller is told to look, and the others are not. */
    assert_int_equal(edg_files_get(files, "a", 150, &known, &check), RON_OK);
    assert_true(check);
    edg_file_release(known);
    assert_int_equal(edg_files_get(files, "a", 160, &known, &check), RON_OK);
    assert_false(check);
    edg_file_release(known);
    fresh = load(files, "a", 170);
    expect_tag(fresh, "another", 7);
    expect_tag(old, "one", 3); /* A handle keeps its file. */
    assert_memory_equal(old->bytes, "one", 3);
    assert_int_equal(edg_files_get(files, "a", 171, &known, &check), RON_OK);
    assert_ptr_equal(known, fresh);
    edg_file_release(known);
    edg_file_release(fresh);
    edg_file_release(old);
    edg_files_free(files);
}

static void test_files__nobody_looked_for_twice_the_time__the_next_waits_for_a_look(void **state)
{
    const struct fixture *f = *state;
    struct edg_files *files = open_files(f, (struct edg_files_opts){.check_ms = 100});
    const struct edg_file *known = NULL;
    struct edg_files_stats stats;
    bool check = false;

    put_text(f, "a", "one");
    edg_file_release(load(files, "a", 0));
    assert_int_equal(edg_files_get(files, "a", 200, &known, &check), RON_OK);
    edg_file_release(known);
    assert_int_equal(edg_files_get(files, "a", 201, &known, &check), RON_AGAIN);
    edg_file_release(load(files, "a", 201)); /* the same file: not read again */
    edg_files_get_stats(files, &stats);
    assert_int_equal(stats.loads, 1);
    assert_int_equal(edg_files_get(files, "a", 250, &known, &check), RON_OK);
    assert_false(check);
    edg_file_release(known);
    edg_files_free(files);
}

static void test_files__a_file_that_is_gone__is_forgotten(void **state)
{
    const struct fixture *f = *state;
    struct edg_files *files = open_files(f, (struct edg_files_opts){0});
    const struct edg_file *file = NULL;
    struct edg_files_stats stats;
    struct ron_err err = {0};
    bool check;

    put_text(f, "a", "one");
    edg_file_release(load(files, "a", 0));
    assert_int_equal(unlink(fixture_path(f, "a")), 0);
    assert_int_equal(edg_files_load(files, "a", 1, &file, &err), RON_NOTFOUND);
    assert_int_equal(edg_files_get(files, "a", 1, &file, &check), RON_AGAIN);
    edg_files_get_stats(files, &stats);
    assert_int_equal(stats.entries, 0);
    assert_int_equal(stats.memory_bytes, 0);
    edg_files_free(files);
}

static void test_files__more_than_fit__the_longest_unused_go(void **state)
{
    const struct fixture *f = *state;
    struct edg_files *files =
        open_files(f, (struct edg_files_opts){.entries_max = 32, .memory_max = 32 * 1024});
    const struct edg_file *held;
    struct edg_files_stats stats;
    size_t fds = fixture_open_fds();
    char bytes[1024];

    memset(bytes, 'x', sizeof bytes);
    put(f, "held", bytes, sizeof bytes);
    held = load(files, "held", 0);
    for (unsigned i = 0; i < 500; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "f%u", i);
        put(f, name, bytes, sizeof bytes);
        edg_file_release(load(files, name, i));
    }
    edg_files_get_stats(files, &stats);
    assert_true(stats.entries <= 32);
    assert_true(stats.memory_bytes <= 32 * 1024);
    assert_true(stats.evictions >= 460);
    assert_int_equal(fixture_open_fds(), fds);
    assert_memory_equal(held->bytes, bytes, sizeof bytes);
    edg_file_release(held);
    edg_files_free(files);
}

static void test_files__too_large_or_no_file__is_refused(void **state)
{
    const struct fixture *f = *state;
    struct edg_files *files = open_files(f, (struct edg_files_opts){.file_max = 4});
    const struct edg_file *file = NULL;
    struct ron_err err = {0};
    size_t fds;

    put_text(f, "five", "12345");
    assert_int_equal(mkdir(fixture_path(f, "sub"), 0700), 0);
    fds = fixture_open_fds();
    assert_int_equal(edg_files_load(files, "five", 0, &file, &err), RON_LIMIT);
    assert_int_equal(edg_files_load(files, "sub", 0, &file, &err), RON_INVALID);
    assert_int_equal(edg_files_load(files, "../five", 0, &file, &err), RON_DENIED);
    assert_int_equal(fixture_open_fds(), fds);
    edg_files_free(files);
}

static void test_path__table__is_decoded_or_refused(void **state)
{
    static const struct {
        const char *text;
        enum ron_rc rc;
        const char *path;
    } rows[] = {
        {"a", RON_OK, "a"},
        {"a/b.txt", RON_OK, "a/b.txt"},
        {"a%20b", RON_OK, "a b"},
        {"%61", RON_OK, "a"},
        {"%C3%A4/x", RON_OK, "\xc3\xa4/x"},
        {"a..b", RON_OK, "a..b"},
        {"a%252e", RON_OK, "a%2e"}, /* decoded once */
        {"", RON_NOTFOUND, NULL},
        {"/a", RON_NOTFOUND, NULL},
        {"a/", RON_NOTFOUND, NULL},
        {"a//b", RON_NOTFOUND, NULL},
        {".", RON_NOTFOUND, NULL},
        {"..", RON_NOTFOUND, NULL},
        {"a/../b", RON_NOTFOUND, NULL},
        {"a/%2e%2e/b", RON_NOTFOUND, NULL},
        {".git/config", RON_NOTFOUND, NULL},
        {"a/.htpasswd", RON_NOTFOUND, NULL},
        {"a%2fb", RON_NOTFOUND, NULL},
        {"a%00b", RON_INVALID, NULL},
        {"a%0ab", RON_INVALID, NULL},
        {"a%7f", RON_INVALID, NULL},
        {"%", RON_INVALID, NULL},
        {"%4", RON_INVALID, NULL},
        {"%zz", RON_INVALID, NULL},
        {"a%4g", RON_INVALID, NULL},
    };
    char path[EDG_PATH_MAX + 1];
    char longest[EDG_PATH_MAX + 2];

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        enum ron_rc rc =
            edg_path_decode((struct ron_str){rows[i].text, strlen(rows[i].text)}, path);

        if (rc != rows[i].rc || (rc == RON_OK && strcmp(path, rows[i].path) != 0)) {
            fail_msg("'%s': %s", rows[i].text, ron_rc_name(rc));
        }
    }
    memset(longest, 'a', sizeof longest);
    assert_int_equal(edg_path_decode((struct ron_str){longest, EDG_PATH_MAX}, path), RON_OK);
    assert_int_equal(edg_path_decode((struct ron_str){longest, EDG_PATH_MAX + 1}, path),
                     RON_NOTFOUND);
}

static void test_path__stays__where_it_begins_for_every_reader(void **state)
{
    static const char *const good[] = {"",      "a",        "a/b",    "a..b/c",       "...",
                                       "a%2fb", "%2e%2e.x", "..a/b",  "a/.b",         "a;..",
                                       "a/;x",  "%",        "a%zz/b", "%2E%2E%2E%2Fx"};
    static const char *const bad[] = {
        "..",         ".",          "../a",       "a/../b",  "%2e%2e/a",     "a/%2E.",
        "..%2fa",     "%2e%2e%2Fa", "a%2f..%2fb", "a%2f..",  "\\..\\a",      "a%5c..%5Cb",
        "..;/secret", "..;x=1",     "a/.;b/c",    "..%3b/a", "a/%2e%2e;y/z", "a%2f%2e"};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(good); i++) {
        if (!edg_path_stays((struct ron_str){good[i], strlen(good[i])})) {
            fail_msg("'%s' is refused", good[i]);
        }
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        if (edg_path_stays((struct ron_str){bad[i], strlen(bad[i])})) {
            fail_msg("'%s' is let through", bad[i]);
        }
    }
}

static void test_type__endings__are_known_in_any_case(void **state)
{
    (void)state;
    assert_string_equal(edg_type_of("a/b.HTML"), "text/html; charset=utf-8");
    assert_string_equal(edg_type_of("b.tar.gz"), "application/gzip");
    assert_string_equal(edg_type_of("dir.png/file"), "application/octet-stream");
    assert_string_equal(edg_type_of("png"), "application/octet-stream");
    assert_string_equal(edg_type_of("x."), "application/octet-stream");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_files__a_small_file__is_served_from_memory_with_its_tag),
        TEST(test_files__a_large_file__is_served_from_its_descriptor),
        TEST(test_files__an_empty_file__has_the_tag_of_nothing),
        TEST(test_files__a_replaced_file__is_seen_at_the_next_look),
        TEST(test_files__nobody_looked_for_twice_the_time__the_next_waits_for_a_look),
        TEST(test_files__a_file_that_is_gone__is_forgotten),
        TEST(test_files__more_than_fit__the_longest_unused_go),
        TEST(test_files__too_large_or_no_file__is_refused),
        cmocka_unit_test(test_path__table__is_decoded_or_refused),
        cmocka_unit_test(test_path__stays__where_it_begins_for_every_reader),
        cmocka_unit_test(test_type__endings__are_known_in_any_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
