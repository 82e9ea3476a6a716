/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/call/send.c - what leaves: the ledger's batch of a call, and the receipt for the
 * client. */
#include <string.h>

#include "ron/base/assert.h"
#include "ron/cas/b3.h"
#include "wallet/call/priv.h"

/* ---- the ledger's batch ---------------------------------------------------------------------- */

/* As in docs/formats/ledger-entry.md, with every optional member. */
enum {
    HEAD_BYTES = 2 + 1 + 1 + WLT_IDEM_ID_MAX + 4,
    ENTRY_BYTES = 2 + (2 + 1 + 1 + 8 + 16 + LC_NONCE_BYTES + 8 + 8) + (1 + WLT_TXID_LEN) + 2 + 2 +
                  1 + 1 + 2 * (1 + WLT_REF_MAX) + 2,
};

size_t wlt_call_encoded_max(const struct wlt_call *call)
{
    size_t bytes = HEAD_BYTES;

    for (uint32_t i = 0; i < call->count; i++) {
        const struct wlt_operation *o = &call->ops[i];

        bytes += ENTRY_BYTES + o->from.len + o->to.len + o->asset.len + o->hold.len + o->memo.len;
    }
    return bytes;
}

void wlt_call_encode(const struct wlt_call *call, const struct wlt_seal *seal, struct ron_buf *out)
{
    RON_ASSERT(seal->kid.len >= 1 && seal->kid.len <= WLT_REF_MAX);
    RON_ASSERT(seal->capability_ref.len >= 1 && seal->capability_ref.len <= WLT_REF_MAX);
    lc_batch_head(out, ron_str_of(call->idem_id), call->dry_run, call->count);
    for (uint32_t i = 0; i < call->count; i++) {
        const struct wlt_operation *o = &call->ops[i];
        const struct wlt_op_info *info = wlt_op_info(o->op);
        struct lc_entry e = {
            .kind = info->kind,
            .id = {o->txid, WLT_TXID_LEN},
            .account = wlt_operation_subject(o),
            .asset = o->asset,
            .ref = o->hold,
            .kid = seal->kid,
            .capability_ref = seal->capability_ref,
            .memo = o->memo,
            .amount = o->amount,
            .ts_ms = seal->ts_ms,
            .account_nonce = o->nonce,
            .expires_ms = o->expires_ms,
        };

        if (info->takes_to && !info->subject_is_to) {
            e.to = o->to;
        }
        memcpy(e.nonce, o->entry_nonce, sizeof e.nonce);
        lc_batch_entry(out, &e);
    }
}

/* ---- receipts -------------------------------------------------------------------------------- */

enum {
    /* A receipt without accounts, asset and key: names of members, txid, amount, numbers, root,
     * hash; 500 at most. */
    RECEIPT_BYTES = 640,
    IDEM_BYTES = WLT_KEY_MAX + 64,
    END_BYTES = 192,
    BATCH_HEAD_BYTES = 320, /* what stands before the receipts */
    SIDE_BY_SIDE = 16,      /* receipts that are hashed together: two rounds of eight lanes */
};

#define HASH_MEMBER ",\"receipt_hash\":"

/* What all receipts of an answer share. */
struct answer {
    const struct wlt_call *call;
    const struct lc_done *done;
    bool committed;
    char root[RON_B3_HEX_LEN];
    struct ron_str idem; /* ,"idem": and "ts": */
    struct ron_str end;  /* "ledger_root": and all behind it, closed */
    char idem_room[IDEM_BYTES];
    char end_room[END_BYTES];
};

/* A number that only a commit gives. */
static char *put_given(char *at, const struct answer *a, uint64_t value)
{
    return a->committed ? wlt__put_digits(at, value) : WLT__PUT(at, "null");
}

static char *put_root(char *at, const struct answer *a)
{
    if (!a->committed) {
        return WLT__PUT(at, "null");
    }
    *at++ = '"';
    at = wlt__put(at, a->root, sizeof a->root);
    *at++ = '"';
    return at;
}

static void share(struct answer *a)
{
    struct ron_b3 hash;
    char *at = a->idem_room;

    memcpy(hash.bytes, a->done->root, sizeof hash.bytes);
    ron_b3_format_hex(&hash, a->root);
    at = wlt__put_str(WLT__PUT(at, ",\"idem\":\""), a->call->key);
    at = put_given(WLT__PUT(at, "\",\"ts\":"), a, a->done->commit_ms);
    a->idem = (struct ron_str){a->idem_room, (size_t)(at - a->idem_room)};
    RON_ASSERT(a->idem.len <= sizeof a->idem_room);
    at = put_root(WLT__PUT(a->end_room, ",\"ledger_root\":"), a);
    at = WLT__PUT(at, ",\"settlement_status\":\"");
    at = a->committed ? WLT__PUT(at, "accepted\"}") : WLT__PUT(at, "dry_run\"}");
    a->end = (struct ron_str){a->end_room, (size_t)(at - a->end_room)};
    RON_ASSERT(a->end.len <= sizeof a->end_room);
}

