/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/rp.h - Rocket Pool's rewards tree, and the part of its rewards file that it fills.
 *
 *     leaf = keccak(address[20] || network[32] || RPL[32] || ETH[32])         116 bytes
 *     leaf = ... || voter share ETH[32]                                       files that have it
 *
 * RPL is the sum of collateralRpl and oracleDaoRpl. Leaves are sorted, zero hashes behind them fill
 * up to a power of two, a node is the keccak of its sorted children. (Rocket Pool's "Specification
 * for the Rewards Merkle Tree", and the files it has published.) The JSON:
 *
 *     {"rewardsFileVersion":3,"merkleRoot":"0x..","nodeRewards":{"0x<address>":{"rewardNetwork":0,
 *      "collateralRpl":"1","oracleDaoRpl":"0","smoothingPoolEth":"0","merkleProof":["0x.."]},..}}
 *
 * What else a rewards file says (interval, blocks, totals) is no part of the tree: it is skipped
 * when read and not written.
 *
 * Rules:
 *   P1. Each address once. A node without any reward has no leaf.
 *   P2. A file that was read is whole: its root is that of its rewards, and each proof is the one
 *       that the tree gives.
 *
 * Threads: one at a time; after build any number may read. Memory: 160 bytes a node, and up to 128
 * for the tree. */
#pragma once

#include "rewarder/tree/core.h"

struct rwd_rp_reward {
    uint8_t address[RWD_ADDRESS_BYTES];
    uint64_t network;
    uint8_t collateral_rpl[RWD_U256_BYTES];
    uint8_t oracle_rpl[RWD_U256_BYTES];
    uint8_t pool_eth[RWD_U256_BYTES];
    uint8_t voter_eth[RWD_U256_BYTES]; /* zero unless the tree has it */
};
/* Whether anything is paid. */
bool rwd_rp_pays(const struct rwd_rp_reward *reward);

struct rwd_rp;
RON_MUST_USE enum ron_rc rwd_rp_new(bool has_voter_share, struct rwd_rp **ret_rp,
                                    struct ron_err *err);
void rwd_rp_free(struct rwd_rp *rp);
/* RON_LIMIT, RON_NOMEM; RON_INVALID when the two sums of RPL do not fit. */
RON_MUST_USE enum ron_rc rwd_rp_add(struct rwd_rp *rp, const struct rwd_rp_reward *reward,
                                    struct ron_err *err);
/* No more rewards. RON_INVALID when there are none, or for an address that stands twice. */
RON_MUST_USE enum ron_rc rwd_rp_build(struct rwd_rp *rp, struct ron_err *err);

/* Reads and checks a file (P2); `text` is changed in place and not needed afterwards. RON_INVALID
 * for what is no rewards file, RON_CONFLICT for one that does not hold together, RON_LIMIT,
 * RON_NOMEM. */
RON_MUST_USE enum ron_rc rwd_rp_read(char *text, size_t len, struct rwd_rp **ret_rp,
                                     struct ron_err *err);

size_t rwd_rp_count(const struct rwd_rp *rp);
const struct rwd_keccak *rwd_rp_root(const struct rwd_rp *rp);
/* Rewards in the order of addresses. */
const struct rwd_rp_reward *rwd_rp_reward(const struct rwd_rp *rp, size_t index);
void rwd_rp_prove(const struct rwd_rp *rp, size_t index, struct rwd_tree_proof *ret_proof);
bool rwd_rp_find(const struct rwd_rp *rp, const uint8_t address[RWD_ADDRESS_BYTES],
                 size_t *ret_index);

/* One node as JSON: the value of its member in nodeRewards. */
void rwd_rp_put(const struct rwd_rp *rp, size_t index, struct ron_json_writer *w, const char *name);
RON_MUST_USE enum ron_rc rwd_rp_write(const struct rwd_rp *rp, const struct rwd_sink *sink,
                                      struct ron_err *err);
