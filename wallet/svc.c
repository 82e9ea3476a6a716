/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/svc.c - `ron wallet`: from settings to running tasks, and back.
 *
 * Place: service. Build order: keys and token, tables, channel, tasks, routes. Taken down in
 * reverse after everything has stopped. */
#include <string.h>

#include "ron/base/alloc.h"
#include "wallet/core/metrics.h"
#include "wallet/front/front.h"
#include "wallet/task/worker.h"
#include "wallet/wallet.h"

struct wlt_svc {
    struct wlt_site site;
    struct wlt_core tables;
    struct wlt_ledger ledger;
    struct wlt_pipes pipes;
    struct wlt_workers workers;
    struct wlt_follow *follow;
    struct wlt_reads reads;
    struct wlt_front front;
};

static const struct ron_conf_key keys[] = {WLT_CONF(RON_CONF_ROW)};

/* ---- settings -------------------------------------------------------------------------------- */

static enum ron_rc money_of(const struct ron_conf_snap *conf, size_t key, struct ron_money *ret,
                            struct ron_err *err)
{
    struct ron_conf_str text = ron_conf_str(conf, key);
    struct ron_err why = {0};

    if (ron_money_parse(text.text, text.len, ret, &why) != RON_OK) {
        return ron_err_set(err, RON_INVALID, "%s: invalid amount '%s'; expected minor units",
                           keys[key].name, text.text);
    }
    return RON_OK;
}

static enum ron_rc check_settings(const struct ron_conf_snap *conf, struct ron_err *err)
{
    static const size_t required[] = {WLT_KEY_FILE, WLT_LEDGER_ADDR, WLT_LEDGER_TOKEN};
    struct ron_money one;
    struct ron_money day;
    struct ron_money total;

    for (size_t i = 0; i < RON_ARRAY_LEN(required); i++) {
        if (ron_conf_str(conf, required[i]).len == 0) {
            return ron_err_set(err, RON_INVALID, "%s must be set", keys[required[i]].name);
        }
    }
    RON_TRY(money_of(conf, WLT_AMOUNT_MAX, &one, err));
    RON_TRY(money_of(conf, WLT_DAILY_MAX, &day, err));
    RON_TRY(money_of(conf, WLT_TOTAL_MAX, &total, err));
    if (ron_money_is_zero(one)) {
        return ron_err_set(err, RON_INVALID, "wallet.max_amount_per_op must be greater than 0");
    }
    if (!ron_money_is_zero(day) && ron_money_cmp(day, one) < 0) {
        return ron_err_set(err, RON_INVALID,
                           "wallet.daily_ceiling must be at least wallet.max_amount_per_op");
    }
    if (ron_money_cmp(total, day) < 0) {
        return ron_err_set(err, RON_INVALID,
                           "wallet.max_account_total must be at least wallet.daily_ceiling");
    }
    return RON_OK;
}

const struct ron_conf_table wlt_conf_table = {
    .service = "wallet", .keys = keys, .key_count = WLT_CONF_COUNT, .check = check_settings};

/* ---- keys and token -------------------------------------------------------------------------- */

static enum ron_rc open_keys(struct wlt_svc *s, struct ron_err *err)
{
    struct wlt_site *site = &s->site;

    RON_TRY(ron_app_auth_new(site->app, ron_conf_str(site->conf, WLT_KEY_FILE).text, "wallet",
                             &site->auth, err));
    ron_app_tokens_init(&s->ledger.token, site->env, "upstreams.ledger_token_file");
    return ron_app_tokens_load(&s->ledger.token, ron_conf_str(site->conf, WLT_LEDGER_TOKEN).text,
                               err);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void read_rules(struct wlt_front *f, const struct ron_conf_snap *conf)
{
    struct ron_conf_list list = ron_conf_list(conf, WLT_ASSETS);
    struct ron_err err = {0};

    RON_IGNORE(money_of(conf, WLT_AMOUNT_MAX, &f->rules.amount_max, &err)); /* was checked */
    for (size_t i = 0; i < list.count; i++) {
        f->assets[i] = (struct ron_str){list.items[i].text, list.items[i].len};
    }
    f->rules.assets = f->assets;
    f->rules.asset_count = list.count;
}

/* Half of the ceiling, if the other half has room for 2^32 of the largest credits; else 0. */
static struct ron_money far_below(struct ron_money total_max, struct ron_money amount_max)
{
    struct ron_money half = {.v = total_max.v >> 1};

