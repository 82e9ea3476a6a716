/* SPDX-License-Identifier: Apache-2.0 */
/* led_hashes.c - stored hashes of the tree in files of equal size. */
#include "led_hashes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/file.h"
#include "ron/sync/sync.h"

#define MAGIC UINT32_C(0x68617368)

enum { NAME_SIZE = 24 };

#define FILE_BYTES ((uint64_t)LED_HASHES_PER_FILE * RON_TREE_HASH_BYTES)

struct led_hashes {
    uint32_t magic;
    const struct ron_env *env;
    bool read_only;
    struct ron_tree_store store;
    struct ron_au64 count;

    int fd;        /* the appender's; -1 = none */
    uint64_t file; /* number of that file */

    uint64_t synced; /* of led_hashes_sync */
    char dir[RON_FILE_PATH_SIZE];
};

static enum ron_rc file_path(const struct led_hashes *h, uint64_t file,
                             char ret_path[RON_FILE_PATH_SIZE], struct ron_err *err)
{
    int len = snprintf(ret_path, RON_FILE_PATH_SIZE, "%s/%06" PRIu64 ".hash", h->dir, file);

    if (len < 0 || len >= RON_FILE_PATH_SIZE || file >= LED_HASHES_FILES_MAX) {
        return ron_err_set(err, RON_LIMIT, "no name for hash file %" PRIu64, file);
    }
    return RON_OK;
}

static enum ron_rc file_open(const struct led_hashes *h, uint64_t file, uint32_t flags, int *ret_fd,
                             struct ron_err *err)
{
    char path[RON_FILE_PATH_SIZE];

    RON_TRY(file_path(h, file, path, err));
    return h->env->disk->open(h->env, path, flags, 0600, ret_fd, err);
}

/* ---- the store of the tree ------------------------------------------------------------------- */

static enum ron_rc appender_to(struct led_hashes *h, uint64_t file, struct ron_err *err)
{
    int fd;

    if (h->fd >= 0 && h->file == file) {
        return RON_OK;
    }
    RON_TRY(file_open(h, file, RON_OPEN_READ | RON_OPEN_WRITE | RON_OPEN_CREATE, &fd, err));
    if (h->fd >= 0) {
        h->env->disk->close(h->env, h->fd);
    }
    h->fd = fd;
    h->file = file;
    return RON_OK;
}

static enum ron_rc store_append(void *ctx, uint64_t first, const struct ron_tree_hash *hashes,
                                size_t count, struct ron_err *err)
{
    struct led_hashes *h = ctx;
    uint64_t at = first;
    size_t left = count;

    RON_CHECK_MAGIC(h, MAGIC);
    RON_ASSERT(!h->read_only);
    if (first > ron_au64_load(&h->count)) {
        return ron_err_set(err, RON_INVALID, "place %" PRIu64 " does not follow the last one",
                           first);
    }
    while (left > 0) {
        uint64_t place = at % LED_HASHES_PER_FILE;
        size_t here = (size_t)RON_MIN((uint64_t)left, LED_HASHES_PER_FILE - place);

        RON_TRY(appender_to(h, at / LED_HASHES_PER_FILE, err));
        RON_TRY(h->env->disk->pwrite(h->env, h->fd, hashes, here * RON_TREE_HASH_BYTES,
                                     place * RON_TREE_HASH_BYTES, err));
        hashes += here;
        at += here;
        left -= here;
    }
    ron_au64_store(&h->count, first + count);
    return RON_OK;
}

static enum ron_rc read_run(const struct led_hashes *h, int fd, uint64_t place, size_t count,
                            struct ron_tree_hash *ret_hashes, struct ron_err *err)
{
    size_t len = count * RON_TREE_HASH_BYTES;
    size_t got = 0;
    enum ron_rc rc = h->env->disk->pread(h->env, fd, ret_hashes, len,
                                         place % LED_HASHES_PER_FILE * RON_TREE_HASH_BYTES, &got);

    if (rc != RON_OK || got != len) {
        return ron_err_set(err, rc != RON_OK ? rc : RON_CORRUPT,
                           "stored hash %" PRIu64 " cannot be read", place);
    }
    return RON_OK;
}

static enum ron_rc store_read(void *ctx, const uint64_t *places, size_t count,
                              struct ron_tree_hash *ret_hashes, struct ron_err *err)
{
    const struct led_hashes *h = ctx;
    uint64_t known = ron_au64_load(&h->count);
    uint64_t file = 0;
    int fd = -1;
    enum ron_rc rc = RON_OK;

    RON_CHECK_MAGIC(h, MAGIC);
    for (size_t i = 0, run; i < count && rc == RON_OK; i += run) {
        run = 1;
        if (places[i] >= known) {
            rc = ron_err_set(err, RON_NOTFOUND, "hash %" PRIu64 " is not stored", places[i]);
            break;
        }
        /* Neighbours are read at once: tiles are. */
        while (i + run < count && places[i + run] == places[i] + run && places[i + run] < known &&
               places[i + run] % LED_HASHES_PER_FILE != 0) {
            run++;
        }
        if (fd < 0 || file != places[i] / LED_HASHES_PER_FILE) {
            if (fd >= 0) {
                h->env->disk->close(h->env, fd);
                fd = -1;
            }
            file = places[i] / LED_HASHES_PER_FILE;
            rc = file_open(h, file, RON_OPEN_READ, &fd, err);
        }
        if (rc == RON_OK) {
            rc = read_run(h, fd, places[i], run, ret_hashes + i, err);
        }
    }
    if (fd >= 0) {
        h->env->disk->close(h->env, fd);
    }
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Full files one after another, then one that is not full. */
static enum ron_rc count_hashes(struct led_hashes *h, struct ron_err *err)
{
    uint64_t count = 0;

