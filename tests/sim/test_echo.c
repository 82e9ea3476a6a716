/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: programs of several threads run on the simulator unchanged, survive a bad network, and do
 * so in the same way each time for one seed.
 * Method: an echo server and clients as threads of ron/sync (fibers here) on machines of their own;
 * a saboteur cuts, clogs, resets and heals. Safety: every echo is what was sent. Liveness: after
 * the last healing all clients finish, or weave reports the deadlock. */
#include "sim/simtest.h"

#include "model/weave/weave.h"
#include "ron/sync/sync.h"

enum { CLIENTS = 3, MESSAGES = 20, MESSAGE_BYTES = 24, CONNS_MAX = 64, READY_MAX = 8 };

struct world {
    uint64_t seed;
    bool swarm;
    bool edge; /* the server asks for edges */
    uint64_t hash;
    uint64_t echoes;
    uint64_t reconnects;
    uint64_t events[SIM_EV_COUNT];
    /* Of the run. */
    struct sim *sim;
    struct sim_host *server;
    struct ron_poller *server_poller;
    struct ron_au32 stop;
    struct ron_au32 clients_done;
};

/* ---- server ---- */

/* Echoes whole messages. A message is taken from the socket when its echo has been written. */
struct conn {
    int fd; /* -1: free */
    uint8_t buf[MESSAGE_BYTES];
    size_t have;
    size_t sent;
};

struct server {
    const struct ron_env *env;
    struct ron_poller *p;
    int listener;
    uint32_t mode;
    struct conn conn[CONNS_MAX];
};

static void accept_all(struct server *s)
{
    for (;;) {
        struct conn *c = NULL;
        int fd = -1;

        for (size_t i = 0; i < CONNS_MAX && c == NULL; i++) {
            c = s->conn[i].fd < 0 ? &s->conn[i] : NULL;
        }
        if (c == NULL || s->env->net->accept(s->env, s->listener, &fd, NULL) != RON_OK) {
            return;
        }
        *c = (struct conn){.fd = fd};
        if (s->env->poller->set(s->p, fd, RON_IO_READ | s->mode, c) != RON_OK) {
            return; /* the machine is off */
        }
    }
}

/* Moves what can be moved; false when the connection is over. */
static bool serve(struct server *s, struct conn *c)
{
    size_t len = 0;
    enum ron_rc rc = RON_OK;

    while (rc == RON_OK) {
        if (c->have < MESSAGE_BYTES) {
            rc = s->env->net->read(s->env, c->fd, c->buf + c->have, MESSAGE_BYTES - c->have, &len);
            c->have += rc == RON_OK ? len : 0;
            continue;
        }
        rc = s->env->net->write(s->env, c->fd, c->buf + c->sent, MESSAGE_BYTES - c->sent, &len);
        c->sent += rc == RON_OK ? len : 0;
        if (c->sent == MESSAGE_BYTES) {
            c->have = 0;
            c->sent = 0;
        }
    }
    if (rc != RON_AGAIN) {
        return false;
    }
    /* Level-triggered interest must follow what is waited for, else the loop spins. */
    return s->env->poller->set(s->p, c->fd,
                               (c->have == MESSAGE_BYTES ? RON_IO_WRITE : RON_IO_READ) | s->mode,
                               c) == RON_OK;
}

static void server_main(void *arg)
{
    struct world *w = arg;
    static struct server server; /* one run at a time, and too large for a small stack */
    struct server *s = &server;
    struct ron_ready ready[READY_MAX];

    *s = (struct server){
        .env = sim_host_env(w->server), .p = w->server_poller, .mode = w->edge ? RON_IO_EDGE : 0};
    for (size_t i = 0; i < CONNS_MAX; i++) {
        s->conn[i].fd = -1;
    }
    while (s->env->net->listen(s->env, "0.0.0.0:80", NULL, &s->listener, NULL) == RON_LIMIT) {
    }
    SIM_CHECK(w->sim, s->env->poller->set(s->p, s->listener, RON_IO_READ, s) == RON_OK);
    while (ron_au32_load(&w->stop) == 0) {
        size_t count = s->env->poller->wait(s->p, ready, READY_MAX, ron_deadline_never());
        for (size_t i = 0; i < count; i++) {
            struct conn *c = ready[i].user;
            if (ready[i].user == s) {
                accept_all(s);
            } else if (!serve(s, c)) {
                s->env->net->close(s->env, c->fd);
                c->fd = -1;
            }
        }
    }
}

