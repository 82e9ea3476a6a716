/* SPDX-License-Identifier: Apache-2.0 */
/* test_retry.c - curves of waits, and the verdict after each try.
 *
 * Goal: each listed curve gives the waits that its specification states; only idempotent operations
 *   are tried again, never after a 4xx, never past the deadline, never more often than allowed.
 * Method: bounds written out by hand per curve; then random curves against the formula in plain
 *   arithmetic, and random calls against the rules.
 */
#include "unit/guard/fixture.h"

#include "ron/guard/retry.h"

static void test_curves__as_specified__waits_fill_their_ranges(void **state)
{
    static const struct {
        enum ron_retry_curve_id id;
        uint32_t tries;
        uint64_t range_ms[4][2]; /* of the waits, also of those after the last try */
    } want[] = {
        {RON_RETRY_WALLET, 3, {{50, 70}, {100, 120}, {200, 220}, {400, 420}}},
        {RON_RETRY_EDGE, 3, {{50, 100}, {100, 150}, {200, 250}, {400, 450}}},
        {RON_RETRY_REWARDER, 3, {{100, 250}, {100, 250}, {100, 250}, {100, 250}}},
        {RON_RETRY_INTEROP, 3, {{50, 100}, {200, 400}, {800, 1600}, {2000, 2000}}},
        {RON_RETRY_LEDGER_KMS, 3, {{50, 75}, {100, 150}, {200, 250}, {250, 250}}},
        {RON_RETRY_LEDGER_POLICY, 2, {{50, 75}, {100, 150}, {150, 150}, {150, 150}}},
        {RON_RETRY_LEDGER_WALLET, 2, {{50, 75}, {100, 150}, {150, 150}, {150, 150}}},
    };
    struct ron_rand rand = support_rand();

    (void)state;
    assert_int_equal(RON_ARRAY_LEN(want), RON_RETRY_CURVE_COUNT);
    for (size_t i = 0; i < RON_ARRAY_LEN(want); i++) {
        const struct ron_retry_curve *curve = ron_retry_curve(want[i].id);

        assert_true(ron_retry_curve_valid(curve));
        assert_int_equal(curve->tries_max, want[i].tries);
        for (uint32_t n = 0; n < 4; n++) {
            uint64_t lo = want[i].range_ms[n][0] * RON_NS_PER_MS;
            uint64_t hi = want[i].range_ms[n][1] * RON_NS_PER_MS;
            uint64_t least = UINT64_MAX;
            uint64_t most = 0;

            for (int k = 0; k < 2000; k++) {
                uint64_t wait_ns = ron_retry_wait_ns(curve, n, &rand);

                assert_in_range(wait_ns, lo, hi);
                least = wait_ns < least ? wait_ns : least;
                most = wait_ns > most ? wait_ns : most;
            }
            /* Jitter uses the whole range: the chance to miss a twentieth of it is below 1e-40. */
            assert_true(least <= lo + (hi - lo) / 20);
            assert_true(most >= hi - (hi - lo) / 20);
        }
    }
    assert_in_range(ron_retry_wait_ns(ron_retry_curve(RON_RETRY_WALLET), UINT32_MAX, &rand),
                    1000 * RON_NS_PER_MS, 1020 * RON_NS_PER_MS);
    assert_in_range(ron_retry_wait_ns(ron_retry_curve(RON_RETRY_EDGE), 9, &rand),
                    800 * RON_NS_PER_MS, 850 * RON_NS_PER_MS);
}

static void test_curve__random_numbers__as_the_formula(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct ron_retry_curve c = {.tries_max = 3,
                                    .first_ms = (uint32_t)ron_rand_below(&rand, 2000),
                                    .factor = (uint32_t)ron_rand_range(&rand, 1, 5),
                                    .base_max_ms = (uint32_t)ron_rand_below(&rand, 5000),
                                    .jitter_ms = (uint32_t)ron_rand_below(&rand, 300),
                                    .jitter_pct = (uint32_t)ron_rand_range(&rand, 0, 100),
                                    .wait_max_ms = (uint32_t)ron_rand_below(&rand, 3000)};
        uint32_t n = (uint32_t)ron_rand_below(&rand, 12);
        uint64_t base_ms = c.first_ms;
        uint64_t lo;
        uint64_t hi;

        for (uint32_t k = 0; k < n; k++) {
            base_ms *= c.factor;
        }
        base_ms = base_ms < c.base_max_ms ? base_ms : c.base_max_ms;
        lo = base_ms * RON_NS_PER_MS;
        hi = lo + c.jitter_ms * RON_NS_PER_MS + lo * c.jitter_pct / 100;
        if (c.wait_max_ms != 0) {
            lo = RON_MIN(lo, c.wait_max_ms * RON_NS_PER_MS);
            hi = RON_MIN(hi, c.wait_max_ms * RON_NS_PER_MS);
        }
        assert_in_range(ron_retry_wait_ns(&c, n, &rand), lo, hi);
    }
}

