/* SPDX-License-Identifier: Apache-2.0 */
/* chan.h - bounded queue of owned pointers, many producers, many consumers.
 *
 * The capacity and what happens when it is reached are fixed at birth and cannot be walked around:
 *   reject       a full queue refuses at once (RON_FULL): the caller answers Busy
 *   retry_once   a full queue is tried once more after 50-150 ms, then refused and counted as
 *                dropped
 *   wait         the sender waits for room until its deadline
 *   drop_oldest  the oldest message makes room and is handed back, so that its caller can be
 *                answered
 *
 * Ownership: a send moves the message only when it returns RON_OK. RON_FULL, RON_CLOSED,
 * RON_TIMEOUT, RON_AGAIN and RON_CANCELLED leave it with the sender. Messages are never NULL.
 *
 * Closing is one-way. After it every send answers RON_CLOSED, receivers still get what is queued,
 * then RON_CLOSED for ever. A second close changes nothing and says so.
 *
 * Who may call: `try_` and `_poll` functions never wait and may be called on executor workers; the
 * others are blocking points. A task that polls keeps one wait node per channel and side:
 *
 *     rc = ron_chan_recv_poll(c, &node, items, max, &n, &more);
 *     RON_OK: n messages are yours; with `more` call again, without it your waker will be called.
 *     RON_AGAIN: nothing, your waker will be called.  RON_CLOSED: drained, end.
 *
 * The tempting wrong way is to look at the depth first and to sleep on the answer: depth is for the
 * eyes only, it is old when you read it.
 *
 * Wake-ups are the dearest thing here (tens of microseconds), so one is sent per `wake_batch`
 * queued messages and only to somebody who sleeps; a receiver that leaves messages behind wakes the
 * next. */
#pragma once

#include "ron/base/clock.h"
#include "ron/chan/registry.h"
#include "ron/chan/wait.h"

/* X(NAME, "text") */
#define RON_CHAN_POLICIES(X)                                                                       \
    X(REJECT, "reject")                                                                            \
    X(RETRY_ONCE, "retry_once")                                                                    \
    X(WAIT, "wait")                                                                                \
    X(DROP_OLDEST, "drop_oldest")

enum ron_chan_policy {
    RON_CHAN_POLICY_UNSET, /* refused: a policy is always a decision */
#define X(name, text) RON_CHAN_##name,
    RON_CHAN_POLICIES(X)
#undef X
        RON_CHAN_POLICY_COUNT
};

enum {
    RON_CHAN_CAPACITY_MAX = 1 << 20, /* 8 MiB of ring; more than this is a buffer, not a queue */
    RON_CHAN_WAKE_BATCH_DEFAULT = 16,
    RON_CHAN_RETRY_MIN_MS = 50,
    RON_CHAN_RETRY_MAX_MS = 150,
};

struct ron_env;
struct ron_chan;

struct ron_chan_opts {
    struct ron_registry *registry;
    const struct ron_env *env; /* clock and jitter of retry_once; required for that policy only */
    const char *name;
    const char *producers;
    const char *consumers;
    const char *drop_text; /* drop semantics for the tables */
    uint32_t capacity;
    enum ron_chan_policy policy;
    uint32_t wake_batch; /* 0 = default; 1 when each message is a long job */
    /* Disposes of a message that is still queued when the channel is freed. Required. */
    void (*drop)(void *item, void *arg);
    void *drop_arg;
};

RON_MUST_USE enum ron_rc ron_chan_new(const struct ron_chan_opts *opts, struct ron_chan **ret_chan,
                                      struct ron_err *err);
/* Nobody may wait on it any more. What is queued is given to `drop` and counted. Never blocks. */
void ron_chan_free(struct ron_chan *c);

/* True when this call closed it, false when it was closed already. */
bool ron_chan_close(struct ron_chan *c);

/* ---- sending --------------------------------------------------------------------------------- */

/* Never waits. RON_OK, RON_FULL, RON_CLOSED. On a drop_oldest channel `ret_evicted` is required and
 * set, with RON_OK, to the message that made room or to NULL; on the others it may be NULL. */
