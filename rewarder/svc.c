/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/svc.c - `ron rewarder`: from settings to running tasks, and back.
 *
 * Place: service. Build order: keys and token, disk, book, inputs, channels, tasks, routes. Taken
 * down in reverse after everything has stopped. */
#include "rewarder/core/core.h"

#include <stdio.h>
#include <string.h>

#include "rewarder/rewarder.h"
#include "ron/base/alloc.h"
#include "ron/base/secret.h"
#include "ron/io/file.h"
#include "ron/merkle/note_key.h"

enum { MEMDISK_BYTES = 1 << 30 }; /* artifacts under amnesia */

static const struct ron_conf_key keys[] = {RWD_CONF(RON_CONF_ROW)};

/* ---- settings -------------------------------------------------------------------------------- */

static enum ron_rc policy_key(const struct ron_conf_str *text, struct rwd_policy_key *ret,
                              struct ron_err *err)
{
    enum ron_rc rc = rwd_policy_key_read((struct ron_str){text->text, text->len}, ret, err);

    if (rc != RON_OK) {
        ron_err_prefix(err, "rewarder.policy_keys");
    }
    return rc;
}

/* The file with our own token for whoever pays. */
static const char *token_file(const struct ron_conf_snap *conf)
{
    return ron_conf_str(conf, rwd_to_wallet(conf) ? RWD_WALLET_TOKEN : RWD_LEDGER_TOKEN).text;
}

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
        RON_TRY(policy_key(&list.items[i], &key, err));
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

/* ---- keys ------------------------------------------------------------------------------------ */

static enum ron_rc load_attester(struct rwd_svc *s, struct ron_err *err)
{
    struct ron_conf_str path = ron_conf_str(s->conf, RWD_ATTEST_KEY);
    struct ron_note_signer signer;
    enum ron_rc rc;

    if (path.len == 0) {
        return RON_OK;
    }
    rc = ron_note_signer_load(s->env, path.text, &signer, err);
    if (rc == RON_OK && signer.key.name_len > RWD_KEY_ID_MAX) {
        rc = ron_err_set(err, RON_LIMIT, "the name of the key is too long");
    }
    if (rc != RON_OK) {
        ron_err_prefix(err, "rewarder.attest_key_file");
        return rc;
    }
    memcpy(s->attester.key_id, signer.key.name, (size_t)signer.key.name_len + 1);
    memcpy(s->attester.seed, signer.secret_key, sizeof s->attester.seed);
    ron_note_signer_done(&signer);
    return RON_OK;
}

static enum ron_rc open_keys(struct rwd_svc *s, struct ron_err *err)
{
    struct ron_conf_list list = ron_conf_list(s->conf, RWD_POLICY_KEYS);

    RON_TRY(ron_app_auth_new(s->app, ron_conf_str(s->conf, RWD_KEY_FILE).text, "rewarder", &s->auth,
                             err));
    ron_app_tokens_init(&s->token, s->env,
                        keys[rwd_to_wallet(s->conf) ? RWD_WALLET_TOKEN : RWD_LEDGER_TOKEN].name);
    RON_TRY(ron_app_tokens_load(&s->token, token_file(s->conf), err));
    for (size_t i = 0; i < list.count; i++) {
        RON_TRY(policy_key(&list.items[i], &s->policy_keys[i], err));
        s->policy_key_count = (uint32_t)i + 1;
    }
    return load_attester(s, err);
}

/* ---- disk ------------------------------------------------------------------------------------ */

static enum ron_rc open_inputs(struct rwd_svc *s, const char *dir, struct ron_err *err)
{
    uint64_t bytes = (uint64_t)ron_conf_bytes(s->conf, RWD_INPUT_BYTES);

    RON_TRY(ron_cas_new(&(struct ron_cas_opts){.env = s->env,
                                               .dir = dir,
                                               .bytes_max = bytes,
                                               .object_bytes_max = bytes,
                                               .objects_max = 1 << 16,
                                               .cache_bytes_max = 8 << 20,
                                               .writers_max = 64},
                        &s->inputs, err));
    struct ron_task_def task = ron_cas_task(s->inputs);

    task.name = "inputs";
    task.stage = 6;
    return ron_sup_add(ron_app_sup(s->app), &task, NULL, err);
}

static enum ron_rc open_disk(struct rwd_svc *s, struct ron_err *err)
{
    const char *dir = ron_conf_str(s->conf, RWD_DIR).text;
    struct ron_conf_str artifacts = ron_conf_str(s->conf, RWD_ARTIFACT_DIR);
    struct ron_conf_str dsn = ron_conf_secret(s->conf, RWD_BOOK_DSN);
    char path[1024];

