/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the calculus is the model's for every input, and has the properties that it promises.
 *
 * Method: random policies and rows, small ones where ties, caps and dust meet all the time and huge
 * ones at the edges of words; every result is compared with calc_model.h to the unit, passes its
 * check, and is the same for rows in another order and for any number of parts. */
#include "unit/rewarder/calc_draw.h"

enum { CASES = 2500, SOAK_FACTOR = 40 };

static void compare_with_model(struct draw *d, const struct rwd_result *r)
{
    struct model m = {.rows = d->rows, .count = d->count};
    const struct rwd_totals *t = rwd_result_totals(r);
    uint64_t paid = 0;

    model_run(&m, &d->input);
    assert_int_equal(rwd_result_breach(r), m.overflow ? RWD_BREACH_OVERFLOW : RWD_BREACH_NONE);
    if (m.overflow) {
        assert_int_equal(t->paid_accounts, 0);
        return;
    }
    for (size_t i = 0; i < d->count; i++) {
        paid += !big_is_zero(d->rows[i].amount);
    }
    assert_int_equal(t->paid_accounts, paid);
    for (uint64_t k = 0; k < paid; k++) {
        struct rwd_payout payout;
        const struct model_row *row;

        rwd_result_payout(r, k, &payout);
        row = draw_row_of(d, payout.account);
        assert_non_null(row);
        support_assert_u128_equal(payout.amount.v, big_to_128(row->amount));
        support_assert_u128_equal(payout.score, big_to_128(row->score));
    }
    support_assert_u128_equal(t->offered.v, big_to_128(m.offered));
    support_assert_u128_equal(t->pool.v, big_to_128(m.pool));
    support_assert_u128_equal(t->cut.v, big_to_128(big_sub(m.offered, m.pool)));
    support_assert_u128_equal(t->paid.v, big_to_128(m.paid));
    support_assert_u128_equal(t->residual.v, big_to_128(big_sub(m.pool, m.paid)));
    support_assert_u128_equal(t->dust.v, big_to_128(m.dust));
    support_assert_u128_equal(t->capped.v, big_to_128(m.capped));
}

static int cases(void)
{
    return getenv("RON_SOAK") != NULL ? CASES * SOAK_FACTOR : CASES;
}

static void test_calc__random_input__agrees_with_the_model(void **state)
{
    struct draw *d = *state;
    int breaches = 0;

    for (int i = 0; i < cases(); i++) {
        struct rwd_rows *rows;
        struct rwd_result *r;

        draw_case(d);
        d->input.rows = rows = draw_rows_of(d);
        r = fix_calc(&d->input);
        compare_with_model(d, r);
        breaches += rwd_result_breach(r) != RWD_BREACH_NONE;
        rwd_result_free(r);
        rwd_rows_free(rows);
    }
    print_message("%d cases, %d with a breach\n", cases(), breaches);
}

static void test_calc__other_order_or_parts__has_the_same_result(void **state)
{
    struct draw *d = *state;

    for (int i = 0; i < cases() / 10; i++) {
        struct rwd_rows *rows;
        struct rwd_result *first;

        draw_case(d);
        d->input.rows = rows = draw_rows_of(d);
        first = fix_calc(&d->input);
        for (uint32_t parts = 1; parts <= 17; parts++) {
            struct rwd_calc_input input = d->input;
            struct rwd_rows *shuffled;
            struct rwd_result *r;

            draw_shuffle(d);
            input.rows = shuffled = draw_rows_of(d);
            input.parts = parts;
            r = fix_calc(&input);
            assert_true(draw_same(first, r));
            rwd_result_free(r);
            rwd_rows_free(shuffled);
        }
        rwd_result_free(first);
        rwd_rows_free(rows);
    }
}

