/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/stage/sched.c - the compute scheduler: one task that decides whether a request is a new
 * run.
 *
 * Place: service; a blocking task, because it reads snapshots and writes book and inputs. It is the
 * only one that reserves epochs, so two requests for one epoch meet here one after the other.
 *
 *     policy found and right --> snapshot inline: read, checked, stored --> reserved --> work
 *
 * Inputs are sealed (in the store, under the id that the run is named by) before a job exists, and
 * workers read them from there alone. At the start it takes up what an earlier life left
 * unfinished (resume.c). */
#include <string.h>

#include "rewarder/svc.h"
#include "ron/base/alloc.h"

/* ---- jobs ------------------------------------------------------------------------------------ */

void rew_job_free(struct rew_job *job)
{
    rew_policy_free(job->policy);
    ron_cas_release(job->inputs);
    ron_free(job);
}

void rew_job_failed(struct rew_svc *s, struct rew_job *take_job, const struct rew_fault *fault)
{
    struct ron_http_reply *waiters[REW_WAITERS_MAX];
    struct rew_job *job = take_job;
    size_t count = rew_runs_end(s->runs, job->live, fault, (struct ron_str){0}, waiters);

    for (size_t i = 0; i < count; i++) {
        rew_reply_fail(s, waiters[i], fault);
    }
    rew_count_of(s, REW_M_RUNS, "fail", 1);
    rew_tell(s, REW_EVENT_FAILED, job->request.epoch, &job->request.run_key, job->dry, 0, 0,
             rew_error_label(fault->error));
    rew_job_free(job);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static bool seal_inline(struct rew_svc *s, const struct rew_work_req *w,
                        struct rew_fault *ret_fault)
{
    struct rew_snapshot snapshot = {0};
    struct ron_err err = {0};
    enum ron_rc rc = rew_snapshot_read(
        w->snapshot.ptr, w->snapshot.len, REW_FORM_JSON,
        &(struct rew_rows_opts){.rows_max = (uint64_t)ron_conf_int(s->conf, REW_ROWS_MAX)},
        &snapshot, &err);

    if (rc != RON_OK) {
        ron_err_prefix(&err, "snapshot");
        rew_fault_of(ret_fault, rc, REW_ERROR_SCHEMA, &err);
        return false;
    }
    if (!ron_b3_equal(&snapshot.cid, &w->inputs_cid)) {
        char cid[RON_B3_ID_SIZE];

        ron_b3_format(&snapshot.cid, cid);
        RON_IGNORE(ron_err_set(&err, RON_INVALID, "the snapshot is %s, not inputs_cid", cid));
        rew_fault_set(ret_fault, REW_ERROR_CID, err.msg);
        rc = RON_INVALID;
    } else {
        rc = rew_inputs_seal(s, &snapshot, &err);
        if (rc != RON_OK) {
            rew_fault_of(ret_fault, rc, REW_ERROR_STORAGE, &err);
        }
    }
    rew_snapshot_done(&snapshot);
    return rc == RON_OK;
}

/* Holds the sealed inputs, so that they stay until the run has read them. */
static bool hold_inputs(struct rew_svc *s, const struct ron_b3 *cid, struct ron_cas_obj **ret_obj,
                        struct rew_fault *ret_fault)
{
    struct ron_err err = {0};
    enum ron_rc rc = ron_cas_open(s->inputs, cid, ret_obj, &err);

    if (rc == RON_NOTFOUND || rc == RON_CORRUPT) {
        rew_fault_set(ret_fault, REW_ERROR_NO_INPUTS, NULL);
    } else if (rc != RON_OK) {
        rew_fault_of(ret_fault, rc, REW_ERROR_STORAGE, &err);
    }
    return rc == RON_OK;
}

/* ---- policy ---------------------------------------------------------------------------------- */

static bool needs_signature(const struct rew_policy *p)
{
    return p->funding == REW_FUND_PROTOCOL_POOL || p->funding == REW_FUND_GOVERNANCE_BUDGET;
}

static bool find_policy(struct rew_svc *s, const struct rew_work_req *w,
                        struct rew_policy_doc **ret_doc, struct rew_fault *ret_fault)
{
    struct ron_err err = {0};
    struct rew_policy_doc *doc = NULL;
    enum ron_rc rc;

    if (w->policy.len > 0) {
        rc = rew_policy_read(w->policy.ptr, w->policy.len, s->policy_keys, s->policy_key_count,
                             &doc, &err);
        ron_err_prefix(&err, "policy");
    } else {
        rc = rew_policy_known(s, w->policy_id, &w->policy_hash, &doc, &err);
    }
    if (rc == RON_NOTFOUND) {
        rew_fault_set(ret_fault, REW_ERROR_NO_POLICY, NULL);
        return false;
    }
    if (rc != RON_OK) {
        rew_fault_of(ret_fault, rc, REW_ERROR_POLICY, &err);
        return false;
    }
    const struct rew_policy *p = rew_policy_of(doc);

    if (p->id.len != w->policy_id.len || memcmp(p->id.ptr, w->policy_id.ptr, p->id.len) != 0 ||
        !ron_b3_equal(&p->hash, &w->policy_hash)) {
        rew_fault_set(ret_fault, REW_ERROR_POLICY, "policy_id or policy_hash names another policy");
    } else if (needs_signature(p) && !p->is_signed) {
        rew_fault_set(ret_fault, REW_ERROR_POLICY, "this funding source needs a signed policy");
    } else if (w->policy.len > 0 && !w->dry &&
               (rc = rew_book_policy_put(s->book, doc, ron_env_wall_ms(s->env), &err)) != RON_OK) {
        rew_fault_of(ret_fault, rc, REW_ERROR_POLICY, &err);
    } else {
        *ret_doc = doc;
        return true;
    }
    rew_policy_free(doc);
    return false;
}

/* ---- reservation ----------------------------------------------------------------------------- */

/* What an epoch that was sealed, and what came of it, answers. */
static void answer_existing(struct rew_svc *s, struct rew_work_req *w, const struct rew_epoch *e)
{
    struct rew_fault fault;
    struct ron_err err = {0};
    enum ron_rc rc;

    rew_count(s, REW_M_IDEMPOTENT, 1);
    if (e->state == REW_QUARANTINED) {
        rew_fault_set(&fault, REW_ERROR_QUARANTINED, e->reason);
        rew_reply_fail(s, w->reply, &fault);
        return;
    }
    if (e->state == REW_RETIRED) {
        rew_fault_set(&fault, REW_ERROR_RETIRED, NULL);
        rew_reply_fail(s, w->reply, &fault);
        return;
    }
    rc = rew_manifest_text(s, (struct ron_str){w->epoch, strlen(w->epoch)}, false,
                           ron_http_reply_body(w->reply), &err);
    if (rc != RON_OK) {
        rew_fault_of(&fault, rc, REW_ERROR_INTERNAL, &err);
        rew_reply_fail(s, w->reply, &fault);
    } else {
        ron_http_reply_send(w->reply, 200, "application/json");
    }
}

static void make_request(struct rew_svc *s, const struct rew_work_req *w, struct rew_request *ret)
{
    struct ron_conf_str salt = ron_conf_str(s->conf, REW_SALT);
    struct ron_str epoch = {w->epoch, strlen(w->epoch)};

    *ret = (struct rew_request){.inputs_cid = w->inputs_cid,
                                .policy_hash = w->policy_hash,
                                .has_ledger = w->has_ledger,
                                .ledger_root = w->ledger_root,
                                .ledger_seq = w->ledger_seq};
    memcpy(ret->epoch, w->epoch, sizeof ret->epoch);
    memcpy(ret->policy_id, w->policy_id.ptr, w->policy_id.len);
    if (w->carry_epoch.len > 0) {
        memcpy(ret->carry_epoch, w->carry_epoch.ptr, w->carry_epoch.len);
    }
    rew_run_key((struct ron_str){salt.text, salt.len}, epoch, &w->policy_hash, &w->inputs_cid,
                &ret->run_key);
}

enum ron_rc rew_job_find_carry(struct rew_svc *s, struct rew_job *job, struct ron_err *err)
{
    struct ron_str from = {job->request.carry_epoch, strlen(job->request.carry_epoch)};
    struct rew_epoch e;

    if (from.len == 0) {
        return RON_OK;
    }
    RON_TRY(rew_book_get(s->book, from, &e, err));
    if (!e.residual_carries) {
        return ron_err_set(err, RON_CONFLICT, "carry_from: nothing of that epoch is carried on");
    }
    job->carry_commitment = e.commitment;
    job->carry_in = e.residual;
    return RON_OK;
}

/* Hands the job to the workers; on failure the reservation is undone and the caller told. */
static void hand_over(struct rew_svc *s, struct rew_work_req *w, struct rew_job *job)
{
    struct rew_view view = {.run_key = job->request.run_key, .began_ms = job->live->began_ms};
    struct ron_str epoch = {job->request.epoch, strlen(job->request.epoch)};
    bool waits = w->wait &&
                 rew_runs_wait(s->runs, epoch, &job->request.run_key, job->dry, w->reply) == RON_OK;
    bool dry = job->dry;
    struct rew_fault fault;
    enum ron_rc rc;

    memcpy(view.epoch, job->request.epoch, sizeof view.epoch);
    rew_tell(s, REW_EVENT_STARTED, job->request.epoch, &job->request.run_key, dry, 0, 0, "");
    rc = ron_chan_send(s->work, job, job->deadline, NULL); /* one retry after 50-150 ms */
    if (rc == RON_OK) {
        if (!waits) {
            rew_reply_view(w->reply, 202, &view);
        }
        return;
    }
    rew_fault_set(&fault, rc == RON_CLOSED ? REW_ERROR_DRAINING : REW_ERROR_BACKPRESSURE, NULL);
    if (!dry && rc != RON_CLOSED) {
        RON_IGNORE(rew_epoch_give_back(s, epoch));
    }
    rew_job_failed(s, job, &fault); /* answers who waits */
    if (!waits) {
        rew_reply_fail(s, w->reply, &fault);
    }
}

struct rew_job *rew_job_new(struct rew_policy_doc *take_policy, struct ron_cas_obj *take_inputs,
                            const struct rew_request *request)
{
    struct rew_job *job = ron_alloc_zero(sizeof *job);

    if (job == NULL) {
        rew_policy_free(take_policy);
        ron_cas_release(take_inputs);
        return NULL;
    }
    job->policy = take_policy;
    job->inputs = take_inputs;
    job->request = *request;
    return job;
}

/* A run that is new to the registry: reserved in the book unless it is dry. False: answered, and
 * out of the registry before that, so that who has the answer never sees a run that was none. */
static bool reserve(struct rew_svc *s, struct rew_work_req *w, struct rew_job *job)
{
    struct rew_epoch e = {0};
    struct rew_fault fault;
    struct ron_err err = {0};
    enum ron_rc rc = RON_OK;

    if (!job->dry) {
        rc = rew_book_reserve(s->book, &job->request, ron_env_wall_ms(s->env), &e, &err);
    }
    if (rc == RON_EXISTS && (e.state == REW_RESERVED || e.state == REW_COMPUTING)) {
        /* The registry took us in, so nobody computes it: its run failed while the book was away
         * and could not be told. It is taken up as it was accepted, before resume.c does. */
        job->request = e.request;
        rc = RON_OK;
    }
    if (rc == RON_EXISTS) {
        rew_runs_undo(s->runs, job->live);
        answer_existing(s, w, &e);
        return false;
    }
    if (rc == RON_OK) {
        rc = rew_job_find_carry(s, job, &err);
        if (rc != RON_OK && !job->dry) {
            RON_IGNORE(rew_epoch_give_back(
                s, (struct ron_str){job->request.epoch, strlen(job->request.epoch)}));
        }
    }
    if (rc == RON_OK) {
        return true;
    }
    rew_runs_undo(s->runs, job->live);
    if (rc == RON_CONFLICT) {
        rew_count(s, REW_M_CONFLICTS, 1);
    } else if (rc == RON_IO) { /* it may be reserved all the same */
        ron_au32_store(&s->left, 1);
    }
    rew_fault_of(&fault, rc, REW_ERROR_CONFLICT, &err);
    rew_reply_fail(s, w->reply, &fault);
    return false;
}

/* A run of the same epoch is under way already. */
static void answer_under_way(struct rew_svc *s, struct rew_work_req *w, enum ron_rc rc,
                             const struct rew_request *request)
{
    struct ron_str epoch = {w->epoch, strlen(w->epoch)};
    struct rew_view view = {0};
    struct rew_fault fault;

    if (rc == RON_EXISTS) {
        rew_count(s, REW_M_IDEMPOTENT, 1);
        if (w->wait &&
            rew_runs_wait(s->runs, epoch, &request->run_key, w->dry, w->reply) == RON_OK) {
            return;
        }
        RON_IGNORE(rew_runs_get(s->runs, epoch, w->dry, &view, NULL));
        rew_reply_view(w->reply, 202, &view);
        return;
    }
    if (rc == RON_CONFLICT) {
        rew_count(s, REW_M_CONFLICTS, 1);
    }
    rew_fault_set(&fault, rc == RON_CONFLICT ? REW_ERROR_CONFLICT : REW_ERROR_BUSY, NULL);
    rew_reply_fail(s, w->reply, &fault);
}

static void schedule(struct rew_svc *s, struct rew_work_req *w)
{
    struct rew_policy_doc *policy = NULL;
    struct ron_cas_obj *inputs = NULL;
    struct rew_fault fault = {0};
    struct rew_request request;
    struct rew_job *job;
    struct rew_live *live = NULL;
    enum ron_rc rc;

    if (!find_policy(s, w, &policy, &fault) ||
        (w->snapshot.len > 0 && !seal_inline(s, w, &fault)) ||
        !hold_inputs(s, &w->inputs_cid, &inputs, &fault)) {
        rew_policy_free(policy);
        rew_reply_fail(s, w->reply, &fault);
        return;
    }
    make_request(s, w, &request);
    job = rew_job_new(policy, inputs, &request);
    if (job == NULL) {
        rew_fault_set(&fault, REW_ERROR_BUSY, "no memory for the run");
        rew_reply_fail(s, w->reply, &fault);
        return;
    }
    job->dry = w->dry;
    job->deadline = w->deadline;
    ron_http_reply_from(w->reply, &job->from);
    rc = rew_runs_begin(s->runs, (struct ron_str){w->epoch, strlen(w->epoch)}, &request.run_key,
                        w->dry, ron_env_wall_ms(s->env), &live);
    if (rc != RON_OK) {
        rew_job_free(job);
        answer_under_way(s, w, rc, &request);
        return;
    }
    job->live = live;
    if (!reserve(s, w, job)) {
        rew_job_free(job);
        return;
    }
    hand_over(s, w, job);
}

/* ---- the task -------------------------------------------------------------------------------- */

static enum ron_rc start(struct ron_task *t, void *arg)
{
    struct rew_svc *s = arg;

    (void)t;
    if (!ron_au32_xchg(&s->resumed, 1)) { /* once in a life, not at a restart of this task */
        rew_resume(s);
    }
    return RON_OK;
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct rew_svc *s = arg;

    (void)t;
    for (size_t i = 0; i < count; i++) {
        struct rew_work_req *w = items[i];
        uint64_t began_ns = ron_env_now_ns(s->env);
        struct ron_trace_from from;

        ron_http_reply_from(w->reply, &from);
        if (ron_http_reply_cancelled(w->reply)) { /* nobody waits, and nothing has happened */
            struct rew_fault fault;

            rew_fault_set(&fault, REW_ERROR_TIMEOUT, NULL);
            rew_reply_fail(s, w->reply, &fault);
        } else {
            schedule(s, w);
        }
        rew_observe(s, REW_M_PREPARE, ron_env_now_ns(s->env) - began_ns);
        ron_trace_stage(ron_app_tracer(s->app), &from,
                        &(struct ron_trace_stage){
                            .name = "scheduler", .queue = "work_req", .from_ns = began_ns});
        ron_free(w);
    }
    return RON_OK;
}

enum ron_rc rew_sched_add(struct rew_svc *s, struct ron_err *err)
{
    return ron_sup_add(ron_app_sup(s->app),
                       &(struct ron_task_def){.name = "scheduler",
                                              .kind = "scheduler",
                                              .mode = RON_TASK_BLOCKING,
                                              .stage = 1,
                                              .input = s->work_req,
                                              .batch_max = 1,
                                              .restart = {.essential = true},
                                              .start = start,
                                              .handle = handle,
                                              .arg = s},
                       NULL, err);
}
