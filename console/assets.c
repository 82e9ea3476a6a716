/* SPDX-License-Identifier: Apache-2.0 */
/* console/assets.c - the embedded files: their bytes, tags and packed forms.
 *
 * Place: console. CON_STATIC_DIR is the folder, by the build (cmake/RonServices.cmake), which also
 * compiles this file anew when one of them changes. */
#include "console/assets.h"

#include <string.h>
#include <zlib.h>

#include "ron/base/alloc.h"
#include "ron/cas/b3.h"

/* The bytes between two symbols in read-only memory. */
#define X(symbol, file, type)                                                                      \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global con_file_" #symbol "\n"                                                       \
            "con_file_" #symbol ":\n"                                                              \
            ".incbin \"" CON_STATIC_DIR "/" file "\"\n"                                            \
            ".global con_file_end_" #symbol "\n"                                                   \
            "con_file_end_" #symbol ":\n"                                                          \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char con_file_##symbol[];                                                         \
    extern const char con_file_end_##symbol[];
CON_ASSETS(X)
#undef X

static void write_tag(char tag[67], struct ron_str bytes)
{
    struct ron_b3 hash;
    char id[RON_B3_ID_SIZE];

    ron_b3_hash(bytes.ptr, bytes.len, &hash);
    ron_b3_format(&hash, id);
    tag[0] = '"';
    memcpy(tag + 1, id + 3, RON_B3_HEX_LEN);
    memcpy(tag + 1 + RON_B3_HEX_LEN, "\"", 2);
}

/* Packs into `out` of `size`; 0 when it would not be smaller. */
static size_t pack(struct ron_str plain, uint8_t *out, size_t size)
{
    z_stream z = {0};
    size_t len = 0;

    if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
        return 0;
    }
    z.next_in = (z_const Bytef *)(uintptr_t)plain.ptr;
    z.avail_in = (uInt)plain.len;
    z.next_out = out;
    z.avail_out = (uInt)size;
    if (deflate(&z, Z_FINISH) == Z_STREAM_END) {
        len = size - z.avail_out;
    }
    (void)deflateEnd(&z);
    return len;
}

enum ron_rc con_assets_open(struct con_assets *a, struct ron_err *err)
{
    static const struct con_asset rows[CON_ASSET_COUNT] = {
#define X(symbol, file, type_)                                                                     \
    [CON_ASSET_##symbol] = {.name = (file), .type = (type_), .plain = {con_file_##symbol, 0}},
        CON_ASSETS(X)
#undef X
    };
    const char *const ends[CON_ASSET_COUNT] = {
#define X(symbol, file, type) [CON_ASSET_##symbol] = con_file_end_##symbol,
        CON_ASSETS(X)
#undef X
    };
    size_t total = 0;
    size_t used = 0;

    memcpy(a->at, rows, sizeof rows);
    for (size_t i = 0; i < CON_ASSET_COUNT; i++) {
        a->at[i].plain.len = (size_t)(ends[i] - a->at[i].plain.ptr);
        total += a->at[i].plain.len;
    }
    a->room = ron_alloc(total);
    if (a->room == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the packed files");
    }
    for (size_t i = 0; i < CON_ASSET_COUNT; i++) {
        struct con_asset *x = &a->at[i];
        size_t len = pack(x->plain, a->room + used, x->plain.len);

        x->packed = (struct ron_str){(const char *)a->room + used, len};
        used += len;
        write_tag(x->tag, x->plain);
        write_tag(x->packed_tag, x->packed);
    }
    return RON_OK;
}

void con_assets_close(struct con_assets *a)
{
    ron_free(a->room);
    a->room = NULL;
}

const struct con_asset *con_assets_find(const struct con_assets *a, struct ron_str name)
{
    for (size_t i = 0; i < CON_ASSET_COUNT; i++) {
        if (ron_str_is(name, a->at[i].name)) {
            return &a->at[i];
        }
    }
    return NULL;
}
