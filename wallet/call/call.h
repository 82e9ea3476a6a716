/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/call/call.h - a write as a client sends it: operations, their grammar, the names that
 * follow from them (idem_id, txid, fingerprint), the ledger's batch, and the receipt.
 *
 * Place: wallet; pure. Used by the front (parse), the job (names, bytes) and the receipts.
 *
 * Rules:
 *   A1. A call that came out of wlt_call_parse obeys every rule that needs no state.
 *   A2. Everything that names a call (idem_id, txids, fingerprint, entry nonces) follows from the
 *       request alone: no clock, no randomness, no configuration. The same request after a restart
 *       has the same names.
 *   A3. A txid commits to the whole request: two calls that differ in anything but the spelling of
 *       their JSON, or where the key stood, have different txids. Who finds the first txid in the
 *       ledger therefore knows that the same request was committed.
 *   A4. A receipt follows from the call and struct lc_done alone, byte for byte.
 *   A5. One operation is one entry; a batch is one batch, all or nothing.
 *   A6. What was parsed fits a frame of the ledger, whatever seal it gets.
 *
 * Names (docs/formats/wallet.md):
 *   fingerprint  of a single operation the hash that begins with its txid; of a batch BLAKE3 of
 *                {"op":"batch","value":[{"op":OP,"value":VALUE},...]}, minified. VALUE has its
 *                members in a fixed order, absent ones null; the key in it is always null, wherever
 *                it stood
 *   idem_id      "w1." + 32 hex digits of BLAKE3 over op, 0, subject account, 0, key, 0, then "."
 *                and the key, from which a receipt can be rebuilt; of a batch the op is "batch" and
 *                the subject that of the first operation
 *   txid         "tx_" + 32 hex digits of BLAKE3 of {"op":OP,"idem":KEY,"value":VALUE}; of
 *                operation i of a batch, of {"op":"batch","idem":KEY,"value":FINGERPRINT,"index":i}
 *   entry nonce  16 bytes of BLAKE3 over op, idem, subject and so on; in a batch the second half of
 *                the hash that gives the txid
 *
 * Ownership: slices point into the request's text and the arena. Threads: pure. */
#pragma once

#include "client/client.h"
#include "ron/base/arena.h"
#include "ron/wire/frame.h"
#include "wallet/call/reason.h"

enum {
    WLT_KEY_MAX = 64,      /* of an idempotency key; 1 at least, of [A-Za-z0-9._:-] */
    WLT_ACCOUNT_MAX = 256, /* of [A-Za-z0-9:/_-], as the ledger has it */
    WLT_ASSET_MAX = 32,
    WLT_MEMO_MAX = 256,
    WLT_HOLD_MAX = 128, /* printable ASCII: any id that the ledger gives a hold */
    WLT_REF_MAX = 64,   /* of the names in a seal; 1 at least */
    WLT_BATCH_MAX = 1024,
    WLT_TXID_LEN = 35,                          /* tx_ and 32 digits */
    WLT_IDEM_ID_MAX = 3 + 32 + 1 + WLT_KEY_MAX, /* w1. and 32 digits, a dot, the key */
    WLT_HASH_BYTES = 32,
    /* A receipt without memo; accounts of 256 bytes are the most of it. */
    WLT_RECEIPT_MAX = 1536,
    /* Payload of a frame to the ledger beside its header and the longest capability. */
    WLT_ENCODED_MAX = RON_OAP_FRAME_MAX - RON_OAP_HEADER_BYTES - 8192,
};
/* Of a time in JSON: what every reader of numbers keeps exactly. */
#define WLT_TIME_MAX_MS ((UINT64_C(1) << 53) - 1)
/* Far above what an account can reach; table/nonce.h keeps those up to WLT_NONCE_TRACKED_MAX. */
#define WLT_NONCE_MAX ((UINT64_C(1) << 62) - 1)

/* X(NAME, "name", ledger kind, "scope", subject is `to`, takes `to`, takes `hold`, takes a nonce,
 *   counts as a debit of the day) */
#define WLT_OPS(X)                                                                                 \
    X(ISSUE, "issue", LC_MINT, "wallet.issue", true, true, false, false, false)                    \
    X(TRANSFER, "transfer", LC_TRANSFER, "wallet.transfer", false, true, false, true, true)        \
    X(BURN, "burn", LC_BURN, "wallet.burn", false, false, false, true, true)                       \
    X(HOLD, "hold", LC_HOLD, "wallet.hold", false, false, false, true, false)                      \
    X(CAPTURE, "capture", LC_CAPTURE, "wallet.capture", false, true, true, true, true)             \
    X(RELEASE, "release", LC_RELEASE, "wallet.release", false, false, true, true, false)

