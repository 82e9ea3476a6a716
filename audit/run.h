/* SPDX-License-Identifier: Apache-2.0 */
/* audit/run.h - the audit of a data directory, from the first entry to the last.
 *
 * Place: audit, above all but the report. One reading does everything; two things need more:
 *   - a Reverse that was not announced: the journal is read for all of them, and the audit starts
 *     anew (book/book.h);
 *   - texts that seem to stand twice: they are compared in a second reading (book/unique.h).
 *
 * Order of what is checked for a frame: form and checksums (aud_log), chain (uuid, epoch, seq,
 * prev_root), then for each entry form, leaf hash, rules; at the end its root.
 * When seqs do not follow or a root is wrong, no later root can be right: that is told once, and
 * balances go on being checked.
 *
 * Threads: one; blocks. Failure: what reading, memory and limits give; findings are no failure. */
#pragma once

#include "audit/book/book.h"
#include "audit/journal/log.h"
#include "audit/proof/note.h"

enum {
    AUD_CHECKPOINTS_OWN = 2,  /* in the data directory: the newest, and what witnesses signed */
    AUD_CHECKPOINTS_MAX = 65, /* those, the others kept by an auditor */
    AUD_PATH_SHOWN = 256,
};

struct aud_options {
    const struct ron_env *env;
    const char *dir;
    uint64_t from_seq; /* findings of earlier entries do not count; 0: all do */
    uint64_t to_seq;   /* batches that end behind it are not looked at; 0: all are */
    uint64_t horizon_ms;
    const struct aud_vkey *key; /* NULL: signatures of checkpoints are not checked */
    const struct aud_vkey *witnesses;
    size_t witness_count;
    const char *checkpoints[AUD_CHECKPOINTS_MAX - AUD_CHECKPOINTS_OWN]; /* further files */
    size_t checkpoint_count;
    /* Told now and then; NULL: nobody. */
    void (*progress)(void *arg, const char *what, uint64_t done_bytes, uint64_t all_bytes);
    void *progress_arg;
};

struct aud_shown_checkpoint {
    char path[AUD_PATH_SHOWN];
    uint64_t size;
    struct aud_hash root;
    bool met;     /* its size was reached, and the root is ours */
    bool signed_; /* by the key that was given */
};

struct aud_result {
    uint64_t segments;
    uint64_t frames;
    uint64_t records;
    uint64_t cancels;
    uint64_t entries;
    uint64_t last_seq;
    uint64_t first_ms; /* commit times of the first and the last frame; 0: none */
    uint64_t last_ms;
    uint64_t first_epoch;
    uint64_t last_epoch;
    uint64_t bytes; /* of heads and frames */
    uint64_t torn_bytes;
    uint64_t open_holds;
    uint64_t memory_bytes;
    uint64_t took_ns;
    unsigned readings;
    bool damaged; /* the audit ended before the journal did */
    uint8_t uuid[AUD_UUID_SIZE];
    struct aud_hash root;
    bool root_known; /* false when the chain was broken */
    struct aud_shown_checkpoint checkpoints[AUD_CHECKPOINTS_MAX];
    size_t checkpoint_count;
    struct aud_findings findings;
    struct aud_book book; /* balances and supplies */
};

/* ret_result is made by the caller, zeroed, and filled in also when something fails; always to be
 * given to aud_result_done. */
RON_MUST_USE enum ron_rc aud_run(const struct aud_options *opts, struct aud_result *result,
                                 struct ron_err *err);
void aud_result_done(struct aud_result *result);
