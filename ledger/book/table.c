/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/book/table.c - the containers of table.h, which states their invariants. */
#include "ledger/book/table.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

_Static_assert(sizeof(struct led_page) == 4096, "a page of slots is a page of memory");

/* ---- blocks ---------------------------------------------------------------------------------- */

void *led_block_make(void)
{
    uint8_t *block = ron_alloc_aligned(LED_BLOCK, LED_BLOCK);

    if (block != NULL) {
        ron_alloc_advise_huge(block, LED_BLOCK);
        for (size_t i = 0; i < LED_BLOCK; i += sizeof(struct led_page)) {
            block[i] = 0;
        }
    }
    return block;
}

void led_blocks_add_spare(struct led_blocks *blocks, void *take_block)
{
    if (blocks->spare_count < LED_SPARES_MAX) {
        blocks->spares[blocks->spare_count++] = take_block;
    } else {
        ron_free(take_block);
    }
}

void led_blocks_rest(struct led_blocks *blocks)
{
    led_blocks_done(blocks);
    blocks->is_growing = false;
}

void led_blocks_done(struct led_blocks *blocks)
{
    while (blocks->spare_count > 0) {
        ron_free(blocks->spares[--blocks->spare_count]);
    }
}

/* `full` is the last one of the same owner, NULL when this is its first. */
static uint8_t *take_block(struct led_blocks *blocks, uint8_t *full)
{
    if (full == NULL) {
        return ron_alloc_aligned(LED_BLOCK, LED_BLOCK);
    }
    blocks->is_growing = true;
    ron_alloc_advise_huge(full, LED_BLOCK); /* It is all touched: nobody waits. */
    if (blocks->spare_count > 0) {
        blocks->given++;
        return blocks->spares[--blocks->spare_count];
    }
    return blocks->may_stall ? led_block_make() : ron_alloc_aligned(LED_BLOCK, LED_BLOCK);
}

/* Room for one more pointer in an array that doubles. */
static enum ron_rc make_room(uint8_t ***array, uint32_t count, uint32_t *room)
{
    uint32_t more = *room == 0 ? 16 : 2 * *room;
    uint8_t **wide;

    if (count < *room) {
        return RON_OK;
    }
    wide = ron_realloc_array(*array, more, sizeof *wide);
    if (wide == NULL) {
        return RON_NOMEM;
    }
    *array = wide;
    *room = more;
    return RON_OK;
}

/* ---- pool of pages --------------------------------------------------------------------------- */

enum { SLAB_PAGES = LED_BLOCK / sizeof(struct led_page) };

void led_pool_init(struct led_pool *p, struct led_blocks *blocks)
{
    *p = (struct led_pool){.blocks = blocks, .carved = SLAB_PAGES};
}

static enum ron_rc add_slab(struct led_pool *p)
{
    uint8_t *slab;

    RON_TRY(make_room(&p->slabs, p->slab_count, &p->slab_room));
    slab = take_block(p->blocks, p->slab_count > 0 ? p->slabs[p->slab_count - 1] : NULL);
    if (slab == NULL) {
        return RON_NOMEM;
    }
    p->slabs[p->slab_count++] = slab;
    p->carved = 0;
    return RON_OK;
}

static struct led_page *new_page(struct led_pool *p, uint32_t depth)
{
    struct led_page *page = p->free;

    if (page != NULL) {
        memcpy(&p->free, page->slots, sizeof(void *));
    } else {
        if (p->carved == SLAB_PAGES && add_slab(p) != RON_OK) {
            return NULL;
        }
        page = (void *)(p->slabs[p->slab_count - 1] + p->carved++ * sizeof *page);
    }
    memset(page, 0, sizeof *page);
    page->depth = depth;
    return page;
}

static void release_page(struct led_pool *p, struct led_page *page)
{
    memcpy(page->slots, &p->free, sizeof(void *));
    p->free = page;
}

void led_pool_done(struct led_pool *p)
{
    for (uint32_t i = 0; i < p->slab_count; i++) {
        ron_free(p->slabs[i]);
    }
    ron_free(p->slabs);
    *p = (struct led_pool){.carved = SLAB_PAGES};
}

/* ---- pages ----------------------------------------------------------------------------------- */

static inline uint32_t hash_of(uint64_t value)
{
    return (uint32_t)(value >> 32);
}

