/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: gzip and zstd bodies decode to what their own libraries say, stop at the caps, and end only
 * where the formats end. Method: bodies compressed here; each is decoded whole, byte by byte, and
 * with an output of a few bytes; bombs are streamed so that only the decoder could hold them. */
#include "support/support.h"

#include <sys/resource.h>
#define ZLIB_CONST
#include <zlib.h>
#include <zstd.h>

#include "http/syntax/inflate_testing.h"
#include "http/syntax/inflater.h"
#include "ron/base/alloc.h"
#include "ron/base/buf.h"
#include "ron/http/inflate.h"

#define S(text) ((struct ron_str){(text), sizeof(text) - 1})

enum { MAX = 32 << 20 };

/* ---- making bodies --------------------------------------------------------------------------- */

static void pack_gzip(struct ron_buf *to, const void *bytes, size_t len)
{
    z_stream s = {0};
    uint8_t *room = NULL;
    size_t bound;

    assert_int_equal(deflateInit2(&s, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY), Z_OK);
    bound = deflateBound(&s, len);
    assert_int_equal(ron_buf_reserve(to, bound, &room), RON_OK);
    s.next_in = (const Bytef *)bytes;
    s.avail_in = (uInt)len;
    s.next_out = room;
    s.avail_out = (uInt)bound;
    assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
    ron_buf_commit(to, s.total_out);
    assert_int_equal(deflateEnd(&s), Z_OK);
}

static void pack_zstd(struct ron_buf *to, const void *bytes, size_t len)
{
    uint8_t *room = NULL;
    size_t bound = ZSTD_compressBound(len);
    size_t n;

    assert_int_equal(ron_buf_reserve(to, bound, &room), RON_OK);
    n = ZSTD_compress(room, bound, bytes, len, 3);
    assert_false(ZSTD_isError(n));
    ron_buf_commit(to, n);
}

static void pack(enum ron_inflate_coding coding, struct ron_buf *to, const void *bytes, size_t len)
{
    (coding == RON_INFLATE_GZIP ? pack_gzip : pack_zstd)(to, bytes, len);
}

static const enum ron_inflate_coding codings[] = {RON_INFLATE_GZIP, RON_INFLATE_ZSTD};

static struct ron_inflate *make(enum ron_inflate_coding coding, const struct ron_inflate_opts *o)
{
    struct ron_inflate *z = NULL;

    assert_int_equal(ron_inflate_new(coding, o, &z, NULL), RON_OK);
    return z;
}

/* Feeds `len` bytes in pieces into an output of `out_size`; the verdict, the end's included. */
static enum ron_rc unpack(struct ron_inflate *z, const void *bytes, size_t len, size_t piece,
                          size_t out_size, struct ron_buf *to)
{
    const uint8_t *in = bytes;
    uint8_t *out = malloc(out_size);
    enum ron_rc rc = RON_OK;

    assert_non_null(out);
    for (size_t at = 0; at < len && rc == RON_OK;) {
        size_t n = RON_MIN(len - at, piece);
        size_t got = 0;

        do {
            size_t used = 0;

            rc = ron_inflate_feed(z, in + at, n, &used, out, out_size, &got);
            assert_true(used <= n);
            assert_true(got <= out_size);
            at += used;
            n -= used;
            assert_int_equal(ron_buf_append(to, out, got), RON_OK);
        } while (rc == RON_OK && (n > 0 || got == out_size));
    }
    free(out);
    assert_int_equal(ron_inflate_out_bytes(z), ron_buf_len(to));
    return rc == RON_OK ? ron_inflate_end(z) : rc;
}

/* Decodes in several cuttings: all agree (Z2). Returns the verdict; `to` holds the output. */
static enum ron_rc unpack_all(struct ron_inflate *z, const struct ron_buf *body, struct ron_buf *to)
{
    static const struct {
        size_t piece;
        size_t out_size;
    } cuts[] = {{1, 65536}, {SIZE_MAX, 13}, {7, 3}, {1000, 4096}, {1, 1}};
    enum ron_rc rc;

