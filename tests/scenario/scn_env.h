/* SPDX-License-Identifier: Apache-2.0 */
/* scn_env.h - the smallest environment that channels and tasks need.
 *
 * The clock is that of sync (virtual in the model), the jitter is always the same, the poller
 * parks. There is neither network nor disk. */
#pragma once

#include "ron/base/env.h"
#include "ron/sync/sync.h"
#include "ron/task/executor.h"

static inline uint64_t scn_mono_ns(void *ctx)
{
    (void)ctx;
    return ron_mono_ns();
}

static inline uint64_t scn_wall_ms(void *ctx)
{
    (void)ctx;
    return 0;
}

static inline uint64_t scn_rand_u64(const struct ron_env *env)
{
    (void)env;
    return 0;
}

static const struct ron_env scn_env = {.clock = {.mono_ns = scn_mono_ns, .wall_ms = scn_wall_ms},
                                       .rand_u64 = scn_rand_u64,
                                       .poller = &ron_poller_park};
