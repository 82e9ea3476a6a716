/* SPDX-License-Identifier: Apache-2.0 */
/* interop/svc.c - `ron interop`: from settings to running tasks, and back.
 *
 * Place: service. Build order: keys, stores, metrics, policy, channels, tasks, routes. Taken down
 * in reverse after everything has stopped. */
#include <stdio.h>

#include "interop/act/sentinel.h"
#include "interop/core/metrics.h"
#include "interop/front/front.h"
#include "interop/interop.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/file.h"

struct iop_svc {
    struct iop_core core;
    struct iop_bridge bridge;
    struct iop_mail mail;
    struct iop_objects objects;
    struct iop_hooks hooks;
    struct iop_upstreams up;
    struct iop_acts acts;
    struct iop_sentinel sentinel;
    struct iop_front front;
};

static const struct ron_conf_key keys[] = {IOP_CONF(RON_CONF_ROW)};

/* ---- settings -------------------------------------------------------------------------------- */

static enum ron_rc check_settings(const struct ron_conf_snap *conf, struct ron_err *err)
{
    if (ron_conf_ms(conf, RON_APP_REQUEST_TIMEOUT) > IOP_REQUEST_MAX_MS) {
        return ron_err_set(err, RON_INVALID,
                           "timeouts.request: at most 5s, because senders wait no longer");
    }
    if (ron_conf_ms(conf, IOP_B_HOLD) > ron_conf_ms(conf, IOP_B_WINDOW)) {
        return ron_err_set(
            err, RON_INVALID,
            "readiness.brownout_hold: must not exceed readiness.brownout_window, over which "
            "calls are counted");
    }
    RON_TRY(iop_policy_check(conf, (uint64_t)ron_conf_ms(conf, IOP_DEDUP_TTL), err));
    RON_TRY(iop_trail_check(conf, err));
    RON_TRY(ron_tier_check(conf, err));
    if (ron_conf_str(conf, RON_TIER_ENDPOINT).len > 0 &&
        ron_conf_str(conf, IOP_STORAGE_URL).len > 0) {
        return ron_err_set(err, RON_INVALID, "s3.endpoint and storage.url are mutually exclusive");
    }
    if (ron_conf_str(conf, IOP_MAILBOX_URL).len > 0 && ron_conf_secret(conf, IOP_BOX_DSN).len > 0) {
        return ron_err_set(err, RON_INVALID, "mailbox.url and mailbox.dsn are mutually exclusive");
    }
    if (ron_conf_bool(conf, RON_APP_AMNESIA) && ron_conf_secret(conf, IOP_BOX_DSN).len > 0) {
        return ron_err_set(err, RON_INVALID, "mailbox.dsn cannot be set in amnesia mode");
    }
    return iop_upstreams_check(conf, err);
}

const struct ron_conf_table iop_conf_table = {
    .service = "interop", .keys = keys, .key_count = IOP_CONF_COUNT, .check = check_settings};

/* ---- channels -------------------------------------------------------------------------------- */

static void drop_job(void *item, void *arg)
{
    (void)arg;
    iop_job_drop(RON_OBJ(item, struct iop_job, IOP_JOB_MAGIC), IOP_ERROR_DRAINING);
}

static void drop_read(void *item, void *arg)
{
    (void)arg;
    iop_read_drop(item, IOP_ERROR_DRAINING);
}

static void drop_put(void *item, void *arg)
{
    (void)arg;
    iop_put_drop(item, IOP_ERROR_DRAINING);
}

static enum ron_rc make_channels(struct iop_svc *s, struct ron_err *err)
{
    struct iop_objects *o = &s->objects;
    const struct {
        const char *name;
        const char *consumers;
        int64_t capacity;
        uint32_t wake_batch;
        void (*drop)(void *item, void *arg);
        struct ron_chan **ret;
    } rows[] = {
        {"work", "workers", ron_conf_int(s->core.conf, IOP_Q_WORK), 0, drop_job, &s->hooks.work},
        {"reads", "readers", IOP_Q_READS, 1, drop_read, &o->reads},
        {"uploads", "uploads", IOP_Q_UPLOADS, 1, drop_put, &o->uploads},
        {"s3_reads", "s3-readers", IOP_Q_READS, 1, drop_read, &o->s3_reads}, /* with a tier */
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(rows) - (o->tier == NULL); i++) {
        RON_TRY(ron_chan_new(
            &(struct ron_chan_opts){.registry = ron_app_registry(s->core.app),
                                    .env = s->core.env,
                                    .name = rows[i].name,
                                    .producers = "http",
                                    .consumers = rows[i].consumers,
                                    .drop_text = "answered 429 BACKPRESSURE; busy_rejections_total",
                                    .capacity = (uint32_t)rows[i].capacity,
                                    .policy = RON_CHAN_REJECT,
                                    .wake_batch = rows[i].wake_batch,
                                    .drop = rows[i].drop},
            rows[i].ret, err));
    }
    return RON_OK;
}

