/* SPDX-License-Identifier: Apache-2.0 */
/* edge/serve/reader.c - readers: what needs the disk before it can be answered.
 *
 * Place: service. A request whose deadline has passed, or whose client is gone, is not read for. */
#include <stdio.h>
#include <string.h>

#include "edge/fill/tier.h"
#include "edge/rules/accept.h"
#include "edge/serve/serve.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

/* ---- what is answered ------------------------------------------------------------------------ */

static void release_file(void *arg)
{
    edg_file_release(arg);
}

struct edg_content edg_content_of_file(const struct edg_site *site,
                                       const struct edg_file *take_file)
{
    struct edg_content c = {.blob = {.bytes = take_file->bytes,
                                     .fd = take_file->fd,
                                     .length = take_file->size,
                                     .release = release_file,
                                     .arg = (void *)(uintptr_t)take_file},
                            .mtime_s = take_file->mtime_s,
                            .type = take_file->type,
                            .cache_control = site->cache_control,
                            .source = EDG_FROM_FILE};

    memcpy(c.tag, take_file->tag, sizeof c.tag);
    return c;
}

struct edg_content edg_content_of_tile(const struct edg_site *site,
                                       const struct edg_tile *take_tile)
{
    struct edg_content c = {.blob = take_tile->blob,
                            .mtime_s = RON_HTTP_NO_MTIME,
                            .type = take_tile->content_type,
                            .encoding = edg_coding_encoding(take_tile->coding),
                            .cache_control = site->cache_control,
                            .source = EDG_FROM_PACK};

    edg_tag_of(&take_tile->tag, c.tag);
    c.vary_encoding = c.encoding != NULL;
    return c;
}

bool edg_takes_tile(const struct ron_http_head *head, const struct edg_tile *tile)
{
    static const uint32_t identity = 1u << EDG_ACCEPT_IDENTITY;
    const char *encoding = edg_coding_encoding(tile->coding);
    enum edg_accept coding;

    if (encoding == NULL ||
        edg_accept_parse((struct ron_str){encoding, strlen(encoding)}, &coding) != RON_OK) {
        return true;
    }
    return edg_accept_pick(edg_fields_of(head), identity | edg_accept_bit(coding)) == coding;
}

void edg_answer_no_tile(struct edg_out *out, const struct edg_pack *pack)
{
    const struct edg_pack_info *info = edg_pack_info(pack);

    edg_count_of(out->site, EDG_M_MISSES, "absent", 1);
    if (out->site->tile_204 &&
        (info->tile_type == EDG_TILE_MVT || info->tile_type == EDG_TILE_MLT)) {
        edg_add_site(out);
        edg_answer_empty(out, 204);
    } else {
        edg_fail(out, EDG_ERROR_NOT_FOUND);
    }
}

/* ---- the task -------------------------------------------------------------------------------- */

static void read_file(struct edg_serve *s, struct edg_read *r, struct edg_out *out)
{
    const struct edg_file *file = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = edg_files_load(s->files, r->path, ron_env_now_ns(s->site->env) / RON_NS_PER_MS,
                                    &file, &err);

    RON_ASSERT_MSG(rc != RON_OK || file != NULL, "a loaded file is held");
    if (rc == RON_IO || rc == RON_LIMIT) {
        RON_LOG(s->site->log, ERROR, "file read failed", RON_LOG_ERR(&err));
    }
    if (r->reply == NULL) {
        if (rc == RON_OK) {
            edg_file_release(file);
        }
    } else if (rc == RON_OK) {
        struct edg_content c = edg_content_of_file(s->site, file);

        edg_answer(out, &c);
    } else {
        edg_fail(out, edg_error_of(rc));
    }
}

static void release_bytes(void *arg)
{
    ron_free(arg);
}

/* The bytes of a tile in memory: its own, or read into `room`. NULL: they cannot be read. */
static const void *tile_bytes(struct edg_serve *s, const struct edg_tile *tile, void *room)
{
    size_t got = 0;

    if (tile->blob.bytes != NULL) {
        return (const uint8_t *)tile->blob.bytes + tile->blob.offset;
    }
    return s->site->env->disk->pread(s->site->env, tile->blob.fd, room, (size_t)tile->blob.length,
                                     tile->blob.offset, &got) == RON_OK &&
                   got == tile->blob.length
               ? room
               : NULL;
}

/* The tile unpacked, for a client that does not take its coding: another representation, with the
 * tag of its own bytes. RON_LIMIT: it is larger than anything that is unpacked here. */
static enum ron_rc decode_tile(struct edg_serve *s, struct edg_tile *tile, struct ron_err *err)
{
    void *room = tile->blob.bytes == NULL ? ron_alloc((size_t)tile->blob.length + 1) : NULL;
    const void *bytes = tile->blob.bytes != NULL || room != NULL ? tile_bytes(s, tile, room) : NULL;
    enum ron_rc rc = RON_IO;
    uint8_t *plain = NULL;
    struct ron_buf out;

