/* SPDX-License-Identifier: Apache-2.0 */
/* edge/svc.c - `ron edge`: from settings to running tasks, and back.
 *
 * Place: service. Build order: metrics, files, channels, packs, readers, routes. Taken down
 * in reverse after everything has stopped. */
#include "edge/svc.h"

#include <stdio.h>
#include <string.h>

#include "edge/edge.h"
#include "edge/fill/tier.h"
#include "edge/gateway/gateway.h"
#include "edge/serve/demo.h"
#include "edge/stored/index.h"
#include "ron/base/alloc.h"
#include "ron/io/file.h"

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
                               "cors.allow_origins: '%s' is not SCHEME://HOST[:PORT], or * alone",
                               text);
        }
    }
    return RON_OK;
}

/* A base to which paths are appended, and which stands in JSON and in templates. */
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
        return ron_err_set(err, RON_INVALID,
                           "edge.public_url: '%s' is not http[s]://HOST[:PORT][/PATH], without a "
                           "slash at its end",
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
                           "edge.demo and gateway.prefix = \"/\" exclude each "
                           "other");
    }
    if (!ron_http_is_value((struct ron_str){control.text, control.len})) {
        return ron_err_set(err, RON_INVALID, "http.cache_control cannot stand in a header");
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
    struct ron_conf_str dir = ron_conf_str(s->conf, EDG_FILES_DIR);
    enum ron_rc rc;

    if (dir.len == 0) {
        return RON_OK;
    }
    rc = edg_files_new(
        &(struct edg_files_opts){.env = s->env,
                                 .dir = dir.text,
                                 .check_ms = (uint32_t)ron_conf_ms(s->conf, EDG_FILES_CHECK)},
        &s->files, err);
    if (rc != RON_OK) {
        ron_err_prefix(err, "edge.files_dir");
    }
    return rc;
}

static enum ron_rc open_store(struct edg_svc *s, struct ron_err *err)
{
    uint64_t bytes = (uint64_t)ron_conf_bytes(s->conf, EDG_STORE_BYTES);
    uint64_t object = (uint64_t)ron_conf_bytes(s->conf, EDG_OBJECT_BYTES);
    const char *dir = ron_conf_str(s->conf, EDG_DIR).text;
    char path[1024];

    if (s->amnesia) {
        bytes = (uint64_t)ron_conf_bytes(s->conf, EDG_AMNESIA_BYTES);
    } else {
        int len = snprintf(path, sizeof path, "%s/store", dir);

        if (len <= 0 || (size_t)len >= sizeof path) {
            return ron_err_set(err, RON_LIMIT, "edge.dir: the path is too long");
        }
        RON_TRY(ron_mkdirs(s->env, dir, 0700, err));
    }
    RON_TRY(ron_cas_new(&(struct ron_cas_opts){.env = s->env,
                                               .dir = s->amnesia ? NULL : path,
                                               .bytes_max = bytes,
                                               .object_bytes_max = RON_MIN(bytes, object)},
                        &s->store, err));
    struct ron_task_def task = ron_cas_task(s->store);

    task.name = "store";
    task.stage = 2;
    RON_TRY(ron_sup_add(ron_app_sup(s->app), &task, NULL, err));
    s->cas_metrics = (struct ron_ops_cas){.store = s->store, .name = "edge"};
    RON_TRY(ron_collect_cas(ron_app_metrics(s->app), &s->cas_metrics, err));
    RON_TRY(edg_s3_open(s, bytes, err));
    return edg_s3_readers_add(s, err);
}

/* The origins of today, as the index names them; the gateway's records are apart. */
static size_t index_origins(struct edg_svc *s, struct edg_index_origin *ret)
{
    size_t count = 0;

    for (size_t i = 0; i < s->origins.count; i++) {
        ret[count++] =
            (struct edg_index_origin){s->origins.at[i].name, s->origins.at[i].url, (uint32_t)i};
    }
    if (s->gateway != NULL) {
        ret[count++] = (struct edg_index_origin){"", edg_gateway_url(s), EDG_GATEWAY};
    }
    return count;
}

