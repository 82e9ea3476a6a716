/* SPDX-License-Identifier: Apache-2.0 */
/* rand.h - a generator for a part of the work, on top of the plain draw of 64 bits. */
#pragma once

#include "base/rand_priv.h"

/* Its sequence does not depend on how much the parent draws afterwards. Costs the parent one
 * draw. */
static inline struct ron_rand ron_rand_fork(struct ron_rand *rand)
{
    struct ron_rand child;

    ron_rand_seed(&child, ron_rand_u64(rand));
    return child;
}
