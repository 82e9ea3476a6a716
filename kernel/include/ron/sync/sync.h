/* SPDX-License-Identifier: Apache-2.0 */
/* sync.h - the only door to threads, mutexes, conditions and atomics.
 *
 * Why a door: the concurrency rules of the services ("no lock across a blocking point", "no
 * blocking call on a loop thread", "locks in rank order") are checked here, where nobody can walk
 * around them; and the same kernel sources run on real threads or, when built with RON_MODEL=1, on
 * fibers whose every interleaving is explored (tests/model/weave).
 *
 * Rules that are checked on every call:
 *   R1 a mutex is taken only when its rank is above all ranks the thread holds;
 *   R2 a blocking point (ron_blocking_point, ron_park_until, ron_cond_wait) is reached with no lock
 *      held, except the condition's own mutex;
 *   R3 a blocking point is reached only on a thread that may block. Executor workers may not;
 *   R4 a mutex is released by the thread that took it.
 * A breach aborts with the names of the locks in every build but release; the release build counts
 * it (ron_sync_violations) and goes on.
 *
 * Atomics are acquire on load, release on store and sequentially consistent on read-modify-write. A
 * `ron_stat` is a relaxed counter for observation only: never decide by its value. Standalone
 * fences do not exist here, because ThreadSanitizer cannot follow them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/clock.h"
#include "ron/base/macros.h"
#include "ron/base/rc.h"
#include "ron/sync/ranks.h"

#if !RON_MODEL
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#endif

#ifndef RON_CHECKED
#define RON_CHECKED 1
#endif

/* ---- atomics --------------------------------------------------------------------------------- */

#if RON_MODEL
/* Every atomic operation is a point at which the explorer may switch to another fiber. */
void weave_point(const char *what, const void *addr);
#define RON_AT_TYPE(type) type
#define RON_AT_POINT(what, addr) weave_point(what, addr)
#define RON_AT_LOAD(a) (*(a))
#define RON_AT_STORE(a, x) (*(a) = (x))
#define RON_AT_XCHG(a, x, old) ((old) = *(a), *(a) = (x))
#define RON_AT_ADD(a, x, old) ((old) = *(a), *(a) += (x))
#define RON_AT_CAS(a, exp, x) (*(a) == *(exp) ? (*(a) = (x), true) : (*(exp) = *(a), false))
#else
#define RON_AT_TYPE(type) _Atomic(type)
#define RON_AT_POINT(what, addr) ((void)0)
#define RON_AT_LOAD(a) atomic_load_explicit(a, memory_order_acquire)
#define RON_AT_STORE(a, x) atomic_store_explicit(a, x, memory_order_release)
#define RON_AT_XCHG(a, x, old) ((old) = atomic_exchange(a, x))
#define RON_AT_ADD(a, x, old) ((old) = atomic_fetch_add(a, x))
#define RON_AT_CAS(a, exp, x) atomic_compare_exchange_strong(a, exp, x)
#endif

/* ron_au32, ron_au64, ron_aptr: load, store, xchg (returns the old value), add (returns the old
 * value) and cas (true when *expected was there; otherwise *expected is refreshed). */
#define RON_ATOMIC_COMMON(name, type)                                                              \
    struct ron_##name {                                                                            \
        RON_AT_TYPE(type) _v;                                                                      \
    };                                                                                             \
    static inline type ron_##name##_load(const struct ron_##name *a)                               \
    {                                                                                              \
        RON_AT_POINT("load", a);                                                                   \
        return RON_AT_LOAD(&a->_v);                                                                \
    }                                                                                              \
    static inline void ron_##name##_store(struct ron_##name *a, type x)                            \
    {                                                                                              \
        RON_AT_POINT("store", a);                                                                  \
        RON_AT_STORE(&a->_v, x);                                                                   \
    }                                                                                              \
    static inline type ron_##name##_xchg(struct ron_##name *a, type x)                             \
    {                                                                                              \
        type old;                                                                                  \
        RON_AT_POINT("xchg", a);                                                                   \
        RON_AT_XCHG(&a->_v, x, old);                                                               \
        return old;                                                                                \
    }                                                                                              \
    static inline bool ron_##name##_cas(struct ron_##name *a, type *expected, type x)              \
    {                                                                                              \
        RON_AT_POINT("cas", a);                                                                    \
        return RON_AT_CAS(&a->_v, expected, x);                                                    \
    }

