/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: damaged files of the index never end the process and never hide a key: it is the index that
 * an earlier commit made, or a fresh one (X3). A process killed at any moment loses no committed
 * key (X1).
 * Method: a folder with journals, runs, merges under way, skip points and an image is changed:
 * bits, pages, lengths, whole files, old ones put back. Where it still opens, every key up to its
 * applied_seq must be there, and it must go on. For the kills a child commits and reports each
 * commit through a pipe; one moment that a kill seldom meets is made by hand. */
#include "unit/ledger/index_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

enum { KEYS = 12000, STEP = 150, PAGE = 4096, TRIALS = 200, FILES_MAX = 64, IMAGE = 30000 };

enum kind { JOURNAL, RUN_FILE, IMAGE_FILE, KINDS };
static const char *const kind_names[KINDS] = {"journal-", "run-", "image-"};

struct file {
    char name[256];
    enum kind kind;
    uint8_t *bytes;
    size_t len;
};

struct folder {
    struct file files[FILES_MAX];
    size_t count;
};

static struct fixture *fix;
static struct folder whole;  /* as the last commit left it */
static struct folder before; /* some commits earlier */

static struct led_index_opts opts_of(void)
{
    static char path[FIXTURE_PATH_SIZE];

    (void)snprintf(path, sizeof path, "%s", fixture_path(fix, "index"));
    return (struct led_index_opts){
        .env = index_env(), .path = path, .run_entries = 256, .uuid = "sixteen bytes .."};
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

/* ---- folders --------------------------------------------------------------------------------- */

static void folder_done(struct folder *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->files[i].bytes);
    }
    f->count = 0;
}

