/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the folder of a run is there whole or not at all, never changes, and rwd_verify finds any
 * byte of it that is not as computed.
 * Method: runs on a disk in memory; every byte of every file flipped in turn; a disk that is full;
 * what a crash leaves. Failing disks are in tests/fault/test_rwd_run_faults.c. */
#include "unit/rewarder/art_fixture.h"

static bool is_there(const struct art *a, const char *path)
{
    struct ron_file_stat st;

    return a->env->disk->stat(a->env, path, &st) == RON_OK;
}

static enum ron_rc verify(const struct art *a, const struct rwd_snapshot *snapshot,
                          const uint8_t *public_key, struct ron_err *err)
{
    struct rwd_manifest m;
    struct ron_buf text;
    enum ron_rc rc;

    ron_buf_init(&text, RWD_MANIFEST_MAX);
    rc = rwd_verify(&(struct rwd_verify_opts){.env = a->env,
                                              .folder = "runs/e",
                                              .snapshot = snapshot,
                                              .policy = rwd_policy_of(a->policy),
                                              .public_key = public_key},
                    &text, &m, err);
    ron_buf_done(&text);
    return rc;
}

static void put_file(const struct art *a, const char *path, const struct ron_buf *bytes)
{
    assert_int_equal(
        ron_file_replace(a->env, path, ron_buf_data(bytes), ron_buf_len(bytes), 0640, NULL),
        RON_OK);
}

static void test_run__computed_and_written__verifies(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 3, 1000};
    struct rwd_attester attester = art_attester();
    struct art *a = *state;

    for (size_t i = 0; i < RON_ARRAY_LEN(sizes); i++) {
        struct rwd_snapshot snapshot = art_snapshot(sizes[i]);
        uint8_t other[RWD_SIGN_KEY_BYTES] = {1};
        struct rwd_run run;

        art_publish(a, &snapshot, "e", &attester, &run);
        assert_int_equal(verify(a, &snapshot, NULL, NULL), RON_OK);
        assert_int_equal(verify(a, &snapshot, run.manifest.public_key, NULL), RON_OK);
        assert_int_equal(verify(a, &snapshot, other, NULL), RON_CONFLICT);
        rwd_run_done(&run);
        rwd_snapshot_done(&snapshot);
        assert_int_equal(rwd_run_remove(a->env, "runs", art_str("e"), NULL), RON_OK);
        assert_false(is_there(a, "runs/e"));
    }
}

static void test_run__dry__has_the_same_manifest(void **state)
{
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_snapshot(9);
    struct rwd_run dry = art_compute(a, &snapshot, "e");
    struct rwd_run run;

    assert_int_equal(rwd_run_write(&dry, &(struct rwd_write_opts){.env = a->env}, NULL), RON_OK);
    assert_false(is_there(a, "runs/e"));
    art_publish(a, &snapshot, "e", NULL, &run);
    assert_true(ron_b3_equal(&dry.manifest.commitment, &run.manifest.commitment));
    rwd_run_done(&dry);
    rwd_run_done(&run);
    rwd_snapshot_done(&snapshot);
}

static void test_run__every_byte_flipped__found(void **state)
{
    static const char *const files[] = {"runs/e/run.json", "runs/e/commitment",
                                        "runs/e/payouts.ndjson", "runs/e/payouts.index",
                                        "runs/e/payouts.tree"};
    struct rwd_attester attester = art_attester();
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_snapshot(3);
    struct rwd_run run;

    art_publish(a, &snapshot, "e", &attester, &run);
    for (size_t i = 0; i < RON_ARRAY_LEN(files); i++) {
        struct ron_buf bytes;

        art_file(a, files[i], &bytes);
        for (size_t at = 0; at < ron_buf_len(&bytes); at++) {
            struct ron_err err = {0};

            bytes.memory[bytes.head + at] ^= (uint8_t)(1U << at % 8);
            put_file(a, files[i], &bytes);
            if (verify(a, &snapshot, NULL, &err) == RON_OK) {
                fail_msg("byte %zu of %s may be anything", at, files[i]);
            }
            assert_true(err.msg[0] != '\0');
            bytes.memory[bytes.head + at] ^= (uint8_t)(1U << at % 8);
        }
        ron_buf_append_byte(&bytes, '\n');
        put_file(a, files[i], &bytes);
        assert_int_not_equal(verify(a, &snapshot, NULL, NULL), RON_OK);
        bytes.len -= 2;
        put_file(a, files[i], &bytes);
        assert_int_not_equal(verify(a, &snapshot, NULL, NULL), RON_OK);
        assert_int_equal(a->env->disk->remove(a->env, files[i], NULL), RON_OK);
        assert_int_equal(verify(a, &snapshot, NULL, NULL), RON_NOTFOUND);
        bytes.len += 1;
        put_file(a, files[i], &bytes);
        assert_int_equal(verify(a, &snapshot, NULL, NULL), RON_OK);
        ron_buf_done(&bytes);
    }
    rwd_run_done(&run);
    rwd_snapshot_done(&snapshot);
}

