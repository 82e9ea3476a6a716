/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the sample is the same bytes everywhere, a sound archive, and every tile in it is a vector
 * tile that a renderer can draw.
 * Method: a golden hash; the verification; each tile decoded by a small reader of its own that
 * checks the geometry against the rules of MVT 2. */
#include "unit/edge/pack_fixture.h"

#include "edge/pack/verify.h"
#include "edge/sample/sample.h"

#define GOLDEN "b3:0ff79061163ffab53519b72cc3c809585b003f699b352439cde52265313a0abf"

/* ---- a reader of protobuf -------------------------------------------------------------------- */

struct pb {
    const uint8_t *at;
    const uint8_t *end;
};

struct field {
    uint32_t number;
    uint64_t value;  /* of a varint */
    struct pb bytes; /* of a length-delimited one */
};

static uint64_t varint(struct pb *p)
{
    uint64_t v = 0;

    for (int shift = 0;; shift += 7) {
        assert_true(p->at < p->end && shift < 64);
        v |= (uint64_t)(*p->at & 0x7f) << shift;
        if (*p->at++ < 0x80) {
            return v;
        }
    }
}

static bool next(struct pb *p, struct field *f)
{
    uint64_t tag;

    if (p->at == p->end) {
        return false;
    }
    tag = varint(p);
    *f = (struct field){.number = (uint32_t)(tag >> 3)};
    f->value = varint(p);
    if ((tag & 7) == 2) {
        assert_true(f->value <= (uint64_t)(p->end - p->at));
        f->bytes = (struct pb){.at = p->at, .end = p->at + f->value};
        p->at += f->value;
    } else {
        assert_int_equal(tag & 7, 0);
    }
    return true;
}

static int32_t zigzag(uint64_t v)
{
    return (int32_t)(v >> 1) ^ -(int32_t)(v & 1);
}

/* ---- a tile ---------------------------------------------------------------------------------- */

struct totals {
    int land, lines, labels;
};

static void geometry(struct pb g, uint32_t type)
{
    int64_t x = 0, y = 0, area = 0;
    int64_t first_x = 0, first_y = 0;
    uint32_t points = 0;
    bool closed = false;

    while (g.at < g.end) {
        uint64_t command = varint(&g);

        if ((command & 7) == 7) {
            closed = true;
            area += x * first_y - first_x * y;
            continue;
        }
        assert_false(closed); /* one ring */
        for (uint64_t n = command >> 3; n > 0; n--, points++) {
            int64_t nx = x + zigzag(varint(&g));
            int64_t ny = y + zigzag(varint(&g));

            assert_true(nx >= -64 && nx <= 4096 + 64 && ny >= -64 && ny <= 4096 + 64);
            if ((command & 7) == 1) {
                first_x = nx;
                first_y = ny;
            } else {
                assert_int_equal(command & 7, 2);
                assert_true(nx != x || ny != y);
                area += x * ny - nx * y;
            }
            x = nx;
            y = ny;
        }
    }
    assert_int_equal(closed, type == 3);
    assert_true(type == 1 ? points == 1 : type == 2 ? points == 2 : points >= 3);
    assert_true(type != 3 || area > 0);
}

