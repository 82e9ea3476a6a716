/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/entry/key.c - keyed hashes of names; the contract is in key.h. */
#include "ledger/entry/key.h"

#include <sodium.h>
#include <string.h>

struct led_key led__key(const uint8_t hash_key[16], struct ron_str text)
{
    uint8_t out[crypto_shorthash_siphashx24_BYTES];
    struct led_key key;

    (void)crypto_shorthash_siphashx24(out, (const unsigned char *)text.ptr, text.len, hash_key);
    memcpy(&key, out, sizeof key);
    return key;
}

struct led_key led_idem_key(const uint8_t hash_key[16], struct ron_str idem_id)
{
    return led__key(hash_key, idem_id);
}