    ron_buf_init(&out, (size_t)ron_conf_bytes(s->site->conf, RON_APP_MAX_DECODED));
    if (bytes != NULL) {
        rc = edg_inflate(tile->coding, bytes, (size_t)tile->blob.length, &out, err);
    }
    if (rc == RON_OK) {
        plain = ron_alloc(ron_buf_len(&out) + 1);
        rc = plain != NULL ? RON_OK : RON_NOMEM;
    }
    tile->blob.release(tile->blob.arg);
    if (rc == RON_OK) {
        memcpy(plain, ron_buf_data(&out), ron_buf_len(&out));
        tile->blob = (struct ron_http_blob){
            .bytes = plain, .length = ron_buf_len(&out), .release = release_bytes, .arg = plain};
        tile->coding = EDG_CODING_NONE;
        ron_b3_hash(plain, ron_buf_len(&out), &tile->tag);
    }
    ron_buf_done(&out);
    ron_free(room);
    return rc;
}

static void read_tile(struct edg_serve *s, struct edg_read *r, struct edg_out *out)
{
    struct edg_tile tile;
    struct ron_err err = {0};
    enum ron_rc rc = edg_pack_tile_wait(r->pack, r->z, r->x, r->y, &tile, &err);
    bool packed = rc == RON_OK && edg_coding_encoding(tile.coding) != NULL;
    bool decode = packed && !edg_takes_tile(r->head, &tile);

    if (decode) {
        rc = decode_tile(s, &tile, &err);
    }
    if (rc == RON_OK) {
        struct edg_content c = edg_content_of_tile(s->site, &tile);

        c.vary_encoding = packed;
        edg_answer(out, &c);
    } else if (decode && rc == RON_LIMIT) {
        edg_fail(out, EDG_ERROR_DECOMPRESS_CAP);
    } else if (rc == RON_NOTFOUND) {
        edg_answer_no_tile(out, r->pack);
    } else {
        RON_LOG(s->site->log, ERROR, "tile read failed",
                RON_LOG_STR("pack", edg_pack_name(r->pack)), RON_LOG_ERR(&err));
        edg_fail(out, edg_error_of(rc));
    }
}

static void read_object(struct edg_serve *s, struct edg_read *r, struct edg_out *out)
{
    struct ron_cas_obj *obj = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = r->deep ? edg_s3_bring(s->site, s->store, &r->id) : RON_OK;

    if (rc == RON_OK) {
        rc = ron_cas_open(s->store->cas, &r->id, &obj, &err);
    }
    if (rc == RON_OK) {
        edg_answer_object(out, obj, NULL);
    } else {
        edg_fail(out, edg_error_of(rc));
    }
}

/* The bytes may be gone or damaged: then they are filled again. */
static void read_stored(struct edg_serve *s, struct edg_read *r, struct edg_out *out)
{
    const struct edg_stored *stored = r->stored;

    if (r->deep) {
        (void)edg_s3_bring(s->site, s->store, &stored->id); /* it failed: the origin has them */
    }
    r->stored = NULL;
    if (!edg_serve_stored(s->fills, out, edg_stored_ref(stored), &r->status)) {
        edg_refill(s->fills, out, stored);
    } else {
        edg_stored_unref(stored);
    }
}

/* Hands a read that the local store cannot serve to a reader of the bucket; takes it. */
static void pass_deep(struct edg_serve *s, struct edg_read *take_read)
{
    enum ron_rc rc;

    RON_ASSERT_MSG(!take_read->deep, "a read goes to the bucket once");
    RON_ASSERT_MSG(s->site->reads->bucket != NULL, "deep reads need a bucket");
    take_read->deep = true;
    rc = ron_chan_try_send(s->site->reads->bucket, take_read, NULL);
    if (rc != RON_OK) {
        edg_read_drop(s->site, take_read, rc == RON_CLOSED ? EDG_ERROR_DRAINING : EDG_ERROR_BUSY);
    }
}

/* Whether a read is one for the bucket: the local store has not got its object. */
static bool is_deep(struct edg_serve *s, const struct edg_read *r)
{
    const struct ron_b3 *id = r->kind == EDG_READ_OBJECT   ? &r->id
                              : r->kind == EDG_READ_STORED ? &r->stored->id
                                                           : NULL;
    struct ron_cas_obj *obj = NULL;
    struct ron_err err = {0};
    enum ron_rc rc;

    if (s->store->tier == NULL || r->deep || id == NULL) {
        return false;
    }
    rc = ron_cas_open(s->store->cas, id, &obj, &err); /* open now: the answer finds it in memory */
    ron_cas_release(obj);
    return rc == RON_NOTFOUND || rc == RON_CORRUPT;
}

