/* SPDX-License-Identifier: Apache-2.0 */
/* edge/serve/routes.c - the routes: from a path to what is served, on the loop.
 *
 * Place: service. Nothing here waits: what is not in memory or open goes to a reader.
 *
 *     /edge/assets/<pack>/{z}/{x}/{y}.<ext>   a tile
 *     /edge/assets/<pack>.json                TileJSON
 *     /edge/assets/<pack>.pmtiles, .mbtiles   the archive itself, by range
 *     /edge/assets/files/<path>               a file
 *     /edge/assets/o/<origin>/<path>          content of an origin (fill/live.c)
 *     /edge/assets/ledger/<path>              the same of the origin `ledger`
 *     / and /demo/<file>                      the demo page (demo.c)
 *     /cas/<content id>                       an object of the content store */
#include <stdio.h>
#include <string.h>

#include "edge/serve/demo.h"
#include "edge/serve/serve.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

/* ---- files ----------------------------------------------------------------------------------- */

/* Has a reader check whether the file is still the same. A full queue does no harm: after twice the
 * time the next request waits for a check of its own. */
static void ask_check(struct edg_serve *s, const char *path)
{
    struct edg_read *r = edg_read_new(EDG_READ_FILE_CHECK, path);

    if (r != NULL && ron_chan_try_send(s->site->reads->disk, r, NULL) != RON_OK) {
        edg_read_free(r);
    }
}

static void on_file(struct edg_serve *s, struct edg_out *out, struct ron_str rest)
{
    const struct edg_file *file = NULL;
    char path[EDG_PATH_MAX + 1];
    bool check = false;
    enum ron_rc rc = s->files != NULL ? edg_path_decode(rest, path) : RON_NOTFOUND;

    if (rc != RON_OK) {
        edg_fail(out, rc == RON_INVALID ? EDG_ERROR_BAD_PATH : EDG_ERROR_NOT_FOUND);
        return;
    }
    rc = edg_files_get(s->files, path, ron_env_now_ns(s->site->env) / RON_NS_PER_MS, &file, &check);
    if (rc != RON_OK) {
        edg_read_submit(out, edg_read_new(EDG_READ_FILE, path));
        return;
    }
    struct edg_content c = edg_content_of_file(s->site, file);

    if (check) {
        ask_check(s, path);
    }
    edg_answer(out, &c);
}

/* ---- packs ----------------------------------------------------------------------------------- */

static bool ends_with(struct ron_str text, const char *ending, struct ron_str *ret_stem)
{
    size_t len = strlen(ending);

    if (text.len <= len || memcmp(text.ptr + text.len - len, ending, len) != 0) {
        return false;
    }
    *ret_stem = (struct ron_str){text.ptr, text.len - len};
    return true;
}

/* Decimal digits up to `end`, without leading zeros; at most ten, which every row and column of
 * zoom 31 has room in. */
static bool take_number(struct ron_str *text, char end, uint64_t *ret)
{
    uint64_t n = 0;
    size_t i = 0;

    while (i < text->len && i < 10 && text->ptr[i] >= '0' && text->ptr[i] <= '9') {
        n = n * 10 + (uint64_t)(text->ptr[i] - '0');
        i++;
    }
    if (i == 0 || i == text->len || text->ptr[i] != end || (i > 1 && text->ptr[0] == '0')) {
        return false;
    }
    *ret = n;
    text->ptr += i + 1;
    text->len -= i + 1;
    return true;
}

static const char *ext_of(enum edg_tile_type type)
{
    switch (type) {
#define X(name, number, text, ext, content)                                                        \
    case EDG_TILE_##name:                                                                          \
        return ext;
        EDG_TILE_TYPES(X)
#undef X
    }
    return "bin";
}

