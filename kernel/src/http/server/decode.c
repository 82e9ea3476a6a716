/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/decode.c - whole request bodies out of their content coding.
 *
 * Place: http, between request.c, which has read the body, and kernel/src/http/syntax/inflate.c.
 * One decoder per coding and worker: a whole body is decoded in one go, inside the turn of its
 * connection. The caps of inflate.h hold; besides, a decoded body is held to body_max like any
 * other and counted with the memory of all bodies. */
#include "http/server/priv.h"
#include "http/syntax/inflater.h"

enum { DECODE_PIECE = 16384 };

enum ron_http_reason ron__http_inflate_reason(enum ron_rc rc)
{
    return rc == RON_LIMIT ? RON_HTTP_DECOMPRESS_CAP : RON_HTTP_CONTENT_DAMAGED;
}

/* Decodes `raw` to the end of `out`, which may hold body_max bytes. */
static enum ron_http_reason decode_into(struct http_conn *c, struct ron_inflate *z,
                                        struct ron_str raw, struct ron_buf *out)
{
    size_t got = 0;
    size_t size = 0;
    size_t used = 0;
    uint8_t probe = 0;

    do {
        size_t left = (size_t)c->body_max - ron_buf_len(out);
        uint8_t *room = &probe;
        enum ron_rc rc;

        size = left == 0 ? 1 : RON_MIN(left, (size_t)DECODE_PIECE);
        if (left > 0 && ron_buf_reserve(out, size, &room) != RON_OK) {
            return RON_HTTP_MEMORY;
        }
        rc = ron_inflate_feed(z, raw.ptr, raw.len, &used, room, size, &got);
        if (rc != RON_OK) {
            return ron__http_inflate_reason(rc);
        }
        if (left == 0 && got > 0) {
            return RON_HTTP_BODY_LARGE;
        }
        ron_buf_commit(out, left == 0 ? 0 : got);
        raw = (struct ron_str){raw.ptr + used, raw.len - used};
    } while (raw.len > 0 || got == size);
    return ron_inflate_end(z) == RON_OK ? RON_HTTP_NONE : RON_HTTP_CONTENT_DAMAGED;
}

enum ron_http_reason ron__http_decode(struct http_conn *c, struct ron_str raw)
{
    struct http_worker *w = c->w;
    struct ron_inflate **z = &w->inflate[c->coding];
    struct ron_buf out;
    enum ron_http_reason reason;

    if (*z == NULL && ron_inflate_new(c->coding, &w->server->inflate_opts, z, NULL) != RON_OK) {
        return RON_HTTP_MEMORY;
    }
    ron_inflate_reset(*z);
    ron_buf_init(&out, c->body_max == 0 ? 1 : (size_t)c->body_max);
    reason = decode_into(c, *z, raw, &out);
    ron__http_spill_release(w, &c->spill, &c->charged);
    if (reason != RON_HTTP_NONE) {
        ron_buf_done(&out);
        return reason;
    }
    c->spill = out;
    c->spilled = true;
    return ron__http_spill_charge(c);
}
