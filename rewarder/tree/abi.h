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
    REW_ABI_TYPES_MAX = 16, /* values of a leaf; contracts have 16 slots on their stack */
    REW_ABI_WORD = 32,
    REW_ABI_NAME_MAX = 8, /* "bytes32", "uint256", "address" */
    /* Of bytes and strings in one value: a leaf is a line, not a file. */
    REW_ABI_VALUE_MAX = 1 << 16,
};

enum rew_abi_kind {
    REW_ABI_ADDRESS,
    REW_ABI_UINT,
    REW_ABI_BOOL,
    REW_ABI_FIXED, /* bytes1 .. bytes32 */
    REW_ABI_BYTES,
    REW_ABI_STRING,
};

struct rew_abi_type {
    enum rew_abi_kind kind;
    uint32_t bytes; /* UINT, FIXED: 1..32 */
    char name[REW_ABI_NAME_MAX];
};

struct rew_abi {
    size_t count;
    bool has_dynamic; /* a string or bytes: leaves have different lengths */
    struct rew_abi_type types[REW_ABI_TYPES_MAX];
};

/* Types by their names. RON_INVALID names the one that is not known; RON_LIMIT. */
RON_MUST_USE enum ron_rc rew_abi_init(struct rew_abi *abi, const struct ron_str *names,
                                      size_t count, struct ron_err *err);

/* One value in its word; not for bytes and strings. RON_INVALID without a message. */
RON_MUST_USE enum ron_rc rew_abi_word(const struct rew_abi_type *type, struct ron_str text,
                                      uint8_t ret_word[REW_ABI_WORD]);

/* Appends the encoding of `count` values. RON_INVALID names the value. */
RON_MUST_USE enum ron_rc rew_abi_encode(const struct rew_abi *abi, const struct ron_str *texts,
                                        struct ron_buf *out, struct ron_err *err);
