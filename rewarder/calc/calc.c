/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/calc/calc.c - the calculus of calc.h, in three walks over the rows.
 *
 *   scores   steps 1 and 2: amounts[i] is the weighted score; sums per segment
 *   split    steps 3 and 4, once: the pool, the groups and their reciprocals
 *   share    step 5: amounts[i] is the amount, rests[i] what the division left; step 6 in
 *            pick.c
 *   settle   steps 7 and 8: caps, minimum, totals; amounts[] shrinks to the payouts
 *
 * Rows are sorted and no category's prefix begins with another, so a category is one run of rows,
 * found by halving; what lies between is nobody's. Such a run is a segment. Rows are walked in
 * parts and, inside them, in pieces of one segment each; all that passes from one piece to the next
 * is sums, which is why the cut does not matter (C1).
 *
 * Bounds: a weighted score is below 2^115 (three counters of 64 bits by 2^32, by 100000), so the
 * sum over a piece fits 128 bits and only the sums of pieces are checked. */
#include "rewarder/calc/calc.h"

#include <string.h>

#include "rewarder/calc/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    /* A tenth of a millisecond of work between two looks at `cancelled`; also 2^12 by 2^115. */
    PIECE_ROWS = 4096,
    SEGMENTS_MAX = 2 * RWD_CATEGORIES_MAX + 1,
    NO_CATEGORY = RWD_CATEGORIES_MAX,
};

struct segment {
    struct rwd_span span;
    uint32_t category;
    uint32_t group;
    uint64_t active; /* rows with a score */
    ron_u128 total;  /* of weighted scores */
};

struct group {
    ron_u128 pool;
    ron_u128 total; /* 0: the group is empty */
    ron_u128 given;
    struct rwd_share share;
};

struct calc {
    const struct rwd_calc_input *input;
    const struct rwd_policy *policy;
    uint64_t count;
    struct segment segments[SEGMENTS_MAX];
    size_t segment_count;
    struct group groups[RWD_GROUPS_MAX];
    ron_u128 total;
    bool overflow;
    ron_u128 *rests; /* NULL unless largest remainder */
    struct rwd_result *result;
};

const char *rwd_breach_label(enum rwd_breach breach)
{
    static const char *const labels[RWD_BREACH_COUNT] = {
#define X(name, label) [RWD_BREACH_##name] = (label),
        RWD_BREACHES(X)
#undef X
    };

    RON_ASSERT(breach < RWD_BREACH_COUNT);
    return labels[breach];
}

/* ---- scores ---------------------------------------------------------------------------------- */

static struct rwd_factor factor_of(struct rwd_fraction weight)
{
    return (struct rwd_factor){
        .num = weight.num,
        .shift = (uint32_t)__builtin_ctzll(weight.den),
        .by_shift = (weight.den & (weight.den - 1)) == 0,
        .den = rwd_div64_of(weight.den),
    };
}

static void scores_piece(struct calc *c, struct segment *segment, struct rwd_span piece)
{
    const struct rwd_scale *scale = &c->result->scale;
    ron_u128 *amounts = c->result->amounts;
    ron_u128 sum = 0;
    uint64_t active = 0;

    for (uint64_t i = piece.first; i < piece.end; i++) {
        ron_u128 score = rwd__score(scale, rwd_rows_counters(c->input->rows, i));

        amounts[i] = score;
        sum += score;
        active += score != 0;
    }
    segment->active += active;
    if (__builtin_add_overflow(segment->total, sum, &segment->total)) {
        c->overflow = true;
    }
}

/* ---- walks ----------------------------------------------------------------------------------- */

typedef void piece_fn(struct calc *c, struct segment *segment, struct rwd_span piece);

/* Calls `each` for every piece of every part, or returns RON_CANCELLED between two. */
static enum ron_rc walk(struct calc *c, piece_fn *each, bool counted)
{
    const struct rwd_calc_input *in = c->input;
    uint64_t parts = in->parts == 0 ? 1 : in->parts;

