/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/proof/checkpoint.h - the text of a checkpoint (C2SP tlog-checkpoint): what the ledger
 * signs.
 *
 *     origin
 *     size in decimal
 *     base64 of the root
 *     extension lines, none of them empty (usually there are none)
 *
 * C1. One checkpoint has one spelling: what is read and written again gives the same bytes.
 * C2. Size is below 2^63; a size of 0 has the root of the empty tree.
 *
 * Pure; results point into the input. RON_CORRUPT for a text that is no checkpoint. */
#pragma once

#include "ledger/proof/note.h"
#include "ron/merkle/hash.h"

struct led_checkpoint {
    struct ron_str origin;
    uint64_t size;
    struct ron_tree_hash root;
    struct ron_str extensions; /* whole lines with their newlines, or empty */
};

/* RON_INVALID for an origin or extensions that could not be read again. */
RON_MUST_USE enum ron_rc led_checkpoint_write(const struct led_checkpoint *checkpoint,
                                              struct ron_buf *out, struct ron_err *err);

/* Reads the text of a note. */
RON_MUST_USE enum ron_rc led_checkpoint_read(struct ron_str text,
                                             struct led_checkpoint *ret_checkpoint,
                                             struct ron_err *err);

/* Writes a checkpoint signed by the log's key, ready to be served. */
RON_MUST_USE enum ron_rc led_checkpoint_sign(const struct led_checkpoint *checkpoint,
                                             const struct ron_note_signer *signer,
                                             struct ron_buf *out, struct ron_err *err);

/* Whom a verifier believes. The log's origin is the one it expects, not one it reads. */
struct led_trust {
    struct ron_str origin;
    const struct ron_note_key *log_keys; /* one of them must have signed */
    size_t log_key_count;
    const struct ron_note_key *witness_keys; /* all of type RON_NOTE_COSIGNATURE */
    size_t witness_key_count;
    size_t witnesses_needed;
};

/* Reads a signed checkpoint and checks it: origin, the log's signature, enough witnesses, and no
 * wrong signature of a known key. RON_DENIED when it is well formed and not to be believed. */
RON_MUST_USE enum ron_rc led_checkpoint_open(struct ron_str bytes, const struct led_trust *trust,
                                             struct led_checkpoint *ret_checkpoint,
                                             struct ron_err *err);
