/* SPDX-License-Identifier: Apache-2.0 */
/* edge/fill/origins.c - the origins of the settings: checked, opened, found by name. */
#include "edge/fill/origins.h"

#include <stdio.h>
#include <string.h>

static enum ron_rc check_one(const struct ron_conf_snap *conf, uint32_t section,
                             struct ron_err *err)
{
    struct ron_conf_str url = ron_conf_str_in(conf, section, EDG_O_URL);
    char host[256];
    bool plain = false;

    RON_TRY(ron_http_url_host(url.text, host, sizeof host, &plain, err));
    if (plain && !ron_conf_bool_in(conf, section, EDG_O_PLAIN)) {
        return ron_err_set(err, RON_INVALID, "http:// needs allow_http = true");
    }
    if (strchr(url.text, '?') != NULL || strchr(url.text, '#') != NULL) {
        return ron_err_set(err, RON_INVALID, "invalid URL: query and fragment are not allowed");
    }
    return RON_OK;
}

enum ron_rc edg_origins_check(const struct ron_conf_snap *conf, struct ron_err *err)
{
    size_t count = ron_conf_section_count(conf, "origins");

    if (count > EDG_ORIGINS_MAX) {
        return ron_err_set(err, RON_LIMIT, "more than %d origins", (int)EDG_ORIGINS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t section = ron_conf_section(conf, "origins", i);

        if (check_one(conf, section, err) != RON_OK) {
            ron_err_prefix(err, "origins.%s.url", ron_conf_section_name(conf, section));
            return RON_INVALID;
        }
    }
    return RON_OK;
}

static uint64_t seconds(const struct ron_conf_snap *conf, uint32_t section, size_t key)
{
    return (uint64_t)ron_conf_ms_in(conf, section, key) / 1000;
}

enum ron_rc edg_origin_target(struct ron_http_client *client, const struct ron_conf_snap *conf,
                              uint32_t section, const struct ron_http_target_opts *like,
                              struct ron_http_target **ret_target, struct ron_err *err)
{
    const char *url = ron_conf_str_in(conf, section, EDG_O_URL).text;
    struct ron_conf_str ca = ron_conf_str_in(conf, section, EDG_O_CA);
    struct ron_http_target_opts opts = *like;
    char host[256];
    const char *hosts[] = {host};
    bool plain = false;

    RON_TRY(ron_http_url_authority(url, host, sizeof host, &plain, err));
    opts.hosts = hosts;
    opts.host_count = 1;
    opts.flags = plain ? RON_HTTP_TARGET_PLAIN : 0;
    if (ron_conf_bool_in(conf, section, EDG_O_PRIVATE)) {
        opts.flags |= RON_HTTP_TARGET_LOOPBACK | RON_HTTP_TARGET_PRIVATE;
    }
    opts.ca_file = ca.len > 0 ? ca.text : NULL;
    return ron_http_client_add(client, &opts, ret_target, err);
}

/* What is different about a ledger. Its tiles are told from each other by their path, so it needs
 * no entity tags; what is not there may be there a moment later. */
static enum ron_rc open_ledger(struct edg_origins *o, const struct ron_env *env,
                               const struct ron_conf_snap *conf, uint32_t section,
                               struct edg_origin *x, struct ron_err *err)
{
    struct ron_conf_str file = ron_conf_str_in(conf, section, EDG_O_TOKEN);

