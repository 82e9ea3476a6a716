/* SPDX-License-Identifier: Apache-2.0 */
/* scn_work_shutdown.c - the models of the specification: producers, a queue of two, consumers, and
 * a shutdown at any point.
 *
 * A producer stands for a listener: it never waits, a full queue means Busy and the message stays
 * with it. A consumer stands for a worker: it prefers the shutdown over work while running, then
 * closes the queue and drains what is left.
 *
 * Expected in every schedule: no deadlock; the shutdown is always observed; at most two messages
 * are drained after it; every message is either handled once or still with its producer. */
#include "ron/chan/watch.h"
#include "scenario/scn_chan.h"

enum { RUN = 0, STOP = 1, CAPACITY = 2, BATCH = 2 };

enum { SAW_DRAINED, SAW_REFUSED, SAW_ALL_HANDLED };
#define MUST_SEE                                                                                   \
    {                                                                                              \
        "a message drained after the shutdown", "a listener refused by the closed queue",          \
            "all messages handled"                                                                 \
    }

/* On threads the shutdown comes in mid-traffic, when this many messages of a round were handled. */
static uint32_t quota(void)
{
    return scn_is_wide() ? 100000 : 2000;
}

struct crew {
    struct scn_queue q;
    struct ron_watch *shutdown;
    struct ron_thread *boss;
    struct ron_au64 handled;
};

struct worker {
    struct crew *crew;
    struct scn_order order;
    uint64_t drained;
};

struct listener {
    struct crew *crew;
    struct scn_party party;
};

static void listen_main(void *arg)
{
    struct listener *l = arg;
    struct ron_chan *chan = l->crew->q.chan;

    for (uint32_t i = 0; i < l->crew->q.per_producer; i++) {
        struct scn_msg *m = scn_message(&l->party, i);
        enum ron_rc rc;

        do {
            scn_move(m, SCN_SENDER, SCN_FLIGHT);
            rc = ron_chan_try_send(chan, m, NULL);
            if (rc != RON_OK) {
                scn_move(m, SCN_FLIGHT, SCN_SENDER);
            }
        } while (rc == RON_FULL && scn_try_again());
        l->party.last = rc;
        if (rc == RON_CLOSED) {
            break;
        }
    }
}

static void handle(struct worker *w, struct scn_msg *m)
{
    scn_receive(&w->order, m);
    if (!scn_is_model() && ron_au64_add(&w->crew->handled, 1) + 1 == quota()) {
        ron_unpark(w->crew->boss);
    }
}

static void drain(struct worker *w)
{
    void *item = NULL;

    SCN_CHECK(ron_watch_value(w->crew->shutdown) == STOP);
    RON_IGNORE(ron_chan_close(w->crew->q.chan)); /* The other worker may have been first. */
    while (ron_chan_recv(w->crew->q.chan, ron_deadline_never(), &item) == RON_OK) {
        handle(w, item);
        w->drained++;
    }
}

static void work_main(void *arg)
{
    struct worker *w = arg;
    void *items[BATCH];
    uint64_t seen = 1; /* the version of the first value */

    for (;;) {
        size_t n = 0;
        enum ron_rc rc = ron_chan_recv_or_changed(w->crew->q.chan, w->crew->shutdown, seen, false,
                                                  items, BATCH, ron_deadline_never(), &n);

        if (rc == RON_CLOSED) { /* Drained by the other worker, who has seen the shutdown. */
            SCN_CHECK(ron_watch_value(w->crew->shutdown) == STOP);
            return;
        }
        SCN_CHECK(rc == RON_OK);
        if (n == 0) {
            drain(w);
            return;
        }
        for (size_t i = 0; i < n; i++) {
            handle(w, items[i]);
        }
    }
}

/* A thread of its own, so that the explorer may run it at any point without spending a
 * preemption. */
static void shutdown_main(void *arg)
{
    struct crew *crew = arg;

    while (!scn_is_model() && ron_au64_load(&crew->handled) < quota()) {
        RON_IGNORE(ron_park_until(ron_deadline_never(), "the quota")); /* Checked again above. */
    }
    ron_watch_set(crew->shutdown, STOP);
}

static void crew_run(uint32_t listeners, uint32_t workers, uint32_t per_listener)
{
    struct crew crew = {0};
    struct ron_watch_opts watch_opts = {
        .name = "shutdown", .producers = "scenario", .consumers = "scenario", .value = RUN};
    struct listener l[2] = {{.crew = &crew, .party = {.q = &crew.q, .id = 0}},
                            {.crew = &crew, .party = {.q = &crew.q, .id = 1}}};
    struct worker w[2] = {{.crew = &crew}, {.crew = &crew}};
    enum ron_rc rc;

    scn_queue_init_exact(&crew.q, scn_capacity(CAPACITY), RON_CHAN_REJECT, listeners,
                         scn_scale(per_listener, 2 * quota() / listeners));
    watch_opts.registry = crew.q.registry;
    rc = ron_watch_new(&watch_opts, &crew.shutdown, NULL);
    SCN_CHECK(rc == RON_OK);
    crew.boss = scn_spawn("shutdown", shutdown_main, &crew);
    for (uint32_t i = 0; i < workers; i++) {
        scn_spawn("worker", work_main, &w[i]);
    }
    for (uint32_t i = 0; i < listeners; i++) {
        scn_spawn("listener", listen_main, &l[i]);
    }
    scn_join_all();
    SCN_CHECK(w[0].drained + w[1].drained <= scn_capacity(CAPACITY));
    scn_saw_if(w[0].drained + w[1].drained > 0, SAW_DRAINED);
    scn_saw_if(l[0].party.last == RON_CLOSED, SAW_REFUSED);
    scn_saw_if(scn_owned_by(crew.q.msgs, scn_queue_total(&crew.q), SCN_SENDER) == 0,
               SAW_ALL_HANDLED);
    SCN_CHECK(scn_owned_by(crew.q.msgs, scn_queue_total(&crew.q), SCN_RECEIVER) ==
              w[0].order.count + w[1].order.count);
    ron_watch_free(crew.shutdown);
    scn_queue_done(&crew.q);
}

static void work_shutdown_1p1c(void)
{
    crew_run(1, 1, 3);
}

static void work_shutdown_2p2c(void)
{
    crew_run(2, 2, 2);
}

const struct scn scn_list[] = {
    {.name = "work_shutdown_1p1c",
     .body = work_shutdown_1p1c,
     .must_see = MUST_SEE,
     .stress_rounds = 20,
     .stress_messages = 1000000},
    {.name = "work_shutdown_2p2c",
     .body = work_shutdown_2p2c,
     .must_see = MUST_SEE,
     .stress_rounds = 20,
     .stress_messages = 1000000},
    {0},
};
