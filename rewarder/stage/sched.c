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

#include "rewarder/stage/stage.h"
#include "ron/base/alloc.h"

/* ---- inputs ---------------------------------------------------------------------------------- */

struct rwd_sched {
    struct rwd_core *core;
    struct rwd_store *store;
    struct rwd_pipes *pipes;
    struct ron_au32 resumed; /* what an earlier life left has been taken up */
};

static bool seal_inline(struct rwd_sched *s, const struct rwd_work_req *w,
                        struct rwd_fault *ret_fault)
{
    struct rwd_snapshot snapshot = {0};
    struct ron_err err = {0};
    enum ron_rc rc = rwd_snapshot_read(
        w->snapshot.ptr, w->snapshot.len, RWD_FORM_JSON,
        &(struct rwd_rows_opts){.rows_max = (uint64_t)ron_conf_int(s->core->conf, RWD_ROWS_MAX)},
        &snapshot, &err);

    if (rc != RON_OK) {
        ron_err_prefix(&err, "snapshot");
        rwd_fault_of(ret_fault, rc, RWD_ERROR_SCHEMA, &err);
        return false;
    }
    if (!ron_b3_equal(&snapshot.cid, &w->inputs_cid)) {
        char cid[RON_B3_ID_SIZE];

        ron_b3_format(&snapshot.cid, cid);
        RON_IGNORE(ron_err_set(&err, RON_INVALID, "the snapshot is %s, not inputs_cid", cid));
        rwd_fault_set(ret_fault, RWD_ERROR_CID, err.msg);
        rc = RON_INVALID;
    } else {
        rc = rwd_inputs_seal(s->store, &snapshot, &err);
        if (rc != RON_OK) {
            rwd_fault_of(ret_fault, rc, RWD_ERROR_STORAGE, &err);
        }
    }
    rwd_snapshot_done(&snapshot);
    return rc == RON_OK;
}

/* Holds the sealed inputs, so that they stay until the run has read them. */
static bool hold_inputs(struct rwd_sched *s, const struct ron_b3 *cid, struct ron_cas_obj **ret_obj,
                        struct rwd_fault *ret_fault)
{
    struct ron_err err = {0};
    enum ron_rc rc = ron_cas_open(s->store->inputs, cid, ret_obj, &err);

    if (rc == RON_NOTFOUND || rc == RON_CORRUPT) {
        rwd_fault_set(ret_fault, RWD_ERROR_NO_INPUTS, NULL);
    } else if (rc != RON_OK) {
        rwd_fault_of(ret_fault, rc, RWD_ERROR_STORAGE, &err);
    }
    return rc == RON_OK;
}

/* ---- policy ---------------------------------------------------------------------------------- */

static bool needs_signature(const struct rwd_policy *p)
{
    return p->funding == RWD_FUND_PROTOCOL_POOL || p->funding == RWD_FUND_GOVERNANCE_BUDGET;
}

static bool find_policy(struct rwd_sched *s, const struct rwd_work_req *w,
                        struct rwd_policy_doc **ret_doc, struct rwd_fault *ret_fault)
{
    struct ron_err err = {0};
    struct rwd_policy_doc *doc = NULL;
    enum ron_rc rc;

    if (w->policy.len > 0) {
        rc = rwd_policy_read(w->policy.ptr, w->policy.len, s->store->policy_keys,
                             s->store->policy_key_count, &doc, &err);
        ron_err_prefix(&err, "policy");
    } else {
        rc = rwd_policy_known(s->store, w->policy_id, &w->policy_hash, &doc, &err);
    }
    if (rc == RON_NOTFOUND) {
        rwd_fault_set(ret_fault, RWD_ERROR_NO_POLICY, NULL);
        return false;
    }
    if (rc != RON_OK) {
        rwd_fault_of(ret_fault, rc, RWD_ERROR_POLICY, &err);
        return false;
    }
    const struct rwd_policy *p = rwd_policy_of(doc);

    if (p->id.len != w->policy_id.len || memcmp(p->id.ptr, w->policy_id.ptr, p->id.len) != 0 ||
        !ron_b3_equal(&p->hash, &w->policy_hash)) {
        rwd_fault_set(ret_fault, RWD_ERROR_POLICY, "policy_id or policy_hash names another policy");
    } else if (needs_signature(p) && !p->is_signed) {
        rwd_fault_set(ret_fault, RWD_ERROR_POLICY, "this funding source needs a signed policy");
    } else if (w->policy.len > 0 && !w->dry &&
               (rc = rwd_book_policy_put(s->store->book, doc, ron_env_wall_ms(s->core->env),
                                         &err)) != RON_OK) {
        rwd_fault_of(ret_fault, rc, RWD_ERROR_POLICY, &err);
    } else {
        *ret_doc = doc;
        return true;
    }
    rwd_policy_free(doc);
    return false;
}

/* ---- reservation ----------------------------------------------------------------------------- */

