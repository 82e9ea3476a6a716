/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/svc.c - `ron ledger`: from settings to a running pipeline, and back.
 *
 * Place: service. Build order: disk (memory in amnesia mode), engine by recovery, keys and guards,
 * signer, channels, tasks, fronts. Taken down in reverse after everything has stopped. */
#include "ledger/svc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ledger/guard/frozen.h"
#include "ledger/ledger.h"
#include "ledger/recover/mark.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/hex.h"
#include "ron/io/memdisk.h"

static const struct ron_conf_key keys[] = {LED_CONF(RON_CONF_ROW)};

static enum ron_rc check_settings(const struct ron_conf_snap *conf, struct ron_err *err)
{
    bool memory = ron_conf_choice(conf, LED_ENGINE_MODE) == LED_MODE_AMNESIA;
    bool amnesia = ron_conf_bool(conf, RON_APP_AMNESIA);

    if (memory != amnesia) {
        return ron_err_set(err, RON_INVALID,
                           "engine.mode = \"amnesia\" and amnesia.enabled belong together");
    }
    if (!memory && ron_conf_str(conf, LED_DATA_DIR).len == 0) {
        return ron_err_set(err, RON_INVALID,
                           "engine.data_dir must be set, or engine.mode = \"amnesia\" with "
                           "amnesia.enabled = true");
    }
    if (memory && ron_conf_str(conf, LED_DATA_DIR).len != 0) {
        return ron_err_set(err, RON_INVALID, "amnesia leaves no trace: unset engine.data_dir");
    }
    if (ron_conf_choice(conf, LED_ENGINE_SINK) == LED_SINK_POSTGRES &&
        (memory || ron_conf_secret(conf, LED_PG_DSN).len == 0)) {
        return ron_err_set(err, RON_INVALID,
                           "engine.sink = \"postgres\" needs postgres.dsn and a persistent engine");
    }
    if (ron_conf_str(conf, LED_KMS_URL).len != 0 && ron_conf_str(conf, LED_KEY_FILE).len != 0) {
        return ron_err_set(err, RON_INVALID,
                           "capabilities are verified by kms.url or with auth.key_file: unset one");
    }
    if (ron_conf_str(conf, LED_KMS_URL).len != 0 &&
        ron_conf_choice(conf, LED_AUTH_READS) == LED_READS_CAPABILITY) {
        return ron_err_set(err, RON_INVALID,
                           "with kms.url reads cannot wait for a verdict: set auth.reads = "
                           "\"open\" or use auth.key_file");
    }
    return led_svc_remote_check(conf, err);
}

const struct ron_conf_table led_conf_table = {
    .service = "ledger", .keys = keys, .key_count = LED_CONF_COUNT, .check = check_settings};

/* ---- engine ---------------------------------------------------------------------------------- */

/* An expiry that is refused for what it is, not for the state of the ledger, leaves its hold open:
 * somebody has to know. */
static void note_refused_expiry(struct led_svc *s, const struct led_work *w)
{
    const struct led_refusal *r = &w->refusals.items[0];
    struct ron_str hold = {0};

    if (r->reason == LED_REASON_BUSY || r->reason == LED_REASON_DRAINING ||
        r->reason == LED_REASON_SAFE_MODE || r->reason == LED_REASON_NOT_LEADER) {
        return;
    }
    led_metrics_expiry_refused(s);
    if (w->batch.count > 0) {
        hold = w->batch.entries[0].ref;
    }
    if (ron_au32_add(&s->expiry_told, 1) == 0) {
        RON_LOG(s->log, ERROR, "a hold cannot be expired; it is tried again every minute",
                RON_LOG_SLICE("hold", hold), RON_LOG_STR("reason", led_reason_name(r->reason)),
                RON_LOG_STR("detail", r->detail));
    }
}

/* The ledger's own works: expiries. */
static void own_done(struct led_work *w)
{
    struct led_svc *s = w->service;

    if (w->result == LED_RESULT_REFUSED) {
        note_refused_expiry(s, w);
    }
    led_works_put(s->works, w);
}

