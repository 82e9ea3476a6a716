/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/recover/replay_job.h - some frames on their way through a replay; shared by led_replay*.c
 * alone.
 *
 * Columns have one element per entry of all frames of the job. They grow to what the largest job
 * needs and are used again. */
#pragma once

#include "ledger/recover/replay.h"

enum {
    LED__JOB_ENTRIES = 4096,  /* a job is handed on when it has so many: 1 MB of columns, and the
                                 * hand-over costs nothing per entry */
    LED__JOB_BYTES = 1 << 20, /* or so many bytes of records */
    LED__JOB_FRAMES = 1024,   /* or so many frames */
};

struct led__replay_record {
    struct led_record record;
    size_t entry; /* its first one, in the columns */
};

struct led__job {
    struct ron_buf bytes;     /* payloads, one behind the other */
    struct led_frame *frames; /* LED__JOB_FRAMES; payload is set when the job is closed */
    size_t frame_count;
    struct led__replay_record *records;
    size_t record_room;
    size_t record_count;

    size_t room; /* of the columns */
    size_t entry_count;
    struct led_entry *entries;
    struct led_links *links;
    struct led_prep *preps;
    struct ron_tree_hash *hashes;
    struct ron_tree_hash *stored; /* 2 * room + RON_TREE_LEVELS */

    enum ron_rc rc; /* of its preparation */
    struct ron_err err;
};

/* What the preparing step owns: with `parallel` its thread alone touches it. */
struct led__ahead {
    const struct led_replay_opts *opts;
    struct ron_tree tree;
    bool started;
    bool index_compared; /* Y2 */
    bool derived_bad;    /* read by others after the thread has ended or handed the job over */
};

/* What the applying step owns. */
struct led__behind {
    const struct led_replay_opts *opts;
    struct led_links *links; /* what the book says of a batch */
    size_t links_room;
    struct ron_arena arena; /* originals of the reversals of a batch */
    struct ron_buf room;    /* a frame that is looked back at */
    uint64_t entries;
    uint64_t indexed_seq;
    uint64_t keys; /* added to the index since its last commit */
    bool derived_bad;
    bool index_failed; /* the index could not be written or read */
};

RON_MUST_USE enum ron_rc led__job_init(struct led__job *job);
void led__job_done(struct led__job *job);
void led__job_clear(struct led__job *job);
RON_MUST_USE enum ron_rc led__job_add(struct led__job *job, const struct led_frame *frame,
                                      struct ron_err *err);
bool led__job_full(const struct led__job *job);

/* replay_ahead.c */
RON_MUST_USE enum ron_rc led__job_prepare(struct led__ahead *a, struct led__job *job,
                                          struct ron_err *err);
/* replay_behind.c */
RON_MUST_USE enum ron_rc led__behind_init(struct led__behind *b, const struct led_replay_opts *opts,
                                          struct ron_err *err);
void led__behind_done(struct led__behind *b);
RON_MUST_USE enum ron_rc led__job_apply(struct led__behind *b, struct led__job *job,
                                        struct ron_err *err);
/* Brings the index to the end of the log. */
RON_MUST_USE enum ron_rc led__behind_end(struct led__behind *b, const struct ron_tree *tree,
                                         struct ron_err *err);
