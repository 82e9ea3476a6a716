/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/entry/entry.h - what a ledger entry is: its members, kinds, the reasons of a refusal, its
 * rules, and its two forms, JSON and canonical bytes.
 *
 * Place: ledger; pure. Used by ingress (parse), prevalidators (rules, leaf bytes), the book
 * (apply), the log (bytes) and export (JSON).
 *
 * Invariants:
 *   E1. A struct led_entry that came out of a parser here obeys every rule of led_entry_check.
 *   E2. An entry has exactly one binary form: encode(decode(b)) = b for all bytes that are
 *       accepted, decode(encode(e)) = e for all entries that obey the rules.
 *   E3. An optional member that is absent is empty (len 0) or 0; no rule lets a present member be
 *       empty or 0, so absence needs no flag of its own.
 *   E4. Texts are slices of the caller's buffer; nothing here allocates but from the given arena.
 *
 * A refusal is a value (struct led_refusal), never an error code: it says which entry, which
 * member, which reason of the table, and one clause for a person.
 * Threads: any; no state. Byte layout: docs/formats/ledger-entry.md. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/arena.h"
#include "ron/base/buf.h"
#include "ron/base/json.h"
#include "ron/base/money.h"

enum {
    LED_ID_MAX = 128,           /* bytes of id, ref, kid, capability_ref, idem_id */
    LED_ACCOUNT_MAX = 256,      /* bytes; also what capability caveats allow */
    LED_ASSET_MAX = 32,         /* bytes; a commodity name, not a description */
    LED_MEMO_MAX = 256,         /* bytes */
    LED_NONCE_SIZE = 16,        /* bytes */
    LED_VERSION = 1,            /* of the entry schema and of the canonical bytes */
    LED_BATCH_JSON_MAX = 1024,  /* entries of one JSON batch */
    LED_BATCH_BIN_MAX = 16384,  /* entries of one binary batch: what a frame of 1 MiB can hold of
                                  * entries of some 60 bytes, rounded down to a power of two */
    LED_REFUSALS_MAX = 16,      /* refusals told for one batch: enough to mend it by hand */
    LED_ENTRY_BYTES_MIN = 55,   /* shortest canonical form */
    LED_ENTRY_BYTES_MAX = 1383, /* longest canonical form */
};

/* Milliseconds that a JSON reader with doubles still tells apart (2^53 - 1). */
#define LED_TIME_MAX_MS UINT64_C(9007199254740991)

/* X(NAME, byte in the canonical form, name on the wire, takes `to`, takes `ref`, meaning). */
#define LED_KIND_TABLE(X)                                                                          \
    X(MINT, 1, "Mint", false, false, "makes new units: supply grows")                              \
    X(BURN, 2, "Burn", false, false, "destroys units: supply shrinks")                             \
    X(CREDIT, 3, "Credit", false, false, "adds; balanced by debits of the same batch")             \
    X(DEBIT, 4, "Debit", false, false, "takes; balanced by credits of the same batch")             \
    X(TRANSFER, 5, "Transfer", true, false, "moves from account to `to`")                          \
    X(HOLD, 6, "Hold", false, false, "sets available units aside on the account")                  \
    X(CAPTURE, 7, "Capture", true, true, "moves held units to `to`")                               \
    X(RELEASE, 8, "Release", false, true, "makes held units available again")                      \
    X(REVERSE, 9, "Reverse", false, true, "undoes an earlier entry, in whole or in part")          \
    X(EXPIRE, 10, "Expire", false, true, "the ledger's own release of a hold whose time is over")

enum led_kind {
#define X(name, byte, wire, to, ref, doc) LED_KIND_##name = (byte),
    LED_KIND_TABLE(X)
#undef X
};

