/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/request.c - from a complete head to the handler: gates, limits, body,
 * call.
 *
 * Order of checks: draining, rate, inflight; then size; then the route's own "no" (404, 405, a bad
 * parameter), which waits for the body to be read so that the connection stays usable. What a gate
 * refuses is not read any more: the connection closes unless the body is there already.
 *
 * Bodies: one that fits behind its head stays in the connection's buffer. Others, and chunked ones,
 * grow in `spill` as their bytes arrive (announcing a length costs us nothing), counted against the
 * memory that the server sets aside for all of them. */
#include <string.h>

#include "http/server/priv.h"
#include "http/server/server_testing.h"
#include "http/syntax/syntax.h"
#include "ron/base/assert.h"

enum { READ_PIECE = 65536 };

/* ---- deadlines and gates --------------------------------------------------------------------- */

static bool is_streamed(const struct http_conn *c)
{
    const struct http_route *route = c->in->match.route;

    return route != NULL && (route->def->flags & RON_HTTP_STREAM) != 0;
}

static void set_deadline(struct http_conn *c, const struct ron_http_head *head)
{
    struct http_worker *w = c->w;
    uint64_t at = is_streamed(c) ? UINT64_MAX /* from the end of the body on */
                                 : c->start_ms + w->server->opts.request_timeout_ms;

    at = RON_MIN(at, ron_sat_add_u64(c->start_ms, head->timeout_ms));
    if (head->deadline_unix_ms != UINT64_MAX) {
        uint64_t wall_ms = w->wall_ms + (w->now_ms - w->date_read_ms);
        uint64_t left =
            head->deadline_unix_ms > wall_ms ? head->deadline_unix_ms - wall_ms : UINT64_C(0);

        at = RON_MIN(at, ron_sat_add_u64(w->now_ms, left));
    }
    c->deadline_ms = at;
}

/* One token of whoever asks: the client that the service knows, else the address or instance. */
static enum ron_rc take_token(struct http_conn *c, uint64_t *ret_wait_ns)
{
    struct ron_http_server *s = c->w->server;

    if (ron_au32_load(&s->rate_on) == 0) {
        return RON_OK;
    }
    if (s->opts.client_key != NULL) {
        struct ron_str key = s->opts.client_key(s->opts.client_key_arg, &c->in->parser.head);

        if (key.len > 0) {
            return ron_limiter_take(s->limiter, key.ptr, key.len, ret_wait_ns);
        }
    }
    return ron_limiter_take_ref(s->limiter, c->bucket, c->w->now_ms * RON_NS_PER_MS, ret_wait_ns);
}

static enum ron_http_reason pass_gates(struct http_conn *c, uint32_t *ret_retry_s)
{
    struct ron_http_server *s = c->w->server;
    const struct http_route *route = c->in->match.route;
    uint32_t flags = route == NULL ? 0 : route->def->flags;
    uint64_t wait_ns = 0;

    if ((flags & RON_HTTP_ALWAYS) != 0) {
        return RON_HTTP_NONE;
    }
    if (c->w->draining) {
        return RON_HTTP_DRAINING;
    }
    if (take_token(c, &wait_ns) != RON_OK) {
        *ret_retry_s = (uint32_t)ron_retry_after_s(wait_ns);
        return RON_HTTP_RATE;
    }
    if (route != NULL && (flags & RON_HTTP_INLINE) == 0 &&
        ron_au32_load(&s->inflight) >= s->opts.inflight_max) {
        return RON_HTTP_BUSY;
    }
    return RON_HTTP_NONE;
}

/* ---- body ------------------------------------------------------------------------------------ */

void ron__http_spill_release(struct http_worker *w, struct ron_buf *spill, uint64_t *charged)
{
    if (*charged != 0) {
        (void)ron_au64_add(&w->server->body_memory, 0 - *charged); /* minus */
        *charged = 0;
        ron_buf_done(spill);
    }
}

