/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the index keeps its contract (X1 to X3) in memory and on disk.
 * Method: each case of the first list runs on both stores. Keys follow from their number, so a
 * plain count is the model. A crash is a close without commit; a kill is test_index_kill.c. */
#include "unit/ledger/index_fixture.h"

#include <fcntl.h>

#include "ron/io/memdisk.h"
#include "ron/sync/sync.h"

/* Sanitizers make it ten times slower, and the levels are all there with a tenth of the keys. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

enum { SMALL_RUN = 64, MANY_KEYS = SANITIZED ? 100000 : 1000000 };

static bool on_disk;
static struct fixture *fix;

static struct led_index_opts opts_of(uint32_t run_entries)
{
    static char path[FIXTURE_PATH_SIZE];

    (void)snprintf(path, sizeof path, "%s", fixture_path(fix, "index"));
    return (struct led_index_opts){.env = index_env(),
                                   .path = on_disk ? path : NULL,
                                   .run_entries = run_entries,
                                   .uuid = "sixteen bytes .."};
}

static struct led_index *open_with(const struct led_index_opts *opts,
                                   struct led_index_state *ret_state)
{
    struct led_index *ix = NULL;
    struct ron_err err = {0};

    if (led_index_open(opts, &ix, ret_state, &err) != RON_OK) {
        fail_msg("open: %s", err.msg);
    }
    return ix;
}

static struct led_index *open_small(struct led_index_state *ret_state)
{
    struct led_index_opts opts = opts_of(SMALL_RUN);

    return open_with(&opts, ret_state);
}

static void add(struct led_index *ix, uint64_t from, uint64_t to)
{
    struct ron_err err = {0};

    for (uint64_t n = from; n < to; n++) {
        assert_int_equal(index_add(ix, n, true, n, &err), RON_OK);
    }
}

static void commit(struct led_index *ix, uint64_t seq)
{
    struct ron_err err = {0};

    if (index_commit(ix, seq, &err) != RON_OK) {
        fail_msg("commit: %s", err.msg);
    }
    assert_int_equal(led_index_applied(ix), seq);
}

static void expect_keys(struct led_index *ix, uint64_t from, uint64_t to)
{
    for (uint64_t n = from; n < to; n++) {
        assert_true(index_maybe(ix, n, true));
        assert_true(index_has(ix, n, n));
    }
}

/* ---- both stores ----------------------------------------------------------------------------- */

static void test_led_index__fresh__is_empty_and_says_so(void **state)
{
    struct led_index_state st;
    struct led_index *ix = open_small(&st);
    uint64_t seq;
    struct ron_err err = {0};
    struct ron_tree_hash empty;

    (void)state;
    ron_tree_hash_empty(&empty);
    assert_true(st.fresh);
    assert_int_equal(st.applied_seq, 0);
    assert_true(ron_tree_hash_equal(&st.applied_root, &empty));
    assert_int_equal(st.image_seq, 0);
    assert_int_equal(led_index_applied(ix), 0);
    assert_false(index_maybe(ix, 1, true));
    assert_int_equal(index_count(ix, LED_INDEX_ID, 1), 0);
    assert_int_equal(led_index_skip(ix, (struct led_key){1, 2}, 0, &seq, &err), RON_NOTFOUND);
    led_index_close(ix);
}

static void test_led_index__before_commit__nothing_is_seen(void **state)
{
    struct led_index_state st;
    struct led_index *ix = open_small(&st);

    (void)state;
    /* More than a run: some of it is flushed before the commit. */
    add(ix, 1, 1000);
    for (uint64_t n = 1; n < 1000; n++) {
        assert_false(index_maybe(ix, n, true));
        assert_int_equal(index_count(ix, LED_INDEX_ID, n), 0);
    }
    commit(ix, 999);
    expect_keys(ix, 1, 1000);
    led_index_close(ix);
}

