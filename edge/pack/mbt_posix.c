/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/mbt_posix.c - MBTiles through SQLite, which makes its own system calls. */
#include "edge/pack/mbt.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <string.h>

#include "edge/pack/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/fault.h"

enum {
    READERS_DEFAULT = 2,
    READERS_MAX = 64,
    STEPS_MAX = 20000000,  /* half a second; a lookup by index takes some twenty */
    STEPS_BETWEEN = 10000, /* two looks at the count */
    CACHE_KIB = 512,       /* of a handle: the inner pages of a large index */
    ROW_BYTES_MAX = EDG_TILE_BYTES_MAX + 4096,
    URI_SIZE = 4096,
    META_TEXT_SIZE = 256, /* of the values we read as numbers or names */
    WAIT_MS = 5000,       /* for a handle: then every thread ahead of us hangs */
};

enum { READER_MAGIC = 0x654d6252 }; /* "eMbR" */

struct reader {
    uint32_t magic;
    sqlite3 *db;
    sqlite3_stmt *tile;
    uint64_t steps;
};

struct edg_mbt {
    struct ron_mutex lock;
    struct ron_cond freed;
    struct reader *idle[READERS_MAX]; /* a stack, guarded by the lock */
    uint32_t idle_count;
    uint32_t count;
    bool vector;
    struct reader readers[READERS_MAX];
};

/* ---- handles --------------------------------------------------------------------------------- */

static enum ron_rc failed(sqlite3 *db, int code, const char *what, struct ron_err *err)
{
    const char *text = db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(code);

    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return ron_err_set(err, RON_NOMEM, "%s: %s", what, text);
    case SQLITE_INTERRUPT:
        return ron_err_set(err, RON_LIMIT,
                           "%s: query exceeded its step limit; check that tiles has an index",
                           what);
    case SQLITE_TOOBIG:
        return ron_err_set(err, RON_LIMIT, "%s: %s", what, text);
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
    case SQLITE_PERM:
        return ron_err_set_sys(err, RON_IO, db != NULL ? sqlite3_system_errno(db) : 0, "%s: %s",
                               what, text);
    default:
        return ron_err_set(err, RON_CORRUPT, "%s: %s", what, text);
    }
}

/* A URI, because only there "immutable" can be said; what has a meaning in one is escaped. */
static bool uri_of(const char *path, char uri[URI_SIZE])
{
    static const char hex[] = "0123456789ABCDEF";
    struct ron_buf out;

    ron_buf_init_over(&out, uri, URI_SIZE);
    ron_buf_append_text(&out, "file:");
    for (; *path != '\0'; path++) {
        uint8_t c = (uint8_t)*path;

        if (c == '%' || c == '?' || c == '#' || c < ' ') {
            const char escaped[3] = {'%', hex[c >> 4], hex[c & 15]};

            ron_buf_append(&out, escaped, sizeof escaped);
        } else {
            ron_buf_append_byte(&out, c);
        }
    }
    ron_buf_append_text(&out, "?mode=ro&immutable=1");
    (void)ron_buf_text(&out);
    return ron_buf_error(&out) == RON_OK;
}

enum ron_rc edg__mbt_handle(const char *path, void **ret_db, struct ron_err *err)
{
    char uri[URI_SIZE];
    sqlite3 *db = NULL;
    enum ron_rc rc;
    int code;

    if (!uri_of(path, uri)) {
        return ron_err_set(err, RON_LIMIT, "the path is too long");
    }
    ron_blocking_point("sqlite3_open");
    code = RON_FAULT(RON_FAULT_SYSCALL, "sqlite3_open")
               ? SQLITE_CANTOPEN
               : sqlite3_open_v2(
                     uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK) {
        rc = failed(db, code, "cannot be opened", err);
        (void)sqlite3_close(db);
        return rc;
    }
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    (void)sqlite3_limit(db, SQLITE_LIMIT_LENGTH, ROW_BYTES_MAX);
    (void)sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
    (void)sqlite3_extended_result_codes(db, 1);
    code = sqlite3_exec(db,
                        "PRAGMA mmap_size=0;PRAGMA cell_size_check=ON;PRAGMA temp_store=MEMORY;"
                        "PRAGMA cache_size=-" RON_STR(512),
                        NULL, NULL, NULL);
    _Static_assert(CACHE_KIB == 512, "the number in the statement");
    if (code != SQLITE_OK) {
        rc = failed(db, code, "not an SQLite database", err);
        (void)sqlite3_close(db);
        return rc;
    }
    *ret_db = db;
    return RON_OK;
}

static int steps_counted(void *arg)
{
    struct reader *r = RON_OBJ(arg, struct reader, READER_MAGIC);

    r->steps += STEPS_BETWEEN;
    return r->steps > STEPS_MAX ? 1 : 0;
}

