/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: tiles of an MBTiles file, in tables or behind views, are those that were put in; a file
 * that lacks something, or does something to its reader, is refused or broken off.
 * Method: files made with SQLite itself in a folder of the test's own. */
#include "unit/edge/pack_fixture.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#define TABLES                                                                                     \
    "CREATE TABLE metadata(name TEXT,value TEXT);"                                                 \
    "CREATE TABLE tiles(zoom_level INTEGER,tile_column INTEGER,tile_row INTEGER,tile_data BLOB);"  \
    "CREATE UNIQUE INDEX tile_index ON tiles(zoom_level,tile_column,tile_row);"
/* As most writers do it: each picture once. */
#define VIEWS                                                                                      \
    "CREATE TABLE metadata_rows(name TEXT,value TEXT);"                                            \
    "CREATE VIEW metadata AS SELECT name,value FROM metadata_rows;"                                \
    "CREATE TABLE images(tile_id TEXT PRIMARY KEY,tile_data BLOB);"                                \
    "CREATE TABLE map(zoom_level INTEGER,tile_column INTEGER,tile_row INTEGER,tile_id TEXT);"      \
    "CREATE UNIQUE INDEX map_index ON map(zoom_level,tile_column,tile_row);"                       \
    "CREATE VIEW tiles AS SELECT zoom_level,tile_column,tile_row,tile_data FROM map"               \
    " JOIN images ON images.tile_id=map.tile_id;"
#define META_ROWS(table, format)                                                                   \
    "INSERT INTO " table " VALUES('name','Test \"x\"'),('format','" format "'),"                   \
    "('bounds','-10.5,-20,30,40.25'),('center','1.5,2,1'),('minzoom','0'),('maxzoom','2'),"        \
    "('json','{\"vector_layers\":[{\"id\":\"a\"}]}');"
/* Row 3 of zoom 2 is y 0. */
#define TILE_ROWS                                                                                  \
    "INSERT INTO tiles VALUES(0,0,0,x'1f8b08aa'),(2,1,3,x'1a02'),(2,3,0,x''),(1,0,0,NULL);"

struct mbt_world {
    struct edg_pack_cache *cache;
    char folder[64];
    char path[128];
    struct ron_err err;
};

static void begin(struct mbt_world *w)
{
    *w = (struct mbt_world){.folder = "mbt-XXXXXX"};
    assert_non_null(mkdtemp(w->folder));
    (void)snprintf(w->path, sizeof w->path, "%s/a %%?#b.mbtiles", w->folder);
    assert_int_equal(edg_pack_cache_new(NULL, &w->cache, NULL), RON_OK);
}

static void end(struct mbt_world *w)
{
    edg_pack_cache_free(w->cache);
    (void)unlink(w->path);
    assert_int_equal(rmdir(w->folder), 0); /* nothing was written beside the file */
}

