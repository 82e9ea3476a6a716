/* SPDX-License-Identifier: Apache-2.0 */
/* audit/base/hash.h - the auditor's own tree of RFC 6962 over SHA-256, and its checks of proofs.
 *
 *     leaf(data)        = SHA-256(0x00 || data)
 *     node(left, right) = SHA-256(0x01 || left || right)
 *     empty tree        = SHA-256("")
 *
 * Place: audit; pure. Only the right edge of the tree is kept: the hashes of the perfect subtrees
 * that its size is the sum of, largest first. Threads: one per tree. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { AUD_HASH_BYTES = 32, AUD_TREE_DEPTH = 64 };

struct aud_hash {
    uint8_t bytes[AUD_HASH_BYTES];
};

struct aud_tree {
    uint64_t size;
    unsigned depth; /* = popcount(size) */
    struct aud_hash edge[AUD_TREE_DEPTH];
};

static inline bool aud_hash_equal(const struct aud_hash *a, const struct aud_hash *b)
{
    return memcmp(a->bytes, b->bytes, AUD_HASH_BYTES) == 0;
}

void aud_hash_leaf(const void *data, size_t len, struct aud_hash *ret);
/* SHA-256 of two pieces one after the other; the second may be empty. */
void aud_hash_two(const void *a, size_t a_len, const void *b, size_t b_len, struct aud_hash *ret);

void aud_tree_add(struct aud_tree *tree, const struct aud_hash *leaf);
void aud_tree_root(const struct aud_tree *tree, struct aud_hash *ret);

/* Whether `count` hashes lead from `leaf` at `index` to `root` in a tree of `size` leaves
 * (RFC 9162 section 2.1.3.2). */
bool aud_inclusion(const struct aud_hash *leaf, uint64_t index, uint64_t size,
                   const struct aud_hash *proof, size_t count, const struct aud_hash *root);

/* 64 hex digits and a NUL. */
void aud_hex(const uint8_t *bytes, size_t len, char *ret_text);
