/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a pack tells what it is, lends tiles that outlive it, and keeps within its cache.
 * Method: archives on a disk in memory; the public archives where they are at hand. */
#include "unit/edge/pack_fixture.h"

#include "edge/pack/priv.h"
#include "ron/io/file.h"

enum { LARGE = 200000 };

static const struct edg_pmt_entry one[] = {{.tile_id = 0, .offset = 0, .length = 4, .run = 1}};

static struct pk_spec single(const char *metadata)
{
    return (struct pk_spec){.internal = EDG_CODING_GZIP,
                            .tile_coding = EDG_CODING_GZIP,
                            .type = EDG_TILE_MVT,
                            .clustered = true,
                            .entries = one,
                            .count = 1,
                            .tiles = "abcd",
                            .tiles_len = 4,
                            .metadata = metadata};
}

static struct ron_str str(const char *text)
{
    return (struct ron_str){.ptr = text, .len = strlen(text)};
}

/* ---- documents ------------------------------------------------------------------------------- */

static void expect_tilejson(const char *metadata, const char *expected)
{
    struct pk_spec s = single(metadata);
    struct edg_pack *p = NULL;
    struct ron_buf out;
    struct pk_world w;

    pk_begin(&w);
    ron_buf_init(&out, 65536);
    assert_int_equal(pk_mount(&w, &s, &p), RON_OK);
    assert_int_equal(edg_pack_tilejson(p, str("http://h/\"{z}"), &out), RON_OK);
    assert_string_equal(ron_buf_text(&out), expected);
    assert_int_equal(ron_json_check((const char *)ron_buf_data(&out), ron_buf_len(&out),
                                    &(struct ron_json_error){0}),
                     RON_OK);
    ron_buf_done(&out);
    edg_pack_unref(p);
    pk_end(&w);
}

#define HEAD                                                                                       \
    "{\"tilejson\":\"3.0.0\",\"tiles\":[\"http://h/\\\"{z}\"],\"scheme\":\"xyz\",\"minzoom\":0,"   \
    "\"maxzoom\":0,\"bounds\":[-180,-85,180,85],\"center\":[0,0,0]"

static void test_pack__metadata__becomes_tilejson(void **state)
{
    (void)state;
    expect_tilejson("{\"name\":\"A \\\"b\\\"\",\"description\":\"d\",\"attribution\":\"<a>\","
                    "\"version\":\"2.0.1\",\"legend\":\"l\",\"vector_layers\":[{\"id\":\"x\"}],"
                    "\"other\":{\"name\":1}}",
                    HEAD ",\"name\":\"A \\\"b\\\"\",\"description\":\"d\",\"attribution\":\"<a>\","
                         "\"version\":\"2.0.1\",\"legend\":\"l\","
                         "\"vector_layers\":[{\"id\":\"x\"}]}");
}

static void test_pack__metadata_of_wrong_types__left_out(void **state)
{
    (void)state;
    expect_tilejson("{}", HEAD ",\"vector_layers\":[]}");
    expect_tilejson("{\"name\":1,\"description\":null,\"version\":2,\"vector_layers\":\"x\"}",
                    HEAD ",\"vector_layers\":[]}");
    expect_tilejson("{\"name\":\"a\",\"name\":\"b\"}", HEAD ",\"vector_layers\":[]}");
}

static void test_pack__metadata_that_is_no_object__refused(void **state)
{
    static const char *const evil[] = {"[]", "\"x\"", "{", "{}x", "1", "nope"};
    struct edg_pack *p = NULL;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    for (size_t i = 0; i < RON_ARRAY_LEN(evil); i++) {
        struct pk_spec s = single(evil[i]);

        assert_int_equal(pk_mount(&w, &s, &p), RON_CORRUPT);
        assert_non_null(strstr(w.err.msg, "metadata"));
    }
    pk_end(&w);
}

