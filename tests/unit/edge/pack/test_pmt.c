/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: every tile of a PMTiles archive is found and no other; every rule of the format that is
 * checked when an archive is opened or a directory is read has an archive that breaks it alone, and
 * is refused with its reason.
 * Method: archives written by hand on a disk in memory: small ones with one fault each; random ones
 * of all compressions and depths, by seed; every byte of a small one flipped. */
#include "unit/edge/pack_fixture.h"

#define TILES "AAAABBBBBBCCCCCCCC"

/* 1/0/0 twice in a run, 1/1/0 and 2/0/0 */
static const struct edg_pmt_entry three[] = {
    {.tile_id = 1, .offset = 0, .length = 4, .run = 2},
    {.tile_id = 4, .offset = 4, .length = 6, .run = 1},
    {.tile_id = 5, .offset = 10, .length = 8, .run = 1},
};

static struct pk_spec small(void)
{
    return (struct pk_spec){.internal = EDG_CODING_GZIP,
                            .tile_coding = EDG_CODING_NONE,
                            .type = EDG_TILE_MVT,
                            .zoom_min = 1,
                            .zoom_max = 2,
                            .clustered = true,
                            .entries = three,
                            .count = RON_ARRAY_LEN(three),
                            .tiles = TILES,
                            .tiles_len = sizeof TILES - 1};
}

static void expect_tile(struct pk_world *w, struct edg_pack *p, uint64_t z, uint64_t x, uint64_t y,
                        const char *text)
{
    struct edg_tile t = {0};
    struct ron_b3 tag;
    struct ron_buf got;

    ron_buf_init(&got, PK_MAX);
    assert_int_equal(edg_pack_tile_wait(p, z, x, y, &t, &w->err), RON_OK);
    ron_b3_hash(text, strlen(text), &tag);
    assert_true(ron_b3_equal(&tag, &t.tag));
    pk_take(w, &t, &got);
    assert_string_equal(ron_buf_text(&got), text);
    /* From now on without the disk. */
    assert_int_equal(edg_pack_tile(p, z, x, y, &t, &w->err), RON_OK);
    assert_true(ron_b3_equal(&tag, &t.tag));
    pk_take(w, &t, &got);
    assert_string_equal(ron_buf_text(&got), text);
    ron_buf_done(&got);
}

static void expect_no_tile(struct edg_pack *p, uint64_t z, uint64_t x, uint64_t y)
{
    struct edg_tile t;

    assert_int_equal(edg_pack_tile_wait(p, z, x, y, &t, NULL), RON_NOTFOUND);
    assert_int_equal(edg_pack_tile(p, z, x, y, &t, NULL), RON_NOTFOUND);
}

static void test_pmt__small_archive__its_tiles_and_no_others(void **state)
{
    struct pk_spec s = small();
    struct edg_pack *p = NULL;
    struct edg_tile t;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    assert_int_equal(pk_mount(&w, &s, &p), RON_OK);
    assert_int_equal(edg_pack_tile(p, 1, 0, 0, &t, NULL), RON_AGAIN);
    expect_tile(&w, p, 1, 0, 0, "AAAA");
    expect_tile(&w, p, 1, 0, 1, "AAAA");
    expect_tile(&w, p, 1, 1, 0, "BBBBBB");
    expect_tile(&w, p, 2, 0, 0, "CCCCCCCC");
    expect_no_tile(p, 1, 1, 1); /* between two entries */
    expect_no_tile(p, 2, 1, 0); /* behind the last */
    expect_no_tile(p, 0, 0, 0); /* below the zooms */
    expect_no_tile(p, 3, 0, 0);
    expect_no_tile(p, 2, 4, 0); /* not on the map */
    expect_no_tile(p, UINT64_MAX, 0, 0);
    edg_pack_unref(p);
    pk_end(&w);
}

static void test_pmt__empty_archive__opens_and_has_nothing(void **state)
{
    struct pk_spec s = small();
    struct edg_pack *p = NULL;
    struct pk_world w;

    (void)state;
    s.count = 0;
    s.tiles_len = 0;
    pk_begin(&w);
    assert_int_equal(pk_mount(&w, &s, &p), RON_OK);
    expect_no_tile(p, 1, 0, 0);
    edg_pack_unref(p);
    pk_end(&w);
}

