/* SPDX-License-Identifier: Apache-2.0 */
/* chan_recv.c - receiving from a channel: try, blocking, polling, and together with a watch.
 *
 * Place and invariants: see chan_priv.h. Every way to receive leaves its wait node first, so that a
 * wake-up meant for it is either used now or, by the rule in lot.h, goes to the next waiter. A
 * deadline that passes while a message arrives yields the message. */
#include <string.h>

#include "chan_priv.h"
#include "ron/chan/watch.h"

/* With the lock held: moves up to `max` messages out, oldest first. */
static size_t take(struct ron_chan *c, void **items, size_t max)
{
    uint32_t n = (uint32_t)RON_MIN((size_t)c->count, max);
    uint32_t first = RON_MIN(n, c->capacity - c->head);

    if (n == 0) {
        return 0;
    }
    if (n == 1) { /* The common case of a lone message does not pay for two copies. */
        items[0] = c->ring[c->head];
    } else {
        memcpy(items, c->ring + c->head, first * sizeof *items);
        memcpy(items + first, c->ring, (n - first) * sizeof *items);
    }
    c->head = n < c->capacity - c->head ? c->head + n : n - first;
    c->count -= n;
    ron_stat_bump(&c->received, n);
    ron_stat_set(&c->depth, c->count);
    return n;
}

/* With the lock held: RON_OK with messages, RON_CLOSED when drained, RON_AGAIN when empty. */
static enum ron_rc take_or_tell(struct ron_chan *c, void **items, size_t max, size_t *ret_count)
{
    size_t n = take(c, items, max);

    if (n > 0) {
        *ret_count = n;
        return RON_OK;
    }
    return c->closed && c->reserved == 0 ? RON_CLOSED : RON_AGAIN;
}

enum ron_rc ron_chan_try_recv_many(struct ron_chan *c, void **items, size_t max, size_t *ret_count)
{
    enum ron_rc rc;

    RON_ASSERT(max > 0);
    ron_mutex_lock(&c->mu);
    rc = take_or_tell(c, items, max, ret_count);
    ron__chan_release(c);
    return rc;
}

enum ron_rc ron_chan_recv_poll(struct ron_chan *c, struct ron_wait_node *node, void **items,
                               size_t max, size_t *ret_count, bool *ret_more)
{
    enum ron_rc rc;

    RON_ASSERT(max > 0);
    ron_mutex_lock(&c->mu);
    ron__lot_leave(&c->rx, node);
    rc = take_or_tell(c, items, max, ret_count);
    /* Waiting again in the same critical section saves the round that would find nothing. A member
     * of a pool must not: the next message would wait for its handler although others are idle. */
    *ret_more = c->count > 0 || (c->closed && c->reserved == 0) || (rc == RON_OK && node->_pooled);
    if (!*ret_more) {
        ron__lot_enter(&c->rx, node);
    }
    ron__chan_release(c);
    return rc;
}

/* Looks for a message for a moment: a sender at work is often just about to bring one,
 * and then neither side pays for a sleep. The counter is only a hint; the caller looks under the
 * lock. */
static void spin_for_message(const struct ron_chan *c)
{
    uint32_t left = ron_spin_budget();

    while (left > 0 && ron_stat_get(&c->depth) == 0 && !ron_chan_is_closed(c)) {
        ron_spin_pause();
        left--;
    }
}

void ron_chan_look(const struct ron_chan *c, uint64_t until_ns)
{
    ron_blocking_point(c->name);
    while (ron_spin_budget() != 0 && ron_stat_get(&c->depth) == 0 && !ron_chan_is_closed(c) &&
           ron_mono_ns() < until_ns) {
        ron_spin_yield();
    }
}

enum ron_rc ron_chan_recv_many(struct ron_chan *c, void **items, size_t max,
                               struct ron_deadline deadline, size_t *ret_count)
{
    struct ron_wait_node node;
    enum ron_rc waited = RON_OK;
    enum ron_rc rc;

    RON_ASSERT(max > 0);
    ron_blocking_point(c->name);
    ron_wait_node_init(&node, NULL);
    spin_for_message(c);
    for (;;) {
        ron_mutex_lock(&c->mu);
        ron__lot_leave(&c->rx, &node);
        rc = waited == RON_CANCELLED ? RON_CANCELLED : take_or_tell(c, items, max, ret_count);
        if (rc != RON_AGAIN || waited == RON_TIMEOUT) {
            break;
        }
        ron__lot_enter(&c->rx, &node);
        ron__chan_release(c);
        waited = ron_park_until(deadline, c->name);
    }
    ron__chan_release(c);
    return rc == RON_AGAIN ? RON_TIMEOUT : rc;
}

enum ron_rc ron_chan_recv(struct ron_chan *c, struct ron_deadline deadline, void **ret_item)
{
    size_t n = 0;

    return ron_chan_recv_many(c, ret_item, 1, deadline, &n);
}

/* One look at both, entering both lots when there is nothing: only then is it safe to park. */
static enum ron_rc look_at_both(struct ron_chan *c, struct ron_wait_node *rx, struct ron_watch *w,
                                uint64_t seen, struct ron_wait_node *wn, bool prefer_work,
                                void **items, size_t max, size_t *ret_count)
{
    uint64_t value;
    uint64_t version;
    bool changed = ron_watch_poll(w, seen, wn, &value, &version) == RON_OK;
    bool more;
    enum ron_rc rc = RON_AGAIN;

    if (!changed || prefer_work) {
        rc = ron_chan_recv_poll(c, rx, items, max, ret_count, &more);
    }
    if (rc == RON_AGAIN && changed) {
        *ret_count = 0;
        rc = RON_OK;
    }
    return rc;
}

enum ron_rc ron_chan_recv_or_changed(struct ron_chan *c, struct ron_watch *w, uint64_t seen,
                                     bool prefer_work, void **items, size_t max,
                                     struct ron_deadline deadline, size_t *ret_count)
{
    struct ron_wait_node rx;
    struct ron_wait_node wn;
    enum ron_rc rc;

    ron_blocking_point(c->name);
    ron_wait_node_init(&rx, NULL);
    ron_wait_node_init(&wn, NULL);
    for (;;) {
        enum ron_rc waited;

        rc = look_at_both(c, &rx, w, seen, &wn, prefer_work, items, max, ret_count);
        if (rc != RON_AGAIN) {
            break;
        }
        waited = ron_park_until(deadline, c->name);
        if (waited == RON_CANCELLED) {
            rc = RON_CANCELLED;
            break;
        }
        if (waited == RON_TIMEOUT) {
            rc = look_at_both(c, &rx, w, seen, &wn, prefer_work, items, max, ret_count);
            rc = rc == RON_AGAIN ? RON_TIMEOUT : rc;
            break;
        }
    }
    ron_watch_forget(w, &wn);
    ron_chan_recv_forget(c, &rx);
    return rc;
}

void ron_chan_recv_forget(struct ron_chan *c, struct ron_wait_node *node)
{
    ron_mutex_lock(&c->mu);
    ron__lot_leave(&c->rx, node);
    ron__chan_release(c);
}
