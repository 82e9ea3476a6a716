/* SPDX-License-Identifier: Apache-2.0 */
/* audit/book/table.c - store, map and set; the contract is in table.h. */
#include "audit/book/table.h"

#include <string.h>

#include "audit/base/bytes.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum { HUGE_PAGE = 2 << 20 };

_Static_assert(AUD_CHUNK_UNITS *AUD_UNIT == HUGE_PAGE, "a chunk is a huge page");

/* ---- hash ------------------------------------------------------------------------------------ */

/* Both halves of a 128-bit product, folded: every bit of the result depends on every bit of both
 * factors. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    ron_u128 p = (ron_u128)a * b;

    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint64_t load(const uint8_t *p, size_t len)
{
    uint64_t v = 0;

    memcpy(&v, p, len);
    return v;
}

static uint64_t absorb(const struct aud_seed *seed, uint64_t h, const uint8_t *p, size_t len)
{
    size_t left = len;

    for (; left >= 16; left -= 16, p += 16) {
        h = fold(load(p, 8) ^ seed->k[0], load(p + 8, 8) ^ h);
    }
    if (left > 8) {
        h = fold(load(p, 8) ^ seed->k[0], load(p + 8, left - 8) ^ h);
    } else if (left > 0) {
        h = fold(load(p, left) ^ seed->k[0], h);
    }
    return fold(h ^ len, seed->k[1]);
}

uint64_t aud_print(const struct aud_seed *seed, const void *bytes, size_t len)
{
    return fold(absorb(seed, seed->k[1], bytes, len), seed->k[0]);
}

uint64_t aud_print_two(const struct aud_seed *seed, struct ron_str text, const void *more,
                       size_t more_len)
{
    uint64_t h = absorb(seed, seed->k[1], (const uint8_t *)text.ptr, text.len);

    return fold(absorb(seed, h, more, more_len), seed->k[0]);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Zeroed. What is large enough lies in huge pages: everything here is read at random, and half of
 * the time would go into looking up pages. */
static void *alloc_table(size_t size)
{
    void *block;

    if (size < HUGE_PAGE) {
        return ron_alloc_zero(size);
    }
    block = ron_alloc_aligned(HUGE_PAGE, size);
    if (block != NULL) {
        ron_alloc_advise_huge(block, size);
        memset(block, 0, size);
    }
    return block;
}

/* ---- store ----------------------------------------------------------------------------------- */

void aud_store_done(struct aud_store *store)
{
    for (uint32_t i = 0; i < store->chunk_count; i++) {
        ron_free(store->chunks[i]);
    }
    ron_free(store->chunks);
    *store = (struct aud_store){0};
}

static enum ron_rc add_chunk(struct aud_store *store)
{
    uint8_t *chunk;

    if (store->chunk_count == UINT32_MAX / AUD_CHUNK_UNITS) {
        return RON_LIMIT;
    }
    if (store->chunk_count == store->chunk_cap) {
        uint32_t cap = store->chunk_cap == 0 ? 64 : 2 * store->chunk_cap;
        uint8_t **grown = ron_realloc_array(store->chunks, cap, sizeof *grown);

        if (grown == NULL) {
            return RON_NOMEM;
        }
        store->chunks = grown;
        store->chunk_cap = cap;
    }
    chunk = alloc_table((size_t)AUD_CHUNK_UNITS * AUD_UNIT);
    if (chunk == NULL) {
        return RON_NOMEM;
    }
    store->chunks[store->chunk_count++] = chunk;
    /* Record 0 means none, and 1 is the mark of a removed slot. */
    store->used = store->chunk_count == 1 ? 2 : 0;
    return RON_OK;
}

enum ron_rc aud_store_new(struct aud_store *store, size_t size, uint32_t *ret_ref)
{
    uint32_t units = (uint32_t)((size + AUD_UNIT - 1) / AUD_UNIT);

