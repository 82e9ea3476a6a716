/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/client/fetch.c - the caller's side of a fetch: checked and copied, asked, read,
 * let go.
 *
 * Everything that can be refused is refused here, before a place is taken; the client's task then
 * only meets the network. Invariants F1-F4 are in priv.h. */
#include <string.h>

#include "http/client/priv.h"
#include "http/syntax/chars.h"
#include "http/syntax/syntax.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"
#include "ron/http/date.h"

/* ---- life ------------------------------------------------------------------------------------ */

void ron__http_fetch_unref(struct ron_http_fetch *f)
{
    struct ron_http_client *c = f->target->client;

    RON_CHECK_MAGIC(f, FETCH_MAGIC);
    if (ron_au32_add(&f->refs, UINT32_MAX) != 1) { /* minus one */
        return;
    }
    ron_buf_done(&f->url);
    ron_buf_done(&f->lines);
    ron_buf_done(&f->body_out);
    ron_buf_done(&f->head_in);
    ron_buf_done(&f->body_in);
    f->magic = 0;
    ron_free(f);
    (void)ron_au32_add(&c->fetches, UINT32_MAX); /* minus one; the client may go from here on */
}

void ron_http_fetch_release(struct ron_http_fetch *f)
{
    if (f != NULL) {
        ron__http_fetch_unref(f);
    }
}

/* Puts the wish into the inbox. False: the client takes no new fetch. */
static bool ask(struct ron_http_fetch *f, uint32_t what)
{
    struct ron_http_client *c = f->target->client;
    struct ron_task *task = NULL;
    bool taken = true;

    ron_mutex_lock(&c->mu);
    if (what == ASK_START && c->closed) {
        taken = false;
    } else if (!f->ended) { /* F4 */
        if (ron_list_empty(&c->inbox)) {
            task = c->task; /* otherwise it has been woken already */
        }
        f->asked |= what;
        if (!ron_list_linked(&f->inbox)) {
            ron_list_push_back(&c->inbox, &f->inbox);
        }
    }
    ron_mutex_unlock(&c->mu);
    /* The task lives as long as its supervisor, which outlives every caller of its clients. */
    if (task != NULL) {
        ron_task_wake(task);
    }
    return taken;
}

void ron_http_fetch_cancel(struct ron_http_fetch *f)
{
    (void)ask(f, ASK_CANCEL);
}

void ron_http_fetch_resume(struct ron_http_fetch *f)
{
    (void)ask(f, ASK_RESUME);
}

/* ---- start ----------------------------------------------------------------------------------- */

/* Names that decide framing or routing are not the caller's; the first two are a relay's. */
static bool header_is_ours(struct ron_str name, bool relay)
{
    static const char *const ours[] = {
        "host",       "accept-encoding", "content-length", "transfer-encoding", "expect",
        "connection", "keep-alive",      "upgrade",        "trailer",           "te"};

    for (size_t i = relay ? 2 : 0; i < RON_ARRAY_LEN(ours); i++) {
        if (ron_str_is_nocase(name, ours[i])) {
            return true;
        }
    }
    return false;
}

static enum ron_rc add_line(struct ron_buf *lines, struct ron_str name, struct ron_str value,
                            struct ron_err *err)
{
    if (!ron_http_is_token(name) || !ron_http_is_value(value)) {
        return ron_err_set(err, RON_INVALID, "a header to send is malformed");
    }
    (void)ron_buf_append(lines, name.ptr, name.len);
    if (value.len == 0) {
        (void)ron_buf_append_text(lines, ";"); /* libcurl's way to say "with no value" */
    } else {
        (void)ron_buf_append_text(lines, ": ");
        (void)ron_buf_append(lines, value.ptr, value.len);
    }
    if (ron_buf_append_byte(lines, 0) != RON_OK) {
        return ron_err_set(err, ron_buf_error(lines), "no room for headers to send");
    }
    return RON_OK;
}

