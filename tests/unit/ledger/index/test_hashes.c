/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: stored hashes in files: what was appended is read, across files, after opening anew and
 * beside the appender; what was cut is gone. What lies in several places is asked for at once.
 * Method: hashes that tell their place, on a directory and on a disk in memory; a file that is
 * almost full from the start, made sparse. A tree over it gives the roots of a tree in memory. */
#include "unit/io/fixture.h"

#include <fcntl.h>

#include "ledger/index/hashes.h"
#include "ron/io/memdisk.h"
#include "ron/sync/sync.h"

enum { MANY = 5000 };

static struct ron_tree_hash hash_at(uint64_t place)
{
    struct ron_tree_hash h;
    struct ron_rand rand;

    ron_rand_seed(&rand, place);
    ron_rand_bytes(&rand, h.bytes, sizeof h.bytes);
    return h;
}

static struct led_hashes *open_hashes(const struct ron_env *env, const char *dir)
{
    struct led_hashes *h = NULL;

    assert_int_equal(led_hashes_open(env, dir, false, &h, NULL), RON_OK);
    return h;
}

static void append(struct led_hashes *h, uint64_t first, size_t count)
{
    struct ron_tree_hash *hashes = calloc(count, sizeof *hashes);

    for (size_t i = 0; i < count; i++) {
        hashes[i] = hash_at(first + i);
    }
    assert_int_equal(
        led_hashes_store(h)->append(led_hashes_store(h)->ctx, first, hashes, count, NULL), RON_OK);
    free(hashes);
}

static enum ron_rc read_places(struct led_hashes *h, const uint64_t *places, size_t count,
                               struct ron_tree_hash *ret)
{
    return led_hashes_store(h)->read(led_hashes_store(h)->ctx, places, count, ret, NULL);
}

static void check_random_reads(struct led_hashes *h, uint64_t low, uint64_t high)
{
    struct ron_rand rand = support_rand();

    for (int i = 0; i < 200; i++) {
        uint64_t places[RON_TREE_READ_MAX];
        struct ron_tree_hash got[RON_TREE_READ_MAX];
        size_t count = (size_t)ron_rand_range(&rand, 1, RON_TREE_READ_MAX);

        places[0] = ron_rand_range(&rand, low, high - 1);
        for (size_t k = 1; k < count; k++) { /* runs and jumps */
            places[k] = ron_rand_chance(&rand, 3, 4) && places[k - 1] + 1 < high
                            ? places[k - 1] + 1
                            : ron_rand_range(&rand, low, high - 1);
        }
        assert_int_equal(read_places(h, places, count, got), RON_OK);
        for (size_t k = 0; k < count; k++) {
            struct ron_tree_hash expected = hash_at(places[k]);

            assert_memory_equal(&got[k], &expected, sizeof expected);
        }
    }
}

static void life(const struct ron_env *env, const char *dir)
{
    struct led_hashes *h = open_hashes(env, dir);
    uint64_t beyond[2] = {0, MANY};
    struct ron_tree_hash got[2];

    assert_int_equal(led_hashes_count(h), 0);
    assert_int_equal(led_hashes_sync(h, NULL), RON_OK);
    for (uint64_t at = 0; at < MANY; at += 100) {
        append(h, at, 100);
    }
    append(h, MANY - 50, 50); /* again, as after a failure */
    assert_int_equal(led_hashes_sync(h, NULL), RON_OK);
    assert_int_equal(led_hashes_count(h), MANY);
    check_random_reads(h, 0, MANY);
    assert_int_equal(read_places(h, beyond, 2, got), RON_NOTFOUND);
    assert_int_equal(led_hashes_store(h)->append(h, MANY + 1, got, 1, NULL), RON_INVALID);
    led_hashes_close(h);
    h = open_hashes(env, dir);
    assert_int_equal(led_hashes_count(h), MANY);
    assert_int_equal(led_hashes_cut(h, MANY + 10, NULL), RON_OK); /* nothing to cut */
    assert_int_equal(led_hashes_count(h), MANY);
    assert_int_equal(led_hashes_cut(h, 1234, NULL), RON_OK);
    assert_int_equal(led_hashes_count(h), 1234);
    beyond[1] = 1234;
    assert_int_equal(read_places(h, beyond, 2, got), RON_NOTFOUND);
    append(h, 1234, 10);
    assert_int_equal(led_hashes_sync(h, NULL), RON_OK);
    led_hashes_close(h);
    h = open_hashes(env, dir);
    assert_int_equal(led_hashes_count(h), 1244);
    check_random_reads(h, 0, 1244);
    assert_int_equal(led_hashes_cut(h, 0, NULL), RON_OK);
    led_hashes_close(h);
    assert_int_equal(led_hashes_open(env, dir, true, &h, NULL), RON_OK);
    assert_int_equal(led_hashes_count(h), 0);
    led_hashes_close(h);
    assert_int_equal(led_hashes_open(env, "/nowhere", true, &h, NULL), RON_NOTFOUND);
}

