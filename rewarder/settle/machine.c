/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/settle/machine.c - the machine of a settlement: steps and words.
 *
 * Place: rewarder; pure code. One table says what each word means at each step; what it does not
 * name does not fit the step, and the settlement ends refused: an answer that makes no sense pays
 * nobody. */
#include "rewarder/settle/machine.h"

#include <string.h>

#include "ron/base/assert.h"

enum action {
    NO_SENSE, /* also what the table leaves out */
    NOTE,     /* it is settled: to the book */
    LOOK,     /* at each entry */
    NEXT_ID,
    MISSING_ID,
    COMMITTED, /* the key is; whether with these entries the ledger says when they are sent */
    FORGOTTEN, /* the key is not known */
    STAMP,
    AGAIN,
    REFUSE,
};

static const enum action actions[RWD_EMIT_STEP_COUNT][RWD_WORD_COUNT] = {
    [RWD_EMIT_SEND] = {[RWD_WORD_DONE] = NOTE,
                       [RWD_WORD_OTHER_BODY] = LOOK,
                       [RWD_WORD_LATER] = AGAIN,
                       [RWD_WORD_REFUSED] = REFUSE},
    [RWD_EMIT_OUTCOME] = {[RWD_WORD_DONE] = COMMITTED,
                          [RWD_WORD_NEVER] = FORGOTTEN,
                          [RWD_WORD_CANCELLED] = STAMP,
                          [RWD_WORD_LATER] = AGAIN,
                          [RWD_WORD_REFUSED] = REFUSE},
    [RWD_EMIT_CANCEL] = {[RWD_WORD_CANCELLED] = STAMP,
                         [RWD_WORD_OTHER_BODY] = COMMITTED,
                         [RWD_WORD_LATER] = AGAIN,
                         [RWD_WORD_REFUSED] = REFUSE},
    [RWD_EMIT_LOOKUP] = {[RWD_WORD_KNOWN] = NEXT_ID,
                         [RWD_WORD_UNKNOWN_ID] = MISSING_ID,
                         [RWD_WORD_OTHER_BODY] = REFUSE,
                         [RWD_WORD_LATER] = AGAIN,
                         [RWD_WORD_REFUSED] = REFUSE},
    [RWD_EMIT_STAMP] = {[RWD_WORD_LATER] = AGAIN},
    [RWD_EMIT_DONE] = {[RWD_WORD_LATER] = AGAIN},
};

void rwd_emit_init(struct rwd_emit *e, uint32_t inflight_max, uint64_t horizon_ms)
{
    RON_ASSERT(inflight_max >= 1 && inflight_max <= RWD_EMIT_INFLIGHT_MAX);
    *e = (struct rwd_emit){.inflight_max = inflight_max, .horizon_ms = horizon_ms};
}

static bool has_ended(const struct rwd_emit *e)
{
    return e->withheld || e->refused;
}

static void set_free(struct rwd_emit *e, struct rwd_emit_batch *slot)
{
    RON_ASSERT(slot->used && e->slot_count > 0);
    *slot = (struct rwd_emit_batch){0};
    e->slot_count--;
}

static void take_step(struct rwd_emit_batch *slot, enum rwd_emit_step step)
{
    slot->step = step;
    slot->tries = 0;
}

bool rwd_emit_add(struct rwd_emit *e, const struct rwd_batch *row)
{
    RON_ASSERT(row->state == RWD_BATCH_PLANNED && row->count > 0);
    if (has_ended(e)) {
        return false;
    }
    for (uint32_t i = 0; i < e->inflight_max; i++) {
        struct rwd_emit_batch *slot = &e->slots[i];

        if (!slot->used) {
            *slot = (struct rwd_emit_batch){.row = *row, .step = RWD_EMIT_SEND, .used = true};
            e->slot_count++;
            return true;
        }
    }
    return false;
}

