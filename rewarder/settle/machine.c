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

static const enum action actions[REW_EMIT_STEP_COUNT][REW_WORD_COUNT] = {
    [REW_EMIT_SEND] = {[REW_WORD_DONE] = NOTE,
                       [REW_WORD_OTHER_BODY] = LOOK,
                       [REW_WORD_LATER] = AGAIN,
                       [REW_WORD_REFUSED] = REFUSE},
    [REW_EMIT_OUTCOME] = {[REW_WORD_DONE] = COMMITTED,
                          [REW_WORD_NEVER] = FORGOTTEN,
                          [REW_WORD_CANCELLED] = STAMP,
                          [REW_WORD_LATER] = AGAIN,
                          [REW_WORD_REFUSED] = REFUSE},
    [REW_EMIT_CANCEL] = {[REW_WORD_CANCELLED] = STAMP,
                         [REW_WORD_OTHER_BODY] = COMMITTED,
                         [REW_WORD_LATER] = AGAIN,
                         [REW_WORD_REFUSED] = REFUSE},
    [REW_EMIT_LOOKUP] = {[REW_WORD_KNOWN] = NEXT_ID,
                         [REW_WORD_UNKNOWN_ID] = MISSING_ID,
                         [REW_WORD_OTHER_BODY] = REFUSE,
                         [REW_WORD_LATER] = AGAIN,
                         [REW_WORD_REFUSED] = REFUSE},
    [REW_EMIT_STAMP] = {[REW_WORD_LATER] = AGAIN},
    [REW_EMIT_DONE] = {[REW_WORD_LATER] = AGAIN},
};

void rew_emit_init(struct rew_emit *e, uint32_t inflight_max, uint64_t horizon_ms)
{
    RON_ASSERT(inflight_max >= 1 && inflight_max <= REW_EMIT_INFLIGHT_MAX);
    *e = (struct rew_emit){.inflight_max = inflight_max, .horizon_ms = horizon_ms};
}

static bool has_ended(const struct rew_emit *e)
{
    return e->withheld || e->refused;
}

static void set_free(struct rew_emit *e, struct rew_emit_batch *slot)
{
    RON_ASSERT(slot->used && e->slot_count > 0);
    *slot = (struct rew_emit_batch){0};
    e->slot_count--;
}

static void take_step(struct rew_emit_batch *slot, enum rew_emit_step step)
{
    slot->step = step;
    slot->tries = 0;
}

bool rew_emit_add(struct rew_emit *e, const struct rew_batch *row)
{
    RON_ASSERT(row->state == REW_BATCH_PLANNED && row->count > 0);
    if (has_ended(e)) {
        return false;
    }
    for (uint32_t i = 0; i < e->inflight_max; i++) {
        struct rew_emit_batch *slot = &e->slots[i];

        if (!slot->used) {
            *slot = (struct rew_emit_batch){.row = *row, .step = REW_EMIT_SEND, .used = true};
            e->slot_count++;
            return true;
        }
    }
    return false;
}

/* E4. Half of the horizon is left for the batch to arrive. */
static bool is_old(const struct rew_emit *e, const struct rew_batch *row, uint64_t now_ms)
{
    return now_ms > row->ts_ms && now_ms - row->ts_ms > e->horizon_ms / 2;
}

