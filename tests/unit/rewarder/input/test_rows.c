/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: rows come out sorted and unchanged whatever order they came in, an account that stands
 *   twice is named, limits hold and a million rows cost what the contract says.
 * Method: a plain array sorted by the C library is the oracle; names are made so that they share
 *   long beginnings, begin with each other and end on every boundary of the sort's pieces. */
#include "support/support.h"

#include "rewarder/input/rows.h"
#include "ron/base/alloc.h"

struct plain {
    char name[RWD_ACCOUNT_MAX + 1];
    struct rwd_counters counters;
};

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct plain *)a)->name, ((const struct plain *)b)->name);
}

static struct rwd_rows *new_rows(uint64_t rows_max, uint64_t bytes_max)
{
    struct rwd_rows_opts opts = {.rows_max = rows_max, .bytes_max = bytes_max};
    struct rwd_rows *rows = NULL;

    assert_int_equal(rwd_rows_new(&opts, &rows, NULL), RON_OK);
    return rows;
}

static void add(struct rwd_rows *rows, const char *name, uint64_t number)
{
    struct rwd_counters c = {number, number + 1, number + 2};

    assert_int_equal(rwd_rows_add(rows, str(name), &c, NULL), RON_OK);
}

/* A name of up to `max` bytes that is likely to share its beginning with others. */
static void draw_name(struct ron_rand *rand, size_t max, char *name)
{
    size_t len = 1 + ron_rand_below(rand, max);

    for (size_t i = 0; i < len; i++) {
        name[i] = ron_rand_chance(rand, 1, 8) ? "-/:Zz"[ron_rand_below(rand, 5)] : 'a';
    }
    name[len] = '\0';
}

static void check_against(const struct rwd_rows *rows, struct plain *plain, size_t n)
{
    qsort(plain, n, sizeof *plain, by_name);
    assert_int_equal(rwd_rows_count(rows), n);
    for (size_t i = 0; i < n; i++) {
        struct ron_str name = rwd_rows_account(rows, i);

        assert_int_equal(name.len, strlen(plain[i].name));
        assert_memory_equal(name.ptr, plain[i].name, name.len);
        assert_memory_equal(rwd_rows_counters(rows, i), &plain[i].counters,
                            sizeof plain[i].counters);
    }
}

/* Sorts and leaves one of each name; returns how many are left. */
static size_t make_unique(struct plain *plain, size_t n)
{
    size_t left = 0;

    qsort(plain, n, sizeof *plain, by_name);
    for (size_t i = 0; i < n; i++) {
        if (left == 0 || by_name(&plain[left - 1], &plain[i]) != 0) {
            plain[left++] = plain[i];
        }
    }
    return left;
}

static void shuffle(struct ron_rand *rand, struct plain *plain, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t other = ron_rand_below(rand, i);
        struct plain kept = plain[i - 1];

        plain[i - 1] = plain[other];
        plain[other] = kept;
    }
}

/* One random set of rows, and the same with one of them once more. */
static void sort_round(struct ron_rand *rand, struct plain *plain, size_t n, size_t max)
{
    for (size_t i = 0; i < n; i++) {
        draw_name(rand, max, plain[i].name);
        plain[i].counters =
            (struct rwd_counters){ron_rand_u64(rand), ron_rand_u64(rand), ron_rand_u64(rand)};
    }
    n = make_unique(plain, n);
    shuffle(rand, plain, n);
    for (int twice = 0; twice < 2; twice++) {
        struct rwd_rows *rows = new_rows(0, 0);

        for (size_t i = 0; i < n; i++) {
            assert_int_equal(rwd_rows_add(rows, str(plain[i].name), &plain[i].counters, NULL),
                             RON_OK);
        }
        if (twice == 1) {
            add(rows, plain[ron_rand_below(rand, n)].name, 1);
            assert_int_equal(rwd_rows_seal(rows, NULL), RON_EXISTS);
        } else {
            assert_int_equal(rwd_rows_seal(rows, NULL), RON_OK);
            check_against(rows, plain, n);
        }
        rwd_rows_free(rows);
    }
}

