/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h - the hashes of a Merkle tree: SHA-256 with the two prefixes of RFC 6962.
 *
 *     leaf(data)        = SHA-256(0x00 || data)
 *     node(left, right) = SHA-256(0x01 || left || right)
 *     empty tree        = SHA-256("")
 *
 * Why not plain EVP: one-shot SHA256() looks its algorithm up on every call and costs four times
 * the hashing; a prefetched EVP context still costs half as much again. A node is always two
 * blocks with a known padding, so it is laid out here and given to OpenSSL's block function
 * directly. That function picks SHA-NI, AVX2 or plain code when the library is loaded. Where many
 * hashes are wanted and the processor has SHA-NI, two are computed side by side (hash_pair.c).
 *
 * Threads: any; nothing is kept between calls. Failure: none, and no allocation. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ron/base/json.h"

#define RON_TREE_HASH_BYTES 32

struct ron_tree_hash {
    uint8_t bytes[RON_TREE_HASH_BYTES];
};

static inline bool ron_tree_hash_equal(const struct ron_tree_hash *a, const struct ron_tree_hash *b)
{
    return memcmp(a->bytes, b->bytes, RON_TREE_HASH_BYTES) == 0;
}

/* The root of a tree without leaves. */
void ron_tree_hash_empty(struct ron_tree_hash *ret_hash);

/* `data` may be NULL when len is 0. */
void ron_tree_hash_leaf(const void *data, size_t len, struct ron_tree_hash *ret_hash);

/* ret_hashes[i] = leaf(leaves[i]) for i < count; cheaper than one by one. */
void ron_tree_hash_leaves(const struct ron_str *leaves, size_t count,
                          struct ron_tree_hash *ret_hashes);

/* ret_hashes[i] = node(pairs[2i], pairs[2i + 1]) for i < count. ret_hashes may be pairs or pairs +
 * 1: a level of a tree then becomes the next one in place. */
void ron_tree_hash_nodes(const struct ron_tree_hash *pairs, size_t count,
                         struct ron_tree_hash *ret_hashes);

/* SHA-256 of the pieces one after the other, without any prefix; for key ids. */
struct ron_tree_piece {
    const void *bytes;
    size_t len;
};
void ron_tree_hash_pieces(const struct ron_tree_piece *pieces, size_t count,
                          struct ron_tree_hash *ret_hash);