struct rew_emit_batch *rew_emit_next(struct rew_emit *e, uint64_t now_ms)
{
    /* No pause is longer; a clock that was set back would make it one. */
    e->until_ms = RON_MIN(e->until_ms, now_ms + REW_EMIT_PAUSE_MAX_MS);
    for (uint32_t i = 0; i < e->inflight_max; i++) {
        struct rew_emit_batch *slot = &e->slots[i];

        if (!slot->used || slot->busy) {
            continue;
        }
        /* What is done is noted at once, unless it is the book that has failed. */
        if (now_ms < e->until_ms && (slot->step != REW_EMIT_DONE || slot->tries > 0)) {
            continue;
        }
        if (slot->step == REW_EMIT_SEND && !slot->committed && is_old(e, &slot->row, now_ms)) {
            take_step(slot, REW_EMIT_OUTCOME);
        }
        slot->busy = true;
        return slot;
    }
    return NULL;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* E5. The first reason stays. */
static void end(struct rew_emit *e, bool *flag, const char *message)
{
    if (!has_ended(e) || (flag == &e->refused && !e->refused)) {
        (void)snprintf(e->reason, sizeof e->reason, "%s", message);
    }
    *flag = true;
    for (uint32_t i = 0; i < e->inflight_max; i++) {
        struct rew_emit_batch *slot = &e->slots[i];

        if (slot->used && !slot->busy && slot->step != REW_EMIT_DONE) {
            set_free(e, slot);
        }
    }
}

static void again(struct rew_emit *e, struct rew_emit_batch *slot, const char *message,
                  uint64_t now_ms, uint32_t jitter)
{
    uint64_t pause =
        REW_EMIT_PAUSE_MIN_MS + jitter % (REW_EMIT_PAUSE_MAX_MS - REW_EMIT_PAUSE_MIN_MS + 1);

    slot->tries++;
    if (slot->tries < REW_EMIT_TRIES_MAX) {
        e->until_ms = RON_MAX(e->until_ms, now_ms + pause);
        return;
    }
    /* The row stays planned in the book, and is asked for under the same key next time. */
    set_free(e, slot);
    end(e, &e->withheld, message);
}

/* E1: an id is not there although the ledger refused the batch because of what it knows. */
static bool missing_id(struct rew_emit_batch *slot)
{
    if (slot->lookup != 0) {
        return false;
    }
    slot->doubted = true;
    take_step(slot, REW_EMIT_OUTCOME);
    return true;
}

static void next_id(struct rew_emit_batch *slot)
{
    slot->lookup++;
    if (slot->lookup < slot->row.count) {
        take_step(slot, REW_EMIT_LOOKUP);
        return;
    }
    slot->row.state = REW_BATCH_DONE;
    take_step(slot, REW_EMIT_DONE);
}

static void note(struct rew_emit_batch *slot, const struct lc_done *done)
{
    RON_ASSERT(done != NULL);
    slot->row.state = REW_BATCH_DONE;
    slot->row.seq_first = done->seq_first;
    slot->row.seq_last = done->seq_last;
    slot->row.commit_ms = done->commit_ms;
    take_step(slot, REW_EMIT_DONE);
}

/* Whether the slot goes on; false: the settlement is refused. */
static bool act(struct rew_emit_batch *slot, enum action action, const struct lc_done *done)
{
    switch (action) {
    case NOTE:
        note(slot, done);
        return true;
    case LOOK:
        take_step(slot, REW_EMIT_LOOKUP);
        return true;
    case NEXT_ID:
        next_id(slot);
        return true;
    case MISSING_ID:
        return missing_id(slot);
    case COMMITTED:
        /* In doubt: the key is another batch's, as the entries are not there. */
        slot->committed = true;
        take_step(slot, REW_EMIT_SEND);
        return !slot->doubted;
    case FORGOTTEN:
        /* In doubt: neither the key nor the first id is known, yet the batch was refused. */
        take_step(slot, REW_EMIT_CANCEL);
        return !slot->doubted;
    case STAMP:
        take_step(slot, REW_EMIT_STAMP);
        return true;
    case AGAIN:
    case REFUSE:
    case NO_SENSE:
    default:
        return false;
    }
}

void rew_emit_word(struct rew_emit *e, struct rew_emit_batch *slot, enum rew_emit_word word,
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
    if (has_ended(e) && slot->used && slot->step != REW_EMIT_DONE) {
        set_free(e, slot);
    }
}

void rew_emit_stamped(struct rew_emit *e, struct rew_emit_batch *slot, uint64_t ts_ms,
                      uint32_t attempt)
{
    RON_ASSERT(slot->used && slot->busy && slot->step == REW_EMIT_STAMP);
    slot->busy = false;
    slot->row.ts_ms = ts_ms;
    slot->row.attempt = attempt;
    slot->committed = false;
    slot->doubted = false;
    take_step(slot, REW_EMIT_SEND);
    if (has_ended(e)) {
        set_free(e, slot);
    }
}

void rew_emit_noted(struct rew_emit *e, struct rew_emit_batch *slot)
{
    RON_ASSERT(slot->used && slot->busy && slot->step == REW_EMIT_DONE);
    set_free(e, slot);
}

bool rew_emit_idle(const struct rew_emit *e)
{
    return e->slot_count == 0;
}

enum rew_emit_word rew_emit_refusal(enum rew_emit_step step, const struct lc_refusal *refusal)
{
    switch (refusal->reason) {
    case LC_REASON_BUSY:
    case LC_REASON_TIMEOUT:
    case LC_REASON_SAFE_MODE:
    case LC_REASON_DRAINING:
    case LC_REASON_NOT_LEADER:
    case LC_REASON_INTERNAL: /* a fault of the ledger's is no verdict on the batch */
    case LC_REASON_INSUFFICIENT_FUNDS:
        return REW_WORD_LATER;
    case LC_REASON_CONFLICT:
    case LC_REASON_IDEM_MISMATCH:
        return REW_WORD_OTHER_BODY;
    case LC_REASON_NOT_FOUND:
        return step == REW_EMIT_LOOKUP ? REW_WORD_UNKNOWN_ID : REW_WORD_REFUSED;
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
        return refusal->retryable ? REW_WORD_LATER : REW_WORD_REFUSED;
    }
}