/* Counts what the spill has grown to. */
enum ron_http_reason ron__http_spill_charge(struct http_conn *c)
{
    struct ron_http_server *s = c->w->server;
    uint64_t more = c->spill.cap - c->charged;

    if (more == 0) {
        return RON_HTTP_NONE;
    }
    c->charged += more;
    return ron_au64_add(&s->body_memory, more) + more > s->opts.body_memory_max ? RON_HTTP_MEMORY
                                                                                : RON_HTTP_NONE;
}

static enum ron_http_reason spill_add(struct http_conn *c, const char *bytes, size_t len)
{
    enum ron_rc rc = ron_buf_append(&c->spill, bytes, len);

    c->body_bytes += len;
    return rc == RON_OK ? ron__http_spill_charge(c) : RON_HTTP_MEMORY;
}

/* The request ends here with an error, and with it the connection. */
static bool give_up(struct http_conn *c, enum ron_http_reason reason)
{
    c->keep = false;
    ron__http_fail_conn(c, reason, 0);
    ron__http_request_done(c);
    return true;
}

/* Bytes behind the head that nobody has taken yet. */
static size_t waiting(const struct http_conn *c)
{
    return c->in_len - c->in_at - c->used;
}

static bool dispatch(struct http_conn *c);
static bool dispatch_streamed(struct http_conn *c);

/* Reads straight into the spill, never past the end of the body. */
static bool read_spill(struct http_conn *c, enum ron_http_reason *ret_reason)
{
    size_t want = c->body_left < READ_PIECE ? (size_t)c->body_left : READ_PIECE;
    uint8_t *room = NULL;
    size_t got = 0;

    if (!c->readable) {
        return false;
    }
    if (ron_buf_reserve(&c->spill, want, &room) != RON_OK) {
        *ret_reason = RON_HTTP_MEMORY;
        return false;
    }
    *ret_reason = ron__http_spill_charge(c);
    if (*ret_reason != RON_HTTP_NONE) {
        return false;
    }
    if (!ron__http_read(c, room, want, &got)) {
        return false;
    }
    ron_buf_commit(&c->spill, got);
    c->body_left -= got;
    c->body_bytes += got;
    return true;
}

static bool length_body(struct http_conn *c)
{
    enum ron_http_reason reason = RON_HTTP_NONE;
    size_t n = waiting(c);
    bool more = false;

    if (!c->spilled) {
        uint64_t whole = c->in->parser.head.content_length;

        if (n < whole) {
            c->body_bytes = n;
            return ron__http_fill(c);
        }
        c->used += (uint32_t)whole;
        return dispatch(c);
    }
    n = n < c->body_left ? n : (size_t)c->body_left;
    if (n > 0) {
        reason = spill_add(c, c->in->bytes + c->in_at + c->used, n);
        c->used += (uint32_t)n;
        c->body_left -= n;
    }
    if (c->body_left > 0 && reason == RON_HTTP_NONE) {
        more = read_spill(c, &reason);
    }
    if (reason != RON_HTTP_NONE) {
        return give_up(c, reason);
    }
    return c->body_left == 0 ? dispatch(c) : more;
}

static bool chunked_body(struct http_conn *c)
{
    for (;;) {
        const char *from = c->in->bytes + c->in_at + c->used;
        size_t used = 0;
        size_t at = 0;
        size_t len = 0;
        enum ron_http_step step =
            ron_http_chunked_feed(&c->chunked, from, waiting(c), &used, &at, &len);
        enum ron_http_reason reason = c->chunked.reason;

        if (step == RON_HTTP_MORE && len > 0) {
            reason = spill_add(c, from + at, len);
        }
        if (reason != RON_HTTP_NONE) {
            return give_up(c, reason);
        }
        c->used += (uint32_t)used;
        if (step == RON_HTTP_DONE) {
            return dispatch(c);
        }
        if (len == 0) {
            /* All is taken: what lies behind the head is free again. */
            c->used = c->in->parser.head.bytes;
            c->in_len = c->in_at + c->used;
            return ron__http_fill(c);
        }
    }
}