    ron_inflate_reset(z);
    rc = unpack(z, ron_buf_data(body), ron_buf_len(body), SIZE_MAX, 65536, to);
    for (size_t i = 0; i < RON_ARRAY_LEN(cuts); i++) {
        struct ron_buf again;

        ron_buf_init(&again, MAX);
        ron_inflate_reset(z);
        assert_int_equal(unpack(z, ron_buf_data(body), ron_buf_len(body), cuts[i].piece,
                                cuts[i].out_size, &again),
                         rc);
        assert_int_equal(ron_buf_len(&again), ron_buf_len(to));
        assert_memory_equal(ron_buf_data(&again), ron_buf_data(to), ron_buf_len(to));
        ron_buf_done(&again);
    }
    return rc;
}

/* Text that compresses about 4x. */
static void fill_text(uint8_t *bytes, size_t len)
{
    struct ron_rand rand = support_rand();

    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)('a' + ron_rand_u64(&rand) % 4);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_inflate__coding_names__exactly_ours(void **state)
{
    enum ron_inflate_coding c = RON_INFLATE_ZSTD;

    (void)state;
    assert_int_equal(ron_inflate_coding_parse(S("GZip"), &c), RON_OK);
    assert_int_equal(c, RON_INFLATE_GZIP);
    assert_int_equal(ron_inflate_coding_parse(S("zstd"), &c), RON_OK);
    assert_int_equal(c, RON_INFLATE_ZSTD);
    assert_int_equal(ron_inflate_coding_parse(S("x-gzip"), &c), RON_OK);
    assert_int_equal(c, RON_INFLATE_GZIP);
    assert_string_equal(ron_inflate_coding_name(RON_INFLATE_GZIP), "gzip");
    assert_string_equal(ron_inflate_coding_name(RON_INFLATE_ZSTD), "zstd");
    assert_int_equal(ron_inflate_coding_parse(S("identity"), &c), RON_NOTFOUND);
    assert_int_equal(ron_inflate_coding_parse((struct ron_str){NULL, 0}, &c), RON_NOTFOUND);
    assert_int_equal(ron_inflate_coding_parse(S("deflate"), &c), RON_UNSUPPORTED);
    assert_int_equal(ron_inflate_coding_parse(S("br"), &c), RON_UNSUPPORTED);
    assert_int_equal(ron_inflate_coding_parse(S("gzip, gzip"), &c), RON_UNSUPPORTED);
    assert_int_equal(ron_inflate_coding_parse(S("gzi"), &c), RON_UNSUPPORTED);
}

static void test_inflate__good_bodies__decoded_however_cut(void **state)
{
    static const size_t sizes[] = {0, 1, 5, 1000, 70000, 300000};
    uint8_t *text = malloc(300000);

    (void)state;
    assert_non_null(text);
    fill_text(text, 300000);
    for (size_t c = 0; c < RON_ARRAY_LEN(codings); c++) {
        struct ron_inflate *z = make(codings[c], NULL);

        for (size_t i = 0; i < RON_ARRAY_LEN(sizes); i++) {
            struct ron_buf body;
            struct ron_buf out;

            ron_buf_init(&body, MAX);
            ron_buf_init(&out, MAX);
            pack(codings[c], &body, text, sizes[i]);
            assert_int_equal(unpack_all(z, &body, &out), RON_OK);
            assert_int_equal(ron_buf_len(&out), sizes[i]);
            assert_memory_equal(ron_buf_data(&out), text, sizes[i]);
            assert_int_equal(ron_inflate_in_bytes(z), ron_buf_len(&body));
            ron_buf_done(&body);
            ron_buf_done(&out);
        }
        ron_inflate_free(z);
    }
    free(text);
}

