/* SPDX-License-Identifier: Apache-2.0 */
/* process_linux.c - the collector of the process's own figures, under Prometheus' usual names. */
#include "ron/io/process.h"
#include "ron/obs/collect.h"

static void collect_process(struct ron_scrape *sc, void *arg)
{
    struct ron_metrics *m = ron_scrape_metrics(sc);
    struct ron_process p = {0};

    (void)arg;
    ron_process_read(&p);
#define ADD(name, field)                                                                           \
    if (p.field != 0) { /* 0: could not be read */                                                 \
        ron_scrape_sample(sc, ron_metrics_name(m, RON_M_##name), p.field, NULL, 0);                \
    }
    ADD(PROCESS_CPU, cpu_ns)
    ADD(PROCESS_RSS, resident_bytes)
    ADD(PROCESS_VIRTUAL, virtual_bytes)
    ADD(PROCESS_FDS, fds)
    ADD(PROCESS_MAX_FDS, fds_max)
    ADD(PROCESS_THREADS, threads)
    ADD(PROCESS_START, start_unix_ns)
#undef ADD
}

enum ron_rc ron_collect_process(struct ron_metrics *m, struct ron_err *err)
{
    return ron_metrics_collector(m, collect_process, NULL, err);
}