bool ron__http_request_body(struct http_conn *c)
{
    return c->in->parser.head.chunked ? chunked_body(c) : length_body(c);
}

/* ---- begin ----------------------------------------------------------------------------------- */

/* A chunked body needs room behind its head to be read into. A head that was pipelined behind
 * others may lie at the end of the buffer: move it to the front and read it again. */
static void make_chunk_room(struct http_conn *c)
{
    struct http_in *in = c->in;
    size_t len = c->in_len - c->in_at;
    enum ron_http_step step;

    if (c->in_at == 0) {
        return;
    }
    memmove(in->bytes, in->bytes + c->in_at, len);
    c->in_at = 0;
    c->in_len = (uint32_t)len;
    ron_http_parser_init(&in->parser, &c->w->server->limits);
    step = ron_http_parse(&in->parser, in->bytes, len);
    RON_ASSERT(step == RON_HTTP_DONE); /* the same bytes */
}

static void say_continue(struct http_conn *c)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const struct ron_http_head *head = &c->in->parser.head;

    if (head->expects_continue && head->minor == 1 && waiting(c) == 0 &&
        (head->chunked || head->content_length > 0)) {
        (void)ron_buf_append(&c->w->out, go_on, sizeof go_on - 1); /* The flush sees a failure. */
    }
}

/* The content coding of the body, if it has one that we are to undo. */
static enum ron_http_reason find_coding(struct http_conn *c)
{
    struct ron_str value = {0};
    enum ron_rc rc;

    if ((c->in->match.route->def->flags & RON_HTTP_RAW) != 0) {
        return RON_HTTP_NONE;
    }
    rc = ron_http_field_get(&c->in->parser.head, "Content-Encoding", &value);
    if (rc == RON_OK) {
        rc = ron_inflate_coding_parse(value, &c->coding);
        c->coded = rc == RON_OK;
    }
    return rc == RON_OK || rc == RON_NOTFOUND ? RON_HTTP_NONE : RON_HTTP_CONTENT_CODING;
}

static void prepare_body(struct http_conn *c)
{
    const struct ron_http_head *head = &c->in->parser.head;
    size_t room = sizeof c->in->bytes - c->in_at - c->used;

    c->body_start_ms = c->w->now_ms;
    c->body_bytes = 0;
    c->body_left = head->content_length;
    c->spilled = head->chunked || head->content_length > room;
    if (c->spilled) {
        ron_buf_init(&c->spill, c->body_max == 0 ? 1 : (size_t)c->body_max);
        ron_http_chunked_init(&c->chunked, c->body_max);
    }
    say_continue(c);
}

static bool refuse_early(struct http_conn *c, enum ron_http_reason reason, uint32_t retry_s)
{
    const struct ron_http_head *head = &c->in->parser.head;

    if (head->chunked || waiting(c) < head->content_length) {
        c->keep = false;
    } else {
        c->used += (uint32_t)head->content_length;
    }
    ron__http_fail_conn(c, reason, retry_s);
    ron__http_request_done(c);
    return true;
}

bool ron__http_request_begin(struct http_conn *c)
{
    struct http_worker *w = c->w;
    struct ron_http_server *s = w->server;
    const struct ron_http_head *head = &c->in->parser.head;
    const struct http_match *m = &c->in->match;
    enum ron_http_reason reason;
    uint32_t retry_s = 0;

    if (head->chunked || head->content_length > sizeof c->in->bytes - c->in_at - head->bytes) {
        make_chunk_room(c);
    }
    c->state = HTTP_BODY;
    c->used = head->bytes;
    c->keep = head->keep_alive && !w->draining;
    ron_stat_bump(&w->requests, 1);
    ron__http_route_find(s->routes, s->opts.route_count, c->listener->places, head, c->in->decoded,
                         &c->in->match);
    set_deadline(c, head);
    c->refusal = m->reason;
    reason = pass_gates(c, &retry_s);
    c->body_max = m->route != NULL && m->route->def->body_max != 0 ? m->route->def->body_max
                                                                   : s->opts.body_max;
    if (reason == RON_HTTP_NONE && head->content_length > c->body_max) {
        reason = RON_HTTP_BODY_LARGE;
    }
    c->coded = false;
    if (reason == RON_HTTP_NONE && m->route != NULL &&
        (head->chunked || head->content_length > 0)) {
        reason = find_coding(c);
    }
    if (reason != RON_HTTP_NONE) {
        return refuse_early(c, reason, retry_s);
    }
    if (is_streamed(c)) {
        return dispatch_streamed(c);
    }
    prepare_body(c);
    return true;
}

