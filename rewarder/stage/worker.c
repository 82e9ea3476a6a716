/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/stage/worker.c - the worker pool: sealed inputs in, checked result out.
 *
 * Place: service; blocking tasks, as many as concurrency.compute_workers, on one queue. A worker
 * keeps nothing between runs. What it does is pure but for reading the inputs and moving the epoch
 * to COMPUTING, so a run can be begun again by anybody: by the next life, which finds it in the
 * book, or by another worker.
 *
 * A run for which memory does not suffice fails alone (429). A worker that does not even get room
 * for its own work fails itself: its run goes back into the queue, for whoever is well, and the
 * supervisor starts it again after a while that grows, which is the less load that a process
 * without memory needs. After TRIES workers the run has failed, so that it cannot take all of them
 * with it.
 *
 * The way out of a run: first the settlement is announced (intents), then the result goes to the
 * writer (results). When there is no room for the announcement in time the epoch is quarantined,
 * and the writer writes that down. */
#include <stdio.h>
#include <string.h>

#include "rewarder/stage/stage.h"
#include "ron/base/alloc.h"

enum {
    PIECE = 1 << 20, /* of inputs read at once */
    TRIES = 3,
};

struct rwd_workers {
    struct rwd_core *core;
    struct rwd_store *store;
    struct rwd_pipes *pipes;
    char names[RWD_WORKERS_MAX][24];
};

/* ---- reading --------------------------------------------------------------------------------- */

static bool stopped(const struct rwd_workers *s, const struct rwd_job *job)
{
    return ron_env_now_ns(s->core->env) >= job->deadline.at_ns ||
           ron_au32_load(&job->live->progress.cancelled) != 0;
}

static enum ron_rc feed_all(struct rwd_workers *s, struct rwd_job *job, char *piece,
                            struct rwd_snapshot_reader *r, struct ron_err *err)
{
    uint64_t size = ron_cas_obj_size(job->inputs);
    enum ron_rc rc = RON_OK;

    for (uint64_t off = 0; rc == RON_OK && off < size;) {
        size_t len = 0;

        if (stopped(s, job)) {
            rc = ron_err_set(err, RON_CANCELLED, "the deadline of the run passed");
        } else {
            rc = ron_cas_read(job->inputs, off, piece, PIECE, &len);
            if (rc == RON_OK && len == 0) {
                rc = ron_err_set(err, RON_CORRUPT, "sealed inputs end too early");
            } else if (rc != RON_OK) {
                RON_IGNORE(ron_err_set(err, rc, "sealed inputs cannot be read"));
            }
        }
        if (rc == RON_OK) {
            rc = rwd_snapshot_feed(r, piece, len, err);
            off += len;
            ron_au64_store(&job->live->progress.rows_done, rwd_snapshot_rows_read(r));
        }
    }
    return rc;
}

static enum ron_rc read_inputs(struct rwd_workers *s, struct rwd_job *job, char *piece,
                               struct rwd_snapshot *ret, struct ron_err *err)
{
    struct rwd_snapshot_reader *r = NULL;
    enum ron_rc rc;

    ron_au32_store(&job->live->progress.phase, RWD_PHASE_READING);
    RON_TRY(rwd_snapshot_reader_new(
        RWD_FORM_JSON,
        &(struct rwd_rows_opts){.rows_max = (uint64_t)ron_conf_int(s->core->conf, RWD_ROWS_MAX)},
        &r, err));
    rc = feed_all(s, job, piece, r, err);
    if (rc != RON_OK) {
        rwd_snapshot_reader_free(r);
        return rc;
    }
    RON_TRY(rwd_snapshot_end(r, ret, err));
    if (!ron_b3_equal(&ret->cid, &job->request.inputs_cid)) {
        return ron_err_set(err, RON_CORRUPT, "sealed inputs are not what their id says");
    }
    return RON_OK;
}

/* ---- one run --------------------------------------------------------------------------------- */

/* Accounts that the ledger would refuse are refused before anything is published: it has no '.' in
 * their names, and nobody pays himself. */
