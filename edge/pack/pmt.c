/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/pmt.c - a PMTiles file: its root in memory, its leaves in the cache. */
#include "edge/pack/pmt.h"

#include <inttypes.h>

#include "edge/pack/cache.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

struct edg_pmt {
    const struct ron_env *env;
    int fd;
    struct edg_pack_cache *cache;
    uint64_t serial;
    struct edg_pmt_header header;
    struct edg_pmt_entry *root;
    size_t root_count;
};

/* ---- reading --------------------------------------------------------------------------------- */

enum ron_rc edg__read_exact(const struct ron_env *env, int fd, uint64_t offset, void *bytes,
                            size_t len, struct ron_err *err)
{
    size_t got = 0;
    enum ron_rc rc = env->disk->pread(env, fd, bytes, len, offset, &got);

    if (rc != RON_OK) {
        return ron_err_set(err, rc, "%zu bytes at %" PRIu64 " cannot be read", len, offset);
    }
    if (got < len) {
        return ron_err_set(err, RON_CORRUPT, "the file ends before %zu bytes at %" PRIu64, len,
                           offset);
    }
    return RON_OK;
}

enum ron_rc edg_pmt_dir_inflate(const struct ron_env *env, int fd, const struct edg_pmt_header *h,
                                uint64_t offset, uint64_t length, struct ron_buf *out,
                                struct ron_err *err)
{
    uint8_t *stored;
    enum ron_rc rc;

    if (length > EDG_PMT_DIR_BYTES_MAX) {
        return ron_err_set(err, RON_LIMIT, "directory: %" PRIu64 " bytes, at most %d are taken",
                           length, EDG_PMT_DIR_BYTES_MAX);
    }
    stored = ron_alloc((size_t)length);
    if (stored == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a directory");
    }
    rc = edg__read_exact(env, fd, offset, stored, (size_t)length, err);
    if (rc == RON_OK) {
        rc = edg_inflate(h->internal_coding, stored, (size_t)length, out, err);
        if (rc != RON_OK) {
            ron_err_prefix(err, "directory at %" PRIu64, offset);
        }
    }
    ron_free(stored);
    return rc;
}

static enum ron_rc root_read(struct edg_pmt *p, struct ron_err *err)
{
    const struct edg_pmt_section *at = &p->header.root;
    struct ron_buf inflated;
    enum ron_rc rc;

    ron_buf_init(&inflated, EDG_PMT_DIR_BYTES_MAX);
    RON_GOTO(edg_pmt_dir_inflate(p->env, p->fd, &p->header, at->offset, at->length, &inflated, err),
             out);
    RON_GOTO(
        edg_pmt_dir_count(ron_buf_data(&inflated), ron_buf_len(&inflated), &p->root_count, err),
        out);
    p->root = ron_alloc_array(p->root_count, sizeof *p->root);
    rc = p->root != NULL ? edg_pmt_dir_read(ron_buf_data(&inflated), ron_buf_len(&inflated),
                                            &p->header, p->root, p->root_count, err)
                         : ron_err_set(err, RON_NOMEM, "no memory for the root directory");
out:
    ron_buf_done(&inflated);
    return rc;
}

enum ron_rc edg_pmt_open(const struct ron_env *env, int fd, uint64_t file_bytes,
                         struct edg_pack_cache *cache, uint64_t serial, struct edg_pmt **ret_pmt,
                         struct ron_err *err)
{
    uint8_t bytes[EDG_PMT_HEADER_BYTES];
    struct edg_pmt *p;
    enum ron_rc rc;

    if (file_bytes < sizeof bytes) {
        return ron_err_set(err, RON_CORRUPT, "shorter than a PMTiles header");
    }
    RON_TRY(edg__read_exact(env, fd, 0, bytes, sizeof bytes, err));
    p = ron_alloc_zero(sizeof *p);
    if (p == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a pack");
    }
    p->env = env;
    p->fd = fd;
    p->cache = cache;
    p->serial = serial;
    RON_GOTO(edg_pmt_header_read(bytes, sizeof bytes, file_bytes, &p->header, err), fail);
    RON_GOTO(root_read(p, err), fail);
    *ret_pmt = p;
    return RON_OK;
fail:
    edg_pmt_close(p);
    return rc;
}

void edg_pmt_close(struct edg_pmt *p)
{
    if (p != NULL) {
        ron_free(p->root);
        ron_free(p);
    }
}

const struct edg_pmt_header *edg_pmt_header(const struct edg_pmt *p)
{
    return &p->header;
}

const struct edg_pmt_entry *edg_pmt_root(const struct edg_pmt *p, size_t *ret_count)
{
    *ret_count = p->root_count;
    return p->root;
}

enum ron_rc edg_pmt_metadata(struct edg_pmt *p, struct ron_buf *out, struct ron_err *err)
{
    const struct edg_pmt_section *at = &p->header.metadata;
    uint8_t *stored;
    enum ron_rc rc;

