/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/entry/key.h - keyed hashes of names, by which accounts, ids and idem_ids are found.
 *
 * Place: ledger; pure. Book, index, pipeline and recovery share one secret hash key, so a name has
 * the same hash in all of them. Threads: any; no state. */
#pragma once

#include <stdint.h>

#include "ron/base/json.h"

struct led_key {
    uint64_t a;
    uint64_t b;
};

struct led_key led__key(const uint8_t hash_key[16], struct ron_str text);
/* The key of an idem_id, as the index, the sequencer and recovery know it: that of an entry's id
 * with the same text. */
struct led_key led_idem_key(const uint8_t hash_key[16], struct ron_str idem_id);