static void folder_read(struct folder *f)
{
    DIR *dir = opendir(opts_of().path);
    const struct dirent *entry;

    assert_non_null(dir);
    folder_done(f);
    while ((entry = readdir(dir)) != NULL) {
        struct file *file = &f->files[f->count];
        struct stat st;
        int fd;

        if (entry->d_name[0] == '.') {
            continue;
        }
        assert_true(f->count < FILES_MAX);
        (void)snprintf(file->name, sizeof file->name, "%s", entry->d_name);
        file->kind = JOURNAL;
        while (strncmp(file->name, kind_names[file->kind], strlen(kind_names[file->kind])) != 0) {
            assert_true(++file->kind < KINDS);
        }
        fd = openat(dirfd(dir), file->name, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        file->len = (size_t)st.st_size;
        file->bytes = malloc(file->len + 1);
        assert_non_null(file->bytes);
        assert_int_equal(read(fd, file->bytes, file->len), file->len);
        assert_int_equal(close(fd), 0);
        f->count++;
    }
    assert_int_equal(closedir(dir), 0);
}

static void write_file(const char *name, const void *bytes, size_t len)
{
    char path[FIXTURE_PATH_SIZE + 260];
    int fd;

    (void)snprintf(path, sizeof path, "%s/%s", opts_of().path, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    assert_int_equal(close(fd), 0);
}

/* The folder as it was, but for one file (NULL: none), which is left out. */
static void folder_write(const struct folder *f, const struct file *without)
{
    index_erase(opts_of().path);
    assert_int_equal(mkdir(opts_of().path, 0700), 0);
    for (size_t i = 0; i < f->count; i++) {
        if (&f->files[i] != without) {
            write_file(f->files[i].name, f->files[i].bytes, f->files[i].len);
        }
    }
}

static const struct file *file_of(struct ron_rand *rand, enum kind kind)
{
    const struct file *file;

    do {
        file = &whole.files[ron_rand_below(rand, whole.count)];
    } while (file->kind != kind);
    return file;
}

static enum ron_rc count_chunk(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    size_t *total = arg;

    (void)bytes;
    (void)err;
    *total += len;
    return RON_OK;
}

static void add_some(struct led_index *ix, uint64_t from, uint64_t to)
{
    static uint8_t image[IMAGE];
    struct ron_err err = {0};
    struct index_key k;

    for (uint64_t n = from; n <= to; n++) {
        assert_int_equal(index_add(ix, n, true, n, &err), RON_OK);
        if (n % 10 == 0) {
            index_key_of(n % 7, true, &k);
            assert_int_equal(led_index_add_skip(ix, k.key, n, &err), RON_OK);
        }
        if (n % 1000 == 0) {
            memset(image, (int)(n / 1000), sizeof image);
            assert_int_equal(led_index_put_image(ix, n, 0, image, sizeof image, false, &err),
                             RON_OK);
            assert_int_equal(led_index_put_image(ix, n, 1, image, 100, true, &err), RON_OK);
        }
        if (n % STEP == 0) {
            assert_int_equal(index_commit(ix, n, &err), RON_OK);
        }
    }
}

static void make_files(void)
{
    struct led_index_state st;
    struct led_index *ix;
    size_t kinds[KINDS] = {0};

    index_erase(opts_of().path);
    ix = open_index(&st);
    add_some(ix, 1, KEYS - 10 * STEP);
    led_index_close(ix);
    folder_read(&before);
    ix = open_index(&st);
    add_some(ix, KEYS - 10 * STEP + 1, KEYS);
    led_index_close(ix);
    folder_read(&whole);
    for (size_t i = 0; i < whole.count; i++) {
        kinds[whole.files[i].kind]++;
    }
    assert_true(kinds[JOURNAL] >= 1 && kinds[RUN_FILE] > 2 && kinds[IMAGE_FILE] == 1);
}

/* Opens what is there; true when it was thrown away. Otherwise it must be what a commit made. */
static bool look(void)
{
    struct led_index_state st;
    struct led_index *ix = open_index(&st);
    struct ron_err err = {0};
    size_t image = 0;
    uint64_t to = st.applied_seq;

    if (!st.fresh) {
        assert_true(to <= KEYS && to % STEP == 0);
        for (uint64_t n = 1; n <= to; n += 7) {
            assert_true(index_maybe(ix, n, true));
            assert_true(index_has(ix, n, n));
        }
        assert_int_equal(st.image_seq, to / 1000 * 1000);
        assert_int_equal(led_index_load_image(ix, count_chunk, &image, &err), RON_OK);
        assert_int_equal(image, IMAGE + 100);
    }
    for (uint64_t n = to + 1; n < to + 600; n++) {
        assert_int_equal(index_add(ix, n, true, n, &err), RON_OK);
    }
    assert_int_equal(index_commit(ix, to + 599, &err), RON_OK);
    led_index_close(ix);
    ix = open_index(&(struct led_index_state){0});
    assert_int_equal(led_index_applied(ix), to + 599);
    assert_true(index_has(ix, to + 1, to + 1));
    led_index_close(ix);
    return st.fresh;
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void test_led_index_damage__flipped_bits__give_a_fresh_index_or_an_older_commit(void **state)
{
    struct ron_rand rand = support_rand();
    unsigned fresh[KINDS] = {0};

    (void)state;
    make_files();
    folder_write(&whole, NULL);
    assert_false(look());
    for (unsigned i = 0; i < TRIALS; i++) {
        enum kind kind = i % KINDS;
        const struct file *file = file_of(&rand, kind);
        size_t at = ron_rand_below(&rand, file->len);

        uint8_t bit = (uint8_t)(1u << ron_rand_below(&rand, 8));

        folder_write(&whole, NULL);
        file->bytes[at] ^= bit;
        write_file(file->name, file->bytes, file->len);
        file->bytes[at] ^= bit;
        fresh[kind] += look();
    }
    print_message("of %u flips each: %u in journals, %u in runs, %u in images cost the index\n",
                  TRIALS / KINDS, fresh[JOURNAL], fresh[RUN_FILE], fresh[IMAGE_FILE]);
    /* Behind the last entry of a piece there may be room, and runs that grow have more pieces than
     * count; an image has neither. A journal has old states. */
    assert_true(fresh[RUN_FILE] > TRIALS / KINDS / 4);
    assert_int_equal(fresh[IMAGE_FILE], TRIALS / KINDS);
}

/* Every byte where reading begins: of the newest journal, of a run, of the image. */
static void test_led_index_damage__each_byte_of_the_heads__is_survived(void **state)
{
    (void)state;
    make_files();
    for (size_t f = 0; f < whole.count; f++) {
        struct file *file = &whole.files[f];
        unsigned fresh = 0;

        for (size_t i = 0; i < 60 && f < 8; i += file->kind == JOURNAL ? 1 : 7) {
            folder_write(&whole, NULL);
            file->bytes[i] = (uint8_t)~file->bytes[i];
            write_file(file->name, file->bytes, file->len);
            file->bytes[i] = (uint8_t)~file->bytes[i];
            fresh += look();
        }
        assert_true(file->kind != IMAGE_FILE || f >= 8 || fresh == 9);
    }
}

static void test_led_index_damage__zeroed_and_swapped_pages__are_found(void **state)
{
    struct ron_rand rand = support_rand();
    unsigned fresh = 0;

    (void)state;
    make_files();
    for (unsigned i = 0; i < 90; i++) {
        const struct file *file = file_of(&rand, i % KINDS);
        const struct file *other = file_of(&rand, i % 2 == 0 ? RUN_FILE : JOURNAL);
        size_t at = ron_rand_below(&rand, file->len / PAGE) * PAGE;
        size_t from = ron_rand_below(&rand, other->len / PAGE) * PAGE;
        uint8_t *changed = malloc(file->len);

        assert_non_null(changed);
        memcpy(changed, file->bytes, file->len);
        if (i % 4 == 0) {
            memset(changed + at, 0, PAGE);
        } else {
            memcpy(changed + at, other->bytes + from, PAGE);
        }
        folder_write(&whole, NULL);
        write_file(file->name, changed, file->len);
        free(changed);
        fresh += look();
    }
    assert_true(fresh > 30);
}

static void test_led_index_damage__cut_and_missing_files__give_a_fresh_index_or_an_older_commit(
    void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    make_files();
    for (size_t f = 0; f < whole.count; f++) {
        const struct file *file = &whole.files[f];
        bool gone;

        folder_write(&whole, file);
        gone = look();
        /* Without the newest journal there may be an older one that names what is still there. */
        assert_true(gone || file->kind == JOURNAL || file->len == 0);
        for (unsigned i = 0; i < 5; i++) {
            folder_write(&whole, NULL);
            write_file(file->name, file->bytes, ron_rand_below(&rand, file->len + 1));
            gone = look();
            assert_true(gone || file->kind != IMAGE_FILE);
        }
    }
}

static void test_led_index_damage__strangers__do_no_harm(void **state)
{
    static uint8_t noise[100000];
    struct ron_rand rand = support_rand();

    (void)state;
    make_files();
    ron_rand_bytes(&rand, noise, sizeof noise);
    folder_write(&whole, NULL);
    write_file("journal-999999", noise, sizeof noise);
    write_file("journal-18446744073709551614", "", 0);
    write_file("run-1000000", noise, sizeof noise);
    write_file("image-7", "x", 1);
    write_file("notes", "x", 1);
    assert_false(look());
    assert_int_equal(access(fixture_path(fix, "index/notes"), F_OK), 0);
    assert_int_equal(access(fixture_path(fix, "index/run-1000000"), F_OK), -1);
    assert_int_equal(access(fixture_path(fix, "index/image-7"), F_OK), -1);
    assert_int_equal(access(fixture_path(fix, "index/journal-999999"), F_OK), -1);
    assert_int_equal(unlink(fixture_path(fix, "index/notes")), 0);
    folder_write(&(struct folder){0}, NULL);
    write_file("journal-1", "x", 1);
    assert_true(look());
    folder_write(&(struct folder){0}, NULL);
    assert_true(look());
}

/* A journal from a backup next to newer runs, and the other way round. */
static void test_led_index_damage__old_files_put_back__never_hide_a_key(void **state)
{
    (void)state;
    make_files();
    folder_write(&before, NULL);
    assert_false(look());
    for (unsigned part = 0; part < 1u << KINDS; part++) {
        folder_write(&whole, NULL);
        for (size_t f = 0; f < before.count; f++) {
            const struct file *file = &before.files[f];

            if ((part & (1u << file->kind)) != 0) {
                write_file(file->name, file->bytes, file->len);
            }
        }
        (void)look();
        folder_write(&whole, NULL);
        /* Old journals alone: the newer ones are gone. */
        for (size_t f = 0; f < whole.count && (part & 1u) != 0; f++) {
            char path[FIXTURE_PATH_SIZE + 260];

            (void)snprintf(path, sizeof path, "%s/%s", opts_of().path, whole.files[f].name);
            if (whole.files[f].kind == JOURNAL) {
                assert_int_equal(unlink(path), 0);
            }
        }
        for (size_t f = 0; f < before.count; f++) {
            const struct file *file = &before.files[f];

            if ((part & (1u << file->kind)) != 0) {
                write_file(file->name, file->bytes, file->len);
            }
        }
        (void)look();
    }
}

static void test_led_index_damage__a_file_in_its_place__is_an_error(void **state)
{
    struct led_index_opts opts = opts_of();
    struct led_index_state st;
    struct led_index *ix = NULL;
    struct ron_err err = {0};
    int fd = open(opts.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    (void)state;
    assert_true(fd >= 0 && close(fd) == 0);
    assert_int_equal(led_index_open(&opts, &ix, &st, &err), RON_INVALID);
    assert_null(ix);
    opts.path = fixture_path(fix, "index/below");
    assert_int_not_equal(led_index_open(&opts, &ix, &st, &err), RON_OK);
}

static void touch(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
}

static void test_led_index_damage__lmdb_file_of_earlier_versions__is_removed(void **state)
{
    struct led_index_state st;
    struct led_index *ix;

    (void)state;
    touch(fixture_path(fix, "index.mdb"));
    touch(fixture_path(fix, "index.mdb-lock"));
    touch(fixture_path(fix, "index.mdbx"));
    ix = open_index(&st);
    assert_true(st.fresh);
    assert_int_equal(access(fixture_path(fix, "index.mdb"), F_OK), -1);
    assert_int_equal(access(fixture_path(fix, "index.mdb-lock"), F_OK), -1);
    assert_int_equal(access(fixture_path(fix, "index.mdbx"), F_OK), 0);
    led_index_close(ix);
}

/* ---- kills ----------------------------------------------------------------------------------- */

/* Commits without end, in steps whose length follows from the position. */
static void child(int out)
{
    static const uint8_t image[20000];
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
        RON_ASSERT(led_index_put_image(ix, n, 0, image, n * 7 % sizeof image, true, &err) ==
                   RON_OK);
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

static int teardown(void **state)
{
    folder_done(&whole);
    folder_done(&before);
    return fixture_teardown(state);
}

/* Eight runs of eight pieces each, whose fourth piece ends just where the first step of their merge
 * does: what is left of each then begins with a piece that has nothing any more. */
enum { PIECE = 405, HALF = 4 * PIECE, RUNS = 8, RUN = 2 * HALF }; /* 8 + 2 bytes a key */

static uint64_t hash_at_the_cut(uint64_t run, uint64_t i)
{
    const uint64_t groups = RUNS * RUN / 64 + 1;
    const uint64_t cut = (uint64_t)((((ron_u128)256 << 64) + groups - 1) / groups);
    uint64_t place = i % HALF * RUNS + run + 1;

    return i < HALF ? place * (cut / (RUNS * HALF + 8))
                    : cut + place * ((UINT64_MAX - cut) / (RUNS * HALF + 8));
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

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_led_index_damage__flipped_bits__give_a_fresh_index_or_an_older_commit),
        CASE(test_led_index_damage__each_byte_of_the_heads__is_survived),
        CASE(test_led_index_damage__zeroed_and_swapped_pages__are_found),
        CASE(test_led_index_damage__cut_and_missing_files__give_a_fresh_index_or_an_older_commit),
        CASE(test_led_index_damage__strangers__do_no_harm),
        CASE(test_led_index_damage__old_files_put_back__never_hide_a_key),
        CASE(test_led_index_damage__a_file_in_its_place__is_an_error),
        CASE(test_led_index_damage__lmdb_file_of_earlier_versions__is_removed),
        CASE(test_led_index_damage__killed__keeps_every_reported_commit),
        CASE(test_led_index_damage__merge_cut_between_two_pieces__opens_with_all_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
