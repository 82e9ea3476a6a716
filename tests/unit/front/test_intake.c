/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the workers of a front share its addresses as ron/front/intake.h says, leave a socket alone
 * that cannot accept, and leave nothing open.
 * Method: a front that only counts who came where, on real sockets; a network port that fails on
 * request. Workers record, the test thread judges. */
#include "ron/front/intake.h"

#include <sys/stat.h>

#include "unit/task/fixture.h"

enum { WORKERS = 2, CONNS = 40, PROBES = 1 }; /* a probe for each TCP address */

struct front {
    struct fx *fx;
    struct ron_env env; /* with the ports below; the intake outlives the executor */
    struct ron_net_ops net;
    struct ron_intake *in;
    struct worker {
        struct front *f;
        uint32_t index;
        struct ron_au32 accepted[RON_INTAKE_ADDRS_MAX];
    } workers[WORKERS];
    struct fx_gate came;
    bool call_at_the_end; /* when the poller is not asked any more */
    char dir[64];
    char unix_addrs[2][96];
    /* The network port below. */
    struct ron_au32 accepts_to_fail;
    struct ron_au32 accept_calls;
    struct ron_au64 failed_ns;
    struct ron_au64 next_ns; /* first call after the failure */
    uint32_t listens_left;   /* then they fail */
    uint32_t listens, closes;
};

static struct front *here; /* of the running test: the ports have no context of their own */

static enum ron_rc net_accept(const struct ron_env *env, int fd, int *ret_fd, struct ron_peer *peer)
{
    uint32_t calls = ron_au32_add(&here->accept_calls, 1);

    if (calls < ron_au32_load(&here->accepts_to_fail)) {
        ron_au64_store(&here->failed_ns, ron_env_now_ns(env));
        return RON_LIMIT;
    }
    if (calls == ron_au32_load(&here->accepts_to_fail)) {
        ron_au64_store(&here->next_ns, ron_env_now_ns(env));
    }
    return ron_env_linux()->net->accept(env, fd, ret_fd, peer);
}

static enum ron_rc net_listen(const struct ron_env *env, const char *addr,
                              const struct ron_listen_opts *opts, int *ret_fd, struct ron_err *err)
{
    if (here->listens_left == 0) {
        return ron_err_set(err, RON_IO, "on purpose");
    }
    here->listens_left--;
    here->listens++;
    return ron_env_linux()->net->listen(env, addr, opts, ret_fd, err);
}

static void net_close(const struct ron_env *env, int fd)
{
    here->closes++;
    ron_env_linux()->net->close(env, fd);
}

static void call_in(const char *addr)
{
    const struct ron_env *env = ron_env_linux();
    int fd = -1;
    enum ron_rc rc = env->net->connect(env, addr, &fd, NULL);

    RON_ASSERT(rc == RON_OK || rc == RON_AGAIN);
    env->net->close(env, fd);
}

static enum ron_rc on_start(struct ron_task *t, void *worker)
{
    struct worker *w = worker;

    ron_intake_begin(w->f->in, w->index, t);
    return RON_OK;
}

static enum ron_rc on_handle(struct ron_task *t, void *worker, void **items, size_t count)
{
    (void)t;
    (void)worker;
    (void)items;
    (void)count;
    return RON_OK;
}

static void on_drain(struct ron_task *t, void *worker)
{
    (void)worker;
    ron_task_intake_stopped(t);
}

static void on_stop(struct ron_task *t, void *worker)
{
    struct worker *w = worker;

    (void)t;
    if (w->f->call_at_the_end && w->index == 0) {
        call_in(w->f->unix_addrs[0]);
        call_in(w->f->unix_addrs[0]);
    }
    ron_intake_end(w->f->in, w->index);
}

static uint64_t on_tick(void *worker)
{
    struct worker *w = worker;

    return ron_env_now_ns(&w->f->env) / RON_NS_PER_MS;
}

static void on_accepted(void *worker, size_t at, int take_fd, const struct ron_peer *peer)
{
    struct worker *w = worker;

    (void)peer;
    ron_env_linux()->net->close(ron_env_linux(), take_fd);
    (void)ron_au32_add(&w->accepted[at], 1);
    fx_gate_add(&w->f->came, 1);
}

