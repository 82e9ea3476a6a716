/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/hex.h - hashes, keys and signatures as lowercase hexadecimal digits.
 *
 * Pure functions; any thread; nothing allocates. */
#pragma once

#include "rewarder/run/manifest.h"

/* Hashes and keys as lowercase digits, with a NUL. */
enum { RWD__HEX_SIZE = 2 * RON_TREE_HASH_BYTES + 1, RWD__SIG_HEX_SIZE = 2 * RWD_SIG_BYTES + 1 };
void rwd__hex_write(const uint8_t *bytes, size_t size, char *ret_text);
/* Exactly 2 * size lowercase digits. */
bool rwd__hex_read(struct ron_str text, uint8_t *ret_bytes, size_t size);