/* ---- call ------------------------------------------------------------------------------------ */

static void add_allow(struct ron_http_call *call, uint32_t allow)
{
    char text[64];
    struct ron_buf list;

    ron_buf_init_over(&list, text, sizeof text);
    if (allow & 1u << RON_HTTP_GET) {
        allow |= 1u << RON_HTTP_HEAD;
    }
    allow |= 1u << RON_HTTP_OPTIONS;
    for (int m = 0; m < RON_HTTP_METHOD_COUNT; m++) {
        if (allow & 1u << m) {
            (void)ron_buf_append_text(&list, ron_buf_len(&list) == 0 ? "" : ", ");
            (void)ron_buf_append_text(&list, ron_http_method_name((enum ron_http_method)m));
        }
    }
    RON_IGNORE(ron_http_add_header(
        call, "Allow", (struct ron_str){(const char *)ron_buf_data(&list), ron_buf_len(&list)}));
}

/* No route took it. */
static void answer_refusal(struct ron_http_call *call)
{
    const struct ron_http_head *head = ron_http_head(call);
    uint32_t allow = call->c->in->match.allow;
    bool asks_all = head->target.ptr[0] == '*';

    if (head->method == RON_HTTP_OPTIONS && (allow != 0 || asks_all)) {
        add_allow(call, asks_all ? (1u << RON_HTTP_METHOD_COUNT) - 1 : allow);
        ron_http_answer(call, 204, NULL, NULL, 0);
        return;
    }
    if (call->c->refusal == RON_HTTP_NOT_ALLOWED) {
        add_allow(call, allow);
    }
    ron_http_fail(call, call->c->refusal);
}

/* The body as it lies in the connection's buffer or in the spill. */
static struct ron_str body_of(const struct http_conn *c)
{
    const struct ron_http_head *head = &c->in->parser.head;

    return c->spilled
               ? (struct ron_str){(const char *)ron_buf_data(&c->spill), ron_buf_len(&c->spill)}
               : (struct ron_str){c->in->bytes + c->in_at + head->bytes,
                                  (size_t)head->content_length};
}

static bool dispatch(struct http_conn *c)
{
    struct http_worker *w = c->w;
    const struct http_route *route = c->in->match.route;
    enum ron_http_reason bad = c->coded ? ron__http_decode(c, body_of(c)) : RON_HTTP_NONE;
    struct ron_http_call call;

    ron__http_call_init(&call, c);
    if (bad != RON_HTTP_NONE) {
        ron_http_fail(&call, bad); /* All of it was read: the connection stays. */
    } else if (c->refusal != RON_HTTP_NONE) {
        answer_refusal(&call);
    } else if (w->now_ms >= c->deadline_ms) {
        ron_http_fail(&call, RON_HTTP_DEADLINE);
    } else {
        call.body = body_of(c);
        ron__http_trace_begin(c);
        route->def->handle(&call, route->def->arg);
        RON_ASSERT_MSG(!call.streaming, "route %s began an answer and did not end it",
                       route->def->pattern);
        if (call.reply != NULL) {
            RON_ASSERT(!call.answered);
            c->reply = call.reply;
            c->state = HTTP_WAIT;
            return false;
        }
        if (!call.answered) {
            ron_http_fail(&call, RON_HTTP_INTERNAL);
        }
    }
    ron__http_request_done(c);
    return true;
}