static enum ron_rc check_accounts(const struct rwd_rows *rows, const struct rwd_policy *policy,
                                  struct ron_err *err)
{
    for (uint64_t i = 0, count = rwd_rows_count(rows); i < count; i++) {
        struct ron_str a = rwd_rows_account(rows, i);

        if (memchr(a.ptr, '.', a.len) != NULL) {
            return ron_err_set(err, RON_INVALID, "account %.*s: the ledger takes no '.'",
                               (int)a.len, a.ptr);
        }
        if (a.len == policy->funding_account.len &&
            memcmp(a.ptr, policy->funding_account.ptr, a.len) == 0) {
            return ron_err_set(err, RON_INVALID, "account %.*s: it is what pays", (int)a.len,
                               a.ptr);
        }
    }
    return RON_OK;
}

static enum ron_rc compute(struct rwd_workers *s, struct rwd_job *job, char *piece,
                           struct rwd_outcome *o, struct ron_err *err)
{
    struct ron_conf_str salt = ron_conf_str(s->core->conf, RWD_SALT);
    struct ron_conf_snap *conf;
    uint32_t parts;

    if (!job->dry) {
        struct ron_str epoch = {job->request.epoch, strlen(job->request.epoch)};
        enum ron_rc rc = rwd_book_move(s->store->book, epoch, RWD_RESERVED, RWD_COMPUTING, "",
                                       ron_env_wall_ms(s->core->env), err);

        if (rc != RON_OK && rc != RON_CONFLICT) { /* of an earlier life: it is COMPUTING */
            return rc;
        }
    }
    RON_TRY(read_inputs(s, job, piece, &o->snapshot, err));
    RON_TRY(check_accounts(o->snapshot.rows, rwd_policy_of(job->policy), err));
    conf = ron_conf_box_get(ron_app_conf_box(s->core->app));
    parts = (uint32_t)ron_conf_int(conf, RWD_SHARDS);
    ron_conf_unref(conf);
    return rwd_run_compute(
        &(struct rwd_run_opts){
            .epoch = {job->request.epoch, strlen(job->request.epoch)},
            .salt = {salt.text, salt.len},
            .policy = rwd_policy_of(job->policy),
            .has_ledger = job->request.has_ledger,
            .ledger_root = job->request.ledger_root,
            .ledger_seq = job->request.ledger_seq,
            .carry_epoch = {job->request.carry_epoch, strlen(job->request.carry_epoch)},
            .carry_commitment = job->carry_commitment,
            .carry_in = job->carry_in,
            .parts = parts,
            .progress = &job->live->progress},
        &o->snapshot, &o->run, err);
}

/* Tells the emitter that there will be something to settle. A breach when there is no room. */
static void announce(struct rwd_workers *s, struct rwd_outcome *o)
{
    uint64_t wait_ms = (uint64_t)ron_conf_ms(s->core->conf, RON_APP_WRITE_TIMEOUT);
    struct rwd_intent *intent = ron_alloc_zero(sizeof *intent);
    enum ron_rc rc = RON_NOMEM;

    if (intent != NULL) {
        memcpy(intent->epoch, o->job->request.epoch, sizeof intent->epoch);
        rc = ron_chan_send(s->pipes->intents, intent,
                           ron_deadline_after_ms(ron_env_now_ns(s->core->env), wait_ms), NULL);
    }
    if (rc == RON_OK) {
        return;
    }
    ron_free(intent);
    if (rc == RON_CLOSED || rc == RON_CANCELLED) {
        return; /* a shutdown: the book knows the run, and the next life settles it */
    }
    o->run.manifest.status = RWD_STATUS_QUARANTINED;
    o->run.manifest.breach = RWD_BREACH_HANDOVER;
    (void)snprintf(o->run.breach_text, sizeof o->run.breach_text,
                   "the settlement could not be handed over in %llu ms",
                   (unsigned long long)wait_ms);
}

