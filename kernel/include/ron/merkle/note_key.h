/* SPDX-License-Identifier: Apache-2.0 */
/* note_key.h - Ed25519 keys with names, as texts and as files: those of signed notes (C2SP
 * signed-note), which the Go tools of transparency logs read too.
 *
 *     NAME+ID+BASE64(type || public key)           who signed
 *     PRIVATE+KEY+NAME+ID+BASE64(type || seed)     who signs; in a file, one line
 *
 * Place: merkle; under the ledger's checkpoints and the rewarder's policies and attestations.
 *
 * Rules:
 *   K1. The id is derived from name, type and public key, and a key whose id differs is refused. So
 *       equal (name, id) means the same type.
 *   K2. A secret stands in the caller's struct and in its file, which has mode 0600 and is refused
 *       when others may use it; in between in stack buffers that are wiped.
 *   K3. A key file is replaced whole, so it holds the old or the new key.
 *
 * Threads: any; nothing is kept. libsodium is initialised by the functions that make keys. Those
 * with a path block.
 * Failure: RON_CORRUPT for bytes that are no key, RON_UNSUPPORTED for a key of another type. */
#pragma once

#include "ron/base/buf.h"
#include "ron/base/env.h"
#include "ron/base/json.h"
#include "ron/base/rc.h"

enum {
    /* A name is a host and a path. */
    RON_NOTE_NAME_MAX = 255,
    RON_NOTE_SEED_BYTES = 32,
    RON_NOTE_KEY_BYTES = 32,
    RON_NOTE_SIG_BYTES = 64,
};

enum ron_note_type {
    RON_NOTE_ED25519 = 1,
    RON_NOTE_COSIGNATURE = 4,
};

/* A public key: who signed. */
struct ron_note_key {
    char name[RON_NOTE_NAME_MAX + 1];
    uint8_t name_len;
    enum ron_note_type type;
    uint32_t id; /* K1 */
    uint8_t public_key[RON_NOTE_KEY_BYTES];
};

/* A secret key. Wiped by ron_note_signer_done. */
struct ron_note_signer {
    struct ron_note_key key;
    uint8_t secret_key[RON_NOTE_SEED_BYTES + RON_NOTE_KEY_BYTES]; /* the seed, the public key */
};

/* Not empty, valid UTF-8 without Unicode spaces, control characters and `+`. */
bool ron_note_name_valid(struct ron_str name);

/* ---- Texts ----------------------------------------------------------------------------------- */

RON_MUST_USE enum ron_rc ron_note_key_read(struct ron_str text, struct ron_note_key *ret_key,
                                           struct ron_err *err);
enum ron_rc ron_note_key_write(const struct ron_note_key *key, struct ron_buf *out);

/* ---- Making ---------------------------------------------------------------------------------- */

/* The same from the environment's randomness. */
RON_MUST_USE enum ron_rc ron_note_signer_new(const struct ron_env *env, struct ron_str name,
                                             struct ron_note_signer *ret_signer,
                                             struct ron_err *err);
void ron_note_signer_done(struct ron_note_signer *signer);

/* ---- Files (K2, K3) -------------------------------------------------------------------------- */

/* A key of type 1: RON_UNSUPPORTED for another. Also what ron_file_read_private answers. */
RON_MUST_USE enum ron_rc ron_note_signer_load(const struct ron_env *env, const char *path,
                                              struct ron_note_signer *ret_signer,
                                              struct ron_err *err);
RON_MUST_USE enum ron_rc ron_note_signer_save(const struct ron_env *env, const char *path,
                                              const struct ron_note_signer *signer,
                                              struct ron_err *err);
