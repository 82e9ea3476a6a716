/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h - the accumulator: the Merkle tree of RFC 6962, under the ledger's entries and the
 * rewarder's payouts.
 *
 * What is kept where:
 *   - The right edge (struct ron_tree): one hash for each perfect subtree of the present size, at
 *     most 64. It is all that appending and the present root need.
 *   - The stored hashes: every leaf and every node of a perfect subtree, in the order in which they
 *     come to be (docs/formats/ledger-proofs.md), behind struct ron_tree_store. Roots of the past,
 *     proofs and tiles are read from there. An engine gives two functions, for a file or for
 *     memory.
 *
 * Invariants:
 *   T1. bit L of size is set exactly when edge[L] holds the hash of a perfect subtree of 2^L
 *       leaves.
 *   T2. The hash of node (level, n) is stored at a place that depends on level and n alone, and a
 *       tree of size s has stored exactly 2s - popcount(s) hashes. What is stored never changes.
 *   T3. Size stays below 2^63, which is what signed checkpoints can carry.
 *   T4. The same leaves give the same root, edge and stored hashes in whatever batches they come.
 *
 * Ownership and threads: a tree has one writer (the committer). Proofs read the store alone and
 * take the size as an argument, so any thread may make them at a published size. Nothing allocates.
 *
 * Failure: what the store answers is handed on; a tree whose append failed is as it was before. */
#pragma once

#include "ron/base/macros.h"
#include "ron/base/rc.h"
#include "ron/merkle/hash.h"

/* T3. */
#define RON_TREE_SIZE_MAX ((uint64_t)INT64_MAX)
#define RON_TREE_LEVELS 64

/* A proof has at most one hash for each level. */
#define RON_PROOF_MAX RON_TREE_LEVELS

/* Leaves that one round of an append takes: its stored hashes (16 KiB) fit the first cache. */
#define RON_TREE_CHUNK 256

/* Hashes that one call of `read` is asked for at most: a proof with its right edge, or a tile. */
#define RON_TREE_READ_MAX 256

struct ron_tree {
    uint64_t size;
    struct ron_tree_hash edge[RON_TREE_LEVELS]; /* T1; others are undefined */
};

/* How an engine keeps the stored hashes. Both functions return RON_OK or what went wrong. */
struct ron_tree_store {
    void *ctx;
    /* Keep `count` hashes from place `first` on. `first` is where the last append ended, or lies
     * before it when that one failed: then these take the places of what it wrote. */
    enum ron_rc (*append)(void *ctx, uint64_t first, const struct ron_tree_hash *hashes,
                          size_t count, struct ron_err *err);
    /* ret_hashes[i] = the hash at places[i], i < count <= RON_TREE_READ_MAX. */
    enum ron_rc (*read)(void *ctx, const uint64_t *places, size_t count,
                        struct ron_tree_hash *ret_hashes, struct ron_err *err);
};

/* ---- Places (T2) ----------------------------------------------------------------------------- */

/* Hashes stored for a tree of this size; also the place of its next leaf. */
static inline uint64_t ron_tree_stored_count(uint64_t size)
{
    return 2 * size - (uint64_t)__builtin_popcountll(size);
}

/* Place of node n of a level: it comes to be with its last leaf, after the nodes below it. */
static inline uint64_t ron_tree_place(unsigned level, uint64_t n)
{
    return ron_tree_stored_count(((n + 1) << level) - 1) + level;
}

/* ---- Growing --------------------------------------------------------------------------------- */

/* A tree without leaves. */
void ron_tree_init(struct ron_tree *tree);

/* Appends leaf hashes. ret_stored, unless NULL, receives the hashes that are to be stored from
 * place ron_tree_stored_count(size before) on, and has room for all of them: the difference of the
 * two counts, never more than 2 * count + 63. RON_LIMIT when T3 would break; then nothing
 * changed. */
RON_MUST_USE enum ron_rc ron_tree_extend(struct ron_tree *tree, const struct ron_tree_hash *leaves,
                                         size_t count, struct ron_tree_hash *ret_stored);

/* The same, through the store in rounds of RON_TREE_CHUNK. */
RON_MUST_USE enum ron_rc ron_tree_append(struct ron_tree *tree, const struct ron_tree_store *store,
                                         const struct ron_tree_hash *leaves, size_t count,
                                         struct ron_err *err);

/* The root of the present size. */
void ron_tree_root(const struct ron_tree *tree, struct ron_tree_hash *ret_root);

/* The root of an earlier size, from the store. The caller knows that the store holds that size. */
RON_MUST_USE enum ron_rc ron_tree_root_at(const struct ron_tree_store *store, uint64_t size,
                                          struct ron_tree_hash *ret_root, struct ron_err *err);

/* The edge of an earlier size, from the store: what recovery starts from. */
RON_MUST_USE enum ron_rc ron_tree_load(const struct ron_tree_store *store, uint64_t size,
                                       struct ron_tree *ret_tree, struct ron_err *err);

/* ---- Proofs (RFC 6962 section 2.1, RFC 9162 section 2.1) ------------------------------------- */

struct ron_proof {
    size_t count;
    struct ron_tree_hash hashes[RON_PROOF_MAX]; /* from the leaf's side up */
};

/* That leaf `index` is in the tree of `size` leaves. RON_INVALID unless index < size; the caller
 * knows that the store holds `size`. */
RON_MUST_USE enum ron_rc ron_proof_inclusion(const struct ron_tree_store *store, uint64_t index,
                                             uint64_t size, struct ron_proof *ret_proof,
                                             struct ron_err *err);

/* That the tree of `size` leaves begins with the tree of `old_size`. Empty when old_size is 0 or
 * size. RON_INVALID unless old_size <= size. */
RON_MUST_USE enum ron_rc ron_proof_consistency(const struct ron_tree_store *store,
                                               uint64_t old_size, uint64_t size,
                                               struct ron_proof *ret_proof, struct ron_err *err);

/* Whether the proof leads from the leaf hash to the root. Safe for any values. */
bool ron_proof_includes(const struct ron_tree_hash *hashes, size_t count, uint64_t index,
                        uint64_t size, const struct ron_tree_hash *leaf,
                        const struct ron_tree_hash *root);

/* Whether the proof joins the two roots. Of old_size 0 the old root must be that of no leaves. */
bool ron_proof_joins(const struct ron_tree_hash *hashes, size_t count, uint64_t old_size,
                     uint64_t size, const struct ron_tree_hash *old_root,
                     const struct ron_tree_hash *root);
