/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/book/table.h - the containers under the book: a hash table that grows page by page, the
 * pool that its pages come from, and a numbered store of records that grows chunk by chunk.
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
 *   T1. a page is filled to at most 3/4, so that a probe ends, and soon: a lookup in vain looks at
 *       8 slots in the mean when it is fullest, at 2 just after a split.
 *   T2. pages of the directory that are one page are neighbours, 2^(depth - page depth) of them.
 *   T3. a key is found by probing its page from its slot up to the first empty slot; removal moves
 *       followers back instead of leaving a mark.
 *   P1. an index of the store stays valid, and its record stays where it is, until it is popped.
 *
 * Lookups of random keys wait for memory, not for the processor: a caller that knows its keys ahead
 * prefetches their slots, and with led_table_peek their records.
 *
 * Why not ron_map: a slot is 8 bytes next to its neighbours and is prefetched by its hash; a map
 * node is 48 bytes inside the record, so that a lookup would wait for the record itself.
 *
 * Hashes must be keyed by a secret when strangers choose the keys. Threads: one at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/macros.h"
#include "ron/base/rc.h"

enum {
    LED_PAGE_SLOTS = 511,    /* with its head 4 KiB: a split costs some microseconds */
    LED_PAGE_FILL_MAX = 384, /* T1 */
    LED_DEPTH_MAX = 23,      /* with 9 bits for the slot, all 32 bits of the hash */
};

struct led_page {
    uint32_t used;
    uint32_t depth;
    uint64_t slots[LED_PAGE_SLOTS];
};

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Pages and records are carved from blocks of the size of a huge page: half of what a lookup costs
 * is finding the page in the page tables otherwise. But the system may take milliseconds to find a
 * huge page, at the first touch. So blocks are made elsewhere, ahead, and kept as spares; when
 * there is none, the block comes in small pages, a microsecond each, and may be joined by the
 * system later, when it is full. The first block of each kind is of small pages always, so that a
 * small ledger stays small. */
enum {
    LED_BLOCK = 1 << 21,
    LED_SPARES_MAX = 2, /* some 200 ms of growth at a million entries a second */
};

struct led_blocks {
    void *spares[LED_SPARES_MAX];
    uint32_t spare_count;
    uint32_t given;  /* spares that are in use now or were */
    bool may_stall;  /* make huge blocks here and now when no spare is left */
    bool is_growing; /* more than the first blocks were needed: spares are wanted */
};

/* A block of huge pages where there are, touched; NULL: no memory. Any thread; slow. */
void *led_block_make(void);
/* Takes the block in any case; what is too much is freed. */
void led_blocks_add_spare(struct led_blocks *blocks, void *take_block);
/* Growth is over for now: frees the spares, and wants none until there is more. */
void led_blocks_rest(struct led_blocks *blocks);
/* Frees the spares; those who took blocks free them. */
void led_blocks_done(struct led_blocks *blocks);

/* ---- pool of pages --------------------------------------------------------------------------- */

/* Pages of all tables of a book. What is released is kept for the next page. */
struct led_pool {
    struct led_blocks *blocks;
    uint8_t **slabs; /* blocks */
    uint32_t slab_count;
    uint32_t slab_room;
    uint32_t carved; /* pages of the last slab that were given out once */
    struct led_page *free;
};

void led_pool_init(struct led_pool *pool, struct led_blocks *blocks);
/* Tables must be done before their pool. */
void led_pool_done(struct led_pool *pool);

/* ---- table ----------------------------------------------------------------------------------- */

struct led_table {
    struct led_page **pages; /* directory of 2^depth */
    struct led_pool *pool;
    uint32_t depth;
    uint64_t count;
    uint64_t page_count;
};

/* Tells whether the record of that index has the key that is looked for. */
typedef bool led_table_match(const void *owner, uint32_t index, const void *key);

RON_MUST_USE enum ron_rc led_table_init(struct led_table *table, struct led_pool *pool);
/* Also fine on a struct of zeros. */
void led_table_done(struct led_table *table);

