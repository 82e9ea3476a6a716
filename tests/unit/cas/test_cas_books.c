/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: after any sequence of operations the store's figures are those of its folder.
 * Method: random sequences of writes, reads, pins, removals, damage, restarts and failures of the
 * disk; after every step (and with all handles back) the folder is walked and compared. */
#include "cas/cas_priv.h"
#include "support/rand.h"
#include "unit/cas/fixture.h"

enum { NUMBERS = 24, STEPS = 400, HELD_MAX = 4, CAP = 300000 };

struct world {
    struct fixture *f;
    struct ron_rand rand;
    struct ron_cas *s;
    struct ron_cas_obj *held[HELD_MAX];
    size_t len[NUMBERS];
    struct ron_b3 id[NUMBERS];
};

/* ---- a disk that fails by chance ------------------------------------------------------------- */

static struct ron_disk_ops flaky_disk;
static struct ron_env flaky_env;
static struct ron_rand flaky_rand;
static uint32_t fail_of_1000; /* calls of the ports below */

static bool fails(void)
{
    return fail_of_1000 > 0 && ron_rand_chance(&flaky_rand, fail_of_1000, 1000);
}

static enum ron_rc flaky_remove(const struct ron_env *env, const char *path, struct ron_err *err)
{
    return fails() ? ron_err_set(err, RON_IO, "no") : ron_env_linux()->disk->remove(env, path, err);
}

static enum ron_rc flaky_rename(const struct ron_env *env, const char *from, const char *to,
                                struct ron_err *err)
{
    return fails() ? ron_err_set(err, RON_IO, "no")
                   : ron_env_linux()->disk->rename(env, from, to, err);
}

static enum ron_rc flaky_sync_dir(const struct ron_env *env, const char *path, struct ron_err *err)
{
    return fails() ? ron_err_set(err, RON_IO, "no")
                   : ron_env_linux()->disk->sync_dir(env, path, err);
}

static enum ron_rc flaky_pread(const struct ron_env *env, int fd, void *buf, size_t len,
                               uint64_t off, size_t *ret_len)
{
    return fails() ? RON_IO : ron_env_linux()->disk->pread(env, fd, buf, len, off, ret_len);
}

