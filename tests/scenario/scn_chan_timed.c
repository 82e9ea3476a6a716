/* SPDX-License-Identifier: Apache-2.0 */
/* scn_chan_timed.c - deadlines racing the message, the room or the cancel they wait for.
 *
 * Expected in every schedule: a message is received or still queued, never lost with a timeout; a
 * send that timed out leaves its message with the sender; a waiter that gives up hands its wake-up
 * to the next. */
#include "scenario/scn_chan.h"

static struct ron_deadline soon(void)
{
    return ron_deadline_after_ns(ron_mono_ns(), scn_scale(10000000, 20000));
}

static void receive_timed(void *arg)
{
    struct scn_party *p = arg;
    void *item = NULL;

    while ((p->last = ron_chan_recv(p->q->chan, soon(), &item)) != RON_CLOSED) {
        if (p->last == RON_TIMEOUT) {
            p->timeouts++;
        } else {
            SCN_CHECK(p->last == RON_OK);
            scn_receive(&p->order, item);
        }
    }
}

static void chan_timed_recv(void)
{
    struct scn_queue q;
    struct scn_party tx = {.q = &q};
    struct scn_party rx[2] = {{.q = &q}, {.q = &q}};

    scn_queue_init(&q, 2, RON_CHAN_WAIT, 1, 2);
    scn_spawn("receiver", receive_timed, &rx[0]);
    scn_spawn("receiver", receive_timed, &rx[1]);
    scn_spawn("sender", scn_send_all_and_close, &tx);
    scn_join_all();
    SCN_CHECK(rx[0].order.count + rx[1].order.count == scn_queue_total(&q));
    scn_saw_if(rx[0].timeouts + rx[1].timeouts > 0, 0);
    scn_saw_if(rx[0].timeouts + rx[1].timeouts == 0, 1);
    scn_queue_done(&q);
}

/* ---- wake-ups that a leaving waiter holds ---------------------------------------------------- */

static void receive_one(void *arg)
{
    struct scn_party *p = arg;
    void *item = NULL;

    p->last = ron_chan_recv(p->q->chan, ron_deadline_never(), &item);
    if (p->last == RON_OK) {
        scn_receive(&p->order, item);
    }
}

static void receive_one_timed(void *arg)
{
    struct scn_party *p = arg;
    void *item = NULL;

    p->last = ron_chan_recv(p->q->chan, soon(), &item);
    if (p->last == RON_OK) {
        scn_receive(&p->order, item);
    }
}

static void send_first(void *arg)
{
    struct scn_party *p = arg;

    p->last = scn_send(p->q, scn_message(p, 0), ron_deadline_never());
    SCN_CHECK(p->last == RON_OK);
}

/* One message and two receivers, one of which gives up. There is no close that could wake a
 * forgotten receiver: if the leaver kept the wake-up, the other sleeps for ever and that is a
 * deadlock. */
static void hand_over(void (*leaver)(void *), bool cancel)
{
    struct scn_queue q;
    struct scn_party tx = {.q = &q};
    struct scn_party leaving = {.q = &q};
    struct scn_party staying = {.q = &q};
    struct ron_thread *t;

    scn_queue_init_exact(&q, 2, RON_CHAN_WAIT, 1, 2);
    t = scn_spawn("leaver", leaver, &leaving);
    scn_spawn("stayer", receive_one, &staying);
    scn_spawn("sender", send_first, &tx);
    if (cancel) {
        ron_thread_cancel(t);
    }
    scn_join(t);
    if (leaving.last == RON_OK) {
        /* It was quicker than its deadline, so the stayer needs a message of its own. */
        enum ron_rc rc = scn_send(&q, &q.msgs[1], ron_deadline_never());

        SCN_CHECK(rc == RON_OK);
    } else {
        SCN_CHECK(leaving.last == (cancel ? RON_CANCELLED : RON_TIMEOUT));
    }
    scn_join_all();
    SCN_CHECK(staying.last == RON_OK);
    scn_saw_if(leaving.last != RON_OK, 0);
    scn_saw_if(leaving.last == RON_OK, 1);
    scn_queue_done(&q);
}

static void chan_timeout_hands_over(void)
{
    hand_over(receive_one_timed, false);
}

static void chan_cancel_hands_over(void)
{
    hand_over(receive_one, true);
}

/* ---- senders with a deadline ----------------------------------------------------------------- */

