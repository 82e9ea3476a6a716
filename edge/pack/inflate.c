/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/inflate.c - the four compressions of packs, decoded whole into a bounded buffer.
 *
 * Gzip and zstd are the kernel's decoder with its ratio cap lifted: directories do compress more
 * than tenfold, and here the maximum of the buffer is the cap. Brotli, which no request body may
 * use, is the library's. */
#include <brotli/decode.h>

#include "edge/pack/pack.h"
#include "ron/base/alloc.h"
#include "ron/http/inflate.h"

enum { PIECE = 16 * 1024 }; /* on the stack of a thread of 256 KiB */

static enum ron_rc took(struct ron_buf *out, const void *bytes, size_t len, struct ron_err *err)
{
    enum ron_rc rc = ron_buf_append(out, bytes, len);

    return rc == RON_OK ? rc
                        : ron_err_set(err, rc,
                                      rc == RON_LIMIT ? "more than %zu bytes after decompression"
                                                      : "no memory for %zu decompressed bytes",
                                      out->max);
}

static enum ron_rc common(enum ron_inflate_coding coding, const uint8_t *in, size_t len,
                          struct ron_buf *out, struct ron_err *err)
{
    uint64_t room = (uint64_t)out->max - ron_buf_len(out);
    /* One byte beyond the room, so that it is the buffer that says how much was too much. */
    const struct ron_inflate_opts opts = {.out_max = room + 1,
                                          .ratio_max = UINT32_MAX,
                                          .floor_bytes =
                                              (uint32_t)RON_MIN(room + 1, (uint64_t)UINT32_MAX)};
    struct ron_inflate *z = NULL;
    uint8_t piece[PIECE];
    size_t used = 0;
    size_t got = 0;
    enum ron_rc rc;

    RON_TRY(ron_inflate_new(coding, &opts, &z, err));
    do {
        rc = ron_inflate_feed(z, in, len, &used, piece, sizeof piece, &got);
        if (got > 0 && (rc == RON_OK || rc == RON_LIMIT)) {
            enum ron_rc kept = took(out, piece, got, err);

            rc = kept != RON_OK ? kept : rc;
        }
        in += used;
        len -= used;
    } while (rc == RON_OK && (len > 0 || got == sizeof piece));
    rc = rc == RON_OK ? ron_inflate_end(z) : rc;
    ron_inflate_free(z);
    if (rc == RON_INVALID) {
        return ron_err_set(err, RON_CORRUPT, "truncated or corrupt %s data",
                           ron_inflate_coding_name(coding));
    }
    return rc == RON_OK || err == NULL || err->rc == rc
               ? rc
               : ron_err_set(err, rc, "%s: decompression limit exceeded",
                             ron_inflate_coding_name(coding));
}

static void *brotli_alloc(void *arg, size_t size)
{
    (void)arg;
    return ron_alloc(size);
}

static void brotli_free(void *arg, void *block)
{
    (void)arg;
    ron_free(block);
}

static enum ron_rc brotli(const uint8_t *in, size_t len, struct ron_buf *out, struct ron_err *err)
{
    BrotliDecoderState *z = BrotliDecoderCreateInstance(brotli_alloc, brotli_free, NULL);
    BrotliDecoderResult result;
    uint8_t piece[PIECE];
    enum ron_rc rc = RON_OK;

    if (z == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a brotli decoder");
    }
    do {
        uint8_t *to = piece;
        size_t room = sizeof piece;

        result = BrotliDecoderDecompressStream(z, &len, &in, &room, &to, NULL);
        rc = took(out, piece, sizeof piece - room, err);
    } while (rc == RON_OK && result == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT);
    if (rc == RON_OK && (result != BROTLI_DECODER_RESULT_SUCCESS || len > 0)) {
        BrotliDecoderErrorCode code = BrotliDecoderGetErrorCode(z);
        bool memory = code <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES &&
                      code >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES;

        rc = memory ? ron_err_set(err, RON_NOMEM, "no memory to decode brotli")
                    : ron_err_set(err, RON_CORRUPT, "truncated or corrupt brotli data");
    }
    BrotliDecoderDestroyInstance(z);
    return rc;
}

enum ron_rc edg_inflate(enum edg_coding coding, const void *bytes, size_t len, struct ron_buf *out,
                        struct ron_err *err)
{
    switch (coding) {
    case EDG_CODING_NONE:
        return took(out, bytes, len, err);
    case EDG_CODING_GZIP:
        return common(RON_INFLATE_GZIP, bytes, len, out, err);
    case EDG_CODING_ZSTD:
        return common(RON_INFLATE_ZSTD, bytes, len, out, err);
    case EDG_CODING_BROTLI:
        return brotli(bytes, len, out, err);
    case EDG_CODING_UNKNOWN:
    default:
        return ron_err_set(err, RON_UNSUPPORTED, "unsupported compression %d", (int)coding);
    }
}
