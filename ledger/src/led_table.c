/* SPDX-License-Identifier: Apache-2.0 */
/* led_table.c - the containers of led_table.h, which states their invariants. */
#include "led_table.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum { SLOT_MASK = LED_PAGE_SLOTS - 1 };

/* ---- pages ----------------------------------------------------------------------------------- */

static inline uint32_t directory_index(const struct led_table *t, uint32_t hash)
{
    return t->depth == 0 ? 0 : hash >> (32 - t->depth);
}

static inline struct led_page *page_of(const struct led_table *t, uint32_t hash)
{
    return t->pages[directory_index(t, hash)];
}

static inline uint32_t slot_of(uint64_t value)
{
    return (uint32_t)(value >> 32) & SLOT_MASK;
}

/* The first empty slot on the probe path takes the value. */
static void place(struct led_page *page, uint64_t value)
{
    uint32_t at = slot_of(value);

    while (page->slots[at] != 0) {
        at = (at + 1) & SLOT_MASK;
    }
    page->slots[at] = value;
    page->used++;
}

enum ron_rc led_table_init(struct led_table *t)
{
    struct led_page **pages = ron_alloc_array(1, sizeof(void *));
    struct led_page *page = ron_alloc_zero(sizeof *page);

    if (pages == NULL || page == NULL) {
        ron_free(pages);
        ron_free(page);
        return RON_NOMEM;
    }
    pages[0] = page;
    *t = (struct led_table){.pages = pages, .page_count = 1};
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
        ron_free(page);
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
    struct led_page *page = page_of(t, hash);
    struct led_page *upper;
    struct led_page old;
    uint32_t span;
    uint32_t first;

    if (page->depth == t->depth) {
        RON_TRY(double_directory(t));
    }
    upper = ron_alloc_zero(sizeof *upper);
    if (upper == NULL) {
        return RON_NOMEM;
    }
    span = 1u << (t->depth - page->depth);
    first = directory_index(t, hash) & ~(span - 1);
    for (uint32_t i = first + span / 2; i < first + span; i++) {
        t->pages[i] = upper;
    }
    old = *page;
    memset(page, 0, sizeof *page);
    page->depth = old.depth + 1;
    upper->depth = old.depth + 1;
    for (uint32_t i = 0; i < LED_PAGE_SLOTS; i++) {
        if (old.slots[i] != 0) {
            bool high = (old.slots[i] >> (63 - old.depth) & 1) != 0;

            place(high ? upper : page, old.slots[i]);
        }
    }
    t->page_count++;
    return RON_OK;
}

static enum ron_rc add(struct led_table *t, uint64_t value)
{
    uint32_t hash = (uint32_t)(value >> 32);

    while (page_of(t, hash)->used >= LED_PAGE_FILL_MAX) {
        RON_TRY(split(t, hash));
    }
    place(page_of(t, hash), value);
    t->count++;
    return RON_OK;
}

/* The slot of that value, or NULL. */
static uint64_t *find_value(const struct led_table *t, uint64_t value)
{
    struct led_page *page = page_of(t, (uint32_t)(value >> 32));

    for (uint32_t at = slot_of(value); page->slots[at] != 0; at = (at + 1) & SLOT_MASK) {
        if (page->slots[at] == value) {
            return &page->slots[at];
        }
    }
    return NULL;
}

/* T3: a follower moves into the hole unless its own slot lies behind the hole on the path. */
static void close_hole(struct led_page *page, uint32_t hole)
{
    for (uint32_t at = (hole + 1) & SLOT_MASK; page->slots[at] != 0; at = (at + 1) & SLOT_MASK) {
        uint32_t way = (at - slot_of(page->slots[at])) & SLOT_MASK;

        if (way >= ((at - hole) & SLOT_MASK)) {
            page->slots[hole] = page->slots[at];
            hole = at;
        }
    }
    page->slots[hole] = 0;
    page->used--;
}

static bool remove_value(struct led_table *t, uint64_t value)
{
    uint64_t *slot = find_value(t, value);
    struct led_page *page;

    if (slot == NULL) {
        return false;
    }
    page = page_of(t, (uint32_t)(value >> 32));
    close_hole(page, (uint32_t)(slot - page->slots));
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

uint32_t led_table_find(const struct led_table *t, uint32_t hash, led_table_match *match,
                        const void *owner, const void *key)
{
    const struct led_page *page = page_of(t, hash);

    for (uint32_t at = hash & SLOT_MASK; page->slots[at] != 0; at = (at + 1) & SLOT_MASK) {
        uint64_t value = page->slots[at];

        if ((uint32_t)(value >> 32) == hash && match(owner, (uint32_t)value - 1, key)) {
            return (uint32_t)value - 1;
        }
    }
    return LED_TABLE_NONE;
}

enum ron_rc led_table_add(struct led_table *t, uint32_t hash, uint32_t index)
{
    return add(t, map_value(hash, index));
}

void led_table_remove(struct led_table *t, uint32_t hash, uint32_t index)
{
    bool was_there = remove_value(t, map_value(hash, index));

    RON_ASSERT(was_there);
}

/* ---- set ------------------------------------------------------------------------------------- */

bool led_set_has(const struct led_table *t, uint64_t value)
{
    return find_value(t, value != 0 ? value : 1) != NULL;
}

enum ron_rc led_set_add(struct led_table *t, uint64_t value)
{
    return add(t, value != 0 ? value : 1);
}

bool led_set_remove(struct led_table *t, uint64_t value)
{
    return remove_value(t, value != 0 ? value : 1);
}

/* ---- store ----------------------------------------------------------------------------------- */

void led_store_init(struct led_store *s, size_t item_size, uint32_t chunk_shift, uint32_t count_max)
{
    *s = (struct led_store){
        .item_size = (uint32_t)item_size, .chunk_shift = chunk_shift, .count_max = count_max};
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
    uint8_t *chunk;

    if (s->chunk_count == s->chunk_room) {
        uint32_t room = s->chunk_room == 0 ? 16 : 2 * s->chunk_room;
        uint8_t **wide = ron_realloc_array(s->chunks, room, sizeof *wide);

        if (wide == NULL) {
            return RON_NOMEM;
        }
        s->chunks = wide;
        s->chunk_room = room;
    }
    chunk = ron_alloc_array((size_t)1 << s->chunk_shift, s->item_size);
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
