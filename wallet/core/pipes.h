/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/core/pipes.h - writes under way: the queue `work` from the front to the workers, the pool
 * of writes, and the ticker that watches both.
 *
 *     http --work (512, reject)--> worker-N
 *
 * Invariants:
 *   P1. A write is in the pool, with the front, in `work`, or in the list of one worker.
 *   P2. At most `max` writes are outside the pool.
 * Ownership: a write belongs to the task that took it from the queue, with its reply.
 * Threads: any; one short lock (rank leaf) guards the pool. */
#pragma once

#include "ron/base/list.h"
#include "ron/obs/health.h"
#include "ron/wire/client.h"
#include "wallet/core/core.h"
#include "wallet/job/job.h"

#define WLT_PIPES_MAGIC 0x57504950u /* "WPIP" */
#define WLT_WRITE_MAGIC 0x57575254u /* "WWRT" */

struct wlt_write {
    uint32_t magic;
    struct ron_http_reply *reply;
    struct wlt_call call;
    struct wlt_job job;
    struct ron_oap_ask ask;
    struct ron_buf answer;  /* of the ledger */
    struct ron_arena arena; /* body and call, over `room` */
    void *room;
    size_t room_bytes;
    enum wlt_op op; /* WLT_OP_COUNT: a batch */
    bool asked;     /* the ledger owes an answer */
    bool waiting;   /* for job.until_ns */
    bool answered;  /* the client has its answer; only the ledger's is missing */
    uint64_t received_ns;
    char capability_ref[RON_CAP_LOG_ID_SIZE + 16];
    struct ron_list_node link; /* among those of its worker */
    struct wlt_write *next;    /* in the pool */
};

struct wlt_pipes {
    uint32_t magic;
    struct wlt_site *site;
    struct ron_chan *work;
    struct ron_need *need_queue;
    struct ron_au32 inflight; /* writes that workers hold */
    struct ron_mutex lock;    /* guards `idle` and `out` */
    struct wlt_write *idle;
    uint32_t out;
    uint32_t max;
    uint64_t next_tick_ms; /* of the ticker */
};

/* The queue and the pool; `s` outlives them. */
RON_MUST_USE enum ron_rc wlt_pipes_new(struct wlt_pipes *p, struct wlt_site *s,
                                       struct ron_err *err);
/* Refuses the writes left in the queue; the pool stays. */
void wlt_pipes_close(struct wlt_pipes *p);
/* Frees the pool. All writes are back in it. */
void wlt_pipes_done(struct wlt_pipes *p);
/* The ticker: samples queue and workers each second. */
RON_MUST_USE enum ron_rc wlt_ticker_add(struct wlt_pipes *p, struct ron_err *err);

/* With at least `room` bytes of arena; NULL: none left, or no memory. */
struct wlt_write *wlt_write_get(struct wlt_pipes *p, size_t room);
void wlt_write_put(struct wlt_pipes *p, struct wlt_write *w);
