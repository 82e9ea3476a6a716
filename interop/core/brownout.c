/* SPDX-License-Identifier: Apache-2.0 */
/* interop/core/brownout.c - the sentinel's arithmetic; contract in brownout.h.
 *
 * Calls are counted in slots of a sixtieth of the window; a sum over the last n milliseconds takes
 * the slots that begin inside them, so the window is right to one slot. No floats: a rate is
 * compared by products, which 64 bits hold (counts are below 2^32 per slot, 60 slots). */
#include "interop/core/brownout.h"

#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/macros.h"

enum {
    PPM = 1000000,
    HUNDRED = 100,
    TAIL_PCT = 5,      /* the slowest 5 of 100 are beyond p95 */
    SILENCE_SHIFT = 3, /* W5: eight times at most */
};

struct sums {
    uint64_t calls;
    uint64_t failed;
    uint64_t slow;
    uint64_t half;
};

const char *iop_brownout_cause_name(enum iop_brownout_cause cause)
{
    static const char *const names[] = {
#define X(name, text) [IOP_CAUSE_##name] = (text),
        IOP_BROWNOUT_CAUSES(X)
#undef X
    };

    return (unsigned)cause < IOP_CAUSE_COUNT ? names[cause] : "?";
}

struct iop_brownout_opts iop_brownout_defaults(void)
{
    return (struct iop_brownout_opts){.window_ms = 300000,
                                      .rate_ppm = 10000,
                                      .calls_min = 100,
                                      .slow_ms = 500,
                                      .queue_pct = 80,
                                      .queue_ms = 60000,
                                      .hold_ms = 30000,
                                      .probe_ms = 1000,
                                      .probes_min = 5};
}

bool iop_brownout_opts_valid(const struct iop_brownout_opts *opts)
{
    return opts->window_ms >= IOP_BROWNOUT_SLOTS && opts->rate_ppm > 0 && opts->rate_ppm <= PPM &&
           opts->calls_min > 0 && opts->slow_ms > 1 && opts->queue_pct > 1 &&
           opts->queue_pct <= HUNDRED && opts->hold_ms > 0 && opts->hold_ms <= opts->window_ms &&
           opts->probe_ms > 0 && opts->probes_min > 0;
}

void iop_brownout_init(struct iop_brownout *b, const struct iop_brownout_opts *opts)
{
    RON_ASSERT(iop_brownout_opts_valid(opts));
    memset(b, 0, sizeof *b);
    b->opts = *opts;
    b->slot_ms = opts->window_ms / IOP_BROWNOUT_SLOTS;
    b->queue_over_ms = UINT64_MAX;
    b->queue_half_ms = UINT64_MAX;
}

static void count(struct iop_brownout_slot *slot, const struct iop_brownout_opts *opts, bool failed,
                  uint64_t took_ms)
{
    slot->calls++;
    slot->failed += failed;
    slot->slow += took_ms >= opts->slow_ms;
    slot->half += took_ms >= opts->slow_ms / 2;
    RON_ASSERT(slot->failed <= slot->calls);
    RON_ASSERT_MSG(slot->slow <= slot->half, "a slow call is also half as slow");
}

void iop_brownout_call(struct iop_brownout *b, uint64_t now_ms, bool failed, uint64_t took_ms)
{
    RON_ASSERT(b->slot_ms > 0);
    uint64_t index = now_ms / b->slot_ms + 1;
    struct iop_brownout_slot *slot = &b->slots[index % IOP_BROWNOUT_SLOTS];

    if (slot->index != index) {
        *slot = (struct iop_brownout_slot){.index = index};
    }
    count(slot, &b->opts, failed, took_ms);
    if (b->trial) {
        count(&b->tried, &b->opts, failed, took_ms);
    }
    b->last_call_ms = now_ms;
    if (failed || took_ms >= b->opts.slow_ms / 2) {
        b->good_run = 0;
    } else if (b->good_run < b->opts.probes_min) {
        b->good_run++;
    }
}

/* Over the slots that lie in the last `span_ms`, the present one included. */
static struct sums sum(const struct iop_brownout *b, uint64_t now_ms, uint64_t span_ms)
{
    uint64_t last = now_ms / b->slot_ms + 1;
    uint64_t count = RON_MAX(span_ms / b->slot_ms, (uint64_t)1);
    struct sums s = {0};

    count = RON_MIN(count, (uint64_t)IOP_BROWNOUT_SLOTS);
    for (size_t i = 0; i < IOP_BROWNOUT_SLOTS; i++) {
        const struct iop_brownout_slot *slot = &b->slots[i];

        /* A clock that went back leaves slots of the future: they do not count. */
        if (slot->index != 0 && slot->index <= last && slot->index + count > last) {
            s.calls += slot->calls;
            s.failed += slot->failed;
            s.slow += slot->slow;
            s.half += slot->half;
        }
    }
    return s;
}

/* Whether an upstream is bad enough to begin. */
static enum iop_brownout_cause upstream_cause(const struct iop_brownout *b, const struct sums *s,
                                              uint32_t calls_min)
{
    if (s->calls < calls_min) {
        return IOP_CAUSE_NONE;
    }
    if (s->failed * PPM > s->calls * b->opts.rate_ppm) {
        return IOP_CAUSE_ERRORS;
    }
    if (s->slow * HUNDRED > s->calls * TAIL_PCT) {
        return IOP_CAUSE_LATENCY;
    }
    return IOP_CAUSE_NONE;
}

