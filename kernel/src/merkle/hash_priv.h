/* SPDX-License-Identifier: Apache-2.0 */
/* hash_priv.h - the block function for two messages, shared by hash.c, hash_pair.c and tests. */
#pragma once

#include "ron/base/assert.h"
#include "ron/merkle/hash.h"

enum { RON_TREE_HASH_BLOCK = 64 };

/* Whether this processor has the instructions; costs a slow one itself, so ask once. */
bool ron__tree_hash_has_pair(void);

/* Moves both states on over `blocks` blocks of either message. Only where
 * ron__tree_hash_has_pair. */
void ron__tree_hash_pair(uint32_t state_a[8], uint32_t state_b[8], const uint8_t *block_a,
                         const uint8_t *block_b, size_t blocks);

/* ret_hash may be one of the two. */
void ron_tree_hash_node(const struct ron_tree_hash *left, const struct ron_tree_hash *right,
                        struct ron_tree_hash *ret_hash);
