/* SPDX-License-Identifier: Apache-2.0 */
/* calc_model.h - the calculus once more, slow and obvious: whole numbers of 384 bits in words of
 * 32, division bit by bit, rows in any order, categories by looking at all prefixes, largest
 * remainder by picking the best row again and again. Shares no code with the rewarder but its
 * types. */
#pragma once

#include "rewarder/calc/calc.h"
#include "support/support.h"

enum { BIG_WORDS = 12, MODEL_ROWS_MAX = 64, MODEL_NAME_MAX = 8 };

struct big {
    uint32_t w[BIG_WORDS]; /* lowest first */
};

static inline struct big big_of(ron_u128 v)
{
    struct big b = {{0}};

    for (int i = 0; i < 4; i++, v >>= 32) {
        b.w[i] = (uint32_t)v;
    }
    return b;
}

static inline bool big_fits_128(struct big b)
{
    uint32_t high = 0;

    for (int i = 4; i < BIG_WORDS; i++) {
        high |= b.w[i];
    }
    return high == 0;
}

static inline ron_u128 big_to_128(struct big b)
{
    ron_u128 v = 0;

    assert_true(big_fits_128(b));
    for (int i = 3; i >= 0; i--) {
        v = v << 32 | b.w[i];
    }
    return v;
}

static inline int big_cmp(struct big a, struct big b)
{
    for (int i = BIG_WORDS - 1; i >= 0; i--) {
        if (a.w[i] != b.w[i]) {
            return a.w[i] < b.w[i] ? -1 : 1;
        }
    }
    return 0;
}

static inline bool big_is_zero(struct big a)
{
    return big_cmp(a, big_of(0)) == 0;
}

static inline struct big big_min(struct big a, struct big b)
{
    return big_cmp(a, b) < 0 ? a : b;
}

static inline struct big big_add(struct big a, struct big b)
{
    uint64_t carry = 0;

    for (int i = 0; i < BIG_WORDS; i++) {
        carry += (uint64_t)a.w[i] + b.w[i];
        a.w[i] = (uint32_t)carry;
        carry >>= 32;
    }
    assert_true(carry == 0);
    return a;
}

static inline struct big big_sub(struct big a, struct big b)
{
    uint64_t borrow = 0;

    for (int i = 0; i < BIG_WORDS; i++) {
        uint64_t difference = (uint64_t)a.w[i] - b.w[i] - borrow;

        a.w[i] = (uint32_t)difference;
        borrow = difference >> 63;
    }
    assert_true(borrow == 0);
    return a;
}

static inline struct big big_mul(struct big a, struct big b)
{
    struct big product = {{0}};

    for (int i = 0; i < BIG_WORDS; i++) {
        uint64_t carry = 0;

        for (int k = 0; i + k < BIG_WORDS; k++) {
            carry += (uint64_t)a.w[i] * b.w[k] + product.w[i + k];
            product.w[i + k] = (uint32_t)carry;
            carry >>= 32;
        }
    }
    return product;
}

static inline struct big big_div(struct big n, struct big d, struct big *ret_rest)
{
    struct big quotient = {{0}};
    struct big rest = {{0}};
    int top = BIG_WORDS - 1;

    assert_false(big_is_zero(d));
    while (top > 0 && n.w[top] == 0) {
        top--;
    }
    for (int bit = top * 32 + 31; bit >= 0; bit--) {
        rest = big_add(rest, rest);
        rest.w[0] |= n.w[bit / 32] >> bit % 32 & 1;
        if (big_cmp(rest, d) >= 0) {
            rest = big_sub(rest, d);
            quotient.w[bit / 32] |= UINT32_C(1) << bit % 32;
        }
    }
    if (ret_rest != NULL) {
        *ret_rest = rest;
    }
    return quotient;
}

/* ---- the calculus ---------------------------------------------------------------------------- */

struct model_row {
    char name[MODEL_NAME_MAX + 1];
    struct rwd_counters counters;
    struct big score;
    struct big amount; /* paid */
    struct big rest;
    int category; /* -1: none */
    int group;    /* 0, or 1 + category */
    bool up;
};

struct model {
    struct model_row *rows;
    size_t count;
    const struct rwd_policy *policy;
    bool overflow;
    struct big offered;
    struct big pool;
    struct big paid;
    struct big dust;
    struct big capped;
};

static inline struct big model_weigh(uint64_t counter, struct rwd_fraction weight)
{
    return big_div(big_mul(big_of(counter), big_of(weight.num)), big_of(weight.den), NULL);
}

static inline void model_scores(struct model *m)
{
    const struct rwd_policy *p = m->policy;

    for (size_t i = 0; i < m->count; i++) {
        struct model_row *row = &m->rows[i];
        struct big raw = big_add(big_add(model_weigh(row->counters.bytes_stored, p->stored),
                                         model_weigh(row->counters.bytes_served, p->served)),
                                 model_weigh(row->counters.uptime_seconds, p->uptime));

        row->score = big_mul(raw, big_of(p->weight_bps));
        row->category = -1;
        row->group = 0;
        row->up = false;
        row->amount = row->rest = big_of(0);
        for (uint32_t c = 0; c < p->category_count; c++) {
            struct ron_str prefix = p->categories[c].prefix;

            if (strncmp(row->name, prefix.ptr, prefix.len) == 0) {
                row->category = (int)c;
            }
        }
    }
}

