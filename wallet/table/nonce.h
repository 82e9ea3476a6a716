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
 *   N3. No lock, no allocation after wal_nonces_new; the number of slots is fixed. A slot with a
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

struct wal_nonces;

/* Requests above are UNTRACKED. An account that used ten thousand nonces a second, one after the
 * other, would get there in 55 years. */
#define WAL_NONCE_TRACKED_MAX ((UINT64_C(1) << 44) - 1)

enum { WAL_NONCE_SLOTS_MAX = 1 << 26 }; /* 2 GiB */

/* slots: of all shards together, rounded up to a power of two for each, at least one set. Takes 32
 * bytes a slot. RON_INVALID: shards is not of 1..WAL_SHARDS_MAX or slots is above its maximum. */
RON_MUST_USE enum ron_rc wal_nonces_new(uint32_t shards, uint32_t slots, struct wal_nonces **ret,
                                        struct ron_err *err);
/* Also fine on NULL. */
void wal_nonces_free(struct wal_nonces *n);

enum wal_nonce_verdict {
    WAL_NONCE_RESERVED,  /* the ticket must be settled */
    WAL_NONCE_UNTRACKED, /* no slot: nothing to settle */
    WAL_NONCE_ASK,       /* the last one is not known: learn it, then reserve again */
    WAL_NONCE_PENDING,   /* another one is in flight */
    WAL_NONCE_WRONG,     /* not the next; *ret_expected is */
};
struct wal_nonce_ticket {
    void *slot;
    uint64_t word;
};
/* The ticket is written when RESERVED, and zeroed when UNTRACKED: settling that one does
 * nothing. */
RON_MUST_USE enum wal_nonce_verdict wal_nonce_reserve(struct wal_nonces *n, struct wal_key account,
                                                      uint64_t nonce,
                                                      struct wal_nonce_ticket *ret_ticket,
                                                      uint64_t *ret_expected);
void wal_nonce_learn(struct wal_nonces *n, struct wal_key account, uint64_t last);

enum wal_settle { WAL_COMMITTED, WAL_REFUSED, WAL_UNKNOWN };
void wal_nonce_settle(struct wal_nonces *n, struct wal_nonce_ticket ticket, enum wal_settle how);
/* The ledger knows better: what is not reserved becomes UNKNOWN. */
void wal_nonce_forget(struct wal_nonces *n, struct wal_key account);
/* The same for all accounts. */
void wal_nonce_forget_all(struct wal_nonces *n);
