/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - the one table of lock ranks for the whole program.
 *
 * A thread may take a lock only when its rank is higher than every lock the thread already holds,
 * so a cycle of waiting threads cannot form. The table generates the enum, the names in failure
 * messages and the lock table in docs/concurrency. Two locks of one rank can never be held
 * together.
 *
 * X(NAME, number, "name", "what it guards") */
#pragma once

#define RON_LOCK_RANKS(X)                                                                          \
    X(SUPERVISOR, 10, "supervisor", "children, their states and the drain phase")                  \
    X(SHARED, 20, "shared", "service data that is copied out before any wait")                     \
    X(CAS, 30, "cas", "index and open objects of one shard of a content store")                    \
    X(CHAN, 40, "chan", "ring, waiters and close flag of one channel")                             \
    X(BUS, 41, "bus", "ring and reader cursors of one broadcast bus")                              \
    X(WATCH, 42, "watch", "value, version and waiters of one watch")                               \
    X(ONESHOT, 43, "oneshot", "answer and waiter of one reply slot")                               \
    X(RUNQ, 60, "runq", "run queue and sleep flag of one executor worker")                         \
    X(PLATFORM, 70, "platform", "tables of a platform port (poller, simulator)")                   \
    X(REGISTRY, 80, "registry", "table of channels, tasks and locks")                              \
    X(LEAF, 90, "leaf", "a lock under which nothing else is called")

enum ron_lock_rank {
#define X(name, number, text, doc) RON_RANK_##name = (number),
    RON_LOCK_RANKS(X)
#undef X
};