static void layer(struct pb l, struct totals *totals)
{
    struct pb again = l;
    uint64_t keys = 0, values = 0;
    struct ron_str name = {0};
    struct field f, inner;

    while (next(&again, &f)) {
        keys += f.number == 3 ? 1 : 0;
        values += f.number == 4 ? 1 : 0;
        assert_true(f.number != 15 || f.value == 2);
        assert_true(f.number != 5 || f.value == 4096);
        if (f.number == 1) {
            name = (struct ron_str){.ptr = (const char *)f.bytes.at,
                                    .len = (size_t)(f.bytes.end - f.bytes.at)};
        }
    }
    while (next(&l, &f)) {
        uint64_t type = 0;

        if (f.number != 2) {
            continue;
        }
        for (struct pb feature = f.bytes; next(&feature, &inner);) {
            for (struct pb tags = inner.bytes; inner.number == 2 && tags.at < tags.end;) {
                assert_true(varint(&tags) < keys);
                assert_true(varint(&tags) < values);
            }
            type = inner.number == 3 ? inner.value : type;
            if (inner.number == 4) {
                geometry(inner.bytes, (uint32_t)type);
            }
        }
        totals->land += ron_str_is(name, "land") && type == 3 ? 1 : 0;
        totals->lines += ron_str_is(name, "graticule") && type == 2 ? 1 : 0;
        totals->labels += ron_str_is(name, "labels") && type == 1 ? 1 : 0;
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_sample__built_twice__the_golden_bytes(void **state)
{
    struct ron_buf out;
    struct ron_b3 hash;
    char id[RON_B3_ID_SIZE];

    (void)state;
    for (int i = 0; i < 2; i++) {
        ron_buf_init(&out, EDG_SAMPLE_BYTES_MAX);
        assert_int_equal(edg_sample_build(&out, NULL), RON_OK);
        ron_b3_hash(ron_buf_data(&out), ron_buf_len(&out), &hash);
        ron_b3_format(&hash, id);
        assert_string_equal(id, GOLDEN);
        ron_buf_done(&out);
    }
    ron_buf_init(&out, 1000);
    assert_int_equal(edg_sample_build(&out, NULL), RON_LIMIT);
    ron_buf_done(&out);
}

static void test_sample__every_tile__a_vector_tile_to_be_drawn(void **state)
{
    struct totals all = {0};
    struct edg_verify_report r;
    struct edg_pack *p = NULL;
    struct ron_buf bytes, packed, plain;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    ron_buf_init(&bytes, EDG_SAMPLE_BYTES_MAX);
    ron_buf_init(&packed, PK_MAX);
    ron_buf_init(&plain, PK_MAX);
    assert_int_equal(edg_sample_build(&bytes, NULL), RON_OK);
    pk_write(&w, "s", ron_buf_data(&bytes), ron_buf_len(&bytes));
    assert_int_equal(edg_verify(&(struct edg_verify_opts){.env = w.env, .path = "s"}, &r, NULL),
                     RON_OK);
    assert_int_equal(r.faults.count, 0);
    assert_int_equal(r.notes.count, 0);
    assert_int_equal(r.tiles_addressed, 341);
    assert_true(r.tile_contents < r.tile_entries && r.tile_entries < r.tiles_addressed);
    assert_int_equal(pk_open(&w, "s", &p), RON_OK);
    for (uint64_t id = 0; id < 341; id++) {
        struct totals here = {0};
        struct edg_zxy at = {0};
        struct edg_tile t;
        struct field f;

        assert_true(edg_tile_zxy(id, &at));
        assert_int_equal(edg_pack_tile_wait(p, at.z, at.x, at.y, &t, NULL), RON_OK);
        assert_int_equal(t.coding, EDG_CODING_GZIP);
        pk_take(&w, &t, &packed);
        ron_buf_clear(&plain);
        assert_int_equal(
            edg_inflate(EDG_CODING_GZIP, ron_buf_data(&packed), ron_buf_len(&packed), &plain, NULL),
            RON_OK);
        for (struct pb tile = {.at = ron_buf_data(&plain),
                              .end = ron_buf_data(&plain) + ron_buf_len(&plain)};
             next(&tile, &f);) {
            assert_int_equal(f.number, 3);
            layer(f.bytes, &here);
        }
        assert_true(here.lines > 0);
        /* The whole world, and a label for each part of it at the last zoom. */
        assert_true(id > 0 || (here.land == 20 && here.lines == 36 && here.labels == 7));
        all.labels += at.z == 4 ? here.labels : 0;
    }
    assert_int_equal(all.labels, 22);
    edg_pack_unref(p);
    ron_buf_done(&bytes);
    ron_buf_done(&packed);
    ron_buf_done(&plain);
    pk_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample__built_twice__the_golden_bytes),
        cmocka_unit_test(test_sample__every_tile__a_vector_tile_to_be_drawn),
    };

    return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