    for (uint64_t part = 0; part < parts; part++) {
        /* The count is below 2^32 and so are the parts: no product overflows. */
        uint64_t at = c->count * part / parts;
        uint64_t end = c->count * (part + 1) / parts;

        for (size_t s = 0; s < c->segment_count; s++) {
            struct segment *segment = &c->segments[s];

            while (at < RON_MIN(end, segment->span.end)) {
                struct rwd_span piece = {at, RON_MIN(end, segment->span.end)};

                piece.end = RON_MIN(piece.end, at + PIECE_ROWS);
                if (in->cancelled != NULL && ron_au32_load(in->cancelled) != 0) {
                    return RON_CANCELLED;
                }
                each(c, segment, piece);
                at = piece.end;
                if (counted && in->done_rows != NULL) {
                    (void)ron_au64_add(in->done_rows, piece.end - piece.first);
                }
            }
        }
    }
    return RON_OK;
}

/* Where a row stands to a prefix: -1 before all that begin with it, 0 among them, 1 behind. */
static int place_of(struct ron_str account, struct ron_str prefix)
{
    int order = memcmp(account.ptr, prefix.ptr, RON_MIN(account.len, prefix.len));

    if (order != 0) {
        return order < 0 ? -1 : 1;
    }
    return account.len < prefix.len ? -1 : 0;
}

/* The first row from `from` on that stands at `place` to the prefix or later. */
static uint64_t find_row(const struct calc *c, uint64_t from, struct ron_str prefix, int place)
{
    uint64_t end = c->count;

    while (from < end) {
        uint64_t middle = from + (end - from) / 2;

        if (place_of(rwd_rows_account(c->input->rows, middle), prefix) < place) {
            from = middle + 1;
        } else {
            end = middle;
        }
    }
    return from;
}

static void add_segment(struct calc *c, uint64_t first, uint64_t end, uint32_t category)
{
    if (first < end) {
        c->segments[c->segment_count++] =
            (struct segment){.span = {first, end}, .category = category};
    }
}

static void find_segments(struct calc *c)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < c->policy->category_count; i++) {
        struct ron_str prefix = c->policy->categories[i].prefix;
        uint64_t first = find_row(c, at, prefix, 0);
        uint64_t end = find_row(c, first, prefix, 1);

        add_segment(c, at, first, NO_CATEGORY);
        add_segment(c, first, end, i);
        at = end;
    }
    add_segment(c, at, c->count, NO_CATEGORY);
}

/* ---- split ----------------------------------------------------------------------------------- */

/* Step 3. False when the sum that is offered does not fit. */
static bool set_pool(struct calc *c)
{
    struct rwd_totals *t = &c->result->totals;
    struct ron_money most = rwd_policy_pool_max(c->policy, c->input->produced_at_ms);

    if (ron_money_add(c->input->pool, c->input->carry_in, &t->offered) != RON_MONEY_OK) {
        return false;
    }
    t->pool.v = RON_MIN(t->offered.v, most.v);
    t->cut.v = t->offered.v - t->pool.v;
    return true;
}

static bool add_totals(struct calc *c)
{
    for (size_t s = 0; s < c->segment_count; s++) {
        c->overflow |= __builtin_add_overflow(c->total, c->segments[s].total, &c->total);
        c->result->totals.idle_accounts +=
            c->segments[s].span.end - c->segments[s].span.first - c->segments[s].active;
    }
    return !c->overflow;
}

