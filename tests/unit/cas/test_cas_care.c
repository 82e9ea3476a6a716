/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a store finds its objects again after a start, makes room in the right order, and never
 * serves a damaged object.
 * Method: a real folder whose files are changed behind the store's back; a wall clock that the test
 * moves. */
#include "cas/cas_priv.h"
#include "support/cas_put.h"
#include "unit/cas/fixture.h"

enum { LARGE = 200000 };

static struct ron_cas *reopen(struct fixture *f, struct ron_cas_opts opts, bool load)
{
    opts.env = cas_env();
    opts.dir = f->dir;
    return cas_open_with(&opts, load);
}

static void expect_absent(struct ron_cas *s, const struct ron_b3 *id)
{
    struct ron_cas_obj *obj = NULL;

    assert_int_equal(ron_cas_open(s, id, &obj, NULL), RON_NOTFOUND);
}

static bool is_there(struct ron_cas *s, uint64_t number, size_t len)
{
    struct ron_b3 id = cas_id_of(len, number);
    struct ron_cas_obj *obj = NULL;
    enum ron_rc rc = ron_cas_get(s, &id, &obj);

    assert_true(rc == RON_OK || rc == RON_AGAIN || rc == RON_NOTFOUND);
    if (rc == RON_OK) {
        ron_cas_release(obj);
    }
    return rc != RON_NOTFOUND;
}

/* ---- start ----------------------------------------------------------------------------------- */

static void touch(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    (void)close(fd);
}

static void test_cas__restart__objects_found_temporaries_gone(void **state)
{
    struct ron_cas *s = reopen(*state, (struct ron_cas_opts){0}, true);

    for (uint64_t i = 0; i < 50; i++) {
        (void)cas_put_numbered(s, 100 * i, i);
    }
    (void)cas_put_numbered(s, LARGE, 99);
    ron_cas_free(s);
    touch(fixture_path(*state, "tmp/0000000000000007"));
    s = reopen(*state, (struct ron_cas_opts){0}, true);
    assert_int_equal(cas_count_files(fixture_path(*state, "tmp")), 0);
    assert_int_equal(cas_stats(s).objects, 51);
    assert_int_equal(cas_stats(s).bytes, 49 * 50 / 2 * 100 + LARGE);
    for (uint64_t i = 0; i < 50; i++) {
        cas_expect_numbered(s, 100 * i, i);
    }
    cas_expect_numbered(s, LARGE, 99);
    ron_cas_free(s);
}

static void test_cas__before_the_load__everything_works(void **state)
{
    struct ron_cas *s = reopen(*state, (struct ron_cas_opts){0}, true);
    struct ron_b3 id = cas_put_numbered(s, 500, 1);
    struct ron_b3 pinned = cas_put_numbered(s, 500, 2);
    struct ron_b3 removed = cas_put_numbered(s, 500, 3);
    struct ron_b3 absent = cas_id_of(500, 4);
    struct ron_cas_obj *obj = NULL;

    ron_cas_free(s);
    s = reopen(*state, (struct ron_cas_opts){0}, false);
    assert_false(ron_cas_loaded(s));
    assert_int_equal(ron_cas_get(s, &id, &obj), RON_AGAIN);
    assert_int_equal(ron_cas_get(s, &absent, &obj), RON_AGAIN);
    expect_absent(s, &absent);
    cas_expect_numbered(s, 500, 1);
    assert_int_equal(ron_cas_pin(s, &pinned), RON_OK);
    assert_int_equal(ron_cas_pin(s, &absent), RON_NOTFOUND);
    assert_int_equal(ron_cas_remove(s, &removed, NULL), RON_OK);
    assert_int_equal(ron_cas_remove(s, &absent, NULL), RON_NOTFOUND);
    (void)cas_put_numbered(s, 500, 5);
    (void)cas_put_numbered(s, 500, 1); /* there, but not known to be durable: written again */
    assert_int_equal(cas_stats(s).objects, 3);
    assert_int_equal(ron_cas_load(s, NULL, NULL, NULL), RON_OK);
    assert_int_equal(cas_stats(s).objects, 3);
    assert_int_equal(cas_stats(s).bytes, 1500);
    assert_int_equal(ron_cas_get(s, &absent, &obj), RON_NOTFOUND);
    ron_cas_free(s);
}

