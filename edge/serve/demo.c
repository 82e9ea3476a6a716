/* SPDX-License-Identifier: Apache-2.0 */
/* edge/serve/demo.c - the files of the demo page, and its routes. */
#include "edge/serve/demo.h"

#include <stdio.h>
#include <string.h>

#include "edge/sample/sample.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/embed.h"
#include "ron/io/file.h"

/* X(symbol, "name below /demo/") */
#define EDG_DEMO_FILES(X)                                                                          \
    X(edg_demo_index, "index.html")                                                                \
    X(edg_demo_css, "demo.css")                                                                    \
    X(edg_demo_js, "demo.js")                                                                      \
    X(edg_demo_plain, "plain.js")

#define X(symbol, name) RON_EMBED(symbol, EDG_DEMO_DIR "/" name);
EDG_DEMO_FILES(X)
#undef X

/* Of the npm package maplibre-gl, version 5: the build that works under a strict policy. */
static const char *const library[] = {"maplibre-gl-csp.js", "maplibre-gl-csp-worker.js",
                                      "maplibre-gl.css"};

enum { FILES_MAX = 8, LIBRARY_BYTES_MAX = 8 << 20 }; /* the largest has one MB */

struct file {
    const char *name;
    const void *bytes;
    size_t len;
    void *owned; /* NULL: it lies in the program */
    char tag[EDG_TAG_LEN + 1];
};

enum { DEMO_MAGIC = 0x6544656d }; /* "eDem" */

struct edg_demo {
    uint32_t magic;
    struct edg_site *site;
    size_t count;
    struct file files[FILES_MAX];
    bool maplibre;
    int sample_fd;
    char sample_path[32];
};

static void add_file(struct edg_demo *d, struct file file)
{
    struct ron_b3 hash;

    ron_b3_hash(file.bytes, file.len, &hash);
    edg_tag_of(&hash, file.tag);
    RON_ASSERT(d->count < FILES_MAX);
    d->files[d->count++] = file;
}

static enum ron_rc read_library(struct edg_demo *d, const char *dir, struct ron_err *err)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(library); i++) {
        struct ron_buf data;
        char path[1024];
        enum ron_rc rc;

        (void)snprintf(path, sizeof path, "%s/%s", dir, library[i]);
        ron_buf_init(&data, LIBRARY_BYTES_MAX);
        rc = ron_file_read_all(d->site->env, path, &data, err);
        void *copy = rc == RON_OK ? ron_alloc(ron_buf_len(&data) + 1) : NULL;

        if (copy != NULL) {
            memcpy(copy, ron_buf_data(&data), ron_buf_len(&data));
            add_file(d, (struct file){.name = library[i],
                                      .bytes = copy,
                                      .len = ron_buf_len(&data),
                                      .owned = copy});
        } else if (rc == RON_OK) {
            rc = ron_err_set(err, RON_NOMEM, "no memory for %s", library[i]);
        }
        ron_buf_done(&data);
        if (rc != RON_OK) {
            ron_err_prefix(err, "edge.demo_dir");
            return rc;
        }
    }
    d->maplibre = true;
    return RON_OK;
}

static enum ron_rc make_sample(struct edg_demo *d, struct ron_err *err)
{
    struct ron_buf pack;
    enum ron_rc rc;

    ron_buf_init(&pack, EDG_SAMPLE_BYTES_MAX);
    rc = edg_sample_build(&pack, err);
    if (rc == RON_OK) {
        d->sample_fd = edg_memory_file(ron_buf_data(&pack), ron_buf_len(&pack));
        if (d->sample_fd < 0) {
            rc = ron_err_set(err, RON_IO, "no memory for the sample pack");
        }
    }
    ron_buf_done(&pack);
    (void)snprintf(d->sample_path, sizeof d->sample_path, "/proc/self/fd/%d", d->sample_fd);
    return rc;
}

enum ron_rc edg_demo_open(struct edg_site *site, struct edg_demo **ret_demo, struct ron_err *err)
{
    struct ron_conf_str dir = ron_conf_str(site->conf, EDG_DEMO_LIBRARY);
    struct edg_demo *d;

