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
    enum wlt__tone tone;
    bool lost;
    enum wlt_reason reason;
} words[LC_REASON_COUNT] = {
#define X(name, tone_, lost_, reason_)                                                             \
    [LC_REASON_##name] = {WLT__##tone_, lost_, WLT_REASON_##reason_},
    WORDS(X)
#undef X
};

enum wlt_reason wlt__reason_of(enum lc_reason reason)
{
    return words[reason].reason;
}

static enum ron_rc read_good(const struct wlt_job *job, const struct wlt_reply *reply,
                             struct wlt__word *w)
{
    const struct wlt_operation *o = &job->call->ops[RON_MIN(job->_at, job->call->count - 1)];

    switch ((enum wlt__state)job->_state) {
    case WLT__BATCH:
        return lc_done_read(reply->bytes, reply->len, &w->done);
    case WLT__NONCE:
    case WLT__TOTAL:
    case WLT__FUNDS:
    case WLT__EXPECT:
        return lc_account_read(reply->bytes, reply->len, o->asset, &w->account);
    case WLT__DEBITS:
        return lc_debits_read(reply->bytes, reply->len, &w->debits);
    case WLT__OUTCOME:
        return lc_outcome_read(reply->bytes, reply->len, &w->outcome);
    case WLT__PLACE:
        return lc_place_read(reply->bytes, reply->len, &w->place);
    case WLT__TURN:
    case WLT__OVER:
        break;
    }
    return RON_INVALID;
}

void wlt__word_read(const struct wlt_job *job, const struct wlt_reply *reply, struct wlt__word *w)
{
    *w = (struct wlt__word){.tone = WLT__LATER};
    if (reply->kind != WLT_REPLY_ANSWERED) {
        w->lost = reply->kind == WLT_REPLY_UNKNOWN;
        w->busy = reply->busy;
        w->tone = w->lost ? WLT__SILENT : WLT__LATER;
        return;
    }
    if (reply->status == 200) {
        w->tone = read_good(job, reply, w) == RON_OK ? WLT__GOOD : WLT__LATER;
        w->lost = w->tone != WLT__GOOD;
        return;
    }
    /* Of an outcome the ledger says 200 and "unknown" when there is none: a 404 is no such word. */
    if (reply->status == 404 && job->_state != WLT__BATCH && job->_state != WLT__OUTCOME) {
        w->tone = WLT__GOOD;
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
