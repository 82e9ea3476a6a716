/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a sound pack has no fault, and each rule has a pack that breaks it alone and is told so.
 * Method: archives written by hand with one thing wrong; MBTiles made with SQLite; sidecars. */
#include "unit/edge/pack_fixture.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include "edge/pack/verify.h"

#define TILES "AAAABBBBBBCCCCCCCC"

static const struct edg_pmt_entry four[] = {
    {.tile_id = 1, .offset = 0, .length = 4, .run = 2},
    {.tile_id = 4, .offset = 4, .length = 6, .run = 1},
    {.tile_id = 5, .offset = 10, .length = 8, .run = 1},
    {.tile_id = 7, .offset = 0, .length = 4, .run = 3},
};

static struct pk_spec small(void)
{
    return (struct pk_spec){.internal = EDG_CODING_GZIP,
                            .tile_coding = EDG_CODING_NONE,
                            .type = EDG_TILE_PNG,
                            .zoom_min = 1,
                            .zoom_max = 2,
                            .clustered = true,
                            .entries = four,
                            .count = RON_ARRAY_LEN(four),
                            .levels = 1,
                            .per_leaf = 2,
                            .tiles = TILES,
                            .tiles_len = sizeof TILES - 1};
}

static enum ron_rc verify(struct pk_world *w, const char *path, struct edg_verify_report *r)
{
    w->err = (struct ron_err){0};
    return edg_verify(&(struct edg_verify_opts){.env = w->env, .path = path}, r, &w->err);
}

/* Writes, verifies, and expects exactly this fault; none when it is NULL. */
static void expect_bytes(struct pk_world *w, const struct ron_buf *bytes, const char *fault)
{
    struct edg_verify_report r;

    pk_write(w, "v", ron_buf_data(bytes), ron_buf_len(bytes));
    assert_int_equal(verify(w, "v", &r), RON_OK);
    if (fault == NULL) {
        if (r.faults.count != 0) {
            fail_msg("a fault: %s", r.faults.texts[0]);
        }
        return;
    }
    if (r.faults.count != 1 || strstr(r.faults.texts[0], fault) == NULL) {
        fail_msg("%u faults, the first: '%s' instead of '%s'", r.faults.count, r.faults.texts[0],
                 fault);
    }
}

static void expect(struct pk_world *w, const struct pk_spec *s, const char *fault)
{
    struct ron_buf bytes;

    ron_buf_init(&bytes, PK_MAX);
    pk_build(s, &bytes);
    expect_bytes(w, &bytes, fault);
    ron_buf_done(&bytes);
    assert_int_equal(w->env->disk->remove(w->env, "v", NULL), RON_OK);
}

static void test_verify__sound_archive__counted_and_good(void **state)
{
    struct pk_spec s = small();
    struct edg_verify_report r;
    struct ron_buf bytes;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    expect(&w, &s, NULL);
    s.clustered = false;
    expect(&w, &s, NULL);
    s.levels = 3;
    s.per_leaf = 2;
    ron_buf_init(&bytes, PK_MAX);
    pk_build(&s, &bytes);
    pk_write(&w, "v", ron_buf_data(&bytes), ron_buf_len(&bytes));
    assert_int_equal(verify(&w, "v", &r), RON_OK);
    assert_int_equal(r.faults.count, 0);
    assert_int_equal(r.tiles_addressed, 7);
    assert_int_equal(r.tile_entries, 4);
    assert_int_equal(r.tile_contents, 3);
    assert_int_equal(r.depth, 3);
    assert_int_equal(r.directories, 5); /* 2 leaves, 1, 1, and the root */
    ron_buf_done(&bytes);
    pk_end(&w);
}

