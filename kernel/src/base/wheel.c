/* SPDX-License-Identifier: Apache-2.0 */
/* wheel.c - hierarchical timer wheel. The rules W1 to W5 are in the header.
 *
 * Place: base; the worker loop drives it.
 *
 * Invariants:
 *   I1. A timer in a slot is later than now_ms, and its place is place_of(at_ms, now_ms). So all
 *       timers of one deadline share a slot and keep their order, and at every level only slots
 *       above the digit of now_ms are in use.
 *   I2. Every timer at a lower level is earlier than every timer at a higher one, because it agrees
 *       with now_ms in more digits. So the next thing to do is in the lowest level in use, there in
 *       the lowest slot in use.
 *   I3. Moving now_ms forward without passing the start of that next slot changes no timer's place:
 *       up to there, the digits that decide are the same.
 *   I4. The bit of a slot is set if and only if its list is not empty.
 *
 * Life of a timer:
 *     idle --arm--> slot --advance--> lower slot ... --advance--> firing --callback--> idle
 *       \---arm at or before now--> due --next advance--> firing
 *     any but idle --cancel--> idle
 *
 * Failure: none. A wrong use (advance from a callback, done with armed timers) is an assertion.
 */
#include "ron/base/wheel.h"

#include <string.h>

#include "base/wheel_testing.h"
#include "ron/base/assert.h"

#define WHEEL_MAGIC 0x5748454cu /* "WHEL" */
#define NO_SLOT UINT16_MAX

static unsigned digit_of(uint64_t time_ms, unsigned level)
{
    return (unsigned)(time_ms >> (level * RON_WHEEL_BITS)) & (RON_WHEEL_SLOTS - 1);
}

/* I1: the level is that of the highest digit in which the two times differ. at_ms > now_ms. */
static uint16_t place_of(uint64_t at_ms, uint64_t now_ms)
{
    unsigned highest_bit = 63u - (unsigned)__builtin_clzll(at_ms ^ now_ms);
    unsigned level = highest_bit / RON_WHEEL_BITS;

    return (uint16_t)(level * RON_WHEEL_SLOTS + digit_of(at_ms, level));
}

void ron_timer_init(struct ron_timer *timer, ron_timer_fn *fire)
{
    RON_ASSERT(fire != NULL);
    *timer = (struct ron_timer){.fire = fire, .slot = NO_SLOT};
}

void ron_wheel_init(struct ron_wheel *wheel, uint64_t now_ms)
{
    memset(wheel, 0, sizeof(*wheel));
    wheel->magic = WHEEL_MAGIC;
    wheel->now_ms = now_ms;
    ron_list_init(&wheel->due);
    ron_list_init(&wheel->firing);
    for (size_t level = 0; level < RON_WHEEL_LEVELS; level++) {
        for (size_t slot = 0; slot < RON_WHEEL_SLOTS; slot++) {
            ron_list_init(&wheel->slots[level][slot]);
        }
    }
}

void ron_wheel_done(struct ron_wheel *wheel)
{
    RON_CHECK_MAGIC(wheel, WHEEL_MAGIC);
    RON_ASSERT_MSG(wheel->armed == 0, "%zu timers are still armed", wheel->armed);
    wheel->magic = 0;
}

/* Links a timer that is in no list into the slot of its deadline. */
static void put_in_slot(struct ron_wheel *wheel, struct ron_timer *timer)
{
    RON_ASSERT_MSG(timer->at_ms > wheel->now_ms, "I1");
    timer->slot = place_of(timer->at_ms, wheel->now_ms);
    unsigned level = timer->slot / RON_WHEEL_SLOTS;
    unsigned slot = timer->slot % RON_WHEEL_SLOTS;

    ron_list_push_back(&wheel->slots[level][slot], &timer->node);
    wheel->occupied[level] |= UINT64_C(1) << slot;
}

/* Takes a timer out of whatever list it is in. */
static void unlink_timer(struct ron_wheel *wheel, struct ron_timer *timer)
{
    ron_list_remove(&timer->node);
    if (timer->slot != NO_SLOT) {
        unsigned level = timer->slot / RON_WHEEL_SLOTS;
        unsigned slot = timer->slot % RON_WHEEL_SLOTS;

        if (ron_list_empty(&wheel->slots[level][slot])) {
            wheel->occupied[level] &= ~(UINT64_C(1) << slot); /* keeps I4 */
        }
        timer->slot = NO_SLOT;
    }
}

void ron_wheel_arm(struct ron_wheel *wheel, struct ron_timer *timer, uint64_t at_ms)
{
    RON_CHECK_MAGIC(wheel, WHEEL_MAGIC);
    RON_ASSERT(timer->fire != NULL);
    (void)ron_wheel_cancel(wheel, timer);
    timer->at_ms = at_ms;
    wheel->armed++;
    if (at_ms <= (wheel->advancing ? wheel->target_ms : wheel->now_ms)) {
        ron_list_push_back(&wheel->due, &timer->node); /* W3 */
    } else {
        put_in_slot(wheel, timer);
    }
}

bool ron_wheel_cancel(struct ron_wheel *wheel, struct ron_timer *timer)
{
    RON_CHECK_MAGIC(wheel, WHEEL_MAGIC);
    if (!ron_timer_armed(timer)) {
        return false;
    }
    RON_ASSERT(wheel->armed > 0);
    unlink_timer(wheel, timer);
    wheel->armed--;
    return true;
}

