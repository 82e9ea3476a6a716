/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/manifest_priv.h - what the files of manifest and proof share. */
#pragma once

#include "rewarder/run/manifest.h"

/* Checks the JSON of the slot "proof". */
bool rwd__proof_slot_ok(struct ron_str json);

/* The JSON of a payee's proof; `manifest` is the text of word->manifest. */
RON_MUST_USE enum ron_rc rwd__proof_write(const struct rwd_proof_word *word,
                                          const struct ron_proof *proof, struct ron_str manifest,
                                          struct ron_buf *out);
