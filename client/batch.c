/* SPDX-License-Identifier: Apache-2.0 */
/* client/batch.c - canonical bytes of entries and batches (docs/formats/ledger-entry.md).
 *
 * The length of an entry is known before its first byte is written: one look for room each. */
#include <string.h>

#include "client/client.h"

enum { PRESENT_TO = 1, PRESENT_REF = 2, PRESENT_NONCE = 4, PRESENT_EXPIRES = 8, PRESENT_MEMO = 16 };

/* A number, big-endian; gives the place behind it. */
static uint8_t *put(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = bytes; i > 0; i--) {
        at[i - 1] = (uint8_t)value;
        value >>= 8;
    }
    return at + bytes;
}

static uint8_t *put_text(uint8_t *at, struct ron_str text, size_t length_bytes)
{
    at = put(at, text.len, length_bytes);
    if (text.len != 0) {
        memcpy(at, text.ptr, text.len);
    }
    return at + text.len;
}

static size_t entry_bytes(const struct lc_entry *e)
{
    return (size_t)(2 + 1 + 1 + 8 + 16) + LC_NONCE_BYTES + (e->account_nonce != 0 ? 8U : 0U) +
           (e->expires_ms != 0 ? 8U : 0U) + 1 + e->id.len + 2 + e->account.len +
           (e->to.len > 0 ? 2 + e->to.len : 0) + 1 + e->asset.len +
           (e->ref.len > 0 ? 1 + e->ref.len : 0) + 1 + e->kid.len + 1 + e->capability_ref.len +
           (e->memo.len > 0 ? 2 + e->memo.len : 0);
}

void lc_batch_head(struct ron_buf *out, struct ron_str idem_id, bool dry_run, uint32_t count)
{
    size_t bytes = 2 + 1 + 1 + idem_id.len + 4;
    uint8_t *at;

    if (ron_buf_reserve(out, bytes, &at) != RON_OK) {
        return; /* The buffer keeps its error for the end. */
    }
    at = put(at, 1, 2);
    at = put(at, dry_run ? 1 : 0, 1);
    at = put_text(at, idem_id, 1);
    (void)put(at, count, 4);
    ron_buf_commit(out, bytes);
}

void lc_batch_entry(struct ron_buf *out, const struct lc_entry *e)
{
    unsigned present = (e->to.len > 0 ? PRESENT_TO : 0U) | (e->ref.len > 0 ? PRESENT_REF : 0U) |
                       (e->account_nonce != 0 ? PRESENT_NONCE : 0U) |
                       (e->expires_ms != 0 ? PRESENT_EXPIRES : 0U) |
                       (e->memo.len > 0 ? PRESENT_MEMO : 0U);
    size_t bytes = entry_bytes(e);
    uint8_t *at;

    if (ron_buf_reserve(out, 2 + bytes, &at) != RON_OK) {
        return;
    }
    at = put(at, bytes, 2);
    at = put(at, 1, 2);
    at = put(at, (uint64_t)e->kind, 1);
    at = put(at, present, 1);
    at = put(at, e->ts_ms, 8);
    at = put(at, (uint64_t)(e->amount.v >> 64), 8);
    at = put(at, (uint64_t)e->amount.v, 8);
    memcpy(at, e->nonce, sizeof e->nonce);
    at += sizeof e->nonce;
    if (e->account_nonce != 0) {
        at = put(at, e->account_nonce, 8);
    }
    if (e->expires_ms != 0) {
        at = put(at, e->expires_ms, 8);
    }
    at = put_text(at, e->id, 1);
    at = put_text(at, e->account, 2);
    if (e->to.len > 0) {
        at = put_text(at, e->to, 2);
    }
    at = put_text(at, e->asset, 1);
    if (e->ref.len > 0) {
        at = put_text(at, e->ref, 1);
    }
    at = put_text(at, e->kid, 1);
    at = put_text(at, e->capability_ref, 1);
    if (e->memo.len > 0) {
        (void)put_text(at, e->memo, 2);
    }
    ron_buf_commit(out, 2 + bytes);
}
