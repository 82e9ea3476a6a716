/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/proof/tile.c - paths of tiles, their hashes, and bundles. */
#include "ledger/proof/tile.h"

#include <stdio.h>

#include "ron/base/assert.h"

_Static_assert((int)LED_TILE_WIDTH <= (int)RON_TREE_READ_MAX, "a tile is read at once");

enum { GROUP = 1000, GROUP_DIGITS = 3, GROUPS_MAX = 6 /* 2^55 has 17 digits */ };

void led_tile_path(const struct led_tile *tile, char ret_path[LED_TILE_PATH_SIZE])
{
    unsigned groups[GROUPS_MAX];
    size_t count = 0;
    uint64_t rest = tile->index;
    struct ron_buf out;

    RON_ASSERT(tile->index <= LED_TILE_INDEX_MAX);
    RON_ASSERT(tile->width >= 1 && tile->width <= LED_TILE_WIDTH);
    do {
        groups[count++] = (unsigned)(rest % GROUP);
        rest /= GROUP;
    } while (rest > 0);
    ron_buf_init_over(&out, ret_path, LED_TILE_PATH_SIZE);
    RON_IGNORE(tile->entries ? ron_buf_append_text(&out, "tile/entries")
                             : ron_buf_append_fmt(&out, "tile/%u", (unsigned)tile->level));
    while (count-- > 0) {
        RON_IGNORE(ron_buf_append_fmt(&out, count > 0 ? "/x%03u" : "/%03u", groups[count]));
    }
    if (tile->width < LED_TILE_WIDTH) {
        RON_IGNORE(ron_buf_append_fmt(&out, ".p/%u", (unsigned)tile->width));
    }
    RON_ASSERT(ron_buf_error(&out) == RON_OK);
    (void)ron_buf_text(&out);
}

/* Three digits. */
static bool read_group(struct ron_str *s, uint64_t *index)
{
    unsigned value = 0;

    if (s->len < GROUP_DIGITS) {
        return false;
    }
    for (size_t i = 0; i < GROUP_DIGITS; i++) {
        unsigned digit = (unsigned)(unsigned char)s->ptr[i] - '0';

        if (digit > 9) {
            return false;
        }
        value = value * 10 + digit;
    }
    s->ptr += GROUP_DIGITS;
    s->len -= GROUP_DIGITS;
    *index = *index * GROUP + value;
    return true;
}

/* `x001/x234/067`; the first of several groups is not 000, so an index has one spelling. */
static bool read_index(struct ron_str *s, uint64_t *ret_index)
{
    uint64_t index = 0;

    for (size_t groups = 0; groups < GROUPS_MAX; groups++) {
        if (!ron_str_skip(s, RON_STR_LIT("x"))) {
            *ret_index = index;
            return read_group(s, ret_index) && *ret_index <= LED_TILE_INDEX_MAX;
        }
        if (!read_group(s, &index) || index == 0 || !ron_str_skip(s, RON_STR_LIT("/"))) {
            return false;
        }
    }
    return false;
}

static bool read_tile(struct ron_str s, struct led_tile *tile)
{
    uint64_t number = 0;
    struct ron_str level;

    if (!ron_str_skip(&s, RON_STR_LIT("tile/"))) {
        return false;
    }
    tile->entries = ron_str_skip(&s, RON_STR_LIT("entries/"));
    if (!tile->entries &&
        (!ron_str_cut(s, '/', &level, &s) || !ron_str_u64(level, LED_TILE_LEVEL_MAX, &number))) {
        return false;
    }
    tile->level = (uint8_t)number;
    if (!read_index(&s, &tile->index)) {
        return false;
    }
    number = LED_TILE_WIDTH;
    if (s.len > 0 && (!ron_str_skip(&s, RON_STR_LIT(".p/")) ||
                      !ron_str_u64(s, LED_TILE_WIDTH - 1, &number) || number == 0)) {
        return false;
    }
    tile->width = (uint16_t)number;
    return true;
}

enum ron_rc led_tile_parse(struct ron_str path, struct led_tile *ret_tile, struct ron_err *err)
{
    struct led_tile tile;

