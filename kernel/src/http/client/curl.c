/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/client/curl.c - one try as libcurl sees it: options, callbacks, codes.
 *
 * Callbacks run inside libcurl on the client's task. They only note what they saw in the fetch and
 * say stop; run.c acts when libcurl has returned (F2).
 *
 * libcurl repeats a request by itself when a reused connection dies before the first byte of an
 * answer. H3: it has to rewind the body for that, which is refused unless the call may be repeated;
 * and a call without a body that may not be repeated gets a connection of its own. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "http/client/priv.h"
#include "ron/base/assert.h"
#include "ron/base/build.h"
#include "ron/guard/deadline.h"
#include "ron/io/linux_env.h"

/* ---- addresses ------------------------------------------------------------------------------- */

static enum ron_ip_class class_of(const struct curl_sockaddr *a)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (a->family == AF_INET && a->addrlen >= sizeof v4) {
        memcpy(&v4, &a->addr, sizeof v4);
        return ron_ip_class_v4((const uint8_t *)&v4.sin_addr);
    }
    if (a->family == AF_INET6 && a->addrlen >= sizeof v6) {
        memcpy(&v6, &a->addr, sizeof v6);
        return ron_ip_class_v6(v6.sin6_addr.s6_addr);
    }
    return RON_IP_SPECIAL;
}

static curl_socket_t on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct ron_http_fetch *f = arg;
    struct ron_http_target *t = f->target;
    bool allowed =
        t->unix_path != NULL ? a->family == AF_UNIX : ron__http_class_allowed(t, class_of(a));
    int fd = -1;

    if (purpose != CURLSOCKTYPE_IPCXN || !allowed) {
        f->denied_address = true;
        return CURL_SOCKET_BAD;
    }
    if (ron_linux_stream_socket(a->family, &fd, NULL) != RON_OK) {
        return CURL_SOCKET_BAD;
    }
    ron_stat_bump(&t->connections, 1);
    return fd;
}

/* Before each request, on new and on reused connections: one that another target was allowed to
 * open may not be ours to use. */
static int on_request(void *arg, char *primary_ip, char *local_ip, int primary_port, int local_port)
{
    struct ron_http_fetch *f = arg;
    struct ron_addr addr;
    char text[RON_ADDR_MAX];

    (void)local_ip;
    (void)primary_port;
    (void)local_port;
    if (f->target->unix_path != NULL) {
        return CURL_PREREQFUNC_OK;
    }
    (void)snprintf(text, sizeof text, strchr(primary_ip, ':') != NULL ? "[%s]:1" : "%s:1",
                   primary_ip);
    if (ron_addr_parse(text, &addr, NULL) != RON_OK ||
        !ron__http_class_allowed(f->target, ron_addr_ip_class(&addr))) {
        f->denied_address = true;
        return CURL_PREREQFUNC_ABORT;
    }
    return CURL_PREREQFUNC_OK;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static size_t on_header(char *line, size_t size, size_t count, void *arg)
{
    struct ron_http_fetch *f = arg;
    size_t len = size * count;
    size_t text = len;

    f->header_bytes += len;
    if (f->header_bytes > f->target->opts.header_max) {
        f->too_large = true;
        return 0;
    }
    if (f->in_body) {
        return len; /* a trailer: counted, not kept */
    }
    if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        ron_buf_clear(&f->head_in); /* an interim answer may have come before */
        f->head_whole = false;
        return len;
    }
    while (text > 0 && (line[text - 1] == '\r' || line[text - 1] == '\n')) {
        text--;
    }
    if (text == 0) {
        f->head_whole = true;
    } else {
        (void)ron_buf_append(&f->head_in, line, text);
        if (ron_buf_append_byte(&f->head_in, '\n') != RON_OK) {
            f->too_large = ron_buf_error(&f->head_in) == RON_LIMIT;
            return 0;
        }
    }
    return len;
}

