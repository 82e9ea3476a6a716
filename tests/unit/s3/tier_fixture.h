/* SPDX-License-Identifier: Apache-2.0 */
/* tier_fixture.h - a content store with a bucket behind it, in this process. A folder outlives the
 * tier that used it, so that a test can have a second life. */
#pragma once

#include "unit/s3/fixture.h"

#include <dirent.h>

#include "cas/cas_priv.h"
#include "ron/s3/tier.h"
#include "s3/tier_priv.h"

#define TIER_TEST_CONF(X)                                                                          \
    X(TIER_TEST_AMNESIA, "amnesia.enabled", BOOL, "", 0, 0, "false", RON_CONF_FIXED, "Amnesia.")   \
    RON_TIER_KEYS(X)
enum { TIER_TEST_CONF(RON_CONF_ID) TIER_TEST_CONF_COUNT };
static const struct ron_conf_key tier_test_keys[] = {TIER_TEST_CONF(RON_CONF_ROW)};
static const struct ron_conf_table tier_test_table = {
    .service = "test", .keys = tier_test_keys, .key_count = TIER_TEST_CONF_COUNT};

struct tx {
    struct fx *fx;
    struct pail *pail;
    struct ron_conf_snap *conf;
    struct ron_metrics *metrics;
    struct ron_needs *needs;
    struct ron_cas *store;
    struct ron_tier *tier;
    struct ron_err err;
    const char *dir;
};

/* `more` are settings, ended by NULL; the pail is the caller's. */
static inline enum ron_rc tx_try(struct tx *x, struct pail *pail, const char *dir, bool keep,
                                 const char *const *more)
{
    static const char *const variables[] = {"TIER_SECRET=secret", NULL};
    char endpoint[64];
    char path[512];
    const char *flags[24] = {endpoint,
                             "s3.bucket=bucket",
                             "s3.prefix=pre/",
                             "s3.access_key=k",
                             "s3.secret_key_env=TIER_SECRET",
                             "s3.allow_http=true",
                             "s3.timeout=2s",
                             "s3.part_bytes=5MiB"};
    size_t count = 8;

    for (size_t i = 0; more != NULL && more[i] != NULL; i++) {
        flags[count++] = more[i];
    }
    x->pail = pail;
    x->dir = dir;
    (void)snprintf(endpoint, sizeof endpoint, "s3.endpoint=http://127.0.0.1:%u", pail->port);
    (void)snprintf(path, sizeof path, "%s/store", dir);
    RON_TRY(ron_conf_load(NULL, &tier_test_table,
                          &(struct ron_conf_sources){.flags = flags, .flag_count = count}, &x->conf,
                          &x->err));
    RON_TRY(ron_metrics_new(NULL, &x->metrics, &x->err));
    RON_TRY(ron_needs_new(x->fx->sup, &x->needs, &x->err));
    RON_TRY(ron_cas_new(&(struct ron_cas_opts){.env = &x->fx->env,
                                               .dir = path,
                                               .bytes_max = 64 << 20,
                                               .free_floor_bytes = RON_CAS_NO_FLOOR},
                        &x->store, &x->err));
    RON_TRY(ron_cas_load(x->store, NULL, NULL, &x->err));
    RON_TRY(ron_tier_check(x->conf, &x->err));
    return ron_tier_new(&(struct ron_tier_opts){.env = &x->fx->env,
                                                .registry = x->fx->reg,
                                                .sup = x->fx->sup,
                                                .metrics = x->metrics,
                                                .needs = x->needs,
                                                .conf = x->conf,
                                                .environ = variables,
                                                .store = x->store,
                                                .store_bytes = 64 << 20,
                                                .dir = dir,
                                                .keep = keep},
                        &x->tier, &x->err);
}

static inline struct tx *tx_open(struct pail *pail, const char *dir, bool keep,
                                 const char *const *more)
{
    struct tx *x = calloc(1, sizeof *x);

    RON_ASSERT(x != NULL);
    x->fx = fx_open(1);
    if (tx_try(x, pail, dir, keep, more) != RON_OK) {
        fail_msg("fixture: %s", x->err.msg);
    }
    fx_start(x->fx);
    return x;
}

/* Takes down what tx_try made, as far as it came. */
static inline void tx_free(struct tx *x)
{
    fx_end(x->fx);
    ron_tier_free(x->tier);
    if (x->store != NULL) {
        ron_cas_free(x->store);
    }
    if (x->needs != NULL) {
        ron_needs_free(x->needs);
    }
    if (x->metrics != NULL) {
        ron_metrics_free(x->metrics);
    }
    if (x->conf != NULL) {
        ron_conf_unref(x->conf);
    }
    fx_done(x->fx);
    free(x);
}

static inline void tx_close(struct tx *x)
{
    assert_int_equal(fx_stop(x->fx), RON_EXIT_DRAINED);
    tx_free(x);
}

/* Writes an object as a service does. */
static inline enum ron_rc tx_write(struct tx *x, const void *bytes, size_t len,
                                   struct ron_b3 *ret_id)
{
    struct ron_cas_writer *w = NULL;

    RON_TRY(ron_tier_admit(x->tier, &x->err));
    RON_TRY(ron_cas_begin(x->store, &(struct ron_cas_write_opts){.pin = ron_tier_pins(x->tier)}, &w,
                          &x->err));
    RON_IGNORE(ron_cas_append(w, bytes, len, &x->err));
    RON_TRY(ron_cas_commit(w, ret_id, &x->err));
    return ron_tier_stored(x->tier, ret_id, ron_deadline_never(), &x->err);
}

static inline uint64_t tx_metric(struct tx *x, const char *line)
{
    struct ron_buf out;
    uint64_t value = 0;
    char wanted[128];
    const char *at;

    (void)snprintf(wanted, sizeof wanted, "\n%s ", line);
    ron_buf_init(&out, RON_METRIC_TEXT_MAX);
    assert_int_equal(ron_metrics_write(x->metrics, &out), RON_OK);
    at = strstr(ron_buf_text(&out), wanted);
    if (at != NULL) {
        value = strtoull(at + strlen(wanted), NULL, 10);
    }
    ron_buf_done(&out);
    return value;
}

static inline bool tx_arrived(struct tx *x, const struct ron_b3 *id, const void *bytes, size_t len)
{
    char key[RON_TIER_KEY_SIZE];

    ron_tier_key(id, key);
    return pail_has(x->pail, key, bytes, len);
}

static inline void tx_place(struct tx *x, const struct ron_b3 *id, const void *bytes, size_t len)
{
    char key[RON_TIER_KEY_SIZE];

    ron_tier_key(id, key);
    pail_place(x->pail, key, bytes, len);
}

/* Files that wait. */
static inline size_t tx_files(const char *dir)
{
    char path[512];
    size_t count = 0;
    struct dirent *e;
    DIR *d;

    (void)snprintf(path, sizeof path, "%s/s3-waiting", dir);
    d = opendir(path);
    while (d != NULL && (e = readdir(d)) != NULL) {
        count += e->d_name[0] != '.';
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return count;
}

static inline bool pail_say_503(struct pail *p, int fd, const char *head)
{
    (void)p;
    (void)head;
    pail_say(fd, 503, "Connection: close\r\n", "");
    return true;
}
