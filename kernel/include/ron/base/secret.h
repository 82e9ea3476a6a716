/* SPDX-License-Identifier: Apache-2.0 */
/* secret.h - bytes that must not be seen: tokens, keys, webhook secrets.
 *
 * Why a type: a secret in a `char *` ends up in a log line sooner or later. This one has no text
 * form. No printf conversion takes it, the log (ron/obs/log.h) shows it as "[redacted]", and only a
 * caller who asks for the bytes by name gets them.
 *
 * Rules:
 *   S1. The bytes are wiped when the secret is done, replaced or moved.
 *   S2. Comparing takes the same time for all contents of one length.
 *
 * Ownership: a secret owns its copy. A struct of zeros is an empty secret. Threads: one writer; any
 * reader once it stands. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/macros.h"
#include "ron/base/rc.h"

/* A token is a few hundred bytes, a PEM key a few thousand. */
#define RON_SECRET_MAX 65536

struct ron_secret {
    uint8_t *_bytes;
    size_t _len;
};

/* Replaces what is in it by a copy. RON_LIMIT above RON_SECRET_MAX, RON_NOMEM: the old stays. */
RON_MUST_USE enum ron_rc ron_secret_set(struct ron_secret *s, const void *bytes, size_t len);
/* Wipes and releases; empty afterwards. */
void ron_secret_done(struct ron_secret *s);

/* The bytes, for whoever computes with them; NULL when empty. Never to be printed. */
const uint8_t *ron_secret_reveal(const struct ron_secret *s);
size_t ron_secret_len(const struct ron_secret *s);
/* Whether it holds exactly these bytes (S2). */
bool ron_secret_equal(const struct ron_secret *s, const void *bytes, size_t len);

/* Overwrites memory in a way that the compiler does not leave out. */
void ron_wipe(void *memory, size_t len);