static void note_status(struct ron_http_fetch *f)
{
    long status = 0;

    (void)curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
    f->result.status = (int)status;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *arg)
{
    struct ron_http_fetch *f = arg;
    size_t len = size * count;

    note_status(f);
    f->in_body = true;
    if (len > f->opts.response_max - f->body_bytes) {
        f->too_large = true;
        return CURL_WRITEFUNC_ERROR;
    }
    if (f->opts.sink != NULL && f->result.status >= 200 &&
        (f->result.status < 300 || f->opts.relay)) {
        enum ron_rc rc = f->opts.sink(f, f->opts.arg, bytes, len);

        if (rc == RON_AGAIN) {
            return CURL_WRITEFUNC_PAUSE;
        }
        if (rc != RON_OK) {
            f->gave_up = true;
            return CURL_WRITEFUNC_ERROR;
        }
        f->sunk = true;
    } else if (ron_buf_append(&f->body_in, bytes, len) != RON_OK) {
        return CURL_WRITEFUNC_ERROR;
    }
    f->body_bytes += len;
    ron_stat_bump(&f->target->bytes_in, len);
    ron__http_fetch_moved(f);
    return len;
}

/* ---- the request's body ---------------------------------------------------------------------- */

static size_t on_read(char *buf, size_t size, size_t count, void *arg)
{
    struct ron_http_fetch *f = arg;
    size_t room = RON_MIN(size * count, (size_t)RON_HTTP_PIECE_MAX);
    size_t len = 0;

    if (f->opts.source == NULL) {
        len = RON_MIN(room, ron_buf_len(&f->body_out) - f->sent);
        memcpy(buf, ron_buf_data(&f->body_out) + f->sent, len);
    } else {
        enum ron_rc rc = f->opts.source(f, f->opts.arg, buf, room, &len);

        if (rc == RON_AGAIN) {
            return CURL_READFUNC_PAUSE;
        }
        if (rc != RON_OK) {
            f->gave_up = true;
            return CURL_READFUNC_ABORT;
        }
        RON_ASSERT(len <= room);
        f->source_used = true;
    }
    f->sent += len;
    ron__http_fetch_moved(f);
    return len;
}

static int on_seek(void *arg, curl_off_t offset, int origin)
{
    struct ron_http_fetch *f = arg;

    if (!f->retry.idempotent || f->opts.source != NULL || origin != SEEK_SET || offset < 0 ||
        (uint64_t)offset > ron_buf_len(&f->body_out)) {
        return CURL_SEEKFUNC_FAIL; /* H3 */
    }
    f->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* ---- options --------------------------------------------------------------------------------- */

/* Sets one option; the first failure stays in `code`. */
#define SET(option, value)                                                                         \
    (code = code != CURLE_OK ? code : curl_easy_setopt(f->easy, (option), (value)))

static CURLcode set_callbacks(struct ron_http_fetch *f)
{
    CURLcode code = CURLE_OK;

    SET(CURLOPT_PRIVATE, f);
    SET(CURLOPT_ERRORBUFFER, f->curl_text);
    SET(CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    SET(CURLOPT_OPENSOCKETDATA, f);
    SET(CURLOPT_PREREQFUNCTION, on_request);
    SET(CURLOPT_PREREQDATA, f);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, f);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, f);
    SET(CURLOPT_READFUNCTION, on_read);
    SET(CURLOPT_READDATA, f);
    SET(CURLOPT_SEEKFUNCTION, on_seek);
    SET(CURLOPT_SEEKDATA, f);
    return code;
}

static struct curl_blob blob_of(const struct ron_buf *buf)
{
    struct curl_blob blob = {.len = ron_buf_len(buf), .flags = CURL_BLOB_COPY};
    const uint8_t *bytes = ron_buf_data(buf);

    memcpy(&blob.data, &bytes, sizeof bytes); /* libcurl takes no const, and copies */
    return blob;
}

static CURLcode set_tls(struct ron_http_fetch *f)
{
    const struct ron_http_target *t = f->target;
    struct curl_blob ca = blob_of(&t->ca);
    struct curl_blob cert = blob_of(&t->cert);
    struct curl_blob key = blob_of(&t->key);
    CURLcode code = CURLE_OK;

    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    if (ca.len > 0) {
        SET(CURLOPT_CAINFO_BLOB, &ca);
        SET(CURLOPT_CAPATH, NULL); /* else the system's directory would be trusted too */
    }
    if (cert.len > 0) {
        SET(CURLOPT_SSLCERT_BLOB, &cert);
        SET(CURLOPT_SSLKEY_BLOB, &key);
    }
    return code;
}

