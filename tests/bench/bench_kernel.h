/* SPDX-License-Identifier: Apache-2.0 */
/* bench_kernel.h - a kernel to measure: registry, executor and supervisor on the Linux ports.
 *
 * Use: bench_kernel_open, bench_chan and bench_task as often as needed, bench_kernel_run, measure,
 * bench_kernel_close. The supervisor runs on a thread of its own; the calling thread is the outside
 * world. Names are string constants. */
#pragma once

#include <sched.h>
#include <unistd.h>

#include "bench/bench.h"
#include "ron/chan/chan.h"
#include "ron/io/linux_env.h"
#include "ron/task/supervisor.h"

enum { BENCH_CHANS_MAX = 32 };

struct bench_kernel {
    struct ron_registry *registry;
    struct ron_exec *exec;
    struct ron_sup *sup;
    struct ron_thread *sup_thread;
    struct ron_chan *chans[BENCH_CHANS_MAX];
    size_t chan_count;
    int exit_code;
};

static inline void bench_drop(void *item, void *arg)
{
    (void)item; /* Messages are static. */
    (void)arg;
}

static inline struct ron_chan *bench_chan_new(struct ron_registry *registry, const char *name,
                                              uint32_t capacity, enum ron_chan_policy policy)
{
    struct ron_chan *chan = NULL;

    BENCH_OK(ron_chan_new(&(struct ron_chan_opts){.registry = registry,
                                                  .env = ron_env_linux(),
                                                  .name = name,
                                                  .producers = "bench",
                                                  .consumers = "bench",
                                                  .drop_text = "none",
                                                  .capacity = capacity,
                                                  .policy = policy,
                                                  .drop = bench_drop},
                          &chan, NULL));
    return chan;
}

static inline void bench_kernel_open(struct bench_kernel *k, uint32_t workers)
{
    *k = (struct bench_kernel){0};
    BENCH_OK(ron_registry_new(&k->registry, NULL));
    BENCH_OK(ron_exec_new(&(struct ron_exec_opts){.env = ron_env_linux(),
                                                  .registry = k->registry,
                                                  .workers = workers},
                          &k->exec, NULL));
    BENCH_OK(ron_sup_new(
        &(struct ron_sup_opts){.env = ron_env_linux(), .registry = k->registry, .exec = k->exec},
        &k->sup, NULL));
}

/* A channel that lives as long as the kernel. */
static inline struct ron_chan *bench_chan(struct bench_kernel *k, const char *name,
                                          uint32_t capacity, enum ron_chan_policy policy)
{
    BENCH_TRUE(k->chan_count < BENCH_CHANS_MAX);
    k->chans[k->chan_count] = bench_chan_new(k->registry, name, capacity, policy);
    return k->chans[k->chan_count++];
}

static inline struct ron_task *bench_task(struct bench_kernel *k, const struct ron_task_def *def)
{
    struct ron_err err = {0};
    struct ron_task *task = NULL;
    enum ron_rc rc = ron_sup_add(k->sup, def, &task, &err);

    if (rc != RON_OK) {
        bench_fail(__FILE__, __LINE__, def->name, err.msg);
    }
    return task;
}

static inline void bench_sup_main(void *arg)
{
    struct bench_kernel *k = arg;

    k->exit_code = ron_sup_run(k->sup);
}

static inline void bench_kernel_run(struct bench_kernel *k)
{
    BENCH_OK(ron_thread_start(
        &(struct ron_thread_opts){
            .name = "supervisor", .may_block = true, .main = bench_sup_main, .arg = k},
        &k->sup_thread, NULL));
}

/* Drains; messages that are still queued are taken by the tasks or dropped. */
static inline void bench_kernel_close(struct bench_kernel *k)
{
    ron_sup_request_stop(k->sup);
    ron_thread_join(k->sup_thread);
    BENCH_TRUE(k->exit_code == RON_EXIT_DRAINED);
    ron_sup_free(k->sup);
    BENCH_TRUE(ron_exec_free(k->exec));
    for (size_t i = 0; i < k->chan_count; i++) {
        ron_chan_free(k->chans[i]);
    }
    ron_registry_free(k->registry);
}

/* Ties the calling thread to one core, so that "across cores" is what is measured. */
static inline void bench_pin(uint32_t core)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;

    if (cores < 2) {
        return;
    }
    CPU_ZERO(&set);
    CPU_SET(core % (uint32_t)cores, &set);
    (void)sched_setaffinity(0, sizeof set, &set); /* Refused: the scheduler's choice is measured. */
}