#define RON_ATOMIC_NUMBER(name, type)                                                              \
    RON_ATOMIC_COMMON(name, type)                                                                  \
    static inline type ron_##name##_add(struct ron_##name *a, type x)                              \
    {                                                                                              \
        type old;                                                                                  \
        RON_AT_POINT("add", a);                                                                    \
        RON_AT_ADD(&a->_v, x, old);                                                                \
        return old;                                                                                \
    }

RON_ATOMIC_NUMBER(au32, uint32_t)
RON_ATOMIC_NUMBER(au64, uint64_t)
RON_ATOMIC_COMMON(aptr, void *)

/* A counter or gauge to be looked at, with no ordering. Not a schedule point in the model, so that
 * observation does not multiply the schedules. */
struct ron_stat {
    RON_AT_TYPE(uint64_t) _v;
};

#if RON_MODEL
static inline void ron_stat_add(struct ron_stat *s, uint64_t n)
{
    s->_v += n;
}
static inline void ron_stat_set(struct ron_stat *s, uint64_t n)
{
    s->_v = n;
}
static inline uint64_t ron_stat_get(const struct ron_stat *s)
{
    return s->_v;
}
#else
static inline void ron_stat_add(struct ron_stat *s, uint64_t n)
{
    atomic_fetch_add_explicit(&s->_v, n, memory_order_relaxed);
}
static inline void ron_stat_set(struct ron_stat *s, uint64_t n)
{
    atomic_store_explicit(&s->_v, n, memory_order_relaxed);
}
static inline uint64_t ron_stat_get(const struct ron_stat *s)
{
    return atomic_load_explicit(&s->_v, memory_order_relaxed);
}
#endif
/* For a counter whose writers are already serialised (by a lock or a single owner): no locked bus
 * cycle, still safe to read from anywhere. */
static inline void ron_stat_bump(struct ron_stat *s, uint64_t n)
{
    ron_stat_set(s, ron_stat_get(s) + n);
}

/* ---- mutex and condition --------------------------------------------------------------------- */

struct ron_mutex {
#if RON_MODEL
    void *_owner; /* fiber that holds it, NULL when free */
#else
    pthread_mutex_t _m;
#endif
    const char *name;
    enum ron_lock_rank rank;
    uint32_t _magic;
};

/* `name` is kept, not copied: pass a string that lives as long as the mutex. */
void ron_mutex_init(struct ron_mutex *m, enum ron_lock_rank rank, const char *name);
void ron_mutex_done(struct ron_mutex *m);
void ron_mutex_lock(struct ron_mutex *m);
void ron_mutex_unlock(struct ron_mutex *m);
bool ron_mutex_held(const struct ron_mutex *m); /* by the calling thread */

struct ron_cond {
#if RON_MODEL
    uint32_t _waiters;
#else
    pthread_cond_t _c;
#endif
    uint32_t _magic;
};

void ron_cond_init(struct ron_cond *c);
void ron_cond_done(struct ron_cond *c);
void ron_cond_signal(struct ron_cond *c);
void ron_cond_broadcast(struct ron_cond *c);
/* Spurious returns happen: always wait in a loop on a predicate. Returns false when the deadline
 * has passed; the predicate must be looked at once more even then. */
bool ron_cond_wait_until(struct ron_cond *c, struct ron_mutex *m, struct ron_deadline deadline);

/* ---- threads --------------------------------------------------------------------------------- */

/* At most this many threads live at once: a worker per core, a thread per blocking task and the few
 * of the runtime itself; 256 is more than ten times what the five services together ask for. */
enum { RON_THREADS_MAX = 256, RON_THREAD_HELD_MAX = 8 };

/* Long-lived record of a thread: recycled, never freed, so a late wake is harmless. */
struct ron_thread;

struct ron_thread_opts {
    const char *name;     /* at most 15 characters are shown by the system */
    bool may_block;       /* false for executor workers (R3) */
    size_t stack_bytes;   /* 0 = 256 KiB */
    void (*main)(void *); /* body */
    void *arg;
};

