/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/book/book.h - the state of the ledger in memory: balances, holds, supply, nonces,
 * reversals.
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

#include "ledger/entry/entry.h"
#include "ledger/entry/key.h"
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
    uint32_t image_walk;   /* records looked at in one step of an image; 0: 1024, some 100 us */
};

enum {
    LED_FUTURE_MS = 5000,  /* how far `ts` may lie ahead: clock skew between hosts */
    LED_ASSETS_MAX = 4096, /* assets are made by operators, not by users */
};

RON_MUST_USE enum ron_rc led_book_new(const struct led_book_opts *opts, struct led_book **ret_book);
void led_book_free(struct led_book *book); /* NULL is fine */

/* ---- growth ---------------------------------------------------------------------------------- */

/* The book grows by blocks of 2 MiB. In huge pages they make applying about a third cheaper, but
 * the system may take milliseconds to find one. So another thread makes blocks ahead, while the
 * book wants some, and the owner of the book gives them to it. A book that gets none grows in
 * small pages, which stalls nobody. */
size_t led_book_blocks_wanted(const struct led_book *book);
void *led_book_make_block(
    void); /* any thread; slow; NULL: no memory; else for the next or ron_free */
void led_book_give_block(struct led_book *book, void *take_block);
/* The burst is over: frees what was given and not needed. */
void led_book_rest(struct led_book *book);
/* Where stalls of some milliseconds do not matter (recovery, import): the book makes its blocks
 * itself. */
void led_book_may_stall(struct led_book *book, bool may_stall);

/* ---- applying -------------------------------------------------------------------------------- */

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
    LED_APPLY_REPLAY = 4,  /* from the log: was allowed when it was accepted, so time, used nonces,
                            * freezes and the switch for reversals do not matter */
    LED_APPLY_REVERSIBLE = 8,   /* governance allows reversals */
    LED_APPLY_NONCE_AGAIN = 16, /* a nonce may have been used: it was accepted under the horizon of
                                 * then, which nobody knows. It is used anew from its `ts` on */
};

/* What a stored entry says of an account that it touched. */
struct led_side {
    uint64_t prev_seq;          /* of the entry that touched it before, 0 = none */
    struct ron_money available; /* in the asset of the entry, after it */
    struct ron_money held;
};

/* The links of a stored entry: history and past balances are read from them, without an index. */
struct led_links {
    struct led_side account;
    struct led_side to; /* of a Reverse: the `to` of the entry that it undoes */
    bool has_to;
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
/* Of the last entry that is committed or loaded; 0: none. */
uint64_t led_book_committed_seq(const struct led_book *book);

/* Freezing is policy, not part of the journal: it is no part of the digest and not undone. Entries
 * of a frozen account and those that would pay it are refused, but for Reverse and Expire.
 * RON_AGAIN: an account that no committed entry has named yet can be frozen only while nothing is
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
/* When the next hold expires; UINT64_MAX: none does. */
uint64_t led_book_next_expiry_ms(const struct led_book *book);
/* The Expire that led_book_next_expiry made was refused: it is made again at `until_ms`, to the
 * second, and the other holds come first. Not part of the journal, and forgotten by a restart. */
void led_book_put_off_expiry(struct led_book *book, uint64_t until_ms);

/* ---- images ---------------------------------------------------------------------------------- */

enum { LED_IMAGE_CHUNK_MAX = 65536 }; /* bytes */

struct led_image_chunk {
    uint64_t seq;        /* of the image */
    uint32_t number;     /* from 0 on */
    uint8_t *take_bytes; /* the caller's, for ron_free; NULL: this step made no chunk */
    size_t len;
    bool last;
};

/* Begins an image of the committed state of now, in bounded steps of well under 200 us each, while
 * batches are applied, committed and aborted as ever. A commit copies what it is about to change,
 * so memory grows unless steps follow: after each commit step at least once, and on while chunks
 * are waiting. Layout: docs/formats/ledger-image.md. RON_AGAIN: one is being made; RON_NOMEM. */
RON_MUST_USE enum ron_rc led_book_image_begin(struct led_book *book, uint64_t *ret_seq);
/* Not after the last chunk. RON_NOMEM, RON_FULL (too few steps for the load): the image is lost,
 * the book is as it was; end it and begin another. */
RON_MUST_USE enum ron_rc led_book_image_step(struct led_book *book,
                                             struct led_image_chunk *ret_chunk);
size_t led_book_image_waiting(const struct led_book *book); /* chunks */
/* After the last chunk, or to give up; also fine when there is none. */
void led_book_image_end(struct led_book *book);

/* Images hold no used nonces: the log has them. Between loading and the first batch the book learns
 * the pairs of entries up to led_book_committed_seq that were applied with a now_ms of
 * led_book_recall_from_ms or later (recover/recall.h does it); a pair that was used twice, under a
 * shorter horizon, too. RON_NOMEM: then the book is good for led_book_free alone. */
struct led_used {
    uint64_t ts_ms; /* of the entry */
    uint64_t fingerprint;
};
uint64_t led_book_fingerprint(const uint8_t hash_key[16], const struct led_entry *entry);
uint64_t led_book_recall_from_ms(const struct led_book *book);
RON_MUST_USE enum ron_rc led_book_recall(struct led_book *book, const struct led_used *used,
                                         size_t count);

/* Loads the next chunk of an image, in order, into a book that was empty before the first; the book
 * must have the hash key of the one that the image was made of. *ret_done: that was the last, and
 * the book is audited and ready for the batch after led_book_committed_seq. After a failure the
 * book is good for led_book_free alone: RON_CORRUPT (not the next chunk, damaged, or not a state
 * that a book can have), RON_UNSUPPORTED (another version), RON_INVALID (the book is not empty, or
 * of another key), RON_LIMIT (more than opts allow), RON_NOMEM. */
RON_MUST_USE enum ron_rc led_book_load(struct led_book *book, const void *bytes, size_t len,
                                       bool *ret_done, struct ron_err *err);

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

/* Each asset whose supply is not zero. */
typedef void led_book_see_supply(void *arg, struct ron_str asset, struct ron_money supply);
void led_book_supplies(const struct led_book *book, enum led_view view, led_book_see_supply *see,
                       void *arg);

struct led_open_hold {
    struct ron_str id;
    struct ron_str asset;
    struct ron_money remaining;
    uint64_t expires_ms; /* 0: never */
    uint64_t seq;        /* of the Hold */
};

/* Each open hold of the account, in no order, until `see` returns false. */
typedef bool led_book_see_hold(void *arg, const struct led_open_hold *hold);
void led_book_holds_of(const struct led_book *book, struct ron_str account, enum led_view view,
                       led_book_see_hold *see, void *arg);

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