static void on_tile(struct edg_out *out, struct edg_pack *take_pack, struct ron_str rest)
{
    struct ron_err err = {0};
    struct edg_tile tile;
    struct edg_read *r;
    uint64_t z = 0;
    uint64_t x = 0;
    uint64_t y = 0;
    enum ron_rc rc;

    RON_ASSERT(take_pack != NULL);
    if (!take_number(&rest, '/', &z) || !take_number(&rest, '/', &x) ||
        !take_number(&rest, '.', &y) ||
        !edg_tile_type_has_ext(edg_pack_info(take_pack)->tile_type, rest)) {
        edg_pack_unref(take_pack);
        edg_fail(out, EDG_ERROR_NOT_FOUND);
        return;
    }
    rc = edg_pack_tile(take_pack, z, x, y, &tile, &err);
    if (rc == RON_AGAIN || (rc == RON_OK && !edg_takes_tile(out->head, &tile))) {
        r = edg_read_new(EDG_READ_TILE, NULL);
        if (rc == RON_OK) { /* A reader unpacks it; that takes too long for a loop. */
            tile.blob.release(tile.blob.arg);
        }
        if (r != NULL) {
            r->pack = take_pack;
            r->z = z;
            r->x = x;
            r->y = y;
        } else {
            edg_pack_unref(take_pack);
        }
        edg_read_submit(out, r);
        return;
    }
    if (rc == RON_OK) {
        struct edg_content c = edg_content_of_tile(out->site, &tile);

        edg_answer(out, &c);
    } else if (rc == RON_NOTFOUND) {
        edg_answer_no_tile(out, take_pack);
    } else {
        edg_fail(out, edg_error_of(rc));
    }
    edg_pack_unref(take_pack);
}

static void release_pack(void *arg)
{
    edg_pack_unref(arg);
}

static void on_archive(struct edg_out *out, struct edg_pack *take_pack)
{
    struct edg_archive a;

    RON_ASSERT(take_pack != NULL);
    if (edg_pack_archive(take_pack, &a) != RON_OK) {
        edg_pack_unref(take_pack);
        edg_fail(out, EDG_ERROR_NOT_READY);
        return;
    }
    struct edg_content c = {
        .blob = {.fd = a.fd, .length = a.size_bytes, .release = release_pack, .arg = take_pack},
        .mtime_s = a.mtime_ms / 1000,
        .type = a.content_type,
        .cache_control = out->site->cache_control,
        .source = EDG_FROM_PACK};

    edg_tag_of(&a.tag, c.tag);
    edg_answer(out, &c);
}

/* Where the edge is for its clients: as the settings say, else as this request reached us, which
 * behind another front is what the browser knows, too, if it passes Host on and does no TLS. */
static int put_base(struct edg_out *out, char *url, size_t size)
{
    struct ron_conf_snap *conf = ron_conf_box_get(ron_app_conf_box(out->site->app));
    struct ron_conf_str public = ron_conf_str(conf, EDG_PUBLIC_URL);
    bool tls = ron_conf_str(conf, RON_APP_TLS_CERT).len > 0;
    struct ron_str host = out->head->host;
    int len = public.len > 0 ? snprintf(url, size, "%s", public.text)
                             : snprintf(url, size, "%s://%.*s", tls ? "https" : "http",
                                        (int)host.len, host.ptr != NULL ? host.ptr : "");

    ron_conf_unref(conf);
    return len;
}

/* The template of its tiles. */
static bool put_template(struct edg_out *out, const struct edg_pack *pack, char *url, size_t size,
                         struct ron_str *ret_url)
{
    int base = put_base(out, url, size);
    int more;

    if (base <= 0 || (size_t)base >= size) {
        return false;
    }
    more = snprintf(url + base, size - (size_t)base, "/edge/assets/%s/{z}/{x}/{y}.%s",
                    edg_pack_name(pack), ext_of(edg_pack_info(pack)->tile_type));
    *ret_url = (struct ron_str){url, (size_t)base + (size_t)more};
    return more > 0 && ret_url->len < size;
}

static void release_text(void *arg)
{
    struct ron_buf *body = arg;

    ron_buf_done(body);
    ron_free(body);
}

static void on_tilejson(struct edg_out *out, struct edg_pack *take_pack)
{
    struct ron_buf *body = ron_alloc(sizeof *body);
    struct ron_str template;
    struct ron_b3 id;
    char url[512];

    RON_ASSERT(take_pack != NULL);
    if (body == NULL) {
        edg_pack_unref(take_pack);
        edg_fail(out, EDG_ERROR_BUSY);
        return;
    }
    ron_buf_init(body, EDG_METADATA_BYTES_MAX + 65536);
    if (!put_template(out, take_pack, url, sizeof url, &template) ||
        edg_pack_tilejson(take_pack, template, body) != RON_OK) {
        release_text(body);
        edg_fail(out, EDG_ERROR_INTERNAL);
    } else {
        struct edg_content c = {.blob = {.bytes = ron_buf_data(body),
                                         .fd = -1,
                                         .length = ron_buf_len(body),
                                         .release = release_text,
                                         .arg = body},
                                .mtime_s = RON_HTTP_NO_MTIME,
                                .type = "application/json",
                                .cache_control = out->site->cache_control,
                                .source = EDG_FROM_PACK};

        ron_b3_hash(ron_buf_data(body), ron_buf_len(body), &id);
        edg_tag_of(&id, c.tag);
        edg_answer(out, &c);
    }
    edg_pack_unref(take_pack);
}

