/* SPDX-License-Identifier: Apache-2.0 */
/* test_weave_faults.c - what weave calls a failure, and what it lets happen on purpose.
 *
 * Goal: every kind of failure is noticed, named, and leaves a result even when it kills the
 * process; time, wake-ups for no reason and failed allocations happen when allowed and only
 * then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/weave/weave.h"
#include "model/weave/weave_test.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"

static struct weave_result result;

/* ---- failures are noticed -------------------------------------------------------------------- */

static void lonely_main(void *arg)
{
    RON_IGNORE(ron_park_until(ron_deadline_never(), "a call that never comes"));
    (void)arg;
}

static void deadlock_body(void *arg)
{
    (void)arg;
    ron_thread_join(start("lonely", lonely_main, NULL));
}

static void livelock_body(void *arg)
{
    struct ron_au32 never = {0};
    struct ron_thread *t = start("lonely", lonely_main, NULL);

    (void)arg;
    while (ron_au32_load(&never) == 0) {
    }
    ron_thread_join(t);
}

static void leak_body(void *arg)
{
    void **kept = arg;

    *kept = ron_alloc(16);
}

/* The addresses are volatile so that the compiler does not see the mistakes. */
static void stale_write_body(void *arg)
{
    volatile uintptr_t p = (uintptr_t)ron_alloc(16);

    (void)arg;
    ron_free((void *)p);
    *(char *)p = 1;
}

static void overrun_write_body(void *arg)
{
    volatile uintptr_t p = (uintptr_t)ron_alloc(16);

    (void)arg;
    ((char *)p)[16] = 1;
    ron_free((void *)p);
}

static void double_free_body(void *arg)
{
    volatile uintptr_t p = (uintptr_t)ron_alloc(16);

    (void)arg;
    ron_free((void *)p);
    ron_free((void *)p);
}

static void crash_body(void *arg)
{
    RON_ASSERT_MSG(arg != NULL, "this assertion is meant to fail");
}

static void unsteady_body(void *arg)
{
    uint32_t *runs = arg;
    uint32_t n = ++*runs > 1 ? 3 : 2;

    RON_IGNORE(weave_choose(n, "grows"));
    RON_IGNORE(weave_choose(2, "last"));
}

static uint32_t use_stack(uint32_t pages)
{
    volatile uint32_t page[1024];

    page[0] = pages;
    return pages == 0 ? 0 : use_stack(pages - 1) + page[0];
}

static void overrun_body(void *arg)
{
    uint32_t *pages = arg;

    *pages = use_stack(*pages);
}

static void expect_failure(weave_body *body, void *arg, const char *kind, const char *text)
{
    struct weave_opts opts = {.mode = WEAVE_DFS, .preemptions_max = 2};

    weave_explore_isolated(body, arg, &opts, true, &result);
    assert_true(result.failed);
    assert_false(result.exhaustive);
    assert_string_equal(result.kind, kind);
    assert_non_null(strstr(result.message, text));
}

static void test_weave__nobody_can_run__is_a_deadlock_with_names(void **state)
{
    (void)state;
    expect_failure(deadlock_body, NULL, "deadlock", "lonely waits for a call that never comes");
}

static void test_weave__endless_schedule__is_a_livelock(void **state)
{
    (void)state;
    expect_failure(livelock_body, NULL, "livelock", "steps");
}

static void test_weave__memory_kept__is_a_leak(void **state)
{
    void *kept = NULL;

    (void)state;
    expect_failure(leak_body, &kept, "leak", "1 blocks");
}

static void test_weave__misused_memory__is_noticed(void **state)
{
    (void)state;
    expect_failure(stale_write_body, NULL, "heap", "after it was freed");
    expect_failure(overrun_write_body, NULL, "heap", "beyond the end");
    expect_failure(double_free_body, NULL, "heap", "freed twice");
}

static void test_weave__failed_assertion__is_a_result(void **state)
{
    (void)state;
    expect_failure(crash_body, NULL, "crash", "in fiber body");
}

static void test_weave__stack_overrun__is_a_crash_and_not_a_riddle(void **state)
{
    uint32_t pages = 1000;

    (void)state;
    expect_failure(overrun_body, &pages, "crash", "signal 11");
}