static void test_curve__bad_numbers__are_not_valid(void **state)
{
    struct ron_retry_curve good = *ron_retry_curve(RON_RETRY_EDGE);
    struct ron_retry_curve c;

    (void)state;
#define BAD(field, x)                                                                              \
    do {                                                                                           \
        c = good;                                                                                  \
        c.field = (x);                                                                             \
        assert_false(ron_retry_curve_valid(&c));                                                   \
    } while (0)
    BAD(tries_max, 0);
    BAD(factor, 0);
    BAD(jitter_pct, 101);
    BAD(first_ms, 3600001);
    BAD(base_max_ms, 3600001);
    BAD(jitter_ms, 3600001);
    BAD(wait_max_ms, 3600001);
#undef BAD
}

static struct ron_retry retry_make(enum ron_retry_curve_id id, struct ron_rand *rand)
{
    return (struct ron_retry){.curve = ron_retry_curve(id),
                              .rand = rand,
                              .deadline = ron_deadline_never(),
                              .idempotent = true};
}

static enum ron_retry_verdict after(struct ron_retry r, enum ron_rc rc, int status)
{
    uint64_t wait_ns = 0;

    return ron_retry_next(&r, &(struct ron_attempt){.rc = rc, .status = status}, 1, &wait_ns);
}

static void test_verdict__every_status__as_the_rules_say(void **state)
{
    struct ron_rand rand = support_rand();
    struct ron_retry any = retry_make(RON_RETRY_WALLET, &rand);
    struct ron_retry edge = retry_make(RON_RETRY_EDGE, &rand);
    struct ron_retry unsafe = any;

    (void)state;
    unsafe.idempotent = false;
    for (int status = 100; status < 600; status++) {
        bool gateway = status == 503 || status == 504;
        enum ron_retry_verdict failed = status < 400 ? RON_VERDICT_DONE : RON_VERDICT_FINAL;

        assert_int_equal(after(any, RON_OK, status), status >= 500 ? RON_VERDICT_AGAIN : failed);
        assert_int_equal(after(edge, RON_OK, status), gateway ? RON_VERDICT_AGAIN : failed);
        assert_int_equal(after(unsafe, RON_OK, status),
                         status >= 500 ? RON_VERDICT_UNSAFE : failed);
    }
    assert_int_equal(after(any, RON_OK, 0), RON_VERDICT_DONE);
}

