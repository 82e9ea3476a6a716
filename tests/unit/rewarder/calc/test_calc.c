/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the calculus pays what the specification says, case by case: golden values, caps, minimum,
 * categories, largest remainder, emission, carried sums, overflow, cancellation.
 *
 * Method: small inputs whose results were worked out by hand. Every result passes its check too. */
#include "unit/rewarder/calc_fixture.h"

struct wanted {
    const char *account;
    uint64_t amount;
};

/* Calculates, and compares payouts and residual. */
static struct rwd_totals expect(const struct fix_row *rows, size_t count,
                                const struct rwd_policy *policy, uint64_t pool,
                                const struct wanted *wanted, size_t wanted_count, uint64_t residual)
{
    struct rwd_rows *sealed = fix_rows(rows, count);
    struct rwd_calc_input input = {.rows = sealed, .policy = policy, .pool = ron_money_of(pool)};
    struct rwd_result *r = fix_calc(&input);
    struct rwd_totals totals = *rwd_result_totals(r);

    assert_int_equal(rwd_result_breach(r), RWD_BREACH_NONE);
    assert_int_equal(totals.paid_accounts, wanted_count);
    for (size_t k = 0; k < wanted_count; k++) {
        struct rwd_payout payout;

        rwd_result_payout(r, k, &payout);
        assert_true(ron_str_is(payout.account, wanted[k].account));
        support_assert_u128_equal(payout.amount.v, wanted[k].amount);
    }
    support_assert_u128_equal(totals.residual.v, residual);
    rwd_result_free(r);
    rwd_rows_free(sealed);
    return totals;
}
#define EXPECT(rows, policy, pool, residual, ...)                                                  \
    expect(rows, RON_ARRAY_LEN(rows), policy, pool, (const struct wanted[]){__VA_ARGS__},          \
           sizeof((const struct wanted[]){__VA_ARGS__}) / sizeof(struct wanted), residual)
#define EXPECT_NOBODY(rows, policy, pool)                                                          \
    expect(rows, RON_ARRAY_LEN(rows), policy, pool, NULL, 0, pool)

static void test_calc__specification_vector__pays_356_and_643(void **state)
{
    static const struct fix_row rows[] = {{"acct_b", {200, 0, 20}}, {"acct_a", {100, 50, 10}}};
    struct rwd_policy policy;
    struct rwd_rows *sealed = fix_rows(rows, 2);
    struct rwd_payout payout;
    struct rwd_result *r;

    (void)state;
    rwd_policy_default(&policy);
    r = fix_calc(&(struct rwd_calc_input){
        .rows = sealed, .policy = &policy, .pool = ron_money_of(1000), .produced_at_ms = 1});
    assert_int_equal(rwd_result_totals(r)->paid_accounts, 2);
    rwd_result_payout(r, 0, &payout);
    assert_true(ron_str_is(payout.account, "acct_a"));
    assert_true(payout.amount.v == 356 && payout.score == 1220000);
    rwd_result_payout(r, 1, &payout);
    assert_true(ron_str_is(payout.account, "acct_b"));
    assert_true(payout.amount.v == 643 && payout.score == 2200000);
    assert_true(rwd_result_totals(r)->residual.v == 1);
    assert_true(rwd_result_totals(r)->paid.v == 999);
    assert_true(rwd_result_totals(r)->pool.v == 1000);
    rwd_result_free(r);
    rwd_rows_free(sealed);
}

static void test_calc__plain_thirds__floor_leaves_one(void **state)
{
    static const struct fix_row rows[] = {{"a", {100, 0, 0}}, {"b", {200, 0, 0}}};
    struct rwd_policy policy;

    (void)state;
    rwd_policy_default(&policy);
    EXPECT(rows, &policy, 1000, 1, {"a", 333}, {"b", 666});
    policy.rounding = RWD_ROUND_LARGEST_REMAINDER;
    EXPECT(rows, &policy, 1000, 0, {"a", 333}, {"b", 667});
}

static void test_calc__pool_below_minimum__pays_nobody(void **state)
{
    static const struct fix_row rows[] = {{"a", {100, 0, 0}}};
    struct rwd_policy policy;
    struct rwd_totals totals;

    (void)state;
    rwd_policy_default(&policy);
    policy.min = ron_money_of(100);
    totals = EXPECT_NOBODY(rows, &policy, 10);
    assert_true(totals.dust.v == 10);
    assert_int_equal(totals.idle_accounts, 0);
}

