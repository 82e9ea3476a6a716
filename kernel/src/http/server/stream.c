/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/stream.c - answers that pass in pieces: the writer's side and the
 * worker's.
 *
 * Place: http, beside reply.c. The writer fills `pending` and tells the worker; the worker swaps it
 * with the piece it has sent, closes it as one chunk and sends it from where it lies. Invariants P1
 * to P3 are in pipe.h. */
#include <string.h>

#include "http/server/priv.h"
#include "ron/base/assert.h"

/* ---- both sides ------------------------------------------------------------------------------ */

/* With the lock held: who is to be woken, and that he is not waiting any more. */
struct http_wake ron__http_pipe_wake(struct http_pipe *p)
{
    struct http_wake wake = {0};

    if (p->holder_waits && p->over == HTTP_NOT_OVER) {
        wake = (struct http_wake){p->waker, p->parked};
        p->holder_waits = false;
        p->parked = NULL;
    }
    return wake;
}

/* Without the lock. */
void ron__http_wake(struct http_wake wake)
{
    if (wake.parked != NULL) {
        ron_unpark(wake.parked);
    } else if (wake.waker != NULL) {
        wake.waker->wake(wake.waker);
    }
}

/* With the lock held: true when the caller must hand the reply over. */
bool ron__http_pipe_tell(struct http_pipe *p)
{
    bool tell = !p->told;

    p->told = true; /* P1 */
    return tell;
}

void ron__http_pipe_over(struct ron_http_reply *take_r, enum http_over over)
{
    struct http_pipe *p = &take_r->pipe;
    bool tell;

    ron_mutex_lock(&p->mu);
    RON_ASSERT(p->over == HTTP_NOT_OVER);
    if (over == HTTP_OVER_ENDED && p->framing == HTTP_FRAME_LENGTH && p->length_left > 0 &&
        !p->gone) {
        over = HTTP_OVER_ABORTED; /* It is shorter than its head says. */
    }
    p->over = over; /* P3 */
    p->holder_waits = false;
    p->parked = NULL;
    tell = ron__http_pipe_tell(p);
    ron_mutex_unlock(&p->mu);
    if (tell) {
        ron__http_hand_over(take_r);
    }
}

/* ---- the writer ------------------------------------------------------------------------------ */

enum ron_rc ron_http_reply_begin(struct ron_http_reply *r, const struct ron_http_stream_opts *opts)
{
    struct ron_http_server *s = r->w->server;
    struct http_pipe *p = &r->pipe;
    bool tell;

    RON_CHECK_MAGIC(r, HTTP_REPLY_MAGIC);
    RON_ASSERT(!p->begun);
    RON_ASSERT(opts->status >= 200 && opts->status <= 599);
    if (ron_au32_add(&s->streams, 1) >= s->opts.streams_max) {
        (void)ron_au32_add(&s->streams, UINT32_MAX); /* minus one */
        return RON_FULL;
    }
    /* A stream has a gate of its own: it does not keep others from being deferred. */
    (void)ron_au32_add(&s->inflight, UINT32_MAX); /* minus one */
    r->status = opts->status;
    r->content_type = opts->content_type;
    ron_mutex_lock(&p->mu);
    p->used = true;
    p->begun = true;
    p->quiet = opts->quiet;
    p->waker = opts->waker;
    p->length = opts->length;
    p->length_left = opts->length;
    p->framing = opts->length != RON_HTTP_UNKNOWN ? HTTP_FRAME_LENGTH
                 : r->minor == 0                  ? HTTP_FRAME_BARE
                                                  : HTTP_FRAME_CHUNKED;
    ron_buf_init(&p->pending, HTTP_PIPE_MAX);
    ron_buf_init(&p->sending, HTTP_PIPE_MAX);
    tell = ron__http_pipe_tell(p);
    ron_mutex_unlock(&p->mu);
    if (tell) {
        ron__http_hand_over(r);
    }
    return RON_OK;
}

/* With the lock held: bytes in, and the memory counted. */
static enum ron_rc put_piece(struct ron_http_reply *r, const void *bytes, size_t len)
{
    struct ron_http_server *s = r->w->server;
    struct http_pipe *p = &r->pipe;
    size_t head = p->framing == HTTP_FRAME_CHUNKED && ron_buf_len(&p->pending) == 0
                      ? (size_t)HTTP_CHUNK_HEAD
                      : 0;
    size_t want = head + len + HTTP_CHUNK_TAIL; /* so that closing it never makes it grow */
    uint8_t *room = NULL;
    uint64_t more;

    if (want > p->pending.cap - RON_MIN(p->pending.cap, ron_buf_len(&p->pending)) &&
        ron_au64_load(&s->answer_memory.used) >= s->answer_memory.max) {
        return RON_NOMEM;
    }
    if (ron_buf_reserve(&p->pending, want, &room) != RON_OK) {
        if (ron_buf_len(&p->pending) == 0) {
            ron_buf_clear(&p->pending); /* The failure sticks; else the swap clears it. */
        }
        return RON_NOMEM;
    }
    memcpy(room + head, bytes, len);
    ron_buf_commit(&p->pending, head + len);
    more = p->pending.cap + p->sending.cap - p->charged;
    p->charged += more;
    (void)ron_au64_add(&s->answer_memory.used, more);
    p->length_left -= p->framing == HTTP_FRAME_LENGTH ? len : 0;
    return RON_OK;
}

