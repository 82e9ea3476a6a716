/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/reply.c - answers that come later, from any thread.
 *
 * Place: between the holder of a reply, on any thread, and the worker that owns the connection.
 * Replies travel back by ron/front/handback.h: one wake-up for many of them, and answers leave in
 * the order of sending. Invariants C4 and C5 are in priv.h. */
#include <string.h>

#include "http/server/priv.h"
#include "ron/base/assert.h"

/* ---- taking and giving back: the worker ------------------------------------------------------ */

static struct ron_http_reply *reply_get(struct http_worker *w)
{
    struct ron_http_reply *r = w->replies_free;

    if (r != NULL) {
        w->replies_free = r->next_free;
    } else if (w->replies_fresh < w->reply_count) {
        r = &w->replies[w->replies_fresh++];
        *r = (struct ron_http_reply){.magic = HTTP_REPLY_MAGIC, .w = w};
        ron_mutex_init(&r->pipe.mu, RON_RANK_LEAF, "http-pipe");
        ron_buf_init(&r->body, w->server->opts.answer_max);
        ron_buf_init_over(&r->extra, r->extra_room, sizeof r->extra_room);
    }
    return r;
}

void ron__http_reply_put(struct ron_http_reply *r)
{
    struct http_worker *w = r->w;
    struct ron_au32 *gate = r->pipe.begun ? &w->server->streams : &w->server->inflight;

    ron__http_pipe_reset(r);
    if (r->in != NULL) {
        ron_pool_put(&w->in_pool, r->in);
        r->in = NULL;
    }
    ron__http_spill_release(w, &r->spill, &r->charged);
    if (r->body.cap > HTTP_REPLY_KEEP_BYTES) {
        ron_buf_done(&r->body);
        ron_buf_init(&r->body, w->server->opts.answer_max);
    }
    ron_buf_clear(&r->body);
    ron_buf_done(&r->extra);
    ron_buf_init_over(&r->extra, r->extra_room, sizeof r->extra_room);
    if (r->has_blob) {
        r->has_blob = false;
        ron__http_blob_release(&r->blob);
    }
    r->conn = NULL;
    r->next_free = w->replies_free;
    w->replies_free = r;
    (void)ron_au32_add(gate, UINT32_MAX); /* minus one */
}

enum ron_rc ron_http_defer(struct ron_http_call *call, struct ron_http_reply **ret_reply)
{
    struct http_worker *w = call->w;
    struct ron_http_reply *r;

    RON_ASSERT(!call->answered);
    RON_ASSERT(call->reply == NULL);
    if (ron_au32_add(&w->server->inflight, 1) >= w->server->opts.inflight_max) {
        (void)ron_au32_add(&w->server->inflight, UINT32_MAX); /* minus one */
        return RON_FULL;
    }
    r = reply_get(w);
    RON_ASSERT(r != NULL); /* the gate counts them */
    ron_au32_store(&r->cancelled, call->c->hup ? 1 : 0);
    r->conn = call->c;
    r->deadline = call->deadline;
    ron_aptr_store(&r->late, NULL);
    r->status = 0;
    r->reason = NULL;
    r->reject = RON_HTTP_NONE;
    r->content_type = NULL;
    r->bad = false;
    r->dated = false;
    r->minor = call->c->in->parser.head.minor;
    r->corr_len = (uint32_t)call->corr_id.len;
    memcpy(r->corr_id, call->corr_id.ptr, call->corr_id.len);
    r->trace = call->c->in->trace;
    if ((call->c->in->match.route->def->flags & RON_HTTP_STREAM) != 0 &&
        ron__http_upload_prepare(r, call->c) != RON_OK) {
        ron__http_reply_put(r);
        return RON_FULL;
    }
    call->reply = r;
    *ret_reply = r;
    return RON_OK;
}

void ron_http_undefer(struct ron_http_call *call, struct ron_http_reply *reply)
{
    RON_ASSERT(call->reply == reply);
    call->reply = NULL;
    ron__http_reply_put(reply);
}

