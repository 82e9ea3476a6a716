/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h - the one place where a test may make the outside world fail.
 *
 * Every allocation and every system call wrapper asks RON_FAULT before it does its work. Without a
 * hook that is a load and a branch. The fault sweep (tests/support) installs a hook that first
 * counts the questions and then answers "yes" to one of them after the other.
 *
 * Threads: the hook is a plain pointer. Set it before threads start and clear it after they ended;
 * a hook used with threads must itself be safe to call from them.
 *
 * Use in a wrapper:
 *     if (RON_FAULT(RON_FAULT_SYSCALL, "fdatasync")) {
 *         errno = EIO;
 *         return -1;
 *     }
 */
#pragma once

#include <stdbool.h>

#include "ron/base/macros.h"

/* X(name, text, meaning). */
#define RON_FAULT_KIND_TABLE(X)                                                                    \
    X(ALLOC, "alloc", "an allocation returns NULL")                                                \
    X(SYSCALL, "syscall", "a system call fails with an errno that fits it")

enum ron_fault_kind {
#define X(name, text, doc) RON_FAULT_##name,
    RON_FAULT_KIND_TABLE(X)
#undef X
};

enum {
#define X(name, text, doc) +1
    RON_FAULT_KIND_COUNT = 0 RON_FAULT_KIND_TABLE(X)
#undef X
};

/* Returns true to make the call at `site` (static text) fail. NULL in production. */
extern bool (*ron_fault_hook)(enum ron_fault_kind kind, const char *site);

#define RON_FAULT(kind, site)                                                                      \
    (RON_UNLIKELY(ron_fault_hook != NULL) && ron_fault_hook((kind), (site)))