/* ---- one fault each -------------------------------------------------------------------------- */

struct poke {
    size_t at;
    int bytes; /* 1 or 8 */
    uint64_t value;
    enum ron_rc rc;
    const char *says;
};

static void test_pmt__one_header_field_wrong__refused_with_its_reason(void **state)
{
    static const struct poke pokes[] = {
        {0, 1, 'X', RON_CORRUPT, "not a PMTiles archive: invalid magic"},
        {7, 1, 4, RON_UNSUPPORTED, "unsupported PMTiles version 4"},
        {8, 8, 126, RON_CORRUPT, "root directory: overlaps the header"},
        {8, 8, UINT64_MAX, RON_CORRUPT, "root directory"},
        {8, 8, 16384, RON_CORRUPT, "root directory"},
        {16, 8, 0, RON_CORRUPT, "root directory: empty"},
        {16, 8, UINT64_MAX, RON_CORRUPT, "root directory"},
        {16, 8, 16384, RON_CORRUPT, "root directory"},
        {24, 8, UINT64_MAX, RON_CORRUPT, "metadata"},
        {32, 8, UINT64_MAX - 100, RON_CORRUPT, "metadata"},
        {48, 8, UINT64_MAX, RON_CORRUPT, "leaf directories"},
        {56, 8, UINT64_MAX - 3, RON_CORRUPT, "tile data"},
        {64, 8, sizeof TILES, RON_CORRUPT, "tile data"},
        {96, 1, 2, RON_CORRUPT, "invalid clustered flag 2"},
        {97, 1, 0, RON_UNSUPPORTED, "unsupported internal compression 0"},
        {97, 1, 5, RON_UNSUPPORTED, "unsupported internal compression 5"},
        {98, 1, 5, RON_UNSUPPORTED, "unsupported tile compression 5"},
        {100, 1, 3, RON_CORRUPT, "zooms 3 to 2"},
        {101, 1, 32, RON_CORRUPT, "zooms 1 to 32"},
    };
    struct pk_spec s = small();
    struct edg_pack *p = NULL;
    struct ron_buf good;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    ron_buf_init(&good, PK_MAX);
    pk_build(&s, &good);
    for (size_t i = 0; i < RON_ARRAY_LEN(pokes); i++) {
        uint8_t bytes[1024];
        size_t len = ron_buf_len(&good);

        assert_true(len < sizeof bytes);
        memcpy(bytes, ron_buf_data(&good), len);
        if (pokes[i].bytes == 8) {
            pk_u64(bytes + pokes[i].at, pokes[i].value);
        } else {
            bytes[pokes[i].at] = (uint8_t)pokes[i].value;
        }
        pk_write(&w, "evil", bytes, len);
        assert_int_equal(pk_open(&w, "evil", &p), pokes[i].rc);
        if (strstr(w.err.msg, pokes[i].says) == NULL) {
            fail_msg("'%s' is not in '%s'", pokes[i].says, w.err.msg);
        }
    }
    pk_write(&w, "good", ron_buf_data(&good), ron_buf_len(&good));
    assert_int_equal(pk_open(&w, "good", &p), RON_OK);
    edg_pack_unref(p);
    for (size_t len = 0; len < EDG_PMT_HEADER_BYTES; len++) {
        pk_write(&w, "short", ron_buf_data(&good), len);
        assert_int_equal(pk_open(&w, "short", &p), RON_CORRUPT);
        assert_int_equal(w.env->disk->remove(w.env, "short", NULL), RON_OK);
    }
    ron_buf_done(&good);
    pk_end(&w);
}

/* A root directory from numbers, whatever they are. */
struct columns {
    uint64_t count;
    size_t given; /* how many numbers follow */
    uint64_t numbers[12];
    enum ron_rc rc;
    const char *says;
};

