/* SPDX-License-Identifier: Apache-2.0 */
/* scn_handback.c - replies handed back from several threads to a worker that takes them.
 *
 * Expected in every schedule: each reply is taken exactly once, those of one thread in the order of
 * putting, and the taker, which sleeps when it finds nothing, is woken for the last one too. */
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/front/handback.h"
#include "scenario/scn.h"

enum { SENDERS = 2 };

struct reply {
    struct ron_handback_node node;
    struct scn_msg msg;
    uint32_t sender;
    uint32_t number; /* plain: the handback must carry it */
};

struct race {
    struct ron_handback back;
    struct ron_thread *taker;
    uint32_t count; /* of each sender */
    uint32_t next[SENDERS];
};

struct sender {
    struct race *race;
    struct reply *replies;
    uint32_t index;
};

static void put_all(void *arg)
{
    struct sender *s = arg;

    for (uint32_t i = 0; i < s->race->count; i++) {
        struct reply *r = &s->replies[i];
        bool wakes;

        r->sender = s->index;
        r->number = i;
        scn_move(&r->msg, SCN_SENDER, SCN_FLIGHT);
        wakes = ron_handback_put(&s->race->back, &r->node);
        scn_saw_if(wakes, 0);
        scn_saw_if(!wakes, 1);
        if (wakes) {
            ron_unpark(s->race->taker);
        }
    }
}

static uint32_t take_some(struct race *race)
{
    struct ron_handback_node *node = ron_handback_take(&race->back);
    uint32_t taken = 0;

    while (node != NULL) {
        struct reply *r = RON_CONTAINER_OF(node, struct reply, node);

        node = node->next;
        scn_move(&r->msg, SCN_FLIGHT, SCN_RECEIVER);
        SCN_CHECK(r->number == race->next[r->sender]);
        race->next[r->sender]++;
        taken++;
    }
    return taken;
}

static void start_senders(struct race *race, struct sender senders[SENDERS])
{
    for (uint32_t i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){race, ron_alloc_array(race->count, sizeof(struct reply)), i};
        RON_ASSERT(senders[i].replies != NULL);
        scn_spawn("sender", put_all, &senders[i]);
    }
}

/* All threads have ended: everything was taken, once and in order. */
static void check_all(struct race *race, struct sender senders[SENDERS])
{
    SCN_CHECK(ron_handback_take(&race->back) == NULL);
    scn_count(SENDERS * race->count);
    for (uint32_t i = 0; i < SENDERS; i++) {
        SCN_CHECK(race->next[i] == race->count);
        ron_free(senders[i].replies);
    }
}

static void handback_wake(void)
{
    struct race race = {.count = scn_scale(2, 300000), .taker = ron_thread_self()};
    struct sender senders[SENDERS];
    uint32_t left = SENDERS * race.count;

    ron_handback_open(&race.back);
    start_senders(&race, senders);
    while (left > 0) {
        uint32_t taken = take_some(&race);

        left -= taken;
        if (left > 0 && taken == 0) {
            (void)ron_park_until(ron_deadline_never(), "replies");
        }
    }
    scn_join_all();
    check_all(&race, senders);
}

/* The worker ends while replies still come: what it does not take any more is found by whoever
 * frees it. */
static void handback_close(void)
{
    struct race race = {.count = scn_scale(2, 300000), .taker = ron_thread_self()};
    struct sender senders[SENDERS];
    uint32_t late;

    ron_handback_open(&race.back);
    start_senders(&race, senders);
    (void)take_some(&race);
    ron_handback_close(&race.back);
    (void)take_some(&race);
    scn_join_all();
    late = take_some(&race);
    scn_saw_if(late > 0, 2);
    scn_saw_if(late == 0, 3);
    check_all(&race, senders);
}

const struct scn scn_list[] = {
    {.name = "handback_wake",
     .body = handback_wake,
     .must_see = {"a sender must wake the worker", "a sender need not"}},
    {.name = "handback_close",
     .body = handback_close,
     .must_see = {"a sender must wake the worker", "a sender need not", "a reply came too late",
                  "all were in time"}},
    {0},
};