static struct led_work *own_work(void *arg)
{
    struct led_svc *s = arg;
    struct led_work *w = led_works_get(s->works, LED_OWN_ARENA);

    if (w != NULL) {
        w->service = s;
        w->done = own_done;
        w->generation = s->generation;
    }
    return w;
}

static void progress(void *arg, uint64_t seq, uint64_t last_seq)
{
    struct led_svc *s = arg;
    uint64_t now_ns = ron_env_now_ns(s->env);

    if (now_ns - s->progress_ns < RON_NS_PER_S) {
        return; /* a line a second */
    }
    s->progress_ns = now_ns;
    RON_LOG(s->log, INFO, "recovering", RON_LOG_U64("seq", seq), RON_LOG_U64("of", last_seq));
}

static void set_recover_opts(struct led_svc *s)
{
    const struct ron_conf_snap *c = s->conf;

    s->recover = (struct led_recover_opts){
        .env = s->env,
        .dir = s->dir[0] != '\0' ? s->dir : "/ledger",
        .index_in_memory = s->dir[0] == '\0',
        .segment_bytes = (uint64_t)ron_conf_bytes(c, LED_SEGMENT_BYTES),
        .free_floor_bytes = s->dir[0] == '\0' ? 0 : (uint64_t)ron_conf_bytes(c, LED_FREE_FLOOR),
        .torn_is_damage = ron_conf_choice(c, LED_TORN_TAIL) == LED_TORN_SAFE_MODE,
        .book = {.horizon_ms = (uint64_t)ron_conf_ms(c, LED_HORIZON)},
        .parallel = s->cpus > 1,
        .seq = {.own_work = own_work, .arg = s},
        .progress = progress,
        .progress_arg = s,
        .uuid = s->lead != NULL ? led_lead_uuid(s->lead) : NULL,
    };
    if (s->dir[0] == '\0') {
        s->recover.segment_bytes = RON_MIN(s->recover.segment_bytes, (uint64_t)4 << 20);
    }
}

enum ron_rc led_svc_engine_made(struct led_svc *s, struct ron_err *err)
{
    struct led_log_head head;

    led_log_head(s->eng.log, &head);
    memcpy(s->hash_key, s->eng.hash_key, sizeof s->hash_key);
    s->preval.index = s->eng.index;
    s->preval.hash_key = s->hash_key;
    s->generation++;
    ron_mutex_lock(&s->head_lock);
    s->head_root = head.root;
    s->head_ms = head.time_ms;
    ron_au64_store(&s->durable_seq, head.last_seq);
    ron_mutex_unlock(&s->head_lock);
    ron_au64_store(&s->durable_works, 0);
    ron_au32_store(&s->abort_wanted, 0);
    ron_au64_store(&s->indexed_seq, s->eng.indexed_seq);
    ron_au64_store(&s->log_bytes, head.bytes);
    led_feed_drop(led_feed_take(s->feed)); /* its keys are hashed for the engine before */
    return led_frozen_apply(s->frozen, led_seq_book_mut(s->eng.seq), err);
}

void led_svc_head(struct led_svc *s, struct led_svc_head *ret_head)
{
    ron_mutex_lock(&s->head_lock);
    *ret_head = (struct led_svc_head){.seq = ron_au64_load(&s->durable_seq), .ts_ms = s->head_ms};
    ret_head->root = s->head_root;
    ron_mutex_unlock(&s->head_lock);
}

static enum ron_rc open_disk(struct led_svc *s, struct ron_err *err)
{
    struct ron_conf_str dir = ron_conf_str(s->conf, LED_DATA_DIR);

    if (ron_conf_choice(s->conf, LED_ENGINE_MODE) == LED_MODE_AMNESIA) {
        RON_TRY(ron_memdisk_new(s->env, (uint64_t)ron_conf_bytes(s->conf, LED_MEMORY_MAX),
                                &s->memdisk, err));
        s->env = ron_memdisk_env(s->memdisk);
        return RON_OK;
    }
    if (dir.len >= sizeof s->dir) {
        return ron_err_set(err, RON_INVALID, "engine.data_dir is too long");
    }
    memcpy(s->dir, dir.text, dir.len + 1);
    return RON_OK;
}

