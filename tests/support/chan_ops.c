/* SPDX-License-Identifier: Apache-2.0 */
/* chan_ops.c - the interpreter and the model of chan_ops.h.
 *
 * Place: tests only. One thread; nothing waits, because every deadline has passed already.
 * The model's rules are written from chan.h and lot.h, not from chan.c:
 *   M1 a full queue is one with count + reserved == capacity;
 *   M2 when the lock is let go, at most one waiter of each side is woken, and only while
 *      woken * batch < available (messages for receivers, room for senders);
 *   M3 a close wakes everybody, and so does the end of the last reservation of a closed channel
 *      for its receivers.
 */
#include "support/chan_ops.h"

#include <string.h>

#include "chan/chan_priv.h"
#include "chan/chan_testing.h"
#include "ron/base/assert.h"
#include "ron/base/env.h"
#include "ron/chan/chan.h"
#include "ron/chan/watch.h"

enum { CAPACITY_MAX = 8, NODES = 3, MANY_MAX = 5, CELLS = 1024 };

/* A task's place in a lot, and the model of it. */
struct poller {
    struct ron_waker waker;
    struct ron_wait_node node;
    uint32_t calls;
    uint32_t calls_expected;
};

struct side {
    struct poller pollers[NODES];
    /* The model: numbers of waiting pollers, oldest first, and who was woken and has not come. */
    size_t waiting[NODES];
    size_t waiting_count;
    bool woken[NODES];
};

struct world {
    struct ron_registry *reg;
    struct ron_chan *chan;
    struct ron_watch *watch;
    struct ron_env env;
    struct ron_chan_retry retry;
    char cells[CELLS]; /* A message is the address of a cell. */
    size_t next_cell;

    enum ron_chan_policy policy;
    size_t capacity;
    uint64_t batch;
    void *items[CAPACITY_MAX];
    size_t count;
    size_t reserved;
    bool closed;
    struct side rx;
    struct side tx;
    struct ron_chan_stats stats;

    void *dropped[CAPACITY_MAX];
    size_t dropped_count;
    const char *doing; /* the operation, for failure messages */
    size_t step;
};

#define CHECK(w, cond) RON_ASSERT_MSG(cond, "step %zu, %s", (w)->step, (w)->doing)

const char *chan_op_name(enum chan_op op)
{
    static const char *const names[CHAN_OP_COUNT] = {
#define X(name, text) text,
        CHAN_OPS(X)
#undef X
    };
    return names[op];
}

/* The model ------------------------------------------------------------------------------------ */

static void side_wake_first(struct side *s)
{
    size_t who = s->waiting[0];

    s->waiting_count--;
    memmove(s->waiting, s->waiting + 1, s->waiting_count * sizeof(s->waiting[0]));
    s->woken[who] = true;
    s->pollers[who].calls_expected++;
}

static void side_wake_all(struct side *s)
{
    while (s->waiting_count > 0) {
        side_wake_first(s);
    }
}

static void side_leave(struct side *s, size_t who)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->waiting_count; i++) {
        if (s->waiting[i] != who) {
            s->waiting[kept++] = s->waiting[i];
        }
    }
    s->waiting_count = kept;
    s->woken[who] = false;
}

static void side_enter(struct side *s, size_t who)
{
    s->waiting[s->waiting_count++] = who;
}

/* M2 for one side. */
static bool side_due(struct side *s, size_t available, uint64_t batch)
{
    uint64_t woken = 0;

    for (size_t i = 0; i < NODES; i++) {
        woken += s->woken[i];
    }
    if (s->waiting_count == 0 || woken * batch >= available) {
        return false;
    }
    side_wake_first(s);
    return true;
}

static void unlock(struct world *w)
{
    w->stats.wakeups += side_due(&w->rx, w->count, w->batch);
    (void)side_due(&w->tx, w->capacity - w->count - w->reserved, w->batch);
}

static void push(struct world *w, void *item)
{
    w->items[w->count++] = item;
    w->stats.sent++;
    w->stats.depth_max = RON_MAX(w->stats.depth_max, (uint64_t)w->count);
}

static void *pop(struct world *w)
{
    void *item = w->items[0];

    w->count--;
    memmove(w->items, w->items + 1, w->count * sizeof(w->items[0]));
    return item;
}

