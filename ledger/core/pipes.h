/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/core/pipes.h - the channels between the stages, with the pools of what travels in them.
 *
 *     http, oap --ingress--> prevalidator-N --preval--> sequencer --commit--> committer
 *                                  |                    |       ^                |
 *                                  +-------reads--------+       asks       roots bus, head watch
 *                                            |                  |                |
 *                                         reader-N             http       roots, indexer
 *
 * Place: service. Drain stages: prevalidators 1, readers 2, sequencer 3, committer 4, indexer and
 * roots 5.
 *
 * Threads: sending is for any thread and never waits; each channel has the consumers of its row. */
#pragma once

#include "ledger/core/engine.h"
#include "ledger/core/metrics.h"
#include "ledger/work/pool.h"
#include "ledger/work/query.h"

struct ron_app;

#define LED_PIPES_MAGIC UINT32_C(0x49504c52) /* "RLPI" */

struct led_pipes {
    uint32_t magic;
    struct led_works *works;
    struct led_queries *queries;
    struct led_feed *feed; /* from the committer to the indexer */
    struct led_metrics *metrics;
    uint32_t cpus;
    uint64_t awake_ns;       /* concurrency.awake_us */
    struct ron_au64 sync_ns; /* of the last group; the committer sets */
    struct ron_chan *ingress;
    struct ron_chan *batches;   /* large requests */
    struct ron_chan *validated; /* "preval" */
    struct ron_chan *commit;
    struct ron_chan *reads;
    struct ron_chan *asks;
    struct ron_chan *images; /* chunks of an image of the book, for the indexer */
};

/* The pools; then, when the settings of queues are to be used, the channels. */
RON_MUST_USE enum ron_rc led_pipes_init(struct led_pipes *p, struct ron_app *app,
                                        struct ron_err *err);
RON_MUST_USE enum ron_rc led_pipes_open(struct led_pipes *p, struct ron_app *app,
                                        struct ron_err *err);
/* Frees the channels: what is still in them is answered `draining`. */
void led_pipes_close(struct led_pipes *p);
/* Frees the pools, to which everything has come back. */
void led_pipes_done(struct led_pipes *p);

/* How long to look for what comes after the work instead of sleeping; 0: not at all. A lone request
 * waits for one sync and little else, so that putting threads to sleep and waking them would be a
 * good part of its time. With others under way there is work to do, and beside a slow sync the
 * wake-up does not count. */
uint64_t led_pipes_awake_ns(struct led_pipes *p, const struct led_work *w);
/* Where a new work enters: "ingress", or "batches" for a large one. */
struct ron_chan *led_pipes_entrance(struct led_pipes *p, const struct led_work *w);
/* A new work into the pipeline: to a prevalidator, or RON_FULL, RON_CLOSED with the work still the
 * caller's. */
RON_MUST_USE enum ron_rc led_pipes_submit(struct led_pipes *p, struct led_work *w);
/* To the readers, to be compared with the journal; refused `busy` when they have no room. */
void led_pipes_look_up(struct led_pipes *p, struct led_work *w);
/* A validated work to the sequencer; whom it evicts is answered. */
void led_pipes_validated(struct led_pipes *p, struct led_work *w);
/* The work of a cancel into the pipeline, whose caller was allowed to. */
void led_pipes_cancel(struct led_pipes *p, struct led_engine *e, struct led_work *w,
                      struct ron_str idem_id);
