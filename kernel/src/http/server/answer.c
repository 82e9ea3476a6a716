/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/answer.c - heads, envelopes and bodies of answers.
 *
 * Place: http, on the worker that owns the connection.
 *
 * Invariants (how the bytes leave is in out.c):
 *   A1 nothing that came from outside is put into a head unchecked: names are tokens, values hold
 *      no controls. */
#include <string.h>

#include "http/server/priv.h"
#include "http/server/server_testing.h"
#include "http/syntax/chars.h"
#include "http/syntax/syntax.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"

enum {
    /* Room for the fixed lines of a head; type and text are bounded below. */
    HEAD_ROOM = 512,
    TYPE_MAX = 128,
    COPY_MAX = 4096, /* smaller bodies are gathered, larger ones written from their place */
};

/* ---- pieces ---------------------------------------------------------------------------------- */

static char *put(char *at, const char *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

#define PUT(at, literal) put((at), (literal), sizeof(literal) - 1)

static char *put_decimal(char *at, uint64_t n)
{
    char digits[20];
    size_t i = sizeof digits;

    do {
        digits[--i] = (char)('0' + n % 10);
        n /= 10;
    } while (n != 0);
    return put(at, digits + i, sizeof digits - i);
}

enum ron_rc ron__http_add_header(struct ron_buf *extra, const char *name, struct ron_str value)
{
    struct ron_str n = {name, strlen(name)};

    if (!ron_http_is_token(n) || !ron_http_is_value(value)) {
        return RON_INVALID; /* A1 */
    }
    (void)ron_buf_append(extra, name, n.len);
    (void)ron_buf_append(extra, ": ", 2);
    (void)ron_buf_append(extra, value.ptr, value.len);
    return ron_buf_append(extra, "\r\n", 2); /* The first failure sticks. */
}

bool ron__http_is_date(const char *name)
{
    return (name[0] | 0x20) == 'd' &&
           ron_str_is_nocase((struct ron_str){name, strlen(name)}, "date");
}

void ron__http_add_error_fields(struct ron_buf *extra, const struct ron_http_error *e)
{
    char text[20];
    char *end;

    if (e->status == 401) { /* which must say how to do better (RFC 9110, 15.5.2) */
        RON_IGNORE(ron__http_add_header(extra, "WWW-Authenticate", (struct ron_str){"Bearer", 6}));
    }
    if (e->status == 429 || e->status == 503 || e->retry_after_s != 0) {
        end = put_decimal(text, e->retry_after_s == 0 ? 1 : e->retry_after_s);
        RON_IGNORE(ron__http_add_header(extra, "Retry-After",
                                        (struct ron_str){text, (size_t)(end - text)}));
    }
}

void ron__http_envelope(struct ron_buf *out, const struct ron_http_error *e, struct ron_str corr_id)
{
    struct ron_json_writer w;

    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_text(&w, "code", e->code);
    ron_json_text(&w, "message", e->message);
    ron_json_bool(&w, "retryable", e->retryable);
    ron_json_str(&w, "corr_id", corr_id);
    ron_json_text(&w, "reason", e->reason);
    ron_json_close(&w, '}');
}

/* ---- heads ----------------------------------------------------------------------------------- */

/* Never a body, whatever the handler says. */
static bool has_no_content(int status)
{
    return status == 204 || status == 304;
}

static void write_head(struct http_conn *c, const struct http_answer *a)
{
    struct http_worker *w = c->w;
    const char *text = ron_http_status_text(a->status);
    size_t type_len = a->content_type == NULL ? 0 : strlen(a->content_type);
    size_t extra_len = a->extra == NULL ? 0 : ron_buf_len(a->extra);
    uint8_t *room = NULL;
    char *p;

    RON_ASSERT(a->status >= 100 && a->status <= 599);
    RON_ASSERT(type_len <= TYPE_MAX);
    if (ron_buf_reserve(&w->out, HEAD_ROOM + extra_len, &room) != RON_OK) {
        return; /* It sticks; the flush sees it. */
    }
    p = (char *)room;
    p = PUT(p, "HTTP/1.1 ");
    p = put_decimal(p, (uint64_t)a->status);
    *p++ = ' ';
    p = put(p, text, strlen(text));
    p = PUT(p, "\r\n");
    if (!a->dated) {
        p = put(p, w->date, w->date_len);
    }
    if (type_len > 0) {
        p = PUT(p, "Content-Type: ");
        p = put(p, a->content_type, type_len);
        p = PUT(p, "\r\n");
    }
    if (has_no_content(a->status)) {
        /* RFC 9112 6.1: there it would announce what cannot come. */
    } else if (a->chunked) {
        p = PUT(p, "Transfer-Encoding: chunked\r\n");
    } else if (a->length != UINT64_MAX) {
        p = PUT(p, "Content-Length: ");
        p = put_decimal(p, a->length);
        p = PUT(p, "\r\n");
    }
    p = PUT(p, "X-Corr-ID: ");
    p = put(p, a->corr_id.ptr, a->corr_id.len);
    p = PUT(p, "\r\n");
    if (!c->keep) {
        p = PUT(p, "Connection: close\r\n");
    }
    if (extra_len > 0) {
        p = put(p, (const char *)ron_buf_data(a->extra), extra_len);
    }
    p = PUT(p, "\r\n");
    ron_buf_commit(&w->out, (size_t)(p - (char *)room));
}

/* Whether its head is whole, and still there. */
static bool is_parsed(const struct http_conn *c)
{
    return c->state >= HTTP_BODY && c->in != NULL;
}

static bool is_head_request(const struct http_conn *c)
{
    return is_parsed(c) && c->in->parser.head.method == RON_HTTP_HEAD;
}

static void count_answer(struct http_conn *c, const struct http_answer *a)
{
    struct http_worker *w = c->w;
    const struct ron_http_opts *o = &w->server->opts;
    bool parsed = is_parsed(c);
    const struct http_route *route = parsed ? c->in->match.route : NULL;
    struct ron_http_done done = {.route = route == NULL ? NULL : route->def,
                                 .method = parsed ? c->in->parser.head.method : RON_HTTP_GET,
                                 .status = a->status,
                                 .reason = a->reason,
                                 .took_ms = w->now_ms - c->start_ms,
                                 .corr_id = a->corr_id};

    ron_stat_bump(&w->statuses[a->status / 100], 1);
    if (route != NULL) {
        size_t index = (size_t)(route->def - o->routes);
        ron_stat_bump(&w->route_statuses[index * 6 + (size_t)a->status / 100], 1);
    }
    if (o->on_done != NULL) {
        o->on_done(o->on_done_arg, &done);
    }
    if (o->tracer != NULL && parsed) {
        ron__http_trace_end(c, &done);
    }
}

void ron__http_answer_write(struct http_conn *c, const struct http_answer *a, const void *body)
{
    bool no_body = a->head_only || is_head_request(c) || has_no_content(a->status);
    size_t len = a->chunked || a->length == UINT64_MAX || no_body ? 0 : (size_t)a->length;

    write_head(c, a);
    count_answer(c, a);
    if (len > COPY_MAX) {
        ron__http_flush(c, body, len);
    } else {
        (void)ron_buf_append(&c->w->out, body, len); /* A failure sticks; the flush sees it. */
        if (ron_buf_len(&c->w->out) >= HTTP_OUT_FLUSH) {
            ron__http_flush(c, NULL, 0);
        }
    }
}

void ron__http_answer_blob(struct http_conn *c, const struct http_answer *a,
                           const struct ron_http_blob *take_blob)
{
    bool no_body = is_head_request(c) || has_no_content(a->status);

    RON_ASSERT(a->length == take_blob->length);
    write_head(c, a);
    count_answer(c, a);
    if (!no_body && take_blob->length > 0 && !c->dead) {
        ron__http_tail_set(c, take_blob);
    } else {
        ron__http_blob_release(take_blob);
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

static struct ron_str make_corr_id(struct http_worker *w)
{
    struct ron_ulid id = ron_ulid_gen_next(&w->ulids, w->wall_ms + (w->now_ms - w->date_read_ms));

    RON_ASSERT(RON_ULID_TEXT_SIZE <= sizeof w->corr_room);
    ron_ulid_format(&id, w->corr_room);
    return (struct ron_str){w->corr_room, RON_ULID_TEXT_LEN};
}

void ron__http_call_init(struct ron_http_call *call, struct http_conn *c)
{
    bool parsed = is_parsed(c);
    struct ron_str sent = c->reply != NULL ? ron_http_reply_corr_id(c->reply)
                          : parsed         ? c->in->parser.head.corr_id
                                           : (struct ron_str){0};

    *call = (struct ron_http_call){
        .w = c->w,
        .c = c,
        .corr_id = sent.len > 0 ? sent : make_corr_id(c->w),
        .deadline = {.at_ns = ron_sat_mul_u64(c->deadline_ms, RON_NS_PER_MS)},
    };
    ron_buf_clear(&c->w->extra);
}

/* What is counted as refused: 202 has an envelope too, and is none. */
static const char *refusal_of(const struct ron_http_error *error)
{
    return error->status >= 400 ? error->reason : NULL;
}

void ron_http_fail_with(struct ron_http_call *call, const struct ron_http_error *error)
{
    struct http_worker *w = call->w;
    char room[1024];
    struct ron_buf body;

    RON_ASSERT(!call->answered);
    ron_buf_init_over(&body, room, sizeof room);
    ron__http_envelope(&body, error, call->corr_id);
    if (ron_buf_error(&body) != RON_OK) {
        struct ron_http_error internal = ron_http_error_of(RON_HTTP_INTERNAL);

        ron_buf_clear(&body);
        ron__http_envelope(&body, &internal, call->corr_id); /* texts of ours: it fits */
    }
    ron__http_add_error_fields(&w->extra, error);
    call->answered = true;
    ron__http_answer_write(call->c,
                           &(struct http_answer){.status = error->status,
                                                 .content_type = "application/json",
                                                 .extra = &w->extra,
                                                 .corr_id = call->corr_id,
                                                 .dated = call->dated,
                                                 .length = ron_buf_len(&body),
                                                 .reason = refusal_of(error)},
                           ron_buf_data(&body));
}

static void fail_call(struct ron_http_call *call, enum ron_http_reason reason,
                      uint32_t retry_after_s)
{
    const struct ron_http_opts *o = &call->w->server->opts;
    struct ron_http_error e = ron_http_error_of(reason);

    e.retry_after_s = retry_after_s;
    ron_stat_bump(&call->w->rejected[reason], 1);
    if (reason == RON_HTTP_CONTENT_CODING) {
        RON_IGNORE(ron__http_add_header(&call->w->extra, "Accept-Encoding",
                                        (struct ron_str){"gzip, zstd", 10}));
    }
    if (reason == RON_HTTP_BUSY || reason == RON_HTTP_RATE) {
        ron_stat_bump(&call->w->busy, 1);
    }
    if (o->on_refusal != NULL) {
        o->on_refusal(o->on_refusal_arg, call, is_parsed(call->c) ? ron_http_head(call) : NULL, &e);
    }
    ron_http_fail_with(call, &e);
}

void ron_http_fail(struct ron_http_call *call, enum ron_http_reason reason)
{
    fail_call(call, reason, 0);
}

void ron__http_fail_conn(struct http_conn *c, enum ron_http_reason reason, uint32_t retry_after_s)
{
    struct ron_http_call call;

    ron__http_call_init(&call, c);
    fail_call(&call, reason, retry_after_s);
}

void ron__http_late(struct http_conn *c, const struct ron_http_late *late)
{
    struct ron_http_call call;

    if (late == NULL) {
        ron__http_fail_conn(c, RON_HTTP_DEADLINE, 0);
        return;
    }
    ron__http_call_init(&call, c);
    late->handle(&call, late->arg);
    RON_ASSERT(call.answered);
}

/* A header that could not be added makes the answer a lie: 500 instead. */
static bool spoiled(struct ron_http_call *call)
{
    if (!call->bad_header) {
        return false;
    }
    call->bad_header = false;
    call->dated = false;
    ron_buf_clear(&call->w->extra);
    ron_http_fail(call, RON_HTTP_INTERNAL);
    return true;
}

enum ron_rc ron_http_add_header(struct ron_http_call *call, const char *name, struct ron_str value)
{
    enum ron_rc rc = ron__http_add_header(&call->w->extra, name, value);

    call->bad_header = call->bad_header || rc != RON_OK;
    call->dated = call->dated || ron__http_is_date(name);
    return rc;
}

void ron_http_answer(struct ron_http_call *call, int status, const char *content_type,
                     const void *body, size_t len)
{
    RON_ASSERT(!call->answered);
    RON_ASSERT(call->reply == NULL);
    if (spoiled(call)) {
        return;
    }
    call->answered = true;
    ron__http_answer_write(call->c,
                           &(struct http_answer){.status = status,
                                                 .content_type = content_type,
                                                 .extra = &call->w->extra,
                                                 .corr_id = call->corr_id,
                                                 .dated = call->dated,
                                                 .length = len},
                           body);
}

void ron_http_answer_blob(struct ron_http_call *call, int status, const char *content_type,
                          const struct ron_http_blob *take_blob)
{
    RON_ASSERT(!call->answered);
    RON_ASSERT(call->reply == NULL);
    if (spoiled(call)) {
        ron__http_blob_release(take_blob);
        return;
    }
    call->answered = true;
    ron__http_answer_blob(call->c,
                          &(struct http_answer){.status = status,
                                                .content_type = content_type,
                                                .extra = &call->w->extra,
                                                .corr_id = call->corr_id,
                                                .dated = call->dated,
                                                .length = take_blob->length},
                          take_blob);
}

void ron_http_begin(struct ron_http_call *call, int status, const char *content_type)
{
    RON_ASSERT(!call->answered);
    RON_ASSERT(call->reply == NULL);
    if (spoiled(call)) {
        return;
    }
    call->answered = true;
    call->streaming = !is_head_request(call->c) && !has_no_content(status);
    call->bare = call->c->in->parser.head.minor == 0;
    call->c->keep = call->c->keep && !call->bare;
    ron__http_answer_write(call->c,
                           &(struct http_answer){.status = status,
                                                 .content_type = content_type,
                                                 .extra = &call->w->extra,
                                                 .corr_id = call->corr_id,
                                                 .dated = call->dated,
                                                 .length = UINT64_MAX,
                                                 .chunked = !call->bare},
                           NULL);
}

void ron_http_chunk(struct ron_http_call *call, const void *bytes, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    struct ron_buf *out = &call->w->out;
    char size[18];
    size_t i = sizeof size - 2;
    size_t n = len;

    RON_ASSERT(call->answered);
    if (!call->streaming || len == 0) {
        return; /* HEAD, or spoiled; and a chunk of nothing would be the end */
    }
    if (!call->bare) {
        size[sizeof size - 2] = '\r';
        size[sizeof size - 1] = '\n';
        for (; n != 0; n >>= 4) {
            size[--i] = hex[n & 15];
        }
        (void)ron_buf_append(out, size + i, sizeof size - i);
    }
    if (len > COPY_MAX) {
        ron__http_flush(call->c, bytes, len);
    } else {
        (void)ron_buf_append(out, bytes, len);
    }
    if (!call->bare) {
        (void)ron_buf_append(out, "\r\n", 2);
    }
    if (ron_buf_len(out) >= HTTP_OUT_FLUSH) {
        ron__http_flush(call->c, NULL, 0);
    }
}

void ron_http_end(struct ron_http_call *call)
{
    if (call->streaming && !call->bare) {
        (void)ron_buf_append(&call->w->out, "0\r\n\r\n", 5);
    }
    call->streaming = false;
}