/* Whether a table that could not be kept is worth a failed start: never, it fills again. */
static void move_index(struct edg_svc *s, bool load)
{
    struct edg_index_origin origins[EDG_ORIGINS_MAX + 1];
    struct edg_index_opts opts = {.env = s->env,
                                  .dir = ron_conf_str(s->conf, EDG_DIR).text,
                                  .table = s->stored,
                                  .origins = origins,
                                  .origin_count = index_origins(s, origins)};
    struct ron_err err = {0};
    size_t records = 0;
    enum ron_rc rc;

    if (s->amnesia || s->stored == NULL) {
        return;
    }
    rc = load ? edg_index_load(&opts, &records, &err) : edg_index_save(&opts, &records, &err);
    if (rc != RON_OK) {
        RON_LOG(s->log, WARN, "the index of stored answers is lost", RON_LOG_ERR(&err));
    } else {
        RON_LOG(s->log, INFO, "the index of stored answers",
                RON_LOG_STR("was", load ? "taken" : "kept"), RON_LOG_U64("records", records));
    }
}

static void drop_fill(void *item, void *arg)
{
    edg_fill_drop(arg, item, EDG_ERROR_DRAINING);
}

/* Only with origins: a store, the table of what is in it, and the workers that fill it. With a
 * bucket alone the store is there for /cas. */
static enum ron_rc open_live(struct edg_svc *s, struct ron_err *err)
{
    bool origins = ron_conf_section_count(s->conf, "origins") > 0;

    if ((!origins && !ron_tier_configured(s->conf)) ||
        (s->amnesia && ron_conf_bytes(s->conf, EDG_AMNESIA_BYTES) == 0)) {
        return RON_OK;
    }
    RON_TRY(open_store(s, err));
    if (!origins) {
        return RON_OK;
    }
    RON_TRY(ron_needs_add(ron_app_needs(s->app), "fill_queue", false, &s->need_fill, err));
    RON_TRY(edg_table_new(&(struct edg_table_opts){.env = s->env}, &s->stored, err));
    RON_TRY(edg_origins_open(&s->origins, s->app, s->conf,
                             (uint64_t)ron_conf_bytes(s->conf, EDG_OBJECT_BYTES), err));
    RON_TRY(edg_gateway_open(s, err));
    move_index(s, true);
    s->index_taken = true;
    RON_TRY(ron_chan_new(
        &(struct ron_chan_opts){.registry = ron_app_registry(s->app),
                                .env = s->env,
                                .name = "work",
                                .producers = "http",
                                .consumers = "workers",
                                .drop_text = "answered 429 rate_limit; busy_rejections_total",
                                .capacity = (uint32_t)ron_conf_int(s->conf, EDG_Q_WORK),
                                .policy = RON_CHAN_REJECT,
                                .wake_batch = 1,
                                .drop = drop_fill,
                                .drop_arg = s},
        &s->work, err));
    return edg_fills_add(s, err);
}

static void drop_read(void *item, void *arg)
{
    edg_read_drop(arg, item, EDG_ERROR_DRAINING);
}

static void drop_wish(void *item, void *arg)
{
    (void)arg;
    ron_free(item);
}

static enum ron_rc make_channels(struct edg_svc *s, struct ron_err *err)
{
    RON_TRY(ron_chan_new(
        &(struct ron_chan_opts){.registry = ron_app_registry(s->app),
                                .env = s->env,
                                .name = "reads",
                                .producers = "http",
                                .consumers = "readers",
                                .drop_text = "answered 429 rate_limit; busy_rejections_total",
                                .capacity = (uint32_t)ron_conf_int(s->conf, EDG_Q_READS),
                                .policy = RON_CHAN_REJECT,
                                .wake_batch = 1,
                                .drop = drop_read,
                                .drop_arg = s},
        &s->reads, err));
    return ron_chan_new(
        &(struct ron_chan_opts){.registry = ron_app_registry(s->app),
                                .env = s->env,
                                .name = "reloads",
                                .producers = "signals",
                                .consumers = "verifier",
                                .drop_text = "one that waits stands for those that come",
                                .capacity = 1,
                                .policy = RON_CHAN_REJECT,
                                .wake_batch = 1,
                                .drop = drop_wish,
                                .drop_arg = s},
        &s->reloads, err);
}

