/* SPDX-License-Identifier: Apache-2.0 */
/* bench_kernel_idle.c - memory of a kernel that has everything a service has, and nothing to do.
 *
 * A worker per core, a supervisor, nine queues, a bus, a watch, a dozen loop tasks and two
 * blocking ones. Memory is read from /proc/self/status once every task has run its start callback:
 * resident set, the part of it that is private memory, and the part that is mapped files (program
 * and libraries, shared with other processes). */
#include "bench/bench_kernel.h"
#include "chan/chan_testing.h"
#include "ron/chan/bus.h"
#include "ron/chan/watch.h"

enum { LOOPS = 12, BLOCKING = 2, QUEUES = 8, AIM_KIB = 8 * 1024 };

static struct ron_chan *started;

static enum ron_rc on_start(struct ron_task *t, void *arg)
{
    static char message;

    (void)t;
    (void)arg;
    return ron_chan_try_send(started, &message, NULL);
}

static enum ron_rc on_messages(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    (void)arg;
    (void)items;
    (void)count;
    return RON_OK;
}

static void add_tasks(struct bench_kernel *k)
{
    static const char *const queues[QUEUES] = {"work",  "audit",   "commit",  "mirror",
                                               "fetch", "publish", "control", "replies"};
    static const char *const loops[LOOPS] = {"loop-0", "loop-1", "loop-2",  "loop-3",
                                             "loop-4", "loop-5", "loop-6",  "loop-7",
                                             "loop-8", "loop-9", "loop-10", "loop-11"};
    static const char *const blocking[BLOCKING] = {"committer", "writer"};
    struct ron_chan *in[QUEUES];

    for (size_t i = 0; i < QUEUES; i++) {
        in[i] = bench_chan(k, queues[i], 1024, RON_CHAN_REJECT);
    }
    for (size_t i = 0; i < LOOPS; i++) {
        (void)bench_task(k, &(struct ron_task_def){.name = loops[i],
                                                   .kind = "worker",
                                                   .mode = RON_TASK_LOOP,
                                                   .worker = RON_WORKER_ANY,
                                                   .input = i < QUEUES - BLOCKING ? in[i] : NULL,
                                                   .start = on_start,
                                                   .handle = on_messages});
    }
    for (size_t i = 0; i < BLOCKING; i++) {
        (void)bench_task(k, &(struct ron_task_def){.name = blocking[i],
                                                   .kind = "blocking",
                                                   .mode = RON_TASK_BLOCKING,
                                                   .input = in[QUEUES - BLOCKING + i],
                                                   .start = on_start,
                                                   .handle = on_messages});
    }
}

/* A line "VmRSS:  1234 kB" of the process's status. */
static long status_kib(const char *key)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "re");

    BENCH_TRUE(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        size_t len = strlen(key);

        if (strncmp(line, key, len) == 0 && line[len] == ':') {
            kib = strtol(line + len + 1, NULL, 10);
        }
    }
    (void)fclose(file);
    BENCH_TRUE(kib >= 0);
    return kib;
}

int main(void)
{
    static struct bench_kernel k;
    struct ron_bus *bus = NULL;
    struct ron_watch *watch = NULL;
    void *item = NULL;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t workers = (uint32_t)RON_MIN(RON_MAX(cores, 1L), (long)RON_WORKERS_MAX);
    long before_kib = status_kib("VmRSS");
    long rss_kib;

    bench_kernel_open(&k, workers);
    started = bench_chan(&k, "started", LOOPS + BLOCKING, RON_CHAN_REJECT);
    add_tasks(&k);
    BENCH_OK(ron_bus_new(&(struct ron_bus_opts){.registry = k.registry,
                                                .name = "events",
                                                .producers = "bench",
                                                .consumers = "bench",
                                                .capacity = 1024,
                                                .message_bytes = 128,
                                                .readers_max = 64},
                         &bus, NULL));
    BENCH_OK(ron_watch_new(
        &(struct ron_watch_opts){
            .registry = k.registry, .name = "config", .producers = "bench", .consumers = "bench"},
        &watch, NULL));
    bench_kernel_run(&k);
    for (size_t i = 0; i < LOOPS + BLOCKING; i++) {
        BENCH_OK(ron_chan_recv(started, ron_deadline_never(), &item));
    }
    rss_kib = status_kib("VmRSS");

    printf("### Memory of an idle kernel (%u workers, %d tasks, %d queues)\n\n", workers,
           (int)(LOOPS + BLOCKING), (int)QUEUES + 1);
    printf("| resident KiB | of it private | of it files | before the kernel was started | aim: "
           "below %d |\n|---|---|---|---|---|\n",
           (int)AIM_KIB);
    printf("| %ld | %ld | %ld | %ld | %s |\n\n", rss_kib, status_kib("RssAnon"),
           status_kib("RssFile"), before_kib, bench_verdict(rss_kib < AIM_KIB));

    ron_watch_free(watch);
    (void)ron_bus_close(bus);
    ron_bus_free(bus);
    bench_kernel_close(&k);
    return 0;
}