/* V1 of replica/lead.h. */
static enum ron_rc place_in_shared_log(struct led_svc *s, struct ron_err *err)
{
    enum ron_rc rc = led_lead_place(s, err);

    if (rc == RON_NOTFOUND) {
        led_svc_enter_safe(s, "the shared log lacks what is known here", err->msg);
        return RON_OK;
    }
    if (rc == RON_AGAIN || rc == RON_TIMEOUT || rc == RON_CLOSED) {
        RON_LOG(s->log, ERROR, "the database does not answer; the leader task looks later",
                RON_LOG_ERR(err));
        return RON_OK;
    }
    return rc;
}

/* Damage does not keep it from starting: it starts in safe mode and shows what is good. */
static enum ron_rc open_engine(struct led_svc *s, struct ron_err *err)
{
    char why[RON_NEED_CAUSE_MAX + 1];

    set_recover_opts(s);
    RON_TRY(led_recover(&s->recover, &s->eng, err));
    ron_au32_store(&s->mode, s->lead != NULL ? LED_FOLLOWING : LED_RUNNING);
    RON_TRY(led_frozen_new(s->env, s->dir[0] != '\0' ? s->dir : NULL, &s->frozen, err));
    if (led_svc_engine_made(s, err) != RON_OK) {
        led_svc_enter_safe(s, "frozen accounts", err->msg);
    }
    RON_LOG(s->log, INFO, "journal open", RON_LOG_U64("seq", ron_au64_load(&s->durable_seq)),
            RON_LOG_U64("replayed", s->eng.replayed), RON_LOG_U64("took_ms", s->eng.took_ms),
            RON_LOG_U64("torn_bytes", s->eng.report.torn_bytes));
    if (s->eng.report.damage != LED_DAMAGE_NONE) {
        (void)snprintf(why, sizeof why, "%.60s: %.60s", s->eng.report.where, s->eng.report.what);
        if (s->eng.report.damage == LED_DAMAGE_CHAIN ||
            s->eng.report.damage == LED_DAMAGE_MISSING) {
            led_metrics_gap(s);
        }
        led_svc_enter_safe(s, led_damage_name(s->eng.report.damage), why);
        return RON_OK;
    }
    if (s->eng.mark.set) {
        led_svc_enter_safe(s, "marked", s->eng.mark.why);
    }
    return s->lead != NULL ? place_in_shared_log(s, err) : RON_OK;
}

/* ---- guards ---------------------------------------------------------------------------------- */

static enum ron_rc read_uids(struct led_svc *s, uint32_t *uids, size_t *ret_count,
                             struct ron_err *err)
{
    struct ron_conf_list list = ron_conf_list(s->conf, LED_PRIV_UIDS);

    for (size_t i = 0; i < list.count; i++) {
        uint64_t uid = 0;

        if (ron_http_parse_u64((struct ron_str){list.items[i].text, list.items[i].len}, &uid) !=
                RON_OK ||
            uid >= UINT32_MAX) {
            return ron_err_set(err, RON_INVALID, "auth.privileged_uids: \"%s\" is not a user id",
                               list.items[i].text);
        }
        uids[i] = (uint32_t)uid;
    }
    *ret_count = list.count;
    return RON_OK;
}

static enum ron_rc open_keys(struct led_svc *s, struct ron_err *err)
{
    const char *path = ron_conf_str(s->conf, LED_KEY_FILE).text;
    struct ron_cap_keys *found = NULL;
    enum ron_rc rc;