static void test_rows__random_names__sorted_like_the_oracle(void **state)
{
    enum { N_MAX = 6000 };
    struct ron_rand rand = support_rand();
    struct plain *plain = ron_alloc_array(N_MAX, sizeof *plain);

    (void)state;
    assert_non_null(plain);
    for (int round = 0; round < 300; round++) {
        size_t n = 1 + ron_rand_below(&rand, 60);
        size_t max = 1 + ron_rand_below(&rand, RWD_ACCOUNT_MAX);

        sort_round(&rand, plain, n, max);
    }
    for (int round = 0; round < 5; round++) {
        sort_round(&rand, plain, N_MAX, RWD_ACCOUNT_MAX);
    }
    ron_free(plain);
}

static void number_name(char *name, uint64_t number)
{
    (void)snprintf(name, 17, "acct_%011llu", (unsigned long long)number);
}

static void test_rows__any_order_of_many__sorted(void **state)
{
    enum { N = 50000 };
    static const uint64_t steps[] = {1, N - 1, 7, 12345 * 2 + 1}; /* prime to N, or -1 */

    (void)state;
    for (size_t s = 0; s < RON_ARRAY_LEN(steps); s++) {
        struct rwd_rows *rows = new_rows(0, 0);
        char name[17];

        for (uint64_t i = 0; i < N; i++) {
            uint64_t number = i * steps[s] % N;

            number_name(name, number);
            add(rows, name, number);
        }
        assert_int_equal(rwd_rows_seal(rows, NULL), RON_OK);
        for (uint64_t i = 0; i < N; i++) {
            number_name(name, i);
            assert_memory_equal(rwd_rows_account(rows, i).ptr, name, 16);
            assert_int_equal(rwd_rows_counters(rows, i)->bytes_stored, i);
            assert_int_equal(rwd_rows_counters(rows, i)->uptime_seconds, i + 2);
        }
        rwd_rows_free(rows);
    }
}

static void check_twice(const char *const *names, const char *expected)
{
    struct rwd_rows *rows = new_rows(0, 0);
    struct ron_err err = {0};
    char text[RWD_ACCOUNT_MAX + 40];

    for (uint64_t i = 0; names[i] != NULL; i++) {
        add(rows, names[i], i);
    }
    assert_int_equal(rwd_rows_seal(rows, &err), RON_EXISTS);
    (void)snprintf(text, sizeof text, "account %s stands twice", expected);
    assert_string_equal(err.msg, text);
    rwd_rows_free(rows);
}

static void test_rows__account_twice__smallest_is_named(void **state)
{
    char a[RWD_ACCOUNT_MAX + 1];

    (void)state;
    memset(a, 'a', RWD_ACCOUNT_MAX);
    a[RWD_ACCOUNT_MAX] = '\0';
    check_twice((const char *[]){"a", "a", NULL}, "a");
    check_twice((const char *[]){"abcd", "abcd", NULL}, "abcd");
    check_twice((const char *[]){"abcd", "abcde", "abcd", NULL}, "abcd");
    check_twice((const char *[]){"z", "y", "b", "z", "b", "y", NULL}, "b");
    check_twice((const char *[]){a, a + 1, a, NULL}, a);
    check_twice((const char *[]){"1", "2", "3", "4", "4", NULL}, "4");
}

static void test_rows__names_that_begin_with_each_other__shorter_first(void **state)
{
    struct rwd_rows *rows = new_rows(0, 0);
    char a[RWD_ACCOUNT_MAX + 1];

    (void)state;
    memset(a, 'a', sizeof a);
    for (uint64_t len = RWD_ACCOUNT_MAX; len > 0; len--) {
        struct rwd_counters c = {len, 0, 0};

        assert_int_equal(rwd_rows_add(rows, (struct ron_str){a, len}, &c, NULL), RON_OK);
    }
    assert_int_equal(rwd_rows_seal(rows, NULL), RON_OK);
    for (uint64_t i = 0; i < RWD_ACCOUNT_MAX; i++) {
        assert_int_equal(rwd_rows_account(rows, i).len, i + 1);
        assert_int_equal(rwd_rows_counters(rows, i)->bytes_stored, i + 1);
    }
    rwd_rows_free(rows);
}