static void test_weave__body_that_differs_between_runs__is_noticed(void **state)
{
    uint32_t runs = 0;

    (void)state;
    expect_failure(unsteady_body, &runs, "unsteady", "does not repeat itself");
}

/* ---- time, spurious wake-ups, allocation failure --------------------------------------------- */

struct timing {
    bool saw_timeout;
    bool saw_wake;
    bool saw_spurious;
};

static void ring_main(void *arg)
{
    ron_unpark(arg);
}

static void timing_body(void *arg)
{
    struct timing *seen = arg;
    uint64_t start_ns = ron_mono_ns();
    struct ron_thread *ringer = start("ringer", ring_main, ron_thread_self());
    enum ron_rc rc = ron_park_until(ron_deadline_after_ms(start_ns, 50), "a ring");

    if (rc == RON_TIMEOUT) {
        RON_ASSERT(ron_mono_ns() == start_ns + 50 * RON_NS_PER_MS);
        seen->saw_timeout = true;
    } else {
        RON_ASSERT(rc == RON_OK);
        /* After a ring that was used up the next park finds nothing; else the ring is still to
         * come. */
        rc = ron_park_until(ron_deadline_after_ms(start_ns, 50), "a second ring");
        seen->saw_wake = seen->saw_wake || rc == RON_TIMEOUT;
        seen->saw_spurious = seen->saw_spurious || rc == RON_OK;
    }
    ron_thread_join(ringer);
}

static void test_weave__timed_wait__wakes_times_out_and_wakes_for_no_reason(void **state)
{
    struct timing seen = {0};
    struct weave_opts opts = {
        .mode = WEAVE_DFS, .preemptions_max = 2, .spurious_max = 1, .timeouts_max = 1};

    (void)state;
    weave_explore(timing_body, &seen, &opts, &result);
    assert_false(result.failed);
    assert_true(seen.saw_wake);
    assert_true(seen.saw_timeout);
    assert_true(seen.saw_spurious);
}

static void test_weave__no_early_timeouts__time_moves_only_when_all_wait(void **state)
{
    struct timing seen = {0};
    struct weave_opts opts = {.mode = WEAVE_DFS, .preemptions_max = 2};

    (void)state;
    weave_explore(timing_body, &seen, &opts, &result);
    assert_false(result.failed);
    assert_true(seen.saw_wake);
    assert_false(seen.saw_timeout);
    assert_false(seen.saw_spurious);
}

static void alloc_body(void *arg)
{
    uint32_t *failed = arg;

    for (int i = 0; i < 3; i++) {
        void *p = ron_alloc(8);

        *failed += p == NULL;
        ron_free(p);
    }
}

static void test_weave__allocation_failures__each_one_once(void **state)
{
    uint32_t failed = 0;
    struct weave_opts opts = {.mode = WEAVE_DFS, .alloc_fail_max = 1};

    (void)state;
    weave_explore(alloc_body, &failed, &opts, &result);
    assert_true(result.exhaustive);
    assert_int_equal(result.schedules, 4); /* none, first, second, third */
    assert_int_equal(failed, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weave__nobody_can_run__is_a_deadlock_with_names),
        cmocka_unit_test(test_weave__endless_schedule__is_a_livelock),
        cmocka_unit_test(test_weave__memory_kept__is_a_leak),
        cmocka_unit_test(test_weave__misused_memory__is_noticed),
        cmocka_unit_test(test_weave__failed_assertion__is_a_result),
        cmocka_unit_test(test_weave__stack_overrun__is_a_crash_and_not_a_riddle),
        cmocka_unit_test(test_weave__body_that_differs_between_runs__is_noticed),
        cmocka_unit_test(test_weave__timed_wait__wakes_times_out_and_wakes_for_no_reason),
        cmocka_unit_test(test_weave__no_early_timeouts__time_moves_only_when_all_wait),
        cmocka_unit_test(test_weave__allocation_failures__each_one_once),
    };

    return cmocka_run_group_tests_name("weave_faults", tests, NULL, NULL);
}
