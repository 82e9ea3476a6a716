/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whatever fails while a run is written, read, proven or removed: a clean error, nothing left
 * behind in memory, and a folder that is there whole or not at all. A step that fails with all
 * later ones is what a killed process leaves.
 * Method: the fault sweep over memory and disk. */
#include "unit/io/fixture.h"

#include "rewarder/run/run.h"
#include "ron/base/assert.h"
#include "ron/io/file.h"

static const char policy_text[] =
    "{\"v\":1,\"id\":\"policy:v1\",\"version\":1,\"funding_source\":\"creator_pool\","
    "\"asset\":\"roc\",\"max_payout_minor_units\":\"1000\",\"min_payout_minor_units\":\"1\","
    "\"weight_bps\":10000,\"rounding\":\"floor\",\"residual\":\"unissued\","
    "\"weights\":{\"bytes_stored\":\"1\",\"bytes_served\":\"1/4\",\"uptime_seconds\":\"1\"}}";
static const char snapshot_text[] =
    "{\"produced_at_millis\":1,\"pool_minor_units\":\"1000\",\"contributions\":["
    "{\"account\":\"acct_a\",\"bytes_stored\":100,\"bytes_served\":50,\"uptime_seconds\":10},"
    "{\"account\":\"acct_b\",\"bytes_stored\":200,\"bytes_served\":0,\"uptime_seconds\":20}]}";

static struct fixture *fix;
static struct rwd_policy_doc *policy;
static struct rwd_snapshot snapshot;
static char folder[RON_FILE_PATH_SIZE];

#define STR(text) ((struct ron_str){.ptr = (text), .len = strlen(text)})

static enum ron_rc verify(void)
{
    struct rwd_manifest m;
    struct ron_buf text;
    enum ron_rc rc;

    ron_buf_init(&text, RWD_MANIFEST_MAX);
    rc = rwd_verify(&(struct rwd_verify_opts){.env = fix->env,
                                              .folder = folder,
                                              .snapshot = &snapshot,
                                              .policy = rwd_policy_of(policy)},
                    &text, &m, NULL);
    ron_buf_done(&text);
    return rc;
}

/* Looks without faults: whole, or not there. */
static bool whole(void)
{
    bool (*hook)(enum ron_fault_kind kind, const char *site) = ron_fault_hook;
    struct ron_file_stat st;
    bool there;

    ron_fault_hook = NULL;
    there = fix->env->disk->stat(fix->env, folder, &st) == RON_OK;
    RON_ASSERT(!there || verify() == RON_OK);
    ron_fault_hook = hook;
    return there;
}

static void clear(void)
{
    bool (*hook)(enum ron_fault_kind kind, const char *site) = ron_fault_hook;

    ron_fault_hook = NULL;
    RON_ASSERT(rwd_run_remove(fix->env, fix->dir, STR("e.1"), NULL) == RON_OK);
    ron_fault_hook = hook;
}

static enum ron_rc publish(void)
{
    const struct rwd_attester attester = {.key_id = "k", .seed = {7}};
    struct rwd_run run = {0};
    enum ron_rc rc;

    RON_TRY(rwd_run_compute(
        &(struct rwd_run_opts){.epoch = STR("e.1"), .policy = rwd_policy_of(policy)}, &snapshot,
        &run, NULL));
    rc = rwd_run_write(
        &run, &(struct rwd_write_opts){.env = fix->env, .dir = fix->dir, .attester = &attester},
        NULL);
    rwd_run_done(&run);
    return rc;
}

static enum ron_rc write_life(void *arg)
{
    size_t fds = fixture_open_fds();
    enum ron_rc rc;

    (void)arg;
    clear();
    rc = publish();
    RON_ASSERT(fixture_open_fds() == fds);
    RON_ASSERT(whole() || rc != RON_OK);
    return rc;
}

static enum ron_rc again_life(void *arg)
{
    enum ron_rc rc;

    (void)arg;
    rc = publish(); /* it is there */
    RON_ASSERT(whole());
    return rc;
}

static enum ron_rc verify_life(void *arg)
{
    (void)arg;
    return verify();
}

static bool take(void *arg, uint64_t index, const struct rwd_payout *payout)
{
    (void)arg;
    (void)index;
    return payout->account.len > 0;
}

static enum ron_rc read_life(void *arg)
{
    struct rwd_payouts *p = NULL;
    struct rwd_manifest m;
    struct ron_buf manifest;
    struct ron_buf proof;
    uint64_t index = 0;
    enum ron_rc rc;

    (void)arg;
    ron_buf_init(&manifest, RWD_MANIFEST_MAX);
    ron_buf_init(&proof, RWD_PROOF_TEXT_MAX);
    RON_GOTO(rwd_run_load(fix->env, folder, &manifest, &m, NULL), out);
    RON_GOTO(rwd_payouts_open(fix->env, folder, &p, NULL), out);
    RON_GOTO(rwd_payouts_each(p, 0, 2, take, NULL, NULL), out);
    RON_GOTO(rwd_payouts_find(p, STR("acct_b"), &index, NULL), out);
    rc = rwd_payouts_prove(p, index,
                           (struct ron_str){.ptr = (const char *)ron_buf_data(&manifest),
                                            .len = ron_buf_len(&manifest)},
                           &proof, NULL);
out:
    rwd_payouts_close(p);
    ron_buf_done(&manifest);
    ron_buf_done(&proof);
    return rc;
}

static enum ron_rc remove_life(void *arg)
{
    bool (*hook)(enum ron_fault_kind kind, const char *site) = ron_fault_hook;
    enum ron_rc rc;

    (void)arg;
    ron_fault_hook = NULL;
    RON_ASSERT(publish() == RON_OK);
    ron_fault_hook = hook;
    rc = rwd_run_remove(fix->env, fix->dir, STR("e.1"), NULL);
    RON_ASSERT(!whole() || rc != RON_OK);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_rwd_run_faults__written__whole_or_not_there, write_life)
SUPPORT_FAULT_SWEEP(test_rwd_run_faults__written_again__kept, again_life)
SUPPORT_FAULT_SWEEP(test_rwd_run_faults__verified__never_good_by_mistake, verify_life)
SUPPORT_FAULT_SWEEP(test_rwd_run_faults__read_and_proven__clean, read_life)
SUPPORT_FAULT_SWEEP(test_rwd_run_faults__removed__whole_or_not_there, remove_life)

static int setup(void **state)
{
    if (fixture_setup(state) != 0) {
        return -1;
    }
    fix = *state;
    RON_ASSERT(rwd_policy_read(policy_text, strlen(policy_text), NULL, 0, &policy, NULL) == RON_OK);
    RON_ASSERT(rwd_snapshot_read(snapshot_text, strlen(snapshot_text), RWD_FORM_JSON,
                                 &(struct rwd_rows_opts){0}, &snapshot, NULL) == RON_OK);
    RON_ASSERT(rwd_run_path(fix->dir, STR("e.1"), false, folder, NULL) == RON_OK);
    return publish() == RON_OK ? 0 : -1;
}

static int teardown(void **state)
{
    rwd_policy_free(policy);
    rwd_snapshot_done(&snapshot);
    return fixture_teardown(state);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_rwd_run_faults__written__whole_or_not_there),
        CASE(test_rwd_run_faults__written_again__kept),
        CASE(test_rwd_run_faults__verified__never_good_by_mistake),
        CASE(test_rwd_run_faults__read_and_proven__clean),
        CASE(test_rwd_run_faults__removed__whole_or_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
