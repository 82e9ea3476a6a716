/* SPDX-License-Identifier: Apache-2.0 */
/* bench_kernel_wake.c - wake-ups under load, from one core to another.
 *
 * Sender and receiver are tied to different cores. The sender is a thread outside the executor (it
 * waits for room in the channel's own way) or a loop task on worker 0; the receiver is a blocking
 * task or a loop task on worker 1. What counts is how often somebody had to be woken:
 *   channel wake-ups  receivers that the channel found waiting (ron_chan_stats), whether they slept
 *                     already or were about to
 *   worker wake-ups   workers that were woken from their poller (ron_exec_stats)
 *   sleeps            all voluntary switches of the process, senders that waited for room included
 * The last row is no load: its sender pauses between messages, as requests do when few come. */
#include "bench/bench_kernel.h"
#include "chan/chan_priv.h"
#include "chan/chan_testing.h"
#include "task/task_testing.h"

enum {
    CAPACITY = 1024,
    BATCH = 64,
    PACE_NS = 5000,
};

/* A task that is the far end of a channel. */
struct sink {
    struct ron_chan *in;
    struct ron_chan *done;
    uint32_t core;
    uint64_t left; /* set by the measurer before it sends, then only used by the task */
};

/* A loop task that sends. */
struct source {
    struct ron_chan *out;
    struct ron_task *task;
    struct ron_wait_node node; /* waits for room in `out` */
    uint64_t left;             /* set by the measurer before it wakes the task */
};

enum from { FROM_THREAD, FROM_THREAD_BATCH, FROM_THREAD_PACED, FROM_TASK };

struct variant {
    const char *name;
    enum from from;
    bool to_task; /* else to a blocking task */
    uint64_t total;
    struct bench_series ns;
    struct bench_series chan_wakes; /* this and the next per 1,000 messages */
    struct bench_series worker_wakes;
    struct bench_series sleeps;
};

static char message; /* Its address is all that travels. */

static enum ron_rc sink_start(struct ron_task *t, void *arg)
{
    const struct sink *s = arg;

    (void)t;
    bench_pin(s->core);
    return RON_OK;
}

static enum ron_rc sink_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct sink *s = arg;

    (void)t;
    if (count == 0) {
        return RON_OK;
    }
    BENCH_TRUE(s->left >= count);
    s->left -= count;
    if (s->left == 0) {
        BENCH_OK(ron_chan_try_send(s->done, items[0], NULL));
    }
    return RON_OK;
}

static enum ron_rc source_start(struct ron_task *t, void *arg)
{
    struct source *s = arg;

    s->task = t;
    ron_wait_node_init(&s->node, ron_task_waker(t));
    bench_pin(0);
    return RON_OK;
}

/* One batch a call, then asks to be called again, as an intake task does. */
static enum ron_rc source_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct source *s = arg;
    void *batch[BATCH];
    size_t want = (size_t)RON_MIN(s->left, (uint64_t)BATCH);
    size_t sent = 0;
    enum ron_rc rc = RON_OK;

    (void)items;
    (void)count;
    for (size_t i = 0; i < want; i++) {
        batch[i] = &message;
    }
    if (want > 0) {
        rc = ron_chan_try_send_many(s->out, batch, want, &sent);
        BENCH_TRUE(rc == RON_OK || rc == RON_FULL);
    }
    if (rc == RON_FULL) {
        rc = ron_chan_send_poll(s->out, &message, &s->node);
        sent += rc == RON_OK;
    }
    s->left -= sent;
    if (s->left > 0 && rc == RON_OK) {
        ron_task_wake(t);
    }
    return RON_OK;
}

static void source_stop(struct ron_task *t, void *arg)
{
    struct source *s = arg;

    (void)t;
    ron_chan_send_forget(s->out, &s->node);
}

static void send_from_thread(struct ron_chan *out, enum from from, uint64_t total)
{
    void *batch[BATCH];
    size_t size = from == FROM_THREAD_BATCH ? BATCH : 1;

    for (size_t i = 0; i < BATCH; i++) {
        batch[i] = &message;
    }
    while (total > 0) {
        size_t want = (size_t)RON_MIN(total, (uint64_t)size);
        size_t sent = 0;

        if (want == 1 || ron_chan_try_send_many(out, batch, want, &sent) != RON_OK) {
            if (sent == 0) {
                BENCH_OK(ron_chan_send(out, &message, ron_deadline_never(), NULL));
                sent = 1;
            }
        }
        total -= sent;
        if (from == FROM_THREAD_PACED) {
            bench_spin_ns(PACE_NS);
        }
    }
}

static void measure(struct bench_kernel *k, struct sink *sink, struct source *source,
                    struct variant *v, bool keep)
{
    struct ron_chan_stats chan_before;
    struct ron_chan_stats chan_after;
    struct ron_exec_stats exec_before;
    struct ron_exec_stats exec_after;
    uint64_t sleeps = bench_sleeps();
    uint64_t begin_ns = bench_now_ns();
    double thousands = (double)v->total / 1000;
    void *last = NULL;

