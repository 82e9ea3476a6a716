/* SPDX-License-Identifier: Apache-2.0 */
/* edge/sample/tile.c - vector tiles (MVT 2) of the sample: cut to the tile, written as protobuf. */
#include <inttypes.h>
#include <string.h>

#include "edge/sample/priv.h"
#include "ron/base/assert.h"

enum {
    BUFFER = 64, /* beyond the edge of a tile, so that no seam shows */
    MERIDIANS = 24,
    DEGREES_EACH = 15,
    /* Each of the four cuts adds at most one corner for each that is there. */
    CUT_MAX = EDG__SHAPE_SPOTS_MAX * 2,
    FEATURE_BYTES = 16 * 1024,
    LAYER_BYTES = 128 * 1024,
    MOVE_TO = 1,
    LINE_TO = 2,
    CLOSE = 7,
    POINT = 1,
    LINE = 2,
    POLYGON = 3,
};

/* ---- protobuf -------------------------------------------------------------------------------- */

static void varint(struct ron_buf *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) {
        ron_buf_append_byte(out, (uint8_t)(v | 0x80));
    }
    ron_buf_append_byte(out, (uint8_t)v);
}

static void number(struct ron_buf *out, uint32_t field, uint64_t v)
{
    varint(out, (uint64_t)field << 3);
    varint(out, v);
}

static void bytes(struct ron_buf *out, uint32_t field, const void *data, size_t len)
{
    varint(out, (uint64_t)field << 3 | 2);
    varint(out, len);
    ron_buf_append(out, data, len);
}

static void nested(struct ron_buf *out, uint32_t field, const struct ron_buf *inner)
{
    bytes(out, field, ron_buf_data(inner), ron_buf_len(inner));
}

static uint32_t zigzag(int32_t v)
{
    return (uint32_t)v << 1 ^ (uint32_t)(v < 0 ? -1 : 0);
}

/* ---- geometry -------------------------------------------------------------------------------- */

struct line {
    size_t count;
    struct edg__spot spots[CUT_MAX];
};

/* A side of the tile with its buffer: keeps x (or y) >= at, or <= at. */
struct side {
    bool vertical; /* compares x */
    bool above;
    int32_t at;
};

static bool inside(const struct side *s, struct edg__spot p)
{
    int32_t v = s->vertical ? p.x : p.y;

    return s->above ? v >= s->at : v <= s->at;
}

/* Where the line from a to b crosses the side; rounded towards a, the same everywhere. */
static struct edg__spot crossing(const struct side *s, struct edg__spot a, struct edg__spot b)
{
    int64_t dx = (int64_t)b.x - a.x;
    int64_t dy = (int64_t)b.y - a.y;

    return s->vertical ? (struct edg__spot){s->at, a.y + (int32_t)(dy * (s->at - a.x) / dx)}
                       : (struct edg__spot){a.x + (int32_t)(dx * (s->at - a.y) / dy), s->at};
}

static void add(struct line *l, struct edg__spot p)
{
    if (l->count > 0 && l->spots[l->count - 1].x == p.x && l->spots[l->count - 1].y == p.y) {
        return;
    }
    RON_ASSERT(l->count < CUT_MAX);
    l->spots[l->count++] = p;
}

/* Sutherland and Hodgman: one side after the other. */
static void cut_side(const struct side *s, const struct line *in, struct line *out)
{
    out->count = 0;
    for (size_t i = 0; i < in->count; i++) {
        struct edg__spot a = in->spots[i];
        struct edg__spot b = in->spots[(i + 1) % in->count];

        if (inside(s, a)) {
            add(out, a);
        }
        if (inside(s, a) != inside(s, b)) {
            add(out, crossing(s, a, b));
        }
    }
    while (out->count > 1 && out->spots[0].x == out->spots[out->count - 1].x &&
           out->spots[0].y == out->spots[out->count - 1].y) {
        out->count--;
    }
}

