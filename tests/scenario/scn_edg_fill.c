/* SPDX-License-Identifier: Apache-2.0 */
/* scn_edg_fill.c - misses of the edge that share a fill: two listeners that want the same target, a
 * queue of two, a worker, and a shutdown that a watch tells of at any point.
 *
 * The steps are those of edge/fill/live.c and edge/fill/worker.c. A listener looks into the list of
 * fills under its lock and joins the one that is there, or begins one with a try_send: full or
 * closed means a refusal, and the fill is not listed. The worker prefers the shutdown over work;
 * then it closes the queue and drains it. A fill leaves the list and its waiters are taken under
 * one lock.
 *
 * Expected in every schedule: no deadlock; the shutdown is always seen; at most two fills are
 * drained after it; a target has at most one fill at a time; every request is answered once or
 * refused once. */
#include "ron/base/list.h"
#include "ron/chan/watch.h"
#include "scenario/scn_chan.h"

enum { RUN = 0, STOP = 1, CAPACITY = 2, LISTENERS = 2, ON_THREADS = 20000 };

enum { SAW_SHARED, SAW_SECOND, SAW_DRAINED, SAW_REFUSED };
#define MUST_SEE                                                                                   \
    {                                                                                              \
        "a request that shares the fill of another", "a second fill after the first has ended",    \
            "a fill drained after the shutdown", "a request refused by the closed queue"           \
    }

/* A message is a request: with its listener, with a fill (in flight), answered (received) or
 * refused (dropped). The fill is the message that began it. */
struct waiter {
    struct waiter *next;
    struct scn_msg *msg;
};

struct desk {
    struct scn_queue q;
    struct ron_watch *shutdown;
    struct ron_mutex mu; /* guards fill and waiters */
    struct waiter *fill; /* of the one target; NULL: none */
    struct waiter *waiters;
    uint64_t fills; /* the worker's, as all below */
    uint64_t answered;
    uint64_t drained;
    struct ron_thread *boss;
    struct ron_au64 handled;
};

struct listener {
    struct desk *desk;
    uint32_t id;
    struct waiter *all; /* one for each request */
    uint64_t shared;
    uint64_t refused;
};

/* As join() in edge/fill/live.c. */
static enum ron_rc join(struct listener *l, struct waiter *w)
{
    struct desk *d = l->desk;
    enum ron_rc rc = RON_OK;

    scn_move(w->msg, SCN_SENDER, SCN_FLIGHT);
    ron_mutex_lock(&d->mu);
    if (d->fill != NULL) {
        l->shared++;
        w->next = d->waiters;
        d->waiters = w;
    } else {
        rc = ron_chan_try_send(d->q.chan, w, NULL);
        if (rc == RON_OK) {
            SCN_CHECK(d->waiters == NULL);
            d->fill = w;
            d->waiters = w;
        }
    }
    ron_mutex_unlock(&d->mu);
    if (rc != RON_OK) {
        scn_move(w->msg, SCN_FLIGHT, SCN_DROPPED);
        l->refused++;
    }
    return rc;
}

static void listen_main(void *arg)
{
    struct listener *l = arg;

    for (uint32_t i = 0; i < l->desk->q.per_producer; i++) {
        if (join(l, &l->all[i]) == RON_CLOSED) {
            break;
        }
    }
}

/* As run() in edge/fill/worker.c: the exchange is whatever happens between the two locks. */
static void fill(struct desk *d, struct waiter *f)
{
    struct waiter *w;

    d->fills++;
    ron_mutex_lock(&d->mu);
    SCN_CHECK(d->fill == f);
    w = d->waiters;
    d->fill = NULL;
    d->waiters = NULL;
    ron_mutex_unlock(&d->mu);
    while (w != NULL) {
        struct waiter *next = w->next;

        scn_move(w->msg, SCN_FLIGHT, SCN_RECEIVER);
        w->next = NULL;
        d->answered++;
        if (!scn_is_model() && ron_au64_add(&d->handled, 1) + 1 == ON_THREADS) {
            ron_unpark(d->boss);
        }
        w = next;
    }
}

