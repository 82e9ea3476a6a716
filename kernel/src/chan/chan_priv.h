/* SPDX-License-Identifier: Apache-2.0 */
/* chan_priv.h - the channel's record, shared by chan.c (life, sending), chan_recv.c (receiving).
 *
 * Invariants:
 *   I1 count + reserved <= capacity.
 *   I2 a message has one owner: sender, ring or receiver.
 *   I3 closed never goes back to open.
 *   I4 while the ring holds messages and a receiver waits, a wake-up is under way
 *      (rx woken > 0); the same for room and senders (tx).
 *   I5 sent == received + evicted + count, at every unlock.
 * Guards: head, count, reserved, closed, ring contents and the lots by mu; the rest is immutable
 * after ron_chan_new. Counters are bumped under mu and read relaxed by anybody. */
#pragma once

#include "lot.h"
#include "ron/base/env.h"
#include "ron/chan/chan.h"
#include "ron/chan/registry.h"
#include "ron/chan/watch.h"

enum { RON_CHAN_MAGIC = 0x6368616e };

/* Laid out so that a send or receive touches three cache lines: on two cores each line more is
 * another transfer per message. What is read only, or seldom, comes last. */
struct ron_chan {
    _Alignas(RON_CACHELINE) struct ron_mutex mu;
    uint32_t head; /* index of the oldest message */
    uint32_t count;

    uint32_t reserved;
    bool closed;
    struct ron_au32 closed_flag; /* copy of `closed` for lock-free readers */
    uint32_t capacity;
    uint32_t wake_batch;
    enum ron_chan_policy policy;
    void **ring;
    struct ron_stat sent, received, depth, depth_max;

    struct ron_lot rx;
    struct ron_lot tx;

    struct ron_stat rejected, dropped, evicted, retried, refused, timeouts, wakeups;
    uint32_t magic;
    const char *name;
    const struct ron_env *env;
    struct ron_registry *registry;
    void (*drop)(void *item, void *arg);
    void *drop_arg;
    struct ron_reg_entry entry;
};

/* The wake-ups that a change under the lock has made due; delivered after it. */
struct ron__chan_wakes {
    struct ron_wake rx;
    struct ron_wake tx;
};

void ron__chan_assert(const struct ron_chan *c);
/* Decides both rules; the caller unlocks and delivers. */
struct ron__chan_wakes ron__chan_due(struct ron_chan *c);
/* Unlocks, then delivers. */
void ron__chan_release(struct ron_chan *c);

bool ron_chan_is_closed(const struct ron_chan *c);

void ron_chan_send_forget(struct ron_chan *c, struct ron_wait_node *node);

const char *ron_chan_policy_name(enum ron_chan_policy policy);

const char *ron_reg_kind_name(enum ron_reg_kind kind);

/* For tasks on a worker: RON_OK (changed) or RON_AGAIN (the waker will be called). */
RON_MUST_USE enum ron_rc ron_watch_poll(struct ron_watch *w, uint64_t seen,
                                        struct ron_wait_node *node, uint64_t *ret_value,
                                        uint64_t *ret_version);
void ron_watch_forget(struct ron_watch *w, struct ron_wait_node *node);

/* `retry_once` for a task on a worker. Zero the record first. RON_OK, RON_CLOSED, RON_AGAIN (call
 * again after delay_ms), RON_FULL (second refusal, counted as dropped). */
struct ron_chan_retry {
    uint32_t tries;
    uint32_t delay_ms;
};
RON_MUST_USE enum ron_rc ron_chan_send_retry(struct ron_chan *c, void *item,
                                             struct ron_chan_retry *retry);
