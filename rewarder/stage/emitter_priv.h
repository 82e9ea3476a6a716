/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/stage/emitter_priv.h - shared by emitter.c (settlements) and emitter_call.c (calls). */
#pragma once

#include "rewarder/settle/machine.h"
#include "rewarder/stage/stage.h"

/* One call to the ledger; as many as batches may be under way. */
struct emit_call {
    struct rwd_emitter *m;
    struct rwd_emit_batch *slot;
    struct ron_oap_ask ask;       /* of the ledger */
    struct ron_http_fetch *fetch; /* of the wallet */
    struct ron_buf payload;
    struct ron_buf answer;
    uint32_t which; /* of settle->payers */
    struct ron_breaker_ticket ticket;
    uint64_t sent_ns;
};

struct rwd_emitter {
    struct rwd_core *core;
    struct rwd_store *store;
    struct rwd_pipes *pipes;
    struct rwd_settle *settle;
    struct ron_chan *answers;
    struct rwd_emit emit;
    struct ron_trace_ctx trace; /* of the settlement under way */
    uint32_t inflight_max;
    uint32_t out;                                  /* calls whose answer has not come */
    uint64_t retry_ms;                             /* monotonic: when withheld ones are due */
    uint32_t withheld;                             /* epochs that wait for it */
    struct emit_call calls[RWD_EMIT_INFLIGHT_MAX]; /* by slot */
};

/* One settlement. */
struct settling {
    struct rwd_epoch epoch;
    struct ron_str name;
    struct ron_buf manifest_text;
    struct rwd_manifest manifest;
    struct rwd_policy_doc *policy;
    struct rwd_payouts *payouts;
    uint32_t next; /* batch to take from the book */
    bool alone;    /* the batch under way is the first, which claims the epoch (E6) */
    bool all_taken;
    bool finished; /* EMITTED */
};

/* Rule E6: the ledger is asked whose an epoch is. Not through the wallet, whose keys belong to an
 * account and an operation, so that two payees never share one. */
static inline bool rwd__emitter_claims(const struct rwd_emitter *m)
{
    return m->core->amnesia && m->settle->wallet == NULL;
}

/* In emitter_call.c. */
/* Sends what the slot wants to send; a failure to do so is told to the machine. */
void rwd__emitter_send(struct rwd_emitter *m, struct settling *x, struct rwd_emit_batch *slot);
/* An answer has come: tells the machine what it means. */
void rwd__emitter_hear(struct rwd_emitter *m, struct settling *x, struct emit_call *c);
/* The word on a step, counted. */
void rwd__emitter_word(struct rwd_emitter *m, struct rwd_emit_batch *slot, enum rwd_emit_word word,
                       const struct lc_done *done, const char *message);