    return half.v >> 32 >= amount_max.v ? half : RON_MONEY_ZERO;
}

static enum ron_rc make_tables(struct wlt_svc *s, struct ron_err *err)
{
    const struct ron_conf_snap *c = s->site.conf;
    const struct ron_env *env = s->site.env;
    struct wlt_core *core = &s->tables;
    uint32_t shards = (uint32_t)ron_conf_int(c, WLT_SHARDS);
    uint32_t accounts = (uint32_t)ron_conf_int(c, WLT_ACCOUNTS);
    struct ron_breaker_rules rules = *ron_breaker_preset(RON_BREAKER_WALLET);

    core->env = env;
    for (size_t i = 0; i < sizeof core->secret.bytes; i += sizeof(uint64_t)) {
        uint64_t random = env->rand_u64(env);

        memcpy(core->secret.bytes + i, &random, sizeof random);
    }
    RON_IGNORE(money_of(c, WLT_DAILY_MAX, &core->daily_ceiling, err));
    RON_IGNORE(money_of(c, WLT_TOTAL_MAX, &core->total_max, err));
    core->total_far = far_below(core->total_max, s->front.rules.amount_max);
    if (ron_money_is_zero(core->daily_ceiling)) {
        core->daily_ceiling = RON_MONEY_MAX;
    }
    core->rpc_ms = (uint32_t)ron_conf_ms(c, WLT_RPC);
    core->curve = *ron_retry_curve(RON_RETRY_WALLET);
    core->curve.tries_max = (uint32_t)ron_conf_int(c, WLT_RETRY_TRIES);
    core->curve.first_ms = (uint32_t)ron_conf_ms(c, WLT_RETRY_BASE);
    core->curve.base_max_ms = (uint32_t)ron_conf_ms(c, WLT_RETRY_MAX);
    core->curve.factor = (uint32_t)ron_conf_int(c, WLT_RETRY_FACTOR);
    core->curve.jitter_ms = (uint32_t)ron_conf_ms(c, WLT_RETRY_JITTER);
    rules.count_max = (uint32_t)ron_conf_int(c, WLT_CB_FAILS);
    rules.open_ms = (uint32_t)ron_conf_ms(c, WLT_CB_OPEN);
    rules.probes = (uint32_t)ron_conf_int(c, WLT_CB_HALF);
    RON_TRY(lc_ledgers_init(&s->ledger.all, ron_conf_str(c, WLT_LEDGER_ADDR).text, &rules,
                            &env->clock, err));
    core->ledgers = &s->ledger.all;
    RON_TRY(wlt_nonces_new(shards, accounts, &core->nonces, err));
    RON_TRY(wlt_daily_new(shards, accounts, &core->daily, err));
    RON_TRY(wlt_cache_new(shards, accounts, &core->cache, err));
    return wlt_idem_new(
        &(struct wlt_idem_opts){.shards = shards,
                                .bytes_max = (uint64_t)ron_conf_bytes(c, WLT_IDEM_BYTES),
                                .pending_max = (uint32_t)(ron_conf_int(c, RON_APP_INFLIGHT) +
                                                          ron_conf_int(c, WLT_Q_WORK)),
                                .ttl_ms = (uint64_t)ron_conf_ms(c, WLT_IDEM_TTL)},
        &core->idem, err);
}

static enum ron_rc add_ledger_need(struct wlt_svc *s, struct ron_err *err)
{
    struct ron_needs *needs = ron_app_needs(s->site.app);