/* ---- the store of objects -------------------------------------------------------------------- */

static enum ron_rc open_store(struct iop_objects *o, struct ron_err *err)
{
    const struct iop_core *c = o->core;
    uint64_t bytes = (uint64_t)ron_conf_bytes(c->conf, IOP_STORE_BYTES);
    uint64_t object = (uint64_t)ron_conf_bytes(c->conf, IOP_OBJECT_MAX);
    const char *dir = ron_conf_str(c->conf, IOP_DIR).text;
    char path[1024];

    if (c->amnesia) {
        bytes = RON_MIN(bytes, RON_CAS_MEMORY_BYTES_DEFAULT);
    } else {
        (void)snprintf(path, sizeof path, "%s/objects",
                       dir); /* 900 bytes at most, as its key says */
        RON_TRY(ron_mkdirs(c->env, dir, 0700, err));
    }
    RON_TRY(ron_cas_new(&(struct ron_cas_opts){.env = c->env,
                                               .dir = c->amnesia ? NULL : path,
                                               .bytes_max = bytes,
                                               .object_bytes_max = RON_MIN(bytes, object)},
                        &o->store, err));
    struct ron_task_def task = ron_cas_task(o->store);

    task.name = "objects";
    task.stage = 4;
    RON_TRY(ron_sup_add(ron_app_sup(c->app), &task, NULL, err));
    o->cas_metrics = (struct ron_ops_cas){.store = o->store, .name = "objects"};
    RON_TRY(ron_collect_cas(ron_app_metrics(c->app), &o->cas_metrics, err));
    return ron_tier_new(&(struct ron_tier_opts){.env = c->env,
                                                .registry = ron_app_registry(c->app),
                                                .sup = ron_app_sup(c->app),
                                                .metrics = ron_app_metrics(c->app),
                                                .needs = ron_app_needs(c->app),
                                                .log = c->log,
                                                .conf = c->conf,
                                                .environ = ron_app_environ(c->app),
                                                .store = o->store,
                                                .store_bytes = bytes,
                                                .dir = c->amnesia ? NULL : dir,
                                                .keep = true,
                                                .stage = 2},
                        &o->tier, err);
}

/* ---- mailbox --------------------------------------------------------------------------------- */

/* Another service's: after its target was made. */
static enum ron_rc open_remote_mailbox(struct iop_svc *s, struct ron_err *err)
{
    return iop_box_http_new(
        &(struct iop_box_http_opts){.target = s->up.mailbox,
                                    .url = ron_conf_str(s->core.conf, IOP_MAILBOX_URL).text,
                                    .token = &s->mail.token,
                                    .wait_max_ms =
                                        (uint32_t)ron_conf_ms(s->core.conf, IOP_RPC_TIMEOUT) / 2},
        &s->mail.box, err);
}

static enum ron_rc open_mailbox(struct iop_svc *s, struct ron_err *err)
{
    struct iop_box_limits limits = iop_box_limits_default();
    struct ron_conf_str dsn = ron_conf_secret(s->core.conf, IOP_BOX_DSN);
    char path[1024];

    if (ron_conf_str(s->core.conf, IOP_MAILBOX_URL).len > 0) {
        return RON_OK;
    }
    (void)snprintf(path, sizeof path, "%s/mailbox.sqlite",
                   ron_conf_str(s->core.conf, IOP_DIR).text);
    limits.topic_max_bytes = (uint64_t)ron_conf_bytes(s->core.conf, IOP_BOX_TOPIC);
    limits.total_max_bytes = (uint64_t)ron_conf_bytes(s->core.conf, IOP_BOX_TOTAL);
    limits.topics_max = (uint32_t)ron_conf_int(s->core.conf, IOP_BOX_TOPICS);
    limits.deliveries_max = (uint32_t)ron_conf_int(s->core.conf, IOP_BOX_DELIVERIES);
    RON_TRY(iop_box_local_new(
        &(struct iop_box_local_opts){
            .env = s->core.env,
            .registry = ron_app_registry(s->core.app),
            .path = s->core.amnesia ? NULL : path,
            .dsn = dsn.len > 0 ? dsn.text : NULL,
            .limits = limits,
            .seen_max = (uint32_t)ron_conf_int(s->core.conf, IOP_DEDUP_KEYS),
            .seen_ttl_ms = (uint64_t)ron_conf_ms(s->core.conf, IOP_DEDUP_TTL),
            .seen_keep_ms = iop_policy_keep_ms(s->core.conf)},
        &s->mail.local, err));
    s->mail.box = iop_box_local_box(s->mail.local);
    s->mail.seen = iop_box_local_seen(s->mail.local);
    return iop_box_local_add(s->mail.local, ron_app_sup(s->core.app), 4, err);
}

