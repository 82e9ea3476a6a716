/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the simulated poller reports what epoll would: levels, edges, hangups, wakes, deadlines.
 * Method: plain mode; the same cases as tests/unit/io/test_poller.c. */
#include "sim/simtest.h"

static size_t peek(const struct pair *p, struct ron_ready *ready, size_t max)
{
    return p->server_env->poller->wait(p->server_poller, ready, max, ron_deadline_after_ns(0, 0));
}

static void send_byte(const struct pair *p)
{
    size_t len = 0;

    assert_int_equal(p->client_env->net->write(p->client_env, p->client, "x", 1, &len), RON_OK);
    sim_advance(p->sim, RON_NS_PER_S);
}

static void watch(const struct pair *p, uint32_t events, void *user)
{
    assert_int_equal(p->server_env->poller->set(p->server_poller, p->server, events, user), RON_OK);
}

static void test_poller__level__is_reported_while_it_holds(void **state)
{
    struct pair p = pair_calm();
    struct ron_ready ready = {0};
    size_t len = 0;
    char buf[8];
    int tag = 0;

    (void)state;
    watch(&p, RON_IO_READ, &tag);
    assert_int_equal(peek(&p, &ready, 1), 0);
    send_byte(&p);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(peek(&p, &ready, 1), 1);
        assert_ptr_equal(ready.user, &tag);
        assert_int_equal(ready.events, RON_IO_READ);
    }
    assert_int_equal(p.server_env->net->read(p.server_env, p.server, buf, sizeof buf, &len),
                     RON_OK);
    assert_int_equal(peek(&p, &ready, 1), 0);
    pair_free(&p);
}

static void test_poller__edge__is_reported_once_per_change(void **state)
{
    struct pair p = pair_calm();
    struct ron_ready ready = {0};

    (void)state;
    send_byte(&p);
    watch(&p, RON_IO_READ | RON_IO_EDGE, NULL);
    assert_int_equal(peek(&p, &ready, 1), 1);
    assert_int_equal(peek(&p, &ready, 1), 0);
    send_byte(&p);
    assert_int_equal(peek(&p, &ready, 1), 1);
    assert_int_equal(peek(&p, &ready, 1), 0);
    watch(&p, RON_IO_READ | RON_IO_EDGE, NULL); /* set again: reported again */
    assert_int_equal(peek(&p, &ready, 1), 1);
    pair_free(&p);
}

static void test_poller__edge_after_short_transfer__comes_again(void **state)
{
    struct pair p = pair_calm();
    struct ron_ready ready = {0};
    size_t len = 0;
    size_t got = 0;
    char buf[16];

    (void)state;
    watch(&p, RON_IO_READ | RON_IO_EDGE, NULL);
    assert_int_equal(p.client_env->net->write(p.client_env, p.client, "0123456789", 10, &len),
                     RON_OK);
    sim_options(p.sim)->net_short_ppm = 1000000;
    while (got < 10) {
        /* Reads once per edge, as the manual of epoll allows after a read of fewer bytes than
         * asked. */
        assert_int_equal(p.server_env->poller->wait(p.server_poller, &ready, 1, in_ms(&p, 1000)),
                         1);
        assert_int_equal(p.server_env->net->read(p.server_env, p.server, buf, sizeof buf, &len),
                         RON_OK);
        got += len;
    }
    assert_true(sim_count(p.sim, SIM_EV_SHORT) > 0);
    pair_free(&p);
}

static void test_poller__set_again_or_closed__changes_and_removes(void **state)
{
    struct pair p = pair_calm();
    struct ron_ready ready = {0};
    int first = 0;
    int second = 0;

    (void)state;
    watch(&p, RON_IO_READ, &first);
    watch(&p, RON_IO_WRITE, &second);
    assert_int_equal(peek(&p, &ready, 1), 1);
    assert_ptr_equal(ready.user, &second);
    assert_int_equal(ready.events, RON_IO_WRITE);
    watch(&p, 0, NULL);
    watch(&p, 0, NULL);
    assert_int_equal(peek(&p, &ready, 1), 0);
    watch(&p, RON_IO_WRITE, &second);
    p.server_env->net->close(p.server_env, p.server);
    assert_int_equal(peek(&p, &ready, 1), 0);
    pair_free(&p);
}

