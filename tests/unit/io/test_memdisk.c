/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the disk in memory does what a disk does, and keeps its maximum.
 * Method: random operations on it and on a real directory, whose codes and contents must agree;
 * then what a disk has not: its maximum, and pages that take no memory. Threads write and read one
 * file. */
#include "fixture.h"

#include "ron/io/file.h"
#include "ron/io/memdisk.h"
#include "ron/sync/sync.h"

enum { PAGE = RON_MEMDISK_PAGE, NAMES = 12, FDS = 6, ROOMY = 64 << 20, STEPS = 20000 };

static struct ron_memdisk *make(const struct fixture *f, uint64_t bytes_max)
{
    struct ron_memdisk *disk = NULL;

    assert_int_equal(ron_memdisk_new(f->env, bytes_max, &disk, NULL), RON_OK);
    return disk;
}

static int open_file(const struct ron_env *env, const char *path)
{
    int fd = -1;

    assert_int_equal(env->disk->open(env, path, RON_OPEN_READ | RON_OPEN_WRITE | RON_OPEN_CREATE,
                                     0600, &fd, NULL),
                     RON_OK);
    return fd;
}

/* ---- beside a real disk ---------------------------------------------------------------------- */

struct twin {
    const struct ron_env *mem;
    const struct ron_env *real;
    char root[64];
    int mem_fd[FDS]; /* -1 = closed */
    int real_fd[FDS];
    bool writes[FDS];
    bool is_dir[FDS];
};

static const char *const names[NAMES] = {"a",   "b",     "c",     "a/x",   "a/y",  "b/x",
                                         "a/d", "a/d/x", "b/x/q", "./b/y", "b//z", "c/x"};

static const char *real_path(const struct twin *t, size_t name, char buf[128])
{
    (void)snprintf(buf, 128, "%s/%s", t->root, names[name]);
    return buf;
}

static bool add_name(void *arg, const char *name, bool is_dir)
{
    uint64_t *sum = arg;
    uint64_t hash = is_dir ? 3 : 5;

    for (; *name != '\0'; name++) {
        hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
    }
    *sum += hash; /* in any order */
    return true;
}

static void twin_names(struct twin *t, struct ron_rand *rand)
{
    const struct ron_disk_ops *m = t->mem->disk;
    const struct ron_disk_ops *r = t->real->disk;
    size_t one = (size_t)ron_rand_below(rand, NAMES);
    size_t two = (size_t)ron_rand_below(rand, NAMES);
    struct ron_file_stat ms = {0};
    struct ron_file_stat rs = {0};
    uint64_t mem_sum = 0;
    uint64_t real_sum = 0;
    char p[128];
    char q[128];

    (void)real_path(t, one, p);
    (void)real_path(t, two, q);
    switch (ron_rand_below(rand, 8)) {
    case 0:
        assert_int_equal(m->mkdir(t->mem, names[one], 0700, NULL),
                         r->mkdir(t->real, p, 0700, NULL));
        break;
    case 1:
        assert_int_equal(m->rmdir(t->mem, names[one], NULL), r->rmdir(t->real, p, NULL));
        break;
    case 2:
        assert_int_equal(m->remove(t->mem, names[one], NULL), r->remove(t->real, p, NULL));
        break;
    case 3:
    case 4:
        assert_int_equal(m->rename(t->mem, names[one], names[two], NULL),
                         r->rename(t->real, p, q, NULL));
        break;
    case 5:
        assert_int_equal(m->link(t->mem, names[one], names[two], NULL),
                         r->link(t->real, p, q, NULL));
        break;
    case 6:
        assert_int_equal(m->list(t->mem, names[one], add_name, &mem_sum, NULL),
                         r->list(t->real, p, add_name, &real_sum, NULL));
        assert_int_equal(mem_sum, real_sum);
        break;
    default:
        assert_int_equal(m->stat(t->mem, names[one], &ms), r->stat(t->real, p, &rs));
        assert_int_equal(ms.size_bytes, rs.size_bytes);
        assert_int_equal(ms.is_dir, rs.is_dir);
        assert_int_equal(ms.is_file, rs.is_file);
        assert_int_equal(ms.mode, rs.mode);
        break;
    }
}