/* Releases at most `pages_max` pages, from *cursor (0 at first) on; true when nothing is left. The
 * table must not be used in between: dropping a big table in one go would stall. */
bool led_table_done_some(struct led_table *table, size_t *cursor, size_t pages_max);

static inline struct led_page *led__page_of(const struct led_table *t, uint32_t hash)
{
    return t->pages[(uint64_t)hash >> (32 - t->depth)];
}

/* The slot where probing begins; 511 is one more than there are. */
static inline uint32_t led__slot_of(uint32_t hash)
{
    uint32_t at = hash & LED_PAGE_SLOTS;

    return at != LED_PAGE_SLOTS ? at : 0;
}

static inline uint32_t led__slot_after(uint32_t at)
{
    return at + 1 != LED_PAGE_SLOTS ? at + 1 : 0;
}

/* Inlined by force: gcc takes a function that only prefetches for one without effect and drops the
 * call. */
__attribute__((always_inline)) static inline void led_table_prefetch(const struct led_table *t,
                                                                     uint32_t hash)
{
    __builtin_prefetch(&led__page_of(t, hash)->slots[led__slot_of(hash)], 1);
}

/* For one that will be added: the count of the page is needed too. */
__attribute__((always_inline)) static inline void led_set_prefetch(const struct led_table *t,
                                                                   uint64_t value)
{
    __builtin_prefetch(led__page_of(t, (uint32_t)(value >> 32)), 1);
    led_table_prefetch(t, (uint32_t)(value >> 32));
}

/* Map. LED_TABLE_NONE when there is none. */
#define LED_TABLE_NONE UINT32_MAX

static inline uint32_t led_table_find(const struct led_table *t, uint32_t hash,
                                      led_table_match *match, const void *owner, const void *key)
{
    const struct led_page *page = led__page_of(t, hash);
    uint64_t value;

    for (uint32_t at = led__slot_of(hash); (value = page->slots[at]) != 0;
         at = led__slot_after(at)) {
        if ((uint32_t)(value >> 32) == hash && match(owner, (uint32_t)value - 1, key)) {
            return (uint32_t)value - 1;
        }
    }
    return LED_TABLE_NONE;
}

/* The first index under that hash: nearly always the right one, but the key was not compared. */
static inline uint32_t led_table_peek(const struct led_table *t, uint32_t hash)
{
    const struct led_page *page = led__page_of(t, hash);
    uint64_t value;

    for (uint32_t at = led__slot_of(hash); (value = page->slots[at]) != 0;
         at = led__slot_after(at)) {
        if ((uint32_t)(value >> 32) == hash) {
            return (uint32_t)value - 1;
        }
    }
    return LED_TABLE_NONE;
}

/* The key must not be there. RON_NOMEM or RON_LIMIT: nothing changed. */
RON_MUST_USE enum ron_rc led_table_add(struct led_table *table, uint32_t hash, uint32_t index);
/* Removes hash and index, which must be there. */
void led_table_remove(struct led_table *table, uint32_t hash, uint32_t index);

/* Set of fingerprints; the value 0 stands for 1. */
bool led_set_has(const struct led_table *table, uint64_t value);
/* Adds it unless it is there: *ret_new. */
RON_MUST_USE enum ron_rc led_set_add(struct led_table *table, uint64_t value, bool *ret_new);
/* Whether it was there. */
bool led_set_remove(struct led_table *table, uint64_t value);

/* Bytes that the table holds. */
size_t led_table_memory(const struct led_table *table);

/* ---- store ----------------------------------------------------------------------------------- */

struct led_store {
    struct led_blocks *blocks; /* for chunks of exactly LED_BLOCK */
    uint8_t **chunks;
    uint32_t chunk_count;
    uint32_t chunk_room;
    uint32_t item_size;
    uint32_t chunk_shift; /* items per chunk = 2^shift */
    uint32_t count;
    uint32_t count_max;
};

void led_store_init(struct led_store *store, struct led_blocks *blocks, size_t item_size,
                    uint32_t chunk_shift, uint32_t count_max);
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
