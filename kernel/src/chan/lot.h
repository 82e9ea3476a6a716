/* SPDX-License-Identifier: Apache-2.0 */
/* lot.h - the waiters of one side of one object (private to chan/).
 *
 * All functions are called with the object's lock held, except ron__wake, which is called after it
 * was released with what ron__lot_take returned.
 *
 * Invariants:
 *   I1 a node is WAITING exactly while it is linked; WOKEN while its wake-up is under way; else
 *      OUT.
 *   I2 `_woken` counts the WOKEN nodes. The waiter itself ends that state by ron__lot_leave, so a
 *      wake-up can neither be counted twice nor be forgotten when a waiter gives up.
 * The rule that makes wake-ups rare and never lost: with `available` units of what the waiters wait
 * for, somebody is woken only while woken * batch < available. Whoever leaves the lot applies it
 * again. */
#pragma once

#include "ron/base/assert.h"
#include "ron/chan/wait.h"

struct ron_wake {
    struct ron_thread *thread;
    struct ron_waker *waker;
};

static inline void ron__lot_init(struct ron_lot *lot)
{
    ron_list_init(&lot->_waiting);
    lot->_woken = 0;
}

static inline bool ron__lot_empty(const struct ron_lot *lot)
{
    return ron_list_empty(&lot->_waiting);
}

static inline bool ron__lot_idle(const struct ron_lot *lot)
{
    return ron__lot_empty(lot) && lot->_woken == 0;
}

static inline void ron__lot_enter(struct ron_lot *lot, struct ron_wait_node *n)
{
    RON_ASSERT(n->_state == RON_NODE_OUT);
    RON_ASSERT((n->_thread == NULL) != (n->_waker == NULL));
    ron_list_push_back(&lot->_waiting, &n->_link);
    n->_state = RON_NODE_WAITING;
}

/* Safe in every state. */
static inline void ron__lot_leave(struct ron_lot *lot, struct ron_wait_node *n)
{
    if (n->_state == RON_NODE_WAITING) {
        ron_list_remove(&n->_link);
    } else if (n->_state == RON_NODE_WOKEN) {
        RON_ASSERT(lot->_woken > 0);
        lot->_woken--;
    }
    n->_state = RON_NODE_OUT;
}

/* The first waiter of `list`, which holds waiters of this lot, to be woken; or an empty record. */
static inline struct ron_wake ron__lot_take_from(struct ron_lot *lot, struct ron_list *list)
{
    struct ron_list_node *link = ron_list_pop_front(list);
    struct ron_wait_node *n;

    if (link == NULL) {
        return (struct ron_wake){NULL, NULL};
    }
    n = RON_LIST_ENTRY(link, struct ron_wait_node, _link);
    n->_state = RON_NODE_WOKEN;
    lot->_woken++;
    return (struct ron_wake){n->_thread, n->_waker};
}

/* The next waiter to wake, or an empty record. */
static inline struct ron_wake ron__lot_take(struct ron_lot *lot)
{
    return ron__lot_take_from(lot, &lot->_waiting);
}

/* Applies the rule above. */
static inline struct ron_wake ron__lot_take_due(struct ron_lot *lot, uint64_t available,
                                                uint32_t batch)
{
    if (RON_LIKELY(ron__lot_empty(lot)) || (uint64_t)lot->_woken * batch >= available) {
        return (struct ron_wake){NULL, NULL};
    }
    return ron__lot_take(lot);
}

static inline bool ron__wake_is(struct ron_wake w)
{
    return w.thread != NULL || w.waker != NULL;
}

static inline void ron__wake(struct ron_wake w)
{
    if (w.thread != NULL) {
        ron_unpark(w.thread);
    } else if (w.waker != NULL) {
        w.waker->wake(w.waker);
    }
}

/* Wakes everybody who waits now, letting the lock go for each delivery. Returns with the lock held.
 * They are set aside first: a fast waiter that has seen the new state and waits again meanwhile is
 * not woken a second time, or many of them could keep this loop going for ever. One that gives up
 * meanwhile takes itself out of the list as always. */
static inline void ron__lot_wake_all(struct ron_lot *lot, struct ron_mutex *mu)
{
    struct ron_list now;

    ron_list_init(&now);
    ron_list_splice_back(&now, &lot->_waiting);
    for (;;) {
        struct ron_wake w = ron__lot_take_from(lot, &now);

        if (!ron__wake_is(w)) {
            return;
        }
        ron_mutex_unlock(mu);
        ron__wake(w);
        ron_mutex_lock(mu);
    }
}