static void make(struct mbt_world *w, const char *sql)
{
    sqlite3 *db = NULL;
    char *why = NULL;

    (void)unlink(w->path);
    assert_int_equal(
        sqlite3_open_v2(w->path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) {
        fail_msg("%s", why);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static enum ron_rc mount(struct mbt_world *w, struct edg_pack **ret)
{
    w->err = (struct ron_err){0};
    return edg_pack_open(
        &(struct edg_pack_opts){
            .env = ron_env_linux(), .cache = w->cache, .path = w->path, .name = "m"},
        ret, &w->err);
}

static void refuse(struct mbt_world *w, const char *sql, enum ron_rc rc, const char *says)
{
    struct edg_pack *p = NULL;

    make(w, sql);
    assert_int_equal(mount(w, &p), rc);
    if (strstr(w->err.msg, says) == NULL) {
        fail_msg("'%s' is not in '%s'", says, w->err.msg);
    }
}

static void expect(struct edg_pack *p, uint64_t z, uint64_t x, uint64_t y, const char *bytes,
                   size_t len, enum edg_coding coding)
{
    struct ron_b3 tag;
    struct edg_tile t;

    ron_b3_hash(bytes, len, &tag);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(i == 0 ? edg_pack_tile_wait(p, z, x, y, &t, NULL)
                                : edg_pack_tile(p, z, x, y, &t, NULL),
                         RON_OK);
        assert_int_equal(t.blob.length, len);
        assert_memory_equal(t.blob.bytes, bytes, len);
        assert_int_equal(t.coding, coding);
        assert_true(ron_b3_equal(&t.tag, &tag));
        t.blob.release(t.blob.arg);
    }
}

static void expect_none(struct edg_pack *p, uint64_t z, uint64_t x, uint64_t y)
{
    struct edg_tile t;

    assert_int_equal(edg_pack_tile_wait(p, z, x, y, &t, NULL), RON_NOTFOUND);
    assert_int_equal(edg_pack_tile(p, z, x, y, &t, NULL), RON_NOTFOUND);
}

static void good_file(const char *sql)
{
    struct mbt_world w;
    struct edg_pack *p = NULL;
    struct edg_tile t;
    struct ron_buf out;

    begin(&w);
    make(&w, sql);
    assert_int_equal(mount(&w, &p), RON_OK);
    assert_int_equal(edg_pack_info(p)->kind, EDG_PACK_MBTILES);
    assert_int_equal(edg_pack_info(p)->tile_type, EDG_TILE_MVT);
    assert_int_equal(edg_pack_info(p)->zoom_max, 2);
    assert_int_equal(edg_pack_info(p)->bounds.north_e7, 402500000);
    assert_int_equal(edg_pack_tile(p, 0, 0, 0, &t, NULL), RON_AGAIN);
    expect(p, 0, 0, 0, "\x1f\x8b\x08\xaa", 4, EDG_CODING_GZIP);
    expect(p, 2, 1, 0, "\x1a\x02", 2, EDG_CODING_NONE);
    expect_none(p, 2, 1, 3); /* the row as it is stored */
    expect_none(p, 2, 3, 3); /* a tile of no bytes */
    expect_none(p, 1, 0, 1); /* and one that is null */
    expect_none(p, 3, 0, 0);
    ron_buf_init(&out, 65536);
    assert_int_equal(edg_pack_tilejson(p, (struct ron_str){.ptr = "u", .len = 1}, &out), RON_OK);
    assert_string_equal(
        ron_buf_text(&out),
        "{\"tilejson\":\"3.0.0\",\"tiles\":[\"u\"],\"scheme\":\"xyz\",\"minzoom\":0,\"maxzoom\":2,"
        "\"bounds\":[-10.5,-20,30,40.25],\"center\":[1.5,2,1],\"name\":\"Test \\\"x\\\"\","
        "\"vector_layers\":[{\"id\":\"a\"}]}");
    assert_non_null(
        memmem(edg_pack_metadata(p).ptr, edg_pack_metadata(p).len, "\"format\":\"pbf\"", 14));
    ron_buf_done(&out);
    edg_pack_unref(p);
    end(&w);
}

static void test_mbt__tables__tiles_turned_upright(void **state)
{
    (void)state;
    good_file(TABLES META_ROWS("metadata", "pbf") TILE_ROWS);
}

static void test_mbt__views__the_same(void **state)
{
    (void)state;
    good_file(VIEWS META_ROWS(
        "metadata_rows",
        "pbf") "INSERT INTO images VALUES('a',x'1f8b08aa'),('b',x'1a02'),('c',x''),('d',NULL);"
               "INSERT INTO map VALUES(0,0,0,'a'),(2,1,3,'b'),(2,3,0,'c'),(1,0,0,'d')");
}

static void test_mbt__no_zooms_told__asked_of_the_tiles(void **state)
{
    struct mbt_world w;
    struct edg_pack *p = NULL;

    (void)state;
    begin(&w);
    make(&w, TABLES "INSERT INTO metadata VALUES('format','png'),('bounds','1,2,3');"
                    "INSERT INTO tiles VALUES(3,0,0,x'1f8b00'),(7,0,0,x'00')");
    assert_int_equal(mount(&w, &p), RON_OK);
    assert_int_equal(edg_pack_info(p)->zoom_min, 3);
    assert_int_equal(edg_pack_info(p)->zoom_max, 7);
    assert_int_equal(edg_pack_info(p)->bounds.west_e7, 0);
    expect(p, 3, 0, 7, "\x1f\x8b\x00", 3, EDG_CODING_NONE); /* no picture is packed */
    edg_pack_unref(p);
    end(&w);
}

static void test_mbt__something_missing__refused_with_its_reason(void **state)
{
    struct mbt_world w;
    struct edg_pack *p = NULL;
    int fd;

    (void)state;
    begin(&w);
    refuse(&w, "CREATE TABLE metadata(name,value)", RON_CORRUPT, "no such table: tiles");
    refuse(&w, "CREATE TABLE tiles(zoom_level,tile_column,tile_row,tile_data)", RON_CORRUPT,
           "no such table: metadata");
    refuse(&w, "CREATE TABLE metadata(name,value);CREATE TABLE tiles(zoom_level,tile_data)",
           RON_CORRUPT, "no such column");
    refuse(&w, TABLES, RON_CORRUPT, "missing format");
    refuse(&w,
           TABLES "INSERT INTO metadata VALUES('format','png');"
                  "INSERT INTO tiles VALUES(31,0,0,x'00')",
           RON_CORRUPT, "zooms 31 to 31");
    fd = open(w.path, O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, "SQLite format 3", 16), 16);
    (void)close(fd);
    assert_int_equal(mount(&w, &p), RON_CORRUPT);
    end(&w);
}

static void test_mbt__view_that_never_ends__broken_off(void **state)
{
    struct mbt_world w;
    struct edg_pack *p = NULL;
    struct edg_tile t;

    (void)state;
    begin(&w);
    make(&w, "CREATE TABLE metadata(name,value);INSERT INTO metadata VALUES('format','png'),"
             "('minzoom','0'),('maxzoom','0');"
             "CREATE VIEW tiles AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n)"
             " SELECT i AS zoom_level,i AS tile_column,i AS tile_row,i AS tile_data FROM n");
    assert_int_equal(mount(&w, &p), RON_OK);
    assert_int_equal(edg_pack_tile_wait(p, 0, 0, 0, &t, &w.err), RON_LIMIT);
    assert_non_null(strstr(w.err.msg, "step limit"));
    edg_pack_unref(p);
    end(&w);
}

static void test_mbt__tile_beyond_the_bound__refused(void **state)
{
    struct mbt_world w;
    struct edg_pack *p = NULL;
    struct edg_tile t;

    (void)state;
    begin(&w);
    make(
        &w,
        TABLES META_ROWS(
            "metadata",
            "png") "INSERT INTO tiles VALUES(0,0,0,zeroblob(16777217)),(1,0,0,zeroblob(16777216))");
    assert_int_equal(mount(&w, &p), RON_OK);
    assert_int_equal(edg_pack_tile_wait(p, 0, 0, 0, &t, &w.err), RON_LIMIT);
    /* The largest that is taken is too large for the cache, and lent all the same. */
    assert_int_equal(edg_pack_tile_wait(p, 1, 0, 1, &t, &w.err), RON_OK);
    assert_int_equal(t.blob.length, 16777216);
    t.blob.release(t.blob.arg);
    assert_int_equal(edg_pack_tile(p, 1, 0, 1, &t, NULL), RON_AGAIN);
    edg_pack_unref(p);
    end(&w);
}

static void test_mbt__file_that_shrinks_while_open__an_error_and_no_signal(void **state)
{
    struct mbt_world w;
    struct edg_pack *p = NULL;
    struct edg_tile t;

    (void)state;
    begin(&w);
    make(&w,
         TABLES META_ROWS(
             "metadata",
             "png") "INSERT INTO tiles VALUES(0,0,0,zeroblob(100000)),(1,0,0,zeroblob(100000))");
    assert_int_equal(mount(&w, &p), RON_OK);
    assert_int_equal(truncate(w.path, 4096), 0);
    assert_true(edg_pack_tile_wait(p, 0, 0, 0, &t, &w.err) != RON_OK);
    assert_true(edg_pack_tile_wait(p, 1, 0, 1, &t, &w.err) != RON_OK);
    edg_pack_unref(p);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mbt__tables__tiles_turned_upright),
        cmocka_unit_test(test_mbt__views__the_same),
        cmocka_unit_test(test_mbt__no_zooms_told__asked_of_the_tiles),
        cmocka_unit_test(test_mbt__something_missing__refused_with_its_reason),
        cmocka_unit_test(test_mbt__view_that_never_ends__broken_off),
        cmocka_unit_test(test_mbt__tile_beyond_the_bound__refused),
        cmocka_unit_test(test_mbt__file_that_shrinks_while_open__an_error_and_no_signal),
    };

    return cmocka_run_group_tests_name("mbt", tests, NULL, NULL);
}
