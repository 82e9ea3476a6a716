/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/call/name.c - what a call is called: fingerprint, idem_id, txids and entry nonces.
 *
 * The preimages are in docs/formats/wallet.md, with worked examples. Nothing but the call goes into
 * them (A2). The room for a text is fixed: the grammar gives it a longest form, and an assertion
 * says that it fit. */
#include <string.h>

#include "ron/base/assert.h"
#include "ron/cas/b3.h"
#include "wallet/call/priv.h"

enum {
    /* Two accounts, a memo and a hold of nothing but quotes, numbers, names of members: 1560. */
    VALUE_MAX = 2048,
    /* The value, its operation and a key of 64. */
    PREIMAGE_MAX = VALUE_MAX + 128,
    /* Of a batch, hashed at a time: so many bytes are hashed side by side in the processor. */
    PIECE = 8192,
    SHORT_HASH = 16,
    HEX_END = 3 + 2 * SHORT_HASH, /* of an idem_id; the client's key follows behind a dot */
};

/* The prefix and 32 digits of the first half of the hash. */
static void put_name(char *to, const char prefix[3], const struct ron_b3 *hash)
{
    static const char digits[] = "0123456789abcdef";

    memcpy(to, prefix, 3);
    to += 3;
    for (size_t i = 0; i < SHORT_HASH; i++) {
        *to++ = digits[hash->bytes[i] >> 4];
        *to++ = digits[hash->bytes[i] & 15];
    }
    *to = '\0';
}

/* ---- parts, each followed by a zero byte ----------------------------------------------------- */

static void part(struct ron_b3_hasher *h, struct ron_str text)
{
    ron_b3_update(h, text.ptr, text.len);
    ron_b3_update(h, "", 1);
}

/* Decimal digits, none for 0. */
static void part_number(struct ron_b3_hasher *h, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;

    for (; number != 0; number /= 10) {
        digits[--at] = (char)('0' + number % 10);
    }
    part(h, (struct ron_str){digits + at, sizeof digits - at});
}

void wlt_idem_id(const char *op_name, struct ron_str subject, struct ron_str key,
                 char ret[WLT_IDEM_ID_MAX + 1])
{
    struct ron_b3_hasher h;
    struct ron_b3 hash;

    RON_ASSERT(key.len <= WLT_KEY_MAX);
    ron_b3_init(&h);
    part(&h, ron_str_of(op_name));
    part(&h, subject);
    part(&h, key);
    ron_b3_final(&h, &hash);
    put_name(ret, "w1.", &hash);
    ret[HEX_END] = '.';
    memcpy(ret + HEX_END + 1, key.ptr, key.len);
    ret[HEX_END + 1 + key.len] = '\0';
}

struct ron_str wlt_idem_key_of(struct ron_str idem_id)
{
    struct ron_str key = {0};

    if (idem_id.len > HEX_END + 1 && idem_id.len <= WLT_IDEM_ID_MAX &&
        memcmp(idem_id.ptr, "w1.", 3) == 0 && idem_id.ptr[HEX_END] == '.') {
        key = (struct ron_str){idem_id.ptr + HEX_END + 1, idem_id.len - HEX_END - 1};
    }
    return wlt_key_valid(key) ? key : (struct ron_str){0};
}

/* Of a single operation. One key under one subject and operation has one nonce, so the ledger's own
 * memory of nonces refuses a second entry as well. */
static void entry_nonce(const struct wlt_call *call, struct wlt_operation *o)
{
    const struct wlt_op_info *info = wlt_op_info(o->op);
    struct ron_b3_hasher h;

    ron_b3_init(&h);
    part(&h, ron_str_of(info->name));
    part(&h, call->key);
    part(&h, wlt_operation_subject(o));
    if (info->takes_nonce) {
        part_number(&h, o->nonce);
    }
    if (info->takes_nonce && o->op != WLT_BURN) {
        part(&h, ron_str_of("debit"));
    }
    ron_b3_final_long(&h, o->entry_nonce, sizeof o->entry_nonce);
}

/* ---- VALUE ----------------------------------------------------------------------------------- */

/* A text in which JSON may have to escape something. */
static char *put_escaped(char *at, struct ron_str text)
{
    struct ron_json_writer w;
    struct ron_buf out;

    if (text.len == 0) {
        return WLT__PUT(at, "null");
    }
    ron_buf_init_over(&out, at, 2 * text.len + 3); /* at most a backslash each */
    ron_json_begin(&w, &out);
    ron_json_str(&w, NULL, text);
    RON_ASSERT(ron_buf_error(&out) == RON_OK);
    return at + ron_buf_len(&out);
}