/* X(NAME, wire name and metric label, HTTP status, retryable, meaning). Names are stable. */
#define LED_REASON_TABLE(X)                                                                        \
    X(OK, "ok", 200, false, "not refused")                                                         \
    X(UNAUTH, "unauth", 401, false, "no usable capability was shown")                              \
    X(CAP_INVALID, "cap_invalid", 403, false, "the capability does not allow this")                \
    X(UNKNOWN_KIND, "unknown_kind", 400, false, "no such kind of entry")                           \
    X(POLICY_DENIED, "policy_denied", 403, false, "the policy forbids this")                       \
    X(BUSY, "busy", 429, true, "a bounded queue or table is full")                                 \
    X(TOO_LARGE, "too_large", 413, false, "a stated size is exceeded")                             \
    X(TIMEOUT, "timeout", 503, true, "the deadline passed first")                                  \
    X(INTERNAL, "internal", 500, false, "a fault of the ledger")                                   \
    X(INVALID, "invalid", 400, false, "the request is malformed")                                  \
    X(CONFLICT, "conflict", 409, false, "the request contradicts the present state")               \
    X(INSUFFICIENT_FUNDS, "insufficient_funds", 409, false, "the balance or hold is too small")    \
    X(NONCE_CONFLICT, "nonce_conflict", 409, false, "account_nonce is not the next one")           \
    X(IDEM_MISMATCH, "idem_mismatch", 409, false, "the key was used with another body")            \
    X(NOT_FOUND, "not_found", 404, false, "what `ref` names does not exist")                       \
    X(SAFE_MODE, "safe_mode", 503, true, "writes are stopped until an operator looks")             \
    X(DRAINING, "draining", 503, true, "the ledger is shutting down")                              \
    X(NOT_LEADER, "not_leader", 421, true, "another ledger leads; this one follows it")

enum led_reason {
#define X(name, wire, http, retry, doc) LED_REASON_##name,
    LED_REASON_TABLE(X)
#undef X
        LED_REASON_COUNT,
};

/* Ids and nonces that begin so are the ledger's own: a caller who took those of an Expire to come
 * would keep his hold, and all that expire later, from ever expiring. */
#define LED_OWN_ID "expire:"
#define LED_OWN_NONCE "expire:" /* 8 bytes, with the NUL */

struct led_entry {
    struct ron_str id;             /* 1-128 printable ASCII */
    struct ron_str account;        /* 1-256 of [A-Za-z0-9:/_-] */
    struct ron_str to;             /* the same, another account; Transfer, Capture */
    struct ron_str asset;          /* [a-z][a-z0-9._-]{0,31} */
    struct ron_str ref;            /* id of an earlier entry; Capture, Release, Reverse, Expire */
    struct ron_str kid;            /* 1-128 printable ASCII */
    struct ron_str capability_ref; /* 1-128 printable ASCII */
    struct ron_str memo;           /* up to 256 bytes of UTF-8 without control characters */
    struct ron_money amount;       /* above 0 */
    uint64_t ts_ms;                /* 1..LED_TIME_MAX_MS */
    uint64_t account_nonce;        /* 0 = absent */
    uint64_t expires_ms;           /* 0 = absent; Hold only, above ts_ms */
    uint8_t nonce[LED_NONCE_SIZE];
    uint16_t v;
    uint8_t kind; /* enum led_kind */
};

/* A request. Entries lie in an arena, texts in the request's buffer. */
struct led_batch {
    struct led_entry *entries;
    size_t count;
    struct ron_str idem_id; /* empty = absent */
    bool dry_run;           /* binary form only; HTTP says it in the query */
};

struct led_refusal {
    enum led_reason reason;
    uint32_t idx;    /* of the entry; 0 for a fault of the whole batch */
    char member[32]; /* name of the member, "" for none; printable ASCII */
    char detail[72]; /* one clause for a person */
};

/* Refusals of one batch, in the order of the entries. */
struct led_refusals {
    struct led_refusal items[LED_REFUSALS_MAX];
    size_t count;
};

/* What POST /ingest answers. */
struct led_response {
    bool accepted;
    uint64_t seq_start; /* 0 when refused, told as null */
    uint64_t seq_end;
    const uint8_t *new_root;             /* 32 bytes: the head, unchanged when refused */
    const struct led_refusals *refusals; /* NULL when accepted */
};

/* ---- tables ---------------------------------------------------------------------------------- */

/* "Transfer"; NULL for a byte that is no kind. */
const char *led_kind_name(uint8_t kind);
/* The kind of that name, 0 for none. */
uint8_t led_kind_parse(struct ron_str name);
bool led_kind_takes_to(uint8_t kind);
bool led_kind_takes_ref(uint8_t kind);

