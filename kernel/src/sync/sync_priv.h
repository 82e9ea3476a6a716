/* SPDX-License-Identifier: Apache-2.0 */
/* sync_priv.h - what the two back ends of sync share: the thread record and the checks.
 *
 * sync_check.c holds the rules (ranks, held locks, blocking points); sync_posix.c binds them to
 * real threads; tests/model/weave/sync_weave.c binds them to fibers. A back end calls
 * ron__note_acquire before it waits for a mutex (so that a bad order is reported even when it would
 * deadlock) and ron__note_release before it lets go. */
#pragma once

#include "ron/base/ctx.h"
#include "ron/sync/sync.h"

enum { RON_THREAD_MAGIC = 0x7468a3d1, RON_MUTEX_MAGIC = 0x6d757458, RON_COND_MAGIC = 0x636f6e64 };

struct ron_thread {
    uint32_t magic;
    /* Touched by the thread itself only. */
    bool may_block;
    uint32_t held_count;
    const struct ron_mutex *held[RON_THREAD_HELD_MAX];
    void *identity; /* task being run, or NULL */
    struct ron_ctx ctx;
    /* Touched from anywhere. */
    struct ron_au32 cancel;
    struct ron_au32 park; /* sync_posix.c: EMPTY, TOKEN or PARKED */
    struct ron_au32 ended;
    /* Written before the thread starts. */
    void (*main)(void *);
    void *arg;
#if RON_MODEL
    void *fiber;
#else
    pthread_t id;
#endif
    struct ron_thread *next_free; /* guarded by the table lock of the back end */
};

/* The record of the calling thread; made on first use for threads that sync did not start. */
struct ron_thread *ron__thread_current(void);

void ron__note_acquire(struct ron_mutex *m);
/* False when the thread does not hold `m`: the back end then leaves the lock with its owner. */
bool ron__note_release(struct ron_mutex *m);
/* Before a condition wait: nothing but `m` may be held, and the thread may block. */
void ron__note_cond_wait(const struct ron_mutex *m);
