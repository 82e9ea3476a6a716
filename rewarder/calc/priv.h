/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/calc/priv.h - a result from inside: for the files of the calculus, its check, and the
 * tests that tamper with one. */
#pragma once

#include "rewarder/calc/calc.h"
#include "rewarder/calc/div.h"

/* Group 0 is the rows that share the pool; group 1 + c is category c of the policy alone. */
enum { REW_GROUPS_MAX = 1 + REW_CATEGORIES_MAX };

/* Largest remainder: who was the last to be rounded up in a group. Rounded up are the rows with a
 * larger remainder, and those with the same one up to this row. */
struct rew_last_up {
    ron_u128 rest;
    uint64_t row;
    uint64_t count; /* how many were rounded up; 0: nobody, and the other two mean nothing */
};

/* A weight as it is multiplied with. */
struct rew_factor {
    uint64_t num;
    uint32_t shift; /* of a denominator that is a power of two */
    bool by_shift;
    struct rew_div64 den; /* any */
};

/* Steps 1 and 2. */
struct rew_scale {
    struct rew_factor stored;
    struct rew_factor served;
    struct rew_factor uptime;
    uint32_t bps;
};

static inline ron_u128 rew__weigh(const struct rew_factor *f, uint64_t counter)
{
    ron_u128 product = (ron_u128)counter * f->num;

    return f->by_shift ? product >> f->shift : rew_div64(product, &f->den);
}

static inline ron_u128 rew__score(const struct rew_scale *s, const struct rew_counters *c)
{
    return (rew__weigh(&s->stored, c->bytes_stored) + rew__weigh(&s->served, c->bytes_served) +
            rew__weigh(&s->uptime, c->uptime_seconds)) *
           s->bps;
}

struct rew_result {
    const struct rew_rows *rows;
    struct rew_scale scale;
    enum rew_breach breach;
    struct rew_totals totals;
    ron_u128 *amounts; /* of payout k < totals.paid_accounts */
    uint32_t *payees;  /* the row of payout k, rising */
    struct rew_last_up last_up[REW_GROUPS_MAX];
};

/* Step 6 for one group: `spans` are its rows, in order. Raises amounts[] of those with the `units`
 * largest rests[] by one; fewer rows than `units` cannot have a rest above 0. */
struct rew_span {
    uint64_t first;
    uint64_t end;
};
/* What there is to count in: one cell for each value of a digit. */
enum { REW_PICK_CELLS = 1 << 16 };
void rew__pick(const struct rew_span *spans, size_t span_count, const ron_u128 *rests,
               ron_u128 *amounts, uint64_t units, uint64_t cells[REW_PICK_CELLS],
               struct rew_last_up *ret_last);
