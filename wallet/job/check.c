/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/job/check.c - what a job reserves and looks at before its batch leaves: nonces, daily
 * sums, account totals, balances; and how reservations are settled.
 *
 * Place: wallet, part of wal_job. All of it is early advice: the ledger decides on nonces and
 * balances again. What cannot be known (no slot, or the ledger's word is forgotten faster than it
 * can be used) is left to it. */
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "wallet/job/priv.h"

enum {
    DAY_MS = 24 * 3600 * 1000,
    /* A learnt value may be forgotten before it is used when others want its slot. After so many
     * tries the operation goes on untracked. */
    ASKED_MAX = 3,
    ROOM_OPS_MIN = 16,
    TOTAL_KNOWN_MS = 60 * 1000, /* 2^32 entries in it would be 70 million a second */
    CHECK_NONCE = 1,
    CHECK_DAILY = 2,
    CHECK_TOTAL = 4,
    CHECK_FUNDS = 8,
};

static const struct wal_operation *op_at(const struct wal_job *job)
{
    return &job->call->ops[job->_at];
}

static struct wal_key account_of(const struct wal_core *core, struct ron_str account)
{
    return wal_key_of(&core->secret, WAL_KEY_ACCOUNT, account, (struct ron_str){"", 0});
}

/* ---- room ------------------------------------------------------------------------------------ */

static uint32_t heads_for(uint32_t ops)
{
    uint32_t n = 2 * ROOM_OPS_MIN;

    while (n < 2 * ops) {
        n *= 2;
    }
    return n;
}

static bool take_room(struct wal_job *job, uint32_t count)
{
    job->_heads = NULL;
    if (count == 1) {
        job->_holds = &job->_one;
        return true;
    }
    if (job->_room_ops < count) {
        uint32_t ops = RON_MAX(count, (uint32_t)ROOM_OPS_MIN);
        void *room = ron_alloc(ops * sizeof(struct wal_hold) + heads_for(ops) * sizeof(uint16_t));

        if (room == NULL) {
            return false;
        }
        ron_free(job->_room);
        job->_room = room;
        job->_room_ops = ops;
    }
    job->_holds = job->_room;
    job->_heads = (uint16_t *)(void *)(job->_holds + job->_room_ops);
    job->_heads_mask = heads_for(count) - 1;
    memset(job->_heads, 0, ((size_t)job->_heads_mask + 1) * sizeof *job->_heads);
    return true;
}

bool wal__checks_begin(struct wal_core *core, struct wal_job *job)
{
    uint32_t count = job->call->count;

    if (!take_room(job, count)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct wal_operation *o = &job->call->ops[i];
        struct wal_hold h = {0};

        if (o->from.len > 0) {
            h.from = account_of(core, o->from);
            h.from_pair = wal_key_pair(h.from, o->asset);
        }
        if (o->to.len > 0) {
            h.to = account_of(core, o->to);
            h.to_pair = wal_key_pair(h.to, o->asset);
        }
        job->_holds[i] = h;
    }
    wal__expect(core, job);
    return true;
}

void wal__expect(const struct wal_core *core, const struct wal_job *job)
{
    for (uint32_t i = 0; i < job->call->count; i++) {
        const struct wal_hold *h = &job->_holds[i];

        wal_daily_expect(core->daily, h->from_pair);
        wal_cache_expect(core->cache, h->from);
        wal_cache_expect(core->cache, h->to);
    }
}

/* The earlier operation of the batch that began this account's run of nonces, or NULL: then this
 * one does. At most half of the heads are taken, so the walk ends. */
static struct wal_hold *leader(struct wal_job *job, struct wal_key account)
{
    if (job->_heads == NULL) {
        return NULL;
    }
    for (uint32_t i = (uint32_t)account.a & job->_heads_mask;; i = (i + 1) & job->_heads_mask) {
        uint32_t head = job->_heads[i];

        if (head == 0) {
            job->_heads[i] = (uint16_t)(job->_at + 1);
            return NULL;
        }
        if (wal_key_eq(job->_holds[head - 1].from, account)) {
            return head - 1 == job->_at ? NULL : &job->_holds[head - 1];
        }
    }
}

/* ---- questions and refusals ------------------------------------------------------------------ */

static enum wal__go ask_account(struct wal_job *job, enum wal__state state, struct ron_str account)
{
    job->_state = (int)state;
    ron_buf_clear(&job->payload);
    lc_target_account(&job->payload, account);
    return WAL__GO_READ;
}

static enum wal__go ask_debits(struct wal_job *job)
{
    const struct wal_operation *o = op_at(job);

