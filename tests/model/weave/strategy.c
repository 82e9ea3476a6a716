/* SPDX-License-Identifier: Apache-2.0 */
/* strategy.c - how a choice is made, and which schedule comes next.
 *
 * Place: asked by engine.c at every choice; knows nothing about locks or waits.
 *
 * Invariants:
 *   S1 every choice takes one place on the tape, in every mode but SIMULATE, whether or not it was
 *      free: so a tape found by DFS within its bounds replays without knowing the bounds;
 *   S2 in DFS the first `prefix` places repeat the schedule before, except that the last of them is
 *      one higher; at those places the same fiber must be asking again, else the body is not
 *      deterministic;
 *   S3 the options that DFS may take at a place are 0..limit-1.
 *
 * DFS is the odometer of an exhaustive generator: run with zeros beyond the prefix, then raise the
 * last place that can be raised and forget what follows. */
#include <string.h>

#include "base/rand_priv.h"
#include "engine.h"
#include "ron/base/assert.h"
#include "ron/base/rand.h"

enum { PCT_DEPTH_MAX = 16, PCT_LENGTH_GUESS = 64, PREEMPT_EVERY_DEFAULT = 64 };

static struct {
    const struct weave_opts *opts;
    struct weave_tape *tape;
    uint32_t pos;
    uint32_t prefix;
    uint32_t preemptions;
    bool calm; /* only option 0 is allowed */
    struct ron_rand rand;
    uint64_t countdown; /* SIMULATE: points until the next preemption */
    /* PCT */
    uint32_t length_max;
    uint32_t change_count;
    uint32_t change_at[PCT_DEPTH_MAX];
    uint8_t limit[WEAVE_TAPE_MAX];
    uint8_t asker[WEAVE_TAPE_MAX];
} s;

static void draw_countdown(void)
{
    uint64_t every = s.opts->preempt_every != 0 ? s.opts->preempt_every : PREEMPT_EVERY_DEFAULT;

    s.countdown = ron_rand_below(&s.rand, 2 * every);
}

void strategy_start(const struct weave_opts *opts, struct weave_tape *tape)
{
    s.opts = opts;
    s.tape = tape;
    s.prefix = 0;
    s.length_max = PCT_LENGTH_GUESS;
    ron_rand_seed(&s.rand, opts->seed);
    if (opts->mode == WEAVE_REPLAY) {
        RON_ASSERT(opts->tape != NULL);
        if (opts->tape != tape) {
            *tape = *opts->tape;
        }
    } else {
        tape->len = 0;
    }
}

void strategy_restart(void)
{
    s.prefix = 0;
}

void strategy_begin(void)
{
    s.pos = 0;
    s.preemptions = 0;
    s.calm = false;
    if (s.opts->mode == WEAVE_SIMULATE) {
        draw_countdown();
    }
    if (s.opts->mode == WEAVE_PCT) {
        uint32_t depth = s.opts->pct_depth != 0 ? s.opts->pct_depth : 3;

        s.change_count = RON_MIN(depth - 1, (uint32_t)PCT_DEPTH_MAX);
        for (uint32_t i = 0; i < s.change_count; i++) {
            s.change_at[i] = (uint32_t)ron_rand_below(&s.rand, s.length_max);
        }
    }
}

bool strategy_next(void)
{
    if (s.opts->mode == WEAVE_RANDOM || s.opts->mode == WEAVE_PCT) {
        s.length_max = RON_MAX(s.length_max, s.pos);
        return true;
    }
    if (s.opts->mode != WEAVE_DFS) {
        return false;
    }
    for (uint32_t at = s.pos; at > 0; at--) {
        if (s.tape->pick[at - 1] + 1 < s.limit[at - 1]) {
            s.tape->pick[at - 1]++;
            s.prefix = at;
            return true;
        }
    }
    return false;
}

uint32_t strategy_depth(void)
{
    return s.pos;
}

void strategy_priority(struct weave_fiber *f)
{
    if (s.opts->mode == WEAVE_PCT) {
        /* Above all values that a change point assigns. */
        f->priority = PCT_DEPTH_MAX + ron_rand_u64(&s.rand) / 2;
    }
}

void strategy_calm(bool calm)
{
    s.calm = calm;
}

