/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/upload.c - request bodies that pass in pieces: the worker's side and the
 * reader's.
 *
 * Place: http, beside request.c, which calls the handler when the head is there. The worker fills
 * `filling` from the connection (through the chunked and the content coding) and swaps it with
 * `ready` when the reader has given that back. When both are full the socket is not read.
 *
 * Invariants (P1-P3 are in pipe.h):
 *   U1 `ready` is the worker's while it is EMPTY, nobody's while it is READY, the reader's while it
 *      is HELD.
 *   U2 `worker_waits` is true whenever the worker has something for the reader and no place for it:
 *      then giving back tells the worker.
 *   U3 `in_end` is RON_AGAIN until the last piece is in `ready`; it changes once. */
#include <string.h>

#include "http/server/priv.h"
#include "http/syntax/inflater.h"
#include "http/syntax/syntax.h"
#include "ron/base/assert.h"

/* ---- the worker: pieces to the reader -------------------------------------------------------- */

enum ron_rc ron__http_upload_prepare(struct ron_http_reply *r, struct http_conn *c)
{
    struct ron_http_server *s = c->w->server;
    struct http_pipe *p = &r->pipe;
    uint64_t cost = HTTP_UPLOAD_BYTES;

    if (c->coded) {
        cost += ron_inflate_memory(c->coding, &s->inflate_opts); /* for zstd most of it by far */
    }
    if (ron_au64_add(&s->body_memory, cost) + cost > s->opts.body_memory_max) {
        (void)ron_au64_add(&s->body_memory, 0 - cost); /* minus */
        return RON_FULL;
    }
    p->in_charged = cost;
    p->used = true;
    p->inward = true;
    p->in_state = HTTP_PIECE_EMPTY;
    p->in_end = RON_AGAIN;
    p->worker_waits = false;
    p->z = NULL;
    p->z_full = false;
    p->raw = (struct ron_str){0};
    p->in_bytes = 0;
    ron_buf_init(&p->ready, RON_HTTP_PIECE_BYTES);
    ron_buf_init(&p->filling, RON_HTTP_PIECE_BYTES);
    if (c->coded) {
        return ron_inflate_new(c->coding, &s->inflate_opts, &p->z, NULL);
    }
    return RON_OK;
}

void ron__http_upload_reset(struct ron_http_reply *r)
{
    struct http_pipe *p = &r->pipe;

    if (!p->inward) {
        return;
    }
    ron_buf_done(&p->ready);
    ron_buf_done(&p->filling);
    ron_inflate_free(p->z);
    p->z = NULL;
    p->inward = false;
    (void)ron_au64_add(&r->w->server->body_memory, 0 - p->in_charged); /* minus */
}

/* Gives what is filled to the reader if it has room; then, when `end` is not RON_AGAIN and all was
 * given, says that this was all. False when something is left. */
static bool pass(struct http_pipe *p, enum ron_rc end)
{
    struct http_wake wake = {0};
    bool news = false;
    bool all;

    ron_mutex_lock(&p->mu);
    if (p->in_state == HTTP_PIECE_EMPTY && ron_buf_len(&p->filling) > 0) {
        struct ron_buf empty = p->ready;

        p->ready = p->filling;
        p->filling = empty;
        p->in_state = HTTP_PIECE_READY; /* U1 */
        news = true;
    }
    all = ron_buf_len(&p->filling) == 0;
    if (all && end != RON_AGAIN && p->in_end == RON_AGAIN) {
        p->in_end = end; /* U3 */
        news = true;
    }
    p->worker_waits = !all; /* U2 */
    if (news) {
        wake = ron__http_pipe_wake(p);
    }
    ron_mutex_unlock(&p->mu);
    ron__http_wake(wake);
    return all;
}

void ron__http_upload_cut(struct ron_http_reply *r, enum ron_rc end)
{
    struct http_pipe *p = &r->pipe;

    if (p->inward) {
        ron_mutex_lock(&p->mu);
        if (p->in_end == RON_AGAIN) {
            p->in_end = end;
        }
        ron_mutex_unlock(&p->mu); /* Whoever cuts lets go of the reply, and that wakes. */
    }
}

/* ---- the worker: bytes of the body ----------------------------------------------------------- */

enum step { STEP_GOT, STEP_NONE, STEP_END, STEP_BAD };

static size_t waiting(const struct http_conn *c)
{
    return c->in_len - c->in_at - c->used;
}

/* The next bytes of the body as sent, at most `max`, where they lie in c->in. */
static enum step raw_next(struct http_conn *c, size_t max, struct ron_str *ret,
                          enum ron_http_reason *ret_reason)
{
    const struct ron_http_head *head = &c->in->parser.head;

