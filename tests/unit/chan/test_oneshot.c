/* SPDX-License-Identifier: Apache-2.0 */
/* test_oneshot.c - the reply slot that either side may leave first.
 *
 * Goal: in every order of answer, drop, wait and leave the value has exactly one owner, the slot is
 *   freed once, and neither side waits for the other to leave.
 * Method: all orders by hand with a counting disposer and the allocation watch; then both sides on
 *   threads, many times, so that the orders also happen at once.
 */
#include "unit/chan/fixture.h"

#include "chan/chan_testing.h"
#include "ron/base/alloc.h"

static struct ron_au64 dropped; /* calls of the disposer */
static struct ron_au64 live;    /* slots not freed yet */

static void count_drop(void *value)
{
    (void)value;
    ron_au64_add(&dropped, 1);
}

static void count_blocks(int delta, const char *where)
{
    (void)where;
    ron_au64_add(&live, (uint64_t)(int64_t)delta);
}

static int setup(void **state)
{
    (void)state;
    ron_au64_store(&dropped, 0);
    ron_au64_store(&live, 0);
    ron_alloc_watch = count_blocks;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ron_alloc_watch = NULL;
    return ron_au64_load(&live) == 0 ? 0 : -1;
}

#define SLOT_CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static struct ron_oneshot *slot_make(void)
{
    struct ron_oneshot *s = NULL;

    assert_int_equal(ron_oneshot_new(count_drop, &s), RON_OK);
    return s;
}

static void test_oneshot__answered_then_taken__asker_owns_it(void **state)
{
    struct ron_oneshot *s = slot_make();
    void *value = NULL;

    (void)state;
    assert_int_equal(ron_oneshot_answer(s, msg(1)), RON_OK);
    assert_int_equal(ron_oneshot_wait(s, deadline_past(), &value), RON_OK);
    assert_ptr_equal(value, msg(1));
    assert_int_equal(ron_oneshot_wait(s, ron_deadline_never(), &value), RON_CLOSED); /* once */
    ron_oneshot_leave(s);
    assert_int_equal(ron_au64_load(&dropped), 0);
}

static void test_oneshot__answered_and_never_taken__disposed_of(void **state)
{
    struct ron_oneshot *s = slot_make();

    (void)state;
    assert_int_equal(ron_oneshot_answer(s, msg(1)), RON_OK);
    assert_int_equal(ron_au64_load(&dropped), 0);
    ron_oneshot_leave(s);
    assert_int_equal(ron_au64_load(&dropped), 1);
}

static void test_oneshot__asker_left_first__value_stays_with_the_answerer(void **state)
{
    struct ron_oneshot *s = slot_make();

    (void)state;
    assert_false(ron_oneshot_abandoned(s));
    ron_oneshot_leave(s);
    assert_true(ron_oneshot_abandoned(s));
    assert_int_equal(ron_oneshot_answer(s, msg(1)), RON_CANCELLED);
    assert_int_equal(ron_au64_load(&dropped), 0);

    s = slot_make();
    ron_oneshot_leave(s);
    ron_oneshot_drop(s); /* It frees the slot: the teardown counts. */
}

static void test_oneshot__dropped__asker_gets_closed(void **state)
{
    struct ron_oneshot *s = slot_make();
    void *value = msg(9);

    (void)state;
    ron_oneshot_drop(s);
    assert_int_equal(ron_oneshot_wait(s, ron_deadline_never(), &value), RON_CLOSED);
    assert_int_equal(ron_oneshot_poll(s, &(struct ron_waker){.wake = poller_wake}, &value),
                     RON_CLOSED);
    assert_ptr_equal(value, msg(9));
    ron_oneshot_leave(s);
}

static void test_oneshot__timeout__asker_may_wait_again(void **state)
{
    struct ron_oneshot *s = slot_make();
    struct ron_deadline soon = deadline_in_ms(5);
    void *value = NULL;

    (void)state;
    assert_int_equal(ron_oneshot_wait(s, deadline_past(), &value), RON_TIMEOUT);
    assert_int_equal(ron_oneshot_wait(s, soon, &value), RON_TIMEOUT);
    assert_true(ron_deadline_expired(soon, ron_mono_ns()));
    assert_int_equal(ron_oneshot_answer(s, msg(2)), RON_OK);
    assert_int_equal(ron_oneshot_wait(s, deadline_past(), &value), RON_OK);
    assert_ptr_equal(value, msg(2));
    ron_oneshot_leave(s);
}

static void test_oneshot__polled__waker_called_once_by_the_answer(void **state)
{
    for (int drop = 0; drop <= 1; drop++) {
        struct ron_oneshot *s = slot_make();
        struct poller p;
        void *value = NULL;

        (void)state;
        poller_init(&p);
        assert_int_equal(ron_oneshot_poll(s, &p.waker, &value), RON_AGAIN);
        assert_int_equal(ron_oneshot_poll(s, &p.waker, &value), RON_AGAIN);
        assert_int_equal(p.calls, 0);
        if (drop != 0) {
            ron_oneshot_drop(s);
        } else {
            assert_int_equal(ron_oneshot_answer(s, msg(3)), RON_OK);
        }
        assert_int_equal(p.calls, 1);
        assert_int_equal(ron_oneshot_poll(s, &p.waker, &value), drop != 0 ? RON_CLOSED : RON_OK);
        ron_oneshot_leave(s);
        assert_int_equal(p.calls, 1);
    }
    assert_int_equal(ron_au64_load(&dropped), 0);
}