    RON_ASSERT(units > 0 && units <= AUD_CHUNK_UNITS - 2);
    if (store->chunk_count == 0 || store->used + units > AUD_CHUNK_UNITS) {
        RON_TRY(add_chunk(store));
    }
    *ret_ref = (store->chunk_count - 1) * AUD_CHUNK_UNITS + store->used;
    store->used += units;
    return RON_OK;
}

uint64_t aud_store_bytes(const struct aud_store *store)
{
    return (uint64_t)store->chunk_count * AUD_CHUNK_UNITS * AUD_UNIT +
           (uint64_t)store->chunk_cap * sizeof *store->chunks;
}

/* ---- map ------------------------------------------------------------------------------------- */

enum { REMOVED = 1, MAP_MIN = 64 };

static uint64_t slot_of(uint64_t hash, uint32_t ref)
{
    return (hash & ~(uint64_t)UINT32_MAX) | ref;
}

static const struct aud_key *key_of(const struct aud_map *map, uint64_t slot)
{
    return aud_at(map->store, (uint32_t)slot);
}

void aud_map_done(struct aud_map *map)
{
    ron_free(map->slots);
    map->slots = NULL;
    map->cap = map->used = map->live = 0;
}

uint32_t aud_map_find(const struct aud_map *map, uint64_t hash, struct ron_str text)
{
    if (map->cap == 0) {
        return 0;
    }
    for (uint64_t at = hash & (map->cap - 1); map->slots[at] != 0; at = (at + 1) & (map->cap - 1)) {
        uint64_t slot = map->slots[at];

        if (slot != REMOVED && (slot ^ hash) >> 32 == 0) {
            const struct aud_key *key = key_of(map, slot);

            if (key->hash == hash && key->text_len == text.len &&
                memcmp((const char *)key + key->text_at, text.ptr, text.len) == 0) {
                return (uint32_t)slot;
            }
        }
    }
    return 0;
}

static void put(struct aud_map *map, uint64_t hash, uint32_t ref)
{
    uint64_t at = hash & (map->cap - 1);

    while (map->slots[at] != 0) {
        at = (at + 1) & (map->cap - 1);
    }
    map->slots[at] = slot_of(hash, ref);
    map->used++;
}

static enum ron_rc grow_map(struct aud_map *map)
{
    uint64_t *old = map->slots;
    uint64_t old_cap = map->cap;
    uint64_t cap = MAP_MIN;
    uint64_t *slots;

    while (cap < 2 * (map->live + 1)) {
        cap *= 2;
    }
    slots = alloc_table(cap * sizeof *slots);
    if (slots == NULL) {
        return RON_NOMEM;
    }
    map->slots = slots;
    map->cap = cap;
    map->used = 0;
    for (uint64_t i = 0; i < old_cap; i++) {
        if (old[i] > REMOVED) {
            put(map, key_of(map, old[i])->hash, (uint32_t)old[i]);
        }
    }
    ron_free(old);
    return RON_OK;
}

enum ron_rc aud_map_add(struct aud_map *map, uint32_t ref)
{
    const struct aud_key *key = aud_at(map->store, ref);

    if (map->cap == 0 || 4 * (map->used + 1) > 3 * map->cap) {
        RON_TRY(grow_map(map));
    }
    put(map, key->hash, ref);
    map->live++;
    return RON_OK;
}

void aud_map_remove(struct aud_map *map, uint32_t ref)
{
    const struct aud_key *key = aud_at(map->store, ref);
    uint64_t at = key->hash & (map->cap - 1);

    while (map->slots[at] != slot_of(key->hash, ref)) {
        RON_ASSERT(map->slots[at] != 0);
        at = (at + 1) & (map->cap - 1);
    }
    map->slots[at] = REMOVED;
    map->live--;
}

uint32_t aud_map_next(const struct aud_map *map, uint64_t *at)
{
    while (*at < map->cap) {
        uint64_t slot = map->slots[(*at)++];

        if (slot > REMOVED) {
            return (uint32_t)slot;
        }
    }
    return 0;
}

