/* SPDX-License-Identifier: Apache-2.0 */
/* chan.c - bounded queue of owned pointers: life, closing and sending. Receiving is in chan_recv.c.
 *
 * Place: above sync, below task and every service. Never logs, never allocates after ron_chan_new.
 *
 * States: OPEN --ron_chan_close--> DRAINING --last receive, last reservation--> DRAINED (receive
 * answers RON_CLOSED). Invariants I1..I5 and the guards are in chan_priv.h.
 *
 * Wake rule: decided under the lock, after the state that justifies it; delivered after the unlock,
 * so the woken side does not run into the lock. Proof effort: tests/scenario explores every
 * schedule to preemption bound 2; tests/model/spin/wakeup.pml proves the wake rule; tests/unit/chan
 * compares long random histories with a plain model. */
#include <string.h>

#include "chan_priv.h"

#include "chan/chan_testing.h"
#include "ron/base/alloc.h"
#include "ron/base/ctx.h"

const char *ron_chan_policy_name(enum ron_chan_policy policy)
{
    switch (policy) {
#define X(name, text)                                                                              \
    case RON_CHAN_##name:                                                                          \
        return text;
        RON_CHAN_POLICIES(X)
#undef X
    case RON_CHAN_POLICY_UNSET:
    case RON_CHAN_POLICY_COUNT:
        break;
    }
    return "unset";
}

void ron__chan_assert(const struct ron_chan *c)
{
    RON_ASSERT(c->magic == RON_CHAN_MAGIC);
    RON_ASSERT_SLOW(ron_mutex_held(&c->mu));
    RON_ASSERT(c->count + c->reserved <= c->capacity); /* I1 */
    RON_ASSERT_SLOW(c->head < c->capacity);
    RON_ASSERT_SLOW(ron_stat_get(&c->sent) ==
                    ron_stat_get(&c->received) + ron_stat_get(&c->evicted) + c->count); /* I5 */
}

/* ---- life ------------------------------------------------------------------------------------ */

static void fill_row(struct ron_reg_entry *e, struct ron_reg_row *row)
{
    const struct ron_chan *c = RON_CONTAINER_OF(e, struct ron_chan, entry);

    row->state = ron_chan_is_closed(c) ? "closed" : "open";
    row->depth = ron_stat_get(&c->depth);
    ron_reg_row_sample(row, "queue_depth", "queue", true, row->depth);
    ron_reg_row_sample(row, "queue_depth_max", "queue", true, ron_stat_get(&c->depth_max));
    ron_reg_row_sample(row, "queue_sent_total", "queue", false, ron_stat_get(&c->sent));
    ron_reg_row_sample(row, "queue_received_total", "queue", false, ron_stat_get(&c->received));
    ron_reg_row_sample(row, "queue_dropped_total", "queue", false, ron_stat_get(&c->dropped));
    ron_reg_row_sample(row, "busy_rejections_total", "queue", false, ron_stat_get(&c->rejected));
    ron_reg_row_sample(row, "queue_retries_total", "queue", false, ron_stat_get(&c->retried));
    ron_reg_row_sample(row, "queue_closed_sends_total", "queue", false, ron_stat_get(&c->refused));
    ron_reg_row_sample(row, "queue_send_timeouts_total", "queue", false,
                       ron_stat_get(&c->timeouts));
    ron_reg_row_sample(row, "queue_wakeups_total", "queue", false, ron_stat_get(&c->wakeups));
}

static enum ron_rc check_opts(const struct ron_chan_opts *o, struct ron_err *err)
{
    const char *name = o->name != NULL ? o->name : "(unnamed)";

    RON_ASSERT(o->registry != NULL);
    if (o->capacity == 0 || o->capacity > RON_CHAN_CAPACITY_MAX) {
        return ron_err_set(err, RON_INVALID, "channel '%s': capacity %u is outside 1..%d", name,
                           o->capacity, (int)RON_CHAN_CAPACITY_MAX);
    }
    if (o->policy <= RON_CHAN_POLICY_UNSET || o->policy >= RON_CHAN_POLICY_COUNT) {
        return ron_err_set(err, RON_INVALID, "channel '%s': no policy for a full queue is given",
                           name);
    }
    if (o->policy == RON_CHAN_RETRY_ONCE && o->env == NULL) {
        return ron_err_set(err, RON_INVALID,
                           "channel '%s': retry_once needs an environment for its jitter", name);
    }
    if (o->drop == NULL) {
        return ron_err_set(err, RON_INVALID, "channel '%s': no way to dispose of messages is given",
                           name);
    }
    return RON_OK;
}

