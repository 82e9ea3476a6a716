/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/syntax/parse.c - the request head: lines, request line, header fields and what
 * they mean together.
 *
 * Place: http; the contract is in ron/http/parse.h.
 *
 * Invariants:
 *   I1 every byte of an accepted head was looked at: a line is judged only when its LF is there,
 *      and then all of it, so nothing can hide between two lines.
 *   I2 a line is accepted only if it ends in CR LF and holds no other CR or LF.
 *   I3 framing (Content-Length, Transfer-Encoding) has exactly one reading, or is refused. */
#include <string.h>
#include <strings.h>

#include "http/syntax/chars.h"
#include "http/syntax/syntax.h"
#include "ron/base/assert.h"
#include "ron/base/hex.h"
#include "ron/base/str.h"
#include "ron/guard/deadline.h"
#include "ron/http/parse.h"

/* Method, blanks and "HTTP/1.1" around the target. */
enum { REQUEST_LINE_FRAME = 24, LENGTH_DIGITS_MAX = 19 };

void ron_http_parser_init(struct ron_http_parser *p, const struct ron_http_limits *limits)
{
    struct ron_http_head *h = &p->head;

    RON_ASSERT(limits->headers_max <= RON_HTTP_HEADERS_MAX);
    p->limits = *limits;
    p->at = 0;
    p->scanned = 0;
    p->in_fields = false;
    p->skipped_line = false;
    p->reason = RON_HTTP_NONE;
    /* The array of fields stays as it is: field_count says how much of it counts. */
    h->host = (struct ron_str){0};
    h->corr_id = (struct ron_str){0};
    h->traceparent = (struct ron_str){0};
    h->has_traceparent = false;
    h->content_length = 0;
    h->has_length = false;
    h->chunked = false;
    h->expects_continue = false;
    h->timeout_ms = UINT64_MAX;
    h->deadline_unix_ms = UINT64_MAX;
    h->bytes = 0;
    h->field_count = 0;
}

const char *ron_http_method_name(enum ron_http_method method)
{
    static const char *const names[] = {
#define X(name) [RON_HTTP_##name] = #name,
        RON_HTTP_METHODS(X)
#undef X
    };
    return (size_t)method < RON_ARRAY_LEN(names) ? names[method] : "?";
}

/* ---- request line ---------------------------------------------------------------------------- */

static enum ron_http_reason parse_method(struct ron_str text, enum ron_http_method *ret_method)
{
    if (!ron_http_is_token(text)) {
        return RON_HTTP_REQUEST_LINE;
    }
    for (int m = 0; m < RON_HTTP_METHOD_COUNT; m++) {
        if (ron_str_is(text, ron_http_method_name((enum ron_http_method)m))) {
            *ret_method = (enum ron_http_method)m;
            return RON_HTTP_NONE;
        }
    }
    return RON_HTTP_METHOD;
}

bool ron_http_split_target(struct ron_str t, struct ron_str *ret_path, struct ron_str *ret_query)
{
    const char *question = NULL;
    size_t path_len = t.len;

    if (t.len == 0 || t.ptr[0] != '/') {
        return false;
    }
    for (size_t i = 0; i < t.len; i++) {
        uint8_t flags = ron__http_char[(uint8_t)t.ptr[i]];

        if ((flags & CH_URI) == 0) {
            return false;
        }
        if (t.ptr[i] == '%' &&
            (t.len - i < 3 || ron_hex_digit(t.ptr[i + 1]) < 0 || ron_hex_digit(t.ptr[i + 2]) < 0)) {
            return false;
        }
        if (t.ptr[i] == '?' && question == NULL) {
            question = t.ptr + i;
            path_len = i;
        }
    }
    *ret_path = (struct ron_str){t.ptr, path_len};
    *ret_query = question == NULL ? (struct ron_str){0}
                                  : (struct ron_str){question + 1, t.len - path_len - 1};
    return true;
}

static enum ron_http_reason parse_target(struct ron_http_head *h)
{
    h->path = h->target;
    h->query = (struct ron_str){0};
    if (h->target.len == 1 && h->target.ptr[0] == '*') {
        return h->method == RON_HTTP_OPTIONS ? RON_HTTP_NONE : RON_HTTP_TARGET;
    }
    return ron_http_split_target(h->target, &h->path, &h->query) ? RON_HTTP_NONE : RON_HTTP_TARGET;
}