static void test_poller__more_ready_than_asked__rest_comes_next(void **state)
{
    struct pair p = pair_calm();
    struct ron_ready ready[2] = {{0}};
    int first = 0;
    int second = 0;
    int other;

    (void)state;
    other = p.server;
    assert_int_equal(pair_connect(&p), RON_OK);
    watch(&p, RON_IO_WRITE | RON_IO_EDGE, &first);
    p.server = other;
    watch(&p, RON_IO_WRITE | RON_IO_EDGE, &second);
    assert_int_equal(peek(&p, &ready[0], 1), 1);
    assert_int_equal(peek(&p, &ready[1], 1), 1);
    assert_ptr_not_equal(ready[0].user, ready[1].user);
    assert_int_equal(peek(&p, ready, 2), 0);
    pair_free(&p);
}

static void test_poller__wake_and_deadline__end_a_wait(void **state)
{
    struct pair p = pair_calm();
    struct ron_ready ready;
    uint64_t start_ns = sim_now_ns(p.sim);

    (void)state;
    for (int i = 0; i < 5; i++) {
        p.server_env->poller->wake(p.server_poller);
    }
    assert_int_equal(p.server_env->poller->wait(p.server_poller, &ready, 1, ron_deadline_never()),
                     0);
    assert_int_equal(sim_now_ns(p.sim), start_ns);
    assert_int_equal(p.server_env->poller->wait(p.server_poller, &ready, 1, in_ms(&p, 7)), 0);
    assert_int_equal(sim_now_ns(p.sim), start_ns + 7 * RON_NS_PER_MS);
    pair_free(&p);
}

static void test_poller__machine_off__wait_still_ends(void **state)
{
    struct pair p = pair_calm();
    struct ron_ready ready;

    (void)state;
    send_byte(&p);
    watch(&p, RON_IO_READ, NULL);
    sim_host_power_loss(p.b);
    assert_int_equal(p.server_env->poller->wait(p.server_poller, &ready, 1, in_ms(&p, 5)), 0);
    p.server_env->poller->wake(p.server_poller);
    assert_int_equal(p.server_env->poller->wait(p.server_poller, &ready, 1, ron_deadline_never()),
                     0);
    assert_int_equal(p.server_env->poller->set(p.server_poller, 3, RON_IO_READ, NULL), RON_CLOSED);
    p.server_env->poller->close(p.server_poller);
    pair_free(&p);
}

static void wait_for_nothing(void *arg)
{
    struct pair *p = arg;
    struct ron_ready ready;

    sim_advance(p->sim, 60 * RON_NS_PER_S);
    (void)p->server_env->poller->wait(p->server_poller, &ready, 1, ron_deadline_never());
}

static void test_poller__nothing_can_come__is_reported_with_the_seed(void **state)
{
    struct pair p = pair_calm();

    (void)state;
    support_death(wait_for_nothing, &p, "waits for ever", "SEED=", "reproduce with RON_SEED=");
    pair_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_poller__level__is_reported_while_it_holds),
        cmocka_unit_test(test_poller__edge__is_reported_once_per_change),
        cmocka_unit_test(test_poller__edge_after_short_transfer__comes_again),
        cmocka_unit_test(test_poller__set_again_or_closed__changes_and_removes),
        cmocka_unit_test(test_poller__more_ready_than_asked__rest_comes_next),
        cmocka_unit_test(test_poller__wake_and_deadline__end_a_wait),
        cmocka_unit_test(test_poller__machine_off__wait_still_ends),
        cmocka_unit_test(test_poller__nothing_can_come__is_reported_with_the_seed),
    };

    return cmocka_run_group_tests_name("sim.poller", tests, NULL, NULL);
}