static void twin_open(struct twin *t, struct ron_rand *rand, size_t slot)
{
    static const uint32_t flags[] = {
        RON_OPEN_READ,
        RON_OPEN_READ | RON_OPEN_PLAIN,
        RON_OPEN_READ | RON_OPEN_WRITE,
        RON_OPEN_READ | RON_OPEN_WRITE | RON_OPEN_CREATE,
        RON_OPEN_READ | RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_EXCL,
        RON_OPEN_READ | RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_TRUNC,
    };
    size_t name = (size_t)ron_rand_below(rand, NAMES);
    size_t how = (size_t)ron_rand_below(rand, RON_ARRAY_LEN(flags));
    struct ron_file_stat st;
    char p[128];
    enum ron_rc rc;

    (void)real_path(t, name, p);
    rc = t->mem->disk->open(t->mem, names[name], flags[how], 0640, &t->mem_fd[slot], NULL);
    assert_int_equal(rc,
                     t->real->disk->open(t->real, p, flags[how], 0640, &t->real_fd[slot], NULL));
    if (rc == RON_OK) {
        t->writes[slot] = (flags[how] & RON_OPEN_WRITE) != 0;
        assert_int_equal(t->mem->disk->stat_fd(t->mem, t->mem_fd[slot], &st), RON_OK);
        t->is_dir[slot] = st.is_dir;
    }
}

static void twin_bytes(struct twin *t, struct ron_rand *rand, size_t slot)
{
    static uint8_t mem_bytes[3 * PAGE];
    static uint8_t real_bytes[3 * PAGE];
    uint64_t off = ron_rand_below(rand, 3 * PAGE);
    size_t len = (size_t)ron_rand_below(rand, 2 * PAGE);
    int mem_fd = t->mem_fd[slot];
    int real_fd = t->real_fd[slot];
    size_t mem_len = 0;
    size_t real_len = 0;
    uint64_t sizes[2] = {0};

    switch (ron_rand_below(rand, t->writes[slot] ? 5 : 2)) {
    case 0:
        assert_int_equal(t->mem->disk->pread(t->mem, mem_fd, mem_bytes, len, off, &mem_len),
                         t->real->disk->pread(t->real, real_fd, real_bytes, len, off, &real_len));
        assert_int_equal(mem_len, real_len);
        assert_memory_equal(mem_bytes, real_bytes, mem_len);
        break;
    case 1:
        if (!t->is_dir[slot]) { /* the size of a directory is the file system's affair */
            assert_int_equal(t->mem->disk->size(t->mem, mem_fd, &sizes[0]), RON_OK);
            assert_int_equal(t->real->disk->size(t->real, real_fd, &sizes[1]), RON_OK);
            assert_int_equal(sizes[0], sizes[1]);
        }
        break;
    case 2:
        assert_int_equal(t->mem->disk->truncate(t->mem, mem_fd, off, NULL),
                         t->real->disk->truncate(t->real, real_fd, off, NULL));
        break;
    default:
        memset(mem_bytes, 0, len);
        if (ron_rand_chance(rand, 2, 3)) {
            ron_rand_bytes(rand, mem_bytes, len);
        }
        assert_int_equal(t->mem->disk->pwrite(t->mem, mem_fd, mem_bytes, len, off, NULL),
                         t->real->disk->pwrite(t->real, real_fd, mem_bytes, len, off, NULL));
        break;
    }
}

static void test_memdisk__random_operations__agree_with_a_real_disk(void **state)
{
    const struct fixture *f = *state;
    struct ron_memdisk *disk = make(f, ROOMY);
    struct ron_rand rand = support_rand();
    struct twin t = {.mem = ron_memdisk_env(disk), .real = f->env};

    memcpy(t.root, f->dir, sizeof t.root);
    memset(t.mem_fd, 0xff, sizeof t.mem_fd);
    for (int i = 0; i < STEPS; i++) {
        size_t slot = (size_t)ron_rand_below(&rand, FDS);

        if (ron_rand_chance(&rand, 1, 2)) {
            twin_names(&t, &rand);
        } else if (t.mem_fd[slot] < 0) {
            twin_open(&t, &rand, slot);
        } else if (ron_rand_chance(&rand, 1, 6)) {
            t.mem->disk->close(t.mem, t.mem_fd[slot]);
            t.real->disk->close(t.real, t.real_fd[slot]);
            t.mem_fd[slot] = -1;
        } else {
            twin_bytes(&t, &rand, slot);
        }
    }
    for (size_t i = 0; i < FDS; i++) {
        if (t.mem_fd[i] >= 0) {
            t.mem->disk->close(t.mem, t.mem_fd[i]);
            t.real->disk->close(t.real, t.real_fd[i]);
        }
    }
    ron_memdisk_free(disk);
}

/* ---- what is its own ------------------------------------------------------------------------- */