    ron_app_tokens_init(&o->tokens[o->count], env, "token_file");
    if (ron_conf_choice_in(conf, section, EDG_O_KIND) != 1) {
        return RON_OK;
    }
    x->ledger = true;
    x->require_etag = false;
    x->entries = ron_conf_bool_in(conf, section, EDG_O_ENTRIES);
    x->checkpoint_s = seconds(conf, section, EDG_O_CHECKPOINT);
    x->policy.negative_ttl_s = RON_MIN(x->policy.negative_ttl_s, (uint64_t)1);
    if (file.len > 0) {
        RON_TRY(ron_app_tokens_load(&o->tokens[o->count], file.text, err));
        x->token = ron_app_tokens_get(&o->tokens[o->count]);
    }
    return RON_OK;
}

static enum ron_rc open_one(struct edg_origins *o, const struct ron_env *env,
                            const struct ron_conf_snap *conf, uint32_t section, uint64_t object_max,
                            struct ron_err *err)
{
    static const char *const ops[] = {"fill"};
    static const char *const retry_ops[] = {"live_fill"};
    uint32_t total_ms = (uint32_t)ron_conf_ms(conf, EDG_FILL_TIMEOUT);
    struct edg_origin *x = &o->at[o->count];
    struct ron_retry_curve curve = {.tries_max = 1 + (uint32_t)ron_conf_int(conf, EDG_RETRY_MAX),
                                    .first_ms = (uint32_t)ron_conf_ms(conf, EDG_RETRY_BASE),
                                    .factor = 2,
                                    .base_max_ms = (uint32_t)ron_conf_ms(conf, EDG_RETRY_CAP),
                                    .jitter_ms = ron_conf_bool(conf, EDG_RETRY_JITTER)
                                                     ? (uint32_t)ron_conf_ms(conf, EDG_RETRY_BASE)
                                                     : 0};

    x->name = ron_conf_section_name(conf, section);
    x->url = ron_conf_str_in(conf, section, EDG_O_URL).text;
    x->require_etag = ron_conf_bool_in(conf, section, EDG_O_ETAG);
    x->policy = (struct edg_policy){.stale_while_revalidate_s = seconds(conf, section, EDG_O_SWR),
                                    .stale_if_error_s = seconds(conf, section, EDG_O_SIE),
                                    .heuristic_max_s = seconds(conf, section, EDG_O_HEURISTIC),
                                    .negative_ttl_s = seconds(conf, section, EDG_O_NEGATIVE)};
    RON_TRY(open_ledger(o, env, conf, section, x, err));
    RON_TRY(edg_origin_target(
        o->client, conf, section,
        &(struct ron_http_target_opts){.name = x->name,
                                       .ops = ops,
                                       .op_count = 1,
                                       .retry_ops = retry_ops,
                                       .retry = &curve,
                                       .breaker = ron_breaker_preset(RON_BREAKER_DEFAULT),
                                       .inflight_max = 64,
                                       /* So that three tries have room: 1.5 s of 5 s. */
                                       .try_timeout_ms = total_ms * 3 / 10,
                                       .total_timeout_ms = total_ms,
                                       .response_max = object_max,
                                       .redirects_max = 3},
        &x->target, err));
    o->count++;
    return RON_OK;
}

enum ron_rc edg_origins_open(struct edg_origins *o, struct ron_app *app,
                             const struct ron_conf_snap *conf, uint64_t object_max,
                             struct ron_err *err)
{
    size_t count = ron_conf_section_count(conf, "origins");

    if (count == 0) {
        return RON_OK;
    }
    RON_TRY(ron_http_client_new(&(struct ron_http_client_opts){.name = "origins",
                                                               .env = ron_app_env(app),
                                                               .registry = ron_app_registry(app),
                                                               .stage = 3},
                                &o->client, err));
    for (size_t i = 0; i < count; i++) {
        uint32_t section = ron_conf_section(conf, "origins", i);
        enum ron_rc rc = open_one(o, ron_app_env(app), conf, section, object_max, err);

        if (rc != RON_OK) {
            ron_err_prefix(err, "origins.%s", ron_conf_section_name(conf, section));
            return rc;
        }
    }
    RON_TRY(ron_collect_http_client(ron_app_metrics(app), o->client, err));
    return ron_http_client_attach(o->client, ron_app_sup(app), err);
}

void edg_origins_close(struct edg_origins *o)
{
    for (size_t i = 0; i < o->count; i++) {
        ron_app_tokens_done(&o->tokens[i]);
    }
    if (o->client != NULL) {
        (void)ron_http_client_free(o->client);
        o->client = NULL;
    }
}

const struct edg_origin *edg_origins_find(const struct edg_origins *o, struct ron_str name,
                                          uint32_t *ret_index)
{
    for (size_t i = 0; i < o->count; i++) {
        if (ron_str_is(name, o->at[i].name)) {
            *ret_index = (uint32_t)i;
            return &o->at[i];
        }
    }
    return NULL;
}
