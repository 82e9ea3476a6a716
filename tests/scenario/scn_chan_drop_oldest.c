/* SPDX-License-Identifier: Apache-2.0 */
/* scn_chan_drop_oldest.c - eviction racing receive.
 *
 * Expected in every schedule: each message is received once or handed back once as evicted, never
 * both and never neither; what is received is in order; a send never waits. */
#include "scenario/scn_chan.h"

static void send_evicting(void *arg)
{
    struct scn_party *p = arg;

    for (uint32_t i = 0; i < p->q->per_producer; i++) {
        struct scn_msg *m = scn_message(p, i);
        void *evicted = NULL;

        scn_move(m, SCN_SENDER, SCN_FLIGHT);
        p->last = ron_chan_try_send(p->q->chan, m, &evicted);
        SCN_CHECK(p->last == RON_OK);
        if (evicted != NULL) {
            scn_move(evicted, SCN_FLIGHT, SCN_EVICTED);
        }
    }
}

static void drop_oldest(uint32_t senders, uint32_t capacity, uint32_t per_sender)
{
    struct scn_queue q;
    struct scn_party tx[2] = {{.q = &q, .id = 0}, {.q = &q, .id = 1}};
    struct scn_party rx = {.q = &q};
    struct ron_thread *threads[2];
    struct ron_chan_stats stats;

    scn_queue_init(&q, capacity, RON_CHAN_DROP_OLDEST, senders, per_sender);
    scn_spawn("receiver", scn_receive_all, &rx);
    for (uint32_t i = 0; i < senders; i++) {
        threads[i] = scn_spawn("sender", send_evicting, &tx[i]);
    }
    for (uint32_t i = 0; i < senders; i++) {
        scn_join(threads[i]);
    }
    SCN_CHECK(ron_chan_close(q.chan));
    scn_join_all();
    SCN_CHECK(rx.last == RON_CLOSED);
    ron_chan_get_stats(q.chan, &stats);
    SCN_CHECK(scn_owned_by(q.msgs, scn_queue_total(&q), SCN_EVICTED) == stats.dropped);
    SCN_CHECK(stats.received + stats.dropped == scn_queue_total(&q));
    scn_saw_if(stats.dropped > 0, 0);
    scn_saw_if(stats.dropped == 0, 1);
    scn_count(stats.dropped); /* They went through the queue too. */
    scn_queue_done(&q);
}

static void chan_drop_oldest(void)
{
    drop_oldest(1, 2, 5);
}

static void chan_drop_oldest_2p(void)
{
    drop_oldest(2, 1, 2);
}

const struct scn scn_list[] = {
    {.name = "chan_drop_oldest",
     .body = chan_drop_oldest,
     .must_see = {"an eviction", "no eviction"},
     .stress_rounds = 2,
     .stress_messages = 1000000},
    {.name = "chan_drop_oldest_2p",
     .body = chan_drop_oldest_2p,
     .must_see = {"an eviction", "no eviction"},
     .stress_rounds = 2,
     .stress_messages = 1000000},
    {0},
};
