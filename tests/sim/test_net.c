/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the simulated network is a stream network with the semantics of the ports; each fault can
 * be seen, and none happens that is switched off.
 * Method: plain mode, two machines; one fault at a time. */
#include "sim/simtest.h"

static void test_net__calm_world__delivers_in_order_without_faults(void **state)
{
    static const enum sim_event faults[] = {
        SIM_EV_SLOW,        SIM_EV_LOSS,      SIM_EV_CLOG,  SIM_EV_CUT,
        SIM_EV_RESET,       SIM_EV_SHORT,     SIM_EV_RETRY, SIM_EV_GIVE_UP,
        SIM_EV_DUP_CONNECT, SIM_EV_IDLE_WAKE, SIM_EV_NO_FD, SIM_EV_REFUSE,
    };
    struct pair p = pair_calm();
    struct stream_result r = stream(&p, 1000000);

    (void)state;
    assert_int_equal(r.received, 1000000);
    for (size_t i = 0; i < RON_ARRAY_LEN(faults); i++) {
        assert_int_equal(sim_count(p.sim, faults[i]), 0);
    }
    pair_free(&p);
}

/* One option at a rate, everything else calm; a connected pair sends, and reconnects when it
 * breaks. */
static void check_fault(const char *option, enum sim_event event, bool may_break)
{
    struct sim_opts opts = sim_opts_calm();
    struct stream_result r = {0};
    uint64_t connects = 0;
    struct pair p;

    opts.net_clog_max_ns = 50000000;
    opts.net_cut_max_ns = 900000000;
    assert_true(sim_opts_parse(&opts, option));
    p = pair_new(support_seed(), &opts);
    while (sim_count(p.sim, event) == 0 && connects++ < 3000) {
        enum ron_rc rc = pair_connect(&p);
        if (rc == RON_OK) {
            r = stream(&p, 20000);
            SIM_CHECK(p.sim, may_break || r.received == 20000);
            p.server_env->net->close(p.server_env, p.server);
        } else {
            SIM_CHECK(p.sim, may_break || rc == RON_LIMIT);
        }
        if (p.client >= 0) {
            p.client_env->net->close(p.client_env, p.client);
            p.client = -1;
        }
    }
    if (sim_count(p.sim, event) == 0) {
        fail_msg("%s was never seen", option);
    }
    pair_free(&p);
}

static void test_net__each_fault_on__is_seen(void **state)
{
    (void)state;
    check_fault("net_slow_ppm=20000", SIM_EV_SLOW, false);
    check_fault("net_loss_ppm=20000", SIM_EV_LOSS, false);
    check_fault("net_reset_ppm=20000", SIM_EV_RESET, true);
    check_fault("net_dup_connect_ppm=20000", SIM_EV_DUP_CONNECT, true);
    check_fault("net_short_ppm=20000", SIM_EV_SHORT, false);
    check_fault("net_clog_ppm=20000", SIM_EV_CLOG, false);
    check_fault("net_cut_ppm=20000", SIM_EV_CUT, false);
    check_fault("net_idle_wake_ppm=20000", SIM_EV_IDLE_WAKE, false);
    check_fault("net_no_fd_ppm=20000", SIM_EV_NO_FD, false);
    check_fault("net_buf_bytes=64", SIM_EV_BACKPRESSURE, false);
}

static void test_net__nobody_listens__is_refused(void **state)
{
    struct pair p = pair_calm();
    char addr[RON_ADDR_MAX];
    int fd = -1;

    (void)state;
    assert_int_equal(
        p.client_env->net->connect(p.client_env, sim_host_addr(p.b, 9, addr), &fd, NULL), RON_OK);
    assert_int_equal(p.client_env->net->connect_result(p.client_env, fd), RON_AGAIN);
    assert_true(await(p.client_env, p.client_poller, fd, RON_IO_WRITE, in_ms(&p, 100)) &
                RON_IO_ERR);
    assert_int_equal(p.client_env->net->connect_result(p.client_env, fd), RON_IO);
    assert_int_equal(sim_count(p.sim, SIM_EV_REFUSE), 1);
    assert_int_equal(p.client_env->net->connect(p.client_env, "unix:/x", &fd, NULL), RON_NOTFOUND);
    assert_int_equal(p.client_env->net->connect(p.client_env, "8.8.8.8:53", &fd, NULL), RON_IO);
    pair_free(&p);
}