/* At most VALUE_MAX bytes. */
static char *put_value(char *at, const struct wlt_operation *o)
{
    const struct wlt_op_info *info = wlt_op_info(o->op);

    *at++ = '{';
    if (!info->subject_is_to) {
        at = wlt__put_str(WLT__PUT(at, "\"from\":\""), o->from);
        at = WLT__PUT(at, "\",");
    }
    if (info->takes_to) {
        at = wlt__put_str(WLT__PUT(at, "\"to\":\""), o->to);
        at = WLT__PUT(at, "\",");
    }
    at = wlt__put_str(WLT__PUT(at, "\"asset\":\""), o->asset);
    at = wlt__put_amount(WLT__PUT(at, "\",\"amount_minor\":\""), o->amount);
    at = WLT__PUT(at, "\"");
    if (info->takes_nonce) {
        at = wlt__put_number(WLT__PUT(at, ",\"nonce\":"), o->nonce);
    }
    at = put_escaped(WLT__PUT(at, ",\"idempotency_key\":null,\"memo\":"), o->memo);
    if (info->takes_hold) {
        at = put_escaped(WLT__PUT(at, ",\"hold\":"), o->hold);
    }
    if (o->op == WLT_HOLD) {
        at = wlt__put_number(WLT__PUT(at, ",\"expires_at\":"), o->expires_ms);
    }
    *at++ = '}';
    return at;
}

/* ---- fingerprints and txids ------------------------------------------------------------------ */

/* {"op":OP,"idem":KEY,"value": */
static char *put_head(char *at, const char *op_name, struct ron_str key)
{
    at = wlt__put_str(WLT__PUT(at, "{\"op\":\""), ron_str_of(op_name));
    at = wlt__put_str(WLT__PUT(at, "\",\"idem\":\""), key);
    return WLT__PUT(at, "\",\"value\":");
}

static void name_single(struct wlt_call *call)
{
    struct wlt_operation *o = &call->ops[0];
    const char *op_name = wlt_op_info(o->op)->name;
    char text[PREIMAGE_MAX];
    char *end = put_value(put_head(text, op_name, call->key), o);
    struct ron_b3 hash;

    *end++ = '}';
    RON_ASSERT((size_t)(end - text) <= sizeof text);
    ron_b3_hash(text, (size_t)(end - text), &hash);
    memcpy(call->fingerprint, hash.bytes, sizeof call->fingerprint);
    put_name(o->txid, "tx_", &hash);
    entry_nonce(call, o);
    wlt_idem_id(op_name, wlt_operation_subject(o), call->key, call->idem_id);
}

static void batch_fingerprint(struct wlt_call *call)
{
    char text[PIECE + PREIMAGE_MAX];
    char *at = WLT__PUT(text, "{\"op\":\"batch\",\"value\":[");
    struct ron_b3_hasher h;

    ron_b3_init(&h);
    for (uint32_t i = 0; i < call->count; i++) {
        const struct wlt_operation *o = &call->ops[i];

        at = wlt__put_str(WLT__PUT(at, "{\"op\":\""), ron_str_of(wlt_op_info(o->op)->name));
        at = put_value(WLT__PUT(at, "\",\"value\":"), o);
        at = WLT__PUT(at, "},");
        RON_ASSERT((size_t)(at - text) <= sizeof text);
        if (at - text > PIECE) { /* the last comma stays here */
            ron_b3_update(&h, text, PIECE);
            at = wlt__put(text, text + PIECE, (size_t)(at - text) - PIECE);
        }
    }
    at = WLT__PUT(at - 1, "]}"); /* over the last comma */
    ron_b3_update(&h, text, (size_t)(at - text));
    ron_b3_final_long(&h, call->fingerprint, sizeof call->fingerprint);
}

/* What the operations have in common is hashed once. */
static void name_batch(struct wlt_call *call)
{
    static const char op_name[] = "batch";
    char text[PREIMAGE_MAX];
    char *at = text;
    struct ron_b3_hasher common;
    struct ron_b3 hash;

    batch_fingerprint(call);
    memcpy(hash.bytes, call->fingerprint, sizeof hash.bytes);
    at = WLT__PUT(put_head(at, op_name, call->key), "\"");
    ron_b3_format(&hash, at);
    at = WLT__PUT(at + RON_B3_ID_LEN, "\",\"index\":");
    ron_b3_init(&common);
    ron_b3_update(&common, text, (size_t)(at - text));
    for (uint32_t i = 0; i < call->count; i++) {
        struct wlt_operation *o = &call->ops[i];
        struct ron_b3_hasher h = common;

        at = wlt__put_digits(text, i);
        *at++ = '}';
        ron_b3_update(&h, text, (size_t)(at - text));
        ron_b3_final(&h, &hash);
        put_name(o->txid, "tx_", &hash);
        memcpy(o->entry_nonce, hash.bytes + SHORT_HASH, sizeof o->entry_nonce);
    }
    wlt_idem_id(op_name, wlt_operation_subject(&call->ops[0]), call->key, call->idem_id);
}

void wlt__call_name(struct wlt_call *call)
{
    if (call->batch) {
        name_batch(call);
    } else {
        name_single(call);
    }
}
