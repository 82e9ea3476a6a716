/* SPDX-License-Identifier: Apache-2.0 */
/* edge/answer/reply.c - from a representation to an answer: conditions, ranges, headers, the same
 * whether a handler or a reader answers.
 *
 * Place: service. A body is always lent (struct ron_http_blob), never copied. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "edge/answer/site.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"
#include "ron/http/date.h"
#include "ron/http/stream.h"

static void add(struct edg_out *out, const char *name, struct ron_str value)
{
    if (out->call != NULL) {
        (void)ron_http_add_header(out->call, name, value);
    } else {
        (void)ron_http_reply_add_header(out->reply, name, value);
    }
}

void edg_fail(struct edg_out *out, enum edg_error error)
{
    struct ron_http_error e = edg_http_error(error);

    RON_ASSERT_MSG((out->call != NULL) != (out->reply != NULL), "a request has one way back");
    edg_add_site(out);
    add(out, "X-Reason", ron_str_of(e.reason));
    if (out->call != NULL) {
        ron_http_fail_with(out->call, &e);
    } else {
        ron_http_reply_fail_with(out->reply, &e);
    }
}

void edg_answer_empty(struct edg_out *out, int status)
{
    if (out->call != NULL) {
        ron_http_answer(out->call, status, NULL, NULL, 0);
    } else {
        ron_http_reply_send(out->reply, status, NULL);
    }
}

void edg_answer_text(struct edg_out *out, int status, const char *type, const struct ron_buf *body)
{
    RON_ASSERT_MSG(out->call != NULL, "texts are answered on the loop");
    edg_add_site(out);
    ron_http_answer(out->call, status, type, ron_buf_data(body), ron_buf_len(body));
}

void edg_site_init(struct edg_site *s, struct ron_app *app, struct edg_reads *reads)
{
    const struct ron_conf_snap *conf = ron_app_conf(app);

    *s = (struct edg_site){.magic = EDG_SITE_MAGIC,
                           .app = app,
                           .env = ron_app_env(app),
                           .conf = conf,
                           .log = ron_app_log(app),
                           .tile_204 = ron_conf_bool(conf, EDG_TILE_204),
                           .hsts = ron_conf_bool(conf, EDG_HSTS) &&
                                   ron_conf_str(conf, RON_APP_TLS_CERT).len > 0,
                           .multipart = ron_conf_bool(conf, EDG_MULTIPART),
                           .cache_control = ron_conf_str(conf, EDG_CACHE_CONTROL).text,
                           .reads = reads};
}

/* What the listener refuses before a route sees it looks like what a route refuses. */
void edg_refusal(void *arg, struct ron_http_call *call, const struct ron_http_head *head,
                 const struct ron_http_error *error)
{
    struct edg_out out = {
        .site = RON_OBJ(arg, struct edg_site, EDG_SITE_MAGIC), .call = call, .head = head};

    edg_add_site(&out);
    add(&out, "X-Reason", ron_str_of(error->reason));
}

/* ---- CORS ------------------------------------------------------------------------------------ */

static bool header_of(const struct ron_http_head *head, const char *name, struct ron_str *ret)
{
    return head != NULL && ron_http_field_get(head, name, ret) == RON_OK;
}

/* Access-Control-Allow-Origin when the request's origin is listed, and Vary. False: it is not, and
 * the browser keeps the answer from the page. */
static bool allow_origin(struct edg_out *out)
{
    struct ron_conf_list list = ron_conf_list(out->site->conf, EDG_CORS);
    struct ron_str origin;

    if (list.count == 0) {
        return false;
    }
    if (list.count == 1 && list.items[0].len == 1 && list.items[0].text[0] == '*') {
        add(out, "Access-Control-Allow-Origin", ron_str_of("*"));
        return true;
    }
    add(out, "Vary", ron_str_of("Origin"));
    if (!header_of(out->head, "Origin", &origin)) {
        return false;
    }
    for (size_t i = 0; i < list.count; i++) {
        if (list.items[i].len == origin.len &&
            memcmp(list.items[i].text, origin.ptr, origin.len) == 0) {
            add(out, "Access-Control-Allow-Origin", origin);
            return true;
        }
    }
    return false;
}

void edg_add_site(struct edg_out *out)
{
    if (!out->stored) {
        add(out, "Referrer-Policy", ron_str_of("no-referrer"));
    }
    if (!out->stored && out->site->hsts) {
        add(out, "Strict-Transport-Security", ron_str_of("max-age=31536000"));
    }
    if (allow_origin(out)) {
        add(out, "Access-Control-Expose-Headers",
            ron_str_of("Accept-Ranges, Age, Cache-Status, Content-Length, Content-Range, ETag, "
                       "Retry-After, X-Corr-ID, X-Reason"));
    }
}

void edg_add_preflight(struct edg_out *out)
{
    if (allow_origin(out)) {
        add(out, "Access-Control-Allow-Methods", ron_str_of("GET, HEAD"));
        add(out, "Access-Control-Allow-Headers",
            ron_str_of("Range, If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, "
                       "If-Range, Cache-Control, Request-Timeout, Deadline, X-Corr-ID"));
        add(out, "Access-Control-Max-Age", ron_str_of("86400"));
    }
}