static void test_verdict__every_code__as_the_rules_say(void **state)
{
    static const enum ron_rc again[] = {RON_AGAIN, RON_CLOSED, RON_TIMEOUT, RON_IO, RON_NOMEM};
    struct ron_rand rand = support_rand();
    struct ron_retry r = retry_make(RON_RETRY_EDGE, &rand);

    (void)state;
#define X(name, value, class, http, doc)                                                           \
    if (RON_##name != RON_OK) {                                                                    \
        bool transient = false;                                                                    \
                                                                                                   \
        for (size_t i = 0; i < RON_ARRAY_LEN(again); i++) {                                        \
            transient = transient || again[i] == RON_##name;                                       \
        }                                                                                          \
        assert_int_equal(after(r, RON_##name, 0),                                                  \
                         transient ? RON_VERDICT_AGAIN : RON_VERDICT_FINAL);                       \
    }
    RON_RC_TABLE(X)
#undef X
}

static void test_verdict__tries_used_up__spent(void **state)
{
    struct ron_rand rand = support_rand();
    struct ron_retry_stats stats = {0};
    struct ron_retry r = retry_make(RON_RETRY_INTEROP, &rand);
    struct ron_attempt timeout = {.rc = RON_TIMEOUT};
    uint64_t wait_ns = 0;

    (void)state;
    r.stats = &stats;
    assert_int_equal(ron_retry_next(&r, &timeout, 0, &wait_ns), RON_VERDICT_AGAIN);
    assert_in_range(wait_ns, 50 * RON_NS_PER_MS, 100 * RON_NS_PER_MS);
    assert_int_equal(ron_retry_next(&r, &timeout, 0, &wait_ns), RON_VERDICT_AGAIN);
    assert_in_range(wait_ns, 200 * RON_NS_PER_MS, 400 * RON_NS_PER_MS);
    wait_ns = 5;
    assert_int_equal(ron_retry_next(&r, &timeout, 0, &wait_ns), RON_VERDICT_SPENT);
    assert_int_equal(wait_ns, 5);
    assert_int_equal(ron_stat_get(&stats.backoff_retries_total[RON_VERDICT_AGAIN]), 2);
    assert_int_equal(ron_stat_get(&stats.backoff_retries_total[RON_VERDICT_SPENT]), 1);
    assert_string_equal(ron_retry_verdict_label(RON_VERDICT_SPENT), "exhausted");
}

static void test_verdict__deadline_or_retry_after__are_honoured(void **state)
{
    struct ron_rand rand = support_rand();
    struct ron_retry r = retry_make(RON_RETRY_REWARDER, &rand);
    struct ron_attempt busy = {.status = 503, .retry_after_ms = 700};
    uint64_t wait_ns = 0;

    (void)state;
    assert_int_equal(ron_retry_next(&r, &busy, 0, &wait_ns), RON_VERDICT_AGAIN);
    assert_int_equal(wait_ns, 700 * RON_NS_PER_MS);
    r.deadline = ron_deadline_after_ms(0, 700);
    assert_int_equal(ron_retry_next(&r, &busy, 0, &wait_ns), RON_VERDICT_LATE);
    r.tries = 0;
    r.deadline = ron_deadline_after_ns(0, 700 * RON_NS_PER_MS + 1);
    assert_int_equal(ron_retry_next(&r, &busy, 0, &wait_ns), RON_VERDICT_AGAIN);
    busy.retry_after_ms = UINT64_MAX;
    assert_int_equal(ron_retry_next(&r, &busy, 0, &wait_ns), RON_VERDICT_LATE);
}

static void test_call__random_deadlines__ends_in_time_and_in_number(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < 5000; i++) {
        struct ron_retry r = retry_make(
            (enum ron_retry_curve_id)ron_rand_below(&rand, RON_RETRY_CURVE_COUNT), &rand);
        uint64_t now_ns = ron_rand_below(&rand, RON_NS_PER_S);
        enum ron_retry_verdict verdict;
        uint64_t wait_ns = 0;

        r.deadline = ron_deadline_after_ms(now_ns, ron_rand_below(&rand, 800));
        do {
            now_ns += wait_ns;
            assert_true(r.tries == 0 || !ron_deadline_expired(r.deadline, now_ns));
            now_ns += ron_rand_below(&rand, 100 * RON_NS_PER_MS); /* the try itself */
            verdict =
                ron_retry_next(&r, &(struct ron_attempt){.rc = RON_TIMEOUT}, now_ns, &wait_ns);
        } while (verdict == RON_VERDICT_AGAIN);
        assert_true(verdict == RON_VERDICT_LATE || verdict == RON_VERDICT_SPENT);
        assert_true(r.tries <= r.curve->tries_max);
        assert_true(verdict != RON_VERDICT_SPENT || r.tries == r.curve->tries_max);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_curves__as_specified__waits_fill_their_ranges),
        cmocka_unit_test(test_curve__random_numbers__as_the_formula),
        cmocka_unit_test(test_curve__bad_numbers__are_not_valid),
        cmocka_unit_test(test_verdict__every_status__as_the_rules_say),
        cmocka_unit_test(test_verdict__every_code__as_the_rules_say),
        cmocka_unit_test(test_verdict__tries_used_up__spent),
        cmocka_unit_test(test_verdict__deadline_or_retry_after__are_honoured),
        cmocka_unit_test(test_call__random_deadlines__ends_in_time_and_in_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
