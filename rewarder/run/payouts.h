/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/payouts.h - the payouts of a run as files: lines, places and the tree over them.
 *
 *     payouts.ndjson   a line for each payee, sorted by account:
 *                      {"account":"a","amount_minor_units":"356","score":"1220000"}
 *     payouts.index    the offset of each line in payouts.ndjson, 8 bytes big-endian, and the size
 *     payouts.tree     the stored hashes of ron/merkle/tree.h over the lines without their end of
 *                      line: 32 bytes each
 *
 * The content id of payouts.ndjson and the root of the tree stand in the manifest. A payee's proof
 * needs one line, its place, and at most 64 hashes.
 *
 * Place: rewarder, over the disk ports. Blocking. Writers need memory for their buffers alone, and
 * what was opened may be read by several threads at once.
 *
 * Failure: a failed write leaves files that nobody names; the folder is removed by who made it.
 * Files that do not fit together or are damaged: RON_CORRUPT. */
#pragma once

#include "rewarder/calc/calc.h"
#include "ron/base/env.h"
#include "ron/merkle/tree.h"

struct rwd_payouts_sum {
    uint64_t count;
    struct ron_money total;
    struct ron_b3 cid;         /* of payouts.ndjson */
    struct ron_tree_hash root; /* of the tree */
};

/* Where the files go, and who looks on. */
struct rwd_payouts_opts {
    const struct ron_env *env;
    const char *dir;            /* there already; NULL: a dry run, with the same names */
    struct ron_au64 *done_rows; /* counted up; may be NULL */
    struct ron_au32 *cancelled; /* not 0: stop with RON_CANCELLED; may be NULL */
};

/* Writes the three files and syncs them. */
RON_MUST_USE enum ron_rc rwd_payouts_write(const struct rwd_payouts_opts *opts,
                                           const struct rwd_result *result,
                                           struct rwd_payouts_sum *ret_sum, struct ron_err *err);
/* Compares the three files with what would be written; `dir` is not NULL. RON_CONFLICT names the
 * first difference. */
RON_MUST_USE enum ron_rc rwd_payouts_compare(const struct rwd_payouts_opts *opts,
                                             const struct rwd_result *result,
                                             struct rwd_payouts_sum *ret_sum, struct ron_err *err);

/* The longest line with its end: 160 of the account, twice 39 digits and the words around them. */
enum { RWD_LINE_MAX = 320 };
/* One line without its end of line, written and read in its one spelling. RON_CORRUPT. */
size_t rwd_payout_line(const struct rwd_payout *payout, char ret_line[RWD_LINE_MAX]);
RON_MUST_USE enum ron_rc rwd_payout_line_read(struct ron_str line, struct rwd_payout *ret_payout,
                                              struct ron_err *err);

/* ---- reading --------------------------------------------------------------------------------- */

struct rwd_payouts;
/* Opens the files of a folder and compares their sizes. RON_NOTFOUND when there are none. */
RON_MUST_USE enum ron_rc rwd_payouts_open(const struct ron_env *env, const char *dir,
                                          struct rwd_payouts **ret_payouts, struct ron_err *err);
void rwd_payouts_close(struct rwd_payouts *p);
uint64_t rwd_payouts_count(const struct rwd_payouts *p);

/* Payouts [first, first + count), as far as they are there; stops when `each` returns false. The
 * slices live until it returns. */
typedef bool rwd_payout_fn(void *arg, uint64_t index, const struct rwd_payout *payout);
RON_MUST_USE enum ron_rc rwd_payouts_each(struct rwd_payouts *p, uint64_t first, uint64_t count,
                                          rwd_payout_fn *each, void *arg, struct ron_err *err);
/* The place of an account; RON_NOTFOUND. */
RON_MUST_USE enum ron_rc rwd_payouts_find(struct rwd_payouts *p, struct ron_str account,
                                          uint64_t *ret_index, struct ron_err *err);

/* ---- proofs ---------------------------------------------------------------------------------- */

/* A payee's proof as JSON: {"v":1,"epoch_id","run_key","commitment","account","amount_minor_units",
 * "score","index","count","root","hashes":[...],"manifest":<run.json>}; docs/formats/rewarder.md.
 * It can be checked with nothing else in hand but a public key (rwd_proof_check). RON_CORRUPT when
 * the files would prove something else than the manifest says: no bad proof is handed out. */
enum { RWD_PROOF_TEXT_MAX = 32768 }; /* the manifest, 64 hashes and a line */
RON_MUST_USE enum ron_rc rwd_payouts_prove(struct rwd_payouts *p, uint64_t index,
                                           struct ron_str manifest, struct ron_buf *out,
                                           struct ron_err *err);