static void reader_close(struct reader *r)
{
    (void)sqlite3_finalize(r->tile);
    (void)sqlite3_close(r->db);
    *r = (struct reader){0};
}

static enum ron_rc reader_open(const char *path, struct reader *r, struct ron_err *err)
{
    void *db = NULL;
    int code;

    RON_TRY(edg__mbt_handle(path, &db, err));
    r->magic = READER_MAGIC;
    r->db = db;
    sqlite3_progress_handler(r->db, STEPS_BETWEEN, steps_counted, r);
    code = sqlite3_prepare_v3(r->db,
                              "SELECT tile_data FROM tiles"
                              " WHERE zoom_level=?1 AND tile_column=?2 AND tile_row=?3 LIMIT 1",
                              -1, SQLITE_PREPARE_PERSISTENT, &r->tile, NULL);
    if (code != SQLITE_OK) {
        enum ron_rc rc = failed(r->db, code, "tiles", err);

        reader_close(r);
        return rc;
    }
    return RON_OK;
}

static enum ron_rc reader_take(struct edg_mbt *m, struct reader **ret_reader, struct ron_err *err)
{
    struct ron_deadline until = ron_deadline_after_ms(ron_mono_ns(), WAIT_MS);
    bool in_time = true;
    struct reader *r = NULL;

    ron_blocking_point("a reader of an MBTiles");
    ron_mutex_lock(&m->lock);
    while (m->idle_count == 0 && in_time) {
        in_time = ron_cond_wait_until(&m->freed, &m->lock, until);
    }
    if (m->idle_count > 0) {
        r = m->idle[--m->idle_count];
    }
    ron_mutex_unlock(&m->lock);
    if (r == NULL) {
        return ron_err_set(err, RON_TIMEOUT, "all readers of the file are busy");
    }
    r->steps = 0;
    *ret_reader = r;
    return RON_OK;
}

