/* SPDX-License-Identifier: Apache-2.0 */
/* linux_env.h - the ports of ron/base/env.h bound to Linux.
 *
 * What the binding promises beyond env.h:
 *   - Every descriptor is close-on-exec; sockets never block; a write to a dead peer is RON_CLOSED,
 *     never SIGPIPE.
 *   - A disk port called on a thread that may not block, or with a lock held, is a breach of sync
 *     (aborts in every build but release).
 *   - A poller wakes with one eventfd write until its wait has seen it, however many wakes come. A
 *     wait may return early with nothing (a signal). Deadlines are rounded up to milliseconds.
 *   - With RON_IO_READ, RON_IO_HUP is reported as soon as the peer has closed its side.
 *   - A Unix socket is created in a directory of mode 0700 that belongs to us (made when missing; a
 *     wider one is refused with RON_DENIED), with mode 0600. A socket file left by a dead process
 *     is replaced; one that somebody answers on, or a file of another kind, is RON_EXISTS. Closing
 *     does not remove the file.
 *   - accept fills uid, gid and pid of a Unix peer from SO_PEERCRED, or fails.
 *   - accept answers RON_LIMIT when descriptors have run out and leaves the connection queued: stop
 *     asking for a while, a level-triggered poller reports it again at once.
 *   - free_bytes is what an ordinary user may still write.
 *
 * errno to code: ENOSPC EDQUOT EMFILE ENFILE EFBIG -> RON_LIMIT; ENOENT -> RON_NOTFOUND; EEXIST
 * EADDRINUSE ENOTEMPTY -> RON_EXISTS; EACCES EPERM EROFS -> RON_DENIED; EPIPE ECONNRESET ->
 * RON_CLOSED; EAGAIN -> RON_AGAIN; ETIMEDOUT -> RON_TIMEOUT; ENOMEM ENOBUFS -> RON_NOMEM; EINVAL
 * ENAMETOOLONG ENOTDIR EISDIR -> RON_INVALID; everything else -> RON_IO. */
#pragma once

#include "ron/base/env.h"

/* The one binding of this process; static, may be used from every thread. */
const struct ron_env *ron_env_linux(void);

/* For a library that connects by itself (libcurl): a fresh stream socket under the same promises,
 * unconnected. The caller owns it. */
RON_MUST_USE enum ron_rc ron_linux_stream_socket(int family, int *ret_fd, struct ron_err *err);
