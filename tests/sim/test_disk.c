/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the simulated disk is a disk: what was synced stays, what was not meets the fate that the
 * options allow; each fault can be seen, and none happens that is switched off.
 * Method: plain mode, one machine, one fault at a time. */
#include "sim/simtest.h"

#include "ron/io/file.h"

enum { RW = RON_OPEN_READ | RON_OPEN_WRITE | RON_OPEN_CREATE };

struct box {
    struct sim *sim;
    struct sim_host *host;
    const struct ron_env *env;
    const struct ron_disk_ops *disk;
};

static struct box box_new(uint64_t seed, const char *options)
{
    struct sim_opts opts = sim_opts_calm();
    struct box b = {0};

    assert_true(sim_opts_parse(&opts, options));
    b.sim = sim_new(seed, &opts);
    b.host = sim_host_new(b.sim, "box");
    b.env = sim_host_env(b.host);
    b.disk = b.env->disk;
    return b;
}

static void reboot(struct box *b)
{
    if (!sim_env_is_dead(b->env)) {
        sim_host_power_loss(b->host);
    }
    b->env = sim_host_boot(b->host);
}

static int open_rw(const struct box *b, const char *path)
{
    int fd = -1;

    assert_int_equal(b->disk->open(b->env, path, RW, 0600, &fd, NULL), RON_OK);
    return fd;
}

/* A durable file of that many bytes, all `fill`. */
static int durable_file(const struct box *b, const char *path, uint8_t fill, size_t len)
{
    int fd = open_rw(b, path);
    uint8_t *bytes = malloc(len);

    assert_non_null(bytes);
    memset(bytes, fill, len);
    assert_int_equal(b->disk->pwrite(b->env, fd, bytes, len, 0, NULL), RON_OK);
    assert_int_equal(b->disk->sync(b->env, fd, true, NULL), RON_OK);
    assert_int_equal(b->disk->sync_dir(b->env, "/", NULL), RON_OK);
    free(bytes);
    return fd;
}

/* Counts the bytes of a file that equal `value`; the rest goes to *ret_others. */
static size_t count_bytes(const struct box *b, const char *path, uint8_t value, size_t *ret_others)
{
    struct ron_buf buf;
    size_t count = 0;

    ron_buf_init(&buf, 1 << 20);
    assert_int_equal(ron_file_read_all(b->env, path, &buf, NULL), RON_OK);
    for (size_t i = 0; i < ron_buf_len(&buf); i++) {
        count += ron_buf_data(&buf)[i] == value;
    }
    *ret_others = ron_buf_len(&buf) - count;
    ron_buf_done(&buf);
    return count;
}

static void test_disk__calm_world__does_not_fail(void **state)
{
    static const enum sim_event faults[] = {
        SIM_EV_WRITE_FAIL, SIM_EV_DISK_FULL,  SIM_EV_SYNC_FAIL, SIM_EV_META_FAIL,
        SIM_EV_ROT,        SIM_EV_BAD_SECTOR, SIM_EV_NO_FD,     SIM_EV_WALL_JUMP,
    };
    struct box b = box_new(support_seed(), "");
    size_t others = 0;

    (void)state;
    assert_int_equal(ron_mkdirs(b.env, "/data/log", 0700, NULL), RON_OK);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(ron_file_replace(b.env, "/data/log/x", "aaaa", 4, 0600, NULL), RON_OK);
        assert_int_equal(count_bytes(&b, "/data/log/x", 'a', &others), 4);
        (void)ron_env_wall_ms(b.env);
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(faults); i++) {
        assert_int_equal(sim_count(b.sim, faults[i]), 0);
    }
    sim_free(b.sim);
}

