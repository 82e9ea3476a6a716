/* SPDX-License-Identifier: Apache-2.0 */
/* calc_draw.h - random inputs of the calculus: small ones where ties, caps and dust meet all the
 * time, and huge ones at the edges of words. */
#pragma once

#include "unit/rewarder/calc_fixture.h"
#include "unit/rewarder/calc_model.h"

struct draw {
    struct ron_rand rand;
    struct rwd_policy policy;
    struct model_row rows[MODEL_ROWS_MAX];
    size_t count;
    struct rwd_calc_input input;
    bool small;
};

static inline uint64_t draw_below(struct draw *d, uint64_t bound)
{
    return ron_rand_below(&d->rand, bound);
}

static inline uint64_t draw_counter(struct draw *d)
{
    if (draw_below(d, 4) == 0) {
        return 0;
    }
    return d->small ? draw_below(d, 20) : support_rand_edgy_u64(&d->rand);
}

static inline struct ron_money draw_money(struct draw *d, uint64_t small_bound)
{
    return (struct ron_money){d->small ? draw_below(d, small_bound)
                                       : support_rand_edgy_u128(&d->rand)};
}

static inline struct rwd_fraction draw_weight(struct draw *d)
{
    const uint64_t most = UINT64_C(1) << 32;

    switch (draw_below(d, 4)) {
    case 0:
        return (struct rwd_fraction){draw_below(d, 3), 1};
    case 1:
        return (struct rwd_fraction){1, UINT64_C(1) << draw_below(d, 33)};
    case 2:
        return (struct rwd_fraction){draw_below(d, 10), 1 + draw_below(d, 10)};
    default:
        return (struct rwd_fraction){support_rand_edgy_u64(&d->rand) % (most + 1),
                                     1 + support_rand_edgy_u64(&d->rand) % most};
    }
}

/* Sorted, and none begins with another. */
static inline void draw_categories(struct draw *d)
{
    static const char *const prefixes[] = {"a", "b/", "b:", "ca", "cb", "d/d", "e"};

    for (size_t i = 0; i < RON_ARRAY_LEN(prefixes); i++) {
        if (draw_below(d, 3) == 0) {
            d->policy.categories[d->policy.category_count++] =
                (struct rwd_category){{prefixes[i], strlen(prefixes[i])}, draw_money(d, 20)};
        }
    }
}

static inline void draw_policy(struct draw *d)
{
    struct rwd_policy *p = &d->policy;

    rwd_policy_default(p);
    if (draw_below(d, 2) == 0) {
        p->stored = draw_weight(d);
        p->served = draw_weight(d);
        p->uptime = draw_weight(d);
    }
    p->weight_bps = draw_below(d, 2) == 0 ? 1 : 1 + (uint32_t)draw_below(d, 100000);
    p->rounding = draw_below(d, 2) == 0 ? RWD_ROUND_FLOOR : RWD_ROUND_LARGEST_REMAINDER;
    p->min = draw_below(d, 2) == 0 ? ron_money_of(draw_below(d, 2)) : draw_money(d, 8);
    p->max = draw_below(d, 4) != 0 ? RON_MONEY_MAX : draw_money(d, 100);
    p->has_actor_cap = draw_below(d, 3) == 0;
    p->actor_cap = draw_money(d, 20);
    if (draw_below(d, 2) == 0) {
        draw_categories(d);
    }
    if (draw_below(d, 4) == 0) {
        p->emission = draw_below(d, 2) == 0 ? RWD_EMIT_CONSTANT : RWD_EMIT_HALVING;
        p->emission_base = draw_money(d, 200);
        p->emission_start_ms = draw_below(d, 100);
        p->emission_epoch_ms = 1 + draw_below(d, 20);
        p->emission_period = 1 + draw_below(d, 5);
    }
}

static inline bool draw_name_is_free(const struct draw *d, const char *name)
{
    for (size_t i = 0; i < d->count; i++) {
        if (strcmp(d->rows[i].name, name) == 0) {
            return false;
        }
    }
    return true;
}

