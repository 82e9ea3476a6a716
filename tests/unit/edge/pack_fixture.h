/* SPDX-License-Identifier: Apache-2.0 */
/* pack_fixture.h - PMTiles archives written by hand on a disk in memory, for tests of packs.
 *
 * The writer shares no code with the reader. An archive is described by a struct pk_spec; what a
 * test wants wrong is poked into the bytes afterwards, or given as raw columns of a directory. */
#pragma once

#include "support/support.h"

#include <zlib.h>
#include <zstd.h>

#include "edge/pack/pack.h"
#include "edge/pack/pmt.h"
#include "ron/base/alloc.h"
#include "ron/io/linux_env.h"
#include "ron/io/memdisk.h"

enum { PK_MAX = 64 << 20, PK_LEVELS_MAX = 4, PK_PATH_MAX = 64 };

struct pk_spec {
    enum edg_coding internal;
    enum edg_coding tile_coding;
    uint8_t type;
    uint8_t zoom_min, zoom_max;
    bool clustered;
    const struct edg_pmt_entry *entries; /* of tiles, sorted */
    size_t count;
    int levels;                     /* of leaves below the root */
    size_t per_leaf;                /* entries of one */
    const struct ron_buf *root_raw; /* instead of what follows from the entries */
    const struct ron_buf *leaf_raw; /* the whole leaf section, as stored */
    const void *tiles;
    size_t tiles_len;
    const char *metadata;
    uint64_t addressed, contents; /* 0: as they are */
};

/* ---- bytes ----------------------------------------------------------------------------------- */

static inline void pk_u64(uint8_t *at, uint64_t v)
{
    for (int i = 0; i < 8; i++) {
        at[i] = (uint8_t)(v >> (8 * i));
    }
}

static inline void pk_i32(uint8_t *at, int32_t v)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)((uint32_t)v >> (8 * i));
    }
}

static inline void pk_varint(struct ron_buf *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) {
        ron_buf_append_byte(out, (uint8_t)(v | 0x80));
    }
    ron_buf_append_byte(out, (uint8_t)v);
}

/* Blocks that are not compressed: enough for a decoder, and written without an encoder. */
static inline void pk_brotli(struct ron_buf *out, const uint8_t *bytes, size_t len)
{
    uint32_t shift = 4; /* the first block has the window's size before it */

    while (len > 0) {
        size_t piece = len < 65536 ? len : 65536;
        uint32_t head = (uint32_t)(piece - 1) << shift | (uint32_t)1 << (shift + 16);

        ron_buf_append_byte(out, (uint8_t)head);
        ron_buf_append_byte(out, (uint8_t)(head >> 8));
        ron_buf_append_byte(out, (uint8_t)(head >> 16));
        ron_buf_append(out, bytes, piece);
        bytes += piece;
        len -= piece;
        shift = 3;
    }
    ron_buf_append_byte(out, shift == 4 ? 0x06 : 0x03); /* the last one, empty */
}

static inline void pk_gzip(struct ron_buf *out, const uint8_t *bytes, size_t len)
{
    z_stream z = {0};
    uint8_t *room = NULL;
    size_t bound;

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    bound = deflateBound(&z, len);
    assert_int_equal(ron_buf_reserve(out, bound, &room), RON_OK);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)len;
    z.next_out = room;
    z.avail_out = (uInt)bound;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    ron_buf_commit(out, bound - z.avail_out);
    deflateEnd(&z);
}

static inline void pk_pack(enum edg_coding coding, const struct ron_buf *in, struct ron_buf *out)
{
    const uint8_t *bytes = ron_buf_data(in);
    size_t len = ron_buf_len(in);
    uint8_t *room = NULL;

    if (coding == EDG_CODING_GZIP) {
        pk_gzip(out, bytes, len);
    } else if (coding == EDG_CODING_ZSTD) {
        size_t bound = ZSTD_compressBound(len);
        size_t got;

        assert_int_equal(ron_buf_reserve(out, bound, &room), RON_OK);
        got = ZSTD_compress(room, bound, bytes, len, 3);
        assert_false(ZSTD_isError(got));
        ron_buf_commit(out, got);
    } else if (coding == EDG_CODING_BROTLI) {
        pk_brotli(out, bytes, len);
    } else {
        ron_buf_append(out, bytes, len);
    }
}

/* ---- directories ----------------------------------------------------------------------------- */

