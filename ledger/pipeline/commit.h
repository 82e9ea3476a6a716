/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/pipeline/commit.h - the committer: one frame, one sync, one new root for a group of works.
 *
 * Place: ledger; plain code, owned by the committer task (a thread of its own) or the simulator. It
 * is the only writer of the log and of the tree.
 *
 * Invariants:
 *   C1. A group becomes durable whole, with one append of the log; only then is a work's outcome
 *       LED_RESULT_COMMITTED.
 *   C2. Before writing, the group is checked again, without the book (group.h). A group that
 *       fails is not written (RON_CORRUPT).
 *   C3. After any failure but RON_LIMIT and RON_NOMEM the committer refuses everything (RON_CLOSED)
 *       until it is made anew from a recovered log.
 *   C4. Root and size of the tree are those of the log at every return. Stored hashes are written
 *       before the group is told durable, without a sync: they are derived. If that fails, the
 *       group is durable all the same and told so; C3 then holds from the next one on. */
#pragma once

#include "ledger/log/log.h"
#include "ledger/work/work.h"
#include "ron/merkle/tree.h"

struct led_commit;

/* Where a frame must be before the log here takes it: a log that several ledgers share. */
struct led_sink {
    enum ron_rc (*append)(void *arg, const struct led_frame *frame, const uint8_t *bytes,
                          size_t len, struct ron_err *err);
    void *arg;
};

struct led_commit_opts {
    const struct ron_env *env;
    struct led_log *log;                 /* borrowed */
    const struct ron_tree_store *hashes; /* borrowed */
    const struct ron_tree *tree;         /* copied: at the log's last seq; not needed after */
    const struct led_sink *sink;         /* borrowed; NULL: the log is the truth itself */
};

enum {
    LED_GROUP_MAX = 1024,      /* works */
    LED_GROUP_BYTES = 1 << 20, /* of records: a group is closed when it has so many */
};

struct led_commit_done {
    uint64_t seq_first; /* of the group */
    uint64_t seq_last;
    uint32_t entries;
    uint64_t time_ms;
    struct ron_tree_hash root;
    uint64_t bytes;   /* of the frame */
    uint64_t sync_ns; /* write and sync */
    bool hashes_lost; /* C4: nothing more can be committed */
};

RON_MUST_USE enum ron_rc led_commit_new(const struct led_commit_opts *opts,
                                        struct led_commit **ret_commit, struct ron_err *err);
void led_commit_free(struct led_commit *c);

/* How many of these works make the next group: at least 1. */
size_t led_commit_gather(const struct led_commit *c, struct led_work *const *works, size_t count);
/* Commits them; outcomes are filled in when RON_OK. RON_LIMIT (no space above the floor of the
 * log), RON_NOMEM: nothing was written and the committer is still good. Everything else: C3; after
 * RON_IO nobody knows whether the group is durable. */
RON_MUST_USE enum ron_rc led_commit_group(struct led_commit *c, struct led_work **works,
                                          size_t count, struct led_commit_done *ret_done,
                                          struct ron_err *err);
const struct ron_tree *led_commit_tree(const struct led_commit *c);
