/* SPDX-License-Identifier: Apache-2.0 */
/* edge/svc.c - `ron edge`: from settings to running tasks, and back.
 *
 * Only this file knows all rooms. Build order: metrics, files, queues, store, fills, gateway,
 * packs, readers, routes; each part gets pointers to the parts that it uses, which were built
 * before it. Everything is taken down in reverse after all tasks have stopped. */
#include <stdio.h>
#include <string.h>

#include "edge/edge.h"
#include "edge/fill/tier.h"
#include "edge/serve/demo.h"
#include "edge/serve/serve.h"
#include "edge/stored/index.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/file.h"

enum { SVC_MAGIC = 0x65537663 }; /* "eSvc" */

struct edg_svc {
    uint32_t magic;
    struct edg_site site;
    struct edg_reads reads;
    struct edg_store store;
    struct edg_fills fills;
    struct edg_gateway *gateway; /* NULL: there is none */
    struct edg_packs packs;
    struct edg_serve serve;
};

static const struct ron_conf_key keys[] = {EDG_CONF(RON_CONF_ROW)};

/* ---- settings -------------------------------------------------------------------------------- */

static enum ron_rc check_origins(const struct ron_conf_snap *conf, struct ron_err *err)
{
    struct ron_conf_list list = ron_conf_list(conf, EDG_CORS);

    for (size_t i = 0; i < list.count; i++) {
        const char *text = list.items[i].text;
        const char *host = strstr(text, "://");

        if (strcmp(text, "*") == 0 && list.count == 1) {
            continue;
        }
        if (host == NULL || host == text || host[3] == '\0' || strchr(host + 3, '/') != NULL ||
            !ron_http_is_value((struct ron_str){text, list.items[i].len})) {
            return ron_err_set(err, RON_INVALID,
                               "cors.allow_origins: invalid origin '%s', expected "
                               "SCHEME://HOST[:PORT] or a single *",
                               text);
        }
    }
    return RON_OK;
}

/* A base URL to which paths are appended, used in JSON and in templates. */
static enum ron_rc check_public_url(const struct ron_conf_snap *conf, struct ron_err *err)
{
    struct ron_conf_str url = ron_conf_str(conf, EDG_PUBLIC_URL);
    bool tls = strncmp(url.text, "https://", 8) == 0;
    const char *host = url.text + (tls ? 8 : 7);

    if (url.len == 0) {
        return RON_OK;
    }
    if ((!tls && strncmp(url.text, "http://", 7) != 0) || *host == '\0' || *host == '/' ||
        url.text[url.len - 1] == '/' || strpbrk(url.text, "?#{}\"\\@ ") != NULL ||
        !ron_http_is_value((struct ron_str){url.text, url.len})) {
        return ron_err_set(
            err, RON_INVALID,
            "edge.public_url: invalid URL '%s', expected http[s]://HOST[:PORT][/PATH] "
            "without a trailing slash",
            url.text);
    }
    return RON_OK;
}

static enum ron_rc check_settings(const struct ron_conf_snap *conf, struct ron_err *err)
{
    struct ron_conf_str control = ron_conf_str(conf, EDG_CACHE_CONTROL);

    RON_TRY(edg_packs_check(conf, err));
    RON_TRY(check_origins(conf, err));
    RON_TRY(check_public_url(conf, err));
    RON_TRY(edg_origins_check(conf, err));
    RON_TRY(edg_gateway_check(conf, err));
    RON_TRY(ron_tier_check(conf, err));
    if (ron_conf_bool(conf, EDG_DEMO) && ron_conf_str(conf, EDG_GW_ORIGIN).len > 0 &&
        ron_conf_str(conf, EDG_GW_PREFIX).len <= 1) {
        return ron_err_set(err, RON_INVALID,
                           "edge.demo and gateway.prefix = \"/\" are mutually exclusive");
    }
    if (!ron_http_is_value((struct ron_str){control.text, control.len})) {
        return ron_err_set(err, RON_INVALID, "http.cache_control: invalid header value");
    }
    return RON_OK;
}

/* The names of the specification for what all services call alike. */
static const struct ron_conf_alias aliases[] = {
    {"ingress.timeout_secs", "timeouts.request", "s"},
    {"ingress.max_inflight", "limits.inflight", ""},
    {"ingress.rps_limit", "limits.rate_per_second", ""},
    {"ingress.body_bytes", "limits.max_body_bytes", "B"},
    {"ingress.decompress_max_ratio", "limits.decompress_ratio_cap", ""},
    {"ingress.decompress_abs_bytes", "limits.max_decoded", "B"},
    {"retry.live_fill.base_ms", "retry.live_fill.base", "ms"},
    {"retry.live_fill.max_ms", "retry.live_fill.max", "ms"},
};