static void test_pmt__one_number_of_a_directory_wrong__refused_with_its_reason(void **state)
{
    static const struct columns evil[] = {
        {0, 1, {7}, RON_CORRUPT, "trailing bytes"},
        {262145, 0, {0}, RON_LIMIT, "262145 entries"},
        {UINT64_MAX, 0, {0}, RON_LIMIT, "entries"},
        {2, 4, {1, 1, 4, 1}, RON_CORRUPT, "truncated"},
        {1, 4, {EDG_TILE_ID_MAX + 1, 1, 4, 1}, RON_CORRUPT, "exceeds the last zoom"},
        {2, 8, {1, EDG_TILE_ID_MAX, 1, 1, 4, 4, 1, 0}, RON_CORRUPT, "exceeds the last zoom"},
        {2, 8, {1, UINT64_MAX, 1, 1, 4, 4, 1, 0}, RON_CORRUPT, "exceeds the last zoom"},
        {2, 8, {1, 0, 1, 1, 4, 4, 1, 0}, RON_CORRUPT, "not in ascending order"},
        {2, 8, {1, 1, 2, 1, 4, 4, 1, 0}, RON_CORRUPT, "overlaps the next entry"},
        {1, 4, {1, (uint64_t)1 << 32, 4, 1}, RON_CORRUPT, "overlaps the next entry"},
        {1, 4, {EDG_TILE_ID_MAX, 2, 4, 1}, RON_CORRUPT, "overlaps the next entry"},
        {1, 4, {1, 1, 0, 1}, RON_CORRUPT, "zero length"},
        {1, 4, {1, 1, (uint64_t)1 << 32, 1}, RON_CORRUPT, "4 GiB"},
        {1, 4, {1, 1, 4, 0}, RON_CORRUPT, "first entry has no offset"},
        {1, 4, {1, 1, 4, 16}, RON_CORRUPT, "past the tile data"},
        {1, 4, {1, 1, 19, 1}, RON_CORRUPT, "past the tile data"},
        {1, 4, {1, 1, 4, UINT64_MAX}, RON_CORRUPT, "past the tile data"},
        {2, 8, {1, 1, 1, 1, 18, 1, 1, 0}, RON_CORRUPT, "past the tile data"},
        {1, 4, {1, 0, 4, 1}, RON_CORRUPT, "past the leaf directories"},
        {1, 5, {1, 1, 4, 1, 1}, RON_CORRUPT, "trailing bytes"},
        {1, 4, {1, 1, 4, 15}, RON_OK, ""},
    };
    struct pk_spec s = small();
    struct edg_pack *p = NULL;
    struct ron_buf root;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    ron_buf_init(&root, PK_MAX);
    s.root_raw = &root;
    for (size_t i = 0; i < RON_ARRAY_LEN(evil); i++) {
        ron_buf_clear(&root);
        pk_varint(&root, evil[i].count);
        for (size_t n = 0; n < evil[i].given; n++) {
            pk_varint(&root, evil[i].numbers[n]);
        }
        assert_int_equal(pk_mount(&w, &s, &p), evil[i].rc);
        if (strstr(w.err.msg, evil[i].says) == NULL) {
            fail_msg("'%s' is not in '%s'", evil[i].says, w.err.msg);
        }
        if (evil[i].rc == RON_OK) {
            edg_pack_unref(p);
        }
    }
    /* A number of eleven bytes, and one that ends with the bytes. */
    ron_buf_clear(&root);
    ron_buf_append(&root, "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x01\x04\x01", 14);
    assert_int_equal(pk_mount(&w, &s, &p), RON_CORRUPT);
    ron_buf_clear(&root);
    ron_buf_append(&root, "\x01\x01\x01\x04\x80", 5);
    assert_int_equal(pk_mount(&w, &s, &p), RON_CORRUPT);
    ron_buf_done(&root);
    pk_end(&w);
}

static void test_pmt__directory_that_inflates_too_far__refused(void **state)
{
    static const enum edg_coding codings[] = {EDG_CODING_GZIP, EDG_CODING_ZSTD};
    struct pk_spec s = small();
    struct edg_pack *p = NULL;
    struct ron_buf root;
    uint8_t *room = NULL;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    ron_buf_init(&root, PK_MAX);
    assert_int_equal(ron_buf_reserve(&root, EDG_PMT_DIR_BYTES_MAX + 1, &room), RON_OK);
    memset(room, 0, EDG_PMT_DIR_BYTES_MAX + 1);
    ron_buf_commit(&root, EDG_PMT_DIR_BYTES_MAX + 1);
    s.root_raw = &root;
    for (size_t i = 0; i < RON_ARRAY_LEN(codings); i++) {
        s.internal = codings[i];
        assert_int_equal(pk_mount(&w, &s, &p), RON_LIMIT);
    }
    ron_buf_done(&root);
    pk_end(&w);
}