static enum ron_rc add_lines(struct ron_http_fetch *f, const struct ron_http_fetch_opts *o,
                             struct ron_err *err)
{
    if (o->header_count > RON_HTTP_FETCH_HEADERS_MAX || o->field_count > RON_HTTP_HEADERS_MAX) {
        return ron_err_set(err, RON_INVALID, "more than %d headers", RON_HTTP_FETCH_HEADERS_MAX);
    }
    for (size_t i = 0; i < o->header_count + o->field_count; i++) {
        size_t at = i - RON_MIN(i, o->header_count);
        struct ron_http_field field = {0};

        if (i < o->header_count) {
            field.name = (struct ron_str){o->headers[i].name, strlen(o->headers[i].name)};
            field.value = o->headers[i].value;
        } else {
            field = o->fields[at];
        }
        if (header_is_ours(field.name, o->relay)) {
            return ron_err_set(err, RON_INVALID, "header '%.*s' is the client's own",
                               (int)field.name.len, field.name.ptr);
        }
        RON_TRY(add_line(&f->lines, field.name, field.value, err));
    }
    if (o->corr_id.len > 0) {
        if (!ron_http_is_corr_id(o->corr_id)) {
            return ron_err_set(err, RON_INVALID, "a malformed correlation id");
        }
        RON_TRY(add_line(&f->lines, (struct ron_str){"X-Corr-ID", 9}, o->corr_id, err));
    }
    if (ron_trace_ctx_valid(&o->trace)) {
        char parent[RON_TRACEPARENT_LEN + 1];

        ron_traceparent_format(&o->trace, parent);
        RON_TRY(add_line(&f->lines, (struct ron_str){"traceparent", 11},
                         (struct ron_str){parent, RON_TRACEPARENT_LEN}, err));
    }
    return RON_OK;
}

static enum ron_rc check(const struct ron_http_target *t, const struct ron_http_fetch_opts *o,
                         struct ron_err *err)
{
    bool has_body = o->body.len > 0 || o->source != NULL;

    if (o->url == NULL || (size_t)o->method >= RON_HTTP_METHOD_COUNT || o->op >= t->opts.op_count) {
        return ron_err_set(err, RON_INVALID, "%s: a fetch needs url, method and op", t->opts.name);
    }
    if ((o->done == NULL) == (o->done_chan == NULL)) {
        return ron_err_set(err, RON_INVALID, "%s: exactly one of done and done_chan", t->opts.name);
    }
    if (o->field_count > 0 && !o->relay) {
        return ron_err_set(err, RON_INVALID, "%s: fields are a relay's", t->opts.name);
    }
    if (o->source != NULL && (o->body.len > 0 || o->source_len < -1)) {
        return ron_err_set(err, RON_INVALID, "%s: body or source, not both", t->opts.name);
    }
    if (has_body && (o->method == RON_HTTP_GET || o->method == RON_HTTP_HEAD)) {
        return ron_err_set(err, RON_INVALID, "%s: %s has no body", t->opts.name,
                           ron_http_method_name(o->method));
    }
    return RON_OK;
}

static enum ron_rc fill(struct ron_http_fetch *f, const struct ron_http_fetch_opts *o,
                        struct ron_err *err)
{
    struct ron_http_target *t = f->target;
    struct ron_str url = {o->url, strlen(o->url)};
    bool safe = o->method != RON_HTTP_POST && o->method != RON_HTTP_PATCH;

    RON_TRY(ron__http_url_check(t, url, &f->origin, err));
    RON_TRY(add_lines(f, o, err));
    if (ron_buf_append(&f->url, url.ptr, url.len) != RON_OK ||
        ron_buf_append(&f->body_out, o->body.ptr, o->body.len) != RON_OK) {
        enum ron_rc rc = o->body.len > FETCH_BODY_MAX ? RON_INVALID : RON_NOMEM;

        return ron_err_set(err, rc, "%s: no room for url and body", t->opts.name);
    }
    f->opts = *o;
    f->opts.response_max = o->response_max == 0 ? t->opts.response_max
                                                : RON_MIN(o->response_max, t->opts.response_max);
    f->started_ns = ron_env_now_ns(t->client->opts.env);
    f->deadline = ron_deadline_after_ms(f->started_ns, t->opts.total_timeout_ms);
    if (o->deadline.at_ns != 0) {
        f->deadline = ron_deadline_min(f->deadline, o->deadline);
    }
    f->retry = (struct ron_retry){.curve = &t->retry,
                                  .rand = &t->client->rand,
                                  .stats = &t->ops[o->op].retry,
                                  .deadline = f->deadline,
                                  .idempotent = safe || o->idempotent};
    ron_buf_init(&f->body_in, f->opts.response_max);
    return RON_OK;
}