    if (*path == '\0') {
        return ron_conf_str(s->conf, LED_KMS_URL).len > 0
                   ? RON_OK
                   : ron_err_set(err, RON_INVALID,
                                 "auth.key_file must be set (`ron cap key new` makes one), or "
                                 "kms.url");
    }
    rc = ron_cap_keyfile_load(ron_app_env(s->app), path, &found, err);
    if (rc != RON_OK) {
        ron_err_prefix(err, "auth.key_file");
        return rc;
    }
    ron_cap_ring_init(&s->ring, found);
    s->has_ring = true;
    RON_TRY(ron_cap_verifier_new(
        &(struct ron_cap_verifier_opts){.env = ron_app_env(s->app), .ring = &s->ring}, &s->verifier,
        err));
    return ron_collect_cap(ron_app_metrics(s->app), s->verifier, err);
}

static enum ron_rc open_guard(struct led_svc *s, struct ron_err *err)
{
    struct ron_conf_list names = ron_conf_list(s->conf, LED_PRIV_NAMES);
    const char *texts[LED_BOUND_NAMES_MAX];
    uint32_t uids[LED_BOUND_UIDS_MAX];
    size_t uid_count = 0;
    const char *policy = ron_conf_str(s->conf, LED_POLICY_FILE).text;
    enum ron_rc rc;
    bool bound;

    RON_TRY(open_keys(s, err));
    RON_TRY(read_uids(s, uids, &uid_count, err));
    for (size_t i = 0; i < names.count; i++) {
        texts[i] = names.items[i].text;
    }
    bound = names.count + uid_count > 0;
    rc = led_guard_new(
        &(struct led_guard_opts){.env = ron_app_env(s->app),
                                 .verifier = s->verifier,
                                 .metrics = ron_app_metrics(s->app),
                                 .bridges =
                                     (enum led_bridges)ron_conf_choice(s->conf, LED_REVERSIBLE),
                                 .amnesia = s->dir[0] == '\0',
                                 .require_kid = ron_conf_bool(s->conf, LED_REQUIRE_KID),
                                 .bound_scopes = bound ? led_scopes_privileged() : 0,
                                 .bound_names = texts,
                                 .bound_name_count = names.count,
                                 .bound_uids = uids,
                                 .bound_uid_count = uid_count,
                                 .remote_policy = ron_conf_str(s->conf, LED_POLICY_URL).len > 0,
                                 .remote_wallet = ron_conf_str(s->conf, LED_WALLET_URL).len > 0},
        &s->guard, err);
    if (rc != RON_OK) {
        if (rc == RON_INVALID) { /* nothing else of these can be wrong */
            ron_err_prefix(err, "auth.privileged_names");
        }
        return rc;
    }
    s->preval.guard = s->guard;
    s->preval.json_max = (uint32_t)ron_conf_int(s->conf, LED_BATCH_MAX);
    rc = *policy == '\0' ? RON_OK : led_guard_reload(s->guard, policy, err);
    if (rc != RON_OK) {
        ron_err_prefix(err, "policy.file");
    }
    return rc;
}

/* ---- signer ---------------------------------------------------------------------------------- */

static enum ron_rc open_signer(struct led_svc *s, struct ron_err *err)
{
    bool amnesia = s->dir[0] == '\0';
    struct ron_conf_list list = ron_conf_list(s->conf, LED_WITNESSES);
    struct ron_conf_str origin = ron_conf_str(s->conf, LED_SIGN_ORIGIN);
    struct ron_conf_str key = ron_conf_str(s->conf, LED_SIGN_KEY);
    struct ron_str witnesses[LED_SIGN_WITNESSES_MAX];
    char key_path[1100];
    char checkpoint_path[1100];
    char made[64];
    char hex[2 * LED_UUID_SIZE + 1];
    struct led_log_head head;
    enum ron_rc rc;

