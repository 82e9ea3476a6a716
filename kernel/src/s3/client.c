/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - the S3 client: options, life, counters, and the operations of one request. */
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/http/range.h"
#include "s3_priv.h"

enum {
    TIMEOUT_MS = 30000,
    TRY_TIMEOUT_MS = 10000, /* without a byte that moved */
    PART_BYTES = 8 << 20,   /* 10,000 of them are more than the largest object here */
    INFLIGHT_MAX = 64,
    HOST_SIZE = 300,
};

/* ---- options --------------------------------------------------------------------------------- */

static bool only(const char *text, size_t min, size_t max, const char *more)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              strchr(more, c) != NULL)) {
            return false;
        }
    }
    return len >= min && len <= max;
}

/* The authority as libcurl writes it into Host: without the port of the scheme. */
static enum ron_rc host_of(const char *endpoint, char ret[HOST_SIZE], struct ron_err *err)
{
    const char *at = strstr(endpoint, "://");
    bool plain = strncmp(endpoint, "http://", 7) == 0;
    const char *port = plain ? ":80" : ":443";
    size_t len;

    at = at != NULL ? at + 3 : endpoint;
    len = strcspn(at, "/?#");
    if (at[len] != '\0' && strcmp(at + len, "/") != 0) {
        return ron_err_set(err, RON_INVALID, "s3.endpoint: a URL without a path");
    }
    if (len > strlen(port) && strncmp(at + len - strlen(port), port, strlen(port)) == 0) {
        len -= strlen(port);
    }
    if (len == 0 || len >= HOST_SIZE) {
        return ron_err_set(err, RON_INVALID, "s3.endpoint: no host, or too long a one");
    }
    memcpy(ret, at, len);
    ret[len] = '\0';
    return only(ret, 1, HOST_SIZE, ".-:[]") && strpbrk(ret, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == NULL
               ? RON_OK
               : ron_err_set(err, RON_INVALID, "s3.endpoint: a host in small letters");
}

enum ron_rc ron_s3_check(const struct ron_s3_opts *o, struct ron_err *err)
{
    char host[HOST_SIZE];
    bool plain = false;

    if (ron_http_url_authority(o->endpoint, host, sizeof host, &plain, err) != RON_OK) {
        ron_err_prefix(err, "s3.endpoint");
        return RON_INVALID;
    }
    RON_TRY(host_of(o->endpoint, host, err));
    if (plain && !o->allow_http) {
        return ron_err_set(err, RON_INVALID, "s3.endpoint: http:// needs s3.allow_http = true");
    }
    if (!only(o->bucket, 3, 63, ".-_")) {
        return ron_err_set(err, RON_INVALID, "s3.bucket: 3 to 63 letters, digits, dots and dashes");
    }
    if (!only(o->region, 1, 63, "-_")) {
        return ron_err_set(err, RON_INVALID, "s3.region: letters, digits and dashes");
    }
    if (!only(o->prefix, 0, RON_S3_PREFIX_MAX, "/._-") || o->prefix[0] == '/' ||
        strstr(o->prefix, "//") != NULL || strstr(o->prefix, "..") != NULL) {
        return ron_err_set(err, RON_INVALID,
                           "s3.prefix: letters, digits and ._-/, with no slash first");
    }
    if (!only(o->access_key, 1, 128, "-_./+=")) {
        return ron_err_set(err, RON_INVALID, "s3.access_key: missing or malformed");
    }
    if (o->part_bytes != 0 &&
        (o->part_bytes < RON_S3_PART_MIN || o->part_bytes > RON_S3_PART_MAX)) {
        return ron_err_set(err, RON_INVALID, "s3.part_bytes: 5 MiB to 64 MiB");
    }
    return RON_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

static enum ron_rc count_in(struct ron_s3 *s, struct ron_metrics *m, struct ron_err *err)
{
    s->requests = ron_metrics_name(m, RON_M_S3_REQUESTS);
    s->bytes = ron_metrics_name(m, RON_M_S3_BYTES);
    s->seconds = ron_metrics_name(m, RON_M_S3_SECONDS);
    ron__s3_count_bytes(s, "in", 0);
    ron__s3_count_bytes(s, "out", 0);
    for (int op = 0; op < RON_S3_OP_COUNT; op++) {
        (void)ron_metric_series(s->requests, ron__s3_op_label((enum ron_s3_op)op), "ok");
    }
    return ron_collect_http_client(m, s->client, err);
}

static enum ron_rc add_target(struct ron_s3 *s, const struct ron_s3_opts *o, struct ron_err *err)
{
    static const struct ron_retry_curve curve = {.tries_max = 3,
                                                 .first_ms = 100,
                                                 .factor = 3,
                                                 .base_max_ms = 1000,
                                                 .jitter_pct = 100,
                                                 .any_5xx = true};
    static const char *const op_names[] = {
#define X(name, label) label,
        RON_S3_OPS(X)
#undef X
    };
    char host[HOST_SIZE];
    const char *hosts[] = {host};
    bool plain = false;

