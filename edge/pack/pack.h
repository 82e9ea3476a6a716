/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/pack.h - one interface over packs of map tiles: PMTiles v3 and MBTiles 1.3.
 *
 * The routes use this header alone. Below it: pmt.h and mbt.h read the
 * two formats, cache.h keeps what was read, verify.h checks a whole file.
 *
 * Two kinds of calls, and no third:
 *   - those marked "any thread" never touch the disk and never wait. edg_pack_tile is one of them:
 *     what it needs (a directory, a tag, the row of an MBTiles file) is in memory, or the answer is
 *     RON_AGAIN and the caller hands the request to a thread that may block;
 *   - those marked "blocking" read the disk: edg_pack_open, edg_pack_tile_wait and
 *     edg_pack_hash. They never answer RON_AGAIN.
 *
 * Invariants:
 *   K1. Bytes that are lent lie inside the tile section of a PMTiles file, or are a copy. There is
 *       no mapping of the file: one that shrinks under us gives a failed read, never a signal.
 *   K2. A tag is the BLAKE3 hash of the bytes as stored, which are the bytes as sent.
 *   K3. A pack is immutable after it was opened. A reload opens another one and swaps the pointer;
 *       answers under way hold a reference to the old one through their blob.
 *   K4. Everything cached is bounded by the cache that all packs share.
 *
 * Ownership: a pack is counted. edg_pack_open gives one reference, each tile or archive that was
 * lent holds one until the release of its blob, which must be called exactly once (the HTTP server
 * does). The last one closes the file, on whatever thread that is. The cache outlives its packs.
 *
 * Failure: RON_NOTFOUND no such tile, RON_CORRUPT the file breaks its format (or has shrunk),
 * RON_UNSUPPORTED a version or compression that is not known, RON_LIMIT a stated maximum, RON_IO,
 * RON_NOMEM. */
#pragma once

#include "ron/base/buf.h"
#include "ron/base/env.h"
#include "ron/base/json.h"
#include "ron/cas/b3.h"
#include "ron/http/server.h"

struct edg_pack;
struct edg_pack_cache;

enum {
    EDG_ZOOM_MAX = 31,                /* tile ids up to here fit 63 bits */
    EDG_PACK_NAME_MAX = 64,           /* it is a path segment: [A-Za-z0-9._-] */
    EDG_TILE_BYTES_MAX = 16 << 20,    /* real tiles stay below 1 MiB; guards memory and hashing */
    EDG_METADATA_BYTES_MAX = 4 << 20, /* once inflated; a planet's vector_layers are below 100 KB */
};

enum edg_pack_kind { EDG_PACK_PMTILES, EDG_PACK_MBTILES };

/* Numbers are those of PMTiles. X(NAME, number, "name", content encoding or NULL) */
#define EDG_CODINGS(X)                                                                             \
    X(UNKNOWN, 0, "unknown", NULL)                                                                 \
    X(NONE, 1, "none", NULL)                                                                       \
    X(GZIP, 2, "gzip", "gzip")                                                                     \
    X(BROTLI, 3, "brotli", "br")                                                                   \
    X(ZSTD, 4, "zstd", "zstd")

enum edg_coding {
#define X(name, number, text, encoding) EDG_CODING_##name = (number),
    EDG_CODINGS(X)
#undef X
};

/* Numbers are those of PMTiles; those not listed are served as OTHER.
 * X(NAME, number, "name", "extension", "content type") */
#define EDG_TILE_TYPES(X)                                                                          \
    X(OTHER, 0, "other", "bin", "application/octet-stream")                                        \
    X(MVT, 1, "mvt", "mvt", "application/vnd.mapbox-vector-tile")                                  \
    X(PNG, 2, "png", "png", "image/png")                                                           \
    X(JPEG, 3, "jpeg", "jpg", "image/jpeg")                                                        \
    X(WEBP, 4, "webp", "webp", "image/webp")                                                       \
    X(AVIF, 5, "avif", "avif", "image/avif")                                                       \
    X(MLT, 6, "mlt", "mlt", "application/vnd.maplibre-tile")

enum edg_tile_type {
#define X(name, number, text, ext, content) EDG_TILE_##name = (number),
    EDG_TILE_TYPES(X)
#undef X
};

const char *edg_coding_name(enum edg_coding coding);
/* The value of Content-Encoding; NULL when the bytes are sent as they are. */
const char *edg_coding_encoding(enum edg_coding coding);
const char *edg_tile_type_name(enum edg_tile_type type);
const char *edg_tile_type_content(enum edg_tile_type type);
/* Whether /z/x/y.<ext> may name such tiles: "mvt" and "pbf", "jpg" and "jpeg" are the same; "bin"
 * and an unknown type fit nothing but each other. */
bool edg_tile_type_has_ext(enum edg_tile_type type, struct ron_str ext);

/* Degrees times 10^7: no rounding, and no floating point between a file and its TileJSON. */
struct edg_bounds {
    int32_t west_e7, south_e7, east_e7, north_e7;
};

struct edg_pack_info {
    enum edg_pack_kind kind;
    enum edg_tile_type tile_type;
    enum edg_coding tile_coding; /* MBTiles: NONE; each tile says for itself */
    uint8_t zoom_min, zoom_max;
    uint8_t center_zoom;
    int32_t center_lon_e7, center_lat_e7;
    struct edg_bounds bounds;
    uint64_t tiles_addressed; /* these three: 0 when the file does not say */
    uint64_t tile_entries;
    uint64_t tile_contents;
    bool clustered;
    uint64_t size_bytes; /* of the file when it was opened */
    uint64_t mtime_ms;
};

