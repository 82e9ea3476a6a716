/* SPDX-License-Identifier: Apache-2.0 */
/* test_chan_cancel.c - a wait that is cancelled ends, and nothing is lost by it.
 *
 * Goal: each kind of wait of chan answers RON_CANCELLED when its thread is cancelled (K-07), leaves
 *   its lot, takes no message along, and gives a wake-up it may hold to the next waiter.
 * Method: a table of waits; each is cancelled once while asleep and once before it begins. Then
 *   messages are sent into a crowd of receivers of which some are cancelled at the same moment, and
 *   counted.
 */
#include "unit/chan/fixture.h"

#include "chan/chan_priv.h"
#include "chan/chan_testing.h"
#include "sync/sync_testing.h"

struct waits {
    struct ron_chan *empty; /* policy reject */
    struct ron_chan *full;  /* policy wait, one message inside */
    struct ron_chan *retry; /* policy retry_once, one message inside */
    struct ron_watch *watch;
    struct ron_bus *bus;
    struct ron_bus_reader reader;
    struct ron_oneshot *slot;
    struct fixed_env env;
    enum ron_rc (*wait)(struct waits *w);
    enum ron_rc rc;
    bool wait_for_cancel; /* the thread waits until it is cancelled before it calls */
};

static enum ron_rc wait_recv(struct waits *w)
{
    void *item;

    return ron_chan_recv(w->empty, ron_deadline_never(), &item);
}
static enum ron_rc wait_recv_many(struct waits *w)
{
    void *items[4];
    size_t n;

    return ron_chan_recv_many(w->empty, items, 4, deadline_in_ms(3600 * 1000), &n);
}
static enum ron_rc wait_recv_or_changed(struct waits *w)
{
    void *items[4];
    size_t n;

    return ron_chan_recv_or_changed(w->empty, w->watch, 1, true, items, 4, ron_deadline_never(),
                                    &n);
}
static enum ron_rc wait_send(struct waits *w)
{
    return ron_chan_send(w->full, msg(1), ron_deadline_never(), NULL);
}
static enum ron_rc wait_send_retry(struct waits *w)
{
    return ron_chan_send(w->retry, msg(1), ron_deadline_never(), NULL);
}
static enum ron_rc wait_watch(struct waits *w)
{
    uint64_t value;
    uint64_t version;

    return ron_watch_wait(w->watch, 1, ron_deadline_never(), &value, &version);
}
static enum ron_rc wait_bus(struct waits *w)
{
    uint64_t out;
    uint64_t missed;
    size_t n;

    return ron_bus_recv(&w->reader, &out, 1, ron_deadline_never(), &n, &missed);
}
static enum ron_rc wait_oneshot(struct waits *w)
{
    void *value;

    return ron_oneshot_wait(w->slot, ron_deadline_never(), &value);
}

static const struct {
    const char *name;
    enum ron_rc (*wait)(struct waits *w);
} kinds[] = {
    {"recv", wait_recv},
    {"recv_many", wait_recv_many},
    {"recv_or_changed", wait_recv_or_changed},
    {"send, policy wait", wait_send},
    {"send, policy retry_once", wait_send_retry},
    {"watch", wait_watch},
    {"bus", wait_bus},
    {"oneshot", wait_oneshot},
};

static void no_drop(void *value)
{
    (void)value;
}

static void waits_make(struct waits *w, struct ron_registry *reg)
{
    struct ron_chan_opts opts = chan_opts(reg, RON_CHAN_REJECT, 2);

    *w = (struct waits){.rc = RON_INTERNAL};
    fixed_env_init(&w->env, 100); /* the longest delay */
    w->empty = chan_with(&opts);
    opts = chan_opts(reg, RON_CHAN_WAIT, 1);
    opts.name = "full";
    w->full = chan_with(&opts);
    opts = chan_opts(reg, RON_CHAN_RETRY_ONCE, 1);
    opts.name = "retry";
    opts.env = &w->env.env;
    w->retry = chan_with(&opts);
    chan_put(w->full, 0, 1);
    chan_put(w->retry, 0, 1);
    w->watch = watch_make(reg, 0);
    w->bus = bus_make(reg, 2);
    assert_int_equal(ron_bus_subscribe(w->bus, &w->reader, NULL, NULL), RON_OK);
    assert_int_equal(ron_oneshot_new(no_drop, &w->slot), RON_OK);
}

/* Everything still works and holds exactly what it held before the wait. */
static void waits_check(struct waits *w)
{
    uint64_t out = 0;
    uint64_t missed = 0;
    uint64_t version = 0;
    void *item = NULL;
    size_t n = 0;

    chan_put(w->empty, 5, 1);
    chan_expect(w->empty, 5, 1);
    chan_expect(w->full, 0, 1);
    chan_expect_empty(w->full);
    chan_expect(w->retry, 0, 1);
    chan_expect_empty(w->retry);
    assert_int_equal(chan_stats(w->full).sent, 1);
    assert_int_equal(chan_stats(w->full).timeouts, 0);
    assert_int_equal(chan_stats(w->retry).sent, 1);
    assert_int_equal(chan_stats(w->retry).dropped, 0);
    ron_watch_set(w->watch, 3);
    assert_int_equal(ron_watch_wait(w->watch, 1, deadline_past(), &out, &version), RON_OK);
    assert_int_equal(ron_bus_publish(w->bus, &(uint64_t){8}), RON_OK);
    assert_int_equal(ron_bus_poll(&w->reader, &out, 1, &n, &missed), RON_OK);
    assert_int_equal(out, 8);
    assert_int_equal(ron_oneshot_answer(w->slot, msg(9)), RON_OK);
    assert_int_equal(ron_oneshot_wait(w->slot, deadline_past(), &item), RON_OK);
    assert_ptr_equal(item, msg(9));
}

