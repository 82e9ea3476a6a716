/* SPDX-License-Identifier: Apache-2.0 */
/* edge/origin/origin.c - one exchange with an origin.
 *
 * An answer is hashed while it streams into the store and is visible there only when
 * it is whole; nothing of it is served before. */
#include "edge/origin/origin.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/http/etag.h"

bool edg_origin_serves(const struct edg_origin *origin, struct ron_str target)
{
    enum edg_ledger_kind kind = origin->ledger ? edg_ledger_kind(target) : EDG_LEDGER_TILE;

    return kind != EDG_LEDGER_OTHER && (kind != EDG_LEDGER_ENTRIES || origin->entries);
}

struct edg_fields edg_origin_request(void)
{
    static const struct ron_http_field fields[] = {
        {{"Accept", 6}, {"*/*", 3}},
        {{"Accept-Encoding", 15}, {"identity", 8}},
    };

    return (struct edg_fields){fields, RON_ARRAY_LEN(fields)};
}

/* The times of a ledger's answers are those of its paths, not what it says to its own clients. */
static void add_control(const struct edg_exchange_opts *o, struct edg_fetched *f, size_t *count)
{
    struct ron_str value =
        edg_ledger_control(edg_ledger_kind(o->target), o->origin->checkpoint_s, f->control);
    size_t kept = 0;

    if (!o->origin->ledger || f->status != 200) {
        return;
    }
    for (size_t i = 0; i < *count; i++) {
        if (!ron_str_is_nocase(f->fields[i].name, "Cache-Control") &&
            !ron_str_is_nocase(f->fields[i].name, "Expires")) {
            f->fields[kept++] = f->fields[i];
        }
    }
    if (kept < EDG_STORED_FIELDS_MAX) {
        f->fields[kept++] = (struct ron_http_field){{"Cache-Control", 13}, value};
    }
    *count = kept;
}

/* ---- one exchange ---------------------------------------------------------------------------- */

static void fail(struct edg_fetched *f, enum edg_outcome outcome, const char *why)
{
    f->outcome = outcome;
    if (f->err.msg[0] == '\0') {
        (void)ron_err_set(&f->err, RON_IO, "%s", why);
    }
}

static enum ron_rc start(const struct edg_exchange_opts *o, struct edg_fetched *f)
{
    struct edg_fields asked = edg_origin_request();
    struct ron_http_fetch_header headers[5];
    struct edg_conditions conditions = {0};
    char bearer[RON_CAP_TEXT_MAX + 8];
    size_t count = 0;
    char *url = ron_alloc(EDG_URL_MAX);
    enum ron_rc rc = RON_NOMEM;
    int len;

    if (url == NULL) {
        return ron_err_set(&f->err, RON_NOMEM, "no memory for a URL");
    }
    for (size_t i = 0; i < asked.count; i++) {
        if (!ron_str_is_nocase(asked.at[i].name,
                               "Accept-Encoding")) { /* The client asks for identity. */
            headers[count++] =
                (struct ron_http_fetch_header){asked.at[i].name.ptr, asked.at[i].value};
        }
    }
    if (o->stale != NULL) {
        edg_conditions(o->stale->fields, &conditions);
    }
    if (conditions.if_none_match.len > 0) {
        headers[count++] =
            (struct ron_http_fetch_header){"If-None-Match", conditions.if_none_match};
    }
    if (conditions.if_modified_since.len > 0) {
        headers[count++] =
            (struct ron_http_fetch_header){"If-Modified-Since", conditions.if_modified_since};
    }
    if (o->origin->token != NULL && edg_ledger_kind(o->target) == EDG_LEDGER_ENTRIES) {
        struct ron_str token = o->origin->token->text;

        len = snprintf(bearer, sizeof bearer, "Bearer %.*s", (int)token.len, token.ptr);
        headers[count++] = (struct ron_http_fetch_header){"Authorization", {bearer, (size_t)len}};
    }
    RON_ASSERT(count <= RON_ARRAY_LEN(headers));
    len = snprintf(url, EDG_URL_MAX, "%s%.*s", o->origin->url, (int)o->target.len, o->target.ptr);
    if (len <= 0 || len >= EDG_URL_MAX) {
        rc = ron_err_set(&f->err, RON_LIMIT, "URL too long");
    } else {
        edg_pipe_reset(o->pipe);
        rc = ron_http_fetch_start(o->origin->target,
                                  &(struct ron_http_fetch_opts){.method = RON_HTTP_GET,
                                                                .url = url,
                                                                .headers = headers,
                                                                .header_count = count,
                                                                .sink = edg_pipe_sink,
                                                                .patient = true,
                                                                .deadline = o->deadline,
                                                                .done = edg_pipe_end,
                                                                .arg = o->pipe},
                                  &f->fetch, &f->err);
    }
    ron_free(url);
    return rc;
}

/* Takes the bytes as they come. The first failure of the store ends the fetch; its end is waited
 * for in every case, because it uses the pipe. */
static enum ron_rc take_body(const struct edg_exchange_opts *o, struct edg_fetched *f,
                             struct ron_cas_writer **ret_writer)
{
    const struct ron_cas_write_opts opts = {.pin = o->pin};
    struct ron_cas_writer *w = NULL;
    struct ron_str piece;
    enum ron_rc rc = RON_OK;

