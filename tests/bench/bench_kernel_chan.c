/* SPDX-License-Identifier: Apache-2.0 */
/* bench_kernel_chan.c - throughput of the channel between threads, beside a plain queue.
 *
 * The peer is what one writes without thinking about wake-ups: a ring with one mutex and two
 * conditions, a signal for each message. Its batched form takes many messages under one lock and
 * signals once, so it shows how much of our gain is batching alone. Both sides have the same
 * capacity and wait when it is reached; senders are never refused.
 *
 * Every run checks that as many messages arrive as were sent and that their sum is right. */
#include <pthread.h>

#include "bench/bench_kernel.h"
#include "chan/chan_testing.h"

enum {
    CAPACITY = 1024,
    CAPACITY_MAX = 16 * 1024,
    SEND_BATCH = 64,
    RECV_BATCH = 256,
    SIDES_MAX = 4,
    MESSAGES = 4096, /* distinct addresses that travel */
};

static char messages[MESSAGES];

/* ---- the plain queue ------------------------------------------------------------------------- */

struct plain {
    pthread_mutex_t mu;
    pthread_cond_t not_empty;
    pthread_cond_t not_full;
    void *ring[CAPACITY_MAX];
    size_t capacity;
    size_t head;
    size_t count;
    bool closed;
};

static void plain_init(struct plain *q, size_t capacity)
{
    q->capacity = capacity;
    q->head = 0;
    q->count = 0;
    q->closed = false;
    BENCH_TRUE(pthread_mutex_init(&q->mu, NULL) == 0);
    BENCH_TRUE(pthread_cond_init(&q->not_empty, NULL) == 0);
    BENCH_TRUE(pthread_cond_init(&q->not_full, NULL) == 0);
}

static void plain_done(struct plain *q)
{
    pthread_cond_destroy(&q->not_full);
    pthread_cond_destroy(&q->not_empty);
    pthread_mutex_destroy(&q->mu);
}

/* Puts 1..count messages, as many as fit, and returns how many. */
static size_t plain_push(struct plain *q, void *const *items, size_t count)
{
    size_t n = 0;

    pthread_mutex_lock(&q->mu);
    while (q->count == q->capacity) {
        pthread_cond_wait(&q->not_full, &q->mu);
    }
    while (n < count && q->count < q->capacity) {
        q->ring[(q->head + q->count) % q->capacity] = items[n++];
        q->count++;
    }
    pthread_mutex_unlock(&q->mu);
    pthread_cond_signal(&q->not_empty);
    return n;
}

/* 0 when closed and drained. */
static size_t plain_pop(struct plain *q, void **items, size_t max)
{
    size_t n = 0;

    pthread_mutex_lock(&q->mu);
    while (q->count == 0 && !q->closed) {
        pthread_cond_wait(&q->not_empty, &q->mu);
    }
    while (n < max && q->count > 0) {
        items[n++] = q->ring[q->head];
        q->head = (q->head + 1) % q->capacity;
        q->count--;
    }
    pthread_mutex_unlock(&q->mu);
    if (n > 0) {
        pthread_cond_signal(&q->not_full);
    }
    return n;
}

static void plain_close(struct plain *q)
{
    pthread_mutex_lock(&q->mu);
    q->closed = true;
    pthread_mutex_unlock(&q->mu);
    pthread_cond_broadcast(&q->not_empty);
}

/* ---- one run --------------------------------------------------------------------------------- */

struct variant {
    const char *name;
    bool plain;
    size_t send_batch; /* 1: ron_chan_send */
    size_t recv_batch;
    uint64_t total; /* messages of a run with one sender and one receiver */
};

static const struct variant variants[] = {
    {"plain queue, one by one", true, 1, 1, 256 * 1024},
    {"channel, one by one", false, 1, 1, 256 * 1024},
    {"channel, one by one, recv_many(256)", false, 1, RECV_BATCH, 512 * 1024},
    {"plain queue, push 64, pop 256", true, SEND_BATCH, RECV_BATCH, 1024 * 1024},
    {"channel, try_send_many(64), recv_many(256)", false, SEND_BATCH, RECV_BATCH, 2048 * 1024},
};

