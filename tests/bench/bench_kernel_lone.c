/* SPDX-License-Identifier: Apache-2.0 */
/* bench_kernel_lone.c - latency of a lone hop: one message to somebody who sleeps on another core.
 *
 * Four ways to wake the other side, interleaved; two of them are the bare system calls on which the
 * other two stand, so they are the floor on this machine:
 *   raw futex        FUTEX_WAIT and FUTEX_WAKE on a word
 *   channel, thread  ron_chan_send to a thread in ron_chan_recv
 *   raw eventfd      a write to an eventfd that epoll_wait watches
 *   channel, task    ron_chan_send to a loop task whose worker sleeps in its poller
 * Asked and answered: the asker notes the time before it sends, the answerer when it runs. The
 * answer only tells the asker to go on; it then leaves the answerer time to fall asleep, because
 * two sides that are both about to sleep can go on for long without ever doing so. Asker and
 * answerer are tied to different cores.
 *
 * Invariant: sent_ns is written before the question and got_ns before the answer; the wake-up and
 * the word or channel behind it order them. */
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "bench/bench_kernel.h"

enum {
    HOPS = 250,
    SETTLE_NS =
        50 * 1000, /* from an answer to the next question: longer than falling asleep takes */
};

static char message;

static uint64_t got_ns;
static struct ron_au32 quit;

/* ---- raw futex ------------------------------------------------------------------------------- */

static struct ron_au32 question;
static struct ron_au32 answer;

static void word_wake(struct ron_au32 *word)
{
    ron_au32_store(word, 1);
    (void)syscall(SYS_futex, &word->_v, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void word_wait(struct ron_au32 *word)
{
    while (ron_au32_load(word) == 0) {
        (void)syscall(SYS_futex, &word->_v, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    }
    ron_au32_store(word, 0);
}

static void futex_main(void *arg)
{
    (void)arg;
    bench_pin(1);
    for (;;) {
        word_wait(&question);
        got_ns = bench_now_ns();
        if (ron_au32_load(&quit) != 0) {
            return;
        }
        word_wake(&answer);
    }
}

static uint64_t ask_futex(void)
{
    uint64_t sent_ns = bench_now_ns();

    word_wake(&question);
    word_wait(&answer);
    return got_ns - sent_ns;
}

/* ---- raw eventfd ----------------------------------------------------------------------------- */

static int bell_fd;
static int back_fd;

static void bell_ring(int fd)
{
    const uint64_t one = 1;

    BENCH_TRUE(write(fd, &one, sizeof one) == (ssize_t)sizeof one);
}

static void eventfd_main(void *arg)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

    (void)arg;
    bench_pin(1);
    BENCH_TRUE(epoll_fd >= 0);
    BENCH_TRUE(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, bell_fd, &event) == 0);
    for (;;) {
        while (epoll_wait(epoll_fd, &event, 1, -1) != 1) {
        }
        got_ns = bench_now_ns();
        if (ron_au32_load(&quit) != 0) {
            break;
        }
        bell_ring(back_fd);
    }
    (void)close(epoll_fd);
}

static uint64_t ask_eventfd(void)
{
    uint64_t sent_ns = bench_now_ns();
    uint64_t count = 0;

    bell_ring(bell_fd);
    BENCH_TRUE(read(back_fd, &count, sizeof count) == (ssize_t)sizeof count);
    return got_ns - sent_ns;
}

/* ---- channels -------------------------------------------------------------------------------- */

static struct ron_chan *to_thread;
static struct ron_chan *to_task;
static struct ron_chan *back;

static void thread_main(void *arg)
{
    void *item = NULL;

    (void)arg;
    bench_pin(1);
    while (ron_chan_recv(to_thread, ron_deadline_never(), &item) == RON_OK) {
        got_ns = bench_now_ns();
        BENCH_OK(ron_chan_try_send(back, item, NULL));
    }
}

static enum ron_rc task_start(struct ron_task *t, void *arg)
{
    (void)t;
    (void)arg;
    bench_pin(1);
    return RON_OK;
}

static enum ron_rc task_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)arg;
    BENCH_TRUE(count == 1);
    got_ns = bench_now_ns();
    return ron_chan_try_send(back, items[0], NULL);
}

