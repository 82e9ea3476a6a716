/* SPDX-License-Identifier: Apache-2.0 */
/* audit/book/book.h - the auditor's own balances, holds, supplies, nonces and reversals.
 *
 * Place: audit; no I/O, no clock. Shares nothing with the ledger's book; written from the rules in
 * docs/formats/ledger-entry.md and docs/formats/ledger-log.md.
 *
 * Invariants:
 *   A1. Every entry is judged by the state that the auditor computed from the entries before it.
 *   A2. A broken rule gives a finding and the audit goes on. Where the links of an entry tell
 *       another balance than ours, that is a finding, and from there on the journal's word is
 *       taken, so that one false balance is not reported once for every later entry. The sums at
 *       the end still show it.
 *   A3. Memory: about 130 bytes for an account with a name of 20 bytes in one asset (80 and the
 *       name, rounded up to 16, and 11 to 21 for the map), 48 for each further asset of it, 192 for
 *       an open hold.
 *
 * A Reverse needs the entry that it undoes. The ids that some Reverse names are told beforehand
 * (aud_book_want); an unannounced one answers RON_AGAIN, and the caller reads the journal for all
 * of them and starts anew. Journals without a Reverse are read once.
 *
 * Threads: one. Failure: RON_NOMEM; RON_LIMIT at AUD_ASSETS_MAX. */
#pragma once

#include "audit/base/find.h"
#include "audit/book/table.h"
#include "audit/book/unique.h"
#include "audit/journal/entry.h"
#include "audit/journal/frame.h"

enum { AUD_ASSETS_MAX = 32768 }; /* a ledger allows 4096 */

struct aud_line {
    ron_u128 available;
    ron_u128 held;
    uint32_t next;  /* ref of a further line of the account, 0 = none */
    uint16_t asset; /* index + 1; 0 = unused */
};

struct aud_acct {
    struct aud_key key;
    uint64_t last_seq;
    uint64_t nonce;
    struct aud_line line;
    char name[];
};

struct aud_asset {
    char name[AUD_ASSET_MAX];
    uint8_t name_len;
    bool in_sums;      /* of the present record */
    uint32_t sum_next; /* index + 1 of the next asset that is */
    ron_u128 supply;
    ron_u128 credits; /* of the present record */
    ron_u128 debits;
    ron_u128 total; /* of all balances; computed at the end */
    ron_u128 held;
    struct aud_place sum_place;
};

/* An entry on its way: read, then prepared, then applied. */
struct aud_item {
    struct aud_entry e; /* kind 0: it could not be read, and only stands for its place */
    struct aud_links links;
    struct aud_place place;
    uint64_t now_ms;
    uint16_t flags; /* of the record */
    bool ends_record;
    uint64_t account_print;
    uint64_t to_print;
    uint64_t id_print;
    uint64_t nonce_print;
};

struct aud_book {
    struct aud_seed seed;
    struct aud_findings *findings;
    struct aud_unique unique;
    uint64_t now_ms; /* latest of all records */

    struct aud_store store;
    struct aud_map accounts;
    struct aud_map holds;
    struct aud_map originals; /* entries that some Reverse names */
    uint32_t holds_free;
    bool refs_known;

    struct aud_asset *assets;
    uint32_t asset_count;
    uint32_t asset_cap;
    uint32_t asset_last;   /* found last; entries of one asset follow each other */
    uint16_t *asset_slots; /* index + 1 by hash */
    uint32_t sum_first;    /* index + 1 of an asset with credits or debits in the present record */
};

RON_MUST_USE enum ron_rc aud_book_init(struct aud_book *b, const struct aud_seed *seed,
                                       uint64_t horizon_ms, struct aud_findings *findings);
void aud_book_done(struct aud_book *b);

/* Announces the id that a Reverse names; aud_book_refs_known after the last one. */
RON_MUST_USE enum ron_rc aud_book_want(struct aud_book *b, struct ron_str id);
void aud_book_refs_known(struct aud_book *b);

/* Hashes, and asks memory for what apply will look at; two steps, some entries apart. */
void aud_book_prepare(struct aud_book *b, struct aud_item *item);
void aud_book_prefetch(const struct aud_book *b, const struct aud_item *item);
RON_MUST_USE enum ron_rc aud_book_apply(struct aud_book *b, const struct aud_item *item);

/* The sums of the whole: supply and holds. `place` is the end of the journal. */
void aud_book_finish(struct aud_book *b, const struct aud_place *place);

/* Calls `see` for each balance that is not zero, sorted by account and asset. */
typedef void aud_book_see(void *arg, struct ron_str account, struct ron_str asset,
                          const struct aud_line *line);
RON_MUST_USE enum ron_rc aud_book_each(const struct aud_book *b, aud_book_see *see, void *arg);

uint64_t aud_book_bytes(const struct aud_book *b);