static void test_pack__metadata_beyond_its_bound__refused(void **state)
{
    static char text[EDG_METADATA_BYTES_MAX + 2];
    struct pk_spec s;
    struct edg_pack *p = NULL;
    struct pk_world w;

    (void)state;
    memset(text, ' ', sizeof text - 1);
    text[0] = '{';
    text[sizeof text - 2] = '}';
    s = single(text);
    pk_begin(&w);
    assert_int_equal(pk_mount(&w, &s, &p), RON_LIMIT);
    s.internal = EDG_CODING_NONE;
    assert_int_equal(pk_mount(&w, &s, &p), RON_LIMIT);
    pk_end(&w);
}

static void test_pack__degrees__read_and_written_to_the_digit(void **state)
{
    static const struct {
        const char *text;
        int32_t e7;
        const char *again;
    } good[] = {{"0", 0, "0"},
                {"-180", -1800000000, "-180"},
                {"180.0000000", 1800000000, "180"},
                {" 7.4078 ", 74078000, "7.4078"},
                {"-0.0000001", -1, "-0.0000001"},
                {"+85.05112877980659", 850511287, "85.0511287"}};
    static const char *const bad[] = {"",           "-",   ".5",  "181", "1e2",
                                      "nan",        "1,2", "1 2", "0x1", "99999999999999999999",
                                      "180.0000001"};
    struct ron_buf out;

    (void)state;
    ron_buf_init(&out, 64);
    for (size_t i = 0; i < RON_ARRAY_LEN(good); i++) {
        const char *at = good[i].text;
        int32_t e7 = 7;

        assert_true(edg__degrees_read(&at, false, &e7));
        assert_int_equal(e7, good[i].e7);
        ron_buf_clear(&out);
        edg__degrees_write(&out, e7);
        assert_string_equal(ron_buf_text(&out), good[i].again);
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        const char *at = bad[i];
        int32_t e7 = 7;

        assert_false(edg__degrees_read(&at, false, &e7));
        assert_true(at == bad[i] && e7 == 7);
    }
    ron_buf_done(&out);
}

static void test_pack__names_and_extensions__those_of_the_types(void **state)
{
    static const char *const bad_names[] = {"", ".", ".x", "a/b", "a b", "\xc3\xa9"};
    struct edg_pack *p = NULL;
    struct pk_world w;

    (void)state;
    assert_true(edg_tile_type_has_ext(EDG_TILE_MVT, str("mvt")));
    assert_true(edg_tile_type_has_ext(EDG_TILE_MVT, str("pbf")));
    assert_true(edg_tile_type_has_ext(EDG_TILE_JPEG, str("jpeg")));
    assert_true(edg_tile_type_has_ext(EDG_TILE_MLT, str("mlt")));
    assert_false(edg_tile_type_has_ext(EDG_TILE_PNG, str("mvt")));
    assert_false(edg_tile_type_has_ext(EDG_TILE_PNG, str("")));
    assert_string_equal(edg_tile_type_content((enum edg_tile_type)200), "application/octet-stream");
    assert_string_equal(edg_coding_encoding(EDG_CODING_BROTLI), "br");
    assert_null(edg_coding_encoding(EDG_CODING_NONE));
    pk_begin(&w);
    for (size_t i = 0; i < RON_ARRAY_LEN(bad_names); i++) {
        assert_int_equal(edg_pack_open(
                             &(struct edg_pack_opts){
                                 .env = w.env, .cache = w.cache, .path = "x", .name = bad_names[i]},
                             &p, &w.err),
                         RON_INVALID);
    }
    assert_int_equal(pk_open(&w, "not-there", &p), RON_NOTFOUND);
    pk_end(&w);
}

