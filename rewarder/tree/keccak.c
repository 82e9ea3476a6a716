/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/keccak.c - keccak-256 of one input, and of many through the four-sided way.
 *
 * The sponge: the state takes in 136 bytes, is permuted, and so on; the last block is filled with
 * 0x01, zeros and a last bit 0x80. The first 32 bytes of the state are the hash. */
#include "rewarder/tree/keccak.h"

#include <endian.h>

#include "rewarder/tree/keccak_priv.h"
#include "ron/base/macros.h"

/* Nodes that are laid out for one round of rew_keccak256_nodes: 4 KiB on the stack. */
enum { NODE_ROUND = 64, NODE_BYTES = 2 * REW_KECCAK_BYTES };

static void absorb(uint64_t state[REW__KECCAK_LANES], const uint8_t *block)
{
    for (size_t i = 0; i < REW_KECCAK_RATE / 8; i++) {
        uint64_t word;

        memcpy(&word, block + 8 * i, sizeof word);
        state[i] ^= le64toh(word);
    }
    REW__KECCAK_PERMUTE(uint64_t, state);
}

void rew_keccak256(const void *bytes, size_t len, struct rew_keccak *ret_hash)
{
    uint64_t state[REW__KECCAK_LANES] = {0};
    uint8_t last[REW_KECCAK_RATE] = {0};
    const uint8_t *p = bytes;

    for (; len >= REW_KECCAK_RATE; len -= REW_KECCAK_RATE) {
        absorb(state, p);
        p += REW_KECCAK_RATE;
    }
    if (len > 0) {
        memcpy(last, p, len);
    }
    last[len] = 0x01;
    last[REW_KECCAK_RATE - 1] |= 0x80;
    absorb(state, last);
    for (size_t i = 0; i < REW_KECCAK_BYTES / 8; i++) {
        uint64_t word = htole64(state[i]);

        memcpy(ret_hash->bytes + 8 * i, &word, sizeof word);
    }
}

void rew_keccak256_many(const uint8_t *inputs, size_t stride, size_t len, size_t count,
                        struct rew_keccak *ret_hashes)
{
    size_t i = 0;

    if (rew__keccak_has_quad()) {
        for (; i + REW__KECCAK_SIDE <= count; i += REW__KECCAK_SIDE) {
            const uint8_t *at = inputs + i * stride;
            const uint8_t *const four[] = {at, at + stride, at + 2 * stride, at + 3 * stride};

            rew__keccak_quad(four, len, ret_hashes + i);
        }
    }
    for (; i < count; i++) {
        rew_keccak256(inputs + i * stride, len, &ret_hashes[i]);
    }
}

static void lay_pair(const struct rew_keccak *a, const struct rew_keccak *b, uint8_t *to)
{
    bool swap = rew_keccak_cmp(a, b) > 0;

    memcpy(to, swap ? b : a, REW_KECCAK_BYTES);
    memcpy(to + REW_KECCAK_BYTES, swap ? a : b, REW_KECCAK_BYTES);
}

void rew_keccak256_node(const struct rew_keccak *a, const struct rew_keccak *b,
                        struct rew_keccak *ret_hash)
{
    uint8_t pair[NODE_BYTES];

    lay_pair(a, b, pair);
    rew_keccak256(pair, sizeof pair, ret_hash);
}

void rew_keccak256_nodes(const struct rew_keccak *children, size_t count,
                         struct rew_keccak *ret_hashes)
{
    uint8_t pairs[NODE_ROUND * NODE_BYTES];

    for (size_t done = 0; done < count;) {
        size_t n = RON_MIN(count - done, (size_t)NODE_ROUND);

        for (size_t i = 0; i < n; i++) {
            lay_pair(&children[2 * (done + i)], &children[2 * (done + i) + 1],
                     pairs + i * NODE_BYTES);
        }
        rew_keccak256_many(pairs, NODE_BYTES, NODE_BYTES, n, ret_hashes + done);
        done += n;
    }
}
