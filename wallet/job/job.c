/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/job/job.c - the machine of a write: its questions and tries, the ledger's word, the end.
 *
 * Place: wallet; see job.h for the picture and the rules. Whoever changes a state here looks at
 * check.c (before the batch leaves) and word.c (what answers mean).
 *
 *     state      entered by        left by
 *     NONCE..FUNDS  run_checks     wlt__checks_answered
 *     TURN       run_checks        wlt_job_waited
 *     BATCH      send_batch        batch_answered
 *     OUTCOME    look              outcome_answered
 *     PLACE      outcome_answered  place_answered
 *     EXPECT     nonce_refused     expect_answered
 *     OVER       end               wlt_job_begin
 * Every state but OVER has one question under way, or waits to ask it again. */
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "wallet/job/priv.h"

enum {
    DAY_MS = 24 * 3600 * 1000,
    /* A batch of 1024 operations with the longest of everything takes some 1.2 MiB. */
    PAYLOAD_MAX = 2 << 20,
    /* What a job brings along from the call before: a few hundred jobs wait in a worker, and large
     * batches are rare. */
    PAYLOAD_KEEP = 16 << 10,
    ROOM_KEEP_OPS = 64,
    /* Between two looks whether the debits of an account have been read: most take one page, of a
     * few milliseconds. */
    TURN_NS = 10 * 1000 * 1000,
};

void wlt_job_init(struct wlt_job *job)
{
    *job = (struct wlt_job){0};
    ron_buf_init(&job->payload, PAYLOAD_MAX);
}

