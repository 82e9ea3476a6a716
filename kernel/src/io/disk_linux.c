/* SPDX-License-Identifier: Apache-2.0 */
/* disk_linux.c - files and directories of Linux behind the disk ports.
 *
 * Place: io. Every port but close is a blocking point of sync: it may not be reached on a loop
 * thread or with a lock held. (close of a file that was synced does not wait for the disk.)
 *
 * Invariants:
 *   I1 pread and pwrite move everything or say why not; the caller never sees a short transfer
 *      except at the end of a file.
 *   I2 sync that failed is reported and never repeated here: Linux forgets the failed pages, so a
 *      second sync would succeed without having written them.
 *   I3 on failure no descriptor is left open.
 *
 * Threads: no state of its own. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ron/base/assert.h"
#include "ron/sync/sync.h"
#include "sys_linux.h"

static enum ron_rc fail(const char *what, const char *path, struct ron_err *err)
{
    return ron_err_set_sys(err, ron__rc_of_errno(errno), errno, "%s %s", what, path);
}

/* Turns the hint of RON_OPEN_DIRECT on or off; false when that changes nothing. */
static bool set_direct(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);
    int wanted = on ? flags | O_DIRECT : flags & ~O_DIRECT;

    return flags >= 0 && flags != wanted &&
           RON_SYS("fcntl", EINVAL, fcntl(fd, F_SETFL, wanted)) == 0;
}

static enum ron_rc disk_open(const struct ron_env *env, const char *path, uint32_t flags,
                             uint32_t mode, int *ret_fd, struct ron_err *err)
{
    bool reads = (flags & RON_OPEN_READ) != 0;
    bool writes = (flags & RON_OPEN_WRITE) != 0;
    int sys_flags = O_CLOEXEC | (reads && writes ? O_RDWR : writes ? O_WRONLY : O_RDONLY);
    int fd;

    (void)env;
    RON_ASSERT(reads || writes);
    RON_ASSERT(RON_IMPLIES((flags & (RON_OPEN_CREATE | RON_OPEN_TRUNC)) != 0, writes));
    RON_ASSERT(RON_IMPLIES((flags & RON_OPEN_EXCL) != 0, (flags & RON_OPEN_CREATE) != 0));
    sys_flags |= (flags & RON_OPEN_CREATE ? O_CREAT : 0) | (flags & RON_OPEN_EXCL ? O_EXCL : 0) |
                 (flags & RON_OPEN_TRUNC ? O_TRUNC : 0) |
                 (flags & RON_OPEN_PLAIN ? O_NOFOLLOW | O_NONBLOCK | O_NOCTTY : 0);
    ron_blocking_point("open");
    fd = RON_SYS("open", EMFILE, open(path, sys_flags, (mode_t)mode));
    if (fd < 0 && (flags & RON_OPEN_PLAIN) != 0 && (errno == ELOOP || errno == ENXIO)) {
        return ron_err_set(err, RON_INVALID, "open %s: not a regular file", path);
    }
    if (fd < 0) {
        return fail("open", path, err);
    }
    if ((flags & RON_OPEN_PLAIN) != 0) {
        struct stat st;

        if (RON_SYS("fstat", EIO, fstat(fd, &st)) < 0) {
            ron__sys_close(fd); /* keeps errno and I3 */
            return fail("open", path, err);
        }
        if (!S_ISREG(st.st_mode)) {
            ron__sys_close(fd);
            return ron_err_set(err, RON_INVALID, "open %s: not a regular file", path);
        }
    }
    if ((flags & RON_OPEN_DIRECT) != 0) {
        (void)set_direct(fd, true); /* A file system without it has the cache. */
    }
    *ret_fd = fd;
    return RON_OK;
}

static void disk_close(const struct ron_env *env, int fd)
{
    (void)env;
    ron__sys_close(fd);
}

static enum ron_rc disk_pread(const struct ron_env *env, int fd, void *buf, size_t len,
                              uint64_t off, size_t *ret_len)
{
    size_t done = 0;

    (void)env;
    ron_blocking_point("pread");
    while (done < len) {
        ssize_t got =
            RON_SYS("pread", EIO, pread(fd, (char *)buf + done, len - done, (off_t)(off + done)));
        if (got < 0 && errno == EINVAL && set_direct(fd, false)) {
            continue; /* not aligned */
        }
        if (got < 0) {
            return ron__rc_of_errno(errno);
        }
        if (got == 0) {
            break;
        }
        done += (size_t)got;
    }
    *ret_len = done;
    return RON_OK;
}

static void disk_will_read(const struct ron_env *env, int fd, uint64_t off, size_t len)
{
    (void)env;
    ron_blocking_point("will_read"); /* It may wait for room in the disk's queue. */
    (void)posix_fadvise(fd, (off_t)off, (off_t)len, POSIX_FADV_WILLNEED);
}