    if (s->amnesia) {
        RON_TRY(ron_memdisk_new(s->env, MEMDISK_BYTES, &s->memdisk, err));
        s->disk_env = ron_memdisk_env(s->memdisk);
        (void)snprintf(s->artifact_dir, sizeof s->artifact_dir, "/artifacts");
        RON_TRY(ron_mkdirs(s->disk_env, s->artifact_dir, 0700, err));
        RON_TRY(rwd_book_open(s->env, NULL, &s->book, err));
        return open_inputs(s, NULL, err);
    }
    s->disk_env = s->env;
    RON_TRY(ron_mkdirs(s->env, dir, 0700, err));
    if (artifacts.len > 0) {
        (void)snprintf(s->artifact_dir, sizeof s->artifact_dir, "%s", artifacts.text);
    } else {
        RON_TRY(rwd_join(s->artifact_dir, sizeof s->artifact_dir, dir, "artifacts", err));
    }
    RON_TRY(ron_mkdirs(s->env, s->artifact_dir, 0755, err));
    RON_TRY(rwd_join(path, sizeof path, dir, "book.sqlite", err));
    RON_TRY(rwd_book_open_with(
        &(struct rwd_book_opts){.env = s->env, .path = path, .dsn = dsn.len > 0 ? dsn.text : NULL},
        &s->book, err));
    RON_TRY(rwd_join(path, sizeof path, dir, "inputs", err));
    return open_inputs(s, path, err);
}

/* ---- policies -------------------------------------------------------------------------------- */

/* ---- channels -------------------------------------------------------------------------------- */

/* What is left in a queue at the very end. */
static void drop_work_req(void *item, void *arg)
{
    struct rwd_work_req *w = item;
    struct rwd_fault fault;

    rwd_fault_set(&fault, RWD_ERROR_DRAINING, NULL);
    rwd_reply_fail(arg, w->reply, &fault);
    ron_free(w);
}

static void drop_work(void *item, void *arg)
{
    struct rwd_fault fault;

    rwd_fault_set(&fault, RWD_ERROR_DRAINING, NULL);
    rwd_job_failed(arg, item, &fault);
}

static void drop_result(void *item, void *arg)
{
    rwd_outcome_drop(arg, item);
}

static void drop_intent(void *item, void *arg)
{
    (void)arg; /* the book knows it: it resumes with the next start */
    ron_free(item);
}

static void drop_read(void *item, void *arg)
{
    struct rwd_read *r = item;
    struct rwd_fault fault;

    rwd_fault_set(&fault, RWD_ERROR_DRAINING, NULL);
    rwd_reply_fail(arg, r->reply, &fault);
    ron_free(r);
}

static void drop_upload(void *item, void *arg)
{
    struct rwd_upload *u = item;
    struct rwd_fault fault;

    rwd_fault_set(&fault, RWD_ERROR_DRAINING, NULL);
    rwd_reply_fail(arg, u->reply, &fault);
    ron_free(u);
}

static enum ron_rc make_channels(struct rwd_svc *s, struct ron_err *err)
{
    const struct {
        const char *name;
        const char *producers;
        const char *consumers;
        const char *drop_text;
        int64_t capacity;
        enum ron_chan_policy policy;
        void (*drop)(void *item, void *arg);
        struct ron_chan **ret;
    } rows[] = {
        {"work_req", "http", "scheduler", "answered 429 busy; busy_rejections_total",
         ron_conf_int(s->conf, RWD_Q_WORK_REQ), RON_CHAN_REJECT, drop_work_req, &s->work_req},
        {"work", "scheduler, failing workers", "workers",
         "tried again once after 50-150 ms, then 503; queue_dropped_total",
         ron_conf_int(s->conf, RWD_Q_WORK), RON_CHAN_RETRY_ONCE, drop_work, &s->work},
        {"results", "workers", "writer", "workers wait; left at the end: dropped_results_total",
         ron_conf_int(s->conf, RWD_Q_RESULTS), RON_CHAN_WAIT, drop_result, &s->results},
        {"intents", "workers", "emitter", "workers wait; no room in time quarantines the epoch",
         ron_conf_int(s->conf, RWD_Q_INTENTS), RON_CHAN_WAIT, drop_intent, &s->intents},
        {"reads", "http", "readers", "answered 429 busy; busy_rejections_total", RWD_Q_READS,
         RON_CHAN_REJECT, drop_read, &s->reads},
        {"uploads", "http", "uploads", "answered 429 busy; busy_rejections_total", RWD_Q_UPLOADS,
         RON_CHAN_REJECT, drop_upload, &s->uploads},
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        RON_TRY(ron_chan_new(&(struct ron_chan_opts){.registry = ron_app_registry(s->app),
                                                     .env = s->env,
                                                     .name = rows[i].name,
                                                     .producers = rows[i].producers,
                                                     .consumers = rows[i].consumers,
                                                     .drop_text = rows[i].drop_text,
                                                     .capacity = (uint32_t)rows[i].capacity,
                                                     .policy = rows[i].policy,
                                                     .wake_batch = 1,
                                                     .drop = rows[i].drop,
                                                     .drop_arg = s},
                             rows[i].ret, err));
    }
    return RON_OK;
}