/* A shape in the tile's own coordinates, cut to it. */
static void cut(const struct edg__shape *shape, const struct edg_zxy *at, struct line *ret)
{
    static const struct side sides[] = {{true, true, -BUFFER},
                                        {true, false, EDG__EXTENT + BUFFER},
                                        {false, true, -BUFFER},
                                        {false, false, EDG__EXTENT + BUFFER}};
    struct line other = {.count = 0};

    ret->count = 0;
    for (size_t i = 0; i < shape->count; i++) {
        add(ret,
            (struct edg__spot){shape->spots[i].x * (1 << at->z) - (int32_t)at->x * EDG__EXTENT,
                               shape->spots[i].y * (1 << at->z) - (int32_t)at->y * EDG__EXTENT});
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(sides) && ret->count > 0; i += 2) {
        cut_side(&sides[i], ret, &other);
        cut_side(&sides[i + 1], &other, ret);
    }
}

static int64_t area_twice(const struct line *l)
{
    int64_t sum = 0;

    for (size_t i = 0; i < l->count; i++) {
        const struct edg__spot *a = &l->spots[i];
        const struct edg__spot *b = &l->spots[(i + 1) % l->count];

        sum += (int64_t)a->x * b->y - (int64_t)b->x * a->y;
    }
    return sum;
}

/* ---- features -------------------------------------------------------------------------------- */

static void geometry(struct ron_buf *feature, uint32_t type, const struct line *l)
{
    uint8_t memory[FEATURE_BYTES];
    struct ron_buf g;
    struct edg__spot last = {0, 0};

    ron_buf_init_over(&g, memory, sizeof memory);
    for (size_t i = 0; i < l->count; i++) {
        if (i < 2) {
            varint(&g, i == 0 ? (1 << 3 | MOVE_TO) : ((uint64_t)(l->count - 1) << 3 | LINE_TO));
        }
        varint(&g, zigzag(l->spots[i].x - last.x));
        varint(&g, zigzag(l->spots[i].y - last.y));
        last = l->spots[i];
    }
    if (type == POLYGON) {
        varint(&g, 1 << 3 | CLOSE);
    }
    nested(feature, 4, &g);
    RON_ASSERT(ron_buf_error(&g) == RON_OK);
}

/* Key k has value v of the layer, and so on for the second pair. */
static void feature(struct ron_buf *layer, uint64_t id, uint32_t type, const struct line *l,
                    const uint32_t *tags, size_t tag_count)
{
    uint8_t memory[FEATURE_BYTES];
    uint8_t tag_memory[64];
    struct ron_buf f, t;

    ron_buf_init_over(&f, memory, sizeof memory);
    ron_buf_init_over(&t, tag_memory, sizeof tag_memory);
    for (size_t i = 0; i < tag_count; i++) {
        varint(&t, tags[i]);
    }
    number(&f, 1, id);
    nested(&f, 2, &t);
    number(&f, 3, type);
    geometry(&f, type, l);
    nested(layer, 2, &f);
    RON_ASSERT(ron_buf_error(&f) == RON_OK);
}

static void text_value(struct ron_buf *layer, const char *text)
{
    uint8_t memory[128];
    struct ron_buf v;

    ron_buf_init_over(&v, memory, sizeof memory);
    bytes(&v, 1, text, strlen(text));
    nested(layer, 4, &v);
}

