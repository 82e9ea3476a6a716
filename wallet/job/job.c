/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/job/job.c - the machine of a write: its questions and tries, the ledger's word, the end.
 *
 * Place: wallet; see job.h for the picture and the rules. Whoever changes a state here looks at
 * check.c (before the batch leaves) and word.c (what answers mean).
 *
 *     state      entered by        left by
 *     NONCE..FUNDS  run_checks     wal__checks_answered
 *     TURN       run_checks        wal_job_waited
 *     BATCH      send_batch        batch_answered
 *     OUTCOME    look              outcome_answered
 *     PLACE      outcome_answered  place_answered
 *     EXPECT     nonce_refused     expect_answered
 *     OVER       end               wal_job_begin
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

void wal_job_init(struct wal_job *job)
{
    *job = (struct wal_job){0};
    ron_buf_init(&job->payload, PAYLOAD_MAX);
}

void wal_job_done(struct wal_job *job)
{
    RON_ASSERT(job->_state == WAL__OVER);
    ron_buf_done(&job->payload);
    ron_free(job->_room);
    job->_room = NULL;
    job->_room_ops = 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

static struct ron_str idem_id_of(const struct wal_job *job)
{
    return (struct ron_str){job->call->idem_id, strlen(job->call->idem_id)};
}

static void let_go_of_memory(struct wal_job *job)
{
    if (job->payload.cap > PAYLOAD_KEEP) {
        ron_buf_done(&job->payload);
        ron_buf_init(&job->payload, PAYLOAD_MAX);
    }
    if (job->_room_ops > ROOM_KEEP_OPS) {
        ron_free(job->_room);
        job->_room = NULL;
        job->_room_ops = 0;
    }
    job->_holds = NULL;
    job->_heads = NULL;
}

/* Nothing but the key is reserved any more. The payload stays: an aborted call may still send
 * it. */
static enum wal_step end(struct wal_core *core, struct wal_job *job, uint64_t now_ns)
{
    if (job->_key_held) {
        job->_key_held = false;
        if (job->fault.reason == WAL_REASON_NONE) {
            wal_idem_finish(core->idem, job->_key, ron_buf_data(job->out), ron_buf_len(job->out),
                            now_ns / RON_NS_PER_MS);
        } else {
            wal_idem_abandon(core->idem, job->_key);
        }
    }
    job->_state = WAL__OVER;
    return WAL_STEP_ANSWER;
}

static enum wal_step end_with(struct wal_core *core, struct wal_job *job, enum wal_reason reason,
                              const char *detail, uint64_t now_ns)
{
    wal_fault_set(&job->fault, reason, "", detail);
    return end(core, job, now_ns);
}

/* It is in the journal: the receipt follows from the call and job->done. */
static enum wal_step end_done(struct wal_core *core, struct wal_job *job, uint64_t now_ns)
{
    job->fault = (struct wal_fault){0};
    wal_call_answer(job->call, &job->done, job->out);
    if (ron_buf_error(job->out) != RON_OK) {
        return end_with(core, job, WAL_REASON_INTERNAL,
                        "committed, but there is no memory for the receipt; ask for it again",
                        now_ns);
    }
    return end(core, job, now_ns);
}

/* ---- questions and tries --------------------------------------------------------------------- */

/* The question cannot be answered now. */
static enum wal_step give_up(struct wal_core *core, struct wal_job *job, uint64_t now_ns)
{
    bool sent = job->_state == WAL__BATCH && job->_lost;

    wal__settle(core, job, sent || job->_mismatch ? WAL_UNKNOWN : WAL_REFUSED,
                sent ? WAL_UNKNOWN : WAL_REFUSED);
    if (job->_sure) {
        return end(core, job, now_ns);
    }
    return end_with(core, job, job->_silent ? WAL_REASON_TIMEOUT : WAL_REASON_UPSTREAM, NULL,
                    now_ns);
}

static enum wal_step try_once(struct wal_core *core, struct wal_job *job, uint64_t now_ns)
{
    if (ron_buf_error(&job->payload) != RON_OK) {
        wal__settle(core, job, WAL_REFUSED, WAL_REFUSED);
        return end_with(core, job, WAL_REASON_BUSY, "no memory for the request", now_ns);
    }
    if (now_ns >= job->deadline_ns) {
        job->_silent = true;
        return give_up(core, job, now_ns);
    }
    job->which = lc_ledgers_now(core->ledgers);
    if (ron_breaker_admit(&core->ledgers->of[job->which].breaker, &job->_breaker, NULL) != RON_OK) {
        return give_up(core, job, now_ns);
    }
    job->_admitted = true;
    job->_sent_ms = now_ns / RON_NS_PER_MS;
    job->until_ns =
        RON_MIN(ron_sat_add_u64(now_ns, core->rpc_ms * RON_NS_PER_MS), job->deadline_ns);
    return WAL_STEP_SEND;
}

/* A new question: _state and payload are set. */
static enum wal_step ask(struct wal_core *core, struct wal_job *job, uint64_t now_ns)
{
    job->code = job->_state == WAL__BATCH ? LC_CODE_INGEST : LC_CODE_READ;
    job->_silent = false;
    job->_retry = (struct ron_retry){.curve = &core->curve,
                                     .rand = job->rand,
                                     .stats = &core->retries,
                                     .deadline = {job->deadline_ns},
                                     .idempotent = true};
    return try_once(core, job, now_ns);
}

static void report(struct wal_core *core, struct wal_job *job, enum ron_call_result result)
{
    if (job->_admitted) {
        job->_admitted = false;
        ron_breaker_report(&core->ledgers->of[job->which].breaker, job->_breaker, result);
    }
}

/* No usable answer: once more, if tries and deadline allow it. */
static enum wal_step again(struct wal_core *core, struct wal_job *job, bool silent, uint64_t now_ns)
{
    struct ron_attempt attempt = {.rc = silent ? RON_TIMEOUT : RON_AGAIN};
    uint64_t wait_ns = 0;

    if (ron_retry_next(&job->_retry, &attempt, now_ns, &wait_ns) != RON_VERDICT_AGAIN) {
        return give_up(core, job, now_ns);
    }
    job->until_ns = ron_sat_add_u64(now_ns, wait_ns);
    return WAL_STEP_WAIT;
}

/* ---- what became of the key ------------------------------------------------------------------ */

/* `fault` holds if the key was never committed. */
static enum wal_step look(struct wal_core *core, struct wal_job *job, uint64_t now_ns)
{
    job->_state = WAL__OUTCOME;
    ron_buf_clear(&job->payload);
    lc_target_outcome(&job->payload, idem_id_of(job));
    return ask(core, job, now_ns);
}

static enum wal_step refused(struct wal_core *core, struct wal_job *job, uint64_t now_ns)
{
    wal__settle(core, job, WAL_REFUSED, WAL_REFUSED);
    return end(core, job, now_ns);
}

static enum wal_step refused_for(struct wal_core *core, struct wal_job *job, enum wal_reason reason,
                                 uint64_t now_ns)
{
    wal_fault_set(&job->fault, reason, "", NULL);
    return refused(core, job, now_ns);
}

static enum wal_step outcome_answered(struct wal_core *core, struct wal_job *job,
                                      const struct wal__word *word, uint64_t now_ns)
{
    switch (word->outcome.outcome) {
    case LC_COMMITTED:
        job->done = word->outcome.done;
        job->_mismatch = true;
        job->_sure = false;
        job->_state = WAL__PLACE;
        ron_buf_clear(&job->payload);
        lc_target_by_id(&job->payload, (struct ron_str){job->call->ops[0].txid, WAL_TXID_LEN});
        return ask(core, job, now_ns);
    case LC_CANCELLED:
        return refused_for(core, job, WAL_REASON_CANCELLED, now_ns);
    case LC_IN_FLIGHT:
        return refused_for(core, job, WAL_REASON_IN_PROGRESS, now_ns);
    case LC_NEVER_SEEN:
        break;
    }
    return refused(core, job, now_ns);
}

/* The txid commits to the whole request: where it stands under this key, the request does. Its
 * nonce and its sum were counted with the request that was first; of what this one has reserved,
 * the nonce is asked for again and the sum given back. */
static enum wal_step place_answered(struct wal_core *core, struct wal_job *job,
                                    const struct wal__word *word, uint64_t now_ns)
{
    struct ron_str idem_id = idem_id_of(job);

    if (word->absent || word->place.idem_id.len != idem_id.len ||
        memcmp(word->place.idem_id.ptr, idem_id.ptr, idem_id.len) != 0 ||
        word->place.seq != job->done.seq_first) {
        return refused_for(core, job, WAL_REASON_IDEM, now_ns);
    }
    wal__settle(core, job, WAL_UNKNOWN, WAL_REFUSED);
    job->replayed = true;
    return end_done(core, job, now_ns);
}

/* ---- the batch ------------------------------------------------------------------------------- */

static enum wal_step send_batch(struct wal_core *core, struct wal_job *job, uint64_t now_ns)
{
    struct wal_seal seal = {.ts_ms = ron_env_wall_ms(core->env),
                            .kid = job->kid,
                            .capability_ref = job->capability_ref};

    if (job->call->dry_run) {
        wal__settle(core, job, WAL_REFUSED, WAL_REFUSED);
    }
    job->_state = WAL__BATCH;
    ron_buf_clear(&job->payload);
    wal_call_encode(job->call, &seal, &job->payload);
    return ask(core, job, now_ns);
}

static void touched(struct wal_core *core, const struct wal_job *job)
{
    uint64_t true_ms = ron_au64_load(&core->fresh_ms);

    for (uint32_t i = 0; i < job->call->count; i++) {
        const struct wal_operation *o = &job->call->ops[i];
        const struct wal_hold *h = &job->_holds[i];

        if (o->from.len > 0) {
            wal_cache_changed(core->cache, h->from, job->done.seq_last, true_ms);
        }
        if (o->to.len > 0) {
            wal_cache_changed(core->cache, h->to, job->done.seq_last, true_ms);
        }
    }
}

static enum wal_step committed(struct wal_core *core, struct wal_job *job, uint64_t now_ns)
{
    wal__expect(core, job);
    /* A repetition of this job's own bytes is its first answer; of others, counted with them. */
    job->replayed = job->done.replayed && !job->_lost;
    wal__settle(core, job, job->replayed ? WAL_UNKNOWN : WAL_COMMITTED,
                job->replayed ? WAL_REFUSED : WAL_COMMITTED);
    if (!job->done.dry_run) {
        touched(core, job);
    }
    return end_done(core, job, now_ns);
}

/* The account is asked for the number that it expects, for whoever reads the answer. */
static enum wal_step nonce_refused(struct wal_core *core, struct wal_job *job, uint32_t idx,
                                   uint64_t now_ns)
{
    wal__settle(core, job, WAL_REFUSED, WAL_REFUSED);
    job->_at = RON_MIN(idx, job->call->count - 1);
    wal_nonce_forget(core->nonces, job->_holds[job->_at].from);
    job->_sure = true;
    job->_state = WAL__EXPECT;
    ron_buf_clear(&job->payload);
    lc_target_account(&job->payload, job->call->ops[job->_at].from);
    return ask(core, job, now_ns);
}

static enum wal_step expect_answered(struct wal_core *core, struct wal_job *job,
                                     const struct wal__word *word, uint64_t now_ns)
{
    uint64_t last = word->absent ? 0 : word->account.nonce;
    const struct wal_operation *o = &job->call->ops[job->_at];
    char detail[96];

    (void)snprintf(detail, sizeof detail, "expected %llu, got %llu", (unsigned long long)last + 1,
                   (unsigned long long)o->nonce);
    wal_fault_set(&job->fault, WAL_REASON_NONCE, "nonce", detail);
    if (!word->absent) {
        const struct wal_hold *h = &job->_holds[job->_at];

        wal__put_balance(core, job, h->from, h->from_pair, &word->account);
    }
    return end(core, job, now_ns);
}

static enum wal_step batch_answered(struct wal_core *core, struct wal_job *job,
                                    const struct wal__word *word, uint64_t now_ns)
{
    enum lc_reason reason = word->refusal.reason;

    if (word->tone == WAL__GOOD) {
        job->done = word->done;
        return committed(core, job, now_ns);
    }
    wal_fault_set(&job->fault, wal__reason_of(reason), "", word->refusal.message);
    if (reason == LC_REASON_IDEM_MISMATCH) {
        /* Whatever is under this key, an earlier try of this job is not, and cannot be any more. */
        wal_fault_set(&job->fault, WAL_REASON_IDEM, "", NULL);
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

static enum wal_step after_checks(struct wal_core *core, struct wal_job *job, enum wal__go go,
                                  uint64_t now_ns)
{
    switch (go) {
    case WAL__GO_READ:
        return ask(core, job, now_ns);
    case WAL__GO_WAIT:
        job->until_ns = RON_MIN(ron_sat_add_u64(now_ns, TURN_NS), job->deadline_ns);
        return WAL_STEP_WAIT;
    case WAL__GO_REFUSE:
        return look(core, job, now_ns); /* J7 */
    case WAL__GO_ANSWER:
        return refused(core, job, now_ns);
    case WAL__GO_ON:
        break;
    }
    return send_batch(core, job, now_ns);
}

static void reset(struct wal_core *core, struct wal_job *job, uint64_t now_ns)
{
    job->fault = (struct wal_fault){0};
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
static bool take_key(struct wal_core *core, struct wal_job *job, uint64_t now_ns)
{
    static const enum wal_reason reasons[] = {
        [WAL_IDEM_FIRST] = WAL_REASON_NONE,          [WAL_IDEM_REPLAY] = WAL_REASON_NONE,
        [WAL_IDEM_PENDING] = WAL_REASON_IN_PROGRESS, [WAL_IDEM_CONFLICT] = WAL_REASON_IDEM,
        [WAL_IDEM_FULL] = WAL_REASON_BUSY,
    };
    enum wal_idem_verdict verdict;

    job->_key = wal_key_of(&core->secret, WAL_KEY_IDEM, idem_id_of(job), (struct ron_str){"", 0});
    verdict = wal_idem_begin(core->idem, job->_key, job->call->fingerprint, now_ns / RON_NS_PER_MS,
                             job->out);
    job->_key_held = verdict == WAL_IDEM_FIRST;
    job->replayed = verdict == WAL_IDEM_REPLAY;
    if (reasons[verdict] != WAL_REASON_NONE) {
        wal_fault_set(&job->fault, reasons[verdict], "", NULL);
    } else if (job->replayed && ron_buf_error(job->out) != RON_OK) {
        wal_fault_set(&job->fault, WAL_REASON_BUSY, "", "no memory for the receipt");
    }
    return job->_key_held;
}

enum wal_step wal_job_begin(struct wal_core *core, struct wal_job *job, uint64_t now_ns)
{
    RON_ASSERT(job->_state == WAL__OVER && job->call->count > 0);
    let_go_of_memory(job);
    reset(core, job, now_ns);
    if (!job->call->dry_run && !take_key(core, job, now_ns)) {
        /* A request that has the key in our table may have lost it in the ledger to this one: the
         * table forgets, and its entry may be of a job that is still to learn that. */
        return job->fault.reason == WAL_REASON_IDEM ? look(core, job, now_ns) : WAL_STEP_ANSWER;
    }
    if (!wal__checks_begin(core, job)) {
        return end_with(core, job, WAL_REASON_BUSY, "no memory for the request", now_ns);
    }
    return after_checks(core, job, wal__checks(core, job), now_ns);
}

/* What an answer, or its absence, says about the ledger (J5). */
static enum ron_call_result result_of(const struct wal_job *job, const struct wal_reply *reply,
                                      const struct wal__word *word)
{
    bool cut = reply->kind != WAL_REPLY_ANSWERED && job->until_ns == job->deadline_ns;

    if (word->busy || word->elsewhere || cut) {
        return RON_CALL_VOID;
    }
    return word->tone == WAL__GOOD || word->tone == WAL__NO ? RON_CALL_SUCCESS : RON_CALL_FAILURE;
}

enum wal_step wal_job_answered(struct wal_core *core, struct wal_job *job,
                               const struct wal_reply *reply, uint64_t now_ns)
{
    struct wal__word word;

    RON_ASSERT(job->_state != WAL__OVER && job->_admitted);
    wal__word_read(job, reply, &word);
    report(core, job, result_of(job, reply, &word));
    if (word.elsewhere) {
        RON_IGNORE(lc_ledgers_refused(core->ledgers, job->which, word.refusal.leader));
    }
    job->_silent = job->_silent || word.tone == WAL__SILENT;
    job->_lost = job->_lost || (job->_state == WAL__BATCH && word.lost);
    if (word.tone == WAL__LATER || word.tone == WAL__SILENT) {
        return again(core, job, word.tone == WAL__SILENT, now_ns);
    }
    if (job->_state == WAL__BATCH) {
        return batch_answered(core, job, &word, now_ns);
    }
    if (word.tone == WAL__NO) {
        return give_up(core, job, now_ns); /* A read that the ledger does not allow us. */
    }
    switch ((enum wal__state)job->_state) {
    case WAL__OUTCOME:
        return outcome_answered(core, job, &word, now_ns);
    case WAL__PLACE:
        return place_answered(core, job, &word, now_ns);
    case WAL__EXPECT:
        return expect_answered(core, job, &word, now_ns);
    case WAL__NONCE:
    case WAL__TURN:
    case WAL__DEBITS:
    case WAL__TOTAL:
    case WAL__FUNDS:
    case WAL__BATCH:
    case WAL__OVER:
        break;
    }
    return after_checks(core, job, wal__checks_answered(core, job, &word), now_ns);
}

enum wal_step wal_job_waited(struct wal_core *core, struct wal_job *job, uint64_t now_ns)
{
    RON_ASSERT(job->_state != WAL__OVER && !job->_admitted);
    if (job->_state == WAL__TURN && now_ns < job->deadline_ns) {
        return after_checks(core, job, wal__checks(core, job), now_ns);
    }
    return try_once(core, job, now_ns);
}

void wal_job_abort(struct wal_core *core, struct wal_job *job, enum wal_reason reason)
{
    if (job->_state == WAL__OVER) {
        return;
    }
    if (job->_state == WAL__BATCH) {
        job->_lost = job->_lost || job->_admitted; /* under way */
    } else {
        job->_lost = false; /* the ledger has said what became of the batch, or it never left */
    }
    report(core, job, RON_CALL_VOID);
    wal__settle(core, job, job->_lost || job->_mismatch ? WAL_UNKNOWN : WAL_REFUSED,
                job->_lost ? WAL_UNKNOWN : WAL_REFUSED);
    (void)end_with(core, job, reason, NULL, 0);
}
