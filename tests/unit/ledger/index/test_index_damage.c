/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a damaged file of the index never ends the process and never hides a key: it is the index
 * it was, or a fresh one (X3). A process killed at any moment loses no committed key (X1).
 * Method: a file with runs, merges, skip points and an image is changed, bit by bit, half of the
 * time in the pages that belong to LMDB, and opened. Where it still opens, every key must be there,
 * and it must go on. For the kills a child commits and reports each commit through a pipe;
 * one moment that a kill seldom meets is made by hand. */
#include "unit/ledger/index_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

enum { KEYS = 12000, PAGE = 4096, FILE_MAX = 4 << 20, TRIALS = 200 };

static struct fixture *fix;
static uint8_t whole[FILE_MAX];
static uint8_t changed[FILE_MAX];
static size_t whole_len;

static struct led_index_opts opts_of(void)
{
    static char path[FIXTURE_PATH_SIZE];

    (void)snprintf(path, sizeof path, "%s", fixture_path(fix, "index.mdb"));
    return (struct led_index_opts){.env = index_env(),
                                   .path = path,
                                   .map_bytes = UINT64_C(1) << 26,
                                   .run_entries = 256,
                                   .uuid = "sixteen bytes .."};
}

static struct led_index *open_with(uint32_t run_entries, struct led_index_state *ret_state)
{
    struct led_index_opts opts = opts_of();
    struct led_index *ix = NULL;
    struct ron_err err = {0};

    opts.run_entries = run_entries;
    if (led_index_open(&opts, &ix, ret_state, &err) != RON_OK) {
        fail_msg("open: %s", err.msg);
    }
    return ix;
}

static struct led_index *open_index(struct led_index_state *ret_state)
{
    return open_with(opts_of().run_entries, ret_state);
}

