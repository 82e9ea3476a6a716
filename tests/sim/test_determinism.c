/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a seed is the whole world. The same seed gives the same trace, another seed another one;
 * options are drawn, overridden and reported.
 * Method: three machines doing random things with network, disk and their own death, in a swarm of
 * faults. */
#include "sim/simtest.h"

#include "base/rand_priv.h"
#include "ron/io/file.h"

enum { HOSTS = 3, STEPS = 600, CONNS_MAX = 40 };

struct chaos {
    struct sim *sim;
    struct sim_host *host[HOSTS];
    const struct ron_env *env[HOSTS];
    int listener[HOSTS];
    int conn[HOSTS][CONNS_MAX];
    size_t conn_count[HOSTS];
};

static void boot(struct chaos *c, size_t i)
{
    char addr[RON_ADDR_MAX];

    c->env[i] = sim_host_env(c->host[i]);
    c->conn_count[i] = 0;
    c->listener[i] = -1;
    (void)c->env[i]->net->listen(c->env[i], sim_host_addr(c->host[i], 80, addr), NULL,
                                 &c->listener[i], NULL);
}

static void crash(struct chaos *c, size_t i)
{
    if (!sim_env_is_dead(c->env[i])) {
        if (ron_rand_chance(sim_rand(c->sim), 1, 2)) {
            sim_host_power_loss(c->host[i]);
        } else {
            sim_host_kill(c->host[i]);
        }
    }
    (void)sim_host_boot(c->host[i]);
    boot(c, i);
}

static void talk(struct chaos *c, size_t i)
{
    const struct ron_net_ops *net = c->env[i]->net;
    uint8_t buf[300] = {1, 2, 3};
    char addr[RON_ADDR_MAX];
    size_t len = 0;
    int fd = -1;

    if (c->conn_count[i] < CONNS_MAX) {
        size_t to = (size_t)ron_rand_below(sim_rand(c->sim), HOSTS);
        bool got =
            ron_rand_chance(sim_rand(c->sim), 1, 2)
                ? net->connect(c->env[i], sim_host_addr(c->host[to], 80, addr), &fd, NULL) == RON_OK
                : c->listener[i] >= 0 &&
                      net->accept(c->env[i], c->listener[i], &fd, NULL) == RON_OK;
        if (got) {
            c->conn[i][c->conn_count[i]++] = fd;
        }
    }
    for (size_t k = 0; k < c->conn_count[i]; k++) {
        enum ron_rc wrote = net->write(c->env[i], c->conn[i][k], buf, sizeof buf, &len);
        enum ron_rc read = net->read(c->env[i], c->conn[i][k], buf, sizeof buf, &len);
        if (wrote != RON_OK && wrote != RON_AGAIN && read != RON_OK && read != RON_AGAIN) {
            net->close(c->env[i], c->conn[i][k]);
            c->conn[i][k--] = c->conn[i][--c->conn_count[i]];
        }
    }
}

static void save(struct chaos *c, size_t i)
{
    uint8_t bytes[700];
    struct ron_buf buf;

    ron_rand_bytes(sim_rand(c->sim), bytes, sizeof bytes);
    (void)!ron_file_replace(c->env[i], "/state", bytes, sizeof bytes, 0600, NULL);
    ron_buf_init(&buf, 4096);
    if (ron_file_read_all(c->env[i], "/state", &buf, NULL) == RON_OK) {
        sim_note(c->sim, "state", ron_buf_len(&buf),
                 ron_buf_len(&buf) > 0 ? ron_buf_data(&buf)[0] : 0);
    }
    ron_buf_done(&buf);
}

/* The hash of a whole run. `events` may be NULL. */
static uint64_t run_chaos(uint64_t seed, uint64_t *events)
{
    struct chaos c = {.sim = sim_new(seed, NULL)};
    struct ron_rand *rand = sim_rand(c.sim);
    uint64_t hash;

    for (size_t i = 0; i < HOSTS; i++) {
        static const char *const names[HOSTS] = {"one", "two", "three"};
        c.host[i] = sim_host_new(c.sim, names[i]);
        boot(&c, i);
    }
    for (int step = 0; step < STEPS; step++) {
        size_t i = (size_t)ron_rand_below(rand, HOSTS);
        switch (ron_rand_below(rand, 8)) {
        case 0:
            crash(&c, i);
            break;
        case 1:
        case 2:
            save(&c, i);
            break;
        case 3:
            sim_advance(c.sim, ron_rand_below(rand, RON_NS_PER_S));
            break;
        default:
            talk(&c, i);
            break;
        }
    }
    hash = sim_trace_hash(c.sim);
    if (events != NULL) {
        *events = 0;
        for (int ev = 0; ev < SIM_EV_COUNT; ev++) {
            *events += sim_count(c.sim, (enum sim_event)ev);
        }
    }
    sim_free(c.sim);
    return hash;
}

static void test_determinism__same_seed__gives_the_same_run(void **state)
{
    uint64_t all_events = 0;

    (void)state;
    for (uint64_t i = 0; i < 40; i++) {
        uint64_t first_events = 0;
        uint64_t second_events = 0;
        uint64_t first = run_chaos(support_seed() + i, &first_events);
        uint64_t second = run_chaos(support_seed() + i, &second_events);

        assert_int_equal(first, second);
        assert_int_equal(first_events, second_events);
        all_events += first_events;
    }
    print_message("%llu events in 40 worlds\n", (unsigned long long)all_events);
}

