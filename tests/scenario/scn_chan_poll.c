/* SPDX-License-Identifier: Apache-2.0 */
/* scn_chan_poll.c - tasks that poll: a waker instead of a parked thread.
 *
 * A task is a thread here that does only what an executor worker would do for it: it polls until
 * told to wait, then waits for its waker. The waker is a flag and an unpark.
 *
 * Expected in every schedule: a task that was told "your waker will be called" is called; one that
 * leaves the lot passes its wake-up on; all messages arrive once. */
#include "chan/chan_priv.h"
#include "chan/chan_testing.h"
#include "scenario/scn_chan.h"

struct task {
    struct ron_waker waker; /* first: the waker is the task */
    struct ron_thread *thread;
    struct ron_au32 woken;
    struct ron_wait_node node;
    struct scn_party party;
    uint32_t quota; /* messages after which it leaves; 0 = at the end */
};

static void task_wake(struct ron_waker *w)
{
    struct task *t = RON_CONTAINER_OF(w, struct task, waker);

    ron_au32_store(&t->woken, 1);
    ron_unpark(t->thread);
}

static void task_sleep(struct task *t)
{
    while (ron_au32_xchg(&t->woken, 0) == 0) {
        RON_IGNORE(ron_park_until(ron_deadline_never(), "waker")); /* Looks again in any case. */
    }
}

static void task_begin(struct task *t)
{
    t->thread = ron_thread_self();
    t->waker.wake = task_wake;
    ron_wait_node_init(&t->node, &t->waker);
}

static void receive_by_poll(void *arg)
{
    struct task *t = arg;
    struct ron_chan *chan = t->party.q->chan;

    task_begin(t);
    for (;;) {
        void *item = NULL;
        size_t n = 0;
        bool more = false;

        t->party.last = ron_chan_recv_poll(chan, &t->node, &item, 1, &n, &more);
        if (t->party.last == RON_CLOSED) {
            break;
        }
        if (t->party.last == RON_OK) {
            SCN_CHECK(n == 1);
            scn_receive(&t->party.order, item);
            if (t->quota != 0 && t->party.order.count == t->quota) {
                break;
            }
        }
        if (!more) {
            task_sleep(t);
        }
    }
    ron_chan_recv_forget(chan, &t->node);
}

static void send_by_poll(void *arg)
{
    struct task *t = arg;
    struct ron_chan *chan = t->party.q->chan;

    task_begin(t);
    for (uint32_t i = 0; i < t->party.q->per_producer; i++) {
        struct scn_msg *m = scn_message(&t->party, i);

        scn_move(m, SCN_SENDER, SCN_FLIGHT);
        while ((t->party.last = ron_chan_send_poll(chan, m, &t->node)) == RON_AGAIN) {
            task_sleep(t);
        }
        SCN_CHECK(t->party.last == RON_OK);
    }
    ron_chan_send_forget(chan, &t->node);
    SCN_CHECK(ron_chan_close(chan));
}

static void chan_poll(void)
{
    struct scn_queue q;
    struct task tx = {.party = {.q = &q}};
    struct task rx = {.party = {.q = &q}};

    scn_queue_init(&q, 1, RON_CHAN_WAIT, 1, 3);
    scn_spawn("receiver", receive_by_poll, &rx);
    scn_spawn("sender", send_by_poll, &tx);
    scn_join_all();
    SCN_CHECK(rx.party.order.count == scn_queue_total(&q));
    scn_queue_done(&q);
}

/* Two polling receivers, each leaves after its message: the one that leaves may hold the wake-up of
 * the other's message. Nobody closes, so a lost wake-up is a deadlock. */
static void chan_poll_leave(void)
{
    struct scn_queue q;
    struct scn_party tx = {.q = &q};
    struct task rx[2] = {{.party = {.q = &q}, .quota = 1}, {.party = {.q = &q}, .quota = 1}};

    scn_queue_init_exact(&q, 2, RON_CHAN_WAIT, 1, 2);
    scn_spawn("receiver", receive_by_poll, &rx[0]);
    scn_spawn("receiver", receive_by_poll, &rx[1]);
    scn_spawn("sender", scn_send_all, &tx);
    scn_join_all();
    SCN_CHECK(rx[0].party.order.count + rx[1].party.order.count == 2);
    scn_queue_done(&q);
}

const struct scn scn_list[] = {
    {.name = "chan_poll", .body = chan_poll, .stress_rounds = 2, .stress_messages = 1000000},
    {.name = "chan_poll_leave", .body = chan_poll_leave, .stress_rounds = 3000},
    {0},
};
