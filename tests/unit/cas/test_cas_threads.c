/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: threads that write, read, remove, evict, scrub and look up the same few objects never see a
 * wrong byte, and the books agree at the end. With the thread sanitizer: no race.
 * Method: a store with room for about half of the objects; four threads may block, two may
 * not; in memory none may.
 * Every byte that is lent is compared. Then the store's task under a supervisor. */
#include "unit/cas/fixture.h"

#include "cas/cas_priv.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"
#include "support/rand.h"
#include "unit/task/fixture.h"

enum { NUMBERS = 12, BLOCKING = 4, WORKERS = 2, LEN_MAX = 150000 };

struct stress {
    struct ron_cas *s;
    bool on_disk;
    uint8_t *bytes[NUMBERS];
    size_t len[NUMBERS];
    struct ron_b3 id[NUMBERS];
    uint64_t rounds;
    struct ron_au32 running; /* blocking threads */
    struct ron_stat served;
};

struct actor {
    struct stress *st;
    struct ron_rand rand;
};

static void check(struct stress *st, unsigned n, struct ron_cas_obj *obj, bool may_block)
{
    uint64_t at = 0;

    RON_ASSERT(ron_cas_obj_size(obj) == st->len[n]);
    while (at < st->len[n]) {
        struct ron_cas_slice slice = ron_cas_slice(obj, at, st->len[n] - at);

        if (slice.bytes != NULL) {
            RON_ASSERT(memcmp(slice.bytes, st->bytes[n] + at, slice.len) == 0);
        } else if (may_block) {
            static _Thread_local uint8_t got[LEN_MAX];
            size_t len = 0;

            RON_ASSERT(ron_cas_read(obj, at, got, (size_t)slice.len, &len) == RON_OK);
            RON_ASSERT(memcmp(got, st->bytes[n] + at, len) == 0);
        }
        at += slice.len;
    }
    ron_stat_add(&st->served, 1);
    ron_cas_release(obj);
}

static void write_one(struct stress *st, unsigned n, struct ron_rand *rand)
{
    struct ron_cas_write_opts opts = {.expected = &st->id[n]};
    struct ron_cas_writer *w = NULL;
    struct ron_b3 id;
    enum ron_rc rc = ron_cas_begin(st->s, &opts, &w, NULL);

    for (size_t at = 0; rc == RON_OK && at < st->len[n];) {
        size_t piece = RON_MIN((size_t)ron_rand_range(rand, 1, 65536), st->len[n] - at);

        rc = ron_cas_append(w, st->bytes[n] + at, piece, NULL);
        at += piece;
    }
    if (rc != RON_OK || ron_rand_chance(rand, 1, 10)) {
        ron_cas_abort(w);
    } else {
        rc = ron_cas_commit(w, &id, NULL);
    }
    /* All that could go may be in use at this moment. */
    RON_ASSERT(rc == RON_OK || rc == RON_LIMIT);
}

static void act(struct stress *st, struct ron_rand *rand)
{
    unsigned n = (unsigned)ron_rand_below(rand, NUMBERS);
    struct ron_cas_obj *obj = NULL;
    enum ron_rc rc;

    switch (ron_rand_below(rand, 10)) {
    case 0:
        rc = ron_cas_remove(st->s, &st->id[n], NULL);
        RON_ASSERT(rc == RON_OK || rc == RON_NOTFOUND);
        break;
    case 1:
        (void)ron_cas_scrub(st->s, 1);
        ron_cas_tend(st->s);
        break;
    case 2:
        if (ron_cas_pin(st->s, &st->id[n]) == RON_OK) {
            rc = ron_cas_open(st->s, &st->id[n], &obj, NULL);
            RON_ASSERT(rc == RON_OK || rc == RON_NOTFOUND); /* removed by another */
            if (rc == RON_OK) {
                check(st, n, obj, true);
            }
            (void)ron_cas_unpin(st->s, &st->id[n]);
        }
        break;
    case 3:
    case 4:
    case 5:
        rc = ron_cas_open(st->s, &st->id[n], &obj, NULL);
        RON_ASSERT(rc == RON_OK || rc == RON_NOTFOUND);
        if (rc == RON_OK) {
            check(st, n, obj, true);
        }
        break;
    default:
        write_one(st, n, rand);
        break;
    }
}

static void blocking_main(void *arg)
{
    struct actor *a = arg;

    for (uint64_t i = 0; i < a->st->rounds; i++) {
        act(a->st, &a->rand);
    }
    (void)ron_au32_add(&a->st->running, UINT32_MAX);
}

