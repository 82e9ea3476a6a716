/* SPDX-License-Identifier: Apache-2.0 */
/* note_priv.h - the parts of a note signer that only its file and tests call. */
#pragma once

#include "ron/merkle/note_key.h"

RON_MUST_USE enum ron_rc ron_note_signer_read(struct ron_str text,
                                              struct ron_note_signer *ret_signer,
                                              struct ron_err *err);
enum ron_rc ron_note_signer_write(const struct ron_note_signer *signer, struct ron_buf *out);

/* A signer from 32 random bytes of the caller. RON_INVALID for a bad name. */
RON_MUST_USE enum ron_rc ron_note_signer_make(struct ron_str name, enum ron_note_type type,
                                              const uint8_t seed[RON_NOTE_SEED_BYTES],
                                              struct ron_note_signer *ret_signer,
                                              struct ron_err *err);