static uint64_t ask_channel(struct ron_chan *to)
{
    uint64_t sent_ns = bench_now_ns();
    void *item = NULL;

    BENCH_OK(ron_chan_send(to, &message, ron_deadline_never(), NULL));
    BENCH_OK(ron_chan_recv(back, ron_deadline_never(), &item));
    return got_ns - sent_ns;
}

static uint64_t ask_thread(void)
{
    return ask_channel(to_thread);
}

static uint64_t ask_task(void)
{
    return ask_channel(to_task);
}

/* ---- the table ------------------------------------------------------------------------------- */

struct variant {
    const char *name;
    uint64_t (*ask)(void);
    size_t floor; /* index of the bare system calls below this one */
    struct bench_series p50_us;
    struct bench_series p99_us;
};

static void measure(struct variant *v, bool keep)
{
    double hops_us[HOPS];

    for (size_t i = 0; i < HOPS; i++) {
        bench_spin_ns(SETTLE_NS);
        hops_us[i] = (double)v->ask() / 1000;
    }
    if (keep) {
        bench_add(&v->p50_us, bench_rank(hops_us, HOPS, 0.5));
        bench_add(&v->p99_us, bench_rank(hops_us, HOPS, 0.99));
    }
}

static struct ron_thread *start(const char *name, void (*body)(void *))
{
    struct ron_thread *thread = NULL;

    BENCH_OK(ron_thread_start(
        &(struct ron_thread_opts){.name = name, .may_block = true, .main = body}, &thread, NULL));
    return thread;
}

int main(void)
{
    static struct variant variants[] = {
        {.name = "raw futex", .ask = ask_futex, .floor = 0},
        {.name = "channel to a thread", .ask = ask_thread, .floor = 0},
        {.name = "raw eventfd and epoll", .ask = ask_eventfd, .floor = 2},
        {.name = "channel to a loop task", .ask = ask_task, .floor = 2},
    };
    static struct bench_kernel k;
    struct ron_thread *threads[3];
    size_t reps = bench_reps();
    struct bench_noise noise = bench_noise_now();

    bench_pin(0);
    bell_fd = eventfd(0, EFD_CLOEXEC);
    back_fd = eventfd(0, EFD_CLOEXEC);
    BENCH_TRUE(bell_fd >= 0 && back_fd >= 0);
    bench_kernel_open(&k, 1);
    to_thread = bench_chan(&k, "to-thread", 1, RON_CHAN_WAIT);
    to_task = bench_chan(&k, "to-task", 1, RON_CHAN_WAIT);
    back = bench_chan(&k, "back", 1, RON_CHAN_REJECT);
    (void)bench_task(&k, &(struct ron_task_def){.name = "answerer",
                                                .kind = "answerer",
                                                .mode = RON_TASK_LOOP,
                                                .worker = 0,
                                                .input = to_task,
                                                .start = task_start,
                                                .handle = task_handle});
    bench_kernel_run(&k);
    threads[0] = start("futex", futex_main);
    threads[1] = start("eventfd", eventfd_main);
    threads[2] = start("thread", thread_main);

    for (size_t rep = 0; rep <= reps; rep++) {
        for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
            measure(&variants[i], rep > 0);
        }
    }

    ron_au32_store(&quit, 1);
    word_wake(&question);
    bell_ring(bell_fd);
    (void)ron_chan_close(to_thread);
    for (size_t i = 0; i < RON_ARRAY_LEN(threads); i++) {
        ron_thread_join(threads[i]);
    }
    bench_kernel_close(&k);

    printf("### Lone hop to a sleeper on another core (%d hops in each of %zu repetitions)\n\n",
           (int)HOPS, reps);
    printf("| hop | p50 us | p99 us | p50 against its floor |\n|---|---|---|---|\n");
    for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
        const struct variant *v = &variants[i];
        printf("| %s | %s | %s | x %.2f |\n", v->name, bench_span(&v->p50_us, 1).s,
               bench_span(&v->p99_us, 1).s, bench_ratio(&v->p50_us, &variants[v->floor].p50_us));
    }
    printf("\n");
    bench_noise_print(noise);
    return 0;
}