/* What an epoch that was sealed, and what came of it, answers. */
static void answer_existing(struct rwd_sched *s, struct rwd_work_req *w, const struct rwd_epoch *e)
{
    struct rwd_fault fault;
    struct ron_err err = {0};
    enum ron_rc rc;

    rwd_count(s->core, RWD_M_IDEMPOTENT, 1);
    if (e->state == RWD_QUARANTINED) {
        rwd_fault_set(&fault, RWD_ERROR_QUARANTINED, e->reason);
        rwd_reply_fail(w->reply, &fault);
        return;
    }
    if (e->state == RWD_RETIRED) {
        rwd_fault_set(&fault, RWD_ERROR_RETIRED, NULL);
        rwd_reply_fail(w->reply, &fault);
        return;
    }
    rc = rwd_manifest_text(s->store, (struct ron_str){w->epoch, strlen(w->epoch)}, false,
                           ron_http_reply_body(w->reply), &err);
    if (rc != RON_OK) {
        rwd_fault_of(&fault, rc, RWD_ERROR_INTERNAL, &err);
        rwd_reply_fail(w->reply, &fault);
    } else {
        ron_http_reply_send(w->reply, 200, "application/json");
    }
}

static void make_request(struct rwd_sched *s, const struct rwd_work_req *w, struct rwd_request *ret)
{
    struct ron_conf_str salt = ron_conf_str(s->core->conf, RWD_SALT);
    struct ron_str epoch = {w->epoch, strlen(w->epoch)};

    *ret = (struct rwd_request){.inputs_cid = w->inputs_cid,
                                .policy_hash = w->policy_hash,
                                .has_ledger = w->has_ledger,
                                .ledger_root = w->ledger_root,
                                .ledger_seq = w->ledger_seq};
    memcpy(ret->epoch, w->epoch, sizeof ret->epoch);
    memcpy(ret->policy_id, w->policy_id.ptr, w->policy_id.len);
    if (w->carry_epoch.len > 0) {
        memcpy(ret->carry_epoch, w->carry_epoch.ptr, w->carry_epoch.len);
    }
    rwd_run_key((struct ron_str){salt.text, salt.len}, epoch, &w->policy_hash, &w->inputs_cid,
                &ret->run_key);
}

/* Hands the job to the workers; on failure the reservation is undone and the caller told. */
static void hand_over(struct rwd_sched *s, struct rwd_work_req *w, struct rwd_job *job)
{
    struct rwd_view view = {.run_key = job->request.run_key, .began_ms = job->live->began_ms};
    struct ron_str epoch = {job->request.epoch, strlen(job->request.epoch)};
    bool waits = w->wait && rwd_runs_wait(s->store->runs, epoch, &job->request.run_key, job->dry,
                                          w->reply) == RON_OK;
    bool dry = job->dry;
    struct rwd_fault fault;
    enum ron_rc rc;

    memcpy(view.epoch, job->request.epoch, sizeof view.epoch);
    rwd_tell(s->core, RWD_EVENT_STARTED, job->request.epoch, &job->request.run_key, dry, 0, 0, "");
    rc = ron_chan_send(s->pipes->work, job, job->deadline, NULL); /* one retry after 50-150 ms */
    if (rc == RON_OK) {
        if (!waits) {
            rwd_reply_view(w->reply, 202, &view);
        }
        return;
    }
    rwd_fault_set(&fault, rc == RON_CLOSED ? RWD_ERROR_DRAINING : RWD_ERROR_BACKPRESSURE, NULL);
    if (!dry && rc != RON_CLOSED) {
        RON_IGNORE(rwd_epoch_give_back(s->pipes, epoch));
    }
    rwd_job_failed(s->pipes, job, &fault); /* answers who waits */
    if (!waits) {
        rwd_reply_fail(w->reply, &fault);
    }
}

/* A run that is new to the registry: reserved in the book unless it is dry. False: answered, and
 * out of the registry before that, so that who has the answer never sees a run that was none. */
static bool reserve(struct rwd_sched *s, struct rwd_work_req *w, struct rwd_job *job)
{
    struct rwd_epoch e = {0};
    struct rwd_fault fault;
    struct ron_err err = {0};
    enum ron_rc rc = RON_OK;

    if (!job->dry) {
        rc = rwd_book_reserve(s->store->book, &job->request, ron_env_wall_ms(s->core->env), &e,
                              &err);
    }
    if (rc == RON_EXISTS && (e.state == RWD_RESERVED || e.state == RWD_COMPUTING)) {
        /* The registry took us in, so nobody computes it: its run failed while the book was away
         * and could not be told. It is taken up as it was accepted, before resume.c does. */
        job->request = e.request;
        rc = RON_OK;
    }
    if (rc == RON_EXISTS) {
        rwd_runs_undo(s->store->runs, job->live);
        answer_existing(s, w, &e);
        return false;
    }
    if (rc == RON_OK) {
        rc = rwd_job_find_carry(s->store, job, &err);
        if (rc != RON_OK && !job->dry) {
            RON_IGNORE(rwd_epoch_give_back(
                s->pipes, (struct ron_str){job->request.epoch, strlen(job->request.epoch)}));
        }
    }
    if (rc == RON_OK) {
        return true;
    }
    rwd_runs_undo(s->store->runs, job->live);
    if (rc == RON_CONFLICT) {
        rwd_count(s->core, RWD_M_CONFLICTS, 1);
    } else if (rc == RON_IO) { /* it may be reserved all the same */
        ron_au32_store(&s->pipes->left, 1);
    }
    rwd_fault_of(&fault, rc, RWD_ERROR_CONFLICT, &err);
    rwd_reply_fail(w->reply, &fault);
    return false;
}

