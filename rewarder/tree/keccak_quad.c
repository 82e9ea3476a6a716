/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/keccak_quad.c - four keccak-256 at once in the 256-bit registers of AVX2.
 *
 * A vector holds the same lane of four states, so the permutation is the plain one with another
 * word. Sixteen registers do not hold 25 lanes; it still takes about a third of the time of four
 * permutations one by one (measured with gcc and clang at -O2). Elsewhere than on x86-64 there is
 * no such way. */
#include "rewarder/tree/keccak_priv.h"

#if defined(__x86_64__)

typedef uint64_t vec __attribute__((vector_size(8 * RWD__KECCAK_SIDE)));

#define WITH_AVX2 __attribute__((target("avx2"), always_inline)) static inline

bool rwd__keccak_has_quad(void)
{
    return __builtin_cpu_supports("avx2") != 0; /* Asks the system too: it must save them. */
}

/* Takes in one block of each input: little-endian words, as this processor reads them. */
WITH_AVX2 void absorb(vec state[RWD__KECCAK_LANES], const uint8_t *const blocks[RWD__KECCAK_SIDE])
{
    for (size_t i = 0; i < RWD_KECCAK_RATE / 8; i++) {
        uint64_t words[RWD__KECCAK_SIDE];
        vec lane;

        for (size_t k = 0; k < RWD__KECCAK_SIDE; k++) {
            memcpy(&words[k], blocks[k] + 8 * i, sizeof words[k]);
        }
        memcpy(&lane, words, sizeof lane);
        state[i] ^= lane;
    }
}

__attribute__((target("avx2"))) void rwd__keccak_quad(
    const uint8_t *const inputs[RWD__KECCAK_SIDE], size_t len,
    struct rwd_keccak ret_hashes[RWD__KECCAK_SIDE])
{
    vec state[RWD__KECCAK_LANES] = {0};
    uint8_t last[RWD__KECCAK_SIDE][RWD_KECCAK_RATE] = {0};
    size_t at = 0;

    for (bool more = true; more; at += RWD_KECCAK_RATE) {
        const uint8_t *blocks[RWD__KECCAK_SIDE];

        more = len - at >= RWD_KECCAK_RATE;
        for (size_t k = 0; k < RWD__KECCAK_SIDE; k++) {
            blocks[k] = inputs[k] + at;
            if (!more) {
                memcpy(last[k], blocks[k], len - at);
                last[k][len - at] = 0x01;
                last[k][RWD_KECCAK_RATE - 1] |= 0x80;
                blocks[k] = last[k];
            }
        }
        absorb(state, blocks);
        RWD__KECCAK_PERMUTE(vec, state);
    }
    for (size_t i = 0; i < RWD_KECCAK_BYTES / 8; i++) {
        for (size_t k = 0; k < RWD__KECCAK_SIDE; k++) {
            memcpy(ret_hashes[k].bytes + 8 * i, (const uint8_t *)&state[i] + 8 * k, 8);
        }
    }
}

#else

bool rwd__keccak_has_quad(void)
{
    return false;
}

void rwd__keccak_quad(const uint8_t *const inputs[RWD__KECCAK_SIDE], size_t len,
                      struct rwd_keccak ret_hashes[RWD__KECCAK_SIDE])
{
    for (size_t k = 0; k < RWD__KECCAK_SIDE; k++) {
        rwd_keccak256(inputs[k], len, &ret_hashes[k]);
    }
}

#endif