    job->_state = WAL__DEBITS;
    ron_buf_clear(&job->payload);
    lc_target_debits(&job->payload, o->from, o->asset, (uint64_t)job->_day * DAY_MS, job->_page);
    return WAL__GO_READ;
}

static enum wal__go refuse(struct wal_job *job, enum wal_reason reason, const char *member,
                           const char *detail)
{
    char name[48];

    if (job->call->batch) {
        (void)snprintf(name, sizeof name, "operations[%u].%s", job->_at, member);
        member = name;
    }
    wal_fault_set(&job->fault, reason, member, detail);
    return WAL__GO_REFUSE;
}

static enum wal__go refuse_amount(struct wal_job *job, enum wal_reason reason, const char *text,
                                  struct ron_money amount)
{
    char digits[RON_MONEY_TEXT_SIZE];
    char detail[120];

    (void)ron_money_format(amount, digits);
    (void)snprintf(detail, sizeof detail, "%s %s", text, digits);
    return refuse(job, reason, "amount_minor", detail);
}

static enum wal__go refuse_nonce(struct wal_job *job, uint64_t expected)
{
    char detail[96];

    (void)snprintf(detail, sizeof detail, "expected %llu, got %llu", (unsigned long long)expected,
                   (unsigned long long)op_at(job)->nonce);
    return refuse(job, WAL_REASON_NONCE, "nonce", detail);
}

/* ---- nonces ---------------------------------------------------------------------------------- */

static enum wal__go follow(struct wal_job *job, struct wal_hold *lead)
{
    if (op_at(job)->nonce != lead->nonce_last + 1) {
        return refuse_nonce(job, lead->nonce_last + 1);
    }
    lead->nonce_last++;
    return WAL__GO_ON;
}

static enum wal__go wrong_nonce(struct wal_core *core, struct wal_job *job, struct wal_hold *h,
                                uint64_t expected)
{
    /* Nonces only grow, so one below is wrong for ever. One above may be right: others than this
     * wallet may have written. */
    if (op_at(job)->nonce > expected && !h->refreshed) {
        h->refreshed = true;
        wal_nonce_forget(core->nonces, h->from);
        return ask_account(job, WAL__NONCE, op_at(job)->from);
    }
    return refuse_nonce(job, expected);
}

static enum wal__go check_nonce(struct wal_core *core, struct wal_job *job, struct wal_hold *h)
{
    const struct wal_operation *o = op_at(job);
    uint64_t expected = 0;
    struct wal_hold *lead;

    if (o->nonce == 0) {
        return WAL__GO_ON;
    }
    lead = leader(job, h->from);
    if (lead != NULL) {
        return follow(job, lead);
    }
    h->nonce_last = o->nonce;
    switch (wal_nonce_reserve(core->nonces, h->from, o->nonce, &h->ticket, &expected)) {
    case WAL_NONCE_RESERVED:
        h->nonce_held = true;
        return WAL__GO_ON;
    case WAL_NONCE_UNTRACKED:
        return WAL__GO_ON;
    case WAL_NONCE_ASK:
        return h->asked++ < ASKED_MAX ? ask_account(job, WAL__NONCE, o->from) : WAL__GO_ON;
    case WAL_NONCE_PENDING:
        (void)refuse(job, WAL_REASON_NONCE_PENDING, "nonce",
                     "another request of the account is being committed");
        return WAL__GO_ANSWER;
    case WAL_NONCE_WRONG:
        return wrong_nonce(core, job, h, expected);
    }
    return WAL__GO_ON;
}

/* ---- time ------------------------------------------------------------------------------------ */

static uint64_t now_ms(const struct wal_core *core)
{
    return ron_env_now_ns(core->env) / RON_NS_PER_MS;
}

/* A page takes a call, with its other tries; a job that ends meanwhile is missed no longer. */
static uint32_t lease_ms(const struct wal_core *core)
{
    return core->rpc_ms + core->rpc_ms / 2;
}

/* ---- daily sums ------------------------------------------------------------------------------ */

static enum wal__go check_daily(struct wal_core *core, struct wal_job *job, struct wal_hold *h)
{
    const struct wal_operation *o = op_at(job);
    struct ron_money left = RON_MONEY_ZERO;

