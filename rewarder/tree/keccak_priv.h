/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/keccak_priv.h - the permutation keccak-f[1600] for any word: one 64-bit lane, or
 * the same lane of four states side by side. And the two ways behind rew_keccak256_many, for its
 * tests.
 *
 * Lane (x, y) stands at x + 5y. A round is theta (every lane takes the parity of two columns), rho
 * and pi (lanes are turned and moved), chi (rows are mixed, the only step that is not linear) and
 * iota (a constant). The move of pi is undone instead: lane (x, y) of the result comes from lane
 * (x + 3y, x), so that one row after the other can be finished. */
#pragma once

#include <stdbool.h>

#include "rewarder/tree/keccak.h"

enum { REW__KECCAK_LANES = 25, REW__KECCAK_ROUNDS = 24 };

static const uint64_t rew__keccak_iota[REW__KECCAK_ROUNDS] = {
    UINT64_C(0x0000000000000001), UINT64_C(0x0000000000008082), UINT64_C(0x800000000000808a),
    UINT64_C(0x8000000080008000), UINT64_C(0x000000000000808b), UINT64_C(0x0000000080000001),
    UINT64_C(0x8000000080008081), UINT64_C(0x8000000000008009), UINT64_C(0x000000000000008a),
    UINT64_C(0x0000000000000088), UINT64_C(0x0000000080008009), UINT64_C(0x000000008000000a),
    UINT64_C(0x000000008000808b), UINT64_C(0x800000000000008b), UINT64_C(0x8000000000008089),
    UINT64_C(0x8000000000008003), UINT64_C(0x8000000000008002), UINT64_C(0x8000000000000080),
    UINT64_C(0x000000000000800a), UINT64_C(0x800000008000000a), UINT64_C(0x8000000080008081),
    UINT64_C(0x8000000000008080), UINT64_C(0x0000000080000001), UINT64_C(0x8000000080008008),
};

#define REW__TURN(v, n) ((v) << (n) | (v) >> (64 - (n)))
#define REW__PARITY(in, x)                                                                         \
    ((in)[x] ^ (in)[(x) + 5] ^ (in)[(x) + 10] ^ (in)[(x) + 15] ^ (in)[(x) + 20])
/* Lane (x, y) before chi, turned by n. */
#define REW__MOVED(in, x, y) ((in)[((x) + 3 * (y)) % 5 + 5 * (x)] ^ d[((x) + 3 * (y)) % 5])
#define REW__ROW(in, out, y, first, n1, n2, n3, n4)                                                \
    do {                                                                                           \
        b0 = (first);                                                                              \
        b1 = REW__MOVED(in, 1, y);                                                                 \
        b2 = REW__MOVED(in, 2, y);                                                                 \
        b3 = REW__MOVED(in, 3, y);                                                                 \
        b4 = REW__MOVED(in, 4, y);                                                                 \
        b1 = REW__TURN(b1, n1);                                                                    \
        b2 = REW__TURN(b2, n2);                                                                    \
        b3 = REW__TURN(b3, n3);                                                                    \
        b4 = REW__TURN(b4, n4);                                                                    \
        (out)[(size_t)5 * (y)] = b0 ^ (~b1 & b2);                                                  \
        (out)[(size_t)5 * (y) + 1] = b1 ^ (~b2 & b3);                                              \
        (out)[(size_t)5 * (y) + 2] = b2 ^ (~b3 & b4);                                              \
        (out)[(size_t)5 * (y) + 3] = b3 ^ (~b4 & b0);                                              \
        (out)[(size_t)5 * (y) + 4] = b4 ^ (~b0 & b1);                                              \
    } while (0)

/* One round from `in` to `out`, both of 25 words. */
#define REW__KECCAK_ROUND(word, in, out, constant)                                                 \
    do {                                                                                           \
        word c0 = REW__PARITY(in, 0);                                                              \
        word c1 = REW__PARITY(in, 1);                                                              \
        word c2 = REW__PARITY(in, 2);                                                              \
        word c3 = REW__PARITY(in, 3);                                                              \
        word c4 = REW__PARITY(in, 4);                                                              \
        word d[5] = {c4 ^ REW__TURN(c1, 1), c0 ^ REW__TURN(c2, 1), c1 ^ REW__TURN(c3, 1),          \
                     c2 ^ REW__TURN(c4, 1), c3 ^ REW__TURN(c0, 1)};                                \
        word b0;                                                                                   \
        word b1;                                                                                   \
        word b2;                                                                                   \
        word b3;                                                                                   \
        word b4;                                                                                   \
                                                                                                   \
        REW__ROW(in, out, 0, REW__MOVED(in, 0, 0), 44, 43, 21, 14);                                \
        (out)[0] ^= (constant);                                                                    \
        REW__ROW(in, out, 1, REW__TURN(REW__MOVED(in, 0, 1), 28), 20, 3, 45, 61);                  \
        REW__ROW(in, out, 2, REW__TURN(REW__MOVED(in, 0, 2), 1), 6, 25, 8, 18);                    \
        REW__ROW(in, out, 3, REW__TURN(REW__MOVED(in, 0, 3), 27), 36, 10, 15, 56);                 \
        REW__ROW(in, out, 4, REW__TURN(REW__MOVED(in, 0, 4), 62), 55, 39, 41, 2);                  \
    } while (0)

/* The whole permutation of `state`. Two rounds a turn: there and back again. */
#define REW__KECCAK_PERMUTE(word, state)                                                           \
    do {                                                                                           \
        word other_[REW__KECCAK_LANES];                                                            \
                                                                                                   \
        for (size_t round_ = 0; round_ < REW__KECCAK_ROUNDS; round_ += 2) {                        \
            REW__KECCAK_ROUND(word, state, other_, rew__keccak_iota[round_]);                      \
            REW__KECCAK_ROUND(word, other_, state, rew__keccak_iota[round_ + 1]);                  \
        }                                                                                          \
    } while (0)

enum { REW__KECCAK_SIDE = 4 };
bool rew__keccak_has_quad(void);
/* The hashes of four inputs of equal length. Only where rew__keccak_has_quad. */
void rew__keccak_quad(const uint8_t *const inputs[REW__KECCAK_SIDE], size_t len,
                      struct rew_keccak ret_hashes[REW__KECCAK_SIDE]);
