/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: levels, edges, deadlines and wakes of the epoll poller.
 * Method: a connected pair as the event source; threads of sync as wakers. That wakes are coalesced
 * is seen from outside by the number of waits that return. */
#include "fixture.h"

#include "ron/sync/sync.h"

struct poll_case {
    const struct fixture *f;
    const struct ron_poller_ops *ops;
    struct ron_poller *p;
    struct fixture_pair pair;
};

static struct poll_case open_case(void **state)
{
    struct poll_case c = {.f = *state};

    c.ops = c.f->env->poller;
    assert_int_equal(c.ops->open(c.f->env, &c.p, NULL), RON_OK);
    c.pair = fixture_connect(c.f, "127.0.0.1:0");
    return c;
}

static void close_case(struct poll_case *c)
{
    c->ops->close(c->p);
    fixture_disconnect(c->f, &c->pair);
}

/* What is ready at this very moment. */
static size_t peek(const struct poll_case *c, struct ron_ready *ready, size_t max)
{
    return c->ops->wait(c->p, ready, max, ron_deadline_after_ns(0, 0));
}

static void send_byte(const struct poll_case *c)
{
    size_t len = 0;

    assert_int_equal(c->f->env->net->write(c->f->env, c->pair.client, "x", 1, &len), RON_OK);
    (void)fixture_await(c->f, c->pair.server, RON_IO_READ); /* it has arrived */
}

static void test_poller__level__is_reported_while_it_holds(void **state)
{
    struct poll_case c = open_case(state);
    struct ron_ready ready = {0};
    char buf[8];
    size_t len = 0;
    int tag = 0;

    assert_int_equal(c.ops->set(c.p, c.pair.server, RON_IO_READ, &tag), RON_OK);
    assert_int_equal(peek(&c, &ready, 1), 0);
    send_byte(&c);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(peek(&c, &ready, 1), 1);
        assert_ptr_equal(ready.user, &tag);
        assert_int_equal(ready.events, RON_IO_READ);
    }
    assert_int_equal(c.f->env->net->read(c.f->env, c.pair.server, buf, sizeof buf, &len), RON_OK);
    assert_int_equal(peek(&c, &ready, 1), 0);
    close_case(&c);
}

static void test_poller__edge__is_reported_once_per_change(void **state)
{
    struct poll_case c = open_case(state);
    struct ron_ready ready = {0};
    int tag = 0;

    send_byte(&c);
    assert_int_equal(c.ops->set(c.p, c.pair.server, RON_IO_READ | RON_IO_EDGE, &tag), RON_OK);
    assert_int_equal(peek(&c, &ready, 1), 1); /* what holds when it is set */
    assert_int_equal(peek(&c, &ready, 1), 0);
    send_byte(&c);
    assert_int_equal(peek(&c, &ready, 1), 1);
    assert_int_equal(peek(&c, &ready, 1), 0);
    close_case(&c);
}

static void test_poller__set_again__changes_and_removes(void **state)
{
    struct poll_case c = open_case(state);
    struct ron_ready ready = {0};
    int first = 0;
    int second = 0;

    assert_int_equal(c.ops->set(c.p, c.pair.server, RON_IO_READ, &first), RON_OK);
    assert_int_equal(c.ops->set(c.p, c.pair.server, RON_IO_WRITE, &second), RON_OK);
    assert_int_equal(peek(&c, &ready, 1), 1);
    assert_ptr_equal(ready.user, &second);
    assert_int_equal(ready.events, RON_IO_WRITE);
    assert_int_equal(c.ops->set(c.p, c.pair.server, 0, NULL), RON_OK);
    assert_int_equal(c.ops->set(c.p, c.pair.server, 0, NULL), RON_OK); /* nothing left to remove */
    assert_int_equal(peek(&c, &ready, 1), 0);
    close_case(&c);
}

static void test_poller__peer_closes__is_a_hangup(void **state)
{
    struct poll_case c = open_case(state);
    struct ron_ready ready = {0};

    assert_int_equal(c.ops->set(c.p, c.pair.server, RON_IO_READ, NULL), RON_OK);
    assert_int_equal(c.f->env->net->shutdown_write(c.f->env, c.pair.client), RON_OK);
    assert_int_equal(c.ops->wait(c.p, &ready, 1, fixture_soon(c.f)), 1);
    assert_int_equal(ready.events, RON_IO_READ | RON_IO_HUP);
    close_case(&c);
}

