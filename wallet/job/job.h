/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/job/job.h - a write on its way to the ledger and back, as a machine of plain steps.
 *
 * Place: wallet; no threads, sockets or clocks of its own: a worker task drives it, and so does the
 * simulator. Whoever drives it does what a step says and calls the next function.
 *
 *     begin --> idempotency: replay, in progress --------------------------------------> ANSWER
 *                            another request has the key: as not allowed, below
 *           --> for each operation: nonce reserved, daily sum reserved, account total and balance
 *               looked at; what is not known is read first:
 *                 READ account (nonce), READ debits (pages; WAIT while another job does), READ
 *                 `to`, READ `from` ---------------------------------------------------> again
 *               not allowed --> READ outcome of the key (J7): never seen --------------> ANSWER 4xx
 *                                                             committed --> as idem_mismatch
 *           --> SEND batch -- done ----------------------------------------------------> ANSWER 200
 *                         -- idem_mismatch: READ outcome, READ by-id of the first txid:
 *                              the same request --> rebuilt receipt, replayed ---------> ANSWER 200
 *                              another one, cancelled ---------------------------------> ANSWER 422
 *                         -- refused for good --> settle REFUSED ----------------------> ANSWER 4xx
 *                              nonce: forgotten, READ account for the number to expect
 *                              conflict: READ outcome, for a key that was cancelled
 *                         -- transient, no answer --> WAIT, SEND the same bytes again; tries used
 *                            up or deadline --> settle UNKNOWN ------------------------> ANSWER 503
 *
 * Rules:
 *   J1. Every reservation (key, nonce, daily sum) is settled exactly once, before ANSWER.
 *   J2. REFUSED only on a definite word: the ledger refused the batch, or it never left. Everything
 *       else is UNKNOWN, and the client is told to ask for the outcome or to send it again. `busy`
 *       is such a word, safe_mode, draining and internal are not: a failed sync may have kept the
 *       batch. Nor is a refusal when an earlier try of the job may still be on its way.
 *   J3. All tries of a job send the same bytes.
 *   J4. One try takes at most rpc_ms, at most tries_max tries of a question, nothing beyond the
 *       deadline.
 *   J5. Calls pass the breaker of the ledger they go to; while it is open the answer is 503 at
 *       once. What says nothing about the ledger's health is not held against it: a full queue, or
 *       a silence that ended with the client's own deadline. Otherwise who sends short ones would
 *       shut the door for all. Nor is a ledger that says that another one leads: the next try goes
 *       there.
 *   J6. A dry run passes the same checks, holds nothing while the ledger decides, and is not
 *       remembered.
 *   J7. The wallet's own refusals (key, nonce, sums, balance) are given only after the ledger has
 *       said that the request was never committed: what was paid before the tables were lost, or
 *       whose answer was, gets its receipt though its nonce is used and its money gone.
 * Ownership: a job belongs to its driver; `call` and its texts outlive it. Several operations of a
 * batch on one account, with nonces, hold one reservation together: their nonces must follow each
 * other. */
#pragma once

#include "client/ledgers.h"
#include "ron/base/env.h"
#include "ron/guard/retry.h"
#include "ron/sync/sync.h"
#include "wallet/call/call.h"
#include "wallet/table/cache.h"
#include "wallet/table/daily.h"
#include "wallet/table/idem.h"
#include "wallet/table/nonce.h"

/* What all jobs share. */
struct wlt_core {
    const struct ron_env *env; /* wall clock */
    struct wlt_secret secret;
    struct wlt_nonces *nonces;
    struct wlt_daily *daily;
    struct wlt_idem *idem;
    struct wlt_cache *cache;
    struct lc_ledgers *ledgers;
    struct ron_retry_curve curve;
    struct ron_retry_stats retries;
    struct ron_money daily_ceiling; /* RON_MONEY_MAX: none */
    struct ron_money total_max; /* of an account; RON_MONEY_MAX: only what fits, nothing is read */
    /* What a balance may have been within the last minute to be far from total_max: 2^32 of the
     * largest credits would not lead there. 0: none is, every credit's payee is read. */
    struct ron_money total_far;
    uint32_t rpc_ms;
    /* Monotonic ms as of which everything in `cache` that is not outdated is known to be true; 0:
     * nothing is. Kept by task/follow.c. Who says something about a value loads this first. */
    struct ron_au64 fresh_ms;
};

