/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: over a network that delays, cuts, clogs and resets, with a server that drains and comes
 * back, every call of the OAP client ends exactly once and tells the truth about what happened.
 * Method: client and server on machines of their own, executor and supervisor the real ones, on
 * fibers. The server applies each request to a table that survives its lives. In the end, when all
 * is quiet, the table is compared with what the client was told:
 *   answered: applied once; refused or not sent: never; unknown: at most once. */
#include "sim/simtest.h"

#include "model/weave/weave.h"
#include "ron/base/alloc.h"
#include "ron/task/supervisor.h"
#include "ron/wire/client.h"
#include "ron/wire/server.h"
#include "wire/wire_testing.h"

enum { ASKS = 60, LIVES = 2, SEEDS = 120, APP = 100, PORT = 80, HELD_MAX = 64 };

struct world;

struct call {
    struct ron_oap_ask ask;
    struct world *world;
    uint64_t id;
    uint8_t padding[3000]; /* some requests are longer than a segment */
    uint32_t sent;
    uint32_t done;
    bool right; /* the answer was to this request */
};

struct job {
    struct ron_oap_reply *reply;
    const uint64_t *id;
};

struct world {
    uint64_t seed;
    bool swarm;
    bool lies; /* the server acts on what it refuses: must be caught */
    /* Results. */
    uint64_t hash;
    uint64_t outcomes[RON_OAP_OUTCOME_COUNT];
    uint64_t resent, applied_unknown, timeouts;
    bool caught;
    /* Of the run. */
    struct sim *sim;
    struct sim_host *server_host;
    struct sim_host *client_host;
    struct ron_rand rand;
    struct ron_au32 server_up; /* life that listens now, 0: none */
    struct ron_aptr server_sup;
    struct ron_au32 client_stopped;
    struct ron_sup *client_sup;
    struct ron_oap_client *client;
    uint32_t applied[ASKS];
    struct call calls[ASKS];
    uint32_t calls_ended;
    struct ron_chan *held;
};

/* ---- server ---------------------------------------------------------------------------------- */

static void apply(struct world *w, const struct ron_oap_request *q)
{
    uint64_t id;

    SIM_CHECK(w->sim, q->payload_len >= sizeof id);
    memcpy(&id, q->payload, sizeof id);
    SIM_CHECK(w->sim, id < ASKS);
    w->applied[id]++;
}

/* Code 0 answers at once, 1 later; 2 is refused by the app's own will. */
static void on_request(struct ron_oap_call *call, void *arg)
{
    struct world *w = arg;
    const struct ron_oap_request *q = ron_oap_request(call);
    struct job *job;

    if (q->code == 2) {
        if (w->lies) {
            apply(w, q);
        }
        ron_oap_refuse(call, RON_OAP_BUSY);
        return;
    }
    if (q->code == 0) {
        apply(w, q);
        ron_oap_answer(call, 200, q->payload, sizeof(uint64_t));
        return;
    }
    job = ron_alloc(sizeof *job);
    SIM_CHECK(w->sim, job != NULL);
    if (ron_oap_defer(call, &job->reply) != RON_OK) {
        ron_free(job);
        ron_oap_refuse(call, RON_OAP_BUSY);
        return;
    }
    job->id = (const uint64_t *)(const void *)q->payload;
    if (ron_chan_try_send(w->held, job, NULL) != RON_OK) {
        ron_oap_undefer(call, job->reply);
        ron_free(job);
        ron_oap_refuse(call, RON_OAP_BUSY);
    }
}

static void drop_job(void *item, void *arg)
{
    struct job *job = item;

    (void)arg;
    ron_oap_reply_refuse(job->reply, RON_OAP_DRAINING);
    ron_free(job);
}

static enum ron_rc holder_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct world *w = arg;

    (void)t;
    for (size_t i = 0; i < count; i++) {
        struct job *job = items[i];
        uint64_t id;

        memcpy(&id, job->id, sizeof id);
        w->applied[id]++;
        SIM_CHECK(w->sim, ron_buf_append(ron_oap_reply_body(job->reply), &id, sizeof id) == RON_OK);
        ron_oap_reply_send(job->reply, 200);
        ron_free(job);
    }
    return RON_OK;
}

struct house {
    struct ron_registry *reg;
    struct ron_exec *exec;
    struct ron_sup *sup;
};

