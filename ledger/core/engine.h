/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/core/engine.h - the state that every task uses: journal, index, book and their mode.
 *
 * Place: service. What recovery made (struct led_recovered) is used under a lease; leaving safe
 * mode replaces it while nobody holds one (safe.c). The sequencer owns led_seq and the book, the
 * committer led_commit, the indexer writes led_index. Readers share log, hashes and index.
 *
 * Invariants:
 *   S1. RUNNING -> SAFE is one-way for everybody but led_engine_resume. The marker on disk says why
 *       and survives a restart.
 *   S2. The engine is replaced only while no lease is out; whoever uses it holds one. A work that
 *       began with one engine never reaches another: its keys and seqs are the old one's.
 *   S3. Resume replaces nothing before the whole journal was read and verified, and it ends in
 *       RUNNING only when the reopened journal is not behind what was acknowledged. */
#pragma once

#include "ledger/core/feed.h"
#include "ledger/core/news.h"
#include "ledger/pipeline/preval.h"
#include "ledger/publish/publish.h"
#include "ledger/recover/recover.h"
#include "ron/io/memdisk.h"
#include "ron/obs/health.h"
#include "ron/obs/log.h"
#include "ron/sync/sync.h"

struct led_frozen;

/* RUNNING -> SAFE on any doubt; SAFE -> SWAPPING -> RUNNING by the admin. With a shared log
 * FOLLOWING takes the place of RUNNING at the start and after SAFE, and RUNNING means to lead: see
 * replica/lead.h. */
enum led_mode {
    LED_RUNNING,
    LED_FOLLOWING, /* another ledger leads: writes are refused with its address, reads go on */
    LED_SAFE,      /* writes are refused, reads go on */
    LED_SWAPPING,  /* the engine is being replaced: a moment without reads */
};

struct led_engine {
    const struct ron_env *env; /* of the journal: its disk is memory in amnesia mode */
    struct ron_memdisk *memdisk;
    char dir[1024];      /* data directory; empty in amnesia mode */
    bool shared;         /* several ledgers on one log: replica/lead.h */
    struct ron_log *log; /* for lines about the mode */
    struct ron_tracer *tracer;
    struct ron_need *need_safe;
    /* What a new engine resets. */
    struct led_news *news;
    struct led_feed *feed;
    struct led_frozen *frozen;

    struct led_recover_opts recover;
    struct led_recovered live; /* under a lease */
    uint64_t progress_ns;      /* when the progress of a recovery was logged last */
    struct ron_mutex lock;     /* leases, book_read, book_followed, changes of mode */
    struct ron_cond idle;
    uint32_t leases;
    bool book_read;       /* the sequencer uses the book */
    bool book_followed;   /* the leader task applies what another ledger committed */
    struct ron_au32 mode; /* enum led_mode */
    uint32_t generation;  /* of `live`; changes while nobody has a lease */
    uint8_t hash_key[16];
    struct led_preval preval;

    struct ron_mutex head_lock; /* durable_seq with its root and time */
    struct ron_au64 durable_seq;
    struct ron_tree_hash head_root;
    uint64_t head_ms;
};

static inline enum led_mode led_engine_mode(const struct led_engine *e)
{
    return (enum led_mode)ron_au32_load(&e->mode);
}
/* Stops writes: counts, logs, marks on disk, makes the service not ready. Any thread that may
 * block; a repetition does nothing. */
void led_engine_enter_safe(struct led_engine *e, const char *cause, const char *detail);
/* After `live` was filled in: counters, head and keys that follow from it. When it fails, accounts
 * that were frozen are not: writes must stay stopped. */
RON_MUST_USE enum ron_rc led_engine_made(struct led_engine *e, struct ron_err *err);
/* The engine may be used until it is given back; false while it is being replaced. Never waits. */
bool led_engine_lease(struct led_engine *e);
void led_engine_unlease(struct led_engine *e);
/* The same for the sequencer, which also reads and changes the book; false also while the leader
 * task does (it wakes the sequencer when it has ended). */
bool led_engine_take_book(struct led_engine *e);
void led_engine_give_book(struct led_engine *e);
/* For the leader task: waits until the sequencer is not at the book, and keeps it away. False while
 * the engine is being replaced. A lease is taken with it. May block. */
bool led_engine_follow_book(struct led_engine *e);
void led_engine_leave_book(struct led_engine *e);
/* RUNNING to FOLLOWING or back; false when it was neither. */
bool led_engine_set_leading(struct led_engine *e, bool leading);
/* Why writes are refused when the mode is not RUNNING. */
static inline enum led_reason led_engine_stopped_reason(const struct led_engine *e)
{
    return led_engine_mode(e) == LED_FOLLOWING ? LED_REASON_NOT_LEADER : LED_REASON_SAFE_MODE;
}
/* Whether the work is of the engine that is leased; a new work is from now on. Its hashes and seqs
 * mean nothing to another one. */
RON_MUST_USE bool led_engine_has(const struct led_engine *e, struct led_work *w);
/* Verifies the whole journal; then, to resume, replaces the engine and removes the marker. Members
 * of a JSON object are appended to the report. Both block for long; one caller at a time. */
RON_MUST_USE enum ron_rc led_engine_verify(struct led_engine *e, struct ron_buf *report,
                                           struct ron_err *err);
RON_MUST_USE enum ron_rc led_engine_resume(struct led_engine *e, struct ron_buf *report,
                                           struct ron_err *err);

struct led_head {
    uint64_t seq;
    uint64_t ts_ms;
    struct ron_tree_hash root;
};
/* What is durable. */
void led_engine_head(struct led_engine *e, struct led_head *ret_head);
/* A group became durable: for readers and subscribers. By the task that appends to the log. */
void led_engine_publish(struct led_engine *e, struct led_publish *p, const struct led_head *head);
