/* SPDX-License-Identifier: Apache-2.0 */
/* rand.h - seeded pseudo-random numbers: xoshiro256** fed by splitmix64.
 *
 * Place: base. For jitter, load, tests and the simulator: the same seed gives the same sequence on
 * every machine, in integers only. NOT for keys, tokens or nonces: those come from the operating
 * system through the environment of io.
 *
 * Threads: a generator belongs to one thread. Give each thread its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ron_rand {
    uint64_t s[4]; /* never all zero */
};

/* One step of splitmix64: advances *state and returns the next value. */
uint64_t ron_splitmix64(uint64_t *state);

/* Any seed is good, 0 included. */
void ron_rand_seed(struct ron_rand *rand, uint64_t seed);

/* Uniform in [0, bound), without bias. bound must not be 0. */
uint64_t ron_rand_below(struct ron_rand *rand, uint64_t bound);

/* Uniform in [first, last], both included. first <= last. */
uint64_t ron_rand_range(struct ron_rand *rand, uint64_t first, uint64_t last);

/* True num times out of den. num <= den, den not 0. Draws a number even when the answer is certain,
 * so that changing a probability in a test does not shift everything that comes after. */
bool ron_rand_chance(struct ron_rand *rand, uint64_t num, uint64_t den);

/* Fills len bytes. The same bytes on machines of either byte order. */
void ron_rand_bytes(struct ron_rand *rand, void *ret_bytes, size_t len);