static void test_pmt__root_that_is_not_packed_as_told__refused(void **state)
{
    struct pk_spec s = small();
    struct edg_pack *p = NULL;
    struct ron_buf bytes;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    ron_buf_init(&bytes, PK_MAX);
    pk_build(&s, &bytes);
    for (uint8_t coding = EDG_CODING_GZIP; coding <= EDG_CODING_ZSTD; coding++) {
        bytes.memory[bytes.head + 97] = coding;
        pk_write(&w, "x", ron_buf_data(&bytes), ron_buf_len(&bytes));
        assert_int_equal(pk_open(&w, "x", &p), coding == EDG_CODING_GZIP ? RON_OK : RON_CORRUPT);
        if (coding == EDG_CODING_GZIP) {
            edg_pack_unref(p);
        }
    }
    ron_buf_done(&bytes);
    pk_end(&w);
}

/* ---- leaves ---------------------------------------------------------------------------------- */

/* A leaf that points to itself, as deep as anyone likes to look. */
static void test_pmt__leaf_that_holds_itself__found_to_be_too_deep(void **state)
{
    static const struct edg_pmt_entry pointer = {.tile_id = 1, .offset = 0, .length = 5};
    struct pk_spec s = small();
    struct edg_pack *p = NULL;
    struct edg_tile t;
    struct ron_buf root, leaf;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    ron_buf_init(&root, PK_MAX);
    ron_buf_init(&leaf, PK_MAX);
    pk_dir(&root, &pointer, 1);
    pk_dir(&leaf, &pointer, 1);
    assert_int_equal(ron_buf_len(&leaf), pointer.length);
    s.internal = EDG_CODING_NONE;
    s.root_raw = &root;
    s.leaf_raw = &leaf;
    assert_int_equal(pk_mount(&w, &s, &p), RON_OK);
    assert_int_equal(edg_pack_tile_wait(p, 1, 0, 0, &t, &w.err), RON_CORRUPT);
    assert_non_null(strstr(w.err.msg, "nested more than 3 levels deep"));
    edg_pack_unref(p);
    ron_buf_done(&root);
    ron_buf_done(&leaf);
    pk_end(&w);
}

static void test_pmt__damaged_leaf__its_tiles_fail_and_others_do_not(void **state)
{
    struct pk_spec s = small();
    struct edg_pack *p = NULL;
    struct edg_tile t;
    struct ron_buf bytes;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    ron_buf_init(&bytes, PK_MAX);
    s.levels = 1;
    s.per_leaf = 2;
    pk_build(&s, &bytes);
    /* The last leaf ends where the tiles begin: the length in its gzip trailer. */
    bytes.memory[bytes.head + ron_buf_len(&bytes) - s.tiles_len - 1] ^= 1;
    pk_write(&w, "x", ron_buf_data(&bytes), ron_buf_len(&bytes));
    assert_int_equal(pk_open(&w, "x", &p), RON_OK);
    expect_tile(&w, p, 1, 0, 0, "AAAA");
    assert_int_equal(edg_pack_tile_wait(p, 2, 0, 0, &t, &w.err), RON_CORRUPT);
    assert_non_null(strstr(w.err.msg, "truncated or corrupt gzip data"));
    edg_pack_unref(p);
    ron_buf_done(&bytes);
    pk_end(&w);
}

static void test_pmt__file_that_shrinks_while_open__reads_fail_and_nothing_else(void **state)
{
    struct pk_spec s = small();
    struct edg_pack *p = NULL;
    struct edg_tile t;
    struct pk_world w;
    int fd = -1;

    (void)state;
    pk_begin(&w);
    s.levels = 1;
    s.per_leaf = 2;
    assert_int_equal(pk_mount(&w, &s, &p), RON_OK);
    expect_tile(&w, p, 1, 0, 0, "AAAA");
    assert_int_equal(w.env->disk->open(w.env, "a.pmtiles", RON_OPEN_WRITE, 0, &fd, NULL), RON_OK);
    assert_int_equal(w.env->disk->truncate(w.env, fd, 200, NULL), RON_OK);
    w.env->disk->close(w.env, fd);
    expect_tile(&w, p, 1, 0, 0, "AAAA"); /* in memory */
    assert_int_equal(edg_pack_tile_wait(p, 1, 1, 0, &t, &w.err), RON_CORRUPT);
    assert_int_equal(edg_pack_tile_wait(p, 2, 0, 0, &t, &w.err), RON_CORRUPT);
    assert_non_null(strstr(w.err.msg, "the file ends before"));
    assert_int_equal(edg_pack_hash(p, NULL, NULL, &w.err), RON_CORRUPT);
    edg_pack_unref(p);
    pk_end(&w);
}

