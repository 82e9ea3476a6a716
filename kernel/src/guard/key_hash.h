/* SPDX-License-Identifier: Apache-2.0 */
/* key_hash.h - SipHash-1-3: a short keyed hash for tables that strangers fill (private to guard/).
 *
 * Under a secret key nobody can choose keys that collide. The result is for one process only: it is
 * neither stored nor sent. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct ron_hash_key {
    uint64_t k0;
    uint64_t k1;
};

static inline uint64_t ron__rotl64(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static inline void ron__sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = ron__rotl64(v[1], 13) ^ v[0];
    v[0] = ron__rotl64(v[0], 32);
    v[2] += v[3];
    v[3] = ron__rotl64(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = ron__rotl64(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = ron__rotl64(v[1], 17) ^ v[2];
    v[2] = ron__rotl64(v[2], 32);
}

static inline void ron__sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    ron__sip_round(v);
    v[0] ^= word;
}

static inline uint64_t ron__key_hash(struct ron_hash_key key, const void *data, size_t len)
{
    uint64_t v[4] = {key.k0 ^ UINT64_C(0x736f6d6570736575), key.k1 ^ UINT64_C(0x646f72616e646f6d),
                     key.k0 ^ UINT64_C(0x6c7967656e657261), key.k1 ^ UINT64_C(0x7465646279746573)};
    const unsigned char *bytes = data;
    uint64_t last = (uint64_t)len << 56;
    size_t at = 0;

    for (; len - at >= 8; at += 8) {
        uint64_t word;

        memcpy(&word, bytes + at, sizeof word);
        ron__sip_word(v, word);
    }
    for (unsigned shift = 0; at < len; at++, shift += 8) {
        last |= (uint64_t)bytes[at] << shift;
    }
    ron__sip_word(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) {
        ron__sip_round(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
