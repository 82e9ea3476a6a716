/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h - the small grammar that notes, checkpoints, receipts and tile paths share: lines,
 * decimals, base64.
 *
 * Every reader here takes one spelling of a value and no other: what was read and is written again
 * gives the same bytes. Pure functions; no allocation; results point into the input. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/buf.h"
#include "ron/base/json.h"
#include "ron/base/macros.h"
#include "ron/merkle/hash.h"

/* Base64 of a hash, by RFC 4648 section 4 with padding. */
#define RON_TREE_HASH_TEXT_LEN 44

/* A text literal as a string. */
#define RON_STR_LIT(literal) ((struct ron_str){.ptr = (literal), .len = sizeof(literal) - 1})

/* Takes the first line off `rest`, without its newline. False when no newline is left. */
bool ron_line_next(struct ron_str *rest, struct ron_str *ret_line);

bool ron_str_equal(struct ron_str a, struct ron_str b);

/* Takes `word` off the front of `s`; false, with `s` untouched, when it does not begin so. */
bool ron_str_skip(struct ron_str *s, struct ron_str word);

/* Cuts `s` at the first `mark`: what is before it and what is behind. False when there is none. */
bool ron_str_cut(struct ron_str s, char mark, struct ron_str *ret_before,
                 struct ron_str *ret_behind);

/* 0 or a decimal without leading zeros, at most `max`. */
bool ron_decimal_read(struct ron_str s, uint64_t max, uint64_t *ret_value);

/* Standard base64 with padding, canonical, of 1 to `room` bytes; len > 0 when written. On failure
 * the bytes are undefined. */
bool ron_base64_read(struct ron_str s, uint8_t *ret_bytes, size_t room, size_t *ret_len);
enum ron_rc ron_base64_write(struct ron_buf *out, const void *bytes, size_t len);

bool ron_tree_hash_read(struct ron_str s, struct ron_tree_hash *ret_hash);
enum ron_rc ron_tree_hash_write(struct ron_buf *out, const struct ron_tree_hash *hash);

/* Valid UTF-8 without control characters (below U+0020) other than newline. */
bool ron_text_valid(struct ron_str s);
