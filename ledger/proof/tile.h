/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/proof/tile.h - the tree as static files (C2SP tlog-tiles): paths, tiles, bundles of
 * entries.
 *
 *     tile/<level>/<index>[.p/<width>]      hashes; full ones have 256
 *     tile/entries/<index>[.p/<width>]      the entries of a tile of level 0
 *
 * Level l of tiles is level 8l of the tree: hash i of tile (l, n) is node 256n + i of that level.
 *
 * L1. A tile has one path, and a path that is not exactly that of a tile is refused.
 * L2. A tile exists at a size when at least `width` of its hashes are of perfect subtrees; what it
 *     holds never changes.
 *
 * Pure but for the reads of the store. RON_CORRUPT: no path of a tile. RON_NOTFOUND: the tree is
 * not that large yet. RON_LIMIT: an entry above 65535 bytes. */
#pragma once

#include "ron/base/str.h"
#include "ron/merkle/tree.h"

enum {
    LED_TILE_HEIGHT = 8,
    LED_TILE_WIDTH = 256,
    /* Tiles of level 7 span the whole tree (2^64 leaves); higher ones are well formed and empty. */
    LED_TILE_LEVEL_MAX = 63,
    LED_TILE_ENTRY_MAX = 65535,
    /* "tile/entries/", 6 groups of 5 characters, ".p/255" and a NUL, with room to spare. */
    LED_TILE_PATH_SIZE = 64,
};

/* Indexes stay below this: 2^63 leaves make 2^55 tiles. */
#define LED_TILE_INDEX_MAX ((UINT64_C(1) << 55) - 1)

struct led_tile {
    bool entries;   /* a bundle of entries; level is then 0 */
    uint8_t level;  /* at most LED_TILE_LEVEL_MAX */
    uint16_t width; /* 1 to LED_TILE_WIDTH; less than that is a partial tile */
    uint64_t index; /* at most LED_TILE_INDEX_MAX */
};

/* The path without a leading slash. */
void led_tile_path(const struct led_tile *tile, char ret_path[LED_TILE_PATH_SIZE]);
RON_MUST_USE enum ron_rc led_tile_parse(struct ron_str path, struct led_tile *ret_tile,
                                        struct ron_err *err);

/* How many hashes the tile (level, index) has in a tree of this size: 0 to LED_TILE_WIDTH. */
unsigned led_tile_width_at(unsigned level, uint64_t index, uint64_t size);

/* The leaves that a bundle of entries holds: `width` from index * 256 on. RON_NOTFOUND (L2). */
RON_MUST_USE enum ron_rc led_tile_range(const struct led_tile *tile, uint64_t size,
                                        uint64_t *ret_first, size_t *ret_count,
                                        struct ron_err *err);

/* The tile's `width` hashes for a tree of this size. RON_NOTFOUND (L2), RON_INVALID for entries. */
RON_MUST_USE enum ron_rc led_tile_read(const struct led_tile *tile,
                                       const struct ron_tree_store *store, uint64_t size,
                                       struct ron_tree_hash ret_hashes[LED_TILE_WIDTH],
                                       struct ron_err *err);

/* The node above a full tile: the hash that stands for it one level up. */
void led_tile_root(const struct ron_tree_hash hashes[LED_TILE_WIDTH],
                   struct ron_tree_hash *ret_root);

/* Appends one entry to a bundle: its length as two big-endian bytes, then its bytes. */
RON_MUST_USE enum ron_rc led_bundle_add(struct ron_buf *bundle, const void *entry, size_t len,
                                        struct ron_err *err);

/* Takes the first entry off `rest`. RON_CORRUPT when it is cut short; `rest` is then untouched. Not
 * to be called when nothing is left. */
RON_MUST_USE enum ron_rc led_bundle_next(struct ron_str *rest, struct ron_str *ret_entry,
                                         struct ron_err *err);
