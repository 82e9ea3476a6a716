/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/oz.h - the tree "standard-v1" of OpenZeppelin's merkle-tree package.
 *
 *     leaf = keccak(keccak(abi.encode(values)))          leaves sorted, then from the back: tree
 *     node = keccak(smaller child || larger child)       index of the smallest leaf = 2n - 2
 *
 * and its dump, byte for byte as JSON.stringify(tree.dump()) writes it:
 *
 *     {"format":"standard-v1","leafEncoding":["address","uint256"],"tree":["0x...",...],
 *      "values":[{"value":["0x...","5000"],"treeIndex":1},...]}
 *
 * Rules:
 *   O1. The same values in the same order give the same bytes as the package does.
 *   O2. A dump that was read is whole: every value has its own leaf with the right hash, every node
 *       is that of its children. Leaves need not be sorted (the package can leave that out).
 *
 * Use: new, add.., build; or read. Then root, proofs, dump.
 * Threads: one at a time; after build any number may read. Memory: 64 bytes for the nodes and the
 * text of each value; 64 more while it is built. */
#pragma once

#include "rewarder/tree/abi.h"

struct rwd_oz;

/* Types by their names, as in leafEncoding. */
RON_MUST_USE enum ron_rc rwd_oz_new(const struct ron_str *types, size_t type_count,
                                    struct rwd_oz **ret_oz, struct ron_err *err);
void rwd_oz_free(struct rwd_oz *oz);

/* One leaf; a text for each type. RON_INVALID names the value; RON_LIMIT, RON_NOMEM. After a
 * failure the tree is only to be freed. */
RON_MUST_USE enum ron_rc rwd_oz_add(struct rwd_oz *oz, const struct ron_str *texts,
                                    struct ron_err *err);
/* No more leaves. RON_INVALID when there are none. */
RON_MUST_USE enum ron_rc rwd_oz_build(struct rwd_oz *oz, struct ron_err *err);

/* Reads and checks a dump (O2); `text` is changed in place and not needed afterwards. RON_INVALID
 * for what is no dump, RON_CONFLICT for one that does not hold together, RON_LIMIT, RON_NOMEM. */
RON_MUST_USE enum ron_rc rwd_oz_read(char *text, size_t len, struct rwd_oz **ret_oz,
                                     struct ron_err *err);

size_t rwd_oz_count(const struct rwd_oz *oz);
const struct rwd_keccak *rwd_oz_root(const struct rwd_oz *oz);
const struct rwd_abi *rwd_oz_types(const struct rwd_oz *oz);
/* The values of leaf `index` (in the order added) as a JSON array. */
struct ron_str rwd_oz_value(const struct rwd_oz *oz, size_t index);
/* Its index in the dump's tree. */
size_t rwd_oz_tree_index(const struct rwd_oz *oz, size_t index);
void rwd_oz_prove(const struct rwd_oz *oz, size_t index, struct rwd_tree_proof *ret_proof);
/* The first leaf from *at on with a value of type address that is this one. */
bool rwd_oz_find(const struct rwd_oz *oz, const uint8_t address[RWD_ADDRESS_BYTES], size_t *at);

RON_MUST_USE enum ron_rc rwd_oz_dump(const struct rwd_oz *oz, const struct rwd_sink *sink,
                                     struct ron_err *err);