static inline struct big model_curve(const struct rwd_policy *p, uint64_t at_ms)
{
    struct big most = big_of(p->emission_base.v);

    if (p->emission == RWD_EMIT_NONE) {
        return big_of(RON_U128_MAX);
    }
    if (at_ms < p->emission_start_ms) {
        return big_of(0);
    }
    if (p->emission == RWD_EMIT_HALVING) {
        uint64_t halvings = (at_ms - p->emission_start_ms) / p->emission_epoch_ms;

        for (halvings /= p->emission_period; halvings > 0 && !big_is_zero(most); halvings--) {
            most = big_div(most, big_of(2), NULL);
        }
    }
    return most;
}

/* Sum of scores, and how many have one: of a category, of a group (`by_group`), or of all (-2). */
static inline struct big model_sum(const struct model *m, int which, bool by_group, uint64_t *ret_n)
{
    struct big sum = big_of(0);
    uint64_t n = 0;

    for (size_t i = 0; i < m->count; i++) {
        const struct model_row *row = &m->rows[i];

        if (which == -2 || (by_group ? row->group : row->category) == which) {
            sum = big_add(sum, row->score);
            n += !big_is_zero(row->score);
        }
    }
    if (ret_n != NULL) {
        *ret_n = n;
    }
    return sum;
}

/* Steps 5 and 6 for one group. */
static inline void model_share(struct model *m, int group, struct big pool)
{
    struct big total = model_sum(m, group, true, NULL);
    struct big left = pool;

    if (big_is_zero(total)) {
        return;
    }
    for (size_t i = 0; i < m->count; i++) {
        struct model_row *row = &m->rows[i];

        if (row->group == group) {
            row->amount = big_div(big_mul(pool, row->score), total, &row->rest);
            left = big_sub(left, row->amount);
        }
    }
    while (m->policy->rounding == RWD_ROUND_LARGEST_REMAINDER && !big_is_zero(left)) {
        struct model_row *best = NULL;

        for (size_t i = 0; i < m->count; i++) {
            struct model_row *row = &m->rows[i];
            int order = best == NULL ? 1 : big_cmp(row->rest, best->rest);

            if (row->group == group && !row->up &&
                (order > 0 || (order == 0 && strcmp(row->name, best->name) < 0))) {
                best = row;
            }
        }
        assert_non_null(best);
        best->up = true;
        best->amount = big_add(best->amount, big_of(1));
        left = big_sub(left, big_of(1));
    }
}

/* Step 4. */
static inline void model_groups(struct model *m)
{
    const struct rwd_policy *p = m->policy;
    struct big pools[1 + RWD_CATEGORIES_MAX] = {0};
    struct big total = model_sum(m, -2, false, NULL);

    if (big_is_zero(total)) {
        return;
    }
    for (int c = 0; c < (int)p->category_count; c++) {
        uint64_t active;
        struct big sum = model_sum(m, c, false, &active);
        struct big share = big_div(big_mul(m->pool, sum), total, NULL);
        struct big cap = big_of(p->categories[c].cap.v);
        struct big most =
            p->rounding == RWD_ROUND_LARGEST_REMAINDER ? big_add(share, big_of(active)) : share;

        if (big_cmp(most, cap) > 0) {
            pools[1 + c] = big_min(share, cap);
            m->capped = big_add(m->capped, big_sub(share, pools[1 + c]));
            for (size_t i = 0; i < m->count; i++) {
                m->rows[i].group = m->rows[i].category == c ? 1 + c : m->rows[i].group;
            }
        }
    }
    pools[0] = big_div(big_mul(m->pool, model_sum(m, 0, true, NULL)), total, NULL);
    for (int g = 0; g <= (int)p->category_count; g++) {
        model_share(m, g, pools[g]);
    }
}

/* Steps 7 and 8. */
static inline void model_settle(struct model *m)
{
    const struct rwd_policy *p = m->policy;

    for (size_t i = 0; i < m->count; i++) {
        struct model_row *row = &m->rows[i];
        struct big cap = big_of(p->actor_cap.v);

        if (p->has_actor_cap && big_cmp(row->amount, cap) > 0) {
            m->capped = big_add(m->capped, big_sub(row->amount, cap));
            row->amount = cap;
        }
        if (big_cmp(row->amount, big_of(p->min.v)) < 0) {
            m->dust = big_add(m->dust, row->amount);
            row->amount = big_of(0);
        }
        m->paid = big_add(m->paid, row->amount);
    }
}

static inline void model_run(struct model *m, const struct rwd_calc_input *input)
{
    m->policy = input->policy;
    m->offered = big_add(big_of(input->pool.v), big_of(input->carry_in.v));
    m->pool = big_min(m->offered, big_min(big_of(input->policy->max.v),
                                          model_curve(input->policy, input->produced_at_ms)));
    m->paid = m->dust = m->capped = big_of(0);
    model_scores(m);
    m->overflow = !big_fits_128(m->offered) || !big_fits_128(model_sum(m, -2, false, NULL));
    if (!m->overflow) {
        model_groups(m);
        model_settle(m);
    }
}
