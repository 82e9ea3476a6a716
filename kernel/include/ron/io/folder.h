/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - files below a folder and nowhere else, for paths that a stranger sends.
 *
 * Place: io, beside the disk ports; Linux only (openat2), so the simulator does not run its
 * callers. Whatever the path says, and whatever links lie in the folder: the system itself refuses
 * to open anything that is not below it.
 *
 * Threads: no state; a descriptor of a folder may be used by many. Blocking. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ron/base/rc.h"

/* Which bytes an open file has: as long as this is the same, so are they. */
struct ron_file_identity {
    uint64_t device;
    uint64_t inode;
    uint64_t size_bytes;
    uint64_t mtime_ns;
    uint64_t ctime_ns;
};

/* The descriptor is closed with env->disk->close. RON_NOTFOUND, RON_DENIED, RON_INVALID: not a
 * folder. */
RON_MUST_USE enum ron_rc ron_folder_open(const char *path, int *ret_fd, struct ron_err *err);

/* Opens a regular file for reading by its path relative to the folder. RON_NOTFOUND; RON_DENIED
 * when the path leads out of the folder or may not be read; RON_INVALID for what is no regular
 * file: a pipe or device is not waited for. */
RON_MUST_USE enum ron_rc ron_folder_file(int folder_fd, const char *path, int *ret_fd,
                                         struct ron_file_identity *ret_identity,
                                         struct ron_err *err);

/* Of a file that is open. RON_IO. */
RON_MUST_USE enum ron_rc ron_file_identity(int fd, struct ron_file_identity *ret_identity,
                                           struct ron_err *err);
bool ron_file_identity_equal(const struct ron_file_identity *a, const struct ron_file_identity *b);