/* E4. Half of the horizon is left for the batch to arrive. */
static bool is_old(const struct rwd_emit *e, const struct rwd_batch *row, uint64_t now_ms)
{
    return now_ms > row->ts_ms && now_ms - row->ts_ms > e->horizon_ms / 2;
}

struct rwd_emit_batch *rwd_emit_next(struct rwd_emit *e, uint64_t now_ms)
{
    /* No pause is longer; a clock that was set back would make it one. */
    e->until_ms = RON_MIN(e->until_ms, now_ms + RWD_EMIT_PAUSE_MAX_MS);
    for (uint32_t i = 0; i < e->inflight_max; i++) {
        struct rwd_emit_batch *slot = &e->slots[i];

        if (!slot->used || slot->busy) {
            continue;
        }
        /* What is done is noted at once, unless it is the book that has failed. */
        if (now_ms < e->until_ms && (slot->step != RWD_EMIT_DONE || slot->tries > 0)) {
            continue;
        }
        if (slot->step == RWD_EMIT_SEND && !slot->committed && is_old(e, &slot->row, now_ms)) {
            take_step(slot, RWD_EMIT_OUTCOME);
        }
        slot->busy = true;
        return slot;
    }
    return NULL;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* E5. The first reason stays. */
static void end(struct rwd_emit *e, bool *flag, const char *message)
{
    if (!has_ended(e) || (flag == &e->refused && !e->refused)) {
        (void)snprintf(e->reason, sizeof e->reason, "%s", message);
    }
    *flag = true;
    for (uint32_t i = 0; i < e->inflight_max; i++) {
        struct rwd_emit_batch *slot = &e->slots[i];

        if (slot->used && !slot->busy && slot->step != RWD_EMIT_DONE) {
            set_free(e, slot);
        }
    }
}

static void again(struct rwd_emit *e, struct rwd_emit_batch *slot, const char *message,
                  uint64_t now_ms, uint32_t jitter)
{
    uint64_t pause =
        RWD_EMIT_PAUSE_MIN_MS + jitter % (RWD_EMIT_PAUSE_MAX_MS - RWD_EMIT_PAUSE_MIN_MS + 1);

    slot->tries++;
    if (slot->tries < RWD_EMIT_TRIES_MAX) {
        e->until_ms = RON_MAX(e->until_ms, now_ms + pause);
        return;
    }
    /* The row stays planned in the book, and is asked for under the same key next time. */
    set_free(e, slot);
    end(e, &e->withheld, message);
}

/* E1: an id is not there although the ledger refused the batch because of what it knows. */
static bool missing_id(struct rwd_emit_batch *slot)
{
    if (slot->lookup != 0) {
        return false;
    }
    slot->doubted = true;
    take_step(slot, RWD_EMIT_OUTCOME);
    return true;
}

static void next_id(struct rwd_emit_batch *slot)
{
    slot->lookup++;
    if (slot->lookup < slot->row.count) {
        take_step(slot, RWD_EMIT_LOOKUP);
        return;
    }
    slot->row.state = RWD_BATCH_DONE;
    take_step(slot, RWD_EMIT_DONE);
}

static void note(struct rwd_emit_batch *slot, const struct lc_done *done)
{
    RON_ASSERT(done != NULL);
    slot->row.state = RWD_BATCH_DONE;
    slot->row.seq_first = done->seq_first;
    slot->row.seq_last = done->seq_last;
    slot->row.commit_ms = done->commit_ms;
    take_step(slot, RWD_EMIT_DONE);
}

/* Whether the slot goes on; false: the settlement is refused. */
static bool act(struct rwd_emit_batch *slot, enum action action, const struct lc_done *done)
{
    switch (action) {
    case NOTE:
        note(slot, done);
        return true;
    case LOOK:
        take_step(slot, RWD_EMIT_LOOKUP);
        return true;
    case NEXT_ID:
        next_id(slot);
        return true;
    case MISSING_ID:
        return missing_id(slot);
    case COMMITTED:
        /* In doubt: the key is another batch's, as the entries are not there. */
        slot->committed = true;
        take_step(slot, RWD_EMIT_SEND);
        return !slot->doubted;
    case FORGOTTEN:
        /* In doubt: neither the key nor the first id is known, yet the batch was refused. */
        take_step(slot, RWD_EMIT_CANCEL);
        return !slot->doubted;
    case STAMP:
        take_step(slot, RWD_EMIT_STAMP);
        return true;
    case AGAIN:
    case REFUSE:
    case NO_SENSE:
    default:
        return false;
    }
}

void rwd_emit_word(struct rwd_emit *e, struct rwd_emit_batch *slot, enum rwd_emit_word word,
                   const struct lc_done *done, const char *message, uint64_t now_ms,
                   uint32_t jitter)
{
    enum action action = actions[slot->step][word];

    RON_ASSERT(slot->used && slot->busy);
    slot->busy = false;
    if (action == COMMITTED && slot->doubted) {
        message = "the ledger has other payouts under this key: of another run of the epoch";
    }
    if (action == AGAIN) {
        again(e, slot, message != NULL ? message : "no answer", now_ms, jitter);
    } else if (!act(slot, action, done)) {
        set_free(e, slot);
        end(e, &e->refused, message != NULL ? message : "an answer that does not fit");
    }
    /* E5. */
    if (has_ended(e) && slot->used && slot->step != RWD_EMIT_DONE) {
        set_free(e, slot);
    }
}

void rwd_emit_stamped(struct rwd_emit *e, struct rwd_emit_batch *slot, uint64_t ts_ms,
                      uint32_t attempt)
{
    RON_ASSERT(slot->used && slot->busy && slot->step == RWD_EMIT_STAMP);
    slot->busy = false;
    slot->row.ts_ms = ts_ms;
    slot->row.attempt = attempt;
    slot->committed = false;
    slot->doubted = false;
    take_step(slot, RWD_EMIT_SEND);
    if (has_ended(e)) {
        set_free(e, slot);
    }
}

void rwd_emit_noted(struct rwd_emit *e, struct rwd_emit_batch *slot)
{
    RON_ASSERT(slot->used && slot->busy && slot->step == RWD_EMIT_DONE);
    set_free(e, slot);
}

bool rwd_emit_idle(const struct rwd_emit *e)
{
    return e->slot_count == 0;
}

enum rwd_emit_word rwd_emit_refusal(enum rwd_emit_step step, const struct lc_refusal *refusal)
{
    switch (refusal->reason) {
    case LC_REASON_BUSY:
    case LC_REASON_TIMEOUT:
    case LC_REASON_SAFE_MODE:
    case LC_REASON_DRAINING:
    case LC_REASON_NOT_LEADER:
    case LC_REASON_INTERNAL: /* a fault of the ledger's is no verdict on the batch */
    case LC_REASON_INSUFFICIENT_FUNDS:
        return RWD_WORD_LATER;
    case LC_REASON_CONFLICT:
    case LC_REASON_IDEM_MISMATCH:
        return RWD_WORD_OTHER_BODY;
    case LC_REASON_NOT_FOUND:
        return step == RWD_EMIT_LOOKUP ? RWD_WORD_UNKNOWN_ID : RWD_WORD_REFUSED;
    case LC_REASON_OTHER: /* of the wire, or of a newer ledger */
    case LC_REASON_UNAUTH:
    case LC_REASON_CAP_INVALID:
    case LC_REASON_UNKNOWN_KIND:
    case LC_REASON_POLICY_DENIED:
    case LC_REASON_TOO_LARGE:
    case LC_REASON_INVALID:
    case LC_REASON_NONCE_CONFLICT:
    case LC_REASON_COUNT:
    default:
        return refusal->retryable ? RWD_WORD_LATER : RWD_WORD_REFUSED;
    }
}
