/* SPDX-License-Identifier: Apache-2.0 */
/* interop/core/upstream.c - targets of the HTTP client, from the settings. */
#include "interop/core/upstream.h"

#include <stdio.h>
#include <string.h>

#include "interop/conf.h"
#include "interop/mailbox/remote.h"
#include "ron/http/date.h"

enum {
    SERVICE_INFLIGHT = 256,
    ANSWER_MAX = 65536,
    LETTERS_MAX = 32 << 20, /* of one message of 4 MiB, all of it escaped, and more */
};

/* ---- settings -------------------------------------------------------------------------------- */

static enum ron_rc base_url(const char *key, struct ron_conf_str url, struct ron_err *err)
{
    char host[256];
    bool plain = false;

    if (url.len == 0) {
        return RON_OK;
    }
    if (ron_http_url_host(url.text, host, sizeof host, &plain, err) != RON_OK) {
        ron_err_prefix(err, "%s", key);
        return RON_INVALID;
    }
    if (strchr(url.text, '?') != NULL || strchr(url.text, '#') != NULL ||
        url.text[url.len - 1] == '/') {
        return ron_err_set(err, RON_INVALID,
                           "%s: must have no query, no fragment and no trailing /", key);
    }
    return RON_OK;
}

static bool is_forward(const struct ron_conf_snap *conf, uint32_t section)
{
    return ron_conf_choice_in(conf, section, IOP_R_ACTION) == IOP_ACT_FORWARD;
}

static enum ron_rc check_rule(const struct ron_conf_snap *conf, uint32_t section,
                              struct ron_err *err)
{
    struct ron_conf_str url = ron_conf_str_in(conf, section, IOP_R_URL);
    char host[256];
    bool plain = false;

    if (is_forward(conf, section)) {
        RON_TRY(ron_http_url_host(url.text, host, sizeof host, &plain, err));
        if (plain && !ron_conf_bool_in(conf, section, IOP_R_PLAIN)) {
            return ron_err_set(err, RON_INVALID, "url: http:// requires allow_http = true");
        }
    }
    if (ron_conf_choice_in(conf, section, IOP_R_ACTION) == IOP_ACT_WALLET &&
        ron_conf_str(conf, IOP_WALLET_URL).len == 0) {
        return ron_err_set(err, RON_INVALID, "action wallet requires wallet.url");
    }
    return RON_OK;
}

enum ron_rc iop_upstreams_check(const struct ron_conf_snap *conf, struct ron_err *err)
{
    size_t count = ron_conf_section_count(conf, "rules");

    RON_TRY(base_url("wallet.url", ron_conf_str(conf, IOP_WALLET_URL), err));
    RON_TRY(base_url("passport.url", ron_conf_str(conf, IOP_PASSPORT_URL), err));
    RON_TRY(base_url("mailbox.url", ron_conf_str(conf, IOP_MAILBOX_URL), err));
    RON_TRY(base_url("storage.url", ron_conf_str(conf, IOP_STORAGE_URL), err));
    if (ron_conf_str(conf, IOP_WALLET_URL).len > 0 &&
        ron_conf_str(conf, IOP_WALLET_TOKEN).len == 0 &&
        ron_conf_str(conf, IOP_PASSPORT_URL).len == 0) {
        return ron_err_set(err, RON_INVALID,
                           "wallet.url requires wallet.token_file or passport.url");
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t section = ron_conf_section(conf, "rules", i);

        if (check_rule(conf, section, err) != RON_OK) {
            ron_err_prefix(err, "rules.%s", ron_conf_section_name(conf, section));
            return RON_INVALID;
        }
    }
    return RON_OK;
}

/* ---- targets --------------------------------------------------------------------------------- */

/* One of ours, named by the operator: it may stand on this host or in its network. */
struct service {
    const char *name;
    const char *url;
    const char *const *ops;
    size_t op_count;
    uint32_t total_ms; /* 0: timeouts.rpc */
    uint64_t response_max;
};

static enum ron_rc add_service(struct iop_upstreams *u, const struct ron_conf_snap *conf,
                               const struct service *service, struct ron_http_target **ret,
                               struct ron_err *err)
{
    uint32_t try_ms = (uint32_t)ron_conf_ms(conf, IOP_RPC_TIMEOUT);
    char host[256];
    const char *hosts[] = {host};
    bool plain = false;

