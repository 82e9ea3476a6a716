/* SPDX-License-Identifier: Apache-2.0 */
/* test_guard_faults.c - every allocation of guard fails once, in turn.
 *
 * Goal: whatever fails while a limiter or a table of flights is made, the caller gets RON_NOMEM
 *   with a message and nothing leaks; after that nothing of guard allocates.
 * Method: the sweep of tests/support; a case is a whole life with some work in it.
 */
#include "support/support.h"

#include "ron/base/assert.h"
#include "ron/guard/flight.h"
#include "ron/guard/limiter.h"

static uint64_t still(void *ctx)
{
    (void)ctx;
    return 1;
}

static uint64_t plain_rand(const struct ron_env *env)
{
    (void)env;
    return 42;
}

static const struct ron_env env = {.clock = {still, still, NULL}, .rand_u64 = plain_rand};

static enum ron_rc limiter_life(void *arg)
{
    struct ron_limiter_opts opts = {.env = &env, .rate = {500, 1}, .clients_max = 32};
    struct ron_limiter *l = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = ron_limiter_new(&opts, &l, &err);

    (void)arg;
    if (rc != RON_OK) {
        RON_ASSERT(l == NULL);
        RON_ASSERT(err.rc == rc);
        return rc;
    }
    for (uint32_t i = 0; i < 100; i++) {
        RON_IGNORE(ron_limiter_take(l, &i, sizeof i, NULL)); /* admitted or refused, both fine */
    }
    ron_limiter_free(l);
    return RON_OK;
}

static void no_drop(void *value)
{
    (void)value;
}

static enum ron_rc flights_life(void *arg)
{
    struct ron_flights_opts opts = {.env = &env, .flights_max = 8, .drop_value = no_drop};
    struct ron_flights *f = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = ron_flights_new(&opts, &f, &err);

    (void)arg;
    if (rc != RON_OK) {
        RON_ASSERT(f == NULL);
        RON_ASSERT(err.rc == rc);
        return rc;
    }
    for (int i = 0; i < 20; i++) {
        struct ron_flight_ticket t;
        enum ron_flight_role role;

        rc = ron_flight_join(f, "key", 3, &t, &role);
        RON_ASSERT(rc == RON_OK);
        ron_flight_finish(&t, f);
        ron_flight_leave(&t);
    }
    ron_flights_free(f);
    return RON_OK;
}

SUPPORT_FAULT_SWEEP(test_guard_faults__limiter__clean_error_and_no_leak, limiter_life)
SUPPORT_FAULT_SWEEP(test_guard_faults__flights__clean_error_and_no_leak, flights_life)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard_faults__limiter__clean_error_and_no_leak),
        cmocka_unit_test(test_guard_faults__flights__clean_error_and_no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
