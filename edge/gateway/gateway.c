/* SPDX-License-Identifier: Apache-2.0 */
/* edge/gateway/gateway.c - the gateway on the loop: settings, routes, and which way a request goes.
 *
 * Place: service. Nothing here waits. */
#include "edge/gateway/gateway.h"

#include <stdio.h>
#include <string.h>

#include "edge/gateway/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

/* ---- settings -------------------------------------------------------------------------------- */

/* The section of its origin; UINT32_MAX when there is none. */
static uint32_t section_of(const struct ron_conf_snap *conf, const char *name)
{
    for (size_t i = 0; i < ron_conf_section_count(conf, "origins"); i++) {
        uint32_t section = ron_conf_section(conf, "origins", i);

        if (strcmp(ron_conf_section_name(conf, section), name) == 0) {
            return section;
        }
    }
    return UINT32_MAX;
}

enum ron_rc edg_gateway_check(const struct ron_conf_snap *conf, struct ron_err *err)
{
    struct ron_conf_str origin = ron_conf_str(conf, EDG_GW_ORIGIN);
    struct ron_conf_str prefix = ron_conf_str(conf, EDG_GW_PREFIX);
    struct ron_str path;
    struct ron_str query;
    uint32_t section;
    const char *host;

    if (origin.len == 0) {
        return RON_OK;
    }
    section = section_of(conf, origin.text);
    if (section == UINT32_MAX) {
        return ron_err_set(err, RON_INVALID,
                           "gateway.origin: unknown origin '%s'; add [origins.%s]", origin.text,
                           origin.text);
    }
    host = strstr(ron_conf_str_in(conf, section, EDG_O_URL).text, "://");
    if (host == NULL || strchr(host + 3, '/') != NULL) {
        return ron_err_set(err, RON_INVALID,
                           "gateway.origin: the URL of origins.%s must not have a path: request "
                           "paths are forwarded unchanged",
                           origin.text);
    }
    if (!ron_http_split_target((struct ron_str){prefix.text, prefix.len}, &path, &query) ||
        query.ptr != NULL || (prefix.len > 1 && prefix.text[prefix.len - 1] == '/') ||
        strpbrk(prefix.text, "%{}") != NULL) {
        return ron_err_set(err, RON_INVALID,
                           "gateway.prefix: invalid path, expected a path such as /app without a "
                           "trailing slash");
    }
    return RON_OK;
}

static void refill(void *arg, struct edg_out *out, const struct edg_stored *stored)
{
    (void)stored; /* The record is gone: it is a miss now. */
    edg_gateway_read(RON_OBJ(arg, struct edg_gateway, EDG_GATEWAY_MAGIC), out);
}

static const struct edg_origin_ops ops = {
    .run = edg_gateway_run, .serve = edg_gateway_answer, .refill = refill, .verbatim = true};

enum ron_rc edg_gateway_open(struct edg_fills *fills, struct edg_gateway **ret_gateway,
                             struct ron_err *err)
{
    struct edg_site *site = fills->site;
    struct ron_conf_str name = ron_conf_str(site->conf, EDG_GW_ORIGIN);
    struct ron_conf_str host = ron_conf_str(site->conf, EDG_GW_HOST);
    struct edg_gateway *g;
    uint32_t index = 0;