    if (!read_tile(path, &tile)) {
        return ron_err_set(err, RON_CORRUPT, "that is no path of a tile");
    }
    *ret_tile = tile;
    return RON_OK;
}

unsigned led_tile_width_at(unsigned level, uint64_t index, uint64_t size)
{
    unsigned shift = level * LED_TILE_HEIGHT;
    uint64_t nodes = shift < 64 ? size >> shift : 0;

    if (index > nodes / LED_TILE_WIDTH) {
        return 0;
    }
    return (unsigned)RON_MIN(nodes - index * LED_TILE_WIDTH, (uint64_t)LED_TILE_WIDTH);
}

enum ron_rc led_tile_range(const struct led_tile *tile, uint64_t size, uint64_t *ret_first,
                           size_t *ret_count, struct ron_err *err)
{
    if (led_tile_width_at(tile->level, tile->index, size) < tile->width) {
        return ron_err_set(err, RON_NOTFOUND, "the tree has not grown that far");
    }
    *ret_first = tile->index * LED_TILE_WIDTH;
    *ret_count = tile->width;
    return RON_OK;
}

enum ron_rc led_tile_read(const struct led_tile *tile, const struct ron_tree_store *store,
                          uint64_t size, struct ron_tree_hash ret_hashes[LED_TILE_WIDTH],
                          struct ron_err *err)
{
    struct ron_tree_hash hashes[LED_TILE_WIDTH];
    uint64_t places[LED_TILE_WIDTH];
    uint64_t first = 0;
    size_t count = 0;

    if (tile->entries) {
        return ron_err_set(err, RON_INVALID, "a bundle of entries has no hashes");
    }
    RON_TRY(led_tile_range(tile, size, &first, &count, err));
    for (size_t i = 0; i < count; i++) {
        places[i] = ron_tree_place((unsigned)tile->level * LED_TILE_HEIGHT, first + i);
    }
    RON_TRY(store->read(store->ctx, places, count, hashes, err));
    memcpy(ret_hashes, hashes, count * sizeof *hashes);
    return RON_OK;
}

void led_tile_root(const struct ron_tree_hash hashes[LED_TILE_WIDTH],
                   struct ron_tree_hash *ret_root)
{
    struct ron_tree_hash level[LED_TILE_WIDTH / 2];

    ron_tree_hash_nodes(hashes, LED_TILE_WIDTH / 2, level);
    for (size_t n = LED_TILE_WIDTH / 4; n > 0; n /= 2) {
        ron_tree_hash_nodes(level, n, level);
    }
    *ret_root = level[0];
}

enum ron_rc led_bundle_add(struct ron_buf *bundle, const void *entry, size_t len,
                           struct ron_err *err)
{
    uint8_t *room;

    if (len > LED_TILE_ENTRY_MAX) {
        return ron_err_set(err, RON_LIMIT, "an entry of a bundle has at most 65535 bytes");
    }
    if (ron_buf_reserve(bundle, 2 + len, &room) != RON_OK) {
        return ron_err_set(err, ron_buf_error(bundle), "no room for an entry");
    }
    room[0] = (uint8_t)(len >> 8);
    room[1] = (uint8_t)len;
    if (len > 0) {
        memcpy(room + 2, entry, len);
    }
    ron_buf_commit(bundle, 2 + len);
    return RON_OK;
}

enum ron_rc led_bundle_next(struct ron_str *rest, struct ron_str *ret_entry, struct ron_err *err)
{
    const uint8_t *p = (const uint8_t *)rest->ptr;
    size_t len = rest->len < 2 ? 0 : (size_t)p[0] << 8 | p[1];

    if (rest->len < 2 || rest->len - 2 < len) {
        return ron_err_set(err, RON_CORRUPT, "the bundle ends inside an entry");
    }
    *ret_entry = (struct ron_str){.ptr = rest->ptr + 2, .len = len};
    rest->ptr += 2 + len;
    rest->len -= 2 + len;
    return RON_OK;
}