static void test_net__loopback_listener__is_hidden_from_other_machines(void **state)
{
    struct pair p = pair_calm();
    char addr[RON_ADDR_MAX];
    int listener = -1;
    int fd = -1;

    (void)state;
    assert_int_equal(p.server_env->net->listen(p.server_env, "127.0.0.1:81", NULL, &listener, NULL),
                     RON_OK);
    assert_int_equal(p.server_env->net->listen(p.server_env, "0.0.0.0:81", NULL, &fd, NULL),
                     RON_EXISTS);
    assert_int_equal(
        p.client_env->net->connect(p.client_env, sim_host_addr(p.b, 81, addr), &fd, NULL), RON_OK);
    (void)await(p.client_env, p.client_poller, fd, RON_IO_WRITE, in_ms(&p, 100));
    assert_int_equal(p.client_env->net->connect_result(p.client_env, fd), RON_IO);
    assert_int_equal(p.server_env->net->connect(p.server_env, "localhost:81", &fd, NULL), RON_OK);
    (void)await(p.server_env, p.server_poller, fd, RON_IO_WRITE, in_ms(&p, 100));
    assert_int_equal(p.server_env->net->connect_result(p.server_env, fd), RON_OK);
    pair_free(&p);
}

static void test_net__unix_socket__tells_who_connects(void **state)
{
    struct pair p = pair_calm();
    const struct ron_net_ops *net = p.server_env->net;
    struct ron_peer peer;
    int listener = -1;
    int client = -1;
    int server = -1;

    (void)state;
    assert_int_equal(net->listen(p.server_env, "unix:/run/x", NULL, &listener, NULL), RON_OK);
    assert_int_equal(net->connect(p.server_env, "unix:/run/x", &client, NULL), RON_OK);
    assert_true(await(p.server_env, p.server_poller, listener, RON_IO_READ, in_ms(&p, 10)) != 0);
    assert_int_equal(net->accept(p.server_env, listener, &server, &peer), RON_OK);
    assert_true(peer.has_cred);
    assert_string_equal(peer.addr, "unix:");
    pair_free(&p);
}

static void test_net__sendfile__copies_a_range_and_sees_a_short_file(void **state)
{
    struct pair p = pair_calm();
    const struct ron_env *env = p.server_env;
    char buf[16] = {0};
    size_t len = 0;
    int file = -1;

    (void)state;
    assert_int_equal(env->disk->open(env, "/f", RON_OPEN_READ | RON_OPEN_WRITE | RON_OPEN_CREATE,
                                     0600, &file, NULL),
                     RON_OK);
    assert_int_equal(env->disk->pwrite(env, file, "0123456789", 10, 0, NULL), RON_OK);
    assert_int_equal(env->net->sendfile(env, p.server, file, 3, 4, &len), RON_OK);
    assert_int_equal(len, 4);
    assert_true(await_client(&p, RON_IO_READ) != 0);
    assert_int_equal(p.client_env->net->read(p.client_env, p.client, buf, sizeof buf, &len),
                     RON_OK);
    assert_memory_equal(buf, "3456", 4);
    assert_int_equal(env->net->sendfile(env, p.server, file, 10, 1, &len), RON_IO);
    pair_free(&p);
}

