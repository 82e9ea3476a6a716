/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/pack.c - a pack: opened, counted, and its tiles lent. */
#include "edge/pack/pack.h"

#include <inttypes.h>
#include <string.h>

#include "edge/pack/cache.h"
#include "edge/pack/hilbert.h"
#include "edge/pack/mbt.h"
#include "edge/pack/pmt.h"
#include "edge/pack/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    MAGIC = 0x45506b31,
    HASH_PIECE = 256 * 1024, /* large enough that the calls do not count */
    TILE_PIECE = 64 * 1024,
    SQLITE_HEAD = 16,
    TAIL_BYTES_MAX = EDG_METADATA_BYTES_MAX + 4096,
};

enum hash_state { HASH_NONE, HASH_WRITING, HASH_THERE };

struct edg_pack {
    uint32_t magic;
    struct ron_au32 refs;
    const struct ron_env *env;
    struct edg_pack_cache *cache;
    uint64_t serial;
    char *path;
    char *name;
    int fd;
    struct edg_pack_info info;
    const char *content_type;
    struct edg_pmt *pmt; /* one of the two */
    struct edg_mbt *mbt;
    struct ron_buf metadata;
    struct ron_buf tail;    /* of the TileJSON */
    struct ron_au32 hashed; /* enum hash_state; `tag` does not change once it is there */
    struct ron_b3 tag;
};

/* ---- names ----------------------------------------------------------------------------------- */

static const struct coding {
    const char *name;
    const char *encoding;
} codings[] = {
#define X(name, number, text, encoding) [number] = {text, encoding},
    EDG_CODINGS(X)
#undef X
};

static const struct coding *coding_of(enum edg_coding coding)
{
    return &codings[(size_t)coding < RON_ARRAY_LEN(codings) ? (size_t)coding : 0];
}

const char *edg_coding_name(enum edg_coding coding)
{
    return coding_of(coding)->name;
}

const char *edg_coding_encoding(enum edg_coding coding)
{
    return coding_of(coding)->encoding;
}

static const struct type {
    const char *name;
    const char *ext;
    const char *content;
} types[] = {
#define X(name, number, text, ext, content) [number] = {text, ext, content},
    EDG_TILE_TYPES(X)
#undef X
};

static const struct type *type_of(enum edg_tile_type type)
{
    return &types[(size_t)type < RON_ARRAY_LEN(types) ? (size_t)type : 0];
}

const char *edg_tile_type_name(enum edg_tile_type type)
{
    return type_of(type)->name;
}

const char *edg_tile_type_content(enum edg_tile_type type)
{
    return type_of(type)->content;
}