/* One attempt to send, without the counters of a refusal. `ret_evicted` is set on success only. */
static enum ron_rc offer(struct world *w, void *item, void **ret_evicted)
{
    bool full = w->count + w->reserved == w->capacity; /* M1 */

    if (w->closed) {
        w->stats.refused++;
        return RON_CLOSED;
    }
    if (full && (w->policy != RON_CHAN_DROP_OLDEST || w->count == 0)) {
        return RON_FULL;
    }
    *ret_evicted = full ? pop(w) : NULL;
    w->stats.dropped += full;
    push(w, item);
    return RON_OK;
}

/* The result of a receive that does not wait; on RON_OK the channel's answer is checked. */
static enum ron_rc take(struct world *w, size_t max, void *const *got, size_t got_count)
{
    size_t n = RON_MIN(max, w->count);

    if (n == 0) {
        return w->closed && w->reserved == 0 ? RON_CLOSED : RON_AGAIN;
    }
    CHECK(w, got_count == n);
    for (size_t i = 0; i < n; i++) {
        CHECK(w, got[i] == pop(w));
    }
    w->stats.received += n;
    return RON_OK;
}

/* Sending -------------------------------------------------------------------------------------- */

static void *fresh_message(struct world *w)
{
    return &w->cells[w->next_cell++ % CELLS];
}

static struct ron_deadline past(void)
{
    return (struct ron_deadline){.at_ns = 0};
}

static enum ron_rc do_try_send(struct world *w, uint8_t number)
{
    void *item = fresh_message(w);
    void *unset = w;
    void *evicted = unset;
    void *evicted_expected = unset;
    enum ron_rc rc = ron_chan_try_send(w->chan, item, &evicted);

    (void)number;
    CHECK(w, rc == offer(w, item, &evicted_expected));
    w->stats.rejected += rc == RON_FULL;
    unlock(w);
    if (w->policy == RON_CHAN_DROP_OLDEST) {
        CHECK(w, evicted == evicted_expected);
    }
    return rc;
}

static enum ron_rc do_send(struct world *w, uint8_t number)
{
    void *item = fresh_message(w);
    void *evicted = NULL;
    void *evicted_expected = NULL;
    enum ron_rc rc;
    enum ron_rc expected;

    if (w->policy == RON_CHAN_REJECT || w->policy == RON_CHAN_DROP_OLDEST) {
        return do_try_send(w, number);
    }
    rc = ron_chan_send(w->chan, item, past(), &evicted);
    expected = offer(w, item, &evicted_expected);
    unlock(w);
    if (expected == RON_FULL && w->policy == RON_CHAN_WAIT) {
        expected = RON_TIMEOUT;
        w->stats.timeouts++;
        unlock(w); /* It looked once more after its wait of no time. */
    } else if (expected == RON_FULL) {
        w->stats.retried++;
        w->stats.rejected++;
        w->stats.dropped++;
        unlock(w);
    }
    CHECK(w, rc == expected);
    CHECK(w, evicted == NULL);
    return rc;
}

static enum ron_rc do_try_send_many(struct world *w, uint8_t number)
{
    size_t count = number % (MANY_MAX + 1);
    void *items[MANY_MAX] = {NULL};
    void *evicted = NULL;
    size_t sent = SIZE_MAX;
    size_t sent_expected = 0;
    enum ron_rc rc;
    enum ron_rc expected = RON_OK;

    if (w->policy != RON_CHAN_REJECT && w->policy != RON_CHAN_WAIT) {
        return RON_OK;
    }
    for (size_t i = 0; i < count; i++) {
        items[i] = fresh_message(w);
    }
    rc = ron_chan_try_send_many(w->chan, items, count, &sent);
    while (sent_expected < count && expected == RON_OK) {
        expected = offer(w, items[sent_expected], &evicted);
        sent_expected += expected == RON_OK;
    }
    if (expected == RON_FULL && w->policy == RON_CHAN_REJECT) {
        w->stats.rejected += count - sent_expected;
    }
    unlock(w);
    CHECK(w, rc == expected);
    CHECK(w, sent == sent_expected);
    return rc;
}

static enum ron_rc do_send_poll(struct world *w, uint8_t number)
{
    size_t who = number % NODES;
    void *item = fresh_message(w);
    void *evicted = NULL;
    enum ron_rc rc;
    enum ron_rc expected;

