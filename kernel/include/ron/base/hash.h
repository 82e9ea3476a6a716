/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h - SipHash-1-3: a short keyed hash for tables whose keys come from outside.
 *
 * Place: base. Under a secret random key nobody can choose inputs that collide, so a table cannot
 * be slowed down on purpose. A result is valid in one process only: never store or send it.
 *
 * Pure and inline; any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Secret and random, from ron_env's rand_u64; one per table. */
struct ron_hash_key {
    uint64_t k0;
    uint64_t k1;
};

static inline uint64_t ron_hash_rotl_(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static inline void ron_hash_round_(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = ron_hash_rotl_(v[1], 13) ^ v[0];
    v[0] = ron_hash_rotl_(v[0], 32);
    v[2] += v[3];
    v[3] = ron_hash_rotl_(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = ron_hash_rotl_(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = ron_hash_rotl_(v[1], 17) ^ v[2];
    v[2] = ron_hash_rotl_(v[2], 32);
}

static inline void ron_hash_word_(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    ron_hash_round_(v);
    v[0] ^= word;
}

static inline uint64_t ron_hash(struct ron_hash_key key, const void *data, size_t len)
{
    uint64_t v[4] = {key.k0 ^ UINT64_C(0x736f6d6570736575), key.k1 ^ UINT64_C(0x646f72616e646f6d),
                     key.k0 ^ UINT64_C(0x6c7967656e657261), key.k1 ^ UINT64_C(0x7465646279746573)};
    const unsigned char *bytes = data;
    uint64_t last = (uint64_t)len << 56;
    size_t at = 0;

    for (; len - at >= 8; at += 8) {
        uint64_t word;

        memcpy(&word, bytes + at, sizeof word);
        ron_hash_word_(v, word);
    }
    for (unsigned shift = 0; at < len; at++, shift += 8) {
        last |= (uint64_t)bytes[at] << shift;
    }
    ron_hash_word_(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) {
        ron_hash_round_(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