static enum ron_rc write_some(struct ron_http_reply *r, const void *bytes, size_t len,
                              struct ron_thread *parked)
{
    struct http_pipe *p = &r->pipe;
    size_t full;
    enum ron_rc rc;
    bool tell = false;

    RON_CHECK_MAGIC(r, HTTP_REPLY_MAGIC);
    RON_ASSERT(len <= RON_HTTP_PIECE_BYTES);
    ron_mutex_lock(&p->mu);
    RON_ASSERT(p->begun);
    full = RON_HTTP_PIECE_BYTES + (p->framing == HTTP_FRAME_CHUNKED ? HTTP_CHUNK_HEAD : 0);
    if (p->gone) {
        rc = RON_CANCELLED;
    } else if (p->framing == HTTP_FRAME_LENGTH && len > p->length_left) {
        rc = RON_LIMIT;
    } else if (len == 0) {
        rc = RON_OK;
    } else if (ron_buf_len(&p->pending) > 0 && ron_buf_len(&p->pending) + len > full) {
        rc = RON_AGAIN;
        p->holder_waits = true;
        p->parked = parked;
    } else {
        rc = put_piece(r, bytes, len);
        tell = rc == RON_OK && ron__http_pipe_tell(p);
    }
    ron_mutex_unlock(&p->mu);
    if (tell) {
        ron__http_hand_over(r);
    }
    return rc;
}

enum ron_rc ron_http_reply_write(struct ron_http_reply *r, const void *bytes, size_t len)
{
    return write_some(r, bytes, len, NULL);
}

enum ron_rc ron_http_reply_write_wait(struct ron_http_reply *r, const void *bytes, size_t len,
                                      struct ron_deadline deadline)
{
    enum ron_rc rc;

    while ((rc = write_some(r, bytes, len, ron_thread_self())) == RON_AGAIN) {
        RON_TRY(ron_park_until(deadline, "http stream"));
    }
    return rc;
}

void ron_http_reply_end(struct ron_http_reply *take_r)
{
    RON_CHECK_MAGIC(take_r, HTTP_REPLY_MAGIC);
    RON_ASSERT(take_r->pipe.begun);
    ron__http_pipe_over(take_r, HTTP_OVER_ENDED);
}

void ron_http_reply_abort(struct ron_http_reply *take_r)
{
    RON_CHECK_MAGIC(take_r, HTTP_REPLY_MAGIC);
    RON_ASSERT(take_r->pipe.begun);
    ron__http_pipe_over(take_r, HTTP_OVER_ABORTED);
}

/* ---- the worker ------------------------------------------------------------------------------ */

void ron__http_pipe_reset(struct ron_http_reply *r)
{
    struct http_pipe *p = &r->pipe;

    if (p->used) {
        (void)ron_au64_add(&r->w->server->answer_memory.used, 0 - p->charged); /* minus */
        p->charged = 0;
        ron_buf_done(&p->pending);
        ron_buf_done(&p->sending);
    }
    ron__http_upload_reset(r);
    p->used = false;
    p->told = false;
    p->gone = false;
    p->over = HTTP_NOT_OVER;
    p->waker = NULL;
    p->parked = NULL;
    p->holder_waits = false;
    p->begun = false;
    p->quiet = false;
    p->framing = HTTP_FRAME_CHUNKED;
}

/* Nothing that is written from now on goes anywhere. True when the holder has given the reply back
 * and it is on no stack: the caller frees it. */
static bool mute(struct http_pipe *p)
{
    struct http_wake wake;
    bool mine;

    ron_mutex_lock(&p->mu);
    p->gone = true;
    p->holder_waits = true; /* One that is not waiting wants to know too. */
    wake = ron__http_pipe_wake(p);
    mine = p->over != HTTP_NOT_OVER && !p->told; /* P3 */
    ron_mutex_unlock(&p->mu);
    ron__http_wake(wake);
    return mine;
}

bool ron__http_pipe_leave(struct ron_http_reply *r)
{
    ron_au32_store(&r->cancelled, 1);
    return mute(&r->pipe);
}

void ron__http_pipe_cancel(struct ron_http_reply *r)
{
    struct http_wake wake;

    ron_au32_store(&r->cancelled, 1);
    ron_mutex_lock(&r->pipe.mu);
    r->pipe.holder_waits = true;
    wake = ron__http_pipe_wake(&r->pipe);
    ron_mutex_unlock(&r->pipe.mu);
    ron__http_wake(wake);
}

