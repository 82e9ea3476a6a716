/* SPDX-License-Identifier: Apache-2.0 */
/* test_thread.c - threads, their records, parking and cancelling.
 *
 * Goal: records are bounded and recycled whatever way a thread came and went; an unpark is never
 *   lost and never counted twice; a cancelled thread gets out of its present and every later park.
 * Method: threads that report what they saw; where a thread must be asleep first, its record is
 *   watched (parked.h). Nothing sleeps for a guessed time.
 */
#include "support/support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "ron/base/assert.h"
#include "sync/sync_testing.h"
#include "unit/sync/parked.h"

static struct ron_thread *start(const char *name, void (*body)(void *), void *arg)
{
    struct ron_thread *t = NULL;
    struct ron_err err = {0};

    if (ron_thread_start(
            &(struct ron_thread_opts){.name = name, .may_block = true, .main = body, .arg = arg},
            &t, &err) != RON_OK) {
        fail_msg("ron_thread_start: %s", err.msg);
    }
    return t;
}

static struct ron_deadline past(void)
{
    return (struct ron_deadline){.at_ns = 0};
}

/* Life ----------------------------------------------------------------------------------------- */

struct look {
    struct ron_thread *self;
    char record_name[32];
    char system_name[32];
    char ctx_name[32];
    bool cancelled;
};

static void look_at_self(void *arg)
{
    struct look *look = arg;

    look->self = ron_thread_self();
    (void)snprintf(look->record_name, sizeof(look->record_name), "%s", ron_thread_name(look->self));
    (void)snprintf(look->ctx_name, sizeof(look->ctx_name), "%s", ron_ctx_current()->thread);
    (void)prctl(PR_GET_NAME, look->system_name);
    look->cancelled = ron_thread_cancelled();
}

static void test_thread__name__shown_everywhere_and_cut_at_15(void **state)
{
    static const struct {
        const char *given;
        const char *shown;
    } names[] = {{"w", "w"},
                 {"fifteen.letters", "fifteen.letters"},
                 {"sixteen..letters", "sixteen..letter"}};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        struct look look = {0};
        struct ron_thread *t = start(names[i].given, look_at_self, &look);

        assert_string_equal(ron_thread_name(t), names[i].shown);
        ron_thread_join(t);
        assert_ptr_equal(look.self, t);
        assert_string_equal(look.record_name, names[i].shown);
        assert_string_equal(look.system_name, names[i].shown);
        assert_string_equal(look.ctx_name, names[i].shown);
    }
}

static void test_thread__many_in_sequence__records_are_recycled(void **state)
{
    struct look look = {0};
    struct ron_thread *first = NULL;

    (void)state;
    for (int i = 0; i < 3 * RON_THREADS_MAX; i++) {
        struct ron_thread *t = start("seq", look_at_self, &look);

        first = first == NULL ? t : first;
        assert_int_equal(ron_threads_live(), 1);
        ron_thread_join(t);
        assert_ptr_equal(t, first);
        assert_int_equal(ron_threads_live(), 0);
    }
}

static void *foreign_body(void *arg)
{
    look_at_self(arg);
    return NULL;
}

static void test_thread__foreign_threads_in_sequence__records_come_back(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * RON_THREADS_MAX; i++) {
        struct look look = {0};
        pthread_t id;

        assert_int_equal(pthread_create(&id, NULL, foreign_body, &look), 0);
        assert_int_equal(pthread_join(id, NULL), 0);
        assert_non_null(look.self);
        assert_ptr_not_equal(look.self, ron_thread_self());
    }
}

static void park_for_good(void *arg)
{
    struct ron_au32 *go = arg;

    while (ron_au32_load(go) == 0) {
        (void)ron_park_until(ron_deadline_never(), "crowd");
    }
}