static inline void draw_rows(struct draw *d)
{
    size_t wanted = draw_below(d, 5) == 0 ? draw_below(d, MODEL_ROWS_MAX + 1) : draw_below(d, 10);

    for (d->count = 0; d->count < wanted;) {
        struct model_row *row = &d->rows[d->count];
        size_t len = 1 + draw_below(d, MODEL_NAME_MAX);

        for (size_t i = 0; i < len; i++) {
            row->name[i] = "abcde/:"[draw_below(d, 7)];
        }
        row->name[len] = '\0';
        if (draw_name_is_free(d, row->name)) {
            row->counters =
                (struct rwd_counters){draw_counter(d), draw_counter(d), draw_counter(d)};
            /* The same again: equal remainders. */
            if (d->count > 0 && draw_below(d, 3) == 0) {
                row->counters = d->rows[d->count - 1].counters;
            }
            d->count++;
        }
    }
}

static inline void draw_case(struct draw *d)
{
    d->small = draw_below(d, 2) == 0;
    draw_policy(d);
    draw_rows(d);
    d->input = (struct rwd_calc_input){.policy = &d->policy,
                                       .pool = draw_money(d, 100),
                                       .produced_at_ms = draw_below(d, 1000),
                                       .parts = (uint32_t)draw_below(d, 4)};
    if (draw_below(d, 4) == 0) {
        d->input.carry_in = draw_money(d, 30);
    }
}

static inline void draw_shuffle(struct draw *d)
{
    for (size_t i = d->count; i > 1; i--) {
        size_t k = draw_below(d, i);
        struct model_row kept = d->rows[i - 1];

        d->rows[i - 1] = d->rows[k];
        d->rows[k] = kept;
    }
}

static inline struct rwd_rows *draw_rows_of(const struct draw *d)
{
    struct fix_row list[MODEL_ROWS_MAX];

    for (size_t i = 0; i < d->count; i++) {
        list[i] = (struct fix_row){d->rows[i].name, d->rows[i].counters};
    }
    return fix_rows(list, d->count);
}

static inline struct model_row *draw_row_of(struct draw *d, struct ron_str account)
{
    for (size_t i = 0; i < d->count; i++) {
        if (ron_str_is(account, d->rows[i].name)) {
            return &d->rows[i];
        }
    }
    return NULL;
}

/* Whether two results say the same. */
static inline bool draw_same(const struct rwd_result *a, const struct rwd_result *b)
{
    const struct rwd_totals *x = rwd_result_totals(a);
    const struct rwd_totals *y = rwd_result_totals(b);

    if (rwd_result_breach(a) != rwd_result_breach(b) || x->paid_accounts != y->paid_accounts ||
        x->idle_accounts != y->idle_accounts || x->offered.v != y->offered.v ||
        x->pool.v != y->pool.v || x->cut.v != y->cut.v || x->paid.v != y->paid.v ||
        x->residual.v != y->residual.v || x->dust.v != y->dust.v || x->capped.v != y->capped.v) {
        return false;
    }
    for (uint64_t k = 0; k < x->paid_accounts; k++) {
        struct rwd_payout p;
        struct rwd_payout q;

        rwd_result_payout(a, k, &p);
        rwd_result_payout(b, k, &q);
        if (p.account.len != q.account.len ||
            memcmp(p.account.ptr, q.account.ptr, p.account.len) != 0 || p.amount.v != q.amount.v ||
            p.score != q.score) {
            return false;
        }
    }
    return true;
}

static inline int draw_set_up(void **state)
{
    struct draw *d = ron_alloc_zero(sizeof *d);

    if (d != NULL) {
        d->rand = support_rand();
    }
    *state = d;
    return d == NULL;
}

static inline int draw_tear_down(void **state)
{
    ron_free(*state);
    return 0;
}
