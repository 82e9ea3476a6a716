/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what was committed is served byte for byte, on disk and in memory, and nothing else is
 * visible; writers of the same bytes agree; limits are kept; a memory store touches no disk.
 * Method: both kinds of store through the same cases, on a real file system. */
#include "unit/cas/fixture.h"

#include "cas/cas_priv.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"

static const size_t sizes[] = {0, 1, 4096, 4097, 65535, 65536, 65537, 200000, (1 << 20) + 3};

/* A disk whose every port would crash. */
static const struct ron_env *diskless(void)
{
    static struct ron_env env;

    env = *cas_env();
    env.disk = NULL;
    return &env;
}

static struct ron_cas *open_kind(struct fixture *f, bool on_disk, struct ron_cas_opts opts)
{
    opts.env = on_disk ? cas_env() : diskless();
    opts.dir = on_disk ? f->dir : NULL;
    return cas_open_with(&opts, true);
}

static void test_cas__any_size__comes_back(void **state)
{
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        struct ron_cas *s = open_kind(*state, on_disk, (struct ron_cas_opts){0});
        uint64_t total = 0;

        for (size_t i = 0; i < RON_ARRAY_LEN(sizes); i++) {
            struct ron_b3 id = cas_put_numbered(s, sizes[i], i);
            struct ron_b3 want = cas_id_of(sizes[i], i);

            assert_true(ron_b3_equal(&id, &want));
            total += sizes[i];
        }
        for (size_t i = 0; i < RON_ARRAY_LEN(sizes); i++) {
            cas_expect_numbered(s, sizes[i], i);
        }
        assert_int_equal(cas_stats(s).bytes, total);
        assert_int_equal(cas_stats(s).objects, RON_ARRAY_LEN(sizes));
        assert_int_equal(cas_stats(s).held, 0);
        ron_cas_free(s);
    }
}

static void test_cas__pieces_of_any_size__same_object(void **state)
{
    struct ron_rand rand = support_rand();

    for (int round = 0; round < 40; round++) {
        struct ron_cas *s = open_kind(*state, round % 2, (struct ron_cas_opts){0});
        size_t len = (size_t)ron_rand_below(&rand, 300000);
        struct ron_cas_write_opts opts = {
            .size_hint = ron_rand_chance(&rand, 1, 2) ? ron_rand_below(&rand, 400000) : 0};
        uint8_t *bytes = cas_bytes(len, (uint64_t)round);
        struct ron_cas_writer *w = NULL;
        struct ron_b3 id;

        assert_int_equal(ron_cas_begin(s, &opts, &w, NULL), RON_OK);
        for (size_t at = 0; at < len;) {
            size_t piece = (size_t)ron_rand_range(&rand, 1, 1u << ron_rand_below(&rand, 18));

            piece = RON_MIN(piece, len - at);
            assert_int_equal(ron_cas_append(w, bytes + at, piece, NULL), RON_OK);
            at += piece;
        }
        assert_int_equal(ron_cas_commit(w, &id, NULL), RON_OK);
        cas_expect_numbered(s, len, (uint64_t)round);
        free(bytes);
        ron_cas_free(s);
    }
}

static void test_cas__ranges__are_parts_of_the_whole(void **state)
{
    enum { LEN = 150000 };
    struct ron_rand rand = support_rand();
    uint8_t *want = cas_bytes(LEN, 5);
    uint8_t *got = malloc(LEN);

    for (int on_disk = 0; on_disk < 2; on_disk++) {
        struct ron_cas *s = open_kind(*state, on_disk, (struct ron_cas_opts){0});
        struct ron_b3 id = cas_put_numbered(s, LEN, 5);
        struct ron_cas_obj *obj = NULL;

        assert_int_equal(ron_cas_open(s, &id, &obj, NULL), RON_OK);
        for (int i = 0; i < 500; i++) {
            uint64_t off = ron_rand_below(&rand, LEN + 100);
            size_t len = (size_t)ron_rand_below(&rand, LEN);
            size_t n = 0;

            assert_int_equal(ron_cas_read(obj, off, got, len, &n), RON_OK);
            assert_int_equal(n, off >= LEN ? 0 : RON_MIN(len, (size_t)(LEN - off)));
            assert_memory_equal(got, want + RON_MIN(off, (uint64_t)LEN), n);
        }
        assert_int_equal(ron_cas_slice(obj, UINT64_MAX, UINT64_MAX).len, 0);
        assert_true(ron_cas_slice(obj, 7, UINT64_MAX).len > 0);
        ron_cas_release(obj);
        ron_cas_free(s);
    }
    free(want);
    free(got);
}

static void test_cas__same_bytes_again__one_object(void **state)
{
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        struct ron_cas *s = open_kind(*state, on_disk, (struct ron_cas_opts){0});

        for (int i = 0; i < 3; i++) {
            (void)cas_put_numbered(s, 70000, 9);
        }
        assert_int_equal(cas_stats(s).objects, 1);
        assert_int_equal(cas_stats(s).bytes, 70000);
        assert_int_equal(cas_stats(s).commits, 1);
        assert_int_equal(cas_stats(s).duplicates, 2);
        cas_expect_numbered(s, 70000, 9);
        ron_cas_free(s);
    }
    assert_int_equal(cas_count_files(fixture_path(*state, "tmp")), 0);
}

