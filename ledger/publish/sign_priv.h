/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/publish/sign_priv.h - what the files led_sign*.c share: the files of a signer. All of it
 * blocks. */
#pragma once

#include "ledger/publish/sign.h"

/* A note in memory of its own. */
struct led_sign_note {
    uint64_t size;
    struct ron_tree_hash root;
    uint32_t witnesses; /* good cosignatures */
    uint32_t len;
    char bytes[LED_SIGN_NOTE_SIZE];
};

static inline struct ron_str led__sign_note_str(const struct led_sign_note *n)
{
    return (struct ron_str){.ptr = n->bytes, .len = n->len};
}

/* The key of opts: read, or made and written. `published` tells that a checkpoint is there (G5). */
RON_MUST_USE enum ron_rc led__sign_key_open(const struct led_signer_opts *opts, bool published,
                                            struct ron_note_signer *ret_key, struct ron_err *err);

/* Reads the checkpoint file; nothing is verified. RON_NOTFOUND, RON_CORRUPT, RON_LIMIT. */
RON_MUST_USE enum ron_rc led__sign_note_load(const struct ron_env *env, const char *path,
                                             struct led_sign_note *ret_note, struct ron_err *err);