static struct ron_http_fetch *fetch_new(struct ron_http_target *t)
{
    struct ron_http_fetch *f = ron_alloc_zero(sizeof *f);

    if (f != NULL) {
        f->magic = FETCH_MAGIC;
        f->target = t;
        ron_au32_store(&f->refs, 1);
        (void)ron_au32_add(&t->client->fetches, 1);
        ron_buf_init(&f->url, FETCH_URL_MAX + 1);
        ron_buf_init(&f->lines, FETCH_LINES_MAX);
        ron_buf_init(&f->body_out, FETCH_BODY_MAX);
        ron_buf_init(&f->head_in, t->opts.header_max);
        f->result.retry = RON_VERDICT_FINAL;
    }
    return f;
}

/* Takes the places of F1: both gates and, if asked for, room in the channel. */
static enum ron_rc enter(struct ron_http_fetch *f, struct ron_err *err)
{
    struct ron_http_target *t = f->target;

    if (ron_gate_enter(&t->gate) != RON_OK) {
        return ron_err_set(err, RON_FULL, "%s: %u calls are under way", t->opts.name,
                           t->opts.inflight_max);
    }
    if (ron_gate_enter(&t->client->gate) != RON_OK) {
        ron_gate_leave(&t->gate);
        return ron_err_set(err, RON_FULL, "%s: too many calls to all targets", t->opts.name);
    }
    if (f->opts.done_chan != NULL) {
        enum ron_rc rc = ron_chan_reserve(f->opts.done_chan, 1);

        if (rc != RON_OK) {
            ron_gate_leave(&t->client->gate);
            ron_gate_leave(&t->gate);
            return ron_err_set(err, rc, "%s: no room for the answer", t->opts.name);
        }
    }
    return RON_OK;
}

enum ron_rc ron_http_fetch_start(struct ron_http_target *t, const struct ron_http_fetch_opts *opts,
                                 struct ron_http_fetch **ret_fetch, struct ron_err *err)
{
    struct ron_http_fetch *f;
    enum ron_rc rc;

    RON_CHECK_MAGIC(t, TARGET_MAGIC);
    RON_TRY(check(t, opts, err));
    f = fetch_new(t);
    if (f == NULL) {
        return ron_err_set(err, RON_NOMEM, "%s: no memory for a fetch", t->opts.name);
    }
    RON_GOTO(fill(f, opts, err), refuse);
    RON_GOTO(enter(f, err), refuse);
    ron_au32_store(&f->refs, 2);
    if (!ask(f, ASK_START)) {
        ron_gate_leave(&t->client->gate);
        ron_gate_leave(&t->gate);
        if (opts->done_chan != NULL) {
            ron_chan_unreserve(opts->done_chan, 1);
        }
        ron__http_fetch_unref(f);
        rc = ron_err_set(err, RON_CLOSED, "%s: the client has ended", t->opts.name);
        goto refuse;
    }
    ron_stat_add(&t->ops[opts->op].calls, 1);
    *ret_fetch = f; /* it may have ended already; the caller's reference is still there */
    return RON_OK;

refuse:
    ron_stat_add(&t->denied, rc == RON_DENIED);
    ron__http_fetch_unref(f);
    return rc;
}

/* ---- results --------------------------------------------------------------------------------- */