static void test_disk__names__behave_like_linux(void **state)
{
    struct box b = box_new(support_seed(), "");
    const struct ron_disk_ops *d = b.disk;
    struct ron_file_stat st;
    int fd = -1;

    (void)state;
    assert_int_equal(d->open(b.env, "/a", RON_OPEN_READ, 0, &fd, NULL), RON_NOTFOUND);
    assert_int_equal(d->open(b.env, "/no/a", RW, 0, &fd, NULL), RON_NOTFOUND);
    d->close(b.env, open_rw(&b, "/a"));
    assert_int_equal(d->open(b.env, "/a", RW | RON_OPEN_EXCL, 0, &fd, NULL), RON_EXISTS);
    assert_int_equal(d->mkdir(b.env, "/d", 0700, NULL), RON_OK);
    assert_int_equal(d->mkdir(b.env, "/d", 0700, NULL), RON_EXISTS);
    assert_int_equal(d->rename(b.env, "/a", "/d/b", NULL), RON_OK);
    assert_int_equal(d->stat(b.env, "/a", &st), RON_NOTFOUND);
    assert_int_equal(d->stat(b.env, "./d//b", &st), RON_OK);
    assert_false(st.is_dir);
    assert_int_equal(d->link(b.env, "/d/b", "/c", NULL), RON_OK);
    assert_int_equal(d->link(b.env, "/d/b", "/c", NULL), RON_EXISTS);
    assert_int_equal(d->rename(b.env, "/d", "/d/e", NULL), RON_INVALID);
    assert_int_equal(d->rename(b.env, "/c", "/d", NULL), RON_INVALID);
    assert_int_equal(d->rename(b.env, "/c", "/d/b", NULL), RON_OK); /* the same file: nothing */
    assert_int_equal(d->stat(b.env, "/c", &st), RON_OK);
    assert_int_equal(d->rmdir(b.env, "/d", NULL), RON_EXISTS);
    assert_int_equal(d->remove(b.env, "/d", NULL), RON_INVALID);
    assert_int_equal(d->remove(b.env, "/d/b", NULL), RON_OK);
    assert_int_equal(d->rmdir(b.env, "/d", NULL), RON_OK);
    assert_int_equal(d->sync_dir(b.env, "/c", NULL), RON_INVALID);
    assert_int_equal(d->sync_dir(b.env, "/d", NULL), RON_NOTFOUND);
    assert_int_equal(d->stat(b.env, "/", &st), RON_OK);
    assert_true(st.is_dir);
    sim_free(b.sim);
}

static void test_disk__synced__survives_power_loss(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        struct box b = box_new(support_seed() + i,
                               "crash_drop_weight=5,crash_tear_weight=5,crash_garble_weight=5,"
                               "crash_keep_meta_ppm=300000");
        size_t others = 0;

        (void)durable_file(&b, "/x", 7, 3000);
        reboot(&b);
        SIM_CHECK(b.sim, count_bytes(&b, "/x", 7, &others) == 3000 && others == 0);
        sim_free(b.sim);
    }
}

/* An unsynced write of four sectors over a durable file, under one fate; what is there
 * afterwards. */
static struct box overwrite_and_crash(uint64_t seed, const char *options, size_t *ret_old,
                                      size_t *ret_new, size_t *ret_other)
{
    struct box b = box_new(seed, options);
    int fd = durable_file(&b, "/x", 1, 8 * SIM_SECTOR_BYTES);
    uint8_t bytes[4 * SIM_SECTOR_BYTES];
    size_t others = 0;

    memset(bytes, 2, sizeof bytes);
    assert_int_equal(b.disk->pwrite(b.env, fd, bytes, sizeof bytes, 0, NULL), RON_OK);
    reboot(&b);
    *ret_old = count_bytes(&b, "/x", 1, &others);
    *ret_new = count_bytes(&b, "/x", 2, &others);
    *ret_other = 8 * SIM_SECTOR_BYTES - *ret_old - *ret_new;
    return b;
}

