/* SPDX-License-Identifier: Apache-2.0 */
/* weave_test.h - what the tests of weave share. */
#pragma once

#include "ron/base/assert.h"
#include "ron/sync/sync.h"

/* A thread that may block; it cannot fail inside a run. */
static inline struct ron_thread *start(const char *name, void (*fn)(void *), void *arg)
{
    struct ron_thread_opts opts = {.name = name, .may_block = true, .main = fn, .arg = arg};
    struct ron_thread *t = NULL;
    enum ron_rc rc = ron_thread_start(&opts, &t, NULL);

    RON_ASSERT(rc == RON_OK);
    return t;
}