static void reader_give(struct edg_mbt *m, struct reader *r)
{
    ron_mutex_lock(&m->lock);
    RON_ASSERT_MSG(m->idle_count < m->count, "a handle is given back once");
    m->idle[m->idle_count++] = r;
    ron_cond_signal(&m->freed);
    ron_mutex_unlock(&m->lock);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static enum ron_rc block_of(struct edg_mbt *m, sqlite3_stmt *row, const struct edg__name *name,
                            struct edg__block **ret_block, struct ron_err *err)
{
    const uint8_t *bytes = row != NULL ? sqlite3_column_blob(row, 0) : NULL;
    size_t len = bytes != NULL ? (size_t)sqlite3_column_bytes(row, 0) : 0;
    struct edg__block *b;

    if (len > EDG_TILE_BYTES_MAX) {
        return ron_err_set(err, RON_LIMIT, "a tile of %zu bytes, at most %d are taken", len,
                           EDG_TILE_BYTES_MAX);
    }
    b = edg__block_new(name, len);
    if (b == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a tile");
    }
    if (len > 0) {
        memcpy(b->bytes, bytes, len);
    }
    ron_b3_hash(b->bytes, len, &b->tag);
    /* Vector tiles are packed with gzip, says the format; some writers leave that away. */
    b->coding = m->vector && len > 2 && b->bytes[0] == 0x1f && b->bytes[1] == 0x8b
                    ? EDG_CODING_GZIP
                    : EDG_CODING_NONE;
    *ret_block = b;
    return RON_OK;
}

enum ron_rc edg_mbt_tile(struct edg_mbt *m, const struct edg_zxy *at, const struct edg__name *name,
                         struct edg__block **ret_block, struct ron_err *err)
{
    struct reader *r = NULL;
    enum ron_rc rc;
    int code;

    RON_ASSERT(at->x < (uint64_t)1 << at->z);
    RON_ASSERT(at->y < (uint64_t)1 << at->z);
    RON_TRY(reader_take(m, &r, err));
    RON_ASSERT(r != NULL);
    (void)sqlite3_bind_int64(r->tile, 1, at->z);
    (void)sqlite3_bind_int64(r->tile, 2, at->x);
    (void)sqlite3_bind_int64(r->tile, 3, (sqlite3_int64)(((uint64_t)1 << at->z) - 1 - at->y));
    code = RON_FAULT(RON_FAULT_SYSCALL, "sqlite3_step") ? SQLITE_IOERR : sqlite3_step(r->tile);
    if (code == SQLITE_ROW || code == SQLITE_DONE) {
        rc = block_of(m, code == SQLITE_ROW ? r->tile : NULL, name, ret_block, err);
    } else {
        rc = failed(r->db, code, "tile", err);
    }
    (void)sqlite3_reset(r->tile);
    reader_give(m, r);
    return rc;
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* The value of a name as a text of at most META_TEXT_SIZE - 1 bytes; empty when it has none. */
static enum ron_rc meta_text(sqlite3 *db, const char *name, char text[META_TEXT_SIZE],
                             struct ron_err *err)
{
    sqlite3_stmt *s = NULL;
    enum ron_rc rc = RON_OK;
    int code =
        sqlite3_prepare_v2(db, "SELECT value FROM metadata WHERE name=?1 LIMIT 1", -1, &s, NULL);

    text[0] = '\0';
    if (code == SQLITE_OK) {
        (void)sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
        code = sqlite3_step(s);
    }
    if (code == SQLITE_ROW) {
        const char *value = (const char *)sqlite3_column_text(s, 0);
        int len = sqlite3_column_bytes(s, 0);

        if (value != NULL && len < META_TEXT_SIZE) {
            memcpy(text, value, (size_t)len);
            text[len] = '\0';
        }
    } else if (code != SQLITE_DONE) {
        rc = failed(db, code, "metadata", err);
    }
    (void)sqlite3_finalize(s);
    return rc;
}

static struct ron_str column(sqlite3_stmt *s, int at)
{
    const char *text = (const char *)sqlite3_column_text(s, at);
    struct ron_str str = {.ptr = text != NULL ? text : "",
                          .len = text != NULL ? (size_t)sqlite3_column_bytes(s, at) : 0};

    return str;
}

/* The members of the document in the row `json`, when it is an object. */
static void json_members(struct ron_buf *out, struct ron_str json)
{
    while (json.len > 0 && (json.ptr[0] == ' ' || json.ptr[0] == '\n')) {
        json = (struct ron_str){.ptr = json.ptr + 1, .len = json.len - 1};
    }
    while (json.len > 0 && (json.ptr[json.len - 1] == ' ' || json.ptr[json.len - 1] == '\n')) {
        json.len--;
    }
    if (json.len <= 2 || json.ptr[0] != '{' ||
        ron_json_check(json.ptr, json.len, &(struct ron_json_error){0}) != RON_OK ||
        memchr(json.ptr, '"', json.len) == NULL) {
        return;
    }
    if (ron_buf_len(out) > 1) {
        ron_buf_append_byte(out, ',');
    }
    ron_buf_append(out, json.ptr + 1, json.len - 2);
}

static enum ron_rc meta_document(sqlite3 *db, struct ron_buf *out, struct ron_err *err)
{
    sqlite3_stmt *s = NULL;
    enum ron_rc rc;
    int code = sqlite3_prepare_v2(
        db, "SELECT name,max(value) FROM metadata GROUP BY name ORDER BY name='json',name", -1, &s,
        NULL);

    ron_buf_append_byte(out, '{');
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        struct ron_str name;
        struct ron_str value;

        code = sqlite3_step(s);
        if (code != SQLITE_ROW) {
            break;
        }
        name = column(s, 0);
        value = column(s, 1);
        if (ron_str_is(name, "json")) {
            json_members(out, value);
        } else if (edg__utf8(name.ptr, name.len) && edg__utf8(value.ptr, value.len)) {
            edg__member_write(out, name, value);
        }
    }
    ron_buf_append_byte(out, '}');
    rc = code == SQLITE_DONE ? RON_OK : failed(db, code, "metadata", err);
    (void)sqlite3_finalize(s);
    if (rc == RON_OK && ron_buf_error(out) != RON_OK) {
        rc = ron_err_set(err, ron_buf_error(out), "metadata: more than %zu bytes", out->max);
    }
    return rc;
}

static enum ron_rc zooms(sqlite3 *db, struct edg_pack_info *info, struct ron_err *err)
{
    char low[META_TEXT_SIZE];
    char high[META_TEXT_SIZE];
    uint64_t min = 0;
    uint64_t max = 0;
    sqlite3_stmt *s = NULL;
    int code;

    RON_TRY(meta_text(db, "minzoom", low, err));
    RON_TRY(meta_text(db, "maxzoom", high, err));
    if (!edg__number_read(low, EDG_MBT_ZOOM_MAX, &min) ||
        !edg__number_read(high, EDG_MBT_ZOOM_MAX, &max) || min > max) {
        /* Two questions: each is answered by one end of an index. */
        code = sqlite3_prepare_v2(db,
                                  "SELECT (SELECT min(zoom_level) FROM tiles),"
                                  "(SELECT max(zoom_level) FROM tiles)",
                                  -1, &s, NULL);
        code = code == SQLITE_OK ? sqlite3_step(s) : code;
        if (code != SQLITE_ROW) {
            enum ron_rc rc = failed(db, code, "tiles", err);

            (void)sqlite3_finalize(s);
            return rc;
        }
        min = (uint64_t)RON_MAX(sqlite3_column_int64(s, 0), (sqlite3_int64)0);
        max = (uint64_t)RON_MAX(sqlite3_column_int64(s, 1), (sqlite3_int64)0);
        (void)sqlite3_finalize(s);
    }
    if (min > max || max > EDG_MBT_ZOOM_MAX) {
        return ron_err_set(err, RON_CORRUPT, "zooms %" PRIu64 " to %" PRIu64, min, max);
    }
    info->zoom_min = (uint8_t)min;
    info->zoom_max = (uint8_t)max;
    return RON_OK;
}

static enum ron_rc where(sqlite3 *db, struct edg_pack_info *info, struct ron_err *err)
{
    char text[META_TEXT_SIZE];
    const char *at = text;
    struct edg_bounds b = {0};
    int32_t lon = 0;
    int32_t lat = 0;
    uint64_t zoom = 0;

    RON_TRY(meta_text(db, "bounds", text, err));
    if (edg__degrees_read(&at, true, &b.west_e7) && edg__degrees_read(&at, true, &b.south_e7) &&
        edg__degrees_read(&at, true, &b.east_e7) && edg__degrees_read(&at, false, &b.north_e7)) {
        info->bounds = b;
    }
    RON_TRY(meta_text(db, "center", text, err));
    at = text;
    if (edg__degrees_read(&at, true, &lon) && edg__degrees_read(&at, true, &lat) &&
        edg__number_read(at, EDG_MBT_ZOOM_MAX, &zoom)) {
        info->center_lon_e7 = lon;
        info->center_lat_e7 = lat;
        info->center_zoom = (uint8_t)zoom;
    }
    return RON_OK;
}

static enum ron_rc format(sqlite3 *db, struct edg_pack_info *info, struct ron_err *err)
{
    static const struct {
        const char *name;
        enum edg_tile_type type;
    } formats[] = {
        {"pbf", EDG_TILE_MVT},         {"mvt", EDG_TILE_MVT},        {"png", EDG_TILE_PNG},
        {"jpg", EDG_TILE_JPEG},        {"jpeg", EDG_TILE_JPEG},      {"webp", EDG_TILE_WEBP},
        {"avif", EDG_TILE_AVIF},       {"mlt", EDG_TILE_MLT},        {"image/png", EDG_TILE_PNG},
        {"image/jpeg", EDG_TILE_JPEG}, {"image/webp", EDG_TILE_WEBP}};
    char text[META_TEXT_SIZE];

    RON_TRY(meta_text(db, "format", text, err));
    if (text[0] == '\0') {
        return ron_err_set(err, RON_CORRUPT, "metadata: missing format");
    }
    info->tile_type = EDG_TILE_OTHER;
    for (size_t i = 0; i < RON_ARRAY_LEN(formats); i++) {
        if (strcmp(text, formats[i].name) == 0) {
            info->tile_type = formats[i].type;
        }
    }
    return RON_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

enum ron_rc edg_mbt_open(const char *path, uint32_t readers, struct edg_pack_info *ret_info,
                         struct ron_buf *metadata, struct edg_mbt **ret_mbt, struct ron_err *err)
{
    struct edg_pack_info info = *ret_info;
    struct edg_mbt *m = ron_alloc_zero(sizeof *m);
    sqlite3 *db;
    enum ron_rc rc;

    if (m == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a pack");
    }
    ron_mutex_init(&m->lock, RON_RANK_LEAF, "edge mbtiles");
    ron_cond_init(&m->freed);
    readers = readers == 0 ? READERS_DEFAULT : RON_MIN(readers, (uint32_t)READERS_MAX);
    for (; m->count < readers; m->count++) {
        RON_GOTO(reader_open(path, &m->readers[m->count], err), fail);
        m->idle[m->idle_count++] = &m->readers[m->count];
    }
    db = m->readers[0].db;
    RON_GOTO(format(db, &info, err), fail);
    RON_GOTO(zooms(db, &info, err), fail);
    RON_GOTO(where(db, &info, err), fail);
    RON_GOTO(meta_document(db, metadata, err), fail);
    info.tile_coding = EDG_CODING_NONE;
    m->vector = info.tile_type == EDG_TILE_MVT || info.tile_type == EDG_TILE_MLT;
    *ret_info = info;
    *ret_mbt = m;
    return RON_OK;
fail:
    edg_mbt_close(m);
    return rc;
}

void edg_mbt_close(struct edg_mbt *m)
{
    if (m == NULL) {
        return;
    }
    for (uint32_t i = 0; i < m->count; i++) {
        reader_close(&m->readers[i]);
    }
    ron_cond_done(&m->freed);
    ron_mutex_done(&m->lock);
    ron_free(m);
}