static void test_led_index__kinds__do_not_meet(void **state)
{
    struct led_index_state st;
    struct led_index *ix = open_small(&st);
    struct ron_err err = {0};
    struct index_key k;

    (void)state;
    for (uint64_t n = 1; n < 500; n++) {
        index_key_of(n, true, &k);
        assert_int_equal(
            led_index_add(ix, n % 2 == 0 ? LED_INDEX_ID : LED_INDEX_IDEM, k.key, k.str, n, &err),
            RON_OK);
    }
    commit(ix, 499);
    for (uint64_t n = 1; n < 500; n++) {
        index_key_of(n, true, &k);
        assert_int_equal(index_count(ix, LED_INDEX_ID, n), n % 2 == 0);
        assert_int_equal(index_count(ix, LED_INDEX_IDEM, n), n % 2);
        assert_true(led_index_maybe(ix, n % 2 == 0 ? LED_INDEX_ID : LED_INDEX_IDEM, k.key, k.str));
    }
    led_index_close(ix);
}

/* Longer than what is asked for ahead, and one known id at each place. */
static void test_led_index__ids_of_a_batch__one_that_is_known_is_seen(void **state)
{
    enum { COUNT = 40, KNOWN = 100 };
    struct led_index_state st;
    struct led_index *ix = open_small(&st);
    struct index_key keys[COUNT];
    struct led_entry entries[COUNT] = {0};
    struct led_prep preps[COUNT] = {0};

    (void)state;
    add(ix, 1, KNOWN); /* a run and the tail */
    commit(ix, KNOWN - 1);
    for (uint64_t known = 1; known < KNOWN; known++) {
        for (size_t i = 0; i <= COUNT; i++) {
            for (size_t k = 0; k < COUNT; k++) {
                index_key_of(k == i ? known : KNOWN + k, true, &keys[k]);
                entries[k].id = keys[k].str;
                preps[k].id = keys[k].key;
            }
            assert_int_equal(led_index_maybe_ids(ix, entries, preps, COUNT), i < COUNT);
        }
    }
    assert_false(led_index_maybe_ids(ix, entries, preps, 0));
    led_index_close(ix);
}

/* Many at once, through the ends of several tails. */
static void test_led_index__added_together__found_as_if_one_by_one(void **state)
{
    enum { COUNT = 5000, ODD = 7 };
    static struct led_index_key keys[COUNT];
    struct led_index_state st;
    struct led_index *ix = open_small(&st);
    struct ron_err err = {0};
    struct index_key k;

    (void)state;
    for (uint64_t n = 1; n <= COUNT;) {
        struct led_edges edges = {0};
        size_t here = 0;

        for (; here < 1 + n % ODD * 100 && n <= COUNT; here++, n++) {
            index_key_of(n, true, &k);
            keys[here] = (struct led_index_key){k.key.a, n};
            led_edges_add_text(&edges, k.str);
        }
        assert_int_equal(led_index_add_many(ix, LED_INDEX_ID, keys, here, &edges, &err), RON_OK);
    }
    assert_int_equal(led_index_add_many(ix, LED_INDEX_IDEM, keys, 0, &(struct led_edges){0}, &err),
                     RON_OK);
    commit(ix, COUNT);
    for (uint64_t n = 1; n <= COUNT; n++) {
        index_key_of(n, true, &k);
        assert_true(led_index_maybe(ix, LED_INDEX_ID, k.key, k.str));
        assert_int_equal(index_count(ix, LED_INDEX_ID, n), 1);
        assert_int_equal(index_count(ix, LED_INDEX_IDEM, n), 0);
    }
    index_key_of(COUNT + 1, true, &k);
    assert_false(led_index_maybe(ix, LED_INDEX_ID, k.key, k.str));
    led_index_close(ix);
}

static void test_led_index__one_hash_many_seqs__gives_the_smallest_once(void **state)
{
    struct led_index_state st;
    struct led_index *ix = open_small(&st);
    struct ron_err err = {0};
    uint64_t seqs[LED_INDEX_FOUND_MAX];
    struct index_key k;
    size_t count = 0;

    (void)state;
    index_key_of(7, true, &k);
    for (uint64_t seq = 900; seq >= 1; seq--) {
        assert_int_equal(index_add(ix, 7, true, seq, &err), RON_OK);
        assert_int_equal(index_add(ix, 7, true, seq, &err), RON_OK);
        if (seq % 100 == 0) {
            commit(ix, 1000 - seq);
        }
    }
    commit(ix, 1000);
    assert_int_equal(led_index_find(ix, LED_INDEX_ID, k.key, seqs, &count, &err), RON_OK);
    assert_int_equal(count, LED_INDEX_FOUND_MAX);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(seqs[i], i + 1);
    }
    led_index_close(ix);
}

