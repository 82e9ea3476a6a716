/* SPDX-License-Identifier: Apache-2.0 */
/* scn_rwd_work.c - runs of the rewarder on their way to the workers: a scheduler, the queue "work"
 * of two, two workers of which one fails with every run it takes, and a shutdown at any point.
 *
 * A worker that fails puts its run back without waiting, as rewarder/stage/worker.c does: a closed
 * queue leaves the run to the next life, a full one or too many failures end it with a refusal. In
 * the model the queue is filled before the workers start; a scheduler that races with workers and
 * shutdown is explored by scn_work_shutdown.c.
 *
 * Expected in every schedule: no deadlock; every run is computed once, refused once, left to the
 * next life, or still with the scheduler, and never two of these; nothing stays in the queue. */
#include "scenario/scn_chan.h"

enum { CAPACITY = 2, RUNS = 2, TRIES = 3, ON_THREADS = 20000 };

enum { SAW_RESCUED, SAW_LEFT, SAW_REFUSED };
#define MUST_SEE                                                                                   \
    {                                                                                              \
        "a run computed by the worker that is well after the other failed with it",                \
            "a run left to the next life by a closed queue", "a run refused after its tries"       \
    }

struct pool {
    struct scn_queue q;
    uint8_t *tries; /* of each run; its owner's */
    struct ron_au64 rescued;
    struct ron_au64 left;
    struct ron_au64 refused;
    struct ron_au64 taken;
    struct ron_thread *boss;
};

struct hand {
    struct pool *pool;
    bool fails;
    uint64_t computed;
};

/* Where a run ends but in the hands of a worker: EVICTED. */
static void put_back(struct pool *p, struct scn_msg *m)
{
    enum ron_rc rc = RON_LIMIT;

    if (++p->tries[m->seq] < TRIES) {
        scn_move(m, SCN_RECEIVER, SCN_FLIGHT); /* before it: then it is somebody else's */
        rc = ron_chan_try_send(p->q.chan, m, NULL);
        if (rc == RON_OK) {
            return;
        }
        scn_move(m, SCN_FLIGHT, SCN_RECEIVER);
    }
    (void)ron_au64_add(rc == RON_CLOSED ? &p->left : &p->refused, 1);
    scn_move(m, SCN_RECEIVER, SCN_EVICTED);
}

static void work_main(void *arg)
{
    struct hand *h = arg;
    struct pool *p = h->pool;
    void *item = NULL;

    while (ron_chan_recv(p->q.chan, ron_deadline_never(), &item) == RON_OK) {
        struct scn_msg *m = item;

        scn_move(m, SCN_FLIGHT, SCN_RECEIVER);
        if (!scn_is_model() && ron_au64_add(&p->taken, 1) + 1 == ON_THREADS) {
            ron_unpark(p->boss);
        }
        if (h->fails) {
            put_back(p, m);
        } else {
            h->computed++;
            (void)ron_au64_add(&p->rescued, p->tries[m->seq] > 0);
        }
    }
}

static void schedule_main(void *arg)
{
    struct pool *p = arg;
    enum ron_rc rc = RON_OK;

    for (uint32_t i = 0; i < p->q.per_producer && rc != RON_CLOSED; i++) {
        struct scn_msg *m = &p->q.msgs[i];

        do {
            scn_move(m, SCN_SENDER, SCN_FLIGHT);
            rc = ron_chan_try_send(p->q.chan, m, NULL);
            if (rc != RON_OK) {
                scn_move(m, SCN_FLIGHT, SCN_SENDER);
            }
        } while (rc == RON_FULL && scn_try_again());
    }
}

static void shutdown_main(void *arg)
{
    struct pool *p = arg;

    while (!scn_is_model() && ron_au64_load(&p->taken) < ON_THREADS) {
        RON_IGNORE(ron_park_until(ron_deadline_never(), "the quota")); /* Checked again above. */
    }
    RON_IGNORE(ron_chan_close(p->q.chan));
}

static void rwd_work(void)
{
    struct pool p = {0};
    struct hand workers[] = {{.pool = &p, .fails = true}, {.pool = &p}};
    struct ron_chan_stats stats;
    uint64_t ended;

    scn_calm(true);
    scn_queue_init_exact(&p.q, CAPACITY, RON_CHAN_REJECT, 1, scn_scale(RUNS, 2 * ON_THREADS));
    p.tries = ron_alloc_zero(p.q.per_producer);
    RON_ASSERT(p.tries != NULL);
    if (scn_is_model()) {
        schedule_main(&p);
    }
    scn_calm(false);
    p.boss = scn_spawn("shutdown", shutdown_main, &p);
    for (size_t i = 0; i < RON_ARRAY_LEN(workers); i++) {
        scn_spawn("worker", work_main, &workers[i]);
    }
    if (!scn_is_model()) {
        scn_spawn("scheduler", schedule_main, &p);
    }
    scn_join_all();
    scn_calm(true);
    ended = ron_au64_load(&p.left) + ron_au64_load(&p.refused);
    ron_chan_get_stats(p.q.chan, &stats);
    SCN_CHECK(stats.depth == 0 && stats.depth_max <= CAPACITY);
    SCN_CHECK(workers[0].computed == 0);
    SCN_CHECK(scn_owned_by(p.q.msgs, p.q.per_producer, SCN_RECEIVER) == workers[1].computed);
    SCN_CHECK(scn_owned_by(p.q.msgs, p.q.per_producer, SCN_EVICTED) == ended);
    SCN_CHECK(scn_owned_by(p.q.msgs, p.q.per_producer, SCN_SENDER) + workers[1].computed + ended ==
              p.q.per_producer);
    scn_saw_if(ron_au64_load(&p.rescued) > 0, SAW_RESCUED);
    scn_saw_if(ron_au64_load(&p.left) > 0, SAW_LEFT);
    scn_saw_if(ron_au64_load(&p.refused) > 0, SAW_REFUSED);
    scn_count(stats.received);
    ron_chan_free(p.q.chan);
    ron_registry_free(p.q.registry);
    ron_free(p.tries);
    ron_free(p.q.msgs);
    scn_calm(false);
}

const struct scn scn_list[] = {
    {.name = "rwd_work",
     .body = rwd_work,
     .must_see = MUST_SEE,
     .stress_rounds = 10,
     .stress_messages = 20000},
    {0},
};
