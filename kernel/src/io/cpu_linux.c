/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_linux.c - the affinity mask of this process. */
#include "ron/io/cpu.h"

#include <sched.h>

uint32_t ron_cpu_count(void)
{
    cpu_set_t set;
    int count = 0;

    /* More than CPU_SETSIZE cores make the call fail; one worker is then safe, if slow. */
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        count = CPU_COUNT(&set);
    }
    return count > 0 ? (uint32_t)count : 1;
}