/* GET /edge/packs: what is served, for people and consoles. */
static void on_packs(struct ron_http_call *call, void *arg)
{
    struct edg_serve *s = RON_OBJ(arg, struct edg_serve, EDG_SERVE_MAGIC);
    struct edg_out out = {.site = s->site, .call = call, .head = ron_http_head(call)};
    struct edg_pack *packs[EDG_PACKS_MAX];
    size_t count = edg_packs_list(s->packs, packs);
    struct ron_json_writer j;
    struct ron_buf body;

    ron_buf_init(&body, 65536);
    ron_json_begin(&j, &body);
    ron_json_open(&j, NULL, '{');
    ron_json_open(&j, "packs", '[');
    for (size_t i = 0; i < count; i++) {
        const struct edg_pack_info *info = edg_pack_info(packs[i]);

        ron_json_open(&j, NULL, '{');
        ron_json_text(&j, "name", edg_pack_name(packs[i]));
        ron_json_text(&j, "kind", info->kind == EDG_PACK_PMTILES ? "pmtiles" : "mbtiles");
        ron_json_text(&j, "tiles", ext_of(info->tile_type));
        ron_json_u64(&j, "zoom_min", info->zoom_min);
        ron_json_u64(&j, "zoom_max", info->zoom_max);
        ron_json_u64(&j, "bytes", info->size_bytes);
        ron_json_close(&j, '}');
        edg_pack_unref(packs[i]);
    }
    ron_json_close(&j, ']');
    ron_json_close(&j, '}');
    if (ron_buf_error(&body) == RON_OK) {
        edg_answer_text(&out, 200, "application/json", &body);
    } else {
        edg_fail(&out, EDG_ERROR_INTERNAL);
    }
    ron_buf_done(&body);
}

static void on_pack(struct edg_serve *s, struct edg_out *out, struct ron_str first,
                    struct ron_str rest, bool has_rest)
{
    enum edg_error error = EDG_ERROR_NOT_FOUND;
    struct ron_str stem = first;
    struct edg_pack *pack;

    if (has_rest) {
        pack = edg_packs_get(s->packs, first, &error);
        if (pack != NULL) {
            on_tile(out, pack, rest);
            return;
        }
    } else if (ends_with(first, ".json", &stem)) {
        pack = edg_packs_get(s->packs, stem, &error);
        if (pack != NULL) {
            on_tilejson(out, pack);
            return;
        }
    } else if (ends_with(first, ".pmtiles", &stem) || ends_with(first, ".mbtiles", &stem)) {
        pack = edg_packs_get(s->packs, stem, &error);
        if (pack != NULL && (edg_pack_info(pack)->kind == EDG_PACK_PMTILES) ==
                                (first.len - stem.len == 8 && first.ptr[stem.len + 1] == 'p')) {
            on_archive(out, pack);
            return;
        }
        edg_pack_unref(pack);
    }
    edg_fail(out, error);
}

/* ---- origins and objects --------------------------------------------------------------------- */

/* Amnesia without memory for it: there are origins, and nowhere to put what they send. */
static bool forgets(const struct edg_serve *s)
{
    return s->store->amnesia && s->store->cas == NULL &&
           ron_conf_section_count(s->site->conf, "origins") > 0;
}

static void on_origin(struct edg_serve *s, struct edg_out *out, struct ron_str rest)
{
    const char *slash = memchr(rest.ptr, '/', rest.len);

    if (slash == NULL) {
        edg_fail(out, EDG_ERROR_NOT_FOUND);
    } else if (forgets(s)) {
        edg_fail(out, EDG_ERROR_AMNESIA);
    } else {
        size_t len = (size_t)(slash - rest.ptr);

        edg_live(s->fills, out, (struct ron_str){rest.ptr, len},
                 (struct ron_str){slash + 1, rest.len - len - 1});
    }
}