static void test_led_index__edge_hashes__are_found(void **state)
{
    static const uint64_t hashes[] = {0, 1, 2, UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 63};
    struct led_index_state st;
    struct led_index *ix = open_small(&st);
    struct ron_err err = {0};
    struct ron_str text = {"x", 1};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(hashes); i++) {
        assert_int_equal(
            led_index_add(ix, LED_INDEX_ID, (struct led_key){hashes[i], 0}, text, i + 1, &err),
            RON_OK);
    }
    for (uint64_t round = 0; round < 20; round++) {
        add(ix, 100 + round * 100, 200 + round * 100);
        commit(ix, 100 + round);
        for (size_t i = 0; i < RON_ARRAY_LEN(hashes); i++) {
            uint64_t seqs[LED_INDEX_FOUND_MAX];
            struct led_key key = {hashes[i], 0};
            size_t count = 0;

            assert_true(led_index_maybe(ix, LED_INDEX_ID, key, text));
            assert_int_equal(led_index_find(ix, LED_INDEX_ID, key, seqs, &count, &err), RON_OK);
            assert_true(count >= 1 && seqs[0] <= i + 1);
        }
    }
    led_index_close(ix);
}

/* Against a count, with levels of every state: fresh, merging, merged. */
static void random_rounds(uint64_t keys, uint32_t run, bool ordered, uint64_t reopen_every)
{
    struct ron_rand rand = support_rand();
    struct led_index_opts opts = opts_of(run);
    struct led_index_state st;
    struct led_index *ix = open_with(&opts, &st);
    struct led_index_stats stats;
    struct ron_err err = {0};
    uint64_t n = 1;
    uint64_t alarms = 0;

    for (uint64_t round = 1; n < keys; round++) {
        uint64_t to = n + ron_rand_range(&rand, 1, keys / 50);

        for (; n < to; n++) {
            assert_int_equal(index_add(ix, n, ordered, n, &err), RON_OK);
        }
        commit(ix, n - 1);
        for (int i = 0; i < 200; i++) {
            uint64_t old = ron_rand_range(&rand, 1, n - 1);

            assert_true(index_maybe(ix, old, ordered));
            assert_true(index_has(ix, old, old));
            assert_int_equal(index_count(ix, LED_INDEX_ID, n + (uint64_t)i), 0);
        }
        if (on_disk && round % reopen_every == 0) {
            led_index_close(ix);
            ix = open_with(&opts, &st);
            assert_false(st.fresh);
            assert_int_equal(st.applied_seq, n - 1);
        }
    }
    for (uint64_t i = 1; i < n; i++) {
        assert_true(index_maybe(ix, i, ordered));
        alarms += index_maybe(ix, n + i, ordered);
        if (i % 16 == 0) {
            assert_true(index_has(ix, i, i));
        }
    }
    led_index_stats(ix, &stats);
    assert_int_equal(stats.keys, n - 1);
    print_message(
        "%llu keys, %llu runs, %llu wrong alarms, %.1f filter and %.1f stored bytes/key\n",
        (unsigned long long)stats.keys, (unsigned long long)stats.runs, (unsigned long long)alarms,
        (double)stats.filter_bytes / (double)n, (double)stats.file_bytes / (double)n);
    /* A run is wrong once in 28,000; ordered texts that are new are outside of all runs. */
    assert_true(alarms <= (ordered ? 0 : 10 + stats.runs * n / 20000));
    assert_true(stats.runs < 100);
    led_index_close(ix);
}

static void test_led_index__a_million_keys__agree_with_the_count(void **state)
{
    (void)state;
    random_rounds(MANY_KEYS, MANY_KEYS / 1000, false, 20);
}

static void test_led_index__ordered_keys__never_alarm(void **state)
{
    (void)state;
    random_rounds(100000, SMALL_RUN, true, 7);
}

