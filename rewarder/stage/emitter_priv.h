/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/stage/emitter_priv.h - shared by emitter.c (settlements) and emitter_call.c (calls). */
#pragma once

#include "rewarder/svc.h"

/* One call to the ledger; as many as batches may be under way. */
struct emit_call {
    struct rew_emitter *m;
    struct rew_emit_batch *slot;
    struct ron_oap_ask ask;       /* of the ledger */
    struct ron_http_fetch *fetch; /* of the wallet */
    struct ron_buf payload;
    struct ron_buf answer;
    uint32_t which; /* of s->payers */
    struct ron_breaker_ticket ticket;
    uint64_t sent_ns;
};

struct rew_emitter {
    struct rew_svc *s;
    struct ron_chan *answers;
    struct rew_emit emit;
    struct ron_trace_ctx trace; /* of the settlement under way */
    uint32_t inflight_max;
    uint32_t out;                                  /* calls whose answer has not come */
    uint64_t retry_ms;                             /* monotonic: when withheld ones are due */
    uint32_t withheld;                             /* epochs that wait for it */
    struct emit_call calls[REW_EMIT_INFLIGHT_MAX]; /* by slot */
};

/* One settlement. */
struct settling {
    struct rew_epoch epoch;
    struct ron_str name;
    struct ron_buf manifest_text;
    struct rew_manifest manifest;
    struct rew_policy_doc *policy;
    struct rew_payouts *payouts;
    uint32_t next; /* batch to take from the book */
    bool alone;    /* the batch under way is the first, which claims the epoch (E6) */
    bool all_taken;
    bool finished; /* EMITTED */
};

/* Rule E6: the ledger is asked whose an epoch is. Not through the wallet, whose keys belong to an
 * account and an operation, so that two payees never share one. */
static inline bool rew__emitter_claims(const struct rew_svc *s)
{
    return s->amnesia && s->wallet == NULL;
}

/* In emitter_call.c. */
RON_MUST_USE enum ron_rc rew__emitter_connect(struct rew_svc *s, uint32_t inflight_max,
                                              struct ron_err *err);
/* Sends what the slot wants to send; a failure to do so is told to the machine. */
void rew__emitter_send(struct rew_emitter *m, struct settling *x, struct rew_emit_batch *slot);
/* An answer has come: tells the machine what it means. */
void rew__emitter_hear(struct rew_emitter *m, struct settling *x, struct emit_call *c);
/* The word on a step, counted. */
void rew__emitter_word(struct rew_emitter *m, struct rew_emit_batch *slot, enum rew_emit_word word,
                       const struct lc_done *done, const char *message);