/* The first empty slot on the probe path takes the value. */
static void place(struct led_page *page, uint64_t value)
{
    uint32_t at = led__slot_of(hash_of(value));

    while (page->slots[at] != 0) {
        at = led__slot_after(at);
    }
    page->slots[at] = value;
    page->used++;
}

enum ron_rc led_table_init(struct led_table *t, struct led_pool *pool)
{
    struct led_page **pages = ron_alloc_array(1, sizeof(void *));

    if (pages == NULL) {
        return RON_NOMEM;
    }
    pages[0] = new_page(pool, 0);
    if (pages[0] == NULL) {
        ron_free(pages);
        return RON_NOMEM;
    }
    *t = (struct led_table){.pages = pages, .pool = pool, .page_count = 1};
    return RON_OK;
}

bool led_table_done_some(struct led_table *t, size_t *cursor, size_t pages_max)
{
    size_t size = (size_t)1 << t->depth;

    if (t->pages == NULL) {
        return true;
    }
    for (; *cursor < size && pages_max > 0; pages_max--) {
        struct led_page *page = t->pages[*cursor];

        *cursor += (size_t)1 << (t->depth - page->depth); /* T2 */
        release_page(t->pool, page);
    }
    if (*cursor < size) {
        return false;
    }
    ron_free(t->pages);
    *t = (struct led_table){0};
    return true;
}

void led_table_done(struct led_table *t)
{
    size_t cursor = 0;
    bool all = led_table_done_some(t, &cursor, SIZE_MAX);

    RON_ASSERT(all);
}

static enum ron_rc double_directory(struct led_table *t)
{
    size_t size = (size_t)1 << t->depth;
    struct led_page **wide;

    if (t->depth == LED_DEPTH_MAX) {
        return RON_LIMIT;
    }
    wide = ron_alloc_array(2 * size, sizeof(void *));
    if (wide == NULL) {
        return RON_NOMEM;
    }
    for (size_t i = 0; i < size; i++) {
        wide[2 * i] = t->pages[i];
        wide[2 * i + 1] = t->pages[i];
    }
    ron_free(t->pages);
    t->pages = wide;
    t->depth++;
    return RON_OK;
}

/* Parts the page of that hash in two by the next bit of the hashes in it. */
static enum ron_rc split(struct led_table *t, uint32_t hash)
{
    struct led_page *page = led__page_of(t, hash);
    struct led_page *upper;
    struct led_page old;
    uint32_t span;
    uint32_t first;

    if (page->depth == t->depth) {
        RON_TRY(double_directory(t));
    }
    upper = new_page(t->pool, page->depth + 1);
    if (upper == NULL) {
        return RON_NOMEM;
    }
    span = 1u << (t->depth - page->depth);
    first = (uint32_t)((uint64_t)hash >> (32 - t->depth)) & ~(span - 1);
    for (uint32_t i = first + span / 2; i < first + span; i++) {
        t->pages[i] = upper;
    }
    old = *page;
    memset(page, 0, sizeof *page);
    page->depth = old.depth + 1;
    for (uint32_t i = 0; i < LED_PAGE_SLOTS; i++) {
        if (old.slots[i] != 0) {
            bool high = (old.slots[i] >> (63 - old.depth) & 1) != 0;

            place(high ? upper : page, old.slots[i]);
        }
    }
    t->page_count++;
    return RON_OK;
}

/* The page of that hash, with room for one more. */
static inline enum ron_rc page_with_room(struct led_table *t, uint32_t hash,
                                         struct led_page **ret_page)
{
    struct led_page *page = led__page_of(t, hash);

    while (RON_UNLIKELY(page->used >= LED_PAGE_FILL_MAX)) {
        RON_TRY(split(t, hash));
        page = led__page_of(t, hash);
    }
    *ret_page = page;
    return RON_OK;
}

/* The slot of that value, or of where it would go. */
static inline uint32_t probe(const struct led_page *page, uint64_t value)
{
    uint32_t at = led__slot_of(hash_of(value));

    while (page->slots[at] != 0 && page->slots[at] != value) {
        at = led__slot_after(at);
    }
    return at;
}

static uint32_t way(uint32_t from, uint32_t to)
{
    return to >= from ? to - from : to + LED_PAGE_SLOTS - from;
}