/* Opens whatever it is and looks for every tile of the low zooms: bytes that are lent lie inside
 * the tile section that the header tells. */
static void look_everywhere(struct pk_world *w, const struct ron_buf *bytes)
{
    struct edg_pmt_header h = {0};
    struct edg_pack *p = NULL;
    struct ron_buf got;

    if (pk_open(w, "x", &p) != RON_OK) {
        assert_true(w->err.msg[0] != '\0');
        return;
    }
    assert_int_equal(
        edg_pmt_header_read(ron_buf_data(bytes), ron_buf_len(bytes), ron_buf_len(bytes), &h, NULL),
        RON_OK);
    ron_buf_init(&got, PK_MAX);
    for (uint64_t id = 0; id < 21; id++) {
        struct edg_zxy at = {0};
        struct edg_tile t = {0};
        size_t len;

        assert_true(edg_tile_zxy(id, &at));
        if (edg_pack_tile_wait(p, at.z, at.x, at.y, &t, &w->err) != RON_OK) {
            continue;
        }
        len = (size_t)t.blob.length;
        pk_take(w, &t, &got);
        assert_int_equal(ron_buf_len(&got), len);
        assert_non_null(memmem(ron_buf_data(bytes) + h.tiles.offset, (size_t)h.tiles.length,
                               ron_buf_data(&got), len));
    }
    ron_buf_done(&got);
    edg_pack_unref(p);
}

static void test_pmt__any_byte_flipped__refused_or_inside_the_tiles(void **state)
{
    struct pk_spec s = small();
    struct ron_buf bytes;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    for (int levels = 0; levels < 2; levels++) {
        ron_buf_init(&bytes, PK_MAX);
        s.internal = levels == 0 ? EDG_CODING_NONE : EDG_CODING_GZIP;
        s.levels = levels;
        s.per_leaf = 2;
        pk_build(&s, &bytes);
        for (size_t i = 0; i < ron_buf_len(&bytes); i++) {
            for (uint8_t bit = 1; bit != 0; bit = (uint8_t)(bit << 1)) {
                bytes.memory[bytes.head + i] ^= bit;
                pk_write(&w, "x", ron_buf_data(&bytes), ron_buf_len(&bytes));
                look_everywhere(&w, &bytes);
                bytes.memory[bytes.head + i] ^= bit;
            }
        }
        ron_buf_done(&bytes);
    }
    pk_end(&w);
}

/* ---- random archives ------------------------------------------------------------------------- */

enum { DRAWN_MAX = 3000, DRAWN_BYTES = 1 << 20 };

struct drawn {
    struct edg_pmt_entry entries[DRAWN_MAX];
    size_t count;
    uint8_t tiles[DRAWN_BYTES];
    size_t tiles_len;
};

/* Sorted entries with gaps and runs; some share the bytes of an earlier one. */
static void draw(struct ron_rand *rand, struct drawn *d)
{
    uint64_t id = ron_rand_below(rand, 100);

    d->count = 1 + (size_t)ron_rand_below(rand, DRAWN_MAX);
    d->tiles_len = 0;
    for (size_t i = 0; i < d->count; i++) {
        struct edg_pmt_entry *e = &d->entries[i];
        uint32_t len = 1 + (uint32_t)ron_rand_below(rand, 300);

        *e = (struct edg_pmt_entry){.tile_id = id, .run = 1};
        if (ron_rand_chance(rand, 1, 5)) {
            e->run = 1 + (uint32_t)ron_rand_below(rand, 9);
        }
        id += e->run + (ron_rand_chance(rand, 1, 3) ? ron_rand_below(rand, 50) : 0);
        if (i > 0 && ron_rand_chance(rand, 1, 4)) {
            const struct edg_pmt_entry *other = &d->entries[ron_rand_below(rand, i)];

            e->offset = other->offset;
            e->length = other->length;
            continue;
        }
        e->offset = d->tiles_len;
        e->length = len;
        ron_rand_bytes(rand, d->tiles + d->tiles_len, len);
        d->tiles_len += len;
    }
}