    if (w->policy != RON_CHAN_WAIT) {
        return RON_OK;
    }
    rc = ron_chan_send_poll(w->chan, item, &w->tx.pollers[who].node);
    side_leave(&w->tx, who);
    expected = offer(w, item, &evicted);
    if (expected == RON_FULL) {
        side_enter(&w->tx, who);
        expected = RON_AGAIN;
    }
    unlock(w);
    CHECK(w, rc == expected);
    return rc;
}

static enum ron_rc do_send_retry(struct world *w, uint8_t number)
{
    void *item = fresh_message(w);
    void *evicted = NULL;
    uint32_t tries = w->retry.tries;
    enum ron_rc rc;
    enum ron_rc expected;

    (void)number;
    if (w->policy != RON_CHAN_RETRY_ONCE) {
        return RON_OK;
    }
    rc = ron_chan_send_retry(w->chan, item, &w->retry);
    expected = offer(w, item, &evicted);
    if (expected == RON_FULL && tries == 0) {
        expected = RON_AGAIN;
        w->stats.retried++;
        CHECK(w, w->retry.delay_ms >= RON_CHAN_RETRY_MIN_MS);
        CHECK(w, w->retry.delay_ms <= RON_CHAN_RETRY_MAX_MS);
    } else if (expected == RON_FULL) {
        w->stats.rejected++;
        w->stats.dropped++;
    }
    unlock(w);
    CHECK(w, rc == expected);
    CHECK(w, w->retry.tries == tries + 1);
    if (rc != RON_AGAIN) {
        w->retry =
            (struct ron_chan_retry){0}; /* This one is decided; the next is another message. */
    }
    return rc;
}

static enum ron_rc do_send_forget(struct world *w, uint8_t number)
{
    ron_chan_send_forget(w->chan, &w->tx.pollers[number % NODES].node);
    side_leave(&w->tx, number % NODES);
    unlock(w);
    return RON_OK;
}

static enum ron_rc do_reserve(struct world *w, uint8_t number)
{
    size_t count = number % 4;
    enum ron_rc rc = ron_chan_reserve(w->chan, (uint32_t)count);

    if (w->closed) {
        CHECK(w, rc == RON_CLOSED);
        w->stats.refused++;
    } else if (w->count + w->reserved + count > w->capacity) {
        CHECK(w, rc == RON_FULL);
        w->stats.rejected++;
    } else {
        CHECK(w, rc == RON_OK);
        w->reserved += count;
    }
    return rc;
}

static void unlock_after_reservation(struct world *w)
{
    if (w->closed && w->reserved == 0) {
        side_wake_all(&w->rx); /* M3 */
    }
    unlock(w);
}

static enum ron_rc do_send_reserved(struct world *w, uint8_t number)
{
    void *item = fresh_message(w);

    (void)number;
    if (w->reserved > 0) {
        ron_chan_send_reserved(w->chan, item);
        w->reserved--;
        push(w, item);
        unlock_after_reservation(w);
    }
    return RON_OK;
}

static enum ron_rc do_unreserve(struct world *w, uint8_t number)
{
    size_t count = number % (w->reserved + 1);

    ron_chan_unreserve(w->chan, (uint32_t)count);
    w->reserved -= count;
    unlock_after_reservation(w);
    return RON_OK;
}

/* Receiving ------------------------------------------------------------------------------------ */

/* On anything but RON_OK the outputs stay as they were. */
static void check_untouched(struct world *w, enum ron_rc rc, size_t count)
{
    if (rc != RON_OK) {
        CHECK(w, count == SIZE_MAX);
    }
}

static enum ron_rc do_recv_many(struct world *w, uint8_t number)
{
    size_t max = 1 + number % MANY_MAX;
    void *items[MANY_MAX];
    size_t n = SIZE_MAX;
    enum ron_rc rc = ron_chan_recv_many(w->chan, items, max, past(), &n);
    enum ron_rc expected = take(w, max, items, n);

    unlock(w);
    if (expected == RON_AGAIN) {
        expected = RON_TIMEOUT;
        unlock(w); /* It looked once more after its wait of no time. */
    }
    CHECK(w, rc == expected);
    check_untouched(w, rc, n);
    return rc;
}

static enum ron_rc do_try_recv_many(struct world *w, uint8_t number)
{
    size_t max = 1 + number % MANY_MAX;
    void *items[MANY_MAX];
    size_t n = SIZE_MAX;
    enum ron_rc rc = ron_chan_try_recv_many(w->chan, items, max, &n);