static void test_calc__largest_pool__is_paid_exactly(void **state)
{
    static const struct fix_row one[] = {{"a", {2, 0, 0}}};
    static const struct fix_row three[] = {
        {"a", {UINT64_MAX, 0, 0}}, {"b", {UINT64_MAX, 0, 0}}, {"c", {UINT64_MAX, 0, 0}}};
    struct rwd_policy policy;
    struct rwd_rows *rows = fix_rows(one, 1);
    struct rwd_calc_input input = {.rows = rows, .policy = &policy, .pool = RON_MONEY_MAX};
    struct rwd_result *r;

    (void)state;
    rwd_policy_default(&policy);
    r = fix_calc(&input);
    support_assert_u128_equal(fix_paid(r, "a"), RON_U128_MAX);
    assert_true(rwd_result_totals(r)->residual.v == 0);
    rwd_result_free(r);
    rwd_rows_free(rows);
    input.rows = rows = fix_rows(three, 3);
    r = fix_calc(&input);
    support_assert_u128_equal(fix_paid(r, "b"), RON_U128_MAX / 3);
    rwd_result_free(r);
    rwd_rows_free(rows);
}

/* 100 * 2/3 = 66, 10 * 5 = 50, 7 * 0 = 0; the second row scores by stored bytes alone. */
static void test_calc__weights__change_scores_and_payouts(void **state)
{
    static const struct fix_row rows[] = {{"a", {100, 10, 7}}, {"b", {174, 0, 1000}}};
    struct rwd_policy policy;
    struct rwd_rows *sealed = fix_rows(rows, 2);
    struct rwd_payout payout;
    struct rwd_result *r;

    (void)state;
    rwd_policy_default(&policy);
    policy.stored = (struct rwd_fraction){2, 3};
    policy.served = (struct rwd_fraction){5, 1};
    policy.uptime = (struct rwd_fraction){0, 1};
    policy.weight_bps = 1;
    r = fix_calc(
        &(struct rwd_calc_input){.rows = sealed, .policy = &policy, .pool = ron_money_of(232)});
    rwd_result_payout(r, 0, &payout);
    assert_true(payout.score == 116 && payout.amount.v == 116);
    rwd_result_payout(r, 1, &payout);
    assert_true(payout.score == 116 && payout.amount.v == 116);
    rwd_result_free(r);
    rwd_rows_free(sealed);
}

static void test_calc__no_activity__leaves_the_pool(void **state)
{
    static const struct fix_row rows[] = {{"a", {0, 3, 0}}, {"b", {0, 0, 0}}};
    struct rwd_policy policy;

    (void)state;
    rwd_policy_default(&policy);
    for (int i = 0; i < 2; i++) {
        policy.rounding = i == 0 ? RWD_ROUND_FLOOR : RWD_ROUND_LARGEST_REMAINDER;
        assert_int_equal(EXPECT_NOBODY(rows, &policy, 50).idle_accounts, 2);
        expect(NULL, 0, &policy, 50, NULL, 0, 50);
        expect(NULL, 0, &policy, 0, NULL, 0, 0);
        EXPECT_NOBODY(rows, &policy, 0);
    }
}

static void test_calc__idle_account__is_counted_and_not_paid(void **state)
{
    static const struct fix_row rows[] = {{"a", {0, 3, 0}}, {"b", {5, 0, 0}}, {"c", {0, 0, 0}}};
    struct rwd_policy policy;

    (void)state;
    rwd_policy_default(&policy);
    policy.rounding = RWD_ROUND_LARGEST_REMAINDER;
    policy.min = RON_MONEY_ZERO; /* even so nobody is paid 0 */
    assert_int_equal(EXPECT(rows, &policy, 7, 0, {"b", 7}).idle_accounts, 2);
}

