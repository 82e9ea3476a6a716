/* SPDX-License-Identifier: Apache-2.0 */
/* edge/sample/sample.c - the sample as a PMTiles archive: every tile once, in the order of ids. */
#include "edge/sample/sample.h"

#include <string.h>
#include <zlib.h>

#include "edge/pack/pmt.h"
#include "edge/sample/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/bytes.h"

enum {
    TILES = 341,        /* of zooms 0 to 4 */
    STORED_MAX = 65535, /* of a stored block */
    SECTION_MAX = 2 << 20,
};

static const char metadata[] =
    "{\"name\":\"World sample\",\"description\":\"A coarse map of the world, made of numbers in "
    "the source of ron\",\"version\":\"1.0.0\",\"type\":\"baselayer\",\"attribution\":\"ron\","
    "\"vector_layers\":["
    "{\"id\":\"land\",\"fields\":{\"name\":\"String\"},\"minzoom\":0,\"maxzoom\":4},"
    "{\"id\":\"graticule\",\"fields\":{\"degrees\":\"Number\"},\"minzoom\":0,\"maxzoom\":4},"
    "{\"id\":\"labels\",\"fields\":{\"name\":\"String\",\"rank\":\"Number\"},\"minzoom\":0,"
    "\"maxzoom\":4}]}";

struct sample {
    struct edg_pmt_entry entries[TILES];
    size_t count;
    uint64_t addressed;
    uint64_t contents;
    struct ron_buf tiles;
};

/* ---- bytes ----------------------------------------------------------------------------------- */

static void varint(struct ron_buf *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) {
        ron_buf_append_byte(out, (uint8_t)(v | 0x80));
    }
    ron_buf_append_byte(out, (uint8_t)v);
}

/* Gzip with stored blocks: no time, no name, no compressor. */
static void gzip(struct ron_buf *out, const struct ron_buf *in)
{
    static const uint8_t head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};
    const uint8_t *p = ron_buf_data(in);
    size_t left = ron_buf_len(in);
    uint8_t tail[8];

    ron_buf_append(out, head, sizeof head);
    do {
        size_t len = RON_MIN(left, (size_t)STORED_MAX);
        const uint8_t block[] = {left == len ? 1 : 0, (uint8_t)len, (uint8_t)(len >> 8),
                                 (uint8_t)~len, (uint8_t)(~len >> 8)};

        ron_buf_append(out, block, sizeof block);
        ron_buf_append(out, p, len);
        p += len;
        left -= len;
    } while (left > 0);
    (void)ron_put_le32(tail, (uint32_t)crc32(0, ron_buf_data(in), (uInt)ron_buf_len(in)));
    (void)ron_put_le32(tail + 4, (uint32_t)ron_buf_len(in));
    ron_buf_append(out, tail, sizeof tail);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* The entry whose bytes are these, or NULL. */
static const struct edg_pmt_entry *known(const struct sample *s, const struct ron_buf *packed)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->entries[i].length == ron_buf_len(packed) &&
            memcmp(ron_buf_data(&s->tiles) + s->entries[i].offset, ron_buf_data(packed),
                   ron_buf_len(packed)) == 0) {
            return &s->entries[i];
        }
    }
    return NULL;
}

static void keep(struct sample *s, uint64_t id, const struct ron_buf *packed)
{
    const struct edg_pmt_entry *same = known(s, packed);
    struct edg_pmt_entry *last = s->count > 0 ? &s->entries[s->count - 1] : NULL;

    s->addressed++;
    if (same != NULL && last != NULL && same->offset == last->offset &&
        last->tile_id + last->run == id) {
        last->run++;
        return;
    }
    s->entries[s->count++] =
        (struct edg_pmt_entry){.tile_id = id,
                               .offset = same != NULL ? same->offset : ron_buf_len(&s->tiles),
                               .length = (uint32_t)ron_buf_len(packed),
                               .run = 1};
    if (same == NULL) {
        s->contents++;
        ron_buf_append(&s->tiles, ron_buf_data(packed), ron_buf_len(packed));
    }
}

static enum ron_rc draw(struct sample *s)
{
    struct ron_buf plain, packed;
    enum ron_rc rc = RON_OK;

    ron_buf_init(&plain, EDG__TILE_BYTES);
    ron_buf_init(&packed, EDG__TILE_BYTES);
    for (uint64_t id = 0; id < TILES && rc == RON_OK; id++) {
        struct edg_zxy at = {0};

        if (!edg_tile_zxy(id, &at)) {
            break;
        }
        ron_buf_clear(&plain);
        ron_buf_clear(&packed);
        rc = edg__sample_tile(&at, &plain);
        gzip(&packed, &plain);
        rc = rc == RON_OK ? ron_buf_error(&packed) : rc;
        if (rc == RON_OK && ron_buf_len(&plain) > 0) {
            keep(s, id, &packed);
            rc = ron_buf_error(&s->tiles);
        }
    }
    ron_buf_done(&plain);
    ron_buf_done(&packed);
    return rc;
}