/* Many rows, so that pieces, parts and segments cut each other everywhere. */
static void test_calc__many_rows__do_not_depend_on_parts(void **state)
{
    enum { ROWS = 30000 };
    struct draw *d = *state;
    struct rwd_rows *rows = NULL;
    struct rwd_calc_input input = {.policy = &d->policy, .pool = ron_money_of(123456789)};
    struct rwd_result *first;

    rwd_policy_default(&d->policy);
    d->policy.rounding = RWD_ROUND_LARGEST_REMAINDER;
    d->policy.category_count = 3;
    d->policy.categories[0] = (struct rwd_category){{"n0001", 5}, {1000}};
    d->policy.categories[1] = (struct rwd_category){{"n01", 3}, {1}};
    d->policy.categories[2] = (struct rwd_category){{"n02", 3}, RON_MONEY_MAX};
    assert_int_equal(rwd_rows_new(NULL, &rows, NULL), RON_OK);
    for (int i = 0; i < ROWS; i++) {
        const struct rwd_counters counters = {draw_below(d, 1000), draw_below(d, 100000),
                                              draw_below(d, 3600)};
        char name[16];
        int len = snprintf(name, sizeof name, "n%06d", i);

        assert_int_equal(rwd_rows_add(rows, (struct ron_str){name, (size_t)len}, &counters, NULL),
                         RON_OK);
    }
    assert_int_equal(rwd_rows_seal(rows, NULL), RON_OK);
    input.rows = rows;
    first = fix_calc(&input);
    /* The capped category keeps back what is above its cap; all else is given to the unit. */
    assert_true(rwd_result_totals(first)->residual.v - rwd_result_totals(first)->capped.v <= 3);
    for (uint32_t parts = 2; parts <= 17; parts++) {
        struct rwd_result *r;

        input.parts = parts;
        r = fix_calc(&input);
        assert_true(draw_same(first, r));
        rwd_result_free(r);
    }
    rwd_result_free(first);
    rwd_rows_free(rows);
}

/* Without caps and minimum: floor or one more, and the sum exact. */
static void test_calc__largest_remainder__keeps_the_quota_and_the_sum(void **state)
{
    struct draw *d = *state;

    for (int i = 0; i < cases() / 4; i++) {
        struct rwd_rows *rows;
        struct rwd_result *r;
        struct big total = big_of(0);
        struct big pool;

        draw_case(d);
        rwd_policy_default(&d->policy);
        d->policy.rounding = RWD_ROUND_LARGEST_REMAINDER;
        d->input.carry_in = RON_MONEY_ZERO;
        d->input.rows = rows = draw_rows_of(d);
        r = fix_calc(&d->input);
        pool = big_of(d->input.pool.v);
        model_scores(&(struct model){.rows = d->rows, .count = d->count, .policy = &d->policy});
        for (size_t k = 0; k < d->count; k++) {
            total = big_add(total, d->rows[k].score);
        }
        for (size_t k = 0; k < d->count && !big_is_zero(total); k++) {
            struct big exact = big_mul(pool, d->rows[k].score);
            ron_u128 paid = fix_paid(r, d->rows[k].name);
            struct big least = big_mul(big_of(paid), total);

            /* paid - 1 < exact / total < paid + 1 */
            assert_true(big_cmp(exact, big_add(least, total)) < 0);
            assert_true(big_cmp(least, big_add(exact, total)) < 0);
        }
        assert_true(rwd_result_totals(r)->residual.v == (big_is_zero(total) ? d->input.pool.v : 0));
        rwd_result_free(r);
        rwd_rows_free(rows);
    }
}

/* With floors: who does more is not paid less, and from a larger pool nobody is. */
static void test_calc__floor__is_monotone(void **state)
{
    struct draw *d = *state;

    for (int i = 0; i < cases() / 4; i++) {
        struct rwd_rows *rows;
        struct rwd_rows *more_rows;
        struct rwd_result *r;
        struct rwd_result *more;
        struct model_row *row;
        ron_u128 before;

        draw_case(d);
        if (d->count == 0) {
            continue;
        }
        rwd_policy_default(&d->policy);
        d->policy.min = draw_money(d, 4);
        d->input.carry_in = RON_MONEY_ZERO;
        d->input.rows = rows = draw_rows_of(d);
        r = fix_calc(&d->input);

        row = &d->rows[draw_below(d, d->count)];
        before = fix_paid(r, row->name);
        row->counters.bytes_stored +=
            draw_below(d, (UINT64_MAX - row->counters.bytes_stored) / 2 + 1);
        d->input.rows = more_rows = draw_rows_of(d);
        more = fix_calc(&d->input);
        assert_true(fix_paid(more, row->name) >= before);
        rwd_result_free(more);
        rwd_rows_free(more_rows);

        d->input.rows = rows;
        d->input.pool.v += (RON_U128_MAX - d->input.pool.v) / (1 + draw_below(d, 1000));
        more = fix_calc(&d->input);
        for (size_t k = 0; k < d->count; k++) {
            assert_true(fix_paid(more, d->rows[k].name) >= fix_paid(r, d->rows[k].name));
        }
        rwd_result_free(more);
        rwd_result_free(r);
        rwd_rows_free(rows);
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, draw_set_up, draw_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_calc__random_input__agrees_with_the_model),
        CASE(test_calc__other_order_or_parts__has_the_same_result),
        CASE(test_calc__many_rows__do_not_depend_on_parts),
        CASE(test_calc__largest_remainder__keeps_the_quota_and_the_sum),
        CASE(test_calc__floor__is_monotone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
