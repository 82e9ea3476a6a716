/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/table/nonce.h - the last nonce of each account, reserved by compare-and-set.
 *
 * Place: wallet. The ledger is the truth (account_nonce: strictly the last + 1); this table answers
 * early, lets one of many rivals through, and never lets two requests for one nonce be in flight.
 *
 *     UNKNOWN --learn(last)--> IDLE(last) --reserve(last + 1)--> RESERVED(last + 1)
 *     RESERVED(n) --committed--> IDLE(n)    --refused--> IDLE(n - 1)    --unknown--> UNKNOWN
 *     IDLE --forgotten, to make room--> UNKNOWN
 *
 * Rules:
 *   N1. At most one reservation of an account at a time; of rivals for one nonce exactly one wins.
 *   N2. What is not settled by a definite word of the ledger becomes UNKNOWN, and the ledger is
 *       asked before the account goes on. learn changes UNKNOWN only: old news never overwrite.
 *   N3. No lock, no allocation after wlt_nonces_new; the number of slots is fixed. A slot with a
 *       reservation is never given to another account. When no slot can be had, the request is
 *       UNTRACKED: it goes on, and the ledger alone decides.
 *   N4. A settled ticket whose slot has changed meanwhile changes nothing.
 *
 * Layout: `shards` arrays of slots {word, key}; a key belongs to a small set of slots of its shard.
 * The word holds nonce, state and a count of reservations and takeovers, so that a compare-and-set
 * on a slot that was given away, or reserved again, fails. UNKNOWN has no slot. Who learns takes
 * the set's turn, so that an account never gets two slots; nobody waits for a turn: news that
 * come while another one has it are dropped, and the account is ASKed for again. Threads: any. */
#pragma once

#include "ron/base/rc.h"
#include "wallet/table/key.h"

struct wlt_nonces;

/* Requests above are UNTRACKED. An account that used ten thousand nonces a second, one after the
 * other, would get there in 55 years. */
#define WLT_NONCE_TRACKED_MAX ((UINT64_C(1) << 44) - 1)

enum { WLT_NONCE_SLOTS_MAX = 1 << 26 }; /* 2 GiB */

/* slots: of all shards together, rounded up to a power of two for each, at least one set. Takes 32
 * bytes a slot. RON_INVALID: shards is not of 1..WLT_SHARDS_MAX or slots is above its maximum. */
RON_MUST_USE enum ron_rc wlt_nonces_new(uint32_t shards, uint32_t slots, struct wlt_nonces **ret,
                                        struct ron_err *err);
/* Also fine on NULL. */
void wlt_nonces_free(struct wlt_nonces *n);

enum wlt_nonce_verdict {
    WLT_NONCE_RESERVED,  /* the ticket must be settled */
    WLT_NONCE_UNTRACKED, /* no slot: nothing to settle */
    WLT_NONCE_ASK,       /* the last one is not known: learn it, then reserve again */
    WLT_NONCE_PENDING,   /* another one is in flight */
    WLT_NONCE_WRONG,     /* not the next; *ret_expected is */
};
struct wlt_nonce_ticket {
    void *slot;
    uint64_t word;
};
/* The ticket is written when RESERVED, and zeroed when UNTRACKED: settling that one does
 * nothing. */
RON_MUST_USE enum wlt_nonce_verdict wlt_nonce_reserve(struct wlt_nonces *n, struct wlt_key account,
                                                      uint64_t nonce,
                                                      struct wlt_nonce_ticket *ret_ticket,
                                                      uint64_t *ret_expected);
void wlt_nonce_learn(struct wlt_nonces *n, struct wlt_key account, uint64_t last);

enum wlt_settle { WLT_COMMITTED, WLT_REFUSED, WLT_UNKNOWN };
void wlt_nonce_settle(struct wlt_nonces *n, struct wlt_nonce_ticket ticket, enum wlt_settle how);
/* The ledger knows better: what is not reserved becomes UNKNOWN. */
void wlt_nonce_forget(struct wlt_nonces *n, struct wlt_key account);
/* The same for all accounts. */
void wlt_nonce_forget_all(struct wlt_nonces *n);