/* Remainders of 10 * {1,1,1} / 3: equal, so the unit goes to the lowest account. */
static void test_calc__equal_remainders__are_settled_by_account(void **state)
{
    static const struct fix_row rows[] = {{"c", {1, 0, 0}}, {"a", {1, 0, 0}}, {"b", {1, 0, 0}}};
    struct rwd_policy policy;

    (void)state;
    rwd_policy_default(&policy);
    policy.rounding = RWD_ROUND_LARGEST_REMAINDER;
    EXPECT(rows, &policy, 10, 0, {"a", 4}, {"b", 3}, {"c", 3});
    EXPECT(rows, &policy, 11, 0, {"a", 4}, {"b", 4}, {"c", 3});
    EXPECT(rows, &policy, 12, 0, {"a", 4}, {"b", 4}, {"c", 4});
    EXPECT(rows, &policy, 1, 0, {"a", 1});
}

static void test_calc__actor_cap__cuts_into_the_residual(void **state)
{
    static const struct fix_row rows[] = {{"a", {90, 0, 0}}, {"b", {10, 0, 0}}};
    struct rwd_policy policy;
    struct rwd_totals totals;

    (void)state;
    rwd_policy_default(&policy);
    policy.has_actor_cap = true;
    policy.actor_cap = ron_money_of(40);
    totals = EXPECT(rows, &policy, 100, 50, {"a", 40}, {"b", 10});
    assert_true(totals.capped.v == 50 && totals.dust.v == 0);
    policy.min = ron_money_of(11);
    totals = EXPECT(rows, &policy, 100, 60, {"a", 40});
    assert_true(totals.capped.v == 50 && totals.dust.v == 10);
    policy.actor_cap = RON_MONEY_ZERO;
    totals = EXPECT_NOBODY(rows, &policy, 100);
    assert_true(totals.capped.v == 100);
}

static void test_calc__category_above_its_cap__stands_alone(void **state)
{
    /* Shares of 1000: t:1/ 600, t:2/ 300, others 100. */
    static const struct fix_row rows[] = {{"a", {60, 0, 0}},
                                          {"t:1/x", {400, 0, 0}},
                                          {"t:1/y", {200, 0, 0}},
                                          {"t:2/z", {300, 0, 0}},
                                          {"z", {40, 0, 0}}};
    struct rwd_policy policy;
    struct rwd_totals totals;

    (void)state;
    rwd_policy_default(&policy);
    policy.category_count = 2;
    policy.categories[0] = (struct rwd_category){{"t:1/", 4}, {300}};
    policy.categories[1] = (struct rwd_category){{"t:2/", 4}, {300}};
    totals = EXPECT(rows, &policy, 1000, 300, {"a", 60}, {"t:1/x", 200}, {"t:1/y", 100},
                    {"t:2/z", 300}, {"z", 40});
    assert_true(totals.capped.v == 300);
    policy.categories[0].cap = ron_money_of(100);
    policy.categories[1].cap = RON_MONEY_ZERO;
    totals = EXPECT(rows, &policy, 1000, 801, {"a", 60}, {"t:1/x", 66}, {"t:1/y", 33}, {"z", 40});
    assert_true(totals.capped.v == 800);
    policy.rounding = RWD_ROUND_LARGEST_REMAINDER;
    EXPECT(rows, &policy, 1000, 800, {"a", 60}, {"t:1/x", 67}, {"t:1/y", 33}, {"z", 40});
}

/* Three rows of the category have the largest remainders: together they would be rounded up to 3,
 * above the cap of 2, were they not a group of their own. */
static void test_calc__rounding_up__does_not_pass_a_category_cap(void **state)
{
    static const struct fix_row rows[] = {
        {"a", {63, 0, 0}}, {"t/x", {9, 0, 0}}, {"t/y", {9, 0, 0}}, {"t/z", {9, 0, 0}}};
    struct rwd_policy policy;
    struct rwd_totals totals;

    (void)state;
    rwd_policy_default(&policy);
    policy.rounding = RWD_ROUND_LARGEST_REMAINDER;
    /* 9 units: a exactly 6.3, each of the others 0.9. */
    EXPECT(rows, &policy, 9, 0, {"a", 6}, {"t/x", 1}, {"t/y", 1}, {"t/z", 1});
    policy.category_count = 1;
    policy.categories[0] = (struct rwd_category){{"t/", 2}, {5}};
    EXPECT(rows, &policy, 9, 0, {"a", 6}, {"t/x", 1}, {"t/y", 1}, {"t/z", 1});
    policy.categories[0].cap = ron_money_of(2);
    totals = EXPECT(rows, &policy, 9, 1, {"a", 6}, {"t/x", 1}, {"t/y", 1});
    assert_true(totals.capped.v == 0);
}