static void test_disk__unsynced_write__meets_each_fate(void **state)
{
    static const size_t sector = SIM_SECTOR_BYTES;
    uint64_t seed = support_seed();
    size_t old = 0;
    size_t new = 0;
    size_t other = 0;
    struct box b;

    (void)state;
    b = overwrite_and_crash(seed, "crash_drop_weight=0", &old, &new, &other);
    assert_int_equal(new, 4 * sector);
    assert_int_equal(old, 4 * sector);
    sim_free(b.sim);

    b = overwrite_and_crash(seed, "crash_apply_weight=0", &old, &new, &other);
    assert_int_equal(new, 0);
    assert_int_equal(sim_count(b.sim, SIM_EV_CRASH_DROP), 1);
    sim_free(b.sim);

    b = overwrite_and_crash(seed, "crash_apply_weight=0,crash_drop_weight=0,crash_tear_weight=1",
                            &old, &new, &other);
    assert_in_range(new, sector, 3 * sector);
    assert_int_equal(new % sector, 0);
    assert_int_equal(other, 0);
    sim_free(b.sim);

    b = overwrite_and_crash(seed, "crash_apply_weight=0,crash_drop_weight=0,crash_garble_weight=1",
                            &old, &new, &other);
    assert_in_range(other, sector / 2, sector);
    sim_disk_show_faults(b.host, false);
    assert_int_equal(count_bytes(&b, "/x", 2, &other), 4 * sector);
    sim_free(b.sim);

    b = overwrite_and_crash(seed,
                            "crash_apply_weight=0,crash_drop_weight=0,crash_misdirect_weight=1",
                            &old, &new, &other);
    assert_true(new > 0);
    assert_int_equal(sim_count(b.sim, SIM_EV_CRASH_MISDIRECT), 1);
    sim_disk_show_faults(b.host, false);
    assert_int_equal(count_bytes(&b, "/x", 1, &other), 8 * sector);
    sim_free(b.sim);
}

static void test_disk__garbage__spares_or_takes_the_neighbours(void **state)
{
    static const char narrow[] = "crash_apply_weight=0,crash_drop_weight=0,crash_garble_weight=1";
    static const char wide[] =
        "crash_apply_weight=0,crash_drop_weight=0,crash_garble_weight=1,crash_wide_garble=1";

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct box b = box_new(support_seed(), i == 0 ? narrow : wide);
        int fd = durable_file(&b, "/x", 1, SIM_SECTOR_BYTES);
        size_t others = 0;

        assert_int_equal(b.disk->pwrite(b.env, fd, "zzzz", 4, 100, NULL), RON_OK);
        reboot(&b);
        if (i == 0) {
            assert_true(count_bytes(&b, "/x", 1, &others) >= SIM_SECTOR_BYTES - 4);
        } else {
            assert_true(count_bytes(&b, "/x", 1, &others) < SIM_SECTOR_BYTES / 2);
        }
        sim_free(b.sim);
    }
}

enum { MODEL_BYTES = 3000 };

/* A file as an array: what reads must see, and what was there at the last sync. */
struct model {
    uint8_t live[MODEL_BYTES];
    size_t live_len;
    uint8_t synced[MODEL_BYTES];
    size_t synced_len;
};

static void check_model(const struct box *b, int fd, const uint8_t *bytes, size_t len)
{
    uint8_t back[MODEL_BYTES + 1];
    size_t got = 0;

    assert_int_equal(b->disk->pread(b->env, fd, back, sizeof back, 0, &got), RON_OK);
    SIM_CHECK(b->sim, got == len && memcmp(back, bytes, len) == 0);
}

