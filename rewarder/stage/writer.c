/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/stage/writer.c - the artifact writer: a result becomes a folder of files, and then a
 * sealed epoch.
 *
 * Place: service; one blocking task. Order: files (written beside, synced, renamed), book, registry
 * and waiting replies, emitter. A crash between two of them is found at the next start: a folder
 * without a sealed epoch is computed again to the same bytes and kept.
 *
 * A disk that takes no more fails the run, not the service: three tries 100-250 ms apart, then the
 * epoch is given back, its caller told (503), readyz says why. A book that is away fails the run
 * too; the keeper takes it up again when the book is back (resume.c). */
#include <stdio.h>
#include <string.h>

#include "rewarder/stage/stage.h"
#include "rewarder/tree/claims.h"
#include "ron/base/alloc.h"

enum { TRIES = 3, WAIT_MIN_MS = 100, WAIT_SPAN_MS = 150 };

/* ---- the end of a run ------------------------------------------------------------------------ */

struct rwd_writer {
    struct rwd_core *core;
    struct rwd_store *store;
    struct rwd_pipes *pipes;
    struct ron_need *need_artifacts;
};

/* Answers who waited, with the manifest or, of a quarantined run, 409. */
static void answer(struct rwd_writer *s, struct rwd_outcome *o, struct ron_str manifest)
{
    struct ron_http_reply *waiters[RWD_WAITERS_MAX];
    struct rwd_fault none = {0};
    struct rwd_fault fault;
    bool good = o->run.manifest.status == RWD_STATUS_OK;
    size_t count = rwd_runs_end(s->store->runs, o->job->live, &none, manifest, waiters);

    rwd_fault_set(&fault, RWD_ERROR_QUARANTINED, o->run.breach_text);
    for (size_t i = 0; i < count; i++) {
        if (!good) {
            rwd_reply_fail(waiters[i], &fault);
        } else if (ron_buf_append(ron_http_reply_body(waiters[i]), manifest.ptr, manifest.len) ==
                   RON_OK) {
            ron_http_reply_send(waiters[i], 200, "application/json");
        } else {
            ron_http_reply_fail(waiters[i], RON_HTTP_MEMORY);
        }
    }
    o->job->live = NULL;
}

/* ---- sealing --------------------------------------------------------------------------------- */

static uint64_t fits(struct ron_money m)
{
    return m.v > UINT64_MAX ? UINT64_MAX : (uint64_t)m.v;
}

static void count_run(struct rwd_writer *s, const struct rwd_outcome *o)
{
    const struct rwd_totals *t = &o->run.manifest.totals;
    uint64_t took_ms = ron_env_wall_ms(s->core->env) - o->job->live->began_ms;

    rwd_count_of(s->core, RWD_M_RUNS, "ok", 1);
    rwd_count(s->core, RWD_M_ROWS, rwd_rows_count(o->snapshot.rows));
    rwd_observe(s->core, RWD_M_LATENCY, took_ms * RON_NS_PER_MS);
    rwd_count(s->core, RWD_M_DUST, fits(t->residual));
    rwd_set(s->core, RWD_M_POOL, t->pool);
    rwd_set(s->core, RWD_M_PAYOUT, t->paid);
    rwd_set(s->core, RWD_M_DELTA, t->residual);
}

static enum ron_rc write_files(struct rwd_writer *s, struct rwd_outcome *o, struct ron_err *err)
{
    struct ron_conf_snap *conf = ron_conf_box_get(ron_app_conf_box(s->core->app));
    bool tree = ron_conf_bool(conf, RWD_PUBLIC_TREE);
    enum ron_rc rc = RON_OK;

    ron_conf_unref(conf);
    for (int i = 0; i < TRIES; i++) {
        rc = rwd_run_write(
            &o->run,
            &(struct rwd_write_opts){
                .env = s->store->disk_env,
                .dir = o->job->dry ? NULL : s->store->artifact_dir,
                .more = tree ? rwd_public_tree_more : NULL,
                .more_arg = (void *)(uintptr_t)s->store->disk_env,
                .attester = s->store->attester.key_id[0] != '\0' ? &s->store->attester : NULL},
            err);
        if ((rc != RON_IO && rc != RON_LIMIT) || i + 1 == TRIES) {
            break;
        }
        RON_LOG(s->core->log, WARN, "artifacts could not be written; trying again",
                RON_LOG_ERR(err));
        rwd_pause(s->core, WAIT_MIN_MS + s->core->env->rand_u64(s->core->env) % (WAIT_SPAN_MS + 1));
    }
    ron_need_set(s->need_artifacts,
                 rc == RON_IO || rc == RON_LIMIT ? RON_NEED_MISSING : RON_NEED_OK,
                 rc == RON_OK ? "" : err->msg, 5);
    return rc;
}