static void house_open(struct world *w, struct house *h, const struct ron_env *env)
{
    SIM_CHECK(w->sim, ron_registry_new(&h->reg, NULL) == RON_OK);
    /* Descriptors may have run out: a fault of the world. */
    while (ron_exec_new(&(struct ron_exec_opts){.env = env, .registry = h->reg, .workers = 1},
                        &h->exec, NULL) != RON_OK) {
    }
    SIM_CHECK(w->sim, ron_sup_new(&(struct ron_sup_opts){.env = env,
                                                         .registry = h->reg,
                                                         .exec = h->exec,
                                                         .drain_deadline_ms = 1000},
                                  &h->sup, NULL) == RON_OK);
}

static void server_life(struct world *w, uint32_t life)
{
    const struct ron_env *env = sim_host_env(w->server_host);
    const struct ron_oap_app app = {.app = APP, .handle = on_request, .arg = w};
    struct ron_oap_server *server = NULL;
    struct house h = {0};

    house_open(w, &h, env);
    SIM_CHECK(w->sim, ron_chan_new(&(struct ron_chan_opts){.registry = h.reg,
                                                           .env = env,
                                                           .name = "held",
                                                           .producers = "oap",
                                                           .consumers = "holder",
                                                           .drop_text = "refused as draining",
                                                           .capacity = HELD_MAX,
                                                           .policy = RON_CHAN_REJECT,
                                                           .drop = drop_job},
                                   &w->held, NULL) == RON_OK);
    while (ron_oap_server_new(&(struct ron_oap_opts){.name = "oap",
                                                     .env = env,
                                                     .registry = h.reg,
                                                     .workers = 1,
                                                     .addr = "0.0.0.0:80",
                                                     .apps = &app,
                                                     .app_count = 1,
                                                     .flow_max = 8,
                                                     .request_timeout_ms = 2000},
                              &server, NULL) != RON_OK) {
    }
    SIM_CHECK(w->sim, ron_oap_server_attach(server, h.sup, NULL) == RON_OK);
    SIM_CHECK(w->sim, ron_sup_add(h.sup,
                                  &(struct ron_task_def){.name = "holder",
                                                         .kind = "worker",
                                                         .worker = RON_WORKER_ANY,
                                                         .input = w->held,
                                                         .batch_max = 2,
                                                         .handle = holder_handle,
                                                         .arg = w},
                                  NULL, NULL) == RON_OK);
    ron_aptr_store(&w->server_sup, h.sup);
    ron_au32_store(&w->server_up, life);
    (void)ron_sup_run(h.sup);
    ron_au32_store(&w->server_up, 0);
    ron_sup_free(h.sup);
    SIM_CHECK(w->sim, ron_exec_free(h.exec));
    ron_chan_free(w->held);
    SIM_CHECK(w->sim, ron_oap_server_free(server));
    SIM_CHECK(w->sim, ron_registry_count(h.reg) == 0);
    ron_registry_free(h.reg);
}

static void server_main(void *arg)
{
    for (uint32_t life = 1; life <= LIVES; life++) {
        server_life(arg, life);
    }
}

/* ---- client ---------------------------------------------------------------------------------- */

static void on_done(struct ron_oap_ask *ask)
{
    struct call *c = ask->user;

    c->done++;
    c->right = ask->answer_len == sizeof c->id && memcmp(ask->answer, &c->id, sizeof c->id) == 0;
    c->world->calls_ended++; /* the client's task only */
}

static void client_main(void *arg)
{
    struct world *w = arg;

    (void)ron_sup_run(w->client_sup);
    ron_au32_store(&w->client_stopped, 1);
}

static void send_call(struct world *w, uint64_t id)
{
    struct call *c = &w->calls[id];
    uint64_t now = ron_mono_ns();
    size_t len = ron_rand_chance(&w->rand, 1, 4) ? sizeof c->padding : sizeof id;

    c->world = w;
    c->id = id;
    memcpy(c->padding, &id, sizeof id);
    c->ask = (struct ron_oap_ask){
        .app = APP,
        .code = (uint16_t)ron_rand_below(&w->rand, 3),
        .tenant = 9,
        .payload = c->padding,
        .payload_len = len,
        .deadline = ron_deadline_after_ms(now, ron_rand_range(&w->rand, 20, 4000)),
        .done = on_done,
        .user = c};
    c->sent = ron_oap_ask_send(w->client, &c->ask) == RON_OK;
    /* Known not to be done: this fiber does not let another run in between. */
    if (c->sent && ron_rand_chance(&w->rand, 1, 16) && c->done == 0) {
        ron_oap_ask_cancel(&c->ask);
    }
}

