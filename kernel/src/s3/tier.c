/* SPDX-License-Identifier: Apache-2.0 */
/* tier.c - the second tier: settings, life, readiness, counters. */
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/file.h"
#include "s3/s3_priv.h"
#include "tier_priv.h"

enum { SECRET_MAX = 256 };

/* ---- settings -------------------------------------------------------------------------------- */

static size_t key_of(const struct ron_conf_snap *conf, const char *name)
{
    size_t key = ron_conf_find_key(ron_conf_table_of(conf), name);

    RON_ASSERT(key != SIZE_MAX);
    return key;
}

static const char *text_of(const struct ron_conf_snap *conf, const char *name)
{
    return ron_conf_str(conf, key_of(conf, name)).text;
}

bool ron_tier_configured(const struct ron_conf_snap *conf)
{
    return text_of(conf, "s3.endpoint")[0] != '\0';
}

static struct ron_s3_opts s3_opts(const struct ron_conf_snap *conf)
{
    const char *ca = text_of(conf, "s3.ca_file");

    return (struct ron_s3_opts){
        .endpoint = text_of(conf, "s3.endpoint"),
        .bucket = text_of(conf, "s3.bucket"),
        .region = text_of(conf, "s3.region"),
        .prefix = text_of(conf, "s3.prefix"),
        .access_key = text_of(conf, "s3.access_key"),
        .ca_file = ca[0] != '\0' ? ca : NULL,
        .allow_http = ron_conf_bool(conf, key_of(conf, "s3.allow_http")),
        .timeout_ms = (uint32_t)ron_conf_ms(conf, key_of(conf, "s3.timeout")),
        .part_bytes = (uint32_t)ron_conf_bytes(conf, key_of(conf, "s3.part_bytes"))};
}

static enum ron_tier_write write_of(const struct ron_conf_snap *conf)
{
    return (enum ron_tier_write)ron_conf_choice(conf, key_of(conf, "s3.write"));
}

enum ron_rc ron_tier_check(const struct ron_conf_snap *conf, struct ron_err *err)
{
    struct ron_s3_opts opts = s3_opts(conf);
    bool file = text_of(conf, "s3.secret_key_file")[0] != '\0';
    bool variable = text_of(conf, "s3.secret_key_env")[0] != '\0';

    if (!ron_tier_configured(conf)) {
        return RON_OK;
    }
    RON_TRY(ron_s3_check(&opts, err));
    if (file == variable) {
        return ron_err_set(err, RON_INVALID,
                           "s3: one of secret_key_file and secret_key_env must be set");
    }
    if (ron_conf_bool(conf, key_of(conf, "amnesia.enabled")) &&
        write_of(conf) != RON_TIER_WRITE_OFF) {
        return ron_err_set(err, RON_INVALID,
                           "s3.write: amnesia leaves nothing behind, so it must be off");
    }
    return RON_OK;
}

static const char *find_variable(const char *const *variables, const char *name)
{
    size_t len = strlen(name);

    for (; variables != NULL && *variables != NULL; variables++) {
        if (strncmp(*variables, name, len) == 0 && (*variables)[len] == '=') {
            return *variables + len + 1;
        }
    }
    return NULL;
}

static enum ron_rc read_secret(const struct ron_tier_opts *o, struct ron_secret *ret,
                               struct ron_err *err)
{
    const char *file = text_of(o->conf, "s3.secret_key_file");
    const char *name = text_of(o->conf, "s3.secret_key_env");
    const char *value = find_variable(o->environ, name);
    uint8_t bytes[SECRET_MAX];
    size_t len = 0;
    enum ron_rc rc = RON_OK;

    if (file[0] != '\0') {
        rc = ron_file_read_private(o->env, file, bytes, sizeof bytes, &len, err);
        while (rc == RON_OK && len > 0 && (bytes[len - 1] == '\n' || bytes[len - 1] == '\r')) {
            len--;
        }
    } else if (value != NULL && strlen(value) <= sizeof bytes) {
        len = strlen(value);
        memcpy(bytes, value, len);
    }
    if (rc == RON_OK && len == 0) {
        rc = ron_err_set(err, RON_INVALID, "s3: the secret key is missing, empty or too long");
    }
    if (rc == RON_OK && ron_secret_set(ret, bytes, len) != RON_OK) {
        rc = ron_err_set(err, RON_NOMEM, "no memory for a secret");
    }
    ron_wipe(bytes, sizeof bytes);
    return rc;
}