void wlt_job_done(struct wlt_job *job)
{
    RON_ASSERT(job->_state == WLT__OVER);
    ron_buf_done(&job->payload);
    ron_free(job->_holds.room);
    job->_holds.room = NULL;
    job->_holds.room_ops = 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

static struct ron_str idem_id_of(const struct wlt_job *job)
{
    return (struct ron_str){job->call->idem_id, strlen(job->call->idem_id)};
}

static void let_go_of_memory(struct wlt_job *job)
{
    if (job->payload.cap > PAYLOAD_KEEP) {
        ron_buf_done(&job->payload);
        ron_buf_init(&job->payload, PAYLOAD_MAX);
    }
    if (job->_holds.room_ops > ROOM_KEEP_OPS) {
        ron_free(job->_holds.room);
        job->_holds.room = NULL;
        job->_holds.room_ops = 0;
    }
    job->_holds.at = NULL;
    job->_holds.heads = NULL;
}

/* J1: no operation holds a nonce or a sum. */
static bool is_settled(const struct wlt_job *job)
{
    for (uint32_t i = 0; job->_holds.at != NULL && i < job->call->count; i++) {
        if (job->_holds.at[i].nonce_held || job->_holds.at[i].daily_held) {
            return false;
        }
    }
    return true;
}

/* Nothing but the key is reserved any more. The payload stays: an aborted call may still send
 * it. */
static enum wlt_step end(struct wlt_core *core, struct wlt_job *job, uint64_t now_ns)
{
    RON_ASSERT_MSG(!job->_admitted, "J5: a call was reported to its breaker");
    RON_ASSERT_SLOW(is_settled(job));
    if (job->_key_held) {
        job->_key_held = false;
        if (job->fault.reason == WLT_REASON_NONE) {
            wlt_idem_finish(core->idem, job->_key, ron_buf_data(job->out), ron_buf_len(job->out),
                            now_ns / RON_NS_PER_MS);
        } else {
            wlt_idem_abandon(core->idem, job->_key);
        }
    }
    job->_state = WLT__OVER;
    return WLT_STEP_ANSWER;
}

static enum wlt_step end_with(struct wlt_core *core, struct wlt_job *job, enum wlt_reason reason,
                              const char *detail, uint64_t now_ns)
{
    wlt_fault_set(&job->fault, reason, "", detail);
    return end(core, job, now_ns);
}

/* It is in the journal: the receipt follows from the call and job->done. */
static enum wlt_step end_done(struct wlt_core *core, struct wlt_job *job, uint64_t now_ns)
{
    job->fault = (struct wlt_fault){0};
    wlt_call_answer(job->call, &job->done, job->out);
    if (ron_buf_error(job->out) != RON_OK) {
        return end_with(core, job, WLT_REASON_INTERNAL,
                        "committed, but out of memory for the receipt; retry with the same key",
                        now_ns);
    }
    return end(core, job, now_ns);
}

/* ---- questions and tries --------------------------------------------------------------------- */

/* The question cannot be answered now. */
static enum wlt_step give_up(struct wlt_core *core, struct wlt_job *job, uint64_t now_ns)
{
    bool sent = job->_state == WLT__BATCH && job->_lost;

    wlt__settle(core, job, sent || job->_mismatch ? WLT_UNKNOWN : WLT_REFUSED,
                sent ? WLT_UNKNOWN : WLT_REFUSED);
    if (job->_sure) {
        return end(core, job, now_ns);
    }
    return end_with(core, job, job->_silent ? WLT_REASON_TIMEOUT : WLT_REASON_UPSTREAM, NULL,
                    now_ns);
}

static enum wlt_step try_once(struct wlt_core *core, struct wlt_job *job, uint64_t now_ns)
{
    if (ron_buf_error(&job->payload) != RON_OK) {
        wlt__settle(core, job, WLT_REFUSED, WLT_REFUSED);
        return end_with(core, job, WLT_REASON_BUSY, "out of memory for the request", now_ns);
    }
    if (now_ns >= job->deadline_ns) {
        job->_silent = true;
        return give_up(core, job, now_ns);
    }
    job->which = lc_ledgers_now(core->ledgers);
    if (ron_breaker_admit(&core->ledgers->of[job->which].breaker, &job->_breaker, NULL) != RON_OK) {
        return give_up(core, job, now_ns);
    }
    RON_ASSERT_MSG(job->which < core->ledgers->count, "a call goes to one of the ledgers");
    job->_admitted = true;
    job->_sent_ms = now_ns / RON_NS_PER_MS;
    job->until_ns =
        RON_MIN(ron_sat_add_u64(now_ns, core->rpc_ms * RON_NS_PER_MS), job->deadline_ns);
    return WLT_STEP_SEND;
}

/* A new question: _state and payload are set. */
static enum wlt_step ask(struct wlt_core *core, struct wlt_job *job, uint64_t now_ns)
{
    RON_ASSERT_MSG(!job->_admitted, "one question at a time");
    job->code = job->_state == WLT__BATCH ? LC_CODE_INGEST : LC_CODE_READ;
    job->_silent = false;
    job->_retry = (struct ron_retry){.curve = &core->curve,
                                     .rand = job->rand,
                                     .stats = &core->retries,
                                     .deadline = {job->deadline_ns},
                                     .idempotent = true};
    return try_once(core, job, now_ns);
}

static void report(struct wlt_core *core, struct wlt_job *job, enum ron_call_result result)
{
    if (job->_admitted) {
        job->_admitted = false;
        ron_breaker_report(&core->ledgers->of[job->which].breaker, job->_breaker, result);
    }
}

/* No usable answer: once more, if tries and deadline allow it. */
static enum wlt_step again(struct wlt_core *core, struct wlt_job *job, bool silent, uint64_t now_ns)
{
    struct ron_attempt attempt = {.rc = silent ? RON_TIMEOUT : RON_AGAIN};
    uint64_t wait_ns = 0;

    if (ron_retry_next(&job->_retry, &attempt, now_ns, &wait_ns) != RON_VERDICT_AGAIN) {
        return give_up(core, job, now_ns);
    }
    job->until_ns = ron_sat_add_u64(now_ns, wait_ns);
    return WLT_STEP_WAIT;
}

/* ---- what became of the key ------------------------------------------------------------------ */

/* `fault` holds if the key was never committed. */
static enum wlt_step look(struct wlt_core *core, struct wlt_job *job, uint64_t now_ns)
{
    job->_state = WLT__OUTCOME;
    ron_buf_clear(&job->payload);
    lc_target_outcome(&job->payload, idem_id_of(job));
    return ask(core, job, now_ns);
}

static enum wlt_step refused(struct wlt_core *core, struct wlt_job *job, uint64_t now_ns)
{
    wlt__settle(core, job, WLT_REFUSED, WLT_REFUSED);
    return end(core, job, now_ns);
}

static enum wlt_step refused_for(struct wlt_core *core, struct wlt_job *job, enum wlt_reason reason,
                                 uint64_t now_ns)
{
    wlt_fault_set(&job->fault, reason, "", NULL);
    return refused(core, job, now_ns);
}

static enum wlt_step outcome_answered(struct wlt_core *core, struct wlt_job *job,
                                      const struct wlt__word *word, uint64_t now_ns)
{
    switch (word->outcome.outcome) {
    case LC_COMMITTED:
        job->done = word->outcome.done;
        job->_mismatch = true;
        job->_sure = false;
        job->_state = WLT__PLACE;
        ron_buf_clear(&job->payload);
        lc_target_by_id(&job->payload, (struct ron_str){job->call->ops[0].txid, WLT_TXID_LEN});
        return ask(core, job, now_ns);
    case LC_CANCELLED:
        return refused_for(core, job, WLT_REASON_CANCELLED, now_ns);
    case LC_IN_FLIGHT:
        return refused_for(core, job, WLT_REASON_IN_PROGRESS, now_ns);
    case LC_NEVER_SEEN:
        break;
    }
    return refused(core, job, now_ns);
}

/* The txid commits to the whole request: where it stands under this key, the request does. Its
 * nonce and its sum were counted with the request that was first; of what this one has reserved,
 * the nonce is asked for again and the sum given back. */
static enum wlt_step place_answered(struct wlt_core *core, struct wlt_job *job,
                                    const struct wlt__word *word, uint64_t now_ns)
{
    struct ron_str idem_id = idem_id_of(job);

    if (word->absent || word->place.idem_id.len != idem_id.len ||
        memcmp(word->place.idem_id.ptr, idem_id.ptr, idem_id.len) != 0 ||
        word->place.seq != job->done.seq_first) {
        return refused_for(core, job, WLT_REASON_IDEM, now_ns);
    }
    wlt__settle(core, job, WLT_UNKNOWN, WLT_REFUSED);
    job->replayed = true;
    return end_done(core, job, now_ns);
}

/* ---- the batch ------------------------------------------------------------------------------- */

static enum wlt_step send_batch(struct wlt_core *core, struct wlt_job *job, uint64_t now_ns)
{
    struct wlt_seal seal = {.ts_ms = ron_env_wall_ms(core->env),
                            .kid = job->kid,
                            .capability_ref = job->capability_ref};

    if (job->call->dry_run) {
        wlt__settle(core, job, WLT_REFUSED, WLT_REFUSED);
    }
    job->_state = WLT__BATCH;
    ron_buf_clear(&job->payload);
    wlt_call_encode(job->call, &seal, &job->payload);
    return ask(core, job, now_ns);
}

static void touched(struct wlt_core *core, const struct wlt_job *job)
{
    uint64_t true_ms = ron_au64_load(&core->fresh_ms);

    for (uint32_t i = 0; i < job->call->count; i++) {
        const struct wlt_operation *o = &job->call->ops[i];
        const struct wlt_hold *h = &job->_holds.at[i];

        if (o->from.len > 0) {
            wlt_cache_changed(core->cache, h->from, job->done.seq_last, true_ms);
        }
        if (o->to.len > 0) {
            wlt_cache_changed(core->cache, h->to, job->done.seq_last, true_ms);
        }
    }
}

static enum wlt_step committed(struct wlt_core *core, struct wlt_job *job, uint64_t now_ns)
{
    wlt__expect(core, job);
    /* A repetition of this job's own bytes is its first answer; of others, counted with them. */
    job->replayed = job->done.replayed && !job->_lost;
    wlt__settle(core, job, job->replayed ? WLT_UNKNOWN : WLT_COMMITTED,
                job->replayed ? WLT_REFUSED : WLT_COMMITTED);
    if (!job->done.dry_run) {
        touched(core, job);
    }
    return end_done(core, job, now_ns);
}

/* The account is asked for the number that it expects, for whoever reads the answer. */
static enum wlt_step nonce_refused(struct wlt_core *core, struct wlt_job *job, uint32_t idx,
                                   uint64_t now_ns)
{
    wlt__settle(core, job, WLT_REFUSED, WLT_REFUSED);
    job->_at = RON_MIN(idx, job->call->count - 1);
    wlt_nonce_forget(core->nonces, job->_holds.at[job->_at].from);
    job->_sure = true;
    job->_state = WLT__EXPECT;
    ron_buf_clear(&job->payload);
    lc_target_account(&job->payload, job->call->ops[job->_at].from);
    return ask(core, job, now_ns);
}

static enum wlt_step expect_answered(struct wlt_core *core, struct wlt_job *job,
                                     const struct wlt__word *word, uint64_t now_ns)
{
    uint64_t last = word->absent ? 0 : word->account.nonce;
    const struct wlt_operation *o = &job->call->ops[job->_at];
    char detail[96];

    (void)snprintf(detail, sizeof detail, "expected %llu, got %llu", (unsigned long long)last + 1,
                   (unsigned long long)o->nonce);
    wlt_fault_set(&job->fault, WLT_REASON_NONCE, "nonce", detail);
    if (!word->absent) {
        const struct wlt_hold *h = &job->_holds.at[job->_at];

        wlt__put_balance(core, job, h->from, h->from_pair, &word->account);
    }
    return end(core, job, now_ns);
}

static enum wlt_step batch_answered(struct wlt_core *core, struct wlt_job *job,
                                    const struct wlt__word *word, uint64_t now_ns)
{
    enum lc_reason reason = word->refusal.reason;

    if (word->tone == WLT__GOOD) {
        job->done = word->done;
        return committed(core, job, now_ns);
    }
    wlt_fault_set(&job->fault, wlt__reason_of(reason), "", word->refusal.message);
    if (reason == LC_REASON_IDEM_MISMATCH) {
        /* Whatever is under this key, an earlier try of this job is not, and cannot be any more. */
        wlt_fault_set(&job->fault, WLT_REASON_IDEM, "", NULL);
        job->_mismatch = true;
        return look(core, job, now_ns);
    }
    if (job->_lost) {
        job->_silent = true;
        return give_up(core, job, now_ns); /* J2 */
    }
    if (reason == LC_REASON_NONCE_CONFLICT) {
        return nonce_refused(core, job, word->refusal.idx, now_ns);
    }
    if (reason == LC_REASON_CONFLICT) {
        job->_sure = true;
        return look(core, job, now_ns);
    }
    return refused(core, job, now_ns);
}

/* ---- driven ---------------------------------------------------------------------------------- */

static enum wlt_step after_checks(struct wlt_core *core, struct wlt_job *job, enum wlt__go go,
                                  uint64_t now_ns)
{
    switch (go) {
    case WLT__GO_READ:
        return ask(core, job, now_ns);
    case WLT__GO_WAIT:
        job->until_ns = RON_MIN(ron_sat_add_u64(now_ns, TURN_NS), job->deadline_ns);
        return WLT_STEP_WAIT;
    case WLT__GO_REFUSE:
        return look(core, job, now_ns); /* J7 */
    case WLT__GO_ANSWER:
        return refused(core, job, now_ns);
    case WLT__GO_ON:
        break;
    }
    return send_batch(core, job, now_ns);
}

static void reset(struct wlt_core *core, struct wlt_job *job, uint64_t now_ns)
{
    job->fault = (struct wlt_fault){0};
    job->replayed = false;
    job->done = (struct lc_done){0};
    job->_key_held = false;
    job->_admitted = false;
    job->_lost = false;
    job->_silent = false;
    job->_sure = false;
    job->_mismatch = false;
    job->_at = 0;
    job->_day = (uint32_t)(ron_env_wall_ms(core->env) / DAY_MS);
    job->_begun_ms = now_ns / RON_NS_PER_MS;
}

/* True: the key is ours. */
static bool take_key(struct wlt_core *core, struct wlt_job *job, uint64_t now_ns)
{
    static const enum wlt_reason reasons[] = {
        [WLT_IDEM_FIRST] = WLT_REASON_NONE,          [WLT_IDEM_REPLAY] = WLT_REASON_NONE,
        [WLT_IDEM_PENDING] = WLT_REASON_IN_PROGRESS, [WLT_IDEM_CONFLICT] = WLT_REASON_IDEM,
        [WLT_IDEM_FULL] = WLT_REASON_BUSY,
    };
    enum wlt_idem_verdict verdict;

    job->_key = wlt_key_of(&core->secret, WLT_KEY_IDEM, idem_id_of(job), (struct ron_str){"", 0});
    verdict = wlt_idem_begin(core->idem, job->_key, job->call->fingerprint, now_ns / RON_NS_PER_MS,
                             job->out);
    job->_key_held = verdict == WLT_IDEM_FIRST;
    job->replayed = verdict == WLT_IDEM_REPLAY;
    if (reasons[verdict] != WLT_REASON_NONE) {
        wlt_fault_set(&job->fault, reasons[verdict], "", NULL);
    } else if (job->replayed && ron_buf_error(job->out) != RON_OK) {
        wlt_fault_set(&job->fault, WLT_REASON_BUSY, "", "out of memory for the receipt");
    }
    return job->_key_held;
}

enum wlt_step wlt_job_begin(struct wlt_core *core, struct wlt_job *job, uint64_t now_ns)
{
    RON_ASSERT_MSG(job->_state == WLT__OVER, "a job begins after the one before it ended");
    RON_ASSERT(job->call->count > 0);
    RON_ASSERT(!job->_key_held);
    let_go_of_memory(job);
    reset(core, job, now_ns);
    if (!job->call->dry_run && !take_key(core, job, now_ns)) {
        /* A request that has the key in our table may have lost it in the ledger to this one: the
         * table forgets, and its entry may be of a job that is still to learn that. */
        return job->fault.reason == WLT_REASON_IDEM ? look(core, job, now_ns) : WLT_STEP_ANSWER;
    }
    if (!wlt__checks_begin(core, job)) {
        return end_with(core, job, WLT_REASON_BUSY, "out of memory for the request", now_ns);
    }
    return after_checks(core, job, wlt__checks(core, job), now_ns);
}

/* What an answer, or its absence, says about the ledger (J5). */
static enum ron_call_result result_of(const struct wlt_job *job, const struct wlt_reply *reply,
                                      const struct wlt__word *word)
{
    bool cut = reply->kind != WLT_REPLY_ANSWERED && job->until_ns == job->deadline_ns;

    if (word->busy || word->elsewhere || cut) {
        return RON_CALL_VOID;
    }
    return word->tone == WLT__GOOD || word->tone == WLT__NO ? RON_CALL_SUCCESS : RON_CALL_FAILURE;
}

enum wlt_step wlt_job_answered(struct wlt_core *core, struct wlt_job *job,
                               const struct wlt_reply *reply, uint64_t now_ns)
{
    struct wlt__word word;

    RON_ASSERT_MSG(job->_state != WLT__OVER, "an answer to a job that is over");
    RON_ASSERT_MSG(job->_admitted, "an answer without a question");
    wlt__word_read(job, reply, &word);
    report(core, job, result_of(job, reply, &word));
    if (word.elsewhere) {
        RON_IGNORE(lc_ledgers_refused(core->ledgers, job->which, word.refusal.leader));
    }
    job->_silent = job->_silent || word.tone == WLT__SILENT;
    job->_lost = job->_lost || (job->_state == WLT__BATCH && word.lost);
    if (word.tone == WLT__LATER || word.tone == WLT__SILENT) {
        return again(core, job, word.tone == WLT__SILENT, now_ns);
    }
    if (job->_state == WLT__BATCH) {
        return batch_answered(core, job, &word, now_ns);
    }
    if (word.tone == WLT__NO) {
        return give_up(core, job, now_ns); /* A read that the ledger does not allow us. */
    }
    switch ((enum wlt__state)job->_state) {
    case WLT__OUTCOME:
        return outcome_answered(core, job, &word, now_ns);
    case WLT__PLACE:
        return place_answered(core, job, &word, now_ns);
    case WLT__EXPECT:
        return expect_answered(core, job, &word, now_ns);
    case WLT__NONCE:
    case WLT__TURN:
    case WLT__DEBITS:
    case WLT__TOTAL:
    case WLT__FUNDS:
    case WLT__BATCH:
    case WLT__OVER:
        break;
    }
    return after_checks(core, job, wlt__checks_answered(core, job, &word), now_ns);
}

enum wlt_step wlt_job_waited(struct wlt_core *core, struct wlt_job *job, uint64_t now_ns)
{
    RON_ASSERT_MSG(job->_state != WLT__OVER, "a job that is over does not wait");
    RON_ASSERT_MSG(!job->_admitted, "a job waits for a time or for an answer");
    if (job->_state == WLT__TURN && now_ns < job->deadline_ns) {
        return after_checks(core, job, wlt__checks(core, job), now_ns);
    }
    return try_once(core, job, now_ns);
}

void wlt_job_abort(struct wlt_core *core, struct wlt_job *job, enum wlt_reason reason)
{
    if (job->_state == WLT__OVER) {
        return;
    }
    if (job->_state == WLT__BATCH) {
        job->_lost = job->_lost || job->_admitted; /* under way */
    } else {
        job->_lost = false; /* the ledger has said what became of the batch, or it never left */
    }
    report(core, job, RON_CALL_VOID);
    wlt__settle(core, job, job->_lost || job->_mismatch ? WLT_UNKNOWN : WLT_REFUSED,
                job->_lost ? WLT_UNKNOWN : WLT_REFUSED);
    (void)end_with(core, job, reason, NULL, 0);
}