static void test_led_index__skip_points__give_the_next_at_or_above(void **state)
{
    struct led_index_state st;
    struct led_index *ix = open_small(&st);
    struct ron_err err = {0};

    (void)state;
    /* Account 0 has every multiple of 3, the others one each: a busy one among many. */
    for (uint64_t seq = 1; seq <= 9000; seq++) {
        uint64_t account = seq % 3 == 0 ? 0 : seq;
        struct index_key k;

        index_key_of(account, true, &k);
        assert_int_equal(led_index_add_skip(ix, k.key, seq, &err), RON_OK);
        if (seq % 250 == 0) {
            commit(ix, seq);
        }
    }
    for (uint64_t seq = 1; seq <= 9000; seq++) {
        struct index_key k;
        uint64_t got = 0;

        index_key_of(0, true, &k);
        assert_int_equal(led_index_skip(ix, k.key, seq, &got, &err), RON_OK);
        assert_int_equal(got, (seq + 2) / 3 * 3);
        index_key_of(seq, true, &k);
        if (seq % 3 != 0) {
            assert_int_equal(led_index_skip(ix, k.key, 0, &got, &err), RON_OK);
            assert_int_equal(got, seq);
            assert_int_equal(led_index_skip(ix, k.key, seq + 1, &got, &err), RON_NOTFOUND);
        }
    }
    led_index_close(ix);
}

/* ---- images ---------------------------------------------------------------------------------- */

struct seen {
    uint64_t seq;
    uint32_t chunks;
    enum ron_rc stop;
};

static size_t chunk_of(uint64_t seq, uint32_t chunk, uint8_t bytes[40000])
{
    size_t len = chunk % 3 == 2 ? 0 : 100 + seq * 37 % 1000 + chunk * 1000 % 30000;

    memset(bytes, (int)(seq + chunk), len);
    return len;
}

static enum ron_rc see_chunk(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    static uint8_t want[40000];
    struct seen *seen = arg;

    (void)err;
    assert_int_equal(len, chunk_of(seen->seq, seen->chunks, want));
    assert_memory_equal(bytes, want, len);
    seen->chunks++;
    return seen->stop;
}

static void put_chunks(struct led_index *ix, uint64_t seq, uint32_t from, uint32_t to, bool last)
{
    static uint8_t bytes[40000];
    struct ron_err err = {0};

    for (uint32_t i = from; i < to; i++) {
        size_t len = chunk_of(seq, i, bytes);

        assert_int_equal(led_index_put_image(ix, seq, i, bytes, len, last && i + 1 == to, &err),
                         RON_OK);
    }
}

static void expect_image(struct led_index *ix, uint64_t seq, uint32_t chunks)
{
    struct seen seen = {.seq = seq};
    struct ron_err err = {0};

    assert_int_equal(led_index_load_image(ix, see_chunk, &seen, &err), RON_OK);
    assert_int_equal(seen.chunks, chunks);
}

static void test_led_index__image__counts_when_its_last_chunk_is_committed(void **state)
{
    struct led_index_state st;
    struct led_index *ix = open_small(&st);
    struct ron_err err = {0};
    struct seen seen = {.seq = 200, .stop = RON_CANCELLED};

    (void)state;
    assert_int_equal(led_index_load_image(ix, see_chunk, &seen, &err), RON_NOTFOUND);
    put_chunks(ix, 100, 0, 5, true);
    assert_int_equal(led_index_load_image(ix, see_chunk, &seen, &err), RON_NOTFOUND);
    commit(ix, 100);
    expect_image(ix, 100, 5);
    assert_int_equal(led_index_put_image(ix, 100, 0, "x", 1, true, &err), RON_EXISTS);
    /* The next one comes over several commits, the old one counts until its end. */
    put_chunks(ix, 150, 0, 4, false);
    commit(ix, 150);
    expect_image(ix, 100, 5);
    assert_int_equal(led_index_put_image(ix, 150, 5, "x", 1, true, &err), RON_INVALID);
    assert_int_equal(led_index_put_image(ix, 151, 4, "x", 1, true, &err), RON_INVALID);
    /* That one is given up; a third takes its place. */
    put_chunks(ix, 200, 0, 3, false);
    commit(ix, 200);
    put_chunks(ix, 200, 3, 7, true);
    expect_image(ix, 100, 5);
    commit(ix, 201);
    expect_image(ix, 200, 7);
    assert_int_equal(led_index_load_image(ix, see_chunk, &seen, &err), RON_CANCELLED);
    assert_int_equal(seen.chunks, 1);
    led_index_close(ix);
}