void ron__http_reply_detach(struct http_conn *c)
{
    struct ron_http_reply *r = c->reply;

    if (r == NULL) {
        return;
    }
    RON_CHECK_MAGIC(r, HTTP_REPLY_MAGIC);
    r->conn = NULL;
    r->in = c->in; /* C4 */
    r->spill = c->spill;
    r->charged = c->charged;
    c->in = NULL;
    ron_buf_init(&c->spill, c->w->server->opts.body_max);
    c->charged = 0;
    c->reply = NULL;
    if (ron__http_pipe_leave(r)) {
        ron__http_reply_put(r);
    }
}

/* What is said instead of an answer that could not be written down, RON_HTTP_NONE if it could. For
 * want of memory is no defect: the same request may be answered later. */
static enum ron_http_reason lost_for(const struct ron_http_reply *r)
{
    enum ron_rc body = ron_buf_error(&r->body);
    bool bad = r->bad || ron_buf_error(&r->extra) != RON_OK;

    return bad                 ? RON_HTTP_INTERNAL
           : body == RON_NOMEM ? RON_HTTP_MEMORY
           : body != RON_OK    ? RON_HTTP_INTERNAL
                               : RON_HTTP_NONE;
}

static void deliver(struct http_conn *c, struct ron_http_reply *r)
{
    enum ron_http_reason lost = lost_for(r);
    struct http_answer a = {.status = r->status,
                            .content_type = r->content_type,
                            .extra = &r->extra,
                            .corr_id = ron_http_reply_corr_id(r),
                            .length = r->has_blob ? r->blob.length : ron_buf_len(&r->body),
                            .dated = r->dated,
                            .reason = r->reason};

    c->keep = c->keep && !c->w->draining &&
              c->state != HTTP_UPLOAD; /* Behind an early answer nobody reads the rest. */
    if (lost != RON_HTTP_NONE) {
        ron__http_fail_conn(c, lost, 0);
        c->reply = NULL;
        ron__http_request_done(c);
        return;
    }
    c->reply = NULL;
    ron_stat_bump(&c->w->rejected[r->reject], r->reject != RON_HTTP_NONE);
    ron_stat_bump(&c->w->busy, r->reject == RON_HTTP_BUSY);
    if (r->has_blob) {
        r->has_blob = false;
        ron__http_answer_blob(c, &a, &r->blob);
    } else {
        ron__http_answer_write(c, &a, ron_buf_data(&r->body));
    }
    ron__http_request_done(c);
}

/* A reply whose body passes in pieces has something to say. */
static void pipe_event(struct ron_http_reply *r)
{
    struct http_pipe *p = &r->pipe;
    struct http_conn *c = r->conn;
    enum http_over over;
    bool begun;

    ron_mutex_lock(&p->mu);
    p->told = false;
    over = p->over;
    begun = p->begun;
    ron_mutex_unlock(&p->mu);
    if (c == NULL) {
        if (over != HTTP_NOT_OVER) {
            ron_stat_bump(&r->w->late_replies, over == HTTP_OVER_SENT);
            ron__http_reply_put(r);
        }
        return;
    }
    RON_ASSERT(c->reply == r);
    if (over == HTTP_OVER_SENT) {
        deliver(c, r);
        ron__http_reply_put(r);
    } else if (begun && c->state != HTTP_STREAM) {
        ron__http_stream_start(c, r);
    }
    ron__http_conn_run(c);
}

static void take_one(struct http_worker *w, struct ron_http_reply *r)
{
    struct http_conn *c = r->conn;

    if (r->pipe.used) {
        pipe_event(r);
    } else if (c == NULL) {
        ron_stat_bump(&w->late_replies, 1);
        ron__http_reply_put(r);
    } else {
        RON_ASSERT(c->state == HTTP_WAIT);
        RON_ASSERT(c->reply == r);
        deliver(c, r);
        ron__http_reply_put(r);
        ron__http_conn_run(c);
    }
}

