/* SPDX-License-Identifier: Apache-2.0 */
/* edge/stored/index.c - the table of stored answers as bytes, and as a file between two lives.
 *
 * Whole numbers are little-endian; a text is its length and its bytes. The last 32 bytes are the
 * BLAKE3 hash of all before them, and are looked at first: what follows a good hash was written
 * here. Lengths are checked all the same. */
#include "edge/stored/index.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/io/file.h"

#define MAGIC "RONEDGX1"

enum { MAGIC_LEN = 8, HASH_LEN = 32, FILE_MODE = 0600, ORIGINS_MAX = 255 };
enum { LIFE_NO_CACHE = 1, LIFE_HEURISTIC = 2, LIFE_VALIDATOR = 4 };

/* ---- writing --------------------------------------------------------------------------------- */

static void put(struct ron_buf *out, uint64_t n, size_t bytes)
{
    uint8_t le[8];

    RON_ASSERT(bytes <= sizeof le);
    RON_ASSERT_MSG(bytes == sizeof le || n >> (8 * bytes) == 0, "a number fits its place");
    for (size_t i = 0; i < bytes; i++) {
        le[i] = (uint8_t)(n >> (8 * i));
    }
    (void)ron_buf_append(out, le, bytes); /* The first failure sticks. */
}

static void put_text(struct ron_buf *out, struct ron_str text)
{
    put(out, text.len, 4);
    (void)ron_buf_append(out, text.ptr, text.len);
}

static void put_life(struct ron_buf *out, const struct edg_life *life)
{
    put(out, life->response_ms, 8);
    put(out, life->initial_age_s, 8);
    put(out, life->lifetime_s, 8);
    put(out, life->stale_while_revalidate_s, 8);
    put(out, life->stale_if_error_s, 8);
    put(out, life->max_stale_s, 8);
    put(out,
        (life->no_cache ? (uint64_t)LIFE_NO_CACHE : 0) |
            (life->heuristic ? (uint64_t)LIFE_HEURISTIC : 0) |
            (life->validator ? (uint64_t)LIFE_VALIDATOR : 0),
        1);
}

enum { WRITING_MAGIC = 0x65496478 }; /* "eIdx" */

struct writing {
    uint32_t magic;
    const struct edg_index_opts *opts;
    struct ron_buf *out;
    size_t records;
};

static void put_record(void *arg, const struct edg_stored *r)
{
    struct writing *w = RON_OBJ(arg, struct writing, WRITING_MAGIC);
    size_t place = 0;

    while (place < w->opts->origin_count && w->opts->origins[place].place != r->origin) {
        place++;
    }
    if (place == w->opts->origin_count) {
        return;
    }
    RON_ASSERT_MSG(r->fields.count <= EDG_STORED_FIELDS_MAX, "a record has bounded fields");
    put(w->out, place + 1, 1); /* 0 is the end */
    put(w->out, (uint64_t)r->status, 2);
    put_life(w->out, &r->life);
    (void)ron_buf_append(w->out, r->id.bytes, sizeof r->id.bytes);
    put(w->out, r->size, 8);
    put_text(w->out, r->target);
    put_text(w->out, r->vary);
    put_text(w->out, r->key);
    put(w->out, r->fields.count, 2);
    for (size_t i = 0; i < r->fields.count; i++) {
        put_text(w->out, r->fields.at[i].name);
        put_text(w->out, r->fields.at[i].value);
    }
    w->records++;
}

static void put_begin(const struct edg_index_opts *opts, struct ron_buf *out)
{
    (void)ron_buf_append(out, MAGIC, MAGIC_LEN);
    put(out, opts->origin_count, 1);
    for (size_t i = 0; i < opts->origin_count; i++) {
        put_text(out, ron_str_of(opts->origins[i].name));
        put_text(out, ron_str_of(opts->origins[i].url));
    }
}

static enum ron_rc put_end(struct ron_buf *out)
{
    struct ron_b3 hash;

    put(out, 0, 1);
    ron_b3_hash(ron_buf_data(out), ron_buf_len(out), &hash);
    return ron_buf_append(out, hash.bytes, sizeof hash.bytes);
}

