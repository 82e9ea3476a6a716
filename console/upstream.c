/* SPDX-License-Identifier: Apache-2.0 */
/* console/upstream.c - the services that the console speaks with: addresses, tokens, one HTTP
 * client.
 *
 * Place: console. A target has no breaker: the console must see at once that a service is back,
 * and a call to one that is down ends at once or at console.call_timeout. */
#include <stdio.h>
#include <string.h>

#include "console/svc.h"

static const size_t url_keys[CON_SERVICE_COUNT] = {
#define X(name, text) [CON_##name] = CON_URL_##name,
    CON_SERVICES(X)
#undef X
};
static const size_t token_keys[CON_SERVICE_COUNT] = {
#define X(name, text) [CON_##name] = CON_TOKEN_##name,
    CON_SERVICES(X)
#undef X
};
static const char *const names[CON_SERVICE_COUNT] = {
#define X(name, text) [CON_##name] = text,
    CON_SERVICES(X)
#undef X
};
static const char *const token_names[CON_SERVICE_COUNT] = {
#define X(name, text) [CON_##name] = "services." text ".token_file",
    CON_SERVICES(X)
#undef X
};

const char *con_service_name(enum con_service svc)
{
    return names[svc];
}

enum ron_rc con_upstreams_check(const struct ron_conf_snap *conf, struct ron_err *err)
{
    for (size_t i = 0; i < CON_SERVICE_COUNT; i++) {
        struct ron_conf_str url = ron_conf_str(conf, url_keys[i]);
        char host[256];
        bool plain = false;
        enum ron_rc rc;

        if (url.len == 0) {
            continue;
        }
        rc = ron_http_url_host(url.text, host, sizeof host, &plain, err);
        if (rc == RON_OK && (strpbrk(url.text, "?#") != NULL || url.text[url.len - 1] == '/')) {
            rc = ron_err_set(err, RON_INVALID, "a base URL has no query, fragment or final slash");
        }
        if (rc != RON_OK) {
            ron_err_prefix(err, "services.%s.url", names[i]);
            return RON_INVALID;
        }
    }
    return RON_OK;
}

static enum ron_rc open_one(struct con_svc *s, enum con_service svc, struct ron_err *err)
{
    static const char *const ops[] = {"poll", "pass"};
    struct con_upstream *u = &s->up[svc];
    uint32_t timeout_ms = (uint32_t)ron_conf_ms(s->conf, CON_CALL_TIMEOUT);
    struct ron_conf_str url = ron_conf_str(s->conf, url_keys[svc]);
    char host[256];
    const char *hosts[] = {host};
    bool plain = false;

    if (url.len == 0) {
        return RON_OK;
    }
    RON_TRY(ron_http_url_host(url.text, host, sizeof host, &plain, err));
    RON_TRY(
        ron_http_client_add(s->client,
                            &(struct ron_http_target_opts){
                                .name = names[svc],
                                .hosts = hosts,
                                .host_count = 1,
                                .ops = ops,
                                .op_count = RON_ARRAY_LEN(ops),
                                .flags = RON_HTTP_TARGET_LOOPBACK | RON_HTTP_TARGET_PRIVATE |
                                         (plain ? RON_HTTP_TARGET_PLAIN : 0),
                                .inflight_max = 64,
                                .try_timeout_ms = timeout_ms,
                                .total_timeout_ms = timeout_ms,
                                .response_max = (uint64_t)ron_conf_bytes(s->conf, CON_ANSWER_MAX)},
                            &u->target, err));
    u->url = url.text;
    return RON_OK;
}

static enum ron_rc open_tokens(struct con_svc *s, enum con_service svc, struct ron_err *err)
{
    struct con_upstream *u = &s->up[svc];
    struct ron_conf_str path = ron_conf_str(s->conf, token_keys[svc]);
    struct ron_conf_str write = ron_conf_str(s->conf, CON_WRITE_WALLET);

    ron_app_tokens_init(&u->token, s->env, token_names[svc]);
    ron_app_tokens_init(&u->write_token, s->env, "services.wallet.write_token_file");
    if (path.len > 0) {
        RON_TRY(ron_app_tokens_load(&u->token, path.text, err));
        u->has_token = true;
    }
    if (svc == CON_WALLET && write.len > 0) {
        RON_TRY(ron_app_tokens_load(&u->write_token, write.text, err));
        u->has_write_token = true;
    }
    return RON_OK;
}

enum ron_rc con_upstreams_open(struct con_svc *s, struct ron_err *err)
{
    RON_TRY(ron_http_client_new(
        &(struct ron_http_client_opts){
            .name = "upstream", .env = s->env, .registry = ron_app_registry(s->app), .stage = 3},
        &s->client, err));
    for (int i = 0; i < CON_SERVICE_COUNT; i++) {
        ron_buf_init(&s->up[i].topology.body, CON_TOPOLOGY_MAX);
        RON_TRY(open_tokens(s, (enum con_service)i, err));
        RON_TRY(open_one(s, (enum con_service)i, err));
    }
    return ron_collect_http_client(ron_app_metrics(s->app), s->client, err);
}

enum ron_rc con_upstreams_attach(struct con_svc *s, struct ron_err *err)
{
    return ron_http_client_attach(s->client, ron_app_sup(s->app), err);
}

static void reload_one(struct con_svc *s, struct ron_app_tokens *box, const char *path)
{
    struct ron_err err = {0};

    if (ron_app_tokens_load(box, path, &err) != RON_OK) {
        RON_LOG(s->log, ERROR, "a token was not reloaded", RON_LOG_ERR(&err));
    }
}

void con_upstreams_reload(struct con_svc *s, const struct ron_conf_snap *conf)
{
    for (int i = 0; i < CON_SERVICE_COUNT; i++) {
        struct con_upstream *u = &s->up[i];

        if (u->has_token) {
            reload_one(s, &u->token, ron_conf_str(conf, token_keys[i]).text);
        }
        if (u->has_write_token) {
            reload_one(s, &u->write_token, ron_conf_str(conf, CON_WRITE_WALLET).text);
        }
    }
}

void con_upstreams_close(struct con_svc *s)
{
    if (s->client != NULL) {
        (void)ron_http_client_free(s->client);
        s->client = NULL;
    }
    for (int i = 0; i < CON_SERVICE_COUNT; i++) {
        ron_app_tokens_done(&s->up[i].token);
        ron_app_tokens_done(&s->up[i].write_token);
        ron_buf_done(&s->up[i].topology.body);
    }
}