/* ---- clients ---- */

struct client {
    struct world *world;
    const struct ron_env *env;
    struct ron_poller *p;
    uint64_t id;
    int fd;
};

/* Waits until the descriptor is ready; false when that takes too long. */
static bool client_wait(struct client *c, uint32_t events)
{
    struct ron_deadline patience = ron_deadline_after_ms(ron_env_now_ns(c->env), 3000);
    struct ron_ready ready;

    if (c->env->poller->set(c->p, c->fd, events, c) != RON_OK) {
        return false;
    }
    while (!ron_deadline_expired(patience, ron_env_now_ns(c->env))) {
        if (c->env->poller->wait(c->p, &ready, 1, patience) > 0) {
            return true;
        }
    }
    return false;
}

static bool client_connect(struct client *c)
{
    char addr[RON_ADDR_MAX];

    while (c->env->net->connect(c->env, sim_host_addr(c->world->server, 80, addr), &c->fd, NULL) ==
           RON_LIMIT) {
    }
    c->world->reconnects++;
    return client_wait(c, RON_IO_WRITE) && c->env->net->connect_result(c->env, c->fd) == RON_OK;
}

/* Sends all of a message, or receives all of its echo. */
static bool client_move(struct client *c, uint8_t *buf, bool sends)
{
    size_t done = 0;

    while (done < MESSAGE_BYTES) {
        size_t len = 0;
        enum ron_rc rc =
            sends ? c->env->net->write(c->env, c->fd, buf + done, MESSAGE_BYTES - done, &len)
                  : c->env->net->read(c->env, c->fd, buf + done, MESSAGE_BYTES - done, &len);
        if (rc == RON_OK) {
            done += len;
        } else if (rc != RON_AGAIN || !client_wait(c, sends ? RON_IO_WRITE : RON_IO_READ)) {
            return false;
        }
    }
    return true;
}

static bool client_echo(struct client *c, uint64_t number)
{
    uint8_t sent[MESSAGE_BYTES];
    uint8_t back[MESSAGE_BYTES];
    struct ron_rand rand;

    ron_rand_seed(&rand, c->id * 1000 + number);
    ron_rand_bytes(&rand, sent, sizeof sent);
    if (!client_move(c, sent, true) || !client_move(c, back, false)) {
        return false;
    }
    SIM_CHECK(c->world->sim, memcmp(sent, back, sizeof sent) == 0);
    return true;
}

static void client_main(void *arg)
{
    struct client *c = arg;
    bool connected = false;

    for (uint64_t number = 0; number < MESSAGES;) {
        if (!connected) {
            connected = client_connect(c);
        }
        if (connected && client_echo(c, number)) {
            number++;
            c->world->echoes++;
            continue;
        }
        c->env->net->close(c->env, c->fd);
        connected = false;
    }
    (void)ron_au32_add(&c->world->clients_done, 1);
}

/* ---- the world ---- */

/* Lets virtual time pass for the calling fiber. */
static void pass(uint64_t ns)
{
    struct ron_deadline until = ron_deadline_after_ns(ron_mono_ns(), ns);

    while (!ron_deadline_expired(until, ron_mono_ns())) {
        (void)!ron_park_until(until, "saboteur");
    }
}

static void sabotage(struct world *w, struct sim_host *const host[CLIENTS])
{
    struct ron_rand *rand = sim_rand(w->sim);

    for (int i = 0; i < 30 && ron_au32_load(&w->clients_done) < CLIENTS; i++) {
        struct sim_host *h = host[ron_rand_below(rand, CLIENTS)];
        switch (ron_rand_below(rand, 5)) {
        case 0:
            sim_cut(h, w->server);
            break;
        case 1:
            sim_cut(w->server, h);
            break;
        case 2:
            sim_clog(h, w->server, ron_mono_ns() + ron_rand_below(rand, RON_NS_PER_S));
            break;
        case 3:
            sim_reset(h, w->server);
            break;
        default:
            sim_heal_all(w->sim);
            break;
        }
        pass(ron_rand_below(rand, 300 * RON_NS_PER_MS));
    }
    sim_heal_all(w->sim);
    sim_options(w->sim)->net_cut_ppm = 0; /* liveness is only promised when the faults end */
}

