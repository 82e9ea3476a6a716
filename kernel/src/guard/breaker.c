/* SPDX-License-Identifier: Apache-2.0 */
/* breaker.c - states, rolling window and rules of the circuit breaker.
 *
 * Place: guard. All fields but the statistics are guarded by `_mu`; the clock is read inside it, so
 * that times are in the order of the changes they cause.
 *
 * Invariants:
 *   I1 `_round` rises whenever the state changes or a new round of probes begins; a ticket of
 *      another round changes nothing (K2).
 *   I2 HALF_OPEN: good <= out <= probes; out counts probes admitted and not void.
 *   I3 `_slots[n % SLOTS]` holds slot n for the last SLOTS values of n up to `_slot`; counts are
 *      cleared when their slot leaves the window, and all when the breaker closes. */
#include "ron/guard/breaker.h"

#include <string.h>

#include "ron/base/assert.h"

static const struct ron_breaker_rules presets[RON_BREAKER_PRESET_COUNT] = {
#define X(name, row, pct, min_calls, count, window, open, probe_count, doc)                        \
    [RON_BREAKER_##name] = {.row_max = (row),                                                      \
                            .rate_pct = (pct),                                                     \
                            .rate_min_calls = (min_calls),                                         \
                            .count_max = (count),                                                  \
                            .window_ms = (window),                                                 \
                            .open_ms = (open),                                                     \
                            .probes = (probe_count)},
    RON_BREAKER_PRESETS(X)
#undef X
};

const struct ron_breaker_rules *ron_breaker_preset(enum ron_breaker_preset preset)
{
    RON_ASSERT((unsigned)preset < RON_BREAKER_PRESET_COUNT);
    return &presets[preset];
}

const char *ron_breaker_state_label(enum ron_breaker_state state)
{
    static const char *const labels[RON_BREAKER_STATE_COUNT] = {
#define X(name, label) [RON_BREAKER_IS_##name] = (label),
        RON_BREAKER_STATES(X)
#undef X
    };

    RON_ASSERT((unsigned)state < RON_BREAKER_STATE_COUNT);
    return labels[state];
}

bool ron_breaker_rules_valid(const struct ron_breaker_rules *rules)
{
    return rules->rate_pct <= 100 && rules->window_ms >= RON_BREAKER_SLOTS && rules->open_ms >= 1 &&
           rules->probes >= 1 && rules->probes <= RON_BREAKER_PROBES_MAX &&
           (rules->rate_pct == 0 || rules->rate_min_calls >= 1);
}

enum ron_call_result ron_call_result_of(enum ron_rc rc, int status)
{
    if (rc == RON_CANCELLED) {
        return RON_CALL_VOID;
    }
    if (rc != RON_OK) {
        return ron_rc_class(rc) == RON_RC_CLASS_CALLER ? RON_CALL_VOID : RON_CALL_FAILURE;
    }
    if (status >= 500) {
        return RON_CALL_FAILURE;
    }
    return status >= 400 ? RON_CALL_VOID : RON_CALL_SUCCESS;
}

void ron_breaker_init(struct ron_breaker *b, const struct ron_breaker_rules *rules,
                      const struct ron_clock *clock)
{
    RON_ASSERT(ron_breaker_rules_valid(rules));
    *b = (struct ron_breaker){._clock = clock, ._rules = *rules, ._state = RON_BREAKER_IS_CLOSED};
    ron_mutex_init(&b->_mu, RON_RANK_LEAF, "breaker");
}

void ron_breaker_done(struct ron_breaker *b)
{
    ron_mutex_done(&b->_mu);
}

static void enter(struct ron_breaker *b, enum ron_breaker_state state, uint64_t now_ns)
{
    b->_state = state;
    b->_round++; /* I1 */
    b->_row = 0;
    b->_probes_out = 0;
    b->_probes_good = 0;
    if (state == RON_BREAKER_IS_OPEN) {
        b->_opened_ns = now_ns;
    } else if (state == RON_BREAKER_IS_CLOSED) {
        memset(b->_slots, 0, sizeof b->_slots);
    }
    ron_stat_bump(&b->_entered[state], 1);
    ron_stat_set(&b->_gauge, state);
}

