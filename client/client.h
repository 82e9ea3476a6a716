/* SPDX-License-Identifier: Apache-2.0 */
/* client/client.h - how other services speak with the ledger: the bytes of what they send, and
 * what its answers mean.
 *
 * Place: client, above the kernel and below the services; the ledger itself knows nothing of it.
 * Connections, deadlines and retries are those of ron/wire/client.h; here are only bytes, so the
 * simulator uses it too. Layouts: docs/formats/ledger-oap.md, ledger-entry.md, ledger-reads.md.
 *
 * Rules:
 *   C1. What lc_batch_* writes, the ledger reads as exactly that; entries that break a rule of
 *       docs/formats/ledger-entry.md are the caller's to avoid (the ledger refuses them).
 *   C2. Every answer is either understood whole or RON_CORRUPT: nothing is guessed.
 *
 * Ownership: slices point into the caller's bytes. Threads: pure functions; no state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/buf.h"
#include "ron/base/json.h"
#include "ron/base/money.h"
#include "ron/base/rc.h"

enum {
    LC_APP = 0x4c45,    /* requests, and an event for every commit */
    LC_CODE_INGEST = 1, /* payload: a batch; 200: LC_DONE_BYTES */
    LC_CODE_READ = 2,   /* payload: a target as of HTTP GET; status and body are those of HTTP */
    LC_CODE_CANCEL = 3, /* payload: an idem_id; answered like POST /outcome/{idem_id}/cancel */
    LC_CHANGES_APP = 0x4c43, /* events: which accounts a commit changed */
    LC_EVENT_CHANGES = 1,
    LC_DONE_BYTES = 58,
    LC_HASH_BYTES = 32,
    LC_NONCE_BYTES = 16,
    LC_IDEM_ID_MAX = 128,
    LC_ACCOUNT_MAX = 256,
    LC_ADDR_MAX = 127,
    LC_TARGET_MAX =
        1024, /* of a read: an account of 256 bytes, each percent-encoded, and a query */
};

/* ---- writing --------------------------------------------------------------------------------- */

enum lc_kind {
    LC_MINT = 1,
    LC_BURN = 2,
    LC_CREDIT = 3,
    LC_DEBIT = 4,
    LC_TRANSFER = 5,
    LC_HOLD = 6,
    LC_CAPTURE = 7,
    LC_RELEASE = 8,
    LC_REVERSE = 9,
};

/* Members as in docs/formats/ledger-entry.md; empty or 0 is absent. */
struct lc_entry {
    enum lc_kind kind;
    struct ron_str id;
    struct ron_str account;
    struct ron_str to;
    struct ron_str asset;
    struct ron_str ref;
    struct ron_str kid;
    struct ron_str capability_ref;
    struct ron_str memo;
    struct ron_money amount;
    uint64_t ts_ms;
    uint64_t account_nonce;
    uint64_t expires_ms;
    uint8_t nonce[LC_NONCE_BYTES];
};

/* A batch is its head and then exactly `count` entries. A full buffer is seen by ron_buf_error. */
void lc_batch_head(struct ron_buf *out, struct ron_str idem_id, bool dry_run, uint32_t count);
void lc_batch_entry(struct ron_buf *out, const struct lc_entry *entry);

/* Targets of LC_CODE_READ; names are percent-encoded. */
void lc_target_account(struct ron_buf *out, struct ron_str account);
/* What was debited from (account, asset) since a time, newest entries first, in pages: `before` 0
 * begins, later the `next` of the page before. */
void lc_target_debits(struct ron_buf *out, struct ron_str account, struct ron_str asset,
                      uint64_t since_ms, uint64_t before);
void lc_target_outcome(struct ron_buf *out, struct ron_str idem_id);
void lc_target_by_id(struct ron_buf *out, struct ron_str id);
void lc_target_head(struct ron_buf *out);
/* `query` is passed on as it is: before, limit. */
void lc_target_history(struct ron_buf *out, struct ron_str account, struct ron_str query);
void lc_target_receipt(struct ron_buf *out, uint64_t seq);

/* ---- reading --------------------------------------------------------------------------------- */

/* Status 200 of an ingest. */
struct lc_done {
    bool dry_run;
    bool replayed;
    uint64_t seq_first; /* 0 for a dry run */
    uint64_t seq_last;
    uint64_t commit_ms;
    uint8_t root[LC_HASH_BYTES];
};
RON_MUST_USE enum ron_rc lc_done_read(const void *bytes, size_t len, struct lc_done *ret);