    if (service->url[0] == '\0') {
        return RON_OK;
    }
    RON_TRY(ron_http_url_host(service->url, host, sizeof host, &plain, err));
    return ron_http_client_add(
        u->client,
        &(struct ron_http_target_opts){
            .name = service->name,
            .hosts = hosts,
            .host_count = 1,
            .ops = service->ops,
            .op_count = service->op_count,
            .flags = RON_HTTP_TARGET_LOOPBACK | RON_HTTP_TARGET_PRIVATE |
                     RON_HTTP_TARGET_SEND_DEADLINE | (plain ? RON_HTTP_TARGET_PLAIN : 0),
            .retry = ron_retry_curve(RON_RETRY_INTEROP),
            .breaker = ron_breaker_preset(RON_BREAKER_DEFAULT),
            .inflight_max = SERVICE_INFLIGHT,
            .try_timeout_ms = try_ms,
            .total_timeout_ms = service->total_ms != 0 ? service->total_ms : try_ms,
            .response_max = service->response_max},
        ret, err);
}

static const struct iop_place *find_place(const struct iop_upstreams *u, const char *host,
                                          bool plain)
{
    for (size_t i = 0; i < u->place_count; i++) {
        if (strcmp(u->places[i].host, host) == 0 && u->places[i].plain == plain) {
            return &u->places[i];
        }
    }
    return NULL;
}

/* One try: the journal has a schedule of its own. */
static enum ron_rc add_target(struct iop_upstreams *u, const struct ron_conf_snap *conf,
                              struct iop_place *p, bool inside, struct ron_http_target **ret,
                              struct ron_err *err)
{
    static const char *const ops[] = {"forward"};
    uint32_t timeout_ms = (uint32_t)ron_conf_ms(conf, IOP_FORWARD_TIMEOUT);
    const char *hosts[] = {p->host};
    char *name = p->names[inside];

    (void)snprintf(name, sizeof p->names[0], inside ? "forward.%zu.private" : "forward.%zu",
                   u->place_count);
    return ron_http_client_add(
        u->client,
        &(struct ron_http_target_opts){
            .name = name,
            .hosts = hosts,
            .host_count = 1,
            .ops = ops,
            .op_count = 1,
            .flags = (p->plain ? RON_HTTP_TARGET_PLAIN : 0) |
                     (inside ? RON_HTTP_TARGET_LOOPBACK | RON_HTTP_TARGET_PRIVATE : 0),
            .breaker = ron_breaker_preset(RON_BREAKER_DEFAULT),
            .inflight_max = 64,
            .try_timeout_ms = timeout_ms,
            .total_timeout_ms = timeout_ms,
            .response_max = 65536},
        ret, err);
}

/* A place of the outside. */
static enum ron_rc add_place(struct iop_upstreams *u, const struct ron_conf_snap *conf,
                             uint32_t section, struct ron_err *err)
{
    struct iop_place *p = &u->places[u->place_count];
    char host[sizeof p->host];
    bool plain = false;

    RON_TRY(ron_http_url_host(ron_conf_str_in(conf, section, IOP_R_URL).text, host, sizeof host,
                              &plain, err));
    if (find_place(u, host, plain) != NULL) {
        return RON_OK;
    }
    if (u->place_count == IOP_FORWARD_HOSTS_MAX) {
        return ron_err_set(err, RON_LIMIT, "rules: too many forward hosts (limit %d)",
                           (int)IOP_FORWARD_HOSTS_MAX);
    }
    memcpy(p->host, host, sizeof host);
    p->plain = plain;
    RON_TRY(add_target(u, conf, p, false, &p->outside, err));
    RON_TRY(add_target(u, conf, p, true, &p->inside, err));
    u->place_count++;
    return RON_OK;
}

static enum ron_rc add_places(struct iop_upstreams *u, const struct ron_conf_snap *conf,
                              struct ron_err *err)
{
    size_t count = ron_conf_section_count(conf, "rules");

