/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/hashes.c - stored hashes of the tree in files of equal size. */
#include "ledger/index/hashes.h"

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

/* ---- reading: places that share a page are one span; all spans are asked for at once --------- */

enum {
    PAGE_HASHES = 4096 / RON_TREE_HASH_BYTES,
    SPAN_MAX = PAGE_HASHES + RON_TREE_READ_MAX, /* a part of a page, and neighbours behind it */
};

/* Places in a row, in one file: neighbours that were asked for (a tile), or a part of a page. */
struct span {
    uint64_t first;
    uint64_t count;
    int fd;
};

struct spans {
    size_t count;
    struct span all[RON_TREE_READ_MAX];
    uint16_t of[RON_TREE_READ_MAX]; /* the span of each place that is asked for */
};

static uint64_t file_of(const struct span *s)
{
    return s->first / LED_HASHES_PER_FILE;
}

static bool span_takes(struct span *s, uint64_t place)
{
    uint64_t last = s->first + s->count - 1;
    uint64_t page = place / PAGE_HASHES;

    if (place == last + 1 && place % LED_HASHES_PER_FILE != 0) {
        s->count++;
        return true;
    }
    if (page != s->first / PAGE_HASHES || page != last / PAGE_HASHES) {
        return false;
    }
    s->first = RON_MIN(s->first, place);
    s->count = RON_MAX(last, place) - s->first + 1;
    return true;
}

static enum ron_rc plan_spans(const uint64_t *places, size_t count, uint64_t known,
                              struct spans *ret_spans, struct ron_err *err)
{
    ret_spans->count = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = ret_spans->count;

        if (places[i] >= known) {
            return ron_err_set(err, RON_NOTFOUND, "hash %" PRIu64 " is not stored", places[i]);
        }
        /* From the back: a neighbour is most likely that of the place before. */
        while (at > 0 && !span_takes(&ret_spans->all[at - 1], places[i])) {
            at--;
        }
        if (at == 0) {
            ret_spans->all[ret_spans->count++] = (struct span){places[i], 1, -1};
            at = ret_spans->count;
        }
        ret_spans->of[i] = (uint16_t)(at - 1);
    }
    return RON_OK;
}

/* Gives each span its file, which is open once, and says what will be read of it. */
static enum ron_rc open_spans(const struct led_hashes *h, struct spans *s, struct ron_err *err)
{
    for (size_t i = 0; i < s->count; i++) {
        struct span *span = &s->all[i];

        for (size_t k = 0; k < i && span->fd < 0; k++) {
            span->fd = file_of(&s->all[k]) == file_of(span) ? s->all[k].fd : -1;
        }
        if (span->fd < 0) {
            RON_TRY(file_open(h, file_of(span), RON_OPEN_READ, &span->fd, err));
        }
        if (s->count > 1) {
            h->env->disk->will_read(h->env, span->fd,
                                    span->first % LED_HASHES_PER_FILE * RON_TREE_HASH_BYTES,
                                    span->count * RON_TREE_HASH_BYTES);
        }
    }
    return RON_OK;
}

static void close_spans(const struct led_hashes *h, const struct spans *s)
{
    for (size_t i = 0; i < s->count; i++) {
        bool mine = s->all[i].fd >= 0;

        for (size_t k = 0; k < i && mine; k++) {
            mine = s->all[k].fd != s->all[i].fd;
        }
        if (mine) {
            h->env->disk->close(h->env, s->all[i].fd);
        }
    }
}

static enum ron_rc read_span(const struct led_hashes *h, const struct span *s,
                             struct ron_tree_hash *ret_hashes, struct ron_err *err)
{
    size_t len = (size_t)s->count * RON_TREE_HASH_BYTES;
    size_t got = 0;
    enum ron_rc rc = h->env->disk->pread(
        h->env, s->fd, ret_hashes, len, s->first % LED_HASHES_PER_FILE * RON_TREE_HASH_BYTES, &got);

    if (rc != RON_OK || got != len) {
        return ron_err_set(err, rc != RON_OK ? rc : RON_CORRUPT,
                           "stored hash %" PRIu64 " cannot be read", s->first);
    }
    return RON_OK;
}

static enum ron_rc store_read(void *ctx, const uint64_t *places, size_t count,
                              struct ron_tree_hash *ret_hashes, struct ron_err *err)
{
    const struct led_hashes *h = ctx;
    struct spans spans;
    struct ron_tree_hash found[SPAN_MAX];
    enum ron_rc rc;

    RON_CHECK_MAGIC(h, MAGIC);
    RON_ASSERT(count <= RON_TREE_READ_MAX);
    RON_TRY(plan_spans(places, count, ron_au64_load(&h->count), &spans, err));
    rc = open_spans(h, &spans, err);
    for (size_t s = 0; s < spans.count && rc == RON_OK; s++) {
        rc = read_span(h, &spans.all[s], found, err);
        for (size_t i = 0; i < count && rc == RON_OK; i++) {
            if (spans.of[i] == s) {
                ret_hashes[i] = found[places[i] - spans.all[s].first];
            }
        }
    }
    close_spans(h, &spans);
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