static void test_cas__not_the_promised_bytes__conflict_and_nothing_left(void **state)
{
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        struct ron_cas *s = open_kind(*state, on_disk, (struct ron_cas_opts){0});
        struct ron_b3 promised = cas_id_of(10, 1);
        struct ron_cas_write_opts opts = {.expected = &promised};
        struct ron_cas_writer *w = NULL;
        struct ron_cas_obj *obj = NULL;
        struct ron_b3 id;
        struct ron_b3 other;

        assert_int_equal(ron_cas_begin(s, &opts, &w, NULL), RON_OK);
        assert_int_equal(ron_cas_append(w, "something else", 14, NULL), RON_OK);
        assert_int_equal(ron_cas_commit(w, &id, NULL), RON_CONFLICT);
        ron_b3_hash("something else", 14, &other);
        assert_int_equal(ron_cas_open(s, &other, &obj, NULL), RON_NOTFOUND);
        assert_int_equal(ron_cas_open(s, &promised, &obj, NULL), RON_NOTFOUND);
        assert_int_equal(cas_stats(s).bytes, 0);
        assert_int_equal(cas_stats(s).objects, 0);
        assert_int_equal(cas_stats(s).mismatches, 1);
        ron_cas_free(s);
    }
    assert_int_equal(cas_count_files(fixture_path(*state, "tmp")), 0);
    assert_int_equal(cas_count_files(fixture_path(*state, "objects")), 0);
}

static void test_cas__abort__nothing_left(void **state)
{
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        struct ron_cas *s = open_kind(*state, on_disk, (struct ron_cas_opts){0});
        struct ron_cas_writer *w = NULL;

        assert_int_equal(ron_cas_begin(s, NULL, &w, NULL), RON_OK);
        assert_int_equal(ron_cas_append(w, "bytes", 5, NULL), RON_OK);
        assert_int_equal(cas_stats(s).bytes, 5);
        assert_int_equal(cas_stats(s).writers, 1);
        ron_cas_abort(w);
        assert_int_equal(cas_stats(s).bytes, 0);
        assert_int_equal(cas_stats(s).writers, 0);
        ron_cas_free(s);
    }
    assert_int_equal(cas_count_files(fixture_path(*state, "tmp")), 0);
}

static void test_cas__limits__refused_with_their_codes(void **state)
{
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        struct ron_cas *s = open_kind(
            *state, on_disk,
            (struct ron_cas_opts){.object_bytes_max = 100, .writers_max = 1, .bytes_max = 1000});
        struct ron_cas_writer *w = NULL;
        struct ron_cas_writer *second = NULL;
        uint8_t bytes[101] = {0};
        struct ron_b3 id;

        assert_int_equal(ron_cas_begin(s, &(struct ron_cas_write_opts){.size_hint = 101}, &w, NULL),
                         RON_LIMIT);
        assert_int_equal(ron_cas_begin(s, NULL, &w, NULL), RON_OK);
        assert_int_equal(ron_cas_begin(s, NULL, &second, NULL), RON_FULL);
        assert_int_equal(ron_cas_append(w, bytes, 60, NULL), RON_OK);
        assert_int_equal(ron_cas_append(w, bytes, 41, NULL), RON_LIMIT);
        assert_int_equal(ron_cas_append(w, bytes, 1, NULL), RON_LIMIT); /* it sticks */
        assert_int_equal(ron_cas_commit(w, &id, NULL), RON_LIMIT);
        assert_int_equal(cas_stats(s).bytes, 0);
        assert_int_equal(ron_cas_begin(s, NULL, &w, NULL), RON_OK);
        ron_cas_abort(w);
        ron_cas_free(s);
    }
}

static void test_cas__little_free_space__refused_before_the_disk_is_full(void **state)
{
    struct ron_cas *s =
        open_kind(*state, true, (struct ron_cas_opts){.free_floor_bytes = UINT64_MAX / 2});
    struct ron_cas_writer *w = NULL;

    assert_int_equal(ron_cas_begin(s, NULL, &w, NULL), RON_LIMIT);
    assert_int_equal(cas_stats(s).write_failures, 1);
    ron_cas_free(s);
}

/* A worker may look up, lend and release, and must not be made to wait for the disk. */
struct worker {
    struct ron_cas *s;
    struct ron_b3 open_id;
    struct ron_b3 closed_id;
    struct ron_b3 absent_id;
};

static void worker_body(void *arg)
{
    struct worker *w = arg;
    struct ron_cas_obj *obj = NULL;

    RON_ASSERT(ron_cas_get(w->s, &w->open_id, &obj) == RON_OK);
    RON_ASSERT(ron_cas_slice(obj, 0, 100).len == 100);
    ron_cas_release(obj);
    RON_ASSERT(ron_cas_get(w->s, &w->closed_id, &obj) == RON_AGAIN);
    RON_ASSERT(ron_cas_get(w->s, &w->absent_id, &obj) == RON_NOTFOUND);
}

