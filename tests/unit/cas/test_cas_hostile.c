/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a store survives its folder: two owners, a folder that belongs to somebody else, links,
 * pipes and files where folders should be; and a failing disk does not keep it from being mended.
 * Method: real folders prepared by the test; disk ports that fail or look away on demand. */
#include "unit/cas/fixture.h"

#include "cas/cas_priv.h"
#include "ron/base/alloc.h"
#include "support/cas_put.h"

enum { LARGE = 200000 };

static struct ron_cas_opts in_folder(const struct fixture *f)
{
    return (struct ron_cas_opts){.env = cas_env(), .dir = f->dir, .objects_max = 100};
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
}

/* ---- owners ---------------------------------------------------------------------------------- */

static void test_cas__second_owner__refused_and_harms_nothing(void **state)
{
    struct ron_cas_opts opts = in_folder(*state);
    struct ron_cas *s = cas_open_with(&opts, true);
    struct ron_cas *second = NULL;
    struct ron_cas_writer *w = NULL;
    struct ron_b3 id;
    struct ron_err err = {0};

    assert_int_equal(ron_cas_begin(s, NULL, &w, NULL), RON_OK);
    assert_int_equal(ron_cas_append(w, "abc", 3, NULL), RON_OK);
    assert_int_equal(ron_cas_new(&opts, &second, &err), RON_CONFLICT);
    assert_non_null(strstr(err.msg, "in use by another process"));
    assert_null(second);
    assert_int_equal(ron_cas_commit(w, &id, NULL), RON_OK); /* its temporary was not cleared */
    ron_cas_free(s);
    s = cas_open_with(&opts, true); /* the lock went with its owner */
    assert_int_equal(cas_stats(s).objects, 1);
    ron_cas_free(s);
}

static void test_cas__folder_of_others__their_temporary_files_stay(void **state)
{
    static const char *const names[] = {"tmp/letter.txt", "tmp/0123456789abcdeg",
                                        "tmp/0123456789abcdef0", "tmp/0123456789ABCDEF",
                                        "tmp/000000000000000"};
    struct ron_cas_opts opts = in_folder(*state);
    struct ron_cas *s;

    assert_int_equal(mkdir(fixture_path(*state, "tmp"), 0700), 0);
    assert_int_equal(mkdir(fixture_path(*state, "tmp/0000000000000000"), 0700), 0);
    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        write_text(fixture_path(*state, names[i]), "precious");
    }
    write_text(fixture_path(*state, "tmp/0000000000000001"), "ours");
    s = cas_open_with(&opts, true);
    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        assert_int_equal(access(fixture_path(*state, names[i]), F_OK), 0);
    }
    assert_true(access(fixture_path(*state, "tmp/0000000000000001"), F_OK) != 0);
    assert_int_equal(cas_stats(s).strays, RON_ARRAY_LEN(names) + 1);
    (void)cas_put_numbered(s, 100, 1); /* the folder that has the first name is no obstacle */
    ron_cas_free(s);
}

/* ---- strange things under the names of objects ----------------------------------------------- */

static struct ron_b3 id_at_ab_cd(uint8_t last)
{
    struct ron_b3 id = {.bytes = {0xab, 0xcd, [31] = last}};

    return id;
}

static void make_leaf(const struct fixture *f)
{
    assert_int_equal(mkdir(fixture_path(f, "objects"), 0700), 0);
    assert_int_equal(mkdir(fixture_path(f, "objects/ab"), 0700), 0);
    assert_int_equal(mkdir(fixture_path(f, "objects/ab/cd"), 0700), 0);
}

static void make_strange(const struct fixture *f)
{
    struct ron_b3 link = id_at_ab_cd(1);
    struct ron_b3 pipe = id_at_ab_cd(2);
    struct ron_b3 device = id_at_ab_cd(3);
    struct ron_b3 nowhere = id_at_ab_cd(4);

    make_leaf(f);
    write_text(fixture_path(f, "secret"), "not for the store");
    assert_int_equal(symlink(fixture_path(f, "secret"), cas_file(f, &link, true)), 0);
    assert_int_equal(mkfifo(cas_file(f, &pipe, true), 0600), 0);
    assert_int_equal(symlink("/dev/zero", cas_file(f, &device, true)), 0);
    assert_int_equal(symlink("/nonexistent", cas_file(f, &nowhere, true)), 0);
}

