/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/job.h - a run on its way through the tasks, and how it ends.
 *
 * Ownership: a job belongs to the task that took it from `work`, an outcome to the task that took
 * it from `results`. Each ends exactly once: it is freed, failed or given up.
 *
 * Threads: the owner's. Functions that use the book block. */
#pragma once

#include "rewarder/core/store.h"

struct rwd_pipes;

/* work: a run to compute. */
struct rwd_job {
    struct rwd_live *live;
    struct rwd_request request;
    struct rwd_policy_doc *policy;
    struct ron_cas_obj *inputs; /* held, so that they stay */
    bool dry;
    uint32_t tries; /* workers that failed with it */
    struct ron_trace_from from;
    struct ron_deadline deadline;
    struct ron_b3 carry_commitment;
    struct ron_money carry_in;
};

/* results: what came of it; with a fault there is no run. */
struct rwd_outcome {
    struct rwd_job *job;
    struct rwd_snapshot snapshot;
    struct rwd_run run;
    bool has_run;
    struct rwd_fault fault;
};

/* Takes policy and inputs also when there is no memory (NULL). */
RON_MUST_USE struct rwd_job *rwd_job_new(struct rwd_policy_doc *take_policy,
                                         struct ron_cas_obj *take_inputs,
                                         const struct rwd_request *request);
void rwd_job_free(struct rwd_job *job);
/* What is carried in; the book has vouched for it, except for a dry run. Blocking. */
RON_MUST_USE enum ron_rc rwd_job_find_carry(struct rwd_store *st, struct rwd_job *job,
                                            struct ron_err *err);
/* Why a run failed: rwd_fault_of, but a run that was told to stop is DRAINING, not late. */
void rwd_job_fault(struct rwd_fault *ret, const struct rwd_job *job, enum ron_rc rc,
                   enum rwd_error bad, const struct ron_err *err);
/* Ends a run that has no result: registry, waiting replies, metrics, event. Takes the job. */
void rwd_job_failed(struct rwd_pipes *p, struct rwd_job *take_job, const struct rwd_fault *fault);
/* B1: the run of this epoch has no verdict and will have none. When the book cannot be told, the
 * keeper sees to it. False: the book has a verdict already, of a seal whose answer was lost.
 * Blocking. */
RON_MUST_USE bool rwd_epoch_give_back(struct rwd_pipes *p, struct ron_str epoch);
/* rwd_job_failed, and the epoch is given back unless the service is shutting down: then the next
 * start takes the run up again. Blocking. */
void rwd_job_given_up(struct rwd_pipes *p, struct rwd_job *take_job, const struct rwd_fault *fault);
/* The end of a result that a shutdown leaves unwritten, counted. */
void rwd_outcome_drop(struct rwd_pipes *p, struct rwd_outcome *take_o);
/* With a fault the job is given up, without one it has ended. */
void rwd_outcome_free(struct rwd_pipes *p, struct rwd_outcome *take_o,
                      const struct rwd_fault *fault);
