/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: executor, channels and supervisor run unchanged on the simulator: under any schedule that a
 * seed draws, with failing tasks and a failing disk, nothing is lost, drains end, and a run
 * repeats. Method: listener -> work -> loop and blocking workers -> results -> a sink that writes
 * to the simulated disk; workers fail at random, the disk fails by swarm, the stop comes at a
 * random virtual time. The sums are compared at the end of each seed. */
#include "sim/simtest.h"

#include "model/weave/weave.h"
#include "ron/base/alloc.h"
#include "ron/task/supervisor.h"

enum { SEEDS = 300, TICK_MS = 10 };

struct world {
    uint64_t seed;
    bool swarm;
    /* Results. */
    uint64_t hash;
    uint64_t offered, refused, handled, failed, left, restarts;
    int code;
    uint64_t leaked;
    /* Of the run. */
    struct sim *sim;
    const struct ron_env *env;
    struct ron_sup *sup;
    struct ron_chan *work;
    struct ron_chan *results;
    struct ron_rand rand;
    uint64_t next_number;
    uint64_t stop_at_ms;
    uint64_t fail_one_in; /* a worker fails on a message in so many */
    uint64_t file_end;
    int fd;
    bool open;
};

struct message {
    uint64_t number;
};

static void drop_left(void *item, void *arg)
{
    struct world *w = arg;

    w->left++;
    ron_free(item);
}

/* ---- tasks ---- */

static enum ron_rc listener_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct world *w = arg;
    uint64_t burst = ron_rand_below(&w->rand, 8);

    (void)items;
    (void)count;
    for (uint64_t i = 0; i < burst && w->open; i++) {
        struct message *m = ron_alloc(sizeof *m);

        SIM_CHECK(w->sim, m != NULL);
        m->number = w->next_number++;
        w->offered++;
        if (ron_chan_try_send(w->work, m, NULL) != RON_OK) {
            w->refused++;
            ron_free(m);
        }
    }
    if (ron_task_now_ms(t) >= w->stop_at_ms) {
        ron_sup_request_stop(w->sup);
    }
    ron_task_wake_at(t, ron_task_now_ms(t) + TICK_MS);
    return RON_OK;
}

static enum ron_rc listener_start(struct ron_task *t, void *arg)
{
    struct world *w = arg;

    (void)t;
    w->open = true;
    return RON_OK;
}

static void listener_drain(struct ron_task *t, void *arg)
{
    struct world *w = arg;

    w->open = false;
    ron_task_intake_stopped(t);
}

/* Hands each message on without waiting; a full queue or a failure ends it here, counted. */
static enum ron_rc worker_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct world *w = arg;
    bool fails = false;

    (void)t;
    for (size_t i = 0; i < count; i++) {
        fails = fails || ron_rand_chance(&w->rand, 1, w->fail_one_in);
        if (fails || ron_chan_try_send(w->results, items[i], NULL) != RON_OK) {
            w->failed++;
            ron_free(items[i]);
        }
    }
    return fails ? RON_INTERNAL : RON_OK;
}

static enum ron_rc blocking_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct world *w = arg;

    (void)t;
    for (size_t i = 0; i < count; i++) {
        struct ron_deadline d = ron_deadline_after_ms(ron_mono_ns(), 500);
        if (ron_chan_send(w->results, items[i], d, NULL) != RON_OK) {
            w->failed++;
            ron_free(items[i]);
        }
    }
    return RON_OK;
}

static enum ron_rc sink_start(struct ron_task *t, void *arg)
{
    struct world *w = arg;
    struct ron_err err = {0};

    (void)t;
    w->fd = -1;
    return w->env->disk->open(w->env, "/log", RON_OPEN_WRITE | RON_OPEN_CREATE, 0600, &w->fd, &err);
}

