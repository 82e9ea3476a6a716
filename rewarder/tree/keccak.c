/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/keccak.c - keccak-256 of one input, and of many through the four-sided way.
 *
 * The sponge: the state takes in 136 bytes, is permuted, and so on; the last block is filled with
 * 0x01, zeros and a last bit 0x80. The first 32 bytes of the state are the hash. */
#include "rewarder/tree/keccak.h"

#include <endian.h>

#include "rewarder/tree/keccak_priv.h"
#include "ron/base/macros.h"

/* Nodes that are laid out for one round of rwd_keccak256_nodes: 4 KiB on the stack. */
enum { NODE_ROUND = 64, NODE_BYTES = 2 * RWD_KECCAK_BYTES };

static void absorb(uint64_t state[RWD__KECCAK_LANES], const uint8_t *block)
{
    for (size_t i = 0; i < RWD_KECCAK_RATE / 8; i++) {
        uint64_t word;

        memcpy(&word, block + 8 * i, sizeof word);
        state[i] ^= le64toh(word);
    }
    RWD__KECCAK_PERMUTE(uint64_t, state);
}

void rwd_keccak256(const void *bytes, size_t len, struct rwd_keccak *ret_hash)
{
    uint64_t state[RWD__KECCAK_LANES] = {0};
    uint8_t last[RWD_KECCAK_RATE] = {0};
    const uint8_t *p = bytes;

    for (; len >= RWD_KECCAK_RATE; len -= RWD_KECCAK_RATE) {
        absorb(state, p);
        p += RWD_KECCAK_RATE;
    }
    if (len > 0) {
        memcpy(last, p, len);
    }
    last[len] = 0x01;
    last[RWD_KECCAK_RATE - 1] |= 0x80;
    absorb(state, last);
    for (size_t i = 0; i < RWD_KECCAK_BYTES / 8; i++) {
        uint64_t word = htole64(state[i]);

        memcpy(ret_hash->bytes + 8 * i, &word, sizeof word);
    }
}

void rwd_keccak256_many(const uint8_t *inputs, size_t stride, size_t len, size_t count,
                        struct rwd_keccak *ret_hashes)
{
    size_t i = 0;

    if (rwd__keccak_has_quad()) {
        for (; i + RWD__KECCAK_SIDE <= count; i += RWD__KECCAK_SIDE) {
            const uint8_t *at = inputs + i * stride;
            const uint8_t *const four[] = {at, at + stride, at + 2 * stride, at + 3 * stride};

            rwd__keccak_quad(four, len, ret_hashes + i);
        }
    }
    for (; i < count; i++) {
        rwd_keccak256(inputs + i * stride, len, &ret_hashes[i]);
    }
}

static void lay_pair(const struct rwd_keccak *a, const struct rwd_keccak *b, uint8_t *to)
{
    bool swap = rwd_keccak_cmp(a, b) > 0;

    memcpy(to, swap ? b : a, RWD_KECCAK_BYTES);
    memcpy(to + RWD_KECCAK_BYTES, swap ? a : b, RWD_KECCAK_BYTES);
}

void rwd_keccak256_node(const struct rwd_keccak *a, const struct rwd_keccak *b,
                        struct rwd_keccak *ret_hash)
{
    uint8_t pair[NODE_BYTES];

    lay_pair(a, b, pair);
    rwd_keccak256(pair, sizeof pair, ret_hash);
}

void rwd_keccak256_nodes(const struct rwd_keccak *children, size_t count,
                         struct rwd_keccak *ret_hashes)
{
    uint8_t pairs[NODE_ROUND * NODE_BYTES];

    for (size_t done = 0; done < count;) {
        size_t n = RON_MIN(count - done, (size_t)NODE_ROUND);

        for (size_t i = 0; i < n; i++) {
            lay_pair(&children[2 * (done + i)], &children[2 * (done + i) + 1],
                     pairs + i * NODE_BYTES);
        }
        rwd_keccak256_many(pairs, NODE_BYTES, NODE_BYTES, n, ret_hashes + done);
        done += n;
    }
}