static void test_oneshot__polled_then_left__waker_is_not_called(void **state)
{
    struct ron_oneshot *s = slot_make();
    struct poller p;
    void *value = NULL;

    (void)state;
    poller_init(&p);
    assert_int_equal(ron_oneshot_poll(s, &p.waker, &value), RON_AGAIN);
    ron_oneshot_leave(s);
    assert_int_equal(ron_oneshot_answer(s, msg(3)), RON_CANCELLED);
    assert_int_equal(p.calls, 0);

    /* Woken but gone before it looked: the slot must not hold its place against it. */
    s = slot_make();
    assert_int_equal(ron_oneshot_poll(s, &p.waker, &value), RON_AGAIN);
    assert_int_equal(ron_oneshot_answer(s, msg(3)), RON_OK);
    assert_int_equal(p.calls, 1);
    ron_oneshot_leave(s);
    assert_int_equal(ron_au64_load(&dropped), 1);
}

static void answer_twice(void *arg)
{
    (void)arg;
    struct ron_oneshot *s = NULL;

    RON_ASSERT(ron_oneshot_new(count_drop, &s) == RON_OK);
    RON_IGNORE(ron_oneshot_answer(s, msg(0)));
    RON_IGNORE(ron_oneshot_answer(s, msg(1))); /* It does not come back. */
}

static void test_oneshot__answered_twice__asserts(void **state)
{
    (void)state;
    support_death(answer_twice, NULL, "a reply slot is answered or dropped once");
}

/* Both sides at once --------------------------------------------------------------------------- */

struct reply {
    struct ron_oneshot *slot;
    struct ron_au32 go;
    enum ron_rc rc;
    bool drop;
};

static void answer_when_told(void *arg)
{
    struct reply *r = arg;

    while (ron_au32_load(&r->go) == 0) {
        (void)sched_yield();
    }
    if (r->drop) {
        ron_oneshot_drop(r->slot);
        r->rc = RON_CLOSED;
    } else {
        r->rc = ron_oneshot_answer(r->slot, msg(4));
    }
}

static void test_oneshot__asker_is_parked__answer_or_drop_wakes_it(void **state)
{
    for (int drop = 0; drop <= 1; drop++) {
        struct reply r = {.slot = slot_make(), .go = {1}, .drop = drop != 0};
        struct ron_thread *t = thread_run(answer_when_told, &r);
        void *value = NULL;

        (void)state;
        assert_int_equal(ron_oneshot_wait(r.slot, ron_deadline_never(), &value),
                         drop != 0 ? RON_CLOSED : RON_OK);
        ron_oneshot_leave(r.slot); /* while the answerer may still be on its way out */
        ron_thread_join(t);
    }
}

static void wait_for_answer(void *arg)
{
    struct reply *r = arg;
    void *value = NULL;

    r->rc = ron_oneshot_wait(r->slot, ron_deadline_never(), &value);
}

static void test_oneshot__polled_and_then_waited_for__the_waiting_thread_is_woken(void **state)
{
    struct reply r = {.slot = slot_make()};
    struct ron_thread *t;
    struct poller p;
    void *value = NULL;

    (void)state;
    poller_init(&p);
    assert_int_equal(ron_oneshot_poll(r.slot, &p.waker, &value), RON_AGAIN);
    t = thread_run(wait_for_answer, &r);
    assert_true(thread_wait_parked(t));
    assert_int_equal(ron_oneshot_answer(r.slot, msg(5)), RON_OK);
    assert_false(thread_is_parked(t)); /* or the join below would hang */
    ron_thread_join(t);
    assert_int_equal(r.rc, RON_OK);
    assert_int_equal(p.calls, 0); /* The wait took the place of the poll. */
    ron_oneshot_leave(r.slot);
}

static void test_oneshot__answer_races_leave__value_has_one_owner(void **state)
{
    enum { ROUNDS = 300 };
    uint64_t given_back = 0;
    uint64_t taken = 0;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct reply r = {.slot = slot_make()};
        struct ron_thread *t = thread_run(answer_when_told, &r);
        struct poller p;
        void *value = NULL;
        enum ron_rc rc;

        poller_init(&p);
        ron_au32_store(&r.go, 1);
        /* Polled more than once on purpose: the answerer may be reading the waker meanwhile. */
        rc = ron_oneshot_poll(r.slot, &p.waker, &value);
        for (int k = 0; k < i % 7 && rc == RON_AGAIN; k++) {
            (void)sched_yield();
            rc = ron_oneshot_poll(r.slot, &p.waker, &value);
        }
        taken += rc == RON_OK;
        ron_oneshot_leave(r.slot);
        ron_thread_join(t);
        given_back += r.rc == RON_CANCELLED;
    }
    assert_int_equal(taken + given_back + ron_au64_load(&dropped), ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SLOT_CASE(test_oneshot__answered_then_taken__asker_owns_it),
        SLOT_CASE(test_oneshot__answered_and_never_taken__disposed_of),
        SLOT_CASE(test_oneshot__asker_left_first__value_stays_with_the_answerer),
        SLOT_CASE(test_oneshot__dropped__asker_gets_closed),
        SLOT_CASE(test_oneshot__timeout__asker_may_wait_again),
        SLOT_CASE(test_oneshot__polled__waker_called_once_by_the_answer),
        SLOT_CASE(test_oneshot__polled_then_left__waker_is_not_called),
        SLOT_CASE(test_oneshot__answered_twice__asserts),
        SLOT_CASE(test_oneshot__asker_is_parked__answer_or_drop_wakes_it),
        SLOT_CASE(test_oneshot__polled_and_then_waited_for__the_waiting_thread_is_woken),
        SLOT_CASE(test_oneshot__answer_races_leave__value_has_one_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