    ron_chan_get_stats(sink->in, &chan_before);
    ron_exec_get_stats(k->exec, &exec_before);
    sink->left = v->total;
    if (v->from == FROM_TASK) {
        source->left = v->total;
        ron_task_wake(source->task);
    } else {
        send_from_thread(sink->in, v->from, v->total);
    }
    BENCH_OK(ron_chan_recv(sink->done, ron_deadline_never(), &last));
    ron_chan_get_stats(sink->in, &chan_after);
    ron_exec_get_stats(k->exec, &exec_after);
    if (keep) {
        bench_add(&v->ns, (double)(bench_now_ns() - begin_ns) / (double)v->total);
        bench_add(&v->chan_wakes, (double)(chan_after.wakeups - chan_before.wakeups) / thousands);
        bench_add(&v->worker_wakes, (double)(exec_after.wakes - exec_before.wakes) / thousands);
        bench_add(&v->sleeps, (double)(bench_sleeps() - sleeps) / thousands);
    }
}

static void print(const struct variant *variants, size_t count, size_t reps)
{
    printf("### Wake-ups under load, across cores (capacity %d, %zu repetitions)\n\n",
           (int)CAPACITY, reps);
    printf("| from, to | ns/message | channel wake-ups per 1,000 | worker wake-ups per 1,000 | "
           "sleeps per 1,000 | aim: at most 20 wake-ups |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < count; i++) {
        const struct variant *v = &variants[i];
        double worst = RON_MAX(bench_median(&v->chan_wakes), bench_median(&v->worker_wakes));

        printf("| %s | %s | %s | %s | %s | %s |\n", v->name, bench_span(&v->ns, 0).s,
               bench_span(&v->chan_wakes, 2).s, bench_span(&v->worker_wakes, 2).s,
               bench_span(&v->sleeps, 2).s,
               v->from == FROM_THREAD_PACED ? "no load, no aim" : bench_verdict(worst <= 20));
    }
    printf("\n");
}

static void add_tasks(struct bench_kernel *k, struct sink *blocking, struct sink *loop,
                      struct source *source)
{
    (void)bench_task(k, &(struct ron_task_def){.name = "blocking-sink",
                                               .kind = "sink",
                                               .mode = RON_TASK_BLOCKING,
                                               .stage = 1,
                                               .input = blocking->in,
                                               .batch_max = 256,
                                               .start = sink_start,
                                               .handle = sink_handle,
                                               .arg = blocking});
    (void)bench_task(k, &(struct ron_task_def){.name = "loop-sink",
                                               .kind = "sink",
                                               .mode = RON_TASK_LOOP,
                                               .stage = 1,
                                               .worker = 1,
                                               .input = loop->in,
                                               .batch_max = 256,
                                               .start = sink_start,
                                               .handle = sink_handle,
                                               .arg = loop});
    source->task = bench_task(k, &(struct ron_task_def){.name = "source",
                                                        .kind = "source",
                                                        .mode = RON_TASK_LOOP,
                                                        .worker = 0,
                                                        .start = source_start,
                                                        .handle = source_handle,
                                                        .stop = source_stop,
                                                        .arg = source});
}

int main(void)
{
    static struct variant variants[] = {
        {.name = "thread one by one, blocking task", .from = FROM_THREAD, .total = 200000},
        {.name = "thread in batches of 64, blocking task",
         .from = FROM_THREAD_BATCH,
         .total = 400000},
        {.name = "thread one by one, loop task",
         .from = FROM_THREAD,
         .to_task = true,
         .total = 200000},
        {.name = "thread in batches of 64, loop task",
         .from = FROM_THREAD_BATCH,
         .to_task = true,
         .total = 400000},
        {.name = "loop task in batches of 64, loop task on another worker",
         .from = FROM_TASK,
         .to_task = true,
         .total = 400000},
        {.name = "thread, one message each 5 us, loop task",
         .from = FROM_THREAD_PACED,
         .to_task = true,
         .total = 8000},
    };
    static struct bench_kernel k;
    static struct sink blocking;
    static struct sink loop;
    static struct source source;
    size_t reps = bench_reps();
    struct bench_noise noise = bench_noise_now();

    bench_pin(0);
    bench_kernel_open(&k, 2);
    blocking.in = bench_chan(&k, "to-thread", CAPACITY, RON_CHAN_WAIT);
    loop.in = bench_chan(&k, "to-worker", CAPACITY, RON_CHAN_WAIT);
    blocking.done = loop.done = bench_chan(&k, "done", 1, RON_CHAN_REJECT);
    blocking.core = loop.core = 1;
    source.out = loop.in;
    add_tasks(&k, &blocking, &loop, &source);
    bench_kernel_run(&k);
    for (size_t rep = 0; rep <= reps; rep++) {
        for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
            measure(&k, variants[i].to_task ? &loop : &blocking, &source, &variants[i], rep > 0);
        }
    }
    bench_kernel_close(&k);
    print(variants, RON_ARRAY_LEN(variants), reps);
    bench_noise_print(noise);
    return 0;
}
