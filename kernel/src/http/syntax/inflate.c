/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/syntax/inflate.c - gzip through zlib and zstd through libzstd, neither of which
 * may allocate later.
 *
 * Invariants:
 *   I1 `seen` is exactly the input that the next byte of output needs while one is pending, and all
 *      input taken otherwise, so that the ratio is a property of the bytes and not of their cutting
 *      (Z2). zlib gives back what it read ahead when it stops, but may have read the symbol behind
 *      a full output. libzstd works by blocks: it is given one byte at a time while a frame header
 *      may be read, and else no more than what it waits for.
 *   I2 Up to the budget a decoder runs freely. At the budget it must first give what is pending and
 *      is then given input byte by byte, with room for one byte of output. Only that byte can break
 *      Z1; it is then taken back.
 *   I3 Both libraries live in `memory`, which is as large as they can ever need.
 *
 * libzstd's functions for static memory and for the size of the next read are outside its stable
 * interface but exported by every 1.4 and 1.5; Debian 12 has 1.5.4. */
#include "ron/http/inflate.h"

#define ZLIB_CONST
#include <zlib.h>
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>

#include "http/syntax/chars.h"
#include "http/syntax/inflate_testing.h"
#include "http/syntax/inflater.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"

enum {
    GZIP_MEMORY = 64 * 1024,    /* state 7 KiB and window 32 KiB in zlib 1.2.13, and slack */
    GZIP_WINDOW_BITS = 15 + 16, /* the largest window; a gzip header and nothing else */
    ZSTD_HEADER_MAX = ZSTD_FRAMEHEADERSIZE_MAX,
    MEMORY_ALIGN = 64, /* more than either library asks for */
};

struct ron_inflate {
    struct ron_inflate_opts opts; /* without zeros */
    enum ron_inflate_coding coding;
    enum ron_rc failed; /* RON_OK, or the answer to everything */
    bool at_end;        /* behind a whole member or frame */
    bool pending;       /* the last step filled its output: there may be more without input */
    uint64_t in_bytes;
    uint64_t seen; /* I1: in_bytes, or one more while libzstd holds back a frame's last byte */
    uint64_t out_bytes;
    uint64_t frame_in; /* in_bytes and out_bytes where the present zstd frame began */
    uint64_t frame_out;
    uint8_t frame_head[ZSTD_HEADER_MAX]; /* its first bytes */
    z_stream gzip;
    ZSTD_DStream *zstd;
    size_t memory_used; /* of gzip's share */
    size_t memory_size;
    uint8_t *memory;
};

/* What one step of a decoder did. */
struct step {
    const uint8_t *in;
    size_t in_len;
    uint8_t *out;
    size_t out_size;
    size_t used;
    size_t made;
};

const char *ron_inflate_coding_name(enum ron_inflate_coding coding)
{
    return coding == RON_INFLATE_GZIP ? "gzip" : "zstd";
}

enum ron_rc ron_inflate_coding_parse(struct ron_str value, enum ron_inflate_coding *ret_coding)
{
    static const struct {
        const char *name;
        enum ron_rc rc;
        enum ron_inflate_coding coding;
    } names[] = {
        {"", RON_NOTFOUND, RON_INFLATE_GZIP},         {"gzip", RON_OK, RON_INFLATE_GZIP},
        {"zstd", RON_OK, RON_INFLATE_ZSTD},           {"x-gzip", RON_OK, RON_INFLATE_GZIP},
        {"identity", RON_NOTFOUND, RON_INFLATE_GZIP},
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        if (ron_str_is_nocase(value, names[i].name)) {
            if (names[i].rc == RON_OK) {
                *ret_coding = names[i].coding;
            }
            return names[i].rc;
        }
    }
    return RON_UNSUPPORTED;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static voidpf gzip_alloc(voidpf opaque, uInt items, uInt size)
{
    struct ron_inflate *z = opaque;
    size_t want = ((size_t)items * size + MEMORY_ALIGN - 1) & ~(size_t)(MEMORY_ALIGN - 1);

    if (want > z->memory_size - z->memory_used) {
        return NULL;
    }
    z->memory_used += want;
    return z->memory + z->memory_used - want;
}

/* The state and the window stay until the context goes. */
static void gzip_free(voidpf opaque, voidpf address)
{
    (void)opaque;
    (void)address;
}

size_t ron_inflate_memory(enum ron_inflate_coding coding, const struct ron_inflate_opts *opts)
{
    uint32_t log = opts != NULL && opts->window_log_max != 0
                       ? opts->window_log_max
                       : (uint32_t)RON_INFLATE_WINDOW_LOG_DEFAULT;

    return coding == RON_INFLATE_GZIP ? (size_t)GZIP_MEMORY
                                      : ZSTD_estimateDStreamSize((size_t)1 << log);
}

static bool decoder_init(struct ron_inflate *z)
{
    if (z->coding == RON_INFLATE_GZIP) {
        z->gzip = (z_stream){.zalloc = gzip_alloc, .zfree = gzip_free, .opaque = z};
        return inflateInit2(&z->gzip, GZIP_WINDOW_BITS) == Z_OK;
    }
    z->zstd = ZSTD_initStaticDStream(z->memory, z->memory_size);
    return z->zstd != NULL && !ZSTD_isError(ZSTD_DCtx_setParameter(z->zstd, ZSTD_d_windowLogMax,
                                                                   (int)z->opts.window_log_max));
}

enum ron_rc ron_inflate_new(enum ron_inflate_coding coding, const struct ron_inflate_opts *opts,
                            struct ron_inflate **ret_z, struct ron_err *err)
{
    struct ron_inflate_opts o = opts != NULL ? *opts : (struct ron_inflate_opts){0};
    struct ron_inflate *z;

