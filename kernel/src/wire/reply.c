/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c - answers that come later, from any thread.
 *
 * Place: between the holder of a reply, on any thread, and the worker that owns the connection.
 * Replies travel back by ron/front/handback.h: one wake-up for many of them. The worker takes them
 * all at once, sorts them by connection and writes each connection's answers with one system call.
 * Invariants C4-C6 are in wire_priv.h. */
#include <string.h>

#include "ron/base/assert.h"
#include "wire/frame.h"
#include "wire/wire_testing.h"
#include "wire_priv.h"

/* ---- taking and giving back: the worker ------------------------------------------------------ */

static struct ron_oap_reply *reply_get(struct oap_worker *w)
{
    struct ron_oap_reply *r = w->replies_free;

    if (r != NULL) {
        w->replies_free = r->next_free;
    } else if (w->replies_fresh < w->server->opts.inflight_max) {
        r = &w->replies[w->replies_fresh++];
        *r = (struct ron_oap_reply){.magic = OAP_REPLY_MAGIC, .w = w};
        ron_buf_init(&r->body, w->server->opts.answer_max);
    }
    return r;
}

static void reply_put(struct oap_worker *w, struct ron_oap_reply *r)
{
    if (r->in != NULL) {
        ron__oap_in_unref(w, r->in);
        r->in = NULL;
    }
    if (r->part != NULL) {
        ron__oap_part_free(w, r->part);
        r->part = NULL;
    }
    if (r->body.cap > OAP_REPLY_KEEP_BYTES) {
        ron_buf_done(&r->body);
        ron_buf_init(&r->body, w->server->opts.answer_max);
    }
    ron_buf_clear(&r->body);
    r->conn = NULL;
    r->next_free = w->replies_free;
    w->replies_free = r;
    (void)ron_au32_add(&w->server->inflight, UINT32_MAX); /* minus one */
}

static void let_go(struct ron_oap_reply *r)
{
    struct oap_conn *c = r->conn;

    RON_ASSERT(c != NULL);
    ron_list_remove(&r->link);
    c->in_flight--;
    r->conn = NULL;
}

enum ron_rc ron_oap_defer(struct ron_oap_call *call, struct ron_oap_reply **ret_reply)
{
    struct oap_conn *c = call->c;
    struct oap_worker *w = c->w;
    const struct ron_oap_request *q = call->request;
    struct ron_oap_reply *r;

    RON_ASSERT(!call->answered);
    RON_ASSERT(call->reply == NULL);
    if (ron_au32_add(&w->server->inflight, 1) >= w->server->opts.inflight_max) {
        (void)ron_au32_add(&w->server->inflight, UINT32_MAX); /* minus one */
        return RON_FULL;
    }
    r = reply_get(w);
    RON_ASSERT(r != NULL); /* the gate counts them */
    ron_au32_store(&r->cancelled, c->hup ? 1 : 0);
    r->conn = c;
    r->head = (struct ron_oap_head){
        .flags = RON_OAP_RESP, .app = q->app, .corr_id = q->corr_id, .tenant = q->tenant};
    r->deadline_ms = w->now_ms + w->server->opts.request_timeout_ms;
    r->status = 0;
    r->refusal = RON_OAP_NONE;
    r->span = call->span;
    if (call->part != NULL) {
        r->part = call->part;
    } else {
        r->in = c->in;
        r->in->refs++;
    }
    ron_list_push_back(&c->calls, &r->link);
    c->in_flight++;
    call->reply = r;
    *ret_reply = r;
    return RON_OK;
}

void ron_oap_undefer(struct ron_oap_call *call, struct ron_oap_reply *reply)
{
    RON_ASSERT(call->reply == reply);
    call->reply = NULL;
    reply->part = NULL; /* Still the caller's. */
    let_go(reply);
    reply_put(call->c->w, reply);
}

void ron__oap_replies_detach(struct oap_conn *c)
{
    struct ron_list_node *node;

    while ((node = ron_list_pop_front(&c->ready)) != NULL) {
        struct ron_oap_reply *r = RON_LIST_ENTRY(node, struct ron_oap_reply, ready);

        let_go(r);
        ron_stat_bump(&c->w->late_replies, 1);
        reply_put(c->w, r);
    }
    while ((node = ron_list_front(&c->calls)) != NULL) {
        struct ron_oap_reply *r = RON_LIST_ENTRY(node, struct ron_oap_reply, link);

        let_go(r);
        ron_au32_store(&r->cancelled, 1);
    }
}

void ron__oap_replies_expire(struct oap_conn *c, uint64_t now_ms)
{
    struct ron_list_node *node;

    while ((node = ron_list_front(&c->calls)) != NULL) {
        struct ron_oap_reply *r = RON_LIST_ENTRY(node, struct ron_oap_reply, link);

        if (r->deadline_ms > now_ms || ron_list_linked(&r->ready)) {
            return; /* One that is answered waits for the socket: that has its own time. */
        }
        let_go(r);
        ron__oap_span_end(c->w, &r->span, r->head.corr_id,
                          ron_oap_error_of(RON_OAP_TIMEOUT).status);
        ron__oap_refuse(c, &r->head, RON_OAP_TIMEOUT);
        ron_au32_store(&r->cancelled, 1); /* From here on the holder alone has it. */
    }
}

