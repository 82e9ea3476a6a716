/* SPDX-License-Identifier: Apache-2.0 */
/* bench_rewarder.c - the rewarder's calculus, rows per second on one core.
 *
 *   bench_rewarder [calc [ROWS]]    a table: each kind of policy, the calculation and its check
 *   bench_rewarder count KIND ROWS  one calculation, for counting instructions; KIND `rows` only
 *                                   makes the rows, which every other does too */
#include "bench/bench.h"

#include "rewarder/calc/calc.h"
#include "ron/base/rand.h"

enum { ROWS_DEFAULT = 1000000 };

/* X(NAME, "name", "what") */
#define KINDS(X)                                                                                   \
    X(FLOOR, "floor", "floor, weights 1, 1/4, 1, a pool below 2^64")                               \
    X(WIDE, "wide", "the same, a pool near 2^128: 256-bit products")                               \
    X(THIRDS, "thirds", "weights 1/3, 2/7, 5/9: true divisions")                                   \
    X(CATEGORIES, "categories", "64 categories, half of them capped")                              \
    X(LARGEST, "largest", "largest remainder")                                                     \
    X(CHECK, "check", "the check of a result of `floor`")                                          \
    X(CHECK_LARGEST, "check-largest", "the check of a result of `largest`")

enum kind {
#define X(name, text, what) KIND_##name,
    KINDS(X)
#undef X
        KIND_COUNT
};
static const char *const names[] = {
#define X(name, text, what) text,
    KINDS(X)
#undef X
};
static const char *const meanings[] = {
#define X(name, text, what) what,
    KINDS(X)
#undef X
};

static struct rwd_rows *make_rows(uint64_t count)
{
    struct rwd_rows *rows = NULL;
    struct ron_rand rand;

    ron_rand_seed(&rand, 1);
    BENCH_OK(rwd_rows_new(NULL, &rows, NULL));
    for (uint64_t i = 0; i < count; i++) {
        const struct rwd_counters c = {ron_rand_below(&rand, UINT64_C(1) << 40),
                                       ron_rand_below(&rand, UINT64_C(1) << 36),
                                       ron_rand_below(&rand, 3600)};
        char name[32];
        int len = snprintf(name, sizeof name, "t:%02llu/svc:%010llu",
                           (unsigned long long)(i * 64 / count), (unsigned long long)i);

        BENCH_OK(rwd_rows_add(rows, (struct ron_str){name, (size_t)len}, &c, NULL));
    }
    BENCH_OK(rwd_rows_seal(rows, NULL));
    return rows;
}

static void set_categories(struct rwd_policy *p, char prefixes[RWD_CATEGORIES_MAX][8])
{
    for (uint32_t i = 0; i < RWD_CATEGORIES_MAX; i++) {
        int len = snprintf(prefixes[i], sizeof prefixes[i], "t:%02u/", i % 100);

        p->categories[i] = (struct rwd_category){{prefixes[i], (size_t)len},
                                                 i % 2 == 0 ? RON_MONEY_MAX : ron_money_of(1000)};
    }
    p->category_count = RWD_CATEGORIES_MAX;
}

/* Runs one kind once; the time is that of the part it names. */
static uint64_t run(enum kind kind, const struct rwd_rows *rows)
{
    char prefixes[RWD_CATEGORIES_MAX][8];
    struct rwd_policy p;
    struct rwd_calc_input input = {
        .rows = rows, .policy = &p, .pool = ron_money_of(UINT64_C(987654321987654321))};
    struct rwd_result *r = NULL;
    uint64_t begin_ns;
    uint64_t end_ns;

    rwd_policy_default(&p);
    if (kind == KIND_WIDE) {
        input.pool.v = RON_U128_MAX - 12345;
    } else if (kind == KIND_THIRDS) {
        p.stored = (struct rwd_fraction){1, 3};
        p.served = (struct rwd_fraction){2, 7};
        p.uptime = (struct rwd_fraction){5, 9};
    } else if (kind == KIND_CATEGORIES) {
        set_categories(&p, prefixes);
    } else if (kind == KIND_LARGEST || kind == KIND_CHECK_LARGEST) {
        p.rounding = RWD_ROUND_LARGEST_REMAINDER;
    }
    begin_ns = bench_now_ns();
    BENCH_OK(rwd_calc(&input, &r, NULL));
    end_ns = bench_now_ns();
    BENCH_TRUE(rwd_result_totals(r)->paid_accounts > 0);
    if (kind == KIND_CHECK || kind == KIND_CHECK_LARGEST) {
        begin_ns = bench_now_ns();
        BENCH_TRUE(rwd_calc_check(&input, r, NULL) == RWD_BREACH_NONE);
        end_ns = bench_now_ns();
    }
    rwd_result_free(r);
    return end_ns - begin_ns;
}

static int calc_table(uint64_t count)
{
    struct rwd_rows *rows = make_rows(count);
    struct bench_noise noise = bench_noise_now();
    struct bench_series series[KIND_COUNT] = {0};

    for (size_t rep = 0; rep <= bench_reps(); rep++) {
        for (int k = 0; k < KIND_COUNT; k++) {
            uint64_t ns = run((enum kind)k, rows);

            if (rep > 0) {
                bench_add(&series[k], (double)count * 1000.0 / (double)ns);
            }
        }
    }
    printf("Calculus, %llu rows, one core, million rows per second:\n\n",
           (unsigned long long)count);
    printf("| policy | M rows/s | aim |\n|---|---|---|\n");
    for (int k = 0; k < KIND_COUNT; k++) {
        bool has_aim = k != KIND_CHECK && k != KIND_CHECK_LARGEST;

        printf("| %s | %s | %s |\n", meanings[k], bench_span(&series[k], 1).s,
               has_aim ? bench_verdict(bench_median(&series[k]) >= 10.0) : "");
    }
    printf("\nAim: 10 M rows/s.\n");
    bench_noise_print(noise);
    rwd_rows_free(rows);
    return 0;
}

static int count_one(const char *name, uint64_t count)
{
    bool rows_alone = strcmp(name, "rows") == 0;
    int k = 0;

    while (!rows_alone && k < KIND_COUNT && strcmp(name, names[k]) != 0) {
        k++;
    }
    if (k == KIND_COUNT) {
        (void)fprintf(stderr, "no kind of calculation is called %s\n", name);
        return 2;
    }
    struct rwd_rows *rows = make_rows(count);

    if (!rows_alone) {
        (void)run((enum kind)k, rows);
    }
    rwd_rows_free(rows);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 1 || (argc <= 3 && strcmp(argv[1], "calc") == 0)) {
        return calc_table(argc == 3 ? strtoull(argv[2], NULL, 10) : ROWS_DEFAULT);
    }
    if (argc == 4 && strcmp(argv[1], "count") == 0) {
        return count_one(argv[2], strtoull(argv[3], NULL, 10));
    }
    (void)fprintf(stderr, "usage: bench_rewarder [calc [ROWS]] | count KIND ROWS\n");
    return 2;
}
