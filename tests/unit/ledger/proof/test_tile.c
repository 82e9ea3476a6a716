/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: tiles have the paths and hashes of C2SP tlog-tiles, and a path has one spelling.
 * Method: the document's examples; random tiles there and back; a table of near misses; the tree of
 * 70,000 leaves that the document describes, with every hash recomputed from the level below. */
#include "support/support.h"

#include "ledger/proof/tile.h"
#include "ron/base/alloc.h"

enum { LEAVES = 70000 };

static struct ron_tree_hash *stored;

static enum ron_rc stored_read(void *ctx, const uint64_t *places, size_t count,
                               struct ron_tree_hash *ret_hashes, struct ron_err *err)
{
    (void)ctx;
    (void)err;
    for (size_t i = 0; i < count; i++) {
        assert_true(places[i] < ron_tree_stored_count(LEAVES));
        ret_hashes[i] = stored[places[i]];
    }
    return RON_OK;
}

static const struct ron_tree_store store = {.read = stored_read};

static int grow(void **state)
{
    struct ron_tree_hash *leaves = ron_alloc_array(LEAVES, sizeof *leaves);
    struct ron_tree tree;

    (void)state;
    stored = ron_alloc_array(2 * LEAVES, sizeof *stored);
    assert_non_null(leaves);
    assert_non_null(stored);
    for (uint32_t i = 0; i < LEAVES; i++) {
        ron_tree_hash_leaf(&i, sizeof i, &leaves[i]);
    }
    ron_tree_init(&tree);
    assert_int_equal(ron_tree_extend(&tree, leaves, LEAVES, stored), RON_OK);
    ron_free(leaves);
    return 0;
}

static int drop(void **state)
{
    (void)state;
    ron_free(stored);
    return 0;
}

static struct ron_str str(const char *text)
{
    return (struct ron_str){.ptr = text, .len = strlen(text)};
}

static void test_tile__known_paths__both_ways(void **state)
{
    static const struct {
        struct led_tile tile;
        const char *path;
    } known[] = {
        {{.level = 0, .width = 256, .index = 0}, "tile/0/000"},
        {{.level = 3, .width = 256, .index = 1234067}, "tile/3/x001/x234/067"},
        {{.level = 63, .width = 1, .index = 999}, "tile/63/999.p/1"},
        {{.level = 1, .width = 255, .index = 1000}, "tile/1/x001/000.p/255"},
        {{.entries = true, .width = 256, .index = 273}, "tile/entries/273"},
        {{.entries = true, .width = 112, .index = 1000000}, "tile/entries/x001/x000/000.p/112"},
        {{.level = 0, .width = 256, .index = LED_TILE_INDEX_MAX},
         "tile/0/x036/x028/x797/x018/x963/967"},
    };
    struct led_tile tile;
    char path[LED_TILE_PATH_SIZE];

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(known); i++) {
        led_tile_path(&known[i].tile, path);
        assert_string_equal(path, known[i].path);
        assert_int_equal(led_tile_parse(str(path), &tile, NULL), RON_OK);
        assert_int_equal(tile.entries, known[i].tile.entries);
        assert_int_equal(tile.level, known[i].tile.level);
        assert_int_equal(tile.width, known[i].tile.width);
        assert_int_equal(tile.index, known[i].tile.index);
    }
}

static void test_tile__near_misses__refused(void **state)
{
    static const char *const bad[] = {
        "",
        "tile",
        "tile/",
        "/tile/0/000",
        "tile/0",
        "tile/0/",
        "tile/0/0",
        "tile/0/00",
        "tile/0/0000",
        "tile/0/000/",
        "tile/0/x000",
        "tile/0/x000/",
        "tile/0/x000/001",
        "tile/0/X001/001",
        "tile/0/x001/x000/x000/x000/x000/x000/000",
        "tile/0/x036/x028/x797/x018/x963/968",
        "tile/0/x999/x999/x999/x999/x999/999",
        "tile/0/001/002",
        "tile/00/000",
        "tile/64/000",
        "tile/-1/000",
        "tile/+1/000",
        "tile//000",
        "tile/entries/",
        "tile/entries/x",
        "tile/entries",
        "tile/data/000",
        "tile/0/000.p",
        "tile/0/000.p/",
        "tile/0/000.p/0",
        "tile/0/000.p/01",
        "tile/0/000.p/256",
        "tile/0/000.p/-1",
        "tile/0/000.p/1/",
        "tile/0/000.p/1 ",
        "tile/0/000 ",
        "tile/0/00a",
        "tile/0/../000",
    };
    struct led_tile tile;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        if (led_tile_parse(str(bad[i]), &tile, NULL) != RON_CORRUPT) {
            fail_msg("taken: %s", bad[i]);
        }
    }
}

