/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/cache.h - what was read from packs, kept in memory: blocks of bytes, and tags.
 *
 * Place: edge, below pack.h; private to the readers of packs. One cache serves all packs, so
 * that its bound is that of the process. A pack has a serial number and its blocks are found by
 * (serial, key, length): nothing of a pack that was replaced can be taken for its successor's.
 *
 *     leaves   decoded leaf directories of PMTiles, key: offset in the leaf section
 *     tiles    small tiles and all rows of MBTiles, key: tile id
 *     tags     (offset, length) in the tile section -> hash, for tiles that are sent from the file,
 *              so that a 304 needs no read
 *
 * Invariants:
 *   C1. A block does not change once it is in the cache; it is counted, and lives until the last
 *       holder lets go, in the cache or not.
 *   C2. Bytes held in a table stay below its maximum plus what threads are inserting right now.
 *   C3. No block larger than half of a table is kept: it would push out everything else.
 *   C4. Locks are leaves: under them nothing is freed or read, and nothing is called but
 *       the allocator when a map grows.
 *
 * Order of eviction is a clock: a block that was found since the hand passed it gets another round.
 * New blocks have not been found yet, so a crowd of keys asked for once pushes out its own kind.
 *
 * Threads: all functions from any thread, none waits. */
#pragma once

#include "edge/pack/pack.h"
#include "ron/base/map.h"
#include "ron/sync/sync.h"

enum { EDG__BLOCK_MAGIC = 0x65426c6b }; /* "eBlk" */

struct edg__block {
    uint32_t magic;
    struct ron_au32 refs;
    uint64_t serial;
    uint64_t key;
    uint64_t key_len;
    struct ron_map_node node; /* guarded by the shard's lock, as `found`; in age order, from whose
                               * old end the hand of the clock comes */
    bool found;
    enum edg_coding coding; /* tiles */
    struct ron_b3 tag;      /* tiles */
    size_t len;             /* tiles: 0 is a tile known to be missing */
    _Alignas(8) uint8_t bytes[];
};

enum edg__table { EDG__LEAVES, EDG__TILES, EDG__TABLES };

struct edg__name {
    uint64_t serial;
    uint64_t key;
    uint64_t key_len; /* of the bytes as stored; 0 for tiles, whose id says all */
};

/* A block of one reference with room for len bytes; NULL without memory. */
struct edg__block *edg__block_new(const struct edg__name *name, size_t len);
void edg__block_unref(struct edg__block *b); /* NULL does nothing */

/* With a reference for the caller; NULL when it is not there. */
struct edg__block *edg__cache_get(struct edg_pack_cache *c, enum edg__table table,
                                  const struct edg__name *name);
/* The cache takes a reference of its own unless C3 or another block of that name forbids it. */
void edg__cache_put(struct edg_pack_cache *c, enum edg__table table, struct edg__block *b);

RON_MUST_USE bool edg__cache_tag(struct edg_pack_cache *c, const struct edg__name *name,
                                 struct ron_b3 *ret_tag);
void edg__cache_put_tag(struct edg_pack_cache *c, const struct edg__name *name,
                        const struct ron_b3 *tag);

/* A number that no pack of this cache had before. */
uint64_t edg__cache_serial(struct edg_pack_cache *c);
/* Whether a PMTiles tile of that length is kept in memory. */
bool edg__cache_takes(const struct edg_pack_cache *c, uint64_t len);
void edg__cache_missed(struct edg_pack_cache *c);