/* ---- the archive ----------------------------------------------------------------------------- */

static void directory(const struct sample *s, struct ron_buf *out)
{
    const struct edg_pmt_entry *e = s->entries;
    uint64_t id = 0;

    varint(out, s->count);
    for (size_t i = 0; i < s->count; i++) {
        varint(out, e[i].tile_id - id);
        id = e[i].tile_id;
    }
    for (size_t i = 0; i < s->count; i++) {
        varint(out, e[i].run);
    }
    for (size_t i = 0; i < s->count; i++) {
        varint(out, e[i].length);
    }
    for (size_t i = 0; i < s->count; i++) {
        bool follows = i > 0 && e[i].offset == e[i - 1].offset + e[i - 1].length;

        varint(out, follows ? 0 : e[i].offset + 1);
    }
}

static void header(const struct sample *s, size_t root_len, size_t meta_len,
                   uint8_t head[EDG_PMT_HEADER_BYTES])
{
    uint64_t root = EDG_PMT_HEADER_BYTES;

    memset(head, 0, EDG_PMT_HEADER_BYTES);
    memcpy(head, "PMTiles\3", 8);
    (void)ron_put_le64(head + 8, root);
    (void)ron_put_le64(head + 16, root_len);
    (void)ron_put_le64(head + 24, root + root_len);
    (void)ron_put_le64(head + 32, meta_len);
    (void)ron_put_le64(head + 40, root + root_len + meta_len); /* no leaves */
    (void)ron_put_le64(head + 56, root + root_len + meta_len);
    (void)ron_put_le64(head + 64, ron_buf_len(&s->tiles));
    (void)ron_put_le64(head + 72, s->addressed);
    (void)ron_put_le64(head + 80, s->count);
    (void)ron_put_le64(head + 88, s->contents);
    head[96] = 1;
    head[97] = EDG_CODING_GZIP;
    head[98] = EDG_CODING_GZIP;
    head[99] = EDG_TILE_MVT;
    head[100] = 0;
    head[101] = EDG_SAMPLE_ZOOM_MAX;
    (void)ron_put_le32(head + 102, (uint32_t)-1800000000);
    (void)ron_put_le32(head + 106, (uint32_t)-850511287);
    (void)ron_put_le32(head + 110, 1800000000);
    (void)ron_put_le32(head + 114, 850511287);
    head[118] = 1;
    (void)ron_put_le32(head + 119, 100000000);
    (void)ron_put_le32(head + 123, 250000000);
}

enum ron_rc edg_sample_build(struct ron_buf *out, struct ron_err *err)
{
    struct sample *s = ron_alloc_zero(sizeof *s);
    uint8_t head[EDG_PMT_HEADER_BYTES];
    struct ron_buf plain, root, meta;
    enum ron_rc rc;

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the sample");
    }
    ron_buf_init(&s->tiles, SECTION_MAX);
    ron_buf_init(&plain, SECTION_MAX);
    ron_buf_init(&root, EDG_PMT_FIRST_BYTES - EDG_PMT_HEADER_BYTES);
    ron_buf_init(&meta, SECTION_MAX);
    rc = draw(s);
    if (rc == RON_OK) {
        directory(s, &plain);
        gzip(&root, &plain);
        ron_buf_consume(&plain, ron_buf_len(&plain));
        ron_buf_append_text(&plain, metadata);
        gzip(&meta, &plain);
        header(s, ron_buf_len(&root), ron_buf_len(&meta), head);
        ron_buf_append(out, head, sizeof head);
        ron_buf_append(out, ron_buf_data(&root), ron_buf_len(&root));
        ron_buf_append(out, ron_buf_data(&meta), ron_buf_len(&meta));
        ron_buf_append(out, ron_buf_data(&s->tiles), ron_buf_len(&s->tiles));
        rc = ron_buf_error(&plain) != RON_OK  ? ron_buf_error(&plain)
             : ron_buf_error(&root) != RON_OK ? ron_buf_error(&root)
             : ron_buf_error(&meta) != RON_OK ? ron_buf_error(&meta)
                                              : ron_buf_error(out);
    }
    ron_buf_done(&plain);
    ron_buf_done(&root);
    ron_buf_done(&meta);
    ron_buf_done(&s->tiles);
    ron_free(s);
    return rc == RON_OK ? rc : ron_err_set(err, rc, "cannot build the sample pack");
}