static void test_tile__random__there_and_back(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct led_tile tile = {.entries = ron_rand_chance(&rand, 1, 4),
                                .width = (uint16_t)ron_rand_range(&rand, 1, 256),
                                .index = support_rand_edgy_u64(&rand) & LED_TILE_INDEX_MAX};
        struct led_tile back;
        char path[LED_TILE_PATH_SIZE];

        tile.level = tile.entries ? 0 : (uint8_t)ron_rand_below(&rand, 64);
        led_tile_path(&tile, path);
        assert_int_equal(led_tile_parse(str(path), &back, NULL), RON_OK);
        assert_int_equal(back.entries, tile.entries);
        assert_int_equal(back.level, tile.level);
        assert_int_equal(back.width, tile.width);
        assert_int_equal(back.index, tile.index);
    }
}

/* "273 full level 0 tiles, one partial level 0 tile of width 112, one full level 1 tile, one
 * partial level 1 tile of width 17, and one partial level 2 tile of width 1". */
static void test_tile__tree_of_70000__the_tiles_of_the_document(void **state)
{
    (void)state;
    assert_int_equal(led_tile_width_at(0, 272, LEAVES), 256);
    assert_int_equal(led_tile_width_at(0, 273, LEAVES), 112);
    assert_int_equal(led_tile_width_at(0, 274, LEAVES), 0);
    assert_int_equal(led_tile_width_at(1, 0, LEAVES), 256);
    assert_int_equal(led_tile_width_at(1, 1, LEAVES), 17);
    assert_int_equal(led_tile_width_at(1, 2, LEAVES), 0);
    assert_int_equal(led_tile_width_at(2, 0, LEAVES), 1);
    assert_int_equal(led_tile_width_at(3, 0, LEAVES), 0);
    assert_int_equal(led_tile_width_at(63, 0, LEAVES), 0);
    assert_int_equal(led_tile_width_at(0, 1, 256), 0);
    assert_int_equal(led_tile_width_at(1, 0, 256), 1);
    assert_int_equal(led_tile_width_at(0, LED_TILE_INDEX_MAX, RON_TREE_SIZE_MAX), 255);
}

static void test_tile__hashes__those_of_the_level_below(void **state)
{
    struct ron_tree_hash above[LED_TILE_WIDTH];
    struct ron_tree_hash hashes[LED_TILE_WIDTH];
    struct ron_tree_hash hash;

    (void)state;
    assert_int_equal(
        led_tile_read(&(struct led_tile){.level = 1, .width = 256}, &store, LEAVES, above, NULL),
        RON_OK);
    for (uint32_t n = 0; n < LED_TILE_WIDTH; n++) {
        struct led_tile tile = {.width = 256, .index = n};

        assert_int_equal(led_tile_read(&tile, &store, LEAVES, hashes, NULL), RON_OK);
        for (uint32_t i = 0; i < LED_TILE_WIDTH; i++) {
            uint32_t leaf = n * 256 + i;

            ron_tree_hash_leaf(&leaf, sizeof leaf, &hash);
            assert_true(ron_tree_hash_equal(&hash, &hashes[i]));
        }
        led_tile_root(hashes, &hash);
        assert_true(ron_tree_hash_equal(&hash, &above[n]));
    }
    led_tile_root(above, &hash);
    assert_int_equal(
        led_tile_read(&(struct led_tile){.level = 2, .width = 1}, &store, LEAVES, hashes, NULL),
        RON_OK);
    assert_true(ron_tree_hash_equal(&hash, &hashes[0]));
}

