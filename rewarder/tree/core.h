/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/core.h - what the two public trees share: an array of keccak-256 nodes, the order
 * of leaves, proofs, hashes and 256-bit numbers as text.
 *
 * Both trees are a heap: node 1 is the root, the children of node i are 2i and 2i + 1, and L leaves
 * stand at [L, 2L). OpenZeppelin counts from 0 (its index is ours - 1) and takes any L; Rocket Pool
 * fills up with zero hashes to a power of two. A node is the keccak of its sorted children.
 *
 * Place: rewarder, over keccak.h. Pure code, one thread at a time. */
#pragma once

#include <stdbool.h>

#include "rewarder/tree/keccak.h"
#include "ron/base/json.h"
#include "ron/base/rc.h"

enum {
    /* Leaves of a tree: more than the ten million payees of the largest run, and the array of a
     * full tree is 1 GiB. */
    RWD_TREE_LEAVES_MAX = 1 << 24,
    RWD_TREE_PROOF_MAX = 25, /* levels of a tree of that size */
    RWD_HASH_TEXT = 2 + 2 * RWD_KECCAK_BYTES,
    RWD_ADDRESS_BYTES = 20,
    RWD_ADDRESS_TEXT = 2 + 2 * RWD_ADDRESS_BYTES,
    RWD_U256_BYTES = 32, /* big-endian */
    RWD_U256_TEXT = 78,  /* digits of 2^256 - 1 */
};

struct rwd_tree {
    struct rwd_keccak *nodes; /* 2 * leaves of them; nodes[0] is not used */
    size_t leaves;
};

struct rwd_tree_proof {
    size_t count;
    struct rwd_keccak hashes[RWD_TREE_PROOF_MAX]; /* from the leaf's side up */
};

/* Takes a tree's bytes as they are written. */
struct rwd_sink {
    enum ron_rc (*put)(void *arg, const void *bytes, size_t len, struct ron_err *err);
    void *arg;
};

/* A tree whose nodes are all zero. RON_NOMEM, RON_LIMIT; at least one leaf. */
RON_MUST_USE enum ron_rc rwd_tree_init(struct rwd_tree *tree, size_t leaves, struct ron_err *err);
void rwd_tree_done(struct rwd_tree *tree);
/* Computes all nodes above the leaves. */
void rwd_tree_build(struct rwd_tree *tree);
/* The proof of the leaf at nodes[at], leaves <= at < 2 * leaves. */
void rwd_tree_prove(const struct rwd_tree *tree, size_t at, struct rwd_tree_proof *ret_proof);
bool rwd_tree_proves(const struct rwd_keccak *leaf, const struct rwd_tree_proof *proof,
                     const struct rwd_keccak *root);

/* The indices of hashes[0..count) in ascending order; equal ones keep theirs. The caller frees. */
RON_MUST_USE enum ron_rc rwd_tree_order(const struct rwd_keccak *hashes, size_t count,
                                        uint32_t **ret_order, struct ron_err *err);

/* ---- text ------------------------------------------------------------------------------------ */

/* "0x" and lowercase digits, 2 + 2 * len bytes without a NUL. */
void rwd_hex_put(const uint8_t *bytes, size_t len, char *ret_text);
/* "0x" and exactly 2 * len digits of either case. */
bool rwd_hex_get(struct ron_str text, uint8_t *ret_bytes, size_t len);
/* The same, lowercase alone: a hash has one spelling. */
bool rwd_hash_get(struct ron_str text, struct rwd_keccak *ret_hash);

/* `0|[1-9][0-9]*` below 2^256. */
bool rwd_u256_get(struct ron_str digits, uint8_t ret_number[RWD_U256_BYTES]);
/* Returns the length, without a NUL. */
size_t rwd_u256_put(const uint8_t number[RWD_U256_BYTES], char ret_digits[RWD_U256_TEXT]);
/* False when the sum does not fit; ret_sum may be one of the two. */
bool rwd_u256_add(const uint8_t a[RWD_U256_BYTES], const uint8_t b[RWD_U256_BYTES],
                  uint8_t ret_sum[RWD_U256_BYTES]);

/* ---- walking through JSON that was checked before -------------------------------------------- */

/* The next item of an array or member of an object: *at begins behind the bracket and is moved on.
 * False at the end. `ret_name` (NULL for arrays) is between its quotes, escapes and all; ret_value
 * is the value's text. */
bool rwd_json_next(struct ron_str json, size_t *at, struct ron_str *ret_name,
                   struct ron_str *ret_value);
