/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/table/key.h - accounts and idempotency keys as 128 bits under a random key of this
 * process.
 *
 * Place: wallet; pure. Tables keep these instead of names: a slot is small and fixed, and nobody
 * outside can aim at a bucket. Two names with one key would need some 2^64 names; even then the
 * ledger, which compares names, decides. */
#pragma once

#include <stdint.h>

#include "ron/base/json.h"

struct wlt_key {
    uint64_t a;
    uint64_t b;
};
struct wlt_secret {
    uint8_t bytes[16];
};

enum {
    WLT_SHARDS_MAX = 1024, /* of any table; more than that many threads never run at once */
};

/* `kind` keeps tables apart; parts are joined so that no two lists of parts look alike. Of an
 * account alone `b` is not looked at. Parts may have any length. */
enum wlt_key_kind { WLT_KEY_ACCOUNT, WLT_KEY_ACCOUNT_ASSET, WLT_KEY_IDEM };
struct wlt_key wlt_key_of(const struct wlt_secret *secret, enum wlt_key_kind kind, struct ron_str a,
                          struct ron_str b);
/* WLT_KEY_ACCOUNT_ASSET of the account whose own key is known. */
struct wlt_key wlt_key_pair(struct wlt_key account, struct ron_str asset);

static inline bool wlt_key_eq(struct wlt_key x, struct wlt_key y)
{
    return x.a == y.a && x.b == y.b;
}