    if (!wal_op_info(o->op)->debits || ron_money_cmp(core->daily_ceiling, RON_MONEY_MAX) == 0) {
        return WAL__GO_ON;
    }
    switch (wal_daily_reserve(core->daily, h->from_pair, job->_day, o->amount, core->daily_ceiling,
                              &left)) {
    case WAL_DAILY_OK:
        h->daily_held = true;
        return WAL__GO_ON;
    case WAL_DAILY_UNTRACKED:
        return WAL__GO_ON;
    case WAL_DAILY_ASK:
        if (h->asked_sums >= ASKED_MAX) { /* forgotten again and again: never past the ceiling */
            return refuse(job, WAL_REASON_BUSY, "amount",
                          "what the account paid today is not known yet; try again");
        }
        if (!wal_daily_walk(core->daily, h->from_pair, job->_day, now_ms(core), lease_ms(core),
                            &job->_debited, &job->_page)) {
            job->_state = WAL__TURN;
            return WAL__GO_WAIT;
        }
        h->asked_sums++;
        return ask_debits(job);
    case WAL_DAILY_EXCEEDED:
        return refuse_amount(job, WAL_REASON_LIMITS, "the day's ceiling leaves", left);
    }
    return WAL__GO_ON;
}

static enum wal__go debits_answered(struct wal_core *core, struct wal_job *job,
                                    const struct wal__word *word)
{
    struct ron_money sum = RON_MONEY_ZERO;

    if (!word->absent) {
        /* More than 2^128 - 1 in a day is above every ceiling. */
        sum = ron_money_add(job->_debited, word->debits.debited, &sum) == RON_MONEY_OK
                  ? sum
                  : RON_MONEY_MAX;
        job->_debited = sum;
        if (word->debits.next != 0) {
            job->_page = word->debits.next;
            wal_daily_walked(core->daily, job->_holds[job->_at].from_pair, job->_day, sum,
                             job->_page, now_ms(core), lease_ms(core));
            return ask_debits(job);
        }
    }
    wal_daily_learn(core->daily, job->_holds[job->_at].from_pair, job->_day, job->_debited);
    return WAL__GO_ON;
}

/* ---- totals and balances --------------------------------------------------------------------- */

void wal__put_balance(struct wal_core *core, const struct wal_job *job, struct wal_key account,
                      struct wal_key pair, const struct lc_account *found)
{
    struct wal_balance b = {.available = found->available,
                            .held = found->held,
                            .seq = found->seq,
                            .last_seq = found->last_seq,
                            .loaded_ms = job->_sent_ms};

    wal_cache_put(core->cache, account, pair, &b);
}

/* Whether what the account had within the last minute is so little that no number of credits which
 * a ledger can take in that time brings it to the ceiling. Then nobody need ask what it has now. */
static bool far_from_full(const struct wal_core *core, const struct wal_job *job,
                          const struct wal_balance *b)
{
    struct ron_money sum;

    return job->_begun_ms <= b->loaded_ms + TOTAL_KNOWN_MS &&
           ron_money_add(b->available, b->held, &sum) == RON_MONEY_OK &&
           ron_money_cmp(sum, core->total_far) < 0;
}

/* What this batch has already given to the same account: the ledger takes it whole. */
static struct ron_money given_before(const struct wal_job *job, struct wal_key to_pair)
{
    struct ron_money sum = RON_MONEY_ZERO;

    for (uint32_t i = 0; i < job->_at; i++) {
        if (wal_key_eq(job->_holds[i].to_pair, to_pair) &&
            ron_money_add(sum, job->call->ops[i].amount, &sum) != RON_MONEY_OK) {
            return RON_MONEY_MAX;
        }
    }
    return sum;
}

static bool total_fits(const struct wal_core *core, const struct wal_job *job,
                       struct ron_money available, struct ron_money held)
{
    struct ron_money sum = given_before(job, job->_holds[job->_at].to_pair);

    return ron_money_add(sum, available, &sum) == RON_MONEY_OK &&
           ron_money_add(sum, held, &sum) == RON_MONEY_OK &&
           ron_money_add(sum, op_at(job)->amount, &sum) == RON_MONEY_OK &&
           ron_money_cmp(sum, core->total_max) <= 0;
}

static enum wal__go check_total(struct wal_core *core, struct wal_job *job, struct wal_hold *h)
{
    const struct wal_operation *o = op_at(job);
    struct wal_balance b;

    if (!wal_op_info(o->op)->takes_to || ron_money_cmp(core->total_max, RON_MONEY_MAX) == 0) {
        return WAL__GO_ON;
    }
    /* A value that is known to be outdated is no knowledge of what is there now. */
    if (wal_cache_get(core->cache, h->to, h->to_pair, &b) &&
        (far_from_full(core, job, &b) ||
         (b.outdated_ms == 0 && total_fits(core, job, b.available, b.held)))) {
        return WAL__GO_ON;
    }
    return ask_account(job, WAL__TOTAL, o->to);
}

