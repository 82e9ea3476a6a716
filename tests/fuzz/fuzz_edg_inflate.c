/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_edg_inflate.c - the compressions of packs, their heads damaged above all, and the metadata
 * that comes out of them. The first byte is the compression (bits 0 and 1) and the room (the rest),
 * then come the bytes.
 *
 * Oracle: zlib, libzstd and libbrotli at once. What we take they take, byte for byte; a bound is
 * never exceeded; a refusal has a sentence. Whatever was decoded makes a TileJSON, or is refused
 * with a sentence; degrees that were read are written and read again as the same. */
#include <brotli/decode.h>
#include <string.h>
#define ZLIB_CONST
#include <zlib.h>
#include <zstd.h>

#include "edge/pack/priv.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUT_MAX = 1 << 18 };

static const enum edg_coding codings[] = {EDG_CODING_NONE, EDG_CODING_GZIP, EDG_CODING_BROTLI,
                                          EDG_CODING_ZSTD};

static bool gzip_whole(const uint8_t *in, size_t len, uint8_t *out, size_t *ret_len)
{
    z_stream s = {
        .next_in = in, .avail_in = (uInt)len, .next_out = out, .avail_out = (uInt)OUT_MAX};
    int rc;

    RON_ASSERT(inflateInit2(&s, 31) == Z_OK);
    do {
        rc = inflate(&s, Z_FINISH);
    } while (rc == Z_STREAM_END && s.avail_in > 0 && inflateReset(&s) == Z_OK);
    *ret_len = (size_t)OUT_MAX - s.avail_out;
    (void)inflateEnd(&s);
    return rc == Z_STREAM_END;
}

/* What another decoder makes of it; false: it does not take it, or does not say. */
static bool others(enum edg_coding coding, const uint8_t *in, size_t len, uint8_t *out,
                   size_t *ret_len)
{
    size_t n = OUT_MAX;

    switch (coding) {
    case EDG_CODING_NONE:
        memcpy(out, in, len);
        *ret_len = len;
        return true;
    case EDG_CODING_GZIP:
        return gzip_whole(in, len, out, ret_len);
    case EDG_CODING_BROTLI:
        *ret_len = n;
        return BrotliDecoderDecompress(len, in, ret_len, out) == BROTLI_DECODER_RESULT_SUCCESS;
    case EDG_CODING_ZSTD:
        n = ZSTD_decompress(out, OUT_MAX, in, len);
        *ret_len = n;
        return !ZSTD_isError(n);
    case EDG_CODING_UNKNOWN:
    default:
        return false;
    }
}

static void as_metadata(const struct ron_buf *text)
{
    struct edg_pack_info info = {
        .kind = EDG_PACK_PMTILES, .tile_type = EDG_TILE_MVT, .zoom_max = 4};
    struct ron_buf out;
    struct ron_err err = {0};

    ron_buf_init(&out, 2 * OUT_MAX + 4096);
    RON_ASSERT(ron_buf_append_text(&out, "{\"tilejson\":\"3.0.0\"") == RON_OK);
    if (edg__tilejson_tail(&info,
                           (struct ron_str){(const char *)ron_buf_data(text), ron_buf_len(text)},
                           &out, &err) == RON_OK) {
        RON_ASSERT(((const char *)ron_buf_data(&out))[ron_buf_len(&out) - 1] == '}');
    } else {
        RON_ASSERT(err.msg[0] != '\0');
    }
    ron_buf_done(&out);
}

static void as_degrees(const uint8_t *data, size_t size)
{
    char text[64];
    const char *at = text;
    int32_t e7 = 0;
    int32_t again = 0;
    struct ron_buf out;

    if (size >= sizeof text) {
        return;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    if (!edg__degrees_read(&at, false, &e7)) {
        return;
    }
    RON_ASSERT(e7 >= -1800000000 && e7 <= 1800000000 && at <= text + size);
    ron_buf_init(&out, 64);
    edg__degrees_write(&out, e7);
    RON_ASSERT(ron_buf_append(&out, "", 1) == RON_OK);
    at = (const char *)ron_buf_data(&out);
    RON_ASSERT(edg__degrees_read(&at, false, &again) && again == e7);
    ron_buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t expected[OUT_MAX];
    struct ron_err err = {0};
    struct ron_buf out;
    enum edg_coding coding;
    size_t room;
    size_t len = 0;
    enum ron_rc rc;

    if (size < 1 || size > OUT_MAX) {
        return 0;
    }
    coding = codings[data[0] & 3];
    room = (data[0] >> 2) == 0 ? OUT_MAX : (size_t)(data[0] >> 2) * 97;
    data++;
    size--;
    ron_buf_init(&out, room);
    rc = edg_inflate(coding, data, size, &out, &err);
    RON_ASSERT(ron_buf_len(&out) <= room);
    RON_ASSERT(rc == RON_OK || err.msg[0] != '\0');
    if (rc == RON_OK) {
        bool good = others(coding, data, size, expected, &len);

        /* Of zstd the one-shot function refuses an empty compressed block, and we do not. */
        RON_ASSERT(good || coding == EDG_CODING_ZSTD);
        RON_ASSERT(!good || (len == ron_buf_len(&out) &&
                             (len == 0 || memcmp(expected, ron_buf_data(&out), len) == 0)));
        as_metadata(&out);
    }
    ron_buf_done(&out);
    as_degrees(data, size);
    return 0;
}
