/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_edg_pmt.c - any bytes as a PMTiles file: header, root, leaves, metadata, and as a directory.
 *
 * Oracle: a refusal has a sentence; an entry that was decoded lies inside its section, in order; a
 * tile that is found lies inside the tile data; what the verification calls good opens. */
#include <string.h>

#include "edge/pack/cache.h"
#include "edge/pack/pmt.h"
#include "edge/pack/verify.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/linux_env.h"
#include "ron/io/memdisk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DISK_BYTES = 64 << 20, SECTION = 1 << 20 };

static void as_directory(const uint8_t *data, size_t size)
{
    const struct edg_pmt_header h = {.tiles = {.length = SECTION}, .leaves = {.length = SECTION}};
    struct edg_pmt_entry *entries;
    struct ron_err err = {0};
    size_t count = 0;

    if (edg_pmt_dir_count(data, size, &count, &err) != RON_OK) {
        RON_ASSERT(err.msg[0] != '\0');
        return;
    }
    entries = ron_alloc_array(count, sizeof *entries);
    RON_ASSERT(entries != NULL);
    if (edg_pmt_dir_read(data, size, &h, entries, count, &err) == RON_OK) {
        for (size_t i = 0; i < count; i++) {
            const struct edg_pmt_entry *e = &entries[i];

            RON_ASSERT(e->length > 0 && e->offset + e->length <= SECTION);
            RON_ASSERT(e->tile_id + e->run <= EDG_TILE_ID_MAX + 1);
            RON_ASSERT(i + 1 == count || e->tile_id + e->run <= entries[i + 1].tile_id);
            RON_ASSERT(edg_pmt_search(entries, count, e->tile_id) == e);
        }
    } else {
        RON_ASSERT(err.msg[0] != '\0');
    }
    ron_free(entries);
}

static void as_file(const struct ron_env *env, const uint8_t *data, size_t size)
{
    struct edg_pack_cache *cache = NULL;
    struct edg_verify_report report;
    struct edg_pmt_header h = {0};
    struct edg_pack *p = NULL;
    struct ron_err err = {0};
    enum ron_rc rc;

    RON_ASSERT(edg_pack_cache_new(NULL, &cache, NULL) == RON_OK);
    rc = edg_pack_open(
        &(struct edg_pack_opts){.env = env, .cache = cache, .path = "x", .name = "x"}, &p, &err);
    if (rc == RON_OK) {
        RON_ASSERT(edg_pmt_header_read(data, size, size, &h, NULL) == RON_OK);
        for (uint64_t id = 0; id < 85; id++) {
            struct edg_zxy at = {0};
            struct edg_tile t;

            RON_ASSERT(edg_tile_zxy(id, &at));
            if (edg_pack_tile_wait(p, at.z, at.x, at.y, &t, NULL) == RON_OK) {
                RON_ASSERT(t.blob.length > 0 && t.blob.length <= h.tiles.length);
                RON_ASSERT(t.blob.bytes == NULL || memmem(data + h.tiles.offset, h.tiles.length,
                                                          t.blob.bytes, t.blob.length) != NULL);
                t.blob.release(t.blob.arg);
            }
        }
    } else {
        RON_ASSERT(err.msg[0] != '\0');
    }
    rc = edg_verify(&(struct edg_verify_opts){.env = env, .path = "x"}, &report, &err);
    RON_ASSERT(rc == RON_OK);
    RON_ASSERT((p != NULL) == report.opened);
    RON_ASSERT(report.opened || report.faults.count > 0);
    edg_pack_unref(p);
    edg_pack_cache_free(cache);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ron_memdisk *disk = NULL;
    const struct ron_env *env;
    int fd = -1;

    as_directory(data, size);
    /* A SQLite file would be looked for on the machine's own disk. */
    if (size >= 6 && memcmp(data, "SQLite", 6) == 0) {
        return 0;
    }
    RON_ASSERT(ron_memdisk_new(ron_env_linux(), DISK_BYTES, &disk, NULL) == RON_OK);
    env = ron_memdisk_env(disk);
    RON_ASSERT(env->disk->open(env, "x", RON_OPEN_WRITE | RON_OPEN_CREATE, 0600, &fd, NULL) ==
               RON_OK);
    RON_ASSERT(env->disk->pwrite(env, fd, data, size, 0, NULL) == RON_OK);
    env->disk->close(env, fd);
    as_file(env, data, size);
    ron_memdisk_free(disk);
    return 0;
}