RON_MUST_USE enum ron_rc ron_thread_start(const struct ron_thread_opts *opts,
                                          struct ron_thread **ret_thread, struct ron_err *err);
/* Waits for the end of the thread and gives its record back. Blocking point. */
void ron_thread_join(struct ron_thread *t);
/* Joins only if the thread has already left its body; never waits. */
bool ron_thread_try_join(struct ron_thread *t);
struct ron_thread *ron_thread_self(void);
/* Asks a thread to give up: its present and every later park returns RON_CANCELLED. Cooperative: C
 * has no safe way to end a thread that does not wait. */
void ron_thread_cancel(struct ron_thread *t);
/* Whether the calling thread may block; returns the old setting. */
bool ron_thread_set_may_block(bool may_block);
/* How often this thread took a lock of rank leaf while it held one of rank shared. A path that must
 * never hold two locks for service data compares it before and after. */
uint64_t ron_thread_nests(void);
#if !RON_MODEL
/* For task/signals and io alone: masks a signal set in the calling thread and those it starts;
 * sends a signal to one thread. */
int ron_thread_block_signals(const sigset_t *set);
void ron_thread_signal(struct ron_thread *t, int signo);
#endif

/* ---- waiting --------------------------------------------------------------------------------- */

/* Names a place where the calling thread may stop for a while: asserts R2 and R3. Every wrapper of
 * a blocking system call (file, fsync, DNS, SQL, poll) calls it first. */
void ron_blocking_point(const char *what);
/* Asserts R2 alone: for the loop's own poll and for the return of a handler. */
void ron_no_lock_point(const char *what);

/* A thread parks until somebody unparks it. An unpark that comes first is remembered (one, not
 * many), so "check, then park" cannot miss it. Returns RON_OK when unparked (maybe for no reason),
 * RON_TIMEOUT, or RON_CANCELLED. */
enum ron_rc ron_park_until(struct ron_deadline deadline, const char *what);
void ron_unpark(struct ron_thread *t);

/* How often a waiter may look again before it sleeps: 0 on one core and under RON_MODEL, where the
 * other side cannot act meanwhile. */
#if RON_MODEL
static inline uint32_t ron_spin_budget(void)
{
    return 0;
}
static inline void ron_spin_pause(void)
{
}
static inline void ron_spin_yield(void)
{
}
#else
uint32_t ron_spin_budget(void);
void ron_spin_pause(void);
/* The same for looks that go on for longer: whoever wants the core gets it in between. */
void ron_spin_yield(void);
#endif

/* The clock by which all waits here are measured: monotonic; virtual under RON_MODEL. */
uint64_t ron_mono_ns(void);

/* ---- breaches -------------------------------------------------------------------------------- */

/* X(NAME, "metric label", "doc") */
#define RON_SYNC_BREACHES(X)                                                                       \
    X(RANK, "rank", "a lock was taken out of rank order")                                          \
    X(HELD, "held", "a blocking point was reached with a lock held")                               \
    X(LOOP, "loop", "a blocking call was made on a thread that may not block")                     \
    X(OWNER, "owner", "a lock was released, or data written, by another than its owner")

enum ron_sync_breach {
#define X(name, label, doc) RON_BREACH_##name,
    RON_SYNC_BREACHES(X)
#undef X
        RON_BREACH_COUNT
};

const char *ron_sync_breach_label(enum ron_sync_breach b);
uint64_t ron_sync_violations(enum ron_sync_breach b);
/* Reports a breach: aborts in checked builds, counts in release. */
void ron_sync_breach(enum ron_sync_breach b, const char *what);

/* ---- single writer --------------------------------------------------------------------------- */

/* Data with one writing task. The first writer owns it; a write from elsewhere is a breach (OWNER).
 * The identity is the task when one is running, else the thread. */
struct ron_single_writer {
    struct ron_aptr _owner;
};
void ron_single_writer_check(struct ron_single_writer *w, const char *what);
/* Hands the data to whoever writes next, for example after a restart. */
void ron_single_writer_release(struct ron_single_writer *w);
/* Set by the executor around a task's handler; NULL outside. */
void *ron_identity_swap(void *identity);
