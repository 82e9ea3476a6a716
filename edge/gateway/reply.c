/* SPDX-License-Identifier: Apache-2.0 */
/* edge/gateway/reply.c - what a client of the gateway gets: stored answers as their origin gave
 * them, and heads of answers that pass through.
 *
 * Place: service, on loops, workers and the client's task. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "edge/gateway/gateway.h"
#include "edge/rules/surrogate.h"
#include "ron/base/assert.h"
#include "ron/http/date.h"
#include "ron/http/stream.h"

/* ---- fields ---------------------------------------------------------------------------------- */

static void add(struct edg_out *out, struct ron_str name, struct ron_str value)
{
    char text[256];

    if (name.len >= sizeof text) {
        return; /* No field that anybody reads has such a name. */
    }
    (void)snprintf(text, sizeof text, "%.*s", (int)name.len, name.ptr);
    if (out->call != NULL) {
        (void)ron_http_add_header(out->call, text, value);
    } else {
        (void)ron_http_reply_add_header(out->reply, text, value);
    }
}

static void add_number(struct edg_out *out, const char *name, uint64_t n)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRIu64, n);

    add(out, ron_str_of(name), (struct ron_str){text, (size_t)len});
}

/* Behind the origin's own, if it sent some. */
static void add_ours(struct edg_out *out, const struct edg_status *status)
{
    char memory[EDG_STATUS_MAX];
    struct ron_buf text;

    ron_buf_init_over(&text, memory, sizeof memory);
    if (edg_status_write(status, &text) == RON_OK) {
        add(out, ron_str_of("Cache-Status"),
            (struct ron_str){(const char *)ron_buf_data(&text), ron_buf_len(&text)});
    }
    add(out, ron_str_of("Via"), ron_str_of("1.1 " EDG_PSEUDONYM));
}

/* Of a field that describes the bytes, which a 304 and a 412 do not have. */
static bool of_content(struct ron_str name)
{
    struct ron_str start = {name.ptr, RON_MIN(name.len, (size_t)8)};

    return ron_str_is_nocase(start, "Content-") && !ron_str_is_nocase(name, "Content-Location");
}

static void add_stored(struct edg_out *out, const struct edg_extra *x,
                       const struct ron_http_selection *a)
{
    struct edg_fields fields = x->stored->fields;
    bool bare = a->status == 304 || a->status == 412 || a->status == 416;
    char date[RON_HTTP_DATE_SIZE];

    for (size_t i = 0; i < fields.count; i++) {
        struct ron_str name = fields.at[i].name;

        if (!ron_str_is_nocase(name, "Age") && !ron_str_is_nocase(name, EDG_SURROGATE) &&
            !(bare && of_content(name)) &&
            !(a->status == 206 && ron_str_is_nocase(name, "Content-Range"))) {
            add(out, name, fields.at[i].value);
        }
    }
    if (!edg_fields_has(fields, "Date")) {
        ron_http_date_format(x->stored->life.response_ms / 1000, date);
        add(out, ron_str_of("Date"), (struct ron_str){date, RON_HTTP_DATE_LEN});
    }
    if ((a->with & RON_HTTP_WITH_CONTENT_RANGE) != 0) {
        add(out, ron_str_of("Content-Range"),
            (struct ron_str){a->content_range, a->content_range_len});
    }
    add_number(out, "Age", x->age_s);
    add_ours(out, &x->status);
}

/* ---- stored answers -------------------------------------------------------------------------- */

/* The date that If-Modified-Since is compared with: Last-Modified, else when it was made (RFC 9111
 * 4.3.2). For the conditions that need a validator only the former will do. */
static uint64_t mtime_of(const struct ron_http_head *head, const struct edg_stored *stored,
                         uint64_t now_s)
{
    struct edg_fields request = edg_fields_of(head);
    uint64_t mtime_s;

    if (edg_date(stored->fields, "Last-Modified", now_s, &mtime_s) == RON_OK) {
        return mtime_s;
    }
    if (!edg_fields_has(request, "If-Modified-Since") ||
        edg_fields_has(request, "If-Unmodified-Since") || edg_fields_has(request, "If-Range")) {
        return RON_HTTP_NO_MTIME;
    }
    return edg_date(stored->fields, "Date", now_s, &mtime_s) == RON_OK
               ? mtime_s
               : stored->life.response_ms / 1000;
}

static void choose(struct edg_out *out, const struct edg_stored *stored,
                   struct ron_http_selection *ret)
{
    uint64_t now_s = ron_env_wall_ms(out->site->env) / 1000;
    struct ron_http_etag etag;
    struct ron_str value;
    bool tagged = edg_fields_get(stored->fields, "ETag", &value) == 1 &&
                  ron_http_etag_parse(value, &etag) == RON_OK;
    struct ron_http_repr repr = {.size = stored->size,
                                 .etag = tagged ? &etag : NULL,
                                 .mtime_s = mtime_of(out->head, stored, now_s)};

    *ret = (struct ron_http_selection){
        .status = stored->status, .with = RON_HTTP_WITH_CONTENT, .length = stored->size};
    if (stored->status == 200) { /* Conditions and ranges are about what is there. */
        ron_http_select(out->head, &repr, now_s, ret);
    }
}

static void release_object(void *arg)
{
    ron_cas_release(arg);
}

