/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the disk ports of the Linux binding, their codes, and their refusal on a loop thread.
 * Method: a temporary directory; death tests for the blocking rule. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "ron/sync/sync.h"

static int open_new(const struct fixture *f, const char *name)
{
    int fd = -1;

    assert_int_equal(f->env->disk->open(f->env, fixture_path(f, name),
                                        RON_OPEN_READ | RON_OPEN_WRITE | RON_OPEN_CREATE, 0600, &fd,
                                        NULL),
                     RON_OK);
    return fd;
}

static void test_disk__write_and_read__move_everything(void **state)
{
    const struct fixture *f = *state;
    const struct ron_disk_ops *disk = f->env->disk;
    int fd = open_new(f, "a");
    char buf[16] = {0};
    size_t len = 0;
    uint64_t size = 0;
    struct ron_file_stat st;

    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(disk->pwrite(f->env, fd, "0123456789", 10, 4, NULL), RON_OK);
    assert_int_equal(disk->sync(f->env, fd, true, NULL), RON_OK);
    assert_int_equal(disk->sync(f->env, fd, false, NULL), RON_OK);
    assert_int_equal(disk->size(f->env, fd, &size), RON_OK);
    assert_int_equal(size, 14);
    disk->will_read(f->env, fd, 4, 10);
    disk->will_read(f->env, fd, 1 << 20, 4096); /* beyond the end */
    assert_int_equal(disk->pread(f->env, fd, buf, sizeof buf, 0, &len), RON_OK);
    assert_int_equal(len, 14);
    assert_memory_equal(buf,
                        "\0\0\0\0"
                        "0123456789",
                        14);
    assert_int_equal(disk->pread(f->env, fd, buf, 4, 20, &len), RON_OK);
    assert_int_equal(len, 0);
    assert_int_equal(disk->truncate(f->env, fd, 5, NULL), RON_OK);
    assert_int_equal(disk->stat(f->env, fixture_path(f, "a"), &st), RON_OK);
    assert_int_equal(st.size_bytes, 5);
    assert_false(st.is_dir);
    assert_int_equal(st.mode, 0600);
    assert_true(st.mtime_ms > 0);
    disk->close(f->env, fd);
}