static void test_run__other_inputs__named(void **state)
{
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_snapshot(3);
    struct rwd_snapshot other = art_snapshot(4);
    struct rwd_policy_doc *policy = a->policy;
    struct ron_err err = {0};
    struct rwd_manifest m;
    struct ron_buf text;
    struct rwd_run run;

    art_publish(a, &snapshot, "e", NULL, &run);
    assert_int_equal(verify(a, &other, NULL, &err), RON_CONFLICT);
    assert_non_null(strstr(err.msg, "the snapshot"));
    a->policy = art_policy(ART_POLICY("carry"));
    assert_int_equal(verify(a, &snapshot, NULL, &err), RON_CONFLICT);
    assert_non_null(strstr(err.msg, "the policy"));
    rwd_policy_free(a->policy);
    a->policy = policy;
    ron_buf_init(&text, RWD_MANIFEST_MAX);
    assert_int_equal(rwd_verify(&(struct rwd_verify_opts){.env = a->env,
                                                          .folder = "runs/e",
                                                          .snapshot = &snapshot,
                                                          .policy = rwd_policy_of(a->policy),
                                                          .salt = art_str("another")},
                                &text, &m, &err),
                     RON_CONFLICT);
    assert_non_null(strstr(err.msg, "run_key"));
    ron_buf_done(&text);
    rwd_run_done(&run);
    rwd_snapshot_done(&snapshot);
    rwd_snapshot_done(&other);
}

static void test_run__written_again__kept_as_it_is(void **state)
{
    struct rwd_attester attester = art_attester();
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_snapshot(3);
    struct rwd_snapshot other = art_snapshot(4);
    struct rwd_run run;
    struct rwd_run again;
    struct rwd_run another;

    art_publish(a, &snapshot, "e", &attester, &run);
    again = art_compute(a, &snapshot, "e");
    assert_int_equal(art_write(a, &again, NULL), RON_OK);
    assert_string_equal(again.manifest.key_id, attester.key_id);
    assert_true(rwd_manifest_attested(&again.manifest, run.manifest.public_key));
    another = art_compute(a, &other, "e");
    assert_int_equal(art_write(a, &another, NULL), RON_EXISTS);
    assert_int_equal(verify(a, &snapshot, NULL, NULL), RON_OK);
    rwd_run_done(&run);
    rwd_run_done(&again);
    rwd_run_done(&another);
    rwd_snapshot_done(&snapshot);
    rwd_snapshot_done(&other);
}

static void test_run__a_damaged_folder__not_taken_for_the_run(void **state)
{
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_snapshot(3);
    struct ron_buf bytes;
    struct rwd_run run;
    struct rwd_run again;

    art_publish(a, &snapshot, "e", NULL, &run);
    art_file(a, "runs/e/payouts.tree", &bytes);
    bytes.memory[bytes.head] ^= 1;
    put_file(a, "runs/e/payouts.tree", &bytes);
    ron_buf_done(&bytes);
    again = art_compute(a, &snapshot, "e");
    assert_int_equal(art_write(a, &again, NULL), RON_CORRUPT);
    assert_int_equal(a->env->disk->remove(a->env, "runs/e/run.json", NULL), RON_OK);
    assert_int_equal(art_write(a, &again, NULL), RON_CORRUPT);
    rwd_run_done(&run);
    rwd_run_done(&again);
    rwd_snapshot_done(&snapshot);
}

static void test_run__epochs_alike__folders_of_their_own(void **state)
{
    static const char *const epochs[] = {"a.b", "a:b", "a_b", "..", "a%b"};
    static const char *const folders[] = {"runs/a%2Eb", "runs/a%3Ab", "runs/a_b", "runs/%2E%2E",
                                          NULL};
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_snapshot(2);

    for (size_t i = 0; i < RON_ARRAY_LEN(epochs); i++) {
        struct rwd_run run;

        if (folders[i] == NULL) {
            assert_int_equal(
                rwd_run_compute(&(struct rwd_run_opts){.epoch = art_str(epochs[i]),
                                                       .policy = rwd_policy_of(a->policy)},
                                &snapshot, &run, NULL),
                RON_INVALID);
            continue;
        }
        art_publish(a, &snapshot, epochs[i], NULL, &run);
        assert_true(is_there(a, folders[i]));
        rwd_run_done(&run);
    }
    rwd_snapshot_done(&snapshot);
}