/* X(NAME, "reason on the wire") */
#define LC_REASONS(X)                                                                              \
    X(OTHER, "")                                                                                   \
    X(UNAUTH, "unauth")                                                                            \
    X(CAP_INVALID, "cap_invalid")                                                                  \
    X(UNKNOWN_KIND, "unknown_kind")                                                                \
    X(POLICY_DENIED, "policy_denied")                                                              \
    X(BUSY, "busy")                                                                                \
    X(TOO_LARGE, "too_large")                                                                      \
    X(TIMEOUT, "timeout")                                                                          \
    X(INTERNAL, "internal")                                                                        \
    X(INVALID, "invalid")                                                                          \
    X(CONFLICT, "conflict")                                                                        \
    X(INSUFFICIENT_FUNDS, "insufficient_funds")                                                    \
    X(NONCE_CONFLICT, "nonce_conflict")                                                            \
    X(IDEM_MISMATCH, "idem_mismatch")                                                              \
    X(NOT_FOUND, "not_found")                                                                      \
    X(SAFE_MODE, "safe_mode")                                                                      \
    X(DRAINING, "draining")                                                                        \
    X(NOT_LEADER, "not_leader")

enum lc_reason {
#define X(name, wire) LC_REASON_##name,
    LC_REASONS(X)
#undef X
        LC_REASON_COUNT,
};

/* Any other status, of an ingest, a read or a cancel: the envelope of errors. */
struct lc_refusal {
    enum lc_reason reason;
    bool retryable;
    uint32_t idx;                 /* of the first entry that is at fault; 0 when it is the whole */
    char message[160];            /* printable ASCII, cut to its room */
    char leader[LC_ADDR_MAX + 1]; /* not_leader: OAP address of the one that leads, if known */
};
RON_MUST_USE enum ron_rc lc_refusal_read(char *json, size_t len, struct lc_refusal *ret);

/* 200 of lc_target_account, as far as one asset goes. (404: nothing ever named the account.) */
struct lc_account {
    uint64_t seq;      /* as of which it is true */
    uint64_t last_seq; /* newest entry of the account */
    uint64_t nonce;    /* last account_nonce; 0 = none yet */
    bool frozen;
    struct ron_money available; /* 0 when it never had the asset */
    struct ron_money held;
};
RON_MUST_USE enum ron_rc lc_account_read(char *json, size_t len, struct ron_str asset,
                                         struct lc_account *ret);

struct lc_debits {
    struct ron_money debited; /* of this page */
    uint64_t next;            /* 0: there is no more */
};
RON_MUST_USE enum ron_rc lc_debits_read(char *json, size_t len, struct lc_debits *ret);

enum lc_outcome { LC_COMMITTED, LC_CANCELLED, LC_IN_FLIGHT, LC_NEVER_SEEN };
struct lc_outcome_of_key {
    enum lc_outcome outcome;
    struct lc_done done; /* when COMMITTED; `replayed` is true */
};
RON_MUST_USE enum ron_rc lc_outcome_read(char *json, size_t len, struct lc_outcome_of_key *ret);

/* 200 of lc_target_by_id: where the entry stands and under which key it came. */
struct lc_place {
    uint64_t seq;
    uint64_t batch_first;
    uint64_t batch_last;
    struct ron_str idem_id; /* empty when there was none; points into `json` */
};
RON_MUST_USE enum ron_rc lc_place_read(char *json, size_t len, struct lc_place *ret);

/* The same answer: what the entry says. Slices point into `json`. */
struct lc_found {
    uint64_t seq;
    struct ron_str id;
    struct ron_str kind; /* as on the wire: "Mint", "Transfer", ... */
    struct ron_str account;
    struct ron_str to; /* empty when there is none, like idem_id */
    struct ron_str asset;
    struct ron_money amount;
    uint64_t account_nonce; /* 0: none */
    struct ron_str idem_id; /* of its batch */
};
RON_MUST_USE enum ron_rc lc_found_read(char *json, size_t len, struct lc_found *ret);

/* Of several ledgers on one log one leads; who has a log of its own says nothing of it, and
 * leads. */
struct lc_head {
    uint64_t seq;
    uint64_t commit_ms;
    bool leads;
    uint64_t epoch;               /* the newest it knows; grows with every leader */
    char leader[LC_ADDR_MAX + 1]; /* as in lc_refusal */
};
RON_MUST_USE enum ron_rc lc_head_read(char *json, size_t len, struct lc_head *ret);

/* ---- changes --------------------------------------------------------------------------------- */

/* An event of LC_CHANGES_APP: `seq` is the last entry of the commit; the accounts it changed come
 * in as many events as they need, and `last` says that the commit is told whole. A subscriber that
 * has seen the last event of seq n knows all changes up to n. */
struct lc_changes {
    uint64_t seq;
    bool last;
    uint16_t count;
    const uint8_t *_at;
    const uint8_t *_end;
};
RON_MUST_USE enum ron_rc lc_changes_read(const void *payload, size_t len, struct lc_changes *ret);
/* The next account; false when all have been told. lc_changes_read has checked the whole event. */
bool lc_changes_next(struct lc_changes *c, struct ron_str *ret_account);
