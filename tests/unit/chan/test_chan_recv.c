/* SPDX-License-Identifier: Apache-2.0 */
/* test_chan_recv.c - receiving: order, draining, polling, wake-ups, and work together with a watch.
 *
 * Goal: first in, first out across the end of the ring; after a close everything queued comes out,
 *   then RON_CLOSED for ever, in every way of receiving; wake-ups are few and none is lost; work
 *   and a change that are ready together come in the order asked for (K-32).
 * Method: pollers with counting wakers make the wake-ups exact without threads; helper threads are
 *   used where a park itself is under test.
 */
#include "unit/chan/fixture.h"

struct receiver {
    struct ron_chan *chan;
    struct ron_watch *watch; /* NULL: a plain receive */
    uint64_t seen;
    enum ron_rc rc;
    size_t count;
    void *items[8];
};

static void run_receiver(void *arg)
{
    struct receiver *r = arg;

    if (r->watch == NULL) {
        r->rc = ron_chan_recv_many(r->chan, r->items, RON_ARRAY_LEN(r->items), ron_deadline_never(),
                                   &r->count);
    } else {
        r->rc = ron_chan_recv_or_changed(r->chan, r->watch, r->seen, true, r->items,
                                         RON_ARRAY_LEN(r->items), ron_deadline_never(), &r->count);
    }
}

static void run_sender(void *arg)
{
    chan_put(arg, 3, 1);
}

/* One poll; the message numbers are checked to run on from `first`. */
static enum ron_rc poll_some(struct ron_chan *c, struct poller *p, size_t max, size_t first,
                             size_t *ret_count, bool *ret_more)
{
    void *items[16];
    size_t n = 0;
    enum ron_rc rc = ron_chan_recv_poll(c, &p->node, items, max, &n, ret_more);

    for (size_t i = 0; i < n; i++) {
        assert_int_equal(msg_number(items[i]), first + i);
    }
    *ret_count = n;
    return rc;
}

/* Order ---------------------------------------------------------------------------------------- */

static void test_chan_recv__many_across_the_end_of_the_ring__in_order(void **state)
{
    for (uint32_t capacity = 1; capacity <= 7; capacity++) {
        struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, capacity);
        size_t in = 0;
        size_t out = 0;

        /* Every combination of head and length comes up: lengths and capacity share no rhythm. */
        for (size_t round = 0; round < 200; round++) {
            void *items[16];
            size_t n = 0;
            size_t put = round % (capacity + 1);
            size_t max = 1 + round % 5;

            while (put-- > 0 && ron_chan_try_send(c, msg(in % MSGS_MAX), NULL) == RON_OK) {
                in++;
            }
            if (in == out) {
                assert_int_equal(ron_chan_try_recv_many(c, items, max, &n), RON_AGAIN);
                continue;
            }
            assert_int_equal(ron_chan_try_recv_many(c, items, max, &n), RON_OK);
            assert_int_equal(n, RON_MIN(max, in - out));
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(msg_number(items[i]), out++);
            }
            assert_int_equal(chan_stats(c).depth, in - out);
        }
        assert_true(out > capacity);
        ron_chan_free(c);
    }
}

static void test_chan_recv__nothing_there__timeout_and_outputs_untouched(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 2);
    struct ron_deadline soon = deadline_in_ms(5);
    void *item = msg(7);
    size_t n = 42;

    assert_int_equal(ron_chan_recv(c, deadline_past(), &item), RON_TIMEOUT);
    assert_int_equal(ron_chan_recv_many(c, &item, 1, soon, &n), RON_TIMEOUT);
    assert_true(ron_deadline_expired(soon, ron_mono_ns()));
    assert_int_equal(ron_chan_try_recv_many(c, &item, 1, &n), RON_AGAIN);
    assert_ptr_equal(item, msg(7));
    assert_int_equal(n, 42);
    chan_put(c, 0, 1);
    assert_int_equal(ron_chan_recv(c, deadline_past(), &item), RON_OK);
    assert_ptr_equal(item, msg(0));
    ron_chan_free(c);
}

