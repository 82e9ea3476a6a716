/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - time as an interface, and deadline arithmetic that cannot overflow.
 *
 * Place: base. No system call here: io binds the real clocks, the simulator binds virtual ones.
 *
 * Rules:
 *   T1. Durations and deadlines use the monotonic clock; the wall clock only labels things.
 *   T2. All arithmetic saturates. RON_DEADLINE_NEVER absorbs: never plus anything is never.
 *   T3. A remaining time is rounded up, so that sleeping for it never ends before the deadline.
 *   T4. A clock that goes backwards is a fact, not a bug: the guard turns it into a standstill and
 *       counts it.
 *
 * Threads: values are plain. A ron_clock may be shared if its implementation allows it. A guard
 * belongs to one thread.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/macros.h"

#define RON_NS_PER_MS UINT64_C(1000000)
#define RON_NS_PER_S UINT64_C(1000000000)
#define RON_MS_PER_S UINT64_C(1000)

struct ron_clock {
    uint64_t (*mono_ns)(void *ctx); /* since some fixed point; does not jump with the wall */
    uint64_t (*wall_ms)(void *ctx); /* since 1970-01-01 UTC; may jump either way */
    void *ctx;                      /* borrowed; outlives the clock */
};

static inline uint64_t ron_clock_mono_ns(const struct ron_clock *clock)
{
    return clock->mono_ns(clock->ctx);
}

static inline uint64_t ron_clock_wall_ms(const struct ron_clock *clock)
{
    return clock->wall_ms(clock->ctx);
}

static inline uint64_t ron_sat_add_u64(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t ron_sat_mul_u64(uint64_t a, uint64_t b)
{
    uint64_t product = 0;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* A point on the monotonic clock. In a struct so that it cannot be mixed up with a duration. */
struct ron_deadline {
    uint64_t at_ns;
};

static inline struct ron_deadline ron_deadline_never(void)
{
    return (struct ron_deadline){.at_ns = UINT64_MAX};
}

static inline bool ron_deadline_is_never(struct ron_deadline deadline)
{
    return deadline.at_ns == UINT64_MAX;
}

static inline struct ron_deadline ron_deadline_after_ns(uint64_t now_ns, uint64_t delay_ns)
{
    return (struct ron_deadline){.at_ns = ron_sat_add_u64(now_ns, delay_ns)};
}

static inline struct ron_deadline ron_deadline_after_ms(uint64_t now_ns, uint64_t delay_ms)
{
    return ron_deadline_after_ns(now_ns, ron_sat_mul_u64(delay_ms, RON_NS_PER_MS));
}

/* The earlier of the two. */
static inline struct ron_deadline ron_deadline_min(struct ron_deadline a, struct ron_deadline b)
{
    return a.at_ns < b.at_ns ? a : b;
}

/* A deadline at now has expired; "never" does not, not even at the end of time. */
static inline bool ron_deadline_expired(struct ron_deadline deadline, uint64_t now_ns)
{
    return !ron_deadline_is_never(deadline) && deadline.at_ns <= now_ns;
}

/* Nanoseconds left; 0 when expired, UINT64_MAX for never. */
static inline uint64_t ron_deadline_left_ns(struct ron_deadline deadline, uint64_t now_ns)
{
    if (ron_deadline_is_never(deadline)) {
        return UINT64_MAX;
    }
    return deadline.at_ns <= now_ns ? 0 : deadline.at_ns - now_ns;
}

/* Milliseconds left, rounded up (T3); 0 when expired, UINT64_MAX for never. */
static inline uint64_t ron_deadline_left_ms(struct ron_deadline deadline, uint64_t now_ns)
{
    uint64_t left_ns = ron_deadline_left_ns(deadline, now_ns);

    if (left_ns == UINT64_MAX) {
        return UINT64_MAX;
    }
    return left_ns / RON_NS_PER_MS + (left_ns % RON_NS_PER_MS != 0);
}

/* The same as an argument for poll and epoll_wait: -1 for never, at most INT_MAX otherwise. */
static inline int ron_deadline_poll_ms(struct ron_deadline deadline, uint64_t now_ns)
{
    uint64_t left_ms = ron_deadline_left_ms(deadline, now_ns);

    if (left_ms == UINT64_MAX) {
        return -1;
    }
    return left_ms > (uint64_t)INT_MAX ? INT_MAX : (int)left_ms;
}

/* A monotonic filter over the readings of one clock. Start it as {0}. */
struct ron_clock_guard {
    uint64_t last_ns;          /* highest reading so far */
    uint64_t backwards_count;  /* readings that were below it */
    uint64_t backwards_max_ns; /* the largest step back */
};

/* Returns the reading, or the highest one so far when the clock went backwards (T4). */
uint64_t ron_clock_guard_ns(struct ron_clock_guard *guard, uint64_t reading_ns);
