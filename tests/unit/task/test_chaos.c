/* SPDX-License-Identifier: Apache-2.0 */
/* test_chaos.c - workers that keep dying under load.
 *
 * Goal: half of a pool of workers fails again and again while messages pour in. They come back with
 * backoff, no task leaks, no backlog stays, and every message is handled exactly once or counted as
 * taken down by the failure that held it.
 * Method: real time; loop workers and blocking ones share one channel; each message has its own
 * count. The load lasts until each failing worker was restarted often enough. RON_SOAK=1 asks for
 * more. */
#include "support/rand.h"
#include "unit/task/fixture.h"

enum {
    PRODUCERS = 2,
    WORKERS = 6,
    CALM = 3,            /* workers 0..2 never fail; of each kind there is one at least */
    RESTARTS_SHORT = 20, /* of each failing worker, before the load ends */
    RESTARTS_LONG = 500,
    MESSAGES_MAX = 1 << 24, /* bounds the memory; a soak uses a quarter of it */
    WORK = 300, /* rounds of arithmetic per message, so that the calm do not do it all */
};

struct chaos;

struct worker {
    struct chaos *c;
    size_t index;
    struct ron_rand rand;
    uint64_t toil;
    struct ron_task *task;
    struct ron_au32 inside;
};

struct chaos {
    struct fx *fx;
    struct ron_chan *in;
    uint64_t restarts_wanted;
    uint8_t *seen; /* by number of the message; each is written once, or the test fails */
    struct ron_au32 next_number; /* numbers given out */
    struct ron_au64 lost;        /* taken down by a failure, and counted */
    struct ron_au64 handled;
    struct ron_stat overlaps;
    struct fx_gate produced;
    struct worker workers[WORKERS];
};

static bool enough(struct chaos *c)
{
    for (size_t i = CALM; i < WORKERS; i++) {
        if (fx_task_stats(c->workers[i].task).restarts < c->restarts_wanted) {
            return false;
        }
    }
    return true;
}

/* A supervised producer: waits for room, ends when there was enough chaos. */
static enum ron_rc produce(struct ron_task *t, void *arg)
{
    struct chaos *c = arg;

    (void)t;
    while (!enough(c)) {
        for (int i = 0; i < 100; i++) {
            uint64_t number = ron_au32_add(&c->next_number, 1) + 1;

            if (number > MESSAGES_MAX) {
                return RON_LIMIT;
            }
            RON_TRY(ron_chan_send(c->in, fx_item(number), fx_deadline(), NULL));
        }
    }
    fx_gate_add(&c->produced, 1);
    return RON_OK;
}

static enum ron_rc work(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct worker *w = arg;
    struct chaos *c = w->c;
    bool fails = count > 0 && w->index >= CALM && ron_rand_chance(&w->rand, 1, 4);
    /* A failure in the middle of a batch: what it had not yet done goes down with it. */
    size_t done = fails ? ron_rand_below(&w->rand, count) : count;

    (void)t;
    ron_stat_add(&c->overlaps, ron_au32_xchg(&w->inside, 1));
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < WORK; k++) {
            (void)ron_splitmix64(&w->toil);
        }
        c->seen[fx_number(items[i])]++;
    }
    (void)ron_au64_add(&c->handled, done);
    (void)ron_au64_add(&c->lost, count - done);
    ron_au32_store(&w->inside, 0);
    return fails ? RON_IO : RON_OK;
}