/* ---- build, reload, take down ---------------------------------------------------------------- */

static enum ron_rc build(struct ron_app *app, struct ron_err *err)
{
    struct edg_svc *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the edge");
    }
    ron_app_set_state(app, s);
    s->app = app;
    s->env = ron_app_env(app);
    s->conf = ron_app_conf(app);
    s->log = ron_app_log(app);
    s->amnesia = ron_conf_bool(s->conf, RON_APP_AMNESIA);
    ron_mutex_init(&s->fills.mu, RON_RANK_SHARED, "edge.fills");
    ron_list_init(&s->fills.list);
    s->late_fill =
        (struct ron_http_late){.handle = edg_fill_late, .arg = s, .early_ms = EDG_LATE_MS};
    s->multipart = ron_conf_bool(s->conf, EDG_MULTIPART);
    s->tile_204 = ron_conf_bool(s->conf, EDG_TILE_204);
    s->hsts = ron_conf_bool(s->conf, EDG_HSTS) && ron_conf_str(s->conf, RON_APP_TLS_CERT).len > 0;
    s->cache_control = ron_conf_str(s->conf, EDG_CACHE_CONTROL).text;
    ron_mutex_init(&s->packs_mu, RON_RANK_SHARED, "edge.routing_table");
    RON_TRY(edg_metrics_new(s, err));
    RON_TRY(ron_needs_add(ron_app_needs(app), "packs_verified", false, &s->need_packs, err));
    RON_TRY(open_files(s, err));
    if (ron_conf_str(s->conf, EDG_KEY_FILE).len > 0) {
        RON_TRY(
            ron_app_auth_new(app, ron_conf_str(s->conf, EDG_KEY_FILE).text, "edge", &s->auth, err));
    }
    RON_TRY(make_channels(s, err));
    RON_TRY(open_live(s, err));
    RON_TRY(edg_events_add(s, err));
    RON_TRY(edg_demo_open(s, err));
    RON_TRY(edg_packs_add(s, err));
    RON_TRY(edg_readers_add(s, err));
    edg_routes_fill(s);
    ron_app_set_on_refusal(app, edg_refusal, s);
    return RON_OK;
}

static void reloaded(struct ron_app *app)
{
    struct edg_svc *s = ron_app_state(app);

    if (s->auth != NULL) {
        ron_app_auth_reload(s->auth, ron_conf_str(s->conf, EDG_KEY_FILE).text);
    }
    edg_packs_reload(ron_app_state(app));
}

static void take_down(struct ron_app *app)
{
    struct edg_svc *s = ron_app_state(app);

    if (s == NULL) {
        return;
    }
    if (s->reads != NULL) {
        ron_chan_free(s->reads); /* answers what is left in it */
    }
    if (s->reloads != NULL) {
        ron_chan_free(s->reloads);
    }
    if (s->work != NULL) {
        ron_chan_free(s->work); /* likewise */
    }
    if (s->s3_reads != NULL) {
        ron_chan_free(s->s3_reads); /* likewise */
    }
    edg_fills_free(s);
    if (s->index_taken) {
        move_index(s, false);
    }
    edg_gateway_close(s);
    edg_origins_close(&s->origins);
    edg_table_free(s->stored);
    ron_tier_free(s->tier);
    if (s->store != NULL) {
        ron_cas_free(s->store);
    }
    ron_app_auth_free(s->auth);
    edg_packs_free(s);
    edg_demo_close(s);
    edg_events_free(s);
    edg_files_free(s->files);
    edg_metrics_free(s);
    ron_mutex_done(&s->fills.mu);
    ron_mutex_done(&s->packs_mu);
    edg_shared_free(s);
    ron_free(s);
}

const struct ron_app_def edg_app = {
    .conf = &edg_conf_table,
    .summary = "Serves map packs, files and content to browsers: tiles of PMTiles and MBTiles "
               "archives, byte ranges, conditional requests and strong tags.",
    .build = build,
    .reloaded = reloaded,
    .take_down = take_down,
};