static enum wal__go total_answered(struct wal_core *core, struct wal_job *job,
                                   const struct lc_account *found)
{
    if (!total_fits(core, job, found->available, found->held)) {
        return refuse_amount(job, WAL_REASON_LIMITS, "the account may have at most",
                             core->total_max);
    }
    job->_holds[job->_at].done |= CHECK_TOTAL;
    return WAL__GO_ON;
}

/* Only of single operations: what others of a batch give first is the ledger's to know. */
static enum wal__go check_funds(struct wal_core *core, struct wal_job *job, struct wal_hold *h)
{
    const struct wal_operation *o = op_at(job);
    struct wal_balance b;

    if (job->call->count > 1 || wal_op_info(o->op)->subject_is_to ||
        wal_op_info(o->op)->takes_hold || !wal_cache_get(core->cache, h->from, h->from_pair, &b) ||
        b.outdated_ms != 0 || ron_money_cmp(b.available, o->amount) >= 0) {
        return WAL__GO_ON;
    }
    return ask_account(job, WAL__FUNDS, o->from);
}

static enum wal__go funds_answered(struct wal_job *job, const struct lc_account *found)
{
    if (ron_money_cmp(found->available, op_at(job)->amount) < 0) {
        return refuse_amount(job, WAL_REASON_FUNDS, "available is", found->available);
    }
    job->_holds[job->_at].done |= CHECK_FUNDS;
    return WAL__GO_ON;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static const struct {
    uint8_t bit;
    enum wal__go (*check)(struct wal_core *core, struct wal_job *job, struct wal_hold *h);
} checks[] = {{CHECK_NONCE, check_nonce},
              {CHECK_DAILY, check_daily},
              {CHECK_TOTAL, check_total},
              {CHECK_FUNDS, check_funds}};

enum wal__go wal__checks(struct wal_core *core, struct wal_job *job)
{
    for (; job->_at < job->call->count; job->_at++) {
        struct wal_hold *h = &job->_holds[job->_at];

        for (size_t i = 0; i < RON_ARRAY_LEN(checks); i++) {
            enum wal__go go;

            if ((h->done & checks[i].bit) != 0) {
                continue;
            }
            go = checks[i].check(core, job, h);
            if (go != WAL__GO_ON) {
                return go;
            }
            h->done |= checks[i].bit;
        }
    }
    return WAL__GO_ON;
}

enum wal__go wal__checks_answered(struct wal_core *core, struct wal_job *job,
                                  const struct wal__word *word)
{
    static const struct lc_account never_named = {0};
    const struct lc_account *found = word->absent ? &never_named : &word->account;
    const struct wal_hold *h = &job->_holds[job->_at];
    enum wal__go go = WAL__GO_ON;

    if (job->_state == WAL__DEBITS) {
        go = debits_answered(core, job, word);
    } else {
        if (!word->absent) {
            bool of_to = job->_state == WAL__TOTAL;

            wal__put_balance(core, job, of_to ? h->to : h->from, of_to ? h->to_pair : h->from_pair,
                             found);
        }
        if (job->_state == WAL__NONCE) {
            wal_nonce_learn(core->nonces, h->from, found->nonce);
        } else {
            go = job->_state == WAL__TOTAL ? total_answered(core, job, found)
                                           : funds_answered(job, found);
        }
    }
    return go == WAL__GO_ON ? wal__checks(core, job) : go;
}

/* ---- settling -------------------------------------------------------------------------------- */

static void settle_nonce(struct wal_core *core, struct wal_hold *h, uint64_t first,
                         enum wal_settle how)
{
    if (how == WAL_COMMITTED && h->nonce_last != first) {
        /* A run: the slot knows its first nonce only, the account stands at the last one. */
        wal_nonce_settle(core->nonces, h->ticket, WAL_UNKNOWN);
        wal_nonce_learn(core->nonces, h->from, h->nonce_last);
        return;
    }
    wal_nonce_settle(core->nonces, h->ticket, how);
}

void wal__settle(struct wal_core *core, struct wal_job *job, enum wal_settle nonces,
                 enum wal_settle sums)
{
    uint32_t count = RON_MIN(job->_at + 1, job->call->count);

    for (uint32_t i = 0; i < count && job->_holds != NULL; i++) {
        struct wal_hold *h = &job->_holds[i];
        const struct wal_operation *o = &job->call->ops[i];

        if (h->nonce_held) {
            h->nonce_held = false;
            settle_nonce(core, h, o->nonce, nonces);
        }
        if (h->daily_held) {
            h->daily_held = false;
            wal_daily_settle(core->daily, h->from_pair, job->_day, o->amount, sums);
        }
    }
}
