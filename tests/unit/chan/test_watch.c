/* SPDX-License-Identifier: Apache-2.0 */
/* test_watch.c - the latest value and the wait for its change.
 *
 * Goal: the last write wins, a late subscriber sees the current value, and no change after the look
 *   can be missed (K-21); a wait is measured by the version and not by the value.
 * Method: exact sequences, pollers with counting wakers, parked threads, and a stream of sets that
 *   a reader follows to its end.
 */
#include "chan/chan_priv.h"
#include "unit/chan/fixture.h"

struct follower {
    struct ron_watch *watch;
    uint64_t seen;
    uint64_t until; /* ends when it has seen this value */
    uint64_t value;
    uint64_t version;
    uint64_t waits;
    bool fell_back; /* a value or version went backwards */
    enum ron_rc rc;
};

static void follow(void *arg)
{
    struct follower *f = arg;

    f->value = ron_watch_get(f->watch, &f->version);
    while (f->value != f->until) {
        uint64_t value = 0;
        uint64_t version = 0;

        f->rc = ron_watch_wait(f->watch, f->version, ron_deadline_never(), &value, &version);
        if (f->rc != RON_OK) {
            return;
        }
        f->fell_back = f->fell_back || value < f->value || version <= f->version;
        f->value = value;
        f->version = version;
        f->waits++;
    }
}

static void wait_once(void *arg)
{
    struct follower *f = arg;

    f->rc = ron_watch_wait(f->watch, f->seen, ron_deadline_never(), &f->value, &f->version);
}

static void test_watch__late_subscriber__sees_the_current_value(void **state)
{
    struct ron_watch *w = watch_make(*state, 7);
    uint64_t value = 0;
    uint64_t version = 0;

    assert_int_equal(ron_watch_value(w), 7);
    assert_int_equal(ron_watch_get(w, &version), 7);
    assert_int_equal(version, 1);
    ron_watch_set(w, 8);
    ron_watch_set(w, 9); /* 8 is never seen: the last write wins. */
    assert_int_equal(ron_watch_get(w, &version), 9);
    assert_int_equal(version, 3);
    /* One that has seen nothing yet does not wait at all. */
    assert_int_equal(ron_watch_wait(w, 0, ron_deadline_never(), &value, &version), RON_OK);
    assert_int_equal(value, 9);
    assert_int_equal(version, 3);
    ron_watch_free(w);
    ron_watch_free(NULL);
}

static void test_watch__equal_value_set__is_a_change_too(void **state)
{
    struct ron_watch *w = watch_make(*state, 1);
    uint64_t version = 0;
    uint64_t value = 0;

    assert_int_equal(ron_watch_wait(w, 1, deadline_past(), &value, &version), RON_TIMEOUT);
    ron_watch_set(w, 1);
    assert_int_equal(ron_watch_wait(w, 1, deadline_past(), &value, &version), RON_OK);
    assert_int_equal(version, 2);
    ron_watch_free(w);
}

static void test_watch__no_change__timeout_and_outputs_untouched(void **state)
{
    struct ron_watch *w = watch_make(*state, 1);
    struct ron_deadline soon = deadline_in_ms(5);
    uint64_t version = 42;
    uint64_t value = 43;

    assert_int_equal(ron_watch_wait(w, 1, deadline_past(), &value, &version), RON_TIMEOUT);
    assert_int_equal(ron_watch_wait(w, 1, soon, &value, &version), RON_TIMEOUT);
    assert_true(ron_deadline_expired(soon, ron_mono_ns()));
    assert_int_equal(version, 42);
    assert_int_equal(value, 43);
    ron_watch_free(w);
}

static void test_watch__set__wakes_every_waiter(void **state)
{
    struct ron_watch *w = watch_make(*state, 0);
    struct follower f[3];
    struct ron_thread *t[RON_ARRAY_LEN(f)];
    struct poller p;
    uint64_t value = 0;
    uint64_t version = 0;

    poller_init(&p);
    assert_int_equal(ron_watch_poll(w, 1, &p.node, &value, &version), RON_AGAIN);
    for (size_t i = 0; i < RON_ARRAY_LEN(f); i++) {
        f[i] = (struct follower){.watch = w, .seen = 1};
        t[i] = thread_run(wait_once, &f[i]);
        assert_true(thread_wait_parked(t[i]));
    }
    ron_watch_set(w, 5);
    for (size_t i = 0; i < RON_ARRAY_LEN(f); i++) {
        ron_thread_join(t[i]);
        assert_int_equal(f[i].rc, RON_OK);
        assert_int_equal(f[i].value, 5);
        assert_int_equal(f[i].version, 2);
    }
    assert_int_equal(p.calls, 1);
    assert_int_equal(ron_watch_poll(w, 1, &p.node, &value, &version), RON_OK);
    assert_int_equal(value, 5);
    assert_int_equal(ron_watch_poll(w, 2, &p.node, &value, &version), RON_AGAIN);
    ron_watch_forget(w, &p.node);
    ron_watch_set(w, 6);
    assert_int_equal(p.calls, 1);
    ron_watch_free(w);
}