void ron__http_stream_start(struct http_conn *c, struct ron_http_reply *r)
{
    struct http_pipe *p = &r->pipe;
    bool bad = r->bad || ron_buf_error(&r->extra) != RON_OK;

    c->keep = c->keep && !c->w->draining && p->framing != HTTP_FRAME_BARE &&
              c->state != HTTP_UPLOAD; /* Behind an early answer nobody reads the rest. */
    ron__http_upload_cut(r, RON_CANCELLED);
    /* Who asked with HEAD has the whole answer in the head, and so has who gets an error. */
    c->sealed =
        bad || c->in->parser.head.method == RON_HTTP_HEAD || r->status == 204 || r->status == 304;
    if (bad) {
        ron__http_fail_conn(c, RON_HTTP_INTERNAL, 0);
    } else {
        ron__http_answer_write(c,
                               &(struct http_answer){.status = r->status,
                                                     .content_type = r->content_type,
                                                     .extra = &r->extra,
                                                     .corr_id = {r->corr_id, r->corr_len},
                                                     .length = p->length,
                                                     .head_only = true,
                                                     .dated = r->dated,
                                                     .chunked = p->framing == HTTP_FRAME_CHUNKED},
                               NULL);
    }
    c->state = HTTP_STREAM;
    c->progress_ms = c->w->now_ms;
    if (c->sealed) {
        (void)mute(p); /* The holder still has it, or the pump will find that it has ended. */
    } else if (p->quiet && c->hup) {
        c->dead = true;
    } else if (p->quiet && c->w->draining) {
        ron__http_pipe_cancel(r);
    }
}

/* Closes the piece as a chunk; the last one in the same breath. The room is there (put_piece): the
 * memory of `sending` does not change, which the holder reads the size of. */
static void seal(struct http_pipe *p, bool last)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t *at = (uint8_t *)(uintptr_t)ron_buf_data(&p->sending);
    size_t len = ron_buf_len(&p->sending) - HTTP_CHUNK_HEAD;

    for (int i = 7; i >= 0; i--, len >>= 4) { /* Leading zeros are digits like others. */
        at[i] = (uint8_t)hex[len & 15];
    }
    at[8] = '\r';
    at[9] = '\n';
    (void)ron_buf_append(&p->sending, "\r\n0\r\n\r\n", last ? HTTP_CHUNK_TAIL : 2);
}

/* The holder has ended it and all is sent. */
static void finish(struct http_conn *c, struct ron_http_reply *r, enum http_over over)
{
    if (over == HTTP_OVER_ABORTED && !c->sealed) {
        c->dead = true; /* To close before the end is the only way to say that this was not all. */
        return;
    }
    if (r->pipe.framing == HTTP_FRAME_CHUNKED && !c->sealed) {
        (void)ron_buf_append(&c->w->out, "0\r\n\r\n", 5);
    }
    c->reply = NULL;
    ron__http_reply_put(r);
    ron__http_request_done(c);
}

/* A stream that has nothing to say holds little. With the lock held. */
static void shrink(struct ron_http_server *s, struct http_pipe *p)
{
    uint64_t held;

    ron_buf_done(&p->pending);
    ron_buf_init(&p->pending, HTTP_PIPE_MAX);
    held = p->pending.cap + p->sending.cap;
    (void)ron_au64_add(&s->answer_memory.used, held - p->charged); /* minus */
    p->charged = held;
}

/* The next piece into `sending`, if there is one; tells whether the holder has ended it. */
static enum http_over take_piece(struct ron_http_server *s, struct http_pipe *p)
{
    struct http_wake wake;
    enum http_over over;
    struct ron_buf empty;

    ron_mutex_lock(&p->mu);
    ron_buf_clear(&p->sending);
    empty = p->sending;
    p->sending = p->pending; /* P2 */
    p->pending = empty;
    over = p->told ? HTTP_NOT_OVER : p->over; /* P1: it must come off the stack first. */
    wake = ron__http_pipe_wake(p);
    if (ron_buf_len(&p->sending) == 0 && p->pending.cap > HTTP_PIPE_KEEP) {
        shrink(s, p);
    }
    ron_mutex_unlock(&p->mu);
    ron__http_wake(wake);
    return over;
}

bool ron__http_stream_pump(struct http_conn *c)
{
    struct ron_http_reply *r = c->reply;
    struct http_pipe *p = &r->pipe;
    enum http_over over = take_piece(c->w->server, p);

    if (ron_buf_len(&p->sending) > 0 && !c->sealed) {
        c->progress_ms = c->w->now_ms;
        c->sealed = over == HTTP_OVER_ENDED && p->framing == HTTP_FRAME_CHUNKED;
        if (p->framing == HTTP_FRAME_CHUNKED) {
            seal(p, c->sealed);
        }
        if (ron_buf_error(&p->sending) != RON_OK) {
            c->dead = true;
            return false;
        }
        ron__http_tail_set(c, &(struct ron_http_blob){.bytes = ron_buf_data(&p->sending),
                                                      .length = ron_buf_len(&p->sending)});
        return true; /* Again, unless the socket is full. */
    }
    if (over == HTTP_NOT_OVER) {
        return false;
    }
    finish(c, r, over);
    return true;
}
