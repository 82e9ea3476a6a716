/* SPDX-License-Identifier: Apache-2.0 */
/* edge/answer/parts.c - several ranges of one representation: multipart/byteranges, written by a
 * reader.
 *
 * A part may be in a file, so a reader reads it, 64 KiB at a time; the plan (rules/multipart.h)
 * gives the length in advance. Off unless http.multipart_ranges is set: most clients request one
 * range, and each part costs a read. */
#include <string.h>

#include "edge/answer/read.h"
#include "edge/rules/multipart.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/http/stream.h"

bool edg_parts_asked(const struct edg_out *out)
{
    struct ron_str range;

    return out->site->multipart && out->head->method == RON_HTTP_GET &&
           ron_http_field_get(out->head, "Range", &range) == RON_OK &&
           memchr(range.ptr, ',', range.len) != NULL;
}

void edg_parts_submit(struct edg_out *out, const struct edg_content *take_content)
{
    struct edg_read *r = edg_read_new(EDG_READ_PARTS, NULL);

    RON_ASSERT_MSG(out->call != NULL, "a loop hands parts to a reader");
    if (r != NULL) {
        r->content = *take_content;
        if (take_content->extra != NULL) {
            r->extra = *take_content->extra;
            r->stored = edg_stored_ref(r->extra.stored);
            r->content.extra = &r->extra;
        }
    } else if (take_content->blob.release != NULL) {
        take_content->blob.release(take_content->blob.arg);
    }
    edg_read_submit(out, r);
}

/* What the parts say their type is. */
static struct ron_str type_of(const struct edg_content *c)
{
    struct ron_str type = {c->type, c->type != NULL ? strlen(c->type) : 0};

    if (c->type == NULL && c->extra != NULL) {
        (void)edg_fields_get(c->extra->stored->fields, "Content-Type", &type);
    }
    return type.len <= EDG_CONTENT_TYPE_MAX ? type : (struct ron_str){0};
}

/* One range, from memory or the file. */
static enum ron_rc write_range(struct edg_out *out, const struct ron_http_blob *blob,
                               const struct ron_http_range *range, uint8_t *room,
                               struct ron_deadline deadline)
{
    const struct ron_env *env = out->site->env;
    uint64_t at = range->first;
    enum ron_rc rc = RON_OK;

    RON_ASSERT(range->first <= range->last);
    RON_ASSERT_MSG(range->last < blob->length, "a range lies inside the whole");
    while (rc == RON_OK && at <= range->last) {
        size_t len = (size_t)RON_MIN(range->last - at + 1, (uint64_t)RON_HTTP_PIECE_BYTES);
        const uint8_t *bytes = room;
        size_t got = len;

        if (blob->bytes != NULL) {
            bytes = (const uint8_t *)blob->bytes + blob->offset + at;
        } else {
            rc = env->disk->pread(env, blob->fd, room, len, blob->offset + at, &got);
        }
        if (rc == RON_OK) {
            rc = got == len ? ron_http_reply_write_wait(out->reply, bytes, len, deadline) : RON_IO;
        }
        at += len;
    }
    return rc;
}

static void write_plan(struct edg_out *out, const struct edg_content *c,
                       const struct edg_multipart *plan, uint8_t *room)
{
    struct ron_deadline deadline = ron_http_reply_deadline(out->reply);
    enum ron_rc rc;

    RON_IGNORE(ron_http_reply_add_header(
        out->reply, "Content-Type",
        (struct ron_str){plan->content_type, strlen(plan->content_type)}));
    if (ron_http_reply_begin(out->reply, &(struct ron_http_stream_opts){
                                             .status = 206, .length = plan->length}) != RON_OK) {
        edg_fail(out, EDG_ERROR_BUSY);
        return;
    }
    rc = RON_OK;
    for (size_t i = 0; rc == RON_OK && i < plan->piece_count; i++) {
        const struct edg_piece *p = &plan->pieces[i];

        rc = p->text != NULL
                 ? ron_http_reply_write_wait(out->reply, p->text, (size_t)p->length, deadline)
                 : write_range(out, &c->blob, &p->range, room, deadline);
    }
    if (rc == RON_OK) {
        ron_http_reply_end(out->reply);
    } else {
        ron_http_reply_abort(out->reply);
    }
}

void edg_parts_answer(struct edg_out *out, const struct edg_content *take_content,
                      const struct ron_http_selection *selection)
{
    const struct edg_content *c = take_content;
    struct edg_multipart *plan = ron_alloc(sizeof *plan);
    uint8_t *room = ron_alloc(RON_HTTP_PIECE_BYTES);
    uint64_t random[EDG_BOUNDARY_BYTES / sizeof(uint64_t)];

    RON_ASSERT_MSG(out->reply != NULL, "parts are written by a reader");
    RON_ASSERT(selection->range_count > 1);
    for (size_t i = 0; i < RON_ARRAY_LEN(random); i++) {
        random[i] = out->site->env->rand_u64(out->site->env);
    }
    if (plan == NULL || room == NULL ||
        edg_multipart_plan(selection->ranges, selection->range_count, c->blob.length, type_of(c),
                           (const uint8_t *)random, plan) != RON_OK) {
        edg_fail(out, EDG_ERROR_BUSY);
    } else {
        write_plan(out, c, plan, room);
    }
    if (c->blob.release != NULL) {
        c->blob.release(c->blob.arg);
    }
    ron_free(room);
    ron_free(plan);
}