static void test_verify__counts_that_are_not_so__told(void **state)
{
    struct pk_spec s = small();
    struct ron_buf bytes;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    s.addressed = 8;
    expect(&w, &s, "addressed tiles: the header says 8, there are 7");
    s = small();
    s.contents = 4;
    expect(&w, &s, "tile contents: the header says 4, there are 3");
    s.clustered = false;
    expect(&w, &s, "tile contents: the header says 4, there are 3");
    s = small();
    for (uint64_t told = 0; told < 6; told += 5) {
        ron_buf_init(&bytes, PK_MAX);
        pk_build(&s, &bytes);
        pk_u64(bytes.memory + bytes.head + 80, told);
        expect_bytes(&w, &bytes, told == 0 ? NULL : "tile entries: the header says 5, there are 4");
        ron_buf_done(&bytes);
    }
    pk_end(&w);
}

static void test_verify__tiles_outside_what_the_header_says__told(void **state)
{
    static const struct edg_pmt_entry gap[] = {{.tile_id = 1, .offset = 0, .length = 4, .run = 1},
                                               {.tile_id = 2, .offset = 6, .length = 4, .run = 1}};
    struct pk_spec s = small();
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    s.zoom_max = 1;
    s.count = 3;
    expect(&w, &s, "tile 5 is outside the zooms 1 to 1");
    s = small();
    s.zoom_min = 2;
    s.entries = four + 1;
    s.count = 3;
    s.clustered = false;
    expect(&w, &s, "tile 4 is outside the zooms 2 to 2");
    s = small();
    s.entries = gap;
    s.count = 2;
    expect(&w, &s, "clustered, but a gap precedes tile 2");
    s.clustered = false;
    expect(&w, &s, NULL);
    pk_end(&w);
}

static void test_verify__header_fields_that_contradict__told(void **state)
{
    struct pk_spec s = small();
    struct ron_buf bytes;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    ron_buf_init(&bytes, PK_MAX);
    pk_build(&s, &bytes);
    uint8_t *head = bytes.memory + bytes.head;

    /* The tile data one byte earlier: over the end of the leaves. */
    head[56]--;
    expect_bytes(&w, &bytes, "the leaf directories and the tile data overlap");
    head[56]++;
    pk_i32(head + 102, -1800000001);
    expect_bytes(&w, &bytes, "bounds outside the valid range");
    pk_i32(head + 102, 0);
    pk_i32(head + 114, 900000001);
    expect_bytes(&w, &bytes, "bounds outside the valid range");
    pk_i32(head + 114, 0);
    pk_i32(head + 106, 1);
    expect_bytes(&w, &bytes, "bounds outside the valid range");
    ron_buf_done(&bytes);
    pk_end(&w);
}

/* ---- leaves ---------------------------------------------------------------------------------- */

struct leafy {
    struct edg_pmt_entry root[2];
    size_t root_count;
    struct edg_pmt_entry leaf[2];
    size_t leaf_count;
    const char *fault;
};