static void test_inflate__several_members__one_body(void **state)
{
    (void)state;
    for (size_t c = 0; c < RON_ARRAY_LEN(codings); c++) {
        struct ron_inflate *z = make(codings[c], NULL);
        struct ron_buf body;
        struct ron_buf out;

        ron_buf_init(&body, MAX);
        ron_buf_init(&out, MAX);
        pack(codings[c], &body, "one", 3);
        pack(codings[c], &body, "", 0);
        pack(codings[c], &body, "two", 3);
        assert_int_equal(unpack_all(z, &body, &out), RON_OK);
        assert_int_equal(ron_buf_len(&out), 6);
        assert_memory_equal(ron_buf_data(&out), "onetwo", 6);
        ron_buf_done(&body);
        ron_buf_done(&out);
        ron_inflate_free(z);
    }
}

static void test_inflate__bytes_behind_the_end__refused(void **state)
{
    static const char *const tails[] = {"x", "hello, this is no header", "\0\0\0\0\0\0\0\0"};
    static const size_t lens[] = {1, 24, 8};

    (void)state;
    for (size_t c = 0; c < RON_ARRAY_LEN(codings); c++) {
        struct ron_inflate *z = make(codings[c], NULL);

        for (size_t t = 0; t < RON_ARRAY_LEN(tails); t++) {
            struct ron_buf body;
            struct ron_buf out;

            ron_buf_init(&body, MAX);
            ron_buf_init(&out, MAX);
            pack(codings[c], &body, "one", 3);
            assert_int_equal(ron_buf_append(&body, tails[t], lens[t]), RON_OK);
            assert_int_equal(unpack_all(z, &body, &out), RON_INVALID);
            assert_int_equal(ron_buf_len(&out), 3);
            ron_buf_done(&body);
            ron_buf_done(&out);
        }
        ron_inflate_free(z);
    }
}

static void test_inflate__cut_short_anywhere__refused_at_the_end(void **state)
{
    (void)state;
    for (size_t c = 0; c < RON_ARRAY_LEN(codings); c++) {
        struct ron_inflate *z = make(codings[c], NULL);
        struct ron_buf body;

        ron_buf_init(&body, MAX);
        pack(codings[c], &body, "hello hello hello hello hello", 29);
        for (size_t len = 0; len < ron_buf_len(&body); len++) {
            struct ron_buf out;

            ron_buf_init(&out, MAX);
            ron_inflate_reset(z);
            assert_int_equal(unpack(z, ron_buf_data(&body), len, 5, 100, &out), RON_INVALID);
            ron_buf_done(&out);
        }
        ron_buf_done(&body);
        ron_inflate_free(z);
    }
}

/* gzip carries a checksum of the content, so each flipped bit is either refused or harmless (a
 * header's time stamp). The frames of ZSTD_compress have none: only crashes count there. */
static void test_inflate__flipped_bits__never_other_text(void **state)
{
    static const char text[] = "hello hello hello hello hello";

    (void)state;
    for (size_t c = 0; c < RON_ARRAY_LEN(codings); c++) {
        struct ron_inflate *z = make(codings[c], NULL);
        struct ron_buf body;

        ron_buf_init(&body, MAX);
        pack(codings[c], &body, text, sizeof text - 1);
        for (size_t bit = 0; bit < ron_buf_len(&body) * 8; bit++) {
            uint8_t bad[256];
            struct ron_buf out;

            memcpy(bad, ron_buf_data(&body), ron_buf_len(&body));
            bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
            ron_buf_init(&out, MAX);
            ron_inflate_reset(z);
            if (unpack(z, bad, ron_buf_len(&body), 4, 64, &out) == RON_OK &&
                codings[c] == RON_INFLATE_GZIP) {
                assert_int_equal(ron_buf_len(&out), sizeof text - 1);
                assert_memory_equal(ron_buf_data(&out), text, sizeof text - 1);
            }
            ron_buf_done(&out);
        }
        ron_buf_done(&body);
        ron_inflate_free(z);
    }
}

