/* SPDX-License-Identifier: Apache-2.0 */
/* upload.c - an object of any size into the bucket.
 *
 *     size <= part    one PUT
 *     otherwise       create ── part 1 ── part 2 ── ... ── complete
 *                        └──────── any failure ──────────► abort
 *
 * One part is in memory at a time. The server compares each part with its signed hash, and the ETag
 * it gives back is repeated in the list of parts. S3 may answer a completion with 200 and an error
 * document; only one with an ETag counts. */
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "s3_priv.h"

enum {
    LIST_MAX = 4 << 20, /* 10,000 parts of about 150 bytes */
    ABORT_MS = 5000,
};

struct upload {
    struct ron_s3 *s;
    const char *key;
    uint32_t flags;
    struct ron_deadline deadline;
    char id[3 * RON__S3_UPLOAD_ID_MAX + 1]; /* encoded */
    struct ron_buf list;                    /* of parts, as XML */
};

static enum ron_rc create(struct upload *u, struct ron_err *err)
{
    struct ron__s3_call call = {.op = RON_S3_CREATE,
                                .method = RON_HTTP_POST,
                                .key = u->key,
                                .query = "uploads=",
                                .content_type = "application/octet-stream",
                                .response_max = RON__S3_ANSWER_MAX,
                                .deadline = u->deadline};
    char id[RON__S3_UPLOAD_ID_MAX + 1];
    struct ron_http_fetch *f = NULL;
    enum ron_s3_outcome outcome = ron__s3_run(u->s, &call, &f, err);
    struct ron_buf encoded;

    if (outcome == RON_S3_IS_OK) {
        struct ron_str body = ron_http_fetch_result(f)->body;

        ron_buf_init_over(&encoded, u->id, sizeof u->id);
        if (ron_s3_xml_text(body.ptr, body.len, "UploadId", id, sizeof id) != RON_OK ||
            id[0] == '\0' || ron_s3_encode(&encoded, id, strlen(id), false) != RON_OK) {
            outcome = RON_S3_IS_MALFORMED;
            u->id[0] = '\0';
        } else {
            (void)ron_buf_text(&encoded); /* its NUL */
        }
    }
    ron_http_fetch_release(f);
    return ron__s3_end(u->s, &call, outcome, err);
}

/* An ETag that may stand in XML as it is: quotes, and digits of any kind. */
static bool etag_is_plain(struct ron_str e)
{
    for (size_t i = 0; i < e.len; i++) {
        char c = e.ptr[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              c == '-' || c == '"')) {
            return false;
        }
    }
    return e.len > 0 && e.len <= RON_S3_ETAG_MAX;
}

static enum ron_rc put_part(struct upload *u, uint32_t number, const void *bytes, size_t len,
                            struct ron_err *err)
{
    char query[sizeof u->id + 64];
    struct ron__s3_call call = {.op = RON_S3_PART,
                                .method = RON_HTTP_PUT,
                                .key = u->key,
                                .query = query,
                                .content_type = "application/octet-stream",
                                .body = {bytes, len},
                                .response_max = RON__S3_ANSWER_MAX,
                                .deadline = u->deadline};
    struct ron_http_fetch *f = NULL;
    struct ron_str etag = {0};
    enum ron_s3_outcome outcome;

    (void)snprintf(query, sizeof query, "partNumber=%u&uploadId=%s", number, u->id);
    outcome = ron__s3_run(u->s, &call, &f, err);
    if (outcome == RON_S3_IS_OK) {
        if (ron_http_fetch_header_get(f, "ETag", &etag) != RON_OK || !etag_is_plain(etag)) {
            outcome = RON_S3_IS_MALFORMED;
        } else if (ron_buf_append_fmt(&u->list,
                                      "<Part><PartNumber>%u</PartNumber><ETag>%.*s</ETag></Part>",
                                      number, (int)etag.len, etag.ptr) != RON_OK) {
            outcome = RON_S3_IS_MEMORY;
        }
    }
    ron_http_fetch_release(f);
    return ron__s3_end(u->s, &call, outcome, err);
}

static enum ron_rc complete(struct upload *u, struct ron_err *err)
{
    char query[sizeof u->id + 16];
    struct ron__s3_call call = {.op = RON_S3_COMPLETE,
                                .method = RON_HTTP_POST,
                                .key = u->key,
                                .query = query,
                                .content_type = "application/xml",
                                .response_max = RON__S3_ANSWER_MAX,
                                .deadline = u->deadline};
    char etag[RON_S3_ETAG_MAX + 1];
    struct ron_http_fetch *f = NULL;
    enum ron_s3_outcome outcome;

