/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/pipes.h - the channels between the tasks, their messages, and a few shared flags.
 *
 *     http --work_req(512)--> scheduler --work(512)--> worker-N --results(512)--> writer
 *      |                         |                        |                         |
 *      |                      book, inputs                +--intents(512)--> emitter <--+ (sealed)
 *      +--uploads(16)--> upload-N --> inputs                                    |
 *      +--reads(256)---> reader-N --> book, artifacts                        ledger (OAP)
 *      +--events(1024)-- everybody
 *
 * Stages of a drain: uploads and scheduler 1, workers 2, writer 3, emitter 4, readers and streams
 * 5, inputs' store, OAP client, health reporter and keeper 6.
 *
 * Ownership: a message belongs to the task that took it from its channel. A reply travels with its
 * request and is answered by the task that ends it. */
#pragma once

#include "rewarder/core/job.h"
#include "ron/chan/chan.h"

enum { RWD_Q_READS = 256, RWD_Q_UPLOADS = 16 };

/* work_req: a compute request as it was sent. The slices live until the reply is answered. */
struct rwd_work_req {
    struct ron_http_reply *reply;
    char epoch[RWD_EPOCH_MAX + 1];
    struct ron_str policy_id;
    struct ron_b3 policy_hash;
    struct ron_b3 inputs_cid;
    struct ron_str snapshot; /* JSON; empty: by content id */
    struct ron_str policy;   /* JSON; empty: one that is known */
    struct ron_str carry_epoch;
    bool has_ledger;
    struct ron_tree_hash ledger_root;
    uint64_t ledger_seq;
    bool dry;
    bool wait; /* answer with the end of the run */
    struct ron_deadline deadline;
};

/* intents: a run to settle, or a reminder to look at those that wait. */
struct rwd_intent {
    char epoch[RWD_EPOCH_MAX + 1]; /* "": a reminder */
};

/* reads: a question that needs book or files. */
enum rwd_read_kind {
    RWD_READ_MANIFEST,
    RWD_READ_SETTLEMENT,
    RWD_READ_PAYOUTS,
    RWD_READ_PROOF,
    RWD_READ_POLICY,
    RWD_READ_LIST,
    RWD_READ_EMIT,    /* POST .../emit */
    RWD_READ_RELEASE, /* POST .../quarantine/release */
};
struct rwd_read {
    struct ron_http_reply *reply;
    enum rwd_read_kind kind;
    char epoch[RWD_EPOCH_MAX + 1]; /* or policy id, or where a list begins */
    char account[RWD_ACCOUNT_MAX + 1];
    bool has_hash;
    struct ron_b3 hash;
    uint32_t limit;
    enum rwd_state state;          /* of a list; RWD_STATE_COUNT: all */
    char who[RON_CAP_LOG_ID_SIZE]; /* of a change, for the log */
};

/* uploads: PUT /rewarder/inputs, its body in pieces. */
struct rwd_upload {
    struct ron_http_reply *reply;
    enum rwd_form form;
};

struct rwd_pipes {
    struct rwd_core *core;
    struct rwd_store *store;
    struct ron_chan *work_req; /* of struct rwd_work_req */
    struct ron_chan *work;     /* of struct rwd_job */
    struct ron_chan *results;  /* of struct rwd_outcome */
    struct ron_chan *intents;  /* of struct rwd_intent */
    struct ron_chan *reads;    /* of struct rwd_read */
    struct ron_chan *uploads;  /* of struct rwd_upload */
    /* The book may name runs that nobody computes. Set by any task, cleared by rwd_resume. */
    struct ron_au32 left;
    /* The emitter was not told of a sealed run. Set by any task, cleared by the emitter. */
    struct ron_au32 overlooked;
    struct ron_au32 withheld; /* settlements that wait; set by the emitter alone */
    struct ron_au32 dropped;  /* results that a shutdown left unwritten */
};

RON_MUST_USE enum ron_rc rwd_pipes_open(struct rwd_pipes *p, struct rwd_core *core,
                                        struct rwd_store *store, struct ron_err *err);
/* Answers whatever is left in the channels. After all tasks have stopped. */
void rwd_pipes_close(struct rwd_pipes *p);

/* Wakes the emitter for an epoch that was sealed, or with "" to look at all that waits; never
 * blocks. */
void rwd_emitter_remind(struct rwd_pipes *p, const char *epoch);