/* The receipt without its hash, closed: the very bytes that are hashed. */
static char *put_receipt(char *at, const struct answer *a, uint32_t i)
{
    const struct wlt_operation *o = &a->call->ops[i];
    char digits[20];
    struct ron_str seq = {digits, (size_t)(put_given(digits, a, a->done->seq_first + i) - digits)};

    at = wlt__put(WLT__PUT(at, "{\"txid\":\""), o->txid, WLT_TXID_LEN);
    at = wlt__put_str(WLT__PUT(at, "\",\"op\":\""), ron_str_of(wlt_op_info(o->op)->name));
    at = wlt__put_text(WLT__PUT(at, "\",\"from\":"), o->from);
    at = wlt__put_text(WLT__PUT(at, ",\"to\":"), o->to);
    at = wlt__put_str(WLT__PUT(at, ",\"asset\":\""), o->asset);
    at = wlt__put_amount(WLT__PUT(at, "\",\"amount_minor\":\""), o->amount);
    at = wlt__put_number(WLT__PUT(at, "\",\"nonce\":"), o->nonce);
    at = wlt__put_str(at, a->idem);
    at = wlt__put_str(WLT__PUT(at, ",\"ledger_seq_start\":"), seq);
    at = wlt__put_str(WLT__PUT(at, ",\"ledger_seq_end\":"), seq);
    return wlt__put_str(at, a->end);
}

/* The hash, as the last member, over the end of the receipt. */
static void put_hash(char *end, const struct answer *a, const struct ron_b3 *hash)
{
    end = WLT__PUT(end - 1, HASH_MEMBER);
    if (!a->committed) {
        (void)WLT__PUT(end, "null}");
        return;
    }
    *end++ = '"';
    ron_b3_format(hash, end);
    (void)WLT__PUT(end + RON_B3_ID_LEN, "\"}");
}

/* What put_hash makes a receipt longer. */
static size_t hash_bytes(const struct answer *a)
{
    return sizeof(HASH_MEMBER) - 1 + (a->committed ? RON_B3_ID_LEN + 2 : 4);
}

static size_t receipt_bytes_max(const struct answer *a, uint32_t i)
{
    const struct wlt_operation *o = &a->call->ops[i];

    return RECEIPT_BYTES + o->from.len + o->to.len + o->asset.len + a->call->key.len;
}

/* `count` receipts from number `first` on, with commas between. All are written, then hashed
 * together, then each gets its hash in the room that was left for it. */
static void put_receipts(const struct answer *a, uint32_t first, uint32_t count,
                         struct ron_buf *out)
{
    const uint8_t *texts[SIDE_BY_SIDE];
    size_t lens[SIDE_BY_SIDE];
    struct ron_b3 hashes[SIDE_BY_SIDE];
    size_t room = 0;
    uint8_t *start;
    char *at;

    for (uint32_t i = 0; i < count; i++) {
        room += receipt_bytes_max(a, first + i) + 1;
    }
    if (ron_buf_reserve(out, room, &start) != RON_OK) {
        return; /* the buffer keeps its error */
    }
    at = (char *)start;
    for (uint32_t i = 0; i < count; i++) {
        char *end;

        if (first + i > 0) {
            *at++ = ',';
        }
        end = put_receipt(at, a, first + i);
        texts[i] = (const uint8_t *)at;
        lens[i] = (size_t)(end - at);
        at = end + hash_bytes(a);
    }
    RON_ASSERT((size_t)(at - (char *)start) <= room);
    if (a->committed) {
        ron_b3_hash_each(texts, lens, count, hashes);
    }
    for (uint32_t i = 0; i < count; i++) {
        put_hash((char *)(uintptr_t)texts[i] + lens[i], a, &hashes[i]);
    }
    ron_buf_commit(out, (size_t)(at - (char *)start));
}

static void put_batch_head(const struct answer *a, struct ron_buf *out)
{
    uint8_t *start;
    char *at;

    if (ron_buf_reserve(out, BATCH_HEAD_BYTES, &start) != RON_OK) {
        return;
    }
    at = wlt__put_digits(WLT__PUT((char *)start, "{\"count\":"), a->call->count);
    at = put_given(WLT__PUT(at, ",\"ledger_seq_start\":"), a, a->done->seq_first);
    at = put_given(WLT__PUT(at, ",\"ledger_seq_end\":"), a, a->done->seq_last);
    at = put_root(WLT__PUT(at, ",\"ledger_root\":"), a);
    at = put_given(WLT__PUT(at, ",\"ts\":"), a, a->done->commit_ms);
    at = WLT__PUT(at, ",\"receipts\":[");
    RON_ASSERT(at - (char *)start <= BATCH_HEAD_BYTES);
    ron_buf_commit(out, (size_t)(at - (char *)start));
}

void wlt_call_answer(const struct wlt_call *call, const struct lc_done *done, struct ron_buf *out)
{
    struct answer a = {.call = call, .done = done, .committed = !call->dry_run && !done->dry_run};

    share(&a);
    if (!call->batch) {
        put_receipts(&a, 0, 1, out);
        return;
    }
    put_batch_head(&a, out);
    for (uint32_t i = 0; i < call->count; i += SIDE_BY_SIDE) {
        put_receipts(&a, i, RON_MIN(call->count - i, (uint32_t)SIDE_BY_SIDE), out);
    }
    (void)ron_buf_append(out, "]}", 2);
}