    for (size_t i = 0; i < list.count; i++) {
        witnesses[i] = (struct ron_str){list.items[i].text, list.items[i].len};
    }
    led_log_head(s->eng.log, &head);
    ron_hex(head.uuid, LED_UUID_SIZE, hex);
    (void)snprintf(made, sizeof made, "ron-ledger/%s", hex);
    (void)snprintf(key_path, sizeof key_path, "%s/signing.key", s->dir);
    (void)snprintf(checkpoint_path, sizeof checkpoint_path, "%s/checkpoint", s->dir);
    rc = led_signer_new(
        &(struct led_signer_opts){.env = ron_app_env(s->app),
                                  .key_path = key.len > 0 ? key.text
                                              : amnesia   ? NULL
                                                          : key_path,
                                  .key_must_exist = amnesia,
                                  .checkpoint_path = amnesia ? NULL : checkpoint_path,
                                  .origin = origin.len > 0
                                                ? (struct ron_str){origin.text, origin.len}
                                                : (struct ron_str){made, strlen(made)},
                                  .witnesses = witnesses,
                                  .witness_count = list.count,
                                  .interval_ms = (uint64_t)ron_conf_ms(s->conf, LED_ROOT_EMIT)},
        &s->signer, err);
    if (rc == RON_NOTFOUND && amnesia) {
        ron_err_prefix(err, "signing.key_file: amnesia leaves no trace and makes no key");
    }
    return rc;
}

/* ---- channels -------------------------------------------------------------------------------- */

static void drop_work(void *item, void *arg)
{
    struct led_work *w = item;

    (void)arg;
    led_work_refuse(w, LED_REASON_DRAINING, "", "the ledger is shutting down");
    led_work_done(w);
}

static void drop_query(void *item, void *arg)
{
    struct led_svc *s = arg;

    led_query_refuse(s->queries, item, LED_REASON_DRAINING, NULL);
}

static void drop_chunk(void *item, void *arg)
{
    struct led_image_chunk *c = item;

    (void)arg;
    ron_free(c->take_bytes);
    ron_free(c);
}

static enum ron_rc make_channels(struct led_svc *s, struct ron_err *err)
{
    const struct {
        struct ron_chan **chan;
        int key; /* of its capacity, or -1 */
        struct ron_chan_opts opts;
    } rows[] = {
        {&s->ingress,
         LED_Q_INGRESS,
         {.name = "ingress",
          .producers = "http, oap",
          .consumers = "prevalidators",
          .drop_text = "answered 429 busy; busy_rejections_total",
          .policy = RON_CHAN_REJECT,
          .drop = drop_work}},
        {&s->batches,
         LED_Q_INGRESS,
         {.name = "batches",
          .producers = "http, oap",
          .consumers = "batches-0..n",
          .drop_text = "answered 429 busy; busy_rejections_total",
          .wake_batch = 1,
          .policy = RON_CHAN_REJECT,
          .drop = drop_work}},
        {&s->validated,
         LED_Q_PREVAL,
         {.name = "preval",
          .producers = "prevalidators, readers",
          .consumers = "sequencer",
          .drop_text = "the oldest is answered 429 busy; drops_total",
          .policy = RON_CHAN_DROP_OLDEST,
          .drop = drop_work}},
        {&s->commit,
         LED_Q_COMMIT,
         {.name = "commit",
          .producers = "sequencer",
          .consumers = "committer",
          .drop_text = "room is reserved before a seq is given; without it 503 busy",
          .policy = RON_CHAN_REJECT,
          .drop = drop_work}},
        {&s->reads,
         LED_Q_READS,
         {.name = "reads",
          .producers = "sequencer",
          .consumers = "readers",
          .drop_text = "answered 429 busy; busy_rejections_total",
          .wake_batch = 1,
          .policy = RON_CHAN_REJECT,
          .drop = drop_query}},
        {&s->asks,
         LED_Q_READS,
         {.name = "asks",
          .producers = "http, prevalidators",
          .consumers = "sequencer",
          .drop_text = "answered 429 busy; busy_rejections_total",
          .policy = RON_CHAN_REJECT,
          .drop = drop_query}},
        {&s->images,
         -1,
         {.name = "images",
          .producers = "sequencer",
          .consumers = "indexer",
          .drop_text = "room is reserved before a chunk is made",
          .capacity = 16, /* 1 MiB of chunks */
          .policy = RON_CHAN_REJECT,
          .drop = drop_chunk}},
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_chan_opts o = rows[i].opts;

        o.registry = ron_app_registry(s->app);
        o.env = ron_app_env(s->app);
        o.drop_arg = s;
        if (rows[i].key >= 0) {
            o.capacity = (uint32_t)ron_conf_int(s->conf, (size_t)rows[i].key);
        }
        RON_TRY(ron_chan_new(&o, rows[i].chan, err));
    }
    return RON_OK;
}