static inline void pk_dir(struct ron_buf *out, const struct edg_pmt_entry *e, size_t count)
{
    uint64_t id = 0;

    pk_varint(out, count);
    for (size_t i = 0; i < count; i++) {
        pk_varint(out, e[i].tile_id - id);
        id = e[i].tile_id;
    }
    for (size_t i = 0; i < count; i++) {
        pk_varint(out, e[i].run);
    }
    for (size_t i = 0; i < count; i++) {
        pk_varint(out, e[i].length);
    }
    for (size_t i = 0; i < count; i++) {
        bool follows = i > 0 && e[i].offset == e[i - 1].offset + e[i - 1].length;

        pk_varint(out, follows ? 0 : e[i].offset + 1);
    }
}

/* Cuts a list of entries into leaves; the pointers to them are the next list. */
static inline size_t pk_leaves(const struct pk_spec *s, const struct edg_pmt_entry *entries,
                               size_t count, struct ron_buf *leaves, struct edg_pmt_entry *pointers)
{
    size_t made = 0;

    for (size_t at = 0; at < count; at += s->per_leaf) {
        size_t n = count - at < s->per_leaf ? count - at : s->per_leaf;
        size_t from = ron_buf_len(leaves);
        struct ron_buf plain;

        ron_buf_init(&plain, PK_MAX);
        pk_dir(&plain, entries + at, n);
        pk_pack(s->internal, &plain, leaves);
        ron_buf_done(&plain);
        pointers[made++] = (struct edg_pmt_entry){.tile_id = entries[at].tile_id,
                                                  .offset = from,
                                                  .length = (uint32_t)(ron_buf_len(leaves) - from)};
    }
    return made;
}

static inline void pk_header(const struct pk_spec *s, const uint64_t sections[8],
                             uint64_t addressed, uint64_t contents,
                             uint8_t head[EDG_PMT_HEADER_BYTES])
{
    memset(head, 0, EDG_PMT_HEADER_BYTES);
    memcpy(head, "PMTiles\3", 8);
    for (int i = 0; i < 8; i++) {
        pk_u64(head + 8 + 8 * i, sections[i]);
    }
    pk_u64(head + 72, s->addressed != 0 ? s->addressed : addressed);
    pk_u64(head + 80, s->count);
    pk_u64(head + 88, s->contents != 0 ? s->contents : contents);
    head[96] = s->clustered ? 1 : 0;
    head[97] = (uint8_t)s->internal;
    head[98] = (uint8_t)s->tile_coding;
    head[99] = s->type;
    head[100] = s->zoom_min;
    head[101] = s->zoom_max;
    pk_i32(head + 102, -1800000000);
    pk_i32(head + 106, -850000000);
    pk_i32(head + 110, 1800000000);
    pk_i32(head + 114, 850000000);
}

/* Distinct offsets among the entries, counted the slow way. */
static inline uint64_t pk_contents(const struct pk_spec *s)
{
    uint64_t distinct = 0;

    for (size_t i = 0; i < s->count; i++) {
        bool first = true;

        for (size_t j = 0; j < i && first; j++) {
            first = s->entries[j].offset != s->entries[i].offset;
        }
        distinct += first ? 1 : 0;
    }
    return distinct;
}