static void test_tile__not_there_yet__notfound(void **state)
{
    struct ron_tree_hash hashes[LED_TILE_WIDTH];
    uint64_t first;
    size_t count;

    (void)state;
    assert_int_equal(
        led_tile_read(&(struct led_tile){.width = 113, .index = 273}, &store, LEAVES, hashes, NULL),
        RON_NOTFOUND);
    assert_int_equal(
        led_tile_read(&(struct led_tile){.width = 112, .index = 273}, &store, LEAVES, hashes, NULL),
        RON_OK);
    assert_int_equal(
        led_tile_read(&(struct led_tile){.level = 63, .width = 1}, &store, LEAVES, hashes, NULL),
        RON_NOTFOUND);
    assert_int_equal(led_tile_read(&(struct led_tile){.entries = true, .width = 1}, &store, LEAVES,
                                   hashes, NULL),
                     RON_INVALID);
    assert_int_equal(led_tile_range(&(struct led_tile){.entries = true, .width = 5, .index = 2},
                                    LEAVES, &first, &count, NULL),
                     RON_OK);
    assert_int_equal(first, 512);
    assert_int_equal(count, 5);
    assert_int_equal(led_tile_range(&(struct led_tile){.entries = true, .width = 256, .index = 273},
                                    LEAVES, &first, &count, NULL),
                     RON_NOTFOUND);
}

static void test_bundle__entries__length_and_bytes(void **state)
{
    static uint8_t large[LED_TILE_ENTRY_MAX + 1];
    struct ron_buf bundle;
    struct ron_str rest;
    struct ron_str entry;

    (void)state;
    ron_buf_init(&bundle, 1 << 20);
    assert_int_equal(led_bundle_add(&bundle, "abc", 3, NULL), RON_OK);
    assert_int_equal(led_bundle_add(&bundle, NULL, 0, NULL), RON_OK);
    assert_int_equal(led_bundle_add(&bundle, large, sizeof large, NULL), RON_LIMIT);
    assert_int_equal(led_bundle_add(&bundle, large, sizeof large - 1, NULL), RON_OK);
    assert_int_equal(ron_buf_len(&bundle), 5 + 2 + 2 + LED_TILE_ENTRY_MAX);
    assert_memory_equal(ron_buf_data(&bundle), "\0\3abc\0\0\xff\xff", 9);
    rest =
        (struct ron_str){.ptr = (const char *)ron_buf_data(&bundle), .len = ron_buf_len(&bundle)};
    assert_int_equal(led_bundle_next(&rest, &entry, NULL), RON_OK);
    assert_true(ron_str_is(entry, "abc"));
    assert_int_equal(led_bundle_next(&rest, &entry, NULL), RON_OK);
    assert_int_equal(entry.len, 0);
    rest.len--;
    assert_int_equal(led_bundle_next(&rest, &entry, NULL), RON_CORRUPT);
    rest.len = 1;
    assert_int_equal(led_bundle_next(&rest, &entry, NULL), RON_CORRUPT);
    rest.len = 2 + LED_TILE_ENTRY_MAX;
    assert_int_equal(led_bundle_next(&rest, &entry, NULL), RON_OK);
    assert_int_equal(entry.len, LED_TILE_ENTRY_MAX);
    assert_int_equal(rest.len, 0);
    ron_buf_done(&bundle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tile__known_paths__both_ways),
        cmocka_unit_test(test_tile__near_misses__refused),
        cmocka_unit_test(test_tile__random__there_and_back),
        cmocka_unit_test(test_tile__tree_of_70000__the_tiles_of_the_document),
        cmocka_unit_test(test_tile__hashes__those_of_the_level_below),
        cmocka_unit_test(test_tile__not_there_yet__notfound),
        cmocka_unit_test(test_bundle__entries__length_and_bytes),
    };

    return cmocka_run_group_tests(tests, grow, drop);
}