static void test_run__what_a_crash_left__cleared(void **state)
{
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_snapshot(3);
    struct rwd_run run;

    assert_int_equal(a->env->disk->mkdir(a->env, "runs/e.tmp", 0750, NULL), RON_OK);
    assert_int_equal(ron_file_replace(a->env, "runs/e.tmp/payouts.ndjson", "half", 4, 0640, NULL),
                     RON_OK);
    assert_int_equal(ron_file_replace(a->env, "runs/e.tmp/run.json.tmp", "", 0, 0640, NULL),
                     RON_OK);
    art_publish(a, &snapshot, "e", NULL, &run);
    assert_false(is_there(a, "runs/e.tmp"));
    assert_int_equal(verify(a, &snapshot, NULL, NULL), RON_OK);
    rwd_run_done(&run);
    rwd_snapshot_done(&snapshot);
}

static void test_run__a_full_disk__no_folder(void **state)
{
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_snapshot(1000);
    uint64_t bytes = RON_MEMDISK_PAGE;
    size_t refused = 0;
    bool written = false;

    while (!written) {
        struct ron_memdisk *small = NULL;
        struct art b = {.policy = a->policy};
        struct rwd_run run;

        assert_int_equal(ron_memdisk_new(ron_env_linux(), bytes, &small, NULL), RON_OK);
        b.env = ron_memdisk_env(small);
        assert_int_equal(b.env->disk->mkdir(b.env, "runs", 0755, NULL), RON_OK);
        run = art_compute(&b, &snapshot, "e");
        written = art_write(&b, &run, NULL) == RON_OK;
        assert_int_equal(is_there(&b, "runs/e"), written);
        assert_false(is_there(&b, "runs/e.tmp"));
        refused += !written;
        bytes += RON_MEMDISK_PAGE;
        rwd_run_done(&run);
        ron_memdisk_free(small);
    }
    assert_true(refused >= 4); /* lines, places, hashes, manifest: each met the end */
    rwd_snapshot_done(&snapshot);
}

static void test_run__a_breach__quarantined_beside_the_folders(void **state)
{
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_snapshot(3);
    struct rwd_run run = art_compute(a, &snapshot, "e:1");
    struct rwd_manifest m;
    struct ron_buf text;

    /* The calculus does not err; so its result is misread here. */
    run.manifest.totals.paid.v += 1;
    assert_int_equal(art_write(a, &run, NULL), RON_OK);
    assert_int_equal(run.manifest.status, RWD_STATUS_QUARANTINED);
    assert_int_equal(run.manifest.breach, RWD_BREACH_CONSERVATION);
    assert_string_equal(run.breach_text, "the payouts do not add up to the total");
    assert_false(is_there(a, "runs/e%3A1"));
    assert_false(is_there(a, "runs/e%3A1.tmp"));
    art_file(a, "runs/e%3A1.quarantined.json", &text);
    assert_int_equal(
        rwd_manifest_read((char *)(uintptr_t)ron_buf_data(&text), ron_buf_len(&text), &m, NULL),
        RON_OK);
    assert_int_equal(m.breach, RWD_BREACH_CONSERVATION);
    ron_buf_done(&text);
    rwd_run_done(&run);
    art_publish(a, &snapshot, "e:1", NULL, &run); /* released and computed anew */
    assert_int_equal(rwd_run_remove(a->env, "runs", art_str("e:1"), NULL), RON_OK);
    assert_false(is_there(a, "runs/e%3A1.quarantined.json"));
    rwd_run_done(&run);
    rwd_snapshot_done(&snapshot);
}

static void test_run__overflow__quarantined(void **state)
{
    static const char text[] = "{\"produced_at_millis\":1,\"pool_minor_units\":"
                               "\"340282366920938463463374607431768211455\",\"contributions\":[]}";
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_read(text, strlen(text));
    struct rwd_run run;

    assert_int_equal(rwd_run_compute(&(struct rwd_run_opts){.epoch = art_str("e"),
                                                            .policy = rwd_policy_of(a->policy),
                                                            .carry_epoch = art_str("d"),
                                                            .carry_in = {.v = 1}},
                                     &snapshot, &run, NULL),
                     RON_OK);
    assert_int_equal(run.manifest.status, RWD_STATUS_QUARANTINED);
    assert_int_equal(run.manifest.breach, RWD_BREACH_OVERFLOW);
    assert_int_equal(art_write(a, &run, NULL), RON_OK);
    assert_true(is_there(a, "runs/e.quarantined.json"));
    rwd_run_done(&run);
    rwd_snapshot_done(&snapshot);
}

