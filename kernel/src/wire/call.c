/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - from frame to handler: pieces, control messages, gates, the call itself.
 *
 * Place: wire, on the worker that owns the connection.
 *
 * Order of checks for a request: legal kind, HELLO first, flags offered, pieces in order, then per
 * whole message draining, known app, flow limit, handler. A refusal that is not fatal leaves the
 * connection in step: the pieces of a refused message are taken and forgotten up to its END, so no
 * piece is ever mistaken for a request. */
#include <string.h>

#include "ron/base/assert.h"
#include "wire/frame.h"
#include "wire_priv.h"

/* ---- control: app 0 -------------------------------------------------------------------------- */

struct hello {
    uint64_t present;
    struct ron_str ua;
    uint64_t max_frame;
};

struct subscription {
    uint64_t present;
    uint64_t app;
};

/* Copies the text, because the scanner works in place and the bytes may be referred to. */
static bool scan(const struct ron_oap_request *q, const struct ron_json_shape *shape, void *out)
{
    char text[1024];
    struct ron_json_error err;

    if (q->payload_len == 0 || q->payload_len >= sizeof text) {
        return false;
    }
    memcpy(text, q->payload, q->payload_len);
    text[q->payload_len] = '\0';
    return ron_json_scan(text, q->payload_len, shape, NULL, out, &err) == RON_OK;
}

static void answer_json(struct oap_conn *c, const struct ron_oap_head *head, struct ron_buf *body)
{
    struct ron_oap_head h = *head;

    RON_ASSERT(ron_buf_error(body) == RON_OK); /* texts of ours: it fits */
    h.flags = RON_OAP_RESP;
    h.code = 200;
    h.cap_len = 0;
    ron__oap_write(c, &h, ron_buf_data(body), ron_buf_len(body));
}

/* A HELLO may hold members that we do not know: it is how versions that do not exist yet speak to
 * us. */
static enum ron_oap_reason on_hello(struct oap_conn *c, const struct ron_oap_request *q,
                                    const struct ron_oap_head *head)
{
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct hello, ua, STRING, .max = 256),
        RON_JSON_FIELD(struct hello, max_frame, U64, .max = UINT32_MAX),
    };
    static const struct ron_json_shape shape = {.fields = fields,
                                                .count = RON_ARRAY_LEN(fields),
                                                .present_offset = offsetof(struct hello, present),
                                                .allow_unknown = true};
    const struct ron_oap_opts *o = &c->w->server->opts;
    struct hello h = {.max_frame = RON_OAP_FRAME_MAX};
    struct ron_json_writer w;
    char room[256];
    struct ron_buf body;

    if (c->begun || !scan(q, &shape, &h) || h.max_frame < RON_OAP_FRAME_MIN) {
        return RON_OAP_HELLO;
    }
    c->hello = true;
    c->w->hello_count++;
    c->peer_frame_max = (uint32_t)RON_MIN(h.max_frame, (uint64_t)o->frame_max);
    ron_buf_init_over(&body, room, sizeof room);
    ron_json_begin(&w, &body);
    ron_json_open(&w, NULL, '{');
    ron_json_u64(&w, "max_frame", o->frame_max);
    ron_json_u64(&w, "max_inflight", o->flow_max);
    ron_json_u64(&w, "flags_supported", RON_OAP_FLAGS_OFFERED);
    ron_json_open(&w, "versions", '[');
    ron_json_u64(&w, NULL, RON_OAP_VERSION);
    ron_json_close(&w, ']');
    ron_json_open(&w, "transports", '[');
    ron_json_text(&w, NULL, ron_intake_is_unix(c->w->server->intake, 0) ? "unix" : "tcp");
    ron_json_close(&w, ']');
    ron_json_bool(&w, "trace", true);
    ron_json_close(&w, '}');
    answer_json(c, head, &body);
    if (c->w->draining) {
        ron__oap_write(
            c, &(struct ron_oap_head){.flags = RON_OAP_EVENT, .code = RON_OAP_CTL_DRAINING}, "", 0);
    }
    return RON_OAP_NONE;
}

static const struct ron_oap_app *find_app(const struct ron_oap_server *s, uint16_t app)
{
    for (size_t i = 0; i < s->opts.app_count; i++) {
        if (s->opts.apps[i].app == app) {
            return &s->opts.apps[i];
        }
    }
    return NULL;
}