static void test_memdisk__full__refuses_and_changes_nothing(void **state)
{
    const struct fixture *f = *state;
    struct ron_memdisk *disk = make(f, 4 * PAGE + 100);
    const struct ron_env *env = ron_memdisk_env(disk);
    const struct ron_disk_ops *d = env->disk;
    static uint8_t bytes[5 * PAGE];
    uint64_t free_bytes = 0;
    uint64_t size = 0;
    int a = open_file(env, "a");
    int b = open_file(env, "b");

    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(d->pwrite(env, a, bytes, 3 * PAGE, 0, NULL), RON_OK);
    assert_int_equal(d->pwrite(env, a, bytes, 2 * PAGE, 2 * PAGE + 1, NULL), RON_LIMIT);
    assert_int_equal(d->size(env, a, &size), RON_OK);
    assert_int_equal(size, 3 * PAGE);
    assert_int_equal(d->truncate(env, b, 1, NULL), RON_OK);
    assert_int_equal(d->free_bytes(env, "/", &free_bytes), RON_OK);
    assert_int_equal(free_bytes, 100);
    assert_int_equal(d->truncate(env, b, PAGE + 1, NULL), RON_LIMIT);
    assert_int_equal(d->truncate(env, b, UINT64_MAX, NULL), RON_LIMIT);
    assert_int_equal(d->pwrite(env, b, bytes, 1, UINT64_MAX, NULL), RON_LIMIT);
    assert_int_equal(d->pwrite(env, b, bytes, PAGE, 0, NULL),
                     RON_OK); /* what is counted is there */
    assert_int_equal(d->truncate(env, a, PAGE, NULL), RON_OK);
    assert_int_equal(d->truncate(env, b, 3 * PAGE, NULL), RON_OK);
    d->close(env, a);
    d->close(env, b);
    assert_int_equal(d->remove(env, "b", NULL), RON_OK);
    assert_int_equal(d->free_bytes(env, "/", &free_bytes), RON_OK);
    assert_int_equal(free_bytes, 3 * PAGE + 100);
    ron_memdisk_free(disk);
}

static void test_memdisk__removed_while_open__lives_until_closed(void **state)
{
    const struct fixture *f = *state;
    struct ron_memdisk *disk = make(f, ROOMY);
    const struct ron_env *env = ron_memdisk_env(disk);
    const struct ron_disk_ops *d = env->disk;
    uint64_t free_bytes = 0;
    char c = 0;
    size_t len = 0;
    int fd = open_file(env, "a");

    assert_int_equal(d->pwrite(env, fd, "x", 1, 0, NULL), RON_OK);
    assert_int_equal(d->remove(env, "a", NULL), RON_OK);
    assert_int_equal(d->pread(env, fd, &c, 1, 0, &len), RON_OK);
    assert_int_equal(c, 'x');
    d->close(env, fd);
    assert_int_equal(d->free_bytes(env, "/", &free_bytes), RON_OK);
    assert_int_equal(free_bytes, ROOMY);
    ron_memdisk_free(disk);
}

static void test_memdisk__locked__by_one_descriptor_at_a_time(void **state)
{
    const struct fixture *f = *state;
    struct ron_memdisk *disk = make(f, ROOMY);
    const struct ron_env *env = ron_memdisk_env(disk);
    int a = open_file(env, "lock");
    int b = open_file(env, "lock");

    assert_int_equal(env->disk->lock(env, a, NULL), RON_OK);
    assert_int_equal(env->disk->lock(env, a, NULL), RON_OK);
    assert_int_equal(env->disk->lock(env, b, NULL), RON_AGAIN);
    env->disk->close(env, a);
    assert_int_equal(env->disk->lock(env, b, NULL), RON_OK);
    env->disk->close(env, b);
    ron_memdisk_free(disk);
}

static void test_memdisk__deep_and_many__bounded_and_freed(void **state)
{
    const struct fixture *f = *state;
    struct ron_memdisk *disk = make(f, ROOMY);
    const struct ron_env *env = ron_memdisk_env(disk);
    char name[RON_MEMDISK_NAME_MAX + 2];
    char path[64];
    int fds[RON_MEMDISK_FILES_MAX];
    int fd;
    enum ron_rc rc = RON_OK;

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(env->disk->mkdir(env, name, 0700, NULL), RON_INVALID);
    assert_int_equal(env->disk->mkdir(env, name + 1, 0700, NULL), RON_OK);
    /* A chain far deeper than any path, made from its end: freeing it must not recurse. */
    assert_int_equal(env->disk->mkdir(env, "top", 0700, NULL), RON_OK);
    for (int i = 0; i < 50000 && rc == RON_OK; i++) {
        rc = env->disk->mkdir(env, "next", 0700, NULL);
        if (rc == RON_OK) {
            assert_int_equal(env->disk->rename(env, "top", "next/top", NULL), RON_OK);
            assert_int_equal(env->disk->rename(env, "next", "top", NULL), RON_OK);
        }
    }
    assert_int_equal(rc, RON_OK);
    for (int i = 0; rc == RON_OK; i++) {
        (void)snprintf(path, sizeof path, "%d", i);
        rc = i > 20000 ? RON_TIMEOUT : env->disk->mkdir(env, path, 0700, NULL);
    }
    assert_int_equal(rc, RON_LIMIT);
    assert_int_equal(env->disk->rmdir(env, "0", NULL), RON_OK);
    for (size_t i = 0; i < RON_ARRAY_LEN(fds); i++) {
        fds[i] = open_file(env, "many");
    }
    assert_int_equal(env->disk->open(env, "many", RON_OPEN_READ, 0, &fd, NULL), RON_LIMIT);
    for (size_t i = 0; i < RON_ARRAY_LEN(fds); i++) {
        env->disk->close(env, fds[i]);
    }
    ron_memdisk_free(disk);
}