/* The head is there, the body is not: the handler takes it in pieces, or answers without it. */
static bool dispatch_streamed(struct http_conn *c)
{
    const struct ron_http_head *head = &c->in->parser.head;
    const struct ron_http_route *def = c->in->match.route->def;
    bool here = !head->chunked && waiting(c) >= head->content_length;
    bool keep = c->keep;
    struct ron_http_call call;

    c->body_start_ms = c->w->now_ms;
    c->body_bytes = 0;
    c->body_left = head->content_length;
    ron_http_chunked_init(&c->chunked, c->body_max);
    c->keep = keep && here; /* An answer without the body leaves it unread. */
    ron__http_call_init(&call, c);
    if (c->w->now_ms >= c->deadline_ms) {
        ron_http_fail(&call, RON_HTTP_DEADLINE);
    } else {
        ron__http_trace_begin(c);
        def->handle(&call, def->arg);
        RON_ASSERT_MSG(!call.streaming, "route %s began an answer and did not end it",
                       def->pattern);
    }
    if (call.reply != NULL) {
        RON_ASSERT(!call.answered);
        c->keep = keep;
        c->reply = call.reply;
        c->state = HTTP_UPLOAD;
        say_continue(c);
        return true;
    }
    if (!call.answered) {
        ron_http_fail(&call, RON_HTTP_INTERNAL);
    }
    c->used += here ? (uint32_t)head->content_length : 0;
    ron__http_request_done(c);
    return true;
}

void ron__http_request_done(struct http_conn *c)
{
    struct http_in *in = c->in;

    ron__http_spill_release(c->w, &c->spill, &c->charged);
    c->spilled = false;
    c->stalled = false;
    if (!c->keep) {
        c->closing = true;
    }
    c->state = HTTP_IDLE;
    c->start_ms = c->w->now_ms;
    c->progress_ms = c->w->now_ms;
    if (in == NULL) {
        return;
    }
    c->in_at += c->used;
    c->used = 0;
    if (c->in_at == c->in_len) {
        c->in_at = 0;
        c->in_len = 0;
    } else {
        c->state = HTTP_HEAD;
    }
    ron_http_parser_init(&in->parser, &c->w->server->limits);
}

/* ---- looking, for handlers ------------------------------------------------------------------- */

const struct ron_http_head *ron_http_head(const struct ron_http_call *call)
{
    return &call->c->in->parser.head;
}

struct ron_str ron_http_body(const struct ron_http_call *call)
{
    return call->body;
}

struct ron_str ron_http_param(const struct ron_http_call *call, size_t index)
{
    RON_ASSERT(index < call->c->in->match.count);
    return call->c->in->match.params[index].text;
}

uint64_t ron_http_param_u64(const struct ron_http_call *call, size_t index)
{
    RON_ASSERT(index < call->c->in->match.count);
    RON_ASSERT(call->c->in->match.params[index].is_number);
    return call->c->in->match.params[index].number;
}

struct ron_str ron_http_corr_id(const struct ron_http_call *call)
{
    return call->corr_id;
}

struct ron_deadline ron_http_deadline(const struct ron_http_call *call)
{
    return call->deadline;
}

void ron_http_peer(const struct ron_http_call *call, char *buf, size_t size)
{
    const struct http_peer *p = &call->c->peer;
    struct ron_addr addr = {.kind = p->kind, .port = p->port};

    RON_ASSERT(size >= RON_ADDR_MAX);
    memcpy(addr.ip, p->ip, sizeof addr.ip);
    RON_ASSERT(ron_addr_format(&addr, buf, size) == RON_OK);
}

bool ron_http_peer_uid(const struct ron_http_call *call, uint32_t *ret_uid)
{
    const struct http_peer *p = &call->c->peer;

    if (!p->has_uid) {
        return false; /* no word of the system is not the word for root */
    }
    *ret_uid = p->uid;
    return true;
}