    while (edg_pipe_next(o->pipe, f->fetch, ron_deadline_never(), &piece) == RON_OK) {
        if (rc == RON_OK && w == NULL) {
            rc = ron_cas_begin(o->store, &opts, &w, &f->err);
        }
        if (rc == RON_OK) {
            rc = ron_cas_append(w, piece.ptr, piece.len, &f->err);
            f->size += piece.len;
        }
        if (rc != RON_OK) {
            ron_http_fetch_cancel(f->fetch);
        }
    }
    if (rc == RON_OK && w == NULL && ron_http_fetch_result(f->fetch)->status == 200) {
        rc = ron_cas_begin(o->store, &opts, &w, &f->err); /* an empty body is one, too */
    }
    *ret_writer = w;
    return rc;
}

static enum edg_outcome outcome_of(const struct ron_http_fetch_result *r, bool asked)
{
    enum ron_http_fetch_reason why = r->reason;

    if (why == RON_HTTP_FETCH_ANSWERED && r->status == 200) {
        return EDG_OUTCOME_FILLED;
    }
    if (why == RON_HTTP_FETCH_ANSWERED && r->status == 304 && asked) {
        return EDG_OUTCOME_SAME;
    }
    if (why == RON_HTTP_FETCH_ANSWERED || why == RON_HTTP_FETCH_STATUS) {
        return r->status >= 500 || r->status == 429 || r->status == 408 ? EDG_OUTCOME_FAILED
                                                                        : EDG_OUTCOME_ABSENT;
    }
    return why == RON_HTTP_FETCH_DENIED_HOST || why == RON_HTTP_FETCH_DENIED_ADDRESS ||
                   why == RON_HTTP_FETCH_REDIRECTS
               ? EDG_OUTCOME_NOT_ALLOWED
           : why == RON_HTTP_FETCH_TOO_LARGE ? EDG_OUTCOME_TOO_LARGE
           : why == RON_HTTP_FETCH_TIMEOUT_CONNECT || why == RON_HTTP_FETCH_TIMEOUT_TOTAL
               ? EDG_OUTCOME_TIMEOUT
               : EDG_OUTCOME_FAILED;
}

/* Whether the answer has one strong entity tag. */
static bool has_strong_tag(const struct ron_http_fetch *f)
{
    struct ron_http_etag etag;
    struct ron_str value;

    return ron_http_fetch_header_get(f, "ETag", &value) == RON_OK &&
           ron_http_etag_parse(value, &etag) == RON_OK && !etag.weak;
}

static void judge(const struct edg_exchange_opts *o, struct edg_fetched *f,
                  struct ron_cas_writer *take_writer)
{
    const struct ron_http_fetch_result *r = ron_http_fetch_result(f->fetch);
    size_t count = 0;

    f->status = r->status;
    f->outcome = outcome_of(r, o->stale != NULL);
    if (ron_http_fetch_fields(f->fetch, f->fields, EDG_STORED_FIELDS_MAX, &count) != RON_OK) {
        fail(f, EDG_OUTCOME_FAILED, "response has too many header fields");
    }
    add_control(o, f, &count);
    f->exchange = (struct edg_exchange){.method = RON_HTTP_GET,
                                        .request = edg_origin_request(),
                                        .status = r->status,
                                        .response = {f->fields, count},
                                        .request_ms = ron_env_wall_ms(o->env) - r->took_ms,
                                        .response_ms = ron_env_wall_ms(o->env)};
    if (f->outcome == EDG_OUTCOME_FILLED && o->origin->require_etag && !has_strong_tag(f->fetch)) {
        fail(f, EDG_OUTCOME_ETAG_INVALID, "origin sent no strong entity tag");
    }
    if (f->outcome == EDG_OUTCOME_FILLED) {
        RON_ASSERT_MSG(take_writer != NULL, "an answer of 200 has a writer, even if it is empty");
        if (ron_cas_commit(take_writer, &f->id, &f->err) != RON_OK) {
            fail(f, EDG_OUTCOME_STORE, "cannot write to the content store");
        }
    } else {
        ron_cas_abort(take_writer);
        fail(f, f->outcome, r->message);
    }
}

void edg_exchange_run(const struct edg_exchange_opts *o, struct edg_fetched *ret)
{
    struct ron_cas_writer *w = NULL;
    enum ron_rc rc;

    RON_ASSERT(o->origin != NULL);
    RON_ASSERT(o->store != NULL);
    RON_ASSERT(o->pipe != NULL);
    RON_ASSERT_MSG(o->target.len > 0 && o->target.ptr[0] == '/', "a target begins with a slash");
    *ret = (struct edg_fetched){.outcome = EDG_OUTCOME_FAILED};
    rc = start(o, ret);
    if (rc != RON_OK) {
        ret->fetch = NULL;
        ret->outcome = rc == RON_DENIED || rc == RON_INVALID ? EDG_OUTCOME_NOT_ALLOWED
                       : rc == RON_NOMEM                     ? EDG_OUTCOME_MEMORY
                                                             : EDG_OUTCOME_FAILED;
        return;
    }
    rc = take_body(o, ret, &w);
    if (rc != RON_OK) {
        ron_cas_abort(w);
        fail(ret, EDG_OUTCOME_STORE, ""); /* What is too large was refused by the client before. */
        return;
    }
    judge(o, ret, w);
}

void edg_exchange_done(struct edg_fetched *f)
{
    if (f->fetch != NULL) {
        ron_http_fetch_release(f->fetch);
        f->fetch = NULL;
    }
}