    o.out_max = o.out_max != 0 ? o.out_max : RON_INFLATE_OUT_DEFAULT;
    o.ratio_max = o.ratio_max != 0 ? o.ratio_max : RON_INFLATE_RATIO_DEFAULT;
    o.floor_bytes = o.floor_bytes != 0 ? o.floor_bytes : RON_INFLATE_FLOOR_DEFAULT;
    o.window_log_max = o.window_log_max != 0 ? o.window_log_max : RON_INFLATE_WINDOW_LOG_DEFAULT;
    if (o.window_log_max < RON_INFLATE_WINDOW_LOG_MIN ||
        o.window_log_max > RON_INFLATE_WINDOW_LOG_MAX) {
        return ron_err_set(err, RON_INVALID, "window_log_max %u is not within %d..%d",
                           o.window_log_max, RON_INFLATE_WINDOW_LOG_MIN,
                           RON_INFLATE_WINDOW_LOG_MAX);
    }
    z = ron_alloc_zero(sizeof *z);
    if (z == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a decoder");
    }
    z->opts = o;
    z->coding = coding;
    z->memory_size = ron_inflate_memory(coding, &o);
    z->memory = ron_alloc_aligned(MEMORY_ALIGN, z->memory_size);
    if (z->memory == NULL || !decoder_init(z)) {
        ron_inflate_free(z);
        return ron_err_set(err, RON_NOMEM, "no memory for a %s decoder",
                           ron_inflate_coding_name(coding));
    }
    *ret_z = z;
    return RON_OK;
}

void ron_inflate_free(struct ron_inflate *z)
{
    if (z != NULL) {
        ron_free(z->memory); /* I3: the libraries hold nothing else */
        ron_free(z);
    }
}

void ron_inflate_reset(struct ron_inflate *z)
{
    z->failed = RON_OK;
    z->at_end = false;
    z->pending = false;
    z->in_bytes = 0;
    z->seen = 0;
    z->out_bytes = 0;
    z->frame_in = 0;
    z->frame_out = 0;
    if (z->coding == RON_INFLATE_GZIP) {
        RON_ASSERT(inflateReset(&z->gzip) == Z_OK);
    } else {
        RON_ASSERT(!ZSTD_isError(ZSTD_DCtx_reset(z->zstd, ZSTD_reset_session_only)));
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static enum ron_rc gzip_step(struct ron_inflate *z, struct step *s)
{
    int rc;

    if (z->at_end) {
        if (s->in_len == 0) {
            return RON_OK;
        }
        z->at_end = false;
        RON_ASSERT(inflateReset(&z->gzip) == Z_OK);
    }
    z->gzip.next_in = (const Bytef *)s->in;
    z->gzip.avail_in = (uInt)RON_MIN(s->in_len, (size_t)UINT32_MAX);
    z->gzip.next_out = s->out;
    z->gzip.avail_out = (uInt)RON_MIN(s->out_size, (size_t)UINT32_MAX);
    rc = inflate(&z->gzip, Z_NO_FLUSH);
    s->used = (size_t)(z->gzip.next_in - s->in);
    s->made = (size_t)(z->gzip.next_out - s->out);
    z->in_bytes += s->used;
    z->seen = z->in_bytes;
    switch (rc) {
    case Z_STREAM_END:
        z->at_end = true;
        return RON_OK;
    case Z_OK:
    case Z_BUF_ERROR: /* Nothing to do without more input. */
        return RON_OK;
    case Z_MEM_ERROR:
        return RON_NOMEM;
    default: /* Z_DATA_ERROR, and Z_NEED_DICT, which gzip does not know. */
        return RON_INVALID;
    }
}

/* The library does not compare the size that a header announces when the last block is empty. */
static bool frame_is_whole(const struct ron_inflate *z, uint64_t out_bytes)
{
    ZSTD_frameHeader head;
    uint64_t len = RON_MIN(z->in_bytes - z->frame_in, (uint64_t)ZSTD_HEADER_MAX);

    return ZSTD_getFrameHeader(&head, z->frame_head, (size_t)len) == 0 &&
           (head.frameType == ZSTD_skippableFrame ||
            head.frameContentSize == ZSTD_CONTENTSIZE_UNKNOWN ||
            head.frameContentSize == out_bytes - z->frame_out);
}

static enum ron_rc zstd_step(struct ron_inflate *z, struct step *s)
{
    ZSTD_inBuffer in = {.src = s->in, .size = s->in_len};
    ZSTD_outBuffer out = {.dst = s->out, .size = s->out_size};
    size_t rc;

    if (z->at_end) {
        if (s->in_len == 0) {
            return RON_OK;
        }
        z->at_end = false;
        z->frame_in = z->in_bytes;
        z->frame_out = z->out_bytes;
    }
    if (s->in_len > 0) { /* I1 */
        uint64_t at = z->in_bytes - z->frame_in;
        size_t next = at < ZSTD_HEADER_MAX ? 1 : ZSTD_nextSrcSizeToDecompress(z->zstd);

        in.size = RON_MIN(s->in_len, RON_MAX(next, (size_t)1));
        if (at < ZSTD_HEADER_MAX) {
            z->frame_head[at] = s->in[0];
        }
    }
    rc = ZSTD_decompressStream(z->zstd, &out, &in);
    s->used = in.pos;
    s->made = out.pos;
    z->in_bytes += in.pos;
    z->seen = z->in_bytes;
    if (ZSTD_isError(rc)) {
        return ZSTD_getErrorCode(rc) == ZSTD_error_frameParameter_windowTooLarge ? RON_LIMIT
                                                                                 : RON_INVALID;
    }
    if (rc == 0) {
        z->at_end = true;
        return frame_is_whole(z, z->out_bytes + s->made) ? RON_OK : RON_INVALID;
    }
    if (ZSTD_nextSrcSizeToDecompress(z->zstd) == 0) {
        z->seen++; /* The frame is decoded; its last byte counts as unread until all is out. */
    }
    return RON_OK;
}

static uint64_t budget(const struct ron_inflate *z)
{
    uint64_t by_ratio;

    if (__builtin_mul_overflow(z->seen, z->opts.ratio_max, &by_ratio)) {
        by_ratio = UINT64_MAX;
    }
    return RON_MIN(z->opts.out_max, RON_MAX(by_ratio, (uint64_t)z->opts.floor_bytes));
}

static enum ron_rc one_step(struct ron_inflate *z, struct step *s)
{
    enum ron_rc rc;
    uint64_t room = budget(z) - z->out_bytes;

    if (room == 0) { /* I2 */
        s->out_size = 1;
        s->in_len = z->pending ? 0 : RON_MIN(s->in_len, (size_t)1);
    } else if (room < s->out_size) {
        s->out_size = (size_t)room;
    }
    rc = z->coding == RON_INFLATE_GZIP ? gzip_step(z, s) : zstd_step(z, s);
    z->pending = s->made == s->out_size;
    z->out_bytes += s->made;
    if (z->out_bytes > budget(z)) {
        s->made--;
        z->out_bytes--;
        RON_ASSERT(z->out_bytes <= budget(z));
        return RON_LIMIT;
    }
    return rc;
}

enum ron_rc ron_inflate_feed(struct ron_inflate *z, const void *in, size_t len, size_t *ret_used,
                             void *out, size_t size, size_t *ret_len)
{
    static const uint8_t nothing[1];
    size_t used = 0;
    size_t made = 0;

    RON_ASSERT(size > 0);
    while (z->failed == RON_OK && made < size && (used < len || z->pending)) {
        bool was_pending = z->pending;
        struct step s = {.in = len > 0 ? (const uint8_t *)in + used : nothing,
                         .in_len = len - used,
                         .out = (uint8_t *)out + made,
                         .out_size = size - made};

        z->failed = one_step(z, &s);
        used += s.used;
        made += s.made;
        if (z->failed == RON_OK && s.used == 0 && s.made == 0 && !was_pending) {
            z->failed = RON_INVALID; /* It takes nothing and gives nothing: there is no way on. */
        }
    }
    *ret_used = used;
    *ret_len = made;
    return z->failed;
}

enum ron_rc ron_inflate_end(const struct ron_inflate *z)
{
    if (z->failed != RON_OK) {
        return z->failed;
    }
    return z->at_end ? RON_OK : RON_INVALID;
}

uint64_t ron_inflate_in_bytes(const struct ron_inflate *z)
{
    return z->in_bytes;
}

uint64_t ron_inflate_out_bytes(const struct ron_inflate *z)
{
    return z->out_bytes;
}
