/* SPDX-License-Identifier: Apache-2.0 */
/* b3.h - BLAKE3 hashes and content ids.
 *
 * Place: cas, its lower half: bytes in, 32 bytes out. Under content ids, commitments, receipts and
 * run keys. The compression itself is the official C and assembly of the Debian package; this is
 * the only door to it.
 *
 * A content id is the hash of the bytes it names, written as "b3:" and 64 lowercase hexadecimal
 * digits. There is one spelling: upper case, another prefix, other lengths, spaces and a trailing
 * NUL are RON_INVALID.
 *
 * Threads: no shared state; a hasher belongs to one thread at a time. Nothing allocates or fails,
 * except that a text may be refused. About 1 GB/s and more per core: hash large things on a
 * blocking task, or a piece at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ron/base/macros.h"
#include "ron/base/rc.h"

enum {
    RON_B3_BYTES = 32,
    RON_B3_HEX_LEN = 64,
    RON_B3_ID_LEN = 67, /* "b3:" and the digits */
    RON_B3_ID_SIZE = 68,
    RON_B3_STATE_WORDS = 240, /* the official state; checked against it at compile time */
};

struct ron_b3 {
    uint8_t bytes[RON_B3_BYTES];
};

/* For public values: the time taken tells where two differ. */
static inline bool ron_b3_equal(const struct ron_b3 *a, const struct ron_b3 *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* ---- hashing --------------------------------------------------------------------------------- */

/* bytes may be NULL when len is 0. */
void ron_b3_hash(const void *bytes, size_t len, struct ron_b3 *ret_hash);

/* The same of inputs of any lengths; those beside each other that have as many whole blocks of 64
 * bytes, and 1024 bytes at most, are hashed side by side. */
void ron_b3_hash_each(const uint8_t *const *inputs, const size_t *lens, size_t count,
                      struct ron_b3 *ret_hashes);

struct ron_b3_hasher {
    uint64_t _state[RON_B3_STATE_WORDS];
};

void ron_b3_init(struct ron_b3_hasher *h);
/* A keyed hash: a message authentication code or pseudo-random function. */
void ron_b3_init_keyed(struct ron_b3_hasher *h, const uint8_t key[RON_B3_BYTES]);
void ron_b3_update(struct ron_b3_hasher *h, const void *bytes, size_t len);
/* The hash of everything so far; more may follow. */
void ron_b3_final(const struct ron_b3_hasher *h, struct ron_b3 *ret_hash);
/* The same with as many bytes as asked for; the first 32 are the hash. */
void ron_b3_final_long(const struct ron_b3_hasher *h, void *ret_bytes, size_t len);

/* ---- the tree under a hash ------------------------------------------------------------------- */

/* A hash is the root of a binary tree over chunks of 1024 bytes (the last one may be shorter; no
 * bytes at all are one chunk). These give its nodes, for proofs of a part. `root`: it is the whole
 * tree. */
enum { RON_B3_CHUNK = 1024 };
/* At most RON_B3_CHUNK bytes, the `number`th chunk of its input. */
void ron_b3_chunk(const void *bytes, size_t len, uint64_t number, bool root, struct ron_b3 *ret_cv);
/* `count` whole chunks, side by side in the lanes of the processor; none is the root. */
void ron_b3_chunks(const uint8_t *bytes, size_t count, uint64_t number, struct ron_b3 *ret_cvs);
void ron_b3_parent(const struct ron_b3 *left, const struct ron_b3 *right, bool root,
                   struct ron_b3 *ret_cv);

/* ---- content ids ----------------------------------------------------------------------------- */

/* "b3:" and 64 lowercase digits; RON_INVALID for anything else. `text` needs no NUL. */
RON_MUST_USE enum ron_rc ron_b3_parse(const char *text, size_t len, struct ron_b3 *ret_id,
                                      struct ron_err *err);
/* With its NUL. */
void ron_b3_format(const struct ron_b3 *id, char ret_text[RON_B3_ID_SIZE]);

/* The digits alone, without prefix: names of files. */
RON_MUST_USE bool ron_b3_parse_hex(const char *text, size_t len, struct ron_b3 *ret_id);
/* 64 digits, no NUL. */
void ron_b3_format_hex(const struct ron_b3 *id, char ret_text[RON_B3_HEX_LEN]);
