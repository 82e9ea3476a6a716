/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/replica/lead_posix.c - several ledgers on one log: connections, place in the log, and what
 * others are told; the contract is in lead.h. */
#include <stdio.h>
#include <string.h>

#include "ledger/replica/lead_priv.h"
#include "ron/base/alloc.h"

enum { CONNECT_MS = 900 }; /* twice in LED_LEAD_CALL_MS: for a host that is silent, and the next */

/* ---- life ------------------------------------------------------------------------------------ */

static enum ron_rc sink_append(void *arg, const struct led_frame *frame, const uint8_t *bytes,
                               size_t len, struct ron_err *err)
{
    struct led_lead *l = RON_OBJ(arg, struct led_lead, LED_LEAD_MAGIC);

    return led_pg_append(l->append, &l->at, frame, bytes, len, err);
}

void led__lead_set_hint(struct led_lead *l, const struct led_pg_place *place)
{
    ron_mutex_lock(&l->hint_lock);
    l->hint = *place;
    ron_mutex_unlock(&l->hint_lock);
}

bool led_lead_hint(struct led_lead *l, struct led_pg_place *ret_place)
{
    bool known = false;

    if (l != NULL) {
        ron_mutex_lock(&l->hint_lock);
        *ret_place = l->hint;
        ron_mutex_unlock(&l->hint_lock);
        known = ret_place->url[0] != '\0' || ret_place->oap[0] != '\0';
    }
    return known;
}

bool led_lead_sure(struct led_lead *l)
{
    uint64_t heard_ns;

    if (l == NULL) {
        return true;
    }
    heard_ns = ron_au64_load(&l->heard_ns);
    return led_engine_mode(l->engine) == LED_RUNNING && heard_ns != 0 &&
           ron_env_now_ns(l->engine->env) - heard_ns < l->lease_ms * RON_NS_PER_MS;
}

uint64_t led_lead_epoch(const struct led_lead *l)
{
    return l == NULL ? 0 : ron_au64_load(&l->latest_epoch);
}

void led_lead_tell(struct led_lead *l, struct ron_json_writer *j)
{
    struct led_pg_place leader;
    bool leads = led_lead_sure(l);

    if (l == NULL) {
        return;
    }
    ron_json_bool(j, "leads", leads);
    ron_json_u64(j, "epoch", led_lead_epoch(l));
    if (!leads && led_lead_hint(l, &leader) && leader.oap[0] != '\0') {
        ron_json_text(j, "leader", leader.oap);
    }
}

static struct led_pg_opts pg_opts(const struct led_lead *l)
{
    return (struct led_pg_opts){
        .env = ron_app_env(l->core->app),
        .conninfo = ron_conf_secret(l->core->conf, LED_PG_DSN).text,
        .ledger = ron_conf_str(l->core->conf, LED_PG_LEDGER).text,
        .connect_ms = CONNECT_MS,
        .call_ms = LED_LEAD_CALL_MS,
        .append_ms = (uint64_t)ron_conf_ms(l->core->conf, LED_PG_APPEND),
    };
}

static bool see_file(void *arg, const char *name, bool is_dir)
{
    bool *found = arg;

    (void)name;
    *found = *found || !is_dir;
    return !*found;
}

static bool has_copy(const struct led_lead *l)
{
    char path[sizeof l->engine->dir + 8];
    bool found = false;

    (void)snprintf(path, sizeof path, "%s/log", l->engine->dir);
    return l->engine->env->disk->list(l->engine->env, path, see_file, &found, NULL) == RON_OK &&
           found;
}

enum ron_rc led__lead_know(struct led_lead *l, struct ron_err *err)
{
    const struct led_pg_opts o = pg_opts(l);
    uint64_t random[2] = {l->engine->env->rand_u64(l->engine->env),
                          l->engine->env->rand_u64(l->engine->env)};

    if (l->known) {
        return RON_OK;
    }
    if (ron_conf_bool(l->core->conf, LED_PG_MIGRATE)) {
        RON_TRY(led_pg_migrate(&o, NULL, err));
    }
    RON_TRY(led_pg_genesis(l->tail, has_copy(l) ? NULL : (const uint8_t *)random, l->uuid, err));
    l->known = true;
    return RON_OK;
}

/* A database that is away keeps nobody from starting who has a copy of the log: it serves reads,
 * and finds its place when the database is there. */
static enum ron_rc connect_all(struct led_lead *l, struct ron_err *err)
{
    const struct led_pg_opts o = pg_opts(l);
    enum ron_rc rc;