static enum ron_rc make_needs(struct rwd_svc *s, struct ron_err *err)
{
    struct ron_needs *needs = ron_app_needs(s->app);

    RON_TRY(ron_needs_add(needs, "ledger_ok", false, &s->need_ledger, err));
    RON_TRY(ron_needs_add(needs, "queue_ok", false, &s->need_queue, err));
    RON_TRY(ron_needs_add(needs, "artifacts_ok", false, &s->need_artifacts, err));
    return ron_needs_add(needs, "quarantine", false, &s->need_quarantine, err);
}

/* ---- build, reload, take down ---------------------------------------------------------------- */

static enum ron_rc build(struct ron_app *app, struct ron_err *err)
{
    struct rwd_svc *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the rewarder");
    }
    ron_app_set_state(app, s);
    s->app = app;
    s->env = ron_app_env(app);
    s->conf = ron_app_conf(app);
    s->log = ron_app_log(app);
    s->amnesia = ron_conf_bool(s->conf, RON_APP_AMNESIA);
    RON_TRY(open_keys(s, err));
    RON_TRY(rwd_metrics_new(s, err));
    RON_TRY(open_disk(s, err));
    rwd_policies_load(s);
    RON_TRY(rwd_runs_new(RWD_RUNS_MAX, &s->runs, err));
    RON_TRY(make_needs(s, err));
    RON_TRY(make_channels(s, err));
    RON_TRY(rwd_events_new(s, err));
    RON_TRY(rwd_health_add(s, err));
    RON_TRY(rwd_sched_add(s, err));
    RON_TRY(rwd_workers_add(s, err));
    RON_TRY(rwd_writer_add(s, err));
    RON_TRY(rwd_emitter_add(s, err));
    RON_TRY(rwd_uploads_add(s, err));
    RON_TRY(rwd_readers_add(s, err));
    rwd_routes_fill(s);
    return RON_OK;
}

/* Key file, token, policies. A mistake leaves the old in force. */
static void reloaded(struct ron_app *app)
{
    struct rwd_svc *s = ron_app_state(app);
    struct ron_conf_snap *conf = ron_conf_box_get(ron_app_conf_box(app));
    struct ron_err err = {0};

    ron_app_auth_reload(s->auth, ron_conf_str(conf, RWD_KEY_FILE).text);
    if (ron_app_tokens_load(&s->token, token_file(conf), &err) != RON_OK) {
        RON_LOG(s->log, ERROR, "our own token was not reloaded", RON_LOG_ERR(&err));
    }
    rwd_policies_load(s);
    ron_conf_unref(conf);
    rwd_emitter_remind(s, "");
}

/* Nobody can scrape a count that is made at the very end, so the log has it. */
static int finish(struct ron_app *app, int code)
{
    struct rwd_svc *s = ron_app_state(app);
    void *items[16];
    size_t count = 0;

    while (ron_chan_try_recv_many(s->results, items, RON_ARRAY_LEN(items), &count) == RON_OK) {
        for (size_t i = 0; i < count; i++) {
            rwd_outcome_drop(s, items[i]);
        }
    }
    if (ron_au32_load(&s->dropped) > 0) {
        RON_LOG(s->log, WARN, "results were left unwritten; the next start computes them again",
                RON_LOG_U64("dropped_results_total", ron_au32_load(&s->dropped)));
    }
    return code;
}

static void free_channels(struct rwd_svc *s)
{
    struct ron_chan *const all[] = {s->work_req, s->work,  s->results,
                                    s->intents,  s->reads, s->uploads};

    for (size_t i = 0; i < RON_ARRAY_LEN(all); i++) {
        if (all[i] != NULL) {
            ron_chan_free(all[i]);
        }
    }
}

static void take_down(struct ron_app *app)
{
    struct rwd_svc *s = ron_app_state(app);

    if (s == NULL) {
        return;
    }
    free_channels(s); /* answers what is left in them */
    rwd_emitter_free(s);
    ron_http_events_free(s->events);
    rwd_runs_free(s->runs);
    if (s->inputs != NULL) {
        ron_cas_free(s->inputs);
    }
    rwd_book_close(s->book);
    ron_memdisk_free(s->memdisk);
    ron_app_tokens_done(&s->token);
    ron_app_auth_free(s->auth);
    ron_wipe(&s->attester, sizeof s->attester);
    rwd_metrics_free(s);
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
