/* SPDX-License-Identifier: Apache-2.0 */
/* edge/offline/tool.c - `ron edge verify`, `tile` and `sample`, on the machine's own disk. */
#include "edge/offline/tool.h"

#include "edge/pack/verify.h"
#include "edge/sample/sample.h"
#include "ron/io/file.h"
#include "ron/io/linux_env.h"

enum { FILE_MODE = 0644 };

enum ron_rc edg_tool_verify(const char *path, bool json, bool hash,
                            const struct edg_tool_watch *watch, struct ron_buf *out, bool *ret_good,
                            struct ron_err *err)
{
    const struct edg_verify_opts opts = {.env = ron_env_linux(),
                                         .path = path,
                                         .hash = hash,
                                         .progress = watch != NULL ? watch->show : NULL,
                                         .progress_arg = watch != NULL ? watch->arg : NULL};
    struct edg_verify_report report;

    RON_TRY(edg_verify(&opts, &report, err));
    if (json) {
        edg_verify_json(&report, path, out);
    } else {
        edg_verify_tell(&report, path, out);
    }
    *ret_good = report.faults.count == 0;
    return ron_buf_error(out) == RON_OK
               ? RON_OK
               : ron_err_set(err, ron_buf_error(out), "no memory for the report");
}

static enum ron_rc append_tile(const struct ron_env *env, const struct ron_http_blob *blob,
                               struct ron_buf *out, struct ron_err *err)
{
    uint8_t *room = NULL;
    size_t got = 0;
    enum ron_rc rc;

    if (blob->bytes != NULL) {
        return ron_buf_append(out, (const uint8_t *)blob->bytes + blob->offset,
                              (size_t)blob->length);
    }
    RON_TRY(ron_buf_reserve(out, (size_t)blob->length, &room));
    rc = env->disk->pread(env, blob->fd, room, (size_t)blob->length, blob->offset, &got);
    if (rc != RON_OK || got < blob->length) {
        return ron_err_set(err, rc != RON_OK ? rc : RON_CORRUPT, "cannot read the tile");
    }
    ron_buf_commit(out, got);
    return RON_OK;
}

enum ron_rc edg_tool_tile(const char *path, uint64_t z, uint64_t x, uint64_t y, struct ron_buf *out,
                          struct ron_err *err)
{
    const struct ron_env *env = ron_env_linux();
    struct edg_pack_cache *cache = NULL;
    struct edg_pack *p = NULL;
    struct edg_tile tile;
    enum ron_rc rc;

    _Static_assert((int)EDG_TOOL_TILE_MAX == (int)EDG_TILE_BYTES_MAX, "one bound under two names");
    RON_TRY(edg_pack_cache_new(NULL, &cache, err));
    rc = edg_pack_open(
        &(struct edg_pack_opts){
            .env = env, .cache = cache, .path = path, .name = "x", .readers = 1},
        &p, err);
    if (rc == RON_OK) {
        rc = edg_pack_tile_wait(p, z, x, y, &tile, err);
        if (rc == RON_OK) {
            rc = append_tile(env, &tile.blob, out, err);
            tile.blob.release(tile.blob.arg);
        } else if (rc == RON_NOTFOUND) {
            rc = ron_err_set(err, rc, "%s: tile not found", path);
        }
    }
    edg_pack_unref(p);
    edg_pack_cache_free(cache);
    return rc;
}

enum ron_rc edg_tool_sample(const char *path, struct ron_buf *out, struct ron_err *err)
{
    const struct ron_env *env = ron_env_linux();
    struct ron_file_stat st;
    struct ron_buf bytes;
    enum ron_rc rc;

    if (env->disk->stat_link(env, path, &st) == RON_OK) {
        return ron_err_set(err, RON_EXISTS, "%s already exists", path);
    }
    ron_buf_init(&bytes, EDG_SAMPLE_BYTES_MAX);
    rc = edg_sample_build(&bytes, err);
    if (rc == RON_OK) {
        rc = ron_file_replace(env, path, ron_buf_data(&bytes), ron_buf_len(&bytes), FILE_MODE, err);
    }
    if (rc == RON_OK) {
        ron_buf_append_fmt(out, "%s: %zu bytes, zooms 0 to %d\n", path, ron_buf_len(&bytes),
                           EDG_SAMPLE_ZOOM_MAX);
    }
    ron_buf_done(&bytes);
    return rc;
}
