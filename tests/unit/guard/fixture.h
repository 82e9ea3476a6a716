/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - what the tests of guard share: an environment whose time stands still until told. */
#pragma once

#include "support/support.h"

#include "ron/base/env.h"

struct virtual_time {
    uint64_t now_ns;
    uint64_t wall_ms;
    struct ron_rand rand;
    struct ron_env env;
};

static inline uint64_t virtual_mono_ns(void *ctx)
{
    return ((struct virtual_time *)ctx)->now_ns;
}

static inline uint64_t virtual_wall_ms(void *ctx)
{
    return ((struct virtual_time *)ctx)->wall_ms;
}

static inline uint64_t virtual_rand_u64(const struct ron_env *env)
{
    return ron_rand_u64(&((struct virtual_time *)env->host)->rand);
}

static inline void virtual_init(struct virtual_time *v)
{
    *v = (struct virtual_time){.now_ns = 12345, .wall_ms = 1700000000000, .rand = support_rand()};
    v->env = (struct ron_env){
        .clock = {virtual_mono_ns, virtual_wall_ms, v}, .rand_u64 = virtual_rand_u64, .host = v};
}
