/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/entry/bin.c - the canonical bytes of an entry and of a batch; docs/formats/ledger-entry.md
 * draws them, entry.h holds the contract.
 *
 * There is one encoding because nothing can be said twice: the order is fixed, lengths are of fixed
 * width, and the byte of presence bits must equal what the members say (E2). */
#include <string.h>

#include "ledger/entry/entry.h"
#include "ron/base/assert.h"
#include "ron/base/bytes.h"

enum {
    HAS_TO = 1,
    HAS_REF = 2,
    HAS_ACCOUNT_NONCE = 4,
    HAS_EXPIRES = 8,
    HAS_MEMO = 16,
    HEAD_SIZE = 2 + 1 + 1 + 8 + 16 + LED_NONCE_SIZE,
    BATCH_HEAD_SIZE = 2 + 1 + 1 + 4,
    BATCH_DRY_RUN = 1,
    ENTRY_PREFIX = 2, /* u16 length before each entry of a batch */
};

_Static_assert(HEAD_SIZE == 44, "docs/formats/ledger-entry.md says so");
_Static_assert(LED_ENTRY_BYTES_MIN == HEAD_SIZE + 4 * (1 + 1) + (2 + 1), "shortest");
_Static_assert(LED_ENTRY_BYTES_MAX == HEAD_SIZE + 2 * 8 + 4 * (1 + LED_ID_MAX) +
                                          2 * (2 + LED_ACCOUNT_MAX) + (1 + LED_ASSET_MAX) +
                                          (2 + LED_MEMO_MAX),
               "longest");

/* ---- writing --------------------------------------------------------------------------------- */

static uint8_t presence(const struct led_entry *e)
{
    return (uint8_t)((e->to.len != 0 ? HAS_TO : 0) | (e->ref.len != 0 ? HAS_REF : 0) |
                     (e->account_nonce != 0 ? HAS_ACCOUNT_NONCE : 0) |
                     (e->expires_ms != 0 ? HAS_EXPIRES : 0) | (e->memo.len != 0 ? HAS_MEMO : 0));
}

size_t led_entry_size(const struct led_entry *e)
{
    return HEAD_SIZE + (e->account_nonce != 0 ? 8u : 0u) + (e->expires_ms != 0 ? 8u : 0u) + 1 +
           e->id.len + 2 + e->account.len + (e->to.len != 0 ? 2 + e->to.len : 0) + 1 +
           e->asset.len + (e->ref.len != 0 ? 1 + e->ref.len : 0) + 1 + e->kid.len + 1 +
           e->capability_ref.len + (e->memo.len != 0 ? 2 + e->memo.len : 0);
}