/* Leaving is always allowed. */
static enum ron_oap_reason may_subscribe(struct oap_conn *c, const struct ron_oap_request *q,
                                         uint64_t id)
{
    const struct ron_oap_app *app = find_app(c->w->server, (uint16_t)id);
    struct ron_oap_call call = {.c = c, .request = q};
    enum ron_oap_reason reason = RON_OAP_NONE;

    if (q->code == RON_OAP_CTL_SUBSCRIBE && app != NULL && app->may_subscribe != NULL) {
        reason = app->may_subscribe(&call, app->arg);
        RON_ASSERT(!ron_oap_reason_fatal(reason));
        RON_ASSERT(!call.answered);
        RON_ASSERT(call.reply == NULL);
    }
    return reason;
}

static enum ron_oap_reason on_subscribe(struct oap_conn *c, const struct ron_oap_request *q,
                                        const struct ron_oap_head *head)
{
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct subscription, app, U64, .max = UINT16_MAX, .required = true)};
    static const struct ron_json_shape shape = RON_JSON_SHAPE(struct subscription, fields, present);
    struct subscription s = {0};
    enum ron_oap_reason reason;
    char room[8];
    struct ron_buf body;

    if (!scan(q, &shape, &s)) {
        return RON_OAP_CONTROL;
    }
    reason = may_subscribe(c, q, s.app);
    if (reason == RON_OAP_NONE) {
        reason = ron__oap_subscribe(c, s.app, q->code == RON_OAP_CTL_SUBSCRIBE);
    }
    if (reason == RON_OAP_NONE) {
        ron_buf_init_over(&body, room, sizeof room);
        (void)ron_buf_append_text(&body, "{}");
        answer_json(c, head, &body);
    }
    return reason;
}

static void on_control(struct oap_conn *c, const struct ron_oap_request *q,
                       const struct ron_oap_head *head)
{
    enum ron_oap_reason reason = RON_OAP_NOT_FOUND;
    struct ron_oap_head h = *head;

    switch (q->code) {
    case RON_OAP_CTL_HELLO:
        reason = on_hello(c, q, head);
        break;
    case RON_OAP_CTL_PING:
        reason = RON_OAP_NONE;
        h.flags = RON_OAP_RESP;
        h.code = 200;
        h.cap_len = 0;
        ron__oap_write(c, &h, q->payload, q->payload_len);
        break;
    case RON_OAP_CTL_SUBSCRIBE:
    case RON_OAP_CTL_UNSUBSCRIBE:
        reason = on_subscribe(c, q, head);
        break;
    default:
        break;
    }
    if (reason != RON_OAP_NONE) {
        ron__oap_refuse(c, head, reason);
    }
}

/* ---- handlers -------------------------------------------------------------------------------- */

/* NONE, or why a request of this app is not begun now. */
static enum ron_oap_reason gate(const struct oap_conn *c, const struct ron_oap_app *app)
{
    if (app == NULL) {
        return RON_OAP_NOT_FOUND;
    }
    if (c->w->draining && (app->flags & RON_OAP_ALWAYS) == 0) {
        return RON_OAP_DRAINING;
    }
    if (c->in_flight + c->part_count >= c->w->server->opts.flow_max &&
        (app->flags & RON_OAP_INLINE) == 0) {
        return RON_OAP_FLOW;
    }
    return RON_OAP_NONE;
}

/* Takes the part; the reply has it when the handler deferred. */
static void dispatch(struct oap_conn *c, const struct ron_oap_request *q,
                     struct oap_part *take_part)
{
    struct ron_oap_head head = {
        .flags = q->flags, .app = q->app, .corr_id = q->corr_id, .tenant = q->tenant};
    const struct ron_oap_app *app = find_app(c->w->server, q->app);
    struct ron_oap_call call = {.c = c, .request = q, .part = take_part};
    enum ron_oap_reason reason;