static void number_value(struct ron_buf *layer, int32_t value)
{
    uint8_t memory[16];
    struct ron_buf v;

    ron_buf_init_over(&v, memory, sizeof memory);
    number(&v, 6, zigzag(value));
    nested(layer, 4, &v);
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* Features are written into `layer` first: a layer without any is left out. */
static void layer_end(struct ron_buf *out, const char *name, const char *const *keys,
                      size_t key_count, const struct ron_buf *features,
                      const struct ron_buf *values)
{
    uint8_t memory[64];
    struct ron_buf head;
    size_t len = ron_buf_len(features) + ron_buf_len(values);

    if (ron_buf_len(features) == 0) {
        return;
    }
    ron_buf_init_over(&head, memory, sizeof memory);
    number(&head, 15, 2);
    bytes(&head, 1, name, strlen(name));
    number(&head, 5, EDG__EXTENT);
    for (size_t i = 0; i < key_count; i++) {
        bytes(&head, 3, keys[i], strlen(keys[i]));
    }
    varint(out, 3 << 3 | 2);
    varint(out, len + ron_buf_len(&head));
    ron_buf_append(out, ron_buf_data(&head), ron_buf_len(&head));
    ron_buf_append(out, ron_buf_data(features), ron_buf_len(features));
    ron_buf_append(out, ron_buf_data(values), ron_buf_len(values));
}

static void land(const struct edg_zxy *at, struct ron_buf *features, struct ron_buf *values)
{
    struct line l;
    uint32_t value = 0;

    for (size_t i = 0; i < edg__shape_count; i++) {
        cut(&edg__shapes[i], at, &l);
        /* The cuts keep the direction; what is left without an area is a line along an edge. */
        if (l.count >= 3 && area_twice(&l) > 0) {
            feature(features, i + 1, POLYGON, &l, (const uint32_t[]){0, value++}, 2);
            text_value(values, edg__shapes[i].name);
        }
    }
}

static void grid_line(const struct edg_zxy *at, bool meridian, int32_t where, uint64_t id,
                      uint32_t *value, int32_t degrees, struct ron_buf *features,
                      struct ron_buf *values)
{
    int32_t v = where * (1 << at->z) - (int32_t)(meridian ? at->x : at->y) * EDG__EXTENT;
    int32_t low = -BUFFER;
    int32_t high = EDG__EXTENT + BUFFER;
    struct line l = {.count = 2};

    if (v < low || v > high) {
        return;
    }
    l.spots[0] = meridian ? (struct edg__spot){v, low} : (struct edg__spot){low, v};
    l.spots[1] = meridian ? (struct edg__spot){v, high} : (struct edg__spot){high, v};
    feature(features, id, LINE, &l, (const uint32_t[]){0, (*value)++}, 2);
    number_value(values, degrees);
}

static void graticule(const struct edg_zxy *at, struct ron_buf *features, struct ron_buf *values)
{
    uint32_t value = 0;
    uint64_t id = 1;

    for (int32_t i = 0; i <= MERIDIANS; i++, id++) {
        grid_line(at, true, i * EDG__EXTENT / MERIDIANS, id, &value, i * DEGREES_EACH - 180,
                  features, values);
    }
    for (size_t i = 0; i < edg__parallel_count; i++, id++) {
        grid_line(at, false, edg__parallels[i], id, &value, 75 - (int32_t)i * DEGREES_EACH,
                  features, values);
    }
}

static void labels(const struct edg_zxy *at, struct ron_buf *features, struct ron_buf *values)
{
    uint32_t value = 0;

    for (size_t i = 0; i < edg__label_count; i++) {
        const struct edg__label *label = &edg__labels[i];
        struct line l = {.count = 1};
        struct edg__spot p = {label->at.x * (1 << at->z) - (int32_t)at->x * EDG__EXTENT,
                              label->at.y * (1 << at->z) - (int32_t)at->y * EDG__EXTENT};

        if (label->rank > at->z || p.x < 0 || p.x >= EDG__EXTENT || p.y < 0 || p.y >= EDG__EXTENT) {
            continue;
        }
        l.spots[0] = p;
        feature(features, i + 1, POINT, &l, (const uint32_t[]){0, value, 1, value + 1}, 4);
        text_value(values, label->name);
        number_value(values, (int32_t)label->rank);
        value += 2;
    }
}

enum ron_rc edg__sample_tile(const struct edg_zxy *at, struct ron_buf *out)
{
    static const struct {
        const char *name;
        const char *keys[2];
        size_t key_count;
        void (*draw)(const struct edg_zxy *at, struct ron_buf *features, struct ron_buf *values);
    } layers[] = {{"land", {"name"}, 1, land},
                  {"graticule", {"degrees"}, 1, graticule},
                  {"labels", {"name", "rank"}, 2, labels}};
    struct ron_buf features, values;
    enum ron_rc rc = RON_OK;

    ron_buf_init(&features, LAYER_BYTES);
    ron_buf_init(&values, LAYER_BYTES);
    for (size_t i = 0; i < RON_ARRAY_LEN(layers) && rc == RON_OK; i++) {
        ron_buf_clear(&features);
        ron_buf_clear(&values);
        layers[i].draw(at, &features, &values);
        layer_end(out, layers[i].name, layers[i].keys, layers[i].key_count, &features, &values);
        rc = ron_buf_error(&features) != RON_OK ? ron_buf_error(&features)
             : ron_buf_error(&values) != RON_OK ? ron_buf_error(&values)
                                                : ron_buf_error(out);
    }
    ron_buf_done(&features);
    ron_buf_done(&values);
    return rc;
}