/* Puts the choice on the tape (keeps S1 and S2) and returns it. */
static uint32_t record(uint32_t pick, uint32_t allowed)
{
    uint32_t asker = weave_self()->id;

    if (s.pos >= WEAVE_TAPE_MAX) {
        weave_fail("livelock", "a schedule has more than %d choices", (int)WEAVE_TAPE_MAX);
    }
    if (s.opts->mode == WEAVE_DFS && s.pos < s.prefix &&
        (s.asker[s.pos] != (uint8_t)asker || s.limit[s.pos] != (uint8_t)allowed)) {
        weave_fail(
            "unsteady",
            "the body does not repeat itself: choice %u was made by fiber %u with %u options, now "
            "by fiber %u with %u",
            s.pos, s.asker[s.pos], s.limit[s.pos], asker, allowed);
    }
    if (s.opts->mode != WEAVE_REPLAY) {
        s.tape->pick[s.pos] = (uint8_t)pick;
        s.tape->len = s.pos + 1;
    }
    s.asker[s.pos] = (uint8_t)asker;
    s.limit[s.pos] = (uint8_t)allowed;
    s.pos++;
    return pick;
}

/* What the tape says at this place: option 0 beyond its end, and where the option does not exist
 * because an earlier place was changed by hand or by shrinking. */
static uint32_t on_tape(uint32_t n)
{
    uint32_t end = s.opts->mode == WEAVE_REPLAY ? s.tape->len : s.prefix;
    uint32_t pick = s.pos < end ? s.tape->pick[s.pos] : 0;

    return pick < n ? pick : 0;
}

uint32_t strategy_value(uint32_t n, uint32_t allowed)
{
    RON_ASSERT(n >= 1);
    RON_ASSERT(n < 256);
    RON_ASSERT(allowed >= 1 && allowed <= n);
    allowed = s.calm ? 1 : allowed;
    switch (s.opts->mode) {
    case WEAVE_DFS:
        return record(on_tape(allowed), allowed);
    case WEAVE_REPLAY:
        return record(on_tape(n), n);
    case WEAVE_SIMULATE:
        return (uint32_t)ron_rand_below(&s.rand, allowed);
    case WEAVE_RANDOM:
    case WEAVE_PCT:
        break;
    }
    return record((uint32_t)ron_rand_below(&s.rand, allowed), allowed);
}

static uint32_t highest_priority(struct weave_fiber *const *cand, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 0; i < s.change_count; i++) {
        if (s.change_at[i] == s.pos) {
            cand[0]->priority = i;
        }
    }
    for (uint32_t i = 1; i < n; i++) {
        if (cand[i]->priority > cand[best]->priority) {
            best = i;
        }
    }
    return best;
}

uint32_t strategy_fiber(struct weave_fiber *const *cand, uint32_t n, bool preempts)
{
    uint32_t allowed = s.calm ? 1 : n;
    uint32_t pick;

    RON_ASSERT(n < 256);
    switch (s.opts->mode) {
    case WEAVE_DFS:
        if (preempts && s.preemptions >= s.opts->preemptions_max) {
            allowed = 1;
        }
        pick = record(on_tape(allowed), allowed);
        break;
    case WEAVE_REPLAY:
        pick = record(on_tape(n), n);
        break;
    case WEAVE_PCT:
        pick = record(s.calm ? 0 : highest_priority(cand, n), n);
        break;
    case WEAVE_SIMULATE:
        return (uint32_t)ron_rand_below(&s.rand, allowed);
    case WEAVE_RANDOM:
    default:
        pick = record((uint32_t)ron_rand_below(&s.rand, allowed), n);
        break;
    }
    s.preemptions += preempts && pick != 0;
    return pick;
}

bool strategy_pass(bool matters)
{
    switch (s.opts->mode) {
    case WEAVE_DFS:
        if (!matters || s.calm || s.preemptions >= s.opts->preemptions_max) {
            record(0, 1);
            return true;
        }
        return false;
    case WEAVE_REPLAY:
        if (on_tape(UINT32_MAX) == 0) {
            record(0, 1);
            return true;
        }
        return false;
    case WEAVE_SIMULATE:
        if (s.countdown > 0) {
            s.countdown--;
            return true;
        }
        draw_countdown();
        return false;
    case WEAVE_RANDOM:
    case WEAVE_PCT:
        break;
    }
    if (!matters || s.calm) {
        record(0, 1);
        return true;
    }
    return false;
}