const struct ron_conf_table edg_conf_table = {.service = "edge",
                                              .keys = keys,
                                              .key_count = EDG_CONF_COUNT,
                                              .aliases = aliases,
                                              .alias_count = RON_ARRAY_LEN(aliases),
                                              .check = check_settings};

/* ---- parts ----------------------------------------------------------------------------------- */

static enum ron_rc open_files(struct edg_svc *s, struct ron_err *err)
{
    struct ron_conf_str dir = ron_conf_str(s->site.conf, EDG_FILES_DIR);
    enum ron_rc rc;

    if (dir.len == 0) {
        return RON_OK;
    }
    rc = edg_files_new(
        &(struct edg_files_opts){.env = s->site.env,
                                 .dir = dir.text,
                                 .check_ms = (uint32_t)ron_conf_ms(s->site.conf, EDG_FILES_CHECK)},
        &s->serve.files, err);
    if (rc != RON_OK) {
        ron_err_prefix(err, "edge.files_dir");
    }
    return rc;
}

static enum ron_rc open_store(struct edg_svc *s, struct ron_err *err)
{
    uint64_t bytes = (uint64_t)ron_conf_bytes(s->site.conf, EDG_STORE_BYTES);
    uint64_t object = (uint64_t)ron_conf_bytes(s->site.conf, EDG_OBJECT_BYTES);
    const char *dir = ron_conf_str(s->site.conf, EDG_DIR).text;
    char path[1024];

    if (s->store.amnesia) {
        bytes = (uint64_t)ron_conf_bytes(s->site.conf, EDG_AMNESIA_BYTES);
    } else {
        int len = snprintf(path, sizeof path, "%s/store", dir);

        if (len <= 0 || (size_t)len >= sizeof path) {
            return ron_err_set(err, RON_LIMIT, "edge.dir: path too long");
        }
        RON_TRY(ron_mkdirs(s->site.env, dir, 0700, err));
    }
    RON_TRY(ron_cas_new(&(struct ron_cas_opts){.env = s->site.env,
                                               .dir = s->store.amnesia ? NULL : path,
                                               .bytes_max = bytes,
                                               .object_bytes_max = RON_MIN(bytes, object)},
                        &s->store.cas, err));
    struct ron_task_def task = ron_cas_task(s->store.cas);

    task.name = "store";
    task.stage = 2;
    RON_TRY(ron_sup_add(ron_app_sup(s->site.app), &task, NULL, err));
    s->store.cas_metrics = (struct ron_ops_cas){.store = s->store.cas, .name = "edge"};
    RON_TRY(ron_collect_cas(ron_app_metrics(s->site.app), &s->store.cas_metrics, err));
    RON_TRY(edg_s3_open(&s->site, &s->store, bytes, err));
    return edg_s3_readers_add(&s->serve, err);
}

/* The origins of today, as the index names them; the gateway's records are apart. */
static size_t index_origins(struct edg_svc *s, struct edg_index_origin *ret)
{
    size_t count = 0;

    for (size_t i = 0; i < s->fills.origins.count; i++) {
        ret[count++] = (struct edg_index_origin){s->fills.origins.at[i].name,
                                                 s->fills.origins.at[i].url, (uint32_t)i};
    }
    if (s->gateway != NULL) {
        ret[count++] = (struct edg_index_origin){"", edg_gateway_url(s->gateway), EDG_GATEWAY};
    }
    return count;
}

/* Whether a table that could not be kept is worth a failed start: never, it fills again. */
static void move_index(struct edg_svc *s, bool load)
{
    struct edg_index_origin origins[EDG_ORIGINS_MAX + 1];
    struct edg_index_opts opts = {.env = s->site.env,
                                  .dir = ron_conf_str(s->site.conf, EDG_DIR).text,
                                  .table = s->store.table,
                                  .origins = origins,
                                  .origin_count = index_origins(s, origins)};
    struct ron_err err = {0};
    size_t records = 0;
    enum ron_rc rc;

    if (s->store.amnesia || s->store.table == NULL) {
        return;
    }
    rc = load ? edg_index_load(&opts, &records, &err) : edg_index_save(&opts, &records, &err);
    if (rc != RON_OK) {
        RON_LOG(s->site.log, WARN, "cache index discarded", RON_LOG_ERR(&err));
    } else {
        RON_LOG(s->site.log, INFO, "cache index", RON_LOG_STR("state", load ? "loaded" : "saved"),
                RON_LOG_U64("records", records));
    }
}

/* Only with origins: a store, the table of what is in it, and the workers that fill it. With a
 * bucket alone the store is there for /cas. */
static enum ron_rc open_live(struct edg_svc *s, struct ron_err *err)
{
    bool origins = ron_conf_section_count(s->site.conf, "origins") > 0;