static void test_inflate__failure__stays_until_reset(void **state)
{
    struct ron_inflate *z = make(RON_INFLATE_GZIP, NULL);
    struct ron_buf body;
    uint8_t out[16];
    size_t used = 0;
    size_t len = 0;

    (void)state;
    assert_int_equal(ron_inflate_feed(z, "no gzip", 7, &used, out, sizeof out, &len), RON_INVALID);
    assert_int_equal(ron_inflate_feed(z, "\x1f\x8b", 2, &used, out, sizeof out, &len), RON_INVALID);
    assert_int_equal(used, 0);
    assert_int_equal(ron_inflate_end(z), RON_INVALID);
    ron_inflate_reset(z);
    ron_buf_init(&body, 100);
    pack_gzip(&body, "again", 5);
    assert_int_equal(
        ron_inflate_feed(z, ron_buf_data(&body), ron_buf_len(&body), &used, out, sizeof out, &len),
        RON_OK);
    assert_int_equal(len, 5);
    assert_int_equal(ron_inflate_end(z), RON_OK);
    for (int i = 0; i < 100; i++) { /* Empty pieces change nothing. */
        assert_int_equal(ron_inflate_feed(z, NULL, 0, &used, out, sizeof out, &len), RON_OK);
        assert_int_equal(len, 0);
    }
    assert_int_equal(ron_inflate_end(z), RON_OK);
    ron_buf_done(&body);
    ron_inflate_free(z);
}

/* Zeros behind text: the ratio holds on average for the last case only, and never at its start. */
static void test_inflate__ratio__exact_and_however_cut(void **state)
{
    static const struct ron_inflate_opts opts = {.ratio_max = 10, .floor_bytes = 1000};
    uint8_t *bytes = calloc(1, 400000);

    (void)state;
    assert_non_null(bytes);
    for (size_t c = 0; c < RON_ARRAY_LEN(codings); c++) {
        struct ron_inflate *z = make(codings[c], &opts);
        struct ron_buf body;
        struct ron_buf out;

        for (size_t text = 0; text <= 40000; text += 8000) {
            memset(bytes, 0, 400000);
            fill_text(bytes, text);
            ron_buf_init(&body, MAX);
            ron_buf_init(&out, MAX);
            pack(codings[c], &body, bytes, 400000);
            assert_int_equal(unpack_all(z, &body, &out), RON_LIMIT);
            assert_true(ron_buf_len(&out) <= RON_MAX((size_t)1000, ron_inflate_in_bytes(z) * 10));
            assert_memory_equal(ron_buf_data(&out), bytes, ron_buf_len(&out));
            if (text == 0) {
                assert_int_equal(ron_buf_len(&out), 1000);
            }
            ron_buf_done(&body);
            ron_buf_done(&out);
        }
        ron_inflate_free(z);
    }
    free(bytes);
}

static void test_inflate__absolute_cap__last_byte_counts(void **state)
{
    uint8_t *text = malloc(200000);

    (void)state;
    assert_non_null(text);
    fill_text(text, 200000);
    for (size_t c = 0; c < RON_ARRAY_LEN(codings); c++) {
        for (size_t over = 0; over < 2; over++) {
            struct ron_inflate *z =
                make(codings[c], &(struct ron_inflate_opts){.out_max = 200000 - over});
            struct ron_buf body;
            struct ron_buf out;

            ron_buf_init(&body, MAX);
            ron_buf_init(&out, MAX);
            pack(codings[c], &body, text, 200000);
            assert_int_equal(unpack_all(z, &body, &out), over == 0 ? RON_OK : RON_LIMIT);
            assert_int_equal(ron_buf_len(&out), 200000 - over);
            ron_buf_done(&body);
            ron_buf_done(&out);
            ron_inflate_free(z);
        }
    }
    free(text);
}

/* The thread sanitizer keeps several bytes about each byte of ours. */
#if defined(__SANITIZE_THREAD__)
#define SHADOW 8
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHADOW 8
#endif
#endif
#ifndef SHADOW
#define SHADOW 1
#endif

static long peak_kib(void)
{
    struct rusage use;

    assert_int_equal(getrusage(RUSAGE_SELF, &use), 0);
    return use.ru_maxrss;
}

