/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/offline/tree.h - what `ron reward tree` does from files: make, check and prove with the
 * public trees of OpenZeppelin and Rocket Pool.
 *
 * Place: rewarder, for the program. Everything blocks. Results are texts for people and lines of
 * JSON, appended to `out`; trees are files that appear whole.
 *
 * Failure: `err` has a sentence that names the file, and the line or member where there is one.
 * RON_INVALID: an option or a file is not well formed. RON_CONFLICT: a tree that does not hold
 * together. RON_NOTFOUND: no such file, or no such address in the tree. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ron/base/buf.h"
#include "ron/base/rc.h"

struct rwd_tool_tree {
    bool rocket_pool;     /* else OpenZeppelin */
    const char *run_dir;  /* folder of a run; or */
    const char *csv_path; /* lines of values: one for each type, or address,network,RPL,ETH */
    bool csv_header;      /* the first line is none */
    const char *types;    /* of OpenZeppelin leaves from CSV, "address,uint256" */
    uint64_t network;     /* Rocket Pool, from a run */
    bool as_eth;          /* amounts of a run are ETH, else RPL */
    const char *out_path;
};

RON_MUST_USE enum ron_rc rwd_tool_tree_make(const struct rwd_tool_tree *t, struct ron_buf *out,
                                            struct ron_err *err);
/* Computes every hash of the file anew. */
RON_MUST_USE enum ron_rc rwd_tool_tree_check(const char *path, struct ron_buf *out,
                                             struct ron_err *err);
/* Checks the file, then gives a line of JSON for each leaf of the address. */
RON_MUST_USE enum ron_rc rwd_tool_tree_prove(const char *path, const char *address,
                                             struct ron_buf *out, struct ron_err *err);