static void sink_stop(struct ron_task *t, void *arg)
{
    struct world *w = arg;

    (void)t;
    if (w->fd >= 0) {
        w->env->disk->close(w->env, w->fd);
        w->fd = -1;
    }
}

/* One write and one sync for the batch, as a committer would. A disk error fails the task. */
static enum ron_rc sink_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct world *w = arg;
    uint64_t numbers[RON_TASK_BATCH_DEFAULT];
    struct ron_err err = {0};
    enum ron_rc rc;

    for (size_t i = 0; i < count; i++) {
        numbers[i] = ((struct message *)items[i])->number;
        ron_free(items[i]);
    }
    rc = w->env->disk->pwrite(w->env, w->fd, numbers, count * sizeof numbers[0], w->file_end, &err);
    if (rc == RON_OK) {
        rc = w->env->disk->sync(w->env, w->fd, true, &err);
    }
    if (rc != RON_OK) {
        w->failed += count;
        ron_task_set_error(t, &err);
        return rc;
    }
    w->file_end += count * sizeof numbers[0];
    w->handled += count;
    return RON_OK;
}

/* ---- the world ---- */

static void on_event(void *arg, const struct ron_sup_event *e)
{
    struct world *w = arg;

    sim_note(w->sim, ron_sup_event_name(e->kind), (uint64_t)-e->rc, e->delay_ms);
    w->restarts += e->kind == RON_SUP_EVENT_RESTARTING;
    SIM_CHECK(w->sim, e->delay_ms <= 5000 || e->kind == RON_SUP_EVENT_STUCK);
}

static struct ron_chan *make_chan(struct world *w, struct ron_registry *reg, const char *name,
                                  uint32_t capacity, enum ron_chan_policy policy)
{
    struct ron_chan *c = NULL;
    enum ron_rc rc = ron_chan_new(&(struct ron_chan_opts){.registry = reg,
                                                          .env = w->env,
                                                          .name = name,
                                                          .producers = "test",
                                                          .consumers = "test",
                                                          .drop_text = "counted",
                                                          .capacity = capacity,
                                                          .policy = policy,
                                                          .drop = drop_left,
                                                          .drop_arg = w},
                                  &c, NULL);

    SIM_CHECK(w->sim, rc == RON_OK);
    return c;
}

static void add_tasks(struct world *w)
{
    const struct ron_task_def defs[] = {
        {.name = "listener",
         .kind = "listener",
         .role = RON_ROLE_INTAKE,
         .worker = 0,
         .start = listener_start,
         .handle = listener_handle,
         .drain = listener_drain},
        {.name = "loop-a",
         .kind = "worker",
         .worker = RON_WORKER_ANY,
         .stage = 1,
         .input = w->work,
         .batch_max = 4,
         .handle = worker_handle},
        {.name = "loop-b",
         .kind = "worker",
         .worker = RON_WORKER_ANY,
         .stage = 1,
         .input = w->work,
         .batch_max = 4,
         .handle = worker_handle},
        {.name = "blocking-c",
         .kind = "worker",
         .mode = RON_TASK_BLOCKING,
         .stage = 1,
         .input = w->work,
         .handle = blocking_handle},
        {.name = "sink",
         .kind = "sink",
         .mode = RON_TASK_BLOCKING,
         .stage = 2,
         .input = w->results,
         .start = sink_start,
         .handle = sink_handle,
         .stop = sink_stop},
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(defs); i++) {
        struct ron_task_def d = defs[i];
        d.arg = w;
        SIM_CHECK(w->sim, ron_sup_add(w->sup, &d, NULL, NULL) == RON_OK);
    }
}

