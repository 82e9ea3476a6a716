/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/pmt_read.c - header and directories of PMTiles, from bytes to checked values. Pure. */
#include <inttypes.h>
#include <string.h>

#include "ron/base/bytes.h"

#include "edge/pack/pmt.h"

enum { VERSION = 3, MAGIC_BYTES = 7, VARINT_BITS = 64 };

/* ---- header ---------------------------------------------------------------------------------- */

static struct edg_pmt_section get_section(const uint8_t *p)
{
    return (struct edg_pmt_section){.offset = ron_get_le64(p), .length = ron_get_le64(p + 8)};
}

/* An empty section may have any offset: writers use 0 or the end of the file. */
static enum ron_rc section_check(const struct edg_pmt_section *s, const char *name, uint64_t end,
                                 struct ron_err *err)
{
    if (s->length > 0 && (s->offset > end || s->length > end - s->offset)) {
        return ron_err_set(err, RON_CORRUPT,
                           "%s: %" PRIu64 " bytes at %" PRIu64 " reach beyond %" PRIu64, name,
                           s->length, s->offset, end);
    }
    return RON_OK;
}

static enum ron_rc sections_check(const struct edg_pmt_header *h, uint64_t file_bytes,
                                  struct ron_err *err)
{
    uint64_t first = RON_MIN(file_bytes, (uint64_t)EDG_PMT_FIRST_BYTES);

    if (h->root.length == 0 || h->root.offset < EDG_PMT_HEADER_BYTES) {
        return ron_err_set(err, RON_CORRUPT, "root directory: %s",
                           h->root.length == 0 ? "empty" : "overlaps the header");
    }
    RON_TRY(section_check(&h->root, "root directory", first, err));
    RON_TRY(section_check(&h->metadata, "metadata", file_bytes, err));
    RON_TRY(section_check(&h->leaves, "leaf directories", file_bytes, err));
    return section_check(&h->tiles, "tile data", file_bytes, err);
}

enum ron_rc edg_pmt_header_read(const uint8_t *bytes, size_t len, uint64_t file_bytes,
                                struct edg_pmt_header *ret, struct ron_err *err)
{
    struct edg_pmt_header h;

    if (len < EDG_PMT_HEADER_BYTES || file_bytes < EDG_PMT_HEADER_BYTES) {
        return ron_err_set(err, RON_CORRUPT, "shorter than a PMTiles header");
    }
    if (memcmp(bytes, "PMTiles", MAGIC_BYTES) != 0) {
        return ron_err_set(err, RON_CORRUPT, "not a PMTiles archive: invalid magic");
    }
    if (bytes[MAGIC_BYTES] != VERSION) {
        return ron_err_set(err, RON_UNSUPPORTED,
                           "unsupported PMTiles version %u (this program supports 3)",
                           bytes[MAGIC_BYTES]);
    }
    h = (struct edg_pmt_header){
        .root = get_section(bytes + 8),
        .metadata = get_section(bytes + 24),
        .leaves = get_section(bytes + 40),
        .tiles = get_section(bytes + 56),
        .addressed = ron_get_le64(bytes + 72),
        .entries = ron_get_le64(bytes + 80),
        .contents = ron_get_le64(bytes + 88),
        .clustered = bytes[96] == 1,
        .internal_coding = (enum edg_coding)bytes[97],
        .tile_coding = (enum edg_coding)bytes[98],
        .tile_type = bytes[99],
        .zoom_min = bytes[100],
        .zoom_max = bytes[101],
        .bounds = {.west_e7 = (int32_t)ron_get_le32(bytes + 102),
                   .south_e7 = (int32_t)ron_get_le32(bytes + 106),
                   .east_e7 = (int32_t)ron_get_le32(bytes + 110),
                   .north_e7 = (int32_t)ron_get_le32(bytes + 114)},
        .center_zoom = bytes[118],
        .center_lon_e7 = (int32_t)ron_get_le32(bytes + 119),
        .center_lat_e7 = (int32_t)ron_get_le32(bytes + 123),
    };
    RON_TRY(sections_check(&h, file_bytes, err));
    if (bytes[96] > 1) {
        return ron_err_set(err, RON_CORRUPT, "invalid clustered flag %u, expected 0 or 1",
                           bytes[96]);
    }
    if (bytes[97] == EDG_CODING_UNKNOWN || bytes[97] > EDG_CODING_ZSTD) {
        return ron_err_set(err, RON_UNSUPPORTED, "unsupported internal compression %u", bytes[97]);
    }
    if (bytes[98] > EDG_CODING_ZSTD) {
        return ron_err_set(err, RON_UNSUPPORTED, "unsupported tile compression %u", bytes[98]);
    }
    if (h.zoom_min > h.zoom_max || h.zoom_max > EDG_ZOOM_MAX) {
        return ron_err_set(err, RON_CORRUPT, "zooms %u to %u", h.zoom_min, h.zoom_max);
    }
    *ret = h;
    return RON_OK;
}