static CURLcode set_rules(struct ron_http_fetch *f)
{
    const struct ron_http_target *t = f->target;
    bool plain = (t->opts.flags & RON_HTTP_TARGET_PLAIN) != 0;
    CURLcode code = CURLE_OK;

    SET(CURLOPT_URL, ron_buf_text(&f->url));
    SET(CURLOPT_PROTOCOLS_STR, plain ? "http,https" : "https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    SET(CURLOPT_PROXY, ""); /* H5 */
    SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT,
        1L); /* a name lookup that hangs is left to its thread, not waited for */
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)t->opts.connect_timeout_ms);
    SET(CURLOPT_MAXAGE_CONN, (long)CLIENT_IDLE_CONN_MAX_S);
    SET(CURLOPT_UPLOAD_BUFFERSIZE, (long)RON_HTTP_PIECE_MAX);
    /* Refused on a used handle that never got a connection: it still has its buffer. */
    (void)curl_easy_setopt(f->easy, CURLOPT_BUFFERSIZE, (long)RON_HTTP_PIECE_MAX);
    if (t->unix_path != NULL) {
        SET(CURLOPT_UNIX_SOCKET_PATH, t->unix_path);
    }
    if (f->opts.method != RON_HTTP_HEAD) { /* its Content-Length announces nothing */
        SET(CURLOPT_MAXFILESIZE_LARGE,
            (curl_off_t)RON_MIN(f->opts.response_max, (uint64_t)INT64_MAX));
    }
    return code;
}

static CURLcode set_method(struct ron_http_fetch *f)
{
    enum ron_http_method m = f->opts.method;
    size_t len = ron_buf_len(&f->body_out);
    bool upload = f->opts.source != NULL || len > 0 || m == RON_HTTP_POST || m == RON_HTTP_PUT ||
                  m == RON_HTTP_PATCH;
    CURLcode code = CURLE_OK;

    if (m == RON_HTTP_HEAD) {
        return SET(CURLOPT_NOBODY, 1L);
    }
    if (upload) {
        SET(CURLOPT_UPLOAD, 1L);
        SET(CURLOPT_INFILESIZE_LARGE,
            f->opts.source != NULL ? (curl_off_t)f->opts.source_len : (curl_off_t)len);
    }
    if (!f->retry.idempotent && f->opts.source == NULL && len == 0) {
        SET(CURLOPT_FRESH_CONNECT, 1L); /* H3: nothing to rewind, so nothing would stop libcurl */
    }
    return SET(CURLOPT_CUSTOMREQUEST, ron_http_method_name(m));
}

static bool add_line(struct ron_http_fetch *f, const char *line)
{
    struct curl_slist *longer = curl_slist_append(f->slist, line);

    if (longer == NULL) {
        return false;
    }
    f->slist = longer;
    return true;
}

static bool is_credential(const char *line)
{
    return strncasecmp(line, "authorization:", 14) == 0 || strncasecmp(line, "cookie:", 7) == 0;
}

static bool has_line(const struct ron_http_fetch *f, const char *name)
{
    const char *at = (const char *)ron_buf_data(&f->lines);
    const char *end = at + ron_buf_len(&f->lines);
    size_t len = strlen(name);

    for (; at < end; at += strlen(at) + 1) {
        if (strncasecmp(at, name, len) == 0 && (at[len] == ':' || at[len] == ';')) {
            return true;
        }
    }
    return false;
}

/* What a call says that its caller did not. */
static bool set_own_lines(struct ron_http_fetch *f)
{
    char line[64];

    if (!add_line(f, "Expect:")) {
        return false;
    }
    if (f->opts.relay) { /* libcurl would add one */
        return has_line(f, "Accept") || add_line(f, "Accept:");
    }
    (void)snprintf(line, sizeof line, "User-Agent: ron/%s", ron_version());
    return add_line(f, "Accept-Encoding: identity") && add_line(f, line);
}