    (void)ron_buf_append_text(&u->list, "</CompleteMultipartUpload>");
    call.body = (struct ron_str){(const char *)ron_buf_data(&u->list), ron_buf_len(&u->list)};
    (void)snprintf(query, sizeof query, "uploadId=%s", u->id);
    if ((u->flags & RON_S3_IF_ABSENT) != 0) {
        call.headers[call.header_count++] = (struct ron_s3_signed){"if-none-match", {"*", 1}};
    }
    outcome =
        ron_buf_error(&u->list) == RON_OK ? ron__s3_run(u->s, &call, &f, err) : RON_S3_IS_MEMORY;
    if (outcome == RON_S3_IS_OK) {
        struct ron_str body = ron_http_fetch_result(f)->body;

        if (ron_s3_xml_text(body.ptr, body.len, "ETag", etag, sizeof etag) != RON_OK) {
            outcome = RON_S3_IS_MALFORMED;
        }
    }
    ron_http_fetch_release(f);
    return ron__s3_end(u->s, &call, outcome, err);
}

/* As far as the server can be reached (B4). */
static void abandon(struct upload *u)
{
    char query[sizeof u->id + 16];
    struct ron__s3_call call = {.op = RON_S3_ABORT,
                                .method = RON_HTTP_DELETE,
                                .key = u->key,
                                .query = query,
                                .response_max = RON__S3_ANSWER_MAX,
                                .deadline =
                                    ron_deadline_after_ms(ron_env_now_ns(u->s->env), ABORT_MS)};
    struct ron_http_fetch *f = NULL;
    struct ron_err err = {0};
    enum ron_s3_outcome outcome;

    (void)snprintf(query, sizeof query, "uploadId=%s", u->id);
    outcome = ron__s3_run(u->s, &call, &f, &err);
    ron_http_fetch_release(f);
    RON_IGNORE(ron__s3_end(u->s, &call, outcome, &err));
}

static enum ron_rc put_parts(struct upload *u, uint64_t size, size_t part, uint8_t *room,
                             ron_s3_read_fn *read, void *arg, struct ron_err *err)
{
    uint32_t number = 1;

    (void)ron_buf_append_text(
        &u->list, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (uint64_t off = 0; off < size; off += part) {
        size_t len = (size_t)RON_MIN((uint64_t)part, size - off);

        RON_TRY(read(arg, off, room, len, err));
        RON_TRY(put_part(u, number++, room, len, err));
    }
    return complete(u, err);
}

static enum ron_rc multipart(struct upload *u, uint64_t size, size_t part, uint8_t *room,
                             ron_s3_read_fn *read, void *arg, struct ron_err *err)
{
    uint64_t there = 0;
    enum ron_rc rc;

    /* Not every server honours the condition at the completion, and this saves the parts. */
    if ((u->flags & RON_S3_IF_ABSENT) != 0 &&
        ron_s3_head(u->s, u->key, u->deadline, &there, err) == RON_OK && there == size) {
        return ron_err_set(err, RON_EXISTS, "s3: the object is there");
    }
    RON_TRY(create(u, err));
    ron_buf_init(&u->list, LIST_MAX);
    rc = put_parts(u, size, part, room, read, arg, err);
    ron_buf_done(&u->list);
    if (rc != RON_OK) {
        abandon(u);
    }
    return rc;
}

enum ron_rc ron_s3_put_object(struct ron_s3 *s, const char *key, uint64_t size,
                              ron_s3_read_fn *read, void *arg, uint32_t flags,
                              struct ron_deadline deadline, struct ron_err *err)
{
    struct upload u = {.s = s, .key = key, .flags = flags, .deadline = deadline};
    uint64_t part =
        RON_MAX((uint64_t)s->part_bytes, (size + RON_S3_PARTS_MAX - 1) / RON_S3_PARTS_MAX);
    uint8_t *room;
    enum ron_rc rc;

    RON_CHECK_MAGIC(s, RON__S3_MAGIC);
    if (part > RON_S3_PART_MAX) {
        return ron_err_set(err, RON_LIMIT, "s3: an object of more than %d parts",
                           (int)RON_S3_PARTS_MAX);
    }
    room = ron_alloc((size_t)RON_MIN(part, size) + 1);
    if (room == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a part of an upload");
    }
    if (size <= part) {
        rc = size > 0 ? read(arg, 0, room, (size_t)size, err) : RON_OK;
        if (rc == RON_OK) {
            rc = ron_s3_put(s, key, room, (size_t)size, flags, deadline, err);
        }
    } else {
        rc = multipart(&u, size, (size_t)part, room, read, arg, err);
    }
    ron_free(room);
    return rc;
}
