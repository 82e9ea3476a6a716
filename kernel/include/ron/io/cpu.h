/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - how many cores this process may use. */
#pragma once

#include <stdint.h>

/* Cores in the affinity mask of the process (a container's share, not the machine's), at least
 * 1. */
uint32_t ron_cpu_count(void);