enum wlt_op {
#define X(name, ...) WLT_##name,
    WLT_OPS(X)
#undef X
        WLT_OP_COUNT,
};

struct wlt_op_info {
    const char *name;
    enum lc_kind kind;
    const char *scope; /* hold, capture and release also go with wallet.transfer */
    bool subject_is_to;
    bool takes_to;
    bool takes_hold;
    bool takes_nonce;
    bool debits;
};
const struct wlt_op_info *wlt_op_info(enum wlt_op op);
/* WLT_OP_COUNT when there is none of that name. */
enum wlt_op wlt_op_parse(struct ron_str name);

struct wlt_operation {
    enum wlt_op op;
    struct ron_str from; /* empty for an issue */
    struct ron_str to;
    struct ron_str asset; /* "roc" when the request has none */
    struct ron_str hold;  /* txid of the hold that is captured or released */
    struct ron_str memo;
    struct ron_money amount; /* above 0 */
    uint64_t nonce;          /* 0 = none: the ledger then orders by arrival */
    uint64_t expires_ms;     /* 0 = none; hold only */
    char txid[WLT_TXID_LEN + 1];
    uint8_t entry_nonce[LC_NONCE_BYTES];
};
/* Account whose state decides: `from`, or `to` of an issue. */
struct ron_str wlt_operation_subject(const struct wlt_operation *o);

struct wlt_call {
    struct wlt_operation *ops;
    uint32_t count;
    bool batch;   /* /v1/batch, even with one operation */
    bool dry_run; /* false after parsing; no part of the names */
    struct ron_str key;
    uint8_t fingerprint[WLT_HASH_BYTES];
    char idem_id[WLT_IDEM_ID_MAX + 1]; /* scoped by the operation and subject of the first */
};

struct wlt_call_rules {
    struct ron_money amount_max;  /* of one operation */
    const struct ron_str *assets; /* allowed ones */
    size_t asset_count;           /* 0 = any */
};

/* Bytes of arena that are enough for a body of that length. */
size_t wlt_call_arena_size(size_t body_len, bool batch);
/* Reads the body of POST /v1/<op>, or with `op` WLT_OP_COUNT that of /v1/batch:
 * {"operations":[{"op":"transfer", ...}, ...]}; and names the call. `header_key` is the value of
 * Idempotency-Key (bare or in double quotes), empty when absent; with a key in the body too, both
 * must agree; without any: BAD_REQUEST. `text` is changed in place. False: `ret_fault` says why;
 * nothing else is written. */
RON_MUST_USE bool wlt_call_parse(char *text, size_t len, enum wlt_op op, struct ron_str header_key,
                                 const struct wlt_call_rules *rules, struct ron_arena *arena,
                                 struct wlt_call *ret_call, struct wlt_fault *ret_fault);
/* Whether a text may be an idempotency key, an account, an asset. */
bool wlt_key_valid(struct ron_str key);
bool wlt_account_valid(struct ron_str account);
bool wlt_asset_valid(struct ron_str asset);
/* The idem_id of a valid key that is asked for by name: of an operation or "batch". */
void wlt_idem_id(const char *op_name, struct ron_str subject, struct ron_str key,
                 char ret[WLT_IDEM_ID_MAX + 1]);

/* The client's key in an idem_id; empty when no wallet made it. */
struct ron_str wlt_idem_key_of(struct ron_str idem_id);

/* The ledger's batch. kid and capability_ref tell under which capabilities it was sent. */
struct wlt_seal {
    uint64_t ts_ms;
    struct ron_str kid;
    struct ron_str capability_ref;
};
/* Bytes that are enough for any seal. */
size_t wlt_call_encoded_max(const struct wlt_call *call);
void wlt_call_encode(const struct wlt_call *call, const struct wlt_seal *seal, struct ron_buf *out);

/* The body of the answer: a receipt, or {"count","ledger_seq_start","ledger_seq_end","ledger_root",
 * "ts","receipts":[...]} of a batch. A dry run has null for what only a commit gives, the
 * receipt_hash among it, and settlement_status "dry_run" instead of "accepted". At most
 * WLT_RECEIPT_MAX for each operation and once more. */
void wlt_call_answer(const struct wlt_call *call, const struct lc_done *done, struct ron_buf *out);
