/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/table/daily.h - how much was debited from an account and asset on this UTC day.
 *
 * Place: wallet. Amounts are counted before they are sent and given back on a definite refusal;
 * what ends unknown stays counted until the ledger is asked again. The sum of earlier debits is
 * read from the ledger when a pair is touched first on a day (or again after it was forgotten),
 * and once more when a sum that holds amounts that ended unknown would refuse: then nothing is in
 * flight, the pair is not known any more, and what the ledger says replaces the sum.
 *
 * Rules:
 *   D1. sum <= ceiling after every reservation that was let through.
 *   D2. learn counts only while the pair is not known for that day; reservations wait for it.
 *   D3. Fixed memory: the pair that was not used for longest and has nothing reserved makes room.
 *       When none can, UNTRACKED: the request goes on uncounted, and a counter says so.
 *   D4. A pair goes from day to day forwards only. Who comes with an earlier day (it began before
 *       midnight, or the clock was set back) is counted on the pair's day, as what ended unknown
 *       is; when that day's sum is not known, it is UNTRACKED.
 * Threads: any; one short lock (rank leaf) per shard, never held across anything else. */
#pragma once

#include "ron/base/money.h"
#include "ron/base/rc.h"
#include "wallet/table/key.h"
#include "wallet/table/nonce.h"

struct wlt_daily;

enum { WLT_DAILY_PAIRS_MAX = 1 << 26 }; /* 4 GiB */

/* pairs: of all shards together. Takes 64 bytes a pair and 4 to 8 bytes for its chain. RON_INVALID:
 * shards is not of 1..WLT_SHARDS_MAX or pairs not of 1..WLT_DAILY_PAIRS_MAX. */
RON_MUST_USE enum ron_rc wlt_daily_new(uint32_t shards, uint32_t pairs, struct wlt_daily **ret,
                                       struct ron_err *err);
/* Also fine on NULL. */
void wlt_daily_free(struct wlt_daily *d);

enum wlt_daily_verdict { WLT_DAILY_OK, WLT_DAILY_UNTRACKED, WLT_DAILY_ASK, WLT_DAILY_EXCEEDED };
/* `day` is the number of the UTC day, below 2^30. EXCEEDED: *ret_left is what the day still
 * allows. */
RON_MUST_USE enum wlt_daily_verdict wlt_daily_reserve(struct wlt_daily *d, struct wlt_key pair,
                                                      uint32_t day, struct ron_money amount,
                                                      struct ron_money ceiling,
                                                      struct ron_money *ret_left);
/* Who was told ASK reads the debits of the day, in pages, newest first; one job at a time, and from
 * where the last one came to: an account may have more of them than one request has time for.
 * False: another job does, ask again a little later. True: the walk is ours until now + lease; it
 * goes on from *ret_page (0: from the newest on), behind *ret_sum. */
RON_MUST_USE bool wlt_daily_walk(struct wlt_daily *d, struct wlt_key pair, uint32_t day,
                                 uint64_t now_ms, uint32_t lease_ms, struct ron_money *ret_sum,
                                 uint64_t *ret_page);
/* The walk has come to `page`, which is above 0, with `sum` behind it, and is ours for another
 * lease. */
void wlt_daily_walked(struct wlt_daily *d, struct wlt_key pair, uint32_t day, struct ron_money sum,
                      uint64_t page, uint64_t now_ms, uint32_t lease_ms);
/* It has come to the end. */
void wlt_daily_learn(struct wlt_daily *d, struct wlt_key pair, uint32_t day,
                     struct ron_money debited);
/* For each reservation that was OK, with the same pair, day and amount. */
void wlt_daily_settle(struct wlt_daily *d, struct wlt_key pair, uint32_t day,
                      struct ron_money amount, enum wlt_settle how);
/* No sum is known any more, and the ledger is asked again; what is in flight then counts as ended
 * unknown. */
/* The pair will be asked for: see wlt_cache_expect. */
void wlt_daily_expect(const struct wlt_daily *d, struct wlt_key pair);
void wlt_daily_forget_all(struct wlt_daily *d);
uint64_t wlt_daily_untracked_total(const struct wlt_daily *d);
