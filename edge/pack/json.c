/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/json.c - texts of packs: degrees, metadata members, TileJSON. Pure.
 *
 * Metadata is a stranger's document. What TileJSON takes from it is taken only where its type is
 * the one that TileJSON asks for; the rest is left out, and nothing in it can make a document that
 * is not JSON. */
#include <stdlib.h>
#include <string.h>

#include "edge/pack/priv.h"
#include "ron/base/alloc.h"

enum { E7 = 10000000, DIGITS = 7, LON_MAX = 180, LAT_MAX = 90 };

/* ---- numbers --------------------------------------------------------------------------------- */

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_blanks(const char **at)
{
    while (**at == ' ') {
        (*at)++;
    }
}

bool edg__degrees_read(const char **at, bool more, int32_t *ret_e7)
{
    const char *p = *at;
    int64_t value = 0;
    int64_t unit = E7;
    bool minus;

    skip_blanks(&p);
    minus = *p == '-';
    p += *p == '-' || *p == '+' ? 1 : 0;
    if (!digit(*p)) {
        return false;
    }
    for (int i = 0; digit(*p); i++, p++) {
        value = value * 10 + (*p - '0');
        if (i >= 3) {
            return false;
        }
    }
    value *= E7;
    if (*p == '.') {
        for (p++; digit(*p); p++) {
            unit /= 10;
            value += unit * (*p - '0');
        }
    }
    skip_blanks(&p);
    if (value > (int64_t)LON_MAX * E7 || (more && *p != ',') || (!more && *p != '\0')) {
        return false;
    }
    *at = p + (more ? 1 : 0);
    *ret_e7 = (int32_t)(minus ? -value : value);
    return true;
}

void edg__degrees_write(struct ron_buf *out, int32_t e7)
{
    uint32_t size = e7 < 0 ? 0 - (uint32_t)e7 : (uint32_t)e7;
    uint32_t rest = size % E7;
    char text[DIGITS + 1];
    int len = DIGITS;

    ron_buf_append_fmt(out, "%s%u", e7 < 0 ? "-" : "", size / E7);
    if (rest == 0) {
        return;
    }
    for (int i = DIGITS - 1; i >= 0; i--, rest /= 10) {
        text[i] = (char)('0' + rest % 10);
    }
    while (text[len - 1] == '0') {
        len--;
    }
    ron_buf_append_byte(out, '.');
    ron_buf_append(out, text, (size_t)len);
}

bool edg__number_read(const char *text, uint64_t max, uint64_t *ret)
{
    uint64_t value = 0;

    if (!digit(*text)) {
        return false;
    }
    for (; digit(*text); text++) {
        value = value * 10 + (uint64_t)(*text - '0');
        if (value > max) {
            return false;
        }
    }
    *ret = value;
    return *text == '\0';
}

bool edg__bounds_good(const struct edg_bounds *b)
{
    return b->west_e7 >= -LON_MAX * E7 && b->east_e7 <= LON_MAX * E7 &&
           b->south_e7 >= -LAT_MAX * E7 && b->north_e7 <= LAT_MAX * E7 && b->west_e7 < b->east_e7 &&
           b->south_e7 < b->north_e7;
}

bool edg__utf8(const char *text, size_t len)
{
    const char *end = text + len;

    while (text < end) {
        size_t step = ron_utf8_len(text, end);

        if (step == 0) {
            return false;
        }
        text += step;
    }
    return true;
}

void edg__member_write(struct ron_buf *out, struct ron_str name, struct ron_str value)
{
    struct ron_json_writer w;

    if (ron_buf_len(out) > 1) {
        ron_buf_append_byte(out, ',');
    }
    ron_json_begin(&w, out);
    ron_json_str(&w, NULL, name);
    ron_buf_append_byte(out, ':');
    ron_json_begin(&w, out);
    ron_json_str(&w, NULL, value);
}

/* ---- TileJSON -------------------------------------------------------------------------------- */

/* What is taken from the metadata, each as its raw text. */
struct wanted {
    struct ron_str name, description, attribution, version, legend, vector_layers;
    uint64_t present;
};