    CHECK(w, rc == take(w, max, items, n));
    unlock(w);
    check_untouched(w, rc, n);
    return rc;
}

static enum ron_rc do_recv_poll(struct world *w, uint8_t number)
{
    size_t who = number % NODES;
    size_t max = 1 + number / NODES % MANY_MAX;
    void *items[MANY_MAX];
    size_t n = SIZE_MAX;
    bool more = false;
    bool more_expected;
    enum ron_rc rc = ron_chan_recv_poll(w->chan, &w->rx.pollers[who].node, items, max, &n, &more);

    side_leave(&w->rx, who);
    CHECK(w, rc == take(w, max, items, n));
    more_expected = w->count > 0 || (w->closed && w->reserved == 0);
    if (!more_expected) {
        side_enter(&w->rx, who);
    }
    unlock(w);
    CHECK(w, more == more_expected);
    check_untouched(w, rc, n);
    return rc;
}

static enum ron_rc do_recv_or_changed(struct world *w, uint8_t number)
{
    size_t max = 1 + number / 4 % MANY_MAX;
    bool prefer_work = number % 2 != 0;
    bool changed = number / 2 % 2 != 0;
    void *items[MANY_MAX];
    size_t n = SIZE_MAX;
    enum ron_rc rc = ron_chan_recv_or_changed(w->chan, w->watch, changed ? 0 : 1, prefer_work,
                                              items, max, past(), &n);
    enum ron_rc expected = RON_AGAIN;

    if (!changed || prefer_work) {
        expected = take(w, max, items, n);
        unlock(w);
    }
    if (expected == RON_AGAIN && changed) {
        expected = RON_OK;
        CHECK(w, n == 0);
    } else if (expected == RON_AGAIN) {
        expected = RON_TIMEOUT;
        unlock(w); /* It looked once more after its wait of no time. */
    }
    unlock(w); /* It left the lot. */
    CHECK(w, rc == expected);
    check_untouched(w, rc, n);
    return rc;
}

static enum ron_rc do_recv_forget(struct world *w, uint8_t number)
{
    ron_chan_recv_forget(w->chan, &w->rx.pollers[number % NODES].node);
    side_leave(&w->rx, number % NODES);
    unlock(w);
    return RON_OK;
}

static enum ron_rc do_close(struct world *w, uint8_t number)
{
    bool first;

    if (number % 4 != 0) {
        return RON_OK; /* Rare, or histories would be mostly about closed channels. */
    }
    first = ron_chan_close(w->chan);
    CHECK(w, first == !w->closed);
    if (first) {
        w->closed = true;
        side_wake_all(&w->tx); /* M3 */
        side_wake_all(&w->rx);
    }
    return first ? RON_OK : RON_CLOSED;
}

static enum ron_rc (*const actions[CHAN_OP_COUNT])(struct world *, uint8_t) = {
    [CHAN_OP_TRY_SEND] = do_try_send,
    [CHAN_OP_SEND] = do_send,
    [CHAN_OP_TRY_SEND_MANY] = do_try_send_many,
    [CHAN_OP_SEND_POLL] = do_send_poll,
    [CHAN_OP_SEND_RETRY] = do_send_retry,
    [CHAN_OP_SEND_FORGET] = do_send_forget,
    [CHAN_OP_RESERVE] = do_reserve,
    [CHAN_OP_SEND_RESERVED] = do_send_reserved,
    [CHAN_OP_UNRESERVE] = do_unreserve,
    [CHAN_OP_RECV_MANY] = do_recv_many,
    [CHAN_OP_TRY_RECV_MANY] = do_try_recv_many,
    [CHAN_OP_RECV_POLL] = do_recv_poll,
    [CHAN_OP_RECV_OR_CHANGED] = do_recv_or_changed,
    [CHAN_OP_RECV_FORGET] = do_recv_forget,
    [CHAN_OP_CLOSE] = do_close,
};

/* Life ----------------------------------------------------------------------------------------- */

static void count_call(struct ron_waker *waker)
{
    RON_CONTAINER_OF(waker, struct poller, waker)->calls++;
}

static uint64_t any_number(const struct ron_env *env)
{
    const struct world *w = env->host;

    return w->next_cell * UINT64_C(0x9e3779b97f4a7c15);
}