static void test_cas__worker_thread__hits_without_blocking(void **state)
{
    struct ron_cas *s = open_kind(*state, true, (struct ron_cas_opts){0});
    struct worker w = {.s = s, .absent_id = cas_id_of(100, 3)};
    struct ron_thread_opts opts = {.name = "w", .may_block = false, .main = worker_body, .arg = &w};
    struct ron_thread *t = NULL;

    w.open_id = cas_put_numbered(s, 100, 1);
    w.closed_id = cas_put_numbered(s, 100, 2);
    cas_expect_numbered(s, 100, 1); /* opens it */
    assert_int_equal(ron_thread_start(&opts, &t, NULL), RON_OK);
    ron_thread_join(t);
    assert_int_equal(cas_stats(s).hits, 1);
    assert_int_equal(cas_stats(s).misses, 1);
    ron_cas_free(s);
}

static void test_cas__open_objects__bounded(void **state)
{
    enum { COUNT = 40, LARGE = RON_CAS_SMALL_MAX + 1 };
    struct ron_cas *s = open_kind(
        *state, true,
        (struct ron_cas_opts){.open_max = 4, .cache_bytes_max = 5000, .objects_max = 100});
    struct ron_cas_obj *held[COUNT];
    size_t fds = fixture_open_fds();

    for (uint64_t i = 0; i < COUNT; i++) {
        (void)cas_put_numbered(s, LARGE, i);
        (void)cas_put_numbered(s, 1000, 1000 + i);
        cas_expect_numbered(s, LARGE, i);
        cas_expect_numbered(s, 1000, 1000 + i);
        assert_true(cas_stats(s).open_files <= 4);
        assert_true(cas_stats(s).cache_bytes <= 5000);
    }
    assert_int_equal(fixture_open_fds(), fds + 4);
    /* Handles in use may exceed the bound; their release restores it. */
    for (uint64_t i = 0; i < COUNT; i++) {
        struct ron_b3 id = cas_id_of(LARGE, i);

        assert_int_equal(ron_cas_open(s, &id, &held[i], NULL), RON_OK);
    }
    assert_int_equal(cas_stats(s).open_files, COUNT);
    assert_int_equal(cas_stats(s).held, COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        ron_cas_release(held[i]);
    }
    assert_int_equal(cas_stats(s).open_files, 4);
    ron_cas_free(s);
    assert_int_equal(fixture_open_fds(), fds - 1); /* without the lock */
}

static void test_cas__removed_while_held__handle_keeps_its_bytes(void **state)
{
    static const size_t lens[] = {1000, 200000};

    for (int i = 0; i < 4; i++) {
        size_t len = lens[i / 2];
        struct ron_cas *s = open_kind(*state, i % 2, (struct ron_cas_opts){0});
        struct ron_b3 id = cas_put_numbered(s, len, 3);
        uint8_t *want = cas_bytes(len, 3);
        uint8_t *got = malloc(len);
        struct ron_cas_obj *obj = NULL;
        size_t n = 0;

        assert_int_equal(ron_cas_open(s, &id, &obj, NULL), RON_OK);
        assert_int_equal(ron_cas_remove(s, &id, NULL), RON_OK);
        assert_int_equal(ron_cas_remove(s, &id, NULL), RON_NOTFOUND);
        assert_int_equal(cas_stats(s).objects, i == 3); /* the one of the second round */
        assert_int_equal(ron_cas_read(obj, 0, got, len, &n), RON_OK);
        assert_memory_equal(got, want, len);
        (void)cas_put_numbered(s, len, 3); /* comes back beside the held one */
        cas_expect_numbered(s, len, 3);
        ron_cas_release(obj);
        ron_cas_tend(s);
        ron_cas_free(s);
        free(want);
        free(got);
    }
}

static void forget_handle(void *arg)
{
    struct ron_cas *s = arg;
    struct ron_b3 id = cas_id_of(10, 1);
    struct ron_cas_obj *obj = NULL;

    RON_IGNORE(ron_cas_get(s, &id, &obj)); /* and forgotten */
    ron_cas_free(s);
}

static void test_cas__freed_with_a_handle_out__assertion(void **state)
{
    struct ron_cas *s = open_kind(*state, false, (struct ron_cas_opts){0});

    (void)cas_put_numbered(s, 10, 1);
    support_death(forget_handle, s, "a handle was not released");
    ron_cas_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        CASE(test_cas__any_size__comes_back),
        CASE(test_cas__pieces_of_any_size__same_object),
        CASE(test_cas__ranges__are_parts_of_the_whole),
        CASE(test_cas__same_bytes_again__one_object),
        CASE(test_cas__not_the_promised_bytes__conflict_and_nothing_left),
        CASE(test_cas__abort__nothing_left),
        CASE(test_cas__limits__refused_with_their_codes),
        CASE(test_cas__little_free_space__refused_before_the_disk_is_full),
        CASE(test_cas__worker_thread__hits_without_blocking),
        CASE(test_cas__open_objects__bounded),
        CASE(test_cas__removed_while_held__handle_keeps_its_bytes),
        CASE(test_cas__freed_with_a_handle_out__assertion),
#undef CASE
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
