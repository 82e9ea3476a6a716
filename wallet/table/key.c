/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/table/key.c - SipHash-2-4 with 128 bits, one pass for each part.
 *
 * The first part is hashed under the process's secret, the second under what came out of the first.
 * So parts need neither a separator nor a limit, and ("ab", "c") and ("a", "bc") have nothing in
 * common. The key of an account and asset begins with that of the account, so who needs both
 * hashes the account once. */
#include "wallet/table/key.h"

#include <string.h>

#include <sodium.h>

_Static_assert(sizeof(struct wlt_key) == crypto_shorthash_siphashx24_BYTES, "the hash fills a key");
_Static_assert(sizeof(struct wlt_key) == crypto_shorthash_siphashx24_KEYBYTES,
               "and a key keys one");
_Static_assert(sizeof(struct wlt_secret) == crypto_shorthash_siphashx24_KEYBYTES, "as the secret");

static struct wlt_key hash(const void *under, enum wlt_key_kind kind, struct ron_str part)
{
    uint8_t key[crypto_shorthash_siphashx24_KEYBYTES];
    struct wlt_key out;

    memcpy(key, under, sizeof key);
    key[0] ^= (uint8_t)kind;
    (void)crypto_shorthash_siphashx24((uint8_t *)&out, (const uint8_t *)part.ptr, part.len, key);
    return out;
}

struct wlt_key wlt_key_of(const struct wlt_secret *secret, enum wlt_key_kind kind, struct ron_str a,
                          struct ron_str b)
{
    struct wlt_key first = hash(secret->bytes, kind == WLT_KEY_IDEM ? kind : WLT_KEY_ACCOUNT, a);

    return kind == WLT_KEY_ACCOUNT ? first : hash(&first, kind, b);
}

struct wlt_key wlt_key_pair(struct wlt_key account, struct ron_str asset)
{
    return hash(&account, WLT_KEY_ACCOUNT_ASSET, asset);
}
