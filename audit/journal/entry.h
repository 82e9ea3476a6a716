/* SPDX-License-Identifier: Apache-2.0 */
/* audit/journal/entry.h - the canonical bytes of an entry, read by a second pair of eyes.
 *
 * Place: audit; pure. Written from docs/formats/ledger-entry.md; shares nothing with the ledger's
 * reader. An entry is accepted only in its one form and only when it obeys every rule of that page
 * that needs no other entry. Texts are slices of the bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/json.h"
#include "ron/base/wide.h"

enum {
    AUD_ID_MAX = 128,
    AUD_ACCOUNT_MAX = 256,
    AUD_ASSET_MAX = 32,
    AUD_MEMO_MAX = 256,
    AUD_NONCE_SIZE = 16,
    AUD_ENTRY_MIN = 55,
    AUD_ENTRY_MAX = 1383,
};

/* X(NAME, byte, name, has `to`, has `ref`). */
#define AUD_KIND_TABLE(X)                                                                          \
    X(MINT, 1, "Mint", false, false)                                                               \
    X(BURN, 2, "Burn", false, false)                                                               \
    X(CREDIT, 3, "Credit", false, false)                                                           \
    X(DEBIT, 4, "Debit", false, false)                                                             \
    X(TRANSFER, 5, "Transfer", true, false)                                                        \
    X(HOLD, 6, "Hold", false, false)                                                               \
    X(CAPTURE, 7, "Capture", true, true)                                                           \
    X(RELEASE, 8, "Release", false, true)                                                          \
    X(REVERSE, 9, "Reverse", false, true)                                                          \
    X(EXPIRE, 10, "Expire", false, true)

enum aud_kind {
#define X(name, byte, text, to, ref) AUD_##name = (byte),
    AUD_KIND_TABLE(X)
#undef X
};

struct aud_entry {
    uint8_t kind; /* enum aud_kind */
    uint64_t ts_ms;
    uint64_t account_nonce; /* 0: absent */
    uint64_t expires_ms;    /* 0: absent */
    ron_u128 amount;
    const uint8_t *nonce; /* AUD_NONCE_SIZE bytes */
    struct ron_str id;
    struct ron_str account;
    struct ron_str to; /* empty: absent */
    struct ron_str asset;
    struct ron_str ref; /* empty: absent */
    struct ron_str kid;
    struct ron_str capability_ref;
    struct ron_str memo; /* empty: absent */
};

/* "Transfer"; NULL for a byte that is no kind. */
const char *aud_kind_name(uint8_t kind);

/* NULL when the bytes are an entry; else what is wrong with them, and ret_entry is untouched. */
const char *aud_entry_read(const uint8_t *bytes, size_t len, struct aud_entry *ret_entry);

/* 1-128 printable ASCII characters: ids and their like. */
bool aud_token_valid(struct ron_str text);