static struct ron_thread *spawn(const struct world *w, const char *name, void (*main)(void *),
                                void *arg)
{
    const struct ron_thread_opts opts = {.name = name, .may_block = true, .main = main, .arg = arg};
    struct ron_thread *thread = NULL;

    SIM_CHECK(w->sim, ron_thread_start(&opts, &thread, NULL) == RON_OK);
    return thread;
}

static void world_body(void *arg)
{
    static const char *const names[CLIENTS] = {"client-1", "client-2", "client-3"};
    struct world *w = arg;
    struct sim_opts opts = w->swarm ? sim_opts_swarm(w->seed) : sim_opts_calm();
    struct sim_host *host[CLIENTS];
    struct client client[CLIENTS];
    struct ron_thread *thread[CLIENTS];
    struct ron_thread *server;

    w->sim = sim_new(w->seed, &opts);
    w->server = sim_host_new(w->sim, "server");
    const struct ron_env *env = sim_host_env(w->server);
    SIM_CHECK(w->sim, env->poller->open(env, &w->server_poller, NULL) == RON_OK);
    server = spawn(w, "server", server_main, w);
    for (size_t i = 0; i < CLIENTS; i++) {
        host[i] = sim_host_new(w->sim, names[i]);
        client[i] = (struct client){.world = w, .env = sim_host_env(host[i]), .id = i + 1};
        SIM_CHECK(w->sim, client[i].env->poller->open(client[i].env, &client[i].p, NULL) == RON_OK);
        thread[i] = spawn(w, names[i], client_main, &client[i]);
    }
    if (w->swarm) {
        sabotage(w, host);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        ron_thread_join(thread[i]);
    }
    ron_au32_store(&w->stop, 1);
    env->poller->wake(w->server_poller);
    ron_thread_join(server);
    w->hash = sim_trace_hash(w->sim);
    for (int ev = 0; ev < SIM_EV_COUNT; ev++) {
        w->events[ev] = sim_count(w->sim, (enum sim_event)ev);
    }
    sim_free(w->sim);
}

static struct world run_world(uint64_t seed, bool swarm, bool edge)
{
    static struct weave_result result;
    struct world w = {.seed = seed, .swarm = swarm, .edge = edge};

    weave_run_seeded(world_body, &w, seed, NULL, &result);
    if (result.failed) {
        fail_msg("seed %llu: %s: %s", (unsigned long long)seed, result.kind, result.message);
    }
    return w;
}

static void test_echo__calm_world__answers_every_message_once(void **state)
{
    (void)state;
    for (int edge = 0; edge < 2; edge++) {
        struct world w = run_world(support_seed(), false, edge == 1);
        assert_int_equal(w.echoes, CLIENTS * MESSAGES);
        assert_int_equal(w.reconnects, CLIENTS);
    }
}

static void test_echo__swarm_with_cuts_and_healing__all_clients_finish(void **state)
{
    uint64_t reconnects = 0;
    uint64_t cuts = 0;
    uint64_t resets = 0;

    (void)state;
    for (uint64_t i = 0; i < 150; i++) {
        struct world w = run_world(support_seed() + i, true, i % 2 == 0);
        assert_int_equal(w.echoes, CLIENTS * MESSAGES);
        reconnects += w.reconnects;
        cuts += w.events[SIM_EV_CUT];
        resets += w.events[SIM_EV_RESET];
    }
    print_message("%llu connects, %llu cuts, %llu resets\n", (unsigned long long)reconnects,
                  (unsigned long long)cuts, (unsigned long long)resets);
    assert_true(reconnects > 150 * CLIENTS);
    assert_true(cuts > 0 && resets > 0);
}

static void test_echo__same_seed__gives_the_same_interleaving(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        struct world first = run_world(support_seed() + i, true, false);
        struct world second = run_world(support_seed() + i, true, false);
        struct world other = run_world(support_seed() + i + 1000, true, false);

        assert_int_equal(first.hash, second.hash);
        assert_int_not_equal(first.hash, other.hash);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo__calm_world__answers_every_message_once),
        cmocka_unit_test(test_echo__swarm_with_cuts_and_healing__all_clients_finish),
        cmocka_unit_test(test_echo__same_seed__gives_the_same_interleaving),
    };

    return cmocka_run_group_tests_name("sim.echo", tests, NULL, NULL);
}