static enum ron_http_reason parse_version(struct ron_str v, uint32_t *ret_minor)
{
    if (v.len != 8 || memcmp(v.ptr, "HTTP/", 5) != 0 || v.ptr[5] < '0' || v.ptr[5] > '9' ||
        v.ptr[6] != '.' || v.ptr[7] < '0' || v.ptr[7] > '9') {
        return RON_HTTP_REQUEST_LINE;
    }
    if (v.ptr[5] != '1' || v.ptr[7] > '1') {
        return RON_HTTP_VERSION;
    }
    *ret_minor = (uint32_t)(v.ptr[7] - '0');
    return RON_HTTP_NONE;
}

/* The reason for a byte that no line may hold. */
static enum ron_http_reason control_reason(struct ron_str line, enum ron_http_reason otherwise)
{
    if (memchr(line.ptr, '\r', line.len) != NULL) {
        return RON_HTTP_BARE_CR;
    }
    return memchr(line.ptr, '\0', line.len) != NULL ? RON_HTTP_NUL : otherwise;
}

static enum ron_http_reason parse_request_line(struct ron_http_parser *p, struct ron_str line)
{
    struct ron_http_head *h = &p->head;
    const char *end = line.ptr + line.len;
    const char *first = memchr(line.ptr, ' ', line.len);
    const char *second = first == NULL ? NULL : memchr(first + 1, ' ', (size_t)(end - first - 1));
    enum ron_http_reason reason;

    if (second == NULL || memchr(second + 1, ' ', (size_t)(end - second - 1)) != NULL) {
        return control_reason(line, RON_HTTP_REQUEST_LINE);
    }
    h->target = (struct ron_str){first + 1, (size_t)(second - first - 1)};
    if (h->target.len > p->limits.uri_max) {
        return RON_HTTP_URI_LONG;
    }
    reason = parse_version((struct ron_str){second + 1, (size_t)(end - second - 1)}, &h->minor);
    if (reason == RON_HTTP_NONE) {
        reason = parse_method((struct ron_str){line.ptr, (size_t)(first - line.ptr)}, &h->method);
    }
    if (reason == RON_HTTP_NONE) {
        reason = parse_target(h);
    }
    h->keep_alive = h->minor == 1;
    return reason == RON_HTTP_NONE ? reason : control_reason(line, reason);
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* host[:port], where host is a name, an IPv4 address or an IPv6 address in brackets. */
static bool host_is_good(struct ron_str v)
{
    size_t i = 0;

    if (v.len > 0 && v.ptr[0] == '[') {
        for (i = 1; i < v.len && v.ptr[i] != ']'; i++) {
            if (ron_hex_digit(v.ptr[i]) < 0 && v.ptr[i] != ':' && v.ptr[i] != '.') {
                return false;
            }
        }
        if (i == v.len || i < 3) {
            return false;
        }
        i++;
    } else {
        while (i < v.len && (ron__http_char[(uint8_t)v.ptr[i]] & CH_HOST) != 0) {
            i++;
        }
        if (i == 0) {
            return false;
        }
    }
    if (i == v.len) {
        return true;
    }
    struct ron_str port = {v.ptr + i + 1, v.len - i - 1};
    uint64_t number = 0;

    return v.ptr[i] == ':' && port.len <= 5 && ron_http_parse_u64(port, &number) == RON_OK &&
           number <= UINT16_MAX;
}

static enum ron_http_reason on_host(struct ron_http_head *h, struct ron_str value)
{
    if (h->host.ptr != NULL) {
        return RON_HTTP_HOST_TWICE;
    }
    h->host = value;
    return host_is_good(value) ? RON_HTTP_NONE : RON_HTTP_HOST_BAD;
}

static enum ron_http_reason on_length(struct ron_http_head *h, struct ron_str value)
{
    if (h->has_length) {
        return RON_HTTP_LENGTH_TWICE;
    }
    h->has_length = true;
    if (value.len > LENGTH_DIGITS_MAX || ron_http_parse_u64(value, &h->content_length) != RON_OK) {
        return RON_HTTP_LENGTH_BAD;
    }
    return RON_HTTP_NONE;
}

static enum ron_http_reason on_coding(struct ron_http_head *h, struct ron_str value)
{
    if (h->chunked) {
        return RON_HTTP_CODING_TWICE;
    }
    h->chunked = true;
    return ron_str_is_nocase(value, "chunked") ? RON_HTTP_NONE : RON_HTTP_CODING_UNKNOWN;
}

/* A list of tokens; only close and keep-alive mean anything to us. close wins. */
static enum ron_http_reason on_connection(struct ron_http_head *h, struct ron_str value)
{
    const char *p = value.ptr;
    const char *end = value.ptr + value.len;

    while (p < end) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *stop = comma == NULL ? end : comma;
        struct ron_str word = ron_str_trim((struct ron_str){p, (size_t)(stop - p)});

