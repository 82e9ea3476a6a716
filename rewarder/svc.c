/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/svc.c - `ron rewarder`: from settings to running tasks, and back.
 *
 * The only file that sees all rooms. Build order: core, token, store, channels, tasks, routes. They
 * are taken down in reverse order after every task has stopped. */
#include "rewarder/front/front.h"
#include "rewarder/rewarder.h"
#include "rewarder/stage/stage.h"
#include "ron/base/alloc.h"

struct rwd_svc {
    struct rwd_core core;
    struct rwd_store store;
    struct rwd_pipes pipes;
    struct rwd_settle settle;
    struct rwd_health *health;
    struct rwd_sched *sched;
    struct rwd_workers *workers;
    struct rwd_writer *writer;
    struct rwd_emitter *emitter;
    struct rwd_uploads *uploads;
    struct rwd_readers *readers;
    struct rwd_front *front;
};

static const struct ron_conf_key keys[] = {RWD_CONF(RON_CONF_ROW)};

/* ---- settings -------------------------------------------------------------------------------- */

static enum ron_rc check_settings(const struct ron_conf_snap *conf, struct ron_err *err)
{
    static const size_t of_ledger[] = {RWD_KEY_FILE, RWD_LEDGER_ADDR, RWD_LEDGER_TOKEN};
    static const size_t of_wallet[] = {RWD_KEY_FILE, RWD_WALLET_URL, RWD_WALLET_TOKEN};
    const size_t *required = rwd_to_wallet(conf) ? of_wallet : of_ledger;
    struct ron_conf_list list = ron_conf_list(conf, RWD_POLICY_KEYS);
    struct rwd_policy_key key;

    for (size_t i = 0; i < RON_ARRAY_LEN(of_ledger); i++) {
        if (ron_conf_str(conf, required[i]).len == 0) {
            return ron_err_set(err, RON_INVALID, "%s must be set", keys[required[i]].name);
        }
    }
    for (size_t i = 0; i < list.count; i++) {
        RON_TRY(rwd_policy_key_parse(&list.items[i], &key, err));
    }
    if (!ron_conf_bool(conf, RON_APP_AMNESIA) && ron_conf_str(conf, RWD_DIR).len == 0) {
        return ron_err_set(err, RON_INVALID, "rewarder.dir must be set");
    }
    if (ron_conf_bool(conf, RON_APP_AMNESIA) && ron_conf_secret(conf, RWD_BOOK_DSN).len != 0) {
        return ron_err_set(err, RON_INVALID, "amnesia leaves no trace: unset book.dsn");
    }
    if (ron_conf_bool(conf, RON_APP_AMNESIA) && ron_conf_str(conf, RWD_ARTIFACT_DIR).len != 0) {
        return ron_err_set(err, RON_INVALID,
                           "rewarder.artifact_dir is a disk, which amnesia.enabled forbids");
    }
    return RON_OK;
}

const struct ron_conf_table rwd_conf_table = {
    .service = "rewarder", .keys = keys, .key_count = RWD_CONF_COUNT, .check = check_settings};

/* ---- build, reload, take down ---------------------------------------------------------------- */

/* A collector may read every room, so it is here and not in core/metrics.c. */
static void collect(struct ron_scrape *scrape, void *arg)
{
    const struct rwd_svc *s = arg;
    struct ron_metrics *all = ron_scrape_metrics(scrape);
    struct ron_breaker_stats b;

    if (s->settle.payers.count > 0) {
        lc_ledgers_stats(&s->settle.payers, &b);
        ron_scrape_add(scrape, ron_metrics_name(all, RON_M_BREAKER_STATE), (uint64_t)b.state,
                       "ledger");
        ron_scrape_add(scrape, ron_metrics_name(all, RON_M_UPSTREAM_FAIL), b.upstream_fail_total,
                       "ledger");
    }
}

static enum ron_rc build(struct ron_app *app, struct ron_err *err)
{
    struct rwd_svc *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the rewarder");
    }
    ron_app_set_state(app, s);
    RON_TRY(rwd_core_open(&s->core, app, err));
    RON_TRY(ron_metrics_collector(ron_app_metrics(app), collect, s, err));
    RON_TRY(rwd_settle_open(&s->settle, &s->core, err));
    RON_TRY(rwd_store_open(&s->store, &s->core, err));
    RON_TRY(rwd_pipes_open(&s->pipes, &s->core, &s->store, err));
    RON_TRY(rwd_events_new(&s->core, err)); /* before the tasks, which all use it */
    RON_TRY(rwd_health_add(&s->pipes, &s->settle, &s->health, err));
    RON_TRY(rwd_sched_add(&s->pipes, &s->sched, err));
    RON_TRY(rwd_workers_add(&s->pipes, &s->workers, err));
    RON_TRY(rwd_writer_add(&s->pipes, &s->writer, err));
    RON_TRY(rwd_emitter_add(&s->pipes, &s->settle, &s->emitter, err));
    RON_TRY(rwd_uploads_add(&s->pipes, &s->uploads, err));
    RON_TRY(rwd_readers_add(&s->pipes, &s->settle, &s->readers, err));
    return rwd_front_add(&s->pipes, &s->front, err);
}

/* Key file, token, policies. A mistake leaves the old in force. */
static void reloaded(struct ron_app *app)
{
    struct rwd_svc *s = ron_app_state(app);
    struct ron_conf_snap *conf = ron_conf_box_get(ron_app_conf_box(app));

    ron_app_auth_reload(s->core.auth, ron_conf_str(conf, RWD_KEY_FILE).text);
    rwd_settle_reload(&s->settle, conf);
    rwd_policies_load(&s->store);
    ron_conf_unref(conf);
    rwd_emitter_remind(&s->pipes, "");
}

/* Nobody can scrape a count that is made at the very end, so the log has it. */
static int finish(struct ron_app *app, int code)
{
    struct rwd_svc *s = ron_app_state(app);
    void *items[16];
    size_t count = 0;

    while (ron_chan_try_recv_many(s->pipes.results, items, RON_ARRAY_LEN(items), &count) ==
           RON_OK) {
        for (size_t i = 0; i < count; i++) {
            rwd_outcome_drop(&s->pipes, items[i]);
        }
    }
    if (ron_au32_load(&s->pipes.dropped) > 0) {
        RON_LOG(s->core.log, WARN,
                "results were left unwritten; the next start computes them again",
                RON_LOG_U64("dropped_results_total", ron_au32_load(&s->pipes.dropped)));
    }
    return code;
}

static void take_down(struct ron_app *app)
{
    struct rwd_svc *s = ron_app_state(app);

    if (s == NULL) {
        return;
    }
    rwd_pipes_close(&s->pipes);
    rwd_settle_disconnect(&s->settle);
    rwd_emitter_free(s->emitter);
    void *const stages[] = {s->health,  s->sched,   s->workers, s->writer,
                            s->uploads, s->readers, s->front};

    for (size_t i = 0; i < RON_ARRAY_LEN(stages); i++) {
        ron_free(stages[i]);
    }
    rwd_store_close(&s->store);
    rwd_settle_close(&s->settle);
    rwd_core_close(&s->core);
    ron_free(s);
}

const struct ron_app_def rwd_app = {
    .conf = &rwd_conf_table,
    .summary =
        "svc-rewarder: epoch payouts that anyone can recompute. Computes them from a sealed\n"
        "snapshot and a signed policy, publishes the proof, and settles them once at ron-ledger.",
    .build = build,
    .reloaded = reloaded,
    .finish = finish,
    .take_down = take_down,
};