    RON_TRY(ron_needs_add(needs, "ledger", false, &s->ledger.need, err));
    ron_need_set(s->ledger.need, RON_NEED_MISSING, "no answer from the ledger yet", 1);
    return RON_OK;
}

/* ---- build, reload, take down ---------------------------------------------------------------- */

/* Names the parts to each other, and what they take from the settings. */
static void join_parts(struct wlt_svc *s, struct ron_app *app)
{
    s->site = (struct wlt_site){.magic = WLT_SITE_MAGIC,
                                .cpus = ron_exec_workers(ron_app_exec(app)),
                                .app = app,
                                .env = ron_app_env(app),
                                .conf = ron_app_conf(app),
                                .log = ron_app_log(app)};
    s->site.amnesia = ron_conf_bool(s->site.conf, RON_APP_AMNESIA);
    s->workers.site = s->reads.site = s->front.site = &s->site;
    s->workers.core = s->reads.core = s->front.core = &s->tables;
    s->workers.ledger = s->reads.ledger = &s->ledger;
    s->workers.pipes = s->front.pipes = &s->pipes;
    s->front.reads = &s->reads;
    s->front.magic = WLT_FRONT_MAGIC;
    s->front.staleness_ms = (uint64_t)ron_conf_ms(s->site.conf, WLT_STALENESS);
    wlt_reads_init(&s->reads);
    read_rules(&s->front, s->site.conf);
}

static enum ron_rc build(struct ron_app *app, struct ron_err *err)
{
    struct wlt_svc *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the wallet");
    }
    ron_app_set_state(app, s);
    join_parts(s, app);
    RON_TRY(open_keys(s, err));
    RON_TRY(make_tables(s, err));
    RON_TRY(wlt_metrics_new(&s->site, &s->tables, err));
    RON_TRY(add_ledger_need(s, err));
    RON_TRY(wlt_pipes_new(&s->pipes, &s->site, err));
    RON_TRY(wlt_events_add(&s->site, err));
    RON_TRY(wlt_workers_add(&s->workers, err));
    RON_TRY(wlt_follow_add(&s->site, &s->tables, &s->ledger, &s->follow, err));
    RON_TRY(wlt_ticker_add(&s->pipes, err));
    s->front.follow = s->follow;
    wlt_routes_fill(&s->front);
    return RON_OK;
}

/* Key file, token and what may change of the settings. A mistake leaves the old in force. */
static void reloaded(struct ron_app *app)
{
    struct wlt_svc *s = ron_app_state(app);
    struct ron_conf_snap *conf = ron_conf_box_get(ron_app_conf_box(app));
    struct ron_err err = {0};

    ron_app_auth_reload(s->site.auth, ron_conf_str(conf, WLT_KEY_FILE).text);
    if (ron_app_tokens_load(&s->ledger.token, ron_conf_str(conf, WLT_LEDGER_TOKEN).text, &err) !=
        RON_OK) {
        RON_LOG(s->site.log, ERROR, "ledger token reload failed; keeping the previous token",
                RON_LOG_ERR(&err));
    }
    wlt_idem_set_ttl(s->tables.idem, (uint64_t)ron_conf_ms(conf, WLT_IDEM_TTL));
    ron_conf_unref(conf);
}

static void take_down(struct ron_app *app)
{
    struct wlt_svc *s = ron_app_state(app);

    if (s == NULL) {
        return;
    }
    wlt_pipes_close(&s->pipes);
    wlt_workers_free(&s->workers); /* ends the calls under way, whose clients it frees */
    wlt_follow_free(s->follow);
    wlt_events_free(&s->site);
    wlt_pipes_done(&s->pipes);
    wlt_reads_done(&s->reads);
    wlt_idem_free(s->tables.idem);
    wlt_cache_free(s->tables.cache);
    wlt_daily_free(s->tables.daily);
    wlt_nonces_free(s->tables.nonces);
    lc_ledgers_done(&s->ledger.all);
    ron_app_auth_free(s->site.auth);
    ron_app_tokens_done(&s->ledger.token);
    wlt_metrics_free(&s->site);
    ron_free(s);
}

const struct ron_app_def wlt_app = {
    .conf = &wlt_conf_table,
    .summary =
        "svc-wallet: HTTP front door of the ledger. Issue, transfer, burn and hold; the ledger\n"
        "commits each write once, and the wallet answers with a receipt.",
    .build = build,
    .reloaded = reloaded,
    .take_down = take_down,
};