static bool stop_at_once(void *arg)
{
    (void)arg;
    return true;
}

static void test_cas__load_stopped__cancelled_and_can_start_again(void **state)
{
    struct ron_cas *s = reopen(*state, (struct ron_cas_opts){0}, true);

    (void)cas_put_numbered(s, 500, 1);
    ron_cas_free(s);
    s = reopen(*state, (struct ron_cas_opts){0}, false);
    assert_int_equal(ron_cas_load(s, stop_at_once, NULL, NULL), RON_CANCELLED);
    assert_false(ron_cas_loaded(s));
    assert_int_equal(ron_cas_load(s, NULL, NULL, NULL), RON_OK);
    assert_int_equal(cas_stats(s).objects, 1);
    ron_cas_free(s);
}

static void test_cas__strange_names__left_alone(void **state)
{
    static const char *const names[] = {
        "objects/ab",
        "objects/ab/cd",
        "objects/zz",
    };
    static const char *const files[] = {
        "objects/ab/cd/readme",
        "objects/ab/cd/ABcd0000000000000000000000000000000000000000000000000000000000ff",
        "objects/ab/cd/ffcd0000000000000000000000000000000000000000000000000000000000ff",
        "objects/ab/cd/abcd0000000000000000000000000000000000000000000000000000000000ff0",
        "objects/ab/xy",
    };
    struct ron_cas *s;

    assert_int_equal(mkdir(fixture_path(*state, "objects"), 0700), 0);
    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        assert_int_equal(mkdir(fixture_path(*state, names[i]), 0700), 0);
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(files); i++) {
        touch(fixture_path(*state, files[i]));
    }
    s = reopen(*state, (struct ron_cas_opts){0}, true);
    assert_int_equal(cas_stats(s).objects, 0);
    assert_int_equal(cas_stats(s).strays, RON_ARRAY_LEN(files));
    for (size_t i = 0; i < RON_ARRAY_LEN(files); i++) {
        assert_int_equal(access(fixture_path(*state, files[i]), F_OK), 0);
    }
    ron_cas_free(s);
}

/* ---- room ------------------------------------------------------------------------------------ */

static void test_cas__cap__oldest_unused_goes_first(void **state)
{
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        struct ron_cas_opts opts = {.env = cas_env(), .bytes_max = 10000, .objects_max = 100};
        struct ron_cas *s;

        opts.dir = on_disk ? ((struct fixture *)*state)->dir : NULL;
        s = cas_open_with(&opts, true);
        for (uint64_t i = 0; i < 10; i++) {
            cas_wall_ms += 10000;
            (void)cas_put_numbered(s, 1000, i);
        }
        cas_wall_ms += 10000;
        ron_cas_tend(s);
        cas_expect_numbered(s, 1000, 0); /* the oldest is used again */
        for (uint64_t i = 10; i < 14; i++) {
            cas_wall_ms += 10000;
            (void)cas_put_numbered(s, 1000, i);
        }
        assert_int_equal(cas_stats(s).evictions, 4);
        assert_int_equal(cas_stats(s).evicted_bytes, 4000);
        assert_int_equal(cas_stats(s).bytes, 10000);
        assert_true(is_there(s, 0, 1000));
        for (uint64_t i = 1; i < 14; i++) {
            assert_int_equal(is_there(s, i, 1000), i > 4);
        }
        ron_cas_free(s);
    }
}