/* I2: finds the slot to be opened next and the time at which it starts. */
static bool next_slot(const struct ron_wheel *wheel, unsigned *ret_level, unsigned *ret_slot,
                      uint64_t *ret_start_ms)
{
    for (unsigned level = 0; level < RON_WHEEL_LEVELS; level++) {
        if (wheel->occupied[level] == 0) {
            continue;
        }
        unsigned slot = (unsigned)__builtin_ctzll(wheel->occupied[level]);
        unsigned shift = level * RON_WHEEL_BITS;
        /* The digits of now above this level, this slot, zeros below. The top level has no digits
         * above it, and shifting by 64 or more bits is undefined. */
        uint64_t above = shift + RON_WHEEL_BITS < 64
                             ? wheel->now_ms >> (shift + RON_WHEEL_BITS) << (shift + RON_WHEEL_BITS)
                             : 0;

        RON_ASSERT_MSG(slot > digit_of(wheel->now_ms, level), "I1");
        *ret_level = level;
        *ret_slot = slot;
        *ret_start_ms = above | (uint64_t)slot << shift;
        return true;
    }
    return false;
}

/* Empties the slot whose start is now_ms: what is due goes to `firing`, the rest moves down. */
static void open_slot(struct ron_wheel *wheel, unsigned level, unsigned slot)
{
    struct ron_list opened;
    struct ron_list_node *node = NULL;

    ron_list_init(&opened);
    ron_list_splice_back(&opened, &wheel->slots[level][slot]);
    wheel->occupied[level] &= ~(UINT64_C(1) << slot); /* keeps I4 */
    while ((node = ron_list_pop_front(&opened)) != NULL) {
        struct ron_timer *timer = RON_LIST_ENTRY(node, struct ron_timer, node);

        timer->slot = NO_SLOT;
        if (timer->at_ms == wheel->now_ms) {
            ron_list_push_back(&wheel->firing, &timer->node);
        } else {
            put_in_slot(wheel, timer);
        }
    }
}

/* Runs the callbacks of `firing`. They may take others out of it, so it is read anew each time. */
static size_t fire_all(struct ron_wheel *wheel)
{
    struct ron_list_node *node = NULL;
    size_t fired = 0;

    while ((node = ron_list_pop_front(&wheel->firing)) != NULL) {
        struct ron_timer *timer = RON_LIST_ENTRY(node, struct ron_timer, node);

        RON_ASSERT_MSG(timer->at_ms <= wheel->target_ms, "W1");
        wheel->armed--;
        fired++;
        if (wheel->call != NULL) {
            wheel->call(timer); /* may free the timer */
        } else {
            timer->fire(timer); /* likewise */
        }
    }
    return fired;
}

size_t ron_wheel_advance(struct ron_wheel *wheel, uint64_t now_ms)
{
    unsigned level = 0;
    unsigned slot = 0;
    uint64_t start_ms = 0;
    size_t fired = 0;

    RON_CHECK_MAGIC(wheel, WHEEL_MAGIC);
    RON_ASSERT_MSG(!wheel->advancing, "advance from a callback");
    if (now_ms < wheel->now_ms) {
        wheel->backwards_count++; /* W4 */
        now_ms = wheel->now_ms;
    }
    wheel->advancing = true;
    wheel->target_ms = now_ms;
    ron_list_splice_back(&wheel->firing, &wheel->due);
    fired += fire_all(wheel);
    while (next_slot(wheel, &level, &slot, &start_ms) && start_ms <= now_ms) {
        wheel->now_ms = start_ms;
        open_slot(wheel, level, slot);
        fired += fire_all(wheel);
    }
    wheel->now_ms = now_ms; /* keeps I1 by I3 */
    wheel->advancing = false;
    return fired;
}

bool ron_wheel_next_ms(const struct ron_wheel *wheel, uint64_t *ret_at_ms)
{
    unsigned level = 0;
    unsigned slot = 0;

    RON_CHECK_MAGIC(wheel, WHEEL_MAGIC);
    if (!ron_list_empty(&wheel->due) || !ron_list_empty(&wheel->firing)) {
        *ret_at_ms = wheel->now_ms;
        return true;
    }
    return next_slot(wheel, &level, &slot, ret_at_ms);
}

void ron_wheel_assert(const struct ron_wheel *wheel)
{
    size_t seen = 0;

    RON_CHECK_MAGIC(wheel, WHEEL_MAGIC);
    RON_LIST_FOREACH(node, &wheel->due)
    {
        RON_ASSERT(RON_LIST_ENTRY(node, struct ron_timer, node)->slot == NO_SLOT);
        seen++;
    }
    RON_LIST_FOREACH(node, &wheel->firing)
    {
        seen++;
    }
    for (unsigned level = 0; level < RON_WHEEL_LEVELS; level++) {
        for (unsigned slot = 0; slot < RON_WHEEL_SLOTS; slot++) {
            const struct ron_list *list = &wheel->slots[level][slot];
            bool occupied = (wheel->occupied[level] >> slot & 1) != 0;

            RON_ASSERT_MSG(occupied == !ron_list_empty(list), "I4");
            RON_LIST_FOREACH(node, list)
            {
                const struct ron_timer *timer = RON_LIST_ENTRY(node, struct ron_timer, node);

                RON_ASSERT_MSG(timer->at_ms > wheel->now_ms, "I1");
                RON_ASSERT_MSG(timer->slot == level * RON_WHEEL_SLOTS + slot, "I1");
                RON_ASSERT_MSG(timer->slot == place_of(timer->at_ms, wheel->now_ms), "I1");
                seen++;
            }
        }
    }
    RON_ASSERT(seen == wheel->armed);
}