RON_MUST_USE enum ron_rc ron_chan_try_send(struct ron_chan *c, void *item, void **ret_evicted);

/* The policy in full: waits where the policy waits (retry_once, wait). RON_OK, RON_FULL,
 * RON_CLOSED, RON_TIMEOUT (wait), RON_CANCELLED. */
RON_MUST_USE enum ron_rc ron_chan_send(struct ron_chan *c, void *item, struct ron_deadline deadline,
                                       void **ret_evicted);

/* Room promised ahead: a sender that must not fail later (it is about to give out a number)
 * reserves first. A reservation made before a close is honoured after it; receivers see the end
 * only when none is left. */
RON_MUST_USE enum ron_rc ron_chan_reserve(struct ron_chan *c, uint32_t count);
/* As much as there is, up to `want`; 0 of a closed channel. `due` of them are offers that somebody
 * waits for: what they lack is counted as rejected (or refused). */
RON_MUST_USE uint32_t ron_chan_reserve_some(struct ron_chan *c, uint32_t want, uint32_t due);
void ron_chan_send_reserved(struct ron_chan *c, void *item);
void ron_chan_unreserve(struct ron_chan *c, uint32_t count);

/* ---- receiving ------------------------------------------------------------------------------- */

/* Looks for a message until that time (ron_mono_ns) and takes none: for a blocking task that knows
 * that one comes soon and that a sleep and a wake-up cost more than the wait. Returns when there is
 * one or the channel is closed; others get the core between two looks. Does nothing on a machine
 * with one core. */
void ron_chan_look(const struct ron_chan *c, uint64_t until_ns);

/* Waits until at least one message is there, takes up to `max`. RON_OK, RON_TIMEOUT, RON_CLOSED
 * (drained), RON_CANCELLED. */
RON_MUST_USE enum ron_rc ron_chan_recv_many(struct ron_chan *c, void **items, size_t max,
                                            struct ron_deadline deadline, size_t *ret_count);
RON_MUST_USE enum ron_rc ron_chan_recv(struct ron_chan *c, struct ron_deadline deadline,
                                       void **ret_item);
/* Never waits: RON_AGAIN when empty. */
RON_MUST_USE enum ron_rc ron_chan_try_recv_many(struct ron_chan *c, void **items, size_t max,
                                                size_t *ret_count);
RON_MUST_USE enum ron_rc ron_chan_recv_poll(struct ron_chan *c, struct ron_wait_node *node,
                                            void **items, size_t max, size_t *ret_count,
                                            bool *ret_more);
/* Waits for work and for a change of a watch together. While running, an intake task prefers the
 * change (prefer_work false); while draining, a worker prefers work. RON_OK with *ret_count == 0
 * means "the watch has moved on from `seen`". */
struct ron_watch;
RON_MUST_USE enum ron_rc ron_chan_recv_or_changed(struct ron_chan *c, struct ron_watch *w,
                                                  uint64_t seen, bool prefer_work, void **items,
                                                  size_t max, struct ron_deadline deadline,
                                                  size_t *ret_count);

/* A polling task that ends takes its nodes out of the lots; a wake-up it holds goes to the next
 * waiter. */
void ron_chan_recv_forget(struct ron_chan *c, struct ron_wait_node *node);

/* ---- looking --------------------------------------------------------------------------------- */

struct ron_chan_stats {
    uint64_t sent;
    uint64_t received;
    uint64_t rejected; /* RON_FULL answers: busy_rejections_total */
    uint64_t dropped;  /* evicted, refused after a retry, or left when freed: queue_dropped_total */
    uint64_t retried;  /* second tries of retry_once: backoff_retries_total */
    uint64_t refused;  /* sends on a closed channel */
    uint64_t timeouts; /* sends that waited in vain */
    uint64_t depth;
    uint64_t depth_max;
    uint64_t wakeups; /* wake-ups sent to sleeping receivers */
};
void ron_chan_get_stats(const struct ron_chan *c, struct ron_chan_stats *ret_stats);
const char *ron_chan_name(const struct ron_chan *c);
uint32_t ron_chan_capacity(const struct ron_chan *c);