static void test_net__half_close__ends_one_way_only(void **state)
{
    struct pair p = pair_calm();
    char buf[8];
    size_t len = 0;

    (void)state;
    assert_int_equal(p.client_env->net->write(p.client_env, p.client, "last", 4, &len), RON_OK);
    assert_int_equal(p.client_env->net->shutdown_write(p.client_env, p.client), RON_OK);
    assert_int_equal(p.client_env->net->write(p.client_env, p.client, "x", 1, &len), RON_CLOSED);
    sim_advance(p.sim, RON_NS_PER_S);
    assert_int_equal(await_server(&p, RON_IO_READ), RON_IO_READ | RON_IO_HUP);
    assert_int_equal(p.server_env->net->read(p.server_env, p.server, buf, sizeof buf, &len),
                     RON_OK);
    assert_memory_equal(buf, "last", 4);
    assert_int_equal(p.server_env->net->read(p.server_env, p.server, buf, sizeof buf, &len),
                     RON_CLOSED);
    assert_int_equal(p.server_env->net->write(p.server_env, p.server, "more", 4, &len), RON_OK);
    assert_int_equal(await_client(&p, RON_IO_READ), RON_IO_READ);
    assert_int_equal(p.client_env->net->read(p.client_env, p.client, buf, sizeof buf, &len),
                     RON_OK);
    pair_free(&p);
}

static void test_net__peer_closed__write_is_closed_soon(void **state)
{
    struct pair p = pair_calm();
    size_t len = 0;
    enum ron_rc rc = RON_OK;

    (void)state;
    p.server_env->net->close(p.server_env, p.server);
    for (int i = 0; i < 100 && rc == RON_OK; i++) {
        rc = p.client_env->net->write(p.client_env, p.client, "x", 1, &len);
        sim_advance(p.sim, RON_NS_PER_MS);
    }
    assert_int_equal(rc, RON_CLOSED);
    pair_free(&p);
}

static void test_net__slow_reader__stops_the_writer(void **state)
{
    struct pair p = pair_calm();
    size_t sent = 0;
    size_t got = 0;
    enum ron_rc rc;

    (void)state;
    sim_options(p.sim)->net_buf_bytes = 1000;
    while ((rc = stream_send(&p, 5000, &sent)) == RON_OK) {
        assert_true(sent <= 1000);
    }
    assert_int_equal(rc, RON_AGAIN);
    assert_int_equal(sent, 1000);
    sim_advance(p.sim, RON_NS_PER_S);
    assert_int_equal(stream_send(&p, 5000, &sent), RON_AGAIN); /* arriving is not being read */
    assert_int_equal(stream_recv(&p, &got), RON_OK);
    assert_int_equal(await_client(&p, RON_IO_WRITE), RON_IO_WRITE);
    assert_int_equal(stream_send(&p, 5000, &sent), RON_OK);
    pair_free(&p);
}

static void test_net__full_backlog__makes_connects_wait(void **state)
{
    struct pair p = pair_calm();
    const struct ron_net_ops *net = p.server_env->net;
    const struct ron_listen_opts tiny = {.backlog = 1};
    char addr[RON_ADDR_MAX];
    int listener = -1;
    int fd[2] = {-1, -1};
    int conn = -1;

    (void)state;
    (void)sim_host_addr(p.b, 80, addr);
    assert_int_equal(net->listen(p.server_env, addr, &tiny, &listener, NULL), RON_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(net->connect(p.client_env, addr, &fd[i], NULL), RON_OK);
    }
    sim_advance(p.sim, RON_NS_PER_S);
    assert_true(sim_count(p.sim, SIM_EV_BACKLOG_FULL) > 0);
    assert_true((net->connect_result(p.client_env, fd[0]) == RON_OK) !=
                (net->connect_result(p.client_env, fd[1]) == RON_OK));
    assert_int_equal(net->accept(p.server_env, listener, &conn, NULL), RON_OK);
    sim_advance(p.sim, 5 * RON_NS_PER_S);
    assert_int_equal(net->connect_result(p.client_env, fd[0]), RON_OK);
    assert_int_equal(net->connect_result(p.client_env, fd[1]), RON_OK);
    pair_free(&p);
}

static void test_net__cut_and_healed__loses_nothing(void **state)
{
    struct pair p = pair_calm();
    size_t sent = 0;
    size_t got = 0;

    (void)state;
    sim_cut(p.a, p.b);
    assert_int_equal(stream_send(&p, 100, &sent), RON_OK);
    sim_advance(p.sim, 5 * RON_NS_PER_S);
    assert_int_equal(stream_recv(&p, &got), RON_AGAIN);
    assert_true(sim_count(p.sim, SIM_EV_RETRY) > 0);
    sim_heal(p.a, p.b);
    sim_advance(p.sim, 3 * RON_NS_PER_S);
    assert_int_equal(stream_recv(&p, &got), RON_OK);
    assert_int_equal(got, 100);
    pair_free(&p);
}