/* Step 4: gives each segment its group and each group its pool. */
static void split(struct calc *c)
{
    struct rwd_totals *t = &c->result->totals;
    bool rounds_up = c->policy->rounding == RWD_ROUND_LARGEST_REMAINDER;
    ron_u128 rest;
    struct rwd_share whole;

    if (c->total == 0) {
        return;
    }
    whole = rwd_share_of(t->pool.v, c->total);
    for (size_t s = 0; s < c->segment_count; s++) {
        struct segment *segment = &c->segments[s];

        if (segment->category != NO_CATEGORY) {
            ron_u128 share = rwd_share(&whole, segment->total, &rest);
            ron_u128 cap = c->policy->categories[segment->category].cap.v;

            if (share > cap || (rounds_up && segment->active > cap - share)) {
                segment->group = 1 + segment->category;
                c->groups[segment->group].pool = RON_MIN(share, cap);
                t->capped.v += share - RON_MIN(share, cap);
            }
        }
        c->groups[segment->group].total += segment->total;
    }
    c->groups[0].pool = rwd_share(&whole, c->groups[0].total, &rest);
    for (size_t g = 0; g < RWD_GROUPS_MAX; g++) {
        if (c->groups[g].total != 0) {
            c->groups[g].share = rwd_share_of(c->groups[g].pool, c->groups[g].total);
        }
    }
}

/* ---- share ----------------------------------------------------------------------------------- */

static void share_piece(struct calc *c, struct segment *segment, struct rwd_span piece)
{
    struct group *group = &c->groups[segment->group];
    /* A copy the compiler can keep in registers while it writes amounts. */
    const struct rwd_share share = group->share;
    ron_u128 *amounts = c->result->amounts;
    ron_u128 *rests = c->rests;
    ron_u128 given = 0;
    ron_u128 rest;

    if (group->total == 0) {
        return; /* all idle: the scores are 0, and so are the amounts */
    }
    for (uint64_t i = piece.first; i < piece.end; i++) {
        ron_u128 amount = rwd_share(&share, amounts[i], &rest);

        amounts[i] = amount;
        given += amount;
        if (rests != NULL) {
            rests[i] = rest;
        }
    }
    group->given += given; /* floors: never above the pool */
}

/* Step 6. */
static enum ron_rc round_up(struct calc *c)
{
    uint64_t *cells = ron_alloc(RWD_PICK_CELLS * sizeof *cells);

    if (cells == NULL) {
        return RON_NOMEM;
    }
    for (uint32_t g = 0; g < RWD_GROUPS_MAX; g++) {
        struct rwd_span spans[SEGMENTS_MAX];
        size_t span_count = 0;

        if (c->groups[g].total == 0) {
            continue;
        }
        for (size_t s = 0; s < c->segment_count; s++) {
            if (c->segments[s].group == g) {
                spans[span_count++] = c->segments[s].span;
            }
        }
        rwd__pick(spans, span_count, c->rests, c->result->amounts,
                  (uint64_t)(c->groups[g].pool - c->groups[g].given), cells,
                  &c->result->last_up[g]);
    }
    ron_free(cells);
    return RON_OK;
}

/* ---- settle ---------------------------------------------------------------------------------- */

/* Steps 7 and 8. Payout k is at or before row k, so amounts[] is read before it is overwritten. */
static void settle(struct calc *c)
{
    struct rwd_result *r = c->result;
    struct rwd_totals *t = &r->totals;
    ron_u128 cap = c->policy->has_actor_cap ? c->policy->actor_cap.v : RON_U128_MAX;
    ron_u128 min = RON_MAX(c->policy->min.v, (ron_u128)1);
    uint64_t payouts = 0;

    for (uint64_t i = 0; i < c->count; i++) {
        ron_u128 amount = r->amounts[i];

        if (amount > cap) {
            t->capped.v += amount - cap;
            amount = cap;
        }
        if (amount < min) {
            t->dust.v += amount;
            continue;
        }
        t->paid.v += amount;
        r->amounts[payouts] = amount;
        r->payees[payouts] = (uint32_t)i;
        payouts++;
    }
    t->paid_accounts = payouts;
    t->residual.v = t->pool.v - t->paid.v;
}

/* ---- a calculation --------------------------------------------------------------------------- */