static void test_led_index__images__leave_no_older_ones_behind(void **state)
{
    static uint8_t bytes[100000];
    struct led_index_state st;
    struct led_index *ix = open_small(&st);
    struct led_index_stats stats;
    struct ron_err err = {0};

    (void)state;
    for (uint64_t seq = 1; seq <= 20; seq++) {
        assert_int_equal(led_index_put_image(ix, seq, 0, bytes, sizeof bytes, true, &err), RON_OK);
        commit(ix, seq);
    }
    led_index_stats(ix, &stats);
    assert_true(stats.file_bytes < 4 * sizeof bytes);
    led_index_close(ix);
}

static void test_led_index__image__wrong_arguments_change_nothing(void **state)
{
    struct led_index_state st;
    struct led_index *ix = open_small(&st);
    struct ron_err err = {0};

    (void)state;
    add(ix, 1, 10);
    assert_int_equal(led_index_put_image(ix, 0, 0, "x", 1, true, &err), RON_INVALID);
    assert_int_equal(led_index_put_image(ix, 5, 1, "x", 1, true, &err), RON_INVALID);
    assert_int_equal(led_index_put_image(ix, 5, 0, "x", LED_INDEX_CHUNK_MAX + 1, true, &err),
                     RON_INVALID);
    commit(ix, 9);
    expect_keys(ix, 1, 10);
    led_index_close(ix);
}

/* ---- readers while the writer works ---------------------------------------------------------- */

struct readers {
    struct led_index *ix;
    struct ron_au64 stop;
    struct ron_au64 bad;
    struct ron_au64 asked;
    bool find;
};

static void read_on(void *arg)
{
    struct readers *r = arg;
    struct ron_rand rand;
    uint64_t asked = 0;

    ron_rand_seed(&rand, (uintptr_t)&rand);
    while (ron_au64_load(&r->stop) == 0 || asked < 100) {
        uint64_t applied = led_index_applied(r->ix);
        uint64_t n;

        if (applied == 0) {
            ron_spin_pause();
            continue;
        }
        n = ron_rand_range(&rand, 1, applied);
        if (!index_maybe(r->ix, n, true) || (r->find && !index_has(r->ix, n, n))) {
            (void)ron_au64_add(&r->bad, 1);
        }
        asked++;
    }
    (void)ron_au64_add(&r->asked, asked);
}

static void readers_and_writer(bool find)
{
    enum { READERS = 3, KEYS = 24000 };
    struct led_index_state st;
    struct led_index *ix = open_small(&st);
    struct readers r = {.ix = ix, .find = find};
    struct ron_thread *threads[READERS];
    struct ron_thread_opts opts = {.name = "reader", .may_block = find, .main = read_on, .arg = &r};
    struct ron_err err = {0};

    for (size_t i = 0; i < READERS; i++) {
        assert_int_equal(ron_thread_start(&opts, &threads[i], &err), RON_OK);
    }
    for (uint64_t n = 1; n < KEYS; n += 200) {
        add(ix, n, n + 200);
        commit(ix, n + 199);
    }
    ron_au64_store(&r.stop, 1);
    for (size_t i = 0; i < READERS; i++) {
        ron_thread_join(threads[i]);
    }
    assert_int_equal(ron_au64_load(&r.bad), 0);
    assert_true(ron_au64_load(&r.asked) >= 300);
    led_index_close(ix);
}

static void test_led_index__maybe_while_writing__misses_nothing(void **state)
{
    (void)state;
    readers_and_writer(false);
}