static void test_chan_recv__parked_and_message_comes__received(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 2);
    struct receiver r = {.chan = c};
    struct ron_thread *t = thread_run(run_receiver, &r);

    thread_wait_parked(t);
    chan_put(c, 5, 1);
    ron_thread_join(t);
    assert_int_equal(r.rc, RON_OK);
    assert_int_equal(r.count, 1);
    assert_ptr_equal(r.items[0], msg(5));
    assert_int_equal(chan_stats(c).wakeups, 1);
    ron_chan_free(c);
}

/* Closing -------------------------------------------------------------------------------------- */

static void test_chan_recv__closed__drains_then_closed_for_ever(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 8);
    struct ron_watch *w = watch_make(*state, 0);
    struct poller p;
    void *items[8];
    size_t n = 0;
    bool more = false;

    poller_init(&p);
    chan_put(c, 0, 5);
    assert_true(ron_chan_close(c));
    assert_int_equal(ron_chan_recv(c, deadline_past(), items), RON_OK);
    assert_int_equal(msg_number(items[0]), 0);
    assert_int_equal(ron_chan_recv_many(c, items, 1, deadline_past(), &n), RON_OK);
    assert_int_equal(msg_number(items[0]), 1);
    assert_int_equal(ron_chan_recv_or_changed(c, w, 1, true, items, 1, deadline_past(), &n),
                     RON_OK);
    assert_int_equal(n, 1);
    assert_int_equal(msg_number(items[0]), 2);
    assert_int_equal(poll_some(c, &p, 1, 3, &n, &more), RON_OK);
    assert_true(more);
    assert_int_equal(poll_some(c, &p, 8, 4, &n, &more), RON_OK);
    assert_int_equal(n, 1);
    assert_true(more); /* The end is still to be told. */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(poll_some(c, &p, 8, 0, &n, &more), RON_CLOSED);
        assert_int_equal(ron_chan_recv(c, ron_deadline_never(), items), RON_CLOSED);
        assert_int_equal(ron_chan_recv_many(c, items, 8, ron_deadline_never(), &n), RON_CLOSED);
        assert_int_equal(ron_chan_try_recv_many(c, items, 8, &n), RON_CLOSED);
        assert_int_equal(
            ron_chan_recv_or_changed(c, w, 1, false, items, 8, ron_deadline_never(), &n),
            RON_CLOSED);
    }
    assert_int_equal(p.calls, 0);
    assert_int_equal(chan_stats(c).received, 5);
    assert_int_equal(chan_stats(c).depth, 0);
    ron_watch_free(w);
    ron_chan_free(c);
}

static void test_chan_recv__parked_and_close__every_receiver_ends(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 2);
    struct ron_watch *w = watch_make(*state, 0);
    struct receiver r[3] = {{.chan = c}, {.chan = c}, {.chan = c, .watch = w, .seen = 1}};
    struct ron_thread *t[RON_ARRAY_LEN(r)];

    for (size_t i = 0; i < RON_ARRAY_LEN(r); i++) {
        t[i] = thread_run(run_receiver, &r[i]);
        thread_wait_parked(t[i]);
    }
    assert_true(ron_chan_close(c));
    for (size_t i = 0; i < RON_ARRAY_LEN(r); i++) {
        ron_thread_join(t[i]);
        assert_int_equal(r[i].rc, RON_CLOSED);
    }
    ron_watch_free(w);
    ron_chan_free(c);
}

static void test_chan_recv__closed_with_a_reservation__every_receiver_waits_for_it(void **state)
{
    for (int send = 0; send <= 1; send++) {
        struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 2);
        struct ron_watch *w = watch_make(*state, 0);
        struct receiver r[2] = {{.chan = c}, {.chan = c, .watch = w, .seen = 1}};
        struct ron_thread *t[RON_ARRAY_LEN(r)];
        size_t got = 0;

        assert_int_equal(ron_chan_reserve(c, 1), RON_OK);
        assert_true(ron_chan_close(c));
        for (size_t i = 0; i < RON_ARRAY_LEN(r); i++) {
            t[i] = thread_run(run_receiver, &r[i]);
            thread_wait_parked(t[i]);
        }
        if (send != 0) {
            ron_chan_send_reserved(c, msg(3));
        } else {
            ron_chan_unreserve(c, 1);
        }
        for (size_t i = 0; i < RON_ARRAY_LEN(r); i++) {
            ron_thread_join(t[i]);
            assert_true(r[i].rc == RON_OK || r[i].rc == RON_CLOSED);
            got += r[i].rc == RON_OK ? r[i].count : 0;
        }
        assert_int_equal(got, send);
        ron_watch_free(w);
        ron_chan_free(c);
    }
}

