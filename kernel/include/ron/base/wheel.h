/* SPDX-License-Identifier: Apache-2.0 */
/* wheel.h - hierarchical timer wheel with a tick of one millisecond.
 *
 * Place: base; one per worker loop. The wheel does not know any clock: its owner tells it the time.
 *
 * Eleven levels of 64 slots cover all 64 bits of milliseconds, so a deadline in the far future
 * needs no special case. A timer sits at the level of the highest 6-bit digit in which its deadline
 * differs from the wheel's time, in the slot of that digit of the deadline:
 *
 *     level 0   1 ms a slot          the next 64 ms
 *     level 1   64 ms a slot         the next 4 s
 *     level 2   4 s a slot           the next 4 min        ... and so on
 *
 * When the time reaches a slot of a higher level, its timers move down. Arm and cancel are O(1), a
 * timer moves at most ten times, whatever its deadline.
 *
 * Rules:
 *   W1. A timer never fires early, and fires in the first advance whose time is at or past it.
 *   W2. One advance fires in order of deadline; equal deadlines in the order of arming.
 *   W3. A timer armed at or before the wheel's time, or armed by a callback at or before the time
 *       of the advance in progress, fires at the start of the next advance, in the order of arming.
 *       So one advance fires each timer at most once and always ends.
 *   W4. A time that goes backwards is ignored.
 *   W5. When next_ms names a time, an advance to it fires a timer or moves some down: a loop that
 *       sleeps until then makes progress and cannot spin.
 *
 * A callback may arm, re-arm and cancel any timer of the wheel, its own included, and may free its
 * own. It must not call advance. Threads: one. Ownership: the caller owns the timers; cancel a
 * timer before its memory goes away.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/list.h"
#include "ron/base/macros.h"

#define RON_WHEEL_BITS 6
#define RON_WHEEL_SLOTS 64
#define RON_WHEEL_LEVELS 11 /* 11 * 6 >= 64 bits */

struct ron_timer;
typedef void ron_timer_fn(struct ron_timer *timer);

struct ron_timer {
    struct ron_list_node node; /* linked while armed */
    uint64_t at_ms;
    ron_timer_fn *fire;
    void *owner;   /* for the wheel's `call`; the wheel itself does not look at it */
    uint16_t slot; /* level * 64 + slot while in a slot, or RON_WHEEL_NO_SLOT */
};

struct ron_wheel {
    uint32_t magic;
    bool advancing;
    uint64_t now_ms;    /* every timer in a slot is later than this */
    uint64_t target_ms; /* time of the advance in progress */
    size_t armed;
    ron_timer_fn *call;                  /* how a timer is fired; NULL: timer->fire(timer) */
    uint64_t backwards_count;            /* advances ignored by W4 */
    struct ron_list due;                 /* W3 */
    struct ron_list firing;              /* taken out, waiting for their callback */
    uint64_t occupied[RON_WHEEL_LEVELS]; /* a bit per slot that is not empty */
    struct ron_list slots[RON_WHEEL_LEVELS][RON_WHEEL_SLOTS];
};

/* A timer that is not armed. fire must not be NULL. */
void ron_timer_init(struct ron_timer *timer, ron_timer_fn *fire);

static inline bool ron_timer_armed(const struct ron_timer *timer)
{
    return ron_list_linked(&timer->node);
}

void ron_wheel_init(struct ron_wheel *wheel, uint64_t now_ms);

/* All timers must have fired or been cancelled. */
void ron_wheel_done(struct ron_wheel *wheel);

/* Arms the timer for at_ms; an armed timer is moved. */
void ron_wheel_arm(struct ron_wheel *wheel, struct ron_timer *timer, uint64_t at_ms);

/* Returns whether it was armed. A cancelled timer does not fire, not even when it was already taken
 * out by the advance in progress. */
bool ron_wheel_cancel(struct ron_wheel *wheel, struct ron_timer *timer);

/* Moves the wheel's time to now_ms, firing what is due on the way. Returns how many fired. */
size_t ron_wheel_advance(struct ron_wheel *wheel, uint64_t now_ms);

/* When something has to be done next: false when no timer is armed; otherwise a time that is at or
 * before the earliest deadline, or the wheel's own time when something is due already. */
bool ron_wheel_next_ms(const struct ron_wheel *wheel, uint64_t *ret_at_ms);

static inline size_t ron_wheel_armed(const struct ron_wheel *wheel)
{
    return wheel->armed;
}
