/* SPDX-License-Identifier: Apache-2.0 */
/* log_posix.c - one line to standard error with one write. */
#include <errno.h>
#include <unistd.h>

#include "ron/base/fault.h"
#include "ron/obs/log.h"

enum rc_tries { TRIES_MAX = 16 };

enum ron_rc ron_log_stderr(void *arg, const char *line, size_t len)
{
    (void)arg;
    /* A pipe takes a line of this size whole; a terminal or file may take it in parts. */
    for (int i = 0; i < TRIES_MAX && len > 0; i++) {
        ssize_t n = RON_FAULT(RON_FAULT_SYSCALL, "write") ? -1 : write(STDERR_FILENO, line, len);

        if (n > 0) {
            line += n;
            len -= (size_t)n;
        } else if (n < 0 && errno != EINTR) {
            return RON_IO;
        }
    }
    return len == 0 ? RON_OK : RON_IO;
}