/* One random change of file and model, or a look at a part of the file. */
static void change_both(const struct box *b, int fd, struct model *m)
{
    struct ron_rand *rand = sim_rand(b->sim);
    size_t off = (size_t)ron_rand_below(rand, MODEL_BYTES);
    size_t len = (size_t)ron_rand_below(rand, MODEL_BYTES - off);
    uint8_t bytes[MODEL_BYTES];
    size_t got = 0;

    switch (ron_rand_below(rand, 5)) {
    case 0:
        assert_int_equal(b->disk->truncate(b->env, fd, off, NULL), RON_OK);
        memset(m->live + off, 0, MODEL_BYTES - off); /* what comes back is zero */
        m->live_len = off;
        break;
    case 1:
        assert_int_equal(b->disk->sync(b->env, fd, true, NULL), RON_OK);
        memcpy(m->synced, m->live, sizeof m->live);
        m->synced_len = m->live_len;
        break;
    case 2:
        assert_int_equal(b->disk->pread(b->env, fd, bytes, len, off, &got), RON_OK);
        SIM_CHECK(b->sim, got == (off >= m->live_len ? 0 : RON_MIN(len, m->live_len - off)));
        SIM_CHECK(b->sim, memcmp(bytes, m->live + off, got) == 0);
        break;
    default:
        ron_rand_bytes(rand, bytes, len);
        assert_int_equal(b->disk->pwrite(b->env, fd, bytes, len, off, NULL), RON_OK);
        memcpy(m->live + off, bytes, len);
        m->live_len = len == 0 ? m->live_len : RON_MAX(m->live_len, off + len);
        break;
    }
}

static void test_disk__random_use__agrees_with_an_array(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 400; i++) {
        bool keeps = i % 2 == 0;
        struct box b =
            box_new(support_seed() + i, keeps ? "crash_drop_weight=0" : "crash_apply_weight=0");
        struct model m = {0};
        int fd = open_rw(&b, "/x");

        assert_int_equal(b.disk->sync_dir(b.env, "/", NULL), RON_OK);
        for (int life = 0; life < 3; life++) {
            for (int step = 0; step < 20; step++) {
                change_both(&b, fd, &m);
            }
            check_model(&b, fd, m.live, m.live_len);
            reboot(&b);
            fd = open_rw(&b, "/x");
            if (!keeps) {
                memcpy(m.live, m.synced, sizeof m.live);
                m.live_len = m.synced_len;
            }
            check_model(&b, fd, m.live, m.live_len);
            memcpy(m.synced, m.live, sizeof m.live); /* a power loss leaves nothing unsynced */
            m.synced_len = m.live_len;
        }
        sim_free(b.sim);
    }
}

static void test_disk__unsynced_names__stay_or_go(void **state)
{
    unsigned kept_create = 0;
    unsigned kept_rename = 0;
    unsigned seeds = 200;
    struct ron_file_stat st;

    (void)state;
    for (uint64_t i = 0; i < seeds; i++) {
        struct box b = box_new(support_seed() + i, "");

        (void)durable_file(&b, "/old", 1, 10);
        b.disk->close(b.env, open_rw(&b, "/created"));
        assert_int_equal(b.disk->rename(b.env, "/old", "/new", NULL), RON_OK);
        reboot(&b);
        bool has_old = b.disk->stat(b.env, "/old", &st) == RON_OK;
        bool has_new = b.disk->stat(b.env, "/new", &st) == RON_OK;
        SIM_CHECK(b.sim, has_old != has_new); /* a rename is never torn */
        kept_rename += has_new;
        kept_create += b.disk->stat(b.env, "/created", &st) == RON_OK;
        sim_free(b.sim);
    }
    assert_in_range(kept_create, 1, seeds - 1);
    assert_in_range(kept_rename, 1, seeds - 1);
}

static void test_disk__synced_names__stay(void **state)
{
    struct ron_file_stat st;

    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        struct box b = box_new(support_seed() + i, "crash_keep_meta_ppm=500000");

        (void)durable_file(&b, "/old", 1, 10);
        assert_int_equal(b.disk->mkdir(b.env, "/d", 0700, NULL), RON_OK);
        assert_int_equal(b.disk->rename(b.env, "/old", "/d/new", NULL), RON_OK);
        assert_int_equal(b.disk->sync_dir(b.env, "/d", NULL), RON_OK);
        assert_int_equal(b.disk->sync_dir(b.env, "/", NULL), RON_OK);
        reboot(&b);
        SIM_CHECK(b.sim, b.disk->stat(b.env, "/d/new", &st) == RON_OK);
        SIM_CHECK(b.sim, b.disk->stat(b.env, "/old", &st) == RON_NOTFOUND);
        sim_free(b.sim);
    }
}

