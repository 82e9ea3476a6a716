/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/recover/replay.h - the journal once more through tree and book: what recovery does with
 * each frame.
 *
 * Place: ledger, under led_recover. A frame takes two steps:
 *     prepare   decode entries, hash leaves, grow the tree, compare the root, keep stored hashes
 *     apply     through the book, compare every link; remember keys that the index has not
 * The first needs nothing of the second, so with `parallel` another thread prepares frames ahead
 * while the caller, who reads the log, applies those behind. Frames are copied then, and a failure
 * is told some frames late: whoever needs the exact place replays again without `parallel`.
 *
 * Invariants:
 *   Y1. Every entry above image_seq went through the book, in order, and its links are what the
 *       book says; every root of every frame is that of its entries.
 *   Y2. Derived files are believed only after they were compared with the log: the stored hashes
 *       before the first frame by their root, the index by its root at indexed_seq. When they
 *       disagree, the replay fails and led_replay_derived_bad tells that it was not the log.
 *
 * Threads: one caller that may block; `parallel` starts one thread of its own. */
#pragma once

#include "ledger/index/hashes.h"
#include "ledger/index/index.h"
#include "ledger/log/log.h"
#include "ledger/pipeline/seq.h"

struct led_replay;

struct led_replay_opts {
    struct led_seq *seq;       /* its book is at image_seq */
    struct led_index *index;   /* NULL: nothing is looked up or filled in */
    struct led_hashes *hashes; /* NULL: stored hashes are not kept */
    struct led_log *look_back; /* where what a Reverse undoes is read */
    uint8_t hash_key[16];
    uint64_t image_seq;
    uint64_t indexed_seq; /* keys above it are remembered */
    struct ron_tree_hash indexed_root;
    bool fill_index;       /* keys above indexed_seq go to the index too, commits included */
    bool forget_when_full; /* too many keys to remember are no failure: nobody will write. What a
                            * Reverse undoes is then searched in the history of its account */
    bool parallel;
    uint64_t last_seq_guess; /* for progress */
    void (*progress)(void *arg, uint64_t seq, uint64_t last_seq_guess);
    void *progress_arg;
};

struct led_replay_result {
    struct ron_tree tree;
    uint64_t entries; /* that went through the book */
    uint64_t indexed_seq;
    bool started; /* a frame was seen: the tree is that of the last one */
};

RON_MUST_USE enum ron_rc led_replay_new(const struct led_replay_opts *opts,
                                        struct led_replay **ret_replay, struct ron_err *err);
void led_replay_free(struct led_replay *p); /* NULL is fine */

/* A led_log_visit; `arg` is the replay. */
enum ron_rc led_replay_frame(void *arg, const struct led_frame *frame, const char *where,
                             struct ron_err *err);
/* After the last frame. */
RON_MUST_USE enum ron_rc led_replay_end(struct led_replay *p, struct led_replay_result *ret,
                                        struct ron_err *err);
/* After a failure: whether it was that of Y2, or the index could not be written. The replay is over
 * then. */
bool led_replay_derived_bad(struct led_replay *p);
bool led_replay_index_failed(struct led_replay *p);
