/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/read/reader.h - reading the journal: entries, histories, past balances, repetitions,
 * proofs.
 *
 * Place: ledger, over log, index and tree; plain code that blocks, called by reader tasks. A reader
 * has buffers of its own: one per thread. Answers are appended to a struct ron_buf, as JSON
 * (docs/formats/ledger-reads.md) or as the bytes of C2SP.
 *
 * Invariants:
 *   D1. Nothing beyond the head that led_reader_set_head told is served, so a reader shows only
 *       what was acknowledged or could have been.
 *   D2. Nothing damaged is served. Frames are checked by the log, entries decoded by their rules,
 *       and what comes from the stored hashes is proven against the root of the head first. Damage
 *       gives RON_CORRUPT (or RON_IO) and is told to the owner through `damaged`.
 *   D3. The index only gives candidates: what it names is compared with the journal.
 *   D4. Every walk is bounded: `steps_max` entries for one answer.
 *   D5. A failed call leaves `out` as long as it was.
 *
 * Codes of all calls: RON_NOTFOUND: no such thing up to the head. RON_INVALID: a number that cannot
 * be. RON_LIMIT: the answer passes the maximum of `out`, or D4. RON_NOMEM. RON_CORRUPT, RON_IO: D2.
 *
 * Candidates: seqs at which the sequencer's table of recent keys has seen what is searched; they
 * are needed for keys above led_index_applied only. */
#pragma once

#include "ledger/index/index.h"
#include "ledger/log/log.h"
#include "ledger/work/work.h"
#include "ron/merkle/tree.h"

enum {
    LED_PAGE_MAX = 1000,       /* entries of a history, roots of a page */
    LED_READ_STEPS = 4096,     /* D4: some tenths of a second when every entry lies in a frame of
                                  * its own */
    LED_READ_ASSETS_MAX = 256, /* assets of one account that an answer lists */
};

struct led_reader;

struct led_reader_opts {
    struct led_log *log;                 /* borrowed, like all of these */
    struct led_index *index;             /* NULL: ids are found through candidates alone */
    const struct ron_tree_store *hashes; /* stored hashes of the tree */
    uint8_t hash_key[16];                /* of index and book */
    uint32_t steps_max;                  /* 0: LED_READ_STEPS */
    /* D2; NULL: nobody wants to know. Called on the reader's thread. */
    void (*damaged)(void *arg, enum ron_rc rc, const struct ron_err *err);
    void *arg;
};

RON_MUST_USE enum ron_rc led_reader_new(const struct led_reader_opts *opts,
                                        struct led_reader **ret_reader);
void led_reader_free(struct led_reader *r); /* NULL is fine */

/* D1. `root` is the root at last_seq; both as the committer published them. Nothing is served
 * before the first call. */
void led_reader_set_head(struct led_reader *r, uint64_t last_seq, const struct ron_tree_hash *root);

/* ---- entries --------------------------------------------------------------------------------- */

/* One stored entry with its surroundings. Slices are valid until the next call of the reader. */
struct led_found {
    struct led_entry entry;
    struct led_stored stored;
    struct led_record record;
    struct led_frame frame;
};

RON_MUST_USE enum ron_rc led_read_at(struct led_reader *r, uint64_t seq, struct led_found *ret,
                                     struct ron_err *err);
/* The seq of the entry with that id. */
RON_MUST_USE enum ron_rc led_read_find(struct led_reader *r, struct ron_str id,
                                       struct led_candidates candidates, uint64_t *ret_seq,
                                       struct ron_err *err);

RON_MUST_USE enum ron_rc led_read_entry(struct led_reader *r, uint64_t seq, struct ron_buf *out,
                                        struct ron_err *err);
RON_MUST_USE enum ron_rc led_read_entry_by_id(struct led_reader *r, struct ron_str id,
                                              struct led_candidates candidates, struct ron_buf *out,
                                              struct ron_err *err);

/* ---- accounts -------------------------------------------------------------------------------- */

/* Where a walk through an account's entries begins. `last_seq` is the book's, in the committed
 * view: RON_NOTFOUND when it is 0. */
struct led_account_query {
    struct ron_str account;
    uint64_t last_seq;
    uint64_t before;      /* history, debits: entries below this seq; 0: from the newest on */
    uint32_t limit;       /* history: 1..LED_PAGE_MAX, RON_INVALID otherwise */
    uint64_t at_seq;      /* balances: after this entry */
    struct ron_str asset; /* balances: this one; empty: all. debits: this one */
    uint64_t since_ms;    /* debits: commits at or after this time */
};