/* ---- a representation ------------------------------------------------------------------------ */

/* The fields of the origin, except those that the edge writes itself. */
static void add_stored(struct edg_out *out, const struct edg_extra *x,
                       const struct ron_http_selection *a)
{
    static const char *const ours[] = {"Age",  "Accept-Ranges", "Cache-Status",  "Content-Range",
                                       "Date", "ETag",          "Last-Modified", "Vary"};
    bool parts = a->range_count > 1; /* Then the type is that of the parts. */
    static const char *const always[] = {"Cache-Control", "Expires", "Content-Location"};
    struct edg_fields fields = x->stored->fields;
    char memory[EDG_STATUS_MAX];
    struct ron_buf status;
    char text[128];

    for (size_t i = 0; i < fields.count; i++) {
        struct ron_str name = fields.at[i].name;
        bool skip = name.len >= sizeof text;
        bool keep = (a->with & RON_HTTP_WITH_CONTENT) != 0;

        for (size_t j = 0; j < RON_ARRAY_LEN(ours); j++) {
            skip = skip || ron_str_is_nocase(name, ours[j]);
        }
        skip = skip || (parts && ron_str_is_nocase(name, "Content-Type"));
        for (size_t j = 0; j < RON_ARRAY_LEN(always); j++) {
            keep = keep || ron_str_is_nocase(name, always[j]);
        }
        if (keep && !skip) {
            (void)snprintf(text, sizeof text, "%.*s", (int)name.len, name.ptr);
            add(out, text, fields.at[i].value);
        }
    }
    (void)snprintf(text, sizeof text, "%" PRIu64, x->age_s);
    add(out, "Age", ron_str_of(text));
    ron_buf_init_over(&status, memory, sizeof memory);
    if (edg_status_write(&x->status, &status) == RON_OK) {
        add(out, "Cache-Status",
            (struct ron_str){(const char *)ron_buf_data(&status), ron_buf_len(&status)});
    }
}

static void add_fields(struct edg_out *out, const struct edg_content *c,
                       const struct ron_http_selection *a)
{
    char quoted[EDG_TAG_LEN + 2];
    char date[RON_HTTP_DATE_SIZE];

    if ((a->with & RON_HTTP_WITH_ETAG) != 0) {
        quoted[0] = '"';
        memcpy(quoted + 1, c->tag, EDG_TAG_LEN);
        quoted[EDG_TAG_LEN + 1] = '"';
        add(out, "ETag", (struct ron_str){quoted, EDG_TAG_LEN + 2});
    }
    if ((a->with & RON_HTTP_WITH_LAST_MODIFIED) != 0) {
        ron_http_date_format(c->mtime_s, date);
        add(out, "Last-Modified", (struct ron_str){date, RON_HTTP_DATE_LEN});
    }
    if ((a->with & RON_HTTP_WITH_CACHE) != 0 && c->cache_control != NULL &&
        *c->cache_control != '\0') {
        add(out, "Cache-Control", ron_str_of(c->cache_control));
    }
    if ((a->with & RON_HTTP_WITH_CACHE) != 0 && c->vary_encoding) {
        add(out, "Vary", ron_str_of("Accept-Encoding"));
    }
    if ((a->with & RON_HTTP_WITH_ACCEPT_RANGES) != 0) {
        add(out, "Accept-Ranges", ron_str_of("bytes"));
    }
    if ((a->with & RON_HTTP_WITH_CONTENT_RANGE) != 0) {
        add(out, "Content-Range", (struct ron_str){a->content_range, a->content_range_len});
    }
    if ((a->with & RON_HTTP_WITH_CONTENT) != 0 && c->encoding != NULL) {
        add(out, "Content-Encoding", ron_str_of(c->encoding));
    }
    if (c->extra != NULL && a->status != 416 && a->status != 412) {
        add_stored(out, c->extra, a);
    }
}

/* Conditions and ranges, several if `parts`. True: the bytes of `ret_answer` are to be sent, else
 * it is answered. The headers are added in both cases. */
static bool select_part(struct edg_out *out, const struct edg_content *c, bool parts,
                        struct ron_http_selection *ret_answer)
{
    struct ron_http_etag etag = {.opaque = {c->tag, EDG_TAG_LEN}};
    struct ron_http_repr repr = {
        .size = c->blob.length, .etag = &etag, .mtime_s = c->mtime_s, .multipart = parts};

