/* SPDX-License-Identifier: Apache-2.0 */
/* test_blocking.c - no lock across a blocking point, no blocking call on a loop thread.
 *
 * Goal: each blocking point of sync names the lock that is held when it is reached (K-01), the
 *   split form of a critical section passes where the held form is caught (K-02), and a thread that
 *   may not block is caught at the same places (K-09). The blocking points of chan are in
 *   unit/chan.
 * Method: a table of points; each is reached with a lock, on a loop thread, and lawfully.
 */
#include "ron/base/assert.h"
#include "unit/sync/breach.h"
#include "unit/sync/parked.h"

static void nothing(void *arg)
{
    (void)arg;
}

static void reach_named(void)
{
    ron_blocking_point("fsync wal");
}

static void reach_park(void)
{
    RON_ASSERT(ron_park_until((struct ron_deadline){.at_ns = 0}, "park here") == RON_TIMEOUT);
}

static void reach_join(void)
{
    struct ron_thread *t = NULL;
    enum ron_rc rc = ron_thread_start(
        &(struct ron_thread_opts){.name = "short", .may_block = true, .main = nothing}, &t, NULL);

    RON_ASSERT(rc == RON_OK);
    ron_thread_join(t);
}

static void reach_no_lock(void)
{
    ron_no_lock_point("handler return");
}

static const struct point {
    const char *at; /* as the report names it */
    void (*reach)(void);
    bool waits; /* false: asks only that no lock is held */
} points[] = {
    {"at 'fsync wal'", reach_named, true},
    {"at 'park here'", reach_park, true},
    {"at 'thread join'", reach_join, true},
    {"at 'handler return'", reach_no_lock, false},
};

struct reach_case {
    const struct point *point;
    struct ron_mutex balance;
    uint64_t value; /* guarded by balance */
};

/* The held form. */
static void reach_with_lock(void *arg)
{
    struct reach_case *k = arg;

    ron_mutex_lock(&k->balance);
    k->value++;
    k->point->reach();
    ron_mutex_unlock(&k->balance);
}

/* The split form: copy out under the lock, let go, then wait. */
static void reach_after_unlock(void *arg)
{
    struct reach_case *k = arg;
    uint64_t copy;

    ron_mutex_lock(&k->balance);
    copy = ++k->value;
    ron_mutex_unlock(&k->balance);
    k->point->reach();
    RON_ASSERT(copy > 0);
}

static void reach_on_loop_thread(void *arg)
{
    struct reach_case *k = arg;
    bool before = ron_thread_set_may_block(false);

    k->point->reach();
    (void)ron_thread_set_may_block(before);
}

static void reach_case_init(struct reach_case *k, const struct point *point)
{
    *k = (struct reach_case){.point = point};
    ron_mutex_init(&k->balance, RON_RANK_SHARED, "wallet.balance");
}

static void test_blocking__lock_held_at_a_point__report_names_point_and_lock(void **state)
{
    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(points); i++) {
        struct reach_case k;

        reach_case_init(&k, &points[i]);
        EXPECT_BREACH(HELD, reach_with_lock, &k, points[i].at, "[wallet.balance(20)]");
        ron_mutex_done(&k.balance);
    }
}

static void test_blocking__split_form__passes_where_held_form_aborts(void **state)
{
    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(points); i++) {
        uint64_t before = ron_sync_violations(RON_BREACH_HELD);
        struct reach_case k;

        reach_case_init(&k, &points[i]);
        reach_after_unlock(&k);
        assert_int_equal(ron_sync_violations(RON_BREACH_HELD), before);
        assert_int_equal(k.value, 1);
        ron_mutex_done(&k.balance);
    }
}

static void test_blocking__loop_thread_at_a_point__breach(void **state)
{
    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(points); i++) {
        struct reach_case k;

        reach_case_init(&k, &points[i]);
        if (points[i].waits) {
            EXPECT_BREACH(LOOP, reach_on_loop_thread, &k, points[i].at, "locks held: []");
        } else {
            reach_on_loop_thread(&k); /* A loop's own poll is no breach: this comes back. */
        }
        ron_mutex_done(&k.balance);
    }
    assert_true(ron_thread_set_may_block(true));
}

static void reach_and_note(void *arg)
{
    ron_blocking_point("file read");
    *(bool *)arg = true;
}

static void run_loop_thread(void *arg)
{
    struct ron_thread *t = NULL;
    enum ron_rc rc = ron_thread_start(
        &(struct ron_thread_opts){
            .name = "worker-0", .may_block = false, .main = reach_and_note, .arg = arg},
        &t, NULL);

    RON_ASSERT(rc == RON_OK);
    ron_thread_join(t);
}

static void test_blocking__thread_started_as_loop__breach_names_thread(void **state)
{
    bool went_on = false;

    (void)state;
    EXPECT_BREACH(LOOP, run_loop_thread, &went_on, "at 'file read'", "thread worker-0");
    assert_int_equal(went_on, !RON_CHECKED);
}

#if RON_CHECKED
static void take_and_end(void *arg)
{
    ron_mutex_lock(arg);
}

static void run_thread_that_keeps_a_lock(void *arg)
{
    struct ron_thread *t = NULL;
    enum ron_rc rc = ron_thread_start(
        &(struct ron_thread_opts){
            .name = "keeper", .may_block = true, .main = take_and_end, .arg = arg},
        &t, NULL);

    RON_ASSERT(rc == RON_OK);
    ron_thread_join(t);
}
#endif

static void test_blocking__thread_ends_with_a_lock__breach(void **state)
{
    (void)state;
#if RON_CHECKED
    struct ron_mutex m;

    ron_mutex_init(&m, RON_RANK_SHARED, "kept");
    support_death(run_thread_that_keeps_a_lock, &m, "sync breach held at 'thread end'",
                  "[kept(20)]");
    ron_mutex_done(&m);
#else
    skip(); /* The lock would stay taken for good. */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocking__lock_held_at_a_point__report_names_point_and_lock),
        cmocka_unit_test(test_blocking__split_form__passes_where_held_form_aborts),
        cmocka_unit_test(test_blocking__loop_thread_at_a_point__breach),
        cmocka_unit_test(test_blocking__thread_started_as_loop__breach_names_thread),
        cmocka_unit_test(test_blocking__thread_ends_with_a_lock__breach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