    ron_stat_bump(&c->w->requests, 1);
    if (q->app == 0) {
        on_control(c, q, &head);
    } else {
        reason = gate(c, app);
        if (reason != RON_OAP_NONE) {
            ron__oap_refuse(c, &head, reason);
        } else {
            ron__oap_span_begin(c->w, app, q, &call.span);
            app->handle(&call, app->arg);
            if (!call.answered && call.reply == NULL) {
                call.status = ron_oap_error_of(RON_OAP_INTERNAL).status;
                ron__oap_refuse(c, &head, RON_OAP_INTERNAL);
            }
            if (call.reply == NULL) {
                ron__oap_span_end(c->w, &call.span, q->corr_id, call.status);
            }
        }
    }
    if (take_part != NULL && call.reply == NULL) {
        ron__oap_part_free(c->w, take_part);
    }
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static struct oap_part *find_part(struct oap_conn *c, const struct ron_oap_head *head)
{
    RON_LIST_FOREACH(node, &c->parts)
    {
        struct oap_part *p = RON_LIST_ENTRY(node, struct oap_part, link);

        if (p->head.corr_id == head->corr_id && p->head.tenant == head->tenant) {
            return p;
        }
    }
    return NULL;
}

static void part_refuse(struct oap_conn *c, struct oap_part *p, const struct ron_oap_head *head,
                        enum ron_oap_reason reason)
{
    p->discard = true;
    ron_buf_done(&p->bytes);
    ron_buf_init(&p->bytes, 1);
    ron__oap_refuse(c, head, reason);
}

static void part_end(struct oap_conn *c, struct oap_part *p)
{
    ron_list_remove(&p->link);
    c->part_count--;
    if (p->discard) {
        ron__oap_part_free(c->w, p);
        return;
    }
    p->head.cap = ron_buf_data(&p->bytes);
    p->head.payload = p->head.cap + p->head.cap_len;
    p->head.payload_len = ron_buf_len(&p->bytes) - p->head.cap_len;
    dispatch(c, &p->head, p);
}

static void part_piece(struct oap_conn *c, struct oap_part *p, const struct ron_oap_frame *f)
{
    uint64_t have = ron_buf_len(&p->bytes) - (p->discard ? 0 : p->head.cap_len);

    if (f->head.app != p->head.app || f->head.code != p->head.code) {
        ron__oap_refuse(c, &f->head, RON_OAP_ORDER);
        return;
    }
    if (!p->discard && (f->head.flags & ~(unsigned)RON_OAP_FLAGS_OFFERED) != 0) {
        part_refuse(c, p, &f->head, RON_OAP_UNSUPPORTED);
    }
    if (!p->discard && have + f->payload_len > c->w->server->opts.message_max) {
        part_refuse(c, p, &f->head, RON_OAP_MESSAGE);
    }
    if (!p->discard && !ron__oap_part_add(c, p, f->payload, f->payload_len)) {
        part_refuse(c, p, &f->head, RON_OAP_MEMORY);
    }
    if ((f->head.flags & RON_OAP_END) != 0) {
        part_end(c, p);
    }
}

/* The context that TRACE told right before this frame; it is for no other. */
static struct ron_trace_ctx trace_of(const struct oap_conn *c, const struct ron_oap_head *head)
{
    if (!c->traced || c->trace_corr != head->corr_id || c->trace_tenant != head->tenant) {
        return (struct ron_trace_ctx){0};
    }
    return c->trace;
}

static void on_trace(struct oap_conn *c, const struct ron_oap_frame *f)
{
    c->traced = true;
    c->trace_corr = f->head.corr_id;
    c->trace_tenant = f->head.tenant;
    ron_oap_trace_read(f->payload, f->payload_len, &c->trace);
}

static void part_begin(struct oap_conn *c, const struct ron_oap_frame *f, bool offered)
{
    struct oap_part *p;
    enum ron_oap_reason reason =
        offered ? gate(c, find_app(c->w->server, f->head.app)) : RON_OAP_UNSUPPORTED;

    if (c->part_count >= OAP_PARTS_MAX) {
        ron__oap_refuse(c, &f->head, RON_OAP_PIECES);
        return;
    }
    p = ron__oap_part_new(c, f);
    if (p == NULL) {
        ron__oap_refuse(c, &f->head, RON_OAP_MEMORY);
        return;
    }
    p->head.trace = trace_of(c, &f->head);
    ron_list_push_back(&c->parts, &p->link);
    c->part_count++;
    if (reason != RON_OAP_NONE) {
        part_refuse(c, p, &f->head, reason);
    } else if (!ron__oap_part_add(c, p, f->cap, f->head.cap_len)) {
        part_refuse(c, p, &f->head, RON_OAP_MEMORY);
    }
    part_piece(c, p, f);
}

static void on_request(struct oap_conn *c, const struct ron_oap_frame *f)
{
    unsigned piece = f->head.flags & RON_OAP_PIECE_MASK;
    bool offered = (f->head.flags & ~(unsigned)RON_OAP_FLAGS_OFFERED) == 0;
    struct oap_part *p = c->part_count == 0 ? NULL : find_part(c, &f->head);

    if (p != NULL && (piece & RON_OAP_START) == 0) {
        part_piece(c, p, f);
    } else if (p != NULL || piece == RON_OAP_END || (piece == RON_OAP_START && f->head.app == 0)) {
        ron__oap_refuse(c, &f->head, RON_OAP_ORDER);
    } else if (piece == RON_OAP_START) {
        part_begin(c, f, offered);
    } else if (!offered) {
        ron__oap_refuse(c, &f->head, RON_OAP_UNSUPPORTED);
    } else {
        struct ron_oap_request q = {.app = f->head.app,
                                    .code = f->head.code,
                                    .flags = f->head.flags,
                                    .corr_id = f->head.corr_id,
                                    .tenant = f->head.tenant,
                                    .cap = f->cap,
                                    .cap_len = f->head.cap_len,
                                    .payload = f->payload,
                                    .payload_len = f->payload_len,
                                    .trace = trace_of(c, &f->head)};
        dispatch(c, &q, NULL);
    }
}

/* The events that a client has. */
static void on_event(struct oap_conn *c, const struct ron_oap_frame *f)
{
    if (f->head.app == 0 && f->head.code == RON_OAP_CTL_CANCEL) {
        ron__oap_reply_cancel(c, f->head.corr_id, f->head.tenant);
    } else if (f->head.app == 0 && f->head.code == RON_OAP_CTL_TRACE) {
        on_trace(c, f);
    } else {
        ron__oap_refuse(c, &f->head, RON_OAP_KIND);
    }
}

void ron__oap_frame(struct oap_conn *c, const struct ron_oap_frame *f)
{
    unsigned kind = f->head.flags & RON_OAP_KIND_MASK;

    switch (kind) {
    case RON_OAP_REQ:
        on_request(c, f);
        c->traced = false;
        break;
    case RON_OAP_EVENT:
        on_event(c, f);
        break;
    default:
        ron__oap_refuse(c, &f->head, RON_OAP_ORDER); /* An answer to nothing. */
        break;
    }
    c->begun = true;
}

/* ---- for the handler ------------------------------------------------------------------------- */

const struct ron_oap_request *ron_oap_request(const struct ron_oap_call *call)
{
    return call->request;
}

struct ron_deadline ron_oap_deadline(const struct ron_oap_call *call)
{
    const struct oap_worker *w = call->c->w;