static void test_rows__no_rows__sealed(void **state)
{
    struct rwd_rows *rows = NULL;

    (void)state;
    assert_int_equal(rwd_rows_new(NULL, &rows, NULL), RON_OK);
    assert_int_equal(rwd_rows_seal(rows, NULL), RON_OK);
    assert_int_equal(rwd_rows_count(rows), 0);
    assert_int_equal(rwd_rows_memory(rows), 0);
    rwd_rows_free(rows);
    rwd_rows_free(NULL);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void test_rows__rows_max__one_more_refused(void **state)
{
    struct rwd_rows *rows = new_rows(3, 0);
    struct rwd_counters c = {0};
    struct ron_err err = {0};

    (void)state;
    add(rows, "a", 1);
    add(rows, "c", 2);
    add(rows, "b", 3);
    assert_int_equal(rwd_rows_add(rows, str("d"), &c, &err), RON_LIMIT);
    assert_string_equal(err.msg, "there are more than 3 rows");
    assert_int_equal(rwd_rows_count(rows), 3);
    assert_int_equal(rwd_rows_seal(rows, NULL), RON_OK);
    assert_int_equal(rwd_rows_counters(rows, 1)->bytes_stored, 3);
    rwd_rows_free(rows);
}

/* Adds rows of 16-byte names in an order that has to be sorted; returns how many were taken. */
static uint64_t fill(struct rwd_rows *rows, uint64_t n, bool backwards)
{
    for (uint64_t i = 0; i < n; i++) {
        struct rwd_counters c = {i, i, i};
        enum ron_rc rc;
        char name[17];

        number_name(name, backwards ? n - i : i);
        rc = rwd_rows_add(rows, str(name), &c, NULL);
        if (rc != RON_OK) {
            assert_int_equal(rc, RON_LIMIT);
            return i;
        }
    }
    return n;
}

static void test_rows__bytes_max__holds_for_adding(void **state)
{
    enum { BYTES = 1000000 };
    struct rwd_rows *rows = new_rows(0, BYTES);
    uint64_t taken;

    (void)state;
    taken = fill(rows, 100000, false);
    assert_in_range(taken, BYTES / 60, BYTES / 48);
    assert_in_range(rwd_rows_memory(rows), BYTES / 2, BYTES);
    assert_int_equal(rwd_rows_count(rows), taken);
    assert_int_equal(rwd_rows_seal(rows, NULL), RON_OK);
    rwd_rows_free(rows);
}

static void test_rows__bytes_max__holds_for_sorting(void **state)
{
    struct rwd_rows *rows = new_rows(0, 0);
    uint64_t bytes;
    struct ron_err err = {0};

    (void)state;
    assert_int_equal(fill(rows, 10000, true), 10000);
    bytes = rwd_rows_memory(rows) + 10000 * 8;
    rwd_rows_free(rows);
    for (uint64_t less = 0; less < 2; less++) {
        rows = new_rows(0, bytes - less);
        assert_int_equal(fill(rows, 10000, true), 10000);
        assert_int_equal(rwd_rows_seal(rows, &err), less == 0 ? RON_OK : RON_LIMIT);
        rwd_rows_free(rows);
    }
}

/* Ten million rows of 16-byte names, sorting included, stay below 560 MiB: 58.7 bytes a row. */
static void test_rows__unsorted_names_of_16_bytes__58_bytes_a_row(void **state)
{
    enum { N = 200000 };
    struct rwd_rows *rows = new_rows(0, UINT64_C(587) * N / 10);

    (void)state;
    assert_int_equal(fill(rows, N, true), N);
    assert_int_equal(rwd_rows_seal(rows, NULL), RON_OK);
    rwd_rows_free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows__random_names__sorted_like_the_oracle),
        cmocka_unit_test(test_rows__any_order_of_many__sorted),
        cmocka_unit_test(test_rows__account_twice__smallest_is_named),
        cmocka_unit_test(test_rows__names_that_begin_with_each_other__shorter_first),
        cmocka_unit_test(test_rows__no_rows__sealed),
        cmocka_unit_test(test_rows__rows_max__one_more_refused),
        cmocka_unit_test(test_rows__bytes_max__holds_for_adding),
        cmocka_unit_test(test_rows__bytes_max__holds_for_sorting),
        cmocka_unit_test(test_rows__unsorted_names_of_16_bytes__58_bytes_a_row),
    };

    return cmocka_run_group_tests_name("rewarder.rows", tests, NULL, NULL);
}