static void test_cas__links_and_pipes__strays_in_a_load(void **state)
{
    struct ron_cas_opts opts = in_folder(*state);
    struct ron_cas *s;

    make_strange(*state);
    s = cas_open_with(&opts, true);
    assert_int_equal(cas_stats(s).objects, 0);
    assert_int_equal(cas_stats(s).bytes, 0);
    assert_int_equal(cas_stats(s).strays, 4);
    ron_cas_free(s);
    assert_int_equal(access(fixture_path(*state, "secret"), F_OK), 0);
}

static void test_cas__links_and_pipes__never_followed_nor_waited_for(void **state)
{
    struct ron_cas_opts opts = in_folder(*state);
    struct ron_cas *s;

    make_strange(*state);
    s = cas_open_with(&opts, false);
    for (uint8_t i = 1; i <= 4; i++) {
        struct ron_b3 id = id_at_ab_cd(i);
        struct ron_cas_obj *obj = NULL;

        assert_int_equal(ron_cas_open(s, &id, &obj, NULL), RON_CORRUPT);
        assert_int_equal(ron_cas_open(s, &id, &obj, NULL), RON_NOTFOUND);
    }
    assert_int_equal(cas_stats(s).quarantined, 4);
    assert_int_equal(cas_stats(s).bytes, 0);
    ron_cas_free(s);
    assert_int_equal(access(fixture_path(*state, "secret"), F_OK), 0);
}

static void test_cas__file_in_place_of_a_folder__load_goes_on(void **state)
{
    struct ron_cas_opts opts = in_folder(*state);
    struct ron_cas *s = cas_open_with(&opts, true);
    struct ron_b3 id = cas_put_numbered(s, 100, 1);
    char name[] = "objects/00";

    ron_cas_free(s);
    (void)snprintf(name, sizeof name, "objects/%02x", id.bytes[0] ^ 1);
    write_text(fixture_path(*state, name), "");
    s = cas_open_with(&opts, true);
    assert_true(ron_cas_loaded(s));
    assert_int_equal(cas_stats(s).objects, 1);
    assert_int_equal(cas_stats(s).strays, 1);
    ron_cas_free(s);
}

/* ---- what others did to a running store ------------------------------------------------------ */

static void test_cas__removed_by_hand_then_written_again__is_there(void **state)
{
    struct ron_cas_opts opts = in_folder(*state);
    struct ron_cas *s = cas_open_with(&opts, true);

    for (size_t len = 1000; len <= LARGE; len += LARGE - 1000) {
        struct ron_b3 id = cas_put_numbered(s, len, 1);

        cas_expect_numbered(s, len, 1);
        assert_int_equal(unlink(cas_file(*state, &id, true)), 0);
        (void)cas_put_numbered(s, len, 1);
        assert_int_equal(access(cas_file(*state, &id, true), F_OK), 0);
        cas_expect_numbered(s, len, 1);
    }
    assert_int_equal(cas_stats(s).bytes, 1000 + LARGE);
    ron_cas_free(s);
}

static void test_cas__quarantine_emptied_by_hand__used_again(void **state)
{
    struct ron_cas_opts opts = in_folder(*state);
    struct ron_cas *s;
    struct ron_cas_obj *obj = NULL;
    struct ron_b3 id = {.bytes = {0}};

    assert_int_equal(mkdir(fixture_path(*state, "quarantine"), 0700), 0);
    for (uint16_t i = 0; i < RON_CAS_QUARANTINE_MAX; i++) {
        memcpy(id.bytes, &i, sizeof i);
        write_text(cas_file(*state, &id, false), "");
    }
    s = cas_open_with(&opts, true);
    for (uint64_t number = 0; number < 2; number++) {
        struct ron_b3 bad = cas_put_numbered(s, 1000, number);

        cas_damage(cas_file(*state, &bad, true), 7);
        assert_int_equal(ron_cas_open(s, &bad, &obj, NULL), RON_CORRUPT);
        /* The first finds no room and is deleted; then the operator has looked. */
        assert_int_equal(access(cas_file(*state, &bad, false), F_OK), number == 0 ? -1 : 0);
        for (uint16_t i = 0; i < 10; i++) {
            memcpy(id.bytes, &i, sizeof i);
            (void)unlink(cas_file(*state, &id, false));
        }
    }
    ron_cas_free(s);
}