static void write_file(const uint8_t *bytes, size_t len)
{
    int fd = open(opts_of().path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    assert_int_equal(close(fd), 0);
}

static enum ron_rc count_chunk(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    size_t *total = arg;

    (void)bytes;
    (void)err;
    *total += len;
    return RON_OK;
}

static void make_file(void)
{
    static uint8_t image[30000];
    struct led_index_state st;
    struct led_index *ix = open_index(&st);
    struct ron_err err = {0};
    struct index_key k;
    int fd;

    for (uint64_t n = 1; n <= KEYS; n++) {
        assert_int_equal(index_add(ix, n, true, n, &err), RON_OK);
        if (n % 10 == 0) {
            index_key_of(n % 7, true, &k);
            assert_int_equal(led_index_add_skip(ix, k.key, n, &err), RON_OK);
        }
        if (n % 1000 == 0) {
            assert_int_equal(led_index_put_image(ix, n, 0, image, sizeof image, false, &err),
                             RON_OK);
            assert_int_equal(led_index_put_image(ix, n, 1, image, 100, true, &err), RON_OK);
        }
        if (n % 150 == 0) {
            assert_int_equal(index_commit(ix, n, &err), RON_OK);
        }
    }
    assert_int_equal(index_commit(ix, KEYS, &err), RON_OK);
    led_index_close(ix);
    fd = open(opts_of().path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    whole_len = (size_t)read(fd, whole, sizeof whole);
    assert_true(whole_len > 50 * PAGE && whole_len < sizeof whole && whole_len % PAGE == 0);
    assert_int_equal(close(fd), 0);
}

/* Opens what is there; true when it was thrown away. Otherwise it must be what it was. */
static bool look(void)
{
    struct led_index_state st;
    struct led_index *ix = open_index(&st);
    struct ron_err err = {0};
    size_t image = 0;

    if (!st.fresh) {
        /* The commit before the last is as good: its head page comes to light when the newer one
         * is hidden. */
        assert_true(st.applied_seq <= KEYS && st.applied_seq >= KEYS - 150);
        for (uint64_t n = 1; n <= st.applied_seq; n += 7) {
            assert_true(index_maybe(ix, n, true));
            assert_true(index_has(ix, n, n));
        }
        assert_int_equal(led_index_load_image(ix, count_chunk, &image, &err), RON_OK);
        assert_int_equal(image, 30100);
    }
    for (uint64_t n = KEYS + 1; !st.fresh && n < KEYS + 600; n++) {
        assert_int_equal(index_add(ix, n, true, n, &err), RON_OK);
    }
    if (!st.fresh) {
        assert_int_equal(index_commit(ix, KEYS + 600, &err), RON_OK);
        assert_true(index_has(ix, KEYS + 1, KEYS + 1));
    }
    led_index_close(ix);
    return st.fresh;
}

/* Pages of LMDB's own: not those of values, which are told by their flag, and not free ones that
 * look like anything. */
static size_t own_pages(size_t pages[FILE_MAX / PAGE])
{
    size_t count = 0;
    size_t i = 0;

    while (i < whole_len / PAGE) {
        uint64_t number;
        uint32_t span = 1;
        uint16_t flags;

        memcpy(&number, whole + i * PAGE, sizeof number);
        memcpy(&flags, whole + i * PAGE + 10, sizeof flags);
        if (number == i && (flags == 1 || flags == 2 || flags == 8)) {
            pages[count++] = i;
        } else if (number == i && flags == 4) {
            memcpy(&span, whole + i * PAGE + 12, sizeof span);
            span = span == 0 || span > 100 ? 1 : span;
        }
        i += span;
    }
    return count;
}

static void test_led_index_damage__flipped_bits__give_a_fresh_index_or_all_keys(void **state)
{
    static size_t pages[FILE_MAX / PAGE];
    struct ron_rand rand = support_rand();
    size_t count;
    unsigned fresh = 0;

    (void)state;
    make_file();
    count = own_pages(pages);
    assert_true(count > 3);
    assert_false(look());
    for (unsigned i = 0; i < TRIALS; i++) {
        size_t at = ron_rand_below(&rand, whole_len);

        if (i % 2 == 0) {
            at = pages[ron_rand_below(&rand, count)] * PAGE;
            at += ron_rand_below(&rand, i % 4 == 0 ? 200 : PAGE);
        }
        memcpy(changed, whole, whole_len);
        changed[at] = (uint8_t)(changed[at] ^ (1u << ron_rand_below(&rand, 8)));
        write_file(changed, whole_len);
        fresh += look();
    }
    print_message("%zu pages, %zu of LMDB, %u of %u flips were found\n", whole_len / PAGE, count,
                  fresh, TRIALS);
    /* Most pages are old ones that nobody uses. */
    assert_true(fresh > TRIALS / 8);
}

/* Every byte of the heads, of one or of both: they are where a walk begins. */
static void test_led_index_damage__each_byte_of_the_heads__is_survived(void **state)
{
    (void)state;
    make_file();
    for (size_t i = 0; i < 160; i++) {
        memcpy(changed, whole, whole_len);
        changed[i] = (uint8_t)~changed[i];
        changed[PAGE + i] = (uint8_t)(changed[PAGE + i] ^ (i % 2 == 0));
        write_file(changed, whole_len);
        (void)look();
    }
}

static void test_led_index_damage__zeroed_and_swapped_pages__are_found(void **state)
{
    struct ron_rand rand = support_rand();
    unsigned fresh = 0;

    (void)state;
    make_file();
    for (unsigned i = 0; i < 100; i++) {
        size_t a = ron_rand_below(&rand, whole_len / PAGE) * PAGE;
        size_t b = ron_rand_below(&rand, whole_len / PAGE) * PAGE;

        memcpy(changed, whole, whole_len);
        if (i % 2 == 0) {
            memset(changed + a, 0, PAGE);
        } else {
            memcpy(changed + a, whole + b, PAGE);
        }
        write_file(changed, whole_len);
        fresh += look();
    }
    assert_true(fresh > 25);
}

static void test_led_index_damage__cut_files_and_strangers__give_a_fresh_index(void **state)
{
    struct ron_rand rand = support_rand();
    unsigned fresh = 0;

    (void)state;
    make_file();
    for (unsigned i = 0; i < 40; i++) {
        size_t len = ron_rand_below(&rand, whole_len);

        write_file(whole, len);
        fresh += look();
    }
    /* The last pages may be free ones. */
    assert_true(fresh > 25);
    ron_rand_bytes(&rand, changed, 100000);
    write_file(changed, 100000);
    assert_true(look());
    write_file((const uint8_t *)"x", 1);
    assert_true(look());
    write_file(NULL, 0);
    assert_true(look());
}

static void test_led_index_damage__a_folder_in_its_place__is_an_error(void **state)
{
    struct led_index_opts opts = opts_of();
    struct led_index_state st;
    struct led_index *ix = NULL;
    struct ron_err err = {0};

    (void)state;
    assert_int_equal(mkdir(opts.path, 0700), 0);
    assert_int_equal(led_index_open(&opts, &ix, &st, &err), RON_INVALID);
    assert_null(ix);
    opts.path = fixture_path(fix, "no/such/folder");
    assert_int_not_equal(led_index_open(&opts, &ix, &st, &err), RON_OK);
}

/* ---- kills ----------------------------------------------------------------------------------- */

/* Commits without end, in steps of a length that follows from where it stands. */
static void child(int out)
{
    struct led_index_opts opts = opts_of();
    struct led_index_state st;
    struct led_index *ix = NULL;
    struct ron_err err = {0};

    RON_ASSERT(led_index_open(&opts, &ix, &st, &err) == RON_OK);
    for (uint64_t n = st.applied_seq + 1;;) {
        uint64_t to = n + 1 + n * 31 % 700;

        for (; n < to; n++) {
            RON_ASSERT(index_add(ix, n, true, n, &err) == RON_OK);
        }
        RON_ASSERT(led_index_put_image(ix, n, 0, whole, n * 7 % 20000, true, &err) == RON_OK);
        RON_ASSERT(index_commit(ix, n - 1, &err) == RON_OK);
        RON_ASSERT(write(out, &(uint64_t){n - 1}, 8) == 8);
    }
}

static void test_led_index_damage__killed__keeps_every_reported_commit(void **state)
{
    enum { KILLS = 15 };
    struct ron_rand rand = support_rand();
    uint64_t kept = 0;

    (void)state;
    for (int i = 0; i < KILLS; i++) {
        uint64_t reports = ron_rand_range(&rand, 1, 12);
        uint64_t reported = 0;
        uint64_t spin = ron_rand_below(&rand, 300000);
        struct led_index_state st;
        struct led_index *ix;
        int fds[2];
        pid_t pid;

        assert_int_equal(pipe(fds), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            child(fds[1]);
            _exit(0);
        }
        assert_int_equal(close(fds[1]), 0);
        while (reports-- > 0) {
            assert_int_equal(read(fds[0], &reported, sizeof reported), sizeof reported);
        }
        for (volatile uint64_t k = 0; k < spin; k++) {
            /* Somewhere in a later commit, without a clock. */
        }
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        while (read(fds[0], &reported, sizeof reported) == sizeof reported) {
        }
        assert_int_equal(close(fds[0]), 0);

        ix = open_index(&st);
        assert_false(st.fresh);
        assert_true(st.applied_seq >= reported && st.applied_seq > kept);
        kept = st.applied_seq;
        for (uint64_t n = 1; n <= kept; n++) {
            assert_true(index_maybe(ix, n, true));
            assert_true(n % 5 != 0 || index_has(ix, n, n));
        }
        led_index_close(ix);
    }
    print_message("%d kills, %llu keys\n", KILLS, (unsigned long long)kept);
}

static int setup(void **state)
{
    int rc = fixture_setup(state);

    fix = *state;
    return rc;
}

/* Eight runs of two pieces each, whose first piece ends just where the first step of their merge
 * does: what is left of each then begins with a piece that has nothing any more. */
enum { PIECE = 1632, RUNS = 8, RUN = 2 * PIECE }; /* 1632: 8 bytes of hash and 2 of seq a key */

static uint64_t hash_at_the_cut(uint64_t run, uint64_t i)
{
    const uint64_t groups = RUNS * RUN / 64 + 1;
    const uint64_t cut = (uint64_t)((((ron_u128)256 << 64) + groups - 1) / groups);
    uint64_t place = i % PIECE * RUNS + run + 1;

    return i < PIECE ? place * (cut / (RUNS * PIECE + 8))
                     : cut + place * ((UINT64_MAX - cut) / (RUNS * PIECE + 8));
}

static void test_led_index_damage__merge_cut_between_two_pieces__opens_with_all_keys(void **state)
{
    struct led_index_state st;
    struct led_index *ix = open_with(RUN, &st);
    struct ron_err err = {0};
    struct ron_str text = {"x", 1};
    uint64_t seq = 0;

    (void)state;
    for (uint64_t run = 0; run < RUNS; run++) {
        for (uint64_t i = 0; i < RUN; i++) {
            struct led_key key = {hash_at_the_cut(run, i), 0};

            assert_int_equal(led_index_add(ix, LED_INDEX_ID, key, text, ++seq, &err), RON_OK);
        }
        assert_int_equal(index_commit(ix, seq, &err), RON_OK);
    }
    for (uint64_t more = 0; more < 3; more++) { /* the first flushes the eighth run */
        led_index_close(ix);
        ix = open_with(RUN, &st);
        assert_false(st.fresh);
        for (uint64_t n = 0; n < RUNS * RUN; n++) {
            struct led_key key = {hash_at_the_cut(n / RUN, n % RUN), 0};
            uint64_t seqs[LED_INDEX_FOUND_MAX];
            size_t count = 0;

            assert_true(led_index_maybe(ix, LED_INDEX_ID, key, text));
            assert_int_equal(led_index_find(ix, LED_INDEX_ID, key, seqs, &count, &err), RON_OK);
            assert_true(count == 1 && seqs[0] == n + 1);
        }
        assert_int_equal(
            led_index_add(ix, LED_INDEX_ID, (struct led_key){more + 1, 0}, text, ++seq, &err),
            RON_OK);
        assert_int_equal(index_commit(ix, seq, &err), RON_OK);
    }
    led_index_close(ix);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_led_index_damage__flipped_bits__give_a_fresh_index_or_all_keys),
        CASE(test_led_index_damage__each_byte_of_the_heads__is_survived),
        CASE(test_led_index_damage__zeroed_and_swapped_pages__are_found),
        CASE(test_led_index_damage__cut_files_and_strangers__give_a_fresh_index),
        CASE(test_led_index_damage__a_folder_in_its_place__is_an_error),
        CASE(test_led_index_damage__killed__keeps_every_reported_commit),
        CASE(test_led_index_damage__merge_cut_between_two_pieces__opens_with_all_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
