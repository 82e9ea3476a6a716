/* SPDX-License-Identifier: Apache-2.0 */
/* interop/object/objects.h - objects by content id: the store, its channels and tasks, the routes.
 *
 *     http --uploads (256)--> upload-N: /put, piece by piece into the store
 *      +-----reads (512)----> reader-N: objects that are on disk
 *      +-----s3_reads (512)-> s3-reader-N: objects in the bucket
 *
 * Ownership: svc.c builds it; a message belongs to the task that took it from its channel, and its
 * reply with it. Threads: routes on the loop, tasks may block. */
#pragma once

#include "interop/core/evidence.h"
#include "interop/core/upstream.h"
#include "ron/cas/cas.h"
#include "ron/s3/tier.h"

#define IOP_OBJECTS_MAGIC 0x494f424au /* "IOBJ" */
#define IOP_READ_MAGIC 0x49524541u    /* "IREA" */

enum {
    IOP_UPLOADS_MAX = 64,
    IOP_FETCHES_MAX = 64, /* as `s3.fetches` says */
    IOP_READERS = 2,
    IOP_READERS_REMOTE = 8, /* some of which wait for a storage elsewhere */
    IOP_Q_READS = 512,      /* as many as requests are in flight by default */
    IOP_Q_UPLOADS = 256,    /* that wait for a task; each holds two pieces at most */
};

struct iop_proofs;
struct iop_put;

struct iop_objects {
    uint32_t magic;
    struct iop_core *core;
    struct iop_bridge *bridge;
    const struct iop_upstreams *up; /* its target `storage` */
    struct ron_app_tokens token;    /* for the storage */
    bool reads_open;                /* /o without a capability */
    struct ron_cas *store;
    struct iop_proofs *proofs;
    struct ron_ops_cas cas_metrics;
    struct ron_tier *tier; /* NULL: the store has no bucket */
    struct ron_chan *reads;
    struct ron_chan *uploads;
    struct ron_chan *s3_reads; /* with a tier only */
    struct ron_stat storage_broken;
    struct ron_stat storage_probing;
    struct ron_need *need;
    char reader_names[IOP_READERS_REMOTE][24];
    char s3_reader_names[IOP_FETCHES_MAX][24];
    char upload_names[IOP_UPLOADS_MAX][24];
};

/* An object that must be fetched from the disk. The head lives with the reply. */
struct iop_read {
    uint32_t magic;
    struct ron_http_reply *reply;
    const struct ron_http_head *head;
    struct ron_b3 id;
    bool proof; /* not the bytes alone: a slice that proves them */
    uint64_t proof_start;
    uint64_t proof_len;
    bool deep; /* the bucket is asked, too */
};

void iop_object_http(struct ron_http_call *call, void *arg);
void iop_put_http(struct ron_http_call *call, void *arg);
/* What `proof` of the query asks for. RON_NOTFOUND: nothing; RON_INVALID: something else. */
RON_MUST_USE enum ron_rc iop_proof_query(struct ron_str query, uint64_t *ret_start,
                                         uint64_t *ret_len);
/* Answers with the slice. Blocking. */
void iop_proof_answer(struct iop_objects *o, const struct iop_read *r,
                      struct ron_cas_obj *take_obj);
RON_MUST_USE enum ron_rc iop_proofs_new(struct iop_objects *o, struct ron_err *err);
void iop_proofs_free(struct iop_objects *o);
/* Each frees its argument and answers. */
void iop_read_drop(struct iop_read *take_read, enum iop_error error);
void iop_put_drop(struct iop_put *take_put, enum iop_error error);
RON_MUST_USE enum ron_rc iop_readers_add(struct iop_objects *o, struct ron_err *err);
RON_MUST_USE enum ron_rc iop_uploads_add(struct iop_objects *o, struct ron_err *err);