static enum ron_rc disk_pwrite(const struct ron_env *env, int fd, const void *buf, size_t len,
                               uint64_t off, struct ron_err *err)
{
    size_t done = 0;

    (void)env;
    ron_blocking_point("pwrite");
    while (done < len) {
        ssize_t put =
            RON_SYS("pwrite", ENOSPC,
                    pwrite(fd, (const char *)buf + done, len - done, (off_t)(off + done)));
        if (put < 0 && errno == EINVAL && set_direct(fd, false)) {
            continue; /* not aligned */
        }
        if (put < 0) {
            return ron_err_set_sys(err, ron__rc_of_errno(errno), errno,
                                   "write of %zu bytes at %llu, after %zu", len,
                                   (unsigned long long)off, done);
        }
        done += (size_t)put;
    }
    return RON_OK;
}

static enum ron_rc disk_sync(const struct ron_env *env, int fd, bool data_only, struct ron_err *err)
{
    int ret;

    (void)env;
    ron_blocking_point("sync");
    ret = data_only ? RON_SYS("fdatasync", EIO, fdatasync(fd)) : RON_SYS("fsync", EIO, fsync(fd));
    if (ret < 0) {
        return ron_err_set_sys(err, ron__rc_of_errno(errno), errno, "sync");
    }
    return RON_OK;
}

static enum ron_rc disk_truncate(const struct ron_env *env, int fd, uint64_t size_bytes,
                                 struct ron_err *err)
{
    (void)env;
    ron_blocking_point("truncate");
    if (RON_SYS("ftruncate", ENOSPC, ftruncate(fd, (off_t)size_bytes)) < 0) {
        return ron_err_set_sys(err, ron__rc_of_errno(errno), errno, "truncate to %llu bytes",
                               (unsigned long long)size_bytes);
    }
    return RON_OK;
}

static enum ron_rc disk_size(const struct ron_env *env, int fd, uint64_t *ret_bytes)
{
    struct stat st;

    (void)env;
    ron_blocking_point("fstat");
    if (RON_SYS("fstat", EIO, fstat(fd, &st)) < 0) {
        return ron__rc_of_errno(errno);
    }
    *ret_bytes = (uint64_t)st.st_size;
    return RON_OK;
}

static struct ron_file_stat file_stat_of(const struct stat *st)
{
    return (struct ron_file_stat){
        .size_bytes = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
        .is_dir = S_ISDIR(st->st_mode),
        .is_file = S_ISREG(st->st_mode),
        .mtime_ms = st->st_mtim.tv_sec < 0 ? 0
                                           : (uint64_t)st->st_mtim.tv_sec * RON_MS_PER_S +
                                                 (uint64_t)st->st_mtim.tv_nsec / RON_NS_PER_MS,
        .mode = (uint32_t)st->st_mode & 07777,
        .owned = st->st_uid == geteuid(),
        .device = (uint64_t)st->st_dev,
        .number = (uint64_t)st->st_ino,
        .changed_ns = (uint64_t)st->st_ctim.tv_sec * RON_NS_PER_S + (uint64_t)st->st_ctim.tv_nsec,
    };
}

static enum ron_rc disk_stat(const struct ron_env *env, const char *path,
                             struct ron_file_stat *ret_stat)
{
    struct stat st;

    (void)env;
    ron_blocking_point("stat");
    if (RON_SYS("stat", EACCES, stat(path, &st)) < 0) {
        return ron__rc_of_errno(errno);
    }
    *ret_stat = file_stat_of(&st);
    return RON_OK;
}

static enum ron_rc disk_stat_link(const struct ron_env *env, const char *path,
                                  struct ron_file_stat *ret_stat)
{
    struct stat st;

    (void)env;
    ron_blocking_point("lstat");
    if (RON_SYS("lstat", EACCES, lstat(path, &st)) < 0) {
        return ron__rc_of_errno(errno);
    }
    *ret_stat = file_stat_of(&st);
    return RON_OK;
}

static enum ron_rc disk_stat_fd(const struct ron_env *env, int fd, struct ron_file_stat *ret_stat)
{
    struct stat st;

    (void)env;
    ron_blocking_point("fstat");
    if (RON_SYS("fstat", EIO, fstat(fd, &st)) < 0) {
        return ron__rc_of_errno(errno);
    }
    *ret_stat = file_stat_of(&st);
    return RON_OK;
}

/* Locks of the open file, not of the process (fcntl): another descriptor of ours counts as
 * another, and closing one that nobody locked gives nothing away. */
static enum ron_rc disk_lock(const struct ron_env *env, int fd, struct ron_err *err)
{
    (void)env;
    ron_blocking_point("flock");
    if (RON_SYS("flock", ENOLCK, flock(fd, LOCK_EX | LOCK_NB)) < 0) {
        return ron_err_set_sys(err, ron__rc_of_errno(errno), errno, "lock");
    }
    return RON_OK;
}