uint8_t *led_entry_encode(const struct led_entry *e, uint8_t *to)
{
    uint8_t *begin = to;

    to = ron_put_be16(to, e->v);
    *to++ = e->kind;
    *to++ = presence(e);
    to = ron_put_be64(to, e->ts_ms);
    to = ron_put_be128(to, e->amount.v);
    to = ron_put_bytes(to, e->nonce, sizeof e->nonce);
    if (e->account_nonce != 0) {
        to = ron_put_be64(to, e->account_nonce);
    }
    if (e->expires_ms != 0) {
        to = ron_put_be64(to, e->expires_ms);
    }
    to = ron_put_text8(to, e->id);
    to = ron_put_text16(to, e->account);
    if (e->to.len != 0) {
        to = ron_put_text16(to, e->to);
    }
    to = ron_put_text8(to, e->asset);
    if (e->ref.len != 0) {
        to = ron_put_text8(to, e->ref);
    }
    to = ron_put_text8(to, e->kid);
    to = ron_put_text8(to, e->capability_ref);
    if (e->memo.len != 0) {
        to = ron_put_text16(to, e->memo);
    }
    RON_ASSERT((size_t)(to - begin) == led_entry_size(e));
    return to;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Fills `e` in the order of the bytes; what they mean is checked by the caller. */
static uint8_t read_members(struct ron_reader *r, struct led_entry *e)
{
    const uint8_t *nonce;
    uint8_t has;

    e->v = ron_read_be16(r);
    e->kind = ron_read_u8(r);
    has = ron_read_u8(r);
    e->ts_ms = ron_read_be64(r);
    e->amount.v = ron_read_be128(r);
    nonce = ron_read_bytes(r, LED_NONCE_SIZE);
    if (nonce != NULL) {
        memcpy(e->nonce, nonce, LED_NONCE_SIZE);
    }
    if ((has & HAS_ACCOUNT_NONCE) != 0) {
        e->account_nonce = ron_read_be64(r);
    }
    if ((has & HAS_EXPIRES) != 0) {
        e->expires_ms = ron_read_be64(r);
    }
    e->id = ron_read_text8(r);
    e->account = ron_read_text16(r);
    if ((has & HAS_TO) != 0) {
        e->to = ron_read_text16(r);
    }
    e->asset = ron_read_text8(r);
    if ((has & HAS_REF) != 0) {
        e->ref = ron_read_text8(r);
    }
    e->kid = ron_read_text8(r);
    e->capability_ref = ron_read_text8(r);
    if ((has & HAS_MEMO) != 0) {
        e->memo = ron_read_text16(r);
    }
    return has;
}

bool led_entry_decode(const uint8_t *bytes, size_t len, enum led_origin origin,
                      struct led_entry *ret_entry, struct led_refusal *ret_refusal)
{
    struct ron_reader r = ron_reader_of(bytes, len);
    struct led_entry e = {0};
    uint8_t has = read_members(&r, &e);

    if (r.failed || ron_reader_left(&r) != 0) {
        led_refuse(ret_refusal, LED_REASON_INVALID, "",
                   r.failed ? "the entry ends too early" : "bytes follow the entry");
        return false;
    }
    if (has != presence(&e)) {
        led_refuse(ret_refusal, LED_REASON_INVALID, "", "the presence bits are not canonical");
        return false;
    }
    if (!led_entry_check(&e, origin, ret_refusal)) {
        return false;
    }
    *ret_entry = e;
    return true;
}

/* ---- batch ----------------------------------------------------------------------------------- */

enum ron_rc led_batch_encode(const struct led_batch *batch, struct ron_buf *out)
{
    uint8_t *room;
    uint8_t *to;

    RON_ASSERT(batch->idem_id.len <= LED_ID_MAX);
    RON_TRY(ron_buf_reserve(out, BATCH_HEAD_SIZE + LED_ID_MAX, &room));
    to = ron_put_be16(room, LED_VERSION);
    *to++ = batch->dry_run ? BATCH_DRY_RUN : 0;
    *to++ = (uint8_t)batch->idem_id.len;
    to = ron_put_bytes(to, batch->idem_id.ptr, batch->idem_id.len);
    to = ron_put_be32(to, (uint32_t)batch->count);
    ron_buf_commit(out, (size_t)(to - room));
    for (size_t i = 0; i < batch->count; i++) {
        size_t size = led_entry_size(&batch->entries[i]);

        RON_TRY(ron_buf_reserve(out, ENTRY_PREFIX + size, &room));
        (void)led_entry_encode(&batch->entries[i], ron_put_be16(room, (uint16_t)size));
        ron_buf_commit(out, ENTRY_PREFIX + size);
    }
    return ron_buf_error(out);
}

/* A fault of the batch as a whole. */
static bool refuse_batch(struct led_refusals *ret, enum led_reason reason, const char *member,
                         const char *detail)
{
    struct led_refusal refusal;

    led_refuse(&refusal, reason, member, detail);
    led_refusals_add(ret, &refusal, 0);
    return false;
}

static bool read_batch_head(struct ron_reader *r, struct led_batch *batch, struct led_refusals *ret)
{
    uint16_t version = ron_read_be16(r);
    uint8_t flags = ron_read_u8(r);

    batch->idem_id = ron_read_text8(r);
    batch->count = ron_read_be32(r);
    if (r->failed) {
        return refuse_batch(ret, LED_REASON_INVALID, "", "the batch ends too early");
    }
    if (version != LED_VERSION) {
        return refuse_batch(ret, LED_REASON_INVALID, "", "unknown version of the batch");
    }
    if ((flags & ~BATCH_DRY_RUN) != 0) {
        return refuse_batch(ret, LED_REASON_INVALID, "", "unknown flag of the batch");
    }
    batch->dry_run = (flags & BATCH_DRY_RUN) != 0;
    if (batch->idem_id.len != 0 && !led_token_valid(batch->idem_id)) {
        return refuse_batch(ret, LED_REASON_INVALID, "idem_id", "1-128 printable ASCII characters");
    }
    if (batch->count == 0) {
        return refuse_batch(ret, LED_REASON_INVALID, "batch", "at least one entry");
    }
    if (batch->count > LED_BATCH_BIN_MAX) {
        return refuse_batch(ret, LED_REASON_TOO_LARGE, "batch", "too many entries");
    }
    /* Before room is taken for them: a count costs its sender nothing. */
    if (batch->count > ron_reader_left(r) / (ENTRY_PREFIX + LED_ENTRY_BYTES_MIN)) {
        return refuse_batch(ret, LED_REASON_INVALID, "", "the batch ends too early");
    }
    return true;
}

bool led_batch_decode(const uint8_t *bytes, size_t len, enum led_origin origin,
                      struct ron_arena *arena, struct led_batch *ret_batch,
                      struct ron_str **ret_leaves, struct led_refusals *ret_refusals)
{
    struct ron_reader r = ron_reader_of(bytes, len);
    struct led_batch batch = {0};
    struct ron_str *leaves = NULL;
    struct led_refusal refusal;

    ret_refusals->count = 0;
    if (!read_batch_head(&r, &batch, ret_refusals)) {
        return false;
    }
    batch.entries =
        ron_arena_alloc(arena, batch.count * sizeof *batch.entries, _Alignof(struct led_entry));
    if (ret_leaves != NULL) {
        leaves = ron_arena_alloc(arena, batch.count * sizeof *leaves, _Alignof(struct ron_str));
    }
    if (ron_arena_overflowed(arena)) {
        return refuse_batch(ret_refusals, LED_REASON_TOO_LARGE, "batch", "too many entries");
    }
    for (size_t i = 0; i < batch.count; i++) {
        struct ron_str leaf = ron_read_text16(&r);

        if (r.failed) {
            return refuse_batch(ret_refusals, LED_REASON_INVALID, "", "the batch ends too early");
        }
        if (!led_entry_decode((const uint8_t *)leaf.ptr, leaf.len, origin, &batch.entries[i],
                              &refusal)) {
            led_refusals_add(ret_refusals, &refusal, (uint32_t)i);
        }
        if (leaves != NULL) {
            leaves[i] = leaf;
        }
    }
    if (ron_reader_left(&r) != 0) {
        return refuse_batch(ret_refusals, LED_REASON_INVALID, "", "bytes follow the batch");
    }
    if (ret_refusals->count > 0) {
        return false;
    }
    *ret_batch = batch;
    if (ret_leaves != NULL) {
        *ret_leaves = leaves;
    }
    return true;
}