        if (word.len > 0 && !ron_http_is_token(word)) {
            return RON_HTTP_CONNECTION;
        }
        if (ron_str_is_nocase(word, "close")) {
            h->keep_alive = false;
        }
        p = comma == NULL ? end : comma + 1;
    }
    return RON_HTTP_NONE;
}

/* Seconds, perhaps with decimals: what ron_request_timeout_format writes for the next hop. */
static enum ron_http_reason on_timeout(struct ron_str value, uint64_t *least_ms)
{
    uint64_t ns = 0;

    if (ron_request_timeout_parse(value.ptr, value.len, &ns, NULL) != RON_OK || ns == UINT64_MAX) {
        return RON_HTTP_BAD_DEADLINE;
    }
    *least_ms = RON_MIN(*least_ms, ns / RON_NS_PER_MS);
    return RON_HTTP_NONE;
}

static enum ron_http_reason on_number(struct ron_str value, uint64_t *least)
{
    uint64_t number = 0;

    if (ron_http_parse_u64(value, &number) != RON_OK) {
        return RON_HTTP_BAD_DEADLINE;
    }
    *least = RON_MIN(*least, number);
    return RON_HTTP_NONE;
}

/* Fields that the front itself understands, told apart by length first. */
static enum ron_http_reason on_field(struct ron_http_head *h, struct ron_http_field f)
{
    switch (f.name.len) {
    case 4:
        return ron_str_is_nocase(f.name, "host") ? on_host(h, f.value) : RON_HTTP_NONE;
    case 6:
        if (ron_str_is_nocase(f.name, "expect")) {
            h->expects_continue = ron_str_is_nocase(f.value, "100-continue");
            return h->expects_continue ? RON_HTTP_NONE : RON_HTTP_EXPECT;
        }
        return RON_HTTP_NONE;
    case 8:
        return ron_str_is_nocase(f.name, "deadline") ? on_number(f.value, &h->deadline_unix_ms)
                                                     : RON_HTTP_NONE;
    case 9:
        if (ron_str_is_nocase(f.name, "x-corr-id") && ron_http_is_corr_id(f.value)) {
            h->corr_id = f.value;
        }
        return RON_HTTP_NONE;
    case 10:
        return ron_str_is_nocase(f.name, "connection") ? on_connection(h, f.value) : RON_HTTP_NONE;
    case 11:
        if (ron_str_is_nocase(f.name, "traceparent")) {
            h->traceparent = h->has_traceparent ? (struct ron_str){0} : f.value;
            h->has_traceparent = true;
        }
        return RON_HTTP_NONE;
    case 14:
        return ron_str_is_nocase(f.name, "content-length") ? on_length(h, f.value) : RON_HTTP_NONE;
    case 15:
        return ron_str_is_nocase(f.name, "request-timeout") ? on_timeout(f.value, &h->timeout_ms)
                                                            : RON_HTTP_NONE;
    case 17:
        return ron_str_is_nocase(f.name, "transfer-encoding") ? on_coding(h, f.value)
                                                              : RON_HTTP_NONE;
    default:
        return RON_HTTP_NONE;
    }
}

/* Why the name ended before a colon. */
static enum ron_http_reason bad_name(struct ron_str line, size_t name_len)
{
    size_t i = name_len;

    if (name_len == 0 && (line.ptr[0] == ' ' || line.ptr[0] == '\t')) {
        return RON_HTTP_FOLDED;
    }
    while (i < line.len && (line.ptr[i] == ' ' || line.ptr[i] == '\t')) {
        i++;
    }
    if (i > name_len && i < line.len && line.ptr[i] == ':') {
        return RON_HTTP_HEADER_SPACE;
    }
    return control_reason(line, RON_HTTP_HEADER_NAME);
}

static enum ron_http_reason parse_field(struct ron_http_parser *p, struct ron_str line)
{
    struct ron_http_head *h = &p->head;
    struct ron_http_field f;
    size_t n = 0;

    while (n < line.len && (ron__http_char[(uint8_t)line.ptr[n]] & CH_TOKEN) != 0) {
        n++;
    }
    if (n == 0 || n == line.len || line.ptr[n] != ':') {
        return bad_name(line, n);
    }
    f.name = (struct ron_str){line.ptr, n};
    f.value = ron_str_trim((struct ron_str){line.ptr + n + 1, line.len - n - 1});
    if (!ron_http_is_value(f.value)) {
        return control_reason(line, RON_HTTP_HEADER_VALUE);
    }
    if (h->field_count >= p->limits.headers_max) {
        return RON_HTTP_HEADERS_MANY;
    }
    h->fields[h->field_count++] = f;
    return on_field(h, f);
}

