/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/verify.c - a file looked at as a pack, and against its sidecar; the report. */
#include "edge/pack/verify.h"

#include <inttypes.h>
#include <string.h>

#include "edge/pack/priv.h"
#include "edge/pack/verify_priv.h"
#include "ron/io/file.h"

enum { SIDECAR_BYTES_MAX = 8192 }; /* one line with a path */

void edg__found(struct edg_findings *f, const char *fmt, ...)
{
    uint32_t at = f->count++;
    va_list args;

    va_start(args, fmt);
    if (at < EDG_FINDINGS_MAX) {
        (void)vsnprintf(f->texts[at], EDG_FINDING_SIZE, fmt, args);
        /* Names and numbers of the file end up here: nothing in them may steer a terminal. */
        for (char *p = f->texts[at]; *p != '\0'; p++) {
            if ((uint8_t)*p < ' ' || *p == 0x7f) {
                *p = '?';
            }
        }
    }
    va_end(args);
}

enum ron_rc edg__check_step(struct edg__check *c, const char *phase, uint64_t done, uint64_t total)
{
    const struct edg_verify_opts *o = c->opts;

    if (o->progress != NULL && !o->progress(o->progress_arg, phase, done, total)) {
        return ron_err_set(c->err, RON_CANCELLED, "verification was cancelled");
    }
    return RON_OK;
}

/* Whether it is the file that is at fault: the system has its own limits (descriptors). */
static bool is_finding(enum ron_rc rc, const struct ron_err *err)
{
    return err->sys_errno == 0 &&
           (rc == RON_CORRUPT || rc == RON_UNSUPPORTED || rc == RON_LIMIT || rc == RON_INVALID);
}

/* ---- sidecar --------------------------------------------------------------------------------- */

/* The hash of a line as b3sum writes it: digits, two blanks, a name; before them a backslash when
 * the name has escapes. */
static bool sidecar_read(const struct ron_buf *text, struct ron_b3 *ret)
{
    const char *p = (const char *)ron_buf_data(text);
    size_t len = ron_buf_len(text);

    if (len > 0 && p[0] == '\\') {
        p++;
        len--;
    }
    return len >= RON_B3_HEX_LEN && ron_b3_parse_hex(p, RON_B3_HEX_LEN, ret) &&
           (len == RON_B3_HEX_LEN || p[RON_B3_HEX_LEN] == '\n' ||
            (len > RON_B3_HEX_LEN + 2 && p[RON_B3_HEX_LEN] == ' ' && p[RON_B3_HEX_LEN + 1] == ' '));
}

static enum ron_rc whole(struct edg__check *c, int fd, uint64_t size)
{
    const struct edg_verify_opts *o = c->opts;
    struct edg_verify_report *r = c->report;
    char path[RON_FILE_PATH_SIZE];
    struct ron_b3 told = {0};
    struct ron_err why = {0};
    struct ron_buf text;
    enum ron_rc rc = RON_NOTFOUND;
    bool good;

    ron_buf_init(&text, SIDECAR_BYTES_MAX);
    if (snprintf(path, sizeof path, "%s.b3", o->path) < (int)sizeof path) {
        rc = ron_file_read_all(o->env, path, &text, &why);
    }
    good = rc == RON_OK && sidecar_read(&text, &told);
    ron_buf_done(&text);
    if (rc != RON_OK && rc != RON_NOTFOUND && !is_finding(rc, &why)) {
        *c->err = why;
        return rc;
    }
    if (rc != RON_NOTFOUND && !good) {
        r->sidecar = EDG_SIDECAR_BAD;
        edg__found(&r->faults, "sidecar .b3 is not in b3sum format");
    }
    if (!good && !o->hash) {
        return RON_OK;
    }
    RON_TRY(edg__hash_file(o->env, fd, size, o->progress, o->progress_arg, &r->tag, c->err));
    r->hashed = true;
    if (good) {
        r->sidecar = ron_b3_equal(&told, &r->tag) ? EDG_SIDECAR_GOOD : EDG_SIDECAR_BAD;
        if (r->sidecar == EDG_SIDECAR_BAD) {
            edg__found(&r->faults, "file content does not match its sidecar .b3");
        }
    }
    return RON_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Opens it as the service would; what that refuses is the finding. */
static enum ron_rc as_pack(struct edg__check *c)
{
    struct edg_verify_report *r = c->report;
    const struct edg_pack_cache_opts small = {
        .leaf_bytes_max = 1, .tile_bytes_max = 1, .tags_max = 4};
    size_t path_len = strlen(c->opts->path);
    struct edg_pack_cache *cache = NULL;
    struct edg_pack *p = NULL;
    struct ron_err why = {0};
    enum ron_rc rc;