/* A root over one leaf section that holds one directory, nothing packed. */
static void test_verify__leaves_that_do_not_fit_their_place__told(void **state)
{
    static const struct edg_pmt_entry tile2 = {.tile_id = 2, .length = 4, .run = 1};
    static const struct edg_pmt_entry tile4 = {.tile_id = 4, .length = 4, .run = 1};
    static const struct edg_pmt_entry tile5 = {.tile_id = 5, .length = 4, .run = 1};
    const struct leafy cases[] = {
        {{{.tile_id = 2, .length = 5}}, 1, {tile2}, 1, NULL},
        {{{.tile_id = 1, .length = 5}}, 1, {tile2}, 1, NULL}, /* begins a little later */
        {{{.tile_id = 3, .length = 5}}, 1, {tile2}, 1, "tile 2 is duplicate or out of order"},
        {{{.tile_id = 2, .length = 9}, tile4},
         2,
         {tile2, tile5},
         2,
         "tile 5 is outside the range of its leaf"},
        {{{.tile_id = 2, .length = 9}, tile4},
         2,
         {tile2, tile4},
         2,
         "tile 4 is outside the range of its leaf"},
        {{{.tile_id = 2, .length = 9}, tile4},
         2,
         {tile2, {.tile_id = 4, .length = 9}}, /* a leaf below the leaf */
         2,
         "tile 4 is outside the range of its leaf"},
        {{{.tile_id = 2, .length = 5}, {.tile_id = 4, .length = 5}},
         2,
         {tile2},
         1,
         "tile 2 is duplicate"},
        {{{.tile_id = 2, .length = 1}}, 1, {tile2}, 0, "leaf of tile 2 is empty"},
        {{{.tile_id = 2, .length = 4}}, 1, {tile2}, 1, "leaf of tile 2: directory: truncated"},
        {{{.tile_id = 2, .length = 5}},
         1,
         {{.tile_id = 2, .length = 5}},
         1,
         "leaf of tile 2: nested more than 3 levels deep"},
    };
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        struct pk_spec s = small();
        struct ron_buf root, leaf, bytes;

        ron_buf_init(&root, PK_MAX);
        ron_buf_init(&leaf, PK_MAX);
        ron_buf_init(&bytes, PK_MAX);
        pk_dir(&root, cases[i].root, cases[i].root_count);
        pk_dir(&leaf, cases[i].leaf, cases[i].leaf_count);
        s.internal = EDG_CODING_NONE;
        s.clustered = false;
        s.levels = 0;
        s.root_raw = &root;
        s.leaf_raw = &leaf;
        pk_build(&s, &bytes);
        memset(bytes.memory + bytes.head + 72, 0, 24); /* no counts */
        expect_bytes(&w, &bytes, cases[i].fault);
        ron_buf_done(&root);
        ron_buf_done(&leaf);
        ron_buf_done(&bytes);
        assert_int_equal(w.env->disk->remove(w.env, "v", NULL), RON_OK);
    }
    pk_end(&w);
}

static void test_verify__what_opening_refuses__is_the_fault(void **state)
{
    struct pk_spec s = small();
    struct edg_verify_report r;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    s.metadata = "[]";
    expect(&w, &s, "metadata: not a JSON object");
    pk_write(&w, "v", "PMTiles", 7);
    assert_int_equal(verify(&w, "v", &r), RON_OK);
    assert_int_equal(r.faults.count, 1);
    assert_string_equal(r.faults.texts[0], "shorter than a PMTiles header");
    assert_false(r.opened);
    assert_int_equal(verify(&w, "not-there", &r), RON_NOTFOUND);
    pk_end(&w);
}

/* ---- size, progress, cancel ------------------------------------------------------------------ */

enum { MANY = 20000 };

struct seen {
    int calls;
    int stop_at;
    uint64_t last;
};

static bool see(void *arg, const char *phase, uint64_t done, uint64_t total)
{
    struct seen *s = arg;

    assert_non_null(phase);
    assert_true(total == 0 || done <= total);
    assert_true(done >= s->last);
    s->last = done;
    return ++s->calls != s->stop_at;
}

static void test_verify__many_entries__told_how_far_and_cancelled(void **state)
{
    static struct edg_pmt_entry entries[MANY];
    struct edg_verify_report r;
    struct pk_spec s = small();
    struct seen seen = {0};
    struct ron_buf bytes;
    struct pk_world w;

    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        entries[i] = (struct edg_pmt_entry){.tile_id = i + 1, .length = 1, .run = 1};
    }
    pk_begin(&w);
    ron_buf_init(&bytes, PK_MAX);
    s.entries = entries;
    s.count = MANY;
    s.zoom_max = 10;
    s.per_leaf = 1000;
    s.contents = 1;
    pk_build(&s, &bytes);
    pk_write(&w, "v", ron_buf_data(&bytes), ron_buf_len(&bytes));
    struct edg_verify_opts o = {.env = w.env, .path = "v", .progress = see, .progress_arg = &seen};

    assert_int_equal(edg_verify(&o, &r, NULL), RON_OK);
    assert_int_equal(r.faults.count, 0);
    assert_int_equal(r.tile_entries, MANY);
    assert_true(seen.calls > 2);
    seen = (struct seen){.stop_at = 2};
    assert_int_equal(edg_verify(&o, &r, NULL), RON_CANCELLED);
    ron_buf_done(&bytes);
    pk_end(&w);
}