/* A run of the same epoch is under way already. */
static void answer_under_way(struct rwd_sched *s, struct rwd_work_req *w, enum ron_rc rc,
                             const struct rwd_request *request)
{
    struct ron_str epoch = {w->epoch, strlen(w->epoch)};
    struct rwd_view view = {0};
    struct rwd_fault fault;

    if (rc == RON_EXISTS) {
        rwd_count(s->core, RWD_M_IDEMPOTENT, 1);
        if (w->wait &&
            rwd_runs_wait(s->store->runs, epoch, &request->run_key, w->dry, w->reply) == RON_OK) {
            return;
        }
        RON_IGNORE(rwd_runs_get(s->store->runs, epoch, w->dry, &view, NULL));
        rwd_reply_view(w->reply, 202, &view);
        return;
    }
    if (rc == RON_CONFLICT) {
        rwd_count(s->core, RWD_M_CONFLICTS, 1);
    }
    rwd_fault_set(&fault, rc == RON_CONFLICT ? RWD_ERROR_CONFLICT : RWD_ERROR_BUSY, NULL);
    rwd_reply_fail(w->reply, &fault);
}

static void schedule(struct rwd_sched *s, struct rwd_work_req *w)
{
    struct rwd_policy_doc *policy = NULL;
    struct ron_cas_obj *inputs = NULL;
    struct rwd_fault fault = {0};
    struct rwd_request request;
    struct rwd_job *job;
    struct rwd_live *live = NULL;
    enum ron_rc rc;

    if (!find_policy(s, w, &policy, &fault) ||
        (w->snapshot.len > 0 && !seal_inline(s, w, &fault)) ||
        !hold_inputs(s, &w->inputs_cid, &inputs, &fault)) {
        rwd_policy_free(policy);
        rwd_reply_fail(w->reply, &fault);
        return;
    }
    make_request(s, w, &request);
    job = rwd_job_new(policy, inputs, &request);
    if (job == NULL) {
        rwd_fault_set(&fault, RWD_ERROR_BUSY, "no memory for the run");
        rwd_reply_fail(w->reply, &fault);
        return;
    }
    job->dry = w->dry;
    job->deadline = w->deadline;
    ron_http_reply_from(w->reply, &job->from);
    rc = rwd_runs_begin(s->store->runs, (struct ron_str){w->epoch, strlen(w->epoch)},
                        &request.run_key, w->dry, ron_env_wall_ms(s->core->env), &live);
    if (rc != RON_OK) {
        rwd_job_free(job);
        answer_under_way(s, w, rc, &request);
        return;
    }
    job->live = live;
    if (!reserve(s, w, job)) {
        rwd_job_free(job);
        return;
    }
    hand_over(s, w, job);
}

/* ---- the task -------------------------------------------------------------------------------- */

static enum ron_rc start(struct ron_task *t, void *arg)
{
    struct rwd_sched *s = arg;

    (void)t;
    if (!ron_au32_xchg(&s->resumed, 1)) { /* once in a life, not at a restart of this task */
        rwd_resume(s->pipes);
    }
    return RON_OK;
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct rwd_sched *s = arg;

    (void)t;
    for (size_t i = 0; i < count; i++) {
        struct rwd_work_req *w = items[i];
        uint64_t began_ns = ron_env_now_ns(s->core->env);
        struct ron_trace_from from;

        ron_http_reply_from(w->reply, &from);
        if (ron_http_reply_cancelled(w->reply)) { /* nobody waits, and nothing has happened */
            struct rwd_fault fault;

            rwd_fault_set(&fault, RWD_ERROR_TIMEOUT, NULL);
            rwd_reply_fail(w->reply, &fault);
        } else {
            schedule(s, w);
        }
        rwd_observe(s->core, RWD_M_PREPARE, ron_env_now_ns(s->core->env) - began_ns);
        ron_trace_stage(ron_app_tracer(s->core->app), &from,
                        &(struct ron_trace_stage){
                            .name = "scheduler", .queue = "work_req", .from_ns = began_ns});
        ron_free(w);
    }
    return RON_OK;
}

enum ron_rc rwd_sched_add(struct rwd_pipes *p, struct rwd_sched **ret, struct ron_err *err)
{
    struct rwd_sched *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the scheduler");
    }
    *ret = s;
    s->core = p->core;
    s->store = p->store;
    s->pipes = p;
    return ron_sup_add(ron_app_sup(s->core->app),
                       &(struct ron_task_def){.name = "scheduler",
                                              .kind = "scheduler",
                                              .mode = RON_TASK_BLOCKING,
                                              .stage = 1,
                                              .input = s->pipes->work_req,
                                              .batch_max = 1,
                                              .restart = {.essential = true},
                                              .start = start,
                                              .handle = handle,
                                              .arg = s},
                       NULL, err);
}