    for (size_t i = 0; i < count; i++) {
        uint32_t section = ron_conf_section(conf, "rules", i);

        if (!is_forward(conf, section)) {
            continue;
        }
        RON_TRY(add_place(u, conf, section, err));
    }
    return RON_OK;
}

enum ron_rc iop_upstreams_open(struct iop_upstreams *u, struct ron_app *app,
                               const struct ron_conf_snap *conf, struct ron_err *err)
{
    static const char *const wallet_ops[] = {"issue", "transfer"};
    static const char *const passport_ops[] = {"issue"};
    static const char *const storage_ops[] = {"put", "get", "head"};
    const struct {
        struct service service;
        struct ron_http_target **ret;
    } rows[] = {
        {{"wallet", ron_conf_str(conf, IOP_WALLET_URL).text, wallet_ops, 2, 0, ANSWER_MAX},
         &u->wallet},
        {{"passport", ron_conf_str(conf, IOP_PASSPORT_URL).text, passport_ops, 1, 0, ANSWER_MAX},
         &u->passport},
        {{"mailbox", ron_conf_str(conf, IOP_MAILBOX_URL).text, iop_box_http_ops, IOP_OP_COUNT, 0,
          LETTERS_MAX},
         &u->mailbox},
        {{"storage", ron_conf_str(conf, IOP_STORAGE_URL).text, storage_ops, 3,
          (uint32_t)ron_conf_ms(conf, IOP_STORAGE_TIMEOUT),
          (uint64_t)ron_conf_bytes(conf, IOP_OBJECT_MAX)},
         &u->storage},
    };

    RON_TRY(ron_http_client_new(&(struct ron_http_client_opts){.name = "upstreams",
                                                               .env = ron_app_env(app),
                                                               .registry = ron_app_registry(app),
                                                               .stage = 3},
                                &u->client, err));
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        RON_TRY(add_service(u, conf, &rows[i].service, rows[i].ret, err));
    }
    RON_TRY(add_places(u, conf, err));
    RON_TRY(ron_collect_http_client(ron_app_metrics(app), u->client, err));
    return ron_http_client_attach(u->client, ron_app_sup(app), err);
}

void iop_upstreams_close(struct iop_upstreams *u)
{
    if (u->client != NULL) {
        (void)ron_http_client_free(u->client);
        u->client = NULL;
    }
}

struct ron_http_target *iop_upstreams_forward(const struct iop_upstreams *u,
                                              const struct ron_conf_snap *conf, uint32_t section)
{
    const struct iop_place *p;
    char host[256];
    bool plain = false;

    if (ron_http_url_host(ron_conf_str_in(conf, section, IOP_R_URL).text, host, sizeof host, &plain,
                          NULL) != RON_OK) {
        return NULL;
    }
    p = find_place(u, host, plain);
    if (p == NULL) {
        return NULL;
    }
    return ron_conf_bool_in(conf, section, IOP_R_PRIVATE) ? p->inside : p->outside;
}

enum ron_rc iop_upstreams_cover(const struct iop_upstreams *u, const struct ron_conf_snap *conf,
                                struct ron_err *err)
{
    size_t count = ron_conf_section_count(conf, "rules");

    for (size_t i = 0; i < count; i++) {
        uint32_t section = ron_conf_section(conf, "rules", i);

        if (is_forward(conf, section) && iop_upstreams_forward(u, conf, section) == NULL) {
            return ron_err_set(err, RON_INVALID, "rules.%s.url: a new host requires a restart",
                               ron_conf_section_name(conf, section));
        }
    }
    return RON_OK;
}

uint64_t iop_retry_after_ms(const struct ron_http_fetch *f, uint64_t now_wall_ms)
{
    struct ron_str value;
    uint64_t n = 0;

    if (ron_http_fetch_header_get(f, "Retry-After", &value) != RON_OK) {
        return 0;
    }
    if (ron_http_parse_u64(value, &n) == RON_OK) {
        return n < UINT64_MAX / 1000 ? n * 1000 : UINT64_MAX;
    }
    if (ron_http_date_parse(value, now_wall_ms / 1000, &n) == RON_OK && n * 1000 > now_wall_ms) {
        return n * 1000 - now_wall_ms;
    }
    return 0;
}
