/* SPDX-License-Identifier: Apache-2.0 */
/* sync_testing.h - what tests and the simulator ask of threads; the product calls none of it. */
#pragma once

#include "ron/sync/sync.h"

const char *ron_thread_name(const struct ron_thread *t);

bool ron_thread_cancelled(void); /* of the calling thread */

/* Threads started and not yet joined. */
uint32_t ron_threads_live(void);