enum ron_rc edg_index_write(const struct edg_index_opts *opts, struct ron_buf *out,
                            size_t *ret_records)
{
    struct writing w = {.magic = WRITING_MAGIC, .opts = opts, .out = out};

    put_begin(opts, out);
    edg_table_each(opts->table, put_record, &w);
    *ret_records = w.records;
    return put_end(out);
}

enum ron_rc edg_index_pack(const struct edg_index_opts *opts, const struct edg_stored *record,
                           struct ron_buf *out)
{
    struct writing w = {.magic = WRITING_MAGIC, .opts = opts, .out = out};

    put_begin(opts, out);
    put_record(&w, record);
    return w.records == 1 ? put_end(out) : RON_INVALID;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reading {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static const uint8_t *take(struct reading *r, size_t len)
{
    const uint8_t *at = r->at;

    if (r->bad || len > r->left) {
        r->bad = true;
        return NULL;
    }
    r->at += len;
    r->left -= len;
    return at;
}

static uint64_t number(struct reading *r, size_t bytes)
{
    const uint8_t *at = take(r, bytes);
    uint64_t n = 0;

    for (size_t i = 0; at != NULL && i < bytes; i++) {
        n |= (uint64_t)at[i] << (8 * i);
    }
    return n;
}

static struct ron_str text(struct reading *r)
{
    size_t len = (size_t)number(r, 4);
    const uint8_t *at = take(r, len);

    return at != NULL ? (struct ron_str){(const char *)at, len} : (struct ron_str){"", 0};
}

static void read_life(struct reading *r, struct edg_life *ret)
{
    uint64_t flags;

    ret->response_ms = number(r, 8);
    ret->initial_age_s = number(r, 8);
    ret->lifetime_s = number(r, 8);
    ret->stale_while_revalidate_s = number(r, 8);
    ret->stale_if_error_s = number(r, 8);
    ret->max_stale_s = number(r, 8);
    flags = number(r, 1);
    ret->no_cache = (flags & LIFE_NO_CACHE) != 0;
    ret->heuristic = (flags & LIFE_HEURISTIC) != 0;
    ret->validator = (flags & LIFE_VALIDATOR) != 0;
}

/* Which of today's origins each of the file's is. */
static size_t read_origins(struct reading *r, const struct edg_index_opts *opts, int *ret_now)
{
    size_t count = (size_t)number(r, 1);

    for (size_t i = 0; i < count; i++) {
        struct ron_str name = text(r);
        struct ron_str url = text(r);

        ret_now[i] = -1;
        for (size_t j = 0; j < opts->origin_count; j++) {
            if (ron_str_is(name, opts->origins[j].name) && ron_str_is(url, opts->origins[j].url)) {
                ret_now[i] = (int)j;
            }
        }
    }
    return count;
}

/* One record; false when it is not good. */
static bool read_record(struct reading *r, struct edg_stored *ret,
                        struct ron_http_field fields[EDG_STORED_FIELDS_MAX])
{
    const uint8_t *id;
    size_t count;

    ret->status = (int)number(r, 2);
    read_life(r, &ret->life);
    id = take(r, sizeof ret->id.bytes);
    if (id != NULL) {
        memcpy(ret->id.bytes, id, sizeof ret->id.bytes);
    }
    ret->size = number(r, 8);
    ret->target = text(r);
    ret->vary = text(r);
    ret->key = text(r);
    count = (size_t)number(r, 2);
    if (count > EDG_STORED_FIELDS_MAX) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        fields[i].name = text(r);
        fields[i].value = text(r);
    }
    ret->fields = (struct edg_fields){fields, count};
    return !r->bad;
}

/* Looks at hash and magic number. */
static enum ron_rc read_begin(const void *bytes, size_t len, struct reading *ret,
                              struct ron_err *err)
{
    struct reading r = {.at = bytes, .left = len - RON_MIN(len, (size_t)HASH_LEN)};
    struct ron_b3 hash;

    ron_b3_hash(bytes, r.left, &hash);
    if (len < MAGIC_LEN + HASH_LEN ||
        memcmp((const uint8_t *)bytes + r.left, hash.bytes, HASH_LEN) != 0 ||
        memcmp(bytes, MAGIC, MAGIC_LEN) != 0) {
        return ron_err_set(err, RON_CORRUPT, "index truncated or corrupt");
    }
    (void)take(&r, MAGIC_LEN);
    *ret = r;
    return RON_OK;
}

enum ron_rc edg_index_unpack(const struct edg_index_opts *opts, const void *bytes, size_t len,
                             struct edg_stored *ret_record, struct ron_http_field *fields,
                             struct ron_err *err)
{
    struct edg_stored record = {0};
    struct reading r = {0};
    int now[ORIGINS_MAX];