/* ---- a disk that fails ----------------------------------------------------------------------- */

static struct ron_disk_ops bad_disk;
static struct ron_env bad_env;
static bool reads_fail;
static bool removes_fail;
static int sync_dirs_left; /* then they fail; negative: never */

static enum ron_rc bad_pread(const struct ron_env *env, int fd, void *buf, size_t len, uint64_t off,
                             size_t *ret_len)
{
    return reads_fail ? RON_IO : ron_env_linux()->disk->pread(env, fd, buf, len, off, ret_len);
}

static enum ron_rc bad_remove(const struct ron_env *env, const char *path, struct ron_err *err)
{
    return removes_fail ? ron_err_set(err, RON_IO, "no")
                        : ron_env_linux()->disk->remove(env, path, err);
}

static enum ron_rc bad_sync_dir(const struct ron_env *env, const char *path, struct ron_err *err)
{
    if (sync_dirs_left == 0) {
        return ron_err_set(err, RON_IO, "no");
    }
    sync_dirs_left -= sync_dirs_left > 0;
    return ron_env_linux()->disk->sync_dir(env, path, err);
}

static struct ron_cas *open_bad(const struct fixture *f, bool load)
{
    struct ron_cas_opts opts = in_folder(f);

    reads_fail = false;
    removes_fail = false;
    sync_dirs_left = -1;
    bad_disk = *ron_env_linux()->disk;
    bad_disk.pread = bad_pread;
    bad_disk.remove = bad_remove;
    bad_disk.sync_dir = bad_sync_dir;
    bad_env = *cas_env();
    bad_env.disk = &bad_disk;
    opts.env = &bad_env;
    return cas_open_with(&opts, load);
}

static void test_cas__unreadable_while_open__writing_again_mends_it(void **state)
{
    struct ron_cas *s = open_bad(*state, true);
    struct ron_b3 id = cas_put_numbered(s, LARGE, 1);
    struct ron_cas_obj *held = NULL;
    struct ron_cas_obj *fresh = NULL;
    char byte;
    size_t len = 0;

    assert_int_equal(ron_cas_open(s, &id, &held, NULL), RON_OK);
    reads_fail = true;
    assert_int_equal(ron_cas_read(held, 0, &byte, 1, &len), RON_IO);
    reads_fail = false;
    assert_int_equal(ron_cas_get(s, &id, &fresh), RON_AGAIN); /* no longer lent unchecked */
    (void)cas_put_numbered(s, LARGE, 1);
    assert_int_equal(cas_stats(s).commits, 2); /* the copy was not thrown away */
    assert_int_equal(ron_cas_open(s, &id, &fresh, NULL), RON_OK);
    assert_true(ron_cas_slice(fresh, 0, 1).fd != ron_cas_slice(held, 0, 1).fd);
    ron_cas_release(fresh);
    ron_cas_release(held);
    assert_int_equal(cas_stats(s).held, 0);
    assert_int_equal(cas_stats(s).bytes, LARGE);
    ron_cas_free(s);
}

