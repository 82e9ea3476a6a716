/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: packs survive every single failed allocation and call of the system: a clean refusal,
 *   nothing leaked, no file left open.
 * Method: whole lives of a pack (opened, tiles read, hashed, verified) under the sweep: a PMTiles
 *   file with leaves in each compression on a disk in memory, an MBTiles file on the real one. */
#include "unit/edge/pack_fixture.h"

#include <sqlite3.h>
#include <unistd.h>

#include "edge/pack/verify.h"
#include "edge/sample/sample.h"
#include "ron/base/assert.h"

enum { ENTRIES = 40 };

struct life {
    const struct ron_env *env;
    const char *path;
    uint64_t z, x, y; /* a tile that is there */
};

static enum ron_rc take(struct edg_pack *p, const struct life *l)
{
    struct edg_tile t;

    RON_TRY(edg_pack_tile_wait(p, l->z, l->x, l->y, &t, NULL));
    t.blob.release(t.blob.arg);
    return RON_OK;
}

static enum ron_rc pack_life(void *arg)
{
    const struct life *l = arg;
    struct edg_pack_cache *cache = NULL;
    struct edg_verify_report report;
    struct edg_pack *p = NULL;
    struct ron_err err = {0};
    enum ron_rc rc;

    RON_TRY(edg_pack_cache_new(NULL, &cache, NULL));
    RON_GOTO(edg_pack_open(
                 &(struct edg_pack_opts){
                     .env = l->env, .cache = cache, .path = l->path, .name = "x", .readers = 1},
                 &p, &err),
             end);
    RON_GOTO(take(p, l), end);
    RON_GOTO(edg_pack_hash(p, NULL, NULL, NULL), end);
    RON_GOTO(edg_verify(&(struct edg_verify_opts){.env = l->env, .path = l->path, .hash = true},
                        &report, &err),
             end);
    RON_ASSERT(report.opened);
    RON_ASSERT(report.faults.count == 0);
end:
    RON_ASSERT(rc == RON_OK || p != NULL || err.msg[0] != '\0');
    edg_pack_unref(p);
    edg_pack_cache_free(cache);
    return rc;
}

static void test_edg_pack_faults__life_of_a_pmtiles__every_failure_clean(void **state)
{
    static struct edg_pmt_entry entries[ENTRIES];
    static const uint8_t bytes[ENTRIES * 10];
    struct pk_world w;

    (void)state;
    for (size_t i = 0; i < ENTRIES; i++) {
        entries[i] = (struct edg_pmt_entry){.tile_id = i, .offset = i * 10, .length = 10, .run = 1};
    }
    pk_begin(&w);
    for (int coding = EDG_CODING_NONE; coding <= EDG_CODING_ZSTD; coding++) {
        struct pk_spec s = {.internal = (enum edg_coding)coding,
                            .tile_coding = EDG_CODING_NONE,
                            .zoom_max = 3,
                            .entries = entries,
                            .count = ENTRIES,
                            .levels = 1,
                            .per_leaf = 10,
                            .tiles = bytes,
                            .tiles_len = sizeof bytes};
        struct life life = {.env = w.env, .path = "v", .z = 1};
        struct ron_buf file;

        ron_buf_init(&file, PK_MAX);
        pk_build(&s, &file);
        pk_write(&w, "v", ron_buf_data(&file), ron_buf_len(&file));
        ron_buf_done(&file);
        support_sweep_expect_clean(
            &(struct support_sweep){.name = "pmtiles", .run = pack_life, .arg = &life});
    }
    pk_end(&w);
}

static void test_edg_pack_faults__life_of_an_mbtiles__every_failure_clean(void **state)
{
    char path[] = "pack-faults-XXXXXX";
    struct life life = {.env = ron_env_linux(), .path = path};
    sqlite3 *db = NULL;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db,
                     "CREATE TABLE metadata(name,value);INSERT INTO metadata VALUES('name','n'),"
                     "('format','png');CREATE TABLE tiles(zoom_level,tile_column,tile_row,"
                     "tile_data);INSERT INTO tiles VALUES(0,0,0,x'00')",
                     NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    support_sweep_expect_clean(
        &(struct support_sweep){.name = "mbtiles", .run = pack_life, .arg = &life});
    (void)unlink(path);
}

static enum ron_rc sample_life(void *arg)
{
    struct ron_buf out;
    enum ron_rc rc;

    (void)arg;
    ron_buf_init(&out, EDG_SAMPLE_BYTES_MAX);
    rc = edg_sample_build(&out, NULL);
    ron_buf_done(&out);
    return rc;
}

static void test_edg_pack_faults__sample__every_failure_clean(void **state)
{
    (void)state;
    support_sweep_expect_clean(&(struct support_sweep){.name = "sample", .run = sample_life});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edg_pack_faults__life_of_a_pmtiles__every_failure_clean),
        cmocka_unit_test(test_edg_pack_faults__life_of_an_mbtiles__every_failure_clean),
        cmocka_unit_test(test_edg_pack_faults__sample__every_failure_clean),
    };

    return cmocka_run_group_tests_name("edg_pack_faults", tests, NULL, NULL);
}