/* ---- policy ---------------------------------------------------------------------------------- */

static enum ron_rc load_policy(struct iop_svc *s, struct ron_conf_snap *conf, struct ron_err *err)
{
    struct iop_policy *policy = NULL;

    RON_TRY(iop_policy_new(s->core.env, conf, ron_app_environ(s->core.app), &policy, err));
    iop_policy_series(&s->core, policy);
    iop_policy_put(&s->hooks.policy, policy);
    if (s->mail.seen != NULL) {
        iop_seen_set_keep(s->mail.seen, iop_policy_keep_ms(conf));
    }
    return RON_OK;
}

/* ---- build, reload, take down ---------------------------------------------------------------- */

/* Names the parts to each other. */
static void join_parts(struct iop_svc *s)
{
    s->bridge.core = s->objects.core = s->hooks.core = &s->core;
    s->acts.core = s->sentinel.core = s->front.core = &s->core;
    s->objects.bridge = s->hooks.bridge = s->acts.bridge = s->sentinel.bridge = &s->bridge;
    s->hooks.mail = s->acts.mail = s->sentinel.mail = s->front.mail = &s->mail;
    s->objects.up = s->acts.up = &s->up;
    s->acts.policy = &s->hooks.policy;
    s->sentinel.objects = s->front.objects = &s->objects;
    s->sentinel.hooks = s->front.hooks = &s->hooks;
    s->sentinel.acts = s->front.acts = &s->acts;
    s->core.magic = IOP_CORE_MAGIC;
    s->mail.magic = IOP_MAIL_MAGIC;
    s->objects.magic = IOP_OBJECTS_MAGIC;
    s->hooks.magic = IOP_HOOKS_MAGIC;
    s->acts.magic = IOP_ACTS_MAGIC;
    s->sentinel.magic = IOP_SENTINEL_MAGIC;
    s->front.magic = IOP_FRONT_MAGIC;
}

static void init(struct iop_svc *s, struct ron_app *app)
{
    struct iop_core *c = &s->core;

    c->app = app;
    c->env = ron_app_env(app);
    c->conf = ron_app_conf(app);
    c->log = ron_app_log(app);
    c->amnesia = ron_conf_bool(c->conf, RON_APP_AMNESIA);
    join_parts(s);
    s->objects.reads_open = ron_conf_choice(c->conf, IOP_READS) == 1;
    s->hooks.max =
        (uint32_t)(ron_conf_int(c->conf, RON_APP_INFLIGHT) + ron_conf_int(c->conf, IOP_Q_WORK));
    ron_mutex_init(&s->hooks.pool_mu, RON_RANK_LEAF, "interop.jobs");
    ron_mutex_init(&s->bridge.mu, RON_RANK_LEAF, "interop.brownout");
    iop_policy_box_init(&s->hooks.policy);
    ron_app_tokens_init(&s->acts.wallet_token, c->env, "wallet.token_file");
    ron_app_tokens_init(&s->mail.token, c->env, "mailbox.token_file");
    ron_app_tokens_init(&s->objects.token, c->env, "storage.token_file");
}

/* This service's own, for the services it calls. */
static enum ron_rc load_tokens(struct iop_svc *s, const struct ron_conf_snap *conf,
                               struct ron_err *err)
{
    const struct {
        int key;
        struct ron_app_tokens *tokens;
    } rows[] = {{IOP_WALLET_TOKEN, &s->acts.wallet_token},
                {IOP_MAILBOX_TOKEN, &s->mail.token},
                {IOP_STORAGE_TOKEN, &s->objects.token}};

    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_conf_str path = ron_conf_str(conf, (size_t)rows[i].key);

        if (path.len > 0) {
            RON_TRY(ron_app_tokens_load(rows[i].tokens, path.text, err));
        }
    }
    return RON_OK;
}

static enum ron_rc open_parts(struct iop_svc *s, struct ron_err *err)
{
    struct ron_conf_snap *conf;
    enum ron_rc rc;

    RON_TRY(ron_app_auth_new(s->core.app, ron_conf_str(s->core.conf, IOP_KEY_FILE).text, "interop",
                             &s->core.auth, err));
    RON_TRY(load_tokens(s, s->core.conf, err));
    RON_TRY(open_store(&s->objects, err));
    RON_TRY(iop_proofs_new(&s->objects, err));
    RON_TRY(open_mailbox(s, err));
    RON_TRY(iop_trail_open(&s->core, err));
    RON_TRY(iop_ring_new(&s->hooks, err));
    RON_TRY(iop_metrics_new(&s->core, &s->mail, err));
    conf = ron_conf_box_get(ron_app_conf_box(s->core.app));
    rc = load_policy(s, conf, err);
    ron_conf_unref(conf);
    return rc;
}