static void chaos_open(struct chaos *c)
{
    static const char *const producers[PRODUCERS] = {"producer-0", "producer-1"};
    static const char *const names[WORKERS] = {"worker-0", "worker-1", "worker-2",
                                               "worker-3", "worker-4", "worker-5"};
    struct ron_rand rand = support_rand();

    *c = (struct chaos){.fx = fx_open(2)};
    c->restarts_wanted = getenv("RON_SOAK") != NULL ? RESTARTS_LONG : RESTARTS_SHORT;
    c->seen = calloc(MESSAGES_MAX + 1, sizeof *c->seen);
    assert_non_null(c->seen);
    fx_gate_init(&c->produced);
    c->in = fx_chan(c->fx, "work", 256, RON_CHAN_WAIT);
    for (size_t i = 0; i < PRODUCERS; i++) {
        (void)fx_add(c->fx, &(struct ron_task_def){.name = producers[i],
                                                   .kind = "producer",
                                                   .mode = RON_TASK_BLOCKING,
                                                   .stage = 1,
                                                   .run = produce,
                                                   .arg = c});
    }
    for (size_t i = 0; i < WORKERS; i++) {
        c->workers[i] = (struct worker){.c = c, .index = i, .rand = ron_rand_fork(&rand)};
        c->workers[i].task = fx_add(
            c->fx, &(struct ron_task_def){
                       .name = names[i],
                       .kind = "worker",
                       .mode = i % 2 == 0 ? RON_TASK_LOOP : RON_TASK_BLOCKING,
                       .stage = 2,
                       .worker = RON_WORKER_ANY,
                       .input = c->in,
                       .batch_max = 8,
                       /* At least 2 ms between failures: at most ten in a window of 20. */
                       .restart = {.base_ms = 2, .cap_ms = 8, .restarts_max = 15, .window_ms = 20},
                       .handle = work,
                       .arg = &c->workers[i]});
    }
}

static void test_chaos__half_of_the_workers_keep_dying__nothing_lost_nothing_left(void **state)
{
    struct chaos c;
    struct ron_chan_stats stats;
    uint64_t restarts = 0;
    uint64_t starts = 0;

    (void)state;
    chaos_open(&c);
    fx_start(c.fx);
    assert_true(fx_gate_reached(&c.produced, PRODUCERS));
    assert_true(fx_health(c.fx).ready);
    assert_int_equal(fx_stop(c.fx), RON_EXIT_DRAINED);

    ron_chan_get_stats(c.in, &stats);
    assert_int_equal(stats.depth, 0);
    assert_int_equal(stats.sent, ron_au32_load(&c.next_number));
    assert_int_equal(stats.received, stats.sent);
    assert_true(stats.depth_max <= 256);
    assert_int_equal(ron_au64_load(&c.handled) + ron_au64_load(&c.lost), stats.sent);
    for (uint64_t i = 1; i <= stats.sent; i++) {
        assert_int_equal(c.seen[i], 1);
    }
    assert_int_equal(ron_stat_get(&c.overlaps), 0);
    for (size_t i = 0; i < WORKERS; i++) {
        struct ron_task_stats ts = fx_task_stats(c.workers[i].task);

        assert_int_equal(ts.starts, ts.restarts + 1);
        if (i < CALM) {
            assert_int_equal(ts.restarts, 0);
        } else {
            assert_true(ts.restarts >= c.restarts_wanted);
        }
        restarts += ts.restarts;
        starts += ts.starts;
    }
    assert_int_equal(fx_kind(c.fx, "worker").spawned, starts);
    assert_int_equal(fx_kind(c.fx, "worker").aborted, 0);
    assert_int_equal(fx_count(c.fx, RON_SUP_EVENT_ESCALATED, NULL), 0);
    print_message("%llu messages, %llu restarts, %llu messages went down with a worker\n",
                  (unsigned long long)stats.sent, (unsigned long long)restarts,
                  (unsigned long long)ron_au64_load(&c.lost));
    /* Each restart was announced with its delay. */
    for (size_t i = 0; i < c.fx->count; i++) {
        if (c.fx->log[i].kind == RON_SUP_EVENT_RESTARTING) {
            assert_in_range(c.fx->log[i].delay_ms, 2, 8);
        }
    }
    ron_chan_free(c.in);
    free(c.seen);
    fx_gate_done(&c.produced);
    assert_true(fx_close(c.fx));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chaos__half_of_the_workers_keep_dying__nothing_lost_nothing_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
