/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/keccak_priv.h - the permutation keccak-f[1600] for any word: one 64-bit lane, or
 * the same lane of four states side by side. And the two ways behind rwd_keccak256_many, for its
 * tests.
 *
 * Lane (x, y) stands at x + 5y. A round is theta (every lane takes the parity of two columns), rho
 * and pi (lanes are turned and moved), chi (rows are mixed, the only step that is not linear) and
 * iota (a constant). The move of pi is undone instead: lane (x, y) of the result comes from lane
 * (x + 3y, x), so that one row after the other can be finished. */
#pragma once

#include <stdbool.h>

#include "rewarder/tree/keccak.h"

enum { RWD__KECCAK_LANES = 25, RWD__KECCAK_ROUNDS = 24 };

static const uint64_t rwd__keccak_iota[RWD__KECCAK_ROUNDS] = {
    UINT64_C(0x0000000000000001), UINT64_C(0x0000000000008082), UINT64_C(0x800000000000808a),
    UINT64_C(0x8000000080008000), UINT64_C(0x000000000000808b), UINT64_C(0x0000000080000001),
    UINT64_C(0x8000000080008081), UINT64_C(0x8000000000008009), UINT64_C(0x000000000000008a),
    UINT64_C(0x0000000000000088), UINT64_C(0x0000000080008009), UINT64_C(0x000000008000000a),
    UINT64_C(0x000000008000808b), UINT64_C(0x800000000000008b), UINT64_C(0x8000000000008089),
    UINT64_C(0x8000000000008003), UINT64_C(0x8000000000008002), UINT64_C(0x8000000000000080),
    UINT64_C(0x000000000000800a), UINT64_C(0x800000008000000a), UINT64_C(0x8000000080008081),
    UINT64_C(0x8000000000008080), UINT64_C(0x0000000080000001), UINT64_C(0x8000000080008008),
};

#define RWD__TURN(v, n) ((v) << (n) | (v) >> (64 - (n)))
#define RWD__PARITY(in, x)                                                                         \
    ((in)[x] ^ (in)[(x) + 5] ^ (in)[(x) + 10] ^ (in)[(x) + 15] ^ (in)[(x) + 20])
/* Lane (x, y) before chi, turned by n. */
#define RWD__MOVED(in, x, y) ((in)[((x) + 3 * (y)) % 5 + 5 * (x)] ^ d[((x) + 3 * (y)) % 5])
#define RWD__ROW(in, out, y, first, n1, n2, n3, n4)                                                \
    do {                                                                                           \
        b0 = (first);                                                                              \
        b1 = RWD__MOVED(in, 1, y);                                                                 \
        b2 = RWD__MOVED(in, 2, y);                                                                 \
        b3 = RWD__MOVED(in, 3, y);                                                                 \
        b4 = RWD__MOVED(in, 4, y);                                                                 \
        b1 = RWD__TURN(b1, n1);                                                                    \
        b2 = RWD__TURN(b2, n2);                                                                    \
        b3 = RWD__TURN(b3, n3);                                                                    \
        b4 = RWD__TURN(b4, n4);                                                                    \
        (out)[(size_t)5 * (y)] = b0 ^ (~b1 & b2);                                                  \
        (out)[(size_t)5 * (y) + 1] = b1 ^ (~b2 & b3);                                              \
        (out)[(size_t)5 * (y) + 2] = b2 ^ (~b3 & b4);                                              \
        (out)[(size_t)5 * (y) + 3] = b3 ^ (~b4 & b0);                                              \
        (out)[(size_t)5 * (y) + 4] = b4 ^ (~b0 & b1);                                              \
    } while (0)

/* One round from `in` to `out`, both of 25 words. */
#define RWD__KECCAK_ROUND(word, in, out, constant)                                                 \
    do {                                                                                           \
        word c0 = RWD__PARITY(in, 0);                                                              \
        word c1 = RWD__PARITY(in, 1);                                                              \
        word c2 = RWD__PARITY(in, 2);                                                              \
        word c3 = RWD__PARITY(in, 3);                                                              \
        word c4 = RWD__PARITY(in, 4);                                                              \
        word d[5] = {c4 ^ RWD__TURN(c1, 1), c0 ^ RWD__TURN(c2, 1), c1 ^ RWD__TURN(c3, 1),          \
                     c2 ^ RWD__TURN(c4, 1), c3 ^ RWD__TURN(c0, 1)};                                \
        word b0;                                                                                   \
        word b1;                                                                                   \
        word b2;                                                                                   \
        word b3;                                                                                   \
        word b4;                                                                                   \
                                                                                                   \
        RWD__ROW(in, out, 0, RWD__MOVED(in, 0, 0), 44, 43, 21, 14);                                \
        (out)[0] ^= (constant);                                                                    \
        RWD__ROW(in, out, 1, RWD__TURN(RWD__MOVED(in, 0, 1), 28), 20, 3, 45, 61);                  \
        RWD__ROW(in, out, 2, RWD__TURN(RWD__MOVED(in, 0, 2), 1), 6, 25, 8, 18);                    \
        RWD__ROW(in, out, 3, RWD__TURN(RWD__MOVED(in, 0, 3), 27), 36, 10, 15, 56);                 \
        RWD__ROW(in, out, 4, RWD__TURN(RWD__MOVED(in, 0, 4), 62), 55, 39, 41, 2);                  \
    } while (0)

/* The whole permutation of `state`. Two rounds a turn: there and back again. */
#define RWD__KECCAK_PERMUTE(word, state)                                                           \
    do {                                                                                           \
        word other_[RWD__KECCAK_LANES];                                                            \
                                                                                                   \
        for (size_t round_ = 0; round_ < RWD__KECCAK_ROUNDS; round_ += 2) {                        \
            RWD__KECCAK_ROUND(word, state, other_, rwd__keccak_iota[round_]);                      \
            RWD__KECCAK_ROUND(word, other_, state, rwd__keccak_iota[round_ + 1]);                  \
        }                                                                                          \
    } while (0)

enum { RWD__KECCAK_SIDE = 4 };
bool rwd__keccak_has_quad(void);
/* The hashes of four inputs of equal length. Only where rwd__keccak_has_quad. */
void rwd__keccak_quad(const uint8_t *const inputs[RWD__KECCAK_SIDE], size_t len,
                      struct rwd_keccak ret_hashes[RWD__KECCAK_SIDE]);