    if (name.len == 0) {
        return RON_OK;
    }
    g = ron_alloc_zero(sizeof *g);
    if (g == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the gateway");
    }
    g->magic = EDG_GATEWAY_MAGIC;
    *ret_gateway = g;
    g->site = site;
    g->fills = fills;
    g->store = fills->store;
    edg_fills_register(fills, EDG_GATEWAY, &ops, g);
    g->origin = edg_origins_find(&fills->origins, (struct ron_str){name.text, name.len}, &index);
    RON_ASSERT_MSG(g->origin != NULL, "edg_gateway_check has found the origin");
    g->authority = strstr(g->origin->url, "://") + 3;
    g->host = (struct ron_str){host.text, host.len};
    g->pass_host = ron_conf_bool(site->conf, EDG_GW_PASS_HOST);
    g->port = ron_conf_str(site->conf, RON_APP_TLS_CERT).len > 0 ? ":443" : ":80";
    g->object_max = (uint64_t)ron_conf_bytes(site->conf, EDG_OBJECT_BYTES);
    g->seed = site->env->rand_u64(site->env);
    ron_mutex_init(&g->passes_mu, RON_RANK_SHARED, "edge.passes");
    RON_TRY(
        ron_http_client_new(&(struct ron_http_client_opts){.name = "gateway",
                                                           .env = site->env,
                                                           .registry = ron_app_registry(site->app),
                                                           .stage = 3,
                                                           .inflight_max = EDG_PASSES_MAX,
                                                           .connections_max = 512,
                                                           .host_connections_max = 512},
                            &g->client, err));
    RON_TRY(
        edg_origin_target(g->client, site->conf, ron_conf_section(site->conf, "origins", index),
                          &(struct ron_http_target_opts){
                              .name = "gateway",
                              .inflight_max = EDG_PASSES_MAX,
                              .try_timeout_ms = (uint32_t)ron_conf_ms(site->conf, EDG_GW_TIMEOUT),
                              .total_timeout_ms = UINT32_MAX, /* patience is the rule */
                              .response_max = PTRDIFF_MAX / 4},
                          &g->target, err));
    RON_TRY(ron_collect_http_client(ron_app_metrics(site->app), g->client, err));
    return ron_http_client_attach(g->client, ron_app_sup(site->app), err);
}

void edg_gateway_close(struct edg_gateway *g)
{

    if (g == NULL) {
        return;
    }
    RON_CHECK_MAGIC(g, EDG_GATEWAY_MAGIC);
    if (g->client != NULL) {
        (void)ron_http_client_free(g->client);
    }
    edg_passes_free(g);
    ron_mutex_done(&g->passes_mu);
    g->magic = 0;
    ron_free(g);
}

const char *edg_gateway_url(const struct edg_gateway *g)
{
    RON_ASSERT(g->origin != NULL);
    return g->origin->url;
}

/* ---- hosts ----------------------------------------------------------------------------------- */

/* One spelling of a host that is passed on: small letters, without the port that needs no mention.
 * RON_LIMIT: no such name exists. */
static enum ron_rc spell_host(const struct edg_gateway *g, struct ron_str host,
                              char room[EDG_HOST_MAX], struct ron_str *ret_host)
{
    struct ron_str port = ron_str_of(g->port);

    if (host.len > port.len && memcmp(host.ptr + host.len - port.len, port.ptr, port.len) == 0) {
        host.len -= port.len;
    }
    if (host.len > EDG_HOST_MAX) {
        return RON_LIMIT;
    }
    for (size_t i = 0; i < host.len; i++) {
        room[i] = ron_lower(host.ptr[i]);
    }
    *ret_host = (struct ron_str){room, host.len};
    return RON_OK;
}

enum ron_rc edg_gateway_key(const struct edg_gateway *g, const struct ron_http_head *head,
                            struct ron_str target, char room[EDG_KEY_MAX], struct ron_str *ret_key)
{
    struct ron_str host = {room, 0};

    if (!g->pass_host || g->host.len > 0) { /* The origin is told one host only. */
        *ret_key = target;
        return RON_OK;
    }
    RON_TRY(spell_host(g, head->host, room, &host));
    if (target.len > EDG_KEY_MAX - host.len) {
        return RON_LIMIT;
    }
    memcpy(room + host.len, target.ptr, target.len);
    *ret_key = (struct ron_str){room, host.len + target.len};
    return RON_OK;
}

/* ---- calls to the origin --------------------------------------------------------------------- */

enum ron_rc edg_call_add(struct edg_call *call, const char *name, struct ron_str value)
{
    if (call->count == RON_ARRAY_LEN(call->fields)) {
        return RON_LIMIT;
    }
    call->fields[call->count++] = (struct ron_http_field){ron_str_of(name), value};
    return RON_OK;
}

enum ron_rc edg_call_make(struct edg_gateway *g, enum edg_hop way, struct ron_str target,
                          struct edg_fields request, struct edg_call *ret_call)
{
    struct ron_str host;
    struct ron_buf via;
    int len = snprintf(ret_call->url, sizeof ret_call->url, "%s%.*s", g->origin->url,
                       (int)target.len, target.ptr);