    RON_TRY(led_pg_new(&o, &l->tail, err));
    RON_TRY(led_pg_new(&o, &l->append, err));
    RON_TRY(led_pg_new(&o, &l->freeze, err));
    rc = led__lead_know(l, err);
    if ((rc == RON_AGAIN || rc == RON_TIMEOUT || rc == RON_CLOSED) && has_copy(l)) {
        RON_LOG(l->core->log, ERROR, "the database does not answer; reads are served from the copy",
                RON_LOG_ERR(err));
        return RON_OK;
    }
    return rc;
}

enum ron_rc led_lead_open(const struct led_lead_opts *opts, struct led_lead **ret_lead,
                          struct ron_err *err)
{
    struct ron_conf_str oap = ron_conf_str(opts->core->conf, LED_PG_OAP);
    struct led_lead *l;
    enum ron_rc rc;

    if (ron_conf_choice(opts->core->conf, LED_ENGINE_SINK) != LED_SINK_POSTGRES) {
        return RON_OK;
    }
    l = ron_alloc_zero(sizeof *l);
    if (l == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the leader task");
    }
    l->magic = LED_LEAD_MAGIC;
    l->core = opts->core;
    l->engine = opts->engine;
    l->pipes = opts->pipes;
    l->news = opts->news;
    l->gate = opts->gate;
    l->publish = opts->publish;
    *ret_lead = l;
    l->sink = (struct led_sink){.append = sink_append, .arg = l};
    l->lease_ms = (uint64_t)ron_conf_ms(l->core->conf, LED_PG_LEASE);
    oap = oap.len != 0 ? oap : ron_conf_str(l->core->conf, LED_OAP_ADDR);
    (void)snprintf(l->place.url, sizeof l->place.url, "%s",
                   ron_conf_str(l->core->conf, LED_PG_URL).text);
    (void)snprintf(l->place.oap, sizeof l->place.oap, "%s", oap.text);
    ron_mutex_init(&l->hint_lock, RON_RANK_LEAF, "ledger.leader");
    ron_buf_init_aligned(&l->frame, LED_FRAME_MAX, RON_DIRECT_ALIGN);
    RON_TRY(ron_needs_add(ron_app_needs(l->core->app), "shared_log", false, &l->need, err));
    ron_need_set(l->need, RON_NEED_MISSING, "catching up with the shared log", 1);
    rc = connect_all(l, err);
    if (rc != RON_OK) {
        ron_err_prefix(err, "postgres");
    }
    return rc;
}

/* Everything has stopped, and what was under way is durable or refused: others need not wait for
 * the lease to run out. Where this fails they do. */
static void resign(struct led_lead *l)
{
    struct ron_err err = {0};

    if (led_engine_mode(l->engine) == LED_RUNNING && ron_au64_load(&l->heard_ns) != 0 &&
        led_pg_resign(l->tail, l->epoch, &err) != RON_OK) {
        RON_LOG(l->core->log, WARN, "the lead could not be given up", RON_LOG_ERR(&err));
    }
}

void led_lead_free(struct led_lead *l)
{
    if (l == NULL) {
        return;
    }
    resign(l);
    led_replay_free(l->replay);
    led_pg_free(l->tail);
    led_pg_free(l->append);
    led_pg_free(l->freeze);
    ron_buf_done(&l->frame);
    ron_mutex_done(&l->hint_lock);
    l->magic = 0;
    ron_free(l);
}

enum ron_rc led_lead_freeze(struct led_lead *l, struct ron_str account, bool frozen,
                            struct ron_err *err)
{
    enum ron_rc rc;

    if (l == NULL) {
        return RON_OK;
    }
    rc = led_pg_freeze(l->freeze, ron_au64_load(&l->latest_epoch), account, frozen, err);
    return rc == RON_CONFLICT ? ron_err_set(err, RON_CLOSED, "another ledger leads") : rc;
}

const uint8_t *led_lead_uuid(const struct led_lead *l)
{
    return l->uuid;
}

enum ron_rc led_lead_place(struct led_lead *l, struct ron_err *err)
{
    struct led_log_head head;

    if (!l->known) {
        return RON_OK; /* later, by the task */
    }
    led_log_head(l->engine->live.log, &head);
    if (memcmp(head.uuid, l->uuid, sizeof l->uuid) != 0) {
        return ron_err_set(err, RON_CONFLICT,
                           "the data directory is of another ledger than the database");
    }
    ron_au64_store(&l->latest_epoch, head.last_epoch);
    RON_TRY(led_pg_find(l->tail, head.last_seq, &head.root, head.last_epoch, head.time_ms, &l->at,
                        err));
    l->placed = true;
    return RON_OK;
}
