/* SPDX-License-Identifier: Apache-2.0 */
/* bench_ring.h - stages in a ring on one worker: what one hop from stage to stage costs.
 *
 *     in[0] -> stage-0 -> in[1] -> stage-1 -> ... -> in[7] -> stage-7 --+
 *       ^                                                              |
 *       +--------------------------------------------------------------+
 *
 * A number of messages goes round together until they have made `hops` hops in all. Nothing else is
 * done with them, and everything happens on one worker: a hop is one send, one hand-over to the
 * next task and one receive. The measuring thread sleeps meanwhile.
 *
 * Invariant: fields below `done` are used by the worker between bench_ring_go's send and its
 * receive, and by the measuring thread otherwise; the channels order the two. */
#pragma once

#include "bench/bench_kernel.h"
#include "chan/chan_testing.h"

enum {
    BENCH_STAGES = 8,
    BENCH_RING_BATCH = 64,
    BENCH_RING_CAPACITY = 1024,
};

struct bench_ring;

struct bench_stage {
    struct bench_ring *ring;
    struct ron_chan *next;
};

struct bench_ring {
    struct bench_kernel kernel;
    struct ron_chan *in[BENCH_STAGES];
    struct bench_stage stages[BENCH_STAGES];
    struct ron_chan *done;

    uint64_t hops_left;
    size_t in_flight;
    bool one_by_one; /* forward each message with a send of its own */
    bool started;
    uint64_t begin_ns;
    uint64_t end_ns;
    uint64_t begin_cpu_ns;
    uint64_t end_cpu_ns;
};

static inline void bench_ring_forward(struct bench_stage *s, void **items, size_t count)
{
    size_t sent = 0;

    if (!s->ring->one_by_one) {
        BENCH_OK(ron_chan_try_send_many(s->next, items, count, &sent));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        BENCH_OK(ron_chan_try_send(s->next, items[i], NULL));
    }
}

static inline enum ron_rc bench_ring_handle(struct ron_task *t, void *arg, void **items,
                                            size_t count)
{
    struct bench_stage *s = arg;
    struct bench_ring *r = s->ring;

    (void)t;
    if (!r->started) {
        r->started = true;
        r->begin_ns = bench_now_ns();
        r->begin_cpu_ns = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    if (r->hops_left >= count) {
        r->hops_left -= count;
        bench_ring_forward(s, items, count);
        return RON_OK;
    }
    r->in_flight -= count; /* The messages have gone far enough. */
    if (r->in_flight == 0) {
        r->end_cpu_ns = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        r->end_ns = bench_now_ns();
        BENCH_OK(ron_chan_try_send(r->done, items[0], NULL));
    }
    return RON_OK;
}

static inline void bench_ring_open(struct bench_ring *r)
{
    static const char *const inputs[BENCH_STAGES] = {"in-0", "in-1", "in-2", "in-3",
                                                     "in-4", "in-5", "in-6", "in-7"};
    static const char *const names[BENCH_STAGES] = {"stage-0", "stage-1", "stage-2", "stage-3",
                                                    "stage-4", "stage-5", "stage-6", "stage-7"};

    *r = (struct bench_ring){0};
    bench_kernel_open(&r->kernel, 1);
    r->done = bench_chan(&r->kernel, "done", 1, RON_CHAN_REJECT);
    for (size_t i = 0; i < BENCH_STAGES; i++) {
        r->in[i] = bench_chan(&r->kernel, inputs[i], BENCH_RING_CAPACITY, RON_CHAN_REJECT);
    }
    for (size_t i = 0; i < BENCH_STAGES; i++) {
        r->stages[i] = (struct bench_stage){.ring = r, .next = r->in[(i + 1) % BENCH_STAGES]};
        (void)bench_task(&r->kernel, &(struct ron_task_def){.name = names[i],
                                                            .kind = "stage",
                                                            .mode = RON_TASK_LOOP,
                                                            .stage = (uint32_t)i,
                                                            .worker = RON_WORKER_ANY,
                                                            .input = r->in[i],
                                                            .batch_max = BENCH_RING_BATCH,
                                                            .handle = bench_ring_handle,
                                                            .arg = &r->stages[i]});
    }
    bench_kernel_run(&r->kernel);
}

/* Sends `messages` round for `hops` hops in all (a multiple of `messages`) and waits. */
static inline void bench_ring_go(struct bench_ring *r, size_t messages, uint64_t hops,
                                 bool one_by_one)
{
    static char message; /* Its address is all that travels. */
    void *items[BENCH_RING_BATCH];
    void *last = NULL;
    size_t sent = 0;

    BENCH_TRUE(messages <= BENCH_RING_BATCH);
    BENCH_TRUE(hops % messages == 0);
    for (size_t i = 0; i < messages; i++) {
        items[i] = &message;
    }
    r->hops_left = hops;
    r->in_flight = messages;
    r->one_by_one = one_by_one;
    r->started = false;
    BENCH_OK(ron_chan_try_send_many(r->in[0], items, messages, &sent));
    BENCH_OK(ron_chan_recv(r->done, ron_deadline_never(), &last));
}

static inline void bench_ring_close(struct bench_ring *r)
{
    bench_kernel_close(&r->kernel);
}