/* ---- directories ----------------------------------------------------------------------------- */

struct reader {
    const uint8_t *at;
    const uint8_t *end;
    bool cut; /* once set, everything read is 0 */
};

/* At most 64 bits; more, or the end of the bytes, is remembered in `cut`. */
static uint64_t varint(struct reader *r)
{
    uint64_t v = 0;

    for (uint32_t shift = 0; shift < VARINT_BITS && r->at < r->end; shift += 7) {
        uint8_t byte = *r->at++;

        if (shift == 63 && byte > 1) {
            break;
        }
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return v;
        }
    }
    r->cut = true;
    r->at = r->end;
    return 0;
}

enum ron_rc edg_pmt_dir_count(const uint8_t *bytes, size_t len, size_t *ret_count,
                              struct ron_err *err)
{
    struct reader r = {.at = bytes, .end = bytes + len};
    uint64_t count = varint(&r);

    if (r.cut) {
        return ron_err_set(err, RON_CORRUPT, "directory: missing entry count");
    }
    if (count > EDG_PMT_ENTRIES_MAX) {
        return ron_err_set(err, RON_LIMIT, "directory: %" PRIu64 " entries, at most %d are taken",
                           count, EDG_PMT_ENTRIES_MAX);
    }
    /* An entry has four numbers of a byte at least. */
    if (count * 4 > (uint64_t)(r.end - r.at)) {
        return ron_err_set(err, RON_CORRUPT, "directory: truncated");
    }
    *ret_count = (size_t)count;
    return RON_OK;
}

static enum ron_rc bad(struct ron_err *err, size_t i, const char *what)
{
    return ron_err_set(err, RON_CORRUPT, "directory: entry %zu: %s", i, what);
}

/* Ids, runs and lengths: the columns that are read before anything can be placed. */
static enum ron_rc columns_read(struct reader *r, struct edg_pmt_entry *entries, size_t count,
                                struct ron_err *err)
{
    uint64_t id = 0;
    uint64_t v;

    for (size_t i = 0; i < count; i++) {
        v = varint(r);
        if (v > EDG_TILE_ID_MAX - id) {
            return bad(err, i, "tile id exceeds the last zoom");
        }
        if (v == 0 && i > 0) {
            return bad(err, i, "tile ids not in ascending order");
        }
        id += v;
        entries[i].tile_id = id;
    }
    for (size_t i = 0; i < count; i++) {
        v = varint(r);
        /* A leaf covers at least its own id. */
        if (v > UINT32_MAX || v > (i + 1 < count ? entries[i + 1].tile_id : EDG_TILE_ID_MAX + 1) -
                                      entries[i].tile_id) {
            return bad(err, i, "run overlaps the next entry");
        }
        entries[i].run = (uint32_t)v;
    }
    for (size_t i = 0; i < count; i++) {
        v = varint(r);
        if (v == 0 || v > UINT32_MAX) {
            return bad(err, i, v == 0 ? "zero length" : "length is 4 GiB or more");
        }
        entries[i].length = (uint32_t)v;
    }
    return RON_OK;
}

enum ron_rc edg_pmt_dir_read(const uint8_t *bytes, size_t len, const struct edg_pmt_header *h,
                             struct edg_pmt_entry *entries, size_t count, struct ron_err *err)
{
    struct reader r = {.at = bytes, .end = bytes + len};

    if (varint(&r) != count) {
        return ron_err_set(err, RON_CORRUPT, "directory: entry count does not match");
    }
    RON_TRY(columns_read(&r, entries, count, err));
    for (size_t i = 0; i < count; i++) {
        struct edg_pmt_entry *e = &entries[i];
        uint64_t section = e->run > 0 ? h->tiles.length : h->leaves.length;
        uint64_t v = varint(&r);

        if (v == 0 && i == 0) {
            return bad(err, i, r.cut ? "cut short" : "first entry has no offset");
        }
        /* The sum cannot overflow: the entry before lies inside its section. */
        e->offset = v > 0 ? v - 1 : entries[i - 1].offset + entries[i - 1].length;
        if (e->offset > section || e->length > section - e->offset) {
            return bad(err, i,
                       e->run > 0 ? "extends past the tile data"
                                  : "extends past the leaf directories");
        }
    }
    if (r.cut || r.at != r.end) {
        return ron_err_set(err, RON_CORRUPT,
                           r.cut ? "directory: truncated" : "directory: trailing bytes");
    }
    return RON_OK;
}

const struct edg_pmt_entry *edg_pmt_search(const struct edg_pmt_entry *entries, size_t count,
                                           uint64_t tile_id)
{
    size_t low = 0;
    size_t high = count;

    /* The first entry above the id is at `low` in the end. */
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (entries[middle].tile_id <= tile_id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) {
        return NULL;
    }
    entries += low - 1;
    return entries->run == 0 || tile_id - entries->tile_id < entries->run ? entries : NULL;
}
