/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/book/book.h - what must survive: epochs, their states, and the outbox of settlements. In
 * a file of SQLite, or in tables of PostgreSQL.
 *
 *     reserved --> computing --> sealed --> emitting --> emitted --> retired
 *                      |            \          | ^
 *                      |             \         v |
 *                      +--> quarantined <--- withheld
 *
 * Rules:
 *   B1. An epoch belongs to one run_key from its reservation on; only a run that failed without a
 *       verdict (its deadline passed, no memory) gives the epoch back, and only a release ends a
 *       quarantine.
 *   B2. States move along the edges above and no others; a move names the state it comes from, so
 *       of two who try only one succeeds (RON_CONFLICT).
 *   B3. The rows of a settlement (batches of payouts: first, count, time stamp, attempt) are
 *       written, all of them, before the first is sent; a batch is marked done with the ledger's
 *       word in it. What was sent therefore can always be asked for under the same key.
 *   B4. A residual is carried into one epoch at most.
 *   B5. RON_OK of a writing call means durable, unless the book is in memory (path NULL: amnesia).
 *
 *   B6. Every row carries a checksum of itself, looked at when the book is opened and whenever the
 *       row is read: a changed byte is RON_CORRUPT, never another amount.
 *
 * Calls for an epoch that is not there are RON_NOTFOUND; a state that does not allow the call is
 * RON_CONFLICT.
 *
 * Threads: every call from any thread that may block; the one connection belongs to one call at a
 * time, because each call is a short transaction. Never called from a loop task. Failure: RON_IO,
 * RON_LIMIT (disk full): nothing has changed. RON_CORRUPT: the file is no book or damaged.
 *
 * In PostgreSQL (ron/pg/pg_own.h) a call waits a few seconds for a database that is away, and then
 * is RON_IO. So is a call of which nobody can say for as long whether it was committed; that is
 * settled before the next call does anything, and whoever tries again meets RON_EXISTS or
 * RON_CONFLICT, or `again is no error`, as after a crash. A process that was overtaken by another
 * one writes nothing more: RON_IO. */
#pragma once

#include "rewarder/run/manifest.h"

/* X(NAME, "name") */
#define RWD_STATES(X)                                                                              \
    X(RESERVED, "reserved")                                                                        \
    X(COMPUTING, "computing")                                                                      \
    X(SEALED, "sealed")                                                                            \
    X(QUARANTINED, "quarantined")                                                                  \
    X(EMITTING, "emitting")                                                                        \
    X(EMITTED, "emitted")                                                                          \
    X(WITHHELD, "withheld")                                                                        \
    X(RETIRED, "retired")
enum rwd_state {
#define X(name, text) RWD_##name,
    RWD_STATES(X)
#undef X
        RWD_STATE_COUNT
};
const char *rwd_state_name(enum rwd_state state);
bool rwd_state_of(struct ron_str name, enum rwd_state *ret_state);
/* B2: whether there is an edge. */
bool rwd_state_may(enum rwd_state from, enum rwd_state to);

/* What a caller asked to have computed. All of it follows from the request. */
struct rwd_request {
    char epoch[RWD_EPOCH_MAX + 1];
    struct ron_b3 run_key;
    struct ron_b3 inputs_cid;
    char policy_id[RWD_POLICY_ID_MAX + 1];
    struct ron_b3 policy_hash;
    bool has_ledger;
    struct ron_tree_hash ledger_root;
    uint64_t ledger_seq;
    char carry_epoch[RWD_EPOCH_MAX + 1]; /* "": nothing is carried in */
};

struct rwd_epoch {
    struct rwd_request request;
    enum rwd_state state;
    enum rwd_breach breach;
    char reason[128]; /* a sentence, for QUARANTINED and WITHHELD */
    bool sealed;      /* was once; what follows is 0 before */
    struct ron_b3 commitment;
    struct ron_money paid;
    struct ron_money residual;
    bool residual_carries; /* the policy's rule */
    char carried_into[RWD_EPOCH_MAX + 1];
    uint64_t intents; /* entries of its settlement: rwd_intent_count */
    uint64_t created_ms;
    uint64_t changed_ms;
};

