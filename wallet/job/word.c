/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/job/word.c - what the ledger's answers mean to a job: understood, refused for good, worth
 * another try, or no answer; and whether the batch may have had an effect all the same.
 *
 * Place: wallet; pure. An answer that cannot be read is no answer: what it stood for is not
 * known. */
#include "wallet/job/priv.h"

/* X(ledger's reason, tone, may have had an effect, wallet's reason of a definite refusal).
 * SAFE_MODE is also the answer to a batch whose sync failed, and DRAINING, TIMEOUT and INTERNAL do
 * not say how far it came: only what is refused before the sequencer, or by it, is definite. */
#define WORDS(X)                                                                                   \
    X(OTHER, LATER, true, UPSTREAM)                                                                \
    X(UNAUTH, NO, false, UPSTREAM)                                                                 \
    X(CAP_INVALID, NO, false, POLICY)                                                              \
    X(UNKNOWN_KIND, NO, false, BAD_REQUEST)                                                        \
    X(POLICY_DENIED, NO, false, POLICY)                                                            \
    X(BUSY, LATER, false, UPSTREAM)                                                                \
    X(TOO_LARGE, NO, false, LIMITS)                                                                \
    X(TIMEOUT, SILENT, true, TIMEOUT)                                                              \
    X(INTERNAL, LATER, true, UPSTREAM)                                                             \
    X(INVALID, NO, false, BAD_REQUEST)                                                             \
    X(CONFLICT, NO, false, CONFLICT)                                                               \
    X(INSUFFICIENT_FUNDS, NO, false, FUNDS)                                                        \
    X(NONCE_CONFLICT, NO, false, NONCE)                                                            \
    X(IDEM_MISMATCH, NO, false, IDEM)                                                              \
    X(NOT_FOUND, NO, false, NOT_FOUND)                                                             \
    X(SAFE_MODE, LATER, true, UPSTREAM)                                                            \
    X(DRAINING, LATER, true, UPSTREAM)                                                             \
    X(NOT_LEADER, LATER, false, UPSTREAM)

static const struct {
    enum wal__tone tone;
    bool lost;
    enum wal_reason reason;
} words[LC_REASON_COUNT] = {
#define X(name, tone_, lost_, reason_)                                                             \
    [LC_REASON_##name] = {WAL__##tone_, lost_, WAL_REASON_##reason_},
    WORDS(X)
#undef X
};

enum wal_reason wal__reason_of(enum lc_reason reason)
{
    return words[reason].reason;
}

static enum ron_rc read_good(const struct wal_job *job, const struct wal_reply *reply,
                             struct wal__word *w)
{
    const struct wal_operation *o = &job->call->ops[RON_MIN(job->_at, job->call->count - 1)];

    switch ((enum wal__state)job->_state) {
    case WAL__BATCH:
        return lc_done_read(reply->bytes, reply->len, &w->done);
    case WAL__NONCE:
    case WAL__TOTAL:
    case WAL__FUNDS:
    case WAL__EXPECT:
        return lc_account_read(reply->bytes, reply->len, o->asset, &w->account);
    case WAL__DEBITS:
        return lc_debits_read(reply->bytes, reply->len, &w->debits);
    case WAL__OUTCOME:
        return lc_outcome_read(reply->bytes, reply->len, &w->outcome);
    case WAL__PLACE:
        return lc_place_read(reply->bytes, reply->len, &w->place);
    case WAL__TURN:
    case WAL__OVER:
        break;
    }
    return RON_INVALID;
}

void wal__word_read(const struct wal_job *job, const struct wal_reply *reply, struct wal__word *w)
{
    *w = (struct wal__word){.tone = WAL__LATER};
    if (reply->kind != WAL_REPLY_ANSWERED) {
        w->lost = reply->kind == WAL_REPLY_UNKNOWN;
        w->busy = reply->busy;
        w->tone = w->lost ? WAL__SILENT : WAL__LATER;
        return;
    }
    if (reply->status == 200) {
        w->tone = read_good(job, reply, w) == RON_OK ? WAL__GOOD : WAL__LATER;
        w->lost = w->tone != WAL__GOOD;
        return;
    }
    /* Of an outcome the ledger says 200 and "unknown" when there is none: a 404 is no such word. */
    if (reply->status == 404 && job->_state != WAL__BATCH && job->_state != WAL__OUTCOME) {
        w->tone = WAL__GOOD;
        w->absent = true;
        return;
    }
    if (lc_refusal_read(reply->bytes, reply->len, &w->refusal) != RON_OK) {
        w->lost = true;
        return;
    }
    w->tone = words[w->refusal.reason].tone;
    w->lost = words[w->refusal.reason].lost;
    w->busy = w->refusal.reason == LC_REASON_BUSY;
    w->elsewhere = w->refusal.reason == LC_REASON_NOT_LEADER;
}