    for (uint64_t file = 0; file < LED_HASHES_FILES_MAX; file++) {
        char path[RON_FILE_PATH_SIZE];
        struct ron_file_stat st;
        enum ron_rc rc;

        RON_TRY(file_path(h, file, path, err));
        rc = h->env->disk->stat(h->env, path, &st);
        if (rc == RON_NOTFOUND) {
            break;
        }
        if (rc != RON_OK) {
            return ron_err_set(err, rc, "%s cannot be looked at", path);
        }
        count += RON_MIN(st.size_bytes, FILE_BYTES) / RON_TREE_HASH_BYTES;
        if (st.size_bytes < FILE_BYTES) {
            break;
        }
    }
    ron_au64_store(&h->count, count);
    return RON_OK;
}

enum ron_rc led_hashes_open(const struct ron_env *env, const char *dir, bool read_only,
                            struct led_hashes **ret_hashes, struct ron_err *err)
{
    size_t dir_len = strlen(dir);
    struct ron_file_stat st;
    struct led_hashes *h;
    enum ron_rc rc;

    if (dir_len + 1 + NAME_SIZE > RON_FILE_PATH_SIZE) {
        return ron_err_set(err, RON_LIMIT, "path of the stored hashes is too long");
    }
    if (!read_only) {
        RON_TRY(ron_mkdirs(env, dir, 0700, err));
    } else {
        rc = env->disk->stat(env, dir, &st);
        if (rc != RON_OK) {
            return ron_err_set(err, rc, "%s cannot be looked at", dir);
        }
    }
    h = ron_alloc_zero(sizeof *h);
    if (h == NULL) {
        return ron_err_set(err, RON_NOMEM, "stored hashes");
    }
    h->magic = MAGIC;
    h->env = env;
    h->read_only = read_only;
    h->fd = -1;
    h->store = (struct ron_tree_store){.ctx = h, .append = store_append, .read = store_read};
    memcpy(h->dir, dir, dir_len + 1);
    rc = count_hashes(h, err);
    if (rc != RON_OK) {
        led_hashes_close(h);
        return rc;
    }
    *ret_hashes = h;
    return RON_OK;
}

void led_hashes_close(struct led_hashes *h)
{
    if (h == NULL) {
        return;
    }
    RON_CHECK_MAGIC(h, MAGIC);
    if (h->fd >= 0) {
        h->env->disk->close(h->env, h->fd);
    }
    h->magic = 0;
    ron_free(h);
}

const struct ron_tree_store *led_hashes_store(struct led_hashes *h)
{
    RON_CHECK_MAGIC(h, MAGIC);
    return &h->store;
}

uint64_t led_hashes_count(const struct led_hashes *h)
{
    return ron_au64_load(&h->count);
}

enum ron_rc led_hashes_cut(struct led_hashes *h, uint64_t count, struct ron_err *err)
{
    uint64_t known = ron_au64_load(&h->count);
    uint64_t file = count / LED_HASHES_PER_FILE;
    char path[RON_FILE_PATH_SIZE];

    RON_CHECK_MAGIC(h, MAGIC);
    RON_ASSERT(!h->read_only);
    if (count >= known) {
        return RON_OK;
    }
    if (h->fd >= 0) {
        h->env->disk->close(h->env, h->fd);
        h->fd = -1;
    }
    /* From the back, so that files stay without a gap whenever this ends. */
    for (uint64_t last = (known - 1) / LED_HASHES_PER_FILE; last > file; last--) {
        RON_TRY(file_path(h, last, path, err));
        RON_TRY(h->env->disk->remove(h->env, path, err));
        ron_au64_store(&h->count, last * LED_HASHES_PER_FILE);
    }
    RON_TRY(appender_to(h, file, err));
    RON_TRY(h->env->disk->truncate(h->env, h->fd, count % LED_HASHES_PER_FILE * RON_TREE_HASH_BYTES,
                                   err));
    ron_au64_store(&h->count, count);
    h->synced = RON_MIN(h->synced, count);
    return RON_OK;
}

enum ron_rc led_hashes_sync(struct led_hashes *h, struct ron_err *err)
{
    uint64_t count = ron_au64_load(&h->count);
    uint64_t first = h->synced / LED_HASHES_PER_FILE;

    RON_CHECK_MAGIC(h, MAGIC);
    if (count == h->synced) {
        return RON_OK;
    }
    for (uint64_t file = first; file * LED_HASHES_PER_FILE < count; file++) {
        enum ron_rc rc;
        int fd;

        RON_TRY(file_open(h, file, RON_OPEN_READ | RON_OPEN_WRITE, &fd, err));
        rc = h->env->disk->sync(h->env, fd, true, err);
        h->env->disk->close(h->env, fd);
        RON_TRY(rc);
    }
    RON_TRY(h->env->disk->sync_dir(h->env, h->dir, err));
    h->synced = count;
    return RON_OK;
}