static void test_pack__newer_tile_type__served_as_bytes(void **state)
{
    struct pk_spec s = single(NULL);
    struct edg_pack *p = NULL;
    struct edg_tile t;
    struct pk_world w;

    (void)state;
    s.type = 99;
    pk_begin(&w);
    assert_int_equal(pk_mount(&w, &s, &p), RON_OK);
    assert_int_equal(edg_pack_tile_wait(p, 0, 0, 0, &t, NULL), RON_OK);
    assert_string_equal(t.content_type, "application/octet-stream");
    assert_int_equal(t.coding, EDG_CODING_GZIP);
    t.blob.release(t.blob.arg);
    edg_pack_unref(p);
    pk_end(&w);
}

/* ---- lending --------------------------------------------------------------------------------- */

static void test_pack__tile_that_was_lent__outlives_the_pack(void **state)
{
    static uint8_t bytes[LARGE];
    static const struct edg_pmt_entry two[] = {
        {.tile_id = 0, .offset = 0, .length = 4, .run = 1},
        {.tile_id = 1, .offset = 4, .length = LARGE - 4, .run = 1}};
    struct pk_spec s = {.internal = EDG_CODING_ZSTD,
                        .tile_coding = EDG_CODING_NONE,
                        .type = EDG_TILE_PNG,
                        .zoom_max = 1,
                        .entries = two,
                        .count = 2,
                        .tiles = bytes,
                        .tiles_len = sizeof bytes};
    struct edg_pack *p = NULL;
    struct edg_pack *next = NULL;
    struct edg_tile in_memory, in_file, again;
    struct ron_buf got;
    struct pk_world w;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 31 >> 3);
    }
    pk_begin(&w);
    ron_buf_init(&got, LARGE);
    assert_int_equal(pk_mount(&w, &s, &p), RON_OK);
    assert_int_equal(edg_pack_tile_wait(p, 0, 0, 0, &in_memory, NULL), RON_OK);
    assert_int_equal(edg_pack_tile_wait(p, 1, 0, 0, &in_file, NULL), RON_OK);
    assert_non_null(in_memory.blob.bytes);
    assert_null(in_file.blob.bytes);
    assert_int_equal(edg_pack_tile(p, 1, 0, 0, &again, NULL), RON_OK);
    assert_true(ron_b3_equal(&again.tag, &in_file.tag));
    pk_take(&w, &again, &got);
    /* Another file under the same name, as a reload has it. */
    assert_int_equal(w.env->disk->rename(w.env, "a.pmtiles", "old", NULL), RON_OK);
    bytes[0] ^= 1;
    assert_int_equal(pk_mount(&w, &s, &next), RON_OK);
    edg_pack_unref(p);
    assert_int_equal(edg_pack_tile(next, 0, 0, 0, &again, NULL), RON_AGAIN);
    assert_int_equal(edg_pack_tile_wait(next, 0, 0, 0, &again, NULL), RON_OK);
    assert_false(ron_b3_equal(&again.tag, &in_memory.tag));
    again.blob.release(again.blob.arg);
    edg_pack_unref(next);
    bytes[0] ^= 1;
    pk_take(&w, &in_memory, &got);
    assert_memory_equal(ron_buf_data(&got), bytes, 4);
    pk_take(&w, &in_file, &got);
    assert_memory_equal(ron_buf_data(&got), bytes + 4, LARGE - 4);
    ron_buf_done(&got);
    pk_end(&w); /* asserts that no file is open */
}

static void test_pack__tile_beyond_the_bound__refused(void **state)
{
    static const struct edg_pmt_entry huge[] = {
        {.tile_id = 0, .offset = 0, .length = EDG_TILE_BYTES_MAX + 1, .run = 1}};
    struct pk_spec s = single(NULL);
    uint8_t *bytes = ron_alloc_zero(EDG_TILE_BYTES_MAX + 1);
    struct edg_pack *p = NULL;
    struct edg_tile t;
    struct pk_world w;

    (void)state;
    assert_non_null(bytes);
    s.entries = huge;
    s.tiles = bytes;
    s.tiles_len = EDG_TILE_BYTES_MAX + 1;
    pk_begin(&w);
    assert_int_equal(pk_mount(&w, &s, &p), RON_OK);
    assert_int_equal(edg_pack_tile_wait(p, 0, 0, 0, &t, &w.err), RON_LIMIT);
    edg_pack_unref(p);
    ron_free(bytes);
    pk_end(&w);
}