static void test_disk__failed_sync__forgets_and_a_second_does_not_help(void **state)
{
    unsigned lost = 0;

    (void)state;
    for (uint64_t i = 0; i < 50; i++) {
        struct box b = box_new(support_seed() + i, "");
        int fd = durable_file(&b, "/x", 1, 100);
        size_t others = 0;

        assert_int_equal(b.disk->pwrite(b.env, fd, "\2\2\2\2", 4, 0, NULL), RON_OK);
        sim_options(b.sim)->disk_sync_fail_ppm = 1000000;
        assert_int_equal(b.disk->sync(b.env, fd, true, NULL), RON_IO);
        sim_options(b.sim)->disk_sync_fail_ppm = 0;
        assert_int_equal(b.disk->sync(b.env, fd, true, NULL), RON_OK);
        assert_int_equal(count_bytes(&b, "/x", 2, &others), 4); /* the cache still shows it */
        reboot(&b);
        lost += count_bytes(&b, "/x", 2, &others) == 0;
        sim_free(b.sim);
    }
    assert_in_range(lost, 1, 49);
}

static void test_disk__process_killed__keeps_unsynced_writes(void **state)
{
    struct box b = box_new(support_seed(), "crash_apply_weight=0");
    int fd = open_rw(&b, "/x");
    size_t others = 0;

    (void)state;
    assert_int_equal(b.disk->pwrite(b.env, fd, "\5\5", 2, 0, NULL), RON_OK);
    sim_host_kill(b.host);
    assert_int_equal(b.disk->pwrite(b.env, fd, "\6", 1, 0, NULL), RON_IO);
    b.env = sim_host_boot(b.host);
    assert_int_equal(count_bytes(&b, "/x", 5, &others), 2);
    sim_free(b.sim);
}

static void test_disk__lock__ends_with_close_and_with_the_life(void **state)
{
    struct box b = box_new(7, "");
    int first = open_rw(&b, "/a");
    int second = open_rw(&b, "/a");

    (void)state;
    assert_int_equal(b.disk->lock(b.env, first, NULL), RON_OK);
    assert_int_equal(b.disk->lock(b.env, second, NULL), RON_AGAIN);
    b.disk->close(b.env, first);
    assert_int_equal(b.disk->lock(b.env, second, NULL), RON_OK);
    assert_int_equal(b.disk->sync(b.env, second, false, NULL), RON_OK);
    assert_int_equal(b.disk->sync_dir(b.env, "/", NULL), RON_OK);
    reboot(&b);
    assert_int_equal(b.disk->lock(b.env, open_rw(&b, "/a"), NULL), RON_OK);
    sim_free(b.sim);
}

static void test_disk__full__takes_what_fits(void **state)
{
    struct box b = box_new(support_seed(), "disk_capacity_bytes=1000");
    int fd = open_rw(&b, "/x");
    uint8_t bytes[900] = {0};
    uint64_t size = 0;
    uint64_t free_bytes = 1;

    (void)state;
    assert_int_equal(b.disk->pwrite(b.env, fd, bytes, sizeof bytes, 0, NULL), RON_OK);
    assert_int_equal(b.disk->pwrite(b.env, fd, bytes, sizeof bytes, 50, NULL), RON_OK);
    assert_int_equal(b.disk->free_bytes(b.env, "/", &free_bytes), RON_OK);
    assert_int_equal(free_bytes, 50);
    assert_int_equal(b.disk->pwrite(b.env, fd, bytes, sizeof bytes, 900, NULL), RON_LIMIT);
    assert_int_equal(b.disk->size(b.env, fd, &size), RON_OK);
    assert_int_equal(size, 1000);
    assert_int_equal(b.disk->truncate(b.env, fd, 1001, NULL), RON_LIMIT);
    assert_int_equal(b.disk->truncate(b.env, fd, 10, NULL), RON_OK);
    assert_int_equal(b.disk->pwrite(b.env, fd, bytes, sizeof bytes, 10, NULL), RON_OK);
    assert_int_equal(b.disk->remove(b.env, "/x", NULL), RON_OK);
    assert_int_equal(b.disk->free_bytes(b.env, "/", &free_bytes), RON_OK);
    assert_int_equal(free_bytes, 90); /* the file is still open */
    b.disk->close(b.env, fd);
    assert_int_equal(b.disk->free_bytes(b.env, "/", &free_bytes), RON_OK);
    assert_int_equal(free_bytes, 1000);
    sim_free(b.sim);
}