static void test_net__cut_one_way__the_other_way_works(void **state)
{
    struct pair p = pair_calm();
    char buf[8];
    size_t len = 0;
    size_t sent = 0;
    size_t got = 0;

    (void)state;
    sim_cut(p.a, p.b);
    assert_int_equal(p.server_env->net->write(p.server_env, p.server, "hi", 2, &len), RON_OK);
    assert_int_equal(await_client(&p, RON_IO_READ), RON_IO_READ);
    assert_int_equal(p.client_env->net->read(p.client_env, p.client, buf, sizeof buf, &len),
                     RON_OK);
    assert_int_equal(stream_send(&p, 10, &sent), RON_OK);
    sim_advance(p.sim, RON_NS_PER_S);
    assert_int_equal(stream_recv(&p, &got), RON_AGAIN);
    pair_free(&p);
}

static void test_net__cut_for_long__the_sender_gives_up_alone(void **state)
{
    struct pair p = pair_calm();
    size_t sent = 0;
    size_t got = 0;

    (void)state;
    sim_cut(p.a, p.b);
    assert_int_equal(stream_send(&p, 100, &sent), RON_OK);
    assert_true(await_client(&p, RON_IO_READ) & RON_IO_ERR);
    assert_int_equal(stream_send(&p, 200, &sent), RON_TIMEOUT);
    assert_int_equal(sim_count(p.sim, SIM_EV_GIVE_UP), 1);
    assert_int_equal(stream_recv(&p, &got), RON_AGAIN); /* nobody told the other side */
    sim_heal_all(p.sim);
    assert_int_equal(p.server_env->net->write(p.server_env, p.server, "x", 1, &got), RON_OK);
    assert_true(await_server(&p, RON_IO_READ) & RON_IO_ERR); /* until it speaks */
    pair_free(&p);
}

static void test_net__clogged__arrives_after_the_clog(void **state)
{
    struct pair p = pair_calm();
    uint64_t until_ns = sim_now_ns(p.sim) + 3 * RON_NS_PER_S;
    size_t sent = 0;

    (void)state;
    sim_clog(p.a, p.b, until_ns);
    assert_int_equal(stream_send(&p, 10, &sent), RON_OK);
    assert_int_equal(await_server(&p, RON_IO_READ), RON_IO_READ);
    assert_true(sim_now_ns(p.sim) >= until_ns);
    pair_free(&p);
}

static void test_net__reset_on_demand__both_sides_see_it(void **state)
{
    struct pair p = pair_calm();
    char byte;
    size_t len = 0;

    (void)state;
    sim_reset(p.a, p.b);
    assert_true(await_client(&p, RON_IO_READ) & RON_IO_ERR);
    assert_true(await_server(&p, RON_IO_READ) & RON_IO_ERR);
    assert_int_equal(p.client_env->net->read(p.client_env, p.client, &byte, 1, &len), RON_CLOSED);
    assert_int_equal(p.server_env->net->read(p.server_env, p.server, &byte, 1, &len), RON_CLOSED);
    pair_free(&p);
}

static void test_net__different_connections__may_overtake(void **state)
{
    struct sim_opts opts = sim_opts_calm();
    bool overtaken = false;

    (void)state;
    opts.net_delay_max_ns = 50000000;
    for (uint64_t i = 0; i < 200 && !overtaken; i++) {
        struct pair p = pair_new(support_seed() + i, &opts);
        const struct ron_net_ops *net = p.client_env->net;
        int first = -1;
        size_t len = 0;
        size_t got = 0;

        assert_int_equal(pair_connect(&p), RON_OK);
        first = p.client;
        int first_server = p.server;
        assert_int_equal(pair_connect(&p), RON_OK);
        assert_int_equal(net->write(p.client_env, first, "1", 1, &len), RON_OK);
        assert_int_equal(stream_send(&p, 1, &got), RON_OK);
        (void)await_server(&p, RON_IO_READ);
        overtaken = net->read(p.server_env, first_server, &(char){0}, 1, &len) == RON_AGAIN;
        pair_free(&p);
    }
    assert_true(overtaken);
}

