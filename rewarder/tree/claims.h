/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/claims.h - the payouts of a run as a tree that a contract can pay from:
 * OpenZeppelin's (oz.h) or Rocket Pool's (rp.h).
 *
 * An account is an address when it is "0x" and 40 hex digits of either case, or ends in ":" and
 * that. Others cannot claim on a chain: they are left out and counted. Accounts that share an
 * address become one claim of their sum, because contracts commonly pay an address once. Claims
 * stand in the order of addresses, so the tree follows from the payouts alone.
 *
 * Place: rewarder, over the two trees; used by the tools, and by whoever writes runs. Memory: 48
 * bytes an account until the tree is made. Threads: one at a time. */
#pragma once

#include "rewarder/run/run.h"
#include "rewarder/tree/oz.h"
#include "rewarder/tree/rp.h"
#include "ron/io/file.h"

struct rwd_claim {
    struct ron_money amount;
    uint8_t address[RWD_ADDRESS_BYTES];
};

struct rwd_claims {
    struct rwd_claim *claims;
    size_t count;
    size_t cap;
    uint64_t left_out; /* accounts that are no address */
    uint64_t merged;   /* accounts that were added to another one's claim */
};

bool rwd_account_address(struct ron_str account, uint8_t ret_address[RWD_ADDRESS_BYTES]);

/* Begins with a struct of zeros. RON_LIMIT, RON_NOMEM. */
RON_MUST_USE enum ron_rc rwd_claims_add(struct rwd_claims *c, struct ron_str account,
                                        struct ron_money amount, struct ron_err *err);
/* Sorts and merges. RON_INVALID when a sum does not fit 128 bits. */
RON_MUST_USE enum ron_rc rwd_claims_seal(struct rwd_claims *c, struct ron_err *err);
void rwd_claims_done(struct rwd_claims *c);

/* The tree of sealed claims; RON_INVALID when there are none. */
RON_MUST_USE enum ron_rc rwd_claims_oz(const struct rwd_claims *c, struct rwd_oz **ret_oz,
                                       struct ron_err *err);
/* Amounts are RPL of the node's collateral, or ETH of the smoothing pool. */
RON_MUST_USE enum ron_rc rwd_claims_rp(const struct rwd_claims *c, uint64_t network, bool as_eth,
                                       struct rwd_rp **ret_rp, struct ron_err *err);

/* A file that appears whole: written beside as <path>.tmp, synced, renamed. */
struct rwd_tree_file {
    const struct ron_env *env;
    int fd;
    uint64_t size;
    char path[RON_FILE_PATH_SIZE];
    char temporary[RON_FILE_PATH_SIZE];
};
RON_MUST_USE enum ron_rc rwd_tree_file_open(const struct ron_env *env, const char *path,
                                            struct rwd_tree_file *ret_file, struct ron_err *err);
struct rwd_sink rwd_tree_file_sink(struct rwd_tree_file *file);
/* Keeps the file when `rc` is RON_OK, else removes what is there. Returns the first failure. */
RON_MUST_USE enum ron_rc rwd_tree_file_close(struct rwd_tree_file *file, enum ron_rc rc,
                                             struct ron_err *err);

/* `more` of struct rwd_write_opts with the environment as its argument: adds the OpenZeppelin tree
 * of the payouts to a run's folder. Without any address among the payees there is no file. */
#define RWD_FILE_OPENZEPPELIN "openzeppelin.json"
RON_MUST_USE enum ron_rc rwd_public_tree_more(void *env, const struct rwd_run *run, const char *dir,
                                              struct ron_err *err);
