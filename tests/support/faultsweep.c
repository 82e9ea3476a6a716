/* SPDX-License-Identifier: Apache-2.0 */
/* faultsweep.c - fails every fault point of a case, one after the other.
 *
 * Place: tests only; uses the hooks of ron/base/fault.h and ron/base/alloc.h.
 * Invariants:
 *   I1. Outside of run_once both hooks are what they were before it.
 *   I2. live_blocks counts blocks born minus blocks dead during one run; a case gives all back.
 * Threads: the sweep itself belongs to one thread. The case may run threads of its own, as long as
 *   they have ended when it returns; the counters are atomic for them. With several threads the
 *   order of fault points is not fixed, so a number then names a point only roughly.
 */
#include <stdatomic.h>

#include "support/support.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/ctx.h"

/* A sweep costs about the square of the points; beyond this a case should be cut in pieces. */
#define POINTS_MAX 5000

/* What the hooks do and what they saw, for the run in progress. */
static struct {
    enum ron_fault_kind kind;
    size_t fail_at; /* counted from 1; 0 fails nothing */
    bool persistent;
    atomic_size_t seen[RON_FAULT_KIND_COUNT];
    atomic_long live_blocks;
    const char *_Atomic site;
} plan;

static const char *kind_name(enum ron_fault_kind kind)
{
    switch (kind) {
#define X(name, text, doc)                                                                         \
    case RON_FAULT_##name:                                                                         \
        return text;
        RON_FAULT_KIND_TABLE(X)
#undef X
    }
    return "?";
}

static bool fault_hook(enum ron_fault_kind kind, const char *site)
{
    size_t point = atomic_fetch_add(&plan.seen[kind], 1) + 1;

    if (plan.fail_at == 0 || kind != plan.kind) {
        return false;
    }
    if (point == plan.fail_at) {
        atomic_store(&plan.site, site);
        ron_event(site, (uint64_t)kind, point); /* an assertion report then shows the fault */
        return true;
    }
    return plan.persistent && point > plan.fail_at;
}

static void alloc_watch(int delta, const char *site)
{
    (void)site;
    atomic_fetch_add(&plan.live_blocks, delta);
}

/* Runs the case with one plan and leaves what the hooks saw in `plan`. */
static enum ron_rc run_once(const struct support_sweep *sweep, enum ron_fault_kind kind,
                            size_t fail_at, bool persistent)
{
    bool (*fault_before)(enum ron_fault_kind, const char *) = ron_fault_hook;
    void (*watch_before)(int, const char *) = ron_alloc_watch;

    plan.kind = kind;
    plan.fail_at = fail_at;
    plan.persistent = persistent;
    for (size_t i = 0; i < RON_FAULT_KIND_COUNT; i++) {
        atomic_store(&plan.seen[i], 0);
    }
    atomic_store(&plan.live_blocks, 0);
    atomic_store(&plan.site, NULL);
    ron_alloc_watch = alloc_watch;
    ron_fault_hook = fault_hook;
    enum ron_rc rc = sweep->run(sweep->arg);

    ron_fault_hook = fault_before;
    ron_alloc_watch = watch_before;
    return rc;
}

/* A failure that a caller can handle: in the table, and not the code for a contained bug. */
static bool is_clean_code(enum ron_rc rc)
{
    return rc != RON_INTERNAL && strcmp(ron_rc_name(rc), "RON_?") != 0;
}

/* Judges the run just made. */
static enum support_sweep_verdict judge(const struct support_sweep *sweep, enum ron_rc rc)
{
    bool injected = atomic_load(&plan.site) != NULL;

    if (!is_clean_code(rc)) {
        return SUPPORT_SWEEP_BAD_CODE;
    }
    if (injected && rc == RON_OK && !sweep->may_succeed) {
        return SUPPORT_SWEEP_FAULT_IGNORED;
    }
    if (atomic_load(&plan.live_blocks) != 0) {
        return SUPPORT_SWEEP_LEAK;
    }
    return SUPPORT_SWEEP_OK;
}

/* The clean run: counts the points and makes sure that the case itself is sound. */
static enum support_sweep_verdict count_points(const struct support_sweep *sweep,
                                               struct support_sweep_result *result)
{
    size_t total = 0;

    result->rc = run_once(sweep, RON_FAULT_ALLOC, 0, false);
    result->live_blocks = atomic_load(&plan.live_blocks);
    result->runs = 1;
    for (size_t i = 0; i < RON_FAULT_KIND_COUNT; i++) {
        result->points[i] = atomic_load(&plan.seen[i]);
        total += result->points[i];
    }
    if (result->rc != RON_OK) {
        return SUPPORT_SWEEP_BROKEN_CASE;
    }
    if (result->live_blocks != 0) {
        return SUPPORT_SWEEP_LEAK_WITHOUT_FAULT;
    }
    if (total == 0) {
        return SUPPORT_SWEEP_NOTHING_TO_FAIL;
    }
    return total > POINTS_MAX ? SUPPORT_SWEEP_TOO_MANY_POINTS : SUPPORT_SWEEP_OK;
}

struct support_sweep_result support_sweep_run(const struct support_sweep *sweep)
{
    struct support_sweep_result result = {.verdict = SUPPORT_SWEEP_OK};

    result.verdict = count_points(sweep, &result);
    for (int kind = 0; kind < RON_FAULT_KIND_COUNT; kind++) {
        /* Twice the points: odd runs fail one point, even ones all from there on. */
        for (size_t run = 0; run < 2 * result.points[kind]; run++) {
            if (result.verdict != SUPPORT_SWEEP_OK) {
                return result;
            }
            result.kind = (enum ron_fault_kind)kind;
            result.failed_point = run / 2 + 1;
            result.persistent = run % 2 == 1;
            result.rc = run_once(sweep, result.kind, result.failed_point, result.persistent);
            result.live_blocks = atomic_load(&plan.live_blocks);
            result.site = atomic_load(&plan.site);
            result.runs++;
            result.verdict = judge(sweep, result.rc);
        }
    }
    return result;
}

static const char *verdict_text(enum support_sweep_verdict verdict)
{
    switch (verdict) {
#define X(name, text)                                                                              \
    case SUPPORT_SWEEP_##name:                                                                     \
        return text;
        SUPPORT_SWEEP_VERDICT_TABLE(X)
#undef X
    }
    return "?";
}

void support_sweep_expect_clean(const struct support_sweep *sweep)
{
    struct support_sweep_result result = support_sweep_run(sweep);

    print_message("%s: %zu runs over %zu allocations and %zu system calls\n", sweep->name,
                  result.runs, result.points[RON_FAULT_ALLOC], result.points[RON_FAULT_SYSCALL]);
    if (result.verdict != SUPPORT_SWEEP_OK) {
        fail_msg("%s: %s point %zu%s at %s: %s (%s, %ld blocks live)", sweep->name,
                 kind_name(result.kind), result.failed_point,
                 result.persistent ? " and all later ones" : "",
                 result.site != NULL ? result.site : "-", verdict_text(result.verdict),
                 ron_rc_name(result.rc), result.live_blocks);
    }
}