/* 4 GiB of zeros; the compressor makes them as the decoder asks, and far fewer are asked for. */
static void test_inflate__gzip_bomb__costs_its_cap(void **state)
{
    static const struct ron_inflate_opts wide = {.ratio_max = UINT32_MAX};
    static uint8_t zeros[1 << 20];
    static uint8_t packed[65536];
    static uint8_t out[65536];

    (void)state;
    for (int by_ratio = 0; by_ratio < 2; by_ratio++) {
        struct ron_inflate *z = make(RON_INFLATE_GZIP, by_ratio ? NULL : &wide);
        z_stream s = {0};
        uint64_t fed = 0;
        enum ron_rc rc = RON_OK;
        long before = peak_kib();

        assert_int_equal(deflateInit2(&s, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY), Z_OK);
        while (rc == RON_OK && fed < 4ull << 30) {
            const uint8_t *in = packed;
            size_t len;
            size_t got = 0;

            s.next_in = zeros;
            s.avail_in = sizeof zeros;
            s.next_out = packed;
            s.avail_out = sizeof packed;
            assert_int_equal(deflate(&s, Z_SYNC_FLUSH), Z_OK);
            fed += sizeof zeros;
            len = sizeof packed - s.avail_out;
            do {
                size_t used = 0;

                rc = ron_inflate_feed(z, in, len, &used, out, sizeof out, &got);
                in += used;
                len -= used;
            } while (rc == RON_OK && (len > 0 || got == sizeof out));
        }
        assert_int_equal(rc, RON_LIMIT);
        assert_int_equal(ron_inflate_out_bytes(z),
                         by_ratio ? RON_INFLATE_FLOOR_DEFAULT : RON_INFLATE_OUT_DEFAULT);
        assert_true(peak_kib() - before < 4096L * SHADOW);
        (void)deflateEnd(&s);
        ron_inflate_free(z);
    }
}

/* Blocks of one byte that stand for 128 KiB each: RLE blocks, 32768x. */
static size_t zstd_bomb(uint8_t *to, uint8_t window_byte, size_t blocks)
{
    static const uint8_t head[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00};
    size_t len = sizeof head;

    memcpy(to, head, sizeof head);
    to[len++] = window_byte;
    for (size_t i = 0; i < blocks; i++) {
        uint32_t block = (uint32_t)(i + 1 == blocks) | 1u << 1 | (128u << 10) << 3;

        to[len++] = (uint8_t)block;
        to[len++] = (uint8_t)(block >> 8);
        to[len++] = (uint8_t)(block >> 16);
        to[len++] = 0;
    }
    return len;
}

static void test_inflate__zstd_bomb__costs_its_cap(void **state)
{
    enum { BLOCKS = 32768 }; /* 4 GiB */
    uint8_t *bomb = malloc(16 + BLOCKS * 4);
    size_t len;

    (void)state;
    assert_non_null(bomb);
    for (int by_ratio = 0; by_ratio < 2; by_ratio++) {
        struct ron_inflate *z =
            make(RON_INFLATE_ZSTD,
                 by_ratio ? NULL : &(struct ron_inflate_opts){.ratio_max = UINT32_MAX});
        struct ron_buf out;
        long before = peak_kib();

        len = zstd_bomb(bomb, (23 - 10) << 3, BLOCKS); /* window 8 MiB: the largest allowed */
        ron_buf_init(&out, MAX);
        assert_int_equal(unpack(z, bomb, len, SIZE_MAX, 65536, &out), RON_LIMIT);
        assert_int_equal(ron_buf_len(&out),
                         by_ratio ? RON_INFLATE_FLOOR_DEFAULT : RON_INFLATE_OUT_DEFAULT);
        assert_true(peak_kib() - before <
                    40L * 1024 * SHADOW); /* output 16 MiB, window 8 MiB, sanitizers */
        ron_buf_done(&out);

        ron_inflate_reset(z);
        len = zstd_bomb(bomb, (24 - 10) << 3, 1);
        ron_buf_init(&out, MAX);
        assert_int_equal(unpack(z, bomb, len, SIZE_MAX, 65536, &out), RON_LIMIT);
        assert_int_equal(ron_buf_len(&out), 0);
        ron_buf_done(&out);
        ron_inflate_free(z);
    }
    free(bomb);
}