static void test_calc__pool__is_the_least_of_offer_policy_and_curve(void **state)
{
    static const struct fix_row list[] = {{"a", {1, 0, 0}}};
    struct rwd_rows *rows = fix_rows(list, 1);
    struct rwd_policy policy;
    struct rwd_calc_input input = {.rows = rows,
                                   .policy = &policy,
                                   .pool = ron_money_of(70),
                                   .carry_in = ron_money_of(30),
                                   .produced_at_ms = 5000};
    static const struct {
        uint64_t max;
        uint64_t start_ms;
        uint64_t pool;
    } cases[] = {{1000, 5000, 64}, {1000, 4000, 32}, {20, 4000, 20}, {1000, 5001, 0}, {0, 0, 0}};

    (void)state;
    rwd_policy_default(&policy);
    for (size_t i = 0; i <= RON_ARRAY_LEN(cases); i++) {
        ron_u128 pool = 100;
        struct rwd_result *r;

        if (i > 0) {
            policy.emission = RWD_EMIT_HALVING;
            policy.emission_base = ron_money_of(64);
            policy.emission_epoch_ms = 500;
            policy.emission_period = 2;
            policy.emission_start_ms = cases[i - 1].start_ms;
            policy.max = ron_money_of(cases[i - 1].max);
            pool = cases[i - 1].pool;
        }
        r = fix_calc(&input);
        support_assert_u128_equal(fix_paid(r, "a"), pool);
        support_assert_u128_equal(rwd_result_totals(r)->pool.v, pool);
        support_assert_u128_equal(rwd_result_totals(r)->offered.v, 100);
        support_assert_u128_equal(rwd_result_totals(r)->cut.v, 100 - pool);
        rwd_result_free(r);
    }
    rwd_rows_free(rows);
}

static void expect_overflow(const struct rwd_calc_input *input)
{
    struct rwd_result *r = fix_calc(input);
    struct ron_err err = {0};

    assert_int_equal(rwd_result_breach(r), RWD_BREACH_OVERFLOW);
    assert_int_equal(rwd_calc_check(input, r, &err), RWD_BREACH_OVERFLOW);
    assert_non_null(strstr(err.msg, "overflow"));
    assert_int_equal(rwd_result_totals(r)->paid_accounts, 0);
    assert_true(rwd_result_totals(r)->paid.v == 0);
    rwd_result_free(r);
}

static void test_calc__sums_above_128_bits__are_an_overflow(void **state)
{
    /* 2^14 rows of nearly 2^115 are above 2^128. */
    enum { ROWS = 1 << 14 };
    struct rwd_rows *rows = NULL;
    struct rwd_policy policy;
    struct rwd_calc_input input = {.policy = &policy, .pool = RON_MONEY_MAX, .carry_in = {1}};

    (void)state;
    rwd_policy_default(&policy);
    assert_int_equal(rwd_rows_new(&(struct rwd_rows_opts){0}, &rows, NULL), RON_OK);
    for (int i = 0; i < ROWS; i++) {
        const struct rwd_counters most = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
        char name[16];
        int len = snprintf(name, sizeof name, "%06d", i);

        assert_int_equal(rwd_rows_add(rows, (struct ron_str){name, (size_t)len}, &most, NULL),
                         RON_OK);
    }
    assert_int_equal(rwd_rows_seal(rows, NULL), RON_OK);
    input.rows = rows;
    expect_overflow(&input); /* pool and carried sum */
    input.carry_in = RON_MONEY_ZERO;
    rwd_result_free(fix_calc(&input));
    policy.stored = policy.served = policy.uptime = (struct rwd_fraction){UINT64_C(1) << 32, 1};
    policy.weight_bps = 100000;
    expect_overflow(&input); /* scores */
    policy.category_count = 1;
    policy.categories[0] = (struct rwd_category){{"00", 2}, RON_MONEY_MAX};
    expect_overflow(&input); /* scores of a category and of the others: the sum of sums */
    policy.weight_bps = 10000;
    rwd_result_free(fix_calc(&input));
    rwd_rows_free(rows);
}

