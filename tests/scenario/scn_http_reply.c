/* SPDX-License-Identifier: Apache-2.0 */
/* scn_http_reply.c - replies put on a worker's stack from several threads while it takes them.
 *
 * Expected in every schedule: each reply is taken exactly once, those of one thread in the order of
 * putting, and the taker, which sleeps when it finds nothing, is woken for the last one too. */
#include "http/reply_stack.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "scenario/scn.h"

enum { SENDERS = 2 };

struct reply {
    struct http_node node;
    struct scn_msg msg;
    uint32_t sender;
    uint32_t number; /* plain: the stack must hand it over */
};

struct race {
    struct ron_aptr stack;
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
        wakes = ron__http_stack_put(&s->race->stack, &r->node);
        scn_saw_if(wakes, 0);
        scn_saw_if(!wakes, 1);
        if (wakes) {
            ron_unpark(s->race->taker);
        }
    }
}

static uint32_t take_some(struct race *race)
{
    struct http_node *node = ron__http_stack_take(&race->stack);
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

static void http_reply_stack(void)
{
    struct race race = {.count = scn_scale(2, 300000), .taker = ron_thread_self()};
    struct sender senders[SENDERS];
    uint32_t left = SENDERS * race.count;

    for (uint32_t i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){&race, ron_alloc_array(race.count, sizeof(struct reply)), i};
        RON_ASSERT(senders[i].replies != NULL);
        scn_spawn("sender", put_all, &senders[i]);
    }
    while (left > 0) {
        uint32_t taken = take_some(&race);

        left -= taken;
        if (left > 0 && taken == 0) {
            (void)ron_park_until(ron_deadline_never(), "replies");
        }
    }
    scn_join_all();
    SCN_CHECK(ron__http_stack_take(&race.stack) == NULL);
    scn_count(SENDERS * race.count);
    for (uint32_t i = 0; i < SENDERS; i++) {
        SCN_CHECK(race.next[i] == race.count);
        ron_free(senders[i].replies);
    }
}

const struct scn scn_list[] = {
    {.name = "http_reply_stack",
     .body = http_reply_stack,
     .must_see = {"a sender found the stack empty", "a sender found it not empty"}},
    {0},
};
