/* SPDX-License-Identifier: Apache-2.0 */
/* interop/hook/hook.h - webhooks under way: jobs and their pool, the queue `work`, the workers, and
 * the ring of the last outcomes.
 *
 *     http --work (512, reject)--> worker-N: verify, deduplicate, enqueue --> mailbox
 *
 * Invariants:
 *   W1. A job is in the pool, with the front, in `work`, with one worker, or in the mailbox.
 *   W2. A job outside the pool has one reply until it ends.
 *   W3. A job is tried by at most IOP_JOB_TRIES workers.
 *   W4. A job that is handed to another worker was not verified.
 * Ownership: a job belongs to the task that took it from the queue, with its reply.
 * Threads: any; one short lock (rank leaf) guards the pool, another the ring. */
#pragma once

#include "interop/core/evidence.h"
#include "interop/mailbox/mail.h"

#define IOP_HOOKS_MAGIC 0x49484f4fu /* "IHOO" */
#define IOP_JOB_MAGIC 0x494a4f42u   /* "IJOB" */

/* Topic of actions that cannot be carried out as their rule says. */
#define IOP_TOPIC_FAULTS "interop.faults"

enum {
    IOP_WORKERS_MAX = 64,
    IOP_RING = 512,    /* deliveries that GET /deliveries can show */
    IOP_JOB_TRIES = 3, /* of one delivery, if its workers die */
    /* Envelopes and wallet requests of one delivery, all escaped at worst. */
    IOP_JOB_TEXT_MAX = (IOP_ACTIONS_MAX + 1) * 2 * IOP_HEAD_MAX,
};

struct iop_ring;
struct iop_worker;
struct iop_job;

struct iop_hooks {
    uint32_t magic;
    struct iop_core *core;
    struct iop_bridge *bridge;
    struct iop_mail *mail;
    struct iop_policy_box policy;
    struct ron_need *need_policy;
    struct ron_chan *work;
    struct iop_worker *workers;
    char worker_names[IOP_WORKERS_MAX][24];
    struct iop_ring *ring;
    struct ron_mutex pool_mu; /* guards `idle` and `out` */
    struct iop_job *idle;
    uint32_t out;
    uint32_t max;
};

/* One delivery on its way: the same shape for every provider. Head and body live with the reply. */
struct iop_job {
    uint32_t magic;
    uint32_t tries;       /* workers that could not go on with it */
    struct iop_job *next; /* in the pool */
    struct iop_hooks *of;
    struct ron_http_reply *reply;
    const struct ron_http_head *head;
    struct ron_str body;
    struct iop_policy *policy; /* a reference */
    const struct iop_provider *provider;
    struct iop_delivery delivery;
    uint64_t began_ns;
    uint64_t sent_ns; /* to the mailbox */
    bool has_b3;
    struct ron_b3 b3;
    char peer[IOP_PEER_SIZE];
    struct iop_op op;
    struct iop_msg msgs[IOP_ACTIONS_MAX + 1];
    struct ron_buf text; /* what the messages point to */
};

void iop_job_put(struct iop_job *take_job);
void iop_jobs_free(struct iop_hooks *h);
/* Answers and gives it back. */
void iop_job_drop(struct iop_job *take_job, enum iop_error error);

void iop_hook_http(struct ron_http_call *call, void *arg);
void iop_hook_get_http(struct ron_http_call *call, void *arg);
RON_MUST_USE enum ron_rc iop_workers_add(struct iop_hooks *h, struct ron_err *err);

/* Counters, ring, audit trail, events. From any thread; never blocks. */
void iop_record(struct iop_hooks *h, const struct iop_outcome *outcome);
void iop_deliveries_http(struct ron_http_call *call, void *arg);
RON_MUST_USE enum ron_rc iop_ring_new(struct iop_hooks *h, struct ron_err *err);
void iop_ring_free(struct iop_hooks *h);