    RON_TRY(ron_http_url_authority(o->endpoint, host, sizeof host, &plain, err));
    return ron_http_client_add(
        s->client,
        &(struct ron_http_target_opts){
            .name = "s3",
            .hosts = hosts,
            .host_count = 1,
            .ops = op_names,
            .op_count = RON_S3_OP_COUNT,
            /* The operator names it, nobody else can: it may stand on a private network. */
            .flags = RON_HTTP_TARGET_LOOPBACK | RON_HTTP_TARGET_PRIVATE |
                     (plain ? (uint32_t)RON_HTTP_TARGET_PLAIN : 0),
            .retry = &curve,
            .breaker = ron_breaker_preset(RON_BREAKER_LEDGER),
            .inflight_max = INFLIGHT_MAX,
            .connect_timeout_ms = RON_MIN(s->timeout_ms, (uint32_t)3000),
            .try_timeout_ms = RON_MIN(s->timeout_ms, (uint32_t)TRY_TIMEOUT_MS),
            .total_timeout_ms = s->timeout_ms,
            .response_max = RON_S3_PART_MAX,
            .ca_file = o->ca_file},
        &s->target, err);
}

static enum ron_rc copy_texts(struct ron_s3 *s, const struct ron_s3_opts *o, struct ron_err *err)
{
    char host[HOST_SIZE];
    size_t len = strlen(o->endpoint);

    RON_TRY(host_of(o->endpoint, host, err));
    s->endpoint = ron_strdup(o->endpoint);
    s->host = ron_strdup(host);
    s->bucket = ron_strdup(o->bucket);
    s->region = ron_strdup(o->region);
    s->prefix = ron_strdup(o->prefix);
    s->access_key = ron_strdup(o->access_key);
    if (s->endpoint == NULL || s->host == NULL || s->bucket == NULL || s->region == NULL ||
        s->prefix == NULL || s->access_key == NULL ||
        ron_secret_set(&s->secret, ron_secret_reveal(o->secret), ron_secret_len(o->secret)) !=
            RON_OK) {
        return ron_err_set(err, RON_NOMEM, "no memory for the S3 client");
    }
    if (s->endpoint[len - 1] == '/') {
        s->endpoint[len - 1] = '\0';
    }
    return RON_OK;
}

enum ron_rc ron_s3_new(const struct ron_s3_opts *o, struct ron_s3 **ret_s3, struct ron_err *err)
{
    struct ron_s3 *s;
    enum ron_rc rc;