static void test_led_index__find_while_writing__misses_nothing(void **state)
{
    (void)state;
    readers_and_writer(true);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void test_led_index__reopened__has_the_last_commit_and_no_more(void **state)
{
    struct led_index_state st;
    struct led_index *ix = open_small(&st);
    uint8_t hash_key[16];
    struct ron_tree_hash root = index_root(1500);
    struct stat file;

    (void)state;
    memcpy(hash_key, st.hash_key, sizeof hash_key);
    add(ix, 1, 1001);
    commit(ix, 1000);
    put_chunks(ix, 1200, 0, 4, true);
    add(ix, 1001, 1501);
    commit(ix, 1500);
    add(ix, 1501, 3000); /* lost: flushed, but not committed */
    put_chunks(ix, 2000, 0, 9, true);
    led_index_close(ix);

    assert_int_equal(stat(fixture_path(fix, "index"), &file), 0);
    assert_int_equal(file.st_mode & 07777, 0700);
    assert_int_equal(stat(fixture_path(fix, "index/image-1200"), &file), 0);
    assert_int_equal(file.st_mode & 07777, 0600);
    assert_int_equal(access(fixture_path(fix, "index/image-2000"), F_OK), -1);
    ix = open_small(&st);
    assert_false(st.fresh);
    assert_int_equal(st.applied_seq, 1500);
    assert_true(ron_tree_hash_equal(&st.applied_root, &root));
    assert_memory_equal(st.hash_key, hash_key, sizeof hash_key);
    assert_int_equal(st.image_seq, 1200);
    expect_image(ix, 1200, 4);
    expect_keys(ix, 1, 1501);
    for (uint64_t n = 1501; n < 3000; n++) {
        assert_int_equal(index_count(ix, LED_INDEX_ID, n), 0);
    }
    led_index_close(ix);
}

static void test_led_index__another_uuid__begins_anew(void **state)
{
    struct led_index_opts opts = opts_of(SMALL_RUN);
    struct led_index_state st;
    struct led_index *ix = open_with(&opts, &st);

    (void)state;
    add(ix, 1, 1000);
    commit(ix, 999);
    led_index_close(ix);
    opts.uuid[3] ^= 1;
    ix = open_with(&opts, &st);
    assert_true(st.fresh);
    assert_int_equal(st.applied_seq, 0);
    assert_false(index_maybe(ix, 1, true));
    led_index_close(ix);
    ix = open_with(&opts, &st);
    assert_false(st.fresh);
    led_index_close(ix);
}

static void test_led_index__other_run_length__goes_on(void **state)
{
    static const uint32_t runs[] = {4096, 16, 1000, 0, 100};
    uint64_t n = 1;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(runs); i++) {
        struct led_index_opts opts = opts_of(runs[i]);
        struct led_index_state st;
        struct led_index *ix = open_with(&opts, &st);

        assert_int_equal(st.fresh, i == 0);
        add(ix, n, n + 1900);
        n += 1900;
        commit(ix, n - 1);
        expect_keys(ix, 1, n);
        led_index_close(ix);
    }
}

static void test_led_index__copy__is_an_index(void **state)
{
    struct led_index_opts opts = opts_of(SMALL_RUN);
    struct led_index_state st;
    struct led_index *ix = open_with(&opts, &st);
    struct ron_err err = {0};
    struct stat file;

    (void)state;
    add(ix, 1, 2000);
    commit(ix, 1999);
    add(ix, 2000, 2100);
    assert_int_equal(led_index_copy(ix, fixture_path(fix, "copy"), &err), RON_OK);
    assert_int_equal(stat(fixture_path(fix, "copy"), &file), 0);
    assert_int_equal(file.st_mode & 07777, 0700);
    assert_int_equal(led_index_copy(ix, fixture_path(fix, "copy"), &err), RON_EXISTS);
    led_index_close(ix);
    opts.path = fixture_path(fix, "copy");
    ix = open_with(&opts, &st);
    assert_false(st.fresh);
    assert_int_equal(st.applied_seq, 1999);
    expect_keys(ix, 1, 2000);
    assert_int_equal(index_count(ix, LED_INDEX_ID, 2050), 0);
    led_index_close(ix);
}

static void test_led_index__memory__cannot_be_copied(void **state)
{
    struct led_index_state st;
    struct led_index *ix;
    struct ron_err err = {0};

    (void)state;
    on_disk = false;
    ix = open_small(&st);
    assert_int_equal(led_index_copy(ix, fixture_path(fix, "copy"), &err), RON_INVALID);
    led_index_close(ix);
    on_disk = true;
}

static void expect_full(struct led_index *ix, uint64_t done)
{
    struct led_index_stats stats;

    assert_int_equal(led_index_applied(ix), done);
    expect_keys(ix, 1, done + 1);
    assert_int_equal(index_count(ix, LED_INDEX_ID, done + 1), 0);
    led_index_stats(ix, &stats);
    assert_int_equal(stats.keys, done);
}