    RON_ASSERT((unsigned)c->source < EDG_SOURCE_COUNT);
    RON_ASSERT_MSG(RON_IMPLIES(c->extra != NULL, c->extra->stored != NULL),
                   "an extra belongs to a stored answer");
    out->stored = c->extra != NULL;
    ron_http_select(out->head, &repr, ron_env_wall_ms(out->site->env) / 1000, ret_answer);
    add_fields(out, c, ret_answer);
    switch (ret_answer->status) {
    case 412:
        edg_fail(out, EDG_ERROR_PRECONDITION);
        return false;
    case 416:
        edg_count_of(out->site, EDG_M_RANGES, "416", 1);
        edg_fail(out, EDG_ERROR_INVALID_RANGE);
        return false;
    case 304:
        edg_count_hit(out->site, c->source, false, 0);
        edg_add_site(out);
        edg_answer_empty(out, 304);
        return false;
    default:
        if (ret_answer->status == 206) {
            edg_count_of(out->site, EDG_M_RANGES, "206", 1);
        }
        edg_count_hit(out->site, c->source, ret_answer->status == 206, ret_answer->length);
        edg_add_site(out);
        return true;
    }
}

void edg_answer(struct edg_out *out, const struct edg_content *take_content)
{
    const struct edg_content *c = take_content;
    struct ron_http_blob part = c->blob;
    struct ron_http_selection a;

    RON_ASSERT_MSG((out->call != NULL) != (out->reply != NULL), "a request has one way back");
    RON_ASSERT_MSG(c->blob.length == 0 || c->blob.bytes != NULL || c->blob.fd >= 0,
                   "content has bytes or a file");
    if (out->call != NULL && edg_parts_asked(out)) {
        edg_parts_submit(out, c);
        return;
    }

    if (!select_part(out, c, out->call == NULL && edg_parts_asked(out), &a)) {
        if (part.release != NULL) {
            part.release(part.arg);
        }
        return;
    }
    if (a.range_count > 1) {
        edg_parts_answer(out, c, &a);
        return;
    }
    RON_ASSERT_MSG(a.length <= c->blob.length, "a part lies inside the whole");
    part.offset += a.status == 206 ? a.ranges[0].first : 0;
    part.length = a.length;
    if (out->call != NULL) {
        ron_http_answer_blob(out->call, a.status, c->type, &part);
    } else {
        ron_http_reply_send_blob(out->reply, a.status, c->type, &part);
    }
}

/* ---- objects of the store -------------------------------------------------------------------- */

bool edg_object_is_plain(const struct ron_cas_obj *obj)
{
    uint64_t size = ron_cas_obj_size(obj);

    return ron_cas_slice(obj, 0, size).len == size;
}

static void release_object(void *arg)
{
    ron_cas_release(arg);
}

static uint64_t mtime_of(const struct edg_extra *extra, uint64_t now_s)
{
    struct ron_str text;
    uint64_t mtime_s;

    return extra != NULL && edg_fields_get(extra->stored->fields, "Last-Modified", &text) == 1 &&
                   ron_http_date_parse(text, now_s, &mtime_s) == RON_OK
               ? mtime_s
               : RON_HTTP_NO_MTIME;
}

/* Bytes that do not lie in one piece, one after the other. */
static void stream(struct edg_out *out, struct ron_cas_obj *obj, const struct ron_http_selection *a,
                   const char *type)
{
    struct ron_deadline deadline = ron_http_reply_deadline(out->reply);
    uint64_t at = a->status == 206 ? a->ranges[0].first : 0;
    uint64_t left = a->length;
    enum ron_rc rc = ron_http_reply_begin(
        out->reply, &(struct ron_http_stream_opts){
                        .status = a->status, .content_type = type, .length = a->length});

    RON_ASSERT_MSG(out->reply != NULL, "a loop does not wait for a client");
    if (rc != RON_OK) {
        edg_fail(out, EDG_ERROR_BUSY);
        return;
    }
    while (left > 0 && rc == RON_OK) {
        struct ron_cas_slice slice =
            ron_cas_slice(obj, at, RON_MIN(left, (uint64_t)RON_HTTP_PIECE_BYTES));

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
}

void edg_answer_object(struct edg_out *out, struct ron_cas_obj *take_obj,
                       const struct edg_extra *extra)
{
    struct ron_cas_slice all = ron_cas_slice(take_obj, 0, ron_cas_obj_size(take_obj));
    struct edg_content c = {.blob = {.bytes = all.bytes,
                                     .fd = all.fd,
                                     .offset = all.bytes != NULL ? 0 : all.off,
                                     .length = ron_cas_obj_size(take_obj),
                                     .release = release_object,
                                     .arg = take_obj},
                            .mtime_s = mtime_of(extra, ron_env_wall_ms(out->site->env) / 1000),
                            /* Of a stored answer it is among its fields. */
                            .type = extra != NULL ? NULL : "application/octet-stream",
                            /* The name of an object is its content: it can never change. */
                            .cache_control =
                                extra != NULL ? NULL : "public, max-age=31536000, immutable",
                            .source = EDG_FROM_CAS,
                            .extra = extra};
    struct ron_http_selection a;

    edg_tag_of(ron_cas_obj_id(take_obj), c.tag);
    if (edg_object_is_plain(take_obj)) {
        edg_answer(out, &c);
        return;
    }
    if (select_part(out, &c, false, &a)) { /* Lies in pieces: one range of it, or the whole. */
        stream(out, take_obj, &a, c.type);
    }
    ron_cas_release(take_obj);
}
