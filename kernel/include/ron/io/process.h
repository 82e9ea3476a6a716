/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - what the system says about this process.
 *
 * Threads: any, workers included: the files of /proc are memory of the system, reading them waits
 * for no disk. Descriptors are counted by their directory, some microseconds for a thousand. */
#pragma once

#include <stdint.h>

/* A field that could not be read is 0. */
struct ron_process {
    uint64_t cpu_ns; /* user and system, all threads */
    uint64_t resident_bytes;
    uint64_t virtual_bytes;
    uint64_t fds;
    uint64_t fds_max;
    uint64_t threads;
    uint64_t start_unix_ns; /* by the system's boot time: a second's precision */
};

void ron_process_read(struct ron_process *ret_process);
