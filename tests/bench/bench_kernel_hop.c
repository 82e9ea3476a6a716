/* SPDX-License-Identifier: Apache-2.0 */
/* bench_kernel_hop.c - cost of a hop from stage to stage on the same worker.
 *
 * The ring is in bench_ring.h. Processor time stands beside wall time, because it does not contain
 * what other processes took from the worker's core. */
#include "bench/bench_ring.h"
#include "task/task_testing.h"

struct variant {
    const char *name;
    size_t messages;
    bool one_by_one;
    uint64_t hops;
    struct bench_series wall;
    struct bench_series cpu;
    struct bench_series runs; /* handler calls per 1,000 hops */
};

static void measure(struct bench_ring *ring, struct variant *v, bool keep)
{
    struct ron_exec_stats before;
    struct ron_exec_stats after;
    double hops = (double)v->hops;

    ron_exec_get_stats(ring->kernel.exec, &before);
    bench_ring_go(ring, v->messages, v->hops, v->one_by_one);
    ron_exec_get_stats(ring->kernel.exec, &after);
    if (keep) {
        bench_add(&v->wall, (double)(ring->end_ns - ring->begin_ns) / hops);
        bench_add(&v->cpu, (double)(ring->end_cpu_ns - ring->begin_cpu_ns) / hops);
        bench_add(&v->runs, 1000 * (double)(after.runs - before.runs) / hops);
    }
}

int main(void)
{
    static struct variant variants[] = {
        {.name = "1 message in flight", .messages = 1, .hops = 200000},
        {.name = "64 in flight, forwarded one by one",
         .messages = 64,
         .one_by_one = true,
         .hops = 64 * 10000},
        {.name = "64 in flight, forwarded as a batch", .messages = 64, .hops = 64 * 30000},
    };
    static struct bench_ring ring;
    size_t reps = bench_reps();
    struct bench_noise noise = bench_noise_now();

    bench_ring_open(&ring);
    for (size_t rep = 0; rep <= reps; rep++) {
        for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
            measure(&ring, &variants[i], rep > 0);
        }
    }
    bench_ring_close(&ring);

    printf("### Stage hop on the same worker (%d stages in a ring, %zu repetitions)\n\n",
           (int)BENCH_STAGES, reps);
    printf("| in flight | wall ns/hop | processor ns/hop | handler calls per 1,000 hops |\n");
    printf("|---|---|---|---|\n");
    for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
        const struct variant *v = &variants[i];
        printf("| %s | %s | %s | %.0f |\n", v->name, bench_span(&v->wall, 1).s,
               bench_span(&v->cpu, 1).s, bench_median(&v->runs));
    }
    printf("\nAim: at most 150 ns per message and hop. The worker never sleeps here, so processor "
           "time decides.\nOne in flight: %s; batch: %s.\n\n",
           bench_verdict(bench_median(&variants[0].cpu) <= 150),
           bench_verdict(bench_median(&variants[2].cpu) <= 150));
    bench_noise_print(noise);
    return 0;
}
