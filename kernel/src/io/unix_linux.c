/* SPDX-License-Identifier: Apache-2.0 */
/* unix_linux.c - what must be true on disk before a Unix socket is bound.
 *
 * Place: io, used by net_linux.c only. The directory is the lock of the door: whoever may enter it
 * may connect, so it must be ours and closed to everybody else. This also closes the moment between
 * bind and chmod, in which the socket has the mode that the umask gives.
 *
 * Invariants:
 *   I1 nothing is removed but a socket on which nobody listens.
 *   I2 a directory that others may enter is refused, never repaired: the operator decides.
 *
 * Two processes that start at the same instant with the same stale path could both find it stale;
 * the data directory's own lock prevents two such processes, not this file. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ron/base/assert.h"
#include "ron/io/addr.h"
#include "sys_linux.h"

static enum ron_rc check_dir(const char *dir, struct ron_err *err)
{
    struct stat st;
    int ret = RON_SYS("stat", EACCES, stat(dir, &st));

    if (ret < 0 && errno == ENOENT) {
        ret = RON_SYS("mkdir", ENOSPC, mkdir(dir, 0700));
        if (ret < 0 && errno != EEXIST) {
            return ron_err_set_sys(err, ron__rc_of_errno(errno), errno,
                                   "cannot make the socket directory %s", dir);
        }
        ret = RON_SYS("stat", EACCES, stat(dir, &st));
    }
    if (ret < 0) {
        return ron_err_set_sys(err, ron__rc_of_errno(errno), errno,
                               "cannot look at the socket directory %s", dir);
    }
    if (!S_ISDIR(st.st_mode)) {
        return ron_err_set(err, RON_INVALID, "%s is not a directory", dir);
    }
    if (st.st_uid != geteuid()) {
        return ron_err_set(err, RON_DENIED, "socket directory %s belongs to user %u, not to us",
                           dir, (unsigned)st.st_uid);
    }
    if ((st.st_mode & 077) != 0) {
        return ron_err_set(
            err, RON_DENIED,
            "socket directory %s has mode %04o, others may enter; run: chmod 0700 %s", dir,
            (unsigned)(st.st_mode & 07777), dir);
    }
    return RON_OK;
}

/* Whether somebody listens on the socket file. Any doubt counts as yes (I1). */
static bool answers(const char *path)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd =
        RON_SYS("socket", EMFILE, socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    bool refused = false;

    if (fd < 0) {
        return true;
    }
    memcpy(sun.sun_path, path, strlen(path) + 1);
    refused =
        RON_SYS("connect", EAGAIN, connect(fd, (const struct sockaddr *)&sun, sizeof sun)) < 0 &&
        errno == ECONNREFUSED;
    ron__sys_close(fd);
    return !refused;
}

static enum ron_rc clear_stale(const char *path, struct ron_err *err)
{
    struct stat st;

    if (RON_SYS("lstat", EACCES, lstat(path, &st)) < 0) {
        return errno == ENOENT ? RON_OK
                               : ron_err_set_sys(err, ron__rc_of_errno(errno), errno,
                                                 "cannot look at %s", path);
    }
    if (!S_ISSOCK(st.st_mode)) {
        return ron_err_set(err, RON_EXISTS, "%s is there and is not a socket", path);
    }
    if (answers(path)) {
        return ron_err_set(err, RON_EXISTS, "somebody already listens on %s", path);
    }
    if (RON_SYS("unlink", EACCES, unlink(path)) < 0 && errno != ENOENT) {
        return ron_err_set_sys(err, ron__rc_of_errno(errno), errno,
                               "cannot remove the stale socket %s", path);
    }
    return RON_OK;
}

enum ron_rc ron__unix_prepare(const char *path, struct ron_err *err)
{
    char dir[RON_ADDR_TEXT_SIZE];
    const char *slash = strrchr(path, '/');
    size_t len = 0;

    RON_ASSERT_MSG(slash != NULL, "ron_addr_parse lets only absolute paths through");
    len = slash == path ? 1 : (size_t)(slash - path);
    RON_ASSERT(len < sizeof dir);
    memcpy(dir, path, len);
    dir[len] = '\0';
    RON_TRY(check_dir(dir, err));
    return clear_stale(path, err);
}
