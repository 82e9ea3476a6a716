/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/write.c - a run as a folder that appears whole or not at all.
 *
 *     <dir>/<folder>.tmp/...  --files, each synced--> --sync_dir--> --rename--> <dir>/<folder>/...
 *     --sync_dir--> durable
 *
 * A crash before the rename leaves a .tmp that the next write of the epoch clears; one behind it
 * leaves the whole folder. The dot is in no name of rwd_epoch_folder, so nothing here can be taken
 * for the folder of another epoch.
 *
 * One writer at a time for an epoch: its run belongs to one thread. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "rewarder/run/payouts_priv.h"
#include "rewarder/run/priv.h"
#include "ron/base/assert.h"

enum { DIR_MODE = 0750 };

enum ron_rc rwd__run_name(struct rwd_run *run, const struct rwd_payouts_sum *sum,
                          struct ron_err *err)
{
    const struct rwd_totals *t = &run->manifest.totals;

    if (sum->count != t->paid_accounts || ron_money_cmp(sum->total, t->paid) != 0) {
        rwd__breach(run, RWD_BREACH_CONSERVATION, "the payouts do not add up to the total");
    } else {
        run->manifest.payouts = *sum;
    }
    return rwd_manifest_commit(&run->manifest, err);
}

/* ---- paths ----------------------------------------------------------------------------------- */

static enum ron_rc path_with(const char *dir, struct ron_str epoch, const char *end, char *ret_path,
                             struct ron_err *err)
{
    char folder[RWD_FOLDER_SIZE];
    int len;

    rwd_epoch_folder(epoch, folder);
    len = snprintf(ret_path, RON_FILE_PATH_SIZE, "%s/%s%s", dir, folder, end);
    return len > 0 && len < RON_FILE_PATH_SIZE
               ? RON_OK
               : ron_err_set(err, RON_LIMIT, "the path of the run is too long");
}

enum ron_rc rwd_run_path(const char *dir, struct ron_str epoch, bool quarantined, char *ret_path,
                         struct ron_err *err)
{
    return path_with(dir, epoch, quarantined ? ".quarantined.json" : "", ret_path, err);
}

/* ---- removing -------------------------------------------------------------------------------- */

struct sweep {
    const struct ron_env *env;
    const char *folder;
    struct ron_err *err;
    enum ron_rc rc;
    char name[RON_FILE_PATH_SIZE]; /* found by the last listing; "": none */
};

static bool found(void *arg, const char *name, bool is_dir)
{
    struct sweep *s = arg;

    (void)is_dir;
    s->rc = rwd__path(s->name, s->folder, name, s->err);
    return false;
}

/* Removes a folder of files. A listing may not be changed under itself, so one name at a time. */
static enum ron_rc remove_folder(const struct ron_env *env, const char *folder, struct ron_err *err)
{
    struct sweep s = {.env = env, .folder = folder, .err = err, .rc = RON_OK};

    do {
        enum ron_rc rc;

        s.name[0] = '\0';
        rc = env->disk->list(env, folder, found, &s, NULL);
        if (rc == RON_NOTFOUND) {
            return RON_OK;
        }
        if (rc != RON_OK) {
            return ron_err_set(err, rc, "%s cannot be listed", folder);
        }
        RON_TRY(s.rc);
        if (s.name[0] != '\0') {
            RON_TRY(env->disk->remove(env, s.name, err));
        }
    } while (s.name[0] != '\0');
    return env->disk->rmdir(env, folder, err);
}

static enum ron_rc remove_file(const struct ron_env *env, const char *path, struct ron_err *err)
{
    struct ron_err why = {0};
    enum ron_rc rc = env->disk->remove(env, path, &why);

    return rc == RON_OK || rc == RON_NOTFOUND ? RON_OK : ron_err_set(err, rc, "%s", why.msg);
}

enum ron_rc rwd_run_remove(const struct ron_env *env, const char *dir, struct ron_str epoch,
                           struct ron_err *err)
{
    char path[RON_FILE_PATH_SIZE];
    char gone[RON_FILE_PATH_SIZE];
    struct ron_file_stat st;
    enum ron_rc rc;