static void test_calc__cancelled__stops_without_a_result(void **state)
{
    static const struct fix_row list[] = {{"a", {1, 0, 0}}, {"b", {1, 0, 0}}};
    struct rwd_rows *rows = fix_rows(list, 2);
    struct rwd_policy policy;
    struct ron_au32 cancelled = {1};
    struct ron_au64 done = {0};
    struct rwd_calc_input input = {.rows = rows,
                                   .policy = &policy,
                                   .pool = ron_money_of(5),
                                   .cancelled = &cancelled,
                                   .done_rows = &done};
    struct rwd_result *r = NULL;
    struct ron_err err = {0};

    (void)state;
    rwd_policy_default(&policy);
    assert_int_equal(rwd_calc(&input, &r, &err), RON_CANCELLED);
    assert_null(r);
    assert_int_equal(ron_au64_load(&done), 0);
    ron_au32_store(&cancelled, 0);
    assert_int_equal(rwd_calc(&input, &r, &err), RON_OK);
    assert_int_equal(ron_au64_load(&done), 2);
    assert_int_equal(rwd_calc_check(&input, r, &err), RWD_BREACH_NONE);
    assert_int_equal(ron_au64_load(&done), 4);
    rwd_result_free(r);
    rwd_rows_free(rows);
}

static void test_calc__labels__are_those_of_the_seed(void **state)
{
    (void)state;
    assert_string_equal(rwd_breach_label(RWD_BREACH_NONE), "");
    assert_string_equal(rwd_breach_label(RWD_BREACH_CONSERVATION), "conservation");
    assert_string_equal(rwd_breach_label(RWD_BREACH_DUST_POLICY), "dust_policy");
    assert_string_equal(rwd_breach_label(RWD_BREACH_LEDGER_REFUSED), "ledger_refused");
}

static enum ron_rc sweep_calc(void *arg)
{
    static const struct fix_row list[] = {{"a", {1, 0, 0}}, {"b", {2, 0, 0}}};
    struct rwd_policy policy;
    struct rwd_rows *rows = NULL;
    struct rwd_result *r = NULL;
    enum ron_rc rc;

    (void)arg;
    rwd_policy_default(&policy);
    policy.rounding = RWD_ROUND_LARGEST_REMAINDER;
    rc = rwd_rows_new(&(struct rwd_rows_opts){0}, &rows, NULL);
    for (size_t i = 0; i < RON_ARRAY_LEN(list) && rc == RON_OK; i++) {
        rc = rwd_rows_add(rows, (struct ron_str){list[i].account, 1}, &list[i].counters, NULL);
    }
    if (rc == RON_OK) {
        rc = rwd_rows_seal(rows, NULL);
    }
    if (rc == RON_OK) {
        struct rwd_calc_input input = {.rows = rows, .policy = &policy, .pool = {10}};

        rc = rwd_calc(&input, &r, NULL);
    }
    rwd_result_free(r);
    rwd_rows_free(rows);
    return rc;
}
SUPPORT_FAULT_SWEEP(test_calc__memory_fails__nothing_leaks, sweep_calc)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calc__specification_vector__pays_356_and_643),
        cmocka_unit_test(test_calc__plain_thirds__floor_leaves_one),
        cmocka_unit_test(test_calc__pool_below_minimum__pays_nobody),
        cmocka_unit_test(test_calc__largest_pool__is_paid_exactly),
        cmocka_unit_test(test_calc__weights__change_scores_and_payouts),
        cmocka_unit_test(test_calc__no_activity__leaves_the_pool),
        cmocka_unit_test(test_calc__idle_account__is_counted_and_not_paid),
        cmocka_unit_test(test_calc__equal_remainders__are_settled_by_account),
        cmocka_unit_test(test_calc__actor_cap__cuts_into_the_residual),
        cmocka_unit_test(test_calc__category_above_its_cap__stands_alone),
        cmocka_unit_test(test_calc__rounding_up__does_not_pass_a_category_cap),
        cmocka_unit_test(test_calc__pool__is_the_least_of_offer_policy_and_curve),
        cmocka_unit_test(test_calc__sums_above_128_bits__are_an_overflow),
        cmocka_unit_test(test_calc__cancelled__stops_without_a_result),
        cmocka_unit_test(test_calc__labels__are_those_of_the_seed),
        cmocka_unit_test(test_calc__memory_fails__nothing_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
