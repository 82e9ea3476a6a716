/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/svc.c - `ron ledger`: from settings to a running pipeline, and back.
 *
 * Place: service. Build order: disk (memory in amnesia mode), engine by recovery, keys and guards,
 * signer, channels, tasks, fronts. Taken down in reverse after everything has stopped. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ledger/front/front.h"
#include "ledger/guard/frozen.h"
#include "ledger/ledger.h"
#include "ledger/recover/mark.h"
#include "ledger/stage/stage.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/hex.h"
#include "ron/io/memdisk.h"

#define SVC_MAGIC UINT32_C(0x56534c52) /* "RLSV" */

struct led_svc {
    uint32_t magic;
    struct led_core core;
    struct led_engine engine;
    struct led_pipes pipes;
    struct led_news news;
    struct led_gate gate;
    struct led_publish publish;
    struct led_lead *lead; /* NULL: the log is ours alone */
    struct led_preval_stage preval;
    struct led_seq_stage seq;
    struct led_commit_stage commit;
    struct led_read_stage read;
    struct led_index_stage index;
    struct led_health_stage health;
    struct led_front front;
};

/* ---- engine ---------------------------------------------------------------------------------- */

static void progress(void *arg, uint64_t seq, uint64_t last_seq)
{
    struct led_svc *s = RON_OBJ(arg, struct led_svc, SVC_MAGIC);
    uint64_t now_ns = ron_env_now_ns(s->engine.env);

    if (now_ns - s->engine.progress_ns < RON_NS_PER_S) {
        return; /* a line a second */
    }
    s->engine.progress_ns = now_ns;
    RON_LOG(s->core.log, INFO, "recovering", RON_LOG_U64("seq", seq), RON_LOG_U64("of", last_seq));
}

static void set_recover_opts(struct led_svc *s)
{
    const struct ron_conf_snap *c = s->core.conf;

    s->engine.recover = (struct led_recover_opts){
        .env = s->engine.env,
        .dir = s->engine.dir[0] != '\0' ? s->engine.dir : "/ledger",
        .index_in_memory = s->engine.dir[0] == '\0',
        .segment_bytes = (uint64_t)ron_conf_bytes(c, LED_SEGMENT_BYTES),
        .free_floor_bytes =
            s->engine.dir[0] == '\0' ? 0 : (uint64_t)ron_conf_bytes(c, LED_FREE_FLOOR),
        .torn_is_damage = ron_conf_choice(c, LED_TORN_TAIL) == LED_TORN_SAFE_MODE,
        .book = {.horizon_ms = (uint64_t)ron_conf_ms(c, LED_HORIZON)},
        .parallel = s->pipes.cpus > 1,
        .seq = {.own_work = led_stage_seq_own_work, .arg = &s->seq},
        .progress = progress,
        .progress_arg = s,
        .uuid = s->lead != NULL ? led_lead_uuid(s->lead) : NULL,
    };
    if (s->engine.dir[0] == '\0') {
        s->engine.recover.segment_bytes =
            RON_MIN(s->engine.recover.segment_bytes, (uint64_t)4 << 20);
    }
}

static enum ron_rc open_disk(struct led_svc *s, struct ron_err *err)
{
    struct ron_conf_str dir = ron_conf_str(s->core.conf, LED_DATA_DIR);

    if (ron_conf_choice(s->core.conf, LED_ENGINE_MODE) == LED_MODE_AMNESIA) {
        RON_TRY(ron_memdisk_new(s->engine.env,
                                (uint64_t)ron_conf_bytes(s->core.conf, LED_MEMORY_MAX),
                                &s->engine.memdisk, err));
        s->engine.env = ron_memdisk_env(s->engine.memdisk);
        return RON_OK;
    }
    if (dir.len >= sizeof s->engine.dir) {
        return ron_err_set(err, RON_INVALID, "engine.data_dir is too long");
    }
    memcpy(s->engine.dir, dir.text, dir.len + 1);
    return RON_OK;
}

/* V1 of replica/lead.h. */
static enum ron_rc place_in_shared_log(struct led_svc *s, struct ron_err *err)
{
    enum ron_rc rc = led_lead_place(s->lead, err);