enum ron_rc ron_chan_new(const struct ron_chan_opts *opts, struct ron_chan **ret_chan,
                         struct ron_err *err)
{
    struct ron_chan *c;
    enum ron_rc rc;

    RON_TRY(check_opts(opts, err));
    c = ron_alloc_aligned(RON_CACHELINE, sizeof *c);
    if (c == NULL) {
        return ron_err_set(err, RON_NOMEM, "channel '%s': no memory", opts->name);
    }
    memset(c, 0, sizeof *c);
    c->ring = ron_alloc_array(opts->capacity, sizeof *c->ring);
    if (c->ring == NULL) {
        ron_free(c);
        return ron_err_set(err, RON_NOMEM, "channel '%s': no memory for %u messages", opts->name,
                           opts->capacity);
    }
    c->magic = RON_CHAN_MAGIC;
    c->capacity = opts->capacity;
    c->wake_batch = opts->wake_batch != 0 ? opts->wake_batch : RON_CHAN_WAKE_BATCH_DEFAULT;
    c->policy = opts->policy;
    c->name = opts->name;
    c->env = opts->env;
    c->registry = opts->registry;
    c->drop = opts->drop;
    c->drop_arg = opts->drop_arg;
    ron__lot_init(&c->rx);
    ron__lot_init(&c->tx);
    ron_mutex_init(&c->mu, RON_RANK_CHAN, opts->name);
    rc = ron_registry_add(c->registry, &c->entry, RON_REG_QUEUE,
                          &(struct ron_reg_desc){.name = opts->name,
                                                 .policy = ron_chan_policy_name(opts->policy),
                                                 .producers = opts->producers,
                                                 .consumers = opts->consumers,
                                                 .drop = opts->drop_text,
                                                 .capacity = opts->capacity},
                          fill_row, err);
    if (rc != RON_OK) {
        ron_mutex_done(&c->mu);
        ron_free(c->ring);
        ron_free(c);
        return rc;
    }
    *ret_chan = c;
    return RON_OK;
}

void ron_chan_free(struct ron_chan *c)
{
    if (c == NULL) {
        return;
    }
    RON_ASSERT(c->magic == RON_CHAN_MAGIC);
    if (!ron_chan_close(c)) {
        ron_event("chan.free", c->count, 0);
    } else {
        ron_event("chan.free.unclosed", c->count, 0);
    }
    ron_registry_remove(c->registry, &c->entry);
    RON_ASSERT(ron__lot_idle(&c->rx));
    RON_ASSERT(ron__lot_idle(&c->tx));
    RON_ASSERT(c->reserved == 0);
    while (c->count > 0) {
        ron_stat_bump(&c->dropped, 1);
        c->drop(c->ring[c->head], c->drop_arg);
        c->head = c->head + 1 == c->capacity ? 0 : c->head + 1;
        c->count--;
    }
    ron_mutex_done(&c->mu);
    c->magic = 0;
    ron_free(c->ring);
    ron_free(c);
}

/* ---- wake-ups -------------------------------------------------------------------------------- */

struct ron__chan_wakes ron__chan_due(struct ron_chan *c)
{
    struct ron__chan_wakes w;

    w.rx = ron__lot_take_due(&c->rx, c->count, c->wake_batch);
    w.tx = ron__lot_take_due(&c->tx, c->capacity - c->count - c->reserved, c->wake_batch);
    if (RON_UNLIKELY(ron__wake_is(w.rx))) {
        ron_stat_bump(&c->wakeups, 1);
    }
    return w;
}

void ron__chan_release(struct ron_chan *c)
{
    struct ron__chan_wakes w;

    ron__chan_assert(c);
    w = ron__chan_due(c);
    ron_mutex_unlock(&c->mu);
    ron__wake(w.rx);
    ron__wake(w.tx);
}

