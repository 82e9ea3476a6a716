/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: chunked bodies. The first byte says how the rest is cut into pieces.
 *
 * Properties of any input: verdict, reason, decoded bytes and the place of the end do not depend on
 * the cutting; never more than the limit is delivered; an accepted body, encoded anew as one chunk,
 * decodes to the same bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/syntax/syntax.h"
#include "ron/base/assert.h"
#include "ron/base/buf.h"
#include "ron/http/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BODY_MAX = 0x10000 };

struct result {
    enum ron_http_step step;
    enum ron_http_reason reason;
    size_t end; /* input used, with DONE */
    struct ron_buf body;
};

static void decode(const char *in, size_t len, size_t piece, struct result *r)
{
    struct ron_http_chunked d;
    size_t at = 0;

    ron_http_chunked_init(&d, BODY_MAX);
    ron_buf_init(&r->body, BODY_MAX);
    r->step = RON_HTTP_MORE;
    while (at < len && r->step == RON_HTTP_MORE) {
        size_t n = len - at < piece ? len - at : piece;
        size_t used = 0;
        size_t from = 0;
        size_t data = 0;

        r->step = ron_http_chunked_feed(&d, in + at, n, &used, &from, &data);
        RON_ASSERT(used <= n);
        RON_ASSERT(from + data <= used);
        RON_ASSERT(r->step != RON_HTTP_MORE || data > 0 || used == n);
        RON_ASSERT(ron_buf_append(&r->body, in + at + from, data) == RON_OK);
        at += used;
    }
    r->reason = d.reason;
    r->end = at;
}

static void check_again(const struct result *r)
{
    struct result again;
    struct ron_buf one;

    ron_buf_init(&one, BODY_MAX + 64);
    if (ron_buf_len(&r->body) > 0) {
        (void)ron_buf_append_fmt(&one, "%zX\r\n", ron_buf_len(&r->body));
        (void)ron_buf_append(&one, ron_buf_data(&r->body), ron_buf_len(&r->body));
        (void)ron_buf_append_text(&one, "\r\n");
    }
    RON_ASSERT(ron_buf_append_text(&one, "0\r\n\r\n") == RON_OK);
    decode((const char *)ron_buf_data(&one), ron_buf_len(&one), SIZE_MAX, &again);
    RON_ASSERT(again.step == RON_HTTP_DONE);
    RON_ASSERT(ron_buf_len(&again.body) == ron_buf_len(&r->body));
    RON_ASSERT(memcmp(ron_buf_data(&again.body), ron_buf_data(&r->body), ron_buf_len(&r->body)) ==
               0);
    ron_buf_done(&again.body);
    ron_buf_done(&one);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct result whole;
    struct result cut;
    const char *in = (const char *)data + 1;

    if (size < 2) {
        return 0;
    }
    decode(in, size - 1, SIZE_MAX, &whole);
    decode(in, size - 1, (size_t)data[0] + 1, &cut);
    RON_ASSERT(whole.step == cut.step);
    RON_ASSERT(whole.reason == cut.reason);
    if (whole.step == RON_HTTP_DONE) {
        RON_ASSERT(whole.end == cut.end);
        RON_ASSERT(ron_buf_len(&whole.body) == ron_buf_len(&cut.body));
        RON_ASSERT(memcmp(ron_buf_data(&whole.body), ron_buf_data(&cut.body),
                          ron_buf_len(&whole.body)) == 0);
        check_again(&whole);
    }
    ron_buf_done(&whole.body);
    ron_buf_done(&cut.body);
    return 0;
}