/* ---- sidecar --------------------------------------------------------------------------------- */

static void test_verify__sidecar__good_bad_and_malformed(void **state)
{
    struct pk_spec s = small();
    struct edg_verify_report r;
    struct ron_buf bytes, out;
    struct pk_world w;
    struct ron_b3 tag;
    char line[96];

    (void)state;
    pk_begin(&w);
    ron_buf_init(&bytes, PK_MAX);
    ron_buf_init(&out, 65536);
    pk_build(&s, &bytes);
    pk_write(&w, "v", ron_buf_data(&bytes), ron_buf_len(&bytes));
    ron_b3_hash(ron_buf_data(&bytes), ron_buf_len(&bytes), &tag);
    ron_b3_format_hex(&tag, line);
    memcpy(line + RON_B3_HEX_LEN, "  v\n", 4);
    pk_write(&w, "v.b3", line, RON_B3_HEX_LEN + 4);
    assert_int_equal(verify(&w, "v", &r), RON_OK);
    assert_true(r.sidecar == EDG_SIDECAR_GOOD && r.faults.count == 0 && r.hashed);
    edg_verify_json(&r, "a\"b", &out);
    assert_int_equal(ron_json_check((const char *)ron_buf_data(&out), ron_buf_len(&out),
                                    &(struct ron_json_error){0}),
                     RON_OK);
    line[0] = line[0] == '0' ? '1' : '0';
    pk_write(&w, "v.b3", line, RON_B3_HEX_LEN + 4);
    assert_int_equal(verify(&w, "v", &r), RON_OK);
    assert_true(r.sidecar == EDG_SIDECAR_BAD && r.faults.count == 1);
    pk_write(&w, "v.b3", line, RON_B3_HEX_LEN - 1);
    assert_int_equal(w.env->disk->remove(w.env, "v.b3", NULL), RON_OK);
    pk_write(&w, "v.b3", "nonsense", 8);
    assert_int_equal(verify(&w, "v", &r), RON_OK);
    assert_true(r.sidecar == EDG_SIDECAR_BAD && r.faults.count == 1 && !r.hashed);
    ron_buf_clear(&out);
    edg_verify_tell(&r, "v", &out);
    assert_non_null(strstr(ron_buf_text(&out), "v: BAD\n"));
    assert_non_null(strstr(ron_buf_text(&out), "fault      sidecar"));
    ron_buf_done(&bytes);
    ron_buf_done(&out);
    pk_end(&w);
}

/* ---- MBTiles --------------------------------------------------------------------------------- */

/* ---- of one file ----------------------------------------------------------------------------- */

/* Renames `from[0]`, `from[1]`... to "v", one each time that a phase begins. */
struct swap {
    struct pk_world *w;
    const char *phase; /* NULL: any of the verification */
    const char *from[4];
    size_t next;
    bool done; /* with this turn; the hash of the pack ends one */
};

static bool swap_now(void *arg, const char *phase, uint64_t done, uint64_t total)
{
    struct swap *x = arg;
    bool hash = strcmp(phase, "hash") == 0;

    (void)done;
    (void)total;
    if (!x->done && x->from[x->next] != NULL && hash == (x->phase != NULL)) {
        assert_int_equal(x->w->env->disk->rename(x->w->env, x->from[x->next++], "v", NULL), RON_OK);
        x->done = true;
    }
    x->done = x->done && !hash;
    return true;
}

static void write_spec(struct pk_world *w, const struct pk_spec *s, const char *path)
{
    struct ron_buf bytes;

    ron_buf_init(&bytes, PK_MAX);
    pk_build(s, &bytes);
    pk_write(w, path, ron_buf_data(&bytes), ron_buf_len(&bytes));
    ron_buf_done(&bytes);
}