    for (;;) {
        const char *from = c->in->bytes + c->in_at + c->used;
        size_t n = RON_MIN(waiting(c), max);
        size_t used = 0;
        size_t at = 0;

        if (!head->chunked && c->body_left == 0) {
            return STEP_END;
        }
        if (!head->chunked) {
            n = n < c->body_left ? n : (size_t)c->body_left;
            used = n;
            c->body_left -= n;
        } else {
            switch (ron_http_chunked_feed(&c->chunked, from, n, &used, &at, &n)) {
            case RON_HTTP_REFUSED:
                *ret_reason = c->chunked.reason;
                return STEP_BAD;
            case RON_HTTP_DONE:
                c->used += (uint32_t)used;
                return STEP_END;
            case RON_HTTP_MORE:
                break;
            }
        }
        c->used += (uint32_t)used;
        c->body_bytes += n;
        if (n > 0) {
            *ret = (struct ron_str){from + at, n};
            return STEP_GOT;
        }
        if (waiting(c) == 0) {
            /* All is taken: what lies behind the head is free again. */
            c->used = head->bytes;
            c->in_len = c->in_at + c->used;
            if (!ron__http_fill(c)) {
                return STEP_NONE;
            }
        }
    }
}

static enum step take_coded(struct http_conn *c, struct http_pipe *p, uint8_t *out, size_t room,
                            enum ron_http_reason *ret_reason)
{
    size_t used = 0;
    size_t got = 0;
    enum ron_rc rc;

    if (p->raw.len == 0 && !p->z_full) {
        enum step step = raw_next(c, SIZE_MAX, &p->raw, ret_reason);

        if (step == STEP_END && ron_inflate_end(p->z) != RON_OK) {
            *ret_reason = RON_HTTP_CONTENT_DAMAGED;
            return STEP_BAD;
        }
        if (step != STEP_GOT) {
            return step;
        }
    }
    rc = ron_inflate_feed(p->z, p->raw.ptr, p->raw.len, &used, out, room, &got);
    if (rc != RON_OK) {
        *ret_reason = ron__http_inflate_reason(rc);
        return STEP_BAD;
    }
    p->raw = (struct ron_str){p->raw.ptr + used, p->raw.len - used};
    p->z_full = got == room;
    p->in_bytes += got;
    if (p->in_bytes > c->body_max) {
        *ret_reason = RON_HTTP_BODY_LARGE;
        return STEP_BAD;
    }
    ron_buf_commit(&p->filling, got);
    return STEP_GOT;
}

/* Puts the next bytes of the body into `filling`, which has room. */
static enum step take_some(struct http_conn *c, struct http_pipe *p,
                           enum ron_http_reason *ret_reason)
{
    size_t room = RON_HTTP_PIECE_BYTES - ron_buf_len(&p->filling);
    struct ron_str raw = {0};
    uint8_t *out = NULL;
    enum step step;

    if (ron_buf_reserve(&p->filling, room, &out) != RON_OK) {
        *ret_reason = RON_HTTP_MEMORY;
        return STEP_BAD;
    }
    if (p->z != NULL) {
        return take_coded(c, p, out, room, ret_reason);
    }
    if (!c->in->parser.head.chunked && waiting(c) == 0 && c->body_left > 0) {
        size_t want = c->body_left < room ? (size_t)c->body_left : room;
        size_t got = 0;

        if (!ron__http_read(c, out, want, &got)) {
            return STEP_NONE;
        }
        ron_buf_commit(&p->filling, got);
        c->body_left -= got;
        c->body_bytes += got;
        return STEP_GOT;
    }
    step = raw_next(c, room, &raw, ret_reason);
    if (step == STEP_GOT) {
        memcpy(out, raw.ptr, raw.len);
        ron_buf_commit(&p->filling, raw.len);
    }
    return step;
}

/* ---- the worker: a turn ---------------------------------------------------------------------- */

bool ron__http_upload_fail(struct http_conn *c, enum ron_http_reason reason)
{
    enum ron_rc end = RON_INVALID;

    if (reason == RON_HTTP_BODY_LARGE || reason == RON_HTTP_DECOMPRESS_CAP) {
        end = RON_LIMIT;
    } else if (reason == RON_HTTP_READ_SLOW || reason == RON_HTTP_DEADLINE) {
        end = RON_TIMEOUT;
    } else if (reason == RON_HTTP_MEMORY) {
        end = RON_NOMEM;
    }
    ron__http_upload_cut(c->reply, end);
    c->keep = false;
    ron__http_fail_conn(c, reason, 0);
    ron__http_reply_detach(c);
    ron__http_request_done(c);
    return true;
}

/* The peer's time begins anew: while we did not read, it could not send. */
static void restart_clock(struct http_conn *c)
{
    c->progress_ms = c->w->now_ms;
    c->body_start_ms = c->w->now_ms;
    c->body_bytes = 0;
}

