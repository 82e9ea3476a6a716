/* SPDX-License-Identifier: Apache-2.0 */
/* rand_priv.h - the plain draw of 64 bits, under every other draw. */
#pragma once

#include "ron/base/rand.h"

uint64_t ron_rand_u64(struct ron_rand *rand);