/* Does everything once; true when something failed. */
static bool work(struct box *b, size_t *ret_wrong)
{
    uint8_t bytes[1000];
    uint8_t back[1000];
    size_t len = 0;
    int fd = -1;
    bool failed = b->disk->open(b->env, "/x", RW, 0600, &fd, NULL) != RON_OK;

    if (failed) {
        return true;
    }
    memset(bytes, 9, sizeof bytes);
    failed = b->disk->pwrite(b->env, fd, bytes, sizeof bytes, 0, NULL) != RON_OK ||
             b->disk->sync(b->env, fd, true, NULL) != RON_OK ||
             b->disk->pread(b->env, fd, back, sizeof back, 0, &len) != RON_OK ||
             b->disk->rename(b->env, "/x", "/y", NULL) != RON_OK ||
             b->disk->remove(b->env, "/y", NULL) != RON_OK ||
             b->disk->sync_dir(b->env, "/", NULL) != RON_OK;
    for (size_t i = 0; i < len; i++) {
        *ret_wrong += back[i] != 9;
    }
    b->disk->close(b->env, fd);
    return failed;
}

static void test_disk__each_fault_on__is_seen(void **state)
{
    static const struct {
        const char *option;
        enum sim_event event;
        bool fails; /* otherwise it is seen in the bytes */
    } faults[] = {
        {"disk_write_fail_ppm=100000", SIM_EV_WRITE_FAIL, true},
        {"disk_full_ppm=100000", SIM_EV_DISK_FULL, true},
        {"disk_sync_fail_ppm=100000", SIM_EV_SYNC_FAIL, true},
        {"disk_meta_fail_ppm=100000", SIM_EV_META_FAIL, true},
        {"disk_rot_ppm=100000", SIM_EV_ROT, false},
        {"disk_bad_sector_ppm=100000", SIM_EV_BAD_SECTOR, true},
        {"net_no_fd_ppm=100000", SIM_EV_NO_FD, true},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(faults); i++) {
        struct box b = box_new(support_seed(), faults[i].option);
        size_t wrong = 0;
        bool failed = false;
        int rounds = 0;

        while (!failed && wrong == 0 && rounds++ < 1000) {
            failed = work(&b, &wrong);
        }
        SIM_CHECK(b.sim, sim_count(b.sim, faults[i].event) > 0);
        SIM_CHECK(b.sim, failed == faults[i].fails && (wrong > 0) != faults[i].fails);
        sim_free(b.sim);
    }
}

