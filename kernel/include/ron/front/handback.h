/* SPDX-License-Identifier: Apache-2.0 */
/* handback.h - many threads put, one worker takes all: how replies travel back to their worker.
 *
 * Intrusive: a node is part of the reply, so putting never fails and the bound is the number of
 * replies. Whoever finds nothing there wakes the worker, the others need not: one wake-up for many
 * replies. Taking turns the stack over, so replies come in the order of putting.
 *
 * Why no wake-up is lost. Both sides change the top with one locked instruction (compare-and-set,
 * exchange), and on both sides the top is the only word that is looked at: there is no separate
 * flag whose store could still lie in a store buffer. A put that found the stack not empty comes
 * before the exchange that takes what it found, and is taken by it. A put that found it empty wakes
 * the worker, and a wake-up during a turn makes one more turn.
 *
 * The end: ron_handback_close is called when nobody is there to wake any more. `open` decides only
 * whether the task is woken, never whether a node is taken. A putter that still sees it open wakes
 * a task that has ended, which does nothing; one that sees it closed may have put its node after
 * the worker's last take. Whoever frees the memory therefore takes once more, after every thread
 * that could put has been joined. */
#pragma once

#include "ron/sync/sync.h"

struct ron_handback_node {
    struct ron_handback_node *next; /* in what ron_handback_take returns */
};

/* Zeros: closed and empty. */
struct ron_handback {
    struct ron_aptr _top;
    struct ron_au32 _open;
};

static inline void ron_handback_open(struct ron_handback *h)
{
    ron_au32_store(&h->_open, 1);
}

static inline void ron_handback_close(struct ron_handback *h)
{
    ron_au32_store(&h->_open, 0);
}

/* From any thread. True when the caller must wake the worker; the node may be gone already. */
static inline bool ron_handback_put(struct ron_handback *h, struct ron_handback_node *take_node)
{
    void *seen = ron_aptr_load(&h->_top);

    do {
        take_node->next = seen;
    } while (!ron_aptr_cas(&h->_top, &seen, take_node));
    return seen == NULL && ron_au32_load(&h->_open) != 0;
}

/* On the worker: all of them, in the order of putting. */
static inline struct ron_handback_node *ron_handback_take(struct ron_handback *h)
{
    struct ron_handback_node *top = ron_aptr_xchg(&h->_top, NULL);
    struct ron_handback_node *queue = NULL;

    while (top != NULL) {
        struct ron_handback_node *next = top->next;

        top->next = queue;
        queue = top;
        top = next;
    }
    return queue;
}
