/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/job.c - a run on its way through the tasks: made, failed, given up, freed.
 *
 * Threads: the task that owns the job. Functions that use the book block. */
#include "rewarder/core/job.h"

#include <string.h>

#include "rewarder/core/pipes.h"
#include "ron/base/alloc.h"

struct rwd_job *rwd_job_new(struct rwd_policy_doc *take_policy, struct ron_cas_obj *take_inputs,
                            const struct rwd_request *request)
{
    struct rwd_job *job = ron_alloc_zero(sizeof *job);

    if (job == NULL) {
        rwd_policy_free(take_policy);
        ron_cas_release(take_inputs);
        return NULL;
    }
    job->policy = take_policy;
    job->inputs = take_inputs;
    job->request = *request;
    return job;
}

void rwd_job_free(struct rwd_job *job)
{
    rwd_policy_free(job->policy);
    ron_cas_release(job->inputs);
    ron_free(job);
}

enum ron_rc rwd_job_find_carry(struct rwd_store *st, struct rwd_job *job, struct ron_err *err)
{
    struct ron_str from = {job->request.carry_epoch, strlen(job->request.carry_epoch)};
    struct rwd_epoch e;

    if (from.len == 0) {
        return RON_OK;
    }
    RON_TRY(rwd_book_get(st->book, from, &e, err));
    if (!e.residual_carries) {
        return ron_err_set(err, RON_CONFLICT, "carry_from: nothing of that epoch is carried on");
    }
    job->carry_commitment = e.commitment;
    job->carry_in = e.residual;
    return RON_OK;
}

void rwd_job_fault(struct rwd_fault *ret, const struct rwd_job *job, enum ron_rc rc,
                   enum rwd_error bad, const struct ron_err *err)
{
    if (rc == RON_CANCELLED && ron_au32_load(&job->live->progress.cancelled) != 0) {
        rwd_fault_set(ret, RWD_ERROR_DRAINING, NULL);
    } else {
        rwd_fault_of(ret, rc, bad, err);
    }
}

void rwd_job_failed(struct rwd_pipes *p, struct rwd_job *take_job, const struct rwd_fault *fault)
{
    struct ron_http_reply *waiters[RWD_WAITERS_MAX];
    struct rwd_job *job = take_job;
    size_t count = rwd_runs_end(p->store->runs, job->live, fault, (struct ron_str){0}, waiters);

    for (size_t i = 0; i < count; i++) {
        rwd_reply_fail(waiters[i], fault);
    }
    rwd_count_of(p->core, RWD_M_RUNS, "fail", 1);
    rwd_tell(p->core, RWD_EVENT_FAILED, job->request.epoch, &job->request.run_key, job->dry, 0, 0,
             rwd_error_label(fault->error));
    rwd_job_free(job);
}

bool rwd_epoch_give_back(struct rwd_pipes *p, struct ron_str epoch)
{
    struct ron_err err = {0};
    enum ron_rc rc = rwd_book_forget(p->store->book, epoch, &err);

    if (rc == RON_OK || rc == RON_NOTFOUND) {
        return true;
    }
    RON_LOG(p->core->log, ERROR, "an epoch could not be given back", RON_LOG_SLICE("epoch", epoch),
            RON_LOG_ERR(&err));
    if (rc == RON_CONFLICT) { /* a seal, of which the answer was lost */
        ron_au32_store(&p->overlooked, 1);
        return false;
    }
    ron_au32_store(&p->left, 1);
    return true;
}

void rwd_job_given_up(struct rwd_pipes *p, struct rwd_job *take_job, const struct rwd_fault *fault)
{
    char name[RWD_EPOCH_MAX + 1];
    struct ron_str epoch = {name, strlen(take_job->request.epoch)};
    bool given = true;

    memcpy(name, take_job->request.epoch, sizeof name);
    if (!take_job->dry && fault->error != RWD_ERROR_DRAINING) {
        given = rwd_epoch_give_back(p, epoch);
    }
    rwd_job_failed(p, take_job, fault);
    if (!given) { /* the book knows better than this fault */
        rwd_runs_forget(p->store->runs, epoch);
    }
}

void rwd_outcome_free(struct rwd_pipes *p, struct rwd_outcome *take_o,
                      const struct rwd_fault *fault)
{
    if (fault != NULL) {
        rwd_job_given_up(p, take_o->job, fault);
    } else {
        rwd_job_free(take_o->job);
    }
    if (take_o->has_run) {
        rwd_run_done(&take_o->run);
    }
    rwd_snapshot_done(&take_o->snapshot);
    ron_free(take_o);
}

void rwd_outcome_drop(struct rwd_pipes *p, struct rwd_outcome *take_o)
{
    struct rwd_fault fault;

    rwd_fault_set(&fault, RWD_ERROR_DRAINING, NULL);
    rwd_count(p->core, RWD_M_DROPPED_RESULTS, 1);
    (void)ron_au32_add(&p->dropped, 1);
    rwd_outcome_free(p, take_o, &fault);
}
