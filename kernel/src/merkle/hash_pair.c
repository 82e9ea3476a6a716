/* SPDX-License-Identifier: Apache-2.0 */
/* hash_pair.c - the block function of SHA-256 for two messages at once.
 *
 * The processor's instruction for two rounds gives its result after four cycles and can start every
 * two, and each needs the one before: a single message leaves half of the unit idle. Two messages
 * of equal length side by side use it whole. Leaves and nodes come by the hundred, so there is
 * always a second one.
 *
 * The layout of the state (words ABEF and CDGH in two registers) is the instruction's. Only for
 * processors that have it; hash.c has the other way, and the tests compare both. */
#include "merkle/hash_priv.h"

#if defined(__x86_64__)

#include <cpuid.h>

/* Registers of four words. The builtins instead of the header of intrinsics, which brings malloc
 * with it; they want signed words, sums want unsigned ones. */
typedef uint32_t vec __attribute__((vector_size(16)));
typedef int signed_vec __attribute__((vector_size(16)));
typedef uint8_t byte_vec __attribute__((vector_size(16)));

bool ron__tree_hash_has_pair(void)
{
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;

    /* SHA is bit 29 of EBX of leaf 7; it comes with SSE4.1 on every processor that has it. */
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
}

static const uint32_t k[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* One message under way: its state and the last 16 words of its schedule. */
struct lane {
    vec abef;
    vec cdgh;
    vec w[4];
};

#define WITH_SHA __attribute__((target("sha,sse4.1"), always_inline)) static inline

WITH_SHA vec load(const void *from)
{
    vec v;

    memcpy(&v, from, sizeof v);
    return v;
}

WITH_SHA void lane_begin(struct lane *l, const uint32_t state[8])
{
    vec low = load(state); /* a b c d, the first in the lowest word */
    vec high = load(state + 4);

    l->abef = __builtin_shufflevector(high, low, 1, 0, 5, 4);
    l->cdgh = __builtin_shufflevector(high, low, 3, 2, 7, 6);
}

WITH_SHA void lane_end(const struct lane *l, uint32_t state[8])
{
    vec low = __builtin_shufflevector(l->abef, l->cdgh, 3, 2, 7, 6);
    vec high = __builtin_shufflevector(l->abef, l->cdgh, 1, 0, 5, 4);

    memcpy(state, &low, sizeof low);
    memcpy(state + 4, &high, sizeof high);
}

/* Words 4g..4g+3 of the block, or of the schedule. */
WITH_SHA void lane_words(struct lane *l, const uint8_t *block, unsigned g)
{
    byte_vec bytes;
    vec next;

    if (g < 4) {
        memcpy(&bytes, block + (size_t)16 * g, sizeof bytes);
        l->w[g] = (vec)__builtin_shufflevector(bytes, bytes, 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8,
                                               15, 14, 13, 12);
        return;
    }
    next = (vec)__builtin_ia32_sha256msg1((signed_vec)l->w[g & 3], (signed_vec)l->w[(g + 1) & 3]);
    next += __builtin_shufflevector(l->w[(g + 2) & 3], l->w[(g + 3) & 3], 1, 2, 3, 4);
    l->w[g & 3] = (vec)__builtin_ia32_sha256msg2((signed_vec)next, (signed_vec)l->w[(g + 3) & 3]);
}

WITH_SHA vec two_rounds(vec to, vec from, vec wk)
{
    return (vec)__builtin_ia32_sha256rnds2((signed_vec)to, (signed_vec)from, (signed_vec)wk);
}

/* Four rounds of both messages, in turn. */
WITH_SHA void four_rounds(struct lane *a, struct lane *b, const uint8_t *block_a,
                          const uint8_t *block_b, unsigned g)
{
    vec constants = load(k + (size_t)4 * g);
    vec wk_a;
    vec wk_b;

    lane_words(a, block_a, g);
    lane_words(b, block_b, g);
    wk_a = a->w[g & 3] + constants;
    wk_b = b->w[g & 3] + constants;
    a->cdgh = two_rounds(a->cdgh, a->abef, wk_a);
    b->cdgh = two_rounds(b->cdgh, b->abef, wk_b);
    a->abef = two_rounds(a->abef, a->cdgh, __builtin_shufflevector(wk_a, wk_a, 2, 3, 2, 3));
    b->abef = two_rounds(b->abef, b->cdgh, __builtin_shufflevector(wk_b, wk_b, 2, 3, 2, 3));
}

/* Written out, so that every `g` is a constant and the words stay in registers. */
#define SIXTEEN_ROUNDS(g)                                                                          \
    four_rounds(&a, &b, block_a, block_b, (g));                                                    \
    four_rounds(&a, &b, block_a, block_b, (g) + 1);                                                \
    four_rounds(&a, &b, block_a, block_b, (g) + 2);                                                \
    four_rounds(&a, &b, block_a, block_b, (g) + 3)

__attribute__((target("sha,sse4.1"))) void ron__tree_hash_pair(uint32_t state_a[8],
                                                               uint32_t state_b[8],
                                                               const uint8_t *block_a,
                                                               const uint8_t *block_b,
                                                               size_t blocks)
{
    struct lane a;
    struct lane b;

    lane_begin(&a, state_a);
    lane_begin(&b, state_b);
    for (; blocks > 0; blocks--, block_a += RON_TREE_HASH_BLOCK, block_b += RON_TREE_HASH_BLOCK) {
        const vec before[4] = {a.abef, a.cdgh, b.abef, b.cdgh};

        SIXTEEN_ROUNDS(0);
        SIXTEEN_ROUNDS(4);
        SIXTEEN_ROUNDS(8);
        SIXTEEN_ROUNDS(12);
        a.abef += before[0];
        a.cdgh += before[1];
        b.abef += before[2];
        b.cdgh += before[3];
    }
    lane_end(&a, state_a);
    lane_end(&b, state_b);
}

#else

bool ron__tree_hash_has_pair(void)
{
    return false;
}

void ron__tree_hash_pair(uint32_t state_a[8], uint32_t state_b[8], const uint8_t *block_a,
                         const uint8_t *block_b, size_t blocks)
{
    (void)state_a;
    (void)state_b;
    (void)block_a;
    (void)block_b;
    (void)blocks;
    RON_UNREACHABLE();
}

#endif