/* A payout is an entry of the settlement; so is a residual that goes to the policy's sink, as the
 * last one. */
uint64_t rwd_intent_count(const struct rwd_manifest *m);

/* Documents in one book: each of some KiB, a new one for every change of a policy. */
enum { RWD_BOOK_POLICIES_MAX = 4096 };

struct rwd_book;
struct rwd_book_opts {
    const struct ron_env *env;
    const char *path; /* of the SQLite file, made (0600) when it is missing; NULL: in memory */
    const char *dsn;  /* not NULL: PostgreSQL, by this connection string */
    uint32_t tries;   /* to open it there, 100 ms apart; 0: 30 */
    uint64_t wait_ms; /* of a call for a database that is away; 0: 5 s */
};
/* RON_CONFLICT: another process has it open; RON_UNSUPPORTED: of a newer program. */
RON_MUST_USE enum ron_rc rwd_book_open_with(const struct rwd_book_opts *opts,
                                            struct rwd_book **ret_book, struct ron_err *err);
/* In a file, or in memory. */
RON_MUST_USE enum ron_rc rwd_book_open(const struct ron_env *env, const char *path,
                                       struct rwd_book **ret_book, struct ron_err *err);
void rwd_book_close(struct rwd_book *b);

/* ---- epochs ---------------------------------------------------------------------------------- */

/* Makes the epoch RESERVED for the request. RON_EXISTS: it is there with the same request (see
 * ret_epoch); RON_CONFLICT: with another one, or what is to be carried in has gone elsewhere;
 * RON_NOTFOUND: there is nothing to carry in from (no such epoch, not sealed, in quarantine, or its
 * residual does not carry). ret_epoch is written with RON_OK and RON_EXISTS. */
RON_MUST_USE enum ron_rc rwd_book_reserve(struct rwd_book *b, const struct rwd_request *request,
                                          uint64_t now_ms, struct rwd_epoch *ret_epoch,
                                          struct ron_err *err);
RON_MUST_USE enum ron_rc rwd_book_get(struct rwd_book *b, struct ron_str epoch,
                                      struct rwd_epoch *ret_epoch, struct ron_err *err);
/* The edges that carry nothing but a reason: RESERVED -> COMPUTING, EMITTING -> WITHHELD. All
 * others have a call of their own below and are RON_INVALID here. B2. `reason` may be NULL. */
RON_MUST_USE enum ron_rc rwd_book_move(struct rwd_book *b, struct ron_str epoch,
                                       enum rwd_state from, enum rwd_state to, const char *reason,
                                       uint64_t now_ms, struct ron_err *err);
/* COMPUTING -> SEALED with what the manifest says. RON_CONFLICT also for another run's. */
RON_MUST_USE enum ron_rc rwd_book_seal(struct rwd_book *b, const struct rwd_manifest *m,
                                       uint64_t now_ms, struct ron_err *err);
/* From any state but EMITTED and QUARANTINED itself: the first breach stays. */
RON_MUST_USE enum ron_rc rwd_book_quarantine(struct rwd_book *b, struct ron_str epoch,
                                             enum rwd_breach breach, const char *reason,
                                             uint64_t now_ms, struct ron_err *err);
/* Gives a RESERVED or COMPUTING epoch back: B1. */
RON_MUST_USE enum ron_rc rwd_book_forget(struct rwd_book *b, struct ron_str epoch,
                                         struct ron_err *err);
/* Ends a quarantine: an epoch that was sealed goes on as WITHHELD (ret_again true), any other is
 * forgotten. RON_CONFLICT when it is not in quarantine. */
RON_MUST_USE enum ron_rc rwd_book_release(struct rwd_book *b, struct ron_str epoch, uint64_t now_ms,
                                          bool *ret_again, struct ron_err *err);
