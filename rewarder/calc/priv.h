/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/calc/priv.h - a result from inside: for the files of the calculus, its check, and the
 * tests that tamper with one. */
#pragma once

#include "rewarder/calc/calc.h"
#include "rewarder/calc/div.h"

/* Group 0 is the rows that share the pool; group 1 + c is category c of the policy alone. */
enum { RWD_GROUPS_MAX = 1 + RWD_CATEGORIES_MAX };

/* Largest remainder: who was the last to be rounded up in a group. Rounded up are the rows with a
 * larger remainder, and those with the same one up to this row. */
struct rwd_last_up {
    ron_u128 rest;
    uint64_t row;
    uint64_t count; /* how many were rounded up; 0: nobody, and the other two mean nothing */
};

/* A weight as it is multiplied with. */
struct rwd_factor {
    uint64_t num;
    uint32_t shift; /* of a denominator that is a power of two */
    bool by_shift;
    struct rwd_div64 den; /* any */
};

/* Steps 1 and 2. */
struct rwd_scale {
    struct rwd_factor stored;
    struct rwd_factor served;
    struct rwd_factor uptime;
    uint32_t bps;
};

static inline ron_u128 rwd__weigh(const struct rwd_factor *f, uint64_t counter)
{
    ron_u128 product = (ron_u128)counter * f->num;

    return f->by_shift ? product >> f->shift : rwd_div64(product, &f->den);
}

static inline ron_u128 rwd__score(const struct rwd_scale *s, const struct rwd_counters *c)
{
    return (rwd__weigh(&s->stored, c->bytes_stored) + rwd__weigh(&s->served, c->bytes_served) +
            rwd__weigh(&s->uptime, c->uptime_seconds)) *
           s->bps;
}

struct rwd_result {
    const struct rwd_rows *rows;
    struct rwd_scale scale;
    enum rwd_breach breach;
    struct rwd_totals totals;
    ron_u128 *amounts; /* of payout k < totals.paid_accounts */
    uint32_t *payees;  /* the row of payout k, rising */
    struct rwd_last_up last_up[RWD_GROUPS_MAX];
};

/* Step 6 for one group: `spans` are its rows, in order. Raises amounts[] of those with the `units`
 * largest rests[] by one; fewer rows than `units` cannot have a rest above 0. */
struct rwd_span {
    uint64_t first;
    uint64_t end;
};
/* What there is to count in: one cell for each value of a digit. */
enum { RWD_PICK_CELLS = 1 << 16 };
void rwd__pick(const struct rwd_span *spans, size_t span_count, const ron_u128 *rests,
               ron_u128 *amounts, uint64_t units, uint64_t cells[RWD_PICK_CELLS],
               struct rwd_last_up *ret_last);