static void remember_drop(void *item, void *arg)
{
    struct world *w = arg;

    CHECK(w, w->dropped_count < CAPACITY_MAX);
    w->dropped[w->dropped_count++] = item;
}

static void world_make(struct world *w, const uint8_t head[3])
{
    struct ron_chan_opts opts = {.name = "ops",
                                 .producers = "test",
                                 .consumers = "test",
                                 .drop_text = "kept by the test",
                                 .drop = remember_drop,
                                 .drop_arg = w};
    enum ron_rc rc = ron_registry_new(&w->reg, NULL);

    RON_ASSERT(rc == RON_OK);
    w->policy = (enum ron_chan_policy)(1 + head[0] % (RON_CHAN_POLICY_COUNT - 1));
    w->capacity = 1 + head[1] % CAPACITY_MAX;
    w->batch = head[2] % 5;
    w->env = (struct ron_env){.rand_u64 = any_number, .host = w};
    opts.registry = w->reg;
    opts.env = &w->env;
    opts.policy = w->policy;
    opts.capacity = (uint32_t)w->capacity;
    opts.wake_batch = (uint32_t)w->batch;
    rc = ron_chan_new(&opts, &w->chan, NULL);
    RON_ASSERT(rc == RON_OK);
    rc = ron_watch_new(
        &(struct ron_watch_opts){
            .registry = w->reg, .name = "ops", .producers = "test", .consumers = "test"},
        &w->watch, NULL);
    RON_ASSERT(rc == RON_OK);
    w->batch = w->batch == 0 ? RON_CHAN_WAKE_BATCH_DEFAULT : w->batch;
    for (size_t i = 0; i < NODES; i++) {
        w->rx.pollers[i].waker.wake = count_call;
        w->tx.pollers[i].waker.wake = count_call;
        ron_wait_node_init(&w->rx.pollers[i].node, &w->rx.pollers[i].waker);
        ron_wait_node_init(&w->tx.pollers[i].node, &w->tx.pollers[i].waker);
    }
}

/* Frees everything; what was queued must come to `drop`, in order. */
static void world_free(struct world *w)
{
    w->doing = "free";
    for (uint8_t i = 0; i < NODES; i++) {
        (void)do_recv_forget(w, i);
        (void)do_send_forget(w, i);
    }
    ron_chan_unreserve(w->chan, (uint32_t)w->reserved);
    ron_chan_free(w->chan);
    CHECK(w, w->dropped_count == w->count);
    CHECK(w, memcmp(w->dropped, w->items, w->count * sizeof(w->items[0])) == 0);
    ron_watch_free(w->watch);
    ron_registry_free(w->reg); /* It asserts that both have left. */
}

static void check_state(struct world *w)
{
    struct ron_chan_stats stats;

    w->stats.depth = w->count;
    ron_chan_get_stats(w->chan, &stats);
#define X(field) CHECK(w, stats.field == w->stats.field);
    X(sent)
    X(received)
    X(rejected)
    X(dropped)
    X(retried)
    X(refused)
    X(timeouts)
    X(depth)
    X(depth_max)
    X(wakeups)
#undef X
    CHECK(w, ron_chan_is_closed(w->chan) == w->closed);
    for (size_t i = 0; i < NODES; i++) {
        CHECK(w, w->rx.pollers[i].calls == w->rx.pollers[i].calls_expected);
        CHECK(w, w->tx.pollers[i].calls == w->tx.pollers[i].calls_expected);
    }
}

void chan_ops_run(const uint8_t *bytes, size_t size, struct chan_ops_seen *seen)
{
    static struct world w; /* large */

    if (size < 3) {
        return;
    }
    w = (struct world){.doing = "new"};
    world_make(&w, bytes);
    for (size_t at = 3; at + 2 <= size; at += 2) {
        enum chan_op op = (enum chan_op)(bytes[at] % CHAN_OP_COUNT);
        enum ron_rc rc;

        w.doing = chan_op_name(op);
        rc = actions[op](&w, bytes[at + 1]);
        check_state(&w);
        w.step++;
        if (seen != NULL) {
            seen->results[op] |= UINT32_C(1) << -(int)rc;
        }
    }
    if (seen != NULL) {
        seen->steps += w.step;
    }
    world_free(&w);
}
