/* SPDX-License-Identifier: Apache-2.0 */
/* led_book.h - the state of the ledger in memory: balances, holds, supply, nonces, reversals.
 *
 * Place: ledger; pure: no I/O, no clock, no thread. Time and seq come as arguments, so the same
 * batches with the same arguments give the same state on every machine.
 *
 * Projected and committed are one book with a watermark, not two books. apply() changes the
 * projected state and keeps what it overwrote in a ring; commit() forgets the oldest batch of the
 * ring, abort() takes all uncommitted batches back. A record that has changes in the ring knows the
 * first of them, so a committed value is read without searching. Two books would cost the work of
 * every entry twice and twice the memory per account, and would still need a way back.
 *
 * Invariants:
 *   B1. A batch is applied whole or not at all; a refused batch leaves everything that can be
 *       read as it was, and gives back the records that it created.
 *   B2. No balance is negative; all arithmetic is checked.
 *   B3. For each asset: supply = mint - burn = sum of available and held over all accounts, after
 *       every batch.
 *   B4. For each account and asset: held = sum of what remains of its open holds.
 *   B5. Per account, account_nonce grows by exactly 1 where an entry carries one.
 *   B6. After the tables are sized, applying allocates nothing; growth comes in bounded steps.
 *
 * Order of checks for an entry: time, id twice in the batch, (account, nonce) seen, frozen,
 * account_nonce, then the rules of its kind; at the end of the batch the sums of credits and
 * debits. The first that fails refuses the batch.
 *
 * The caller sees to what needs the whole journal: `id` and `idem_id` unique for ever, and the
 * entry that a Reverse refers to. Threads: one at a time; led_book_prepare is pure and may run
 * anywhere. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "led_entry.h"
#include "ron/base/money.h"
#include "ron/base/rc.h"

struct led_book;

struct led_book_opts {
    uint8_t hash_key[16];  /* random per process: strangers choose the names that are hashed */
    uint64_t horizon_ms;   /* how old a `ts` may be, and how long nonces are remembered; 0: 24 h */
    uint32_t accounts_max; /* 0: 2^31 */
    uint32_t holds_max;    /* open at a time; 0: 2^24 */
    uint32_t batch_max;    /* entries; 0: LED_BATCH_BIN_MAX */
    uint32_t undo_max;     /* changes of uncommitted batches, a power of two; 0: 2^17. A transfer
                            * makes up to 2, a batch one more; at least 8 * batch_max. */
};

enum {
    LED_FUTURE_MS = 5000,  /* how far `ts` may lie ahead: clock skew between hosts */
    LED_ASSETS_MAX = 4096, /* assets are made by operators, not by users */
};

RON_MUST_USE enum ron_rc led_book_new(const struct led_book_opts *opts, struct led_book **ret_book);
void led_book_free(struct led_book *book); /* NULL is fine */

/* ---- applying -------------------------------------------------------------------------------- */

struct led_key {
    uint64_t a;
    uint64_t b;
};

/* Hashes of an entry, computed once, early, and in parallel. */
struct led_prep {
    struct led_key account;
    struct led_key to;
    struct led_key id;
    struct led_key ref;
    uint64_t fingerprint; /* of (account, nonce) */
};

void led_book_prepare(const uint8_t hash_key[16], const struct led_entry *entry,
                      struct led_prep *ret_prep);

enum led_apply_flag {
    LED_APPLY_DRY_RUN = 1, /* decide, then take everything back */
    LED_APPLY_IMPORT = 2,  /* `ts` may be of any age */
    LED_APPLY_REPLAY = 4,  /* from the log: was allowed when it was accepted, so time, freezes and
                               * the switch for reversals do not matter */
    LED_APPLY_REVERSIBLE = 8, /* governance allows reversals */
};

/* Seqs of the entries that touched the same accounts before: the links of a stored entry. */
struct led_links {
    uint64_t prev_account; /* 0 = none */
    uint64_t prev_to;
};