static enum ron_rc make_needs(struct led_svc *s, struct ron_err *err)
{
    struct ron_needs *needs = ron_app_needs(s->app);

    RON_TRY(ron_needs_add(needs, "safe_mode", false, &s->need_safe, err));
    RON_TRY(ron_needs_add(needs, "commit_queue", false, &s->need_commit, err));
    RON_TRY(ron_needs_add(needs, "disk_space", false, &s->need_disk, err));
    return ron_needs_add(needs, "index", false, &s->need_index, err);
}

/* ---- build, reload, take down ---------------------------------------------------------------- */

static enum ron_rc open_roots(struct led_svc *s, struct ron_err *err)
{
    struct led_svc_head head;

    led_svc_head(s, &head);
    led_signer_set_head(s->signer, head.seq, &head.root);
    RON_TRY(led_roots_new(&(struct led_roots_opts){.env = ron_app_env(s->app),
                                                   .registry = ron_app_registry(s->app),
                                                   .signer = s->signer,
                                                   .head_seq = ron_au64_load(&s->durable_seq),
                                                   .older = led_routes_older,
                                                   .on_root = led_oap_on_root,
                                                   .arg = s},
                          &s->roots, err));
    RON_TRY(led_roots_metrics(s->roots, ron_app_metrics(s->app), err));
    return led_roots_attach(s->roots, ron_app_sup(s->app), err);
}

static enum ron_rc build(struct ron_app *app, struct ron_err *err)
{
    struct led_svc *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the ledger");
    }
    ron_app_set_state(app, s);
    s->app = app;
    s->env = ron_app_env(app);
    s->conf = ron_app_conf(app);
    s->log = ron_app_log(app);
    s->cpus = ron_exec_workers(ron_app_exec(app));
    s->awake_ns = (uint64_t)ron_conf_int(s->conf, LED_AWAKE_US) * 1000;
    ron_mutex_init(&s->eng_lock, RON_RANK_SHARED, "ledger.engine");
    ron_mutex_init(&s->head_lock, RON_RANK_LEAF, "ledger.head");
    ron_mutex_init(&s->unvouched_lock, RON_RANK_LEAF, "ledger.unvouched");
    ron_cond_init(&s->eng_free);
    RON_TRY(led_works_new(&s->works, err));
    RON_TRY(led_queries_new(&s->queries, err));
    RON_TRY(led_feed_new(&s->feed, err));
    RON_TRY(make_needs(s, err));
    RON_TRY(led_metrics_new(s, err));
    RON_TRY(open_disk(s, err));
    RON_TRY(open_guard(s, err));
    RON_TRY(led_lead_open(s, err));
    RON_TRY(open_engine(s, err));
    RON_TRY(open_signer(s, err));
    RON_TRY(make_channels(s, err));
    RON_TRY(open_roots(s, err));
    RON_TRY(led_svc_remote_open(s, err));
    RON_TRY(led_stage_preval_add(s, err));
    RON_TRY(led_stage_read_add(s, err));
    RON_TRY(led_stage_seq_add(s, err));
    RON_TRY(led_stage_commit_add(s, err));
    RON_TRY(led_stage_index_add(s, err));
    RON_TRY(led_stage_lead_add(s, err));
    RON_TRY(led_stage_health_add(s, err));
    led_routes_fill(s);
    return led_oap_add(s, err);
}

