/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/store.c - opens and closes keys, book, inputs and artifacts; reads and seals. */
#include "rewarder/core/store.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/secret.h"
#include "ron/io/file.h"
#include "ron/merkle/note_key.h"

enum { MEMDISK_BYTES = 1 << 30 }; /* artifacts under amnesia */

/* ---- keys ------------------------------------------------------------------------------------ */

enum ron_rc rwd_policy_key_parse(const struct ron_conf_str *text, struct rwd_policy_key *ret,
                                 struct ron_err *err)
{
    enum ron_rc rc = rwd_policy_key_read((struct ron_str){text->text, text->len}, ret, err);

    if (rc != RON_OK) {
        ron_err_prefix(err, "rewarder.policy_keys");
    }
    return rc;
}

static enum ron_rc load_attester(struct rwd_store *st, struct ron_err *err)
{
    struct ron_conf_str path = ron_conf_str(st->core->conf, RWD_ATTEST_KEY);
    struct ron_note_signer signer;
    enum ron_rc rc;

    if (path.len == 0) {
        return RON_OK;
    }
    rc = ron_note_signer_load(st->core->env, path.text, &signer, err);
    if (rc == RON_OK && signer.key.name_len > RWD_KEY_ID_MAX) {
        rc = ron_err_set(err, RON_LIMIT, "the name of the key is too long");
    }
    if (rc != RON_OK) {
        ron_err_prefix(err, "rewarder.attest_key_file");
        return rc;
    }
    memcpy(st->attester.key_id, signer.key.name, (size_t)signer.key.name_len + 1);
    memcpy(st->attester.seed, signer.secret_key, sizeof st->attester.seed);
    ron_note_signer_done(&signer);
    return RON_OK;
}

static enum ron_rc open_keys(struct rwd_store *st, struct ron_err *err)
{
    struct ron_conf_list list = ron_conf_list(st->core->conf, RWD_POLICY_KEYS);

    for (size_t i = 0; i < list.count; i++) {
        RON_TRY(rwd_policy_key_parse(&list.items[i], &st->policy_keys[i], err));
        st->policy_key_count = (uint32_t)i + 1;
    }
    return load_attester(st, err);
}

/* ---- disk ------------------------------------------------------------------------------------ */

static enum ron_rc open_inputs(struct rwd_store *st, const char *dir, struct ron_err *err)
{
    uint64_t bytes = (uint64_t)ron_conf_bytes(st->core->conf, RWD_INPUT_BYTES);

    RON_TRY(ron_cas_new(&(struct ron_cas_opts){.env = st->core->env,
                                               .dir = dir,
                                               .bytes_max = bytes,
                                               .object_bytes_max = bytes,
                                               .objects_max = 1 << 16,
                                               .cache_bytes_max = 8 << 20,
                                               .writers_max = 64},
                        &st->inputs, err));
    struct ron_task_def task = ron_cas_task(st->inputs);

    task.name = "inputs";
    task.stage = 6;
    return ron_sup_add(ron_app_sup(st->core->app), &task, NULL, err);
}

static enum ron_rc open_disk(struct rwd_store *st, struct ron_err *err)
{
    const char *dir = ron_conf_str(st->core->conf, RWD_DIR).text;
    struct ron_conf_str artifacts = ron_conf_str(st->core->conf, RWD_ARTIFACT_DIR);
    struct ron_conf_str dsn = ron_conf_secret(st->core->conf, RWD_BOOK_DSN);
    char path[1024];

    if (st->core->amnesia) {
        RON_TRY(ron_memdisk_new(st->core->env, MEMDISK_BYTES, &st->memdisk, err));
        st->disk_env = ron_memdisk_env(st->memdisk);
        (void)snprintf(st->artifact_dir, sizeof st->artifact_dir, "/artifacts");
        RON_TRY(ron_mkdirs(st->disk_env, st->artifact_dir, 0700, err));
        RON_TRY(rwd_book_open(st->core->env, NULL, &st->book, err));
        return open_inputs(st, NULL, err);
    }
    st->disk_env = st->core->env;
    RON_TRY(ron_mkdirs(st->core->env, dir, 0700, err));
    if (artifacts.len > 0) {
        (void)snprintf(st->artifact_dir, sizeof st->artifact_dir, "%s", artifacts.text);
    } else {
        RON_TRY(rwd_join(st->artifact_dir, sizeof st->artifact_dir, dir, "artifacts", err));
    }
    RON_TRY(ron_mkdirs(st->core->env, st->artifact_dir, 0755, err));
    RON_TRY(rwd_join(path, sizeof path, dir, "book.sqlite", err));
    RON_TRY(rwd_book_open_with(&(struct rwd_book_opts){.env = st->core->env,
                                                       .path = path,
                                                       .dsn = dsn.len > 0 ? dsn.text : NULL},
                               &st->book, err));
    RON_TRY(rwd_join(path, sizeof path, dir, "inputs", err));
    return open_inputs(st, path, err);
}

enum ron_rc rwd_store_open(struct rwd_store *st, struct rwd_core *core, struct ron_err *err)
{
    st->core = core;
    RON_TRY(open_keys(st, err));
    RON_TRY(open_disk(st, err));
    rwd_policies_load(st);
    RON_TRY(rwd_runs_new(RWD_RUNS_MAX, &st->runs, err));
    return ron_needs_add(ron_app_needs(core->app), "quarantine", false, &st->need_quarantine, err);
}

void rwd_store_close(struct rwd_store *st)
{
    rwd_runs_free(st->runs);
    if (st->inputs != NULL) {
        ron_cas_free(st->inputs);
    }
    rwd_book_close(st->book);
    ron_memdisk_free(st->memdisk);
    ron_wipe(&st->attester, sizeof st->attester);
}

/* ---- use ------------------------------------------------------------------------------------- */

enum ron_rc rwd_manifest_text(const struct rwd_store *st, struct ron_str epoch, bool quarantined,
                              struct ron_buf *out, struct ron_err *err)
{
    char found[RON_FILE_PATH_SIZE];
    char path[RON_FILE_PATH_SIZE + sizeof RWD_FILE_MANIFEST];

    RON_TRY(rwd_run_path(st->artifact_dir, epoch, quarantined, found, err));
    (void)snprintf(path, sizeof path, quarantined ? "%s" : "%s/" RWD_FILE_MANIFEST, found);
    return ron_file_read_all(st->disk_env, path, out, err);
}

static enum ron_rc store_piece(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    return ron_cas_append(arg, bytes, len, err);
}

enum ron_rc rwd_inputs_seal(struct rwd_store *st, const struct rwd_snapshot *snapshot,
                            struct ron_err *err)
{
    struct ron_cas_writer *w = NULL;
    struct ron_b3 id;
    enum ron_rc rc;

    RON_TRY(ron_cas_begin(st->inputs, &(struct ron_cas_write_opts){.expected = &snapshot->cid}, &w,
                          err));
    rc = rwd_snapshot_write(snapshot, store_piece, w, err);
    if (rc != RON_OK) {
        ron_cas_abort(w);
        return rc;
    }
    return ron_cas_commit(w, &id, err);
}

void rwd_look_at_quarantine(struct rwd_store *st)
{
    struct rwd_epoch one;
    struct ron_err err = {0};
    size_t count = 0;

    if (rwd_book_list(st->book, (struct ron_str){"", 0}, RWD_QUARANTINED, &one, 1, &count, &err) ==
        RON_OK) {
        ron_need_set(st->need_quarantine, count > 0 ? RON_NEED_DEGRADED : RON_NEED_OK,
                     count > 0 ? "an epoch is in quarantine: an operator should look" : "", 0);
    }
}