static void worker_main(void *arg)
{
    struct actor *a = arg;

    while (ron_au32_load(&a->st->running) > 0) {
        unsigned n = (unsigned)ron_rand_below(&a->rand, NUMBERS);
        struct ron_cas_obj *obj = NULL;

        if (ron_cas_get(a->st->s, &a->st->id[n], &obj) == RON_OK) {
            check(a->st, n, obj, false);
        } else {
            (void)sched_yield();
        }
    }
}

static void run_stress(struct fixture *f, bool on_disk, uint64_t rounds)
{
    struct ron_cas_opts opts = {.env = cas_env(),
                                .dir = on_disk ? f->dir : NULL,
                                .bytes_max = 900000,
                                .open_max = 2,
                                .cache_bytes_max = 20000,
                                .objects_max = 64};
    struct stress st = {.on_disk = on_disk, .rounds = rounds};
    struct ron_rand rand = support_rand();
    struct actor actor[BLOCKING + WORKERS];
    struct ron_thread *thread[BLOCKING + WORKERS];
    uint64_t total = 0;

    st.s = cas_open_with(&opts, true);
    ron_au32_store(&st.running, BLOCKING);
    for (unsigned n = 0; n < NUMBERS; n++) {
        st.len[n] = n % 3 == 0 ? (size_t)ron_rand_range(&rand, 70000, LEN_MAX)
                               : (size_t)ron_rand_range(&rand, 0, 9000);
        st.bytes[n] = cas_bytes(st.len[n], n);
        st.id[n] = cas_id_of(st.len[n], n);
    }
    for (unsigned i = 0; i < BLOCKING + WORKERS; i++) {
        struct ron_thread_opts topts = {.name = "actor",
                                        .may_block = on_disk && i < BLOCKING,
                                        .main = i < BLOCKING ? blocking_main : worker_main,
                                        .arg = &actor[i]};

        actor[i] = (struct actor){.st = &st, .rand = ron_rand_fork(&rand)};
        assert_int_equal(ron_thread_start(&topts, &thread[i], NULL), RON_OK);
    }
    for (unsigned i = 0; i < BLOCKING + WORKERS; i++) {
        ron_thread_join(thread[i]);
    }
    for (unsigned n = 0; n < NUMBERS; n++) {
        struct ron_cas_obj *obj = NULL;

        if (ron_cas_open(st.s, &st.id[n], &obj, NULL) == RON_OK) {
            check(&st, n, obj, true);
            total += st.len[n];
        }
        free(st.bytes[n]);
    }
    assert_int_equal(cas_stats(st.s).bytes, total);
    assert_int_equal(cas_stats(st.s).quarantined, 0);
    assert_int_equal(cas_stats(st.s).held, 0);
    assert_true(cas_stats(st.s).duplicates > 0);
    assert_true(ron_stat_get(&st.served) > rounds);
    ron_cas_free(st.s);
}

static void test_cas__threads_on_disk__right_bytes_and_right_books(void **state)
{
    run_stress(*state, true, 400);
    assert_int_equal(cas_count_files(fixture_path(*state, "tmp")), 0);
}

static void test_cas__threads_in_memory__right_bytes_and_right_books(void **state)
{
    run_stress(*state, false, 4000);
}

static void test_cas__its_task__loads_scrubs_and_stops(void **state)
{
    struct fixture *f = *state;
    struct ron_cas_opts opts = {
        .env = ron_env_linux(), .dir = f->dir, .objects_max = 100, .scrub_bytes_per_s = 1 << 20};
    struct ron_cas *s = cas_open_with(&opts, true);
    struct ron_b3 id = cas_put_numbered(s, 5000, 1);
    struct ron_task_def def;
    struct fx *fx;

    (void)cas_put_numbered(s, 5000, 2);
    ron_cas_free(s);
    cas_damage(cas_file(f, &id, true), 99);
    s = cas_open_with(&opts, false);
    def = ron_cas_task(s);
    fx = fx_open(1);
    (void)fx_add(fx, &def);
    fx_start(fx);
    fx_until(ron_cas_loaded(s));
    fx_until(cas_stats(s).quarantined == 1);
    assert_int_equal(fx_stop(fx), 0);
    assert_true(fx_close(fx));
    assert_int_equal(cas_stats(s).objects, 1);
    cas_expect_numbered(s, 5000, 2);
    ron_cas_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        CASE(test_cas__threads_on_disk__right_bytes_and_right_books),
        CASE(test_cas__threads_in_memory__right_bytes_and_right_books),
        CASE(test_cas__its_task__loads_scrubs_and_stops),
#undef CASE
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