static const struct ron_intake_ops ops = {.start = on_start,
                                          .handle = on_handle,
                                          .drain = on_drain,
                                          .stop = on_stop,
                                          .tick = on_tick,
                                          .accepted = on_accepted};

static struct front *front_new(void)
{
    struct front *f = calloc(1, sizeof *f);

    RON_ASSERT(f != NULL);
    here = f;
    f->fx = fx_open(WORKERS);
    f->net = *ron_env_linux()->net;
    f->net.accept = net_accept;
    f->net.listen = net_listen;
    f->net.close = net_close;
    f->env = *ron_env_linux();
    f->env.net = &f->net;
    f->listens_left = UINT32_MAX;
    fx_gate_init(&f->came);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/ron-intake-XXXXXX");
    RON_ASSERT(mkdtemp(f->dir) != NULL);
    for (uint32_t i = 0; i < 2; i++) {
        (void)snprintf(f->unix_addrs[i], sizeof f->unix_addrs[i], "unix:%s/%u", f->dir, i);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        f->workers[i].f = f;
        f->workers[i].index = i;
    }
    return f;
}

/* addrs may name fewer than two. */
static enum ron_rc front_listen(struct front *f, const char *a, const char *b, bool share)
{
    struct ron_err err = {0};

    return ron_intake_new(&(struct ron_intake_opts){.env = &f->env,
                                                    .ops = &ops,
                                                    .name = "front",
                                                    .addrs = {a, b},
                                                    .addr_count = b == NULL ? 1 : 2,
                                                    .share_unix = share,
                                                    .workers = f->workers,
                                                    .worker_bytes = sizeof f->workers[0],
                                                    .worker_count = WORKERS},
                          &f->in, &err);
}

static void front_run(struct front *f)
{
    struct ron_err err = {0};

    assert_int_equal(ron_intake_attach(f->in, f->fx->sup, &err), RON_OK);
    fx_start(f->fx);
}

static void front_free(struct front *f, bool ran)
{
    if (ran) {
        assert_int_equal(fx_stop(f->fx), RON_EXIT_DRAINED);
    }
    assert_true(fx_close(f->fx));
    ron_intake_free(f->in);
    assert_int_equal(f->listens, f->closes);
    for (uint32_t i = 0; i < 2; i++) {
        (void)unlink(f->unix_addrs[i] + 5);
    }
    assert_int_equal(rmdir(f->dir), 0);
    fx_gate_done(&f->came);
    free(f);
}

static uint32_t came_to(const struct front *f, uint32_t worker, size_t at)
{
    return ron_au32_load(&f->workers[worker].accepted[at]);
}

static void test_intake__tcp__one_port_a_socket_each(void **state)
{
    struct front *f = front_new();

    (void)state;
    assert_int_equal(front_listen(f, "127.0.0.1:0", "127.0.0.1:0", false), RON_OK);
    assert_int_equal(f->listens, 2 * (PROBES + WORKERS));
    assert_string_not_equal(ron_intake_addr(f->in, 0), "127.0.0.1:0");
    assert_string_not_equal(ron_intake_addr(f->in, 0), ron_intake_addr(f->in, 1));
    front_run(f);
    for (uint32_t i = 0; i < CONNS; i++) {
        call_in(ron_intake_addr(f->in, i % 2));
    }
    assert_true(fx_gate_reached(&f->came, CONNS));
    assert_int_equal(came_to(f, 0, 0) + came_to(f, 1, 0), CONNS / 2);
    assert_int_equal(came_to(f, 0, 1) + came_to(f, 1, 1), CONNS / 2);
    front_free(f, true);
}

static void test_intake__unix__owned_in_turn(void **state)
{
    struct front *f = front_new();

    (void)state;
    assert_int_equal(front_listen(f, f->unix_addrs[0], f->unix_addrs[1], false), RON_OK);
    assert_int_equal(f->listens, 2);
    assert_string_equal(ron_intake_addr(f->in, 1), f->unix_addrs[1]);
    front_run(f);
    for (uint32_t i = 0; i < CONNS; i++) {
        call_in(f->unix_addrs[i % 2]);
    }
    assert_true(fx_gate_reached(&f->came, CONNS));
    assert_int_equal(came_to(f, 0, 0), CONNS / 2);
    assert_int_equal(came_to(f, 1, 1), CONNS / 2);
    front_free(f, true);
}