static void run_job(struct rwd_workers *s, struct rwd_job *job, char *piece, struct rwd_outcome *o)
{
    struct ron_err err = {0};
    enum ron_rc rc = RON_CANCELLED;
    uint64_t from_ns = ron_env_now_ns(s->core->env);

    o->job = job;
    if (stopped(s, job)) {
        RON_IGNORE(ron_err_set(&err, RON_CANCELLED, "the deadline of the run passed"));
    } else {
        rc = compute(s, job, piece, o, &err);
    }
    o->has_run = rc == RON_OK;
    if (rc != RON_OK) {
        rwd_job_fault(&o->fault, job, rc, RWD_ERROR_SCHEMA, &err);
        if (o->fault.error == RWD_ERROR_TIMEOUT) {
            rwd_timed_out(s->core, "compute", "worker");
        }
    } else if (!job->dry && o->run.manifest.status == RWD_STATUS_OK) {
        announce(s, o);
    }
    ron_trace_stage(ron_app_tracer(s->core->app), &job->from,
                    &(struct ron_trace_stage){.name = "worker",
                                              .queue = "work",
                                              .from_ns = from_ns,
                                              .why = rc == RON_OK ? NULL : ron_rc_name(rc)});
    if (ron_chan_send(s->pipes->results, o, ron_deadline_never(), NULL) != RON_OK) {
        rwd_outcome_drop(s->pipes, o);
    }
}

/* Of a worker that fails: the run is for another one, or has failed. */
static void run_again(struct rwd_workers *s, struct rwd_job *job)
{
    struct rwd_fault fault;
    enum ron_rc rc = RON_LIMIT;

    RON_LOG(s->core->log, WARN, "a worker has no memory; its run is begun again by another",
            RON_LOG_STR("epoch", job->request.epoch), RON_LOG_U64("tries", job->tries + 1U));
    if (++job->tries < TRIES) {
        rc = ron_chan_try_send(s->pipes->work, job, NULL); /* then it is somebody else's */
    }
    if (rc == RON_CLOSED) {
        rwd_fault_set(&fault, RWD_ERROR_DRAINING, NULL);
        rwd_job_given_up(s->pipes, job, &fault);
    } else if (rc != RON_OK) {
        rwd_fault_set(&fault, RWD_ERROR_BUSY, "no memory for the run");
        rwd_job_given_up(s->pipes, job, &fault);
    }
}

/* ---- the task -------------------------------------------------------------------------------- */

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct rwd_workers *s = arg;
    struct ron_err err = {0};
    enum ron_rc rc = RON_OK;

    for (size_t i = 0; i < count; i++) {
        struct rwd_outcome *o = ron_alloc_zero(sizeof *o);
        char *piece = o != NULL ? ron_alloc(PIECE) : NULL;

        if (o != NULL && piece != NULL) {
            run_job(s, items[i], piece, o);
        } else {
            run_again(s, items[i]);
            ron_free(o);
            rc = ron_err_set(&err, RON_NOMEM, "no memory to compute with");
            ron_task_set_error(t, &err);
        }
        ron_free(piece);
    }
    return rc;
}

enum ron_rc rwd_workers_add(struct rwd_pipes *p, struct rwd_workers **ret, struct ron_err *err)
{
    uint32_t count = (uint32_t)ron_conf_int(p->core->conf, RWD_WORKERS);
    struct rwd_workers *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the workers");
    }
    *ret = s;
    s->core = p->core;
    s->store = p->store;
    s->pipes = p;
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(s->names[i], sizeof s->names[i], "worker-%u", i);
        RON_TRY(ron_sup_add(ron_app_sup(s->core->app),
                            &(struct ron_task_def){.name = s->names[i],
                                                   .kind = "worker",
                                                   .mode = RON_TASK_BLOCKING,
                                                   .stage = 2,
                                                   .input = s->pipes->work,
                                                   .batch_max = 1,
                                                   .handle = handle,
                                                   .arg = s},
                            NULL, err));
    }
    return RON_OK;
}