const char *ron_http_fetch_reason_label(enum ron_http_fetch_reason reason)
{
    static const char *const labels[] = {
#define X(name, label, rc, doc) label,
        RON_HTTP_FETCH_REASONS(X)
#undef X
    };

    return (size_t)reason < RON_ARRAY_LEN(labels) ? labels[reason] : "?";
}

const struct ron_http_fetch_result *ron_http_fetch_result(const struct ron_http_fetch *f)
{
    RON_CHECK_MAGIC(f, FETCH_MAGIC);
    return &f->result;
}

int ron_http_fetch_status(const struct ron_http_fetch *f)
{
    return f->result.status;
}

/* The next field at or behind *at, which moves on; false at the end. A status line has no name. */
static bool next_field(const struct ron_http_fetch *f, size_t *at, struct ron_http_field *ret_field)
{
    const char *text = (const char *)ron_buf_data(&f->head_in);
    size_t len = ron_buf_len(&f->head_in);

    while (*at < len) {
        const char *line = text + *at;
        const char *lf = memchr(line, '\n', len - *at);
        const char *stop = lf != NULL ? lf : text + len;
        const char *colon = memchr(line, ':', (size_t)(stop - line));

        *at = (size_t)(stop - text) + 1;
        if (colon != NULL) {
            struct ron_str name = {line, (size_t)(colon - line)};

            *ret_field = (struct ron_http_field){
                name, ron_str_trim((struct ron_str){colon + 1, (size_t)(stop - colon - 1)})};
            if (ron_http_is_token(name)) {
                return true;
            }
        }
    }
    return false;
}

enum ron_rc ron_http_fetch_fields(const struct ron_http_fetch *f, struct ron_http_field *out,
                                  size_t max, size_t *ret_count)
{
    struct ron_http_field field;
    size_t count = 0;
    size_t at = 0;

    while (next_field(f, &at, &field)) {
        if (count == max) {
            return RON_LIMIT;
        }
        out[count++] = field;
    }
    *ret_count = count;
    return RON_OK;
}

enum ron_rc ron_http_fetch_header_get(const struct ron_http_fetch *f, const char *name,
                                      struct ron_str *ret_value)
{
    struct ron_str wanted = {name, strlen(name)};
    struct ron_str found = {0};
    struct ron_http_field field;
    size_t at = 0;

    while (next_field(f, &at, &field)) {
        if (ron_str_equal_nocase(field.name, wanted)) {
            if (found.ptr != NULL) {
                return RON_CONFLICT;
            }
            found = field.value;
        }
    }
    if (found.ptr == NULL) {
        return RON_NOTFOUND;
    }
    *ret_value = found;
    return RON_OK;
}

enum ron_rc ron__http_rc_of_status(int status)
{
    switch (status) {
    case 401:
    case 403:
    case 407:
        return RON_DENIED;
    case 404:
    case 410:
        return RON_NOTFOUND;
    case 408:
    case 504:
        return RON_TIMEOUT;
    case 409:
    case 412:
        return RON_CONFLICT;
    case 413:
        return RON_LIMIT;
    case 429:
        return RON_FULL;
    case 501:
        return RON_UNSUPPORTED;
    case 502:
    case 503:
        return RON_AGAIN;
    default:
        if (status < 400) {
            return RON_OK;
        }
        return status < 500 ? RON_INVALID : RON_IO;
    }
}

/* Seconds, or a date; 0 when absent or malformed. */
uint64_t ron__http_retry_after_ms(const struct ron_http_fetch *f, uint64_t wall_s)
{
    struct ron_str value;
    uint64_t n = 0;

    if (ron_http_fetch_header_get(f, "Retry-After", &value) != RON_OK) {
        return 0;
    }
    if (ron_http_parse_u64(value, &n) == RON_OK) {
        return ron_sat_mul_u64(n, RON_MS_PER_S);
    }
    if (ron_http_date_parse(value, wall_s, &n) == RON_OK && n > wall_s) {
        return ron_sat_mul_u64(n - wall_s, RON_MS_PER_S);
    }
    return 0;
}
