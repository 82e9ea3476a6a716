/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/offline/tools.c - the tools of tool.h: recovery, and a job on its result. */
#include "ledger/offline/tool.h"

#include <string.h>

#include "ledger/offline/load.h"
#include "ledger/read/export.h"
#include "ledger/recover/mark.h"
#include "ron/base/alloc.h"
#include "ron/io/file.h"
#include "ron/io/linux_env.h"

/* A mistyped directory must neither become a new ledger nor look like a damaged one. */
static enum ron_rc need_log(const struct led_tool_opts *o, struct ron_err *err)
{
    const struct ron_env *env = ron_env_linux();
    struct ron_file_stat st;
    char log_dir[RON_FILE_PATH_SIZE];

    if (env->disk->stat(env, o->dir, &st) == RON_NOTFOUND) {
        return ron_err_set(err, RON_NOTFOUND, "no ledger in %s: there is no such directory",
                           o->dir);
    }
    RON_TRY(led_path(o->dir, "log", log_dir, sizeof log_dir, err));
    if (env->disk->stat(env, log_dir, &st) == RON_NOTFOUND) {
        return ron_err_set(err, RON_NOTFOUND, "no ledger in %s: it has no folder log", o->dir);
    }
    return RON_OK; /* whatever else is wrong, the opening says */
}

/* Opens the directory. Damage is an error here: there is no service that could go on reading. */
static enum ron_rc open_journal(const struct led_tool_opts *o, struct led_recover_opts opts,
                                struct led_recovered *ret, struct ron_err *err)
{
    opts.env = ron_env_linux();
    opts.dir = o->dir;
    opts.parallel = true;
    opts.progress = o->progress;
    opts.progress_arg = o->arg;
    RON_TRY(led_recover(&opts, ret, err));
    if (ret->report.damage != LED_DAMAGE_NONE) {
        (void)ron_err_set(err, RON_CORRUPT, "damaged (%s): %s: %s",
                          led_damage_name(ret->report.damage), ret->report.where, ret->report.what);
        led_recovered_done(ret);
        return RON_CORRUPT;
    }
    return RON_OK;
}

static void report(const struct led_recovered *r, struct led_tool_report *ret)
{
    struct led_log_head head;

    led_log_head(r->log, &head);
    *ret = (struct led_tool_report){.entries = head.last_seq,
                                    .segments = head.segments,
                                    .bytes = head.bytes,
                                    .checked = r->replayed,
                                    .took_ms = r->took_ms};
    memcpy(ret->root, head.root.bytes, sizeof ret->root);
}

enum ron_rc led_tool_verify(const struct led_tool_opts *opts, struct led_tool_report *ret_report,
                            struct ron_err *err)
{
    struct led_recovered r = {0};

    RON_TRY(need_log(opts, err));
    RON_TRY(open_journal(
        opts,
        (struct led_recover_opts){.read_only = true, .verify_all = true, .index_in_memory = true},
        &r, err));
    report(&r, ret_report);
    led_recovered_done(&r);
    return RON_OK;
}

enum ron_rc led_tool_rebuild(const struct led_tool_opts *opts, struct led_tool_report *ret_report,
                             struct ron_err *err)
{
    struct led_recovered r = {0};

    RON_TRY(need_log(opts, err));
    RON_TRY(open_journal(opts, (struct led_recover_opts){.rebuild = true}, &r, err));
    report(&r, ret_report);
    led_recovered_done(&r);
    return RON_OK;
}

/* ---- export ---------------------------------------------------------------------------------- */

static void tell_export(const struct led_tool_opts *o, const struct led_export *x)
{
    uint64_t seq;
    uint64_t last;

    if (o->progress != NULL) {
        led_export_at(x, &seq, &last);
        o->progress(o->arg, seq, last);
    }
}

static enum ron_rc pump(const struct led_tool_opts *o, struct led_export *x, led_tool_write *write,
                        void *arg, struct ron_err *err)
{
    char *piece = ron_alloc(LED_EXPORT_PIECE);
    enum ron_rc rc = RON_OK;
    size_t len = 1;

    if (piece == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the export");
    }
    while (rc == RON_OK && len > 0) {
        rc = led_export_next(x, piece, LED_EXPORT_PIECE, &len, err);
        if (rc == RON_OK && len > 0) {
            rc = write(arg, piece, len, err);
            tell_export(o, x);
        }
    }
    ron_free(piece);
    return rc;
}

static enum ron_rc export_from(const struct led_tool_opts *o, struct led_recovered *r,
                               struct led_export_opts *eo, led_tool_write *write, void *arg,
                               struct ron_err *err)
{
    struct led_log_head head;
    struct led_export *x = NULL;
    enum ron_rc rc;

    led_log_head(r->log, &head);
    rc = led_reader_new(
        &(struct led_reader_opts){.log = r->log,
                                  .hashes = r->hashes == NULL ? NULL : led_hashes_store(r->hashes)},
        &eo->reader);
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "no memory for a reader");
    }
    led_reader_set_head(eo->reader, head.last_seq, &head.root);
    rc = led_export_new(eo, &x, err);
    rc = rc == RON_OK ? pump(o, x, write, arg, err) : rc;
    led_export_free(x);
    led_reader_free(eo->reader);
    return rc;
}

enum ron_rc led_tool_export(const struct led_tool_opts *opts, const char *format, uint64_t from,
                            uint64_t to, led_tool_write *write, void *arg, struct ron_err *err)
{
    struct led_export_opts eo = {.from_seq = from, .to_seq = to};
    struct led_recovered r = {0};
    enum ron_rc rc;

    if (!led_export_format_parse((struct ron_str){format, strlen(format)}, &eo.format)) {
        return ron_err_set(err, RON_INVALID, "format is ndjson, hledger, ledger or beancount");
    }
    RON_TRY(need_log(opts, err));
    RON_TRY(open_journal(
        opts, (struct led_recover_opts){.read_only = true, .index_in_memory = true}, &r, err));
    rc = export_from(opts, &r, &eo, write, arg, err);
    led_recovered_done(&r);
    return rc;
}

/* ---- import ---------------------------------------------------------------------------------- */

static enum ron_rc fill(struct led_load *load, led_tool_read *read, void *arg, struct ron_err *err)
{
    char *piece = ron_alloc(LED_EXPORT_PIECE);
    enum ron_rc rc = RON_OK;
    size_t len = 1;

    if (piece == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the import");
    }
    while (rc == RON_OK && len > 0) {
        rc = read(arg, piece, LED_EXPORT_PIECE, &len, err);
        if (rc == RON_OK && len > 0) {
            rc = led_load_push(load, piece, len, err);
        }
    }
    ron_free(piece);
    return rc == RON_OK ? led_load_end(load, err) : rc;
}

enum ron_rc led_tool_import(const struct led_tool_opts *opts, led_tool_read *read, void *arg,
                            struct led_tool_report *ret_report, struct ron_err *err)
{
    struct led_recovered r = {0};
    struct led_load *load = NULL;
    enum ron_rc rc;

    RON_TRY(open_journal(opts, (struct led_recover_opts){0}, &r, err));
    rc = led_load_new(ron_env_linux(), opts->dir, &r, &load, err);
    rc = rc == RON_OK ? fill(load, read, arg, err) : rc;
    led_load_free(load);
    if (rc == RON_OK) {
        report(&r, ret_report);
    }
    led_recovered_done(&r);
    return rc;
}
