/* SPDX-License-Identifier: Apache-2.0 */
/* scn_chan.h - one channel with its registry and its messages, for scenarios about queues. */
#pragma once

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/chan/chan.h"
#include "ron/chan/registry.h"
#include "scenario/scn.h"
#include "scenario/scn_env.h"

/* A thread of a scenario: one sender or one receiver. */
struct scn_party {
    struct scn_queue *q;
    uint32_t id; /* of a producer */
    struct scn_order order;
    enum ron_rc last; /* how its work ended */
    uint64_t timeouts;
};

struct scn_queue {
    struct ron_registry *registry;
    struct ron_chan *chan;
    struct scn_msg *msgs; /* those of producer p are [p * per_producer, (p + 1) * per_producer) */
    uint32_t producers;
    uint32_t per_producer;
};

/* What is still queued when the channel is freed comes here. */
static inline void scn_drop(void *item, void *arg)
{
    (void)arg;
    scn_move(item, SCN_FLIGHT, SCN_DROPPED);
}

/* Messages that a tight and a wide round carry on threads: together the million, in some
 * seconds. */
enum { SCN_TIGHT_MESSAGES = 20000, SCN_WIDE_MESSAGES = 1000000, SCN_WIDE_CAPACITY = 256 };

static inline void scn_queue_init_exact(struct scn_queue *q, uint32_t capacity,
                                        enum ron_chan_policy policy, uint32_t producers,
                                        uint32_t per_producer)
{
    struct ron_chan_opts opts = {.env = &scn_env,
                                 .name = "queue",
                                 .producers = "scenario",
                                 .consumers = "scenario",
                                 .drop_text = "given back to the scenario",
                                 .capacity = capacity,
                                 .policy = policy,
                                 .drop = scn_drop};
    enum ron_rc rc;

    *q = (struct scn_queue){.producers = producers, .per_producer = per_producer};
    q->msgs = ron_alloc_array((size_t)producers * per_producer, sizeof *q->msgs);
    RON_ASSERT(q->msgs != NULL);
    for (uint32_t i = 0; i < producers * per_producer; i++) {
        q->msgs[i] = (struct scn_msg){.producer = i / per_producer, .seq = i % per_producer};
    }
    rc = ron_registry_new(&q->registry, NULL);
    RON_ASSERT(rc == RON_OK);
    opts.registry = q->registry;
    rc = ron_chan_new(&opts, &q->chan, NULL);
    RON_ASSERT(rc == RON_OK);
}

static inline uint32_t scn_capacity(uint32_t tight)
{
    return scn_is_wide() ? SCN_WIDE_CAPACITY : tight;
}

/* The capacity and messages of the model; on threads those of the round. */
static inline void scn_queue_init(struct scn_queue *q, uint32_t capacity,
                                  enum ron_chan_policy policy, uint32_t producers,
                                  uint32_t per_producer)
{
    uint32_t messages = scn_is_wide() ? SCN_WIDE_MESSAGES : SCN_TIGHT_MESSAGES;

    scn_queue_init_exact(q, scn_capacity(capacity), policy, producers,
                         scn_scale(per_producer, messages / producers));
}

static inline uint32_t scn_queue_total(const struct scn_queue *q)
{
    return q->producers * q->per_producer;
}

/* Checks what holds at the end of every scenario, counts what arrived, and takes everything
 * apart. */
static inline void scn_queue_done(struct scn_queue *q)
{
    uint32_t total = scn_queue_total(q);
    struct ron_chan_stats stats;
    uint64_t queued;

    ron_chan_get_stats(q->chan, &stats);
    SCN_CHECK(stats.depth_max <= ron_chan_capacity(q->chan));
    queued = stats.depth;
    ron_chan_free(q->chan);
    ron_registry_free(q->registry);
    /* Nothing is lost: what was queued at the end came back through scn_drop, and nothing is in
     * flight. */
    SCN_CHECK(scn_owned_by(q->msgs, total, SCN_FLIGHT) == 0);
    SCN_CHECK(scn_owned_by(q->msgs, total, SCN_DROPPED) == queued);
    SCN_CHECK(scn_owned_by(q->msgs, total, SCN_RECEIVER) == stats.received);
    scn_count(stats.received);
    ron_free(q->msgs);
}

/* A send that gives the message away only when it succeeds. */
static inline enum ron_rc scn_send(struct scn_queue *q, struct scn_msg *m,
                                   struct ron_deadline deadline)
{
    enum ron_rc rc;

    scn_move(m, SCN_SENDER,
             SCN_FLIGHT); /* Before it: the receiver may be quicker than our return. */
    rc = ron_chan_send(q->chan, m, deadline, NULL);
    if (rc != RON_OK) {
        scn_move(m, SCN_FLIGHT, SCN_SENDER);
    }
    return rc;
}

/* On threads, where a message that was refused is offered again: lets the other side run first. */
static inline bool scn_try_again(void)
{
    if (scn_is_model()) {
        return false;
    }
    RON_IGNORE(ron_park_until(ron_deadline_after_ns(ron_mono_ns(), 20000), "a full queue"));
    return true;
}

static inline struct scn_msg *scn_message(const struct scn_party *p, uint32_t i)
{
    return &p->q->msgs[(size_t)p->id * p->q->per_producer + i];
}

/* Thread bodies that several scenarios use; `arg` is a struct scn_party. */

static inline void scn_send_all(void *arg)
{
    struct scn_party *p = arg;

    for (uint32_t i = 0; i < p->q->per_producer; i++) {
        p->last = scn_send(p->q, scn_message(p, i), ron_deadline_never());
        if (p->last != RON_OK) {
            break;
        }
    }
}

static inline void scn_send_all_and_close(void *arg)
{
    struct scn_party *p = arg;

    scn_send_all(p);
    SCN_CHECK(p->last == RON_OK);
    SCN_CHECK(ron_chan_close(p->q->chan));
}

static inline void scn_receive_all(void *arg)
{
    struct scn_party *p = arg;
    void *item = NULL;

    while ((p->last = ron_chan_recv(p->q->chan, ron_deadline_never(), &item)) == RON_OK) {
        scn_receive(&p->order, item);
    }
}