    if (at->length == 0) {
        return RON_OK;
    }
    if (at->length > EDG_METADATA_BYTES_MAX) {
        return ron_err_set(err, RON_LIMIT, "metadata: %" PRIu64 " bytes, at most %d are taken",
                           at->length, EDG_METADATA_BYTES_MAX);
    }
    stored = ron_alloc((size_t)at->length);
    if (stored == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for metadata");
    }
    rc = edg__read_exact(p->env, p->fd, at->offset, stored, (size_t)at->length, err);
    if (rc == RON_OK) {
        rc = edg_inflate(p->header.internal_coding, stored, (size_t)at->length, out, err);
        if (rc != RON_OK) {
            ron_err_prefix(err, "metadata");
        }
    }
    ron_free(stored);
    return rc;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* Reads a leaf and gives it to the cache; with a reference for the caller. */
static enum ron_rc leaf_load(struct edg_pmt *p, const struct edg__name *name,
                             struct edg__block **ret_leaf, struct ron_err *err)
{
    struct edg__block *leaf = NULL;
    struct ron_buf inflated;
    size_t count = 0;
    enum ron_rc rc;

    ron_buf_init(&inflated, EDG_PMT_DIR_BYTES_MAX);
    RON_GOTO(edg_pmt_dir_inflate(p->env, p->fd, &p->header, p->header.leaves.offset + name->key,
                                 name->key_len, &inflated, err),
             out);
    RON_GOTO(edg_pmt_dir_count(ron_buf_data(&inflated), ron_buf_len(&inflated), &count, err), out);
    RON_ASSERT_MSG(name->key + name->key_len <= p->header.leaves.length,
                   "P2: a leaf lies inside its section");
    leaf = edg__block_new(name, count * sizeof(struct edg_pmt_entry));
    if (leaf == NULL) {
        rc = ron_err_set(err, RON_NOMEM, "no memory for a leaf directory");
        goto out;
    }
    RON_GOTO(edg_pmt_dir_read(ron_buf_data(&inflated), ron_buf_len(&inflated), &p->header,
                              (struct edg_pmt_entry *)(void *)leaf->bytes, count, err),
             out);
    edg__cache_put(p->cache, EDG__LEAVES, leaf);
    *ret_leaf = RON_TAKE(leaf);
out:
    edg__block_unref(leaf);
    ron_buf_done(&inflated);
    return rc;
}

static enum ron_rc leaf_get(struct edg_pmt *p, const struct edg_pmt_entry *e, bool wait,
                            struct edg__block **ret_leaf, struct ron_err *err)
{
    const struct edg__name name = {.serial = p->serial, .key = e->offset, .key_len = e->length};
    struct edg__block *leaf = edg__cache_get(p->cache, EDG__LEAVES, &name);

    if (leaf != NULL) {
        *ret_leaf = leaf;
        return RON_OK;
    }
    return wait ? leaf_load(p, &name, ret_leaf, err) : RON_AGAIN;
}

static enum ron_rc find(struct edg_pmt *p, uint64_t tile_id, bool wait,
                        struct edg_pmt_place *ret_place, struct ron_err *err)
{
    const struct edg_pmt_entry *entries = p->root;
    size_t count = p->root_count;
    struct edg__block *leaf = NULL;
    enum ron_rc rc = RON_OK;

    for (int depth = 0;; depth++) {
        const struct edg_pmt_entry *e = edg_pmt_search(entries, count, tile_id);
        struct edg__block *next = NULL;

        if (e == NULL) {
            rc = RON_NOTFOUND; /* told by the code alone: it is an everyday answer */
            break;
        }
        if (e->run > 0) {
            RON_ASSERT_MSG(e->offset + e->length <= p->header.tiles.length,
                           "P2: an entry lies inside its section");
            *ret_place = (struct edg_pmt_place){.offset = p->header.tiles.offset + e->offset,
                                                .length = e->length};
            break;
        }
        if (depth == EDG_PMT_DEPTH_MAX) {
            rc = ron_err_set(err, RON_CORRUPT, "directories are nested more than %d levels deep",
                             EDG_PMT_DEPTH_MAX);
            break;
        }
        rc = leaf_get(p, e, wait, &next, err);
        if (rc != RON_OK) {
            break;
        }
        RON_ASSERT(next != NULL);
        edg__block_unref(leaf);
        leaf = next;
        RON_ASSERT_MSG(leaf->len % sizeof *entries == 0, "a leaf is whole entries");
        entries = (const struct edg_pmt_entry *)(const void *)leaf->bytes;
        count = leaf->len / sizeof *entries;
    }
    edg__block_unref(leaf);
    return rc;
}

enum ron_rc edg_pmt_find(struct edg_pmt *p, uint64_t tile_id, struct edg_pmt_place *ret_place,
                         struct ron_err *err)
{
    return find(p, tile_id, false, ret_place, err);
}

enum ron_rc edg_pmt_find_wait(struct edg_pmt *p, uint64_t tile_id, struct edg_pmt_place *ret_place,
                              struct ron_err *err)
{
    return find(p, tile_id, true, ret_place, err);
}