/* ---- readiness ------------------------------------------------------------------------------- */

static bool says_nothing(enum ron_s3_outcome o)
{
    return o == RON_S3_IS_FULL || o == RON_S3_IS_CANCELLED || o == RON_S3_IS_MEMORY;
}

static bool is_well(enum ron_s3_outcome o)
{
    return o == RON_S3_IS_OK || o == RON_S3_IS_ABSENT || o == RON_S3_IS_EXISTS;
}

/* After every request: the need follows the last word of the server. */
static void on_ended(void *arg, enum ron_s3_outcome outcome)
{
    struct ron_tier *t = arg;
    char cause[RON_NEED_CAUSE_MAX + 1];
    uint32_t now = is_well(outcome) ? (uint32_t)RON_S3_IS_OK : (uint32_t)outcome;

    if (says_nothing(outcome) || ron_au32_load(&t->need_outcome) == now) {
        return;
    }
    ron_au32_store(&t->need_outcome, now);
    if (is_well(outcome)) {
        ron_need_set(t->need, RON_NEED_OK, NULL, 0);
        RON_LOG_TEXT(t->opts.log, INFO, "the S3 server answers again");
        return;
    }
    (void)snprintf(cause, sizeof cause, "the S3 server: %s; local objects are served",
                   ron_s3_outcome_label(outcome));
    ron_need_set(t->need, RON_NEED_DEGRADED, cause, 0);
    RON_LOG(t->opts.log, WARN, "the S3 server does not work",
            RON_LOG_STR("outcome", ron_s3_outcome_label(outcome)));
}

/* ---- counters -------------------------------------------------------------------------------- */

static void collect(struct ron_scrape *scrape, void *arg)
{
    struct ron_tier *t = arg;

    ron_scrape_add(scrape, t->gauge_objects, ron_au64_load(&t->backlog), NULL);
    ron_scrape_add(scrape, t->gauge_bytes, ron_au64_load(&t->backlog_bytes), NULL);
}

static enum ron_rc count_in(struct ron_tier *t, struct ron_err *err)
{
    static const char *const reads[] = {
#define X(name, label) label,
        RON_TIER_READS(X)
#undef X
    };
    static const char *const writes[] = {
#define X(name, label) label,
        RON_TIER_WRITES(X)
#undef X
    };
    struct ron_metric *read = ron_metrics_name(t->opts.metrics, RON_M_S3_READS);
    struct ron_metric *written = ron_metrics_name(t->opts.metrics, RON_M_S3_WRITES);

    for (size_t i = 0; i < RON_ARRAY_LEN(reads); i++) {
        t->reads[i] = ron_metric_series(read, reads[i]);
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(writes); i++) {
        t->writes[i] = ron_metric_series(written, writes[i]);
    }
    t->gauge_objects = ron_metrics_name(t->opts.metrics, RON_M_S3_BACKLOG);
    t->gauge_bytes = ron_metrics_name(t->opts.metrics, RON_M_S3_BACKLOG_BYTES);
    return ron_metrics_collector(t->opts.metrics, collect, t, err);
}

/* ---- life ------------------------------------------------------------------------------------ */

static enum ron_rc open_s3(struct ron_tier *t, struct ron_err *err)
{
    struct ron_s3_opts opts = s3_opts(t->opts.conf);
    struct ron_secret secret = {0};
    enum ron_rc rc = read_secret(&t->opts, &secret, err);

    opts.env = t->opts.env;
    opts.registry = t->opts.registry;
    opts.metrics = t->opts.metrics;
    opts.secret = &secret;
    opts.stage = t->opts.stage + 1;
    opts.ended = on_ended;
    opts.ended_arg = t;
    if (rc == RON_OK) {
        rc = ron_s3_new(&opts, &t->s3, err);
    }
    ron_secret_done(&secret);
    RON_TRY(rc);
    return ron_s3_attach(t->s3, t->opts.sup, err);
}

static void drop_nothing(void *value)
{
    (void)value;
}

static enum ron_rc fill(struct ron_tier *t, struct ron_err *err)
{
    const struct ron_conf_snap *conf = t->opts.conf;