    if (len <= 0 || (size_t)len >= sizeof ret_call->url) {
        return RON_LIMIT;
    }
    RON_TRY(edg_hop_filter(way, request, ret_call->fields, RON_ARRAY_LEN(ret_call->fields),
                           &ret_call->count));
    ron_buf_init_over(&via, ret_call->via, sizeof ret_call->via);
    RON_TRY(edg_hop_via(request, 1, EDG_PSEUDONYM, &via));
    RON_TRY(edg_call_add(ret_call, "Via",
                         (struct ron_str){(const char *)ron_buf_data(&via), ron_buf_len(&via)}));
    RON_TRY(edg_call_add(ret_call, "Surrogate-Capability",
                         ron_str_of(EDG_PSEUDONYM "=\"Surrogate/1.0\"")));
    if (g->pass_host && edg_fields_get(request, "Host", &host) == 1) {
        RON_TRY(spell_host(g, host, ret_call->host, &host));
        RON_TRY(edg_call_add(ret_call, "Host", host));
    }
    return RON_OK;
}

/* ---- targets that are not kept --------------------------------------------------------------- */

/* A slot for each of many targets; two of one slot cost a shared call, never a wrong answer. */
static struct ron_au64 *mark_of(struct edg_gateway *g, struct ron_str target, uint64_t *ret_tag)
{
    uint64_t h = g->seed;