static const struct ron_env *flaky(void)
{
    flaky_disk = *ron_env_linux()->disk;
    flaky_disk.remove = flaky_remove;
    flaky_disk.rename = flaky_rename;
    flaky_disk.sync_dir = flaky_sync_dir;
    flaky_disk.pread = flaky_pread;
    flaky_env = *cas_env();
    flaky_env.disk = &flaky_disk;
    return &flaky_env;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void start(struct world *w)
{
    struct ron_cas_opts opts = {.env = flaky(),
                                .dir = w->f->dir,
                                .bytes_max = CAP,
                                .objects_max = 16,
                                .open_max = 2,
                                .cache_bytes_max = 4000};
    uint32_t saved = fail_of_1000;

    fail_of_1000 = 0; /* a start that fails has no figures */
    w->s = cas_open_with(&opts, ron_rand_chance(&w->rand, 1, 2));
    fail_of_1000 = saved;
}

static void release_all(struct world *w)
{
    for (size_t i = 0; i < HELD_MAX; i++) {
        ron_cas_release(w->held[i]);
        w->held[i] = NULL;
    }
}

static void write_one(struct world *w, unsigned n)
{
    struct ron_cas_write_opts opts = {.pin = ron_rand_chance(&w->rand, 1, 20)};
    struct ron_cas_writer *writer = NULL;
    uint8_t *bytes = cas_bytes(w->len[n], n);
    struct ron_b3 id;

    if (ron_cas_begin(w->s, &opts, &writer, NULL) == RON_OK) {
        if (ron_cas_append(writer, bytes, w->len[n], NULL) == RON_OK &&
            !ron_rand_chance(&w->rand, 1, 8)) {
            RON_IGNORE(ron_cas_commit(writer, &id, NULL)); /* the folder tells */
        } else {
            ron_cas_abort(writer);
        }
    }
    free(bytes);
}

static void damage(const struct world *w, unsigned n)
{
    const char *path = cas_file(w->f, &w->id[n], true);

    if (w->len[n] > 0 && access(path, F_OK) == 0) {
        cas_damage(path, 0);
    }
}

static void open_one(struct world *w, unsigned n)
{
    size_t at = (size_t)ron_rand_below(&w->rand, HELD_MAX);
    char room[100];
    size_t len = 0;

    ron_cas_release(w->held[at]);
    w->held[at] = NULL;
    if (ron_cas_open(w->s, &w->id[n], &w->held[at], NULL) == RON_OK) {
        RON_IGNORE(ron_cas_read(w->held[at], ron_rand_below(&w->rand, w->len[n] + 1), room,
                                sizeof room, &len)); /* may fail: then the store distrusts it */
    }
}

static void step(struct world *w)
{
    unsigned n = (unsigned)ron_rand_below(&w->rand, NUMBERS);

    switch (ron_rand_below(&w->rand, 16)) {
    case 0:
        RON_IGNORE(ron_cas_remove(w->s, &w->id[n], NULL));
        break;
    case 1:
        damage(w, n);
        break;
    case 2:
        (void)ron_cas_scrub(w->s, 1);
        break;
    case 3:
        RON_IGNORE(ron_cas_pin(w->s, &w->id[n]));
        break;
    case 4:
    case 5:
        (void)ron_cas_unpin(w->s, &w->id[n]);
        break;
    case 6:
        ron_cas_tend(w->s);
        break;
    case 7:
        if (ron_rand_chance(&w->rand, 1, 4)) {
            release_all(w);
            ron_cas_free(w->s);
            start(w);
        }
        break;
    case 8:
        RON_IGNORE(ron_cas_load(w->s, NULL, NULL, NULL));
        break;
    case 9:
    case 10:
    case 11:
        open_one(w, n);
        break;
    default:
        write_one(w, n);
        break;
    }
}

/* ---- books ----------------------------------------------------------------------------------- */

static uint64_t files_found;
static uint64_t bytes_found;

static int count_file(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)path;
    (void)where;
    if (kind == FTW_F) {
        files_found++;
        bytes_found += (uint64_t)st->st_size;
    }
    return 0;
}

static void compare(struct world *w)
{
    struct ron_cas_stats stats = cas_stats(w->s);

    files_found = 0;
    bytes_found = 0;
    assert_int_equal(nftw(fixture_path(w->f, "objects"), count_file, 8, FTW_PHYS), 0);
    assert_int_equal(stats.writers, 0);
    if (stats.loaded) {
        assert_int_equal(stats.objects, files_found);
        assert_int_equal(stats.bytes, bytes_found);
    } else {
        assert_true(stats.objects <= files_found);
        assert_true(stats.bytes <= bytes_found);
    }
}

static void run(void **state, uint32_t fail_rate)
{
    struct world w = {.f = *state, .rand = support_rand()};

    fail_of_1000 = fail_rate;
    flaky_rand = ron_rand_fork(&w.rand);
    for (unsigned n = 0; n < NUMBERS; n++) {
        w.len[n] = n % 4 == 0 ? (size_t)ron_rand_range(&w.rand, 65537, 90000)
                              : (size_t)ron_rand_below(&w.rand, 3000);
        w.id[n] = cas_id_of(w.len[n], n);
    }
    start(&w);
    for (unsigned i = 0; i < STEPS; i++) {
        step(&w);
        compare(&w);
    }
    release_all(&w);
    assert_int_equal(cas_stats(w.s).held, 0);
    fail_of_1000 = 0;
    assert_int_equal(ron_cas_load(w.s, NULL, NULL, NULL), RON_OK);
    compare(&w);
    ron_cas_free(w.s);
    assert_true(files_found <= 16);
}

static void test_cas__any_sequence__figures_are_those_of_the_folder(void **state)
{
    run(state, 0);
}

static void test_cas__any_sequence_on_a_failing_disk__figures_are_those_of_the_folder(void **state)
{
    run(state, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        CASE(test_cas__any_sequence__figures_are_those_of_the_folder),
        CASE(test_cas__any_sequence_on_a_failing_disk__figures_are_those_of_the_folder),
#undef CASE
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
