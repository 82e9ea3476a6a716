/* SPDX-License-Identifier: Apache-2.0 */
/* sync_priv.h - what the two back ends of sync share: the thread record and the checks.
 *
 * sync_check.c holds the rules (ranks, held locks, blocking points); sync_posix.c binds them to
 * real threads; tests/model/weave/sync_weave.c binds them to fibers. A back end calls
 * ron__note_acquire before it waits for a mutex (so that a bad order is reported even when it would
 * deadlock) and ron__note_release before it lets go. */
#pragma once

#include "ron/base/assert.h"
#include "ron/base/ctx.h"
#include "ron/sync/sync.h"

enum { RON_THREAD_MAGIC = 0x7468a3d1, RON_MUTEX_MAGIC = 0x6d757458, RON_COND_MAGIC = 0x636f6e64 };

struct ron_thread {
    uint32_t magic;
    /* Touched by the thread itself only. */
    bool may_block;
    uint32_t held_count;
    uint64_t nests; /* service locks taken while another one was held */
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
#if RON_MODEL
struct ron_thread *ron__thread_current(void);
#else
extern _Thread_local struct ron_thread *ron__current;
struct ron_thread *ron__thread_adopt(void);

static inline struct ron_thread *ron__thread_current(void)
{
    struct ron_thread *t = ron__current;

    return RON_LIKELY(t != NULL) ? t : ron__thread_adopt();
}
#endif

/* The rest of ron__note_release when the lock is not the last one taken. */
bool ron__note_release_slow(struct ron_thread *t, struct ron_mutex *m);

/* Whether a lock for service data is held; those of the kernel lie between its rank and LEAF. */
bool ron__holds_shared(const struct ron_thread *t);

/* Before the lock is waited for. Inline: every critical section of the kernel pays it. */
static inline void ron__note_acquire(struct ron_mutex *m)
{
    struct ron_thread *t = ron__thread_current();

    RON_ASSERT(m->_magic == RON_MUTEX_MAGIC);
    if (RON_UNLIKELY(t->held_count > 0)) {
        if (RON_UNLIKELY(t->held[t->held_count - 1]->rank >= m->rank)) {
            ron_sync_breach(RON_BREACH_RANK, m->name);
        }
        RON_ASSERT(t->held_count < RON_THREAD_HELD_MAX);
        t->nests += m->rank == RON_RANK_LEAF && ron__holds_shared(t);
    }
    t->held[t->held_count++] = m;
}

/* False when the thread does not hold `m`: the back end then leaves the lock with its owner. */
static inline bool ron__note_release(struct ron_mutex *m)
{
    struct ron_thread *t = ron__thread_current();

    RON_ASSERT(m->_magic == RON_MUTEX_MAGIC);
    if (RON_LIKELY(t->held_count > 0 && t->held[t->held_count - 1] == m)) {
        t->held_count--;
        return true;
    }
    return ron__note_release_slow(t, m);
}

/* Before a condition wait: nothing but `m` may be held, and the thread may block. */
void ron__note_cond_wait(const struct ron_mutex *m);