static void work_main(void *arg)
{
    struct desk *d = arg;
    void *item = NULL;
    size_t n = 1;

    while (n > 0) {
        enum ron_rc rc = ron_chan_recv_or_changed(d->q.chan, d->shutdown, 1, false, &item, 1,
                                                  ron_deadline_never(), &n);

        SCN_CHECK(rc == RON_OK);
        if (n > 0) {
            fill(d, item);
        }
    }
    SCN_CHECK(ron_watch_value(d->shutdown) == STOP);
    RON_IGNORE(ron_chan_close(d->q.chan));
    while (ron_chan_recv(d->q.chan, ron_deadline_never(), &item) == RON_OK) {
        fill(d, item);
        d->drained++;
    }
}

static void shutdown_main(void *arg)
{
    struct desk *d = arg;

    while (!scn_is_model() && ron_au64_load(&d->handled) < ON_THREADS) {
        RON_IGNORE(ron_park_until(ron_deadline_never(), "the quota")); /* Checked again above. */
    }
    ron_watch_set(d->shutdown, STOP);
}

static void listeners_init(struct desk *d, struct listener *l)
{
    for (uint32_t i = 0; i < LISTENERS; i++) {
        l[i] = (struct listener){.desk = d, .id = i};
        l[i].all = ron_alloc_array(d->q.per_producer, sizeof *l[i].all);
        RON_ASSERT(l[i].all != NULL);
        for (uint32_t j = 0; j < d->q.per_producer; j++) {
            l[i].all[j] = (struct waiter){.msg = &d->q.msgs[i * d->q.per_producer + j]};
        }
    }
}

static void desk_done(struct desk *d, struct listener *l)
{
    uint32_t total = scn_queue_total(&d->q);
    struct ron_chan_stats stats;

    ron_chan_get_stats(d->q.chan, &stats);
    SCN_CHECK(stats.depth == 0 && stats.depth_max <= CAPACITY && stats.received == d->fills);
    SCN_CHECK(d->fill == NULL && d->waiters == NULL && d->drained <= CAPACITY);
    SCN_CHECK(scn_owned_by(d->q.msgs, total, SCN_FLIGHT) == 0);
    SCN_CHECK(scn_owned_by(d->q.msgs, total, SCN_RECEIVER) == d->answered);
    SCN_CHECK(scn_owned_by(d->q.msgs, total, SCN_DROPPED) == l[0].refused + l[1].refused);
    SCN_CHECK(d->answered == d->fills + l[0].shared + l[1].shared);
    scn_saw_if(l[0].shared + l[1].shared > 0, SAW_SHARED);
    scn_saw_if(d->fills > 1, SAW_SECOND);
    scn_saw_if(d->drained > 0, SAW_DRAINED);
    scn_saw_if(l[0].refused + l[1].refused > 0, SAW_REFUSED);
    scn_count(d->answered);
    ron_mutex_done(&d->mu);
    ron_watch_free(d->shutdown);
    ron_chan_free(d->q.chan);
    ron_registry_free(d->q.registry);
    ron_free(l[0].all);
    ron_free(l[1].all);
    ron_free(d->q.msgs);
}

static void edg_fill(void)
{
    struct desk d = {0};
    struct ron_watch_opts watch_opts = {
        .name = "shutdown", .producers = "scenario", .consumers = "scenario", .value = RUN};
    struct listener l[LISTENERS];

    scn_calm(true);
    scn_queue_init_exact(&d.q, CAPACITY, RON_CHAN_REJECT, LISTENERS, scn_scale(1, ON_THREADS));
    watch_opts.registry = d.q.registry;
    RON_ASSERT(ron_watch_new(&watch_opts, &d.shutdown, NULL) == RON_OK);
    ron_mutex_init(&d.mu, RON_RANK_SHARED, "fills");
    listeners_init(&d, l);
    scn_calm(false);
    d.boss = scn_spawn("shutdown", shutdown_main, &d);
    scn_spawn("worker", work_main, &d);
    scn_spawn("listener", listen_main, &l[0]);
    scn_spawn("listener", listen_main, &l[1]);
    scn_join_all();
    scn_calm(true);
    desk_done(&d, l);
    scn_calm(false);
}

const struct scn scn_list[] = {
    {.name = "edg_fill",
     .body = edg_fill,
     .must_see = MUST_SEE,
     .stress_rounds = 10,
     .stress_messages = 20000},
    {0},
};