static void on_object(struct ron_http_call *call, void *arg)
{
    struct edg_serve *s = RON_OBJ(arg, struct edg_serve, EDG_SERVE_MAGIC);
    struct edg_out out = {.site = s->site, .call = call, .head = ron_http_head(call)};
    struct ron_str text = ron_http_param(call, 0);
    struct ron_cas_obj *obj = NULL;
    struct ron_err err = {0};
    struct edg_read *r;
    struct ron_b3 id;
    enum ron_rc rc;

    if (ron_b3_parse(text.ptr, text.len, &id, &err) != RON_OK) {
        edg_fail(&out, EDG_ERROR_BAD_ID);
        return;
    }
    if (forgets(s)) {
        edg_fail(&out, EDG_ERROR_AMNESIA);
        return;
    }
    rc = s->store->cas != NULL ? ron_cas_get(s->store->cas, &id, &obj) : RON_NOTFOUND;
    if (rc == RON_OK && edg_object_is_plain(obj)) {
        edg_answer_object(&out, obj, NULL);
        return;
    }
    if (rc == RON_OK) {
        ron_cas_release(obj);
    }
    if (rc == RON_NOTFOUND && s->store->tier == NULL) {
        edg_fail(&out, EDG_ERROR_NOT_FOUND);
        return;
    }
    r = edg_read_new(EDG_READ_OBJECT, NULL);
    if (r != NULL) {
        r->id = id;
        r->deep = rc == RON_NOTFOUND;
    }
    edg_read_submit(&out, r);
}

/* ---- routes ---------------------------------------------------------------------------------- */

static void on_assets(struct ron_http_call *call, void *arg)
{
    struct edg_serve *s = RON_OBJ(arg, struct edg_serve, EDG_SERVE_MAGIC);
    struct edg_out out = {.site = s->site, .call = call, .head = ron_http_head(call)};
    struct ron_str rest = ron_http_param(call, 0);
    const char *slash = memchr(rest.ptr, '/', rest.len);
    struct ron_str first = {rest.ptr, slash != NULL ? (size_t)(slash - rest.ptr) : rest.len};
    struct ron_str behind = {slash != NULL ? slash + 1 : NULL,
                             slash != NULL ? rest.len - first.len - 1 : 0};

    if (slash != NULL && ron_str_is(first, "files")) {
        on_file(s, &out, behind);
    } else if (slash != NULL && ron_str_is(first, "o")) {
        on_origin(s, &out, behind);
    } else if (slash != NULL && ron_str_is(first, "ledger")) {
        on_origin(s, &out, rest); /* the origin of that name, by a shorter path */
    } else {
        on_pack(s, &out, first, behind, slash != NULL);
    }
}

/* A browser asks before it sends a header that is not on its own list, If-None-Match for one. */
static void on_options(struct ron_http_call *call, void *arg)
{
    struct edg_serve *s = RON_OBJ(arg, struct edg_serve, EDG_SERVE_MAGIC);
    struct edg_out out = {.site = s->site, .call = call, .head = ron_http_head(call)};

    RON_IGNORE(ron_http_add_header(call, "Allow", (struct ron_str){"GET, HEAD, OPTIONS", 18}));
    edg_add_preflight(&out);
    edg_answer_empty(&out, 204);
}

void edg_routes_fill(struct edg_serve *s)
{
    const struct ron_http_route rows[] = {
        {RON_HTTP_GET, "/edge/assets/{path*}", on_assets, s, 0, 0},
        {RON_HTTP_GET, "/edge/packs", on_packs, s, 0, 0},
        {RON_HTTP_GET, "/cas/{id}", on_object, s, 0, 0},
        {RON_HTTP_OPTIONS, "/edge/assets/{path*}", on_options, s, RON_HTTP_INLINE, 0},
        {RON_HTTP_OPTIONS, "/cas/{id}", on_options, s, RON_HTTP_INLINE, 0},
    };

    memcpy(s->routes, rows, sizeof rows);
    s->route_count = edg_purge_routes(s, s->routes, RON_ARRAY_LEN(rows));
    if (s->site->events != NULL) {
        s->routes[s->route_count++] = (struct ron_http_route){
            RON_HTTP_GET, "/edge/events", edg_events_http, s->site, RON_HTTP_ADMIN, 0};
    }
    s->route_count = edg_demo_routes(s->demo, s->routes, s->route_count);
    s->route_count = edg_gateway_routes(s->gateway, s->routes, s->route_count);
    RON_ASSERT(s->route_count <= EDG_ROUTES_MAX);
    ron_app_set_routes(s->site->app, s->routes, s->route_count);
}