static bool stop_at_once(void *arg, const char *phase, uint64_t done, uint64_t total)
{
    (void)arg;
    (void)phase;
    assert_true(done <= total);
    return false;
}

static void test_pack__the_file_itself__tagged_once_it_was_hashed(void **state)
{
    struct pk_spec s = single(NULL);
    struct edg_archive a = {0};
    struct edg_pack *p = NULL;
    struct ron_b3 tag;
    struct ron_buf bytes;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    assert_int_equal(pk_mount(&w, &s, &p), RON_OK);
    assert_int_equal(edg_pack_archive(p, &a), RON_AGAIN);
    assert_int_equal(edg_pack_hash(p, stop_at_once, NULL, &w.err), RON_CANCELLED);
    assert_int_equal(edg_pack_archive(p, &a), RON_AGAIN);
    assert_int_equal(edg_pack_hash(p, NULL, NULL, &w.err), RON_OK);
    assert_int_equal(edg_pack_archive(p, &a), RON_OK);
    ron_buf_init(&bytes, PK_MAX);
    pk_build(&s, &bytes);
    ron_b3_hash(ron_buf_data(&bytes), ron_buf_len(&bytes), &tag);
    assert_true(ron_b3_equal(&tag, &a.tag));
    assert_int_equal(a.size_bytes, ron_buf_len(&bytes));
    assert_string_equal(a.content_type, "application/vnd.pmtiles");
    ron_buf_done(&bytes);
    edg_pack_unref(p);
    pk_end(&w);
}

/* ---- the cache ------------------------------------------------------------------------------- */

enum { MANY = 4000, EACH = 100 };

static void test_pack__more_tiles_than_the_cache_takes__stays_within_its_bound(void **state)
{
    static const struct edg_pack_cache_opts opts = {
        .leaf_bytes_max = 8000, .tile_bytes_max = 64 * 1024, .tags_max = 128};
    static struct edg_pmt_entry entries[MANY];
    static uint8_t bytes[MANY * EACH];
    struct pk_spec s = {.internal = EDG_CODING_GZIP,
                        .tile_coding = EDG_CODING_NONE,
                        .zoom_max = 10,
                        .entries = entries,
                        .count = MANY,
                        .levels = 1,
                        .per_leaf = 100,
                        .tiles = bytes,
                        .tiles_len = sizeof bytes};
    struct edg_pack_cache_counters n;
    struct edg_pack *p = NULL;
    struct edg_tile t, hot;
    struct pk_world w;

    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        entries[i] =
            (struct edg_pmt_entry){.tile_id = i, .offset = i * EACH, .length = EACH, .run = 1};
        memset(bytes + i * EACH, (int)i, EACH);
    }
    pk_begin_with(&w, &opts);
    assert_int_equal(pk_mount(&w, &s, &p), RON_OK);
    for (size_t i = 0; i < MANY; i++) {
        struct edg_zxy at = {0};

        assert_true(edg_tile_zxy(i, &at));
        assert_int_equal(edg_pack_tile_wait(p, at.z, at.x, at.y, &t, NULL), RON_OK);
        t.blob.release(t.blob.arg);
        /* The one that everybody asks for stays in memory. */
        assert_int_equal(edg_pack_tile(p, 0, 0, 0, &hot, NULL), RON_OK);
        assert_non_null(hot.blob.bytes);
        hot.blob.release(hot.blob.arg);
        edg_pack_cache_counters(w.cache, &n);
        assert_true(n.tile_bytes <= opts.tile_bytes_max);
        assert_true(n.leaf_bytes <= opts.leaf_bytes_max);
    }
    assert_true(n.evicted > MANY / 2 && n.tile_bytes > opts.tile_bytes_max / 2);
    edg_pack_unref(p);
    pk_end(&w);
}

