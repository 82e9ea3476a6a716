/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/payers.c - makes the clients of the ledger or the wallet, and holds their token. */
#include "rewarder/core/payers.h"

#include <stdio.h>

bool rwd_to_wallet(const struct ron_conf_snap *conf)
{
    return ron_conf_choice(conf, RWD_TARGET) == 1;
}

/* The setting that names the file with our own token. */
static size_t token_key(const struct ron_conf_snap *conf)
{
    return rwd_to_wallet(conf) ? RWD_WALLET_TOKEN : RWD_LEDGER_TOKEN;
}

enum ron_rc rwd_settle_open(struct rwd_settle *x, struct rwd_core *core, struct ron_err *err)
{
    size_t key = token_key(core->conf);

    x->core = core;
    ron_app_tokens_init(&x->token, core->env, rwd_conf_table.keys[key].name);
    return ron_app_tokens_load(&x->token, ron_conf_str(core->conf, key).text, err);
}

void rwd_settle_reload(struct rwd_settle *x, const struct ron_conf_snap *conf)
{
    struct ron_err err = {0};

    if (ron_app_tokens_load(&x->token, ron_conf_str(conf, token_key(conf)).text, &err) != RON_OK) {
        RON_LOG(x->core->log, ERROR, "our own token was not reloaded", RON_LOG_ERR(&err));
    }
}

uint32_t rwd_batch_max(const struct rwd_settle *x)
{
    return x->wallet != NULL ? 1 : (uint32_t)ron_conf_int(x->core->conf, RWD_BATCH);
}

static enum ron_rc make_wallet_client(struct rwd_settle *x, uint32_t inflight_max,
                                      struct ron_err *err)
{
    static const char *const ops[] = {"issue"};
    char host[256];
    const char *hosts[] = {host};
    bool plain = false;
    enum ron_rc rc = ron_http_url_host(ron_conf_str(x->core->conf, RWD_WALLET_URL).text, host,
                                       sizeof host, &plain, err);

    if (rc != RON_OK) {
        ron_err_prefix(err, "upstreams.wallet_url");
        return rc;
    }
    RON_TRY(ron_http_client_new(
        &(struct ron_http_client_opts){.name = "wallet",
                                       .env = x->core->env,
                                       .registry = ron_app_registry(x->core->app),
                                       .worker = 0,
                                       .stage = 6,
                                       .inflight_max = inflight_max},
        &x->http, err));
    RON_TRY(ron_http_client_add(
        x->http,
        &(struct ron_http_target_opts){.name = "wallet",
                                       .hosts = hosts,
                                       .host_count = 1,
                                       .ops = ops,
                                       .op_count = 1,
                                       .inflight_max = inflight_max,
                                       .flags = RON_HTTP_TARGET_LOOPBACK | RON_HTTP_TARGET_PRIVATE |
                                                (plain ? (uint32_t)RON_HTTP_TARGET_PLAIN : 0U)},
        &x->wallet, err));
    RON_TRY(ron_collect_http_client(ron_app_metrics(x->core->app), x->http, err));
    return ron_http_client_attach(x->http, ron_app_sup(x->core->app), err);
}

static enum ron_rc make_ledger_client(struct rwd_settle *x, uint32_t which, uint32_t inflight_max,
                                      struct ron_err *err)
{
    char name[24] = "ledger";

    if (which > 0) {
        (void)snprintf(name, sizeof name, "ledger.%u", which);
    }
    RON_TRY(
        ron_oap_client_new(&(struct ron_oap_client_opts){.name = name,
                                                         .env = x->core->env,
                                                         .registry = ron_app_registry(x->core->app),
                                                         .addr = x->payers.of[which].addr,
                                                         .worker = 0,
                                                         .stage = 6,
                                                         .ua = "ron-rewarder",
                                                         .inflight_max = inflight_max + 8,
                                                         .queue_max = 1024,
                                                         .fail_fast = x->payers.count > 1},
                           &x->ledger[which], err));
    return ron_oap_client_attach(x->ledger[which], ron_app_sup(x->core->app), err);
}

enum ron_rc rwd_settle_connect(struct rwd_settle *x, uint32_t inflight_max, struct ron_err *err)
{
    struct ron_breaker_rules rules = *ron_breaker_preset(RON_BREAKER_DEFAULT);
    bool to_wallet = rwd_to_wallet(x->core->conf);

    rules.probes = 1; /* a settlement has one batch to try with */
    RON_TRY(lc_ledgers_init(
        &x->payers, to_wallet ? "wallet" : ron_conf_str(x->core->conf, RWD_LEDGER_ADDR).text,
        &rules, &x->core->env->clock, err));
    if (to_wallet) {
        return make_wallet_client(x, inflight_max, err);
    }
    for (uint32_t i = 0; i < x->payers.count; i++) {
        RON_TRY(make_ledger_client(x, i, inflight_max, err));
    }
    return RON_OK;
}

void rwd_settle_disconnect(struct rwd_settle *x)
{
    for (uint32_t i = 0; i < x->payers.count; i++) {
        ron_oap_client_free(x->ledger[i]); /* NULL: was not made */
        x->ledger[i] = NULL;
    }
    if (x->http != NULL) {
        RON_IGNORE(ron_http_client_free(x->http));
        x->http = NULL;
    }
    lc_ledgers_done(&x->payers);
}

void rwd_settle_close(struct rwd_settle *x)
{
    ron_app_tokens_done(&x->token);
}