/* Epochs after `after` by name, at most `max`. `state` RWD_STATE_COUNT: all. */
RON_MUST_USE enum ron_rc rwd_book_list(struct rwd_book *b, struct ron_str after,
                                       enum rwd_state state, struct rwd_epoch *ret_epochs,
                                       size_t max, size_t *ret_count, struct ron_err *err);
/* EMITTED -> RETIRED for epochs that were emitted before a time: calls `each` for every one before,
 * outside of the book, and drops its batches. The epoch itself is remembered for ever, so that it
 * is never paid again. Those whose residual waits to be carried stay. */
RON_MUST_USE enum ron_rc rwd_book_retire(struct rwd_book *b, uint64_t before_ms,
                                         void (*each)(void *arg, const char *epoch), void *arg,
                                         struct ron_err *err);

/* ---- outbox ---------------------------------------------------------------------------------- */

enum rwd_batch_state { RWD_BATCH_PLANNED, RWD_BATCH_DONE };
struct rwd_batch {
    uint32_t no;
    uint64_t first;
    uint32_t count;
    uint32_t attempt;
    uint64_t ts_ms; /* of its entries */
    enum rwd_batch_state state;
    uint64_t seq_first; /* when DONE; 0: settled earlier under other batches */
    uint64_t seq_last;
    uint64_t commit_ms;
};

/* SEALED or WITHHELD -> EMITTING. The first time it plans the intents in batches of `batch_max`
 * with `now_ms`; later the plan stays. With nothing (left) to send the epoch is EMITTED at once:
 * ret_all. */
RON_MUST_USE enum ron_rc rwd_book_emit(struct rwd_book *b, struct ron_str epoch, uint32_t batch_max,
                                       uint64_t now_ms, bool *ret_all, struct ron_err *err);
/* Batches from `no` on that are not done, at most `max`. */
RON_MUST_USE enum ron_rc rwd_book_batches(struct rwd_book *b, struct ron_str epoch, uint32_t no,
                                          struct rwd_batch *ret_batches, size_t max,
                                          size_t *ret_count, struct ron_err *err);
/* Marks them done, in one transaction; again is no error. In quarantine too: it is the ledger's
 * word. With the last one an epoch that is EMITTING or WITHHELD is EMITTED (ret_all). */
RON_MUST_USE enum ron_rc rwd_book_done(struct rwd_book *b, struct ron_str epoch,
                                       const struct rwd_batch *batches, size_t count,
                                       uint64_t now_ms, bool *ret_all, struct ron_err *err);
/* Another time stamp and the next attempt for a batch whose earlier key can never commit.
 * RON_CONFLICT when it is done. */
RON_MUST_USE enum ron_rc rwd_book_stamp(struct rwd_book *b, struct ron_str epoch, uint32_t no,
                                        uint64_t ts_ms, uint32_t *ret_attempt, struct ron_err *err);

struct rwd_settlement {
    uint32_t batches;
    uint32_t batches_done;
    uint64_t intents;
    uint64_t intents_done;
    uint64_t seq_first; /* of the entries in the ledger */
    uint64_t seq_last;
};
RON_MUST_USE enum ron_rc rwd_book_settlement(struct rwd_book *b, struct ron_str epoch,
                                             struct rwd_settlement *ret_settlement,
                                             struct ron_err *err);

/* ---- policies -------------------------------------------------------------------------------- */

/* Keeps a document; the same again is RON_OK (and one with a signature replaces one without),
 * another one of the same id and version RON_CONFLICT, too many RON_LIMIT. */
RON_MUST_USE enum ron_rc rwd_book_policy_put(struct rwd_book *b, const struct rwd_policy_doc *doc,
                                             uint64_t now_ms, struct ron_err *err);
/* The document as kept, by id and hash, or the newest version of an id (`hash` NULL).
 * RON_NOTFOUND. */
RON_MUST_USE enum ron_rc rwd_book_policy_get(struct rwd_book *b, struct ron_str id,
                                             const struct ron_b3 *hash, struct ron_buf *out,
                                             struct ron_err *err);
