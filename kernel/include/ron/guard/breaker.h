/* SPDX-License-Identifier: Apache-2.0 */
/* breaker.h - stops calling an upstream that does not work, and finds out when it does again.
 *
 *   CLOSED     calls pass; their results are counted. It opens when one of the rules is met:
 *                a) `row_max` failures in a row;
 *                b) at least `rate_pct` percent failures among at least `rate_min_calls` calls of
 *                   the window;
 *                c) `count_max` failures in the window.
 *              A rule with its number at 0 is off.
 *   OPEN       calls are refused for `open_ms`.
 *   HALF_OPEN  the next `probes` calls pass, the others are refused. When all probes have succeeded
 *              it closes with clean counts; the first failure opens it again.
 *
 * Rules:
 *   K1. Every RON_OK of ron_breaker_admit is followed by one ron_breaker_report of its ticket.
 *   K2. A result counts only in the state in which its call was admitted: a slow answer from before
 *       the opening neither closes nor opens anything.
 *   K3. A call that says nothing about the upstream (cancelled by us, refused as our fault with a
 *       4xx) is reported as VOID; a probe's place is then free again.
 *   K4. Probes that are never reported (a breach of K1) delay, but do not block for ever: open_ms
 *       after the last one was admitted a new round begins.
 *   K5. offered = admitted + refused.
 * The window is made of RON_BREAKER_SLOTS slots of equal length, the running one included; so it
 * reaches back between nine and ten tenths of window_ms.
 *
 * Threads: any; one lock of rank leaf, held for some tens of nanoseconds. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ron/base/clock.h"
#include "ron/base/rc.h"
#include "ron/sync/sync.h"

enum { RON_BREAKER_SLOTS = 10, RON_BREAKER_PROBES_MAX = 1000 };

struct ron_breaker_rules {
    uint32_t row_max;
    uint32_t rate_pct;
    uint32_t rate_min_calls;
    uint32_t count_max;
    uint32_t window_ms; /* at least RON_BREAKER_SLOTS */
    uint32_t open_ms;
    uint32_t probes; /* at least 1 */
};

/* X(NAME, row, rate %, rate min, count, window ms, open ms, probes, "doc") */
#define RON_BREAKER_PRESETS(X)                                                                     \
    X(DEFAULT, 5, 50, 20, 0, 10000, 5000, 10, "5 in a row, or half of at least 20 in 10 s")        \
    X(LEDGER, 5, 50, 20, 0, 10000, 5000, 1, "the same; one success closes it")                     \
    X(WALLET, 0, 0, 0, 20, 10000, 5000, 10, "20 failures in 10 s")

enum ron_breaker_preset {
#define X(name, ...) RON_BREAKER_##name,
    RON_BREAKER_PRESETS(X)
#undef X
        RON_BREAKER_PRESET_COUNT
};

const struct ron_breaker_rules *ron_breaker_preset(enum ron_breaker_preset preset);
bool ron_breaker_rules_valid(const struct ron_breaker_rules *rules);

/* X(NAME, "label"). The number is the value of the gauge breaker_state. */
#define RON_BREAKER_STATES(X)                                                                      \
    X(CLOSED, "closed")                                                                            \
    X(OPEN, "open")                                                                                \
    X(HALF_OPEN, "half_open")

enum ron_breaker_state {
#define X(name, label) RON_BREAKER_IS_##name,
    RON_BREAKER_STATES(X)
#undef X
        RON_BREAKER_STATE_COUNT
};

const char *ron_breaker_state_label(enum ron_breaker_state state);

enum ron_call_result { RON_CALL_SUCCESS, RON_CALL_FAILURE, RON_CALL_VOID };

/* The result of a call by its code, or by the status of the answer when there was one (rc RON_OK;
 * status 0 for calls without): 5xx and no answer are failures, a 4xx is VOID as it is our request
 * that was at fault, our own cancel is VOID, the rest is success. */
enum ron_call_result ron_call_result_of(enum ron_rc rc, int status);

struct ron_breaker_ticket {
    uint64_t round; /* in which round of which state it was admitted (K2) */
};

struct ron_breaker {
    struct ron_mutex _mu;
    const struct ron_clock *_clock;
    struct ron_breaker_rules _rules;
    enum ron_breaker_state _state;
    uint64_t _round;     /* rises with every change of state */
    uint64_t _opened_ns; /* OPEN: since when */
    uint64_t _probed_ns; /* HALF_OPEN: when the last probe was admitted */
    uint32_t _probes_out;
    uint32_t _probes_good;
    uint32_t _row;
    uint64_t _slot; /* number of the running slot */
    struct {
        uint32_t calls;
        uint32_t failures;
    } _slots[RON_BREAKER_SLOTS];
    struct ron_stat _admitted;
    struct ron_stat _refused;
    struct ron_stat _failures;
    struct ron_stat _entered[RON_BREAKER_STATE_COUNT];
    struct ron_stat _gauge;
};

struct ron_breaker_stats {
    uint64_t admitted;
    uint64_t refused;             /* while open, or half-open with all probes out */
    uint64_t upstream_fail_total; /* results reported as failure */
    uint64_t entered[RON_BREAKER_STATE_COUNT];
    enum ron_breaker_state state;
};

/* `clock` is borrowed. The rules are copied and must be valid. */
void ron_breaker_init(struct ron_breaker *b, const struct ron_breaker_rules *rules,
                      const struct ron_clock *clock);
void ron_breaker_done(struct ron_breaker *b);

/* RON_OK and a ticket; or RON_AGAIN, and *ret_wait_ns (may be NULL) says when to ask again. */
RON_MUST_USE enum ron_rc ron_breaker_admit(struct ron_breaker *b,
                                           struct ron_breaker_ticket *ret_ticket,
                                           uint64_t *ret_wait_ns);
void ron_breaker_report(struct ron_breaker *b, struct ron_breaker_ticket ticket,
                        enum ron_call_result result);
void ron_breaker_get_stats(const struct ron_breaker *b, struct ron_breaker_stats *ret_stats);
