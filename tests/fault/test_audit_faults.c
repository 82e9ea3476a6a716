/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: an audit that runs out of memory or whose disk fails says so, judges nothing, and gives
 * all memory back.
 * Method: the fault sweep over an audit that needs all three readings (a Reverse, an id twice) and
 * a checkpoint, in a real folder; and over a receipt with an entry in JSON. */
#include "unit/audit/script.h"

#include <unistd.h>

#include "audit/proof/offline.h"
#include "merkle/note_priv.h"

static char dir[] = "/tmp/ron-fault-audit-XXXXXX";
static char receipt_path[sizeof dir + 32];
static char entry_path[sizeof dir + 32];

/* Hashes are keyed; with the same key every run meets the same fault points. */
static uint64_t same_random(const struct ron_env *unused)
{
    (void)unused;
    return UINT64_C(0x9e3779b97f4a7c15);
}

static enum ron_rc audit_once(void *arg)
{
    struct ron_env env = *ron_env_linux();
    struct aud_options opts = {.env = &env, .dir = dir, .horizon_ms = 86400000};
    struct aud_result *r = ron_alloc_zero(sizeof *r);
    struct ron_err err = {0};
    enum ron_rc rc;

    (void)arg;
    env.rand_u64 = same_random;
    if (r == NULL) {
        return RON_NOMEM;
    }
    rc = aud_run(&opts, r, &err);
    if (rc == RON_OK) {
        RON_ASSERT(r->readings == 4 && r->findings.total == 1);
        RON_ASSERT(r->findings.items[0].rule == AUD_RULE_ID);
        RON_ASSERT(r->checkpoint_count == 1 && r->checkpoints[0].met);
    } else {
        RON_ASSERT(err.msg[0] != '\0');
    }
    aud_result_done(r);
    ron_free(r);
    return rc;
}

static enum ron_rc verify_once(void *arg)
{
    struct aud_offline_options opts = {
        .env = ron_env_linux(), .receipt = receipt_path, .entry = entry_path, .unsigned_ = true};
    struct aud_offline *o = ron_alloc_zero(sizeof *o);
    enum ron_rc rc;

    (void)arg;
    if (o == NULL) {
        return RON_NOMEM;
    }
    rc = aud_offline_check(&opts, o, NULL);
    RON_ASSERT(rc != RON_OK || (o->findings.total == 0 && o->has_entry));
    aud_offline_done(o);
    ron_free(o);
    return rc;
}

static void put(const char *name, const void *bytes, size_t len)
{
    char path[RON_FILE_PATH_SIZE];

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(ron_file_replace(ron_env_linux(), path, bytes, len, 0600, NULL), RON_OK);
}

/* A checkpoint of the first entry is signed by nobody we know; the sweep gives no key. */
static void write_checkpoint(const struct journal *j, struct ron_buf *out)
{
    static const uint8_t seed[32] = {1};
    struct ron_note_signer signer;
    struct led_checkpoint c = {.origin = str("x"), .size = 1};
    uint8_t leaf[LED_ENTRY_BYTES_MAX];

    ron_tree_hash_leaf(leaf, (size_t)(led_entry_encode(&j->entries[0], leaf) - leaf), &c.root);
    assert_int_equal(ron_note_signer_make(c.origin, RON_NOTE_ED25519, seed, &signer, NULL), RON_OK);
    assert_int_equal(led_checkpoint_sign(&c, &signer, out, NULL), RON_OK);
    ron_note_signer_done(&signer);
}

static int setup_files(void **state)
{
    struct journal *j;
    struct ron_buf file;
    struct ron_buf note;
    struct ron_json_writer w;
    char path[RON_FILE_PATH_SIZE];

    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/log", dir);
    (void)snprintf(receipt_path, sizeof receipt_path, "%s/receipt", dir);
    (void)snprintf(entry_path, sizeof entry_path, "%s/entry", dir);
    assert_int_equal(ron_mkdirs(ron_env_linux(), path, 0700, NULL), RON_OK);
    assert_int_equal(setup(state), 0);
    j = *state;
    entry(j, SECOND)->id = str("t2");
    journal_write(j);
    ron_buf_init(&file, 32 << 20);
    ron_buf_init(&note, LED_NOTE_BYTES_MAX);
    assert_int_equal(ron_file_read_all(j->env, JOURNAL_FILE, &file, NULL), RON_OK);
    put("log/00000001-00000000000000000001.seg", ron_buf_data(&file), ron_buf_len(&file));
    write_checkpoint(j, &note);
    put("checkpoint", ron_buf_data(&note), ron_buf_len(&note));
    ron_buf_clear(&file);
    assert_int_equal(ron_buf_append_text(&file, "c2sp.org/tlog-proof@v1\nindex 0\n\n"), RON_OK);
    assert_int_equal(ron_buf_append(&file, ron_buf_data(&note), ron_buf_len(&note)), RON_OK);
    put("receipt", ron_buf_data(&file), ron_buf_len(&file));
    ron_buf_clear(&file);
    ron_json_begin(&w, &file);
    led_entry_to_json(&w, NULL, &j->entries[0], 1);
    put("entry", ron_buf_data(&file), ron_buf_len(&file));
    ron_buf_done(&file);
    ron_buf_done(&note);
    return 0;
}

static int teardown_files(void **state)
{
    static const char *const names[] = {"log/00000001-00000000000000000001.seg", "checkpoint",
                                        "receipt", "entry"};
    char path[RON_FILE_PATH_SIZE];

    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof path, "%s/log", dir);
    (void)rmdir(path);
    (void)rmdir(dir);
    return teardown(state);
}

SUPPORT_FAULT_SWEEP(test_audit__any_fault__no_verdict_and_no_leak, audit_once)
SUPPORT_FAULT_SWEEP(test_offline__any_fault__no_verdict_and_no_leak, verify_once)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_audit__any_fault__no_verdict_and_no_leak),
        cmocka_unit_test(test_offline__any_fault__no_verdict_and_no_leak),
    };

    return cmocka_run_group_tests(tests, setup_files, teardown_files);
}