static void test_net__process_killed__peer_is_told(void **state)
{
    struct pair p = pair_calm();

    (void)state;
    sim_host_kill(p.b);
    assert_true(sim_env_is_dead(p.server_env));
    assert_true(await_client(&p, RON_IO_READ) & RON_IO_HUP);
    pair_free(&p);
}

static void test_net__power_lost__peer_learns_only_by_speaking(void **state)
{
    struct pair p = pair_calm();
    char byte;
    size_t len = 0;
    size_t sent = 0;

    (void)state;
    sim_host_power_loss(p.b);
    assert_int_equal(p.server_env->net->read(p.server_env, p.server, &byte, 1, &len), RON_CLOSED);
    assert_int_equal(await(p.client_env, p.client_poller, p.client, RON_IO_READ, in_ms(&p, 100000)),
                     0);
    assert_int_equal(stream_send(&p, 10, &sent), RON_OK);
    sim_advance(p.sim, RON_NS_PER_S);
    (void)sim_host_boot(p.b);
    assert_true(await_client(&p, RON_IO_READ) &
                RON_IO_ERR); /* the new life knows no such connection */
    assert_int_equal(p.client_env->net->read(p.client_env, p.client, &byte, 1, &len), RON_CLOSED);
    pair_free(&p);
}

static void test_net__shared_port__spreads_connects(void **state)
{
    struct pair p = pair_calm();
    const struct ron_net_ops *net = p.server_env->net;
    const struct ron_listen_opts shared = {.reuse_port = true};
    int listener[2] = {-1, -1};
    int accepted[2] = {0, 0};
    char addr[RON_ADDR_MAX];
    int fd = -1;

    (void)state;
    (void)sim_host_addr(p.b, 80, addr);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(net->listen(p.server_env, addr, &shared, &listener[i], NULL), RON_OK);
    }
    for (int i = 0; i < 64; i++) {
        assert_int_equal(net->connect(p.client_env, addr, &fd, NULL), RON_OK);
    }
    sim_advance(p.sim, RON_NS_PER_S);
    for (int i = 0; i < 2; i++) {
        while (net->accept(p.server_env, listener[i], &fd, NULL) == RON_OK) {
            accepted[i]++;
        }
    }
    assert_int_equal(accepted[0] + accepted[1], 64);
    assert_true(accepted[0] > 0 && accepted[1] > 0);
    pair_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_net__calm_world__delivers_in_order_without_faults),
        cmocka_unit_test(test_net__each_fault_on__is_seen),
        cmocka_unit_test(test_net__nobody_listens__is_refused),
        cmocka_unit_test(test_net__loopback_listener__is_hidden_from_other_machines),
        cmocka_unit_test(test_net__unix_socket__tells_who_connects),
        cmocka_unit_test(test_net__sendfile__copies_a_range_and_sees_a_short_file),
        cmocka_unit_test(test_net__half_close__ends_one_way_only),
        cmocka_unit_test(test_net__peer_closed__write_is_closed_soon),
        cmocka_unit_test(test_net__slow_reader__stops_the_writer),
        cmocka_unit_test(test_net__full_backlog__makes_connects_wait),
        cmocka_unit_test(test_net__cut_and_healed__loses_nothing),
        cmocka_unit_test(test_net__cut_one_way__the_other_way_works),
        cmocka_unit_test(test_net__cut_for_long__the_sender_gives_up_alone),
        cmocka_unit_test(test_net__clogged__arrives_after_the_clog),
        cmocka_unit_test(test_net__reset_on_demand__both_sides_see_it),
        cmocka_unit_test(test_net__different_connections__may_overtake),
        cmocka_unit_test(test_net__process_killed__peer_is_told),
        cmocka_unit_test(test_net__power_lost__peer_learns_only_by_speaking),
        cmocka_unit_test(test_net__shared_port__spreads_connects),
    };

    return cmocka_run_group_tests_name("sim.net", tests, NULL, NULL);
}