    if (!ron_conf_bool(site->conf, EDG_DEMO)) {
        return RON_OK;
    }
    d = ron_alloc_zero(sizeof *d);
    if (d == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the demo");
    }
    d->magic = DEMO_MAGIC;
    d->sample_fd = -1;
    d->site = site;
    *ret_demo = d;
#define X(symbol, name_)                                                                           \
    add_file(                                                                                      \
        d, (struct file){.name = name_, .bytes = symbol, .len = (size_t)(symbol##_end - symbol)});
    EDG_DEMO_FILES(X)
#undef X
    RON_TRY(make_sample(d, err));
    return dir.len > 0 ? read_library(d, dir.text, err) : RON_OK;
}

void edg_demo_close(struct edg_demo *d)
{
    if (d == NULL) {
        return;
    }
    for (size_t i = 0; i < d->count; i++) {
        ron_free(d->files[i].owned);
    }
    RON_CHECK_MAGIC(d, DEMO_MAGIC);
    edg_memory_file_close(d->sample_fd);
    d->magic = 0;
    ron_free(d);
}

const char *edg_demo_pack(const struct edg_demo *demo)
{
    return demo != NULL ? demo->sample_path : NULL;
}

/* ---- routes ---------------------------------------------------------------------------------- */

static void add_policy(struct ron_http_call *call)
{
    static const char policy[] =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'";
    static const struct {
        const char *name;
        const char *value;
    } rows[] = {{"Content-Security-Policy", policy},
                {"X-Content-Type-Options", "nosniff"},
                {"Cross-Origin-Opener-Policy", "same-origin"}};

    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        RON_IGNORE(ron_http_add_header(call, rows[i].name,
                                       (struct ron_str){rows[i].value, strlen(rows[i].value)}));
    }
}

static void answer_config(const struct edg_demo *d, struct edg_out *out)
{
    const char *text = d->maplibre ? "{\"maplibre\":true}" : "{\"maplibre\":false}";

    edg_add_site(out);
    ron_http_answer(out->call, 200, "application/json", text, strlen(text));
}

static void answer_file(const struct edg_demo *d, struct edg_out *out, struct ron_str name)
{
    add_policy(out->call);
    for (size_t i = 0; i < d->count; i++) {
        const struct file *f = &d->files[i];

        if (ron_str_is(name, f->name)) {
            struct edg_content c = {.blob = {.bytes = f->bytes, .length = f->len},
                                    .mtime_s = RON_HTTP_NO_MTIME,
                                    .type = edg_type_of(f->name),
                                    .cache_control = "no-cache", /* the tag answers it */
                                    .source = EDG_FROM_FILE};

            memcpy(c.tag, f->tag, sizeof c.tag);
            edg_answer(out, &c);
            return;
        }
    }
    edg_fail(out, EDG_ERROR_NOT_FOUND);
}

static void on_page(struct ron_http_call *call, void *arg)
{
    const struct edg_demo *d = RON_OBJ(arg, const struct edg_demo, DEMO_MAGIC);
    struct edg_out out = {.site = d->site, .call = call, .head = ron_http_head(call)};

    answer_file(d, &out, (struct ron_str){"index.html", 10});
}

static void on_part(struct ron_http_call *call, void *arg)
{
    const struct edg_demo *d = RON_OBJ(arg, const struct edg_demo, DEMO_MAGIC);
    struct edg_out out = {.site = d->site, .call = call, .head = ron_http_head(call)};
    struct ron_str name = ron_http_param(call, 0);

    if (ron_str_is(name, "config.json")) {
        answer_config(d, &out);
    } else {
        answer_file(d, &out, name);
    }
}

size_t edg_demo_routes(struct edg_demo *demo, struct ron_http_route *rows, size_t count)
{
    if (demo != NULL) {
        rows[count++] = (struct ron_http_route){RON_HTTP_GET, "/", on_page, demo, 0, 0};
        rows[count++] = (struct ron_http_route){RON_HTTP_GET, "/demo/{file}", on_part, demo, 0, 0};
    }
    return count;
}