/* Bytes that do not lie in one piece, one after the other; a thread that may block. */
static void stream(struct edg_out *out, struct ron_cas_obj *take_obj,
                   const struct ron_http_selection *a)
{
    struct ron_deadline deadline = ron_http_reply_deadline(out->reply);
    uint64_t at = a->status == 206 ? a->ranges[0].first : 0;
    uint64_t left = a->length;
    enum ron_rc rc = ron_http_reply_begin(
        out->reply, &(struct ron_http_stream_opts){.status = a->status, .length = a->length});

    RON_ASSERT_MSG(out->reply != NULL, "a loop does not wait for a client");
    if (rc != RON_OK) {
        edg_fail(out, EDG_ERROR_BUSY);
        ron_cas_release(take_obj);
        return;
    }
    while (left > 0 && rc == RON_OK) {
        struct ron_cas_slice slice =
            ron_cas_slice(take_obj, at, RON_MIN(left, (uint64_t)RON_HTTP_PIECE_BYTES));

        RON_ASSERT_MSG(slice.len > 0, "an object has all of its bytes");
        RON_ASSERT_MSG(slice.len <= left, "a slice is no longer than asked for");
        rc = ron_http_reply_write_wait(out->reply, slice.bytes, (size_t)slice.len, deadline);
        at += slice.len;
        left -= slice.len;
    }
    if (rc == RON_OK) {
        ron_http_reply_end(out->reply);
    } else {
        ron_http_reply_abort(out->reply);
    }
    ron_cas_release(take_obj);
}

/* 412 and 416 go out as the application would send them, without our envelope, which is what counts
 * refusals elsewhere. */
static void count(struct edg_site *site, const struct ron_http_selection *a, bool body)
{
    if (!body && a->status == 412) {
        edg_count_of(site, EDG_M_REJECTS, edg_error_label(EDG_ERROR_PRECONDITION), 1);
        return;
    }
    if (!body && a->status == 416) {
        edg_count_of(site, EDG_M_RANGES, "416", 1);
        edg_count_of(site, EDG_M_REJECTS, edg_error_label(EDG_ERROR_INVALID_RANGE), 1);
        return;
    }
    edg_count_of(site, EDG_M_RANGES, "206", a->status == 206);
    edg_count_hit(site, EDG_FROM_GATEWAY, a->status == 206, body ? a->length : 0);
}

void edg_gateway_answer(struct edg_out *out, struct ron_cas_obj *take_obj,
                        const struct edg_extra *extra)
{
    const struct edg_stored *stored = extra->stored;
    struct ron_http_blob blob = {.bytes = "", .release = release_object, .arg = take_obj};
    struct ron_http_selection a;
    bool body;

    RON_ASSERT(extra->stored->origin == EDG_GATEWAY);
    RON_ASSERT_MSG(take_obj != NULL || extra->stored->size == 0,
                   "only an empty answer has no object");
    choose(out, stored, &a);
    body = a.status == stored->status || a.status == 206;
    count(out->site, &a, body);
    add_stored(out, extra, &a);
    if (take_obj != NULL && !edg_object_is_plain(take_obj) && body) {
        stream(out, take_obj, &a);
        return;
    }
    if (take_obj != NULL && body) {
        struct ron_cas_slice all = ron_cas_slice(take_obj, 0, ron_cas_obj_size(take_obj));

        blob.bytes = all.bytes;
        blob.fd = all.fd;
        blob.offset = (all.bytes != NULL ? 0 : all.off) + (a.status == 206 ? a.ranges[0].first : 0);
        blob.length = a.length;
    }
    if (out->call != NULL) {
        ron_http_answer_blob(out->call, a.status, NULL, &blob);
    } else {
        ron_http_reply_send_blob(out->reply, a.status, NULL, &blob);
    }
}

/* ---- answers that pass through --------------------------------------------------------------- */

/* How many bytes its body has, as far as the origin says. */
static uint64_t length_of(struct edg_fields response)
{
    struct ron_str text;
    uint64_t n;

    return !edg_fields_has(response, "Transfer-Encoding") &&
                   edg_fields_get(response, "Content-Length", &text) == 1 &&
                   ron_http_parse_u64(text, &n) == RON_OK
               ? n
               : RON_HTTP_UNKNOWN;
}

enum ron_rc edg_gateway_begin(struct edg_out *out, int status, struct edg_fields response,
                              const struct edg_status *status_text, struct ron_waker *waker)
{
    RON_ASSERT(out->reply != NULL);
    for (size_t i = 0; i < response.count; i++) {
        if (edg_hop_keeps(EDG_HOP_ANSWER, response, response.at[i].name) &&
            !ron_str_is_nocase(response.at[i].name, EDG_SURROGATE)) {
            add(out, response.at[i].name, response.at[i].value);
        }
    }
    add_ours(out, status_text);
    return ron_http_reply_begin(
        out->reply, &(struct ron_http_stream_opts){
                        .status = status, .length = length_of(response), .waker = waker});
}

enum edg_error edg_gateway_error(enum ron_http_fetch_reason reason)
{
    switch ((int)reason) {
    case RON_HTTP_FETCH_DENIED_HOST:
    case RON_HTTP_FETCH_DENIED_ADDRESS:
        return EDG_ERROR_NOT_ALLOWED;
    case RON_HTTP_FETCH_TIMEOUT_CONNECT:
    case RON_HTTP_FETCH_TIMEOUT_TOTAL:
        return EDG_ERROR_UPSTREAM_SLOW;
    case RON_HTTP_FETCH_FULL:
    case RON_HTTP_FETCH_MEMORY:
        return EDG_ERROR_BUSY;
    case RON_HTTP_FETCH_CANCELLED:
        return EDG_ERROR_DRAINING;
    default:
        return EDG_ERROR_UPSTREAM;
    }
}