    RON_TRY(edg_pack_cache_new(&small, &cache, c->err));
    rc = edg_pack_open(
        &(struct edg_pack_opts){
            .env = c->opts->env, .cache = cache, .path = c->opts->path, .name = "x", .readers = 1},
        &p, &why);
    if (rc == RON_OK) {
        r->opened = true;
        r->info = *edg_pack_info(p);
        edg_pack_unref(p);
    } else if (is_finding(rc, &why)) {
        bool prefixed = strncmp(why.msg, c->opts->path, path_len) == 0 &&
                        strncmp(why.msg + path_len, ": ", 2) == 0;

        edg__found(&r->faults, "%s", prefixed ? why.msg + path_len + 2 : why.msg);
        rc = RON_OK;
    } else {
        *c->err = why;
    }
    edg_pack_cache_free(cache);
    return rc;
}

enum ron_rc edg_verify(const struct edg_verify_opts *opts, struct edg_verify_report *ret_report,
                       struct ron_err *err)
{
    const struct ron_env *env = opts->env;
    struct edg__check c = {.opts = opts, .report = ret_report, .err = err};
    struct ron_err inner = {0};
    uint64_t size = 0;
    int fd = -1;
    enum ron_rc rc;

    *ret_report = (struct edg_verify_report){0};
    c.err = err != NULL ? err : &inner;
    RON_TRY(as_pack(&c));
    RON_TRY(env->disk->open(env, opts->path, RON_OPEN_READ, 0, &fd, c.err));
    rc = env->disk->size(env, fd, &size);
    if (rc == RON_OK && ret_report->opened) {
        rc = ret_report->info.kind == EDG_PACK_PMTILES ? edg__verify_pmt(&c, fd, size)
                                                       : edg__verify_mbt(&c);
        if (is_finding(rc, c.err)) {
            edg__found(&ret_report->faults, "%s", c.err->msg);
            *c.err = (struct ron_err){0};
            rc = RON_OK;
        }
    }
    if (rc == RON_OK) {
        rc = whole(&c, fd, size);
        if (is_finding(rc, c.err)) {
            edg__found(&ret_report->faults, "file changed during verification");
            *c.err = (struct ron_err){0};
            rc = RON_OK;
        }
    }
    env->disk->close(env, fd);
    return rc;
}

/* ---- what is served -------------------------------------------------------------------------- */

enum { OPEN_TRIES = 3 }; /* of a file that changes under us */

/* Both verifying and opening go by the name, MBTiles several times. The name led to the same file
 * before and afterwards, and that is the one that is open: then it led there all the time. */
static enum ron_rc open_once(const struct edg_verify_opts *opts, const struct edg_pack_opts *pack,
                             struct edg_verify_report *report, struct edg_pack **ret_pack,
                             struct ron_err *err)
{
    const struct ron_env *env = opts->env;
    struct ron_file_stat before = {0};
    struct ron_file_stat after = {0};
    struct ron_file_stat opened = {0};
    struct edg_pack *p = NULL;
    enum ron_rc rc = env->disk->stat(env, opts->path, &before);

    if (rc != RON_OK) {
        return ron_err_set(err, rc, "cannot read file attributes");
    }
    RON_TRY(edg_verify(opts, report, err));
    if (report->faults.count > 0) {
        return ron_err_set(err, RON_CORRUPT, "%s", report->faults.texts[0]);
    }
    RON_TRY(edg_pack_open(pack, &p, err));
    rc = edg_pack_hash(p, opts->progress, opts->progress_arg, err);
    if (rc == RON_OK && (edg_pack_stat(p, &opened) != RON_OK ||
                         env->disk->stat(env, opts->path, &after) != RON_OK ||
                         !ron_file_same(&before, &opened) || !ron_file_same(&before, &after))) {
        rc = ron_err_set(err, RON_AGAIN, "file changed during verification");
    }
    if (rc != RON_OK) {
        edg_pack_unref(p);
        return rc;
    }
    *ret_pack = p;
    return RON_OK;
}

enum ron_rc edg_verify_open(const struct edg_verify_opts *opts, const struct edg_pack_opts *pack,
                            struct edg_verify_report *ret_report, struct edg_pack **ret_pack,
                            struct ron_err *err)
{
    enum ron_rc rc = RON_AGAIN;

