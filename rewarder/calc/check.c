/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/calc/check.c - proves a result from rows, policy and payouts (C2), by other arithmetic
 * than calc.c.
 *
 * Why anew: a mistake in the calculus must not pay. Nothing of div.h and pick.c is
 * used here. A share is not divided but guessed from the payout and proven by multiplication (f * T
 * <= pool * w < (f + 1) * T); scores are plain divisions; categories are found by walking along;
 * who was rounded up follows from one remainder, which is right exactly when as many rows lie at or
 * above it as there were units to give.
 *
 * Two walks over the rows; no memory of its own but what is on the stack. */
#include <string.h>

#include "rewarder/calc/priv.h"
#include "ron/base/assert.h"

enum { PROGRESS_ROWS = 4096 };

struct check_group {
    ron_u128 pool;
    ron_u128 total;
    ron_u128 given; /* without what was rounded up */
    uint64_t ups;
};

struct check_category {
    ron_u128 total;
    ron_u128 paid;
    uint64_t active;
    uint32_t group;
};

struct check {
    const struct rwd_calc_input *input;
    const struct rwd_policy *policy;
    const struct rwd_result *result;
    struct ron_err *err;
    ron_u128 total;
    ron_u128 cap; /* of an actor */
    ron_u128 min; /* of a payout; at least 1 */
    ron_u128 dust;
    ron_u128 capped;
    uint64_t next; /* payout that the walk has not met yet; none is 0, see check_payouts */
    struct check_group groups[RWD_GROUPS_MAX];
    struct check_category categories[RWD_CATEGORIES_MAX];
    uint32_t at; /* category that the walk is at or before */
};

