/* SPDX-License-Identifier: Apache-2.0 */
/* audit/book/table.h - memory of the auditor: records by name, and sets of fingerprints.
 *
 * Place: audit; plain data structures.
 *
 *   aud_store   records of any size in chunks of 2 MiB; a record is a 32-bit number (of 16 bytes)
 *               and never moves. 64 GiB in all.
 *   aud_map     finds records of a store by their text. Exact: texts are compared.
 *   aud_set     64-bit fingerprints, 9.4 to 14.2 bytes each. A fingerprint that is there already is
 *               a suspicion, which the caller has to look into: equal texts always collide,
 *               different ones once in 2^64.
 *
 * Hashes are keyed with random numbers, because strangers choose the texts.
 * Threads: one. Failure: RON_NOMEM with nothing changed, RON_LIMIT at 2^32 records of a map. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/json.h"
#include "ron/base/rc.h"

struct aud_seed {
    uint64_t k[2];
};

uint64_t aud_print(const struct aud_seed *seed, const void *bytes, size_t len);
/* Of a text and a fixed piece behind it. */
uint64_t aud_print_two(const struct aud_seed *seed, struct ron_str text, const void *more,
                       size_t more_len);

/* ---- store ----------------------------------------------------------------------------------- */

struct aud_store {
    uint8_t **chunks;
    uint32_t chunk_count;
    uint32_t chunk_cap;
    uint32_t used; /* units of the last chunk */
};

enum {
    AUD_UNIT = 16,
    AUD_CHUNK_UNITS = 1 << 17,
};

void aud_store_done(struct aud_store *store);
/* `size` zeroed bytes, less than a chunk; *ret_ref is above 0. */
RON_MUST_USE enum ron_rc aud_store_new(struct aud_store *store, size_t size, uint32_t *ret_ref);
uint64_t aud_store_bytes(const struct aud_store *store);

static inline void *aud_at(const struct aud_store *store, uint32_t ref)
{
    return store->chunks[ref / AUD_CHUNK_UNITS] + (size_t)(ref % AUD_CHUNK_UNITS) * AUD_UNIT;
}

/* ---- map ------------------------------------------------------------------------------------- */

/* A record of a map begins with this. */
struct aud_key {
    uint64_t hash;
    uint32_t text_at; /* offset of the text in the record */
    uint32_t text_len;
};

struct aud_map {
    struct aud_store *store;
    uint64_t *slots; /* high half: of the hash; low half: ref. 0 free, 1 was removed */
    uint64_t cap;    /* power of two, or 0 */
    uint64_t used;   /* removed ones included */
    uint64_t live;
};

void aud_map_done(struct aud_map *map);
/* 0 when there is none. */
uint32_t aud_map_find(const struct aud_map *map, uint64_t hash, struct ron_str text);
/* Puts in a record that is not there, with its key filled in. */
RON_MUST_USE enum ron_rc aud_map_add(struct aud_map *map, uint32_t ref);
void aud_map_remove(struct aud_map *map, uint32_t ref);
/* Refs one after another: start with *at = 0; 0 at the end. */
uint32_t aud_map_next(const struct aud_map *map, uint64_t *at);

static inline void aud_map_prefetch(const struct aud_map *map, uint64_t hash)
{
    if (map->cap != 0) {
        __builtin_prefetch(&map->slots[hash & (map->cap - 1)]);
    }
}
/* Prefetches the record that the first slot names, right or wrong. */
void aud_map_prefetch_record(const struct aud_map *map, uint64_t hash);

/* ---- set ------------------------------------------------------------------------------------- */

enum { AUD_SHARDS = 8 };

struct aud_shard {
    uint64_t *slots;
    uint32_t cap;
    uint32_t used;
};

struct aud_set {
    struct aud_shard shards[AUD_SHARDS];
};

void aud_set_done(struct aud_set *set);
RON_MUST_USE enum ron_rc aud_set_add(struct aud_set *set, uint64_t print, bool *ret_was_there);
bool aud_set_has(const struct aud_set *set, uint64_t print);
uint64_t aud_set_bytes(const struct aud_set *set);
void aud_set_prefetch(const struct aud_set *set, uint64_t print);