static void test_cas__pinned_or_held__not_evicted(void **state)
{
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        struct ron_cas_opts opts = {.env = cas_env(), .bytes_max = 3000, .objects_max = 100};
        struct ron_b3 pinned;
        struct ron_b3 held_id;
        struct ron_b3 id;
        struct ron_cas_obj *held = NULL;
        struct ron_cas *s;
        uint8_t bytes[1000] = {7};

        opts.dir = on_disk ? ((struct fixture *)*state)->dir : NULL;
        s = cas_open_with(&opts, true);
        pinned = cas_put_numbered(s, 1000, 1);
        held_id = cas_put_numbered(s, 1000, 2);
        assert_int_equal(ron_cas_pin(s, &pinned), RON_OK);
        assert_int_equal(ron_cas_open(s, &held_id, &held, NULL), RON_OK);
        for (uint64_t i = 10; i < 30; i++) {
            cas_wall_ms += 10000;
            (void)cas_put_numbered(s, 1000, i);
        }
        assert_int_equal(cas_stats(s).evictions, 19);
        cas_expect_numbered(s, 1000, 1);
        cas_expect_numbered(s, 1000, 2);
        id = cas_id_of(1000, 29);
        assert_int_equal(ron_cas_pin(s, &id), RON_OK);
        assert_int_equal(ron_cas_put(s, bytes, sizeof bytes, &id, NULL), RON_LIMIT);
        assert_int_equal(cas_stats(s).bytes, 3000);
        assert_int_equal(ron_cas_unpin(s, &pinned), RON_OK);
        assert_int_equal(ron_cas_unpin(s, &pinned), RON_NOTFOUND);
        assert_int_equal(ron_cas_put(s, bytes, sizeof bytes, &id, NULL), RON_OK);
        assert_false(is_there(s, 1, 1000));
        ron_cas_release(held);
        ron_cas_free(s);
    }
}

static void test_cas__number_of_objects__bounded(void **state)
{
    struct ron_cas *s = reopen(*state, (struct ron_cas_opts){.objects_max = 8}, true);

    for (uint64_t i = 0; i < 30; i++) {
        (void)cas_put_numbered(s, 10, i);
        assert_true(cas_stats(s).objects <= 8);
    }
    assert_int_equal(cas_stats(s).evictions, 22);
    ron_cas_free(s);
}

static void test_cas__smaller_cap_after_restart__oldest_files_go(void **state)
{
    struct ron_cas *s = reopen(*state, (struct ron_cas_opts){.objects_max = 100}, true);

    for (uint64_t i = 0; i < 10; i++) {
        struct ron_b3 id = cas_put_numbered(s, 1000, i);
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                    {.tv_sec = 1600000000 + (time_t)(i * 7 % 10) * 100}};

        assert_int_equal(utimensat(AT_FDCWD, cas_file(*state, &id, true), times, 0), 0);
    }
    ron_cas_free(s);
    s = reopen(*state, (struct ron_cas_opts){.objects_max = 100, .bytes_max = 4000}, true);
    assert_int_equal(cas_stats(s).bytes, 10000);
    ron_cas_tend(s);
    assert_int_equal(cas_stats(s).bytes, 4000);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(is_there(s, i, 1000), i * 7 % 10 >= 6);
    }
    ron_cas_free(s);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void test_cas__damaged__quarantined_then_refilled(void **state)
{
    static const size_t lens[] = {1, 1000, LARGE};

    for (size_t i = 0; i < RON_ARRAY_LEN(lens); i++) {
        struct ron_cas *s = reopen(*state, (struct ron_cas_opts){0}, true);
        struct ron_b3 id = cas_put_numbered(s, lens[i], i);
        struct ron_cas_obj *obj = NULL;

        ron_cas_free(s);
        cas_damage(cas_file(*state, &id, true), (off_t)lens[i] / 2);
        s = reopen(*state, (struct ron_cas_opts){0}, true);
        assert_int_equal(ron_cas_open(s, &id, &obj, NULL), RON_CORRUPT);
        assert_int_equal(cas_stats(s).quarantined, 1);
        assert_int_equal(access(cas_file(*state, &id, false), F_OK), 0);
        assert_true(access(cas_file(*state, &id, true), F_OK) != 0);
        expect_absent(s, &id);
        (void)cas_put_numbered(s, lens[i], i);
        cas_expect_numbered(s, lens[i], i);
        assert_int_equal(ron_cas_remove(s, &id, NULL), RON_OK);
        assert_int_equal(cas_stats(s).bytes, 0);
        ron_cas_free(s);
    }
}