static void test_led_index__full_disk__keeps_the_last_commit(void **state)
{
    struct led_index_opts opts = opts_of(1024);
    struct ron_memdisk *disk = NULL;
    struct led_index_state st;
    struct led_index *ix;
    struct ron_err err = {0};
    enum ron_rc rc = RON_OK;
    uint64_t n = 1;
    uint64_t done = 0;
    int fd = -1;

    (void)state;
    assert_int_equal(ron_memdisk_new(index_env(), 4 << 20, &disk, &err), RON_OK);
    opts.env = ron_memdisk_env(disk);
    opts.path = "/index";
    assert_int_equal(
        opts.env->disk->open(opts.env, "/other", RON_OPEN_WRITE | RON_OPEN_CREATE, 0600, &fd, &err),
        RON_OK);
    assert_int_equal(opts.env->disk->truncate(opts.env, fd, 2 << 20, &err), RON_OK);
    ix = open_with(&opts, &st);
    while (rc == RON_OK) {
        for (int i = 0; rc == RON_OK && i < 3000; i++) {
            rc = index_add(ix, n, true, n, &err);
            n++;
        }
        rc = rc == RON_OK ? index_commit(ix, n - 1, &err) : rc;
        done = rc == RON_OK ? n - 1 : done;
    }
    assert_int_equal(rc, RON_LIMIT);
    assert_true(done > 30000);
    expect_full(ix, done);
    /* It stays so for a retry and for a reopening. */
    assert_int_equal(index_add(ix, done + 1, true, done + 1, &err), RON_OK);
    for (int i = 0; i < 3; i++) {
        rc = index_commit(ix, done, &err);
        assert_true(rc == RON_OK || rc == RON_LIMIT);
    }
    led_index_close(ix);
    ix = open_with(&opts, &st);
    assert_false(st.fresh);
    /* With room it goes on. */
    assert_int_equal(opts.env->disk->truncate(opts.env, fd, 0, &err), RON_OK);
    add(ix, done + 1, done + 1000);
    commit(ix, done + 999);
    expect_keys(ix, 1, done + 1000);
    led_index_close(ix);
    ix = open_with(&opts, &st);
    assert_false(st.fresh);
    expect_keys(ix, 1, done + 1000);
    led_index_close(ix);
    opts.env->disk->close(opts.env, fd);
    ron_memdisk_free(disk);
}

static int setup(void **state)
{
    int rc = fixture_setup(state);

    fix = *state;
    return rc;
}

static int setup_memory(void **state)
{
    on_disk = false;
    return setup(state);
}

static int setup_disk(void **state)
{
    on_disk = true;
    return setup(state);
}

#define BOTH(test)                                                                                 \
    {#test " (memory)", test, setup_memory, fixture_teardown, NULL},                               \
    {                                                                                              \
#test " (disk)", test, setup_disk, fixture_teardown, NULL                                  \
    }
#define DISK(test) cmocka_unit_test_setup_teardown(test, setup_disk, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_led_index__fresh__is_empty_and_says_so),
        BOTH(test_led_index__before_commit__nothing_is_seen),
        BOTH(test_led_index__kinds__do_not_meet),
        BOTH(test_led_index__ids_of_a_batch__one_that_is_known_is_seen),
        BOTH(test_led_index__added_together__found_as_if_one_by_one),
        BOTH(test_led_index__one_hash_many_seqs__gives_the_smallest_once),
        BOTH(test_led_index__edge_hashes__are_found),
        BOTH(test_led_index__a_million_keys__agree_with_the_count),
        BOTH(test_led_index__ordered_keys__never_alarm),
        BOTH(test_led_index__skip_points__give_the_next_at_or_above),
        BOTH(test_led_index__image__counts_when_its_last_chunk_is_committed),
        BOTH(test_led_index__images__leave_no_older_ones_behind),
        BOTH(test_led_index__image__wrong_arguments_change_nothing),
        BOTH(test_led_index__maybe_while_writing__misses_nothing),
        BOTH(test_led_index__find_while_writing__misses_nothing),
        DISK(test_led_index__reopened__has_the_last_commit_and_no_more),
        DISK(test_led_index__another_uuid__begins_anew),
        DISK(test_led_index__other_run_length__goes_on),
        DISK(test_led_index__copy__is_an_index),
        DISK(test_led_index__memory__cannot_be_copied),
        DISK(test_led_index__full_disk__keeps_the_last_commit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