/* A waker that looks and waits again at once. */
struct eager {
    struct poller poller;
    struct ron_watch *watch;
    uint64_t version;
};

static void eager_wake(struct ron_waker *w)
{
    struct poller *p = RON_CONTAINER_OF(w, struct poller, waker);
    struct eager *e = RON_CONTAINER_OF(p, struct eager, poller);
    uint64_t value;

    p->calls++;
    while (p->calls < 100 &&
           ron_watch_poll(e->watch, e->version, &p->node, &value, &e->version) == RON_OK) {
    }
}

static void test_watch__waits_again_during_a_set__woken_once_per_set(void **state)
{
    struct ron_watch *w = watch_make(*state, 0);
    struct eager e = {.watch = w, .version = 1};
    uint64_t value = 0;

    poller_init(&e.poller);
    e.poller.waker.wake = eager_wake;
    assert_int_equal(ron_watch_poll(w, 1, &e.poller.node, &value, &e.version), RON_AGAIN);
    ron_watch_set(w, 1);
    ron_watch_set(w, 2);
    assert_int_equal(e.poller.calls, 2);
    assert_int_equal(e.version, 3);
    ron_watch_forget(w, &e.poller.node);
    ron_watch_free(w);
}

static void test_watch__stream_of_sets__followers_reach_the_last_value(void **state)
{
    enum { LAST = 20000 };
    struct ron_watch *w = watch_make(*state, 0);
    struct follower f[2];
    struct ron_thread *t[RON_ARRAY_LEN(f)];

    for (size_t i = 0; i < RON_ARRAY_LEN(f); i++) {
        f[i] = (struct follower){.watch = w, .until = LAST};
        t[i] = thread_run(follow, &f[i]);
    }
    for (uint64_t value = 1; value <= LAST; value++) {
        ron_watch_set(w, value);
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(f); i++) {
        ron_thread_join(t[i]);
        assert_int_equal(f[i].rc, RON_OK);
        assert_int_equal(f[i].value, LAST);
        assert_int_equal(f[i].version, LAST + 1);
        assert_true(f[i].waits <= LAST);
        assert_false(f[i].fell_back);
    }
    ron_watch_free(w);
}

static void test_watch__made_without_a_name__refused(void **state)
{
    struct ron_watch *w = NULL;
    struct ron_err err = {0};
    struct ron_watch_opts opts = {.registry = *state, .producers = "test", .consumers = "test"};

    assert_int_equal(ron_watch_new(&opts, &w, &err), RON_INVALID);
    assert_non_null(strstr(err.msg, "watch: the name ''"));
    opts.name = "ready";
    opts.consumers = NULL;
    assert_int_equal(ron_watch_new(&opts, &w, &err), RON_INVALID);
    assert_non_null(strstr(err.msg, "watch 'ready': 'consumers' must be stated"));
    assert_null(w);
}

static void free_with_waiter(void *arg)
{
    struct poller p;
    uint64_t value;
    uint64_t version;

    poller_init(&p);
    RON_ASSERT(ron_watch_poll(arg, 1, &p.node, &value, &version) == RON_AGAIN);
    ron_watch_free(arg);
}

static void test_watch__freed_with_a_waiter__asserts(void **state)
{
    struct ron_watch *w = watch_make(*state, 0);

    support_death(free_with_waiter, w, "ron__lot_idle(&w->lot)");
    ron_watch_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_watch__late_subscriber__sees_the_current_value),
        CASE(test_watch__equal_value_set__is_a_change_too),
        CASE(test_watch__no_change__timeout_and_outputs_untouched),
        CASE(test_watch__set__wakes_every_waiter),
        CASE(test_watch__waits_again_during_a_set__woken_once_per_set),
        CASE(test_watch__stream_of_sets__followers_reach_the_last_value),
        CASE(test_watch__made_without_a_name__refused),
        CASE(test_watch__freed_with_a_waiter__asserts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