static void waits_free(struct waits *w)
{
    ron_oneshot_leave(w->slot);
    ron_bus_unsubscribe(&w->reader);
    ron_bus_free(w->bus);
    ron_watch_free(w->watch);
    ron_chan_free(w->retry);
    ron_chan_free(w->full);
    ron_chan_free(w->empty);
}

static void run_wait(void *arg)
{
    struct waits *w = arg;

    while (w->wait_for_cancel && !ron_thread_cancelled()) {
        (void)sched_yield();
    }
    w->rc = w->wait(w);
}

static void cancel_each_kind(struct ron_registry *reg, bool before_it_waits)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(kinds); i++) {
        bool in_time = false;

        print_message("%s\n", kinds[i].name);
        /* The delay of retry_once ends by itself; a stalled machine may miss it and tries again. */
        while (!in_time) {
            struct waits w;
            struct ron_deadline delay;
            struct ron_thread *t;

            waits_make(&w, reg);
            w.wait = kinds[i].wait;
            w.wait_for_cancel = before_it_waits;
            delay = deadline_in_ms(RON_CHAN_RETRY_MAX_MS);
            t = thread_run(run_wait, &w);
            if (!before_it_waits) {
                (void)thread_wait_parked(t);
            }
            ron_thread_cancel(t);
            in_time =
                kinds[i].wait != wait_send_retry || !ron_deadline_expired(delay, ron_mono_ns());
            ron_thread_join(t);
            if (in_time) {
                assert_int_equal(w.rc, RON_CANCELLED);
                waits_check(&w);
            } else {
                ron_oneshot_drop(w.slot);
            }
            waits_free(&w); /* It asserts that all lots are empty. */
        }
    }
}

static void test_chan_cancel__each_kind_of_wait_asleep__cancelled_and_nothing_lost(void **state)
{
    cancel_each_kind(*state, false);
}

static void test_chan_cancel__each_kind_of_wait_before_it_begins__cancelled(void **state)
{
    cancel_each_kind(*state, true);
}

static void run_recv(void *arg)
{
    struct waits *w = arg;

    w->rc = wait_recv(w);
}

static void test_chan_cancel__message_ready__cancelled_thread_still_takes_it(void **state)
{
    struct waits w = {.empty = chan_make(*state, RON_CHAN_REJECT, 2), .wait_for_cancel = true};
    struct ron_thread *t;

    chan_put(w.empty, 0, 1);
    w.wait = wait_recv;
    t = thread_run(run_wait, &w);
    ron_thread_cancel(t);
    ron_thread_join(t);
    assert_int_equal(w.rc, RON_OK); /* Cancelling ends waits, not work that is there. */
    chan_expect_empty(w.empty);
    ron_chan_free(w.empty);
}

static size_t waiting_receivers(struct ron_chan *c)
{
    size_t n = 0;

    ron_mutex_lock(&c->mu);
    RON_LIST_FOREACH(node, &c->rx._waiting)
    {
        n++;
    }
    ron_mutex_unlock(&c->mu);
    return n;
}

/* Two receivers sleep. A message wakes the first, which is cancelled at the same moment: whoever of
 * the two gets the message, it is got, or is still there when both have ended. */
static void test_chan_cancel__woken_receiver_is_cancelled__wakeup_goes_to_the_next(void **state)
{
    enum { ROUNDS = 200 };
    struct ron_chan *c = chan_make(*state, RON_CHAN_REJECT, 2);

    for (int round = 0; round < ROUNDS; round++) {
        struct waits first = {.empty = c};
        struct waits second = {.empty = c};
        struct ron_thread *t1 = thread_run(run_recv, &first);
        struct ron_thread *t2;

        (void)thread_wait_parked(t1);
        t2 = thread_run(run_recv, &second);
        while (waiting_receivers(c) != 2) {
            (void)sched_yield();
        }
        if (round % 2 == 0) {
            ron_thread_cancel(t1);
            chan_put(c, 0, 1);
        } else {
            chan_put(c, 0, 1);
            ron_thread_cancel(t1);
        }
        ron_thread_join(t1);
        if (first.rc == RON_CANCELLED) {
            ron_thread_join(t2); /* It hangs if the wake-up was lost. */
            assert_int_equal(second.rc, RON_OK);
        } else {
            assert_int_equal(first.rc, RON_OK);
            ron_thread_cancel(t2);
            ron_thread_join(t2);
            assert_int_equal(second.rc, RON_CANCELLED);
        }
        chan_expect_empty(c);
    }
    assert_int_equal(chan_stats(c).received, ROUNDS);
    ron_chan_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_chan_cancel__each_kind_of_wait_asleep__cancelled_and_nothing_lost),
        CASE(test_chan_cancel__each_kind_of_wait_before_it_begins__cancelled),
        CASE(test_chan_cancel__message_ready__cancelled_thread_still_takes_it),
        CASE(test_chan_cancel__woken_receiver_is_cancelled__wakeup_goes_to_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
