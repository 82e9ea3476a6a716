/* SPDX-License-Identifier: Apache-2.0 */
/* scn_chan_reserve.c - room promised ahead, racing a close.
 *
 * Expected in every schedule: a reservation that was granted can always be used, even after the
 * close; a receiver sees the end only when no reservation is left; reservations count against the
 * capacity. */
#include "chan/chan_priv.h"
#include "scenario/scn_chan.h"

enum { CAPACITY = 2 };

static void send_reserved(void *arg)
{
    struct scn_party *p = arg;

    for (uint32_t i = 0; i < p->q->per_producer; i++) {
        struct scn_msg *m = scn_message(p, i);

        do {
            p->last = ron_chan_reserve(p->q->chan, 1);
        } while (p->last == RON_FULL && scn_try_again());
        if (p->last == RON_CLOSED) {
            return;
        }
        if (p->last == RON_FULL) {
            continue;
        }
        SCN_CHECK(p->last == RON_OK);
        if (i % 4 == 1) { /* Some change their mind. */
            ron_chan_unreserve(p->q->chan, 1);
        } else {
            scn_saw_if(scn_is_model() && ron_chan_is_closed(p->q->chan), 0);
            scn_move(m, SCN_SENDER, SCN_FLIGHT);
            ron_chan_send_reserved(p->q->chan, m);
        }
    }
}

static void close_any_time(void *arg)
{
    struct scn_queue *q = arg;
    struct ron_chan_stats stats;

    do { /* On threads, in mid-traffic. */
        ron_chan_get_stats(q->chan, &stats);
    } while (!scn_is_model() && stats.sent < scn_queue_total(q) / 2);
    SCN_CHECK(ron_chan_close(q->chan));
}

static void chan_reserve(void)
{
    struct scn_queue q;
    struct scn_party tx[2] = {{.q = &q, .id = 0}, {.q = &q, .id = 1}};
    struct scn_party rx = {.q = &q};
    struct ron_chan_stats stats;

    scn_queue_init(&q, CAPACITY, RON_CHAN_REJECT, 2, 2);
    scn_spawn("receiver", scn_receive_all, &rx);
    scn_spawn("sender", send_reserved, &tx[0]);
    scn_spawn("sender", send_reserved, &tx[1]);
    scn_spawn("closer", close_any_time, &q);
    scn_join_all();
    SCN_CHECK(rx.last == RON_CLOSED);
    ron_chan_get_stats(q.chan, &stats);
    SCN_CHECK(stats.depth == 0); /* The end was not seen too early: nothing came after it. */
    SCN_CHECK(rx.order.count == stats.sent);
    scn_saw_if(tx[0].last == RON_CLOSED, 1);
    scn_saw_if(tx[0].last == RON_FULL, 2);
    scn_queue_done(&q);
}

const struct scn scn_list[] = {
    {.name = "chan_reserve",
     .body = chan_reserve,
     .must_see = {"a reservation used after the close", "a reservation refused as closed",
                  "a reservation refused as full"},
     .stress_rounds = 4, /* Half of what is sent comes before the close, a quarter is unreserved. */
     .stress_messages = 1000000},
    {0},
};