static void test_cas__cut_or_longer__quarantined(void **state)
{
    for (int longer = 0; longer < 2; longer++) {
        struct ron_cas *s = reopen(*state, (struct ron_cas_opts){0}, true);
        struct ron_b3 id = cas_put_numbered(s, LARGE, 1);
        struct ron_cas_obj *obj = NULL;

        assert_int_equal(truncate(cas_file(*state, &id, true), LARGE + (longer ? 1 : -1)), 0);
        assert_int_equal(ron_cas_open(s, &id, &obj, NULL), RON_CORRUPT);
        ron_cas_free(s);
        s = reopen(*state, (struct ron_cas_opts){0}, false);
        (void)cas_put_numbered(s, LARGE, 1);
        assert_int_equal(truncate(cas_file(*state, &id, true), LARGE + (longer ? 1 : -1)), 0);
        ron_cas_free(s);
        s = reopen(*state, (struct ron_cas_opts){0}, false); /* the size is not known beforehand */
        assert_int_equal(ron_cas_open(s, &id, &obj, NULL), RON_CORRUPT);
        assert_int_equal(cas_stats(s).bytes, 0);
        ron_cas_free(s);
    }
}

static void test_cas__damaged_while_open__the_scrub_finds_it(void **state)
{
    struct ron_cas *s = reopen(*state, (struct ron_cas_opts){.objects_max = 100}, true);
    struct ron_b3 id = cas_put_numbered(s, LARGE, 1);
    struct ron_cas_obj *obj = NULL;

    (void)cas_put_numbered(s, 1000, 2);
    assert_int_equal(ron_cas_open(s, &id, &obj, NULL), RON_OK);
    assert_int_equal(ron_cas_scrub(s, UINT64_MAX), LARGE + 1000);
    cas_damage(cas_file(*state, &id, true), 77777);
    assert_int_equal(ron_cas_scrub(s, 1), LARGE); /* at least one, whatever the budget */
    assert_int_equal(cas_stats(s).quarantined, 1);
    expect_absent(s, &id);
    assert_int_equal(ron_cas_obj_size(obj), LARGE); /* the handle lives on */
    ron_cas_release(obj);
    assert_int_equal(ron_cas_scrub(s, UINT64_MAX), 1000);
    ron_cas_free(s);
}

static void test_cas__checked_always__damage_found_at_each_open(void **state)
{
    struct ron_cas *s =
        reopen(*state, (struct ron_cas_opts){.open_max = 1, .verify_always = true}, true);
    struct ron_b3 id = cas_put_numbered(s, LARGE, 1);
    struct ron_cas_obj *obj = NULL;

    cas_expect_numbered(s, LARGE, 1);
    cas_damage(cas_file(*state, &id, true), 3);
    assert_int_equal(ron_cas_open(s, &id, &obj, NULL), RON_CORRUPT);
    ron_cas_free(s);
}

static void test_cas__file_gone__not_found_and_counted_down(void **state)
{
    struct ron_cas *s = reopen(*state, (struct ron_cas_opts){0}, true);
    struct ron_b3 id = cas_put_numbered(s, 1000, 1);

    assert_int_equal(unlink(cas_file(*state, &id, true)), 0);
    expect_absent(s, &id);
    assert_int_equal(cas_stats(s).objects, 0);
    assert_int_equal(cas_stats(s).bytes, 0);
    ron_cas_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        CASE(test_cas__restart__objects_found_temporaries_gone),
        CASE(test_cas__before_the_load__everything_works),
        CASE(test_cas__load_stopped__cancelled_and_can_start_again),
        CASE(test_cas__strange_names__left_alone),
        CASE(test_cas__cap__oldest_unused_goes_first),
        CASE(test_cas__pinned_or_held__not_evicted),
        CASE(test_cas__number_of_objects__bounded),
        CASE(test_cas__smaller_cap_after_restart__oldest_files_go),
        CASE(test_cas__damaged__quarantined_then_refilled),
        CASE(test_cas__cut_or_longer__quarantined),
        CASE(test_cas__damaged_while_open__the_scrub_finds_it),
        CASE(test_cas__checked_always__damage_found_at_each_open),
        CASE(test_cas__file_gone__not_found_and_counted_down),
#undef CASE
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