/* Newest first. The answer's `next` goes back in as `before`; null at the end. */
RON_MUST_USE enum ron_rc led_read_history(struct led_reader *r, const struct led_account_query *q,
                                          struct ron_buf *out, struct ron_err *err);
/* The balances at an earlier seq. When D4 ended the walk before the account's first entry was
 * reached, the answer says so (`complete` false) and gives the `next_at_seq` to ask for the rest
 * with: assets that were listed already are left to the first answer. */
RON_MUST_USE enum ron_rc led_read_balances(struct led_reader *r, const struct led_account_query *q,
                                           struct ron_buf *out, struct ron_err *err);

/* What Transfer, Burn, Debit and Capture took from the account since a time, newest first. When D4
 * ended the walk, `next` goes back in as `before` and its sum is added; null at the end. */
RON_MUST_USE enum ron_rc led_read_debits(struct led_reader *r, const struct led_account_query *q,
                                         struct ron_buf *out, struct ron_err *err);

/* ---- repetitions ----------------------------------------------------------------------------- */

enum led_repeat {
    LED_REPEAT_NEW,  /* none of its keys is there up to checked_seq, which is renewed: go on */
    LED_REPEAT_DONE, /* the outcome is filled in: the original's, or a refusal */
};

/* Whether the keys of a work (idem_id, ids) are in the journal, and what follows from that: at
 * found_seq when the sequencer names one, else wherever the index does. The same batch under the
 * same keys gets the original outcome; a key with another body is refused idem_mismatch; a
 * cancelled idem_id, or the cancelling of a committed one, conflict. RON_AGAIN: found_seq lies
 * beyond the head. */
RON_MUST_USE enum ron_rc led_read_repeat(struct led_reader *r, struct led_work *w,
                                         enum led_repeat *ret, struct ron_err *err);
/* The entries that the Reverse entries of a work refer to, into the work's arena: each by its own
 * candidates (refs) where the work has them, else by those given. One that is not found stays NULL:
 * the book looks into the batch, or refuses. RON_LIMIT: the arena is full. */
RON_MUST_USE enum ron_rc led_read_originals(struct led_reader *r, struct led_work *w,
                                            struct led_candidates candidates, struct ron_err *err);

enum led_key_state {
    LED_KEY_UNKNOWN, /* not in the journal */
    LED_KEY_COMMITTED,
    LED_KEY_CANCELLED,
};

struct led_key_outcome {
    enum led_key_state state;
    uint64_t seq_first; /* COMMITTED */
    uint64_t seq_last;
    uint64_t time_ms; /* of the commit */
    struct ron_tree_hash root;
};

RON_MUST_USE enum ron_rc led_read_outcome(struct led_reader *r, struct ron_str idem_id,
                                          struct led_candidates candidates,
                                          struct led_key_outcome *ret, struct ron_err *err);
/* What GET /outcome answers for these three states. */
void led_key_outcome_to_json(struct ron_buf *out, struct ron_str idem_id,
                             const struct led_key_outcome *outcome);

/* ---- proofs ---------------------------------------------------------------------------------- */

/* That entry `seq` is in the tree of `size`; 0: that of the head. */
RON_MUST_USE enum ron_rc led_read_inclusion(struct led_reader *r, uint64_t seq, uint64_t size,
                                            struct ron_buf *out, struct ron_err *err);
/* That the tree of `to` (0: the head's) begins with that of `from`. */
RON_MUST_USE enum ron_rc led_read_consistency(struct led_reader *r, uint64_t from, uint64_t to,
                                              struct ron_buf *out, struct ron_err *err);
/* The root of an earlier size, proven against the head. */
RON_MUST_USE enum ron_rc led_read_root(struct led_reader *r, uint64_t size,
                                       struct ron_tree_hash *ret_root, struct ron_err *err);
/* Tiles and bundles of entries: `path` without its leading slash, "tile/0/000". */
RON_MUST_USE enum ron_rc led_read_tile(struct led_reader *r, struct ron_str path,
                                       struct ron_buf *out, struct ron_err *err);
/* `checkpoint` is a signed note of this ledger at or below the head. RON_AGAIN: the entry is in the
 * journal, and not yet under that checkpoint. */
RON_MUST_USE enum ron_rc led_read_receipt(struct led_reader *r, uint64_t seq,
                                          struct ron_str checkpoint, struct ron_buf *out,
                                          struct ron_err *err);

/* Roots of the frames whose last entry is above `since`, oldest first; limit 1..LED_PAGE_MAX. */
RON_MUST_USE enum ron_rc led_read_roots(struct led_reader *r, uint64_t since, uint32_t limit,
                                        struct ron_buf *out, struct ron_err *err);
