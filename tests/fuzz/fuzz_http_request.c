/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: request heads.
 *
 * Properties of any input:
 *   - the verdict, its reason and the head do not depend on how the bytes arrive;
 *   - an accepted head lies inside the input, ends with an empty line, and nothing in it holds a
 *     CR, LF or NUL; its framing has one reading;
 *   - written anew from its parts it is accepted again with the same parts;
 *   - helpers for targets and queries never write more than they were given. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/syntax/syntax.h"
#include "ron/base/assert.h"
#include "ron/base/buf.h"
#include "ron/http/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct ron_http_limits limits = {
    .uri_max = RON_HTTP_URI_DEFAULT, .head_max = RON_HTTP_HEAD_DEFAULT, .headers_max = 100};

static bool same(struct ron_str a, struct ron_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static void check_slice(struct ron_str s, const char *buf, size_t len)
{
    if (s.len == 0) {
        return;
    }
    RON_ASSERT(s.ptr >= buf);
    RON_ASSERT(s.ptr + s.len <= buf + len);
    RON_ASSERT(memchr(s.ptr, '\r', s.len) == NULL);
    RON_ASSERT(memchr(s.ptr, '\n', s.len) == NULL);
    RON_ASSERT(memchr(s.ptr, '\0', s.len) == NULL);
}

static void check_same_head(const struct ron_http_head *a, const struct ron_http_head *b)
{
    RON_ASSERT(a->method == b->method);
    RON_ASSERT(a->minor == b->minor);
    RON_ASSERT(same(a->target, b->target));
    RON_ASSERT(same(a->path, b->path));
    RON_ASSERT(same(a->query, b->query));
    RON_ASSERT(same(a->host, b->host));
    RON_ASSERT(same(a->corr_id, b->corr_id));
    RON_ASSERT(a->content_length == b->content_length);
    RON_ASSERT(a->has_length == b->has_length);
    RON_ASSERT(a->chunked == b->chunked);
    RON_ASSERT(a->keep_alive == b->keep_alive);
    RON_ASSERT(a->expects_continue == b->expects_continue);
    RON_ASSERT(a->timeout_ms == b->timeout_ms);
    RON_ASSERT(a->deadline_unix_ms == b->deadline_unix_ms);
    RON_ASSERT(a->field_count == b->field_count);
    for (uint32_t i = 0; i < a->field_count; i++) {
        RON_ASSERT(same(a->fields[i].name, b->fields[i].name));
        RON_ASSERT(same(a->fields[i].value, b->fields[i].value));
    }
}

static void check_head(const struct ron_http_head *h, const char *buf, size_t len)
{
    RON_ASSERT(h->bytes <= len);
    RON_ASSERT(h->bytes >= 4);
    RON_ASSERT(memcmp(buf + h->bytes - 4, "\r\n\r\n", 4) == 0);
    RON_ASSERT(!(h->chunked && h->has_length));
    RON_ASSERT(h->minor == 0 || h->host.len > 0);
    check_slice(h->target, buf, h->bytes);
    for (uint32_t i = 0; i < h->field_count; i++) {
        RON_ASSERT(ron_http_is_token(h->fields[i].name));
        check_slice(h->fields[i].name, buf, h->bytes);
        check_slice(h->fields[i].value, buf, h->bytes);
    }
}

static void check_again(const struct ron_http_head *h)
{
    static struct ron_http_parser again;
    struct ron_buf out;

    ron_buf_init(&out, 1 << 16);
    (void)ron_buf_append_fmt(&out, "%s %.*s HTTP/1.%u\r\n", ron_http_method_name(h->method),
                             (int)h->target.len, h->target.ptr, h->minor);
    for (uint32_t i = 0; i < h->field_count; i++) {
        (void)ron_buf_append(&out, h->fields[i].name.ptr, h->fields[i].name.len);
        (void)ron_buf_append_text(&out, ":");
        (void)ron_buf_append(&out, h->fields[i].value.ptr, h->fields[i].value.len);
        (void)ron_buf_append_text(&out, "\r\n");
    }
    RON_ASSERT(ron_buf_append_text(&out, "\r\n") == RON_OK);
    ron_http_parser_init(&again, &limits);
    RON_ASSERT(ron_http_parse(&again, (const char *)ron_buf_data(&out), ron_buf_len(&out)) ==
               RON_HTTP_DONE);
    check_same_head(h, &again.head);
    ron_buf_done(&out);
}

static void check_target(const struct ron_http_head *h)
{
    char out[RON_HTTP_URI_DEFAULT];
    struct ron_str rest = h->query;
    struct ron_str name;
    struct ron_str value;
    size_t len = 0;

    if (ron_http_percent_decode(h->path, false, out, sizeof out, &len) == RON_OK) {
        RON_ASSERT(len <= h->path.len);
    }
    while (ron_http_query_next(&rest, &name, &value)) {
        if (ron_http_percent_decode(value, true, out, sizeof out, &len) == RON_OK) {
            RON_ASSERT(len <= value.len);
        }
    }
    RON_ASSERT(rest.len == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ron_http_parser whole;
    static struct ron_http_parser bytes;
    const char *buf = (const char *)data;
    enum ron_http_step step;
    enum ron_http_step bytewise = RON_HTTP_MORE;

    if (size == 0) {
        return 0; /* no bytes, no buffer */
    }
    ron_http_parser_init(&whole, &limits);
    ron_http_parser_init(&bytes, &limits);
    step = ron_http_parse(&whole, buf, size);
    for (size_t n = 1; n <= size && bytewise == RON_HTTP_MORE; n++) {
        bytewise = ron_http_parse(&bytes, buf, n);
    }
    RON_ASSERT(step == bytewise);
    if (step == RON_HTTP_DONE) {
        check_head(&whole.head, buf, size);
        check_same_head(&whole.head, &bytes.head);
        check_again(&whole.head);
        check_target(&whole.head);
    } else if (step == RON_HTTP_REFUSED) {
        RON_ASSERT(whole.reason != RON_HTTP_NONE);
        RON_ASSERT(bytes.reason != RON_HTTP_NONE);
        RON_ASSERT(ron_http_parse(&whole, buf, size) == RON_HTTP_REFUSED);
    }
    return 0;
}