/* ---- public archives ------------------------------------------------------------------------- */

struct known {
    const char *file;
    enum ron_rc rc;
    const char *says;
    uint64_t tiles;
    enum edg_tile_type type;
};

static enum ron_rc corpus_open(struct pk_world *w, const char *file, struct edg_pack **ret)
{
    char name[128];
    char path[RON_FILE_PATH_SIZE];

    (void)snprintf(name, sizeof name, "pmtiles/%s", file);
    support_corpus(name, path, sizeof path);
    w->err = (struct ron_err){0};
    return edg_pack_open(
        &(struct edg_pack_opts){
            .env = ron_env_linux(), .cache = w->cache, .path = path, .name = "pack"},
        ret, &w->err);
}

static void test_pack__public_archives__opened_or_refused(void **state)
{
    static const struct known known[] = {
        {"empty.pmtiles", RON_CORRUPT, "shorter than a PMTiles header", 0, 0},
        {"invalid.pmtiles", RON_CORRUPT, "not a PMTiles archive: invalid magic", 0, 0},
        {"invalid_v4.pmtiles", RON_UNSUPPORTED, "version 4", 0, 0},
        {"test_fixture_1.pmtiles", RON_OK, "", 1, EDG_TILE_MVT},
        {"test_fixture_2.pmtiles", RON_OK, "", 1, EDG_TILE_MVT},
        {"test_fixture_mlt.pmtiles", RON_OK, "", 0, EDG_TILE_MLT},
        {"stamen_toner-raster-CC-BY+ODbL_z3.pmtiles", RON_OK, "", 85, EDG_TILE_PNG},
        {"usgs-mt-whitney-8-15-webp-512.pmtiles", RON_OK, "", 50, EDG_TILE_WEBP},
    };
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    for (size_t i = 0; i < RON_ARRAY_LEN(known); i++) {
        struct edg_pack *p = NULL;
        enum ron_rc rc = corpus_open(&w, known[i].file, &p);

        if (rc == RON_NOTFOUND) {
            print_message("skipped: the corpus pmtiles is absent\n");
            pk_end(&w);
            skip();
            return;
        }
        assert_int_equal(rc, known[i].rc);
        assert_non_null(strstr(w.err.msg, known[i].says));
        if (rc == RON_OK) {
            assert_int_equal(edg_pack_info(p)->tiles_addressed, known[i].tiles);
            assert_int_equal(edg_pack_info(p)->tile_type, known[i].type);
            edg_pack_unref(p);
        }
    }
    pk_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pack__metadata__becomes_tilejson),
        cmocka_unit_test(test_pack__metadata_of_wrong_types__left_out),
        cmocka_unit_test(test_pack__metadata_that_is_no_object__refused),
        cmocka_unit_test(test_pack__metadata_beyond_its_bound__refused),
        cmocka_unit_test(test_pack__degrees__read_and_written_to_the_digit),
        cmocka_unit_test(test_pack__names_and_extensions__those_of_the_types),
        cmocka_unit_test(test_pack__newer_tile_type__served_as_bytes),
        cmocka_unit_test(test_pack__tile_that_was_lent__outlives_the_pack),
        cmocka_unit_test(test_pack__tile_beyond_the_bound__refused),
        cmocka_unit_test(test_pack__the_file_itself__tagged_once_it_was_hashed),
        cmocka_unit_test(test_pack__more_tiles_than_the_cache_takes__stays_within_its_bound),
        cmocka_unit_test(test_pack__public_archives__opened_or_refused),
    };

    return cmocka_run_group_tests_name("pack", tests, NULL, NULL);
}