    t->write = write_of(conf);
    t->fetches = (uint32_t)ron_conf_int(conf, key_of(conf, "s3.fetches"));
    t->backlog_max = (uint64_t)ron_conf_int(conf, key_of(conf, "s3.backlog"));
    t->backlog_bytes_max = t->opts.store_bytes / 2;
    RON_TRY(ron_needs_add(t->opts.needs, "s3", false, &t->need, err));
    RON_TRY(count_in(t, err));
    RON_TRY(
        ron_flights_new(&(struct ron_flights_opts){.env = t->opts.env, .drop_value = drop_nothing},
                        &t->flights, err));
    RON_TRY(open_s3(t, err));
    if (t->write == RON_TIER_WRITE_QUEUE) {
        RON_TRY(
            ron__tier_queue_new(t, (uint32_t)ron_conf_int(conf, key_of(conf, "s3.uploads")), err));
    }
    return ron__tier_sweeper_add(t, err);
}

enum ron_rc ron_tier_new(const struct ron_tier_opts *opts, struct ron_tier **ret_tier,
                         struct ron_err *err)
{
    struct ron_tier *t;
    enum ron_rc rc;

    *ret_tier = NULL;
    if (!ron_tier_configured(opts->conf)) {
        return RON_OK;
    }
    t = ron_alloc_zero(sizeof *t);
    if (t == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the S3 tier");
    }
    t->magic = RON__TIER_MAGIC;
    t->opts = *opts;
    t->life = ron_env_wall_ms(opts->env);
    ron_mutex_init(&t->bad_mu, RON_RANK_LEAF, "s3.bad");
    rc = fill(t, err);
    *ret_tier = t; /* also after a failure: tasks may know it, and end before it is freed */
    return rc;
}

void ron_tier_free(struct ron_tier *t)
{
    if (t == NULL) {
        return;
    }
    RON_CHECK_MAGIC(t, RON__TIER_MAGIC);
    ron__tier_queue_free(t);
    ron_s3_free(t->s3);
    if (t->flights != NULL) {
        ron_flights_free(t->flights);
    }
    ron_mutex_done(&t->bad_mu);
    t->magic = 0;
    ron_free(t);
}

uint32_t ron_tier_fetches(const struct ron_tier *t)
{
    return t != NULL ? t->fetches : 0;
}

struct ron_s3 *ron_tier_s3(struct ron_tier *t)
{
    return t != NULL ? t->s3 : NULL;
}

bool ron_tier_writes(const struct ron_tier *t)
{
    return t != NULL && t->write != RON_TIER_WRITE_OFF;
}

enum ron_rc ron__tier_rc(enum ron_rc rc)
{
    return rc == RON_CLOSED ? RON_AGAIN : rc == RON_DENIED || rc == RON_EXISTS ? RON_IO : rc;
}

void ron_tier_key(const struct ron_b3 *id, char ret_key[RON_TIER_KEY_SIZE])
{
    char hex[RON_B3_HEX_LEN];

    ron_b3_format_hex(id, hex);
    (void)snprintf(ret_key, RON_TIER_KEY_SIZE, "o/%.2s/%.*s", hex, (int)sizeof hex, hex);
}

/* ---- objects of the bucket that are not what their name says --------------------------------- */

/* The place, or the count. With the lock held. */
static uint32_t bad_find(const struct ron_tier *t, const struct ron_b3 *id)
{
    uint32_t i = 0;

    while (i < t->bad_count && !ron_b3_equal(&t->bad[i], id)) {
        i++;
    }
    return i;
}

void ron__tier_bad_add(struct ron_tier *t, const struct ron_b3 *id)
{
    ron_mutex_lock(&t->bad_mu);
    if (bad_find(t, id) == t->bad_count) {
        t->bad[t->bad_next] = *id;
        t->bad_next = (t->bad_next + 1) % RON__TIER_BAD_MAX;
        t->bad_count = RON_MIN(t->bad_count + 1, (uint32_t)RON__TIER_BAD_MAX);
    }
    ron_mutex_unlock(&t->bad_mu);
}

bool ron__tier_bad_has(struct ron_tier *t, const struct ron_b3 *id)
{
    bool has;

    ron_mutex_lock(&t->bad_mu);
    has = bad_find(t, id) < t->bad_count;
    ron_mutex_unlock(&t->bad_mu);
    return has;
}

void ron__tier_bad_drop(struct ron_tier *t, const struct ron_b3 *id)
{
    uint32_t i;

    ron_mutex_lock(&t->bad_mu);
    i = bad_find(t, id);
    if (i < t->bad_count) {
        t->bad[i] = (struct ron_b3){0}; /* an id that nothing has */
    }
    ron_mutex_unlock(&t->bad_mu);
}
