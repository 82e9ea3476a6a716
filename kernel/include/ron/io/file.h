/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - whole-file operations made of disk ports, so that they run under the simulator too.
 *
 * Place: io, above the ports. Blocking: call from a thread that may block.
 *
 * Threads: no state. One writer at a time per path: ron_file_replace uses the fixed name
 * "<path>.tmp" beside the target, so that a crash leaves at most one stray file and the next
 * replace clears it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ron/base/buf.h"
#include "ron/base/env.h"
#include "ron/base/rc.h"

/* Longest path these functions build, with its NUL: deep trees stay far below, and it fits a
 * stack. */
enum { RON_FILE_PATH_SIZE = 1024 };

/* Appends the whole file to `buf`, whose maximum is the bound: a larger file is RON_LIMIT before
 * any byte is read. On failure the content of `buf` is as it was. A file that shrinks meanwhile
 * gives what is left. */
RON_MUST_USE enum ron_rc ron_file_read_all(const struct ron_env *env, const char *path,
                                           struct ron_buf *buf, struct ron_err *err);

/* Reads a secret: a regular file of this process's user that nobody else may use (mode 0600 or
 * less), whole, into `memory`, which the caller wipes, also after a failure. What is looked at is
 * what is read. RON_DENIED for a file that is another's or open to others, RON_INVALID for what is
 * no regular file (a pipe is not waited for), RON_LIMIT for a larger one, RON_NOTFOUND. */
RON_MUST_USE enum ron_rc ron_file_read_private(const struct ron_env *env, const char *path,
                                               void *memory, size_t size, size_t *ret_len,
                                               struct ron_err *err);

/* Replaces or creates a file so that at every instant, crashes included, the path holds the old
 * content or the new one, whole: write beside, sync, rename, sync the directory. RON_OK means
 * durable. After a failure the path holds old or new (new only when the directory's own sync
 * failed) and the temporary is removed. */
RON_MUST_USE enum ron_rc ron_file_replace(const struct ron_env *env, const char *path,
                                          const void *bytes, size_t len, uint32_t mode,
                                          struct ron_err *err);

/* Makes the directory and its missing parents, durably; existing ones keep their mode. RON_EXISTS
 * when something on the way is not a directory. */
RON_MUST_USE enum ron_rc ron_mkdirs(const struct ron_env *env, const char *path, uint32_t mode,
                                    struct ron_err *err);