static const struct ron_json_field wanted_fields[] = {
    RON_JSON_FIELD(struct wanted, name, RAW, .required = false),
    RON_JSON_FIELD(struct wanted, description, RAW, .required = false),
    RON_JSON_FIELD(struct wanted, attribution, RAW, .required = false),
    RON_JSON_FIELD(struct wanted, version, RAW, .required = false),
    RON_JSON_FIELD(struct wanted, legend, RAW, .required = false),
    RON_JSON_FIELD(struct wanted, vector_layers, RAW, .required = false),
};

static const struct ron_json_shape wanted_shape = {
    .fields = wanted_fields,
    .count = RON_ARRAY_LEN(wanted_fields),
    .present_offset = offsetof(struct wanted, present),
    .allow_unknown = true,
};

static void raw_member(struct ron_buf *out, const char *name, struct ron_str value, char first)
{
    if (value.len > 0 && value.ptr[0] == first) {
        ron_buf_append_fmt(out, ",\"%s\":", name);
        ron_buf_append(out, value.ptr, value.len);
    }
}

static void place(struct ron_buf *out, const struct edg_pack_info *info)
{
    const struct edg_bounds *b = &info->bounds;

    if (!edg__bounds_good(b)) {
        return;
    }
    ron_buf_append_text(out, ",\"bounds\":[");
    edg__degrees_write(out, b->west_e7);
    ron_buf_append_byte(out, ',');
    edg__degrees_write(out, b->south_e7);
    ron_buf_append_byte(out, ',');
    edg__degrees_write(out, b->east_e7);
    ron_buf_append_byte(out, ',');
    edg__degrees_write(out, b->north_e7);
    ron_buf_append_byte(out, ']');
    if (info->center_lon_e7 >= b->west_e7 && info->center_lon_e7 <= b->east_e7 &&
        info->center_lat_e7 >= b->south_e7 && info->center_lat_e7 <= b->north_e7) {
        ron_buf_append_text(out, ",\"center\":[");
        edg__degrees_write(out, info->center_lon_e7);
        ron_buf_append_byte(out, ',');
        edg__degrees_write(out, info->center_lat_e7);
        ron_buf_append_fmt(out, ",%u]",
                           info->center_zoom < info->zoom_min   ? info->zoom_min
                           : info->center_zoom > info->zoom_max ? info->zoom_max
                                                                : info->center_zoom);
    }
}

enum ron_rc edg__tilejson_tail(const struct edg_pack_info *info, struct ron_str metadata,
                               struct ron_buf *out, struct ron_err *err)
{
    bool vector = info->tile_type == EDG_TILE_MVT || info->tile_type == EDG_TILE_MLT;
    struct wanted w = {0};
    /* The scanner changes its text in place. */
    char *text = ron_alloc(metadata.len + 1);

    if (text == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a TileJSON");
    }
    memcpy(text, metadata.ptr, metadata.len);
    if (ron_json_scan(text, metadata.len, &wanted_shape, NULL, &w, &(struct ron_json_error){0}) !=
        RON_OK) {
        w = (struct wanted){0}; /* a member twice: then none of them is believed */
    }
    ron_buf_append_fmt(out, ",\"scheme\":\"xyz\",\"minzoom\":%u,\"maxzoom\":%u", info->zoom_min,
                       info->zoom_max);
    place(out, info);
    raw_member(out, "name", w.name, '"');
    raw_member(out, "description", w.description, '"');
    raw_member(out, "attribution", w.attribution, '"');
    raw_member(out, "version", w.version, '"');
    raw_member(out, "legend", w.legend, '"');
    if (vector) {
        bool there = w.vector_layers.len > 0 && w.vector_layers.ptr[0] == '[';

        raw_member(out, "vector_layers",
                   there ? w.vector_layers : (struct ron_str){.ptr = "[]", .len = 2}, '[');
    }
    ron_buf_append_byte(out, '}');
    ron_free(text);
    return ron_buf_error(out) == RON_OK
               ? RON_OK
               : ron_err_set(err, ron_buf_error(out), "metadata too large for a TileJSON");
}
