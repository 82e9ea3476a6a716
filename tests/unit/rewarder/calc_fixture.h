/* SPDX-License-Identifier: Apache-2.0 */
/* calc_fixture.h - rows, inputs and runs of the calculus for its tests. */
#pragma once

#include "support/support.h"

#include "rewarder/calc/priv.h"
#include "ron/base/alloc.h"

struct fix_row {
    const char *account;
    struct rwd_counters counters;
};

static inline struct rwd_rows *fix_rows(const struct fix_row *list, size_t count)
{
    struct rwd_rows *rows = NULL;

    assert_int_equal(rwd_rows_new(&(struct rwd_rows_opts){0}, &rows, NULL), RON_OK);
    for (size_t i = 0; i < count; i++) {
        struct ron_str account = {list[i].account, strlen(list[i].account)};

        assert_int_equal(rwd_rows_add(rows, account, &list[i].counters, NULL), RON_OK);
    }
    assert_int_equal(rwd_rows_seal(rows, NULL), RON_OK);
    return rows;
}

/* A calculation that must go well and pass its check (unless it says that it met a breach). */
static inline struct rwd_result *fix_calc(const struct rwd_calc_input *input)
{
    struct rwd_result *r = NULL;
    struct ron_err err = {0};
    enum rwd_breach breach;

    assert_int_equal(rwd_calc(input, &r, &err), RON_OK);
    breach = rwd_calc_check(input, r, &err);
    if (breach != rwd_result_breach(r)) {
        fail_msg("the check finds %s: %s", rwd_breach_label(breach), err.msg);
    }
    return r;
}

/* What an account is paid; 0 when it is not. */
static inline ron_u128 fix_paid(const struct rwd_result *r, const char *account)
{
    for (uint64_t k = 0; k < rwd_result_totals(r)->paid_accounts; k++) {
        struct rwd_payout payout;

        rwd_result_payout(r, k, &payout);
        if (ron_str_is(payout.account, account)) {
            return payout.amount.v;
        }
    }
    return 0;
}