/* ---- the cache that all packs share ---------------------------------------------------------- */

/* Zero means the default in brackets. */
struct edg_pack_cache_opts {
    uint64_t leaf_bytes_max; /* [16 MiB] decoded leaf directories */
    uint64_t tile_bytes_max; /* [16 MiB] small tiles, and all of MBTiles */
    uint32_t tile_one_max;   /* [16 KiB] a larger PMTiles tile is sent from its file */
    uint32_t tags_max;       /* [65536] tags of tiles that are not in memory, 56 bytes each */
};

struct edg_pack_cache_counters {
    uint64_t tile_hits, leaf_hits, tag_hits, misses, evicted;
    uint64_t leaf_bytes, tile_bytes; /* held now */
};

/* opts may be NULL. RON_NOMEM. */
RON_MUST_USE enum ron_rc edg_pack_cache_new(const struct edg_pack_cache_opts *opts,
                                            struct edg_pack_cache **ret_cache, struct ron_err *err);
/* After the last reference to every pack and tile is gone. */
void edg_pack_cache_free(struct edg_pack_cache *c);
void edg_pack_cache_counters(const struct edg_pack_cache *c, struct edg_pack_cache_counters *ret);

/* ---- a pack ---------------------------------------------------------------------------------- */

struct edg_pack_opts {
    const struct ron_env *env;
    struct edg_pack_cache *cache;
    const char *path; /* copied; the format is found from the first bytes */
    const char *name; /* copied */
    uint32_t readers; /* [2] threads that may be in edg_pack_tile_wait of an MBTiles at once */
};

/* Opens and checks what is cheap: header, sections, root directory, metadata; tables and format of
 * an MBTiles. verify.h checks the rest. Blocking. */
RON_MUST_USE enum ron_rc edg_pack_open(const struct edg_pack_opts *opts, struct edg_pack **ret_pack,
                                       struct ron_err *err);
struct edg_pack *edg_pack_ref(struct edg_pack *p); /* any thread */
void edg_pack_unref(struct edg_pack *p);           /* any thread; NULL does nothing */

/* Of the file that is open. */
RON_MUST_USE enum ron_rc edg_pack_stat(const struct edg_pack *p, struct ron_file_stat *ret_stat);
const char *edg_pack_name(const struct edg_pack *p);
const struct edg_pack_info *edg_pack_info(const struct edg_pack *p);
/* The metadata as a JSON object, valid while the pack is; "{}" when there is none. For MBTiles the
 * rows of its table as strings, and what the row `json` holds under its own names. */
struct ron_str edg_pack_metadata(const struct edg_pack *p);
/* Appends a TileJSON 3.0.0 document; `tiles_url` is the template, such as
 * "https://host/edge/assets/name/{z}/{x}/{y}.mvt". Fails as the buffer does. Any thread. */
RON_MUST_USE enum ron_rc edg_pack_tilejson(const struct edg_pack *p, struct ron_str tiles_url,
                                           struct ron_buf *out);

/* ---- tiles ----------------------------------------------------------------------------------- */

struct edg_tile {
    struct ron_http_blob blob; /* its release must be called exactly once */
    struct ron_b3 tag;
    const char *content_type;
    enum edg_coding coding; /* as stored; edg_coding_encoding gives the header's value */
};

/* Any thread; never waits. RON_NOTFOUND also for z, x or y outside the pack and the map; RON_AGAIN:
 * ask edg_pack_tile_wait from a thread that may block. */
RON_MUST_USE enum ron_rc edg_pack_tile(struct edg_pack *p, uint64_t z, uint64_t x, uint64_t y,
                                       struct edg_tile *ret_tile, struct ron_err *err);
/* Blocking; keeps what it read for edg_pack_tile. */
RON_MUST_USE enum ron_rc edg_pack_tile_wait(struct edg_pack *p, uint64_t z, uint64_t x, uint64_t y,
                                            struct edg_tile *ret_tile, struct ron_err *err);

/* Appends `len` bytes of a tile, or of anything else, decoded; the maximum of `out` bounds it
 * (RON_LIMIT). For clients that do not take the coding in which a tile is stored. RON_CORRUPT,
 * RON_UNSUPPORTED for UNKNOWN. Pure, but long for long inputs: about 300 MB/s of output. */
RON_MUST_USE enum ron_rc edg_inflate(enum edg_coding coding, const void *bytes, size_t len,
                                     struct ron_buf *out, struct ron_err *err);

/* ---- the file itself ------------------------------------------------------------------------- */

struct edg_archive {
    int fd; /* of the pack; valid while a reference is held */
    uint64_t size_bytes;
    uint64_t mtime_ms;
    struct ron_b3 tag;
    const char *content_type;
};

/* Called now and then with how far a long piece of work is; false cancels it (RON_CANCELLED). */
typedef bool edg_progress_fn(void *arg, const char *phase, uint64_t done, uint64_t total);

/* Hashes the whole file once; edg_pack_archive answers from then on. Blocking; a second or two for
 * a GB. progress may be NULL. */
RON_MUST_USE enum ron_rc edg_pack_hash(struct edg_pack *p, edg_progress_fn *progress, void *arg,
                                       struct ron_err *err);
/* Any thread. RON_AGAIN until edg_pack_hash is done. To send it: a blob with fd, edg_pack_ref for
 * the time of the answer and edg_pack_unref in its release. */
RON_MUST_USE enum ron_rc edg_pack_archive(const struct edg_pack *p, struct edg_archive *ret);
