/* SPDX-License-Identifier: Apache-2.0 */
/* edge/answer/read.c - the queue of reads: requests that need the disk before they are answered.
 *
 * A read is made and submitted on a loop and belongs to the reader that takes it from its queue
 * (serve/reader.c). A full queue is answered 429; nothing waits here. */
#include <string.h>

#include "edge/answer/read.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

void edg_tag_of(const struct ron_b3 *id, char ret_tag[EDG_TAG_LEN + 1])
{
    memcpy(ret_tag, "b3:", 3);
    ron_b3_format_hex(id, ret_tag + 3);
    ret_tag[EDG_TAG_LEN] = '\0';
}

struct edg_read *edg_read_new(enum edg_read_kind kind, const char *path)
{
    size_t len = path != NULL ? strlen(path) : 0;
    struct edg_read *r = ron_alloc_zero(sizeof *r + len + 1);

    RON_ASSERT(kind < EDG_READ_KIND_COUNT);
    if (r != NULL) {
        r->magic = EDG_READ_MAGIC;
        r->kind = kind;
        memcpy(r->path, path != NULL ? path : "", len + 1);
    }
    return r;
}

void edg_read_free(struct edg_read *r)
{
    RON_CHECK_MAGIC(r, EDG_READ_MAGIC);
    r->magic = 0;
    ron_free(r);
}

void edg_read_drop(struct edg_site *s, struct edg_read *take_read, enum edg_error error)
{
    if (take_read->reply != NULL) {
        struct edg_out out = {.site = s, .reply = take_read->reply, .head = take_read->head};

        edg_fail(&out, error);
    }
    if (take_read->content.blob.release != NULL) {
        take_read->content.blob.release(take_read->content.blob.arg);
    }
    edg_stored_unref(take_read->stored);
    edg_pack_unref(take_read->pack);
    edg_read_free(take_read);
}

void edg_read_submit(struct edg_out *out, struct edg_read *take_read)
{
    struct edg_site *s = out->site;
    struct edg_read *r = take_read;
    enum ron_rc rc;

    if (r == NULL) {
        edg_fail(out, EDG_ERROR_BUSY);
        return;
    }
    RON_CHECK_MAGIC(r, EDG_READ_MAGIC);
    RON_ASSERT_MSG(out->call != NULL, "reads are submitted on the loop");
    RON_ASSERT_MSG(r->reply == NULL, "a read is submitted once");
    RON_ASSERT_MSG(RON_IMPLIES(r->deep, s->reads->bucket != NULL), "deep reads need a bucket");
    if (r->kind != EDG_READ_PURGE) {
        edg_count_of(s, EDG_M_MISSES, "cold", 1);
    }
    rc = ron_http_defer(out->call, &r->reply);
    if (rc == RON_OK) {
        r->head = out->head;
        rc = ron_chan_try_send(r->deep ? s->reads->bucket : s->reads->disk, r, NULL);
        if (rc == RON_OK) {
            return;
        }
        ron_http_undefer(out->call, r->reply);
        r->reply = NULL;
    }
    edg_read_drop(s, r, EDG_ERROR_BUSY);
    edg_fail(out, rc == RON_CLOSED ? EDG_ERROR_DRAINING : EDG_ERROR_BUSY);
}

void edg_submit_stored(struct edg_out *out, const struct edg_stored *take_stored,
                       const struct edg_status *status)
{
    struct edg_read *r = edg_read_new(EDG_READ_STORED, NULL);

    RON_ASSERT(take_stored != NULL);
    if (r != NULL) {
        r->stored = take_stored;
        r->status = *status;
    } else {
        edg_stored_unref(take_stored);
    }
    edg_read_submit(out, r);
}
