/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: quantiles are within the stated error of the exact ones, and merging loses nothing.
 * Method: the same values in a sorted array. */
#include "support/support.h"

#include "ron/base/macros.h"
#include "support/hist.h"

#define VALUES 5000

static struct ron_hist hist;
static struct ron_hist other;
static uint64_t values[VALUES];

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void test_hist__buckets__cover_every_value_without_gaps(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();

    assert_int_equal(ron_hist_bucket_of(0), 0);
    assert_int_equal(ron_hist_bucket_of(UINT64_MAX), RON_HIST_BUCKETS - 1);
    assert_true(ron_hist_bucket_last(RON_HIST_BUCKETS - 1) == UINT64_MAX);
    for (size_t i = 0; i < RON_HIST_BUCKETS; i++) {
        uint64_t last = ron_hist_bucket_last(i);

        assert_int_equal(ron_hist_bucket_of(last), i);
        if (i + 1 < RON_HIST_BUCKETS) {
            assert_int_equal(ron_hist_bucket_of(last + 1), i + 1);
        }
    }
    for (int i = 0; i < 50000; i++) {
        uint64_t value = support_rand_edgy_u64(&rand);
        uint64_t last = ron_hist_bucket_last(ron_hist_bucket_of(value));

        assert_true(last >= value && (last - value) <= value / 128);
    }
}

static void test_hist__quantiles__are_close_and_never_below(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();
    static const uint64_t parts[] = {0, 1, 500, 900, 990, 999, 1000};

    for (int round = 0; round < 20; round++) {
        size_t count = 1 + (size_t)ron_rand_below(&rand, VALUES);

        ron_hist_init(&hist);
        for (size_t i = 0; i < count; i++) {
            values[i] = support_rand_edgy_u64(&rand);
            ron_hist_record(&hist, values[i]);
        }
        qsort(values, count, sizeof(values[0]), by_value);
        assert_true(hist.min == values[0] && hist.max == values[count - 1]);
        for (size_t p = 0; p < RON_ARRAY_LEN(parts); p++) {
            uint64_t rank = (count * parts[p] + 999) / 1000;
            uint64_t exact = values[rank == 0 ? 0 : rank - 1];
            uint64_t got = ron_hist_quantile(&hist, parts[p], 1000);

            assert_true(got >= exact && got - exact <= exact / 128);
            assert_true(got <= hist.max);
        }
    }
}

static void test_hist__merge__equals_recording_all(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();
    static struct ron_hist both;

    ron_hist_init(&hist);
    ron_hist_init(&other);
    ron_hist_init(&both);
    ron_hist_merge(&hist, &other); /* empty into empty */
    assert_int_equal(ron_hist_quantile(&hist, 1, 2), 0);
    for (int i = 0; i < 3000; i++) {
        uint64_t value = support_rand_edgy_u64(&rand);
        uint64_t n = ron_rand_below(&rand, 4);

        ron_hist_record_n(i % 3 == 0 ? &hist : &other, value, n);
        for (uint64_t j = 0; j < n; j++) {
            ron_hist_record(&both, value);
        }
    }
    ron_hist_merge(&hist, &other);
    assert_memory_equal(&hist, &both, sizeof(hist));
    /* The extremes come from either side. */
    ron_hist_init(&hist);
    ron_hist_init(&other);
    ron_hist_record(&hist, 10);
    ron_hist_record(&other, 3);
    ron_hist_record(&other, 50);
    ron_hist_merge(&hist, &other);
    assert_int_equal(hist.min, 3);
    assert_int_equal(hist.max, 50);
}

static void test_hist__mean_and_empty__are_defined(void **state)
{
    (void)state;
    ron_hist_init(&hist);
    assert_int_equal(ron_hist_mean(&hist), 0);
    assert_int_equal(ron_hist_quantile(&hist, 99, 100), 0);
    ron_hist_record_n(&hist, 5, 0); /* nothing */
    assert_int_equal(hist.count, 0);
    assert_true(hist.min == UINT64_MAX);
    ron_hist_record_n(&hist, 10, 3);
    ron_hist_record(&hist, 21);
    assert_int_equal(ron_hist_mean(&hist), 12);
    ron_hist_record(&hist, UINT64_MAX);
    ron_hist_record(&hist, UINT64_MAX); /* the sum has more than 64 bits */
    assert_true(ron_hist_mean(&hist) > UINT64_MAX / 3 - 1 && ron_hist_mean(&hist) < UINT64_MAX / 2);
    assert_true(ron_hist_quantile(&hist, 1, 1) == UINT64_MAX);
    assert_int_equal(ron_hist_quantile(&hist, 1, 2), 10);
}

static void quantile_above_one(void *arg)
{
    (void)ron_hist_quantile(arg, 2, 1);
}

static void test_hist__wrong_use__is_caught(void **state)
{
    (void)state;
    support_death(quantile_above_one, &hist, "num <= den");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hist__buckets__cover_every_value_without_gaps),
        cmocka_unit_test(test_hist__quantiles__are_close_and_never_below),
        cmocka_unit_test(test_hist__merge__equals_recording_all),
        cmocka_unit_test(test_hist__mean_and_empty__are_defined),
        cmocka_unit_test(test_hist__wrong_use__is_caught),
    };

    return cmocka_run_group_tests_name("base.hist", tests, NULL, NULL);
}