void aud_map_prefetch_record(const struct aud_map *map, uint64_t hash)
{
    uint64_t slot = map->cap != 0 ? map->slots[hash & (map->cap - 1)] : 0;

    if (slot > REMOVED) {
        const uint8_t *record = aud_at(map->store, (uint32_t)slot);

        __builtin_prefetch(record);
        __builtin_prefetch(record + 64);
    }
}

/* ---- set ------------------------------------------------------------------------------------- */

/* A shard grows by half when 85 of 100 slots are used, so 57 to 85 are: 9.4 to 14.2 bytes each, and
 * while one of the shards is copied its old slots besides. Few shards, so that each of them fills
 * huge pages. */
_Static_assert(AUD_SHARDS == 1 << (64 - 61), "the highest three bits choose the shard");
enum { SHARD_MIN = 64, LOAD_PERCENT = 85 };

/* 0 marks a free slot. */
static uint64_t as_stored(uint64_t print)
{
    return print != 0 ? print : 1;
}

static uint32_t place(const struct aud_shard *s, uint64_t print)
{
    return (uint32_t)((print & UINT32_MAX) * s->cap >> 32);
}

static bool lookup(const struct aud_shard *s, uint64_t print, uint32_t *ret_at)
{
    uint32_t at = place(s, print);

    while (s->slots[at] != 0 && s->slots[at] != print) {
        at = at + 1 < s->cap ? at + 1 : 0;
    }
    *ret_at = at;
    return s->slots[at] == print;
}

static enum ron_rc grow_shard(struct aud_shard *s)
{
    struct aud_shard bigger = {.cap = s->cap == 0 ? SHARD_MIN : s->cap + s->cap / 2,
                               .used = s->used};

    if (bigger.cap < s->cap) {
        return RON_LIMIT;
    }
    bigger.slots = alloc_table(bigger.cap * sizeof *bigger.slots);
    if (bigger.slots == NULL) {
        return RON_NOMEM;
    }
    for (uint32_t i = 0; i < s->cap; i++) {
        uint32_t at;

        if (s->slots[i] != 0) {
            RON_ASSERT(!lookup(&bigger, s->slots[i], &at));
            bigger.slots[at] = s->slots[i];
        }
    }
    ron_free(s->slots);
    *s = bigger;
    return RON_OK;
}

void aud_set_done(struct aud_set *set)
{
    for (size_t i = 0; i < AUD_SHARDS; i++) {
        ron_free(set->shards[i].slots);
    }
    *set = (struct aud_set){0};
}

enum ron_rc aud_set_add(struct aud_set *set, uint64_t print, bool *ret_was_there)
{
    struct aud_shard *s = &set->shards[print >> 61];
    uint32_t at;

    if ((uint64_t)s->used * 100 >= (uint64_t)s->cap * LOAD_PERCENT) {
        RON_TRY(grow_shard(s));
    }
    *ret_was_there = lookup(s, as_stored(print), &at);
    if (!*ret_was_there) {
        s->slots[at] = as_stored(print);
        s->used++;
    }
    return RON_OK;
}

bool aud_set_has(const struct aud_set *set, uint64_t print)
{
    const struct aud_shard *s = &set->shards[print >> 61];
    uint32_t at;

    return s->cap != 0 && lookup(s, as_stored(print), &at);
}

uint64_t aud_set_bytes(const struct aud_set *set)
{
    uint64_t n = 0;

    for (size_t i = 0; i < AUD_SHARDS; i++) {
        n += (uint64_t)set->shards[i].cap * sizeof *set->shards[i].slots;
    }
    return n;
}

void aud_set_prefetch(const struct aud_set *set, uint64_t print)
{
    const struct aud_shard *s = &set->shards[print >> 61];

    if (s->cap != 0) {
        __builtin_prefetch(&s->slots[place(s, print)]);
    }
}
