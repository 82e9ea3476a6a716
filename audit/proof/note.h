/* SPDX-License-Identifier: Apache-2.0 */
/* audit/proof/note.h - verifier keys, signed notes, cosignatures, checkpoints and receipts, as C2SP
 * has them (signed-note, tlog-checkpoint, tlog-cosignature, tlog-proof).
 *
 * Place: audit; pure but for libsodium's Ed25519. Written from docs/formats/ledger-proofs.md;
 * shares nothing with the ledger's reader. What is read are slices of the caller's bytes.
 *
 * Every reader returns NULL, or what is wrong; outputs are written only when nothing is. */
#pragma once

#include "audit/base/bytes.h"
#include "audit/base/hash.h"

enum {
    AUD_VKEY_NAME_MAX = 255,
    AUD_NOTE_MAX = 262144,
    AUD_SIGS_MAX = 64,
    AUD_SIG_BYTES_MAX = 8192,
    AUD_RECEIPT_MAX = 524288,
    AUD_EXTRA_MAX = 65535,
    AUD_WITNESSES_MAX = 16, /* keys that a caller may require cosignatures of */
    AUD_PROOF_MAX = 64,
};

struct aud_vkey {
    char name[AUD_VKEY_NAME_MAX + 1];
    uint8_t name_len;
    uint8_t type; /* 1 Ed25519, 4 cosignature */
    uint8_t id[4];
    uint8_t key[32];
};

/* NAME+ID+BASE64 */
const char *aud_vkey_read(struct ron_str text, struct aud_vkey *ret_key);

struct aud_note {
    struct ron_str text; /* what is signed, with its last newline */
    struct ron_str sigs; /* the lines behind the empty one */
};

const char *aud_note_read(struct ron_str bytes, struct aud_note *ret_note);

enum aud_verdict {
    AUD_SIGNED,     /* by that key */
    AUD_NOT_SIGNED, /* no line of that key */
    AUD_FORGED,     /* a line of that key that does not verify, or two of them */
};
/* *ret_time_s, unless NULL, gets the time of a cosignature. */
enum aud_verdict aud_note_verify(const struct aud_note *note, const struct aud_vkey *key,
                                 uint64_t *ret_time_s);

struct aud_checkpoint {
    struct ron_str origin;
    uint64_t size;
    struct aud_hash root;
};

const char *aud_checkpoint_read(struct ron_str text, struct aud_checkpoint *ret_checkpoint);

struct aud_receipt {
    uint64_t index;
    struct aud_hash proof[AUD_PROOF_MAX];
    size_t proof_count;
    struct ron_str extra; /* base64 as it stands, empty = none */
    struct ron_str note;
};

const char *aud_receipt_read(struct ron_str bytes, struct aud_receipt *ret_receipt);

/* Base64 of RFC 4648 section 4 in its one form. Returns the number of bytes, SIZE_MAX when it is
 * none or longer than `max`. */
size_t aud_base64(struct ron_str text, uint8_t *to, size_t max);