/* W3, the upstream's half: below half of both bounds. */
static bool upstream_calm(const struct iop_brownout *b, const struct sums *s)
{
    if (b->cause == IOP_CAUSE_QUEUE && s->calls == 0) {
        return true;
    }
    if (b->cause != IOP_CAUSE_QUEUE && s->calls < b->opts.probes_min) {
        return b->good_run >= b->opts.probes_min;
    }
    return s->failed * 2 * PPM < s->calls * b->opts.rate_ppm &&
           s->half * HUNDRED <= s->calls * TAIL_PCT;
}

static void look_at_queue(struct iop_brownout *b, uint64_t now_ms, uint64_t depth,
                          uint64_t capacity)
{
    bool over = depth * HUNDRED > capacity * b->opts.queue_pct;
    bool half = depth * 2 * HUNDRED <= capacity * b->opts.queue_pct;

    if (!over) {
        b->queue_over_ms = UINT64_MAX;
    } else if (b->queue_over_ms == UINT64_MAX) {
        b->queue_over_ms = now_ms;
    }
    if (!half) {
        b->queue_half_ms = UINT64_MAX;
    } else if (b->queue_half_ms == UINT64_MAX) {
        b->queue_half_ms = now_ms;
    }
}

/* W5: what the calls of a trial say, once there are enough of them. */
static enum iop_brownout_cause judge_trial(struct iop_brownout *b)
{
    const struct iop_brownout_slot *t = &b->tried;
    struct sums s = {t->calls, t->failed, t->slow, t->half};
    enum iop_brownout_cause cause = upstream_cause(b, &s, b->opts.probes_min);

    if (cause == IOP_CAUSE_NONE && t->calls >= b->opts.probes_min) {
        b->trial = false;
        b->trials_failed = 0;
    } else if (cause != IOP_CAUSE_NONE && b->trials_failed < SILENCE_SHIFT) {
        b->trials_failed++;
    }
    return cause;
}

static bool begin(struct iop_brownout *b, uint64_t now_ms)
{
    struct sums s = sum(b, now_ms, b->opts.window_ms);
    enum iop_brownout_cause cause = b->trial ? judge_trial(b) : IOP_CAUSE_NONE;

    if (cause == IOP_CAUSE_NONE) {
        cause = upstream_cause(b, &s, b->opts.calls_min);
    }
    if (cause == IOP_CAUSE_NONE && b->queue_over_ms != UINT64_MAX && now_ms >= b->queue_over_ms &&
        now_ms - b->queue_over_ms >= b->opts.queue_ms) {
        cause = IOP_CAUSE_QUEUE;
    }
    if (cause == IOP_CAUSE_NONE) {
        return false;
    }
    RON_ASSERT_MSG(!b->active, "a brownout starts once");
    b->active = true;
    b->trial = false;
    b->cause = cause;
    b->since_ms = now_ms;
    b->next_probe_ms = now_ms;
    b->good_run = 0;
    b->onsets++;
    return true;
}

/* W5. */
static bool silent(const struct iop_brownout *b, uint64_t now_ms)
{
    uint64_t from_ms = RON_MAX(b->since_ms, b->last_call_ms);

    return b->cause != IOP_CAUSE_QUEUE && now_ms >= from_ms &&
           now_ms - from_ms >= b->opts.hold_ms << b->trials_failed;
}

static bool end(struct iop_brownout *b, uint64_t now_ms)
{
    struct sums s = sum(b, now_ms, b->opts.hold_ms);
    bool held = now_ms >= b->since_ms && now_ms - b->since_ms >= b->opts.hold_ms;
    bool queue_calm = b->queue_half_ms != UINT64_MAX;
    bool calm = upstream_calm(b, &s);

    if (!held || !queue_calm || !(calm || silent(b, now_ms))) {
        return false;
    }
    RON_ASSERT_MSG(b->cause != IOP_CAUSE_NONE, "a brownout has a cause");
    b->active = false;
    b->trial = !calm;
    b->tried = (struct iop_brownout_slot){0};
    if (calm) {
        b->trials_failed = 0;
    }
    b->cause = IOP_CAUSE_NONE;
    b->since_ms = now_ms;
    memset(b->slots, 0, sizeof b->slots); /* W4 */
    return true;
}

bool iop_brownout_tick(struct iop_brownout *b, uint64_t now_ms, uint64_t depth, uint64_t capacity)
{
    look_at_queue(b, now_ms, depth, capacity);
    if (now_ms < b->since_ms) {
        b->since_ms = now_ms; /* the clock went back: hold from here */
        b->next_probe_ms = RON_MIN(b->next_probe_ms, now_ms);
    }
    b->last_call_ms = RON_MIN(b->last_call_ms, now_ms);
    return b->active ? end(b, now_ms) : begin(b, now_ms);
}

bool iop_brownout_admit(struct iop_brownout *b, uint64_t now_ms, bool *ret_probe)
{
    *ret_probe = false;
    if (!b->active) {
        return true;
    }
    if (now_ms < b->next_probe_ms) {
        return false;
    }
    b->next_probe_ms = now_ms + b->opts.probe_ms;
    *ret_probe = true;
    return true;
}

void iop_brownout_look(const struct iop_brownout *b, uint64_t now_ms,
                       struct iop_brownout_view *ret_view)
{
    struct sums s = sum(b, now_ms, b->opts.window_ms);

    RON_ASSERT_MSG(b->active == (b->cause != IOP_CAUSE_NONE), "active exactly with a cause");
    RON_ASSERT_MSG(!(b->active && b->trial), "W5: a trial follows a brownout");
    *ret_view = (struct iop_brownout_view){.active = b->active,
                                           .trial = b->trial,
                                           .cause = b->cause,
                                           .since_ms = b->since_ms,
                                           .calls = s.calls,
                                           .failed = s.failed,
                                           .slow = s.slow};
}