static void test_intake__unix_shared__all_accepted_once(void **state)
{
    struct front *f = front_new();

    (void)state;
    assert_int_equal(front_listen(f, f->unix_addrs[0], NULL, true), RON_OK);
    assert_int_equal(f->listens, 1);
    front_run(f);
    for (uint32_t i = 0; i < CONNS; i++) {
        call_in(f->unix_addrs[0]);
    }
    assert_true(fx_gate_reached(&f->came, CONNS));
    assert_int_equal(came_to(f, 0, 0) + came_to(f, 1, 0), CONNS);
    front_free(f, true);
}

static void test_intake__descriptors_run_out__tried_again_after_the_pause(void **state)
{
    struct front *f = front_new();

    (void)state;
    ron_au32_store(&f->accepts_to_fail, 1);
    assert_int_equal(front_listen(f, f->unix_addrs[0], NULL, false), RON_OK);
    front_run(f);
    call_in(f->unix_addrs[0]);
    assert_true(fx_gate_reached(&f->came, 1));
    /* Milliseconds are rounded down when the pause begins. */
    assert_true(ron_au64_load(&f->next_ns) - ron_au64_load(&f->failed_ns) >=
                (RON_INTAKE_PAUSE_MS - 1) * RON_NS_PER_MS);
    call_in(f->unix_addrs[0]);
    assert_true(fx_gate_reached(&f->came, 2));
    front_free(f, true);
}

static void test_intake__ends__who_waits_is_accepted(void **state)
{
    struct front *f = front_new();

    (void)state;
    assert_int_equal(front_listen(f, f->unix_addrs[0], NULL, false), RON_OK);
    f->call_at_the_end = true;
    front_run(f);
    assert_int_equal(fx_stop(f->fx), RON_EXIT_DRAINED);
    assert_int_equal(came_to(f, 0, 0), 2);
    front_free(f, false);
}

static void test_intake__cannot_open__nothing_left_open(void **state)
{
    char addr[RON_ADDR_MAX + 8] = "unix:/";

    (void)state;
    memset(addr + 6, 'x', sizeof addr - 7);
    for (uint32_t left = 0; left < 2 * (PROBES + WORKERS); left++) {
        struct front *f = front_new();

        f->listens_left = left;
        assert_int_equal(front_listen(f, "127.0.0.1:0", "127.0.0.1:0", false), RON_IO);
        assert_int_equal(f->listens, left);
        front_free(f, false);
    }
    struct front *f = front_new();

    assert_int_equal(front_listen(f, "127.0.0.1:0", addr, false), RON_INVALID);
    assert_int_equal(f->listens, PROBES + WORKERS);
    front_free(f, false);
}

static void test_intake__peer_list__by_user_or_group_and_credentials(void **state)
{
    const uint32_t uids[] = {7, 8};
    const uint32_t gids[] = {70};
    struct ron_peer_list list = {uids, 2, gids, 1};

    (void)state;
    assert_true(ron_peer_list_empty(&(struct ron_peer_list){0}));
    assert_false(ron_peer_list_empty(&list));
    assert_true(ron_peer_listed(&list, &(struct ron_peer){.has_cred = true, .uid = 8}));
    assert_true(ron_peer_listed(&list, &(struct ron_peer){.has_cred = true, .uid = 9, .gid = 70}));
    assert_false(ron_peer_listed(&list, &(struct ron_peer){.has_cred = true, .uid = 9, .gid = 7}));
    assert_false(ron_peer_listed(&list, &(struct ron_peer){.uid = 8}));
    list.gid_count = 0;
    assert_false(ron_peer_listed(&list, &(struct ron_peer){.has_cred = true, .gid = 70}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_intake__tcp__one_port_a_socket_each),
        cmocka_unit_test(test_intake__unix__owned_in_turn),
        cmocka_unit_test(test_intake__unix_shared__all_accepted_once),
        cmocka_unit_test(test_intake__descriptors_run_out__tried_again_after_the_pause),
        cmocka_unit_test(test_intake__ends__who_waits_is_accepted),
        cmocka_unit_test(test_intake__cannot_open__nothing_left_open),
        cmocka_unit_test(test_intake__peer_list__by_user_or_group_and_credentials),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