struct topology {
    const char *name;
    size_t sides; /* senders, and as many receivers */
    bool pinned;  /* senders on one core, receivers on another; else the scheduler's choice */
    uint32_t capacity;
};

static const struct topology topologies[] = {
    {"1 sender to 1 receiver, on different cores", 1, true, CAPACITY},
    {"1 sender to 1 receiver, on different cores", 1, true, CAPACITY_MAX},
    {"1 sender to 1 receiver, where the scheduler puts them", 1, false, CAPACITY},
    {"4 senders to 4 receivers, where the scheduler puts them", SIDES_MAX, false, CAPACITY},
};

struct result {
    struct bench_series ns;     /* per message */
    struct bench_series rate;   /* million messages a second */
    struct bench_series cpu;    /* processor ns per message, all threads */
    struct bench_series sleeps; /* per 1,000 messages */
};

struct run {
    const struct variant *v;
    bool pinned;
    struct ron_chan *chan;
    struct plain plain;
    struct ron_au32 senders_left;
};

struct side {
    struct run *run;
    struct ron_thread *thread;
    uint64_t count; /* to send, or received */
    uint64_t sum;   /* of the numbers of the messages */
    uint64_t begin_ns;
    uint64_t end_ns;
};

/* Waits for room when nothing fits: the first message goes alone, by the waiting send. */
static size_t chan_push(struct ron_chan *chan, void *const *items, size_t count)
{
    size_t sent = 0;

    if (count == 1 || ron_chan_try_send_many(chan, items, count, &sent) != RON_OK) {
        if (sent == 0) {
            BENCH_OK(ron_chan_send(chan, items[0], ron_deadline_never(), NULL));
            sent = 1;
        }
    }
    return sent;
}

static size_t chan_pop(struct ron_chan *chan, void **items, size_t max)
{
    size_t n = 0;
    enum ron_rc rc = max == 1 ? ron_chan_recv(chan, ron_deadline_never(), items)
                              : ron_chan_recv_many(chan, items, max, ron_deadline_never(), &n);

    BENCH_TRUE(rc == RON_OK || rc == RON_CLOSED);
    return rc == RON_CLOSED ? 0 : max == 1 ? 1 : n;
}

static void send_main(void *arg)
{
    struct side *s = arg;
    struct run *r = s->run;
    void *items[SEND_BATCH];
    uint64_t sent = 0;

    if (r->pinned) {
        bench_pin(0);
    }
    s->begin_ns = bench_now_ns();
    while (sent < s->count) {
        size_t want = RON_MIN((uint64_t)r->v->send_batch, s->count - sent);
        size_t done = 0;

        for (size_t i = 0; i < want; i++) {
            items[i] = &messages[(sent + i) % MESSAGES];
            s->sum += (sent + i) % MESSAGES;
        }
        while (done < want) {
            done += r->v->plain ? plain_push(&r->plain, items + done, want - done)
                                : chan_push(r->chan, items + done, want - done);
        }
        sent += want;
    }
    if (ron_au32_add(&r->senders_left, UINT32_MAX) == 1) { /* the last one */
        if (r->v->plain) {
            plain_close(&r->plain);
        } else {
            (void)ron_chan_close(r->chan);
        }
    }
    s->end_ns = bench_now_ns();
}

static void recv_main(void *arg)
{
    struct side *s = arg;
    struct run *r = s->run;
    void *items[RECV_BATCH];

    if (r->pinned) {
        bench_pin(1);
    }
    s->begin_ns = bench_now_ns();
    for (;;) {
        size_t n = r->v->plain ? plain_pop(&r->plain, items, r->v->recv_batch)
                               : chan_pop(r->chan, items, r->v->recv_batch);

        if (n == 0) {
            break;
        }
        for (size_t i = 0; i < n; i++) {
            s->sum += (uint64_t)((char *)items[i] - messages);
        }
        s->count += n;
    }
    s->end_ns = bench_now_ns();
}

static void start(struct side *s, struct run *r, const char *name, void (*body)(void *))
{
    s->run = r;
    BENCH_OK(ron_thread_start(
        &(struct ron_thread_opts){.name = name, .may_block = true, .main = body, .arg = s},
        &s->thread, NULL));
}