static void take(struct edg_serve *s, struct edg_read *r)
{
    struct edg_out out = {.site = s->site, .reply = r->reply, .head = r->head};

    RON_ASSERT_MSG((r->reply == NULL) == (r->kind == EDG_READ_FILE_CHECK),
                   "only a check has no reply");
    RON_ASSERT_MSG(RON_IMPLIES(r->kind == EDG_READ_TILE, r->pack != NULL), "a tile holds its pack");
    RON_ASSERT_MSG(RON_IMPLIES(r->kind == EDG_READ_STORED, r->stored != NULL),
                   "a stored answer is held until it is served");
    RON_ASSERT(r->kind < EDG_READ_KIND_COUNT);
    if (r->reply != NULL && ron_http_reply_cancelled(r->reply)) {
        edg_read_drop(s->site, r, EDG_ERROR_TIMEOUT);
        return;
    }
    if (is_deep(s, r)) {
        pass_deep(s, r);
        return;
    }
    switch (r->kind) {
    case EDG_READ_TILE:
        read_tile(s, r, &out);
        break;
    case EDG_READ_PARTS:
        edg_answer(&out, &r->content);
        break;
    case EDG_READ_OBJECT:
        read_object(s, r, &out);
        break;
    case EDG_READ_PURGE:
        edg_purge(s, r, &out);
        break;
    case EDG_READ_STORED:
        read_stored(s, r, &out);
        break;
    case EDG_READ_FILE:
    case EDG_READ_FILE_CHECK:
        read_file(s, r, &out);
        break;
    case EDG_READ_KIND_COUNT:
        RON_UNREACHABLE();
    }
    edg_stored_unref(r->stored);
    edg_pack_unref(r->pack);
    edg_read_free(r);
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    for (size_t i = 0; i < count; i++) {
        take(RON_OBJ(arg, struct edg_serve, EDG_SERVE_MAGIC),
             RON_OBJ(items[i], struct edg_read, EDG_READ_MAGIC));
    }
    return RON_OK;
}

static void drop_read(void *item, void *arg)
{
    edg_read_drop(RON_OBJ(arg, struct edg_site, EDG_SITE_MAGIC),
                  RON_OBJ(item, struct edg_read, EDG_READ_MAGIC), EDG_ERROR_DRAINING);
}

static enum ron_rc make_queue(struct edg_serve *s, const char *name, const char *producers,
                              const char *consumers, struct ron_chan **ret_queue,
                              struct ron_err *err)
{
    const struct edg_site *site = s->site;

    return ron_chan_new(
        &(struct ron_chan_opts){.registry = ron_app_registry(site->app),
                                .env = site->env,
                                .name = name,
                                .producers = producers,
                                .consumers = consumers,
                                .drop_text = "answered 429 rate_limit; busy_rejections_total",
                                .capacity = (uint32_t)ron_conf_int(site->conf, EDG_Q_READS),
                                .policy = RON_CHAN_REJECT,
                                .wake_batch = 1,
                                .drop = drop_read,
                                .drop_arg = s->site},
        ret_queue, err);
}

enum ron_rc edg_reads_open(struct edg_serve *s, struct ron_err *err)
{
    return make_queue(s, "reads", "http", "readers", &s->site->reads->disk, err);
}

void edg_reads_free(struct edg_reads *reads)
{
    if (reads->disk != NULL) {
        ron_chan_free(reads->disk);
    }
    if (reads->bucket != NULL) {
        ron_chan_free(reads->bucket);
    }
}

enum ron_rc edg_readers_add(struct edg_serve *s, struct ron_err *err)
{
    uint32_t count = (uint32_t)ron_conf_int(s->site->conf, EDG_READERS_N);

    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(s->reader_names[i], sizeof s->reader_names[i], "reader-%u", i);
        RON_TRY(ron_sup_add(ron_app_sup(s->site->app),
                            &(struct ron_task_def){.name = s->reader_names[i],
                                                   .kind = "reader",
                                                   .mode = RON_TASK_BLOCKING,
                                                   .stage = 1,
                                                   .input = s->site->reads->disk,
                                                   .batch_max = 1,
                                                   .handle = handle,
                                                   .arg = s},
                            NULL, err));
    }
    return RON_OK;
}

/* ---- readers of the bucket ------------------------------------------------------------------- */

enum ron_rc edg_s3_readers_add(struct edg_serve *s, struct ron_err *err)
{
    uint32_t count;

    if (s->store->tier == NULL) {
        return RON_OK;
    }
    count = ron_tier_fetches(s->store->tier);
    RON_TRY(make_queue(s, "s3_reads", "http, readers", "s3-readers", &s->site->reads->bucket, err));
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(s->s3_reader_names[i], sizeof s->s3_reader_names[i], "s3-reader-%u", i);
        RON_TRY(ron_sup_add(ron_app_sup(s->site->app),
                            &(struct ron_task_def){.name = s->s3_reader_names[i],
                                                   .kind = "reader",
                                                   .mode = RON_TASK_BLOCKING,
                                                   .stage = 1,
                                                   .input = s->site->reads->bucket,
                                                   .batch_max = 1,
                                                   .handle = handle,
                                                   .arg = s},
                            NULL, err));
    }
    return RON_OK;
}
