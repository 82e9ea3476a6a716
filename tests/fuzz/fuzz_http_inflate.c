/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a chunked body with a content coding, as the server reads it. Byte 0 is the size of
 * the network's pieces, byte 1 the coding (bit 0), chunked or not (bit 1) and the size of the
 * output; the rest is the body.
 *
 * Properties of any input: verdict and bytes do not depend on pieces and output; the caps hold;
 * where zlib or libzstd can decode the whole body at once and the caps do not matter, we say the
 * same as they do; where they refuse, we do not accept. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ZLIB_CONST
#include <zlib.h>
#include <zstd.h>

#include "http/syntax/inflate_testing.h"
#include "http/syntax/inflater.h"
#include "http/syntax/syntax.h"
#include "ron/base/assert.h"
#include "ron/base/buf.h"
#include "ron/http/inflate.h"
#include "ron/http/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RAW_MAX = 1 << 20, OUT_MAX = 1 << 18, RATIO = 10, FLOOR = 1024, WINDOW_LOG = 20 };

struct result {
    enum ron_rc rc;
    struct ron_buf raw; /* what the decoder was given */
    struct ron_buf out;
};

static void feed(struct ron_inflate *z, const char *in, size_t len, size_t out_size,
                 struct result *r)
{
    static uint8_t out[256];
    size_t got = 0;

    RON_ASSERT(ron_buf_append(&r->raw, in, len) == RON_OK);
    do {
        size_t used = 0;

        r->rc = ron_inflate_feed(z, in, len, &used, out, out_size, &got);
        RON_ASSERT(used <= len && got <= out_size);
        RON_ASSERT(ron_buf_append(&r->out, out, got) == RON_OK);
        RON_ASSERT(ron_buf_len(&r->out) <= FLOOR ||
                   ron_buf_len(&r->out) <= RATIO * (ron_inflate_in_bytes(z) + 1));
        in += used;
        len -= used;
    } while (r->rc == RON_OK && (len > 0 || got == out_size));
}

static void decode(struct ron_inflate *z, bool chunked, const char *in, size_t len, size_t piece,
                   size_t out_size, struct result *r)
{
    struct ron_http_chunked d;
    bool done = !chunked;

    ron_inflate_reset(z);
    ron_http_chunked_init(&d, OUT_MAX);
    ron_buf_init(&r->raw, RAW_MAX);
    ron_buf_init(&r->out, OUT_MAX);
    r->rc = RON_OK;
    for (size_t at = 0; at < len && r->rc == RON_OK && !(chunked && done);) {
        size_t n = len - at < piece ? len - at : piece;
        size_t used = n;
        size_t from = 0;
        size_t data = n;

        if (chunked) {
            enum ron_http_step step = ron_http_chunked_feed(&d, in + at, n, &used, &from, &data);

            if (step == RON_HTTP_REFUSED) {
                r->rc = RON_CORRUPT; /* the framing, not the coding */
                return;
            }
            done = step == RON_HTTP_DONE;
        }
        if (data > 0) {
            feed(z, in + at + from, data, out_size, r);
        }
        at += used;
    }
    if (r->rc == RON_OK) {
        r->rc = done ? ron_inflate_end(z) : RON_CORRUPT;
    }
}

static void done(struct result *r)
{
    ron_buf_done(&r->raw);
    ron_buf_done(&r->out);
}

/* zlib over the whole body, members and all; false: not gzip. */
static bool oracle_gzip(const struct ron_buf *raw, uint8_t *out, size_t *ret_len)
{
    z_stream s = {.next_in = (const Bytef *)ron_buf_data(raw),
                  .avail_in = (uInt)ron_buf_len(raw),
                  .next_out = out,
                  .avail_out = OUT_MAX};
    int rc = Z_STREAM_END;

    RON_ASSERT(inflateInit2(&s, 31) == Z_OK);
    do {
        rc = inflate(&s, Z_FINISH);
    } while (rc == Z_STREAM_END && s.avail_in > 0 && inflateReset(&s) == Z_OK);
    *ret_len = (size_t)OUT_MAX - s.avail_out;
    (void)inflateEnd(&s);
    return rc == Z_STREAM_END;
}