static void test_hashes__on_disk__kept_and_cut(void **state)
{
    const struct fixture *f = *state;

    life(f->env, fixture_path(f, "tree"));
}

static void test_hashes__in_memory__kept_and_cut(void **state)
{
    const struct fixture *f = *state;
    struct ron_memdisk *disk = NULL;

    assert_int_equal(ron_memdisk_new(f->env, 64 << 20, &disk, NULL), RON_OK);
    life(ron_memdisk_env(disk), "/tree");
    ron_memdisk_free(disk);
}

static void test_hashes__over_the_end_of_a_file__go_on_in_the_next(void **state)
{
    const struct fixture *f = *state;
    const uint64_t start = LED_HASHES_PER_FILE - 300;
    struct led_hashes *h;
    char dir[FIXTURE_PATH_SIZE];

    (void)snprintf(dir, sizeof dir, "%s", fixture_path(f, "tree"));
    assert_int_equal(mkdir(dir, 0700), 0);
    for (int file = 0; file < 3; file++) { /* two full ones of holes, one almost full */
        char name[32];
        int fd;

        (void)snprintf(name, sizeof name, "tree/%06d.hash", file);
        fd = open(fixture_path(f, name), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(
            ftruncate(fd, (off_t)(file < 2 ? LED_HASHES_PER_FILE : start) * 32 + 5 * (file == 2)),
            0);
        (void)close(fd);
    }
    h = open_hashes(f->env, dir);
    assert_int_equal(led_hashes_count(h), 2 * LED_HASHES_PER_FILE + start); /* the 5 do not count */
    append(h, 2 * LED_HASHES_PER_FILE + start, 1000);
    check_random_reads(h, 2 * LED_HASHES_PER_FILE + start, 2 * LED_HASHES_PER_FILE + start + 1000);
    assert_int_equal(led_hashes_sync(h, NULL), RON_OK);
    led_hashes_close(h);
    assert_int_equal(access(fixture_path(f, "tree/000003.hash"), F_OK), 0);
    h = open_hashes(f->env, dir);
    assert_int_equal(led_hashes_count(h), 2 * LED_HASHES_PER_FILE + start + 1000);
    assert_int_equal(led_hashes_cut(h, 2 * LED_HASHES_PER_FILE + start + 10, NULL), RON_OK);
    assert_int_not_equal(access(fixture_path(f, "tree/000003.hash"), F_OK), 0);
    check_random_reads(h, 2 * LED_HASHES_PER_FILE + start, 2 * LED_HASHES_PER_FILE + start + 10);
    assert_int_equal(led_hashes_cut(h, LED_HASHES_PER_FILE, NULL), RON_OK);
    assert_int_not_equal(access(fixture_path(f, "tree/000002.hash"), F_OK), 0);
    led_hashes_close(h);
    h = open_hashes(f->env, dir);
    assert_int_equal(led_hashes_count(h), LED_HASHES_PER_FILE);
    led_hashes_close(h);
}

static void test_hashes__under_a_tree__roots_of_all_sizes(void **state)
{
    const struct fixture *f = *state;
    struct ron_memdisk *disk = NULL;
    struct led_hashes *h;
    struct ron_tree tree;
    struct ron_tree_hash roots[301];

    assert_int_equal(ron_memdisk_new(f->env, 64 << 20, &disk, NULL), RON_OK);
    h = open_hashes(ron_memdisk_env(disk), "tree");
    ron_tree_init(&tree);
    for (uint64_t i = 0; i <= 300; i++) {
        struct ron_tree_hash leaf = hash_at(i);

        ron_tree_root(&tree, &roots[i]);
        assert_int_equal(ron_tree_append(&tree, led_hashes_store(h), &leaf, 1, NULL), RON_OK);
    }
    for (uint64_t i = 0; i <= 300; i++) {
        struct ron_tree_hash root;

        assert_int_equal(ron_tree_root_at(led_hashes_store(h), i, &root, NULL), RON_OK);
        assert_memory_equal(&root, &roots[i], sizeof root);
    }
    assert_int_equal(led_hashes_count(h), ron_tree_stored_count(301));
    led_hashes_close(h);
    ron_memdisk_free(disk);
}

/* ---- how often the disk is asked ------------------------------------------------------------- */

static struct {
    int opens;
    int closes;
    int hints;
    int reads;
    bool late; /* a hint came behind a read */
} asked;

static enum ron_rc count_open(const struct ron_env *env, const char *path, uint32_t flags,
                              uint32_t mode, int *ret_fd, struct ron_err *err)
{
    asked.opens++;
    return ron_env_linux()->disk->open(env, path, flags, mode, ret_fd, err);
}

static void count_close(const struct ron_env *env, int fd)
{
    asked.closes++;
    ron_env_linux()->disk->close(env, fd);
}

static void count_will_read(const struct ron_env *env, int fd, uint64_t off, size_t len)
{
    asked.hints++;
    asked.late = asked.late || asked.reads > 0;
    ron_env_linux()->disk->will_read(env, fd, off, len);
}

static enum ron_rc count_pread(const struct ron_env *env, int fd, void *buf, size_t len,
                               uint64_t off, size_t *ret_len)
{
    asked.reads++;
    return ron_env_linux()->disk->pread(env, fd, buf, len, off, ret_len);
}

/* Reads and compares; what the disk was asked for is in `asked`. */
static void check_places(struct led_hashes *h, const uint64_t *places, size_t count)
{
    struct ron_tree_hash got[RON_TREE_READ_MAX];

    memset(&asked, 0, sizeof asked);
    assert_int_equal(read_places(h, places, count, got), RON_OK);
    for (size_t i = 0; i < count; i++) {
        struct ron_tree_hash expected = hash_at(places[i]);

        assert_memory_equal(&got[i], &expected, sizeof expected);
    }
    assert_int_equal(asked.opens, asked.closes);
    assert_false(asked.late);
}

static void test_hashes__read__spans_are_asked_for_at_once(void **state)
{
    const struct fixture *f = *state;
    struct ron_disk_ops disk = *f->env->disk;
    struct ron_env env = *f->env;
    uint64_t places[RON_TREE_READ_MAX] = {130, 4000, 255, 128, 4001, 0, 4000};
    struct led_hashes *h;

    disk.open = count_open;
    disk.close = count_close;
    disk.will_read = count_will_read;
    disk.pread = count_pread;
    env.disk = &disk;
    h = open_hashes(&env, fixture_path(f, "tree"));
    append(h, 0, MANY);

    check_places(h, places, 7); /* three pages of one file, in no order, one place twice */
    assert_int_equal(asked.opens, 1);
    assert_int_equal(asked.hints, 3);
    assert_int_equal(asked.reads, 3);

    for (uint64_t i = 0; i < RON_TREE_READ_MAX; i++) {
        places[i] = 1000 + i;
    }
    check_places(h, places, RON_TREE_READ_MAX); /* a tile: nothing to wait for beside it */
    assert_int_equal(asked.hints, 0);
    assert_int_equal(asked.reads, 1);

    places[0] = 256; /* both ends of a page, and then all that follows: the longest span */
    for (uint64_t i = 1; i < RON_TREE_READ_MAX; i++) {
        places[i] = 382 + i;
    }
    check_places(h, places, RON_TREE_READ_MAX);
    assert_int_equal(asked.reads, 1);
    led_hashes_close(h);
}

/* ---- threads --------------------------------------------------------------------------------- */

struct beside {
    struct led_hashes *h;
    struct ron_au64 wrong;
};

static void read_beside(void *arg)
{
    struct beside *b = arg;
    uint64_t count;

    do {
        struct ron_tree_hash got;
        struct ron_tree_hash expected;
        uint64_t place;

        count = led_hashes_count(b->h);
        if (count == 0) {
            continue;
        }
        place = count - 1;
        expected = hash_at(place);
        if (read_places(b->h, &place, 1, &got) != RON_OK ||
            memcmp(&got, &expected, sizeof got) != 0) {
            ron_au64_store(&b->wrong, 1);
        }
    } while (count < MANY && ron_au64_load(&b->wrong) == 0);
}

static void test_hashes__read_beside_appends__are_right(void **state)
{
    const struct fixture *f = *state;
    struct beside b = {.h = open_hashes(f->env, fixture_path(f, "tree"))};
    const struct ron_thread_opts opts = {
        .name = "reader", .may_block = true, .main = read_beside, .arg = &b};
    struct ron_thread *thread;

    assert_int_equal(ron_thread_start(&opts, &thread, NULL), RON_OK);
    for (uint64_t at = 0; at < MANY; at += 20) {
        append(b.h, at, 20);
    }
    ron_thread_join(thread);
    assert_int_equal(ron_au64_load(&b.wrong), 0);
    led_hashes_close(b.h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        CASE(test_hashes__on_disk__kept_and_cut),
        CASE(test_hashes__in_memory__kept_and_cut),
        CASE(test_hashes__over_the_end_of_a_file__go_on_in_the_next),
        CASE(test_hashes__under_a_tree__roots_of_all_sizes),
        CASE(test_hashes__read__spans_are_asked_for_at_once),
        CASE(test_hashes__read_beside_appends__are_right),
#undef CASE
    };

    return cmocka_run_group_tests_name("ledger.led_hashes", tests, NULL, NULL);
}
