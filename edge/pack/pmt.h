/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/pmt.h - PMTiles v3: header, directories, and where a tile lies.
 *
 * Place: edge, below pack.h. The upper half (header, directory) is pure and fuzzed; the lower
 * half reads a file. Layout and checks: docs/formats/packs.md.
 *
 * Everything is read with pread into buffers of a stated size and nothing is mapped: a mapped file
 * that shrinks ends the process with SIGBUS, and what a page fault on a loop costs cannot be
 * bounded. Tiles go from the page cache to the socket by sendfile and are never in our memory.
 *
 * Invariants:
 *   P1. A header that was accepted has all four sections inside the file, without overflow, and its
 *       root directory within the first 16 KiB.
 *   P2. An entry that was decoded has a length above 0 and lies inside its section (tiles, or
 *       leaves when its run is 0); ids are strictly increasing and runs do not reach into the next
 *       entry. So whatever a search finds is inside the tile section.
 *   P3. A search looks at the root and at most EDG_PMT_DEPTH_MAX leaves.
 *
 * A leaf that is not in the cache is RON_AGAIN on a loop, however small: reading it is a system
 * call that may wait for the disk, and inflating and decoding one of 20 k entries was measured at
 * up to 5 ms on a busy machine, which every connection of that loop would wait for. A blocking
 * thread does both once.
 *
 * Threads: pure functions and edg_pmt_find from any; the others block. */
#pragma once

#include "edge/pack/hilbert.h"
#include "edge/pack/pack.h"

enum {
    EDG_PMT_HEADER_BYTES = 127,
    EDG_PMT_FIRST_BYTES = 16384, /* header and root directory lie in them */
    EDG_PMT_DEPTH_MAX = 3,       /* leaves below the root, as the reference reader has it */
    /* Writers aim at 3500 leaves: 85 k entries each for a planet. Decoded: 6 MiB. */
    EDG_PMT_ENTRIES_MAX = 262144,
    EDG_PMT_DIR_BYTES_MAX = 8 << 20, /* as many entries of the longest form (30 bytes) */
};

struct edg_pmt_section {
    uint64_t offset;
    uint64_t length;
};

struct edg_pmt_header {
    struct edg_pmt_section root, metadata, leaves, tiles;
    uint64_t addressed, entries, contents; /* 0: not known */
    bool clustered;
    enum edg_coding internal_coding;
    enum edg_coding tile_coding;
    uint8_t tile_type; /* as stored; may be newer than EDG_TILE_TYPES */
    uint8_t zoom_min, zoom_max, center_zoom;
    struct edg_bounds bounds;
    int32_t center_lon_e7, center_lat_e7;
};

struct edg_pmt_entry {
    uint64_t tile_id;
    uint64_t offset; /* in its section */
    uint32_t length;
    uint32_t run; /* 0: a leaf directory */
};

/* `len` bytes from the start of a file of `file_bytes`. RON_CORRUPT, RON_UNSUPPORTED. */
RON_MUST_USE enum ron_rc edg_pmt_header_read(const uint8_t *bytes, size_t len, uint64_t file_bytes,
                                             struct edg_pmt_header *ret, struct ron_err *err);

/* How many entries a directory says it has; bounded by EDG_PMT_ENTRIES_MAX and its length. */
RON_MUST_USE enum ron_rc edg_pmt_dir_count(const uint8_t *bytes, size_t len, size_t *ret_count,
                                           struct ron_err *err);
/* Decodes all of them, `count` as above. `entries` is undefined after a failure. */
RON_MUST_USE enum ron_rc edg_pmt_dir_read(const uint8_t *bytes, size_t len,
                                          const struct edg_pmt_header *h,
                                          struct edg_pmt_entry *entries, size_t count,
                                          struct ron_err *err);
/* The tile's entry, or the leaf that may have it; NULL when there is neither. */
const struct edg_pmt_entry *edg_pmt_search(const struct edg_pmt_entry *entries, size_t count,
                                           uint64_t tile_id);

/* ---- a file ---------------------------------------------------------------------------------- */

struct edg_pmt;
struct edg_pack_cache;

/* Where a tile lies in the file. */
struct edg_pmt_place {
    uint64_t offset;
    uint32_t length;
};

/* `fd` stays the caller's. Reads header and root. */
RON_MUST_USE enum ron_rc edg_pmt_open(const struct ron_env *env, int fd, uint64_t file_bytes,
                                      struct edg_pack_cache *cache, uint64_t serial,
                                      struct edg_pmt **ret_pmt, struct ron_err *err);
void edg_pmt_close(struct edg_pmt *p); /* NULL does nothing */
const struct edg_pmt_header *edg_pmt_header(const struct edg_pmt *p);
const struct edg_pmt_entry *edg_pmt_root(const struct edg_pmt *p, size_t *ret_count);

/* Never reads: RON_AGAIN when a leaf is not in the cache. RON_NOTFOUND. */
RON_MUST_USE enum ron_rc edg_pmt_find(struct edg_pmt *p, uint64_t tile_id,
                                      struct edg_pmt_place *ret_place, struct ron_err *err);
RON_MUST_USE enum ron_rc edg_pmt_find_wait(struct edg_pmt *p, uint64_t tile_id,
                                           struct edg_pmt_place *ret_place, struct ron_err *err);
/* Appends the metadata, inflated; the maximum of `out` bounds it. */
RON_MUST_USE enum ron_rc edg_pmt_metadata(struct edg_pmt *p, struct ron_buf *out,
                                          struct ron_err *err);

/* Reads the directory at [offset, offset + length) of the file and appends it, inflated. */
RON_MUST_USE enum ron_rc edg_pmt_dir_inflate(const struct ron_env *env, int fd,
                                             const struct edg_pmt_header *h, uint64_t offset,
                                             uint64_t length, struct ron_buf *out,
                                             struct ron_err *err);
/* Exactly len bytes; RON_CORRUPT when the file ends before. */
RON_MUST_USE enum ron_rc edg__read_exact(const struct ron_env *env, int fd, uint64_t offset,
                                         void *bytes, size_t len, struct ron_err *err);
