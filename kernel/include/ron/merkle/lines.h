/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h - the text forms that notes, checkpoints and receipts share: tree hashes and plain text.
 * Lines, decimals and base64 themselves are in ron/base/str.h and ron/base/hex.h.
 *
 * A reader accepts one spelling of a value and refuses every other. Pure functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/buf.h"
#include "ron/base/str.h"
#include "ron/merkle/hash.h"

/* Base64 of a hash, by RFC 4648 section 4 with padding. */
#define RON_TREE_HASH_TEXT_LEN 44

bool ron_tree_hash_read(struct ron_str s, struct ron_tree_hash *ret_hash);
enum ron_rc ron_tree_hash_write(struct ron_buf *out, const struct ron_tree_hash *hash);

/* Valid UTF-8 without control characters (below U+0020) other than newline. */
bool ron_text_valid(struct ron_str s);