static void test_thread__all_records_in_use__limit_then_usable_again(void **state)
{
    struct ron_thread *t[RON_THREADS_MAX] = {0};
    struct ron_thread *untouched = NULL;
    struct ron_au32 go = {0};
    struct ron_err err = {0};
    struct ron_thread_opts opts = {.name = "crowd",
                                   .may_block = true,
                                   .stack_bytes = 64 * 1024,
                                   .main = park_for_good,
                                   .arg = &go};
    size_t count = 0;
    enum ron_rc rc;

    (void)state;
    (void)ron_thread_self(); /* The test's own thread has a record too. */
    while (count < RON_THREADS_MAX && ron_thread_start(&opts, &t[count], NULL) == RON_OK) {
        count++;
    }
    assert_int_equal(count, RON_THREADS_MAX - 1);
    assert_int_equal(ron_threads_live(), count);
    rc = ron_thread_start(&opts, &untouched, &err);
    assert_int_equal(rc, RON_LIMIT);
    assert_int_equal(err.rc, RON_LIMIT);
    assert_non_null(strstr(err.msg, "thread 'crowd': all 256 thread records are in use"));
    assert_null(untouched);

    ron_au32_store(&go, 1);
    for (size_t i = 0; i < count; i++) {
        ron_unpark(t[i]);
        ron_thread_join(t[i]);
    }
    assert_int_equal(ron_threads_live(), 0);
    assert_int_equal(ron_thread_start(&opts, &t[0], NULL), RON_OK);
    ron_thread_join(t[0]);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void test_thread__system_refuses__typed_error_and_no_record_is_lost(void **state)
{
    struct ron_thread_opts opts = {
        .name = "tiny", .may_block = true, .stack_bytes = 1, .main = nothing};

    (void)state;
    for (int i = 0; i < 2 * RON_THREADS_MAX; i++) {
        struct ron_thread *t = NULL;
        struct ron_err err = {0};

        assert_int_equal(ron_thread_start(&opts, &t, &err), RON_LIMIT);
        assert_null(t);
        assert_int_not_equal(err.sys_errno, 0);
        assert_non_null(strstr(err.msg, "thread 'tiny' could not be started"));
    }
    assert_int_equal(ron_threads_live(), 0);
    ron_thread_join(start("after", nothing, NULL));
}

static void test_thread__try_join__only_after_the_end(void **state)
{
    struct ron_au32 go = {0};
    struct ron_thread *t = start("tried", park_for_good, &go);

    (void)state;
    thread_wait_parked(t);
    assert_false(ron_thread_try_join(t));
    assert_int_equal(ron_threads_live(), 1);
    ron_au32_store(&go, 1);
    ron_unpark(t);
    while (!ron_thread_try_join(t)) {
        (void)sched_yield();
    }
    assert_int_equal(ron_threads_live(), 0);
}

static void join_self(void *arg)
{
    (void)arg;
    ron_thread_join(ron_thread_self());
}

static void test_thread__join_of_itself__asserts(void **state)
{
    (void)state;
    support_death(join_self, NULL, "t != ron__thread_current()");
}

static void wait_for_signal(void *arg)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1);
    (void)sigwait(&set, arg);
}

static void test_thread__signal__reaches_that_thread(void **state)
{
    int got = 0;
    struct ron_thread *t;
    sigset_t set;

    (void)state;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1);
    assert_int_equal(ron_thread_block_signals(&set), 0); /* and in the threads started from here */
    t = start("signalled", wait_for_signal, &got);
    ron_thread_signal(t, SIGUSR1);
    ron_thread_join(t);
    assert_int_equal(got, SIGUSR1);
}

/* Parking -------------------------------------------------------------------------------------- */

static void test_park__unpark_first__remembered_once(void **state)
{
    struct ron_thread *me = ron_thread_self();

    (void)state;
    ron_unpark(me);
    assert_int_equal(ron_park_until(ron_deadline_never(), "test"), RON_OK);
    assert_int_equal(ron_park_until(past(), "test"), RON_TIMEOUT);

    ron_unpark(me);
    ron_unpark(me);
    assert_int_equal(ron_park_until(past(), "test"), RON_OK);
    assert_int_equal(ron_park_until(past(), "test"), RON_TIMEOUT);
}

static void test_park__deadline__not_before_it(void **state)
{
    struct ron_deadline soon = ron_deadline_after_ms(ron_mono_ns(), 5);

    (void)state;
    assert_int_equal(ron_park_until(soon, "test"), RON_TIMEOUT);
    assert_true(ron_deadline_expired(soon, ron_mono_ns()));
    assert_int_equal(ron_park_until(soon, "test"), RON_TIMEOUT);
}

static void test_park__deadline_beyond_the_clock__is_a_wait_like_any_other(void **state)
{
    (void)state;
    /* One short of "never": as a timespec it would not fit the system's seconds. */
    ron_unpark(ron_thread_self());
    assert_int_equal(ron_park_until((struct ron_deadline){.at_ns = UINT64_MAX - 1}, "test"),
                     RON_OK);
}

struct ping {
    struct ron_thread *peer;
    struct ron_au32 turns; /* written by the helper after each wake-up */
    uint32_t wanted;
    uint32_t failures;
};

static void answer_turns(void *arg)
{
    struct ping *ping = arg;

    for (uint32_t i = 0; i < ping->wanted; i++) {
        /* One unpark per turn comes; a wake-up without a reason is not expected here. */
        ping->failures += ron_park_until(ron_deadline_never(), "turn") != RON_OK;
        ron_au32_store(&ping->turns, i + 1);
        ron_unpark(ping->peer);
    }
}

static void test_park__thread_is_parked__each_unpark_wakes_it(void **state)
{
    struct ping ping = {.peer = ron_thread_self(), .wanted = 200};
    struct ron_thread *t = start("pong", answer_turns, &ping);

    (void)state;
    for (uint32_t i = 0; i < ping.wanted; i++) {
        if (i % 2 == 0) {
            thread_wait_parked(t); /* Every other turn meets a sleeping thread for certain. */
        }
        ron_unpark(t);
        while (ron_au32_load(&ping.turns) != i + 1) {
            assert_int_equal(ron_park_until(ron_deadline_never(), "turn"), RON_OK);
        }
    }
    ron_thread_join(t);
    assert_int_equal(ping.failures, 0);
    (void)ron_park_until(past(), "a token of the last turn may be left");
}

