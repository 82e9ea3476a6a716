/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/keccak.h - keccak-256 as Ethereum uses it: the original padding (0x01), not that of
 * SHA-3.
 *
 * Place: rewarder, its lowest part beside the names; under the public trees alone. Everything else
 * of ours hashes with BLAKE3 or SHA-256; no library at hand has keccak-256.
 *
 * Four inputs of equal length are hashed side by side where the processor can (AVX2, found out at
 * run time), else one by one. Both give the same bytes, and the tests compare them.
 *
 * Pure functions; any thread; nothing allocates, nothing fails. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    RWD_KECCAK_BYTES = 32,
    RWD_KECCAK_RATE = 136, /* bytes of input that one permutation takes in */
};

struct rwd_keccak {
    uint8_t bytes[RWD_KECCAK_BYTES];
};

/* The order of trees: that of the hashes as big-endian numbers. */
static inline int rwd_keccak_cmp(const struct rwd_keccak *a, const struct rwd_keccak *b)
{
    return memcmp(a->bytes, b->bytes, RWD_KECCAK_BYTES);
}

/* `bytes` may be NULL when len is 0. */
void rwd_keccak256(const void *bytes, size_t len, struct rwd_keccak *ret_hash);

/* ret_hashes[i] = keccak of the `len` bytes at inputs + i * stride. The hashes may lie over the
 * inputs when stride and len are 32: the second hash of a double one. */
void rwd_keccak256_many(const uint8_t *inputs, size_t stride, size_t len, size_t count,
                        struct rwd_keccak *ret_hashes);

/* The node above two: keccak of the smaller one and then the larger one, so that a proof needs no
 * sides. ret_hash may be one of them. */
void rwd_keccak256_node(const struct rwd_keccak *a, const struct rwd_keccak *b,
                        struct rwd_keccak *ret_hash);

/* ret_hashes[i] = the node above children[2i] and children[2i + 1]; no overlap. */
void rwd_keccak256_nodes(const struct rwd_keccak *children, size_t count,
                         struct rwd_keccak *ret_hashes);