static enum ron_rc breach(struct rwd_result *r)
{
    r->breach = RWD_BREACH_OVERFLOW;
    r->totals = (struct rwd_totals){0};
    return RON_OK;
}

static enum ron_rc calculate(struct calc *c)
{
    if (!set_pool(c)) {
        return breach(c->result);
    }
    find_segments(c);
    RON_TRY(walk(c, scores_piece, false));
    if (!add_totals(c)) {
        return breach(c->result);
    }
    split(c);
    RON_TRY(walk(c, share_piece, true));
    if (c->rests != NULL) {
        RON_TRY(round_up(c));
    }
    settle(c);
    return RON_OK;
}

static enum ron_rc result_new(const struct rwd_calc_input *input, uint64_t count,
                              struct rwd_result **ret_result)
{
    struct rwd_result *r = ron_alloc_zero(sizeof *r);

    if (r == NULL) {
        return RON_NOMEM;
    }
    r->rows = input->rows;
    r->scale =
        (struct rwd_scale){factor_of(input->policy->stored), factor_of(input->policy->served),
                           factor_of(input->policy->uptime), input->policy->weight_bps};
    r->amounts = ron_alloc(count * sizeof r->amounts[0]);
    r->payees = ron_alloc(count * sizeof r->payees[0]);
    if (r->amounts == NULL || r->payees == NULL) {
        rwd_result_free(r);
        return RON_NOMEM;
    }
    ron_alloc_advise_huge(r->amounts, count * sizeof r->amounts[0]);
    *ret_result = r;
    return RON_OK;
}

enum ron_rc rwd_calc(const struct rwd_calc_input *input, struct rwd_result **ret_result,
                     struct ron_err *err)
{
    const struct rwd_policy *policy = input->policy;
    RON_AUTO_FREE struct calc *c = ron_alloc_zero(sizeof *c);
    RON_AUTO_FREE ron_u128 *rests = NULL;
    uint64_t count = rwd_rows_count(input->rows);
    struct rwd_result *result = NULL;
    enum ron_rc rc = RON_NOMEM;

    RON_ASSERT(count <= UINT32_MAX);
    RON_ASSERT(policy->category_count <= RWD_CATEGORIES_MAX);
    if (policy->rounding == RWD_ROUND_LARGEST_REMAINDER) {
        rests = ron_alloc(count * sizeof *rests);
    }
    if (c != NULL && (rests != NULL || policy->rounding != RWD_ROUND_LARGEST_REMAINDER)) {
        rc = result_new(input, count, &result);
    }
    if (rc == RON_OK) {
        c->input = input;
        c->policy = policy;
        c->count = count;
        c->rests = rests;
        c->result = result;
        rc = calculate(c);
    }
    if (rc != RON_OK) {
        rwd_result_free(result);
        return ron_err_set(err, rc,
                           rc == RON_NOMEM ? "no memory for %llu amounts"
                                           : "the calculation of %llu rows was stopped",
                           (unsigned long long)count);
    }
    *ret_result = result;
    return RON_OK;
}

void rwd_result_free(struct rwd_result *r)
{
    if (r != NULL) {
        ron_free(r->amounts);
        ron_free(r->payees);
        ron_free(r);
    }
}

const struct rwd_totals *rwd_result_totals(const struct rwd_result *r)
{
    return &r->totals;
}

enum rwd_breach rwd_result_breach(const struct rwd_result *r)
{
    return r->breach;
}

void rwd_result_payout(const struct rwd_result *r, uint64_t index, struct rwd_payout *ret_payout)
{
    uint64_t row;

    RON_ASSERT(index < r->totals.paid_accounts);
    row = r->payees[index];
    *ret_payout = (struct rwd_payout){
        .account = rwd_rows_account(r->rows, row),
        .amount = {r->amounts[index]},
        .score = rwd__score(&r->scale, rwd_rows_counters(r->rows, row)),
    };
}
