/* SPDX-License-Identifier: Apache-2.0 */
/* sys_linux.h - how this folder calls Linux: with a fault point, and without EINTR.
 *
 * Place: private to kernel/src/io. The parts of the binding are declared here too.
 *
 * Rule: every system call that can fail is written as RON_SYS("name", ERRNO, call). A test may then
 * make it fail with ERRNO, which is a failure that this call really has. close() is the exception:
 * it always releases the descriptor, so there is nothing to report and nothing to retry. */
#pragma once

#include <errno.h>

#include "ron/base/env.h"
#include "ron/base/fault.h"

/* The value of `call`, repeated while a signal interrupts it; -1 with errno set on failure. */
#define RON_SYS(name, fault_errno, call)                                                           \
    (__extension__({                                                                               \
        __typeof__(call) ron_sys_ret_;                                                             \
        if (RON_FAULT(RON_FAULT_SYSCALL, name)) {                                                  \
            errno = (fault_errno);                                                                 \
            ron_sys_ret_ = -1;                                                                     \
        } else {                                                                                   \
            do {                                                                                   \
                ron_sys_ret_ = (call);                                                             \
            } while (ron_sys_ret_ == -1 && errno == EINTR);                                        \
        }                                                                                          \
        ron_sys_ret_;                                                                              \
    }))

/* The table of linux_env.h. */
enum ron_rc ron__rc_of_errno(int sys_errno);

/* Closes a descriptor and keeps errno, so that it can stand in a failure path. */
void ron__sys_close(int fd);

/* Prepares the directory and the path for a Unix listener: directory 0700 and ours, stale socket
 * gone. */
enum ron_rc ron__unix_prepare(const char *path, struct ron_err *err);

extern const struct ron_poller_ops ron__poller_linux;
extern const struct ron_net_ops ron__net_linux;
extern const struct ron_disk_ops ron__disk_linux;