bool edg_tile_type_has_ext(enum edg_tile_type type, struct ron_str ext)
{
    return ron_str_is(ext, type_of(type)->ext) ||
           (type == EDG_TILE_MVT && ron_str_is(ext, "pbf")) ||
           (type == EDG_TILE_JPEG && ron_str_is(ext, "jpeg"));
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum ron_rc name_check(const char *name, struct ron_err *err)
{
    size_t len = strlen(name);

    if (len == 0 || len > EDG_PACK_NAME_MAX || name[0] == '.' ||
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") != len) {
        return ron_err_set(
            err, RON_INVALID,
            "invalid pack name, expected 1 to %d of A-Z a-z 0-9 . _ - without a leading dot",
            EDG_PACK_NAME_MAX);
    }
    return RON_OK;
}

static enum ron_rc file_open(struct edg_pack *p, struct ron_err *err)
{
    const struct ron_env *env = p->env;
    struct ron_file_stat st = {0};
    enum ron_rc rc;

    RON_TRY(env->disk->open(env, p->path, RON_OPEN_READ, 0, &p->fd, err));
    rc = env->disk->stat_fd(env, p->fd, &st);
    if (rc != RON_OK || !st.is_file) {
        return ron_err_set(err, rc != RON_OK ? rc : RON_INVALID, "not a readable file");
    }
    p->info.size_bytes = st.size_bytes;
    p->info.mtime_ms = st.mtime_ms;
    return RON_OK;
}

static void info_of_pmt(struct edg_pack *p)
{
    const struct edg_pmt_header *h = edg_pmt_header(p->pmt);
    struct edg_pack_info *i = &p->info;

    i->kind = EDG_PACK_PMTILES;
    i->tile_type =
        h->tile_type < RON_ARRAY_LEN(types) ? (enum edg_tile_type)h->tile_type : EDG_TILE_OTHER;
    i->tile_coding = h->tile_coding;
    i->zoom_min = h->zoom_min;
    i->zoom_max = h->zoom_max;
    i->center_zoom = h->center_zoom;
    i->center_lon_e7 = h->center_lon_e7;
    i->center_lat_e7 = h->center_lat_e7;
    i->bounds = h->bounds;
    i->tiles_addressed = h->addressed;
    i->tile_entries = h->entries;
    i->tile_contents = h->contents;
    i->clustered = h->clustered;
}

/* Metadata that is not a JSON object is an error, because the file then violates its format. */
static enum ron_rc metadata_check(struct edg_pack *p, struct ron_err *err)
{
    struct ron_json_error why = {0};
    const char *text = (const char *)ron_buf_data(&p->metadata);
    size_t len = ron_buf_len(&p->metadata);
    size_t blanks = strspn(ron_buf_text(&p->metadata), " \t\r\n");

    if (len == 0) {
        return ron_buf_append_text(&p->metadata, "{}");
    }
    if (text[blanks] != '{' || ron_json_check(text, len, &why) != RON_OK) {
        return ron_err_set(err, RON_CORRUPT, "metadata: %s",
                           why.reason[0] != '\0' ? why.reason : "not a JSON object");
    }
    return RON_OK;
}

static enum ron_rc kind_open(struct edg_pack *p, uint32_t readers, struct ron_err *err)
{
    uint8_t head[SQLITE_HEAD] = {0};
    size_t got = 0;

    enum ron_rc rc = p->env->disk->pread(p->env, p->fd, head, sizeof head, 0, &got);

    if (rc != RON_OK) {
        return ron_err_set(err, rc, "cannot read the file header");
    }
    if (got == sizeof head && memcmp(head, "SQLite format 3", sizeof head) == 0) {
        p->info.kind = EDG_PACK_MBTILES;
        return edg_mbt_open(p->path, readers, &p->info, &p->metadata, &p->mbt, err);
    }
    RON_TRY(edg_pmt_open(p->env, p->fd, p->info.size_bytes, p->cache, p->serial, &p->pmt, err));
    info_of_pmt(p);
    return edg_pmt_metadata(p->pmt, &p->metadata, err);
}

static enum ron_rc open_into(struct edg_pack *p, const struct edg_pack_opts *opts,
                             struct ron_err *err)
{
    struct ron_str metadata;

    if (p->path == NULL || p->name == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a pack");
    }
    RON_TRY(file_open(p, err));
    RON_TRY(kind_open(p, opts->readers, err));
    RON_TRY(metadata_check(p, err));
    p->content_type = type_of(p->info.tile_type)->content;
    metadata = edg_pack_metadata(p);
    return edg__tilejson_tail(&p->info, metadata, &p->tail, err);
}

enum ron_rc edg_pack_open(const struct edg_pack_opts *opts, struct edg_pack **ret_pack,
                          struct ron_err *err)
{
    struct edg_pack *p;
    enum ron_rc rc;

    RON_TRY(name_check(opts->name, err));
    p = ron_alloc_zero(sizeof *p);
    if (p == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a pack");
    }
    p->magic = MAGIC;
    p->env = opts->env;
    p->cache = opts->cache;
    p->serial = edg__cache_serial(opts->cache);
    p->fd = -1;
    p->path = ron_strdup(opts->path);
    p->name = ron_strdup(opts->name);
    ron_buf_init(&p->metadata, EDG_METADATA_BYTES_MAX);
    ron_buf_init(&p->tail, TAIL_BYTES_MAX);
    ron_au32_store(&p->refs, 1);
    rc = open_into(p, opts, err);
    if (rc != RON_OK) {
        ron_err_prefix(err, "%s", opts->path);
        edg_pack_unref(p);
        return rc;
    }
    *ret_pack = p;
    return RON_OK;
}

struct edg_pack *edg_pack_ref(struct edg_pack *p)
{
    RON_CHECK_MAGIC(p, MAGIC);
    uint32_t had = ron_au32_add(&p->refs, 1);

    RON_ASSERT_MSG(had > 0, "a reference comes from a holder");
    return p;
}

void edg_pack_unref(struct edg_pack *p)
{
    if (p == NULL) {
        return;
    }
    RON_CHECK_MAGIC(p, MAGIC);
    if (ron_au32_add(&p->refs, UINT32_MAX) != 1) {
        return;
    }
    edg_pmt_close(p->pmt);
    edg_mbt_close(p->mbt);
    if (p->fd >= 0) {
        p->env->disk->close(p->env, p->fd);
    }
    ron_buf_done(&p->metadata);
    ron_buf_done(&p->tail);
    ron_free(p->path);
    ron_free(p->name);
    p->magic = 0;
    ron_free(p);
}

/* ---- what it says of itself ------------------------------------------------------------------ */

enum ron_rc edg_pack_stat(const struct edg_pack *p, struct ron_file_stat *ret_stat)
{
    return p->env->disk->stat_fd(p->env, p->fd, ret_stat);
}

const char *edg_pack_name(const struct edg_pack *p)
{
    return p->name;
}

const struct edg_pack_info *edg_pack_info(const struct edg_pack *p)
{
    return &p->info;
}

struct ron_str edg_pack_metadata(const struct edg_pack *p)
{
    return (struct ron_str){.ptr = (const char *)ron_buf_data(&p->metadata),
                            .len = ron_buf_len(&p->metadata)};
}

enum ron_rc edg_pack_tilejson(const struct edg_pack *p, struct ron_str tiles_url,
                              struct ron_buf *out)
{
    struct ron_json_writer w;

    ron_buf_append_text(out, "{\"tilejson\":\"3.0.0\",\"tiles\":[");
    ron_json_begin(&w, out);
    ron_json_str(&w, NULL, tiles_url);
    ron_buf_append_byte(out, ']');
    return ron_buf_append(out, ron_buf_data(&p->tail), ron_buf_len(&p->tail));
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static void block_release(void *arg)
{
    edg__block_unref(RON_OBJ(arg, struct edg__block, EDG__BLOCK_MAGIC));
}

static void pack_release(void *arg)
{
    edg_pack_unref(RON_OBJ(arg, struct edg_pack, MAGIC));
}

/* Lends a block and takes the caller's reference to it. A block of no bytes is a missing tile. */
static enum ron_rc lend_block(const struct edg_pack *p, struct edg__block *take_b,
                              struct edg_tile *ret_tile)
{
    RON_ASSERT_MSG(take_b->serial == p->serial, "K3: a block belongs to its pack");
    if (take_b->len == 0) {
        edg__block_unref(take_b);
        return RON_NOTFOUND;
    }
    *ret_tile = (struct edg_tile){
        .blob = {.bytes = take_b->bytes,
                 .fd = -1,
                 .length = take_b->len,
                 .release = block_release,
                 .arg = take_b},
        .tag = take_b->tag,
        .content_type = p->content_type,
        .coding = take_b->coding,
    };
    return RON_OK;
}

static void lend_file(struct edg_pack *p, const struct edg_pmt_place *at, const struct ron_b3 *tag,
                      struct edg_tile *ret_tile)
{
    RON_ASSERT_MSG(p->pmt != NULL, "K1: only PMTiles are lent from the file");
    RON_ASSERT(at->length > 0);
    RON_ASSERT_MSG(at->offset + at->length <= p->info.size_bytes,
                   "K1: a tile lies inside the file");
    *ret_tile = (struct edg_tile){
        .blob = {.fd = p->fd,
                 .offset = at->offset,
                 .length = at->length,
                 .release = pack_release,
                 .arg = edg_pack_ref(p)},
        .tag = *tag,
        .content_type = p->content_type,
        .coding = p->info.tile_coding,
    };
}

static bool tile_id_in(const struct edg_pack *p, uint64_t z, uint64_t x, uint64_t y, uint64_t *id)
{
    return z >= p->info.zoom_min && z <= p->info.zoom_max && edg_tile_id(z, x, y, id);
}

static struct edg__name tag_name(const struct edg_pack *p, const struct edg_pmt_place *at)
{
    return (struct edg__name){.serial = p->serial, .key = at->offset, .key_len = at->length};
}

enum ron_rc edg_pack_tile(struct edg_pack *p, uint64_t z, uint64_t x, uint64_t y,
                          struct edg_tile *ret_tile, struct ron_err *err)
{
    struct edg__name name = {.serial = p->serial};
    struct edg_pmt_place at = {0};
    struct edg__block *b;
    struct ron_b3 tag;

    RON_CHECK_MAGIC(p, MAGIC);
    if (!tile_id_in(p, z, x, y, &name.key)) {
        return RON_NOTFOUND;
    }
    b = edg__cache_get(p->cache, EDG__TILES, &name);
    if (b != NULL) {
        return lend_block(p, b, ret_tile);
    }
    if (p->pmt == NULL) {
        edg__cache_missed(p->cache);
        return RON_AGAIN;
    }
    RON_TRY(edg_pmt_find(p->pmt, name.key, &at, err));
    name = tag_name(p, &at);
    if (!edg__cache_tag(p->cache, &name, &tag)) {
        edg__cache_missed(p->cache);
        return RON_AGAIN;
    }
    lend_file(p, &at, &tag, ret_tile);
    return RON_OK;
}

/* A tile that stays in its file is read once, for its tag. */
static enum ron_rc hash_place(const struct edg_pack *p, const struct edg_pmt_place *at,
                              struct ron_b3 *ret_tag, struct ron_err *err)
{
    struct ron_b3_hasher h;
    uint8_t *piece = ron_alloc(TILE_PIECE);
    enum ron_rc rc = RON_OK;

    if (piece == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory to hash a tile");
    }
    ron_b3_init(&h);
    for (uint64_t done = 0; done < at->length && rc == RON_OK;) {
        size_t len = (size_t)RON_MIN(at->length - done, (uint64_t)TILE_PIECE);

        rc = edg__read_exact(p->env, p->fd, at->offset + done, piece, len, err);
        ron_b3_update(&h, piece, rc == RON_OK ? len : 0);
        done += len;
    }
    ron_free(piece);
    if (rc == RON_OK) {
        ron_b3_final(&h, ret_tag);
    }
    return rc;
}

static enum ron_rc pmt_tile_wait(struct edg_pack *p, const struct edg__name *name,
                                 struct edg_tile *ret_tile, struct ron_err *err)
{
    struct edg_pmt_place at = {0};
    struct edg__name place_name;
    struct edg__block *b;
    struct ron_b3 tag;
    enum ron_rc rc;

    RON_TRY(edg_pmt_find_wait(p->pmt, name->key, &at, err));
    if (at.length > EDG_TILE_BYTES_MAX) {
        return ron_err_set(err, RON_LIMIT, "a tile of %" PRIu32 " bytes, at most %d are taken",
                           at.length, EDG_TILE_BYTES_MAX);
    }
    place_name = tag_name(p, &at);
    if (!edg__cache_takes(p->cache, at.length)) {
        RON_TRY(hash_place(p, &at, &tag, err));
        edg__cache_put_tag(p->cache, &place_name, &tag);
        lend_file(p, &at, &tag, ret_tile);
        return RON_OK;
    }
    b = edg__block_new(name, at.length);
    if (b == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a tile");
    }
    rc = edg__read_exact(p->env, p->fd, at.offset, b->bytes, at.length, err);
    if (rc != RON_OK) {
        edg__block_unref(b);
        return rc;
    }
    ron_b3_hash(b->bytes, at.length, &b->tag);
    b->coding = p->info.tile_coding;
    edg__cache_put_tag(p->cache, &place_name, &b->tag);
    edg__cache_put(p->cache, EDG__TILES, b);
    return lend_block(p, b, ret_tile);
}

enum ron_rc edg_pack_tile_wait(struct edg_pack *p, uint64_t z, uint64_t x, uint64_t y,
                               struct edg_tile *ret_tile, struct ron_err *err)
{
    struct edg__name name = {.serial = p->serial};
    const struct edg_zxy at = {.z = (uint8_t)z, .x = (uint32_t)x, .y = (uint32_t)y};
    struct edg__block *b;

    RON_CHECK_MAGIC(p, MAGIC);
    if (!tile_id_in(p, z, x, y, &name.key)) {
        return RON_NOTFOUND;
    }
    b = edg__cache_get(p->cache, EDG__TILES, &name);
    if (b != NULL) {
        return lend_block(p, b, ret_tile);
    }
    if (p->pmt != NULL) {
        return pmt_tile_wait(p, &name, ret_tile, err);
    }
    RON_ASSERT_MSG(p->mbt != NULL, "a pack is PMTiles or MBTiles");
    RON_TRY(edg_mbt_tile(p->mbt, &at, &name, &b, err));
    edg__cache_put(p->cache, EDG__TILES, b);
    return lend_block(p, b, ret_tile);
}

/* ---- the file itself ------------------------------------------------------------------------- */

enum ron_rc edg__hash_file(const struct ron_env *env, int fd, uint64_t size,
                           edg_progress_fn *progress, void *arg, struct ron_b3 *ret_tag,
                           struct ron_err *err)
{
    struct ron_b3_hasher h;
    uint8_t *piece = ron_alloc(HASH_PIECE);
    enum ron_rc rc = RON_OK;

    if (piece == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory to hash a file");
    }
    ron_b3_init(&h);
    for (uint64_t done = 0; done < size && rc == RON_OK;) {
        size_t len = (size_t)RON_MIN(size - done, (uint64_t)HASH_PIECE);

        rc = edg__read_exact(env, fd, done, piece, len, err);
        ron_b3_update(&h, piece, rc == RON_OK ? len : 0);
        done += len;
        if (rc == RON_OK && progress != NULL && !progress(arg, "hash", done, size)) {
            rc = ron_err_set(err, RON_CANCELLED, "hashing was cancelled");
        }
    }
    ron_free(piece);
    if (rc == RON_OK) {
        ron_b3_final(&h, ret_tag);
    }
    return rc;
}

enum ron_rc edg_pack_hash(struct edg_pack *p, edg_progress_fn *progress, void *arg,
                          struct ron_err *err)
{
    uint32_t unhashed = HASH_NONE;
    struct ron_b3 tag;

    RON_CHECK_MAGIC(p, MAGIC);
    RON_TRY(edg__hash_file(p->env, p->fd, p->info.size_bytes, progress, arg, &tag, err));
    if (ron_au32_cas(&p->hashed, &unhashed, HASH_WRITING)) {
        RON_ASSERT_MSG(ron_au32_load(&p->hashed) == HASH_WRITING, "K3: one thread writes the tag");
        p->tag = tag;
        ron_au32_store(&p->hashed, HASH_THERE);
    }
    return RON_OK;
}

enum ron_rc edg_pack_archive(const struct edg_pack *p, struct edg_archive *ret)
{
    RON_CHECK_MAGIC(p, MAGIC);
    if (ron_au32_load(&p->hashed) != HASH_THERE) {
        return RON_AGAIN;
    }
    RON_ASSERT(p->fd >= 0);
    *ret = (struct edg_archive){
        .fd = p->fd,
        .size_bytes = p->info.size_bytes,
        .mtime_ms = p->info.mtime_ms,
        .tag = p->tag,
        .content_type = p->info.kind == EDG_PACK_PMTILES ? "application/vnd.pmtiles"
                                                         : "application/vnd.sqlite3",
    };
    return RON_OK;
}
