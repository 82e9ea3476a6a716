/* SPDX-License-Identifier: Apache-2.0 */
/* folder_linux.c - files below a folder, by openat2 with RESOLVE_BENEATH. */
#include "ron/io/folder.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ron/base/clock.h"
#include "ron/sync/sync.h"
#include "sys_linux.h"

enum ron_rc ron_folder_open(const char *path, int *ret_fd, struct ron_err *err)
{
    int fd;

    ron_blocking_point("open");
    fd = RON_SYS("open", EMFILE, open(path, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0) {
        enum ron_rc rc = errno == ENOTDIR ? RON_INVALID : ron__rc_of_errno(errno);

        return ron_err_set_sys(err, rc, errno, "open the folder %s", path);
    }
    *ret_fd = fd;
    return RON_OK;
}

/* What refused the way out of the folder says EXDEV, a loop of links ELOOP; an absolute path, too,
 * leaves the folder. A name too long for the file system names nothing. */
static enum ron_rc refusal(int sys_errno)
{
    switch (sys_errno) {
    case EXDEV:
    case ELOOP:
        return RON_DENIED;
    case ENOTDIR:
    case ENAMETOOLONG:
        return RON_NOTFOUND;
    case ENXIO:
        return RON_INVALID;
    default:
        return ron__rc_of_errno(sys_errno);
    }
}

enum ron_rc ron_folder_file(int folder_fd, const char *path, int *ret_fd,
                            struct ron_file_identity *ret_identity, struct ron_err *err)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    struct stat st;
    enum ron_rc rc;
    int fd;

    ron_blocking_point("open");
    fd = (int)RON_SYS("openat2", EMFILE, syscall(SYS_openat2, folder_fd, path, &how, sizeof how));
    if (fd < 0) {
        return ron_err_set_sys(err, refusal(errno), errno, "open %s", path);
    }
    if (RON_SYS("fstat", EIO, fstat(fd, &st)) == 0 && !S_ISREG(st.st_mode)) {
        ron__sys_close(fd);
        return ron_err_set(err, RON_INVALID, "open %s: not a regular file", path);
    }
    rc = ron_file_identity(fd, ret_identity, err);
    if (rc != RON_OK) {
        ron__sys_close(fd);
        return rc;
    }
    *ret_fd = fd;
    return RON_OK;
}

static uint64_t ns_of(struct timespec t)
{
    return t.tv_sec < 0 ? 0 : (uint64_t)t.tv_sec * RON_NS_PER_S + (uint64_t)t.tv_nsec;
}

enum ron_rc ron_file_identity(int fd, struct ron_file_identity *ret_identity, struct ron_err *err)
{
    struct stat st;

    ron_blocking_point("fstat");
    if (RON_SYS("fstat", EIO, fstat(fd, &st)) < 0) {
        return ron_err_set_sys(err, ron__rc_of_errno(errno), errno, "fstat");
    }
    *ret_identity = (struct ron_file_identity){.device = (uint64_t)st.st_dev,
                                               .inode = (uint64_t)st.st_ino,
                                               .size_bytes = (uint64_t)st.st_size,
                                               .mtime_ns = ns_of(st.st_mtim),
                                               .ctime_ns = ns_of(st.st_ctim)};
    return RON_OK;
}

bool ron_file_identity_equal(const struct ron_file_identity *a, const struct ron_file_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->size_bytes == b->size_bytes &&
           a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}