/* ---- the world ------------------------------------------------------------------------------- */

static void pass(uint64_t ns)
{
    struct ron_deadline until = ron_deadline_after_ns(ron_mono_ns(), ns);

    while (!ron_deadline_expired(until, ron_mono_ns())) {
        (void)!ron_park_until(until, "test");
    }
}

static void sabotage(struct world *w)
{
    struct sim_host *a = w->client_host;
    struct sim_host *b = w->server_host;

    switch (ron_rand_below(&w->rand, 6)) {
    case 0:
        sim_cut(a, b);
        break;
    case 1:
        sim_cut(b, a);
        break;
    case 2:
        sim_clog(b, a, ron_mono_ns() + ron_rand_below(&w->rand, RON_NS_PER_S));
        break;
    case 3:
        sim_reset(a, b);
        break;
    default:
        sim_heal_all(w->sim);
        break;
    }
}

static void stop_server(struct world *w, uint32_t life)
{
    while (ron_au32_load(&w->server_up) != life) {
        pass(RON_NS_PER_MS);
    }
    ron_sup_request_stop(ron_aptr_load(&w->server_sup));
}

static void judge(struct world *w)
{
    for (size_t i = 0; i < ASKS; i++) {
        const struct call *c = &w->calls[i];
        uint32_t applied = w->applied[i];
        bool good;

        SIM_CHECK(w->sim, c->done == c->sent);
        if (!c->sent) {
            good = applied == 0;
        } else {
            w->outcomes[c->ask.outcome]++;
            SIM_CHECK(w->sim, w->swarm || c->ask.outcome != RON_OAP_UNKNOWN ||
                                  c->ask.rc == RON_TIMEOUT || c->ask.rc == RON_CANCELLED);
            w->applied_unknown += c->ask.outcome == RON_OAP_UNKNOWN && applied == 1;
            good = c->ask.outcome == RON_OAP_ANSWERED  ? applied == 1 && c->right
                   : c->ask.outcome == RON_OAP_UNKNOWN ? applied <= 1
                                                       : applied == 0;
        }
        w->caught = w->caught || !good;
        SIM_CHECK(w->sim, good || w->lies);
    }
}

static struct ron_thread *spawn(const struct world *w, const char *name, void (*main)(void *),
                                void *arg)
{
    const struct ron_thread_opts opts = {.name = name, .may_block = true, .main = main, .arg = arg};
    struct ron_thread *thread = NULL;

    SIM_CHECK(w->sim, ron_thread_start(&opts, &thread, NULL) == RON_OK);
    return thread;
}

static void ask_all(struct world *w)
{
    uint32_t restart_at = (uint32_t)ron_rand_below(&w->rand, ASKS);

    for (uint64_t id = 0; id < ASKS; id++) {
        send_call(w, id);
        if (id == restart_at) {
            stop_server(w, 1);
        }
        if (ron_rand_chance(&w->rand, 1, 3)) {
            if (w->swarm) {
                sabotage(w);
            }
            pass(ron_rand_below(&w->rand, 200 * RON_NS_PER_MS));
        }
    }
    sim_heal_all(w->sim);
    sim_options(w->sim)->net_cut_ppm = 0;
    for (size_t i = 0; i < ASKS; i++) {
        while (w->calls[i].done < w->calls[i].sent) {
            pass(10 * RON_NS_PER_MS); /* Each ends by its deadline, or weave reports the hang. */
        }
    }
}