static void test_park__unpark_of_an_ended_thread__harmless(void **state)
{
    struct ron_au32 go = {1};
    struct ron_thread *t = start("ended", park_for_good, &go);
    struct ron_thread *next;

    (void)state;
    ron_thread_join(t);
    ron_unpark(t);
    /* The record's next user may be woken for no reason, and nothing worse. */
    ron_au32_store(&go, 0);
    next = start("next", park_for_good, &go);
    assert_ptr_equal(next, t);
    thread_wait_parked(next);
    ron_au32_store(&go, 1);
    ron_unpark(next);
    ron_thread_join(next);
}

/* Cancelling ----------------------------------------------------------------------------------- */

struct parks {
    enum ron_rc rc[3];
    bool cancelled;
};

static void park_three_times(void *arg)
{
    struct parks *parks = arg;

    parks->rc[0] = ron_park_until(ron_deadline_never(), "to be cancelled");
    parks->rc[1] = ron_park_until(ron_deadline_never(), "after it");
    ron_unpark(ron_thread_self());
    parks->rc[2] = ron_park_until(past(), "even with a token");
    parks->cancelled = ron_thread_cancelled();
}

static void test_cancel__thread_is_parked__this_and_later_parks_end(void **state)
{
    struct parks parks = {.cancelled = false};
    struct look look = {.cancelled = true};
    struct ron_thread *t = start("victim", park_three_times, &parks);
    struct ron_thread *next;

    (void)state;
    thread_wait_parked(t);
    ron_thread_cancel(t);
    ron_thread_join(t);
    for (size_t i = 0; i < RON_ARRAY_LEN(parks.rc); i++) {
        assert_int_equal(parks.rc[i], RON_CANCELLED);
    }
    assert_true(parks.cancelled);
    assert_false(ron_thread_cancelled());

    next = start("heir", look_at_self, &look);
    assert_ptr_equal(next, t); /* the same record, */
    ron_thread_join(next);
    assert_false(look.cancelled); /* but not its cancellation */
}

/* ---- a condition looked at without a lock ---------------------------------------------------- */

static struct ron_au32 ask __attribute__((aligned(64)));
static struct ron_au32 answer __attribute__((aligned(64)));

static void answer_each(void *arg)
{
    struct ron_thread *asker = arg;
    uint32_t seen = 0;

    while (seen != UINT32_MAX) {
        uint32_t now = ron_au32_load(&ask);

        if (now != seen) {
            seen = now;
            for (volatile uint32_t i = 0; i < seen % 64; i++) {
            }
            ron_au32_store(&answer, seen);
            ron_unpark(asker);
        }
    }
}

/* A park that consumes a token must be seen by wakers before the caller looks at its condition:
 * else the token of an unpark in between is overwritten, and the next park sleeps for ever. */
static void test_park__condition_without_a_lock__no_wakeup_is_lost(void **state)
{
    struct ron_thread_opts opts = {
        .name = "answers", .may_block = true, .main = answer_each, .arg = ron_thread_self()};
    struct ron_thread *t = NULL;

    (void)state;
    assert_int_equal(ron_thread_start(&opts, &t, NULL), RON_OK);
    for (uint32_t n = 1; n <= 1000000; n++) {
        ron_unpark(ron_thread_self()); /* A token from before. */
        ron_au32_store(&ask, n);
        for (volatile uint32_t i = 0; i < n % 61; i++) {
        }
        while (ron_au32_load(&answer) != n) {
            struct ron_deadline d = ron_deadline_after_ms(ron_mono_ns(), 20000);
            assert_int_not_equal(ron_park_until(d, "answer"), RON_TIMEOUT);
        }
    }
    ron_au32_store(&ask, UINT32_MAX);
    ron_thread_join(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thread__name__shown_everywhere_and_cut_at_15),
        cmocka_unit_test(test_thread__many_in_sequence__records_are_recycled),
        cmocka_unit_test(test_thread__foreign_threads_in_sequence__records_come_back),
        cmocka_unit_test(test_thread__all_records_in_use__limit_then_usable_again),
        cmocka_unit_test(test_thread__system_refuses__typed_error_and_no_record_is_lost),
        cmocka_unit_test(test_thread__try_join__only_after_the_end),
        cmocka_unit_test(test_thread__join_of_itself__asserts),
        cmocka_unit_test(test_thread__signal__reaches_that_thread),
        cmocka_unit_test(test_park__unpark_first__remembered_once),
        cmocka_unit_test(test_park__deadline__not_before_it),
        cmocka_unit_test(test_park__condition_without_a_lock__no_wakeup_is_lost),
        cmocka_unit_test(test_park__deadline_beyond_the_clock__is_a_wait_like_any_other),
        cmocka_unit_test(test_park__thread_is_parked__each_unpark_wakes_it),
        cmocka_unit_test(test_park__unpark_of_an_ended_thread__harmless),
        cmocka_unit_test(test_cancel__thread_is_parked__this_and_later_parks_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