    for (size_t i = 0; i < target.len; i++) {
        h = (h ^ (uint8_t)target.ptr[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    *ret_tag = h >> 32;
    return &g->marks[h % EDG_MARKS];
}

void edg_gateway_mark(struct edg_gateway *g, struct ron_str target)
{
    uint64_t until_s = ron_env_now_ns(g->site->env) / RON_NS_PER_S + EDG_MARK_S;
    uint64_t tag;
    struct ron_au64 *slot = mark_of(g, target, &tag);

    ron_au64_store(slot, tag << 32 | (until_s & UINT32_MAX));
}

static bool is_marked(struct edg_gateway *g, struct ron_str target)
{
    uint64_t tag;
    uint64_t mark = ron_au64_load(mark_of(g, target, &tag));

    return mark >> 32 == tag && (mark & UINT32_MAX) > ron_env_now_ns(g->site->env) / RON_NS_PER_S;
}

/* ---- a request ------------------------------------------------------------------------------- */

/* Conditions or a range that only the origin can judge, since nothing is stored. */
static bool is_own(struct edg_fields request)
{
    static const char *const names[] = {
        "Range",         "If-Range",          "If-Match",
        "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"};

    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        if (edg_fields_has(request, names[i])) {
            return true;
        }
    }
    return false;
}

static void ask_origin(struct edg_gateway *g, struct edg_out *out, struct edg_want *want)
{
    bool head = out->head->method == RON_HTTP_HEAD;

    RON_ASSERT(want->origin == EDG_GATEWAY);
    edg_count_of(g->site, EDG_M_MISSES, want->stale != NULL ? "stale" : "cold", 1);
    want->alone = want->stale == NULL && is_own(want->request);
    if (head || (want->stale == NULL && is_marked(g, want->target))) {
        edg_pass(g, out, want->fwd, want->stale);
    } else {
        edg_fill_wait(g->fills, out, want);
    }
}

void edg_gateway_read(struct edg_gateway *g, struct edg_out *out)
{
    const struct edg_stored *stored = NULL;
    struct edg_want want = {
        .origin = EDG_GATEWAY, .request = edg_fields_of(out->head), .fwd = EDG_FWD_STALE};
    bool others = false;
    char room[EDG_KEY_MAX];
    struct edg_ask ask;
    struct edg_use use;

    RON_ASSERT_MSG(out->head->method == RON_HTTP_GET || out->head->method == RON_HTTP_HEAD,
                   "only GET and HEAD are answered from the store");
    if (edg_gateway_key(g, out->head, out->head->target, room, &want.target) != RON_OK) {
        edg_fail(out, EDG_ERROR_BAD_PATH);
        return;
    }
    if (edg_table_find(g->store->table, EDG_GATEWAY, want.target, want.request, &stored, &others) !=
        RON_OK) {
        stored = NULL;
    }
    edg_ask_read(out->head->method, want.request, &ask);
    edg_use(stored != NULL ? &stored->life : NULL, &ask, ron_env_wall_ms(g->site->env), &use);
    want.stale = stored;
    if (use.verdict == EDG_TIMEOUT_504) {
        edg_stored_unref(stored);
        edg_fail(out, EDG_ERROR_NOT_CACHED);
        return;
    }
    if (stored != NULL && (use.verdict == EDG_FRESH || use.verdict == EDG_STALE_OK)) {
        struct edg_status status = {.has_ttl = true, .ttl_s = use.ttl_s};

        if (use.refresh) {
            edg_fill_behind(g->fills, &want);
        }
        if (edg_serve_stored(g->fills, out, stored, &status)) {
            return;
        }
        want.stale = NULL;
        use.fwd = EDG_FWD_URI_MISS;
    }
    want.fwd = want.stale == NULL && others ? EDG_FWD_VARY_MISS : use.fwd;
    ask_origin(g, out, &want);
    edg_stored_unref(want.stale);
}

/* What the edge serves itself is never the application's. */
static bool is_ours(struct ron_str path)
{
    static const char *const ours[] = {"/edge/", "/cas/"};

    for (size_t i = 0; i < RON_ARRAY_LEN(ours); i++) {
        size_t len = strlen(ours[i]);

        if (path.len >= len && memcmp(path.ptr, ours[i], len) == 0) {
            return true;
        }
    }
    return false;
}

static void on_request(struct ron_http_call *call, void *arg)
{
    struct edg_gateway *g = RON_OBJ(arg, struct edg_gateway, EDG_GATEWAY_MAGIC);
    struct edg_out out = {.site = g->site, .call = call, .head = ron_http_head(call)};

    if (is_ours(out.head->path) ||
        (g->host.len > 0 && !ron_str_equal_nocase(g->host, out.head->host))) {
        edg_fail(&out, EDG_ERROR_NOT_FOUND);
    } else if (!edg_path_stays(out.head->path)) {
        edg_fail(&out, EDG_ERROR_BAD_PATH); /* The prefix is all that is open of the origin. */
    } else if (edg_hop_looped(edg_fields_of(out.head), EDG_PSEUDONYM)) {
        edg_fail(&out, EDG_ERROR_LOOP);
    } else if (out.head->method == RON_HTTP_GET || out.head->method == RON_HTTP_HEAD) {
        edg_gateway_read(g, &out);
    } else {
        edg_pass(g, &out, EDG_FWD_METHOD, NULL);
    }
}

size_t edg_gateway_routes(struct edg_gateway *g, struct ron_http_route *rows, size_t count)
{
    static const enum ron_http_method methods[] = {RON_HTTP_GET,   RON_HTTP_POST,
                                                   RON_HTTP_PUT,   RON_HTTP_DELETE,
                                                   RON_HTTP_PATCH, RON_HTTP_OPTIONS};
    struct ron_conf_str prefix;
    bool all;

    if (g == NULL) {
        return count;
    }
    prefix = ron_conf_str(g->site->conf, EDG_GW_PREFIX);
    all = prefix.len <= 1;
    (void)snprintf(g->below, sizeof g->below, "%s/{path*}", all ? "" : prefix.text);
    (void)snprintf(g->above, sizeof g->above, "%s%s", prefix.text, all ? "" : "/");
    for (size_t i = 0; i < RON_ARRAY_LEN(methods); i++) {
        uint32_t flags = methods[i] == RON_HTTP_GET ? 0 : RON_HTTP_STREAM | RON_HTTP_RAW;

        rows[count++] = (struct ron_http_route){methods[i], g->below, on_request, g, flags, 0};
        rows[count++] = (struct ron_http_route){methods[i], g->above, on_request, g, flags, 0};
        if (!all) {
            rows[count++] =
                (struct ron_http_route){methods[i], prefix.text, on_request, g, flags, 0};
        }
    }
    return count;
}