static enum ron_rc build(struct ron_app *app, struct ron_err *err)
{
    struct iop_svc *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the bridge");
    }
    ron_app_set_state(app, s);
    init(s, app);
    RON_TRY(open_parts(s, err));
    RON_TRY(make_channels(s, err));
    RON_TRY(iop_events_add(&s->core, err));
    RON_TRY(iop_sentinel_add(&s->sentinel, err));
    RON_TRY(iop_workers_add(&s->hooks, err));
    RON_TRY(iop_uploads_add(&s->objects, err));
    RON_TRY(iop_readers_add(&s->objects, err));
    RON_TRY(iop_upstreams_open(&s->up, app, s->core.conf, err));
    if (s->up.mailbox != NULL) {
        RON_TRY(open_remote_mailbox(s, err));
    }
    RON_TRY(iop_actors_add(&s->acts, err));
    iop_routes_fill(&s->front);
    return RON_OK;
}

/* Keys, tokens, providers and rules. A mistake leaves the old in force. */
static void reloaded(struct ron_app *app)
{
    struct iop_svc *s = ron_app_state(app);
    struct ron_conf_snap *conf = ron_conf_box_get(ron_app_conf_box(app));
    struct ron_err err = {0};
    enum ron_rc rc;

    ron_app_auth_reload(s->core.auth, ron_conf_str(conf, IOP_KEY_FILE).text);
    if (load_tokens(s, conf, &err) != RON_OK) {
        RON_LOG(s->core.log, ERROR, "own token reload failed; keeping the previous token",
                RON_LOG_ERR(&err));
    }
    rc = iop_upstreams_cover(&s->up, conf, &err);
    if (rc == RON_OK) {
        rc = load_policy(s, conf, &err);
    }
    if (rc != RON_OK) {
        RON_LOG(s->core.log, ERROR, "policy reload failed; keeping the previous policy",
                RON_LOG_ERR(&err));
    }
    iop_trail_policy(&s->core, rc == RON_OK);
    ron_need_set(s->hooks.need_policy, rc == RON_OK ? RON_NEED_OK : RON_NEED_DEGRADED,
                 rc == RON_OK ? "" : "last reload of providers and rules failed", 5);
    ron_conf_unref(conf);
}

static void free_channels(struct iop_svc *s)
{
    struct ron_chan *const all[] = {s->hooks.work, s->objects.reads, s->objects.uploads,
                                    s->objects.s3_reads};

    for (size_t i = 0; i < RON_ARRAY_LEN(all); i++) {
        if (all[i] != NULL) {
            ron_chan_free(all[i]);
        }
    }
}

static void take_down(struct ron_app *app)
{
    struct iop_svc *s = ron_app_state(app);

    if (s == NULL) {
        return;
    }
    free_channels(s); /* answers what is left in them */
    iop_actors_free(&s->acts);
    iop_upstreams_close(&s->up);
    if (s->mail.local == NULL) {
        iop_box_free(s->mail.box);
    }
    iop_box_local_free(s->mail.local); /* likewise */
    iop_jobs_free(&s->hooks);
    ron_free(s->hooks.workers);
    ron_http_events_free(s->core.events);
    if (s->bridge.gate != NULL) {
        ron_watch_free(s->bridge.gate);
    }
    iop_proofs_free(&s->objects);
    ron_tier_free(s->objects.tier);
    if (s->objects.store != NULL) {
        ron_cas_free(s->objects.store);
    }
    iop_audit_free(s->core.audit);
    iop_ring_free(&s->hooks);
    iop_metrics_free(&s->core);
    iop_policy_box_done(&s->hooks.policy);
    ron_app_tokens_done(&s->acts.wallet_token);
    ron_app_tokens_done(&s->mail.token);
    ron_app_tokens_done(&s->objects.token);
    ron_app_auth_free(s->core.auth);
    ron_mutex_done(&s->bridge.mu);
    ron_mutex_done(&s->hooks.pool_mu);
    ron_free(s);
}

const struct ron_app_def iop_app = {
    .conf = &iop_conf_table,
    .summary =
        "svc-interop: evidence in, capabilities out. Verifies provider webhooks, stores them\n"
        "before it acknowledges, and acts on them with the least authority.",
    .build = build,
    .reloaded = reloaded,
    .take_down = take_down,
};