/* T3: a follower moves into the hole unless its own slot lies behind the hole on the path. */
static void close_hole(struct led_page *page, uint32_t hole)
{
    for (uint32_t at = led__slot_after(hole); page->slots[at] != 0; at = led__slot_after(at)) {
        if (way(led__slot_of(hash_of(page->slots[at])), at) >= way(hole, at)) {
            page->slots[hole] = page->slots[at];
            hole = at;
        }
    }
    page->slots[hole] = 0;
    page->used--;
}

static bool remove_value(struct led_table *t, uint64_t value)
{
    struct led_page *page = led__page_of(t, hash_of(value));
    uint32_t at = probe(page, value);

    if (page->slots[at] == 0) {
        return false;
    }
    close_hole(page, at);
    t->count--;
    return true;
}

size_t led_table_memory(const struct led_table *t)
{
    return ((size_t)1 << t->depth) * sizeof(void *) + t->page_count * sizeof(struct led_page);
}

/* ---- map ------------------------------------------------------------------------------------- */

static uint64_t map_value(uint32_t hash, uint32_t index)
{
    RON_ASSERT(index != LED_TABLE_NONE);
    return (uint64_t)hash << 32 | (index + 1);
}

enum ron_rc led_table_add(struct led_table *t, uint32_t hash, uint32_t index)
{
    struct led_page *page;

    RON_TRY(page_with_room(t, hash, &page));
    place(page, map_value(hash, index));
    t->count++;
    return RON_OK;
}

void led_table_remove(struct led_table *t, uint32_t hash, uint32_t index)
{
    bool was_there = remove_value(t, map_value(hash, index));

    RON_ASSERT(was_there);
}

/* ---- set ------------------------------------------------------------------------------------- */

bool led_set_has(const struct led_table *t, uint64_t value)
{
    const struct led_page *page;

    value += value == 0;
    page = led__page_of(t, hash_of(value));
    return page->slots[probe(page, value)] != 0;
}

enum ron_rc led_set_add(struct led_table *t, uint64_t value, bool *ret_new)
{
    struct led_page *page;
    uint32_t at;

    value += value == 0;
    RON_TRY(page_with_room(t, hash_of(value), &page));
    at = probe(page, value);
    *ret_new = page->slots[at] == 0;
    if (*ret_new) {
        page->slots[at] = value;
        page->used++;
        t->count++;
    }
    return RON_OK;
}

bool led_set_remove(struct led_table *t, uint64_t value)
{
    return remove_value(t, value != 0 ? value : 1);
}

/* ---- store ----------------------------------------------------------------------------------- */

void led_store_init(struct led_store *s, struct led_blocks *blocks, size_t item_size,
                    uint32_t chunk_shift, uint32_t count_max)
{
    *s = (struct led_store){.blocks = blocks,
                            .item_size = (uint32_t)item_size,
                            .chunk_shift = chunk_shift,
                            .count_max = count_max};
}

void led_store_done(struct led_store *s)
{
    for (uint32_t i = 0; i < s->chunk_count; i++) {
        ron_free(s->chunks[i]);
    }
    ron_free(s->chunks);
    *s = (struct led_store){0};
}

static enum ron_rc add_chunk(struct led_store *s)
{
    size_t size = (size_t)s->item_size << s->chunk_shift;
    uint8_t *chunk;

    RON_TRY(make_room(&s->chunks, s->chunk_count, &s->chunk_room));
    if (size == LED_BLOCK) {
        chunk = take_block(s->blocks, s->chunk_count > 0 ? s->chunks[s->chunk_count - 1] : NULL);
    } else {
        chunk = ron_alloc(size);
    }
    if (chunk == NULL) {
        return RON_NOMEM;
    }
    s->chunks[s->chunk_count++] = chunk;
    return RON_OK;
}

enum ron_rc led_store_push(struct led_store *s, uint32_t *ret_index)
{
    if (s->count == s->count_max) {
        return RON_FULL;
    }
    if (s->count >> s->chunk_shift == s->chunk_count) {
        RON_TRY(add_chunk(s));
    }
    memset(led_store_at(s, s->count), 0, s->item_size);
    *ret_index = s->count++;
    return RON_OK;
}

void led_store_pop(struct led_store *s)
{
    RON_ASSERT(s->count > 0);
    s->count--;
}

size_t led_store_memory(const struct led_store *s)
{
    return s->chunk_count * ((size_t)s->item_size << s->chunk_shift) +
           s->chunk_room * sizeof *s->chunks;
}