static enum ron_rc open_swapped(struct swap *x, struct edg_verify_report *r, struct edg_pack **p)
{
    struct edg_pack_opts pack = {
        .env = x->w->env, .cache = x->w->cache, .path = "v", .name = "pack"};
    struct edg_verify_opts o = {
        .env = x->w->env, .path = "v", .progress = swap_now, .progress_arg = x};

    x->w->err = (struct ron_err){0};
    return edg_verify_open(&o, &pack, r, p, &x->w->err);
}

static void test_verify__another_file_under_the_name__is_verified_or_not_served(void **state)
{
    struct pk_spec good = small();
    struct pk_spec other = small();
    struct pk_spec bad = small();
    struct edg_verify_report r;
    struct edg_pack *p = NULL;
    struct pk_world w;

    (void)state;
    pk_begin(&w);
    bad.addressed = 8;                     /* opening does not see it */
    other.per_leaf = 4;                    /* fewer directories */
    for (int late = 0; late < 2; late++) { /* while it is verified, and while it is hashed */
        const char *phase = late != 0 ? "hash" : NULL;

        write_spec(&w, &good, "v");
        write_spec(&w, &bad, "b");
        struct swap once_bad = {.w = &w, .phase = phase, .from = {"b"}};

        assert_int_equal(open_swapped(&once_bad, &r, &p), RON_CORRUPT);
        assert_non_null(strstr(w.err.msg, "the header says 8"));
        assert_null(p);
        write_spec(&w, &good, "v");
        write_spec(&w, &other, "b");
        struct swap once_good = {.w = &w, .phase = phase, .from = {"b"}};

        assert_int_equal(open_swapped(&once_good, &r, &p), RON_OK);
        assert_int_equal(r.directories, 2);
        edg_pack_unref(p);
        p = NULL;
        write_spec(&w, &good, "v");
        write_spec(&w, &good, "b");
        write_spec(&w, &good, "c");
        write_spec(&w, &good, "d");
        struct swap always = {.w = &w, .phase = phase, .from = {"b", "c", "d"}};

        assert_int_equal(open_swapped(&always, &r, &p), RON_AGAIN);
        assert_null(p);
    }
    pk_end(&w);
}

#define SCHEMA                                                                                     \
    "CREATE TABLE metadata(name,value);CREATE TABLE tiles(zoom_level,tile_column,tile_row,"        \
    "tile_data);CREATE UNIQUE INDEX t ON tiles(zoom_level,tile_column,tile_row);"
#define META                                                                                       \
    "INSERT INTO metadata VALUES('name','n'),('format','png'),('minzoom','0'),('maxzoom','2');"

static void expect_mbt(const char *sql, const char *fault, const char *note)
{
    char path[] = "verify-XXXXXX";
    struct edg_verify_report r;
    struct ron_err err = {0};
    sqlite3 *db = NULL;
    char *why = NULL;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) {
        fail_msg("%s", why);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(
        edg_verify(&(struct edg_verify_opts){.env = ron_env_linux(), .path = path}, &r, &err),
        RON_OK);
    (void)unlink(path);
    if (r.faults.count != (fault != NULL ? 1u : 0u) ||
        (fault != NULL && strstr(r.faults.texts[0], fault) == NULL)) {
        fail_msg("%u faults, the first: '%s'", r.faults.count, r.faults.texts[0]);
    }
    assert_int_equal(r.notes.count, note != NULL ? 1 : 0);
    assert_true(note == NULL || strstr(r.notes.texts[0], note) != NULL);
}

