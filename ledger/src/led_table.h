/* SPDX-License-Identifier: Apache-2.0 */
/* led_table.h - the two containers under the book: a hash table that grows page by page, and a
 * numbered store of records that grows chunk by chunk.
 *
 * Why not one array that doubles: moving a million slots at once stalls everybody. Here the longest
 * step is the split of one page (LED_PAGE_SLOTS slots), the doubling of the directory of pages
 * (8 bytes a page), or one fresh chunk.
 *
 * Table: extendible hashing. The upper bits of a 32-bit hash choose the page through a directory,
 * the lower bits the slot, from which probing is linear within the page. A slot is 64 bits, 0 =
 * empty, and its upper half is the hash:
 *     map:  hash << 32 | index + 1       equal hashes are told apart by the owner of the records
 *     set:  a 64-bit fingerprint, never 0
 *
 * Invariants:
 *   T1. a page is filled to at most 7/8, so that a probe ends.
 *   T2. pages of the directory that are one page are neighbours, 2^(depth - page depth) of them.
 *   T3. a key is found by probing its page from its slot up to the first empty slot; removal moves
 *       followers back instead of leaving a mark.
 *   P1. an index of the store stays valid, and its record stays where it is, until it is popped.
 *
 * Hashes must be keyed by a secret when strangers choose the keys. Threads: one at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/macros.h"
#include "ron/base/rc.h"

enum {
    LED_PAGE_SLOTS = 512,    /* 4 KiB: a split costs some microseconds */
    LED_PAGE_FILL_MAX = 448, /* T1 */
    LED_DEPTH_MAX = 23,      /* with 9 bits for the slot, all 32 bits of the hash */
};

struct led_page {
    uint32_t used;
    uint32_t depth;
    uint64_t slots[LED_PAGE_SLOTS];
};

struct led_table {
    struct led_page **pages; /* directory of 2^depth */
    uint32_t depth;
    uint64_t count;
    uint64_t page_count;
};

/* Tells whether the record of that index has the key that is looked for. */
typedef bool led_table_match(const void *owner, uint32_t index, const void *key);

RON_MUST_USE enum ron_rc led_table_init(struct led_table *table);
/* Also fine on a struct of zeros. */
void led_table_done(struct led_table *table);

/* Releases at most `pages_max` pages, from *cursor (0 at first) on; true when nothing is left. The
 * table must not be used in between: dropping a big table in one go would stall. */
bool led_table_done_some(struct led_table *table, size_t *cursor, size_t pages_max);

/* Map. LED_TABLE_NONE when there is none. */
#define LED_TABLE_NONE UINT32_MAX
uint32_t led_table_find(const struct led_table *table, uint32_t hash, led_table_match *match,
                        const void *owner, const void *key);
/* The key must not be there. RON_NOMEM or RON_LIMIT: nothing changed. */
RON_MUST_USE enum ron_rc led_table_add(struct led_table *table, uint32_t hash, uint32_t index);
/* Removes hash and index, which must be there. */
void led_table_remove(struct led_table *table, uint32_t hash, uint32_t index);

/* Set of fingerprints; the value 0 stands for 1. */
bool led_set_has(const struct led_table *table, uint64_t value);
RON_MUST_USE enum ron_rc led_set_add(struct led_table *table, uint64_t value);
/* Whether it was there. */
bool led_set_remove(struct led_table *table, uint64_t value);

/* Bytes that the table holds. */
size_t led_table_memory(const struct led_table *table);

/* ---- store ----------------------------------------------------------------------------------- */

struct led_store {
    uint8_t **chunks;
    uint32_t chunk_count;
    uint32_t chunk_room;
    uint32_t item_size;
    uint32_t chunk_shift; /* items per chunk = 2^shift */
    uint32_t count;
    uint32_t count_max;
};

void led_store_init(struct led_store *store, size_t item_size, uint32_t chunk_shift,
                    uint32_t count_max);
void led_store_done(struct led_store *store);
/* A zeroed record at the end. RON_FULL at the maximum, RON_NOMEM. */
RON_MUST_USE enum ron_rc led_store_push(struct led_store *store, uint32_t *ret_index);
/* Forgets the last record; its chunk is kept for the next. */
void led_store_pop(struct led_store *store);
size_t led_store_memory(const struct led_store *store);

static inline void *led_store_at(const struct led_store *store, uint32_t index)
{
    uint32_t within = index & ((1u << store->chunk_shift) - 1);

    return store->chunks[index >> store->chunk_shift] + (size_t)within * store->item_size;
}