bool ron_chan_close(struct ron_chan *c)
{
    bool first;

    ron_mutex_lock(&c->mu);
    first = !c->closed;
    if (first) {
        c->closed = true; /* I3 */
        ron_au32_store(&c->closed_flag, 1);
        ron__lot_wake_all(&c->tx, &c->mu);
        ron__lot_wake_all(&c->rx, &c->mu);
    }
    ron_mutex_unlock(&c->mu);
    return first;
}

bool ron_chan_is_closed(const struct ron_chan *c)
{
    return ron_au32_load(&c->closed_flag) != 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

static bool has_room(const struct ron_chan *c)
{
    return c->count + c->reserved < c->capacity;
}

/* With room for them: one copy (two when it wraps) and one update of the counters. */
static void push_many(struct ron_chan *c, void *const *items, uint32_t count)
{
    uint32_t tail = c->head + c->count;
    uint32_t first;

    if (tail >= c->capacity) {
        tail -= c->capacity;
    }
    first = RON_MIN(count, c->capacity - tail);
    for (uint32_t i = 0; i < count; i++) {
        RON_ASSERT_SLOW(items[i] != NULL);
    }
    memcpy(c->ring + tail, items, first * sizeof *items);
    memcpy(c->ring, items + first, (count - first) * sizeof *items);
    c->count += count;
    ron_stat_bump(&c->sent, count);
    ron_stat_set(&c->depth, c->count);
    if (c->count > ron_stat_get(&c->depth_max)) {
        ron_stat_set(&c->depth_max, c->count);
    }
}

static void push(struct ron_chan *c, void *item)
{
    uint32_t tail = c->head + c->count;

    RON_ASSERT(item != NULL);
    if (tail >= c->capacity) {
        tail -= c->capacity;
    }
    c->ring[tail] = item;
    c->count++;
    ron_stat_bump(&c->sent, 1);
    ron_stat_set(&c->depth, c->count);
    if (c->count > ron_stat_get(&c->depth_max)) {
        ron_stat_set(&c->depth_max, c->count);
    }
}

/* Takes the oldest out to make room. */
static void *evict(struct ron_chan *c)
{
    void *item = c->ring[c->head];

    c->head = c->head + 1 == c->capacity ? 0 : c->head + 1;
    c->count--;
    ron_stat_bump(&c->evicted, 1);
    ron_stat_bump(&c->dropped, 1);
    return item;
}

/* With the lock held: RON_OK and pushed, RON_FULL or RON_CLOSED. Counts nothing but closed
 * sends. */
static enum ron_rc offer(struct ron_chan *c, void *item, void **ret_evicted)
{
    if (RON_UNLIKELY(c->closed)) {
        ron_stat_bump(&c->refused, 1);
        return RON_CLOSED;
    }
    if (c->policy == RON_CHAN_DROP_OLDEST) {
        RON_ASSERT(ret_evicted != NULL);
        if (!has_room(c) && c->count == 0) {
            return RON_FULL; /* Everything is reserved: there is nothing to evict. */
        }
        *ret_evicted = has_room(c) ? NULL : evict(c);
    } else if (!has_room(c)) {
        return RON_FULL;
    }
    push(c, item);
    return RON_OK;
}

enum ron_rc ron_chan_try_send(struct ron_chan *c, void *item, void **ret_evicted)
{
    enum ron_rc rc;

    ron_mutex_lock(&c->mu);
    rc = offer(c, item, ret_evicted);
    if (rc == RON_FULL) {
        ron_stat_bump(&c->rejected, 1);
    }
    ron__chan_release(c);
    return rc;
}

enum ron_rc ron_chan_try_send_many(struct ron_chan *c, void *const *items, size_t count,
                                   size_t *ret_sent)
{
    enum ron_rc rc = RON_OK;
    size_t sent = 0;

    RON_ASSERT(c->policy == RON_CHAN_REJECT || c->policy == RON_CHAN_WAIT);
    ron_mutex_lock(&c->mu);
    if (RON_UNLIKELY(c->closed && count > 0)) {
        ron_stat_bump(&c->refused, 1);
        rc = RON_CLOSED;
    } else {
        sent = RON_MIN(count, (size_t)(c->capacity - c->count - c->reserved));
        push_many(c, items, (uint32_t)sent);
        rc = sent == count ? RON_OK : RON_FULL;
    }
    if (rc == RON_FULL && c->policy == RON_CHAN_REJECT) {
        ron_stat_bump(&c->rejected, count - sent);
    }
    ron__chan_release(c);
    *ret_sent = sent;
    return rc;
}

enum ron_rc ron_chan_send_poll(struct ron_chan *c, void *item, struct ron_wait_node *node)
{
    enum ron_rc rc;

    RON_ASSERT(c->policy == RON_CHAN_WAIT);
    ron_mutex_lock(&c->mu);
    ron__lot_leave(&c->tx, node);
    rc = offer(c, item, NULL);
    if (rc == RON_FULL) {
        ron__lot_enter(&c->tx, node);
        rc = RON_AGAIN;
    }
    ron__chan_release(c);
    return rc;
}

static enum ron_rc send_wait(struct ron_chan *c, void *item, struct ron_deadline deadline)
{
    struct ron_wait_node node;
    enum ron_rc waited = RON_OK;
    enum ron_rc rc;

    ron_wait_node_init(&node, NULL);
    for (;;) {
        ron_mutex_lock(&c->mu);
        ron__lot_leave(&c->tx, &node);
        rc = waited == RON_CANCELLED ? RON_CANCELLED : offer(c, item, NULL);
        if (rc != RON_FULL || waited == RON_TIMEOUT) {
            break;
        }
        ron__lot_enter(&c->tx, &node);
        ron__chan_release(c);
        waited = ron_park_until(deadline, c->name);
    }
    if (rc == RON_FULL) {
        rc = RON_TIMEOUT;
        ron_stat_bump(&c->timeouts, 1);
    }
    ron__chan_release(c);
    return rc;
}

enum ron_rc ron_chan_send_retry(struct ron_chan *c, void *item, struct ron_chan_retry *retry)
{
    enum ron_rc rc;

    RON_ASSERT(c->policy == RON_CHAN_RETRY_ONCE);
    RON_ASSERT(retry->tries < 2);
    ron_mutex_lock(&c->mu);
    rc = offer(c, item, NULL);
    if (rc == RON_FULL && retry->tries == 0) {
        rc = RON_AGAIN;
        ron_stat_bump(&c->retried, 1);
    } else if (rc == RON_FULL) {
        ron_stat_bump(&c->rejected, 1);
        ron_stat_bump(&c->dropped, 1);
    }
    ron__chan_release(c);
    retry->tries++;
    if (rc == RON_AGAIN) {
        uint64_t spread = RON_CHAN_RETRY_MAX_MS - RON_CHAN_RETRY_MIN_MS + 1;
        retry->delay_ms = (uint32_t)(RON_CHAN_RETRY_MIN_MS + c->env->rand_u64(c->env) % spread);
    }
    return rc;
}

/* Waits out the delay; a close in between ends it early. */
static enum ron_rc send_retry_once(struct ron_chan *c, void *item, struct ron_deadline deadline)
{
    struct ron_chan_retry retry = {0};
    struct ron_wait_node node;
    struct ron_deadline again;
    enum ron_rc rc = ron_chan_send_retry(c, item, &retry);

    if (rc != RON_AGAIN) {
        return rc;
    }
    again = ron_deadline_min(deadline, ron_deadline_after_ms(ron_mono_ns(), retry.delay_ms));
    ron_wait_node_init(&node, NULL);
    for (;;) {
        enum ron_rc waited;

        ron_mutex_lock(&c->mu);
        ron__lot_leave(&c->tx, &node);
        if (c->closed || ron_deadline_expired(again, ron_mono_ns())) {
            ron_mutex_unlock(&c->mu);
            break;
        }
        ron__lot_enter(&c->tx, &node);
        ron_mutex_unlock(&c->mu);
        waited = ron_park_until(again, c->name);
        if (waited != RON_OK) {
            ron_chan_send_forget(c, &node);
            if (waited == RON_CANCELLED) {
                return RON_CANCELLED;
            }
            break;
        }
    }
    return ron_chan_send_retry(c, item, &retry);
}

enum ron_rc ron_chan_send(struct ron_chan *c, void *item, struct ron_deadline deadline,
                          void **ret_evicted)
{
    /* A blocking point even when there is room: a breach must not depend on the load of the day. */
    switch (c->policy) {
    case RON_CHAN_WAIT:
        ron_blocking_point(c->name);
        return send_wait(c, item, deadline);
    case RON_CHAN_RETRY_ONCE:
        ron_blocking_point(c->name);
        return send_retry_once(c, item, deadline);
    case RON_CHAN_REJECT:
    case RON_CHAN_DROP_OLDEST:
        return ron_chan_try_send(c, item, ret_evicted);
    case RON_CHAN_POLICY_UNSET:
    case RON_CHAN_POLICY_COUNT:
        break;
    }
    RON_UNREACHABLE();
}

void ron_chan_send_forget(struct ron_chan *c, struct ron_wait_node *node)
{
    ron_mutex_lock(&c->mu);
    ron__lot_leave(&c->tx, node);
    ron__chan_release(c);
}

/* ---- reservations ---------------------------------------------------------------------------- */

enum ron_rc ron_chan_reserve(struct ron_chan *c, uint32_t count)
{
    enum ron_rc rc = RON_OK;

    ron_mutex_lock(&c->mu);
    if (c->closed) {
        ron_stat_bump(&c->refused, 1);
        rc = RON_CLOSED;
    } else if (count > c->capacity - c->count - c->reserved) {
        ron_stat_bump(&c->rejected, 1);
        rc = RON_FULL;
    } else {
        c->reserved += count;
    }
    ron_mutex_unlock(&c->mu);
    return rc;
}

uint32_t ron_chan_reserve_some(struct ron_chan *c, uint32_t want, uint32_t due)
{
    uint32_t got;

    RON_ASSERT(due <= want);
    ron_mutex_lock(&c->mu);
    got = c->closed ? 0 : RON_MIN(want, c->capacity - c->count - c->reserved);
    c->reserved += got;
    if (got < due) {
        ron_stat_bump(c->closed ? &c->refused : &c->rejected, due - got);
    }
    ron_mutex_unlock(&c->mu);
    return got;
}

/* The end of a closed channel may depend on the last reservation: then every receiver must look. */
static void release_after_reservation(struct ron_chan *c)
{
    if (c->closed && c->reserved == 0) {
        ron__lot_wake_all(&c->rx, &c->mu);
    }
    ron__chan_release(c);
}

void ron_chan_send_reserved(struct ron_chan *c, void *item)
{
    ron_mutex_lock(&c->mu);
    RON_ASSERT(c->reserved > 0);
    c->reserved--;
    push(c, item);
    release_after_reservation(c);
}

void ron_chan_unreserve(struct ron_chan *c, uint32_t count)
{
    ron_mutex_lock(&c->mu);
    RON_ASSERT(c->reserved >= count);
    c->reserved -= count;
    release_after_reservation(c);
}

/* ---- looking --------------------------------------------------------------------------------- */

void ron_chan_get_stats(const struct ron_chan *c, struct ron_chan_stats *ret_stats)
{
    *ret_stats = (struct ron_chan_stats){
        .sent = ron_stat_get(&c->sent),
        .received = ron_stat_get(&c->received),
        .rejected = ron_stat_get(&c->rejected),
        .dropped = ron_stat_get(&c->dropped),
        .retried = ron_stat_get(&c->retried),
        .refused = ron_stat_get(&c->refused),
        .timeouts = ron_stat_get(&c->timeouts),
        .depth = ron_stat_get(&c->depth),
        .depth_max = ron_stat_get(&c->depth_max),
        .wakeups = ron_stat_get(&c->wakeups),
    };
}

const char *ron_chan_name(const struct ron_chan *c)
{
    return c->name;
}

uint32_t ron_chan_capacity(const struct ron_chan *c)
{
    return c->capacity;
}