static void test_determinism__other_seed__gives_another_run(void **state)
{
    enum { WORLDS = 40 };
    uint64_t hash[WORLDS];

    (void)state;
    for (uint64_t i = 0; i < WORLDS; i++) {
        hash[i] = run_chaos(support_seed() + i, NULL);
        for (uint64_t k = 0; k < i; k++) {
            assert_int_not_equal(hash[i], hash[k]);
        }
    }
}

static void test_determinism__test_stream__does_not_disturb_the_world(void **state)
{
    uint64_t hash[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct sim *sim = sim_new(support_seed(), NULL);
        struct sim_host *host = sim_host_new(sim, "box");
        int fd = -1;

        if (i == 1) {
            (void)ron_rand_u64(sim_rand(sim));
        }
        for (int k = 0; k < 50; k++) {
            (void)sim_host_env(host)->disk->open(sim_host_env(host), "/x",
                                                 RON_OPEN_WRITE | RON_OPEN_CREATE, 0600, &fd, NULL);
        }
        hash[i] = sim_trace_hash(sim);
        sim_free(sim);
    }
    assert_int_equal(hash[0], hash[1]);
}

static bool within(uint64_t value, uint64_t low, uint64_t high)
{
    return low <= value && value <= high;
}

static void test_determinism__swarm__switches_each_fault_on_and_off(void **state)
{
    struct sim_opts calm = sim_opts_calm();
    unsigned off[sizeof(struct sim_opts) / sizeof(uint64_t)] = {0};
    unsigned changed[RON_ARRAY_LEN(off)] = {0};
    size_t i = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 64; seed++) {
        struct sim_opts opts = sim_opts_swarm(support_seed() + seed);
        i = 0;
#define X(name, kind, calm_value, low, high, doc)                                                  \
    off[i] += opts.name == 0;                                                                      \
    changed[i] += opts.name != calm.name;                                                          \
    assert_true(opts.name == (calm_value) || opts.name == 0 || within(opts.name, low, high));      \
    i++;
        SIM_OPTS(X)
#undef X
        assert_true(opts.net_delay_min_ns <= opts.net_delay_max_ns);
    }
    i = 0;
#define FAULT (off[i] > 8 && off[i] < 56 && changed[i] > 8)
#define RANGE (off[i] == 0 && changed[i] > 32)
#define FIXED (changed[i] == 0)
#define X(name, kind, calm_value, low, high, doc)                                                  \
    if (!(kind)) {                                                                                 \
        fail_msg("%s: %u times off, %u times not calm", #name, off[i], changed[i]);                \
    }                                                                                              \
    i++;
    SIM_OPTS(X)
#undef X
}

static void test_determinism__options_by_name__are_read_strictly(void **state)
{
    static const char *const bad[] = {"x=1",
                                      "net_loss_ppm",
                                      "net_loss_ppm=",
                                      "net_loss_ppm=-1",
                                      "net_loss_ppm=1x",
                                      "net_loss_ppm=1;disk_rot_ppm=1",
                                      "=1",
                                      ",",
                                      "net_loss=1"};
    struct sim_opts opts = sim_opts_calm();

    (void)state;
    assert_true(sim_opts_parse(&opts, ""));
    assert_true(sim_opts_parse(&opts, "net_loss_ppm=17,disk_rot_ppm=4"));
    assert_int_equal(opts.net_loss_ppm, 17);
    assert_int_equal(opts.disk_rot_ppm, 4);
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        if (sim_opts_parse(&opts, bad[i])) {
            fail_msg("'%s' was taken", bad[i]);
        }
    }
}

static void traced_and_overridden(void *arg)
{
    struct sim *sim;

    (void)arg;
    (void)setenv("RON_SIM_TRACE", "1", 1);
    (void)setenv("RON_SIM_OPTS", "net_loss_ppm=4711", 1);
    sim = sim_new(12345, NULL);
    sim_host_power_loss(sim_host_new(sim, "box"));
    sim_note(sim, "marker", 42, 43);
    SIM_CHECK(sim, sim_options(sim)->net_loss_ppm != 4711);
}

static void test_determinism__trace_and_failure__tell_how_to_repeat(void **state)
{
    (void)state;
    support_death(traced_and_overridden, NULL, "box        power-loss", "marker", " 42 43\n",
                  "check failed: sim_options(sim)->net_loss_ppm != 4711", " net_loss_ppm=4711",
                  "SEED=12345 reproduce with RON_SEED=12345");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_determinism__same_seed__gives_the_same_run),
        cmocka_unit_test(test_determinism__other_seed__gives_another_run),
        cmocka_unit_test(test_determinism__test_stream__does_not_disturb_the_world),
        cmocka_unit_test(test_determinism__swarm__switches_each_fault_on_and_off),
        cmocka_unit_test(test_determinism__options_by_name__are_read_strictly),
        cmocka_unit_test(test_determinism__trace_and_failure__tell_how_to_repeat),
    };

    return cmocka_run_group_tests_name("sim.determinism", tests, NULL, NULL);
}