/* What only the whole head can tell (I3). */
static enum ron_http_reason judge(const struct ron_http_head *h)
{
    if (h->chunked && h->has_length) {
        return RON_HTTP_LENGTH_CODING;
    }
    if (h->chunked && h->minor == 0) {
        return RON_HTTP_CODING_VERSION;
    }
    return h->host.ptr == NULL && h->minor == 1 ? RON_HTTP_HOST_MISSING : RON_HTTP_NONE;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static enum ron_http_step refuse(struct ron_http_parser *p, enum ron_http_reason reason)
{
    p->reason = reason;
    return RON_HTTP_REFUSED;
}

/* No LF yet: what is already certain about the line that is under way. */
static enum ron_http_step judge_partial(struct ron_http_parser *p, const char *buf, size_t len)
{
    struct ron_str line = {buf + p->at, len - p->at};
    const char *cr = line.len == 0 ? NULL : memchr(line.ptr, '\r', line.len);

    if (!p->in_fields && line.len > 0 && line.ptr[0] != '\r' &&
        (ron__http_char[(uint8_t)line.ptr[0]] & CH_TOKEN) == 0) {
        return refuse(p, line.ptr[0] == '\0' ? RON_HTTP_NUL : RON_HTTP_REQUEST_LINE);
    }
    if (cr != NULL && cr + 1 < line.ptr + line.len) {
        return refuse(p, RON_HTTP_BARE_CR); /* What follows it is there and is no LF. */
    }
    if (!p->in_fields && line.len > (size_t)p->limits.uri_max + REQUEST_LINE_FRAME) {
        return refuse(p, RON_HTTP_URI_LONG);
    }
    return len >= p->limits.head_max ? refuse(p, RON_HTTP_HEAD_LARGE) : RON_HTTP_MORE;
}

static enum ron_http_reason take_line(struct ron_http_parser *p, struct ron_str line)
{
    if (p->in_fields) {
        return parse_field(p, line);
    }
    if (line.len == 0 && !p->skipped_line) {
        p->skipped_line = true;
        return RON_HTTP_NONE;
    }
    p->in_fields = true;
    return parse_request_line(p, line);
}

enum ron_http_step ron_http_parse(struct ron_http_parser *p, const char *buf, size_t len)
{
    if (p->reason != RON_HTTP_NONE) {
        return RON_HTTP_REFUSED;
    }
    RON_ASSERT(len >= p->scanned);
    RON_ASSERT(len <= UINT32_MAX);
    for (;;) {
        const char *lf =
            len == p->scanned ? NULL : memchr(buf + p->scanned, '\n', len - p->scanned);
        struct ron_str line = {buf + p->at, 0};
        enum ron_http_reason reason;

        if (lf == NULL) {
            p->scanned = (uint32_t)len;
            return judge_partial(p, buf, len);
        }
        line.len = (size_t)(lf - line.ptr);
        p->scanned = (uint32_t)(lf + 1 - buf);
        if (p->scanned > p->limits.head_max) {
            return refuse(p, RON_HTTP_HEAD_LARGE);
        }
        if (line.len == 0 || lf[-1] != '\r') {
            return refuse(p, RON_HTTP_BARE_LF); /* I2 */
        }
        line.len--;
        p->at = p->scanned;
        if (line.len == 0 && p->in_fields) {
            p->head.bytes = p->at;
            reason = judge(&p->head);
            return reason == RON_HTTP_NONE ? RON_HTTP_DONE : refuse(p, reason);
        }
        reason = take_line(p, line);
        if (reason != RON_HTTP_NONE) {
            return refuse(p, reason);
        }
    }
}

/* ---- looking --------------------------------------------------------------------------------- */

enum ron_rc ron_http_field_get(const struct ron_http_head *head, const char *name,
                               struct ron_str *ret_value)
{
    const struct ron_http_field *found = NULL;
    struct ron_str wanted = {name, strlen(name)};

    for (uint32_t i = 0; i < head->field_count; i++) {
        if (ron_str_equal_nocase(head->fields[i].name, wanted)) {
            if (found != NULL) {
                return RON_CONFLICT;
            }
            found = &head->fields[i];
        }
    }
    if (found == NULL) {
        return RON_NOTFOUND;
    }
    *ret_value = found->value;
    return RON_OK;
}

bool ron_http_is_json(const struct ron_http_head *head)
{
    static const char want[] = "application/json";
    struct ron_str value = {0};

    return ron_http_field_get(head, "content-type", &value) == RON_OK &&
           value.len >= sizeof want - 1 && strncasecmp(value.ptr, want, sizeof want - 1) == 0 &&
           (value.len == sizeof want - 1 || value.ptr[sizeof want - 1] == ';' ||
            value.ptr[sizeof want - 1] == ' ');
}