void ron__oap_replies_cancel(struct oap_conn *c)
{
    RON_LIST_FOREACH(node, &c->calls)
    {
        ron_au32_store(&RON_LIST_ENTRY(node, struct ron_oap_reply, link)->cancelled, 1);
    }
}

void ron__oap_reply_cancel(struct oap_conn *c, uint64_t corr_id, ron_u128 tenant)
{
    RON_LIST_FOREACH(node, &c->calls)
    {
        struct ron_oap_reply *r = RON_LIST_ENTRY(node, struct ron_oap_reply, link);

        if (r->head.corr_id == corr_id && r->head.tenant == tenant) {
            ron_au32_store(&r->cancelled, 1);
        }
    }
}

/* NONE: an answer of the app. */
static enum ron_oap_reason refusal_of(const struct ron_oap_reply *r)
{
    return ron_buf_error(&r->body) != RON_OK ? RON_OAP_INTERNAL : r->refusal;
}

static void end_span(struct ron_oap_reply *r)
{
    enum ron_oap_reason reason = refusal_of(r);

    ron__oap_span_end(r->w, &r->span, r->head.corr_id,
                      reason == RON_OAP_NONE ? r->status : ron_oap_error_of(reason).status);
}

static void write_reply(struct oap_conn *c, struct ron_oap_reply *r)
{
    enum ron_oap_reason reason = refusal_of(r);

    if (reason != RON_OAP_NONE) {
        ron__oap_refuse(c, &r->head, reason);
    } else {
        r->head.code = r->status;
        ron__oap_write(c, &r->head, ron_buf_data(&r->body), ron_buf_len(&r->body));
    }
}

void ron__oap_replies_write(struct oap_conn *c)
{
    while (!c->dead && ron_out_len(&c->out) == 0) {
        struct ron_list_node *node = ron_list_pop_front(&c->ready);
        struct ron_oap_reply *r;

        if (node == NULL) {
            return;
        }
        r = RON_LIST_ENTRY(node, struct ron_oap_reply, ready);
        write_reply(c, r);
        let_go(r);
        reply_put(c->w, r);
    }
}

void ron__oap_replies_take(struct oap_worker *w)
{
    struct ron_handback_node *queue = ron_handback_take(&w->done);
    struct ron_list touched;

    ron_list_init(&touched);
    while (queue != NULL) {
        struct ron_oap_reply *r = RON_CONTAINER_OF(queue, struct ron_oap_reply, node);
        struct oap_conn *c = r->conn;

        RON_CHECK_MAGIC(r, OAP_REPLY_MAGIC);
        queue = queue->next;
        end_span(r);
        if (c == NULL) {
            ron_stat_bump(&w->late_replies, 1);
            reply_put(w, r);
            continue;
        }
        ron_list_push_back(&c->ready, &r->ready);
        if (!ron_list_linked(&c->again)) {
            ron_list_push_back(&touched, &c->again);
        }
    }
    for (struct ron_list_node *node = ron_list_pop_front(&touched); node != NULL;
         node = ron_list_pop_front(&touched)) {
        ron__oap_conn_run(RON_LIST_ENTRY(node, struct oap_conn, again));
    }
}

/* ---- the holder ------------------------------------------------------------------------------ */

static void hand_over(struct ron_oap_reply *r)
{
    struct oap_worker *w = r->w;

    /* Once it is put, the reply may be gone. */
    if (ron_handback_put(&w->done, &r->node)) {
        ron_task_wake(w->task);
    }
}

bool ron_oap_reply_cancelled(const struct ron_oap_reply *r)
{
    return ron_au32_load(&r->cancelled) != 0;
}

struct ron_buf *ron_oap_reply_body(struct ron_oap_reply *r)
{
    return &r->body;
}

void ron_oap_reply_send(struct ron_oap_reply *take_r, uint16_t status)
{
    RON_CHECK_MAGIC(take_r, OAP_REPLY_MAGIC);
    take_r->status = status;
    hand_over(take_r);
}

void ron_oap_reply_fail_with(struct ron_oap_reply *take_r, const struct ron_oap_error *error)
{
    RON_CHECK_MAGIC(take_r, OAP_REPLY_MAGIC);
    ron_buf_clear(&take_r->body);
    ron_oap_envelope(&take_r->body, error, take_r->head.corr_id);
    ron_oap_reply_send(take_r, error->status);
}

void ron_oap_reply_refuse(struct ron_oap_reply *take_r, enum ron_oap_reason reason)
{
    RON_CHECK_MAGIC(take_r, OAP_REPLY_MAGIC);
    RON_ASSERT(reason != RON_OAP_NONE);
    RON_ASSERT(!ron_oap_reason_fatal(reason));
    take_r->refusal = reason;
    hand_over(take_r);
}
