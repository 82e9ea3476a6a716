/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/proof/note.h - signed notes (C2SP signed-note) with Ed25519: signing, reading, verifying,
 * and the timestamped cosignatures of witnesses (C2SP tlog-cosignature, v1). Keys:
 * ron/merkle/note_key.h.
 *
 *     text, each line ended by a newline
 *     (an empty line)
 *     U+2014 name base64(key id || signature)        one line for each signature
 *
 * Rules:
 *   N1. A key is known by name and id together. Signatures by others are carried along, unread.
 *   N2. Equal (name, id) means the same type, because the id is derived from it.
 *   N3. One note has at most one signature line of a key; a second one is refused when it is added,
 *       and when a note that has two is verified.
 *   N4. Reading is strict and bounded; what is read stays in the caller's memory.
 *
 * Types: 0x01 signs the text. 0x04 signs "cosignature/v1\ntime N\n" and the text, and carries N.
 *
 * Threads: any; nothing is kept.
 * Failure: RON_CORRUPT for bytes that are no note, RON_LIMIT above a limit, RON_DENIED for a
 * signature that does not verify. */
#pragma once

#include "ron/base/rc.h"
#include "ron/base/str.h"
#include "ron/merkle/note_key.h"

enum {
    /* The specification asks for at least 16; witnesses are a handful. */
    LED_NOTE_SIGS_MAX = 64,
    /* Longest signature with its key id that is carried along: a post-quantum one is near 5 kB. */
    LED_NOTE_SIG_BYTES_MAX = 8192,
    /* Text and 64 signatures of the longest assigned kind (2432 bytes, 3.3 kB in base64). */
    LED_NOTE_BYTES_MAX = 262144,
};

/* ---- Notes ----------------------------------------------------------------------------------- */

struct led_note_sig {
    struct ron_str name;
    struct ron_str base64; /* of key id and signature; well formed */
    uint32_t id;
};

struct led_note {
    struct ron_str text; /* with its last newline */
    size_t sig_count;    /* at least 1 */
    struct led_note_sig sigs[LED_NOTE_SIGS_MAX];
};

/* Writes the text and one signature. The text is not empty, ends in a newline and has no control
 * characters: RON_INVALID otherwise. `time_s` (Unix seconds) is for a cosignature. */
RON_MUST_USE enum ron_rc led_note_sign(struct ron_str text, const struct ron_note_signer *signer,
                                       uint64_t time_s, struct ron_buf *out, struct ron_err *err);

/* Writes the signature line alone, newline included. */
RON_MUST_USE enum ron_rc led_note_sign_line(struct ron_str text,
                                            const struct ron_note_signer *signer, uint64_t time_s,
                                            struct ron_buf *out, struct ron_err *err);

/* Reads the form of a note. Nothing is verified. */
RON_MUST_USE enum ron_rc led_note_read(struct ron_str bytes, struct led_note *ret_note,
                                       struct ron_err *err);

/* What a note says of one key. */
enum led_note_verdict {
    LED_NOTE_ABSENT, /* no signature of that key */
    LED_NOTE_GOOD,
    LED_NOTE_BAD, /* one that does not verify, or two (N3) */
};

/* ret_time_s, unless NULL, receives the time of a good cosignature, or 0. */
enum led_note_verdict led_note_verify(const struct led_note *note, const struct ron_note_key *key,
                                      uint64_t *ret_time_s);

/* The rule of the specification: RON_DENIED when a signature of a given key is bad, or when fewer
 * than `needed` keys have a good one. The keys differ from each other. */
RON_MUST_USE enum ron_rc led_note_check(const struct led_note *note,
                                        const struct ron_note_key *keys, size_t key_count,
                                        size_t needed, struct ron_err *err);

/* Appends a signature line that came from elsewhere (a witness), with or without its newline, to
 * the note in `bytes`. It must be by one of the keys (RON_NOTFOUND) and verify (RON_DENIED); a key
 * that has signed already is RON_EXISTS. On failure the note is as it was. */
RON_MUST_USE enum ron_rc led_note_attach(struct ron_buf *bytes, struct ron_str line,
                                         const struct ron_note_key *keys, size_t key_count,
                                         struct ron_err *err);