    RON_TRY(path_with(dir, epoch, "", path, err));
    RON_TRY(path_with(dir, epoch, ".tmp", gone, err));
    RON_TRY(remove_folder(env, gone, err));
    /* A folder that loses its files one by one must not be taken for a run. */
    rc = env->disk->stat(env, path, &st);
    if (rc == RON_OK) {
        RON_TRY(env->disk->rename(env, path, gone, err));
        RON_TRY(remove_folder(env, gone, err));
    } else if (rc != RON_NOTFOUND) {
        return ron_err_set(err, rc, "%s cannot be looked at", path);
    }
    RON_TRY(rwd_run_path(dir, epoch, true, path, err));
    RON_TRY(remove_file(env, path, err));
    return env->disk->sync_dir(env, dir, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

enum ron_rc rwd_run_load(const struct ron_env *env, const char *folder, struct ron_buf *text,
                         struct rwd_manifest *ret_manifest, struct ron_err *err)
{
    char path[RON_FILE_PATH_SIZE];
    enum ron_rc rc;

    RON_TRY(rwd__path(path, folder, RWD_FILE_MANIFEST, err));
    ron_buf_clear(text);
    RON_TRY(ron_file_read_all(env, path, text, err));
    rc = rwd_manifest_read((char *)(uintptr_t)ron_buf_data(text), ron_buf_len(text), ret_manifest,
                           err);
    if (rc != RON_OK && err != NULL) {
        ron_err_prefix(err, "%s", path);
    }
    return rc;
}

/* The run stands there already: RON_OK when it is this one and whole, RON_EXISTS when it is
 * another. */
static enum ron_rc keep(struct rwd_run *run, const struct ron_env *env, const char *folder,
                        struct ron_err *err)
{
    char memory[RWD_MANIFEST_MAX + 1];
    struct rwd_manifest *m = &run->manifest;
    struct rwd_payouts_sum sum;
    struct rwd_manifest there;
    struct ron_buf text;
    enum ron_rc rc;

    ron_buf_init_over(&text, memory, sizeof memory);
    rc = rwd_run_load(env, folder, &text, &there, err);
    if (rc == RON_NOTFOUND) {
        return ron_err_set(err, RON_CORRUPT, "%s is there and holds no run", folder);
    }
    RON_TRY(rc);
    if (!ron_b3_equal(&there.commitment, &m->commitment)) {
        return ron_err_set(err, RON_EXISTS, "%s holds another run of the epoch", folder);
    }
    rc = rwd_payouts_compare(&(struct rwd_payouts_opts){.env = env, .dir = folder}, run->result,
                             &sum, err);
    if (rc != RON_OK) {
        if (err != NULL) {
            ron_err_prefix(err, "%s is damaged", folder);
        }
        return rc == RON_CONFLICT ? RON_CORRUPT : rc;
    }
    memcpy(m->key_id, there.key_id, sizeof m->key_id);
    memcpy(m->public_key, there.public_key, sizeof m->public_key);
    memcpy(m->sig, there.sig, sizeof m->sig);
    return RON_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static enum ron_rc write_file(const struct ron_env *env, const char *path, const void *bytes,
                              size_t len, struct ron_err *err)
{
    return ron_file_replace(env, path, bytes, len, RWD__FILE_MODE, err);
}

static enum ron_rc write_manifest(const struct rwd_run *run, const struct ron_env *env,
                                  const char *path, struct ron_err *err)
{
    char memory[RWD_MANIFEST_MAX + 1];
    struct ron_buf out;

    ron_buf_init_over(&out, memory, sizeof memory);
    if (rwd_manifest_write(&run->manifest, &out) != RON_OK) {
        return ron_err_set(err, RON_LIMIT, "the manifest is too long");
    }
    return write_file(env, path, ron_buf_data(&out), ron_buf_len(&out), err);
}

static enum ron_rc write_commitment(const struct rwd_run *run, const struct ron_env *env,
                                    const char *path, struct ron_err *err)
{
    char text[RON_B3_ID_SIZE];

    ron_b3_format(&run->manifest.commitment, text);
    text[RON_B3_ID_LEN] = '\n';
    return write_file(env, path, text, sizeof text, err);
}

static enum ron_rc attest(struct rwd_run *run, const struct rwd_write_opts *o, struct ron_err *err)
{
    return o->attester == NULL
               ? RON_OK
               : rwd_manifest_attest(&run->manifest, o->attester->key_id, o->attester->seed, err);
}

/* Payouts with their names, into `folder` unless it is NULL. */
static enum ron_rc write_payouts(struct rwd_run *run, const struct rwd_write_opts *o,
                                 const char *folder, struct ron_err *err)
{
    struct rwd_progress *p = run->progress;
    struct rwd_payouts_sum sum;
    const struct rwd_payouts_opts opts = {.env = o->env,
                                          .dir = folder,
                                          .done_rows = p == NULL ? NULL : &p->rows_done,
                                          .cancelled = p == NULL ? NULL : &p->cancelled};

    RON_TRY(rwd_payouts_write(&opts, run->result, &sum, err));
    return rwd__run_name(run, &sum, err);
}

static enum ron_rc write_quarantined(struct rwd_run *run, const struct rwd_write_opts *o,
                                     struct ron_err *err)
{
    char path[RON_FILE_PATH_SIZE];

    RON_TRY(rwd_manifest_commit(&run->manifest, err));
    RON_TRY(attest(run, o, err));
    if (o->dir == NULL) {
        return RON_OK;
    }
    RON_TRY(rwd_run_path(o->dir, run->manifest.epoch, true, path, err));
    return write_manifest(run, o->env, path, err);
}

static enum ron_rc fill_folder(struct rwd_run *run, const struct rwd_write_opts *o,
                               const char *folder, struct ron_err *err)
{
    char path[RON_FILE_PATH_SIZE];

    RON_TRY(write_payouts(run, o, folder, err));
    if (run->manifest.status != RWD_STATUS_OK) {
        return RON_OK; /* the folder is not kept */
    }
    RON_TRY(attest(run, o, err));
    RON_TRY(rwd__path(path, folder, RWD_FILE_COMMITMENT, err));
    RON_TRY(write_commitment(run, o->env, path, err));
    if (o->more != NULL) {
        RON_TRY(o->more(o->more_arg, run, folder, err));
    }
    RON_TRY(rwd__path(path, folder, RWD_FILE_MANIFEST, err));
    RON_TRY(write_manifest(run, o->env, path, err));
    return o->env->disk->sync_dir(o->env, folder, err);
}

static enum ron_rc write_folder(struct rwd_run *run, const struct rwd_write_opts *o,
                                const char *folder, struct ron_err *err)
{
    const struct ron_env *env = o->env;
    char beside[RON_FILE_PATH_SIZE];
    enum ron_rc rc;

    RON_TRY(path_with(o->dir, run->manifest.epoch, ".tmp", beside, err));
    RON_TRY(remove_folder(env, beside, err));
    RON_TRY(env->disk->mkdir(env, beside, DIR_MODE, err));
    rc = fill_folder(run, o, beside, err);
    if (rc == RON_OK && run->manifest.status == RWD_STATUS_OK) {
        rc = env->disk->rename(env, beside, folder, err);
        if (rc == RON_OK) {
            return env->disk->sync_dir(env, o->dir, err);
        }
    }
    RON_IGNORE(remove_folder(env, beside, NULL)); /* the next write clears it otherwise */
    return rc;
}

enum ron_rc rwd_run_write(struct rwd_run *run, const struct rwd_write_opts *opts,
                          struct ron_err *err)
{
    char folder[RON_FILE_PATH_SIZE];
    struct ron_file_stat st;
    enum ron_rc rc = RON_OK;

    rwd__phase(run->progress, RWD_PHASE_WRITING, run->manifest.totals.paid_accounts);
    if (run->manifest.status == RWD_STATUS_OK && opts->dir == NULL) {
        rc = write_payouts(run, opts, NULL, err);
        rc = rc == RON_OK && run->manifest.status == RWD_STATUS_OK ? attest(run, opts, err) : rc;
    } else if (run->manifest.status == RWD_STATUS_OK) {
        RON_TRY(rwd_run_path(opts->dir, run->manifest.epoch, false, folder, err));
        rc = opts->env->disk->stat(opts->env, folder, &st);
        if (rc == RON_OK) {
            RON_TRY(write_payouts(run, opts, NULL, err));
            rc = run->manifest.status == RWD_STATUS_OK ? keep(run, opts->env, folder, err) : rc;
        } else {
            rc = rc == RON_NOTFOUND ? write_folder(run, opts, folder, err)
                                    : ron_err_set(err, rc, "%s cannot be looked at", folder);
        }
    }
    if (rc == RON_OK && run->manifest.status != RWD_STATUS_OK) {
        rc = write_quarantined(run, opts, err);
    }
    if (rc == RON_OK) {
        rwd__phase(run->progress, RWD_PHASE_SEALED, run->manifest.totals.paid_accounts);
    }
    return rc;
}