static void world_body(void *arg)
{
    struct world *w = arg;
    struct sim_opts opts = w->swarm ? sim_opts_swarm(w->seed) : sim_opts_calm();
    const struct ron_env *env;
    struct ron_thread *server;
    struct ron_thread *client;
    struct ron_oap_client_counters n;
    struct house h = {0};
    char addr[RON_ADDR_MAX];

    w->sim = sim_new(w->seed, &opts);
    ron_rand_seed(&w->rand, w->seed);
    w->server_host = sim_host_new(w->sim, "server");
    w->client_host = sim_host_new(w->sim, "client");
    env = sim_host_env(w->client_host);
    server = spawn(w, "server", server_main, w);
    house_open(w, &h, env);
    w->client_sup = h.sup;
    SIM_CHECK(w->sim,
              ron_oap_client_new(
                  &(struct ron_oap_client_opts){.name = "client",
                                                .env = env,
                                                .registry = h.reg,
                                                .addr = sim_host_addr(w->server_host, PORT, addr),
                                                .call_timeout_ms = 5000,
                                                .stall_ms = 3000},
                  &w->client, NULL) == RON_OK);
    SIM_CHECK(w->sim, ron_oap_client_attach(w->client, h.sup, NULL) == RON_OK);
    client = spawn(w, "client", client_main, w);
    ask_all(w);
    ron_sup_request_stop(h.sup);
    ron_thread_join(client);
    stop_server(w, LIVES);
    ron_thread_join(server);
    ron_sup_free(h.sup);
    SIM_CHECK(w->sim, ron_exec_free(h.exec));
    ron_oap_client_counters(w->client, &n);
    ron_oap_client_free(w->client);
    ron_registry_free(h.reg);
    w->resent = n.resent;
    w->timeouts = n.call_timeouts;
    judge(w);
    w->hash = sim_trace_hash(w->sim);
    sim_free(w->sim);
}

static void run_world(struct world *w)
{
    static struct weave_result result;

    weave_run_seeded(world_body, w, w->seed, NULL, &result);
    if (result.failed) {
        fail_msg("seed %llu: %s: %s", (unsigned long long)w->seed, result.kind, result.message);
    }
}

static struct world *new_world(uint64_t seed, bool swarm)
{
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    w->seed = seed;
    w->swarm = swarm;
    return w;
}

static void test_wire__calm_world_with_a_restart__nothing_unknown_but_by_deadline(void **state)
{
    uint64_t answered = 0;
    uint64_t refused = 0;

    (void)state;
    for (uint64_t i = 0; i < SEEDS; i++) {
        struct world *w = new_world(support_seed() + i, false);

        run_world(w);
        answered += w->outcomes[RON_OAP_ANSWERED];
        refused += w->outcomes[RON_OAP_REFUSED];
        free(w);
    }
    assert_true(answered > SEEDS * 20);
    assert_true(refused > SEEDS * 5);
}

static void test_wire__swarm_with_cuts_and_restarts__every_call_tells_the_truth(void **state)
{
    uint64_t sums[RON_OAP_OUTCOME_COUNT] = {0};
    uint64_t resent = 0;
    uint64_t applied_unknown = 0;
    uint64_t timeouts = 0;

    (void)state;
    for (uint64_t i = 0; i < SEEDS; i++) {
        struct world *w = new_world(support_seed() + i, true);

        run_world(w);
        for (size_t k = 0; k < RON_OAP_OUTCOME_COUNT; k++) {
            sums[k] += w->outcomes[k];
        }
        resent += w->resent;
        applied_unknown += w->applied_unknown;
        timeouts += w->timeouts;
        free(w);
    }
    for (size_t k = 0; k < RON_OAP_OUTCOME_COUNT; k++) {
        print_message("%s: %llu\n", ron_oap_outcome_label((enum ron_oap_outcome)k),
                      (unsigned long long)sums[k]);
        assert_true(sums[k] > 0);
    }
    print_message("resent %llu, unknown but applied %llu, timeouts %llu\n",
                  (unsigned long long)resent, (unsigned long long)applied_unknown,
                  (unsigned long long)timeouts);
    assert_true(applied_unknown > 0); /* so "unknown" is not empty talk */
    assert_true(applied_unknown < sums[RON_OAP_UNKNOWN]);
    assert_true(timeouts > 0);
}

static void test_wire__server_acts_on_what_it_refuses__caught(void **state)
{
    struct world *w = new_world(support_seed(), false);

    (void)state;
    w->lies = true;
    run_world(w);
    assert_true(w->caught);
    free(w);
}

static void test_wire__same_seed__same_run_step_for_step(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 5; i++) {
        struct world *a = new_world(support_seed() + i, true);
        struct world *b = new_world(support_seed() + i, true);

        run_world(a);
        run_world(b);
        assert_true(a->hash == b->hash);
        free(a);
        free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire__calm_world_with_a_restart__nothing_unknown_but_by_deadline),
        cmocka_unit_test(test_wire__swarm_with_cuts_and_restarts__every_call_tells_the_truth),
        cmocka_unit_test(test_wire__server_acts_on_what_it_refuses__caught),
        cmocka_unit_test(test_wire__same_seed__same_run_step_for_step),
    };
    return cmocka_run_group_tests_name("sim.wire", tests, NULL, NULL);
}