bool ron__http_replies_take(struct http_worker *w, size_t max)
{
    for (size_t i = 0; i < max; i++) {
        struct ron_handback_node *node = w->answers;

        if (node == NULL) {
            node = ron_handback_take(&w->done);
            if (node == NULL) {
                return false;
            }
        }
        w->answers = node->next; /* Before the reply is given back: the node is part of it. */
        take_one(w, RON_CONTAINER_OF(node, struct ron_http_reply, node));
    }
    return true; /* The wake-up of what lies in `done` may have been the one of this turn. */
}

/* ---- the holder ------------------------------------------------------------------------------ */

void ron__http_hand_over(struct ron_http_reply *r)
{
    struct http_worker *w = r->w;

    /* Once it is put, the reply may be gone. */
    if (ron_handback_put(&w->done, &r->node)) {
        ron_task_wake(w->task);
    }
}

bool ron_http_reply_cancelled(const struct ron_http_reply *r)
{
    return ron_au32_load(&r->cancelled) != 0;
}

void ron_http_reply_set_late(struct ron_http_reply *r, const struct ron_http_late *late)
{
    ron_aptr_store(&r->late, (void *)(uintptr_t)late);
}

struct ron_deadline ron_http_reply_deadline(const struct ron_http_reply *r)
{
    return r->deadline;
}

struct ron_str ron_http_reply_corr_id(const struct ron_http_reply *r)
{
    return (struct ron_str){r->corr_id, r->corr_len};
}

struct ron_buf *ron_http_reply_body(struct ron_http_reply *r)
{
    return &r->body;
}

/* The record has room for what services add; the fields of an origin are more. */
static enum ron_rc grow_extra(struct ron_http_reply *r)
{
    struct ron_buf larger;

    ron_buf_init(&larger, HTTP_EXTRA_BYTES);
    RON_TRY(ron_buf_append(&larger, ron_buf_data(&r->extra), ron_buf_len(&r->extra)));
    r->extra = larger; /* The old memory is part of the record. */
    return RON_OK;
}

enum ron_rc ron_http_reply_add_header(struct ron_http_reply *r, const char *name,
                                      struct ron_str value)
{
    size_t need = strlen(name) + value.len + 4;
    enum ron_rc rc = RON_OK;

    if (r->extra.fixed && need > r->extra.cap - ron_buf_len(&r->extra)) {
        rc = grow_extra(r);
    }
    if (rc == RON_OK) {
        rc = ron__http_add_header(&r->extra, name, value);
    }
    r->bad = r->bad || rc != RON_OK;
    r->dated = r->dated || ron__http_is_date(name);
    return rc;
}

void ron_http_reply_send(struct ron_http_reply *take_r, int status, const char *content_type)
{
    RON_CHECK_MAGIC(take_r, HTTP_REPLY_MAGIC);
    RON_ASSERT(status >= 200 && status <= 599);
    take_r->status = status;
    take_r->content_type = content_type;
    if (take_r->pipe.used) {
        ron__http_pipe_over(take_r, HTTP_OVER_SENT);
    } else {
        ron__http_hand_over(take_r);
    }
}

void ron_http_reply_send_blob(struct ron_http_reply *take_r, int status, const char *content_type,
                              const struct ron_http_blob *take_blob)
{
    take_r->blob = *take_blob;
    take_r->has_blob = true;
    ron_http_reply_send(take_r, status, content_type);
}

void ron_http_reply_fail_with(struct ron_http_reply *take_r, const struct ron_http_error *error)
{
    RON_CHECK_MAGIC(take_r, HTTP_REPLY_MAGIC);
    ron_buf_clear(&take_r->body);
    ron__http_envelope(&take_r->body, error, ron_http_reply_corr_id(take_r));
    ron__http_add_error_fields(&take_r->extra, error);
    take_r->reason = error->reason;
    ron_http_reply_send(take_r, error->status, "application/json");
}

void ron_http_reply_fail(struct ron_http_reply *take_r, enum ron_http_reason reason)
{
    struct ron_http_error e = ron_http_error_of(reason);

    take_r->reject = reason; /* counted by the worker, the only writer of its counters */
    ron_http_reply_fail_with(take_r, &e);
}