const char *led_reason_name(enum led_reason reason);
const char *led_reason_doc(enum led_reason reason);
int led_reason_http_status(enum led_reason reason);
bool led_reason_retryable(enum led_reason reason);

/* ---- rules ----------------------------------------------------------------------------------- */

/* Who an entry comes from: only the ledger itself writes Expire. */
enum led_origin {
    LED_ORIGIN_CALLER,
    LED_ORIGIN_LEDGER,
};

/* Whether the entry obeys every rule that needs no state; `ret` is written when it does not. */
RON_MUST_USE bool led_entry_check(const struct led_entry *entry, enum led_origin origin,
                                  struct led_refusal *ret);
bool led_account_valid(struct ron_str account);
bool led_asset_valid(struct ron_str asset);
/* 1..LED_ID_MAX printable ASCII. */
bool led_token_valid(struct ron_str text);

/* The one way to fill a refusal. Texts are cut to their room, and what is not printable ASCII turns
 * into '?', because `member` may come from a stranger. */
void led_refuse(struct led_refusal *ret, enum led_reason reason, const char *member,
                const char *detail);
/* Adds a copy with that index; drops what is beyond LED_REFUSALS_MAX. */
void led_refusals_add(struct led_refusals *list, const struct led_refusal *refusal, uint32_t idx);

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Bytes of arena that a JSON batch of LED_BATCH_JSON_MAX entries needs. */
size_t led_batch_json_arena_size(void);

/* Reads {"batch":[...],"idem_id":"..."}. False when refused: a text that is no such JSON gives one
 * refusal, else each entry that breaks a rule gives one. `text` is changed in place and, like the
 * arena, must outlive the batch. */
RON_MUST_USE bool led_batch_from_json(char *text, size_t len, enum led_origin origin,
                                      struct ron_arena *arena, struct led_batch *ret_batch,
                                      struct led_refusals *ret_refusals);

/* The same for {"batch":[...]} of up to LED_BATCH_BIN_MAX entries: what came in binary and was
 * exported. */
size_t led_batch_json_long_arena_size(size_t entries);
RON_MUST_USE bool led_batch_from_json_long(char *text, size_t len, enum led_origin origin,
                                           struct ron_arena *arena, struct led_batch *ret_batch,
                                           struct led_refusals *ret_refusals);

/* One entry as an object; members in the order of the struct's documentation, absent ones left out.
 * `seq` is written first when it is above 0. */
void led_entry_to_json(struct ron_json_writer *w, const char *name, const struct led_entry *entry,
                       uint64_t seq);
/* Its members alone, into an object that is open. */
void led_response_members(struct ron_json_writer *w, const struct led_response *response);
void led_response_to_json(struct ron_buf *out, const struct led_response *response);

/* ---- canonical bytes ------------------------------------------------------------------------- */

/* Length of the canonical form of an entry that obeys the rules. */
size_t led_entry_size(const struct led_entry *entry);
/* Writes exactly led_entry_size bytes and returns the end. */
uint8_t *led_entry_encode(const struct led_entry *entry, uint8_t *to);
/* Reads exactly len bytes. False when they are not the canonical form of an entry that obeys the
 * rules; `ret_entry` is untouched then. */
RON_MUST_USE bool led_entry_decode(const uint8_t *bytes, size_t len, enum led_origin origin,
                                   struct led_entry *ret_entry, struct led_refusal *ret_refusal);

/* Payload of OAP ingest. Appends to `out`; its error sticks as always. */
enum ron_rc led_batch_encode(const struct led_batch *batch, struct ron_buf *out);
/* `leaves`, when not NULL, gets the canonical bytes of each entry as slices of `bytes` (from the
 * arena). At most LED_BATCH_BIN_MAX entries. */
RON_MUST_USE bool led_batch_decode(const uint8_t *bytes, size_t len, enum led_origin origin,
                                   struct ron_arena *arena, struct led_batch *ret_batch,
                                   struct ron_str **ret_leaves, struct led_refusals *ret_refusals);
