/* SPDX-License-Identifier: Apache-2.0 */
/* support.h - what the tests share: cmocka, seeds, death tests and the fault sweep.
 *
 * Include it first and alone in a test file; it brings cmocka.h and what that header needs.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ron/base/fault.h"
#include "ron/base/rand.h"
#include "ron/base/rc.h"
#include "ron/base/wide.h"
#include "support/rand.h"

/* Seeds ---------------------------------------------------------------------------------------- */

/* The seed of this run: RON_SEED when it is set (decimal or 0x hexadecimal; anything else ends the
 * program with code 2), otherwise a new one. Printed once, so that a failure can be repeated. */
uint64_t support_seed(void);

/* A generator that starts at the seed. Every call gives the same sequence, so a test behaves the
 * same whether it runs alone or after others. */
struct ron_rand support_rand(void);

/* A number whose length in bits is uniform, with runs of ones and zeros: finds the edges that plain
 * random numbers almost never hit. */
uint64_t support_rand_edgy_u64(struct ron_rand *rand);
ron_u128 support_rand_edgy_u128(struct ron_rand *rand);

/* Fails the test unless both are equal, printing them. */
#define support_assert_u128_equal(a, b) support_check_u128((a), (b), __FILE__, __LINE__)
void support_check_u128(ron_u128 a, ron_u128 b, const char *file, int line);

/* Corpora -------------------------------------------------------------------------------------- */

/* The path of a public corpus below the folder that RON_CORPORA names (tests/README.md). Never
 * fails; the caller checks whether it exists. */
void support_corpus(const char *name, char *ret_path, size_t size);

/* Death tests ---------------------------------------------------------------------------------- */

/* Runs in a child process of its own. It must not use cmocka assertions: they would jump back into
 * the test runner, in the child. */
typedef void support_death_fn(void *arg);

#define SUPPORT_DEATH_TEXT_SIZE 16384

struct support_death {
    bool died;       /* by SIGILL, SIGTRAP or SIGABRT, or by a report of a sanitizer */
    int wait_status; /* as from waitpid */
    char text[SUPPORT_DEATH_TEXT_SIZE]; /* what it wrote to standard error; cut, ends in NUL */
};

/* Runs fn(arg) in a child and tells how it ended. A child that hangs is ended after 60 s. */
void support_death_run(support_death_fn *fn, void *arg, struct support_death *ret_death);

/* Fails the test unless fn(arg) dies of an assertion and its report contains every given text. */
#define support_death(fn, arg, ...)                                                                \
    support_death_expect((fn), (arg), (const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)
void support_death_expect(support_death_fn *fn, void *arg, const char *const *expected,
                          const char *file, int line);

/* Fault sweep ---------------------------------------------------------------------------------- */

/* One whole life: set up, act, tear down. Returns RON_OK, or the failing code it met. It must give
 * back all memory on every path, and must not use cmocka assertions (they would jump out with the
 * fault hook set); what must hold is stated with RON_ASSERT. */
typedef enum ron_rc support_sweep_fn(void *arg);

struct support_sweep {
    const char *name;
    support_sweep_fn *run;
    void *arg;
    /* Whether the case may succeed although a fault was injected, because the code under test can
     * do without what failed. Otherwise success counts as an ignored failure. */
    bool may_succeed;
};

/* X(name, text). */
#define SUPPORT_SWEEP_VERDICT_TABLE(X)                                                             \
    X(OK, "every fault gave a clean error and no leak")                                            \
    X(BROKEN_CASE, "the case fails without any fault")                                             \
    X(LEAK_WITHOUT_FAULT, "the case leaks without any fault")                                      \
    X(NOTHING_TO_FAIL, "the case meets no fault point: the sweep would prove nothing")             \
    X(TOO_MANY_POINTS, "the case meets more fault points than a sweep can visit")                  \
    X(FAULT_IGNORED, "the case succeeded although a fault was injected")                           \
    X(BAD_CODE, "the case returned a code that is no operational failure")                         \
    X(LEAK, "memory was not given back after a fault")

enum support_sweep_verdict {
#define X(name, text) SUPPORT_SWEEP_##name,
    SUPPORT_SWEEP_VERDICT_TABLE(X)
#undef X
};

struct support_sweep_result {
    enum support_sweep_verdict verdict;
    size_t points[RON_FAULT_KIND_COUNT]; /* fault points of the clean run, per kind */
    size_t runs;                         /* of the case, the clean one included */
    /* The run that gave a verdict other than OK. */
    enum ron_fault_kind kind;
    size_t failed_point; /* counted from 1; 0 for the clean run */
    bool persistent;     /* whether all later points failed too */
    enum ron_rc rc;
    long live_blocks;
    const char *site; /* of the first failed point; NULL for the clean run */
};

/* Runs the case once to count its fault points, then once for each point with that point failing,
 * and once for each with it and all later ones of its kind failing. Stops at the first finding. */
struct support_sweep_result support_sweep_run(const struct support_sweep *sweep);

/* The same as a test: prints what was swept, and fails with the finding. */
void support_sweep_expect_clean(const struct support_sweep *sweep);

/* How a unit test marks itself for the sweep: defines the cmocka test `test` that sweeps `run`. */
#define SUPPORT_FAULT_SWEEP(test, run_fn)                                                          \
    static void test(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        support_sweep_expect_clean(&(struct support_sweep){.name = #test, .run = (run_fn)});       \
    }

/* The same for a case that can do without some of what fails. */
#define SUPPORT_FAULT_SWEEP_TOLERANT(test, run_fn)                                                 \
    static void test(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        support_sweep_expect_clean(                                                                \
            &(struct support_sweep){.name = #test, .run = (run_fn), .may_succeed = true});         \
    }