/* The books must agree with the folder whatever could not be undone. */
static void test_cas__name_not_synced__nothing_is_there_that_is_not_counted(void **state)
{
    for (int mode = 0; mode < 4; mode++) {
        bool loaded = (mode & 1) != 0;
        bool stuck = (mode & 2) != 0;
        struct ron_cas *s = open_bad(*state, loaded);
        uint8_t *bytes = cas_bytes(1000, (uint64_t)mode);
        struct ron_b3 id = cas_id_of(1000, (uint64_t)mode);
        bool there;

        sync_dirs_left = 2; /* both folders; the name fails */
        removes_fail = stuck;
        assert_int_equal(ron_cas_put(s, bytes, 1000, &id, NULL), RON_IO);
        free(bytes);
        removes_fail = false;
        sync_dirs_left = -1;
        there = access(cas_file(*state, &id, true), F_OK) == 0;
        assert_int_equal(there, stuck);
        assert_int_equal(ron_cas_load(s, NULL, NULL, NULL), RON_OK);
        assert_int_equal(cas_stats(s).objects, there);
        assert_int_equal(cas_stats(s).bytes, there ? 1000 : 0);
        if (there) {
            assert_int_equal(ron_cas_remove(s, &id, NULL), RON_OK);
        }
        ron_cas_free(s);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Bytes of an object that were not seen to be zero right before a block was given back. Blocks that
 * have gone were, so they are not looked at again. */
enum { WATCHED_MAX = 64 };
static const uint8_t *watched[WATCHED_MAX];
static size_t watched_count;
static unsigned frees;

static void look(int delta, const char *site)
{
    size_t left = 0;

    (void)site;
    if (delta > 0) {
        return;
    }
    frees++;
    for (size_t i = 0; i < watched_count; i++) {
        if (*watched[i] != 0) {
            watched[left++] = watched[i];
        }
    }
    watched_count = left;
}

static void test_cas__memory_object_gone__its_bytes_are_wiped(void **state)
{
    static const size_t lens[] = {1, 1000, 65536, LARGE};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(lens); i++) {
        struct ron_cas_opts opts = {.env = cas_env()};
        struct ron_cas *s = cas_open_with(&opts, true);
        struct ron_cas_obj *obj = NULL;
        uint8_t *bytes = malloc(lens[i]);
        struct ron_b3 id;

        assert_non_null(bytes);
        memset(bytes, 0x5a, lens[i]);
        assert_int_equal(ron_cas_put(s, bytes, lens[i], &id, NULL), RON_OK);
        free(bytes);
        assert_int_equal(ron_cas_open(s, &id, &obj, NULL), RON_OK);
        for (uint64_t at = 0; at < lens[i];) {
            struct ron_cas_slice slice = ron_cas_slice(obj, at, UINT64_MAX);

            watched[watched_count++] = slice.bytes;
            watched[watched_count++] = slice.bytes + slice.len - 1;
            at += slice.len;
        }
        assert_int_equal(ron_cas_remove(s, &id, NULL), RON_OK);
        ron_alloc_watch = look;
        ron_cas_release(obj);
        ron_cas_tend(s);
        ron_alloc_watch = NULL;
        assert_int_equal(watched_count, 0);
        ron_cas_free(s);
    }
}

static void test_cas__memory_released_late__given_back_by_the_next_writer(void **state)
{
    struct ron_cas_opts opts = {.env = cas_env()};
    struct ron_cas *s = cas_open_with(&opts, true);
    struct ron_b3 id = cas_put_numbered(s, LARGE, 1);
    struct ron_cas_obj *obj = NULL;
    struct ron_cas_writer *w = NULL;

    (void)state;
    assert_int_equal(ron_cas_open(s, &id, &obj, NULL), RON_OK);
    assert_int_equal(ron_cas_remove(s, &id, NULL), RON_OK);
    ron_cas_release(obj); /* large: not on the thread that released it */
    frees = 0;
    ron_alloc_watch = look;
    assert_int_equal(ron_cas_begin(s, NULL, &w, NULL), RON_OK);
    ron_alloc_watch = NULL;
    assert_true(frees >= LARGE / 65536);
    ron_cas_abort(w);
    ron_cas_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        CASE(test_cas__second_owner__refused_and_harms_nothing),
        CASE(test_cas__folder_of_others__their_temporary_files_stay),
        CASE(test_cas__links_and_pipes__strays_in_a_load),
        CASE(test_cas__links_and_pipes__never_followed_nor_waited_for),
        CASE(test_cas__file_in_place_of_a_folder__load_goes_on),
        CASE(test_cas__removed_by_hand_then_written_again__is_there),
        CASE(test_cas__quarantine_emptied_by_hand__used_again),
        CASE(test_cas__unreadable_while_open__writing_again_mends_it),
        CASE(test_cas__name_not_synced__nothing_is_there_that_is_not_counted),
        CASE(test_cas__memory_object_gone__its_bytes_are_wiped),
        CASE(test_cas__memory_released_late__given_back_by_the_next_writer),
#undef CASE
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
