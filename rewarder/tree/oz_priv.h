/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/oz_priv.h - the inside of an OpenZeppelin tree, for its reader. */
#pragma once

#include "rewarder/tree/oz.h"

enum {
    RWD__OZ_STAGE = 64, /* leaves hashed at once */
    /* All values as text: of the largest tree with an address and an amount in each leaf. */
    RWD__OZ_ROWS_BYTES = INT32_MAX,
    RWD__OZ_ROW_MAX = 1 << 18, /* text of one leaf's values: two of the longest */
};

struct rwd_oz {
    struct rwd_abi abi;
    struct ron_buf rows;       /* JSON arrays, one behind the other */
    uint64_t *ends;            /* of each row */
    struct rwd_keccak *hashes; /* of each leaf, until it is built */
    uint32_t *places;          /* its index in the tree; once it is built */
    size_t count;
    size_t cap;
    struct ron_buf stage; /* encoded leaves that are not hashed yet */
    size_t staged;
    struct rwd_tree tree;
};

/* Adds a leaf whose values as JSON are given. */
RON_MUST_USE enum ron_rc rwd__oz_add(struct rwd_oz *oz, const struct ron_str *texts,
                                     struct ron_str row, struct ron_err *err);
/* Hashes what is staged. */
void rwd__oz_flush(struct rwd_oz *oz);
/* The values of a row: text without quotes, unescaped into `scratch` where need be. RON_INVALID. */
RON_MUST_USE enum ron_rc rwd__oz_row_texts(const struct rwd_abi *abi, struct ron_str row,
                                           struct ron_buf *scratch,
                                           struct ron_str texts[RWD_ABI_TYPES_MAX],
                                           struct ron_err *err);