static void complete(struct http_conn *c)
{
    c->state = HTTP_WAIT;
    c->deadline_ms = RON_MIN(c->deadline_ms, c->w->now_ms + c->w->server->opts.request_timeout_ms);
    if (c->hup) {
        ron__http_pipe_cancel(c->reply);
    }
}

static uint64_t read_since(const struct http_conn *c, uint64_t start)
{
    return ron_stat_get(&c->w->bytes_in) - start;
}

bool ron__http_upload_run(struct http_conn *c)
{
    struct http_pipe *p = &c->reply->pipe;
    enum ron_http_reason reason = RON_HTTP_NONE;
    enum step step = STEP_GOT;
    uint64_t start = ron_stat_get(&c->w->bytes_in);
    size_t turn = 0; /* what came of what was read: either may be little beside the other */

    if (c->stalled) {
        if (!pass(p, RON_AGAIN)) {
            return false; /* An event of the socket: the reader has not moved. */
        }
        c->stalled = false;
        restart_clock(c);
    }
    while (step == STEP_GOT && turn < HTTP_TURN_BYTES && read_since(c, start) < HTTP_TURN_BYTES) {
        while (step == STEP_GOT && ron_buf_len(&p->filling) < RON_HTTP_PIECE_BYTES &&
               read_since(c, start) < HTTP_TURN_BYTES) {
            step = take_some(c, p, &reason);
        }
        if (step == STEP_BAD) {
            return ron__http_upload_fail(c, reason);
        }
        turn += ron_buf_len(&p->filling);
        if (pass(p, step == STEP_END ? RON_CLOSED : RON_AGAIN)) {
            continue;
        }
        if (step != STEP_NONE) {
            c->stalled = true; /* The reader is behind; it tells us when it has room (U2). */
            c->progress_ms = c->w->now_ms;
            return false;
        }
    }
    if (step == STEP_END) {
        complete(c);
    } else if (step == STEP_GOT) {
        ron__http_wait_turn(c);
    } else if (c->eof) {
        ron__http_upload_cut(c->reply, RON_CANCELLED);
        ron__http_reply_detach(c);
        c->closing = true;
    }
    return false;
}

/* ---- the reader ------------------------------------------------------------------------------ */

static enum ron_rc read_piece(struct ron_http_reply *r, struct ron_waker *waker,
                              struct ron_thread *parked, struct ron_str *ret_piece)
{
    struct http_pipe *p = &r->pipe;
    enum ron_rc rc;

    RON_CHECK_MAGIC(r, HTTP_REPLY_MAGIC);
    RON_ASSERT_MSG(p->inward, "the route is not marked RON_HTTP_STREAM");
    ron_mutex_lock(&p->mu);
    RON_ASSERT_MSG(p->in_state != HTTP_PIECE_HELD, "the piece before was not given back");
    if (p->in_state == HTTP_PIECE_READY) {
        p->in_state = HTTP_PIECE_HELD;
        *ret_piece =
            (struct ron_str){(const char *)ron_buf_data(&p->ready), ron_buf_len(&p->ready)};
        rc = RON_OK;
    } else if (p->in_end != RON_AGAIN || p->gone) {
        rc = p->in_end != RON_AGAIN ? p->in_end : RON_CANCELLED;
    } else {
        p->holder_waits = true;
        p->waker = waker;
        p->parked = parked;
        rc = RON_AGAIN;
    }
    ron_mutex_unlock(&p->mu);
    return rc;
}

enum ron_rc ron_http_reply_read(struct ron_http_reply *r, struct ron_waker *waker,
                                struct ron_str *ret_piece)
{
    return read_piece(r, waker, NULL, ret_piece);
}

enum ron_rc ron_http_reply_read_wait(struct ron_http_reply *r, struct ron_deadline deadline,
                                     struct ron_str *ret_piece)
{
    enum ron_rc rc;

    while ((rc = read_piece(r, NULL, ron_thread_self(), ret_piece)) == RON_AGAIN) {
        RON_TRY(ron_park_until(deadline, "http upload"));
    }
    return rc;
}

void ron_http_reply_give_back(struct ron_http_reply *r)
{
    struct http_pipe *p = &r->pipe;
    bool tell = false;

    RON_CHECK_MAGIC(r, HTTP_REPLY_MAGIC);
    ron_mutex_lock(&p->mu);
    RON_ASSERT(p->in_state == HTTP_PIECE_HELD);
    ron_buf_clear(&p->ready);
    p->in_state = HTTP_PIECE_EMPTY;
    if (p->worker_waits && !p->gone) {
        p->worker_waits = false;
        tell = ron__http_pipe_tell(p);
    }
    ron_mutex_unlock(&p->mu);
    if (tell) {
        ron__http_hand_over(r);
    }
}