/* The whole file. */
static inline void pk_build(const struct pk_spec *s, struct ron_buf *out)
{
    const char *metadata = s->metadata != NULL ? s->metadata : "{}";
    size_t count = s->count;
    struct edg_pmt_entry *list = ron_alloc_array(count + 1, sizeof *list);
    uint8_t head[EDG_PMT_HEADER_BYTES];
    struct ron_buf plain, root, meta, leaves;
    uint64_t addressed = 0;
    uint64_t at = EDG_PMT_HEADER_BYTES;
    uint64_t sections[8];

    ron_buf_init(&plain, PK_MAX);
    ron_buf_init(&root, PK_MAX);
    ron_buf_init(&meta, PK_MAX);
    ron_buf_init(&leaves, PK_MAX);
    assert_non_null(list);
    for (size_t i = 0; i < count; i++) {
        list[i] = s->entries[i];
        addressed += list[i].run;
    }
    for (int level = 0; level < s->levels; level++) {
        count = pk_leaves(s, list, count, &leaves, list);
    }
    pk_dir(&plain, list, count);
    pk_pack(s->internal, s->root_raw != NULL ? s->root_raw : &plain, &root);
    if (s->leaf_raw != NULL) {
        ron_buf_append(&leaves, ron_buf_data(s->leaf_raw), ron_buf_len(s->leaf_raw));
    }
    ron_buf_clear(&plain);
    ron_buf_append_text(&plain, metadata);
    pk_pack(s->internal, &plain, &meta);
    const struct ron_buf *const parts[] = {&root, &meta, &leaves};
    for (size_t i = 0; i < RON_ARRAY_LEN(parts); i++) {
        sections[2 * i] = at;
        sections[2 * i + 1] = ron_buf_len(parts[i]);
        at += ron_buf_len(parts[i]);
    }
    sections[6] = at;
    sections[7] = s->tiles_len;
    pk_header(s, sections, addressed, pk_contents(s), head);
    ron_buf_append(out, head, sizeof head);
    for (size_t i = 0; i < RON_ARRAY_LEN(parts); i++) {
        ron_buf_append(out, ron_buf_data(parts[i]), ron_buf_len(parts[i]));
    }
    ron_buf_append(out, s->tiles, s->tiles_len);
    assert_int_equal(ron_buf_error(out), RON_OK);
    ron_buf_done(&plain);
    ron_buf_done(&root);
    ron_buf_done(&meta);
    ron_buf_done(&leaves);
    ron_free(list);
}

/* ---- a disk with archives, and a cache ------------------------------------------------------- */

struct pk_world {
    struct ron_memdisk *disk;
    const struct ron_env *env;
    struct edg_pack_cache *cache;
    struct ron_err err;
};

static inline void pk_begin_with(struct pk_world *w, const struct edg_pack_cache_opts *opts)
{
    *w = (struct pk_world){0};
    assert_int_equal(ron_memdisk_new(ron_env_linux(), (uint64_t)256 << 20, &w->disk, NULL), RON_OK);
    w->env = ron_memdisk_env(w->disk);
    assert_int_equal(edg_pack_cache_new(opts, &w->cache, NULL), RON_OK);
}

static inline void pk_begin(struct pk_world *w)
{
    pk_begin_with(w, NULL);
}

static inline void pk_end(struct pk_world *w)
{
    edg_pack_cache_free(w->cache);
    ron_memdisk_free(w->disk);
}

static inline void pk_write(struct pk_world *w, const char *path, const void *bytes, size_t len)
{
    int fd = -1;

    assert_int_equal(w->env->disk->open(w->env, path,
                                        RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_TRUNC, 0600,
                                        &fd, NULL),
                     RON_OK);
    assert_int_equal(w->env->disk->pwrite(w->env, fd, bytes, len, 0, NULL), RON_OK);
    w->env->disk->close(w->env, fd);
}

static inline enum ron_rc pk_open(struct pk_world *w, const char *path, struct edg_pack **ret)
{
    w->err = (struct ron_err){0};
    return edg_pack_open(
        &(struct edg_pack_opts){.env = w->env, .cache = w->cache, .path = path, .name = "pack"},
        ret, &w->err);
}

/* Writes the archive and opens it. */
static inline enum ron_rc pk_mount(struct pk_world *w, const struct pk_spec *s,
                                   struct edg_pack **ret)
{
    struct ron_buf bytes;
    enum ron_rc rc;

    ron_buf_init(&bytes, PK_MAX);
    pk_build(s, &bytes);
    pk_write(w, "a.pmtiles", ron_buf_data(&bytes), ron_buf_len(&bytes));
    rc = pk_open(w, "a.pmtiles", ret);
    ron_buf_done(&bytes);
    return rc;
}

/* The bytes of a tile that was lent, wherever they are; gives it back. */
static inline void pk_take(struct pk_world *w, struct edg_tile *t, struct ron_buf *out)
{
    uint8_t *room = NULL;
    size_t got = 0;

    ron_buf_clear(out);
    if (t->blob.bytes != NULL) {
        ron_buf_append(out, (const uint8_t *)t->blob.bytes + t->blob.offset,
                       (size_t)t->blob.length);
    } else {
        assert_int_equal(ron_buf_reserve(out, (size_t)t->blob.length, &room), RON_OK);
        assert_int_equal(w->env->disk->pread(w->env, t->blob.fd, room, (size_t)t->blob.length,
                                             t->blob.offset, &got),
                         RON_OK);
        ron_buf_commit(out, got);
    }
    t->blob.release(t->blob.arg);
}
