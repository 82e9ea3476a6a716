/* SPDX-License-Identifier: Apache-2.0 */
/* token.h - a macaroon as bytes: strict reader, writer and signature chain.
 *
 * Place: cap. Our own, because these are bytes of strangers: nothing is allocated, every limit has
 * its own answer, and nothing but the written form of the format is taken.
 *
 * Two forms, both in base64url with or without padding: v1 (packets of text, what libmacaroons and
 * pymacaroons speak) and v2 binary (what the JavaScript and Go libraries speak). The signature is
 * the same for both, so a token may change form. JSON forms are refused (RON_CAP_VERSION).
 *
 *     root  = HMAC-SHA256("macaroons-key-generator" padded with zeros to 32 bytes, key)
 *     sig_0 = HMAC-SHA256(root, identifier)
 *     sig_n = HMAC-SHA256(sig_(n-1), caveat n)
 *
 * Invariants of a token that was read or built:
 *   T1. Slices lie in `raw[0 .. raw_len)`; the identifier is not empty.
 *   T2. It has at most RON_CAP_CAVEATS_MAX caveats, all of the first party.
 *   T3. Writing it in its own form and reading that gives the same fields.
 *
 * A token is a secret: whoever has it may use it. Log ron_cap_log_id of it, nothing else.
 * Threads: none of this has state. The struct is about 7 KiB and lives on a stack. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ron/base/buf.h"
#include "ron/cap/caveat.h"

enum {
    RON_CAP_TEXT_MAX = 8192, /* half of the largest HTTP head; tokens of ours take 300-500 */
    RON_CAP_RAW_MAX = RON_CAP_TEXT_MAX / 4 * 3,
    RON_CAP_CAVEATS_MAX = 64, /* bounds the work for a forged token to 66 HMACs */
    RON_CAP_SIG_BYTES = 32,
    RON_CAP_LOG_ID_SIZE = 9, /* 8 hex digits and a NUL */
};

enum ron_cap_form { RON_CAP_V1 = 1, RON_CAP_V2 = 2 };

struct ron_cap_slice {
    uint16_t at;
    uint16_t len;
};

struct ron_cap_token {
    enum ron_cap_form form;
    uint16_t raw_len;
    uint16_t caveat_count;
    struct ron_cap_slice location; /* a hint, not covered by the signature */
    struct ron_cap_slice identifier;
    struct ron_cap_slice caveats[RON_CAP_CAVEATS_MAX];
    uint8_t signature[RON_CAP_SIG_BYTES];
    uint8_t raw[RON_CAP_RAW_MAX];
};

static inline struct ron_str ron_cap_str(const struct ron_cap_token *t, struct ron_cap_slice s)
{
    return (struct ron_str){.ptr = (const char *)t->raw + s.at, .len = s.len};
}

/* MISSING (empty), TOO_LARGE, MALFORMED, VERSION, THIRD_PARTY, TOO_MANY or OK. Nothing about it is
 * verified. */
RON_MUST_USE enum ron_cap_why ron_cap_token_read(const char *text, size_t len,
                                                 struct ron_cap_token *ret_token);

/* The first 8 hex digits of BLAKE3 of the token's text: the one thing of it that a log may have. */
void ron_cap_log_id(const char *text, size_t len, char ret_id[RON_CAP_LOG_ID_SIZE]);