static void test_chan_recv__polled_while_closed_with_a_reservation__waker_is_called(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 2);
    struct poller p;
    size_t n = 0;
    bool more = false;

    poller_init(&p);
    assert_int_equal(ron_chan_reserve(c, 2), RON_OK);
    assert_true(ron_chan_close(c));
    assert_int_equal(poll_some(c, &p, 8, 0, &n, &more), RON_AGAIN);
    assert_false(more);
    ron_chan_send_reserved(c, msg(0));
    assert_int_equal(p.calls, 1);
    assert_int_equal(poll_some(c, &p, 8, 0, &n, &more), RON_OK);
    assert_int_equal(n, 1);
    assert_false(more);
    ron_chan_unreserve(c, 1);
    assert_int_equal(p.calls, 2); /* to be told the end */
    assert_int_equal(poll_some(c, &p, 8, 0, &n, &more), RON_CLOSED);
    ron_chan_free(c);
}

/* A waker that looks again at once, as a very fast receiver would. */
struct eager {
    struct poller poller;
    struct ron_chan *chan;
};

static void eager_wake(struct ron_waker *w)
{
    struct poller *p = RON_CONTAINER_OF(w, struct poller, waker);
    struct eager *e = RON_CONTAINER_OF(p, struct eager, poller);
    void *item;
    size_t n;
    bool more;

    p->calls++;
    if (p->calls < 10) { /* Bounded, so that a mistake fails instead of hanging. */
        RON_IGNORE(ron_chan_recv_poll(e->chan, &p->node, &item, 1, &n, &more));
    }
}

static void test_chan_recv__close_with_a_reservation__each_receiver_woken_once(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 2);
    struct eager e = {.chan = c};
    size_t n = 0;
    bool more = false;

    poller_init(&e.poller);
    e.poller.waker.wake = eager_wake;
    assert_int_equal(ron_chan_reserve(c, 1), RON_OK);
    assert_int_equal(poll_some(c, &e.poller, 1, 0, &n, &more), RON_AGAIN);
    /* The receiver finds nothing and waits again while the close still wakes: once is enough. */
    assert_true(ron_chan_close(c));
    assert_int_equal(e.poller.calls, 1);
    ron_chan_unreserve(c, 1);
    assert_int_equal(e.poller.calls, 2);
    ron_chan_recv_forget(c, &e.poller.node);
    ron_chan_free(c);
}

/* Polling -------------------------------------------------------------------------------------- */

static void test_chan_recv__poll__more_means_call_again_else_the_waker_comes(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 8);
    struct poller p;
    size_t n = 0;
    bool more = true;

    poller_init(&p);
    assert_int_equal(poll_some(c, &p, 4, 0, &n, &more), RON_AGAIN);
    assert_false(more);
    chan_put(c, 0, 6);
    assert_int_equal(p.calls, 1); /* once for all six */
    assert_int_equal(poll_some(c, &p, 4, 0, &n, &more), RON_OK);
    assert_int_equal(n, 4);
    assert_true(more);
    chan_put(c, 6, 1);
    assert_int_equal(p.calls, 1); /* It was told to call again, so it is not woken. */
    assert_int_equal(poll_some(c, &p, 4, 4, &n, &more), RON_OK);
    assert_int_equal(n, 3);
    assert_false(more);
    chan_put(c, 7, 1);
    assert_int_equal(p.calls, 2); /* It waits since the last call. */
    chan_expect(c, 7, 1);
    ron_chan_recv_forget(c, &p.node);
    chan_put(c, 8, 1);
    assert_int_equal(p.calls, 2);
    ron_chan_free(c);
}

