/* SPDX-License-Identifier: Apache-2.0 */
/* scn_chan_close.c - a close racing senders that wait for room and receivers that wait for
 * messages.
 *
 * Expected in every schedule: exactly one close is the first; every waiting thread wakes; a send
 * that was refused leaves its message with the sender; what was queued before the close is received
 * or given back. */
#include "scenario/scn_chan.h"

struct closer {
    struct scn_queue *q;
    uint32_t first; /* closes that said they were the first */
};

static void close_once(void *arg)
{
    struct closer *c = arg;

    c->first += ron_chan_close(c->q->chan);
}

/* Two receivers wait; one message and the close arrive in any order. */
static void chan_close_receivers(void)
{
    struct scn_queue q;
    struct scn_party tx = {.q = &q};
    struct scn_party rx[2] = {{.q = &q}, {.q = &q}};
    struct closer closer = {.q = &q};
    uint64_t received;

    scn_queue_init_exact(&q, 1, RON_CHAN_WAIT, 1, 1);
    scn_spawn("receiver", scn_receive_all, &rx[0]);
    scn_spawn("receiver", scn_receive_all, &rx[1]);
    scn_spawn("sender", scn_send_all, &tx);
    scn_spawn("closer", close_once, &closer);
    scn_join_all();
    SCN_CHECK(rx[0].last == RON_CLOSED);
    SCN_CHECK(rx[1].last == RON_CLOSED);
    SCN_CHECK(tx.last == RON_OK || tx.last == RON_CLOSED);
    received = rx[0].order.count + rx[1].order.count;
    SCN_CHECK(received == (tx.last == RON_OK ? 1 : 0));
    SCN_CHECK(closer.first == 1);
    scn_saw_if(tx.last == RON_OK, 0);
    scn_saw_if(tx.last == RON_CLOSED, 1);
    scn_queue_done(&q);
}

/* Two senders compete for one place and nobody receives: the close must free the one that waits. */
static void chan_close_senders(void)
{
    struct scn_queue q;
    struct scn_party tx[2] = {{.q = &q, .id = 0}, {.q = &q, .id = 1}};
    struct closer closer = {.q = &q};
    struct closer again = {.q = &q};

    scn_queue_init_exact(&q, 1, RON_CHAN_WAIT, 2, 1);
    scn_spawn("sender", scn_send_all, &tx[0]);
    scn_spawn("sender", scn_send_all, &tx[1]);
    scn_spawn("closer", close_once, &closer);
    scn_spawn("closer", close_once, &again);
    scn_join_all();
    SCN_CHECK(tx[0].last == RON_CLOSED || tx[1].last == RON_CLOSED);
    SCN_CHECK(closer.first + again.first == 1);
    scn_saw_if(tx[0].last == RON_OK || tx[1].last == RON_OK, 0);
    scn_saw_if(tx[0].last == RON_CLOSED && tx[1].last == RON_CLOSED, 1);
    scn_queue_done(&q);
}

/* Traffic in both directions when the close comes. */
static void chan_close_race(void)
{
    struct scn_queue q;
    struct scn_party tx[2] = {{.q = &q, .id = 0}, {.q = &q, .id = 1}};
    struct scn_party rx = {.q = &q};
    struct closer closer = {.q = &q};

    scn_queue_init(&q, 1, RON_CHAN_WAIT, 2, 2);
    scn_spawn("sender", scn_send_all, &tx[0]);
    scn_spawn("sender", scn_send_all, &tx[1]);
    scn_spawn("receiver", scn_receive_all, &rx);
    if (scn_is_model()) {
        scn_spawn("closer", close_once, &closer);
    } else {
        /* Threads carry the million first; rounds with few messages are in the two scenarios
         * above. */
        struct ron_chan_stats stats;

        do {
            RON_IGNORE(ron_park_until(ron_deadline_after_ms(ron_mono_ns(), 1), "traffic"));
            ron_chan_get_stats(q.chan, &stats);
        } while (stats.sent < scn_queue_total(&q));
        close_once(&closer);
    }
    scn_join_all();
    SCN_CHECK(rx.last == RON_CLOSED);
    SCN_CHECK(closer.first == 1);
    scn_saw_if(rx.order.count > 0 && tx[0].last == RON_CLOSED, 0);
    scn_saw_if(rx.order.count == scn_queue_total(&q), 1);
    scn_queue_done(&q);
}

const struct scn scn_list[] = {
    {.name = "chan_close_receivers",
     .body = chan_close_receivers,
     .must_see = {"the message before the close", "the close before the message"},
     .stress_rounds = 3000},
    {.name = "chan_close_senders",
     .body = chan_close_senders,
     .must_see = {"one sender got the place", "both senders refused"},
     .stress_rounds = 3000},
    {.name = "chan_close_race",
     .body = chan_close_race,
     .must_see = {"a sender refused in mid-traffic", "all messages before the close"},
     .stress_rounds = 2,
     .stress_messages = 1000000},
    {0},
};