static void test_run__a_carried_sum__verified_with_its_run(void **state)
{
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_snapshot(3);
    struct rwd_policy_doc *policy = a->policy;
    struct rwd_run first;
    struct rwd_run second;
    struct rwd_manifest m;
    struct ron_buf text;
    struct rwd_verify_opts opts;

    a->policy = art_policy(ART_POLICY("carry"));
    art_publish(a, &snapshot, "d", NULL, &first);
    assert_true(first.manifest.totals.residual.v > 0);
    assert_int_equal(
        rwd_run_compute(&(struct rwd_run_opts){.epoch = art_str("e"),
                                               .policy = rwd_policy_of(a->policy),
                                               .has_ledger = true,
                                               .ledger_seq = 5,
                                               .carry_epoch = first.manifest.epoch,
                                               .carry_commitment = first.manifest.commitment,
                                               .carry_in = first.manifest.totals.residual,
                                               .parts = 3},
                        &snapshot, &second, NULL),
        RON_OK);
    assert_int_equal(art_write(a, &second, NULL), RON_OK);
    opts = (struct rwd_verify_opts){.env = a->env,
                                    .folder = "runs/e",
                                    .snapshot = &snapshot,
                                    .policy = rwd_policy_of(a->policy),
                                    .carry = &first.manifest};
    ron_buf_init(&text, RWD_MANIFEST_MAX);
    assert_int_equal(rwd_verify(&opts, &text, &m, NULL), RON_OK);
    assert_true(m.totals.offered.v == snapshot.pool.v + first.manifest.totals.residual.v);
    first.manifest.totals.residual.v++;
    assert_int_equal(rwd_verify(&opts, &text, &m, NULL), RON_CONFLICT);
    first.manifest.totals.residual.v--;
    first.manifest.commitment.bytes[0] ^= 1;
    assert_int_equal(rwd_verify(&opts, &text, &m, NULL), RON_CONFLICT);
    ron_buf_done(&text);
    rwd_policy_free(a->policy);
    a->policy = policy;
    rwd_run_done(&first);
    rwd_run_done(&second);
    rwd_snapshot_done(&snapshot);
}

static enum ron_rc one_more(void *arg, const struct rwd_run *run, const char *dir,
                            struct ron_err *err)
{
    const struct art *a = arg;
    char path[RON_FILE_PATH_SIZE];

    assert_int_equal(run->manifest.status, RWD_STATUS_OK);
    (void)snprintf(path, sizeof path, "%s/more.json", dir);
    return ron_file_replace(a->env, path, "{}", 2, 0640, err);
}

static enum ron_rc no_more(void *arg, const struct rwd_run *run, const char *dir,
                           struct ron_err *err)
{
    (void)arg;
    (void)run;
    (void)dir;
    return ron_err_set(err, RON_LIMIT, "no room");
}

static void test_run__more_files__appear_with_the_folder(void **state)
{
    struct art *a = *state;
    struct rwd_snapshot snapshot = art_snapshot(3);
    struct rwd_progress progress = {0};
    struct rwd_run run;
    struct rwd_write_opts opts = {.env = a->env, .dir = "runs", .more = no_more, .more_arg = a};

    assert_int_equal(rwd_run_compute(&(struct rwd_run_opts){.epoch = art_str("e"),
                                                            .policy = rwd_policy_of(a->policy),
                                                            .progress = &progress},
                                     &snapshot, &run, NULL),
                     RON_OK);
    assert_int_equal(ron_au32_load(&progress.phase), RWD_PHASE_CHECKING);
    assert_int_equal(rwd_run_write(&run, &opts, NULL), RON_LIMIT);
    assert_false(is_there(a, "runs/e"));
    assert_int_equal(ron_au32_load(&progress.phase), RWD_PHASE_WRITING);
    opts.more = one_more;
    assert_int_equal(rwd_run_write(&run, &opts, NULL), RON_OK);
    assert_true(is_there(a, "runs/e/more.json"));
    assert_int_equal(ron_au32_load(&progress.phase), RWD_PHASE_SEALED);
    assert_string_equal(rwd_phase_name(RWD_PHASE_SEALED), "sealed");
    rwd_run_done(&run);
    rwd_snapshot_done(&snapshot);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, art_setup, art_teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_run__computed_and_written__verifies),
        CASE(test_run__dry__has_the_same_manifest),
        CASE(test_run__every_byte_flipped__found),
        CASE(test_run__other_inputs__named),
        CASE(test_run__written_again__kept_as_it_is),
        CASE(test_run__a_damaged_folder__not_taken_for_the_run),
        CASE(test_run__epochs_alike__folders_of_their_own),
        CASE(test_run__what_a_crash_left__cleared),
        CASE(test_run__a_full_disk__no_folder),
        CASE(test_run__a_breach__quarantined_beside_the_folders),
        CASE(test_run__overflow__quarantined),
        CASE(test_run__a_carried_sum__verified_with_its_run),
        CASE(test_run__more_files__appear_with_the_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