struct led_apply {
    const struct led_entry *entries; /* obey led_entry_check */
    const struct led_prep *preps;    /* one per entry, or NULL: computed here */
    size_t count;
    /* NULL, or for each entry NULL or, for a Reverse, the entry that `ref` names. An entry of this
     * batch need not be given. */
    const struct led_entry *const *originals;
    uint64_t now_ms;    /* time of the window, kept in the log so that a replay sees the same */
    uint64_t seq_first; /* of the first entry */
    uint32_t flags;     /* enum led_apply_flag */
    struct led_links *ret_links; /* NULL, or one per entry; written when accepted */
};

struct led_outcome {
    bool accepted;
    struct led_refusal refusal; /* when not accepted */
};

/* RON_OK with the outcome. RON_FULL when the ring has no room until batches are committed,
 * RON_LIMIT when the batch is empty or longer than batch_max, RON_NOMEM; nothing changed then. */
RON_MUST_USE enum ron_rc led_book_apply(struct led_book *book, const struct led_apply *in,
                                        struct led_outcome *ret_outcome);

/* The oldest uncommitted batch is durable. Returns the seq of its last entry. There must be one. */
uint64_t led_book_commit(struct led_book *book);
/* Takes all uncommitted batches back, the newest first. */
void led_book_abort(struct led_book *book);
size_t led_book_pending(const struct led_book *book); /* uncommitted batches */

/* Freezing is policy, not part of the journal: it is no part of the digest and not undone. Entries
 * of a frozen account and those that would pay it are refused, but for Reverse and Expire.
 * RON_AGAIN: an account that no entry has named yet can be frozen only while nothing is
 * uncommitted. */
RON_MUST_USE enum ron_rc led_book_freeze(struct led_book *book, struct ron_str account,
                                         bool frozen);

/* Makes the Expire entry for the hold that expired first, if one has by now. `room` holds the texts
 * of the entry. Apply it before asking again. */
struct led_expiry {
    struct led_entry entry;
    char id[48];
    char ref[LED_ID_MAX];
};
bool led_book_next_expiry(const struct led_book *book, uint64_t now_ms, struct led_expiry *ret);

/* ---- reading --------------------------------------------------------------------------------- */

enum led_view {
    LED_COMMITTED, /* what readers may see */
    LED_PROJECTED,
};

struct led_balance {
    struct ron_money available;
    struct ron_money held;
};

struct led_account {
    uint64_t account_nonce; /* the last one used */
    uint64_t last_seq;      /* of the last entry that touched it, 0 = none */
    bool frozen;
};

/* False when unknown in that view; zero balances are as unknown as none. */
bool led_book_balance(const struct led_book *book, struct ron_str account, struct ron_str asset,
                      enum led_view view, struct led_balance *ret_balance);
bool led_book_account(const struct led_book *book, struct ron_str account, enum led_view view,
                      struct led_account *ret_account);
struct ron_money led_book_supply(const struct led_book *book, struct ron_str asset,
                                 enum led_view view);
/* What remains of an open hold in the projected state; zero when there is none. */
struct ron_money led_book_hold(const struct led_book *book, struct ron_str id);

/* Calls `see` for each balance of the account that is not zero, in no order. */
typedef void led_book_see(void *arg, struct ron_str asset, const struct led_balance *balance);
void led_book_each(const struct led_book *book, struct ron_str account, enum led_view view,
                   led_book_see *see, void *arg);

struct led_book_stats {
    uint64_t accounts;
    uint64_t holds;
    uint64_t fingerprints;
    uint64_t memory_bytes;      /* held by tables and records */
    uint64_t fingerprint_bytes; /* the part of them that fingerprints take */
    uint64_t undo_used;         /* of undo_max */
};
void led_book_stats(const struct led_book *book, struct led_book_stats *ret_stats);

/* A digest of the whole projected state: balances, nonces, last seqs, holds, supply, reversals. It
 * depends neither on the order of creation nor on the hash key. Fingerprints and freezes are no
 * part of it: the former are forgotten with time, the latter are policy. Looks at everything. */
void led_book_digest(const struct led_book *book, uint8_t ret_digest[32]);

/* Checks B2-B4 over the whole state: the name of the broken invariant, or NULL. */
const char *led_book_audit(const struct led_book *book);
