/* SPDX-License-Identifier: Apache-2.0 */
/* scn_chan_cap1.c - a queue with one place: every send and every receive meets the edge.
 *
 * Expected in every schedule: all messages arrive once, each producer's in order, the end is seen
 * after the last of them, and nobody sleeps through it. */
#include "scenario/scn_chan.h"

static void chan_cap1(void)
{
    struct scn_queue q;
    struct scn_party tx = {.q = &q};
    struct scn_party rx = {.q = &q};

    scn_queue_init(&q, 1, RON_CHAN_WAIT, 1, 4);
    scn_spawn("receiver", scn_receive_all, &rx);
    scn_spawn("sender", scn_send_all_and_close, &tx);
    scn_join_all();
    SCN_CHECK(rx.last == RON_CLOSED);
    SCN_CHECK(rx.order.count == scn_queue_total(&q));
    scn_queue_done(&q);
}

/* Two blocked senders and one place: the wake-up for room must reach one of them each time. */
static void chan_cap1_2p(void)
{
    struct scn_queue q;
    struct scn_party tx[2] = {{.q = &q, .id = 0}, {.q = &q, .id = 1}};
    struct scn_party rx = {.q = &q};
    struct ron_thread *senders[2];

    scn_queue_init(&q, 1, RON_CHAN_WAIT, 2, 2);
    senders[0] = scn_spawn("sender-0", scn_send_all, &tx[0]);
    senders[1] = scn_spawn("sender-1", scn_send_all, &tx[1]);
    scn_spawn("receiver", scn_receive_all, &rx);
    scn_join(senders[0]);
    scn_join(senders[1]);
    SCN_CHECK(tx[0].last == RON_OK);
    SCN_CHECK(tx[1].last == RON_OK);
    SCN_CHECK(ron_chan_close(q.chan));
    scn_join_all();
    SCN_CHECK(rx.last == RON_CLOSED);
    SCN_CHECK(rx.order.count == scn_queue_total(&q));
    scn_queue_done(&q);
}

/* Two blocked receivers: the wake-up for a message must reach one of them each time. */
static void chan_cap1_2c(void)
{
    struct scn_queue q;
    struct scn_party tx = {.q = &q};
    struct scn_party rx[2] = {{.q = &q}, {.q = &q}};

    scn_queue_init(&q, 1, RON_CHAN_WAIT, 1, 3);
    scn_spawn("receiver-0", scn_receive_all, &rx[0]);
    scn_spawn("receiver-1", scn_receive_all, &rx[1]);
    scn_spawn("sender", scn_send_all_and_close, &tx);
    scn_join_all();
    SCN_CHECK(rx[0].last == RON_CLOSED);
    SCN_CHECK(rx[1].last == RON_CLOSED);
    SCN_CHECK(rx[0].order.count + rx[1].order.count == scn_queue_total(&q));
    scn_queue_done(&q);
}

const struct scn scn_list[] = {
    {.name = "chan_cap1", .body = chan_cap1, .stress_rounds = 2, .stress_messages = 1000000},
    {.name = "chan_cap1_2p", .body = chan_cap1_2p, .stress_rounds = 2, .stress_messages = 1000000},
    {.name = "chan_cap1_2c", .body = chan_cap1_2c, .stress_rounds = 2, .stress_messages = 1000000},
    {0},
};