static void world_body(void *arg)
{
    struct world *w = arg;
    struct sim_opts calm = sim_opts_calm();
    struct ron_registry *reg = NULL;
    struct ron_exec *exec = NULL;

    w->sim = sim_new(w->seed, w->swarm ? NULL : &calm);
    w->env = sim_host_env(sim_host_new(w->sim, "a"));
    ron_rand_seed(&w->rand, w->seed);
    w->stop_at_ms = ron_env_now_ns(w->env) / RON_NS_PER_MS + ron_rand_range(&w->rand, 1, 4000);
    w->fail_one_in = w->swarm ? ron_rand_range(&w->rand, 20, 2000) : UINT32_MAX;
    SIM_CHECK(w->sim, ron_registry_new(&reg, NULL) == RON_OK);
    SIM_CHECK(w->sim,
              ron_exec_new(&(struct ron_exec_opts){.env = w->env, .registry = reg, .workers = 2},
                           &exec, NULL) == RON_OK);
    SIM_CHECK(w->sim, ron_sup_new(&(struct ron_sup_opts){.env = w->env,
                                                         .registry = reg,
                                                         .exec = exec,
                                                         .on_event = on_event,
                                                         .on_event_arg = w},
                                  &w->sup, NULL) == RON_OK);
    w->work = make_chan(w, reg, "work", 8, RON_CHAN_REJECT);
    w->results = make_chan(w, reg, "results", 8, RON_CHAN_WAIT);
    add_tasks(w);
    w->code = ron_sup_run(w->sup);
    w->leaked = ron_sup_leaked(w->sup);
    ron_sup_free(w->sup);
    SIM_CHECK(w->sim, ron_exec_free(exec));
    ron_chan_free(w->work);
    ron_chan_free(w->results);
    ron_registry_free(reg);
    sim_note(w->sim, "sums", w->handled, w->failed);
    w->hash = sim_trace_hash(w->sim);
    SIM_CHECK(w->sim, w->leaked == 0);
    SIM_CHECK(w->sim, w->code == RON_EXIT_DRAINED || w->code == RON_EXIT_ABORTED);
    SIM_CHECK(w->sim, w->offered == w->refused + w->handled + w->failed + w->left);
    sim_free(w->sim);
}

static struct world run_world(uint64_t seed, bool swarm)
{
    static struct weave_result result;
    struct world w = {.seed = seed, .swarm = swarm};

    weave_run_seeded(world_body, &w, seed, NULL, &result);
    if (result.failed) {
        fail_msg("seed %llu: %s: %s", (unsigned long long)seed, result.kind, result.message);
    }
    return w;
}

static void test_kernel__calm_world__drains_and_handles_all_that_was_accepted(void **state)
{
    uint64_t handled = 0;

    (void)state;
    for (uint64_t i = 0; i < SEEDS; i++) {
        struct world w = run_world(support_seed() + i, false);
        assert_int_equal(w.code, RON_EXIT_DRAINED);
        assert_int_equal(w.left, 0);
        assert_int_equal(w.restarts, 0);
        handled += w.handled;
    }
    assert_true(handled > SEEDS * 50);
}

static void test_kernel__swarm__sums_hold_and_failed_tasks_come_back(void **state)
{
    uint64_t restarts = 0;
    uint64_t handled = 0;
    uint64_t refused = 0;

    (void)state;
    for (uint64_t i = 0; i < SEEDS; i++) {
        struct world w = run_world(support_seed() + i, true);
        restarts += w.restarts;
        handled += w.handled;
        refused += w.refused;
    }
    assert_true(restarts > 10);
    assert_true(handled > 1000);
    assert_true(refused > 0);
}

static void test_kernel__same_seed__same_run_step_for_step(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 10; i++) {
        struct world a = run_world(support_seed() + i, true);
        struct world b = run_world(support_seed() + i, true);
        struct world c = run_world(support_seed() + i + 1000, true);
        assert_true(a.hash == b.hash);
        assert_true(a.hash != c.hash);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel__calm_world__drains_and_handles_all_that_was_accepted),
        cmocka_unit_test(test_kernel__swarm__sums_hold_and_failed_tasks_come_back),
        cmocka_unit_test(test_kernel__same_seed__same_run_step_for_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