/* Sends 64 messages to 8 waiting pollers and returns the number of wake-ups. */
static uint64_t wakeups_for_64(struct ron_registry *reg, uint32_t wake_batch, uint32_t *ret_calls)
{
    struct ron_chan_opts opts = chan_opts(reg, RON_CHAN_REJECT, 64);
    struct poller p[8];
    struct ron_chan *c;
    uint64_t wakeups;

    opts.wake_batch = wake_batch;
    c = chan_with(&opts);
    for (size_t i = 0; i < RON_ARRAY_LEN(p); i++) {
        size_t n = 0;
        bool more = false;

        poller_init(&p[i]);
        assert_int_equal(poll_some(c, &p[i], 1, 0, &n, &more), RON_AGAIN);
    }
    chan_put(c, 0, 64);
    wakeups = chan_stats(c).wakeups;
    *ret_calls = 0;
    for (size_t i = 0; i < RON_ARRAY_LEN(p); i++) {
        *ret_calls += p[i].calls;
        assert_true(p[i].calls <= 1);
        assert_true(i == 0 || p[i].calls <= p[i - 1].calls); /* oldest waiter first */
    }
    chan_expect(c, 0, 64);
    for (size_t i = 0; i < RON_ARRAY_LEN(p); i++) {
        ron_chan_recv_forget(c, &p[i].node);
    }
    ron_chan_free(c);
    return wakeups;
}

static void test_chan_recv__wake_batch__one_wakeup_per_batch_queued(void **state)
{
    static const struct {
        uint32_t batch;
        uint64_t wakeups;
    } cases[] = {{16, 4}, {0, 4}, {1, 8}, {32, 2}, {64, 1}, {UINT32_MAX, 1}};

    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        uint32_t calls = 0;

        assert_int_equal(wakeups_for_64(*state, cases[i].batch, &calls), cases[i].wakeups);
        assert_int_equal(calls, cases[i].wakeups);
    }
}

static void test_chan_recv__woken_poller_leaves_messages_behind__next_one_is_woken(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 8);
    struct poller a;
    struct poller b;
    struct poller d;
    size_t n = 0;
    bool more = false;

    poller_init(&a);
    poller_init(&b);
    poller_init(&d);
    assert_int_equal(poll_some(c, &a, 2, 0, &n, &more), RON_AGAIN);
    assert_int_equal(poll_some(c, &b, 2, 0, &n, &more), RON_AGAIN);
    assert_int_equal(poll_some(c, &d, 2, 0, &n, &more), RON_AGAIN);
    chan_put(c, 0, 6);
    assert_int_equal(a.calls, 1);
    assert_int_equal(b.calls + d.calls, 0);
    assert_int_equal(poll_some(c, &a, 2, 0, &n, &more), RON_OK);
    assert_true(more);
    assert_int_equal(b.calls, 1); /* took two, left four */
    ron_chan_recv_forget(c, &b.node);
    assert_int_equal(d.calls, 1); /* gave up: the wake-up goes on */
    ron_chan_recv_forget(c, &d.node);
    ron_chan_recv_forget(c, &a.node);
    ron_chan_free(c);
}

static void test_chan_recv__pool_member_still_at_work__does_not_take_the_next_wakeup(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 8);
    struct poller busy;
    struct poller idle;
    size_t n = 0;
    bool more = false;

    poller_init(&busy);
    poller_init(&idle);
    busy.node._pooled = true;
    idle.node._pooled = true;
    chan_put(c, 0, 1);
    assert_int_equal(poll_some(c, &busy, 4, 0, &n, &more), RON_OK);
    assert_true(more); /* It does not wait: it handles its message, then looks again. */
    assert_int_equal(poll_some(c, &idle, 4, 0, &n, &more), RON_AGAIN);
    chan_put(c, 1, 1);
    assert_int_equal(idle.calls, 1);
    assert_int_equal(busy.calls, 0);
    ron_chan_recv_forget(c, &idle.node);
    assert_int_equal(poll_some(c, &busy, 4, 1, &n, &more), RON_OK); /* It looked again. */
    ron_chan_recv_forget(c, &busy.node);
    ron_chan_free(c);
}

/* Work and a change ---------------------------------------------------------------------------- */