static void test_verify__mbtiles_with_one_thing_wrong__told(void **state)
{
    (void)state;
    expect_mbt(SCHEMA META "INSERT INTO tiles VALUES(0,0,0,x'00'),(2,3,3,NULL)", NULL, NULL);
    expect_mbt(SCHEMA META, NULL, "no tiles");
    expect_mbt(SCHEMA "INSERT INTO metadata VALUES('format','png'),('minzoom',0),('maxzoom',0);"
                      "INSERT INTO tiles VALUES(0,0,0,x'00')",
               "missing name", NULL);
    expect_mbt(SCHEMA "INSERT INTO metadata VALUES('name','n'),('format','pbf');"
                      "INSERT INTO tiles VALUES(0,0,0,x'00')",
               "missing json", NULL);
    expect_mbt(SCHEMA META "INSERT INTO metadata VALUES('name','m');"
                           "INSERT INTO tiles VALUES(0,0,0,x'00')",
               "duplicate name", NULL);
    expect_mbt(SCHEMA META "INSERT INTO metadata VALUES('bounds','1,2,3');"
                           "INSERT INTO tiles VALUES(0,0,0,x'00')",
               "invalid bounds", NULL);
    expect_mbt(SCHEMA META "INSERT INTO tiles VALUES(0,0,0,'text')", "neither blob nor null", NULL);
    expect_mbt(SCHEMA META "INSERT INTO tiles VALUES(31,0,0,x'00')", "with a zoom outside 0 to 30",
               NULL);
    expect_mbt(SCHEMA META "INSERT INTO tiles VALUES(-1,0,0,x'00')", "with a zoom outside 0 to 30",
               NULL);
    expect_mbt(SCHEMA META "INSERT INTO tiles VALUES(1,2,0,x'00')", "column out of range", NULL);
    expect_mbt(SCHEMA META "INSERT INTO tiles VALUES(1,0,-1,x'00')", "row out of range", NULL);
    expect_mbt(SCHEMA META "INSERT INTO tiles VALUES(1,0.5,0,x'00')", "non-integer position", NULL);
    expect_mbt(SCHEMA META "INSERT INTO tiles VALUES(3,0,0,x'00')", "outside the zooms in metadata",
               NULL);
    expect_mbt(SCHEMA META "INSERT INTO tiles VALUES(0,0,0,zeroblob(16777217))",
               "larger than the tile limit", NULL);
    expect_mbt("CREATE TABLE metadata(name,value);" META
               "CREATE TABLE tiles(zoom_level,tile_column,tile_row,tile_data);"
               "INSERT INTO tiles VALUES(0,0,0,x'00')",
               NULL, "no index");
}

static void test_verify__mbtiles_with_a_damaged_page__told(void **state)
{
    char path[] = "verify-XXXXXX";
    struct edg_verify_report r;
    sqlite3 *db = NULL;
    int fd = mkstemp(path);
    uint8_t junk[512];

    (void)state;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  SCHEMA META
                                  "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n"
                                  " WHERE i<4000) INSERT INTO tiles SELECT 12,i,0,zeroblob(50)"
                                  " FROM n;UPDATE metadata SET value='12' WHERE name='maxzoom'",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    memset(junk, 0xa5, sizeof junk);
    assert_int_equal(pwrite(fd, junk, sizeof junk, (off_t)4096 * 20), sizeof junk);
    (void)close(fd);
    assert_int_equal(
        edg_verify(&(struct edg_verify_opts){.env = ron_env_linux(), .path = path}, &r, NULL),
        RON_OK);
    (void)unlink(path);
    assert_true(r.faults.count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verify__sound_archive__counted_and_good),
        cmocka_unit_test(test_verify__counts_that_are_not_so__told),
        cmocka_unit_test(test_verify__tiles_outside_what_the_header_says__told),
        cmocka_unit_test(test_verify__header_fields_that_contradict__told),
        cmocka_unit_test(test_verify__leaves_that_do_not_fit_their_place__told),
        cmocka_unit_test(test_verify__what_opening_refuses__is_the_fault),
        cmocka_unit_test(test_verify__many_entries__told_how_far_and_cancelled),
        cmocka_unit_test(test_verify__sidecar__good_bad_and_malformed),
        cmocka_unit_test(test_verify__another_file_under_the_name__is_verified_or_not_served),
        cmocka_unit_test(test_verify__mbtiles_with_one_thing_wrong__told),
        cmocka_unit_test(test_verify__mbtiles_with_a_damaged_page__told),
    };

    return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