    *ret_report = (struct edg_verify_report){0};
    for (int i = 0; i < OPEN_TRIES && rc == RON_AGAIN; i++) {
        rc = open_once(opts, pack, ret_report, ret_pack, err);
    }
    return rc;
}

/* ---- the report ------------------------------------------------------------------------------ */

static const char *kind_name(const struct edg_pack_info *i)
{
    return i->kind == EDG_PACK_PMTILES ? "PMTiles 3" : "MBTiles";
}

static void tell_findings(const struct edg_findings *f, const char *what, struct ron_buf *out)
{
    for (uint32_t i = 0; i < RON_MIN(f->count, (uint32_t)EDG_FINDINGS_MAX); i++) {
        ron_buf_append_fmt(out, "  %-10s %s\n", what, f->texts[i]);
    }
    if (f->count > EDG_FINDINGS_MAX) {
        ron_buf_append_fmt(out, "  %-10s and more\n", what);
    }
}

static void tell_info(const struct edg_verify_report *r, struct ron_buf *out)
{
    const struct edg_pack_info *i = &r->info;

    ron_buf_append_fmt(out, "  %-10s %s, %s", "format", kind_name(i),
                       edg_tile_type_name(i->tile_type));
    if (i->kind == EDG_PACK_PMTILES) {
        ron_buf_append_fmt(out, " (%s)%s", edg_coding_name(i->tile_coding),
                           i->clustered ? ", clustered" : "");
    }
    ron_buf_append_fmt(out, ", %" PRIu64 " bytes\n  %-10s %u to %u\n", i->size_bytes, "zooms",
                       i->zoom_min, i->zoom_max);
    if (edg__bounds_good(&i->bounds)) {
        const int32_t sides[] = {i->bounds.west_e7, i->bounds.south_e7, i->bounds.east_e7,
                                 i->bounds.north_e7};

        ron_buf_append_fmt(out, "  %-10s", "bounds");
        for (size_t n = 0; n < RON_ARRAY_LEN(sides); n++) {
            ron_buf_append_byte(out, ' ');
            edg__degrees_write(out, sides[n]);
        }
        ron_buf_append_byte(out, '\n');
    }
    ron_buf_append_fmt(out, "  %-10s %" PRIu64, "tiles", r->tiles_addressed);
    if (i->kind == EDG_PACK_PMTILES) {
        ron_buf_append_fmt(out,
                           " in %" PRIu64 " entries with %" PRIu64 " contents\n  %-10s %" PRIu64
                           ", leaves %u deep",
                           r->tile_entries, r->tile_contents, "dirs", r->directories, r->depth);
    }
    ron_buf_append_byte(out, '\n');
}

void edg_verify_tell(const struct edg_verify_report *r, const char *path, struct ron_buf *out)
{
    char id[RON_B3_ID_SIZE];

    ron_buf_append_fmt(out, "%s: %s\n", path, r->faults.count == 0 ? "good" : "BAD");
    if (r->opened) {
        tell_info(r, out);
    }
    if (r->hashed) {
        ron_b3_format(&r->tag, id);
        ron_buf_append_fmt(out, "  %-10s %s%s\n", "hash", id,
                           r->sidecar == EDG_SIDECAR_GOOD ? ", matches the sidecar" : "");
    }
    tell_findings(&r->faults, "fault", out);
    tell_findings(&r->notes, "note", out);
}

static void json_findings(struct ron_json_writer *w, const char *name, const struct edg_findings *f)
{
    ron_json_open(w, name, '[');
    for (uint32_t i = 0; i < RON_MIN(f->count, (uint32_t)EDG_FINDINGS_MAX); i++) {
        size_t len = strlen(f->texts[i]);

        ron_json_text(w, NULL, edg__utf8(f->texts[i], len) ? f->texts[i] : "not UTF-8");
    }
    ron_json_close(w, ']');
}

void edg_verify_json(const struct edg_verify_report *r, const char *path, struct ron_buf *out)
{
    static const char *const sidecars[] = {
        [EDG_SIDECAR_NONE] = "none", [EDG_SIDECAR_GOOD] = "good", [EDG_SIDECAR_BAD] = "bad"};
    struct ron_json_writer w;
    char id[RON_B3_ID_SIZE];

    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_text(&w, "file", edg__utf8(path, strlen(path)) ? path : "?");
    ron_json_bool(&w, "good", r->faults.count == 0);
    if (r->opened) {
        const struct edg_pack_info *i = &r->info;

        ron_json_text(&w, "kind", i->kind == EDG_PACK_PMTILES ? "pmtiles" : "mbtiles");
        ron_json_text(&w, "tile_type", edg_tile_type_name(i->tile_type));
        ron_json_text(&w, "tile_compression", edg_coding_name(i->tile_coding));
        ron_json_bool(&w, "clustered", i->clustered);
        ron_json_u64(&w, "size_bytes", i->size_bytes);
        ron_json_u64(&w, "minzoom", i->zoom_min);
        ron_json_u64(&w, "maxzoom", i->zoom_max);
        ron_json_u64(&w, "tiles_addressed", r->tiles_addressed);
        ron_json_u64(&w, "tile_entries", r->tile_entries);
        ron_json_u64(&w, "tile_contents", r->tile_contents);
        ron_json_u64(&w, "directories", r->directories);
        ron_json_u64(&w, "depth", r->depth);
    }
    ron_json_text(&w, "sidecar", sidecars[r->sidecar]);
    if (r->hashed) {
        ron_b3_format(&r->tag, id);
        ron_json_text(&w, "hash", id);
    }
    ron_json_u64(&w, "fault_count", r->faults.count);
    json_findings(&w, "faults", &r->faults);
    json_findings(&w, "notes", &r->notes);
    ron_json_close(&w, '}');
    ron_buf_append_byte(out, '\n');
}