static enum ron_rc disk_rename(const struct ron_env *env, const char *from, const char *to,
                               struct ron_err *err)
{
    (void)env;
    ron_blocking_point("rename");
    return RON_SYS("rename", ENOSPC, rename(from, to)) < 0 ? fail("rename to", to, err) : RON_OK;
}

static enum ron_rc disk_link(const struct ron_env *env, const char *from, const char *to,
                             struct ron_err *err)
{
    (void)env;
    ron_blocking_point("link");
    return RON_SYS("link", ENOSPC, link(from, to)) < 0 ? fail("link to", to, err) : RON_OK;
}

static enum ron_rc disk_remove(const struct ron_env *env, const char *path, struct ron_err *err)
{
    (void)env;
    ron_blocking_point("remove");
    return RON_SYS("unlink", EACCES, unlink(path)) < 0 ? fail("remove", path, err) : RON_OK;
}

static enum ron_rc disk_mkdir(const struct ron_env *env, const char *path, uint32_t mode,
                              struct ron_err *err)
{
    (void)env;
    ron_blocking_point("mkdir");
    return RON_SYS("mkdir", ENOSPC, mkdir(path, (mode_t)mode)) < 0 ? fail("mkdir", path, err)
                                                                   : RON_OK;
}

static enum ron_rc disk_rmdir(const struct ron_env *env, const char *path, struct ron_err *err)
{
    (void)env;
    ron_blocking_point("rmdir");
    return RON_SYS("rmdir", EACCES, rmdir(path)) < 0 ? fail("rmdir", path, err) : RON_OK;
}

static enum ron_rc disk_sync_dir(const struct ron_env *env, const char *path, struct ron_err *err)
{
    int fd;
    int ret;

    (void)env;
    ron_blocking_point("sync_dir");
    fd = RON_SYS("open", EMFILE, open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0) {
        return fail("open directory", path, err);
    }
    ret = RON_SYS("fsync", EIO, fsync(fd));
    ron__sys_close(fd); /* keeps errno and I3 */
    return ret < 0 ? fail("sync directory", path, err) : RON_OK;
}

/* Some file systems do not tell the kind of an entry in the listing itself. */
static bool entry_is_dir(DIR *dir, const struct dirent *entry)
{
    struct stat st;

    if (entry->d_type != DT_UNKNOWN) {
        return entry->d_type == DT_DIR;
    }
    return fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static enum ron_rc disk_list(const struct ron_env *env, const char *path, ron_list_fn *each,
                             void *arg, struct ron_err *err)
{
    DIR *dir = NULL;
    enum ron_rc rc = RON_OK;
    bool more = true;

    (void)env;
    ron_blocking_point("list");
    if (RON_FAULT(RON_FAULT_SYSCALL, "opendir")) {
        errno = EMFILE;
    } else {
        dir = opendir(path);
    }
    if (dir == NULL) {
        return fail("list", path, err);
    }
    while (more) {
        const struct dirent *entry = NULL;

        errno = 0; /* the only way to tell the end of a directory from a failure */
        if (RON_FAULT(RON_FAULT_SYSCALL, "readdir")) {
            errno = EIO;
        } else {
            entry = readdir(dir);
        }
        if (entry == NULL) {
            rc = errno == 0 ? RON_OK : fail("list", path, err);
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            more = each(arg, entry->d_name, entry_is_dir(dir, entry));
        }
    }
    (void)closedir(dir);
    return rc;
}

static enum ron_rc disk_free_bytes(const struct ron_env *env, const char *path, uint64_t *ret_bytes)
{
    struct statvfs vfs;

    (void)env;
    ron_blocking_point("statvfs");
    if (RON_SYS("statvfs", EIO, statvfs(path, &vfs)) < 0) {
        return ron__rc_of_errno(errno);
    }
    *ret_bytes = ron_sat_mul_u64(vfs.f_bavail, vfs.f_frsize);
    return RON_OK;
}

const struct ron_disk_ops ron__disk_linux = {
    .open = disk_open,
    .close = disk_close,
    .pread = disk_pread,
    .will_read = disk_will_read,
    .pwrite = disk_pwrite,
    .sync = disk_sync,
    .truncate = disk_truncate,
    .size = disk_size,
    .stat = disk_stat,
    .stat_link = disk_stat_link,
    .stat_fd = disk_stat_fd,
    .lock = disk_lock,
    .rename = disk_rename,
    .link = disk_link,
    .remove = disk_remove,
    .mkdir = disk_mkdir,
    .rmdir = disk_rmdir,
    .sync_dir = disk_sync_dir,
    .list = disk_list,
    .free_bytes = disk_free_bytes,
};
