/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/seen.h - which deliveries were taken already: a bounded table of keys with an
 * age.
 *
 * A key is a keyed BLAKE3 of (provider, delivery id) or, when a provider names no delivery, of
 * (provider, hash of the body). The secret is drawn when the store is made and stays with it, so
 * nobody outside can look for two deliveries with one key. No SHA digest and no signature goes in.
 *
 *     unknown --reserve--> reserved --commit--> committed --ttl--> forgotten
 *                              \---release--> unknown
 *
 * Rules:
 *   D1. Of many who reserve a key one gets RON_OK; the others RON_AGAIN while it is reserved,
 *       RON_EXISTS once it is committed.
 *   D2. A commit is what the store has written in the same transaction as the effect; a release
 *       leaves nothing behind, so a failed effect can be tried again.
 *   D3. A committed key is remembered for ttl_ms. When the table is full the oldest committed key
 *       makes room, but never one younger than keep_ms (twice the window of the signatures): then a
 *       new key is refused (RON_FULL) rather than an old delivery let in again. So a table of n
 *       keys takes n / keep_ms for ever, and more for a while.
 *
 * Memory: 24 bytes of a key and its age, 8 to 16 of the hash table (its size is a power of two);
 * the system gives it as it is used.
 *
 * Threads: any; one lock of rank shared, held for a lookup. Never blocks. */
#pragma once

#include "interop/mailbox/box.h"

enum { IOP_SEEN_MAX = 1 << 26 }; /* 2 GiB: 100,000 a second for ten minutes */

struct iop_seen_opts {
    uint32_t entries_max;
    uint64_t ttl_ms;
    uint64_t keep_ms;
    uint8_t secret[RON_B3_BYTES];
};

struct iop_seen_stats {
    uint64_t committed; /* now */
    uint64_t reserved;  /* now */
    uint64_t evicted;   /* made room before their time */
    uint64_t refused;   /* D3: times, not keys */
    uint64_t duplicates;
};

struct iop_seen;
RON_MUST_USE enum ron_rc iop_seen_new(const struct iop_seen_opts *opts, struct iop_seen **ret_seen,
                                      struct ron_err *err);
void iop_seen_free(struct iop_seen *s);

/* `id` empty: by the hash of the body. */
void iop_seen_key(const struct iop_seen *s, struct ron_str provider, struct ron_str id,
                  const struct ron_b3 *body, struct iop_key *ret_key);

/* Whether it is committed: the cheap look before any work. Counts a duplicate when so. */
bool iop_seen_has(struct iop_seen *s, const struct iop_key *key, uint64_t now_ms);
/* D1, D3. */
RON_MUST_USE enum ron_rc iop_seen_reserve(struct iop_seen *s, const struct iop_key *key,
                                          uint64_t now_ms);
void iop_seen_commit(struct iop_seen *s, const struct iop_key *key);
void iop_seen_release(struct iop_seen *s, const struct iop_key *key);
/* As found in the store, oldest first: committed at once. */
RON_MUST_USE enum ron_rc iop_seen_load(struct iop_seen *s, const struct iop_key *key,
                                       uint64_t at_ms);
/* Forgets what is older than ttl_ms; the time up to which the store may forget too. */
uint64_t iop_seen_expire(struct iop_seen *s, uint64_t now_ms);
/* D3 from now on; at most ttl_ms is taken. What has made room already stays forgotten. */
void iop_seen_set_keep(struct iop_seen *s, uint64_t keep_ms);
void iop_seen_get_stats(struct iop_seen *s, struct iop_seen_stats *ret_stats);
