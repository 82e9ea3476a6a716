/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/manifest_priv.h - what the files of manifest and proof share. */
#pragma once

#include "rewarder/run/manifest.h"

/* Hashes and keys as lowercase digits, with a NUL. */
enum { RWD__HEX_SIZE = 2 * RON_TREE_HASH_BYTES + 1, RWD__SIG_HEX_SIZE = 2 * RWD_SIG_BYTES + 1 };
void rwd__hex_write(const uint8_t *bytes, size_t size, char *ret_text);
/* Exactly 2 * size lowercase digits. */
bool rwd__hex_read(struct ron_str text, uint8_t *ret_bytes, size_t size);

/* Checks the JSON of the slot "proof". */
bool rwd__proof_slot_ok(struct ron_str json);

/* The JSON of a payee's proof; `manifest` is the text of word->manifest. */
RON_MUST_USE enum ron_rc rwd__proof_write(const struct rwd_proof_word *word,
                                          const struct ron_proof *proof, struct ron_str manifest,
                                          struct ron_buf *out);
