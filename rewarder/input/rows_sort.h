/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/input/rows_sort.h - the order of many names, private to the rows.
 *
 * Names are reached by index. The order is an array of 8 bytes a name: a piece of the name on top,
 * its index below. The index has as many bits as the number of names needs and the piece as many
 * characters of 7 bits as fit into the rest: 6 for a million names, 5 for ten. Radix sort in place
 * over the pieces; names that agree in one get their next piece, and so on. No other memory is
 * used, and a name is looked at once for each piece that it shares with another one.
 *
 * Invariants:
 *   I1. Names are ASCII without zero bytes, so that a character has 7 bits and zero is the end.
 *   I2. Depth of recursion: 9 for the radix sort (characters of a piece), RWD_ACCOUNT_MAX / 4 for
 *       the names.
 *
 * Pure code; the caller's thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/json.h"

struct rwd__sort {
    struct ron_str (*name)(const void *arg, uint32_t index);
    const void *arg;
    unsigned index_bits; /* 1..32 */
    unsigned piece;      /* characters, 4..9 */
};

void rwd__sort_init(struct rwd__sort *sort, uint32_t count,
                    struct ron_str (*name)(const void *arg, uint32_t index), const void *arg);

static inline uint32_t rwd__sort_index(const struct rwd__sort *sort, uint64_t entry)
{
    return (uint32_t)(entry & ((UINT64_C(1) << sort->index_bits) - 1));
}

/* Fills order[0..count) with the indices in the order of their names, which all begin with the same
 * `shared` bytes. False when two names are the same: ret_twice is the index of one of them, of the
 * smallest such name. */
RON_MUST_USE bool rwd__sort(const struct rwd__sort *sort, uint64_t *order, uint32_t count,
                            size_t shared, uint32_t *ret_twice);