static void compare(struct pk_world *w, struct edg_pack *p, const struct drawn *d, uint64_t id,
                    const struct edg_pmt_entry *expected, struct ron_buf *got)
{
    struct edg_zxy at = {0};
    struct edg_tile t = {0};
    enum ron_rc rc;

    (void)w;
    assert_true(edg_tile_zxy(id, &at));
    rc = edg_pack_tile(p, at.z, at.x, at.y, &t, NULL);
    rc = rc == RON_AGAIN ? edg_pack_tile_wait(p, at.z, at.x, at.y, &t, &w->err) : rc;
    if (expected == NULL) {
        assert_int_equal(rc, RON_NOTFOUND);
        return;
    }
    assert_int_equal(rc, RON_OK);
    assert_int_equal(t.blob.length, expected->length);
    pk_take(w, &t, got);
    assert_int_equal(ron_buf_len(got), expected->length);
    assert_memory_equal(ron_buf_data(got), d->tiles + expected->offset, expected->length);
}

static void test_pmt__random_archives__every_tile_and_every_gap(void **state)
{
    /* Small tables, so that blocks, leaves and tags are pushed out on the way. */
    static const struct edg_pack_cache_opts tight = {
        .leaf_bytes_max = 40000, .tile_bytes_max = 60000, .tile_one_max = 200, .tags_max = 64};
    static struct drawn d;
    struct ron_rand rand = support_rand();
    struct pk_world w;
    struct ron_buf got;

    (void)state;
    ron_buf_init(&got, PK_MAX);
    for (int round = 0; round < 40; round++) {
        struct pk_spec s = {
            .tile_coding = EDG_CODING_NONE, .zoom_max = 31, .entries = d.entries, .tiles = d.tiles};
        struct edg_pack *p = NULL;
        uint64_t id = 0;

        pk_begin_with(&w, round % 2 == 0 ? &tight : NULL);
        draw(&rand, &d);
        s.count = d.count;
        s.tiles_len = d.tiles_len;
        s.internal = (enum edg_coding)ron_rand_range(&rand, EDG_CODING_NONE, EDG_CODING_ZSTD);
        s.per_leaf = 20 + ron_rand_below(&rand, 200);
        /* A root beyond 16 KiB is no archive; one level of leaves makes it small. */
        s.levels = (int)ron_rand_range(&rand, 1, EDG_PMT_DEPTH_MAX);
        assert_int_equal(pk_mount(&w, &s, &p), RON_OK);
        for (size_t i = 0; i < d.count; i++) {
            const struct edg_pmt_entry *e = &d.entries[i];

            for (; id < e->tile_id; id++) {
                compare(&w, p, &d, id, NULL, &got);
            }
            for (; id < e->tile_id + e->run; id++) {
                compare(&w, p, &d, id, e, &got);
            }
        }
        compare(&w, p, &d, id, NULL, &got);
        edg_pack_unref(p);
        pk_end(&w);
    }
    ron_buf_done(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pmt__small_archive__its_tiles_and_no_others),
        cmocka_unit_test(test_pmt__empty_archive__opens_and_has_nothing),
        cmocka_unit_test(test_pmt__one_header_field_wrong__refused_with_its_reason),
        cmocka_unit_test(test_pmt__one_number_of_a_directory_wrong__refused_with_its_reason),
        cmocka_unit_test(test_pmt__directory_that_inflates_too_far__refused),
        cmocka_unit_test(test_pmt__root_that_is_not_packed_as_told__refused),
        cmocka_unit_test(test_pmt__leaf_that_holds_itself__found_to_be_too_deep),
        cmocka_unit_test(test_pmt__damaged_leaf__its_tiles_fail_and_others_do_not),
        cmocka_unit_test(test_pmt__file_that_shrinks_while_open__reads_fail_and_nothing_else),
        cmocka_unit_test(test_pmt__any_byte_flipped__refused_or_inside_the_tiles),
        cmocka_unit_test(test_pmt__random_archives__every_tile_and_every_gap),
    };

    return cmocka_run_group_tests_name("pmt", tests, NULL, NULL);
}
