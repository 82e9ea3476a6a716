/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - another program as a child: started, listened to, told to stop, reaped.
 *
 * Place: io. For who supervises processes (`ron up`); a service starts none. Linux only, so the
 * simulator does not run its callers.
 *
 * What a caller may count on:
 *   P1. A child has no descriptor of ours but its standard ones: nothing to read, and one pipe for
 *       what it writes to standard output and error, in the order it was written.
 *   P2. It stands in a process group of its own, so a Ctrl-C of the terminal reaches us alone and
 *       we decide in which order children end. Signals are as in a fresh process.
 *   P3. It gets SIGTERM when the thread that started it is gone, however that ended: a child never
 *       outlives its supervisor for longer than its drain.
 *   P4. `pid_fd` becomes readable when the child has ended, so a poller can wait for it; no signal
 *       and no thread is needed.
 *
 * Threads: a child belongs to one thread at a time. Nothing blocks but ron_child_reap with `wait`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/macros.h"
#include "ron/base/rc.h"

struct ron_child {
    int32_t pid; /* 0: none */
    int pid_fd;  /* P4 */
    int out_fd;  /* what it writes; never blocks; read it with ron_child_read */
};

struct ron_child_end {
    int code;   /* of exit; -1 when a signal ended it */
    int signal; /* 0 when it exited */
};

/* `argv` ends in NULL, argv[0] is the path of the program; `folder` is where it stands, NULL for
 * ours. RON_NOTFOUND, RON_DENIED: the program cannot be run, or the folder not entered; RON_LIMIT,
 * RON_NOMEM, RON_IO. On failure there is no child. */
RON_MUST_USE enum ron_rc ron_child_start(const char *const *argv, const char *folder,
                                         struct ron_child *ret_child, struct ron_err *err);

/* RON_OK with at least one byte, RON_AGAIN when there is nothing now, RON_CLOSED at the end. */
RON_MUST_USE enum ron_rc ron_child_read(const struct ron_child *child, void *bytes, size_t size,
                                        size_t *ret_len);

/* Sends a signal; one that has ended and was not reaped yet gets none. */
void ron_child_signal(const struct ron_child *child, int signo);

/* Takes the end of a child: true once it has ended, and then the child is gone but for its pipe.
 * With `wait` it waits for that. */
bool ron_child_reap(struct ron_child *child, bool wait, struct ron_child_end *ret_end);

/* Closes the descriptors. A child that was not reaped is killed and reaped first. */
void ron_child_done(struct ron_child *child);

/* Whether a process with this number exists, whoever started it. */
bool ron_process_exists(int32_t pid);

/* The path of the program that runs, to start it again. RON_LIMIT when it does not fit. */
RON_MUST_USE enum ron_rc ron_program_path(char *ret_path, size_t size, struct ron_err *err);