static void test_memdisk__file_functions__work_on_it(void **state)
{
    const struct fixture *f = *state;
    struct ron_memdisk *disk = make(f, ROOMY);
    const struct ron_env *env = ron_memdisk_env(disk);
    struct ron_buf buf;

    ron_buf_init(&buf, 100);
    assert_int_equal(ron_mkdirs(env, "/data/keys", 0700, NULL), RON_OK);
    assert_int_equal(ron_file_replace(env, "/data/keys/k", "one", 3, 0600, NULL), RON_OK);
    assert_int_equal(ron_file_replace(env, "data/keys/k", "three", 5, 0600, NULL), RON_OK);
    assert_int_equal(ron_file_read_all(env, "/data//keys/k", &buf, NULL), RON_OK);
    assert_string_equal(ron_buf_text(&buf), "three");
    assert_true(env->rand_u64 == f->env->rand_u64); /* the rest is the base's */
    assert_ptr_equal(env->net, f->env->net);
    ron_buf_done(&buf);
    ron_memdisk_free(disk);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { PIECES = 400, PIECE = 3000, READERS = 2 };

struct shared {
    const struct ron_env *env;
    struct ron_au64 written;
    int fd;
    struct ron_au64 wrong;
};

static void writer(void *arg)
{
    struct shared *s = arg;
    uint8_t bytes[PIECE];

    for (uint64_t i = 0; i < PIECES; i++) {
        memset(bytes, (int)(i % 255) + 1, sizeof bytes);
        if (s->env->disk->pwrite(s->env, s->fd, bytes, sizeof bytes, i * PIECE, NULL) != RON_OK) {
            ron_au64_store(&s->wrong, 1);
        }
        ron_au64_store(&s->written, i + 1);
    }
}

static void reader(void *arg)
{
    struct shared *s = arg;
    uint64_t seen;

    do {
        uint8_t bytes[PIECE];
        size_t len = 0;
        int fd = -1;

        seen = ron_au64_load(&s->written);
        if (seen == 0) {
            continue;
        }
        if (s->env->disk->open(s->env, "shared", RON_OPEN_READ, 0, &fd, NULL) != RON_OK ||
            s->env->disk->pread(s->env, fd, bytes, sizeof bytes, (seen - 1) * PIECE, &len) !=
                RON_OK ||
            len != sizeof bytes || bytes[0] != (seen - 1) % 255 + 1 ||
            memcmp(bytes, bytes + 1, sizeof bytes - 1) != 0) {
            ron_au64_store(&s->wrong, 1);
        }
        s->env->disk->close(s->env, fd);
    } while (seen < PIECES);
}

static void test_memdisk__readers_beside_a_writer__see_what_was_written(void **state)
{
    const struct fixture *f = *state;
    struct ron_memdisk *disk = make(f, ROOMY);
    struct ron_thread *thread[READERS + 1];
    struct shared one = {.env = ron_memdisk_env(disk)};

    one.fd = open_file(one.env, "shared");
    for (size_t i = 0; i <= READERS; i++) {
        const struct ron_thread_opts opts = {
            .name = "memdisk", .may_block = true, .main = i == 0 ? writer : reader, .arg = &one};

        assert_int_equal(ron_thread_start(&opts, &thread[i], NULL), RON_OK);
    }
    for (size_t i = 0; i <= READERS; i++) {
        ron_thread_join(thread[i]);
    }
    assert_int_equal(ron_au64_load(&one.wrong), 0);
    one.env->disk->close(one.env, one.fd);
    ron_memdisk_free(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        CASE(test_memdisk__random_operations__agree_with_a_real_disk),
        CASE(test_memdisk__full__refuses_and_changes_nothing),
        CASE(test_memdisk__removed_while_open__lives_until_closed),
        CASE(test_memdisk__locked__by_one_descriptor_at_a_time),
        CASE(test_memdisk__deep_and_many__bounded_and_freed),
        CASE(test_memdisk__file_functions__work_on_it),
        CASE(test_memdisk__readers_beside_a_writer__see_what_was_written),
#undef CASE
    };

    return cmocka_run_group_tests_name("io.memdisk", tests, NULL, NULL);
}
