/* SPDX-License-Identifier: Apache-2.0 */
/* wait.h - who waits for a channel, bus, watch or reply slot, and how it is woken.
 *
 * Two kinds of waiter share one mechanism: a blocking thread, which parks, and a task on an
 * executor worker, which returns from its handler and is made runnable again by its waker. An
 * object keeps its waiters in a `lot`, guarded by the object's lock; a wake-up is decided under
 * that lock and delivered after it is released.
 *
 * A waker must outlive every wake-up that may be under way: tasks live as long as their executor,
 * thread records are never freed. A wake-up for no reason must be harmless: every waiter looks
 * again. */
#pragma once

#include "ron/base/list.h"
#include "ron/sync/sync.h"

struct ron_waker {
    void (*wake)(struct ron_waker *w); /* from any thread, with no lock of an object held */
};

/* One waiter's place in one lot. Zero-initialised, then owned by the waiting side; the object's
 * lock guards it while it is in a lot. Set exactly one of `thread` and `waker`. */
struct ron_wait_node {
    struct ron_list_node _link;
    struct ron_thread *_thread;
    struct ron_waker *_waker;
    bool
        _pooled; /* others receive too: do not wait for the next message while busy with the last */
    enum { RON_NODE_OUT, RON_NODE_WAITING, RON_NODE_WOKEN } _state;
};

static inline void ron_wait_node_init(struct ron_wait_node *n, struct ron_waker *waker)
{
    *n = (struct ron_wait_node){._thread = waker == NULL ? ron_thread_self() : NULL,
                                ._waker = waker};
}

struct ron_lot {
    struct ron_list
        _waiting;          /* nodes in state WAITING of waiters with nothing to do, oldest first */
    struct ron_list _busy; /* the same of tasks still at work: woken only if nobody idles */
    uint32_t _woken;       /* nodes in state WOKEN: wake-ups under way */
};
