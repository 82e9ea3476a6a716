/* SPDX-License-Identifier: Apache-2.0 */
/* retry.h - whether to try a call again, and how long to wait before.
 *
 * The wait before try n + 2, for n = 0, 1, ...:
 *   base_n = min(base_max_ms, first_ms * factor^n)
 *   wait_n = base_n + U[0, jitter_ms + base_n * jitter_pct / 100], cut to wait_max_ms if that is
 *            not 0; U is uniform over nanoseconds, both ends included
 * and never shorter than a Retry-After the other side sent. The numbers of a curve are parameters;
 * RON_RETRY_CURVES lists those that the specifications give.
 *
 * Rules:
 *   Y1. Only an idempotent operation is tried again.
 *   Y2. A refusal that would be repeated is final: every 4xx (authentication above all, 429 too:
 *       the answer to "too many" is not more), and 5xx that the curve does not name.
 *   Y3. A wait that would end at or after the deadline is not begun: the caller hears at once.
 *   Y4. Never more than tries_max tries, the first one counted.
 *
 * Ownership and threads: a `struct ron_retry` belongs to one call and borrows curve, generator and
 * counters; the counters may be shared. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ron/base/clock.h"
#include "ron/base/rand.h"
#include "ron/base/rc.h"
#include "ron/sync/sync.h"

struct ron_retry_curve {
    uint32_t tries_max; /* in total; 1 = never again */
    uint32_t first_ms;
    uint32_t factor; /* 1 = the same wait each time */
    uint32_t base_max_ms;
    uint32_t jitter_ms;
    uint32_t jitter_pct;
    uint32_t wait_max_ms; /* 0 = none */
    bool any_5xx;         /* all 5xx are worth another try; else only 503 and 504 */
};

/* X(NAME, "name", tries, first, factor, base max, jitter ms, jitter %, wait max, any 5xx, "doc").
 * Who has no jitter stated but "jittered" gets half of the wait, inside the stated maximum. */
#define RON_RETRY_CURVES(X)                                                                        \
    X(WALLET, "wallet", 3, 50, 2, 1000, 20, 0, 0, true, "50 ms doubling to 1 s, jitter 20 ms")     \
    X(EDGE, "edge", 3, 50, 2, 800, 50, 0, 0, false, "min(800, 50 * 2^n) + U[0, 50] ms")            \
    X(REWARDER, "rewarder", 3, 100, 1, 100, 150, 0, 0, true, "100 to 250 ms")                      \
    X(INTEROP, "interop", 3, 50, 4, 2000, 0, 100, 2000, true,                                      \
      "50-100, 200-400, 800-1600 ms, at most 2 s")                                                 \
    X(LEDGER_KMS, "ledger_kms", 3, 50, 2, 250, 0, 50, 250, true, "50 ms doubling to 250 ms")       \
    X(LEDGER_POLICY, "ledger_policy", 2, 50, 2, 150, 0, 50, 150, true, "one more after <= 150 ms") \
    X(LEDGER_WALLET, "ledger_wallet", 2, 50, 2, 150, 0, 50, 150, true, "one more after <= 150 ms")

enum ron_retry_curve_id {
#define X(name, ...) RON_RETRY_##name,
    RON_RETRY_CURVES(X)
#undef X
        RON_RETRY_CURVE_COUNT
};

const struct ron_retry_curve *ron_retry_curve(enum ron_retry_curve_id id);
/* tries_max >= 1, factor >= 1, jitter_pct <= 100, waits of at most an hour. */
bool ron_retry_curve_valid(const struct ron_retry_curve *curve);

/* wait_n of the formula, in nanoseconds. */
uint64_t ron_retry_wait_ns(const struct ron_retry_curve *curve, uint32_t n, struct ron_rand *rand);

/* Verdicts are the `result` label of backoff_retries_total. X(NAME, "label", "doc") */
#define RON_RETRY_VERDICTS(X)                                                                      \
    X(AGAIN, "retry", "wait and try again")                                                        \
    X(DONE, "ok", "the try succeeded")                                                             \
    X(FINAL, "final", "the answer would be the same")                                              \
    X(UNSAFE, "not_idempotent", "it may have had an effect; nobody may try again")                 \
    X(SPENT, "exhausted", "all tries are used")                                                    \
    X(LATE, "deadline", "the deadline leaves no time for another try")

enum ron_retry_verdict {
#define X(name, label, doc) RON_VERDICT_##name,
    RON_RETRY_VERDICTS(X)
#undef X
        RON_VERDICT_COUNT
};

const char *ron_retry_verdict_label(enum ron_retry_verdict verdict);

struct ron_retry_stats {
    struct ron_stat backoff_retries_total[RON_VERDICT_COUNT]; /* by result */
};

/* How one try ended. */
struct ron_attempt {
    enum ron_rc rc;          /* not RON_OK: there was no answer */
    int status;              /* of the answer, when rc is RON_OK; 0 for a call without statuses */
    uint64_t retry_after_ms; /* as the answer asked; 0 = it did not */
};

struct ron_retry {
    const struct ron_retry_curve *curve;
    struct ron_rand *rand;
    struct ron_retry_stats *stats; /* may be NULL */
    struct ron_deadline deadline;  /* of the whole call */
    bool idempotent;
    uint32_t tries; /* ended so far; start with 0 */
};

/* Called after each try. With AGAIN *ret_wait_ns holds the wait before the next one. */
enum ron_retry_verdict ron_retry_next(struct ron_retry *r, const struct ron_attempt *attempt,
                                      uint64_t now_ns, uint64_t *ret_wait_ns);
