/* SPDX-License-Identifier: Apache-2.0 */
/* art_fixture.h - runs for the tests of their artefacts: a disk in memory, snapshots of any number
 * of payees, a policy, and runs computed from them. */
#pragma once

#include "support/support.h"

#include "rewarder/run/run.h"
#include "ron/io/file.h"
#include "ron/io/linux_env.h"
#include "ron/io/memdisk.h"

#define ART_POLICY(residual)                                                                       \
    "{\"v\":1,\"id\":\"policy:v1\",\"version\":3,\"funding_source\":\"creator_pool\","             \
    "\"asset\":\"roc\",\"max_payout_minor_units\":\"1000000000\","                                 \
    "\"min_payout_minor_units\":\"1\",\"weight_bps\":10000,\"rounding\":\"floor\","                \
    "\"residual\":\"" residual "\",\"weights\":{\"bytes_stored\":\"1\","                           \
    "\"bytes_served\":\"1/4\",\"uptime_seconds\":\"1\"}}"

#define ART_GOLDEN                                                                                 \
    "{\"produced_at_millis\":1,\"pool_minor_units\":\"1000\",\"contributions\":["                  \
    "{\"account\":\"acct_a\",\"bytes_stored\":100,\"bytes_served\":50,\"uptime_seconds\":10},"     \
    "{\"account\":\"acct_b\",\"bytes_stored\":200,\"bytes_served\":0,\"uptime_seconds\":20}]}"

enum { ART_DISK_BYTES = 64 << 20 };

struct art {
    struct ron_memdisk *disk;
    const struct ron_env *env;
    struct rwd_policy_doc *policy;
};

static inline struct ron_str art_str(const char *text)
{
    return (struct ron_str){.ptr = text, .len = strlen(text)};
}

static inline struct rwd_policy_doc *art_policy(const char *text)
{
    struct rwd_policy_doc *doc = NULL;
    struct ron_err err = {0};

    if (rwd_policy_read(text, strlen(text), NULL, 0, &doc, &err) != RON_OK) {
        fail_msg("the policy: %s", err.msg);
    }
    return doc;
}

static inline int art_setup(void **state)
{
    struct art *a = calloc(1, sizeof *a);

    assert_non_null(a);
    assert_int_equal(ron_memdisk_new(ron_env_linux(), ART_DISK_BYTES, &a->disk, NULL), RON_OK);
    a->env = ron_memdisk_env(a->disk);
    a->policy = art_policy(ART_POLICY("unissued"));
    assert_int_equal(a->env->disk->mkdir(a->env, "runs", 0755, NULL), RON_OK);
    *state = a;
    return 0;
}

static inline int art_teardown(void **state)
{
    struct art *a = *state;

    rwd_policy_free(a->policy);
    ron_memdisk_free(a->disk);
    free(a);
    return 0;
}

static inline struct rwd_snapshot art_read(const char *text, size_t len)
{
    struct rwd_snapshot snapshot;
    struct ron_err err = {0};

    if (rwd_snapshot_read(text, len, RWD_FORM_ANY, &(struct rwd_rows_opts){0}, &snapshot, &err) !=
        RON_OK) {
        fail_msg("the snapshot: %s", err.msg);
    }
    return snapshot;
}

/* So many payees, all paid, with names of different lengths. */
static inline struct rwd_snapshot art_snapshot(size_t payees)
{
    struct ron_buf text;
    struct rwd_snapshot snapshot;

    ron_buf_init(&text, 1 << 24);
    ron_buf_append_fmt(&text, "{\"produced_at_millis\":7,\"pool_minor_units\":\"%zu\"}\n",
                       payees * 1000 + 7);
    for (size_t i = 0; i < payees; i++) {
        ron_buf_append_fmt(&text,
                           "{\"account\":\"u:%zu/%.*s\",\"bytes_stored\":%zu,\"bytes_served\":0,"
                           "\"uptime_seconds\":1000}\n",
                           i * 7919 % 100003, (int)(i % 9), "abcdefghi", i % 97);
    }
    assert_int_equal(ron_buf_error(&text), RON_OK);
    snapshot = art_read((const char *)ron_buf_data(&text), ron_buf_len(&text));
    ron_buf_done(&text);
    return snapshot;
}

static inline struct rwd_run art_compute(const struct art *a, const struct rwd_snapshot *snapshot,
                                         const char *epoch)
{
    struct rwd_run run;
    struct ron_err err = {0};

    if (rwd_run_compute(
            &(struct rwd_run_opts){.epoch = art_str(epoch), .policy = rwd_policy_of(a->policy)},
            snapshot, &run, &err) != RON_OK) {
        fail_msg("the run: %s", err.msg);
    }
    return run;
}

static inline enum ron_rc art_write(const struct art *a, struct rwd_run *run,
                                    const struct rwd_attester *attester)
{
    return rwd_run_write(
        run, &(struct rwd_write_opts){.env = a->env, .dir = "runs", .attester = attester}, NULL);
}

/* A run computed and written; the manifest's text in `ret_text`. */
static inline void art_publish(const struct art *a, const struct rwd_snapshot *snapshot,
                               const char *epoch, const struct rwd_attester *attester,
                               struct rwd_run *ret_run)
{
    *ret_run = art_compute(a, snapshot, epoch);
    assert_int_equal(ret_run->manifest.status, RWD_STATUS_OK);
    assert_int_equal(art_write(a, ret_run, attester), RON_OK);
}

static inline void art_file(const struct art *a, const char *path, struct ron_buf *ret_bytes)
{
    ron_buf_init(ret_bytes, 1 << 24);
    assert_int_equal(ron_file_read_all(a->env, path, ret_bytes, NULL), RON_OK);
}

static inline struct rwd_attester art_attester(void)
{
    return (struct rwd_attester){.key_id = "rewarder-2026", .seed = {1, 2, 3, 4, 5}};
}
