/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/table/cache.h - balances that the ledger told us, marked when it says that they changed.
 *
 * Place: wallet. A value is true as of `seq`. The invalidator marks an account's values that are
 * older than a change (seq above theirs) as outdated; they stay, so that a reader can still be told
 * something while the ledger is silent, until a newer value takes their place. A value that arrives
 * late is outdated from the start when a change above it is already known. How fresh a value that
 * is not outdated is, is for the reader to say (task/follow.c): the table knows no clock but the
 * time that it is given.
 *
 * Rules:
 *   B1. After wlt_cache_changed(account, s) returns, wlt_cache_get gives every value of that
 *       account with seq < s as outdated, also one that is put later.
 *   B2. Fixed memory: the value that was not used for longest in its set makes room. A value never
 *       replaces a newer one of the same account and asset.
 *   B3. wlt_cache_flush(s) is wlt_cache_changed for every account.
 * Threads: any; one short lock (rank SHARED) per shard: get, put and changed never nest. Values of
 * all assets of an account stand in one shard. */
#pragma once

#include "ron/base/money.h"
#include "ron/base/rc.h"
#include "wallet/table/key.h"

struct wlt_cache;

struct wlt_balance {
    struct ron_money available;
    struct ron_money held;
    uint64_t seq;       /* as of which it is true */
    uint64_t last_seq;  /* newest entry of the account: the value's version */
    uint64_t loaded_ms; /* monotonic, when the question for it was sent */
    /* 0: no change came to our ears that made it untrue. Else, monotonic, until when it is known to
     * have been true: what wlt_cache_changed was told, or loaded_ms if that is later. Ignored by
     * wlt_cache_put. */
    uint64_t outdated_ms;
};

enum { WLT_CACHE_VALUES_MAX = 1 << 25 }; /* 3 GiB */

/* values: of all shards together, rounded up to whole sets. Takes 96 bytes a value. RON_INVALID:
 * shards is not of 1..WLT_SHARDS_MAX or values not of 1..WLT_CACHE_VALUES_MAX. */
RON_MUST_USE enum ron_rc wlt_cache_new(uint32_t shards, uint32_t values, struct wlt_cache **ret,
                                       struct ron_err *err);
/* Also fine on NULL. */
void wlt_cache_free(struct wlt_cache *c);

bool wlt_cache_get(struct wlt_cache *c, struct wlt_key account, struct wlt_key account_asset,
                   struct wlt_balance *ret);
void wlt_cache_put(struct wlt_cache *c, struct wlt_key account, struct wlt_key account_asset,
                   const struct wlt_balance *balance);
/* `true_ms`: as of when everything that is not outdated is known to be true. Not the time at which
 * the change was heard of: it may have happened long before. */
void wlt_cache_changed(struct wlt_cache *c, struct wlt_key account, uint64_t seq, uint64_t true_ms);
void wlt_cache_flush(struct wlt_cache *c, uint64_t seq, uint64_t true_ms);
/* The account will be asked for: lets the processor fetch its memory. Who comes with many accounts
 * says so for all of them first, and does not wait for each. */
void wlt_cache_expect(const struct wlt_cache *c, struct wlt_key account);
/* Forgets values and changes: their seqs are of another journal. */
void wlt_cache_clear(struct wlt_cache *c);

struct wlt_cache_stats {
    uint64_t values;
    uint64_t hits_total;
    uint64_t misses_total;
    uint64_t outdated_total; /* marked by changes and flushes */
    uint64_t evicted_total;
};
struct wlt_cache_stats wlt_cache_stats(const struct wlt_cache *c);