static void test_poller__more_ready_than_asked__rest_comes_next(void **state)
{
    struct poll_case c = open_case(state);
    struct ron_ready ready[2] = {{0}};
    int client = 0;
    int server = 0;

    assert_int_equal(c.ops->set(c.p, c.pair.client, RON_IO_WRITE | RON_IO_EDGE, &client), RON_OK);
    assert_int_equal(c.ops->set(c.p, c.pair.server, RON_IO_WRITE | RON_IO_EDGE, &server), RON_OK);
    assert_int_equal(peek(&c, &ready[0], 1), 1);
    assert_int_equal(peek(&c, &ready[1], 1), 1);
    assert_ptr_not_equal(ready[0].user, ready[1].user);
    assert_int_equal(peek(&c, ready, 2), 0);
    close_case(&c);
}

static void test_poller__deadline__is_never_undercut(void **state)
{
    struct poll_case c = open_case(state);
    struct ron_ready ready;

    for (uint64_t us = 1; us <= 3000; us += 700) {
        struct ron_deadline d = ron_deadline_after_ns(ron_env_now_ns(c.f->env), us * 1000);
        assert_int_equal(c.ops->wait(c.p, &ready, 1, d), 0);
        assert_true(ron_deadline_expired(d, ron_env_now_ns(c.f->env)));
    }
    close_case(&c);
}

static void test_poller__many_wakes__end_one_wait(void **state)
{
    struct poll_case c = open_case(state);
    struct ron_ready ready;
    struct ron_deadline short_while;

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++) {
            c.ops->wake(c.p);
        }
        assert_int_equal(c.ops->wait(c.p, &ready, 1, ron_deadline_never()),
                         0); /* returns at once */
        short_while = ron_deadline_after_ms(ron_env_now_ns(c.f->env), 2);
        assert_int_equal(c.ops->wait(c.p, &ready, 1, short_while), 0);
        assert_true(ron_deadline_expired(short_while, ron_env_now_ns(c.f->env))); /* not woken */
    }
    close_case(&c);
}

enum { WAKERS = 2, ROUNDS = 3000 };

struct wake_race {
    const struct ron_poller_ops *ops;
    struct ron_poller *p;
    struct ron_deadline soon;
    struct ron_au64 published;
    struct ron_au64 seen;
    struct ron_au32 lost;
};

/* Publishes, wakes, and goes on only when the waiter has seen it: so each round may find the waiter
 * asleep, falling asleep or awake. */
static void waker_main(void *arg)
{
    struct wake_race *race = arg;

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t mine = ron_au64_add(&race->published, 1) + 1;
        race->ops->wake(race->p);
        while (ron_au64_load(&race->seen) < mine) {
            if (ron_park_until(race->soon, "acknowledgement") == RON_TIMEOUT) {
                ron_au32_store(&race->lost, 1);
                return;
            }
        }
    }
}

static void test_poller__racing_wakes__none_is_lost(void **state)
{
    struct poll_case c = open_case(state);
    struct wake_race race = {.ops = c.ops, .p = c.p, .soon = fixture_soon(c.f)};
    struct ron_thread *thread[WAKERS];
    struct ron_ready ready;
    uint64_t seen = 0;
    uint64_t waits = 0;

    for (size_t i = 0; i < WAKERS; i++) {
        const struct ron_thread_opts opts = {
            .name = "waker", .may_block = true, .main = waker_main, .arg = &race};
        assert_int_equal(ron_thread_start(&opts, &thread[i], NULL), RON_OK);
    }
    while (seen < (uint64_t)WAKERS * ROUNDS && ron_au32_load(&race.lost) == 0) {
        (void)c.ops->wait(c.p, &ready, 1, race.soon);
        seen = ron_au64_load(&race.published);
        ron_au64_store(&race.seen, seen);
        for (size_t i = 0; i < WAKERS; i++) {
            ron_unpark(thread[i]);
        }
        waits++;
    }
    for (size_t i = 0; i < WAKERS; i++) {
        ron_thread_join(thread[i]);
    }
    assert_int_equal(ron_au32_load(&race.lost), 0);
    assert_int_equal(seen, (uint64_t)WAKERS * ROUNDS);
    print_message("%llu wakes ended %llu waits\n", (unsigned long long)seen,
                  (unsigned long long)waits);
    close_case(&c);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_poller__level__is_reported_while_it_holds),
        CASE(test_poller__edge__is_reported_once_per_change),
        CASE(test_poller__set_again__changes_and_removes),
        CASE(test_poller__peer_closes__is_a_hangup),
        CASE(test_poller__more_ready_than_asked__rest_comes_next),
        CASE(test_poller__deadline__is_never_undercut),
        CASE(test_poller__many_wakes__end_one_wait),
        CASE(test_poller__racing_wakes__none_is_lost),
    };

    return cmocka_run_group_tests_name("io.poller", tests, NULL, NULL);
}
