/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/calc/calc.h - the calculus: rows and a policy in, payouts out. Integers only.
 *
 *   1. raw_i      = floor(stored_i * ws) + floor(served_i * wv) + floor(uptime_i * wu)
 *   2. weighted_i = raw_i * weight_bps; rows with 0 take no part
 *   3. pool       = min(snapshot pool + carried in, policy max, emission curve); the rest is `cut`
 *   4. groups: s_c = floor(pool * T_c / T) is the share of a category. It is a group of its own
 *      with the pool min(s_c, cap_c) when s_c is above cap_c or could pass it by rounding up (with
 *      largest remainder: s_c + its rows with a score > cap_c); all other rows are one group with
 *      the pool floor(pool * T_rest / T), which is the whole pool when no category stands alone
 *   5. amount_i   = floor(pool_g * weighted_i / T_g), exact through 256 bits
 *   6. largest remainder: what is left of pool_g goes to the largest remainders, one unit each;
 *      equal ones by account, lower first
 *   7. amount_i is cut to the actor cap; below `min`, or 0, it is not paid; both add to the
 *      residual, nothing is redistributed
 *   8. residual = pool - sum of what is paid
 *
 * Rules:
 *   C1. The result depends on rows, policy and carried sum alone: not on the order of rows, not on
 *       the number of parts the rows are cut into, not on the machine.
 *   C2. rwd_calc_check proves conservation and every other invariant on the result itself, from
 *       rows, policy and payouts, by other arithmetic than the one that made them.
 *   C3. What does not fit 128 bits is an overflow and no payout: RWD_BREACH_OVERFLOW.
 *
 * Cost: at least 10 M rows/s on a core for steps 1-5. Memory: 20 bytes a row for the result, 16
 * more for remainders while largest remainder is at work.
 *
 * Threads: a calculation belongs to one thread at a time; it may be stopped from another one
 * (`cancelled`) and looked at (`done_rows`). A result keeps a pointer to the rows, which outlive
 * it. */
#pragma once

#include "rewarder/input/rows.h"
#include "rewarder/policy/policy.h"
#include "ron/sync/sync.h"

/* X(NAME, "label") why an epoch is quarantined. */
#define RWD_BREACHES(X)                                                                            \
    X(NONE, "")                                                                                    \
    X(CONSERVATION, "conservation")                                                                \
    X(OVERFLOW, "overflow")                                                                        \
    X(NEGATIVE, "negative")                                                                        \
    X(IDEMPOTENCY, "idempotency")                                                                  \
    X(DUST_POLICY, "dust_policy")                                                                  \
    X(CAP, "cap")                                                                                  \
    X(ORDER, "order")                                                                              \
    X(HANDOVER, "handover")             /* the intents could not be handed over */                 \
    X(LEDGER_REFUSED, "ledger_refused") /* for good */
enum rwd_breach {
#define X(name, label) RWD_BREACH_##name,
    RWD_BREACHES(X)
#undef X
        RWD_BREACH_COUNT
};
const char *rwd_breach_label(enum rwd_breach breach);

struct rwd_calc_input {
    const struct rwd_rows *rows; /* sealed */
    const struct rwd_policy *policy;
    struct ron_money pool; /* of the snapshot */
    struct ron_money carry_in;
    uint64_t produced_at_ms;
    uint32_t parts;             /* the rows are taken in so many parts; 0 is 1 */
    struct ron_au32 *cancelled; /* not 0: stop; looked at now and then; may be NULL */
    struct ron_au64 *done_rows; /* counted for who looks; may be NULL */
};

struct rwd_totals {
    struct ron_money pool;     /* what was shared: step 3 */
    struct ron_money offered;  /* snapshot pool and carried sum */
    struct ron_money cut;      /* offered - pool */
    struct ron_money paid;     /* to the accounts */
    struct ron_money residual; /* pool - paid */
    struct ron_money dust;     /* part of the residual: below min */
    struct ron_money capped;   /* part of the residual: above caps of actors and categories */
    uint64_t paid_accounts;
    uint64_t idle_accounts; /* with score 0 */
};

struct rwd_result;

/* RON_OK with a result, perhaps with a breach in it: then nobody is paid and the totals are 0;
 * RON_CANCELLED; RON_NOMEM. */
RON_MUST_USE enum ron_rc rwd_calc(const struct rwd_calc_input *input,
                                  struct rwd_result **ret_result, struct ron_err *err);
void rwd_result_free(struct rwd_result *r);
const struct rwd_totals *rwd_result_totals(const struct rwd_result *r);
enum rwd_breach rwd_result_breach(const struct rwd_result *r);
/* Payouts in the order of accounts; index < paid_accounts. */
struct rwd_payout {
    struct ron_str account;
    struct ron_money amount;
    ron_u128 score; /* weighted */
};
void rwd_result_payout(const struct rwd_result *r, uint64_t index, struct rwd_payout *ret_payout);

/* C2. RWD_BREACH_NONE, or the first breach with a sentence in `err`. A result that has a breach
 * already keeps it. Counts into input->done_rows like rwd_calc; is not cancelled. */
enum rwd_breach rwd_calc_check(const struct rwd_calc_input *input, const struct rwd_result *r,
                               struct ron_err *err);
