/* SPDX-License-Identifier: Apache-2.0 */
/* rand.c - xoshiro256** 1.0 and splitmix64, after the public domain code of Blackman and Vigna.
 *
 * Place: base. Pure state machines; the sequences are part of the contract, because seeds of
 * failing tests are kept and must fail again.
 */
#include "ron/base/rand.h"

#include <string.h>

#include "base/rand_priv.h"
#include "ron/base/assert.h"
#include "ron/base/macros.h"
#include "ron/base/wide.h"

static uint64_t rotate_left(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

uint64_t ron_splitmix64(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void ron_rand_seed(struct ron_rand *rand, uint64_t seed)
{
    /* Four successive outputs of a permutation are distinct, so at most one of them is zero. */
    for (size_t i = 0; i < RON_ARRAY_LEN(rand->s); i++) {
        rand->s[i] = ron_splitmix64(&seed);
    }
}

uint64_t ron_rand_u64(struct ron_rand *rand)
{
    uint64_t *s = rand->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    RON_ASSERT_SLOW((s[0] | s[1] | s[2] | s[3]) != 0);
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t ron_rand_below(struct ron_rand *rand, uint64_t bound)
{
    RON_ASSERT(bound != 0);
    /* Lemire: the high half of a 64 x 64 product is uniform once the low halves that would give
     * some results one chance more than others are drawn again. The number of those is 2^64 modulo
     * bound, hence below bound, so most draws need no division. */
    ron_u128 product = (ron_u128)ron_rand_u64(rand) * bound;

    if (ron_u128_lo(product) < bound) {
        uint64_t uneven = -bound % bound;

        while (ron_u128_lo(product) < uneven) {
            product = (ron_u128)ron_rand_u64(rand) * bound;
        }
    }
    return ron_u128_hi(product);
}

uint64_t ron_rand_range(struct ron_rand *rand, uint64_t first, uint64_t last)
{
    RON_ASSERT(first <= last);
    uint64_t span = last - first;

    if (span == UINT64_MAX) {
        return ron_rand_u64(rand);
    }
    return first + ron_rand_below(rand, span + 1);
}

bool ron_rand_chance(struct ron_rand *rand, uint64_t num, uint64_t den)
{
    RON_ASSERT(num <= den);
    return ron_rand_below(rand, den) < num;
}

void ron_rand_bytes(struct ron_rand *rand, void *ret_bytes, size_t len)
{
    uint8_t *bytes = ret_bytes;

    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = ron_rand_u64(rand);

        for (size_t j = i; j < len && j < i + 8; j++) {
            bytes[j] = (uint8_t)word;
            word >>= 8;
        }
    }
}