enum wlt_step {
    WLT_STEP_SEND,   /* job->code with job->payload to ledger job->which before job->until_ns, then
                        _answered */
    WLT_STEP_WAIT,   /* call _waited not before job->until_ns */
    WLT_STEP_ANSWER, /* status, body and flags are there; the job is over */
};

/* How a call to the ledger ended, as in ron/wire/client.h. */
enum wlt_reply_kind { WLT_REPLY_ANSWERED, WLT_REPLY_NOT_SENT, WLT_REPLY_UNKNOWN };
struct wlt_reply {
    enum wlt_reply_kind kind; /* a refusal of the wire is NOT_SENT */
    bool busy;                /* NOT_SENT because a queue is full, there or here */
    uint16_t status;
    char *bytes; /* may be changed */
    size_t len;
};

/* What an operation has reserved, and how far it was looked at. */
struct wlt_hold {
    struct wlt_key from; /* the keys of what the operation names; 0 of what it does not have */
    struct wlt_key to;
    struct wlt_key from_pair; /* account and asset */
    struct wlt_key to_pair;
    struct wlt_nonce_ticket ticket;
    uint64_t nonce_last; /* of the run that begins with this operation; 0: it begins none */
    uint8_t asked;       /* questions for a nonce that was not known, */
    uint8_t asked_sums;  /* and for a day's sum */
    uint8_t done;        /* checks that it has passed */
    bool refreshed;      /* the nonce was read anew, for this operation */
    bool nonce_held;
    bool daily_held;
};

/* Reservations of a job's operations. */
struct wlt_holds {
    struct wlt_hold *at; /* by operation: `one` or in `room`; NULL: none yet */
    uint16_t *heads;     /* which operation of a batch began the run of an account's nonces, + 1 */
    uint32_t heads_mask;
    uint32_t room_ops;   /* operations that `room` holds */
    void *room;          /* of a batch; kept from job to job */
    struct wlt_hold one; /* of a single operation */
};

struct wlt_job {
    /* Given. */
    const struct wlt_call *call;
    uint64_t deadline_ns; /* monotonic */
    struct ron_str kid;   /* of the key of the wallet's own capability for the ledger */
    struct ron_str capability_ref;
    struct ron_buf *out; /* body of the answer; with room for wlt_call_answer */
    struct ron_rand *rand;

    /* What a step asks for. */
    uint16_t code;  /* LC_CODE_* */
    uint32_t which; /* of core->ledgers */
    uint64_t until_ns;
    struct ron_buf payload; /* keeps its memory from job to job */

    /* The answer. */
    struct wlt_fault fault; /* reason NONE: 200, the body is in `out` */
    bool replayed;
    struct lc_done done; /* 200 that did not come from the table of answers */

    /* Its own. */
    int _state;
    bool _key_held;
    bool _admitted;
    bool _lost;     /* a try of the batch may have had an effect */
    bool _silent;   /* a try of this question ended without an answer */
    bool _sure;     /* `fault` is the ledger's word and stands without a further look */
    bool _mismatch; /* the key belongs to an earlier request */
    struct wlt_key _key;
    uint32_t _at; /* operation that is looked at; those before it hold their reservations */
    uint32_t _day;
    uint64_t _begun_ms;
    uint64_t _page;
    struct ron_money _debited;
    struct ron_retry _retry;
    struct ron_breaker_ticket _breaker;
    uint64_t _sent_ms;
    struct wlt_holds _holds;
};

void wlt_job_init(struct wlt_job *job);
void wlt_job_done(struct wlt_job *job);
/* `call` to `rand` are set; the rest is reset. */
RON_MUST_USE enum wlt_step wlt_job_begin(struct wlt_core *core, struct wlt_job *job,
                                         uint64_t now_ns);
RON_MUST_USE enum wlt_step wlt_job_answered(struct wlt_core *core, struct wlt_job *job,
                                            const struct wlt_reply *reply, uint64_t now_ns);
RON_MUST_USE enum wlt_step wlt_job_waited(struct wlt_core *core, struct wlt_job *job,
                                          uint64_t now_ns);
/* Ends it now, wherever it stands (drain, failed task): settles what is reserved as UNKNOWN when
 * the batch may have left, else as REFUSED, and leaves the answer like ANSWER. A job that is over
 * stays as it is. */
void wlt_job_abort(struct wlt_core *core, struct wlt_job *job, enum wlt_reason reason);