static void send_timed(void *arg)
{
    struct scn_party *p = arg;

    for (uint32_t i = 0; i < p->q->per_producer; i++) {
        p->last = scn_send(p->q, scn_message(p, i), soon());
        if (p->last == RON_TIMEOUT) {
            p->timeouts++;
            /* On threads the message is tried again until it arrives; the model leaves it
             * behind. */
            i -= !scn_is_model();
        } else {
            SCN_CHECK(p->last == RON_OK);
        }
    }
}

static void chan_timed_send(void)
{
    struct scn_queue q;
    struct scn_party tx[2] = {{.q = &q, .id = 0}, {.q = &q, .id = 1}};
    struct scn_party rx = {.q = &q};
    struct ron_thread *senders[2];
    struct ron_chan_stats stats;

    scn_queue_init(&q, 1, RON_CHAN_WAIT, 2, 2);
    senders[0] = scn_spawn("sender", send_timed, &tx[0]);
    senders[1] = scn_spawn("sender", send_timed, &tx[1]);
    scn_spawn("receiver", scn_receive_all, &rx);
    scn_join(senders[0]);
    scn_join(senders[1]);
    SCN_CHECK(ron_chan_close(q.chan));
    scn_join_all();
    ron_chan_get_stats(q.chan, &stats);
    SCN_CHECK(stats.timeouts == tx[0].timeouts + tx[1].timeouts);
    SCN_CHECK(rx.order.count == stats.sent);
    scn_saw_if(stats.timeouts > 0, 0);
    scn_saw_if(stats.timeouts == 0, 1);
    SCN_CHECK(scn_owned_by(q.msgs, scn_queue_total(&q), SCN_SENDER) + stats.sent ==
              scn_queue_total(&q));
    scn_queue_done(&q);
}

/* ---- one more try after a delay -------------------------------------------------------------- */

static void send_with_retry(void *arg)
{
    struct scn_party *p = arg;

    for (uint32_t i = 0; i < p->q->per_producer; i++) {
        p->last = scn_send(p->q, scn_message(p, i), ron_deadline_never());
        scn_saw_if(p->last == RON_FULL, 0);
        scn_saw_if(p->last == RON_CLOSED, 1);
        if (p->last == RON_CLOSED) {
            return;
        }
        SCN_CHECK(p->last == RON_OK || p->last == RON_FULL);
    }
}

static void receive_one_and_close(void *arg)
{
    struct scn_party *p = arg;

    receive_one(p);
    SCN_CHECK(p->last == RON_OK);
    SCN_CHECK(ron_chan_close(p->q->chan));
}

/* A sender that waits out its delay meets room, no room, or a close that ends the delay early. */
static void chan_retry_once(void)
{
    struct scn_queue q;
    struct scn_party tx = {.q = &q};
    struct scn_party rx = {.q = &q};
    struct ron_chan_stats stats;

    scn_queue_init_exact(&q, 1, RON_CHAN_RETRY_ONCE, 1, 3);
    scn_spawn("sender", send_with_retry, &tx);
    scn_spawn("receiver", receive_one_and_close, &rx);
    scn_join_all();
    ron_chan_get_stats(q.chan, &stats);
    SCN_CHECK(rx.order.count == 1);
    SCN_CHECK(stats.sent + scn_owned_by(q.msgs, scn_queue_total(&q), SCN_SENDER) ==
              scn_queue_total(&q));
    SCN_CHECK(stats.dropped == stats.rejected);
    scn_saw_if(stats.retried > 0 && stats.sent == 2, 2);
    scn_queue_done(&q);
}

const struct scn scn_list[] = {
    {.name = "chan_timed_recv",
     .body = chan_timed_recv,
     .timeouts_max = 1,
     .must_see = {"a receive that timed out", "no timeout"},
     .stress_rounds = 2,
     .stress_messages = 1000000},
    {.name = "chan_timeout_hands_over",
     .body = chan_timeout_hands_over,
     .timeouts_max = 1,
     .must_see = {"the leaver gave up", "the leaver got the message"},
     .stress_rounds = 3000},
    {.name = "chan_cancel_hands_over",
     .body = chan_cancel_hands_over,
     .must_see = {"the leaver gave up", "the leaver got the message"},
     .stress_rounds = 3000},
    {.name = "chan_timed_send",
     .body = chan_timed_send,
     .timeouts_max = 1,
     .must_see = {"a send that timed out", "no timeout"},
     .stress_rounds = 2,
     .stress_messages = 1000000},
    {.name = "chan_retry_once",
     .body = chan_retry_once,
     .timeouts_max = 2,
     .must_see = {"a second refusal", "a close during the delay", "a second try that met room"},
     .stress_rounds = 20},
    {0},
};