/* Joins the threads of a run; returns its wall time. */
static uint64_t finish(struct side *senders, struct side *receivers, size_t sides, uint64_t total)
{
    uint64_t begin_ns = UINT64_MAX;
    uint64_t end_ns = 0;
    uint64_t sent_sum = 0;
    uint64_t got_sum = 0;
    uint64_t got = 0;

    for (size_t i = 0; i < sides; i++) {
        ron_thread_join(senders[i].thread);
        ron_thread_join(receivers[i].thread);
        begin_ns = RON_MIN(begin_ns, senders[i].begin_ns);
        end_ns = RON_MAX(end_ns, receivers[i].end_ns);
        sent_sum += senders[i].sum;
        got_sum += receivers[i].sum;
        got += receivers[i].count;
    }
    BENCH_TRUE(got == total);
    BENCH_TRUE(got_sum == sent_sum);
    return end_ns - begin_ns;
}

static void measure(struct ron_registry *registry, const struct variant *v,
                    const struct topology *topology, struct result *result)
{
    static struct run run;
    struct side senders[SIDES_MAX] = {0};
    struct side receivers[SIDES_MAX] = {0};
    size_t sides = topology->sides;
    /* More threads than cores sleep more, so a run of many sides has fewer messages. */
    uint64_t total = v->total / (sides > 1 ? 2 : 1);
    uint64_t cpu_ns = bench_cpu_ns();
    uint64_t sleeps = bench_sleeps();
    uint64_t wall_ns;

    run.v = v;
    run.pinned = topology->pinned;
    plain_init(&run.plain, topology->capacity);
    run.chan = bench_chan_new(registry, "bench", topology->capacity, RON_CHAN_WAIT);
    ron_au32_store(&run.senders_left, (uint32_t)sides);
    for (size_t i = 0; i < sides; i++) {
        start(&receivers[i], &run, "receiver", recv_main);
    }
    for (size_t i = 0; i < sides; i++) {
        senders[i].count = total / sides;
        start(&senders[i], &run, "sender", send_main);
    }
    wall_ns = finish(senders, receivers, sides, total);
    if (result != NULL) {
        bench_add(&result->ns, (double)wall_ns / (double)total);
        bench_add(&result->rate, (double)total * 1000 / (double)wall_ns);
        bench_add(&result->cpu, (double)(bench_cpu_ns() - cpu_ns) / (double)total);
        bench_add(&result->sleeps, (double)(bench_sleeps() - sleeps) * 1000 / (double)total);
    }
    (void)ron_chan_close(run.chan);
    ron_chan_free(run.chan);
    plain_done(&run.plain);
}

static void print(const struct result *results, const struct topology *topology, size_t reps)
{
    const struct result *batched = &results[RON_ARRAY_LEN(variants) - 1];

    printf("### Channel: %s (capacity %u, policy wait, %zu repetitions)\n\n", topology->name,
           topology->capacity, reps);
    printf("| queue | ns/message | M messages/s | speed against plain | processor ns/message | "
           "sleeps per 1,000 |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
        const struct result *r = &results[i];
        printf("| %s | %s | %s | x %.2f | %s | %s |\n", variants[i].name, bench_span(&r->ns, 1).s,
               bench_span(&r->rate, 1).s, bench_ratio(&r->rate, &results[0].rate),
               bench_span(&r->cpu, 1).s, bench_span(&r->sleeps, 1).s);
    }
    printf("\nAim: at least 20 M messages/s in batches: %s.\n\n",
           bench_verdict(bench_median(&batched->rate) >= 20));
}

int main(void)
{
    static struct result results[RON_ARRAY_LEN(topologies)][RON_ARRAY_LEN(variants)];
    struct ron_registry *registry = NULL;
    size_t reps = bench_reps();
    struct bench_noise noise = bench_noise_now();

    BENCH_OK(ron_registry_new(&registry, NULL));
    for (size_t rep = 0; rep <= reps; rep++) {
        for (size_t k = 0; k < RON_ARRAY_LEN(topologies); k++) {
            for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
                measure(registry, &variants[i], &topologies[k], rep > 0 ? &results[k][i] : NULL);
            }
        }
    }
    ron_registry_free(registry);
    for (size_t k = 0; k < RON_ARRAY_LEN(topologies); k++) {
        print(results[k], &topologies[k], reps);
    }
    bench_noise_print(noise);
    return 0;
}