static void quarantined(struct rwd_writer *s, struct rwd_outcome *o)
{
    const struct rwd_manifest *m = &o->run.manifest;
    struct ron_str epoch = {o->job->request.epoch, strlen(o->job->request.epoch)};
    const char *kind = rwd_breach_label(m->breach);
    struct ron_err err = {0};

    rwd_count_of(s->core, RWD_M_RUNS, "quarantined", 1);
    if (o->job->dry) { /* it has no epoch, so nobody is called for it */
        RON_LOG(s->core->log, WARN, "a dry run broke a rule",
                RON_LOG_STR("epoch", o->job->request.epoch), RON_LOG_STR("breach", kind),
                RON_LOG_STR("why", o->run.breach_text));
        rwd_tell(s->core, RWD_EVENT_QUARANTINED, o->job->request.epoch, &o->job->request.run_key,
                 true, 0, 0, kind);
        return;
    }
    rwd_count_of(s->core, RWD_M_INVARIANT, kind, 1);
    rwd_count(s->core, RWD_M_QUARANTINE, 1);
    RON_LOG(s->core->log, ERROR, "an epoch is quarantined: nothing of it is paid",
            RON_LOG_STR("epoch", o->job->request.epoch), RON_LOG_STR("breach", kind),
            RON_LOG_STR("why", o->run.breach_text));
    if (rwd_book_quarantine(s->store->book, epoch, m->breach, o->run.breach_text,
                            ron_env_wall_ms(s->core->env), &err) != RON_OK) {
        RON_LOG(s->core->log, ERROR, "the quarantine could not be written down", RON_LOG_ERR(&err));
        ron_au32_store(&s->pipes->left, 1); /* computed again, to the same verdict */
    }
    rwd_look_at_quarantine(s->store);
    rwd_tell(s->core, RWD_EVENT_QUARANTINED, o->job->request.epoch, &o->job->request.run_key, false,
             0, 0, kind);
}

static enum ron_rc seal(struct rwd_writer *s, struct rwd_outcome *o, struct ron_buf *manifest,
                        struct ron_err *err)
{
    RON_TRY(write_files(s, o, err));
    RON_TRY(rwd_manifest_write(&o->run.manifest, manifest));
    if (o->run.manifest.status == RWD_STATUS_OK && !o->job->dry) {
        RON_TRY(
            rwd_book_seal(s->store->book, &o->run.manifest, ron_env_wall_ms(s->core->env), err));
    }
    return RON_OK;
}

static void finish(struct rwd_writer *s, struct rwd_outcome *o)
{
    struct ron_err err = {0};
    struct rwd_fault fault = o->fault;
    struct ron_buf manifest;
    uint64_t from_ns = ron_env_now_ns(s->core->env);
    enum ron_rc rc;

    if (!o->has_run) {
        rwd_outcome_free(s->pipes, o, &fault);
        return;
    }
    ron_au32_store(&o->job->live->progress.phase, RWD_PHASE_WRITING);
    ron_buf_init(&manifest, RWD_MANIFEST_MAX);
    rc = seal(s, o, &manifest, &err);
    ron_trace_stage(ron_app_tracer(s->core->app), &o->job->from,
                    &(struct ron_trace_stage){.name = "artifact_writer",
                                              .queue = "results",
                                              .from_ns = from_ns,
                                              .why = rc == RON_OK ? NULL : ron_rc_name(rc)});
    if (rc != RON_OK) {
        RON_LOG(s->core->log, ERROR, "a run could not be sealed",
                RON_LOG_STR("epoch", o->job->request.epoch), RON_LOG_ERR(&err));
        rwd_job_fault(&fault, o->job, rc, RWD_ERROR_CONFLICT, &err);
        rwd_outcome_free(s->pipes, o, &fault);
    } else {
        bool settle = !o->job->dry && o->run.manifest.status == RWD_STATUS_OK;

        if (o->run.manifest.status == RWD_STATUS_OK) {
            count_run(s, o);
            rwd_tell(s->core, RWD_EVENT_SEALED, o->job->request.epoch, &o->job->request.run_key,
                     o->job->dry, o->run.manifest.payouts.count, o->run.manifest.payouts.count, "");
        } else {
            quarantined(s, o);
        }
        answer(s, o, (struct ron_str){ron_buf_text(&manifest), ron_buf_len(&manifest)});
        if (settle) {
            rwd_emitter_remind(s->pipes, o->job->request.epoch);
        }
        rwd_outcome_free(s->pipes, o, NULL);
    }
    ron_buf_done(&manifest);
}

/* ---- the task -------------------------------------------------------------------------------- */

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    for (size_t i = 0; i < count; i++) {
        finish(arg, items[i]);
    }
    return RON_OK;
}

enum ron_rc rwd_writer_add(struct rwd_pipes *p, struct rwd_writer **ret, struct ron_err *err)
{
    struct rwd_writer *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the writer");
    }
    *ret = s;
    s->core = p->core;
    s->store = p->store;
    s->pipes = p;
    RON_TRY(
        ron_needs_add(ron_app_needs(p->core->app), "artifacts_ok", false, &s->need_artifacts, err));
    return ron_sup_add(ron_app_sup(s->core->app),
                       &(struct ron_task_def){.name = "artifact_writer",
                                              .kind = "writer",
                                              .mode = RON_TASK_BLOCKING,
                                              .stage = 3,
                                              .input = s->pipes->results,
                                              .batch_max = 1,
                                              .handle = handle,
                                              .arg = s},
                       NULL, err);
}