    return ron_deadline_after_ms(w->now_ms * RON_NS_PER_MS, w->server->opts.request_timeout_ms);
}

const struct ron_trace_ctx *ron_oap_trace(const struct ron_oap_call *call)
{
    return &call->span.ctx;
}

const struct ron_peer *ron_oap_peer(const struct ron_oap_call *call)
{
    return &call->c->peer;
}

static struct ron_oap_head answer_head(struct ron_oap_call *call, uint16_t status)
{
    const struct ron_oap_request *q = call->request;

    RON_ASSERT(!call->answered);
    RON_ASSERT(call->reply == NULL);
    call->answered = true;
    call->status = status;
    return (struct ron_oap_head){.flags = RON_OAP_RESP,
                                 .code = status,
                                 .app = q->app,
                                 .corr_id = q->corr_id,
                                 .tenant = q->tenant};
}

void ron_oap_answer(struct ron_oap_call *call, uint16_t status, const void *payload, size_t len)
{
    struct ron_oap_head head = answer_head(call, status);

    if (len > call->c->w->server->opts.answer_max) {
        ron__oap_refuse(call->c, &head, RON_OAP_INTERNAL);
    } else {
        ron__oap_write(call->c, &head, payload, len);
    }
}

void ron_oap_fail_with(struct ron_oap_call *call, const struct ron_oap_error *error)
{
    char room[1024];
    struct ron_buf body;

    ron_buf_init_over(&body, room, sizeof room);
    ron_oap_envelope(&body, error, call->request->corr_id);
    if (ron_buf_error(&body) != RON_OK) {
        struct ron_oap_head head = answer_head(call, error->status);

        ron__oap_refuse(call->c, &head, RON_OAP_INTERNAL);
        return;
    }
    ron_oap_answer(call, error->status, ron_buf_data(&body), ron_buf_len(&body));
}

void ron_oap_refuse(struct ron_oap_call *call, enum ron_oap_reason reason)
{
    struct ron_oap_head head = answer_head(call, ron_oap_error_of(reason).status);

    RON_ASSERT(reason != RON_OAP_NONE);
    RON_ASSERT(!ron_oap_reason_fatal(reason));
    ron__oap_refuse(call->c, &head, reason);
}