/* Formats before 1.0 have their own decoders in the library, with their own heap: refused. */
static void test_inflate__old_or_foreign_zstd__refused(void **state)
{
    static const char *const bodies[] = {
        "\x27\xb5\x2f\xfd\0\0\0\0\0\0", "\x25\xb5\x2f\xfd\0\0\0\0\0\0",
        "\x1e\xb5\x2f\xfd\0\0\0\0\0\0", "\x1f\x8b\x08\0\0\0\0\0\0\0"};
    struct ron_inflate *z = make(RON_INFLATE_ZSTD, NULL);

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bodies); i++) {
        struct ron_buf out;

        ron_buf_init(&out, MAX);
        ron_inflate_reset(z);
        assert_int_equal(unpack(z, bodies[i], 10, 1, 100, &out), RON_INVALID);
        ron_buf_done(&out);
    }
    ron_inflate_free(z);
}

static int watched;

static void watch(int delta, const char *site)
{
    (void)site;
    watched += delta > 0;
}

static void test_inflate__many_bodies__no_allocation(void **state)
{
    uint8_t *text = malloc(100000);
    uint8_t *out = malloc(65536);

    (void)state;
    assert_non_null(text);
    assert_non_null(out);
    fill_text(text, 100000);
    for (size_t c = 0; c < RON_ARRAY_LEN(codings); c++) {
        struct ron_inflate *z = make(codings[c], NULL);
        struct ron_buf body;

        ron_buf_init(&body, MAX);
        pack(codings[c], &body, text, 100000);
        watched = 0;
        ron_alloc_watch = watch;
        for (int i = 0; i < 50; i++) {
            const uint8_t *in = ron_buf_data(&body);
            size_t left = ron_buf_len(&body);
            size_t got = 0;

            ron_inflate_reset(z);
            do {
                size_t used = 0;

                assert_int_equal(ron_inflate_feed(z, in, left, &used, out, 65536, &got), RON_OK);
                in += used;
                left -= used;
            } while (left > 0 || got == 65536);
            assert_int_equal(ron_inflate_end(z), RON_OK);
        }
        ron_alloc_watch = NULL;
        assert_int_equal(watched, 0);
        ron_buf_done(&body);
        ron_inflate_free(z);
    }
    free(text);
    free(out);
}

static void test_inflate__bad_options__refused(void **state)
{
    struct ron_inflate *z = NULL;
    struct ron_err err = {0};

    (void)state;
    assert_int_equal(ron_inflate_new(RON_INFLATE_ZSTD,
                                     &(struct ron_inflate_opts){.window_log_max = 28}, &z, &err),
                     RON_INVALID);
    assert_int_equal(ron_inflate_new(RON_INFLATE_ZSTD,
                                     &(struct ron_inflate_opts){.window_log_max = 9}, &z, NULL),
                     RON_INVALID);
    assert_null(z);
    ron_inflate_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inflate__coding_names__exactly_ours),
        cmocka_unit_test(test_inflate__good_bodies__decoded_however_cut),
        cmocka_unit_test(test_inflate__several_members__one_body),
        cmocka_unit_test(test_inflate__bytes_behind_the_end__refused),
        cmocka_unit_test(test_inflate__cut_short_anywhere__refused_at_the_end),
        cmocka_unit_test(test_inflate__flipped_bits__never_other_text),
        cmocka_unit_test(test_inflate__failure__stays_until_reset),
        cmocka_unit_test(test_inflate__ratio__exact_and_however_cut),
        cmocka_unit_test(test_inflate__absolute_cap__last_byte_counts),
        cmocka_unit_test(test_inflate__gzip_bomb__costs_its_cap),
        cmocka_unit_test(test_inflate__zstd_bomb__costs_its_cap),
        cmocka_unit_test(test_inflate__old_or_foreign_zstd__refused),
        cmocka_unit_test(test_inflate__many_bodies__no_allocation),
        cmocka_unit_test(test_inflate__bad_options__refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