static void test_disk__damage_on_demand__shows_and_is_mended_by_writing(void **state)
{
    struct box b = box_new(support_seed(), "");
    int fd = durable_file(&b, "/x", 1, 4 * SIM_SECTOR_BYTES);
    uint8_t bytes[SIM_SECTOR_BYTES];
    size_t others = 0;
    size_t len = 0;

    (void)state;
    sim_disk_flip_bit(b.host, "/x", 700, 3);
    assert_int_equal(count_bytes(&b, "/x", 1, &others), 4 * SIM_SECTOR_BYTES - 1);
    assert_int_equal(count_bytes(&b, "/x", 1 ^ 8, &others), 1);
    assert_int_equal(b.disk->pwrite(b.env, fd, "\1", 1, 700, NULL), RON_OK);
    assert_int_equal(count_bytes(&b, "/x", 1, &others), 4 * SIM_SECTOR_BYTES);

    sim_disk_bad_sector(b.host, "/x", SIM_SECTOR_BYTES);
    assert_int_equal(b.disk->pread(b.env, fd, bytes, 1, SIM_SECTOR_BYTES - 1, &len), RON_OK);
    assert_int_equal(b.disk->pread(b.env, fd, bytes, 2, SIM_SECTOR_BYTES - 1, &len), RON_IO);
    sim_disk_show_faults(b.host, false);
    assert_int_equal(b.disk->pread(b.env, fd, bytes, 2, SIM_SECTOR_BYTES - 1, &len), RON_OK);
    sim_disk_show_faults(b.host, true);
    reboot(&b);
    fd = open_rw(&b, "/x");
    assert_int_equal(b.disk->pread(b.env, fd, bytes, 2, SIM_SECTOR_BYTES - 1, &len), RON_IO);
    memset(bytes, 1, sizeof bytes);
    assert_int_equal(b.disk->pwrite(b.env, fd, bytes, sizeof bytes, SIM_SECTOR_BYTES, NULL),
                     RON_OK);
    assert_int_equal(count_bytes(&b, "/x", 1, &others), 4 * SIM_SECTOR_BYTES);
    sim_free(b.sim);
}

static void test_disk__power_lost_in_operation_n__ends_the_life_there(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 20; n++) {
        struct box b = box_new(support_seed() + n, "");
        size_t wrong = 0;
        uint64_t before = sim_host_disk_ops(b.host);

        sim_host_power_loss_in(b.host, n);
        while (!work(&b, &wrong)) {
        }
        assert_true(sim_env_is_dead(b.env));
        assert_int_equal(sim_host_disk_ops(b.host), before + n);
        b.env = sim_host_boot(b.host);
        assert_false(work(&b, &wrong));
        sim_free(b.sim);
    }
}

static void test_disk__wall_clocks__differ_and_jump(void **state)
{
    struct box b = box_new(support_seed(), "wall_skew_max_ms=100000,wall_jump_ppm=100000");
    struct sim_host *other = sim_host_new(b.sim, "other");
    bool back = false;
    uint64_t last = 0;

    (void)state;
    assert_true(ron_env_wall_ms(b.env) != ron_env_wall_ms(sim_host_env(other)));
    assert_int_equal(ron_env_now_ns(b.env), ron_env_now_ns(sim_host_env(other)));
    for (int i = 0; i < 1000; i++) {
        uint64_t now = ron_env_wall_ms(b.env);
        back = back || now < last;
        last = now;
    }
    assert_true(back);
    sim_free(b.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disk__calm_world__does_not_fail),
        cmocka_unit_test(test_disk__names__behave_like_linux),
        cmocka_unit_test(test_disk__synced__survives_power_loss),
        cmocka_unit_test(test_disk__unsynced_write__meets_each_fate),
        cmocka_unit_test(test_disk__garbage__spares_or_takes_the_neighbours),
        cmocka_unit_test(test_disk__random_use__agrees_with_an_array),
        cmocka_unit_test(test_disk__unsynced_names__stay_or_go),
        cmocka_unit_test(test_disk__synced_names__stay),
        cmocka_unit_test(test_disk__failed_sync__forgets_and_a_second_does_not_help),
        cmocka_unit_test(test_disk__process_killed__keeps_unsynced_writes),
        cmocka_unit_test(test_disk__lock__ends_with_close_and_with_the_life),
        cmocka_unit_test(test_disk__full__takes_what_fits),
        cmocka_unit_test(test_disk__each_fault_on__is_seen),
        cmocka_unit_test(test_disk__damage_on_demand__shows_and_is_mended_by_writing),
        cmocka_unit_test(test_disk__power_lost_in_operation_n__ends_the_life_there),
        cmocka_unit_test(test_disk__wall_clocks__differ_and_jump),
    };

    return cmocka_run_group_tests_name("sim.disk", tests, NULL, NULL);
}