    RON_TRY(ron_s3_check(o, err));
    if (ron_secret_len(o->secret) == 0) {
        return ron_err_set(err, RON_INVALID, "s3: a secret key is needed");
    }
    s = ron_alloc_zero(sizeof *s);
    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the S3 client");
    }
    s->magic = RON__S3_MAGIC;
    s->env = o->env;
    s->timeout_ms = o->timeout_ms != 0 ? o->timeout_ms : TIMEOUT_MS;
    s->part_bytes = o->part_bytes != 0 ? o->part_bytes : PART_BYTES;
    s->ended = o->ended;
    s->ended_arg = o->ended_arg;
    RON_GOTO(copy_texts(s, o, err), refuse);
    RON_GOTO(ron_http_client_new(
                 &(struct ron_http_client_opts){
                     .name = "s3", .env = o->env, .registry = o->registry, .stage = o->stage},
                 &s->client, err),
             refuse);
    RON_GOTO(add_target(s, o, err), refuse);
    if (o->metrics != NULL) {
        RON_GOTO(count_in(s, o->metrics, err), refuse);
    }
    *ret_s3 = s;
    return RON_OK;

refuse:
    ron_s3_free(s);
    return rc;
}

enum ron_rc ron_s3_attach(struct ron_s3 *s, struct ron_sup *sup, struct ron_err *err)
{
    RON_CHECK_MAGIC(s, RON__S3_MAGIC);
    s->shutdown = ron_sup_shutdown(sup);
    return ron_http_client_attach(s->client, sup, err);
}

void ron_s3_free(struct ron_s3 *s)
{
    if (s == NULL) {
        return;
    }
    RON_CHECK_MAGIC(s, RON__S3_MAGIC);
    if (s->client != NULL) {
        (void)ron_http_client_free(s->client);
    }
    ron_secret_done(&s->secret);
    ron_free(s->endpoint);
    ron_free(s->host);
    ron_free(s->bucket);
    ron_free(s->region);
    ron_free(s->prefix);
    ron_free(s->access_key);
    s->magic = 0;
    ron_free(s);
}

uint32_t ron_s3_part_bytes(const struct ron_s3 *s)
{
    return s->part_bytes;
}

void ron__s3_count_bytes(struct ron_s3 *s, const char *direction, uint64_t bytes)
{
    if (s->bytes != NULL) {
        ron_counter_add(ron_metric_series(s->bytes, direction), bytes);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool header_u64(const struct ron_http_fetch *f, const char *name, uint64_t *ret)
{
    struct ron_str value;

    return ron_http_fetch_header_get(f, name, &value) == RON_OK &&
           ron_http_parse_u64(value, ret) == RON_OK;
}

/* "bytes 0-4/10": where the part lies and how large the whole is. */
static bool content_range(const struct ron_http_fetch *f, uint64_t *ret_first, uint64_t *ret_total)
{
    struct ron_str value;
    struct ron_str first;
    const char *dash;
    const char *slash;

    if (ron_http_fetch_header_get(f, "Content-Range", &value) != RON_OK || value.len < 6 ||
        memcmp(value.ptr, "bytes ", 6) != 0) {
        return false;
    }
    first = (struct ron_str){value.ptr + 6, value.len - 6};
    dash = memchr(first.ptr, '-', first.len);
    slash = memchr(first.ptr, '/', first.len);
    if (dash == NULL || slash == NULL || slash < dash) {
        return false;
    }
    return ron_http_parse_u64((struct ron_str){first.ptr, (size_t)(dash - first.ptr)}, ret_first) ==
               RON_OK &&
           ron_http_parse_u64(
               (struct ron_str){slash + 1, first.len - (size_t)(slash + 1 - first.ptr)},
               ret_total) == RON_OK;
}

static void take_etag(const struct ron_http_fetch *f, char *ret)
{
    struct ron_str value;

    ret[0] = '\0';
    if (ron_http_fetch_header_get(f, "ETag", &value) == RON_OK && value.len <= RON_S3_ETAG_MAX) {
        memcpy(ret, value.ptr, value.len);
        ret[value.len] = '\0';
    }
}

/* Whether the answer is the part that was asked for, to the byte (B2). */
static bool is_part(const struct ron_http_fetch *f, uint64_t off, uint64_t len,
                    struct ron_s3_got *got)
{
    int status = ron_http_fetch_status(f);
    uint64_t first = 0;
    uint64_t wanted;

    got->bytes = ron_http_fetch_result(f)->body;
    if (status == 200) { /* a server that does not know ranges: only for the whole */
        got->total = got->bytes.len;
        return off == 0 && got->bytes.len <= len;
    }
    if (status != 206 || !content_range(f, &first, &got->total) || first != off ||
        off >= got->total) {
        return false;
    }
    wanted = RON_MIN(len, got->total - off);
    return got->bytes.len == wanted;
}

enum ron_rc ron_s3_get(struct ron_s3 *s, const char *key, uint64_t off, uint64_t len,
                       const char *if_match, struct ron_deadline deadline,
                       struct ron_s3_got *ret_got, struct ron_err *err)
{
    struct ron__s3_call call = {.op = RON_S3_GET,
                                .method = RON_HTTP_GET,
                                .key = key,
                                .query = "",
                                .response_max = RON_MAX(len, (uint64_t)RON__S3_ANSWER_MAX),
                                .deadline = deadline};
    char range[64];
    struct ron_http_fetch *f = NULL;
    enum ron_s3_outcome outcome;

    RON_CHECK_MAGIC(s, RON__S3_MAGIC);
    RON_ASSERT(len > 0 && len <= RON_S3_PART_MAX);
    (void)snprintf(range, sizeof range, "bytes=%llu-%llu", (unsigned long long)off,
                   (unsigned long long)(off + len - 1));
    if (if_match != NULL && if_match[0] != '\0') {
        call.headers[call.header_count++] =
            (struct ron_s3_signed){"if-match", {if_match, strlen(if_match)}};
    }
    call.headers[call.header_count++] = (struct ron_s3_signed){"range", {range, strlen(range)}};
    *ret_got = (struct ron_s3_got){0};
    outcome = ron__s3_run(s, &call, &f, err);
    if (outcome == RON_S3_IS_OK) {
        take_etag(f, ret_got->etag);
        outcome = is_part(f, off, len, ret_got) ? RON_S3_IS_OK : RON_S3_IS_MALFORMED;
    } else if (f != NULL && ron_http_fetch_status(f) == 416) {
        outcome = RON_S3_IS_OK; /* at or beyond the end; an empty object has no other answer */
        ret_got->total = off;
    }
    if (outcome == RON_S3_IS_OK) {
        ret_got->_fetch = f;
        ron__s3_count_bytes(s, "in", ret_got->bytes.len);
    } else {
        ret_got->bytes = (struct ron_str){0};
        ron_http_fetch_release(f);
    }
    return ron__s3_end(s, &call, outcome, err);
}

void ron_s3_got_done(struct ron_s3_got *got)
{
    ron_http_fetch_release(got->_fetch);
    *got = (struct ron_s3_got){0};
}

enum ron_rc ron_s3_head(struct ron_s3 *s, const char *key, struct ron_deadline deadline,
                        uint64_t *ret_size, struct ron_err *err)
{
    struct ron__s3_call call = {.op = RON_S3_HEAD,
                                .method = RON_HTTP_HEAD,
                                .key = key,
                                .query = "",
                                .response_max = RON__S3_ANSWER_MAX,
                                .deadline = deadline};
    struct ron_http_fetch *f = NULL;
    enum ron_s3_outcome outcome = ron__s3_run(s, &call, &f, err);
    uint64_t size = 0;

    if (outcome == RON_S3_IS_OK && !header_u64(f, "Content-Length", &size)) {
        outcome = RON_S3_IS_MALFORMED;
    }
    ron_http_fetch_release(f);
    if (outcome == RON_S3_IS_OK) {
        *ret_size = size;
    }
    return ron__s3_end(s, &call, outcome, err);
}

/* ---- writing --------------------------------------------------------------------------------- */

enum ron_rc ron_s3_put(struct ron_s3 *s, const char *key, const void *bytes, size_t len,
                       uint32_t flags, struct ron_deadline deadline, struct ron_err *err)
{
    struct ron__s3_call call = {.op = RON_S3_PUT,
                                .method = RON_HTTP_PUT,
                                .key = key,
                                .query = "",
                                .content_type = "application/octet-stream",
                                .body = {bytes, len},
                                .response_max = RON__S3_ANSWER_MAX,
                                .deadline = deadline};
    struct ron_http_fetch *f = NULL;
    enum ron_s3_outcome outcome;

    RON_CHECK_MAGIC(s, RON__S3_MAGIC);
    RON_ASSERT(len <= RON_S3_PART_MAX);
    if ((flags & RON_S3_IF_ABSENT) != 0) {
        call.headers[call.header_count++] = (struct ron_s3_signed){"if-none-match", {"*", 1}};
    }
    outcome = ron__s3_run(s, &call, &f, err);
    ron_http_fetch_release(f);
    return ron__s3_end(s, &call, outcome, err);
}

enum ron_rc ron_s3_delete(struct ron_s3 *s, const char *key, struct ron_deadline deadline,
                          struct ron_err *err)
{
    struct ron__s3_call call = {.op = RON_S3_DELETE,
                                .method = RON_HTTP_DELETE,
                                .key = key,
                                .query = "",
                                .response_max = RON__S3_ANSWER_MAX,
                                .deadline = deadline};
    struct ron_http_fetch *f = NULL;
    enum ron_s3_outcome outcome = ron__s3_run(s, &call, &f, err);
    enum ron_rc rc;

    ron_http_fetch_release(f);
    rc = ron__s3_end(s, &call, outcome, err);
    return rc == RON_NOTFOUND ? RON_OK : rc;
}