/* Time since then; 0 if the clock went backwards. */
static uint64_t since_ns(uint64_t then_ns, uint64_t now_ns)
{
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* Clears the slots that have left the window and makes the one of `now_ns` the running one. */
static void roll(struct ron_breaker *b, uint64_t now_ns)
{
    uint64_t slot_ns = b->_rules.window_ms * RON_NS_PER_MS / RON_BREAKER_SLOTS;
    uint64_t slot = now_ns / slot_ns;

    if (slot <= b->_slot) {
        return; /* The same, or the clock went backwards. */
    }
    if (slot - b->_slot >= RON_BREAKER_SLOTS) {
        memset(b->_slots, 0, sizeof b->_slots);
    } else {
        for (uint64_t i = b->_slot + 1; i <= slot; i++) {
            memset(&b->_slots[i % RON_BREAKER_SLOTS], 0, sizeof b->_slots[0]);
        }
    }
    b->_slot = slot;
}

static bool rules_met(const struct ron_breaker *b)
{
    const struct ron_breaker_rules *r = &b->_rules;
    uint64_t calls = 0;
    uint64_t failures = 0;

    for (size_t i = 0; i < RON_BREAKER_SLOTS; i++) {
        calls += b->_slots[i].calls;
        failures += b->_slots[i].failures;
    }
    if (r->row_max != 0 && b->_row >= r->row_max) {
        return true;
    }
    if (r->count_max != 0 && failures >= r->count_max) {
        return true;
    }
    return r->rate_pct != 0 && calls >= r->rate_min_calls && failures * 100 >= calls * r->rate_pct;
}

/* A result of a call admitted in the present closed period. */
static void count_closed(struct ron_breaker *b, bool failed, uint64_t now_ns)
{
    roll(b, now_ns);
    b->_slots[b->_slot % RON_BREAKER_SLOTS].calls++;
    b->_slots[b->_slot % RON_BREAKER_SLOTS].failures += failed;
    b->_row = failed ? b->_row + 1 : 0;
    if (rules_met(b)) {
        enter(b, RON_BREAKER_IS_OPEN, now_ns);
    }
}

/* A result of a probe of the present round. */
static void count_probe(struct ron_breaker *b, enum ron_call_result result, uint64_t now_ns)
{
    if (result == RON_CALL_FAILURE) {
        enter(b, RON_BREAKER_IS_OPEN, now_ns);
    } else if (result == RON_CALL_VOID) {
        RON_ASSERT_MSG(b->_probes_out > b->_probes_good, "K1: a ticket is reported once");
        b->_probes_out--;
    } else {
        b->_probes_good++;
        RON_ASSERT_MSG(b->_probes_good <= b->_probes_out, "K1: a ticket is reported once");
        if (b->_probes_good == b->_rules.probes) {
            enter(b, RON_BREAKER_IS_CLOSED, now_ns);
        }
    }
}

/* What is left of open_ms since `then_ns`. */
static uint64_t pause_left_ns(const struct ron_breaker *b, uint64_t then_ns, uint64_t now_ns)
{
    uint64_t pause_ns = b->_rules.open_ms * RON_NS_PER_MS;
    uint64_t passed_ns = since_ns(then_ns, now_ns);

    return passed_ns >= pause_ns ? 0 : pause_ns - passed_ns;
}

/* Whether a call passes now; if not, for how long it will not, as far as is known. */
static bool pass(struct ron_breaker *b, uint64_t now_ns, uint64_t *ret_wait_ns)
{
    if (b->_state == RON_BREAKER_IS_CLOSED) {
        return true;
    }
    if (b->_state == RON_BREAKER_IS_OPEN) {
        *ret_wait_ns = pause_left_ns(b, b->_opened_ns, now_ns);
        if (*ret_wait_ns > 0) {
            return false;
        }
        enter(b, RON_BREAKER_IS_HALF_OPEN, now_ns);
    } else if (b->_probes_out == b->_rules.probes) {
        *ret_wait_ns = pause_left_ns(b, b->_probed_ns, now_ns);
        if (*ret_wait_ns > 0) {
            return false;
        }
        enter(b, RON_BREAKER_IS_HALF_OPEN, now_ns); /* K4 */
    }
    b->_probes_out++; /* I2 */
    b->_probed_ns = now_ns;
    return true;
}

enum ron_rc ron_breaker_admit(struct ron_breaker *b, struct ron_breaker_ticket *ret_ticket,
                              uint64_t *ret_wait_ns)
{
    uint64_t wait_ns = 0;
    uint64_t round;
    bool passed;

    ron_mutex_lock(&b->_mu);
    passed = pass(b, ron_clock_mono_ns(b->_clock), &wait_ns);
    round = b->_round;
    ron_stat_bump(passed ? &b->_admitted : &b->_refused, 1);
    ron_mutex_unlock(&b->_mu);
    if (passed) {
        ret_ticket->round = round;
        return RON_OK;
    }
    if (ret_wait_ns != NULL) {
        *ret_wait_ns = wait_ns;
    }
    return RON_AGAIN;
}

void ron_breaker_report(struct ron_breaker *b, struct ron_breaker_ticket ticket,
                        enum ron_call_result result)
{
    ron_mutex_lock(&b->_mu);
    if (result == RON_CALL_FAILURE) {
        ron_stat_bump(&b->_failures, 1);
    }
    if (ticket.round == b->_round) { /* K2 */
        uint64_t now_ns = ron_clock_mono_ns(b->_clock);

        if (b->_state == RON_BREAKER_IS_HALF_OPEN) {
            count_probe(b, result, now_ns);
        } else if (result != RON_CALL_VOID) {
            RON_ASSERT(b->_state == RON_BREAKER_IS_CLOSED); /* OPEN admits nobody. */
            count_closed(b, result == RON_CALL_FAILURE, now_ns);
        }
    }
    ron_mutex_unlock(&b->_mu);
}

void ron_breaker_get_stats(const struct ron_breaker *b, struct ron_breaker_stats *ret_stats)
{
    struct ron_breaker_stats s = {.admitted = ron_stat_get(&b->_admitted),
                                  .refused = ron_stat_get(&b->_refused),
                                  .upstream_fail_total = ron_stat_get(&b->_failures),
                                  .state = (enum ron_breaker_state)ron_stat_get(&b->_gauge)};

    for (size_t i = 0; i < RON_BREAKER_STATE_COUNT; i++) {
        s.entered[i] = ron_stat_get(&b->_entered[i]);
    }
    *ret_stats = s;
}