/* The breach, with its sentence. */
#define BREACH(c, name, ...)                                                                       \
    ((void)(ron_err_set((c)->err, RON_CONFLICT, __VA_ARGS__)), RWD_BREACH_##name)

#define CHECK_TRY(expr)                                                                            \
    do {                                                                                           \
        enum rwd_breach check_breach_ = (expr);                                                    \
        if (check_breach_ != RWD_BREACH_NONE) {                                                    \
            return check_breach_;                                                                  \
        }                                                                                          \
    } while (0)

/* ---- payouts and totals alone ---------------------------------------------------------------- */

static enum rwd_breach check_payouts(struct check *c)
{
    const struct rwd_result *r = c->result;
    uint64_t count = rwd_rows_count(c->input->rows);
    struct ron_money sum = RON_MONEY_ZERO;

    if (r->totals.paid_accounts > count) {
        return BREACH(c, CONSERVATION, "more payouts than accounts");
    }
    for (uint64_t k = 0; k < r->totals.paid_accounts; k++) {
        if (r->payees[k] >= count || (k > 0 && r->payees[k] <= r->payees[k - 1])) {
            return BREACH(c, ORDER, "payout %llu is out of order", (unsigned long long)k);
        }
        if (r->amounts[k] < c->min) {
            return BREACH(c, DUST_POLICY, "payout %llu is below the minimum",
                          (unsigned long long)k);
        }
        if (r->amounts[k] > c->cap) {
            return BREACH(c, CAP, "payout %llu is above the cap of an actor",
                          (unsigned long long)k);
        }
        if (ron_money_add(sum, (struct ron_money){r->amounts[k]}, &sum) != RON_MONEY_OK) {
            return BREACH(c, OVERFLOW, "the payouts add up to more than 2^128 - 1");
        }
    }
    if (sum.v != r->totals.paid.v) {
        return BREACH(c, CONSERVATION, "the payouts do not add up to the total paid");
    }
    return RWD_BREACH_NONE;
}

static enum rwd_breach check_totals(struct check *c)
{
    const struct rwd_totals *t = &c->result->totals;
    ron_u128 most = rwd_policy_pool_max(c->policy, c->input->produced_at_ms).v;
    struct ron_money offered;
    struct ron_money sum;

    if (ron_money_add(c->input->pool, c->input->carry_in, &offered) != RON_MONEY_OK) {
        return BREACH(c, OVERFLOW, "pool and carried sum are above 2^128 - 1");
    }
    if (t->offered.v != offered.v || t->pool.v > offered.v || t->pool.v > most ||
        (t->pool.v != offered.v && t->pool.v != most)) {
        return BREACH(c, CONSERVATION, "the pool is not the least of what is offered and allowed");
    }
    if (ron_money_add(t->pool, t->cut, &sum) != RON_MONEY_OK || sum.v != offered.v) {
        return BREACH(c, CONSERVATION, "pool and cut are not what was offered");
    }
    if (t->paid.v > t->pool.v) {
        return BREACH(c, CONSERVATION, "more is paid than the pool has");
    }
    if (t->residual.v > t->pool.v) {
        return BREACH(c, NEGATIVE, "the residual is below zero");
    }
    if (ron_money_add(t->paid, t->residual, &sum) != RON_MONEY_OK || sum.v != t->pool.v) {
        return BREACH(c, CONSERVATION, "payouts and residual are not the pool");
    }
    return RWD_BREACH_NONE;
}

/* ---- scores and groups ----------------------------------------------------------------------- */

static ron_u128 plain_weigh(uint64_t counter, struct rwd_fraction weight)
{
    ron_u128 product = (ron_u128)counter * weight.num;

    /* A 64-bit division, where it will do, takes a third of the time. */
    return ron_u128_hi(product) == 0 ? ron_u128_lo(product) / weight.den : product / weight.den;
}

static ron_u128 plain_score(const struct check *c, uint64_t row)
{
    const struct rwd_counters *n = rwd_rows_counters(c->input->rows, row);

    return (plain_weigh(n->bytes_stored, c->policy->stored) +
            plain_weigh(n->bytes_served, c->policy->served) +
            plain_weigh(n->uptime_seconds, c->policy->uptime)) *
           c->policy->weight_bps;
}

static int compare(struct ron_str a, struct ron_str b)
{
    int order = memcmp(a.ptr, b.ptr, RON_MIN(a.len, b.len));

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* The category of the next row of a walk, NULL for none. Rows and prefixes rise. */
static struct check_category *category_of(struct check *c, struct ron_str account)
{
    while (c->at < c->policy->category_count) {
        struct ron_str prefix = c->policy->categories[c->at].prefix;

        if (account.len >= prefix.len && memcmp(account.ptr, prefix.ptr, prefix.len) == 0) {
            return &c->categories[c->at];
        }
        if (compare(account, prefix) < 0) {
            break;
        }
        c->at++;
    }
    return NULL;
}

/* What the payouts give to each category against its cap. */
static enum rwd_breach check_category_caps(struct check *c)
{
    for (uint32_t i = 0; i < c->policy->category_count; i++) {
        struct rwd_category category = c->policy->categories[i];

        if (c->categories[i].paid > category.cap.v) {
            return BREACH(c, CAP, "category %.*s is paid more than its cap",
                          (int)category.prefix.len, category.prefix.ptr);
        }
    }
    return RWD_BREACH_NONE;
}

/* The payout of the next row of a walk; 0: none. */
static ron_u128 next_paid(struct check *c, uint64_t row)
{
    const struct rwd_result *r = c->result;

    if (c->next < r->totals.paid_accounts && r->payees[c->next] == row) {
        return r->amounts[c->next++];
    }
    return 0;
}

/* First walk: the order of rows, all sums of scores, and the caps of categories. */
static enum rwd_breach check_rows(struct check *c)
{
    uint64_t count = rwd_rows_count(c->input->rows);
    struct ron_str before = {"", 0};
    uint64_t idle = 0;

    c->at = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct ron_str account = rwd_rows_account(c->input->rows, i);
        struct check_category *category = category_of(c, account);
        ron_u128 score = plain_score(c, i);
        ron_u128 paid = next_paid(c, i);

        if (compare(before, account) >= 0) {
            return BREACH(c, ORDER, "row %llu is out of order", (unsigned long long)i);
        }
        before = account;
        if (__builtin_add_overflow(c->total, score, &c->total)) {
            return BREACH(c, OVERFLOW, "the scores add up to more than 2^128 - 1");
        }
        idle += score == 0;
        if (category != NULL) {
            category->total += score; /* at most c->total */
            category->active += score != 0;
            category->paid += paid; /* at most the total paid */
        }
    }
    if (c->result->totals.idle_accounts != idle) {
        return BREACH(c, CONSERVATION, "the number of idle accounts is wrong");
    }
    return check_category_caps(c);
}

/* floor(a * b / d) by the kernel's division; b <= d and d is not 0. */
static ron_u128 plain_share(ron_u128 a, ron_u128 b, ron_u128 d, ron_u128 *ret_rest)
{
    ron_u128 quotient = 0;
    enum ron_wide_result result = ron_muldiv(a, b, d, RON_ROUND_FLOOR, &quotient, ret_rest);

    RON_ASSERT(result == RON_WIDE_OK);
    return quotient;
}

static void find_groups(struct check *c)
{
    ron_u128 pool = c->result->totals.pool.v;
    bool rounds_up = c->policy->rounding == RWD_ROUND_LARGEST_REMAINDER;

    if (c->total == 0) {
        return;
    }
    c->groups[0].total = c->total;
    for (uint32_t i = 0; i < c->policy->category_count; i++) {
        struct check_category *category = &c->categories[i];
        ron_u128 cap = c->policy->categories[i].cap.v;
        ron_u128 share = plain_share(pool, category->total, c->total, NULL);
        ron_u128 most = share;

        if (rounds_up && __builtin_add_overflow(share, category->active, &most)) {
            most = RON_U128_MAX;
        }
        if (most > cap) {
            category->group = 1 + i;
            c->groups[1 + i] = (struct check_group){.pool = share, .total = category->total};
            c->groups[0].total -= category->total;
            if (share > cap) {
                c->groups[1 + i].pool = cap;
                c->capped += share - cap;
            }
        }
    }
    c->groups[0].pool = plain_share(pool, c->groups[0].total, c->total, NULL);
}

/* ---- each row -------------------------------------------------------------------------------- */

static struct ron_u256 minus(struct ron_u256 a, struct ron_u256 b)
{
    return (struct ron_u256){.hi = a.hi - b.hi - (a.lo < b.lo), .lo = a.lo - b.lo};
}

/* floor(pool * score / total) and the remainder. A guess that is right, or above by one, is proven
 * by multiplication; any other costs a division. */
static ron_u128 prove_share(const struct check_group *g, ron_u128 score, ron_u128 guess,
                            ron_u128 *ret_rest)
{
    struct ron_u256 exact = ron_u256_mul(g->pool, score);
    struct ron_u256 guessed = ron_u256_mul(guess, g->total);

    if (ron_u256_cmp(guessed, exact) <= 0) {
        struct ron_u256 rest = minus(exact, guessed);

        if (rest.hi == 0 && rest.lo < g->total) {
            *ret_rest = rest.lo;
            return guess;
        }
    } else {
        struct ron_u256 above = minus(guessed, exact);

        if (above.hi == 0 && above.lo <= g->total) {
            *ret_rest = g->total - above.lo;
            return guess - 1;
        }
    }
    return plain_share(g->pool, score, g->total, ret_rest);
}

/* What the policy pays to a row; counts all that is kept back. */
static ron_u128 expected(struct check *c, struct check_category *category, uint64_t row,
                         ron_u128 score, ron_u128 guess)
{
    uint32_t no = category == NULL ? 0 : category->group;
    const struct rwd_last_up *last = &c->result->last_up[no];
    struct check_group *g = &c->groups[no];
    ron_u128 amount = 0;
    ron_u128 rest = 0;

    if (score != 0) {
        amount = prove_share(g, score, guess, &rest);
        g->given += amount;
        if (c->policy->rounding == RWD_ROUND_LARGEST_REMAINDER && last->count > 0 &&
            (rest > last->rest || (rest == last->rest && row <= last->row))) {
            g->ups++;
            amount++;
        }
    }
    if (amount > c->cap) {
        c->capped += amount - c->cap;
        amount = c->cap;
    }
    if (amount < c->min) {
        c->dust += amount;
        return 0;
    }
    return amount;
}

static enum rwd_breach check_row(struct check *c, uint64_t row)
{
    struct ron_str account = rwd_rows_account(c->input->rows, row);
    struct check_category *category = category_of(c, account);
    ron_u128 paid = next_paid(c, row);
    ron_u128 score = plain_score(c, row);
    struct rwd_payout payout;

    if (paid != 0 && score == 0) {
        return BREACH(c, CONSERVATION, "%.*s is paid without a score", (int)account.len,
                      account.ptr);
    }
    if (expected(c, category, row, score, paid) != paid) {
        return BREACH(c, CONSERVATION, "%.*s is not paid what the policy gives", (int)account.len,
                      account.ptr);
    }
    if (paid != 0) {
        rwd_result_payout(c->result, c->next - 1, &payout);
        if (payout.score != score) {
            return BREACH(c, CONSERVATION, "the score of %.*s is wrong", (int)account.len,
                          account.ptr);
        }
    }
    return RWD_BREACH_NONE;
}

/* Second walk. */
static enum rwd_breach check_amounts(struct check *c)
{
    uint64_t count = rwd_rows_count(c->input->rows);

    c->at = 0;
    c->next = 0;
    for (uint64_t i = 0; i < count; i++) {
        CHECK_TRY(check_row(c, i));
        if (c->input->done_rows != NULL && ((i + 1) % PROGRESS_ROWS == 0 || i + 1 == count)) {
            (void)ron_au64_add(c->input->done_rows, i % PROGRESS_ROWS + 1);
        }
    }
    return RWD_BREACH_NONE;
}

/* What was counted on the way. */
static enum rwd_breach check_sums(struct check *c)
{
    bool rounds_up = c->policy->rounding == RWD_ROUND_LARGEST_REMAINDER;

    for (uint32_t g = 0; g < RWD_GROUPS_MAX; g++) {
        const struct check_group *group = &c->groups[g];

        if (group->total != 0 && rounds_up && group->ups != group->pool - group->given) {
            return BREACH(c, DUST_POLICY, "the units left by rounding are not given as they must");
        }
    }
    if (c->dust != c->result->totals.dust.v) {
        return BREACH(c, DUST_POLICY, "the sum below the minimum is wrong");
    }
    if (c->capped != c->result->totals.capped.v) {
        return BREACH(c, CAP, "the sum above the caps is wrong");
    }
    return RWD_BREACH_NONE;
}

enum rwd_breach rwd_calc_check(const struct rwd_calc_input *input, const struct rwd_result *r,
                               struct ron_err *err)
{
    struct check c = {
        .input = input,
        .policy = input->policy,
        .result = r,
        .err = err,
        .cap = input->policy->has_actor_cap ? input->policy->actor_cap.v : RON_U128_MAX,
        .min = input->policy->min.v > 0 ? input->policy->min.v : 1,
    };

    if (r->breach != RWD_BREACH_NONE) {
        (void)(ron_err_set(err, RON_CONFLICT, "the calculation met a breach: %s",
                           rwd_breach_label(r->breach)));
        return r->breach;
    }
    CHECK_TRY(check_payouts(&c));
    CHECK_TRY(check_totals(&c));
    CHECK_TRY(check_rows(&c));
    find_groups(&c);
    CHECK_TRY(check_amounts(&c));
    return check_sums(&c);
}
