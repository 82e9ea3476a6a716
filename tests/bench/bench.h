/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - how the benchmarks measure: clocks, repetitions, medians with their spread, tables.
 *
 * Place: included by every tests/bench/bench_*.c; each is one program, so the functions are inline.
 *
 * Method:
 *   1. Everything to be compared runs once in each repetition, one after the other, so that a noisy
 *      neighbour or a clock change hits all of them.
 *   2. A figure is the median over the repetitions, printed with its smallest and largest value.
 *   3. A ratio is taken inside one repetition; the median of the ratios is printed.
 *   4. The first repetition only warms up and is thrown away.
 * A failure of the thing that is measured ends the program: a figure of a broken run is worse than
 * none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "ron/base/macros.h"
#include "ron/base/rc.h"

enum {
    BENCH_REPS_MAX = 101,
    BENCH_REPS_DEFAULT = 11, /* enough for a median; RON_BENCH_REPS asks for another number */
    BENCH_SPAN_SIZE = 64,
};

/* Ends the program when a call of the thing that is measured fails. */
#define BENCH_OK(expr)                                                                             \
    do {                                                                                           \
        enum ron_rc bench_rc_ = (expr);                                                            \
        if (RON_UNLIKELY(bench_rc_ != RON_OK)) {                                                   \
            bench_fail(__FILE__, __LINE__, #expr, ron_rc_name(bench_rc_));                         \
        }                                                                                          \
    } while (0)

#define BENCH_TRUE(cond)                                                                           \
    do {                                                                                           \
        if (RON_UNLIKELY(!(cond))) {                                                               \
            bench_fail(__FILE__, __LINE__, #cond, "false");                                        \
        }                                                                                          \
    } while (0)

__attribute__((noreturn, cold)) static inline void bench_fail(const char *file, int line,
                                                              const char *what, const char *result)
{
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, result);
    exit(1);
}

/* ---- clocks ---------------------------------------------------------------------------------- */

static inline uint64_t bench_clock_ns(clockid_t clock)
{
    struct timespec ts;

    BENCH_TRUE(clock_gettime(clock, &ts) == 0);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t bench_now_ns(void)
{
    return bench_clock_ns(CLOCK_MONOTONIC);
}

/* Processor time of all threads of this process. */
static inline uint64_t bench_cpu_ns(void)
{
    return bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* Times that a thread of this process went to sleep by itself. */
static inline uint64_t bench_sleeps(void)
{
    struct rusage usage;

    BENCH_TRUE(getrusage(RUSAGE_SELF, &usage) == 0);
    return (uint64_t)usage.ru_nvcsw;
}

/* Work of about this length. */
static inline void bench_spin_ns(uint64_t ns)
{
    uint64_t end = bench_now_ns() + ns;

    while (bench_now_ns() < end) {
    }
}

/* Makes the compiler believe that the value is used and may have changed. */
#define BENCH_KEEP(lvalue) __asm__ volatile("" : "+g"(lvalue) : : "memory")

/* ---- noise ----------------------------------------------------------------------------------- */

/* Who else used the machine: read at the start and printed at the end of a program. */
struct bench_noise {
    uint64_t wall_ns;
    uint64_t own_ns;
    uint64_t busy_ns;   /* all processes, this one included */
    uint64_t stolen_ns; /* withheld by the host of a virtual machine */
};

static inline struct bench_noise bench_noise_now(void)
{
    struct bench_noise n = {.wall_ns = bench_now_ns(), .own_ns = bench_cpu_ns()};
    uint64_t tick_ns = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
    /* cpu user nice system idle iowait irq softirq steal */
    unsigned long long t[8] = {0};
    FILE *file = fopen("/proc/stat", "re");

    if (file != NULL) {
        if (fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
                   &t[4], &t[5], &t[6], &t[7]) == 8) {
            n.busy_ns = (t[0] + t[1] + t[2] + t[5] + t[6]) * tick_ns;
            n.stolen_ns = t[7] * tick_ns;
        }
        (void)fclose(file);
    }
    return n;
}

static inline void bench_noise_print(struct bench_noise before)
{
    struct bench_noise now = bench_noise_now();
    double wall = (double)(now.wall_ns - before.wall_ns);
    double others = (double)(now.busy_ns - before.busy_ns) - (double)(now.own_ns - before.own_ns);

    printf("Meanwhile other processes used %.2f of %ld cores; the host withheld %.2f.\n\n",
           RON_MAX(others, 0.0) / wall, sysconf(_SC_NPROCESSORS_ONLN),
           (double)(now.stolen_ns - before.stolen_ns) / wall);
}

/* ---- repetitions ----------------------------------------------------------------------------- */

static inline size_t bench_reps(void)
{
    const char *text = getenv("RON_BENCH_REPS");
    char *end = NULL;
    unsigned long reps = text != NULL ? strtoul(text, &end, 10) : BENCH_REPS_DEFAULT;

    if (text != NULL && (*text == '\0' || *end != '\0' || reps < 1 || reps > BENCH_REPS_MAX)) {
        (void)fprintf(stderr, "RON_BENCH_REPS must be a number from 1 to %d, not '%s'\n",
                      (int)BENCH_REPS_MAX, text);
        exit(2);
    }
    return (size_t)reps;
}

/* One figure of one variant, a value per repetition. */
struct bench_series {
    double v[BENCH_REPS_MAX];
    size_t n;
};

static inline void bench_add(struct bench_series *s, double value)
{
    BENCH_TRUE(s->n < BENCH_REPS_MAX);
    s->v[s->n++] = value;
}

static inline int bench_cmp_double(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;

    return (*x > *y) - (*x < *y);
}

/* The value below which `share` of the n values lie (nearest rank). Sorts them. */
static inline double bench_rank(double *values, size_t n, double share)
{
    BENCH_TRUE(n > 0);
    qsort(values, n, sizeof *values, bench_cmp_double);
    return values[(size_t)((double)(n - 1) * share + 0.5)];
}

static inline double bench_median(const struct bench_series *s)
{
    struct bench_series sorted = *s;

    return bench_rank(sorted.v, sorted.n, 0.5);
}

/* Median of a[i] / b[i]: each ratio inside one repetition. */
static inline double bench_ratio(const struct bench_series *a, const struct bench_series *b)
{
    struct bench_series r = {.n = a->n};

    BENCH_TRUE(a->n == b->n);
    for (size_t i = 0; i < a->n; i++) {
        BENCH_TRUE(b->v[i] > 0);
        r.v[i] = a->v[i] / b->v[i];
    }
    return bench_median(&r);
}

struct bench_text {
    char s[BENCH_SPAN_SIZE];
};

/* "median (min..max)", with as many decimals as asked for. */
static inline struct bench_text bench_span(const struct bench_series *s, int decimals)
{
    struct bench_series sorted = *s;
    double median = bench_rank(sorted.v, sorted.n, 0.5);
    struct bench_text text;

    (void)snprintf(text.s, sizeof text.s, "%.*f (%.*f..%.*f)", decimals, median, decimals,
                   sorted.v[0], decimals, sorted.v[sorted.n - 1]);
    return text;
}

/* "met" or "missed", for a figure with a stated aim. */
static inline const char *bench_verdict(bool good)
{
    return good ? "met" : "missed";
}
