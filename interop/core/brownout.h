/* SPDX-License-Identifier: Apache-2.0 */
/* interop/core/brownout.h - when the bridge gives way, and when it comes back. Pure: time is a
 * parameter.
 *
 * The bridge browns out when one of these holds:
 *   errors   more than rate_ppm of the upstream calls of the last window_ms failed, of at least
 *            calls_min
 *   latency  the 95th percentile of the same calls is slow_ms or more
 *   queue    the work queue has been fuller than queue_pct for queue_ms without a break
 *
 * Rules:
 *   W1. Only what an upstream did counts. A request that we shed or refused is not a call, so the
 *       brownout cannot feed itself.
 *   W2. While it lasts, one request per probe_ms is let through (a probe); its calls are the
 *       evidence for coming back.
 *   W3. It lasts at least hold_ms. Then it ends as soon as, over the last hold_ms: no cause holds
 *       at half of its bound, and, if an upstream was the cause, at least probes_min calls say so.
 *       Where fewer come in that time, the last probes_min calls must all have been good and fast,
 *       however long they took to come.
 *   W4. When it ends, what was counted before is forgotten: old failures do not start the next.
 *   W5. Who stands in front of a service that is not ready sends it nothing, so there may be no
 *       calls at all. A brownout that an upstream caused ends on trial after hold_ms without any:
 *       bridges are open, and the next probes_min calls decide by the bounds above whether it was
 *       over or begins again. After each trial that failed the next takes twice the silence, up to
 *       eight times: a service that stays bad does not make readiness flap.
 *
 * The percentile is exact at its bound: p95 >= T means that more than 5 of 100 calls took T or
 * longer.
 *
 * Threads: one at a time; the owner has a lock or a thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { IOP_BROWNOUT_SLOTS = 60 };

/* X(NAME, "name") */
#define IOP_BROWNOUT_CAUSES(X)                                                                     \
    X(NONE, "none")                                                                                \
    X(ERRORS, "error_rate")                                                                        \
    X(LATENCY, "p95")                                                                              \
    X(QUEUE, "queue_pressure")
enum iop_brownout_cause {
#define X(name, text) IOP_CAUSE_##name,
    IOP_BROWNOUT_CAUSES(X)
#undef X
        IOP_CAUSE_COUNT
};
const char *iop_brownout_cause_name(enum iop_brownout_cause cause);

struct iop_brownout_opts {
    uint64_t window_ms;  /* 300000 */
    uint32_t rate_ppm;   /* 10000: 1 % */
    uint32_t calls_min;  /* 100 */
    uint32_t slow_ms;    /* 500 */
    uint32_t queue_pct;  /* 80 */
    uint64_t queue_ms;   /* 60000 */
    uint64_t hold_ms;    /* 30000 */
    uint32_t probe_ms;   /* 1000 */
    uint32_t probes_min; /* 5 */
};
struct iop_brownout_opts iop_brownout_defaults(void);
bool iop_brownout_opts_valid(const struct iop_brownout_opts *opts);

struct iop_brownout_slot {
    uint64_t index; /* of its time: ms / slot_ms, plus 1; 0: never used */
    uint32_t calls;
    uint32_t failed;
    uint32_t slow; /* took slow_ms or longer */
    uint32_t half; /* took slow_ms / 2 or longer */
};

struct iop_brownout {
    struct iop_brownout_opts opts;
    uint64_t slot_ms;
    struct iop_brownout_slot slots[IOP_BROWNOUT_SLOTS];
    bool active;
    enum iop_brownout_cause cause;
    uint64_t since_ms;
    uint64_t next_probe_ms;
    uint64_t last_call_ms;
    uint32_t good_run;              /* calls that were good and fast since the last that was not */
    bool trial;                     /* W5: it is over, but only calls can tell */
    uint32_t trials_failed;         /* in a row */
    struct iop_brownout_slot tried; /* calls of the trial */
    uint64_t queue_over_ms; /* since when the queue is over its bound; UINT64_MAX: it is not */
    uint64_t queue_half_ms; /* since when it is at or below half of it; UINT64_MAX: it is not */
    uint64_t onsets;
};

void iop_brownout_init(struct iop_brownout *b, const struct iop_brownout_opts *opts);
/* The end of a call to an upstream. `failed`: no answer, a timeout, or a 5xx. */
void iop_brownout_call(struct iop_brownout *b, uint64_t now_ms, bool failed, uint64_t took_ms);
/* Looks at everything; called about once a second with the depth of the work queue. True when the
 * state changed. */
bool iop_brownout_tick(struct iop_brownout *b, uint64_t now_ms, uint64_t depth, uint64_t capacity);
/* Whether a bridge request may go on: always outside of a brownout, inside only as a probe (W2). */
bool iop_brownout_admit(struct iop_brownout *b, uint64_t now_ms, bool *ret_probe);

struct iop_brownout_view {
    bool active;
    bool trial;
    enum iop_brownout_cause cause;
    uint64_t since_ms;
    uint64_t calls; /* of the window */
    uint64_t failed;
    uint64_t slow;
};
void iop_brownout_look(const struct iop_brownout *b, uint64_t now_ms,
                       struct iop_brownout_view *ret_view);
