/* SPDX-License-Identifier: Apache-2.0 */
/* parked.h - lets a test see that another thread has come to rest.
 *
 * A test that wakes, cancels or closes something "while a thread waits" must know that it waits.
 * The thread's record says so (sync_priv.h), so the test polls that word instead of sleeping and
 * hoping.
 */
#pragma once

#include <sched.h>

#include "sync/sync_priv.h"

/* The value that sync_posix.c gives `park` while the thread sleeps. */
enum { THREAD_PARK_PARKED = 2 };

static inline bool thread_is_parked(const struct ron_thread *t)
{
    return ron_au32_load(&t->park) == THREAD_PARK_PARKED;
}

/* Returns true once `t` sleeps in a park, false when it has left its body instead. A thread that
 * does neither makes the test hang, and a hung test is cut and counted as failed. */
static inline bool thread_wait_parked(const struct ron_thread *t)
{
    while (!thread_is_parked(t)) {
        if (ron_au32_load(&t->ended) != 0) {
            return false;
        }
        (void)sched_yield();
    }
    return true;
}