static bool set_lines(struct ron_http_fetch *f)
{
    const char *at = (const char *)ron_buf_data(&f->lines);
    const char *end = at + ron_buf_len(&f->lines);
    char text[RON_TIMEOUT_FORMAT_SIZE];
    char line[64];
    bool good = set_own_lines(f);

    for (; good && at < end; at += strlen(at) + 1) {
        good = (f->foreign && is_credential(at)) || add_line(f, at);
    }
    if (good && (f->target->opts.flags & RON_HTTP_TARGET_SEND_DEADLINE) != 0 &&
        ron_request_timeout_format(f->deadline, ron_env_now_ns(f->target->client->opts.env), text) >
            0) {
        (void)snprintf(line, sizeof line, "Request-Timeout: %s", text);
        good = add_line(f, line);
    }
    return good && curl_easy_setopt(f->easy, CURLOPT_HTTPHEADER, f->slist) == CURLE_OK;
}

bool ron__http_easy_prepare(struct ron_http_fetch *f)
{
    f->sent = 0;
    f->head_whole = false;
    f->in_body = false;
    f->denied_address = false;
    f->too_large = false;
    f->gave_up = false;
    f->header_bytes = 0;
    f->body_bytes = 0;
    f->curl_text[0] = '\0';
    f->result.status = 0;
    ron_buf_clear(&f->head_in);
    ron_buf_clear(&f->body_in);
    return set_callbacks(f) == CURLE_OK && set_rules(f) == CURLE_OK && set_tls(f) == CURLE_OK &&
           set_method(f) == CURLE_OK && set_lines(f);
}

/* ---- handles --------------------------------------------------------------------------------- */

CURL *ron__http_easy_get(struct ron_http_client *c)
{
    return c->idle_count > 0 ? c->idle[--c->idle_count] : curl_easy_init();
}

void ron__http_easy_put(struct ron_http_client *c, CURL *easy)
{
    if (c->idle_count < CLIENT_IDLE_EASY_MAX) {
        curl_easy_reset(easy);
        c->idle[c->idle_count++] = easy;
    } else {
        curl_easy_cleanup(easy);
    }
}

/* ---- codes ----------------------------------------------------------------------------------- */

static bool is_tls(CURLcode code)
{
    switch ((int)code) {
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ENGINE_INITFAILED:
    case CURLE_SSL_CLIENTCERT:
        return true;
    default:
        return false;
    }
}

/* Whether the other side was reached, TLS included. */
static bool connected(const struct ron_http_fetch *f)
{
    curl_off_t at_us = 0;

    (void)curl_easy_getinfo(f->easy, CURLINFO_PRETRANSFER_TIME_T, &at_us);
    return at_us > 0;
}

enum ron_http_fetch_reason ron__http_reason_of(const struct ron_http_fetch *f, CURLcode code)
{
    if (code == CURLE_OK) {
        if (!f->head_whole) { /* libcurl takes the end of the stream inside a head for its end */
            return RON_HTTP_FETCH_BROKEN;
        }
        return f->result.status >= 400 ? RON_HTTP_FETCH_STATUS : RON_HTTP_FETCH_ANSWERED;
    }
    if (f->too_large || code == CURLE_FILESIZE_EXCEEDED) {
        return RON_HTTP_FETCH_TOO_LARGE;
    }
    if (f->gave_up) {
        return RON_HTTP_FETCH_SINK;
    }
    if (f->denied_address && (code == CURLE_COULDNT_CONNECT || code == CURLE_ABORTED_BY_CALLBACK)) {
        return RON_HTTP_FETCH_DENIED_ADDRESS;
    }
    if (is_tls(code)) {
        return RON_HTTP_FETCH_TLS;
    }
    switch ((int)code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        return RON_HTTP_FETCH_DNS;
    case CURLE_COULDNT_CONNECT:
        return RON_HTTP_FETCH_CONNECT;
    case CURLE_OPERATION_TIMEDOUT:
        return connected(f) ? RON_HTTP_FETCH_TIMEOUT_TOTAL : RON_HTTP_FETCH_TIMEOUT_CONNECT;
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_SEND_FAIL_REWIND:
        return RON_HTTP_FETCH_BROKEN;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_HTTP2:
        return RON_HTTP_FETCH_PROTOCOL;
    case CURLE_OUT_OF_MEMORY:
        /* libcurl says this too when one header line is longer than it will hold. */
        return connected(f) && !f->in_body ? RON_HTTP_FETCH_TOO_LARGE : RON_HTTP_FETCH_MEMORY;
    case CURLE_WRITE_ERROR:
        return RON_HTTP_FETCH_MEMORY; /* our callbacks have said everything else above */
    default:
        return RON_HTTP_FETCH_INTERNAL;
    }
}