static bool is_direct(int fd)
{
    return (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
}

/* What fits goes past the cache where the file system can; what does not, through it. */
static void test_disk__direct__writes_what_is_and_is_not_aligned(void **state)
{
    const struct fixture *f = *state;
    const struct ron_disk_ops *disk = f->env->disk;
    int reader = open_new(f, "a");
    int fd = -1;
    _Alignas(RON_DIRECT_ALIGN) static char out[2 * RON_DIRECT_ALIGN];
    _Alignas(RON_DIRECT_ALIGN) static char in[sizeof out];
    size_t len = 0;
    bool direct;

    assert_int_equal(disk->open(f->env, fixture_path(f, "a"),
                                RON_OPEN_READ | RON_OPEN_WRITE | RON_OPEN_DIRECT, 0, &fd, NULL),
                     RON_OK);
    direct = is_direct(fd);
    memset(out, 'a', sizeof out);
    assert_int_equal(disk->pwrite(f->env, fd, out, sizeof out, 0, NULL), RON_OK);
    assert_int_equal(is_direct(fd), direct);
    assert_int_equal(disk->pread(f->env, reader, in, sizeof in, 0, &len), RON_OK);
    assert_int_equal(len, sizeof in);
    assert_memory_equal(in, out, sizeof in);
    /* Over what a reader has in the cache. */
    memset(out, 'b', RON_DIRECT_ALIGN);
    assert_int_equal(disk->pwrite(f->env, fd, out, RON_DIRECT_ALIGN, 0, NULL), RON_OK);
    assert_int_equal(is_direct(fd), direct);
    assert_int_equal(disk->pread(f->env, reader, in, sizeof in, 0, &len), RON_OK);
    assert_memory_equal(in, out, sizeof in);

    memset(out + 7, 'c', 20);
    assert_int_equal(disk->pwrite(f->env, fd, out + 7, 20, 7, NULL), RON_OK);
    assert_false(is_direct(fd));
    assert_int_equal(disk->sync(f->env, fd, true, NULL), RON_OK);
    assert_int_equal(disk->pread(f->env, reader, in, sizeof in, 0, &len), RON_OK);
    assert_memory_equal(in, out, sizeof in);
    disk->close(f->env, fd);

    assert_int_equal(
        disk->open(f->env, fixture_path(f, "a"), RON_OPEN_READ | RON_OPEN_DIRECT, 0, &fd, NULL),
        RON_OK);
    assert_int_equal(disk->pread(f->env, fd, in + 1, 99, 5, &len), RON_OK);
    assert_int_equal(len, 99);
    assert_memory_equal(in + 1, out + 5, 99);
    disk->close(f->env, fd);
    disk->close(f->env, reader);
}

static void test_disk__stat__tells_mode_and_owner_by_path_and_descriptor(void **state)
{
    const struct fixture *f = *state;
    const struct ron_disk_ops *disk = f->env->disk;
    int fd = open_new(f, "a");
    struct ron_file_stat by_path = {0};
    struct ron_file_stat by_fd = {0};

    assert_int_equal(fchmod(fd, 0640), 0);
    assert_int_equal(disk->stat(f->env, fixture_path(f, "a"), &by_path), RON_OK);
    assert_int_equal(disk->stat_fd(f->env, fd, &by_fd), RON_OK);
    assert_int_equal(by_path.mode, 0640);
    assert_int_equal(by_fd.mode, 0640);
    assert_true(by_path.owned);
    assert_true(by_fd.owned);
    assert_true(ron_file_same(&by_path, &by_fd));
    disk->close(f->env, open_new(f, "b"));
    assert_int_equal(disk->stat(f->env, fixture_path(f, "b"), &by_path), RON_OK);
    assert_false(ron_file_same(&by_path, &by_fd));
    if (geteuid() == 0) { /* only root may give a file away */
        assert_int_equal(fchown(fd, 1, 1), 0);
        assert_int_equal(disk->stat_fd(f->env, fd, &by_fd), RON_OK);
        assert_false(by_fd.owned);
    }
    disk->close(f->env, fd);
}

static void test_disk__stat__knows_a_file_from_other_things(void **state)
{
    const struct fixture *f = *state;
    const struct ron_disk_ops *disk = f->env->disk;
    struct ron_file_stat st = {0};

    disk->close(f->env, open_new(f, "a"));
    assert_int_equal(disk->stat(f->env, fixture_path(f, "a"), &st), RON_OK);
    assert_true(st.is_file);
    assert_int_equal(mkfifo(fixture_path(f, "pipe"), 0600), 0);
    assert_int_equal(disk->stat(f->env, fixture_path(f, "pipe"), &st), RON_OK);
    assert_false(st.is_file);
    assert_false(st.is_dir);
    assert_int_equal(disk->stat(f->env, fixture_path(f, ""), &st), RON_OK);
    assert_false(st.is_file);
    assert_true(st.is_dir);
}

static void test_disk__lock__is_one_descriptors_until_it_is_closed(void **state)
{
    const struct fixture *f = *state;
    const struct ron_disk_ops *disk = f->env->disk;
    struct ron_err err = {0};
    int first = open_new(f, "a");
    int second = -1;
    int status = 0;
    pid_t pid;

    assert_int_equal(disk->open(f->env, fixture_path(f, "a"), RON_OPEN_WRITE, 0, &second, NULL),
                     RON_OK);
    assert_int_equal(disk->lock(f->env, first, NULL), RON_OK);
    assert_int_equal(disk->lock(f->env, first, NULL), RON_OK); /* its own */
    assert_int_equal(disk->lock(f->env, second, &err), RON_AGAIN);
    disk->close(f->env, first);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) { /* takes it and dies without a word */
        int own = -1;

        if (disk->open(f->env, fixture_path(f, "a"), RON_OPEN_WRITE, 0, &own, NULL) != RON_OK ||
            disk->lock(f->env, own, NULL) != RON_OK) {
            _exit(1);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(disk->lock(f->env, second, NULL), RON_OK);
    disk->close(f->env, second);
}

static void test_disk__open_flags__mean_what_they_say(void **state)
{
    const struct fixture *f = *state;
    const struct ron_disk_ops *disk = f->env->disk;
    struct ron_err err = {0};
    uint64_t size = 99;
    int fd = -1;

    assert_int_equal(disk->open(f->env, fixture_path(f, "x"), RON_OPEN_READ, 0, &fd, &err),
                     RON_NOTFOUND);
    assert_non_null(strstr(err.msg, "/x"));
    fd = open_new(f, "x");
    assert_int_equal(disk->pwrite(f->env, fd, "abc", 3, 0, NULL), RON_OK);
    disk->close(f->env, fd);
    assert_int_equal(disk->open(f->env, fixture_path(f, "x"),
                                RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_EXCL, 0600, &fd, &err),
                     RON_EXISTS);
    assert_int_equal(
        disk->open(f->env, fixture_path(f, "x"), RON_OPEN_WRITE | RON_OPEN_TRUNC, 0, &fd, NULL),
        RON_OK);
    assert_int_equal(disk->size(f->env, fd, &size), RON_OK);
    assert_int_equal(size, 0);
    disk->close(f->env, fd);
}

static void test_disk__plain_only__refuses_all_but_files_and_waits_for_none(void **state)
{
    const struct fixture *f = *state;
    const struct ron_disk_ops *disk = f->env->disk;
    static const char *const names[] = {"link", "pipe", "dir", "device"};
    struct ron_file_stat st = {0};
    int fd = open_new(f, "file");
    size_t fds;

    disk->close(f->env, fd);
    assert_int_equal(symlink("file", fixture_path(f, "link")), 0);
    assert_int_equal(symlink("/dev/zero", fixture_path(f, "device")), 0);
    assert_int_equal(mkfifo(fixture_path(f, "pipe"), 0600), 0);
    assert_int_equal(mkdir(fixture_path(f, "dir"), 0700), 0);
    fds = fixture_open_fds();
    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        struct ron_err err = {0};

        assert_int_equal(disk->open(f->env, fixture_path(f, names[i]),
                                    RON_OPEN_READ | RON_OPEN_PLAIN, 0, &fd, &err),
                         RON_INVALID);
        assert_non_null(strstr(err.msg, names[i]));
        assert_int_equal(disk->stat_link(f->env, fixture_path(f, names[i]), &st), RON_OK);
        assert_false(st.is_file);
        assert_int_equal(st.is_dir, i == 2);
    }
    assert_int_equal(fixture_open_fds(), fds);
    assert_int_equal(disk->stat(f->env, fixture_path(f, "link"), &st), RON_OK);
    assert_true(st.is_file);
    assert_int_equal(disk->stat_link(f->env, fixture_path(f, "none"), &st), RON_NOTFOUND);
    assert_int_equal(
        disk->open(f->env, fixture_path(f, "file"), RON_OPEN_READ | RON_OPEN_PLAIN, 0, &fd, NULL),
        RON_OK);
    disk->close(f->env, fd);
}

struct names {
    char text[256];
    int stop_after;
};

static bool gather(void *arg, const char *name, bool is_dir)
{
    struct names *names = arg;
    size_t used = strlen(names->text);

    (void)snprintf(names->text + used, sizeof names->text - used, "%s%s ", name, is_dir ? "/" : "");
    return --names->stop_after != 0;
}

static void test_disk__names__change_and_are_listed(void **state)
{
    const struct fixture *f = *state;
    const struct ron_disk_ops *disk = f->env->disk;
    struct names names = {.stop_after = -1};
    uint64_t bytes = 0;

    disk->close(f->env, open_new(f, "one"));
    assert_int_equal(disk->mkdir(f->env, fixture_path(f, "sub"), 0700, NULL), RON_OK);
    assert_int_equal(disk->mkdir(f->env, fixture_path(f, "sub"), 0700, NULL), RON_EXISTS);
    assert_int_equal(disk->rename(f->env, fixture_path(f, "one"), fixture_path(f, "sub/two"), NULL),
                     RON_OK);
    assert_int_equal(disk->link(f->env, fixture_path(f, "sub/two"), fixture_path(f, "three"), NULL),
                     RON_OK);
    assert_int_equal(disk->link(f->env, fixture_path(f, "sub/two"), fixture_path(f, "three"), NULL),
                     RON_EXISTS);
    assert_int_equal(disk->sync_dir(f->env, f->dir, NULL), RON_OK);
    assert_int_equal(disk->list(f->env, f->dir, gather, &names, NULL), RON_OK);
    assert_non_null(strstr(names.text, "sub/ "));
    assert_non_null(strstr(names.text, "three "));
    assert_int_equal(strlen(names.text), strlen("sub/ three "));
    names = (struct names){.stop_after = 1};
    assert_int_equal(disk->list(f->env, f->dir, gather, &names, NULL), RON_OK);
    assert_null(strchr(strchr(names.text, ' ') + 1, ' '));
    assert_int_equal(disk->rmdir(f->env, fixture_path(f, "sub"), NULL), RON_EXISTS);
    assert_int_equal(disk->remove(f->env, fixture_path(f, "sub/two"), NULL), RON_OK);
    assert_int_equal(disk->remove(f->env, fixture_path(f, "sub/two"), NULL), RON_NOTFOUND);
    assert_int_equal(disk->rmdir(f->env, fixture_path(f, "sub"), NULL), RON_OK);
    assert_int_equal(disk->free_bytes(f->env, f->dir, &bytes), RON_OK);
    assert_true(bytes > 0);
    assert_int_equal(disk->sync_dir(f->env, fixture_path(f, "three"), NULL), RON_INVALID);
    assert_int_equal(disk->list(f->env, fixture_path(f, "none"), gather, &names, NULL),
                     RON_NOTFOUND);
}

static void test_disk__no_descriptors_left__is_a_limit(void **state)
{
    const struct fixture *f = *state;
    struct rlimit before;
    struct rlimit none;
    int fd = -1;
    enum ron_rc rc;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    rc = f->env->disk->open(f->env, fixture_path(f, "y"), RON_OPEN_WRITE | RON_OPEN_CREATE, 0600,
                            &fd, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(rc, RON_LIMIT);
}

static void test_disk__device_full__is_a_limit(void **state)
{
    const struct fixture *f = *state;
    struct ron_err err = {0};
    int fd = -1;

    assert_int_equal(f->env->disk->open(f->env, "/dev/full", RON_OPEN_WRITE, 0, &fd, NULL), RON_OK);
    assert_int_equal(f->env->disk->pwrite(f->env, fd, "x", 1, 0, &err), RON_LIMIT);
    assert_int_equal(err.sys_errno, ENOSPC);
    f->env->disk->close(f->env, fd);
}

static void open_on_loop_thread(void *arg)
{
    const struct fixture *f = arg;
    int fd = -1;

    (void)ron_thread_set_may_block(false);
    (void)f->env->disk->open(f->env, "/dev/null", RON_OPEN_READ, 0, &fd, NULL);
}

static void sync_with_a_lock_held(void *arg)
{
    const struct fixture *f = arg;
    struct ron_mutex mutex;

    ron_mutex_init(&mutex, RON_RANK_LEAF, "held.by.test");
    ron_mutex_lock(&mutex);
    (void)f->env->disk->sync(f->env, 0, false, NULL);
}

static void test_disk__port_on_a_loop_thread_or_under_a_lock__aborts(void **state)
{
    struct fixture *f = *state;

    if (!RON_CHECKED) {
        skip(); /* the release build counts the breach instead */
    }
    support_death(open_on_loop_thread, f, "sync breach loop at 'open'");
    support_death(sync_with_a_lock_held, f, "sync breach held at 'sync'", "held.by.test");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_disk__write_and_read__move_everything),
        CASE(test_disk__direct__writes_what_is_and_is_not_aligned),
        CASE(test_disk__stat__tells_mode_and_owner_by_path_and_descriptor),
        CASE(test_disk__stat__knows_a_file_from_other_things),
        CASE(test_disk__lock__is_one_descriptors_until_it_is_closed),
        CASE(test_disk__open_flags__mean_what_they_say),
        CASE(test_disk__plain_only__refuses_all_but_files_and_waits_for_none),
        CASE(test_disk__names__change_and_are_listed),
        CASE(test_disk__no_descriptors_left__is_a_limit),
        CASE(test_disk__device_full__is_a_limit),
        CASE(test_disk__port_on_a_loop_thread_or_under_a_lock__aborts),
    };

    return cmocka_run_group_tests_name("io.disk", tests, NULL, NULL);
}