    if ((!origins && !ron_tier_configured(s->site.conf)) ||
        (s->store.amnesia && ron_conf_bytes(s->site.conf, EDG_AMNESIA_BYTES) == 0)) {
        return RON_OK;
    }
    RON_TRY(open_store(s, err));
    if (!origins) {
        return RON_OK;
    }
    RON_TRY(edg_table_new(&(struct edg_table_opts){.env = s->site.env}, &s->store.table, err));
    RON_TRY(edg_fills_open(&s->fills, err));
    RON_TRY(edg_gateway_open(&s->fills, &s->gateway, err));
    move_index(s, true);
    s->store.index_taken = true;
    return edg_fills_add(&s->fills, err);
}

/* ---- build, reload, take down ---------------------------------------------------------------- */

/* A collector reads several rooms, so it belongs here. */
static void collect(struct ron_scrape *scrape, void *arg)
{
    struct edg_svc *s = RON_OBJ(arg, struct edg_svc, SVC_MAGIC);
    struct edg_files_stats stats = {0};

    if (s->serve.files != NULL) {
        edg_files_get_stats(s->serve.files, &stats);
    }
    edg_scrape(&s->site, scrape, EDG_M_FILES_OPEN, stats.entries);
    edg_scrape(&s->site, scrape, EDG_M_FILES_BYTES, stats.memory_bytes);
}

static enum ron_rc build(struct ron_app *app, struct ron_err *err)
{
    struct edg_svc *s = ron_alloc_zero(sizeof *s);
    const char *key_file;

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the edge");
    }
    ron_app_set_state(app, s);
    edg_site_init(&s->site, app, &s->reads);
    s->store.amnesia = ron_conf_bool(s->site.conf, RON_APP_AMNESIA);
    edg_fills_init(&s->fills, &s->site, &s->store);
    edg_packs_init(&s->packs, &s->site);
    s->magic = SVC_MAGIC;
    s->serve.magic = EDG_SERVE_MAGIC;
    s->serve.site = &s->site;
    s->serve.store = &s->store;
    s->serve.fills = &s->fills;
    s->serve.packs = &s->packs;
    RON_TRY(edg_metrics_new(&s->site, err));
    RON_TRY(ron_metrics_collector(ron_app_metrics(app), collect, s, err));
    RON_TRY(open_files(s, err));
    key_file = ron_conf_str(s->site.conf, EDG_KEY_FILE).text;
    if (*key_file != '\0') {
        RON_TRY(ron_app_auth_new(app, key_file, "edge", &s->serve.auth, err));
    }
    RON_TRY(edg_reads_open(&s->serve, err));
    RON_TRY(edg_packs_open(&s->packs, err));
    RON_TRY(open_live(s, err));
    RON_TRY(edg_events_add(&s->site, err));
    RON_TRY(edg_demo_open(&s->site, &s->serve.demo, err));
    RON_TRY(edg_packs_add(&s->packs, edg_demo_pack(s->serve.demo), err));
    RON_TRY(edg_readers_add(&s->serve, err));
    s->serve.gateway = s->gateway;
    edg_routes_fill(&s->serve);
    ron_app_set_on_refusal(app, edg_refusal, &s->site);
    return RON_OK;
}

static void reloaded(struct ron_app *app)
{
    struct edg_svc *s = RON_OBJ(ron_app_state(app), struct edg_svc, SVC_MAGIC);

    if (s->serve.auth != NULL) {
        ron_app_auth_reload(s->serve.auth, ron_conf_str(s->site.conf, EDG_KEY_FILE).text);
    }
    edg_packs_reload(&s->packs);
}

static void take_down(struct ron_app *app)
{
    struct edg_svc *s = ron_app_state(app);

    if (s == NULL) {
        return;
    }
    RON_CHECK_MAGIC(s, SVC_MAGIC);
    edg_reads_free(&s->reads);
    edg_fills_stop(&s->fills);
    if (s->store.index_taken) {
        move_index(s, false);
    }
    edg_gateway_close(s->gateway);
    edg_fills_free(&s->fills);
    edg_table_free(s->store.table);
    ron_tier_free(s->store.tier);
    if (s->store.cas != NULL) {
        ron_cas_free(s->store.cas);
    }
    ron_app_auth_free(s->serve.auth);
    edg_packs_free(&s->packs);
    edg_demo_close(s->serve.demo);
    edg_events_free(&s->site);
    edg_files_free(s->serve.files);
    edg_metrics_free(&s->site);
    s->magic = 0;
    ron_free(s);
}

const struct ron_app_def edg_app = {
    .conf = &edg_conf_table,
    .summary = "Serves map tiles, files and cached content to browsers: PMTiles and MBTiles "
               "archives, byte ranges, conditional requests and strong entity tags.",
    .build = build,
    .reloaded = reloaded,
    .take_down = take_down,
};
