/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/abi.h - values of a leaf as contracts read them: the encoding of Solidity's
 * abi.encode for plain types.
 *
 *     address              20 bytes, as "0x" and 40 digits of either case
 *     uint8 .. uint256     steps of 8 bits; decimal without leading zeros, or "0x" and digits
 *     bool                 true or false
 *     bytes1 .. bytes32    "0x" and exactly so many bytes
 *     bytes                "0x" and any number of bytes
 *     string               UTF-8
 *
 * Each value takes a word of 32 bytes; bytes and string take the offset of their length and content
 * there, which follow behind all words. Signed numbers, arrays and tuples are not known.
 *
 * Place: rewarder, under the OpenZeppelin tree. Pure code. */
#pragma once

#include "rewarder/tree/core.h"

enum {
    RWD_ABI_TYPES_MAX = 16, /* values of a leaf; contracts have 16 slots on their stack */
    RWD_ABI_WORD = 32,
    RWD_ABI_NAME_MAX = 8, /* "bytes32", "uint256", "address" */
    /* Of bytes and strings in one value: a leaf is a line, not a file. */
    RWD_ABI_VALUE_MAX = 1 << 16,
};

enum rwd_abi_kind {
    RWD_ABI_ADDRESS,
    RWD_ABI_UINT,
    RWD_ABI_BOOL,
    RWD_ABI_FIXED, /* bytes1 .. bytes32 */
    RWD_ABI_BYTES,
    RWD_ABI_STRING,
};

struct rwd_abi_type {
    enum rwd_abi_kind kind;
    uint32_t bytes; /* UINT, FIXED: 1..32 */
    char name[RWD_ABI_NAME_MAX];
};

struct rwd_abi {
    size_t count;
    bool has_dynamic; /* a string or bytes: leaves have different lengths */
    struct rwd_abi_type types[RWD_ABI_TYPES_MAX];
};

/* Types by their names. RON_INVALID names the one that is not known; RON_LIMIT. */
RON_MUST_USE enum ron_rc rwd_abi_init(struct rwd_abi *abi, const struct ron_str *names,
                                      size_t count, struct ron_err *err);

/* One value in its word; not for bytes and strings. RON_INVALID without a message. */
RON_MUST_USE enum ron_rc rwd_abi_word(const struct rwd_abi_type *type, struct ron_str text,
                                      uint8_t ret_word[RWD_ABI_WORD]);

/* Appends the encoding of `count` values. RON_INVALID names the value. */
RON_MUST_USE enum ron_rc rwd_abi_encode(const struct rwd_abi *abi, const struct ron_str *texts,
                                        struct ron_buf *out, struct ron_err *err);