/* Key file, policy file and what may change of the settings. A mistake leaves the old in force. */
static void reloaded(struct ron_app *app)
{
    struct led_svc *s = ron_app_state(app);
    struct ron_conf_snap *conf = ron_conf_box_get(ron_app_conf_box(app));
    const char *key_file = ron_conf_str(conf, LED_KEY_FILE).text;
    const char *policy = ron_conf_str(conf, LED_POLICY_FILE).text;
    struct ron_err err = {0};
    bool changed = false;

    if (s->verifier != NULL && ron_cap_verifier_reload(s->verifier, ron_app_env(app), key_file,
                                                       &changed, &err) != RON_OK) {
        RON_LOG(s->log, ERROR, "the key file was not reloaded", RON_LOG_ERR(&err));
    }
    if (*policy != '\0' && led_guard_reload(s->guard, policy, &err) != RON_OK) {
        RON_LOG(s->log, ERROR, "the policy was not reloaded", RON_LOG_ERR(&err));
    }
    if (led_guard_set_bridges(s->guard, (enum led_bridges)ron_conf_choice(conf, LED_REVERSIBLE),
                              &err) != RON_OK) {
        RON_LOG(s->log, ERROR, "governance.reversible_bridges was not changed", RON_LOG_ERR(&err));
    }
    led_signer_set_interval(s->signer, (uint64_t)ron_conf_ms(conf, LED_ROOT_EMIT));
    ron_conf_unref(conf);
}

/* The last word of a drain: the final root, signed; a marker when sequenced works were left. */
static int finish(struct ron_app *app, int code)
{
    struct led_svc *s = ron_app_state(app);
    struct ron_err err = {0};
    struct led_svc_head head;

    led_svc_head(s, &head);
    led_signer_set_head(s->signer, head.seq, &head.root);
    if (led_svc_mode(s) == LED_RUNNING && led_signer_save(s->signer, &err) != RON_OK) {
        RON_LOG(s->log, WARN, "the last checkpoint was not saved", RON_LOG_ERR(&err));
    }
    if (code == 2 && s->dir[0] != '\0' && led_svc_mode(s) == LED_RUNNING && led_stage_seq_owes(s)) {
        led_svc_enter_safe(s, "drain", "not everything that had a seq was committed in time");
    }
    RON_LOG(s->log, INFO, "stopped", RON_LOG_U64("seq", head.seq));
    return code;
}

static void free_channels(struct led_svc *s)
{
    struct ron_chan **all[] = {&s->ingress, &s->batches, &s->validated, &s->commit,
                               &s->asks,    &s->reads,   &s->images};

    for (size_t i = 0; i < RON_ARRAY_LEN(all); i++) {
        if (*all[i] != NULL) {
            ron_chan_free(*all[i]);
        }
    }
}

static void take_down(struct ron_app *app)
{
    struct led_svc *s = ron_app_state(app);

    if (s == NULL) {
        return;
    }
    free_channels(s);
    led_stage_seq_free(s);
    led_lead_free(s->lead); /* its replay uses the engine */
    s->lead = NULL;
    led_recovered_done(&s->eng); /* ends the works that the sequencer keeps */
    RON_IGNORE(led_svc_remote_close(s));
    RON_IGNORE(led_oap_free(s));
    led_roots_free(s->roots);
    led_signer_free(s->signer);
    led_frozen_free(s->frozen);
    led_guard_free(s->guard);
    ron_cap_verifier_free(s->verifier);
    if (s->has_ring) {
        ron_cap_ring_done(&s->ring);
    }
    led_queries_free(s->queries);
    led_feed_free(s->feed);
    for (size_t i = 0; i < LED_SVC_BLOCKS; i++) {
        ron_free(ron_aptr_load(&s->blocks[i]));
    }
    led_works_free(s->works);
    led_metrics_free(s);
    ron_memdisk_free(s->memdisk);
    ron_free(s->readings);
    ron_free(s->health);
    ron_cond_done(&s->eng_free);
    ron_mutex_done(&s->head_lock);
    ron_mutex_done(&s->eng_lock);
    ron_free(s);
}

const struct ron_app_def led_app = {
    .conf = &led_conf_table,
    .summary =
        "ron-ledger: an append-only journal of value with Merkle proofs. Batches come in over\n"
        "HTTP or OAP/1, become durable in groups, and every root is signed.",
    .build = build,
    .reloaded = reloaded,
    .finish = finish,
    .take_down = take_down,
};