    RON_TRY(read_begin(bytes, len, &r, err));
    if (read_origins(&r, opts, now) != 1 || now[0] < 0 || number(&r, 1) != 1 ||
        !read_record(&r, &record, fields) || number(&r, 1) != 0 || r.bad || r.left > 0) {
        return ron_err_set(err, RON_CORRUPT, "expected one record of this origin");
    }
    record.origin = opts->origins[now[0]].place;
    *ret_record = record;
    return RON_OK;
}

enum ron_rc edg_index_read(const struct edg_index_opts *opts, const void *bytes, size_t len,
                           size_t *ret_records, struct ron_err *err)
{
    struct ron_http_field fields[EDG_STORED_FIELDS_MAX];
    struct reading r = {0};
    int now[ORIGINS_MAX];
    size_t origins;
    uint64_t place;

    *ret_records = 0;
    RON_TRY(read_begin(bytes, len, &r, err));
    origins = read_origins(&r, opts, now);
    while ((place = number(&r, 1)) != 0 && place <= origins) {
        struct edg_stored like = {0};
        const struct edg_stored *made = NULL;

        if (!read_record(&r, &like, fields)) {
            break;
        }
        if (now[place - 1] < 0) {
            continue;
        }
        like.origin = opts->origins[now[place - 1]].place;
        RON_TRY(edg_stored_new(&like, &made, err));
        if (edg_table_put(opts->table, made) == RON_OK) {
            ++*ret_records;
        }
    }
    return r.bad || r.left > 0 ? ron_err_set(err, RON_CORRUPT, "index corrupt") : RON_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static enum ron_rc path_of(const struct edg_index_opts *opts, char ret[RON_FILE_PATH_SIZE],
                           struct ron_err *err)
{
    int len = snprintf(ret, RON_FILE_PATH_SIZE, "%s/stored.idx", opts->dir);

    return len > 0 && len < RON_FILE_PATH_SIZE ? RON_OK
                                               : ron_err_set(err, RON_LIMIT, "index path too long");
}

enum ron_rc edg_index_save(const struct edg_index_opts *opts, size_t *ret_records,
                           struct ron_err *err)
{
    char path[RON_FILE_PATH_SIZE];
    struct ron_buf bytes;
    enum ron_rc rc;

    RON_TRY(path_of(opts, path, err));
    ron_buf_init(&bytes, EDG_INDEX_BYTES_MAX);
    rc = edg_index_write(opts, &bytes, ret_records);
    if (rc != RON_OK) {
        (void)ron_err_set(err, rc, "no memory for the index");
    } else {
        rc = ron_file_replace(opts->env, path, ron_buf_data(&bytes), ron_buf_len(&bytes), FILE_MODE,
                              err);
    }
    ron_buf_done(&bytes);
    return rc;
}

enum ron_rc edg_index_load(const struct edg_index_opts *opts, size_t *ret_records,
                           struct ron_err *err)
{
    char path[RON_FILE_PATH_SIZE];
    struct ron_file_stat st;
    struct ron_buf bytes;
    enum ron_rc rc;

    *ret_records = 0;
    RON_TRY(path_of(opts, path, err));
    if (opts->env->disk->stat_link(opts->env, path, &st) == RON_NOTFOUND) {
        return RON_OK;
    }
    ron_buf_init(&bytes, EDG_INDEX_BYTES_MAX);
    rc = ron_file_read_all(opts->env, path, &bytes, err);
    if (opts->env->disk->remove(opts->env, path, err) != RON_OK ||
        opts->env->disk->sync_dir(opts->env, opts->dir, err) != RON_OK) {
        rc = rc != RON_OK ? rc : RON_IO; /* N1 */
    }
    if (rc == RON_OK) {
        rc = edg_index_read(opts, ron_buf_data(&bytes), ron_buf_len(&bytes), ret_records, err);
    }
    ron_buf_done(&bytes);
    return rc;
}