    if (rc == RON_NOTFOUND) {
        led_engine_enter_safe(&s->engine, "the shared log lacks what is known here", err->msg);
        return RON_OK;
    }
    if (rc == RON_AGAIN || rc == RON_TIMEOUT || rc == RON_CLOSED) {
        RON_LOG(s->core.log, ERROR, "the database does not answer; the leader task looks later",
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
    s->engine.shared = s->lead != NULL;
    s->engine.log = s->core.log;
    s->engine.tracer = s->core.tracer;
    s->engine.news = &s->news;
    s->engine.feed = s->pipes.feed;
    RON_TRY(led_recover(&s->engine.recover, &s->engine.live, err));
    ron_au32_store(&s->engine.mode, s->lead != NULL ? LED_FOLLOWING : LED_RUNNING);
    RON_TRY(led_frozen_new(s->engine.env, s->engine.dir[0] != '\0' ? s->engine.dir : NULL,
                           &s->gate.frozen, err));
    s->engine.frozen = s->gate.frozen;
    if (led_engine_made(&s->engine, err) != RON_OK) {
        led_engine_enter_safe(&s->engine, "frozen accounts", err->msg);
    }
    RON_LOG(s->core.log, INFO, "journal open",
            RON_LOG_U64("seq", ron_au64_load(&s->engine.durable_seq)),
            RON_LOG_U64("replayed", s->engine.live.replayed),
            RON_LOG_U64("took_ms", s->engine.live.took_ms),
            RON_LOG_U64("torn_bytes", s->engine.live.report.torn_bytes));
    if (s->engine.live.report.damage != LED_DAMAGE_NONE) {
        (void)snprintf(why, sizeof why, "%.60s: %.60s", s->engine.live.report.where,
                       s->engine.live.report.what);
        if (s->engine.live.report.damage == LED_DAMAGE_CHAIN ||
            s->engine.live.report.damage == LED_DAMAGE_MISSING) {
            led_metrics_gap(s->core.metrics);
        }
        led_engine_enter_safe(&s->engine, led_damage_name(s->engine.live.report.damage), why);
        return RON_OK;
    }
    if (s->engine.live.mark.set) {
        led_engine_enter_safe(&s->engine, "marked", s->engine.live.mark.why);
    }
    return s->lead != NULL ? place_in_shared_log(s, err) : RON_OK;
}

/* ---- guards ---------------------------------------------------------------------------------- */

static enum ron_rc read_uids(struct led_svc *s, uint32_t *uids, size_t *ret_count,
                             struct ron_err *err)
{
    struct ron_conf_list list = ron_conf_list(s->core.conf, LED_PRIV_UIDS);

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
    const char *path = ron_conf_str(s->core.conf, LED_KEY_FILE).text;
    struct ron_cap_keys *found = NULL;
    enum ron_rc rc;

    if (*path == '\0') {
        return ron_conf_str(s->core.conf, LED_KMS_URL).len > 0
                   ? RON_OK
                   : ron_err_set(err, RON_INVALID,
                                 "auth.key_file must be set (`ron cap key new` makes one), or "
                                 "kms.url");
    }
    rc = ron_cap_keyfile_load(ron_app_env(s->core.app), path, &found, err);
    if (rc != RON_OK) {
        ron_err_prefix(err, "auth.key_file");
        return rc;
    }
    ron_cap_ring_init(&s->gate.ring, found);
    s->gate.has_ring = true;
    RON_TRY(ron_cap_verifier_new(
        &(struct ron_cap_verifier_opts){.env = ron_app_env(s->core.app), .ring = &s->gate.ring},
        &s->gate.verifier, err));
    return ron_collect_cap(ron_app_metrics(s->core.app), s->gate.verifier, err);
}

static enum ron_rc open_guard(struct led_svc *s, struct ron_err *err)
{
    struct ron_conf_list names = ron_conf_list(s->core.conf, LED_PRIV_NAMES);
    const char *texts[LED_BOUND_NAMES_MAX];
    uint32_t uids[LED_BOUND_UIDS_MAX];
    size_t uid_count = 0;
    const char *policy = ron_conf_str(s->core.conf, LED_POLICY_FILE).text;
    enum ron_rc rc;
    bool bound;

    RON_TRY(open_keys(s, err));
    RON_TRY(read_uids(s, uids, &uid_count, err));
    for (size_t i = 0; i < names.count; i++) {
        texts[i] = names.items[i].text;
    }
    bound = names.count + uid_count > 0;
    rc = led_guard_new(
        &(struct led_guard_opts){
            .env = ron_app_env(s->core.app),
            .verifier = s->gate.verifier,
            .metrics = ron_app_metrics(s->core.app),
            .bridges = (enum led_bridges)ron_conf_choice(s->core.conf, LED_REVERSIBLE),
            .amnesia = s->engine.dir[0] == '\0',
            .require_kid = ron_conf_bool(s->core.conf, LED_REQUIRE_KID),
            .bound_scopes = bound ? led_scopes_privileged() : 0,
            .bound_names = texts,
            .bound_name_count = names.count,
            .bound_uids = uids,
            .bound_uid_count = uid_count,
            .remote_policy = ron_conf_str(s->core.conf, LED_POLICY_URL).len > 0,
            .remote_wallet = ron_conf_str(s->core.conf, LED_WALLET_URL).len > 0},
        &s->gate.guard, err);
    if (rc != RON_OK) {
        if (rc == RON_INVALID) { /* nothing else of these can be wrong */
            ron_err_prefix(err, "auth.privileged_names");
        }
        return rc;
    }
    s->engine.preval.guard = s->gate.guard;
    s->engine.preval.json_max = (uint32_t)ron_conf_int(s->core.conf, LED_BATCH_MAX);
    rc = *policy == '\0' ? RON_OK : led_guard_reload(s->gate.guard, policy, err);
    if (rc != RON_OK) {
        ron_err_prefix(err, "policy.file");
    }
    return rc;
}

/* ---- signer ---------------------------------------------------------------------------------- */

static enum ron_rc open_signer(struct led_svc *s, struct ron_err *err)
{
    bool amnesia = s->engine.dir[0] == '\0';
    struct ron_conf_list list = ron_conf_list(s->core.conf, LED_WITNESSES);
    struct ron_conf_str origin = ron_conf_str(s->core.conf, LED_SIGN_ORIGIN);
    struct ron_conf_str key = ron_conf_str(s->core.conf, LED_SIGN_KEY);
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
    led_log_head(s->engine.live.log, &head);
    ron_hex(head.uuid, LED_UUID_SIZE, hex);
    (void)snprintf(made, sizeof made, "ron-ledger/%s", hex);
    (void)snprintf(key_path, sizeof key_path, "%s/signing.key", s->engine.dir);
    (void)snprintf(checkpoint_path, sizeof checkpoint_path, "%s/checkpoint", s->engine.dir);
    rc = led_signer_new(
        &(struct led_signer_opts){
            .env = ron_app_env(s->core.app),
            .key_path = key.len > 0 ? key.text
                        : amnesia   ? NULL
                                    : key_path,
            .key_must_exist = amnesia,
            .checkpoint_path = amnesia ? NULL : checkpoint_path,
            .origin = origin.len > 0 ? (struct ron_str){origin.text, origin.len}
                                     : (struct ron_str){made, strlen(made)},
            .witnesses = witnesses,
            .witness_count = list.count,
            .interval_ms = (uint64_t)ron_conf_ms(s->core.conf, LED_ROOT_EMIT)},
        &s->publish.signer, err);
    if (rc == RON_NOTFOUND && amnesia) {
        ron_err_prefix(err, "signing.key_file: amnesia leaves no trace and makes no key");
    }
    return rc;
}

static enum ron_rc make_needs(struct led_svc *s, struct ron_err *err)
{
    struct ron_needs *needs = ron_app_needs(s->core.app);

    RON_TRY(ron_needs_add(needs, "safe_mode", false, &s->engine.need_safe, err));
    RON_TRY(ron_needs_add(needs, "commit_queue", false, &s->health.need_commit, err));
    RON_TRY(ron_needs_add(needs, "disk_space", false, &s->index.need_disk, err));
    return ron_needs_add(needs, "index", false, &s->index.need_index, err);
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void collect(struct ron_scrape *scrape, void *arg)
{
    struct led_svc *s = RON_OBJ(arg, struct led_svc, SVC_MAGIC);
    enum led_mode mode = led_engine_mode(&s->engine);

    led_metrics_scrape(
        s->core.metrics, scrape,
        &(struct led_gauges){.safe_mode = mode == LED_SAFE || mode == LED_SWAPPING,
                             .leads = mode == LED_RUNNING && led_lead_sure(s->lead),
                             .epoch = led_lead_epoch(s->lead),
                             .head_seq = ron_au64_load(&s->engine.durable_seq),
                             .indexed_seq = ron_au64_load(&s->news.indexed_seq),
                             .log_bytes = ron_au64_load(&s->news.log_bytes),
                             .segments_late = ron_au64_load(&s->news.segments_late)});
}

static enum ron_rc make_metrics(struct led_svc *s, struct ron_err *err)
{
    struct ron_metrics *metrics = ron_app_metrics(s->core.app);

    RON_TRY(led_metrics_new(ron_app_env(s->core.app), metrics, &s->core.metrics, err));
    s->pipes.metrics = s->core.metrics;
    return ron_metrics_collector(metrics, collect, s, err);
}

/* ---- build, reload, take down ---------------------------------------------------------------- */

static enum ron_rc open_roots(struct led_svc *s, struct ron_err *err)
{
    struct led_head head;

    led_engine_head(&s->engine, &head);
    led_signer_set_head(s->publish.signer, head.seq, &head.root);
    RON_TRY(
        led_roots_new(&(struct led_roots_opts){.env = ron_app_env(s->core.app),
                                               .registry = ron_app_registry(s->core.app),
                                               .signer = s->publish.signer,
                                               .head_seq = ron_au64_load(&s->engine.durable_seq),
                                               .older = led_routes_older,
                                               .on_root = led_oap_on_root,
                                               .arg = &s->front},
                      &s->publish.roots, err));
    s->publish.on_commit = led_oap_on_commit;
    s->publish.arg = &s->front;
    RON_TRY(led_roots_metrics(s->publish.roots, ron_app_metrics(s->core.app), err));
    return led_roots_attach(s->publish.roots, ron_app_sup(s->core.app), err);
}

static enum ron_rc open_lead(struct led_svc *s, struct ron_err *err)
{
    return led_lead_open(&(struct led_lead_opts){.core = &s->core,
                                                 .engine = &s->engine,
                                                 .pipes = &s->pipes,
                                                 .news = &s->news,
                                                 .gate = &s->gate,
                                                 .publish = &s->publish},
                         &s->lead, err);
}

/* Gives each stage, and the fronts, the parts that it uses. Members that were set before stay. */
static void wire(struct led_svc *s)
{
    bool reads_open = ron_conf_choice(s->core.conf, LED_AUTH_READS) == LED_READS_OPEN;

    s->preval.core = &s->core;
    s->preval.engine = &s->engine;
    s->preval.pipes = &s->pipes;
    s->preval.gate = &s->gate;

    s->seq.core = &s->core;
    s->seq.engine = &s->engine;
    s->seq.pipes = &s->pipes;
    s->seq.news = &s->news;

    s->commit.core = &s->core;
    s->commit.engine = &s->engine;
    s->commit.pipes = &s->pipes;
    s->commit.news = &s->news;
    s->commit.publish = &s->publish;
    s->commit.lead = s->lead;

    s->read.core = &s->core;
    s->read.engine = &s->engine;
    s->read.pipes = &s->pipes;
    s->read.news = &s->news;
    s->read.gate = &s->gate;
    s->read.publish = &s->publish;
    s->read.lead = s->lead;
    s->read.reads_open = reads_open;

    s->index.core = &s->core;
    s->index.engine = &s->engine;
    s->index.pipes = &s->pipes;
    s->index.news = &s->news;
    s->index.publish = &s->publish;

    s->health.core = &s->core;
    s->health.pipes = &s->pipes;
    s->health.news = &s->news;
    s->health.gate = &s->gate;

    s->front.magic = LED_FRONT_MAGIC;
    s->front.core = &s->core;
    s->front.engine = &s->engine;
    s->front.pipes = &s->pipes;
    s->front.gate = &s->gate;
    s->front.publish = &s->publish;
    s->front.lead = s->lead;
    s->front.reads_open = reads_open;
}

static enum ron_rc build(struct ron_app *app, struct ron_err *err)
{
    struct led_svc *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the ledger");
    }
    s->magic = SVC_MAGIC;
    ron_app_set_state(app, s);
    s->core = (struct led_core){.app = app,
                                .conf = ron_app_conf(app),
                                .log = ron_app_log(app),
                                .tracer = ron_app_tracer(app)};
    s->engine.env = ron_app_env(app);
    ron_mutex_init(&s->engine.lock, RON_RANK_SHARED, "ledger.engine");
    ron_mutex_init(&s->engine.head_lock, RON_RANK_LEAF, "ledger.head");
    ron_cond_init(&s->engine.idle);
    led_gate_init(&s->gate, ron_app_env(app));
    RON_TRY(led_pipes_init(&s->pipes, app, err));
    RON_TRY(make_needs(s, err));
    RON_TRY(make_metrics(s, err));
    RON_TRY(open_disk(s, err));
    RON_TRY(open_guard(s, err));
    RON_TRY(open_lead(s, err));
    wire(s);
    RON_TRY(open_engine(s, err));
    RON_TRY(open_signer(s, err));
    RON_TRY(led_pipes_open(&s->pipes, app, err));
    RON_TRY(open_roots(s, err));
    RON_TRY(led_stage_remote_open(&s->core, &s->gate, err));
    RON_TRY(led_stage_preval_add(&s->preval, err));
    RON_TRY(led_stage_read_add(&s->read, err));
    RON_TRY(led_stage_seq_add(&s->seq, err));
    RON_TRY(led_stage_commit_add(&s->commit, err));
    RON_TRY(led_stage_index_add(&s->index, err));
    RON_TRY(led_stage_lead_add(s->lead, err));
    RON_TRY(led_stage_health_add(&s->health, err));
    led_routes_fill(&s->front);
    return led_oap_add(&s->front, err);
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

    if (s->gate.verifier != NULL && ron_cap_verifier_reload(s->gate.verifier, ron_app_env(app),
                                                            key_file, &changed, &err) != RON_OK) {
        RON_LOG(s->core.log, ERROR, "the key file was not reloaded", RON_LOG_ERR(&err));
    }
    if (*policy != '\0' && led_guard_reload(s->gate.guard, policy, &err) != RON_OK) {
        RON_LOG(s->core.log, ERROR, "the policy was not reloaded", RON_LOG_ERR(&err));
    }
    if (led_guard_set_bridges(s->gate.guard,
                              (enum led_bridges)ron_conf_choice(conf, LED_REVERSIBLE),
                              &err) != RON_OK) {
        RON_LOG(s->core.log, ERROR, "governance.reversible_bridges was not changed",
                RON_LOG_ERR(&err));
    }
    led_signer_set_interval(s->publish.signer, (uint64_t)ron_conf_ms(conf, LED_ROOT_EMIT));
    ron_conf_unref(conf);
}

/* The last word of a drain: the final root, signed; a marker when sequenced works were left. */
static int finish(struct ron_app *app, int code)
{
    struct led_svc *s = ron_app_state(app);
    struct ron_err err = {0};
    struct led_head head;

    led_engine_head(&s->engine, &head);
    led_signer_set_head(s->publish.signer, head.seq, &head.root);
    if (led_engine_mode(&s->engine) == LED_RUNNING &&
        led_signer_save(s->publish.signer, &err) != RON_OK) {
        RON_LOG(s->core.log, WARN, "the last checkpoint was not saved", RON_LOG_ERR(&err));
    }
    if (code == 2 && s->engine.dir[0] != '\0' && led_engine_mode(&s->engine) == LED_RUNNING &&
        led_stage_seq_owes(&s->seq)) {
        led_engine_enter_safe(&s->engine, "drain",
                              "not everything that had a seq was committed in time");
    }
    RON_LOG(s->core.log, INFO, "stopped", RON_LOG_U64("seq", head.seq));
    return code;
}

static void take_down(struct ron_app *app)
{
    struct led_svc *s = ron_app_state(app);

    if (s == NULL) {
        return;
    }
    led_pipes_close(&s->pipes);
    led_lead_free(s->lead); /* its replay uses the engine */
    s->lead = NULL;
    led_recovered_done(&s->engine.live); /* ends the works that the sequencer keeps */
    RON_IGNORE(led_gate_close(&s->gate));
    RON_IGNORE(led_oap_free(&s->front));
    led_roots_free(s->publish.roots);
    led_signer_free(s->publish.signer);
    led_gate_done(&s->gate);
    for (size_t i = 0; i < LED_NEWS_BLOCKS; i++) {
        ron_free(ron_aptr_load(&s->news.blocks[i]));
    }
    led_pipes_done(&s->pipes);
    led_metrics_free(s->core.metrics);
    ron_memdisk_free(s->engine.memdisk);
    led_stage_read_free(&s->read);
    ron_cond_done(&s->engine.idle);
    ron_mutex_done(&s->engine.head_lock);
    ron_mutex_done(&s->engine.lock);
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