static bool oracle_zstd(const struct ron_buf *raw, uint8_t *out, size_t *ret_len)
{
    size_t n = ZSTD_decompress(out, OUT_MAX, ron_buf_data(raw), ron_buf_len(raw));

    *ret_len = ZSTD_isError(n) ? 0 : n;
    return !ZSTD_isError(n) && ron_buf_len(raw) > 0;
}

/* The library's own stream decoder, which keeps block sizes within the window as RFC 8878 asks; the
 * one-shot function, which it calls itself when it sees a whole frame, does not. */
static bool stream_refuses(const struct ron_buf *raw)
{
    static uint8_t out[4096];
    ZSTD_DCtx *d = ZSTD_createDCtx();
    ZSTD_inBuffer in = {.src = ron_buf_data(raw)};
    size_t rc = 1;
    size_t made = 0;

    RON_ASSERT(d != NULL);
    while (!ZSTD_isError(rc) && (in.pos < ron_buf_len(raw) || made == sizeof out)) {
        ZSTD_outBuffer to = {.dst = out, .size = sizeof out};

        in.size = RON_MIN(in.pos + 1, ron_buf_len(raw));
        rc = ZSTD_decompressStream(d, &to, &in);
        made = to.pos;
    }
    (void)ZSTD_freeDCtx(d);
    return rc != 0; /* a fault, or not at the end of a frame */
}

/* Formats before 1.0, which the one-shot function still reads. */
static bool is_old_zstd(const struct ron_buf *raw)
{
    static const uint8_t tail[] = {0xb5, 0x2f, 0xfd};
    const uint8_t *bytes = ron_buf_data(raw);

    for (size_t i = 0; i + 4 <= ron_buf_len(raw); i++) {
        if (bytes[i] < 0x28 && memcmp(bytes + i + 1, tail, sizeof tail) == 0) {
            return true;
        }
    }
    return false;
}

static void compare(enum ron_inflate_coding coding, const struct result *r)
{
    static uint8_t out[OUT_MAX];
    size_t len = 0;
    bool good = coding == RON_INFLATE_GZIP ? oracle_gzip(&r->raw, out, &len)
                                           : oracle_zstd(&r->raw, out, &len);

    if (r->rc == RON_OK) {
        /* The one-shot function alone refuses an empty compressed block. */
        RON_ASSERT(good || (coding == RON_INFLATE_ZSTD && !stream_refuses(&r->raw)));
        RON_ASSERT(!good || len == ron_buf_len(&r->out));
        RON_ASSERT(!good || memcmp(out, ron_buf_data(&r->out), len) == 0);
    } else if (r->rc == RON_INVALID && good) {
        RON_ASSERT(coding == RON_INFLATE_ZSTD);
        RON_ASSERT(is_old_zstd(&r->raw) || stream_refuses(&r->raw));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct ron_inflate_opts opts = {
        .out_max = OUT_MAX, .ratio_max = RATIO, .floor_bytes = FLOOR, .window_log_max = WINDOW_LOG};
    static struct ron_inflate *decoders[2];
    struct result whole;
    struct result cut;
    const char *in = (const char *)data + 2;
    struct ron_inflate *z;

    if (size < 2 || size > RAW_MAX) {
        return 0;
    }
    for (size_t i = 0; i < 2 && decoders[i] == NULL; i++) {
        RON_ASSERT(ron_inflate_new((enum ron_inflate_coding)i, &opts, &decoders[i], NULL) ==
                   RON_OK);
    }
    z = decoders[data[1] & 1];
    decode(z, (data[1] & 2) != 0, in, size - 2, SIZE_MAX, 256, &whole);
    decode(z, (data[1] & 2) != 0, in, size - 2, (size_t)data[0] + 1, (size_t)(data[1] >> 2) + 1,
           &cut);
    RON_ASSERT(whole.rc == cut.rc);
    if (whole.rc != RON_CORRUPT) {
        size_t common = RON_MIN(ron_buf_len(&whole.out), ron_buf_len(&cut.out));

        /* How much of a broken block comes out before its fault depends on the pieces. */
        RON_ASSERT(whole.rc == RON_INVALID || ron_buf_len(&whole.out) == ron_buf_len(&cut.out));
        RON_ASSERT(memcmp(ron_buf_data(&whole.out), ron_buf_data(&cut.out), common) == 0);
        compare((enum ron_inflate_coding)(data[1] & 1), &whole);
    }
    done(&whole);
    done(&cut);
    return 0;
}