static void test_chan_recv__work_and_change_both_ready__order_as_asked(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 4);
    struct ron_watch *w = watch_make(*state, 0);
    void *items[4];
    size_t n = 42;

    chan_put(c, 0, 2);
    ron_watch_set(w, 1);
    /* An intake that is running prefers the change: nothing is taken. */
    assert_int_equal(ron_chan_recv_or_changed(c, w, 1, false, items, 4, ron_deadline_never(), &n),
                     RON_OK);
    assert_int_equal(n, 0);
    assert_int_equal(chan_stats(c).depth, 2);
    /* A worker that drains prefers work, and hears of the change when there is none. */
    assert_int_equal(ron_chan_recv_or_changed(c, w, 1, true, items, 4, ron_deadline_never(), &n),
                     RON_OK);
    assert_int_equal(n, 2);
    assert_int_equal(msg_number(items[1]), 1);
    assert_int_equal(ron_chan_recv_or_changed(c, w, 1, true, items, 4, ron_deadline_never(), &n),
                     RON_OK);
    assert_int_equal(n, 0);
    /* With the present version only work counts. */
    chan_put(c, 2, 1);
    assert_int_equal(ron_chan_recv_or_changed(c, w, 2, false, items, 4, ron_deadline_never(), &n),
                     RON_OK);
    assert_int_equal(n, 1);
    assert_int_equal(ron_chan_recv_or_changed(c, w, 2, false, items, 4, deadline_past(), &n),
                     RON_TIMEOUT);
    ron_watch_free(w);
    ron_chan_free(c);
}

static void test_chan_recv__parked_on_both__either_one_wakes(void **state)
{
    for (int change = 0; change <= 1; change++) {
        struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 4);
        struct ron_watch *w = watch_make(*state, 0);
        struct receiver r = {.chan = c, .watch = w, .seen = 1, .count = 42};
        struct ron_thread *t = thread_run(run_receiver, &r);

        thread_wait_parked(t);
        if (change != 0) {
            ron_watch_set(w, 1);
        } else {
            chan_put(c, 6, 1);
        }
        ron_thread_join(t);
        assert_int_equal(r.rc, RON_OK);
        assert_int_equal(r.count, 1 - change);
        ron_watch_free(w); /* Asserts that the receiver has left both lots. */
        ron_chan_free(c);
    }
}

static void test_chan_recv__look__takes_nothing_and_ends_when_it_should(void **state)
{
    struct ron_chan *c = chan_make(*state, RON_CHAN_WAIT, 2);
    const uint64_t forever = UINT64_MAX;
    uint64_t begin = ron_mono_ns();
    struct receiver r = {.chan = c};
    size_t n = 0;

    ron_chan_look(c, begin + 2000000); /* nothing comes */
    assert_true(ron_spin_budget() == 0 || ron_mono_ns() >= begin + 2000000);
    if (ron_spin_budget() != 0) {
        struct ron_thread *t = thread_run(run_sender, c);

        ron_chan_look(c, forever);
        ron_thread_join(t);
    } else {
        chan_put(c, 3, 1);
    }
    ron_chan_look(c, forever); /* it is still there */
    assert_int_equal(ron_chan_try_recv_many(c, r.items, 1, &n), RON_OK);
    assert_int_equal(msg_number(r.items[0]), 3);
    ron_chan_close(c);
    ron_chan_look(c, forever);
    ron_chan_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_chan_recv__many_across_the_end_of_the_ring__in_order),
        CASE(test_chan_recv__nothing_there__timeout_and_outputs_untouched),
        CASE(test_chan_recv__parked_and_message_comes__received),
        CASE(test_chan_recv__closed__drains_then_closed_for_ever),
        CASE(test_chan_recv__parked_and_close__every_receiver_ends),
        CASE(test_chan_recv__polled_while_closed_with_a_reservation__waker_is_called),
        CASE(test_chan_recv__close_with_a_reservation__each_receiver_woken_once),
        CASE(test_chan_recv__closed_with_a_reservation__every_receiver_waits_for_it),
        CASE(test_chan_recv__poll__more_means_call_again_else_the_waker_comes),
        CASE(test_chan_recv__wake_batch__one_wakeup_per_batch_queued),
        CASE(test_chan_recv__woken_poller_leaves_messages_behind__next_one_is_woken),
        CASE(test_chan_recv__pool_member_still_at_work__does_not_take_the_next_wakeup),
        CASE(test_chan_recv__work_and_change_both_ready__order_as_asked),
        CASE(test_chan_recv__parked_on_both__either_one_wakes),
        CASE(test_chan_recv__look__takes_nothing_and_ends_when_it_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
